//! From messages of either transport to answers: one generation a batch, everything counted.
//!
//! Not for: sockets (`udp`, `tcp`), what an answer says (`whered-dns`).
//!
//! ```text
//! AnswererContext (settings, engine, log) ──one each thread──> Answerer: workspace, tallies
//!   datagrams ─ PROXY header? ─> Query ─> whered_dns::answer_batch ─> Batch
//!                                              └─> counters, query log
//! ```
//!
//! At the same time: one `Answerer` for each thread; nothing in it is shared but counters that only
//! it adds to. Cost beside the answers: a clock and a generation for each batch.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use whered_dns::transfer::{Operation, ServerRequest};
use whered_dns::{
    Answers, Client, Context, CookieSecrets, Outcome, Query, RateLimit, Rcode, RecordType,
    Synthesise, Transport, Workspace, answer_batch,
};
use whered_engine::ip::Prefix;
use whered_engine::{Engine, Generation};

use super::counters::{Counters, Tallies};
use super::dnstap::Tap;
use super::mmsg::{BATCH_SIZE_MAX, Batch, Datagram, LateSender};
use super::proxy;
use super::query_log::{Entry, QueryLog};
use super::signatures::SignatureBudget;
use super::tcp::{IDLE, Messages};
use super::transfers::{DeferredMessage, Reply, Transfers};

/// For how long an idle stream is kept, as RFC 7828 tells it.
const IDLE_TENTHS: u16 = (IDLE.as_millis() / 100) as u16;

/// What all threads answer with.
pub(super) struct AnswererContext {
    pub(super) engine: Arc<Engine>,
    /// Answers messages between servers.
    pub(super) transfers: Arc<Transfers>,
    pub(super) udp_size: u16,
    pub(super) server_id: Vec<u8>,
    pub(super) version: Vec<u8>,
    pub(super) cookies: Option<CookieSecrets>,
    pub(super) rate_limit: Option<RateLimit>,
    pub(super) signatures: Arc<SignatureBudget>,
    pub(super) proxies: Vec<Prefix>,
    pub(super) log: Option<QueryLog>,
    pub(super) tap: Option<Tap>,
    pub(super) started: Instant,
}

impl AnswererContext {
    /// The query of a datagram, without a balancer's header.
    #[inline]
    fn query_of<'d>(&self, datagram: &Datagram<'d>) -> Query<'d> {
        let query = Query { bytes: datagram.payload, source: datagram.source.ip() };
        if self.proxies.is_empty() || !self.is_proxy(query.source) {
            return query;
        }
        let (source, bytes) = proxy::of_datagram(datagram.payload, query.source);
        Query { bytes, source }
    }

    /// Whether a peer speaks for others, each message with a PROXY header.
    pub(super) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|prefix| prefix.contains(peer.to_canonical()))
    }
}

/// The answers of one thread.
pub(super) struct Answerer {
    shared: Arc<AnswererContext>,
    tallies: Tallies,
    workspace: Workspace,
}

impl Answerer {
    pub(super) fn new(shared: Arc<AnswererContext>, counters: Arc<Counters>) -> Answerer {
        let workspace = match shared.rate_limit {
            Some(limit) => Workspace::new().with_rate_limit(limit),
            None => Workspace::new(),
        };
        Answerer { shared, tallies: Tallies::new(counters), workspace }
    }

