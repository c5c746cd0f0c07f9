//! Cold files come back, and no change of one goes unnoticed.

use std::sync::Arc;

use super::*;
use crate::storage::SimulatedDisk;

fn written(disk: &SimulatedDisk) -> ColdReference {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut writer = ColdWriter::create(storage, "feed").unwrap();
    for n in 0..5_u16 {
        let bytes = vec![n as u8 + 1; 700 * usize::from(n)];
        writer.write_block(n, n + 10, &bytes).unwrap();
    }
    writer.finish().unwrap().reference()
}

#[test]
fn blocks_come_back_with_their_kinds_and_tags() {
    let disk = SimulatedDisk::new(1);
    let reference = written(&disk);
    let file = ColdFile::open(&disk, &reference).unwrap();
    let mut words = Vec::new();
    for (n, block) in file.blocks().iter().enumerate() {
        assert_eq!((block.kind, block.tag), (n as u16, n as u16 + 10));
        assert_eq!(file.read_block(n, &mut words).unwrap(), vec![n as u8 + 1; 700 * n]);
    }
    assert_eq!(file.reference(), reference);
    let bytes = [&reference.encode()[..], b"rest"].concat();
    assert_eq!(ColdReference::decode(&bytes), Ok((reference.clone(), &b"rest"[..])));
    for end in 0..bytes.len() - 4 {
        ColdReference::decode(&bytes[..end]).unwrap_err();
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let disk = SimulatedDisk::new(2);
    let reference = written(&disk);
    let file = disk.open(&reference.name, false).unwrap();
    let mut bytes = vec![0; file.size_bytes().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let directory = ColdFile::open(&disk, &reference).unwrap();
    let directory_at = directory.size_bytes() - 24 * directory.blocks().len() as u64;
    let covers = |at: u64| {
        let of_block = |block: &ColdBlock| {
            (block.offset_bytes..block.offset_bytes + block.length_bytes).contains(&at)
        };
        at < 44 || at >= directory_at || directory.blocks().iter().any(of_block)
    };
    for at in (0..bytes.len() as u64).filter(|at| covers(*at)) {
        disk.flip_bit(&reference.name, at as usize, (at % 8) as u8);
        let read = ColdFile::open(&disk, &reference).and_then(|file| file.verify());
        let error = read.unwrap_err();
        assert!(error.to_string().contains(&reference.name), "{error}");
        disk.flip_bit(&reference.name, at as usize, (at % 8) as u8);
    }
    ColdFile::open(&disk, &reference).and_then(|file| file.verify()).unwrap();
}

#[test]
fn a_file_of_another_size_or_name_or_none_is_refused() {
    let disk = SimulatedDisk::new(3);
    let (one, other) = (written(&disk), written(&disk));
    let swapped = ColdReference { name: other.name.clone(), ..one.clone() };
    assert!(ColdFile::open(&disk, &swapped).err().unwrap().is_damaged());
    let longer = ColdReference { size_bytes: one.size_bytes + 1, ..one.clone() };
    assert!(ColdFile::open(&disk, &longer).err().unwrap().is_damaged());
    assert_eq!(remove_cold(&disk, &|name| name == other.name).unwrap(), 1);
    assert!(ColdFile::open(&disk, &one).err().unwrap().is_damaged());
    ColdFile::open(&disk, &other).unwrap();
}

#[test]
fn a_writer_that_is_dropped_or_has_no_room_leaves_nothing() {
    let disk = SimulatedDisk::new(4);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    drop(ColdWriter::create(Arc::clone(&storage), "x").unwrap());
    assert_eq!(disk.names(), [""; 0]);
    assert!(is_cold("cold-a-b-0123456789abcdef.data"));
    for other in ["cold-a.data", "cold-a-0123456789ABCDEF.data", "journal-1.log", "cold-"] {
        assert!(!is_cold(other), "{other}");
    }
}
