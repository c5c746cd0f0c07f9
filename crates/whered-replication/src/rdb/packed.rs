//! List packs and zip lists: the forms of small sorted sets, entry by entry.
//!
//! Both are one string. Its own lengths are checked against what comes: bytes, entries, and the
//! length of the entry before that each entry has for reading backwards.

use std::io::Read;

use super::blob::{Blob, Head};
use super::error::RdbError;
use super::source::Source;

/// The byte behind the last entry.
const END: u8 = 0xff;
/// The number of entries of a list that has too many to say so.
const UNKNOWN_ENTRIES: u16 = u16::MAX;

/// Which of the two forms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    ListPack,
    ZipList,
}

/// An entry; a text is in the caller's vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Integer(i64),
    Text,
}

/// A packed list that is being read.
pub(super) struct PackedList {
    blob: Blob,
    form: Form,
    total: u64,
    claimed: Option<u64>,
    entries: u64,
    /// Of a zip list: bytes of the entry before, where it began, and where the last one shall.
    previous: u64,
    last_began: u64,
    tail: u64,
}

impl PackedList {
    /// Reads the string's beginning and the list's header.
    pub(super) fn begin<R: Read>(
        source: &mut Source<R>,
        form: Form,
    ) -> Result<PackedList, RdbError> {
        let head = Head::read(source)?;
        let mut blob = Blob::new(&head, source)?;
        let total = blob.left();
        let stated = u64::from(u32::from_le_bytes(blob.array(source)?));
        let tail = match form {
            Form::ListPack => 0,
            Form::ZipList => u64::from(u32::from_le_bytes(blob.array(source)?)),
        };
        let count = u16::from_le_bytes(blob.array(source)?);
        if stated != total {
            return source.wrong(format!("a packed list of {stated} bytes in a string of {total}"));
        }
        let claimed = (count != UNKNOWN_ENTRIES).then_some(u64::from(count));
        let (entries, previous) = (0, 0);
        Ok(PackedList { last_began: 10, blob, form, total, claimed, entries, previous, tail })
    }

    /// How many entries there are, if the list says so.
    pub(super) fn claimed(&self) -> Option<u64> {
        self.claimed
    }

