//! What a sink sees of a feed: its tables, and which rows changed since a batch.
//!
//! For: handing rows from their tables to a SQL writer, without either knowing the other. Not for:
//! keeping rows, and not for SQL.
//!
//! Invariants, which [`Handover`] promises:
//!
//! - A row's cells are absolute values: writing a row twice is writing it once.
//! - Whatever changed in a batch up to [`Handover::durable_batch`] is seen by a pass that began
//!   after the call. Younger changes may be seen as well; they are seen again later.
//! - A pass sees each row at most once.
//!
//! At once: a pass runs beside batches; each page is seen under short locks.

use crate::rows::{Cell, OwnedCell, Schema};

/// A feed, as its sinks see it.
pub trait Handover: Send + Sync {
    /// The feed's name.
    fn feed(&self) -> &str;

    /// The tables to be handed on.
    fn schemas(&self) -> &[Schema];

    /// The newest batch that no crash takes back. Zero before the first.
    fn durable_batch(&self) -> u64;

    /// Shows up to `limit` rows of a table, from place `from` on, whose last change is in a batch
    /// younger than `batch`. Gives the place to go on at, or nothing at the end; zero begins.
    ///
    /// # Errors
    ///
    /// One line: why rows cannot be read.
    fn changed_since(
        &self,
        table: usize,
        batch: u64,
        from: u64,
        limit: usize,
        each: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Result<Option<u64>, String>;

    /// Takes rows over that the table does not have, as a batch that is durable when this returns.
    /// Gives how many those were.
    ///
    /// # Errors
    ///
    /// One line: why nothing more can be taken.
    fn adopt(&self, table: usize, rows: Vec<Vec<OwnedCell>>) -> Result<u64, String>;
}
