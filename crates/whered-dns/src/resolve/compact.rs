//! Compact denial (RFC 9824): one NSEC at the name that was asked for, made and signed for the
//! question; and the limit on all signatures that are made for questions.
//!
//! Not for: proofs that a zone has beforehand (`proofs.rs`), what signs (`signing/signer.rs`).
//!
//! ```text
//! no such name      NOERROR, NSEC with NXNAME at the name; with the flag CO: NXDOMAIN
//! no such type      NSEC with the types of the name, or of the wildcard that stands in for it
//! by a wildcard     as if the zone had the name: signed for the name, and no NSEC
//! delegation        NSEC with NS at the delegation
//! NSEC itself       the record that proves the rest, as an answer
//! ```
//!
//! Signatures are kept by the zone's signer. Invariant: a reply that would lack a signature for the
//! sake of the limit is not sent; another one stands in for it (`answer.rs`).
//! Concurrency: none inside. Cost: a digest over the records; a signature where none is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Resolver, Spot, Step};
use crate::code::{Rcode, RecordType};
use crate::lower::LowerName;
use crate::name::NAME_SIZE_MAX;
use crate::reply::{Owner, Section};
use crate::signing::Demand;
use crate::zone::sign::nsec_data;
use crate::zone::{Node, OwnedRrset, Rrset, SignedZone};
use crate::zones::{SignedOwner, ZoneLocation};

const LABEL_SIZE_MAX: usize = 63;

