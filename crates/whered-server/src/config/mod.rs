//! The configuration: one TOML file, read and checked as a whole before anything starts.
//!
//! Not for: flags of the program (the `whered` crate lays them over this), reading the files
//! that are named here (the engine does, and checks them).
//!
//! ```text
//! text ──toml──> tree with byte ranges ──section──> typed values ──> Config ──to_setup──> engine
//!                                         │
//!                                         └─ every refusal: file:line:column, found, allowed
//! ```
//!
//! Everything has a default, but a listener opens only where its section is there, on a loopback
//! port by default. Relative paths start from the configuration file's folder.

mod aliases;
mod catalogs;
mod changes;
mod checks;
mod error;
mod feed_tables;
mod feed_values;
mod feeds;
mod listeners;
mod locations;
mod log;
mod maps;
mod named;
mod pools;
mod remarks;
mod replicas;
mod resp;
mod reversed;
mod secrets;
mod section;
mod sites;
mod storage;
mod transfers;
mod updates;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use whered_engine::feeds::HotOptions;
use whered_engine::store::SyncPolicy;
use whered_engine::{
    AliasSource, DatabaseSource, PoolSource, RulesOptions, RulesetSource, Setup, ZoneSource,
};

pub use self::error::ConfigError;
use self::error::{Document, Notes};
pub(crate) use self::locations::Locations;
pub use self::log::{LogConfig, LogFormat, LogLevel};
use self::section::{Keys, Section, resolve_path};
pub use self::storage::{BackupConfig, JournalConfig, SetsConfig, SnapshotConfig};
use crate::dns::{DnsOptions, TransferOptions, zone_copy};
use crate::feeds::FeedConfig;
use crate::health::SiteChecks;
use crate::http::HttpOptions;
use crate::listen::ProcessUser;
use crate::replica::ReplicaOptions;
use crate::resp::{RespOptions, TlsOptions};

const TOP: Keys = Keys {
    title: "the top level",
    allowed: &[
        "data_dir", "log", "server", "resp", "http", "dns", "journal", "snapshot", "backup",
        "sets", "rules", "database", "ruleset", "tsig_key", "zone", "catalog", "map", "pool",
        "feed", "feeds", "replica",
    ],
    later: &["capture"],
};

/// What a server is started with.
///
/// ```
/// use std::path::Path;
/// use whered_server::Config;
///
/// let text = r#"
/// data_dir = "data"
/// [resp]
/// listen = ["127.0.0.1:7000"]
/// "#;
/// let config = Config::from_toml(text, Path::new("/etc/whered/edge.toml")).unwrap();
/// assert_eq!(config.resp.listen, ["127.0.0.1:7000".parse().unwrap()]);
/// assert_eq!(config.data_dir.as_deref(), Some(Path::new("/etc/whered/data")));
/// assert!(config.http.listen.is_empty(), "no section, no listener");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where the journal lies; `None`: nothing is kept.
    pub data_dir: Option<PathBuf>,
    /// `[log]`.
    pub log: LogConfig,
    /// `[server]`.
    pub server: ProcessUser,
    /// `[resp]`.
    pub resp: RespOptions,
    /// `[http]`.
    pub http: HttpOptions,
    /// `[dns]`.
    pub dns: DnsOptions,
    /// `[journal]`.
    pub journal: JournalConfig,
    /// `[snapshot]`.
    pub snapshot: SnapshotConfig,
    /// `[backup]`.
    pub backup: BackupConfig,
    /// `[sets]`.
    pub sets: SetsConfig,
    /// `[[database]]`.
    pub databases: Vec<DatabaseSource>,
    /// `[[zone]]`.
    pub zones: Vec<ZoneSource>,
    /// `[[tsig_key]]`, `[[catalog]]`, and what `[[zone]]` says of other servers.
    pub transfers: TransferOptions,
    /// `[[ruleset]]`.
    pub rulesets: Vec<RulesetSource>,
    /// `[rules]`.
    pub rules: RulesOptions,
    /// `[[pool]]` with `[[pool.site]]`.
    pub pools: Vec<PoolSource>,
    /// `[[zone.alias]]`.
    pub aliases: Vec<AliasSource>,
    /// `check` of each `[[pool.site]]` that has one.
    pub checks: Vec<SiteChecks>,
    /// `[[feed]]`.
    pub feeds: Vec<FeedConfig>,
    /// `[[replica]]`.
    pub replicas: Vec<ReplicaOptions>,
    /// `[feeds]`: what feeds may take in memory.
    pub hot: HotOptions,
    /// `[feeds]`: when uploads are on the disk.
    pub feed_sync: SyncPolicy,
    /// Where each key is.
    pub(crate) locations: Locations,
    notes: Notes,
    /// Listeners whose sections a file does not have, which stay closed.
    absent: Absent,
}

