//! Gathers the data that prove absence in a signed zone, and refuses a zone that lacks some.
//!
//! Not for: whether signatures are right, which needs keys and a clock; proofs of an answer.

use std::collections::HashMap;

use super::super::error::ZoneError;
use super::super::layout::{NewRrset, NodeRef, OwnedRrset};
use super::super::ordered_names::OrderedNames;
use super::super::parsed_zone::{APEX, ParsedZone, Record};
use super::super::signed::{
    Denial, HASH_SIZE, HashParameters, HashedOwner, ITERATIONS_MAX, PreparedDenials, SignedZone,
    covered_type, expiry_seconds,
};
use super::super::{CompressionContext, compile};
use super::Builder;
use crate::code::RecordType;

/// NSEC3 and their signatures by their owners' hashes.
///
/// # Errors
/// An owner that is no hash below the apex, another hash than SHA-1, other parameters than those of
/// the others, too many iterations, an NSEC3 without a signature.
pub(super) fn hashed_records(
    parsed: &ParsedZone,
    owners: &[Vec<Record>],
) -> Result<Vec<(HashParameters, HashedOwner)>, ZoneError> {
    owners.iter().map(|records| hashed_record(parsed, records)).collect()
}

fn hashed_record(
    parsed: &ParsedZone,
    records: &[Record],
) -> Result<(HashParameters, HashedOwner), ZoneError> {
    let first = records.first().expect("an owner has records");
    let fail =
        |found: String, allowed: String| ZoneError::new(&parsed.place_of(first), found, allowed);
    let owner = parsed.full_name(first.owner);
    let label = owner.labels().next().unwrap_or_default();
    let text = std::str::from_utf8(label).unwrap_or_default();
    let hash = domain::utils::base32::decode_hex::<Vec<u8>>(text).ok();
    let hash: Option<[u8; HASH_SIZE]> = hash.and_then(|hash| hash.try_into().ok());
    let hash = hash.filter(|_| owner.parent().as_ref() == Some(&parsed.origin));
    let hash = hash.ok_or_else(|| {
        let allowed = format!("a hash of 32 letters and digits below {}", parsed.origin);
        fail(format!("NSEC3 of {owner}"), allowed)
    })?;
    let (own, signatures): (Vec<Record>, Vec<Record>) =
        records.iter().partition(|record| record.record_type == RecordType::NSEC3);
    let [record] = own[..] else {
        let found = format!("{} NSEC3 of {owner}", own.len());
        return Err(fail(found, "one NSEC3 with its RRSIG".to_owned()));
    };
    if signatures.is_empty() {
        return Err(fail(format!("NSEC3 of {owner} without RRSIG"), "RRSIG of each".to_owned()));
    }
    let data = parsed.data_of(&record);
    let parameters = HashParameters::of_data(data);
    let parameters = parameters.filter(|parameters| parameters.iterations <= ITERATIONS_MAX);
    let parameters = parameters.ok_or_else(|| {
        let allowed = format!("SHA-1 with at most {ITERATIONS_MAX} iterations (RFC 9276, 3.2)");
        fail(format!("NSEC3 of {owner} with another hash or more iterations"), allowed)
    })?;
    let label = [&[label.len() as u8][..], &label.to_ascii_lowercase()].concat().into();
    let record = compiled(parsed, &[record]);
    let signatures = compiled(parsed, &signatures);
    Ok((parameters, HashedOwner { hash, label, record, signatures }))
}

/// Records of one owner and type that have no names to compress.
fn compiled(parsed: &ParsedZone, records: &[Record]) -> OwnedRrset {
    let mut rrset = NewRrset::default();
    let record_type = records.first().map(|record| record.record_type).unwrap_or_default();
    let data = records.iter().map(|record| parsed.data_of(record));
    let around = CompressionContext { owner: &[0], relative_length: 0 };
    // Their bytes are fewer than those of the file, which are bounded by the reader.
    let _ = compile(&mut rrset, record_type, 0, data, around);
    rrset.set_ttls(records.iter().map(|record| record.ttl_seconds));
    rrset.to_owned()
}

