//! Makes a zone of what was read: checks, compiles, lays out.
//!
//! Not for: syntax (`master.rs`), the form of blocks (`layout.rs`).
//!
//! The steps, each over the whole zone: add the empty non-terminals; gather each owner's records
//! by type; check what may stand beside what and above what; mark what lies at or below a
//! delegation; write each owner's block, its rrsets compiled; tell delegations where their glue is.
//! Cost: linear but for the sorting of one owner's types; a zone of a million names and a half of
//! records takes about a second, reading included (`bench/own`, `dns load`).

mod patch;
mod signing;

use std::collections::HashSet;

use super::canonical::canonical;
use super::compile::{CompressionContext, compile};
use super::error::{Place, ZoneError};
use super::index::NameIndex;
use super::layout::{
    ArenaWriter, HAS_ALIAS, HAS_CHILDREN, HAS_DATA, HAS_DNAME, HAS_WILDCARD, NewRrset, NodeRef,
    OwnedRrset,
};
use super::master::TTL_SECONDS_MAX;
use super::parsed_zone::{APEX, NONE, ParsedZone, Record};
use super::signed::PreparedDenials;
use super::{Parts, REMARK_COUNT_MAX, Zone};
use crate::code::RecordType;
use crate::name::Name;
pub(super) use patch::patch;

/// Makes the zone; `end` is the place of the text's end, where missing things are reported.
///
/// # Errors
///
/// See [`Zone::from_master_file`].
pub(super) fn build(mut parsed: ParsedZone, end: &Place) -> Result<Zone, ZoneError> {
    parsed.forget_closing_soa();
    let hashed = parsed.take_hashed();
    let hashed = signing::hashed_records(&parsed, &hashed)?;
    if !hashed.is_empty() {
        parsed.forget_bare_owners();
    }
    parsed.complete();
    let has_occluded = parsed.forget_occluded();
    if has_occluded {
        parsed.complete();
    }
    let mut builder = Builder::new(parsed);
    let (serial, negative_soa) = builder.check_apex(end)?;
    builder.mark()?;
    let size = builder.parsed.records.len() * 48 + builder.parsed.owners.len() * 32;
    let writer = ArenaWriter::with_capacity(size);
    let (writer, nodes, record_count) = builder.lay_out(writer, &|_| None, end)?;
    let arena = writer.finish();
    let signed = signing::signed_zone(&builder, &nodes, hashed)?;
    let Builder { parsed, warnings, .. } = builder;
    let owners = &parsed.owners;
    let index =
        NameIndex::build(owners.iter().zip(&nodes).map(|(owner, node)| (owner.hash, *node)));
    let mut by_depth = [0_usize; 128];
    for owner in owners.iter().skip(1) {
        by_depth[usize::from(owner.depth)] += 1;
    }
    let most = (1..128).rev().max_by_key(|&depth| by_depth[depth]).unwrap_or(1);
    let parts = Parts { arena, index, apex: nodes[0], common_depth: most as u8, dead_bytes: 0 };
    let lower_origin = parsed.lower_origin().as_wire().into();
    let name_count = owners.len();
    let mut zone = Zone {
        origin: parsed.origin,
        lower_origin,
        serial,
        record_count,
        name_count,
        left_out_count: parsed.left_out_count,
        has_occluded,
        parts,
        negative_soa,
        signed,
        warnings,
        is_unavailable: false,
    };
    let prepared = zone.signed().map(|signed| PreparedDenials::of(&zone, &signed.denial));
    if let (Some(signed), Some(prepared)) = (&mut zone.signed, prepared) {
        signed.prepared = prepared;
    }
    Ok(zone)
}

struct Builder {
    parsed: ParsedZone,
    /// Records by owner and type, and where each owner's begin.
    order: Vec<u32>,
    starts: Vec<u32>,
    flags: Vec<u8>,
    /// The topmost delegation at or above each owner.
    cuts: Vec<u32>,
    warnings: Vec<ZoneError>,
}

/// A server whose addresses the zone has.
enum Host {
    /// The number of an owner.
    Own(u32),
    /// A block that is written already.
    Written(NodeRef),
}

