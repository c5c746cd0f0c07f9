//! What would stop a start, found before anything is opened; and where in the configuration it is.
//!
//! For: `whered check`, and the first steps of a start, a take-over and a reload, which are these.
//! Not for: mistakes that reading the configuration finds, nor what files of databases, zones and
//! rules hold (the engine finds both).
//!
//! ```text
//! verify_process   guards, addresses, user             before privileges are dropped
//! verify_sockets   addresses that can be bound         in `whered check`; a start binds them
//! verify_files     TLS, folders, logs, authorities     as the user that serves
//! ```
//! Invariant: nothing is made, changed or removed.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use whered_engine::store::check_access;
use whered_engine::{EngineError, Subject};

use super::{ServerError, listen_options};
use crate::config::Config;
use crate::health;
use crate::http::configure_tls;
use crate::listen;
use crate::resp::FreshSecrets;
use crate::tls::TlsOptions;

/// When a configuration would be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occasion {
    /// By a new process: addresses and data directory must be free.
    Start,
    /// By a process that takes the place of the one that holds them.
    TakeOver,
    /// By the process that serves already.
    Reload,
}

/// An error with the place of a key.
pub(super) fn at(config: &Config, path: &str, error: impl Display) -> ServerError {
    match config.locations.find(path) {
        Some(at) => ServerError::new(format!("{at}: {error}")),
        None => ServerError::new(error.to_string()),
    }
}

/// An error of the engine with the place of what it is about.
pub(super) fn located(config: &Config, error: EngineError) -> ServerError {
    let path = match error.subject() {
        Some(Subject::Database(name)) => format!("database.{name}.path"),
        Some(Subject::Zone(name)) => format!("zone.{name}.path"),
        Some(Subject::Ruleset(name)) => format!("ruleset.{name}.path"),
        Some(Subject::Pool(name)) => format!("pool.{name}"),
        Some(Subject::Feed(name)) => format!("feed.{name}"),
        Some(Subject::PlaceDatabase) => "dns.database".to_owned(),
        Some(Subject::DataDirectory) => "data_dir".to_owned(),
        None => return error.into(),
    };
    let holder_pid = error.holder_pid();
    ServerError { holder_pid, ..at(config, &path, error) }
}

/// An error of binding with the place of its address.
pub(super) fn located_socket(config: &Config, error: &io::Error) -> ServerError {
    let text = error.to_string();
    let listeners = [
        ("RESP", "resp.listen", &config.resp.listen[..]),
        ("RESP", "resp.tls.listen", config.resp.tls.as_ref().map_or(&[], |tls| &tls.listen[..])),
        ("HTTP", "http.listen", &config.http.listen[..]),
        ("HTTP", "http.tls.listen", config.http.tls_listen()),
        ("DNS", "dns.listen", &config.dns.listen[..]),
    ];
    for (listener, path, listen) in listeners {
        let is_it = |address: &SocketAddr| {
            text.starts_with(&format!("{listener} cannot listen on {address}:"))
        };
        if let Some(index) = listen.iter().position(is_it) {
            return at(config, &format!("{path}.{index}"), text);
        }
    }
    if let Some(unix) = &config.resp.unix_socket
        && text.starts_with(&format!("RESP cannot listen on {}:", unix.path.display()))
    {
        return at(config, "resp.unix_socket", text);
    }
    ServerError::new(text)
}

/// What does not depend on who the process is, and who it may become.
///
/// # Errors
/// One line with its place.
pub(super) fn verify_process(config: &Config) -> Result<(), ServerError> {
    if let Some(refusal) = config.unguarded_listener().or_else(|| config.unkept_writes()) {
        return Err(ServerError::new(refusal));
    }
    verify_addresses(config)?;
    listen::find_user(&config.server).map(drop).map_err(|error| {
        let is_group = error.to_string().starts_with("[server] group");
        at(config, if is_group { "server.group" } else { "server.user" }, error)
    })
}

/// Each address is one listener's: the second one could not be bound.
fn verify_addresses(config: &Config) -> Result<(), ServerError> {
    let tls = config.resp.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
    let listeners = [
        ("resp.listen", "[resp]", &config.resp.listen[..]),
        ("resp.tls.listen", "[resp.tls]", tls),
        ("http.listen", "[http]", &config.http.listen[..]),
        ("http.tls.listen", "[http.tls]", config.http.tls_listen()),
        ("dns.listen", "[dns]", &config.dns.listen[..]),
    ];
    let mut before: Vec<(&str, SocketAddr)> = Vec::new();
    for (path, section, listen) in listeners {
        for (index, address) in listen.iter().enumerate() {
            let earlier = before.iter().find(|(_, other)| are_one(*other, *address));
            if let Some((other_section, other)) = earlier {
                let message = format!(
                    "'listen' in {section} holds {address}, and {other_section} has {other}; \
                     allowed: every port of an address once"
                );
                return Err(at(config, &format!("{path}.{index}"), message));
            }
            before.push((section, *address));
        }
    }
    Ok(())
}

