//! Writing a snapshot: every value in small steps, while everybody goes on writing.
//!
//! ```text
//! begin (S) ──> settings ──> feeds ──> keys, large values in pieces of about 1 MiB ──> end (E) ──> manifest
//!                            what operations register on the way comes first
//! ```
//!
//! For: which bytes go into which block. Not for: why a snapshot of many moments is right (the
//! head of `keyspace/saving.rs`), when one is made (`durability`).
//!
//! At the same time: holds one value's lock shared for a piece, nothing while it writes.
//! Cost: one pass over all data; memory for one block and the leaves of one piece.

use std::borrow::Cow;
use std::sync::Arc;

use whered_geo::{PAGES_VERSION, PagePosition};
use whered_ip::MemberList;
use whered_store::{ColdFile, SnapshotWriter, Storage};

use super::format::{
    Body, POINTS_KIND, Record, SCORES_KIND, SETTINGS_KIND, VALUES_KIND, encode_row, item_head,
    score_of,
};
use crate::error::EngineError;
use crate::feeds::DEFINE_KIND;
use crate::feeds::state::States;
use crate::generation::changes::Changes;
use crate::journal::operation::{Encoder, Operation, push_to_batch};
use crate::keyspace::Keyspace;
use crate::keyspace::saving::{Role, ToSave, Walk};
use crate::keyspace::value::{Data, Value};
use crate::prefix_sets::PrefixSets;

/// What a member of a prefix set takes in a block at most, without its value.
const MEMBER_BYTES: usize = 50;

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// About how large a block becomes.
    pub(super) block_bytes: usize,
    /// From how many members on a sorted set is written in pieces of its own.
    pub(super) large_len: usize,
    /// How many keys are taken at once.
    pub(super) keys_at_once: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { block_bytes: 1 << 20, large_len: 512, keys_at_once: 256 }
    }
}

/// Writes one snapshot.
pub(super) struct Saver<'a> {
    keyspace: &'a Keyspace,
    writer: SnapshotWriter,
    /// Values that are to become a block.
    values: Encoder,
    next_item: u32,
    sizes: Sizes,
    /// Told of each block before it is written; an error ends the snapshot.
    before_block: &'a mut dyn FnMut(usize) -> Result<(), EngineError>,
    keys: u64,
    cold_files: Vec<Arc<ColdFile>>,
}

/// What one step has read of a plain sorted set.
enum Piece {
    /// Go on after this one.
    More((f64, Vec<u8>)),
    /// That was the end.
    End,
    /// It is another kind of value now.
    Changed,
}

