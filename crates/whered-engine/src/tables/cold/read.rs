//! Rows that are read where they are, in a cold file.
//!
//! ```text
//! key ─ hash with the file's seed ─> block of the index ─> row ─> its chunk, the arena's block
//! row ─> its chunk ─> page = the chunk's rows as a small store, keys and texts beside them
//! ```
//! For: questions to a table that is not in memory. Not for: loading it (`load.rs`).
//! At the same time: any number of readers, each with pages of its own; the file does not change
//! and stays readable when it is removed. Cost: a key three blocks, about 1.2 MB; a scan each block
//! once; memory for one chunk, a block of keys, and the blocks of texts that its rows name.

use std::collections::HashMap;
use std::sync::Arc;

use whered_store::{ColdFile, StoreError};

use super::{
    INDEX_BLOCK_SLOTS, INDEX_KIND, KEYS_KIND, META_KIND, META_WORDS, ROWS_KIND, TEXTS_KIND,
    blocks_of, words_of,
};
use crate::tables::cell::{Cell, ColumnKind};
use crate::tables::index::hash_with;
use crate::tables::rows::{
    BATCH_WORD, CHUNK_ROWS, Chunk, KEY_WORD, PRESENT_WORD, ROWS_MAX, Store, number_cell,
};
use crate::tables::schema::Shape;
use crate::tables::texts::{KEY_BYTES_MAX, parts, take_slot};

/// How many blocks of texts are kept while pages are read: 4 MiB.
const TEXT_BLOCKS_MAX: usize = 64;

/// The rows of one table in a cold file.
pub(crate) struct ColdRows {
    file: Arc<ColdFile>,
    tag: u16,
    shape: Shape,
    len: u32,
    last_batch: u64,
    seed: u64,
    slots: usize,
    rows: Vec<usize>,
    keys: Vec<usize>,
    texts: Vec<usize>,
    index: Vec<usize>,
    chunk_batches: Vec<u64>,
    text_firsts: Vec<u64>,
}

impl std::fmt::Debug for ColdRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows in {}", self.len, self.file.name())
    }
}

impl ColdRows {
    /// The rows that a file has of the table with this number in its feed.
    ///
    /// # Errors
    /// There are none, or not of such a table.
    pub(crate) fn open(
        file: &Arc<ColdFile>,
        tag: u16,
        shape: &Shape,
    ) -> Result<ColdRows, StoreError> {
        let metas = blocks_of(file, META_KIND, tag);
        let Some(&index) = metas.first() else {
            return Err(file.refuse(0, &format!("there is no table {tag} in the file")));
        };
        let mut words = Vec::new();
        file.read_block(index, &mut words)?;
        let meta: Vec<u64> = words_of(&words).collect();
        let of = |kind| blocks_of(file, kind, tag);
        let (rows, texts, slots) = (of(ROWS_KIND), of(TEXTS_KIND), of(INDEX_KIND));
        let wrong = || file.refuse(index, "its numbers are not those of the table's blocks");
        let (head, lists) = meta.split_at_checked(META_WORDS).ok_or_else(wrong)?;
        let (chunks, firsts) = lists.split_at_checked(rows.len()).ok_or_else(wrong)?;
        let is_right = head[0] <= u64::from(ROWS_MAX)
            && head[0].div_ceil(CHUNK_ROWS as u64) == rows.len() as u64
            && head[1] == shape.row_words() as u64
            && head[4].div_ceil(INDEX_BLOCK_SLOTS as u64) == slots.len() as u64
            && (head[4] == 0 || head[4].is_power_of_two())
            && head[6] == rows.len() as u64
            && head[7] == firsts.len() as u64
            && texts.len() == firsts.len()
            && firsts.is_sorted();
        if !is_right {
            return Err(wrong());
        }
        Ok(ColdRows {
            tag,
            shape: shape.clone(),
            len: head[0] as u32,
            last_batch: head[2],
            seed: head[3],
            slots: head[4] as usize,
            rows,
            keys: of(KEYS_KIND),
            texts,
            index: slots,
            chunk_batches: chunks.to_vec(),
            text_firsts: firsts.to_vec(),
            file: Arc::clone(file),
        })
    }

