//! A database answers the same wherever its bytes are: owned, borrowed, or asked of a reader.
//!
//! Sound and damaged bytes are put to every form, and answers and errors compared word for word. A
//! reader that fails in the middle gives errors with their place.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Random, maxmind_data};
use whered_mmdb::{
    Database, ErrorKind, FileTree, MmdbError, ReadAt, Resident, TreeShape, Value, Writer,
    WriterOptions,
};

/// A reader over memory that counts what it gives and may lose its end.
#[derive(Debug, Clone)]
struct Shelf {
    bytes: Arc<Vec<u8>>,
    given_bytes: Arc<AtomicU64>,
    readable_bytes: Arc<AtomicU64>,
}

impl Shelf {
    fn new(bytes: &[u8]) -> Shelf {
        Shelf {
            bytes: Arc::new(bytes.to_vec()),
            given_bytes: Arc::default(),
            readable_bytes: Arc::new(AtomicU64::new(bytes.len() as u64)),
        }
    }
}

impl ReadAt for Shelf {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        let end = offset_bytes + buffer.len() as u64;
        if end > self.readable_bytes.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.given_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        buffer.copy_from_slice(&self.bytes[offset_bytes as usize..end as usize]);
        Ok(())
    }
}

/// Everything that a database answers, as text.
fn answers(opened: Result<Database, MmdbError>, addresses: &[IpAddr]) -> Vec<String> {
    let database = match opened {
        Ok(database) => database,
        Err(error) => return vec![error.to_string()],
    };
    let mut lines = vec![format!("{:?} {}", database.metadata(), database.size_bytes())];
    let paths = ["map.list.1", "again.other", "names.en", "", "list.0"];
    for &address in addresses {
        let found = database.lookup(address);
        lines.push(format!("{found:?}"));
        let Some(id) = found.ok().and_then(|found| found.record) else {
            continue;
        };
        let mut json = Vec::new();
        lines.push(format!("{:?}", database.record(id)));
        lines.push(format!("{:?} {json:?}", database.write_record_json(id, &mut json)));
        for path in paths {
            let path = path.parse().unwrap();
            lines.push(format!("{:?}", database.field(id, &path)));
            lines.push(format!("{:?}", database.number(id, &path)));
            lines.push(format!("{:?}", database.text(id, &path)));
        }
    }
    lines.extend(database.networks().take(300).map(|item| format!("{item:?}")));
    lines.push(format!("{:?}", database.verify()));
    lines
}

fn compare(bytes: &[u8], addresses: &[IpAddr]) {
    let owned = answers(Database::from_bytes(bytes.to_vec()), addresses);
    for resident in [Resident::Nothing, Resident::Tree] {
        let read = answers(Database::from_reader(Shelf::new(bytes), resident), addresses);
        assert_eq!(read, owned, "{resident:?}");
    }
}

fn addresses() -> Vec<IpAddr> {
    ["10.0.0.1", "10.128.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1"]
        .map(|text| text.parse().unwrap())
        .to_vec()
}

fn small_database(ip_version: u16) -> Vec<u8> {
    let options = WriterOptions { ip_version, ..WriterOptions::default() };
    let mut writer = Writer::new(options).unwrap();
    let text = |text: &str| Value::String(text.to_owned());
    // Longer than a page, and so across many.
    let list = Value::Array(vec![text(&"long ".repeat(700)), Value::Double(1.5)]);
    let map = Value::Map(vec![("list".to_owned(), list), ("other".to_owned(), text("é"))]);
    let record = Value::Map(vec![("map".to_owned(), map.clone()), ("again".to_owned(), map)]);
    writer.insert("10.0.0.0/6".parse().unwrap(), record).unwrap();
    writer.insert("10.128.0.0/10".parse().unwrap(), text("shared text")).unwrap();
    writer.finish().unwrap()
}

#[test]
fn sound_and_damaged_bytes_answer_the_same_from_memory_and_from_a_reader() {
    let mut random = Random(3);
    for ip_version in [4, 6] {
        let bytes = small_database(ip_version);
        compare(&bytes, &addresses());
        for at in (0..bytes.len()).filter(|&at| at < 900 || at + 500 > bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] = random.next_u64() as u8;
            compare(&damaged, &addresses());
        }
        for length in (0..bytes.len()).step_by(7) {
            compare(&bytes[..length], &addresses());
        }
    }
}

