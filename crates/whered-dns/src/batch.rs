//! Many queries at once: every wait for memory is shared by the batch.
//!
//! Not for: what a reply says (`answer.rs`, which is the same code for one query).
//!
//! ```text
//! all queries: names lowered and hashed, zones found
//! all in reversed zones: told to who knows the addresses
//! all at pools:            told to who chooses
//! all in large zones:  ask for the slots ─► read them, ask for the blocks ─► ask for the glue
//! each: usual.rs, and what that leaves alone: answer.rs; they find everything in the cache
//! ```
//!
//! A slot and a block are two dependent reads of memory, of about 100 ns each; in a batch of 32
//! they cost what the widest stage costs, once. Small zones skip the stages between.
//! At the same time: one [`Workspace`] for each thread. Cost: no allocation.
#![deny(clippy::indexing_slicing)]

use std::net::{IpAddr, Ipv4Addr};

use crate::answer::{Choice, Chooser, Client, Context, Outcome, answer_request, answer_truncated};
use crate::limit::{RateLimit, RateLimiter, Verdict};
use crate::lower::LowerName;
use crate::request::{HEADER_SIZE, Request};
use crate::reversed::{Reversed, Synthesise};
use crate::usual::Usual;
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
        let mut asked = [Asked::NOTHING; BATCH_SIZE];
        for ((query, asked), name) in queries.iter().zip(&mut asked).zip(&mut workspace.names) {
            *asked = Asked::read(query.bytes, name);
        }
        for (asked, name) in asked.iter_mut().zip(&mut workspace.names).take(queries.len()) {
            asked.find_zone(zones, name);
        }
        if zones.has_large() {
            prefetch(zones, &asked, &workspace.names);
        }
        if zones.has_reversed()
            && let Some(source) = context.synthesise
        {
            prefetch_addresses(zones, source, &asked, &workspace.names);
        }
        if let Some(chooser) = context.chooser {
            prefetch_choices(zones, chooser, queries, &asked, &workspace.names);
        }
        let items = queries.iter().zip(&asked).zip(&mut workspace.names);
        for (index, ((query, asked), name)) in items.enumerate() {
            let index = first + index;
            let room = out.room(index);
            let (mut size, outcome) = match asked.answer(zones, query, context, name, room) {
                Some(answer) => answer,
                None => {
                    let names = [&mut *name, &mut workspace.target];
                    answer_unusual(zones, query, context, choose, names, room)
                }
            };
            if let Some(limiter) = &mut workspace.limiter
                && size > 0
            {
                let alike = alike(zones, name, &outcome);
                match limiter.judge(query.source, alike, &outcome, now_millis) {
                    Verdict::Send => {}
                    Verdict::Drop => size = 0,
                    Verdict::Slip => size = slip(query, context, name, &outcome, room),
                }
            }
            out.answered(index, size, outcome);
        }
    }
}

/// What the first look at a query tells.
#[derive(Clone, Copy)]
struct Asked {
    /// The size of the question's name; 0 when there is none that belongs to a zone.
    name_length: u8,
    /// How many labels the zone's origin has.
    apex_labels: u8,
    zone: u32,
}

impl Asked {
    const NOTHING: Asked = Asked { name_length: 0, apex_labels: 0, zone: 0 };

    /// Reads the question's name.
    #[inline(always)]
    fn read(query: &[u8], name: &mut LowerName) -> Asked {
        let length = query.get(HEADER_SIZE..).and_then(|question| name.read_bytes(question));
        Asked { name_length: length.unwrap_or(0) as u8, ..Asked::NOTHING }
    }

    /// Finds the name's zone and asks for what will be read first.
    #[inline(always)]
    fn find_zone(&mut self, zones: &Zones, name: &mut LowerName) {
        if self.name_length == 0 {
            return;
        }
        name.hash();
        let Some((zone, labels)) = zones.zone_around(name) else {
            *self = Asked::NOTHING;
            return;
        };
        (self.zone, self.apex_labels) = (zone, labels as u8);
        let zone = zones.zone_at(zone);
        if zone.is_large() {
            zone.prefetch_slot(name, labels);
        }
    }

    /// The answer to a usual query.
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
        let usual = Usual::read(query.bytes, self.name_length.into())?;
        let located = zones.locate_in(self.zone, self.apex_labels.into(), name);
        usual.answer(zones, name, &located, context, room)
    }
}

