//! Legacy records under GeoIP2's field paths.
//!
//! Not for the tree. One function, [`each_leaf`], tells what a record holds; whole records, single
//! fields and the verifier all go through it.
//!
//! ```text
//! number editions:   the record number itself is the country, state or speed
//! city, behind the tree:  | country (1) | region \0 | city \0 | postal code \0 |
//!                         | latitude (3) | longitude (3) | metro and area code (3): rev 1, US only |
//! texts, behind the tree: | ISO 8859-1 text \0 |
//! ```
//!
//! Numbers are little-endian; a coordinate is `number / 10,000 - 180` degrees; the combined code is
//! `metro * 1000 + area`. Text becomes UTF-8; ASCII text is borrowed. Invariants: every read goes
//! through `get`; no text is longer than [`MAX_TEXT_BYTES`], so that a record costs constant time.
#![deny(clippy::indexing_slicing)]

use super::countries::{COUNTRIES, Country};
use super::edition::{Content, LegacyEdition, Meaning};
use crate::decode::{Scalar, Section};
use crate::error::{ErrorKind, MmdbError};
use crate::path::FieldPath;
use crate::tree::RecordId;
use crate::walk::Sink;
use std::borrow::Cow;

/// How long a text may be; real ones have less than 300 bytes.
const MAX_TEXT_BYTES: usize = 1000;

/// The first number of a state in the older region edition.
const REV0_STATES: u32 = 1000;
/// The first numbers of states, provinces and countries in the newer one, and each country's share.
const REV1_STATES: u32 = 1;
const REV1_PROVINCES: u32 = 677;
const REV1_COUNTRIES: u32 = 1353;
const REV1_NUMBERS_PER_COUNTRY: u32 = 360;

/// The kinds of connection by number.
const SPEEDS: [&str; 4] = ["", "Dialup", "Cable/DSL", "Corporate"];

/// A value that holds no other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaf<'a> {
    Text(Cow<'a, str>),
    Double(f64),
    Uint16(u16),
    Uint32(u32),
}

impl Leaf<'_> {
    fn scalar(&self) -> Scalar<'_> {
        match self {
            Leaf::Text(text) => Scalar::String(text),
            Leaf::Double(number) => Scalar::Double(*number),
            Leaf::Uint16(number) => Scalar::Uint16(*number),
            Leaf::Uint32(number) => Scalar::Uint32(*number),
        }
    }

    /// The number as a double; `None` for text.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        self.scalar().as_f64()
    }
}

/// Where a leaf stands in its record; `0` is the only index of an array.
type Names = &'static [&'static str];

/// Takes the leaves of a record, ordered by their names.
type Visit<'v, 'a> = &'v mut dyn FnMut(Names, Leaf<'a>);

/// Tells what a record holds.
fn each_leaf<'a>(
    edition: LegacyEdition,
    id: RecordId,
    data: &Section<'a>,
    visit: Visit<'_, 'a>,
) -> Result<(), MmdbError> {
    let number = id.to_u32();
    match edition.description().content {
        Content::Country => country_leaves(country(number)?, visit),
        Content::RegionRev0 => region_rev0(number, visit)?,
        Content::RegionRev1 => region_rev1(number, visit)?,
        Content::NetSpeed => {
            let speed = usize::try_from(number).ok().and_then(|number| SPEEDS.get(number));
            let speed = speed.filter(|_| number > 0);
            let speed = speed.ok_or_else(|| no_such("speed number", number, "1 to 3"))?;
            visit(&["connection_type"], Leaf::Text(Cow::Borrowed(speed)));
        }
        Content::City { has_metro_code } => city(number as usize, has_metro_code, data, visit)?,
        Content::Text(meaning) => {
            let (text, _) = text_at(data, number as usize)?;
            text_leaves(meaning, text, visit);
        }
    }
    Ok(())
}

fn no_such(what: &str, number: u32, allowed: &str) -> MmdbError {
    MmdbError::new(ErrorKind::Data, format!("{what} {number}"), allowed)
}

/// The country of a number.
fn country(number: u32) -> Result<&'static Country, MmdbError> {
    let country = usize::try_from(number).ok().and_then(|number| COUNTRIES.get(number));
    country.filter(|_| number > 0).ok_or_else(|| no_such("country number", number, "1 to 255"))
}

fn country_leaves(country: &'static Country, visit: Visit<'_, '_>) {
    if !country.continent.is_empty() {
        visit(&["continent", "code"], Leaf::Text(Cow::Borrowed(country.continent)));
    }
    visit(&["country", "iso_code"], Leaf::Text(Cow::Borrowed(country.code)));
    visit(&["country", "names", "en"], Leaf::Text(Cow::Borrowed(country.name)));
}

