//! Requests in any pieces, and every protocol error by its text.

use super::*;

/// All requests of an input, given to the parser in pieces of `step` bytes.
fn parse(input: &[u8], step: usize, authenticated: bool) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let mut parser = Parser::default();
    let mut requests = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < input.len() {
        end = (end + step).min(input.len());
        loop {
            if authenticated {
                parser.find_ahead(&input[start..end]);
            }
            match parser.next(&input[start..end], authenticated).map_err(|error| error.0)? {
                ParseOutcome::Incomplete => break,
                ParseOutcome::Nothing(used) => start += used,
                ParseOutcome::Http => return Err("HTTP".to_owned()),
                ParseOutcome::Request(args, used) => {
                    requests.push(args.from(0).map(<[u8]>::to_vec).collect());
                    start += used;
                }
            }
        }
    }
    Ok(requests)
}

fn words(requests: &[Vec<Vec<u8>>]) -> Vec<Vec<String>> {
    let text = |word: &Vec<u8>| word.escape_ascii().to_string();
    requests.iter().map(|request| request.iter().map(text).collect()).collect()
}

#[test]
fn a_pipeline_is_parsed_the_same_in_pieces_of_any_size() {
    let input = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\nPING \"a b\"\r\n*0\r\n\r\n*1\r\n$0\r\n\r\n*-7\r\n*1\r\n$3\r\n\r\n\0\r\n";
    let whole = parse(input, input.len(), true).unwrap();
    assert_eq!(
        words(&whole),
        [vec!["PING", "hi"], vec!["PING", "a b"], vec![""], vec!["\\r\\n\\x00"]]
    );
    for step in 1..20 {
        assert_eq!(parse(input, step, true).unwrap(), whole, "in steps of {step}");
    }
}

#[test]
fn inline_requests_take_quotes_and_escapes() {
    let cases: [(&str, &[&str]); 7] = [
        ("  GET   x \r\n", &["GET", "x"]),
        ("a \"\\x41\\n\\q\" '\\'' ''\n", &["a", "A\\nq", "\\'", ""]),
        ("pre\"quoted\" next\n", &["prequoted", "next"]),
        ("\"\\x4\"\n", &["x4"]),
        ("'a\\n'\n", &["a\\\\n"]),
        ("a\tb\n", &["a", "b"]),
        ("\"\"\n", &[""]),
    ];
    for (line, expected) in cases {
        assert_eq!(words(&parse(line.as_bytes(), 1000, true).unwrap()), [expected], "{line}");
    }
}

#[test]
fn wrong_input_gives_the_texts_of_redis() {
    let long = "1".repeat(70_000);
    let cases: Vec<(String, &str)> = vec![
        ("*x\r\n".into(), "invalid multibulk length"),
        ("*2147483648\r\n".into(), "invalid multibulk length"),
        ("*+1\r\n".into(), "invalid multibulk length"),
        ("*\r\n".into(), "invalid multibulk length"),
        ("*1\r\n:1\r\n".into(), "expected '$', got ':'"),
        ("*1\r\n\r\nx".into(), "expected '$', got ' '"),
        ("*1\r\n$-1\r\n".into(), "invalid bulk length"),
        ("*1\r\n$536870913\r\n".into(), "invalid bulk length"),
        ("*1\r\n$x\r\n".into(), "invalid bulk length"),
        ("\"a\r\n".into(), "unbalanced quotes in request"),
        ("\"a\"b\r\n".into(), "unbalanced quotes in request"),
        ("'a\r\n".into(), "unbalanced quotes in request"),
        (long.clone(), "too big inline request"),
        (format!("*{long}"), "too big mbulk count string"),
        (format!("*1\r\n${long}"), "too big bulk count string"),
    ];
    for (input, text) in cases {
        for step in [1, 7, input.len()] {
            let error = parse(input.as_bytes(), step, true).unwrap_err();
            assert_eq!(error, format!("Protocol error: {text}"));
        }
    }
}

