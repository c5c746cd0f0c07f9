//! The compiled classifier: ordered rules over ranges, first match decides.
mod boxes;
mod compiled;
mod dag;
mod hash;
mod live;
mod naive;
pub mod plan;
mod random;
mod rule;
mod samples;
mod simd;
mod tuples;

pub use compiled::{AnyPacket, Compiled, Hits, Met};
pub use live::{ChangeError, Live, RuleId, Snapshot};
pub use naive::{Explanation, Miss, Outcome, scan};
pub use rule::{
    Condition, Family, Field, NO_RULE, PLACES, Packet, Packet6, Rule, RuleError, Rules, SETS,
};
pub use samples::Samples;

#[cfg(test)]
mod classify_tests;
#[cfg(test)]
mod live_tests;
