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

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_ip::{Block, CompiledSet};

use crate::model::{Predicate, Side};
use crate::packet::Family;
use crate::packets::BATCH;
use crate::ranges::Ranges;

/// How many ranges of addresses may stand for the places of each range that a rule names, and how
/// many parts are looked at for them.
const FOLDED_RANGES: usize = 4;
const FOLDING_STEPS: usize = 4096;

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
    /// The same in the order of addresses, until it is known who asks.
    parts: Vec<Part>,
    family: Family,
    /// The predicates, by number.
    predicates: HashMap<String, usize>,
    /// For each class, which predicates are true, the most telling first.
    truths: Vec<Vec<u32>>,
}

/// A part of the addresses, first and last, and its class.
type Part = (u128, u128, u32);

impl PlaceTable {
    /// The table of the addresses of which each predicate is true, yet to be
    /// [finished](PlaceTable::finish).
    pub(super) fn build(predicates: Vec<(String, Ranges)>, family: Family) -> PlaceTable {
        let (parts, truths) = sweep(&predicates, family);
        let (parts, truths) = renumber(parts, truths, predicates.len());
        let names = predicates.into_iter().map(|(name, _)| name);
        let predicates = names.enumerate().map(|(number, name)| (name, number)).collect();
        PlaceTable { classes: None, parts, family, predicates, truths }
    }

