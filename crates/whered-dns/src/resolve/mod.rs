//! Resolves a question: from a name to the records of its reply.
//!
//! Not for: reading the query, EDNS and the header (`answer.rs`), how records are written
//! (`reply.rs`), where aliases lead (`aliases.rs`), what pools and other sources say
//! (`sources.rs`).
//!
//! ```text
//! zones.locate: the zone, then one search in its index
//!    place ─ pool? ─► choose(pool, client) ─► its rrset, precompiled     ┐
//!       │ └ rrset of the type ─► precompiled                             ├─► reply.rs
//!       │ rare: cut ─► referral · CNAME, DNAME ─► again with the target  │
//!       │       wildcard ─► as its node, owner = the question's name     │
//!       └ nothing ─► NODATA or NXDOMAIN with the SOA                     ┘
//! ```
//!
//! Choices made here: ANY is answered by one HINFO (RFC 8482, 4.2), in a signed zone by one rrset,
//! or by the CNAME; transfers are REFUSED (AXFR, which datagrams do not have, is NOTIMP there); of
//! the classes, IN is served, for ANY too, and CHAOS for the server's own names, the rest is
//! REFUSED; an alias chain is followed inside the served zones for [`CHAIN_LENGTH_MAX`] links and
//! ends where it meets a name again; the response code is that of the chain's end (RFC 6604), AA is
//! that of its beginning. A DNAME gives a CNAME with its own TTL, or YXDOMAIN. Answers are minimal:
//! the additional section has only addresses of name servers that the zone has, in referrals and
//! answers of NS (RFC 9471: glue that does not fit sets TC, other addresses are left out). A pool
//! without a choice is NODATA. In a reversed zone a part of an address is NODATA, since addresses
//! may be below it. What pools and reversed zones say is not there is remembered for their TTL at
//! most: the SOA's is lowered to it.
//! Concurrency: none inside; the zones are shared and immutable. Cost: no allocation.
#![deny(clippy::indexing_slicing)]

mod aliases;
mod compact;
mod proofs;
mod signed_sources;
mod sources;

use std::cell::Cell;
use std::sync::LazyLock;

use self::aliases::Target;
use self::proofs::{Expansion, Proven};
use crate::answer::{Choice, Client, Context, Transport};
use crate::code::{ExtendedError, Rcode, RecordType};
use crate::lower::LowerName;
use crate::reply::{Names, QUESTION_OFFSET, Reply, Section};
use crate::request::{Question, Request};
use crate::zone::layout::{HAS_DATA, HAS_DNAME, NewRrset};
use crate::zone::{CompressionContext, Node, OwnedRrset, Rrset, SignedZone, compile};
use crate::zones::{Place, ZoneLocation, Zones};

/// How many aliases are followed in one answer.
pub const CHAIN_LENGTH_MAX: usize = 16;
const CLASS_IN: u16 = 1;
const CLASS_CHAOS: u16 = 3;
const CLASS_ANY: u16 = 255;

