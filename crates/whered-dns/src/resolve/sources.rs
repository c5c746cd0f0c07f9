//! Answers of other sources than the zone's records: pools, lists of addresses, tokens of
//! challenges.
//!
//! Not for: who chooses or knows (the caller), where a name is (`mod.rs`).
//! Concurrency: none inside. Cost: that of the source; no allocation of its own.

use std::net::IpAddr;

use super::signed_sources::PoolOwner;
use super::{ANY_ANSWER, DATA, Resolver, Spot, Step};
use crate::answer::{Choice, ChoiceVerdict, Client};
use crate::challenges::Challenges;
use crate::code::{ExtendedError, Rcode, RecordType};
use crate::lower::LowerName;
use crate::reply::Names;
use crate::reversed::{Reversed, Synthesised};
use crate::zone::layout::HAS_DATA;
use crate::zones::{Reflect, ZoneLocation};

impl<'a> Resolver<'a, '_> {
    /// Answers with the tokens of a name that has some. None: it has none, or the zone answers all
    /// the same, by an alias or with another type that it has there.
    #[cold]
    #[inline(never)]
    pub(super) fn challenge(
        &mut self,
        challenges: &Challenges,
        located: &ZoneLocation<'a>,
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
                self.deny_added(located.zone, name, spot, &[]);
                Rcode::NOERROR
            });
        }
        if own.is_some_and(|node| node.rrset(RecordType::CNAME).is_some()) {
            return None;
        }
        let mut tokens = challenges.find(name.as_wire(), now_millis).peekable();
        tokens.peek()?;
        let is_signed = self.zones.zone_at(located.zone).signed().is_some();
        match question_type {
            // Nobody has signed the HINFO.
            RecordType::ANY if !is_signed => self.put_answer(&ANY_ANSWER.get(), spot),
            RecordType::TXT | RecordType::ANY => {
                let text = |token: &str| [&[token.len() as u8], token.as_bytes()].concat();
                let texts: Vec<Vec<u8>> = tokens.map(text).collect();
                for data in &texts {
                    self.reply.put_record(RecordType::TXT, 0, spot.name, data);
                }
                let data = texts.iter().map(Vec::as_slice);
                self.sign_added(located.zone, name, spot, (RecordType::TXT, 0), data);
            }
            _ if own.is_some() => return None,
            _ => {
                self.deny(located.zone, spot);
                self.deny_added(located.zone, name, spot, &[RecordType::TXT]);
            }
        }
        Some(Rcode::NOERROR)
    }

    /// Answers for an address below the apex of a reversed zone. None: the zone itself has records
    /// there, or it is no address, or nothing is there and a wildcard may answer.
    #[inline(never)]
    pub(super) fn synthesise(
        &mut self,
        located: &ZoneLocation<'_>,
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
            Synthesised::Failed => {
                self.reply.explain(ExtendedError::InvalidData);
                Some(Rcode::SERVFAIL)
            }
        };
        DATA.set(data);
        rcode
    }

    /// Answers from a pool, at its owner.
    pub(super) fn pool(
        &mut self,
        pool: usize,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let zone = located.zone;
        let choice = self.choose(pool);
        match choice.verdict {
            ChoiceVerdict::Answer => {}
            ChoiceVerdict::Refuse => {
                self.reply.explain(ExtendedError::Prohibited);
                return Step::Done(Rcode::REFUSED);
            }
            ChoiceVerdict::Fail => {
                self.reply.explain(ExtendedError::NoReachableAuthority);
                return Step::Done(Rcode::SERVFAIL);
            }
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
        if !self.zones.pool_reflects(pool).is_empty() {
            is_answered |= self.reflect(pool, &choice, spot, question_type);
        }
        let signed = self.proofs_of(zone).and_then(|_| self.zones.signed_owner(name, located));
        if is_answered {
            if let Some(signed) = signed {
                let at = PoolOwner { pool, located, name, signed, spot };
                self.sign_choice(&at, &choice, question_type);
            }
            return Step::Done(Rcode::NOERROR);
        }
        // An alias stands alone: that of the first choice counts.
        let first = choice.first();
        match first.and_then(|first| self.zones.pool_answer(pool, first, RecordType::CNAME)) {
            Some(rrset) => {
                let owner_length = spot.name_length;
                let names = Names { owner: spot.name, origin: spot.origin, owner_length };
                let step = self.alias(&rrset, names, zone, spot, question_type);
                if let (Some(signed), Some(first)) = (signed, first) {
                    let at = PoolOwner { pool, located, name, signed, spot };
                    self.sign_choice(&at, &Choice::of(Some(first), 0), RecordType::CNAME);
                }
                step
            }
            None => {
                match signed {
                    Some(_) if self.is_compact(zone) => {
                        self.deny_type_of_pool(located, name, pool, spot, question_type);
                    }
                    Some(signed) => self.deny_at_pool(zone, pool, signed, spot, question_type),
                    None => self.deny_for_now(pool, zone, spot),
                }
                Step::Done(Rcode::NOERROR)
            }
        }
    }

    /// Answers with addresses of the client. Whether there is one of the type.
    #[cold]
    fn reflect(
        &mut self,
        pool: usize,
        choice: &Choice,
        spot: Spot,
        question_type: RecordType,
    ) -> bool {
        let subnet = self.request.edns.as_ref().and_then(|edns| edns.subnet);
        let told = subnet.and_then(|subnet| subnet.client_address());
        let source = self.context.source.to_canonical();
        let reflects = self.zones.pool_reflects(pool);
        let ttl_seconds = self.zones.pool_ttl_seconds(pool);
        let mut is_answered = false;
        for answer in choice.answers() {
            let Some(reflect) = reflects.get(answer).copied().flatten() else { continue };
            let told = told.filter(|_| reflect != Reflect::Source);
            let source = match reflect {
                Reflect::Source | Reflect::Both => Some(source),
                Reflect::Subnet => None,
                Reflect::Best => Some(source).filter(|_| told.is_none()),
            };
            if let (Some(_), Some(subnet)) = (told, subnet) {
                self.scope_length_bits = self.scope_length_bits.max(subnet.source_length_bits);
            }
            for address in told.into_iter().chain(source.filter(|source| told != Some(*source))) {
                match (address, question_type) {
                    (IpAddr::V4(v4), RecordType::A) => {
                        self.reply.put_record(RecordType::A, ttl_seconds, spot.name, &v4.octets());
                    }
                    (IpAddr::V6(v6), RecordType::AAAA) => {
                        let octets = v6.octets();
                        self.reply.put_record(RecordType::AAAA, ttl_seconds, spot.name, &octets);
                    }
                    _ => continue,
                }
                is_answered = true;
            }
        }
        is_answered
    }

    /// The SOA behind a pool that has nothing of this type, at this moment or for this client: it
    /// may be remembered no longer than what the pool answers.
    pub(super) fn deny_for_now(&mut self, pool: usize, zone: u32, spot: Spot) {
        let ttl_seconds = self.zones.pool_ttl_seconds(pool);
        if let Some(start) = self.put_negative_soa(zone, spot)
            && ttl_seconds < self.zones.negative_soa(zone).ttl_seconds()
        {
            self.reply.set_ttl(start, ttl_seconds);
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
        if told.is_some() {
            // Longer than what it told: it may get another answer by telling more (RFC 7871,
            // 7.2.1). Where two pools chose, the longer scope holds for both.
            let most = if client.address.is_ipv4() { 32 } else { 128 };
            self.scope_length_bits = self.scope_length_bits.max(choice.scope_length_bits.min(most));
        }
        choice
    }
}
