//! What the configuration says about transfers: `[[tsig_key]]`, and the keys of `[[zone]]` that
//! name other servers.
//!
//! ```text
//! primaries = ["192.0.2.1", "[2001:db8::1]:5353 key transfer"]     address, port, key
//! allow_transfer = ["192.0.2.0/24", "key:transfer"]                either is enough
//! transfer = "site fra"                                            in the place of pools
//! ```
//! Not for: asking other servers. Invariant: a key that is named is one that the file defines.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use whered_dns::Name;
use whered_dns::transfer::{TsigAlgorithm, TsigKey};

use super::error::ConfigError;
use super::named::{Names, ZONE, check_domain, folded};
use super::secrets::read_secret;
use super::section::{Keys, Section, SpannedValue};
use super::updates::read_updates;
use crate::dns::ZoneTransfers;
use crate::dns::{PoolsInTransfer, Recipient, Remote, TRANSFER_SIZE_MAX, TransferOptions};

pub(super) const TSIG_KEY: Keys = Keys {
    title: "[[tsig_key]]",
    allowed: &["name", "algorithm", "secret", "secret_file"],
    later: &[],
};
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&TSIG_KEY];

/// The port of DNS.
const PORT: u16 = 53;
const SIZE: RangeInclusive<u64> = 1024..=1 << 40;
const REMOTES: &str = "servers such as \"192.0.2.1\" or \"[2001:db8::1]:5353 key NAME\"";
const ALLOWED: &str = "prefixes and keys such as \"192.0.2.0/24\" or \"key:NAME\"";
const POOLS: &str = "\"refuse\", \"all\" or \"site NAME\"";

/// Reads `[[tsig_key]]` and what `[[zone]]` says of other servers.
pub(super) fn read_transfers(top: &Section<'_>) -> Result<TransferOptions, ConfigError> {
    let keys = read_keys(top)?;
    let zones = top.tables("zone", &ZONE)?;
    let zones = zones.iter().map(|section| read_zone(section, &keys));
    let zones = zones.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(TransferOptions { keys, zones, catalogs: Vec::new() })
}

fn read_keys(top: &Section<'_>) -> Result<Vec<TsigKey>, ConfigError> {
    let mut names = Names::new("key");
    let read = |section: &Section<'_>| {
        let name = section.required_text("name")?;
        check_domain(section, "name", &name)?;
        names.add(section, "name", &name, &folded(name.value))?;
        let algorithm = match section.text("algorithm")? {
            None => TsigAlgorithm::HmacSha256,
            Some(word) => TsigAlgorithm::from_name(word.value).ok_or_else(|| {
                let found = format!("is '{}'", word.value);
                let allowed = TsigAlgorithm::ALL.map(TsigAlgorithm::name).join(", ");
                section.refuse(&word.span, "algorithm", &found, &allowed)
            })?,
        };
        let secret = read_secret(section, "secret", "secret_file")?;
        let secret = secret.ok_or_else(|| section.missing("secret"))?;
        let origin: Name = name.value.parse().unwrap_or_else(|_| Name::root());
        TsigKey::from_base64(origin, algorithm, &secret.value).map_err(|error| {
            let allowed = "base 64 of 16 bytes or more, as tsig-keygen prints it";
            section.refuse(&secret.span, "secret", &format!("is {error}"), allowed)
        })
    };
    top.tables("tsig_key", &TSIG_KEY)?.iter().map(read).collect()
}

/// What a zone says; none when it says nothing.
fn read_zone(
    section: &Section<'_>,
    keys: &[TsigKey],
) -> Result<Option<ZoneTransfers>, ConfigError> {
    let name = section.required_text("name")?;
    check_domain(section, "name", &name)?;
    let primaries = read_remotes(section, "primaries", keys)?;
    let notify = read_remotes(section, "notify", keys)?;
    let allow = read_allowed(section, keys)?;
    let size = read_size_max(section)?;
    if let (Some(size), None) = (&size, &primaries) {
        let found = "stands without 'primaries'";
        return Err(section.refuse(&size.span, "transfer_size_max", found, "both"));
    }
    let pools = read_pools(section)?;
    check_aliases(section)?;
    let origin: Name = name.value.parse().unwrap_or_else(|_| Name::root());
    let updates = read_updates(section, &origin, keys)?;
    if primaries.is_none() && notify.is_none() && allow.is_none() && updates.is_empty() {
        return Ok(None);
    }
    Ok(Some(ZoneTransfers {
        name: name.value.to_owned(),
        origin,
        updates,
        primaries: primaries.unwrap_or_default(),
        allow: allow.unwrap_or_default(),
        notify: notify.unwrap_or_default(),
        size_max_bytes: size.map_or(TRANSFER_SIZE_MAX, |size| size.value as usize),
        pools,
        members_max: None,
        member: None,
    }))
}

