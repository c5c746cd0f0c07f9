//! Benchmark data, measuring programs and their tables.
//!
//! For: the program `whered-bench` (`src/main.rs`), `bench/own`, and `bench/versus`, which measures
//! rivals with the same tools.
//! Not for: anything that a server needs at run time; nothing below this crate knows it.
//!
//! ```text
//! data     seed ──► city.mmdb, asn.mmdb
//! dns      zones, questions ──► servers beside an echo ──► processor time a question
//! lookup   file ──► lists of addresses, engines ──► rounds ──► table, JSON
//! faults   servers that are killed, cut off, filled up ──► what they have kept
//! feed     seed ──► uploads of a crowd's map, the tables they become, what reads them
//! rules    shape, seed ──► rulesets like ClassBench's; growing sets and rules ──► JSON
//! sets     seed ──► prefixes by published lengths, addresses
//! sync     kernel's sets that are followed while packets probe them
//! measure  clock, pinning, statistics, the machine's description
//! ```
//!
//! Everything that is random comes from a seed ([`Random`]): the same call gives the same bytes and
//! the same addresses on every machine.

pub mod data;
pub mod dns;
pub mod faults;
pub mod feed;
pub mod geo;
pub mod lookup;
pub mod measure;
pub mod rules;
pub mod sets;
pub mod sync;

pub use whered_random::Random;
