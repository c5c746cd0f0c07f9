//! Snapshots as their callers see them, on healthy, damaged and hostile files.

mod support;

use std::sync::Arc;

use whered_store::{
    DirectoryStorage, SimulatedDisk, SnapshotReader, SnapshotWriter, Snapshots, Storage, StoreError,
};

type Blocks = Vec<(u16, Vec<u8>)>;

fn blocks() -> Blocks {
    let sizes = [(3, 100), (3, 0), (9, 64), (0, 1), (65535, 333)];
    sizes
        .iter()
        .map(|&(kind, size)| (kind, (0..size).map(|i| (i * 7) as u8 | 1).collect()))
        .collect()
}

fn write(storage: &Arc<dyn Storage>, start: u64, blocks: &Blocks) {
    let mut writer = SnapshotWriter::create(Arc::clone(storage), start).expect("a healthy disk");
    for (kind, bytes) in blocks {
        let pieces: Vec<&[u8]> = bytes.chunks(17).collect();
        writer.write_block(*kind, &pieces).expect("a healthy disk");
    }
    writer.finish(start + 5).expect("a healthy disk");
}

/// The newest snapshot's blocks, all checked.
fn read(storage: &dyn Storage) -> Result<Blocks, StoreError> {
    let found = Snapshots::find(storage)?;
    if let Some(bad) = found.bad.first() {
        return Err(bad.error.clone());
    }
    let reader = SnapshotReader::open(storage, &found.complete[0])?;
    let mut words = vec![u64::MAX; 3];
    let read = |index: usize| {
        let block = reader.blocks()[index];
        let bytes = reader.read_block(index, &mut words)?.to_vec();
        let filled = words.iter().flat_map(|word| word.to_le_bytes());
        let expected = bytes.iter().copied().chain([0; 8]);
        assert!(filled.zip(expected).all(|(a, b)| a == b), "the last word ends in zeros");
        assert_eq!(block.offset_bytes % 64, 0);
        Ok((block.kind, bytes))
    };
    (0..reader.blocks().len()).map(read).collect()
}

fn contents(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let file = |name: String| (name.clone(), disk.read(&name).expect("it is listed"));
    disk.names().into_iter().map(file).collect()
}

fn of_files(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(6);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    disk
}

fn small() -> Vec<(String, Vec<u8>)> {
    let disk = SimulatedDisk::new(5);
    write(&(Arc::new(disk.clone()) as Arc<dyn Storage>), 7, &blocks());
    contents(&disk)
}

#[test]
fn blocks_come_back_from_memory_and_from_a_real_disk() {
    let path = std::env::temp_dir().join(format!("whered-store-snapshot-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    let mut blocks = blocks();
    // More than two strides of early writing, in more pieces than one call takes.
    blocks.extend((0..9).map(|kind| (kind, vec![kind as u8; 2 << 20])));
    for storage in [
        Arc::new(SimulatedDisk::new(1)) as Arc<dyn Storage>,
        Arc::new(DirectoryStorage::new(&path)),
    ] {
        write(&storage, 7, &blocks);
        assert_eq!(read(&*storage).unwrap(), blocks);
        let found = Snapshots::find(&*storage).unwrap();
        assert_eq!((found.complete[0].start_sequence, found.complete[0].end_sequence), (7, 12));
        assert!(found.leftovers.is_empty());
    }
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn several_threads_read_at_once() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
    let blocks: Blocks = (0..50).map(|kind| (kind, vec![kind as u8; 5000])).collect();
    write(&storage, 0, &blocks);
    let info = &Snapshots::find(&*storage).unwrap().complete[0];
    let reader = SnapshotReader::open(&*storage, info).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut words = Vec::new();
                for (index, (_, bytes)) in blocks.iter().enumerate() {
                    assert_eq!(reader.read_block(index, &mut words).unwrap(), bytes);
                }
            });
        }
    });
}

#[test]
fn every_changed_byte_is_an_error_with_its_place_or_harmless() {
    let original = small();
    let mut harmless = 0;
    for (file, (name, bytes)) in original.iter().enumerate() {
        for (offset, &byte) in bytes.iter().enumerate() {
            for changed in [byte ^ 0xff, byte ^ 1, 0] {
                let mut files = original.clone();
                files[file].1[offset] = changed;
                match read(&of_files(&files)) {
                    Ok(found) => {
                        assert_eq!(found, blocks());
                        harmless += usize::from(changed != byte);
                    }
                    Err(error) => {
                        let place = error.file().zip(error.offset_bytes()).unwrap();
                        assert!(place.0.ends_with(name.as_str()), "{error}");
                        assert!(place.1 <= offset as u64, "{error}");
                    }
                }
            }
        }
    }
    // Only what fills the space between payloads is nobody's.
    assert!(harmless < 3 * (32 + 4 * 64), "{harmless}");
}

