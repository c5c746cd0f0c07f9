//! The real file system keeps what the trait promises.

use super::*;
use crate::storage::BLOCK_BYTES;

fn storage(name: &str) -> (PathBuf, DirectoryStorage) {
    let path = std::env::temp_dir().join(format!("whered-store-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    (path.clone(), DirectoryStorage::new(&path))
}

#[test]
fn a_created_file_is_allocated_and_zero() {
    use std::os::unix::fs::MetadataExt;
    let (path, storage) = storage("allocated");
    let file = storage.create("a", 1 << 20).unwrap();
    assert_eq!(file.size_bytes().unwrap(), 1 << 20);
    assert!(fs::metadata(path.join("a")).unwrap().blocks() * 512 >= 1 << 20);
    let mut bytes = [1_u8; 16];
    file.read_at((1 << 20) - 16, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 16]);
    assert_eq!(file.read_at(1 << 20, &mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_creation_that_finds_no_room_leaves_nothing_behind() {
    let (path, storage) = storage("no-room");
    // No file system here has eight exabytes.
    assert!(storage.create("a", i64::MAX as u64).is_err());
    assert!(storage.create("a", u64::MAX).is_err());
    assert_eq!(storage.list().unwrap(), Vec::<String>::new());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn written_zeros_are_as_good_as_allocated_ones() {
    let (path, _) = storage("zeros");
    let file = File::create_new(path.join("a")).unwrap();
    write_zeros(&file, (1 << 20) + 5).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 5);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let (path, storage) = storage("names");
    storage.create("a", 1).unwrap();
    storage.rename("a", "b").unwrap();
    storage.sync_directory().unwrap();
    assert_eq!(storage.list().unwrap(), ["b"]);
    storage.remove("b").unwrap();
    assert_eq!(storage.list().unwrap(), Vec::<String>::new());
    assert!(storage.open("b", false).is_err());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_file_grows_by_gathered_pieces_and_is_linked() {
    let (path, storage) = storage("grows");
    let (other_path, other) = self::storage("grows-other");
    let file = storage.create("a", 0).unwrap();
    // More pieces than one system call takes, some of them empty.
    let pieces: Vec<Vec<u8>> = (0..3000).map(|index| vec![index as u8; index % 7]).collect();
    let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    file.write_gathered_at(64, &slices).unwrap();
    let mut found = vec![0; file.size_bytes().unwrap() as usize];
    file.read_at(0, &mut found).unwrap();
    assert_eq!(found[64..], pieces.concat());
    assert_eq!(found[..64], [0; 64]);
    for wait in [false, true] {
        file.write_back(0..found.len() as u64, wait).unwrap();
        file.write_back(5..5, wait).unwrap();
    }
    storage.link("a", &other, "b").unwrap();
    assert_eq!(storage.link("a", &other, "b").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(other_path.join("b")).unwrap(), found);
    fs::remove_dir_all(path).unwrap();
    fs::remove_dir_all(other_path).unwrap();
}

#[test]
fn whole_blocks_are_there_for_every_reader_from_wherever_in_memory_they_come() {
    let (path, storage) = storage("blocks");
    let file = storage.create("a", 8 * BLOCK_BYTES as u64).unwrap();
    let memory: Vec<u8> = (0..4 * BLOCK_BYTES).map(|index| (index / 7) as u8).collect();
    let aligned = memory.as_ptr().align_offset(BLOCK_BYTES);
    let mut expected = vec![0; 8 * BLOCK_BYTES];
    // Where blocks must begin, and where the system refuses to take them from; the cache knows all
    // of it.
    for (at, from) in [(0, aligned), (1, aligned + 1), (2, aligned), (5, aligned + 512)] {
        let blocks = &memory[from..from + 2 * BLOCK_BYTES];
        file.write_blocks_at((at * BLOCK_BYTES) as u64, blocks).unwrap();
        expected[at * BLOCK_BYTES..][..blocks.len()].copy_from_slice(blocks);
        let mut found = vec![0; expected.len()];
        file.will_read(0..found.len() as u64 + 1);
        file.read_at(0, &mut found).unwrap();
        assert!(found == expected, "blocks at {at}");
        // A part of a block goes through the cache again.
        file.write_at((at * BLOCK_BYTES) as u64 + 9, b"part").unwrap();
        expected[at * BLOCK_BYTES + 9..][..4].copy_from_slice(b"part");
    }
    file.sync_data().unwrap();
    #[cfg(target_os = "linux")]
    past_the_cache(&path.join("a"), &memory[aligned..][..2 * BLOCK_BYTES]);
    fs::remove_dir_all(path).unwrap();
}

/// Where the file system can, all of the blocks are written at once.
#[cfg(target_os = "linux")]
fn past_the_cache(path: &Path, blocks: &[u8]) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    match linux::open_past_cache(&file) {
        Ok(direct) => {
            let written = linux::write_blocks_at(&direct, 0, blocks).unwrap();
            assert_eq!(written, blocks.len(), "the file system takes whole blocks");
            assert_eq!(linux::write_blocks_at(&direct, 0, &blocks[1..]).unwrap(), 0);
        }
        Err(error) => eprintln!("skipped: no O_DIRECT in {}: {error}", path.display()),
    }
}
