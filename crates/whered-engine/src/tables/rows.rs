//! The rows of one table in memory.
//!
//! ```text
//! index (key -> row)                         chunks of 512 rows, never moved
//! row = | key's place | batch | present bits | column words ... |
//! column = value [second]     integer, time: i64      number: f64      text: number of a text
//!          mean: sum f64, count      first, last: value, its time
//! chunk = rows, and the highest batch among them: who looks for changes skips the others
//! ```
//! Why a row's words lie together and not a column's: batches touch few rows at random places and
//! nearly all columns of each; a row is one or two cache lines, its columns apart would be seven.
//! Reading one column of all rows (`TABLE.TOP`, exports) still runs straight through memory.
//!
//! Invariants: rows are never removed, a row's number is for ever; a column that has a value keeps
//! having one; rows that are in a file (`cold/mod.rs`) are not changed.
//! Not for: locks (`mod.rs`), what a batch changes (`stage.rs`, `wire.rs`).
//! Cost: a lookup is a slot, a row and a key: three cache lines.

use std::sync::Arc;

use whered_simd::prefetch;

use super::cell::{Cell, ColumnKind, take_key_cell};
use super::cold::ColdRows;
use super::index::{Index, hash_of};
use super::schema::{HEAD_WORDS, RuleKind, Shape, ShapeColumn};
use super::texts::{Arena, Texts};

pub(super) const CHUNK_ROWS: usize = 512;

/// Words of a row's head.
pub(super) const KEY_WORD: usize = 0;
pub(super) const BATCH_WORD: usize = 1;
pub(super) const PRESENT_WORD: usize = 2;

/// The most rows of a table.
pub(crate) const ROWS_MAX: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) words: Box<[u64]>,
    pub(super) last_batch: u64,
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Store {
    pub(super) shape: Shape,
    row_words: usize,
    pub(super) chunks: Vec<Chunk>,
    pub(super) len: u32,
    pub(super) index: Index,
    pub(super) keys: Arena,
    pub(super) texts: Texts,
    pub(super) last_batch: u64,
    /// Where the rows are while they are not here; there are none here then.
    pub(crate) cold: Option<Arc<ColdRows>>,
}

impl Store {
    pub(crate) fn new(shape: Shape) -> Store {
        let row_words = shape.row_words();
        let (index, keys, texts) = (Index::default(), Arena::default(), Texts::default());
        let (chunks, cold) = (Vec::new(), None);
        Store { shape, row_words, chunks, len: 0, index, keys, texts, last_batch: 0, cold }
    }

    /// A store whose rows are in a file.
    pub(crate) fn of_cold(cold: &Arc<ColdRows>) -> Store {
        Store { cold: Some(Arc::clone(cold)), ..Store::new(cold.shape().clone()) }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn row_words(&self) -> usize {
        self.row_words
    }

    /// The batch of the latest change.
    pub(crate) fn last_batch(&self) -> u64 {
        self.last_batch
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.len() * (CHUNK_ROWS * self.row_words * 8 + size_of::<Chunk>());
        chunks + self.index.memory_bytes() + self.keys.memory_bytes() + self.texts.memory_bytes()
    }

    /// All words of a row that is there.
    #[inline]
    pub(crate) fn words(&self, row: u32) -> &[u64] {
        let start = row as usize % CHUNK_ROWS * self.row_words;
        &self.chunks[row as usize / CHUNK_ROWS].words[start..start + self.row_words]
    }

    /// Asks for the words of a row.
    #[inline]
    pub(super) fn fetch(&self, row: u32) {
        let Some(chunk) = self.chunks.get(row as usize / CHUNK_ROWS) else { return };
        fetch_words(&chunk.words, row as usize % CHUNK_ROWS * self.row_words, self.row_words);
    }

    /// Asks for where the index has a hash.
    #[inline]
    pub(super) fn fetch_slot(&self, hash: u32) {
        self.index.fetch(hash);
    }

    /// The first row with this hash, whatever its key is.
    #[inline]
    pub(super) fn likely(&self, hash: u32) -> Option<u32> {
        self.index.find(hash, |_| true)
    }

    /// Asks for the key of a row whose words are there.
    #[inline]
    pub(super) fn fetch_key(&self, row: u32) {
        self.keys.fetch(self.words(row)[KEY_WORD]);
    }

    #[inline]
    pub(super) fn words_mut(&mut self, row: u32) -> &mut [u64] {
        let start = row as usize % CHUNK_ROWS * self.row_words;
        &mut self.chunks[row as usize / CHUNK_ROWS].words[start..start + self.row_words]
    }

    /// The row with this key.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |row| self.key(row) == key)
    }

