//! One process takes the place of another: listening sockets and the data directory change hands.
//!
//! For: a restart that loses no question. Not for: who starts the new process (the program), how
//! listeners are stopped (they know), files in messages (`descriptors.rs`).
//!
//! ```text
//!   old: all listeners open                           new: reads configuration
//!      │ <──────────── "whered 1 take over" ────────────┤ connects to DATA_DIR/handover
//!      ├── "socket dns-udp 0 127.0.0.1:53" + descriptor ─>  one message each, then "end"
//!      │                                                │ reads zones, databases, rulesets
//!      │ <───────────────── "data" ─────────────────────┤
//!   RESP and HTTP finish; journal closed, directory unlocked
//!      ├──────────────── "data is yours" ──────────────>│ replays the journal, opens all listeners
//!   DNS goes on from memory                             │
//!      │ <──────── "serving", then "connections" ───────┤
//!      ├── "connection 192.0.2.7" + descriptor ────────>│ goes on with DNS over TCP where it was
//!   DNS finishes; exit                                  v
//! ```
//!
//! Invariants:
//! - a socket has a reader at every moment, or waits with what came: the queue of a socket belongs
//!   to all processes that have it;
//! - a connection of DNS over TCP is passed between two messages, so that nothing of it is lost;
//!   what a successor of before that word does not take may ask until it is quiet, five seconds at
//!   the most;
//! - the journal has one writer: the old one's is closed before the new one's is opened. RESP and
//!   HTTP connections wait in their listeners meanwhile; no write is refused that was not refused
//!   before;
//! - when the new process goes before it serves, the old one opens everything again.
//!
//! At the same time: one successor at a time. Only the same user, and root, can reach the socket.

mod descriptors;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::sync::mpsc;

use super::sockets::{Kind, ListeningSocket, SocketKey, Sockets};

/// The socket in the data directory.
const SOCKET_FILE: &str = "handover";
const GREETING: &str = "whered 1 take over";
const END: &str = "end";
const WANTS_DATA: &str = "data";
const DATA_GIVEN: &str = "data is yours";
const SERVING: &str = "serving";
/// Behind `SERVING`: the successor goes on with connections. Older programs do not say it.
const CONNECTIONS: &str = "connections";
/// Stands before for whom a connection asks.
const CONNECTION: &str = "connection";

/// How long the other side may take for a word that needs no work.
const WORD_TIME: Duration = Duration::from_secs(10);
/// How long the old process may take for its connections, a snapshot that is being made, and the
/// journal.
const GIVING_TIME: Duration = Duration::from_secs(120);
/// How long the old process waits for `CONNECTIONS`, which comes behind `SERVING` at once.
const CONNECTIONS_TIME: Duration = Duration::from_secs(1);
/// How often somebody who waits looks around.
const LOOK: Duration = Duration::from_millis(100);

/// What a process hands over beside its data directory.
#[derive(Debug, Default)]
pub(crate) struct HandoverState {
    pub(crate) sockets: Sockets,
    /// What DNS cookies are made with, so that clients' cookies stay good.
    pub(crate) cookie_secret: Option<[u8; 16]>,
}

/// For whom a connection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Nothing was read from it yet: a balancer's header may be to come.
    Unknown,
    /// For this address.
    For(IpAddr),
}

impl Speaks {
    /// As messages between processes say it. Newer programs must understand this, too.
    pub(crate) fn from_text(text: &str) -> Option<Speaks> {
        match text {
            "new" => Some(Speaks::Unknown),
            address => address.parse().ok().map(Speaks::For),
        }
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speaks::Unknown => f.write_str("new"),
            Speaks::For(address) => address.fmt(f),
        }
    }
}

/// The listening socket, and whether nobody wants to listen any more.
struct Listener {
    socket: Socket,
    is_over: AtomicBool,
}

/// Listens for a successor.
pub(crate) struct SuccessorListener {
    listener: Arc<Listener>,
    path: PathBuf,
    thread: JoinHandle<HandoverState>,
}

impl SuccessorListener {
    /// Opens the socket in the data directory, which this process holds.
    ///
    /// # Errors
    /// The system's: a path that is too long for a socket, for one.
    pub(crate) fn start(
        data_dir: &Path,
        handed: HandoverState,
        successors: mpsc::UnboundedSender<Successor>,
    ) -> io::Result<SuccessorListener> {
        let path = data_dir.join(SOCKET_FILE);
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        // Nobody gets in before the permissions are what they should be: Linux takes them from the
        // unbound socket.
        let file = File::from(OwnedFd::from(socket));
        file.set_permissions(Permissions::from_mode(0o600))?;
        let socket = Socket::from(OwnedFd::from(file));
        let address = SockAddr::unix(&path)?;
        // Who holds the directory is alone in it: what lies there is of a process that is gone.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        socket.bind(&address)?;
        socket.listen(4)?;
        let listener = Arc::new(Listener { socket, is_over: AtomicBool::new(false) });
        let own = Arc::clone(&listener);
        let thread = Builder::new()
            .name("whered-handover".to_owned())
            .spawn(move || wait(&own, handed, &successors))?;
        Ok(SuccessorListener { listener, path, thread })
    }

