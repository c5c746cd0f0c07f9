//! Copies of single keys, where the stream alone does not tell what they hold.
//!
//! ```text
//! RENAME outside fleet:a ─> the link waits ─ another connection ──> copy, offset
//!     stream goes on without that key ──────────────> ... ─ at the offset: placed
//! ```
//!
//! Where a copy cannot be had, the dump is taken anew. Not for: which keys, and what becomes of
//! copies (`Applier`). Cost: two round trips of a link that waits meanwhile; its readers
//! do not wait.

use std::time::Duration;

use whered_engine::StreamPosition;
use whered_replication::{Address, Connection, KeyCopy, LinkError, Patience};

use super::board::Count;
use super::link::{Fault, Link, engine_id};

/// How long the primary may take for a copy: until then nothing is applied.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long there may always be a key that is read anew: until then the primary is not told that
/// anything has come.
const UNFINISHED_MAX: Duration = Duration::from_secs(60);

impl Link {
    /// Copies the keys that are to be read anew.
    pub(super) fn copy_pending_keys(
        &mut self,
        address: &Address,
        position: StreamPosition,
    ) -> Result<(), Fault> {
        let alone = |why: &str, error: &dyn std::fmt::Display| {
            Fault::Resync(format!("{why}; the key alone cannot be read: {error}"))
        };
        while let Some((key, why)) = self.applier.pending_reread() {
            if self.whole.elapsed() > UNFINISHED_MAX {
                return Err(Fault::Resync(format!("{why}, and others do so all the time")));
            }
            let copy = self.copy(address, &key).map_err(|error| alone(&why, &error))?;
            if engine_id(copy.id)? != position.replication_id || copy.offset < position.offset {
                return Err(alone(&why, &"the primary has another history now"));
            }
            self.note_read_anew(&key, &why);
            self.applier.provide(&key, copy);
        }
        Ok(())
    }

    /// Copies a key by the connection that was opened for the one before, if it is of use still.
    fn copy(&mut self, address: &Address, key: &[u8]) -> Result<KeyCopy, LinkError> {
        let database = self.options.database as u32;
        if let Some(mut connection) = self.copying.take() {
            match connection.copy_key(database, key) {
                // A primary may close a connection that asks for nothing.
                Err(error) if !error.is_refusal() => {}
                copied => {
                    self.copying = Some(connection).filter(|_| copied.is_ok());
                    return copied;
                }
            }
        }
        if self.stop.is_stopped() {
            return Err(LinkError::new(&address.endpoint.to_string(), "is not followed any more"));
        }
        let patience = Patience { opening: PATIENCE, silence: PATIENCE, preparing: PATIENCE };
        let mut connection = Connection::open(address, patience)?;
        let closer = connection.closer();
        let closer = closer.map_err(|error| LinkError::new(connection.name(), error))?;
        if !self.stop.add_connection(closer) {
            return Err(LinkError::new(connection.name(), "is not followed any more"));
        }
        let copied = connection.copy_key(database, key);
        self.copying = Some(connection).filter(|_| copied.is_ok());
        copied
    }

    fn note_read_anew(&self, key: &[u8], why: &str) {
        let (of, key) = (&self.options.of, key.escape_ascii());
        // Some programs do so all the time; the first time says what is to be known.
        match self.status.count(Count::KeysReadAnew) {
            0 => tracing::info!("the replica of {of} reads the key '{key}' anew: {why}"),
            _ => tracing::debug!("the replica of {of} reads the key '{key}' anew: {why}"),
        }
        self.status.add(Count::KeysReadAnew, 1);
    }
}
