//! `[[pool]]`: which names are answered from which sites, and how one is chosen.
//!
//! Not for: sites (`sites.rs`), maps (`maps.rs`).
//! Invariants: names are unique; a pool's owners lie in a zone that the file defines; a pool has a
//! site; what a policy names is defined, and its map's lists name the pool's own sites and groups.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use whered_dns::ANSWERS_MAX;
use whered_engine::{MapSource, PolicyStep, PoolSource, SitesFrom, WhenAllDown, ZoneSource};

use super::error::ConfigError;
use super::maps::{OWN_MAP, read_map};
use super::named::{Names, TTL_SECONDS_MAX, check_domain, folded};
use super::section::{Keys, Section, SpannedValue, defined};
use super::sites::read_sites;

pub(super) const POOL: Keys = Keys {
    title: "[[pool]]",
    allowed: &[
        "name",
        "owners",
        "policy",
        "map",
        "overrides",
        "sites_from",
        "answers",
        "ttl_seconds",
        "when_all_down",
        "site",
    ],
    later: &[],
};
const SITES_FROM: Keys = Keys {
    title: "sites_from of [[pool]]",
    allowed: &["collection", "refresh_seconds"],
    later: &[],
};

/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 2] = [&POOL, &SITES_FROM];

/// The policy of a pool that names none.
const POLICY: [PolicyStep; 2] = [PolicyStep::Healthy, PolicyStep::Nearest];
/// What steps are called.
const STEPS: &str = "rules:NAME, map, map:NAME, healthy, nearest, failover, failover:SHARE, weighted, \
     weighted:sticky";
/// The share of a group that must be up where a step does not say.
const FAILOVER_THRESHOLD: f64 = 0.5;
const TTL_SECONDS: u64 = 30;
const REFRESH_SECONDS: f64 = 1.0;
const REFRESH_SECONDS_MAX: f64 = 86_400.0;

/// What pools refer to.
pub(super) struct DefinedNames<'a> {
    pub(super) zones: &'a [ZoneSource],
    pub(super) databases: &'a [&'a str],
    pub(super) rulesets: &'a [&'a str],
    pub(super) maps: &'a [Arc<MapSource>],
}

/// Reads every `[[pool]]`; owners must lie in one of the zones.
pub(super) fn read_pools(
    top: &Section<'_>,
    around: &DefinedNames<'_>,
) -> Result<Vec<PoolSource>, ConfigError> {
    let mut names = Names::new("pool");
    let mut owners = Names::new("owner");
    let zones = around.zones.iter().map(|zone| folded(&zone.name)).collect();
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        names.add(section, "name", &name, name.value)?;
        let owners = read_owners(section, &zones, &mut owners)?;
        let policy = read_policy(section, around)?;
        let sites_from = read_sites_from(section)?;
        let needs_places = policy.contains(&PolicyStep::Nearest) && sites_from.is_none();
        let answers = section.integer("answers", 1..=ANSWERS_MAX as u64)?;
        let ttl = section.integer("ttl_seconds", 0..=TTL_SECONDS_MAX)?;
        let overrides = section.filled_text("overrides")?;
        let mut pool = PoolSource::new(name.value, owners, Vec::new());
        pool.overrides = overrides.map(|set| set.value.to_owned());
        pool.sites_from = sites_from;
        pool.answers = answers.map_or(1, |found| found.value as usize);
        pool.ttl_seconds = ttl.map_or(TTL_SECONDS, |found| found.value) as u32;
        pool.when_all_down = read_when_all_down(section)?;
        pool.sites = read_sites(section, needs_places)?;
        pool.policy = policy;
        check_maps(section, &pool)?;
        Ok(pool)
    };
    top.tables("pool", &POOL)?.iter().map(read).collect()
}

