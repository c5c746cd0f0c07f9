//! How the HTTP listener is opened: `[http]` of the configuration.
//!
//! Not for: the tokens of feeds (`feeds`), which stand in their own sections.

use std::net::{Ipv4Addr, SocketAddr};

use crate::tls::TlsOptions;

/// The port where it listens by default.
const PORT: u16 = 8080;

/// How browsers, scripts and Prometheus are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Where to listen; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for TLS, and with which certificates.
    pub tls: Option<TlsOptions>,
    /// The bearer token that requests must carry.
    pub token: Option<String>,
    /// Names beside loopback names and the listener's address that requests without a token may be
    /// sent to.
    pub hosts: Vec<String>,
    /// Origins of web pages beside the listener's own whose requests need no token.
    pub origins: Vec<String>,
    /// Connections at the same time.
    pub max_connections: usize,
    /// Whether the page for browsers is served.
    pub console: bool,
}

impl HttpOptions {
    /// Where to listen for TLS.
    pub fn tls_listen(&self) -> &[SocketAddr] {
        self.tls.as_ref().map_or(&[], |tls| &tls.listen)
    }

    /// Whether there is any address to listen on.
    pub fn is_open(&self) -> bool {
        !self.listen.is_empty() || !self.tls_listen().is_empty()
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))],
            tls: None,
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_connections: 1024,
            console: true,
        }
    }
}
