//! The journal as its callers see it: threads, groups, a full disk, a broken one, closing.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use support::{Random, open, small_options};
use whered_store::{
    DataDirectory, Journal, JournalOptions, PAYLOAD_SIZE_BYTES_MAX, SimulatedDisk, Storage,
    SyncPolicy, Wanted,
};

fn start(disk: &SimulatedDisk, options: JournalOptions) -> Journal {
    Journal::open(Arc::new(disk.clone()), options, Wanted::all(), &mut |_| Ok(()))
        .expect("the disk is healthy")
        .0
}

fn put(journal: &Journal, payload: &[u8]) -> u64 {
    journal.append(journal.reserve(payload.len()).expect("the disk is healthy"), 1, payload)
}

#[test]
fn many_threads_find_their_entries_again_after_a_crash() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let journal = start(&disk, small_options());
        std::thread::scope(|scope| {
            for client in 0..4_u64 {
                let journal = &journal;
                scope.spawn(move || {
                    let mut random = Random(seed * 100 + client);
                    let mut previous = 0;
                    for counter in 0..40_u64 {
                        let mut payload = [client, counter].map(u64::to_le_bytes).concat();
                        payload.resize(16 + random.below(900) as usize, 3);
                        let sequence = put(journal, &payload);
                        assert!(sequence > previous);
                        previous = sequence;
                        if random.one_in(3) {
                            journal.wait_durable(sequence).unwrap();
                            assert!(journal.durable_sequence() >= sequence);
                        }
                    }
                    journal.wait_durable(previous).unwrap();
                });
            }
        });
        assert_eq!(journal.durable_sequence(), 160);
        let stats = journal.stats();
        assert_eq!((stats.frames, stats.poisoned), (160, None));
        assert!(stats.groups <= 160 && stats.syncs >= stats.groups.min(1));
        // No close: the process is gone, and all was acknowledged.
        let (_, _, entries) = open(&disk.crash(seed)).unwrap();
        assert_eq!(entries.len(), 160);
        for client in 0..4_u64 {
            let counters: Vec<u64> = entries
                .iter()
                .filter(|(_, payload)| payload[..8] == client.to_le_bytes())
                .map(|(_, payload)| u64::from_le_bytes(payload[8..16].try_into().unwrap()))
                .collect();
            assert_eq!(counters, (0..40).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_batch_lies_in_one_group_with_consecutive_sequences() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    let entries: [(u16, &[u8]); 3] = [(1, b"a"), (2, b""), (3, b"ccc")];
    let reservation = journal.reserve_batch(3, 4).unwrap();
    assert_eq!(journal.append_batch(reservation, &entries), 3);
    assert_eq!(journal.append_batch(journal.reserve_batch(0, 0).unwrap(), &[]), 3);
    journal.wait_durable(3).unwrap();
    assert_eq!(journal.stats().groups, 1);
    journal.close().unwrap();
    let expected = entries.map(|(kind, payload)| (kind, payload.to_vec()));
    assert_eq!(open(&disk).unwrap().2, expected);
}

#[test]
fn a_payload_larger_than_a_segment_gets_one_of_its_size() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    put(&journal, b"small");
    let large = put(&journal, &vec![7; 100_000]);
    let after = put(&journal, b"after");
    journal.wait_durable(after).unwrap();
    journal.close().unwrap();
    let entries = open(&disk).unwrap().2;
    assert_eq!(entries[large as usize - 1].1, vec![7; 100_000]);
    assert_eq!(entries.len(), 3);
    assert!(disk.names().iter().all(|name| name.ends_with(".log")), "no spare stays");
}

#[test]
fn too_large_is_refused_before_anything_is_allocated() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    let before = disk.operations();
    for size in [PAYLOAD_SIZE_BYTES_MAX + 1, usize::MAX] {
        assert!(journal.reserve(size).err().unwrap().is_too_large());
    }
    assert!(journal.reserve_batch(usize::MAX, 1).err().unwrap().is_too_large());
    assert_eq!(disk.operations(), before);
}

