//! MaxMind's split tables: Blocks, whose rows have numbers of places, joined with Locations, whose
//! rows say what these are in one language.
//!
//! Not for Blocks alone, which are a table like any other. Locations come first and stay in
//! memory, each distinct text once; several files of them give names in several languages.
//!
//! ```text
//! Blocks     network, geoname_id, registered_country_geoname_id, ..., latitude, longitude, ...
//! Locations  geoname_id, locale_code, continent_code, continent_name, country_iso_code, ...
//! ```
//!
//! The tables leave out what the numbers of continents, countries and subdivisions are. Those of
//! continents are fixed; those of a country or subdivision are the number of the row that has no
//! name below it. Cost: linear in the rows; a record is made once for equal cells.
#![deny(clippy::indexing_slicing)]

use super::cell::CellType;
use super::columns::plain_name;
use super::table::{Row, TableReader};
use super::template::WrongCell;
use super::{RowsError, columns::Columns};
use crate::error::shown;
use crate::value::Value;
use std::collections::HashMap;
use std::io::Read;

/// The numbers of the continents in GeoNames.
const CONTINENTS: &[(&str, u32)] = &[
    ("AF", 6_255_146),
    ("AN", 6_255_152),
    ("AS", 6_255_147),
    ("EU", 6_255_148),
    ("NA", 6_255_149),
    ("OC", 6_255_151),
    ("SA", 6_255_150),
];

/// The levels of a place, the widest first.
const LEVELS: usize = 5;
const CONTINENT: usize = 0;
const COUNTRY: usize = 1;
const CITY: usize = 4;

/// The columns with code and name of each level, as [`plain_name`] has them.
const LEVEL_COLUMNS: [(Option<&str>, &str); LEVELS] = [
    (Some("continentcode"), "continentname"),
    (Some("countryisocode"), "countryname"),
    (Some("subdivision1isocode"), "subdivision1name"),
    (Some("subdivision2isocode"), "subdivision2name"),
    (None, "cityname"),
];

/// The number of a text in [`StringPool`]; 0 is the empty one.
type TextId = u32;

/// Distinct texts.
#[derive(Debug, Default)]
struct StringPool {
    ids: HashMap<Box<str>, TextId>,
    texts: Vec<Box<str>>,
}

impl StringPool {
    fn id(&mut self, text: &str) -> TextId {
        if text.is_empty() {
            return 0;
        }
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        self.texts.push(text.into());
        // Fewer than 2^32 texts fit into any memory that reads them.
        let id = self.texts.len() as TextId;
        self.ids.insert(text.into(), id);
        id
    }

    fn get(&self, id: TextId) -> &str {
        (id as usize).checked_sub(1).and_then(|index| self.texts.get(index)).map_or("", |text| text)
    }
}

/// What Locations say of one number.
#[derive(Debug, Default)]
struct Location {
    codes: [TextId; LEVELS],
    metro_code: TextId,
    time_zone: TextId,
    is_in_european_union: bool,
    /// A language with its names.
    names: Vec<(TextId, [TextId; LEVELS])>,
}

/// The Locations that were read.
#[derive(Debug, Default)]
pub(super) struct Locations {
    texts: StringPool,
    locations: HashMap<u32, Location>,
    /// The languages that came.
    locales: Vec<TextId>,
    /// The numbers of countries and subdivisions, by their codes from the country on.
    numbers: HashMap<[TextId; 3], u32>,
}

/// Where the columns of a file of Locations are.
struct LocationColumns {
    geoname_id: Option<usize>,
    locale_code: Option<usize>,
    metro_code: Option<usize>,
    time_zone: Option<usize>,
    is_in_european_union: Option<usize>,
    /// Code and name of each level.
    levels: [(Option<usize>, Option<usize>); LEVELS],
}

