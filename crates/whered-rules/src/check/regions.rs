//! Exact questions about boxes: is all of one covered by others, and who decides in it?
//!
//! For: the proof behind each finding.
//! Not for: choosing what to ask (`analysis`).
//!
//! ```text
//! region R, list of entries     R inside the first of them?   it decides R: done
//!                               R outside?                    go on with the next
//!                               else split R at it:           the part inside, and the rest as
//!                                                             boxes that exclude each other
//! ```
//!
//! Invariants: an answer is exact; when the steps run out there is none.
//! Concurrency: none. Cost: counted in steps, one for each box and entry looked at.

use std::cell::Cell;

use crate::normal::{Conjunction, Domain, NormalForm};

/// Steps that are left; shared by the questions within a question.
pub(super) struct Steps {
    left: Cell<usize>,
    all: Cell<usize>,
}

/// The steps ran out.
#[derive(Debug)]
pub(super) struct OutOfSteps;

impl Steps {
    pub(super) fn new(all: usize) -> Steps {
        Steps { left: Cell::new(0), all: Cell::new(all) }
    }

    /// Begins a question that may take this many of the remaining steps.
    pub(super) fn begin(&self, most: usize) {
        let given = most.min(self.all.get());
        self.left.set(given);
        self.all.set(self.all.get() - given);
    }

    /// Gives back what a question did not need.
    pub(super) fn end(&self) {
        self.all.set(self.all.get() + self.left.take());
    }

    fn take(&self, count: usize) -> Result<(), OutOfSteps> {
        let left = self.left.get().checked_sub(count).ok_or(OutOfSteps)?;
        self.left.set(left);
        Ok(())
    }
}

/// Walks `region` through the entries in order, split at each that it overlaps: `decide` is
/// called with the entry that decides a part, or with `None` and a part that none does. It says
/// whether to go on; the walk says whether it came to its end.
pub(super) fn walk(
    form: &NormalForm,
    region: &Conjunction,
    entries: &[usize],
    steps: &Steps,
    decide: &mut dyn FnMut(Option<usize>, &Conjunction) -> bool,
) -> Result<bool, OutOfSteps> {
    let domain: &Domain = &form.domain;
    let mut open: Vec<(Conjunction, usize)> = vec![(region.clone(), 0)];
    while let Some((part, from)) = open.pop() {
        let mut next = from;
        let decided = loop {
            let Some(&entry) = entries.get(next) else { break None };
            steps.take(1)?;
            let conditions = &form.rules[entry].conditions;
            if conditions.overlaps(&part) {
                break Some((entry, conditions));
            }
            next += 1;
        };
        let Some((entry, conditions)) = decided else {
            if !decide(None, &part) {
                return Ok(false);
            }
            continue;
        };
        if conditions.covers(&part) {
            if !decide(Some(entry), &part) {
                return Ok(false);
            }
            continue;
        }
        let Some(inside) = part.intersect(conditions) else { continue };
        if !decide(Some(entry), &inside) {
            return Ok(false);
        }
        let rest = part.subtract(conditions, domain);
        steps.take(rest.len())?;
        open.extend(rest.into_iter().map(|piece| (piece, next + 1)));
    }
    Ok(true)
}