/// Sections that a file does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Absent {
    resp: bool,
    http: bool,
    dns: bool,
}

impl Config {
    /// Reads a configuration; `path` is the file's name, for messages and relative paths.
    ///
    /// # Errors
    /// The first mistake: one line with the place, what was found and what is allowed.
    pub fn from_toml(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let document = Document::new(text, path);
        let tree = DeTable::parse(text).map_err(|error| document.syntax_error(&error))?;
        let top = Section::open(&document, tree.get_ref(), tree.span(), &TOP)?;
        let databases = named::read_databases(&top)?;
        let names: Vec<_> = databases.iter().map(|source| source.name.as_str()).collect();
        let mut zones = named::read_zones(&top, &names)?;
        let mut transfers = transfers::read_transfers(&top)?;
        catalogs::read_catalogs(&top, &mut transfers, &mut zones)?;
        let checks = checks::read_checks(&top)?;
        let rulesets = named::read_rulesets(&top)?;
        let maps = maps::read_maps(&top, &names)?;
        let ruleset_names: Vec<_> = rulesets.iter().map(|source| source.name.as_str()).collect();
        let around = pools::DefinedNames {
            zones: &zones,
            databases: &names,
            rulesets: &ruleset_names,
            maps: &maps,
        };
        let pools = pools::read_pools(&top, &around)?;
        let aliases = aliases::read_aliases(&top)?;
        let feeds = feeds::read_feeds(&top)?;
        let data_dir = top.filled_text("data_dir")?.map(|found| resolve_path(path, found.value));
        let mut config =
            Config { data_dir, databases, zones, pools, checks, rulesets, ..Config::default() };
        config.transfers = transfers;
        config.aliases = aliases;
        config.feeds = feeds;
        config.replicas = replicas::read_replicas(&top)?;
        replicas::check_feeds(&top, &config.replicas, &config.feeds)?;
        log::read_log(&top, &mut config.log)?;
        feeds::read_common(&top, &mut config.hot, &mut config.feed_sync)?;
        let names: Vec<_> = config.databases.iter().map(|source| source.name.as_str()).collect();
        listeners::read_dns(&top, &mut config.dns, &names)?;
        listeners::read_server(&top, &mut config.server)?;
        resp::read_resp(&top, &mut config.resp)?;
        listeners::read_http(&top, &mut config.http)?;
        storage::read_journal(&top, &mut config.journal)?;
        storage::read_snapshot(&top, &mut config.snapshot)?;
        storage::read_rules(&top, &mut config.rules)?;
        storage::read_backup(&top, path, &mut config.backup)?;
        storage::read_sets(&top, path, &mut config.sets)?;
        for set in config.feeds.iter_mut().filter_map(|feed| feed.source.set.as_mut()) {
            set.is_strict = config.sets.strict;
        }
        let has = |key: &str| tree.get_ref().contains_key(key);
        config.absent = Absent { resp: !has("resp"), http: !has("http"), dns: !has("dns") };
        config.close_absent();
        config.locations = Locations::of(&document, tree.get_ref());
        config.notes = document.notes.into_inner();
        config.notes.read_files.insert(0, path.to_owned());
        Ok(config)
    }

