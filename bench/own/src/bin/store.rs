//! Times the store alone: appending, replaying a journal, writing a snapshot and reading it back.
//!
//! Not for what the engine makes of the bytes. Everything read back is summed and held against what
//! was written. The folder should be on a real disk; it is emptied before and removed after.
//!
//! ```text
//! store FOLDER [ENTRIES] [SNAPSHOT MEGABYTES]       20,000,000 entries and 1024 MB unless said
//! ```
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use whered_store::{
    DirectoryStorage, Journal, JournalOptions, SnapshotReader, SnapshotWriter, Snapshots, Storage,
    StoreError, SyncPolicy, Wanted,
};

const PAYLOAD_BYTES: usize = 40;
const BATCH: u64 = 100;
const BLOCK_BYTES: usize = 1 << 20;
const PIECE_BYTES: usize = 8 << 10;
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        println!("store FOLDER [ENTRIES] [SNAPSHOT MEGABYTES]");
        return ExitCode::from(2);
    };
    let entries = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20_000_000);
    let megabytes = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1024);
    match run(Path::new(&folder), entries, megabytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, entries: u64, megabytes: usize) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::new(folder));
    let result = journal(&storage, entries)
        .and_then(|()| snapshot(&storage, megabytes))
        .map_err(|error| error.to_string());
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
    result
}

/// Prints a rate with the time on the clock and on the processors.
fn report(
    what: &str,
    unit: &str,
    amount: f64,
    work: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (wall, processor) = (Instant::now(), processor_seconds());
    work()?;
    let (wall, processor) = (wall.elapsed().as_secs_f64(), processor_seconds() - processor);
    println!(
        "{what:<28} {:>9.1} {unit}/s   {:>9.1} {unit} per processor second   {wall:.3} s",
        amount / wall / 1e6,
        amount / processor / 1e6,
    );
    Ok(())
}

/// User and system time of this process, by `/proc/self/stat` in hundredths of a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

fn payload(number: u64) -> [u8; PAYLOAD_BYTES] {
    let mut bytes = [7; PAYLOAD_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn journal(storage: &Arc<dyn Storage>, entries: u64) -> Result<(), StoreError> {
    let options = JournalOptions { sync: SyncPolicy::Off, ..JournalOptions::default() };
    let (journal, _) =
        Journal::open(Arc::clone(storage), options.clone(), Wanted::all(), &mut |_| Ok(()))?;
    report("append, 100 at a time", "M", entries as f64, || {
        for start in (0..entries).step_by(BATCH as usize) {
            let count = BATCH.min(entries - start);
            let payloads: Vec<_> = (start..start + count).map(payload).collect();
            let batch: Vec<(u16, &[u8])> = payloads.iter().map(|bytes| (3, &bytes[..])).collect();
            let room = journal.reserve_batch(batch.len(), batch.len() * PAYLOAD_BYTES)?;
            journal.append_batch(room, &batch);
        }
        journal.close()
    })?;
    let expected = entries * (entries.saturating_sub(1)) / 2;
    for _ in 0..ROUNDS {
        let mut sum = 0_u64;
        report("replay", "M", entries as f64, || {
            let replay = &mut |entry: whered_store::Entry<'_>| {
                let number = entry.payload.first_chunk().ok_or("a payload is too short")?;
                sum += u64::from_le_bytes(*number);
                Ok(())
            };
            Journal::open(Arc::clone(storage), options.clone(), Wanted::all(), replay)?.0.close()
        })?;
        assert_eq!(sum, expected, "the replayed entries are the ones that were appended");
    }
    Ok(())
}

fn snapshot(storage: &Arc<dyn Storage>, megabytes: usize) -> Result<(), StoreError> {
    let bytes: Vec<u8> = (0..BLOCK_BYTES).map(|index| ((index * 31) >> 4) as u8).collect();
    let pieces: Vec<&[u8]> = bytes.chunks(PIECE_BYTES).collect();
    let amount = (megabytes * BLOCK_BYTES) as f64;
    report("snapshot", "MB", amount, || {
        let mut writer = SnapshotWriter::create(Arc::clone(storage), 5)?;
        for _ in 0..megabytes {
            writer.write_block(9, &pieces)?;
        }
        let start = Instant::now();
        writer.finish(5)?;
        println!("  of that the end: {:.3} s", start.elapsed().as_secs_f64());
        Ok(())
    })?;
    let found = Snapshots::find(&**storage)?;
    let reader = SnapshotReader::open(&**storage, &found.complete[0])?;
    let expected: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    for threads in [1, 1, 2] {
        let (next, wrong) = (AtomicUsize::new(0), AtomicU64::new(0));
        report(&format!("read, {threads} threads"), "MB", amount, || {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(|| read(&reader, &next, &wrong, expected)))
                    .collect();
                handles.into_iter().try_for_each(|handle| handle.join().expect("no panic"))
            })
        })?;
        assert_eq!(wrong.into_inner(), 0, "the blocks are the ones that were written");
    }
    Ok(())
}

fn read(
    reader: &SnapshotReader,
    next: &AtomicUsize,
    wrong: &AtomicU64,
    expected: u64,
) -> Result<(), StoreError> {
    let mut words = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= reader.blocks().len() {
            return Ok(());
        }
        let bytes = reader.read_block(index, &mut words)?;
        // The checksum was taken; one block in sixteen is summed up, so that reading is measured.
        if index.is_multiple_of(16) {
            let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            wrong.fetch_add(u64::from(sum != expected), Ordering::Relaxed);
        }
    }
}
