//! Legacy GeoIP files (`.dat`): how they are recognised and opened.
//!
//! Not for the records (`record`) nor for which editions there are (`edition`).
//!
//! ```text
//! numbers: | nodes, 6 bytes each      | 00 00 00 | copyright text | FF FF FF | edition (1) | ... |
//! offsets: | nodes, 6 or 8 bytes each | records  | 00 00 00 | text | FF FF FF | edition | nodes (3) |
//! ```
//!
//! The structure marker `FF FF FF` stands within the last 23 bytes; editions from 106 on mean the
//! number minus 105. Country 255 in the tree has the same three bytes, so that only a known edition
//! behind them makes a marker. A file without a marker is taken for a country edition only if its
//! whole tree holds together, since anything else would take any garbage for a database.
//!
//! Records appear under GeoIP2's field paths, so that one path serves old and new files:
//!
//! | edition | fields |
//! | --- | --- |
//! | country (v4, v6) | `continent.code`, `country.iso_code`, `country.names.en` |
//! | region rev 0, 1 | those, and `subdivisions.0.iso_code` (US; in rev 1 also CA) |
//! | city rev 0, 1 (v4, v6) | those, and `city.names.en`, `postal.code`, `location.latitude`, `location.longitude`; rev 1 in the US: `location.metro_code`, `location.area_code` |
//! | ASN (v4, v6) | `autonomous_system_number`, `autonomous_system_organization` |
//! | ISP, organization, domain (v4, v6) | `isp`, `organization`, `domain` |
//! | net speed, net speed rev 1 (v4, v6) | `connection_type` |
//!
//! Texts are ISO 8859-1 in the file and UTF-8 here. A subdivision's code is that of ISO 3166-2 in
//! the US and Canada and of FIPS 10-4 elsewhere, as the files have it. The names of countries are
//! in [`countries`], not in the files.
#![deny(clippy::indexing_slicing)]

mod countries;
mod edition;
mod record;

pub use edition::LegacyEdition;
pub(crate) use record::{Leaf, check, emit, leaf};

use crate::error::{ErrorKind, MmdbError};
use crate::metadata::Metadata;
use crate::tree::{Layout, SearchTree};
use crate::verify;
use edition::{Description, LAST_EDITION};
use std::ops::Range;

/// The bytes of the marker and of the edition behind it.
const STRUCTURE_BYTES: usize = 4;

/// How many bytes from the end, one at a time, the structure marker is looked for.
const MARKER_SEARCH: usize = 20;

/// How long the copyright text may be.
const MAX_INFO_BYTES: usize = 100;

/// An opened legacy file.
pub(crate) struct OpenedFile {
    pub(crate) edition: LegacyEdition,
    pub(crate) tree: SearchTree,
    pub(crate) metadata: Metadata,
    /// Where the records are; empty if the numbers in the tree are all there is.
    pub(crate) data: Range<usize>,
}

/// Opens a file that has no MaxMind DB marker.
pub(crate) fn open(bytes: &[u8]) -> Result<OpenedFile, MmdbError> {
    let marker = find_structure(bytes);
    let edition = match marker {
        Some((at, number)) => LegacyEdition::from_number(number, at)?,
        None => LegacyEdition::Country,
    };
    let description = edition.description();
    let info_end = marker.map_or(bytes.len(), |(at, _)| at);
    let info = find_info(bytes, info_end);
    let shape = match description.fixed_numbers() {
        Some((base, count)) => number_tree(description, info.as_ref(), info_end, base, count),
        None => offset_tree(bytes, description, info_end)?,
    };
    if shape.node_count == 0 {
        return Err(not_a_database());
    }
    let is_ipv6 = description.is_ipv6;
    let tree = SearchTree::new(bytes, shape.layout, shape.node_count, shape.numbers, is_ipv6);
    let tree = match marker {
        Some(_) => tree?,
        None => tree
            .and_then(|tree| verify::tree(&tree, bytes).map(|_| tree))
            .map_err(|_| not_a_database())?,
    };
    let info = info.and_then(|info| bytes.get(info)).unwrap_or_default();
    // In a file without a text these may be bytes of the last record.
    let info = if info.iter().all(|byte| (b' '..=b'~').contains(byte)) { info } else { &[] };
    let info = String::from_utf8_lossy(info).into_owned();
    let metadata = Metadata {
        database_type: edition.name().to_string(),
        build_epoch_seconds: date_in(&info).unwrap_or(0),
        description: if info.is_empty() { Vec::new() } else { vec![("en".to_string(), info)] },
        languages: vec!["en".to_string()],
        ip_version: if is_ipv6 { 6 } else { 4 },
        record_size_bits: (shape.layout.node_bytes() * 4) as u16,
        node_count: shape.node_count,
        format_major: 0,
        format_minor: 0,
    };
    Ok(OpenedFile { edition, tree, metadata, data: shape.data })
}

