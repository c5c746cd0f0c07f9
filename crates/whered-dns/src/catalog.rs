//! Catalog zones (RFC 9432): a zone whose records name the zones that secondaries shall have.
//!
//! Not for: transferring the catalog, and what becomes of its members (the server).
//!
//! ```text
//! version.catalog.example            TXT "2"
//! <id>.zones.catalog.example         PTR member.example.     one zone
//! group.<id>.zones.catalog.example   TXT "internal"          chooses settings of the consumer
//! coo.<id>.zones.catalog.example     PTR other.example.      the catalog that may take it over
//! ```
//!
//! Other records, such as custom properties below `ext`, are passed over. Cost: linear in the
//! records.

use std::collections::BTreeMap;
use std::fmt;

use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;
use crate::zone::{Dnssec, Zone, ZoneRecord};

/// The version that is read and made, as the data of its TXT record.
const VERSION_DATA: &[u8] = b"\x012";
/// Bytes of a digest that make an id.
const ID_SIZE: usize = 20;
/// The times of a catalog that is made here, as RFC 9432 has them in its examples.
const REFRESH_SECONDS: u32 = 3600;
const RETRY_SECONDS: u32 = 600;
const EXPIRE_SECONDS: u32 = 2_147_483_646;

/// One zone of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogMember {
    /// The zone.
    pub zone: Name,
    /// The label that stands for it in the catalog, in lower case. Another label for the same zone
    /// means that the zone begins anew.
    pub id: Box<[u8]>,
    /// The groups that it is in.
    pub groups: Vec<Vec<u8>>,
    /// The catalog that may take it over.
    pub new_owner: Option<Name>,
}

/// Why a zone is no catalog that may be followed: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogError(String);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CatalogError {}

/// What the records of one id say.
#[derive(Default)]
struct MemberNode {
    zones: Vec<Name>,
    groups: Vec<Vec<u8>>,
    new_owners: Vec<Name>,
}

/// Reads the members of a catalog, by their ids in order. A zone may be there under several ids.
///
/// ```
/// use whered_dns::{Name, Zone, catalog};
/// let text = b"$TTL 0\n@ SOA invalid. invalid. 1 3600 600 2147483646 0\n@ NS invalid.\n\
///              version TXT 2\nabc.zones PTR example.net.\n";
/// let origin: Name = "catalog.example".parse()?;
/// let zone = Zone::from_master_file(&origin, text, &mut |_| Err("none".into()))?;
/// let members = catalog::members(&zone, 100)?;
/// assert_eq!(members[0].zone, "example.net".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// No version, several or another than 2; several PTR where one may be; more than `most` members.
pub fn members(zone: &Zone, most: usize) -> Result<Vec<CatalogMember>, CatalogError> {
    let origin = zone.origin();
    let wrong = |found: String, allowed: &str| {
        Err(CatalogError(format!("catalog {origin}: found {found}; allowed: {allowed}")))
    };
    let depth = origin.label_count();
    let mut versions = Vec::new();
    let mut nodes: BTreeMap<Box<[u8]>, MemberNode> = BTreeMap::new();
    for record in zone.records() {
        let labels: Vec<&[u8]> = record.owner.labels().collect();
        let own = labels.get(..labels.len().saturating_sub(depth)).unwrap_or_default();
        match (own, record.record_type) {
            ([b"version"], RecordType::TXT) => versions.push(record.data.clone()),
            ([id, b"zones"], RecordType::PTR) => {
                let Ok(member) = Name::from_wire(&record.data) else { continue };
                nodes.entry((*id).into()).or_default().zones.push(member);
            }
            ([b"group", id, b"zones"], RecordType::TXT) => {
                // A group is one string.
                let [length, group @ ..] = &*record.data else { continue };
                if usize::from(*length) == group.len() {
                    nodes.entry((*id).into()).or_default().groups.push(group.to_vec());
                }
            }
            ([b"coo", id, b"zones"], RecordType::PTR) => {
                let Ok(owner) = Name::from_wire(&record.data) else { continue };
                nodes.entry((*id).into()).or_default().new_owners.push(owner);
            }
            _ => {}
        }
    }
    let one_version = "version 2 alone (RFC 9432), a TXT record at 'version'";
    match &versions[..] {
        [version] if **version == *VERSION_DATA => {}
        [] => return wrong("no version".to_owned(), one_version),
        [version] => {
            let text = String::from_utf8_lossy(version.get(1..).unwrap_or_default());
            return wrong(format!("the version '{}'", text.escape_debug()), one_version);
        }
        several => return wrong(format!("{} versions", several.len()), one_version),
    }
    let mut members = Vec::new();
    for (id, node) in nodes {
        let shown = id.escape_ascii();
        let MemberNode { zones, mut groups, mut new_owners } = node;
        let zone = match &zones[..] {
            // Properties of nothing.
            [] => continue,
            [zone] => zone.clone(),
            several => {
                let found = format!("{} PTR records at '{shown}.zones'", several.len());
                return wrong(found, "one for each member");
            }
        };
        if new_owners.len() > 1 {
            let found = format!("{} PTR records at 'coo.{shown}.zones'", new_owners.len());
            return wrong(found, "one new owner for each member");
        }
        if members.len() == most {
            return wrong(format!("more than {most} members"), "as many as 'members_max' says");
        }
        groups.sort_unstable();
        members.push(CatalogMember { zone, id, groups, new_owner: new_owners.pop() });
    }
    Ok(members)
}