fn read_owners(
    section: &Section<'_>,
    zones: &BTreeSet<String>,
    seen: &mut Names,
) -> Result<Vec<String>, ConfigError> {
    let what = "domain names such as \"www.example.com\"";
    let Some(owners) = section.strings("owners", what)? else {
        return Err(section.missing("owners"));
    };
    for owner in &owners.value {
        check_domain(section, "owners", owner)?;
        if !is_in_zone(&folded(owner.value), zones) {
            let names: Vec<&str> = zones.iter().map(String::as_str).collect();
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

/// Whether a name or one above it is a zone. The root is the empty text.
fn is_in_zone(owner: &str, zones: &BTreeSet<String>) -> bool {
    let above = std::iter::successors(Some(owner), |name| Some(name.split_once('.')?.1));
    above.chain([""]).any(|name| zones.contains(name))
}

fn read_policy(
    section: &Section<'_>,
    around: &DefinedNames<'_>,
) -> Result<Vec<PolicyStep>, ConfigError> {
    let own_map = section.table("map", &OWN_MAP)?;
    let own_map = own_map.map(|map| read_map(&map, "", around.databases)).transpose()?;
    let what = format!("policy steps: {STEPS}");
    let Some(strings) = section.strings("policy", &what)? else {
        return match own_map {
            // Who writes a map means it to be asked.
            Some(_) => Err(section.missing("policy")),
            None => Ok(POLICY.to_vec()),
        };
    };
    let mut steps = Vec::with_capacity(strings.value.len());
    for (index, text) in strings.value.iter().enumerate() {
        let refuse = |found: String, allowed: &str| {
            Err(section.refuse(&text.span, "policy", &found, allowed))
        };
        if strings.value[..index].iter().any(|earlier| earlier.value == text.value) {
            return refuse(format!("has the step '{}' twice", text.value), "every step once");
        }
        if steps.iter().any(|step| matches!(step, PolicyStep::Weighted { .. })) {
            return refuse(
                format!("has the step '{}' after 'weighted'", text.value),
                "'weighted' as the last step",
            );
        }
        steps.push(read_step(section, text, own_map.as_ref(), around)?);
    }
    let uses = |name: &str| {
        steps.iter().any(|step| matches!(step, PolicyStep::Map(map) if map.name == name))
    };
    if own_map.is_some() && !uses("") {
        let found = "has no step 'map', but the pool has a map";
        return Err(section.refuse(&strings.span, "policy", found, "the step 'map'"));
    }
    Ok(steps)
}

fn read_step(
    section: &Section<'_>,
    text: &SpannedValue<&str>,
    own_map: Option<&MapSource>,
    around: &DefinedNames<'_>,
) -> Result<PolicyStep, ConfigError> {
    let refuse =
        |found: String, allowed: &str| section.refuse(&text.span, "policy", &found, allowed);
    let (word, name) = match text.value.split_once(':') {
        Some((word, name)) => (word, Some(name)),
        None => (text.value, None),
    };
    Ok(match (word, name) {
        ("healthy", None) => PolicyStep::Healthy,
        ("nearest", None) => PolicyStep::Nearest,
        ("weighted", None) => PolicyStep::Weighted { is_sticky: false },
        ("weighted", Some("sticky")) => PolicyStep::Weighted { is_sticky: true },
        ("failover", None) => PolicyStep::Failover { threshold: FAILOVER_THRESHOLD },
        ("failover", Some(share)) => {
            let threshold = share.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
            let threshold = threshold.ok_or_else(|| {
                refuse(format!("has the share '{share}'"), "a share above 0, up to 1")
            })?;
            PolicyStep::Failover { threshold }
        }
        ("rules", Some(name)) if around.rulesets.contains(&name) => {
            PolicyStep::Rules(name.to_owned())
        }
        ("rules", Some(name)) => {
            let found = format!("names the ruleset '{name}', which is no [[ruleset]]");
            return Err(refuse(found, &of_those("rulesets", around.rulesets)));
        }
        ("map", None) => match own_map {
            Some(map) => PolicyStep::Map(Arc::new(map.clone())),
            None => {
                let found = "has the step 'map', but the pool has no map".to_owned();
                return Err(refuse(found, "'map' with a table [pool.map], or map:NAME"));
            }
        },
        ("map", Some(name)) => match around.maps.iter().find(|map| map.name == name) {
            Some(map) => PolicyStep::Map(Arc::clone(map)),
            None => {
                let names: Vec<&str> = around.maps.iter().map(|map| map.name.as_str()).collect();
                let found = format!("names the map '{name}', which is no [[map]]");
                return Err(refuse(found, &of_those("maps", &names)));
            }
        },
        _ => return Err(refuse(format!("has the unknown step '{}'", text.value), STEPS)),
    })
}

fn of_those(what: &str, names: &[&str]) -> String {
    match names {
        [] => format!("none, as no {what} are defined"),
        _ => defined(names),
    }
}

/// A list that names what the pool does not have would never be what its writer meant.
fn check_maps(section: &Section<'_>, pool: &PoolSource) -> Result<(), ConfigError> {
    for step in &pool.policy {
        let PolicyStep::Map(map) = step else { continue };
        for (what, list) in map.lists() {
            let unknown = list.iter().find(|name| !pool.has_site_or_group(name));
            if let Some(name) = unknown {
                let called = if map.name.is_empty() { "the pool's own" } else { &map.name };
                let names: Vec<&str> = pool.sites.iter().map(|site| site.name.as_str()).collect();
                let message = format!(
                    "the map '{called}' lists '{name}' for {what}, which pool '{}' does not have; \
                     allowed: {}, and their groups",
                    pool.name,
                    defined(&names)
                );
                return Err(section.document.error(&section.span, message));
            }
        }
    }
    Ok(())
}

fn read_sites_from(section: &Section<'_>) -> Result<Option<SitesFrom>, ConfigError> {
    let Some(table) = section.table("sites_from", &SITES_FROM)? else { return Ok(None) };
    let collection = table.required_text("collection")?.value.to_owned();
    let seconds = table.number("refresh_seconds", 0.0..=REFRESH_SECONDS_MAX)?;
    let refresh = Duration::from_secs_f64(seconds.unwrap_or(REFRESH_SECONDS));
    Ok(Some(SitesFrom { collection, refresh }))
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

#[cfg(test)]
#[path = "pools_tests.rs"]
mod tests;
