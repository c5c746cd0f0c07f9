//! What an UPDATE (RFC 2136) asks for, whether its prerequisites hold, and the changes that it
//! makes.
//!
//! Not for: who may ask (the caller; [`Update::steps`] says what is asked for), TSIG
//! (`transfer`), keeping the changes (`overlay.rs` is their form).
//!
//! ```text
//! message ─ read: the form ─► Update ─ changes(zone): prerequisites, rules ─► Difference
//! ```
//!
//! Records that only signed zones have are refused: the server makes them.
//! Concurrency: pure. Cost: linear in the message and in the records of the owners in it.

mod overlay;

use std::collections::BTreeMap;

pub use overlay::{OverlayError, ZoneOverlay};

use crate::code::{Rcode, RecordType};
use crate::message::{Message, Record};
use crate::name::{Name, wire_name_length};
use crate::transfer::{is_newer, serial_of};
use crate::zone::rdata;
use crate::zone::{Difference, TTL_SECONDS_MAX, Zone, ZoneRecord};

const CLASS_IN: u16 = 1;
const CLASS_NONE: u16 = 254;
const CLASS_ANY: u16 = 255;

/// An UPDATE whose form is right.
///
/// ```
/// use whered_dns::{Name, Zone, update::Update};
/// let text = b"@ 60 IN SOA ns h 7 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let origin: Name = "example.com".parse()?;
/// let zone = Zone::from_master_file(&origin, text, &mut |_| Err("no".into()))?;
/// // UPDATE of example.com: add www.example.com. 60 A 192.0.2.2.
/// let message = b"\x12\x34\x28\0\0\x01\0\0\0\x01\0\0\x07example\x03com\0\0\x06\0\x01\
///                 \x03www\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x02";
/// let update = Update::read(message).expect("the form is right");
/// let difference = update.changes(&zone).expect("allowed").expect("something new");
/// assert_eq!((difference.to_serial, difference.added.len()), (8, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Update {
    zone: Name,
    prerequisites: Vec<Prerequisite>,
    steps: Vec<UpdateStep>,
}

#[derive(Debug, Clone)]
enum Prerequisite {
    InUse(Name),
    NotInUse(Name),
    Exists(Name, RecordType),
    NotExists(Name, RecordType),
    Record(ZoneRecord),
}

/// One step of an update.
#[derive(Debug, Clone)]
pub enum UpdateStep {
    /// Adds a record.
    Add(ZoneRecord),
    /// Removes a record, whatever its TTL.
    Remove(ZoneRecord),
    /// Removes all records of an owner and type.
    RemoveRrset(Name, RecordType),
    /// Removes all records of an owner.
    RemoveName(Name),
}

impl Update {
    /// Reads a message, without its TSIG.
    ///
    /// # Errors
    ///
    /// The code of the answer: FORMERR, NOTZONE; REFUSED for records of signed zones.
    pub fn read(message: &[u8]) -> Result<Update, Rcode> {
        let message = Message::read(message).map_err(|_| Rcode::FORMERR)?;
        let [zone] = &message.questions[..] else { return Err(Rcode::FORMERR) };
        if zone.record_type != RecordType::SOA || zone.class != CLASS_IN {
            return Err(Rcode::FORMERR);
        }
        let zone = zone.name.clone();
        let within =
            |records: &[Record]| records.iter().all(|record| record.owner.is_within(&zone));
        if !within(&message.answers) || !within(&message.authorities) {
            return Err(Rcode::NOTZONE);
        }
        let prerequisites = message.answers.into_iter().map(Prerequisite::read);
        let prerequisites = prerequisites.collect::<Result<_, _>>()?;
        let steps = message.authorities.into_iter().map(UpdateStep::read);
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(Update { zone, prerequisites, steps })
    }

    /// The zone that is to be changed.
    #[must_use]
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// What is to be done, in order.
    #[must_use]
    pub fn steps(&self) -> &[UpdateStep] {
        &self.steps
    }

