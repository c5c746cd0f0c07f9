//! Fields by path: `MMDB_aget_value`.
//!
//! Not for whole records (`list.rs`) nor for the tree. A path is walked in the file, as
//! `whered_mmdb::Database::field` does it; what differs are the rules of C callers: a path is an
//! array of texts that ends with a null pointer, an array's index is read as `strtol` reads it, and
//! the answer is a structure with the field's offsets.
//!
//! Invariants: nothing outside the section is read. Fields before the wanted one are stepped over
//! without following pointers, so that a name costs at most the size of the section; what is nested
//! deeper than the original steps over is an error (`skip.rs`). Nothing is allocated on the way to
//! an answer, but once for each path that the cache (`cache.rs`) remembers.

use crate::abi::{Int, MMDB_entry_data_s, MMDB_entry_s, MMDB_s, Payload};
use crate::cache::Place;
use crate::mapping::Mapping;
use crate::skip;
use crate::status::{Failure, code, guarded};
use std::ffi::{CStr, c_char};
use whered_mmdb::RecordId;
use whered_mmdb::fields::{Field, Kind, Scalar, Section, Token};

/// The data section that a caller's structure describes.
///
/// # Safety
///
/// `mmdb` is an open database, or a structure whose data section is readable for its size.
#[inline]
pub(crate) unsafe fn section<'a>(mmdb: *const MMDB_s) -> Section<'a> {
    // SAFETY: the caller vouches for the structure and the bytes that it names.
    unsafe { section_of((*mmdb).data_section, (*mmdb).data_section_size) }
}

/// A section of these bytes; an empty one if there are none, as in a structure that is not open.
///
/// # Safety
///
/// The pointer is null, or leads to as many readable bytes.
#[inline]
pub(crate) unsafe fn section_of<'a>(bytes: *const u8, size_bytes: u32) -> Section<'a> {
    let bytes = match bytes.is_null() {
        true => &[][..],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(bytes, size_bytes as usize) },
    };
    Section::new(bytes, 0)
}

/// One step of a path, as C gives it.
pub(crate) trait Steps {
    /// The next name, `None` at the end.
    fn next(&mut self) -> Option<&CStr>;
}

/// A C path: pointers to texts, a null pointer at the end.
struct CPath(*const *const c_char);

impl Steps for CPath {
    #[inline]
    fn next(&mut self) -> Option<&CStr> {
        // SAFETY: `MMDB_aget_value` demands an array that ends with a null pointer, and the
        // array's pointers lead to C strings; we stop at the null pointer.
        unsafe {
            let text = *self.0;
            if text.is_null() {
                return None;
            }
            self.0 = self.0.add(1);
            Some(CStr::from_ptr(text))
        }
    }
}

impl<T: Iterator<Item = &'static CStr>> Steps for T {
    fn next(&mut self) -> Option<&CStr> {
        Iterator::next(self)
    }
}

/// Finds the field at a path below the one at `offset`.
#[inline]
pub(crate) fn get(
    section: &Section<'_>,
    offset: u32,
    path: impl Steps,
) -> Result<MMDB_entry_data_s, Failure> {
    told(section, &find(section, offset, path)?)
}

/// A field, where it stands, and where the pointer to it ended if there was one.
struct Found {
    at: usize,
    field: Field,
    after_pointer: Option<usize>,
}

#[inline(always)]
fn find(section: &Section<'_>, offset: u32, mut path: impl Steps) -> Result<Found, Failure> {
    let mut found = follow(section, offset as usize)?;
    while let Some(name) = path.next() {
        let at = match found.field.kind {
            Kind::Map => skip::find_key(section, &found.field, name.to_bytes())?,
            Kind::Array => {
                let index = parse_index(name, found.field.size)?;
                skip::find_index(section, &found.field, index)?
            }
            _ => return Err(Failure::LookupPathDoesNotMatchData),
        };
        found = follow(section, at)?;
    }
    Ok(found)
}

