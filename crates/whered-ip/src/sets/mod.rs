//! Sets of address blocks: compiled forms, set operations, and the formats of files.
//!
//! ```text
//! files (formats) ──► blocks ──► MemberList (the entries) ──► CompiledSet (immutable, fast)
//! ```
//!
//! Concurrency and cost: see the files.

mod address6;
mod block;
mod compiled;
mod formats;
mod intervals;
mod ranges;
mod rank;
mod shrink;
mod stages;
mod sweep;
mod upper_table;

pub use address6::Address6;
pub use block::{Block, BlockError};
pub use compiled::{CompiledForm, CompiledSet};
pub(crate) use formats::list_block;
pub use formats::{
    BlockColumns, Column, JsonPaths, Provider, SetEntry, SetFormat, SetOption, SetReading,
    SetTextError, SetWriter, read_set,
};
pub use ranges::AddressRanges;
pub use shrink::ShrinkLimit;