impl<'a> Resolver<'a, '_> {
    /// Whether the zone proves absence by NSEC made for their questions.
    #[inline]
    pub(super) fn is_compact(&self, zone: u32) -> bool {
        self.zones.zone_at(zone).signed().is_some_and(SignedZone::is_compact)
    }

    /// Whether a name that was found at a wildcard is to be signed as if the zone had it.
    #[inline]
    pub(super) fn signs_expansion(&self, located: &ZoneLocation<'_>) -> bool {
        !located.is_exact && self.is_compact(located.zone)
    }

    /// Whether a signature was not made because of the limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.is_over_limit.get()
    }

    /// Asks whether a signature may be made, and notes that one may not.
    fn permits(&self) -> bool {
        let limit = self.context.signatures;
        let is_permitted =
            limit.is_none_or(|limit| limit.permits(self.context.source, self.is_proven));
        if !is_permitted {
            self.is_over_limit.set(true);
        }
        is_permitted
    }

    /// Signs records that are not signed beforehand.
    #[cold]
    pub(super) fn sign_now<'d>(
        &self,
        zone: u32,
        demand: &Demand<'_>,
        data: impl Iterator<Item = &'d [u8]>,
    ) -> Option<OwnedRrset> {
        let signer = self.zones.zone_at(zone).signer()?;
        signer.sign(demand, data, &|| self.permits())
    }

    /// The signatures over several answers of a pool that are given together.
    pub(super) fn sign_combination(
        &self,
        zone: u32,
        pool: usize,
        signed: &SignedOwner,
        answers: &[u16],
        record_type: RecordType,
    ) -> Option<Arc<OwnedRrset>> {
        let permits = || self.permits();
        self.zones.combined_signatures(zone, pool, signed, answers, record_type, &permits)
    }

    /// Signs an rrset of a wildcard for the name for which it stands in.
    #[cold]
    pub(super) fn sign_expansion(
        &mut self,
        zone: u32,
        name: &LowerName,
        node: &Node<'a>,
        record_type: RecordType,
        spot: Spot,
    ) {
        // Nobody signs signatures (RFC 4035, 2.2).
        if self.proofs_of(zone).is_none() || record_type == RecordType::RRSIG {
            return;
        }
        let Some(rrset) = node.rrset(record_type) else { return };
        let records: Vec<_> = self.zones.zone_at(zone).records_of_rrset(node, rrset).collect();
        let data = records.iter().map(|record| &*record.data);
        self.sign_added(zone, name, spot, (record_type, rrset.ttl_seconds()), data);
    }

    /// Signs answers of a pool at a wildcard for the name for which it stands in.
    #[cold]
    pub(super) fn sign_expanded_choice(
        &mut self,
        zone: u32,
        name: &LowerName,
        spot: Spot,
        pool: usize,
        answers: &[u16],
        record_type: RecordType,
    ) {
        let zones = self.zones;
        let rrsets = answers
            .iter()
            .filter_map(|answer| zones.pool_answer(pool, usize::from(*answer), record_type));
        let rrsets: Vec<Rrset<'_>> = rrsets.collect();
        let data = rrsets.iter().flat_map(Rrset::records).map(|(_, data)| data);
        let ttl_seconds = zones.pool_ttl_seconds(pool);
        self.sign_added(zone, name, spot, (record_type, ttl_seconds), data);
    }

    /// Proves that a name does not exist. Gives the response code.
    #[cold]
    pub(super) fn deny_name(
        &mut self,
        zone: u32,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Rcode {
        if question_type == RecordType::NSEC {
            let section = Section::Answer;
            self.put_made_nsec(
                zone,
                name.as_wire(),
                spot.name,
                section,
                &[RecordType::NXNAME],
                None,
            );
            return Rcode::NOERROR;
        }
        self.deny(zone, spot);
        let section = Section::Authority;
        self.put_made_nsec(zone, name.as_wire(), spot.name, section, &[RecordType::NXNAME], None);
        if self.request.edns.as_ref().is_some_and(|edns| edns.compact_ok) {
            Rcode::NXDOMAIN
        } else {
            Rcode::NOERROR
        }
    }

    /// Answers a question for the NSEC of a name that exists.
    #[cold]
    pub(super) fn answer_nsec(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: Option<&Node<'a>>,
        spot: Spot,
    ) -> Step {
        let types = self.types_at(located, name, node);
        let (zone, section) = (located.zone, Section::Answer);
        self.put_made_nsec(zone, name.as_wire(), spot.name, section, &types, None);
        Step::Done(Rcode::NOERROR)
    }

    /// Proves that a name lacks a type.
    pub(super) fn deny_type(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: Option<&Node<'a>>,
        spot: Spot,
    ) {
        let types = self.types_at(located, name, node);
        let (zone, section) = (located.zone, Section::Authority);
        self.put_made_nsec(zone, name.as_wire(), spot.name, section, &types, None);
    }

    /// Proves that a name at which a pool answers lacks a type for this client, for as long as the
    /// pool's answers hold.
    pub(super) fn deny_type_of_pool(
        &mut self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        pool: usize,
        spot: Spot,
        record_type: RecordType,
    ) {
        self.deny_for_now(pool, located.zone, spot);
        let place = match located.is_exact {
            true => Some(located.place),
            false => self.zones.wildcard(name, located),
        };
        let node = place.and_then(|place| place.node);
        let mut types = self.types_at(located, name, node.as_ref());
        types.retain(|of| *of != record_type && *of != RecordType::CNAME);
        let most = Some(self.zones.pool_ttl_seconds(pool));
        let (zone, section) = (located.zone, Section::Authority);
        self.put_made_nsec(zone, name.as_wire(), spot.name, section, &types, most);
    }

    /// The types of a name, or of the wildcard that stands in for it.
    fn types_at(
        &self,
        located: &ZoneLocation<'a>,
        name: &LowerName,
        node: Option<&Node<'a>>,
    ) -> Vec<RecordType> {
        let is_cut = node.is_some_and(|node| node.cut().is_some());
        let own = node.into_iter().flat_map(Node::rrsets).map(|rrset| rrset.record_type);
        // Of a delegation, the parent's side tells of these alone (RFC 4035, 2.3).
        let is_told = |of: &RecordType| !is_cut || matches!(*of, RecordType::NS | RecordType::DS);
        let mut types: BTreeSet<RecordType> = own.filter(is_told).collect();
        let owner = match located.is_exact {
            true => name.as_wire().to_vec(),
            false => [b"\x01*", name.suffix(located.labels)].concat(),
        };
        let signer = self.zones.zone_at(located.zone).signer();
        let of_pool = signer.and_then(|signer| signer.pool_types(&owner));
        types.extend(of_pool.into_iter().flatten());
        types.into_iter().collect()
    }

    /// Puts NSEC of an owner that stands at `at`, with its signatures if the client asks for them.
    pub(super) fn put_made_nsec(
        &mut self,
        zone: u32,
        owner: &[u8],
        at: usize,
        section: Section,
        types: &[RecordType],
        ttl_seconds_max: Option<u32>,
    ) {
        let record_type = RecordType::NSEC;
        let ttl_seconds = self.zones.negative_soa(zone).ttl_seconds();
        let ttl_seconds = ttl_seconds.min(ttl_seconds_max.unwrap_or(u32::MAX));
        let data = nsec_data(&successor(owner), types.iter().copied());
        self.reply.put_data(section, record_type, ttl_seconds, Owner::At(at), &data);
        if self.proofs_of(zone).is_none() {
            return;
        }
        let demand = Demand { owner, record_type, ttl_seconds };
        let Some(signatures) = self.sign_now(zone, &demand, std::iter::once(data.as_slice()))
        else {
            return;
        };
        for (ttl_seconds, data) in signatures.get().records() {
            let (record_type, owner) = (RecordType::RRSIG, Owner::At(at));
            self.reply.put_data(section, record_type, ttl_seconds, owner, data);
        }
    }
}

