//! JSON: lists, blocks at a path, and nft's description of its sets.
//!
//! Here: reading values in order. Not for JSON in general: values are passed over as they come, and
//! only what an element consists of is kept. Depth is limited, so that hostile brackets cannot use
//! the stack up.

mod list;
mod nft;
mod path;
mod providers;

use std::borrow::Cow;

use super::{ADDRESS, Block, SetEntry, SetTextError, block_of, list_block_at};
use crate::text;
pub(super) use list::{read, read_lines};
pub(super) use nft::read_nft;
pub use path::JsonPaths;
#[cfg(test)]
pub(super) use path::duration_seconds;
pub(super) use path::{Layout, read_at};
pub use providers::Provider;
pub(super) use providers::root_of;

const DEPTH_MAX: usize = 32;

/// Reads values in order.
struct Json<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

type Result1<T> = Result<T, SetTextError>;

impl<'a> Json<'a> {
    fn at(text: &'a [u8], at: usize) -> Json<'a> {
        Json { text, at, depth: 0 }
    }

    /// A block of a list, in quotes.
    fn list_block(&mut self) -> Result1<Block> {
        let (from, to) = self.string()?;
        let word = &self.text[from..to];
        if !word.contains(&b'\\') {
            return list_block_at(self.text, from, to);
        }
        // Some writers put a \ in front of each slash.
        let plain = unescaped(word).and_then(|word| block_of(word.trim_ascii(), true).ok());
        plain.ok_or_else(|| SetTextError::at(self.text, from, to - from, ADDRESS))
    }

    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// The mistake that begins here, up to the next sign.
    fn wrong(&mut self, allowed: &'static str) -> SetTextError {
        self.peek();
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:[]{}".contains(byte);
        let length =
            rest.iter().position(ends).unwrap_or(rest.len()).max(usize::from(!rest.is_empty()));
        SetTextError::at(self.text, self.at, length, allowed)
    }

    fn wrong_key(&self, key: &[u8], allowed: &'static str) -> SetTextError {
        // Keys stand right before the colon that was read last.
        let before = &self.text[..self.at];
        let place = before.windows(key.len().max(1)).rposition(|window| window == key);
        SetTextError::at(self.text, place.unwrap_or(self.at), key.len(), allowed)
    }

    fn take(&mut self, sign: u8) -> bool {
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn enter(&mut self) -> Result1<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("at most 32 brackets inside each other"));
        }
        Ok(())
    }

    fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result1<()>) -> Result1<()> {
        if !self.take(b'[') {
            return Err(self.wrong("["));
        }
        self.enter()?;
        if !self.take(b']') {
            loop {
                each(self)?;
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.wrong("a comma or ]"));
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, mut each: impl FnMut(&mut Self, &[u8]) -> Result1<()>) -> Result1<()> {
        if !self.take(b'{') {
            return Err(self.wrong("{"));
        }
        self.enter()?;
        if !self.take(b'}') {
            loop {
                let (from, to) = self.string()?;
                if !self.take(b':') {
                    return Err(self.wrong("a colon"));
                }
                let text = self.text;
                each(self, &text[from..to])?;
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.wrong("a comma or }"));
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Where the inside of a string stands, escapes as they are.
    fn string(&mut self) -> Result1<(usize, usize)> {
        if !self.take(b'"') {
            return Err(self.wrong("a text in quotes"));
        }
        let from = self.at;
        loop {
            match self.text.get(self.at) {
                None => {
                    // An escape may have led behind the end.
                    self.at = self.text.len();
                    return Err(self.wrong("the closing quote"));
                }
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok((from, self.at - 1))
    }

    fn address(&mut self) -> Result1<std::net::IpAddr> {
        let (from, to) = self.string()?;
        let mistake = || SetTextError::at(self.text, from, to - from, "an IPv4 or IPv6 address");
        text::parse(&self.text[from..to]).ok_or_else(mistake)
    }

    fn number(&mut self) -> Result1<u64> {
        self.peek();
        let from = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[from..self.at]).unwrap_or_default();
        digits.parse().map_err(|_| {
            self.at = from;
            self.wrong("a whole number")
        })
    }

    /// A string's text, or any other value as it is written.
    fn value_text(&mut self) -> Result1<Cow<'a, [u8]>> {
        if self.peek() == Some(b'"') {
            let (from, to) = self.string()?;
            return unescaped(&self.text[from..to])
                .ok_or_else(|| SetTextError::at(self.text, from, to - from, "a text of JSON"));
        }
        let from = self.at;
        self.skip()?;
        Ok(Cow::Borrowed(&self.text[from..self.at]))
    }

    /// Passes over any value.
    fn skip(&mut self) -> Result1<()> {
        match self.peek() {
            Some(b'{') => self.object(|json, _| json.skip()),
            Some(b'[') => self.array(Json::skip),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                while self.text.get(self.at).is_some_and(is_inside) {
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(self.wrong("a value of JSON")),
        }
    }

    fn end(&mut self) -> Result1<()> {
        if self.peek().is_some() {
            return Err(self.wrong("nothing after the closing bracket"));
        }
        Ok(())
    }
}

/// The text that a string with escapes stands for; `None` where it stands for none.
fn unescaped(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let text = std::str::from_utf8(text).ok()?;
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let letter = after.chars().next()?;
        rest = &after[letter.len_utf8()..];
        out.push(match letter {
            '"' | '\\' | '/' => letter,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let (mut code, tail) = parse_hex4(rest)?;
                rest = tail;
                if (0xd800..0xdc00).contains(&code) {
                    let (low, tail) = parse_hex4(rest.strip_prefix("\\u")?)?;
                    rest = tail;
                    code = 0x10000 + (code - 0xd800) * 0x400 + low.checked_sub(0xdc00)?;
                }
                char::from_u32(code)?
            }
            _ => return None,
        });
    }
    out.push_str(rest);
    Some(Cow::Owned(out.into_bytes()))
}

/// Four hexadecimal digits, and what follows.
fn parse_hex4(text: &str) -> Option<(u32, &str)> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, &text[4..]))
}
