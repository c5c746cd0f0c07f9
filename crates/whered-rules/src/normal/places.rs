//! Classes of addresses: what the place predicates of a ruleset cannot tell apart.
//!
//! For: answering all predicates about one address by one lookup before the classifier.
//!
//! ```text
//! src.country = DE      ......xxxxxxxx..............
//! distance(src, ..)     ..........xxxxxxxx..........
//! class                 0     1   2   3   0             by which predicates are true
//! ```
//!
//! Invariants: two addresses of one class make the same predicates true; class 0 is where none is.
//! Classes are numbered so that those of one predicate are neighbours as far as may be: a country
//! is one range of classes, not as many as it has networks' operators, and a range is one box to
//! the classifier.
//! Concurrency: plain immutable data. Cost: a lookup in a compiled prefix set, 5 to 40 ns; making a
//! table sorts the ends of all ranges.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_ip::{Block, CompiledSet};

use crate::model::{Predicate, Side};
use crate::packet::Family;
use crate::packets::BATCH;
use crate::ranges::Ranges;

/// Knows databases and points: implemented by whoever has them.
pub trait Places {
    /// The addresses of one family of which the predicate is true (negation left out).
    ///
    /// # Errors
    ///
    /// What is wrong with the predicate, in words that name what is allowed: the message of a
    /// problem at the rule's line.
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String>;

    /// The same for many, in order: who has to walk over a database walks once.
    ///
    /// # Errors
    ///
    /// Each predicate's own, as [`resolve`](Places::resolve) gives it.
    fn resolve_all(
        &self,
        predicates: &[&Predicate],
        family: Family,
    ) -> Vec<Result<Ranges, String>> {
        predicates.iter().map(|predicate| self.resolve(predicate, family)).collect()
    }
}

/// Knows no place: every predicate is an error.
#[derive(Clone, Copy, Debug)]
pub struct NoPlaces;

impl Places for NoPlaces {
    fn resolve(&self, predicate: &Predicate, _family: Family) -> Result<Ranges, String> {
        Err(format!("found \"{predicate}\": there is no database to find places in"))
    }
}

/// The class of every address of one side.
#[derive(Clone, Debug)]
pub struct PlaceTable {
    /// The classes by address; none where all addresses are of class 0.
    classes: Option<Arc<CompiledSet>>,
    family: Family,
    /// The predicates, by number.
    predicates: HashMap<String, usize>,
    /// For each class, which predicates are true, the most telling first.
    truths: Vec<Vec<u32>>,
}

/// A part of the addresses, first and last, and its class.
type Part = (u128, u128, u32);

impl PlaceTable {
    /// Makes the table of the addresses of which each predicate is true.
    pub(super) fn build(predicates: Vec<(String, Ranges)>, family: Family) -> PlaceTable {
        let (parts, truths) = sweep(&predicates, family);
        let (parts, truths) = renumber(parts, truths, predicates.len());
        let block = |(first, last, class): Part| {
            let block = Block::from_ends(address(first, family), address(last, family));
            (block.expect("both ends are of one family, in order"), class)
        };
        let classes =
            (!parts.is_empty()).then(|| Arc::new(CompiledSet::build(parts.into_iter().map(block))));
        let names = predicates.into_iter().map(|(name, _)| name);
        let predicates = names.enumerate().map(|(number, name)| (name, number)).collect();
        PlaceTable { classes, family, predicates, truths }
    }

    /// The class of an address.
    #[inline]
    pub fn class(&self, address: u128) -> u32 {
        self.classes.as_ref().map_or(0, |classes| self.class_in(classes, address))
    }

    fn class_in(&self, classes: &CompiledSet, address: u128) -> u32 {
        match self.family {
            Family::Ipv4 => classes.lookup4(address as u32),
            Family::Ipv6 => classes.lookup6(address),
        }
    }

    /// The classes of many addresses.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn classes(&self, addresses: &[u128], found: &mut [u32]) {
        assert_eq!(addresses.len(), found.len(), "a class for each address");
        let Some(classes) = &self.classes else { return found.fill(0) };
        if self.family == Family::Ipv6 {
            return classes.lookup6_batch(addresses, found);
        }
        let mut numbers = [0; BATCH];
        for (addresses, found) in addresses.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            let numbers = &mut numbers[..addresses.len()];
            for (number, address) in numbers.iter_mut().zip(addresses) {
                *number = *address as u32;
            }
            classes.lookup4_batch(numbers, found);
        }
    }

    /// Whether all addresses are of one class.
    pub fn is_empty(&self) -> bool {
        self.classes.is_none()
    }

    /// What the table takes.
    pub fn memory_bytes(&self) -> usize {
        self.classes.as_ref().map_or(0, |classes| classes.memory_bytes())
    }

    /// How many classes there are, at least one.
    pub fn class_count(&self) -> usize {
        self.truths.len()
    }

    /// Whether the classes tell where a predicate, by its text, is true.
    pub(super) fn knows(&self, predicate: &str) -> bool {
        self.predicates.contains_key(predicate)
    }

    /// The classes where a predicate, by its text, is true.
    pub(super) fn classes_of(&self, predicate: &str) -> Ranges {
        let Some(&number) = self.predicates.get(predicate) else { return Ranges::empty() };
        let holds = |truth: &[u32]| truth.contains(&(number as u32));
        let classes = self.truths.iter().zip(0u128..).filter(|(truth, _)| holds(truth));
        Ranges::new(classes.map(|(_, class)| (class, class)).collect())
    }
}

