//! What one version of a zone has and another has not, and a zone with such changes made.
//!
//! Not for: messages that carry changes (`transfer`), which changes a client may ask for
//! (`update`).
//!
//! Concurrency: reads immutable zones and makes a new one. Cost of [`Zone::difference`]: a walk
//! over both zones, and a search for each owner that is elsewhere in the other. Cost of
//! [`Zone::patched`]: that of a copy (`build/patch.rs`); of a whole build for signed zones, changes
//! of DNAME, and many changes.

use std::collections::{HashMap, HashSet, VecDeque};

use super::error::{Place, ZoneError};
use super::layout::Node;
use super::{Dnssec, Zone, ZoneRecord, build};
use crate::code::RecordType;
use crate::name::Name;

/// The changes from one version of a zone to another (RFC 1995, 4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// The serial before.
    pub from_serial: u32,
    /// The serial after.
    pub to_serial: u32,
    /// What is no longer there: the old SOA first.
    pub removed: Vec<ZoneRecord>,
    /// What is there now: the new SOA first.
    pub added: Vec<ZoneRecord>,
}

impl Zone {
    /// The changes that make this zone the newer one. A record whose TTL alone changed is removed
    /// and added.
    ///
    /// ```
    /// use whered_dns::{Name, Zone};
    /// let origin: Name = "example.com".parse()?;
    /// let zone = |text: &str| {
    ///     Zone::from_master_file(&origin, text.as_bytes(), &mut |_| Err("no".into()))
    /// };
    /// let old = zone("@ 60 SOA ns h 7 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n")?;
    /// let new = zone("@ 60 SOA ns h 8 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.2\n")?;
    /// let difference = old.difference(&new);
    /// assert_eq!((difference.removed.len(), difference.added.len()), (2, 2));
    /// assert!(old.patched("here", &[difference])?.records().eq(new.records()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn difference(&self, newer: &Zone) -> Difference {
        let mut difference = Difference {
            from_serial: self.serial(),
            to_serial: newer.serial(),
            removed: self.soa().into_iter().collect(),
            added: newer.soa().into_iter().collect(),
        };
        self.compare_owners(newer, &mut difference);
        let mut old = by_owner(self.hashed_records());
        for (owner, new) in by_owner(newer.hashed_records()) {
            difference.compare(&old.remove(&owner).unwrap_or_default(), &new);
        }
        old.values().for_each(|old| difference.compare(old, &[]));
        difference
    }

    /// Compares all owners. Both zones mostly have them in the same order, so that the next owner
    /// of one is the next of the other and nothing has to be searched.
    fn compare_owners(&self, newer: &Zone, difference: &mut Difference) {
        let mut others = LookAhead::new(newer.parts.arena.nodes());
        let mut compare = |old: Option<&Node<'_>>, new: Option<&Node<'_>>| {
            if old.zip(new).is_some_and(|(old, new)| old.rrsets_are_those_of(new)) {
                return;
            }
            let old = old.map(|node| self.records_of(node)).unwrap_or_default();
            let new = new.map(|node| newer.records_of(node)).unwrap_or_default();
            difference.compare(&old, &new);
        };
        // Owners that were compared before their turn, and those that were passed over.
        let (mut compared, mut passed) = (HashSet::new(), Vec::new());
        for node in self.parts.arena.nodes() {
            let owner = node.owner();
            if let Some(other) = others.take_near(owner, &mut passed) {
                compare(Some(&node), Some(&other));
            } else {
                let other = newer.find_relative(owner);
                compare(Some(&node), other.as_ref());
                compared.extend(other.map(|other| other.owner()));
            }
        }
        for other in passed.into_iter().chain(others) {
            if !compared.contains(other.owner()) {
                compare(None, Some(&other));
            }
        }
    }

    /// The SOA.
    #[must_use]
    pub fn soa(&self) -> Option<ZoneRecord> {
        let apex = self.apex();
        let rrset = apex.rrset(RecordType::SOA)?;
        self.records_of_rrset(&apex, rrset).next()
    }

    /// A zone with changes made one after another. `source` stands in the places of errors.
    ///
    /// # Errors
    ///
    /// A removed record that is not there, changes of another serial than that of the zone, and
    /// what [`Zone::from_records`] refuses.
    pub fn patched(&self, source: &str, differences: &[Difference]) -> Result<Zone, ZoneError> {
        if self.is_signed_here() {
            let place = Place { file: Some(source.into()), line: 1, column: 1 };
            let found = format!("changes of {}, which is signed here", self.origin());
            let allowed = "changes of the zone before it is signed";
            return Err(ZoneError::new(&place, found, allowed));
        }
        let changes = Changes::of(self, source, differences)?;
        if let Some(zone) = build::patch(self, &changes) {
            return Ok(zone);
        }
        let untouched = self.records().filter(|record| !changes.owners.contains_key(&record.owner));
        let changed = changes.owners.values().flatten().cloned();
        let records = untouched.chain(changed);
        let zone = Zone::from_records(self.origin(), source, Dnssec::Serve, records)?;
        // What was left out here is not among the records.
        Ok(Zone { has_occluded: zone.has_occluded || self.has_occluded, ..zone })
    }
}

