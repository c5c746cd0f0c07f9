//! The dump of a running Redis or Valkey, as its replicas get it (PSYNC).
//!
//! For: reading one dump to its end. Not for: what is in it (`rdb`), and not for following
//! the server afterwards.
//!
//! ```text
//! AUTH ─> REPLCONF version, capa eof, rdb-only ─> PSYNC ? -1 ─> +FULLRESYNC id offset
//!   ─> newlines while the server prepares ─> $bytes, dump     or   $EOF:mark, dump, mark
//! ```
//!
//! A server that does not know an option of REPLCONF says so, which changes nothing. `version`
//! makes a Valkey send its own format, in which every hash can be written; `rdb-only` spares it
//! the changes that come meanwhile.
//!
//! Invariant: after [`Link::finish`] the dump was whole: as long as the server said, or up to its
//! mark. Every read ends after [`PATIENCE`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use redis::ConnectionAddr;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::ServerAddress;
use crate::error::ConnectError;

/// How long opening may take.
const OPENING: Duration = Duration::from_secs(10);
/// How long the server may say nothing. It sends a newline every second while it prepares.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest line of a server.
const LINE_BYTES_MAX: u64 = 4096;
/// The mark behind a dump whose length is not known.
const MARK_BYTES: usize = 40;
const ALLOWED: &str = "the RESP port of a Redis or Valkey";

trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// How the end of the dump is known.
enum End {
    /// This many bytes are left.
    After(u64),
    /// This follows it.
    Mark([u8; MARK_BYTES]),
}

/// A dump that comes in.
pub(super) struct Link {
    name: String,
    stream: BufReader<Box<dyn Socket>>,
    end: End,
}