/// The field at `at`, one pointer followed. Always inlined: passed through memory, the parts of the
/// answer would be stored one at a time and loaded in pairs, which stalls.
#[inline(always)]
fn follow(section: &Section<'_>, at: usize) -> Result<Found, Failure> {
    let (at, after_pointer) = match section.peek(at) {
        Some(Token::Field(field)) => return Ok(Found { at, field, after_pointer: None }),
        Some(Token::Pointer { target, next }) => (target, Some(next)),
        None => match section.token(at)? {
            Token::Field(field) => return Ok(Found { at, field, after_pointer: None }),
            Token::Pointer { target, next } => (target, Some(next)),
        },
    };
    match section.peek(at) {
        Some(Token::Field(field)) => Ok(Found { at, field, after_pointer }),
        Some(Token::Pointer { .. }) => Err(Failure::InvalidData),
        None => match section.token(at)? {
            Token::Field(field) => Ok(Found { at, field, after_pointer }),
            Token::Pointer { .. } => Err(Failure::InvalidData),
        },
    }
}

#[inline(always)]
fn told(section: &Section<'_>, found: &Found) -> Result<MMDB_entry_data_s, Failure> {
    let mut told = entry_data(section, found.at, &found.field)?;
    // Behind a pointer comes the pointer's neighbour; into a map or array leads its first entry.
    if let (Some(next), false) =
        (found.after_pointer, matches!(found.field.kind, Kind::Map | Kind::Array))
    {
        told.offset_to_next = next as u32;
    }
    Ok(told)
}

/// Finds a value by a C path, with the mapping's cache if it has one.
///
/// # Safety
///
/// As `MMDB_aget_value`.
#[inline]
unsafe fn get_cached(
    start: &MMDB_entry_s,
    path: *const *const c_char,
) -> Result<MMDB_entry_data_s, Failure> {
    // SAFETY: the caller's promise.
    let (section, slot) = unsafe {
        let cache = Mapping::of_open((*start.mmdb).file_content).and_then(Mapping::cache);
        (section(start.mmdb), cache.and_then(|cache| cache.slot(start.offset, path)))
    };
    let Some(slot) = slot else {
        return get(&section, start.offset, CPath(path));
    };
    if let Some(Place { at, after_pointer }) = slot.get() {
        let Token::Field(field) = section.token(at as usize)? else {
            return Err(Failure::InvalidData);
        };
        let after_pointer = after_pointer.map(|next| next as usize);
        return told(&section, &Found { at: at as usize, field, after_pointer });
    }
    let found = find(&section, start.offset, CPath(path))?;
    let after_pointer = found.after_pointer.map(|next| next as u32);
    slot.set(Place { at: found.at as u32, after_pointer });
    told(&section, &found)
}

/// An answer that is not kept yet.
///
/// # Safety
///
/// As `MMDB_aget_value`.
#[inline(never)]
unsafe fn find_first(
    start: *const MMDB_entry_s,
    entry_data: *mut MMDB_entry_data_s,
    path: *const *const c_char,
) -> Int {
    // SAFETY: the caller's promise.
    unsafe {
        let (start, data) = (&*start, (*(*start).mmdb).data_section);
        let kept = Mapping::of_open((*start.mmdb).file_content)
            .and_then(Mapping::answers)
            .and_then(|answers| {
                let index = Mapping::of((*start.mmdb).file_content).index.compiled()?;
                Some((answers, (index.row_of(RecordId::from_u32(start.offset))?, start.offset)))
            });
        if let Some((answers, entry)) = kept
            && let Some(status) = answers.tell(entry, path, data, entry_data)
        {
            return status;
        }
        let found = guarded(|| Err(Failure::InvalidData), || get_cached(start, path));
        if let Some((answers, entry)) = kept {
            answers.set(entry, path, data, &found);
        }
        match found {
            Ok(found) => {
                entry_data.write(found);
                0
            }
            Err(failure) => {
                entry_data.write(MMDB_entry_data_s::NOTHING);
                code(Err(failure))
            }
        }
    }
}

