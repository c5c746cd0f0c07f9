//! From query bytes to answer bytes: what one reply says.
//!
//! Not for: sockets, clocks, where a client is (the caller's `choose` knows), several queries at
//! once (`batch.rs`), how zones lead to an answer (`resolve`), limits on rates (`limit.rs`).
//!
//! ```text
//! query ─ request.rs: header, question into a LowerName, EDNS ─ fault? ─► reply
//!            └► resolve: the zones' answer ─► reply.rs: copy, pointers, OPT, header
//! ```
//!
//! Concurrency: none inside; the zones are shared and immutable. Cost: no allocation.
#![deny(clippy::indexing_slicing)]

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;

use crate::challenges::Challenges;
use crate::code::{ExtendedError, Rcode, RecordType};
use crate::cookie::CookieSecrets;
use crate::limit::SignatureLimit;
use crate::lower::LowerName;
use crate::reply::{Options, Reply};
use crate::request::{Edns, Request};
use crate::resolve::Resolver;
use crate::reversed::Synthesise;
use crate::zones::Zones;

/// The smallest limit of a UDP reply (RFC 1035, 2.3.4).
const UDP_SIZE_MIN: usize = 512;

/// The most of a pool's answers that are given together.
pub const ANSWERS_MAX: usize = 16;

/// The client for whom a pool's answer is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The prefix that ECS tells, host bits zero; without ECS the source address of the query.
    pub address: IpAddr,
    /// The prefix length of ECS; without ECS the full 32 or 128.
    pub prefix_length_bits: u8,
    /// Whether ECS told it. False for a source length of 0, which forbids using the client's place
    /// (RFC 7871, 7.1.2): then the resolver's own address stands here.
    pub from_ecs: bool,
}

/// Which of a pool's answers a client gets, and what becomes of the query otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    answers: [u16; ANSWERS_MAX],
    count: u8,
    /// The action next to or instead of an answer.
    pub verdict: ChoiceVerdict,
    /// For how long a prefix of the client the choice holds; told to the resolver when ECS asked.
    /// It may be longer than what the resolver has told: a longer prefix decides (RFC 7871, 7.2.1).
    pub scope_length_bits: u8,
}

/// The verdict on a query at a pool's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceVerdict {
    /// It is answered by what was chosen; nothing: NODATA.
    Answer,
    /// It is refused.
    Refuse,
    /// No reply is sent.
    Drop,
    /// It cannot be answered now: SERVFAIL.
    Fail,
}

impl Choice {
    /// One answer by its index in the pool's. None, or an index that is not there: NODATA.
    #[must_use]
    pub const fn of(answer: Option<usize>, scope_length_bits: u8) -> Choice {
        let mut choice = Choice {
            answers: [0; ANSWERS_MAX],
            count: 0,
            verdict: ChoiceVerdict::Answer,
            scope_length_bits,
        };
        if let Some(answer) = answer {
            choice.push(answer);
        }
        choice
    }

    /// No answer but a verdict.
    #[must_use]
    pub const fn verdict(verdict: ChoiceVerdict, scope_length_bits: u8) -> Choice {
        Choice { verdict, ..Choice::of(None, scope_length_bits) }
    }

    /// Adds one more answer; what is above [`ANSWERS_MAX`] is left out.
    #[inline]
    pub const fn push(&mut self, answer: usize) {
        let (at, most) = (self.count as usize, u16::MAX as usize);
        if at < ANSWERS_MAX {
            if let Some((_, rest)) = self.answers.split_at_mut_checked(at)
                && let Some(place) = rest.first_mut()
            {
                *place = if answer < most { answer as u16 } else { u16::MAX };
            }
            self.count += 1;
        }
    }

    /// The answers, in the order in which they are given.
    #[inline]
    pub fn answers(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        self.answers.into_iter().take(self.count.into()).map(usize::from)
    }

    /// The first answer.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.answers().next()
    }
}

/// Prefetches the choices among pools' answers for a whole batch.
pub trait Chooser: fmt::Debug {
    /// Tells, before, which pools a batch will ask for which clients, so that they can wait for
    /// memory together. Whatever is done then changes no choice.
    fn prefetch(&self, asked: &[(usize, IpAddr)]);
}

/// How the query came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram: the reply keeps to the smaller of both sides' sizes, at least 512 bytes.
    Udp,
    /// In a stream: the reply may have 65535 bytes.
    Tcp,
}

