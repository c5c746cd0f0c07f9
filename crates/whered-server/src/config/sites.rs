//! `[[pool.site]]`: where a pool's answers are, and what they are.
//!
//! Not for: how one is chosen (`pools.rs`).
//! Invariants: names are unique in a pool; a site answers something; an alias stands alone.

use std::net::IpAddr;

use whered_dns::{RecordType, Reflect, record_data, text_data};
use whered_engine::geo::Place;
use whered_engine::{ADDRESSES_PER_SITE_MAX, SITES_PER_POOL_MAX, Site, SiteDetails};

use super::error::ConfigError;
use super::named::{Names, check_domain};
use super::section::{Keys, Section};

pub(super) const SITE: Keys = Keys {
    title: "[[pool.site]]",
    allowed: &[
        "name",
        "at",
        "group",
        "addresses",
        "cname",
        "https",
        "svcb",
        "txt",
        "reflect",
        "weight",
        "capacity",
        "check",
    ],
    later: &[],
};
const AT: Keys =
    Keys { title: "at of [[pool.site]]", allowed: &["longitude", "latitude"], later: &[] };

/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&SITE];

/// What weights add up to stays far below what a number holds.
const WEIGHT_MAX: u64 = 1_000_000;

/// Reads every `[[pool.site]]` of a pool.
pub(super) fn read_sites(pool: &Section<'_>, needs_places: bool) -> Result<Vec<Site>, ConfigError> {
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
        let place = read_place(section)?;
        if needs_places && place.is_none() {
            return Err(section.missing("at"));
        }
        let details = read_details(section)?;
        let addresses = read_addresses(section)?;
        let answers = addresses.is_some()
            || details.alias.is_some()
            || !details.records.is_empty()
            || details.reflect.is_some();
        if !answers {
            return Err(section.missing("addresses"));
        }
        let stands_alone =
            addresses.is_none() && details.records.is_empty() && details.reflect.is_none();
        if let Some(found) = section.text("cname")?.filter(|_| !stands_alone) {
            let allowed = "a site without addresses and other records";
            return Err(section.refuse(&found.span, "cname", "stands beside others", allowed));
        }
        Ok(Site { details, ..Site::new(name.value, place, addresses.unwrap_or_default()) })
    };
    sections.iter().map(read).collect()
}

fn read_details(section: &Section<'_>) -> Result<SiteDetails, ConfigError> {
    let alias = match section.filled_text("cname")? {
        Some(name) => {
            check_domain(section, "cname", &name)?;
            name.value.parse().ok()
        }
        None => None,
    };
    let capacity = section.share("capacity")?;
    let weight = section.integer("weight", 0..=WEIGHT_MAX)?;
    Ok(SiteDetails {
        group: section.filled_text("group")?.map(|group| group.value.to_owned()),
        weight: weight.map_or(1, |found| found.value as u32),
        capacity,
        alias,
        records: read_records(section)?,
        reflect: read_reflect(section)?,
    })
}

/// Which address of the client is answered.
fn read_reflect(section: &Section<'_>) -> Result<Option<Reflect>, ConfigError> {
    let Some(word) = section.text("reflect")? else { return Ok(None) };
    match word.value {
        "source" => Ok(Some(Reflect::Source)),
        "subnet" => Ok(Some(Reflect::Subnet)),
        "both" => Ok(Some(Reflect::Both)),
        "best" => Ok(Some(Reflect::Best)),
        other => {
            let allowed = "'source', 'subnet', 'both' or 'best'";
            Err(section.refuse(&word.span, "reflect", &format!("is '{other}'"), allowed))
        }
    }
}

fn read_records(section: &Section<'_>) -> Result<Vec<(RecordType, Vec<u8>)>, ConfigError> {
    let mut records = Vec::new();
    for (key, record_type) in [("https", RecordType::HTTPS), ("svcb", RecordType::SVCB)] {
        let what = "records such as \"1 . alpn=h2,h3\"";
        let Some(strings) = section.strings(key, what)? else { continue };
        for text in &strings.value {
            let data = record_data(record_type, text.value).map_err(|error| {
                let found = format!("holds '{}' ({error})", text.value);
                section.refuse(&text.span, key, &found, what)
            })?;
            records.push((record_type, data));
        }
    }
    if let Some(strings) = section.strings("txt", "texts")? {
        for text in &strings.value {
            let data = text_data(text.value).ok_or_else(|| {
                section.refuse(&text.span, "txt", "holds a longer text", "up to 65279 bytes")
            })?;
            records.push((RecordType::TXT, data));
        }
    }
    Ok(records)
}

fn read_place(section: &Section<'_>) -> Result<Option<Place>, ConfigError> {
    let Some(at) = section.table("at", &AT)? else { return Ok(None) };
    let longitude_degrees = at.required_number("longitude", -180.0..=180.0)?;
    let latitude_degrees = at.required_number("latitude", -90.0..=90.0)?;
    let place = Place::new_geographic(longitude_degrees, latitude_degrees);
    place.map(Some).map_err(|error| section.document.error(&at.span, error.to_string()))
}

fn read_addresses(section: &Section<'_>) -> Result<Option<Vec<IpAddr>>, ConfigError> {
    let what = "1 to 64 IP addresses such as \"192.0.2.10\" or \"2001:db8::10\"";
    let key = "addresses";
    let Some(strings) = section.strings(key, what)? else { return Ok(None) };
    if strings.value.is_empty() || strings.value.len() > ADDRESSES_PER_SITE_MAX {
        let found = format!("holds {}", strings.value.len());
        return Err(section.refuse(&strings.span, key, &found, what));
    }
    let mut addresses = Vec::with_capacity(strings.value.len());
    for text in &strings.value {
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
    Ok(Some(addresses))
}
