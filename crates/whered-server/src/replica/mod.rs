//! Primaries that are followed: Redis and Valkey servers whose sorted sets are served here.
//!
//! For: `[[replica]]`: one thread for each link, which is a connection to one primary. Not for:
//! what comes over the wire (`whered-replication`), what a command does (`resp`, by [`Applier`]),
//! where the data lie and how positions are kept (the engine).
//!
//! ```text
//! [[replica]] ─> link ─ PSYNC from the kept position ─┬─ +FULLRESYNC ─> Load, swapped in as one
//!                  │                                  └─ +CONTINUE
//!                  └─ up to 256 commands or 200 us ─> Engine::follow: effects and position as one
//! ```
//!
//! At the same time: links share nothing but the engine and the board. A fault ends a connection,
//! never a link: it tries again after a pause, and the last good data serve meanwhile.

mod board;
mod cluster;
mod full_sync;
mod link;
mod options;
mod pauses;
mod reread;
mod sentinel;
mod stop;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use whered_engine::{Engine, Position, ReplicationId, Route, SlotOwners, WriteError};
use whered_replication::{Address, Batch, KeyCopy, LinkError, PassesOver};

pub use board::{Count, LinkState, LinkStatus, ReplicaBoard};
use cluster::RunningCluster;
use link::Link;
pub use options::{Cluster, PrimarySource, ReplicaOptions, Sentinels};
use sentinel::RunningSentinel;
use stop::LinkStop;

use crate::upstream::Source;

/// What follows the name of a cluster in those of its links.
const SHARD_SUFFIX: &str = " shard ";

/// What keeps a link from applying what its primary has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// Only a dump can say what the followed keys are now; the text says why.
    Resync(String),
    /// It cannot be written here now: the disk is full, or the journal has failed.
    Refused(String),
}

/// How much of a batch is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Commands, up to the end of a unit.
    pub(crate) commands: usize,
    /// The offset behind them.
    pub(crate) offset: i64,
    /// The database that is selected there.
    pub(crate) database: u32,
    /// Whether a part of the next unit is applied, too.
    pub(crate) is_inside_transaction: bool,
    /// Whether keys are being read anew, which until then hold what is of no worth.
    pub(crate) is_reading_anew: bool,
}

/// Applies commands to the hidden database of a link.
pub(crate) trait Applier: Send {
    /// The stream goes on with this database selected.
    fn go_on(&mut self, database: u32);

    /// The stream begins behind a dump with this database selected. `sets` are the followed names
    /// that have plain sets there; `None`: too many to know.
    fn begin(&mut self, database: u32, sets: Option<Vec<Vec<u8>>>);

    /// Tells clients that watch followed keys that all data are others now. Called when nobody else
    /// is inside the engine's gate, so that no transaction comes between.
    fn data_exchanged(&self);

    /// Of which commands long arguments are of no use.
    fn passes_over(&self) -> PassesOver;

    /// Applies commands until the batch or the time is over, whole units at least, and says how
    /// far it came, also where it fails.
    fn apply(
        &mut self,
        batch: Batch<'_>,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<(), Obstacle>;

    /// Whether the primary has asked for the position; asked once a batch.
    fn take_position_request(&mut self) -> bool;

    /// A key of which a copy is needed, and what has made it necessary.
    fn pending_reread(&self) -> Option<(Vec<u8>, String)>;

    /// Here is the copy, of an offset that was not reached before.
    fn provide(&mut self, key: &[u8], copy: KeyCopy);

    /// Whether a copy is to be placed at this offset, by [`Applier::apply`].
    fn is_due(&self, offset: i64) -> bool;
}

/// Makes what applies commands to a hidden database.
pub(crate) type MakeApplier =
    Arc<dyn Fn(&ReplicaOptions, usize) -> io::Result<Box<dyn Applier>> + Send + Sync>;

/// Where a link's primary is now; asked before each connection.
pub(crate) type Resolve = Box<dyn Fn() -> Result<Address, LinkError> + Send>;

/// What all links have in common.
#[derive(Clone)]
pub(crate) struct LinkContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) board: Arc<ReplicaBoard>,
    pub(crate) make_applier: MakeApplier,
    /// The port of our RESP listener, which primaries show.
    pub(crate) listening_port: Option<u16>,
    /// Held while a route gets other links.
    pub(crate) routes: Arc<Mutex<()>>,
    /// Where dumps for followers are made.
    pub(crate) data_dir: Option<PathBuf>,
}

