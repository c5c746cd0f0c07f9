//! Changed rows as bytes, for the journal; whole rows, for snapshots; and what they do to a table.
//!
//! ```text
//! changes = count | { row - row before | changed columns }*              rows that were there, ascending
//!           rows before | count | { key length | key | columns }*        new rows
//! columns = mask, a bit a column | { column }*
//! column  = integer, time, count: new - old        number: f64           text: length | bytes
//!           mean: sum f64 | new count - old        first, last: value | new time - old time
//! rows    = { key length | key | batch | columns }*                      old is zero
//! ```
//! All lengths, counts and differences are varints, differences zigzag.
//!
//! Why differences: counts and times grow by little, which is one to three bytes instead of eight.
//! Why they can be repeated: each row bears the batch of its last change, and a batch changes only
//! rows that are older, so that applying it to rows of a later snapshot does nothing.
//! What is applied to a running table are these very bytes: replaying cannot come out otherwise.
//! Not for: frames (`feeds/entry.rs`). Nothing that is read is trusted. Cost: one pass.

use super::cell::{ColumnKind, push_varint, take_bytes, take_varint, unzigzag, zigzag};
use super::order;
use super::rows::{PRESENT_WORD, ROWS_MAX, Store};
use super::schema::{Shape, ShapeColumn};
use super::stage::{STAGED_TEXT, Stage, TEXT_BYTES_MAX};
use super::texts::KEY_BYTES_MAX;

/// Appends what the stage has changed; gives how many rows that are.
pub(crate) fn push_changes(out: &mut Vec<u8>, store: &Store, stage: &Stage) -> u64 {
    let mut known = Vec::with_capacity(stage.rows().len());
    for (staged, &row) in stage.rows().iter().enumerate() {
        if !stage.is_new(row) {
            known.push(order::pair(row, staged as u32));
        }
    }
    order::sort(&mut known);
    let mut rows = Vec::with_capacity(known.len() * 16);
    let (mut changed, mut before) = (0_u64, 0);
    for (row, staged) in known.into_iter().map(order::parts) {
        let words = stage.words(staged as usize);
        let old = store.words(row);
        let mask = changed_columns(store.shape(), words, old);
        if mask != 0 {
            push_varint(&mut rows, u64::from(row - before));
            push_columns(&mut rows, store, stage, mask, words, old);
            before = row;
            changed += 1;
        }
    }
    push_varint(out, changed);
    out.append(&mut rows);
    push_varint(out, u64::from(stage.len_before()));
    push_varint(out, stage.new_len() as u64);
    let zeros = vec![0; store.row_words()];
    for n in 0..stage.new_len() {
        let (key, staged) = stage.new_row(n);
        push_varint(out, key.len() as u64);
        out.extend_from_slice(key);
        let words = stage.words(staged);
        push_columns(out, store, stage, words[PRESENT_WORD], words, &zeros);
    }
    changed + stage.new_len() as u64
}

fn changed_columns(shape: &Shape, words: &[u64], old: &[u64]) -> u64 {
    let mut mask = words[PRESENT_WORD] & !old[PRESENT_WORD];
    for (index, column) in shape.columns.iter().enumerate() {
        let end = column.word + 1 + usize::from(column.rule.has_second_word());
        mask |= u64::from(words[column.word..end] != old[column.word..end]) << index;
    }
    mask
}

fn push_columns(
    out: &mut Vec<u8>,
    store: &Store,
    stage: &Stage,
    mask: u64,
    words: &[u64],
    old: &[u64],
) {
    push_varint(out, mask);
    let mut rest = mask;
    while rest != 0 {
        let index = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let column = &store.shape().columns[index];
        if column.kind == ColumnKind::Text {
            let text = stage.text(store, words[column.word]);
            push_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        } else {
            push_number(out, column, words, old);
        }
        push_second(out, column, words, old);
    }
}

fn push_number(out: &mut Vec<u8>, column: &ShapeColumn, words: &[u64], old: &[u64]) {
    let word = words[column.word];
    if column.kind == ColumnKind::Number {
        out.extend_from_slice(&word.to_le_bytes());
    } else {
        push_difference(out, word, old[column.word]);
    }
}

fn push_second(out: &mut Vec<u8>, column: &ShapeColumn, words: &[u64], old: &[u64]) {
    if column.rule.has_second_word() {
        push_difference(out, words[column.word + 1], old[column.word + 1]);
    }
}

fn push_difference(out: &mut Vec<u8>, new: u64, old: u64) {
    push_varint(out, zigzag(new.wrapping_sub(old) as i64));
}

fn take_difference(input: &mut &[u8], old: u64) -> Option<u64> {
    Some(old.wrapping_add(unzigzag(take_varint(input)?) as u64))
}

