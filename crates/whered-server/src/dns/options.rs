//! How the DNS listener is opened: `[dns]` of the configuration.
//!
//! Not for: zones and pools, which the engine serves.

use std::net::{Ipv4Addr, SocketAddr};

use whered_dns::RateLimit;
use whered_engine::ip::Prefix;

use super::dnstap::DnstapOptions;
use super::query_log::QueryLogOptions;
use super::udp::Receiving;
use crate::runtime::core_count;

/// The port where it listens by default.
const PORT: u16 = 5300;
/// What every path carries unfragmented (DNS flag day 2020).
const UDP_SIZE: u16 = 1232;
/// Of one network; some hundredths of a processor's time.
const SIGNATURE_LIMIT: u16 = 1000;

/// How DNS clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsOptions {
    /// Where to listen, by UDP and TCP; empty: not at all.
    pub listen: Vec<SocketAddr>,
    /// The database that clients' places come from; `None`: the first one.
    pub database: Option<String>,
    /// The largest answer by UDP, in bytes.
    pub udp_size: u16,
    /// UDP threads, each with a socket of every address; `None`: one a core.
    pub threads: Option<usize>,
    /// How UDP threads take datagrams.
    pub receiving: Receiving,
    /// TCP connections at the same time.
    pub max_tcp_connections: usize,
    /// Whether clients get cookies (RFC 7873).
    pub cookies: bool,
    /// What cookies are made with; `None`: something random at each start.
    pub cookie_secret: Option<[u8; 16]>,
    /// Alike answers a second to one network; 0: without limit. `None`: 200 where others than this
    /// machine can ask.
    pub rate_limit: Option<u16>,
    /// Every how manieth answer above that is sent truncated.
    pub rate_limit_slip: u16,
    /// Signatures a second that are made for questions of one network; 0: without limit.
    pub signature_limit: u16,
    /// Who is asked for the addresses of aliases; empty: the system's resolvers.
    pub resolvers: Vec<SocketAddr>,
    /// What `id.server` and NSID are answered with; empty: nothing.
    pub server_id: String,
    /// What `version.bind` is answered with; empty: nothing.
    pub version: String,
    /// Balancers, which tell for whom they ask (PROXY protocol 2).
    pub proxy_from: Vec<Prefix>,
    /// Where queries are logged.
    pub query_log: Option<QueryLogOptions>,
    /// Who listens by dnstap.
    pub dnstap: Option<DnstapOptions>,
}

impl DnsOptions {
    /// How many UDP threads there are.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(core_count)
    }

    /// How many answers a network gets, if that is limited.
    pub(crate) fn rate_limit(&self) -> Option<RateLimit> {
        let is_open = self.listen.iter().any(|address| !address.ip().is_loopback());
        let usual = RateLimit::default();
        let otherwise = if is_open { usual.answers_per_second } else { 0 };
        let answers_per_second = self.rate_limit.unwrap_or(otherwise);
        let slip = self.rate_limit_slip;
        (answers_per_second > 0).then_some(RateLimit {
            answers_per_second,
            errors_per_second: answers_per_second,
            slip,
            ..usual
        })
    }
}

impl Default for DnsOptions {
    fn default() -> Self {
        DnsOptions {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))],
            database: None,
            udp_size: UDP_SIZE,
            threads: None,
            receiving: Receiving::default(),
            max_tcp_connections: 1024,
            cookies: true,
            cookie_secret: None,
            rate_limit: None,
            rate_limit_slip: RateLimit::default().slip,
            signature_limit: SIGNATURE_LIMIT,
            resolvers: Vec::new(),
            server_id: String::new(),
            version: String::new(),
            proxy_from: Vec::new(),
            query_log: None,
            dnstap: None,
        }
    }
}
