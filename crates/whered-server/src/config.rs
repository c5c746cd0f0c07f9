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
//! Everything has a default, but a listener opens only where its section is there, on a loopback port by default.
//! Relative paths start from the configuration file's folder.

mod checks;
mod doors;
mod error;
mod feed_tables;
mod feeds;
mod maps;
mod named;
mod pools;
mod resp;
mod reversed;
mod section;
mod sites;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;
use whered_dns::RateLimit;
use whered_engine::feeds::HotOptions;
use whered_engine::ip::Prefix;
use whered_engine::store::SyncPolicy;
use whered_engine::{DatabaseSource, PoolSource, RulesOptions, RulesetSource, Setup, ZoneSource};

pub use self::error::ConfigError;
use self::error::Document;
pub use self::feeds::{FeedConfig, SinkConfig, StreamConfig};
use self::section::{Keys, Section};
use crate::dns::QueryLogOptions;
use crate::dns::udp::Receiving;
use crate::health::SiteChecks;
use crate::resp::{PasswordHash, RespOptions, TlsOptions, UnixSocketOptions, UserOptions};

const TOP: Keys = Keys {
    title: "the top level",
    allowed: &[
        "data_dir", "server", "resp", "http", "dns", "journal", "snapshot", "backup", "sets",
        "rules", "database", "ruleset", "zone", "map", "pool", "feed", "feeds",
    ],
    later: &["capture"],
};

const RESP_PORT: u16 = 6380;
const HTTP_PORT: u16 = 8080;
const DNS_PORT: u16 = 5300;
/// What every path carries unfragmented (DNS flag day 2020).
const UDP_SIZE: u16 = 1232;

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
    /// `[server]`.
    pub server: ServerConfig,
    /// `[resp]`.
    pub resp: RespConfig,
    /// `[http]`.
    pub http: HttpConfig,
    /// `[dns]`.
    pub dns: DnsConfig,
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
    /// `[[ruleset]]`.
    pub rulesets: Vec<RulesetSource>,
    /// `[rules]`.
    pub rules: RulesOptions,
    /// `[[pool]]` with `[[pool.site]]`.
    pub pools: Vec<PoolSource>,
    /// `check` of each `[[pool.site]]` that has one.
    pub checks: Vec<SiteChecks>,
    /// `[[feed]]`.
    pub feeds: Vec<FeedConfig>,
    /// `[feeds]`: what feeds may take in memory.
    pub hot: HotOptions,
    /// `[feeds]`: when uploads are on the disk.
    pub feed_sync: SyncPolicy,
    /// Where the first `[[feed]]` is: file, line and column.
    first_feed: Option<String>,
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

/// The process itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerConfig {
    /// Who it becomes once its sockets are bound; `None`: it stays who it is.
    pub user: Option<String>,
    /// The group of that; `None`: the user's own.
    pub group: Option<String>,
}

/// The door for Redis clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespConfig {
    /// Where to listen; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for TLS, and with which certificates.
    pub tls: Option<TlsOptions>,
    /// Where to listen for processes of this machine.
    pub unix_socket: Option<UnixSocketOptions>,
    /// What clients must give to `AUTH`.
    pub password: Option<String>,
    /// The hash of it, in its place.
    pub password_sha256: Option<PasswordHash>,
    /// Users beside the default one.
    pub users: Vec<UserOptions>,
    /// Users whose passwords stand in the file as they are.
    pub plain_passwords: Vec<String>,
    /// Worker threads; `None`: one a core.
    pub threads: Option<usize>,
    /// Connections at the same time.
    pub max_clients: usize,
    /// A client that has asked nothing for so long is disconnected; 0: never.
    pub idle_timeout_seconds: u64,
    /// After so long without a byte the system asks whether the client is there; 0: never.
    pub tcp_keepalive_seconds: u64,
    /// A client that has not read this much of its replies is disconnected.
    pub output_buffer_limit_bytes: usize,
    /// The same for clients that listen to channels.
    pub pubsub_buffer_limit_bytes: usize,
    /// A client that has sent this much of an unfinished command is disconnected.
    pub query_buffer_limit_bytes: usize,
    /// What all clients' buffers may take together; 0: as much as there is.
    pub client_buffers_limit_bytes: usize,
    /// With more memory in use writes are refused; 0: never.
    pub max_memory_bytes: u64,
    /// Commands from so many microseconds on stand in the slow log.
    pub slowlog_threshold_micros: u64,
    /// Entries of the slow log.
    pub slowlog_max_len: usize,
}

