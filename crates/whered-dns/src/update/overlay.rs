//! What updates have made of a zone beside its file, in a form that outlives both.
//!
//! Not for: one update (`mod.rs`). The file may change below it: what is added stays added, what is
//! removed stays removed, and the serial goes on rising.
//!
//! ```text
//! bytes of a part: base serial u32 | serial u32 | owner
//!                  then twice, for what is removed and what is added: count u32 | records ...
//! record: type u16 | TTL u32 | length u16 | data
//! ```
//!
//! Concurrency: a value. Cost: that of the owners that updates have touched.

use std::collections::BTreeMap;
use std::fmt;

use super::{missing, set_serial};
use crate::code::RecordType;
use crate::name::{Name, wire_name_length};
use crate::transfer::{is_newer, serial_of};
use crate::zone::{Difference, Zone, ZoneRecord};

/// The changes that lie over a zone's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneOverlay {
    /// The serial of the file when the serial below was made.
    base_serial: u32,
    /// The serial of the zone with its changes.
    serial: u32,
    owners: BTreeMap<Name, OwnerChanges>,
}

/// What is otherwise at one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OwnerChanges {
    removed: Vec<ZoneRecord>,
    added: Vec<ZoneRecord>,
}

/// Bytes that are no part of an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverlayError {
    at: usize,
}

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of a zone's changes: found something else than they have there", self.at)
    }
}

impl std::error::Error for OverlayError {}

impl ZoneOverlay {
    /// Whether nothing lies over the file, not even a newer serial: a serial that others have seen
    /// must not come back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.serial == self.base_serial
    }

    /// Whether it adds or removes records.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Drops all changes but that of the serial, which rises with it.
    pub fn discard(&mut self) {
        self.owners.clear();
        self.serial = self.serial.wrapping_add(1).max(1);
    }

    /// How many records are added, and how many are removed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let count = |records: fn(&OwnerChanges) -> &Vec<ZoneRecord>| -> usize {
            self.owners.values().map(|changed| records(changed).len()).sum()
        };
        (count(|changed| &changed.added), count(|changed| &changed.removed))
    }

    /// Takes the changes of one update in. `base` is the zone of the file. Gives the parts that
    /// have changed, as bytes for [`ZoneOverlay::take_parts`].
    pub fn take(&mut self, base: &Zone, served: &Zone, difference: &Difference) -> Vec<Vec<u8>> {
        self.base_serial = base.serial();
        self.serial = difference.to_serial;
        let changed = difference.removed.iter().chain(&difference.added);
        let mut owners: Vec<&Name> = changed.map(|record| &record.owner).collect();
        owners.sort();
        owners.dedup();
        let mut parts = Vec::new();
        for owner in owners {
            let before = base.records_at(owner);
            let after = after(served.records_at(owner), owner, difference);
            let without_serial = |records: Vec<ZoneRecord>| records.into_iter().map(bare_soa);
            let before: Vec<ZoneRecord> = without_serial(before).collect();
            let after: Vec<ZoneRecord> = without_serial(after).collect();
            let changed = OwnerChanges {
                removed: missing(&before, &after).collect(),
                added: missing(&after, &before).collect(),
            };
            parts.push(self.part(owner, &changed));
            self.set(owner.clone(), changed);
        }
        parts
    }

    fn set(&mut self, owner: Name, changed: OwnerChanges) {
        if changed.removed.is_empty() && changed.added.is_empty() {
            self.owners.remove(&owner);
        } else {
            self.owners.insert(owner, changed);
        }
    }

    /// The changes from a zone of the file to what is served.
    #[must_use]
    pub fn over(&self, base: &Zone) -> Difference {
        let mut difference = Difference {
            from_serial: base.serial(),
            to_serial: self.serial_over(base),
            ..Difference::default()
        };
        let soa = |records: &[ZoneRecord]| {
            records.iter().find(|record| record.record_type == RecordType::SOA).cloned()
        };
        let apex = base.records_at(base.origin());
        let old_soa = soa(&apex);
        let own_soa = self.owners.get(base.origin()).and_then(|changed| soa(&changed.added));
        // A newer file says what its SOA is.
        let new_soa =
            own_soa.filter(|_| base.serial() == self.base_serial).or_else(|| old_soa.clone());
        difference.removed.extend(old_soa);
        difference.added.extend(new_soa.map(|mut soa| {
            set_serial(&mut soa, difference.to_serial);
            soa
        }));
        for (owner, changed) in &self.owners {
            let there = base.records_at(owner);
            let is_data = |record: &&ZoneRecord| record.record_type != RecordType::SOA;
            let removed = changed.removed.iter().filter(is_data).filter_map(|record| {
                there.iter().find(|there| there.says_the_same(record)).cloned()
            });
            let removed: Vec<ZoneRecord> = removed.collect();
            let kept = missing(&there, &removed).collect::<Vec<_>>();
            let added = changed.added.iter().filter(is_data);
            let added = added.filter(|record| !kept.iter().any(|kept| kept.says_the_same(record)));
            difference.added.extend(added.cloned());
            difference.removed.extend(removed);
        }
        difference
    }

    /// The serial over a file's: as it was while the file is the same, and higher by as much as
    /// that of a newer file. So other contents never have the same serial.
    fn serial_over(&self, base: &Zone) -> u32 {
        match base.serial() {
            serial if self.is_empty() => serial,
            serial if serial == self.base_serial => self.serial,
            serial if is_newer(serial, self.base_serial) => {
                self.serial.wrapping_add(serial.wrapping_sub(self.base_serial)).max(1)
            }
            _ => self.serial.wrapping_add(1).max(1),
        }
    }

    /// All parts as bytes.
    pub fn parts(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let nothing = (self.owners.is_empty() && !self.is_empty())
            .then(|| self.part(&Name::root(), &OwnerChanges::default()));
        nothing.into_iter().chain(self.owners.iter().map(|(owner, own)| self.part(owner, own)))
    }

    fn part(&self, owner: &Name, changed: &OwnerChanges) -> Vec<u8> {
        let mut bytes = [self.base_serial.to_be_bytes(), self.serial.to_be_bytes()].concat();
        bytes.extend_from_slice(owner.as_wire());
        for records in [&changed.removed, &changed.added] {
            bytes.extend_from_slice(&(records.len() as u32).to_be_bytes());
            for record in records {
                bytes.extend_from_slice(&record.record_type.0.to_be_bytes());
                bytes.extend_from_slice(&record.ttl_seconds.to_be_bytes());
                bytes.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
                bytes.extend_from_slice(&record.data);
            }
        }
        bytes
    }

    /// Puts parts, one behind the other, in the place of what is known of their owners.
    ///
    /// # Errors
    ///
    /// The bytes are no parts.
    pub fn take_parts(&mut self, bytes: &[u8]) -> Result<(), OverlayError> {
        let mut reader = Reader { bytes, at: 0 };
        while reader.at < bytes.len() {
            self.take_part(&mut reader)?;
        }
        Ok(())
    }

    fn take_part(&mut self, reader: &mut Reader<'_>) -> Result<(), OverlayError> {
        let (base_serial, serial) = (reader.u32()?, reader.u32()?);
        let owner = reader.name()?;
        let removed = reader.records(&owner)?;
        let added = reader.records(&owner)?;
        (self.base_serial, self.serial) = (base_serial, serial);
        self.set(owner, OwnerChanges { removed, added });
        Ok(())
    }
}