    /// Ends the thread and closes its copies of the sockets, which are given back.
    pub(crate) fn stop(self) -> HandoverState {
        // A successor has its own socket at the path only after this one's directory is given up.
        // When it cannot be removed, the next process will.
        let _ = fs::remove_file(&self.path);
        self.listener.is_over.store(true, Ordering::SeqCst);
        // `accept` gives an error then, and the thread sees that it is over.
        let _ = self.listener.socket.shutdown(Shutdown::Both);
        self.thread.join().unwrap_or_else(|_| {
            tracing::error!("the thread that waits for a successor has panicked");
            HandoverState::default()
        })
    }
}

/// Takes one successor after the other until one wants the data, or the listener is shut down.
fn wait(
    listener: &Listener,
    handed: HandoverState,
    successors: &mpsc::UnboundedSender<Successor>,
) -> HandoverState {
    while !listener.is_over.load(Ordering::SeqCst) {
        let socket = match listener.socket.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::debug!("a successor could not be accepted: {error}");
                std::thread::park_timeout(LOOK);
                continue;
            }
        };
        match talk(listener, &socket, &handed) {
            Ok(true) => {
                // Without anybody who waits for it the server is being stopped.
                let _ = successors.send(Successor { socket });
                return handed;
            }
            Ok(false) => tracing::warn!("a successor has gone before it took over"),
            Err(error) => tracing::warn!("a successor was not understood: {error}"),
        }
    }
    handed
}

/// Gives the sockets; whether the other side then wants the data.
fn talk(listener: &Listener, socket: &Socket, handed: &HandoverState) -> io::Result<bool> {
    socket.set_read_timeout(Some(WORD_TIME))?;
    socket.set_write_timeout(Some(WORD_TIME))?;
    match descriptors::receive(socket)? {
        Some((text, _)) if text == GREETING => {}
        Some(_) => return Err(io::Error::other("it speaks another language")),
        None => return Ok(false),
    }
    for ListeningSocket { key, socket: listening } in handed.sockets.iter() {
        let SocketKey { kind, number, listen } = key;
        let text = format!("socket {} {number} {listen}", kind.name());
        descriptors::send(socket, &text, Some(listening.as_fd()))?;
    }
    if let Some(secret) = handed.cookie_secret {
        let text = format!("cookie-secret {:032x}", u128::from_be_bytes(secret));
        descriptors::send(socket, &text, None)?;
    }
    descriptors::send(socket, END, None)?;
    // It reads its files now, which takes as long as they are large. The listener's end is seen
    // too.
    socket.set_read_timeout(Some(LOOK))?;
    loop {
        match descriptors::receive(socket) {
            Ok(word) => return Ok(word.is_some_and(|(text, _)| text == WANTS_DATA)),
            Err(error) if !is_pause(&error) => return Err(error),
            Err(_) if listener.is_over.load(Ordering::SeqCst) => return Ok(false),
            Err(_) => {}
        }
    }
}

/// The process that takes over, as the old one sees it.
#[derive(Debug)]
pub struct Successor {
    socket: Socket,
}

impl Successor {
    /// Tells it that the data directory is free.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn give_data(&self) -> io::Result<()> {
        descriptors::send(&self.socket, DATA_GIVEN, None)
    }

    /// Waits until it serves; false: it is gone, or `give_up` said so.
    pub(crate) fn serves(&self, mut give_up: impl FnMut() -> bool) -> bool {
        // The time is set already; without it the loop would wait longer, which is all.
        let _ = self.socket.set_read_timeout(Some(LOOK));
        loop {
            match descriptors::receive(&self.socket) {
                Ok(word) => return word.is_some_and(|(text, _)| text == SERVING),
                Err(error) if is_pause(&error) && !give_up() => {}
                Err(_) => return false,
            }
        }
    }
}

impl Successor {
    /// Whether it goes on with connections; asked when it serves.
    pub(crate) fn takes_connections(&self) -> bool {
        let deadline = Instant::now() + CONNECTIONS_TIME;
        loop {
            match descriptors::receive(&self.socket) {
                Ok(word) => return word.is_some_and(|(text, _)| text == CONNECTIONS),
                Err(error) if is_pause(&error) && Instant::now() < deadline => {}
                Err(_) => return false,
            }
        }
    }