/// The door for browsers, scripts and Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where to listen; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// The bearer token that requests must carry.
    pub token: Option<String>,
    /// Names beside loopback names and the listener's address that requests without a token may be
    /// sent to.
    pub hosts: Vec<String>,
    /// Origins of web pages beside the listener's own whose requests need no token.
    pub origins: Vec<String>,
    /// Connections at the same time.
    pub max_connections: usize,
}

/// The door for DNS clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsConfig {
    /// Where to listen, by UDP and TCP; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// The database that clients' places come from; `None`: the first one.
    pub database: Option<String>,
    /// The largest answer by UDP, in bytes.
    pub udp_size: u16,
    /// UDP threads, each with a socket of every address; `None`: one a core.
    pub threads: Option<usize>,
    /// How UDP threads take datagrams.
    pub receiving: Receiving,
    /// TCP connections at the same time.
    pub max_tcp_connections: usize,
    /// Whether clients get cookies (RFC 7873).
    pub cookies: bool,
    /// What cookies are made with; `None`: something random at each start.
    pub cookie_secret: Option<[u8; 16]>,
    /// Alike answers a second to one network; 0: without limit. `None`: 200 where others than this
    /// machine can ask.
    pub rate_limit: Option<u16>,
    /// Every how manieth answer above that is sent truncated.
    pub rate_limit_slip: u16,
    /// What `id.server` and NSID are answered with; empty: nothing.
    pub server_id: String,
    /// What `version.bind` is answered with; empty: nothing.
    pub version: String,
    /// Balancers, which tell for whom they ask (PROXY protocol 2).
    pub proxy_from: Vec<Prefix>,
    /// Where queries are logged.
    pub query_log: Option<QueryLogOptions>,
}

/// How writes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// When acknowledged writes are on the disk.
    pub sync: SyncPolicy,
    /// The size of one journal file; `None`: the journal's own default.
    pub segment_size_bytes: Option<u64>,
    /// How much may wait for the disk before writers wait; `None`: the journal's own default.
    pub group_size_bytes: Option<usize>,
    /// How long a group waits for more before it is written; `None`: not at all.
    pub group_delay: Option<Duration>,
}

/// When snapshots are made without anybody's asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// By how much the journal grows before one is due; `None`: the engine's own default.
    pub journal_size_bytes: Option<u64>,
    /// How old the last one becomes before one is due; `None`: the engine's own default.
    pub interval: Option<Duration>,
}

/// Where `BACKUP` may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupConfig {
    /// The only directory below which it writes; `None`: `backups` of the data directory.
    pub directory: Option<PathBuf>,
}

/// Where prefix sets may be loaded from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetsConfig {
    /// The only directory whose files `CIDR.LOAD` reads; `None`: it reads none.
    pub directory: Option<PathBuf>,
    /// Whether prefixes with bits behind their length are refused.
    pub strict: bool,
}