#[test]
fn the_conformance_files_answer_the_same_from_memory_and_from_a_reader() {
    let Some(folder) = maxmind_data() else { return };
    let addresses: Vec<IpAddr> =
        ["1.1.1.1", "81.2.69.160", "2001:218::", "::1.1.1.0", "89.160.20.112"]
            .map(|text| text.parse().unwrap())
            .to_vec();
    let mut count = 0;
    for part in ["test-data", "bad-data/libmaxminddb", "bad-data/maxminddb-golang"] {
        let Ok(files) = std::fs::read_dir(folder.join(part)) else { continue };
        for file in files.map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|end| end == "mmdb") {
                compare(&std::fs::read(&file).unwrap(), &addresses);
                count += 1;
            }
        }
    }
    assert!(count > 20, "only {count} files in {}", folder.display());
}

#[test]
fn opening_and_asking_a_reader_reads_little() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    for network in 0..20_000_u32 {
        let prefix = format!("10.{}.{}.0/24", network / 256, network % 256).parse().unwrap();
        let text = Value::String(format!("a text of network number {network}"));
        writer.insert(prefix, Value::Map(vec![("names".to_owned(), text)])).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let shelf = Shelf::new(&bytes);
    let given_bytes = Arc::clone(&shelf.given_bytes);
    let database = Database::from_reader(shelf, Resident::Nothing).unwrap();
    let id = database.lookup("10.20.30.40".parse().unwrap()).unwrap().record.unwrap();
    let text = database.text(id, &"names".parse().unwrap()).unwrap();
    assert_eq!(text.as_deref(), Some("a text of network number 5150"));
    let given_bytes = given_bytes.load(Ordering::Relaxed);
    assert!(given_bytes < 8 << 10, "read {given_bytes} of {} bytes", bytes.len());
}

#[test]
fn a_reader_that_loses_its_end_gives_errors_with_their_place() {
    let bytes = small_database(6);
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    for resident in [Resident::Nothing, Resident::Tree] {
        let shelf = Shelf::new(&bytes);
        let readable_bytes = Arc::clone(&shelf.readable_bytes);
        let database = Database::from_reader(shelf, resident).unwrap();
        let id = database.lookup(address).unwrap().record.unwrap();
        readable_bytes.store(100, Ordering::Relaxed);
        let error = database.record(id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreadable);
        assert!(error.offset_bytes().unwrap() >= 100, "{error}");
        let asked_again = database.lookup(address);
        assert_eq!(asked_again.is_ok(), resident == Resident::Tree, "{asked_again:?}");
        assert_eq!(database.verify().unwrap_err().kind(), ErrorKind::Unreadable);
    }
}

#[test]
fn bytes_that_another_holds_are_not_copied() {
    let held: &'static [u8] = small_database(6).leak();
    let database = Database::from_bytes(held).unwrap();
    assert_eq!(database.as_bytes().as_ptr(), held.as_ptr());
}

/// What a tree as the file stores it answers, and the bytes of the records, as text.
fn branches(tree: Result<FileTree, MmdbError>, addresses: &[IpAddr]) -> Vec<String> {
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return vec![error.to_string()],
    };
    let (start, depth_bits) = tree.ipv4_start();
    let mut lines = vec![format!("{start} {depth_bits}")];
    for &address in addresses {
        let branch = match address {
            IpAddr::V4(address) => tree.walk(start, u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => tree.walk(0, address.to_bits(), 128),
        };
        lines.push(format!("{branch:?}"));
        if let Ok(Some(id)) = branch.map(|branch| branch.record) {
            let at = id.to_u32() as usize;
            lines.push(tree.with_data(|section| match section.resolve(at) {
                Ok((field, _)) => format!("{field:?} {:?}", section.payload(&field)),
                Err(error) => error.to_string(),
            }));
        }
    }
    lines
}

#[test]
fn a_tree_as_the_file_stores_it_is_the_same_from_memory_and_from_a_reader() {
    for ip_version in [4, 6] {
        let bytes = small_database(ip_version);
        let metadata = Database::from_bytes(bytes.clone()).unwrap().metadata().clone();
        let shape = TreeShape {
            node_count: metadata.node_count,
            record_size_bits: metadata.record_size_bits,
            is_ipv6: ip_version == 6,
        };
        let expected = branches(FileTree::new(bytes.clone(), shape), &addresses());
        assert!(expected.iter().any(|line| line.contains("Map")), "{expected:?}");
        let shelf = Shelf::new(&bytes);
        assert_eq!(branches(FileTree::from_reader(shelf.clone(), shape), &addresses()), expected);

        let tree = FileTree::from_reader(shelf.clone(), shape).unwrap();
        shelf.readable_bytes.store(0, Ordering::Relaxed);
        let error = tree.try_record_number(0, false).unwrap_err();
        assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Unreadable, Some(0)));
        assert!(tree.try_record_number(shape.node_count, false).is_err(), "there is no such node");
    }
}