    /// Gives it a connection.
    ///
    /// # Errors
    /// It is gone, or does not take it within [`WORD_TIME`].
    pub(crate) fn give_connection(
        &self,
        connection: BorrowedFd<'_>,
        speaks: Speaks,
    ) -> io::Result<()> {
        descriptors::send(&self.socket, &format!("{CONNECTION} {speaks}"), Some(connection))
    }
}

/// The process whose place is taken, as the new one sees it.
#[derive(Debug)]
pub(crate) struct Predecessor {
    socket: Socket,
}

impl Predecessor {
    /// Meets the process that serves from a data directory and takes copies of its sockets; `None`
    /// when there is none.
    ///
    /// # Errors
    /// One line: there is one, but it does not hand over.
    pub(crate) fn meet(data_dir: &Path) -> io::Result<Option<(Predecessor, HandoverState)>> {
        let path = data_dir.join(SOCKET_FILE);
        let cannot = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("cannot take over by {}: {error}", path.display()))
        };
        let socket =
            Socket::new(Domain::UNIX, Type::SEQPACKET, None).map_err(|error| cannot(&error))?;
        let address = SockAddr::unix(&path).map_err(|error| cannot(&error))?;
        match socket.connect(&address) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(cannot(&error)),
        }
        let handed = take_sockets(&socket).map_err(|error| cannot(&error))?;
        Ok(Some((Predecessor { socket }, handed)))
    }

    /// Asks for the data directory and waits until it is free. A process that goes meanwhile has
    /// left it.
    ///
    /// # Errors
    /// It did not come to its end.
    pub(crate) fn take_data(&self) -> Result<(), String> {
        let deadline = Instant::now() + GIVING_TIME;
        let asked = descriptors::send(&self.socket, WANTS_DATA, None)
            .and_then(|()| self.socket.set_read_timeout(Some(LOOK)));
        if asked.is_err() {
            return Ok(());
        }
        loop {
            match descriptors::receive(&self.socket) {
                Ok(Some((text, _))) if text == DATA_GIVEN => return Ok(()),
                Ok(Some((text, _))) => return Err(format!("the old process says '{text}'")),
                Ok(None) => {
                    // It ends: its lock goes a moment after its sockets.
                    std::thread::park_timeout(LOOK);
                    return Ok(());
                }
                Err(error) if is_pause(&error) && Instant::now() < deadline => {}
                Err(error) if is_pause(&error) => {
                    let seconds = GIVING_TIME.as_secs();
                    return Err(format!(
                        "the old process did not give its data up within {seconds} seconds"
                    ));
                }
                // It has ended without a word.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Tells it to go.
    pub(crate) fn dismiss(&self) {
        // When it is gone already, all the better.
        let _ = descriptors::send(&self.socket, SERVING, None);
    }

    /// Takes its connections until it is gone, after [`Predecessor::dismiss`].
    pub(crate) fn take_connections(&self, mut take: impl FnMut(OwnedFd, Speaks)) {
        let deadline = Instant::now() + GIVING_TIME;
        if descriptors::send(&self.socket, CONNECTIONS, None).is_err() {
            return;
        }
        loop {
            match descriptors::receive(&self.socket) {
                Ok(Some((text, Some(connection)))) => {
                    let speaks = text.strip_prefix(CONNECTION).map(str::trim_start);
                    if let Some(speaks) = speaks.and_then(Speaks::from_text) {
                        take(connection, speaks);
                    }
                }
                Ok(Some(_)) => {}
                Err(error) if is_pause(&error) && Instant::now() < deadline => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

fn take_sockets(socket: &Socket) -> io::Result<HandoverState> {
    socket.set_read_timeout(Some(WORD_TIME))?;
    descriptors::send(socket, GREETING, None)?;
    let mut handed = HandoverState::default();
    loop {
        let word = descriptors::receive(socket).map_err(|error| match is_pause(&error) {
            true => io::Error::other("no answer; is another process taking over?"),
            false => error,
        })?;
        let Some((text, descriptor)) = word else {
            return Err(io::Error::other("the old process is gone"));
        };
        match (text.split_once(' '), descriptor) {
            (None, None) if text == END => return Ok(handed),
            (Some(("socket", place)), Some(socket)) => {
                // A kind that is not known is of a newer program; its descriptor is closed here.
                if let Some(key) = read_key(place) {
                    handed.sockets.add(ListeningSocket { key, socket });
                }
            }
            (Some(("cookie-secret", digits)), None) => {
                let secret = u128::from_str_radix(digits, 16).ok();
                handed.cookie_secret = secret.map(u128::to_be_bytes);
            }
            _ => {}
        }
    }
}

fn read_key(text: &str) -> Option<SocketKey> {
    let (kind, rest) = text.split_once(' ')?;
    let (number, listen) = rest.split_once(' ')?;
    let (kind, number) = (Kind::from_name(kind)?, number.parse().ok()?);
    Some(SocketKey { kind, number, listen: listen.to_owned() })
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
