//! All zones of one generation with the pools attached to their names, and how a name is found.
//!
//! Not for: what is answered (`answer.rs`), choosing among a pool's answers (the caller).
//!
//! ```text
//! Zones  index: hash of owner -> (zone, node, pool)     one probe for a name that exists
//!        zones: [Arc<Zone> + extra nodes]               extra: pool owners without own records
//!        pools: [answer 0: A rrset, AAAA rrset | answer 1 ...]   in wire form, at build
//! ```
//!
//! Invariants: a name belongs to the deepest zone around it: nodes of a zone at or below the apex
//! of another served zone are not in the index (glue of the upper zone, for one). Every name
//! between an indexed owner and its apex is indexed.
//! Concurrency: immutable once built. Cost: building is linear in all names; a missing name costs
//! a probe for each of its labels and one for the wildcard.
#![deny(clippy::indexing_slicing)]

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::code::RecordType;
use crate::index::{NameIndex, Slot};
use crate::name::{LowerName, Name, hash_below, hash_name};
use crate::zone::{Node, Rrset, TTL_SECONDS_MAX, Zone};

/// A set of answers of which one is chosen for each client: replaces the zone's own A and AAAA at
/// its owners. Other types at these owners stay the zone's.
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
    /// What can be chosen; [`Choice::answer`](crate::Choice::answer) is an index into this.
    pub answers: Vec<Answer>,
}

/// The addresses that are given together. An empty family is answered by NODATA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// For A.
    pub ipv4: Vec<Ipv4Addr>,
    /// For AAAA.
    pub ipv6: Vec<Ipv6Addr>,
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
///     answers: vec![Answer { ipv4: vec!["192.0.2.10".parse()?], ipv6: vec![] }],
/// };
/// let zones = Zones::builder().add_zone(zone).add_pool(pool).build()?;
/// assert_eq!(zones.pool_name(0), Some("www"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Zones {
    zones: Vec<Served>,
    index: NameIndex,
    pools: Vec<CompiledPool>,
}

#[derive(Debug)]
struct Served {
    zone: Arc<Zone>,
    extra: Vec<Node>,
    /// The delegation of this zone in another served zone, for DS (RFC 4035, 3.1.4.1).
    delegation: Option<Slot>,
}

#[derive(Debug)]
struct CompiledPool {
    name: String,
    answers: Vec<[Option<Rrset>; 2]>,
}

/// What [`Zones::locate`] finds.
pub(crate) enum Located {
    /// The name itself.
    Exact(Slot),
    /// The name does not exist; its closest encloser does, and maybe a wildcard below that.
    Below { encloser: Slot, wildcard: Option<Slot> },
    /// No zone around the name.
    Outside,
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
        self.zones().find(|zone| zone.origin() == origin)
    }

    /// How many pools; their indices are in the order in which they were added.
    #[must_use]
    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// The name of a pool.
    #[must_use]
    pub fn pool_name(&self, index: usize) -> Option<&str> {
        self.pools.get(index).map(|pool| pool.name.as_str())
    }

    /// Finds a name: one probe when it exists.
    pub(crate) fn locate(&self, name: &LowerName) -> Located {
        if let Some(slot) = self.probe(name.hash(), name.as_wire()) {
            return Located::Exact(slot);
        }
        let mut closest = None;
        for (suffix, hash) in name.ancestors() {
            if let Some(slot) = self.probe(hash, suffix) {
                closest = Some((slot, suffix, hash));
            }
        }
        let Some((encloser, suffix, hash)) = closest else {
            return Located::Outside;
        };
        let wildcard = self.index.find(hash_below(hash, b"*"), |slot| {
            let owner = self.node(slot).owner.as_wire();
            owner.strip_prefix(b"\x01*").is_some_and(|rest| rest.eq_ignore_ascii_case(suffix))
        });
        Located::Below { encloser, wildcard }
    }

    #[inline]
    fn probe(&self, hash: u64, lower_wire: &[u8]) -> Option<Slot> {
        self.index
            .find(hash, |slot| self.node(slot).owner.as_wire().eq_ignore_ascii_case(lower_wire))
    }

    pub(crate) fn zone_of(&self, slot: &Slot) -> &Zone {
        &self.served(slot).zone
    }

    pub(crate) fn node(&self, slot: &Slot) -> &Node {
        let served = self.served(slot);
        let (nodes, index) = (served.zone.nodes(), slot.node as usize);
        let node = nodes.get(index).or_else(|| served.extra.get(index - nodes.len()));
        node.expect("the index points at nodes only")
    }

    /// The delegation above an apex, when another served zone has it.
    pub(crate) fn delegation_of(&self, slot: &Slot) -> Option<Slot> {
        self.served(slot).delegation.filter(|_| slot.node == 0)
    }

    /// A pool's answer of one family.
    pub(crate) fn pool_answer(
        &self,
        pool: usize,
        answer: usize,
        record_type: RecordType,
    ) -> Option<&Rrset> {
        let [ipv4, ipv6] = self.pools.get(pool)?.answers.get(answer)?;
        if record_type == RecordType::A { ipv4.as_ref() } else { ipv6.as_ref() }
    }

    fn served(&self, slot: &Slot) -> &Served {
        self.zones.get(slot.zone as usize).expect("the index points at zones only")
    }
}

