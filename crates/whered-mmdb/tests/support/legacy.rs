//! Makes legacy files of every edition: the crate itself only reads them.

use super::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_ip::Prefix;
use whered_mmdb::LegacyEdition;

/// What a network of a legacy file leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Record {
    /// The number itself says it: a country, a region, a speed.
    Number(u32),
    /// Bytes behind the tree.
    Bytes(Vec<u8>),
}

/// The editions that are read, and how a record number of each is to be understood.
pub const EDITIONS: [LegacyEdition; 19] = [
    LegacyEdition::Country,
    LegacyEdition::CountryV6,
    LegacyEdition::RegionRev0,
    LegacyEdition::RegionRev1,
    LegacyEdition::CityRev0,
    LegacyEdition::CityRev1,
    LegacyEdition::CityRev0V6,
    LegacyEdition::CityRev1V6,
    LegacyEdition::AutonomousSystem,
    LegacyEdition::AutonomousSystemV6,
    LegacyEdition::Isp,
    LegacyEdition::IspV6,
    LegacyEdition::Organization,
    LegacyEdition::OrganizationV6,
    LegacyEdition::Domain,
    LegacyEdition::DomainV6,
    LegacyEdition::NetSpeed,
    LegacyEdition::NetSpeedRev1,
    LegacyEdition::NetSpeedRev1V6,
];

pub fn is_ipv6(edition: LegacyEdition) -> bool {
    edition.name().contains("V6")
}

fn is_wide(edition: LegacyEdition) -> bool {
    ["ISP", "Organization", "Domain"].iter().any(|word| edition.name().contains(word))
}

/// Where the record numbers of an edition begin; `None`: at its number of nodes.
fn base(edition: LegacyEdition) -> Option<u32> {
    match edition {
        LegacyEdition::RegionRev0 => Some(16_700_000),
        LegacyEdition::RegionRev1 => Some(16_000_000),
        LegacyEdition::Country | LegacyEdition::CountryV6 | LegacyEdition::NetSpeed => {
            Some(16_776_960)
        }
        _ => None,
    }
}

/// What a place of the tree holds; `Leaf(0)` is nothing.
#[derive(Clone, Copy)]
enum Slot {
    Node(usize),
    Leaf(u32),
}

/// A legacy country file with these countries; later prefixes overwrite earlier ones.
pub fn write(is_ipv6: bool, prefixes: &[(Prefix, u8)], info: &str) -> Vec<u8> {
    let edition = if is_ipv6 { LegacyEdition::CountryV6 } else { LegacyEdition::Country };
    let records: Vec<_> = prefixes
        .iter()
        .map(|&(prefix, country)| (prefix, Record::Number(u32::from(country))))
        .collect();
    write_edition(edition, &records, info)
}

/// A legacy file; later prefixes overwrite earlier ones.
pub fn write_edition(edition: LegacyEdition, records: &[(Prefix, Record)], info: &str) -> Vec<u8> {
    let mut nodes = vec![[Slot::Leaf(0); 2]];
    // Offset 0 means that there is no record, so that a byte stands in its place.
    let mut data = vec![0];
    for (prefix, record) in records {
        let leaf = match record {
            Record::Number(number) => *number,
            Record::Bytes(bytes) => {
                let offset = u32::try_from(data.len()).expect("small files");
                data.extend(bytes);
                offset
            }
        };
        insert(&mut nodes, is_ipv6(edition), *prefix, leaf);
    }
    let node_count = u32::try_from(nodes.len()).expect("small files");
    let start = base(edition).unwrap_or(node_count);
    let width = if is_wide(edition) { 4 } else { 3 };
    let mut bytes = Vec::new();
    for slot in nodes.iter().flatten() {
        let number = match *slot {
            Slot::Node(node) => u32::try_from(node).expect("small files"),
            Slot::Leaf(leaf) => start + leaf,
        };
        bytes.extend(&number.to_le_bytes()[..width]);
    }
    if base(edition).is_none() {
        bytes.extend(data);
    }
    bytes.extend([0; 3]);
    bytes.extend(info.as_bytes());
    // Old editions were numbered from 106 on.
    let number = edition.number() + if edition == LegacyEdition::Country { 105 } else { 0 };
    bytes.extend([0xff, 0xff, 0xff, number]);
    if base(edition).is_none() {
        bytes.extend(&node_count.to_le_bytes()[..3]);
    }
    bytes
}

