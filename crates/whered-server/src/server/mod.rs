//! The server: one engine, its listeners, and their orderly end.
//!
//! ```text
//! start:  sockets ─> engine ─> RESP ─> DNS ─> HTTP (serves the others' metrics) ─> watching, probes
//! stop:   watching, probes ─> listeners (each answers what it has read) ─> journal closes
//! ```
//!
//! A failed start leaves nothing running: what was started before the failure is stopped.
//! At the same time: `reload` may be called from any thread; queries go on meanwhile.

mod handover;
mod preflight;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use whered_engine::sync;

use whered_engine::store::{JournalOptions, SyncPolicy};
use whered_engine::{BeforeData, Engine, EngineError, EngineOptions, SnapshotOptions};

use crate::compaction::Compactor;
use crate::config::{Config, JournalConfig, SnapshotConfig};
use crate::dns::{AliasThread, DnsListener, TransferThread, Transfers};
use crate::feeds::{Applier, DropFolder};
use crate::health::{self, HealthBoard, Prober};
use crate::http::{HttpCounters, HttpListener, ServerFacts, ZoneRole, configure_tls};
use crate::listen::{self, ConnectionLimits, HandoverState, ListenOptions, Predecessor, Sockets};
use crate::metrics::Metrics;
use crate::progress;
use crate::reload::{Reloader, remark_on_rulesets, with_lowest_priority};
use crate::replica::{LinkContext, ReplicaBoard, Replicas};
use crate::resp::{FreshSecrets, RefreshZone, RespContext, RespListener};
use crate::rules::RulesMaintenance;
use crate::snapshots::Snapshotter;
use crate::sweep::Sweeper;
use crate::zone_watch::ZoneWatch;
use handover::HandOver;
pub use handover::HandedOver;
pub use preflight::Occasion;
use preflight::{at, located, located_socket};

/// A running server. Dropping it without [`Server::stop`] does not wait for anything.
///
/// ```
/// use whered_server::{Config, Server};
///
/// let mut config = Config::default();
/// for listen in [&mut config.resp.listen, &mut config.http.listen, &mut config.dns.listen] {
///     *listen = vec!["127.0.0.1:0".parse().unwrap()];
/// }
/// let server = Server::start(config)?;
/// assert_ne!(server.http_addresses()[0].port(), 0);
/// server.stop()?;
/// # Ok::<(), whered_server::ServerError>(())
/// ```
pub struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) listeners: Listeners,
    pub(crate) helpers: Helpers,
    config: Config,
    /// What a reload has brought since.
    pub(crate) latest: Mutex<Config>,
    pub(crate) handover: HandOver,
    pub(crate) links: StartLinks,
}

/// Starts what belongs to feeds and is not the server's: clients of other servers. Called when the
/// engine is open and no listener or thread of a feed uses it yet; gives what stops them.
pub type StartLinks = Arc<dyn Fn(&Config, &Arc<Engine>) -> Result<StopLinks, String> + Send + Sync>;

/// Ends what a [`StartLinks`] has started.
pub type StopLinks = Box<dyn FnOnce() + Send + Sync>;

fn no_links() -> StartLinks {
    Arc::new(|_, _| Ok(Box::new(|| ())))
}

#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) resp: Option<RespListener>,
    pub(crate) dns: Option<DnsListener>,
    pub(crate) http: Option<HttpListener>,
    pub(crate) transfers: Option<Arc<Transfers>>,
    pub(crate) aliases: Option<AliasThread>,
    /// How far links to primaries are.
    pub(crate) replicas: Arc<ReplicaBoard>,
}

