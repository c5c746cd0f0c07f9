//! A table's rows out of a cold file, as they lay in memory.
//!
//! For: all of them at once. Not for: single rows (`read.rs`). Cost: a copy and a checksum, and a
//! look at each row's key and texts; texts are put into their map one by one.

use whered_store::{ColdFile, StoreError};

use super::read::ColdRows;
use super::{INDEX_KIND, KEYS_KIND, TEXTS_KIND, blocks_of, read_arena, read_index, words_of};
use crate::tables::cell::ColumnKind;
use crate::tables::index::hash_of;
use crate::tables::rows::{CHUNK_ROWS, Chunk, KEY_WORD, PRESENT_WORD, Store};

/// Loads the rows.
///
/// # Errors
/// The file is damaged or not what it should be; the system's.
pub(crate) fn load(cold: &ColdRows) -> Result<Store, StoreError> {
    let (file, tag) = (cold.file(), cold.tag());
    let mut store = Store::new(cold.shape().clone());
    let mut words = Vec::new();
    store.keys = read_arena(file, KEYS_KIND, tag, &mut words)?;
    for index in blocks_of(file, TEXTS_KIND, tag) {
        let added = store.texts.add_slots(file.read_block(index, &mut words)?);
        added.map_err(|reason| file.refuse(index, reason))?;
    }
    for (number, &index) in cold.row_blocks().iter().enumerate() {
        file.read_block(index, &mut words)?;
        let rows = cold.rows_in(number);
        if words.len() != rows * store.row_words() {
            return Err(file.refuse(index, "it has another number of rows"));
        }
        let mut chunk = vec![0; CHUNK_ROWS * store.row_words()].into_boxed_slice();
        for (to, from) in chunk.iter_mut().zip(words_of(&words)) {
            *to = from;
        }
        check_rows(file, index, &store, &chunk, rows)?;
        let last_batch = cold.chunk_batch(number);
        store.chunks.push(Chunk { words: chunk, last_batch });
    }
    (store.len, store.last_batch) = (cold.len(), cold.last_batch());
    let hash = |row| hash_of(store.key(row));
    let len = store.len as usize;
    store.index = read_index(file, INDEX_KIND, tag, cold.seed(), len, hash)?;
    Ok(store)
}

/// Whether rows have keys and texts that are there.
fn check_rows(
    file: &ColdFile,
    index: usize,
    store: &Store,
    chunk: &[u64],
    rows: usize,
) -> Result<(), StoreError> {
    let columns = store.shape().columns.iter().enumerate();
    let texts: Vec<(usize, usize)> = columns
        .filter(|(_, column)| column.kind == ColumnKind::Text)
        .map(|(number, column)| (number, column.word))
        .collect();
    for row in chunk.chunks_exact(store.row_words()).take(rows) {
        if !store.keys.has(row[KEY_WORD]) {
            return Err(file.refuse(index, "a row's key is not there"));
        }
        for &(number, word) in &texts {
            if row[PRESENT_WORD] >> number & 1 != 0 && !store.texts.is_used(row[word]) {
                return Err(file.refuse(index, "a row's text is not there"));
            }
        }
    }
    Ok(())
}
