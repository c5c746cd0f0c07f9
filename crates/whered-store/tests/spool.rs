//! Spools on a disk that loses power at every point: what was acknowledged and is not done with is
//! there once, in order.

use std::path::Path;
use std::sync::Arc;

use whered_store::{
    DirectoryStorage, JournalOptions, LOST_KIND, Repaired, SimulatedDisk, Spool, SpoolOptions,
    SpoolReader, SpoolRefusal, Storage, StoreError, SyncPolicy, repair_spool,
};

fn options(size_bytes_max: u64) -> SpoolOptions {
    let journal = JournalOptions { segment_size_bytes: 16 << 10, ..JournalOptions::default() };
    // Some groups are written past the cache, others are not.
    SpoolOptions { journal, size_bytes_max, cached_bytes_max: 150 }
}

type Opened = Result<(Spool, Vec<(u64, Vec<u8>)>), StoreError>;

fn open(disk: &SimulatedDisk, done: u64) -> Opened {
    let mut waiting = Vec::new();
    let opened = Spool::open(Arc::new(disk.clone()), options(1 << 20), done, &mut |entry| {
        waiting.push((entry.sequence, entry.payload.to_vec()));
        Ok(())
    });
    Ok((opened?.0, waiting))
}

/// A payload that tells its sequence; some are larger than a segment.
fn payload(sequence: u64) -> Vec<u8> {
    let length = if sequence.is_multiple_of(17) { 20_000 } else { 100 + sequence as usize % 3000 };
    let mut payload = vec![sequence as u8; length];
    payload[..8].copy_from_slice(&sequence.to_le_bytes());
    payload
}

/// Appends and works until the power is gone; gives what was acknowledged, and what is done with as
/// a durable place elsewhere has it.
fn work(disk: &SimulatedDisk, done: u64) -> (u64, u64) {
    let Ok((spool, waiting)) = open(disk, done) else { return (done, done) };
    let mut acknowledged = waiting.last().map_or(done, |(sequence, _)| *sequence);
    let mut reader = SpoolReader::new(done + 1);
    let mut done = done;
    for _ in 0..40 {
        let Ok(sequence) = spool.append(3, &payload(acknowledged + 1)) else { break };
        assert_eq!(sequence, acknowledged + 1);
        if spool.wait_durable(sequence).is_err() {
            break;
        }
        acknowledged = sequence;
        if sequence.is_multiple_of(3) {
            while let Ok(Some(entry)) = reader.next(&spool) {
                assert_eq!((entry.sequence, entry.kind), (done + 1, 3));
                assert_eq!(entry.payload, payload(entry.sequence));
                done = entry.sequence;
            }
            if spool.done(done).is_err() {
                break;
            }
        }
    }
    (acknowledged, done)
}

#[test]
fn what_was_acknowledged_is_there_once_in_order_whenever_the_power_goes() {
    let operations = {
        let disk = SimulatedDisk::new(1);
        work(&disk, 0);
        let block_writes = disk.block_writes();
        assert!((5..35).contains(&block_writes), "{block_writes} groups went past the cache");
        disk.operations()
    };
    for cut in 0..operations {
        let disk = SimulatedDisk::new(cut);
        disk.cut_power_after(cut);
        let (acknowledged, done) = work(&disk, 0);
        for seed in 0..3 {
            let found = disk.crash(seed * 1000 + cut);
            let (spool, waiting) = open(&found, done).expect("it opens");
            let sequences: Vec<u64> = waiting.iter().map(|(sequence, _)| *sequence).collect();
            let last = sequences.last().copied().unwrap_or(done);
            assert_eq!(sequences, (done + 1..=last).collect::<Vec<_>>(), "power cut at {cut}");
            assert!(last >= acknowledged, "power cut at {cut}: {acknowledged} was acknowledged");
            for (sequence, bytes) in &waiting {
                assert_eq!(*bytes, payload(*sequence));
            }
            assert_eq!(spool.waiting().0, waiting.len() as u64);
            // A reader finds the same as the opening did.
            let mut reader = SpoolReader::new(done + 1);
            for (sequence, bytes) in &waiting {
                let entry = reader.next(&spool).expect("it is read").expect("it waits");
                assert_eq!((entry.sequence, entry.payload), (*sequence, &bytes[..]));
            }
            assert!(reader.next(&spool).expect("it is read").is_none());
        }
    }
}

#[test]
fn a_worker_that_goes_on_after_restarts_meets_every_entry_once() {
    let disk = SimulatedDisk::new(5);
    let mut done = 0;
    for _ in 0..5 {
        let (acknowledged, now_done) = work(&disk, done);
        assert!(now_done >= done && acknowledged >= now_done);
        done = now_done;
    }
    // 200 entries of 2 KB, of which only those of the last segments may still be there.
    let segments = disk.names().iter().filter(|name| name.starts_with("journal-0")).count();
    assert!(segments <= 4, "{:?}", disk.names());
}

