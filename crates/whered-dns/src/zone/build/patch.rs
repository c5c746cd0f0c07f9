//! A zone with a few changes: a copy of its memory with the blocks of what changed behind the
//! others.
//!
//! Not for: which changes may be made (`difference.rs`), signed zones and changes of DNAME, which
//! are built whole.
//!
//! ```text
//! blocks of the zone, some of them dead now | blocks of changed owners and of those above them
//! ```
//!
//! An owner is written anew when its records change, when it stands above such a one, and when the
//! addresses of one of its servers come or go. These owners make a small zone, which is checked and
//! compiled as any other (`build.rs`). In all other blocks nothing changes but references.
//! Cost: a copy of the memory and a walk over all blocks, whatever the number of changes.

use std::collections::{HashMap, HashSet};

use super::super::difference::Changes;
use super::super::error::{Place, ZoneError};
use super::super::index::IndexChanges;
use super::super::layout::{
    Arena, ArenaWriter, BlockChanges, HAS_CHILDREN, HAS_DNAME, HAS_WILDCARD, Node, NodeRef,
};
use super::super::parsed_zone::{NONE, ParsedZone};
use super::super::records::{self, ZoneRecord};
use super::super::{Dnssec, Parts, REMARK_COUNT_MAX, Zone};
use super::Builder;
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;

/// A quarter of a zone's owners are changed at most; a whole build is as quick then.
const TOUCHED_PART: usize = 4;
/// A quarter of a zone's memory is dead at most.
const DEAD_PART: usize = 4;

/// A name without the origin, in lower case.
type Relative = Box<[u8]>;

/// An owner that is written anew.
struct TouchedOwner {
    records: Vec<ZoneRecord>,
    before: Option<NodeRef>,
    /// Flags by what stays below it.
    flags: u8,
}

/// See the head of this file.
struct Patch<'z> {
    zone: &'z Zone,
    touched: HashMap<Relative, TouchedOwner>,
    /// Their blocks before.
    places: HashSet<u32>,
    /// Those that begin or cease to be delegations.
    moved_cuts: HashSet<Relative>,
}

/// References of blocks that stay, to what is written anew.
#[derive(Default)]
struct References {
    /// Where they stand, and the block before.
    to_touched: Vec<(usize, NodeRef)>,
    /// Blocks below delegations that come or go.
    below_moved_cuts: Vec<NodeRef>,
}

/// Makes the changes; none where a whole build is needed, also to say what is wrong.
pub(in super::super) fn patch(zone: &Zone, changes: &Changes) -> Option<Zone> {
    if zone.signed.is_some() || zone.parts.dead_bytes * DEAD_PART > zone.parts.arena.size_bytes() {
        return None;
    }
    let mut patch = Patch::of(zone, changes)?;
    let references = patch.references();
    patch.build(&references).ok().flatten()
}

