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
//! | `cold/mod.rs` | rows in a file, and reading them there |
//!
//! Invariants: a table belongs to one feed, and only that feed's batches change it; all that a
//! batch does to a table becomes visible at once; rows are never removed.
//! At the same time: readers share the lock; a batch holds it alone for about 0.1 µs a changed row.
//! Costs: `get` is one hash probe; `scan` O(rows given); `top` O(rows); `changed_since` skips 512
//! unchanged rows at once.

pub(crate) mod cell;
pub(crate) mod cold;
pub(crate) mod index;
pub(crate) mod order;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod stage;
pub(crate) mod texts;
pub(crate) mod wire;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::sync;
use whered_store::StoreError;

pub use cell::{Cell, ColumnKind, Value};
pub use schema::{COLUMNS_MAX, Column, ColumnSource, RowsOf, Rule, TableSchema, TableSource};

use cell::push_key_cell;
use cold::{ColdRows, Pages};
use rows::Store;

/// A named table.
pub struct Table {
    name: String,
    feed: String,
    schema: TableSchema,
    store: RwLock<Store>,
    /// Somebody asked while the rows were not in memory.
    asked: AtomicBool,
    /// Why the rows are nowhere, if they are not.
    fault: OnceLock<String>,
}

/// Why a question to a table has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It has no order by that column: one line that says which ones it has.
    NoOrder(String),
    /// Its rows are not in memory, and their file cannot be read: one line with file and place.
    Unreadable(String),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (TableError::NoOrder(line) | TableError::Unreadable(line)) = self;
        f.write_str(line)
    }
}

impl std::error::Error for TableError {}

