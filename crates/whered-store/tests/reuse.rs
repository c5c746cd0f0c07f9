//! Segments in the space of removed ones: nothing of the old ones is ever taken for something new.
//!
//! The claim is that of `simulation.rs`, for a journal whose oldest segments are removed all the
//! time, as a spool's are: every acknowledged entry that is not done with is there, whole and in
//! order, a crash is never taken for damage, and a file that has a second name is never written
//! again.

mod support;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use support::{Entries, Random, last_segment, small_options};
use whered_store::{
    Journal, JournalCore, JournalOptions, RecoveryReport, SimulatedDisk, Storage, StoreError,
    Wanted,
};

/// Segments of several blocks: what is behind a group's own block is old.
fn options() -> JournalOptions {
    JournalOptions { segment_size_bytes: 5 * 4096, ..small_options() }
}

/// Whether a segment is in reused space, by the version in its header.
fn is_reused(disk: &SimulatedDisk, name: &str) -> bool {
    disk.read(name).expect("it is there")[8] == 2
}

/// Opens what comes after `done`; gives it.
fn open(
    disk: &SimulatedDisk,
    done: u64,
) -> Result<(JournalCore, RecoveryReport, Entries), StoreError> {
    let mut entries = Entries::new();
    let wanted = Wanted { after: done, through: done };
    let (core, report) =
        JournalCore::open(Arc::new(disk.clone()), &options(), wanted, &mut |entry| {
            assert_eq!(entry.sequence, done + entries.len() as u64 + 1);
            entries.push((entry.kind, entry.payload.to_vec()));
            Ok(())
        })?;
    Ok((core, report, entries))
}

struct History {
    random: Random,
    disk: SimulatedDisk,
    /// All entries that there ever were or may have been.
    appended: Entries,
    acknowledged: u64,
    done: u64,
    /// Files with a second name, and what they had when they got it.
    kept: Vec<(String, Vec<u8>)>,
    links: u64,
    lives_in_reused_space: u64,
    torn_tails: u64,
}

impl History {
    fn new(seed: u64) -> History {
        History {
            random: Random(seed),
            disk: SimulatedDisk::new(seed),
            appended: Entries::new(),
            acknowledged: 0,
            done: 0,
            kept: Vec::new(),
            links: 0,
            lives_in_reused_space: 0,
            torn_tails: 0,
        }
    }

    fn run(&mut self) {
        for _ in 0..8 {
            let fuse = 20 + self.random.below(180);
            self.disk.cut_power_after(fuse);
            if let Err(error) = self.live() {
                assert!(error.to_string().contains("simulated power cut"), "{error}");
            }
            self.disk = if self.random.one_in(4) {
                self.disk.after_process_death()
            } else {
                self.disk.crash(self.random.next_u64())
            };
        }
        let (_, _, found) = open(&self.disk, self.done).expect("the last life has power");
        self.check(&found);
    }

    fn live(&mut self) -> Result<(), Box<dyn Error>> {
        let (mut core, report, found) = open(&self.disk, self.done)?;
        self.torn_tails += u64::from(report.torn_tail.is_some());
        let in_reused_space = is_reused(&self.disk, &last_segment(&self.disk));
        self.lives_in_reused_space += u64::from(in_reused_space);
        self.check(&found);
        self.appended.truncate(self.done as usize);
        self.appended.extend(found);
        self.acknowledged = self.appended.len() as u64;
        for _ in 0..self.random.below(200) {
            self.step(&mut core)?;
        }
        if self.random.one_in(3) {
            core.close()?;
            self.acknowledged = self.appended.len() as u64;
            // A clean end is no torn tail, whatever is behind it.
            let report = open(&self.disk, self.done)?.1;
            assert_eq!(report.torn_tail, None);
        }
        Ok(())
    }

    fn step(&mut self, core: &mut JournalCore) -> Result<(), Box<dyn Error>> {
        match self.random.below(12) {
            0..6 => {
                let size = if self.random.one_in(12) { 6000 } else { 900 };
                let filling = if self.random.one_in(4) { 0 } else { self.random.next_u64() as u8 };
                let payload = vec![filling; self.random.below(size) as usize];
                core.append(1, &payload)?;
                self.appended.push((1, payload));
            }
            6..8 => core.write()?,
            8..10 => core.sync()?,
            10 => {
                let waiting = core.durable_sequence() - self.done;
                self.done += self.random.below(waiting + 1);
                core.remove_before(self.done)?;
            }
            _ if self.random.one_in(6) => self.link()?,
            _ => {}
        }
        self.acknowledged = core.durable_sequence();
        Ok(())
    }

