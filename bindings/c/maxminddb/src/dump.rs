//! Prints a list as `mmdblookup` shows it: `MMDB_dump_entry_data_list`.
//!
//! Not for JSON, though it looks like it. The form, spaces included, is part of the interface:
//! scripts read it. Text ends at its first zero byte, as C prints it.
//!
//! Everything goes to the caller's stream by the C library's own functions, so that buffering and
//! locks are the stream's. Nothing is printed on our own behalf.

use crate::abi::{Int, MMDB_entry_data_list_s, MMDB_entry_data_s};
use crate::status::{Failure, code, guarded};
use std::ffi::CStr;
use whered_mmdb::fields::Kind;

/// The most spaces in front of a line.
const MAX_INDENT: Int = 1023;

/// Prints a list with `indent` spaces in front of each line.
///
/// # Safety
///
/// As the header says: an open stream and the first element of a list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_dump_entry_data_list(
    stream: *mut libc::FILE,
    entry_data_list: *mut MMDB_entry_data_list_s,
    indent: Int,
) -> Int {
    let mut printer = Printer { stream, next: entry_data_list };
    let printed = guarded(|| Err(Failure::InvalidData), || printer.value(indent));
    code(printed)
}

/// A stream, and the element that is printed next, which live as the caller of
/// `MMDB_dump_entry_data_list` has promised.
struct Printer {
    stream: *mut libc::FILE,
    next: *const MMDB_entry_data_list_s,
}

impl Printer {
    /// Takes the next element of the list.
    fn take(&mut self) -> Result<&'static MMDB_entry_data_s, Failure> {
        // SAFETY: the list lives longer than this call of `MMDB_dump_entry_data_list`, and the
        // references do not leave it.
        let element = unsafe { self.next.as_ref() }.ok_or(Failure::InvalidData)?;
        self.next = element.next;
        Ok(&element.entry_data)
    }

    fn value(&mut self, indent: Int) -> Result<(), Failure> {
        let data = self.take()?;
        let size = data.data_size;
        match data.r#type {
            kind if kind == Kind::Map as u32 => {
                self.line(indent, b"{");
                for _ in 0..size {
                    if self.next.is_null() {
                        break;
                    }
                    let key = text(self.take()?)?;
                    self.indent(indent.saturating_add(2));
                    self.write(b"\"");
                    self.write(key);
                    self.write(b"\": \n");
                    self.value(indent.saturating_add(4))?;
                }
                self.line(indent, b"}");
            }
            kind if kind == Kind::Array as u32 => {
                self.line(indent, b"[");
                for _ in 0..size {
                    if self.next.is_null() {
                        break;
                    }
                    self.value(indent.saturating_add(2))?;
                }
                self.line(indent, b"]");
            }
            _ => self.scalar(data, indent)?,
        }
        Ok(())
    }

    fn scalar(&mut self, data: &MMDB_entry_data_s, indent: Int) -> Result<(), Failure> {
        let is = |kind: Kind| data.r#type == kind as u32;
        if is(Kind::String) {
            let text = text(data)?;
            self.indent(indent);
            self.write(b"\"");
            self.write(text);
            self.write(b"\" <utf8_string>\n");
            return Ok(());
        }
        // SAFETY: the type says which member of the union was written.
        let (payload, integer) = unsafe { (data.payload, integer(data)) };
        let (digits, name) = if is(Kind::Bytes) {
            (hexadecimal(data), "bytes")
        } else if is(Kind::Double) || is(Kind::Float) {
            // SAFETY: as above.
            let (number, format) = unsafe {
                if is(Kind::Double) {
                    (payload.double_value, c"%f <double>\n")
                } else {
                    (f64::from(payload.float_value), c"%f <float>\n")
                }
            };
            self.indent(indent);
            // SAFETY: an open stream, and a format that takes one double.
            unsafe { libc::fprintf(self.stream, format.as_ptr(), number) };
            return Ok(());
        } else {
            integer.ok_or(Failure::InvalidData)?
        };
        self.line(indent, format!("{digits} <{name}>").as_bytes());
        Ok(())
    }

    fn line(&mut self, indent: Int, text: &[u8]) {
        self.indent(indent);
        self.write(text);
        self.write(b"\n");
    }

    fn indent(&mut self, indent: Int) {
        const SPACES: [u8; MAX_INDENT as usize] = [b' '; MAX_INDENT as usize];
        let count = usize::try_from(indent.clamp(0, MAX_INDENT)).unwrap_or_default();
        self.write(SPACES.get(..count).unwrap_or_default());
    }

    fn write(&mut self, text: &[u8]) {
        // SAFETY: an open stream and as many bytes as are said. Failures stay with the stream,
        // whose owner can ask it.
        unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), self.stream) };
    }
}

/// An integer or boolean in digits, and its type's name.
///
/// # Safety
///
/// `data` was filled by this library.
unsafe fn integer(data: &MMDB_entry_data_s) -> Option<(String, &'static str)> {
    let is = |kind: Kind| data.r#type == kind as u32;
    let payload = &data.payload;
    // SAFETY: the type says which member of the union was written.
    unsafe {
        Some(if is(Kind::Uint16) {
            (payload.uint16.to_string(), "uint16")
        } else if is(Kind::Uint32) {
            (payload.uint32.to_string(), "uint32")
        } else if is(Kind::Int32) {
            (payload.int32.to_string(), "int32")
        } else if is(Kind::Uint64) {
            (payload.uint64.to_string(), "uint64")
        } else if is(Kind::Uint128) {
            (format!("0x{:032X}", payload.uint128), "uint128")
        } else if is(Kind::Boolean) {
            (payload.boolean.to_string(), "boolean")
        } else {
            return None;
        })
    }
}

/// A string up to its first zero byte.
fn text(data: &MMDB_entry_data_s) -> Result<&[u8], Failure> {
    if data.r#type != Kind::String as u32 {
        return Err(Failure::InvalidData);
    }
    let size = data.data_size as usize;
    // SAFETY: a string's member leads to as many bytes of the mapped file.
    let bytes = unsafe { std::slice::from_raw_parts(data.payload.utf8_string.cast::<u8>(), size) };
    Ok(CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes))
}

fn hexadecimal(data: &MMDB_entry_data_s) -> String {
    let size = data.data_size as usize;
    // SAFETY: the type is bytes, whose member leads to as many bytes of the mapped file.
    let bytes = unsafe { std::slice::from_raw_parts(data.payload.bytes, size) };
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
