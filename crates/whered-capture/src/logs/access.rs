//! Lines of nginx and Apache access logs: the common and the combined format, with or without a
//! virtual host before them, and whatever a site has added behind them.
//!
//! Not for a meaning of parts. Parts stand between blanks; one that begins with a quote ends with
//! the next quote that has no backslash before it, one that begins with a bracket ends with the
//! closing one. Both are given without what surrounds them.
//!
//! The address may be a list with commas between its elements, as `X-Forwarded-For` has it; blanks
//! before or behind the commas do not end it.
//!
//! ```text
//! [vhost] address[, address] ident user [time] "request" status bytes
//!     ["referer" "agent"] [anything]
//! ```

use std::ops::Range;

use memchr::{memchr, memchr2, memmem};

use super::LogFault;

/// The names of the parts, by nginx's variables.
pub const NAMES: [&str; 9] = [
    "remote_addr",
    "ident",
    "remote_user",
    "time_local",
    "request",
    "status",
    "body_bytes_sent",
    "http_referer",
    "http_user_agent",
];
/// The name of what stands before them, if it does.
pub const VIRTUAL_HOST: &str = "vhost";
/// The name of everything behind them.
pub const REST: &str = "rest";

/// How many parts every line has: those of the common format.
const COUNT_MIN: usize = 7;
/// Which parts may have blanks, stand in brackets and in quotes, without a virtual host.
const USER: usize = 2;
const TIME: usize = 3;
const REQUEST: usize = 4;

/// One part and the byte behind it.
struct Token {
    text: Range<usize>,
    end: usize,
}

/// The part that begins at `start`.
fn token(line: &[u8], start: usize) -> Option<Token> {
    let rest = line.get(start + 1..)?;
    let length = match line.get(start)? {
        b'"' => quoted_length(rest)?,
        b'[' => memchr(b']', rest)?,
        _ => {
            let end = memchr(b' ', rest).map_or(line.len(), |length| start + 1 + length);
            return Some(Token { text: start..end, end });
        }
    };
    let end = start + 1 + length;
    Some(Token { text: start + 1..end, end: end + 1 })
}

/// The part that begins at `start` and goes on behind each comma that ends a word of it or stands
/// behind it. A comma that the identity follows ends the list.
fn list(line: &[u8], start: usize) -> Option<Token> {
    let mut whole = element(line, start)?;
    while whole.end < line.len() && is_before_comma(line, &whole) {
        let next = element(line, whole.end + 1)?;
        if line.get(next.text.clone()) == Some(b"-") && is_list_end(line, &whole) {
            break;
        }
        whole = Token { text: whole.text.start..next.text.end, end: next.end };
    }
    Some(whole)
}

/// Whether an identity, a user and the time follow.
fn is_list_end(line: &[u8], list: &Token) -> bool {
    let behind = |part: &Token| token(line, part.end + 1);
    let user = behind(list).and_then(|identity| behind(&identity));
    user.is_some_and(|user| line.get(user.end + 1) == Some(&b'['))
}

/// As [`token`], but a port behind brackets belongs to the part: `[2001:db8::1]:443`.
fn element(line: &[u8], start: usize) -> Option<Token> {
    let part = token(line, start)?;
    if line.get(start) != Some(&b'[') || !matches!(line.get(part.end), Some(b':' | b',')) {
        return Some(part);
    }
    let rest = line.get(part.end..)?;
    let end = memchr(b' ', rest).map_or(line.len(), |length| part.end + length);
    Some(Token { text: start..end, end })
}

/// A user's name with all of its blanks: it reaches up to the bracket of the time.
fn user(line: &[u8], name: Token) -> Token {
    if line.get(name.end + 1) == Some(&b'[') {
        return name;
    }
    let behind = line.get(name.end..).and_then(|rest| memmem::find(rest, b" ["));
    let end = behind.map_or(name.end, |length| name.end + length);
    let text = line.get(name.end..end).unwrap_or_default();
    if behind.is_none() || memchr(b'"', text).is_some() {
        return name;
    }
    Token { text: name.text.start..end, end }
}

/// Whether a comma says that a part goes on.
fn is_before_comma(line: &[u8], part: &Token) -> bool {
    let last = part.end.checked_sub(1).and_then(|last| line.get(last));
    last == Some(&b',') || line.get(part.end + 1) == Some(&b',')
}

/// Where the first quote without a backslash before it stands.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let place = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(place) == Some(&b'"') {
            return Some(place);
        }
        from = place + 2;
    }
}

