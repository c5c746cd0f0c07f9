//! The repeated sections: `[[database]]`, `[[zone]]`, `[[pool]]` and `[[pool.site]]`.
//!
//! Not for: reading the files that are named (the engine does).
//! Invariants: names are unique by kind, domain names without regard to case; a pool's owners lie
//! in a zone that the file defines; a pool has a site, and a site has an address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use whered_engine::geo::Place;
use whered_engine::mmdb::FieldPath;
use whered_engine::{
    ADDRESSES_PER_SITE_MAX, DatabaseSource, PolicyStep, PoolSource, RulesetSource,
    SITES_PER_POOL_MAX, Site, WhenAllDown, ZoneSource,
};

use super::doors::defined;
use super::error::ConfigError;
use super::reversed;
use super::section::{Found, Keys, Section};

const DATABASE: Keys = Keys {
    title: "[[database]]",
    allowed: &["name", "path", "mode", "reload", "fields"],
    later: &[],
};
const ZONE: Keys = Keys {
    title: "[[zone]]",
    allowed: &["name", "path", "blocklist", "database_txt"],
    later: &["reload"],
};
const RULESET: Keys =
    Keys { title: "[[ruleset]]", allowed: &["name", "path", "reload"], later: &[] };
const POOL: Keys = Keys {
    title: "[[pool]]",
    allowed: &["name", "owners", "policy", "answers", "ttl_seconds", "when_all_down", "site"],
    later: &[],
};
const SITE: Keys = Keys {
    title: "[[pool.site]]",
    allowed: &["name", "at", "addresses"],
    later: &["check", "weight"],
};
const AT: Keys =
    Keys { title: "at of [[pool.site]]", allowed: &["longitude", "latitude"], later: &[] };

/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 7] =
    [&DATABASE, &RULESET, &ZONE, &reversed::BLOCKLIST, &reversed::DATABASE_TXT, &POOL, &SITE];

/// The policy of a pool that names none.
const POLICY: [PolicyStep; 2] = [PolicyStep::Healthy, PolicyStep::Nearest];
const TTL_SECONDS: u64 = 30;
/// Columns of one database.
pub(super) const FIELDS_MAX: usize = 64;
/// RFC 2181 section 8.
pub(super) const TTL_SECONDS_MAX: u64 = 0x7fff_ffff;

/// Reads every `[[database]]`.
pub(super) fn read_databases(top: &Section<'_>) -> Result<Vec<DatabaseSource>, ConfigError> {
    let mut names = Names::new("database");
    let read = |section: &Section<'_>| {
        let (name, path) = name_and_path(section, &mut names)?;
        let mut source = DatabaseSource::new(name, path);
        if let Some(mode) = read_choice(section, "mode")? {
            source.mode = mode;
        }
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
    let Some(texts) = section.texts("fields", what)? else { return Ok(None) };
    let mut fields: Vec<FieldPath> = Vec::new();
    for text in &texts.value {
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
        let path = path_of(section)?;
        let reversed = reversed::read_reversed(section, databases)?;
        Ok(ZoneSource { name: origin.value.to_owned(), path, reversed })
    };
    top.tables("zone", &ZONE)?.iter().map(read).collect()
}

/// Reads every `[[pool]]`; owners must lie in one of the zones.
pub(super) fn read_pools(
    top: &Section<'_>,
    zones: &[ZoneSource],
) -> Result<Vec<PoolSource>, ConfigError> {
    let mut names = Names::new("pool");
    let mut owners = Names::new("owner");
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        names.add(section, "name", &name, name.value)?;
        check_answers(section)?;
        let ttl = section.integer("ttl_seconds", 0..=TTL_SECONDS_MAX)?;
        Ok(PoolSource {
            name: name.value.to_owned(),
            owners: read_owners(section, zones, &mut owners)?,
            policy: read_policy(section)?,
            ttl_seconds: ttl.map_or(TTL_SECONDS, |found| found.value) as u32,
            when_all_down: read_when_all_down(section)?,
            sites: read_sites(section)?,
        })
    };
    top.tables("pool", &POOL)?.iter().map(read).collect()
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
    Ok(super::beside(section.document.path, path.value))
}

fn check_domain(section: &Section<'_>, key: &str, name: &Found<&str>) -> Result<(), ConfigError> {
    match name.value.parse::<whered_dns::Name>() {
        Ok(_) => Ok(()),
        Err(error) => {
            let found = format!("is '{}' ({error})", name.value);
            Err(section.refuse(&name.span, key, &found, "a domain name such as example.com"))
        }
    }
}

fn read_owners(
    section: &Section<'_>,
    zones: &[ZoneSource],
    seen: &mut Names,
) -> Result<Vec<String>, ConfigError> {
    let what = "domain names such as \"www.example.com\"";
    let Some(owners) = section.texts("owners", what)? else {
        return Err(section.missing("owners"));
    };
    for owner in &owners.value {
        check_domain(section, "owners", owner)?;
        let inside = |zone: &ZoneSource| is_in_zone(&folded(owner.value), &folded(&zone.name));
        if !zones.iter().any(inside) {
            let names: Vec<_> = zones.iter().map(|zone| zone.name.as_str()).collect();
            let found = format!("names '{}', which lies in no [[zone]]", owner.value);
            let allowed = match names[..] {
                [] => "nothing, as no [[zone]] is defined".to_owned(),
                _ => format!("names in {}", defined(&names)),
            };
            return Err(section.refuse(&owner.span, "owners", &found, &allowed));
        }
        seen.add(section, "owners", owner, &folded(owner.value))?;
    }
    Ok(owners.value.iter().map(|owner| owner.value.to_owned()).collect())
}