pub(super) fn read_size_max(
    section: &Section<'_>,
) -> Result<Option<SpannedValue<u64>>, ConfigError> {
    section.size("transfer_size_max", SIZE)
}

/// A transfer has the records of the file, without the addresses of aliases.
fn check_aliases(section: &Section<'_>) -> Result<(), ConfigError> {
    if !section.has("alias") {
        return Ok(());
    }
    for key in ["allow_transfer", "notify"] {
        if let Some(strings) = section.strings(key, REMOTES)? {
            let found = "stands beside [[zone.alias]]";
            let allowed = "a zone without aliases, whose addresses no transfer has";
            return Err(section.refuse(&strings.span, key, found, allowed));
        }
    }
    Ok(())
}

pub(super) fn read_remotes(
    section: &Section<'_>,
    key: &str,
    keys: &[TsigKey],
) -> Result<Option<Vec<Remote>>, ConfigError> {
    let Some(strings) = section.strings(key, REMOTES)? else { return Ok(None) };
    if strings.value.is_empty() && key == "primaries" {
        return Err(section.refuse(&strings.span, key, "is empty", "one server or more"));
    }
    let read = |text: &SpannedValue<&str>| {
        let wrong = || section.refuse(&text.span, key, &format!("holds '{}'", text.value), REMOTES);
        let words: Vec<&str> = text.value.split_whitespace().collect();
        let (address, name) = match words[..] {
            [address] => (address, None),
            [address, "key", name] => (address, Some(name)),
            _ => return Err(wrong()),
        };
        let address = match (address.parse::<SocketAddr>(), address.parse::<IpAddr>()) {
            (Ok(address), _) if address.port() != 0 => address,
            (_, Ok(address)) => SocketAddr::new(address, PORT),
            _ => return Err(wrong()),
        };
        let name = name.map(|name| find_key(section, key, text, name, keys)).transpose()?;
        Ok(Remote { address, key: name.cloned() })
    };
    strings.value.iter().map(read).collect::<Result<_, _>>().map(Some)
}

pub(super) fn find_key<'k>(
    section: &Section<'_>,
    key: &str,
    text: &SpannedValue<&str>,
    name: &str,
    keys: &'k [TsigKey],
) -> Result<&'k TsigKey, ConfigError> {
    let wanted = name.parse::<Name>().ok();
    let found = keys.iter().find(|own| Some(own.name()) == wanted.as_ref());
    found.ok_or_else(|| {
        let names: Vec<String> = keys.iter().map(|key| key.name().to_string()).collect();
        let allowed = match names.is_empty() {
            true => "nothing, as no [[tsig_key]] is defined".to_owned(),
            false => names.join(", "),
        };
        let found = format!("names the key '{name}', which no [[tsig_key]] defines");
        section.refuse(&text.span, key, &found, &allowed)
    })
}

pub(super) fn read_allowed(
    section: &Section<'_>,
    keys: &[TsigKey],
) -> Result<Option<Vec<Recipient>>, ConfigError> {
    let key = "allow_transfer";
    let Some(strings) = section.strings(key, ALLOWED)? else { return Ok(None) };
    let read = |text: &SpannedValue<&str>| {
        if let Some(name) = text.value.strip_prefix("key:") {
            let found = find_key(section, key, text, name.trim(), keys)?;
            return Ok(Recipient::Key(found.name().clone()));
        }
        text.value.parse().map(Recipient::Prefix).map_err(|_| {
            section.refuse(&text.span, key, &format!("holds '{}'", text.value), ALLOWED)
        })
    };
    strings.value.iter().map(read).collect::<Result<_, _>>().map(Some)
}

fn read_pools(section: &Section<'_>) -> Result<PoolsInTransfer, ConfigError> {
    let Some(text) = section.text("transfer")? else { return Ok(PoolsInTransfer::Refuse) };
    match text.value {
        "refuse" => Ok(PoolsInTransfer::Refuse),
        "all" => Ok(PoolsInTransfer::All),
        other => match other.strip_prefix("site ").map(str::trim).filter(|name| !name.is_empty()) {
            Some(site) => Ok(PoolsInTransfer::Site(site.to_owned())),
            None => {
                let found = format!("is '{other}'");
                Err(section.refuse(&text.span, "transfer", &found, POOLS))
            }
        },
    }
}