impl Config {
    /// Reads a configuration; `path` is the file's name, for messages and relative paths.
    ///
    /// # Errors
    /// The first mistake: one line with the place, what was found and what is allowed.
    pub fn from_toml(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let document = Document { text, path };
        let tree = DeTable::parse(text).map_err(|error| document.syntax_error(&error))?;
        let top = Section::open(&document, tree.get_ref(), tree.span(), &TOP)?;
        let databases = named::read_databases(&top)?;
        let names: Vec<_> = databases.iter().map(|source| source.name.as_str()).collect();
        let zones = named::read_zones(&top, &names)?;
        let checks = checks::read_checks(&top)?;
        let rulesets = named::read_rulesets(&top)?;
        let maps = maps::read_maps(&top, &names)?;
        let ruleset_names: Vec<_> = rulesets.iter().map(|source| source.name.as_str()).collect();
        let around = pools::Defined {
            zones: &zones,
            databases: &names,
            rulesets: &ruleset_names,
            maps: &maps,
        };
        let pools = pools::read_pools(&top, &around)?;
        let (feeds, first_feed) = feeds::read_feeds(&top)?;
        let data_dir = top.filled_text("data_dir")?.map(|found| beside(path, found.value));
        let mut config =
            Config { data_dir, databases, zones, pools, checks, rulesets, ..Config::default() };
        (config.feeds, config.first_feed) = (feeds, first_feed);
        feeds::read_common(&top, &mut config.hot, &mut config.feed_sync)?;
        let names: Vec<_> = config.databases.iter().map(|source| source.name.as_str()).collect();
        doors::read_dns(&top, &mut config.dns, &names)?;
        doors::read_server(&top, &mut config.server)?;
        resp::read_resp(&top, &mut config.resp)?;
        doors::read_http(&top, &mut config.http)?;
        doors::read_journal(&top, &mut config.journal)?;
        doors::read_snapshot(&top, &mut config.snapshot)?;
        doors::read_rules(&top, &mut config.rules)?;
        doors::read_backup(&top, path, &mut config.backup)?;
        doors::read_sets(&top, path, &mut config.sets)?;
        for set in config.feeds.iter_mut().filter_map(|feed| feed.source.set.as_mut()) {
            set.is_strict = config.sets.strict;
        }
        let has = |key: &str| tree.get_ref().contains_key(key);
        config.absent = Absent { resp: !has("resp"), http: !has("http"), dns: !has("dns") };
        config.close_absent();
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
        for (is_absent, listen, port) in [
            (resp, &mut self.resp.listen, RESP_PORT),
            (http, &mut self.http.listen, HTTP_PORT),
            (dns, &mut self.dns.listen, DNS_PORT),
        ] {
            if is_absent {
                *listen = vec![loopback(port)];
            }
        }
    }

    /// What is allowed and hardly meant: a line for each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> =
            self.resp.users.iter().flat_map(crate::resp::missing_lists).collect();
        let resp = &self.resp;
        let has_resp = !resp.listen.is_empty() || resp.tls.is_some() || resp.unix_socket.is_some();
        if !has_resp && self.http.listen.is_empty() && self.dns.listen.is_empty() {
            remarks.push(
                "nothing listens; a listener opens with its section, [resp], [http] or [dns], or \
                 with --resp, --http or --dns"
                    .to_owned(),
            );
        } else if self.absent.dns && self.dns.listen.is_empty() && !self.zones.is_empty() {
            let remark = "zones are defined and DNS is closed: there is no [dns]";
            remarks.push(remark.to_owned());
        }
        if let Some(directory) = self.backup.directory.as_ref().filter(|it| !it.is_dir()) {
            remarks.push(format!(
                "'directory' of [backup] is {}, where there is no directory: BACKUP is refused",
                directory.display()
            ));
        }
        remarks
    }

    /// What the engine loads.
    pub fn to_setup(&self) -> Setup {
        self.clone().into_setup()
    }

    /// What the engine loads, when nothing else is needed any more.
    pub fn into_setup(self) -> Setup {
        Setup {
            databases: self.databases,
            zones: self.zones,
            pools: self.pools,
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

    /// Whether all is equal that only a restart can change.
    pub(crate) fn has_same_doors(&self, other: &Config) -> bool {
        let dns = |config: &Config| DnsConfig { database: None, ..config.dns.clone() };
        self.data_dir == other.data_dir
            && self.server == other.server
            && self.resp == other.resp
            && self.http == other.http
            && self.journal == other.journal
            && self.snapshot == other.snapshot
            && self.feeds == other.feeds
            && self.hot == other.hot
            && self.feed_sync == other.feed_sync
            && dns(self) == dns(other)
    }

    /// A feed that would lose what it has acknowledged, since nothing is kept: one line when there is
    /// one. The file's own `data_dir` is not all: a flag may name one.
    pub fn unkept_feed(&self) -> Option<String> {
        let feed = self.feeds.first().filter(|_| self.data_dir.is_none())?;
        let at = self.first_feed.as_ref().map_or(String::new(), |at| format!("{at}: "));
        Some(format!(
            "{at}[[feed]] '{}' without a 'data_dir' would acknowledge uploads and lose them at a \
             restart; allowed: data_dir = \"...\" at the top of the file",
            feed.name
        ))
    }

    /// The doors that anybody on the network could walk through: one line when there is one.
    ///
    /// A file is refused for this when it is read; this is the same question for a
    /// configuration that flags have changed.
    pub fn unguarded_door(&self) -> Option<String> {
        let open = |listen: &[SocketAddr]| {
            listen.iter().find(|address| !address.ip().is_loopback()).copied()
        };
        let resp_unguarded = !self.resp.has_password();
        let tls = self.resp.tls.as_ref();
        let tls_unguarded = resp_unguarded && !tls.is_some_and(TlsOptions::is_guarded);
        let tls_open = tls.and_then(|tls| open(&tls.listen));
        let doors = [
            ("RESP", "password", "[resp]", open(&self.resp.listen), resp_unguarded),
            ("RESP with TLS", "password", "[resp]", tls_open, tls_unguarded),
            ("HTTP", "token", "[http]", open(&self.http.listen), self.http.token.is_none()),
        ];
        doors.into_iter().find_map(|(door, key, table, address, unguarded)| {
            let address = address.filter(|_| unguarded)?;
            Some(format!(
                "{door} does not listen on {address}, which others can reach, without a '{key}' \
                 in {table}; allowed: a loopback address, or any with '{key}' set"
            ))
        })
    }
}

impl DnsConfig {
    /// How many answers a network gets, if that is limited.
    pub(crate) fn rate_limit(&self) -> Option<RateLimit> {
        let is_open = self.listen.iter().any(|address| !address.ip().is_loopback());
        let usual = RateLimit::default();
        let otherwise = if is_open { usual.answers_per_second } else { 0 };
        let answers_per_second = self.rate_limit.unwrap_or(otherwise);
        let slip = self.rate_limit_slip;
        (answers_per_second > 0).then_some(RateLimit {
            answers_per_second,
            errors_per_second: answers_per_second,
            slip,
            ..usual
        })
    }
}

impl RespConfig {
    /// Whether `AUTH` has to give something.
    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some() || self.password_sha256.is_some()
    }

    /// Whether there is anywhere to listen.
    pub(crate) fn is_open(&self) -> bool {
        let tls = self.tls.as_ref().is_some_and(|tls| !tls.listen.is_empty());
        !self.listen.is_empty() || tls || self.unix_socket.is_some()
    }
}