    /// The bytes of a row's key.
    #[inline]
    pub(crate) fn key(&self, row: u32) -> &[u8] {
        self.keys.get(self.words(row)[KEY_WORD])
    }

    pub(crate) fn batch(&self, row: u32) -> u64 {
        self.words(row)[BATCH_WORD]
    }

    /// Notes a change of a row in a batch.
    pub(super) fn note_batch(&mut self, row: u32, batch: u64) {
        self.words_mut(row)[BATCH_WORD] = batch;
        let chunk = &mut self.chunks[row as usize / CHUNK_ROWS];
        chunk.last_batch = chunk.last_batch.max(batch);
        self.last_batch = self.last_batch.max(batch);
    }

    /// Adds a row whose key is not there, without values.
    pub(super) fn add(&mut self, key: &[u8], batch: u64) -> u32 {
        let row = self.len;
        if (row as usize).is_multiple_of(CHUNK_ROWS) {
            let words = vec![0; CHUNK_ROWS * self.row_words].into_boxed_slice();
            self.chunks.push(Chunk { words, last_batch: 0 });
        }
        self.len += 1;
        let place = self.keys.push(key);
        self.words_mut(row)[KEY_WORD] = place;
        self.index.insert(hash_of(key), row);
        self.note_batch(row, batch);
        row
    }

    /// The first row from `row` on that may have changed after `batch`: skips whole chunks.
    pub(crate) fn skip_unchanged(&self, row: u32, batch: u64) -> u32 {
        let mut row = row;
        while row < self.len && self.chunks[row as usize / CHUNK_ROWS].last_batch <= batch {
            row = (row / CHUNK_ROWS as u32 + 1) * CHUNK_ROWS as u32;
        }
        row.min(self.len)
    }

    /// One cell of a row's key.
    pub(crate) fn key_cell(&self, row: u32, index: usize) -> Cell<'_> {
        let mut key = self.key(row);
        let mut cells =
            self.shape.key.iter().map_while(|column| take_key_cell(&mut key, column.kind));
        cells.nth(index).unwrap_or(Cell::Absent)
    }

    /// One column's cell.
    #[inline]
    pub(crate) fn cell(&self, row: u32, index: usize) -> Cell<'_> {
        let Some(column) = self.shape.columns.get(index) else { return Cell::Absent };
        let words = self.words(row);
        if words[PRESENT_WORD] >> index & 1 == 0 {
            return Cell::Absent;
        }
        match column.kind {
            ColumnKind::Text => Cell::Text(self.texts.get(words[column.word])),
            _ => number_cell(column, words),
        }
    }
}

/// Asks for the cache lines of some words.
#[inline]
pub(super) fn fetch_words(words: &[u64], start: usize, count: usize) {
    const LINE_WORDS: usize = 8;
    let lines = (start..start + count).step_by(LINE_WORDS);
    lines.for_each(|word| prefetch(words, word));
    // The last may lie in one more.
    prefetch(words, start + count - 1);
}

/// The cell of a column that is no text and has a value.
#[inline]
pub(super) fn number_cell(column: &ShapeColumn, words: &[u64]) -> Cell<'static> {
    let word = words[column.word];
    match (column.rule, column.kind) {
        (RuleKind::Mean, _) => {
            Cell::Number(f64::from_bits(word) / words[column.word + 1].max(1) as f64)
        }
        (RuleKind::MeanLongitude, _) => {
            let mean = f64::from_bits(word) / words[column.word + 1].max(1) as f64;
            let turns = if mean.abs() > 180.0 { (mean / 360.0).round() } else { 0.0 };
            Cell::Number(mean - turns * 360.0)
        }
        (_, ColumnKind::Number) => Cell::Number(f64::from_bits(word)),
        (_, ColumnKind::Time) => Cell::Time(word as i64),
        _ => Cell::Integer(word as i64),
    }
}

// The head's words are counted where the shape is made.
const _: () = assert!(HEAD_WORDS == PRESENT_WORD + 1 && KEY_WORD < BATCH_WORD);
