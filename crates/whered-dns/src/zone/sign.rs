//! Signs a zone that was read: DNSKEY, CDS and CDNSKEY at its apex, NSEC at each name that it has
//! authority over, RRSIG behind each rrset (RFC 4034 and 4035, 2; RFC 7344, 4.1).
//!
//! Not for: where records come from; what serves them, which is as for a zone that was signed
//! before (`build.rs`); signatures themselves (`signing`).
//!
//! ```text
//! ParsedZone ─ refuse what is signed already, leave out ZONEMD
//!            ─ add names of pools, DNSKEY, CDS, CDNSKEY
//!            ─ NSEC: names in canonical order, each with its types and those of its pool
//!            ─ RRSIG: rrsets shared among threads ─► build.rs
//! ```
//!
//! The TTL of NSEC is that of negative answers (RFC 9077). The serial number stays the file's,
//! unless the context raises it.
//! Concurrency: signatures are made by as many threads as there are processors. Cost: one
//! signature an rrset and a name, but for those of the zone before that are fresh.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZero;
use std::thread;

use super::canonical::{CanonicalRrset, order_key};
use super::error::{Place, ZoneError};
use super::master::TTL_SECONDS_MAX;
use super::parsed_zone::{APEX, NONE, ParsedZone, Record};
use super::signed::{SignerOfZone, covered_type};
use super::{Zone, build, verify};
use crate::code::RecordType;
use crate::name::Name;
use crate::signing::{DenialMethod, KeyId, SigningContext, ZoneSigner};

/// The TTL of DNSKEY, CDS and CDNSKEY: an hour, which a rollover waits for.
const KEY_TTL_SECONDS: u32 = 3600;

/// Signs what was read and makes the zone.
///
/// # Errors
/// As `build`; a record of a zone that is signed already.
pub(super) fn build_signed(
    mut parsed: ParsedZone,
    end: &Place,
    signing: &SigningContext,
) -> Result<Zone, ZoneError> {
    let signer = signing.signer(parsed.lower_origin());
    let digests = sign(&mut parsed, signing, &signer, end)?;
    let mut zone = build::build(parsed, end)?;
    if let Some(signed) = &mut zone.signed {
        signed.signer = Some(SignerOfZone { signer, digests });
    }
    Ok(zone)
}

/// Adds the records of a signed zone. Gives digests of what its signatures are over.
fn sign(
    parsed: &mut ParsedZone,
    signing: &SigningContext,
    signer: &ZoneSigner,
    end: &Place,
) -> Result<HashSet<u128>, ZoneError> {
    parsed.forget_closing_soa();
    refuse_signed(parsed)?;
    forget_digests(parsed);
    parsed.complete();
    if parsed.forget_occluded() {
        parsed.complete();
    }
    let soa = parsed.records.iter().find(|record| record.record_type == RecordType::SOA).copied();
    let Some(soa) = soa.filter(|soa| soa.owner == APEX) else {
        // `build` has the words for that.
        return Ok(HashSet::new());
    };
    parsed.change_serial(&soa, |own| signing.serial(own));
    let place = parsed.place_numbers(&soa);
    add_keys(parsed, signing, place);
    add_names_of_pools(parsed, signing);
    let signable = Signable::of(parsed, signing);
    let chain = match signing.denial {
        DenialMethod::Nsec => signable.chain(parsed),
        DenialMethod::Compact => Vec::new(),
    };
    let negative_ttl = negative_ttl(parsed, &soa);
    parsed.has_compact_denial = signing.denial == DenialMethod::Compact;
    for (owner, data) in chain {
        let head = (RecordType::NSEC, negative_ttl);
        parsed.add(owner, head, &data, place).ok_or_else(|| too_large(end))?;
    }
    let made = signatures(parsed, signing, signer, &signable.cuts);
    let made = made.ok_or_else(|| {
        ZoneError::new(end, "no random numbers for signatures", "a system that gives some")
    })?;
    let mut digests = HashSet::with_capacity(made.len());
    for PlacedSignature { owner, ttl_seconds, digest, data } in made {
        digests.insert(digest);
        let head = (RecordType::RRSIG, ttl_seconds);
        parsed.add(owner, head, &data, place).ok_or_else(|| too_large(end))?;
    }
    Ok(digests)
}

fn too_large(end: &Place) -> ZoneError {
    ZoneError::new(end, "a zone whose signatures have no room", "data of at most 4 GiB")
}

/// Nobody is told by a record of the file how to sign it.
fn refuse_signed(parsed: &ParsedZone) -> Result<(), ZoneError> {
    let Some(record) = parsed.records.iter().find(|record| record.record_type.is_of_signed_zones())
    else {
        return Ok(());
    };
    let found = format!("{} in a zone that is to be signed here", record.record_type);
    let allowed = "an unsigned zone; or no sign = true ([[zone]]), which serves the signatures of \
                   the file";
    Err(ZoneError::new(&parsed.place_of(record), found, allowed))
}

