//! Tables: keyed rows with typed columns, filled by feeds.
//!
//! ```text
//! Feed::step ─> staged rows (stage.rs) ─> bytes for the journal (wire.rs) ─┬─> journal
//!                                                                        └─> rows (rows.rs) under the lock
//! readers ─────────────────────────────────────────────────────────────────> rows under the shared lock
//! ```
//! | file | thing |
//! | --- | --- |
//! | `schema.rs` | columns and their rules, checked |
//! | `cell.rs` | values, keys as bytes |
//! | `rows.rs` | rows in memory |
//! | `index.rs`, `texts.rs` | key to row; texts and keys |
//! | `stage.rs` | what a batch makes of rows, beside them |
//! | `wire.rs` | changed rows as bytes, and what they do to rows |
//!
//! Invariants: a table belongs to one feed, and only that feed's batches change it; all that a batch
//! does to a table becomes visible at once; rows are never removed.
//! At the same time: readers share the lock; a batch holds it alone for about 0.1 µs a changed row.
//! Costs: `get` is one hash probe; `scan` O(rows given); `top` O(rows); `changed_since` skips 512
//! unchanged rows at once.

pub(crate) mod cell;
pub(crate) mod index;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod stage;
pub(crate) mod texts;
pub(crate) mod wire;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use cell::{Cell, ColumnKind, Value};
pub use schema::{COLUMNS_MAX, Column, ColumnSource, RowsOf, Rule, TableSchema, TableSource};

use rows::Store;

/// A named table.
pub struct Table {
    name: String,
    feed: String,
    schema: TableSchema,
    store: RwLock<Store>,
}

/// A row, owned.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The values of its key.
    pub key: Vec<Value>,
    /// The values of the other columns.
    pub columns: Vec<Value>,
    /// The batch that changed it last.
    pub batch: u64,
}

/// A row while its table is locked.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    store: &'a Store,
    row: u32,
}

impl<'a> RowRef<'a> {
    /// A value of its key. O(index).
    pub fn key(&self, index: usize) -> Cell<'a> {
        self.store.key_cell(self.row, index)
    }

    /// A value of another column. O(1).
    pub fn column(&self, index: usize) -> Cell<'a> {
        self.store.cell(self.row, index)
    }

    /// The batch that changed it last.
    pub fn batch(&self) -> u64 {
        self.store.batch(self.row)
    }

    /// Its number, which it keeps for ever.
    pub fn number(&self) -> u64 {
        u64::from(self.row)
    }

    /// The same, owned.
    pub fn to_row(&self) -> Row {
        let shape = self.store.shape();
        let key = (0..shape.key.len()).map(|index| self.key(index).to_value()).collect();
        let columns = (0..shape.columns.len()).map(|index| self.column(index).to_value());
        Row { key, columns: columns.collect(), batch: self.batch() }
    }
}

impl Table {
    pub(crate) fn new(feed: &str, store: Store) -> Table {
        let (name, schema) = (store.shape().name.clone(), store.shape().schema());
        Table { name, feed: feed.to_owned(), schema, store: RwLock::new(store) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The feed that fills it.
    pub fn feed(&self) -> &str {
        &self.feed
    }

    /// Its columns.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.shared().len() as usize
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.shared().memory_bytes()
    }

    /// The row with this key; `None` also when the cells are not those of a key of this table.
    pub fn get(&self, key: &[Cell<'_>]) -> Option<Row> {
        let store = self.shared();
        let row = store.find_cells(key)?;
        Some(RowRef { store: &store, row }.to_row())
    }

    /// Gives `each` up to `count` rows from `cursor` on, in the order of their making; gives the next
    /// cursor, 0 at the end. Rows that come meanwhile come last; none is given twice.
    pub fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(RowRef<'_>)) -> u64 {
        let store = self.shared();
        let first = u32::try_from(cursor).unwrap_or(u32::MAX).min(store.len());
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let end = first.saturating_add(count).min(store.len());
        (first..end).for_each(|row| each(RowRef { store: &store, row }));
        if end == store.len() { 0 } else { u64::from(end) }
    }

    /// The rows with the largest values of a column, or the smallest; of equal ones those made first.
    /// Rows without a value are left out.
    ///
    /// # Errors
    /// There is no such column, or it is one of texts: the text says which ones are allowed.
    pub fn top(&self, column: &str, count: usize, descending: bool) -> Result<Vec<Row>, String> {
        let index = self.schema.column_index(column);
        let is_text = |index: usize| self.schema.columns[index].kind == ColumnKind::Text;
        let Some(index) = index.filter(|index| !is_text(*index)) else {
            let ordered =
                self.schema.columns.iter().filter(|column| column.kind != ColumnKind::Text);
            let names: Vec<&str> = ordered.map(|column| column.name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!(
                "table '{}' has no order by '{column}'; it has by: {names}",
                self.name
            ));
        };
        let store = self.shared();
        let mut best: Vec<(u64, u32)> = Vec::new();
        for row in 0..store.len() {
            let Some(rank) = rank(store.cell(row, index)) else { continue };
            best.push((if descending { !rank } else { rank }, row));
            if best.len() >= count.saturating_mul(2).saturating_add(1024) {
                keep_first(&mut best, count);
            }
        }
        keep_first(&mut best, count);
        best.sort_unstable();
        Ok(best.into_iter().map(|(_, row)| RowRef { store: &store, row }.to_row()).collect())
    }

    /// The batch of the latest change; 0 when nothing was ever changed.
    pub fn last_batch(&self) -> u64 {
        self.shared().last_batch()
    }

    /// Gives `each` up to `limit` rows from `from_row` on whose last change came after `batch`; gives
    /// the row to go on from, `None` at the end.
    pub fn changed_since(
        &self,
        batch: u64,
        from_row: u64,
        limit: usize,
        each: &mut dyn FnMut(RowRef<'_>),
    ) -> Option<u64> {
        let store = self.shared();
        let mut row = u32::try_from(from_row).unwrap_or(u32::MAX).min(store.len());
        let mut given = 0;
        loop {
            row = store.skip_unchanged(row, batch);
            if row == store.len() {
                return None;
            }
            if given >= limit.max(1) {
                return Some(u64::from(row));
            }
            if store.batch(row) > batch {
                each(RowRef { store: &store, row });
                given += 1;
            }
            row += 1;
        }
    }

    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number in the order of the cells, which are all of one kind; `None` for those without a rank.
fn rank(cell: Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Integer(value) | Cell::Time(value) => Some(value as u64 ^ 1 << 63),
        Cell::Number(value) => {
            let bits = (value + 0.0).to_bits();
            Some(if bits >> 63 == 0 { bits ^ 1 << 63 } else { !bits })
        }
        Cell::Absent | Cell::Text(_) => None,
    }
}

fn keep_first(best: &mut Vec<(u64, u32)>, count: usize) {
    if best.len() > count {
        if count > 0 {
            best.select_nth_unstable(count - 1);
        }
        best.truncate(count);
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
