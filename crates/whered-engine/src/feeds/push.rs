//! Taking uploads in: checks, keys that make two uploads one, the spool.
//!
//! ```text
//! push ─> right size, right kind of text ─> known key? its upload ─> spool ─> ticket
//! ```
//! For: the moment before the acknowledgement. Not for: what uploads say (`step.rs`).
//!
//! Invariants: a key is noted in the moment in which its upload gets its number, so that of two
//! uploads with one key that come at the same time one is the repeated one; keys and positions of
//! sources that wait are known again after a restart, because the spool has them.
//! At the same time: any threads; they wait for each other while
//! bytes are copied. Locks are taken in the order spool, what waits, header.
//! Cost: no copy of the bytes but the journal's own; one more of an upload in pieces that is hashed
//! or refused, and of its beginning where that is in small ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use whered_feeds::{Mapping, UploadField};
use whered_store::{Entry, LOST_KIND, SpoolRefusal, StoreError};

use super::entry::Outcome;
use super::quarantine::RejectedRecord;
use super::source::FeedInput;
use super::spooled::{SpooledUpload, push_fields};
use super::unpack::{PackedFault, check_packing, unpack_start};
use super::{Encoding, Feed, PushError, Pushed, SpoolTicket, Upload, UploadStatus};
use crate::clock;
use crate::journal::log::Durability;
use crate::sync;
use crate::tables::index::folded;

/// The longest idempotency key.
const KEY_BYTES_MAX: usize = 255;
/// The longest name of a source, and the longest position.
const SOURCE_BYTES_MAX: usize = 1024;
/// The longest text that comes with an upload.
const FIELD_BYTES_MAX: usize = 4096;
/// When it is worth trying again while something is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Number, when it was received, and its key.
type WaitingUpload = (u64, u64, Option<Box<[u8]>>);

/// What is known of uploads that wait.
#[derive(Default)]
pub(super) struct Pushes {
    keys: HashMap<Box<[u8]>, u64>,
    sources: BTreeMap<String, Vec<u8>>,
    waiting: VecDeque<WaitingUpload>,
    last: u64,
}

impl Pushes {
    pub(super) fn new(position: u64) -> Pushes {
        Pushes { last: position, ..Pushes::default() }
    }

    /// Notes an upload that waits.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn note(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        if entry.kind == LOST_KIND {
            self.add(entry.sequence, clock::now_millis(), None, None);
            return Ok(());
        }
        let spooled = SpooledUpload::decode(entry.payload)?;
        let key: Option<Box<[u8]>> = spooled.key.map(Into::into);
        self.add(entry.sequence, spooled.received_millis, key, spooled.source);
        Ok(())
    }

    fn add(
        &mut self,
        id: u64,
        received_millis: u64,
        key: Option<Box<[u8]>>,
        source: Option<(&str, &[u8])>,
    ) {
        if let Some(key) = &key {
            self.keys.insert(key.clone(), id);
        }
        if let Some((source, position)) = source {
            self.sources.insert(source.to_owned(), position.to_vec());
        }
        self.waiting.push_back((id, received_millis, key));
        self.last = id;
    }

    /// Uploads up to this one wait no more.
    pub(super) fn finish(&mut self, position: u64) {
        while self.waiting.front().is_some_and(|(id, ..)| *id <= position) {
            if let Some((id, _, Some(key))) = self.waiting.pop_front()
                && self.keys.get(&key) == Some(&id)
            {
                self.keys.remove(&key);
            }
        }
    }

    /// When the oldest that waits was received.
    pub(super) fn oldest_millis(&self) -> Option<u64> {
        self.waiting.front().map(|(_, received, _)| *received)
    }
}

impl Feed {
    /// The texts that its records want of an upload, beside its bytes.
    pub fn upload_fields(&self) -> impl Iterator<Item = &UploadField> {
        let mapping = match &self.source.input {
            FeedInput::Records(mapping) => Some(mapping),
            FeedInput::Prefixes(_) => None,
        };
        mapping.into_iter().flat_map(Mapping::upload_fields)
    }

    /// Checks an upload and appends it to the spool; it may be acknowledged when its ticket is
    /// durable. Never waits for the disk's sync, perhaps for room in the group that is filled.
    ///
    /// # Errors
    /// [`PushError`]; nothing of it is kept then.
    pub fn push(&self, upload: Upload<'_>) -> Result<Pushed, PushError> {
        let pushed = self.take(upload);
        if let Err(error) = &pushed {
            let refused = &self.counters.refused_uploads;
            refused[error.reason_index()].fetch_add(1, Ordering::Relaxed);
        }
        pushed
    }