/// The context of a query.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// How the query came.
    pub transport: Transport,
    /// The sender: the client for pools when ECS has none.
    pub source: IpAddr,
    /// The server's own limit for UDP replies in bytes, usually 1232.
    pub udp_size_max: u16,
    /// The answer to NSID (RFC 5001) and to `id.server.` and `hostname.bind.` in CHAOS; empty
    /// or above 128 bytes: not answered.
    pub server_id: &'a [u8],
    /// The answer to `version.server.` and `version.bind.` in CHAOS; as `server_id`.
    pub version: &'a [u8],
    /// The secrets of cookies (RFC 7873); without them, cookies are ignored.
    pub cookies: Option<&'a CookieSecrets>,
    /// Unix time, which only cookies and challenges need.
    pub now_seconds: u32,
    /// The source of addresses of reversed zones; without it, such zones have their own records
    /// only.
    pub synthesise: Option<&'a dyn Synthesise>,
    /// Receives what a batch will ask of pools, before it does; `None` if no one prefetches.
    pub chooser: Option<&'a dyn Chooser>,
    /// Tokens at names of ACME challenges.
    pub challenges: Option<&'a Challenges>,
    /// For how long an idle connection is kept, in tenths of a second (RFC 7828). Streams tell it
    /// to who asks; 0, which asks to close the connection, to everybody with EDNS.
    pub keepalive: Option<u16>,
    /// Limits the signatures that are made for questions; without it, there is no limit.
    pub signatures: Option<&'a dyn SignatureLimit>,
    /// Leaves messages between servers to the caller: NOTIFY, UPDATE, transfers, and whatever is
    /// signed. Their outcome is [`Outcome::Deferred`].
    pub defers: bool,
}

impl Context<'_> {
    /// A context with the usual limit of 1232 bytes, without a server id, version and cookies.
    #[must_use]
    pub fn new(transport: Transport, source: IpAddr) -> Context<'static> {
        Context {
            transport,
            source,
            udp_size_max: 1232,
            server_id: &[],
            version: &[],
            cookies: None,
            now_seconds: 0,
            synthesise: None,
            chooser: None,
            challenges: None,
            keepalive: None,
            signatures: None,
            defers: false,
        }
    }
}

/// The outcome of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The reply is to be sent.
    Answered {
        /// Its response code.
        rcode: Rcode,
        /// The question's type; none when the question could not be read.
        question_type: Option<RecordType>,
        /// The pool that was asked to choose.
        pool: Option<usize>,
        /// The zone that the question's name belongs to, in the order in which they were added.
        zone: Option<usize>,
        /// The query had a cookie that this server had given to its source: no spoofed address.
        has_cookie: bool,
    },
    /// A message between servers, which the caller answers ([`Context::defers`]).
    Deferred,
    /// Nothing is to be sent: the bytes are too few for a header or a question, or are a response
    /// themselves.
    Silent,
}

/// Answers one query. `reply` is cleared and filled; `choose` is called with the index of the pool
/// for A and AAAA at a pool's owner, and for what else the pool answers; only an alias that leads
/// to another pool makes it twice.
///
/// ```
/// use whered_dns::{Choice, Context, Rcode, RecordType, Transport, Zone, Zones, answer, message};
/// let text = b"@ 60 IN SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let zone = Zone::from_master_file(&"example.com".parse()?, text, &mut |_| Err("no".into()))?;
/// let zones = Zones::builder().add_zone(zone).build()?;
/// let query = message::Query::new(&"ns.example.com".parse()?, RecordType::A).build();
/// let context = Context::new(Transport::Udp, "198.51.100.7".parse()?);
/// let mut reply = Vec::new();
/// let mut choose = |_, _: &_| Choice::of(None, 0);
/// answer(&zones, &query, &context, &mut choose, &mut reply);
/// let message = message::Message::read(&reply)?;
/// assert_eq!(message.rcode(), Rcode::NOERROR);
/// assert_eq!(message.answers[0].data, [192, 0, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn answer(
    zones: &Zones,
    query: &[u8],
    context: &Context<'_>,
    choose: &mut dyn FnMut(usize, &Client) -> Choice,
    reply: &mut Vec<u8>,
) -> Outcome {
    // Taken out while it is used, so that `choose` may answer something itself.
    let mut names =
        NAMES.take().unwrap_or_else(|| Box::new([LowerName::root(), LowerName::root()]));
    let [name, target] = &mut *names;
    let mut request = Request::EMPTY;
    if !request.read(query, name) {
        reply.clear();
        return Outcome::Silent;
    }
    reply.resize(size_max(request.edns_size(), context), 0);
    let (size, outcome) = answer_request(zones, &request, context, choose, [name, target], reply);
    reply.truncate(size);
    NAMES.set(Some(names));
    outcome
}