#[test]
fn strangers_have_small_limits() {
    let many = parse(b"*11\r\n", 100, false).unwrap_err();
    assert_eq!(many, "Protocol error: unauthenticated multibulk length");
    let long = parse(b"*1\r\n$16385\r\n", 100, false).unwrap_err();
    assert_eq!(long, "Protocol error: unauthenticated bulk length");
    assert!(parse(b"*10\r\n$16384\r\n", 100, false).is_ok());
}

#[test]
fn an_announced_size_allocates_nothing() {
    let mut parser = Parser::default();
    assert!(matches!(
        parser.next(b"*2147483647\r\n$536870912\r\n", true),
        Ok(ParseOutcome::Incomplete)
    ));
    assert_eq!(parser.spans.capacity(), 0);
}

#[test]
fn a_zero_byte_hides_the_rest_of_a_line() {
    assert_eq!(parse(b"PI\0NG\r\nPING\r\n", 100, true).unwrap(), Vec::<Vec<Vec<u8>>>::new());
    assert_eq!(parse(b"*1\0\r\n$4\r\n", 100, true).unwrap(), Vec::<Vec<Vec<u8>>>::new());
}

#[test]
fn what_is_found_ahead_is_what_the_parser_gives() {
    let usual = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n$0\r\n\r\n";
    let mut parser = Parser::default();
    let ahead = |parser: &Parser, start: usize| -> Vec<Vec<Vec<u8>>> {
        let found = parser.found_ahead(&usual[start..]);
        found.map(|args| args.from(0).map(<[u8]>::to_vec).collect()).collect()
    };
    assert!(parser.find_ahead(usual));
    assert_eq!(ahead(&parser, 0), [vec![b"PING".to_vec(), b"hi".to_vec()], vec![vec![]]]);
    // So is what is left when the first was given; it can be passed over.
    let Ok(ParseOutcome::Request(_, used)) = parser.next(usual, true) else {
        panic!("a request that was found ahead is given");
    };
    assert!(!parser.find_ahead(&usual[used..]));
    assert_eq!(ahead(&parser, used), [vec![Vec::<u8>::new()]]);
    assert_eq!(used + parser.skip_ahead(1), usual.len());
    assert!(matches!(parser.next(b"", true), Ok(ParseOutcome::Incomplete)));
    // What ends the search is left to the parser, with its own texts.
    for unusual in [
        "PING\r\n",
        "*0\r\n",
        "*01x\r\n",
        "*1\r\n$+1\r\na\r\n",
        "*1\r\n$01\r\na\r\n",
        "*1\r\n$3\r\nab",
    ] {
        let input = [usual, unusual.as_bytes()].concat();
        let mut parser = Parser::default();
        assert!(parser.find_ahead(&input));
        assert_eq!(parser.found_ahead(&input).len(), 2, "{unusual:?}");
        let mut alone = Parser::default();
        let mut start = 0;
        for _ in 0..2 {
            let Ok(ParseOutcome::Request(_, used)) = parser.next(&input[start..], true) else {
                panic!("a request that was found ahead is given");
            };
            start += used;
        }
        let shown = |parsed: Result<ParseOutcome<'_>, ProtocolError>| match parsed {
            Ok(ParseOutcome::Request(args, used)) => format!("{} {used}", args.len()),
            Ok(ParseOutcome::Nothing(used)) => format!("nothing {used}"),
            Ok(ParseOutcome::Http) => "HTTP".to_owned(),
            Ok(ParseOutcome::Incomplete) => "incomplete".to_owned(),
            Err(error) => error.0,
        };
        let expected = shown(alone.next(unusual.as_bytes(), true));
        assert_eq!(shown(parser.next(&input[start..], true)), expected);
    }
}

#[test]
fn what_was_found_ahead_can_be_forgotten() {
    let input = b"*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n";
    let mut parser = Parser::default();
    for _ in 0..3 {
        assert!(parser.find_ahead(input));
        assert_eq!(parser.found_ahead(input).len(), 2);
        let Ok(ParseOutcome::Request(args, 11)) = parser.next(input, true) else {
            panic!("the first request is whole");
        };
        assert_eq!(args.at(0), b"a");
        parser.forget_ahead();
    }
}