impl Server {
    /// Finds whatever a start, a take-over or a reload with this configuration would be refused
    /// for, by the steps that those take. Nothing is made or changed, and no connection is
    /// accepted. As root it becomes the user of `[server]`, for good. Gives an engine over the
    /// files, which keeps nothing.
    ///
    /// # Errors
    /// As [`Server::start`], word for word.
    pub fn check(config: &Config, occasion: Occasion) -> Result<Arc<Engine>, ServerError> {
        preflight::verify_process(config)?;
        let (is_start, has_user) = (occasion == Occasion::Start, config.server.user.is_some());
        if is_start && has_user {
            preflight::verify_sockets(config)?;
        }
        let user = listen::become_user(&config.server, None)
            .map_err(|error| at(config, "server.user", error))?;
        let as_user = |error| ServerError::as_user(error, user.as_deref());
        preflight::verify_files(config).map_err(as_user)?;
        let options = EngineOptions { setup: config.to_setup(), ..EngineOptions::default() };
        let opened = Engine::open(options).map_err(|error| located(config, error));
        let (engine, _report) = opened.map_err(as_user)?;
        if let Some(data_dir) = &config.data_dir {
            let found = Engine::examine_data(data_dir, !is_start);
            found.map_err(|error| as_user(located(config, error)))?;
        }
        if is_start && !has_user {
            preflight::verify_sockets(config)?;
        }
        Ok(engine)
    }

    /// Opens the engine, binds every listener (port 0: a free one) and starts the threads.
    ///
    /// # Errors
    /// One line: a listener that anybody could walk through, a file or the journal that cannot be
    /// read, an address that cannot be bound.
    pub fn start(config: Config) -> Result<Server, ServerError> {
        Server::start_with(config, no_links())
    }

    /// As [`Server::start`], with links that belong to it.
    ///
    /// # Errors
    /// As [`Server::start`], and the line of the links.
    pub fn start_with(config: Config, links: StartLinks) -> Result<Server, ServerError> {
        let handed = HandoverState {
            sockets: listen::inherited(&listen_options(&config))?,
            ..HandoverState::default()
        };
        Server::start_after(config, None, handed, links)
    }

    /// As [`Server::start_with`], in the place of the process that serves from the same data
    /// directory, if there is one: with its sockets, so that no question is lost. It goes on until
    /// [`Server::dismiss_predecessor`].
    ///
    /// # Errors
    /// As [`Server::start_with`]; the other process serves on then. There is no data directory.
    pub fn take_over(config: Config, links: StartLinks) -> Result<Server, ServerError> {
        let Some(data_dir) = &config.data_dir else {
            return Err(ServerError::new(
                "taking over needs a data_dir: a running server is met there",
            ));
        };
        preflight::verify_process(&config)?;
        match Predecessor::meet(data_dir)? {
            Some((predecessor, handed)) => {
                Server::start_after(config, Some(predecessor), handed, links)
            }
            None => Server::start_with(config, links),
        }
    }