    fn take(&self, upload: Upload<'_>) -> Result<Pushed, PushError> {
        if let Some(reason) = self.out_of_service() {
            return Err(PushError::Failed(reason));
        }
        self.check_size(&upload)?;
        let checked = self.check(&upload);
        let is_hashed = self.source.limits.content_hash && upload.idempotency_key.is_none();
        if !upload.more.is_empty() && (checked.is_err() || is_hashed) {
            // A check that needs all of it sees it in one piece.
            let bytes = [&[upload.bytes], upload.more].concat().concat();
            return self.take(Upload { bytes: &bytes, more: &[], ..upload });
        }
        checked?;
        if self.memory.is_over() {
            let reason = "the memory that the engine may take is used up".to_owned();
            return Err(PushError::Full { retry_after: RETRY_AFTER, reason });
        }
        let key = self.key_of(&upload);
        let received_millis = clock::now_millis();
        let head = SpooledUpload::head(&upload, key.as_deref(), received_millis);
        let pieces = [&[&head[..], upload.bytes], upload.more].concat();
        let known = || self.known_key(key.as_deref()?, received_millis);
        let note = |id| {
            sync::lock(&self.pushes).add(id, received_millis, key.clone(), upload.source);
        };
        let id = match self.waiting.append(&pieces, known, note).map_err(refusal)? {
            Ok(id) => id,
            Err(id) => return Ok(Pushed { id, ticket: SpoolTicket(id), repeated: true }),
        };
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        self.counters.upload_bytes.fetch_add(upload.size_bytes(), Ordering::Relaxed);
        self.counters.upload_rate.note(1);
        if self.waiting.spool().is_none() {
            self.wake.notify();
        }
        Ok(Pushed { id, ticket: SpoolTicket(id), repeated: false })
    }

    fn known_key(&self, key: &[u8], now: u64) -> Option<u64> {
        let remembered = self.source.limits.remember_keys.as_millis() as u64;
        // Batches note a key as applied before they forget that it waits: it is found in one of
        // both.
        let waiting = sync::lock(&self.pushes).keys.get(key).copied();
        waiting.or_else(|| self.state.header().upload_of(key, now.saturating_sub(remembered)))
    }

    fn check_size(&self, upload: &Upload<'_>) -> Result<(), PushError> {
        let allowed_bytes = self.source.limits.upload_size_bytes_max;
        if upload.size_bytes() > allowed_bytes {
            return Err(PushError::TooLarge { allowed_bytes, is_unpacked: false });
        }
        Ok(())
    }

    /// Checks what is known from an upload's beginning.
    fn check(&self, upload: &Upload<'_>) -> Result<(), PushError> {
        if upload.bytes.is_empty() {
            return Err(PushError::Invalid("the upload is empty".to_owned()));
        }
        if let Some(key) = upload.idempotency_key
            && (key.is_empty() || key.len() > KEY_BYTES_MAX)
        {
            let length = key.len();
            return Err(PushError::Invalid(format!(
                "the idempotency key has {length} bytes; allowed: 1 to {KEY_BYTES_MAX}"
            )));
        }
        let mut texts = upload.fields.iter().map(|(_, text)| text.len());
        if texts.any(|length| length > FIELD_BYTES_MAX) {
            return Err(PushError::Invalid(format!(
                "a header, parameter or file name has more than {FIELD_BYTES_MAX} bytes"
            )));
        }
        if let Some((source, position)) = upload.source
            && source.len().max(position.len()) > SOURCE_BYTES_MAX
        {
            return Err(PushError::Invalid(format!(
                "the source or its position has more than {SOURCE_BYTES_MAX} bytes"
            )));
        }
        let (mut memory, beginning) = (Vec::new(), upload.beginning());
        let start: &[u8] = if upload.encoding == Encoding::Identity {
            &beginning
        } else {
            self.check_packed(upload, &mut memory)?;
            &memory
        };
        check_packing(start, upload.encoding).map_err(PushError::Invalid)?;
        match &self.source.input {
            FeedInput::Records(mapping) => {
                mapping.check(start).map_err(|error| PushError::Invalid(error.to_string()))
            }
            FeedInput::Prefixes(_) => match std::str::from_utf8(&start[..start.len().min(1024)]) {
                Err(error) if error.error_len().is_some() => {
                    Err(PushError::Invalid("the upload is no text in UTF-8".to_owned()))
                }
                _ => Ok(()),
            },
        }
    }

    /// Checks that a packed upload can be unpacked, within the limit; its first bytes go into
    /// `memory`.
    fn check_packed(&self, upload: &Upload<'_>, memory: &mut Vec<u8>) -> Result<(), PushError> {
        let allowed_bytes = self.source.limits.upload_size_bytes_max;
        // In pieces it comes from no door; all of it is looked at all the same.
        let whole = match upload.more {
            [] => Cow::Borrowed(upload.bytes),
            more => Cow::Owned([&[upload.bytes], more].concat().concat()),
        };
        let checked = unpack_start(&whole, upload.encoding, allowed_bytes, memory);
        checked.map_err(|fault| match fault {
            PackedFault::TooLarge => PushError::TooLarge { allowed_bytes, is_unpacked: true },
            PackedFault::Wrong(reason) => PushError::Invalid(reason),
        })
    }

    /// What makes uploads the same: the client's key, or the bytes if the configuration says so,
    /// and the texts that came with it. Equal files of other names are other records.
    fn key_of(&self, upload: &Upload<'_>) -> Option<Box<[u8]>> {
        let key = self.key_of_bytes(upload)?;
        if upload.fields.is_empty() {
            return Some(key);
        }
        let mut written = Vec::new();
        push_fields(&mut written, upload.fields);
        let mut key = key.into_vec();
        // No client's key has a zero byte.
        key.push(0);
        key.extend_from_slice(&hash_of(&written));
        Some(key.into())
    }

