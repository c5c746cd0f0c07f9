//! Tests of the splitter: records come out whole wherever they are cut, and what is between them
//! must be JSON.

use super::*;

/// Key, text, line and byte of a record.
type Record = (String, String, u64, u64);

/// All records, and whether the list ended; or what is allowed.
fn split(text: &[u8]) -> Result<(Vec<Record>, bool), &'static str> {
    let mut splitter = Splitter { line: 1, ..Splitter::default() };
    let mut records = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if splitter.step(text[at])? {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (key, record) = (text(&splitter.key), text(&splitter.record));
            records.push((key, record, splitter.record_line, splitter.record_byte));
            splitter.record.clear();
        } else {
            at += 1;
        }
    }
    Ok((records, splitter.state == State::End))
}

const ARRAY: &str =
    "\n[ {\"a\":[1,{\"b\":\"}]\\\"{\"}]},\n  {\n \"c\":2\n},null,[{}], \"x\\\\\" ,1e5]\n";
const OBJECT: &str = "{\"a\\\"b\" :\n{\"c\":{}},\"d\":{},\"e\":7}";

#[test]
fn records_of_an_array_are_its_elements() {
    let (records, is_ended) = split(ARRAY.as_bytes()).unwrap();
    assert!(is_ended);
    let texts: Vec<&str> = records.iter().map(|(_, text, ..)| text.as_str()).collect();
    let expected =
        ["{\"a\":[1,{\"b\":\"}]\\\"{\"}]}", "{\n \"c\":2\n}", "null", "[{}]", "\"x\\\\\"", "1e5"];
    assert_eq!(texts, expected);
    assert_eq!((records[0].2, records[1].2, records[2].2), (2, 3, 5));
    for (_, text, _, byte) in records {
        assert!(ARRAY[byte as usize..].starts_with(&text));
    }
}

#[test]
fn records_of_an_object_are_its_values_with_their_keys() {
    let (records, is_ended) = split(OBJECT.as_bytes()).unwrap();
    assert!(is_ended);
    let pairs: Vec<(&str, &str)> =
        records.iter().map(|(key, text, ..)| (key.as_str(), text.as_str())).collect();
    assert_eq!(pairs, [("\"a\\\"b\"", "{\"c\":{}}"), ("\"d\"", "{}"), ("\"e\"", "7")]);
}

#[test]
fn what_is_between_records_must_be_json() {
    for (text, allowed) in [
        ("7", "[ or {"),
        ("[,", "an object"),
        ("[{},]", "an object"),
        ("[{} {}", "a comma, or the end of the list"),
        ("[{}}", "a comma, or the end of the list"),
        ("[{}]x", "nothing behind the list"),
        ("{a", "a key in quotes"),
        ("{\"a\" 1", "a colon behind the key"),
        ("{\"a\":{},}", "a key in quotes"),
        ("{\"a\":}", "an object"),
        ("{\"a\":{}]", "a comma, or the end of the list"),
    ] {
        assert_eq!(split(text.as_bytes()), Err(allowed), "{text}");
    }
    for text in ["[]", " { } "] {
        assert_eq!(split(text.as_bytes()), Ok((Vec::new(), true)), "{text}");
    }
}

#[test]
fn a_list_cut_at_any_byte_has_no_end_and_whole_records_only() {
    for text in [ARRAY, OBJECT] {
        let text = text.trim_end();
        let (whole, _) = split(text.as_bytes()).unwrap();
        for end in 0..text.len() {
            let (records, is_ended) = split(&text.as_bytes()[..end]).unwrap();
            assert!(!is_ended, "{end}");
            assert_eq!(records, whole[..records.len()], "{end}");
        }
    }
}
