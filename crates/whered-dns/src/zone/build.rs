//! Makes a zone of records: sorts, checks, compiles.
//!
//! Not for: syntax (`master.rs`).
//!
//! The steps, each over the whole zone: sort by owner and type; take the records of one owner
//! together, check what may stand beside what, compile each rrset; add the empty non-terminals;
//! mark what lies at or below a delegation; list each delegation's glue.

use super::error::{Place, ZoneError};
use super::master::{Record, TTL_SECONDS_MAX};
use super::rdata::{RECORD_HEAD_SIZE, Rrset, names_in};
use super::{Glue, Node, Zone};
use crate::code::RecordType;
use crate::name::Name;

const WARNING_COUNT_MAX: usize = 100;

/// Makes the zone; `end` is the place of the text's end, where missing things are reported.
///
/// # Errors
///
/// See [`Zone::from_master_file`].
pub(crate) fn build(
    origin: &Name,
    mut records: Vec<Record>,
    end: &Place,
) -> Result<Zone, ZoneError> {
    records.sort_by(|a, b| a.owner.cmp(&b.owner).then(a.record_type.cmp(&b.record_type)));
    let apex = records.partition_point(|record| record.owner <= *origin);
    let apex = &records[..apex];
    let soas: Vec<_> = apex.iter().filter(|record| record.record_type == RecordType::SOA).collect();
    let soa = match soas[..] {
        [] => {
            return Err(ZoneError::new(end, "no SOA", format!("one SOA at {origin}")));
        }
        [soa] => soa,
        [_, second, ..] => {
            return Err(ZoneError::new(&second.place, "a second SOA", "one SOA in a zone"));
        }
    };
    if !apex.iter().any(|record| record.record_type == RecordType::NS) {
        let allowed = format!("NS records at {origin}");
        return Err(ZoneError::new(&soa.place, "a zone without NS", allowed));
    }
    let tail: &[u8; 20] = soa.data.last_chunk().expect("the reader checked the SOA's form");
    let word = |at: usize| u32::from_be_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
    let negative_ttl_seconds = soa.ttl_seconds.min(word(16)).min(TTL_SECONDS_MAX);
    let negative_soa =
        Rrset::compile(RecordType::SOA, negative_ttl_seconds, std::iter::once(&*soa.data), origin);
    let serial = word(0);
    let mut warnings = Vec::new();
    let (mut nodes, record_count) = compile_nodes(origin, &records, &mut warnings)?;
    mark_cuts(origin, &mut nodes);
    list_glue(origin, &mut nodes);
    Ok(Zone { origin: origin.clone(), serial, record_count, nodes, negative_soa, warnings })
}

/// Compiles the sorted records into sorted nodes with the empty non-terminals between them.
fn compile_nodes(
    origin: &Name,
    records: &[Record],
    warnings: &mut Vec<ZoneError>,
) -> Result<(Vec<Node>, usize), ZoneError> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut record_count = 0;
    for group in records.chunk_by(|a, b| a.owner == b.owner) {
        let owner = &group[0].owner;
        check_owner(origin, group)?;
        add_ancestors(owner, &mut nodes);
        let mut rrsets = Vec::new();
        for records in group.chunk_by(|a, b| a.record_type == b.record_type) {
            let kept = distinct(records, warnings);
            let ttl_seconds = lowest_ttl(&kept, warnings);
            record_count += kept.len();
            let data = kept.iter().map(|record| &*record.data);
            rrsets.push(Rrset::compile(records[0].record_type, ttl_seconds, data, origin));
        }
        let mut node = Node::empty(owner.clone());
        node.rrsets = rrsets.into();
        nodes.push(node);
    }
    Ok((nodes, record_count))
}

/// Adds the nodes between `owner` and the last node's line of ancestors, in order.
fn add_ancestors(owner: &Name, nodes: &mut Vec<Node>) {
    let Some(last) = nodes.last() else { return };
    let mut missing = Vec::new();
    let mut above = owner.parent();
    while let Some(name) = above {
        // In sorted order, a name that exists already is the last node or above it.
        if last.owner.is_within(&name) {
            break;
        }
        above = name.parent();
        missing.push(name);
    }
    nodes.extend(missing.into_iter().rev().map(Node::empty));
}

