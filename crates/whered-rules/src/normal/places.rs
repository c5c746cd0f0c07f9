//! Places of addresses: what the place predicates of a ruleset cannot tell apart.
//!
//! For: answering all predicates about one address by one lookup before the classifier. Not for:
//! the numbers that a place has (`axes`).
//!
//! ```text
//! src.country = DE      ......xxxxxxxx..............
//! distance(src, ..)     ..........xxxxxxxx..........
//! class                 0     1   2   3   0             by which predicates are true
//! place                 [0,0] [1,0]..                   class ──► two numbers, in a small table
//! ```
//!
//! Invariants: two addresses of one class make the same predicates true; class 0 is where none is,
//! and its place has zeros only. Once the rules are flattened, classes that no condition tells
//! apart are one. Concurrency: plain immutable data. Cost: a lookup in a compiled prefix set, 5 to
//! 40 ns; making a table sorts the ends of all ranges.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_ip::{Block, CompiledSet};

use super::axes::{self, Axis};
pub use super::axes::{AXES, Place};
use super::conjunction::Field;
use crate::model::{Predicate, Side};
use crate::packet::Family;
use crate::packets::BATCH;
use crate::ranges::Ranges;

/// How many ranges of addresses may stand for the places of each range that a rule names, and how
/// many parts are looked at for them.
const FOLDED_RANGES: usize = 4;
const FOLDING_STEPS: usize = 512;

/// Knows databases and points: implemented by their owner.
pub trait Places {
    /// The addresses of one family of which the predicate is true (negation left out).
    ///
    /// # Errors
    ///
    /// What is wrong with the predicate, in words that name what is allowed: the message of a
    /// problem at the rule's line.
    fn resolve(&self, predicate: &Predicate, family: Family) -> Result<Ranges, String>;

    /// Like [`resolve`](Places::resolve), for many in order, so that a database is walked once.
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

/// The place of every address of one side.
#[derive(Clone, Debug)]
pub struct PlaceTable {
    /// The classes by address; none where all addresses are of class 0.
    classes: Option<Arc<CompiledSet>>,
    /// The parts in the order of addresses, for predicates that come later.
    parts: Vec<Part>,
    family: Family,
    /// The place of each class; class 0 is nowhere.
    places: Vec<Place>,
    axes: [Axis; AXES],
    /// The predicates that can be told: the axis of each, and its number among all.
    predicates: HashMap<String, (u8, u32)>,
}

/// A part of the addresses, first and last, and its class.
type Part = (u128, u128, u32);

/// The fields of one side's places.
pub(super) fn fields(side: Side) -> [Field; AXES] {
    std::array::from_fn(|axis| Field::Place(side, axis as u8))
}

impl PlaceTable {
    /// The table of the addresses of which each predicate is true, yet to be
    /// [finished](PlaceTable::finish).
    pub(super) fn build(predicates: Vec<(String, Ranges)>, family: Family) -> PlaceTable {
        let (parts, truths) = sweep(&predicates, family);
        let (axis_of, axes, places) = axes::lay_out(&truths, predicates.len());
        let names = predicates.into_iter().map(|(name, _)| name);
        let predicates = names.zip(axis_of.into_iter().zip(0..)).collect();
        PlaceTable { classes: None, parts, family, places, axes, predicates }
    }

    /// Makes ready for lookups that tell apart what these conditions do, by their axes; gives what
    /// becomes of each condition. Predicates that ask for a part of what is not told apart are not
    /// known any more.
    pub(super) fn finish(
        &mut self,
        asked: &[HashSet<Ranges>; AXES],
    ) -> [HashMap<Ranges, Ranges>; AXES] {
        let mut torn = HashSet::new();
        let renumbered = std::array::from_fn(|axis| {
            let numbers = self.axes[axis].keep_apart(&asked[axis], &mut torn);
            for place in &mut self.places {
                place[axis] = numbers[place[axis] as usize];
            }
            let renumber = |condition: &Ranges| {
                let inside = numbers.iter().zip(0..).filter(|(_, old)| condition.contains(*old));
                Ranges::new(inside.map(|(&new, _)| (new.into(), new.into())).collect())
            };
            let conditions = asked[axis].iter();
            conditions.map(|condition| (condition.clone(), renumber(condition))).collect()
        });
        self.predicates.retain(|_, (_, number)| !torn.contains(number));
        self.merge_classes();
        let block = |(first, last, class): Part| {
            let ends = (address(first, self.family), address(last, self.family));
            let block = Block::from_ends(ends.0, ends.1);
            (block.expect("both ends are of one family, in order"), class)
        };
        let parts = std::mem::take(&mut self.parts);
        self.classes =
            (!parts.is_empty()).then(|| Arc::new(CompiledSet::build(parts.into_iter().map(block))));
        renumbered
    }

    /// Makes one class of those at the same place.
    fn merge_classes(&mut self) {
        let numbers = axes::numbered(self.places.iter().copied());
        let mut places = Vec::new();
        for (place, class) in self.places.iter().zip(&numbers) {
            if *class as usize == places.len() {
                places.push(*place);
            }
        }
        self.places = places;
        for part in &mut self.parts {
            part.2 = numbers[part.2 as usize];
        }
        self.parts.retain(|part| part.2 != 0);
    }

