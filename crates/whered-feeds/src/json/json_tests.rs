//! Lines of JSON, right and wrong, by shape and by library.

use proptest::prelude::*;

use crate::testing::{both, check_error};
use crate::{FieldKind, Format, ItemsSource, Mapping, MappingSource};

fn mapping() -> Mapping {
    let mut source = MappingSource::new(Format::Ndjson);
    source.member = "object".into();
    source.longitude = Some("at.x".into());
    source.latitude = Some("at.y".into());
    source.time = Some("t".into());
    source.fields = vec![
        ("level".to_owned(), "level".into(), FieldKind::Integer),
        ("name".to_owned(), "names.0".into(), FieldKind::Text),
    ];
    source.items = Some(ItemsSource {
        each: "loot".to_owned(),
        key: "item".to_owned(),
        count: Some("n".to_owned()),
    });
    source.compile().unwrap()
}

#[test]
fn lines_are_records() {
    let upload = concat!(
        r#"{"object":7,"at":{"x":8.25,"y":-50.5},"t":1700000000,"level":3,"names":["a"]}"#,
        "\n",
        r#"{"object":"8","at":{"x":"1","y":2},"t":"2023-11-14T22:13:20Z","names":[]}"#,
        "\r\n\n",
        r#" {"at":{"y":2,"x":1},"object":"\u00e4\n","loot":[{"item":9,"n":2},{"item":"x"}]} "#,
    );
    assert_eq!(
        both(&mapping(), upload.as_bytes()),
        "0 7 (8.25 -50.5) @1700000000000 3 [a]\n\
         78 8 (1 2) @1700000000000 [-] [-]\n\
         154 \u{e4}\n (1 2) [-] [-] 2x9 1xx\n"
    );
}

#[test]
fn what_a_line_does_not_have_it_does_not_get_from_the_one_before() {
    let line = |rest: &str| format!("{{\"object\":7,\"at\":{{\"x\":1,\"y\":2}}{rest}}}\n");
    let levels = |rests: &[String]| {
        let upload: String = rests.iter().map(|rest| line(rest)).collect();
        let records = both(&mapping(), upload.as_bytes());
        let level = |record: &str| record.split(' ').nth(4).unwrap().to_owned();
        records.lines().map(level).collect::<Vec<_>>()
    };
    let level = |level: &str| format!(",\"level\":{level}");
    let absent = String::new();
    let few =
        [level("5"), level("null"), level("6"), absent.clone(), level("null"), absent.clone()];
    assert_eq!(levels(&few), ["5", "[-]", "6", "[-]", "[-]", "[-]"]);
    // More shapes than are remembered, with and without it, and the first ones again.
    let other = |n: usize, level: &str| format!(",\"own{n}\":1{level}");
    let many: Vec<String> = (0..40)
        .map(|n| other(n % 11, &if n % 2 == 0 { level(&n.to_string()) } else { absent.clone() }))
        .collect();
    let expected = (0..40).map(|n| if n % 2 == 0 { n.to_string() } else { "[-]".to_owned() });
    assert_eq!(levels(&many), expected.collect::<Vec<_>>());
}

#[test]
fn a_key_that_comes_twice_is_the_last_one() {
    let upload = concat!(
        r#"{"object":1,"at":{"x":1,"y":2},"names":[null],"names":[]}"#,
        "\n",
        r#"{"object":2,"at":{"x":1,"y":2},"names":[true],"names":[]}"#,
        "\n",
        r#"{"object":3,"at":{"x":1,"y":2},"level":null,"level":4}"#,
        "\n",
        r#"{"object":4,"at":{"x":1,"y":2},"level":5,"level":6}"#,
        "\n",
    );
    assert_eq!(
        both(&mapping(), upload.as_bytes()),
        "0 1 (1 2) [-] [-]\n58 2 (1 2) [-] [-]\n116 3 (1 2) 4 [-]\n171 4 (1 2) 6 [-]\n"
    );
}

#[test]
fn a_line_of_very_many_keys_is_read_like_any_other() {
    let keys: String = (0..80_000).map(|n| format!(",\"{n}\":{{}}")).collect();
    let line = format!("{{\"object\":7,\"at\":{{\"x\":1,\"y\":2}}{keys}}}\n");
    assert!(line.len() < 1 << 20);
    let records = both(&mapping(), line.repeat(3).as_bytes());
    assert_eq!(records.matches(" 7 (1 2) [-] [-]\n").count(), 3);
}

