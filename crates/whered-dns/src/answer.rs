//! From query bytes to answer bytes: one pure function.
//!
//! Not for: sockets, clocks, limits on rates, where a client is (the caller's `choose` knows).
//!
//! ```text
//! query ─ request.rs: header, question into a LowerName on the stack, EDNS ─ error? ─► reply
//!            │
//!            ▼ zones.locate: one hash probe
//!         slot ─ pool? ─► choose(pool, client) ─► its rrset, precompiled      ┐
//!            │ └ rrset of the type ─► precompiled                             ├─► reply.rs
//!            │ rare: cut ─► referral · CNAME ─► again with its target         │   copy, pointers,
//!            │       wildcard ─► as its node, owner = the question's name     │   OPT, header
//!            └ nothing ─► NODATA or NXDOMAIN with the SOA                     ┘
//! ```
//!
//! Choices made here: ANY is answered by one HINFO (RFC 8482, 4.2), or by the CNAME; transfers are
//! REFUSED; every class but IN is REFUSED; an alias chain is followed inside the served zones for
//! [`CHAIN_LENGTH_MAX`] links and ends where it meets a name again; the response code is that of
//! the chain's end (RFC 6604), AA is that of its beginning. Answers are minimal: the additional
//! section has only glue. A pool without a choice is NODATA.
//! Concurrency: none inside; the zones are shared and immutable. Cost: no allocation once the reply
//! has grown; a missing name costs a probe per label.
#![deny(clippy::indexing_slicing)]

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::code::{Rcode, RecordType};
use crate::index::Slot;
use crate::name::{LowerName, Name};
use crate::reply::{QUESTION_OFFSET, Reply, Section};
use crate::request::{Question, Request};
use crate::zone::{RECORD_HEAD_SIZE, Rrset, Zone};
use crate::zones::{Located, Zones};

/// How many aliases are followed in one answer.
pub const CHAIN_LENGTH_MAX: usize = 16;
/// The smallest limit of a UDP reply (RFC 1035, 2.3.4).
const UDP_SIZE_MIN: usize = 512;
const CLASS_IN: u16 = 1;

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

/// Which of a pool's answers a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// An index into the pool's answers. None, or an index that is not there: NODATA.
    pub answer: Option<usize>,
    /// For how long a prefix of the client the choice holds; told to the resolver when ECS asked.
    pub scope_length_bits: u8,
}

/// How the query came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram: the reply keeps to the smaller of both sides' sizes, at least 512 bytes.
    Udp,
    /// In a stream: the reply may have 65535 bytes.
    Tcp,
}

/// What is known of a query beside its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// How the query came.
    pub transport: Transport,
    /// Who sent it: the client for pools when ECS tells none.
    pub source: IpAddr,
    /// The server's own limit for UDP replies in bytes, usually 1232.
    pub udp_size_max: u16,
    /// What NSID is answered with (RFC 5001); empty or above 128 bytes: not answered.
    pub server_id: &'a [u8],
}

impl Context<'_> {
    /// A context with the usual limit of 1232 bytes and without a server id.
    #[must_use]
    pub fn new(transport: Transport, source: IpAddr) -> Context<'static> {
        Context { transport, source, udp_size_max: 1232, server_id: &[] }
    }
}

/// What became of a query.
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
    },
    /// Nothing is to be sent: the bytes are too few for a header, or are a response themselves.
    Silent,
}