thread_local! {
    /// The names of the last query of this thread: their memory is used again.
    static NAMES: Cell<Option<Box<[LowerName; 2]>>> = const { Cell::new(None) };
}

/// The most bytes that a reply may have, by the size that OPT tells.
#[inline]
pub(crate) fn size_max(edns_size: Option<u16>, context: &Context<'_>) -> usize {
    if context.transport == Transport::Tcp {
        return u16::MAX.into();
    }
    let size = edns_size.map_or(0, |size| size.min(context.udp_size_max));
    usize::from(size).max(UDP_SIZE_MIN)
}

/// Answers what has been read, into `room`; a room smaller than the limit is the limit. `target`
/// is for names that aliases lead to. Gives the reply's size, 0 when nothing is to be sent.
pub(crate) fn answer_request(
    zones: &Zones,
    request: &Request<'_>,
    context: &Context<'_>,
    choose: &mut dyn FnMut(usize, &Client) -> Choice,
    [name, target]: [&mut LowerName; 2],
    room: &mut [u8],
) -> (usize, Outcome) {
    if request.header.is_response() {
        return (0, Outcome::Silent);
    }
    if context.defers && request.is_between_servers() {
        return (0, Outcome::Deferred);
    }
    let (options, has_cookie) = options(request, context);
    let writer = Reply::begin(room, request, options, size_max(request.edns_size(), context));
    let mut resolver = Resolver::new(zones, request, context, choose, writer);
    resolver.is_proven = has_cookie || context.transport == Transport::Tcp;
    let rcode = match (request.fault, &request.question) {
        (Some(rcode), _) => {
            if rcode == Rcode::NOTIMP {
                resolver.reply.explain(ExtendedError::NotSupported);
            }
            rcode
        }
        (None, Some(question)) => resolver.resolve(question, name, target),
        (None, None) => Rcode::FORMERR,
    };
    if resolver.is_dropped {
        return (0, Outcome::Silent);
    }
    let (pool, zone) = (resolver.pool, resolver.zone);
    let question_type = request.question.as_ref().map(|question| question.record_type);
    if resolver.is_over_limit() {
        drop(resolver);
        let (size, rcode) = answer_over_limit(request, context, room);
        return (size, Outcome::Answered { rcode, question_type, pool, zone, has_cookie });
    }
    let Resolver { authoritative, scope_length_bits, .. } = resolver;
    let size = resolver.reply.finish(rcode, authoritative, scope_length_bits);
    (size, Outcome::Answered { rcode, question_type, pool, zone, has_cookie })
}

/// The options of the reply's OPT, and whether the client sent a good cookie.
#[inline(always)]
fn options<'a>(request: &Request<'_>, context: &Context<'a>) -> (Options<'a>, bool) {
    match &request.edns {
        Some(edns) => options_with(edns, context),
        None => (Options::default(), false),
    }
}

fn options_with<'a>(edns: &Edns<'_>, context: &Context<'a>) -> (Options<'a>, bool) {
    let keepalive = context.keepalive.filter(|_| context.transport == Transport::Tcp);
    let mut options = Options { server_id: context.server_id, cookie: None, keepalive };
    let (Some(secrets), Some(cookie)) = (context.cookies, edns.cookie) else {
        return (options, false);
    };
    let (is_good, option) = secrets.answer(cookie, context.source, context.now_seconds);
    options.cookie = Some(option);
    (options, is_good)
}

/// The reply to a client for which no more signatures are made for now: by UDP it is truncated, so
/// that a client whose address is its own asks again by TCP; there it is refused. Gives its size
/// and response code.
#[cold]
fn answer_over_limit(
    request: &Request<'_>,
    context: &Context<'_>,
    room: &mut [u8],
) -> (usize, Rcode) {
    if context.transport == Transport::Udp {
        return (answer_truncated(request, context, Rcode::NOERROR, room), Rcode::NOERROR);
    }
    let (options, _) = options(request, context);
    let mut reply = Reply::begin(room, request, options, size_max(request.edns_size(), context));
    reply.explain(ExtendedError::Prohibited);
    (reply.finish(Rcode::REFUSED, false, 0), Rcode::REFUSED)
}

/// The reply that says nothing but to ask again by TCP, or with the cookie that it gives. Gives its
/// size.
#[cold]
pub(crate) fn answer_truncated(
    request: &Request<'_>,
    context: &Context<'_>,
    rcode: Rcode,
    room: &mut [u8],
) -> usize {
    let (options, _) = options(request, context);
    let mut reply = Reply::begin(room, request, options, size_max(request.edns_size(), context));
    reply.truncate();
    reply.finish(rcode, false, 0)
}
