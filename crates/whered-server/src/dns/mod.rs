//! The DNS door: UDP threads and one TCP thread in front of one pure function.
//!
//! Not for: what an answer says (`whered-dns`), which site is chosen (the engine).
//!
//! ```text
//! addresses ─┬─ a socket each ─ thread whered-dns-0 ─ batch of 32 ─┐
//!            ├─ a socket each ─ thread whered-dns-1 ─ ...          ├─> Answerer: one generation a batch
//!            └─ listeners ───── thread whered-dns-tcp ─────────────┘        └─> whered_dns::answer
//! ```
//!
//! At the same time: every UDP thread has its own socket of each shared port, its own buffers and
//! its own counters. No thread waits for another one.

pub mod mmsg;
pub mod udp;

mod control;
mod counters;
mod tcp;
mod turns;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use whered_dns::{Context, Outcome, Transport};
use whered_engine::{Engine, Generation};

use self::counters::Counters;
pub(crate) use self::counters::{DnsCounters, Totals};
use self::mmsg::{Batch, Datagram};
use self::udp::Receiving;
use crate::config::DnsConfig;
use crate::runtime::{self, RuntimeThread};

/// How often a free port is looked for that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 32;

/// The running door.
pub(crate) struct DnsDoor {
    addresses: Vec<SocketAddr>,
    stop: StopOnDrop,
    udp_threads: Vec<JoinHandle<()>>,
    tcp_thread: RuntimeThread,
    counters: Arc<DnsCounters>,
}

impl DnsDoor {
    /// Binds every address for UDP and TCP and starts answering.
    ///
    /// # Errors
    /// An address cannot be bound; the text names it.
    pub(crate) fn start(engine: &Arc<Engine>, config: &DnsConfig) -> io::Result<DnsDoor> {
        let threads = config.threads.unwrap_or_else(runtime::core_count);
        let (mut addresses, mut listeners) = (Vec::new(), Vec::new());
        let mut sockets: Vec<Vec<UdpSocket>> = (0..threads).map(|_| Vec::new()).collect();
        for address in &config.listen {
            let bound = Bound::new(*address, threads)
                .map_err(|error| runtime::named("DNS", *address, &error))?;
            addresses.push(bound.listener.local_addr()?);
            listeners.push(bound.listener);
            sockets.iter_mut().zip(bound.sockets).for_each(|(own, socket)| own.push(socket));
        }
        let counters = Arc::new(DnsCounters::new(&sockets)?);
        let answerer =
            |counters| Answerer { engine: Arc::clone(engine), udp_size: config.udp_size, counters };
        let (tcp_answerer, limit) = (answerer(counters.tcp_thread()), config.max_tcp_connections);
        let tcp_thread = RuntimeThread::start("whered-dns-tcp", 1, move |stop| {
            serve_tcp(listeners, tcp_answerer, limit, stop)
        })?;
        let stop = StopOnDrop(Arc::default());
        let mut door = DnsDoor { addresses, stop, udp_threads: Vec::new(), tcp_thread, counters };
        for (index, sockets) in sockets.into_iter().enumerate() {
            let stop = Arc::clone(&door.stop.0);
            let answerer = answerer(door.counters.udp_thread(index));
            let thread = Builder::new().name(format!("whered-dns-{index}"));
            let receiving = config.receiving;
            match thread.spawn(move || serve_udp(&sockets, receiving, &stop, &answerer)) {
                Ok(thread) => door.udp_threads.push(thread),
                Err(error) => {
                    door.stop();
                    return Err(error);
                }
            }
        }
        Ok(door)
    }

    /// Where it listens, by UDP and TCP alike.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What became of the questions so far.
    pub(crate) fn counters(&self) -> &Arc<DnsCounters> {
        &self.counters
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
    }
}

/// What the UDP threads look at. They end when the door goes, stopped or just dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sockets of one address.
struct Bound {
    listener: TcpListener,
    sockets: Vec<UdpSocket>,
}

impl Bound {
    /// TCP comes first: unlike the shared UDP port it fails when another server is there.
    fn new(address: SocketAddr, threads: usize) -> io::Result<Bound> {
        let mut attempts = if address.port() == 0 { PORT_ATTEMPTS } else { 1 };
        loop {
            let listener = runtime::bind(address)?;
            let bound = listener.local_addr()?;
            attempts -= 1;
            match (0..threads).map(|_| udp::bind(bound)).collect() {
                Ok(sockets) => return Ok(Bound { listener, sockets }),
                // A free port of TCP that is taken for UDP: look for another one.
                Err(error) if attempts == 0 => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Answers messages of either transport.
struct Answerer {
    engine: Arc<Engine>,
    udp_size: u16,
    counters: Arc<Counters>,
}

impl Answerer {
    /// Answers a batch from one generation.
    fn answer_batch(&self, datagrams: &[Datagram<'_>], batch: &mut Batch) {
        let generation = self.engine.generation();
        for (index, datagram) in datagrams.iter().enumerate() {
            let reply = batch.answer_mut(index);
            self.answer(&generation, Transport::Udp, datagram.payload, datagram.source, reply);
        }
    }

    fn answer(
        &self,
        generation: &Generation,
        transport: Transport,
        query: &[u8],
        source: SocketAddr,
        reply: &mut Vec<u8>,
    ) {
        let context =
            Context { udp_size_max: self.udp_size, ..Context::new(transport, source.ip()) };
        let mut choose = |pool, client: &_| generation.steer(pool, client);
        match whered_dns::answer(generation.zones(), query, &context, &mut choose, reply) {
            Outcome::Answered { rcode, .. } => self.counters.answered(rcode.0),
            Outcome::Silent => self.counters.silent(),
        }
    }
}

/// One UDP thread. A panic loses the batch that made it and no more.
fn serve_udp(sockets: &[UdpSocket], receiving: Receiving, stop: &AtomicBool, answerer: &Answerer) {
    while !stop.load(Ordering::Relaxed) {
        let served = catch_unwind(AssertUnwindSafe(|| {
            let answer = |datagrams: &[Datagram<'_>], batch: &mut Batch| {
                answerer.answer_batch(datagrams, batch);
            };
            udp::serve(sockets, receiving, stop, answer, |count| {
                answerer.counters.refused(count);
            })
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

async fn serve_tcp(
    listeners: Vec<TcpListener>,
    answerer: Answerer,
    limit: usize,
    stop: watch::Receiver<bool>,
) {
    let answerer = Arc::new(answerer);
    let limit = Arc::new(Semaphore::new(limit));
    let mut serving = JoinSet::new();
    for listener in listeners {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!("a DNS listener is lost: {error}");
                continue;
            }
        };
        let answerer = Arc::clone(&answerer);
        let answer = move |query: &[u8], source, reply: &mut Vec<u8>| {
            let generation = answerer.engine.generation();
            answerer.answer(&generation, Transport::Tcp, query, source, reply);
        };
        serving.spawn(tcp::serve(listener, answer, Arc::clone(&limit), stop.clone()));
    }
    while serving.join_next().await.is_some() {}
}