/// Answers one query. `reply` is cleared and filled; `choose` is called at most once, for A and
/// AAAA at a pool's owner, with the index of the pool.
///
/// ```
/// use whered_dns::{Choice, Context, Rcode, RecordType, Transport, Zone, Zones, answer, message};
/// let text = b"@ 60 IN SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let zone = Zone::from_master_file(&"example.com".parse()?, text, &mut |_| Err("no".into()))?;
/// let zones = Zones::builder().add_zone(zone).build()?;
/// let query = message::Query::new(&"ns.example.com".parse()?, RecordType::A).build();
/// let context = Context::new(Transport::Udp, "198.51.100.7".parse()?);
/// let mut reply = Vec::new();
/// let mut choose = |_, _: &_| Choice { answer: None, scope_length_bits: 0 };
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
    reply.clear();
    let Some((request, verdict)) = Request::read(query) else {
        return Outcome::Silent;
    };
    if request.header.is_response() {
        return Outcome::Silent;
    }
    let size_max = size_max(&request, context);
    let writer = Reply::begin(reply, &request, context.server_id, size_max);
    let mut resolver = Resolver {
        zones,
        request: &request,
        context,
        choose,
        reply: writer,
        authoritative: false,
        pool: None,
        scope_length_bits: 0,
    };
    let rcode = match (verdict, &request.question) {
        (Err(rcode), _) => rcode,
        (Ok(()), Some(question)) => resolver.resolve(question),
        (Ok(()), None) => Rcode::FORMERR,
    };
    let Resolver { reply, authoritative, pool, scope_length_bits, .. } = resolver;
    reply.finish(rcode, authoritative, scope_length_bits);
    let question_type = request.question.as_ref().map(|question| question.record_type);
    Outcome::Answered { rcode, question_type, pool }
}

fn size_max(request: &Request<'_>, context: &Context<'_>) -> usize {
    if context.transport == Transport::Tcp {
        return u16::MAX.into();
    }
    let size = request.edns.map_or(0, |edns| edns.size.min(context.udp_size_max));
    usize::from(size).max(UDP_SIZE_MIN)
}

/// The state of one answer.
struct Resolver<'a, 'q> {
    zones: &'a Zones,
    request: &'a Request<'q>,
    context: &'a Context<'a>,
    choose: &'a mut dyn FnMut(usize, &Client) -> Choice,
    reply: Reply<'a, 'q>,
    authoritative: bool,
    pool: Option<usize>,
    scope_length_bits: u8,
}

/// Where a name and its zone's origin stand in the reply.
#[derive(Clone, Copy)]
struct Place {
    name: usize,
    name_length: usize,
    origin: usize,
}

/// What one name led to.
enum Step<'a> {
    Done(Rcode),
    /// The name is delegated: NS are in the authority section.
    Referred,
    /// An alias: its target, and where that stands in the reply.
    Follow {
        target: &'a Name,
        at: usize,
        zone: u32,
        origin: usize,
    },
}