    pub(crate) fn start_after(
        config: Config,
        predecessor: Option<Predecessor>,
        handed: HandoverState,
        links: StartLinks,
    ) -> Result<Server, ServerError> {
        preflight::verify_process(&config)?;
        let mut fitting = with_fitting_limits(config.clone());
        fitting.dns.cookie_secret = fitting.dns.cookie_secret.or(handed.cookie_secret);
        // Otherwise a data directory that another process holds is told of before its ports.
        let is_early = predecessor.is_some() || config.server.user.is_some();
        let sockets = match is_early || !handed.sockets.is_empty() {
            true => {
                let opened = Sockets::open(&listen_options(&fitting), handed.sockets);
                Some(opened.map_err(|error| located_socket(&config, &error))?)
            }
            false => None,
        };
        let user = listen::become_user(&config.server, unix_path(&fitting));
        let user = user.map_err(|error| at(&config, "server.user", error))?;
        preflight::verify_files(&config)
            .map_err(|error| ServerError::as_user(error, user.as_deref()))?;
        if let (Some(_), Some(data_dir)) = (&predecessor, &config.data_dir) {
            // The other process must not give up what this one could not read.
            let found = Engine::examine_data(data_dir, true);
            found
                .map_err(|error| ServerError::as_user(located(&config, error), user.as_deref()))?;
        }
        let predecessor = predecessor.map(Arc::new);
        let old = predecessor.clone();
        let options = EngineOptions {
            journal: journal_options(&config.journal),
            spool_sync: config.feed_sync,
            setup: config.to_setup(),
            data_dir: config.data_dir.clone(),
            snapshots: snapshot_options(&config.snapshot),
            progress: Some(progress::log_progress()),
            before_data: old.map(|old| Box::new(move || old.take_data()) as BeforeData),
            ..EngineOptions::default()
        };
        let checks = health::prepare(&config.checks)?;
        let opened = Engine::open(options);
        let (engine, report) = opened
            .map_err(|error| ServerError::as_user(located(&config, error), user.as_deref()))?;
        tracing::info!("{report}");
        engine.zone_remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
        remark_on_rulesets(&engine);
        remark_on_mode(config.data_dir.as_deref());
        for reason in engine.feeds().iter().filter_map(|feed| feed.out_of_service()) {
            tracing::error!("{reason}");
        }
        engine.feeds().set_memory_max(config.resp.max_memory_bytes);
        let prepared = Replicas::prepare(&engine, &config.replicas)
            .map_err(|error| at(&config, "replica", error));
        let linked = prepared.and_then(|()| links(&config, &engine).map_err(ServerError::new));
        let started = linked.and_then(|stop_links| {
            let running = StartedParts::start(&engine, &fitting, sockets, checks, stop_links);
            running.map_err(|error| {
                ServerError::as_user(located_socket(&config, &error), user.as_deref())
            })
        });
        match started {
            Ok(StartedParts { listeners, helpers, mut handover }) => {
                handover.predecessor = predecessor;
                let latest = Mutex::new(config.clone());
                Ok(Server { engine, listeners, helpers, config, latest, handover, links })
            }
            Err(error) => {
                engine.give_up_data()?;
                Err(error)
            }
        }
    }

    /// The engine behind the listeners.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The data directory that this process holds.
    pub fn data_dir(&self) -> Option<&Path> {
        self.config.data_dir.as_deref()
    }

    /// Where RESP listens.
    pub fn resp_addresses(&self) -> &[SocketAddr] {
        self.listeners.resp.as_ref().map_or(&[], RespListener::addresses)
    }

    /// Where RESP listens for TLS.
    pub fn resp_tls_addresses(&self) -> &[SocketAddr] {
        self.listeners.resp.as_ref().map_or(&[], RespListener::tls_addresses)
    }

    /// The Unix socket where RESP listens.
    pub fn resp_unix_path(&self) -> Option<&Path> {
        unix_path(&self.config)
    }

    /// Where HTTP listens.
    pub fn http_addresses(&self) -> &[SocketAddr] {
        self.listeners.http.as_ref().map_or(&[], HttpListener::addresses)
    }

    /// Where HTTP listens for TLS.
    pub fn http_tls_addresses(&self) -> &[SocketAddr] {
        self.listeners.http.as_ref().map_or(&[], HttpListener::tls_addresses)
    }

    /// Where DNS listens, by UDP and TCP alike.
    pub fn dns_addresses(&self) -> &[SocketAddr] {
        self.listeners.dns.as_ref().map_or(&[], DnsListener::addresses)
    }