/// The digest of a zone's file is not that of the signed zone.
fn forget_digests(parsed: &mut ParsedZone) {
    let is_digest = |record: &Record| record.record_type == RecordType::ZONEMD;
    let digests: Vec<Record> = parsed.records.iter().copied().filter(is_digest).collect();
    if digests.is_empty() {
        return;
    }
    for record in &digests {
        let allowed = "no digest of a zone that is signed here (it is left out)";
        parsed.remark(&parsed.place_of(record), "ZONEMD", allowed);
    }
    parsed.records.retain(|record| !is_digest(record));
    parsed.left_out_count += digests.len();
    parsed.forget_bare_owners();
}

fn add_keys(parsed: &mut ParsedZone, signing: &SigningContext, place: (u16, u32, u32)) {
    let origin = parsed.origin.clone();
    for (key, used) in signing.keys() {
        let mut add = |record_type: RecordType, data: &[u8]| {
            // A few bytes more than the SOA, which had room.
            let _added = parsed.add(APEX, (record_type, KEY_TTL_SECONDS), data, place);
        };
        add(RecordType::DNSKEY, key.dnskey());
        if used.is_for_parent {
            add(RecordType::CDS, &key.ds(&origin));
            add(RecordType::CDNSKEY, key.dnskey());
        }
    }
}

/// Makes names at which only pools answer names of the zone.
fn add_names_of_pools(parsed: &mut ParsedZone, signing: &SigningContext) {
    let dnames = parsed.records.iter().filter(|record| record.record_type == RecordType::DNAME);
    let dnames: BTreeSet<u32> = dnames.map(|record| record.owner).collect();
    let mut names: Vec<&[u8]> = signing.pools().keys().map(|name| &**name).collect();
    names.sort_unstable();
    for name in names {
        let mut above = name;
        let mut is_occluded = false;
        while let Some((&length, rest)) = above.split_first().filter(|(length, _)| **length > 0) {
            above = rest.get(usize::from(length)..).unwrap_or_default();
            is_occluded |= parsed.find(above).is_some_and(|owner| dnames.contains(&owner));
        }
        // Nobody sees what is below a DNAME; `Zones::builder` refuses such a pool.
        if !is_occluded {
            parsed.owner(name);
        }
    }
    parsed.complete();
}

/// The TTL of negative answers (RFC 2308, 5).
fn negative_ttl(parsed: &ParsedZone, soa: &Record) -> u32 {
    let minimum = parsed.data_of(soa).last_chunk().map_or(0, |last| u32::from_be_bytes(*last));
    soa.ttl_seconds.min(minimum).min(TTL_SECONDS_MAX)
}

/// The records of each owner, and where the zone's authority ends.
struct Signable {
    /// The types of each owner, with those of its pool.
    types: Vec<BTreeSet<RecordType>>,
    cuts: Vec<u32>,
}

impl Signable {
    fn of(parsed: &mut ParsedZone, signing: &SigningContext) -> Signable {
        let mut types = vec![BTreeSet::new(); parsed.owners.len()];
        for record in &parsed.records {
            types[record.owner as usize].insert(record.record_type);
        }
        for (name, own) in signing.pools() {
            if let Some(owner) = parsed.find(name) {
                types[owner as usize].extend(own);
            }
        }
        let (order, starts) = parsed.by_owner();
        let records: Vec<Record> =
            order.iter().map(|&number| parsed.records[number as usize]).collect();
        let of_owner = |owner: usize| &records[starts[owner] as usize..starts[owner + 1] as usize];
        let cuts = verify::cuts(parsed, &of_owner);
        Signable { types, cuts }
    }

    /// NSEC of each name that has records: its owner and data.
    fn chain(&self, parsed: &ParsedZone) -> Vec<(u32, Vec<u8>)> {
        let has_nsec = |owner: u32| {
            let cut = self.cuts[owner as usize];
            !self.types[owner as usize].is_empty() && (cut == NONE || cut == owner)
        };
        let owners = (0..parsed.owners.len() as u32).filter(|owner| has_nsec(*owner));
        let mut order: Vec<(Vec<u8>, u32)> = owners
            .map(|owner| (order_key(parsed.name_of(&parsed.owners[owner as usize])), owner))
            .collect();
        order.sort_unstable();
        let order: Vec<u32> = order.into_iter().map(|(_, owner)| owner).collect();
        let next = order.iter().skip(1).chain(order.first());
        let nsec = |(&owner, &next): (&u32, &u32)| {
            let is_cut = self.cuts[owner as usize] == owner;
            let own = &self.types[owner as usize];
            // Of a delegation, the parent's side tells of these alone (RFC 4035, 2.3).
            let is_told = |record_type: &&RecordType| {
                !is_cut || matches!(**record_type, RecordType::NS | RecordType::DS)
            };
            let next = parsed.name_of(&parsed.owners[next as usize]);
            let next = [next, parsed.lower_origin().as_wire()].concat();
            (owner, nsec_data(&next, own.iter().filter(is_told).copied()))
        };
        order.iter().zip(next).map(nsec).collect()
    }
}