    pub(super) fn file(&self) -> &ColdFile {
        &self.file
    }

    pub(super) fn tag(&self) -> u16 {
        self.tag
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn row_blocks(&self) -> &[usize] {
        &self.rows
    }

    pub(super) fn chunk_batch(&self, chunk: usize) -> u64 {
        self.chunk_batches[chunk]
    }

    /// How many rows a chunk has.
    pub(super) fn rows_in(&self, chunk: usize) -> usize {
        (self.len as usize - chunk * CHUNK_ROWS).min(CHUNK_ROWS)
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn last_batch(&self) -> u64 {
        self.last_batch
    }

    /// The first row from `row` on that may have changed after `batch`: skips whole chunks.
    pub(crate) fn skip_unchanged(&self, row: u32, batch: u64) -> u32 {
        let mut row = row;
        while row < self.len && self.chunk_batches[row as usize / CHUNK_ROWS] <= batch {
            row = (row / CHUNK_ROWS as u32 + 1) * CHUNK_ROWS as u32;
        }
        row.min(self.len)
    }

    /// Pages to read rows by.
    pub(crate) fn pages(&self) -> Pages<'_> {
        let page = (u32::MAX, Store::new(self.shape.clone()));
        Pages { cold: self, words: Vec::new(), keys: None, texts: HashMap::new(), page }
    }

    /// The row with a key.
    pub(crate) fn find(
        &self,
        pages: &mut Pages<'_>,
        key: &[u8],
    ) -> Result<Option<u32>, StoreError> {
        if self.slots == 0 {
            return Ok(None);
        }
        let hash = hash_with(key, self.seed);
        let mask = self.slots - 1;
        let (mut words, mut block) = (Vec::new(), usize::MAX);
        let mut place = hash as usize & mask;
        for _ in 0..self.slots {
            if block != place / INDEX_BLOCK_SLOTS {
                block = place / INDEX_BLOCK_SLOTS;
                self.file.read_block(self.index[block], &mut words)?;
            }
            let slot = words.get(place % INDEX_BLOCK_SLOTS).copied().map(u64::from_le);
            let wrong = || self.file.refuse(self.index[block], "it has too few slots");
            let slot = slot.ok_or_else(wrong)?;
            if slot == 0 {
                return Ok(None);
            }
            let row = (slot as u32).wrapping_sub(1);
            if (slot >> 32) as u32 == hash && row < self.len && pages.key_is(row, key)? {
                return Ok(Some(row));
            }
            place = (place + 1) & mask;
        }
        Ok(None)
    }

    /// Reads a chunk's rows into `words`, as numbers of this machine.
    fn read_chunk(&self, chunk: usize, words: &mut Vec<u64>) -> Result<(), StoreError> {
        let index = self.rows[chunk];
        self.file.read_block(index, words)?;
        if words.len() != self.rows_in(chunk) * self.shape.row_words() {
            return Err(self.file.refuse(index, "it has another number of rows"));
        }
        words.iter_mut().for_each(|word| *word = u64::from_le(*word));
        Ok(())
    }

    /// Gives `each` every row's number and the cell of a column that is no text.
    pub(crate) fn each_number(
        &self,
        column: usize,
        each: &mut dyn FnMut(u32, Cell<'_>),
    ) -> Result<(), StoreError> {
        let (mut words, mut number) = (Vec::new(), 0);
        for chunk in 0..self.rows.len() {
            self.read_chunk(chunk, &mut words)?;
            for row in words.chunks_exact(self.shape.row_words()) {
                if row[PRESENT_WORD] >> column & 1 != 0 {
                    each(number, number_cell(&self.shape.columns[column], row));
                }
                number += 1;
            }
        }
        Ok(())
    }
}

/// The rows of one chunk at a time.
pub(crate) struct Pages<'a> {
    cold: &'a ColdRows,
    words: Vec<u64>,
    /// A block of keys.
    keys: Option<(usize, Vec<u64>)>,
    texts: HashMap<usize, Vec<Box<[u8]>>>,
    page: (u32, Store),
}

impl Pages<'_> {
    /// The rows of the chunk that has a row, and the number of the first one.
    pub(crate) fn page_of(&mut self, row: u32) -> Result<(&Store, u32), StoreError> {
        let chunk = row / CHUNK_ROWS as u32;
        if self.page.0 != chunk {
            self.page = (u32::MAX, Store::new(self.cold.shape.clone()));
            self.read(chunk as usize)?;
            self.page.0 = chunk;
        }
        Ok((&self.page.1, chunk * CHUNK_ROWS as u32))
    }

