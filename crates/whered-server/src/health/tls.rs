//! The client's side of TLS for one short connection: bytes of a socket to plain bytes.
//!
//! Not for: the RESP listener (`resp::stream`), whose loop is another one.
//!
//! ```text
//! TcpStream ──fill──> ClientConnection ──reader──> plain bytes
//! TcpStream <─flush── ClientConnection <─writer─── plain bytes
//! ```
//! Certificates are always checked: against the file that a check names, or whom the system trusts.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::certificates::read_certificates;

/// Where systems keep the certificates that they trust.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Clients' configurations by the file that says whom they trust.
#[derive(Default)]
pub(super) struct Trust {
    by_file: BTreeMap<PathBuf, Arc<ClientConfig>>,
}

impl Trust {
    /// The configuration for a file, or for the system's. Reads each file once.
    ///
    /// # Errors
    /// One line with the file that cannot be read or has no certificate.
    pub(super) fn of(&mut self, ca: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
        let system = || SYSTEM_FILES.iter().map(Path::new).find(|file| file.exists());
        let Some(file) = ca.or_else(system) else {
            let text = format!(
                "HTTPS checks need certificates of authorities; there is none of {}, and 'ca' \
                 names none",
                SYSTEM_FILES.join(", ")
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        if let Some(config) = self.by_file.get(file) {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(read_certificates(file)?);
        if taken == 0 {
            let text = format!("TLS: {}: no certificate of an authority", file.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        self.by_file.insert(file.to_owned(), Arc::clone(&config));
        Ok(config)
    }
}

/// A connection, plain or not.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Sends all bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes).await,
            Stream::Tls(stream) => {
                stream.session.writer().write_all(bytes)?;
                stream.flush().await
            }
        }
    }

    /// Appends what comes next; gives how many bytes, 0 at the end.
    pub(super) async fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let count = match self {
            Stream::Plain(stream) => stream.read(&mut buffer).await?,
            Stream::Tls(stream) => stream.read(&mut buffer).await?,
        };
        into.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

/// A TLS session over a socket.
pub(super) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    /// Shakes hands; the certificate must name `name`.
    ///
    /// # Errors
    /// The socket's, and what is wrong with the certificate.
    pub(super) async fn open(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: &str,
    ) -> io::Result<TlsStream> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = TlsStream { socket, session };
        loop {
            stream.flush().await?;
            if !stream.session.is_handshaking() {
                return Ok(stream);
            }
            if !stream.fill().await? {
                return Err(io::Error::other("the connection was closed in the TLS handshake"));
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut bytes)?;
        }
        self.socket.write_all(&bytes).await
    }

    /// Takes what the socket has; gives whether there was anything before its end.
    async fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = self.socket.read(&mut buffer).await?;
        let mut bytes = &buffer[..count];
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            if let Err(error) = self.session.process_new_packets() {
                // The other side is told why; whether it listens does not matter.
                let _ = self.flush().await;
                return Err(io::Error::other(error));
            }
        }
        Ok(count > 0)
    }

    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flush().await?;
                    // Many servers close without saying so: their answer is judged as it is.
                    if !self.fill().await? {
                        return Ok(0);
                    }
                }
                read => return read,
            }
        }
    }
}
