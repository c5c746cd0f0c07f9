//! What a `[[zone]]` has at reversed addresses: its `blocklist` or its `database_txt`.
//!
//! Not for: what is answered there (the engine).
//! Invariants: a zone has at most one of the two; a database is one that the file defines. A set
//! need not exist: sets are made by commands.

use std::net::Ipv4Addr;

use whered_engine::mmdb::FieldPath;
use whered_engine::{
    BlocklistSource, DatabaseTxtSource, REVERSED_TEXT_SIZE_MAX, ReversedSource, TxtField,
};

use super::error::ConfigError;
use super::named::{FIELDS_MAX, TTL_SECONDS_MAX};
use super::section::{Keys, Section, defined};

pub(super) const BLOCKLIST: Keys = Keys {
    title: "blocklist of [[zone]]",
    allowed: &["set", "address", "text", "ttl_seconds"],
    later: &[],
};
pub(super) const DATABASE_TXT: Keys = Keys {
    title: "database_txt of [[zone]]",
    allowed: &["database", "fields", "ttl_seconds"],
    later: &[],
};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const TTL_SECONDS: u64 = 300;
/// The field that is no field of a record.
const NETWORK: &str = "@network";

/// Reads what a zone has at reversed addresses, if anything.
pub(super) fn read_reversed(
    section: &Section<'_>,
    databases: &[&str],
) -> Result<Option<ReversedSource>, ConfigError> {
    let blocklist = section.table("blocklist", &BLOCKLIST)?;
    let database = section.table("database_txt", &DATABASE_TXT)?;
    match (blocklist, database) {
        (None, None) => Ok(None),
        (Some(section), None) => read_blocklist(&section).map(Some),
        (None, Some(section)) => read_database_txt(&section, databases).map(Some),
        (Some(_), Some(second)) => {
            let found = "stands beside 'blocklist'";
            Err(section.refuse(&second.span, "database_txt", found, "one of the two"))
        }
    }
}

fn read_blocklist(section: &Section<'_>) -> Result<ReversedSource, ConfigError> {
    let mut address = ADDRESS;
    if let Some(text) = section.text("address")? {
        let refuse = || {
            let found = format!("is '{}'", text.value);
            section.refuse(&text.span, "address", &found, "an address in 127.0.0.0/8")
        };
        let parsed = text.value.parse().ok().filter(|address: &Ipv4Addr| address.is_loopback());
        address = parsed.ok_or_else(refuse)?;
    }
    let text = section.filled_text("text")?;
    if let Some(text) = text.as_ref().filter(|text| text.value.len() > REVERSED_TEXT_SIZE_MAX) {
        let found = format!("has {} bytes", text.value.len());
        let allowed = format!("up to {REVERSED_TEXT_SIZE_MAX}");
        return Err(section.refuse(&text.span, "text", &found, &allowed));
    }
    Ok(ReversedSource::Blocklist(BlocklistSource {
        set: section.required_text("set")?.value.to_owned(),
        address,
        text: text.map(|text| text.value.to_owned()),
        ttl_seconds: read_ttl(section)?,
    }))
}

fn read_database_txt(
    section: &Section<'_>,
    databases: &[&str],
) -> Result<ReversedSource, ConfigError> {
    let database = section.required_text("database")?;
    if !databases.contains(&database.value) {
        let found = format!("names '{}', which no [[database]] defines", database.value);
        return Err(section.refuse(&database.span, "database", &found, &defined(databases)));
    }
    let what = "\"@network\" and field paths such as \"country.iso_code\"";
    let strings = section.strings("fields", what)?.ok_or_else(|| section.missing("fields"))?;
    if !(1..=FIELDS_MAX).contains(&strings.value.len()) {
        let found = format!("has {} fields", strings.value.len());
        let allowed = format!("1 to {FIELDS_MAX}");
        return Err(section.refuse(&strings.span, "fields", &found, &allowed));
    }
    let mut fields = Vec::with_capacity(strings.value.len());
    for text in &strings.value {
        if text.value == NETWORK {
            fields.push(TxtField::Network);
            continue;
        }
        let path = text.value.parse::<FieldPath>().ok().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            let found = format!("has '{}'", text.value);
            section.refuse(&text.span, "fields", &found, "@network, or names between single dots")
        })?;
        fields.push(TxtField::Path(path));
    }
    Ok(ReversedSource::DatabaseTxt(DatabaseTxtSource {
        database: database.value.to_owned(),
        fields,
        ttl_seconds: read_ttl(section)?,
    }))
}

fn read_ttl(section: &Section<'_>) -> Result<u32, ConfigError> {
    let found = section.integer("ttl_seconds", 0..=TTL_SECONDS_MAX)?;
    Ok(found.map_or(TTL_SECONDS, |found| found.value) as u32)
}