/// Any answer to any query.
#[inline(never)]
fn answer_unusual(
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

/// The answer that says to ask again by TCP.
#[cold]
fn slip(
    query: &Query<'_>,
    context: &Context<'_>,
    name: &mut LowerName,
    outcome: &Outcome,
    room: &mut [u8],
) -> usize {
    let Outcome::Answered { rcode, .. } = *outcome else { return 0 };
    let mut request = Request::EMPTY;
    if !request.read(query.bytes, name) {
        return 0;
    }
    let context = Context { source: query.source, ..*context };
    answer_truncated(&request, &context, rcode, room)
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

/// Asks for the memory that the answers will read, stage by stage over the whole batch. The slots
/// have been asked for.
fn prefetch(zones: &Zones, asked: &[Asked], names: &[LowerName]) {
    let mut nodes: [Option<(&Zone, NodeRef)>; BATCH_SIZE] = [None; BATCH_SIZE];
    for ((asked, name), node) in asked.iter().zip(names).zip(&mut nodes) {
        if asked.name_length > 0 {
            let zone = zones.zone_at(asked.zone);
            if zone.is_large() {
                let found = zone.prefetch_node(name, asked.apex_labels.into());
                *node = found.map(|node| (zone, node));
            }
        }
    }
    for (zone, node) in nodes.iter().flatten() {
        zone.prefetch_glue(*node);
    }
}

/// Tells who knows the addresses of reversed zones which ones are asked about.
#[inline(never)]
fn prefetch_addresses(
    zones: &Zones,
    source: &dyn Synthesise,
    asked: &[Asked],
    names: &[LowerName],
) {
    let mut addresses = [(0, IpAddr::V4(Ipv4Addr::UNSPECIFIED)); BATCH_SIZE];
    let mut count = 0;
    for (asked, name) in asked.iter().zip(names) {
        if asked.name_length == 0 || !zones.is_reversed(asked.zone) {
            continue;
        }
        let labels = name.as_wire().get(..name.start_of(asked.apex_labels.into()));
        let address = labels.and_then(Reversed::read).and_then(|reversed| reversed.address);
        if let Some((address, place)) = address.zip(addresses.get_mut(count)) {
            *place = (asked.zone as usize, address);
            count += 1;
        }
    }
    source.prefetch(addresses.get(..count).unwrap_or_default());
}

/// Tells who chooses which clients ask for which pools.
#[inline(never)]
fn prefetch_choices(
    zones: &Zones,
    chooser: &dyn Chooser,
    queries: &[Query<'_>],
    asked: &[Asked],
    names: &[LowerName],
) {
    let mut clients = [(0, IpAddr::V4(Ipv4Addr::UNSPECIFIED)); BATCH_SIZE];
    let mut count = 0;
    for ((query, asked), name) in queries.iter().zip(asked).zip(names) {
        if asked.name_length == 0 {
            continue;
        }
        let pool = zones.pool_of(asked.zone, name);
        if let Some((pool, place)) = pool.zip(clients.get_mut(count)) {
            let told = subnet_at(query.bytes, HEADER_SIZE + usize::from(asked.name_length) + 4);
            *place = (pool, told.unwrap_or_else(|| query.source.to_canonical()));
            count += 1;
        }
    }
    if count > 0 {
        chooser.prefetch(clients.get(..count).unwrap_or_default());
    }
}

/// The client subnet where it is the first option of an OPT that stands here, as resolvers send it;
/// whoever sends it otherwise only waits longer.
#[inline]
fn subnet_at(query: &[u8], place: usize) -> Option<IpAddr> {
    let (opt, rest) = query.get(place..)?.split_first_chunk::<11>()?;
    let (head, rest) = rest.split_first_chunk::<8>()?;
    let ([0, 0, 41, ..], &[0, 8, _, length, 0, family @ 1..=2, _, _]) = (opt, head) else {
        return None;
    };
    let told = rest.get(..usize::from(length.checked_sub(4)?))?;
    let mut octets = [0; 16];
    octets.get_mut(..told.len())?.copy_from_slice(told);
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
            let place = HEADER_SIZE + "www.example".len() + 2 + 4;
            assert_eq!(subnet_at(&query, place), Some(client), "{text}");
            for short in 0..query.len() {
                assert_eq!(subnet_at(&query[..short], place), None, "{text} cut at {short}");
            }
        }
    }
}
