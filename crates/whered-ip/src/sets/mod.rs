//! Sets of address blocks: what they are compiled into, how they change while they are asked, how
//! they are reckoned with, and the texts that they come in.
//!
//! ```text
//! texts (formats) ──► blocks ──► MemberList (the entries) ──► CompiledSet (immutable, fast)
//! ```
//!
//! Concurrency and cost: see the files.

mod address6;
mod block;
mod compiled;
mod formats;
mod halves;
mod intervals;
mod ranges;
mod rank;
mod shrink;
mod steps;
mod sweep;

pub use address6::Address6;
pub use block::{Block, BlockError};
pub use compiled::{CompiledForm, CompiledSet};
pub use formats::{SetEntry, SetFormat, SetTextError, SetWriter, read_named_set, read_set};
pub use ranges::AddressRanges;
pub use shrink::ShrinkLimit;