/// Whether two addresses cannot be bound at the same time.
fn are_one(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same_family = one.is_ipv4() == other.is_ipv4();
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0
        && one.port() == other.port()
        && is_same_family
        && (is_any || one.ip() == other.ip())
}

/// Whether the addresses can be bound.
///
/// # Errors
/// The first one that cannot, as binding would say it.
pub(super) fn verify_sockets(config: &Config) -> Result<(), ServerError> {
    listen::probe(&listen_options(config)).map_err(|error| located_socket(config, &error))
}

/// Files and folders that are opened later.
///
/// # Errors
/// One line with its place.
pub(super) fn verify_files(config: &Config) -> Result<(), ServerError> {
    if config.server.user.is_some() {
        // A reload reads these as the user.
        for path in config.files_of_reload() {
            let opened = fs::File::open(path).map(drop);
            opened.map_err(|error| {
                at(config, "server.user", format_args!("{}: {error}", path.display()))
            })?;
        }
    }
    FreshSecrets::read(&config.resp)
        .map_err(|error| located_tls(config, "resp", config.resp.tls.as_ref(), &error))?;
    if let Some(tls) = &config.http.tls {
        configure_tls(tls)
            .map_err(|error| located_tls(config, "http", Some(tls), &error))
            .map(drop)?;
    }
    for site in &config.checks {
        let path = format!("pool.{}.site.{}.check", site.pool, site.site);
        health::prepare(std::slice::from_ref(site)).map_err(|error| at(config, &path, error))?;
    }
    for (section, directory) in
        [("sets", &config.sets.directory), ("backup", &config.backup.directory)]
    {
        let Some(directory) = directory.as_deref().filter(|path| !path.is_dir()) else { continue };
        let what = if directory.exists() { "which is no directory" } else { "which is not there" };
        let message = format!(
            "'directory' in [{section}] is '{}', {what}; allowed: a directory",
            directory.display()
        );
        return Err(at(config, &format!("{section}.directory"), message));
    }
    if let Some(log) = config.dns.query_log.as_ref().filter(|_| !config.dns.listen.is_empty()) {
        let path = &log.path;
        let named = |error| {
            let message = format!("the query log {}: {error}", path.display());
            at(config, "dns.query_log", message)
        };
        if path != Path::new("-") {
            verify_appending(path).map_err(named)?;
        }
    }
    for feed in &config.feeds {
        let Some(folder) = &feed.drop_folder else { continue };
        verify_folder(folder).map_err(|error| {
            let (name, folder) = (&feed.name, folder.display());
            let message = format!("the drop folder of the feed '{name}': {folder}: {error}");
            at(config, &format!("feed.{name}.drop_folder"), message)
        })?;
    }
    Ok(())
}

/// An error of reading certificates with the place of the file that is wrong.
fn located_tls(
    config: &Config,
    section: &str,
    tls: Option<&TlsOptions>,
    error: &io::Error,
) -> ServerError {
    let text = error.to_string();
    let names = |path: &Path| text.starts_with(&format!("TLS: {}: ", path.display()));
    let key = match tls {
        Some(tls) if names(&tls.certificate) => ".tls.certificate",
        Some(tls) if names(&tls.key) => ".tls.key",
        Some(tls) if tls.client_ca.as_ref().is_some_and(|path| names(path)) => ".tls.client_ca",
        _ => "",
    };
    at(config, &format!("{section}{key}"), text)
}

/// Whether lines can be added to a file, which may have to be made.
fn verify_appending(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => {
            OpenOptions::new().append(true).open(path).map(drop)
        }
        // Opening anything else may wait for somebody.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_access(parent_of(path), true)
        }
        Err(error) => Err(error),
    }
}

/// Whether files can be made in a folder, which may have to be made itself.
fn verify_folder(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        match fs::metadata(ancestor) {
            Ok(found) if found.is_dir() => return check_access(ancestor, true),
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_all_addresses_is_a_port_of_each_one_of_the_family() {
        let are_one = |one: &str, other: &str| {
            are_one(one.parse().expect("an address"), other.parse().expect("an address"))
        };
        assert!(are_one("127.0.0.1:53", "127.0.0.1:53") && are_one("0.0.0.0:53", "127.0.0.1:53"));
        assert!(are_one("[::1]:53", "[::]:53") && !are_one("[::]:53", "0.0.0.0:53"));
        assert!(!are_one("127.0.0.1:53", "127.0.0.2:53") && !are_one("0.0.0.0:0", "0.0.0.0:0"));
        assert!(!are_one("127.0.0.1:53", "127.0.0.1:54"));
    }
}