impl Builder {
    /// Takes what was read; every owner's parent must be known.
    fn new(mut parsed: ParsedZone) -> Builder {
        let warnings = std::mem::take(&mut parsed.remarks);
        let (order, starts) = parsed.by_owner();
        Builder { parsed, order, starts, flags: Vec::new(), cuts: Vec::new(), warnings }
    }

    /// An owner's records, by type.
    fn records(&self, owner: u32) -> Vec<Record> {
        let range = self.starts[owner as usize] as usize..self.starts[owner as usize + 1] as usize;
        self.order[range].iter().map(|&number| self.parsed.records[number as usize]).collect()
    }

    /// One SOA and some NS. Gives the serial and the SOA with the TTL of negative answers.
    fn check_apex(&self, end: &Place) -> Result<(u32, OwnedRrset), ZoneError> {
        let origin = &self.parsed.origin;
        let apex = self.records(APEX);
        let soas: Vec<_> =
            apex.iter().filter(|record| record.record_type == RecordType::SOA).collect();
        let soa = match soas[..] {
            [] => {
                return Err(ZoneError::new(end, "no SOA", format!("one SOA at {origin}")));
            }
            [soa] => soa,
            [_, second, ..] => {
                let place = self.parsed.place_of(second);
                return Err(ZoneError::new(&place, "a second SOA", "one SOA in a zone"));
            }
        };
        if !apex.iter().any(|record| record.record_type == RecordType::NS) {
            let allowed = format!("NS records at {origin}");
            return Err(ZoneError::new(&self.parsed.place_of(soa), "a zone without NS", allowed));
        }
        let data = self.parsed.data_of(soa);
        let tail: &[u8; 20] = data.last_chunk().expect("the reader checked the SOA's form");
        let word =
            |at: usize| u32::from_be_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
        let ttl_seconds = soa.ttl_seconds.min(word(16)).min(TTL_SECONDS_MAX);
        let mut rrset = NewRrset::default();
        let around = CompressionContext { owner: origin.as_wire(), relative_length: 0 };
        compile(&mut rrset, RecordType::SOA, ttl_seconds, std::iter::once(data), around);
        Ok((word(0), rrset.to_owned()))
    }

    /// Sets flags and delegations, owners above before those below, and checks each owner.
    fn mark(&mut self) -> Result<(), ZoneError> {
        let count = self.parsed.owners.len();
        self.flags = vec![0; count];
        self.cuts = vec![NONE; count];
        for owner in 0..count as u32 {
            let records = self.records(owner);
            self.check_owner(owner, &records)?;
            let has = |wanted| records.iter().any(|record| record.record_type == wanted);
            let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
            self.flags[owner as usize] |= flag(!records.is_empty(), HAS_DATA)
                | flag(has(RecordType::CNAME), HAS_ALIAS)
                | flag(has(RecordType::DNAME) && !self.is_wildcard(owner), HAS_DNAME);
            if owner != APEX && has(RecordType::NS) && !self.is_wildcard(owner) {
                self.cuts[owner as usize] = owner;
            }
            let Some(parent) =
                self.flags.get_mut(self.parsed.owners[owner as usize].parent as usize)
            else {
                continue;
            };
            let name = self.parsed.name_of(&self.parsed.owners[owner as usize]);
            *parent |= HAS_CHILDREN | flag(name.starts_with(b"\x01*"), HAS_WILDCARD);
        }
        let mut by_depth: Vec<u32> = (0..count as u32).collect();
        by_depth.sort_by_key(|&owner| self.parsed.owners[owner as usize].depth);
        for owner in by_depth {
            let parent = self.parsed.owners[owner as usize].parent as usize;
            let Some(&cut) = self.cuts.get(parent) else { continue };
            if cut != NONE {
                self.cuts[owner as usize] = cut;
            }
        }
        Ok(())
    }

    fn is_wildcard(&self, owner: u32) -> bool {
        self.parsed.name_of(&self.parsed.owners[owner as usize]).starts_with(b"\x01*")
    }