#[test]
fn a_full_disk_refuses_unapplied_and_freed_space_lets_writes_go_on() {
    let disk = SimulatedDisk::new(1);
    disk.put("ballast", &[0; 5000]);
    disk.set_capacity_bytes(Some(2 * 8192 + 5000));
    let journal = start(&disk, small_options());
    let mut written = 0;
    let error = loop {
        match journal.reserve(1000) {
            Ok(reservation) => written = journal.append(reservation, 1, &[5; 1000]),
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && !error.is_poisoned(), "{error}");
    assert!(written >= 6);
    // A smaller one may still fit, and what was written stays.
    journal.wait_durable(written).unwrap();
    assert_eq!(journal.poisoned(), None);
    disk.remove("ballast").unwrap();
    disk.set_capacity_bytes(Some(4 * 8192));
    assert_eq!(put(&journal, &[6; 1000]), written + 1);
    journal.close().unwrap();
    assert_eq!(open(&disk).unwrap().2.len() as u64, written + 1);
}

#[test]
fn a_full_disk_is_a_state_that_ends_when_there_is_room_although_nobody_writes() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(2 * 8192));
    let options =
        JournalOptions { full_retry_interval: std::time::Duration::ZERO, ..small_options() };
    let journal = start(&disk, options);
    assert_eq!(journal.full(), None);
    // What is larger than the room is refused, and leaves room for others.
    assert!(journal.reserve(100_000).err().unwrap().is_full());
    assert_eq!(journal.full(), None);
    while let Ok(reservation) = journal.reserve(1000) {
        journal.append(reservation, 1, &[5; 1000]);
    }
    let reason = journal.full().expect("there is no room");
    assert!(reason.contains("cannot extend the journal"), "{reason}");
    let wait_until = |holds: &dyn Fn() -> bool| {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "it looks each second");
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    };
    let operations = disk.operations();
    wait_until(&|| disk.operations() > operations);
    assert_eq!(journal.full(), Some(reason), "it has looked for room, and there is none");
    disk.set_capacity_bytes(Some(4 * 8192));
    wait_until(&|| journal.full().is_none());
    put(&journal, &[6; 1000]);
    journal.close().unwrap();
}

#[test]
fn a_full_disk_is_not_asked_for_every_refused_write() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(8192));
    let retry = std::time::Duration::from_secs(3600);
    let options = JournalOptions { full_retry_interval: retry, ..small_options() };
    let journal = start(&disk, options);
    assert!(journal.reserve(5000).err().unwrap().is_full());
    let before = disk.operations();
    for _ in 0..100 {
        assert!(journal.reserve(5000).err().unwrap().is_full());
    }
    assert_eq!(disk.operations(), before);
    journal.wait_durable(put(&journal, b"small ones go on")).unwrap();
}

#[test]
fn a_failed_sync_poisons_for_ever_and_tells_everybody() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    let (sender, receiver) = mpsc::channel();
    journal.on_progress(Box::new(move || sender.send(()).unwrap()));
    let good = put(&journal, b"good");
    journal.wait_durable(good).unwrap();
    receiver.recv().unwrap();
    disk.fail_sync(1);
    let held = journal.reserve(10).unwrap();
    let lost = put(&journal, b"lost");
    let error = journal.wait_durable(lost).err().unwrap();
    assert!(error.is_poisoned() && error.to_string().contains("input/output error"), "{error}");
    receiver.recv().unwrap();
    assert!(journal.reserve(1).err().unwrap().is_poisoned());
    // A reservation from before can still be used, and is not acknowledged.
    let late = journal.append(held, 1, b"late");
    assert!(journal.wait_durable(late).err().unwrap().is_poisoned());
    assert_eq!(journal.durable_sequence(), good);
    assert!(journal.wait_durable(good).is_ok());
    assert!(journal.stats().poisoned.is_some());
    assert!(journal.close().err().unwrap().is_poisoned());
    drop(journal);
    let entries = open(&disk.crash(3)).unwrap().2;
    assert_eq!(entries[0], (1, b"good".to_vec()));
    assert!(entries.len() <= 2);
}

