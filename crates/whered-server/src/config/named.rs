//! The repeated sections that name files: `[[database]]`, `[[ruleset]]` and `[[zone]]`.
//!
//! Not for: reading the files that are named (the engine does), pools (`pools.rs`).
//! Invariants: names are unique by kind, domain names without regard to case.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use whered_dns::{DenialMethod, Dnssec};
use whered_engine::mmdb::FieldPath;
use whered_engine::{AccessMode, DatabaseSource, RulesetSource, SignSource, ZoneSource};

use super::error::ConfigError;
use super::reversed;
use super::section::{Keys, Section, SpannedValue, resolve_path};

const DATABASE: Keys = Keys {
    title: "[[database]]",
    allowed: &["name", "path", "paths", "mode", "reload", "fields"],
    later: &[],
};
pub(super) const ZONE: Keys = Keys {
    title: "[[zone]]",
    allowed: &[
        "name",
        "path",
        "primaries",
        "blocklist",
        "database_txt",
        "reload",
        "unsigned",
        "sign",
        "keys",
        "denial",
        "allow_transfer",
        "notify",
        "transfer",
        "transfer_size_max",
        "update",
        "catalog",
        "catalog_group",
        "alias",
    ],
    later: &[],
};
const RULESET: Keys =
    Keys { title: "[[ruleset]]", allowed: &["name", "path", "reload"], later: &[] };
/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 5] =
    [&DATABASE, &RULESET, &ZONE, &reversed::BLOCKLIST, &reversed::DATABASE_TXT];

/// Columns of one database.
pub(super) const FIELDS_MAX: usize = 64;
/// RFC 2181 section 8.
pub(super) const TTL_SECONDS_MAX: u64 = 0x7fff_ffff;

/// Reads every `[[database]]`.
pub(super) fn read_databases(top: &Section<'_>) -> Result<Vec<DatabaseSource>, ConfigError> {
    let mut names = Names::new("database");
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        names.add(section, "name", &name, name.value)?;
        let mut paths = database_paths(section)?.into_iter();
        let mut source = DatabaseSource::new(name.value, paths.next().unwrap_or_default());
        source.further_paths = paths.collect();
        if let Some(mode) = read_choice(section, "mode")? {
            source.mode = mode;
        }
        check_mode_of_several(section, &source)?;
        if let Some(reload) = read_choice(section, "reload")? {
            source.reload = reload;
        }
        if let Some(fields) = read_fields(section)? {
            source.fields = fields;
        }
        Ok(source)
    };
    top.tables("database", &DATABASE)?.iter().map(read).collect()
}

/// `path`, or `paths` with a file for each address family.
fn database_paths(section: &Section<'_>) -> Result<Vec<PathBuf>, ConfigError> {
    let what = "files such as [\"v4.mmdb\", \"v6.mmdb\"]";
    let Some(paths) = section.strings("paths", what)? else { return Ok(vec![path_of(section)?]) };
    if let Some(path) = section.text("path")? {
        let found = "stands beside 'paths'";
        return Err(section.refuse(&path.span, "path", found, "one of both"));
    }
    let mut read: Vec<PathBuf> = Vec::new();
    for path in &paths.value {
        let full = resolve_path(section.document.path, path.value);
        if read.contains(&full) {
            let found = format!("repeats '{}'", path.value);
            return Err(section.refuse(&path.span, "paths", &found, "every file once"));
        }
        read.push(full);
    }
    if !(1..=2).contains(&read.len()) {
        let found = format!("has {} files", read.len());
        return Err(section.refuse(&paths.span, "paths", &found, "a file for each address family"));
    }
    Ok(read)
}

/// Several files are joined in memory.
fn check_mode_of_several(
    section: &Section<'_>,
    source: &DatabaseSource,
) -> Result<(), ConfigError> {
    let is_held = matches!(source.mode, AccessMode::Memory | AccessMode::Indexed);
    match section.text("mode")? {
        Some(mode) if !is_held && !source.further_paths.is_empty() => {
            let found = format!("is '{}' with several 'paths'", mode.value);
            Err(section.refuse(&mode.span, "mode", &found, "'memory' or 'indexed'"))
        }
        _ => Ok(()),
    }
}

