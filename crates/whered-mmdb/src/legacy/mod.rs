//! Legacy GeoIP files (`.dat`): the country editions for IPv4 and IPv6.
//!
//! Not for the other editions (city, ISP, ASN ...), which are refused by name.
//!
//! ```text
//! | nodes, 6 bytes each | 00 00 00 | copyright text | FF FF FF | edition (1 byte) | ... |
//! ```
//!
//! The structure marker `FF FF FF` stands within the last 23 bytes; editions from 106 on mean the
//! number minus 105. Country 255 in the tree has the same three bytes, so that only a known edition
//! behind them makes a marker. A file without a marker is taken for a country edition only if its whole tree
//! holds together, since anything else would take any garbage for a database.
//!
//! A country number becomes a record under GeoIP2's field paths: `continent.code`,
//! `country.iso_code`, `country.names.en`. Nothing but the tree is read from the file; the names
//! are in [`countries`].
#![deny(clippy::indexing_slicing)]

mod countries;

use crate::decode::Scalar;
use crate::error::{ErrorKind, MmdbError};
use crate::metadata::Metadata;
use crate::path::FieldPath;
use crate::tree::{Layout, RecordId, SearchTree};
use crate::verify;
use crate::walk::Sink;
use countries::{COUNTRIES, Country};

/// The bytes of the marker and of the edition behind it.
const STRUCTURE_BYTES: usize = 4;

/// How many bytes from the end, one at a time, the structure marker is looked for.
const MARKER_SEARCH: usize = 20;

/// The highest edition number that was ever given out.
const LAST_EDITION: u8 = 38;

/// How long the copyright text may be.
const MAX_INFO_BYTES: usize = 100;

/// Which legacy file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyEdition {
    /// Countries by IPv4 address (`GeoIP.dat`).
    Country,
    /// Countries by IPv6 address, IPv4 included (`GeoIPv6.dat`).
    CountryV6,
}

impl LegacyEdition {
    /// The name as the legacy tools print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LegacyEdition::Country => "GeoIP Country Edition",
            LegacyEdition::CountryV6 => "GeoIP Country V6 Edition",
        }
    }
}

/// What opening a legacy file yields.
pub(crate) struct Opened {
    pub(crate) edition: LegacyEdition,
    pub(crate) tree: SearchTree,
    pub(crate) metadata: Metadata,
}

/// Opens a file that has no MaxMind DB marker.
pub(crate) fn open(bytes: &[u8]) -> Result<Opened, MmdbError> {
    let marker = find_structure(bytes);
    let edition = match marker {
        Some((at, number)) => edition(number, at)?,
        None => LegacyEdition::Country,
    };
    let info_end = marker.map_or(bytes.len(), |(at, _)| at);
    let info_start = find_info(bytes, info_end);
    // The three zero bytes before the text are not nodes; without a text they may be missing.
    let tree_bytes = info_start.map_or(info_end, |start| start - 3);
    let node_count = u32::try_from(tree_bytes / Layout::Legacy.node_bytes()).unwrap_or(u32::MAX);
    let is_ipv6 = edition == LegacyEdition::CountryV6;
    if node_count == 0 {
        return Err(not_a_database());
    }
    let tree = SearchTree::new(bytes, Layout::Legacy, node_count, 0, is_ipv6);
    let tree = match marker {
        Some(_) => tree?,
        None => tree
            .and_then(|tree| verify::tree(&tree, bytes).map(|_| tree))
            .map_err(|_| not_a_database())?,
    };
    let info = info_start.and_then(|start| bytes.get(start..info_end)).unwrap_or_default();
    let info = String::from_utf8_lossy(info).into_owned();
    let metadata = Metadata {
        database_type: edition.name().to_string(),
        build_epoch_seconds: date_in(&info).unwrap_or(0),
        description: if info.is_empty() { Vec::new() } else { vec![("en".to_string(), info)] },
        languages: vec!["en".to_string()],
        ip_version: if is_ipv6 { 6 } else { 4 },
        record_size_bits: 24,
        node_count,
        format_major: 0,
        format_minor: 0,
    };
    Ok(Opened { edition, tree, metadata })
}

pub(crate) fn not_a_database() -> MmdbError {
    MmdbError::new(
        ErrorKind::NotADatabase,
        "neither MaxMind DB metadata in the last 128 KiB nor a legacy country tree",
        "MaxMind DB files (.mmdb), legacy GeoIP country files (.dat)",
    )
}

/// Where the structure marker stands, and the edition's number behind it.
fn find_structure(bytes: &[u8]) -> Option<(usize, u8)> {
    let last = bytes.len().checked_sub(STRUCTURE_BYTES)?;
    (last.saturating_sub(MARKER_SEARCH - 1)..=last).rev().find_map(|at| {
        match bytes.get(at..at + STRUCTURE_BYTES)? {
            [0xff, 0xff, 0xff, number] => {
                let number = if *number >= 106 { number - 105 } else { *number };
                (1..=LAST_EDITION).contains(&number).then_some((at, number))
            }
            _ => None,
        }
    })
}

