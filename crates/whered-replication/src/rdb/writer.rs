//! The writer of whole dumps of sorted sets, as a primary sends them to its replicas.
//!
//! For: sorted sets with their expiry times, and remarks, to any [`Write`]. Not for: payloads of
//! `DUMP` (`payload`), other types, compression.
//!
//! ```text
//! REDIS0011 │ 250 name value │ 254 database │ [252 expiry] 5 key length { member score }*
//!   │ 255 CRC-64
//! VALKEY080 │ ... │ { 243 name length { first last }* }* │ 254 ...     where slots are imported
//! ```
//!
//! Memory: 64 KiB. Cost: one pass and the CRC-64.

use std::io::{self, Write};

use crc_fast::{CrcAlgorithm, Digest};

use super::payload::{append_length, append_string};

/// The remark that keys of other types are not in the dump, although their primary may have some.
pub const SORTED_SETS_ONLY: &[u8] = b"whered-sorted-sets-only";
/// How much is written at once.
const WRITE_BYTES: usize = 64 << 10;

/// The name of a migration, and the first and the last slot of each of its ranges.
pub type NamedSlots<'a> = (&'a [u8], &'a [(u16, u16)]);

/// A dump that is being written.
///
/// ```
/// use whered_replication::rdb::{Event, Limits, Reader, SORTED_SETS_ONLY, Writer};
///
/// let mut writer = Writer::new(Vec::new(), 0, 0)?;
/// writer.sorted_set(b"k", 1, None)?;
/// writer.member(b"m", 1.5)?;
/// let dump = writer.end()?;
/// let mut reader = Reader::new(&dump[..], Limits::default())?;
/// assert!(matches!(reader.next_event()?, Some(Event::Note { name: b"repl-stream-db", .. })));
/// assert!(matches!(reader.next_event()?, Some(Event::Note { name: SORTED_SETS_ONLY, .. })));
/// assert!(matches!(reader.next_event()?, Some(Event::SortedSet { members: Some(1), .. })));
/// assert!(matches!(reader.next_event()?, Some(Event::Member { member: b"m", score: 1.5 })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<W> {
    output: W,
    sum: Digest,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a dump whose keys are of one database; the stream behind it has selected another or
    /// the same.
    ///
    /// # Errors
    /// Those of the output; so everywhere here.
    pub fn new(output: W, database: u32, stream_database: u32) -> io::Result<Writer<W>> {
        Writer::with_imports(output, database, stream_database, &[])
    }

    /// As [`Writer::new`], where the primary takes over slots from another server.
    ///
    /// # Errors
    /// Those of the output.
    pub fn with_imports(
        output: W,
        database: u32,
        stream_database: u32,
        imports: &[NamedSlots<'_>],
    ) -> io::Result<Writer<W>> {
        let sum = Digest::new(CrcAlgorithm::Crc64Redis);
        let mut writer = Writer { output, sum, buffer: Vec::with_capacity(2 * WRITE_BYTES) };
        // Redis has another meaning for the opcode of imports.
        let magic = if imports.is_empty() { b"REDIS0011" } else { b"VALKEY080" };
        writer.buffer.extend_from_slice(magic);
        writer.note(b"repl-stream-db", stream_database.to_string().as_bytes());
        writer.note(SORTED_SETS_ONLY, b"1");
        for (name, ranges) in imports {
            writer.buffer.push(243);
            append_string(&mut writer.buffer, name);
            append_length(&mut writer.buffer, ranges.len() as u64);
            for slot in ranges.iter().flat_map(|(first, last)| [*first, *last]) {
                append_length(&mut writer.buffer, u64::from(slot));
            }
        }
        writer.buffer.push(254);
        append_length(&mut writer.buffer, u64::from(database));
        Ok(writer)
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        self.buffer.push(250);
        append_string(&mut self.buffer, name);
        append_string(&mut self.buffer, value);
    }

    /// Begins a sorted set, whose members follow.
    ///
    /// # Errors
    /// Those of the output.
    pub fn sorted_set(
        &mut self,
        key: &[u8],
        members: u64,
        expires_at_millis: Option<u64>,
    ) -> io::Result<()> {
        if let Some(at) = expires_at_millis {
            self.buffer.push(252);
            self.buffer.extend_from_slice(&at.to_le_bytes());
        }
        self.buffer.push(5);
        append_string(&mut self.buffer, key);
        append_length(&mut self.buffer, members);
        self.flush_above(WRITE_BYTES)
    }

    /// A member of the sorted set that was begun.
    ///
    /// # Errors
    /// Those of the output.
    pub fn member(&mut self, member: &[u8], score: f64) -> io::Result<()> {
        append_string(&mut self.buffer, member);
        self.buffer.extend_from_slice(&score.to_le_bytes());
        self.flush_above(WRITE_BYTES)
    }

    /// Ends the dump and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self) -> io::Result<W> {
        self.buffer.push(255);
        self.flush_above(0)?;
        let sum = self.sum.finalize();
        self.output.write_all(&sum.to_le_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn flush_above(&mut self, bytes: usize) -> io::Result<()> {
        if self.buffer.len() > bytes {
            self.sum.update(&self.buffer);
            self.output.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