impl LocationColumns {
    fn new(names: &[String]) -> LocationColumns {
        let find = |wanted: &str| names.iter().position(|name| plain_name(name) == wanted);
        LocationColumns {
            geoname_id: find("geonameid"),
            locale_code: find("localecode"),
            metro_code: find("metrocode"),
            time_zone: find("timezone"),
            is_in_european_union: find("isineuropeanunion"),
            levels: LEVEL_COLUMNS.map(|(code, name)| (code.and_then(find), find(name))),
        }
    }
}

/// Whether a header is that of Locations.
pub(super) fn is_header(names: &[String]) -> bool {
    let has = |wanted: &str| names.iter().any(|name| plain_name(name) == wanted);
    has("geonameid") && has("localecode")
}

impl Locations {
    pub(super) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// The languages of the names, in order.
    pub(super) fn languages(&self) -> Vec<String> {
        let locales = self.locales.iter().map(|locale| self.texts.get(*locale).to_string());
        let mut languages: Vec<String> = locales.collect();
        languages.sort();
        languages
    }

    /// Reads a file of Locations behind its header; `skip` takes faults that are passed over.
    pub(super) fn read<R: Read>(
        &mut self,
        names: &[String],
        reader: &mut TableReader<R>,
        mut skip: impl FnMut(RowsError) -> Result<(), RowsError>,
    ) -> Result<u64, RowsError> {
        let columns = LocationColumns::new(names);
        let mut row = Row::default();
        let mut count = 0;
        loop {
            match reader.read(&mut row) {
                Ok(true) => {}
                Ok(false) => return Ok(count),
                Err(error) => {
                    skip(error)?;
                    reader.skip_line()?;
                    continue;
                }
            }
            match self.add(&row, names.len(), &columns) {
                Ok(()) => count += 1,
                Err(error) => skip(error)?,
            }
        }
    }

    fn add(&mut self, row: &Row, count: usize, columns: &LocationColumns) -> Result<(), RowsError> {
        if row.len() != count {
            let allowed = format!("{count}, one for each column");
            return Err(RowsError::new(row.line, "", format!("{} cells", row.len()), allowed));
        }
        let text = |(column, name): (Option<usize>, &str)| {
            let Some(column) = column else { return Ok("") };
            std::str::from_utf8(row.cell(column)).map_err(|_| {
                let found = shown(&String::from_utf8_lossy(row.cell(column)));
                RowsError::new(row.line, name, format!("\"{found}\""), "text in UTF-8")
            })
        };
        let number = text((columns.geoname_id, "geoname_id"))?;
        let geoname_id: u32 = number.parse().map_err(|_| {
            let found = format!("\"{}\"", shown(number));
            RowsError::new(row.line, "geoname_id", found, "whole numbers from 0 to 4294967295")
        })?;
        let mut codes = [0; LEVELS];
        let mut level_names = [0; LEVELS];
        for (level, &(code, name)) in columns.levels.iter().enumerate() {
            let (code, name) = (text((code, "code"))?, text((name, "name"))?);
            if let Some(slot) = codes.get_mut(level) {
                *slot = self.texts.id(code);
            }
            if let Some(slot) = level_names.get_mut(level) {
                *slot = self.texts.id(name);
            }
        }
        let locale = match text((columns.locale_code, "locale_code"))? {
            "" => "en",
            locale => locale,
        };
        let locale = self.texts.id(locale);
        let metro_code = self.texts.id(text((columns.metro_code, "metro_code"))?);
        let time_zone = self.texts.id(text((columns.time_zone, "time_zone"))?);
        let is_member = text((columns.is_in_european_union, "is_in_european_union"))?;
        let is_in_european_union = matches!(is_member, "1" | "true");
        if !self.locales.contains(&locale) {
            self.locales.push(locale);
        }
        let location = self.locations.entry(geoname_id).or_default();
        let names = std::mem::take(&mut location.names);
        *location = Location { codes, metro_code, time_zone, is_in_european_union, names };
        location.names.retain(|(other, _)| *other != locale);
        location.names.push((locale, level_names));
        Ok(())
    }

