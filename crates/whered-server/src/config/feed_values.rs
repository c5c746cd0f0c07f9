//! The values of `[[feed]]`: a path alone, or a table that says where a value comes from and how
//! it is read.
//!
//! ```text
//! member = "@object"
//! member = { join = ["fleet", { header = "X-Device" }], with = ":" }
//! time = { path = "seen", format = "%d.%m.%Y %H:%M", zone = "Europe/Berlin" }
//! ```
//! Not for: whether a path can match (`whered-feeds` says so when the mapping is compiled).
//! Invariant: a value has exactly one origin.

use whered_engine::feeds::formats::{
    EpochScale, Origin, TimeSource, TwiceShown, UploadField, ValueSource,
};

use super::error::ConfigError;
use super::section::{Entry, Keys, Section, SpannedValue};

const VALUE: Keys = Keys {
    title: "a value of [[feed]]",
    allowed: &[
        "path",
        "constant",
        "file",
        "header",
        "query",
        "join",
        "with",
        "default",
        "number",
        "format",
        "zone",
        "unit",
        "twice_shown",
    ],
    later: &[],
};
pub(super) const FIELD: Keys = Keys {
    title: "a field of 'fields' of [[feed]]",
    allowed: &[
        "path",
        "type",
        "constant",
        "file",
        "header",
        "query",
        "join",
        "with",
        "default",
        "number",
        "format",
        "zone",
        "unit",
        "twice_shown",
    ],
    later: &[],
};

/// Where a value comes from; exactly one of them is there.
const ORIGINS: [&str; 6] = ["path", "constant", "file", "header", "query", "join"];
/// More parts has no name of anything.
const PARTS_MAX: usize = 16;
const EXAMPLE: &str =
    "a path such as \"@id\", or a table such as { path = \"@id\", default = \"x\" }";

/// Reads the value of a key, if it is there.
pub(super) fn read_value(
    section: &Section<'_>,
    key: &str,
) -> Result<Option<ValueSource>, ConfigError> {
    let Some(entry) = section.entry(key) else { return Ok(None) };
    read_entry(section, key, &entry).map(Some)
}

fn read_entry(
    section: &Section<'_>,
    key: &str,
    entry: &Entry<'_>,
) -> Result<ValueSource, ConfigError> {
    if let Some(path) = entry.text() {
        if path.value.is_empty() {
            return Err(section.refuse(&path.span, key, "is empty", EXAMPLE));
        }
        return Ok(path.value.into());
    }
    match entry.table(section.document, &VALUE)? {
        Some(table) => read_table(&table),
        None => {
            let found = format!("is {}", entry.kind());
            Err(section.refuse(&entry.name.span, key, &found, EXAMPLE))
        }
    }
}

/// Reads a value that is a table.
pub(super) fn read_table(table: &Section<'_>) -> Result<ValueSource, ConfigError> {
    let origins: Vec<&str> = ORIGINS.into_iter().filter(|key| table.has(key)).collect();
    let [origin] = origins[..] else {
        let found = match origins[..] {
            [] => "nothing that says where it comes from".to_owned(),
            _ => origins.join(" and "),
        };
        let message =
            format!("a value of [[feed]] has {found}; allowed: one of {}", ORIGINS.join(", "));
        return Err(table.document.error(&table.span, message));
    };
    if table.has("with") && origin != "join" {
        let span = table.span_of("with");
        return Err(table.refuse(&span, "with", "is there without a join", "it next to join"));
    }
    let mut value = ValueSource::new(read_origin(table, origin)?);
    value.default = table.text("default")?.map(|text| text.value.to_owned());
    value.number = table.integer("number", 1..=4)?.map(|number| number.value as usize);
    value.time = read_time(table)?;
    Ok(value)
}

fn read_origin(table: &Section<'_>, origin: &str) -> Result<Origin, ConfigError> {
    let filled = || -> Result<SpannedValue<&str>, ConfigError> { table.required_text(origin) };
    Ok(match origin {
        "path" => Origin::Path(filled()?.value.to_owned()),
        "constant" => Origin::Constant(filled()?.value.to_owned()),
        "query" => Origin::Upload(UploadField::Query(filled()?.value.to_owned())),
        "header" => {
            let name = filled()?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if !name.value.bytes().all(is_token) {
                let found = format!("is '{}'", name.value);
                let allowed = "a header's name such as X-Device";
                return Err(table.refuse(&name.span, origin, &found, allowed));
            }
            Origin::Upload(UploadField::Header(name.value.to_ascii_lowercase()))
        }
        "file" => {
            let what = filled()?;
            Origin::Upload(match what.value {
                "name" => UploadField::FileName,
                "stem" => UploadField::FileStem,
                other => {
                    let found = format!("is '{other}'");
                    let allowed = "name, or stem for the name without its ending";
                    return Err(table.refuse(&what.span, origin, &found, allowed));
                }
            })
        }
        _ => {
            let parts = table.elements(origin, "an array of values")?.unwrap_or_default();
            if parts.is_empty() || parts.len() > PARTS_MAX {
                let found = format!("has {} parts", parts.len());
                let allowed = format!("1 to {PARTS_MAX}");
                return Err(table.refuse(&table.span_of(origin), origin, &found, &allowed));
            }
            let parts = parts.iter().map(|part| read_entry(table, origin, part));
            let with = table.text("with")?.map_or("", |text| text.value).to_owned();
            Origin::Join(parts.collect::<Result<_, _>>()?, with)
        }
    })
}

fn read_time(table: &Section<'_>) -> Result<TimeSource, ConfigError> {
    let owned = |text: Option<SpannedValue<&str>>| text.map(|text| text.value.to_owned());
    let unit = named(table, "unit", EpochScale::from_name, &EpochScale::ALL.map(|(name, _)| name))?;
    let choices = TwiceShown::ALL.map(|(name, _)| name);
    let twice_shown = named(table, "twice_shown", TwiceShown::from_name, &choices)?;
    Ok(TimeSource {
        format: owned(table.filled_text("format")?),
        zone: owned(table.filled_text("zone")?),
        unit,
        twice_shown: twice_shown.unwrap_or_default(),
    })
}

fn named<T>(
    table: &Section<'_>,
    key: &str,
    from_name: impl FnOnce(&str) -> Option<T>,
    names: &[&str],
) -> Result<Option<T>, ConfigError> {
    let Some(name) = table.text(key)? else { return Ok(None) };
    let found = from_name(name.value).ok_or_else(|| {
        table.refuse(&name.span, key, &format!("is '{}'", name.value), &names.join(", "))
    });
    found.map(Some)
}