/// How the nodes lie and what their numbers may be.
struct Shape {
    layout: Layout,
    node_count: u32,
    /// The first record number that is too large, counted from the base.
    numbers: usize,
    data: Range<usize>,
}

/// A file that is all tree: it ends where the text begins.
fn number_tree(
    description: &Description,
    info: Option<&Range<usize>>,
    info_end: usize,
    base: u32,
    count: u32,
) -> Shape {
    let layout = Layout::Legacy(description.layout(base));
    // The three zero bytes before the text are not nodes; without a text they may be missing.
    let tree_bytes = info.map_or(info_end, |info| info.start - 3);
    let node_count = u32::try_from(tree_bytes / layout.node_bytes()).unwrap_or(u32::MAX);
    Shape { layout, node_count, numbers: count as usize, data: 0..0 }
}

/// A file with records behind the tree: the number of nodes stands behind the edition.
fn offset_tree(bytes: &[u8], description: &Description, marker: usize) -> Result<Shape, MmdbError> {
    let at = marker + STRUCTURE_BYTES;
    let node_count = match bytes.get(at..) {
        Some([low, middle, high, ..]) => u32::from_le_bytes([*low, *middle, *high, 0]),
        _ => {
            let found = "no number of nodes behind the edition";
            return Err(MmdbError::new(ErrorKind::Metadata, found, "three bytes").at(at as u64));
        }
    };
    let layout = Layout::Legacy(description.layout(node_count));
    let tree_bytes = node_count as usize * layout.node_bytes();
    if tree_bytes > marker {
        return Err(MmdbError::new(
            ErrorKind::Metadata,
            format!("{node_count} nodes, a tree of {tree_bytes} bytes"),
            format!("trees that end before the structure marker, at {marker}"),
        )
        .at(at as u64));
    }
    let data = tree_bytes..marker;
    Ok(Shape { layout, node_count, numbers: data.len(), data })
}

pub(crate) fn not_a_database() -> MmdbError {
    MmdbError::new(
        ErrorKind::NotADatabase,
        "neither MaxMind DB metadata in the last 128 KiB nor a legacy GeoIP structure or country tree",
        "MaxMind DB files (.mmdb), legacy GeoIP files (.dat)",
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

/// Where the copyright text that ends at `end` stands: behind the last three zero bytes.
fn find_info(bytes: &[u8], end: usize) -> Option<Range<usize>> {
    let first = end.saturating_sub(MAX_INFO_BYTES + 3);
    let tail = bytes.get(first..end)?;
    let at = tail.windows(3).rposition(|window| window == [0, 0, 0])?;
    Some(first + at + 3..end)
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
    fn the_structure_marker_is_the_last_one_with_a_known_edition() {
        let tail = |rest: &[u8]| [&[1, 2, 0xff, 0xff, 0xff][..], rest].concat();
        assert_eq!(find_structure(&tail(&[1])), Some((2, 1)));
        assert_eq!(find_structure(&tail(&[117, 0, 0])), Some((2, 12)));
        assert_eq!(find_structure(&tail(&[0])), None);
        assert_eq!(find_structure(&tail(&[0xff, 1])), Some((3, 1)));
        assert_eq!(find_structure(&[0xff; 3]), None);
    }
}