    /// Makes ready for lookups that tell apart what these conditions do; gives what becomes of each
    /// condition. Classes that none of them tells apart become one, and predicates that ask for a
    /// part of such a class are not known any more.
    pub(super) fn finish<'r>(
        &mut self,
        asked: &HashSet<&'r Ranges>,
    ) -> HashMap<&'r Ranges, Ranges> {
        let numbers = self.told_apart_by(asked);
        let renumbered = |condition: &Ranges| {
            let classes = numbers.iter().zip(0..).filter(|(_, old)| condition.contains(*old));
            Ranges::new(classes.map(|(&new, _)| (new.into(), new.into())).collect())
        };
        let conditions = asked.iter().map(|condition| (*condition, renumbered(condition)));
        let conditions = conditions.collect();
        self.merge(&numbers);
        let block = |(first, last, class): Part| {
            let ends = (address(first, self.family), address(last, self.family));
            let block = Block::from_ends(ends.0, ends.1);
            (block.expect("both ends are of one family, in order"), class)
        };
        let parts = std::mem::take(&mut self.parts);
        self.classes =
            (!parts.is_empty()).then(|| Arc::new(CompiledSet::build(parts.into_iter().map(block))));
        conditions
    }

    /// The new number of each class, in the same order.
    fn told_apart_by(&self, asked: &HashSet<&Ranges>) -> Vec<u32> {
        let mut conditions_of: Vec<Vec<u32>> = vec![Vec::new(); self.class_count()];
        for (condition, number) in asked.iter().zip(0..) {
            for &(first, last) in condition.as_slice() {
                let classes = &mut conditions_of[first as usize..=last as usize];
                classes.iter_mut().for_each(|conditions| conditions.push(number));
            }
        }
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let number = |conditions| {
            let next = known.len() as u32;
            *known.entry(conditions).or_insert(next)
        };
        conditions_of.into_iter().map(number).collect()
    }

    /// Gives every class its new number.
    fn merge(&mut self, numbers: &[u32]) {
        let count = numbers.iter().max().map_or(1, |most| *most as usize + 1);
        let mut truths: Vec<Option<Vec<u32>>> = vec![None; count];
        let mut torn = HashSet::new();
        for (&number, truth) in numbers.iter().zip(&self.truths) {
            match &truths[number as usize] {
                None => truths[number as usize] = Some(truth.clone()),
                Some(other) => {
                    let only = |a: &[u32], b: &[u32]| -> Vec<u32> {
                        a.iter().filter(|one| !b.contains(one)).copied().collect()
                    };
                    torn.extend(only(truth, other).into_iter().chain(only(other, truth)));
                }
            }
        }
        self.predicates.retain(|_, number| !torn.contains(&(*number as u32)));
        self.truths = truths.into_iter().flatten().collect();
        for part in &mut self.parts {
            part.2 = numbers[part.2 as usize];
        }
        self.parts.retain(|part| part.2 != 0);
    }

    /// The addresses of `within` that are of these classes; `None` where those are many ranges, or
    /// not to be found soon. Before [`finish`](PlaceTable::finish).
    pub(super) fn addresses(&self, within: &Ranges, classes: &Ranges) -> Option<Ranges> {
        let (mut found, mut steps) = (Vec::new(), FOLDING_STEPS);
        // What lies between the parts is of class 0: then those are looked for that are not meant.
        let is_inverted = classes.contains(0);
        for &(first, last) in within.as_slice() {
            let start = self.parts.partition_point(|part| part.1 < first);
            for part in self.parts[start..].iter().take_while(|part| part.0 <= last) {
                steps = usize::checked_sub(steps, 1)?;
                if classes.contains(part.2.into()) != is_inverted {
                    found.push((part.0.max(first), part.1.min(last)));
                }
            }
        }
        let mut found = Ranges::new(found);
        if is_inverted {
            found = within.intersect(&found.complement(self.family.largest()));
        }
        let few = within.as_slice().len() * FOLDED_RANGES;
        (found.as_slice().len() <= few).then_some(found)
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

    /// The largest number of a class.
    pub(super) fn largest_class(&self) -> u32 {
        (self.truths.len() - 1) as u32
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
        let mut table = PlaceTable::build(lists.iter().enumerate().map(named).collect(), family);
        finish(&mut table);
        table
    }

    /// Keeps all classes apart.
    fn finish(table: &mut PlaceTable) {
        let classes: Vec<Ranges> =
            (0..table.class_count() as u128).map(|class| Ranges::single(class, class)).collect();
        let same = table.finish(&classes.iter().collect());
        assert!(same.iter().all(|(before, after)| *before == after));
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
    fn addresses_of_classes_are_those_that_a_lookup_finds() {
        // Three addresses of every ten, to the end of both families' addresses; and a few of them.
        for largest in Family::BOTH.map(Family::largest) {
            let family = if largest == u32::MAX.into() { Family::Ipv4 } else { Family::Ipv6 };
            let base = largest - 999;
            let tens = |from: u128| -> Vec<(u128, u128)> {
                (0..100).map(|n| (base + n * 10 + from, base + n * 10 + from + 2)).collect()
            };
            let lists = [tens(0), tens(2), tens(7)].map(Ranges::new);
            let named = lists.iter().zip(["a", "b", "c"]);
            let mut table = PlaceTable::build(
                named.map(|(list, name)| (name.to_owned(), list.clone())).collect(),
                family,
            );
            let mut answers = Vec::new();
            for (first, last) in [(0, 5), (3, 3), (28, 31), (995, 999), (500, 999), (7, 30)] {
                for number in 0..16u32 {
                    let bits = (0..4u128).filter(|bit| number >> bit & 1 == 1);
                    let classes = Ranges::new(bits.map(|class| (class, class)).collect());
                    let within = Ranges::single(base + first, base + last);
                    answers.push((
                        within.clone(),
                        classes.clone(),
                        table.addresses(&within, &classes),
                    ));
                }
            }
            finish(&mut table);
            let told = answers.iter().filter(|answer| answer.2.is_some()).count();
            assert!(told > 60 && told < answers.len(), "{told} of {}", answers.len());
            for (within, classes, found) in &answers {
                let Some(found) = found else { continue };
                for address in base..=largest {
                    let is_meant =
                        within.contains(address) && classes.contains(table.class(address).into());
                    assert_eq!(
                        found.contains(address),
                        is_meant,
                        "{address} {within:?} {classes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn classes_that_nobody_tells_apart_become_one() {
        let named = |(name, first, last): (&str, u128, u128)| {
            (name.to_owned(), Ranges::single(first, last))
        };
        let lists = [("a", 10, 29), ("b", 20, 39), ("c", 50, 59), ("d", 55, 56)];
        let mut table = PlaceTable::build(lists.map(named).to_vec(), Family::Ipv4);
        assert_eq!(table.class_count(), 6);
        let both = table.classes_of("a").intersect(&table.classes_of("b"));
        let asked = [table.classes_of("c"), both];
        let renumbered = table.finish(&asked.iter().collect());
        assert_eq!(table.class_count(), 3);
        for address in 0..100 {
            let class = table.class(address).into();
            assert_eq!(renumbered[&asked[0]].contains(class), (50..60).contains(&address));
            assert_eq!(renumbered[&asked[1]].contains(class), (20..30).contains(&address));
        }
        // Of the others nobody could say where they hold.
        assert_eq!(["a", "b", "c", "d"].map(|name| table.knows(name)), [false, false, true, false]);
        assert_eq!(table.classes_of("c"), renumbered[&asked[0]]);
        table.finish(&HashSet::new());
        assert!(table.is_empty() && !table.knows("c"));
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
