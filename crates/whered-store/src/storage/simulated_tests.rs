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
