//! From zones and pools to one whole, or why they do not fit together.
//!
//! Not for: finding names in it (`mod.rs`), reading zones.
//!
//! ```text
//! zones, pools ─► owners: zone, name, pool, each checked ─► overlay of each zone ─► Zones
//! ```
//!
//! Invariants: as in `mod.rs`; whatever would break one is an error that names pool and owner.
//! Concurrency: none. Cost: linear in zones, pools and their owners.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::alias_loops::{self, AliasLoop};
use super::{CompiledPool, Origins, Overlay, Pool, ServedZone, SignedOwner, Zones};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;
use crate::zone::layout::{HAS_ALIAS, NewRrset};
use crate::zone::{
    CompressionContext, Node, NodeRef, Rrset, SignedZone, TTL_SECONDS_MAX, Zone, compile,
};

/// Gathers zones and pools.
#[derive(Debug, Default)]
pub struct ZonesBuilder {
    zones: Vec<Arc<Zone>>,
    /// Those of the zones whose names are addresses, with the TTL of what they have.
    reversed: HashMap<usize, u32>,
    pools: Vec<Pool>,
}

impl ZonesBuilder {
    /// Adds a zone. A zone that did not change can be handed on as an [`Arc`].
    #[must_use]
    pub fn add_zone(mut self, zone: impl Into<Arc<Zone>>) -> ZonesBuilder {
        self.zones.push(zone.into());
        self
    }

    /// Adds a zone below whose apex addresses stand backwards; what is there is told by
    /// [`Context::synthesise`](crate::Context::synthesise). Records of the zone go before it. What
    /// is not there may be remembered for `ttl_seconds` at most: it may be there soon.
    #[must_use]
    pub fn add_reversed_zone(
        mut self,
        zone: impl Into<Arc<Zone>>,
        ttl_seconds: u32,
    ) -> ZonesBuilder {
        self.reversed.insert(self.zones.len(), ttl_seconds);
        self.add_zone(zone)
    }

    /// Adds a pool; its index is the number of pools before it.
    #[must_use]
    pub fn add_pool(mut self, pool: Pool) -> ZonesBuilder {
        self.pools.push(pool);
        self
    }

    /// Builds the index and compiles the pools' answers.
    ///
    /// # Errors
    ///
    /// When two zones have one origin, a pool's owner is where it cannot be answered, or a pool's
    /// alias leads back to the pool.
    pub fn build(self) -> Result<Zones, ZonesError> {
        let mut origins = HashMap::new();
        for (index, zone) in self.zones.iter().enumerate() {
            if origins.insert(zone.origin().clone(), index).is_some() {
                return Err(ZonesError::DuplicateZone { origin: zone.origin().clone() });
            }
        }
        for (index, zone) in self.zones.iter().enumerate() {
            if zone.signed().is_some() && self.reversed.contains_key(&index) {
                return Err(ZonesError::SignedReversed { origin: zone.origin().clone() });
            }
        }
        let attachments = Attachments::gather(&self.zones, &origins, &self.pools)?;
        let pools: Vec<CompiledPool> = self.pools.iter().map(CompiledPool::new).collect();
        let mut zones: Vec<ServedZone> = Vec::new();
        for (index, zone) in self.zones.iter().enumerate() {
            let overlay = attachments.overlay(index, zone, &pools).map(Box::new);
            let delegation = delegation_of(zone, &self.zones, &origins);
            let reversed_ttl = self.reversed.get(&index);
            let negative_soa = reversed_ttl.and_then(|ttl| zone.negative_soa_within(*ttl));
            let (zone, is_reversed) = (Arc::clone(zone), reversed_ttl.is_some());
            let is_plain = !is_reversed && !zone.is_unavailable();
            zones.push(ServedZone {
                zone,
                negative_soa,
                overlay,
                is_reversed,
                is_plain,
                delegation,
            });
        }
        let has_large = self.zones.iter().any(|zone| zone.is_large());
        let has_reversed = !self.reversed.is_empty();
        let origins = Origins::build(&self.zones);
        let zones = Zones { zones, origins, pools, has_large, has_reversed };
        match alias_loops::find(&zones, &self.pools) {
            None => Ok(zones),
            Some(found) => Err(ZonesError::AliasLoop(found)),
        }
    }
}

/// The deepest zone at or above a name, among `origins`.
fn zone_around(name: &Name, origins: &HashMap<Name, usize>) -> Option<usize> {
    let mut at = Some(name.clone());
    while let Some(name) = at {
        if let Some(&zone) = origins.get(&name) {
            return Some(zone);
        }
        at = name.parent();
    }
    None
}