/// A link that runs.
pub(crate) struct RunningLink {
    name: String,
    status: Arc<LinkStatus>,
    stop: Arc<LinkStop>,
    source: Arc<Source>,
    thread: JoinHandle<()>,
}

impl RunningLink {
    /// Connects anew, perhaps to another primary.
    fn reconnect(&self) {
        self.stop.reconnect();
    }

    /// Takes a dump anew.
    fn resync(&self, why: &str) {
        tracing::warn!("the replica of {} takes a dump anew: {why}", self.status.of);
        self.stop.resync();
    }
}

impl LinkContext {
    /// Starts a link of a replica, by the number that the engine has for its name.
    ///
    /// # Errors
    /// There are too many links, or the system has no thread or descriptor left.
    pub(crate) fn start(
        &self,
        options: &ReplicaOptions,
        name: String,
        resolve: Resolve,
    ) -> io::Result<RunningLink> {
        let number = self.engine.keyspace().link(&name);
        let number = number.ok_or_else(|| io::Error::other("there are more links than 64"))?;
        let served = whered_engine::served_number(number);
        let applier = (self.make_applier)(options, served)?;
        let (of, max_lag) = (options.of.clone(), options.max_lag);
        let status = Arc::new(LinkStatus::new(name.clone(), of, number, max_lag));
        let stop = Arc::<LinkStop>::default();
        let follows = options.follows();
        let source = Source::new(&self.engine, number, follows, self.data_dir.clone());
        let source = Arc::new(source);
        let link = Link::new(self, options, (&status, &source, &stop), resolve, applier);
        self.board.add(&status);
        // A shard has not all keys that its replica follows: who wants those follows the cluster.
        if !matches!(options.source, PrimarySource::Cluster(_)) {
            self.board.upstream.add(&source);
        }
        let thread = Builder::new().name(format!("replica-{number}"));
        match thread.spawn(move || link.run()) {
            Ok(thread) => Ok(RunningLink { name, status, stop, source, thread }),
            Err(error) => {
                self.board.upstream.remove(&source);
                self.board.remove(&name);
                Err(error)
            }
        }
    }

    /// Ends a link; its data serve on. Nothing is written for it any more when this is over.
    pub(crate) fn end(&self, link: RunningLink) {
        link.stop.stop();
        self.board.upstream.remove(&link.source);
        // One that still waits for a connection writes nothing: it ends when it has one, or none.
        if link.stop.is_working() && link.thread.join().is_err() {
            tracing::error!("the thread of the replica '{}' has failed", link.name);
        }
        self.board.remove(&link.name);
    }
}

/// All replicas of a server.
pub(crate) struct Replicas {
    context: LinkContext,
    links: Vec<RunningLink>,
    clusters: Vec<RunningCluster>,
    sentinels: Vec<RunningSentinel>,
}

impl Replicas {
    /// Gives the followed keys their routes, and forgets what is no longer followed. Called before
    /// anybody can ask for a key.
    ///
    /// # Errors
    /// A line: there are own keys that would be hidden, too many links, or the journal has failed.
    pub(crate) fn prepare(engine: &Engine, replicas: &[ReplicaOptions]) -> Result<(), String> {
        let keyspace = engine.keyspace();
        let names: Vec<String> = replicas.iter().map(ReplicaOptions::link_name).collect();
        let is_of = |name: &str, own: &str| {
            let shard = name.strip_prefix(own);
            shard.is_some_and(|shard| shard.is_empty() || shard.starts_with(SHARD_SUFFIX))
        };
        let is_forgotten = |name: &str| !names.iter().any(|own| is_of(name, own));
        keyspace.forget_links(is_forgotten).map_err(|error| error.to_string())?;
        let mut routes = Vec::new();
        for (options, name) in replicas.iter().zip(&names) {
            let (links, slots) = match options.source {
                PrimarySource::Cluster(_) => {
                    // The shards that were followed before serve until the cluster is found.
                    let positions = keyspace.positions().into_iter();
                    let own = positions.filter(|position| is_of(&position.name, name));
                    (
                        own.map(|position| position.link).collect(),
                        Some(Arc::<SlotOwners>::default()),
                    )
                }
                PrimarySource::One(_) | PrimarySource::Sentinel(_) => {
                    (vec![keyspace.link(name).ok_or("there are more links than 64")?], None)
                }
            };
            let (database, patterns) = (options.database, options.patterns.clone());
            routes.push(Route { database, patterns, links, slots });
        }
        keyspace.set_routes(routes);
        match keyspace.hidden_key() {
            None => Ok(()),
            Some((database, key)) => {
                keyspace.set_routes(Vec::new());
                Err(format!(
                    "the key '{}' of database {database} is here already, and a [[replica]] would \
                     hide it; allowed: another 'match', or to delete or rename the key before",
                    key.escape_ascii()
                ))
            }
        }
    }

