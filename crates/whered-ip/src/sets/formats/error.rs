//! A mistake in a text of a set: where, what was found, what is allowed.
//!
//! Not for: finding it. Lines end with `\n`, `\r\n` or `\r`.

use std::borrow::Cow;
use std::fmt;

/// A mistake in a text: where, what was found, what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetTextError(Box<Mistake>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Mistake {
    line: usize,
    column: usize,
    found: String,
    allowed: Cow<'static, str>,
}

/// How much of a wrong text an error repeats.
const FOUND_BYTES: usize = 48;
/// How much of what is allowed, which may have names of the text in it.
const ALLOWED_CHARS: usize = 2000;

/// Without ends of lines and the like, and not too long.
fn one_line(allowed: Cow<'static, str>) -> Cow<'static, str> {
    if allowed.len() <= ALLOWED_CHARS && !allowed.contains(char::is_control) {
        return allowed;
    }
    let mut line: String =
        allowed.chars().take(ALLOWED_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if allowed.chars().nth(ALLOWED_CHARS).is_some() {
        line.push('…');
    }
    line.into()
}

impl SetTextError {
    /// The mistake that begins at `place` of `text` and is `length` long.
    pub(super) fn at(
        text: &[u8],
        place: usize,
        length: usize,
        allowed: impl Into<Cow<'static, str>>,
    ) -> SetTextError {
        let place = place.min(text.len());
        let before = &text[..place];
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let line_start = before.iter().rposition(is_end).map_or(0, |end| end + 1);
        let shown = &text[place..text.len().min(place + length.min(FOUND_BYTES))];
        let mut found = String::from_utf8_lossy(shown).into_owned();
        if length > FOUND_BYTES {
            found.push('…');
        }
        let ends = before.iter().filter(|byte| is_end(byte)).count();
        let pairs = before.windows(2).filter(|pair| *pair == b"\r\n").count();
        SetTextError(Box::new(Mistake {
            line: ends - pairs + 1,
            column: String::from_utf8_lossy(&text[line_start..place]).chars().count() + 1,
            found,
            allowed: one_line(allowed.into()),
        }))
    }

    /// The line, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.0.line
    }

    /// The column in characters, counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// The text that was found there, cut after 48 bytes.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.0.found
    }

    /// The text that is allowed there.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.0.allowed
    }
}

impl fmt::Display for SetTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { line, column, found, allowed } = &*self.0;
        if found.is_empty() {
            return write!(f, "line {line}, column {column}: the text ends: allowed is {allowed}");
        }
        write!(f, "line {line}, column {column}: found {found:?}: allowed is {allowed}")
    }
}

impl std::error::Error for SetTextError {}
