//! A MaxMind DB in the place of a legacy file.
//!
//! Not for reading the format (`whered-mmdb`). A database stands for one edition of libGeoIP: the
//! one that is asked for, or the first that it has the fields for:
//!
//! | edition | fields |
//! | --- | --- |
//! | country, region | `country.iso_code`, `subdivisions` |
//! | city | those, `city.names.en`, `postal.code`, `location` |
//! | ASN | `autonomous_system_number`, `autonomous_system_organization` |
//! | ISP, organization, domain | `isp`, `organization`, `domain` |
//! | netspeed | `connection_type` |
//! | user type, accuracy radius | `user_type`, `location.accuracy_radius` |
//!
//! Fields of a company's database may be below `traits`. Functions of both families answer, and
//! functions of other editions for which there are fields.
//!
//! Numbers: a tree's number is the base for nothing. Countries, speeds and regions have the
//! format's numbers behind it, all other records their offset and one. Invariants: a record or
//! field that breaks the specification counts as absent.

use crate::abi::{INDEX_CACHE, MEMORY_CACHE, MMAP_CACHE};
use crate::countries;
use crate::data::OpenError;
use crate::editions::{self, Content, Edition};
use crate::environment::{self, Preference};
use crate::format::Layout;
use crate::records::{City, Text};
use crate::region;
use crate::region_table;
use crate::source::Source;
use crate::tree::{Address, Leaf};
use std::borrow::Cow;
use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_mmdb::{
    Database, DatabaseIndex, FieldPath, IndexForm, IndexOptions, RecordId, Resident,
};

/// The bytes in front of the metadata, and how far from the end they may be.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
const MAX_METADATA_BYTES: usize = 128 << 10;

/// How many networks are looked at to see which fields a database has.
const SAMPLE: usize = 2_000;

/// A field, and where it is in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
enum Field {
    Country,
    City,
    PostalCode,
    Latitude,
    Longitude,
    MetroCode,
    AsNumber,
    AsOrganization,
    Isp,
    Organization,
    Domain,
    ConnectionType,
    UserType,
    AccuracyRadius,
}

/// The paths of each field, in the order of [`Field`]: the first that a record has counts.
const PATHS: [&[&str]; 14] = [
    &["country.iso_code"],
    &["city.names.en"],
    &["postal.code"],
    &["location.latitude"],
    &["location.longitude"],
    &["location.metro_code"],
    &["autonomous_system_number", "traits.autonomous_system_number"],
    &["autonomous_system_organization", "traits.autonomous_system_organization"],
    &["isp", "traits.isp"],
    &["organization", "traits.organization"],
    &["domain", "traits.domain"],
    &["connection_type", "traits.connection_type"],
    &["user_type", "traits.user_type"],
    &["location.accuracy_radius"],
];

/// How deep subdivisions are looked for.
const SUBDIVISIONS: [&str; 3] =
    ["subdivisions.2.iso_code", "subdivisions.1.iso_code", "subdivisions.0.iso_code"];

/// An opened MaxMind DB.
pub(crate) struct Mmdb {
    database: Database,
    index: Option<DatabaseIndex>,
    edition: &'static Edition,
    paths: Vec<Vec<FieldPath>>,
    subdivisions: Vec<FieldPath>,
    /// Which fields some of the records have, one bit each.
    fields: u32,
}

/// The families of functions that a database can answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    Country,
    Region,
    City,
    Text,
}

impl Mmdb {
    /// Whether a file is a MaxMind DB.
    pub(crate) fn is_one(source: &Source) -> bool {
        let mut near = [0; 4096];
        let has_marker = |tail: &[u8]| tail.windows(MARKER.len()).any(|window| window == MARKER);
        if has_marker(source.tail(&mut near)) {
            return true;
        }
        // Legacy files end with their structure: most need no second look.
        if source.identity.size_bytes <= near.len() as u64 || ends_as_legacy(source) {
            return false;
        }
        let mut far = vec![0; MAX_METADATA_BYTES];
        has_marker(source.tail(&mut far))
    }

