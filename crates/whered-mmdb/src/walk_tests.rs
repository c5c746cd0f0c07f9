//! Tests of the decoder on hand-made bytes: what the specification forbids, and what it does not
//! forbid but would cost too much.

use super::*;
use crate::value::{Value, ValueSink};

fn decode(bytes: &[u8]) -> Result<Value, MmdbError> {
    let mut sink = ValueSink::default();
    Section::new(bytes, 1_000).walk(0, &mut Budget::new(), &mut sink)?;
    Ok(sink.finish())
}

fn kind_of_fault(bytes: &[u8]) -> ErrorKind {
    decode(bytes).unwrap_err().kind()
}

fn locate(bytes: &[u8], path: &str) -> Result<Option<usize>, MmdbError> {
    Section::new(bytes, 0).locate(0, &path.parse().unwrap())
}

#[test]
fn the_specification_s_examples_are_read() {
    assert_eq!(decode(&[0b0100_0010, b'h', b'i']), Ok(Value::String("hi".into())));
    assert_eq!(decode(&[0b1100_0001, 7]), Ok(Value::Uint32(7)));
    assert_eq!(decode(&[0b0000_0011, 3, 1, 0, 0]), Ok(Value::Uint128(0x1_0000)));
    let mut long = vec![0b0101_1101, 51];
    long.resize(2 + 80, b'x');
    assert_eq!(decode(&long), Ok(Value::String("x".repeat(80))));
    let mut longer = vec![0b0101_1110, 51, 51];
    longer.resize(3 + 13_392, b'x');
    assert_eq!(decode(&longer), Ok(Value::String("x".repeat(13_392))));
}

#[test]
fn short_signed_numbers_have_no_sign_and_full_ones_do() {
    assert_eq!(decode(&[0x01, 1, 0xff]), Ok(Value::Int32(255)));
    assert_eq!(decode(&[0x04, 1, 0xff, 0xff, 0xff, 0xff]), Ok(Value::Int32(-1)));
    assert_eq!(decode(&[0x00, 1]), Ok(Value::Int32(0)));
}

