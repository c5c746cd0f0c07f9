//! The sections of the process and the listeners: `[server]`, `[http]`, `[dns]`; `[resp]` has a
//! file of its own.
//!
//! Not for: binding or opening anything; here a value is only found right or wrong at its place.
//! Invariant: what is read here can be started: RESP and HTTP have a secret on every address that
//! others can reach.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::error::ConfigError;
use super::resp::{TLS_KEYS, read_tls};
use super::secrets::read_secret;
use super::section::{Keys, Section, defined, resolve_path, set};
use crate::dns::mmsg::{BATCH_SIZE_MAX, Calls};
use crate::dns::{DnsOptions, DnstapOptions, QueryLogOptions, TappedMessages};
use crate::http::{EVERY_ORIGIN, HttpOptions};
use crate::listen::ProcessUser;

const HTTP: Keys = Keys {
    title: "[http]",
    allowed: &[
        "listen",
        "tls",
        "token",
        "token_file",
        "hosts",
        "origins",
        "max_connections",
        "console",
    ],
    later: &[],
};
const HTTP_TLS: Keys = Keys { title: "[http.tls]", allowed: &TLS_KEYS, later: &[] };
const HOSTS_EXAMPLE: &str = "names and addresses without ports such as \"maps.example.com\"";
const ORIGINS_EXAMPLE: &str = "origins such as \"https://maps.example.com\"";
const DNS: Keys = Keys {
    title: "[dns]",
    allowed: &[
        "listen",
        "database",
        "udp_size",
        "udp_batch",
        "udp_calls",
        "threads",
        "max_tcp_connections",
        "cookies",
        "cookie_secret",
        "cookie_secret_file",
        "rate_limit",
        "rate_limit_slip",
        "signature_limit",
        "resolvers",
        "server_id",
        "version",
        "proxy_from",
        "query_log",
        "query_log_sample",
        "dnstap",
    ],
    later: &["transfers"],
};
const DNSTAP: Keys = Keys { title: "[dns.dnstap]", allowed: &["socket", "messages"], later: &[] };
const SERVER: Keys = Keys { title: "[server]", allowed: &["user", "group"], later: &[] };
/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 5] = [&SERVER, &HTTP, &HTTP_TLS, &DNS, &DNSTAP];

pub(super) const THREADS: RangeInclusive<u64> = 1..=256;
pub(super) const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
/// 0 is without limit.
const RATE_LIMIT: RangeInclusive<u64> = 0..=u16::MAX as u64;
/// 0 is never.
const SLIP: RangeInclusive<u64> = 0..=100;
/// What the system's addresses of sockets hold (`sun_path`), with a zero behind it.
const SOCKET_PATH_MAX: usize = 107;
const RESOLVER_PORT: u16 = 53;
const SAMPLE: RangeInclusive<u64> = 1..=1_000_000_000;
/// What whered-dns answers with.
const SELF_TEXT_MAX: usize = 128;
/// One by one below; above, what a call takes without the others' waiting long.
const UDP_BATCH: RangeInclusive<u64> = 1..=BATCH_SIZE_MAX as u64;
/// RFC 1035 section 4.2.1 below; what reassembles on every path above.
const UDP_SIZE: RangeInclusive<u64> = 512..=4096;

/// Reads `[http]`.
pub(super) fn read_http(top: &Section<'_>, config: &mut HttpOptions) -> Result<(), ConfigError> {
    let Some(section) = top.table("http", &HTTP)? else {
        return Ok(());
    };
    if let Some(token) = read_secret(&section, "token", "token_file")? {
        if !token.value.bytes().all(|byte| byte.is_ascii_graphic()) {
            let allowed = "visible ASCII characters without spaces";
            return Err(section.refuse(&token.span, "token", "cannot stand in a header", allowed));
        }
        config.token = Some(token.value);
    }
    let guard_missing = config.token.is_none().then_some("token");
    config.listen = read_listen(&section, &config.listen, guard_missing)?;
    config.tls = read_tls(&section, &HTTP_TLS, guard_missing)?;
    config.hosts = read_trusted(&section, "hosts", crate::http::is_host, HOSTS_EXAMPLE)?;
    config.origins = read_origins(&section, config.token.is_some())?;
    set(&mut config.max_connections, section.integer("max_connections", CONNECTIONS)?);
    if let Some(console) = section.flag("console")? {
        config.console = console;
    }
    Ok(())
}