    /// A configuration without a file that opens no listener.
    pub fn closed() -> Config {
        let absent = Absent { resp: true, http: true, dns: true };
        let mut config = Config { absent, ..Config::default() };
        config.close_absent();
        config
    }

    fn close_absent(&mut self) {
        for (is_absent, listen) in [
            (self.absent.resp, &mut self.resp.listen),
            (self.absent.http, &mut self.http.listen),
            (self.absent.dns, &mut self.dns.listen),
        ] {
            if is_absent {
                listen.clear();
            }
        }
    }

    /// Opens the listeners whose sections are absent, at their usual ports of loopback.
    pub fn open_absent(&mut self) {
        let Absent { resp, http, dns } = std::mem::take(&mut self.absent);
        for (is_absent, listen, usual) in [
            (resp, &mut self.resp.listen, RespOptions::default().listen),
            (http, &mut self.http.listen, HttpOptions::default().listen),
            (dns, &mut self.dns.listen, DnsOptions::default().listen),
        ] {
            if is_absent {
                *listen = usual;
            }
        }
    }

    /// The configuration itself and the files with its secrets, which a reload reads again.
    pub(crate) fn files_of_reload(&self) -> &[PathBuf] {
        &self.notes.read_files
    }

    /// A flag has taken the place of a key's value.
    pub fn replaced_by_flag(&mut self, key: &'static str) {
        self.locations.replace(key);
    }

    /// The place of a key, such as `feed.cars.sink.main.url`; `None` without a file.
    pub fn location_of(&self, path: &str) -> Option<&str> {
        self.locations.find(path)
    }

    /// What the engine loads.
    pub fn to_setup(&self) -> Setup {
        self.clone().into_setup()
    }

    /// What the engine loads, when nothing else is needed any more.
    pub fn into_setup(mut self) -> Setup {
        if let Some(data_dir) = &self.data_dir {
            for zone in &mut self.zones {
                let named = zone.name.strip_suffix('.').unwrap_or(&zone.name);
                let without = zone.sign.as_mut().filter(|sign| sign.keys.as_os_str().is_empty());
                if let (Some(sign), Ok(origin)) = (without, named.parse()) {
                    let folder = whered_dns::zone_in_file_names(&origin);
                    sign.keys = data_dir.join("keys").join(folder.trim_end_matches('.'));
                }
                if let Some(serial) = zone.sign.as_mut().and_then(|sign| sign.serial.as_mut()) {
                    *serial = zone_copy(data_dir, &zone.name).with_extension("serial");
                }
            }
            for zone in self.zones.iter_mut().filter(|zone| zone.is_secondary) {
                zone.path = zone_copy(data_dir, &zone.name);
            }
        }
        Setup {
            databases: self.databases,
            zones: self.zones,
            pools: self.pools,
            aliases: self.aliases,
            rulesets: self.rulesets,
            rules: self.rules,
            place_database: self.dns.database,
            sets_directory: self.sets.directory,
            backup_directory: self.backup.directory,
            sets_strict: self.sets.strict,
            feeds: self.feeds.into_iter().map(|feed| feed.source).collect(),
            hot: self.hot,
        }
    }

    /// What would lose what it has acknowledged, since nothing is kept: one line when there is
    /// something. The file's own `data_dir` is not all: a flag may name one.
    pub fn unkept_writes(&self) -> Option<String> {
        self.unkept_feed().or_else(|| self.unkept_zone()).or_else(|| self.unkept_serial())
    }

