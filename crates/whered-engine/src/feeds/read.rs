//! Reading the uploads of a batch into blocks of records.
//!
//! ```text
//! spool ─> upload ─> unpack ─> scan ─┬─ record ─> time ─> block ─ full, or the upload ends ─> next step
//!                                    └─ refused ───> lines for the quarantine
//! ```
//! While a batch is kept, the next one's uploads are **read ahead**: their blocks wait for the
//! steps.
//!
//! For: what uploads say. Not for: what it does to places and tables (`consolidate.rs`), keeping
//! (`step.rs`).
//!
//! Invariants: records come in upload order; a block never goes beyond its upload; a record that is
//! refused is in no block. What was read ahead counts for the batch that begins where it does, and
//! is forgotten by any other. Cost: `bench/results/feed`; a copy of each record's texts; what is
//! read ahead takes [`AHEAD_BYTES`] and the blocks of one upload of [`AHEAD_TEXT_BYTES_MAX`], at
//! most, beside the blocks that are under way in a batch (`pipeline.rs`); all of them are kept for
//! the next one.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use whered_feeds::{Events, Location, Locator, Mapping, Record, UploadFields, Value};
use whered_ip::{HostBitsFinder, MemberList};

use super::StepError;
use super::block::Block;
use super::entry::{Head, Outcome};
use super::pipeline::{Changed, HandOn};
use super::quarantine::Rejections;
use super::source::{FeedInput, FeedSource};
use super::spooled::{Backlog, Reader, SpooledUpload};
use super::unpack::unpack;
use crate::prefix_sets::read_members;
use crate::tables::stage::TEXT_BYTES_MAX;
use crate::tables::texts::KEY_BYTES_MAX;

/// A record from further ahead of the clock is refused: its time would be the latest for ever.
const AHEAD_MILLIS_MAX: i64 = 24 * 3600 * 1000;
/// The longest reason that is kept of a rejected upload.
const REASON_CHARS_MAX: usize = 300;
/// How much of uploads a batch reads at most, unpacked; at least one upload. A text of it may go
/// into the batch's entry several times, once for each table, and an entry has its own limit.
const BATCH_BYTES_MAX: usize = 128 << 20;
/// Memory for unpacked uploads of more than this is given back.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// How much is read ahead, in blocks: what takes as long as keeping a batch.
const AHEAD_BYTES: usize = 24 << 20;
/// Uploads with more text than this are not read ahead.
const AHEAD_TEXT_BYTES_MAX: u64 = 4 << 20;
/// What becomes of an upload that was acknowledged as not durable and is gone.
const LOST: &str = "it was lost in a crash or by damage before it was applied";
/// What such an upload counts in a batch's bytes: its reason.
const LOST_BYTES: usize = 128;
/// Lines for the quarantine of more than this are enough for a batch.
const REFUSED_BYTES_MAX: usize = 16 << 20;

/// What reads uploads, and memory that is used again.
pub(super) struct BatchReader {
    reader: Reader,
    /// The reader stands behind this upload.
    read: u64,
    /// Whether reasons are kept.
    is_quarantined: bool,
    unpacked: Vec<u8>,
    block: Block,
    ahead: Option<ReadAhead>,
    /// Empty blocks for what is read ahead, and for steps on threads.
    spare: Vec<Block>,
}

/// The beginning of a batch that was read ahead.
struct ReadAhead {
    /// It begins behind this upload.
    position: u64,
    made: Batch,
    blocks: Vec<Block>,
}

/// A batch that is made.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) head: Head,
    pub(super) records: u64,
    pub(super) rejected: u64,
    pub(super) rejected_uploads: u64,
    pub(super) refused: Rejections,
    /// Records and items.
    events: usize,
    /// Of uploads, unpacked.
    bytes: usize,
    /// Of a feed of prefixes.
    pub(super) members: Option<MemberList>,
}

impl Batch {
    fn is_enough(&self, source: &FeedSource) -> bool {
        self.events >= source.limits.batch_events_max
            || self.bytes >= BATCH_BYTES_MAX
            || self.refused.memory_bytes() >= REFUSED_BYTES_MAX
            // Each list of prefixes is a change of its own.
            || self.members.is_some()
    }

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