/// A word of a few; what is wrong about it is what is allowed.
fn read_choice<T: FromStr<Err = String>>(
    section: &Section<'_>,
    key: &str,
) -> Result<Option<T>, ConfigError> {
    let Some(word) = section.text(key)? else { return Ok(None) };
    let refuse = |allowed: String| {
        section.refuse(&word.span, key, &format!("is '{}'", word.value), &allowed)
    };
    word.value.parse().map(Some).map_err(refuse)
}

fn read_fields(section: &Section<'_>) -> Result<Option<Vec<FieldPath>>, ConfigError> {
    let what = "field paths such as \"country.iso_code\"";
    let Some(strings) = section.strings("fields", what)? else { return Ok(None) };
    let mut fields: Vec<FieldPath> = Vec::new();
    for text in &strings.value {
        let refuse = |found: &str, allowed: &str| {
            section.refuse(&text.span, "fields", &format!("{found} '{}'", text.value), allowed)
        };
        let path = text.value.parse::<FieldPath>().ok().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| refuse("has", "names between single dots"))?;
        if fields.contains(&path) {
            return Err(refuse("repeats", "every field once"));
        }
        if fields.len() == FIELDS_MAX {
            return Err(refuse("goes on with", &format!("up to {FIELDS_MAX} fields")));
        }
        fields.push(path);
    }
    Ok(Some(fields))
}

/// Reads every `[[ruleset]]`.
pub(super) fn read_rulesets(top: &Section<'_>) -> Result<Vec<RulesetSource>, ConfigError> {
    let mut names = Names::new("ruleset");
    let read = |section: &Section<'_>| {
        let (name, path) = name_and_path(section, &mut names)?;
        let mut source = RulesetSource::new(name, path);
        if let Some(reload) = read_choice(section, "reload")? {
            source.reload = reload;
        }
        Ok(source)
    };
    top.tables("ruleset", &RULESET)?.iter().map(read).collect()
}

/// Reads every `[[zone]]`; a database that one is served from must be among those.
pub(super) fn read_zones(
    top: &Section<'_>,
    databases: &[&str],
) -> Result<Vec<ZoneSource>, ConfigError> {
    let mut names = Names::new("zone");
    let read = |section: &Section<'_>| {
        let origin = section.required_text("name")?;
        check_domain(section, "name", &origin)?;
        names.add(section, "name", &origin, &folded(origin.value))?;
        let is_secondary = section.has("primaries");
        let path = if is_secondary { copy_path(section)? } else { path_of(section)? };
        let reversed = reversed::read_reversed(section, databases)?;
        let follows_file = follows_file(section)? && !is_secondary;
        let dnssec = read_unsigned(section)?;
        let sign = read_sign(section, reversed.is_some())?;
        let name = origin.value.to_owned();
        let member = None;
        Ok(ZoneSource { name, path, is_secondary, reversed, dnssec, sign, follows_file, member })
    };
    top.tables("zone", &ZONE)?.iter().map(read).collect()
}

/// The file of a secondary zone's copy; empty: one in the data directory. It is written, so that
/// what a file of the user has would be lost.
fn copy_path(section: &Section<'_>) -> Result<PathBuf, ConfigError> {
    let Some(path) = section.text("path")? else { return Ok(PathBuf::new()) };
    let found = "stands beside 'primaries'";
    Err(section.refuse(&path.span, "path", found, "one of both; data_dir has the copy"))
}

/// Whether a zone's file is looked at again and again.
fn follows_file(section: &Section<'_>) -> Result<bool, ConfigError> {
    let Some(word) = section.text("reload")? else { return Ok(true) };
    match word.value {
        "poll" => Ok(true),
        "off" => Ok(false),
        other => {
            let found = format!("is '{other}'");
            Err(section.refuse(&word.span, "reload", &found, "'poll' or 'off'"))
        }
    }
}

/// What becomes of a signed zone.
fn read_unsigned(section: &Section<'_>) -> Result<Dnssec, ConfigError> {
    let Some(word) = section.text("unsigned")? else { return Ok(Dnssec::default()) };
    match word.value {
        "serve" => Ok(Dnssec::Serve),
        "refuse" => Ok(Dnssec::Refuse),
        "strip" => Ok(Dnssec::Strip),
        other => {
            let found = format!("is '{other}'");
            Err(section.refuse(&word.span, "unsigned", &found, "'serve', 'refuse' or 'strip'"))
        }
    }
}

