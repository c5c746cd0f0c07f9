//! Hostile and damaged files: an error with its place or a torn tail; never a panic, never other
//! data.

mod support;

use std::sync::Arc;
use support::{Entries, last_segment, open, small_options};
use whered_store::{JournalCore, SimulatedDisk, StoreError, Wanted};

/// A cleanly closed journal of two segments.
fn two_segments() -> (SimulatedDisk, Entries) {
    let disk = SimulatedDisk::new(5);
    let (mut core, _, _) = open(&disk).expect("the disk is healthy");
    let mut entries = Entries::new();
    for (index, size) in [10, 0, 300, 1500, 1500, 600, 200, 0, 40].into_iter().enumerate() {
        let payload = vec![index as u8 + 1; size];
        core.append(index as u16, &payload).expect("the disk is healthy");
        entries.push((index as u16, payload));
        if index % 2 == 0 {
            core.write().expect("the disk is healthy");
            core.sync().expect("the disk is healthy");
        }
    }
    core.close().expect("the disk is healthy");
    assert_eq!(disk.names().len(), 2, "{:?}", disk.names());
    (disk, entries)
}

fn contents(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    disk.names()
        .into_iter()
        .map(|name| (name.clone(), disk.read(&name).expect("the disk is healthy")))
        .collect()
}

fn disk_of(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(6);
    for (name, bytes) in files {
        disk.put(name, bytes);
    }
    disk
}

/// Opens a changed journal: either an error with its place and nothing touched, or all entries.
/// Returns whether it was an error.
fn judge(files: &[(String, Vec<u8>)], entries: &Entries, what: &str) -> Option<StoreError> {
    let disk = disk_of(files);
    match open(&disk) {
        Ok((_, _, found)) => {
            assert!(found == *entries, "{what}: {} entries were found", found.len());
            None
        }
        Err(error) => {
            let place = error.file().zip(error.offset_bytes());
            let (file, offset) = place.unwrap_or_else(|| panic!("{what}: no place in: {error}"));
            assert!(error.to_string().starts_with(&format!("{file} at byte {offset}: ")));
            assert!(contents(&disk) == files, "{what}: a refusal touches nothing");
            Some(error)
        }
    }
}

#[test]
fn every_changed_byte_is_an_error_or_harmless() {
    let (disk, entries) = two_segments();
    let original = contents(&disk);
    for (file, (name, bytes)) in original.iter().enumerate() {
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 64;
        let mut errors = 0;
        // Beyond the header's used bytes nothing is read up to the first frame.
        for offset in (0..48).chain(4080..used.min(bytes.len())).chain([bytes.len() - 1]) {
            for changed in [bytes[offset] ^ 0xff, bytes[offset] ^ 1, 0] {
                if changed == bytes[offset] {
                    continue;
                }
                let mut files = original.clone();
                files[file].1[offset] = changed;
                let error = judge(&files, &entries, &format!("byte {offset} of {name}"));
                errors += usize::from(error.is_some());
                // All frames but the closing mark have a witness.
                let covered = 4096..used - 64 - 26;
                assert!(error.is_some() || !covered.contains(&offset), "byte {offset} of {name}");
            }
        }
        assert!(errors > 1000);
    }
}

#[test]
fn every_cut_file_is_an_error() {
    let (disk, entries) = two_segments();
    let original = contents(&disk);
    for (file, (name, bytes)) in original.iter().enumerate() {
        for length in (0..bytes.len()).rev() {
            let mut files = original.clone();
            files[file].1.truncate(length);
            let error = judge(&files, &entries, &format!("{name} cut to {length}"));
            let error = error.unwrap_or_else(|| panic!("{name} cut to {length} was opened"));
            assert!(error.is_damaged() || error.is_foreign(), "{error}");
        }
    }
}

/// A stretch that swallows entries together with the mark that vouches for them cannot be told
/// from a crash; the entries before it are then all there is.
#[test]
fn every_zeroed_stretch_that_leaves_the_last_mark_is_an_error_or_harmless() {
    let (disk, entries) = two_segments();
    let original = contents(&disk);
    for (file, (name, bytes)) in original.iter().enumerate() {
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        for start in 4096..bytes.len() {
            for length in [8, 18, 64, 512] {
                let mut files = original.clone();
                let end = (start + length).min(bytes.len());
                files[file].1[start..end].fill(0);
                let takes_last_mark = file + 1 == original.len() && end + 32 > used;
                if takes_last_mark {
                    if let Ok((_, _, found)) = open(&disk_of(&files)) {
                        assert!(found == entries[..found.len()]);
                    }
                } else {
                    judge(&files, &entries, &format!("{length} zeros from {start} in {name}"));
                }
            }
        }
    }
}