/// The row that a lookup left beside an entry's offset, or whatever else stands there.
///
/// # Safety
///
/// An entry can be read there.
#[inline(always)]
unsafe fn row_beside(start: *const MMDB_entry_s) -> u32 {
    const _: () = assert!(size_of::<MMDB_entry_s>() == 16);
    #[cfg(target_arch = "x86_64")]
    {
        let row: u32;
        // SAFETY: the four octets behind the offset belong to the structure. They may never have
        // been written, so the processor reads them, not the language.
        unsafe {
            std::arch::asm!(
                "mov {row:e}, [{start} + 12]",
                row = out(reg) row,
                start = in(reg) start,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        row
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = start;
        u32::MAX
    }
}

/// Which element of an array a text means; a negative number counts from the end.
fn parse_index(text: &CStr, count: usize) -> Result<usize, Failure> {
    let mut rest = std::ptr::null_mut();
    // SAFETY: `text` is a C string, `rest` a place for a pointer; errno belongs to this thread.
    let (number, is_too_large, is_whole) = unsafe {
        let errno = libc::__errno_location();
        let saved = errno.replace(0);
        let number = libc::strtol(text.as_ptr(), &raw mut rest, 10);
        let is_too_large = errno.replace(saved) == libc::ERANGE;
        (number, is_too_large, *rest == 0)
    };
    if is_too_large {
        return Err(Failure::InvalidLookupPath);
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let index = if number < 0 { number + count } else { number };
    if !is_whole || index < 0 || index >= count {
        return Err(Failure::LookupPathDoesNotMatchData);
    }
    usize::try_from(index).map_err(|_| Failure::LookupPathDoesNotMatchData)
}

/// The structure that tells a C caller of the field at `at`.
#[inline]
pub(crate) fn entry_data(
    section: &Section<'_>,
    at: usize,
    field: &Field,
) -> Result<MMDB_entry_data_s, Failure> {
    let (payload, data_size) = payload(section, field)?;
    Ok(MMDB_entry_data_s {
        has_data: true,
        payload,
        offset: at as u32,
        offset_to_next: field.end() as u32,
        data_size,
        r#type: field.kind as u32,
    })
}

/// A field's value and size as the C structure holds them. Text stays as it stands in the file.
#[inline]
fn payload(section: &Section<'_>, field: &Field) -> Result<(Payload, u32), Failure> {
    let none = Payload { uint128: 0 };
    Ok(match field.kind {
        Kind::Map | Kind::Array => (none, field.size as u32),
        Kind::String if field.size == 0 => (Payload { utf8_string: c"".as_ptr() }, 0),
        Kind::String => {
            let text = section.payload(field)?;
            (Payload { utf8_string: text.as_ptr().cast() }, field.size as u32)
        }
        Kind::Bytes => {
            let bytes = section.payload(field)?;
            (Payload { bytes: bytes.as_ptr() }, field.size as u32)
        }
        _ => (number(section, field)?, 0),
    })
}

#[inline]
fn number(section: &Section<'_>, field: &Field) -> Result<Payload, Failure> {
    Ok(match section.scalar(field)? {
        Some(Scalar::Double(number)) => Payload { double_value: number },
        Some(Scalar::Float(number)) => Payload { float_value: number },
        Some(Scalar::Uint16(number)) => Payload { uint16: number },
        Some(Scalar::Uint32(number)) => Payload { uint32: number },
        Some(Scalar::Uint64(number)) => Payload { uint64: number },
        Some(Scalar::Uint128(number)) => Payload { uint128: number },
        Some(Scalar::Int32(number)) => Payload { int32: number },
        Some(Scalar::Boolean(truth)) => Payload { boolean: truth },
        Some(Scalar::String(_) | Scalar::Bytes(_)) | None => return Err(Failure::InvalidData),
    })
}

/// Finds the field at a path below an entry.
///
/// # Safety
///
/// As the header says: an entry of an open database, a place for the answer, and an array of C
/// strings that ends with a null pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_aget_value(
    start: *mut MMDB_entry_s,
    entry_data: *mut MMDB_entry_data_s,
    path: *const *const c_char,
) -> Int {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        let (mmdb, entry) = ((*start).mmdb, (row_beside(start), (*start).offset));
        // The usual case by itself: it calls nothing, and so has nothing to save and restore.
        if let Some(answers) = Mapping::of_open((*mmdb).file_content).and_then(Mapping::answers)
            && let Some(status) =
                answers.tell_at_once(entry, path, (*mmdb).data_section, entry_data)
        {
            return status;
        }
        find_any(start, entry_data, path)
    }
}

/// [`MMDB_aget_value`] of any path and any value.
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe extern "C" fn find_any(
    start: *mut MMDB_entry_s,
    entry_data: *mut MMDB_entry_data_s,
    path: *const *const c_char,
) -> Int {
    // SAFETY: the caller's promise.
    unsafe {
        let (mmdb, entry) = ((*start).mmdb, (row_beside(start), (*start).offset));
        if let Some(answers) = Mapping::of_open((*mmdb).file_content).and_then(Mapping::answers)
            && let Some(status) = answers.tell(entry, path, (*mmdb).data_section, entry_data)
        {
            return status;
        }
        find_first(start, entry_data, path)
    }
}
