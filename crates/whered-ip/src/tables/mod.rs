//! How numbers are found: what the compiled index of databases and the compiled sets share.
//!
//! For: a sorted search by cache lines, a place of its own for each of some keys, and numbers for all
//! lanes of a batch. Not for: what stands at the place that was found.
//!
//! Concurrency: plain data that never changes. Cost: see the files.

mod ahead;
mod displaced;
mod each;
mod lanes;
mod wide_tree;

pub(crate) use ahead::{ask_ahead, ask_ahead_all};
pub(crate) use displaced::Displaced;
#[cfg(test)]
pub(crate) use displaced::keys_that_meet;
pub(crate) use each::{Each, LANES};
pub(crate) use lanes::Lanes;
pub(crate) use wide_tree::{Line, WideTree};
