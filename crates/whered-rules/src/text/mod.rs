//! The own text format: made to be read and written by people.
//!
//! For: reading ([`read`]) and writing ([`write`]) everything that the model can hold. The
//! grammar stands in `docs/guide/rules.md`.
//! Not for: other programs' formats.
//!
//! ```text
//! bytes ── lex ──> words with line and column ── parse ──> RulesetBuilder ──> Ruleset
//! ```
//!
//! Invariants: what is written reads back as the same ruleset, but for line numbers; a problem
//! in one rule does not hide those of the next.
//! Concurrency: pure functions. Cost: linear.

mod lex;
mod parse;
mod tests_of_rule;
mod write;

#[cfg(test)]
mod text_tests;

pub(crate) use parse::read_counters;
pub use parse::{read, read_rule};
pub(crate) use tests_of_rule::read_address;
pub(crate) use write::{CounterText, QuotedText};
pub use write::{condition_text, rule_text, write};