    /// Checks prerequisites alone. `records` gives all records of an owner.
    ///
    /// # Errors
    ///
    /// The code of the one that does not hold: NXDOMAIN, YXDOMAIN, NXRRSET, YXRRSET.
    pub fn check(&self, records: &dyn Fn(&Name) -> Vec<ZoneRecord>) -> Result<(), Rcode> {
        let mut exact: BTreeMap<(&Name, RecordType), Vec<&ZoneRecord>> = BTreeMap::new();
        for prerequisite in &self.prerequisites {
            let has = |owner: &Name, wanted: RecordType| {
                records(owner).iter().any(|record| record.record_type == wanted)
            };
            match prerequisite {
                Prerequisite::InUse(owner) if records(owner).is_empty() => {
                    return Err(Rcode::NXDOMAIN);
                }
                Prerequisite::NotInUse(owner) if !records(owner).is_empty() => {
                    return Err(Rcode::YXDOMAIN);
                }
                Prerequisite::Exists(owner, wanted) if !has(owner, *wanted) => {
                    return Err(Rcode::NXRRSET);
                }
                Prerequisite::NotExists(owner, wanted) if has(owner, *wanted) => {
                    return Err(Rcode::YXRRSET);
                }
                Prerequisite::Record(record) => {
                    exact.entry((&record.owner, record.record_type)).or_default().push(record);
                }
                _ => {}
            }
        }
        for ((owner, wanted), expected) in exact {
            let there = records(owner);
            let there: Vec<&ZoneRecord> =
                there.iter().filter(|record| record.record_type == wanted).collect();
            let is_among = |record: &&ZoneRecord, list: &[&ZoneRecord]| {
                list.iter().any(|other| other.says_the_same(record))
            };
            let is_same = there.iter().all(|record| is_among(record, &expected))
                && expected.iter().all(|record| is_among(record, &there));
            if !is_same {
                return Err(Rcode::NXRRSET);
            }
        }
        Ok(())
    }

    /// The changes that it makes to the zone, whose serial rises with them; none when it makes
    /// none.
    ///
    /// # Errors
    ///
    /// As [`Update::check`]; REFUSED for records below a DNAME, which nobody would see.
    pub fn changes(&self, zone: &Zone) -> Result<Option<Difference>, Rcode> {
        self.check(&|owner| zone.records_at(owner))?;
        let mut owners: BTreeMap<Name, Vec<ZoneRecord>> = BTreeMap::new();
        for step in &self.steps {
            let owner = step.owner();
            if matches!(step, UpdateStep::Add(_)) && is_below_dname(zone, owner) {
                return Err(Rcode::REFUSED);
            }
            let records = owners.entry(owner.clone()).or_insert_with(|| zone.records_at(owner));
            step.make(records, owner == zone.origin());
        }
        let is_same = |(owner, after): (&Name, &Vec<ZoneRecord>)| {
            let before = zone.records_at(owner);
            missing(&before, after).next().is_none() && missing(after, &before).next().is_none()
        };
        if owners.iter().all(is_same) {
            return Ok(None);
        }
        let apex = owners.entry(zone.origin().clone());
        let apex = apex.or_insert_with(|| zone.records_at(zone.origin()));
        raise_serial(apex, zone.serial());
        let mut difference = Difference { from_serial: zone.serial(), ..Difference::default() };
        for (owner, after) in &owners {
            let before = zone.records_at(owner);
            difference.removed.extend(missing(&before, after));
            difference.added.extend(missing(after, &before));
        }
        for records in [&mut difference.removed, &mut difference.added] {
            records.sort_by_key(|record| record.record_type != RecordType::SOA);
        }
        let soa = difference.added.first().filter(|soa| soa.record_type == RecordType::SOA);
        difference.to_serial = soa.map_or(zone.serial(), serial_of);
        Ok(Some(difference))
    }
}

/// Whether nobody would see records of an owner (RFC 6672, 2.4).
fn is_below_dname(zone: &Zone, owner: &Name) -> bool {
    let above = std::iter::successors(owner.parent(), Name::parent);
    let mut above = above.take_while(|name| name.is_within(zone.origin()));
    let is_dname = |record: ZoneRecord| record.record_type == RecordType::DNAME;
    above.any(|name| zone.records_at(&name).into_iter().any(is_dname))
}