impl From<StoreError> for TableError {
    fn from(error: StoreError) -> TableError {
        TableError::Unreadable(error.to_string())
    }
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
    /// Its number in the store.
    row: u32,
    /// The number of the store's first row.
    first: u32,
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
        u64::from(self.first) + u64::from(self.row)
    }

    /// A copy that outlives the table's lock.
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
        Table {
            name,
            feed: feed.to_owned(),
            schema,
            store: RwLock::new(store),
            asked: AtomicBool::new(false),
            fault: OnceLock::new(),
        }
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

    /// The number of rows, in memory or not.
    pub fn len(&self) -> usize {
        let store = self.shared();
        store.cold.as_ref().map_or(store.len(), |cold| cold.len()) as usize
    }

    /// Whether its rows are in memory; else questions read its file, which takes longer.
    pub fn is_resident(&self) -> bool {
        self.shared().cold.is_none()
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
    ///
    /// # Errors
    /// The rows are not in memory, and their file cannot be read.
    pub fn get(&self, key: &[Cell<'_>]) -> Result<Option<Row>, TableError> {
        let mut bytes = Vec::new();
        key.iter().for_each(|cell| push_key_cell(&mut bytes, *cell));
        match self.rows()? {
            Rows::Here(store) => {
                let row = store.find(index::hash_of(&bytes), &bytes);
                Ok(row.map(|row| RowRef { store: &store, row, first: 0 }.to_row()))
            }
            Rows::Cold(cold) => {
                let mut pages = cold.pages();
                let Some(row) = cold.find(&mut pages, &bytes)? else { return Ok(None) };
                Ok(Some(row_of(&mut pages, row)?))
            }
        }
    }

    /// Gives `each` up to `count` rows from `cursor` on, in the order of their making; gives the
    /// next cursor, 0 at the end. Rows that come meanwhile come last; none is given twice.
    ///
    /// # Errors
    /// As [`Table::get`]; some rows may have been given.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<u64, TableError> {
        let rows = self.rows()?;
        let len = rows.len();
        let first = u32::try_from(cursor).unwrap_or(u32::MAX).min(len);
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let end = first.saturating_add(count).min(len);
        match &rows {
            Rows::Here(store) => {
                (first..end).for_each(|row| each(RowRef { store, row, first: 0 }));
            }
            Rows::Cold(cold) => {
                let mut pages = cold.pages();
                for row in first..end {
                    let (store, first) = pages.page_of(row)?;
                    each(RowRef { store, row: row - first, first });
                }
            }
        }
        Ok(if end == len { 0 } else { u64::from(end) })
    }

    /// The rows with the largest values of a column, or the smallest; of equal ones those made
    /// first. Rows without a value are left out.
    ///
    /// # Errors
    /// There is no such column, or it is one of texts: the text says which ones are allowed. As
    /// [`Table::get`].
    pub fn top(
        &self,
        column: &str,
        count: usize,
        descending: bool,
    ) -> Result<Vec<Row>, TableError> {
        let index = self.order_by(column)?;
        let mut best: Vec<(u64, u32)> = Vec::new();
        let mut note = |row: u32, cell: Cell<'_>| {
            let Some(rank) = rank(cell) else { return };
            best.push((if descending { !rank } else { rank }, row));
            if best.len() >= count.saturating_mul(2).saturating_add(1024) {
                keep_first(&mut best, count);
            }
        };
        let rows = self.rows()?;
        match &rows {
            Rows::Here(store) => (0..store.len()).for_each(|row| note(row, store.cell(row, index))),
            Rows::Cold(cold) => cold.each_number(index, &mut note)?,
        }
        keep_first(&mut best, count);
        best.sort_unstable();
        let numbers = best.into_iter().map(|(_, row)| row);
        match &rows {
            Rows::Here(store) => {
                Ok(numbers.map(|row| RowRef { store, row, first: 0 }.to_row()).collect())
            }
            Rows::Cold(cold) => {
                let mut pages = cold.pages();
                numbers.map(|row| row_of(&mut pages, row)).collect()
            }
        }
    }

    /// The column that rows can be ordered by.
    fn order_by(&self, column: &str) -> Result<usize, TableError> {
        let index = self.schema.column_index(column);
        let is_text = |index: usize| self.schema.columns[index].kind == ColumnKind::Text;
        index.filter(|index| !is_text(*index)).ok_or_else(|| {
            let ordered =
                self.schema.columns.iter().filter(|column| column.kind != ColumnKind::Text);
            let names: Vec<&str> = ordered.map(|column| column.name.as_str()).collect();
            let names = names.join(", ");
            TableError::NoOrder(format!(
                "table '{}' has no order by '{column}'; it has by: {names}",
                self.name
            ))
        })
    }

    /// The batch of the latest change; 0 when nothing was ever changed.
    pub fn last_batch(&self) -> u64 {
        let store = self.shared();
        store.cold.as_ref().map_or(store.last_batch(), |cold| cold.last_batch())
    }

    /// Gives `each` up to `limit` rows from `from_row` on whose last change came after `batch`;
    /// gives the row to go on from, `None` at the end.
    ///
    /// # Errors
    /// As [`Table::get`]; some rows may have been given.
    pub fn changed_since(
        &self,
        batch: u64,
        from_row: u64,
        limit: usize,
        each: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<Option<u64>, TableError> {
        let rows = self.rows()?;
        let mut pages = match &rows {
            Rows::Cold(cold) => Some(cold.pages()),
            Rows::Here(_) => None,
        };
        let mut row = u32::try_from(from_row).unwrap_or(u32::MAX).min(rows.len());
        let mut given = 0;
        loop {
            row = rows.skip_unchanged(row, batch);
            if row == rows.len() {
                return Ok(None);
            }
            if given >= limit.max(1) {
                return Ok(Some(u64::from(row)));
            }
            let (store, first) = match (&rows, &mut pages) {
                (Rows::Here(store), _) => (&**store, 0),
                (Rows::Cold(_), Some(pages)) => pages.page_of(row)?,
                (Rows::Cold(_), None) => return Ok(None),
            };
            if store.batch(row - first) > batch {
                each(RowRef { store, row: row - first, first });
                given += 1;
            }
            row += 1;
        }
    }

    /// The rows; of cold ones the lock is not held while they are read.
    fn rows(&self) -> Result<Rows<'_>, TableError> {
        if let Some(fault) = self.fault.get() {
            return Err(TableError::Unreadable(fault.clone()));
        }
        let store = self.shared();
        Ok(match &store.cold {
            Some(cold) => {
                self.asked.store(true, Ordering::Relaxed);
                Rows::Cold(Arc::clone(cold))
            }
            None => Rows::Here(store),
        })
    }

    /// Its rows cannot be had: every question is answered with the reason, never with no rows.
    pub(crate) fn set_fault(&self, fault: &str) {
        // The first fault is the one to repair.
        let _ = self.fault.set(fault.to_owned());
    }

    /// Whether anybody has asked since the last time while the rows were not in memory.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, Store> {
        sync::read(&self.store)
    }

    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, Store> {
        sync::write(&self.store)
    }
}

/// Where the rows are.
enum Rows<'a> {
    Here(RwLockReadGuard<'a, Store>),
    Cold(Arc<ColdRows>),
}

impl Rows<'_> {
    fn len(&self) -> u32 {
        match self {
            Rows::Here(store) => store.len(),
            Rows::Cold(cold) => cold.len(),
        }
    }

    fn skip_unchanged(&self, row: u32, batch: u64) -> u32 {
        match self {
            Rows::Here(store) => store.skip_unchanged(row, batch),
            Rows::Cold(cold) => cold.skip_unchanged(row, batch),
        }
    }
}

fn row_of(pages: &mut Pages<'_>, row: u32) -> Result<Row, TableError> {
    let (store, first) = pages.page_of(row)?;
    Ok(RowRef { store, row: row - first, first }.to_row())
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