    /// Finds the numbers of countries and subdivisions, once all Locations were read: a city may
    /// have its name in one language only. Of several numbers the lowest counts.
    pub(super) fn number_levels(&mut self) {
        self.numbers.clear();
        for (geoname_id, location) in &self.locations {
            let has_name =
                |names: &[TextId; LEVELS]| names.get(CITY).is_some_and(|name| *name != 0);
            let [_, country, first, second, _] = location.codes;
            if country == 0 || location.names.iter().any(|(_, names)| has_name(names)) {
                continue;
            }
            let number = self.numbers.entry([country, first, second]).or_insert(*geoname_id);
            *number = (*number).min(*geoname_id);
        }
    }

    fn names(&self, location: &Location, level: usize) -> Option<Value> {
        let names: Vec<(String, Value)> = location
            .names
            .iter()
            .filter_map(|(locale, names)| {
                let name = names.get(level).copied().filter(|name| *name != 0)?;
                let name = Value::String(self.texts.get(name).to_string());
                Some((self.texts.get(*locale).to_string(), name))
            })
            .collect();
        (!names.is_empty()).then_some(Value::Map(names))
    }

    fn code(&self, location: &Location, level: usize) -> Option<Value> {
        let code = location.codes.get(level).copied().filter(|code| *code != 0)?;
        Some(Value::String(self.texts.get(code).to_string()))
    }

    /// The country of a location; `own` is its number where the location is the country.
    fn country(&self, location: &Location, own: Option<u32>) -> Option<Value> {
        let code = self.code(location, COUNTRY)?;
        let [_, country, ..] = location.codes;
        let number = own.or_else(|| self.numbers.get(&[country, 0, 0]).copied());
        let is_member = location.is_in_european_union.then_some(Value::Boolean(true));
        Some(map([
            ("geoname_id", number.map(Value::Uint32)),
            ("is_in_european_union", is_member),
            ("iso_code", Some(code)),
            ("names", self.names(location, COUNTRY)),
        ]))
    }

    fn continent(&self, location: &Location) -> Option<Value> {
        let code = self.code(location, CONTINENT)?;
        let number = CONTINENTS.iter().find(|(other, _)| code.as_str() == Some(other));
        Some(map([
            ("geoname_id", number.map(|(_, number)| Value::Uint32(*number))),
            ("code", Some(code)),
            ("names", self.names(location, CONTINENT)),
        ]))
    }

    fn city(&self, location: &Location, geoname_id: u32) -> Option<Value> {
        let names = self.names(location, CITY)?;
        Some(map([("geoname_id", Some(Value::Uint32(geoname_id))), ("names", Some(names))]))
    }

    fn subdivisions(&self, location: &Location) -> Option<Value> {
        let [_, country, first, second, _] = location.codes;
        let levels = [(2, [country, first, 0]), (3, [country, first, second])];
        let parts: Vec<Value> = levels
            .into_iter()
            .filter_map(|(level, codes)| {
                let (code, names) = (self.code(location, level), self.names(location, level));
                if code.is_none() && names.is_none() {
                    return None;
                }
                let number = code.is_some().then(|| self.numbers.get(&codes).copied()).flatten();
                let number = number.map(Value::Uint32);
                Some(map([("geoname_id", number), ("iso_code", code), ("names", names)]))
            })
            .collect();
        (!parts.is_empty()).then_some(Value::Array(parts))
    }
}

/// A map of the entries that are there.
fn map<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    let entries = entries.into_iter();
    Value::Map(entries.filter_map(|(key, value)| Some((key.to_string(), value?))).collect())
}

/// What a column of Blocks is.
#[derive(Debug, Clone)]
enum BlockColumn {
    Network,
    Place,
    Registered,
    Represented,
    Postal,
    Location(&'static str, CellType),
    /// A boolean of `traits`, which is there only if it is true.
    Flag(String),
    /// Another field of `traits`.
    Trait(String),
}

/// The columns of a file of Blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    columns: Vec<BlockColumn>,
}