fn insert(nodes: &mut Vec<[Slot; 2]>, is_ipv6: bool, prefix: Prefix, leaf: u32) {
    let (bits, length) = match prefix.address() {
        IpAddr::V4(address) if is_ipv6 => {
            (u128::from(address.to_bits()), 96 + u32::from(prefix.length_bits()))
        }
        IpAddr::V4(address) => {
            (u128::from(address.to_bits()) << 96, u32::from(prefix.length_bits()))
        }
        IpAddr::V6(address) => (address.to_bits(), u32::from(prefix.length_bits())),
    };
    assert!(length > 0, "a legacy tree has at least its root");
    let mut node = 0;
    for position in 0..length {
        let side = (bits >> (127 - position) & 1) as usize;
        if position + 1 == length {
            nodes[node][side] = Slot::Leaf(leaf);
            return;
        }
        node = match nodes[node][side] {
            Slot::Node(next) => next,
            inherited @ Slot::Leaf(_) => {
                let next = nodes.len();
                nodes[node][side] = Slot::Node(next);
                nodes.push([inherited; 2]);
                next
            }
        };
    }
}

/// Random networks and records of an edition.
pub fn random_records(
    edition: LegacyEdition,
    count: usize,
    random: &mut Random,
) -> Vec<(Prefix, Record)> {
    (0..count).map(|_| (random_prefix(edition, random), random_record(edition, random))).collect()
}

fn random_prefix(edition: LegacyEdition, random: &mut Random) -> Prefix {
    // Few first octets, so that networks lie inside each other.
    let (address, length) = if is_ipv6(edition) && random.below(4) > 0 {
        let high = 0x2001_0db8 << 32 | u64::from(random.next_u64() as u32) & 0xff00_ffff;
        let bits = u128::from(high) << 64 | u128::from(random.next_u64());
        (IpAddr::V6(Ipv6Addr::from_bits(bits)), 33 + random.below(96) as u8)
    } else {
        let bits = (8 + random.below(5) as u32) << 24 | random.next_u64() as u32 & 0x00ff_ffff;
        (IpAddr::V4(Ipv4Addr::from_bits(bits)), 7 + random.below(26) as u8)
    };
    Prefix::new(address, length).expect("a length that fits")
}

fn random_record(edition: LegacyEdition, random: &mut Random) -> Record {
    match edition {
        LegacyEdition::Country | LegacyEdition::CountryV6 => {
            Record::Number(1 + random.below(255) as u32)
        }
        LegacyEdition::NetSpeed => Record::Number(1 + random.below(3) as u32),
        LegacyEdition::RegionRev0 if random.below(2) == 0 => {
            Record::Number(1 + random.below(255) as u32)
        }
        LegacyEdition::RegionRev0 => Record::Number(1000 + random.below(676) as u32),
        // Country number 0 means nothing: its numbers are not used.
        LegacyEdition::RegionRev1 if random.below(2) == 0 => {
            Record::Number(1353 + 360 + random.below(255 * 360) as u32)
        }
        LegacyEdition::RegionRev1 => Record::Number(1 + random.below(1352) as u32),
        LegacyEdition::CityRev0 | LegacyEdition::CityRev0V6 => city(false, random),
        LegacyEdition::CityRev1 | LegacyEdition::CityRev1V6 => city(true, random),
        LegacyEdition::AutonomousSystem | LegacyEdition::AutonomousSystemV6 => {
            let mut bytes = format!("AS{} ", random.below(1 << 32)).into_bytes();
            bytes.extend(text(1 + random.below(20), random));
            bytes.push(0);
            Record::Bytes(bytes)
        }
        _ => {
            let mut bytes = text(1 + random.below(40), random);
            bytes.push(0);
            Record::Bytes(bytes)
        }
    }
}

/// Text in ISO 8859-1, some of it ASCII only.
fn text(length: u64, random: &mut Random) -> Vec<u8> {
    let is_ascii = random.below(2) == 0;
    let byte = |random: &mut Random| match random.below(4) {
        0 if !is_ascii => 0xa1 + random.below(0x5f) as u8,
        _ => b'!' + random.below(0x5e) as u8,
    };
    (0..length).map(|_| byte(random)).collect()
}

fn city(has_metro_code: bool, random: &mut Random) -> Record {
    let country = if random.below(3) == 0 { 225 } else { random.below(256) as u8 };
    let mut bytes = vec![country];
    // libGeoIP turns only the city into UTF-8: the others are ASCII in all files.
    for (length_max, is_ascii) in [(3, true), (20, false), (8, true)] {
        let length = random.below(length_max);
        let text = text(length, random);
        bytes.extend(text.iter().map(|byte| if is_ascii { byte & 0x7f | 0x40 } else { *byte }));
        bytes.push(0);
    }
    for _ in 0..2 {
        bytes.extend(&(random.below(3_600_001) as u32).to_le_bytes()[..3]);
    }
    if has_metro_code && country == 225 {
        bytes.extend(&(random.below(999_999) as u32).to_le_bytes()[..3]);
    }
    Record::Bytes(bytes)
}
