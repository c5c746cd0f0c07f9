//! The simulated disk is as bad as it promises, and no worse.

use super::*;
use std::collections::BTreeSet;

#[test]
fn each_unsynced_sector_survives_or_not_by_itself() {
    let disk = SimulatedDisk::new(1);
    let file = disk.create("a", 1024).unwrap();
    file.sync_all().unwrap();
    disk.sync_directory().unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    let outcomes: BTreeSet<(u8, u8)> = (0..50)
        .map(|seed| {
            let bytes = disk.crash(seed).read("a").unwrap();
            assert!(
                bytes.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|&b| b == sector[0]))
            );
            (bytes[0], bytes[512])
        })
        .collect();
    assert_eq!(outcomes.len(), 4, "none, either, both");
    file.sync_data().unwrap();
    assert_eq!(disk.crash(3).read("a").unwrap(), [1; 1024]);
}

#[test]
fn an_unsynced_name_or_size_may_be_lost() {
    let disk = SimulatedDisk::new(1);
    disk.create("a", 100).unwrap();
    let sizes: BTreeSet<Option<usize>> =
        (0..50).map(|seed| disk.crash(seed).read("a").map(|bytes| bytes.len())).collect();
    assert!(sizes.contains(&None) && sizes.contains(&Some(100)) && sizes.len() > 3, "{sizes:?}");
}

#[test]
fn a_failed_sync_forgets_what_was_dirty() {
    let disk = SimulatedDisk::new(1);
    let file = disk.create("a", 512 * 64).unwrap();
    file.sync_all().unwrap();
    disk.sync_directory().unwrap();
    file.write_at(0, &[1; 512 * 64]).unwrap();
    disk.fail_sync(1);
    assert!(file.sync_data().is_err());
    assert!(file.sync_data().is_ok());
    let found = disk.crash(1).read("a").unwrap();
    assert!(found.contains(&0) && found.contains(&1));
}

#[test]
fn a_budget_refuses_and_a_power_cut_ends_everything() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(100));
    disk.create("a", 60).unwrap();
    let error = disk.create("b", 60).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    disk.remove("a").unwrap();
    let file = disk.create("b", 60).unwrap();
    disk.cut_power_after(1);
    file.write_at(0, b"x").unwrap();
    assert!(file.write_at(0, b"x").is_err());
    assert!(file.read_at(0, &mut [0]).is_err());
    assert!(disk.list().is_err());
}

#[test]
fn a_growing_file_meets_the_budget_and_a_failed_write_back_forgets() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity_bytes(Some(512 * 64));
    let file = disk.create("a", 0).unwrap();
    file.write_gathered_at(512, &[&[1; 512 * 32], &[], &[2; 512 * 30]]).unwrap();
    assert_eq!(file.size_bytes().unwrap(), 512 * 63);
    let error = file.write_at(512 * 63, &[3; 513]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    disk.sync_directory().unwrap();
    file.write_back(0..512 * 63, false).unwrap();
    disk.fail_sync(1);
    assert!(file.write_back(0..512 * 63, true).is_err());
    file.sync_all().unwrap();
    let found = disk.crash(1).read("a").unwrap();
    assert!(found[512..].contains(&0) && found.contains(&1));
}

#[test]
fn a_link_is_the_same_file_in_another_directory_and_certain_after_its_sync() {
    let disk = SimulatedDisk::new(1);
    let beside = disk.directory("beside");
    disk.create("a", 512).unwrap().sync_all().unwrap();
    disk.sync_directory().unwrap();
    disk.link("a", &beside, "b").unwrap();
    assert_eq!(disk.link("a", &beside, "b").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let elsewhere = SimulatedDisk::new(1);
    assert_eq!(disk.link("a", &elsewhere, "b").unwrap_err().kind(), io::ErrorKind::CrossesDevices);
    assert_eq!((disk.names(), beside.names()), (vec!["a".to_owned()], vec!["b".to_owned()]));
    beside.open("b", true).unwrap().write_at(0, b"x").unwrap();
    assert_eq!(disk.read("a").unwrap()[0], b'x');
    let found: BTreeSet<usize> =
        (0..30).map(|seed| disk.crash(seed).directory("beside").names().len()).collect();
    assert_eq!(found, BTreeSet::from([0, 1]));
    disk.sync_directory().unwrap();
    assert!((0..30).any(|seed| disk.crash(seed).directory("beside").names().is_empty()));
    beside.sync_directory().unwrap();
    assert!((0..30).all(|seed| disk.crash(seed).directory("beside").names() == ["b"]));
}