impl<'a> Saver<'a> {
    pub(super) fn new(
        keyspace: &'a Keyspace,
        writer: SnapshotWriter,
        sizes: Sizes,
        before_block: &'a mut dyn FnMut(usize) -> Result<(), EngineError>,
    ) -> Saver<'a> {
        let values = Encoder(Vec::new());
        let cold_files = Vec::new();
        Saver { keyspace, writer, values, next_item: 1, sizes, before_block, keys: 0, cold_files }
    }

    /// Writes definitions of feeds, sites, rulesets, positions of links, and prefix sets.
    pub(super) fn save_settings(
        &mut self,
        changes: &Changes,
        prefix_sets: &PrefixSets,
        feeds: &States,
    ) -> Result<(), EngineError> {
        let mut block = Vec::new();
        for feed in feeds.all() {
            push_to_batch(&mut block, DEFINE_KIND, &feed.definition().encode());
        }
        for operation in changes.operations() {
            push_to_batch(&mut block, operation.kind(), &operation.encode());
        }
        for position in self.keyspace.positions() {
            let imports = self.keyspace.imports_operation(position.link);
            for operation in [Some(position.operation()), imports].into_iter().flatten() {
                push_to_batch(&mut block, operation.kind(), &operation.encode());
            }
        }
        for name in prefix_sets.names() {
            let none = Operation::AddPrefixes {
                set: &name,
                expires_at_millis: None,
                value: None,
                blocks: Cow::Borrowed(&[]),
            };
            push_to_batch(&mut block, none.kind(), &none.encode());
            // A version is held for as long as it takes: nobody waits for it.
            let Some(version) = prefix_sets.version(&name) else { continue };
            let mut members = MemberList::new();
            let mut bytes = 0;
            for member in version.iter(0) {
                members.push(member.block, member.value, member.expires_at_millis);
                bytes += MEMBER_BYTES + member.value.map_or(0, <[u8]>::len);
                if bytes >= self.sizes.block_bytes {
                    push_members(&mut block, &name, std::mem::take(&mut members));
                    self.write(SETTINGS_KIND, &[&std::mem::take(&mut block)])?;
                    bytes = 0;
                }
            }
            push_members(&mut block, &name, members);
            if block.len() >= self.sizes.block_bytes {
                self.write(SETTINGS_KIND, &[&std::mem::take(&mut block)])?;
            }
        }
        if block.is_empty() { Ok(()) } else { self.write(SETTINGS_KIND, &[&block]) }
    }

    /// Writes all keys that were there when the snapshot began, and what is registered meanwhile.
    pub(super) fn save_keys(&mut self, walk: &mut Walk) -> Result<(), EngineError> {
        loop {
            let found = self.keyspace.next_to_save(walk, self.sizes.keys_at_once);
            if found.is_empty() {
                return self.flush_values();
            }
            for to_save in &found {
                self.save_value(to_save)?;
                self.keys += u64::from(to_save.role == Role::Base);
            }
        }
    }

    /// Writes what was registered last: no values.
    pub(super) fn save_rest(&mut self, rest: &[ToSave]) -> Result<(), EngineError> {
        rest.iter().try_for_each(|to_save| self.save_value(to_save))?;
        self.flush_values()
    }

    /// The file, when all is written, and how many values it holds.
    pub(super) fn into_writer(self) -> (SnapshotWriter, u64) {
        (self.writer, self.keys)
    }

    fn save_value(&mut self, to_save: &ToSave) -> Result<(), EngineError> {
        enum Form {
            Done,
            Points,
            Scores,
        }
        let large_len = self.sizes.large_len;
        loop {
            let values = &mut self.values;
            let form = to_save.read(self.keyspace, |value| match value.data() {
                Data::Collection(points) if points.len() >= large_len => (false, Form::Points),
                Data::SortedSet(set) if set.len() >= large_len => (false, Form::Scores),
                _ => {
                    record(to_save, small_body(value)).encode(values);
                    (true, Form::Done)
                }
            });
            let Some(form) = form else {
                record(to_save, Body::Nothing).encode(&mut self.values);
                return Ok(());
            };
            let item = self.next_item;
            self.next_item += 1;
            let body = match form {
                Form::Done => None,
                Form::Points if self.save_points(to_save, item)? => Some(Body::PointsItem(item)),
                Form::Scores if self.save_scores(to_save, item)? => Some(Body::ScoresItem(item)),
                // It has changed its kind: what was written of it is left behind unnamed.
                Form::Points | Form::Scores => continue,
            };
            if let Some(body) = body {
                record(to_save, body).encode(&mut self.values);
            }
            return if self.values.0.len() >= self.sizes.block_bytes {
                self.flush_values()
            } else {
                Ok(())
            };
        }
    }

    /// Writes a point index piece by piece; `false` when it is none any more.
    fn save_points(&mut self, to_save: &ToSave, item: u32) -> Result<bool, EngineError> {
        let head = item_head(item, u32::from(PAGES_VERSION));
        let mut position = PagePosition::default();
        loop {
            let pages = to_save.read(self.keyspace, |value| {
                let Some(points) = value.points() else {
                    return (false, None);
                };
                let pages = points.pages(&position, self.sizes.block_bytes);
                (pages.is_last(), Some(pages))
            });
            let Some(pages) = pages.flatten() else {
                return Ok(false);
            };
            let mut pieces: Vec<&[u8]> = vec![&head];
            pieces.extend(pages.pieces());
            self.write(POINTS_KIND, &pieces)?;
            match pages.into_next() {
                Some(next) => position = next,
                None => return Ok(true),
            }
        }
    }

    /// Writes a plain sorted set piece by piece; `false` when it is none any more.
    fn save_scores(&mut self, to_save: &ToSave, item: u32) -> Result<bool, EngineError> {
        let head = item_head(item, 0);
        let mut after: Option<(f64, Vec<u8>)> = None;
        loop {
            let mut rows = Encoder(Vec::with_capacity(self.sizes.block_bytes + 64));
            let piece = to_save.read(self.keyspace, |value| {
                let Data::SortedSet(set) = value.data() else {
                    return (false, Piece::Changed);
                };
                let mut entries = match &after {
                    None => set.iter_ranks(0..set.len()),
                    Some((score, member)) => set.iter_after(*score, member),
                };
                while let Some((member, score)) = entries.next() {
                    encode_row(&mut rows, member, score);
                    if rows.0.len() >= self.sizes.block_bytes && entries.len() > 0 {
                        return (false, Piece::More((score, member.to_vec())));
                    }
                }
                (true, Piece::End)
            });
            self.write(SCORES_KIND, &[&head, &rows.0])?;
            match piece {
                Some(Piece::More(place)) => after = Some(place),
                Some(Piece::End) => return Ok(true),
                Some(Piece::Changed) | None => return Ok(false),
            }
        }
    }

    fn flush_values(&mut self) -> Result<(), EngineError> {
        if self.values.0.is_empty() {
            return Ok(());
        }
        let values = std::mem::take(&mut self.values.0);
        self.write(VALUES_KIND, &[&values])
    }

    /// The snapshot needs this file.
    pub(super) fn name_cold_file(&mut self, file: Arc<ColdFile>) {
        self.cold_files.push(file);
    }

    /// Waits until all files that the snapshot needs are on the disk.
    pub(super) fn sync_cold_files(&self, storage: &dyn Storage) -> Result<(), EngineError> {
        self.cold_files.iter().try_for_each(|file| Ok(file.sync(storage)?))
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.sizes.block_bytes
    }

    pub(super) fn write(&mut self, kind: u16, pieces: &[&[u8]]) -> Result<(), EngineError> {
        (self.before_block)(pieces.iter().map(|piece| piece.len()).sum())?;
        Ok(self.writer.write_block(kind, pieces)?)
    }
}

/// Members of a set as one operation.
fn push_members(block: &mut Vec<u8>, set: &str, members: MemberList) {
    if !members.is_empty() {
        let members = Cow::Owned(members);
        let operation = Operation::LoadMembers { set, replaces: false, members };
        push_to_batch(block, operation.kind(), &operation.encode());
    }
}

fn record<'a>(to_save: &'a ToSave, body: Body<'a>) -> Record<'a> {
    let ToSave { role, number, key, expires_at_millis, .. } = to_save;
    let (role, number, expires_at_millis) = (*role, *number, *expires_at_millis);
    Record { role, number, key, expires_at_millis, body }
}

fn small_body(value: &Value) -> Body<'_> {
    match value.data() {
        Data::Text(text) => Body::Text(text),
        Data::Collection(points) if points.is_empty() => Body::Nothing,
        Data::Collection(points) => {
            Body::Scores(points.iter().map(|(member, cell)| (member, score_of(cell))).collect())
        }
        Data::SortedSet(set) if set.is_empty() => Body::Nothing,
        Data::SortedSet(set) => Body::Scores(set.iter_ranks(0..set.len()).collect()),
    }
}
