//! Crashes at random points of a small engine's life: appends, snapshots written in steps,
//! manifests renamed, old snapshots and segments removed, on a disk that loses, tears and reorders.
//!
//! The claim: *the newest complete snapshot with the journal after it gives the state after some
//! entry, and that entry is not before the last acknowledged one; so does the older snapshot, with
//! the same entry; and a crash is never taken for damage.* `WHERED_STORE_SEED=n` runs one seed
//! alone.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::Random;
use support::keeper::{KEYS, Keeper, Map, Operation, apply};
use whered_store::{SimulatedDisk, Snapshots, StoreError};

const GENERATIONS: u64 = 8;

struct History {
    random: Random,
    disk: SimulatedDisk,
    /// All operations that may be found.
    appended: Vec<Operation>,
    acknowledged: u64,
    next_value: u64,
    crashes: u64,
    /// How many openings found a snapshot, and how many two.
    with_snapshot: u64,
    with_two: u64,
}

impl History {
    fn new(seed: u64) -> History {
        History {
            random: Random(seed),
            disk: SimulatedDisk::new(seed),
            appended: Vec::new(),
            acknowledged: 0,
            next_value: 0,
            crashes: 0,
            with_snapshot: 0,
            with_two: 0,
        }
    }

    fn run(&mut self) {
        for _ in 0..GENERATIONS {
            let fuse = self.random.below(if self.random.0 & 1 == 0 { 20 } else { 200 });
            self.disk.cut_power_after(fuse);
            if let Err(error) = self.live() {
                assert!(error.to_string().contains("simulated power cut"), "{error}");
            }
            self.crashes += 1;
            self.disk = if self.random.one_in(8) {
                self.disk.after_process_death()
            } else {
                self.disk.crash(self.random.next_u64())
            };
        }
        self.check_older();
        let keeper = Keeper::open(&self.disk).expect("the last life has power");
        self.check(&keeper);
    }

    /// The state after each entry, of which the found one must be.
    fn state_after(&self, sequence: u64) -> Map {
        let mut map = Map::new();
        self.appended[..sequence as usize].iter().for_each(|&operation| apply(&mut map, operation));
        map
    }

    fn check(&self, keeper: &Keeper) {
        let last = keeper.last_sequence;
        assert!(last >= self.acknowledged, "acknowledged entries are lost");
        assert!(last <= self.appended.len() as u64, "there are entries that nobody appended");
        assert!(keeper.map == self.state_after(last), "the state is not that after entry {last}");
    }

    /// The second generation must lead to the same state; on a copy, since opening writes.
    fn check_older(&mut self) {
        let Ok(found) = Snapshots::find(&self.disk) else {
            return;
        };
        self.with_snapshot += u64::from(!found.complete.is_empty());
        if found.complete.len() > 1 {
            self.with_two += 1;
            // What is kept of a disk after a crash has nothing left to lose.
            let newest = Keeper::open(&self.disk.crash(1)).expect("a crash is no damage");
            let older = Keeper::open_from(&self.disk.crash(1), 1).expect("a crash is no damage");
            assert!(newest.last_sequence == older.last_sequence && newest.map == older.map);
        }
    }

    fn live(&mut self) -> Result<(), StoreError> {
        if self.random.one_in(4) {
            self.check_older();
        }
        let mut keeper = Keeper::open(&self.disk)?;
        self.check(&keeper);
        self.acknowledged = keeper.last_sequence;
        self.appended.truncate(keeper.last_sequence as usize);
        for _ in 0..self.random.below(200) {
            self.step(&mut keeper)?;
            self.acknowledged = keeper.core.durable_sequence();
        }
        if self.random.one_in(3) {
            keeper.core.close()?;
            self.acknowledged = self.appended.len() as u64;
        }
        Ok(())
    }

    fn step(&mut self, keeper: &mut Keeper) -> Result<(), StoreError> {
        match self.random.below(40) {
            0..18 => {
                self.next_value += 1;
                let removes = self.random.one_in(4);
                let value = if removes { 0 } else { self.next_value };
                let operation = (self.random.below(KEYS), value);
                let length = if self.random.one_in(4) { self.random.below(3000) } else { 0 };
                keeper.put(operation, length as usize)?;
                self.appended.push(operation);
            }
            18..26 => keeper.sync()?,
            26..28 => keeper.core.write()?,
            28 => drop(keeper.core.roll()?),
            29 if self.random.one_in(4) => keeper.drop_snapshot(),
            _ => keeper.snapshot_step()?,
        }
        Ok(())
    }
}

#[test]
fn snapshots_and_the_journal_after_them_keep_what_was_acknowledged() {
    let chosen = std::env::var("WHERED_STORE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = chosen.map_or_else(|| (0..3000).collect(), |seed| vec![seed]);
    let (mut crashes, mut with_snapshot, mut with_two) = (0, 0, 0);
    for &seed in &seeds {
        let mut history = History::new(seed);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| history.run())) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            panic!("failing seed: WHERED_STORE_SEED={seed}: {}", text.unwrap_or("see above"));
        }
        crashes += history.crashes;
        with_snapshot += history.with_snapshot;
        with_two += history.with_two;
    }
    println!("{crashes} crashes, {with_snapshot} found a snapshot, {with_two} found two");
    if seeds.len() > 1 {
        assert!(with_snapshot * 10 > crashes && with_two * 20 > crashes, "too few snapshots");
    }
}

/// A snapshot needs more room than there is, or the disk fails under it: the journal goes on.
#[test]
fn a_snapshot_that_fails_leaves_the_journal_as_it_was() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let disk = SimulatedDisk::new(seed);
        let mut keeper = Keeper::open(&disk).expect("the disk is healthy");
        for key in 0..KEYS {
            keeper.put((key, key + 1), 0).expect("the disk is healthy");
        }
        keeper.sync().expect("the disk is healthy");
        if random.one_in(2) {
            disk.set_capacity_bytes(Some(2 * 8192 + random.below(1200)));
        } else {
            // The first sync from here on is the journal's own before the end, unless nothing
            // waits.
            disk.fail_sync(1 + random.below(2));
        }
        let failed = (0..6).find_map(|_| keeper.snapshot_step().err());
        keeper.drop_snapshot();
        disk.set_capacity_bytes(None);
        if failed.is_some_and(|error| error.is_full()) {
            assert!(disk.names().iter().all(|name| name.starts_with("journal")), "nothing is left");
            keeper.put((1, 99), 0).expect("the disk is healthy");
            keeper.sync().expect("the disk is healthy");
        }
        let map = keeper.map.clone();
        let again = Keeper::open(&disk.crash(seed)).expect("a crash is no damage");
        assert!(again.map == map);
    }
}
