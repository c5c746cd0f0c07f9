//! Prefixes in texts that have bits set behind their length, such as `10.0.0.1/8`.
//!
//! For: remarks. Readers take such a prefix as the block that holds its address (`10.0.0.0/8`), as
//! ipset does, which is often not what was meant. Not for: reading texts; nothing here knows a
//! format. What looks like a prefix anywhere in a line, comments left out, is one.
//!
//! Concurrency: plain values. Cost: one look at each byte of lines that have a slash.

use std::fmt;

use crate::Prefix;

/// A prefix with bits behind its length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostBits {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 1.
    pub column: usize,
    /// The prefix as it is written.
    pub found: String,
    /// The prefix without the host bits.
    pub taken_as: Prefix,
}

impl fmt::Display for HostBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostBits { line, column, found, taken_as } = self;
        write!(
            f,
            "line {line}, column {column}: found {found:?}, which has bits set behind its length: \
             it is taken as {taken_as}"
        )
    }
}

/// Finds such prefixes in a text that comes in parts.
///
/// # Examples
///
/// ```
/// use whered_ip::HostBitsFinder;
///
/// let mut finder = HostBitsFinder::default();
/// finder.push(b"10.0.0.0/8\n192.0.2.0/24, 10.0.");
/// finder.push(b"0.1/8 # not 10.0.0.2/8\n");
/// assert_eq!(finder.count(), 1);
/// assert_eq!(
///     finder.first().map(ToString::to_string).as_deref(),
///     Some(
///         "line 2, column 15: found \"10.0.0.1/8\", which has bits set behind its length: \
///          it is taken as 10.0.0.0/8"
///     )
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct HostBitsFinder {
    /// The lines that ended.
    lines: usize,
    /// The line that has not ended, up to [`LINE_BYTES_MAX`].
    rest: Vec<u8>,
    count: usize,
    first: Option<HostBits>,
}

/// The prefix that a text is taken as, if it has bits set behind its length.
///
/// ```
/// use whered_ip::{Prefix, prefix_without_host_bits};
///
/// assert_eq!(prefix_without_host_bits(b"10.0.0.1/8"), "10.0.0.0/8".parse::<Prefix>().ok());
/// assert_eq!(prefix_without_host_bits(b"10.0.0.0/8"), None);
/// ```
#[must_use]
pub fn prefix_without_host_bits(text: &[u8]) -> Option<Prefix> {
    let slash = text.iter().position(|byte| *byte == b'/')?;
    let address = crate::text::parse(&text[..slash])?;
    let taken_as: Prefix = std::str::from_utf8(text).ok()?.parse().ok()?;
    (taken_as.address() != address).then_some(taken_as)
}

/// As [`prefix_without_host_bits`], of an address with a mask: `10.0.0.1/255.0.0.0`.
fn masked_without_host_bits(word: &[u8]) -> Option<Prefix> {
    let slash = word.iter().position(|byte| *byte == b'/')?;
    let address = crate::text::parse(word.get(..slash)?)?;
    let block = crate::sets::list_block(word)?;
    (block.first() != address).then(|| block.as_prefix()).flatten()
}

/// Of longer lines the end is not looked at.
const LINE_BYTES_MAX: usize = 1 << 20;