    /// Reads databases, zones, pools, passwords, tokens, users and certificates anew; all or
    /// nothing. Connections stay open. Gives one line about what serves now, with the keys that
    /// only a restart would change.
    ///
    /// # Errors
    /// The first fault, with its place; the old generation serves on.
    pub fn reload(&self, config: Config) -> Result<String, ServerError> {
        preflight::verify_process(&config)?;
        preflight::verify_files(&config)?;
        let restart = self.config.keys_for_restart(&config);
        let checks = health::prepare(&config.checks)?;
        let http_tls = config.http.tls.as_ref().map(configure_tls).transpose()?;
        let secrets = FreshSecrets::read(&config.resp)?;
        let (setup, transfers) = (config.to_setup(), self.listeners.transfers.as_ref());
        let reload = |setup| with_lowest_priority(|| self.engine.reload(setup));
        let report = match transfers {
            Some(transfers) => transfers.reload_with_members(&config.transfers, setup, reload),
            None => reload(setup),
        };
        let report = report.map_err(|error| located(&config, error))?;
        self.listeners.exchange(&config, secrets);
        self.engine.zone_remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
        remark_on_rulesets(&self.engine);
        if let (Some(http), Some(tls)) = (&self.listeners.http, http_tls) {
            http.exchange_tls(tls);
        }
        self.helpers.reloader.configured();
        self.helpers.prober.configure(checks);
        *sync::lock(&self.latest) = config;
        let mut line = format!(
            "generation {} with {} databases, {} zones, {} pools",
            report.generation, report.databases, report.zones, report.pools
        );
        if !restart.is_empty() {
            let keys = restart.join(", ");
            line.push_str(&format!("; {keys} stay as they were until a restart"));
        }
        Ok(line)
    }

    /// Closes the listeners, each after answering what it has read, and then the journal, so that
    /// nothing acknowledged is lost, and gives up the data directory even if others still hold the
    /// engine. Takes less than five seconds.
    ///
    /// # Errors
    /// The journal or a spool could not be brought to the disk, or the directory not be given up.
    pub fn stop(self) -> Result<(), ServerError> {
        if let Some(waiting) = self.handover.waiting {
            drop(waiting.stop());
        }
        // Before the listeners: one of them may be waiting for a snapshot that `SAVE` makes.
        self.helpers.stop();
        self.listeners.stop();
        Ok(self.engine.give_up_data()?)
    }
}

/// Everything that a start starts.
struct StartedParts {
    listeners: Listeners,
    helpers: Helpers,
    handover: HandOver,
}

impl StartedParts {
    fn start(
        engine: &Arc<Engine>,
        config: &Config,
        sockets: Option<Sockets>,
        checks: health::Ready,
        stop_links: StopLinks,
    ) -> io::Result<StartedParts> {
        let sockets = match sockets {
            Some(sockets) => sockets,
            None => Sockets::open(&listen_options(config), Sockets::default())?,
        };
        let board = Arc::new(HealthBoard::default());
        let listeners = Listeners::start(engine, config, &sockets, &board);
        let started =
            listeners.and_then(|listeners| match Helpers::start(engine, config, &board, checks) {
                Ok(mut helpers) => {
                    if let Some(transfers) = &listeners.transfers {
                        match TransferThread::start(transfers) {
                            Ok(thread) => helpers.stop_with(|| thread.stop()),
                            Err(error) => {
                                helpers.stop();
                                listeners.stop();
                                return Err(error);
                            }
                        }
                    }
                    match start_replicas(engine, config, &listeners) {
                        Ok(replicas) => {
                            let replicas = Arc::new(Mutex::new(replicas));
                            let promoted = Arc::downgrade(&replicas);
                            listeners.replicas.set_promote(move || {
                                promoted.upgrade().map_or(Ok(0), |it| sync::lock(&it).promote())
                            });
                            let stop = Box::new(move || sync::lock(&replicas).stop());
                            helpers.others.insert(0, stop);
                        }
                        Err(error) => {
                            helpers.stop();
                            listeners.stop();
                            return Err(error);
                        }
                    }
                    Ok((listeners, helpers))
                }
                Err(error) => {
                    listeners.stop();
                    Err(error)
                }
            });
        match started {
            Ok((listeners, mut helpers)) => {
                helpers.others.insert(0, stop_links);
                let cookie_secret = listeners.dns.as_ref().and_then(DnsListener::cookie_secret);
                let handed = HandoverState { sockets, cookie_secret };
                let handover = HandOver::start(config.data_dir.as_deref(), handed);
                Ok(StartedParts { listeners, helpers, handover })
            }
            Err(error) => {
                stop_links();
                Err(error)
            }
        }
    }
}