    /// Takes back the list of prefixes that was read last.
    pub(super) fn reject_members(&mut self, reason: &str) {
        let Some(members) = self.members.take() else { return };
        self.records -= members.len() as u64;
        self.rejected_uploads += 1;
        self.refused.add(0, || None, reason);
        if let Some(outcome) = self.head.uploads.last_mut() {
            *outcome = Outcome::Rejected(reason.chars().take(REASON_CHARS_MAX).collect());
        }
    }
}

impl BatchReader {
    /// `read`: the upload that `reader` stands behind.
    pub(super) fn new(reader: Reader, read: u64, is_quarantined: bool) -> BatchReader {
        let (unpacked, block, spare) = (Vec::new(), Block::default(), Vec::new());
        BatchReader { reader, read, is_quarantined, unpacked, block, ahead: None, spare }
    }

    /// Goes on behind this upload.
    pub(super) fn go_to(&mut self, position: u64, waiting: &Backlog) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.position == position) {
            return;
        }
        self.ahead = None;
        if self.read != position {
            self.reader = waiting.reader(position);
            self.read = position;
            self.block.clear();
        }
    }

    /// What was read is read again.
    pub(super) fn forget(&mut self) {
        self.read = u64::MAX;
        self.ahead = None;
        self.block.clear();
    }

    /// Gives back memory.
    pub(super) fn release_memory(&mut self) {
        self.forget();
        (self.unpacked, self.block) = (Vec::new(), Block::default());
        self.release_blocks();
    }

    /// Gives back what only large batches have use for.
    pub(super) fn release_blocks(&mut self) {
        self.spare = Vec::new();
    }

    /// Lends the empty blocks to the steps of a batch.
    pub(super) fn lend_blocks(&mut self) -> Vec<Block> {
        mem::take(&mut self.spare)
    }

    /// Takes them back, and what was made meanwhile.
    pub(super) fn take_blocks_back(&mut self, blocks: Vec<Block>) {
        self.spare.extend(blocks);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let ahead = self.ahead.iter().flat_map(|ahead| &ahead.blocks);
        let blocks: usize = self.spare.iter().chain(ahead).map(Block::memory_bytes).sum();
        let refused = self.ahead.as_ref().map_or(0, |ahead| ahead.made.refused.memory_bytes());
        self.unpacked.capacity() + blocks + refused
    }

    /// How many uploads were read ahead.
    #[cfg(test)]
    pub(super) fn uploads_ahead(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.made.head.uploads.len())
    }

    /// Reads uploads until they, or what has `changed` by them, are enough for a batch.
    pub(super) fn read_batch(
        &mut self,
        source: &FeedSource,
        waiting: &Backlog,
        batch: u64,
        changed: &Changed,
        hand_on: &mut HandOn<'_>,
    ) -> Result<Batch, StepError> {
        let (mut made, blocks) = match self.ahead.take() {
            Some(ahead) => (ahead.made, ahead.blocks),
            None => (self.empty_batch(), Vec::new()),
        };
        (made.head.batch, made.head.position) = (batch, self.read);
        for mut block in blocks {
            hand_on(&mut block);
            block.clear();
            self.spare.push(block);
        }
        let limits = Limits { is_over: &|| changed.is_enough(), is_ahead: false };
        self.read_on(source, waiting, &mut made, &limits, hand_on)?;
        Ok(made)
    }

    fn empty_batch(&self) -> Batch {
        Batch { refused: Rejections::new(self.is_quarantined), ..Batch::default() }
    }

    /// Reads the beginning of the next batch until it `is_over`, as far as there is room; a fault
    /// is met again by the batch itself.
    pub(super) fn read_ahead(
        &mut self,
        source: &FeedSource,
        waiting: &Backlog,
        is_over: &AtomicBool,
    ) {
        let (position, mut made) = (self.read, self.empty_batch());
        let (mut blocks, mut spare) = (Vec::new(), mem::take(&mut self.spare));
        let bytes = Cell::new(0);
        let is_enough = || is_over.load(Ordering::Relaxed) || bytes.get() >= AHEAD_BYTES;
        let mut keep = |block: &mut Block| {
            bytes.set(bytes.get() + block.memory_bytes());
            blocks.push(mem::replace(block, spare.pop().unwrap_or_default()));
        };
        let limits = Limits { is_over: &is_enough, is_ahead: true };
        match self.read_on(source, waiting, &mut made, &limits, &mut keep) {
            Ok(()) => self.ahead = Some(ReadAhead { position, made, blocks }),
            Err(_) => self.forget(),
        }
        // Where nothing waits nothing is kept for it.
        let is_used = self.read != position;
        self.spare = if is_used { spare } else { Vec::new() };
    }

    /// Reads more uploads of a batch, at least one if it has none.
    fn read_on(
        &mut self,
        source: &FeedSource,
        waiting: &Backlog,
        made: &mut Batch,
        limits: &Limits<'_>,
        hand_on: &mut HandOn<'_>,
    ) -> Result<(), StepError> {
        let mut size_bytes_max = source.limits.upload_size_bytes_max;
        if limits.is_ahead {
            size_bytes_max = size_bytes_max.min(AHEAD_TEXT_BYTES_MAX);
        }
        while made.head.uploads.is_empty() || !(made.is_enough(source) || (limits.is_over)()) {
            let BatchReader { reader, unpacked, block, .. } = self;
            let next = reader.next(waiting);
            let Some((id, payload)) = next.map_err(|error| StepError(error.to_string()))? else {
                return Ok(());
            };
            if payload.is_empty() {
                made.head.position = id;
                made.head.uploads.push(Outcome::Rejected(LOST.to_owned()));
                made.bytes += LOST_BYTES;
                self.read = id;
                continue;
            }
            let upload = SpooledUpload::decode(payload).map_err(StepError)?;
            let is_large = upload.bytes.len() as u64 > size_bytes_max;
            let text = unpack(upload.bytes, upload.encoding, size_bytes_max, unpacked);
            // What is too large to be read ahead, or is wrong, is the batch's own.
            if limits.is_ahead && (is_large || text.is_err()) {
                self.reader = waiting.reader(self.read);
                return Ok(());
            }
            // Until all of it is read: a panic would leave it half read.
            self.read = u64::MAX;
            made.head.position = id;
            if let Some(key) = upload.key {
                made.head.keys.push((key.into(), id, upload.received_millis));
            }
            if let Some((source, position)) = upload.source {
                made.head.sources.retain(|(known, _)| known != source);
                made.head.sources.push((source.to_owned(), position.to_vec()));
            }
            made.bytes += text.as_ref().map_or(payload.len(), |text| text.len());
            made.refused.begin(id);
            let mut scan = Scan {
                block,
                refused: &mut made.refused,
                hand_on: &mut *hand_on,
                received_millis: upload.received_millis as i64,
                records: 0,
                rejected: 0,
                events: 0,
            };
            let fields = upload.fields().map_err(StepError)?;
            let outcome = read_upload(source, text, &fields, &mut scan, &mut made.members);
            made.events += scan.events;
            made.note(outcome);
            self.read = id;
            if self.unpacked.capacity() > KEPT_BYTES_MAX {
                self.unpacked = Vec::new();
            }
        }
        Ok(())
    }
}

