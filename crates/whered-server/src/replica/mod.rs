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
mod full_sync;
mod link;
mod options;
mod pauses;
mod stop;

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use whered_engine::{Engine, Route};
use whered_replication::{Address, Batch, LinkError, PassesOver};

pub use board::{Count, LinkState, LinkStatus, ReplicaBoard};
use link::Link;
pub use options::{Cluster, PrimarySource, ReplicaOptions, Sentinels};
use stop::LinkStop;

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
}

/// Applies commands to the hidden database of a link.
pub(crate) trait Applier: Send {
    /// The stream goes on with this database selected.
    fn go_on(&mut self, database: u32);

    /// The stream begins behind a dump with this database selected. `sets` are the followed names
    /// that have plain sets there; `None`: too many to know.
    fn begin(&mut self, database: u32, sets: Option<Vec<Vec<u8>>>);

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
}

/// A link that runs.
pub(crate) struct RunningLink {
    name: String,
    stop: Arc<LinkStop>,
    thread: JoinHandle<()>,
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
        let link = Link::new(self, options, &status, &stop, resolve, applier);
        self.board.add(&status);
        let thread = Builder::new().name(format!("replica-{number}"));
        match thread.spawn(move || link.run()) {
            Ok(thread) => Ok(RunningLink { name, stop, thread }),
            Err(error) => {
                self.board.remove(&name);
                Err(error)
            }
        }
    }

    /// Ends a link; its data serve on. Nothing is written for it any more when this is over.
    pub(crate) fn end(&self, link: RunningLink) {
        link.stop.stop();
        if link.thread.join().is_err() {
            tracing::error!("the thread of the replica '{}' has failed", link.name);
        }
        self.board.remove(&link.name);
    }
}

/// All replicas of a server.
pub(crate) struct Replicas {
    context: LinkContext,
    links: Vec<RunningLink>,
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
        // A cluster's links begin with its name.
        let is_forgotten = |name: &str| !names.iter().any(|own| name.starts_with(own.as_str()));
        keyspace.forget_links(is_forgotten).map_err(|error| error.to_string())?;
        let mut routes = Vec::new();
        for (options, name) in replicas.iter().zip(&names) {
            let links = match options.source {
                PrimarySource::Cluster(_) => Vec::new(),
                PrimarySource::One(_) | PrimarySource::Sentinel(_) => {
                    vec![keyspace.link(name).ok_or("there are more links than 64")?]
                }
            };
            let (database, patterns) = (options.database, options.patterns.clone());
            routes.push(Route { database, patterns, links, slots: None });
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
        let mut running = Replicas { context, links: Vec::new() };
        for options in replicas {
            let started = match &options.source {
                PrimarySource::One(address) => {
                    let address = address.clone();
                    let resolve = Box::new(move || Ok(address.clone()));
                    running.context.start(options, options.link_name(), resolve)
                }
                PrimarySource::Cluster(_) | PrimarySource::Sentinel(_) => Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("'of' of [[replica]]: '{}' is not in this version", options.of),
                )),
            };
            match started {
                Ok(link) => running.links.push(link),
                Err(error) => {
                    running.stop();
                    return Err(error);
                }
            }
        }
        Ok(running)
    }

    /// Ends all links. Nothing is written for them any more when this is over.
    pub(crate) fn stop(&mut self) {
        self.links.iter().for_each(|link| link.stop.stop());
        std::mem::take(&mut self.links).into_iter().for_each(|link| self.context.end(link));
    }
}
