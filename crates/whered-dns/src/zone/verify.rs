//! Whether the signatures of a zone are right: each rrset that needs one has one of a key of the
//! zone, and it holds now (RFC 4034, 3.1 and 6; RFC 4035, 5.3).
//!
//! For: `zone check`. Not for: serving, which hands out what the file has; the DS in the parent
//! zone; whether NSEC and NSEC3 make a chain.
//!
//! Concurrency: each thread verifies a part of the rrsets. Cost: one verification a signature.

use std::num::NonZero;
use std::thread;

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

use super::canonical::{CanonicalRrset, SIGNATURE_HEAD_SIZE};
use super::error::ZoneError;
use super::parsed_zone::{APEX, NONE, ParsedZone, Record};
use super::signed::covered_type;
use crate::code::RecordType;
use crate::name::wire_name_length;
use crate::signing::key_tag;

/// The flag of a key that signs a zone.
const ZONE_KEY: u8 = 1;
const DNSSEC_PROTOCOL: u8 = 3;

/// A key of the zone.
struct Key<'z> {
    algorithm: u8,
    tag: u16,
    public: &'z [u8],
}

/// Records of one owner and type, and the signatures over them.
struct SignedRrset<'z> {
    records: &'z [Record],
    signatures: Vec<Record>,
}

/// The rrsets whose signatures do not hold, in the order of the file; none in an unsigned zone.
pub(super) fn faults(parsed: &mut ParsedZone, now_seconds: u64) -> Vec<ZoneError> {
    parsed.complete();
    let (order, starts) = parsed.by_owner();
    let parsed = &*parsed;
    let records: Vec<Record> =
        order.iter().map(|&number| parsed.records[number as usize]).collect();
    let of_owner = |owner: usize| &records[starts[owner] as usize..starts[owner + 1] as usize];
    if !records.iter().any(|record| record.record_type == RecordType::RRSIG) {
        return Vec::new();
    }
    let keys: Vec<Key<'_>> =
        of_owner(APEX as usize).iter().filter_map(|record| Key::of(parsed, record)).collect();
    let cuts = cuts(parsed, &of_owner);
    let mut rrsets = Vec::new();
    for (owner, &cut) in cuts.iter().enumerate() {
        let own = of_owner(owner);
        let (signatures, _): (Vec<Record>, Vec<Record>) =
            own.iter().partition(|record| record.record_type == RecordType::RRSIG);
        for records in own.chunk_by(|a, b| a.record_type == b.record_type) {
            let record_type = records[0].record_type;
            let is_own = match cut {
                NONE => true,
                // Of a delegation, the zone has authority over these alone.
                cut if cut as usize == owner => {
                    matches!(record_type, RecordType::DS | RecordType::NSEC)
                }
                _ => false,
            };
            if is_own && record_type != RecordType::RRSIG {
                let covers =
                    |record: &&Record| covered_type(parsed.data_of(record)) == record_type.0;
                let signatures = signatures.iter().filter(covers).copied().collect();
                rrsets.push(SignedRrset { records, signatures });
            }
        }
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = rrsets.len().div_ceil(threads).max(1);
    let check = |share: &[SignedRrset<'_>]| -> Vec<(Record, String)> {
        let fault = |signed: &SignedRrset<'_>| {
            let fault = signed.fault(parsed, &keys, now_seconds)?;
            Some((signed.records[0], fault))
        };
        share.iter().filter_map(fault).collect()
    };
    let check = &check;
    let found: Vec<(Record, String)> = thread::scope(|scope| {
        let workers: Vec<_> =
            rrsets.chunks(share).map(|share| scope.spawn(move || check(share))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let error = |(record, fault): (Record, String)| {
        let found =
            format!("{} of {}: {fault}", record.record_type, parsed.full_name(record.owner));
        ZoneError::new(&parsed.place_of(&record), found, "a signature that resolvers accept")
    };
    let mut faults: Vec<ZoneError> = found.into_iter().map(error).collect();
    faults.sort_by_key(|fault| (fault.line(), fault.column()));
    faults
}

/// The topmost delegation at or above each owner.
pub(super) fn cuts<'z>(parsed: &ParsedZone, of_owner: &impl Fn(usize) -> &'z [Record]) -> Vec<u32> {
    let mut by_depth: Vec<u32> = (0..parsed.owners.len() as u32).collect();
    by_depth.sort_by_key(|&owner| parsed.owners[owner as usize].depth);
    let mut cuts = vec![NONE; parsed.owners.len()];
    for owner in by_depth.into_iter().filter(|owner| *owner != APEX) {
        let above = cuts.get(parsed.owners[owner as usize].parent as usize).copied();
        let is_cut =
            of_owner(owner as usize).iter().any(|record| record.record_type == RecordType::NS);
        cuts[owner as usize] = match above {
            Some(cut) if cut != NONE => cut,
            _ if is_cut => owner,
            _ => NONE,
        };
    }
    cuts
}

impl<'z> Key<'z> {
    fn of(parsed: &'z ParsedZone, record: &Record) -> Option<Key<'z>> {
        if record.record_type != RecordType::DNSKEY {
            return None;
        }
        let data = parsed.data_of(record);
        let (&[flags, _, protocol, algorithm], public) = data.split_first_chunk()?;
        let is_zone_key = flags & ZONE_KEY != 0 && protocol == DNSSEC_PROTOCOL;
        is_zone_key.then(|| Key { algorithm, tag: key_tag(data), public })
    }

    /// Whether a signature over a message is that of this key; none for algorithms that are not
    /// known here.
    fn verifies(&self, message: &[u8], signed: &[u8]) -> Option<bool> {
        let uncompressed = || [&[4], self.public].concat();
        let elliptic = |algorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signed).is_ok()
        };
        Some(match self.algorithm {
            5 | 7 => self.is_rsa(
                &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                message,
                signed,
            ),
            8 => self.is_rsa(
                &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                message,
                signed,
            ),
            10 => self.is_rsa(
                &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                message,
                signed,
            ),
            13 => elliptic(&signature::ECDSA_P256_SHA256_FIXED, &uncompressed()),
            14 => elliptic(&signature::ECDSA_P384_SHA384_FIXED, &uncompressed()),
            15 => UnparsedPublicKey::new(&signature::ED25519, self.public)
                .verify(message, signed)
                .is_ok(),
            _ => return None,
        })
    }

    /// RFC 3110, 2: the exponent with its length, then the modulus.
    fn is_rsa(&self, parameters: &signature::RsaParameters, message: &[u8], signed: &[u8]) -> bool {
        let parts = match self.public {
            [0, high, low, rest @ ..] => {
                rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))
            }
            [length, rest @ ..] => rest.split_at_checked(usize::from(*length)),
            [] => None,
        };
        let Some((e, n)) = parts else { return false };
        let leading = n.iter().take_while(|byte| **byte == 0).count();
        let key = RsaPublicKeyComponents { n: &n[leading..], e };
        key.verify(parameters, message, signed).is_ok()
    }
}

