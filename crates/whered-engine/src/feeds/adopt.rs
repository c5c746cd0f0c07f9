//! Rows from elsewhere: put into a table that does not have them, as a batch without uploads.
//!
//! For: the first run of a sink, which takes over what its SQL table holds already. Not for:
//! merging: a row that is there stays as it is.
//! Cost: as a batch of as many rows; all of them are one entry of the journal.

use std::time::Duration;

use super::entry::{BATCH_KIND, Effects, Head, begin_batch, push_effects};
use super::{Feed, StepError, Stores};
use crate::tables::cell::{ColumnKind, Value, push_key_cell, push_varint};
use crate::tables::stage::TEXT_BYTES_MAX;
use crate::tables::texts::KEY_BYTES_MAX;
use crate::tables::{TableSchema, wire};

/// How long adopting waits for its turn in memory.
const PATIENCE: Duration = Duration::from_secs(60);

impl Feed {
    /// Puts rows into a table that has none with their keys; see `Engine::adopt_rows`.
    pub(crate) fn adopt(
        &self,
        stores: Stores<'_>,
        table: &str,
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, StepError> {
        let known = self.tables().iter().position(|known| known.name() == table);
        let place = known
            .ok_or_else(|| StepError(format!("feed '{}' has no table '{table}'", self.name())))?;
        let entered = self.states.residency.enter(&self.state, PATIENCE).map_err(StepError)?;
        let busy = || StepError("others are in memory for too long; try again".to_owned());
        let pin = entered.ok_or_else(busy)?;
        let mut worker = self.worker();
        let mut head = Head::default();
        {
            let header = self.state.header();
            (head.batch, head.position) = (header.batch + 1, header.position);
        }
        let target = &mut worker.targets[place];
        let table = &self.tables()[place];
        let taken = {
            let store = table.shared();
            target.stage.begin(&store);
            let mut key = Vec::new();
            let mut taken = 0;
            for row in rows {
                check(table.schema(), &row)
                    .map_err(|fault| StepError(format!("table '{}': {fault}", table.name())))?;
                let (of_key, columns) = row.split_at(table.schema().key.len());
                key.clear();
                of_key.iter().for_each(|value| push_key_cell(&mut key, value.as_cell()));
                let hash = crate::tables::index::hash_of(&key);
                let before = target.stage.staged_len();
                if key.len() > KEY_BYTES_MAX || store.find(hash, &key).is_some() {
                    continue;
                }
                let Some((staged, _)) = target.stage.row_of(&store, &key) else { continue };
                // A key that comes twice has the row that came first.
                if target.stage.staged_len() == before {
                    continue;
                }
                for (index, (column, value)) in
                    target.plan.shape.columns.iter().zip(columns).enumerate()
                {
                    target.stage.set(staged, index, column, value.as_cell());
                }
                taken += 1;
            }
            taken
        };
        if taken == 0 {
            return Ok(0);
        }
        let mut entry = begin_batch(self.name(), &head);
        push_effects(&mut entry, &Effects::default());
        let tables_at = entry.len();
        push_varint(&mut entry, 1);
        push_varint(&mut entry, target.number as u64);
        wire::push_changes(&mut entry, &table.shared(), &target.stage);
        let refused = |error: crate::error::WriteError| StepError(error.to_string());
        let room = self.log.reserve(entry.len()).map_err(refused)?;
        let batch = head.batch;
        let ticket = stores.keyspace.with_gate(|| {
            self.keep_adopted(head, &entry[tables_at..]);
            room.append_encoded(BATCH_KIND, &entry)
        });
        self.state.note_memory(&self.state.places());
        self.note_batch(batch, ticket);
        drop(worker);
        pin.finish();
        drop(pin);
        self.log.wait(ticket).map_err(refused)?;
        Ok(taken)
    }

    fn keep_adopted(&self, head: Head, changes: &[u8]) {
        let tables = self.state.tables();
        self.state.apply_tables(&tables, head.batch, &mut &*changes).expect("it was just made");
        self.state.header().take(head).expect("its number is the next one");
    }
}

/// Whether values are a row of a table.
fn check(schema: &TableSchema, row: &[Value]) -> Result<(), String> {
    let columns = || schema.key.iter().chain(&schema.columns);
    if row.len() != columns().count() {
        return Err(format!("a row of {} values; it has {} columns", row.len(), columns().count()));
    }
    for (column, value) in columns().zip(row) {
        let fits = match value {
            Value::Absent => true,
            Value::Integer(_) => column.kind == ColumnKind::Integer,
            Value::Number(number) => column.kind == ColumnKind::Number && !number.is_nan(),
            Value::Text(text) => column.kind == ColumnKind::Text && text.len() <= TEXT_BYTES_MAX,
            Value::Time(_) => column.kind == ColumnKind::Time,
        };
        if !fits {
            return Err(format!(
                "{value:?} for column '{}' of kind {}",
                column.name,
                column.kind.name()
            ));
        }
    }
    Ok(())
}