impl Listeners {
    /// Takes the passwords, users, tokens and certificates of another configuration.
    fn exchange(&self, config: &Config, secrets: FreshSecrets) {
        if let Some(resp) = &self.resp {
            resp.exchange(secrets);
        }
        if let Some(http) = &self.http {
            http.exchange(&config.http, &config.feeds);
        }
        if let Some(transfers) = &self.transfers {
            transfers.configure(&config.transfers);
        }
        if let Some(thread) = &self.aliases {
            thread.aliases.follow_configuration();
        }
    }

    fn start(
        engine: &Arc<Engine>,
        config: &Config,
        sockets: &Sockets,
        board: &Arc<HealthBoard>,
    ) -> io::Result<Listeners> {
        let mut listeners = Listeners::default();
        match listeners.start_all(engine, config, sockets, board) {
            Ok(()) => Ok(listeners),
            Err(error) => {
                listeners.stop();
                Err(error)
            }
        }
    }

    fn start_all(
        &mut self,
        engine: &Arc<Engine>,
        config: &Config,
        sockets: &Sockets,
        board: &Arc<HealthBoard>,
    ) -> io::Result<()> {
        let started = Instant::now();
        let transfers = Transfers::new(engine, &config.transfers, config.data_dir.as_deref());
        self.transfers = Some(Arc::clone(&transfers));
        if config.resp.is_open() {
            self.resp =
                Some(start_resp(engine, config, sockets, (board, &transfers, &self.replicas))?);
        }
        if !config.dns.listen.is_empty() {
            self.aliases = Some(AliasThread::start(engine, &config.dns.resolvers)?);
            self.dns = Some(DnsListener::start(engine, &transfers, &config.dns, sockets)?);
        }
        if config.http.is_open() {
            let counters = Arc::new(HttpCounters::default());
            let metrics = Metrics {
                engine: Arc::clone(engine),
                started,
                data_dir: config.data_dir.clone(),
                resp: self.resp.as_ref().map(|listener| Arc::clone(listener.counters())),
                latencies: self.resp.as_ref().map(RespListener::latencies),
                dns: self.dns.as_ref().map(|listener| Arc::clone(listener.counters())),
                http: Arc::clone(&counters),
                health: Arc::clone(board),
                replicas: Arc::clone(&self.replicas),
                transfers: Arc::clone(&transfers),
                aliases: self.aliases.as_ref().map(|thread| Arc::clone(&thread.aliases)),
            };
            let engine = Arc::clone(engine);
            let render = Box::new(move |format| metrics.render(format));
            let (options, feeds) = (&config.http, &config.feeds);
            let about = self.about(started, config);
            let listener =
                HttpListener::start(engine, options, feeds, counters, render, about, sockets)?;
            self.http = Some(listener);
        }
        Ok(())
    }

    /// What HTTP may say of the server, without itself.
    fn about(&self, started: Instant, config: &Config) -> ServerFacts {
        let shown =
            |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect();
        let mut listeners = Vec::new();
        if let Some(resp) = &self.resp {
            listeners.push(("resp", shown(resp.addresses())));
            listeners.push(("resp_tls", shown(resp.tls_addresses())));
            let unix = unix_path(config).map(|path| path.display().to_string());
            listeners.push(("resp_unix", unix.into_iter().collect()));
        }
        if let Some(dns) = &self.dns {
            listeners.push(("dns", shown(dns.addresses())));
        }
        let transfers = self.transfers.clone();
        let zone_role = ZoneRole(Arc::new(move |zone| {
            transfers.as_ref().map_or(("file", None), |transfers| transfers.role(zone))
        }));
        let replicas = Arc::clone(&self.replicas);
        let data_dir = config.data_dir.clone();
        ServerFacts { started, data_dir, listeners, zone_role, replicas }
    }

    fn stop(self) {
        // Each waits by itself for what it has read; together they take as long as the slowest.
        std::thread::scope(|scope| {
            if let Some(resp) = self.resp {
                scope.spawn(|| resp.stop());
            }
            if let Some(http) = self.http {
                scope.spawn(|| http.stop());
            }
            if let Some(dns) = self.dns {
                scope.spawn(|| dns.stop());
            }
        });
    }
}

