//! Signatures and proofs of what is not of a zone's file, in zones that are signed here: answers of
//! pools, tokens of challenges.
//!
//! Not for: which answer it is (`sources.rs`), proofs of the zone's own names (`proofs.rs`).
//! Concurrency: none inside. Cost: a copy for one answer of a pool; several together, and tokens,
//! are signed at the first question for them.

use super::{Resolver, Spot};
use crate::answer::{ANSWERS_MAX, Choice};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;
use crate::reply::{Owner, Section};
use crate::signing::Demand;
use crate::zone::Rrset;
use crate::zones::{SignedOwner, ZoneLocation};

/// A name at which a pool answers, in a zone that is signed here.
#[derive(Clone, Copy)]
pub(super) struct PoolOwner<'o, 'a> {
    pub(super) pool: usize,
    pub(super) located: &'o ZoneLocation<'a>,
    pub(super) name: &'o LowerName,
    pub(super) signed: &'o SignedOwner,
    pub(super) spot: Spot,
}

impl<'a> Resolver<'a, '_> {
    /// Whether records that are not of the zone's file can be given with what validators want.
    #[cold]
    pub(super) fn signs_what_it_adds(&self, zone: u32) -> bool {
        self.zones.zone_at(zone).signed().is_none_or(|signed| signed.signer.is_some())
    }

    /// Puts the signatures of a pool's answers, which were put before.
    #[cold]
    pub(super) fn sign_choice(
        &mut self,
        at: &PoolOwner<'_, 'a>,
        choice: &Choice,
        record_type: RecordType,
    ) {
        let PoolOwner { pool, located, name, signed, spot } = *at;
        let zone = located.zone;
        let mut given = [0_u16; ANSWERS_MAX];
        let mut count = 0;
        for answer in choice.answers() {
            if self.zones.pool_answer(pool, answer, record_type).is_some()
                && let Some(free) = given.get_mut(count)
            {
                *free = answer as u16;
                count += 1;
            }
        }
        match given.get(..count).unwrap_or_default() {
            all if self.signs_expansion(located) => {
                self.sign_expanded_choice(zone, name, spot, pool, all, record_type);
            }
            [only] => {
                if let Some(signatures) = signed.of_answer((*only).into(), record_type) {
                    self.put_answer(&signatures, spot);
                }
            }
            several => {
                let made = self.sign_combination(zone, pool, signed, several, record_type);
                if let Some(signatures) = made {
                    self.put_answer(&signatures.get(), spot);
                }
            }
        }
    }

    /// Puts the proofs that wildcards stood in for names, and what denies a type at a pool's owner.
    #[cold]
    pub(super) fn deny_at_pool(
        &mut self,
        zone: u32,
        pool: usize,
        signed: &SignedOwner,
        spot: Spot,
        record_type: RecordType,
    ) {
        let zones = self.zones;
        let served = zones.zone_at(zone);
        // The zone's own NSEC of the owner covers the same names, and an answer may have one NSEC
        // of an owner.
        let node = Name::from_wire(signed.owner()).ok().and_then(|name| served.find(&name));
        if let Some(node) = node {
            self.proven.note((zone, node.place.0));
        }
        self.prove_expansions();
        self.deny_for_now(pool, zone, spot);
        let relative = signed.owner().len().checked_sub(served.lower_origin().len());
        let labels = relative.and_then(|length| signed.owner().get(..length));
        let (Some(labels), Some((record, signatures))) = (labels, signed.denial(record_type))
        else {
            return;
        };
        let owner = Owner::Named { labels, origin: spot.origin };
        self.put_denial(owner, &record, &signatures);
    }

    fn put_denial(&mut self, owner: Owner<'_>, record: &Rrset<'_>, signatures: &Rrset<'_>) {
        let Some((ttl_seconds, data)) = record.records().next() else { return };
        let section = Section::Authority;
        let start = self.reply.put_data(section, RecordType::NSEC, ttl_seconds, owner, data);
        let Some(start) = start else { return };
        for (ttl_seconds, data) in signatures.records() {
            let owner = Owner::At(start);
            self.reply.put_data(section, RecordType::RRSIG, ttl_seconds, owner, data);
        }
    }

    /// Puts the signatures of records that were put at a name, if the client asks for them.
    #[cold]
    pub(super) fn sign_added<'d>(
        &mut self,
        zone: u32,
        name: &LowerName,
        spot: Spot,
        (record_type, ttl_seconds): (RecordType, u32),
        data: impl Iterator<Item = &'d [u8]>,
    ) {
        if self.proofs_of(zone).is_none() {
            return;
        }
        let demand = Demand { owner: name.as_wire(), record_type, ttl_seconds };
        if let Some(signatures) = self.sign_now(zone, &demand, data) {
            self.put_answer(&signatures.get(), spot);
        }
    }

    /// Proves that a name has nothing but these types, and nothing of names below it, by an NSEC
    /// made for it (RFC 9824, 3.1): the zone's chain does not know the name.
    #[cold]
    pub(super) fn deny_added(
        &mut self,
        zone: u32,
        name: &LowerName,
        spot: Spot,
        types: &[RecordType],
    ) {
        if self.proofs_of(zone).is_some_and(|signed| signed.signer.is_some()) {
            let section = Section::Authority;
            self.put_made_nsec(zone, name.as_wire(), spot.name, section, types, None);
        }
    }
}