/// All parts of a line, and behind the named ones the rest as one part if there is any.
pub fn split(
    bytes: &[u8],
    content: Range<usize>,
    has_virtual_host: bool,
    parts: &mut Vec<Range<usize>>,
) -> Result<(), LogFault> {
    let line = bytes.get(content.clone()).unwrap_or_default();
    let host = usize::from(has_virtual_host);
    let base = content.start;
    let mut start = 0;
    for number in 0..NAMES.len() + host {
        if start >= line.len() {
            return if number >= COUNT_MIN + host { Ok(()) } else { Err(LogFault::NotALogLine) };
        }
        let opening = match number.checked_sub(host) {
            Some(TIME) => b'[',
            Some(REQUEST) => b'"',
            _ => 0,
        };
        if opening != 0 && line.get(start) != Some(&opening) {
            return Err(LogFault::NotALogLine);
        }
        let token = if number == host { list(line, start) } else { token(line, start) };
        let Some(mut token) = token else { return Err(LogFault::UnendedQuote) };
        // Behind an identity, which hardly any server writes, blanks mean another layout.
        if number == host + USER
            && parts.last().and_then(|part| bytes.get(part.clone())) == Some(b"-")
        {
            token = user(line, token);
        }
        // The first address of a list is no host.
        if number < host && is_before_comma(line, &token) {
            return Err(LogFault::NotALogLine);
        }
        // A part ends with a blank or with the line.
        if line.get(token.end).is_some_and(|&byte| byte != b' ') {
            return Err(LogFault::NotALogLine);
        }
        parts.push(base + token.text.start..base + token.text.end);
        start = token.end + 1;
    }
    if start < line.len() {
        parts.push(base + start..content.end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str, has_virtual_host: bool) -> Result<Vec<&str>, LogFault> {
        let mut parts = Vec::new();
        split(line.as_bytes(), 0..line.len(), has_virtual_host, &mut parts)?;
        Ok(parts.into_iter().map(|part| &line[part]).collect())
    }

    const COMMON: &str =
        r#"192.0.2.1 - frank [10/Oct/2026:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326"#;

    #[test]
    fn common_and_combined_lines_have_their_parts() {
        let common = vec![
            "192.0.2.1",
            "-",
            "frank",
            "10/Oct/2026:13:55:36 -0700",
            "GET /a HTTP/1.0",
            "200",
            "2326",
        ];
        assert_eq!(parts(COMMON, false), Ok(common.clone()));
        let combined = format!(r#"{COMMON} "-" "say \"x\" \\""#);
        let expected = [common.as_slice(), &["-", r#"say \"x\" \\"#]].concat();
        assert_eq!(parts(&combined, false), Ok(expected.clone()));
        let longer = format!(r#"{combined} "10.1.1.1" 0.003"#);
        assert_eq!(
            parts(&longer, false),
            Ok([expected.as_slice(), &[r#""10.1.1.1" 0.003"#]].concat())
        );
        let with_host = format!("example.com:443 {COMMON}");
        assert_eq!(parts(&with_host, true), Ok([&["example.com:443"], common.as_slice()].concat()));
    }

    #[test]
    fn a_list_of_addresses_at_the_head_is_the_address_and_no_virtual_host() {
        let rest = COMMON.strip_prefix("192.0.2.1").unwrap();
        for list in [
            "1.2.3.4, 10.0.0.1",
            "1.2.3.4,10.0.0.1",
            "1.2.3.4 , 10.0.0.1",
            "1.2.3.4 ,10.0.0.1",
            "1.2.3.4, , 10.0.0.1",
            "unknown, ::1, 10.0.0.1",
            "[2001:db8::1]:443, 10.0.0.1",
            "10.0.0.1, [2001:db8::1]:443",
            "a, -",
            "1.2.3.4,",
            "1.2.3.4 ,",
            "1.2.3.4, -,",
        ] {
            let line = format!("{list}{rest}");
            assert_eq!(parts(&line, false).unwrap()[0], list);
            assert_eq!(parts(&line, false).unwrap()[1..3], ["-", "frank"]);
            assert_eq!(parts(&line, true), Err(LogFault::NotALogLine), "{list}");
            let line = format!("example.com:443 {line}");
            assert_eq!(parts(&line, true).unwrap()[..2], ["example.com:443", list]);
            assert_eq!(parts(&line, false), Err(LogFault::NotALogLine), "{list}");
        }
        for line in ["1.2.3.4,", "1.2.3.4, ", "1.2.3.4, \"", ", , ,"] {
            assert!(parts(line, false).is_err(), "{line}");
        }
    }

    #[test]
    fn an_ipv6_address_with_a_port_at_the_head_is_one_part() {
        let rest = COMMON.strip_prefix("192.0.2.1").unwrap();
        for (head, part) in
            [("[2001:db8::1]:443", "[2001:db8::1]:443"), ("[2001:db8::1]", "2001:db8::1")]
        {
            let line = format!("{head}{rest}");
            assert_eq!(parts(&line, false).unwrap()[..2], [part, "-"]);
            let line = format!("example.com {line}");
            assert_eq!(parts(&line, true).unwrap()[..2], ["example.com", part]);
        }
    }

    #[test]
    fn other_lines_are_faults() {
        for (line, fault) in [
            ("hello", LogFault::NotALogLine),
            ("1.1.1.1 - - [x] \"GET", LogFault::UnendedQuote),
            ("1.1.1.1 - - [x", LogFault::UnendedQuote),
            ("1.1.1.1 - - x \"GET\" 1 2", LogFault::NotALogLine),
            ("1.1.1.1 - - [x] \"GET\"1 2", LogFault::NotALogLine),
            ("1.1.1.1 - - [x] \"GET\" 1", LogFault::NotALogLine),
            ("\"", LogFault::UnendedQuote),
        ] {
            assert_eq!(parts(line, false), Err(fault), "{line}");
        }
        assert_eq!(parts(COMMON, true), Err(LogFault::NotALogLine));
    }
}