/// The data of NSEC: the next name, and types as a bitmap (RFC 4034, 4.1.2), with those that every
/// name with NSEC has.
pub(crate) fn nsec_data(next: &[u8], types: impl Iterator<Item = RecordType>) -> Vec<u8> {
    let types: BTreeSet<u16> =
        types.chain([RecordType::RRSIG, RecordType::NSEC]).map(|of| of.0).collect();
    let mut data = next.to_vec();
    let mut windows: Vec<(u8, [u8; 32], usize)> = Vec::new();
    for number in types {
        let [window, low] = number.to_be_bytes();
        if windows.last().is_none_or(|(last, ..)| *last != window) {
            windows.push((window, [0; 32], 0));
        }
        if let Some((_, bits, length)) = windows.last_mut() {
            let byte = usize::from(low / 8);
            bits[byte] |= 0x80 >> (low % 8);
            *length = byte + 1;
        }
    }
    for (window, bits, length) in windows {
        data.extend_from_slice(&[window, length as u8]);
        data.extend_from_slice(&bits[..length]);
    }
    data
}

/// A signature and its place.
struct PlacedSignature {
    owner: u32,
    ttl_seconds: u32,
    digest: u128,
    data: Vec<u8>,
}

/// Signs every rrset that the zone has authority over; none when the system has no random numbers.
fn signatures(
    parsed: &ParsedZone,
    signing: &SigningContext,
    signer: &ZoneSigner,
    cuts: &[u32],
) -> Option<Vec<PlacedSignature>> {
    let (order, starts) = parsed.by_owner();
    let records: Vec<Record> =
        order.iter().map(|&number| parsed.records[number as usize]).collect();
    let mut rrsets: Vec<&[Record]> = Vec::new();
    for (range, (owner, &cut)) in starts.windows(2).zip((0_u32..).zip(cuts)) {
        let own = &records[range[0] as usize..range[1] as usize];
        let is_signed = |record_type: RecordType| match cut {
            NONE => true,
            cut => cut == owner && matches!(record_type, RecordType::DS | RecordType::NSEC),
        };
        let own = own.chunk_by(|a, b| a.record_type == b.record_type);
        rrsets.extend(own.filter(|own| is_signed(own[0].record_type)));
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = rrsets.len().div_ceil(threads).max(1);
    let work = |share: &[&[Record]]| -> Option<Vec<PlacedSignature>> {
        let mut made = Vec::with_capacity(share.len());
        for records in share {
            sign_rrset(parsed, signing, signer, records, &mut made)?;
        }
        Some(made)
    };
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> =
            rrsets.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        let mut made = Vec::new();
        for worker in workers {
            made.extend(worker.join().ok().flatten()?);
        }
        Some(made)
    })
}

fn sign_rrset(
    parsed: &ParsedZone,
    signing: &SigningContext,
    signer: &ZoneSigner,
    records: &[Record],
    made: &mut Vec<PlacedSignature>,
) -> Option<()> {
    let first = records.first()?;
    let relative = parsed.name_of(&parsed.owners[first.owner as usize]);
    let owner = [relative, parsed.lower_origin().as_wire()].concat();
    let ttl_seconds = records.iter().map(|record| record.ttl_seconds).min()?;
    let record_type = first.record_type;
    let rrset = CanonicalRrset { owner: &owner, record_type, ttl: ttl_seconds.to_be_bytes() };
    let previous = signing.previous();
    let find = |digest: u128, key: KeyId| {
        let signed = previous?.signed()?.signer.as_ref()?;
        if !signed.digests.contains(&digest) {
            return None;
        }
        let name = Name::from_wire(&owner).ok()?;
        let signatures = previous?.find(&name)?.rrset(RecordType::RRSIG)?;
        let is_it = |data: &[u8]| {
            covered_type(data) == record_type.0
                && data.get(2) == Some(&key.algorithm)
                && data.get(16..18) == Some(&key.tag.to_be_bytes()[..])
        };
        let found = signatures.records().find(|(_, data)| is_it(data));
        found.map(|(_, data)| data.to_vec())
    };
    let data = records.iter().map(|record| parsed.data_of(record));
    for one in signer.signatures(&rrset, data, &find, &|| true)? {
        made.push(PlacedSignature {
            owner: first.owner,
            ttl_seconds,
            digest: one.digest,
            data: one.data,
        });
    }
    Some(())
}
