//! Elements as nft writes them: `elements = { ... }` in a set, or `add element ... { ... }`.
//!
//! Not for the rest of nft's language: chains and rules around the sets are passed over.
//! Maps, and sets of something else than addresses, are refused when they are the ones to be read.
//! A comment is the value; `expires` counts before `timeout`, the set's own `timeout` last.
//!
//! ```text
//! table inet t { set s { type ipv4_addr; timeout 1h; elements = { ... } } }     inet/t/s
//! add element inet t s { ... }                                                  inet/t/s
//! set s { ... }  /  elements = { ... }                                          a part of a dump
//! ```

use std::borrow::Cow;

use super::named::Sets;
use super::{SetEntry, SetTextError, block_at};

const ELEMENT: &str = "an element, a comma or }";
const OPTIONS: &str =
    "timeout DURATION, expires DURATION, comment \"TEXT\", counter packets N bytes N, a comma or }";
const FAMILIES: [&[u8]; 6] = [b"ip", b"ip6", b"inet", b"arp", b"bridge", b"netdev"];

pub(super) fn read<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut reader = Reader { tokens: Tokens { text, at: 0 }, sets, each };
    reader.statements(None)
}

struct Reader<'a, 's, 'w, F> {
    tokens: Tokens<'a>,
    sets: &'s mut Sets<'w>,
    each: &'s mut F,
}

impl<'a, F: FnMut(SetEntry<'a>)> Reader<'a, '_, '_, F> {
    /// Statements up to the end of the text, or of a table.
    fn statements(&mut self, table: Option<&str>) -> Result<(), SetTextError> {
        while let Some((at, token)) = self.tokens.next() {
            match token {
                b"table" if table.is_none() => {
                    let name = self.name_before_brace(2);
                    if self.tokens.take(b"{") {
                        self.statements(Some(&name))?;
                    }
                }
                b"set" | b"map" => {
                    let name = self.name_before_brace(3);
                    let is_set = !name.is_empty() && self.tokens.take(b"{");
                    if is_set {
                        let name = table.map_or(name.clone(), |table| format!("{table}/{name}"));
                        let is_chosen = self.sets.is_chosen(&name, at);
                        self.set(is_chosen)?;
                    }
                }
                b"delete" | b"destroy" => self.deletion()?,
                b"element" => {
                    let name = self.name_before_brace(3);
                    if self.tokens.take(b"{") {
                        let is_chosen = name.is_empty() || self.sets.is_chosen(&name, at);
                        self.elements(is_chosen, None)?;
                    }
                }
                b"elements" if self.tokens.take(b"=") => {
                    self.tokens.expect(b"{")?;
                    self.elements(true, None)?;
                }
                b"{" => self.tokens.skip_braces(),
                b"}" if table.is_some() => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The words up to a brace as `inet/filter/blocked`, of `parts` parts; a table is of the family
    /// `ip` where nothing is said. Empty if the words are no name.
    fn name_before_brace(&mut self, parts: usize) -> String {
        let mut words: Vec<String> = Vec::new();
        while let Some((at, token)) = self.tokens.next() {
            if matches!(token, b"{" | b"}" | b";" | b"=" | b",") {
                self.tokens.at = at;
                break;
            }
            if words.len() == 3 {
                return String::new();
            }
            words.push(String::from_utf8_lossy(token).into_owned());
        }
        let is_family = words.first().is_some_and(|word| FAMILIES.contains(&word.as_bytes()));
        if words.len() + 1 == parts && !is_family {
            words.insert(0, "ip".to_owned());
        }
        words.join("/")
    }

    /// `delete element` would take away what was read; the rest of deletions is no matter of ours.
    fn deletion(&mut self) -> Result<(), SetTextError> {
        match self.tokens.next() {
            Some((at, word @ b"element")) => Err(SetTextError::at(
                self.tokens.text,
                at,
                word.len(),
                "add element: elements that are deleted again are no list",
            )),
            _ => Ok(()),
        }
    }

    /// Parses the text between the braces of a set.
    fn set(&mut self, is_chosen: bool) -> Result<(), SetTextError> {
        const TYPES: &str = "ipv4_addr, ipv6_addr";
        let mut default_seconds = None;
        while let Some((at, token)) = self.tokens.next() {
            match token {
                b"}" => return Ok(()),
                b"type" if is_chosen => {
                    let found = self.tokens.next();
                    let is_address = |word: &[u8]| matches!(word, b"ipv4_addr" | b"ipv6_addr");
                    if let Some((at, word)) = found.filter(|(_, word)| !is_address(word)) {
                        return Err(SetTextError::at(self.tokens.text, at, word.len(), TYPES));
                    }
                    let (at, next) = self.tokens.peek().unwrap_or((at, b""));
                    if matches!(next, b"." | b":") {
                        let allowed = "a set of addresses alone";
                        return Err(SetTextError::at(self.tokens.text, at, 1, allowed));
                    }
                }
                b"flags" => while self.tokens.next().is_some() && self.tokens.take(b",") {},
                b"timeout" if is_chosen => default_seconds = Some(duration(&mut self.tokens)?),
                b"elements" if self.tokens.take(b"=") => {
                    self.tokens.expect(b"{")?;
                    self.elements(is_chosen, default_seconds)?;
                }
                b"{" => self.tokens.skip_braces(),
                _ => {}
            }
        }
        Err(self.tokens.ended("}"))
    }

    /// Elements up to the closing brace.
    fn elements(
        &mut self,
        is_chosen: bool,
        default_seconds: Option<u64>,
    ) -> Result<(), SetTextError> {
        if !is_chosen {
            self.tokens.skip_braces();
            return Ok(());
        }
        let text = self.tokens.text;
        loop {
            let (at, token) = self.tokens.next().ok_or_else(|| self.tokens.ended(ELEMENT))?;
            match token {
                b"}" => return Ok(()),
                b"," => {}
                _ => {
                    let mut entry = SetEntry::from(block_at(text, at, at + token.len())?);
                    let is_last = options(&mut self.tokens, &mut entry)?;
                    entry.ttl_seconds = entry.ttl_seconds.or(default_seconds);
                    (self.each)(entry);
                    if is_last {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Parses the options of an element; true at the closing brace.
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

    /// Passes over a word if it comes next.
    fn take(&mut self, wanted: &[u8]) -> bool {
        let is_next = self.peek().is_some_and(|(_, token)| token == wanted);
        if is_next {
            self.next();
        }
        is_next
    }

    fn peek(&self) -> Option<(usize, &'a [u8])> {
        Tokens { text: self.text, at: self.at }.next()
    }

    /// Passes over what stands in braces, behind the opening one.
    fn skip_braces(&mut self) {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next() {
                Some((_, b"{")) => depth += 1,
                Some((_, b"}")) => depth -= 1,
                Some(_) => {}
                None => return,
            }
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
