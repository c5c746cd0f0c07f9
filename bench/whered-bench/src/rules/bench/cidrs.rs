//! Sets of addresses: the compiled set beside the tree of 2007, and whatever rivals there are.
//!
//! Not for: longest match with answers and IPv6, which `bench-sets` measures.

use super::rounds::{Engine, Table, divided, run};
use super::tree::{Expression, Tree};
use super::{Options, Rivals};
use crate::Random;
use crate::measure::weighed;
use crate::sets::{self, Prefix4, masked4};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use whered_ip::{Block, CompiledSet, Prefix};

/// How many addresses are held against a scan.
const SCANNED: usize = 200;

/// Random prefixes and uniformly random addresses: the question of 2007.
pub(super) fn random(
    options: &Options,
    rivals: &dyn Rivals,
    count: usize,
) -> Result<Table, String> {
    let prefixes = sets::cidrs(count, options.seed);
    let addresses = sets::uniform(options.addresses, options.seed + 1);
    measure(options, rivals, &prefixes, &addresses)
}

/// As many prefixes as the global table has, of its lengths; a tenth of the addresses, since the
/// trees take long.
pub(super) fn full_table(options: &Options, rivals: &dyn Rivals) -> Result<Table, String> {
    let prefixes = sets::full_table(1_000_000, options.seed);
    let addresses = sets::uniform(options.addresses / 10 + 1, options.seed + 1);
    measure(options, rivals, &prefixes, &addresses)
}

/// A list of half a million; half of the addresses, a tenth as many, are members.
pub(super) fn blocklist(options: &Options, rivals: &dyn Rivals) -> Result<Table, String> {
    let prefixes = sets::blocklist(500_000, options.seed);
    let addresses = sets::members4(&prefixes, 0.5, options.addresses / 10 + 1, options.seed + 1);
    measure(options, rivals, &prefixes, &addresses)
}

fn measure(
    options: &Options,
    rivals: &dyn Rivals,
    prefixes: &[Prefix4],
    addresses: &[u32],
) -> Result<Table, String> {
    let set = CompiledSet::members(prefixes.iter().map(block));
    for &address in &addresses[..SCANNED.min(addresses.len())] {
        let holds = prefixes.iter().any(|(net, length)| masked4(address, *length) == *net);
        if (set.lookup4(address) == 1) != holds {
            return Err(format!("{}: the set and a scan differ", Ipv4Addr::from_bits(address)));
        }
    }
    let shuffled = shuffled(prefixes);
    let tree = Tree::of(&shuffled);
    let bytes = set.memory_bytes();
    let mut engines = vec![
        Engine::new("whered batch", bytes, |part| sets::batches4(&set, &addresses[part])),
        Engine::new("whered single", bytes, |part| sets::singly4(&set, &addresses[part])),
    ];
    engines.extend(Expression::ALL.map(|expression| tree_engine(&tree, expression, addresses)));
    engines.extend(rivals.of_prefixes(&shuffled, addresses)?);
    let rows = run(&mut engines, &divided(addresses.len(), options.rounds))?;
    let note = set.explain().lines().next().unwrap_or_default().to_owned();
    Ok(Table { note, entries: prefixes.len(), rows, ..Table::default() })
}

fn tree_engine<'a>(tree: &'a Tree, expression: Expression, addresses: &'a [u32]) -> Engine<'a> {
    let name = format!("tree in Rust, {}", expression.name());
    // One loop for each expression, so that the choice is made outside of it.
    fn all(addresses: &[u32], holds: impl Fn(u32) -> bool) -> u64 {
        let each = addresses.iter().enumerate();
        each.fold(0, |sum, (place, address)| weighed(sum, place, u32::from(holds(*address))))
    }
    Engine::new(name, tree.memory_bytes(), move |part: Range<usize>| {
        let addresses = &addresses[part];
        match expression {
            Expression::Mask => all(addresses, |address| tree.contains(Expression::Mask, address)),
            Expression::Index => {
                all(addresses, |address| tree.contains(Expression::Index, address))
            }
            Expression::Sign => all(addresses, |address| tree.contains(Expression::Sign, address)),
        }
    })
}

/// In no order, as a list of rules is: sorted ones would lie side by side in a tree's memory.
fn shuffled(prefixes: &[Prefix4]) -> Vec<Prefix4> {
    let mut prefixes = prefixes.to_vec();
    let mut random = Random::new(7);
    for place in (1..prefixes.len()).rev() {
        prefixes.swap(place, random.below(place as u64 + 1) as usize);
    }
    prefixes
}

fn block((address, length_bits): &Prefix4) -> Block {
    let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(*address)), *length_bits);
    prefix.expect("generated lengths are those of the family").into()
}