/// Where the closest zone above `zone` delegates it.
fn delegation_of(
    zone: &Zone,
    zones: &[Arc<Zone>],
    origins: &HashMap<Name, usize>,
) -> Option<(u32, NodeRef)> {
    let upper = zone_around(&zone.origin().parent()?, origins)?;
    let node = zones.get(upper)?.find(zone.origin())?;
    (node.cut() == Some(node.place)).then_some((upper as u32, node.place))
}

/// The pools by zone and owner, checked.
struct Attachments {
    /// Of each zone that has some, the owners with their pools.
    zones: HashMap<usize, Vec<(Name, usize)>>,
}

impl Attachments {
    fn gather(
        zones: &[Arc<Zone>],
        origins: &HashMap<Name, usize>,
        pools: &[Pool],
    ) -> Result<Attachments, ZonesError> {
        let mut attached: HashMap<Name, usize> = HashMap::new();
        let mut by_zone: HashMap<usize, Vec<(Name, usize)>> = HashMap::new();
        for (index, pool) in pools.iter().enumerate() {
            if pool.ttl_seconds > TTL_SECONDS_MAX {
                let (pool, ttl_seconds) = (pool.name.clone(), pool.ttl_seconds);
                return Err(ZonesError::PoolTtl { pool, ttl_seconds });
            }
            for owner in &pool.owners {
                let refuse = |reason| ZonesError::PoolOwner {
                    pool: pool.name.clone(),
                    owner: owner.clone(),
                    reason,
                };
                let zone_index = zone_around(owner, origins)
                    .ok_or_else(|| refuse(PoolOwnerReason::OutsideEveryZone))?;
                let zone = zones.get(zone_index).expect("the origins number the zones");
                let reflects = pool.answers.iter().any(|answer| answer.reflect.is_some());
                if zone.signed().is_some() && reflects {
                    return Err(refuse(PoolOwnerReason::ReflectsInSigned(zone.origin().clone())));
                }
                if zone.signed().is_some() && !signs_pool(zone, owner, pool) {
                    return Err(refuse(PoolOwnerReason::SignedZone(zone.origin().clone())));
                }
                check_pool_owner(zone, owner).map_err(&refuse)?;
                let is_compact = zone.signed().is_some_and(SignedZone::is_compact);
                let is_known =
                    |node: Node<'_>| is_compact || node.rrset(RecordType::NSEC).is_some();
                if zone.signer().is_some() && !zone.find(owner).is_some_and(is_known) {
                    return Err(refuse(PoolOwnerReason::BelowDname(zone.origin().clone())));
                }
                if pool.answers.iter().any(|answer| answer.alias.is_some()) {
                    check_alias_owner(zone, owner).map_err(&refuse)?;
                }
                check_hidden(zone, owner, pool).map_err(&refuse)?;
                by_zone.entry(zone_index).or_default().push((owner.clone(), index));
                if let Some(other) = attached.insert(owner.clone(), index) {
                    let other = pools.get(other).map(|pool| pool.name.clone());
                    let reason = PoolOwnerReason::HasPool(other.unwrap_or_default());
                    return Err(refuse(reason));
                }
            }
        }
        Ok(Attachments { zones: by_zone })
    }

    /// The names of pools in one zone, and the empty names above those that it does not have.
    fn overlay(&self, zone_index: usize, zone: &Zone, pools: &[CompiledPool]) -> Option<Overlay> {
        let mut overlay = Overlay::default();
        let attached = self.zones.get(&zone_index)?;
        if let Some(signer) = zone.signer() {
            for (owner, pool) in attached {
                let lower = LowerName::of(owner);
                let hash = lower.hash_of(lower.label_count());
                let signed = pools.get(*pool).and_then(|pool| {
                    SignedOwner::build(zone, signer, owner, lower.as_wire(), pool)
                });
                // What could not be signed is answered without, and validators refuse it.
                overlay.signed.extend(signed.map(|signed| (hash, signed)));
            }
        }
        let mut add = |name: &Name, pool: Option<usize>| {
            let lower = LowerName::of(name);
            let hash = lower.hash_of(lower.label_count());
            let entry = overlay.names.entry(hash).or_insert((lower.as_wire().into(), None));
            entry.1 = pool.or(entry.1);
        };
        for (owner, pool) in attached {
            add(owner, Some(*pool));
            let mut above = owner.parent();
            while let Some(name) = above
                && zone.find(&name).is_none()
            {
                add(&name, None);
                above = name.parent();
            }
        }
        (!overlay.names.is_empty()).then_some(overlay)
    }
}

