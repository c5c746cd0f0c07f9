//! What the zones say to a question: from a name to the records of its reply.
//!
//! Not for: reading the query, EDNS and the header (`answer.rs`), how records are written
//! (`reply.rs`), where a client is (the caller's `choose` knows).
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
//! Choices made here: ANY is answered by one HINFO (RFC 8482, 4.2), or by the CNAME; transfers are
//! REFUSED (AXFR, which datagrams do not have, is NOTIMP there); of the classes, IN is served, for
//! ANY too, and CHAOS for the server's own names, the rest is REFUSED;
//! an alias chain is followed inside the served zones for [`CHAIN_LENGTH_MAX`] links and ends where
//! it meets a name again; the response code is that of the chain's end (RFC 6604), AA is that of
//! its beginning. A DNAME gives a CNAME with its own TTL, or YXDOMAIN. Answers are minimal: the
//! additional section has only addresses of name servers that the zone has, in referrals and answers of
//! NS (RFC 9471: glue that does not fit sets TC, other addresses are left out). A pool without a choice is NODATA. In a reversed zone a part of
//! an address is NODATA, since addresses may be below it.
//! Concurrency: none inside; the zones are shared and immutable. Cost: no allocation.
#![deny(clippy::indexing_slicing)]

use std::cell::Cell;
use std::sync::LazyLock;

use crate::answer::{Choice, ChoiceVerdict, Client, Context, Transport};
use crate::challenges::Challenges;
use crate::code::{Rcode, RecordType};
use crate::lower::LowerName;
use crate::name::NAME_SIZE_MAX;
use crate::reply::{Names, QUESTION_OFFSET, Reply, Section};
use crate::request::{Question, Request};
use crate::reversed::{Reversed, Synthesised};
use crate::zone::layout::{HAS_DATA, HAS_DNAME, NewRrset, RECORD_HEAD_SIZE};
use crate::zone::{Around, Node, OwnedRrset, Rrset, compile};
use crate::zones::{Located, Place, Zones};

/// How many aliases are followed in one answer.
pub const CHAIN_LENGTH_MAX: usize = 16;
const CLASS_IN: u16 = 1;
const CLASS_CHAOS: u16 = 3;
const CLASS_ANY: u16 = 255;

