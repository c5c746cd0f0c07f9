//! Where addresses are, for rules: a predicate becomes the networks that make it true.
//!
//! For: `src.country`, `src.asn`, any field of a database, distances. Not for: deciding about a
//! packet; the classifier sees classes of addresses only.
//!
//! ```text
//! country, asn, city:city.names.en ──> database and field path ──> each network's value ──> ranges
//! ```
//!
//! Cost: one walk over the database for each predicate and family, each record read once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use whered_geo::Place;
use whered_mmdb::{FieldPath, MmdbError, RecordId, Value};
use whered_rules::normal::Places;
use whered_rules::{Comparison, Family, Point, Predicate, Ranges, Subject};

use crate::databases::NamedDatabase;

/// Short names of fields that rules ask for most.
const SHORT: [(&str, &str); 4] = [
    ("country", "country.iso_code"),
    ("continent", "continent.code"),
    ("asn", "autonomous_system_number"),
    ("city", "city.names.en"),
];

/// The databases of a generation.
pub(crate) struct DatabasePlaces<'a> {
    pub(crate) databases: &'a [Arc<NamedDatabase>],
    /// The one that predicates mean which name none; the first that has the field otherwise.
    pub(crate) default: Option<usize>,
}

/// Whether a record makes a predicate true.
type Holds<'a> = Box<dyn Fn(RecordId) -> Result<bool, MmdbError> + 'a>;

impl Places for DatabasePlaces<'_> {
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String> {
        let (database, holds) = self.test(predicate)?;
        networks_where(database, family, &holds)
    }
}

impl DatabasePlaces<'_> {
    /// Whether a predicate is true of one address; what cannot be read is not.
    pub(crate) fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        let Ok((database, holds)) = self.test(predicate) else {
            return false;
        };
        let found = database.lookup(address).ok().and_then(|found| found.record);
        found.is_some_and(|record| holds(record).unwrap_or(false))
    }

    /// Whether a predicate can be asked at all.
    pub(super) fn check(&self, predicate: &Predicate) -> Result<(), String> {
        self.test(predicate).map(drop)
    }

    fn test<'b>(
        &'b self,
        predicate: &'b Predicate,
    ) -> Result<(&'b NamedDatabase, Holds<'b>), String> {
        let comparison = predicate.comparison;
        match &predicate.subject {
            Subject::Field { path, values } => {
                let (database, path) = self.find(path)?;
                let holds = move |record: RecordId| {
                    let value = database.field(record, &path)?;
                    let fits = |value: &Value| {
                        values.iter().any(|wanted| compare(value, comparison, wanted))
                    };
                    Ok(value.as_ref().is_some_and(fits))
                };
                Ok((database, Box::new(holds)))
            }
            Subject::Distance { point, meters } => {
                let place = place_of(point)?;
                let database = self.default_database()?;
                let longitude: FieldPath = constant_path("location.longitude");
                let latitude: FieldPath = constant_path("location.latitude");
                let holds = move |record: RecordId| {
                    let number = |path| database.database().number(record, path);
                    let at = number(&longitude)?.zip(number(&latitude)?);
                    let at = at.and_then(|(x, y)| Place::new_geographic(x, y).ok());
                    let is_near =
                        |at: Place| matches(at.distance_meters(place), comparison, *meters);
                    Ok(at.is_some_and(is_near))
                };
                Ok((database, Box::new(holds)))
            }
        }
    }
}

