//! Drawing rules of a shape.
//!
//! Not for: counting what came out (`proportions.rs`). The proportions are those of the published
//! parameter files acl1, fw1 and ipc1, rounded; the flags of TCP are left out.

use super::{FiveTuple, addresses};
use crate::Random;
use std::collections::HashSet;

/// What a ruleset is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Access lists: specific addresses, exact destination ports.
    Acl,
    /// Firewalls: half of the rules are wild in one address, many port ranges.
    Fw,
    /// Chains of a Linux host: between the two.
    Ipc,
}

impl Shape {
    /// Its name in ClassBench.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Acl => "acl",
            Shape::Fw => "fw",
            Shape::Ipc => "ipc",
        }
    }

    /// Its proportions.
    fn parameters(self) -> Parameters {
        match self {
            Shape::Acl => Parameters {
                wild: [2, 6, 0],
                lengths: &[
                    (32, 52),
                    (31, 20),
                    (30, 5),
                    (29, 2),
                    (27, 2),
                    (24, 6),
                    (23, 6),
                    (22, 3),
                    (16, 2),
                ],
                nested: [30, 50],
                distinct: [95, 9],
                source_ports: [1000, 0, 0, 0],
                destination_ports: [290, 670, 20, 20],
                protocols: &[(Some(6), 87), (None, 9), (Some(1), 3), (Some(17), 1)],
            },
            Shape::Fw => Parameters {
                wild: [407, 177, 6],
                lengths: &[
                    (32, 38),
                    (31, 25),
                    (30, 8),
                    (29, 4),
                    (28, 3),
                    (24, 4),
                    (16, 2),
                    (2, 3),
                    (1, 13),
                ],
                nested: [40, 40],
                distinct: [36, 71],
                source_ports: [772, 130, 80, 18],
                destination_ports: [292, 560, 83, 65],
                protocols: &[(Some(6), 57), (Some(17), 32), (Some(47), 6), (Some(1), 4), (None, 1)],
            },
            Shape::Ipc => Parameters {
                wild: [77, 56, 1],
                lengths: &[
                    (32, 33),
                    (31, 12),
                    (30, 5),
                    (28, 4),
                    (26, 6),
                    (25, 7),
                    (24, 15),
                    (23, 14),
                    (16, 4),
                ],
                nested: [45, 45],
                distinct: [23, 34],
                source_ports: [812, 120, 40, 28],
                destination_ports: [553, 340, 60, 47],
                protocols: &[
                    (Some(17), 38),
                    (None, 33),
                    (Some(6), 27),
                    (Some(1), 1),
                    (Some(47), 1),
                ],
            },
        }
    }
}

/// The numbers behind a shape.
struct Parameters {
    /// Of a thousand rules: wild in the source only, in the destination only, in both.
    wild: [u64; 3],
    /// Lengths of prefixes that are not wild, with weights.
    lengths: &'static [(u8, u64)],
    /// Of a hundred prefixes: within another one of the pool; source and destination.
    nested: [u64; 2],
    /// Distinct prefixes for each hundred rules; source and destination.
    distinct: [u64; 2],
    /// Of a thousand: wild, one common port, the upper range, an arbitrary range.
    source_ports: [u64; 4],
    destination_ports: [u64; 4],
    protocols: &'static [(Option<u8>, u64)],
}

/// Ports that rules name, commonest first.
const PORTS: [u16; 40] = [
    80, 22, 25, 53, 443, 1521, 161, 69, 514, 123, 1433, 21, 3306, 1526, 1221, 110, 143, 23, 389,
    445, 139, 137, 8080, 5632, 993, 995, 1707, 2000, 5190, 1494, 6000, 3389, 1755, 554, 7070, 1080,
    636, 873, 5060, 11_001,
];

