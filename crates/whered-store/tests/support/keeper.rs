//! A small engine: numbers under numbers, changed by absolute operations, with snapshots taken in
//! steps while it goes on. What tests of journal and snapshots together compare with.

use std::collections::BTreeMap;
use std::sync::Arc;

use whered_store::{
    JournalCore, SimulatedDisk, SnapshotInfo, SnapshotReader, SnapshotWriter, Snapshots, Storage,
    StoreError,
};

use super::small_options;

/// The keys are below this; a snapshot has one block for each of its ranges.
pub(crate) const KEYS: u64 = 64;
const RANGES: u64 = 4;

pub(crate) type Map = BTreeMap<u64, u64>;

/// Key and value of one operation; the value zero removes.
pub(crate) type Operation = (u64, u64);

pub(crate) fn apply(map: &mut Map, (key, value): Operation) {
    if value == 0 {
        map.remove(&key);
    } else {
        map.insert(key, value);
    }
}

pub(crate) struct Keeper {
    pub(crate) core: JournalCore,
    pub(crate) map: Map,
    pub(crate) last_sequence: u64,
    storage: Arc<dyn Storage>,
    snapshot: Option<(SnapshotWriter, u64)>,
}

impl Keeper {
    /// Starts from the newest snapshot.
    pub(crate) fn open(disk: &SimulatedDisk) -> Result<Keeper, StoreError> {
        Keeper::open_from(disk, 0)
    }

    /// Starts from the snapshot of this age; zero is the newest.
    pub(crate) fn open_from(disk: &SimulatedDisk, age: usize) -> Result<Keeper, StoreError> {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let found = Snapshots::find(&*storage)?;
        if let Some(bad) = found.bad.first() {
            return Err(bad.error.clone());
        }
        let mut map = Map::new();
        let base = found.complete.get(age);
        if let Some(base) = base {
            let reader = SnapshotReader::open(&*storage, base)?;
            let mut words = Vec::new();
            for index in 0..reader.blocks().len() {
                let length = reader.read_block(index, &mut words)?.len();
                assert_eq!(length, words.len() * 8);
                map.extend(words.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
        }
        let wanted = base.map(SnapshotInfo::wanted).unwrap_or_default();
        let (core, report) =
            JournalCore::open(Arc::clone(&storage), &small_options(), wanted, &mut |entry| {
                let word = |at: usize| {
                    let field = entry.payload.get(at..at + 8).ok_or("it is too short")?;
                    Ok::<_, String>(u64::from_le_bytes(field.try_into().expect("eight bytes")))
                };
                apply(&mut map, (word(0)?, word(8)?));
                Ok(())
            })?;
        Snapshots::remove_leftovers(&*storage, &found)?;
        let last_sequence = report.last_sequence;
        Ok(Keeper { core, map, last_sequence, storage, snapshot: None })
    }

    /// The length makes segments fill at different paces.
    pub(crate) fn put(&mut self, operation: Operation, length: usize) -> Result<(), StoreError> {
        let mut payload = [operation.0, operation.1].map(u64::to_le_bytes).concat();
        payload.resize(16 + length, 0);
        self.last_sequence = self.core.append(1, &payload)?;
        apply(&mut self.map, operation);
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.core.write()?;
        self.core.sync()
    }

    /// Begins a snapshot, writes one more block of it, or completes it.
    pub(crate) fn snapshot_step(&mut self) -> Result<(), StoreError> {
        match &mut self.snapshot {
            None => match SnapshotWriter::create(Arc::clone(&self.storage), self.last_sequence) {
                Ok(writer) => self.snapshot = Some((writer, 0)),
                Err(error) if error.is_existing() => {}
                Err(error) => return Err(error),
            },
            Some((writer, range)) if *range < RANGES => {
                let width = KEYS / RANGES;
                let keys = *range * width..(*range + 1) * width;
                let pairs = self.map.range(keys).map(|(&key, &value)| [key, value]);
                let bytes: Vec<Vec<u8>> =
                    pairs.map(|pair| pair.map(u64::to_le_bytes).concat()).collect();
                let pieces: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
                writer.write_block(*range as u16, &pieces)?;
                *range += 1;
            }
            Some(_) => return self.complete_snapshot(),
        }
        Ok(())
    }

    fn complete_snapshot(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        assert_eq!(self.core.durable_sequence(), self.last_sequence);
        let (writer, _) = self.snapshot.take().expect("one is being written");
        writer.finish(self.last_sequence)?;
        if let Some(oldest) = Snapshots::remove_old(&*self.storage, 2)? {
            self.core.remove_before(oldest)?;
        }
        Ok(())
    }

    pub(crate) fn drop_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// A whole snapshot with an operation between any two steps.
    pub(crate) fn snapshot(&mut self, mut between: impl FnMut(u64) -> Operation) {
        for step in 0..RANGES + 2 {
            self.snapshot_step().expect("the disk is healthy");
            if step <= RANGES {
                self.put(between(step), 0).expect("the disk is healthy");
            }
        }
    }
}
