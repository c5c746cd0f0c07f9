//! How numbers are found: what the compiled index of databases and the compiled sets share.
//!
//! For: a sorted search by cache lines, a place of its own for each of some keys, and numbers for
//! all lanes of a batch. Not for: what stands at the place that was found.
//!
//! Concurrency: plain data that never changes. Cost: see the files.

mod each;
mod kary_tree;
mod lanes;
mod perfect_hash;
mod prefetch_ahead;

pub(crate) use each::{Each, LANES};
pub(crate) use kary_tree::{KaryTree, Line};
pub(crate) use lanes::Lanes;
pub(crate) use perfect_hash::PerfectHash;
#[cfg(test)]
pub(crate) use perfect_hash::colliding_keys;
pub(crate) use prefetch_ahead::{prefetch_ahead, prefetch_all_ahead};
