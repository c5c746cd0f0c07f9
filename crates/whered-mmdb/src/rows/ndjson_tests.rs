//! Tests of NDJSON rows: their three forms, and what is said of wrong ones.

use super::super::{read_csv, read_ndjson};
use super::*;
use crate::{Database, Writer, WriterOptions};

fn build(lines: &str) -> Result<(u64, Database), RowsError> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let count = read_ndjson(lines.as_bytes(), &mut writer)?;
    Ok((count, Database::from_bytes(writer.finish().unwrap()).unwrap()))
}

fn record(database: &Database, address: &str) -> Value {
    let id = database.lookup(address.parse().unwrap()).unwrap().record.unwrap();
    database.record(id).unwrap()
}

fn json(value: &Value) -> String {
    let mut out = Vec::new();
    value.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_three_forms_of_a_row_say_the_same() {
    let (count, database) = build(
        "\u{feff}{\"network\":\"192.0.2.0/26\",\"country.iso_code\":\"DE\",\"asn:uint16\":64500,\"cities.0.x\":1.5}\n\
         \n\
         {\"network\":\"192.0.2.64/26\",\"country\":{\"iso_code\":\"DE\"},\"asn:uint16\":\"64500\",\"cities\":[{\"x\":1.5}]}\r\n\
         {\"typed_record\":{\"country\":{\"iso_code\":\"DE\"},\"asn\":{\"#uint16\":64500},\"cities\":[{\"x\":1.5}]},\"network\":\"192.0.2.128/26\"}\n\
         {\"network\":\"192.0.2.192/26\",\"record\":{\"country\":{\"iso_code\":\"DE\"},\"asn\":64500,\"cities\":[{\"x\":1.5}]}}",
    )
    .unwrap();
    assert_eq!(count, 4);
    let expected = record(&database, "192.0.2.0");
    assert_eq!(
        json(&expected),
        r#"{"country":{"iso_code":"DE"},"asn":64500,"cities":[{"x":1.5}]}"#
    );
    assert_eq!(record(&database, "192.0.2.64"), expected);
    assert_eq!(record(&database, "192.0.2.128"), expected);
    let untyped = record(&database, "192.0.2.192");
    assert_eq!(json(&untyped), json(&expected));
    assert_eq!(untyped.get(&"asn".parse().unwrap()), Some(&Value::Uint32(64500)));
}

#[test]
fn a_prefix_beside_its_network_is_said_again_and_any_other_prefix_is_a_field() {
    let (_, database) = build(
        "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"record\":{\"a\":1}}\n\
         {\"network\":\"192.0.3.0/24\",\"prefix\":\"192.0.3.0/24\",\"a\":2}\n\
         {\"network\":\"192.0.4.0/24\",\"prefix\":\"+49\",\"a\":3}\n\
         {\"network\":\"192.0.5.0/24\",\"prefix\":\"192.0.9.0/24\",\"a\":4}\n",
    )
    .unwrap();
    assert_eq!(json(&record(&database, "192.0.2.1")), r#"{"a":1}"#);
    assert_eq!(json(&record(&database, "192.0.3.1")), r#"{"a":2}"#);
    assert_eq!(json(&record(&database, "192.0.4.1")), r#"{"prefix":"+49","a":3}"#);
    assert_eq!(json(&record(&database, "192.0.5.1")), r#"{"prefix":"192.0.9.0/24","a":4}"#);
    // The next version writes the prefix alone.
    let (_, database) = build("{\"prefix\":\"192.0.2.0/24\",\"record\":{\"a\":1}}\n").unwrap();
    assert_eq!(json(&record(&database, "192.0.2.1")), r#"{"a":1}"#);
}

#[test]
fn addresses_nulls_and_records_that_are_no_maps_are_taken() {
    let (_, database) = build(
        "{\"address\":\"192.0.2.1\",\"a\":null,\"b\":[null,1],\"c:uint16\":null}\n\
         {\"network\":\"2001:db8::/32\"}\n\
         {\"network\":\"192.0.3.0/24\",\"record\":\"text\"}\n\
         {\"network\":\"192.0.4.0/24\",\"record\":{\"a.b:c\":1}}\n",
    )
    .unwrap();
    assert_eq!(json(&record(&database, "192.0.2.1")), r#"{"b":[1]}"#);
    assert_eq!(json(&record(&database, "2001:db8::1")), "{}");
    assert_eq!(record(&database, "192.0.3.1"), Value::String("text".to_string()));
    assert_eq!(json(&record(&database, "192.0.4.1")), r#"{"a.b:c":1}"#);
}

#[test]
fn wrong_rows_are_named_by_line_and_column() {
    for (row, column) in [
        ("[]", "1"),
        ("{}", "1"),
        ("{\"network\":5}", "12"),
        ("{\"network\":\"10.0.0.0/33\"}", "12"),
        ("{\"address\":\"10.0.0.0/8\"}", "12"),
        ("{\"network\":\"10.0.0.0/8\",\"address\":\"10.0.0.0\"}", "25"),
        ("{\"network\":\"10.0.0.0/8\"} x", "26"),
        ("{\"network\":\"10.0.0.0/8\",\"a:uint16\":65536}", "36"),
        ("{\"network\":\"10.0.0.0/8\",\"a:text\":1}", "25"),
        ("{\"network\":\"10.0.0.0/8\",\"a..b\":1}", "25"),
        ("{\"network\":\"10.0.0.0/8\",\"a\":1,\"a\":2}", "31"),
        ("{\"network\":\"10.0.0.0/8\",\"a\":1,\"a.b\":2}", "31"),
        ("{\"network\":\"10.0.0.0/8\",\"a.b\":1,\"a.0\":2}", "33"),
        ("{\"network\":\"10.0.0.0/8\",\"a.1\":1}", "25"),
        ("{\"network\":\"10.0.0.0/8\",\"0\":1}", "25"),
        ("{\"network\":\"10.0.0.0/8\",\"a\":1,\"record\":2}", "31"),
        ("{\"network\":\"10.0.0.0/8\",\"record\":1,\"a\":2}", "36"),
        ("{\"network\":\"10.0.0.0/8\",\"record\":{\"a\":1,\"a\":2}}", "2"),
    ] {
        let text = format!("{{\"network\":\"192.0.2.0/24\"}}\n{row}\n");
        let error = build(&text).unwrap_err();
        assert_eq!((error.line(), error.column()), (2, column), "{row}: {error}");
        assert!(error.to_string().contains("allowed: "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn every_typed_value_comes_back_as_it_was() {
    let mut out = b"{\"network\":\"10.0.0.0/8\",\"typed_record\":".to_vec();
    let value = Value::Map(vec![
        ("#mark".to_string(), Value::Uint16(1)),
        ("##".to_string(), Value::Map(vec![("#x".to_string(), Value::Map(vec![]))])),
        ("list".to_string(), Value::Array(vec![Value::Float(1.1), Value::Double(1e300)])),
        ("zero".to_string(), Value::Double(-0.0)),
        ("inf".to_string(), Value::Float(f32::NEG_INFINITY)),
        ("64".to_string(), Value::Uint64(5)),
        ("128".to_string(), Value::Uint128(u128::MAX)),
        ("32".to_string(), Value::Uint32(u32::MAX)),
        ("int".to_string(), Value::Int32(-5)),
        ("bytes".to_string(), Value::Bytes(vec![0, 1, 255])),
        ("text".to_string(), Value::String("\u{1}\"\\é\n".to_string())),
        ("bool".to_string(), Value::Boolean(false)),
    ]);
    value.write_typed_json(&mut out);
    out.extend(b"}\n");
    let (_, database) = build(std::str::from_utf8(&out).unwrap()).unwrap();
    assert_eq!(record(&database, "10.0.0.1"), value);
}

#[test]
fn csv_and_ndjson_give_equal_bytes() {
    let mut csv = Writer::new(WriterOptions::default()).unwrap();
    read_csv(b"network,a.b,c:uint16\n10.0.0.0/8,x,7\n", &mut csv).unwrap();
    let mut ndjson = Writer::new(WriterOptions::default()).unwrap();
    let line = b"{\"network\":\"10.0.0.0/8\",\"a.b\":\"x\",\"c:uint16\":7}";
    read_ndjson(line, &mut ndjson).unwrap();
    assert_eq!(csv.finish().unwrap(), ndjson.finish().unwrap());
}
