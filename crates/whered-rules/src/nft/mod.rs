//! nftables: reads `nft -j list ruleset`, writes what `nft -f` takes.
//!
//! For: [`read`] of one table in JSON, [`write`] of a ruleset as text.
//! Not for: reading nft's text language.
//!
//! ```text
//! {"nftables": [ {"table": ..}, {"set": ..}, {"chain": ..}, {"rule": {"expr": [match, .., verdict]}} ]}
//! ```
//!
//! A rule that does several things (`log accept`) becomes several of ours, one for each; a verdict
//! map becomes a rule for each of its elements, which exclude each other.
//!
//! Invariants: what cannot be expressed in either direction is a problem that names its place;
//! what is written decides as the ruleset does.
//! Concurrency: pure functions. Cost: linear.

mod choices;
mod fields;
mod json;
mod listing;
mod names;
#[cfg(test)]
mod nft_tests;
mod open;
mod read;
mod write;

pub(crate) use choices::condition_choices;
pub(crate) use names::{identifier, set_name};
pub use read::{Options, read};
pub use write::write;
pub(crate) use write::{
    Cannot, asked_sets, families, protocol_choices, refused_reject, reject, rejects_some,
    rule_lines, write_set,
};
