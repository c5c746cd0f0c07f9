//! Signatures and proofs of signed zones, for queries with DO (RFC 4035, 3.1; RFC 5155, 7.2).
//!
//! Not for: which records answer (`mod.rs`), the order of names and hashes (`zone/signed.rs`).
//!
//! ```text
//! there        RRSIG of each rrset            by a wildcard: and that the name is not there
//! NODATA       SOA, and the NSEC or NSEC3 of the name without the type
//! NXDOMAIN     SOA, what covers the name, and what covers the wildcard of its closest encloser
//! referral     DS, or the NSEC or NSEC3 of the delegation without it
//! ```
//!
//! Invariants: a proof is written once; what does not fit sets TC, as a whole answer would.
//! Concurrency: none inside. Cost: a search for each name; for NSEC3 a hash of each. The proof of
//! a name below the apex is one copy and one search.

use std::cell::Cell;

use super::{Resolver, Spot};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::reply::{Names, Owner, Section};
use crate::zone::canonical::append_label;
use crate::zone::layout::RECORD_HEAD_SIZE;
use crate::zone::signed::{Denial, HashedOwner, covered_type, hash_before};
use crate::zone::{Node, NodeRef, Rrset, SignedZone};
use crate::zones::ZoneLocation;

thread_local! {
    /// The buffer of the last key, whose memory is used again.
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How many proofs of an answer are remembered; one of those behind them may come twice.
const PROOFS_MAX: usize = 4;

/// The proofs that an answer has already.
#[derive(Default)]
pub(super) struct Proven {
    /// The zone, and the block of the NSEC's owner or the place of the NSEC3 in its list.
    places: [(u32, u32); PROOFS_MAX],
    count: u8,
}

impl Proven {
    /// Notes a proof; false if it is there.
    pub(super) fn note(&mut self, proof: (u32, u32)) -> bool {
        let count = usize::from(self.count);
        if self.places.iter().take(count).any(|known| *known == proof) {
            return false;
        }
        if let Some(free) = self.places.get_mut(count) {
            *free = proof;
            self.count += 1;
        }
        true
    }
}

/// A wildcard that stood in for a name: what is to be proven of it before the answer ends.
pub(super) struct Expansion {
    zone: u32,
    /// The name in wire form and lower case.
    name: Box<[u8]>,
    encloser_labels: usize,
    /// The offset of the zone's origin in the reply.
    origin: usize,
}

impl<'a> Resolver<'a, '_> {
    /// The proofs of a zone, if it has some and the client asks for them.
    #[inline(always)]
    pub(super) fn proofs_of(&self, zone: u32) -> Option<&'a SignedZone> {
        let edns = self.request.edns.as_ref()?;
        let zones = self.zones;
        if edns.dnssec_ok { zones.zone_at(zone).signed() } else { None }
    }

    /// Puts the signatures of an rrset of a node behind it. `owner` is where the rrset's name
    /// stands.
    #[inline]
    pub(super) fn sign(
        &mut self,
        section: Section,
        zone: u32,
        node: &Node<'_>,
        record_type: RecordType,
        owner: usize,
    ) {
        if self.proofs_of(zone).is_some() {
            self.put_signatures(section, node, record_type, owner);
        }
    }

    /// Puts the signatures of addresses in the additional section, if these stand there, at
    /// `owner`, and if all signatures fit: they are not missed otherwise.
    #[inline]
    pub(super) fn sign_if_it_fits(
        &mut self,
        zone: u32,
        node: &Node<'_>,
        record_type: RecordType,
        owner: Option<usize>,
    ) {
        let (Some(owner), Some(_)) = (owner, self.proofs_of(zone)) else { return };
        let signatures = node.rrset(RecordType::RRSIG).into_iter().flat_map(|all| all.records());
        let covering = signatures.filter(|(_, data)| covered_type(data) == record_type.0);
        let size: usize = covering.map(|(_, data)| RECORD_HEAD_SIZE + data.len()).sum();
        if self.reply.fits(size) {
            self.put_signatures(Section::Additional, node, record_type, owner);
        }
    }

    #[cold]
    fn put_signatures(
        &mut self,
        section: Section,
        node: &Node<'_>,
        covered: RecordType,
        owner: usize,
    ) {
        let Some(signatures) = node.rrset(RecordType::RRSIG) else { return };
        for (ttl_seconds, data) in signatures.records() {
            if covered_type(data) == covered.0 {
                let owner = Owner::At(owner);
                self.reply.put_data(section, RecordType::RRSIG, ttl_seconds, owner, data);
            }
        }
    }

    /// Remembers that a name is answered by the wildcard below its closest encloser.
    pub(super) fn note_expansion(
        &mut self,
        located: &ZoneLocation<'_>,
        name: &LowerName,
        spot: Spot,
    ) {
        // Compact denial signs for the name itself.
        if self.proofs_of(located.zone).is_some_and(|signed| !signed.is_compact()) {
            self.expanded.push(Expansion {
                zone: located.zone,
                name: name.as_wire().into(),
                encloser_labels: located.labels,
                origin: spot.origin,
            });
        }
    }

    /// Puts what proves that the names do not exist for which wildcards stood in. It comes before
    /// anything else in the authority section.
    #[inline]
    pub(super) fn prove_expansions(&mut self) {
        if !self.expanded.is_empty() {
            self.put_expansions();
        }
    }

    #[cold]
    fn put_expansions(&mut self) {
        for expanded in std::mem::take(&mut self.expanded) {
            let Expansion { zone, name, encloser_labels, origin } = expanded;
            let Some(signed) = self.proofs_of(zone) else { continue };
            let mut lower = Box::new(LowerName::root());
            if lower.read(&name).is_none() {
                continue;
            }
            let prover = Prover { zone, signed, origin };
            match &signed.denial {
                Denial::Names(_) => self.put_name(&prover, &lower),
                Denial::Hashes { .. } => {
                    let next_closer = lower.label_count() - encloser_labels - 1;
                    self.put_hash(&prover, &lower, next_closer);
                }
                Denial::Compact => {}
            }
        }
    }

    /// Proves that a name has no records of a type. `node` is the name's, or that of the wildcard
    /// that answers for it; none for an empty non-terminal.
    #[cold]
    pub(super) fn prove_no_data(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: Option<&Node<'a>>,
        spot: Spot,
    ) {
        let Some(signed) = self.proofs_of(located.zone) else { return };
        let prover = Prover { zone: located.zone, signed, origin: spot.origin };
        match &signed.denial {
            Denial::Names(_) => match node.filter(|node| node.rrset(RecordType::NSEC).is_some()) {
                Some(node) => self.put_nsec(&prover, node),
                None if located.is_exact => self.put_name(&prover, name),
                // A wildcard that has nothing but names below it.
                None => self.put_wildcard(&prover, name, located.labels),
            },
            Denial::Compact => self.deny_type(located, name, node, spot),
            Denial::Hashes { .. } if located.is_exact => {
                if !self.put_match(&prover, name, 0) {
                    // Names below which is nothing but unsigned delegations may have no hash.
                    self.put_encloser(&prover, name, name.label_count());
                }
            }
            Denial::Hashes { .. } => {
                // The expansion proves the rest.
                let above = name.label_count() - located.labels;
                self.put_match(&prover, name, above);
                let wildcard = wildcard_of(name, located.labels);
                self.put_match(&prover, &wildcard, 0);
            }
        }
    }

    /// Proves that a name does not exist, nor a wildcard for it.
    #[cold]
    pub(super) fn prove_no_name(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        spot: Spot,
    ) {
        let Some(signed) = self.proofs_of(located.zone) else { return };
        let prover = Prover { zone: located.zone, signed, origin: spot.origin };
        match &signed.denial {
            Denial::Names(_) => {
                self.put_name(&prover, name);
                self.put_wildcard(&prover, name, located.labels);
            }
            Denial::Hashes { .. } => {
                let encloser_labels = self.put_encloser(&prover, name, located.labels);
                let wildcard = wildcard_of(name, encloser_labels);
                self.put_hash(&prover, &wildcard, 0);
            }
            // `deny_name` is for it.
            Denial::Compact => {}
        }
    }

    /// Puts DS of a delegation, or proves that there is none. `name` ends with the delegation.
    #[inline]
    pub(super) fn prove_delegation(&mut self, zone: u32, cut: &Node<'a>, owner: usize, spot: Spot) {
        if let Some(signed) = self.proofs_of(zone) {
            self.put_delegation(&Prover { zone, signed, origin: spot.origin }, cut, owner);
        }
    }

    #[cold]
    fn put_delegation(&mut self, prover: &Prover<'a>, cut: &Node<'a>, owner: usize) {
        if let Some(signers) = cut.rrset(RecordType::DS) {
            for (ttl_seconds, data) in signers.records() {
                let owner = Owner::At(owner);
                self.reply.put_data(Section::Authority, RecordType::DS, ttl_seconds, owner, data);
            }
            self.put_signatures(Section::Authority, cut, RecordType::DS, owner);
            return;
        }
        match &prover.signed.denial {
            Denial::Names(_) => self.put_nsec(prover, cut),
            Denial::Compact => {
                let origin = self.zones.zone_at(prover.zone).lower_origin();
                let name = [cut.owner(), origin].concat();
                let (section, types) = (Section::Authority, [RecordType::NS]);
                self.put_made_nsec(prover.zone, &name, owner, section, &types, None);
            }
            Denial::Hashes { .. } => {
                let mut name = Box::new(LowerName::root());
                let origin = self.zones.zone_at(prover.zone).lower_origin();
                if name.read(&[cut.owner(), origin].concat()).is_some()
                    && !self.put_match(prover, &name, 0)
                {
                    self.put_encloser(prover, &name, name.label_count());
                }
            }
        }
    }

    /// Puts the NSEC at or before a name.
    fn put_name(&mut self, prover: &Prover<'a>, name: &LowerName) {
        let apex = self.zones.zone_at(prover.zone).origin().label_count();
        let mut key = KEY.take();
        append_key(name, apex, name.label_count(), &mut key);
        self.put_key(prover, &key);
        KEY.set(key);
    }

    /// Puts the NSEC at or before the wildcard below the last `labels` labels of a name.
    fn put_wildcard(&mut self, prover: &Prover<'a>, name: &LowerName, labels: usize) {
        let apex = self.zones.zone_at(prover.zone).origin().label_count();
        let mut key = KEY.take();
        append_key(name, apex, labels, &mut key);
        append_label(b"*", &mut key);
        self.put_key(prover, &key);
        KEY.set(key);
    }

    fn put_key(&mut self, prover: &Prover<'a>, key: &[u8]) {
        let Denial::Names(names) = &prover.signed.denial else { return };
        if let Some(place) = names.at_or_before(key) {
            self.put_nsec(prover, &self.zones.zone_at(prover.zone).node(place));
        }
    }

    /// Denies a name that does not exist, and a wildcard for it: the SOA and the proofs.
    pub(super) fn deny_name_with_proof(
        &mut self,
        signed: &'a SignedZone,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        spot: Spot,
    ) {
        let apex = located.place.node.filter(|node| node.owner().is_empty());
        let (Some(apex), Some(prepared)) = (apex, &signed.prepared.soa_and_wildcard) else {
            self.deny(located.zone, spot);
            return self.prove_no_name(located, name, spot);
        };
        let owner_length = self.origin_length(located.zone);
        let names = Names { owner: spot.origin, origin: spot.origin, owner_length };
        self.reply.put(Section::Authority, &prepared.get(), names);
        self.proven.note((located.zone, apex.place.0));
        let prover = Prover { zone: located.zone, signed, origin: spot.origin };
        self.put_name(&prover, name);
    }

    fn put_nsec(&mut self, prover: &Prover<'a>, node: &Node<'a>) {
        let NodeRef(place) = node.place;
        if !self.proven.note((prover.zone, place)) {
            return;
        }
        let Some(record) = node.rrset(RecordType::NSEC) else { return };
        let Some(owner) = self.put_proof(&record, node.owner(), prover.origin) else { return };
        self.put_signatures(Section::Authority, node, RecordType::NSEC, owner);
    }

    /// Puts NSEC or NSEC3. Gives where its owner stands.
    fn put_proof(&mut self, record: &Rrset<'_>, labels: &[u8], origin: usize) -> Option<usize> {
        let (ttl_seconds, data) = record.records().next()?;
        let owner = Owner::Named { labels, origin };
        self.reply.put_data(Section::Authority, record.record_type, ttl_seconds, owner, data)
    }

    /// Puts the NSEC3 of a name that lacks its first `skipped` labels, if there is one.
    fn put_match(&mut self, prover: &Prover<'a>, name: &LowerName, skipped: usize) -> bool {
        match prover.hashed(name, skipped) {
            Some((true, place, hashed)) => {
                self.put_nsec3(prover, place, hashed);
                true
            }
            _ => false,
        }
    }

    /// Puts the NSEC3 that is or covers a name that lacks its first `skipped` labels.
    fn put_hash(&mut self, prover: &Prover<'a>, name: &LowerName, skipped: usize) {
        if let Some((_, place, hashed)) = prover.hashed(name, skipped) {
            self.put_nsec3(prover, place, hashed);
        }
    }

    fn put_nsec3(&mut self, prover: &Prover<'a>, place: usize, hashed: &'a HashedOwner) {
        if !self.proven.note((prover.zone, place as u32)) {
            return;
        }
        let record = hashed.record.get();
        let Some(owner) = self.put_proof(&record, &hashed.label, prover.origin) else { return };
        for (ttl_seconds, data) in hashed.signatures.get().records() {
            let (section, owner) = (Section::Authority, Owner::At(owner));
            self.reply.put_data(section, RecordType::RRSIG, ttl_seconds, owner, data);
        }
    }

    /// Proves the closest encloser (RFC 5155, 7.2.1): the NSEC3 of the longest name above that has
    /// one, of at most `labels` labels, and what covers the name one label longer. Gives the
    /// encloser's labels.
    fn put_encloser(&mut self, prover: &Prover<'a>, name: &LowerName, labels: usize) -> usize {
        let count = name.label_count();
        let apex = self.zones.zone_at(prover.zone).origin().label_count();
        let mut encloser = labels.min(count.saturating_sub(1)).max(apex);
        while encloser > apex && !self.put_match(prover, name, count - encloser) {
            encloser -= 1;
        }
        if encloser == apex {
            self.put_match(prover, name, count - apex);
        }
        if count > encloser {
            self.put_hash(prover, name, count - encloser - 1);
        }
        encloser
    }
}

