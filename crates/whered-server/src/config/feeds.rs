//! The sections of feeds: `[feeds]`, `[[feed]]` with `[[feed.table]]`, `[[feed.zone]]`,
//! `[[feed.stream]]` and `[[feed.sink]]`.
//!
//! For: what a feed reads, keeps and hands on, checked as a whole before anything starts.
//! Not for: scanning uploads (`whered-feeds`), tables (the engine), streams and databases
//! (`whered-connect`); here a value is only found right or wrong at its place.
//! Invariants: names of feeds are unique and can stand in a path; a table belongs to one feed; a
//! rule names a field that its feed has, and one that has numbers where it adds them up.

use std::ops::RangeInclusive;
use std::time::Duration;

use whered_engine::feeds::formats::{
    FieldKind, Format, ItemsSource, Mapping, MappingSource, RowsSource, ValueSource, Zone,
};
use whered_engine::feeds::{FeedInput, FeedLimits, FeedSource, HotOptions, SetTarget};
use whered_engine::ip::{SetFormat, SetOption, SetReading, ShrinkLimit};
use whered_engine::store::SyncPolicy;

use super::error::ConfigError;
use super::feed_tables;
use super::feed_values::{FIELD, read_table, read_value};
use super::named::Names;
use super::secrets::read_secret;
use super::section::{Entry, Keys, Section, SpannedValue, defined, resolve_path};
use super::storage::read_sync;
use crate::feeds::{FeedConfig, SinkConfig, StreamConfig};

const FEED: Keys = Keys {
    title: "[[feed]]",
    allowed: &[
        "name",
        "format",
        "source_set",
        "path",
        "value_path",
        "column",
        "value_column",
        "record",
        "member",
        "longitude",
        "latitude",
        "map",
        "x",
        "y",
        "time",
        "fields",
        "items",
        "encoding",
        "namespaces",
        "delimiter",
        "skip_lines",
        "comment",
        "decimal_comma",
        "into",
        "consolidate",
        "token",
        "token_file",
        "drop_folder",
        "upload_size_max",
        "spool_size_max",
        "batch_events_max",
        "batch_delay_millis",
        "remember_keys_seconds",
        "content_hash",
        "resident",
        "idle_seconds",
        "table",
        "zone",
        "stream",
        "sink",
    ],
    later: &[],
};
const FEEDS: Keys =
    Keys { title: "[feeds]", allowed: &["memory_budget", "turn_millis", "sync"], later: &[] };
const ITEMS: Keys =
    Keys { title: "items of [[feed]]", allowed: &["each", "key", "count"], later: &[] };
const INTO: Keys = Keys {
    title: "into of [[feed]]",
    allowed: &["collection", "table", "set", "replace", "allow_empty", "max_shrink"],
    later: &[],
};
const CONSOLIDATE: Keys =
    Keys { title: "consolidate of [[feed]]", allowed: &["merge_within_meters"], later: &[] };
const ZONE: Keys = Keys {
    title: "[[feed.zone]]",
    allowed: &["name", "x", "y", "west", "south", "east", "north"],
    later: &[],
};
const STREAM: Keys = Keys {
    title: "[[feed.stream]]",
    allowed: &["name", "url", "url_file", "stream", "field", "from", "join"],
    later: &[],
};
const SINK: Keys = Keys {
    title: "[[feed.sink]]",
    allowed: &["name", "url", "url_file", "tables", "adopt"],
    later: &[],
};

/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 6] = [&FEEDS, &FEED, &feed_tables::TABLE, &ZONE, &STREAM, &SINK];

