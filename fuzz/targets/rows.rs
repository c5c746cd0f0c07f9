//! Any bytes as CSV or NDJSON rows: a database that the verifier finds sound and that is the same
//! when it is dumped and built again, or an error with its line; and any first line as a field path
//! that reads back as it is written.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | switches | rows ... |
//! switches: IP version (1), record size (2, 4), no aliases (8), NDJSON (16), skip wrong rows (32),
//! the last row wins (64), with a file of Locations in front (128)
//! ```
#![no_main]

mod ask;

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use whered_mmdb::{Database, FieldPath, Writer, WriterOptions, rows};

/// Names of files whose layout is known, and one that says nothing.
const NAMES: [&str; 8] = [
    "rows.csv",
    "IP2LOCATION-LITE-DB11.CSV",
    "dbip-city-lite.csv",
    "ip2asn-v4.tsv",
    "geofeed.csv",
    "geolite2-city-ipv4.csv",
    "IP2PROXY-LITE-PX11.CSV",
    "delegated-ripencc-extended-latest",
];

/// Places for Blocks.
const LOCATIONS: &[u8] = b"geoname_id,locale_code,country_iso_code,country_name,city_name\n\
    1,en,DE,Germany,\n2,en,DE,Germany,Berlin\n";

fuzz_target!(|input: &[u8]| {
    let Some((switches, csv)) = input.split_first() else { return };
    let record_size_bits = [None, Some(24), Some(28), Some(32)][usize::from(switches >> 1 & 3)];
    let ip_version = if switches & 1 == 0 { 6 } else { 4 };
    let options = WriterOptions { ip_version, record_size_bits, ..WriterOptions::default() };
    let mut writer = Writer::new(options).expect("options that are allowed");
    writer.set_ipv4_aliases(switches & 8 == 0);
    writer.set_last_wins(switches & 64 != 0);
    let format = if switches & 16 == 0 { rows::RowsFormat::Csv } else { rows::RowsFormat::Ndjson };
    let skips_bad = switches & 32 != 0;
    let options =
        rows::RowsOptions { format: Some(format), skips_bad, ..rows::RowsOptions::default() };
    let mut loader = rows::RowsLoader::new(options, &mut writer);
    if switches & 128 != 0 && format == rows::RowsFormat::Csv {
        loader.read("", LOCATIONS).expect("these are right");
    }
    // The name of a file says its layout: each has its turn by the number of bytes.
    let read = loader.read(NAMES[csv.len() % NAMES.len()], csv);
    loader.finish().expect("faults were reported with their rows");
    if let Err(error) = &read {
        let lines = csv.split(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
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