/// The zone whose proofs are written, and the offset of its origin in the reply.
struct Prover<'a> {
    zone: u32,
    signed: &'a SignedZone,
    origin: usize,
}

impl<'a> Prover<'a> {
    /// The NSEC3 of a name that lacks its first labels, or what covers it.
    fn hashed(&self, name: &LowerName, skipped: usize) -> Option<(bool, usize, &'a HashedOwner)> {
        let Denial::Hashes { parameters, list, .. } = &self.signed.denial else { return None };
        let wire = name.suffix(name.label_count() - skipped);
        hash_before(list, parameters.hash(wire))
    }
}

/// Writes the key of the last `labels` labels of a name, without those of the apex.
fn append_key(name: &LowerName, apex_labels: usize, labels: usize, key: &mut Vec<u8>) {
    key.clear();
    let wire = name.as_wire();
    for depth in apex_labels + 1..=labels {
        let label = wire.get(name.start_of(depth)..).and_then(|rest| {
            let (&length, rest) = rest.split_first()?;
            rest.get(..usize::from(length))
        });
        append_label(label.unwrap_or_default(), key);
    }
}

/// The wildcard below the last `labels` labels of a name.
fn wildcard_of(name: &LowerName, labels: usize) -> Box<LowerName> {
    let mut wildcard = Box::new(LowerName::root());
    // A name that is too long for its wildcard has none, and covers itself.
    if wildcard.read(&[b"\x01*", name.suffix(labels)].concat()).is_none() {
        wildcard.clone_from(&Box::new(name.clone()));
    }
    wildcard
}
