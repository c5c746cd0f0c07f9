//! Which entries could hold a packet or overlap with a box, found among tens of thousands.
//!
//! For: leaving out nearly all entries before anything exact is asked.
//! Not for: exact answers; only the outer bounds of the five fields that most rules have count,
//! and those in steps.
//!
//! ```text
//! destination   steps    0        1        2     ...      at most 256, each with as many entries
//!   begins by   step 0   1 0 0 0 1 ...                    one bit an entry: its first is in 0
//!               step 1   1 1 0 0 1 ...                    ... or in 0 or 1, and so on
//!   ends from   step 0   1 1 1 1 1 ...                    its last is in 0 or later
//! ```
//!
//! A box from step a to step b overlaps with the entries of `begins by b` and `ends from a`: ten
//! bit lists for five fields, and a candidate is a bit that all have.
//!
//! Invariants: an entry that is left out holds no such packet.
//! Concurrency: plain immutable data. Cost: 10 bits an entry and question, 64 at a time; 640
//! bytes an entry of memory.

use std::ops::Range;

use crate::normal::{Conjunction, Field, Key, NormalForm};

const FIELDS: [Field; 5] =
    [Field::Destination, Field::Source, Field::DestinationPort, Field::SourcePort, Field::Protocol];

/// How many steps a field has at most.
const STEPS: usize = 256;

/// How many words are looked at together.
const BLOCK: usize = 8;

/// First and last of each of the five fields.
pub(super) type Bounds = [(u128, u128); 5];

/// The bit lists of one normal form.
pub(super) struct Candidates {
    fields: Vec<Steps>,
    words: usize,
    entries: usize,
}

/// The bit lists of one field.
struct Steps {
    /// The first number of each step but the first.
    borders: Vec<u128>,
    begins_by: Vec<Vec<u64>>,
    ends_from: Vec<Vec<u64>>,
}

impl Steps {
    /// In which step a number is.
    fn step(&self, number: u128) -> usize {
        self.borders.partition_point(|&border| border <= number)
    }

    fn build(bounds: &[(u128, u128)], words: usize) -> Steps {
        let mut numbers: Vec<u128> =
            bounds.iter().flat_map(|&(first, last)| [first, last.saturating_add(1)]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let every = numbers.len().div_ceil(STEPS - 1).max(1);
        let borders: Vec<u128> = numbers.into_iter().step_by(every).collect();
        let steps = borders.len() + 1;
        let mut field = Steps {
            borders,
            begins_by: vec![vec![0; words]; steps],
            ends_from: vec![vec![0; words]; steps],
        };
        for (entry, &(first, last)) in bounds.iter().enumerate() {
            let (begin, end) = (field.step(first), field.step(last));
            field.begins_by[begin][entry / 64] |= 1 << (entry % 64);
            field.ends_from[end][entry / 64] |= 1 << (entry % 64);
        }
        // From "in this step" to "in this one or any before" and "or any after".
        for step in 1..steps {
            let (before, from) = field.begins_by.split_at_mut(step);
            add(&mut from[0], &before[step - 1]);
        }
        for step in (1..steps).rev() {
            let (before, from) = field.ends_from.split_at_mut(step);
            add(&mut before[step - 1], &from[0]);
        }
        field
    }
}

fn add(to: &mut [u64], bits: &[u64]) {
    for (to, bits) in to.iter_mut().zip(bits) {
        *to |= bits;
    }
}

impl Candidates {
    pub(super) fn new(form: &NormalForm) -> Candidates {
        let bounds: Vec<Bounds> =
            form.rules.iter().map(|entry| bounds(&entry.conditions)).collect();
        let words = form.rules.len().div_ceil(64).next_multiple_of(BLOCK);
        let of_field = |field: usize| {
            let list: Vec<(u128, u128)> = bounds.iter().map(|bounds| bounds[field]).collect();
            Steps::build(&list, words)
        };
        let fields = (0..FIELDS.len()).map(of_field).collect();
        Candidates { fields, words, entries: form.rules.len() }
    }

    /// Calls `found` with each candidate in `range`, in order, until it says to stop.
    pub(super) fn scan(
        &self,
        bounds: &Bounds,
        range: Range<usize>,
        mut found: impl FnMut(usize) -> bool,
    ) {
        let range = range.start..range.end.min(self.entries);
        let lists: Vec<[&[u64]; 2]> = self
            .fields
            .iter()
            .zip(bounds)
            .map(|(field, &(first, last))| {
                let (from, to) = (field.step(first), field.step(last));
                [field.begins_by[to].as_slice(), field.ends_from[from].as_slice()]
            })
            .collect();
        let mut word = range.start / 64 / BLOCK * BLOCK;
        while word < self.words && word * 64 < range.end {
            let mut all = [u64::MAX; BLOCK];
            for list in lists.iter().flatten() {
                for (all, bits) in all.iter_mut().zip(&list[word..word + BLOCK]) {
                    *all &= bits;
                }
            }
            for (offset, bits) in all.into_iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    let entry = (word + offset) * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    if range.contains(&entry) && found(entry) {
                        return;
                    }
                }
            }
            word += BLOCK;
        }
    }
}

/// The outer bounds of a conjunction.
pub(super) fn bounds(conditions: &Conjunction) -> Bounds {
    FIELDS.map(|field| {
        let ranges = conditions.get(field).map_or(&[][..], crate::Ranges::as_slice);
        match (ranges.first(), ranges.last()) {
            (Some(&(first, _)), Some(&(_, last))) => (first, last),
            _ => (0, u128::MAX),
        }
    })
}

/// A single packet as bounds.
pub(super) fn bounds_of_key(key: &Key) -> Bounds {
    FIELDS.map(|field| (key.value(field), key.value(field)))
}