    /// The next entry, whose text is put in the place of what `text` held.
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Vec<u8>,
        bytes_max: u64,
    ) -> Result<Option<Entry>, RdbError> {
        let began = self.total - self.blob.left();
        let first = self.blob.byte(source)?;
        if first == END {
            self.finish(source)?;
            return Ok(None);
        }
        self.entries += 1;
        text.clear();
        let entry = match self.form {
            Form::ListPack => self.list_pack_entry(source, first, text, bytes_max)?,
            Form::ZipList => {
                self.last_began = began;
                let previous = match first {
                    0xfe => u64::from(u32::from_le_bytes(self.blob.array(source)?)),
                    short => u64::from(short),
                };
                if previous != self.previous {
                    return source.wrong("an entry of a zip list has a wrong length before it");
                }
                self.zip_list_entry(source, text, bytes_max)?
            }
        };
        self.previous = self.total - self.blob.left() - began;
        if self.form == Form::ListPack {
            self.skip_back_length(source)?;
        }
        Ok(Some(entry))
    }

    fn finish<R: Read>(&self, source: &Source<R>) -> Result<(), RdbError> {
        if self.blob.left() > 0 {
            let left = self.blob.left();
            return source.wrong(format!("a packed list ends {left} bytes before its string"));
        }
        self.blob.finish(source)?;
        if self.claimed.is_some_and(|claimed| claimed != self.entries) {
            return source.wrong("a packed list has another number of entries than it claims");
        }
        if self.form == Form::ZipList && self.tail != self.last_began {
            return source.wrong("a zip list has its last entry elsewhere than it claims");
        }
        Ok(())
    }

    fn text<R: Read>(
        &mut self,
        source: &mut Source<R>,
        bytes: u64,
        text: &mut Vec<u8>,
        bytes_max: u64,
    ) -> Result<Entry, RdbError> {
        if bytes > bytes_max {
            return source.wrong(format!("an entry of {bytes} bytes; allowed: {bytes_max}"));
        }
        self.blob.append(source, bytes, text)?;
        Ok(Entry::Text)
    }

    fn list_pack_entry<R: Read>(
        &mut self,
        source: &mut Source<R>,
        first: u8,
        text: &mut Vec<u8>,
        bytes_max: u64,
    ) -> Result<Entry, RdbError> {
        let low = u64::from(first);
        Ok(match first {
            0..=0x7f => Entry::Integer(i64::from(first)),
            0x80..=0xbf => self.text(source, low & 0x3f, text, bytes_max)?,
            0xc0..=0xdf => {
                let bits = u16::from_be_bytes([first & 0x1f, self.blob.byte(source)?]);
                // 13 bits with a sign.
                Entry::Integer(i64::from((bits << 3).cast_signed() >> 3))
            }
            0xe0..=0xef => {
                let bytes = u16::from_be_bytes([first & 0x0f, self.blob.byte(source)?]);
                self.text(source, u64::from(bytes), text, bytes_max)?
            }
            0xf0 => {
                let bytes = u32::from_le_bytes(self.blob.array(source)?);
                self.text(source, u64::from(bytes), text, bytes_max)?
            }
            0xf1 => Entry::Integer(i64::from(i16::from_le_bytes(self.blob.array(source)?))),
            0xf2 => Entry::Integer(self.three_bytes(source)?),
            0xf3 => Entry::Integer(i64::from(i32::from_le_bytes(self.blob.array(source)?))),
            0xf4 => Entry::Integer(i64::from_le_bytes(self.blob.array(source)?)),
            _ => return source.wrong(format!("{first:#04x} begins no entry of a list pack")),
        })
    }

    fn zip_list_entry<R: Read>(
        &mut self,
        source: &mut Source<R>,
        text: &mut Vec<u8>,
        bytes_max: u64,
    ) -> Result<Entry, RdbError> {
        let first = self.blob.byte(source)?;
        Ok(match first {
            0..=0x3f => self.text(source, u64::from(first), text, bytes_max)?,
            0x40..=0x7f => {
                let bytes = u16::from_be_bytes([first & 0x3f, self.blob.byte(source)?]);
                self.text(source, u64::from(bytes), text, bytes_max)?
            }
            0x80 => {
                let bytes = u32::from_be_bytes(self.blob.array(source)?);
                self.text(source, u64::from(bytes), text, bytes_max)?
            }
            0xc0 => Entry::Integer(i64::from(i16::from_le_bytes(self.blob.array(source)?))),
            0xd0 => Entry::Integer(i64::from(i32::from_le_bytes(self.blob.array(source)?))),
            0xe0 => Entry::Integer(i64::from_le_bytes(self.blob.array(source)?)),
            0xf0 => Entry::Integer(self.three_bytes(source)?),
            0xfe => Entry::Integer(i64::from(i8::from_le_bytes(self.blob.array(source)?))),
            0xf1..=0xfd => Entry::Integer(i64::from(first & 0x0f) - 1),
            _ => return source.wrong(format!("{first:#04x} begins no entry of a zip list")),
        })
    }

    /// A number of 24 bits with a sign.
    fn three_bytes<R: Read>(&mut self, source: &mut Source<R>) -> Result<i64, RdbError> {
        let [a, b, c] = self.blob.array(source)?;
        Ok(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8))
    }

    /// The length of the entry, for reading backwards: seven bits a byte, the highest first.
    fn skip_back_length<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), RdbError> {
        let expected = self.previous;
        let count = [1 << 7, 1 << 14, 1 << 21, 1 << 28]
            .iter()
            .position(|limit| expected < *limit)
            .unwrap_or(4);
        let mut found = 0;
        for place in 0..=count {
            let byte = self.blob.byte(source)?;
            if (place > 0) != (byte & 0x80 != 0) {
                return source.wrong("an entry of a list pack has a wrong length behind it");
            }
            found = found << 7 | u64::from(byte & 0x7f);
        }
        match found == expected {
            true => Ok(()),
            false => source.wrong("an entry of a list pack has a wrong length behind it"),
        }
    }
}