/// A name is a folder's and a part of a path.
const NAME_BYTES_MAX: usize = 64;
/// A record has at least some bytes; what the journal takes in one entry is above.
const UPLOAD_BYTES: RangeInclusive<u64> = 1024..=1 << 30;
/// A spool that holds not even one upload takes none.
const SPOOL_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 44;
const BATCH_EVENTS: RangeInclusive<u64> = 1..=10_000_000;
const BATCH_DELAY_MILLIS: RangeInclusive<u64> = 0..=60_000;
/// A month is the most: every key is held in memory for so long.
const REMEMBER_SECONDS: RangeInclusive<u64> = 0..=31 * 24 * 3600;
/// A feed that is idle for less than a second is not.
const IDLE_SECONDS: RangeInclusive<u64> = 0..=366 * 24 * 3600;
/// Zero for no limit.
const MEMORY_BYTES: RangeInclusive<u64> = 0..=1 << 44;
const TURN_MILLIS: RangeInclusive<u64> = 0..=3_600_000;
const FIELDS_MAX: usize = 64;
const SKIP_LINES: RangeInclusive<u64> = 0..=100_000;
/// What records have beside the fields of their mapping.
const BUILT_IN: [&str; 8] =
    ["member", "longitude", "latitude", "time", "item", "count", "position", "day"];

/// What the engine merges within.
const METERS: RangeInclusive<f64> = 0.001..=100_000.0;

/// Reads `[feeds]`.
pub(super) fn read_common(
    top: &Section<'_>,
    options: &mut HotOptions,
    sync: &mut SyncPolicy,
) -> Result<(), ConfigError> {
    let Some(section) = top.table("feeds", &FEEDS)? else {
        return Ok(());
    };
    if let Some(found) = read_sync(&section)? {
        *sync = found;
    }
    if let Some(size) = section.size("memory_budget", MEMORY_BYTES)? {
        options.memory_budget_bytes = size.value;
    }
    if let Some(millis) = section.integer("turn_millis", TURN_MILLIS)? {
        options.turn = Duration::from_millis(millis.value);
    }
    Ok(())
}

/// Reads every `[[feed]]`.
pub(super) fn read_feeds(top: &Section<'_>) -> Result<Vec<FeedConfig>, ConfigError> {
    let mut names = Names::new("feed");
    let mut tables = Names::new("table");
    let read = |section: &Section<'_>| read_feed(section, &mut names, &mut tables);
    top.tables("feed", &FEED)?.iter().map(read).collect()
}

fn read_feed(
    section: &Section<'_>,
    names: &mut Names,
    tables: &mut Names,
) -> Result<FeedConfig, ConfigError> {
    let name = section.required_text("name")?;
    check_name(section, "name", &name)?;
    names.add(section, "name", &name, name.value)?;
    let into = section.table("into", &INTO)?;
    let mut source = match into.as_ref().map(|into| into.filled_text("set")).transpose()?.flatten()
    {
        Some(set) => read_prefixes(section, into.as_ref(), &set)?,
        None => read_records(section, into.as_ref(), tables)?,
    };
    name.value.clone_into(&mut source.name);
    source.limits = read_limits(section)?;
    let folder = section.filled_text("drop_folder")?;
    Ok(FeedConfig {
        name: name.value.to_owned(),
        token: read_token(section)?,
        drop_folder: folder.map(|found| resolve_path(section.document.path, found.value)),
        streams: read_streams(section)?,
        sinks: read_sinks(section, &source)?,
        source,
    })
}

/// What can be a folder, a part of a path and a label.
fn check_name(
    section: &Section<'_>,
    key: &str,
    name: &SpannedValue<&str>,
) -> Result<(), ConfigError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_right = name.value.len() <= NAME_BYTES_MAX
        && name.value.bytes().all(is_plain)
        && !name.value.starts_with('.');
    let allowed = "up to 64 letters, digits, '_', '-' and '.', the last not in front";
    let refuse = || section.refuse(&name.span, key, &format!("is '{}'", name.value), allowed);
    is_right.then_some(()).ok_or_else(refuse)
}

fn read_token(section: &Section<'_>) -> Result<Option<String>, ConfigError> {
    let Some(token) = read_secret(section, "token", "token_file")? else { return Ok(None) };
    if !token.value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let allowed = "visible ASCII characters without spaces";
        return Err(section.refuse(&token.span, "token", "cannot stand in a header", allowed));
    }
    Ok(Some(token.value))
}

