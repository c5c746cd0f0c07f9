//! The section of the RESP listener: `[resp]`, `[resp.tls]`, `[[resp.user]]`.
//!
//! Not for: reading certificates (the listener does, and names the file that is wrong).
//! Invariant: an address that others can reach has a password before it, or with TLS certificates
//! that clients must show.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::error::ConfigError;
use super::listeners::{CONNECTIONS, THREADS, read_listen};
use super::secrets::{path_of, read_secret, remark_on_file};
use super::section::{Keys, Section, resolve_path, set};
use crate::resp::{
    NameKind, PasswordHash, RespOptions, TlsOptions, UnixSocketOptions, UserOptions, password_hash,
    wrong_user,
};

const RESP: Keys = Keys {
    title: "[resp]",
    allowed: &[
        "listen",
        "tls",
        "unix_socket",
        "unix_socket_permissions",
        "password",
        "password_file",
        "password_sha256",
        "user",
        "threads",
        "max_clients",
        "idle_timeout_seconds",
        "tcp_keepalive_seconds",
        "output_buffer_limit_bytes",
        "pubsub_buffer_limit_bytes",
        "query_buffer_limit_bytes",
        "client_buffers_limit_bytes",
        "max_memory_bytes",
        "slowlog_threshold_micros",
        "slowlog_max_len",
    ],
    later: &["users"],
};
/// The keys of a table `tls`.
pub(super) const TLS_KEYS: [&str; 5] =
    ["listen", "certificate", "key", "client_ca", "client_certificate"];
const TLS: Keys = Keys { title: "[resp.tls]", allowed: &TLS_KEYS, later: &[] };
const USER: Keys = Keys {
    title: "[[resp.user]]",
    allowed: &[
        "name",
        "password",
        "password_file",
        "password_sha256",
        "commands",
        "keys",
        "channels",
        "databases",
        "sets",
        "rules",
        "pools",
        "zones",
        "feeds",
        "tables",
    ],
    later: &[],
};

/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 3] = [&RESP, &TLS, &USER];

const BUFFER_BYTES: RangeInclusive<u64> = 16 * 1024..=64 * 1024 * 1024 * 1024;
/// 0, or a number of bytes that a signed integer holds.
const BYTES: RangeInclusive<u64> = 0..=i64::MAX as u64;
const SECONDS: RangeInclusive<u64> = 0..=i32::MAX as u64;
const SLOWLOG_LEN: RangeInclusive<u64> = 0..=100_000;
/// Those who may open the path's folder may connect.
const PERMISSIONS: u32 = 0o700;

/// Reads `[resp]`.
pub(super) fn read_resp(top: &Section<'_>, config: &mut RespOptions) -> Result<(), ConfigError> {
    let Some(section) = top.table("resp", &RESP)? else {
        return Ok(());
    };
    (config.password, config.password_sha256) = read_password(&section)?;
    let guard_missing = (!config.has_password()).then_some("password");
    config.listen = read_listen(&section, &config.listen, guard_missing)?;
    config.tls = read_tls(&section, &TLS, guard_missing)?;
    config.unix_socket = read_unix_socket(&section)?;
    read_users(&section, config)?;
    config.threads = section.integer("threads", THREADS)?.map(|found| found.value as usize);
    set(&mut config.max_clients, section.integer("max_clients", CONNECTIONS)?);
    for (target, key, range) in [
        (&mut config.output_buffer_limit_bytes, "output_buffer_limit_bytes", BUFFER_BYTES),
        (&mut config.pubsub_buffer_limit_bytes, "pubsub_buffer_limit_bytes", BUFFER_BYTES),
        (&mut config.query_buffer_limit_bytes, "query_buffer_limit_bytes", BUFFER_BYTES),
        (&mut config.client_buffers_limit_bytes, "client_buffers_limit_bytes", BYTES),
        (&mut config.slowlog_max_len, "slowlog_max_len", SLOWLOG_LEN),
    ] {
        set(target, section.integer(key, range)?);
    }
    for (target, key, range) in [
        (&mut config.idle_timeout_seconds, "idle_timeout_seconds", SECONDS),
        (&mut config.tcp_keepalive_seconds, "tcp_keepalive_seconds", SECONDS),
        (&mut config.max_memory_bytes, "max_memory_bytes", BYTES),
        (&mut config.slowlog_threshold_micros, "slowlog_threshold_micros", BYTES),
    ] {
        if let Some(found) = section.integer(key, range)? {
            *target = found.value;
        }
    }
    Ok(())
}

/// A password, as it is or as its hash.
fn read_password(
    section: &Section<'_>,
) -> Result<(Option<String>, Option<PasswordHash>), ConfigError> {
    let plain = read_secret(section, "password", "password_file")?;
    let Some(hash) = section.filled_text("password_sha256")? else {
        return Ok((plain.map(|found| found.value), None));
    };
    if plain.is_some() {
        let found = "stands beside a 'password'";
        return Err(section.refuse(&hash.span, "password_sha256", found, "one of the two"));
    }
    match parse_hash(hash.value) {
        Some(parsed) => Ok((None, Some(parsed))),
        None => {
            let allowed = "the SHA-256 of a password as 64 hexadecimal digits";
            Err(section.refuse(&hash.span, "password_sha256", "is no hash", allowed))
        }
    }
}

