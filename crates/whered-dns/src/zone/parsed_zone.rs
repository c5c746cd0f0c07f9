//! A zone while it is read: owners told apart by hash, records as plain numbers, all texts in two
//! pieces of memory.
//!
//! Not for: whether they make a zone (`build.rs`).
//!
//! ```text
//! owners   [name's place, length | labels | hash | parent]    0 is the apex
//! names    owner names without the origin, in lower case, one after another
//! table    hash -> owner, open addressing, at most two thirds full
//! records  [owner | type | TTL | data's place, length | file, line, column]   as they were read
//! data     record data in wire form, names written out
//! ```
//!
//! Cost: a record takes 28 bytes and its data, an owner 24 bytes and its name.

use std::sync::Arc;

use super::REMARK_COUNT_MAX;
use super::error::{Place, ZoneError};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;

pub(super) const NONE: u32 = u32::MAX;
/// The number of the apex among the owners.
pub(super) const APEX: u32 = 0;

/// See the head of this file.
pub(super) struct ParsedZone {
    pub(super) origin: Name,
    lower_origin: LowerName,
    pub(super) owners: Vec<Owner>,
    names: Vec<u8>,
    table: Vec<u32>,
    pub(super) records: Vec<Record>,
    /// How many records of the text are not among them.
    pub(super) left_out_count: usize,
    /// What was read otherwise than it is written: the first hundred.
    pub(super) remarks: Vec<ZoneError>,
    data: Vec<u8>,
    files: Vec<Arc<str>>,
    scratch: Box<LowerName>,
    /// It is signed here, and NSEC are made when they are asked for.
    pub(super) has_compact_denial: bool,
}

/// One owner.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) hash: u64,
    name: u32,
    /// The owner one label above; [`NONE`] until it is looked for.
    pub(super) parent: u32,
    length: u8,
    /// How many labels below the apex.
    pub(super) depth: u8,
}

/// One record as the file has it.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) owner: u32,
    pub(super) ttl_seconds: u32,
    data: u32,
    line: u32,
    column: u32,
    data_length: u16,
    file: u16,
    pub(super) record_type: RecordType,
}

impl ParsedZone {
    pub(super) fn new(origin: &Name) -> ParsedZone {
        let lower_origin = LowerName::of(origin);
        let labels = lower_origin.label_count();
        let hash = lower_origin.hash_of(labels);
        let mut parsed = ParsedZone {
            origin: origin.clone(),
            lower_origin,
            owners: vec![Owner { hash, name: 0, parent: NONE, length: 0, depth: 0 }],
            names: Vec::new(),
            table: vec![NONE; 64],
            records: Vec::new(),
            left_out_count: 0,
            remarks: Vec::new(),
            data: Vec::new(),
            files: Vec::new(),
            scratch: Box::new(LowerName::root()),
            has_compact_denial: false,
        };
        parsed.enter(APEX);
        parsed
    }

    pub(super) fn lower_origin(&self) -> &LowerName {
        &self.lower_origin
    }

    /// The number of an owner, which is new or not; none when it is not within the zone.
    pub(super) fn owner(&mut self, wire: &[u8]) -> Option<u32> {
        self.scratch.read(wire)?;
        let labels = self.lower_origin.label_count();
        let depth = self.scratch.label_count().checked_sub(labels)?;
        if self.scratch.suffix(labels) != self.lower_origin.as_wire() {
            return None;
        }
        Some(self.intern(depth))
    }

    /// The owner with this name, if there is one.
    pub(super) fn find(&mut self, wire: &[u8]) -> Option<u32> {
        self.scratch.read(wire)?;
        let labels = self.lower_origin.label_count();
        let depth = self.scratch.label_count().checked_sub(labels)?;
        if self.scratch.suffix(labels) != self.lower_origin.as_wire() {
            return None;
        }
        self.probe(depth)
    }

