//! What the configuration says about catalog zones (RFC 9432): `[[catalog]]`, and the keys of
//! `[[zone]]` that put a zone into one.
//!
//! ```text
//! [[catalog]] with primaries      comes from other servers; its members are served here
//! [[catalog]] without             made here of the zones that say catalog = "NAME"
//! ```
//! Not for: reading catalogs. Invariant: a catalog's name is that of no zone and no other catalog.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use whered_dns::{Name, catalog};
use whered_engine::ZoneSource;

use super::error::ConfigError;
use super::named::{Names, ZONE, check_domain, folded};
use super::section::{Keys, Section};
use super::transfers::{read_allowed, read_remotes, read_size_max};
use crate::dns::{
    CatalogContent, CatalogOptions, FollowedCatalog, MEMBERS_MAX, MemberSettings, PoolsInTransfer,
    TRANSFER_SIZE_MAX, TransferOptions, ZoneTransfers,
};

const CATALOG: Keys = Keys {
    title: "[[catalog]]",
    allowed: &[
        "name",
        "primaries",
        "transfer_size_max",
        "members_max",
        "members",
        "group",
        "allow_transfer",
        "notify",
    ],
    later: &[],
};
const MEMBERS: Keys = Keys {
    title: "[catalog.members]",
    allowed: &["primaries", "transfer_size_max", "allow_transfer", "notify"],
    later: &[],
};
const GROUP: Keys = Keys {
    title: "[[catalog.group]]",
    allowed: &["name", "primaries", "transfer_size_max", "allow_transfer", "notify"],
    later: &[],
};
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 3] = [&CATALOG, &MEMBERS, &GROUP];

const MEMBER_COUNT: RangeInclusive<u64> = 1..=10_000_000;
/// The bytes of a string in a TXT record.
const GROUP_SIZE_MAX: usize = 255;

/// Reads every `[[catalog]]` and adds its zone to the others.
pub(super) fn read_catalogs(
    top: &Section<'_>,
    transfers: &mut TransferOptions,
    zones: &mut Vec<ZoneSource>,
) -> Result<(), ConfigError> {
    let mut names = Names::new("zone");
    let of_zones = top.tables("zone", &ZONE)?;
    let sections = top.tables("catalog", &CATALOG)?;
    if !sections.is_empty() {
        for section in &of_zones {
            let name = section.required_text("name")?;
            names.add(section, "name", &name, &folded(name.value))?;
        }
    }
    let mut made: HashMap<Name, usize> = HashMap::new();
    for section in &sections {
        let name = section.required_text("name")?;
        check_domain(section, "name", &name)?;
        names.add(section, "name", &name, &folded(name.value))?;
        let origin: Name = name.value.parse().unwrap_or_else(|_| Name::root());
        let (content, zone) = read_catalog(section, name.value, &origin, transfers)?;
        if let CatalogContent::Made(_) = &content {
            if !catalog::fits_members(&origin) {
                let allowed = "a shorter name, which members have room below";
                let found = format!("is '{}'", name.value);
                return Err(section.refuse(&name.span, "name", &found, allowed));
            }
            made.insert(origin.clone(), transfers.catalogs.len());
        }
        let mut source = ZoneSource::new(name.value, PathBuf::new());
        source.is_secondary = true;
        source.follows_file = false;
        zones.push(source);
        transfers.zones.push(zone);
        transfers.catalogs.push(CatalogOptions { name: name.value.to_owned(), origin, content });
    }
    of_zones.iter().try_for_each(|zone| read_membership(zone, &made, &mut transfers.catalogs))
}

