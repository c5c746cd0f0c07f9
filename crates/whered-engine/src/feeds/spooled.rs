//! Uploads that wait: in a spool on the disk, or in memory where there is no data directory.
//!
//! ```text
//! entry = version u8 | encoding u8 | received | has u8 | [ key ] [ source | position ] [ fields ] | bytes to the end
//!         has: 1 a key, 2 a source; numbers are varints, texts have a length in front
//! fields = count | count times: kind u8 (0 file name, 1 header, 2 query) | name | text
//! ```
//! Version 1 has no fields, version 2 has some; an upload without fields is written as version 1.
//!
//! For: what is appended and read again. Not for: groups and syncs (`whered-store`).
//! An entry without any bytes stands for an upload that a crash has lost.
//! Invariant: bytes are kept as they were received, packed ones packed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use whered_feeds::{UploadField, UploadFields};
use whered_store::{Spool, SpoolReader, SpoolRefusal, Storage, StoreError};

use super::entry::{push_text, take_blob, take_number, take_text};
use super::{Encoding, Upload};
use crate::sync;
use crate::tables::cell::push_varint;

/// The frame kind of an upload.
pub(super) const UPLOAD_KIND: u16 = 1;

/// Without fields.
const VERSION: u8 = 1;
/// With fields.
const VERSION_OF_FIELDS: u8 = 2;
const HAS_KEY: u8 = 1;
const HAS_SOURCE: u8 = 2;

/// An upload as it is read again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpooledUpload<'a> {
    pub(super) encoding: Encoding,
    pub(super) received_millis: u64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) source: Option<(&'a str, &'a [u8])>,
    /// What else came with it, as it is written.
    fields: &'a [u8],
    pub(super) bytes: &'a [u8],
}

impl<'a> SpooledUpload<'a> {
    /// What stands before an upload's bytes.
    pub(super) fn head(upload: &Upload<'_>, key: Option<&[u8]>, received_millis: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.push(if upload.fields.is_empty() { VERSION } else { VERSION_OF_FIELDS });
        out.push(match upload.encoding {
            Encoding::Identity => 0,
            Encoding::Gzip => 1,
            Encoding::Zstd => 2,
        });
        push_varint(&mut out, received_millis);
        let has_source = if upload.source.is_some() { HAS_SOURCE } else { 0 };
        out.push(if key.is_some() { HAS_KEY } else { 0 } | has_source);
        if let Some(key) = key {
            push_text(&mut out, key);
        }
        if let Some((source, position)) = upload.source {
            push_text(&mut out, source.as_bytes());
            push_text(&mut out, position);
        }
        if !upload.fields.is_empty() {
            push_fields(&mut out, upload.fields);
        }
        out
    }

    /// What else came with it.
    ///
    /// # Errors
    /// It is not written as fields are.
    pub(super) fn fields(&self) -> Result<Vec<(UploadField, String)>, String> {
        take_fields(&mut &*self.fields)
    }

    pub(super) fn decode(mut input: &'a [u8]) -> Result<SpooledUpload<'a>, String> {
        let Some((&[version, encoding], rest)) = input.split_first_chunk() else {
            return Err("a spooled upload ends too early".to_owned());
        };
        input = rest;
        if ![VERSION, VERSION_OF_FIELDS].contains(&version) {
            return Err(format!(
                "spooled upload of version {version}; this program reads {VERSION} and \
                 {VERSION_OF_FIELDS}"
            ));
        }
        let encoding = match encoding {
            0 => Encoding::Identity,
            1 => Encoding::Gzip,
            2 => Encoding::Zstd,
            other => return Err(format!("spooled upload of encoding {other}; allowed: 0 to 2")),
        };
        let received_millis = take_number(&mut input)?;
        let (&has, rest) = input.split_first().ok_or("a spooled upload ends too early")?;
        input = rest;
        let key = if has & HAS_KEY != 0 { Some(take_blob(&mut input)?) } else { None };
        let source = if has & HAS_SOURCE != 0 {
            let source = take_text(&mut input)?;
            Some((source, take_blob(&mut input)?))
        } else {
            None
        };
        let before = input;
        if version == VERSION_OF_FIELDS {
            take_fields(&mut input)?;
        }
        let fields = &before[..before.len() - input.len()];
        Ok(SpooledUpload { encoding, received_millis, key, source, fields, bytes: input })
    }
}

/// Appends texts that came with an upload.
pub(super) fn push_fields(out: &mut Vec<u8>, fields: UploadFields<'_>) {
    push_varint(out, fields.len() as u64);
    for (field, text) in fields {
        let (kind, name) = match field {
            // One is made of the other.
            UploadField::FileName | UploadField::FileStem => (0, ""),
            UploadField::Header(name) => (1, name.as_str()),
            UploadField::Query(name) => (2, name.as_str()),
        };
        out.push(kind);
        push_text(out, name.as_bytes());
        push_text(out, text.as_bytes());
    }
}

/// Takes them again; nothing has none.
fn take_fields(input: &mut &[u8]) -> Result<Vec<(UploadField, String)>, String> {
    if input.is_empty() {
        return Ok(Vec::new());
    }
    let count = take_number(input)?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let (&kind, rest) = input.split_first().ok_or("a spooled upload ends too early")?;
        *input = rest;
        let name = take_text(input)?.to_owned();
        let field = match kind {
            0 => UploadField::FileName,
            1 => UploadField::Header(name),
            2 => UploadField::Query(name),
            other => return Err(format!("a field of kind {other}; allowed: 0 to 2")),
        };
        fields.push((field, take_text(input)?.to_owned()));
    }
    Ok(fields)
}

