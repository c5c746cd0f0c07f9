//! Strings for callers: allocated with `malloc`, or written into the caller's memory, in the
//! charset that a handle asks for.
//!
//! Not for reading strings. A character that ISO 8859-1 lacks becomes `?`.

use crate::abi::CHARSET_UTF8;
use crate::records::Text;
use crate::status::guarded;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// Where strings go.
pub(crate) trait Memory {
    /// Memory for this many bytes; null if there is none.
    fn take(&mut self, size_bytes: usize) -> *mut u8;
}

/// Memory that the caller frees, each string by itself.
pub(crate) struct Malloc;

impl Memory for Malloc {
    #[inline(always)]
    fn take(&mut self, size_bytes: usize) -> *mut u8 {
        // SAFETY: malloc has no preconditions.
        unsafe { libc::malloc(size_bytes) }.cast()
    }
}

/// Memory of the caller, from the front.
pub(crate) struct Buffer {
    next: *mut u8,
    left: usize,
    /// The bytes that did not fit.
    pub(crate) is_short: bool,
}

impl Buffer {
    /// # Safety
    ///
    /// `size_bytes` bytes may be written from `start` on while the buffer is used.
    pub(crate) unsafe fn new(start: *mut u8, size_bytes: usize) -> Buffer {
        Buffer { next: start, left: size_bytes, is_short: false }
    }
}

impl Memory for Buffer {
    #[inline(always)]
    fn take(&mut self, size_bytes: usize) -> *mut u8 {
        if size_bytes > self.left {
            self.is_short = true;
            return null_mut();
        }
        let taken = self.next;
        // SAFETY: `size_bytes` bytes are left.
        self.next = unsafe { taken.add(size_bytes) };
        self.left -= size_bytes;
        taken
    }
}

/// Writes a string and its zero byte; null if there is no memory.
#[inline(always)]
pub(crate) fn write(bytes: &[u8], memory: &mut impl Memory) -> *mut c_char {
    let place = memory.take(bytes.len() + 1);
    if !place.is_null() {
        // SAFETY: the memory has room for the bytes and one more.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
            place.add(bytes.len()).write(0);
        }
    }
    place.cast()
}

/// A copy for the caller to free.
pub(crate) fn copy(bytes: &[u8]) -> *mut c_char {
    write(bytes, &mut Malloc)
}

/// Writes a text in a charset; null for an empty one, or if there is no memory.
#[inline(always)]
pub(crate) fn write_text(text: Text<'_>, charset: c_int, memory: &mut impl Memory) -> *mut c_char {
    match text {
        _ if text.is_empty() => null_mut(),
        Text::Latin(bytes) if charset != CHARSET_UTF8 || bytes.is_ascii() => write(bytes, memory),
        Text::Utf8(text) if charset == CHARSET_UTF8 || text.is_ascii() => {
            write(text.as_bytes(), memory)
        }
        Text::Latin(bytes) => write(&to_utf8(bytes), memory),
        Text::Utf8(text) => write(&to_latin(text), memory),
    }
}

fn to_utf8(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes()
}

fn to_latin(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
}

/// The UTF-8 of a string in ISO 8859-1, for the caller to free.
///
/// # Safety
///
/// `iso` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _GeoIP_iso_8859_1__utf8(iso: *const c_char) -> *mut c_char {
    guarded(null_mut, || match iso.is_null() {
        true => null_mut(),
        // SAFETY: the caller keeps the contract above.
        false => copy(&to_utf8(unsafe { CStr::from_ptr(iso) }.to_bytes())),
    })
}
