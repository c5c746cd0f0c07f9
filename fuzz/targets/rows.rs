//! Any bytes as CSV or NDJSON rows: a database that the verifier finds sound and that is the same
//! when it is dumped and built again, or an error with its line; and any first line as a field path
//! that reads back as it is written.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | switches | CSV or NDJSON ... |
//! switches: IP version (1), record size (2, 4), no aliases (8), NDJSON (16)
//! ```
#![no_main]

mod ask;

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use whered_mmdb::{Database, FieldPath, Writer, WriterOptions, rows};

fuzz_target!(|input: &[u8]| {
    let Some((switches, csv)) = input.split_first() else { return };
    let record_size_bits = [None, Some(24), Some(28), Some(32)][usize::from(switches >> 1 & 3)];
    let ip_version = if switches & 1 == 0 { 6 } else { 4 };
    let options = WriterOptions { ip_version, record_size_bits, ..WriterOptions::default() };
    let mut writer = Writer::new(options).expect("options that are allowed");
    writer.set_ipv4_aliases(switches & 8 == 0);
    let is_csv = switches & 16 == 0;
    let read = match is_csv {
        true => rows::read_csv(csv, &mut writer),
        false => rows::read_ndjson(csv, &mut writer),
    };
    if let Err(error) = &read {
        let lines = csv.split(|&byte| byte == b'\n').count() as u64;
        assert!((1..=lines).contains(&error.line()), "no such line: {error}");
        assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
    }
    // The rows before a wrong one are there.
    let bytes = writer.finish().expect("so few rows fit into every record size");
    let database = Database::from_bytes(bytes).expect("what was written can be read");
    database.verify().expect("what was written is sound");
    ask::everything(&database);
    survives_its_rows(&database, ip_version);
    let first_line = csv.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if let Ok(path) = String::from_utf8_lossy(first_line).parse::<FieldPath>() {
        assert_eq!(path.to_string().parse::<FieldPath>().as_ref(), Ok(&path));
    }
});

/// Dumps the database with types and builds it again.
fn survives_its_rows(database: &Database, ip_version: u16) {
    let mut lines = Vec::new();
    for item in database.networks() {
        let (prefix, id) = item.expect("what was written is sound");
        write!(lines, "{{\"network\":\"{prefix}\",\"typed_record\":").expect("a vector takes all");
        database.write_typed_record_json(id, &mut lines).expect("what was written is sound");
        lines.extend_from_slice(b"}\n");
    }
    let options = WriterOptions { ip_version, ..WriterOptions::default() };
    let mut writer = Writer::new(options).expect("options that are allowed");
    writer.set_ipv4_aliases(false);
    rows::read_ndjson(&lines, &mut writer).expect("what was dumped can be read");
    let again = writer.finish().and_then(Database::from_bytes).expect("what was dumped is sound");
    assert_eq!(database.differences(&again).next(), None);
    assert_eq!(again.differences(database).next(), None);
}
