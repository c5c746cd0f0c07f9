//! JSON: an array of blocks, and nft's description of its sets.
//!
//! Not for JSON in general: values are passed over as they come, and only what an element consists
//! of is kept. Depth is limited, so that hostile brackets cannot use the stack up.
//!
//! ```text
//! json      ["192.0.2.1", {"prefix": "192.0.2.0/24", "value": "x", "seconds": 60}]
//! nft-json  {"nftables": [ ..., {"set": {"elem": [E, ...]}}, {"element": {"elem": [E, ...]}} ]}
//! E         "192.0.2.1" | {"prefix": {"addr": "192.0.2.0", "len": 24}}
//!           | {"range": ["192.0.2.5", "192.0.2.9"]}
//!           | {"elem": {"val": E, "timeout": 60, "expires": 55, "comment": "x"}}
//! ```

use std::borrow::Cow;

use super::named::Sets;
use super::{ADDRESS, Block, SetEntry, SetTextError, block_at};
use crate::{Prefix, text};

const DEPTH_MAX: usize = 32;

pub(super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut json = Json { text, at: 0, depth: 0 };
    json.array(|json| {
        each(if json.peek() == Some(b'{') { object_entry(json)? } else { text_entry(json)? });
        Ok(())
    })?;
    json.end()
}

pub(super) fn read_nft<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut json = Json { text, at: 0, depth: 0 };
    json.object(|json, key| {
        if key != b"nftables" {
            return json.skip();
        }
        json.array(|json| {
            json.object(|json, key| match key {
                b"set" | b"map" | b"element" => elements(json, sets, each),
                // `{"add": {"element": ...}}` is how commands are written.
                b"add" | b"create" => json.object(|json, key| match key {
                    b"element" | b"set" | b"map" => elements(json, sets, each),
                    _ => json.skip(),
                }),
                b"delete" | b"destroy" => json.object(|json, key| match key {
                    b"element" => {
                        let allowed = "add: elements that are deleted again are no list";
                        Err(json.wrong_key(key, allowed))
                    }
                    _ => json.skip(),
                }),
                _ => json.skip(),
            })
        })
    })?;
    json.end()
}

/// The elements of an object that describes a set.
fn elements<'a>(
    json: &mut Json<'a>,
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    json.peek();
    let start = json.at;
    let about = about(json)?;
    let parts = [&about.family, &about.table, &about.name].into_iter().flatten();
    let name = parts.cloned().collect::<Vec<_>>().join("/");
    if !name.is_empty() && !sets.is_chosen(&name, start) {
        return Ok(());
    }
    // Its names may stand behind its elements.
    let end = std::mem::replace(&mut json.at, start);
    if let Some((from, to)) = about.wrong_type {
        return Err(SetTextError::at(json.text, from, to - from, "\"ipv4_addr\", \"ipv6_addr\""));
    }
    json.object(|json, key| match key {
        b"elem" => json.array(|json| {
            let mut entry = element(json)?;
            entry.ttl_seconds = entry.ttl_seconds.or(about.timeout);
            each(entry);
            Ok(())
        }),
        b"map" => Err(json.wrong_key(key, "a set")),
        _ => json.skip(),
    })?;
    json.at = end;
    Ok(())
}

/// The fields of an object that describe its set.
#[derive(Default)]
struct SetInfo {
    family: Option<String>,
    table: Option<String>,
    name: Option<String>,
    /// How long elements last that say nothing.
    timeout: Option<u64>,
    /// Where a type stands that is not that of addresses.
    wrong_type: Option<(usize, usize)>,
}

fn about(json: &mut Json<'_>) -> Result<SetInfo, SetTextError> {
    let mut about = SetInfo::default();
    json.object(|json, key| {
        let into = match key {
            b"family" => &mut about.family,
            b"table" => &mut about.table,
            b"name" => &mut about.name,
            b"timeout" => {
                about.timeout = Some(json.number()?).filter(|seconds| *seconds > 0);
                return Ok(());
            }
            b"type" => {
                json.peek();
                let from = json.at;
                json.skip()?;
                let is_address =
                    matches!(&json.text[from..json.at], b"\"ipv4_addr\"" | b"\"ipv6_addr\"");
                about.wrong_type = (!is_address).then_some((from, json.at));
                return Ok(());
            }
            _ => return json.skip(),
        };
        *into = Some(String::from_utf8_lossy(&json.value_text()?).into_owned());
        Ok(())
    })?;
    Ok(about)
}

