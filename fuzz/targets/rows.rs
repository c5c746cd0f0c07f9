//! Any bytes as CSV rows: a database that the verifier finds sound, or an error with its line;
//! and any first line as a field path that reads back as it is written.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | switches | CSV ... |
//! ```
#![no_main]

mod ask;

use libfuzzer_sys::fuzz_target;
use whered_mmdb::{Database, FieldPath, Writer, WriterOptions, rows};

fuzz_target!(|input: &[u8]| {
    let Some((switches, csv)) = input.split_first() else { return };
    let record_size_bits = [None, Some(24), Some(28), Some(32)][usize::from(switches >> 1 & 3)];
    let ip_version = if switches & 1 == 0 { 6 } else { 4 };
    let options = WriterOptions { ip_version, record_size_bits, ..WriterOptions::default() };
    let mut writer = Writer::new(options).expect("options that are allowed");
    writer.set_ipv4_aliases(switches & 8 == 0);
    let read = rows::read_csv(csv, &mut writer);
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
    let first_line = csv.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if let Ok(path) = String::from_utf8_lossy(first_line).parse::<FieldPath>() {
        assert_eq!(path.to_string().parse::<FieldPath>().as_ref(), Ok(&path));
    }
});
