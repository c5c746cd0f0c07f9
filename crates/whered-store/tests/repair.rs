//! Damaged directories that were repaired open, with a state that really was; copies are whole.

mod support;

use std::sync::Arc;

use support::Random;
use support::keeper::{KEYS, Keeper, Map, Operation, apply};
use whered_store::{
    DirectoryStorage, Repaired, SimulatedDisk, Snapshots, Storage, StoreError, backup, repair,
    restore, verify,
};

/// A closed directory with two snapshots, several segments, and all operations in order.
fn lived(seed: u64) -> (SimulatedDisk, Vec<Operation>) {
    let disk = SimulatedDisk::new(seed);
    let mut random = Random(seed);
    let mut operations = Vec::new();
    let mut keeper = Keeper::open(&disk).expect("the disk is healthy");
    let mut next = 0;
    let mut operation = |random: &mut Random| {
        next += 1;
        (random.below(KEYS), if random.one_in(4) { 0 } else { next })
    };
    for _ in 0..3 {
        for _ in 0..20 + random.below(30) {
            let new = operation(&mut random);
            operations.push(new);
            keeper.put(new, random.below(700) as usize).expect("the disk is healthy");
            if random.one_in(3) {
                keeper.sync().expect("the disk is healthy");
            }
        }
        keeper.snapshot(|_| {
            let new = operation(&mut random);
            operations.push(new);
            new
        });
    }
    for _ in 0..20 {
        let new = operation(&mut random);
        operations.push(new);
        keeper.put(new, 300).expect("the disk is healthy");
        keeper.sync().expect("the disk is healthy");
    }
    keeper.core.close().expect("the disk is healthy");
    (disk, operations)
}

fn state_after(operations: &[Operation], sequence: u64) -> Map {
    let mut map = Map::new();
    operations[..sequence as usize].iter().for_each(|&operation| apply(&mut map, operation));
    map
}

fn repaired(disk: &SimulatedDisk) -> Result<(Repaired, Vec<String>), StoreError> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut lines = Vec::new();
    let repaired = repair(&storage, &mut |line| lines.push(line.to_owned()))?;
    Ok((repaired, lines))
}

#[test]
fn a_healthy_directory_is_left_as_it_is() {
    for seed in 0..20 {
        let (disk, operations) = lived(seed);
        let before: Vec<_> = disk.names().iter().map(|name| disk.read(name)).collect();
        let (done, lines) = repaired(&disk).unwrap();
        assert!(!done.changed && done.last_sequence == operations.len() as u64, "{lines:?}");
        assert!(before == disk.names().iter().map(|name| disk.read(name)).collect::<Vec<_>>());
    }
    let empty = SimulatedDisk::new(1);
    let (done, _) = repaired(&empty).unwrap();
    assert_eq!(done, Repaired { snapshot: None, last_sequence: 0, changed: false });
}

/// Damages some files at random. Returns whether that must leave a trace: files that are gone, and
/// ends that are zeros, may look like a journal that ended earlier.
fn damage(disk: &SimulatedDisk, random: &mut Random) -> bool {
    let count = 1 + random.below(3);
    let mut leaves_trace = count == 1;
    for _ in 0..count {
        let names = disk.names();
        let name = &names[random.below(names.len() as u64) as usize];
        let mut bytes = disk.read(name).expect("it is listed");
        if bytes.is_empty() {
            continue;
        }
        let offset = random.below(bytes.len() as u64) as usize;
        match random.below(8) {
            0 => bytes.truncate(offset),
            1 => {
                leaves_trace = false;
                bytes[offset..].fill(0);
            }
            2 => {
                leaves_trace = false;
                disk.remove(name).expect("it is listed");
                disk.sync_directory().expect("the disk is healthy");
                continue;
            }
            4 => bytes[..offset.min(64)].fill(0x55),
            _ => bytes[offset] ^= 1 << random.below(8),
        }
        disk.put(name, &bytes);
    }
    leaves_trace
}

/// The version field alone makes a file "newer", and those are not touched.
fn is_newer(result: &Result<(Repaired, Vec<String>), StoreError>) -> bool {
    result.as_ref().is_err_and(StoreError::is_newer)
}

