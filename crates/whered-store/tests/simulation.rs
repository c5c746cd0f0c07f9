//! Crashes at thousands of points of random histories, on a disk that loses, tears and reorders.
//!
//! The claim: *every acknowledged entry is there exactly once and in order; of the others, some may
//! be there, whole and in order; and a crash is never taken for damage.* Acknowledged means covered
//! by a finished sync, which is what `always` waits for. Where write and sync are apart
//! (`everysec`, `off`), the same is shown for what the last sync covered. A failing seed is named
//! in the panic; `WHERED_STORE_SEED=n` runs it alone.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{Entries, Random, growing_options, open, open_with, small_options};
use whered_store::{JournalCore, JournalOptions, SimulatedDisk, StoreError};

const CLIENTS: u64 = 5;
const GENERATIONS: u64 = 6;

/// 5318: a left spare's name was used again before its removal was certain.
const KEPT_SEEDS: [u64; 1] = [5318];

/// One journal through several lives.
struct History {
    random: Random,
    disk: SimulatedDisk,
    /// All that may be found: what is acknowledged, then what was appended after.
    appended: Entries,
    acknowledged: usize,
    /// Whether each group is synced before the next is written.
    always: bool,
    /// Segments of one size, or growing ones.
    options: JournalOptions,
    counters: [u64; CLIENTS as usize],
    torn_tails: u64,
    crashes: u64,
}

impl History {
    fn new(seed: u64, always: bool) -> History {
        History {
            random: Random(seed),
            disk: SimulatedDisk::new(seed),
            appended: Entries::new(),
            acknowledged: 0,
            always,
            options: if seed.is_multiple_of(2) { small_options() } else { growing_options() },
            counters: [0; CLIENTS as usize],
            torn_tails: 0,
            crashes: 0,
        }
    }

    fn run(&mut self) {
        for _ in 0..GENERATIONS {
            let fuse = self.random.below(if self.random.0 & 1 == 0 { 12 } else { 80 });
            self.disk.cut_power_after(fuse);
            match self.live() {
                Ok(()) => {}
                Err(error) => {
                    assert!(error.to_string().contains("simulated power cut"), "{error}");
                }
            }
            self.crash();
        }
        let (_, _, found) = open_with(&self.disk, &self.options).expect("the last life has power");
        self.check(&found);
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.disk = if self.random.one_in(8) {
            self.disk.after_process_death()
        } else {
            self.disk.crash(self.random.next_u64())
        };
    }

    /// Opens, checks, and works until the power goes or it is enough.
    fn live(&mut self) -> Result<(), StoreError> {
        let (mut core, report, found) = open_with(&self.disk, &self.options)?;
        self.torn_tails += u64::from(report.torn_tail.is_some());
        self.check(&found);
        // Opening made durable what it handed out.
        self.acknowledged = found.len();
        self.appended = found;
        for _ in 0..self.random.below(150) {
            self.step(&mut core)?;
        }
        if self.random.one_in(2) {
            core.close()?;
            self.acknowledged = self.appended.len();
        }
        Ok(())
    }

    fn step(&mut self, core: &mut JournalCore) -> Result<(), StoreError> {
        match self.random.below(10) {
            0..7 => self.append(core)?,
            _ if self.always => {
                core.write()?;
                core.sync()?;
            }
            7 | 8 => core.write()?,
            _ => core.sync()?,
        }
        self.acknowledged = core.durable_sequence() as usize;
        Ok(())
    }

    fn append(&mut self, core: &mut JournalCore) -> Result<(), StoreError> {
        let (kind, payload) = self.entry();
        let sequence = core.append(kind, &payload)?;
        self.appended.push((kind, payload));
        assert_eq!(sequence, self.appended.len() as u64);
        Ok(())
    }

    /// An entry that no other is equal to: client, its counter, filling.
    fn entry(&mut self) -> (u16, Vec<u8>) {
        let client = self.random.below(CLIENTS);
        let counter = &mut self.counters[client as usize];
        *counter += 1;
        let mut payload = format!("client {client} entry {counter} ").into_bytes();
        let size = match self.random.below(20) {
            0 => self.random.below(6000),
            1..4 => 0,
            _ => self.random.below(700),
        };
        // Zeros are the hardest filling: they look like space that was never written.
        let filling = if self.random.one_in(3) { 0 } else { self.random.next_u64() as u8 };
        payload.resize(payload.len() + size as usize, filling);
        (client as u16, payload)
    }

    fn check(&self, found: &Entries) {
        assert!(found.len() >= self.acknowledged, "acknowledged entries are lost");
        assert!(found.len() <= self.appended.len(), "there are entries that nobody appended");
        for (index, entry) in found.iter().enumerate() {
            assert!(*entry == self.appended[index], "entry {} is another one", index + 1);
        }
    }
}