    /// The owner that the lowest `depth` labels of the scratch name below the apex make.
    fn probe(&self, depth: usize) -> Option<u32> {
        let labels = self.lower_origin.label_count();
        let hash = self.scratch.hash_of(labels + depth);
        let relative = self.relative(depth);
        let mut at = hash as usize & (self.table.len() - 1);
        while self.table[at] != NONE {
            let owner = &self.owners[self.table[at] as usize];
            if owner.hash == hash && self.name_of(owner) == relative {
                return Some(self.table[at]);
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        None
    }

    fn relative(&self, depth: usize) -> &[u8] {
        let suffix = self.scratch.suffix(self.lower_origin.label_count() + depth);
        &suffix[..suffix.len() - self.lower_origin.as_wire().len()]
    }

    fn intern(&mut self, depth: usize) -> u32 {
        if let Some(owner) = self.probe(depth) {
            return owner;
        }
        let name = self.names.len() as u32;
        let labels = self.lower_origin.label_count();
        let suffix = self.scratch.suffix(labels + depth);
        let length = suffix.len() - self.lower_origin.as_wire().len();
        self.names.extend_from_slice(&suffix[..length]);
        let (hash, number) = (self.scratch.hash_of(labels + depth), self.owners.len() as u32);
        let (length, depth) = (length as u8, depth as u8);
        self.owners.push(Owner { hash, name, parent: NONE, length, depth });
        self.enter(number);
        number
    }

    /// Enters the newest owner into the table.
    fn enter(&mut self, number: u32) {
        if self.owners.len() * 3 > self.table.len() * 2 {
            self.table = vec![NONE; self.table.len() * 2];
            for number in 0..self.owners.len() as u32 {
                self.place(number);
            }
        } else {
            self.place(number);
        }
    }

    fn place(&mut self, number: u32) {
        let mask = self.table.len() - 1;
        let mut at = self.owners[number as usize].hash as usize & mask;
        while self.table[at] != NONE {
            at = (at + 1) & mask;
        }
        self.table[at] = number;
    }

    /// Drops the owners that have no records, since those were left out.
    pub(super) fn forget_bare_owners(&mut self) {
        let mut numbers = vec![NONE; self.owners.len()];
        for record in &self.records {
            numbers[record.owner as usize] = record.owner;
        }
        numbers[APEX as usize] = APEX;
        let mut kept = Vec::with_capacity(self.owners.len());
        for (owner, number) in self.owners.iter().zip(&mut numbers) {
            if *number != NONE {
                *number = kept.len() as u32;
                kept.push(*owner);
            }
        }
        self.owners = kept;
        for record in &mut self.records {
            record.owner = numbers[record.owner as usize];
        }
        self.table.fill(NONE);
        for number in 0..self.owners.len() as u32 {
            self.place(number);
        }
    }

    /// Drops the SOA that ends a transfer, if it is that which begins it.
    pub(super) fn forget_closing_soa(&mut self) {
        if let [first, .., last] = self.records[..] {
            let is_soa = |record: &Record| record.record_type == RecordType::SOA;
            let is_same = is_soa(&first)
                && is_soa(&last)
                && first.owner == last.owner
                && first.ttl_seconds == last.ttl_seconds
                && self.data_of(&first) == self.data_of(&last);
            if is_same {
                self.records.pop();
            }
        }
    }

    /// Takes NSEC3 and their signatures out, if the zone is signed: their owners are no names of it
    /// (RFC 5155, 7.2.8). Gives the records of each owner.
    pub(super) fn take_hashed(&mut self) -> Vec<Vec<Record>> {
        let is_signature = |record: &Record| record.record_type == RecordType::RRSIG;
        if !self.records.iter().any(is_signature) {
            return Vec::new();
        }
        let covered = |record: &Record| super::signed::covered_type(self.data_of(record));
        let is_hashed = |record: &Record| match record.record_type {
            RecordType::NSEC3 => true,
            RecordType::RRSIG => covered(record) == RecordType::NSEC3.0,
            _ => false,
        };
        let (mut hashed, kept): (Vec<Record>, Vec<Record>) =
            self.records.iter().partition(|record| is_hashed(record));
        if hashed.is_empty() {
            return Vec::new();
        }
        self.records = kept;
        hashed.sort_by_key(|record| (record.owner, record.record_type));
        hashed.chunk_by(|a, b| a.owner == b.owner).map(<[Record]>::to_vec).collect()
    }

    /// Drops what is below a DNAME, which nobody can see (RFC 6672, 2.4), with remarks. Every
    /// owner's parent must be known; if something was dropped, they have to be found once more.
    pub(super) fn forget_occluded(&mut self) -> bool {
        let mut is_dname = vec![false; self.owners.len()];
        for record in self.records.iter().filter(|record| record.record_type == RecordType::DNAME) {
            is_dname[record.owner as usize] = true;
        }
        if !is_dname.contains(&true) {
            return false;
        }
        let is_occluded = |owner: u32| {
            let parent = |owner: &u32| self.owners.get(*owner as usize).map(|owner| owner.parent);
            let mut above = std::iter::successors(parent(&owner), parent);
            above.any(|owner| is_dname.get(owner as usize).is_some_and(|is_dname| *is_dname))
        };
        let records = std::mem::take(&mut self.records);
        let (occluded, kept): (Vec<Record>, Vec<Record>) =
            records.iter().partition(|record| is_occluded(record.owner));
        self.records = kept;
        for record in &occluded {
            let found = format!("{} below a DNAME", self.full_name(record.owner));
            let allowed = "nothing below a DNAME (RFC 6672, 2.4; it is left out)";
            self.remark(&self.place_of(record), found, allowed);
        }
        if occluded.is_empty() {
            return false;
        }
        self.forget_bare_owners();
        true
    }

    /// Finds every owner's parent and adds those that are missing: the empty non-terminals.
    pub(super) fn complete(&mut self) {
        let mut number = 1;
        while number < self.owners.len() {
            let owner = self.owners[number];
            let parent = if owner.depth == 1 {
                APEX
            } else {
                let mut wire = self.name_of(&owner).to_vec();
                wire.extend_from_slice(self.lower_origin.as_wire());
                self.scratch.read(&wire);
                self.intern(usize::from(owner.depth) - 1)
            };
            self.owners[number].parent = parent;
            number += 1;
        }
    }

    /// An owner's name without the origin, in lower case.
    pub(super) fn name_of(&self, owner: &Owner) -> &[u8] {
        &self.names[owner.name as usize..owner.name as usize + usize::from(owner.length)]
    }

    /// An owner's whole name.
    pub(super) fn full_name(&self, owner: u32) -> Name {
        let relative = self.name_of(&self.owners[owner as usize]);
        let wire = [relative, self.origin.as_wire()].concat();
        Name::from_wire(&wire).expect("an owner was read as a name")
    }

    /// Adds a record. None when texts are larger than their places can tell (4 GiB).
    pub(super) fn add(
        &mut self,
        owner: u32,
        (record_type, ttl_seconds): (RecordType, u32),
        data: &[u8],
        place: (u16, u32, u32),
    ) -> Option<()> {
        let at = u32::try_from(self.data.len()).ok()?;
        u32::try_from(self.names.len()).ok()?;
        self.data.extend_from_slice(data);
        let (file, line, column) = place;
        let data_length = u16::try_from(data.len()).ok()?;
        self.records.push(Record {
            owner,
            ttl_seconds,
            data: at,
            line,
            column,
            data_length,
            file,
            record_type,
        });
        Some(())
    }

    pub(super) fn data_of(&self, record: &Record) -> &[u8] {
        &self.data[record.data as usize..record.data as usize + usize::from(record.data_length)]
    }

    /// Gives a SOA another serial.
    pub(super) fn change_serial(&mut self, soa: &Record, change: impl Fn(u32) -> u32) {
        let end = soa.data as usize + usize::from(soa.data_length);
        let serial = end.checked_sub(20).and_then(|at| self.data.get_mut(at..)?.first_chunk_mut());
        if let Some(serial) = serial {
            *serial = change(u32::from_be_bytes(*serial)).to_be_bytes();
        }
    }

    /// Notes an oddity.
    pub(super) fn remark(
        &mut self,
        place: &Place,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        if self.remarks.len() < REMARK_COUNT_MAX {
            self.remarks.push(ZoneError::new(place, found, allowed));
        }
    }

    /// The number of an included file, for places. The zone's own text is 0.
    pub(super) fn add_file(&mut self, name: &str) -> u16 {
        self.files.push(name.into());
        self.files.len() as u16
    }

    pub(super) fn file(&self, number: u16) -> Option<Arc<str>> {
        self.files.get(usize::from(number).checked_sub(1)?).cloned()
    }

    /// The place of a record as [`ParsedZone::add`] takes it.
    pub(super) fn place_numbers(&self, record: &Record) -> (u16, u32, u32) {
        (record.file, record.line, record.column)
    }

    pub(super) fn place_of(&self, record: &Record) -> Place {
        Place { file: self.file(record.file), line: record.line, column: record.column }
    }

    /// Numbers of the records, those of one owner together, by type and then as they were read;
    /// and where each owner's begin, with the end behind the last.
    pub(super) fn by_owner(&self) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0_u32; self.owners.len() + 1];
        for record in &self.records {
            starts[record.owner as usize + 1] += 1;
        }
        for owner in 0..self.owners.len() {
            starts[owner + 1] += starts[owner];
        }
        let mut next = starts.clone();
        let mut order = vec![0_u32; self.records.len()];
        for (number, record) in self.records.iter().enumerate() {
            let place = &mut next[record.owner as usize];
            order[*place as usize] = number as u32;
            *place += 1;
        }
        for range in starts.windows(2) {
            let own = &mut order[range[0] as usize..range[1] as usize];
            if own.len() > 1 {
                own.sort_by_key(|&number| self.records[number as usize].record_type);
            }
        }
        (order, starts)
    }
}
