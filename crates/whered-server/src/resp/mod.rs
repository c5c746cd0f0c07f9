//! The RESP listener: Redis clients over TCP, TLS and a Unix socket.
//!
//! For: the listeners and threads of the listener, and its start and stop.
//! Not for: what the data are (`whered-engine`), replication, persistence.
//!
//! How bytes flow:
//!
//! ```text
//!  socket ──read──> input ──protocol──> Args ──commands──> engine
//!                                                             │
//!  socket <──write── output <── (held until durable) <── reply┘
//!
//!  worker      connection     protocol   commands/*      reply   session
//!  one thread, one client,    bytes to   the table and   values  what commands of one
//!  many        its buffers,   arguments  the handlers    to      connection know
//!  clients     held replies                              bytes
//! ```
//!
//! To follow a command, start at `connection::Connection::work`.
//!
//! Invariants: no thread waits for a client, nor for a write's fdatasync; a reply to a write
//! leaves after the write is durable; every buffer has a limit.
//! A thread does wait for the engine's locks, and for the journal when more than a group's limit
//! is waiting for the disk or a new segment is being allocated: then its other clients wait too.
//! At the same time: each thread serves its own connections; what they share is the engine and
//! what `session::SharedState` lists, each part with its own short lock or atomics.

mod background;
mod clients;
mod commands;
mod connection;
mod counters;
mod cross_protocol;
mod decimal;
mod deferred_replies;
mod double;
mod gate;
mod input;
mod listen;
mod long_double;
mod memory;
mod notifier;
mod number;
mod options;
mod pause;
mod pending;
mod protocol;
mod pubsub;
mod rates;
mod refused_commands;
mod reply;
mod serving;
mod session;
mod settings;
mod slowlog;
mod statistics;
mod transaction;
mod users;
mod waiting;
mod watch;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::ServerConfig;
use whered_engine::Engine;

use commands::{CommandTable, Executor};
pub use counters::RespCounters;
use listen::Listener;
use notifier::Notifier;
pub(crate) use options::RefreshZone;
pub use options::{RespContext, RespOptions};
use refused_commands::RefusedCommands;
use session::SharedState;
use statistics::Statistics;
pub(crate) use statistics::Totals;
pub use users::{NameKind, PasswordHash, UserOptions, hash as password_hash};
use users::{User, Users};
pub use whered_engine::glob::matches as key_matches;
use worker::Worker;

use crate::certificates::CurrentTls;
pub use crate::listen::UnixSocketOptions;
use crate::listen::{self as sockets, Kind, Sockets};
use crate::replica::MakeApplier;
use crate::tls;
pub use crate::tls::TlsOptions;

/// The open listener: listeners and threads. Dropping it stops it.
///
/// ```
/// use std::io::{Read, Write};
/// use whered_engine::{Engine, EngineOptions};
/// use whered_server::resp::{RespListener, RespOptions};
///
/// let (engine, _) = Engine::open(EngineOptions::default())?;
/// let options = RespOptions { listen: vec!["127.0.0.1:0".parse()?], ..RespOptions::default() };
/// let listener = RespListener::start(engine, options)?;
/// let mut client = std::net::TcpStream::connect(listener.addresses()[0])?;
/// client.write_all(b"PING\r\n")?;
/// let mut answer = [0; 7];
/// client.read_exact(&mut answer)?;
/// assert_eq!(&answer, b"+PONG\r\n");
/// listener.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RespListener {
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    unix_path: Option<PathBuf>,
    tls: Option<CurrentTls>,
    shared: Arc<SharedState>,
    notifiers: Arc<[Arc<Notifier>]>,
    threads: Vec<JoinHandle<()>>,
}

impl RespListener {
    /// Binds every address for every thread and starts serving.
    ///
    /// # Errors
    /// An address cannot be bound, or a thread cannot be started.
    pub fn start(engine: Arc<Engine>, options: RespOptions) -> io::Result<RespListener> {
        let sockets = Sockets::open_shared(&options.sockets())?;
        RespListener::start_on(engine, options, RespContext::default(), &sockets)
    }

