//! A compiled mapping: every value is a role, and every role a list of slots (`role.rs`).
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

use std::borrow::Cow;

use encoding_rs::Encoding;

use crate::error::{MappingError, UploadError};
use crate::event::{Events, Totals};
use crate::json::JsonPaths;
use crate::role::{Role, Slots, SlotsBuilder};
use crate::rows::RowPaths;
use crate::source::{FieldKind, Format, MappingSource, Origin, UploadField};
use crate::time::{TimeReader, TimeSource};
use crate::upload::UploadFields;
use crate::xml::XmlPaths;
use crate::zone::Zone;
use crate::{encoding, json, rows, upload, xml};

/// Reads uploads of one feed. Made by [`MappingSource::compile`].
#[derive(Clone, Debug)]
pub struct Mapping {
    pub(crate) format: Format,
    pub(crate) paths: Paths,
    pub(crate) roles: Roles,
    pub(crate) fields: Vec<Field>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) slots: Slots,
    pub(crate) decimal_comma: bool,
    pub(crate) to_the_poles: bool,
    encoding: Option<&'static Encoding>,
}

/// The slots' paths in the format's own form.
#[derive(Clone, Debug)]
pub(crate) enum Paths {
    Xml(XmlPaths),
    Json(JsonPaths),
    Rows(RowPaths),
}

#[derive(Clone, Debug)]
pub(crate) struct Roles {
    pub(crate) member: Role,
    pub(crate) place: PlaceRoles,
    pub(crate) time: Option<TimeRole>,
    pub(crate) has_items: bool,
}

/// A time, and how it is read if it is not read as all are.
#[derive(Clone, Debug)]
pub(crate) struct TimeRole {
    pub(crate) role: Role,
    pub(crate) reader: Option<Box<TimeReader>>,
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
    /// Of a time.
    pub(crate) reader: Option<Box<TimeReader>>,
}

/// The form of a format's paths, for error messages.
pub(crate) fn path_help(format: Format) -> &'static str {
    match format {
        Format::Xml | Format::Gpx => {
            "a path such as @attribute, child, child/@attribute, ../@attribute or ."
        }
        Format::Ndjson => {
            "a dotted path such as position.x, with quotes around a name that has other signs, as \
             '@id'"
        }
        Format::Json | Format::GeoJson => {
            "a dotted path such as position.x, with quotes around a name that has other signs, as \
             '@id', and ../ in front for what holds the records"
        }
        Format::Csv | Format::Tsv => {
            "a column's name, with quotes around one that looks like a path, or its number from 1 \
             as #1"
        }
    }
}

impl Mapping {
    pub(crate) fn compile(mut source: MappingSource) -> Result<Mapping, MappingError> {
        match source.format {
            Format::Gpx => fill_gpx(&mut source),
            Format::GeoJson => fill_geojson(&mut source),
            _ => {}
        }
        check_options(&source)?;
        let mut slots = SlotsBuilder::new(source.format);
        let member = slots.role("member", &source.member)?;
        let place = place_roles(&source, &mut slots)?;
        let time = match &source.time {
            None => None,
            Some(time) => {
                let reader = TimeReader::compile("time", &time.time)?.map(Box::new);
                Some(TimeRole { role: slots.role("time", time)?, reader })
            }
        };
        let mut fields: Vec<Field> = Vec::new();
        for (name, value, kind) in &source.fields {
            let key = format!("fields.{name}");
            if name.is_empty() || fields.iter().any(|field| field.name == *name) {
                let found = format!("the name {name:?}");
                return Err(MappingError::new(key, found, "a name of its own for each field"));
            }
            if *kind != FieldKind::Time && value.time != TimeSource::default() {
                let found = "format, zone, unit or twice_shown of no time";
                return Err(MappingError::new(key, found, "these with type = \"time\""));
            }
            let reader = TimeReader::compile(&key, &value.time)?.map(Box::new);
            let role = slots.role(&key, value)?;
            fields.push(Field { name: name.clone(), kind: *kind, role, reader });
        }
        let has_items = source.items.is_some();
        let mut roles = Roles { member, place, time, has_items };
        let slots = slots.finish(roles.all().chain(fields.iter_mut().map(|field| &mut field.role)));
        let paths = match source.format {
            Format::Xml | Format::Gpx => Paths::Xml(XmlPaths::compile(&source, &slots.paths)?),
            Format::Ndjson | Format::Json | Format::GeoJson => {
                Paths::Json(JsonPaths::compile(&source, &slots.paths)?)
            }
            Format::Csv | Format::Tsv => Paths::Rows(RowPaths::compile(&source, &slots.paths)?),
        };
        Ok(Mapping {
            format: source.format,
            paths,
            roles,
            fields,
            zones: source.zones,
            slots,
            decimal_comma: source.decimal_comma,
            to_the_poles: false,
            encoding: source.encoding.as_deref().and_then(encoding::of_name),
        })
    }