    /// Checks what may stand at one owner.
    fn check_owner(&mut self, owner: u32, records: &[Record]) -> Result<(), ZoneError> {
        let is_wildcard = self.is_wildcard(owner);
        let has = |wanted| records.iter().any(|record| record.record_type == wanted);
        let mut last_dname: Option<&Record> = None;
        for record in records {
            let fail = |found: String, allowed| {
                Err(ZoneError::new(&self.parsed.place_of(record), found, allowed))
            };
            match record.record_type {
                RecordType::SOA if owner != APEX => {
                    return fail("a SOA below the apex".into(), "one SOA at the apex");
                }
                RecordType::NS | RecordType::DNAME if is_wildcard => {
                    // It delegates and renames nothing, but is given to those who ask for it.
                    let found = |_: &Name| format!("{} at a wildcard", record.record_type);
                    self.warn(record, found, "other types at a wildcard (RFC 4592, 4.2 and 4.4)");
                }
                RecordType::DNAME if owner != APEX && has(RecordType::NS) => {
                    let found = "DNAME and NS at one name".into();
                    return fail(found, "either of them below the apex (RFC 6672, 2.3)");
                }
                RecordType::DNAME => {
                    if last_dname.is_some_and(|last| !self.says_the_same(last, record)) {
                        return fail("a second DNAME".into(), "one DNAME (RFC 6672, 2.4)");
                    }
                    last_dname = Some(record);
                }
                _ => {}
            }
        }
        self.check_alias(owner, records)
    }

    /// A CNAME stands alone.
    fn check_alias(&self, owner: u32, records: &[Record]) -> Result<(), ZoneError> {
        let is_alias = |record: &&Record| record.record_type == RecordType::CNAME;
        let Some(alias) = records.iter().find(is_alias) else {
            return Ok(());
        };
        // KEY, RRSIG and NSEC may stand beside an alias (RFC 2535, 2.3.5; RFC 4035, 2.5).
        let beside = |record: &&Record| match record.record_type {
            RecordType::CNAME => !self.says_the_same(record, alias),
            RecordType::RRSIG | RecordType::NSEC => false,
            other => other.0 != 25,
        };
        let Some(other) = records.iter().find(beside) else {
            return Ok(());
        };
        let [other_place, alias_place] = [other, alias].map(|record| self.parsed.place_of(record));
        let late = if other_place.line >= alias_place.line { other_place } else { alias_place };
        let owner = self.parsed.full_name(owner);
        let found = format!("CNAME and {} at {owner}", other.record_type);
        Err(ZoneError::new(&late, found, "a CNAME alone"))
    }

    fn says_the_same(&self, a: &Record, b: &Record) -> bool {
        let [first, second] = [a, b].map(|record| self.parsed.data_of(record));
        // Data that are one name have no bytes but of names: lengths are below every letter.
        let one_name = matches!(a.record_type.0, 2..=5 | 7..=9 | 12 | 39);
        first == second || (one_name && first.eq_ignore_ascii_case(second))
    }

    /// Writes every block. `written` finds servers with addresses whose blocks are written already.
    /// Gives where each owner's block is, and how many records there are.
    fn lay_out(
        &mut self,
        mut writer: ArenaWriter,
        written: &dyn Fn(&[u8]) -> Option<NodeRef>,
        end: &Place,
    ) -> Result<(ArenaWriter, Vec<NodeRef>, usize), ZoneError> {
        let mut nodes = Vec::with_capacity(self.parsed.owners.len());
        let (mut record_count, mut rrset) = (0, NewRrset::default());
        let mut glue: Vec<(usize, usize, Host)> = Vec::new();
        let mut owner_wire = Vec::new();
        for owner in 0..self.parsed.owners.len() as u32 {
            let relative = self.parsed.name_of(&self.parsed.owners[owner as usize]);
            let relative_length = relative.len();
            owner_wire.clear();
            owner_wire.extend_from_slice(relative);
            owner_wire.extend_from_slice(self.parsed.origin.as_wire());
            let node = writer.begin(self.flags[owner as usize], &owner_wire[..relative_length]);
            nodes.push(node.ok_or_else(|| ZoneError::new(end, "a zone above 32 GiB", "less"))?);
            let records = self.records(owner);
            let around = CompressionContext { owner: &owner_wire, relative_length };
            for records in records.chunk_by(|a, b| a.record_type == b.record_type) {
                let kept = self.distinct(records);
                let is_signature = records[0].record_type == RecordType::RRSIG;
                // A signature has the TTL of what it signs.
                let ttl_seconds = if is_signature { 0 } else { self.lowest_ttl(&kept) };
                record_count += kept.len();
                let data = kept.iter().map(|record| self.parsed.data_of(record));
                compile(&mut rrset, records[0].record_type, ttl_seconds, data, around).ok_or_else(
                    || {
                        let found = format!("{} records of one type", kept.len());
                        let place = self.parsed.place_of(&records[0]);
                        ZoneError::new(&place, found, "no more than one message holds (64 KiB)")
                    },
                )?;
                if is_signature {
                    rrset.set_ttls(kept.iter().map(|record| record.ttl_seconds));
                }
                writer.rrset(&rrset);
                let cut = self.cuts[owner as usize];
                if rrset.record_type == RecordType::NS && (cut == owner || cut == NONE) {
                    let servers = self.glue_of(&kept, &rrset, written);
                    let targets: Vec<u16> = servers.iter().map(|(target, _)| *target).collect();
                    if !targets.is_empty() {
                        let list = writer.glue(&targets);
                        let entries = servers.into_iter().enumerate();
                        glue.extend(entries.map(|(index, (_, host))| (list, index, host)));
                    }
                }
            }
            writer.end();
        }
        for (node, &cut) in nodes.iter().zip(&self.cuts).filter(|&(_, &cut)| cut != NONE) {
            writer.set_cut(*node, nodes[cut as usize]);
        }
        for (list, index, host) in glue {
            let node = match host {
                Host::Own(host) => nodes[host as usize],
                Host::Written(node) => node,
            };
            writer.set_glue(list, index, node);
        }
        Ok((writer, nodes, record_count))
    }

