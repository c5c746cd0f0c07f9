//! libmaxminddb's `mmdblookup` reads what the writer writes, and says the same as the reader.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use support::Random;
use whered_mmdb::{Database, FieldPath, Value, Writer, WriterOptions};

/// A file that goes away with its owner.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, bytes: &[u8]) -> TemporaryFile {
        let name = format!("whered-mmdb-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        TemporaryFile(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A file that cannot be removed is no reason to fail a test.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What `mmdblookup` prints for a path, without white space; `None` if it finds nothing.
fn peer(file: &TemporaryFile, address: &str, path: &[&str]) -> Option<String> {
    let output = Command::new("mmdblookup")
        .arg("--file")
        .arg(&file.0)
        .args(["--ip", address, "--"])
        .args(path)
        .output()
        .unwrap();
    output.status.success().then(|| {
        String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

fn is_missing() -> bool {
    let is_missing = Command::new("mmdblookup").arg("--version").output().is_err();
    if is_missing {
        support::skip("peers", "there is no program mmdblookup");
    }
    is_missing
}

fn record(number: u32) -> Value {
    let text = |text: &str| Value::String(text.to_string());
    let mut names = vec![("en".to_string(), Value::String(format!("Place number {number}")))];
    names.push(("a shared key".to_string(), text("a shared value")));
    Value::Map(vec![
        ("number".to_string(), Value::Uint32(number)),
        ("big".to_string(), Value::Uint64(u64::from(number) << 20)),
        ("signed".to_string(), Value::Int32(-(number as i32 % 1000))),
        ("half".to_string(), Value::Double(f64::from(number) / 2.0)),
        ("truth".to_string(), Value::Boolean(number & 1 == 0)),
        ("bytes".to_string(), Value::Bytes(number.to_be_bytes().to_vec())),
        ("names".to_string(), Value::Map(names)),
        ("list".to_string(), Value::Array(vec![text("first"), Value::Uint16(2), text("last one")])),
    ])
}

/// A file full of random networks, and addresses inside them.
fn write(ip_version: u16, record_size_bits: u16) -> (Vec<u8>, Vec<String>) {
    let options = WriterOptions {
        database_type: "Peer-Test".to_string(),
        ip_version,
        record_size_bits: Some(record_size_bits),
        ..Default::default()
    };
    let mut writer = Writer::new(options).unwrap();
    let mut random = Random(3);
    let mut addresses = vec!["192.0.2.1".to_string()];
    for number in 0..300 {
        let length = 8 + random.below(25);
        let address = std::net::Ipv4Addr::from_bits(random.next_u64() as u32);
        writer.insert(format!("{address}/{length}").parse().unwrap(), record(number)).unwrap();
        addresses.push(address.to_string());
        if ip_version == 6 {
            let address = std::net::Ipv6Addr::from_bits(u128::from(random.next_u64()) << 64);
            writer.insert(format!("{address}/40").parse().unwrap(), record(number)).unwrap();
            addresses.push(address.to_string());
        }
    }
    (writer.finish().unwrap(), addresses)
}

#[test]
fn mmdblookup_says_what_the_reader_says() {
    if is_missing() {
        return;
    }
    for (ip_version, record_size_bits) in [(4, 24), (6, 24), (6, 28), (6, 32)] {
        let (bytes, addresses) = write(ip_version, record_size_bits);
        let file = TemporaryFile::new(&format!("{ip_version}-{record_size_bits}.mmdb"), &bytes);
        let database = Database::from_bytes(bytes).unwrap();
        database.verify().unwrap();
        for address in addresses.iter().take(40) {
            check(&database, &file, address);
        }
    }
}

fn check(database: &Database, file: &TemporaryFile, address: &str) {
    let answer = database.lookup(address.parse().unwrap()).unwrap();
    assert_eq!(peer(file, address, &[]).is_some(), answer.record.is_some(), "{address}");
    let Some(id) = answer.record else { return };
    for (path, type_name) in [
        ("number", "uint32"),
        ("big", "uint64"),
        ("signed", "int32"),
        ("truth", "boolean"),
        ("bytes", "bytes"),
    ] {
        let mut text = Vec::new();
        let value = database.field(id, &path.parse().unwrap()).unwrap().unwrap();
        value.write_text(&mut text);
        let text = String::from_utf8(text).unwrap();
        let printed = peer(file, address, &[path]).unwrap();
        assert_eq!(printed, format!("{text} <{type_name}>"), "{address}");
    }
    for path in [["names", "en"], ["names", "a shared key"], ["list", "-1"]] {
        let value = database.text(id, &FieldPath::new(path)).unwrap().unwrap();
        let printed = peer(file, address, &path).unwrap();
        assert_eq!(printed, format!("\"{value}\" <utf8_string>"), "{address}");
    }
}