/// Gathers zones and pools.
#[derive(Debug, Default)]
pub struct ZonesBuilder {
    zones: Vec<Arc<Zone>>,
    pools: Vec<Pool>,
}

impl ZonesBuilder {
    /// Adds a zone. A zone that did not change can be handed on as an [`Arc`].
    #[must_use]
    pub fn add_zone(mut self, zone: impl Into<Arc<Zone>>) -> ZonesBuilder {
        self.zones.push(zone.into());
        self
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
    /// When two zones have one origin, or a pool's owner is where it cannot be answered.
    pub fn build(self) -> Result<Zones, ZonesError> {
        let mut origins = HashMap::new();
        for (index, zone) in self.zones.iter().enumerate() {
            if origins.insert(zone.origin().clone(), index).is_some() {
                return Err(ZonesError::DuplicateZone { origin: zone.origin().clone() });
            }
        }
        let attachments = Attachments::gather(&self.zones, &origins, &self.pools)?;
        let mut entries = Vec::new();
        let mut zones: Vec<Served> = Vec::new();
        for (index, zone) in self.zones.iter().enumerate() {
            let extra = attachments.extra_nodes(index, zone);
            let inner = inner_apexes(zone, &origins);
            for (at, node) in zone.nodes().iter().chain(&extra).enumerate() {
                if inner.is_empty() || !is_at_or_below(&node.owner, &inner) {
                    let pool = attachments.pools.get(&node.owner).map(|&(_, pool)| pool);
                    entries.push((hash_name(&node.owner), Slot::new(index, at, pool)));
                }
            }
            let delegation = delegation_of(zone, &self.zones, &origins);
            zones.push(Served { zone: Arc::clone(zone), extra, delegation });
        }
        let pools = self.pools.into_iter().map(CompiledPool::new).collect();
        Ok(Zones { zones, index: NameIndex::build(&entries), pools })
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

/// The apexes of other zones inside `zone`.
fn inner_apexes<'a>(zone: &Zone, origins: &'a HashMap<Name, usize>) -> HashSet<&'a Name> {
    let inner = |origin: &&Name| *origin != zone.origin() && origin.is_within(zone.origin());
    origins.keys().filter(inner).collect()
}

fn is_at_or_below(name: &Name, apexes: &HashSet<&Name>) -> bool {
    let mut at = Some(name.clone());
    while let Some(name) = at {
        if apexes.contains(&name) {
            return true;
        }
        at = name.parent();
    }
    false
}

/// Where the closest zone above `zone` delegates it.
fn delegation_of(zone: &Zone, zones: &[Arc<Zone>], origins: &HashMap<Name, usize>) -> Option<Slot> {
    let upper = zone_around(&zone.origin().parent()?, origins)?;
    let upper_zone = zones.get(upper)?;
    let node = upper_zone.find(zone.origin())?;
    let is_cut = upper_zone.nodes().get(node)?.cut == Some(node as u32);
    is_cut.then(|| Slot::new(upper, node, None))
}

/// The pools by owner, checked.
struct Attachments {
    /// Owner to zone and pool.
    pools: HashMap<Name, (usize, usize)>,
}

impl Attachments {
    fn gather(
        zones: &[Arc<Zone>],
        origins: &HashMap<Name, usize>,
        pools: &[Pool],
    ) -> Result<Attachments, ZonesError> {
        let mut attached: HashMap<Name, (usize, usize)> = HashMap::new();
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
                check_pool_owner(zone, owner).map_err(&refuse)?;
                if let Some((_, other)) = attached.insert(owner.clone(), (zone_index, index)) {
                    let other = pools.get(other).map(|pool| pool.name.clone());
                    let reason = PoolOwnerReason::HasPool(other.unwrap_or_default());
                    return Err(refuse(reason));
                }
            }
        }
        Ok(Attachments { pools: attached })
    }

    /// Nodes for pool owners that the zone does not have, and for the empty names above them.
    fn extra_nodes(&self, zone_index: usize, zone: &Zone) -> Vec<Node> {
        let mut names = HashSet::new();
        for (owner, _) in self.pools.iter().filter(|(_, (zone, _))| *zone == zone_index) {
            let mut at = Some(owner.clone());
            while let Some(name) = at
                && zone.find(&name).is_none()
            {
                at = name.parent();
                names.insert(name);
            }
        }
        let mut names: Vec<Name> = names.into_iter().collect();
        names.sort();
        names.into_iter().map(Node::empty).collect()
    }
}