/// `count` rules of a shape, all different.
#[must_use]
pub fn generate(shape: Shape, count: usize, seed: u64) -> Vec<FiveTuple> {
    let parameters = shape.parameters();
    let mut random = Random::of(seed, shape as u64 + 60, count as u64);
    let mut pool = |side: usize| {
        let size = (count as u64 * parameters.distinct[side]).div_ceil(100).max(8);
        prefixes(&mut random, &parameters, size as usize, parameters.nested[side])
    };
    let (sources, destinations) = (pool(0), pool(1));
    let mut rules = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    while rules.len() < count {
        let rule = draw(&mut random, &parameters, &sources, &destinations);
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    // More specific rules first, as people write them, with some disorder.
    rules.sort_by_cached_key(|rule| {
        let length = u64::from(rule.source_length) + u64::from(rule.destination_length);
        (64 - length) * 8 + random.below(160)
    });
    rules
}

/// One rule.
fn draw(
    random: &mut Random,
    parameters: &Parameters,
    sources: &[(u32, u8)],
    destinations: &[(u32, u8)],
) -> FiveTuple {
    let [source_only, destination_only, both] = parameters.wild;
    let wild = random.below(1000);
    let wild_source = wild < source_only + both;
    let wild_destination =
        wild < both || (source_only + both..source_only + both + destination_only).contains(&wild);
    let mut pick = |pool: &[(u32, u8)], wild: bool| {
        if wild { (0, 0) } else { pool[skewed(random, pool.len())] }
    };
    let (source, source_length) = pick(sources, wild_source);
    let (destination, destination_length) = pick(destinations, wild_destination);
    let protocol = weighted(random, parameters.protocols);
    let has_ports = matches!(protocol, Some(6 | 17));
    let mut ports = |kinds: &[u64; 4]| if has_ports { ports(random, kinds) } else { (0, u16::MAX) };
    FiveTuple {
        source,
        source_length,
        destination,
        destination_length,
        source_ports: ports(&parameters.source_ports),
        destination_ports: ports(&parameters.destination_ports),
        protocol,
    }
}

/// Networks, and prefixes within them.
fn prefixes(
    random: &mut Random,
    parameters: &Parameters,
    count: usize,
    nested: u64,
) -> Vec<(u32, u8)> {
    let mut pool: Vec<(u32, u8)> = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    // Organisations own some networks of 16 bits; most prefixes are in one of them.
    let networks: Vec<u32> = (0..8 + count / 64).map(|_| random.next_u64() as u32).collect();
    let mut tries = 0;
    while pool.len() < count {
        tries += 1;
        let length = weighted(random, parameters.lengths);
        let host = random.next_u64() as u32;
        let within = !pool.is_empty() && random.below(100) < nested;
        let address = if within {
            let (network, outer) = pool[random.below(pool.len() as u64) as usize];
            let low = addresses(0, outer).1;
            // Neighbours rather than strangers, where the outer one is long itself.
            network | host & (low | 0xff)
        } else {
            networks[skewed(random, networks.len())] & 0xffff_0000 | host & 0xffff
        };
        let prefix = (addresses(address, length).0, length);
        if seen.insert(prefix) || tries > count * 50 {
            pool.push(prefix);
        }
    }
    pool
}

/// A range of ports.
fn ports(random: &mut Random, kinds: &[u64; 4]) -> (u16, u16) {
    let kind = random.below(1000);
    if kind < kinds[0] {
        return (0, u16::MAX);
    }
    if kind < kinds[0] + kinds[1] {
        let port = PORTS[skewed(random, PORTS.len())];
        return (port, port);
    }
    if kind < kinds[0] + kinds[1] + kinds[2] {
        return (1024, u16::MAX);
    }
    let low = random.below(60_000) as u16;
    (low, low + 1 + random.below(2000) as u16)
}

/// A place below `count`, early ones more often: the square of a fraction.
fn skewed(random: &mut Random, count: usize) -> usize {
    let fraction = random.below(1 << 20) as f64 / f64::from(1u32 << 20);
    ((fraction * fraction.sqrt()) * count as f64) as usize
}

/// One of some values by weight.
fn weighted<T: Copy>(random: &mut Random, values: &[(T, u64)]) -> T {
    let total: u64 = values.iter().map(|value| value.1).sum();
    let mut at = random.below(total);
    for &(value, weight) in values {
        if at < weight {
            return value;
        }
        at -= weight;
    }
    values[0].0
}
