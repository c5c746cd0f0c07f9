//! The format of `iptables-save` and `ip6tables-save`.
//!
//! For: reading a table with its counters ([`read`]), writing one that `iptables-restore` takes
//! ([`write`]), and the sets beside it for `ipset restore` ([`write_sets`]).
//! Not for: tables at once; a ruleset is one table.
//!
//! ```text
//! # ip6tables-save by whered                  the family; without the remark a text is of either
//! *filter
//! :INPUT DROP [0:0]                           chain, policy (- for a chain that is jumped to)
//! [5:420] -A INPUT -s 10.0.0.0/8 -p tcp -m multiport --dports 22,80:89 -j ACCEPT
//! COMMIT
//! ```
//!
//! Invariants: what cannot be expressed in either direction is a problem that names the line;
//! what is written decides as the ruleset does, rule lists being split into several lines.
//! Concurrency: pure functions. Cost: linear.

mod details;
#[cfg(test)]
mod iptables_tests;
mod matches;
mod read;
mod rule;
mod scan;
mod targets;
mod write;

pub use read::{Options, OtherTables, family_of, read, read_either};
pub(crate) use targets::{deciding, passes};
pub(crate) use write::to_address;
pub use write::{write, write_sets};
