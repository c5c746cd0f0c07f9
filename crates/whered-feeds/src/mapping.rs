//! A compiled mapping: every path is a slot, and every role is a list of slots.
//!
//! For: [`Mapping::scan`], and callers that need to know which fields records will have. Not for:
//! how the formats are read (`xml`, `json`, `rows`), nor what texts mean (`assemble.rs`).
//!
//! ```text
//! paths   @object   @x   @y   @t   @level         a path that is written twice has one slot
//! slots      0       1    2    3      4
//! roles   member=[0] longitude=[1] latitude=[2] time=[3] fields=[level:[4]]
//! ```
//!
//! Invariant: a role has at least one slot, and every slot one path of the mapping's format.
//! Cost: compiling is linear in the text; a mapping is immutable.

use crate::error::{MappingError, UploadError};
use crate::event::{Events, Totals};
use crate::json::JsonPaths;
use crate::rows::RowPaths;
use crate::source::{FieldKind, Format, MappingSource};
use crate::xml::XmlPaths;
use crate::zone::Zone;
use crate::{json, rows, upload, xml};

/// Reads uploads of one feed. Made by [`MappingSource::compile`].
#[derive(Clone, Debug)]
pub struct Mapping {
    pub(crate) format: Format,
    pub(crate) paths: Paths,
    pub(crate) roles: Roles,
    pub(crate) fields: Vec<Field>,
    pub(crate) zones: Vec<Zone>,
}

/// The slots' paths in the format's own form.
#[derive(Clone, Debug)]
pub(crate) enum Paths {
    Xml(XmlPaths),
    Json(JsonPaths),
    Rows(RowPaths),
}

/// Which slots a role may be taken from; the first that is there counts.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) first: usize,
    /// Most have none.
    pub(crate) others: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Roles {
    pub(crate) member: Role,
    pub(crate) place: PlaceRoles,
    pub(crate) time: Option<Role>,
    pub(crate) has_items: bool,
    pub(crate) slot_count: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum PlaceRoles {
    None,
    Degrees { longitude: Role, latitude: Role },
    Zone { zone: Role, x: Role, y: Role },
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    pub(crate) role: Role,
}

/// Collects paths and gives them slots; a path that is known already keeps its own.
struct Slots {
    format: Format,
    paths: Vec<String>,
}

impl Slots {
    fn role(&mut self, key: &str, text: &str) -> Result<Role, MappingError> {
        let several = matches!(self.format, Format::Xml | Format::Gpx);
        let parts: Vec<&str> = if several { text.split('|').collect() } else { vec![text] };
        let mut slots = Vec::new();
        for part in parts {
            let part = if several { part.trim() } else { part };
            if part.is_empty() {
                return Err(MappingError::new(key, format!("{text:?}"), path_help(self.format)));
            }
            let known = self.paths.iter().position(|path| path == part);
            slots.push(known.unwrap_or_else(|| {
                self.paths.push(part.to_owned());
                self.paths.len() - 1
            }));
        }
        // A text that is split has a first part.
        Ok(Role { first: slots[0], others: slots.split_off(1) })
    }

    fn optional(&mut self, key: &str, text: Option<&str>) -> Result<Option<Role>, MappingError> {
        text.map(|text| self.role(key, text)).transpose()
    }
}

/// The form of a format's paths, for error messages.
pub(crate) fn path_help(format: Format) -> &'static str {
    match format {
        Format::Xml | Format::Gpx => {
            "a path such as @attribute, child, child/@attribute, ../@attribute or ."
        }
        Format::Ndjson => "a dotted path such as position.x",
        Format::Csv | Format::Tsv => "a column's name, or its number from 1 as #1",
    }
}

impl Mapping {
    pub(crate) fn compile(mut source: MappingSource) -> Result<Mapping, MappingError> {
        if source.format == Format::Gpx {
            fill_gpx(&mut source);
        }
        let mut slots = Slots { format: source.format, paths: Vec::new() };
        let member = slots.role("member", &source.member)?;
        let place = place_roles(&source, &mut slots)?;
        let time = slots.optional("time", source.time.as_deref())?;
        let mut fields: Vec<Field> = Vec::new();
        for (name, path, kind) in &source.fields {
            let key = format!("fields.{name}");
            if name.is_empty() || fields.iter().any(|field| field.name == *name) {
                let found = format!("the name {name:?}");
                return Err(MappingError::new(key, found, "a name of its own for each field"));
            }
            let role = slots.role(&key, path)?;
            fields.push(Field { name: name.clone(), kind: *kind, role });
        }
        let has_items = source.items.is_some();
        let paths = match source.format {
            Format::Xml | Format::Gpx => Paths::Xml(XmlPaths::compile(&source, &slots.paths)?),
            Format::Ndjson => Paths::Json(JsonPaths::compile(&source, &slots.paths)?),
            Format::Csv | Format::Tsv => Paths::Rows(RowPaths::compile(&source, &slots.paths)?),
        };
        let roles = Roles { member, place, time, has_items, slot_count: slots.paths.len() };
        Ok(Mapping { format: source.format, paths, roles, fields, zones: source.zones })
    }

    /// The format of the uploads.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The fields' names and kinds, in the order in which records have them.
    pub fn fields(&self) -> impl Iterator<Item = (&str, FieldKind)> {
        self.fields.iter().map(|field| (field.name.as_str(), field.kind))
    }