    /// Of the servers of a delegation, or of the zone, those whose addresses are in this zone:
    /// where their names stand in the wire, and which they are.
    fn glue_of(
        &mut self,
        records: &[Record],
        rrset: &NewRrset,
        written: &dyn Fn(&[u8]) -> Option<NodeRef>,
    ) -> Vec<(u16, Host)> {
        let (mut at, mut servers) = (0, Vec::new());
        for record in records {
            let target = at + super::layout::RECORD_HEAD_SIZE;
            let length = &rrset.wire[target - 2..target];
            at = target + usize::from(u16::from_be_bytes([length[0], length[1]]));
            let name = self.parsed.data_of(record).to_vec();
            let host = match self.parsed.find(&name) {
                Some(host) => self.has_addresses(host).then_some(Host::Own(host)),
                None => written(&name).map(Host::Written),
            };
            servers.extend(host.map(|host| (target as u16, host)));
        }
        servers
    }

    fn has_addresses(&self, owner: u32) -> bool {
        let mut records = self.records(owner).into_iter();
        records.any(|record| matches!(record.record_type, RecordType::A | RecordType::AAAA))
    }

    /// The records without those that say the same twice (names compared without case).
    fn distinct(&mut self, records: &[Record]) -> Vec<Record> {
        if records.len() == 1 {
            return records.to_vec();
        }
        let mut seen = HashSet::new();
        let mut kept = Vec::with_capacity(records.len());
        let mut again = Vec::new();
        for record in records {
            let data = self.parsed.data_of(record);
            if seen.insert(canonical(record.record_type, data)) {
                kept.push(*record);
            } else {
                again.push(*record);
            }
        }
        for record in again {
            let allowed = "each record once";
            self.warn(
                &record,
                |name| format!("{} of {name} a second time", record.record_type),
                allowed,
            );
        }
        kept
    }

    fn lowest_ttl(&mut self, records: &[Record]) -> u32 {
        let lowest = records.iter().map(|record| record.ttl_seconds).min().unwrap_or_default();
        if let Some(other) = records.iter().find(|record| record.ttl_seconds != lowest) {
            let allowed = format!("one TTL for all ({lowest} is served)");
            let found = |name: &crate::name::Name| {
                format!("the TTL {} in {} of {name}", other.ttl_seconds, other.record_type)
            };
            self.warn(other, found, &allowed);
        }
        lowest
    }

    fn warn(&mut self, record: &Record, found: impl Fn(&Name) -> String, allowed: &str) {
        if self.warnings.len() < REMARK_COUNT_MAX {
            let found = found(&self.parsed.full_name(record.owner));
            self.warnings.push(ZoneError::new(&self.parsed.place_of(record), found, allowed));
        }
    }
}
