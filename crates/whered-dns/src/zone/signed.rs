//! What a signed zone has beside its records: the order of its names, or their hashes, and when its
//! signatures end.
//!
//! Not for: which proof an answer needs (`resolve/proofs.rs`), making signatures.
//!
//! ```text
//! NSEC    owners in canonical order (`ordered_names.rs`): the one at or before a name says what is
//!         next; what answers have in common is prepared
//! NSEC3   hashes in order (RFC 5155), each with its NSEC3 and RRSIG; no owners of the zone
//! compact nothing: each NSEC is made for its question (RFC 9824)
//! ```
//!
//! Signatures stand at their owners as records of type RRSIG, each with its own TTL.
//! Invariants: a zone with RRSIG has one of its SOA, a DNSKEY, and NSEC at the apex or NSEC3 of it,
//! or a signer here.
//! Concurrency: immutable. Cost: a search by halves; a hash of a name takes the zone's iterations.
#![deny(clippy::indexing_slicing)]

use std::collections::HashSet;
use std::fmt;

use ring::digest;

use super::layout::{NewRrset, RECORD_HEAD_SIZE, Rrset, TTL_AT};
use super::ordered_names::OrderedNames;
use super::{OwnedRrset, Zone};
use crate::code::RecordType;
use crate::name::wire_name_length;
use crate::signing::ZoneSigner;

/// The most iterations of a hash that are served: resolvers take a zone with more for unsigned
/// (RFC 9276, 3.2), and each costs time that strangers may ask for.
pub(super) const ITERATIONS_MAX: u16 = 150;
/// The bytes of a SHA-1 hash.
pub(crate) const HASH_SIZE: usize = 20;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SignedZone {
    pub(crate) denial: Denial,
    pub(crate) first_expiry_seconds: u32,
    /// The signer of a zone that is signed here.
    pub(crate) signer: Option<SignerOfZone>,
    pub(crate) prepared: PreparedDenials,
}

/// What many negative answers have in common, as one piece that is copied: records of the apex.
#[derive(Debug, Default)]
pub(crate) struct PreparedDenials {
    /// The SOA of negative answers, with its signatures.
    pub(crate) soa: OwnedRrset,
    /// That SOA, and behind it the NSEC of the apex with its signatures, where that denies a
    /// wildcard below the apex, as in most zones.
    pub(crate) soa_and_wildcard: Option<OwnedRrset>,
}

impl PreparedDenials {
    pub(super) fn of(zone: &Zone, denial: &Denial) -> PreparedDenials {
        let apex = zone.apex();
        let soa = zone.negative_soa();
        let ttl_seconds_max = soa.ttl_seconds();
        let mut block = NewRrset {
            record_type: soa.record_type,
            count: soa.count,
            points: soa.points().map(|point| point as u16).collect(),
            wire: soa.wire.to_vec(),
        };
        let mut append = |rrset: Rrset<'_>, covered: Option<RecordType>, ttl_seconds_max: u32| {
            for (ttl_seconds, data) in rrset.records() {
                if covered.is_some_and(|covered| covered_type(data) != covered.0) {
                    continue;
                }
                let start = block.wire.len();
                block.wire.extend_from_slice(&record_head(rrset.record_type, data));
                let ttl = ttl_seconds.min(ttl_seconds_max).to_be_bytes();
                if let Some(place) = block.wire.get_mut(start + TTL_AT..start + TTL_AT + 4) {
                    place.copy_from_slice(&ttl);
                }
                block.wire.extend_from_slice(data);
                block.count += 1;
            }
            block.to_owned()
        };
        let signatures = apex.rrset(RecordType::RRSIG);
        let Some(signatures) = signatures else { return PreparedDenials::default() };
        let soa = append(signatures, Some(RecordType::SOA), ttl_seconds_max);
        let soa_and_wildcard = match denial {
            Denial::Names(names) if names.at_or_before(b"*\0") == Some(apex.place) => {
                apex.rrset(RecordType::NSEC).map(|nsec| {
                    append(nsec, None, u32::MAX);
                    append(signatures, Some(RecordType::NSEC), u32::MAX)
                })
            }
            _ => None,
        };
        PreparedDenials { soa, soa_and_wildcard }
    }
}

/// A record before its data, without a TTL, whose owner stands where a question's name does.
fn record_head(record_type: RecordType, data: &[u8]) -> [u8; RECORD_HEAD_SIZE] {
    let [[t0, t1], [l0, l1]] = [record_type.0, data.len() as u16].map(u16::to_be_bytes);
    [0xc0, 12, t0, t1, 0, 1, 0, 0, 0, 0, l0, l1]
}

