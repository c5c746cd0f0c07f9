//! Sizes, references between the files, and the two request headers.

use std::collections::BTreeSet;

use super::*;

const GZIP_BYTES_MAX: usize = 100 * 1024;

fn unpacked(name: &str) -> String {
    let (_, packed) = FILES.iter().find(|(known, _)| *known == name).expect("a file");
    let mut text = String::new();
    GzDecoder::new(*packed).read_to_string(&mut text).expect("UTF-8");
    text
}

fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

#[test]
fn the_whole_console_has_at_most_100_kilobytes() {
    let bytes: usize = FILES.iter().map(|(_, packed)| packed.len()).sum();
    assert!(bytes <= GZIP_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn every_file_is_named_by_another_and_every_named_file_is_there() {
    let known: BTreeSet<_> = FILES.iter().map(|(name, _)| *name).collect();
    let mut named = BTreeSet::from([PAGE.to_owned()]);
    for name in &known {
        let text = unpacked(name);
        if name.ends_with(".html") {
            let parts = text.split("\"console/").skip(1);
            named.extend(parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned())));
        } else if name.ends_with(".js") {
            for quote in ['"', '\''] {
                let beginning = format!("{quote}./");
                let parts = text.split(&beginning).skip(1);
                named.extend(parts.filter_map(|part| Some(part.split_once(quote)?.0.to_owned())));
            }
        }
    }
    assert_eq!(named, known.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn foreign_text_never_becomes_markup() {
    let unsafe_words = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
    for (name, _) in FILES.iter().filter(|(name, _)| name.ends_with(".js") && *name != "vendor.js")
    {
        let text = unpacked(name);
        for word in unsafe_words {
            assert!(!text.contains(word), "{name} has {word}");
        }
    }
}

#[test]
fn a_tag_that_the_client_has_is_known_weak_or_strong() {
    let tag = "W/\"0a\"";
    for value in ["W/\"0a\"", "\"0a\"", "*", "\"b\", W/\"0a\""] {
        assert!(is_known(&headers(header::IF_NONE_MATCH, value), tag), "{value}");
    }
    for value in ["\"b\"", "0a", "", "W/"] {
        assert!(!is_known(&headers(header::IF_NONE_MATCH, value), tag), "{value}");
    }
    assert!(!is_known(&HeaderMap::new(), tag));
}

#[test]
fn gzip_is_sent_to_those_who_take_it() {
    for value in ["gzip", "br, GZIP", "gzip;q=0.1", "gzip; Q=1"] {
        assert!(accepts_gzip(&headers(header::ACCEPT_ENCODING, value)), "{value}");
    }
    for value in ["", "br", "gzip;q=0", "gzip;q=0.000", "gzip;q=x", "xgzip", "identity"] {
        assert!(!accepts_gzip(&headers(header::ACCEPT_ENCODING, value)), "{value}");
    }
    assert!(!accepts_gzip(&HeaderMap::new()));
}
