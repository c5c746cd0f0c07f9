//! The keys of one zone at work: RRSIG over its rrsets and over the answers of its pools.
//!
//! Not for: which rrsets are signed (`zone/sign.rs`, `zones/signed_pools.rs`).
//!
//! A signature is valid from an hour before it was made, for 11 to 14 days: the ends are spread by
//! a hash of the rrset, so that a zone is signed again piece by piece. A signature is used again
//! for equal records while it is fresh, through reloads too. A digest of the key and of the signed
//! bytes without their times identifies it, so that all zones share one cache of a fixed size.
//! Concurrency: shared by threads; each part of the cache has a lock, which answers compiled before
//! do not take. Cost: one signature of each key an rrset.
#![deny(clippy::indexing_slicing)]

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ring::digest;

use super::{KeyId, KeyStates, KeyUse, Rollover, SigningKey};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;
use crate::transfer::is_newer;
use crate::zone::Zone;
use crate::zone::canonical::{CanonicalRrset, SIGNATURE_HEAD_SIZE};
use crate::zone::layout::NewRrset;
use crate::zone::{CompressionContext, OwnedRrset, compile};

const HOUR_SECONDS: u64 = 3600;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
/// Clocks of resolvers may be behind by as much.
const BACKDATING_SECONDS: u64 = HOUR_SECONDS;
const VALIDITY_SECONDS: u64 = 14 * DAY_SECONDS;
/// The ends of signatures are spread over as much.
const JITTER_SECONDS: u64 = 3 * DAY_SECONDS;
/// How long before its first signature ends a zone is signed again.
pub const RESIGN_BEFORE_SECONDS: u64 = 5 * DAY_SECONDS;
/// Signatures that end within as much after that are made anew with it.
const BATCH_SECONDS: u64 = 12 * HOUR_SECONDS;
/// How many parts the cache has.
const CACHE_PARTS: usize = 16;
/// How many signatures one half of a part has: both halves of all parts some 25 MB.
const CACHE_HALF_SIZE: usize = 1 << 12;

/// The signatures over answers that are of no zone's file, whichever zone they are of.
static CACHE: LazyLock<SharedCache> = LazyLock::new(SharedCache::default);

/// What a zone is signed with.
#[derive(Clone)]
pub struct SigningContext {
    keys: Vec<(Arc<SigningKey>, KeyUse)>,
    states: KeyStates,
    now_seconds: u64,
    /// Names at which pools answer, in wire form and lower case, and with what types.
    pools: HashMap<Box<[u8]>, BTreeSet<RecordType>>,
    previous: Option<Arc<Zone>>,
    /// The serial is to rise, above this one if there was one.
    raised_serial: Option<Option<u32>>,
    pub(crate) denial: DenialMethod,
}

/// How a zone that is signed here proves that something is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DenialMethod {
    /// NSEC over all names, signed when the zone is compiled.
    #[default]
    Nsec,
    /// One NSEC for each question, made and signed when it comes (RFC 9824).
    Compact,
}

