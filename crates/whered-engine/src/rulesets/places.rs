//! Where addresses are, for rules: a predicate becomes the networks that make it true.
//!
//! For: `src.country`, `src.asn`, any field of a database, distances. Not for: deciding about a
//! packet; the classifier sees classes of addresses only.
//!
//! ```text
//! country, asn, city:city.names.en ──> database and field path ──> each network's value ──> ranges
//! ```
//!
//! Cost: one walk over each database that is asked, for each family; of each record every field
//! that predicates ask for is read once. Some 0.3 s for 3.7 million networks.

use std::collections::{BTreeSet, HashMap, HashSet};
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

/// What a predicate asks of a record.
enum Question<'a> {
    /// A field's value fits one of these.
    Field { path: FieldPath, values: &'a [String] },
    /// Its place is so far from this one.
    Distance { place: Place, meters: f64 },
}

/// A predicate and the database that knows.
struct RuleAnswer<'a> {
    named: &'a NamedDatabase,
    question: Question<'a>,
    comparison: Comparison,
}

impl RuleAnswer<'_> {
    /// Whether a record makes it true.
    fn holds(&self, record: RecordId) -> Result<bool, MmdbError> {
        match &self.question {
            Question::Field { path, .. } => {
                let value = self.named.field(record, path)?;
                Ok(value.is_some_and(|value| self.fits(&value)))
            }
            Question::Distance { place, meters } => {
                let at = place_of_record(self.named, record)?;
                let is_near =
                    |at: Place| matches(at.distance_meters(*place), self.comparison, *meters);
                Ok(at.is_some_and(is_near))
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match &self.question {
            Question::Field { values, .. } => {
                values.iter().any(|wanted| compare(value, self.comparison, wanted))
            }
            Question::Distance { .. } => false,
        }
    }
}

fn place_of_record(named: &NamedDatabase, record: RecordId) -> Result<Option<Place>, MmdbError> {
    let number = |path: &str| named.database().number(record, &constant_path(path));
    let at = number("location.longitude")?.zip(number("location.latitude")?);
    Ok(at.and_then(|(x, y)| Place::new_geographic(x, y).ok()))
}

impl Places for DatabasePlaces<'_> {
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String> {
        let answer = self.resolve_all(&[predicate], family).pop();
        answer.unwrap_or_else(|| Ok(Ranges::empty()))
    }

    fn resolve_all(
        &self,
        predicates: &[&Predicate],
        family: Family,
    ) -> Vec<Result<Ranges, String>> {
        let asked: Vec<_> = predicates.iter().map(|predicate| self.asked(predicate)).collect();
        let mut answers: Vec<Result<Ranges, String>> = asked
            .iter()
            .map(|one| one.as_ref().map(|_| Ranges::empty()).map_err(Clone::clone))
            .collect();
        for named in self.databases {
            let is_of = |one: &RuleAnswer<'_>| std::ptr::eq(one.named, &**named);
            let of_it: Vec<(usize, &RuleAnswer<'_>)> = asked
                .iter()
                .enumerate()
                .filter_map(|(number, one)| {
                    Some((number, one.as_ref().ok().filter(|one| is_of(one))?))
                })
                .collect();
            if of_it.is_empty() {
                continue;
            }
            match networks_where(named, family, &of_it) {
                Ok(lists) => {
                    for ((number, _), ranges) in of_it.iter().zip(lists) {
                        answers[*number] = Ok(Ranges::new(ranges));
                    }
                }
                Err(error) => {
                    let message = format!("database '{}': {error}", named.name);
                    of_it.iter().for_each(|(number, _)| answers[*number] = Err(message.clone()));
                }
            }
        }
        answers
    }
}

impl DatabasePlaces<'_> {
    /// Whether a predicate is true of one address; what cannot be read is not.
    pub(crate) fn is_at(&self, predicate: &Predicate, address: IpAddr) -> bool {
        let Ok(asked) = self.asked(predicate) else {
            return false;
        };
        let found = asked.named.lookup(address).ok().and_then(|found| found.record);
        found.is_some_and(|record| asked.holds(record).unwrap_or(false))
    }

    /// The database that a predicate is about.
    pub(crate) fn database_of(&self, predicate: &Predicate) -> Option<Arc<NamedDatabase>> {
        let asked = self.asked(predicate).ok()?;
        let found = self.databases.iter().find(|named| std::ptr::eq(&***named, asked.named));
        found.map(Arc::clone)
    }

    /// Whether a predicate can be asked at all, and asks for a field that any record has: one that
    /// no record has is nearly always mistyped, and is true of no address.
    pub(super) fn check(&self, predicate: &Predicate) -> Result<(), String> {
        let asked = self.asked(predicate)?;
        match (&predicate.subject, &asked.question) {
            (Subject::Field { path: text, .. }, Question::Field { path, .. }) => {
                check_field(asked.named, text, path)
            }
            _ => Ok(()),
        }
    }

    fn asked<'b>(&'b self, predicate: &'b Predicate) -> Result<RuleAnswer<'b>, String> {
        let comparison = predicate.comparison;
        match &predicate.subject {
            Subject::Field { path, values } => {
                let (named, path) = self.find(path)?;
                Ok(RuleAnswer { named, question: Question::Field { path, values }, comparison })
            }
            Subject::Distance { point, meters } => {
                let place = place_of(point)?;
                let named = self.default_database()?;
                let question = Question::Distance { place, meters: *meters };
                Ok(RuleAnswer { named, question, comparison })
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

/// Looks for a record that has the field; the first one usually has.
fn check_field(named: &NamedDatabase, text: &str, path: &FieldPath) -> Result<(), String> {
    /// How many records are looked at for the fields that there are, and how many of those are
    /// told.
    const LOOKED_AT: usize = 1000;
    const TOLD: usize = 20;
    let wrong = |error: MmdbError| format!("database '{}': {error}", named.name);
    let mut known: HashSet<RecordId> = HashSet::new();
    let mut fields = BTreeSet::new();
    for item in named.database().networks() {
        let (_, record) = item.map_err(wrong)?;
        if !known.insert(record) {
            continue;
        }
        if named.field(record, path).map_err(wrong)?.is_some() {
            return Ok(());
        }
        if known.len() <= LOOKED_AT
            && let Value::Map(entries) = named.database().record(record).map_err(wrong)?
        {
            fields.extend(entries.into_iter().map(|(name, _)| name));
        }
    }
    if known.is_empty() {
        return Ok(());
    }
    let fields: Vec<String> = fields.into_iter().take(TOLD).collect();
    Err(format!(
        "found \"{text}\": no record of database '{}' has that field: allowed are those that have \
         values, in {}",
        named.name,
        fields.join(", ")
    ))
}

/// What one database is asked, with each field that predicates ask for once.
struct Questions<'a> {
    named: &'a NamedDatabase,
    /// A field, and the predicates about it by their place in the list.
    fields: Vec<(&'a FieldPath, Vec<(u32, &'a RuleAnswer<'a>)>)>,
    others: Vec<(u32, &'a RuleAnswer<'a>)>,
}

impl<'a> Questions<'a> {
    fn new(named: &'a NamedDatabase, asked: &[(usize, &'a RuleAnswer<'a>)]) -> Questions<'a> {
        let mut questions = Questions { named, fields: Vec::new(), others: Vec::new() };
        for (&(_, one), place) in asked.iter().zip(0..) {
            let Question::Field { path, .. } = &one.question else {
                questions.others.push((place, one));
                continue;
            };
            match questions.fields.iter_mut().find(|(known, _)| *known == path) {
                Some((_, list)) => list.push((place, one)),
                None => questions.fields.push((path, vec![(place, one)])),
            }
        }
        questions
    }

    /// Which predicates a record makes true.
    fn truths(&self, record: RecordId) -> Result<Vec<u32>, MmdbError> {
        let mut truths = Vec::new();
        for (path, list) in &self.fields {
            let Some(value) = self.named.field(record, path)? else { continue };
            truths.extend(list.iter().filter(|(_, one)| one.fits(&value)).map(|(place, _)| *place));
        }
        for (place, one) in &self.others {
            if one.holds(record)? {
                truths.push(*place);
            }
        }
        Ok(truths)
    }
}

/// For each predicate the networks of one family whose record makes it true; each record is asked
/// once.
fn networks_where(
    named: &NamedDatabase,
    family: Family,
    asked: &[(usize, &RuleAnswer<'_>)],
) -> Result<Vec<Vec<(u128, u128)>>, MmdbError> {
    let questions = Questions::new(named, asked);
    let mut known: HashMap<RecordId, Box<[u32]>> = HashMap::new();
    let mut lists: Vec<Vec<(u128, u128)>> = vec![Vec::new(); asked.len()];
    for item in named.database().networks() {
        let (prefix, record) = item?;
        match (prefix.is_ipv4(), family) {
            // Networks come in the order of addresses, those of IPv4 first.
            (false, Family::Ipv4) => break,
            (true, Family::Ipv6) => continue,
            _ => {}
        }
        let truths = match known.get(&record) {
            Some(known) => known,
            None => &*known.entry(record).or_insert(questions.truths(record)?.into()),
        };
        if truths.is_empty() {
            continue;
        }
        let (first, bits) = match prefix.address() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let free_bits = bits - u32::from(prefix.length_bits());
        let last = first | u128::MAX.checked_shr(128 - free_bits).unwrap_or(0);
        for &place in truths {
            let ranges = &mut lists[place as usize];
            // Neighbours are joined here: the sorted list stays short.
            match ranges.last_mut() {
                Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
                _ => ranges.push((first, last)),
            }
        }
    }
    Ok(lists)
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
