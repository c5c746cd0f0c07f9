//! The DNS listener: UDP threads and one TCP thread in front of one pure function.
//!
//! Not for: what an answer says (`whered-dns`), which site is chosen (the engine).
//!
//! ```text
//! addresses ─┬─ a socket each ─ thread whered-dns-0 ─ batch of 32 ─┐
//!            ├─ a socket each ─ thread whered-dns-1 ─ ...          ├─> Answerer: one generation
//!            └─ listeners ───── thread whered-dns-tcp ─────────────┘    a batch
//!                                             UDP: whered_dns::answer_batch    TCP: whered_dns::answer
//! ```
//!
//! At the same time: every UDP thread has its own socket of each shared port, its own buffers and
//! its own counters. No thread waits for another one.

pub mod mmsg;
pub mod udp;

mod aliases;
mod answerer;
mod control;
mod counters;
mod dnstap;
mod ending;
mod options;
mod proxy;
mod query_log;
mod round_robin;
mod signatures;
mod tcp;
mod transfers;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use whered_engine::sync;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use whered_dns::CookieSecrets;
use whered_engine::Engine;

pub(crate) use self::aliases::{AliasThread, Aliases};
use self::answerer::{Answerer, AnswererContext};
pub(crate) use self::counters::{DURATION_UNITS, DnsCounters, Totals};
use self::dnstap::Tap;
pub use self::dnstap::{DnstapOptions, TappedMessages};
pub(crate) use self::ending::Give;
use self::ending::{ConnectionEnd, Succession};
use self::mmsg::{Batch, Datagram};
pub use self::options::DnsOptions;
use self::query_log::QueryLog;
pub use self::query_log::QueryLogOptions;
use self::signatures::SignatureBudget;
pub(crate) use self::tcp::AdoptedConnection;
pub use self::transfers::{
    CatalogContent, CatalogOptions, FollowedCatalog, MemberSettings, NamePattern, PoolsInTransfer,
    Recipient, Remote, TransferOptions, UpdatePolicy, ZoneTransfers,
};
pub(crate) use self::transfers::{
    MEMBERS_MAX, TRANSFER_SIZE_MAX, TransferThread, Transfers, zone_copy,
};
use self::udp::Receiving;
use crate::listen::{self as sockets, Kind, Sockets};
use crate::runtime::RuntimeThread;

/// More than connections are given to end.
const FINISH_TIME: Duration = Duration::from_secs(8);
/// One in so many batches of UDP is timed.
const MEASURED_BATCHES: usize = 64;

/// The running listener.
pub(crate) struct DnsListener {
    addresses: Vec<SocketAddr>,
    stop: StopOnDrop,
    udp_threads: Vec<JoinHandle<()>>,
    tcp_thread: RuntimeThread,
    /// The writers of the query log and of dnstap.
    writers: Vec<JoinHandle<()>>,
    counters: Arc<DnsCounters>,
    cookie_secret: Option<[u8; 16]>,
    succession: Succession,
    adopted: mpsc::UnboundedSender<AdoptedConnection>,
}

impl DnsListener {
    /// Starts answering at sockets that are bound, for UDP and TCP.
    ///
    /// # Errors
    /// The system has no thread or descriptor left; the query log cannot be written.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        transfers: &Arc<Transfers>,
        config: &DnsOptions,
        bound: &Sockets,
    ) -> io::Result<DnsListener> {
        let threads = config.thread_count();
        let listeners = sockets::listeners(bound, Kind::DnsTcp, &config.listen)?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let sockets = bound.of(Kind::DnsUdp, &config.listen)?;
        let sockets: Vec<Vec<UdpSocket>> = sockets::by_thread(sockets, threads);
        let budget = SignatureBudget::new(config.signature_limit);
        let counters = Arc::new(DnsCounters::new(&sockets, budget)?);
        let cookie_secret = cookie_secret(config)?;
        let (shared, writers) = shared(engine, transfers, config, cookie_secret, &counters)?;
        let tcp_answerer = Answerer::new(Arc::clone(&shared), counters.tcp_thread());
        let (tcp_shared, limit) = (Arc::clone(&shared), config.max_tcp_connections);
        let (succession, (adopted, adopting)) = (Succession::default(), mpsc::unbounded_channel());
        let of_tcp = succession.clone();
        let tcp_thread = RuntimeThread::start("whered-dns-tcp", 1, FINISH_TIME, move |stop| {
            let tcp = Tcp { answerer: tcp_answerer, shared: tcp_shared, limit };
            tcp.serve(listeners, adopting, ConnectionEnd::new(stop, of_tcp))
        })?;
        let stop = StopOnDrop(Arc::default());
        let udp_threads = Vec::new();
        let mut listener = DnsListener {
            addresses,
            stop,
            udp_threads,
            tcp_thread,
            writers,
            counters,
            cookie_secret,
            succession,
            adopted,
        };
        for (index, sockets) in sockets.into_iter().enumerate() {
            let stop = Arc::clone(&listener.stop.0);
            let answerer = Answerer::new(Arc::clone(&shared), listener.counters.udp_thread(index));
            let thread = Builder::new().name(format!("whered-dns-{index}"));
            let receiving = config.receiving;
            match thread.spawn(move || serve_udp(&sockets, receiving, &stop, answerer)) {
                Ok(thread) => listener.udp_threads.push(thread),
                Err(error) => {
                    listener.stop();
                    return Err(error);
                }
            }
        }
        Ok(listener)
    }

    /// Where it listens, by UDP and TCP alike.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What became of the questions so far.
    pub(crate) fn counters(&self) -> &Arc<DnsCounters> {
        &self.counters
    }

    /// What cookies are made with, if clients get any.
    pub(crate) fn cookie_secret(&self) -> Option<[u8; 16]> {
        self.cookie_secret
    }

    /// Where connections go that others have accepted.
    pub(crate) fn adopter(&self) -> mpsc::UnboundedSender<AdoptedConnection> {
        self.adopted.clone()
    }

    /// As [`DnsListener::stop`], while a successor takes new connections: it gets those that are
    /// there, too. What it does not take may ask until it is quiet, five seconds at the most.
    pub(crate) fn hand_over(self, give: Option<Give>) {
        self.succession.begin(give);
        self.stop();
    }

    /// Answers what was read, then closes.
    pub(crate) fn stop(self) {
        drop(self.stop);
        self.tcp_thread.stop();
        for thread in self.udp_threads {
            if thread.join().is_err() {
                tracing::error!("a DNS thread has panicked");
            }
        }
        // All that log are gone now, so that the writers end when they have written.
        for writer in self.writers {
            if writer.join().is_err() {
                tracing::error!("a thread that writes what DNS clients ask has panicked");
            }
        }
    }
}