/// The threads beside the listeners: what follows files, folds, plans, sweeps and saves. They are
/// stopped in the order in which they were started.
pub(crate) struct Helpers {
    reloader: Reloader,
    prober: Prober,
    others: Vec<StopLinks>,
}

impl Helpers {
    fn start(
        engine: &Arc<Engine>,
        config: &Config,
        board: &Arc<HealthBoard>,
        checks: health::Ready,
    ) -> io::Result<Helpers> {
        let reloader = Reloader::start(engine)?;
        let prober = match Prober::start(engine, board, checks) {
            Ok(prober) => prober,
            Err(error) => {
                reloader.stop();
                return Err(error);
            }
        };
        let mut helpers = Helpers { reloader, prober, others: Vec::new() };
        match helpers.start_others(engine).and_then(|()| helpers.start_feeds(engine, config)) {
            Ok(()) => Ok(helpers),
            Err(error) => {
                helpers.stop();
                Err(error)
            }
        }
    }

    fn start_others(&mut self, engine: &Arc<Engine>) -> io::Result<()> {
        let zones = ZoneWatch::start(engine)?;
        self.stop_with(|| zones.stop());
        let maintenance = RulesMaintenance::start(engine)?;
        self.stop_with(|| maintenance.stop());
        let compactor = Compactor::start(engine)?;
        self.stop_with(|| compactor.stop());
        let sweeper = Sweeper::start(engine)?;
        self.stop_with(|| sweeper.stop());
        let snapshotter = Snapshotter::start(engine)?;
        self.stop_with(|| snapshotter.stop());
        Ok(())
    }

    /// Drop folders are stopped before the threads that apply.
    fn start_feeds(&mut self, engine: &Arc<Engine>, config: &Config) -> io::Result<()> {
        for feed in &config.feeds {
            let (Some(folder), Some(feed)) = (&feed.drop_folder, engine.feeds().get(&feed.name))
            else {
                continue;
            };
            let folder = DropFolder::start(feed, folder)?;
            self.stop_with(|| folder.stop());
        }
        for feed in engine.feeds().iter() {
            let applier = Applier::start(engine, feed)?;
            self.stop_with(|| applier.stop());
        }
        Ok(())
    }

    fn stop_with(&mut self, stop: impl FnOnce() + Send + Sync + 'static) {
        self.others.push(Box::new(stop));
    }

    pub(crate) fn stop(self) {
        self.reloader.stop();
        self.prober.stop();
        self.others.into_iter().for_each(|stop| stop());
    }
}

fn start_resp(
    engine: &Arc<Engine>,
    config: &Config,
    sockets: &Sockets,
    (board, transfers, replicas): (&Arc<HealthBoard>, &Arc<Transfers>, &Arc<ReplicaBoard>),
) -> io::Result<RespListener> {
    let (sync, config) = (config.journal.sync, &config.resp);
    for name in &config.plain_passwords {
        tracing::warn!(
            "the password of the user '{name}' stands in the configuration as it is; \
             password_sha256 takes its hash"
        );
    }
    let refresher = Arc::clone(transfers);
    let context = RespContext {
        journal_sync: match sync {
            SyncPolicy::Always => "always",
            SyncPolicy::EverySecond => "everysec",
            SyncPolicy::Off => "no",
        },
        run_id: run_id(),
        health: Arc::clone(board),
        replicas: Arc::clone(replicas),
        refresh_zone: Some(RefreshZone(Arc::new(move |zone, whole| {
            refresher.refresh(zone, whole)
        }))),
        ..RespContext::default()
    };
    let listener = RespListener::start_on(Arc::clone(engine), config.clone(), context, sockets);
    listener.map_err(|error| io::Error::new(error.kind(), format!("RESP {error}")))
}