/// What ends reading.
struct Limits<'a> {
    /// Asked before each upload but the first.
    is_over: &'a dyn Fn() -> bool,
    /// The batch is not made yet.
    is_ahead: bool,
}

/// Reads one upload, unpacked.
fn read_upload(
    source: &FeedSource,
    text: Result<&[u8], String>,
    fields: UploadFields<'_>,
    scan: &mut Scan<'_, '_>,
    members: &mut Option<MemberList>,
) -> Outcome {
    let text = match text {
        Ok(text) => text,
        Err(reason) => return scan.refuse_upload(&reason),
    };
    let is_strict = source.set.as_ref().is_some_and(|set| set.is_strict);
    match &source.input {
        FeedInput::Records(mapping) => {
            let decoded = OnceCell::new();
            let locations = Locations { mapping, text, decoded: &decoded, locator: None };
            RecordScan { scan, locations }.read(fields)
        }
        FeedInput::Prefixes(reading) => match read_members(text, reading, is_strict) {
            Ok(list) => {
                if let Some(remark) = HostBitsFinder::of(text).remark() {
                    scan.refused.add(0, || None, &remark);
                }
                let records = list.len() as u64;
                *members = Some(list);
                Outcome::Applied { records, rejected: 0 }
            }
            Err(reason) => scan.refuse_upload(&reason),
        },
    }
}

