//! Answers many queries at once, so that the batch waits for memory once and not each query.
//!
//! Not for: what a reply says (`answer.rs`, which is the same code for one query).
//!
//! ```text
//! parse        each query: the question's name, lower-cased
//! find_zones   each query: hash the name, find its zone; in a large zone prefetch the name's slot
//! prefetch     large zones: read the slots, prefetch the nodes, prefetch their glue
//!              reversed zones: pass the addresses to `Synthesise::prefetch`
//!              pools: pass the clients to `Chooser::prefetch`
//! answer       each query: the fast path, else the slow path (answer.rs)
//! rate_limit   each query: send the answer, drop it, or truncate it
//! ```
//!
//! The stages pass one array of [`Slot`]s, one for each query. A slot of a zone and a node are two
//! dependent reads of memory, of about 100 ns each; a batch of 32 waits for each stage once. Small
//! zones stay in the cache and skip the prefetches. Concurrency: one [`Workspace`] for each thread.
//! Cost: no allocation.
#![deny(clippy::indexing_slicing)]

use std::net::{IpAddr, Ipv4Addr};

use crate::answer::{Choice, Chooser, Client, Context, Outcome, answer_request, answer_truncated};
use crate::fast_path::FastQuery;
use crate::limit::{RateLimit, RateLimiter, Verdict};
use crate::lower::LowerName;
use crate::request::{HEADER_SIZE, Request};
use crate::reversed::{Reversed, Synthesise};
use crate::zone::{NodeRef, Zone};
use crate::zones::Zones;

/// How many queries one batch has at most; more queries become several batches.
pub const BATCH_SIZE: usize = 32;

/// One query of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The received bytes.
    pub bytes: &'a [u8],
    /// The sender's address.
    pub source: IpAddr,
}

/// Receives a batch's answers.
pub trait Answers {
    /// The buffer for the answer to query `index`, the same at each call. An answer that does not
    /// fit is truncated (TC) as for a client with a small limit; below 600 bytes the question may
    /// be cut as well.
    fn room(&mut self, index: usize) -> &mut [u8];

    /// Reports query `index`: the first `size_bytes` of its buffer are sent, if any.
    fn answered(&mut self, index: usize, size_bytes: usize, outcome: Outcome);
}

/// The memory of a thread's batches, and the thread's rate limit.
pub struct Workspace {
    names: Box<[LowerName]>,
    target: Box<LowerName>,
    limiter: Option<RateLimiter>,
}

impl Workspace {
    /// A workspace without a rate limit.
    #[must_use]
    pub fn new() -> Workspace {
        let names = vec![LowerName::root(); BATCH_SIZE].into_boxed_slice();
        Workspace { names, target: Box::new(LowerName::root()), limiter: None }
    }

    /// Limits how many similar answers this workspace gives to a client network.
    #[must_use]
    pub fn with_rate_limit(mut self, limit: RateLimit) -> Workspace {
        self.limiter = Some(RateLimiter::new(limit));
        self
    }

