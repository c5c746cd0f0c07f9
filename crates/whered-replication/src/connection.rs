//! A connection to a primary: bytes with time limits, lines, and requests that one line answers.
//!
//! For: the handshake, and the buffer that dump and stream are read from. Not for: their meaning.
//!
//! ```text
//! socket (TCP, TLS, Unix) ─fill─> buffer: │ read │ start .. end │ room │ ─> lines, dump, commands
//! ```
//!
//! Invariants: a read ends after [`Patience::silence`] at the latest, or when somebody calls
//! [`Closer::close`] from another thread; a line has at most [`LINE_BYTES_MAX`]; the buffer grows
//! by what has come, never by what is claimed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::address::{Address, Endpoint};
use crate::error::{LinkError, one_line};
use crate::tls::ClientTls;

/// The longest line of a primary.
const LINE_BYTES_MAX: usize = 4096;
/// How much is read at once.
const READ_BYTES: usize = 128 << 10;
/// A buffer that a long command has left is given back above this.
const KEPT_BYTES: usize = 1 << 20;

/// How long a primary may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Until it has accepted the connection.
    pub opening: Duration,
    /// Between two signs of life.
    pub silence: Duration,
    /// Until its dump begins, while it says every second that it is preparing it.
    pub preparing: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience { opening: seconds(10), silence: seconds(120), preparing: seconds(3600) }
    }
}

/// An open connection.
pub struct Connection {
    name: String,
    socket: Socket,
    patience: Patience,
    buffer: Vec<u8>,
    /// What has come and was not taken yet is here of the buffer.
    start: usize,
    end: usize,
}

enum Socket {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

/// Ends a connection from another thread: the one that reads there gets an end at once.
pub struct Closer(Raw);

enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Closer {
    /// Ends it.
    pub fn close(&self) {
        // One that is closed already stays so.
        let _ = match &self.0 {
            Raw::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Raw::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Nobody there, certificates that are wrong, a wrong user or password, something that is no
    /// Redis.
    pub fn open(address: &Address, patience: Patience) -> Result<Connection, LinkError> {
        let name = address.endpoint.to_string();
        let socket =
            Socket::open(address, patience.opening).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => {
                    LinkError::new(&name, "does not accept a connection in time")
                }
                _ => LinkError::of_socket(&name, &error),
            })?;
        let mut connection =
            Connection { name, socket, patience, buffer: Vec::new(), start: 0, end: 0 };
        let written = connection.socket.set_write_timeout(patience.silence);
        written.map_err(|error| connection.fault(&error))?;
        connection.log_in(address)?;
        Ok(connection)
    }

    fn log_in(&mut self, address: &Address) -> Result<(), LinkError> {
        let credentials = &address.credentials;
        let Some(password) = &credentials.password else {
            return Ok(());
        };
        let reply = match &credentials.user {
            Some(user) => self.ask(&["AUTH", user, password])?,
            None => self.ask(&["AUTH", password])?,
        };
        match reply.starts_with('-') && !credentials.is_optional {
            true => Err(self.refusal("refuses the user name or password", &reply)),
            false => Ok(()),
        }
    }

    /// Host and port, or the socket's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long the server may take.
    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// What ends the connection from another thread.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn closer(&self) -> io::Result<Closer> {
        Ok(Closer(match &self.socket {
            Socket::Tcp(socket) => Raw::Tcp(socket.try_clone()?),
            Socket::Tls(stream) => Raw::Tcp(stream.get_ref().try_clone()?),
            Socket::Unix(socket) => Raw::Unix(socket.try_clone()?),
        }))
    }

    /// Sends words, and takes the line that answers.
    ///
    /// # Errors
    /// The connection ends, or the answer is no line of a Redis. An error reply is no error here.
    pub fn ask(&mut self, words: &[&str]) -> Result<String, LinkError> {
        self.ask_bytes(words.iter().map(|word| word.as_bytes()))
    }