    /// The addresses of `within` whose places are among these numbers, `None` being all; `None`
    /// where those are many ranges, or not to be found soon. Before [`finish`](PlaceTable::finish).
    pub(super) fn addresses(
        &self,
        within: &Ranges,
        numbers: [Option<&Ranges>; AXES],
    ) -> Option<Ranges> {
        let is_meant = |class: u32| {
            let place = self.places[class as usize].into_iter().zip(numbers);
            place.fold(true, |all, (number, meant)| {
                all && meant.is_none_or(|meant| meant.contains(number.into()))
            })
        };
        let (mut found, mut steps) = (Vec::new(), FOLDING_STEPS);
        // What lies between the parts is of class 0: then those are looked for that are not meant.
        let is_inverted = is_meant(0);
        for &(first, last) in within.as_slice() {
            let start = self.parts.partition_point(|part| part.1 < first);
            for part in self.parts[start..].iter().take_while(|part| part.0 <= last) {
                steps = usize::checked_sub(steps, 1)?;
                if is_meant(part.2) != is_inverted {
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

    /// The place of an address.
    #[inline]
    pub fn place(&self, address: u128) -> Place {
        self.classes.as_ref().map_or(Place::default(), |classes| {
            let class = match self.family {
                Family::Ipv4 => classes.lookup4(address as u32),
                Family::Ipv6 => classes.lookup6(address),
            };
            self.places[class as usize]
        })
    }

    /// Asks the memory for what a lookup of the address reads first.
    #[inline]
    pub fn prefetch(&self, address: u128) {
        if let (Some(classes), Family::Ipv4) = (&self.classes, self.family) {
            classes.prefetch4(address as u32);
        }
    }

    /// The places of many addresses.
    ///
    /// # Panics
    ///
    /// When the two slices differ in length.
    pub fn places(&self, addresses: &[u128], found: &mut [Place]) {
        assert_eq!(addresses.len(), found.len(), "a place for each address");
        let Some(classes) = &self.classes else { return found.fill(Place::default()) };
        let (mut numbers, mut answers) = ([0; BATCH], [0; BATCH]);
        for (addresses, found) in addresses.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            let answers = &mut answers[..addresses.len()];
            if self.family == Family::Ipv6 {
                classes.lookup6_batch(addresses, answers);
            } else {
                let numbers = &mut numbers[..addresses.len()];
                for (number, address) in numbers.iter_mut().zip(addresses) {
                    *number = *address as u32;
                }
                classes.lookup4_batch(numbers, answers);
            }
            for (found, class) in found.iter_mut().zip(answers) {
                *found = self.places[*class as usize];
            }
        }
    }

    /// Whether all addresses are at one place.
    pub fn is_empty(&self) -> bool {
        self.classes.is_none()
    }

    /// The bytes of the table.
    pub fn memory_bytes(&self) -> usize {
        self.classes.as_ref().map_or(0, |classes| classes.memory_bytes())
    }

    /// The largest number on each axis.
    pub(super) fn largest(&self) -> Place {
        self.axes.each_ref().map(Axis::largest)
    }

    /// Whether places tell where a predicate, by its text, is true.
    pub(super) fn knows(&self, predicate: &str) -> bool {
        self.predicates.contains_key(predicate)
    }

    /// The numbers where a predicate, by its text, is true, and their axis.
    pub(super) fn numbers_of(&self, predicate: &str) -> (u8, Ranges) {
        let Some(&(axis, number)) = self.predicates.get(predicate) else {
            return (0, Ranges::empty());
        };
        (axis, self.axes[usize::from(axis)].numbers_of(number))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lists: &[&[(u128, u128)]], family: Family) -> PlaceTable {
        let named = |(number, list): (usize, &&[(u128, u128)])| {
            (format!("p{number}"), Ranges::new(list.to_vec()))
        };
        PlaceTable::build(lists.iter().enumerate().map(named).collect(), family)
    }

    /// Keeps all places apart.
    fn finish(table: &mut PlaceTable) {
        let asked = table
            .largest()
            .map(|largest| (0..=largest.into()).map(|one| Ranges::single(one, one)).collect());
        for conditions in table.finish(&asked) {
            assert!(conditions.iter().all(|(before, after)| before == after));
        }
    }

    fn holds(table: &PlaceTable, predicate: &str, address: u128) -> bool {
        let (axis, numbers) = table.numbers_of(predicate);
        numbers.contains(table.place(address)[usize::from(axis)].into())
    }

    #[test]
    fn a_predicate_holds_at_its_numbers_and_at_no_other() {
        let most = u128::from(u32::MAX);
        let lists: [&[(u128, u128)]; 5] =
            [&[(10, 19), (40, 59)], &[(15, 44)], &[(0, most)], &[(most, most)], &[(12, 50)]];
        for lists in [&lists[..2], &lists[..], &lists[3..4], &[]] {
            let mut table = table(lists, Family::Ipv4);
            finish(&mut table);
            assert_eq!(table.is_empty(), lists.is_empty());
            let asked: Vec<u128> = (0..130).chain([most - 1, most]).collect();
            let mut found = vec![[9; AXES]; asked.len()];
            table.places(&asked, &mut found);
            for (&address, &place) in asked.iter().zip(&found) {
                assert_eq!(table.place(address), place);
                for (number, list) in lists.iter().enumerate() {
                    let expected = list.iter().any(|range| (range.0..=range.1).contains(&address));
                    let name = format!("p{number}");
                    assert_eq!(holds(&table, &name, address), expected, "{address} {name}");
                }
            }
        }
    }

    #[test]
    fn addresses_of_places_are_those_that_a_lookup_finds() {
        // Three addresses of every ten, to the end of both families' addresses; and a few of them.
        for family in Family::BOTH {
            let (base, largest) = (family.largest() - 999, family.largest());
            let tens = |from: u128| -> Vec<(u128, u128)> {
                (0..100).map(|n| (base + n * 10 + from, base + n * 10 + from + 2)).collect()
            };
            let lists = [tens(0), tens(2), tens(7)];
            let mut table = table(&lists.each_ref().map(Vec::as_slice), family);
            let mut answers = Vec::new();
            for (first, last) in [(0, 5), (3, 3), (28, 31), (995, 999), (500, 999), (7, 30)] {
                for bits in 0..36u32 {
                    let numbers = [bits % 6, bits / 6].map(|bits| {
                        let inside = (0..3u128).filter(|bit| bits >> bit & 1 == 1);
                        let ranges = Ranges::new(inside.map(|one| (one, one)).collect());
                        (bits < 5).then_some(ranges)
                    });
                    let within = Ranges::single(base + first, base + last);
                    let found = table.addresses(&within, numbers.each_ref().map(Option::as_ref));
                    answers.push((within, numbers, found));
                }
            }
            finish(&mut table);
            let told = answers.iter().filter(|answer| answer.2.is_some()).count();
            assert!(told > 120 && told < answers.len(), "{told} of {}", answers.len());
            for (within, numbers, found) in &answers {
                let Some(found) = found else { continue };
                for address in base..=largest {
                    let mut place = table.place(address).into_iter().zip(numbers);
                    let is_meant = place.all(|(number, meant)| {
                        meant.as_ref().is_none_or(|meant| meant.contains(number.into()))
                    });
                    let expected = within.contains(address) && is_meant;
                    assert_eq!(
                        found.contains(address),
                        expected,
                        "{address} {within:?} {numbers:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn places_that_nobody_tells_apart_become_one() {
        let lists: [&[(u128, u128)]; 4] = [&[(10, 29)], &[(20, 39)], &[(50, 59)], &[(55, 56)]];
        let mut table = table(&lists, Family::Ipv4);
        // The first two cross.
        let axes = ["p0", "p1", "p2", "p3"].map(|name| table.numbers_of(name).0);
        assert_ne!(axes[0], axes[1]);
        assert_eq!(axes[2], axes[3]);
        let mut asked: [HashSet<Ranges>; AXES] = Default::default();
        let conditions = ["p0", "p2"].map(|name| table.numbers_of(name));
        for (axis, numbers) in &conditions {
            asked[usize::from(*axis)].insert(numbers.clone());
        }
        let renumbered = table.finish(&asked);
        let now = conditions.map(|(axis, numbers)| {
            (usize::from(axis), renumbered[usize::from(axis)][&numbers].clone())
        });
        for address in 0..100 {
            let place = table.place(address);
            let is_at = |(axis, numbers): &(usize, Ranges)| numbers.contains(place[*axis].into());
            assert_eq!(is_at(&now[0]), (10..30).contains(&address), "{address}");
            assert_eq!(is_at(&now[1]), (50..60).contains(&address), "{address}");
        }
        assert_eq!(table.places.len(), 3);
        // Of the others nobody could say where they hold.
        let known = ["p0", "p1", "p2", "p3"].map(|name| table.knows(name));
        assert_eq!(known, [true, false, true, false]);
        assert!(holds(&table, "p2", 55) && !holds(&table, "p2", 60));
        table.finish(&Default::default());
        assert!(table.is_empty() && !table.knows("p0") && table.largest() == [0, 0]);
    }

    #[test]
    fn countries_and_operators_are_one_range_each() {
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
            let mut table = table(&lists, family);
            assert!(table.places.len() > 20, "{}", table.places.len());
            let axes = (0..lists.len()).map(|number| {
                let (axis, numbers) = table.numbers_of(&format!("p{number}"));
                assert_eq!(numbers.as_slice().len(), 1, "p{number}");
                axis
            });
            let axes: Vec<u8> = axes.collect();
            assert!(axes[..5].iter().all(|axis| *axis == axes[0]), "{axes:?}");
            assert!(axes[5..].iter().all(|axis| *axis == 1 - axes[0]), "{axes:?}");
            finish(&mut table);
            assert_eq!(table.place(u128::from(u32::MAX)), [0, 0]);
        }
    }
}