fn check_pool_owner(zone: &Zone, owner: &Name) -> Result<(), PoolOwnerReason> {
    let mut at = Some(owner.clone());
    while let Some(name) = at {
        if let Some(node) = zone.find(&name) {
            if let Some(cut) = node.cut() {
                return Err(PoolOwnerReason::Delegated(zone.name_of(&zone.node(cut))));
            }
            if name == *owner && node.has(HAS_ALIAS) {
                return Err(PoolOwnerReason::HasAlias);
            }
            return Ok(());
        }
        at = name.parent();
    }
    Ok(())
}

/// Whether the zone is signed here, with this owner and its types in the chain of names.
fn signs_pool(zone: &Zone, owner: &Name, pool: &Pool) -> bool {
    let lower = LowerName::of(owner);
    let Some(types) = zone.signer().and_then(|signer| signer.pool_types(lower.as_wire())) else {
        return false;
    };
    pool.answers.iter().all(|answer| {
        let mut others = answer.others.iter();
        others.all(|(record_type, _)| types.contains(record_type))
            && (answer.alias.is_none() || types.contains(&RecordType::CNAME))
    })
}

/// An alias stands alone at its owner (RFC 1034, 3.6.2), and no apex is alone. What signs the zone
/// may stand there.
fn check_alias_owner(zone: &Zone, owner: &Name) -> Result<(), PoolOwnerReason> {
    let is_data =
        |rrset: Rrset<'_>| !matches!(rrset.record_type, RecordType::RRSIG | RecordType::NSEC);
    let has_data = zone.find(owner).is_some_and(|node| node.rrsets().any(is_data));
    if has_data { Err(PoolOwnerReason::AliasBesideData) } else { Ok(()) }
}

/// Of addresses, the pool's are in the place of the zone's, as they are meant to be. Of other types
/// the zone's must not vanish unseen: a TXT of a pool would take the zone's SPF away.
fn check_hidden(zone: &Zone, owner: &Name, pool: &Pool) -> Result<(), PoolOwnerReason> {
    let Some(node) = zone.find(owner) else { return Ok(()) };
    let mut others = pool.answers.iter().flat_map(|answer| &answer.others);
    let hidden = others.find(|(record_type, _)| node.rrset(*record_type).is_some());
    hidden.map_or(Ok(()), |(record_type, _)| Err(PoolOwnerReason::HidesRecords(*record_type)))
}

impl CompiledPool {
    pub(super) fn new(pool: &Pool) -> CompiledPool {
        let compile = |record_type, mut data: Vec<Vec<u8>>| {
            let mut seen = HashSet::new();
            data.retain(|data| seen.insert(data.clone()));
            let bytes = data.iter().map(Vec::as_slice);
            let mut rrset = NewRrset::default();
            // Addresses have no names in them, so that it does not matter where they are.
            let around = CompressionContext { owner: &[0], relative_length: 0 };
            compile(&mut rrset, record_type, pool.ttl_seconds, bytes, around);
            (!data.is_empty()).then(|| rrset.to_owned())
        };
        let mut types: Vec<RecordType> = Vec::new();
        let answers = pool.answers.iter().map(|answer| {
            let ipv4: Vec<Vec<u8>> =
                answer.ipv4.iter().map(|address| address.octets().to_vec()).collect();
            let ipv6 = answer.ipv6.iter().map(|address| address.octets().to_vec()).collect();
            let mut data = vec![(RecordType::A, ipv4), (RecordType::AAAA, ipv6)];
            let alias = answer.alias.iter().map(|alias| (RecordType::CNAME, alias.as_wire()));
            let others = answer.others.iter().map(|(of, data)| (*of, data.as_slice()));
            for (record_type, bytes) in alias.chain(others) {
                match data.iter_mut().find(|(known, _)| *known == record_type) {
                    Some((_, known)) => known.push(bytes.to_vec()),
                    None => data.push((record_type, vec![bytes.to_vec()])),
                }
                if !types.contains(&record_type) {
                    types.push(record_type);
                }
            }
            let compiled = data.into_iter();
            compiled.filter_map(|(of, data)| Some((of, compile(of, data)?))).collect()
        });
        let answers = answers.collect();
        let has_alias = types.contains(&RecordType::CNAME);
        let reflects = pool.answers.iter().map(|answer| answer.reflect);
        let reflects = if reflects.clone().any(|reflect| reflect.is_some()) {
            reflects.collect()
        } else {
            Box::default()
        };
        let (name, ttl_seconds) = (pool.name.clone(), pool.ttl_seconds);
        CompiledPool { answers, types, has_alias, name, ttl_seconds, reflects }
    }
}

