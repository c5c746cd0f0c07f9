//! Files that former versions wrote still open. `tests/data/v1` was written by the ignored test
//! below; a new format version gets a folder of its own, and the old one stays.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::keeper::{Keeper, Map};
use whered_store::{SimulatedDisk, Storage};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1")
}

/// What the files contain: operation `n` sets key `n % 50` to `n + 1`, from 1 to 67.
fn expected() -> Map {
    (1..=67).map(|number| (number % 50, number + 1)).collect()
}

fn sample() -> SimulatedDisk {
    let disk = SimulatedDisk::new(20_261_121);
    let mut keeper = Keeper::open(&disk).expect("the disk is healthy");
    for number in 1..=60 {
        keeper.put((number % 50, number + 1), 0).expect("the disk is healthy");
    }
    keeper.snapshot(|step| ((61 + step) % 50, 62 + step));
    for number in 66..=67 {
        keeper.put((number % 50, number + 1), 0).expect("the disk is healthy");
    }
    keeper.core.close().expect("the disk is healthy");
    disk
}

#[test]
#[ignore = "writes tests/data/v1 anew; only for a format that was never released"]
fn write_the_files() {
    let disk = sample();
    std::fs::create_dir_all(folder()).unwrap();
    for name in disk.names() {
        std::fs::write(folder().join(&name), disk.read(&name).unwrap()).unwrap();
    }
}

#[test]
fn version_1_opens_with_its_snapshot_and_without() {
    for age in [0, 1] {
        let disk = SimulatedDisk::new(1);
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        for file in std::fs::read_dir(folder()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            disk.put(name, &std::fs::read(&path).unwrap());
        }
        assert_eq!(storage.list().unwrap().len(), 3);
        let keeper = Keeper::open_from(&disk, age).unwrap();
        assert_eq!((keeper.last_sequence, keeper.map), (67, expected()));
    }
}

#[test]
fn what_is_written_today_is_version_1_byte_by_byte() {
    let disk = sample();
    for name in disk.names() {
        let kept = std::fs::read(folder().join(&name)).unwrap();
        assert!(disk.read(&name).unwrap() == kept, "{name} is written otherwise than in version 1");
    }
}
