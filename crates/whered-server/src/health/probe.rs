//! One probe: a check asked once, within its time.
//!
//! Not for: when it is asked (`task`), what many answers mean (`hysteresis`).

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::check::{Check, HttpTarget, SiteChecks, Target};
use super::tls::{Stream, TlsStream, Trust};
use super::{exec, http};

/// A check that is ready to be asked.
#[derive(Clone)]
pub(super) struct PreparedCheck {
    pub(super) check: Check,
    pub(super) pool: Arc<str>,
    pub(super) site: Arc<str>,
    /// Whom an HTTPS check trusts.
    tls: Option<Arc<ClientConfig>>,
}

/// Reads what the checks of one site need.
///
/// # Errors
/// One line with the site and the file that cannot be read.
pub(super) fn prepare(site: &SiteChecks, trust: &mut Trust) -> io::Result<Vec<PreparedCheck>> {
    let (pool, name): (Arc<str>, Arc<str>) = (site.pool.as_str().into(), site.site.as_str().into());
    let mut prepare = |check: &Check| {
        let tls = match &check.target {
            Target::Http(http) if http.is_https => Some(trust.of(http.ca.as_deref())?),
            _ => None,
        };
        Ok(PreparedCheck {
            check: check.clone(),
            pool: Arc::clone(&pool),
            site: Arc::clone(&name),
            tls,
        })
    };
    site.checks.iter().map(&mut prepare).collect::<io::Result<_>>().map_err(|error| {
        let text = format!("the check of site '{name}' in pool '{pool}': {error}");
        io::Error::new(error.kind(), text)
    })
}

/// What probes share.
pub(super) struct Limits {
    /// How many connections are open at the same time.
    pub(super) connections: Semaphore,
    /// How many commands run at the same time.
    pub(super) commands: Semaphore,
}

/// Why a probe has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// Nothing came in time.
    Overdue(String),
    /// The answer was no or a wrong one.
    Wrong(String),
}

impl Failure {
    pub(super) fn reason(&self) -> &str {
        let (Failure::Overdue(reason) | Failure::Wrong(reason)) = self;
        reason
    }
}

impl PreparedCheck {
    /// Asks once. The time begins when it is this probe's turn.
    pub(super) async fn ask(&self) -> Result<(), Failure> {
        let timeout = self.check.timeout;
        let asked = async {
            match &self.check.target {
                Target::Tcp { host, port } => connect(host, *port).await.map(drop),
                Target::Http(target) => self.fetch(target).await,
                Target::Exec { program, arguments } => {
                    exec::run(program, arguments, (&self.pool, &self.site)).await
                }
            }
        };
        match tokio::time::timeout(timeout, asked).await {
            Ok(answered) => answered.map_err(Failure::Wrong),
            Err(_) => {
                Err(Failure::Overdue(format!("no answer within {} s", timeout.as_secs_f64())))
            }
        }
    }

    async fn fetch(&self, target: &HttpTarget) -> Result<(), String> {
        let socket = connect(&target.host, target.port).await?;
        let mut stream = match &self.tls {
            None => Stream::Plain(socket),
            Some(config) => {
                let name = target.name.as_ref().unwrap_or(&target.host);
                let opened = TlsStream::open(socket, Arc::clone(config), name).await;
                Stream::Tls(Box::new(opened.map_err(|error| format!("TLS: {error}"))?))
            }
        };
        http::ask(&mut stream, target).await
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let connected = TcpStream::connect((host, port)).await;
    connected.map_err(|error| format!("no connection: {error}"))
}