impl fmt::Debug for SigningContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningContext").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl SigningContext {
    /// Signs with these keys at a time in seconds since 1970.
    ///
    /// # Errors
    /// One line: no key, one whose time is over or has not come, two keys with one tag, an
    /// algorithm of which no key signs the zone's keys or none signs its data.
    pub fn new(
        keys: Vec<SigningKey>,
        states: &KeyStates,
        now_seconds: u64,
    ) -> Result<SigningContext, String> {
        let mut seen = BTreeSet::new();
        for key in &keys {
            if !seen.insert(KeyId::of(key)) {
                return Err(format!(
                    "two keys {}; allowed: keys with tags of their own",
                    KeyId::of(key)
                ));
            }
        }
        let fault_of = |key: &SigningKey| {
            let is_used = !states.retired.contains(&KeyId::of(key));
            key.time_fault(now_seconds).filter(|_| is_used).map(|fault| (KeyId::of(key), fault))
        };
        if let Some((key, fault)) = keys.iter().find_map(fault_of) {
            return Err(format!(
                "the key {key}, which {fault}; allowed: keys whose times in the private file are \
                 around now (dnssec-settime changes them)"
            ));
        }
        if let Some(Rollover { old, new, .. }) = states.rollover
            && let Some(missing) = [old, new].into_iter().find(|key| !seen.contains(key))
        {
            return Err(format!(
                "a rollover without its key {missing}; allowed: the files of both keys"
            ));
        }
        let has_data_key = |algorithm| {
            keys.iter().any(|key| key.algorithm() == algorithm && !key.is_entry_point())
        };
        let algorithms: BTreeSet<u8> = keys.iter().map(|key| key.algorithm().number()).collect();
        let has_data_key: Vec<bool> =
            keys.iter().map(|key| has_data_key(key.algorithm())).collect();
        let used = keys.into_iter().zip(has_data_key).filter_map(|(key, has_data_key)| {
            let use_of = states.key_use(KeyId::of(&key), key.is_entry_point(), has_data_key)?;
            Some((Arc::new(key), use_of))
        });
        let keys: Vec<_> = used.collect();
        if keys.is_empty() {
            return Err(
                "no key that is in use; allowed: at least one with the flags 257".to_owned()
            );
        }
        for number in algorithms {
            let mut own =
                keys.iter().filter(|(key, _)| key.algorithm().number() == number).peekable();
            if own.peek().is_none() {
                continue;
            }
            let uses: Vec<KeyUse> = own.map(|(_, used)| *used).collect();
            let signs_keys = uses.iter().any(|used| used.signs_keys && used.is_for_parent);
            let signs_data = uses.iter().any(|used| used.signs_data);
            if !signs_keys || !signs_data {
                let flags = if signs_keys { 256 } else { 257 };
                return Err(format!(
                    "no key of the algorithm {number} with the flags {flags}; allowed: of each \
                     algorithm a key that signs everything, or one for keys (257) and one for data (256)"
                ));
            }
        }
        Ok(SigningContext {
            keys,
            states: states.clone(),
            now_seconds,
            pools: HashMap::new(),
            previous: None,
            raised_serial: None,
            denial: DenialMethod::default(),
        })
    }

    /// Adds a name at which a pool answers, with the types that its answers can have beside A and
    /// AAAA. A name outside the zone counts for nothing.
    pub fn add_pool_owner(&mut self, owner: &Name, types: impl IntoIterator<Item = RecordType>) {
        let known = self.pools.entry(LowerName::of(owner).as_wire().into()).or_default();
        known.extend([RecordType::A, RecordType::AAAA]);
        known.extend(types);
    }

    /// Chooses how absence is proven.
    pub fn set_denial(&mut self, denial: DenialMethod) {
        self.denial = denial;
    }

    /// Takes signatures over again from the zone as it was before, where its records are the same.
    pub fn reuse(&mut self, previous: Arc<Zone>) {
        self.previous = Some(previous);
    }

    /// Gives the zone a serial that it has not had, for those who compare serials: its own if that
    /// is newer than `last`, which it had when it was signed before; else the next.
    pub fn raise_serial(&mut self, last: Option<u32>) {
        self.raised_serial = Some(last);
    }

    /// The serial of a zone that has `own` before it is signed.
    pub(crate) fn serial(&self, own: u32) -> u32 {
        match self.raised_serial {
            None => own,
            Some(None) => own.wrapping_add(1),
            Some(Some(last)) if is_newer(own, last) => own,
            Some(Some(last)) => last.wrapping_add(1),
        }
    }

    /// Names of pools and their types.
    pub(crate) fn pools(&self) -> &HashMap<Box<[u8]>, BTreeSet<RecordType>> {
        &self.pools
    }

    pub(crate) fn previous(&self) -> Option<&Arc<Zone>> {
        self.previous.as_ref()
    }

    /// The data of DNSKEY, and of the keys of which the parent zone is to have a DS.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&SigningKey, KeyUse)> {
        self.keys.iter().map(|(key, used)| (&**key, *used))
    }

    /// The signer of a zone.
    pub(crate) fn signer(&self, origin: &LowerName) -> ZoneSigner {
        ZoneSigner {
            keys: self.keys.clone(),
            states: self.states.clone(),
            origin: origin.as_wire().into(),
            now_seconds: self.now_seconds,
            pools: self.pools.clone(),
        }
    }
}

/// A signature that was made or found.
pub(crate) struct MadeSignature {
    /// What tells the key and what it signed.
    pub(crate) digest: u128,
    /// The data of its RRSIG.
    pub(crate) data: Vec<u8>,
}

/// See the head of this file.
pub(crate) struct ZoneSigner {
    keys: Vec<(Arc<SigningKey>, KeyUse)>,
    /// The states of the keys when the zone was signed.
    pub(crate) states: KeyStates,
    origin: Box<[u8]>,
    now_seconds: u64,
    pools: HashMap<Box<[u8]>, BTreeSet<RecordType>>,
}