/// Origins of web pages, or `*` alone; not beside a token, which a page of any origin could use.
fn read_origins(section: &Section<'_>, has_token: bool) -> Result<Vec<String>, ConfigError> {
    let is_valid = |text: &str| crate::http::is_origin(text) || text == EVERY_ORIGIN;
    let origins = read_trusted(section, "origins", is_valid, ORIGINS_EXAMPLE)?;
    let Some(strings) = section.strings("origins", ORIGINS_EXAMPLE)? else { return Ok(origins) };
    if let Some(every) = strings.value.iter().find(|text| text.value == EVERY_ORIGIN) {
        let found = match (has_token, origins.len()) {
            (true, _) => "holds '*' beside a 'token'",
            (false, 1) => return Ok(origins),
            (false, _) => "holds '*' and more",
        };
        let allowed =
            "origins such as \"https://maps.example.com\", or \"*\" alone without a token";
        return Err(section.refuse(&every.span, "origins", found, allowed));
    }
    Ok(origins)
}

/// Names that HTTP requests without a token may carry.
fn read_trusted(
    section: &Section<'_>,
    key: &str,
    is_valid: fn(&str) -> bool,
    example: &str,
) -> Result<Vec<String>, ConfigError> {
    let Some(strings) = section.strings(key, example)? else { return Ok(Vec::new()) };
    for text in &strings.value {
        if !is_valid(text.value) {
            let found = format!("holds '{}'", text.value);
            return Err(section.refuse(&text.span, key, &found, example));
        }
    }
    Ok(strings.value.iter().map(|text| text.value.to_owned()).collect())
}

/// Reads `[dns]`; `databases` are the names that are defined.
pub(super) fn read_dns(
    top: &Section<'_>,
    config: &mut DnsOptions,
    databases: &[&str],
) -> Result<(), ConfigError> {
    let Some(section) = top.table("dns", &DNS)? else {
        return Ok(());
    };
    config.listen = read_listen(&section, &config.listen, None)?;
    if let Some(name) = section.filled_text("database")? {
        if !databases.contains(&name.value) {
            let found = format!("names '{}', which no [[database]] defines", name.value);
            return Err(section.refuse(&name.span, "database", &found, &defined(databases)));
        }
        config.database = Some(name.value.to_owned());
    }
    if let Some(size) = section.integer("udp_size", UDP_SIZE)? {
        config.udp_size = size.value as u16;
    }
    config.threads = section.integer("threads", THREADS)?.map(|found| found.value as usize);
    set(&mut config.receiving.batch, section.integer("udp_batch", UDP_BATCH)?);
    if let Some(calls) = section.text("udp_calls")? {
        config.receiving.calls = match calls.value {
            "many" => Calls::Many,
            "single" => Calls::Single,
            other => {
                let found = format!("is '{other}'");
                return Err(section.refuse(&calls.span, "udp_calls", &found, "many, single"));
            }
        };
    }
    set(&mut config.max_tcp_connections, section.integer("max_tcp_connections", CONNECTIONS)?);
    read_dns_limits(&section, config)?;
    read_dns_views(&section, config)
}

/// What keeps the server from being used against others: cookies and limits.
fn read_dns_limits(section: &Section<'_>, config: &mut DnsOptions) -> Result<(), ConfigError> {
    if let Some(cookies) = section.flag("cookies")? {
        config.cookies = cookies;
    }
    if let Some(digits) = read_secret(section, "cookie_secret", "cookie_secret_file")? {
        let Some(secret) = hexadecimal(&digits.value) else {
            let allowed = "32 hexadecimal digits, the same on all servers of one address";
            return Err(section.refuse(
                &digits.span,
                "cookie_secret",
                "is something else",
                allowed,
            ));
        };
        config.cookie_secret = Some(secret);
    }
    if let Some(limit) = section.integer("rate_limit", RATE_LIMIT)? {
        config.rate_limit = Some(limit.value as u16);
    }
    if let Some(slip) = section.integer("rate_limit_slip", SLIP)? {
        config.rate_limit_slip = slip.value as u16;
    }
    if let Some(limit) = section.integer("signature_limit", RATE_LIMIT)? {
        config.signature_limit = limit.value as u16;
    }
    Ok(())
}