/// What all threads answer with, and the writers of the query log and of dnstap.
fn shared(
    engine: &Arc<Engine>,
    transfers: &Arc<Transfers>,
    config: &DnsOptions,
    cookie_secret: Option<[u8; 16]>,
    counters: &DnsCounters,
) -> io::Result<(Arc<AnswererContext>, Vec<JoinHandle<()>>)> {
    let (mut log, mut tap, mut writers) = (None, None, Vec::new());
    if let Some(options) = &config.query_log {
        let (started, thread) = QueryLog::start(options, Arc::clone(&counters.unlogged))?;
        log = Some(started);
        writers.push(thread);
    }
    if let Some(options) = &config.dnstap {
        let names = (&*config.server_id, &*config.version);
        let (started, thread) = Tap::start(options, names, Arc::clone(&counters.dnstap))?;
        tap = Some(started);
        writers.push(thread);
    }
    let shared = AnswererContext {
        engine: Arc::clone(engine),
        transfers: Arc::clone(transfers),
        udp_size: config.udp_size,
        server_id: config.server_id.clone().into_bytes(),
        version: config.version.clone().into_bytes(),
        cookies: cookie_secret.map(CookieSecrets::new),
        rate_limit: config.rate_limit(),
        signatures: Arc::clone(&counters.signatures),
        proxies: config.proxy_from.clone(),
        log,
        tap,
        started: Instant::now(),
    };
    Ok((Arc::new(shared), writers))
}

/// What cookies are made with: what is configured, or something that nobody knows.
fn cookie_secret(config: &DnsOptions) -> io::Result<Option<[u8; 16]>> {
    if !config.cookies || config.cookie_secret.is_some() {
        return Ok(config.cookie_secret.filter(|_| config.cookies));
    }
    let mut secret = [0; 16];
    let filled = SystemRandom::new().fill(&mut secret);
    filled.map_err(|_| io::Error::other("no random numbers for DNS cookies"))?;
    Ok(Some(secret))
}

/// What the UDP threads look at. They end when the listener goes, stopped or just dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One UDP thread. A panic loses the batch that made it and no more.
fn serve_udp(
    sockets: &[UdpSocket],
    receiving: Receiving,
    stop: &AtomicBool,
    mut answerer: Answerer,
) {
    let counters = Arc::clone(answerer.counters());
    let mut batches = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        let served = catch_unwind(AssertUnwindSafe(|| {
            let answer = |datagrams: &[Datagram<'_>], batch: &mut Batch| {
                // The clock is read for a few batches only: it costs as much as an answer.
                let began = batches.is_multiple_of(MEASURED_BATCHES).then(Instant::now);
                batches = batches.wrapping_add(1);
                answerer.answer_datagrams(datagrams, batch);
                if let Some(began) = began {
                    counters.note_duration(began.elapsed(), datagrams.len());
                }
            };
            udp::serve(sockets, receiving, stop, answer, |count| counters.refused(count))
        }));
        match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!("a DNS thread gives up its sockets: {error}");
                return;
            }
            Err(_) => tracing::error!("a batch of DNS messages made an answer panic"),
        }
    }
}

/// What the connections of TCP are answered with.
struct Tcp {
    answerer: Answerer,
    shared: Arc<AnswererContext>,
    limit: usize,
}

impl Tcp {
    async fn serve(
        self,
        listeners: Vec<TcpListener>,
        adopted: mpsc::UnboundedReceiver<AdoptedConnection>,
        ending: ConnectionEnd,
    ) {
        // All connections are tasks of one thread, so that nobody waits for this lock.
        let answerer = Arc::new(Mutex::new(self.answerer));
        let answer = move |query: &[u8], source, is_ending, reply: &mut Vec<u8>| {
            let mut answerer = sync::lock(&answerer);
            let began = Instant::now();
            let messages = answerer.answer_message(query, source, is_ending, reply);
            answerer.counters().note_duration(began.elapsed(), 1);
            messages
        };
        let shared = self.shared;
        let is_proxy = move |peer| shared.is_proxy(peer);
        let limit = Arc::new(Semaphore::new(self.limit));
        let mut serving = JoinSet::new();
        for listener in listeners {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!("a DNS listener is lost: {error}");
                    continue;
                }
            };
            let (answer, is_proxy) = (answer.clone(), is_proxy.clone());
            let (limit, ending) = (Arc::clone(&limit), ending.clone());
            serving.spawn(tcp::serve(listener, answer, is_proxy, limit, ending));
        }
        serving.spawn(tcp::adopt(adopted, answer, is_proxy, limit, ending));
        while serving.join_next().await.is_some() {}
    }
}