impl fmt::Debug for ZoneSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneSigner").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Records that are not of the zone's file and want signatures.
pub(crate) struct Demand<'a> {
    /// The owner in wire form and lower case.
    pub(crate) owner: &'a [u8],
    pub(crate) record_type: RecordType,
    pub(crate) ttl_seconds: u32,
}

impl ZoneSigner {
    /// The types that the chain of names says a pool's owner to have; none for a name that it
    /// knows of no pool.
    pub(crate) fn pool_types(&self, owner: &[u8]) -> Option<&BTreeSet<RecordType>> {
        self.pools.get(owner)
    }

    /// The keys' signatures over an rrset. `find` gives one that was made before for such a digest
    /// and key, and `permits` whether one may be made. None when one may not, or when the system
    /// has no random numbers.
    pub(crate) fn signatures<'d>(
        &self,
        rrset: &CanonicalRrset<'_>,
        data: impl Iterator<Item = &'d [u8]>,
        find: &dyn Fn(u128, KeyId) -> Option<Vec<u8>>,
        permits: &dyn Fn() -> bool,
    ) -> Option<Vec<MadeSignature>> {
        let is_of_keys =
            matches!(rrset.record_type, RecordType::DNSKEY | RecordType::CDS | RecordType::CDNSKEY);
        let signs = |used: &KeyUse| if is_of_keys { used.signs_keys } else { used.signs_data };
        let mut message = vec![0; SIGNATURE_HEAD_SIZE];
        message.extend_from_slice(&self.origin);
        rrset.append(data, &mut message);
        let signers = self.keys.iter().filter(|(_, used)| signs(used));
        let made = signers.map(|(key, _)| self.signature(key, rrset, &mut message, find, permits));
        made.collect()
    }

    fn signature(
        &self,
        key: &SigningKey,
        rrset: &CanonicalRrset<'_>,
        message: &mut [u8],
        find: &dyn Fn(u128, KeyId) -> Option<Vec<u8>>,
        permits: &dyn Fn() -> bool,
    ) -> Option<MadeSignature> {
        let [y0, y1] = rrset.record_type.0.to_be_bytes();
        let [t0, t1, t2, t3] = rrset.ttl;
        let [k0, k1] = key.tag().to_be_bytes();
        let (algorithm, labels) = (key.algorithm().number(), signed_labels(rrset.owner));
        let mut head = [y0, y1, algorithm, labels, t0, t1, t2, t3, 0, 0, 0, 0, 0, 0, 0, 0, k0, k1];
        message.first_chunk_mut::<SIGNATURE_HEAD_SIZE>()?.copy_from_slice(&head);
        // Another key may have the same tag, so that all of it counts.
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(message);
        context.update(key.dnskey());
        let digest = u128::from_be_bytes(*context.finish().as_ref().first_chunk()?);
        let known = find(digest, KeyId::of(key)).filter(|known| self.is_fresh(known));
        if let Some(data) = known {
            return Some(MadeSignature { digest, data });
        }
        if !permits() {
            return None;
        }
        let end =
            self.now_seconds + VALIDITY_SECONDS - (digest % u128::from(JITTER_SECONDS)) as u64;
        let begin = self.now_seconds.saturating_sub(BACKDATING_SECONDS);
        let [[e0, e1, e2, e3], [b0, b1, b2, b3]] =
            [end, begin].map(|time| (time as u32).to_be_bytes());
        head = [y0, y1, algorithm, labels, t0, t1, t2, t3, e0, e1, e2, e3, b0, b1, b2, b3, k0, k1];
        message.first_chunk_mut::<SIGNATURE_HEAD_SIZE>()?.copy_from_slice(&head);
        let signature = key.sign(message)?;
        Some(MadeSignature { digest, data: [&head, &*self.origin, signature.as_ref()].concat() })
    }

    /// Whether a signature that was made before is good for longer.
    fn is_fresh(&self, data: &[u8]) -> bool {
        let Some(&[.., e0, e1, e2, e3, b0, b1, b2, b3, _, _]) =
            data.first_chunk::<SIGNATURE_HEAD_SIZE>()
        else {
            return false;
        };
        let [end, begin] = [[e0, e1, e2, e3], [b0, b1, b2, b3]].map(u32::from_be_bytes);
        let now = self.now_seconds as u32;
        let left = i64::from(end.wrapping_sub(now).cast_signed());
        left >= (RESIGN_BEFORE_SECONDS + BATCH_SECONDS) as i64
            && now.wrapping_sub(begin).cast_signed() >= 0
    }

    /// RRSIG of records that are not of the zone's file, as replies have them; kept, so that equal
    /// records are signed once. `permits` says whether a signature may be made. None when it may
    /// not, or when the system has no random numbers.
    pub(crate) fn sign<'d>(
        &self,
        demand: &Demand<'_>,
        data: impl Iterator<Item = &'d [u8]>,
        permits: &dyn Fn() -> bool,
    ) -> Option<OwnedRrset> {
        let rrset = CanonicalRrset {
            owner: demand.owner,
            record_type: demand.record_type,
            ttl: demand.ttl_seconds.to_be_bytes(),
        };
        let find = |digest: u128, _: KeyId| CACHE.part(digest)?.find(digest);
        let made = self.signatures(&rrset, data, &find, permits)?;
        for MadeSignature { digest, data } in &made {
            if let Some(mut part) = CACHE.part(*digest) {
                part.insert(*digest, data);
            }
        }
        let mut rrset = NewRrset::default();
        let around = CompressionContext { owner: &[0], relative_length: 0 };
        let data = made.iter().map(|made| made.data.as_slice());
        compile(&mut rrset, RecordType::RRSIG, demand.ttl_seconds, data, around)?;
        Some(rrset.to_owned())
    }
}