thread_local! {
    /// The buffer of the last synthesised record, whose memory is reused.
    pub(crate) static DATA: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The state of one answer.
pub(crate) struct Resolver<'a, 'q> {
    zones: &'a Zones,
    request: &'a Request<'q>,
    context: &'a Context<'a>,
    choose: &'a mut dyn FnMut(usize, &Client) -> Choice,
    pub(crate) reply: Reply<'a, 'q>,
    pub(crate) authoritative: bool,
    pub(crate) pool: Option<usize>,
    pub(crate) zone: Option<usize>,
    pub(crate) scope_length_bits: u8,
    /// The pool wants no reply.
    pub(crate) is_dropped: bool,
    /// The client's address is its own.
    pub(crate) is_proven: bool,
    /// A signature was not made because of the limit.
    is_over_limit: Cell<bool>,
    /// Wildcards that stood in for names of signed zones, still to be proven.
    expanded: Vec<Expansion>,
    proven: Proven,
}

/// Where a name and its zone's origin stand in the reply.
#[derive(Clone, Copy)]
struct Spot {
    name: usize,
    name_length: usize,
    origin: usize,
}

impl Spot {
    /// For an rrset of `node` that is given as the name's.
    fn names(&self, node: &Node<'_>, origin_length: usize) -> Names {
        let owner_length = node.owner().len() + origin_length;
        Names { owner: self.name, origin: self.origin, owner_length }
    }
}

/// The result of resolving one name.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, and aliases are rare")]
enum Step {
    Done(Rcode),
    /// The name is delegated: NS are in the authority section.
    Referred,
    /// An alias: its target, and where that stands in the reply.
    Follow(Target),
}

impl<'a, 'q> Resolver<'a, 'q> {
    #[inline(always)]
    pub(crate) fn new(
        zones: &'a Zones,
        request: &'a Request<'q>,
        context: &'a Context<'a>,
        choose: &'a mut dyn FnMut(usize, &Client) -> Choice,
        reply: Reply<'a, 'q>,
    ) -> Resolver<'a, 'q> {
        Resolver {
            zones,
            request,
            context,
            choose,
            reply,
            authoritative: false,
            pool: None,
            zone: None,
            scope_length_bits: 0,
            is_dropped: false,
            is_proven: false,
            is_over_limit: Cell::new(false),
            expanded: Vec::new(),
            proven: Proven::default(),
        }
    }

    /// Answers the question, alias after alias.
    #[inline(always)]
    pub(crate) fn resolve(
        &mut self,
        question: &Question<'_>,
        name: &LowerName,
        target_name: &mut LowerName,
    ) -> Rcode {
        if let Some(rcode) = self.refuse(question, name) {
            return rcode;
        }
        let question_type = question.record_type;
        let rcode = match self.first_step(name, question_type) {
            Step::Done(rcode) => rcode,
            Step::Referred => Rcode::NOERROR,
            Step::Follow(target) => self.follow(name, target, question_type, target_name),
        };
        self.prove_expansions();
        rcode
    }

    #[inline(always)]
    fn first_step(&mut self, name: &LowerName, question_type: RecordType) -> Step {
        let Some(located) = self.located(name, question_type) else {
            self.reply.explain(ExtendedError::NotAuthoritative);
            return Step::Done(Rcode::REFUSED);
        };
        self.zone = Some(located.zone as usize);
        if let Some(edns) = &self.request.edns
            && edns.compact_ok
            && self.proofs_of(located.zone).is_some_and(SignedZone::is_compact)
        {
            self.reply.acknowledge_compact_ok();
        }
        if self.zones.zone_at(located.zone).is_unavailable() {
            return Step::Done(Rcode::SERVFAIL);
        }
        let length = name.as_wire().len();
        let spot = self.spot(QUESTION_OFFSET, length, &located, None);
        let step = self.step(&located, name, spot, question_type);
        self.authoritative = !matches!(step, Step::Referred);
        step
    }

    /// Where the name is. DS at an apex is the upper zone's to answer, when that is served too
    /// (RFC 4035, 3.1.4.1).
    #[inline(always)]
    fn located(&self, name: &LowerName, question_type: RecordType) -> Option<ZoneLocation<'a>> {
        let located = self.zones.locate(name)?;
        let is_apex = || located.place.node.is_some_and(|node| node.owner().is_empty());
        if question_type == RecordType::DS
            && located.is_exact
            && is_apex()
            && let Some((zone, node)) = self.zones.delegation_of(located.zone)
        {
            let node = Some(self.zones.zone_at(zone).node(node));
            return Some(ZoneLocation { zone, place: Place { node, pool: None }, ..located });
        }
        Some(located)
    }

    /// Where the zone's origin stands when the name stands at `name`. An alias writes its target
    /// whole, or down to the origin of its own zone `from`.
    #[inline(always)]
    fn spot(
        &self,
        name: usize,
        name_length: usize,
        located: &ZoneLocation<'_>,
        from: Option<(u32, usize)>,
    ) -> Spot {
        let origin_length = self.origin_length(located.zone);
        let origin = match from {
            Some((zone, origin)) if zone == located.zone => origin,
            _ => name + name_length.saturating_sub(origin_length),
        };
        Spot { name, name_length, origin }
    }

    #[inline]
    fn origin_length(&self, zone: u32) -> usize {
        self.zones.zone_at(zone).lower_origin().len()
    }

    /// RFC 1034, 4.3.2, 3 for one name.
    #[inline(always)]
    fn step(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        if let Some(node) = &located.place.node {
            if let Some(cut) = node.cut() {
                let is_own = cut == node.place && located.is_exact;
                if !(is_own && question_type == RecordType::DS) {
                    self.refer(located.zone, &self.zones.zone_at(located.zone).node(cut), spot);
                    return Step::Referred;
                }
            }
            if node.has(HAS_DNAME) && !located.is_exact {
                return self.redirect(located, node, name, spot, question_type);
            }
        }
        if let Some(challenges) = self.context.challenges
            && self.signs_what_it_adds(located.zone)
            && let Some(rcode) = self.challenge(challenges, located, name, spot, question_type)
        {
            return Step::Done(rcode);
        }
        if self.zones.is_reversed(located.zone)
            && let Some(rcode) = self.synthesise(located, name, spot, question_type)
        {
            return Step::Done(rcode);
        }
        if located.is_exact {
            return self.node(located, name, &located.place, spot, question_type);
        }
        match self.zones.wildcard(name, located) {
            Some(place) => {
                self.note_expansion(located, name, spot);
                self.node(located, name, &place, spot, question_type)
            }
            None => Step::Done(match self.proofs_of(located.zone) {
                None => {
                    self.deny(located.zone, spot);
                    Rcode::NXDOMAIN
                }
                Some(signed) if signed.is_compact() => {
                    self.deny_name(located.zone, name, spot, question_type)
                }
                Some(signed) => {
                    self.deny_name_with_proof(signed, located, name, spot);
                    Rcode::NXDOMAIN
                }
            }),
        }
    }

    /// Answers from a node that this zone has authority over.
    #[inline(always)]
    fn node(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        place: &Place<'a>,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let zone = located.zone;
        if question_type == RecordType::NSEC && self.is_compact(zone) {
            return self.answer_nsec(located, name, place.node.as_ref(), spot);
        }
        if let Some(pool) = place.pool
            && self.zones.pool_answers(pool, question_type)
            && !place.is_of_signing(question_type)
        {
            return self.pool(pool, located, name, spot, question_type);
        }
        if let Some(node) = &place.node {
            let origin_length = self.origin_length(zone);
            if let Some(rrset) = node.rrset(question_type) {
                let put = self.reply.put(Section::Answer, &rrset, spot.names(node, origin_length));
                self.sign_found(located, name, node, question_type, spot);
                self.prove_expansions();
                if question_type == RecordType::NS {
                    self.add_addresses(zone, node, put, spot);
                }
                return Step::Done(Rcode::NOERROR);
            }
            if let Some(rrset) = node.rrset(RecordType::CNAME) {
                let names = spot.names(node, origin_length);
                let step = self.alias(&rrset, names, zone, spot, question_type);
                self.sign_found(located, name, node, RecordType::CNAME, spot);
                return step;
            }
        }
        let has_data = place.pool.is_some() || place.node.is_some_and(|node| node.has(HAS_DATA));
        if question_type == RecordType::ANY && has_data {
            match place.node.filter(|_| self.zones.zone_at(zone).signed().is_some()) {
                Some(node) => return self.put_any(located, name, &node, spot),
                None => self.put_answer(&ANY_ANSWER.get(), spot),
            }
        } else {
            self.prove_expansions();
            self.deny(zone, spot);
            if self.proofs_of(zone).is_some() {
                self.prove_no_data(located, name, place.node.as_ref(), spot);
            }
        }
        Step::Done(Rcode::NOERROR)
    }

    /// Answers ANY by one rrset of a signed zone, whose HINFO nobody has signed (RFC 8482, 4.1).
    #[cold]
    fn put_any(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: &Node<'a>,
        spot: Spot,
    ) -> Step {
        let zone = located.zone;
        let is_own =
            |rrset: &Rrset<'_>| !matches!(rrset.record_type, RecordType::RRSIG | RecordType::NSEC);
        // A name at which only a pool answers has NSEC, which says so.
        let nsec = || node.rrset(RecordType::NSEC);
        if let Some(rrset) = node.rrsets().find(is_own).or_else(nsec) {
            let origin_length = self.origin_length(zone);
            self.reply.put(Section::Answer, &rrset, spot.names(node, origin_length));
            self.sign_found(located, name, node, rrset.record_type, spot);
        } else if self.is_compact(zone) {
            return self.answer_nsec(located, name, Some(node), spot);
        }
        Step::Done(Rcode::NOERROR)
    }

    /// Puts the signatures of an rrset of a node that answers for a name.
    #[inline]
    fn sign_found(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: &Node<'a>,
        record_type: RecordType,
        spot: Spot,
    ) {
        if self.signs_expansion(located) {
            self.sign_expansion(located.zone, name, node, record_type, spot);
        } else {
            self.sign(Section::Answer, located.zone, node, record_type, spot.name);
        }
    }

    /// Puts an rrset that has no names in it.
    fn put_answer(&mut self, rrset: &Rrset<'_>, spot: Spot) {
        let names = Names { owner: spot.name, origin: spot.origin, owner_length: spot.name_length };
        self.reply.put(Section::Answer, rrset, names);
    }

    #[inline]
    fn deny(&mut self, zone: u32, spot: Spot) {
        self.put_negative_soa(zone, spot);
    }

    /// The SOA of the zone, with the TTL of negative answers. Gives where it stands.
    #[inline]
    fn put_negative_soa(&mut self, zone: u32, spot: Spot) -> Option<usize> {
        let owner_length = self.origin_length(zone);
        let names = Names { owner: spot.origin, origin: spot.origin, owner_length };
        let rrset = match self.proofs_of(zone) {
            Some(signed) => signed.prepared.soa.get(),
            None => self.zones.negative_soa(zone),
        };
        self.reply.put(Section::Authority, &rrset, names)
    }

    /// A referral: the delegation's NS, and their addresses.
    #[inline]
    fn refer(&mut self, zone_index: u32, cut: &Node<'a>, spot: Spot) {
        let Some(servers) = cut.rrset(RecordType::NS) else {
            return;
        };
        let zone = self.zones.zone_at(zone_index);
        let owner_length = cut.owner().len() + zone.lower_origin().len();
        let owner = spot.name + spot.name_length.saturating_sub(owner_length);
        let names = Names { owner, origin: spot.origin, owner_length };
        self.prove_expansions();
        let start = self.reply.put(Section::Authority, &servers, names);
        self.prove_delegation(zone_index, cut, owner, spot);
        self.add_addresses(zone_index, cut, start, spot);
    }

    /// Adds the addresses that the zone has of the servers in an NS rrset, which was put at
    /// `start`. Sets TC if an address that no other server has does not fit; leaves the others out
    /// then.
    #[inline]
    fn add_addresses(&mut self, zone: u32, node: &Node<'a>, start: Option<usize>, spot: Spot) {
        let Some(start) = start else {
            return;
        };
        let zones = self.zones;
        let hosts = zones.zone_at(zone);
        for (target, host) in node.glue() {
            let host = hosts.node(host);
            let names = Names { owner: start + target, origin: spot.origin, owner_length: 0 };
            for record_type in [RecordType::A, RecordType::AAAA] {
                match host.rrset(record_type) {
                    Some(rrset) if host.cut().is_none() => {
                        let is_put = self.reply.put_if_it_fits(&rrset, names);
                        self.sign_if_it_fits(
                            zone,
                            &host,
                            record_type,
                            is_put.then_some(names.owner),
                        );
                    }
                    Some(rrset) => {
                        self.reply.put(Section::Additional, &rrset, names);
                    }
                    None => {}
                }
            }
        }
    }

    /// The questions that no zone is asked about.
    #[inline]
    fn refuse(&mut self, question: &Question<'_>, name: &LowerName) -> Option<Rcode> {
        // Types from 128 on are no data, or rare.
        if question.class == CLASS_IN && question.record_type.0 < RecordType::NXNAME.0 {
            return None;
        }
        let (rcode, error) = match (question.class, question.record_type) {
            (_, RecordType::AXFR) if self.context.transport == Transport::Udp => {
                (Rcode::NOTIMP, ExtendedError::NotSupported)
            }
            (_, RecordType::AXFR | RecordType::IXFR) => (Rcode::REFUSED, ExtendedError::Prohibited),
            (_, RecordType::NXNAME) => (Rcode::FORMERR, ExtendedError::InvalidQueryType),
            (CLASS_IN | CLASS_ANY, _) => return None,
            (CLASS_CHAOS, _) => return Some(self.chaos(question, name)),
            _ => (Rcode::REFUSED, ExtendedError::NotSupported),
        };
        self.reply.explain(error);
        Some(rcode)
    }

    /// The server's own names (RFC 4892).
    #[cold]
    fn chaos(&mut self, question: &Question<'_>, name: &LowerName) -> Rcode {
        let text = match name.as_wire() {
            b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => self.context.version,
            b"\x08hostname\x04bind\x00" | b"\x02id\x06server\x00" => self.context.server_id,
            _ => &[],
        };
        let is_text = matches!(question.record_type, RecordType::TXT | RecordType::ANY);
        let mut data = [0; CHAOS_TEXT_SIZE_MAX + 1];
        let Some((length, place)) = data.split_first_mut() else {
            return Rcode::SERVFAIL;
        };
        let Some(place) = place.get_mut(..text.len()).filter(|place| is_text && !place.is_empty())
        else {
            return Rcode::REFUSED;
        };
        place.copy_from_slice(text);
        *length = text.len() as u8;
        let data = data.get(..=text.len()).unwrap_or_default();
        self.reply.put_chaos(data);
        Rcode::NOERROR
    }
}

const CHAOS_TEXT_SIZE_MAX: usize = 128;

/// `HINFO "RFC8482" ""` for an hour.
static ANY_ANSWER: LazyLock<OwnedRrset> = LazyLock::new(|| {
    let mut rrset = NewRrset::default();
    let data = std::iter::once(&b"\x07RFC8482\x00"[..]);
    let around = CompressionContext { owner: &[0], relative_length: 0 };
    compile(&mut rrset, RecordType::HINFO, 3600, data, around);
    rrset.to_owned()
});
