//! Feeds in a snapshot: what they remember, places, rows; and reading them back.
//!
//! For: blocks of kinds 5 to 8, and those that name a cold file in the place of 6 to 8. Not for:
//! what is in them (`feeds`, `tables`).
//!
//! Why each part may be of a moment of its own: the journal after the snapshot's start tells of all
//! later batches, a header takes only the batch after its own, and a row only batches after its
//! own. A batch is appended before the snapshot's end, because it holds the gate while it is
//! applied: so nothing that is in a snapshot is missing in the journal. A cold file that cannot be
//! opened takes its feed out of service, and snapshots name it again. A cold file is of a moment,
//! too: the one at which its feed is saved or one before, with no batch between.
//! At the same time: a feed is neither evicted nor loaded while it is saved; holds one table's or
//! places' lock for a block; batches go on between blocks.

use std::sync::Arc;

use whered_store::{COLD_KIND, ColdReference};

use super::format::{FEED_KIND, FEED_MEMBERS_KIND, FEED_PLACES_KIND, FEED_ROWS_KIND};
use super::save::Saver;
use crate::error::EngineError;
use crate::feeds::Head;
use crate::feeds::state::{FeedState, Header, Missing, States};
use crate::feeds::storage::StorageFile;
use crate::tables::cell::{push_varint, take_bytes, take_varint};
use crate::tables::wire;

fn head_of(feed: &FeedState) -> Vec<u8> {
    let mut out = Vec::new();
    push_varint(&mut out, feed.name.len() as u64);
    out.extend_from_slice(feed.name.as_bytes());
    out
}

impl Saver<'_> {
    /// Writes what feeds have beside their definitions.
    pub(super) fn save_feeds(&mut self, feeds: &States) -> Result<(), EngineError> {
        feeds.all().iter().try_for_each(|feed| self.save_feed(feed, feeds))
    }

    fn save_feed(&mut self, feed: &FeedState, feeds: &States) -> Result<(), EngineError> {
        // What is in memory stays there until it is written, and what is in a file in that.
        let _hold = feeds.residency.hold(feed);
        let mut block = head_of(feed);
        {
            let head = feed.header().to_head();
            push_varint(&mut block, head.batch);
            head.push(&mut block);
        }
        self.write(FEED_KIND, &[&block])?;
        if let Some(Missing { reference, batch, resident_bytes }) = feed.missing() {
            // It may come back, or be repaired: until then the snapshots go on to name it.
            return self.save_reference(feed, feeds, &reference, (batch, resident_bytes));
        }
        if let Some(StorageFile { file, batch }) = feed.storage.current_file() {
            let reference = file.reference();
            self.name_cold_file(file);
            let numbers = (batch, feed.storage.resident_bytes());
            return self.save_reference(feed, feeds, &reference, numbers);
        }
        let enough_bytes = self.block_bytes();
        // Rows are of members: a row that comes meanwhile may be of a member that is not saved, so
        // that no more rows are saved than there were before the members.
        let rows = feed.places().len();
        let mut next = 0;
        loop {
            let mut block = head_of(feed);
            let (first, end) = {
                let places = feed.places();
                (next, places.push_members(&mut block, next, enough_bytes))
            };
            if first == end {
                break;
            }
            next = end;
            self.write(FEED_MEMBERS_KIND, &[&block])?;
        }
        let mut next = 0;
        while next < rows {
            let mut block = head_of(feed);
            next = feed.places().push_rows(&mut block, next, rows, enough_bytes);
            self.write(FEED_PLACES_KIND, &[&block])?;
        }
        for (number, table) in feed.tables().iter().enumerate() {
            let mut next = 0;
            loop {
                let mut block = head_of(feed);
                push_varint(&mut block, number as u64);
                let end = wire::push_rows(&mut block, &table.shared(), next, enough_bytes);
                if end == next {
                    break;
                }
                next = end;
                self.write(FEED_ROWS_KIND, &[&block])?;
            }
        }
        Ok(())
    }

    /// Names a cold file, with its batch and what it takes in memory.
    fn save_reference(
        &mut self,
        feed: &FeedState,
        feeds: &States,
        reference: &ColdReference,
        (batch, resident_bytes): (u64, u64),
    ) -> Result<(), EngineError> {
        let mut block = reference.encode();
        block.append(&mut head_of(feed));
        push_varint(&mut block, batch);
        push_varint(&mut block, resident_bytes);
        feeds.residency.files.note_saving(&reference.name);
        self.write(COLD_KIND, &[&block])
    }
}

/// Puts a block of a feed where it belongs; blocks come in the order of the snapshot. Feeds before
/// this one are evicted when all of them are more than the budget.
///
/// # Errors
/// It is none.
pub(super) fn take(feeds: &States, kind: u16, bytes: &[u8]) -> Result<(), EngineError> {
    let feed = if kind == COLD_KIND {
        let (reference, rest) = ColdReference::decode(bytes).map_err(EngineError::new)?;
        let (feed, mut input) = feed_of(feeds, kind, rest).map_err(EngineError::new)?;
        let numbers = take_varint(&mut input).zip(take_varint(&mut input));
        let (batch, resident_bytes) = numbers.ok_or_else(|| {
            EngineError::new(format!("a cold file of feed '{}' without its batch", feed.name))
        })?;
        feeds.residency.files.note_referenced(&reference.name);
        let storage = feeds.residency.files.storage();
        let storage = storage.ok_or_else(|| EngineError::new("a cold file without a disk"))?;
        let restored = feed.restore_cold(&**storage, &reference, batch, resident_bytes);
        if let Err(error) = restored {
            // The others do not suffer for it.
            let missing = Missing { reference, batch, resident_bytes };
            feed.set_missing(&EngineError::from(error).to_string(), missing);
        }
        feed
    } else {
        take_block(feeds, kind, bytes).map_err(EngineError::new)?
    };
    feed.note_memory(&feed.places());
    feeds.residency.finish(feed.slot);
    Ok(())
}

fn feed_of<'a>(
    feeds: &States,
    kind: u16,
    bytes: &'a [u8],
) -> Result<(Arc<FeedState>, &'a [u8]), String> {
    let mut input = bytes;
    let name = take_varint(&mut input).and_then(|length| take_bytes(&mut input, length));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let feed = name.and_then(|name| feeds.get(name));
    let feed = feed.ok_or_else(|| format!("a snapshot's block of kind {kind} is of no feed"))?;
    Ok((feed, input))
}

fn take_block(feeds: &States, kind: u16, bytes: &[u8]) -> Result<Arc<FeedState>, String> {
    let (feed, mut input) = feed_of(feeds, kind, bytes)?;
    let wrong = |fault: String| format!("feed '{}' in the snapshot: {fault}", feed.name);
    feed.storage.note_change();
    match kind {
        FEED_KIND => {
            let batch = take_varint(&mut input).ok_or_else(|| wrong("no batch".to_owned()))?;
            let head = Head::take(batch, &mut input).map_err(wrong)?;
            *feed.header() = Header::of_head(head);
        }
        FEED_MEMBERS_KIND => feed.places().add_members(input).map_err(wrong)?,
        FEED_PLACES_KIND => feed.places().add_rows(input).map_err(wrong)?,
        _ => {
            let number = take_varint(&mut input).and_then(|number| usize::try_from(number).ok());
            let tables = feed.tables();
            let table = number.and_then(|number| tables.get(number));
            let table =
                table.ok_or_else(|| wrong("rows of a table that is not there".to_owned()))?;
            wire::add_rows(&mut table.exclusive(), input).map_err(wrong)?;
        }
    }
    Ok(feed)
}