    /// Whether records may have items.
    #[must_use]
    pub fn has_items(&self) -> bool {
        self.roles.has_items
    }

    /// Whether every record has a place; without it, none has.
    #[must_use]
    pub fn has_place(&self) -> bool {
        !matches!(self.roles.place, PlaceRoles::None)
    }

    /// Whether records may have a time.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.roles.time.is_some()
    }

    /// A cheap look before an upload is kept: that there is something, that it is the right kind
    /// of text, and for rows that the header has the columns. It reads the beginning only.
    ///
    /// # Errors
    ///
    /// [`UploadError`] if nothing in the upload could be read.
    ///
    /// ```
    /// use whered_feeds::{Format, MappingSource};
    /// let mut source = MappingSource::new(Format::Ndjson);
    /// source.member = "object".to_owned();
    /// let mapping = source.compile()?;
    /// assert!(mapping.check(b"{\"object\":7}\n").is_ok());
    /// let error = mapping.check(b"<upload/>").unwrap_err();
    /// assert_eq!(error.to_string(), "byte 0: '<' where each line is a JSON object; is it XML?");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, upload: &[u8]) -> Result<(), UploadError> {
        let start = upload::begin(upload)?;
        match &self.paths {
            Paths::Xml(paths) => xml::check(paths, upload, start),
            Paths::Json(_) => json::check(upload, start),
            Paths::Rows(paths) => rows::check(paths, upload, start),
        }
    }

    /// Reads all records in the order of the upload; those that are wrong are rejected one by one.
    ///
    /// # Errors
    ///
    /// [`UploadError`] if the rest cannot be read; what came before has been handed out and stays
    /// right.
    pub fn scan<E: Events>(&self, upload: &[u8], events: &mut E) -> Result<Totals, UploadError> {
        self.scan_with(upload, events, true)
    }

    /// The naive twin of [`scan`](Mapping::scan): the same without the quick scanners. For tests.
    ///
    /// # Errors
    ///
    /// As [`scan`](Mapping::scan).
    #[doc(hidden)]
    pub fn scan_by_library<E: Events>(
        &self,
        upload: &[u8],
        events: &mut E,
    ) -> Result<Totals, UploadError> {
        self.scan_with(upload, events, false)
    }

    fn scan_with<E: Events>(
        &self,
        upload: &[u8],
        events: &mut E,
        quick: bool,
    ) -> Result<Totals, UploadError> {
        let start = upload::begin(upload)?;
        match &self.paths {
            Paths::Xml(paths) => xml::scan(self, paths, upload, start, events, quick),
            Paths::Json(paths) => json::scan(self, paths, upload, start, events, quick),
            Paths::Rows(paths) => rows::scan(self, paths, upload, start, events, quick),
        }
    }
}

/// Fills in the names of GPX that the configuration leaves out.
fn fill_gpx(source: &mut MappingSource) {
    if source.record.is_empty() {
        source.record = "gpx/wpt|gpx/rte/rtept|gpx/trk/trkseg/trkpt".to_owned();
    }
    if source.member.is_empty() {
        source.member = "name|../name|../../name".to_owned();
    }
    let no_place = source.zone.is_none() && source.x.is_none() && source.y.is_none();
    if no_place && source.longitude.is_none() && source.latitude.is_none() {
        source.longitude = Some("@lon".to_owned());
        source.latitude = Some("@lat".to_owned());
    }
    source.time.get_or_insert_with(|| "time".to_owned());
}

fn place_roles(source: &MappingSource, slots: &mut Slots) -> Result<PlaceRoles, MappingError> {
    let longitude = slots.optional("longitude", source.longitude.as_deref())?;
    let latitude = slots.optional("latitude", source.latitude.as_deref())?;
    let zone = slots.optional("zone", source.zone.as_deref())?;
    let x = slots.optional("x", source.x.as_deref())?;
    let y = slots.optional("y", source.y.as_deref())?;
    let wrong = |key: &str, found: &str, allowed: &str| {
        Err(MappingError::new(key, found.to_owned(), allowed))
    };
    let place = match (longitude, latitude, zone, x, y) {
        (None, None, None, None, None) => PlaceRoles::None,
        (Some(longitude), Some(latitude), None, None, None) => {
            PlaceRoles::Degrees { longitude, latitude }
        }
        (None, None, Some(zone), Some(x), Some(y)) => PlaceRoles::Zone { zone, x, y },
        (Some(_), None, ..) => return wrong("longitude", "no latitude", "both or neither"),
        (None, Some(_), ..) => return wrong("latitude", "no longitude", "both or neither"),
        (Some(_), Some(_), ..) => {
            let allowed = "longitude and latitude, or zone, x and y";
            return wrong("zone", "longitude and latitude as well", allowed);
        }
        _ => return wrong("zone", "not all of zone, x and y", "all three or none"),
    };
    if matches!(place, PlaceRoles::Zone { .. }) && source.zones.is_empty() {
        return wrong("zone", "no zone that it could name", "at least one [[feed.zone]]");
    }
    for (at, zone) in source.zones.iter().enumerate() {
        zone.check()?;
        if source.zones[..at].iter().any(|other| other.name == zone.name) {
            let key = format!("zone {:?}", zone.name);
            return wrong(&key, "the name twice", "a name of its own for each zone");
        }
    }
    Ok(place)
}