fn region_rev0(number: u32, visit: Visit<'_, '_>) -> Result<(), MmdbError> {
    match number.checked_sub(REV0_STATES) {
        Some(state) => state_leaves("US", state, visit),
        None => country(number).map(|country| country_leaves(country, visit)),
    }
}

fn region_rev1(number: u32, visit: Visit<'_, '_>) -> Result<(), MmdbError> {
    match number {
        REV1_STATES..REV1_PROVINCES => state_leaves("US", number - REV1_STATES, visit),
        REV1_PROVINCES..REV1_COUNTRIES => state_leaves("CA", number - REV1_PROVINCES, visit),
        _ => {
            let offset = number.checked_sub(REV1_COUNTRIES);
            let offset = offset.ok_or_else(|| no_such("region number", number, "1 and more"))?;
            country(offset / REV1_NUMBERS_PER_COUNTRY).map(|country| country_leaves(country, visit))
        }
    }
}

/// A state's two letters are two digits to the base 26.
fn state_leaves(country_code: &str, state: u32, visit: Visit<'_, '_>) -> Result<(), MmdbError> {
    let letter = |digit: u32| char::from(b'A' + (digit % 26) as u8);
    if state >= 26 * 26 {
        return Err(no_such("state number", state, "below 676"));
    }
    let country = COUNTRIES.iter().find(|country| country.code == country_code);
    country_leaves(country.expect("both countries are in the table"), visit);
    let code = String::from_iter([letter(state / 26), letter(state)]);
    visit(&["subdivisions", "0", "iso_code"], Leaf::Text(Cow::Owned(code)));
    Ok(())
}

/// The text at an offset as UTF-8, and where what follows it begins.
fn text_at<'a>(data: &Section<'a>, at: usize) -> Result<(Cow<'a, str>, usize), MmdbError> {
    let rest = data.rest(at);
    let end = rest.iter().take(MAX_TEXT_BYTES + 1).position(|&byte| byte == 0);
    let bytes = end.and_then(|end| rest.get(..end)).ok_or_else(|| {
        let allowed = format!("texts of up to {MAX_TEXT_BYTES} bytes that a zero byte ends");
        data.fault(at, "a text without an end", &allowed)
    })?;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    };
    Ok((text, at + bytes.len() + 1))
}

fn city<'a>(
    at: usize,
    has_metro_code: bool,
    data: &Section<'a>,
    visit: Visit<'_, 'a>,
) -> Result<(), MmdbError> {
    let cut = || data.fault(at, "a city record that is cut off", "whole records");
    let number = *data.rest(at).first().ok_or_else(cut)?;
    let (region, next) = text_at(data, at + 1)?;
    let (city, next) = text_at(data, next)?;
    let (postal_code, next) = text_at(data, next)?;
    let [latitude, longitude] = [next, next + 3].map(|at| three_bytes(data, at));
    let (latitude, longitude) = latitude.zip(longitude).ok_or_else(cut)?;
    let country = COUNTRIES.get(usize::from(number)).filter(|_| number > 0);
    let codes = match country {
        Some(country) if has_metro_code && country.code == "US" => {
            let combined = three_bytes(data, next + 6).ok_or_else(cut)?;
            Some((combined / 1000, combined % 1000))
        }
        _ => None,
    };
    let text = |names: Names, text: Cow<'a, str>, visit: Visit<'_, 'a>| {
        if !text.is_empty() {
            visit(names, Leaf::Text(text));
        }
    };
    text(&["city", "names", "en"], city, visit);
    if let Some(country) = country {
        country_leaves(country, visit);
    }
    if let Some((_, area)) = codes.filter(|(_, area)| *area > 0) {
        visit(&["location", "area_code"], Leaf::Uint16(area as u16));
    }
    visit(&["location", "latitude"], Leaf::Double(degrees(latitude)));
    visit(&["location", "longitude"], Leaf::Double(degrees(longitude)));
    if let Some((metro, _)) = codes.filter(|(metro, _)| *metro > 0) {
        // At most 16,777: three bytes divided by a thousand.
        visit(&["location", "metro_code"], Leaf::Uint16(metro as u16));
    }
    text(&["postal", "code"], postal_code, visit);
    text(&["subdivisions", "0", "iso_code"], region, visit);
    Ok(())
}

fn three_bytes(data: &Section<'_>, at: usize) -> Option<u32> {
    match data.rest(at) {
        [low, middle, high, ..] => Some(u32::from_le_bytes([*low, *middle, *high, 0])),
        _ => None,
    }
}

/// Subtracting first keeps the double next to the decimal number that was meant.
fn degrees(number: u32) -> f64 {
    (f64::from(number) - 1_800_000.0) / 10_000.0
}