#[test]
fn on_a_real_disk_a_reader_that_is_behind_finds_what_was_written_past_the_cache() {
    // Not the folder for temporary files, which may be in memory.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spool-past-cache");
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::new(&path));
    let journal = JournalOptions { segment_size_bytes: 1 << 20, ..JournalOptions::default() };
    let options = SpoolOptions { journal, size_bytes_max: 1 << 30, cached_bytes_max: 300 << 10 };
    let payload = |sequence: u64| {
        let length = (sequence * sequence * 7919 % 150_000) as usize;
        (0..length).map(|index| (index as u64 * 31 + sequence) as u8).collect::<Vec<u8>>()
    };
    let (mut last, mut done) = (0, 0);
    for round in 0..6 {
        let (spool, _) =
            Spool::open(Arc::clone(&storage), options.clone(), done, &mut |_| Ok(())).unwrap();
        let mut reader = SpoolReader::new(done + 1);
        for step in 0..40_u64 {
            last = spool.append(1, &payload(last + 1)).unwrap();
            spool.wait_durable(last).unwrap();
            // Behind for some time, then not.
            for _ in 0..if step < 25 { step % 2 } else { 4 } {
                let Some(entry) = reader.next(&spool).unwrap() else { break };
                done += 1;
                assert_eq!(entry.sequence, done);
                assert!(
                    entry.payload == payload(entry.sequence),
                    "round {round}: {}",
                    entry.sequence
                );
            }
        }
        spool.done(done).unwrap();
        spool.close().unwrap();
    }
    assert!(done > 200 && last == 240);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_waits_is_limited_and_room_comes_back_with_the_work() {
    let disk = SimulatedDisk::new(5);
    let (spool, _) =
        Spool::open(Arc::new(disk), options(1000), 0, &mut |_| Ok(())).expect("it opens");
    let first = spool.append(1, &[1; 2000]).expect("an empty spool takes any size");
    let refused = spool.append(1, &[2; 10]).expect_err("it is full");
    assert_eq!(refused, SpoolRefusal::Waiting { waiting_bytes: 2000, allowed_bytes: 1000 });
    assert_eq!(refused.to_string(), "2000 bytes wait in the spool; allowed: 1000");
    spool.settle(first);
    assert_eq!(spool.waiting(), (0, 0));
    assert_eq!(spool.append(1, &[2; 10]), Ok(2));
    let known =
        spool.append_unless(1, &[b"ag", b"ain"], || Some(2), |_| ()).expect("there is room");
    assert_eq!(known, Err(2), "what is known is not appended");
}

#[test]
fn a_spool_that_lost_what_was_done_with_says_so() {
    let disk = SimulatedDisk::new(5);
    let opened = Spool::open(Arc::new(disk), options(1000), 7, &mut |_| Ok(()));
    assert!(opened.err().expect("it is refused").is_damaged());
}

#[test]
fn a_first_entry_that_is_larger_than_a_segment_is_not_removed_before_its_time() {
    let disk = SimulatedDisk::new(5);
    let (spool, _) = open(&disk, 0).expect("it opens");
    let large = vec![7; 40_000];
    let sequence = spool.append(1, &large).expect("there is room");
    spool.wait_durable(sequence).expect("the disk is well");
    assert!(!spool.is_removable(0), "there is one segment, which has the entry");
    assert_eq!(spool.done(0), Ok(0));
    let entry =
        SpoolReader::new(1).next(&spool).map(|entry| entry.map(|entry| entry.payload.len()));
    assert_eq!(entry, Ok(Some(large.len())));
    drop(spool);
    assert_eq!(open(&disk, 0).expect("it opens").1.len(), 1);
}

fn repaired(disk: &SimulatedDisk, done: u64) -> (Repaired, Vec<String>) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut lines = Vec::new();
    let repaired = repair_spool(&storage, done, &mut |line| lines.push(line.to_owned()));
    (repaired.unwrap_or_else(|error| panic!("{error}")), lines)
}

/// A closed spool of some segments with `count` entries, of which some are done with.
fn closed(count: u64, done: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(count);
    let (spool, _) = open(&disk, 0).expect("the disk is healthy");
    for sequence in 1..=count {
        let appended = spool.append(3, &payload(sequence)).expect("the disk is healthy");
        spool.wait_durable(appended).expect("the disk is healthy");
    }
    spool.done(done).expect("the disk is healthy");
    spool.close().expect("the disk is healthy");
    disk
}

