//! A journal behind a snapshot: what is needed, what may be gone, what is missing.

mod support;

use std::sync::Arc;

use support::small_options;
use whered_store::{
    Journal, JournalCore, JournalOptions, RecoveryReport, SimulatedDisk, StoreError, SyncPolicy,
    Wanted,
};

const ENTRIES: u64 = 40;

/// A closed journal of many small segments, each entry containing its sequence.
fn many_segments() -> SimulatedDisk {
    let disk = SimulatedDisk::new(5);
    let (mut core, _) = open(&disk, Wanted::all())
        .map(|(core, report, _)| (core, report))
        .expect("the disk is healthy");
    for sequence in 1..=ENTRIES {
        assert_eq!(core.append(1, &payload(sequence)).expect("the disk is healthy"), sequence);
        core.write().expect("the disk is healthy");
    }
    core.close().expect("the disk is healthy");
    assert!(disk.names().len() > 5, "{:?}", disk.names());
    disk
}

fn payload(sequence: u64) -> Vec<u8> {
    sequence.to_le_bytes().repeat(100)
}

/// Opens and checks that what is handed out is what comes after `wanted.after`.
fn open(
    disk: &SimulatedDisk,
    wanted: Wanted,
) -> Result<(JournalCore, RecoveryReport, u64), StoreError> {
    let mut next = wanted.after + 1;
    let (core, report) =
        JournalCore::open(Arc::new(disk.clone()), &small_options(), wanted, &mut |entry| {
            assert_eq!((entry.sequence, entry.payload), (next, &payload(next)[..]));
            next += 1;
            Ok(())
        })?;
    assert_eq!(report.last_sequence + 1, next);
    assert_eq!(report.entries, next - wanted.after - 1);
    Ok((core, report, next - 1))
}

fn after(after: u64) -> Wanted {
    Wanted { after, through: 0 }
}

fn firsts(disk: &SimulatedDisk) -> Vec<u64> {
    disk.names().iter().filter_map(|name| name.get(8..28)?.parse().ok()).collect()
}

#[test]
fn entries_up_to_the_snapshot_are_not_handed_out_and_old_segments_not_read() {
    for sequence in 0..=ENTRIES {
        let disk = many_segments();
        let firsts = firsts(&disk);
        let needed = firsts.partition_point(|&first| first <= sequence + 1) - 1;
        for first in &firsts[..needed] {
            disk.put(&format!("journal-{first:020}.log"), b"nobody reads this");
        }
        let (_, report, last) = open(&disk, after(sequence)).unwrap();
        assert_eq!((last, report.segments), (ENTRIES, firsts.len() - needed));
    }
}

#[test]
fn removed_segments_are_missed_only_by_those_who_need_them() {
    for sequence in 0..ENTRIES + 5 {
        let disk = many_segments();
        let before = firsts(&disk);
        let (mut core, _, _) = open(&disk, Wanted::all()).unwrap();
        let removed = core.remove_before(sequence).unwrap();
        core.close().unwrap();
        let disk = disk.crash(sequence);
        let left = firsts(&disk);
        assert_eq!(left, before[removed..]);
        assert!(left[0] <= sequence + 1, "entry {} is needed", sequence + 1);
        assert!(left.len() == 1 || left[1] > sequence + 1, "nobody needs {}", left[0]);
        open(&disk, after(left[0] - 1)).unwrap();
        if left[0] > 2 {
            let error = open(&disk, after(left[0] - 3)).err().unwrap();
            let missing = format!("entries {} to {} are missing", left[0] - 2, left[0] - 1);
            assert!(error.is_damaged() && error.to_string().contains(&missing), "{error}");
        }
    }
}

#[test]
fn a_journal_that_ends_before_what_the_snapshot_saw_is_damaged_and_untouched() {
    let disk = many_segments();
    let wanted = Wanted { after: 10, through: ENTRIES };
    open(&disk, wanted).unwrap();
    let beyond = Wanted { through: ENTRIES + 3, ..wanted };
    let error = open(&disk, beyond).err().unwrap();
    assert!(error.is_damaged() && error.to_string().contains("41 to 43 are missing"), "{error}");
    // A tail that would be cut as torn is not when the snapshot vouches for it.
    let last = disk.names().pop().unwrap();
    let mut bytes = disk.read(&last).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[end - 300..].fill(0);
    disk.put(&last, &bytes);
    let error = open(&disk, wanted).err().unwrap();
    assert!(error.to_string().contains("entry 40 is missing"), "{error}");
    assert_eq!(disk.read(&last).unwrap(), bytes);
    open(&disk, after(10)).unwrap();
}