/// Starts what follows primaries.
fn start_replicas(
    engine: &Arc<Engine>,
    config: &Config,
    listeners: &Listeners,
) -> io::Result<Replicas> {
    let resp = listeners.resp.as_ref();
    let context = LinkContext {
        engine: Arc::clone(engine),
        board: Arc::clone(&listeners.replicas),
        make_applier: RespListener::applier_maker(resp, engine),
        listening_port: resp.and_then(|resp| Some(resp.addresses().first()?.port())),
        routes: Arc::default(),
        data_dir: config.data_dir.clone(),
    };
    Replicas::start(context, &config.replicas)
}

/// Where the server of a configuration listens.
fn listen_options(config: &Config) -> ListenOptions {
    ListenOptions {
        http: config.http.listen.clone(),
        http_tls: config.http.tls_listen().to_vec(),
        dns: config.dns.listen.clone(),
        dns_threads: config.dns.thread_count(),
        ..config.resp.sockets()
    }
}

/// The configuration with as many connections as the process has file descriptors for.
fn with_fitting_limits(mut config: Config) -> Config {
    let limits = ConnectionLimits {
        resp: config.resp.max_clients,
        http: config.http.max_connections,
        dns: config.dns.max_tcp_connections,
    };
    let fitting = listen::fit_connections(&listen_options(&config), limits);
    config.resp.max_clients = fitting.resp;
    config.http.max_connections = fitting.http;
    config.dns.max_tcp_connections = fitting.dns;
    config
}

/// The path of the RESP listener's Unix socket.
fn unix_path(config: &Config) -> Option<&Path> {
    config.resp.unix_socket.as_ref().map(|socket| socket.path.as_path())
}

/// 40 hexadecimal digits that differ at every start.
fn run_id() -> String {
    // The standard library seeds each hasher from the system's random numbers.
    let random = |_| format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let mut digits: String = (0..3).map(random).collect();
    digits.truncate(40);
    digits
}

/// A data directory that was there before may be wider than those that we make.
fn remark_on_mode(data_dir: Option<&Path>) {
    let Some((path, found)) = data_dir.and_then(|path| Some((path, path.metadata().ok()?))) else {
        return;
    };
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        tracing::warn!(
            "the data directory {} has the mode {mode:03o}: others can list it, though not read \
             its files; 700 is enough",
            path.display()
        );
    }
}

fn journal_options(config: &JournalConfig) -> JournalOptions {
    let mut options = JournalOptions { sync: config.sync, ..JournalOptions::default() };
    if let Some(size_bytes) = config.segment_size_bytes {
        options.segment_size_bytes = size_bytes;
    }
    if let Some(size_bytes) = config.group_size_bytes {
        options.group_size_bytes_max = size_bytes;
    }
    if let Some(delay) = config.group_delay {
        options.group_delay_max = delay;
    }
    options
}

fn snapshot_options(config: &SnapshotConfig) -> SnapshotOptions {
    let mut options = SnapshotOptions::default();
    if let Some(size_bytes) = config.journal_size_bytes {
        options.journal_size_bytes = size_bytes;
    }
    if let Some(interval) = config.interval {
        options.interval = interval;
    }
    options
}

/// Why the server could not be started, reloaded or stopped: one line with the place.
#[derive(Debug)]
pub struct ServerError {
    message: String,
    holder_pid: Option<u32>,
}

impl ServerError {
    pub(crate) fn new(message: impl Into<String>) -> ServerError {
        ServerError { message: message.into(), holder_pid: None }
    }

    /// What was refused to the user that privileges were dropped to.
    fn as_user(error: impl Into<ServerError>, user: Option<&str>) -> ServerError {
        let mut error = error.into();
        if let Some(user) = user {
            error.message.push_str(&format!(" (as the user '{user}' of [server])"));
        }
        error
    }

    /// The process that holds the data directory, when that is what stopped the start.
    pub fn holder_pid(&self) -> Option<u32> {
        self.holder_pid
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

impl From<EngineError> for ServerError {
    fn from(error: EngineError) -> Self {
        ServerError { message: error.to_string(), holder_pid: error.holder_pid() }
    }
}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        ServerError::new(error.to_string())
    }
}