fn address(number: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

/// The parts in which some predicate is true, and which are true in each class, as found on the
/// way from the lowest address up.
fn sweep(predicates: &[(String, Ranges)], family: Family) -> (Vec<Part>, Vec<Vec<u32>>) {
    // Where a predicate starts or ceases to be true.
    let mut flips: Vec<(u128, u32)> = Vec::new();
    for ((_, ranges), number) in predicates.iter().zip(0..) {
        for &(first, last) in ranges.as_slice() {
            flips.push((first, number));
            flips.extend(last.checked_add(1).map(|next| (next, number)));
        }
    }
    flips.sort_unstable();
    let mut truths: Vec<Vec<u32>> = vec![Vec::new()];
    let mut known: HashMap<Vec<u32>, u32> = HashMap::from([(Vec::new(), 0)]);
    // Few are true at once: a sorted list of them.
    let mut now: Vec<u32> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut groups = flips.chunk_by(|a, b| a.0 == b.0).peekable();
    while let Some(group) = groups.next() {
        for &(_, number) in group {
            match now.binary_search(&number) {
                Ok(place) => drop(now.remove(place)),
                Err(place) => now.insert(place, number),
            }
        }
        let class = match known.get(&now) {
            Some(&class) => class,
            None => {
                let class = truths.len() as u32;
                truths.push(now.clone());
                known.insert(now.clone(), class);
                class
            }
        };
        let (first, next) = (group[0].0, groups.peek().map(|next| next[0].0));
        if class != 0 && first <= family.largest() {
            parts.push((first, next.map_or(family.largest(), |next| next - 1), class));
        }
    }
    (parts, truths)
}

/// Numbers classes anew: sorted by the predicates that are true there, those first that are true
/// in most classes.
fn renumber(
    mut parts: Vec<Part>,
    truths: Vec<Vec<u32>>,
    predicates: usize,
) -> (Vec<Part>, Vec<Vec<u32>>) {
    let mut counts = vec![0u32; predicates];
    for &number in truths.iter().flatten() {
        counts[number as usize] += 1;
    }
    let rank = |number: u32| (std::cmp::Reverse(counts[number as usize]), number);
    let mut order: Vec<(Vec<u32>, usize)> = truths.into_iter().zip(0..).collect();
    for (truth, _) in &mut order {
        truth.sort_by_key(|&number| rank(number));
    }
    // The class without any predicate stays the first one.
    order.sort_by_cached_key(|(truth, _)| {
        truth.iter().map(|&number| rank(number)).collect::<Vec<_>>()
    });
    let mut numbers = vec![0; order.len()];
    for (new, (_, old)) in order.iter().enumerate() {
        numbers[*old] = new as u32;
    }
    for part in &mut parts {
        part.2 = numbers[part.2 as usize];
    }
    (parts, order.into_iter().map(|(truth, _)| truth).collect())
}

/// The number of a side in arrays of two.
pub(super) fn side_index(side: Side) -> usize {
    match side {
        Side::Source => 0,
        Side::Destination => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lists: &[&[(u128, u128)]], family: Family) -> PlaceTable {
        let named = |(number, list): (usize, &&[(u128, u128)])| {
            (format!("p{number}"), Ranges::new(list.to_vec()))
        };
        PlaceTable::build(lists.iter().enumerate().map(named).collect(), family)
    }

    #[test]
    fn a_predicate_holds_in_its_classes_and_in_no_other() {
        let most = u128::from(u32::MAX);
        let lists: [&[(u128, u128)]; 4] =
            [&[(10, 19), (40, 59)], &[(15, 44)], &[(0, most)], &[(most, most)]];
        for lists in [&lists[..2], &lists[..], &lists[3..], &[]] {
            let table = table(lists, Family::Ipv4);
            assert_eq!(table.is_empty(), lists.is_empty());
            let asked: Vec<u128> = (0..130).chain([most - 1, most]).collect();
            let mut found = vec![9; asked.len()];
            table.classes(&asked, &mut found);
            for (&address, &class) in asked.iter().zip(&found) {
                assert_eq!(table.class(address), class);
                for (number, list) in lists.iter().enumerate() {
                    let holds = list.iter().any(|range| (range.0..=range.1).contains(&address));
                    let classes = table.classes_of(&format!("p{number}"));
                    assert_eq!(classes.contains(class.into()), holds, "{address} p{number}");
                }
            }
        }
    }

    #[test]
    fn countries_with_many_operators_are_one_range_of_classes() {
        // Five countries by turns, and operators across them.
        let country = |which: u128| -> Vec<(u128, u128)> {
            (0..40).map(|turn| (turn * 50 + which * 10, turn * 50 + which * 10 + 9)).collect()
        };
        let operator = |which: u128| -> Vec<(u128, u128)> {
            (0..90).map(|turn| (turn * 22 + which * 3, turn * 22 + which * 3 + 2)).collect()
        };
        let lists: Vec<_> = (0..5).map(country).chain((0..6).map(operator)).collect();
        let lists: Vec<&[(u128, u128)]> = lists.iter().map(Vec::as_slice).collect();
        for family in Family::BOTH {
            let table = table(&lists, family);
            assert!(table.class_count() > 20, "{}", table.class_count());
            for number in 0..5 {
                assert_eq!(table.classes_of(&format!("p{number}")).as_slice().len(), 1);
            }
            assert_eq!(table.class(u128::from(u32::MAX)), 0);
        }
    }
}