/// The records of an owner after changes.
fn after(mut records: Vec<ZoneRecord>, owner: &Name, difference: &Difference) -> Vec<ZoneRecord> {
    let is_own = |record: &&ZoneRecord| record.owner == *owner;
    for removed in difference.removed.iter().filter(is_own) {
        records.retain(|record| !record.says_the_same(removed));
    }
    records.extend(difference.added.iter().filter(is_own).cloned());
    records
}

/// A SOA with the serial 0, so that serials alone make no difference.
fn bare_soa(mut record: ZoneRecord) -> ZoneRecord {
    if record.record_type == RecordType::SOA && serial_of(&record) != 0 {
        set_serial(&mut record, 0);
    }
    record
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn error(&self) -> OverlayError {
        OverlayError { at: self.at }
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], OverlayError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or(self.error())?;
        self.at += count;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, OverlayError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, OverlayError> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    fn name(&mut self) -> Result<Name, OverlayError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = wire_name_length(rest).ok_or(self.error())?;
        Name::from_wire(self.take(length)?).map_err(|_| self.error())
    }

    fn records(&mut self, owner: &Name) -> Result<Vec<ZoneRecord>, OverlayError> {
        let mut records = Vec::new();
        for _ in 0..self.u32()? {
            let record_type = RecordType(self.u16()?);
            let ttl_seconds = self.u32()?;
            let length = self.u16()?;
            let data = self.take(length.into())?.into();
            records.push(ZoneRecord { owner: owner.clone(), record_type, ttl_seconds, data });
        }
        Ok(records)
    }
}
