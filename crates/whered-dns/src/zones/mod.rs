//! All zones of one generation with the pools attached to their names, and how a name is found.
//!
//! Not for: making them of zones and pools (`builder.rs`), what is answered (`resolve`), choosing
//! among a pool's answers (the caller).
//!
//! ```text
//! Zones  origins: hash of origin -> zone          asked for each number of labels that origins have
//!        zones: [Arc<Zone> + overlay + delegation]
//!                            └ names at which pools answer, and the empty names above those that
//!                              the zone does not have; none for most zones
//!        pools: [answer 0: A rrset, AAAA rrset | answer 1 ...]   in wire form, at build
//! ```
//!
//! Invariants: a name belongs to the deepest zone around it; what an upper zone has there (glue,
//! for one) is not found. Every name between an overlay's owner and the apex is in the zone or in
//! the overlay.
//! Concurrency: immutable once built. Cost: building is linear in the zones and pools; a generation
//! shares the zones that did not change. Finding a name: a search among the origins, which stay in
//! the cache, and then usually one in the zone.
#![deny(clippy::indexing_slicing)]

mod alias_loops;
mod builder;
mod signed_pools;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::code::RecordType;
use crate::lower::{LowerName, hash_of_wildcard};
use crate::name::Name;
use crate::zone::layout::HAS_WILDCARD;
use crate::zone::{Node, NodeRef, OwnedRrset, Rrset, Zone};
pub(crate) use signed_pools::SignedOwner;

pub use builder::{PoolOwnerReason, ZonesBuilder, ZonesError};

/// A set of answers of which some are chosen for each client: replaces the zone's own A and AAAA at
/// its owners. Where answers have other types, the zone has none of those there; all else there
/// stays the zone's. Where an answer is an alias, the owner has nothing else in its zone and is no
/// apex, and the alias does not lead back to the pool.
///
/// An owner may be new to its zone. It is matched by its exact name; the owner `*.example.com` is
/// the zone's wildcard and answers wherever that wildcard is expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The name by which errors tell of it.
    pub name: String,
    /// Where its answers are given.
    pub owners: Vec<Name>,
    /// The TTL of its answers in seconds, at most 2^31 - 1.
    pub ttl_seconds: u32,
    /// The answers to choose from; [`Choice::answer`](crate::Choice::answer) is an index into this.
    pub answers: Vec<Answer>,
}

/// The records that are given together. A type without a record is answered by NODATA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// For A.
    pub ipv4: Vec<Ipv4Addr>,
    /// For AAAA.
    pub ipv6: Vec<Ipv6Addr>,
    /// The target of the owner's alias, for all types that have no record here.
    pub alias: Option<Name>,
    /// The data of records of other types, in wire form without compression.
    pub others: Vec<(RecordType, Vec<u8>)>,
    /// Addresses of the client itself, beside those above.
    pub reflect: Option<Reflect>,
}

/// Which address of the client is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflect {
    /// The sender's: that of a resolver, mostly.
    Source,
    /// That of the option of the client's subnet; none without one.
    Subnet,
    /// Both, where there are two.
    Both,
    /// That of the option, or the sender's without one.
    Best,
}

/// All zones and pool attachments of one generation, immutable. The default has none.
///
/// ```
/// use whered_dns::{Answer, Name, Pool, Zone, Zones};
/// let text = b"@ 60 IN SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let zone = Zone::from_master_file(&"example.com".parse()?, text, &mut |_| Err("no".into()))?;
/// let pool = Pool {
///     name: "www".into(),
///     owners: vec!["www.example.com".parse()?],
///     ttl_seconds: 30,
///     answers: vec![Answer { ipv4: vec!["192.0.2.10".parse()?], ..Answer::default() }],
/// };
/// let zones = Zones::builder().add_zone(zone).add_pool(pool).build()?;
/// assert_eq!(zones.pool_name(0), Some("www"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Zones {
    zones: Vec<ServedZone>,
    origins: Origins,
    pools: Vec<CompiledPool>,
    has_large: bool,
    has_reversed: bool,
}