/// Makes a catalog of zones, each with its group if it has one. The id of a member is a digest of
/// its name, so that it stays the same. All records have a TTL of 0.
///
/// ```
/// use whered_dns::catalog;
/// let made = catalog::build(
///     &"catalog.example".parse()?,
///     7,
///     &[("example.net".parse()?, None), ("example.org".parse()?, Some("internal"))],
/// )?;
/// let members = catalog::members(&made, 100)?;
/// assert_eq!((made.serial(), members.len()), (7, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The catalog's name is so long that the names of its members have no room below it; a group of
/// more than 255 bytes.
pub fn build(
    origin: &Name,
    serial: u32,
    members: &[(Name, Option<&str>)],
) -> Result<Zone, CatalogError> {
    let mut records = vec![
        record(origin.clone(), RecordType::SOA, soa_data(serial)),
        record(origin.clone(), RecordType::NS, b"\x07invalid\0".to_vec()),
        record(below(&[b"version"], origin)?, RecordType::TXT, VERSION_DATA.to_vec()),
    ];
    for (member, group) in members {
        let id = member_id(member);
        let labels: [&[u8]; 2] = [&id, b"zones"];
        records.push(record(below(&labels, origin)?, RecordType::PTR, member.as_wire().to_vec()));
        if let Some(group) = group {
            let labels: [&[u8]; 3] = [b"group", &id, b"zones"];
            let data = [&[group.len().min(255) as u8], group.as_bytes()].concat();
            records.push(record(below(&labels, origin)?, RecordType::TXT, data));
        }
    }
    let made = Zone::from_records(origin, "the zones of the configuration", Dnssec::Serve, records);
    made.map_err(|error| CatalogError(format!("catalog {origin}: {error}")))
}

/// Whether the names of members have room below a catalog of this name.
#[must_use]
pub fn fits_members(origin: &Name) -> bool {
    below(&[b"group", &[b'0'; 2 * ID_SIZE], b"zones"], origin).is_ok()
}

/// The label of a member, in hexadecimal digits.
fn member_id(member: &Name) -> Vec<u8> {
    let lower = LowerName::of(member);
    let digest = ring::digest::digest(&ring::digest::SHA256, lower.as_wire());
    let digits = digest.as_ref().iter().take(ID_SIZE).map(|byte| format!("{byte:02x}"));
    digits.collect::<String>().into_bytes()
}

fn below(labels: &[&[u8]], origin: &Name) -> Result<Name, CatalogError> {
    let mut wire = Vec::new();
    for label in labels {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    }
    wire.extend_from_slice(origin.as_wire());
    Name::from_wire(&wire).map_err(|_| {
        CatalogError(format!(
            "catalog {origin}: found a name without room for its members below it"
        ))
    })
}

fn record(owner: Name, record_type: RecordType, data: Vec<u8>) -> ZoneRecord {
    ZoneRecord { owner, record_type, ttl_seconds: 0, data: data.into() }
}

