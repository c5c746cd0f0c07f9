//! The addresses that a command is asked about: its arguments or, without any, one a line from
//! standard input; and what the whole list comes to.
//!
//! Not for: answering. A wrong address is told with its line and does not end the list.
//! A line has a limit, so that a file that is no list of addresses takes no memory.

use std::io::{self, BufRead, Read};
use std::net::IpAddr;

use whered_ip::Packing;

use crate::outcome::{Failure, Outcome, complain};

/// The longest line that is read; what is longer is no address.
const LINE_BYTES_MAX: usize = 1000;
/// The most characters of a wrong address that are shown.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// What one address came to.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Found,
    NotFound,
    Failed,
}

/// Asks about every address in turn. Found if any was; failed if any could not be asked about,
/// and each of those has had its line on standard error.
pub(crate) fn each_address(
    arguments: &[String],
    mut ask: impl FnMut(IpAddr) -> Result<Answer, Failure>,
) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    for text in arguments {
        summary.add(one("", text.as_bytes(), &mut ask)?);
    }
    if arguments.is_empty() {
        let mut input = io::stdin().lock();
        let failed = |error| Failure::Message(format!("standard input: {error}"));
        let start = input.fill_buf().map_err(failed)?;
        Packing::refuse(start).map_err(|packed| failed(packed.into()))?;
        each_line(input, |number, line| {
            if !line.is_empty() {
                summary.add(one(&format!("standard input:{number}: "), line, &mut ask)?);
            }
            Ok(())
        })?;
    }
    Ok(summary.outcome())
}

fn one(
    place: &str,
    text: &[u8],
    ask: &mut impl FnMut(IpAddr) -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
    let Some(address) = whered_ip::text::read(text) else {
        let text = String::from_utf8_lossy(text);
        let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        let cut = if shown.len() < text.len() { "..." } else { "" };
        let shown = shown.escape_debug();
        complain(&format!(
            "{place}'{shown}{cut}' is no IP address; allowed: 192.0.2.1 or 2001:db8::1"
        ));
        return Ok(Answer::Failed);
    };
    ask(address)
}

/// Gives each line without the blanks around it, and its number from 1. A line that is too long
/// is given cut.
fn each_line(
    mut input: impl BufRead,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error| Failure::Message(format!("standard input: {error}"));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            break;
        }
        if !line.ends_with(b"\n") && line.len() > LINE_BYTES_MAX {
            skip_line(&mut input).map_err(failed)?;
        }
        take(number, line.trim_ascii())?;
    }
    Ok(())
}

/// Reads over what is left of a line.
pub(crate) fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (used, done) = match end {
            Some(end) => (end + 1, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

#[derive(Default)]
struct Summary {
    found: bool,
    failed: bool,
}

impl Summary {
    fn add(&mut self, answer: Answer) {
        self.found |= matches!(answer, Answer::Found);
        self.failed |= matches!(answer, Answer::Failed);
    }

    fn outcome(&self) -> Outcome {
        match self {
            Summary { failed: true, .. } => Outcome::Failed,
            Summary { found: true, .. } => Outcome::Found,
            _ => Outcome::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_a_long_one_is_cut_and_not_kept() {
        let text = [b"a\r\n\n".as_slice(), &b"x".repeat(5_000_000), b"\n b \nlast"].concat();
        let mut seen = Vec::new();
        let read = each_line(text.as_slice(), |number, line| {
            seen.push((number, line.len(), line.first().copied()));
            Ok(())
        });
        assert!(read.is_ok());
        let long = (3, LINE_BYTES_MAX + 1, Some(b'x'));
        let rest = [(4, 1, Some(b'b')), (5, 4, Some(b'l'))];
        assert_eq!(seen, [[(1, 1, Some(b'a')), (2, 0, None), long].as_slice(), &rest].concat());
    }
}