#[test]
fn lines_that_are_wrong_are_rejected_alone() {
    let upload = b"{\"object\":7,\"at\":{\"x\":1,\"y\":2}}\n\
        {\"object\":7,\"at\":{\"x\":1,\"y\":2}\n\
        [7]\n\
        {\"object\":{},\"at\":{\"x\":1,\"y\":2}}\n\
        {\"object\":\"\xff\",\"at\":{\"x\":1,\"y\":2}}\n\
        {\"object\":7,\"at\":{\"x\":1}}\n\
        {\"object\":7,\"at\":{\"x\":1,\"y\":2},\"loot\":7}\n\
        {\"object\":7,\"at\":{\"x\":1,\"y\":2},\"loot\":[{\"n\":7}]}\n\
        {\"object\":true,\"at\":{\"x\":1e1,\"y\":2},\"loot\":[],\"t\":null}\n";
    assert_eq!(
        both(&mapping(), upload),
        "0 7 (1 2) [-] [-]\n\
         32 reject: the line is no JSON: EOF while parsing an object at line 1 column 30\n\
         63 reject: the line is no JSON object\n\
         67 reject: object is an object\n\
         100 reject: the line is not UTF-8\n\
         134 reject: latitude is missing\n\
         160 reject: loot is no array\n\
         201 reject: an item's key is missing\n\
         250 true (10 2) [-] [-]\n"
    );
}

#[test]
fn deep_and_endless_lines_are_rejected_alone() {
    let deep = "[".repeat(10_000);
    let long = "7".repeat(2 << 20);
    let upload = format!(
        "{{\"a\":{deep}\n{{\"object\":{long}}}\n{{\"object\":1,\"at\":{{\"x\":1,\"y\":2}}}}"
    );
    let text = both(&mapping(), upload.as_bytes());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("0 reject: the line is no JSON: recursion limit"), "{text}");
    assert!(lines[1].ends_with("reject: a line of more than 1048576 bytes"), "{text}");
    assert!(lines[2].ends_with(" 1 (1 2) [-] [-]"), "{text}");
}

#[test]
fn a_key_that_comes_twice_counts_where_it_comes_last() {
    let line = r#"{"object":7,"object":8,"at":{"x":1,"y":2}}"#;
    let upload = format!("{line}\n{line}\n{line}\n");
    assert_eq!(both(&mapping(), upload.as_bytes()).matches(" 8 (1 2)").count(), 3);
}

#[test]
fn other_formats_are_refused_before_they_are_kept() {
    assert!(mapping().check(b"\n {\"object\"").is_ok());
    assert_eq!(
        check_error(&mapping(), b" [1]"),
        "byte 1: '[' where each line is a JSON object; an array is read with format = \"json\""
    );
    assert!(mapping().check(b"{\0\"\0").is_ok(), "UTF-16");
    assert_eq!(
        check_error(&mapping(), b"{\0\0\0"),
        "byte 0: the upload looks like UTF-32; allowed: UTF-8, UTF-16, and encodings that the web \
         knows"
    );
}

#[test]
fn mappings_that_make_no_sense_say_so() {
    let mut source = MappingSource::new(Format::Ndjson);
    source.member = "a..b".into();
    assert_eq!(
        source.compile().unwrap_err().to_string(),
        "member: \"a..b\"; allowed: a dotted path such as position.x, with quotes around a name that has \
         other signs, as '@id'"
    );
}

/// A value as clients write it, now and then an odd one.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "-?[1-9][0-9]{0,2}(\\.[0-9]{1,4})?",
        2 => "\"[a-z0-9]{0,9}\"",
        1 => Just("null".to_owned()),
        1 => Just("true".to_owned()),
        1 => "[-0-9.eE+]{1,6}",
        1 => "\"[ -~\u{e4}\u{1}]{0,6}\"",
        1 => Just("{}".to_owned()),
        1 => Just("[1,{\"x\":[]}]".to_owned()),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let item = (scalar(), scalar()).prop_map(|(a, b)| format!("{{\"item\":{a},\"n\":{b}}}"));
    let items = proptest::collection::vec(item, 0..4).prop_map(|items| items.join(","));
    let space = prop_oneof![9 => Just(""), 1 => Just(" ")];
    (scalar(), scalar(), scalar(), scalar(), items, space, 0..6).prop_map(
        |(a, x, y, t, items, space, form)| match form {
            0 => format!("{{\"object\":{a},\"at\":{{\"x\":{x},\"y\":{y}}},\"t\":{t}}}"),
            1 => format!(
                "{{\"t\":{t},\"object\":{a},\"at\":{{\"x\":{x},\"y\":{y},\"z\":{t}}}}}{space}"
            ),
            2 => format!("{{\"object\":{a},\"at\":{{\"x\":{x},\"object\":{y}}},\"object\":{t}}}"),
            3 => format!("{{\"object\":{a},\"names\":[{x},{y}],\"at\":{{\"x\":{x},\"y\":{y}}}}}"),
            _ => format!(
                "{{\"object\":{a},\"at\":{{\"x\":{x},\"y\":{y}}},\"loot\":[{items}{space}]}}"
            ),
        },
    )
}

proptest! {
    /// `both` compares the shapes with serde_json.
    #[test]
    fn shapes_and_library_agree(lines in proptest::collection::vec(line(), 1..24)) {
        both(&mapping(), lines.join("\n").as_bytes());
    }

    #[test]
    fn no_change_of_bytes_is_too_odd(
        lines in proptest::collection::vec(line(), 1..6),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut upload = [&lines[..], &lines[..]].concat().join("\n").into_bytes();
        for (place, byte) in changes {
            let place = place.index(upload.len());
            upload[place] = byte;
        }
        both(&mapping(), &upload);
    }
}
