//! The records of a zone as transfers carry them: owner, type, TTL, and data whose names are
//! written out.
//!
//! Not for: messages (`transfer`), changes of a zone (`difference.rs`).
//!
//! Concurrency: reads an immutable zone. Cost: two allocations a record.

use super::canonical::canonical;
use super::error::{Place, ZoneError};
use super::layout::{Node, RECORD_HEAD_SIZE, Rrset};
use super::parsed_zone::ParsedZone;
use super::rdata::{check, name_layout};
use super::signed::{Denial, HashedOwner};
use super::{Dnssec, Zone, build, is_stripped, sign};
use crate::code::RecordType;
use crate::name::Name;
use crate::signing::SigningContext;

/// Where the owner stands in the message that an rrset is compiled for.
const OWNER_AT: usize = 12;
/// The bytes of a question behind its name.
const QUESTION_TAIL_SIZE: usize = 4;

/// One record of a zone.
///
/// ```
/// use whered_dns::{Name, RecordType, Zone};
/// let text = b"@ 60 IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
/// let origin: Name = "example.com".parse()?;
/// let zone = Zone::from_master_file(&origin, text, &mut |_| Err("no".into()))?;
/// let records: Vec<_> = zone.records().collect();
/// assert_eq!(records[0].record_type, RecordType::SOA);
/// assert_eq!(&*records[2].data, [192, 0, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The whole name.
    pub owner: Name,
    /// The type.
    pub record_type: RecordType,
    /// The TTL in seconds.
    pub ttl_seconds: u32,
    /// The data in wire form, names written out.
    pub data: Box<[u8]>,
}

impl ZoneRecord {
    /// Whether both say the same of the same name, whatever their TTLs and the case of names in
    /// their data.
    #[must_use]
    pub fn says_the_same(&self, other: &ZoneRecord) -> bool {
        self.record_type == other.record_type
            && self.owner == other.owner
            && is_same_data(self.record_type, &self.data, &other.data)
    }
}

/// Whether data of one type say the same.
pub(super) fn is_same_data(record_type: RecordType, one: &[u8], other: &[u8]) -> bool {
    one == other
        || (one.eq_ignore_ascii_case(other)
            && canonical(record_type, one) == canonical(record_type, other))
}