/// Where uploads wait.
pub(super) enum Backlog {
    /// They cannot be read; the feed takes none and applies none. All up to this one are applied.
    Closed(u64),
    /// And its files.
    Disk(Box<Spool>, Arc<dyn Storage>),
    Memory(Mutex<InMemory>),
}

/// Uploads without a disk.
pub(super) struct InMemory {
    /// The sequence of the first one.
    first: u64,
    entries: VecDeque<Vec<u8>>,
    bytes: u64,
    size_bytes_max: u64,
}

/// Reads what waits, in order.
pub(super) enum Reader {
    Disk(SpoolReader),
    Memory { next: u64, entry: Vec<u8> },
}

impl Backlog {
    /// Nothing, in memory, after this position.
    pub(super) fn in_memory(position: u64, size_bytes_max: u64) -> Backlog {
        let (first, entries) = (position + 1, VecDeque::new());
        Backlog::Memory(Mutex::new(InMemory { first, entries, bytes: 0, size_bytes_max }))
    }

    /// Appends an upload, unless `known` gives another one's number; `note` sees its number before
    /// any later one has one. Neither may ask for anything here.
    pub(super) fn append(
        &self,
        payload: &[&[u8]],
        known: impl FnOnce() -> Option<u64>,
        note: impl FnOnce(u64),
    ) -> Result<Result<u64, u64>, SpoolRefusal> {
        match self {
            Backlog::Disk(spool, _) => spool.append_unless(UPLOAD_KIND, payload, known, note),
            // Nobody asks for it: the feed says before why it takes nothing.
            Backlog::Closed(_) => Err(SpoolRefusal::Waiting { waiting_bytes: 0, allowed_bytes: 0 }),
            Backlog::Memory(memory) => {
                let mut memory = sync::lock(memory);
                if let Some(known) = known() {
                    return Ok(Err(known));
                }
                let payload = payload.concat();
                let (waiting_bytes, allowed_bytes) = (memory.bytes, memory.size_bytes_max);
                if waiting_bytes > 0 && waiting_bytes + payload.len() as u64 > allowed_bytes {
                    return Err(SpoolRefusal::Waiting { waiting_bytes, allowed_bytes });
                }
                let sequence = memory.first + memory.entries.len() as u64;
                memory.bytes += payload.len() as u64;
                memory.entries.push_back(payload);
                note(sequence);
                Ok(Ok(sequence))
            }
        }
    }

    /// Up to which upload all may be acknowledged.
    pub(super) fn durable(&self) -> u64 {
        match self {
            Backlog::Disk(spool, _) => spool.durable_sequence(),
            Backlog::Closed(position) => *position,
            Backlog::Memory(memory) => {
                let memory = sync::lock(memory);
                memory.first + memory.entries.len() as u64 - 1
            }
        }
    }

    /// How many wait, and their bytes.
    pub(super) fn waiting(&self) -> (u64, u64) {
        match self {
            Backlog::Disk(spool, _) => spool.waiting(),
            Backlog::Closed(_) => (0, 0),
            Backlog::Memory(memory) => {
                let memory = sync::lock(memory);
                (memory.entries.len() as u64, memory.bytes)
            }
        }
    }

    pub(super) fn spool(&self) -> Option<&Spool> {
        match self {
            Backlog::Disk(spool, _) => Some(spool),
            Backlog::Memory(_) | Backlog::Closed(_) => None,
        }
    }