fn read_limits(section: &Section<'_>) -> Result<FeedLimits, ConfigError> {
    let mut limits = FeedLimits::default();
    if let Some(size) = section.size("upload_size_max", UPLOAD_BYTES)? {
        limits.upload_size_bytes_max = size.value;
    }
    if let Some(size) = section.size("spool_size_max", SPOOL_BYTES)? {
        limits.spool_size_bytes_max = size.value;
    }
    if let Some(count) = section.integer("batch_events_max", BATCH_EVENTS)? {
        limits.batch_events_max = count.value as usize;
    }
    if let Some(millis) = section.integer("batch_delay_millis", BATCH_DELAY_MILLIS)? {
        limits.batch_delay = Duration::from_millis(millis.value);
    }
    if let Some(seconds) = section.integer("remember_keys_seconds", REMEMBER_SECONDS)? {
        limits.remember_keys = Duration::from_secs(seconds.value);
    }
    if let Some(hash) = section.flag("content_hash")? {
        limits.content_hash = hash;
    }
    if let Some(resident) = section.flag("resident")? {
        limits.resident = resident;
    }
    if let Some(seconds) = section.integer("idle_seconds", IDLE_SECONDS)? {
        limits.idle = Duration::from_secs(seconds.value);
    }
    Ok(limits)
}

/// A feed of prefix lists.
fn read_prefixes(
    section: &Section<'_>,
    into: Option<&Section<'_>>,
    set: &SpannedValue<&str>,
) -> Result<FeedSource, ConfigError> {
    let reading = read_reading(section)?;
    let of_records = [
        "record",
        "member",
        "longitude",
        "latitude",
        "map",
        "x",
        "y",
        "time",
        "fields",
        "items",
        "encoding",
        "namespaces",
        "skip_lines",
        "comment",
        "decimal_comma",
    ];
    let others = ["consolidate", "table", "zone", "sink"];
    if let Some(key) = of_records.into_iter().chain(others).find(|key| section.has(key)) {
        let message = format!(
            "'{key}' in [[feed]] stands beside a set in 'into', whose lists have no records; \
             allowed: name, format, into and limits"
        );
        return Err(section.document.error(&section.span, message));
    }
    for key in ["collection", "table"] {
        if into.is_some_and(|into| into.has(key)) {
            let message = format!(
                "'{key}' in into of [[feed]] stands beside a 'set'; allowed: one of the two"
            );
            return Err(section.document.error(&set.span, message));
        }
    }
    let flag = |key| into.map(|into| into.flag(key)).transpose().map(Option::flatten);
    let replaces = flag("replace")?.unwrap_or(true);
    let mut limit = ShrinkLimit::default();
    limit.allows_empty = flag("allow_empty")?.unwrap_or(limit.allows_empty);
    let percent = into.map(|into| into.integer("max_shrink", 1..=100)).transpose()?.flatten();
    if let Some(percent) = percent.and_then(|percent| u8::try_from(percent.value).ok()) {
        limit.percent = percent;
    }
    Ok(FeedSource {
        name: String::new(),
        input: FeedInput::Prefixes(reading),
        collection: None,
        tables: Vec::new(),
        set: Some(SetTarget { name: set.value.to_owned(), replaces, limit, is_strict: false }),
        merge_within_meters: None,
        limits: FeedLimits::default(),
    })
}

/// The keys that say how lists of prefixes are read, beside their format.
const READING: [(&str, SetOption); 6] = [
    ("source_set", SetOption::Set),
    ("path", SetOption::Path),
    ("value_path", SetOption::ValuePath),
    ("column", SetOption::Column),
    ("value_column", SetOption::ValueColumn),
    ("delimiter", SetOption::Delimiter),
];

/// How the lists of a feed are read. Without a format each list says what it is.
fn read_reading(section: &Section<'_>) -> Result<SetReading, ConfigError> {
    let mut reading = SetReading::default();
    if let Some(format) = section.filled_text("format")? {
        let known = match format.value {
            // What lists of networks on the web are called.
            "netset" => Ok(SetFormat::Plain),
            other => other.parse(),
        };
        reading.format = Some(known.map_err(|_: String| {
            let allowed = format!("netset, {} (for a set)", SetFormat::list_of_names());
            section.refuse(&format.span, "format", &format!("is '{}'", format.value), &allowed)
        })?);
    }
    for (key, option) in READING {
        if let Some(text) = section.filled_text(key)? {
            reading.set_option(option, text.value).map_err(|what| {
                section.document.error(&text.span, format!("'{key}' in [[feed]]: {what}"))
            })?;
        }
    }
    reading
        .check()
        .map_err(|what| section.document.error(&section.span, format!("[[feed]]: {what}")))?;
    Ok(reading)
}