    /// Whether latitudes may go to the poles, beyond what a collection of points can hold.
    #[must_use]
    pub fn to_the_poles(self, to_the_poles: bool) -> Mapping {
        Mapping { to_the_poles, ..self }
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
    /// source.member = "object".into();
    /// let mapping = source.compile()?;
    /// assert!(mapping.check(b"{\"object\":7}\n").is_ok());
    /// let error = mapping.check(b"<upload/>").unwrap_err();
    /// assert_eq!(error.to_string(), "byte 0: '<' where each line is a JSON object; is it XML?");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, upload: &[u8]) -> Result<(), UploadError> {
        let is_xml = matches!(self.paths, Paths::Xml(_));
        let text = encoding::to_utf8(upload, self.encoding, is_xml, true)?;
        let start = upload::begin(&text)?;
        match &self.paths {
            Paths::Xml(paths) => xml::check(paths, &text, start),
            Paths::Json(paths) => json::check(paths, &text, start),
            Paths::Rows(paths) => rows::check(paths, &text, start),
        }
    }

    /// The texts that this mapping wants of an upload, beside its bytes.
    pub fn upload_fields(&self) -> impl Iterator<Item = &UploadField> {
        self.slots.upload_fields()
    }

    /// Reads all records in the order of the upload; those that are wrong are rejected one by one.
    ///
    /// # Errors
    ///
    /// [`UploadError`] if the rest cannot be read; what came before has been handed out and stays
    /// right.
    pub fn scan<E: Events>(&self, upload: &[u8], events: &mut E) -> Result<Totals, UploadError> {
        self.scan_with(upload, &[], events, true)
    }

    /// Like [`scan`](Mapping::scan), with the texts that came with the upload.
    ///
    /// # Errors
    ///
    /// As [`scan`](Mapping::scan).
    pub fn scan_upload<E: Events>(
        &self,
        upload: &[u8],
        fields: UploadFields<'_>,
        events: &mut E,
    ) -> Result<Totals, UploadError> {
        self.scan_with(upload, fields, events, true)
    }

    /// The upload as a scan reads it, in UTF-8: what the offsets of events count in. An upload that
    /// is UTF-8 already is not copied.
    ///
    /// # Errors
    ///
    /// It is in an encoding that is not read.
    pub fn decoded<'a>(&self, upload: &'a [u8]) -> Result<Cow<'a, [u8]>, UploadError> {
        encoding::to_utf8(upload, self.encoding, matches!(self.paths, Paths::Xml(_)), false)
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
        self.scan_with(upload, &[], events, false)
    }

    fn scan_with<E: Events>(
        &self,
        upload: &[u8],
        fields: UploadFields<'_>,
        events: &mut E,
        quick: bool,
    ) -> Result<Totals, UploadError> {
        let is_xml = matches!(self.paths, Paths::Xml(_));
        let text = encoding::to_utf8(upload, self.encoding, is_xml, false)?;
        let start = upload::begin(&text)?;
        let base = &self.slots.base(fields)[..];
        let scan = Scan { mapping: self, text: &text, start, base, quick };
        match &self.paths {
            Paths::Xml(paths) => xml::scan(&scan, paths, events),
            Paths::Json(paths) => json::scan(&scan, paths, events),
            Paths::Rows(paths) => rows::scan(&scan, paths, events),
        }
    }
}