#[test]
fn a_repaired_spool_opens_with_what_waits_up_to_the_damage() {
    let (count, done) = (60, 21);
    let mut damaged_spools = 0;
    for flipped in 0..120_usize {
        let disk = closed(count, done);
        let names: Vec<String> =
            disk.names().into_iter().filter(|name| name.starts_with("journal-0")).collect();
        let name = &names[flipped % names.len()];
        disk.flip_bit(name, flipped * 397 % 16_000, 3);
        let (report, lines) = repaired(&disk, done);
        damaged_spools += u64::from(report.changed);
        let (spool, waiting) = open(&disk, done).unwrap_or_else(|e| panic!("{flipped}: {e}"));
        let last = done + waiting.len() as u64;
        for (entry, sequence) in waiting.iter().zip(done + 1..) {
            // The number of what is lost is not given away again.
            let is_kept = sequence <= report.last_sequence;
            let expected = if is_kept { payload(sequence) } else { Vec::new() };
            assert_eq!(entry, &(sequence, expected), "{flipped}: {lines:?}");
        }
        assert!(last >= report.last_sequence.max(done), "{flipped}: {lines:?}");
        // It goes on, and a second repair finds nothing.
        assert_eq!(spool.append(3, &payload(last + 1)), Ok(last + 1), "{flipped}: {lines:?}");
        spool.close().expect("the disk is healthy");
        assert!(!repaired(&disk, done).0.changed, "{flipped}");
        assert!(report.changed || last == count, "{flipped}: {lines:?}");
    }
    assert!(damaged_spools > 20, "{damaged_spools}");
}

#[test]
fn a_spool_that_does_not_fit_the_data_is_set_aside_and_goes_on_after_them() {
    // The data were brought back to before what the spool still has, or are ahead of all of it.
    for done in [0, 90] {
        let disk = closed(60, 40);
        assert!(open(&disk, done).is_err(), "{done}");
        let (report, lines) = repaired(&disk, done);
        assert!(report.changed && report.last_sequence == done, "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("set aside")), "{lines:?}");
        let (spool, waiting) = open(&disk, done).expect("it is repaired");
        // Sixty numbers were given away: none of them is given away again.
        let lost: Vec<(u64, Vec<u8>)> = (done + 1..=60).map(|lost| (lost, Vec::new())).collect();
        assert_eq!(waiting, lost);
        assert_eq!(spool.append(3, b"next"), Ok(done.max(60) + 1));
        spool.close().expect("the disk is healthy");
    }
}

/// Appends until the power is gone, without waiting for the disk; gives the numbers that were given
/// away.
fn give_away(disk: &SimulatedDisk, sync: SyncPolicy, count: u64) -> Vec<u64> {
    let journal = JournalOptions { sync, ..options(1 << 20).journal };
    let options = SpoolOptions { journal, ..options(1 << 20) };
    let opened = Spool::open(Arc::new(disk.clone()), options, 0, &mut |entry| {
        assert_eq!(entry.payload.is_empty(), entry.kind == LOST_KIND);
        Ok(())
    });
    let Ok((spool, _)) = opened else { return Vec::new() };
    assert_eq!(spool.syncs_first(), sync == SyncPolicy::Always);
    let mut given = Vec::new();
    for _ in 0..count {
        let Ok(sequence) = spool.append(3, b"upload") else { break };
        if spool.wait_durable(sequence).is_err() {
            break;
        }
        given.push(sequence);
    }
    given
}

#[test]
fn no_number_is_given_away_twice_whatever_the_policy_and_whenever_the_power_goes() {
    for sync in SyncPolicy::ALL {
        for cut in 0..40 {
            let disk = SimulatedDisk::new(cut);
            disk.cut_power_after(cut);
            let mut given = give_away(&disk, sync, 10);
            let mut disk = disk.crash(cut);
            for round in 0..2 {
                let more = give_away(&disk, sync, 10);
                assert_eq!(more.len(), 10, "{sync}: power cut at {cut}, round {round}");
                given.extend(more);
                disk = disk.crash(cut + round);
            }
            let mut once = given.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once, given, "{sync}: power cut at {cut}");
        }
    }
}

#[test]
fn after_a_clean_end_a_loose_spool_passes_over_no_number() {
    let disk = SimulatedDisk::new(3);
    let journal = JournalOptions { sync: SyncPolicy::Off, ..options(1 << 20).journal };
    let options = SpoolOptions { journal, ..options(1 << 20) };
    for expected in 1..=3 {
        let (spool, _) =
            Spool::open(Arc::new(disk.clone()), options.clone(), 0, &mut |_| Ok(())).unwrap();
        assert_eq!(spool.append(3, b"upload"), Ok(expected));
        spool.close().unwrap();
    }
}