    /// Gives the oldest segment another name as a backup does, unless it is being written.
    fn link(&mut self) -> Result<(), Box<dyn Error>> {
        let is_segment = |name: &String| name.ends_with(".log");
        let segments: Vec<String> = self.disk.names().into_iter().filter(is_segment).collect();
        if segments.len() > 1 {
            self.links += 1;
            let name = format!("kept-{}", self.links);
            self.disk.link(&segments[0], &self.disk, &name)?;
            self.disk.sync_directory()?;
            self.kept.push((name.clone(), self.disk.read(&name).expect("it was linked")));
        }
        Ok(())
    }

    fn check(&self, found: &Entries) {
        let last = self.done + found.len() as u64;
        assert!(last >= self.acknowledged, "acknowledged entries are lost");
        let expected = &self.appended[self.done as usize..];
        assert!(found.len() <= expected.len(), "there are entries that nobody appended");
        assert!(found == &expected[..found.len()], "an entry is another one");
        for (name, bytes) in &self.kept {
            assert!(self.disk.read(name).as_ref() == Some(bytes), "{name} was written again");
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_old_comes_back() {
    let (mut lives, mut torn_tails, mut kept) = (0, 0, 0);
    for seed in 0..3000 {
        let mut history = History::new(seed);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| history.run())) {
            let text = panic.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("failing seed {seed}: {text}");
        }
        lives += history.lives_in_reused_space;
        torn_tails += history.torn_tails;
        kept += history.kept.len();
    }
    // It would prove nothing if the hard cases were rare.
    assert!(lives > 3000 && torn_tails > 1000 && kept > 500, "{lives}, {torn_tails}, {kept}");
}

/// A journal whose last segment is in reused space and has `groups` synced groups.
fn reused(groups: u64) -> (SimulatedDisk, JournalCore, u64) {
    let disk = SimulatedDisk::new(groups);
    let (mut core, _, _) = open(&disk, 0).expect("the disk is healthy");
    let append = |core: &mut JournalCore| {
        let sequence = core.append(1, &[7; 300]).expect("the disk is healthy");
        core.write().expect("the disk is healthy");
        core.sync().expect("the disk is healthy");
        sequence
    };
    let mut done = 0;
    while !is_reused(&disk, &last_segment(&disk)) {
        done = append(&mut core);
        core.remove_before(done).expect("the disk is healthy");
    }
    (0..groups).for_each(|_| _ = append(&mut core));
    (disk, core, done)
}

#[test]
fn a_changed_bit_of_what_is_vouched_for_is_damage() {
    for groups in 1..8 {
        let (disk, core, done) = reused(groups);
        drop(core);
        let name = last_segment(&disk);
        // Behind the header, and the mark of the first group.
        for offset in [4096 + 4, 4096 + 26 + 4, 4096 + 26 + 100] {
            let copy = SimulatedDisk::new(1);
            disk.names().iter().for_each(|name| copy.put(name, &disk.read(name).unwrap()));
            assert!(copy.flip_bit(&name, offset, 3));
            let error = open(&copy, done).err().expect("the damage is seen");
            assert!(error.is_damaged(), "{error}");
        }
        let copy = SimulatedDisk::new(1);
        disk.names().iter().for_each(|name| copy.put(name, &disk.read(name).unwrap()));
        let mut bytes = copy.read(&name).unwrap();
        // Zeros where a frame was look like the end, but for the marks behind them.
        bytes[4096..4096 + 18].fill(0);
        copy.put(&name, &bytes);
        assert!(open(&copy, done).err().expect("the damage is seen").is_damaged());
    }
}

#[test]
fn what_is_behind_the_end_is_zero_after_the_next_opening() {
    let (disk, core, done) = reused(2);
    let name = last_segment(&disk);
    let nonzero = |disk: &SimulatedDisk| {
        disk.read(&name).unwrap().iter().rposition(|byte| *byte != 0).unwrap()
    };
    assert!(nonzero(&disk) > 3 * 4096, "bytes of the segment before are there");
    drop(core);
    let (core, report, found) = open(&disk, done).unwrap();
    assert_eq!((report.torn_tail, found.len()), (None, 2));
    drop(core);
    assert!(nonzero(&disk) < 4096 + 3 * 400);
}

#[test]
fn space_is_used_again_by_a_journal_with_a_thread_and_given_back_at_its_end() {
    let disk = SimulatedDisk::new(1);
    let (journal, _) =
        Journal::open(Arc::new(disk.clone()), options(), Wanted::all(), &mut |_| Ok(())).unwrap();
    let mut reused = 0;
    for sequence in 1..200 {
        let reservation = journal.reserve(500).unwrap();
        assert_eq!(journal.append(reservation, 1, &[3; 500]), sequence);
        journal.wait_durable(sequence).unwrap();
        journal.remove_before(sequence).unwrap();
        reused += usize::from(is_reused(&disk, &last_segment(&disk)));
        assert!(disk.names().len() < 6, "{:?}", disk.names());
    }
    assert!(reused > 100, "{reused}");
    journal.close().unwrap();
    assert!(disk.names().iter().all(|name| name.ends_with(".log")), "{:?}", disk.names());
}
