//! Reading the uploads of a batch into blocks of records.
//!
//! ```text
//! spool ─> upload ─> unpack ─> scan ─┬─ record ─> time ─> block ─ full, or the upload ends ─> next step
//!                                    └─ refused ───> quarantine
//! ```
//! For: what uploads say. Not for: what it does to places and tables (`consolidate.rs`), keeping
//! (`step.rs`).
//!
//! Invariants: records come in upload order; a block never goes beyond its upload; a record that is
//! refused is in no block. Cost: bench/record says it; a copy of each record's texts.

use whered_feeds::{Events, Mapping, Record, Value};
use whered_ip::MemberList;

use super::StepError;
use super::block::Block;
use super::entry::{Head, Outcome};
use super::pipeline::{Changed, HandOn};
use super::quarantine::Quarantine;
use super::source::{FeedInput, FeedSource};
use super::spooled::{Reader, Spooled, Waiting};
use super::unpack::unpack;
use crate::prefix_sets::read_members;
use crate::tables::stage::TEXT_BYTES_MAX;
use crate::tables::texts::KEY_BYTES_MAX;

/// A record from further ahead of the clock is refused: its time would be the latest for ever.
const AHEAD_MILLIS_MAX: i64 = 24 * 3600 * 1000;
/// The longest reason that is kept of a rejected upload.
const REASON_CHARS_MAX: usize = 300;
/// How much of uploads a batch reads at most, as they are spooled; at least one upload.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Memory for unpacked uploads of more than this is given back.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// What reads uploads, and memory that is used again.
pub(super) struct Reading {
    reader: Reader,
    /// The reader stands behind this upload.
    read: u64,
    pub(super) quarantine: Quarantine,
    unpacked: Vec<u8>,
    block: Block,
}

/// A batch that is made.
#[derive(Default)]
pub(super) struct Made {
    pub(super) head: Head,
    pub(super) records: u64,
    pub(super) rejected: u64,
    pub(super) rejected_uploads: u64,
    /// Records and items.
    events: usize,
    /// Of a feed of prefixes.
    pub(super) members: Option<MemberList>,
}

impl Made {
    fn note(&mut self, outcome: Outcome) {
        match &outcome {
            Outcome::Applied { records, rejected } => {
                self.records += records;
                self.rejected += rejected;
            }
            Outcome::Rejected(_) => self.rejected_uploads += 1,
        }
        self.head.uploads.push(outcome);
    }
}

impl Reading {
    /// `read`: the upload that `reader` stands behind.
    pub(super) fn new(reader: Reader, read: u64, quarantine: Quarantine) -> Reading {
        Reading { reader, read, quarantine, unpacked: Vec::new(), block: Block::default() }
    }

    /// Goes on behind this upload.
    pub(super) fn go_to(&mut self, position: u64, waiting: &Waiting) {
        if self.read != position {
            self.reader = waiting.reader(position);
            self.read = position;
        }
    }

    /// What was read is read again.
    pub(super) fn forget(&mut self) {
        self.read = u64::MAX;
        self.block.clear();
    }

    /// Gives back memory.
    pub(super) fn shed(&mut self) {
        (self.unpacked, self.block) = (Vec::new(), Block::default());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.unpacked.capacity()
    }

    /// Reads uploads until they, or what has `changed` by them, are enough for a batch.
    pub(super) fn read_batch(
        &mut self,
        source: &FeedSource,
        waiting: &Waiting,
        batch: u64,
        changed: &Changed,
        hand_on: &mut HandOn<'_>,
    ) -> Result<Made, StepError> {
        let mut made = Made::default();
        (made.head.batch, made.head.position) = (batch, self.read);
        let mut bytes = 0;
        loop {
            let Reading { reader, quarantine, unpacked, block, .. } = self;
            let next = reader.next(waiting);
            let Some((id, payload)) = next.map_err(|error| StepError(error.to_string()))? else {
                return Ok(made);
            };
            let upload = Spooled::decode(payload).map_err(StepError)?;
            made.head.position = id;
            if let Some(key) = upload.key {
                made.head.keys.push((key.into(), id, upload.received_millis));
            }
            if let Some((source, position)) = upload.source {
                made.head.sources.retain(|(known, _)| known != source);
                made.head.sources.push((source.to_owned(), position.to_vec()));
            }
            bytes += payload.len();
            quarantine.begin(id);
            let mut scan = Scan {
                block,
                quarantine,
                hand_on,
                received_millis: upload.received_millis as i64,
                records: 0,
                rejected: 0,
                events: 0,
            };
            let outcome = read_upload(source, &upload, unpacked, &mut scan, &mut made.members);
            made.events += scan.events;
            made.note(outcome);
            self.read = id;
            if self.unpacked.capacity() > KEPT_BYTES_MAX {
                self.unpacked = Vec::new();
            }
            let is_enough = made.events >= source.limits.batch_events_max
                || bytes >= BATCH_BYTES_MAX
                || changed.is_enough();
            // Each list of prefixes is a change of its own.
            if is_enough || made.members.is_some() {
                return Ok(made);
            }
        }
    }
}