impl HostBitsFinder {
    /// All of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> HostBitsFinder {
        let mut finder = HostBitsFinder::default();
        finder.push(text);
        finder.end();
        finder
    }

    /// Looks at the next part of the text.
    pub fn push(&mut self, part: &[u8]) {
        let mut lines = part.split(|byte| *byte == b'\n');
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            if self.rest.is_empty() {
                self.line(line);
            } else {
                self.keep(line);
                self.end();
            }
            self.lines += 1;
        }
        self.keep(last);
    }

    /// The text has ended, perhaps without an end of its last line.
    pub fn end(&mut self) {
        let line = std::mem::take(&mut self.rest);
        self.line(&line);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> Option<&HostBits> {
        self.first.as_ref()
    }

    /// A line about what was found, if anything was.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        let more = match self.count - 1 {
            0 => String::new(),
            more => format!(" (and {more} more like it)"),
        };
        Some(format!("{first}{more}"))
    }

    fn keep(&mut self, part: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.rest.len());
        self.rest.extend(part.iter().take(room));
    }

    fn line(&mut self, line: &[u8]) {
        if !line.contains(&b'/') {
            return;
        }
        let is_part = |byte: &u8| byte.is_ascii_hexdigit() || b"./:".contains(byte);
        let mut at = 0;
        while let Some(skipped) = line.get(at..).and_then(|rest| rest.iter().position(is_part)) {
            // A comment begins a line or stands behind a blank.
            let between = line.get(at..at + skipped).unwrap_or_default();
            let start = at + skipped;
            let is_comment = between.iter().rposition(|byte| *byte == b'#').is_some_and(|mark| {
                let before = (at + mark).checked_sub(1).and_then(|before| line.get(before));
                before.is_none_or(u8::is_ascii_whitespace)
            });
            if is_comment {
                return;
            }
            let rest = line.get(start..).unwrap_or_default();
            let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            at = start + length;
            // `[2001:db8::1]/32`, and a slash as some writers of JSON write it.
            let tail = match behind {
                [b']' | b'\\', b'/', tail @ ..] => tail,
                _ => {
                    self.word(word, start + 1);
                    continue;
                }
            };
            let length = tail.iter().position(|byte| !is_part(byte)).unwrap_or(tail.len());
            at += 2 + length;
            self.word(&[word, b"/", tail.get(..length).unwrap_or_default()].concat(), start + 1);
        }
    }

    fn word(&mut self, word: &[u8], column: usize) {
        let taken_as = prefix_without_host_bits(word).or_else(|| masked_without_host_bits(word));
        let Some(taken_as) = taken_as else { return };
        self.count += 1;
        if self.first.is_none() {
            let (line, found) = (self.lines + 1, String::from_utf8_lossy(word).into_owned());
            self.first = Some(HostBits { line, column, found, taken_as });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_with_bits_behind_their_length_are_found_in_every_format() {
        for (text, expected) in [
            ("1.0.0.1/8", Some((1, 1))),
            ("\n  src 1.0.0.1/8 accept", Some((2, 7))),
            ("x = [\"10.0.0.0/8\", \"2001:db8::1/32\"]", Some((1, 21))),
            ("-A INPUT -s 1.0.0.1/8 -j DROP", Some((1, 13))),
            ("elements={1.0.0.1/8}", Some((1, 11))),
            ("1.0.0.1/8,DE", Some((1, 1))),
            ("1.0.0.1/255.0.0.0", Some((1, 1))),
            (" 1.0.0.1/0.255.255.255", Some((1, 2))),
            ("1.0.0.0/255.0.0.0 1.0.0.1/255.255.255.255", None),
            ("[2001:db8::1]/32 x", Some((1, 2))),
            ("[2001:db8::]/32 [::1]", None),
            ("[\"10.0.0.1\\/8\"]", Some((1, 3))),
            ("@1.0.0.1/8\t0.0.0.0/0", Some((1, 2))),
            ("1.0.0.0/8 10.0.0.1/32 ::1/128 ::/0", None),
            ("# 1.0.0.1/8", None),
            ("1.0.0.0/8 # 1.0.0.1/8", None),
            ("http://10.0.0.1/8/9 10.0.0.1/33 a/b 1/2", None),
            ("", None),
        ] {
            let finder = HostBitsFinder::of(text.as_bytes());
            let found = finder.first().map(|first| (first.line, first.column));
            assert_eq!(found, expected, "{text}");
            assert_eq!(finder.count(), usize::from(expected.is_some()), "{text}");
            // However it is cut.
            for cut in 0..text.len() {
                let mut cut_finder = HostBitsFinder::default();
                cut_finder.push(&text.as_bytes()[..cut]);
                cut_finder.push(&text.as_bytes()[cut..]);
                cut_finder.end();
                assert_eq!(cut_finder.first(), finder.first(), "{text} {cut}");
            }
        }
    }
}
