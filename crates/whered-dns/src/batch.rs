//! Many queries at once: every wait for memory is shared by the batch.
//!
//! Not for: what a reply says (`answer.rs`, which is the same code for one query).
//!
//! ```text
//! all queries: read, names lowered and hashed, zones found
//! all in large zones:  ask for the slots ─► read them, ask for the blocks ─► ask for the glue
//! each: answer_request, which finds everything in the cache
//! ```
//!
//! A slot and a block are two dependent reads of memory, of about 100 ns each; in a batch of 32
//! they cost what the widest stage costs, once. Small zones skip the stages between.
//! At the same time: one [`Workspace`] for each thread. Cost: no allocation.
#![deny(clippy::indexing_slicing)]

use std::net::IpAddr;

use crate::answer::{Choice, Client, Context, Outcome, answer_request, answer_truncated};
use crate::code::Rcode;
use crate::limit::{RateLimit, RateLimiter, Verdict};
use crate::lower::LowerName;
use crate::request::Request;
use crate::zone::{NodeRef, Zone};
use crate::zones::Zones;

/// How many queries are taken together; more are taken in turns.
pub const BATCH_SIZE: usize = 32;

/// One query of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// What was received.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub source: IpAddr,
}

/// Where a batch's answers go.
pub trait Answers {
    /// The room for the answer to query `index`. What does not fit is truncated (TC) as for a
    /// client that takes no more; with less than 600 bytes even a question may be cut off.
    fn room(&mut self, index: usize) -> &mut [u8];

    /// What became of query `index`: the first `size_bytes` of its room are to be sent, if any.
    fn answered(&mut self, index: usize, size_bytes: usize, outcome: Outcome);
}

/// The memory that batches are worked on in, and the rate limit of its thread.
pub struct Workspace {
    names: Box<[LowerName]>,
    target: Box<LowerName>,
    limiter: Option<RateLimiter>,
}

impl Workspace {
    /// Without a limit on rates.
    #[must_use]
    pub fn new() -> Workspace {
        let names = vec![LowerName::root(); BATCH_SIZE].into_boxed_slice();
        Workspace { names, target: Box::new(LowerName::root()), limiter: None }
    }

    /// Limits how many alike answers a client network gets from this workspace.
    #[must_use]
    pub fn with_rate_limit(mut self, limit: RateLimit) -> Workspace {
        self.limiter = Some(RateLimiter::new(limit));
        self
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Workspace::new()
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}

/// Answers queries as [`answer`](crate::answer) does each of them. Of the context, the source is
/// that of each query instead; `now_millis` is any clock that goes forward, for the rate limit.
///
/// ```
/// use std::net::IpAddr;
/// use whered_dns::{
///     Answers, Choice, Context, Outcome, Query, RecordType, Transport, Workspace, Zone, Zones,
///     answer_batch, message,
/// };
/// struct Rooms([[u8; 1232]; 2], [usize; 2]);
/// impl Answers for Rooms {
///     fn room(&mut self, index: usize) -> &mut [u8] {
///         &mut self.0[index]
///     }
///     fn answered(&mut self, index: usize, size_bytes: usize, _: Outcome) {
///         self.1[index] = size_bytes;
///     }
/// }
/// let text = b"@ 60 IN SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let zone = Zone::from_master_file(&"example.com".parse()?, text, &mut |_| Err("no".into()))?;
/// let zones = Zones::builder().add_zone(zone).build()?;
/// let bytes = message::Query::new(&"ns.example.com".parse()?, RecordType::A).build();
/// let source: IpAddr = "198.51.100.7".parse()?;
/// let queries = [Query { bytes: &bytes, source }, Query { bytes: b"rubbish", source }];
/// let mut rooms = Rooms([[0; 1232]; 2], [9; 2]);
/// let mut choose = |_, _: &_| Choice::of(None, 0);
/// let context = Context::new(Transport::Udp, source);
/// answer_batch(&zones, &context, &queries, 0, &mut choose, &mut Workspace::new(), &mut rooms);
/// assert_eq!(rooms.1, [bytes.len() + 16, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn answer_batch(
    zones: &Zones,
    context: &Context<'_>,
    queries: &[Query<'_>],
    now_millis: u64,
    choose: &mut dyn FnMut(usize, &Client) -> Choice,
    workspace: &mut Workspace,
    out: &mut impl Answers,
) {
    for (turn, queries) in queries.chunks(BATCH_SIZE).enumerate() {
        let first = turn * BATCH_SIZE;
        let mut requests: [Request<'_>; BATCH_SIZE] = [const { Request::EMPTY }; BATCH_SIZE];
        let names = workspace.names.iter_mut();
        for ((query, request), name) in queries.iter().zip(&mut requests).zip(names) {
            request.read(query.bytes, name);
        }
        if zones.has_large() {
            prefetch(zones, requests.get(..queries.len()).unwrap_or_default(), &workspace.names);
        }
        let items = queries.iter().zip(&requests).zip(&mut workspace.names);
        for (index, ((query, request), name)) in items.enumerate() {
            let index = first + index;
            if !request.is_answerable {
                out.answered(index, 0, Outcome::Silent);
                continue;
            }
            let context = Context { source: query.source, ..*context };
            let room = out.room(index);
            let names = [&mut *name, &mut workspace.target];
            let (mut size, outcome) = answer_request(zones, request, &context, choose, names, room);
            if let Some(limiter) = &mut workspace.limiter
                && size > 0
            {
                let alike = alike(zones, name, &outcome);
                match limiter.judge(query.source, alike, &outcome, now_millis) {
                    Verdict::Send => {}
                    Verdict::Drop => size = 0,
                    Verdict::Slip => {
                        let rcode = match outcome {
                            Outcome::Answered { rcode, .. } => rcode,
                            Outcome::Silent => Rcode::NOERROR,
                        };
                        size = answer_truncated(request, &context, rcode, room);
                    }
                }
            }
            out.answered(index, size, outcome);
        }
    }
}

/// What makes answers alike: the name that exists, or the zone of one that does not.
fn alike(zones: &Zones, name: &LowerName, outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Answered { rcode, zone: Some(zone), .. } if rcode.0 != 0 => {
            let zone = zones.zone_at(*zone as u32);
            zone.lower_origin().len() as u64 ^ u64::from(zone.serial()) << 8
        }
        Outcome::Answered { zone: Some(_), .. } => name.hash_of(name.label_count()),
        _ => 0,
    }
}

/// Asks for the memory that the answers will read, stage by stage over the whole batch.
fn prefetch(zones: &Zones, requests: &[Request<'_>], names: &[LowerName]) {
    let mut places: [Option<(&Zone, usize)>; BATCH_SIZE] = [None; BATCH_SIZE];
    for ((request, name), place) in requests.iter().zip(names).zip(&mut places) {
        if request.question.is_none() {
            continue;
        }
        if let Some((zone, labels)) = zones.zone_around(name) {
            let zone = zones.zone_at(zone);
            if zone.is_large() {
                zone.prefetch_slot(name, labels);
                *place = Some((zone, labels));
            }
        }
    }
    let mut nodes: [Option<(&Zone, NodeRef)>; BATCH_SIZE] = [None; BATCH_SIZE];
    for ((name, place), node) in names.iter().zip(&places).zip(&mut nodes) {
        if let Some((zone, labels)) = place {
            *node = zone.prefetch_node(name, *labels).map(|node| (*zone, node));
        }
    }
    for (zone, node) in nodes.iter().flatten() {
        zone.prefetch_glue(*node);
    }
}