thread_local! {
    /// What was synthesised last: its memory is used again.
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

/// What one name led to.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, and aliases are rare")]
enum Step {
    Done(Rcode),
    /// The name is delegated: NS are in the authority section.
    Referred,
    /// An alias: its target, and where that stands in the reply.
    Follow(Target),
}

/// Where an alias leads.
struct Target {
    wire: [u8; NAME_SIZE_MAX],
    length: usize,
    /// Where it stands in the reply.
    at: usize,
    /// The zone whose origin ends it as a pointer, and where that stands.
    from: Option<(u32, usize)>,
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
        match self.first_step(name, question_type) {
            Step::Done(rcode) => rcode,
            Step::Referred => Rcode::NOERROR,
            Step::Follow(target) => self.follow(name, target, question_type, target_name),
        }
    }

    #[cold]
    fn follow(
        &mut self,
        name: &LowerName,
        target: Target,
        question_type: RecordType,
        target_name: &mut LowerName,
    ) -> Rcode {
        // Names that were met, by their hashes.
        let mut met = [name.hash_of(name.label_count()); CHAIN_LENGTH_MAX + 1];
        let mut target = target;
        for link in 1..=CHAIN_LENGTH_MAX {
            let wire = target.wire.get(..target.length).unwrap_or_default();
            if target_name.read(wire).is_none() {
                return Rcode::SERVFAIL;
            }
            let hash = target_name.hash_of(target_name.label_count());
            if met.iter().take(link).any(|met| *met == hash) {
                return Rcode::NOERROR;
            }
            if let Some(place) = met.get_mut(link) {
                *place = hash;
            }
            match self.next_step(target_name, question_type, &target) {
                Step::Done(rcode) => return rcode,
                Step::Referred => return Rcode::NOERROR,
                Step::Follow(next) => target = next,
            }
        }
        Rcode::NOERROR
    }

    #[inline(always)]
    fn first_step(&mut self, name: &LowerName, question_type: RecordType) -> Step {
        let Some(located) = self.located(name, question_type) else {
            return Step::Done(Rcode::REFUSED);
        };
        self.zone = Some(located.zone as usize);
        let length = name.as_wire().len();
        let spot = self.spot(QUESTION_OFFSET, length, &located, None);
        let step = self.step(&located, name, spot, question_type);
        self.authoritative = !matches!(step, Step::Referred);
        step
    }

    #[cold]
    fn next_step(&mut self, name: &LowerName, question_type: RecordType, target: &Target) -> Step {
        let Some(located) = self.located(name, question_type) else {
            return Step::Done(Rcode::NOERROR);
        };
        let spot = self.spot(target.at, name.as_wire().len(), &located, target.from);
        self.step(&located, name, spot, question_type)
    }

    /// Where the name is. DS at an apex is the upper zone's to answer, when that is served too
    /// (RFC 4035, 3.1.4.1).
    #[inline(always)]
    fn located(&self, name: &LowerName, question_type: RecordType) -> Option<Located<'a>> {
        let located = self.zones.locate(name)?;
        let is_apex = || located.place.node.is_some_and(|node| node.owner().is_empty());
        if question_type == RecordType::DS
            && located.is_exact
            && is_apex()
            && let Some((zone, node)) = self.zones.delegation_of(located.zone)
        {
            let node = Some(self.zones.zone_at(zone).node(node));
            return Some(Located { zone, place: Place { node, pool: None }, ..located });
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
        located: &Located<'_>,
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
        located: &Located<'a>,
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
            return self.node(located.zone, &located.place, spot, question_type);
        }
        match self.zones.wildcard(name, located) {
            Some(place) => self.node(located.zone, &place, spot, question_type),
            None => {
                self.deny(located.zone, spot);
                Step::Done(Rcode::NXDOMAIN)
            }
        }
    }

    /// Answers from a node that this zone has authority over.
    #[inline]
    fn node(
        &mut self,
        zone: u32,
        place: &Place<'a>,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        if let Some(pool) = place.pool
            && self.zones.pool_answers(pool, question_type)
        {
            return self.pool(pool, zone, spot, question_type);
        }
        if let Some(node) = &place.node {
            let origin_length = self.origin_length(zone);
            if let Some(rrset) = node.rrset(question_type) {
                let put = self.reply.put(Section::Answer, &rrset, spot.names(node, origin_length));
                if question_type == RecordType::NS {
                    self.add_addresses(zone, node, put, spot);
                }
                return Step::Done(Rcode::NOERROR);
            }
            if let Some(rrset) = node.rrset(RecordType::CNAME) {
                let names = spot.names(node, origin_length);
                return self.alias(&rrset, names, zone, spot, question_type);
            }
        }
        let has_data = place.pool.is_some() || place.node.is_some_and(|node| node.has(HAS_DATA));
        if question_type == RecordType::ANY && has_data {
            self.put_answer(&ANY_ANSWER.get(), spot);
        } else {
            self.deny(zone, spot);
        }
        Step::Done(Rcode::NOERROR)
    }

    /// Answers with the tokens of a name that has some. None: it has none, or the zone answers all
    /// the same, by an alias or with another type that it has there.
    #[cold]
    #[inline(never)]
    fn challenge(
        &mut self,
        challenges: &Challenges,
        located: &Located<'a>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Option<Rcode> {
        let now_millis = u64::from(self.context.now_seconds) * 1000;
        let own = located.place.node.filter(|_| located.is_exact);
        if !Challenges::may_own(name.as_wire()) {
            let is_above = !located.is_exact
                && self.zones.wildcard(name, located).is_none()
                && challenges.is_any_below(name.as_wire(), now_millis);
            return is_above.then(|| {
                self.deny(located.zone, spot);
                Rcode::NOERROR
            });
        }
        if own.is_some_and(|node| node.rrset(RecordType::CNAME).is_some()) {
            return None;
        }
        let mut tokens = challenges.find(name.as_wire(), now_millis).peekable();
        tokens.peek()?;
        match question_type {
            RecordType::TXT => {
                let mut data = DATA.take();
                for token in tokens {
                    data.clear();
                    data.push(token.len() as u8);
                    data.extend_from_slice(token.as_bytes());
                    self.reply.put_record(question_type, 0, spot.name, &data);
                }
                DATA.set(data);
            }
            RecordType::ANY => self.put_answer(&ANY_ANSWER.get(), spot),
            _ if own.is_some() => return None,
            _ => self.deny(located.zone, spot),
        }
        Some(Rcode::NOERROR)
    }

    /// Answers for an address below the apex of a reversed zone. None: the zone itself has records
    /// there, or it is no address, or nothing is there and a wildcard may answer.
    #[inline(never)]
    fn synthesise(
        &mut self,
        located: &Located<'_>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Option<Rcode> {
        let place = &located.place;
        let has_data = place.pool.is_some() || place.node.is_some_and(|node| node.has(HAS_DATA));
        if located.is_exact && has_data {
            return None;
        }
        let source = self.context.synthesise?;
        let origin_length = self.origin_length(located.zone);
        let labels = name.as_wire().get(..name.as_wire().len() - origin_length)?;
        let reversed = Reversed::read(labels)?;
        let mut data = DATA.take();
        data.clear();
        let found = match reversed.address {
            Some(address) => {
                source.synthesise(located.zone as usize, address, question_type, &mut data)
            }
            None => Synthesised::NoData,
        };
        let rcode = match found {
            Synthesised::Record { ttl_seconds } => {
                self.reply.put_record(question_type, ttl_seconds, spot.name, &data);
                Some(Rcode::NOERROR)
            }
            Synthesised::NoData
                if question_type == RecordType::ANY && reversed.address.is_some() =>
            {
                self.put_answer(&ANY_ANSWER.get(), spot);
                Some(Rcode::NOERROR)
            }
            Synthesised::Absent if !reversed.is_partial && !located.is_exact => None,
            Synthesised::NoData | Synthesised::Absent => {
                self.deny(located.zone, spot);
                Some(Rcode::NOERROR)
            }
            Synthesised::Failed => Some(Rcode::SERVFAIL),
        };
        DATA.set(data);
        rcode
    }

    /// Puts an rrset that has no names in it.
    fn put_answer(&mut self, rrset: &Rrset<'_>, spot: Spot) {
        let names = Names { owner: spot.name, origin: spot.origin, owner_length: spot.name_length };
        self.reply.put(Section::Answer, rrset, names);
    }

    /// Answers from a pool, at its owner.
    fn pool(&mut self, pool: usize, zone: u32, spot: Spot, question_type: RecordType) -> Step {
        let choice = self.choose(pool);
        match choice.verdict {
            ChoiceVerdict::Answer => {}
            ChoiceVerdict::Refuse => return Step::Done(Rcode::REFUSED),
            ChoiceVerdict::Drop => {
                self.is_dropped = true;
                return Step::Done(Rcode::REFUSED);
            }
        }
        let mut is_answered = false;
        for answer in choice.answers() {
            if let Some(rrset) = self.zones.pool_answer(pool, answer, question_type) {
                self.put_answer(&rrset, spot);
                is_answered = true;
            }
        }
        if is_answered {
            return Step::Done(Rcode::NOERROR);
        }
        // An alias stands alone: that of the first choice counts.
        let first = choice.first();
        match first.and_then(|first| self.zones.pool_answer(pool, first, RecordType::CNAME)) {
            Some(rrset) => {
                let owner_length = spot.name_length;
                let names = Names { owner: spot.name, origin: spot.origin, owner_length };
                self.alias(&rrset, names, zone, spot, question_type)
            }
            None => {
                self.deny(zone, spot);
                Step::Done(Rcode::NOERROR)
            }
        }
    }

    /// Lets the caller choose among a pool's answers.
    fn choose(&mut self, pool: usize) -> Choice {
        let subnet = self.request.edns.as_ref().and_then(|edns| edns.subnet);
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
            // A resolver keeps the answer for what it has told at most (RFC 7871, 7.3.1). Where two
            // pools chose, the longer scope holds for both.
            let scope = choice.scope_length_bits.min(subnet.source_length_bits);
            self.scope_length_bits = self.scope_length_bits.max(scope);
        }
        choice
    }

    /// Puts an alias and says where it leads. A question for ANY ends with it.
    #[cold]
    fn alias(
        &mut self,
        rrset: &Rrset<'_>,
        names: Names,
        zone: u32,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let start = self.reply.put(Section::Answer, rrset, names);
        let (Some(start), true) =
            (start, !matches!(question_type, RecordType::ANY | RecordType::CNAME))
        else {
            return Step::Done(Rcode::NOERROR);
        };
        let mut target = Target {
            wire: [0; NAME_SIZE_MAX],
            length: 0,
            at: start + RECORD_HEAD_SIZE,
            from: Some((zone, spot.origin)),
        };
        // The target ends in the one pointer that there may be, to the zone's origin.
        let point = rrset.points().next();
        let end = point.unwrap_or(rrset.wire.len());
        let labels = rrset.wire.get(RECORD_HEAD_SIZE..end).unwrap_or_default();
        let origin: &[u8] = match point {
            Some(_) => self.zones.zone_at(zone).lower_origin(),
            None => &[],
        };
        target.append(labels);
        target.append(origin);
        if point == Some(RECORD_HEAD_SIZE) {
            // A target that is the origin itself is nothing but a pointer to it.
            target.at = spot.origin;
        }
        if point.is_none() {
            target.from = None;
        }
        Step::Follow(target)
    }

    /// Puts a DNAME and the CNAME that it makes of the name (RFC 6672, 3.1), which is what a
    /// question for CNAME asked for.
    #[cold]
    fn redirect(
        &mut self,
        located: &Located<'_>,
        node: &Node<'_>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let Some(rrset) = node.rrset(RecordType::DNAME) else {
            return Step::Done(Rcode::SERVFAIL);
        };
        let origin_length = self.origin_length(located.zone);
        let prefix_length = name.start_of(located.labels);
        let owner_spot = Spot {
            name: if located.labels == 0 {
                spot.name + spot.name_length - 1
            } else {
                spot.name + prefix_length
            },
            ..spot
        };
        self.reply.put(Section::Answer, &rrset, owner_spot.names(node, origin_length));
        let mut target = Target { wire: [0; NAME_SIZE_MAX], length: 0, at: 0, from: None };
        let prefix = name.as_wire().get(..prefix_length).unwrap_or_default();
        if prefix.len() + rrset.first_data().len() > NAME_SIZE_MAX {
            return Step::Done(Rcode::YXDOMAIN);
        }
        target.append(prefix);
        target.append(rrset.first_data());
        let wire = target.wire.get(..target.length).unwrap_or_default();
        let ttl_seconds = rrset.ttl_seconds();
        match self.reply.put_record(RecordType::CNAME, ttl_seconds, spot.name, wire) {
            Some(start) if question_type != RecordType::CNAME => {
                target.at = start + RECORD_HEAD_SIZE;
                Step::Follow(target)
            }
            _ => Step::Done(Rcode::NOERROR),
        }
    }

    /// The SOA of the zone, with the TTL of negative answers.
    #[inline]
    fn deny(&mut self, zone: u32, spot: Spot) {
        let zone = self.zones.zone_at(zone);
        let owner_length = zone.lower_origin().len();
        let names = Names { owner: spot.origin, origin: spot.origin, owner_length };
        self.reply.put(Section::Authority, &zone.negative_soa(), names);
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
        let start = self.reply.put(Section::Authority, &servers, names);
        self.add_addresses(zone_index, cut, start, spot);
    }

    /// Adds the addresses that the zone has of the servers in an NS rrset, which was put at `start`.
    /// What nobody else can tell sets TC if it does not fit; the rest is left out then.
    #[inline]
    fn add_addresses(&mut self, zone: u32, node: &Node<'a>, start: Option<usize>, spot: Spot) {
        let Some(start) = start else {
            return;
        };
        let zone = self.zones.zone_at(zone);
        for (target, host) in node.glue() {
            let host = zone.node(host);
            let names = Names { owner: start + target, origin: spot.origin, owner_length: 0 };
            for record_type in [RecordType::A, RecordType::AAAA] {
                match host.rrset(record_type) {
                    Some(rrset) if host.cut().is_none() => self.reply.put_if_room(&rrset, names),
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
        match (question.class, question.record_type) {
            (_, RecordType::AXFR) if self.context.transport == Transport::Udp => {
                Some(Rcode::NOTIMP)
            }
            (_, RecordType::AXFR | RecordType::IXFR) => Some(Rcode::REFUSED),
            (CLASS_IN | CLASS_ANY, _) => None,
            (CLASS_CHAOS, _) => Some(self.chaos(question, name)),
            _ => Some(Rcode::REFUSED),
        }
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

impl Target {
    fn append(&mut self, bytes: &[u8]) {
        if let Some(place) = self.wire.get_mut(self.length..self.length + bytes.len()) {
            place.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }
}

const CHAOS_TEXT_SIZE_MAX: usize = 128;

/// `HINFO "RFC8482" ""` for an hour.
static ANY_ANSWER: LazyLock<OwnedRrset> = LazyLock::new(|| {
    let mut rrset = NewRrset::default();
    let data = std::iter::once(&b"\x07RFC8482\x00"[..]);
    let around = Around { owner: &[0], relative_length: 0 };
    compile(&mut rrset, RecordType::HINFO, 3600, data, around);
    rrset.to_owned()
});