fn soa_data(serial: u32) -> Vec<u8> {
    let mut data = b"\x07invalid\0\x07invalid\0".to_vec();
    for number in [serial, REFRESH_SECONDS, RETRY_SECONDS, EXPIRE_SECONDS, 0] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str, most: usize) -> Result<Vec<CatalogMember>, String> {
        let text = format!("$TTL 0\n@ SOA invalid. invalid. 1 1 1 9 0\n@ NS invalid.\n{lines}\n");
        let origin = "catalog.example".parse().expect("a name");
        let zone = Zone::from_master_file(&origin, text.as_bytes(), &mut |_| Err("no".into()));
        members(&zone.expect("a zone"), most).map_err(|error| error.to_string())
    }

    #[test]
    fn members_have_their_groups_and_new_owners_and_all_else_is_passed_over() {
        let found = read(
            "version TXT 2\nB.zones PTR Example.Net.\na.zones PTR example.org.\n\
             group.b.zones TXT two\ngroup.b.zones TXT one\ngroup.b.zones TXT several strings\n\
             coo.a.zones PTR other.example.\ngroup.c.zones TXT alone\nx.y.a.zones PTR no.example.\n\
             ext.a.zones TXT custom\nzones TXT here\na.zones TXT beside\nprimaries A 192.0.2.1",
            2,
        );
        let found = found.expect("a catalog");
        let zones: Vec<_> = found.iter().map(|member| member.zone.to_string()).collect();
        assert_eq!(zones, ["example.org.", "Example.Net."]);
        assert_eq!(found[0].new_owner, Some("other.example".parse().expect("a name")));
        assert_eq!((&*found[1].id, found[1].groups.len()), (&b"b"[..], 2));
        assert_eq!(found[1].groups, [b"one".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn a_catalog_without_members_is_one() {
        assert_eq!(read("version TXT 2", 9), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_catalog_is_refused_in_one_line() {
        let cases = [
            ("", "found no version; allowed: version 2 alone"),
            ("version TXT 1", "found the version '1'; allowed"),
            ("version TXT 2 2", "found the version"),
            ("version TXT 2\nversion TXT 3", "found 2 versions; allowed"),
            ("version A 192.0.2.2", "found no version"),
            (
                "version TXT 2\na.zones PTR b.\na.zones PTR c.",
                "found 2 PTR records at 'a.zones'; allowed: one for each member",
            ),
            (
                "version TXT 2\na.zones PTR b.\ncoo.a.zones PTR c.\ncoo.a.zones PTR d.",
                "found 2 PTR records at 'coo.a.zones'; allowed: one new owner",
            ),
            (
                "version TXT 2\na.zones PTR a.\nb.zones PTR b.\nc.zones PTR c.",
                "found more than 2 members; allowed: as many as 'members_max' says",
            ),
        ];
        for (lines, says) in cases {
            let line = read(lines, 2).expect_err(lines);
            assert!(line.contains(says) && !line.contains('\n'), "{line}");
            assert!(line.starts_with("catalog catalog.example.: "), "{line}");
        }
    }

    #[test]
    fn what_is_built_is_read_and_ids_stay() {
        let origin: Name = "catalog.example".parse().expect("a name");
        let group = "g".repeat(255);
        let zones: Vec<(Name, Option<&str>)> = (0..300)
            .map(|n| {
                (format!("Zone{n}.example").parse().expect("a name"), (n == 7).then_some(&*group))
            })
            .collect();
        let made = build(&origin, 5, &zones).expect("a zone");
        let found = members(&made, 300).expect("a catalog");
        assert_eq!(found.len(), 300);
        assert_eq!(found.iter().filter(|member| member.groups == [group.as_bytes()]).count(), 1);
        let lower = build(&origin, 6, &[("zone7.EXAMPLE".parse().expect("a name"), None)]);
        let lower = members(&lower.expect("a zone"), 1).expect("a catalog");
        let before = found.iter().find(|member| member.zone == lower[0].zone).expect("it is there");
        assert_eq!(before.id, lower[0].id);
    }

    #[test]
    fn a_name_without_room_for_members_makes_no_catalog() {
        let label = "a".repeat(63);
        let long: Name =
            format!("{label}.{label}.{label}.{}", "x".repeat(20)).parse().expect("a name");
        assert!(!fits_members(&long));
        assert!(build(&long, 1, &[("example.com".parse().expect("a name"), None)]).is_err());
        assert!(fits_members(&"catalog.example".parse().expect("a name")));
    }
}
