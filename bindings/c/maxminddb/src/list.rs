//! Whole records as lists: `MMDB_get_entry_data_list` and what goes with it.
//!
//! Not for single fields (`value.rs`) nor for printing (`dump.rs`). A list holds a record's values
//! in the order of the file, depth first, pointers followed; a map's or array's element is followed
//! by all elements inside it.
//!
//! Invariants: a record deeper than [`MAX_DEPTH`] steps (a pointer to a map or array is a step too,
//! as in the original), or with more values than one record's budget, is an error: a small file
//! can describe an endless record. After an error the list holds what was read before it, and must
//! be freed all the same.

use crate::abi::{Int, MMDB_entry_data_list_s, MMDB_entry_s, MMDB_s};
use crate::pool::Pool;
use crate::status::{Failure, code, guarded};
use crate::value::{entry_data, section};
use std::ptr::NonNull;
use whered_mmdb::MAX_DEPTH;
use whered_mmdb::fields::{Budget, Field, Kind, Section, Token};

/// A list that is being made.
struct Filling<'a> {
    section: Section<'a>,
    pool: &'a mut Pool,
    budget: Budget,
}

type Element = NonNull<MMDB_entry_data_list_s>;

impl Filling<'_> {
    /// Writes what stands at `at` into `element`, and what lies inside it behind; gives where the
    /// next field begins.
    fn fill(&mut self, at: usize, element: Element, depth: usize) -> Result<usize, Failure> {
        if depth >= MAX_DEPTH {
            return Err(Failure::InvalidData);
        }
        let next = match self.section.token(at)? {
            Token::Field(field) => self.fill_field(at, &field, element, depth)?,
            Token::Pointer { target, next } => {
                match self.section.token(target)? {
                    Token::Pointer { .. } => return Err(Failure::InvalidData),
                    Token::Field(field) => {
                        let is_container = matches!(field.kind, Kind::Map | Kind::Array);
                        if is_container && depth + 1 >= MAX_DEPTH {
                            return Err(Failure::InvalidData);
                        }
                        let depth = depth + usize::from(is_container);
                        self.fill_field(target, &field, element, depth)?;
                    }
                }
                next
            }
        };
        // SAFETY: an element of our pool, which nobody else knows yet.
        unsafe { (*element.as_ptr()).entry_data.offset_to_next = next as u32 };
        Ok(next)
    }

    fn fill_field(
        &mut self,
        at: usize,
        field: &Field,
        element: Element,
        depth: usize,
    ) -> Result<usize, Failure> {
        self.budget.take_field(field)?;
        let entry_data = entry_data(&self.section, at, field)?;
        // SAFETY: an element of our pool, which nobody else knows yet.
        unsafe { (*element.as_ptr()).entry_data = entry_data };
        let mut next = field.end();
        for _ in 0..field.nested_fields() {
            let inner = self.pool.take()?;
            next = self.fill(next, inner, depth + 1)?;
        }
        Ok(next)
    }
}

/// The list of what stands at `offset`, and whether all of it could be read. No list at all means
/// no memory.
pub(crate) fn collect(
    section: Section<'_>,
    offset: u32,
) -> Result<(*mut MMDB_entry_data_list_s, Result<(), Failure>), Failure> {
    let mut pool = Pool::new()?;
    // SAFETY: just made; the reference ends before the pool is given away.
    let pool = unsafe { pool.as_mut() };
    let first = pool.take()?;
    let mut filling = Filling { section, pool, budget: Budget::new() };
    let read = filling.fill(offset as usize, first, 0).map(|_| ());
    Ok((filling.pool.link(), read))
}

/// # Safety
///
/// `list` is a place for the answer.
unsafe fn answer(section: Section<'_>, offset: u32, list: *mut *mut MMDB_entry_data_list_s) -> Int {
    match guarded(|| Err(Failure::InvalidData), || collect(section, offset)) {
        Ok((first, read)) => {
            // SAFETY: the caller's promise.
            unsafe { list.write(first) };
            code(read)
        }
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { list.write(std::ptr::null_mut()) };
            code(Err(failure))
        }
    }
}

/// The values of an entry as a list.
///
/// # Safety
///
/// As the header says: an entry of an open database and a place for the list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_get_entry_data_list(
    start: *mut MMDB_entry_s,
    entry_data_list: *mut *mut MMDB_entry_data_list_s,
) -> Int {
    // SAFETY: the caller keeps the contract above.
    unsafe { answer(section((*start).mmdb), (*start).offset, entry_data_list) }
}

/// The metadata as a list.
///
/// # Safety
///
/// As the header says: an open database and a place for the list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_get_metadata_as_entry_data_list(
    mmdb: *const MMDB_s,
    entry_data_list: *mut *mut MMDB_entry_data_list_s,
) -> Int {
    // SAFETY: the caller keeps the contract above; the metadata lies inside the mapped file.
    unsafe {
        let size = (*mmdb).metadata_section_size as usize;
        let bytes = std::slice::from_raw_parts((*mmdb).metadata_section, size);
        answer(Section::new(bytes, 0), 0, entry_data_list)
    }
}

/// Frees a list; null is no list.
///
/// # Safety
///
/// The list came from one of the functions above, is given by its first element, and is freed once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_free_entry_data_list(
    entry_data_list: *mut MMDB_entry_data_list_s,
) {
    if !entry_data_list.is_null() {
        // SAFETY: the caller keeps the contract above.
        unsafe { Pool::free((*entry_data_list).pool.cast()) };
    }
}