    /// What it counts with.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        self.tallies.counters()
    }

    /// Answers datagrams from one generation.
    pub(super) fn answer_datagrams(&mut self, datagrams: &[Datagram<'_>], batch: &mut Batch) {
        let Answerer { shared, tallies, workspace } = self;
        let asked_at = shared.tap.as_ref().map(|_| SystemTime::now());
        let generation = shared.engine.generation();
        tallies.follow(&generation);
        let nothing = Query { bytes: &[], source: IpAddr::from([0, 0, 0, 0]) };
        let mut queries = [nothing; BATCH_SIZE_MAX];
        for (query, datagram) in queries.iter_mut().zip(datagrams) {
            *query = shared.query_of(datagram);
        }
        let queries = &queries[..datagrams.len().min(BATCH_SIZE_MAX)];
        let live = shared.engine.live_zones(&generation);
        let challenges = shared.engine.challenges();
        let steered = shared.engine.live();
        let context = Context {
            udp_size_max: shared.udp_size,
            server_id: &shared.server_id,
            version: &shared.version,
            cookies: shared.cookies.as_ref(),
            now_seconds: unix_seconds(shared, challenges.is_some()),
            synthesise: live.as_ref().map(|live| live as &dyn Synthesise),
            chooser: Some(&*generation),
            challenges: challenges.as_deref(),
            signatures: Some(&*shared.signatures),
            defers: true,
            ..Context::new(Transport::Udp, nothing.source)
        };
        let now_millis = match shared.rate_limit {
            Some(_) => shared.started.elapsed().as_millis() as u64,
            None => 0,
        };
        let (sites, counts) = tallies.parts();
        let mut choose = |pool, client: &Client| {
            let choice = generation.steer(pool, client, &steered);
            sites.chosen(pool, &choice);
            choice
        };
        let log = shared.log.as_ref();
        let deferred = Vec::new();
        let mut out = AnswerSink { batch, queries, counts, log, generation: &generation, deferred };
        let zones = generation.zones();
        answer_batch(zones, &context, queries, now_millis, &mut choose, workspace, &mut out);
        for index in std::mem::take(&mut out.deferred) {
            let query = queries[index];
            let context = Context { defers: false, source: query.source, ..context };
            let message = DeferredMessage {
                bytes: query.bytes,
                source: query.source,
                transport: Transport::Udp,
                size_max: shared.udp_size.into(),
            };
            let mut ordinary = |plain: &[u8]| {
                let mut reply = Vec::new();
                whered_dns::answer(zones, plain, &context, &mut choose, &mut reply);
                reply
            };
            let (reply, is_signed) = shared.transfers.answer(&message, &mut ordinary);
            let Some(mut reply) = out.datagram(index, reply) else { continue };
            let outcome = outcome_of(query.bytes, &reply);
            // Who has a key is not somebody whose address was forged.
            if !is_signed && !workspace.allows_deferred(&query, &outcome, now_millis) {
                reply.clear();
            }
            let room = out.room(index);
            let size = reply.len().min(room.len());
            room[..size].copy_from_slice(&reply[..size]);
            out.answered(index, size, outcome);
        }
        if let (Some(tap), Some(asked_at)) = (&shared.tap, asked_at) {
            tap_datagrams(tap, asked_at, queries, datagrams, batch);
        }
    }

    /// Answers one message of a stream, which is to end soon or not.
    pub(super) fn answer_message(
        &mut self,
        query: &[u8],
        source: SocketAddr,
        is_ending: bool,
        reply: &mut Vec<u8>,
    ) -> Option<Messages> {
        let Answerer { shared, tallies, .. } = self;
        let asked_at = shared.tap.as_ref().map(|_| SystemTime::now());
        let generation = shared.engine.generation();
        tallies.follow(&generation);
        let live = shared.engine.live_zones(&generation);
        let challenges = shared.engine.challenges();
        let steered = shared.engine.live();
        let context = Context {
            server_id: &shared.server_id,
            version: &shared.version,
            cookies: shared.cookies.as_ref(),
            now_seconds: unix_seconds(shared, challenges.is_some()),
            synthesise: live.as_ref().map(|live| live as &dyn Synthesise),
            challenges: challenges.as_deref(),
            keepalive: Some(if is_ending { 0 } else { IDLE_TENTHS }),
            signatures: Some(&*shared.signatures),
            defers: true,
            ..Context::new(Transport::Tcp, source.ip())
        };
        let (sites, counts) = tallies.parts();
        let mut choose = |pool, client: &Client| {
            let choice = generation.steer(pool, client, &steered);
            sites.chosen(pool, &choice);
            choice
        };
        let zones = generation.zones();
        let mut outcome = whered_dns::answer(zones, query, &context, &mut choose, reply);
        let mut messages = None;
        if outcome == Outcome::Deferred {
            let context = Context { defers: false, ..context };
            let message = DeferredMessage {
                bytes: query,
                source: source.ip(),
                transport: Transport::Tcp,
                size_max: u16::MAX.into(),
            };
            let mut ordinary = |plain: &[u8]| {
                let mut reply = Vec::new();
                whered_dns::answer(zones, plain, &context, &mut choose, &mut reply);
                reply
            };
            match shared.transfers.answer(&message, &mut ordinary).0 {
                Reply::One(found) => *reply = found,
                Reply::Many(found) => messages = Some(found),
                Reply::Later(update) => {
                    let (sender, receiver) = mpsc::channel(1);
                    // A client that is gone wants no answer.
                    update.begin(move |reply| drop(sender.try_send(reply)));
                    messages = Some(receiver);
                }
            }
            outcome = outcome_of(query, reply);
        }
        counts.count(&outcome);
        if let Some(log) = &shared.log {
            let query = Query { bytes: query, source: source.ip() };
            log.put("tcp", || Entry::new(&query, &outcome, reply.len(), &generation));
        }
        if let (Some(tap), Some(asked_at)) = (&shared.tap, asked_at) {
            tap.batch(Transport::Tcp, asked_at).add(source, query, reply);
        }
        messages
    }
}

