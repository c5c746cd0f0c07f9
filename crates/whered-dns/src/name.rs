//! Domain names as zones and configuration own them.
//!
//! Not for: names inside messages with compression pointers (`message.rs` reads those), the form
//! that lookups want (`lower.rs`).
//!
//! ```text
//! Name       wire:  03 w w w 07 e x a m p l e 03 c o m 00     case as it was written
//! ```
//!
//! Invariants: at most 255 bytes with the root's zero, labels of 1 to 63 bytes. A length byte is
//! below `A`, so that a whole name can be compared without case byte by byte.
//! Cost: everything is linear in the name's length; only `Name` allocates.
#![deny(clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The longest name in wire form, in bytes, with the root label (RFC 1035, 2.3.4).
pub const NAME_SIZE_MAX: usize = 255;
const LABEL_SIZE_MAX: usize = 63;
const LABEL_COUNT_MAX: usize = 127;

/// A domain name in wire form, always absolute, compared without case (RFC 4343) and ordered as
/// RFC 4034, 6.1 says.
///
/// ```
/// use whered_dns::Name;
/// let name: Name = "WWW.Example.com".parse()?;
/// assert_eq!(name, "www.example.com.".parse()?);
/// assert!(name.is_within(&"example.com".parse()?));
/// assert_eq!(name.to_string(), "WWW.Example.com.");
/// # Ok::<(), whered_dns::NameError>(())
/// ```
#[derive(Clone)]
pub struct Name {
    wire: Box<[u8]>,
}

impl Name {
    /// The root, `.`.
    #[must_use]
    pub fn root() -> Name {
        Name { wire: Box::new([0]) }
    }

    /// Takes a name in wire form without compression.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one name.
    pub fn from_wire(wire: &[u8]) -> Result<Name, NameError> {
        match wire_name_length(wire) {
            Some(length) if length == wire.len() => Ok(Name { wire: wire.into() }),
            _ => Err(NameError::BadWire),
        }
    }

    /// Reads a name in the text form of master files (`\.` and `\DDD` escape). A name without a
    /// dot at its end continues with `origin`, or with the root when there is none.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the name: empty label, too long, bad escape.
    pub fn from_text(text: &[u8], origin: Option<&Name>) -> Result<Name, NameError> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        append_text(text, origin.map_or(&[0], Name::as_wire), &mut wire)?;
        Ok(Name { wire: wire.into() })
    }

    /// The wire form, case kept.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// The labels from left to right, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        Labels { rest: &self.wire }
    }

    /// How many labels, without the root.
    #[must_use]
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }

    /// Whether this name is `ancestor` or below it.
    #[must_use]
    pub fn is_within(&self, ancestor: &Name) -> bool {
        let mut suffix = Some(&*self.wire);
        while let Some(wire) = suffix {
            if wire.len() <= ancestor.wire.len() {
                return wire.eq_ignore_ascii_case(&ancestor.wire);
            }
            suffix = after_label(wire);
        }
        false
    }

    /// The name without its first label; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Name> {
        after_label(&self.wire).map(|rest| Name { wire: rest.into() })
    }

    /// Whether the first label is `*` alone (RFC 4592).
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.wire.starts_with(b"\x01*")
    }
}

/// Appends the wire form of a name's text to `wire`; a name without a dot at its end continues with
/// `origin`, a name in wire form. What was there before stays; after an error, rubbish may follow.
///
/// # Errors
///
/// As [`Name::from_text`].
pub(crate) fn append_text(text: &[u8], origin: &[u8], wire: &mut Vec<u8>) -> Result<(), NameError> {
    let begin = wire.len();
    match text {
        b"" => return Err(NameError::Empty),
        b"." => {
            wire.push(0);
            return Ok(());
        }
        _ => {}
    }
    let mut rest = text;
    let mut absolute = false;
    while !rest.is_empty() {
        let label_start = wire.len();
        wire.push(0);
        absolute = false;
        // Nearly every label is of plain bytes, which are taken together.
        let plain = rest.iter().position(|byte| matches!(byte, b'.' | b'\\'));
        let (run, tail) = rest.split_at(plain.unwrap_or(rest.len()));
        wire.extend_from_slice(run);
        rest = tail;
        while let Some((byte, is_dot, after)) = next_byte(rest)? {
            rest = after;
            if is_dot {
                absolute = true;
                break;
            }
            wire.push(byte);
        }
        let length = wire.len() - label_start - 1;
        match length {
            0 => return Err(NameError::EmptyLabel),
            1..=LABEL_SIZE_MAX => {}
            _ => return Err(NameError::LabelTooLong { length }),
        }
        if let Some(slot) = wire.get_mut(label_start) {
            *slot = length as u8;
        }
    }
    wire.extend_from_slice(if absolute { &[0] } else { origin });
    let length = wire.len() - begin;
    if length > NAME_SIZE_MAX { Err(NameError::TooLong { length }) } else { Ok(()) }
}

