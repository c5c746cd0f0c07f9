//! Elements as nft writes them: `elements = { ... }` in a set, or `add element ... { ... }`.
//!
//! Not for the rest of nft's language: tables, chains and rules around the elements are passed over.
//! Maps are refused at their colon. A comment is the value; `expires` counts before `timeout`.

use std::borrow::Cow;

use super::{SetEntry, SetTextError, block_at};

const ELEMENT: &str = "an element, a comma or }";
const OPTIONS: &str =
    "timeout DURATION, expires DURATION, comment \"TEXT\", counter packets N bytes N, a comma or }";

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut tokens = Tokens { text, at: 0 };
    while let Some((_, token)) = tokens.next() {
        match token {
            // `elements = {`; the word alone is somebody's name.
            b"elements" if tokens.next().is_some_and(|(_, token)| token == b"=") => {
                tokens.expect(b"{")?;
                elements(&mut tokens, each)?;
            }
            b"element" => {
                while let Some((_, token)) = tokens.next() {
                    if token == b"{" {
                        elements(&mut tokens, each)?;
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn elements<'a>(
    tokens: &mut Tokens<'a>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let text = tokens.text;
    loop {
        let (at, token) = tokens.next().ok_or_else(|| tokens.ended(ELEMENT))?;
        match token {
            b"}" => return Ok(()),
            b"," => {}
            _ => {
                let mut entry = SetEntry::from(block_at(text, at, at + token.len())?);
                let is_last = options(tokens, &mut entry)?;
                each(entry);
                if is_last {
                    return Ok(());
                }
            }
        }
    }
}

/// What follows an element; true at the closing brace.
fn options<'a>(tokens: &mut Tokens<'a>, entry: &mut SetEntry<'a>) -> Result<bool, SetTextError> {
    let mut expires = None;
    loop {
        let (at, token) = tokens.next().ok_or_else(|| tokens.ended(OPTIONS))?;
        match token {
            b"}" | b"," => {
                entry.ttl_seconds = expires.or(entry.ttl_seconds);
                return Ok(token == b"}");
            }
            b"timeout" => entry.ttl_seconds = Some(duration(tokens)?),
            b"expires" => expires = Some(duration(tokens)?),
            b"comment" => {
                let (_, value) = tokens.next().ok_or_else(|| tokens.ended("\"TEXT\""))?;
                let inside = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
                entry.value = Some(Cow::Borrowed(inside.unwrap_or(value)));
            }
            b"counter" | b"packets" | b"bytes" => {}
            number if number.iter().all(u8::is_ascii_digit) => {}
            _ => return Err(SetTextError::at(tokens.text, at, token.len(), OPTIONS)),
        }
    }
}

/// `1d2h3m4s500ms`, each part once or not at all; less than a second is one.
fn duration(tokens: &mut Tokens<'_>) -> Result<u64, SetTextError> {
    let (at, token) = tokens.next().ok_or_else(|| tokens.ended("a duration like 1h30m"))?;
    let mistake = || SetTextError::at(tokens.text, at, token.len(), "a duration like 1h30m");
    let (mut seconds, mut rest) = (0_u64, token);
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        let number: u64 = number.ok_or_else(mistake)?;
        let (each, letters) = match &rest[digits..] {
            [b'm', b's', ..] => (0, 2),
            [b'd', ..] => (86_400, 1),
            [b'h', ..] => (3_600, 1),
            [b'm', ..] => (60, 1),
            [b's', ..] => (1, 1),
            _ => return Err(mistake()),
        };
        let more = number.checked_mul(each);
        seconds = more.and_then(|more| seconds.checked_add(more)).ok_or_else(mistake)?;
        rest = &rest[digits + letters..];
    }
    Ok(seconds.max(1))
}

/// Words, quoted texts and signs, with their places; comments are passed over.
struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn ended(&self, allowed: &'static str) -> SetTextError {
        SetTextError::at(self.text, self.text.len(), 0, allowed)
    }

    fn expect(&mut self, wanted: &'static [u8]) -> Result<(), SetTextError> {
        match self.next() {
            Some((_, token)) if token == wanted => Ok(()),
            Some((at, token)) => Err(SetTextError::at(self.text, at, token.len(), "{")),
            None => Err(self.ended("{")),
        }
    }

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        loop {
            match self.text.get(self.at)? {
                b'#' => self.skip_while(|byte| byte != b'\n'),
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        let start = self.at;
        self.at += 1;
        match self.text[start] {
            b'{' | b'}' | b',' | b'=' | b';' => {}
            b'"' => {
                self.skip_while(|byte| byte != b'"');
                self.at = self.text.len().min(self.at + 1);
            }
            _ => self.skip_while(|byte| {
                !byte.is_ascii_whitespace() && !matches!(byte, b'{' | b'}' | b',' | b'=' | b';')
            }),
        }
        Some((start, &self.text[start..self.at]))
    }

    fn skip_while(&mut self, is_inside: impl Fn(u8) -> bool) {
        while self.text.get(self.at).is_some_and(|byte| is_inside(*byte)) {
            self.at += 1;
        }
    }
}
