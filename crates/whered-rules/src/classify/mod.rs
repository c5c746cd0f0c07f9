//! The compiled classifier: ordered rules over ranges of fields, first match decides.
//!
//! For: [`Planner`](plan::Planner), which compiles [`Rules`] into the form that suits them and goes
//! on looking for a better one; [`Compiled`], which answers one at a time and in batches; [`Live`],
//! the same with rules inserted and deleted at once; [`scan`], the twin of them all. Not for: rule
//! formats, names, chains and lines: a rule is known by its place, or by a [`RuleId`]. Not for:
//! threads and clocks; the time is an argument.
//!
//! ```text
//! Rules ─► boxes ─┬─► tuples: hash tables, built in milliseconds, no rule dropped
//!                 ├─► vectors: a bit for each box, intersected, where rules overlap in every way
//!                 └─► dag: graphs cut dimension by dimension, the fastest where they fit
//! plan: builds candidates under a budget, measures each on packets of the rules, keeps the best
//! live: one compiled base, a small compiled overlay of inserted rules, a bit for each deleted one
//! ```
//!
//! A match is the first terminal rule that holds, and the rules before it that hold and do not end
//! the search.
//!
//! # Examples
//!
//! ```
//! use std::time::{Duration, Instant};
//! use whered_rules::classify::plan::{Budget, Planner};
//! use whered_rules::classify::{Condition, Family, Field, Packet, Rule, Rules};
//!
//! let web = Condition { field: Field::DestinationPort, ranges: vec![(80, 80), (443, 443)] };
//! let rules = Rules::new(
//!     Family::V4,
//!     vec![
//!         Rule { conditions: vec![web], terminal: true, verdict: 1 },
//!         Rule { conditions: vec![], terminal: true, verdict: 0 },
//!     ],
//! )?;
//! let epoch = Instant::now();
//! let budget = Budget { time: Duration::from_millis(50), ..Budget::default() };
//! let planner = Planner::new(rules, budget, &|| epoch.elapsed());
//!
//! let mut packet = Packet::new(0x0a00_0001, 0x0a00_0002);
//! packet.set(Field::DestinationPort, 443);
//! assert_eq!(planner.compiled().find(&packet, &mut Vec::new()), Some(0));
//! # Ok::<(), whered_rules::classify::RuleError>(())
//! ```
mod boxes;
mod compiled;
mod dag;
mod hash;
pub mod lazy;
mod live;
mod naive;
pub mod plan;
mod rule;
mod samples;
mod simd;
mod tuples;
mod vectors;

pub use compiled::{AnyPacket, Compiled, Hits, Matched};
pub use live::{ChangeError, Live, RuleId, Snapshot};
pub use naive::{Explanation, Miss, Outcome, scan};
pub use rule::{
    Condition, FREE_WORDS, Family, Field, LAZY_FIELDS, NO_RULE, Packet, Packet6, Rule, RuleError,
    Rules, SETS,
};
pub use samples::Samples;

#[cfg(test)]
mod classify_tests;
#[cfg(test)]
mod live_tests;