#[test]
fn a_panic_between_reserve_and_append_gives_the_space_back() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(8192));
    let journal = start(&disk, small_options());
    for _ in 0..10 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _reservation = journal.reserve(3000).unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let too_much = catch_unwind(AssertUnwindSafe(|| {
            journal.append(journal.reserve(10).unwrap(), 1, &[0; 3000])
        }));
        assert!(too_much.is_err());
        let reserved_kind = catch_unwind(AssertUnwindSafe(|| {
            journal.append(journal.reserve(10).unwrap(), u16::MAX, &[0; 3])
        }));
        assert!(reserved_kind.is_err());
    }
    assert_eq!(put(&journal, &[1; 3000]), 1);
    journal.close().unwrap();
    assert_eq!(open(&disk).unwrap().2.len(), 1);
}

#[test]
fn everysec_and_off_acknowledge_at_once_and_close_writes_everything() {
    for sync in [SyncPolicy::EverySecond, SyncPolicy::Off] {
        let disk = SimulatedDisk::new(1);
        let journal = start(&disk, JournalOptions { sync, ..small_options() });
        for expected in 1..=50 {
            assert_eq!(put(&journal, &[2; 500]), expected);
            assert_eq!(journal.durable_sequence(), expected);
            journal.wait_durable(expected).unwrap();
        }
        journal.close().unwrap();
        journal.close().unwrap();
        assert!(journal.reserve(1).err().unwrap().is_closed());
        assert_eq!(open(&disk.crash(9)).unwrap().2.len(), 50);
    }
}

#[test]
fn everysec_syncs_without_being_asked() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, JournalOptions { sync: SyncPolicy::EverySecond, ..small_options() });
    put(&journal, b"one");
    // The stats tell when it was done; nothing rests on how long it takes.
    while journal.stats().syncs == 0 {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
    assert_eq!(open(&disk.crash(4)).unwrap().2.len(), 1);
}

#[test]
fn a_group_that_gathers_is_written_when_nothing_follows_and_when_it_is_large() {
    for sync in [SyncPolicy::EverySecond, SyncPolicy::Off] {
        let disk = SimulatedDisk::new(31);
        let options = JournalOptions { sync, ..JournalOptions::default() };
        let journal = start(&disk, options);
        let (written, progress) = mpsc::channel();
        journal.on_progress(Box::new(move || {
            let _ = written.send(());
        }));
        for (count, payload) in [(1, vec![1; 10]), (3, vec![2; 300_000]), (500, vec![3; 100])] {
            let before = journal.stats().frames;
            for _ in 0..count {
                put(&journal, &payload);
            }
            while journal.stats().frames < before + count {
                // Nobody asks for it: it is written by itself, or this waits for ever.
                progress.recv_timeout(std::time::Duration::from_secs(20)).expect("it is written");
            }
        }
    }
}

#[test]
fn zeros_ahead_fill_a_segment_to_its_end_and_change_nothing_that_comes_back() {
    let disk = SimulatedDisk::new(33);
    let options = JournalOptions { segment_size_bytes: 600 << 10, ..JournalOptions::default() };
    let journal = start(&disk, options);
    // Several stretches of zeros in a segment, and several segments.
    for number in 0..90_u64 {
        let sequence = put(&journal, &[number.to_le_bytes().as_slice(), &[9; 30_000]].concat());
        journal.wait_durable(sequence).unwrap();
        if number % 30 == 7 {
            let (_, _, entries) = open(&disk.crash(number)).unwrap();
            assert_eq!(entries.len() as u64, number + 1);
        }
    }
    let (_, report, entries) = open(&disk.crash(34)).unwrap();
    assert!(report.torn_tail.is_none());
    let numbers: Vec<&[u8]> = entries.iter().map(|(_, payload)| &payload[..8]).collect();
    let expected: Vec<[u8; 8]> = (0..90_u64).map(u64::to_le_bytes).collect();
    assert_eq!(numbers, expected.iter().map(<[u8; 8]>::as_slice).collect::<Vec<_>>());
}