fn read_catalog(
    section: &Section<'_>,
    name: &str,
    origin: &Name,
    transfers: &TransferOptions,
) -> Result<(CatalogContent, ZoneTransfers), ConfigError> {
    let keys = &transfers.keys;
    let primaries = read_remotes(section, "primaries", keys)?;
    let size = section_size(section)?;
    let mut zone = ZoneTransfers {
        name: name.to_owned(),
        origin: origin.clone(),
        primaries: primaries.clone().unwrap_or_default(),
        allow: read_allowed(section, keys)?.unwrap_or_default(),
        notify: read_remotes(section, "notify", keys)?.unwrap_or_default(),
        size_max_bytes: size.unwrap_or(TRANSFER_SIZE_MAX),
        pools: PoolsInTransfer::default(),
        updates: Vec::new(),
        members_max: None,
        member: None,
    };
    let Some(primaries) = primaries else {
        for key in ["transfer_size_max", "members_max", "members", "group"] {
            if section.has(key) {
                let found = "stands without 'primaries'";
                return Err(section.refuse(&section.span_of(key), key, found, "both"));
            }
        }
        return Ok((CatalogContent::Made(Vec::new()), zone));
    };
    let members_max = section.integer("members_max", MEMBER_COUNT)?;
    let members_max = members_max.map_or(MEMBERS_MAX, |found| found.value as usize);
    zone.members_max = Some(members_max);
    let common = MemberSettings {
        primaries,
        allow: Vec::new(),
        notify: Vec::new(),
        size_max_bytes: TRANSFER_SIZE_MAX,
    };
    let members = match section.table("members", &MEMBERS)? {
        Some(own) => read_settings(&own, &common, transfers)?,
        None => common,
    };
    let mut names = Names::new("group");
    let read_group = |group: &Section<'_>| {
        let name = group.required_text("name")?;
        names.add(group, "name", &name, name.value)?;
        Ok((name.value.to_owned(), read_settings(group, &members, transfers)?))
    };
    let groups = section.tables("group", &GROUP)?;
    let groups = groups.iter().map(read_group).collect::<Result<_, _>>()?;
    Ok((CatalogContent::Followed(FollowedCatalog { members_max, members, groups }), zone))
}

/// What a table says of members; the rest is as `common` has it.
fn read_settings(
    section: &Section<'_>,
    common: &MemberSettings,
    transfers: &TransferOptions,
) -> Result<MemberSettings, ConfigError> {
    let keys = &transfers.keys;
    let or = |found: Option<Vec<_>>, common: &Vec<_>| found.unwrap_or_else(|| common.clone());
    Ok(MemberSettings {
        primaries: or(read_remotes(section, "primaries", keys)?, &common.primaries),
        notify: or(read_remotes(section, "notify", keys)?, &common.notify),
        allow: read_allowed(section, keys)?.unwrap_or_else(|| common.allow.clone()),
        size_max_bytes: section_size(section)?.unwrap_or(common.size_max_bytes),
    })
}

fn section_size(section: &Section<'_>) -> Result<Option<usize>, ConfigError> {
    Ok(read_size_max(section)?.map(|size| size.value as usize))
}

/// Puts a zone into the catalog that it names.
fn read_membership(
    section: &Section<'_>,
    made: &HashMap<Name, usize>,
    catalogs: &mut [CatalogOptions],
) -> Result<(), ConfigError> {
    let group = section.filled_text("catalog_group")?;
    let Some(named) = section.filled_text("catalog")? else {
        return match group {
            None => Ok(()),
            Some(group) => {
                let found = "stands without 'catalog'";
                Err(section.refuse(&group.span, "catalog_group", found, "both"))
            }
        };
    };
    if let Some(group) = group.as_ref().filter(|group| group.value.len() > GROUP_SIZE_MAX) {
        let found = format!("has {} bytes", group.value.len());
        let allowed = format!("up to {GROUP_SIZE_MAX}");
        return Err(section.refuse(&group.span, "catalog_group", &found, &allowed));
    }
    let index = named.value.parse::<Name>().ok().and_then(|name| made.get(&name));
    let catalog = index.and_then(|index| catalogs.get_mut(*index));
    let Some(CatalogOptions { content: CatalogContent::Made(members), .. }) = catalog else {
        let found = format!("is '{}', which no [[catalog]] without primaries is", named.value);
        let names: Vec<String> = made.keys().map(Name::to_string).collect();
        let allowed = match names.is_empty() {
            true => "nothing, as none is made here".to_owned(),
            false => names.join(", "),
        };
        return Err(section.refuse(&named.span, "catalog", &found, &allowed));
    };
    let name = section.required_text("name")?;
    let origin: Name = name.value.parse().unwrap_or_else(|_| Name::root());
    members.push((origin, group.map(|group| group.value.to_owned())));
    Ok(())
}
