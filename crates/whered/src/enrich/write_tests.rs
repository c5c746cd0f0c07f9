//! What fields and texts look like in each style.
//!
//! Not for whole lines: tests/clients compares those with Python's readers.

use super::*;

fn field(style: Style, field: &Field<'_>) -> String {
    let mut out = Vec::new();
    style.write_field("a\"b", field, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_field_has_its_separator_and_its_escapes() {
    let text = Field::Text(b"a,\"b\"\t\\\n");
    let value = Field::Value(Value::String("a,\"b\"\t\\\n".to_owned()));
    let comma = Style::Cell { delimiter: b',' };
    let tab = Style::Cell { delimiter: b'\t' };
    assert_eq!(field(Style::Json, &text), ",\"a\\\"b\":\"a,\\\"b\\\"\\t\\\\\\n\"");
    assert_eq!(field(comma, &text), ",\"a,\"\"b\"\"\t\\\n\"");
    assert_eq!(field(tab, &text), "\ta,\"b\"\\t\\\\\\n");
    assert_eq!(field(Style::Log, &text), " \"a,\\\"b\\\"\\x09\\\\\\x0a\"");
    for style in [Style::Json, comma, tab, Style::Log] {
        assert_eq!(field(style, &value), field(style, &text), "{style:?}");
    }
    let nothing = [Style::Json, comma, tab, Style::Log].map(|style| field(style, &Field::Absent));
    assert_eq!(nothing, [",\"a\\\"b\":null", ",", "\t", " \"-\""]);
}

#[test]
fn every_byte_at_every_place_of_a_text_is_judged_plain_or_not() {
    for length in 0..20 {
        for place in 0..length {
            for byte in 0..=255_u8 {
                let mut text = vec![b'a'; length];
                text[place] = byte;
                let expected = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                assert_eq!(is_plain(&text), expected, "{byte} at {place} of {length}");
            }
        }
    }
}

#[test]
fn bytes_that_are_no_text_become_json_all_the_same() {
    let mut out = Vec::new();
    write_json_text(b"a\xff\0\x7f", &mut out);
    assert_eq!(out, "\"a\u{fffd}\\u0000\u{7f}\"".as_bytes());
}
