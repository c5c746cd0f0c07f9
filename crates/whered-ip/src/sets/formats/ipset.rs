//! What `ipset save` writes: `create` lines, and `add` lines with an entry and options.
//!
//! Not for sets with ports, marks or interfaces, whose entries are no blocks: that is a mistake at
//! the entry. `nomatch` is one too, since it would take addresses away. A comment is the value.

use std::borrow::Cow;

use super::{SetEntry, SetTextError, block_at};

const COMMANDS: &str = "create NAME TYPE ..., add NAME ENTRY ..., a comment or an empty line";
const OPTIONS: &str =
    "timeout SECONDS, comment \"TEXT\", packets N, bytes N, skbmark N, skbprio N, skbqueue N";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let mut words = Words { text, at: start, end: start + length };
        match words.next() {
            None => {}
            Some((at, _)) if text[at] == b'#' => {}
            Some((_, b"create" | b"COMMIT")) => {}
            Some((_, b"add")) => each(entry(text, &mut words)?),
            Some((at, word)) => return Err(SetTextError::at(text, at, word.len(), COMMANDS)),
        }
        start += length + 1;
    }
    Ok(())
}

fn entry<'a>(text: &'a [u8], words: &mut Words<'a>) -> Result<SetEntry<'a>, SetTextError> {
    let missing =
        |words: &Words<'_>, what: &'static str| SetTextError::at(text, words.end, 0, what);
    words.next().ok_or_else(|| missing(words, "add NAME ENTRY"))?;
    let (at, word) = words.next().ok_or_else(|| missing(words, "add NAME ENTRY"))?;
    let mut entry = SetEntry::from(block_at(text, at, at + word.len())?);
    while let Some((at, word)) = words.next() {
        match word {
            b"timeout" => {
                let seconds = number(text, words)?;
                // No end, as ipset has it.
                entry.ttl_seconds = (seconds != 0).then_some(seconds);
            }
            b"comment" => {
                let (_, value) = words.quoted().ok_or_else(|| missing(words, "\"TEXT\""))?;
                entry.value = Some(Cow::Borrowed(value));
            }
            b"packets" | b"bytes" | b"skbmark" | b"skbprio" | b"skbqueue" => {
                words.next().ok_or_else(|| missing(words, "a number"))?;
            }
            _ => return Err(SetTextError::at(text, at, word.len(), OPTIONS)),
        }
    }
    Ok(entry)
}

fn number(text: &[u8], words: &mut Words<'_>) -> Result<u64, SetTextError> {
    let (at, word) = words.next().unwrap_or((words.end, b""));
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| SetTextError::at(text, at, word.len(), "a number of seconds"))
}

/// The words of one line, with their places.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn skip_blanks(&mut self) {
        while self.at < self.end && self.text[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        self.skip_blanks();
        let start = self.at;
        while self.at < self.end && !self.text[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        (start < self.at).then(|| (start, &self.text[start..self.at]))
    }

    /// A text in quotes, which ipset does not allow inside.
    fn quoted(&mut self) -> Option<(usize, &'a [u8])> {
        self.skip_blanks();
        let inside = self.text[self.at..self.end].strip_prefix(b"\"")?;
        let length = inside.iter().position(|byte| *byte == b'"')?;
        let start = self.at + 1;
        self.at = start + length + 1;
        Some((start, &inside[..length]))
    }
}
