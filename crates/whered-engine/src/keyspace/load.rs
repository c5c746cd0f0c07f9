//! A full synchronization: whole sorted sets into a hidden database of their own.
//!
//! For: what a primary's dump has, as it comes. Not for: reading a dump, changes after it
//! (`Keyspace::follow`).
//!
//! ```text
//! member, score ─┬─ a cell ──> batch, and the same as an entry ─┬─ full ──> applied and appended
//!                └─ another ─> list ────────────────────────────┘
//! finish: both databases exchanged, position ── one entry; what was served before is freed
//! ```
//!
//! Readers see the data that was there before until `finish`, and then all of the new one. A load
//! that ends before that leaves nothing: what is in its database is of no worth after a start.
//! Memory: [`MEMBERS_MAX`] members with their names, up to [`NAMES_BYTES_MAX`], three times: to be
//! applied, being applied, and for the journal; what the journal has not written is bounded by a
//! wait for it. Cost: the index's own for changes in bulk.

use whered_geo::score::cell_of_score;
use whered_geo::{ChangeBatch, Points};

use super::additions::ScoreRules;
use super::imports::set_imports;
use super::positions::set_position;
use super::{Keyspace, SLOTS, SlotImport, StreamPosition, load_number, number_byte, served_number};
use crate::error::WriteError;
use crate::journal::log::{EntryReservation, JournalLag, Ticket, Written};
use crate::journal::operation::{AddedPointsEncoder, Operation};

/// How many members are applied at once.
const MEMBERS_MAX: usize = 1 << 17;
/// How long their names are together, unless one name is longer.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// A full synchronization that goes on. Dropping it unfinished forgets all that it has loaded.
pub struct Load<'a> {
    keyspace: &'a Keyspace,
    link: usize,
    /// The sorted set that members come for.
    key: Vec<u8>,
    expires_at_millis: Option<u64>,
    /// Some of its members are applied.
    is_begun: bool,
    points: ChangeBatch,
    entry: AddedPointsEncoder,
    scores: ScoreList,
    imports: Vec<SlotImport>,
    lag: JournalLag,
    is_finished: bool,
}

/// Members with scores that are no cells.
#[derive(Default)]
struct ScoreList {
    names: Vec<u8>,
    /// Where each name ends, and its score.
    ends: Vec<(usize, f64)>,
}

impl ScoreList {
    fn push(&mut self, member: &[u8], score: f64) {
        self.names.extend_from_slice(member);
        self.ends.push((self.names.len(), score));
    }

    fn scores(&self) -> Vec<(&[u8], f64)> {
        let mut start = 0;
        let one = |&(end, score): &(usize, f64)| {
            (&self.names[std::mem::replace(&mut start, end)..end], score)
        };
        self.ends.iter().map(one).collect()
    }

    fn clear(&mut self) {
        self.names.clear();
        self.ends.clear();
    }
}

impl Keyspace {
    /// Begins a full synchronization of a link. One link has one at a time.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed, or nobody has asked for the link
    /// by [`Keyspace::link`].
    pub fn begin_load(&self, link: usize) -> Result<Load<'_>, WriteError> {
        self.link_name(link)?;
        // What a load left behind that a restart has ended is not to be mixed with this one.
        self.flush(Some(load_number(link)))?;
        Ok(Load {
            keyspace: self,
            link,
            key: Vec::new(),
            expires_at_millis: None,
            is_begun: false,
            points: Points::new().change_batch(),
            entry: AddedPointsEncoder::new(number_byte(load_number(link)), b""),
            scores: ScoreList::default(),
            imports: Vec::new(),
            lag: JournalLag::default(),
            is_finished: false,
        })
    }
}