#[derive(Debug)]
struct ServedZone {
    zone: Arc<Zone>,
    /// The SOA of negative answers, where it is not the zone's.
    negative_soa: Option<OwnedRrset>,
    overlay: Option<Box<Overlay>>,
    /// Names below the apex are addresses that the caller knows.
    is_reversed: bool,
    /// The fast path answers from the zone's own records.
    is_plain: bool,
    /// The delegation of this zone in another served zone, for DS (RFC 4035, 3.1.4.1).
    delegation: Option<(u32, NodeRef)>,
}

/// A name in lower case, and the pool that it is an owner of.
type HashedName = (Box<[u8]>, Option<usize>);

/// The names of pools in one zone: hash to owner, and whether a pool answers there.
#[derive(Debug, Default)]
struct Overlay {
    names: HashMap<u64, HashedName, BuildHasherDefault<HashedBefore>>,
    /// Owners of pools in a zone that is signed here.
    signed: HashMap<u64, SignedOwner, BuildHasherDefault<HashedBefore>>,
}

/// Keys are hashes, of names that only a configuration can add.
#[derive(Debug, Default)]
struct HashedBefore(u64);

impl Hasher for HashedBefore {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        // The table takes bits from both ends.
        self.0 = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Overlay {
    fn find(&self, hash: u64, lower_wire: &[u8]) -> Option<Option<usize>> {
        let (owner, pool) = self.names.get(&hash)?;
        (**owner == *lower_wire).then_some(*pool)
    }
}

/// The zones by origin.
#[derive(Debug, Default)]
struct Origins {
    /// Zone + 1, or 0; by hash, open addressing, at most half full.
    slots: Box<[u32]>,
    /// How many labels origins have, the most first.
    label_counts: Vec<usize>,
}

#[derive(Debug)]
struct CompiledPool {
    name: String,
    ttl_seconds: u32,
    /// The types that some answer has, beside A and AAAA.
    types: Vec<RecordType>,
    has_alias: bool,
    /// For each answer its records by type: A and AAAA first, if it has them.
    answers: Vec<Box<[(RecordType, OwnedRrset)]>>,
    /// Which of the answers give an address of the client; empty when none does.
    reflects: Box<[Option<Reflect>]>,
}

/// Where the answer to a name is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'z> {
    /// The owner's records; none when only a pool knows the name.
    pub(crate) node: Option<Node<'z>>,
    pub(crate) pool: Option<usize>,
}

impl Place<'_> {
    /// Whether a type is one of those that signing adds to an owner, which an alias of a pool does
    /// not lead away.
    #[inline]
    pub(crate) fn is_of_signing(&self, record_type: RecordType) -> bool {
        matches!(record_type, RecordType::RRSIG | RecordType::NSEC)
            && self.node.is_some_and(|node| node.rrset(record_type).is_some())
    }
}

/// The result of [`Zones::locate`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZoneLocation<'z> {
    pub(crate) zone: u32,
    /// The name, or its closest encloser.
    pub(crate) place: Place<'z>,
    /// How many labels that has.
    pub(crate) labels: usize,
    pub(crate) is_exact: bool,
}

impl Zones {
    /// Starts without zones and pools.
    #[must_use]
    pub fn builder() -> ZonesBuilder {
        ZonesBuilder::default()
    }

    /// The zones, in the order in which they were added.
    pub fn zones(&self) -> impl ExactSizeIterator<Item = &Arc<Zone>> {
        self.zones.iter().map(|served| &served.zone)
    }

    /// The zone with this origin.
    #[must_use]
    pub fn zone(&self, origin: &Name) -> Option<&Arc<Zone>> {
        Some(&self.zones.get(self.index_of(origin)?)?.zone)
    }

    /// The index of the zone with this origin, in the order in which zones were added.
    #[must_use]
    pub fn index_of(&self, origin: &Name) -> Option<usize> {
        let mut name = LowerName::of(origin);
        name.hash();
        let labels = name.label_count();
        let index = self.probe_origin(name.hash_of(labels), name.suffix(labels))?;
        Some(index as usize)
    }

    /// The name of a pool.
    #[must_use]
    pub fn pool_name(&self, index: usize) -> Option<&str> {
        self.pools.get(index).map(|pool| pool.name.as_str())
    }

    /// The deepest zone around a name, and the number of its origin's labels.
    #[inline(always)]
    pub(crate) fn zone_around(&self, name: &LowerName) -> Option<(u32, usize)> {
        let count = name.label_count();
        self.origins.label_counts.iter().filter(|labels| **labels <= count).find_map(|&labels| {
            let zone = self.probe_origin(name.hash_of(labels), name.suffix(labels))?;
            Some((zone, labels))
        })
    }