#[test]
fn little_room_in_memory_makes_callers_wait_and_not_fail() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, JournalOptions { group_size_bytes_max: 1, ..small_options() });
    let groups = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&groups);
    journal.on_progress(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let last = (0..200).map(|_| put(&journal, &[1; 100])).max().unwrap();
    journal.wait_durable(last).unwrap();
    journal.close().unwrap();
    assert_eq!(last, 200);
    assert!(groups.load(Ordering::Relaxed) >= 100, "hardly two entries fit into a group");
}

#[test]
fn closing_without_writing_leaves_the_file_as_it_is() {
    let disk = SimulatedDisk::new(1);
    let journal = start(&disk, small_options());
    put(&journal, b"one");
    drop(journal);
    let before = disk.read(&disk.names()[0]);
    for _ in 0..3 {
        start(&disk, small_options()).close().unwrap();
    }
    assert_eq!(disk.read(&disk.names()[0]), before);
}

#[test]
fn a_data_directory_has_one_holder_and_the_second_learns_its_pid() {
    let path = std::env::temp_dir().join(format!("whered-store-lock-{}", std::process::id()));
    let nested = path.join("new/data");
    let directory = DataDirectory::lock(&nested).unwrap();
    let error = DataDirectory::lock(&nested).err().unwrap();
    assert!(error.is_locked());
    assert_eq!(error.holder_pid(), Some(std::process::id()));
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(directory);
    let directory = DataDirectory::lock(&nested).unwrap();
    assert_eq!(directory.path(), nested);
    // A file is no data directory, and neither is what would lie below one.
    for bad in [nested.join("LOCK"), nested.join("LOCK/data")] {
        let error = DataDirectory::lock(&bad).err().unwrap();
        assert!(!error.is_locked() && error.holder_pid().is_none());
        assert_eq!(error.to_string().lines().count(), 1);
    }
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_directory_of_another_program_is_refused_and_stays_as_it_is() {
    let path = std::env::temp_dir().join(format!("whered-store-foreign-{}", std::process::id()));
    let put = |name: &str, bytes: &[u8]| std::fs::write(path.join(name), bytes).unwrap();
    let names = || {
        let entries = std::fs::read_dir(&path).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // Folders, and files that hide, are nobody's business.
    std::fs::create_dir_all(path.join("lost+found")).unwrap();
    put(".keep", b"");
    drop(DataDirectory::lock(&path).unwrap());
    // What was ours once stays ours, whatever is put beside it.
    put("dump.rdb", b"REDIS0011");
    drop(DataDirectory::lock(&path).unwrap());
    // Other programs lock with a file of that name, too.
    for lock in [None, Some(&b""[..]), Some(b"somebody")] {
        std::fs::remove_file(path.join("LOCK")).unwrap();
        if let Some(lock) = lock {
            put("LOCK", lock);
        }
        let before = names();
        let error = DataDirectory::lock(&path).err().unwrap();
        assert!(error.is_foreign() && error.to_string().contains("found dump.rdb"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        assert_eq!(names(), before);
        put("LOCK", lock.unwrap_or_default());
    }
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_journal_on_the_real_file_system_comes_back() {
    let path = std::env::temp_dir().join(format!("whered-store-journal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let directory = DataDirectory::lock(&path).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(directory.storage());
    for round in 0..4_u64 {
        let mut found = 0;
        let (journal, report) =
            Journal::open(Arc::clone(&storage), small_options(), Wanted::all(), &mut |entry| {
                assert_eq!(entry.payload, entry.sequence.to_le_bytes().repeat(40));
                found += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((found, report.torn_tail), (round * 50, None));
        for _ in 0..50 {
            let reservation = journal.reserve(320).unwrap();
            let sequence = journal.durable_sequence() + 1;
            assert_eq!(
                journal.append(reservation, 4, &sequence.to_le_bytes().repeat(40)),
                sequence
            );
            journal.wait_durable(sequence).unwrap();
        }
    }
    drop(directory);
    std::fs::remove_dir_all(path).unwrap();
}
