//! What a signed zone has beside its records: the order of its names, or their hashes, and when its
//! signatures end.
//!
//! Not for: which proof an answer needs (`resolve/proofs.rs`), making signatures.
//!
//! ```text
//! NSEC    owners in canonical order (RFC 4034, 6.1): the one at or before a name says what is next
//! NSEC3   hashes in order (RFC 5155), each with its NSEC3 and RRSIG; no owners of the zone
//! compact nothing: each NSEC is made for its question (RFC 9824)
//! ```
//!
//! Signatures stand at their owners as records of type RRSIG, each with its own TTL.
//! Invariants: a zone with RRSIG has one of its SOA, a DNSKEY, and NSEC at the apex or NSEC3 of it,
//! or a signer here.
//! Concurrency: immutable. Cost: a search by halves; a hash of a name takes the zone's iterations.
#![deny(clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

use ring::digest;

use super::canonical::order_key;
use super::{NodeRef, OwnedRrset};
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
    /// Names with NSEC, in canonical order, with their owners' blocks.
    Names(Vec<(Box<[u8]>, NodeRef)>),
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
    /// Names with NSEC, put into order.
    pub(super) fn of_names(mut names: Vec<(Box<[u8]>, NodeRef)>) -> Denial {
        names.sort_by_cached_key(|(name, _)| order_key(name));
        Denial::Names(names)
    }

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

/// Of names with NSEC in order, the one at or before a name, both without the origin; before the
/// first one comes the last.
pub(crate) fn name_before(names: &[(Box<[u8]>, NodeRef)], relative: &[u8]) -> Option<NodeRef> {
    let behind =
        names.partition_point(|(name, _)| canonical_order(name, relative) != Ordering::Greater);
    let found = behind.checked_sub(1).and_then(|at| names.get(at)).or(names.last());
    found.map(|(_, place)| *place)
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

/// The order of names in wire form and lower case, label by label from the right.
fn canonical_order(one: &[u8], other: &[u8]) -> Ordering {
    let [mut ones, mut others] = [labels(one), labels(other)];
    loop {
        match (ones.pop(), others.pop()) {
            (Some(a), Some(b)) => match a.cmp(b) {
                Ordering::Equal => {}
                order => return order,
            },
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

/// The labels of a name, which may lack the root.
fn labels(name: &[u8]) -> Labels<'_> {
    let mut labels = Labels { name, starts: [0; 128], count: 0 };
    let mut at = 0;
    while let Some(&length) = name.get(at).filter(|length| **length > 0) {
        if let Some(start) = labels.starts.get_mut(labels.count) {
            *start = at as u8;
        }
        labels.count += 1;
        at += 1 + usize::from(length);
    }
    labels
}

/// Labels that are taken from the right.
struct Labels<'n> {
    name: &'n [u8],
    starts: [u8; 128],
    count: usize,
}

impl<'n> Labels<'n> {
    fn pop(&mut self) -> Option<&'n [u8]> {
        self.count = self.count.checked_sub(1)?;
        let start = usize::from(*self.starts.get(self.count)?);
        let length = usize::from(*self.name.get(start)?);
        self.name.get(start + 1..start + 1 + length)
    }
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
    fn names_stand_in_the_order_of_rfc_4034() {
        let texts = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\001.z.example",
            "*.z.example",
            "\\200.z.example",
        ];
        let names = texts.map(|text| {
            let name: Name = text.parse().expect(text);
            name.as_wire().to_ascii_lowercase()
        });
        for pair in names.windows(2) {
            assert_eq!(canonical_order(&pair[0], &pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(canonical_order(&pair[1], &pair[0]), Ordering::Greater, "{pair:?}");
            assert_eq!(canonical_order(&pair[1], &pair[1]), Ordering::Equal);
        }
        assert_eq!(canonical_order(b"\x01a", b""), Ordering::Greater);
        let list: Vec<(Box<[u8]>, NodeRef)> =
            names.iter().zip(0..).map(|(name, at)| (name.as_slice().into(), NodeRef(at))).collect();
        for (name, at) in names.iter().zip(0..) {
            assert_eq!(name_before(&list, name), Some(NodeRef(at)));
        }
        assert_eq!(name_before(&list, b"\x02aa\x07example\x00"), Some(NodeRef(4)));
        assert_eq!(name_before(&list, b"\x03org\x00"), Some(NodeRef(8)));
    }

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