/// Linux forgets a page whose writing failed: the next process reads it from memory, its sync has
/// nothing to do, and a power cut then takes away what was there. The journal once took that for
/// durable, so that the power cut lost entries or was called damage.
#[test]
fn what_a_failed_sync_left_in_memory_is_durable_after_the_next_opening() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let mut expected = Entries::new();
        let mut append = |core: &mut JournalCore, size: usize| {
            let entry = (1, vec![expected.len() as u8 + 1; size]);
            core.append(entry.0, &entry.1).expect("there is room");
            core.write().expect("writing works");
            expected.push(entry);
        };
        let (mut core, _, _) = open(&disk).expect("the disk is empty");
        append(&mut core, 100);
        core.sync().expect("the first sync works");
        append(&mut core, 1500);
        disk.fail_sync(1);
        core.sync().expect_err("the second sync fails");
        drop(core);
        let (mut core, _, found) = open(&disk.after_process_death()).expect("memory has it all");
        assert_eq!(found.len(), 2);
        append(&mut core, 1500);
        core.sync().expect("the third sync works");
        drop(core);
        let (_, _, found) = open(&disk.crash(seed)).expect("a crash is no damage");
        assert!(found == expected, "{} of {} entries, seed {seed}", found.len(), expected.len());
    }
}

fn seeds(count: u64) -> Vec<u64> {
    let chosen = std::env::var("WHERED_STORE_SEED").ok().and_then(|seed| seed.parse().ok());
    match chosen {
        Some(seed) => vec![seed],
        None => (0..count).chain(KEPT_SEEDS).collect(),
    }
}

/// Runs the case for each seed and names the one that fails.
fn for_each_seed(count: u64, case: impl Fn(u64)) {
    for seed in seeds(count) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(seed))) {
            let text = panic.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("failing seed: WHERED_STORE_SEED={seed}: {text}");
        }
    }
}

fn simulate(always: bool) {
    let totals = std::cell::Cell::new((0, 0));
    for_each_seed(4000, |seed| {
        let mut history = History::new(seed, always);
        history.run();
        let (crashes, torn_tails) = totals.get();
        totals.set((crashes + history.crashes, torn_tails + history.torn_tails));
    });
    let (crashes, torn_tails) = totals.get();
    // The simulation would prove nothing if the hard case were rare.
    if seeds(2).len() > 1 {
        assert!(torn_tails * 20 > crashes, "{torn_tails} torn tails in {crashes} crashes");
    }
}

#[test]
fn always_keeps_what_was_acknowledged_and_tears_nothing() {
    simulate(true);
}

#[test]
fn everysec_and_off_keep_what_was_synced_and_tear_nothing() {
    simulate(false);
}

/// Flips a bit in the payload of an entry that a later synced group vouches for.
fn rot(seed: u64) {
    let mut random = Random(seed);
    let disk = SimulatedDisk::new(seed);
    let (mut core, _, _) = open(&disk).expect("the power is on");
    let tag = |index: u64| format!("<entry {index} of seed {seed}>").into_bytes();
    let groups = 2 + random.below(20);
    for group in 0..groups {
        let mut payload = tag(group);
        payload.resize(payload.len() + random.below(900) as usize, 7);
        core.append(1, &payload).expect("the power is on");
        core.write().expect("the power is on");
        core.sync().expect("the power is on");
    }
    // One more group is on its way when the power goes.
    core.append(1, &vec![9; random.below(3000) as usize]).expect("the power is on");
    core.write().expect("the power is on");
    let disk = disk.crash(random.next_u64());
    let victim = tag(random.below(groups - 1));
    let (name, place) = find(&disk, &victim);
    assert!(disk.flip_bit(&name, place + random.below(victim.len() as u64) as usize, 3));
    let before: Vec<_> = disk.names().iter().map(|name| disk.read(name)).collect();
    let error = open(&disk).err().expect("the damage must be seen");
    assert!(error.is_damaged(), "{error}");
    assert!(error.file().is_some_and(|file| file.ends_with(&name)), "{error}");
    assert!(error.offset_bytes().is_some_and(|offset| offset <= place as u64), "{error}");
    let after: Vec<_> = disk.names().iter().map(|name| disk.read(name)).collect();
    assert!(before == after, "a refusal touches nothing");
}

fn find(disk: &SimulatedDisk, bytes: &[u8]) -> (String, usize) {
    let found = disk.names().into_iter().find_map(|name| {
        let content = disk.read(&name)?;
        let place = content.windows(bytes.len()).position(|window| window == bytes)?;
        Some((name, place))
    });
    found.expect("a synced entry is on the disk")
}

#[test]
fn rot_in_what_a_later_group_vouches_for_is_never_taken_for_a_torn_tail() {
    for_each_seed(1000, rot);
}
