//! What a batch makes of a table's rows, beside the table.
//!
//! ```text
//! table row ─ first touched ─> copy of its words ─ rules ─> words    rows[staged] = its number
//! new key   ─ own index ─────> words of zeros    ─ rules ─> words    numbers go on from the table's
//! touched[row] = staged, right when rows[staged] is that row
//! staged text = 1 << 63 | offset << 24 | length, in the stage's own bytes
//! ```
//! For: consolidation without a lock. Not for: telling what has changed (`wire.rs`).
//!
//! Invariants: only the one who changes the table stages, so that a number is never wrong; all
//! memory is used again by the next batch. Cost: 4 bytes for each row of the table, and the touched
//! rows.

use std::cmp::Ordering;

use whered_simd::prefetch;

use super::cell::Cell;
use super::index::{Index, hash_of};
use super::rows::{PRESENT_WORD, ROWS_MAX, Store, fetch_words};
use super::schema::{RuleKind, ShapeColumn};

/// The longest text of a column.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

pub(super) const STAGED_TEXT: u64 = 1 << 63;
const LENGTH_BITS: u32 = 24;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    row_words: usize,
    /// How many rows the table has.
    len: u32,
    rows: Vec<u32>,
    words: Vec<u64>,
    touched: Vec<u32>,
    new_index: Index,
    /// Where the keys of new rows end, and what is staged for them.
    new_rows: Vec<(u32, u32)>,
    new_keys: Vec<u8>,
    texts: Vec<u8>,
}