    /// Opens a database as the flags say, in the place of an edition if one is asked for.
    pub(crate) fn open(
        source: Source,
        flags: c_int,
        edition: Option<&'static Edition>,
    ) -> Result<Mmdb, OpenError> {
        let preference = environment::preference();
        let database = if flags & MEMORY_CACHE != 0 {
            let bytes = source.read_whole().ok_or(OpenError::Corrupt)?;
            Database::from_bytes(bytes)
        } else if flags & MMAP_CACHE != 0 {
            let map = source.map().map_err(|_| OpenError::Map)?;
            Database::from_bytes(bytes::Bytes::from_owner(map))
        } else {
            let resident = match flags & INDEX_CACHE {
                0 => Resident::Nothing,
                _ => Resident::Tree,
            };
            Database::from_reader(source, resident)
        };
        let database = database.map_err(|_| OpenError::Corrupt)?;
        let parse = |path: &&str| path.parse::<FieldPath>().ok();
        let paths: Vec<Vec<_>> =
            PATHS.iter().map(|paths| paths.iter().filter_map(parse).collect()).collect();
        let subdivisions = SUBDIVISIONS.iter().filter_map(parse).collect();
        let fields = fields_of(&database, &paths);
        let serves = |edition: &&Edition| has_one_of(fields, fields_needed(edition));
        let Some(edition) = edition.or_else(|| edition_of(fields)).filter(serves) else {
            return Err(OpenError::NoMeaning(database.metadata().database_type.clone()));
        };
        let is_indexed = match preference {
            Preference::Index => true,
            Preference::Tree => false,
            Preference::Flags => flags & MEMORY_CACHE != 0,
        };
        let options = IndexOptions { form: IndexForm::Compact, fields: Vec::new() };
        let index = match is_indexed {
            true => DatabaseIndex::build(&database, &options).ok(),
            false => None,
        };
        Ok(Mmdb { database, index, edition, paths, subdivisions, fields })
    }

    /// Whether it has the fields that a function answers from.
    pub(crate) fn answers(&self, question: Question) -> bool {
        match question {
            Question::Country if self.edition.number == editions::NETSPEED => {
                self.has(Field::ConnectionType)
            }
            Question::Country | Question::Region => self.has(Field::Country),
            Question::City => self.has(Field::City) || self.has(Field::Latitude),
            Question::Text => self.text_fields(self.edition).iter().any(|&field| self.has(field)),
        }
    }

    fn has(&self, field: Field) -> bool {
        self.fields & 1 << field as usize != 0
    }

    /// The layout that the handle's public fields show.
    pub(crate) fn layout(&self, size_bytes: u64) -> Layout {
        let base = self.edition.base.unwrap_or(1);
        Layout { edition: self.edition, base, size_bytes }
    }

    pub(crate) fn description(&self) -> String {
        let metadata = self.database.metadata();
        let (_, text) = metadata
            .description
            .iter()
            .find(|(language, _)| language == "en")
            .map_or(("", ""), |(language, text)| (language.as_str(), text.as_str()));
        let day = legacy_date(metadata.build_epoch_seconds);
        format!("{} {day} {text}", metadata.database_type)
    }

