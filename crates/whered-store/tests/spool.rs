//! Spools on a disk that loses power at every point: what was acknowledged and is not done with is
//! there once, in order.

use std::sync::Arc;

use whered_store::{
    JournalOptions, SimulatedDisk, Spool, SpoolOptions, SpoolReader, SpoolRefusal, StoreError,
};

fn options(size_bytes_max: u64) -> SpoolOptions {
    let journal = JournalOptions { segment_size_bytes: 16 << 10, ..JournalOptions::default() };
    SpoolOptions { journal, size_bytes_max }
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
    let known = spool.append_unless(1, b"again", || Some(2), |_| ()).expect("there is room");
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