impl Link {
    /// Connects and asks for the dump.
    ///
    /// # Errors
    ///
    /// Nobody there, a wrong password, a user without the right, a server that is loading or has
    /// lost its own primary, something that is no Redis.
    pub(super) fn open(address: &ServerAddress) -> Result<Link, ConnectError> {
        let info = address.connection_info()?;
        let name = info.addr().to_string();
        let fail = |error: io::Error| ConnectError::new(format!("{name}: {}", said(&error)));
        let socket = connect(address, info.addr()).map_err(fail)?;
        let stream = BufReader::with_capacity(64 << 10, socket);
        let mut link = Link { name: name.clone(), stream, end: End::After(0) };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let words = match settings.username() {
                Some(user) => vec!["AUTH", user, password],
                None => vec!["AUTH", password],
            };
            let reply = link.ask(&words)?;
            // A server without a password refuses one that was only in the environment.
            if reply.starts_with('-') && !address.has_default_password() {
                return Err(link.refusal("refuses the user name or password", &reply));
            }
        }
        for option in [["version", "9.1.0"], ["capa", "eof"], ["rdb-only", "1"]] {
            let reply = link.ask(&["REPLCONF", option[0], option[1]])?;
            if reply.starts_with("-NO") {
                return Err(link.refusal("refuses REPLCONF", &reply));
            }
        }
        let reply = link.ask(&["PSYNC", "?", "-1"])?;
        if !reply.starts_with("+FULLRESYNC") {
            return Err(link.refusal("gives no dump", &reply));
        }
        link.end = link.announced()?;
        Ok(link)
    }

    /// Host and port, or the socket's path.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes the dump has, if the server has said so.
    pub(super) fn stated_bytes(&self) -> Option<u64> {
        match self.end {
            End::After(bytes) => Some(bytes),
            End::Mark(_) => None,
        }
    }

    /// Makes sure that the dump has ended where the server says. `rest` was read beyond it.
    pub(super) fn finish(mut self, rest: &[u8]) -> io::Result<()> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        match self.end {
            End::After(0) if rest.is_empty() => Ok(()),
            End::After(_) => wrong("the dump is longer than its last key"),
            End::Mark(mark) => {
                let mut found = rest.to_vec();
                let left = MARK_BYTES.saturating_sub(found.len()) as u64;
                self.stream.by_ref().take(left).read_to_end(&mut found)?;
                match found == mark {
                    true => Ok(()),
                    false => wrong("the dump does not end with its mark"),
                }
            }
        }
    }

    fn refusal(&self, what: &str, reply: &str) -> ConnectError {
        let name = &self.name;
        let words: String = reply.trim_start_matches(['-', '+']).chars().take(200).collect();
        let allowed = match reply.starts_with("-NOPERM") {
            true => "; allowed: a user with +psync +replconf",
            false => "",
        };
        ConnectError::new(format!("{name}: {what} ({words}){allowed}"))
    }

    /// Sends words and takes the line that answers.
    fn ask(&mut self, words: &[&str]) -> Result<String, ConnectError> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
        let sent = self.stream.get_mut().write_all(&request);
        let flushed = sent.and_then(|()| self.stream.get_mut().flush());
        flushed.map_err(|error| ConnectError::new(format!("{}: {}", self.name, said(&error))))?;
        let line = self.line()?;
        match line.starts_with(['+', '-', ':']) {
            true => Ok(line),
            false => {
                let name = &self.name;
                let what = "does not answer as a Redis server does; allowed";
                Err(ConnectError::new(format!("{name}: {what}: {ALLOWED}")))
            }
        }
    }

    /// The next line that is not empty.
    fn line(&mut self) -> Result<String, ConnectError> {
        loop {
            let mut line = Vec::new();
            let read = self.stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let fail = |what: &str| ConnectError::new(format!("{}: {what}", self.name));
            read.map_err(|error| fail(said(&error).as_str()))?;
            if line.last() != Some(&b'\n') {
                return Err(fail("closes the connection"));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_matches(|letter: char| letter.is_control());
            if !text.is_empty() {
                return Ok(text.to_owned());
            }
        }
    }

    /// The line before the dump.
    fn announced(&mut self) -> Result<End, ConnectError> {
        let line = self.line()?;
        let mark = line.strip_prefix("$EOF:").and_then(|mark| mark.as_bytes().try_into().ok());
        let bytes = line.strip_prefix('$').and_then(|bytes| bytes.parse().ok());
        match (mark, bytes) {
            (Some(mark), _) => Ok(End::Mark(mark)),
            (None, Some(bytes)) => Ok(End::After(bytes)),
            (None, None) => Err(self.refusal("sends no dump", &line)),
        }
    }
}

impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let End::After(left) = &mut self.end else {
            return self.stream.read(into);
        };
        let here = into.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut into[..here])?;
        *left -= read as u64;
        Ok(read)
    }
}

/// An error of a socket in words.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "does not answer in time".to_owned(),
        _ => error.to_string(),
    }
}

fn connect(address: &ServerAddress, to: &ConnectionAddr) -> io::Result<Box<dyn Socket>> {
    let other = || io::Error::from(io::ErrorKind::Unsupported);
    Ok(match to {
        ConnectionAddr::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            Box::new(socket)
        }
        ConnectionAddr::Tcp(host, port) => Box::new(tcp(host, *port)?),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let config = tls_config(address).map_err(io::Error::other)?;
            let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
            let name = name.map_err(io::Error::other)?;
            let session = ClientConnection::new(Arc::new(config), name);
            let session = session.map_err(io::Error::other)?;
            Box::new(StreamOwned::new(session, tcp(host, *port)?))
        }
        _ => return Err(other()),
    })
}

/// The first of a name's addresses where somebody listens.
fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, OPENING) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn tls_config(address: &ServerAddress) -> Result<ClientConfig, String> {
    let tls = address.tls();
    let mut roots = RootCertStore::empty();
    match &tls.authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| error.to_string())?;
                roots.add(certificate).map_err(|error| error.to_string())?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((chain, key)) = &tls.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
    builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
}