    fn unkept_zone(&self) -> Option<String> {
        let mut zones = self.transfers.zones.iter().filter(|_| self.data_dir.is_none());
        let zone = zones.find(|zone| zone.updates.iter().any(|policy| !policy.acme))?;
        let at = self.locations.find(&format!("zone.{}", zone.name));
        let at = at.map_or(String::new(), |at| format!("{at}: "));
        Some(format!(
            "{at}[[zone.update]] of '{}' without a 'data_dir' would acknowledge updates and lose them \
             at a restart; allowed: data_dir = \"...\" at the top of the file",
            zone.name
        ))
    }

    fn unkept_serial(&self) -> Option<String> {
        let has_serial =
            |zone: &&ZoneSource| zone.sign.as_ref().is_some_and(|sign| sign.serial.is_some());
        let zone = self.zones.iter().filter(|_| self.data_dir.is_none()).find(has_serial)?;
        let at = self.locations.find(&format!("zone.{}", zone.name));
        let at = at.map_or(String::new(), |at| format!("{at}: "));
        Some(format!(
            "{at}sign with 'allow_transfer' or 'notify' of '{}' without a 'data_dir' would forget at a \
             restart which serial other servers have; allowed: data_dir = \"...\" at the top of the \
             file",
            zone.name
        ))
    }

    fn unkept_feed(&self) -> Option<String> {
        let feed = self.feeds.first().filter(|_| self.data_dir.is_none())?;
        let at = self.locations.find(&format!("feed.{}", feed.name));
        let at = at.map_or(String::new(), |at| format!("{at}: "));
        Some(format!(
            "{at}[[feed]] '{}' without a 'data_dir' would acknowledge uploads and lose them at a \
             restart; allowed: data_dir = \"...\" at the top of the file",
            feed.name
        ))
    }

    /// The listeners that anybody on the network could walk through: one line when there is one.
    ///
    /// A file is refused for this when it is read; this is the same question for a
    /// configuration that flags have changed.
    pub fn unguarded_listener(&self) -> Option<String> {
        let open = |listen: &[SocketAddr]| {
            listen.iter().find(|address| !address.ip().is_loopback()).copied()
        };
        let resp_unguarded = !self.resp.has_password();
        let tls = self.resp.tls.as_ref();
        let tls_unguarded = resp_unguarded && !tls.is_some_and(TlsOptions::is_guarded);
        let tls_open = tls.and_then(|tls| open(&tls.listen));
        let is_guarded = self.http.tls.as_ref().is_some_and(TlsOptions::is_guarded);
        let http_unguarded = self.http.token.is_none() && !is_guarded;
        let listeners = [
            ("RESP", "password", "[resp]", open(&self.resp.listen), resp_unguarded),
            ("RESP with TLS", "password", "[resp]", tls_open, tls_unguarded),
            ("HTTP", "token", "[http]", open(&self.http.listen), self.http.token.is_none()),
            ("HTTP with TLS", "token", "[http]", open(self.http.tls_listen()), http_unguarded),
        ];
        listeners.into_iter().find_map(|(listener, key, table, address, unguarded)| {
            let address = address.filter(|_| unguarded)?;
            Some(format!(
                "{listener} does not listen on {address}, which others can reach, without a '{key}' \
                 in {table}; allowed: a loopback address, or any with '{key}' set"
            ))
        })
    }
}

/// Every table with its keys.
#[cfg(test)]
fn all_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let tables = [&TOP, &log::LOG, &checks::CHECK]
        .into_iter()
        .chain(listeners::TABLES)
        .chain(storage::TABLES)
        .chain(resp::TABLES)
        .chain(named::TABLES);
    let tables = tables.chain(maps::TABLES).chain(pools::TABLES).chain(sites::TABLES);
    let tables = tables.chain(feeds::TABLES).chain(transfers::TABLES).chain(updates::TABLES);
    let tables = tables.chain(replicas::TABLES);
    let tables = tables.chain(catalogs::TABLES);
    let tables = tables.chain(aliases::TABLES);
    tables.map(|keys| (keys.title, keys.allowed))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