#[test]
fn whatever_was_damaged_a_repaired_directory_opens_with_a_state_that_was() {
    let (mut changed, mut whole, mut dropped) = (0, 0, 0);
    for seed in 0..1500 {
        let (disk, operations) = lived(seed % 50);
        let disk = disk.crash(seed);
        let mut random = Random(seed);
        let leaves_trace = damage(&disk, &mut random);
        let before = disk.names().len();
        let result = repaired(&disk);
        if is_newer(&result) {
            assert_eq!(disk.names().len(), before, "nothing is touched");
            continue;
        }
        let (done, lines) = result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut keeper =
            Keeper::open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}: {lines:?}"));
        assert_eq!(keeper.last_sequence, done.last_sequence, "seed {seed}");
        assert!(done.last_sequence <= operations.len() as u64);
        changed += u64::from(done.changed);
        let knows_loss = lines
            .iter()
            .any(|line| line.contains("lost: block") || line.contains("not of one moment"));
        dropped += u64::from(knows_loss);
        if !knows_loss {
            let expected = state_after(&operations, done.last_sequence);
            assert!(keeper.map == expected, "seed {seed}: {lines:?}");
        }
        if done.last_sequence == operations.len() as u64 {
            whole += 1;
        } else if leaves_trace {
            assert!(lines.iter().any(|line| line.contains("lost")), "seed {seed}: {lines:?}");
        }
        // It goes on from there.
        keeper.put((1, 7), 0).unwrap();
        keeper.snapshot(|step| (2, step + 1));
        keeper.core.close().unwrap();
        let again = Keeper::open(&disk.crash(seed)).unwrap();
        assert_eq!(again.last_sequence, done.last_sequence + 6, "seed {seed}");
        assert!(!repaired(&disk).unwrap().0.changed || knows_loss, "seed {seed}");
    }
    assert!(changed > 500 && whole > 300 && dropped > 5, "{changed} {whole} {dropped}");
}

#[test]
fn a_damaged_block_costs_nothing_while_the_older_snapshot_leads_to_the_same_end() {
    let (disk, operations) = lived(3);
    let info = Snapshots::find(&disk).unwrap().complete.remove(0);
    let name = format!("snapshot-{:020}.data", info.start_sequence);
    assert!(disk.flip_bit(&name, info.blocks[1].offset_bytes as usize, 0));
    assert!(Keeper::open(&disk).err().unwrap().is_damaged());
    let (done, lines) = repaired(&disk).unwrap();
    assert!(done.snapshot.unwrap() < info.start_sequence);
    assert_eq!(done.last_sequence, operations.len() as u64);
    assert!(lines.iter().any(|line| line.contains("block 1 of kind 1")), "{lines:?}");
    assert!(disk.names().contains(&format!("{name}.damaged")), "{:?}", disk.names());
    let keeper = Keeper::open(&disk).unwrap();
    assert!(keeper.map == state_after(&operations, done.last_sequence));
}