    fn key_is(&mut self, row: u32, key: &[u8]) -> Result<bool, StoreError> {
        let (page, first) = self.page_of(row)?;
        Ok(page.key(row - first) == key)
    }

    fn read(&mut self, chunk: usize) -> Result<(), StoreError> {
        let cold = self.cold;
        let index = cold.rows[chunk];
        let mut words = std::mem::take(&mut self.words);
        cold.read_chunk(chunk, &mut words)?;
        let (rows, row_words) = (cold.rows_in(chunk), cold.shape.row_words());
        for row in words.chunks_exact_mut(row_words) {
            let (block, start, length) = parts(row[KEY_WORD]);
            let key = self.key_block(block, index)?.get(start..start + length);
            let key = key.filter(|key| key.len() <= KEY_BYTES_MAX);
            let key = key.ok_or_else(|| cold.file.refuse(index, "a row's key is not there"))?;
            let key = key.to_vec();
            row[KEY_WORD] = self.page.1.keys.push(&key);
            for (number, column) in cold.shape.columns.iter().enumerate() {
                if column.kind == ColumnKind::Text && row[PRESENT_WORD] >> number & 1 != 0 {
                    row[column.word] = self.text(row[column.word], index)?;
                }
            }
        }
        let last_batch = words.chunks_exact(row_words).map(|row| row[BATCH_WORD]).max();
        let chunk = Chunk { words: words.as_slice().into(), last_batch: last_batch.unwrap_or(0) };
        let page = &mut self.page.1;
        (page.len, page.last_batch) = (rows as u32, chunk.last_batch);
        page.chunks.push(chunk);
        self.words = words;
        Ok(())
    }

    /// The bytes of a block of keys.
    fn key_block(&mut self, block: usize, row_block: usize) -> Result<&[u8], StoreError> {
        let cold = self.cold;
        if self.keys.as_ref().is_none_or(|(known, _)| *known != block) {
            let index = cold.keys.get(block).copied();
            let index =
                index.ok_or_else(|| cold.file.refuse(row_block, "a row's key is not there"))?;
            let mut words = self.keys.take().map_or_else(Vec::new, |(_, words)| words);
            cold.file.read_block(index, &mut words)?;
            self.keys = Some((block, words));
        }
        let length = cold.file.blocks()[cold.keys[block]].length_bytes as usize;
        let words = self.keys.as_ref().map_or(&[][..], |(_, words)| words);
        Ok(&bytemuck::cast_slice(words)[..length])
    }

    /// The number in the page of a text with a number in the file.
    fn text(&mut self, number: u64, row_block: usize) -> Result<u64, StoreError> {
        let cold = self.cold;
        let block = cold.text_firsts.partition_point(|first| *first <= number);
        let wrong = || cold.file.refuse(row_block, "a row's text is not there");
        let block = block.checked_sub(1).ok_or_else(wrong)?;
        if !self.texts.contains_key(&block) {
            if self.texts.len() >= TEXT_BLOCKS_MAX {
                self.texts.clear();
            }
            let mut words = Vec::new();
            let mut input = cold.file.read_block(cold.texts[block], &mut words)?;
            let mut texts = Vec::new();
            while !input.is_empty() {
                let slot = take_slot(&mut input);
                let unreadable = || cold.file.refuse(cold.texts[block], "a text cannot be read");
                texts.push(slot.ok_or_else(unreadable)?.1.into());
            }
            self.texts.insert(block, texts);
        }
        let place = (number - cold.text_firsts[block]) as usize;
        let text = self.texts[&block].get(place).ok_or_else(wrong)?;
        Ok(self.page.1.texts.put(text))
    }
}
