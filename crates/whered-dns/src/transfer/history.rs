//! The last changes of a zone, which IXFR is answered from.
//!
//! Invariants: changes follow each other without a gap, and the last leads to the zone that is
//! served. More than [`COUNT_MAX`] of them, or than [`RECORDS_MAX`] records, drop the oldest.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Difference;

/// How many changes are kept.
const COUNT_MAX: usize = 1000;
/// How many records they may have together.
const RECORDS_MAX: usize = 1_000_000;

/// See the head of this file.
///
/// ```
/// use whered_dns::{Difference, transfer::History};
/// let none = Difference::default;
/// let change = |from_serial, to_serial| Difference { from_serial, to_serial, ..none() };
/// let mut history = History::default();
/// history.push(change(1, 2));
/// history.push(change(2, 5));
/// assert_eq!(history.since(2, 5).unwrap().len(), 1);
/// assert!(history.since(3, 5).is_none());
/// history.push(change(9, 10));
/// assert!(history.since(2, 10).is_none(), "a gap makes what was before useless");
/// ```
#[derive(Debug, Default)]
pub struct History {
    changes: VecDeque<Arc<Difference>>,
    record_count: usize,
}

impl History {
    /// Adds the newest change.
    pub fn push(&mut self, change: Difference) {
        if self.changes.back().is_some_and(|last| last.to_serial != change.from_serial) {
            *self = History::default();
        }
        self.record_count += size(&change);
        self.changes.push_back(Arc::new(change));
        while self.changes.len() > COUNT_MAX || self.record_count > RECORDS_MAX {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.record_count -= size(&oldest);
        }
    }

    /// The changes from one serial to the newest, which must be `to_serial`; none when they are not
    /// known.
    #[must_use]
    pub fn since(&self, from_serial: u32, to_serial: u32) -> Option<Vec<Arc<Difference>>> {
        if self.changes.back()?.to_serial != to_serial {
            return None;
        }
        let first = self.changes.iter().rposition(|change| change.from_serial == from_serial)?;
        Some(self.changes.range(first..).cloned().collect())
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

fn size(change: &Difference) -> usize {
    change.removed.len() + change.added.len()
}