/// The name that comes next in canonical order (RFC 4034, 6.1): that of a label of one zero below,
/// or where such a name would be too long, the least one that is not (RFC 4471, 3.1.2).
fn successor(owner: &[u8]) -> Vec<u8> {
    if owner.len() + 2 <= NAME_SIZE_MAX {
        return [b"\x01\x00", owner].concat();
    }
    let mut rest = owner;
    while let Some((label, parent)) = first_label(rest) {
        if label.len() < LABEL_SIZE_MAX && rest.len() < NAME_SIZE_MAX {
            let length = [label.len() as u8 + 1];
            return [&length[..], label, b"\x00", parent].concat();
        }
        let kept = label.iter().rposition(|byte| *byte != u8::MAX);
        if let Some(kept) = kept
            && let Some((last, front)) = label.get(..=kept).and_then(|label| label.split_last())
        {
            // Upper case counts as lower case, which comes later.
            let next = if *last == b'@' { b'[' } else { last + 1 };
            return [&[kept as u8 + 1], front, &[next], parent].concat();
        }
        rest = parent;
    }
    vec![0]
}

fn first_label(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = name.split_first().filter(|(length, _)| **length > 0)?;
    rest.split_at_checked(length.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::canonical::order_key;

    fn name_of(first: &[u8], size: usize) -> Vec<u8> {
        let mut name = [&[first.len() as u8], first].concat();
        while name.len() + 1 < size {
            let label = (size - 1 - name.len()).min(LABEL_SIZE_MAX + 1) - 1;
            name.push(label as u8);
            name.extend(vec![b'a'; label]);
        }
        name.push(0);
        name
    }

    #[test]
    fn the_next_name_is_the_least_that_is_greater() {
        assert_eq!(successor(b"\x01a\x00"), b"\x01\x00\x01a\x00");
        assert_eq!(successor(b"\x00"), b"\x01\x00\x00");
        for (first, size, expected) in [
            (&b"b"[..], 254, &b"b\x00"[..]),
            (b"b", 255, b"c"),
            (b"@", 255, b"["),
            (b"b\xff\xff", 255, b"c"),
            (&[b'b'; 63], 254, &[&[b'b'; 62][..], b"c"].concat()),
        ] {
            let name = name_of(first, size);
            assert_eq!(name.len(), size);
            let next = successor(&name);
            assert!(next.len() <= NAME_SIZE_MAX && crate::Name::from_wire(&next).is_ok());
            assert_eq!(first_label(&next).expect("a label").0, expected);
            assert!(order_key(&next) > order_key(&name));
        }
        let all = name_of(&[0xff; 3], 255);
        let parent = first_label(&all).expect("a label").1;
        let next = successor(&all);
        assert!(order_key(&next) > order_key(&all) && order_key(&next) > order_key(parent));
    }
}