    /// Whether the answer of a message that the batch has left out is sent: such messages about one
    /// name are alike. Truncated answers, which make a client ask by TCP, are not made of them.
    pub fn allows_deferred(
        &mut self,
        query: &Query<'_>,
        outcome: &Outcome,
        now_millis: u64,
    ) -> bool {
        let Some(limiter) = &mut self.limiter else { return true };
        let Some(name) = self.names.first_mut() else { return true };
        let question = query.bytes.get(12..).unwrap_or_default();
        let is_name = name.read(question).is_some();
        let alike = if is_name {
            name.hash();
            name.hash_of(name.label_count())
        } else {
            0
        };
        limiter.judge(query.source, alike, outcome, now_millis) != Verdict::Drop
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

/// Answers queries as [`answer`](crate::answer) answers each of them. The source of each query
/// replaces that of the context. `now_millis` is any monotonic clock, for the rate limit.
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
    for (batch, queries) in queries.chunks(BATCH_SIZE).enumerate() {
        let mut slots = [Slot::EMPTY; BATCH_SIZE];
        parse(queries, &mut slots, &mut workspace.names);
        find_zones(zones, &mut slots, &mut workspace.names, queries.len());
        prefetch(zones, context, queries, &slots, &workspace.names);
        let items = queries.iter().zip(&slots).zip(&mut workspace.names);
        for (index, ((query, slot), name)) in items.enumerate() {
            let index = batch * BATCH_SIZE + index;
            let room = out.room(index);
            let (size, outcome) = match slot.answer(zones, query, context, name, room) {
                Some(answer) => answer,
                None => {
                    let names = [&mut *name, &mut workspace.target];
                    answer_slowly(zones, query, context, choose, names, room)
                }
            };
            let size = match &mut workspace.limiter {
                Some(limiter) if size > 0 => {
                    let limited =
                        LimitedAnswer { zones, query, context, outcome: &outcome, now_millis };
                    limited.rate_limit(limiter, name, size, room)
                }
                _ => size,
            };
            out.answered(index, size, outcome);
        }
    }
}

/// The state of one query between stages.
#[derive(Clone, Copy)]
struct Slot {
    /// The size of the question's name; 0 when there is none that belongs to a zone.
    name_length: u8,
    /// How many labels the zone's origin has.
    apex_labels: u8,
    zone: u32,
}

/// Reads the questions' names.
#[inline(always)]
fn parse(queries: &[Query<'_>], slots: &mut [Slot], names: &mut [LowerName]) {
    for ((query, slot), name) in queries.iter().zip(slots).zip(names) {
        let length = query.bytes.get(HEADER_SIZE..).and_then(|question| name.read_bytes(question));
        *slot = Slot { name_length: length.unwrap_or(0) as u8, ..Slot::EMPTY };
    }
}

/// Finds the names' zones, and prefetches the first reads of large ones.
#[inline(always)]
fn find_zones(zones: &Zones, slots: &mut [Slot], names: &mut [LowerName], count: usize) {
    for (slot, name) in slots.iter_mut().zip(names).take(count) {
        slot.find_zone(zones, name);
    }
}

/// Prefetches what the answers will read.
#[inline(always)]
fn prefetch(
    zones: &Zones,
    context: &Context<'_>,
    queries: &[Query<'_>],
    slots: &[Slot],
    names: &[LowerName],
) {
    if zones.has_large() {
        prefetch_nodes(zones, slots, names);
    }
    if zones.has_reversed()
        && let Some(source) = context.synthesise
    {
        prefetch_addresses(zones, source, slots, names);
    }
    if let Some(chooser) = context.chooser {
        prefetch_choices(zones, chooser, queries, slots, names);
    }
}

impl Slot {
    const EMPTY: Slot = Slot { name_length: 0, apex_labels: 0, zone: 0 };

    #[inline(always)]
    fn find_zone(&mut self, zones: &Zones, name: &mut LowerName) {
        if self.name_length == 0 {
            return;
        }
        name.hash();
        let Some((zone, labels)) = zones.zone_around(name) else {
            *self = Slot::EMPTY;
            return;
        };
        (self.zone, self.apex_labels) = (zone, labels as u8);
        let zone = zones.zone_at(zone);
        if zone.is_large() {
            zone.prefetch_slot(name, labels);
        }
    }

    /// Answers on the fast path; `None` if the query needs the slow path.
    #[inline(always)]
    fn answer(
        self,
        zones: &Zones,
        query: &Query<'_>,
        context: &Context<'_>,
        name: &LowerName,
        room: &mut [u8],
    ) -> Option<(usize, Outcome)> {
        if self.name_length == 0 {
            return None;
        }
        let fast = FastQuery::parse(query.bytes, self.name_length.into())?;
        let located = zones.locate_in(self.zone, self.apex_labels.into(), name);
        fast.answer(zones, name, &located, context, room)
    }
}

/// The slow path, which answers every query.
#[inline(never)]
fn answer_slowly(
    zones: &Zones,
    query: &Query<'_>,
    context: &Context<'_>,
    choose: &mut dyn FnMut(usize, &Client) -> Choice,
    [name, target]: [&mut LowerName; 2],
    room: &mut [u8],
) -> (usize, Outcome) {
    let mut request = Request::EMPTY;
    if !request.read(query.bytes, name) {
        return (0, Outcome::Silent);
    }
    let context = Context { source: query.source, ..*context };
    answer_request(zones, &request, &context, choose, [name, target], room)
}

/// An answer that the rate limit applies to.
struct LimitedAnswer<'a> {
    zones: &'a Zones,
    query: &'a Query<'a>,
    context: &'a Context<'a>,
    outcome: &'a Outcome,
    now_millis: u64,
}

impl LimitedAnswer<'_> {
    /// Applies the limit to an answer of `size` bytes in `room`; returns the size that is sent.
    #[inline(always)]
    fn rate_limit(
        &self,
        limiter: &mut RateLimiter,
        name: &mut LowerName,
        size: usize,
        room: &mut [u8],
    ) -> usize {
        match limiter.judge(self.query.source, self.subject(name), self.outcome, self.now_millis) {
            Verdict::Send => size,
            Verdict::Drop => 0,
            Verdict::Slip => self.truncate(name, room),
        }
    }

    /// The subject that the limit counts: a name that exists, or the zone of one that does not.
    fn subject(&self, name: &LowerName) -> u64 {
        match self.outcome {
            Outcome::Answered { rcode, zone: Some(zone), .. } if rcode.0 != 0 => {
                let zone = self.zones.zone_at(*zone as u32);
                zone.lower_origin().len() as u64 ^ u64::from(zone.serial()) << 8
            }
            Outcome::Answered { zone: Some(_), .. } => name.hash_of(name.label_count()),
            _ => 0,
        }
    }

    /// Writes the truncated answer, which makes the client ask again by TCP.
    #[cold]
    fn truncate(&self, name: &mut LowerName, room: &mut [u8]) -> usize {
        let Outcome::Answered { rcode, .. } = *self.outcome else { return 0 };
        let mut request = Request::EMPTY;
        if !request.read(self.query.bytes, name) {
            return 0;
        }
        let context = Context { source: self.query.source, ..*self.context };
        answer_truncated(&request, &context, rcode, room)
    }
}

/// Prefetches nodes and glue of large zones, in two stages over the whole batch. `find_zones`
/// prefetched the zones' slots.
fn prefetch_nodes(zones: &Zones, slots: &[Slot], names: &[LowerName]) {
    let mut nodes: [Option<(&Zone, NodeRef)>; BATCH_SIZE] = [None; BATCH_SIZE];
    for ((slot, name), node) in slots.iter().zip(names).zip(&mut nodes) {
        if slot.name_length > 0 {
            let zone = zones.zone_at(slot.zone);
            if zone.is_large() {
                let found = zone.prefetch_node(name, slot.apex_labels.into());
                *node = found.map(|node| (zone, node));
            }
        }
    }
    for (zone, node) in nodes.iter().flatten() {
        zone.prefetch_glue(*node);
    }
}

/// Passes the addresses that queries ask reversed zones for to their source.
#[inline(never)]
fn prefetch_addresses(zones: &Zones, source: &dyn Synthesise, slots: &[Slot], names: &[LowerName]) {
    let mut addresses = [(0, IpAddr::V4(Ipv4Addr::UNSPECIFIED)); BATCH_SIZE];
    let mut count = 0;
    for (slot, name) in slots.iter().zip(names) {
        if slot.name_length == 0 || !zones.is_reversed(slot.zone) {
            continue;
        }
        let labels = name.as_wire().get(..name.start_of(slot.apex_labels.into()));
        let address = labels.and_then(Reversed::read).and_then(|reversed| reversed.address);
        if let Some((address, entry)) = address.zip(addresses.get_mut(count)) {
            *entry = (slot.zone as usize, address);
            count += 1;
        }
    }
    source.prefetch(addresses.get(..count).unwrap_or_default());
}

/// Passes the pools that queries ask for, with their clients, to the chooser.
#[inline(never)]
fn prefetch_choices(
    zones: &Zones,
    chooser: &dyn Chooser,
    queries: &[Query<'_>],
    slots: &[Slot],
    names: &[LowerName],
) {
    let mut clients = [(0, IpAddr::V4(Ipv4Addr::UNSPECIFIED)); BATCH_SIZE];
    let mut count = 0;
    for ((query, slot), name) in queries.iter().zip(slots).zip(names) {
        if slot.name_length == 0 {
            continue;
        }
        let pool = zones.pool_of(slot.zone, name);
        if let Some((pool, client)) = pool.zip(clients.get_mut(count)) {
            let subnet = subnet_at(query.bytes, HEADER_SIZE + usize::from(slot.name_length) + 4);
            *client = (pool, subnet.unwrap_or_else(|| query.source.to_canonical()));
            count += 1;
        }
    }
    if count > 0 {
        chooser.prefetch(clients.get(..count).unwrap_or_default());
    }
}

/// The client subnet if it is the first option of an OPT record at this offset, as resolvers send
/// it. A query with another layout gets its answer without the prefetch.
#[inline]
fn subnet_at(query: &[u8], offset: usize) -> Option<IpAddr> {
    let (opt, rest) = query.get(offset..)?.split_first_chunk::<11>()?;
    let (head, rest) = rest.split_first_chunk::<8>()?;
    let ([0, 0, 41, ..], &[0, 8, _, length, 0, family @ 1..=2, _, _]) = (opt, head) else {
        return None;
    };
    let subnet = rest.get(..usize::from(length.checked_sub(4)?))?;
    let mut octets = [0; 16];
    octets.get_mut(..subnet.len())?.copy_from_slice(subnet);
    let [a, b, c, d, ..] = octets;
    Some(if family == 1 { [a, b, c, d].into() } else { octets.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::RecordType;
    use crate::message;

    #[test]
    fn the_subnet_is_seen_where_resolvers_put_it() {
        let name = "www.example".parse().expect("a name");
        for (text, length) in [("198.51.100.0", 24), ("2001:db8:7::", 48), ("192.0.2.128", 25)] {
            let client: IpAddr = text.parse().expect("an address");
            let query = message::Query::new(&name, RecordType::A).client_subnet(client, length);
            let query = query.build();
            let offset = HEADER_SIZE + "www.example".len() + 2 + 4;
            assert_eq!(subnet_at(&query, offset), Some(client), "{text}");
            for short in 0..query.len() {
                assert_eq!(subnet_at(&query[..short], offset), None, "{text} cut at {short}");
            }
        }
    }
}
