//! Rows against the csv crate, and rows that are wrong.

use proptest::prelude::*;

use crate::testing::{both, check_error, seen};
use crate::{FieldKind, Format, Mapping, MappingSource};

fn named(format: Format) -> Mapping {
    let mut source = MappingSource::new(format);
    source.member = "object".into();
    source.longitude = Some("x".into());
    source.latitude = Some("y".into());
    source.time = Some("t".into());
    source.fields = vec![("name".to_owned(), "name".into(), FieldKind::Text)];
    source.compile().unwrap()
}

fn numbered(format: Format) -> Mapping {
    let mut source = MappingSource::new(format);
    source.member = "#1".into();
    source.fields = vec![("second".to_owned(), "#2".into(), FieldKind::Text)];
    source.compile().unwrap()
}

#[test]
fn columns_are_found_by_the_header_in_any_order() {
    let upload =
        "y,object,name,x,extra,t\n50.5,7,\"a, \"\"b\"\"\",8.25,,1700000000\r\n\n1,8,,2,,\n";
    assert_eq!(
        both(&named(Format::Csv), upload.as_bytes()),
        "24 7 (8.25 50.5) @1700000000000 [a, \"b\"]\n61 8 (2 1) [-]\n"
    );
}

#[test]
fn columns_are_found_by_number_without_a_header() {
    let upload = b"\xef\xbb\xbf7\tfirst \"row\"\n8\n9\tthird\tmore";
    assert_eq!(
        both(&numbered(Format::Tsv), upload),
        "3 7 [first \"row\"]\n17 8 [-]\n19 9 [third]\n"
    );
}

#[test]
fn rows_that_are_wrong_are_rejected_alone() {
    let mapping = named(Format::Csv);
    let upload = b"object,x,y,t,name\n7,1,2,,\n8,1\n9,one,2,,\n10,1,2,,\xff\n11,1,2,9e99,\n12,181,2,,\n,1,2,,\n13,1,2,,\xc3\xa4\n";
    assert_eq!(
        both(&mapping, upload),
        "18 7 (1 2) [-]\n\
         26 reject: 2 columns where the header has 5\n\
         30 reject: longitude 'one' is not a number\n\
         40 reject: the row is not UTF-8\n\
         50 reject: time '9e99' is not in 1970 to 2199\n\
         63 reject: longitude 181 is not within -180 to 180 degrees\n\
         74 reject: member is missing\n\
         81 13 (1 2) [\u{e4}]\n"
    );
}

#[test]
fn line_ends_within_quotes_belong_to_the_field() {
    let upload = "7,\"two\nlines\"\r8,\"x\"y\n9,a\"b\n10,\"\"\"\"\n";
    assert_eq!(
        both(&numbered(Format::Csv), upload.as_bytes()),
        "0 7 [two\nlines]\n14 8 [xy]\n21 9 [a\"b]\n27 10 [\"]\n"
    );
}

/// Found by the fuzz target.
#[test]
fn a_byte_order_mark_is_dropped_at_the_beginning_only() {
    let upload = b"\xef\xbb\xbf7,a\n\xef\xbb\xbf8,b\n\n\xef\xbb\xbf\n";
    let mark = "\u{feff}";
    assert_eq!(
        both(&numbered(Format::Csv), upload),
        format!("3 7 [a]\n7 {mark}8 [b]\n15 {mark} [-]\n")
    );
}

#[test]
fn a_quote_that_is_never_closed_ends_the_scan_behind_what_was_read() {
    let upload = "7,a\n8,\"open\n9,b\n";
    assert_eq!(
        both(&numbered(Format::Csv), upload.as_bytes()),
        "0 7 [a]\nend: byte 4: a quoted field that is never closed; the rest cannot be read\n"
    );
}

#[test]
fn an_endless_row_costs_bounded_memory_and_only_itself() {
    let mapping = numbered(Format::Csv);
    for piece in ["a", ",", "\"\"\"\",", "\"a\","] {
        let mut upload = b"7,a\n".to_vec();
        while upload.len() < 3 << 20 {
            upload.extend_from_slice(piece.as_bytes());
        }
        upload.extend_from_slice(b"\n9,b\n");
        let text = both(&mapping, &upload);
        assert!(text.starts_with("0 7 [a]\n4 reject: a row of more than"), "{piece}: {text:.90}");
        assert!(text.ends_with(" 9 [b]\n"), "{piece}");
    }
}