#[test]
fn wrong_sizes_types_and_texts_are_refused_with_their_place() {
    for bytes in [
        &[0x67_u8, 0, 0, 0, 0, 0, 0, 0][..],   // a double of 7 bytes
        &[0xa3, 1, 2, 3],                      // a uint16 of 3 bytes
        &[0xc5, 1, 2, 3, 4, 5],                // a uint32 of 5 bytes
        &[0x09, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9], // a uint64 of 9 bytes
        &[0x05, 1, 1, 2, 3, 4, 5],             // an int32 of 5 bytes
        &[0x02, 7],                            // a boolean of size 2
        &[0x03, 8, 0, 0, 0],                   // a float of 3 bytes
        &[0x00, 6],                            // an end marker inside a record
        &[0x00, 5],                            // a cache container inside a record
        &[0x00, 0],                            // type 7 spelled as an extended type
        &[0x00, 9],                            // type 16
        &[0x42, 0xff, 0xff],                   // no UTF-8
        &[0x45, b'x'],                         // a string longer than the section
        &[0x5f, 0xff],                         // a size cut off
        &[0x20],                               // a pointer cut off
        &[0x20, 0x50],                         // a pointer past the end
        &[0x20, 2, 0x20, 0],                   // a pointer to a pointer
        &[0xe1, 0xa0, 0xa0],                   // a map key that is a number
        &[0xff, 0xff, 0xff, 0xff, 0x40],       // a map of 16 million pairs in one byte
        &[],                                   // nothing
    ] {
        let error = decode(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{bytes:x?}: {error}");
        assert!(error.offset_bytes().is_some_and(|offset| offset >= 1_000), "{error}");
    }
}

#[test]
fn a_fault_names_its_path() {
    // {"a": [true, {"b.c": <double of 7 bytes>}]}
    let bytes = [
        0xe1, 0x41, b'a', 0x02, 4, 0x01, 7, 0xe1, 0x43, b'b', b'.', b'c', 0x67, 0, 0, 0, 0, 0, 0, 0,
    ];
    let error = decode(&bytes).unwrap_err();
    assert_eq!(error.path(), "a.1.b\\.c");
    assert_eq!(error.offset_bytes(), Some(1_012));
    let error = locate(&bytes, "a.1.b\\.c.d").unwrap_err();
    assert_eq!(error.path(), "a.1.b\\.c");
}

#[test]
fn a_pointer_that_leads_back_ends_at_the_depth_limit() {
    // An array whose only element is a pointer to the array.
    assert_eq!(kind_of_fault(&[0x01, 4, 0x20, 0]), ErrorKind::Limit);
    let path = vec!["0"; 5_000].join(".");
    // Locating walks as far as the path says, each step at constant cost.
    assert_eq!(locate(&[0x01, 4, 0x20, 0], &path), Ok(Some(2)));
}

#[test]
fn the_depth_limit_is_exact() {
    let nested = |levels: usize| [vec![0x01, 4]; 1].concat().repeat(levels - 1);
    let mut bytes = nested(MAX_DEPTH);
    bytes.extend([0x00, 4]);
    assert!(decode(&bytes).is_ok());
    let mut bytes = nested(MAX_DEPTH + 1);
    bytes.extend([0x00, 4]);
    assert_eq!(kind_of_fault(&bytes), ErrorKind::Limit);
}

/// Arrays of ten pointers to the array before: 10^levels values in a few bytes a level.
fn laughs(levels: usize) -> (Vec<u8>, usize) {
    let mut bytes = vec![0x43, b'l', b'o', b'l'];
    let mut target = 0;
    for _ in 0..levels {
        let start = bytes.len();
        bytes.extend([0x0a, 4]);
        for _ in 0..10 {
            bytes.extend([0x20 | (target >> 8) as u8, target as u8]);
        }
        target = start;
    }
    (bytes, target)
}

#[test]
fn a_record_that_grows_by_its_pointers_is_refused_before_it_grows() {
    for (levels, is_fine) in [(1, true), (4, true), (5, false), (60, false)] {
        let (bytes, start) = laughs(levels);
        let mut sink = ValueSink::default();
        let walked = Section::new(&bytes, 0).walk(start, &mut Budget::new(), &mut sink);
        assert_eq!(walked.is_ok(), is_fine, "{levels} levels");
        if let Err(error) = walked {
            assert_eq!(error.kind(), ErrorKind::Limit);
        }
    }
}

#[test]
fn text_that_grows_by_pointers_is_refused() {
    let mut bytes = vec![0x5f, 0x0e, 0xfe, 0xe3];
    let size = 65_821 + 0x0e_fee3;
    bytes.resize(4 + size, b'x');
    let start = bytes.len();
    bytes.extend([0x1d, 4, 71]);
    for _ in 0..100 {
        bytes.extend([0x20, 0]);
    }
    let mut sink = ValueSink::default();
    let walked = Section::new(&bytes, 0).walk(start, &mut Budget::new(), &mut sink);
    assert_eq!(walked.unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn fields_are_located_through_pointers_and_past_nested_values() {
    // "k" at 0, then {->"k": {"x": [1, 2]}, "l": ->"k"} at 2.
    let bytes = [
        0x41, b'k', 0xe2, 0x20, 0, 0xe1, 0x41, b'x', 0x02, 4, 0xa1, 1, 0xa1, 2, 0x41, b'l', 0x20, 0,
    ];
    let section = Section::new(&bytes, 0);
    let at = |path: &str| section.locate(2, &path.parse().unwrap()).unwrap();
    assert_eq!(at(""), Some(2));
    assert_eq!(at("k"), Some(5));
    assert_eq!(at("k.x.1"), Some(12));
    assert_eq!(at("k.x.-1"), Some(12));
    assert_eq!(at("k.x.2"), None);
    assert_eq!(at("k.x.y"), None);
    assert_eq!(at("l"), Some(16));
    assert_eq!(at("l.x"), None);
    assert_eq!(at("m"), None);
}