impl Load<'_> {
    /// Says that the primary imports slots. Nobody sees their keys when what was loaded is served:
    /// see [`Keyspace::set_imports`].
    ///
    /// # Errors
    /// [`WriteError`] when there are more ranges of slots than slots, or a range is none. The load
    /// is then to be dropped.
    pub fn import(&mut self, import: SlotImport) -> Result<(), WriteError> {
        let wrong = |why: String| Err(WriteError::Refused(why));
        let is_wrong = |(first, last): &&(u16, u16)| first > last || *last >= SLOTS;
        if let Some((first, last)) = import.ranges.iter().find(is_wrong) {
            return wrong(format!("the slots {first} to {last} are none; allowed: 0 to 16383"));
        }
        let ranges = self.imports.iter().chain([&import]).map(|it| it.ranges.len().max(1));
        if ranges.sum::<usize>() > usize::from(SLOTS) {
            return wrong("a cluster has 16384 slots, and more ranges are imported".to_owned());
        }
        self.imports.push(import);
        Ok(())
    }

    /// Begins a sorted set, whose members come next; its time is over at a moment in milliseconds
    /// since 1970, if at all.
    pub fn sorted_set(&mut self, key: &[u8], expires_at_millis: Option<u64>) {
        self.clear();
        self.key.clear();
        self.key.extend_from_slice(key);
        self.expires_at_millis = expires_at_millis;
        self.is_begun = false;
        self.entry = AddedPointsEncoder::new(number_byte(load_number(self.link)), key);
    }

    /// Adds a member to the sorted set.
    ///
    /// # Errors
    /// [`WriteError`] when the score is no number, the key has come before, or the journal has no
    /// room or has failed. The load is then to be dropped.
    pub fn member(&mut self, member: &[u8], score: f64) -> Result<(), WriteError> {
        if score.is_nan() {
            let why = "a score of a sorted set is no number (NaN)";
            return Err(WriteError::Refused(why.to_owned()));
        }
        match cell_of_score(score + 0.0) {
            Some(cell) => {
                self.points.push(member, Some(cell));
                self.entry.push(member, cell);
            }
            None => self.scores.push(member, score),
        }
        let len = self.points.len() + self.scores.ends.len();
        let bytes = self.entry.len_bytes() + self.scores.names.len();
        if len >= MEMBERS_MAX || bytes >= NAMES_BYTES_MAX { self.apply() } else { Ok(()) }
    }

    /// Ends the sorted set.
    ///
    /// # Errors
    /// As [`Load::member`].
    pub fn end_sorted_set(&mut self) -> Result<(), WriteError> {
        self.apply()?;
        if let Some(at) = self.expires_at_millis.take() {
            let at_millis = i64::try_from(at).unwrap_or(i64::MAX);
            let number = load_number(self.link);
            let always = super::ExpiryCondition::default();
            self.keyspace.set_expiry(number, &self.key, at_millis, always)?;
        }
        Ok(())
    }

    /// Serves what was loaded, in the place of what was served before, from this position on.
    /// Calls `on_exchange` when it has done so and nobody else is inside the gate.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then what was served before is
    /// served still, and its position is as it was.
    pub fn finish(
        mut self,
        stream: StreamPosition,
        on_exchange: impl FnOnce(),
    ) -> Result<Ticket, WriteError> {
        let (keyspace, link) = (self.keyspace, self.link);
        let (served, loaded) = (served_number(link), load_number(link));
        let Written { ticket, .. } = keyspace.try_isolated(|| {
            let name = keyspace.link_name(link)?;
            let (number, other) = (number_byte(served), number_byte(loaded));
            let operations = [
                Operation::SwapNumbers { number, other },
                set_imports(served, &self.imports),
                set_position(link, &name, stream),
            ];
            // Most primaries import nothing.
            let had_imports = !keyspace.imports(served).is_empty();
            let is_needed = |operation: &&Operation<'_>| {
                let is_of_imports = matches!(operation, Operation::SetImports { .. });
                !is_of_imports || had_imports || !self.imports.is_empty()
            };
            let needed = operations.iter().filter(is_needed);
            let rooms: Vec<EntryReservation<'_>> = needed
                .clone()
                .map(|operation| keyspace.log.reserve_batched(operation.size_bytes()))
                .collect::<Result<_, _>>()?;
            for (operation, room) in needed.zip(rooms) {
                keyspace.replay(operation);
                room.append(operation);
            }
            on_exchange();
            keyspace.free(keyspace.exclusive(loaded).take());
            Ok(())
        })?;
        self.is_finished = true;
        Ok(ticket)
    }

    /// Applies what has come so far.
    fn apply(&mut self) -> Result<(), WriteError> {
        let number = load_number(self.link);
        if self.points.is_empty() && self.scores.ends.is_empty() {
            return Ok(());
        }
        if !self.is_begun && self.keyspace.exists(number, &self.key) {
            let why = format!("the key '{}' comes twice", self.key.escape_ascii());
            return Err(WriteError::Refused(why));
        }
        self.is_begun = true;
        if !self.points.is_empty() {
            let entry = &self.entry;
            let append =
                |room: EntryReservation<'_>| room.append_encoded(entry.kind(), entry.payload());
            let size_bytes = entry.payload().len();
            let (key, points) = (&self.key, &mut self.points);
            let ticket = self.keyspace.apply_batch(number, key, points, size_bytes, append)?;
            self.wait_for_journal(size_bytes, ticket)?;
        }
        if !self.scores.ends.is_empty() {
            let (scores, rules) = (self.scores.scores(), ScoreRules::default());
            let written = self.keyspace.add_scores(number, &self.key, &scores, rules)?;
            self.wait_for_journal(self.scores.names.len(), written.ticket)?;
        }
        self.clear();
        Ok(())
    }

    fn wait_for_journal(&mut self, bytes: usize, ticket: Ticket) -> Result<(), WriteError> {
        let due = self.lag.note(bytes, ticket);
        due.map_or(Ok(()), |ticket| self.keyspace.log.wait(ticket))
    }

    fn clear(&mut self) {
        self.points.clear();
        self.entry.clear();
        self.scores.clear();
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let keyspace = self.keyspace;
            let loaded = keyspace.with_gate(|| keyspace.exclusive(load_number(self.link)).take());
            drop(loaded);
        }
    }
}
