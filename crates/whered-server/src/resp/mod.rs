//! The RESP door: Redis clients over TCP.
//!
//! For: the listeners and threads of the door, and its start and stop.
//! Not for: what the data are (`whered-engine`), TLS, replication, persistence.
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
//! To follow a command, start at `connection::Connection::turn`.
//!
//! Invariants: no thread waits for a client, nor for a write's fdatasync; a reply to a write
//! leaves after the write is durable; every buffer has a limit.
//! A thread does wait for the engine's locks, and for the journal when more than a group's limit
//! is waiting for the disk or a new segment is being allocated: then its other clients wait too.
//! At the same time: each thread serves its own connections; what they share is the engine.

mod commands;
mod connection;
mod double;
mod glob;
mod holds;
mod number;
mod protocol;
mod reply;
mod session;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};
use whered_engine::Engine;

pub use session::RespCounters;
use session::Shared;
use worker::{Signal, Worker};

/// The most connections that the kernel keeps for a listener until they are accepted.
const BACKLOG: i32 = 1024;

/// How the door is opened.
#[derive(Clone, Debug)]
pub struct RespOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// How many threads serve; at least one does.
    pub threads: usize,
    /// What `AUTH` has to give; `None` lets everybody in.
    pub password: Option<String>,
    /// The most connections at a time.
    pub max_clients: usize,
    /// A connection with more unsent reply bytes is closed; at a quarter of it reading pauses.
    pub output_buffer_limit_bytes: usize,
    /// A connection with more bytes of unfinished requests is closed.
    pub query_buffer_limit_bytes: usize,
    /// The version of `whered`, for `INFO`.
    pub version: &'static str,
    /// 40 hexadecimal digits that differ at every start, for `INFO`.
    pub run_id: String,
}

impl Default for RespOptions {
    /// A free loopback port, one thread, no password, the limits of Redis.
    fn default() -> RespOptions {
        RespOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            threads: 1,
            password: None,
            max_clients: 10_000,
            output_buffer_limit_bytes: 256 * 1024 * 1024,
            query_buffer_limit_bytes: 1024 * 1024 * 1024,
            version: env!("CARGO_PKG_VERSION"),
            run_id: "0".repeat(40),
        }
    }
}

/// The open door: listeners and threads. Dropping it stops it.
///
/// ```
/// use std::io::{Read, Write};
/// use whered_engine::{Engine, EngineOptions};
/// use whered_server::resp::{RespDoor, RespOptions};
///
/// let (engine, _) = Engine::open(EngineOptions::default())?;
/// let door = RespDoor::start(engine, RespOptions::default())?;
/// let mut client = std::net::TcpStream::connect(door.addresses()[0])?;
/// client.write_all(b"PING\r\n")?;
/// let mut answer = [0; 7];
/// client.read_exact(&mut answer)?;
/// assert_eq!(&answer, b"+PONG\r\n");
/// door.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RespDoor {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    signals: Arc<[Arc<Signal>]>,
    threads: Vec<JoinHandle<()>>,
}

impl RespDoor {
    /// Binds every address for every thread and starts serving.
    ///
    /// # Errors
    /// An address cannot be bound, or a thread cannot be started.
    pub fn start(engine: Arc<Engine>, mut options: RespOptions) -> io::Result<RespDoor> {
        let thread_count = options.threads.max(1);
        let mut sockets: Vec<Vec<TcpListener>> = Vec::new();
        sockets.resize_with(thread_count, Vec::new);
        for address in &mut options.listen {
            for sockets in &mut sockets {
                let socket = listen(*address)?;
                // The first one of port 0 has picked a port, which the other threads share.
                *address = socket.local_addr()?;
                sockets.push(socket);
            }
        }
        let addresses = options.listen.clone();
        let port = addresses.first().map_or(0, SocketAddr::port);
        let shared = Arc::new(Shared::new(engine, options, port));
        let mut workers = Vec::new();
        for sockets in sockets {
            workers.push(Worker::new(sockets, &shared)?);
        }
        let signals: Arc<[Arc<Signal>]> = workers.iter().map(Worker::signal).collect();
        let mut door = RespDoor {
            addresses,
            shared: Arc::clone(&shared),
            signals: Arc::clone(&signals),
            threads: Vec::new(),
        };
        shared.engine.on_durable(Box::new(move || {
            signals.iter().for_each(|signal| signal.durable());
        }));
        for (index, worker) in workers.into_iter().enumerate() {
            let builder = std::thread::Builder::new().name(format!("resp-{index}"));
            // When this fails, dropping the door stops the threads before.
            door.threads.push(builder.spawn(|| worker.run())?);
        }
        Ok(door)
    }

    /// The addresses that it listens on, with the ports that were picked.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
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

    fn join(&mut self) {
        self.signals.iter().for_each(|signal| signal.stop());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the RESP door has panicked");
            }
        }
    }
}

impl Drop for RespDoor {
    fn drop(&mut self) {
        self.join();
    }
}

/// One listening socket that shares its port with those of the other threads.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let with_place = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    };
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    bind().map_err(with_place)
}
