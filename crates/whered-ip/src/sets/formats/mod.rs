//! The texts that sets of addresses come in.
//!
//! For: bytes in, entries out, each as it was written. Not for: files, networks, compressed bytes,
//! or merging.
//!
//! ```text
//! plain    192.0.2.0/24, 192.0.2.5-192.0.2.9, 192.0.2.1     one a line, # and ; begin comments:
//!                                                           FireHOL's .netset and .ipset
//! ipset    create s hash:net ...  /  add s 192.0.2.0/24 timeout 60 comment "x"   (ipset save)
//! nft      elements = { 192.0.2.0/24, 192.0.2.5-192.0.2.9 timeout 1h comment "x" }
//! nft-json {"nftables": [{"set": {"elem": ["192.0.2.1", {"prefix": {...}}, {"range": [...]}]}}]}
//! csv      network,geoname_id,...                            (MaxMind's blocks files)
//! json     ["192.0.2.0/24", {"prefix": "192.0.2.1", "value": "x", "seconds": 60}]
//! ```
//!
//! A text of several sets is refused unless one is named (`named`).
//! A text is read to its end or to its first mistake; what was given before the mistake is the
//! caller's to drop. Nothing is skipped silently but comments, blank lines and, in the formats that
//! describe sets, what does not belong to an element.
//!
//! Concurrency: plain functions. Cost: a plain list takes some 20 ns a line and allocates nothing.

mod csv;
mod ipset;
mod json;
mod named;
mod nft;
mod plain;
mod write;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::Block;
use crate::text;
use named::Sets;
pub use write::SetWriter;

/// A format of set texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetFormat {
    /// One block a line, with comments.
    Plain,
    /// The output of `ipset save`.
    Ipset,
    /// Elements as `nft list set` writes them.
    Nft,
    /// Elements as `nft -j list set` writes them.
    NftJson,
    /// MaxMind's CSV files of blocks; the first column after the network is the value.
    Csv,
    /// An array of texts or of objects.
    Json,
}

/// The names of the formats.
const FORMATS: [(&str, SetFormat); 6] = [
    ("plain", SetFormat::Plain),
    ("ipset", SetFormat::Ipset),
    ("nft", SetFormat::Nft),
    ("nft-json", SetFormat::NftJson),
    ("csv", SetFormat::Csv),
    ("json", SetFormat::Json),
];

impl FromStr for SetFormat {
    type Err = String;

    /// Reads `plain`, `ipset`, `nft`, `nft-json`, `csv` or `json`.
    fn from_str(name: &str) -> Result<SetFormat, String> {
        let known = FORMATS.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names = FORMATS.map(|(known, _)| known).join(", ");
            format!("{name:?} is no format of sets: allowed is {names}")
        })
    }
}

impl SetFormat {
    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().map(|(name, _)| *name)
    }

    /// Detects the format by the first words after comments.
    ///
    /// # Examples
    ///
    /// ```
    /// use whered_ip::SetFormat;
    ///
    /// assert_eq!(SetFormat::guess(b"# my list\n192.0.2.1\n"), SetFormat::Plain);
    /// assert_eq!(SetFormat::guess(b"#!/usr/sbin/nft -f\nflush ruleset\n"), SetFormat::Nft);
    /// ```
    #[must_use]
    pub fn guess(text: &[u8]) -> SetFormat {
        let mut text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
        while let Some(b'#' | b';') = text.first() {
            let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
            text = text[end..].trim_ascii_start();
        }
        let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        let line = &text[..end];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'=');
        let mut words = line.split(ends).filter(|word| !word.is_empty());
        let (first, second) = (words.next().unwrap_or(b""), words.next().unwrap_or(b""));
        let is_json_of_nft = || text[1..].trim_ascii_start().starts_with(b"\"nftables\"");
        match (text.first(), first) {
            (Some(b'{'), _) if is_json_of_nft() => SetFormat::NftJson,
            (Some(b'{' | b'['), _) => SetFormat::Json,
            (_, b"add" | b"create") if NFT_OBJECTS.contains(&second) => SetFormat::Nft,
            (_, b"add" | b"create" | b"-exist") => SetFormat::Ipset,
            (_, word) if NFT_WORDS.contains(&word) => SetFormat::Nft,
            _ if csv::has_network(line) => SetFormat::Csv,
            _ => SetFormat::Plain,
        }
    }
}

/// The objects of nft's commands. An ipset may be called so too, but then a type or an address
/// follows, and both formats refuse what they cannot read.
const NFT_OBJECTS: [&[u8]; 6] = [b"element", b"set", b"table", b"map", b"chain", b"rule"];
const NFT_WORDS: [&[u8]; 9] =
    [b"table", b"set", b"map", b"elements", b"flush", b"delete", b"destroy", b"define", b"include"];

/// One entry of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetEntry<'a> {
    /// The block, as it was written.
    pub block: Block,
    /// Its value or comment, if it has one.
    pub value: Option<Cow<'a, [u8]>>,
    /// How long it lasts, if it ends.
    pub ttl_seconds: Option<u64>,
}

impl From<Block> for SetEntry<'_> {
    fn from(block: Block) -> Self {
        SetEntry { block, value: None, ttl_seconds: None }
    }
}

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