    /// Starts serving at sockets that are bound.
    ///
    /// # Errors
    /// A certificate is wrong, or the system has no thread or descriptor left.
    pub(crate) fn start_on(
        engine: Arc<Engine>,
        mut options: RespOptions,
        context: RespContext,
        bound: &Sockets,
    ) -> io::Result<RespListener> {
        let thread_count = options.thread_count();
        if let Some(wrong) = wrong_user(&options.users) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let mut sockets: Vec<Vec<Listener>> = Vec::new();
        sockets.resize_with(thread_count, Vec::new);
        listen_on(bound, Kind::Resp, &mut options.listen, &mut sockets, Listener::Tcp)?;
        let mut current_tls = None;
        if let Some(tls) = &mut options.tls {
            let config = CurrentTls::new(tls::configure(tls)?);
            let listener = |socket| Listener::Tls(socket, config.clone());
            listen_on(bound, Kind::RespTls, &mut tls.listen, &mut sockets, listener)?;
            current_tls = Some(config);
        }
        let unix_path = options.unix_socket.as_ref().map(|socket| socket.path.clone());
        if let Some(unix) = &options.unix_socket {
            for socket in bound.of_unix(&unix.path)? {
                let listeners = listen::unix(&socket, &unix.path, thread_count)?;
                sockets.iter_mut().zip(listeners).for_each(|(sockets, one)| sockets.push(one));
            }
        }
        let addresses = options.listen.clone();
        let tls_addresses = options.tls.as_ref().map_or_else(Vec::new, |tls| tls.listen.clone());
        let table = commands::table();
        let users = users_of(&options, table);
        let port = addresses.first().map_or(0, SocketAddr::port);
        let shared = Arc::new(SharedState::new(engine, options, context, port, table, users));
        let mut workers = Vec::new();
        for (number, sockets) in sockets.into_iter().enumerate() {
            workers.push(Worker::new(number, sockets, &shared)?);
        }
        let notifiers: Arc<[Arc<Notifier>]> = workers.iter().map(Worker::notifier).collect();
        let mut listener = RespListener {
            addresses,
            tls_addresses,
            unix_path,
            tls: current_tls,
            shared: Arc::clone(&shared),
            notifiers: Arc::clone(&notifiers),
            threads: Vec::new(),
        };
        for feed in shared.engine.feeds().iter() {
            let notifiers = Arc::clone(&notifiers);
            feed.on_progress(Box::new(move || {
                notifiers.iter().for_each(|notifier| notifier.durable());
            }));
        }
        let of_all = Arc::clone(&notifiers);
        shared.engine.on_durable(Box::new(move || {
            of_all.iter().for_each(|notifier| notifier.durable());
        }));
        for (index, worker) in workers.into_iter().enumerate() {
            let builder = std::thread::Builder::new().name(format!("resp-{index}"));
            // When this fails, dropping the listener stops the threads before.
            let notifiers = Arc::clone(&notifiers);
            listener.threads.push(builder.spawn(|| worker.run(notifiers))?);
        }
        Ok(listener)
    }

    /// The addresses that it listens on, with the ports that were picked.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses where it speaks TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// Takes the passwords, users and certificates of another configuration for what begins now.
    /// Connections stay open, and logged in.
    pub(crate) fn exchange(&self, fresh: FreshSecrets) {
        self.shared.users.exchange(fresh.users);
        if let (Some(current), Some(tls)) = (&self.tls, fresh.tls) {
            current.exchange(tls);
        }
    }

    /// What its commands have cost so far, by family.
    pub(crate) fn latencies(&self) -> Latencies {
        Latencies(Arc::clone(&self.shared.statistics), Arc::clone(&self.shared.refused_commands))
    }