/// Checks what may stand at one owner.
fn check_owner(origin: &Name, group: &[Record]) -> Result<(), ZoneError> {
    let owner = &group[0].owner;
    for record in group {
        let place = &record.place;
        match record.record_type {
            RecordType::SOA if owner != origin => {
                return Err(ZoneError::new(place, "a SOA below the apex", "one SOA at the apex"));
            }
            RecordType::NS | RecordType::DNAME if owner.is_wildcard() => {
                let found = format!("{} at a wildcard", record.record_type);
                return Err(ZoneError::new(place, found, "other types at a wildcard"));
            }
            RecordType::DNAME => {
                let allowed = "CNAME records; DNAME is not served yet";
                return Err(ZoneError::new(place, "a DNAME", allowed));
            }
            _ => {}
        }
    }
    let is_alias = |record: &&Record| record.record_type == RecordType::CNAME;
    if let Some(alias) = group.iter().find(is_alias) {
        // RRSIG, NSEC and KEY may stand beside an alias (RFC 4034, 4035).
        let beside = |record: &&Record| match record.record_type {
            RecordType::CNAME => record.data != alias.data && !same_names(record, alias),
            other => !matches!(other.0, 25 | 46 | 47),
        };
        if let Some(other) = group.iter().find(beside) {
            let late = if other.place.line >= alias.place.line { other } else { alias };
            let found = format!("CNAME and {} at {owner}", other.record_type);
            return Err(ZoneError::new(&late.place, found, "a CNAME alone"));
        }
    }
    Ok(())
}

fn same_names(a: &Record, b: &Record) -> bool {
    let [a, b] = [a, b].map(|record| names_in(record.record_type, &record.data));
    !a.is_empty() && a == b
}

/// The records without those that say the same twice (names compared without case).
fn distinct<'a>(records: &'a [Record], warnings: &mut Vec<ZoneError>) -> Vec<&'a Record> {
    let mut seen = std::collections::HashSet::new();
    let mut kept = Vec::with_capacity(records.len());
    for record in records {
        let has_names = !names_in(record.record_type, &record.data).is_empty();
        // Labels' lengths and the numbers around names may change under lowering as well, so the
        // lowered bytes only serve as the key for types whose data are nothing but names.
        let only_names = has_names && matches!(record.record_type.0, 2..=5 | 7..=9 | 12);
        let key = if only_names { record.data.to_ascii_lowercase() } else { record.data.to_vec() };
        if seen.insert(key) {
            kept.push(record);
        } else if warnings.len() < WARNING_COUNT_MAX {
            let found = format!("{} of {} a second time", record.record_type, record.owner);
            warnings.push(ZoneError::new(&record.place, found, "each record once"));
        }
    }
    kept
}

fn lowest_ttl(records: &[&Record], warnings: &mut Vec<ZoneError>) -> u32 {
    let lowest = records.iter().map(|record| record.ttl_seconds).min().unwrap_or_default();
    if let Some(other) = records.iter().find(|record| record.ttl_seconds != lowest)
        && warnings.len() < WARNING_COUNT_MAX
    {
        let (owner, ttl) = (&other.owner, other.ttl_seconds);
        let found = format!("the TTL {ttl} in {} of {owner}", other.record_type);
        let allowed = format!("one TTL for all ({lowest} is served)");
        warnings.push(ZoneError::new(&other.place, found, allowed));
    }
    lowest
}

/// Marks every node at or below a delegation with the topmost delegation above it.
fn mark_cuts(origin: &Name, nodes: &mut [Node]) {
    let mut cut: Option<(u32, Name)> = None;
    for (index, node) in nodes.iter_mut().enumerate() {
        if cut.as_ref().is_some_and(|(_, top)| !node.owner.is_within(top)) {
            cut = None;
        }
        if cut.is_none() && node.owner != *origin && node.rrset(RecordType::NS).is_some() {
            cut = Some((index as u32, node.owner.clone()));
        }
        node.cut = cut.as_ref().map(|&(index, _)| index);
    }
}

/// Lists, for each delegation, the servers whose addresses only this zone can tell.
fn list_glue(origin: &Name, nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        if nodes[index].cut != Some(index as u32) {
            continue;
        }
        let Some(rrset) = nodes[index].rrset(RecordType::NS) else {
            continue;
        };
        let mut glue: Vec<Glue> = Vec::new();
        let mut at = 0;
        while let Some(head) = rrset.wire.get(at..at + RECORD_HEAD_SIZE) {
            let length = usize::from(u16::from_be_bytes([head[10], head[11]]));
            let start = at + RECORD_HEAD_SIZE;
            at = start + length;
            let wire = match rrset.points.binary_search(&(at as u32 - 2)) {
                Ok(_) => &[&rrset.wire[start..at - 2], origin.as_wire()].concat(),
                Err(_) => &rrset.wire[start..at],
            };
            let server = Name::from_wire(wire).expect("compiled from a checked name");
            let found = nodes.binary_search_by(|node| node.owner.cmp(&server)).ok();
            if let Some(node) = found.filter(|&node| nodes[node].cut.is_some()) {
                glue.push(Glue { node: node as u32, target_offset: start as u32 });
            }
        }
        nodes[index].glue = glue.into();
    }
}
