//! Documents of JSON with records at several depths, right, cut and wrong.

use crate::testing::{both, check_error, seen};
use crate::{FieldKind, Format, Mapping, MappingSource, Record};

fn mapping(format: Format, record: &str, member: &str, others: &[&str]) -> Mapping {
    let mut source = MappingSource::new(format);
    source.record = record.to_owned();
    source.member = member.into();
    let fields = others.iter().map(|path| ((*path).to_owned(), (*path).into(), FieldKind::Text));
    source.fields = fields.collect();
    source.compile().unwrap()
}

#[test]
fn arrays_and_single_objects_are_records() {
    let plain = mapping(Format::Json, "", "id", &["at.0"]);
    let array = br#" [ {"id":1,"at":[5]} , {"id":2,"at":[6]},{"at":[7],"id":"]}"}] "#;
    assert_eq!(both(&plain, array), "3 1 [5]\n23 2 [6]\n41 ]} [7]\n");
    assert_eq!(both(&plain, b"{\"id\":1,\n \"at\":[5]}\n{\"id\":2}"), "0 1 [5]\n20 2 [-]\n");
    assert_eq!(both(&plain, b"\x1e{\"id\":1}\n\x1e{\"id\":2}\n"), "1 1 [-]\n11 2 [-]\n");
    assert_eq!(both(&plain, b"[]"), "");
    let rows = mapping(Format::Json, "states", "0", &["2", "../time"]);
    let states = br#"{"states":[["a",null,1.5],["b","x",2.5],["c",null,null]],"time":17}"#;
    assert_eq!(both(&rows, states), "11 a [1.5] [17]\n26 b [2.5] [17]\n40 c [-] [17]\n");
}

#[test]
fn records_are_found_below_arrays_with_values_of_the_levels_above() {
    let trips = mapping(Format::Json, "data.trips[].points", "../id", &["x", "../../data.day"]);
    let upload = br#"{"skip":{"trips":[1,"]"]},"data":{"day":"d","trips":[
        {"points":[{"x":1},{"x":2}],"id":"a"},{"id":"b","points":[]},{"id":"c"},
        {"id":"e","points":null},{"id":"f\"","points":[{"x":3}]}]}}"#;
    let found = seen(&trips, upload).text;
    let without_offsets: Vec<&str> =
        found.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
    assert_eq!(without_offsets, ["a [1] [d]", "a [2] [d]", "f\" [3] [d]"]);
    both(&trips, upload);
}

#[test]
fn features_are_records_alone_or_in_a_collection() {
    let mut source = MappingSource::new(Format::GeoJson);
    source.fields = vec![("name".to_owned(), "properties.name".into(), FieldKind::Text)];
    let mapping = source.compile().unwrap();
    let feature = |id: &str, geometry: &str| {
        format!(
            r#"{{"type":"Feature","id":{id},"properties":{{"name":"n"}},"geometry":{geometry}}}"#
        )
    };
    let point = r#"{"type":"Point","coordinates":[8.5,50.25,100]}"#;
    let line = r#"{"type":"LineString","coordinates":[[8.5,50.25],[9,51]]}"#;
    let one = feature("7", point);
    assert_eq!(both(&mapping, one.as_bytes()), "0 7 (8.5 50.25) [n]\n");
    let all = [one, feature("\"b\"", line), feature("9", "null"), feature("10", point)].join(",\n");
    let all = format!("{{\"type\":\"FeatureCollection\",\"features\":[{all}]}}");
    let found = both(&mapping, all.as_bytes());
    let reasons: Vec<&str> = found.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        reasons,
        [
            "7 (8.5 50.25) [n]",
            "reject: geometry.coordinates.0 is an array",
            "reject: longitude is missing",
            "10 (8.5 50.25) [n]",
        ]
    );
}

#[test]
fn a_wrong_record_is_rejected_alone_and_broken_brackets_end_the_scan() {
    let mapping = mapping(Format::Json, "a", "id", &[]);
    let found = both(&mapping, br#"{"a":[{"id":1},{"id":01},7,{"id":"\x"},{"id":2}]}"#);
    let kinds: Vec<&str> = found.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!((kinds[0], kinds[4], kinds.len()), ("1", "2", 5), "{found}");
    for (upload, message) in [
        (&br#"{"a":[{"id":1},{"id":2]]}"#[..], "end: byte 22: ']]}' where a value is allowed"),
        (br#"{"a":[{"id":1} {"id":2}]}"#, "end: byte 15: '{\"id\":2}' where ',' or ']' is allowed"),
        (br#"{"a":[{"id":1}],"a":[]}"#, "end: byte 16: the key 'a' comes twice"),
        (br#"{"b":[{"id":1}]}"#, "end: byte 0: the document has no 'a'"),
        (br#"{"a":5}"#, "end: byte 5: 'a' is no array"),
        (br#"[{"id":1}]"#, "end: byte 0: no object that has 'a'"),
        (
            br#"{"a":[{"id":1},"#,
            "end: byte 15: the upload ends within a value that begins at byte 15",
        ),
    ] {
        let found = both(&mapping, upload);
        let shown = found.lines().last().unwrap().replace("\\\"", "\"");
        assert_eq!(shown, message);
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_no_panic() {
    let upload = br#"[{"day":"x","t":[{"id":1,"v":"\u00e4"},{"id":2,"v":null}]},{"t":[{"id":3}],"day":[4]}]"#;
    let mapping = mapping(Format::Json, "[].t", "id", &["v", "../day"]);
    for end in 0..upload.len() {
        both(&mapping, &upload[..end]);
        for byte in [b'"', b'[', b'}', b'\\', b',', 0xff, b' '] {
            let mut changed = upload.to_vec();
            changed[end] = byte;
            both(&mapping, &changed);
        }
    }
}

#[test]
fn deep_brackets_and_long_records_are_refused() {
    struct Nothing;
    impl crate::Events for Nothing {
        fn record(&mut self, _: &Record<'_>) {}
        fn reject(&mut self, _: u64, _: &str) {}
    }
    let mapping = mapping(Format::Json, "", "id", &[]);
    let deep = format!("[{}", "[".repeat(1 << 20));
    assert!(mapping.scan(deep.as_bytes(), &mut Nothing).unwrap_err().message().contains("deeper"));
    let long = format!("[{{\"id\":\"{}\"}},{{\"id\":2}}]", "a".repeat(2 << 20));
    let totals = mapping.scan(long.as_bytes(), &mut Nothing).unwrap();
    assert_eq!((totals.records, totals.rejected), (1, 1));
}

#[test]
fn what_begins_like_no_document_is_refused_at_once() {
    let mapping = mapping(Format::Json, "a", "id", &[]);
    assert!(mapping.check(b" {").is_ok() && mapping.check(b"[").is_ok());
    assert_eq!(
        check_error(&mapping, b"<a/>"),
        "byte 0: '<' where a JSON document begins; is it XML?"
    );
}