impl SignedRrset<'_> {
    /// Why no signature holds; nothing if one does.
    fn fault(&self, parsed: &ParsedZone, keys: &[Key<'_>], now_seconds: u64) -> Option<String> {
        let mut faults = Vec::new();
        for signature in &self.signatures {
            let data = parsed.data_of(signature);
            match self.check(parsed, keys, data, now_seconds) {
                Ok(()) => return None,
                Err(fault) => faults.push(fault),
            }
        }
        Some(if faults.is_empty() { "no RRSIG".to_owned() } else { faults.join("; ") })
    }

    fn check(
        &self,
        parsed: &ParsedZone,
        keys: &[Key<'_>],
        data: &[u8],
        now_seconds: u64,
    ) -> Result<(), String> {
        let short = || "an RRSIG that is too short".to_owned();
        let (head, rest) = data.split_first_chunk::<SIGNATURE_HEAD_SIZE>().ok_or_else(short)?;
        let &[_, _, algorithm, _, t0, t1, t2, t3, e0, e1, e2, e3, i0, i1, i2, i3, k0, k1] = head;
        let length = wire_name_length(rest).ok_or_else(short)?;
        let (signer, signed) = rest.split_at(length);
        let tag = u16::from_be_bytes([k0, k1]);
        if !signer.eq_ignore_ascii_case(parsed.origin.as_wire()) {
            return Err(format!("the RRSIG of key {tag} is not signed by the zone"));
        }
        let now = now_seconds as u32;
        let [end, begin] = [[e0, e1, e2, e3], [i0, i1, i2, i3]].map(u32::from_be_bytes);
        if end.wrapping_sub(now).cast_signed() < 0 {
            return Err(format!("the RRSIG of key {tag} has ended"));
        }
        if now.wrapping_sub(begin).cast_signed() < 0 {
            return Err(format!("the RRSIG of key {tag} has not begun"));
        }
        let mut candidates =
            keys.iter().filter(|key| key.tag == tag && key.algorithm == algorithm).peekable();
        if candidates.peek().is_none() {
            return Err(format!("the RRSIG of key {tag}, which is no DNSKEY of the zone"));
        }
        let original_ttl = [t0, t1, t2, t3];
        let message = self.message(parsed, head, signer, original_ttl);
        for key in candidates {
            match key.verifies(&message, signed) {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => return Err(format!("the algorithm {algorithm} is not checked here")),
            }
        }
        Err(format!("the RRSIG of key {tag} is not over these records"))
    }

    /// What is signed (RFC 4034, 3.1.8.1).
    fn message(&self, parsed: &ParsedZone, head: &[u8], signer: &[u8], ttl: [u8; 4]) -> Vec<u8> {
        let first = &self.records[0];
        let mut owner = parsed.name_of(&parsed.owners[first.owner as usize]).to_vec();
        owner.extend_from_slice(parsed.lower_origin().as_wire());
        let mut message = [head, &signer.to_ascii_lowercase()].concat();
        let rrset = CanonicalRrset { owner: &owner, record_type: first.record_type, ttl };
        rrset.append(self.records.iter().map(|record| parsed.data_of(record)), &mut message);
        message
    }
}