/// A byte of a name's text: the byte, whether it is a dot between labels, the text behind it.
type NextByte<'a> = (u8, bool, &'a [u8]);

/// Takes the next byte of a name's text.
fn next_byte(text: &[u8]) -> Result<Option<NextByte<'_>>, NameError> {
    match text {
        [] => Ok(None),
        [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
            let digit = |byte: &u8| u16::from(byte - b'0');
            let value = digit(a) * 100 + digit(b) * 10 + digit(c);
            let byte = u8::try_from(value).map_err(|_| NameError::BadEscape)?;
            Ok(Some((byte, false, rest)))
        }
        [b'\\', b'0'..=b'9', ..] | [b'\\'] => Err(NameError::BadEscape),
        [b'\\', byte, rest @ ..] => Ok(Some((*byte, false, rest))),
        [b'.', rest @ ..] => Ok(Some((b'.', true, rest))),
        [byte, rest @ ..] => Ok(Some((*byte, false, rest))),
    }
}

/// The wire form behind the first label; none for the root and for bytes that are no name.
fn after_label(wire: &[u8]) -> Option<&[u8]> {
    match wire.first() {
        None | Some(0) => None,
        Some(&length) => wire.get(usize::from(length) + 1..),
    }
}

/// The length in bytes of the uncompressed name that `bytes` begin with.
pub(crate) fn wire_name_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1 + length;
        if length > LABEL_SIZE_MAX || at > NAME_SIZE_MAX {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}

struct Labels<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let after = after_label(self.rest)?;
        let label = self.rest.get(1..self.rest.len() - after.len());
        self.rest = after;
        label
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.wire.eq_ignore_ascii_case(&other.wire)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in &*self.wire {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        let (mine, theirs) = (Starts::of(&self.wire), Starts::of(&other.wire));
        let mut mine = mine.labels_from_the_root(&self.wire);
        let mut theirs = theirs.labels_from_the_root(&other.wire);
        loop {
            let (a, b) = match (mine.next(), theirs.next()) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some(a), Some(b)) => (a, b),
            };
            let lower = |label: &[u8]| -> [u8; LABEL_SIZE_MAX] {
                let mut bytes = [0; LABEL_SIZE_MAX];
                if let Some(part) = bytes.get_mut(..label.len()) {
                    part.copy_from_slice(label);
                    part.make_ascii_lowercase();
                }
                bytes
            };
            // Padding with zeros keeps the order except for labels that differ only in zeros at
            // their end, which their lengths decide.
            let order = lower(a).cmp(&lower(b)).then(a.len().cmp(&b.len()));
            if order != Ordering::Equal {
                return order;
            }
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where the labels of one name begin.
struct Starts {
    at: [u8; LABEL_COUNT_MAX],
    count: u8,
}

impl Starts {
    /// The name must be well-formed; of other bytes the readable part is taken.
    fn of(wire: &[u8]) -> Starts {
        let mut starts = Starts { at: [0; LABEL_COUNT_MAX], count: 0 };
        let mut at = 0;
        while let Some(&length) = wire.get(at).filter(|&&length| length != 0)
            && let Some(slot) = starts.at.get_mut(usize::from(starts.count))
        {
            *slot = at as u8;
            starts.count += 1;
            at += 1 + usize::from(length);
        }
        starts
    }

    /// The labels without their length bytes, the rightmost first.
    fn labels_from_the_root<'a>(&'a self, wire: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.at.get(..usize::from(self.count)).unwrap_or_default().iter().rev().filter_map(
            |&start| {
                let length = usize::from(*wire.get(usize::from(start))?);
                wire.get(usize::from(start) + 1..usize::from(start) + 1 + length)
            },
        )
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        Name::from_text(text.as_bytes(), None)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.wire == [0] {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// Why bytes or text are no domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty; the root is written `.`.
    Empty,
    /// Two dots in a row, or a dot at the front.
    EmptyLabel,
    /// A label has more than 63 bytes.
    LabelTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The name has more than 255 bytes in wire form.
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A backslash is followed by neither three digits up to 255 nor another character.
    BadEscape,
    /// The bytes are not exactly one uncompressed name.
    BadWire,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("an empty name; the root is written ."),
            NameError::EmptyLabel => f.write_str("an empty label between two dots"),
            NameError::LabelTooLong { length } => {
                write!(f, "a label of {length} bytes; at most {LABEL_SIZE_MAX} are allowed")
            }
            NameError::TooLong { length } => {
                write!(f, "a name of {length} bytes; at most {NAME_SIZE_MAX} are allowed")
            }
            NameError::BadEscape => {
                f.write_str("a bad escape; allowed are \\DDD up to \\255 and \\ before a character")
            }
            NameError::BadWire => f.write_str("bytes that are not exactly one uncompressed name"),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