/// A feed of records.
fn read_records(
    section: &Section<'_>,
    into: Option<&Section<'_>>,
    names: &mut Names,
) -> Result<FeedSource, ConfigError> {
    for key in ["replace", "allow_empty", "max_shrink"] {
        if let Some(into) = into.filter(|into| into.has(key)) {
            let message =
                format!("'{key}' in into of [[feed]] is for a 'set'; allowed: collection, table");
            return Err(section.document.error(&into.span, message));
        }
    }
    for (key, option) in READING {
        // Records have a separator of columns, too.
        if option != SetOption::Delimiter && section.has(key) {
            let message = format!(
                "'{key}' in [[feed]] is for lists of prefixes; allowed: with a set in 'into'"
            );
            return Err(section.document.error(&section.span, message));
        }
    }
    let mapping = read_mapping(section)?;
    let merge_within_meters = match section.table("consolidate", &CONSOLIDATE)? {
        Some(consolidate) => consolidate.number("merge_within_meters", METERS)?,
        None => None,
    };
    let collection = into.map(|into| into.filled_text("collection")).transpose()?.flatten();
    let table = into.map(|into| into.filled_text("table")).transpose()?.flatten();
    let mut source = FeedSource {
        name: section.required_text("name")?.value.to_owned(),
        input: FeedInput::Records(mapping.clone()),
        collection: collection.map(|found| found.value.to_owned()),
        tables: Vec::new(),
        set: None,
        merge_within_meters,
        limits: FeedLimits::default(),
    };
    check(section, &source)?;
    let mut tables = Vec::new();
    if let Some(name) = table {
        check_name(section, "table", &name)?;
        names.add(section, "table", &name, name.value)?;
        let merges = merge_within_meters.is_some();
        tables.push(feed_tables::default_table(name.value, &mapping, merges));
    }
    for section in section.tables("table", &feed_tables::TABLE)? {
        let name = section.required_text("name")?;
        check_name(&section, "name", &name)?;
        names.add(&section, "name", &name, name.value)?;
        let table = feed_tables::read_table(&section, name.value)?;
        // Alone, so that a mistake is told at its place.
        source.tables = vec![table.clone()];
        check(&section, &source)?;
        tables.push(table);
    }
    source.tables = tables;
    // Only points and merged positions end where the web's maps end.
    let to_the_poles = !source.wants_places();
    source.input = FeedInput::Records(mapping.to_the_poles(to_the_poles));
    if source.collection.is_none() && source.tables.is_empty() {
        let message = "[[feed]] keeps nothing; allowed: into = { collection = \"...\" }, \
                       into = { table = \"...\" }, into = { set = \"...\" }, [[feed.table]]";
        return Err(section.document.error(&section.span, message));
    }
    Ok(source)
}

/// What the engine says of a feed, at its place.
fn check(section: &Section<'_>, source: &FeedSource) -> Result<(), ConfigError> {
    source.check().map(drop).map_err(|error| section.document.error(&section.span, error))
}

fn read_mapping(section: &Section<'_>) -> Result<Mapping, ConfigError> {
    let format = section.required_text("format")?;
    let known = Format::from_name(format.value).ok_or_else(|| {
        let names = Format::ALL.map(|(name, _)| name).join(", ");
        let allowed = format!("{names}, and formats of prefix lists with into = {{ set = ... }}");
        section.refuse(&format.span, "format", &format!("is '{}'", format.value), &allowed)
    })?;
    let value = |key: &str| read_value(section, key);
    let record = section.filled_text("record")?.map_or("", |record| record.value);
    let source = MappingSource {
        format: known,
        record: record.to_owned(),
        member: value("member")?.unwrap_or_else(|| "".into()),
        longitude: value("longitude")?,
        latitude: value("latitude")?,
        zone: value("map")?,
        x: value("x")?,
        y: value("y")?,
        zones: read_zones(section)?,
        time: value("time")?,
        fields: read_fields(section)?,
        items: read_items(section)?,
        encoding: section.filled_text("encoding")?.map(|name| name.value.to_owned()),
        namespaces: read_namespaces(section)?,
        rows: RowsSource {
            delimiter: read_character(section, "delimiter")?,
            skip_lines: section.integer("skip_lines", SKIP_LINES)?.map_or(0, |n| n.value as usize),
            comment: read_character(section, "comment")?,
        },
        decimal_comma: section.flag("decimal_comma")?.unwrap_or(false),
    };
    source.compile().map_err(|error| {
        let key = if error.key() == "zone" { "map" } else { error.key() };
        let message =
            format!("'{key}' in [[feed]]: {}; allowed: {}", error.found(), error.allowed());
        section.document.error(&section.span_of(key), message)
    })
}