/// Whether an unsigned zone is signed here, and where its keys are.
fn read_sign(section: &Section<'_>, is_reversed: bool) -> Result<Option<SignSource>, ConfigError> {
    let sign = section.flag("sign")?;
    let keys = section.filled_text("keys")?;
    let denial = read_denial(section)?;
    if sign != Some(true) {
        let found = "is there without sign = true";
        if let Some(keys) = keys {
            let allowed = "a directory of keys that sign";
            return Err(section.refuse(&keys.span, "keys", found, allowed));
        }
        if let Some((denial, _)) = denial {
            let allowed = "how a zone that is signed here denies names";
            return Err(section.refuse(&denial, "denial", found, allowed));
        }
        return Ok(None);
    }
    if is_reversed {
        let found = "is true beside 'blocklist' or 'database_txt'";
        let allowed = "a zone whose names are all in its file";
        return Err(section.refuse(&section.span_of("sign"), "sign", found, allowed));
    }
    if let Some(word) = section.text("unsigned")? {
        let found = "is there with sign = true";
        return Err(section.refuse(&word.span, "unsigned", found, "one of both"));
    }
    let keys = keys.map(|keys| resolve_path(section.document.path, keys.value));
    let is_given = section.has("allow_transfer") || section.has("notify");
    let serial = is_given.then(PathBuf::new);
    if let Some((span, DenialMethod::Compact)) = &denial
        && is_given
    {
        let found = "is 'compact' beside 'allow_transfer' or 'notify'";
        let allowed = "'nsec', whose records other servers can have";
        return Err(section.refuse(span, "denial", found, allowed));
    }
    let denial = denial.map(|(_, denial)| denial).unwrap_or_default();
    Ok(Some(SignSource { keys: keys.unwrap_or_default(), serial, denial }))
}

/// How absence is proven, and where that stands.
fn read_denial(section: &Section<'_>) -> Result<Option<(Range<usize>, DenialMethod)>, ConfigError> {
    let Some(word) = section.text("denial")? else { return Ok(None) };
    let denial = match word.value {
        "nsec" => DenialMethod::Nsec,
        "compact" => DenialMethod::Compact,
        other => {
            let found = format!("is '{other}'");
            return Err(section.refuse(&word.span, "denial", &found, "'nsec' or 'compact'"));
        }
    };
    Ok(Some((word.span, denial)))
}

fn name_and_path(
    section: &Section<'_>,
    names: &mut Names,
) -> Result<(String, PathBuf), ConfigError> {
    let name = section.required_text("name")?;
    names.add(section, "name", &name, name.value)?;
    Ok((name.value.to_owned(), path_of(section)?))
}

/// A relative path starts from the configuration's folder.
fn path_of(section: &Section<'_>) -> Result<PathBuf, ConfigError> {
    let path = section.required_text("path")?;
    Ok(resolve_path(section.document.path, path.value))
}

pub(super) fn check_domain(
    section: &Section<'_>,
    key: &str,
    name: &SpannedValue<&str>,
) -> Result<(), ConfigError> {
    match name.value.parse::<whered_dns::Name>() {
        Ok(_) => Ok(()),
        Err(error) => {
            let found = format!("is '{}' ({error})", name.value);
            Err(section.refuse(&name.span, key, &found, "a domain name such as example.com"))
        }
    }
}

/// A domain name as it is compared.
pub(super) fn folded(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Names that must be unique, with the line of their first use.
pub(super) struct Names {
    what: &'static str,
    first_lines: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn new(what: &'static str) -> Names {
        Names { what, first_lines: BTreeMap::new() }
    }

    pub(super) fn add(
        &mut self,
        section: &Section<'_>,
        key: &str,
        name: &SpannedValue<&str>,
        compared: &str,
    ) -> Result<(), ConfigError> {
        let line = section.document.line(name.span.start);
        match self.first_lines.insert(compared.to_owned(), line) {
            None => Ok(()),
            Some(first) => {
                let what = self.what;
                let found = format!("repeats the {what} '{}' of line {first}", name.value);
                Err(section.refuse(&name.span, key, &found, "every name once"))
            }
        }
    }
}
