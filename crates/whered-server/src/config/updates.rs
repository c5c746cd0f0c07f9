//! `[[zone.update]]`: who may change what in a zone by UPDATE.
//!
//! Not for: making updates. Invariant: a key that is named is one that the file defines.

use whered_dns::transfer::TsigKey;
use whered_dns::{Name, RecordType};

use super::error::ConfigError;
use super::section::{Keys, Section, SpannedValue};
use super::transfers::find_key;
use crate::dns::{NamePattern, UpdatePolicy};

pub(super) const UPDATE: Keys =
    Keys { title: "[[zone.update]]", allowed: &["key", "names", "types", "acme"], later: &[] };
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&UPDATE];

const NAMES: &str = "names of the zone, or \"*.NAME\" for all below one";
const TYPES: &str = "types of records such as \"A\" or \"TXT\"";

/// Reads every `[[zone.update]]` of a zone.
pub(super) fn read_updates(
    zone: &Section<'_>,
    origin: &Name,
    keys: &[TsigKey],
) -> Result<Vec<UpdatePolicy>, ConfigError> {
    let read = |section: &Section<'_>| {
        let key = section.required_text("key")?;
        let key = find_key(section, "key", &key, key.value, keys)?.name().clone();
        let names = read_names(section, origin)?;
        let types = read_types(section)?;
        let acme = section.flag("acme")?.unwrap_or(false);
        Ok(UpdatePolicy { key, names, types, acme })
    };
    zone.tables("update", &UPDATE)?.iter().map(read).collect()
}

fn read_names(section: &Section<'_>, origin: &Name) -> Result<Vec<NamePattern>, ConfigError> {
    let Some(strings) = section.strings("names", NAMES)? else { return Ok(Vec::new()) };
    let read = |text: &SpannedValue<&str>| {
        let wrong = |found: String| section.refuse(&text.span, "names", &found, NAMES);
        let below = text.value.strip_prefix("*.");
        let name: Name = below
            .unwrap_or(text.value)
            .parse()
            .map_err(|error| wrong(format!("holds '{}' ({error})", text.value)))?;
        if !name.is_within(origin) {
            return Err(wrong(format!("holds '{}', which is not in {origin}", text.value)));
        }
        Ok(if below.is_some() { NamePattern::Below(name) } else { NamePattern::Exact(name) })
    };
    if strings.value.is_empty() {
        return Err(section.refuse(&strings.span, "names", "is empty", NAMES));
    }
    strings.value.iter().map(read).collect()
}

fn read_types(section: &Section<'_>) -> Result<Vec<RecordType>, ConfigError> {
    let Some(strings) = section.strings("types", TYPES)? else { return Ok(Vec::new()) };
    if strings.value.is_empty() {
        return Err(section.refuse(&strings.span, "types", "is empty", TYPES));
    }
    let read = |text: &SpannedValue<&str>| {
        RecordType::from_text(text.value).ok_or_else(|| {
            section.refuse(&text.span, "types", &format!("holds '{}'", text.value), TYPES)
        })
    };
    strings.value.iter().map(read).collect()
}
