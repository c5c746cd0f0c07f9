//! What the tests of dumps share: a dump made by hand, and a dump as lines.

use std::io::{self, Read};

use whered_replication::rdb::{Event, Key, Limits, RdbError, Reader};

/// A dump that is being written.
pub(crate) struct Dump(pub(crate) Vec<u8>);

#[allow(dead_code, reason = "each test uses a part")]
impl Dump {
    pub(crate) fn new(magic: &str) -> Dump {
        Dump(magic.as_bytes().to_vec())
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Dump {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A length in its short form.
    pub(crate) fn length(self, length: usize) -> Dump {
        match length {
            0..64 => self.raw(&[length as u8]),
            64..16384 => self.raw(&[0x40 | (length >> 8) as u8, length as u8]),
            _ => self.raw(&[0x80]).raw(&(length as u32).to_be_bytes()),
        }
    }

    pub(crate) fn string(self, bytes: impl AsRef<[u8]>) -> Dump {
        self.length(bytes.as_ref().len()).raw(bytes.as_ref())
    }

    /// A type and a key.
    pub(crate) fn key(self, value_type: u8, key: &str) -> Dump {
        self.raw(&[value_type]).string(key)
    }

    /// The end with the checksum.
    pub(crate) fn end(self) -> Vec<u8> {
        let ended = self.raw(&[0xff]);
        let sum = crc64(&ended.0);
        ended.raw(&sum.to_le_bytes()).0
    }
}

/// The CRC-64 of Redis, bit by bit.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            // The polynomial ad93d23594c935a9 backwards.
            (sum >> 1) ^ if sum & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[allow(dead_code, reason = "each test uses a part")]
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("x"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}

/// Gives one byte at a time.
#[allow(dead_code, reason = "each test uses a part")]
pub(crate) struct Drops<'a>(pub(crate) &'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let here = into.len().min(1);
        self.0.read(&mut into[..here])
    }
}

/// The keys of a dump as lines, in the order of their text.
pub(crate) fn lines_of(input: impl Read) -> Result<Vec<String>, RdbError> {
    lines_within(input, Limits::default())
}

pub(crate) fn lines_within(input: impl Read, limits: Limits) -> Result<Vec<String>, RdbError> {
    lines_by(Reader::new(input, limits)?)
}

pub(crate) fn lines_by<R: Read>(mut reader: Reader<R>) -> Result<Vec<String>, RdbError> {
    let mut lines = Vec::new();
    let (mut head, mut members) = (String::new(), Vec::new());
    let head_of = |key: Key<'_>| {
        let over = key.expires_at_millis.map_or("-".to_owned(), |at| at.to_string());
        format!("{} {} {over}", key.database, hex(key.name))
    };
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Note { .. } => {}
            Event::SlotImport { name, ranges } => {
                lines.push(format!("import {} {ranges:?}", hex(name)));
            }
            Event::Text { key, value } => {
                lines.push(format!("string {} {}", head_of(key), hex(value)));
            }
            Event::Skipped { key, kind } => lines.push(format!("{kind} {}", head_of(key))),
            Event::SortedSet { key, .. } => head = head_of(key),
            Event::Member { member, score } => members.push(format!("{}={score:?}", hex(member))),
            Event::SortedSetEnd => {
                members.sort();
                lines.push(format!("zset {head} {}", members.join(" ")));
                members.clear();
            }
        }
    }
    lines.sort();
    Ok(lines)
}
