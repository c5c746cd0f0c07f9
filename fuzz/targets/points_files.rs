//! Files of points of any bytes: loading ends with an error or with points that are on the earth,
//! each bad record is one line, and the counts make the total; never a panic.
//!
//! Not for: files that are right; the tests have those. Not for Parquet, which needs a file.
//!
//! ```text
//! input: | format (0-7), by the bytes (8), strict (16), geometry (32), member (64) | bytes ... |
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_connect::points::{Format, LoadOptions, scan};

const FORMATS: [Format; 8] = [
    Format::Csv,
    Format::Tsv,
    Format::GeoNames,
    Format::Ndjson,
    Format::Json,
    Format::GeoJson,
    Format::Wkt,
    Format::Osm,
];

fuzz_target!(|input: &[u8]| {
    let Some((switches, bytes)) = input.split_first() else { return };
    let options = LoadOptions {
        format: (switches & 8 == 0).then_some(FORMATS[usize::from(switches & 7)]),
        strict: switches & 16 != 0,
        geometry: (switches & 32 != 0).then(|| "g".to_owned()),
        member: (switches & 64 != 0).then(|| "1".to_owned()),
        ..LoadOptions::default()
    };
    let (mut points, mut bad) = (0, 0);
    let mut on_point = |longitude: f64, latitude: f64, member: &[u8]| {
        assert!(longitude.abs() <= 180.0 && latitude.abs() <= 85.06 && !member.is_empty());
        points += 1;
    };
    let loaded = scan(bytes, &options, &mut on_point, &mut |line| {
        assert!(!line.contains('\n'), "{line}");
        bad += 1;
    });
    match loaded {
        Ok(loaded) => assert_eq!((loaded.written, loaded.bad), (points, bad)),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