impl Blocks {
    /// Of a header with numbers of places; `None` for any other.
    pub(super) fn new(columns: &Columns) -> Option<Blocks> {
        let is_place = |name: &String| plain_name(name) == "geonameid";
        if !columns.names.iter().any(is_place) {
            return None;
        }
        let column = |(index, name): (usize, &String)| {
            if columns.network.has(index) {
                return BlockColumn::Network;
            }
            match plain_name(name).as_str() {
                "geonameid" => BlockColumn::Place,
                "registeredcountrygeonameid" => BlockColumn::Registered,
                "representedcountrygeonameid" => BlockColumn::Represented,
                "postalcode" => BlockColumn::Postal,
                "latitude" => BlockColumn::Location("latitude", CellType::Double),
                "longitude" => BlockColumn::Location("longitude", CellType::Double),
                "accuracyradius" => BlockColumn::Location("accuracy_radius", CellType::Uint16),
                plain if plain.starts_with("is") && name.contains('_') => {
                    BlockColumn::Flag(name.clone())
                }
                _ => BlockColumn::Trait(name.clone()),
            }
        };
        Some(Blocks { columns: columns.names.iter().enumerate().map(column).collect() })
    }

    /// The record of a row; an empty one if nothing is known.
    pub(super) fn value(&self, row: &Row, locations: &Locations) -> Result<Value, WrongCell> {
        let (mut place, mut registered, mut represented, mut postal) = (None, None, None, None);
        let (mut coordinates, mut traits) = (Vec::new(), Vec::new());
        for (column, kind) in self.columns.iter().enumerate() {
            let wrong = |allowed: String| WrongCell { column, allowed };
            let text = std::str::from_utf8(row.cell(column))
                .map_err(|_| wrong("text in UTF-8".to_string()))?;
            if text.is_empty() {
                continue;
            }
            let find = || {
                let known = text
                    .parse()
                    .ok()
                    .and_then(|number: u32| Some((number, locations.locations.get(&number)?)));
                known.ok_or_else(|| wrong("numbers that the Locations have".to_string()))
            };
            match kind {
                BlockColumn::Network => {}
                BlockColumn::Place => place = Some(find()?),
                BlockColumn::Registered => {
                    let (number, location) = find()?;
                    registered = locations.country(location, Some(number));
                }
                BlockColumn::Represented => {
                    let (number, location) = find()?;
                    represented = locations.country(location, Some(number));
                }
                BlockColumn::Postal => {
                    postal = Some(map([("code", Some(Value::String(text.to_string())))]));
                }
                BlockColumn::Location(name, cell_type) => {
                    let value = cell_type.parse(text).map_err(wrong)?;
                    coordinates.push(((*name).to_string(), value));
                }
                BlockColumn::Flag(name) => match CellType::Boolean.parse(text).map_err(wrong)? {
                    Value::Boolean(false) => {}
                    value => traits.push((name.clone(), value)),
                },
                BlockColumn::Trait(name) => {
                    traits.push((name.clone(), Value::String(text.to_string())));
                }
            }
        }
        if let Some((_, location)) = place {
            let metro_code = locations.texts.get(location.metro_code).parse();
            coordinates.extend(
                metro_code.ok().map(|code| ("metro_code".to_string(), Value::Uint16(code))),
            );
            let time_zone = locations.texts.get(location.time_zone);
            if !time_zone.is_empty() {
                let time_zone = Value::String(time_zone.to_string());
                coordinates.push(("time_zone".to_string(), time_zone));
            }
        }
        let filled = |pairs: Vec<(String, Value)>| (!pairs.is_empty()).then_some(Value::Map(pairs));
        Ok(map([
            ("city", place.and_then(|(number, location)| locations.city(location, number))),
            ("continent", place.and_then(|(_, location)| locations.continent(location))),
            ("country", place.and_then(|(_, location)| locations.country(location, None))),
            ("location", filled(coordinates)),
            ("postal", postal),
            ("registered_country", registered),
            ("represented_country", represented),
            ("subdivisions", place.and_then(|(_, location)| locations.subdivisions(location))),
            ("traits", filled(traits)),
        ]))
    }
}
