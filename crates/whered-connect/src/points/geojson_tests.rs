//! Tests of the splitter: records come out whole wherever the text stands.

use super::*;

/// All records with their lines and bytes, or why not.
fn split(text: &str) -> Result<Vec<(String, u64, u64)>, &'static str> {
    let list_key = b"features".to_vec();
    let mut splitter = Splitter { line: 1, list_key, ..Splitter::default() };
    let mut records = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match splitter.step(byte, at as u64) {
            Step::More => {}
            Step::Unbalanced => return Err("unbalanced"),
            Step::Record => {
                let text = String::from_utf8(splitter.record.clone()).unwrap();
                records.push((text, splitter.record_line, splitter.record_byte));
                splitter.next();
            }
        }
    }
    if splitter.depth > 0 { Err("open") } else { Ok(records) }
}

fn texts(text: &str) -> Vec<String> {
    split(text).unwrap().into_iter().map(|(text, _, _)| text).collect()
}

#[test]
fn features_of_a_collection_are_records_and_nothing_else_of_it_is() {
    let text = r#"{"type":"FeatureCollection","crs":{"a":[{"features":[{"x":1}]}]},
 "features" : [ {"id":1,"a":{"b":[1,2]}},
 {"id":"}]\"{"} ],"bbox":[1,2],"more":{"x":{}}}"#;
    let records = split(text).unwrap();
    assert_eq!(records[0].0, r#"{"id":1,"a":{"b":[1,2]}}"#);
    assert_eq!(records[1].0, r#"{"id":"}]\"{"}"#);
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].1, records[1].1), (2, 3));
    for (record, _, byte) in records {
        assert!(text[byte as usize..].starts_with(&record));
    }
}

#[test]
fn features_one_after_the_other_are_records() {
    assert_eq!(texts("{\"a\":1}\n\u{1e}{\"b\":{}} {}"), ["{\"a\":1}", "{\"b\":{}}", "{}"]);
}

#[test]
fn a_feature_after_a_collection_is_a_record() {
    let text = r#"{"features":[{"a":1}],"x":2} {"b":3} {"features":[{"c":4}]}"#;
    assert_eq!(texts(text), [r#"{"a":1}"#, r#"{"b":3}"#, r#"{"c":4}"#]);
}

#[test]
fn a_string_that_says_features_is_no_key() {
    assert_eq!(texts(r#"{"a":"features","b":[{}]}"#), [r#"{"a":"features","b":[{}]}"#]);
    assert_eq!(texts(r#"{"features":null,"b":[{"c":1}]}"#).len(), 1);
    assert_eq!(texts(r#"{"features":[]}"#).len(), 0);
}

#[test]
fn brackets_that_do_not_match_are_told() {
    assert_eq!(split("}"), Err("unbalanced"));
    assert_eq!(split("{\"a\":1"), Err("open"));
    assert_eq!(split(r#"{"features":[{"a":1}"#), Err("open"));
}