impl<'a> Resolver<'a, '_> {
    /// Answers the question, alias after alias.
    fn resolve(&mut self, question: &Question<'_>) -> Rcode {
        if let Some(rcode) = refuse(question) {
            return rcode;
        }
        let question_type = question.record_type;
        let mut met: [&[u8]; CHAIN_LENGTH_MAX] = [&[]; CHAIN_LENGTH_MAX];
        let mut step = self.first_step(&question.name, question_type);
        let mut target_name;
        for link in 0..CHAIN_LENGTH_MAX {
            let (target, at, zone, origin) = match step {
                Step::Done(rcode) => return rcode,
                Step::Referred => return Rcode::NOERROR,
                Step::Follow { target, at, zone, origin } => (target, at, zone, origin),
            };
            let wire = target.as_wire();
            let seen = met.iter().take(link).any(|met| met.eq_ignore_ascii_case(wire));
            if seen || question.name.as_wire().eq_ignore_ascii_case(wire) {
                return Rcode::NOERROR;
            }
            if let Some(place) = met.get_mut(link) {
                *place = wire;
            }
            target_name = LowerName::read(wire).unwrap_or_else(LowerName::root);
            step = self.next_step(&target_name, question_type, at, zone, origin);
        }
        match step {
            Step::Done(rcode) => rcode,
            Step::Referred | Step::Follow { .. } => Rcode::NOERROR,
        }
    }

    fn first_step(&mut self, name: &LowerName, question_type: RecordType) -> Step<'a> {
        let located = self.zones.locate(name);
        let Some(slot) = self.answering_slot(&located, question_type) else {
            return Step::Done(Rcode::REFUSED);
        };
        let length = name.as_wire().len();
        let place = self.place(QUESTION_OFFSET, length, &slot, None);
        let step = self.step(&located, &slot, place, question_type);
        self.authoritative = !matches!(step, Step::Referred);
        step
    }

    fn next_step(
        &mut self,
        name: &LowerName,
        question_type: RecordType,
        at: usize,
        zone: u32,
        origin: usize,
    ) -> Step<'a> {
        let located = self.zones.locate(name);
        let Some(slot) = self.answering_slot(&located, question_type) else {
            return Step::Done(Rcode::NOERROR);
        };
        let place = self.place(at, name.as_wire().len(), &slot, Some((zone, origin)));
        self.step(&located, &slot, place, question_type)
    }

    /// The node that decides: the name's own, or its closest encloser. DS at an apex is the upper
    /// zone's to answer, when that is served too (RFC 4035, 3.1.4.1).
    fn answering_slot(&self, located: &Located, question_type: RecordType) -> Option<Slot> {
        match located {
            Located::Exact(slot) if question_type == RecordType::DS => {
                Some(self.zones.delegation_of(slot).unwrap_or(*slot))
            }
            Located::Exact(slot) => Some(*slot),
            Located::Below { encloser, .. } => Some(*encloser),
            Located::Outside => None,
        }
    }

    /// Where the zone's origin stands when the name stands at `name`. An alias writes its target
    /// whole, or down to the origin of its own zone `from`.
    fn place(
        &self,
        name: usize,
        name_length: usize,
        slot: &Slot,
        from: Option<(u32, usize)>,
    ) -> Place {
        let origin_length = self.zones.zone_of(slot).origin().as_wire().len();
        let origin = match from {
            Some((zone, origin)) if zone == slot.zone => origin,
            _ => name + name_length.saturating_sub(origin_length),
        };
        Place { name, name_length, origin }
    }

    /// The delegation that keeps this zone from answering for the node.
    fn cut(&self, slot: &Slot, question_type: RecordType) -> Option<Slot> {
        let cut = self.zones.node(slot).cut?;
        let is_own = cut == slot.node && question_type == RecordType::DS;
        (!is_own).then(|| Slot::new(slot.zone as usize, cut as usize, None))
    }

    /// RFC 1034, 4.3.2, 3 for one name.
    fn step(
        &mut self,
        located: &Located,
        slot: &Slot,
        place: Place,
        question_type: RecordType,
    ) -> Step<'a> {
        let encloser_type = match located {
            // Below a delegation DS is the lower zone's as everything else.
            Located::Below { .. } => RecordType::ANY,
            _ => question_type,
        };
        if let Some(cut) = self.cut(slot, encloser_type) {
            self.refer(&cut, place);
            return Step::Referred;
        }
        match located {
            Located::Exact(_) => self.node(slot, place, question_type),
            Located::Below { wildcard: Some(wildcard), .. } => {
                self.node(wildcard, place, question_type)
            }
            _ => {
                self.deny(slot, place);
                Step::Done(Rcode::NXDOMAIN)
            }
        }
    }

    /// Answers from a node that this zone has authority over.
    fn node(&mut self, slot: &Slot, place: Place, question_type: RecordType) -> Step<'a> {
        let is_address = matches!(question_type, RecordType::A | RecordType::AAAA);
        if let (Some(pool), true) = (slot.pool(), is_address) {
            match self.choose(pool, question_type) {
                Some(rrset) => self.put_answer(rrset, place),
                None => self.deny(slot, place),
            }
            return Step::Done(Rcode::NOERROR);
        }
        let node = self.zones.node(slot);
        if let Some(rrset) = node.rrset(question_type) {
            self.put_answer(rrset, place);
            return Step::Done(Rcode::NOERROR);
        }
        if let Some(rrset) = node.rrset(RecordType::CNAME) {
            return self.alias(rrset, slot.zone, place, question_type);
        }
        let has_data = !node.rrsets.is_empty() || slot.pool().is_some();
        if question_type == RecordType::ANY && has_data {
            self.put_answer(&ANY_ANSWER, place);
        } else {
            self.deny(slot, place);
        }
        Step::Done(Rcode::NOERROR)
    }

    fn put_answer(&mut self, rrset: &Rrset, place: Place) {
        self.reply.put(Section::Answer, rrset, place.name, place.origin);
    }

    /// Lets the caller choose one of a pool's answers.
    fn choose(&mut self, pool: usize, question_type: RecordType) -> Option<&'a Rrset> {
        let subnet = self.request.edns.and_then(|edns| edns.subnet);
        let told = subnet.and_then(|subnet| Some((subnet, subnet.client_address()?)));
        let client = match told {
            Some((subnet, address)) => {
                Client { address, prefix_length_bits: subnet.source_length_bits, from_ecs: true }
            }
            None => {
                let address = self.context.source.to_canonical();
                let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
                Client { address, prefix_length_bits, from_ecs: false }
            }
        };
        let choice = (self.choose)(pool, &client);
        self.pool = Some(pool);
        if let Some((subnet, _)) = told {
            let most = subnet.scope_length_max_bits();
            self.scope_length_bits = choice.scope_length_bits.min(most);
        }
        self.zones.pool_answer(pool, choice.answer?, question_type)
    }

    /// Puts an alias and says where it leads. A question for ANY ends with it.
    fn alias(
        &mut self,
        rrset: &'a Rrset,
        zone: u32,
        place: Place,
        question_type: RecordType,
    ) -> Step<'a> {
        let start = self.reply.put(Section::Answer, rrset, place.name, place.origin);
        match (start, &rrset.target) {
            (Some(start), Some(target)) if question_type != RecordType::ANY => {
                // A target that is the origin itself is nothing but a pointer to it.
                let is_origin = rrset.points.first() == Some(&(RECORD_HEAD_SIZE as u32));
                let at = if is_origin { place.origin } else { start + RECORD_HEAD_SIZE };
                Step::Follow { target, at, zone, origin: place.origin }
            }
            _ => Step::Done(Rcode::NOERROR),
        }
    }

    /// The SOA of the zone, with the TTL of negative answers.
    fn deny(&mut self, slot: &Slot, place: Place) {
        let soa = self.zones.zone_of(slot).negative_soa();
        self.reply.put(Section::Authority, soa, place.origin, place.origin);
    }

    /// A referral: the delegation's NS, and the addresses that only this zone can tell (RFC 9471:
    /// those that do not fit set TC).
    fn refer(&mut self, cut: &Slot, place: Place) {
        let zone: &Zone = self.zones.zone_of(cut);
        let node = self.zones.node(cut);
        let Some(servers) = node.rrset(RecordType::NS) else {
            return;
        };
        let owner = place.name + place.name_length - node.owner.as_wire().len();
        let Some(start) = self.reply.put(Section::Authority, servers, owner, place.origin) else {
            return;
        };
        for glue in &node.glue {
            let Some(host) = zone.nodes().get(glue.node as usize) else {
                continue;
            };
            let owner = start + glue.target_offset as usize;
            for record_type in [RecordType::A, RecordType::AAAA] {
                if let Some(rrset) = host.rrset(record_type) {
                    self.reply.put(Section::Additional, rrset, owner, place.origin);
                }
            }
        }
    }
}

/// The questions that no zone is asked about.
fn refuse(question: &Question<'_>) -> Option<Rcode> {
    match question.record_type {
        RecordType::OPT | RecordType::TSIG | RecordType::TKEY => Some(Rcode::FORMERR),
        RecordType::AXFR | RecordType::IXFR => Some(Rcode::REFUSED),
        _ => (question.class != CLASS_IN).then_some(Rcode::REFUSED),
    }
}

/// `HINFO "RFC8482" ""` for an hour.
static ANY_ANSWER: LazyLock<Rrset> = LazyLock::new(|| {
    let data = std::iter::once(&b"\x07RFC8482\x00"[..]);
    Rrset::compile(RecordType::HINFO, 3600, data, &Name::root())
});