impl Zone {
    /// All records, the SOA first; those of one owner and type stand together. Owners are in lower
    /// case.
    pub fn records(&self) -> impl Iterator<Item = ZoneRecord> + '_ {
        let apex = self.apex();
        let soa = apex.rrset(RecordType::SOA).into_iter();
        let soa = soa.flat_map(move |rrset| self.records_of_rrset(&apex, rrset));
        let nodes = self.parts.arena.nodes();
        let others = nodes.flat_map(move |node| {
            let rrsets = node.rrsets().filter(|rrset| rrset.record_type != RecordType::SOA);
            rrsets.flat_map(move |rrset| self.records_of_rrset(&node, rrset))
        });
        soa.chain(others).chain(self.hashed_records())
    }

    /// All records of one owner.
    pub(super) fn records_of(&self, node: &Node<'_>) -> Vec<ZoneRecord> {
        node.rrsets().flat_map(|rrset| self.records_of_rrset(node, rrset)).collect()
    }

    /// NSEC3 with their signatures, whose owners are no names of the zone.
    pub(super) fn hashed_records(&self) -> impl Iterator<Item = ZoneRecord> + '_ {
        self.hashed_owners().flat_map(|hashed| self.records_of_hash(hashed))
    }

    /// Makes a zone of records, such as a transfer brings. `source` stands in the places of errors,
    /// where the number of the record is the line.
    ///
    /// ```
    /// use whered_dns::{Dnssec, Name, Zone};
    /// let text = b"@ 60 IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    /// let origin: Name = "example.com".parse()?;
    /// let zone = Zone::from_master_file(&origin, text, &mut |_| Err("no".into()))?;
    /// let copy = Zone::from_records(&origin, "192.0.2.53", Dnssec::Serve, zone.records())?;
    /// assert!(copy.records().eq(zone.records()));
    /// let error = Zone::from_records(&origin, "192.0.2.53", Dnssec::Serve, []).unwrap_err();
    /// assert!(error.to_string().starts_with("192.0.2.53:1:1: found no SOA"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Zone::from_any_master_file`], and data that have not the form of their type.
    pub fn from_records(
        origin: &Name,
        source: &str,
        dnssec: Dnssec,
        records: impl IntoIterator<Item = ZoneRecord>,
    ) -> Result<Zone, ZoneError> {
        let (parsed, end) = parse(origin, source, dnssec, records)?;
        build::build(parsed, &end)
    }

    /// This zone, signed: for one that came by a transfer. `source` stands in the places of errors.
    ///
    /// # Errors
    ///
    /// As [`Zone::sign_master_file`].
    pub fn sign(&self, source: &str, signing: &SigningContext) -> Result<Zone, ZoneError> {
        let (parsed, end) = parse(&self.origin, source, Dnssec::Serve, self.records())?;
        sign::build_signed(parsed, &end, signing)
    }

    /// The records of one rrset.
    pub(crate) fn records_of_rrset<'z>(
        &self,
        node: &Node<'z>,
        rrset: Rrset<'z>,
    ) -> impl Iterator<Item = ZoneRecord> + use<'z> {
        let owner = self.name_of(node);
        let mut at = 0;
        std::iter::from_fn(move || {
            let (ttl_seconds, data) = data_at(&rrset, at, &owner)?;
            let length = rrset.wire.get(at + RECORD_HEAD_SIZE - 2..)?.first_chunk()?;
            at += RECORD_HEAD_SIZE + usize::from(u16::from_be_bytes(*length));
            let (owner, record_type) = (owner.clone(), rrset.record_type);
            Some(ZoneRecord { owner, record_type, ttl_seconds, data: data.into() })
        })
    }

    /// The records of an owner, NSEC3 included; none if the zone has no such name.
    pub fn records_at(&self, owner: &Name) -> Vec<ZoneRecord> {
        let own = self.find(owner).into_iter().flat_map(|node| self.records_of(&node));
        let is_of_owner = |hashed: &&HashedOwner| {
            let label = owner.as_wire().get(..hashed.label.len());
            label.is_some_and(|label| label.eq_ignore_ascii_case(&hashed.label))
                && owner.parent().as_ref() == Some(self.origin())
        };
        let hashed = self.hashed_owners().filter(is_of_owner);
        own.chain(hashed.flat_map(|hashed| self.records_of_hash(hashed))).collect()
    }

    fn hashed_owners(&self) -> impl Iterator<Item = &HashedOwner> {
        let (list, others) = match self.signed().map(|signed| &signed.denial) {
            Some(Denial::Hashes { list, others, .. }) => (&list[..], &others[..]),
            _ => (&[][..], &[][..]),
        };
        list.iter().chain(others)
    }

    fn records_of_hash<'z>(
        &'z self,
        hashed: &'z HashedOwner,
    ) -> impl Iterator<Item = ZoneRecord> + use<'z> {
        let wire = [&hashed.label, self.origin.as_wire()].concat();
        let owner = Name::from_wire(&wire).ok();
        let record = move |record_type, (ttl_seconds, data): (u32, &[u8])| {
            let owner = owner.clone()?;
            Some(ZoneRecord { owner, record_type, ttl_seconds, data: data.into() })
        };
        let own = hashed.record.get().records().map(|data| (RecordType::NSEC3, data));
        let signatures = hashed.signatures.get().records().map(|data| (RecordType::RRSIG, data));
        own.chain(signatures).filter_map(move |(of, data)| record(of, data))
    }
}

/// Gathers records, and gives the place behind them.
fn parse(
    origin: &Name,
    source: &str,
    dnssec: Dnssec,
    records: impl IntoIterator<Item = ZoneRecord>,
) -> Result<(ParsedZone, Place), ZoneError> {
    let mut parsed = ParsedZone::new(origin);
    let file = parsed.add_file(source);
    let mut number = 0;
    for record in records {
        number += 1;
        add(&mut parsed, &record, dnssec, (file, number, 1))?;
    }
    if parsed.left_out_count > 0 {
        parsed.forget_bare_owners();
    }
    let end = Place { file: parsed.file(file), line: number + 1, column: 1 };
    Ok((parsed, end))
}