/// Applies the changes of a batch to rows that are older than it, and takes them off the input.
///
/// # Errors
/// They are not changes of this table.
pub(crate) fn apply_changes(
    store: &mut Store,
    batch: u64,
    input: &mut &[u8],
) -> Result<(), String> {
    let result = apply_all(store, batch, input);
    result.map_err(|fault| format!("table '{}', batch {batch}: {fault}", store.shape().name))
}

fn apply_all(store: &mut Store, batch: u64, input: &mut &[u8]) -> Result<(), &'static str> {
    let changed = take_varint(input).ok_or("no number of changed rows")?;
    let mut row = 0_u64;
    for _ in 0..changed {
        row = take_varint(input)
            .and_then(|more| row.checked_add(more))
            .ok_or("no number of a row")?;
        let number = u32::try_from(row).ok().filter(|number| *number < store.len());
        let number = number.ok_or("it changes a row that is not there")?;
        let is_older = store.batch(number) < batch;
        take_columns(store, number, is_older, input).ok_or("a changed row cannot be read")?;
        if is_older {
            store.note_batch(number, batch);
        }
    }
    let before = take_varint(input).ok_or("no number of rows before")?;
    let new = take_varint(input).ok_or("no number of new rows")?;
    for row in before..before.saturating_add(new) {
        let key = take_key(input).ok_or("the key of a new row cannot be read")?;
        let is_new = row == u64::from(store.len());
        let number = u32::try_from(row).ok().filter(|number| *number < ROWS_MAX);
        let number = number.ok_or("it has too many rows")?;
        if is_new {
            store.add(key, batch);
        } else if number > store.len() || store.key(number) != key {
            return Err("a new row is not the next one");
        }
        take_columns(store, number, is_new, input).ok_or("a new row cannot be read")?;
    }
    Ok(())
}

/// A key that is one of this table's columns is checked where it is staged; here only its length.
fn take_key<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_varint(input)?;
    take_bytes(input, length).filter(|key| key.len() <= KEY_BYTES_MAX)
}

/// Takes columns off the input, and puts them into the row if `counts` says so.
fn take_columns(store: &mut Store, row: u32, counts: bool, input: &mut &[u8]) -> Option<()> {
    let mask = take_varint(input)?;
    let mut rest = mask;
    while rest != 0 {
        let index = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let column = store.shape().columns.get(index)?;
        let (kind, at, rule) = (column.kind, column.word, column.rule);
        let words = store.words(row);
        let (old, was_present) = (words[at], words[PRESENT_WORD] >> index & 1 != 0);
        let old_second = if rule.has_second_word() { words[at + 1] } else { 0 };
        let (mut word, mut text) = (0, None);
        match kind {
            ColumnKind::Text => {
                let length = take_varint(input)?;
                text = Some(take_bytes(input, length).filter(|text| text.len() <= TEXT_BYTES_MAX)?);
            }
            ColumnKind::Number => word = u64::from_le_bytes(take_bytes(input, 8)?.try_into().ok()?),
            _ => word = take_difference(input, old)?,
        }
        let second = if rule.has_second_word() { take_difference(input, old_second)? } else { 0 };
        if !counts {
            continue;
        }
        if let Some(text) = text {
            word = store.texts.put(text);
            if was_present {
                store.texts.release(old);
            }
        }
        let words = store.words_mut(row);
        words[at] = word;
        if rule.has_second_word() {
            words[at + 1] = second;
        }
        words[PRESENT_WORD] |= 1 << index;
    }
    Some(())
}

/// Appends whole rows from `first` on until the bytes are enough; gives the row to go on from.
pub(crate) fn push_rows(out: &mut Vec<u8>, store: &Store, first: u32, enough_bytes: usize) -> u32 {
    let none = Stage::default();
    let zeros = vec![0; store.row_words()];
    let mut row = first;
    while row < store.len() && out.len() < enough_bytes {
        let key = store.key(row);
        push_varint(out, key.len() as u64);
        out.extend_from_slice(key);
        push_varint(out, store.batch(row));
        let words = store.words(row);
        push_columns(out, store, &none, words[PRESENT_WORD], words, &zeros);
        row += 1;
    }
    row
}

/// Adds whole rows, to the end of the input.
///
/// # Errors
/// They are not rows of this table.
pub(crate) fn add_rows(store: &mut Store, mut input: &[u8]) -> Result<(), String> {
    while !input.is_empty() {
        let key = take_key(&mut input);
        let batch = take_varint(&mut input);
        let added = key.zip(batch).filter(|_| store.len() < ROWS_MAX).and_then(|(key, batch)| {
            let row = store.add(key, batch);
            take_columns(store, row, true, &mut input)
        });
        if added.is_none() {
            return Err(format!(
                "row {} of table '{}' cannot be read",
                store.len(),
                store.shape().name
            ));
        }
    }
    Ok(())
}

// A number of a text is never taken for a staged one.
const _: () = assert!(STAGED_TEXT > u32::MAX as u64);
