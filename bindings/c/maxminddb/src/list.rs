//! Whole records as lists: `MMDB_get_entry_data_list` and what goes with it.
//!
//! Not for single fields (`value.rs`) nor for printing (`dump.rs`). A list holds a record's values
//! in the order of the file, depth first, pointers followed; a map's or array's element is followed
//! by all elements inside it.
//!
//! Invariants: a record deeper than [`MAX_DEPTH`] steps (a pointer to a map or array is a step too,
//! as in the original), with more than [`MAX_VALUES_PER_RECORD`] values, or with more than
//! [`MAX_PAYLOAD_BYTES`] of strings and bytes is an error: a small file can describe an endless
//! record. After an error there is no list.

use crate::abi::{Int, MMDB_entry_data_list_s, MMDB_entry_s, MMDB_s};
use crate::pool::Pool;
use crate::status::{Failure, code, guarded};
use crate::value::{entry_data, section, section_of};
use std::ptr::NonNull;
use whered_mmdb::fields::{Field, Kind, Section, Token};
use whered_mmdb::{MAX_DEPTH, MAX_VALUES_PER_RECORD};

/// How many bytes of strings and byte strings a list may refer to, the original's limit: what a
/// caller that copies each value copies at most.
const MAX_PAYLOAD_BYTES: usize = 2 << 20;

/// A list that is being made.
struct Filling<'a> {
    section: Section<'a>,
    pool: &'a mut Pool,
    value_count: usize,
    payload_bytes: usize,
}

type Element = NonNull<MMDB_entry_data_list_s>;

impl Filling<'_> {
    /// The element of one more value.
    fn take(&mut self) -> Result<Element, Failure> {
        if self.value_count == MAX_VALUES_PER_RECORD {
            return Err(Failure::DecoderLimit);
        }
        self.value_count += 1;
        self.pool.take()
    }

    /// Writes what stands at `at` into `element`, and what lies inside it behind; gives where the
    /// next field begins.
    fn fill(&mut self, at: usize, element: Element, depth: usize) -> Result<usize, Failure> {
        if depth >= MAX_DEPTH {
            return Err(Failure::DecoderLimit);
        }
        let next = match self.section.token(at)? {
            Token::Field(field) => self.fill_field(at, &field, element, depth)?,
            Token::Pointer { target, next } => {
                match self.section.token(target)? {
                    Token::Pointer { .. } => return Err(Failure::InvalidData),
                    Token::Field(field) => {
                        let is_container = matches!(field.kind, Kind::Map | Kind::Array);
                        if is_container && depth + 1 >= MAX_DEPTH {
                            return Err(Failure::DecoderLimit);
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
        let entry_data = entry_data(&self.section, at, field)?;
        if matches!(field.kind, Kind::String | Kind::Bytes) {
            self.payload_bytes += field.size;
            if self.payload_bytes > MAX_PAYLOAD_BYTES {
                return Err(Failure::DecoderLimit);
            }
        }
        // SAFETY: an element of our pool, which nobody else knows yet.
        unsafe { (*element.as_ptr()).entry_data = entry_data };
        let mut next = field.end();
        for _ in 0..field.nested_fields() {
            let inner = self.take()?;
            next = self.fill(next, inner, depth + 1)?;
        }
        Ok(next)
    }
}

/// The list of the value at `offset`, which is the caller's to free.
pub(crate) fn collect(
    section: Section<'_>,
    offset: u32,
) -> Result<*mut MMDB_entry_data_list_s, Failure> {
    let mut owned = Pool::new()?;
    // SAFETY: just made; the reference ends before the pool is given away or freed.
    let pool = unsafe { owned.as_mut() };
    let mut filling = Filling { section, pool, value_count: 0, payload_bytes: 0 };
    let read = filling.take().and_then(|first| filling.fill(offset as usize, first, 0));
    let list = read.map(|_| filling.pool.link());
    if list.is_err() {
        // SAFETY: nobody else knows the pool.
        unsafe { Pool::free(owned.as_ptr()) };
    }
    list
}

/// # Safety
///
/// `list` is a place for the answer.
unsafe fn answer(section: Section<'_>, offset: u32, list: *mut *mut MMDB_entry_data_list_s) -> Int {
    match guarded(|| Err(Failure::InvalidData), || collect(section, offset)) {
        Ok(first) => {
            // SAFETY: the caller's promise.
            unsafe { list.write(first) };
            code(Ok(()))
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
        let metadata = section_of((*mmdb).metadata_section, (*mmdb).metadata_section_size);
        answer(metadata, 0, entry_data_list)
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
