//! Tests of the CSV rows: what comes out of sound ones, and what is said of wrong ones.

use super::super::read_csv;
use super::*;
use crate::{Database, WriterOptions};

fn build(csv: &str) -> Result<(u64, Database), RowsError> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let count = read_csv(csv.as_bytes(), &mut writer)?;
    Ok((count, Database::from_bytes(writer.finish().unwrap()).unwrap()))
}

fn json(database: &Database, address: &str) -> String {
    let id = database.lookup(address.parse().unwrap()).unwrap().record.unwrap();
    let mut out = Vec::new();
    database.write_record_json(id, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn fault(csv: &str) -> (u64, String, String) {
    let error = build(csv).unwrap_err();
    (error.line(), error.column().to_string(), error.to_string())
}

#[test]
fn every_type_of_cell_becomes_its_value() {
    let (count, database) = build(
        "\u{feff}network,s,d:double,f:float,a:uint16,b:uint32,c:uint64,e:uint128,i:int32,t:boolean,u:boolean,x:bytes\n\
         192.0.2.0/24,text,-1.5,0.25,1,2,3,340282366920938463463374607431768211455,-4,true,0,00fF\n",
    )
    .unwrap();
    assert_eq!(count, 1);
    assert_eq!(
        json(&database, "192.0.2.9"),
        "{\"s\":\"text\",\"d\":-1.5,\"f\":0.25,\"a\":1,\"b\":2,\"c\":3,\
         \"e\":340282366920938463463374607431768211455,\"i\":-4,\"t\":true,\"u\":false,\"x\":\"00FF\"}"
    );
}

#[test]
fn paths_build_maps_and_arrays_and_empty_cells_leave_them_out() {
    let (count, database) = build(
        "country.iso_code,address,subdivisions.0.iso_code,subdivisions.1.iso_code,country.names.en,odd\\.key\n\
         DE,192.0.2.1,BE,,Germany,\n\
         ,192.0.2.2,,SN,,\"a, \"\"b\"\"\n\
         second line\"\n\
         ,2001:db8::1,,,,\n",
    )
    .unwrap();
    assert_eq!(count, 3);
    assert_eq!(
        json(&database, "192.0.2.1"),
        r#"{"country":{"iso_code":"DE","names":{"en":"Germany"}},"subdivisions":[{"iso_code":"BE"}]}"#
    );
    assert_eq!(
        json(&database, "192.0.2.2"),
        r#"{"subdivisions":[{"iso_code":"SN"}],"odd.key":"a, \"b\"\nsecond line"}"#
    );
    assert_eq!(json(&database, "2001:db8::1"), "{}");
}

#[test]
fn wrong_cells_are_named_by_line_and_column() {
    for (csv, line, column) in [
        ("network,a:uint16\n1.0.0.0/8,1\n2.0.0.0/8,70000\n", 3, "a:uint16"),
        ("network,a:double\n1.0.0.0/8,inf\n", 2, "a:double"),
        ("network,a:float\n1.0.0.0/8,1e99\n", 2, "a:float"),
        ("network,a:boolean\n1.0.0.0/8,yes\n", 2, "a:boolean"),
        ("network,a:bytes\n1.0.0.0/8,abc\n", 2, "a:bytes"),
        ("network,a:bytes\n1.0.0.0/8,zz\n", 2, "a:bytes"),
        ("network,a:int32\n1.0.0.0/8,2147483648\n", 2, "a:int32"),
        ("network,a\nnonsense,1\n", 2, "network"),
        ("network,a\n1.0.0.0/33,1\n", 2, "network"),
        ("address,a\n1.0.0.0/8,1\n", 2, "address"),
        ("network,a\n1.0.0.0/8\n", 2, ""),
        ("network,a\n1.0.0.0/8,1,2\n", 2, ""),
    ] {
        let (found_line, found_column, text) = fault(csv);
        assert_eq!((found_line, found_column.as_str()), (line, column), "{text}");
        assert!(text.contains("allowed"), "{text}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    for (csv, column) in [
        ("", ""),
        ("a,b\n", ""),
        ("network,address\n", "address"),
        ("network,a:text\n", "a:text"),
        ("network,a..b\n", "a..b"),
        ("network,a,a\n", "a"),
        ("network,a,a.b\n", "a.b"),
        ("network,a.b,a\n", "a"),
        ("network,a.1\n", "a.1"),
        ("network,a.0,a.2\n", "a.2"),
        ("network,a.0,a.b\n", "a.b"),
        ("network,a.b,a.0\n", "a.0"),
        ("network,0\n", "0"),
    ] {
        let (line, found, text) = fault(csv);
        assert_eq!((line, found.as_str()), (1, column), "{csv:?}: {text}");
    }
}

#[test]
fn cells_that_are_no_text_are_refused() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let error = read_csv(b"network,a\n1.0.0.0/8,\xff\n", &mut writer).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, "a"));
}

#[test]
fn a_network_of_the_wrong_family_is_refused_with_its_line() {
    let options = WriterOptions { ip_version: 4, ..Default::default() };
    let mut writer = Writer::new(options).unwrap();
    let csv = b"network,a\n1.0.0.0/8,x\n2001:db8::/32,y\n";
    let error = read_csv(csv, &mut writer).unwrap_err();
    assert_eq!((error.line(), error.column()), (3, "network"));
}

#[test]
fn a_quote_that_is_never_closed_is_refused_with_its_line_and_cell() {
    for csv in [
        "network,a\n192.0.2.0/24,\"one\n192.0.3.0/24,two\n",
        "network,a\n192.0.2.0/24,\"one",
        "network,a\n192.0.2.0/24,\"one\"\"\n",
    ] {
        let (line, _, message) = fault(csv);
        assert_eq!(line, 2, "{csv}");
        assert!(message.contains("a quote in cell 2 that is never closed"), "{message}");
    }
    for sound in ["\"one\"", "\"o\"\"ne\"", "o\"ne", "o\"\"ne", "\"a\"b", "\"\"", "\"\"\"\""] {
        build(&format!("network,a\n192.0.2.0/24,{sound}")).expect(sound);
    }
}

#[test]
fn a_path_without_end_is_refused_and_not_followed() {
    let (line, _, message) =
        fault(&format!("network,{}\n192.0.2.0/24,x\n", vec!["a"; 200_000].join(".")));
    assert_eq!(line, 1);
    assert!(
        message.contains("a path of 200000 names; allowed: paths of up to 512 names"),
        "{message}"
    );
    assert!(message.len() < 300, "what is shown of a long name is cut: {} bytes", message.len());
}