#[test]
fn a_header_without_the_columns_is_refused_at_once() {
    let mapping = named(Format::Csv);
    assert!(mapping.check(b"object,x,y,t,name\n").is_ok());
    assert_eq!(
        check_error(&mapping, b"object,x,y,name\n"),
        "byte 0: the header has no column 't'; it begins 'object,x,y,name'"
    );
    assert_eq!(check_error(&mapping, b"\n \n"), "byte 0: the upload is empty");
}

#[test]
fn a_path_that_can_be_no_column_is_refused() {
    for path in ["#0", "#5000", "", " ", "@x", "../x", "a/@x", "points.0", "points[0]", "."] {
        let mut source = MappingSource::new(Format::Csv);
        source.member = "#1".into();
        source.time = Some(path.into());
        let error = source.compile().unwrap_err();
        assert_eq!(error.key(), "time", "{path}");
    }
}

fn row_source(format: Format, columns: &[&str]) -> MappingSource {
    let mut source = MappingSource::new(format);
    source.member = columns[0].into();
    let others = columns[1..].iter().map(|c| ((*c).to_owned(), (*c).into(), FieldKind::Text));
    source.fields = others.collect();
    source
}

#[test]
fn headers_are_found_in_any_case_with_units_quotes_and_blanks() {
    let upload = "# Timestamp, Speed (km/h) ,\"@id\",MMSI\n1,2,3,4\n";
    let columns = ["mmsi", "speed  (KM/H)", "'@id'", "# Timestamp", "#2"];
    let mapping = row_source(Format::Csv, &columns).compile().unwrap();
    assert_eq!(both(&mapping, upload.as_bytes()), "38 4 [2] [3] [1] [2]\n");
    let twice = row_source(Format::Csv, &["id"]).compile().unwrap();
    assert_eq!(
        check_error(&twice, b"ID,Id\n1,2\n"),
        "byte 0: the header has column 'id' as #1 and #2; allowed: one of these numbers"
    );
    let few = row_source(Format::Csv, &["a", "#3"]).compile().unwrap();
    assert_eq!(check_error(&few, b"a,b\n1,2\n"), "byte 0: the header has 2 columns, no #3");
}

#[test]
fn other_separators_lines_before_the_header_and_comments_are_read() {
    let mut source = row_source(Format::Csv, &["id", "x"]);
    source.rows.delimiter = Some(b';');
    source.rows.skip_lines = 2;
    source.rows.comment = Some(b'#');
    let mapping = source.compile().unwrap();
    let upload =
        b"made by,\"a machine\nof 2024\r\n# units: deg\nid;x\n1;a,b\n\n#2;c\r\n3;\"d;e\"\n# end";
    assert_eq!(both(&mapping, upload), "46 1 [a,b]\n59 3 [d;e]\n");
    for cut in 0..upload.len() {
        both(&mapping, &upload[..cut]);
    }
    let mut source = row_source(Format::Tsv, &["#1", "#3"]);
    source.rows.delimiter = Some(b'|');
    assert_eq!(both(&source.compile().unwrap(), b"a|\"|c\n"), "0 a [c]\n");
    for delimiter in [b'"', b'\n', b'\r', 0xff, 0] {
        let mut source = row_source(Format::Csv, &["id"]);
        source.rows.delimiter = Some(delimiter);
        assert_eq!(source.compile().unwrap_err().key(), "delimiter");
    }
}

proptest! {
    /// The csv crate reads the same fields from the whole.
    #[test]
    fn rows_are_those_of_the_csv_crate(upload in "([0-9ab\",\r\n]|\"[ab,]{0,3}\",|\n){0,40}") {
        let mapping = numbered(Format::Csv);
        if upload.trim_ascii().is_empty() {
            return Ok(());
        }
        let got = both(&mapping, upload.as_bytes());
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false).flexible(true).from_reader(upload.as_bytes());
        let members: Vec<String> = rows.records().map(|row| row.unwrap()[0].to_owned()).collect();
        let records = seen(&mapping, upload.as_bytes());
        if !got.contains("end: ") {
            prop_assert_eq!(records.members, members);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(upload in proptest::collection::vec(
        prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'1'), any::<u8>()], 0..60,
    )) {
        both(&numbered(Format::Csv), &upload);
        both(&numbered(Format::Tsv), &upload);
    }
}
