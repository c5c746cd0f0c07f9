//! `[[map]]` and `[pool.map]`: which sites serve which places.
//!
//! Not for: whether a pool has the sites that are listed (`pools.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use whered_engine::MapSource;
use whered_engine::ip::Prefix;

use super::error::ConfigError;
use super::named::Names;
use super::section::{Keys, Section, SpannedValue, defined};

const MAP: Keys = Keys {
    title: "[[map]]",
    allowed: &[
        "name",
        "database",
        "asn_database",
        "default",
        "continents",
        "countries",
        "subdivisions",
        "asns",
        "networks",
    ],
    later: &[],
};
/// A pool's own.
pub(super) const OWN_MAP: Keys = Keys {
    title: "[pool.map]",
    allowed: &[
        "database",
        "asn_database",
        "default",
        "continents",
        "countries",
        "subdivisions",
        "asns",
        "networks",
    ],
    later: &[],
};

/// The tables of this module that have a section in the documentation.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&MAP];

/// What lists hold, for messages.
const WHAT: &str = "names of sites or groups";
/// The two-letter codes of ISO 3166-1, then those that databases have beside them: Kosovo, and of
/// legacy files the Asia/Pacific region, Europe, metropolitan France and the Netherlands Antilles.
const COUNTRIES: &str = "\
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ \
    BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM \
    DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS \
    GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN \
    KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ \
    MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM \
    PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV \
    SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI \
    VN VU WF WS YE YT ZA ZM ZW \
    XK AP EU FX AN";
const CONTINENTS: [&str; 7] = ["AF", "AN", "AS", "EU", "NA", "OC", "SA"];

/// Reads every `[[map]]`.
pub(super) fn read_maps(
    top: &Section<'_>,
    databases: &[&str],
) -> Result<Vec<Arc<MapSource>>, ConfigError> {
    let mut names = Names::new("map");
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        names.add(section, "name", &name, name.value)?;
        read_map(section, name.value, databases).map(Arc::new)
    };
    top.tables("map", &MAP)?.iter().map(read).collect()
}

/// Reads the lists of one map.
pub(super) fn read_map(
    section: &Section<'_>,
    name: &str,
    databases: &[&str],
) -> Result<MapSource, ConfigError> {
    let country = |code: &str| {
        let code = code.to_ascii_uppercase();
        COUNTRIES.split(' ').any(|known| known == code).then_some(code)
    };
    let continent = |code: &str| Some(code.to_ascii_uppercase());
    let continent = |code: &str| continent(code).filter(|code| CONTINENTS.contains(&&**code));
    let subdivision = |code: &str| {
        let (of, part) = code.split_once('-')?;
        let is_part =
            (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric());
        is_part.then_some(())?;
        Some(format!("{}-{}", country(of)?, part.to_ascii_uppercase()))
    };
    let asn = |text: &str| text.strip_prefix("AS").unwrap_or(text).parse::<u32>().ok();
    let prefix = |text: &str| text.parse::<Prefix>().ok();
    let map = MapSource {
        name: name.to_owned(),
        database: read_database(section, "database", databases)?,
        asn_database: read_database(section, "asn_database", databases)?,
        default: read_default(section)?,
        continents: read_lists(section, "continents", &defined(&CONTINENTS), continent)?,
        countries: read_lists(
            section,
            "countries",
            "codes of ISO 3166-1 such as DE or GB",
            country,
        )?,
        subdivisions: read_lists(
            section,
            "subdivisions",
            "codes of ISO 3166-2 such as US-CA",
            subdivision,
        )?,
        asns: read_lists(section, "asns", "numbers such as 64496", asn)?,
        networks: read_lists(section, "networks", "prefixes such as 192.0.2.0/24", prefix)?
            .into_iter()
            .collect(),
    };
    if map.lists().next().is_none() {
        let message = "a map needs a list; its keys: default, continents, countries, subdivisions, \
                       asns, networks";
        return Err(section.document.error(&section.span, message));
    }
    Ok(map)
}

fn read_database(
    section: &Section<'_>,
    key: &str,
    databases: &[&str],
) -> Result<Option<String>, ConfigError> {
    let Some(name) = section.filled_text(key)? else { return Ok(None) };
    if databases.contains(&name.value) {
        return Ok(Some(name.value.to_owned()));
    }
    let found = format!("is '{}', which is no [[database]]", name.value);
    let allowed = match databases {
        [] => "nothing, as no [[database]] is defined".to_owned(),
        _ => defined(databases),
    };
    Err(section.refuse(&name.span, key, &found, &allowed))
}

fn read_default(section: &Section<'_>) -> Result<Option<Vec<String>>, ConfigError> {
    let Some(list) = section.strings("default", WHAT)? else { return Ok(None) };
    named(section, "default", &list, &list.value).map(Some)
}

/// Lists by keys that `read` understands; two ways to write one key are one too many.
fn read_lists<K: Ord>(
    section: &Section<'_>,
    key: &str,
    allowed: &str,
    read: impl Fn(&str) -> Option<K>,
) -> Result<BTreeMap<K, Vec<String>>, ConfigError> {
    let mut lists = BTreeMap::new();
    for (name, list) in section.text_lists(key, WHAT)? {
        let refuse = |found: &str, allowed: &str| {
            section.refuse(&name.span, key, &format!("{found} '{}'", name.value), allowed)
        };
        let read = read(name.value).ok_or_else(|| refuse("has the key", allowed))?;
        let names = named(section, key, &name, &list)?;
        if lists.insert(read, names).is_some() {
            return Err(refuse("repeats", "every key once"));
        }
    }
    Ok(lists)
}

fn named<T>(
    section: &Section<'_>,
    key: &str,
    at: &SpannedValue<T>,
    list: &[SpannedValue<&str>],
) -> Result<Vec<String>, ConfigError> {
    if list.is_empty() {
        return Err(section.refuse(&at.span, key, "has an empty list", "at least one name"));
    }
    for (index, name) in list.iter().enumerate() {
        if list[..index].iter().any(|earlier| earlier.value == name.value) {
            let found = format!("has a list with '{}' twice", name.value);
            return Err(section.refuse(&name.span, key, &found, "every name once"));
        }
    }
    Ok(list.iter().map(|name| name.value.to_owned()).collect())
}