impl Difference {
    /// Adds what the records of one owner differ in, but for the SOA.
    fn compare(&mut self, old: &[ZoneRecord], new: &[ZoneRecord]) {
        let is_missing = |record: &ZoneRecord, others: &[ZoneRecord]| {
            let is_it = |there: &ZoneRecord| {
                there.says_the_same(record) && there.ttl_seconds == record.ttl_seconds
            };
            record.record_type != RecordType::SOA && !others.iter().any(is_it)
        };
        self.removed.extend(old.iter().filter(|record| is_missing(record, new)).cloned());
        self.added.extend(new.iter().filter(|record| is_missing(record, old)).cloned());
    }
}

/// How many owners are looked at for one that is not the next.
const LOOK_AHEAD: usize = 16;

/// Owners in their order, of which the next few can be looked at.
struct LookAhead<'z, I> {
    rest: I,
    next: VecDeque<Node<'z>>,
}

impl<'z, I: Iterator<Item = Node<'z>>> LookAhead<'z, I> {
    fn new(nodes: I) -> LookAhead<'z, I> {
        LookAhead { rest: nodes, next: VecDeque::with_capacity(LOOK_AHEAD) }
    }

    /// The owner of this name, if it is one of the next; those before it are put into `passed`.
    fn take_near(&mut self, owner: &[u8], passed: &mut Vec<Node<'z>>) -> Option<Node<'z>> {
        for index in 0..LOOK_AHEAD {
            if index == self.next.len() {
                self.next.push_back(self.rest.next()?);
            }
            if self.next[index].owner() == owner {
                passed.extend(self.next.drain(..index));
                return self.next.pop_front();
            }
        }
        None
    }
}

impl<'z, I: Iterator<Item = Node<'z>>> Iterator for LookAhead<'z, I> {
    type Item = Node<'z>;

    fn next(&mut self) -> Option<Node<'z>> {
        self.next.pop_front().or_else(|| self.rest.next())
    }
}

fn by_owner(records: impl Iterator<Item = ZoneRecord>) -> HashMap<Name, Vec<ZoneRecord>> {
    let mut owners: HashMap<Name, Vec<ZoneRecord>> = HashMap::new();
    for record in records {
        owners.entry(record.owner.clone()).or_default().push(record);
    }
    owners
}

/// The owners that changes touch, each with all records that it has then.
pub(super) struct Changes {
    pub(super) owners: HashMap<Name, Vec<ZoneRecord>>,
}

impl Changes {
    fn of(zone: &Zone, source: &str, differences: &[Difference]) -> Result<Changes, ZoneError> {
        let mut owners: HashMap<Name, Vec<ZoneRecord>> = HashMap::new();
        let mut serial = zone.serial();
        let mut number = 0;
        let error = |number: u32, found: String, allowed: &str| {
            let place = Place { file: Some(source.into()), line: number, column: 1 };
            ZoneError::new(&place, found, allowed)
        };
        for difference in differences {
            if difference.from_serial != serial {
                let found = format!("changes of the serial {}", difference.from_serial);
                let allowed = format!("changes of the serial {serial}, which the zone has");
                return Err(error(number + 1, found, &allowed));
            }
            serial = difference.to_serial;
            for record in &difference.removed {
                number += 1;
                if record.record_type == RecordType::DNAME && zone.has_occluded {
                    let found =
                        format!("a removed DNAME of {}, below which are names", record.owner);
                    return Err(error(number, found, "a whole transfer, since they were left out"));
                }
                let own = owners
                    .entry(record.owner.clone())
                    .or_insert_with_key(|owner| zone.records_at(owner));
                let Some(at) = own.iter().position(|there| there.says_the_same(record)) else {
                    let ZoneRecord { owner, record_type, .. } = record;
                    let found = format!("a removed {record_type} of {owner} that is not there");
                    return Err(error(number, found, "records of the zone"));
                };
                own.swap_remove(at);
            }
            for record in &difference.added {
                number += 1;
                let own = owners
                    .entry(record.owner.clone())
                    .or_insert_with_key(|owner| zone.records_at(owner));
                // Some servers also add what is there already.
                own.retain(|there| !there.says_the_same(record));
                own.push(record.clone());
            }
        }
        Ok(Changes { owners })
    }
}

impl Node<'_> {
    /// Whether both owners, of zones with the same origin, have the same records in the same order.
    fn rrsets_are_those_of(&self, other: &Node<'_>) -> bool {
        self.rrsets()
            .map(|set| (set.record_type, set.wire))
            .eq(other.rrsets().map(|set| (set.record_type, set.wire)))
    }
}
