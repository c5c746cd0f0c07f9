//! Journal segments of any bytes, of forged frames, of good ones that were changed, and of crashes:
//! opening ends with entries or an error with its place, never with a panic, and never with
//! entries that were not written.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | mode | ... |
//! mode 0: the rest is a segment, zeros behind it
//! mode 1: the rest says which frames a segment has; their checksums are right
//! mode 2: the rest is a list of changes to a good journal of several segments
//! mode 3: the rest is what a program does with a journal, power cuts included
//! ```
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use whered_store::{
    JournalCore, JournalOptions, RecoveryReport, SimulatedDisk, StoreError, SyncPolicy, Wanted,
};

const FIRST_SEGMENT: &str = "journal-00000000000000000001.log";
const SEGMENT_SIZE_BYTES: usize = 8192;
const HEADER_BYTES: usize = 4096;

type Entries = Vec<(u16, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    match mode % 4 {
        0 => any_bytes(rest),
        1 => forged(rest),
        2 => changed(rest),
        _ => lived(rest),
    }
});

fn open(disk: &SimulatedDisk) -> Result<(JournalCore, RecoveryReport, Entries), StoreError> {
    let options = JournalOptions {
        sync: SyncPolicy::Always,
        segment_size_bytes: SEGMENT_SIZE_BYTES as u64,
        full_retry_interval: Duration::ZERO,
        ..JournalOptions::default()
    };
    let mut entries = Entries::new();
    let (core, report) =
        JournalCore::open(Arc::new(disk.clone()), &options, Wanted::all(), &mut |entry| {
            assert_eq!(entry.sequence, entries.len() as u64 + 1, "sequences are consecutive");
            entries.push((entry.kind, entry.payload.to_vec()));
            Ok(())
        })?;
    assert_eq!(report.entries, entries.len() as u64);
    assert_eq!(report.last_sequence, entries.len() as u64);
    Ok((core, report, entries))
}

fn contents(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let file = |name: String| (name.clone(), disk.read(&name).expect("it is listed"));
    disk.names().into_iter().map(file).collect()
}

/// Opens what is there. An error has its place and touches nothing; after a success the journal
/// takes an entry, and opening it again finds the same and that entry.
fn judge(disk: &SimulatedDisk) -> Option<Entries> {
    let before = contents(disk);
    let (mut core, _, mut entries) = match open(disk) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(error.file().is_some() && error.offset_bytes().is_some(), "no place: {error}");
            assert!(contents(disk) == before, "a refusal touches nothing");
            return None;
        }
    };
    let sequence = core.append(7, b"after").expect("there is room");
    assert_eq!(sequence, entries.len() as u64 + 1);
    core.close().expect("a healthy disk");
    let (_, report, again) = open(disk).expect("what was opened once opens again");
    assert_eq!(report.torn_tail, None, "a tail is cut once");
    let found = entries.clone();
    entries.push((7, b"after".to_vec()));
    assert!(again == entries, "the same entries and the new one");
    Some(found)
}

/// Mode 0.
fn any_bytes(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1);
    let mut file = bytes.to_vec();
    file.resize(file.len().max(SEGMENT_SIZE_BYTES), 0);
    disk.put(FIRST_SEGMENT, &file);
    judge(&disk);
    disk.put(FIRST_SEGMENT, bytes);
    judge(&disk);
}

/// Mode 1: frames with right checksums, whatever they say.
///
/// ```text
/// one frame: | what u8 | sequence u8 | kind or durable sequence u8 | length u8 |
/// ```
fn forged(rest: &[u8]) {
    const SALT: u64 = 0x1122_3344_5566_7788;
    let mut file = b"whered\0J\x01\0\0\0\0\0\0\0".to_vec();
    for number in [1, SEGMENT_SIZE_BYTES as u64, SALT] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&file[..12]), &file[16..40]);
    file[12..16].copy_from_slice(&checksum.to_le_bytes());
    file.resize(HEADER_BYTES, 0);
    for frame in rest.chunks_exact(4) {
        let [what, sequence, kind, length] = [frame[0], frame[1], frame[2], frame[3]];
        let (kind, payload) = match what % 8 {
            0..=3 => (u16::from(kind), vec![kind; usize::from(length)]),
            4 | 5 => (u16::MAX, u64::from(kind).to_le_bytes().to_vec()),
            6 => (u16::MAX, vec![kind; usize::from(length)]),
            _ => {
                file.extend(vec![kind; usize::from(length)]);
                continue;
            }
        };
        // An odd `what` above 127 states another length than there is.
        let extra = if what >= 128 { u32::from(length) << 24 } else { 0 };
        let size = (payload.len() as u32).wrapping_add(extra);
        let sequence = u64::from(sequence).to_le_bytes();
        let tail = [&sequence[..], &kind.to_le_bytes(), &payload].concat();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&SALT.to_le_bytes()), &size.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &tail).max(1);
        for part in [&size.to_le_bytes()[..], &sum.to_le_bytes(), &tail] {
            file.extend_from_slice(part);
        }
    }
    file.resize(SEGMENT_SIZE_BYTES, 0);
    let disk = SimulatedDisk::new(1);
    disk.put(FIRST_SEGMENT, &file);
    judge(&disk);
}