    /// The record of an address, and how long its network is.
    fn record(&self, address: Address) -> (Option<RecordId>, u8) {
        let ip = match address.is_ipv6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(address.bits)),
            false => IpAddr::V4(Ipv4Addr::from_bits((address.bits >> 96) as u32)),
        };
        if let Some(index) = &self.index {
            let found = index.lookup(ip);
            return (index.record(found), found.length_bits);
        }
        match self.database.lookup(ip) {
            Ok(answer) => (answer.record, answer.prefix.length_bits()),
            Err(_) => (None, 0),
        }
    }

    /// The number that the edition's tree would have.
    pub(crate) fn seek(&self, address: Address, layout: &Layout) -> Leaf {
        let (record, depth_bits) = self.record(address);
        let behind = match (record, self.edition.content) {
            (None, _) => 0,
            (Some(id), Content::Number) => match self.edition.number {
                editions::NETSPEED => self.speed(id),
                _ => u32::from(self.country_of(id)),
            },
            (Some(id), Content::Region) => self.region_number(id),
            (Some(id), _) => id.to_u32().wrapping_add(1),
        };
        Leaf { number: layout.base.wrapping_add(behind), depth_bits }
    }

    /// The country of an address, or another edition's number in its place.
    pub(crate) fn country(&self, address: Address) -> (u32, u8) {
        let (record, depth_bits) = self.record(address);
        let number = record.map_or(0, |id| match self.edition.number {
            editions::NETSPEED => self.speed(id),
            _ => u32::from(self.country_of(id)),
        });
        (number, depth_bits)
    }

    /// The region of an address: its country, and its code as libGeoIP has it.
    pub(crate) fn region(&self, address: Address) -> (u8, Option<[u8; 2]>, u8) {
        let (record, depth_bits) = self.record(address);
        let country = record.map_or(0, |id| self.country_of(id));
        (country, record.and_then(|id| self.region_of(id, country)), depth_bits)
    }

    pub(crate) fn city<R>(
        &self,
        address: Address,
        hand_on: impl FnOnce(&City<'_>) -> R,
    ) -> (u8, Option<R>) {
        let (record, depth_bits) = self.record(address);
        let Some(id) = record else { return (depth_bits, None) };
        let country = self.country_of(id);
        let region = self.region_of(id, country);
        let [city, postal_code] =
            [Field::City, Field::PostalCode].map(|field| self.field_text(id, field));
        let number = |field| self.number(id, field).unwrap_or(0.0);
        let made = hand_on(&City {
            country,
            region: Text::Latin(region.as_ref().map_or(&[][..], |code| code)),
            city: Text::Utf8(city.as_deref().unwrap_or_default()),
            postal_code: Text::Utf8(postal_code.as_deref().unwrap_or_default()),
            latitude: number(Field::Latitude) as f32,
            longitude: number(Field::Longitude) as f32,
            metro_code: number(Field::MetroCode) as u16,
            area_code: 0,
        });
        (depth_bits, Some(made))
    }

    pub(crate) fn text<R>(
        &self,
        address: Address,
        edition: &Edition,
        hand_on: impl FnOnce(Text<'_>) -> R,
    ) -> (u8, Option<R>) {
        let (record, depth_bits) = self.record(address);
        let text = record.and_then(|id| {
            self.text_fields(edition).iter().find_map(|&field| match field {
                Field::AsNumber => self.autonomous_system(id),
                Field::AccuracyRadius => {
                    self.number(id, field).map(|number| Cow::Owned(format!("{number}")))
                }
                field => self.field_text(id, field),
            })
        });
        (depth_bits, text.map(|text| hand_on(Text::Utf8(&text))))
    }

    /// The fields that are an edition's text, the first that a record has.
    fn text_fields(&self, edition: &Edition) -> &'static [Field] {
        match edition.content {
            Content::Text => fields_needed(edition),
            _ => &[Field::Organization, Field::Isp, Field::AsNumber],
        }
    }

    fn country_of(&self, id: RecordId) -> u8 {
        let code = self.field_text(id, Field::Country);
        code.map_or(0, |code| countries::number(code.as_bytes()))
    }

    /// The code of the innermost subdivision that libGeoIP has one for.
    fn region_of(&self, id: RecordId, country: u8) -> Option<[u8; 2]> {
        self.subdivisions.iter().find_map(|path| {
            let code = self.database.text(id, path).ok()??;
            region_table::code_of_iso(countries::letters(country), code.as_bytes())
        })
    }

    fn region_number(&self, id: RecordId) -> u32 {
        let country = self.country_of(id);
        region::number(country, self.region_of(id, country))
    }

    fn speed(&self, id: RecordId) -> u32 {
        match self.field_text(id, Field::ConnectionType).as_deref() {
            Some("Dialup") => 1,
            Some("Cable/DSL") => 2,
            Some("Corporate") => 3,
            _ => 0,
        }
    }

    fn autonomous_system(&self, id: RecordId) -> Option<Cow<'_, str>> {
        let number = self.number(id, Field::AsNumber)?;
        Some(Cow::Owned(match self.field_text(id, Field::AsOrganization) {
            Some(name) => format!("AS{number} {name}"),
            None => format!("AS{number}"),
        }))
    }

    fn field_text(&self, id: RecordId, field: Field) -> Option<Cow<'_, str>> {
        let paths = self.paths.get(field as usize)?;
        paths.iter().find_map(|path| self.database.text(id, path).ok().flatten())
    }

    fn number(&self, id: RecordId, field: Field) -> Option<f64> {
        let paths = self.paths.get(field as usize)?;
        paths.iter().find_map(|path| self.database.number(id, path).ok().flatten())
    }
}