fn check_pool_owner(zone: &Zone, owner: &Name) -> Result<(), PoolOwnerReason> {
    let mut at = Some(owner.clone());
    while let Some(name) = at {
        if let Some(node) = zone.find(&name).and_then(|node| zone.nodes().get(node)) {
            let cut = node.cut.and_then(|cut| zone.nodes().get(cut as usize));
            if let Some(cut) = cut {
                return Err(PoolOwnerReason::Delegated(cut.owner.clone()));
            }
            if name == *owner && node.rrset(RecordType::CNAME).is_some() {
                return Err(PoolOwnerReason::HasAlias);
            }
            return Ok(());
        }
        at = name.parent();
    }
    Ok(())
}

impl CompiledPool {
    fn new(pool: Pool) -> CompiledPool {
        let compile = |record_type, mut data: Vec<Vec<u8>>| {
            let mut seen = HashSet::new();
            data.retain(|data| seen.insert(data.clone()));
            let bytes = data.iter().map(Vec::as_slice);
            let rrset = || Rrset::compile(record_type, pool.ttl_seconds, bytes, &Name::root());
            (!data.is_empty()).then(rrset)
        };
        let answers = pool.answers.iter().map(|answer| {
            let ipv4 = answer.ipv4.iter().map(|address| address.octets().to_vec()).collect();
            let ipv6 = answer.ipv6.iter().map(|address| address.octets().to_vec()).collect();
            [compile(RecordType::A, ipv4), compile(RecordType::AAAA, ipv6)]
        });
        CompiledPool { answers: answers.collect(), name: pool.name }
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
    /// A pool's TTL is above 2^31 - 1 seconds.
    PoolTtl {
        /// The pool's name.
        pool: String,
        /// What was found.
        ttl_seconds: u32,
    },
    /// A pool cannot answer at one of its owners.
    PoolOwner {
        /// The pool's name.
        pool: String,
        /// The owner.
        owner: Name,
        /// What is wrong there.
        reason: PoolOwnerReason,
    },
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
}

impl fmt::Display for ZonesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZonesError::DuplicateZone { origin } => {
                write!(f, "the zone {origin} is there twice; each zone is allowed once")
            }
            ZonesError::PoolTtl { pool, ttl_seconds } => {
                let most = TTL_SECONDS_MAX;
                write!(f, "pool \"{pool}\": ttl_seconds {ttl_seconds}; allowed are 0 to {most}")
            }
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
                    PoolOwnerReason::HasPool(other) => {
                        write!(f, "already has the pool \"{other}\"; one pool is allowed")
                    }
                }
            }
        }
    }
}

impl std::error::Error for ZonesError {}
