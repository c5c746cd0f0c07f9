//! A full synchronization: a dump into the link's spare database, which then serves.
//!
//! Not for: reading the dump's bytes (`whered_replication::rdb`), loading (the engine). Readers see
//! the old data until everything is here, and then the new.

use std::time::Instant;

use whered_engine::{SlotImport, StreamPosition};
use whered_replication::rdb::{Event, Kind, Limits, Reader, SORTED_SETS_ONLY};
use whered_replication::{Connection, ReplicationId};

use super::ReplicaOptions;
use super::board::{Count, LinkState};
use super::link::{Fault, Link, engine_id};

/// The board is told after this number of events.
const EVENTS_BETWEEN_NEWS: u32 = 4096;
/// Names of plain sets are kept up to this size.
const SETS_BYTES_MAX: usize = 16 << 20;
/// What Redis allows; memory is taken as the bytes come.
const NAME_BYTES_MAX: u64 = 512 << 20;

/// What was found in a dump beside the sorted sets.
#[derive(Default)]
struct DumpContents {
    keys: u64,
    members: u64,
    others: u64,
    /// Names of plain sets, and what they take.
    sets: Vec<Vec<u8>>,
    sets_bytes: usize,
    /// The database that the stream has selected behind the dump.
    database: u32,
    is_wanted: bool,
}

impl Link {
    /// Takes the dump of a primary and serves it. Gives the position behind it.
    pub(super) fn full_sync(
        &mut self,
        connection: &mut Connection,
        id: ReplicationId,
        offset: i64,
    ) -> Result<StreamPosition, Fault> {
        let began = Instant::now();
        let of = self.options.of.clone();
        let name = connection.name().to_owned();
        tracing::info!("the replica of {of} takes a dump of {name}");
        self.status.set_state(LinkState::Synchronizing);
        let fault = |error: &dyn std::fmt::Display| Fault::Broken(format!("{name}: {error}"));
        let ours = |error: whered_engine::WriteError| Fault::Broken(error.to_string());
        let body = connection.dump()?;
        self.status.set(Count::DumpBytesStated, body.stated_bytes().unwrap_or(0));
        // Strings are only named: no string has to be kept.
        let limits = Limits { name_bytes_max: NAME_BYTES_MAX, value_bytes_max: 0 };
        let mut reader = Reader::new(body, limits).map_err(|error| fault(&error))?;
        let mut load = self.engine.keyspace().begin_load(self.status.number).map_err(ours)?;
        let mut contents = DumpContents::default();
        let mut events = 0_u32;
        loop {
            match reader.next_event().map_err(|error| fault(&error))? {
                None => break,
                Some(event) => {
                    take(event, &self.options, &mut load, &mut contents).map_err(ours)?;
                }
            }
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_NEWS) {
                self.status.set(Count::DumpBytes, reader.offset());
                self.status.note_heard();
            }
        }
        self.status.set(Count::DumpBytes, reader.offset());
        let (body, rest) = reader.into_parts();
        body.finish(&rest)?;
        let position =
            StreamPosition { replication_id: engine_id(id)?, offset, database: contents.database };
        let step = self.source.step();
        load.finish(position, || self.applier.data_exchanged()).map_err(ours)?;
        self.source.backlog().begin(position.replication_id, offset);
        drop(step);
        self.status.add(Count::FullSyncs, 1);
        self.status.set(Count::DumpKeys, contents.keys);
        self.status.set(Count::DumpKeysOfOtherTypes, contents.others);
        tracing::info!(
            "the replica of {of} serves {} keys with {} members, {} keys of other types are not \
             followed: {:.1} s",
            contents.keys,
            contents.members,
            contents.others,
            began.elapsed().as_secs_f64()
        );
        let sets = (contents.sets_bytes <= SETS_BYTES_MAX).then_some(contents.sets);
        self.applier.begin(contents.database, sets);
        self.is_synchronized();
        Ok(position)
    }
}

/// Takes one step of a dump.
fn take(
    event: Event<'_>,
    options: &ReplicaOptions,
    load: &mut whered_engine::Load<'_>,
    contents: &mut DumpContents,
) -> Result<(), whered_engine::WriteError> {
    match event {
        Event::Note { name: b"repl-stream-db", value } => {
            let database = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            contents.database = database.unwrap_or(0);
        }
        // The plain sets of its own primary are not known.
        Event::Note { name: SORTED_SETS_ONLY, .. } => contents.sets_bytes = usize::MAX,
        Event::SlotImport { name, ranges } => {
            load.import(SlotImport { name: name.to_vec(), ranges: ranges.to_vec() })?;
        }
        Event::SortedSet { key, .. } => {
            contents.is_wanted = options.has(key.database, key.name);
            if contents.is_wanted {
                contents.keys += 1;
                let at = key.expires_at_millis.map(|at| u64::try_from(at).unwrap_or(1).max(1));
                load.sorted_set(key.name, at);
            }
        }
        Event::Member { member, score } if contents.is_wanted => {
            contents.members += 1;
            load.member(member, score)?;
        }
        Event::SortedSetEnd if contents.is_wanted => load.end_sorted_set()?,
        Event::Text { key, .. } if options.has(key.database, key.name) => contents.others += 1,
        Event::Skipped { key, kind } if options.has(key.database, key.name) => {
            contents.others += 1;
            if kind == Kind::Set && contents.sets_bytes <= SETS_BYTES_MAX {
                contents.sets_bytes += key.name.len() + size_of::<Vec<u8>>();
                contents.sets.push(key.name.to_vec());
            }
        }
        _ => {}
    }
    Ok(())
}
