//! Signatures of a pool's answers at one of its owners, in a zone that is signed here.
//!
//! Not for: choosing answers, what signs (`signing/signer.rs`).
//!
//! ```text
//! SignedOwner  answers   [answer 0: RRSIG of A, of AAAA | ...]         when zones are built
//!              denials   NSEC without one of the types                 when zones are built
//!              combined  type and several answers -> RRSIG over all    at the first question
//! ```
//!
//! The zone's own NSEC of the owner has every type that some answer may have. It cannot deny one
//! of them for a client whose site lacks it, so that an NSEC without that type does.
//! Concurrency: readers of `combined` take its lock shared. It has at most [`COMBINED_COUNT_MAX`]
//! combinations, and all owners together about [`COMBINED_TOTAL_MAX`].
#![deny(clippy::indexing_slicing)]

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::CompiledPool;
use crate::code::RecordType;
use crate::name::{Name, wire_name_length};
use crate::signing::{Demand, ZoneSigner};
use crate::zone::layout::NewRrset;
use crate::zone::sign::nsec_data;
use crate::zone::{CompressionContext, OwnedRrset, Rrset, SignedZone, Zone, compile};

/// How many combinations of answers at an owner have their signatures kept.
const COMBINED_COUNT_MAX: usize = 4096;
/// How many at all owners of all zones.
const COMBINED_TOTAL_MAX: usize = 1 << 16;

/// How many are kept at the moment.
static COMBINED_TOTAL: AtomicUsize = AtomicUsize::new(0);

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SignedOwner {
    /// In wire form and lower case.
    owner: Box<[u8]>,
    /// For each answer the signatures of its rrsets.
    answers: Vec<Box<[(RecordType, OwnedRrset)]>>,
    /// NSEC without a type, and its signatures; the last one lacks none but CNAME. Compact denial
    /// has none.
    denials: Vec<(RecordType, OwnedRrset, OwnedRrset)>,
    /// By the type and the answers in order.
    combined: RwLock<CombinedSignatures>,
}

/// Signatures of combinations, which count against the total for as long as they are kept.
#[derive(Debug, Default)]
struct CombinedSignatures(HashMap<Box<[u16]>, Arc<OwnedRrset>>);