impl SignedZone {
    /// Whether absence is proven by NSEC that are made for their questions.
    pub(crate) fn is_compact(&self) -> bool {
        matches!(self.denial, Denial::Compact)
    }
}

/// The signer of a zone, and what it has signed.
pub(crate) struct SignerOfZone {
    pub(crate) signer: ZoneSigner,
    /// Digests of what the signatures of the zone's records are over.
    pub(crate) digests: HashSet<u128>,
}

impl fmt::Debug for SignerOfZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.signer.fmt(f)
    }
}

/// How the zone proves that something is not there.
#[derive(Debug)]
pub(crate) enum Denial {
    /// Names with NSEC, with their owners' blocks.
    Names(OrderedNames),
    /// The hashes of names with NSEC3, in order; and those of other chains, which answer nothing.
    Hashes { parameters: HashParameters, list: Vec<HashedOwner>, others: Vec<HashedOwner> },
    /// One NSEC for each question, signed when it comes (RFC 9824).
    Compact,
}

/// How names are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HashParameters {
    pub(crate) iterations: u16,
    pub(crate) salt: Box<[u8]>,
}

/// One NSEC3 and its signatures.
#[derive(Debug)]
pub(crate) struct HashedOwner {
    pub(crate) hash: [u8; HASH_SIZE],
    /// The owner's first label: the hash in base 32, with its length.
    pub(crate) label: Box<[u8]>,
    pub(crate) record: OwnedRrset,
    pub(crate) signatures: OwnedRrset,
}

impl HashParameters {
    /// Those of the data of NSEC3 or NSEC3PARAM; none for another hash than SHA-1.
    pub(super) fn of_data(data: &[u8]) -> Option<HashParameters> {
        let (&[algorithm, _, i0, i1, salt_length], rest) = data.split_first_chunk()?;
        let salt = rest.get(..usize::from(salt_length))?.into();
        let iterations = u16::from_be_bytes([i0, i1]);
        (algorithm == 1).then_some(HashParameters { iterations, salt })
    }

    /// The hash of a name in wire form and lower case (RFC 5155, 5).
    pub(crate) fn hash(&self, name: &[u8]) -> [u8; HASH_SIZE] {
        let step = |bytes: &[u8]| {
            let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
            context.update(bytes);
            context.update(&self.salt);
            let mut hash = [0; HASH_SIZE];
            hash.copy_from_slice(context.finish().as_ref());
            hash
        };
        (0..self.iterations).fold(step(name), |hash, _| step(&hash))
    }
}

impl Denial {
    /// Hashes, put into order.
    pub(super) fn of_hashes(
        parameters: HashParameters,
        mut list: Vec<HashedOwner>,
        others: Vec<HashedOwner>,
    ) -> Denial {
        list.sort_by_key(|hashed| hashed.hash);
        Denial::Hashes { parameters, list, others }
    }
}

/// The NSEC3 of a hash, or the one that covers it: whether it is that of the hash, its place in the
/// list, and itself.
pub(crate) fn hash_before(
    list: &[HashedOwner],
    hash: [u8; HASH_SIZE],
) -> Option<(bool, usize, &HashedOwner)> {
    let behind = list.partition_point(|hashed| hashed.hash <= hash);
    let place = behind.checked_sub(1).or_else(|| list.len().checked_sub(1))?;
    let found = list.get(place)?;
    Some((found.hash == hash, place, found))
}

/// The type that a signature covers.
pub(crate) fn covered_type(signature: &[u8]) -> u16 {
    signature.first_chunk().map_or(0, |covered| u16::from_be_bytes(*covered))
}

/// When a signature ends; none for data that are no signature.
pub(super) fn expiry_seconds(signature: &[u8]) -> Option<u32> {
    let name = signature.get(18..)?;
    wire_name_length(name)?;
    Some(u32::from_be_bytes(*signature.get(8..12)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    #[test]
    fn a_name_is_hashed_as_in_rfc_5155() {
        let parameters = HashParameters { iterations: 12, salt: [0xaa, 0xbb, 0xcc, 0xdd].into() };
        let hash = |text: &str| {
            let name: Name = text.parse().expect(text);
            let hash = parameters.hash(&name.as_wire().to_ascii_lowercase());
            domain::utils::base32::encode_string_hex(&hash).to_ascii_lowercase()
        };
        assert_eq!(hash("example"), "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
        assert_eq!(hash("ns1.example"), "2t7b4g4vsa5smi47k61mv5bv1a22bojr");
        assert_eq!(hash("*.w.example"), "r53bq7cc2uvmubfu5ocmm6pers9tk9en");
    }
}