/// Why zones and pools do not make a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZonesError {
    /// Two zones have the same origin.
    DuplicateZone {
        /// That origin.
        origin: Name,
    },
    /// A zone of addresses has signatures, which its addresses lack.
    SignedReversed {
        /// Its origin.
        origin: Name,
    },
    /// A pool's TTL is above 2^31 - 1 seconds.
    PoolTtl {
        /// The pool's name.
        pool: String,
        /// The text that was found.
        ttl_seconds: u32,
    },
    /// A pool cannot answer at one of its owners.
    PoolOwner {
        /// The pool's name.
        pool: String,
        /// The owner.
        owner: Name,
        /// The fault there.
        reason: PoolOwnerReason,
    },
    /// An alias of a pool leads back to the pool.
    AliasLoop(AliasLoop),
}

/// Why a pool cannot answer at an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolOwnerReason {
    /// No served zone contains it.
    OutsideEveryZone,
    /// The zone has a CNAME there.
    HasAlias,
    /// It is at or below this delegation.
    Delegated(Name),
    /// This pool has it already.
    HasPool(String),
    /// The zone has records there, and the pool has an alias.
    AliasBesideData,
    /// The zone has records of this type there, and the pool has some, too.
    HidesRecords(RecordType),
    /// The zone is signed, and nobody signs addresses of clients.
    ReflectsInSigned(Name),
    /// The zone's signatures are those of its file, which has none of a pool's answers.
    SignedZone(Name),
    /// It is below a DNAME of this zone, which is signed here.
    BelowDname(Name),
}

impl ZonesError {
    /// The pool that it is about.
    pub fn pool(&self) -> Option<&str> {
        match self {
            ZonesError::DuplicateZone { .. } | ZonesError::SignedReversed { .. } => None,
            ZonesError::PoolTtl { pool, .. } | ZonesError::PoolOwner { pool, .. } => Some(pool),
            ZonesError::AliasLoop(found) => Some(&found.pool),
        }
    }
}

impl fmt::Display for ZonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZonesError::DuplicateZone { origin } => {
                write!(f, "the zone {origin} is there twice; each zone is allowed once")
            }
            ZonesError::SignedReversed { origin } => write!(
                f,
                "the zone {origin} has signatures, and addresses that none of them signs; an unsigned \
                 zone is allowed"
            ),
            ZonesError::PoolTtl { pool, ttl_seconds } => {
                let most = TTL_SECONDS_MAX;
                write!(f, "pool \"{pool}\": ttl_seconds {ttl_seconds}; allowed are 0 to {most}")
            }
            ZonesError::AliasLoop(found) => found.fmt(f),
            ZonesError::PoolOwner { pool, owner, reason } => {
                write!(f, "pool \"{pool}\": the owner {owner} ")?;
                match reason {
                    PoolOwnerReason::OutsideEveryZone => f.write_str("is outside every zone"),
                    PoolOwnerReason::HasAlias => {
                        f.write_str("has a CNAME; a pool needs a name without one")
                    }
                    PoolOwnerReason::Delegated(cut) => {
                        write!(f, "is delegated at {cut}; a pool answers with authority only")
                    }
                    PoolOwnerReason::AliasBesideData => f.write_str(
                        "has records in its zone; a pool with a CNAME needs a name without any",
                    ),
                    PoolOwnerReason::HidesRecords(record_type) => write!(
                        f,
                        "has {record_type} in its zone, which {record_type} of a site would hide; \
                         one of the two may have it"
                    ),
                    PoolOwnerReason::ReflectsInSigned(origin) => write!(
                        f,
                        "is in the signed zone {origin}, and a site answers with the client's address, \
                         which nobody signs; an unsigned zone may have such a site"
                    ),
                    PoolOwnerReason::SignedZone(origin) => write!(
                        f,
                        "is in the signed zone {origin}, whose file has no signatures of a pool's \
                         answers; resolvers would refuse them"
                    ),
                    PoolOwnerReason::BelowDname(origin) => write!(
                        f,
                        "is below a DNAME of the signed zone {origin}, where nothing can be signed; \
                         a name beside it is allowed"
                    ),
                    PoolOwnerReason::HasPool(other) => {
                        write!(f, "already has the pool \"{other}\"; one pool is allowed")
                    }
                }
            }
        }
    }
}

impl std::error::Error for ZonesError {}
