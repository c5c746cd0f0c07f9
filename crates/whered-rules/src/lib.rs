//! Ordered packet rules: which rule does this packet meet?
//!
//! For: the model of a ruleset ([`Ruleset`]), reading and writing it ([`text`], [`iptables`],
//! [`nft`], [`classbench`]), its normal form without chains ([`normal`]), what is useless in it
//! ([`check`]), the compiled form ([`compile`], over [`classify`]), expected answers ([`cases`]),
//! and the evaluator that everything else is compared with ([`naive`]).
//!
//! Not for: files (it takes text), sockets, databases. What needs a database is asked through
//! [`normal::Places`]; what a live set holds now, through [`naive::Sets`].
//!
//! Concurrency: plain data; a ruleset never changes once it is built.
//!
//! # Examples
//!
//! ```
//! use whered_rules::{Packet, Verdict, naive, text};
//!
//! let rules = "\
//! chain input policy drop {
//!     state {established related} accept
//!     src 10.0.0.0/8 proto tcp dport {22 80-89} accept
//! }
//! ";
//! let ruleset = text::read("edge.rules", rules)?;
//! let packet = Packet {
//!     source: "10.1.2.3".parse().expect("a fixed address"),
//!     protocol: 6,
//!     destination_port: 22,
//!     ..Packet::default()
//! };
//! let outcome = naive::evaluate(&ruleset, &packet, &naive::NoSets);
//! assert_eq!(outcome.verdict, Verdict::Accept);
//! assert_eq!(ruleset.rule(outcome.rule.expect("a rule decided")).origin.line, 3);
//! # Ok::<(), whered_rules::RulesError>(())
//! ```
pub mod cases;
pub mod check;
pub mod classbench;
pub mod classify;
pub mod compile;
mod error;
pub mod flat;
mod format;
mod hooks;
pub mod iptables;
#[cfg(test)]
mod kernel;
mod layout;
pub mod live;
mod model;
pub mod naive;
pub mod names;
pub mod nft;
pub mod normal;
mod packet;
mod packets;
#[cfg(test)]
mod random;
mod ranges;
mod resolve;
pub mod text;
mod truth;
pub mod unknown;

pub use error::{Problem, RulesError};
pub use format::{Format, ReadOptions};
pub use model::*;
pub use packet::{Family, Packet, State};
pub use ranges::Ranges;
pub use truth::Answer;
