//! Tests of the JSON reader: what is read, and what is said of what is no JSON.

use super::*;

fn read(text: &str) -> Result<Value, Fault> {
    let mut reader = Reader::new(text.as_bytes());
    let value = reader.value()?;
    reader.end()?;
    Ok(value.expect("no null"))
}

fn text(text: &str) -> Value {
    Value::String(text.to_string())
}

#[test]
fn every_kind_of_value_is_read() {
    for (json, value) in [
        ("\"\"", text("")),
        (
            "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00z\"",
            text("a\"\\/\u{8}\u{c}\n\r\té😀z"),
        ),
        ("\"é\"", text("é")),
        ("true", Value::Boolean(true)),
        (" false ", Value::Boolean(false)),
        ("0", Value::Uint32(0)),
        ("4294967295", Value::Uint32(u32::MAX)),
        ("4294967296", Value::Uint64(1 << 32)),
        ("18446744073709551616", Value::Uint128(1 << 64)),
        ("340282366920938463463374607431768211455", Value::Uint128(u128::MAX)),
        ("-1", Value::Int32(-1)),
        ("-2147483648", Value::Int32(i32::MIN)),
        ("1.0", Value::Double(1.0)),
        ("-2.5e-3", Value::Double(-0.0025)),
        ("1E2", Value::Double(100.0)),
        ("[]", Value::Array(vec![])),
        ("[1, [true] ,null, {}]", {
            let inner = Value::Array(vec![Value::Boolean(true)]);
            Value::Array(vec![Value::Uint32(1), inner, Value::Map(vec![])])
        }),
        ("{\"a\":{\"b\":null,\"c\":\"d\"}}", {
            let inner = Value::Map(vec![("c".to_string(), text("d"))]);
            Value::Map(vec![("a".to_string(), inner)])
        }),
    ] {
        assert_eq!(read(json), Ok(value), "{json}");
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (json, at) in [
        ("", 0),
        ("  ", 2),
        ("nul", 0),
        ("True", 0),
        ("'a'", 0),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
        ("\"\\u12\"", 1),
        ("\"\\ud800\"", 1),
        ("\"\\ud800\\u0041\"", 1),
        ("\"\\udc00\"", 1),
        ("01", 0),
        ("-01", 1),
        ("-", 1),
        ("1.", 2),
        ("1e", 2),
        ("+1", 0),
        (".5", 0),
        ("1 2", 2),
        ("NaN", 0),
        ("1e999", 0),
        ("-2147483649", 0),
        ("340282366920938463463374607431768211456", 0),
        ("[1,]", 3),
        ("[1", 2),
        ("[1 2]", 3),
        ("{\"a\"}", 4),
        ("{a:1}", 1),
        ("{\"a\":1,}", 7),
        ("{\"a\":}", 5),
        ("]", 0),
    ] {
        let fault = read(json).unwrap_err();
        assert_eq!(fault.at, at, "{json}: {fault:?}");
        assert!(!fault.found.is_empty() && !fault.allowed.is_empty());
    }
    let mut reader = Reader::new(b"\"a\xff\"");
    assert_eq!(reader.value().unwrap_err().at, 2);
}

#[test]
fn depth_has_a_bound() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(read(&nested(MAX_DEPTH)).is_ok());
    let fault = read(&nested(100_000)).unwrap_err();
    assert!(fault.found.contains("too deep"), "{fault:?}");
}

#[test]
fn marked_types_are_read_and_marks_can_be_names() {
    let typed = |json: &str| Reader::new(json.as_bytes()).typed_value();
    for (json, value) in [
        ("{\"#uint16\":5}", Value::Uint16(5)),
        ("{\"#uint128\":5}", Value::Uint128(5)),
        ("{\"#int32\":7}", Value::Int32(7)),
        ("{\"#float\":1.1}", Value::Float(1.1)),
        ("{\"#double\":\"-inf\"}", Value::Double(f64::NEG_INFINITY)),
        ("{\"#bytes\":\"00FF\"}", Value::Bytes(vec![0, 255])),
        ("[{\"#uint64\":1},2]", Value::Array(vec![Value::Uint64(1), Value::Uint32(2)])),
        ("{\"##a\":1}", Value::Map(vec![("#a".to_string(), Value::Uint32(1))])),
        ("{\"a#\":1}", Value::Map(vec![("a#".to_string(), Value::Uint32(1))])),
    ] {
        assert_eq!(typed(json), Ok(Some(value)), "{json}");
    }
    for (json, at) in [
        ("{\"#uint17\":5}", 1),
        ("{\"#uint16\":65536}", 11),
        ("{\"#uint16\":[1]}", 11),
        ("{\"#uint16\":null}", 1),
        ("{\"#uint16\":1,\"a\":2}", 1),
        ("{\"#uint16\":1,\"#uint16\":2}", 13),
        ("null", 0),
    ] {
        assert_eq!(typed(json).unwrap_err().at, at, "{json}");
    }
    // Without types a mark is a name like any other.
    let map = Value::Map(vec![("#uint16".to_string(), Value::Uint32(5))]);
    assert_eq!(read("{\"#uint16\":5}"), Ok(map));
}
