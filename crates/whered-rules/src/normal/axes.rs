//! Two axes of numbers for classes of addresses, so that most predicates are one range of one axis.
//!
//! For: the numbers of a place. Not for: addresses, nor where predicates come from (`places`).
//!
//! ```text
//!                 axis 0: countries                Place: [number on axis 0, number on axis 1]
//!              0      1..2     3..7
//! axis 1  0    .      DE       US        src.country = US      axis 0, 3..7
//!         1    AS 1   DE+AS 1  US+AS 1   src.asn = 1           axis 1, 1..1: one range as well,
//!         2    AS 2   DE+AS 2  US+AS 2                         but on one axis one for each country
//! ```
//!
//! Predicates that cross, each true where the other is not, are kept on different axes as far as
//! may be; along an axis classes are sorted by the predicates that are true there, so that those
//! that exclude each other or nest are neighbours. To the classifier a range is one box.
//!
//! Invariants: number 0 of an axis is where none of its predicates is true. Concurrency: plain
//! data. Cost: linear in classes, but for sorting and for pairs of predicates that are true
//! together, of which a bounded number is looked at.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::ranges::Ranges;

/// How many pairs of predicates that are true together are looked at. Where there are more, some
/// that nest are taken to cross, which may cost boxes and nothing else.
const PAIRS_LIMIT: usize = 1 << 22;

/// How many numbers a place has.
pub const AXES: usize = 2;

/// Where an address is: its number on each axis; nowhere by default.
pub type Place = [u32; AXES];

/// One axis: which of its predicates are true at each number, the most telling first.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    truths: Vec<Vec<u32>>,
}

/// The axis of each predicate, the axes, and the place of each class, of which `truths` has the
/// predicates; those of class 0 are none.
pub(super) fn lay_out(
    truths: &[Vec<u32>],
    predicates: usize,
) -> (Vec<u8>, [Axis; AXES], Vec<Place>) {
    let mut counts = vec![0u32; predicates];
    for &predicate in truths.iter().flatten() {
        counts[predicate as usize] += 1;
    }
    // Those that are true in most classes come first.
    let rank = |predicate: u32| (Reverse(counts[predicate as usize]), predicate);
    let axis_of = spread(truths, &counts, rank);
    let mut places = vec![Place::default(); truths.len()];
    let axes = std::array::from_fn(|axis| {
        let of_class = |truth: &Vec<u32>| {
            let on_axis = |predicate: &u32| usize::from(axis_of[*predicate as usize]) == axis;
            let mut truth: Vec<u32> = truth.iter().copied().filter(on_axis).collect();
            truth.sort_by_key(|&predicate| rank(predicate));
            truth
        };
        let of_classes: Vec<Vec<u32>> = truths.iter().map(of_class).collect();
        let mut sorted = of_classes.clone();
        sorted.sort_by_cached_key(|truth| truth.iter().map(|&one| rank(one)).collect::<Vec<_>>());
        sorted.dedup();
        let numbers: HashMap<&Vec<u32>, u32> = sorted.iter().zip(0..).collect();
        for (place, truth) in places.iter_mut().zip(&of_classes) {
            place[axis] = numbers[truth];
        }
        Axis { truths: sorted }
    });
    (axis_of, axes, places)
}

/// A number for each item, the same for equal ones, in the order in which they come first.
pub(super) fn numbered<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> Vec<u32> {
    let mut known: HashMap<T, u32> = HashMap::new();
    let number = |item| {
        let next = known.len() as u32;
        *known.entry(item).or_insert(next)
    };
    items.into_iter().map(number).collect()
}

/// Puts predicates that cross on different axes, as far as may be.
fn spread(
    truths: &[Vec<u32>],
    counts: &[u32],
    rank: impl Fn(u32) -> (Reverse<u32>, u32),
) -> Vec<u8> {
    let mut together: HashMap<(u32, u32), u32> = HashMap::new();
    let pairs = truths.iter().flat_map(|truth| {
        let each = truth.iter().enumerate();
        each.flat_map(|(place, &one)| truth[place + 1..].iter().map(move |&other| (one, other)))
    });
    for (one, other) in pairs.take(PAIRS_LIMIT) {
        *together.entry((one.min(other), one.max(other))).or_default() += 1;
    }
    let mut crossed: Vec<Vec<(u32, u32)>> = vec![Vec::new(); counts.len()];
    for ((one, other), count) in together {
        if count < counts[one as usize].min(counts[other as usize]) {
            crossed[one as usize].push((other, count));
            crossed[other as usize].push((one, count));
        }
    }
    let mut order: Vec<u32> = (0..counts.len() as u32).collect();
    order.sort_by_key(|&predicate| rank(predicate));
    let mut axis_of: Vec<Option<u8>> = vec![None; counts.len()];
    for predicate in order {
        let mut weights = [0u64; AXES];
        for &(other, count) in &crossed[predicate as usize] {
            if let Some(axis) = axis_of[other as usize] {
                weights[usize::from(axis)] += u64::from(count);
            }
        }
        axis_of[predicate as usize] =
            (0..AXES as u8).min_by_key(|&axis| weights[usize::from(axis)]);
    }
    axis_of.into_iter().map(Option::unwrap_or_default).collect()
}

impl Axis {
    /// The largest number.
    pub(super) fn largest(&self) -> u32 {
        (self.truths.len() - 1) as u32
    }

    /// The numbers where a predicate of this axis is true.
    pub(super) fn numbers_of(&self, predicate: u32) -> Ranges {
        let numbers = self.truths.iter().zip(0..).filter(|(truth, _)| truth.contains(&predicate));
        Ranges::new(numbers.map(|(_, number)| (number, number)).collect())
    }

    /// Makes one number of those that none of these conditions tells apart. Gives the new number of
    /// each old one, and puts predicates that were true at a part of a new number into `torn`.
    pub(super) fn keep_apart(
        &mut self,
        asked: &HashSet<Ranges>,
        torn: &mut HashSet<u32>,
    ) -> Vec<u32> {
        let mut conditions_of: Vec<Vec<u32>> = vec![Vec::new(); self.truths.len()];
        for (condition, id) in asked.iter().zip(0..) {
            for &(first, last) in condition.as_slice() {
                let numbers = &mut conditions_of[first as usize..=last as usize];
                numbers.iter_mut().for_each(|conditions| conditions.push(id));
            }
        }
        let renumbered = numbered(conditions_of);
        let mut truths: Vec<Vec<u32>> = Vec::new();
        for (&number, truth) in renumbered.iter().zip(&self.truths) {
            let Some(first) = truths.get(number as usize) else {
                truths.push(truth.clone());
                continue;
            };
            let is_in_one = |one: &&u32| !(first.contains(one) && truth.contains(one));
            torn.extend(first.iter().chain(truth).filter(is_in_one));
        }
        self.truths = truths;
        renumbered
    }
}