/// Where the copyright text that ends at `end` begins: behind the last three zero bytes.
fn find_info(bytes: &[u8], end: usize) -> Option<usize> {
    let first = end.saturating_sub(MAX_INFO_BYTES + 3);
    let tail = bytes.get(first..end)?;
    let at = tail.windows(3).rposition(|window| window == [0, 0, 0])?;
    Some(first + at + 3)
}

fn edition(number: u8, marker: usize) -> Result<LegacyEdition, MmdbError> {
    let name = match number {
        1 => return Ok(LegacyEdition::Country),
        12 => return Ok(LegacyEdition::CountryV6),
        2 | 6 => "city",
        3 | 7 => "region",
        4 => "ISP",
        5 => "organization",
        8 => "proxy",
        9 => "ASN",
        10 | 32 => "net speed",
        11 => "domain",
        17 | 18 => "large country",
        21 => "ASN, IPv6",
        22 => "ISP, IPv6",
        23 => "organization, IPv6",
        24 => "domain, IPv6",
        30 | 31 => "city, IPv6",
        33 => "net speed, IPv6",
        _ => "confidence or other rare data",
    };
    Err(MmdbError::new(
        ErrorKind::Unsupported,
        format!("legacy edition {number} ({name})"),
        "editions 1 (country) and 12 (country, IPv6)",
    )
    .at(marker as u64 + 3))
}

/// The first eight digits of the text as a day (YYYYMMDD), in seconds since 1970.
fn date_in(text: &str) -> Option<u64> {
    let digits = text
        .split(|character: char| !character.is_ascii_digit())
        .find(|digits| digits.len() == 8)?
        .parse::<u64>()
        .ok()?;
    let (year, month, day) = (digits / 10_000, digits / 100 % 100, digits % 100);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March put the leap day last; 719,468 days lie before 1970-01-01.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    Some((days - 719_468) * 86_400)
}

/// The country behind a record id.
fn country(id: RecordId) -> Result<&'static Country, MmdbError> {
    let number = id.to_u32();
    let country = usize::try_from(number).ok().and_then(|number| COUNTRIES.get(number));
    country.filter(|_| number > 0).ok_or_else(|| {
        MmdbError::new(ErrorKind::Data, format!("country number {number}"), "1 to 255")
    })
}

/// Tells `sink` the record of a country.
pub(crate) fn emit(id: RecordId, sink: &mut impl Sink) -> Result<(), MmdbError> {
    let country = country(id)?;
    let has_continent = !country.continent.is_empty();
    sink.begin_map(1 + usize::from(has_continent));
    if has_continent {
        sink.key("continent");
        sink.begin_map(1);
        sink.key("code");
        sink.scalar(Scalar::String(country.continent));
        sink.end_map();
    }
    sink.key("country");
    sink.begin_map(2);
    sink.key("iso_code");
    sink.scalar(Scalar::String(country.code));
    sink.key("names");
    sink.begin_map(1);
    sink.key("en");
    sink.scalar(Scalar::String(country.name));
    sink.end_map();
    sink.end_map();
    sink.end_map();
    Ok(())
}

/// A country's text at `path`, without building the record.
pub(crate) fn text(id: RecordId, path: &FieldPath) -> Result<Option<&'static str>, MmdbError> {
    let country = country(id)?;
    let is = |segments: &[&str]| path.iter().eq(segments.iter().copied());
    Ok(if is(&["country", "iso_code"]) {
        Some(country.code)
    } else if is(&["country", "names", "en"]) {
        Some(country.name)
    } else if is(&["continent", "code"]) && !country.continent.is_empty() {
        Some(country.continent)
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_the_copyright_line_is_read() {
        assert_eq!(date_in("GEO-106FREE 20260704 Build 1 Copyright"), Some(1_783_123_200));
        assert_eq!(date_in("19700101"), Some(0));
        assert_eq!(date_in("20000229"), Some(951_782_400));
        assert_eq!(date_in("20001301"), None);
        assert_eq!(date_in("no date"), None);
    }

    #[test]
    fn other_editions_are_refused_by_name() {
        for (number, name) in [(2, "city"), (9, "ASN"), (38, "rare")] {
            let error = edition(number, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(edition(1, 0), Ok(LegacyEdition::Country));
        assert_eq!(edition(12, 0), Ok(LegacyEdition::CountryV6));
    }

    #[test]
    fn the_structure_marker_is_the_last_one_with_a_known_edition() {
        let tail = |rest: &[u8]| [&[1, 2, 0xff, 0xff, 0xff][..], rest].concat();
        assert_eq!(find_structure(&tail(&[1])), Some((2, 1)));
        assert_eq!(find_structure(&tail(&[117, 0, 0])), Some((2, 12)));
        assert_eq!(find_structure(&tail(&[0])), None);
        assert_eq!(find_structure(&tail(&[0xff, 1])), Some((3, 1)));
        assert_eq!(find_structure(&[0xff; 3]), None);
    }

    #[test]
    fn the_table_is_in_order() {
        for (number, code) in [(1, "AP"), (2, "EU"), (77, "GB"), (225, "US"), (255, "O1")] {
            assert_eq!(COUNTRIES[number].code, code);
        }
        assert!(COUNTRIES.iter().all(|country| country.code.len() == 2));
        assert!(COUNTRIES.iter().all(|country| matches!(country.continent.len(), 0 | 2)));
    }
}