fn text_leaves<'a>(meaning: Meaning, text: Cow<'a, str>, visit: Visit<'_, 'a>) {
    let names: Names = match meaning {
        Meaning::AutonomousSystem => return autonomous_system(text, visit),
        Meaning::Isp => &["isp"],
        Meaning::Organization => &["organization"],
        Meaning::Domain => &["domain"],
        Meaning::ConnectionType => &["connection_type"],
    };
    visit(names, Leaf::Text(text));
}

/// `AS15169 Google Inc.` is a number and a name; a text of another form is all name.
fn autonomous_system<'a>(text: Cow<'a, str>, visit: Visit<'_, 'a>) {
    const NUMBER: Names = &["autonomous_system_number"];
    const NAME: Names = &["autonomous_system_organization"];
    let (first, name) = text.split_once(' ').unwrap_or((&text, ""));
    let digits = first.strip_prefix("AS").filter(|digits| !digits.starts_with('+'));
    let Some(number) = digits.and_then(|digits| digits.parse().ok()) else {
        return visit(NAME, Leaf::Text(text));
    };
    visit(NUMBER, Leaf::Uint32(number));
    if !name.is_empty() {
        let name = match &text {
            Cow::Borrowed(text) => Cow::Borrowed(text.get(first.len() + 1..).unwrap_or_default()),
            Cow::Owned(_) => Cow::Owned(name.to_string()),
        };
        visit(NAME, Leaf::Text(name));
    }
}

/// Tells `sink` a whole record.
pub(crate) fn emit(
    edition: LegacyEdition,
    id: RecordId,
    data: &Section<'_>,
    sink: &mut impl Sink,
) -> Result<(), MmdbError> {
    let mut leaves = Vec::with_capacity(12);
    each_leaf(edition, id, data, &mut |names, leaf| leaves.push((names, leaf)))?;
    emit_level(&leaves, 0, sink);
    Ok(())
}

/// Tells the map or array that all of `leaves` share the way to.
fn emit_level(leaves: &[(Names, Leaf<'_>)], depth: usize, sink: &mut impl Sink) {
    let name = |leaf: &(Names, Leaf<'_>)| leaf.0.get(depth).copied().unwrap_or_default();
    let groups = || leaves.chunk_by(|one, other| name(one) == name(other));
    let is_array = leaves.first().is_some_and(|leaf| name(leaf) == "0");
    if is_array {
        sink.begin_array(1);
    } else {
        sink.begin_map(groups().count());
    }
    for group in groups() {
        let Some(first) = group.first() else { continue };
        if !is_array {
            sink.key(name(first));
        }
        if first.0.len() == depth + 1 {
            sink.scalar(first.1.scalar());
        } else {
            emit_level(group, depth + 1, sink);
        }
    }
    if is_array {
        sink.end_array();
    } else {
        sink.end_map();
    }
}

/// The leaf at a path, if there is one; nothing else of the record is built.
pub(crate) fn leaf<'a>(
    edition: LegacyEdition,
    id: RecordId,
    data: &Section<'a>,
    path: &FieldPath,
) -> Result<Option<Leaf<'a>>, MmdbError> {
    let mut found = None;
    each_leaf(edition, id, data, &mut |names, leaf| {
        let segments = path.segments();
        let is_here = names.len() == segments.len()
            && names.iter().zip(segments).all(|(&name, segment)| match name {
                "0" => segment.index_in(1) == Some(0),
                _ => segment.text() == name,
            });
        if is_here {
            found = Some(leaf);
        }
    })?;
    Ok(found)
}

/// Whether a record can be read.
pub(crate) fn check(
    edition: LegacyEdition,
    id: RecordId,
    data: &Section<'_>,
) -> Result<(), MmdbError> {
    each_leaf(edition, id, data, &mut |_, _| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (number, code) in [(1, "AP"), (2, "EU"), (77, "GB"), (225, "US"), (255, "O1")] {
            assert_eq!(COUNTRIES[number].code, code);
        }
        assert!(COUNTRIES.iter().all(|country| country.code.len() == 2));
        assert!(COUNTRIES.iter().all(|country| matches!(country.continent.len(), 0 | 2)));
    }

    #[test]
    fn the_number_of_an_autonomous_system_is_told_from_its_name() {
        let leaves = |text: &'static str| {
            let mut leaves = Vec::new();
            autonomous_system(Cow::Borrowed(text), &mut |names, leaf| {
                leaves.push((names[0], leaf));
            });
            leaves
        };
        let number = |number| ("autonomous_system_number", Leaf::Uint32(number));
        let name = |name| ("autonomous_system_organization", Leaf::Text(Cow::Borrowed(name)));
        assert_eq!(leaves("AS1 Level 3"), [number(1), name("Level 3")]);
        assert_eq!(leaves("AS4294967295"), [number(u32::MAX)]);
        for other in ["AS4294967296 x", "AS+1 x", "AS x", "ASIA", ""] {
            assert_eq!(leaves(other), [name(other)]);
        }
    }
}