impl CombinedSignatures {
    /// Keeps signatures, if need be in the place of all that are there; where other owners have
    /// the whole total, they are not kept (the signer's cache may have them).
    fn insert(&mut self, key: Box<[u16]>, made: Arc<OwnedRrset>) {
        let is_full = || COMBINED_TOTAL.load(Ordering::Relaxed) >= COMBINED_TOTAL_MAX;
        if self.0.len() >= COMBINED_COUNT_MAX || is_full() {
            self.clear();
        }
        if !is_full() && self.0.insert(key, made).is_none() {
            COMBINED_TOTAL.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn clear(&mut self) {
        COMBINED_TOTAL.fetch_sub(self.0.len(), Ordering::Relaxed);
        self.0.clear();
    }
}

impl Drop for CombinedSignatures {
    fn drop(&mut self) {
        self.clear();
    }
}

impl SignedOwner {
    /// Signs the answers of a pool at an owner; none when the system has no random numbers.
    pub(super) fn build(
        zone: &Zone,
        signer: &ZoneSigner,
        name: &Name,
        owner: &[u8],
        pool: &CompiledPool,
    ) -> Option<SignedOwner> {
        let ttl_seconds = pool.ttl_seconds;
        let sign = |(record_type, rrset): &(RecordType, OwnedRrset)| {
            let demand = Demand { owner, record_type: *record_type, ttl_seconds };
            let data = rrset.get();
            let data = data.records().map(|(_, data)| data);
            Some((*record_type, signer.sign(&demand, data, &|| true)?))
        };
        let answers = pool.answers.iter().map(|answer| answer.iter().map(sign).collect());
        let answers = answers.collect::<Option<_>>()?;
        let combined = RwLock::default();
        let is_compact = zone.signed().is_some_and(SignedZone::is_compact);
        if is_compact {
            let (owner, denials) = (owner.into(), Vec::new());
            return Some(SignedOwner { owner, answers, denials, combined });
        }
        let node = zone.find(name)?;
        let next = node.rrset(RecordType::NSEC)?.first_data();
        let next = next.get(..wire_name_length(next)?)?;
        let own = node.rrsets().map(|rrset| rrset.record_type);
        let types: BTreeSet<RecordType> =
            signer.pool_types(owner)?.iter().copied().chain(own).collect();
        let ttl_seconds = ttl_seconds.min(zone.negative_soa().ttl_seconds());
        let deny = |lacking: RecordType| {
            let is_there = |of: &RecordType| *of != lacking && *of != RecordType::CNAME;
            let data = nsec_data(next, types.iter().copied().filter(is_there));
            let record_type = RecordType::NSEC;
            let demand = Demand { owner, record_type, ttl_seconds };
            let data_of_one = std::iter::once(data.as_slice());
            let signatures = signer.sign(&demand, data_of_one, &|| true)?;
            Some((lacking, one_record(record_type, ttl_seconds, &data), signatures))
        };
        let lacking = signer.pool_types(owner)?.iter().copied().chain([RecordType::CNAME]);
        let denials = lacking.map(deny).collect::<Option<_>>()?;
        Some(SignedOwner { owner: owner.into(), answers, denials, combined })
    }

    /// The owner in wire form and lower case.
    pub(crate) fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// The signatures of an answer's rrset.
    pub(crate) fn of_answer(&self, answer: usize, record_type: RecordType) -> Option<Rrset<'_>> {
        let own = self.answers.get(answer)?.iter();
        own.filter(|(of, _)| *of == record_type).map(|(_, rrset)| rrset.get()).next()
    }

    /// NSEC that denies a type, and its signatures.
    pub(crate) fn denial(&self, record_type: RecordType) -> Option<(Rrset<'_>, Rrset<'_>)> {
        let known = self.denials.iter().find(|(of, ..)| *of == record_type);
        let (_, record, signatures) = known.or(self.denials.last())?;
        Some((record.get(), signatures.get()))
    }

    /// The signatures over several answers' records of a type; `permits` says whether they may be
    /// made.
    pub(super) fn combined(
        &self,
        signer: &ZoneSigner,
        pool: &CompiledPool,
        answers: &[u16],
        record_type: RecordType,
        permits: &dyn Fn() -> bool,
    ) -> Option<Arc<OwnedRrset>> {
        let answers: BTreeSet<u16> = answers.iter().copied().collect();
        let key: Box<[u16]> =
            std::iter::once(record_type.0).chain(answers.iter().copied()).collect();
        let read = self.combined.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.0.get(&key) {
            return Some(Arc::clone(known));
        }
        drop(read);
        let chosen = answers.iter().filter_map(|answer| pool.answers.get(usize::from(*answer)));
        let rrsets = chosen.flat_map(|answer| answer.iter()).filter(|(of, _)| *of == record_type);
        let rrsets: Vec<Rrset<'_>> = rrsets.map(|(_, rrset)| rrset.get()).collect();
        let data = rrsets.iter().flat_map(Rrset::records).map(|(_, data)| data);
        let demand = Demand { owner: &self.owner, record_type, ttl_seconds: pool.ttl_seconds };
        let made = Arc::new(signer.sign(&demand, data, permits)?);
        let mut known = self.combined.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, Arc::clone(&made));
        Some(made)
    }
}

/// One record without names to compress.
fn one_record(record_type: RecordType, ttl_seconds: u32, data: &[u8]) -> OwnedRrset {
    let mut rrset = NewRrset::default();
    let around = CompressionContext { owner: &[0], relative_length: 0 };
    // One record of less than a message's size, which is all that `compile` asks for.
    let _ = compile(&mut rrset, record_type, ttl_seconds, std::iter::once(data), around);
    rrset.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_of_all_owners_together_are_bounded_and_count_while_they_are_kept() {
        let made = Arc::new(one_record(RecordType::TXT, 60, b"\x01a"));
        let mut owners: Vec<CombinedSignatures> = Vec::new();
        for _ in 0..COMBINED_TOTAL_MAX / COMBINED_COUNT_MAX + 4 {
            let mut owner = CombinedSignatures::default();
            for number in 0..COMBINED_COUNT_MAX as u16 + 10 {
                owner.insert([number].into(), Arc::clone(&made));
                assert!(owner.0.len() <= COMBINED_COUNT_MAX);
            }
            owners.push(owner);
        }
        let kept: usize = owners.iter().map(|owner| owner.0.len()).sum();
        assert!(kept <= COMBINED_TOTAL_MAX, "{kept}");
        // Tests that run at the same time have a few.
        assert!(COMBINED_TOTAL.load(Ordering::Relaxed) >= kept);
        drop(owners);
        assert!(COMBINED_TOTAL.load(Ordering::Relaxed) < COMBINED_COUNT_MAX);
    }
}
