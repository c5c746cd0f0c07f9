//! What names promise.

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn text_round_trips_with_escapes() {
    for text in
        [".", "a.", "www.Example.COM.", "a\\.b.c.", "\\000\\255\\032.x.", "\\@.\\$.", "*.a."]
    {
        assert_eq!(name(text).to_string(), text);
    }
    assert_eq!(name("a\\046b").to_string(), "a\\.b.");
}

#[test]
fn a_name_without_a_last_dot_continues_with_the_origin() {
    let origin = name("example.com.");
    assert_eq!(Name::from_text(b"www", Some(&origin)), Ok(name("www.example.com.")));
    assert_eq!(Name::from_text(b"www.", Some(&origin)), Ok(name("www.")));
}

#[test]
fn bad_names_are_refused_with_the_reason() {
    assert_eq!("".parse::<Name>(), Err(NameError::Empty));
    assert_eq!("a..b".parse::<Name>(), Err(NameError::EmptyLabel));
    assert_eq!(".a".parse::<Name>(), Err(NameError::EmptyLabel));
    assert_eq!("a\\256".parse::<Name>(), Err(NameError::BadEscape));
    assert_eq!("a\\".parse::<Name>(), Err(NameError::BadEscape));
    let label = "x".repeat(64);
    assert_eq!(label.parse::<Name>(), Err(NameError::LabelTooLong { length: 64 }));
    let long = ["x".repeat(63).as_str(); 4].join(".");
    assert_eq!(long.parse::<Name>(), Err(NameError::TooLong { length: 257 }));
    assert_eq!(Name::from_wire(&[0xc0, 0x0c]), Err(NameError::BadWire));
    assert_eq!(Name::from_wire(&[1, b'a', 0, 0]), Err(NameError::BadWire));
}

#[test]
fn the_longest_name_with_the_most_labels_is_read() {
    let text = "a.".repeat(127);
    let longest = name(&text);
    assert_eq!((longest.as_wire().len(), longest.label_count()), (255, 127));
}

#[test]
fn the_order_is_that_of_rfc_4034() {
    let sorted = [
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        "\\001.z.example.",
        "*.z.example.",
        "\\200.z.example.",
    ];
    for pair in sorted.windows(2) {
        assert!(name(pair[0]) < name(pair[1]), "{} before {}", pair[0], pair[1]);
    }
}

#[test]
fn an_ancestor_is_found_by_whole_labels() {
    assert!(name("a.example.com").is_within(&name("EXAMPLE.com")));
    assert!(name("example.com").is_within(&Name::root()));
    assert!(!name("anexample.com").is_within(&name("example.com")));
    assert!(!name("com").is_within(&name("example.com")));
}