    /// What links of replicas are applied by.
    pub(crate) fn applier_maker(
        listener: Option<&RespListener>,
        engine: &Arc<Engine>,
    ) -> MakeApplier {
        let shared = listener.map(|listener| Arc::clone(&listener.shared));
        let engine = Arc::clone(engine);
        Arc::new(move |options, served| {
            let executor = Executor::new(&engine, options.clone(), served, shared.clone())?;
            Ok(Box::new(executor))
        })
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Arc<RespCounters> {
        &self.shared.counters
    }

    /// Accepts no more, answers what was read, waits up to three seconds for writes to become
    /// durable and for clients to take their replies, and ends the threads.
    pub fn stop(mut self) {
        self.join();
    }

    /// As [`RespListener::stop`], for a successor that has the listener's sockets: its Unix socket
    /// stays where it is.
    pub(crate) fn hand_over(mut self) {
        self.unix_path = None;
        self.join();
    }

    fn join(&mut self) {
        self.notifiers.iter().for_each(|notifier| notifier.stop());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the RESP door has panicked");
            }
        }
        // Nobody listens there any more; when it cannot be removed, the next start will.
        if let Some(path) = self.unix_path.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for RespListener {
    fn drop(&mut self) {
        self.join();
    }
}

/// Gives every worker a socket of every address; addresses become those that are bound.
fn listen_on(
    bound: &Sockets,
    kind: Kind,
    addresses: &mut [SocketAddr],
    sockets: &mut [Vec<Listener>],
    listener: impl Fn(mio::net::TcpListener) -> Listener,
) -> io::Result<()> {
    let of_addresses = bound.of(kind, addresses)?;
    for (address, of_address) in addresses.iter_mut().zip(&of_addresses) {
        if let Some(first) = of_address.first() {
            *address = sockets::address_of(first.as_fd())?;
        }
    }
    let by_worker = sockets::by_thread::<std::net::TcpListener>(of_addresses, sockets.len());
    for (sockets, own) in sockets.iter_mut().zip(by_worker) {
        let own = own.into_iter().map(mio::net::TcpListener::from_std);
        sockets.extend(own.map(&listener));
    }
    Ok(())
}

/// What a reload brings to a listener that is open.
pub(crate) struct FreshSecrets {
    users: Users,
    tls: Option<Arc<ServerConfig>>,
}

impl FreshSecrets {
    /// Reads the certificates of a configuration.
    ///
    /// # Errors
    /// One line with the file that cannot be read or is wrong; a rule that names no command.
    pub(crate) fn read(options: &RespOptions) -> io::Result<FreshSecrets> {
        if let Some(wrong) = wrong_user(&options.users) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let tls = options.tls.as_ref().map(tls::configure).transpose()?;
        Ok(FreshSecrets { users: users_of(options, commands::table()), tls })
    }
}

/// The users that may log in.
fn users_of(options: &RespOptions, table: &CommandTable) -> Users {
    let password = options.password.as_deref().map(|plain| users::hash(plain.as_bytes()));
    let default = User::default_user(password.or(options.password_sha256));
    let others = options.users.iter().map(|user| {
        let allowed = commands::allowed_by(table, &user.commands).unwrap_or_default();
        User::new(user, allowed)
    });
    Users::new(default, others)
}

/// The first rule of a user that is none, in one line.
pub(crate) fn wrong_user(users: &[UserOptions]) -> Option<String> {
    users.iter().find_map(|user| {
        let rule = commands::allowed_by(commands::table(), &user.commands).err()?;
        Some(format!("the user '{}' has the rule '{rule}', which names no command", user.name))
    })
}

/// A line for each kind of things that a user's commands touch and that he has no pattern of.
pub(crate) fn missing_lists(user: &UserOptions) -> Vec<String> {
    let allowed = commands::allowed_by(commands::table(), &user.commands).unwrap_or_default();
    let missing = |kind: &NameKind| {
        if !user.patterns(*kind).is_empty() {
            return None;
        }
        let needs = |entry: &&commands::Entry| {
            let asked = entry.command.names.iter().filter(|named| named.is_always_asked());
            let is_key = *kind == NameKind::Key && !entry.command.keys.is_empty();
            let is_allowed = allowed.get(entry.number).is_some_and(|allowed| *allowed);
            is_allowed && (is_key || asked.into_iter().any(|it| it.kinds().contains(kind)))
        };
        let mut needing = commands::table().entries().iter().filter(needs);
        let first = needing.next()?.command.name.to_uppercase().replace('|', " ");
        let more = match needing.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (name, list) = (&user.name, kind.list());
        Some(format!(
            "the user '{name}' may give {first}{more}, but has no '{list}': they are refused"
        ))
    };
    NameKind::ALL.iter().filter_map(missing).collect()
}

/// How long commands took, for `/metrics`.
pub(crate) struct Latencies(Arc<Statistics>, Arc<RefusedCommands>);

impl Latencies {
    /// The figures of each family of commands that was called.
    pub(crate) fn by_family(&self) -> Vec<(&'static str, Totals)> {
        let mut families: BTreeMap<&'static str, Totals> = BTreeMap::new();
        for entry in commands::table().entries() {
            let totals = self.0.total(entry.number);
            if totals.calls > 0 {
                families.entry(entry.command.group).or_default().add(&totals);
            }
        }
        families.into_iter().collect()
    }

