//! Leaves alone, against a plain list of entries.

use super::*;
use crate::points::overflow::Text;

type Entries = Vec<(u64, Vec<u8>)>;

fn leaf_of(entries: &[(u64, &[u8])]) -> Leaf {
    let mut leaf = Leaf::of_one(entries[0].0, Text::Inside(entries[0].1));
    for (slot, &(bits, member)) in entries.iter().enumerate().skip(1) {
        leaf.insert(slot, bits, Text::Inside(member));
    }
    leaf
}

fn entries_of(leaf: &Leaf, overflow: &Overflow) -> Entries {
    (0..leaf.len())
        .map(|slot| (leaf.cell_bits(slot), leaf.member(slot, overflow).to_vec()))
        .collect()
}

#[test]
fn texts_are_kept_as_reply_bulk_strings() {
    let mut overflow = Overflow::default();
    let mut leaf = leaf_of(&[(9, b"fra")]);
    leaf.insert(0, 5, Text::Inside(b""));
    leaf.insert(2, 9, Text::Overflow(overflow.insert(&[b'x'; 1025])));
    assert_eq!(leaf.all_text(), b"$0\r\n\r\n$3\r\nfra\r\n!\0\0\0\0");
    assert_eq!(leaf.member(0, &overflow), b"");
    assert_eq!(leaf.member(1, &overflow), b"fra");
    assert_eq!(leaf.member(2, &overflow), [b'x'; 1025]);
    assert_eq!(leaf.bulks(0..2), Some(&b"$0\r\n\r\n$3\r\nfra\r\n"[..]));
    assert_eq!(leaf.bulks(0..3), None);
    assert_eq!(leaf.overflow_number(2), Some(0));
    assert_eq!(leaf.find(9, b"fra", &overflow), Ok(1));
    assert_eq!(leaf.find(9, b"fraa", &overflow), Err(2));
    leaf.remove(2);
    leaf.remove(0);
    assert_eq!(leaf.all_text(), b"$3\r\nfra\r\n");
    assert_eq!(leaf.bulks(0..1), Some(&b"$3\r\nfra\r\n"[..]));
}

#[test]
fn members_of_every_length_come_back() {
    for length in [0, 1, 9, 10, 99, 100, 999, 1000, 1024, 1025, 9999, 10_000, 1 << 20] {
        let mut overflow = Overflow::default();
        let member = vec![b'\r'; length];
        let text = match length {
            ..=1024 => Text::Inside(&member),
            _ => Text::Overflow(overflow.insert(&member)),
        };
        let leaf = Leaf::of_one(1, text);
        assert_eq!(leaf.member(0, &overflow), member);
    }
}

#[test]
fn a_leaf_of_long_texts_is_full_by_its_bytes_and_cut_in_its_middle() {
    let member = [b'm'; 1024];
    let text = Text::Inside(&member);
    let mut leaf = Leaf::of_one(100, text);
    while !leaf.is_full_for(text) {
        leaf.insert(0, 100 - leaf.len() as u64, text);
    }
    assert!(leaf.len() > 25);
    let upper = leaf.cut(leaf.cut_for(0));
    assert!(leaf.len().abs_diff(upper.len()) <= 1);
    assert!(leaf.last() < upper.first());
}

#[test]
fn keys_are_narrow_when_the_span_allows_and_wide_otherwise() {
    let far = 1u64 << 40;
    let mut leaf = leaf_of(&[(7 << 20, b"a"), (8 << 20, b"b")]);
    assert!(matches!(leaf.keys(), Keys::Narrow { base, deltas: [0, _] } if base == 7 << 20));
    leaf.insert(0, 5, Text::Inside(b"before"));
    assert!(matches!(leaf.keys(), Keys::Narrow { base: 5, .. }));
    leaf.insert(3, far, Text::Inside(b"after"));
    assert!(matches!(leaf.keys(), Keys::Wide([5, .., last]) if *last == far));
    assert_eq!(leaf.find(8 << 20, b"b", &Overflow::default()), Ok(2));
    let upper = leaf.cut(3);
    assert!(matches!(leaf.keys(), Keys::Narrow { base: 5, .. }));
    assert!(matches!(upper.keys(), Keys::Narrow { deltas: [0], .. }));
    leaf.append(&upper);
    assert!(matches!(leaf.keys(), Keys::Wide(_)));
    assert_eq!(leaf.keys().rank(6), 1);
    assert_eq!(leaf.keys().rank(u64::MAX), 4);
}

#[test]
fn random_edits_agree_with_a_list_while_copies_stay_as_they_were() {
    let mut state = 5u64;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    for spread in [1u64 << 12, 1 << 33, 1 << 52] {
        let overflow = Overflow::default();
        let mut list: Entries = vec![(1, b"first".to_vec())];
        let mut leaf = leaf_of(&[(1, b"first")]);
        let mut kept: Option<(Leaf, Entries)> = None;
        for round in 0..20_000u64 {
            let bits = random(1 << 20) * (spread >> 12) / 256;
            let member = vec![b'm'; random(30) as usize + 1];
            let from = random(list.len() as u64) as usize;
            match random(3) {
                0 if list.len() < MOST_ENTRIES => {
                    let place = list.partition_point(|entry| *entry < (bits, member.clone()));
                    list.insert(place, (bits, member.clone()));
                    leaf.insert(place, bits, Text::Inside(&member));
                }
                1 if list.len() > 1 => {
                    list.remove(from);
                    leaf.remove(from);
                }
                _ => {
                    let (_, member) = list.remove(from);
                    let to = list.partition_point(|entry| *entry < (bits, member.clone()));
                    list.insert(to, (bits, member));
                    leaf.relocate(from, to, bits);
                }
            }
            if round % 8 == 0 {
                assert_eq!(entries_of(&leaf, &overflow), list);
                if let Some((copy, then)) = &kept {
                    assert_eq!(&entries_of(copy, &overflow), then);
                }
                kept = (round % 64 == 0).then(|| (leaf.clone(), list.clone()));
            }
        }
        // A quarter at most by the rounding, and a sixteenth that is left when entries go.
        assert!(leaf.memory_bytes() <= leaf.used_bytes() * 21 / 16 + 128);
    }
}