    /// As [`Connection::ask`], for words that may be no text.
    pub(crate) fn ask_bytes<'w>(
        &mut self,
        words: impl Iterator<Item = &'w [u8]>,
    ) -> Result<String, LinkError> {
        self.send_bytes(words)?;
        let line = self.line()?;
        match line.starts_with(['+', '-', ':']) {
            true => Ok(line),
            false => Err(LinkError::new(
                &self.name,
                "does not answer as a Redis does; allowed: the RESP port of a Redis or Valkey",
            )),
        }
    }

    /// Sends words.
    ///
    /// # Errors
    /// The connection ends, or nobody reads.
    pub fn send(&mut self, words: &[&str]) -> Result<(), LinkError> {
        self.send_bytes(words.iter().map(|word| word.as_bytes()))
    }

    /// As [`Connection::send`], for words that may be no text.
    pub(crate) fn send_bytes<'w>(
        &mut self,
        words: impl Iterator<Item = &'w [u8]>,
    ) -> Result<(), LinkError> {
        let mut bulks = Vec::new();
        let mut count = 0;
        for word in words {
            bulks.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bulks.extend_from_slice(word);
            bulks.extend_from_slice(b"\r\n");
            count += 1;
        }
        let mut request = format!("*{count}\r\n").into_bytes();
        request.append(&mut bulks);
        let sent = self.socket.write_all(&request).and_then(|()| self.socket.flush());
        sent.map_err(|error| self.fault(&error))
    }

    /// The next line that is not empty, without its end.
    ///
    /// # Errors
    /// The connection ends, or the line does not.
    pub(crate) fn line(&mut self) -> Result<String, LinkError> {
        let begun = Instant::now();
        let mut searched = 0;
        loop {
            let waiting = self.waiting();
            let Some(end) = waiting[searched..].iter().position(|byte| *byte == b'\n') else {
                searched = waiting.len();
                if searched > LINE_BYTES_MAX || begun.elapsed() > self.patience.preparing {
                    return Err(LinkError::new(&self.name, "sends a line that does not end"));
                }
                self.fill_patiently()?;
                continue;
            };
            let line = String::from_utf8_lossy(&waiting[..searched + end]).into_owned();
            self.take(searched + end + 1);
            searched = 0;
            let line = line.trim_matches(|letter: char| letter.is_control());
            if !line.is_empty() {
                return Ok(line.to_owned());
            }
            if begun.elapsed() > self.patience.preparing {
                let seconds = self.patience.preparing.as_secs();
                let what = format!("has sent nothing but keep-alives for {seconds} s");
                return Err(LinkError::new(&self.name, what));
            }
        }
    }

    /// What has come and was not taken yet.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes bytes off the beginning of what is waiting.
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        }
    }

    /// Takes `count` bytes out of what is waiting, from a place on.
    pub(crate) fn cut(&mut self, place: usize, count: usize) {
        let from = self.start + place;
        self.buffer.copy_within(from + count..self.end, from);
        self.end -= count;
    }

    /// Puts bytes in front of what is waiting.
    pub(crate) fn give_back(&mut self, bytes: &[u8]) {
        let waiting = [bytes, self.waiting()].concat();
        (self.start, self.end) = (0, waiting.len());
        self.buffer = waiting;
    }

    /// Reads directly, without the buffer; only what was waiting comes from there.
    pub(crate) fn read_patiently(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let here = self.waiting().len().min(into.len());
        if here > 0 {
            into[..here].copy_from_slice(&self.waiting()[..here]);
            self.take(here);
            return Ok(here);
        }
        self.socket.set_read_timeout(self.patience.silence)?;
        self.socket.read(into)
    }

    /// Waits for more bytes, up to [`Patience::silence`].
    pub(crate) fn fill_patiently(&mut self) -> Result<(), LinkError> {
        match self.fill(self.patience.silence)? {
            true => Ok(()),
            false => Err(LinkError::new(&self.name, "does not answer in time")),
        }
    }

    /// Waits for more bytes, so long at most. Gives whether some have come.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn fill(&mut self, longest: Duration) -> Result<bool, LinkError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.resize(self.end + READ_BYTES, 0);
        }
        // Zero would mean for ever.
        let longest = longest.max(Duration::from_millis(1));
        self.socket.set_read_timeout(longest).map_err(|error| self.fault(&error))?;
        loop {
            match self.socket.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(LinkError::new(&self.name, "closes the connection")),
                Ok(read) => {
                    self.end += read;
                    return Ok(true);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(false),
                    _ => return Err(self.fault(&error)),
                },
            }
        }
    }

    /// An error of the socket, with the primary's name.
    pub(crate) fn fault(&self, error: &io::Error) -> LinkError {
        LinkError::of_socket(&self.name, error)
    }

    /// What the primary has answered instead.
    pub(crate) fn refusal(&self, what: &str, reply: &str) -> LinkError {
        let words = one_line(reply.trim_start_matches(['-', '+']), 200);
        let allowed = match reply.starts_with("-NOPERM") {
            true => "; allowed: a user with +psync +replconf +ping",
            false => "",
        };
        LinkError::refusal(&self.name, format!("{what} ({words}){allowed}"))
    }
}

impl Socket {
    fn open(address: &Address, opening: Duration) -> io::Result<Socket> {
        match &address.endpoint {
            Endpoint::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
            Endpoint::Tcp(host, port) => {
                let socket = tcp(host, *port, opening)?;
                match &address.tls {
                    None => Ok(Socket::Tcp(socket)),
                    Some(tls) => Ok(Socket::Tls(Box::new(over_tls(host, socket, tls)?))),
                }
            }
        }
    }

    fn set_read_timeout(&self, longest: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(Some(longest)),
            Socket::Tls(stream) => stream.get_ref().set_read_timeout(Some(longest)),
            Socket::Unix(socket) => socket.set_read_timeout(Some(longest)),
        }
    }

    fn set_write_timeout(&self, longest: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_write_timeout(Some(longest)),
            Socket::Tls(stream) => stream.get_ref().set_write_timeout(Some(longest)),
            Socket::Unix(socket) => socket.set_write_timeout(Some(longest)),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(into),
            Socket::Tls(stream) => stream.read(into),
            Socket::Unix(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(from),
            Socket::Tls(stream) => stream.write(from),
            Socket::Unix(socket) => socket.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.flush(),
            Socket::Tls(stream) => stream.flush(),
            Socket::Unix(socket) => socket.flush(),
        }
    }
}

/// The first of a name's addresses where somebody listens.
fn tcp(host: &str, port: u16, opening: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, opening) {
            Ok(socket) => {
                socket.set_read_timeout(Some(opening))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn over_tls(
    host: &str,
    socket: TcpStream,
    tls: &ClientTls,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let config = tls.configure().map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(session, socket))
}
