//! What feeds do with the other stores: batches, and rows from elsewhere.
//!
//! Not for: how a batch is made (`feeds/step.rs`).

use super::Engine;
use crate::feeds::{Feed, StepError, StepReport, Stores};
use crate::tables::cell::Value;

impl Engine {
    /// Applies one batch of what a feed has spooled, if there is anything. One thread calls this in
    /// a loop with [`Feed::wait_for_work`].
    ///
    /// # Errors
    /// The journal is full or has failed, or the collection's key holds another kind of value:
    /// nothing of the batch counts, and the next step tries again.
    pub fn step_feed(&self, feed: &Feed) -> Result<StepReport, StepError> {
        feed.look_at_memory(|| self.memory().total_bytes());
        feed.step(self.stores())
    }

    /// Puts rows into a table that has no rows with their keys, as a batch of its own: values of
    /// the key first, then of the columns in the schema's order. Gives how many were taken. Works
    /// while the feed is held.
    ///
    /// # Errors
    /// There is no such table, a row is not one of its rows, or the journal refuses; nothing is
    /// taken then.
    pub fn adopt_rows(
        &self,
        feed: &Feed,
        table: &str,
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, StepError> {
        feed.adopt(self.stores(), table, rows)
    }

    fn stores(&self) -> Stores<'_> {
        Stores { keyspace: &self.keyspace, prefix_sets: &self.prefix_sets }
    }
}