/// Parts by the first bits of digests.
#[derive(Default)]
struct SharedCache([Mutex<SignatureCache>; CACHE_PARTS]);

impl SharedCache {
    fn part(&self, digest: u128) -> Option<MutexGuard<'_, SignatureCache>> {
        let part = self.0.get((digest >> (u128::BITS - CACHE_PARTS.ilog2())) as usize)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Signatures by digest. When the newer half is full it replaces the older one, so that a flood of
/// names pushes out no signature that is in use.
#[derive(Default)]
struct SignatureCache {
    newer: HashMap<u128, Box<[u8]>>,
    older: HashMap<u128, Box<[u8]>>,
}

impl SignatureCache {
    fn find(&mut self, digest: u128) -> Option<Vec<u8>> {
        if let Some(data) = self.newer.get(&digest) {
            return Some(data.to_vec());
        }
        let data = self.older.remove(&digest)?;
        self.insert(digest, &data);
        Some(data.into_vec())
    }

    fn insert(&mut self, digest: u128, data: &[u8]) {
        if self.newer.len() >= CACHE_HALF_SIZE {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(digest, data.into());
    }
}

/// How many labels a signature says its owner to have (RFC 4034, 3.1.3): without the root and a
/// wildcard's star.
fn signed_labels(owner: &[u8]) -> u8 {
    let (mut rest, mut count) = (owner, 0_u8);
    while let Some((&length, behind)) = rest.split_first().filter(|(length, _)| **length > 0) {
        count = count.saturating_add(1);
        rest = behind.get(usize::from(length)..).unwrap_or_default();
    }
    count - u8::from(owner.starts_with(b"\x01*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_pushes_no_signature_out_that_is_in_use_and_is_bounded() {
        let mut cache = SignatureCache::default();
        cache.insert(0, b"often");
        let mut most = 0;
        for digest in 1..100_000 {
            cache.insert(digest, b"once");
            if digest % 1000 == 0 {
                assert_eq!(cache.find(0).as_deref(), Some(&b"often"[..]), "after {digest}");
            }
            most = most.max(cache.newer.len() + cache.older.len());
        }
        assert_eq!(cache.find(1), None);
        assert!(most <= 2 * CACHE_HALF_SIZE, "{most}");
    }

    #[test]
    fn one_budget_holds_for_the_signatures_of_all_zones() {
        let cache = SharedCache::default();
        let digest = |number: u64| {
            let digest = digest::digest(&digest::SHA256, &number.to_be_bytes());
            u128::from_be_bytes(*digest.as_ref().first_chunk().expect("32 bytes"))
        };
        for number in 0..300_000 {
            cache.part(digest(number)).expect("a part").insert(digest(number), b"signature");
        }
        let size = |part: &Mutex<SignatureCache>| {
            let part = part.lock().expect("no panic");
            part.newer.len() + part.older.len()
        };
        let sizes: Vec<usize> = cache.0.iter().map(size).collect();
        assert!(sizes.iter().all(|size| *size >= CACHE_HALF_SIZE), "all are used: {sizes:?}");
        assert!(sizes.iter().sum::<usize>() <= 2 * CACHE_HALF_SIZE * CACHE_PARTS, "{sizes:?}");
        let last = cache.part(digest(299_999)).expect("a part").find(digest(299_999));
        assert_eq!(last.as_deref(), Some(&b"signature"[..]));
    }
}
