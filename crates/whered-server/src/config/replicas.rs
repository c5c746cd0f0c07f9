//! `[[replica]]`: the primaries whose sorted sets are followed.
//!
//! ```text
//! of = "redis://HOST[:PORT]"                           one primary; rediss:// and unix:// too
//! of = "cluster://HOST:PORT,HOST:PORT"                 all shards of a cluster, by any of its nodes
//! of = "sentinel://HOST:PORT,HOST:PORT/NAME"           the primary that Sentinels name
//! ```
//! Not for: connecting (`crate::replica`). Invariant: no key can be followed from two of them.

use std::fs;
use std::path::PathBuf;

use whered_engine::DATABASE_COUNT;
use whered_replication::{Address, ClientTls, Credentials, Endpoint, split_port};

use super::error::ConfigError;
use super::secrets::{path_of, read_secret, remark_on_configuration};
use super::section::{Keys, Section, SpannedValue};
use crate::feeds::FeedConfig;
use crate::replica::{Cluster, PrimarySource, ReplicaOptions, Sentinels};

pub(super) const REPLICA: Keys = Keys {
    title: "[[replica]]",
    allowed: &[
        "of",
        "match",
        "database",
        "max_lag_seconds",
        "user",
        "password",
        "password_file",
        "ca",
        "certificate",
        "key",
    ],
    later: &[],
};
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 1] = [&REPLICA];

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const PATTERNS: &str = "patterns of keys such as \"fleet:*\"";
const PATTERNS_MAX: usize = 64;
const SERVERS: &str = "redis://HOST[:PORT], rediss://..., unix:///PATH, \
                       cluster://HOST:PORT,..., sentinel://HOST:PORT,.../NAME";
const LAG_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;

