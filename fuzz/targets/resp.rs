//! Any bytes as requests of a Redis client: the same requests whole and in pieces, never a panic;
//! and any text as a number, a cursor, or a glob pattern.
//!
//! Not for: what a command does (`commands`); inputs that are right; the tests have those.
//!
//! ```text
//! input: | switches and step | bytes of the connection ... |
//! ```
//!
//! The parser is private to its crate, and is compiled here a second time as it stands there: so
//! it stays private, and this target needs none of the crate's dependencies.
#![no_main]

#[path = "../../crates/whered-server/src/resp/cross_protocol.rs"]
#[allow(dead_code, reason = "this target asks a part of it")]
mod cross_protocol;
#[path = "../../crates/whered-engine/src/glob.rs"]
#[allow(dead_code, reason = "this target asks a part of it")]
mod glob;
#[path = "../../crates/whered-server/src/resp/long_double.rs"]
#[allow(dead_code, reason = "this target asks a part of it")]
mod long_double;
#[path = "../../crates/whered-server/src/resp/number.rs"]
#[allow(dead_code, reason = "this target asks a part of it")]
mod number;
#[path = "../../crates/whered-server/src/resp/protocol.rs"]
#[allow(dead_code, reason = "this target asks a part of it")]
mod protocol;

use libfuzzer_sys::fuzz_target;
use long_double::LongDouble;
use protocol::{ParseOutcome, Parser};

type Request = Vec<Vec<u8>>;

/// What came of an input: requests, then what was wrong or how many bytes were left.
#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<Request>,
    end: Result<usize, String>,
}

fuzz_target!(|input: &[u8]| {
    let Some((switches, bytes)) = input.split_first() else { return };
    let authenticated = switches & 1 == 0;
    let step = usize::from(switches >> 1) + 1;
    let whole = parse(bytes, bytes.len().max(1), authenticated);
    assert_eq!(parse(bytes, step, authenticated), whole, "in pieces of {step} bytes");
    if !authenticated {
        let trusted = parse(bytes, bytes.len().max(1), true);
        assert!(trusted.requests.starts_with(&whole.requests), "a password takes nothing away");
    }
    let again = parse(&multibulk(&whole.requests), step, true);
    assert_eq!(again, Outcome { requests: whole.requests.clone(), end: Ok(0) }, "written again");
    for words in whole.requests.iter().take(8) {
        numbers(&words[0]);
        globs(&words[0], words.last().expect("no request is empty"));
    }
    numbers(bytes);
});

/// Gives the parser an input in pieces.
fn parse(input: &[u8], step: usize, authenticated: bool) -> Outcome {
    let mut parser = Parser::default();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < input.len() {
        end = (end + step).min(input.len());
        loop {
            let rest = &input[start..end];
            match parser.next(rest, authenticated) {
                Ok(ParseOutcome::Incomplete) => break,
                Ok(ParseOutcome::Nothing(used)) => {
                    assert!((1..=rest.len()).contains(&used), "{used} bytes of {}", rest.len());
                    start += used;
                }
                Ok(ParseOutcome::Request(args, used)) => {
                    assert!((1..=rest.len()).contains(&used), "{used} bytes of {}", rest.len());
                    assert!(args.len() > 0, "a request has a name");
                    requests.push(args.from(0).map(<[u8]>::to_vec).collect());
                    start += used;
                    parser.shrink();
                }
                Ok(ParseOutcome::Http) => return Outcome { requests, end: Err("HTTP".to_owned()) },
                Err(error) => return Outcome { requests, end: Err(error.0) },
            }
        }
    }
    Outcome { requests, end: Ok(end - start) }
}

fn multibulk(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for word in request {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// A sum has a text, which is read as a number with the same text.
fn long_doubles(text: &[u8]) {
    let Some(sum) = LongDouble::read(text).and_then(|read| read.plus(&LongDouble::ZERO)) else {
        return;
    };
    let printed = sum.print();
    let again = LongDouble::read(printed.as_bytes()).expect("what is printed is a number");
    assert_eq!(again.print(), printed, "{}", text.escape_ascii());
}

fn numbers(text: &[u8]) {
    long_doubles(text);
    let plain = std::str::from_utf8(text).ok();
    let strict =
        plain.and_then(|text| text.parse::<i64>().ok().filter(|number| number.to_string() == text));
    assert_eq!(number::integer(text), strict, "{}", text.escape_ascii());
    let is_decimal = |text: &&str| {
        text.bytes().any(|byte| byte.is_ascii_digit())
            && text.bytes().all(|byte| b"0123456789+-.eE".contains(&byte))
    };
    let float = number::float(text);
    if let Some(decimal) = plain.filter(is_decimal) {
        let twin = decimal.parse::<f64>().ok();
        match (float, twin) {
            (Some(float), twin) => {
                assert_eq!(Some(float.to_bits()), twin.map(f64::to_bits), "{decimal}");
            }
            // What overflows or vanishes is refused.
            (None, Some(twin)) => assert!(twin.is_infinite() || twin.abs() < 1e-300, "{decimal}"),
            (None, None) => {}
        }
    }
    assert!(float.is_none_or(|float| !float.is_nan()), "{}", text.escape_ascii());
    let _ = number::score_limit(text);
    let _ = number::cursor(text);
}

fn globs(pattern: &[u8], text: &[u8]) {
    let _ = glob::matches(pattern, text);
    let escaped: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
    assert!(glob::matches(&escaped, text), "an escaped text matches itself");
    assert!(glob::matches(&[&escaped[..], b"*"].concat(), &[text, pattern].concat()));
}