/// One upload that is scanned.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) mapping: &'a Mapping,
    /// The upload, as UTF-8 as it is.
    pub(crate) text: &'a [u8],
    /// Behind its byte order mark.
    pub(crate) start: usize,
    /// What slots hold before a record is read.
    pub(crate) base: &'a [Option<&'a [u8]>],
    /// Whether the quick scanners are used.
    pub(crate) quick: bool,
}

impl Roles {
    fn all(&mut self) -> impl Iterator<Item = &mut Role> {
        let place = match &mut self.place {
            PlaceRoles::None => vec![],
            PlaceRoles::Degrees { longitude, latitude } => vec![longitude, latitude],
            PlaceRoles::Zone { zone, x, y } => vec![zone, x, y],
        };
        let time = self.time.as_mut().map(|time| &mut time.role);
        [&mut self.member].into_iter().chain(place).chain(time)
    }
}

/// Refuses options of other formats.
fn check_options(source: &MappingSource) -> Result<(), MappingError> {
    let wrong =
        |key: &str, found: String, allowed: &str| Err(MappingError::new(key, found, allowed));
    if let Some(name) = &source.encoding
        && !encoding::is_known(name)
    {
        let allowed = "a name that the web knows, such as utf-16, iso-8859-1 or windows-1252";
        return wrong("encoding", format!("{name:?}"), allowed);
    }
    let name = source.format.name();
    if !matches!(source.format, Format::Csv | Format::Tsv) {
        let rows = &source.rows;
        let keys = [
            ("delimiter", rows.delimiter.is_some()),
            ("skip_lines", rows.skip_lines > 0),
            ("comment", rows.comment.is_some()),
        ];
        if let Some((key, _)) = keys.iter().find(|(_, is_there)| *is_there) {
            return wrong(key, format!("in a feed of {name}"), "it in a feed of csv or tsv");
        }
    }
    if !matches!(source.format, Format::Xml | Format::Gpx) && !source.namespaces.is_empty() {
        return wrong("namespaces", format!("in a feed of {name}"), "them in a feed of xml or gpx");
    }
    Ok(())
}

/// Fills in the names of GeoJSON that the configuration leaves out.
fn fill_geojson(source: &mut MappingSource) {
    if source.record.is_empty() {
        source.record = "features".to_owned();
    }
    if source.member.is_empty() {
        source.member.origin = Origin::Path("id".to_owned());
    }
    fill_coordinates(source, "geometry.coordinates.0", "geometry.coordinates.1");
}

/// Fills in the place if the configuration has none.
fn fill_coordinates(source: &mut MappingSource, longitude: &str, latitude: &str) {
    let no_zone = source.zone.is_none() && source.x.is_none() && source.y.is_none();
    if no_zone && source.longitude.is_none() && source.latitude.is_none() {
        source.longitude = Some(longitude.into());
        source.latitude = Some(latitude.into());
    }
}

/// Fills in the names of GPX that the configuration leaves out.
fn fill_gpx(source: &mut MappingSource) {
    if source.record.is_empty() {
        source.record = "gpx/wpt|gpx/rte/rtept|gpx/trk/trkseg/trkpt".to_owned();
    }
    if source.member.is_empty() {
        source.member.origin = Origin::Path("name|../name|../../name".to_owned());
    }
    fill_coordinates(source, "@lon", "@lat");
    source.time.get_or_insert_with(|| "time".into());
}

fn place_roles(
    source: &MappingSource,
    slots: &mut SlotsBuilder,
) -> Result<PlaceRoles, MappingError> {
    let longitude = slots.optional("longitude", source.longitude.as_ref())?;
    let latitude = slots.optional("latitude", source.latitude.as_ref())?;
    let zone = slots.optional("zone", source.zone.as_ref())?;
    let x = slots.optional("x", source.x.as_ref())?;
    let y = slots.optional("y", source.y.as_ref())?;
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