impl SetTextError {
    /// The mistake that begins at `place` of `text` and is `length` long.
    fn at(
        text: &[u8],
        place: usize,
        length: usize,
        allowed: impl Into<Cow<'static, str>>,
    ) -> SetTextError {
        let place = place.min(text.len());
        let before = &text[..place];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let shown = &text[place..text.len().min(place + length.min(FOUND_BYTES))];
        let mut found = String::from_utf8_lossy(shown).into_owned();
        if length > FOUND_BYTES {
            found.push('…');
        }
        SetTextError(Box::new(Mistake {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: String::from_utf8_lossy(&text[line_start..place]).chars().count() + 1,
            found,
            allowed: allowed.into(),
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

/// Reads all entries of a text, in its order. In lists (`plain`, `csv`, `json`), a block inside
/// `::ffff:0:0/96` is the IPv4 block that it stands for.
///
/// # Errors
///
/// At the first mistake, with its place.
///
/// # Examples
///
/// ```
/// use whered_ip::{SetFormat, read_set};
///
/// let mut blocks = Vec::new();
/// let text = b"# two of them\n192.0.2.0/24\n192.0.2.5-192.0.2.9\n";
/// read_set(SetFormat::Plain, text, |entry| blocks.push(entry.block.to_string()))?;
/// assert_eq!(blocks, ["192.0.2.0/24", "192.0.2.5-192.0.2.9"]);
///
/// let error = read_set(SetFormat::Plain, b"192.0.2.0/33", |_| ()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1, column 11: found \"33\": allowed is a length of 0 to 32 bits"
/// );
/// # Ok::<(), whered_ip::SetTextError>(())
/// ```
pub fn read_set<'a>(
    format: SetFormat,
    text: &'a [u8],
    each: impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    read_named_set(format, text, None, each)
}

/// As [`read_set`], one set of a text that may have several: `blocked`, or `inet/filter/blocked`
/// where nft has more than one of that name.
///
/// # Errors
///
/// As [`read_set`]. Also where the text has no such set, or where it has several and none is named;
/// then all names are told.
///
/// # Examples
///
/// ```
/// use whered_ip::{SetFormat, read_named_set};
///
/// let dump = b"create a hash:ip\ncreate b hash:ip\nadd a 192.0.2.1\nadd b 192.0.2.2\n";
/// let mut blocks = Vec::new();
/// let each = |entry: whered_ip::SetEntry<'_>| blocks.push(entry.block.to_string());
/// read_named_set(SetFormat::Ipset, dump, Some("b"), each)?;
/// assert_eq!(blocks, ["192.0.2.2/32"]);
///
/// let error = read_named_set(SetFormat::Ipset, dump, None, |_| ()).unwrap_err();
/// assert_eq!(error.allowed(), "one set, or the name of one of several: a, b");
/// # Ok::<(), whered_ip::SetTextError>(())
/// ```
pub fn read_named_set<'a>(
    format: SetFormat,
    text: &'a [u8],
    name: Option<&str>,
    mut each: impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    // What some editors put before a text says nothing.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut sets = Sets::new(name);
    // The kernel's own formats say what the kernel has; lists mean the IPv4 addresses.
    let is_list = matches!(format, SetFormat::Plain | SetFormat::Csv | SetFormat::Json);
    let mut each = |entry: SetEntry<'a>| {
        let block = if is_list { entry.block.to_canonical() } else { entry.block };
        each(SetEntry { block, ..entry });
    };
    match format {
        SetFormat::Plain => plain::read(text, &mut each),
        SetFormat::Ipset => ipset::read(text, &mut sets, &mut each),
        SetFormat::Nft => nft::read(text, &mut sets, &mut each),
        SetFormat::NftJson => json::read_nft(text, &mut sets, &mut each),
        SetFormat::Csv => csv::read(text, &mut each),
        SetFormat::Json => json::read(text, &mut each),
    }?;
    sets.end(text)
}

const ADDRESS: &str = "an IPv4 or IPv6 address, alone, with /length, or two with - between them";

/// The block that stands at `start..end`.
fn block_at(text: &[u8], start: usize, end: usize) -> Result<Block, SetTextError> {
    let word = &text[start..end];
    if let Some(address) = text::parse4(word) {
        return Ok(Block::v4(address, address));
    }
    let mistake = || SetTextError::at(text, start, word.len(), ADDRESS);
    let split = word.iter().position(|byte| matches!(byte, b'/' | b'-'));
    let Some(split) = split else {
        let address = text::parse(word).ok_or_else(mistake)?;
        return Ok(Block::from(address));
    };
    let first = text::parse(word[..split].trim_ascii()).ok_or_else(mistake)?;
    let rest = &word[split + 1..];
    if word[split] == b'-' {
        let last = text::parse(rest.trim_ascii()).ok_or_else(mistake)?;
        let allowed = "a range that goes upwards in one family";
        return Block::from_ends(first, last)
            .map_err(|_| SetTextError::at(text, start, word.len(), allowed));
    }
    let longest = if first.is_ipv4() { 32 } else { 128 };
    let length = match rest {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + (ones - b'0')),
        [b'1', tens @ b'0'..=b'2', ones @ b'0'..=b'9'] => {
            Some(100 + (tens - b'0') * 10 + (ones - b'0'))
        }
        _ => None,
    };
    let prefix = length.and_then(|length| crate::Prefix::new(first, length).ok());
    prefix.map(Block::from).ok_or_else(|| {
        let allowed = format!("a length of 0 to {longest} bits");
        SetTextError::at(text, start + split + 1, rest.len(), allowed)
    })
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;
