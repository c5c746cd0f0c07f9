//! Rows in a cold file: written as they lie in memory, loaded as a whole, or read where they are.
//!
//! ```text
//! kind 1  meta   rows | words a row | last batch | seed | index slots | texts | chunks | text blocks
//!                | last batch of each chunk ... | first text of each text block ...     words
//! kind 2  rows   a chunk: the words of its rows          kind 3  keys   a block of the arena
//! kind 4  texts  { rows | length | text }*  varints      kind 5  index  8192 slots
//! ```
//! A block's tag is the table's number in its feed. Words are little endian.
//!
//! Why as they lie: writing and loading cost about what copying costs. The index is written too:
//! its slots are those of the process that has the seed; in another one it is made anew of the
//! keys.
//! Reading where they are: rows by their chunk, a key by the index, one block of each at a time.
//! Invariants: a file has a state between two batches and never changes; nothing that is read is
//! trusted: whatever names a place is checked to name one that is there.

mod load;
mod read;

pub(crate) use load::load;
pub(crate) use read::{ColdRows, Pages};

use whered_store::{ColdFile, ColdWriter, StoreError};

use super::rows::{CHUNK_ROWS, Store};
use super::texts::Arena;
use crate::tables::index::{Index, seed};

const META_KIND: u16 = 1;
const ROWS_KIND: u16 = 2;
const KEYS_KIND: u16 = 3;
const TEXTS_KIND: u16 = 4;
const INDEX_KIND: u16 = 5;

/// Words of the meta block before its lists.
const META_WORDS: usize = 8;
const TEXT_BLOCK_BYTES: usize = 64 << 10;
const INDEX_BLOCK_SLOTS: usize = 8192;

/// Appends words, little endian.
pub(crate) fn push_words(out: &mut Vec<u8>, words: &[u64]) {
    let start = out.len();
    out.resize(start + 8 * words.len(), 0);
    for (bytes, word) in out[start..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

/// The words of a block that was read into memory.
pub(crate) fn words_of(words: &[u64]) -> impl ExactSizeIterator<Item = u64> + '_ {
    words.iter().map(|word| u64::from_le(*word))
}

/// Writes the blocks of an arena.
pub(crate) fn write_arena(
    writer: &mut ColdWriter,
    kind: u16,
    tag: u16,
    arena: &Arena,
) -> Result<(), StoreError> {
    arena.blocks().iter().try_for_each(|block| writer.write_block(kind, tag, block))
}

/// Writes slots of an index.
pub(crate) fn write_slots(
    writer: &mut ColdWriter,
    kind: u16,
    tag: u16,
    slots: &[u64],
) -> Result<(), StoreError> {
    let mut parts = slots.chunks(INDEX_BLOCK_SLOTS);
    parts.try_for_each(|part| writer.write_block_with(kind, tag, |out| push_words(out, part)))
}

/// Reads all blocks of a kind and tag into one list of words.
fn read_words(
    file: &ColdFile,
    kind: u16,
    tag: u16,
    words: &mut Vec<u64>,
) -> Result<Vec<u64>, StoreError> {
    let blocks = blocks_of(file, kind, tag);
    let bytes: u64 = blocks.iter().map(|index| file.blocks()[*index].length_bytes).sum();
    let mut all = Vec::with_capacity((bytes / 8) as usize);
    for index in blocks {
        if file.read_block(index, words)?.len() % 8 != 0 {
            return Err(file.refuse(index, "it ends within a word"));
        }
        all.extend(words_of(words));
    }
    Ok(all)
}

/// Reads the blocks of an arena.
pub(crate) fn read_arena(
    file: &ColdFile,
    kind: u16,
    tag: u16,
    words: &mut Vec<u64>,
) -> Result<Arena, StoreError> {
    let mut arena = Arena::default();
    for index in blocks_of(file, kind, tag) {
        let added = arena.add_block(file.read_block(index, words)?);
        added.map_err(|reason| file.refuse(index, reason))?;
    }
    Ok(arena)
}

/// Reads the index of `len` names, or makes it of them.
pub(crate) fn read_index(
    file: &ColdFile,
    kind: u16,
    tag: u16,
    written_with: u64,
    len: usize,
    hash: impl Fn(u32) -> u32,
) -> Result<Index, StoreError> {
    if written_with == seed() {
        let slots = read_words(file, kind, tag, &mut Vec::new())?;
        let index = Index::of_slots(slots, len);
        let first = blocks_of(file, kind, tag).first().copied().unwrap_or(0);
        return index.map_err(|reason| file.refuse(first, reason));
    }
    let mut index = Index::default();
    (0..len as u32).for_each(|number| index.insert(hash(number), number));
    Ok(index)
}

/// The blocks of a kind and tag, in order.
pub(crate) fn blocks_of(file: &ColdFile, kind: u16, tag: u16) -> Vec<usize> {
    let blocks = file.blocks().iter().enumerate();
    blocks
        .filter(|(_, block)| block.kind == kind && block.tag == tag)
        .map(|(index, _)| index)
        .collect()
}

/// Whether a file has a table with this number.
pub(crate) fn has_table(file: &ColdFile, tag: u16) -> bool {
    file.blocks().iter().any(|block| block.kind == META_KIND && block.tag == tag)
}

/// Writes all of a table.
///
/// # Errors
/// The disk's.
pub(crate) fn write(writer: &mut ColdWriter, tag: u16, store: &Store) -> Result<(), StoreError> {
    let row_words = store.row_words();
    for (number, chunk) in store.chunks.iter().enumerate() {
        let rows = (store.len as usize - number * CHUNK_ROWS).min(CHUNK_ROWS);
        let words = &chunk.words[..rows * row_words];
        writer.write_block_with(ROWS_KIND, tag, |out| push_words(out, words))?;
    }
    write_arena(writer, KEYS_KIND, tag, &store.keys)?;
    let (mut firsts, mut next) = (Vec::new(), 0);
    while next < store.texts.slots_len() {
        firsts.push(next as u64);
        writer.write_block_with(TEXTS_KIND, tag, |out| {
            next = store.texts.push_slots(out, next, TEXT_BLOCK_BYTES);
        })?;
    }
    write_slots(writer, INDEX_KIND, tag, store.index.slots())?;
    let mut meta = vec![
        u64::from(store.len),
        row_words as u64,
        store.last_batch,
        seed(),
        store.index.slots().len() as u64,
        store.texts.slots_len() as u64,
        store.chunks.len() as u64,
        firsts.len() as u64,
    ];
    meta.extend(store.chunks.iter().map(|chunk| chunk.last_batch));
    meta.append(&mut firsts);
    writer.write_block_with(META_KIND, tag, |out| push_words(out, &meta))
}