/// Reads one upload.
fn read_upload(
    source: &FeedSource,
    upload: &Spooled<'_>,
    unpacked: &mut Vec<u8>,
    scan: &mut Scan<'_, '_>,
    members: &mut Option<MemberList>,
) -> Outcome {
    let limit = source.limits.upload_size_bytes_max;
    let text = match unpack(upload.bytes, upload.encoding, limit, unpacked) {
        Ok(text) => text,
        Err(reason) => return scan.refuse_upload(0, &reason),
    };
    match &source.input {
        FeedInput::Records(mapping) => scan.read(mapping, text),
        FeedInput::Prefixes(format) => match read_members(text, *format) {
            Ok(list) => {
                let records = list.len() as u64;
                *members = Some(list);
                Outcome::Applied { records, rejected: 0 }
            }
            Err(reason) => scan.refuse_upload(0, &reason),
        },
    }
}

/// One upload while it is read.
struct Scan<'a, 'b> {
    block: &'a mut Block,
    quarantine: &'a mut Quarantine,
    hand_on: &'a mut HandOn<'b>,
    received_millis: i64,
    records: u64,
    rejected: u64,
    /// Records and items.
    events: usize,
}

impl Scan<'_, '_> {
    fn read(&mut self, mapping: &Mapping, text: &[u8]) -> Outcome {
        let scanned = mapping.scan(text, self);
        if !self.block.is_empty() {
            (self.hand_on)(self.block);
        }
        if let Err(error) = scanned {
            let reason = error.to_string();
            if self.records == 0 {
                return self.refuse_upload(error.offset_bytes(), &reason);
            }
            // The records before stay, and the rest counts as one.
            self.reject(error.offset_bytes(), &reason);
        }
        Outcome::Applied { records: self.records, rejected: self.rejected }
    }

    fn refuse_upload(&mut self, offset_bytes: u64, reason: &str) -> Outcome {
        self.quarantine.add(offset_bytes, reason);
        Outcome::Rejected(reason.chars().take(REASON_CHARS_MAX).collect())
    }

    /// Why a record does not count, before it has changed anything.
    #[inline]
    fn refusal(&self, record: &Record<'_>, time: i64) -> Option<String> {
        if time > self.received_millis + AHEAD_MILLIS_MAX {
            let hours = (time - self.received_millis) / 3_600_000;
            return Some(format!("its time is {hours} hours ahead of the clock; allowed: 24"));
        }
        let mut text_bytes = record.member.len();
        for value in record.fields {
            if let Value::Text(text) = value {
                text_bytes += text.len();
            }
        }
        let longest = record.items.iter().map(|item| item.key.len()).max().unwrap_or(0);
        // What a key has beside its texts is far less than a quarter of what it may have.
        let allowed = KEY_BYTES_MAX.min(TEXT_BYTES_MAX) / 4 * 3;
        (text_bytes + longest > allowed)
            .then(|| format!("its texts have more than the {allowed} bytes that are allowed"))
    }
}

impl Events for Scan<'_, '_> {
    fn record(&mut self, record: &Record<'_>) {
        self.events += 1 + record.items.len();
        let time = record.time_millis.unwrap_or(self.received_millis);
        if let Some(reason) = self.refusal(record, time) {
            self.reject(record.offset_bytes, &reason);
            return;
        }
        self.records += 1;
        self.block.push(record, time);
        if self.block.is_whole() {
            (self.hand_on)(self.block);
        }
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        self.rejected += 1;
        self.quarantine.add(offset_bytes, reason);
    }
}