/// Whether data that have names at known places have them whole there: RP, AFSDB, RT, PX, KX,
/// NAPTR.
fn has_whole_names(record_type: RecordType, data: &[u8]) -> bool {
    let (front, names) = match record_type.0 {
        17 => (0, 2),
        18 | 21 | 36 => (2, 1),
        26 => (2, 2),
        35 => {
            let strings =
                (0..3).try_fold(4, |at: usize, _| Some(at + 1 + usize::from(*data.get(at)?)));
            (strings.unwrap_or(data.len()), 1)
        }
        _ => return true,
    };
    let mut rest = data.get(front..);
    for _ in 0..names {
        rest = rest.and_then(|rest| rest.get(wire_name_length(rest)?..));
    }
    rest.is_some_and(<[u8]>::is_empty)
}

/// The records of the first list that the other has not, or with another TTL.
fn missing<'r>(
    records: &'r [ZoneRecord],
    others: &'r [ZoneRecord],
) -> impl Iterator<Item = ZoneRecord> + 'r {
    let is_there = |record: &&ZoneRecord| {
        let is_it = |other: &ZoneRecord| {
            other.says_the_same(record) && other.ttl_seconds == record.ttl_seconds
        };
        !others.iter().any(is_it)
    };
    records.iter().filter(is_there).cloned()
}

/// Gives the SOA a newer serial, unless it has one.
fn raise_serial(apex: &mut [ZoneRecord], serial: u32) {
    let soa = apex.iter_mut().find(|record| record.record_type == RecordType::SOA);
    if let Some(soa) = soa
        && !is_newer(serial_of(soa), serial)
    {
        set_serial(soa, serial.wrapping_add(1).max(1));
    }
}

fn set_serial(soa: &mut ZoneRecord, serial: u32) {
    let at = soa.data.len().saturating_sub(SOA_TAIL_SIZE);
    if let Some(place) = soa.data.get_mut(at..at + 4) {
        place.copy_from_slice(&serial.to_be_bytes());
    }
}

/// The bytes of a SOA's numbers, the serial first.
const SOA_TAIL_SIZE: usize = 20;

impl Prerequisite {
    /// RFC 2136, 3.2.5.
    fn read(record: Record) -> Result<Prerequisite, Rcode> {
        let Record { owner, record_type, class, ttl_seconds, data } = record;
        if ttl_seconds != 0 {
            return Err(Rcode::FORMERR);
        }
        match class {
            CLASS_ANY | CLASS_NONE if !data.is_empty() => Err(Rcode::FORMERR),
            CLASS_ANY if record_type == RecordType::ANY => Ok(Prerequisite::InUse(owner)),
            CLASS_NONE if record_type == RecordType::ANY => Ok(Prerequisite::NotInUse(owner)),
            CLASS_ANY | CLASS_NONE | CLASS_IN if is_meta(record_type) => Err(Rcode::FORMERR),
            CLASS_ANY => Ok(Prerequisite::Exists(owner, record_type)),
            CLASS_NONE => Ok(Prerequisite::NotExists(owner, record_type)),
            CLASS_IN => {
                let data = data.into();
                Ok(Prerequisite::Record(ZoneRecord { owner, record_type, ttl_seconds, data }))
            }
            _ => Err(Rcode::FORMERR),
        }
    }
}