fn parse_hash(text: &str) -> Option<PasswordHash> {
    let mut hash = PasswordHash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(digits[0])? * 16 + digit(digits[1])?) as u8;
    }
    Some(hash)
}

/// Reads the table `tls` of a listener's section.
pub(super) fn read_tls(
    listener: &Section<'_>,
    keys: &'static Keys,
    guard_missing: Option<&str>,
) -> Result<Option<TlsOptions>, ConfigError> {
    let Some(section) = listener.table("tls", keys)? else {
        return Ok(None);
    };
    let certificate = path_of(&section, "certificate", &section.required_text("certificate")?)?;
    let named = section.required_text("key")?;
    let key = path_of(&section, "key", &named)?;
    remark_on_file(&section, &key, "key", &named);
    let client_ca = section.filled_text("client_ca")?;
    let client_ca = client_ca.map(|named| path_of(&section, "client_ca", &named)).transpose()?;
    let client_certificate_is_optional = match section.text("client_certificate")? {
        Some(found) if client_ca.is_none() => {
            let allowed = "nothing without a 'client_ca'";
            let text = format!("is '{}'", found.value);
            return Err(section.refuse(&found.span, "client_certificate", &text, allowed));
        }
        None => false,
        Some(found) => match found.value {
            "required" => false,
            "optional" => true,
            other => {
                let (text, allowed) = (format!("is '{other}'"), "required, optional");
                return Err(section.refuse(&found.span, "client_certificate", &text, allowed));
            }
        },
    };
    let mut options = TlsOptions {
        listen: Vec::new(),
        certificate,
        key,
        client_ca,
        client_certificate_is_optional,
    };
    let guard_missing = guard_missing.filter(|_| !options.is_guarded());
    options.listen = read_listen(&section, &[], guard_missing)?;
    if options.listen.is_empty() {
        return Err(section.missing("listen"));
    }
    Ok(Some(options))
}

fn read_unix_socket(section: &Section<'_>) -> Result<Option<UnixSocketOptions>, ConfigError> {
    let permissions = section.filled_text("unix_socket_permissions")?;
    let Some(path) = section.filled_text("unix_socket")? else {
        if let Some(found) = permissions {
            let allowed = "nothing without a 'unix_socket'";
            let text = format!("is '{}'", found.value);
            return Err(section.refuse(&found.span, "unix_socket_permissions", &text, allowed));
        }
        return Ok(None);
    };
    let permissions = match permissions {
        None => PERMISSIONS,
        Some(found) => {
            let parsed = u32::from_str_radix(found.value, 8).ok().filter(|mode| *mode <= 0o777);
            parsed.ok_or_else(|| {
                let (text, allowed) = (format!("is '{}'", found.value), "\"000\" to \"777\"");
                section.refuse(&found.span, "unix_socket_permissions", &text, allowed)
            })?
        }
    };
    let path = resolve_path(section.document.path, path.value);
    Ok(Some(UnixSocketOptions { path, permissions }))
}

fn read_users(resp: &Section<'_>, config: &mut RespOptions) -> Result<(), ConfigError> {
    for section in resp.tables("user", &USER)? {
        let name = section.required_text("name")?;
        let is_taken = config.users.iter().any(|user| user.name == name.value);
        if is_taken || name.value == "default" || name.value.contains(char::is_whitespace) {
            let found = format!("is '{}'", name.value);
            let allowed = "every name once, without blanks; 'default' has its password in [resp]";
            return Err(section.refuse(&name.span, "name", &found, allowed));
        }
        let (plain, hash) = read_password(&section)?;
        if plain.is_some() && section.has("password") {
            config.plain_passwords.push(name.value.to_owned());
        }
        let Some(password) = plain.map(|plain| password_hash(plain.as_bytes())).or(hash) else {
            return Err(section.missing("password"));
        };
        let strings = |key: &str, what: &str| -> Result<Vec<String>, ConfigError> {
            let found = section.strings(key, what)?;
            let strings = found.map_or_else(Vec::new, |found| found.value);
            Ok(strings.into_iter().map(|text| text.value.to_owned()).collect())
        };
        let mut names = BTreeMap::new();
        for kind in NameKind::ALL.into_iter().filter(|kind| *kind != NameKind::Key) {
            let list = kind.list();
            if section.strings(list, "patterns of names such as \"edge*\"")?.is_some() {
                names.insert(kind, strings(list, "patterns of names such as \"edge*\"")?);
            }
        }
        let user = UserOptions {
            name: name.value.to_owned(),
            password: Some(password),
            commands: strings("commands", "rules such as \"+@read\" or \"-keys\"")?,
            keys: strings("keys", "patterns of keys such as \"geo:*\"")?,
            channels: strings("channels", "patterns of channels such as \"news.*\"")?,
            names,
        };
        if let Some(wrong) = wrong_user(std::slice::from_ref(&user)) {
            let allowed = "+@category, -@category, +command, -command, +container|subcommand";
            let message = format!("{wrong}; allowed: {allowed}");
            return Err(section.document.error(&section.span, message));
        }
        config.users.push(user);
    }
    Ok(())
}
