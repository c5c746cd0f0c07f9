//! What syslog writes before a message: RFC 3164, RFC 5424 and journald's short form.
//!
//! Not for messages. Everything is a place in the line; a line without such a prefix has none.
//!
//! ```text
//! <34>Oct 11 22:14:15 mail su[77]: message
//! <34>1 2003-10-11T22:14:15Z mail su 77 ID - message
//!       |------ time ------| host program  |
//! ```

use std::ops::Range;

use memchr::memchr;

/// The parts of a prefix, and where the message begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Prefix {
    pub(super) time: Range<usize>,
    pub(super) host: Range<usize>,
    /// The program's name; empty where there is none.
    pub(super) program: Range<usize>,
    pub(super) message: usize,
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The prefix of a line.
pub(super) fn of(line: &[u8]) -> Option<Prefix> {
    let (start, has_priority) = behind_priority(line)?;
    if has_priority && line.get(start..start + 2) == Some(b"1 ") {
        return structured(line, start + 2);
    }
    let time_end = time_end(line, start)?;
    let host = word(line, time_end + 1)?;
    let mut prefix = Prefix {
        time: start..time_end,
        host: host.clone(),
        program: host.end..host.end,
        message: (host.end + 1).min(line.len()),
    };
    // `name[77]: ` or `name: `; a name has no blanks.
    let tag = word(line, prefix.message)
        .filter(|tag| line.get(tag.clone()).is_some_and(|t| t.ends_with(b":")));
    if let Some(tag) = tag {
        let name = line.get(tag.clone())?.split(|byte| b"[:".contains(byte)).next()?.len();
        prefix.program = tag.start..tag.start + name;
        prefix.message = (tag.end + 1).min(line.len());
    }
    Some(prefix)
}

/// Behind `<34>`, if that is there.
fn behind_priority(line: &[u8]) -> Option<(usize, bool)> {
    if line.first() != Some(&b'<') {
        return Some((0, false));
    }
    let close = memchr(b'>', line.get(..5.min(line.len()))?)?;
    let digits = line.get(1..close)?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some((close + 1, true))
}

/// Where the time ends that begins at `start`, before a blank.
fn time_end(line: &[u8], start: usize) -> Option<usize> {
    let text = line.get(start..)?;
    if MONTHS.iter().any(|month| text.starts_with(month)) {
        let form = b"Mmm dd 00:00:00";
        let is_time = |(at, &byte): (usize, &u8)| match form.get(at) {
            Some(b'0') => byte.is_ascii_digit(),
            Some(b'd') => byte.is_ascii_digit() || byte == b' ',
            Some(b'M' | b'm') => byte.is_ascii_alphabetic(),
            Some(&other) => byte == other,
            None => false,
        };
        let short = text.get(..form.len())?;
        let is_short = short.iter().enumerate().all(is_time);
        return (is_short && text.get(form.len()) == Some(&b' ')).then_some(start + form.len());
    }
    // `2026-11-20T12:00:00.123456+00:00`, as rsyslog and journald write it.
    let end = memchr(b' ', text)?;
    is_iso_time(text.get(..end)?).then_some(start + end)
}

/// Whether a word is a time in ISO 8601 with a `T`.
pub(super) fn is_iso_time(word: &[u8]) -> bool {
    let form = b"0000-00-00T00:00:00";
    let head = word.get(..form.len());
    head.is_some_and(|head| {
        head.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
    })
}

/// The word that begins at `start`.
fn word(line: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = line.get(start..)?;
    let length = memchr(b' ', rest).unwrap_or(rest.len());
    (length > 0).then_some(start..start + length)
}

/// RFC 5424 behind its version.
fn structured(line: &[u8], start: usize) -> Option<Prefix> {
    let time = word(line, start)?;
    let host = word(line, time.end + 1)?;
    let program = word(line, host.end + 1)?;
    let process = word(line, program.end + 1)?;
    let kind = word(line, process.end + 1)?;
    let mut at = kind.end + 1;
    if line.get(at) == Some(&b'-') {
        at += 1;
    } else {
        while line.get(at) == Some(&b'[') {
            at = element_end(line, at)?;
        }
    }
    if line.get(at) == Some(&b' ') {
        at += 1;
    }
    // A byte order mark may say that the message is UTF-8.
    if line.get(at..).is_some_and(|rest| rest.starts_with(b"\xef\xbb\xbf")) {
        at += 3;
    }
    Some(Prefix { time, host, program, message: at.min(line.len()) })
}

/// Behind a structured element: its values may have escaped quotes and brackets.
fn element_end(line: &[u8], start: usize) -> Option<usize> {
    let mut is_quoted = false;
    let mut at = start + 1;
    loop {
        match line.get(at)? {
            b'\\' if is_quoted => at += 1,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> Option<[&str; 4]> {
        let prefix = of(line.as_bytes())?;
        let Prefix { time, host, program, message } = prefix;
        Some([&line[time], &line[host], &line[program], &line[message..]])
    }

    #[test]
    fn prefixes_of_both_rfcs_and_of_journald_end_where_the_message_begins() {
        for (line, expected) in [
            (
                "<34>Oct 11 22:14:15 mail su[77]: hi all",
                ["Oct 11 22:14:15", "mail", "su", "hi all"],
            ),
            ("Oct  1 22:14:15 mail kernel: x", ["Oct  1 22:14:15", "mail", "kernel", "x"]),
            (
                "Oct  1 22:14:15 mail 192.0.2.1 - x",
                ["Oct  1 22:14:15", "mail", "", "192.0.2.1 - x"],
            ),
            (
                "2026-11-20T12:00:00.1+00:00 h sshd[1]: m",
                ["2026-11-20T12:00:00.1+00:00", "h", "sshd", "m"],
            ),
            (
                "<34>1 2003-10-11T22:14:15Z m su - ID47 - hi",
                ["2003-10-11T22:14:15Z", "m", "su", "hi"],
            ),
            ("<34>1 - - su 7 - [a b=\"]\\\"\"][c] hi", ["-", "-", "su", "hi"]),
            ("<34>1 - - su 7 - -", ["-", "-", "su", ""]),
        ] {
            assert_eq!(parts(line), Some(expected), "{line}");
        }
        for line in [
            "",
            "x",
            "<",
            "<34>",
            "<x>1 ",
            "Oct",
            "Oct 11 22:14:15",
            "192.0.2.1 - -",
            "<34>1 - - su 7 - [a",
        ] {
            assert_eq!(parts(line), None, "{line}");
        }
    }
}