#[test]
fn power_cuts_during_a_repair_leave_what_can_be_repaired() {
    for seed in 0..400 {
        let (disk, operations) = lived(seed % 20);
        let disk = disk.crash(seed);
        let mut random = Random(seed);
        // One damage in a segment: the state is one that was, whenever the repair ends.
        let names: Vec<String> =
            disk.names().into_iter().filter(|name| name.ends_with(".log")).collect();
        let name = &names[random.below(names.len() as u64) as usize];
        assert!(disk.flip_bit(name, 4096 + random.below(2000) as usize, 1));
        let mut disk = disk;
        for _ in 0..3 {
            disk.cut_power_after(random.below(12));
            let _ = repaired(&disk);
            disk = disk.crash(random.next_u64());
        }
        let (done, _) = repaired(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let keeper = Keeper::open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(keeper.map == state_after(&operations, done.last_sequence), "seed {seed}");
    }
}

#[test]
fn a_backup_of_a_live_directory_is_whole_and_stays_as_it_was() {
    for seed in 0..30 {
        let (disk, _) = lived(seed);
        let mut keeper = Keeper::open(&disk).unwrap();
        keeper.core.roll().unwrap();
        let (last, map) = (keeper.last_sequence, keeper.map.clone());
        // On the same disk files are linked, on another one copied.
        let beside = disk.directory("backup");
        let elsewhere = SimulatedDisk::new(seed);
        for (target, copies) in [(&beside, false), (&elsewhere, true)] {
            let storage: Arc<dyn Storage> = Arc::new(target.clone());
            let contents = backup(&disk, &storage).unwrap();
            assert_eq!((contents.last_sequence, contents.copied_bytes > 0), (last, copies));
            assert!(backup(&disk, &storage).unwrap_err().is_existing());
            assert_eq!(verify(target).unwrap().last_sequence, last);
        }
        // Both go on, and neither sees the other's changes.
        for number in 0..30 {
            keeper.put((number, 1000 + number), 500).unwrap();
        }
        keeper.snapshot(|step| (step, 5));
        keeper.core.close().unwrap();
        let backed_up = disk.crash(seed).directory("backup");
        let mut copy = Keeper::open(&backed_up).unwrap();
        assert!((copy.last_sequence, &copy.map) == (last, &map));
        for number in 0..30 {
            copy.put((number, 2000 + number), 500).unwrap();
        }
        copy.snapshot(|step| (step, 6));
        copy.core.close().unwrap();
        assert!(Keeper::open(&disk).unwrap().map == keeper.map);
        assert!(Keeper::open(&elsewhere).unwrap().map == map);
        // And back from it.
        let target = SimulatedDisk::new(9);
        restore(&backed_up, &target).unwrap();
        assert!(Keeper::open(&target.crash(1)).unwrap().map == copy.map);
        assert!(restore(&backed_up, &target).unwrap_err().is_existing());
    }
}

#[test]
fn a_backup_that_did_not_end_does_not_open() {
    let (disk, operations) = lived(1);
    let mut keeper = Keeper::open(&disk).unwrap();
    keeper.core.roll().unwrap();
    let mut refused = 0;
    for fuse in 0..200 {
        let target = SimulatedDisk::new(fuse);
        target.cut_power_after(fuse);
        let storage: Arc<dyn Storage> = Arc::new(target.clone());
        let done = backup(&disk, &storage).is_ok();
        let found = target.crash(fuse);
        match Keeper::open(&found) {
            Ok(opened) if done => assert_eq!(opened.last_sequence, operations.len() as u64),
            // Nothing was made yet, or all of it and only the last sync was missing.
            Ok(opened) => assert!([0, operations.len() as u64].contains(&opened.last_sequence)),
            Err(error) => {
                refused += 1;
                assert!(!done && error.to_string().contains("did not end"), "{error}");
            }
        }
        if done {
            assert!(refused > 5);
            return;
        }
    }
    panic!("the backup never ended");
}

#[test]
fn damage_is_not_restored() {
    let (disk, _) = lived(2);
    for name in disk.names() {
        let source = disk.crash(1);
        assert!(source.flip_bit(&name, 70, 1) || source.flip_bit(&name, 20, 1));
        let segment_is_old = name.ends_with(".log") && verify(&source).is_ok();
        let target = SimulatedDisk::new(1);
        let result = restore(&source, &target);
        if let Err(error) = result {
            assert!(error.is_damaged() && target.names().is_empty(), "{error}");
        } else {
            let newest = Snapshots::find(&source).unwrap().complete[0].start_sequence;
            assert!(segment_is_old || !name.contains(&format!("{newest:020}")), "{name}");
            Keeper::open(&target).unwrap();
        }
    }
}

#[test]
fn a_backup_on_a_real_disk_shares_its_files() {
    use std::os::unix::fs::MetadataExt;
    let path = std::env::temp_dir().join(format!("whered-store-backup-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let folders = ["live", "backup", "back"].map(|name| path.join(name));
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    let [live, backed_up, back] = folders.each_ref().map(DirectoryStorage::new);
    let (disk, operations) = lived(4);
    for name in disk.names() {
        std::fs::write(folders[0].join(&name), disk.read(&name).unwrap()).unwrap();
    }
    let storage: Arc<dyn Storage> = Arc::new(live.clone());
    let options = support::small_options();
    let (journal, _) =
        whered_store::Journal::open(storage, options, newest(&live), &mut |_| Ok(())).unwrap();
    assert_eq!(journal.roll().unwrap(), operations.len() as u64 + 1);
    let storage: Arc<dyn Storage> = Arc::new(backed_up.clone());
    assert_eq!(backup(&live, &storage).unwrap().copied_bytes, 0);
    let data = backed_up.list().unwrap().into_iter().find(|name| name.ends_with(".data")).unwrap();
    let inode = |folder: &std::path::Path| std::fs::metadata(folder.join(&data)).unwrap().ino();
    assert_eq!(inode(&folders[0]), inode(&folders[1]));
    let contents = restore(&backed_up, &back).unwrap();
    assert_eq!(contents.last_sequence, operations.len() as u64);
    assert_ne!(inode(&folders[1]), inode(&folders[2]));
    journal.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

fn newest(storage: &dyn Storage) -> whered_store::Wanted {
    Snapshots::find(storage).expect("a healthy directory").complete[0].wanted()
}