#[test]
fn a_tail_that_nobody_vouches_for_is_cut_and_reported_once() {
    let disk = SimulatedDisk::new(5);
    let (mut core, _, _) = open(&disk).unwrap();
    for payload in [b"first", b"other"] {
        core.append(1, payload).unwrap();
        core.write().unwrap();
        core.sync().unwrap();
    }
    drop(core);
    let name = last_segment(&disk);
    let end = disk.read(&name).unwrap().iter().rposition(|&byte| byte != 0).unwrap();
    assert!(disk.flip_bit(&name, end, 1));
    let (core, report, entries) = open(&disk).unwrap();
    assert_eq!(entries, [(1, b"first".to_vec())]);
    let tail = report.torn_tail.unwrap();
    assert_eq!(tail.file, format!("simulated/{name}"));
    assert_eq!(tail.offset_bytes + tail.cut_bytes, end as u64 + 1);
    drop(core);
    let (mut core, report, _) = open(&disk).unwrap();
    assert_eq!(report.torn_tail, None);
    assert_eq!(core.append(1, b"again").unwrap(), 2);
    core.close().unwrap();
    assert_eq!(open(&disk).unwrap().2, [(1, b"first".to_vec()), (1, b"again".to_vec())]);
}

#[test]
fn a_missing_segment_is_named() {
    let disk = SimulatedDisk::new(5);
    let (mut core, _, _) = open(&disk).unwrap();
    for _ in 0..6 {
        core.append(1, &[1; 3000]).unwrap();
        core.write().unwrap();
    }
    core.close().unwrap();
    let files = contents(&disk);
    assert!(files.len() > 3);
    let mut without_middle = files.clone();
    without_middle.remove(2);
    let error = judge(&without_middle, &Entries::new(), "middle").unwrap();
    assert!(error.is_damaged() && error.to_string().contains("missing"), "{error}");
    let error = judge(&files[1..], &Entries::new(), "first").unwrap();
    assert!(error.is_damaged() && error.to_string().contains("missing"), "{error}");
}

#[test]
fn files_of_others_and_of_the_future_are_refused() {
    let (disk, entries) = two_segments();
    let original = contents(&disk);
    let mut foreign = original.clone();
    foreign[1].1 = b"SQLite format 3\0".repeat(512);
    assert!(judge(&foreign, &entries, "foreign").unwrap().is_foreign());
    let mut newer = original.clone();
    // One that is newer has its own number in its checksum; else the number was changed.
    newer[1].1[8] = 3;
    assert!(judge(&newer, &entries, "changed").unwrap().is_damaged());
    let header = &mut newer[1].1;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..40]);
    header[12..16].copy_from_slice(&sum.to_le_bytes());
    assert!(judge(&newer, &entries, "newer").unwrap().is_newer());
    let mut odd = original.clone();
    odd.push(("journal-12.log".to_owned(), vec![1; 20]));
    assert!(judge(&odd, &entries, "odd").unwrap().is_foreign());
    let mut renamed = original.clone();
    renamed[1].0 = "journal-00000000000000000077.log".to_owned();
    assert!(judge(&renamed, &entries, "renamed").unwrap().is_damaged());
    let mut beside = original.clone();
    beside.push(("notes.txt".to_owned(), b"mine".to_vec()));
    beside.push(("journal-spare-4.new".to_owned(), vec![0; 8192]));
    assert!(judge(&beside, &entries, "beside").is_none());
}

#[test]
fn a_mark_inside_a_payload_convinces_nobody() {
    // An entry contains a whole segment of another journal, closing mark and all.
    let (other, _) = two_segments();
    let inner = other.read(&last_segment(&other)).unwrap();
    let disk = SimulatedDisk::new(77);
    let (mut core, _, _) = open(&disk).unwrap();
    core.append(1, &inner).unwrap();
    core.write().unwrap();
    core.sync().unwrap();
    drop(core);
    let name = last_segment(&disk);
    assert!(disk.flip_bit(&name, 4096 + 30, 0));
    let (_, report, entries) = open(&disk).unwrap();
    assert!(report.torn_tail.is_some() && entries.is_empty());
}

#[test]
fn a_refusal_of_the_replay_names_the_entry() {
    let (disk, _) = two_segments();
    let result = JournalCore::open(Arc::new(disk), &small_options(), Wanted::all(), &mut |entry| {
        if entry.sequence == 3 { Err("no such kind".to_owned()) } else { Ok(()) }
    });
    let error = result.err().unwrap();
    assert!(
        error.is_refused() && error.to_string().ends_with(": entry 3: no such kind"),
        "{error}"
    );
}