/// One ASCII character.
fn read_character(section: &Section<'_>, key: &str) -> Result<Option<u8>, ConfigError> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    match text.value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(Some(*byte)),
        _ => {
            let found = format!("is '{}'", text.value);
            let allowed = "one ASCII character, such as \";\" or \"\\t\"";
            Err(section.refuse(&text.span, key, &found, allowed))
        }
    }
}

fn read_namespaces(section: &Section<'_>) -> Result<Vec<(String, String)>, ConfigError> {
    let example = "a table such as { kml = \"http://www.opengis.net/kml/2.2\" }";
    let entries = section.entries("namespaces", example)?.unwrap_or_default();
    let read = |entry: &Entry<'_>| match entry.text() {
        Some(name) => Ok((entry.name.value.to_owned(), name.value.to_owned())),
        None => {
            let found = format!("has {} for '{}'", entry.kind(), entry.name.value);
            Err(section.refuse(&entry.name.span, "namespaces", &found, example))
        }
    };
    entries.iter().map(read).collect()
}

type FieldSource = (String, ValueSource, FieldKind);

fn read_fields(section: &Section<'_>) -> Result<Vec<FieldSource>, ConfigError> {
    let example = "a table such as { level = { path = \"@level\", type = \"integer\" }, name = \
                   \"@name\" }";
    let Some(entries) = section.entries("fields", example)? else { return Ok(Vec::new()) };
    if let Some(entry) = entries.get(FIELDS_MAX) {
        let found = format!("goes on with '{}'", entry.name.value);
        let allowed = format!("up to {FIELDS_MAX} fields");
        return Err(section.refuse(&entry.name.span, "fields", &found, &allowed));
    }
    let mut fields = Vec::with_capacity(entries.len());
    for entry in &entries {
        check_name(section, "fields", &entry.name)?;
        if BUILT_IN.contains(&entry.name.value) {
            let found = format!("has the field '{}', which records have", entry.name.value);
            let allowed = "a name of its own";
            return Err(section.refuse(&entry.name.span, "fields", &found, allowed));
        }
        let (path, kind) = match (entry.text(), entry.table(section.document, &FIELD)?) {
            (Some(path), _) => (path.value.into(), FieldKind::Text),
            (None, Some(field)) => (read_table(&field)?, read_kind(&field)?),
            (None, None) => {
                let found = format!("has {} for '{}'", entry.kind(), entry.name.value);
                let allowed = "a path such as \"@level\", or { path = ..., type = ... }";
                return Err(section.refuse(&entry.name.span, "fields", &found, allowed));
            }
        };
        fields.push((entry.name.value.to_owned(), path, kind));
    }
    Ok(fields)
}

fn read_kind(field: &Section<'_>) -> Result<FieldKind, ConfigError> {
    let Some(kind) = field.text("type")? else { return Ok(FieldKind::Text) };
    FieldKind::from_name(kind.value).ok_or_else(|| {
        let names = FieldKind::ALL.map(|(name, _)| name).join(", ");
        field.refuse(&kind.span, "type", &format!("is '{}'", kind.value), &names)
    })
}

fn read_items(section: &Section<'_>) -> Result<Option<ItemsSource>, ConfigError> {
    let Some(items) = section.table("items", &ITEMS)? else { return Ok(None) };
    Ok(Some(ItemsSource {
        each: items.required_text("each")?.value.to_owned(),
        key: items.required_text("key")?.value.to_owned(),
        count: items.filled_text("count")?.map(|found| found.value.to_owned()),
    }))
}