#[test]
fn every_cut_file_and_every_longer_one_is_an_error() {
    let original = small();
    for (file, (name, bytes)) in original.iter().enumerate() {
        for length in (0..bytes.len()).chain([bytes.len() + 1, bytes.len() + 24, bytes.len() + 64])
        {
            let mut files = original.clone();
            files[file].1.resize(length, 0);
            let error = read(&of_files(&files)).expect_err("a cut file is noticed");
            assert!(error.is_damaged(), "{name} of {length}: {error}");
            assert!(error.file().is_some_and(|file| file.ends_with(name.as_str())), "{error}");
        }
        let without: Vec<_> = original.iter().filter(|(other, _)| other != name).cloned().collect();
        let found = Snapshots::find(&of_files(&without)).unwrap();
        assert!(found.complete.is_empty());
        if name.ends_with(".data") {
            assert!(found.bad[0].error.to_string().contains("missing"));
        } else {
            assert_eq!((found.bad.len(), found.leftovers.len()), (0, 1));
        }
    }
}

#[test]
fn damage_of_a_block_names_its_kind_and_place() {
    let disk = of_files(&small());
    let info = Snapshots::find(&disk).unwrap().complete.remove(0);
    let place = info.blocks[2].offset_bytes;
    assert!(disk.flip_bit("snapshot-00000000000000000007.data", place as usize + 5, 2));
    let error = read(&disk).err().unwrap();
    assert_eq!(error.offset_bytes(), Some(place));
    assert!(error.to_string().contains("block 2 of kind 9"), "{error}");
    // The other blocks are still there.
    let reader = SnapshotReader::open(&disk, &info).unwrap();
    assert_eq!(reader.read_block(4, &mut Vec::new()).unwrap(), blocks()[4].1);
}

#[test]
fn files_of_others_and_of_the_future_are_told_apart() {
    for file in 0..2 {
        let mut foreign = small();
        foreign[file].1 = b"SQLite format 3\0".repeat(64);
        assert!(read(&of_files(&foreign)).unwrap_err().is_foreign());
        let mut newer = small();
        // One that is newer has its own number in its checksum; else the number was changed.
        newer[file].1[8] = 2;
        assert!(read(&of_files(&newer)).unwrap_err().is_damaged());
        let summed = [32, newer[1].1.len()][file];
        let bytes = &mut newer[file].1;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..summed]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        assert!(read(&of_files(&newer)).unwrap_err().is_newer());
    }
    // Another snapshot's data under this one's name.
    let other = SimulatedDisk::new(77);
    write(&(Arc::new(other.clone()) as Arc<dyn Storage>), 7, &blocks());
    let mut mixed = small();
    mixed[0] = contents(&other).remove(0);
    assert!(read(&of_files(&mixed)).unwrap_err().to_string().contains("another snapshot"));
    let mut odd = small();
    odd.push(("snapshot-7.data".to_owned(), vec![1]));
    assert!(Snapshots::find(&of_files(&odd)).err().unwrap().is_foreign());
}

#[test]
fn an_unfinished_one_is_removed_and_a_second_at_the_same_place_refused() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::create(Arc::clone(&storage), 3).unwrap();
    writer.write_block(1, &[&[5; 4000]]).unwrap();
    assert!(writer.written_bytes() >= 4000);
    drop(writer);
    assert_eq!(disk.names(), Vec::<String>::new());
    write(&storage, 3, &blocks());
    let error = SnapshotWriter::create(Arc::clone(&storage), 3).err().unwrap();
    assert!(error.is_existing() && !error.is_damaged(), "{error}");
    assert_eq!(read(&*storage).unwrap(), blocks());
}

#[test]
fn two_generations_are_kept_and_leftovers_removed() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    assert_eq!(Snapshots::remove_old(&*storage, 2).unwrap(), None);
    write(&storage, 3, &blocks());
    assert_eq!(Snapshots::remove_old(&*storage, 2).unwrap(), None, "the journal is the other way");
    write(&storage, 8, &blocks());
    assert_eq!(Snapshots::remove_old(&*storage, 2).unwrap(), Some(3));
    for start in [11, 20] {
        write(&storage, start, &blocks());
    }
    assert_eq!(Snapshots::remove_old(&*storage, 2).unwrap(), Some(11));
    disk.put("snapshot-00000000000000000030.data", b"cut short");
    disk.put("snapshot-00000000000000000030.manifest.new", b"cut short");
    let found = Snapshots::find(&*storage).unwrap();
    let starts: Vec<u64> = found.complete.iter().map(|info| info.start_sequence).collect();
    assert_eq!((starts, found.leftovers.len()), (vec![20, 11], 2));
    Snapshots::remove_leftovers(&*storage, &found).unwrap();
    assert_eq!(disk.names().len(), 4);
}