/// Adds a record whose data are checked.
pub(super) fn add(
    parsed: &mut ParsedZone,
    record: &ZoneRecord,
    dnssec: Dnssec,
    place: (u16, u32, u32),
) -> Result<(), ZoneError> {
    let (file, line, column) = place;
    let error = |parsed: &ParsedZone, found: String, allowed: String| {
        ZoneError::new(&Place { file: parsed.file(file), line, column }, found, allowed)
    };
    let ZoneRecord { owner, record_type, ttl_seconds, data } = record;
    if dnssec == Dnssec::Strip && is_stripped(*record_type) {
        parsed.left_out_count += 1;
        return Ok(());
    }
    if dnssec == Dnssec::Refuse && record_type.is_of_signed_zones() {
        let found = format!("{record_type} of {owner} in a zone that is to be unsigned");
        return Err(error(parsed, found, "an unsigned zone, or unsigned = \"serve\"".to_owned()));
    }
    if matches!(record_type.0, 0 | 41 | 128..=255) {
        let found = format!("the type {record_type} of {owner}, which is no data");
        return Err(error(parsed, found, "a type of data".to_owned()));
    }
    check(*record_type, data).map_err(|allowed| {
        error(parsed, format!("{record_type} of {owner} with other data"), allowed.to_owned())
    })?;
    let Some(number) = parsed.owner(owner.as_wire()) else {
        let allowed = format!("names at and below {}", parsed.origin);
        return Err(error(parsed, format!("a record of {owner}, outside of the zone"), allowed));
    };
    // A TTL above 2^31 - 1 counts as 0 (RFC 2181, 8).
    let ttl_seconds = if *ttl_seconds > super::TTL_SECONDS_MAX { 0 } else { *ttl_seconds };
    parsed.add(number, (*record_type, ttl_seconds), data, place).ok_or_else(|| {
        let allowed = "data and names of at most 4 GiB each, data of at most 65535 bytes";
        error(parsed, "a record for which there is no room".to_owned(), allowed.to_owned())
    })
}

/// The TTL and the data of the record that begins at a place of an rrset's wire.
fn data_at(rrset: &Rrset<'_>, at: usize, owner: &Name) -> Option<(u32, Vec<u8>)> {
    let head = rrset.wire.get(at..at + RECORD_HEAD_SIZE)?;
    let ttl_seconds = u32::from_be_bytes(*head.get(6..)?.first_chunk()?);
    let length = usize::from(u16::from_be_bytes(*head.last_chunk()?));
    let start = at + RECORD_HEAD_SIZE;
    let end = start + length;
    let mut data = Vec::with_capacity(length);
    let compressed = name_layout(rrset.record_type).filter(|_| rrset.record_type.0 < 16);
    let Some((front, names, _)) = compressed else {
        data.extend_from_slice(rrset.wire.get(start..end)?);
        return Some((ttl_seconds, data));
    };
    data.extend_from_slice(rrset.wire.get(start..start + front)?);
    let mut next = start + front;
    for _ in 0..names {
        next = append_name(rrset, next, owner, &mut data)?;
    }
    data.extend_from_slice(rrset.wire.get(next..end)?);
    Some((ttl_seconds, data))
}

/// Appends a name of an rrset's wire, written out. Gives the place behind it.
fn append_name(
    rrset: &Rrset<'_>,
    mut at: usize,
    owner: &Name,
    data: &mut Vec<u8>,
) -> Option<usize> {
    let wire_at = OWNER_AT + owner.as_wire().len() + QUESTION_TAIL_SIZE;
    let mut behind = None;
    loop {
        match *rrset.wire.get(at..)? {
            [0, ..] => {
                data.push(0);
                return behind.or(Some(at + 1));
            }
            [high @ 0xc0..=0xff, low, ..] => {
                behind = behind.or(Some(at + 2));
                let target = usize::from(u16::from_be_bytes([high & 0x3f, low]));
                match target.checked_sub(wire_at) {
                    // Names point at what stands before them.
                    Some(target) if target < at => at = target,
                    Some(_) => return None,
                    None => {
                        data.extend_from_slice(owner.as_wire().get(target - OWNER_AT..)?);
                        return behind;
                    }
                }
            }
            [length, ..] => {
                let next = at + 1 + usize::from(length);
                data.extend_from_slice(rrset.wire.get(at..next)?);
                at = next;
            }
            [] => return None,
        }
    }
}