fn read_zones(section: &Section<'_>) -> Result<Vec<Zone>, ConfigError> {
    let mut names = Names::new("zone");
    let read = |zone: &Section<'_>| {
        let name = zone.required_text("name")?;
        names.add(zone, "name", &name, name.value)?;
        let west_degrees = zone.required_number("west", -180.0..=180.0)?;
        let east_degrees = zone.required_number("east", -180.0..=180.0)?;
        let south_degrees = zone.required_number("south", -90.0..=90.0)?;
        let north_degrees = zone.required_number("north", -90.0..=90.0)?;
        if west_degrees >= east_degrees || south_degrees >= north_degrees {
            let message = "[[feed.zone]] has no area; allowed: west below east, south below north";
            return Err(zone.document.error(&zone.span, message));
        }
        Ok(Zone {
            name: name.value.to_owned(),
            x: zone.required_pair("x")?,
            y: zone.required_pair("y")?,
            west_degrees,
            south_degrees,
            east_degrees,
            north_degrees,
        })
    };
    section.tables("zone", &ZONE)?.iter().map(read).collect()
}

fn read_streams(feed: &Section<'_>) -> Result<Vec<StreamConfig>, ConfigError> {
    let mut names = Names::new("stream");
    let format = feed.filled_text("format")?;
    let read = |section: &Section<'_>| {
        let url = read_url(section, &["redis://", "rediss://", "unix://"])?;
        let stream = section.required_text("stream")?;
        let name = section.filled_text("name")?.unwrap_or_else(|| stream.clone());
        names.add(section, "name", &name, name.value)?;
        let from_start = match section.text("from")? {
            None => true,
            Some(found) => match found.value {
                "start" => true,
                "end" => false,
                other => {
                    let found_text = format!("is '{other}'");
                    return Err(section.refuse(&found.span, "from", &found_text, "start, end"));
                }
            },
        };
        Ok(StreamConfig {
            name: name.value.to_owned(),
            url,
            stream: stream.value.to_owned(),
            field: section.required_text("field")?.value.to_owned(),
            from_start,
            join: section
                .flag("join")?
                .unwrap_or(format.as_ref().is_some_and(|format| format.value == "ndjson")),
        })
    };
    feed.tables("stream", &STREAM)?.iter().map(read).collect()
}

fn read_sinks(feed: &Section<'_>, source: &FeedSource) -> Result<Vec<SinkConfig>, ConfigError> {
    let known: Vec<&str> = source.tables.iter().map(|table| table.name.as_str()).collect();
    let mut names = Names::new("sink");
    let mut sinks = Vec::new();
    for section in feed.tables("sink", &SINK)? {
        let url = read_url(&section, &["mysql://", "mariadb://", "postgres://", "postgresql://"])?;
        let name = section.filled_text("name")?;
        if let Some(name) = &name {
            names.add(&section, "name", name, name.value)?;
        }
        let mut tables = Vec::new();
        if let Some(strings) = section.strings("tables", "names of tables of this feed")? {
            for text in strings.value {
                if !known.contains(&text.value) {
                    let found = format!("names '{}', which this feed does not fill", text.value);
                    let allowed = defined(&known);
                    return Err(section.refuse(&text.span, "tables", &found, &allowed));
                }
                tables.push(text.value.to_owned());
            }
        }
        sinks.push(SinkConfig {
            name: name.map_or_else(|| format!("sink{}", sinks.len() + 1), |n| n.value.to_owned()),
            url,
            tables,
            adopt: section.flag("adopt")?.unwrap_or(false),
        });
    }
    Ok(sinks)
}

/// The secret in it is not repeated in a message.
fn read_url(section: &Section<'_>, schemes: &[&str]) -> Result<String, ConfigError> {
    let url = read_secret(section, "url", "url_file")?.ok_or_else(|| section.missing("url"))?;
    if schemes.iter().any(|scheme| url.value.starts_with(scheme)) {
        return Ok(url.value);
    }
    let allowed = format!("a URL that begins with {}", schemes.join(", "));
    Err(section.refuse(&url.span, "url", "is none of the known kinds", &allowed))
}

#[cfg(test)]
#[path = "feeds_tests.rs"]
mod tests;