impl<'z> Patch<'z> {
    /// Finds what is written anew.
    fn of(zone: &'z Zone, changes: &Changes) -> Option<Patch<'z>> {
        let (places, moved_cuts) = (HashSet::new(), HashSet::new());
        let mut patch = Patch { zone, touched: HashMap::new(), places, moved_cuts };
        let mut moved_hosts: HashSet<Relative> = HashSet::new();
        for (owner, records) in &changes.owners {
            let has =
                |wanted: RecordType| records.iter().any(|record| record.record_type == wanted);
            if has(RecordType::DNAME) || has(RecordType::RRSIG) || !owner.is_within(&zone.origin) {
                return None;
            }
            let relative = patch.relative(owner);
            let node = zone.find(owner);
            let had = |wanted| node.is_some_and(|node| node.rrset(wanted).is_some());
            if had(RecordType::NS) != has(RecordType::NS) && is_delegable(&relative) {
                patch.moved_cuts.insert(relative.clone());
            }
            let has_addresses = has(RecordType::A) || has(RecordType::AAAA);
            if (had(RecordType::A) || had(RecordType::AAAA)) != has_addresses {
                moved_hosts.insert(relative.clone());
            }
            patch.touch(relative, records.clone());
        }
        patch.touch_delegations(&moved_hosts);
        patch.touch_owners_above();
        let is_dname = |place: &u32| zone.node(NodeRef(*place)).has(HAS_DNAME);
        let is_small = patch.touched.len() * TOUCHED_PART <= zone.name_count;
        (is_small && !patch.places.iter().any(is_dname)).then_some(patch)
    }

    fn relative(&self, owner: &Name) -> Relative {
        let length = owner.as_wire().len() - self.zone.lower_origin.len();
        owner.as_wire()[..length].to_ascii_lowercase().into()
    }

    fn touch(&mut self, relative: Relative, records: Vec<ZoneRecord>) {
        let before = self.zone.find_relative(&relative).map(|node| node.place);
        self.places.extend(before.map(|NodeRef(place)| place));
        self.touched.insert(relative, TouchedOwner { records, before, flags: 0 });
    }

    /// Writes those anew that list other servers' addresses than before: servers have them now, or
    /// have them no longer; or the delegation above, which hid this one, has come or gone.
    fn touch_delegations(&mut self, hosts: &HashSet<Relative>) {
        if hosts.is_empty() && self.moved_cuts.is_empty() {
            return;
        }
        let is_root = self.zone.origin.as_wire() == [0];
        let mut found = Vec::new();
        for node in self.zone.parts.arena.nodes() {
            let Some(servers) = node.rrset(RecordType::NS) else { continue };
            let is_below = self.is_below_moved_cut(node.owner());
            // Names within the zone end in a pointer to its origin, but for the root's.
            if !is_below && !is_root && servers.points().next().is_none() {
                continue;
            }
            let is_moved = |record: ZoneRecord| {
                let name = Name::from_wire(&record.data).ok();
                let name = name.filter(|name| name.is_within(&self.zone.origin));
                name.is_some_and(|name| hosts.contains(&self.relative(&name)))
            };
            if (is_below || self.zone.records_of_rrset(&node, servers).any(is_moved))
                && !self.touched.contains_key(node.owner())
            {
                found.push(node);
            }
        }
        for node in found {
            self.touch(node.owner().into(), self.zone.records_of(&node));
        }
    }

    fn is_below_moved_cut(&self, owner: &[u8]) -> bool {
        let is_moved = |name| self.moved_cuts.contains(name);
        !self.moved_cuts.is_empty() && above(owner).any(is_moved)
    }

    fn touch_owners_above(&mut self) {
        let mut missing: HashSet<Relative> = HashSet::from([Relative::default()]);
        for relative in self.touched.keys() {
            missing.extend(above(relative).map(Into::into));
        }
        missing.retain(|relative| !self.touched.contains_key(relative));
        for relative in missing {
            if let Some(node) = self.zone.find_relative(&relative) {
                self.touch(relative, self.zone.records_of(&node));
            }
        }
    }

    /// Looks at all blocks that stay: what they refer to, and which of the others stand above them.
    fn references(&mut self) -> References {
        let mut references = References::default();
        for node in self.zone.parts.arena.nodes() {
            if self.places.contains(&node.place.0) {
                continue;
            }
            let owner = node.owner();
            let parent = above(owner).next().unwrap_or_default();
            if let Some(parent) = self.touched.get_mut(parent) {
                let wildcard = if owner.starts_with(b"\x01*") { HAS_WILDCARD } else { 0 };
                parent.flags |= HAS_CHILDREN | wildcard;
            }
            let cut = node.cut().map(|cut| (Arena::cut_offset(node.place), cut));
            let to_touched = cut.into_iter().chain(node.glue_references());
            let is_touched = |(_, place): &(usize, NodeRef)| self.places.contains(&place.0);
            references.to_touched.extend(to_touched.filter(is_touched));
            if self.is_below_moved_cut(owner) {
                references.below_moved_cuts.push(node.place);
            }
        }
        references
    }

    /// Writes the owners anew.
    fn build(&self, references: &References) -> Result<Option<Zone>, ZoneError> {
        let zone = self.zone;
        let end = Place { file: None, line: 0, column: 0 };
        let mut parsed = ParsedZone::new(&zone.origin);
        for (relative, touched) in &self.touched {
            if !touched.records.is_empty() || touched.flags & HAS_CHILDREN != 0 {
                parsed.owner(&[relative, &zone.lower_origin[..]].concat());
            }
            for record in &touched.records {
                records::add(&mut parsed, record, Dnssec::Serve, (0, 0, 0))?;
            }
        }
        parsed.complete();
        let mut builder = Builder::new(parsed);
        let (serial, negative_soa) = builder.check_apex(&end)?;
        builder.mark()?;
        for (number, owner) in builder.parsed.owners.iter().enumerate() {
            let touched = self.touched.get(builder.parsed.name_of(owner));
            builder.flags[number] |= touched.map_or(0, |touched| touched.flags);
        }
        let Some(first) = zone.parts.arena.end() else { return Ok(None) };
        let stays = |name: &[u8]| self.host(name);
        let (writer, nodes, record_count) =
            builder.lay_out(ArenaWriter::behind(first), &stays, &end)?;
        let Builder { parsed, mut warnings, .. } = builder;
        let owners = parsed.owners.iter().zip(&nodes);
        let owners = owners.map(|(owner, node)| (parsed.name_of(owner), owner.hash, *node));
        let index = self.index_changes(owners.clone());
        let after: HashMap<&[u8], NodeRef> = owners.map(|(name, _, node)| (name, node)).collect();
        let Some(names) = zone.parts.index.changed(&index) else { return Ok(None) };
        let blocks = self.block_changes(references, &after);
        let dead = blocks.dead.iter().map(|place| zone.node(*place));
        let dead_bytes: usize = dead.clone().map(|node| node.size_bytes()).sum();
        let dead_records: usize =
            dead.clone().flat_map(|node| node.rrsets()).map(|set| usize::from(set.count)).sum();
        let name_count = zone.name_count - dead.len() + nodes.len();
        warnings.splice(..0, zone.warnings.iter().cloned());
        warnings.truncate(REMARK_COUNT_MAX);
        let parts = Parts {
            arena: zone.parts.arena.with_blocks(&writer, &blocks),
            index: names,
            apex: nodes[0],
            common_depth: zone.parts.common_depth,
            dead_bytes: zone.parts.dead_bytes + dead_bytes,
        };
        Ok(Some(Zone {
            origin: zone.origin.clone(),
            lower_origin: zone.lower_origin.clone(),
            serial,
            record_count: zone.record_count - dead_records + record_count,
            name_count,
            left_out_count: zone.left_out_count,
            has_occluded: zone.has_occluded,
            parts,
            negative_soa,
            signed: None,
            warnings,
            is_unavailable: false,
        }))
    }

    /// What the index learns of owners, each with its hash and its block.
    fn index_changes<'n>(
        &self,
        owners: impl Iterator<Item = (&'n [u8], u64, NodeRef)>,
    ) -> IndexChanges {
        let mut changes = IndexChanges::default();
        let mut kept: HashSet<&[u8]> = HashSet::new();
        for (name, hash, node) in owners {
            kept.insert(name);
            match self.touched.get(name).and_then(|touched| touched.before) {
                Some(before) => changes.moved.push((hash, before, node)),
                None => changes.added.push((hash, node)),
            }
        }
        for (relative, touched) in &self.touched {
            if let Some(before) = touched.before
                && !kept.contains(&relative[..])
            {
                // The apex's own name is that of no other owner, so that nobody finds its old
                // block.
                let gone = self.zone.parts.apex;
                changes.moved.push((self.hash_of(relative), before, gone));
            }
        }
        changes
    }

    /// The block of a server with addresses that is not written anew.
    fn host(&self, name: &[u8]) -> Option<NodeRef> {
        let name = Name::from_wire(name).ok().filter(|name| name.is_within(&self.zone.origin))?;
        let node = self.zone.find(&name)?;
        let has = |wanted| node.rrset(wanted).is_some();
        let has_addresses = has(RecordType::A) || has(RecordType::AAAA);
        (has_addresses && !self.places.contains(&node.place.0)).then_some(node.place)
    }

    fn hash_of(&self, relative: &[u8]) -> u64 {
        let mut name = LowerName::root();
        name.read(&[relative, &self.zone.lower_origin].concat());
        name.hash_of(name.label_count())
    }

    fn block_changes(
        &self,
        references: &References,
        after: &HashMap<&[u8], NodeRef>,
    ) -> BlockChanges {
        let mut moved: HashMap<u32, NodeRef> = HashMap::new();
        for (relative, touched) in &self.touched {
            if let (Some(NodeRef(before)), Some(node)) = (touched.before, after.get(&relative[..]))
            {
                moved.insert(before, *node);
            }
        }
        let dead = self.places.iter().map(|place| NodeRef(*place)).collect();
        let mut changes = BlockChanges { dead, references: Vec::new() };
        for (at, NodeRef(before)) in &references.to_touched {
            if let Some(NodeRef(node)) = moved.get(before) {
                changes.references.push((*at, *node));
            }
        }
        for place in &references.below_moved_cuts {
            let cut = self.cut_of(&self.zone.node(*place), after);
            let cut = cut.map_or(NONE, |NodeRef(cut)| cut);
            changes.references.push((Arena::cut_offset(*place), cut));
        }
        changes
    }

    /// The topmost delegation at or above an owner that stays where it is.
    fn cut_of(&self, node: &Node<'_>, after: &HashMap<&[u8], NodeRef>) -> Option<NodeRef> {
        let mut names: Vec<&[u8]> = above(node.owner()).collect();
        names.insert(0, node.owner());
        names.into_iter().rev().filter(|name| is_delegable(name)).find_map(|name| {
            if let Some(touched) = self.touched.get(name) {
                let is_server = |record: &ZoneRecord| record.record_type == RecordType::NS;
                let is_cut = touched.records.iter().any(is_server);
                return after.get(name).copied().filter(|_| is_cut);
            }
            let there = self.zone.find_relative(name)?;
            there.rrset(RecordType::NS).map(|_| there.place)
        })
    }
}

/// Whether NS at an owner make a delegation.
fn is_delegable(relative: &[u8]) -> bool {
    !relative.is_empty() && !relative.starts_with(b"\x01*")
}

/// The names above one, the apex last.
fn above(relative: &[u8]) -> impl Iterator<Item = &[u8]> {
    fn step<'n>(name: &&'n [u8]) -> Option<&'n [u8]> {
        let length = usize::from(*name.first()?);
        name.get(1 + length..)
    }
    std::iter::successors(step(&relative), step)
}