/// Reads every `[[replica]]`.
pub(super) fn read_replicas(top: &Section<'_>) -> Result<Vec<ReplicaOptions>, ConfigError> {
    let mut replicas: Vec<ReplicaOptions> = Vec::new();
    for section in top.tables("replica", &REPLICA)? {
        let replica = read_replica(&section)?;
        if let Some((own, other)) = replicas.iter().find_map(|other| replica.overlap(other)) {
            let (own, other) = (String::from_utf8_lossy(own), String::from_utf8_lossy(other));
            let found = format!(
                "has '{own}', and '{other}' of another [[replica]] can match the same keys"
            );
            let allowed = "patterns that exclude each other, or another 'database'";
            return Err(section.refuse(&section.span_of("match"), "match", &found, allowed));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

/// Refuses a feed that would fill a key that is followed.
pub(super) fn check_feeds(
    top: &Section<'_>,
    replicas: &[ReplicaOptions],
    feeds: &[FeedConfig],
) -> Result<(), ConfigError> {
    for (section, replica) in top.tables("replica", &REPLICA)?.iter().zip(replicas) {
        let filled = feeds.iter().find_map(|feed| {
            let collection = feed.source.collection.as_ref()?;
            replica.has(0, collection.as_bytes()).then_some((&feed.name, collection))
        });
        if let Some((feed, collection)) = filled {
            let found = format!("names '{collection}', which [[feed]] '{feed}' fills");
            let allowed = "patterns of other keys, or another collection of the feed";
            return Err(section.refuse(&section.span_of("match"), "match", &found, allowed));
        }
    }
    Ok(())
}

fn read_replica(section: &Section<'_>) -> Result<ReplicaOptions, ConfigError> {
    let of = section.required_text("of")?;
    let source = read_source(section, &of)?;
    let database = section.integer("database", 0..=DATABASE_COUNT as u64 - 1)?;
    let max_lag = section.number("max_lag_seconds", LAG_SECONDS)?;
    let database = database.map_or(0, |database| database.value as usize);
    if let (PrimarySource::Cluster(_), true) = (&source, database != 0) {
        let span = section.span_of("database");
        return Err(section.refuse(&span, "database", "is not 0", "0, the only one of a cluster"));
    }
    Ok(ReplicaOptions {
        of: shown(of.value).to_owned(),
        source,
        patterns: read_patterns(section)?,
        database,
        max_lag: max_lag.map(std::time::Duration::from_secs_f64),
    })
}

fn read_patterns(section: &Section<'_>) -> Result<Vec<Vec<u8>>, ConfigError> {
    let patterns = section.strings("match", PATTERNS)?.ok_or_else(|| section.missing("match"))?;
    if !(1..=PATTERNS_MAX).contains(&patterns.value.len()) {
        let found = format!("has {} patterns", patterns.value.len());
        let allowed = format!("1 to {PATTERNS_MAX}");
        return Err(section.refuse(&patterns.span, "match", &found, &allowed));
    }
    if let Some(empty) = patterns.value.iter().find(|pattern| pattern.value.is_empty()) {
        return Err(section.refuse(&empty.span, "match", "has an empty pattern", PATTERNS));
    }
    Ok(patterns.value.iter().map(|pattern| pattern.value.as_bytes().to_vec()).collect())
}

fn read_source(
    section: &Section<'_>,
    of: &SpannedValue<&str>,
) -> Result<PrimarySource, ConfigError> {
    let wrong = |why: &str| section.refuse(&of.span, "of", why, SERVERS);
    if of.value.contains('@') {
        remark_on_configuration(section, "of");
    }
    let (scheme, rest) = of.value.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
    let (mut credentials, servers) =
        Credentials::before(rest).map_err(|why| section.refuse(&of.span, "of", &why, SERVERS))?;
    add_credentials(section, &mut credentials)?;
    let tls = read_tls(section)?;
    let source = match scheme {
        "cluster" => {
            let seeds = read_servers(servers, PORT).map_err(|why| wrong(&why))?;
            return Ok(PrimarySource::Cluster(Cluster { seeds, credentials, tls }));
        }
        "sentinel" => {
            let (servers, name) = servers.split_once('/').unwrap_or((servers, ""));
            if name.is_empty() || name.contains('/') {
                return Err(wrong("names no primary behind the Sentinels"));
            }
            let sentinels = read_servers(servers, SENTINEL_PORT).map_err(|why| wrong(&why))?;
            let name = name.to_owned();
            return Ok(PrimarySource::Sentinel(Sentinels { sentinels, name, credentials, tls }));
        }
        _ => Address::parse(of.value),
    };
    let mut address = source.map_err(|why| section.refuse(&of.span, "of", &why, SERVERS))?;
    address.credentials = credentials;
    if tls.is_some() && address.tls.is_none() {
        let key = ["ca", "certificate", "key"].into_iter().find(|key| section.has(key));
        let key = key.unwrap_or("ca");
        let found = "stands beside a server without TLS";
        return Err(section.refuse(&section.span_of(key), key, found, "rediss:// in 'of'"));
    }
    address.tls = tls.or(address.tls);
    Ok(PrimarySource::One(address))
}

/// Host and port of each server of a list.
fn read_servers(servers: &str, default_port: u16) -> Result<Vec<Endpoint>, String> {
    let endpoint = |server: &str| {
        let (host, port) = split_port(server.trim(), default_port)?;
        Ok(Endpoint::Tcp(host, port))
    };
    servers.trim_end_matches('/').split(',').map(endpoint).collect()
}

fn add_credentials(
    section: &Section<'_>,
    credentials: &mut Credentials,
) -> Result<(), ConfigError> {
    let in_url = "stands beside a user or password in 'of'";
    if let Some(user) = section.filled_text("user")? {
        if credentials.user.is_some() {
            return Err(section.refuse(&user.span, "user", in_url, "one of the two"));
        }
        credentials.user = Some(user.value.to_owned());
    }
    if let Some(password) = read_secret(section, "password", "password_file")? {
        if credentials.password.is_some() {
            return Err(section.refuse(&password.span, "password", in_url, "one of the two"));
        }
        credentials.password = Some(password.value);
    }
    match credentials.user.is_some() && credentials.password.is_none() {
        true => Err(section.missing("password")),
        false => Ok(()),
    }
}

/// The certificates, if the section names some.
fn read_tls(section: &Section<'_>) -> Result<Option<ClientTls>, ConfigError> {
    let authorities = read_pem(section, "ca")?;
    let (certificate, key) = (read_pem(section, "certificate")?, read_pem(section, "key")?);
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(section.missing("key")),
        (None, Some(_)) => return Err(section.missing("certificate")),
    };
    if authorities.is_none() && identity.is_none() {
        return Ok(None);
    }
    let tls = ClientTls { authorities, identity };
    match tls.configure() {
        Ok(_) => Ok(Some(tls)),
        Err(why) => {
            let key = if section.has("ca") { "ca" } else { "certificate" };
            let allowed = "certificates and a key in PEM that fit";
            Err(section.refuse(&section.span_of(key), key, &format!("is wrong: {why}"), allowed))
        }
    }
}

fn read_pem(section: &Section<'_>, key: &str) -> Result<Option<Vec<u8>>, ConfigError> {
    let Some(named) = section.filled_text(key)? else {
        return Ok(None);
    };
    let path: PathBuf = path_of(section, key, &named)?;
    match fs::read(&path) {
        Ok(pem) => {
            section.document.notes.borrow_mut().read_files.push(path);
            Ok(Some(pem))
        }
        Err(error) => {
            let found = format!("names {}, which cannot be read: {error}", path.display());
            Err(section.refuse(&named.span, key, &found, "a file in PEM"))
        }
    }
}

/// A URL without what may be a password.
fn shown(url: &str) -> &str {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some(_), Some((_, servers))) => servers,
        _ => url,
    }
}
