//! Address texts against the standard library: the same language and the same addresses, by each
//! code path of this processor.
//!
//! Not for speed; `bench/own` has that.

use super::*;
use proptest::prelude::*;

/// Holds every reader against the standard library's.
fn check(text: &[u8]) {
    let as_text = std::str::from_utf8(text).ok();
    let four = as_text.and_then(|text| text.parse().ok()).map(Ipv4Addr::to_bits);
    let six = as_text.and_then(|text| text.parse().ok()).map(Ipv6Addr::to_bits);
    let shown = || String::from_utf8_lossy(text).into_owned();
    assert_eq!(parse4(text), four, "{}", shown());
    assert_eq!(parse6(text), six, "{}", shown());
    assert_eq!(parse(text), as_text.and_then(|text| text.parse().ok()), "{}", shown());
    assert_eq!(DottedBlock::of(text).address(), four, "scalar: {}", shown());
    let block = GroupsBlock::of(text);
    assert_eq!(block.address(block.marks()), six, "scalar: {}", shown());
    // Inside buffers: with nothing, little and much behind it, of the most misleading kind.
    for behind in ["", "1", "5.5.5.5", ":ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff"]
    {
        let buffer = [b"9:", text, behind.as_bytes()].concat();
        let place = 2..2 + text.len();
        let mut found = [None];
        parse4_batch_within(&buffer, std::slice::from_ref(&place), &mut found);
        assert_eq!(found, [four], "{} before {behind}", shown());
        assert_eq!(DottedBlock::within(&buffer, &place).address(), four, "scalar: {}", shown());
        assert_eq!(parse6_within(&buffer, &place), six, "{} before {behind}", shown());
    }
}

#[test]
fn every_shape_of_dotted_decimal_is_read_as_the_standard_library_reads_it() {
    // All numbers of digits from none to four in each part, with digits that make the least, the
    // greatest and the first wrong number of that length, and such as begin with a zero.
    let parts = [
        "", "0", "7", "9", "00", "01", "10", "99", "000", "099", "100", "255", "256", "999", "1000",
    ];
    for a in parts {
        for b in parts {
            for c in parts {
                for d in parts {
                    let text = format!("{a}.{b}.{c}.{d}");
                    let expected = text.parse().ok().map(Ipv4Addr::to_bits);
                    assert_eq!(parse4(text.as_bytes()), expected, "{text}");
                    assert_eq!(DottedBlock::of(text.as_bytes()).address(), expected, "{text}");
                }
            }
        }
    }
}

#[test]
fn every_number_of_a_part_is_read() {
    for number in 0..=1100 {
        check(format!("{number}.0.0.{number}").as_bytes());
        check(format!("1.{number}.{number}.1").as_bytes());
    }
}

#[test]
fn every_byte_at_every_place_of_a_text_is_judged_as_the_standard_library_does() {
    for text in ["1.22.133.4", "255.255.255.255", "1.1.1.1", "1:22:333:4444::8", "::", "::1.2.3.4"]
    {
        for place in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.as_bytes().to_vec();
                changed[place] = byte;
                check(&changed);
            }
        }
        for length in 0..text.len() {
            check(&text.as_bytes()[..length]);
        }
    }
}

#[test]
fn every_arrangement_of_groups_and_colons_is_judged_as_the_standard_library_does() {
    // Up to nine groups, each empty, short, long or too long: one odd group among the same ones.
    for count in 0..=10 {
        for usual in ["1", "abcd", "", "0"] {
            for odd in ["", "F0e", "12345", "1.2.3.4", "g", "255.255.255.255", "1.2.3.400"] {
                for place in 0..count {
                    for other in 0..count {
                        let mut groups = vec![usual; count];
                        groups[place] = odd;
                        groups[other] = "";
                        check(groups.join(":").as_bytes());
                    }
                    let mut groups = vec![usual; count];
                    groups[place] = odd;
                    check(groups.join(":").as_bytes());
                }
            }
        }
    }
    for colons in 0..12 {
        check(":".repeat(colons).as_bytes());
    }
    check(b"1111:2222:3333:4444:5555:6666:255.255.255.255");
    check(b"1111:2222:3333:4444:5555:6666:7777:255.255.255.255");
    check(&b"1".repeat(100));
}

#[test]
fn places_outside_of_the_buffer_hold_no_address() {
    let mut found = [Some(1); 3];
    let backwards = Range { start: 7, end: 0 };
    parse4_batch_within(b"1.1.1.1", &[1..9, 50..57, backwards.clone()], &mut found);
    assert_eq!(found, [None; 3]);
    for place in [0..4, 50..52, backwards] {
        assert_eq!(parse6_within(b"::1", &place), None);
    }
}

/// An address as people, programs and mistakes write it.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let dotted = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_string());
    let groups = (any::<u128>(), any::<u128>()).prop_map(|(bits, zeros)| {
        // Whole groups of zeros are likely, so that "::" stands everywhere.
        let mask = (0..8).filter(|group| zeros >> group & 1 == 1);
        let mask = mask.fold(u128::MAX, |mask, group| mask & !(0xffff << (16 * group)));
        Ipv6Addr::from_bits(bits & mask).to_string()
    });
    let pieces = prop::collection::vec(
        prop_oneof![
            Just("::".to_owned()),
            Just(":".to_owned()),
            Just(".".to_owned()),
            "[0-9]{1,3}",
            "[0-9a-fA-F]{1,4}",
            "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}"
        ],
        0..18,
    )
    .prop_map(|pieces| pieces.concat());
    let mapped = any::<u32>().prop_map(|bits| format!("::ffff:{}", Ipv4Addr::from_bits(bits)));
    prop_oneof![dotted, groups, mapped, pieces].prop_map(String::into_bytes)
}

/// One byte taken out, put in or replaced.
fn mutate(text: &mut Vec<u8>, place: usize, kind: u8, byte: u8) {
    let place = place % (text.len() + 1);
    match kind % 3 {
        0 => text.insert(place, byte),
        1 if place < text.len() => text[place] = byte,
        _ if place < text.len() => {
            text.remove(place);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn likely_texts_are_read_as_the_standard_library_reads_them(
        mut text in texts(),
        changes in prop::collection::vec(
            (any::<usize>(), any::<u8>(), prop_oneof![Just(b':'), Just(b'.'), b'0'..=b'9', any::<u8>()]),
            0..3,
        ),
    ) {
        for (place, kind, byte) in changes {
            mutate(&mut text, place, kind, byte);
        }
        check(&text);
    }

    #[test]
    fn any_bytes_are_judged_as_the_standard_library_does(
        text in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        check(&text);
    }
}