impl Stage {
    /// Forgets all, and begins with the table as it is.
    pub(crate) fn begin(&mut self, store: &Store) {
        self.row_words = store.row_words();
        self.len = store.len();
        self.rows.clear();
        self.words.clear();
        self.touched.resize(self.len as usize, 0);
        if !self.new_rows.is_empty() {
            self.new_index.clear();
        }
        self.new_rows.clear();
        self.new_keys.clear();
        self.texts.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows are staged.
    pub(crate) fn staged_len(&self) -> usize {
        self.rows.len()
    }

    /// The rows that are staged.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Whether a row is new, by its number.
    pub(super) fn is_new(&self, row: u32) -> bool {
        row >= self.len
    }

    pub(super) fn new_len(&self) -> usize {
        self.new_rows.len()
    }

    /// The table's length when staging began.
    pub(super) fn len_before(&self) -> u32 {
        self.len
    }

    /// The words of a staged row.
    #[inline]
    pub(super) fn words(&self, staged: usize) -> &[u64] {
        &self.words[staged * self.row_words..(staged + 1) * self.row_words]
    }

    /// The key of the n-th new row, and where that is staged.
    pub(super) fn new_row(&self, n: usize) -> (&[u8], usize) {
        let start = if n == 0 { 0 } else { self.new_rows[n - 1].0 as usize };
        let (end, staged) = self.new_rows[n];
        (&self.new_keys[start..end as usize], staged as usize)
    }

    /// A staged text, or one of the table.
    pub(super) fn text<'a>(&'a self, store: &'a Store, word: u64) -> &'a [u8] {
        if word & STAGED_TEXT == 0 {
            return store.texts.get(word);
        }
        let length = (word & ((1 << LENGTH_BITS) - 1)) as usize;
        let start = ((word & !STAGED_TEXT) >> LENGTH_BITS) as usize;
        &self.texts[start..start + length]
    }

    /// The first step to a row of a number: asks for whether it is staged.
    #[inline]
    pub(crate) fn approach(&self, row: u32) {
        prefetch(&self.touched, row as usize);
    }

    /// The second step: asks for its words, here or in the table.
    #[inline]
    pub(crate) fn approach_words(&self, store: &Store, row: u32) {
        let Some(staged) = self.touched.get(row as usize) else { return };
        if self.rows.get(*staged as usize) == Some(&row) {
            fetch_words(&self.words, *staged as usize * self.row_words, self.row_words);
        } else {
            store.fetch(row);
        }
    }

    /// The first step to a row of a key with this hash: asks for what finds it.
    #[inline]
    pub(crate) fn approach_hash(&self, store: &Store, hash: u32) {
        store.fetch_slot(hash);
        self.new_index.fetch(hash);
    }

    /// The second step: asks for the words of the row that is likely the one, and gives it.
    #[inline]
    pub(crate) fn approach_likely(&self, store: &Store, hash: u32) -> Option<u32> {
        let row = store.likely(hash)?;
        store.fetch(row);
        self.approach(row);
        Some(row)
    }

    /// The third step: asks for its key, and for its words if they are staged.
    #[inline]
    pub(crate) fn approach_key(&self, store: &Store, row: u32) {
        store.fetch_key(row);
        self.approach_words(store, row);
    }

    /// Stages the row with this key, which may be new; gives where, and its number. `None`: the
    /// table is full.
    #[inline]
    pub(crate) fn row_of(&mut self, store: &Store, key: &[u8]) -> Option<(usize, u32)> {
        self.row_of_hash(store, hash_of(key), key)
    }

    /// As [`Stage::row_of`], with the key's hash. The steps before it only make it quicker.
    #[inline]
    pub(crate) fn row_of_hash(
        &mut self,
        store: &Store,
        hash: u32,
        key: &[u8],
    ) -> Option<(usize, u32)> {
        if let Some(row) = store.find(hash, key) {
            return Some((self.existing(store, row), row));
        }
        let found = self.new_index.find(hash, |n| self.new_row(n as usize).0 == key);
        if let Some(n) = found {
            return Some((self.new_rows[n as usize].1 as usize, self.len + n));
        }
        let n = self.new_rows.len() as u32;
        if n >= ROWS_MAX - self.len || self.new_keys.len() + key.len() > u32::MAX as usize {
            return None;
        }
        let staged = self.rows.len();
        self.rows.push(self.len + n);
        self.words.resize(self.words.len() + self.row_words, 0);
        self.new_keys.extend_from_slice(key);
        self.new_rows.push((self.new_keys.len() as u32, staged as u32));
        self.new_index.insert(hash, n);
        Some((staged, self.len + n))
    }

    /// Stages a row by its number, which a batch before or this one gave.
    #[inline]
    pub(crate) fn numbered(&mut self, store: &Store, row: u32) -> usize {
        match row.checked_sub(self.len) {
            None => self.existing(store, row),
            Some(n) => self.new_rows[n as usize].1 as usize,
        }
    }

    #[inline]
    fn existing(&mut self, store: &Store, row: u32) -> usize {
        let staged = self.touched[row as usize];
        if self.rows.get(staged as usize) == Some(&row) {
            return staged as usize;
        }
        let staged = self.rows.len();
        self.touched[row as usize] = staged as u32;
        self.rows.push(row);
        self.words.extend_from_slice(store.words(row));
        staged
    }

    /// Applies a column's rule to what was seen at a time.
    #[inline]
    pub(crate) fn note(
        &mut self,
        staged: usize,
        index: usize,
        column: &ShapeColumn,
        cell: Cell<'_>,
        time: i64,
    ) {
        self.note_all(index, column, std::iter::once((staged, cell, time)));
    }

    /// Applies a column's rule to all that was seen: for which staged row, what, and when.
    ///
    /// Which rule it is, is asked once, and so what each takes is a few instructions without a jump
    /// that goes elsewhere each time (Boncz, Zukowski, Nes: MonetDB/X100, CIDR 2005).
    #[inline]
    pub(crate) fn note_all<'c>(
        &mut self,
        index: usize,
        column: &ShapeColumn,
        seen: impl Iterator<Item = (usize, Cell<'c>, i64)>,
    ) {
        let Stage { row_words, words, texts, .. } = self;
        let mut rows = Rows { words, row_words: *row_words, index, at: column.word };
        match column.rule {
            RuleKind::Count => rows.note(seen, |words, _, _, _| {
                words[0] = words[0].wrapping_add(1);
                true
            }),
            RuleKind::Sum => rows.note(seen, |words, _, cell, _| sum(&mut words[0], cell)),
            RuleKind::Min => rows.note(seen, |words, is_present, cell, _| {
                better(&mut words[0], is_present, cell, Ordering::is_lt)
            }),
            RuleKind::Max => rows.note(seen, |words, is_present, cell, _| {
                better(&mut words[0], is_present, cell, Ordering::is_gt)
            }),
            RuleKind::Mean => rows.note(seen, |words, _, cell, _| mean(words, cell)),
            RuleKind::MeanLongitude => {
                rows.note(seen, |words, _, cell, _| mean_longitude(words, cell));
            }
            RuleKind::First => rows.note(seen, |words, is_present, cell, time| {
                let is_it = !is_present || time < words[1] as i64;
                is_it && put_at(words, texts, cell, time)
            }),
            RuleKind::Last => rows.note(seen, |words, is_present, cell, time| {
                let is_it = !is_present || time >= words[1] as i64;
                is_it && put_at(words, texts, cell, time)
            }),
        }
    }

    /// Gives a column a value as it is; for rows that are adopted. A mean is one of one.
    pub(crate) fn set(
        &mut self,
        staged: usize,
        index: usize,
        column: &ShapeColumn,
        cell: Cell<'_>,
    ) {
        let Some(word) = put(&mut self.texts, cell) else { return };
        let start = staged * self.row_words;
        let words = &mut self.words[start..start + self.row_words];
        words[column.word] = word;
        if column.rule.is_mean() {
            words[column.word + 1] = 1;
        }
        words[PRESENT_WORD] |= 1 << index;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let rows = self.rows.capacity() * 4 + self.words.capacity() * 8;
        let new = self.new_rows.capacity() * 8 + self.new_keys.capacity();
        let others = self.touched.capacity() * 4 + self.texts.capacity();
        rows + new + others + self.new_index.memory_bytes()
    }
}

/// A column of the staged rows.
struct Rows<'a> {
    words: &'a mut [u64],
    row_words: usize,
    index: usize,
    /// The column's first word.
    at: usize,
}

