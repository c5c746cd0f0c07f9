//! The output's text of a record's fields, made once a record: the same records come again and
//! again, so that a line costs a copy.
//!
//! Not for finding records, and not shared: each worker has its own. A *segment* is a run of
//! columns that stand side by side and come from one database.
//!
//! ```text
//! entries   key -> start, length, any value?
//! texts     | of no record | ,"DE","Berlin" | ,"FR",null | ...
//! ```
//!
//! Invariant: entries that were given out stay right until the next [`Cells::resolve`], which alone
//! may begin anew when the texts have grown beyond [`TEXT_BYTES_MAX`].

use std::collections::HashMap;
use std::hint::black_box;

use super::fields::Column;
use super::find::{DatabaseSnapshot, Finder, NO_RECORD, SnapshotState};
use super::write::{Field, Style};

/// What the texts of one segment may take in one worker.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// What the text of one record may well take.
const TEXT_BYTES_USUAL: usize = 192;

/// Where a record's text is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    start: u32,
    /// The length, doubled, and one more if any of the fields has a value; none for an entry that
    /// was not made yet.
    length_and_value: u32,
}

impl Entry {
    const NONE: Entry = Entry { start: 0, length_and_value: u32::MAX };

    fn is_made(self) -> bool {
        self.length_and_value != u32::MAX
    }

    /// Whether any of the fields has a value.
    #[inline]
    pub(crate) fn has_value(self) -> bool {
        self.length_and_value & 1 == 1
    }
}

/// The entries by key.
enum Entries {
    /// One a key.
    Dense(Vec<Entry>),
    /// Those that were asked for.
    Sparse(HashMap<u32, Entry>),
}

impl Entries {
    fn new(key_count: Option<usize>) -> Entries {
        match key_count {
            Some(count) => Entries::Dense(vec![Entry::NONE; count]),
            None => Entries::Sparse(HashMap::new()),
        }
    }

    fn get(&self, key: u32) -> Entry {
        let entry = match self {
            Entries::Dense(entries) => entries.get(key as usize),
            Entries::Sparse(entries) => entries.get(&key),
        };
        entry.copied().unwrap_or(Entry::NONE)
    }

    fn set(&mut self, key: u32, entry: Entry) {
        match self {
            Entries::Dense(entries) => {
                if let Some(place) = entries.get_mut(key as usize) {
                    *place = entry;
                }
            }
            Entries::Sparse(entries) => {
                entries.insert(key, entry);
            }
        }
    }
}

/// The texts of one segment.
pub(crate) struct Cells {
    /// Which finder has its records.
    pub(crate) finder: usize,
    columns: Vec<Column>,
    /// For each column, those of the view's indexes.
    index_columns: Vec<[Option<usize>; 2]>,
    /// What the keys of the entries mean.
    state: Option<SnapshotState>,
    entries: Entries,
    texts: Vec<u8>,
}

impl Cells {
    /// The segments of the columns.
    pub(crate) fn segments(columns: &[Column], finders: &[Finder]) -> Vec<Cells> {
        let runs = columns.chunk_by(|left, right| left.databases == right.databases);
        let finder = |run: &[Column]| {
            let databases = run.first().map(|column| column.databases);
            finders.iter().position(|finder| Some(finder.databases) == databases)
        };
        let segment = |run: &[Column]| Cells {
            finder: finder(run).unwrap_or_default(),
            columns: run.to_vec(),
            index_columns: vec![[None; 2]; run.len()],
            state: None,
            entries: Entries::new(None),
            texts: Vec::new(),
        };
        runs.map(segment).collect()
    }

    /// The entries of records; those that are not there yet are made.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub(crate) fn resolve(
        &mut self,
        view: &DatabaseSnapshot<'_>,
        style: Style,
        keys: &[u32],
        resolved: &mut Vec<Entry>,
    ) -> Result<(), String> {
        // Keys of another view mean other records.
        let is_other = self.state.replace(view.state()) != Some(view.state());
        if is_other || self.texts.len() > TEXT_BYTES_MAX {
            self.entries = Entries::new(view.key_count());
            self.texts.clear();
            // Room in advance, which costs nothing before it is used: growing would copy it all.
            let room = view.key_count().unwrap_or_default().saturating_mul(TEXT_BYTES_USUAL);
            self.texts.reserve(room.min(TEXT_BYTES_MAX));
            let columns = self.columns.iter();
            self.index_columns = columns.map(|column| view.index_columns(&column.path)).collect();
        }
        resolved.clear();
        resolved.extend(keys.iter().map(|&key| self.entries.get(key)));
        for (entry, &key) in resolved.iter_mut().zip(keys) {
            if !entry.is_made() {
                *entry = self.entries.get(key);
            }
            if !entry.is_made() {
                *entry = self.make(view, style, key)?;
            }
        }
        // All texts of the batch are on their way from memory at once, rather than one a line.
        let first = |entry: &Entry| self.texts.get(entry.start as usize).copied();
        black_box(resolved.iter().fold(0, |sum, entry| sum ^ first(entry).unwrap_or_default()));
        Ok(())
    }

    #[cold]
    fn make(
        &mut self,
        view: &DatabaseSnapshot<'_>,
        style: Style,
        key: u32,
    ) -> Result<Entry, String> {
        let start = self.texts.len();
        let mut has_value = false;
        for (column, index_columns) in self.columns.iter().zip(&self.index_columns) {
            let field = match key {
                NO_RECORD => Field::Absent,
                key => view.field(key, &column.path, *index_columns)?,
            };
            has_value |= field != Field::Absent;
            style.write_field(&column.name, &field, &mut self.texts);
        }
        let entry = || {
            let length = u32::try_from(self.texts.len() - start).ok()?.checked_mul(2)?;
            let length_and_value = length | u32::from(has_value);
            Some(Entry { start: u32::try_from(start).ok()?, length_and_value })
        };
        let entry = entry().ok_or("the fields of a few records take more than 2 GiB of text")?;
        self.entries.set(key, entry);
        Ok(entry)
    }

    /// The text of an entry.
    #[inline]
    pub(crate) fn text(&self, entry: Entry) -> &[u8] {
        let (start, length) = (entry.start as usize, entry.length_and_value as usize / 2);
        self.texts.get(start..start + length).unwrap_or_default()
    }
}
