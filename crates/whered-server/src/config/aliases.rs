//! `[[zone.alias]]`: names of a zone with the addresses of other names.
//!
//! Not for: looking them up. Invariant: a name is in its zone, and there is one alias of it.

use std::ops::RangeInclusive;

use whered_dns::Name;
use whered_engine::AliasSource;

use super::error::ConfigError;
use super::named::{Names, ZONE, check_domain, folded};
use super::section::{Keys, Section, SpannedValue};

pub(super) const ALIAS: Keys =
    Keys { title: "[[zone.alias]]", allowed: &["name", "target", "ttl_seconds"], later: &[] };
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&ALIAS];

/// What changes faster than this is not looked up so often.
const TTL_SECONDS: RangeInclusive<u64> = 5..=86_400;
const TTL_SECONDS_DEFAULT: u32 = 60;

/// Reads every `[[zone.alias]]`.
pub(super) fn read_aliases(top: &Section<'_>) -> Result<Vec<AliasSource>, ConfigError> {
    let mut names = Names::new("alias");
    let mut aliases = Vec::new();
    for zone in top.tables("zone", &ZONE)? {
        let origin = zone.required_text("name")?;
        check_domain(&zone, "name", &origin)?;
        for section in zone.tables("alias", &ALIAS)? {
            aliases.push(read_alias(&section, &origin, &mut names)?);
        }
    }
    Ok(aliases)
}

fn read_alias(
    section: &Section<'_>,
    origin: &SpannedValue<&str>,
    names: &mut Names,
) -> Result<AliasSource, ConfigError> {
    let zone = origin.value.parse().unwrap_or_else(|_| Name::root());
    let owner = match section.text("name")? {
        None => {
            let at = SpannedValue { value: origin.value, span: section.span.clone() };
            names.add(section, "name", &at, &folded(origin.value))?;
            zone.clone()
        }
        Some(text) => {
            check_domain(section, "name", &text)?;
            names.add(section, "name", &text, &folded(text.value))?;
            let owner: Name = text.value.parse().unwrap_or_else(|_| Name::root());
            if !owner.is_within(&zone) || owner.is_wildcard() {
                let found = format!("is '{}'", text.value);
                let allowed = format!("a name in {zone} without '*'");
                return Err(section.refuse(&text.span, "name", &found, &allowed));
            }
            owner
        }
    };
    let target = section.required_text("target")?;
    check_domain(section, "target", &target)?;
    let target_name: Name = target.value.parse().unwrap_or_else(|_| Name::root());
    if target_name == owner {
        let found = "is the alias itself";
        return Err(section.refuse(&target.span, "target", found, "another name"));
    }
    let ttl_seconds = section.integer("ttl_seconds", TTL_SECONDS)?;
    Ok(AliasSource {
        zone: origin.value.to_owned(),
        owner,
        target: target_name,
        ttl_seconds: ttl_seconds.map_or(TTL_SECONDS_DEFAULT, |ttl| ttl.value as u32),
    })
}