    /// Whether an upload is on the disk now.
    pub(super) fn is_on_disk(&self, id: u64) -> bool {
        self.spool().is_some_and(|spool| id <= spool.synced_sequence())
    }

    /// Copies the spool; nothing may be removed meanwhile.
    pub(super) fn backup(&self, target: &Arc<dyn Storage>) -> Result<(), StoreError> {
        if let Backlog::Disk(spool, files) = self {
            spool.roll()?;
            whered_store::backup_spool(&**files, target)?;
        }
        Ok(())
    }

    /// All up to this one wait no more.
    pub(super) fn finish(&self, position: u64) {
        match self {
            Backlog::Disk(spool, _) => spool.settle(position),
            Backlog::Closed(_) => {}
            Backlog::Memory(memory) => {
                let mut memory = sync::lock(memory);
                while memory.first <= position {
                    let Some(entry) = memory.entries.pop_front() else { return };
                    memory.bytes -= entry.len() as u64;
                    memory.first += 1;
                }
            }
        }
    }

    /// A reader that begins after this position.
    pub(super) fn reader(&self, position: u64) -> Reader {
        match self {
            Backlog::Disk(..) => Reader::Disk(SpoolReader::new(position + 1)),
            Backlog::Memory(_) | Backlog::Closed(_) => {
                Reader::Memory { next: position + 1, entry: Vec::new() }
            }
        }
    }
}

impl Reader {
    /// The next upload and its number, unless there is none that may be acknowledged.
    pub(super) fn next<'a>(
        &'a mut self,
        waiting: &Backlog,
    ) -> Result<Option<(u64, &'a [u8])>, StoreError> {
        match (self, waiting) {
            (Reader::Disk(reader), Backlog::Disk(spool, _)) => {
                let entry = reader.next(spool)?;
                Ok(entry.map(|entry| (entry.sequence, entry.payload)))
            }
            (Reader::Memory { next, entry }, Backlog::Memory(memory)) => {
                let memory = sync::lock(memory);
                let place = next.checked_sub(memory.first).map(|place| place as usize);
                let Some(found) = place.and_then(|place| memory.entries.get(place)) else {
                    return Ok(None);
                };
                entry.clone_from(found);
                *next += 1;
                Ok(Some((*next - 1, entry)))
            }
            // A reader is made by what it reads; what is closed has nothing for one.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_with_an_upload_comes_back() {
        let fields = [
            (UploadField::FileName, "van-7.csv".to_owned()),
            (UploadField::Header("x-device".to_owned()), "ä".to_owned()),
            (UploadField::Query("trip".to_owned()), String::new()),
        ];
        let upload = Upload { bytes: b"bytes", fields: &fields, ..Upload::default() };
        let mut bytes = SpooledUpload::head(&upload, Some(b"key"), 7);
        bytes.extend_from_slice(upload.bytes);
        let read = SpooledUpload::decode(&bytes).expect("it is one");
        assert_eq!((bytes[0], read.bytes), (VERSION_OF_FIELDS, upload.bytes));
        assert_eq!(read.fields().as_deref(), Ok(&fields[..]));
        for end in 0..bytes.len() {
            let _ = SpooledUpload::decode(&bytes[..end]);
            let mut changed = bytes.clone();
            changed[end] ^= 0xff;
            let _ = SpooledUpload::decode(&changed).map(|read| read.fields());
        }
    }

    #[test]
    fn uploads_come_back_and_no_cut_is_a_panic() {
        let upload = Upload {
            bytes: b"bytes",
            encoding: Encoding::Zstd,
            source: Some(("stream", b"1-0")),
            ..Upload::default()
        };
        let mut bytes = SpooledUpload::head(&upload, Some(b"key"), 1_700_000_000_000);
        bytes.extend_from_slice(upload.bytes);
        let read = SpooledUpload::decode(&bytes).expect("it is one");
        assert_eq!(read.key, Some(&b"key"[..]));
        assert_eq!((read.source, read.bytes), (upload.source, upload.bytes));
        assert_eq!((read.encoding, read.received_millis), (Encoding::Zstd, 1_700_000_000_000));
        assert_eq!((bytes[0], read.fields()), (VERSION, Ok(Vec::new())));
        for end in 0..bytes.len() {
            let _ = SpooledUpload::decode(&bytes[..end]);
            let mut changed = bytes.clone();
            changed[end] ^= 0xff;
            let _ = SpooledUpload::decode(&changed);
        }
    }
}