    /// How many commands were refused because the memory was used up.
    pub(crate) fn out_of_memory(&self) -> u64 {
        self.0.errors().get("OOM").copied().unwrap_or(0)
    }

    /// How often each command was refused or has failed; the empty name is of what is no command.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let of = |entry: &commands::Entry| {
            let totals = self.0.total(entry.number);
            (entry.command.name, totals.failed + totals.rejected)
        };
        let known = commands::table().entries().iter().map(of);
        known.chain([("", self.1.unknown())]).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use whered_engine::EngineOptions;

    use super::*;

    fn on_free_port(threads: usize) -> RespOptions {
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        RespOptions { listen, threads: Some(threads), ..RespOptions::default() }
    }

    fn ask(client: &mut TcpStream) {
        client.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }

    #[test]
    fn what_clients_have_sent_before_a_stop_is_answered() {
        let (engine, _) = Engine::open(EngineOptions::default()).unwrap();
        let options = on_free_port(2);
        let listener = RespListener::start(engine, options).unwrap();
        let connect = |_| TcpStream::connect(listener.addresses()[0]).unwrap();
        let mut clients: Vec<TcpStream> = (0..200).map(connect).collect();
        clients.iter_mut().for_each(ask);
        clients.iter_mut().for_each(|client| client.write_all(b"PING\r\nPING\r\n").unwrap());
        listener.stop();
        for client in &mut clients {
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, b"+PONG\r\n+PONG\r\n");
        }
    }

    #[test]
    fn clients_are_shared_out_evenly_however_few_there_are() {
        let (engine, _) = Engine::open(EngineOptions::default()).unwrap();
        let options = on_free_port(3);
        let listener = RespListener::start(engine, options).unwrap();
        let open = || listener.notifiers.iter().map(|notifier| notifier.open()).collect::<Vec<_>>();
        let mut clients: Vec<TcpStream> = Vec::new();
        for _ in 0..3 {
            while clients.len() < 12 {
                clients.push(TcpStream::connect(listener.addresses()[0]).unwrap());
                clients.iter_mut().for_each(ask);
            }
            assert_eq!(open(), [4, 4, 4]);
            // The worker that has lost the most gets the next ones.
            clients.drain(..5);
            let end = Instant::now() + Duration::from_secs(10);
            while open().iter().sum::<usize>() > clients.len() {
                assert!(Instant::now() < end, "{:?} for {} clients", open(), clients.len());
                std::thread::yield_now();
            }
        }
        listener.stop();
    }

    #[test]
    fn a_worker_that_has_ended_or_stops_gets_no_more_clients() {
        let (engine, _) = Engine::open(EngineOptions::default()).unwrap();
        let options = on_free_port(3);
        let listener = RespListener::start(engine, options).unwrap();
        listener.notifiers[0].stop();
        let end = Instant::now() + Duration::from_secs(10);
        while listener.notifiers[0].open() != usize::MAX {
            assert!(Instant::now() < end, "it has no connection and stops");
            std::thread::yield_now();
        }
        let mut clients: Vec<TcpStream> = Vec::new();
        let mut add = |count: usize| {
            for _ in 0..count {
                clients.push(TcpStream::connect(listener.addresses()[0]).unwrap());
                clients.iter_mut().for_each(ask);
            }
            [0, 1, 2].map(|number| listener.notifiers[number].open())
        };
        assert_eq!(add(20), [usize::MAX, 10, 10]);
        // As if the second were about to stop: what it has not accepted itself stays with the
        // third.
        drop(listener.notifiers[1].take_last_handed());
        let [_, second, third] = add(10);
        assert_eq!(second + third, 30);
        listener.stop();
    }
}