fn folded(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_in_zone(owner: &str, zone: &str) -> bool {
    match owner.strip_suffix(zone) {
        Some(rest) => zone.is_empty() || rest.is_empty() || rest.ends_with('.'),
        None => false,
    }
}

fn read_policy(section: &Section<'_>) -> Result<Vec<PolicyStep>, ConfigError> {
    let allowed = "healthy, nearest";
    let what = "policy steps: healthy, nearest";
    let Some(texts) = section.texts("policy", what)? else {
        return Ok(POLICY.to_vec());
    };
    let mut steps = Vec::with_capacity(texts.value.len());
    for text in &texts.value {
        let step = match text.value {
            "healthy" => PolicyStep::Healthy,
            "nearest" => PolicyStep::Nearest,
            later if later.starts_with("rules:") => {
                let found = format!("has the step '{later}', which is not in this version");
                return Err(section.refuse(&text.span, "policy", &found, allowed));
            }
            other => {
                let found = format!("has the unknown step '{other}'");
                return Err(section.refuse(&text.span, "policy", &found, allowed));
            }
        };
        if steps.contains(&step) {
            let found = format!("has the step '{}' twice", text.value);
            return Err(section.refuse(&text.span, "policy", &found, "every step once"));
        }
        steps.push(step);
    }
    Ok(steps)
}

fn check_answers(section: &Section<'_>) -> Result<(), ConfigError> {
    match section.integer("answers", 0..=u64::MAX)? {
        Some(found) if found.value != 1 => {
            let text = format!("is {}", found.value);
            Err(section.refuse(&found.span, "answers", &text, "1 (in this version)"))
        }
        _ => Ok(()),
    }
}

fn read_when_all_down(section: &Section<'_>) -> Result<WhenAllDown, ConfigError> {
    let key = "when_all_down";
    match section.text(key)? {
        None => Ok(WhenAllDown::All),
        Some(found) => match found.value {
            "all" => Ok(WhenAllDown::All),
            "none" => Ok(WhenAllDown::None),
            other => Err(section.refuse(&found.span, key, &format!("is '{other}'"), "all, none")),
        },
    }
}

fn read_sites(pool: &Section<'_>) -> Result<Vec<Site>, ConfigError> {
    let sections = pool.tables("site", &SITE)?;
    if sections.is_empty() {
        let message = "no [[pool.site]] in [[pool]]; at least one is needed";
        return Err(pool.document.error(&pool.span, message));
    }
    if let Some(section) = sections.get(SITES_PER_POOL_MAX) {
        let message =
            format!("too many [[pool.site]] in one [[pool]]; allowed: {SITES_PER_POOL_MAX}");
        return Err(pool.document.error(&section.span, message));
    }
    let mut names = Names::new("site");
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        names.add(section, "name", &name, name.value)?;
        Ok(Site {
            name: name.value.to_owned(),
            place: read_place(section)?,
            addresses: read_addresses(section)?,
            healthy: true,
        })
    };
    sections.iter().map(read).collect()
}

fn read_place(section: &Section<'_>) -> Result<Place, ConfigError> {
    let Some(at) = section.table("at", &AT)? else {
        return Err(section.missing("at"));
    };
    let longitude_degrees = at.required_number("longitude", -180.0..=180.0)?;
    let latitude_degrees = at.required_number("latitude", -90.0..=90.0)?;
    Place::new_geographic(longitude_degrees, latitude_degrees)
        .map_err(|error| section.document.error(&at.span, error.to_string()))
}

fn read_addresses(section: &Section<'_>) -> Result<Vec<IpAddr>, ConfigError> {
    let what = "1 to 64 IP addresses such as \"192.0.2.10\" or \"2001:db8::10\"";
    let key = "addresses";
    let Some(texts) = section.texts(key, what)? else {
        return Err(section.missing(key));
    };
    if texts.value.is_empty() || texts.value.len() > ADDRESSES_PER_SITE_MAX {
        let found = format!("holds {}", texts.value.len());
        return Err(section.refuse(&texts.span, key, &found, what));
    }
    let mut addresses = Vec::with_capacity(texts.value.len());
    for text in &texts.value {
        let Ok(address) = text.value.parse::<IpAddr>() else {
            let found = format!("holds '{}'", text.value);
            return Err(section.refuse(&text.span, key, &found, what));
        };
        if addresses.contains(&address) {
            let found = format!("holds {address} twice");
            return Err(section.refuse(&text.span, key, &found, "every address once"));
        }
        addresses.push(address);
    }
    Ok(addresses)
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
        name: &Found<&str>,
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