    #[inline(always)]
    fn probe_origin(&self, hash: u64, lower_wire: &[u8]) -> Option<u32> {
        let slots = &self.origins.slots;
        let mask = slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let zone = slots.get(at)?.checked_sub(1)?;
            if self.zones.get(zone as usize)?.zone.lower_origin() == lower_wire {
                return Some(zone);
            }
            at = (at + 1) & mask;
        }
    }

    /// Finds a name, or what is closest above it in its zone.
    #[inline(always)]
    pub(crate) fn locate(&self, name: &LowerName) -> Option<ZoneLocation<'_>> {
        let (zone, apex_labels) = self.zone_around(name)?;
        Some(self.locate_in(zone, apex_labels, name))
    }

    /// Finds a name in the deepest zone around it, whose origin has `apex_labels` labels.
    #[inline(always)]
    pub(crate) fn locate_in(
        &self,
        zone: u32,
        apex_labels: usize,
        name: &LowerName,
    ) -> ZoneLocation<'_> {
        let served = self.served(zone);
        let (node, depth) = served.zone.closest(name, apex_labels);
        let labels = apex_labels + depth;
        let place = Place { node: Some(node), pool: None };
        let is_exact = labels == name.label_count();
        let mut located = ZoneLocation { zone, place, labels, is_exact };
        if let Some(overlay) = &served.overlay
            && node.cut().is_none()
        {
            overlay.look(name, &mut located);
        }
        located
    }

    /// The node that answers for names below an encloser that do not exist (RFC 4592).
    #[inline]
    pub(crate) fn wildcard(
        &self,
        name: &LowerName,
        located: &ZoneLocation<'_>,
    ) -> Option<Place<'_>> {
        let served = self.served(located.zone);
        let labels = located.labels;
        let has_one = located.place.node.is_some_and(|node| node.has(HAS_WILDCARD));
        let node = if has_one { served.zone.wildcard(name, labels) } else { None };
        let pool = served.overlay.as_ref().and_then(|overlay| {
            let (owner, pool) = overlay.names.get(&hash_of_wildcard(name.hash_of(labels)))?;
            let is_it = owner.strip_prefix(b"\x01*") == Some(name.suffix(labels));
            is_it.then_some(*pool)
        });
        let exists = node.is_some() || pool.is_some();
        exists.then_some(Place { node, pool: pool.flatten() })
    }

    /// Whether some zone is larger than caches.
    pub(crate) fn has_large(&self) -> bool {
        self.has_large
    }

    /// Whether there are zones whose names are addresses.
    pub(crate) fn has_reversed(&self) -> bool {
        self.has_reversed
    }

    #[inline]
    pub(crate) fn zone_at(&self, zone: u32) -> &Zone {
        &self.served(zone).zone
    }

    /// The SOA of negative answers, with their TTL.
    #[inline]
    pub(crate) fn negative_soa(&self, zone: u32) -> Rrset<'_> {
        let served = self.served(zone);
        served.negative_soa.as_ref().map_or_else(|| served.zone.negative_soa(), OwnedRrset::get)
    }

    /// Whether the fast path answers from the zone's own records.
    #[inline]
    pub(crate) fn is_plain(&self, zone: u32) -> bool {
        self.served(zone).is_plain
    }

    /// Whether names below the apex are addresses that the caller knows.
    #[inline]
    pub(crate) fn is_reversed(&self, zone: u32) -> bool {
        self.served(zone).is_reversed
    }

    /// Whether pools answer in the zone.
    #[inline]
    pub(crate) fn has_overlay(&self, zone: u32) -> bool {
        self.served(zone).overlay.is_some()
    }

    /// The pool at a name of the zone, if it has one of its own.
    #[inline]
    pub(crate) fn pool_of(&self, zone: u32, name: &LowerName) -> Option<usize> {
        let overlay = self.served(zone).overlay.as_ref()?;
        let labels = name.label_count();
        overlay.find(name.hash_of(labels), name.suffix(labels)).flatten()
    }

    /// What is signed of the pool at a name that was found, or at the wildcard that answers for
    /// it; none where nothing is signed here.
    pub(crate) fn signed_owner(
        &self,
        name: &LowerName,
        located: &ZoneLocation<'_>,
    ) -> Option<&SignedOwner> {
        let overlay = self.served(located.zone).overlay.as_ref()?;
        let (hash, suffix) = (name.hash_of(located.labels), name.suffix(located.labels));
        let hash = if located.is_exact { hash } else { hash_of_wildcard(hash) };
        let signed = overlay.signed.get(&hash)?;
        let owner = signed.owner();
        let is_it = match located.is_exact {
            true => owner == suffix,
            false => owner.strip_prefix(b"\x01*") == Some(suffix),
        };
        is_it.then_some(signed)
    }

    /// The delegation above an apex, when another served zone has it.
    pub(crate) fn delegation_of(&self, zone: u32) -> Option<(u32, NodeRef)> {
        self.served(zone).delegation
    }

    /// For how long a pool's answers hold, in seconds.
    pub(crate) fn pool_ttl_seconds(&self, pool: usize) -> u32 {
        self.pools.get(pool).map_or(0, |pool| pool.ttl_seconds)
    }

    /// The signatures over several answers of a pool that are given together. `signed` is of the
    /// pool's owner, and `permits` says whether signatures may be made.
    pub(crate) fn combined_signatures(
        &self,
        zone: u32,
        pool: usize,
        signed: &SignedOwner,
        answers: &[u16],
        record_type: RecordType,
        permits: &dyn Fn() -> bool,
    ) -> Option<Arc<OwnedRrset>> {
        let signer = self.zone_at(zone).signer()?;
        signed.combined(signer, self.pools.get(pool)?, answers, record_type, permits)
    }

    /// Whether a pool answers a question for this type at its owners, if only by NODATA.
    #[inline]
    pub(crate) fn pool_answers(&self, pool: usize, record_type: RecordType) -> bool {
        if matches!(record_type, RecordType::A | RecordType::AAAA) {
            return true;
        }
        let Some(pool) = self.pools.get(pool) else { return false };
        (pool.has_alias && record_type != RecordType::ANY) || pool.types.contains(&record_type)
    }

    /// Which address of the client some of a pool's answers give.
    #[inline]
    pub(crate) fn pool_reflects(&self, pool: usize) -> &[Option<Reflect>] {
        self.pools.get(pool).map_or(&[], |pool| &pool.reflects)
    }

    /// The records of one type of a pool's answer.
    #[inline]
    pub(crate) fn pool_answer(
        &self,
        pool: usize,
        answer: usize,
        record_type: RecordType,
    ) -> Option<Rrset<'_>> {
        let answer = self.pools.get(pool)?.answers.get(answer)?;
        let found = answer.iter().find(|(own, _)| *own == record_type);
        found.map(|(_, rrset)| rrset.get())
    }

    #[inline]
    fn served(&self, zone: u32) -> &ServedZone {
        self.zones.get(zone as usize).expect("the origins point at zones only")
    }
}