    /// Starts all links.
    ///
    /// # Errors
    /// A source that is not known yet; the system has no thread or descriptor left.
    pub(crate) fn start(context: LinkContext, replicas: &[ReplicaOptions]) -> io::Result<Replicas> {
        let (links, clusters, sentinels) = (Vec::new(), Vec::new(), Vec::new());
        let mut running = Replicas { context, links, clusters, sentinels };
        for options in replicas {
            let started = match &options.source {
                PrimarySource::One(address) => {
                    let address = address.clone();
                    let resolve = Box::new(move || Ok(address.clone()));
                    let started = running.context.start(options, options.link_name(), resolve);
                    started.map(|link| running.links.push(link))
                }
                PrimarySource::Cluster(cluster) => {
                    let started = RunningCluster::start(&running.context, options, cluster);
                    started.map(|cluster| running.clusters.push(cluster))
                }
                PrimarySource::Sentinel(sentinels) => {
                    let started = RunningSentinel::start(&running.context, options, sentinels);
                    started.map(|link| running.sentinels.push(link))
                }
            };
            if let Err(error) = started {
                running.stop();
                return Err(error);
            }
        }
        Ok(running)
    }

    /// Ends all links. Nothing is written for them any more when this is over.
    pub(crate) fn stop(&mut self) {
        self.links.iter().for_each(|link| link.stop.stop());
        std::mem::take(&mut self.links).into_iter().for_each(|link| self.context.end(link));
        self.clusters.drain(..).for_each(RunningCluster::end);
        self.sentinels.drain(..).for_each(|link| link.end(&self.context));
        self.context.board.upstream.stop();
    }

    /// The replicas of which some keys hold what is of no worth.
    fn unfinished(&self) -> Vec<Position> {
        let positions = self.context.engine.keyspace().positions().into_iter();
        positions.filter(|it| it.stream.replication_id == ReplicationId::LOST).collect()
    }

    /// Refuses where one of these links has such keys.
    fn check_finished(&self, links: &[usize]) -> Result<(), WriteError> {
        match self.unfinished().iter().find(|position| links.contains(&position.link)) {
            None => Ok(()),
            Some(position) => Err(WriteError::Refused(format!(
                "a key of the replica {} is being read anew; allowed: to ask once more",
                position.name
            ))),
        }
    }

    /// Ends all links and makes own keys of what they have followed. Gives how many there were.
    ///
    /// # Errors
    /// A key is being read anew by a link that works: nothing has changed, unless that began just
    /// now. The journal has no room or has failed. Then the links have ended, and what they
    /// followed stays.
    pub(crate) fn promote(&mut self) -> Result<usize, WriteError> {
        let links = self.context.board.links();
        let working = links.iter().filter(|link| link.state() == LinkState::Up);
        let working: Vec<usize> = working.map(|link| link.number).collect();
        self.check_finished(&working)?;
        self.stop();
        self.check_finished(&working)?;
        // Of a primary that is away there is nothing better.
        for Position { name, .. } in self.unfinished() {
            tracing::warn!("some keys of the replica {name} may be others than at its primary");
        }
        let keyspace = self.context.engine.keyspace();
        let links: Vec<usize> =
            keyspace.routes().iter().flat_map(|route| route.links.clone()).collect();
        let promoted = keyspace.promote(&links)?.value;
        // A cluster that was never found has a route without links.
        keyspace.set_routes(Vec::new());
        self.context.board.set_topology(None);
        tracing::info!("{promoted} keys that were followed are own keys from now on");
        Ok(promoted)
    }
}