/// Whether a file ends with the marker of a legacy file.
fn ends_as_legacy(source: &Source) -> bool {
    let mut tail = [0; 23];
    source.tail(&mut tail).windows(3).any(|window| window == [0xff; 3])
}

/// A day as legacy files write it in their copyright text: year, month, day.
fn legacy_date(epoch_seconds: u64) -> String {
    // Years that begin in March put the leap day last; 719,468 days lie before 1970-01-01.
    let days = epoch_seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}")
}

/// Which fields the first records of a database have.
fn fields_of(database: &Database, paths: &[Vec<FieldPath>]) -> u32 {
    let mut fields = 0;
    let mut seen = std::collections::HashSet::new();
    for network in database.networks().take(SAMPLE) {
        let Ok((_, id)) = network else { break };
        if !seen.insert(id) {
            continue;
        }
        for (number, paths) in paths.iter().enumerate() {
            let is_there = |path: &FieldPath| {
                matches!(database.text(id, path), Ok(Some(_)))
                    || matches!(database.number(id, path), Ok(Some(_)))
            };
            if fields & 1 << number == 0 && paths.iter().any(is_there) {
                fields |= 1 << number;
            }
        }
    }
    fields
}

/// The edition that a database stands for when nobody asks for one.
fn edition_of(fields: u32) -> Option<&'static Edition> {
    let order = [
        editions::CITY_REV1,
        editions::COUNTRY,
        editions::ORGANIZATION,
        editions::ISP,
        editions::AS_NUMBER,
        editions::DOMAIN,
        editions::NETSPEED_REV1,
    ];
    let mut named = order.into_iter().filter_map(editions::named);
    named.find(|edition| has_one_of(fields, fields_needed(edition)))
}

/// Whether one of these fields is among those that records have.
fn has_one_of(fields: u32, needed: &[Field]) -> bool {
    needed.iter().any(|&field| fields & 1 << field as usize != 0)
}

/// The fields of which an edition needs one. For those of texts, they are also the texts, the first
/// that a record has.
fn fields_needed(edition: &Edition) -> &'static [Field] {
    match edition.number {
        editions::NETSPEED | editions::NETSPEED_REV1 | editions::NETSPEED_REV1_V6 => {
            &[Field::ConnectionType]
        }
        editions::AS_NUMBER | editions::AS_NUMBER_V6 => &[Field::AsNumber],
        editions::ISP | editions::ISP_V6 => &[Field::Isp],
        editions::ORGANIZATION | editions::ORGANIZATION_V6 => &[Field::Organization],
        editions::DOMAIN | editions::DOMAIN_V6 => &[Field::Domain],
        editions::USER_TYPE | editions::USER_TYPE_V6 => &[Field::UserType],
        editions::ACCURACY_RADIUS | editions::ACCURACY_RADIUS_V6 => &[Field::AccuracyRadius],
        editions::PROXY => &[],
        _ => match edition.content {
            Content::Number | Content::Region => &[Field::Country],
            Content::City => &[Field::City, Field::PostalCode, Field::Latitude],
            Content::Text => &[],
        },
    }
}