/// The data for proofs of absence; none if the zone has no signatures.
///
/// # Errors
/// A zone with signatures that resolvers could not validate: no RRSIG of the SOA, no DNSKEY,
/// neither NSEC nor NSEC3 at the apex.
pub(super) fn signed_zone(
    builder: &Builder,
    nodes: &[NodeRef],
    hashed: Vec<(HashParameters, HashedOwner)>,
) -> Result<Option<Box<SignedZone>>, ZoneError> {
    let parsed = &builder.parsed;
    let is_signature = |record: &&Record| record.record_type == RecordType::RRSIG;
    let Some(first) = parsed.records.iter().find(is_signature) else { return Ok(None) };
    let missing = |what: &str| {
        let found = format!("a zone with RRSIG and without {what}");
        let allowed = "a zone that is signed as a whole; or unsigned = \"strip\" ([[zone]], --unsigned of \
                       zone check), which leaves out all of DNSSEC: before, take its DS out of its \
                       parent zone";
        ZoneError::new(&parsed.place_of(first), found, allowed)
    };
    let apex = builder.records(APEX);
    let has = |wanted: RecordType| apex.iter().any(|record| record.record_type == wanted);
    let signs_soa = |record: &&Record| covered_type(parsed.data_of(record)) == RecordType::SOA.0;
    if !apex.iter().filter(is_signature).any(|record| signs_soa(&record)) {
        return Err(missing("an RRSIG of its SOA"));
    }
    if !has(RecordType::DNSKEY) {
        return Err(missing("DNSKEY"));
    }
    let mut expiries = Vec::new();
    for record in parsed.records.iter().filter(is_signature) {
        expiries.extend(expiry_seconds(parsed.data_of(record)));
    }
    for (_, hashed) in &hashed {
        let signatures = hashed.signatures.get();
        expiries.extend(signatures.records().filter_map(|(_, data)| expiry_seconds(data)));
    }
    let denial = if parsed.has_compact_denial {
        Denial::Compact
    } else if has(RecordType::NSEC) {
        let mut names = Vec::new();
        for (number, owner) in parsed.owners.iter().enumerate() {
            let records = builder.records(number as u32);
            if records.iter().any(|record| record.record_type == RecordType::NSEC) {
                names.push((parsed.name_of(owner).into(), nodes[number]));
            }
        }
        let found = "names whose order has no room";
        let names = OrderedNames::build(names).ok_or_else(|| {
            ZoneError::new(&parsed.place_of(first), found, "names of at most 4 GiB")
        })?;
        Denial::Names(names)
    } else {
        let parameters = apex.iter().find(|record| record.record_type == RecordType::NSEC3PARAM);
        let parameters = parameters
            .and_then(|record| HashParameters::of_data(parsed.data_of(record)))
            .ok_or_else(|| missing("NSEC or NSEC3PARAM at its apex"))?;
        // A zone may have several chains of hashes; NSEC3PARAM says which one answers.
        let mut lists: HashMap<[u8; HASH_SIZE], HashedOwner> = HashMap::new();
        let mut others = Vec::new();
        for (of_record, hashed) in hashed {
            if of_record == parameters {
                lists.insert(hashed.hash, hashed);
            } else {
                others.push(hashed);
            }
        }
        let apex_hash = parameters.hash(parsed.lower_origin().as_wire());
        if !lists.contains_key(&apex_hash) {
            return Err(missing("the NSEC3 of its apex"));
        }
        Denial::of_hashes(parameters, lists.into_values().collect(), others)
    };
    // Times wrap: the earliest is the one from which all others are less than half a circle away.
    let earliest = |a: u32, b: u32| if a.wrapping_sub(b) < 1 << 31 { b } else { a };
    let first_expiry_seconds = expiries.into_iter().reduce(earliest).unwrap_or_default();
    let (signer, prepared) = (None, PreparedDenials::default());
    Ok(Some(Box::new(SignedZone { denial, first_expiry_seconds, signer, prepared })))
}