impl UpdateStep {
    /// RFC 2136, 3.4.1.
    fn read(record: Record) -> Result<UpdateStep, Rcode> {
        let Record { owner, record_type, class, ttl_seconds, data } = record;
        let is_bare = ttl_seconds == 0 && data.is_empty();
        let step = match class {
            CLASS_ANY if record_type == RecordType::ANY && is_bare => UpdateStep::RemoveName(owner),
            _ if is_meta(record_type) => return Err(Rcode::FORMERR),
            _ if record_type.is_of_signed_zones() => return Err(Rcode::REFUSED),
            CLASS_ANY if is_bare => UpdateStep::RemoveRrset(owner, record_type),
            CLASS_NONE if ttl_seconds == 0 => {
                let data = data.into();
                UpdateStep::Remove(ZoneRecord { owner, record_type, ttl_seconds, data })
            }
            CLASS_IN => {
                rdata::check(record_type, &data).map_err(|_| Rcode::FORMERR)?;
                if !has_whole_names(record_type, &data) {
                    return Err(Rcode::FORMERR);
                }
                // A TTL above 2^31 - 1 counts as 0 (RFC 2181, 8).
                let ttl_seconds = if ttl_seconds > TTL_SECONDS_MAX { 0 } else { ttl_seconds };
                let data = data.into();
                UpdateStep::Add(ZoneRecord { owner, record_type, ttl_seconds, data })
            }
            _ => return Err(Rcode::FORMERR),
        };
        Ok(step)
    }

    /// Whose records it changes.
    #[must_use]
    pub fn owner(&self) -> &Name {
        match self {
            UpdateStep::Add(record) | UpdateStep::Remove(record) => &record.owner,
            UpdateStep::RemoveRrset(owner, _) | UpdateStep::RemoveName(owner) => owner,
        }
    }

    /// The type of the records that it changes; none for all of an owner.
    #[must_use]
    pub fn record_type(&self) -> Option<RecordType> {
        match self {
            UpdateStep::Add(record) | UpdateStep::Remove(record) => Some(record.record_type),
            UpdateStep::RemoveRrset(_, record_type) => Some(*record_type),
            UpdateStep::RemoveName(_) => None,
        }
    }

    /// Makes the change to the records of its owner (RFC 2136, 3.4.2).
    fn make(&self, records: &mut Vec<ZoneRecord>, is_apex: bool) {
        let is_kept = |of: RecordType| is_apex && matches!(of, RecordType::SOA | RecordType::NS);
        match self {
            UpdateStep::RemoveName(_) => records.retain(|there| {
                is_kept(there.record_type) || there.record_type.is_of_signed_zones()
            }),
            UpdateStep::RemoveRrset(_, of) if !is_kept(*of) => {
                records.retain(|there| there.record_type != *of);
            }
            UpdateStep::RemoveRrset(..) => {}
            UpdateStep::Remove(record) => {
                let of_type = |there: &&ZoneRecord| there.record_type == record.record_type;
                let is_last = records.iter().filter(of_type).count() == 1;
                let is_needed = record.record_type == RecordType::SOA
                    || (is_kept(record.record_type) && is_last);
                if !is_needed {
                    records.retain(|there| !there.says_the_same(record));
                }
            }
            UpdateStep::Add(record) => add(record, records, is_apex),
        }
    }
}

fn add(record: &ZoneRecord, records: &mut Vec<ZoneRecord>, is_apex: bool) {
    let of = record.record_type;
    // What may stand beside an alias: KEY, and what the server makes.
    let is_beside = |of: RecordType| of.0 == 25 || of.is_of_signed_zones();
    let has_alias = records.iter().any(|there| there.record_type == RecordType::CNAME);
    let has_others = records
        .iter()
        .any(|there| there.record_type != RecordType::CNAME && !is_beside(there.record_type));
    match of {
        RecordType::CNAME if has_others => return,
        RecordType::CNAME => records.retain(|there| there.record_type != of),
        RecordType::SOA => {
            let there = records.iter().find(|there| there.record_type == RecordType::SOA);
            let is_rise = there.is_some_and(|there| is_newer(serial_of(record), serial_of(there)));
            if !is_apex || !is_rise {
                return;
            }
            records.retain(|there| there.record_type != RecordType::SOA);
        }
        _ if has_alias && !is_beside(of) => return,
        _ => records.retain(|there| !there.says_the_same(record)),
    }
    // An rrset has one TTL (RFC 2181, 5.2): the newest.
    for there in records.iter_mut().filter(|there| there.record_type == of) {
        there.ttl_seconds = record.ttl_seconds;
    }
    records.push(record.clone());
}

/// Types that are no data.
fn is_meta(record_type: RecordType) -> bool {
    matches!(record_type.0, 0 | 41 | 128..=255)
}