    fn key_of_bytes(&self, upload: &Upload<'_>) -> Option<Box<[u8]>> {
        if let Some(key) = upload.idempotency_key {
            return Some(key.as_bytes().into());
        }
        if !self.source.limits.content_hash {
            return None;
        }
        // A client's key has no zero byte in front; the two numbers are for ever: they are kept.
        let mut key = vec![0];
        key.extend_from_slice(&hash_of(upload.bytes));
        key.extend_from_slice(&(upload.bytes.len() as u64).to_le_bytes());
        Some(key.into())
    }

    /// Waits until an upload may be acknowledged.
    ///
    /// # Errors
    /// The spool has failed before.
    pub fn wait(&self, ticket: SpoolTicket) -> Result<(), PushError> {
        let Some(spool) = self.waiting.spool() else { return Ok(()) };
        spool.wait_durable(ticket.0).map_err(|error| PushError::Failed(error.to_string()))
    }

    /// Waits until an upload is on the disk, whatever the spool's policy: for those who give up
    /// another copy of it then.
    ///
    /// # Errors
    /// The spool has failed before.
    pub fn wait_on_disk(&self, ticket: SpoolTicket) -> Result<(), PushError> {
        self.wait(ticket)?;
        match self.waiting.spool() {
            Some(spool) if ticket.0 > spool.synced_sequence() => {
                spool.sync().map(drop).map_err(|error| PushError::Failed(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Whether an upload is on the disk now. It is, once it may be acknowledged, unless the
    /// configuration has loosened that.
    pub fn is_on_disk(&self, ticket: SpoolTicket) -> bool {
        self.waiting.is_on_disk(ticket.0)
    }

    /// Whether an upload is acknowledged only when it is on the disk.
    pub fn syncs_first(&self) -> bool {
        self.waiting.spool().is_none_or(whered_store::Spool::syncs_first)
    }

    /// Whether an upload may be acknowledged. One atomic load when it may.
    pub fn durability(&self, ticket: SpoolTicket) -> Durability {
        let Some(spool) = self.waiting.spool() else { return Durability::Durable };
        let is_durable = || ticket.0 <= spool.durable_sequence();
        if is_durable() {
            return Durability::Durable;
        }
        match spool.poisoned() {
            None => Durability::Pending,
            // Its group may have become durable, and a later one failed, between the two looks.
            Some(_) if is_durable() => Durability::Durable,
            Some(_) => Durability::Lost,
        }
    }

    /// How far an upload is.
    pub fn status(&self, id: u64) -> UploadStatus {
        let header = self.state.header();
        if id == 0 {
            return UploadStatus::Unknown;
        }
        if id > header.position {
            drop(header);
            if let Some(reason) = self.out_of_service() {
                return UploadStatus::OutOfService { reason };
            }
            let last = sync::lock(&self.pushes).last;
            return if id <= last { UploadStatus::Spooled } else { UploadStatus::Unknown };
        }
        match header.outcome(id) {
            None => UploadStatus::Unknown,
            Some(Outcome::Rejected(reason)) => UploadStatus::Rejected { reason: reason.clone() },
            Some(Outcome::Applied { records, rejected }) => {
                UploadStatus::Applied { records: *records, rejected_records: *rejected }
            }
        }
    }

    /// The records of an upload that do not count, the first thousand of them; `None` where
    /// nothing is kept on a disk. Reads a file of up to some megabytes.
    ///
    /// # Errors
    /// Whatever the system reports of the quarantine file.
    pub fn rejected_records(&self, id: u64) -> io::Result<Option<Vec<RejectedRecord>>> {
        self.quarantine.as_ref().map(|files| files.of_upload(id)).transpose()
    }

    /// The position after the newest upload of a source, applied or spooled.
    pub fn source_position(&self, source: &str) -> Option<Vec<u8>> {
        // Positions of what waits stay when it is applied: they are the newest.
        let waiting = sync::lock(&self.pushes).sources.get(source).cloned();
        waiting.or_else(|| self.state.header().sources.get(source).cloned())
    }
}

/// Sixteen bytes that no two texts have in common.
fn hash_of(text: &[u8]) -> [u8; 16] {
    let [first, second] =
        [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344].map(|seed| u128::from(folded(text, seed)));
    (first | second << 64).to_le_bytes()
}

fn refusal(refusal: SpoolRefusal) -> PushError {
    match refusal {
        SpoolRefusal::Store(error) => store_refusal(&error),
        waiting @ SpoolRefusal::Waiting { .. } => {
            PushError::Full { retry_after: RETRY_AFTER, reason: waiting.to_string() }
        }
    }
}

fn store_refusal(error: &StoreError) -> PushError {
    let reason = error.to_string();
    if error.is_full() {
        PushError::Full { retry_after: RETRY_AFTER, reason }
    } else {
        PushError::Failed(reason)
    }
}