impl Overlay {
    /// Puts what pools add to what the zone has: a deeper name, or a pool at the one found.
    #[cold]
    fn look(&self, name: &LowerName, located: &mut ZoneLocation<'_>) {
        for labels in (located.labels..=name.label_count()).rev() {
            let Some(pool) = self.find(name.hash_of(labels), name.suffix(labels)) else {
                continue;
            };
            if labels > located.labels {
                located.place.node = None;
            }
            located.place.pool = pool;
            located.labels = labels;
            located.is_exact = labels == name.label_count();
            return;
        }
    }
}

impl Origins {
    fn build(zones: &[Arc<Zone>]) -> Origins {
        let size = (zones.len() * 2).next_power_of_two();
        let slots = vec![0; size].into_boxed_slice();
        let mut origins = Origins { slots, label_counts: Vec::new() };
        for (zone, number) in zones.iter().zip(1..) {
            let origin = LowerName::of(zone.origin());
            origins.label_counts.push(origin.label_count());
            let mut at = origin.hash_of(origin.label_count()) as usize & (size - 1);
            while origins.slots.get(at).is_some_and(|&slot| slot != 0) {
                at = (at + 1) & (size - 1);
            }
            if let Some(slot) = origins.slots.get_mut(at) {
                *slot = number;
            }
        }
        origins.label_counts.sort_unstable_by(|one, other| other.cmp(one));
        origins.label_counts.dedup();
        origins
    }
}