/// A closed journal of three segments. The salts come from the seed: it is made of the input, so
/// that no input can contain checksums that fit.
fn good(seed: u64) -> (SimulatedDisk, Entries) {
    let disk = SimulatedDisk::new(seed);
    let (mut core, _, mut entries) = open(&disk).expect("an empty disk");
    for (index, size) in [10, 0, 300, 1500, 1500, 600, 200, 2100, 0, 1900, 40].iter().enumerate() {
        let entry = (index as u16, vec![index as u8 + 1; *size]);
        core.append(entry.0, &entry.1).expect("room");
        entries.push(entry);
        if index % 2 == 0 {
            core.write().expect("a healthy disk");
            core.sync().expect("a healthy disk");
        }
    }
    core.close().expect("a healthy disk");
    (disk, entries)
}

/// Mode 2: what is found is a prefix of what was written.
///
/// ```text
/// one change: | what u8 | offset u16 | value u8 |
/// ```
fn changed(rest: &[u8]) {
    let seed = rest.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let (disk, entries) = good(seed);
    let mut files = contents(&disk);
    for change in rest.chunks_exact(4) {
        let (what, value) = (change[0], change[3]);
        let file = usize::from(what >> 4) % files.len().max(1);
        let Some((_, bytes)) = files.get_mut(file).filter(|(_, bytes)| !bytes.is_empty()) else {
            continue;
        };
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % bytes.len();
        let end = (at + usize::from(value) * 8).min(bytes.len());
        match what & 15 {
            0..=4 => bytes[at] = value,
            5..=8 => bytes[at] ^= 1 << (value & 7),
            9 | 10 => bytes[at..end].fill(0),
            11 => {
                let piece = bytes[at..end].to_vec();
                let to = end.min(bytes.len() - piece.len());
                bytes[to..to + piece.len()].copy_from_slice(&piece);
            }
            12 => bytes.truncate(at),
            13 => bytes.push(value),
            14 => {
                files.remove(file);
            }
            _ => files[file].0.push_str(if value % 2 == 0 { ".old" } else { "x.log" }),
        }
    }
    let disk = SimulatedDisk::new(seed ^ 1);
    for (name, bytes) in &files {
        disk.put(name, bytes);
    }
    if let Some(found) = judge(&disk) {
        assert!(entries.starts_with(&found), "{} entries were never written", found.len());
    }
}

/// Mode 3: what was made durable is found after every crash, and no crash is taken for damage.
fn lived(rest: &[u8]) {
    let mut disk = SimulatedDisk::new(3);
    let (mut core, _, mut appended) = open(&disk).expect("an empty disk");
    let mut durable = 0;
    for step in rest.chunks_exact(2).take(64) {
        let (what, value) = (step[0], step[1]);
        match what % 8 {
            0..=2 => {
                let entry = (u16::from(value), vec![value; usize::from(value) * 10]);
                if core.append(entry.0, &entry.1).is_ok() {
                    appended.push(entry);
                }
            }
            3 => drop(core.write()),
            4 => drop(core.write().and_then(|()| core.sync())),
            5 => disk.cut_power_after(u64::from(value % 32)),
            6 => disk.fail_sync(u64::from(value % 4) + 1),
            _ => {
                durable = durable.max(core.durable_sequence());
                disk = if value < 64 {
                    disk.after_process_death()
                } else {
                    disk.crash(u64::from(value))
                };
                // A sync that was told to fail may be one of the opening; it fails only once.
                let opened = open(&disk).or_else(|error| {
                    assert!(!error.is_damaged() && !error.is_foreign(), "no damage: {error}");
                    open(&disk)
                });
                let (opened, _, found) = opened.expect("a crash is no damage");
                assert!(found.len() as u64 >= durable, "durable entries are there");
                assert!(appended.starts_with(&found), "nothing else is there");
                durable = found.len() as u64;
                (core, appended) = (opened, found);
            }
        }
        durable = durable.max(core.durable_sequence());
    }
}