/// One upload while it is read.
struct Scan<'a, 'b> {
    block: &'a mut Block,
    refused: &'a mut Rejections,
    hand_on: &'a mut HandOn<'b>,
    received_millis: i64,
    records: u64,
    rejected: u64,
    /// Records and items.
    events: usize,
}

/// Lines and columns of offsets in an upload of records.
struct Locations<'a> {
    mapping: &'a Mapping,
    text: &'a [u8],
    /// The text that offsets count in; made for the first location.
    decoded: &'a OnceCell<Cow<'a, [u8]>>,
    locator: Option<Locator<'a>>,
}

impl Locations<'_> {
    /// `None` if the upload cannot be decoded: it has no offsets then.
    fn of(&mut self, offset_bytes: u64) -> Option<Location> {
        if self.locator.is_none() {
            let text = match self.decoded.get() {
                Some(text) => text,
                None => {
                    let text = self.mapping.decoded(self.text).ok()?;
                    self.decoded.get_or_init(|| text)
                }
            };
            self.locator = Some(Locator::new(text));
        }
        self.locator.as_mut().map(|locator| locator.locate(offset_bytes))
    }
}

/// One upload of records while it is read.
struct RecordScan<'s, 'a, 'b, 't> {
    scan: &'s mut Scan<'a, 'b>,
    locations: Locations<'t>,
}

impl RecordScan<'_, '_, '_, '_> {
    fn read(mut self, fields: UploadFields<'_>) -> Outcome {
        let (mapping, text) = (self.locations.mapping, self.locations.text);
        let scanned = mapping.scan_upload(text, fields, &mut self);
        let scan = &mut *self.scan;
        if !scan.block.is_empty() {
            (scan.hand_on)(scan.block);
        }
        if let Err(error) = scanned {
            let offset = error.offset_bytes();
            let location = self.locations.of(offset);
            let reason = match location {
                Some(Location { line, column }) => {
                    let message = error.message();
                    format!("line {line}, column {column} (byte {offset}): {message}")
                }
                None => error.to_string(),
            };
            if scan.records == 0 {
                scan.refused.add(offset, || location, &reason);
                return rejected(&reason);
            }
            // The records before stay, and the rest counts as one.
            scan.rejected += 1;
            scan.refused.add(offset, || location, &reason);
        }
        Outcome::Applied { records: self.scan.records, rejected: self.scan.rejected }
    }
}

fn rejected(reason: &str) -> Outcome {
    Outcome::Rejected(reason.chars().take(REASON_CHARS_MAX).collect())
}

impl Scan<'_, '_> {
    fn refuse_upload(&mut self, reason: &str) -> Outcome {
        self.refused.add(0, || None, reason);
        rejected(reason)
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

impl Events for RecordScan<'_, '_, '_, '_> {
    // In line the record never lies in memory.
    #[inline]
    fn record(&mut self, record: &Record<'_>) {
        let scan = &mut *self.scan;
        scan.events += 1 + record.items.len();
        let time = record.time_millis.unwrap_or(scan.received_millis);
        if let Some(reason) = scan.refusal(record, time) {
            self.reject(record.offset_bytes, &reason);
            return;
        }
        scan.records += 1;
        scan.block.push(record, time);
        if scan.block.is_whole() {
            (scan.hand_on)(scan.block);
        }
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        self.scan.rejected += 1;
        let RecordScan { scan, locations } = self;
        scan.refused.add(offset_bytes, || locations.of(offset_bytes), reason);
    }
}