impl DatabasePlaces<'_> {
    /// The database and the field that a predicate's path means: `field` or `database:field`.
    fn find(&self, text: &str) -> Result<(&NamedDatabase, FieldPath), String> {
        let (database, field) = match text.split_once(':') {
            Some((name, field)) => (self.named(name)?, field),
            None => (self.with_field(text)?, text),
        };
        let short = SHORT.iter().find(|(short, _)| *short == field);
        let field = short.map_or(field, |(_, path)| path);
        let path = field.parse().map_err(|error| format!("found \"{text}\": {error}"))?;
        Ok((database, path))
    }

    fn named(&self, name: &str) -> Result<&NamedDatabase, String> {
        let found = self.databases.iter().find(|named| named.name == name);
        found.map(|named| &**named).ok_or_else(|| {
            let names: Vec<&str> = self.databases.iter().map(|named| &*named.name).collect();
            format!("found database \"{name}\": allowed are {}", names.join(", "))
        })
    }

    /// `asn` is asked of a database whose type says that it has such numbers, if there is one.
    fn with_field(&self, field: &str) -> Result<&NamedDatabase, String> {
        let has_type = |named: &&Arc<NamedDatabase>| {
            let kind = &named.metadata().database_type;
            kind.contains("ASN") || kind.contains("ISP")
        };
        if field == "asn"
            && let Some(named) = self.databases.iter().find(has_type)
        {
            return Ok(named);
        }
        self.default_database()
    }

    fn default_database(&self) -> Result<&NamedDatabase, String> {
        let index = self.default.unwrap_or(0);
        self.databases
            .get(index)
            .map(|named| &**named)
            .ok_or_else(|| "found a place: there is no [[database]] to find places in".to_owned())
    }
}

/// The networks of one family whose record makes `holds` true; each record is asked once.
fn networks_where(
    named: &NamedDatabase,
    family: Family,
    holds: &Holds<'_>,
) -> Result<Ranges, String> {
    let wrong = |error: MmdbError| format!("database '{}': {error}", named.name);
    let mut known: HashMap<RecordId, bool> = HashMap::new();
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for item in named.database().networks() {
        let (prefix, record) = item.map_err(wrong)?;
        if prefix.is_ipv4() != (family == Family::Ipv4) {
            continue;
        }
        let is_in = match known.get(&record) {
            Some(known) => *known,
            None => {
                let is_in = holds(record).map_err(wrong)?;
                known.insert(record, is_in);
                is_in
            }
        };
        if !is_in {
            continue;
        }
        let (first, bits) = match prefix.address() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let free_bits = bits - u32::from(prefix.length_bits());
        let last = first | u128::MAX.checked_shr(128 - free_bits).unwrap_or(0);
        // Neighbours are joined here: the sorted list stays short.
        match ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            _ => ranges.push((first, last)),
        }
    }
    Ok(Ranges::new(ranges))
}

fn constant_path(text: &str) -> FieldPath {
    text.parse().expect("a constant path of two words")
}

fn place_of(point: &Point) -> Result<Place, String> {
    match point {
        Point::At { longitude_degrees, latitude_degrees } => {
            Place::new_geographic(*longitude_degrees, *latitude_degrees)
                .map_err(|error| error.to_string())
        }
        Point::Named(name) => Err(format!(
            "found point \"{name}\": allowed are a longitude and a latitude, such as 8.68 50.11"
        )),
    }
}

fn compare(value: &Value, comparison: Comparison, wanted: &str) -> bool {
    let number = match value {
        Value::String(text) if comparison == Comparison::Equal => {
            return text.eq_ignore_ascii_case(wanted);
        }
        Value::Boolean(is_so) => return *is_so == wanted.eq_ignore_ascii_case("true"),
        other => number_of(other),
    };
    let wanted = wanted.strip_prefix("AS").unwrap_or(wanted).parse::<f64>();
    number.zip(wanted.ok()).is_some_and(|(number, wanted)| matches(number, comparison, wanted))
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Float(number) => Some(f64::from(*number)),
        Value::Uint16(number) => Some(f64::from(*number)),
        Value::Uint32(number) => Some(f64::from(*number)),
        Value::Uint64(number) => Some(*number as f64),
        Value::Uint128(number) => Some(*number as f64),
        Value::Int32(number) => Some(f64::from(*number)),
        _ => None,
    }
}

fn matches(left: f64, comparison: Comparison, right: f64) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}