/// Tells a listener of a batch.
#[cold]
fn tap_datagrams(
    tap: &Tap,
    asked_at: SystemTime,
    queries: &[Query<'_>],
    datagrams: &[Datagram<'_>],
    batch: &Batch,
) {
    let mut tapped = tap.batch(Transport::Udp, asked_at);
    for (index, (query, datagram)) in queries.iter().zip(datagrams).enumerate() {
        // A balancer's port is not that of the client.
        let is_own = datagram.source.ip() == query.source;
        let port = if is_own { datagram.source.port() } else { 0 };
        if !query.bytes.is_empty() {
            tapped.add(SocketAddr::new(query.source, port), query.bytes, batch.answer(index));
        }
    }
}

/// Only cookies and challenges want to know.
fn unix_seconds(shared: &AnswererContext, has_challenges: bool) -> u32 {
    if shared.cookies.is_none() && !has_challenges {
        return 0;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    now.map_or(0, |since| since.as_secs() as u32)
}

/// The outcome of a message that was answered with these bytes; those of transfers and updates
/// begin later, and count as NOERROR.
fn outcome_of(query: &[u8], reply: &[u8]) -> Outcome {
    let code = reply.get(3).map_or(0, |byte| byte & 15);
    let request = ServerRequest::read(query);
    let question_type = request.and_then(|request| match request.operation {
        Operation::Axfr => Some(RecordType::AXFR),
        Operation::Ixfr(_) => Some(RecordType::IXFR),
        _ => None,
    });
    let rcode = Rcode(code.into());
    Outcome::Answered { rcode, question_type, pool: None, zone: None, has_cookie: false }
}

/// Where the answers of a batch go.
struct AnswerSink<'a, 'q> {
    batch: &'a mut Batch,
    queries: &'a [Query<'q>],
    counts: &'a mut super::counters::Codes,
    log: Option<&'a QueryLog>,
    generation: &'a Generation,
    /// Messages that the batch leaves to be answered by themselves.
    deferred: Vec<usize>,
}

impl AnswerSink<'_, '_> {
    /// The reply of one datagram, of which there never are many; none while its update is made.
    fn datagram(&mut self, index: usize, reply: Reply) -> Option<Vec<u8>> {
        match reply {
            Reply::One(reply) => Some(reply),
            Reply::Many(_) => Some(Vec::new()),
            Reply::Later(update) => {
                let begin = move |sender: LateSender| {
                    update.begin(move |mut reply| {
                        // A client that gets no answer asks again.
                        let _ = sender.send(&mut reply);
                    });
                };
                self.batch.answer_later(index, Box::new(begin));
                self.answered(index, 0, outcome_of(self.queries[index].bytes, &[]));
                None
            }
        }
    }
}

impl Answers for AnswerSink<'_, '_> {
    #[inline]
    fn room(&mut self, index: usize) -> &mut [u8] {
        self.batch.room(index)
    }

    #[inline]
    fn answered(&mut self, index: usize, size_bytes: usize, outcome: Outcome) {
        if size_bytes == 0 && outcome == Outcome::Deferred {
            return self.deferred.push(index);
        }
        self.batch.set_size(index, size_bytes);
        self.counts.count(&outcome);
        if let Some(log) = self.log {
            let query = &self.queries[index];
            log.put("udp", || Entry::new(query, &outcome, size_bytes, self.generation));
        }
    }
}