fn text_entry<'a>(json: &mut Json<'a>) -> Result<SetEntry<'a>, SetTextError> {
    let (from, to) = json.string()?;
    Ok(block_at(json.text, from, to)?.into())
}

fn object_entry<'a>(json: &mut Json<'a>) -> Result<SetEntry<'a>, SetTextError> {
    const KEYS: &str = "prefix, value, seconds";
    let start = json.at;
    let (mut block, mut value, mut ttl_seconds) = (None, None, None);
    json.object(|json, key| {
        match key {
            b"prefix" => {
                let (from, to) = json.string()?;
                block = Some(block_at(json.text, from, to)?);
            }
            b"value" => value = Some(json.value_text()?),
            b"seconds" => ttl_seconds = Some(json.number()?),
            _ => return Err(json.wrong_key(key, KEYS)),
        }
        Ok(())
    })?;
    let missing = || SetTextError::at(json.text, start, json.at - start, "an object with prefix");
    Ok(SetEntry { block: block.ok_or_else(missing)?, value, ttl_seconds })
}

/// One element of nft's.
fn element<'a>(json: &mut Json<'a>) -> Result<SetEntry<'a>, SetTextError> {
    if json.peek() != Some(b'{') {
        return text_entry(json);
    }
    let start = json.at;
    let mut entry: Option<SetEntry<'a>> = None;
    let (mut timeout, mut expires, mut value) = (None, None, None);
    json.object(|json, key| {
        match key {
            b"prefix" => entry = Some(prefix(json)?.into()),
            b"range" => entry = Some(range(json)?.into()),
            b"elem" => json.object(|json, key| {
                match key {
                    b"val" => entry = Some(element(json)?),
                    b"timeout" => timeout = Some(json.number()?),
                    b"expires" => expires = Some(json.number()?),
                    b"comment" => value = Some(json.value_text()?),
                    _ => json.skip()?,
                }
                Ok(())
            })?,
            _ => return Err(json.wrong_key(key, "prefix, range, elem")),
        }
        Ok(())
    })?;
    let missing = || SetTextError::at(json.text, start, json.at - start, ADDRESS);
    let mut entry = entry.ok_or_else(missing)?;
    entry.ttl_seconds = expires.or(timeout).or(entry.ttl_seconds);
    entry.value = value.or(entry.value);
    Ok(entry)
}

fn prefix(json: &mut Json<'_>) -> Result<Block, SetTextError> {
    let start = json.at;
    let (mut address, mut length) = (None, None);
    json.object(|json, key| {
        match key {
            b"addr" => address = Some(json.address()?),
            b"len" => length = Some(json.number()?),
            _ => return Err(json.wrong_key(key, "addr, len")),
        }
        Ok(())
    })?;
    let length = length.and_then(|length| u8::try_from(length).ok());
    let prefix =
        address.zip(length).and_then(|(address, length)| Prefix::new(address, length).ok());
    let allowed = "addr, and len of 0 to 32 (IPv4) or 128 (IPv6)";
    let mistake = || SetTextError::at(json.text, start, json.at - start, allowed);
    Ok(prefix.ok_or_else(mistake)?.into())
}

fn range(json: &mut Json<'_>) -> Result<Block, SetTextError> {
    let start = json.at;
    let mut ends = Vec::new();
    json.array(|json| {
        ends.push(json.address()?);
        Ok(())
    })?;
    let block = match ends[..] {
        [first, last] => Block::from_ends(first, last).ok(),
        _ => None,
    };
    let allowed = "two addresses of one family, upwards";
    block.ok_or_else(|| SetTextError::at(json.text, start, json.at - start, allowed))
}

/// Reads values in order.
struct Json<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

type Result1<T> = Result<T, SetTextError>;

impl<'a> Json<'a> {
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
                let (mut code, tail) = unit(rest)?;
                rest = tail;
                if (0xd800..0xdc00).contains(&code) {
                    let (low, tail) = unit(rest.strip_prefix("\\u")?)?;
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
fn unit(text: &str) -> Option<(u32, &str)> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, &text[4..]))
}