/// What clients are told of the server, and what is told of them.
fn read_dns_views(section: &Section<'_>, config: &mut DnsOptions) -> Result<(), ConfigError> {
    for (key, target) in [("server_id", &mut config.server_id), ("version", &mut config.version)] {
        if let Some(text) = section.text(key)? {
            if text.value.len() > SELF_TEXT_MAX {
                let found = format!("has {} bytes", text.value.len());
                let allowed = format!("up to {SELF_TEXT_MAX}");
                return Err(section.refuse(&text.span, key, &found, &allowed));
            }
            text.value.clone_into(target);
        }
    }
    let example = "addresses and prefixes such as \"192.0.2.7\" or \"2001:db8::/32\"";
    if let Some(strings) = section.strings("proxy_from", example)? {
        config.proxy_from.clear();
        for text in strings.value {
            let Ok(prefix) = text.value.parse() else {
                let found = format!("holds '{}'", text.value);
                return Err(section.refuse(&text.span, "proxy_from", &found, example));
            };
            config.proxy_from.push(prefix);
        }
    }
    let example = "addresses such as \"192.0.2.53\" or \"[2001:db8::53]:5353\"";
    if let Some(strings) = section.strings("resolvers", example)? {
        config.resolvers.clear();
        for text in strings.value {
            let address = match (text.value.parse(), text.value.parse()) {
                (Ok(address), _) => address,
                (_, Ok(address)) => SocketAddr::new(address, RESOLVER_PORT),
                _ => {
                    let found = format!("holds '{}'", text.value);
                    return Err(section.refuse(&text.span, "resolvers", &found, example));
                }
            };
            config.resolvers.push(address);
        }
    }
    let sample = section.integer("query_log_sample", SAMPLE)?;
    if let Some(path) = section.filled_text("query_log")? {
        let sample = sample.map_or(1, |found| found.value);
        let path = match path.value {
            "-" => "-".into(),
            named => resolve_path(section.document.path, named),
        };
        config.query_log = Some(QueryLogOptions { path, sample });
    }
    config.dnstap = read_dnstap(section)?;
    Ok(())
}

/// Reads `[dns.dnstap]`.
fn read_dnstap(dns: &Section<'_>) -> Result<Option<DnstapOptions>, ConfigError> {
    let Some(section) = dns.table("dnstap", &DNSTAP)? else { return Ok(None) };
    let socket = section.required_text("socket")?;
    let path = resolve_path(section.document.path, socket.value);
    if path.as_os_str().len() > SOCKET_PATH_MAX || socket.value.is_empty() {
        let found = format!("has {} bytes as a path", path.as_os_str().len());
        let allowed = format!("the path of a Unix socket, up to {SOCKET_PATH_MAX} bytes");
        return Err(section.refuse(&socket.span, "socket", &found, &allowed));
    }
    let messages = match section.text("messages")? {
        None => TappedMessages::default(),
        Some(word) => match word.value {
            "both" => TappedMessages::Both,
            "queries" => TappedMessages::Queries,
            "responses" => TappedMessages::Responses,
            other => {
                let found = format!("is '{other}'");
                let allowed = "'both', 'queries' or 'responses'";
                return Err(section.refuse(&word.span, "messages", &found, allowed));
            }
        },
    };
    Ok(Some(DnstapOptions { socket: path, messages }))
}

fn hexadecimal(digits: &str) -> Option<[u8; 16]> {
    let value = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32 && !digits.starts_with('+')).then(|| value.to_be_bytes())
}

/// Reads `[server]`.
pub(super) fn read_server(top: &Section<'_>, config: &mut ProcessUser) -> Result<(), ConfigError> {
    let Some(section) = top.table("server", &SERVER)? else {
        return Ok(());
    };
    config.user = section.filled_text("user")?.map(|found| found.value.to_owned());
    let group = section.filled_text("group")?;
    if let (Some(group), None) = (&group, &config.user) {
        let allowed = "both, or 'user' alone";
        return Err(section.refuse(&group.span, "group", "stands without 'user'", allowed));
    }
    config.group = group.map(|found| found.value.to_owned());
    Ok(())
}

/// The addresses of a listener. `guard_missing` is the key whose absence lets anybody in.
pub(super) fn read_listen(
    section: &Section<'_>,
    otherwise: &[SocketAddr],
    guard_missing: Option<&str>,
) -> Result<Vec<SocketAddr>, ConfigError> {
    let example = "addresses with ports such as \"127.0.0.1:6380\" or \"[::1]:6380\"";
    let Some(strings) = section.strings("listen", example)? else {
        return Ok(otherwise.to_vec());
    };
    let mut addresses = Vec::with_capacity(strings.value.len());
    for text in strings.value {
        let Ok(address) = text.value.parse::<SocketAddr>() else {
            let found = format!("holds '{}'", text.value);
            return Err(section.refuse(&text.span, "listen", &found, example));
        };
        if addresses.contains(&address) && address.port() != 0 {
            let found = format!("holds {address} twice");
            return Err(section.refuse(&text.span, "listen", &found, "every address once"));
        }
        if let (Some(key), false) = (guard_missing, address.ip().is_loopback()) {
            let found = format!("holds {address}, which others can reach, without a '{key}'");
            let allowed = format!("a loopback address, or any with '{key}' set");
            return Err(section.refuse(&text.span, "listen", &found, &allowed));
        }
        addresses.push(address);
    }
    Ok(addresses)
}