#[test]
fn an_empty_directory_is_no_journal_behind_a_snapshot() {
    let disk = SimulatedDisk::new(1);
    for wanted in [after(7), Wanted { after: 7, through: 9 }, after(u64::MAX)] {
        let error = open(&disk, Wanted { after: wanted.after.min(1 << 60), ..wanted });
        let error = error.err().unwrap();
        assert!(error.is_damaged() && error.to_string().contains("no segment"), "{error}");
        assert_eq!(disk.names(), Vec::<String>::new());
    }
    let disk = many_segments();
    let all = Wanted { after: u64::MAX, through: u64::MAX };
    let result = JournalCore::open(Arc::new(disk), &small_options(), all, &mut |_| Ok(()));
    assert!(result.err().unwrap().is_damaged());
}

fn start(disk: &SimulatedDisk, options: JournalOptions) -> Journal {
    Journal::open(Arc::new(disk.clone()), options, Wanted::all(), &mut |_| Ok(()))
        .expect("the disk is healthy")
        .0
}

fn put(journal: &Journal, size: usize) -> u64 {
    journal.append(journal.reserve(size).expect("the disk is healthy"), 1, &vec![1; size])
}

#[test]
fn a_roll_seals_what_is_there_and_an_empty_segment_stays() {
    for sync in SyncPolicy::ALL {
        let disk = SimulatedDisk::new(1);
        let journal = start(&disk, JournalOptions { sync, ..small_options() });
        assert_eq!(journal.roll().unwrap(), 1);
        let last = put(&journal, 700);
        // What is reserved before the roll finds its place after it.
        let held = journal.reserve(7000).unwrap();
        assert_eq!(journal.roll().unwrap(), last + 1);
        assert_eq!(journal.roll().unwrap(), last + 1);
        assert_eq!(firsts(&disk), [1, last + 1]);
        assert_eq!(firsts(&disk.crash(7)), [1, last + 1]);
        assert_eq!(journal.append(held, 1, &[2; 7000]), last + 1);
        assert_eq!(journal.sync().unwrap(), last + 1);
        assert_eq!(journal.stats().segments, 2);
        let (_, report) =
            JournalCore::open(Arc::new(disk.crash(3)), &small_options(), after(last), &mut |_| {
                Ok(())
            })
            .unwrap();
        assert_eq!((report.entries, report.segments, report.torn_tail), (1, 1, None));
        journal.close().unwrap();
    }
}

#[test]
fn a_sync_makes_durable_what_the_policy_would_not_yet() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, JournalOptions { sync: SyncPolicy::Off, ..small_options() });
    for expected in 1..=60 {
        assert_eq!(put(&journal, 300), expected);
        assert_eq!(journal.sync().unwrap(), expected);
        let (_, report, _) = support::open(&disk.crash(expected)).unwrap();
        assert_eq!(report.last_sequence, expected);
    }
    disk.fail_sync(1);
    put(&journal, 300);
    assert!(journal.sync().err().unwrap().is_poisoned());
}

#[test]
fn trimming_while_others_append_loses_nothing_that_is_needed() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..200).for_each(|_| _ = put(&journal, 500)));
        }
        for sequence in (0..400).step_by(7) {
            journal.remove_before(sequence).unwrap();
        }
    });
    let kept_after = 250;
    journal.remove_before(kept_after).unwrap();
    journal.close().unwrap();
    let (_, report) =
        JournalCore::open(Arc::new(disk.crash(3)), &small_options(), after(392), &mut |_| Ok(()))
            .unwrap();
    assert_eq!(report.last_sequence, 400);
}

#[test]
fn a_group_that_may_wait_takes_more_and_nobody_waits_for_ever() {
    let disk = SimulatedDisk::new(1);
    let delay = std::time::Duration::from_millis(20);
    let journal = start(&disk, JournalOptions { group_delay_max: delay, ..small_options() });
    for _ in 0..5 {
        put(&journal, 10);
    }
    journal.wait_durable(5).unwrap();
    put(&journal, 10);
    assert_eq!(journal.sync().unwrap(), 6);
    put(&journal, 10);
    journal.roll().unwrap();
    put(&journal, 10);
    journal.close().unwrap();
    // A delay without end ends with a full group, a sync, and a close.
    let delay = std::time::Duration::from_secs(1 << 30);
    let options =
        JournalOptions { group_delay_max: delay, group_size_bytes_max: 1000, ..small_options() };
    let journal = start(&disk, options);
    for _ in 0..50 {
        put(&journal, 100);
    }
    assert!(journal.stats().groups <= 10);
    journal.sync().unwrap();
    put(&journal, 100);
    journal.close().unwrap();
    assert_eq!(support::open(&disk.crash(4)).unwrap().1.last_sequence, 8 + 51);
}
