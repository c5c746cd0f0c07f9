//! Files that former versions wrote still open. The folders of `tests/data` were written by the
//! ignored test below; a new format version gets a folder of its own, and the old ones stay.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::keeper::{Keeper, Map};
use support::last_segment;
use whered_store::{SimulatedDisk, Storage};

/// The journal's format versions: a segment of new space, and one in the space of an older one.
const VERSIONS: [u8; 2] = [1, 2];

fn folder(version: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/v{version}"))
}

/// What the files contain: operation `n` sets key `n % 50` to `n + 1`, from 1 to the last.
fn expected(last: u64) -> Map {
    (1..=last).map(|number| (number % 50, number + 1)).collect()
}

/// Files of a version, and the last operation: in version 2 the last segment is in the space of one
/// that snapshots had made needless.
fn sample(version: u8) -> (SimulatedDisk, u64) {
    let disk = SimulatedDisk::new(20_261_121);
    let mut keeper = Keeper::open(&disk).expect("the disk is healthy");
    let put = |keeper: &mut Keeper, count: u64| {
        for _ in 0..count {
            let number = keeper.last_sequence + 1;
            keeper.put((number % 50, number + 1), 0).expect("the disk is healthy");
        }
    };
    loop {
        put(&mut keeper, 60);
        let number = keeper.last_sequence + 1;
        keeper.snapshot(|step| ((number + step) % 50, number + 1 + step));
        let segment = disk.read(&last_segment(&disk)).expect("there is a segment");
        if segment[8] == version {
            break;
        }
    }
    put(&mut keeper, 2);
    let last = keeper.last_sequence;
    keeper.core.close().expect("the disk is healthy");
    (disk, last)
}

#[test]
#[ignore = "writes tests/data anew; only for a format that was never released"]
fn write_the_files() {
    for version in VERSIONS {
        let (disk, _) = sample(version);
        std::fs::create_dir_all(folder(version)).unwrap();
        for name in disk.names() {
            std::fs::write(folder(version).join(&name), disk.read(&name).unwrap()).unwrap();
        }
    }
}

#[test]
fn every_version_opens_with_its_snapshots_and_without() {
    for (version, last, files) in [(1, 67, 3), (2, 262, 6)] {
        for age in [0, 1] {
            let disk = SimulatedDisk::new(1);
            let storage: Arc<dyn Storage> = Arc::new(disk.clone());
            for file in std::fs::read_dir(folder(version)).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                disk.put(name, &std::fs::read(&path).unwrap());
            }
            assert_eq!(storage.list().unwrap().len(), files);
            let keeper = Keeper::open_from(&disk, age).unwrap();
            assert_eq!((keeper.last_sequence, keeper.map), (last, expected(last)));
        }
    }
}

#[test]
fn what_is_written_today_is_as_kept_byte_by_byte() {
    for version in VERSIONS {
        let (disk, _) = sample(version);
        for name in disk.names() {
            let kept = std::fs::read(folder(version).join(&name)).unwrap();
            let is_same = disk.read(&name).unwrap() == kept;
            assert!(is_same, "{name} is written otherwise than in version {version}");
        }
    }
}