impl Rows<'_> {
    /// Has `rule` change a row's words from the column's first on by what was seen; it gets whether
    /// the column has a value, and says whether it has one now.
    #[inline]
    fn note<'c>(
        &mut self,
        seen: impl Iterator<Item = (usize, Cell<'c>, i64)>,
        mut rule: impl FnMut(&mut [u64], bool, Cell<'_>, i64) -> bool,
    ) {
        let Rows { row_words, index, at, .. } = *self;
        for (staged, cell, time) in seen {
            let words = &mut self.words[staged * row_words..(staged + 1) * row_words];
            let is_present = words[PRESENT_WORD] >> index & 1 != 0;
            let has_changed = rule(&mut words[at..], is_present, cell, time);
            words[PRESENT_WORD] |= u64::from(has_changed) << index;
        }
    }
}

/// Puts a cell and its time into a column, unless it has no value.
#[inline]
fn put_at(words: &mut [u64], texts: &mut Vec<u8>, cell: Cell<'_>, time: i64) -> bool {
    let Some(word) = put(texts, cell) else { return false };
    (words[0], words[1]) = (word, time as u64);
    true
}

/// A cell as the word of a column; `None` when it has no value.
#[inline]
fn put(texts: &mut Vec<u8>, cell: Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Absent => None,
        Cell::Integer(value) | Cell::Time(value) => Some(value as u64),
        Cell::Number(value) => Some(value.to_bits()),
        Cell::Text(text) => {
            let offset = texts.len() as u64;
            texts.extend_from_slice(text);
            Some(STAGED_TEXT | offset << LENGTH_BITS | text.len() as u64)
        }
    }
}

#[inline]
fn sum(word: &mut u64, cell: Cell<'_>) -> bool {
    match cell {
        Cell::Integer(value) => *word = (*word as i64).saturating_add(value) as u64,
        Cell::Number(value) => *word = (f64::from_bits(*word) + value).to_bits(),
        _ => return false,
    }
    true
}

#[inline]
fn mean(words: &mut [u64], cell: Cell<'_>) -> bool {
    let value = match cell {
        Cell::Integer(value) => value as f64,
        Cell::Number(value) => value,
        _ => return false,
    };
    words[0] = (f64::from_bits(words[0]) + value).to_bits();
    words[1] += 1;
    true
}

/// A place just east of the date line counts as just west of it if the others are there: each
/// longitude is taken a whole turn further where that is nearer to the mean of those before it.
#[inline]
fn mean_longitude(words: &mut [u64], cell: Cell<'_>) -> bool {
    let value = match cell {
        Cell::Integer(value) => value as f64,
        Cell::Number(value) => value,
        _ => return false,
    };
    // As often as there are values.
    let count = words[1] as i64 as f64;
    let value = match f64::from_bits(words[0]) - value * count {
        east if east > 180.0 * count => value + 360.0,
        west if west < -180.0 * count => value - 360.0,
        _ => value,
    };
    mean(words, Cell::Number(value))
}

/// Takes a value that is better than the one there.
#[inline]
fn better(
    word: &mut u64,
    is_present: bool,
    cell: Cell<'_>,
    is_better: impl Fn(Ordering) -> bool,
) -> bool {
    let (new, order) = match cell {
        Cell::Integer(value) | Cell::Time(value) => (value as u64, value.cmp(&(*word as i64))),
        Cell::Number(value) => (value.to_bits(), value.total_cmp(&f64::from_bits(*word))),
        _ => return false,
    };
    if !is_present || is_better(order) {
        *word = new;
    }
    true
}