impl Default for RespConfig {
    fn default() -> Self {
        let options = RespOptions::default();
        RespConfig {
            listen: vec![loopback(RESP_PORT)],
            tls: None,
            unix_socket: None,
            password: None,
            password_sha256: None,
            users: Vec::new(),
            plain_passwords: Vec::new(),
            threads: None,
            max_clients: options.max_clients,
            idle_timeout_seconds: options.idle_timeout_seconds,
            tcp_keepalive_seconds: options.tcp_keepalive_seconds,
            output_buffer_limit_bytes: options.output_buffer_limit_bytes,
            pubsub_buffer_limit_bytes: options.pubsub_buffer_limit_bytes,
            query_buffer_limit_bytes: options.query_buffer_limit_bytes,
            client_buffers_limit_bytes: options.client_buffers_limit_bytes,
            max_memory_bytes: options.max_memory_bytes,
            slowlog_threshold_micros: options.slowlog_threshold_micros.unsigned_abs(),
            slowlog_max_len: options.slowlog_max_len,
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            listen: vec![loopback(HTTP_PORT)],
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_connections: 1024,
        }
    }
}

impl Default for DnsConfig {
    fn default() -> Self {
        DnsConfig {
            listen: vec![loopback(DNS_PORT)],
            database: None,
            udp_size: UDP_SIZE,
            threads: None,
            receiving: Receiving::default(),
            max_tcp_connections: 1024,
            cookies: true,
            cookie_secret: None,
            rate_limit: None,
            rate_limit_slip: RateLimit::default().slip,
            server_id: String::new(),
            version: String::new(),
            proxy_from: Vec::new(),
            query_log: None,
        }
    }
}

impl Default for JournalConfig {
    fn default() -> Self {
        JournalConfig {
            sync: SyncPolicy::Always,
            segment_size_bytes: None,
            group_size_bytes: None,
            group_delay: None,
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// A path that a file names, seen from that file's folder.
fn beside(file: &Path, named: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(named)
}

/// Every table with its keys.
#[cfg(test)]
fn all_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let tables = [&TOP, &checks::CHECK]
        .into_iter()
        .chain(doors::TABLES)
        .chain(resp::TABLES)
        .chain(named::TABLES);
    let tables = tables.chain(maps::TABLES).chain(pools::TABLES).chain(sites::TABLES);
    let tables = tables.chain(feeds::TABLES);
    tables.map(|keys| (keys.title, keys.allowed))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
