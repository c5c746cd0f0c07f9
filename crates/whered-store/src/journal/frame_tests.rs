//! Frames come back as they were written, and nothing else passes for one.

use super::*;
use proptest::prelude::*;

fn sealed(sequence: u64, kind: u16, payload: &[u8], salt: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (head, body) = payload.split_at(payload.len() / 2);
    push_frame(&mut bytes, sequence, kind, &[head, body]);
    seal(&mut bytes, salt);
    bytes
}

proptest! {
    #[test]
    fn a_frame_comes_back_as_it_was_written(
        sequence in 1_u64.., kind in 0..=KIND_MAX, salt: u64,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = sealed(sequence, kind, &payload, salt);
        bytes.extend_from_slice(&[0; 20]);
        prop_assert_eq!(
            parse(&bytes, Seed::of(salt)),
            ParsedFrame::Entry(Entry { sequence, kind, payload: &payload })
        );
        prop_assert!(!matches!(parse(&bytes, Seed::of(!salt)), ParsedFrame::Entry(_)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), salt: u64,
    ) {
        let _ = parse(&bytes, Seed::of(salt));
        let _ = find_highest_mark(&bytes, Seed::of(salt));
    }

    #[test]
    fn the_highest_mark_is_found_at_any_place(
        before in proptest::collection::vec(any::<u8>(), 0..100),
        durable in 0_u64..1000, other in 0_u64..1000, salt: u64,
    ) {
        let mut bytes = before;
        for durable_sequence in [durable, other] {
            let mut mark = mark_bytes(Mark { next_sequence: 1000, durable_sequence });
            seal(&mut mark, salt);
            bytes.extend_from_slice(&mark);
            bytes.push(8);
        }
        let found = find_highest_mark(&bytes, Seed::of(salt)).map(|mark| mark.durable_sequence);
        prop_assert_eq!(found, Some(durable.max(other)));
    }
}

#[test]
fn every_changed_bit_of_a_frame_is_noticed() {
    let bytes = sealed(77, 3, b"some payload", 5);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(parse(&changed, Seed::of(5)), ParsedFrame::Invalid(_)), "bit {bit}");
    }
}

#[test]
fn zeros_are_the_end_and_an_empty_payload_is_not() {
    assert_eq!(parse(&[0; 64], Seed::of(9)), ParsedFrame::End);
    assert_eq!(parse(&[], Seed::of(9)), ParsedFrame::End);
    for salt in 0..1000 {
        assert!(matches!(parse(&sealed(1, 0, b"", salt), Seed::of(salt)), ParsedFrame::Entry(_)));
    }
}

#[test]
fn a_mark_that_promises_the_future_is_invalid() {
    let mut bytes = mark_bytes(Mark { next_sequence: 4, durable_sequence: 4 });
    seal(&mut bytes, 1);
    assert!(matches!(parse(&bytes, Seed::of(1)), ParsedFrame::Invalid(_)));
    let good = Mark { next_sequence: 5, durable_sequence: 4 };
    let mut bytes = mark_bytes(good);
    seal(&mut bytes, 1);
    assert_eq!(parse(&bytes, Seed::of(1)), ParsedFrame::Mark(good));
    assert_eq!(bytes.len(), MARK_BYTES);
}
