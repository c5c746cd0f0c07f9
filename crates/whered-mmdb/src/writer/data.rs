//! The data section that is being written.
//!
//! Not for the tree. Every value is stored once: a map or array holds numbers, booleans and short
//! fields in place and everything longer as a pointer to the one copy in front of it.
//!
//! ```text
//! "Asia"  "continent"  {1: ->"continent", ->"Asia"}   {1: ->"continent", ->"Africa"} ...
//! ```
//!
//! Since parts are always stored the same way, equal values have equal bytes, and the bytes are
//! the key of the table that finds the copy. Parts come before what holds them, so every pointer
//! leads backwards. Cost: linear in the value. Databases have far fewer records than networks, and
//! a record has a dozen parts: whole values that were stored are remembered, so that one question
//! is asked instead of a dozen (6.4 s became 2.6 s for a million networks with 90,000 records).

use super::refuse;
use crate::error::MmdbError;
use crate::value::Value;
use std::collections::HashMap;

/// The largest size that a field can announce.
pub(super) const MAX_FIELD_SIZE: usize = 65_821 + 0xff_ffff;

/// Fields up to this size stand in place: a pointer would hardly be shorter.
const MAX_INLINE_BYTES: usize = 4;

/// How many bytes of whole values are remembered.
const MAX_WHOLE_BYTES: usize = 64 << 20;

/// Growing bytes and where each stored field begins.
#[derive(Debug)]
pub(super) struct DataSection {
    bytes: Vec<u8>,
    offsets: HashMap<Box<[u8]>, u32>,
    /// Values written without pointers, and where they stand.
    whole: HashMap<Box<[u8]>, u32>,
    whole_bytes: usize,
    /// The value at hand, written without pointers.
    scratch: Vec<u8>,
}

impl DataSection {
    pub(super) fn new() -> DataSection {
        DataSection {
            bytes: Vec::new(),
            offsets: HashMap::new(),
            whole: HashMap::new(),
            whole_bytes: 0,
            scratch: Vec::new(),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Where the value stands, stored now if it was not there yet.
    pub(super) fn store(&mut self, value: &Value) -> Result<u32, MmdbError> {
        self.scratch.clear();
        write_inline(value, &mut self.scratch);
        if let Some(&offset) = self.whole.get(self.scratch.as_slice()) {
            return Ok(offset);
        }
        let encoded = self.encode(value)?;
        let offset = self.intern(encoded)?;
        if self.whole_bytes + self.scratch.len() > MAX_WHOLE_BYTES {
            self.whole.clear();
            self.whole_bytes = 0;
        }
        self.whole_bytes += self.scratch.len();
        self.whole.insert(self.scratch.as_slice().into(), offset);
        Ok(offset)
    }

    fn intern(&mut self, encoded: Vec<u8>) -> Result<u32, MmdbError> {
        if let Some(&offset) = self.offsets.get(encoded.as_slice()) {
            return Ok(offset);
        }
        let offset = self.bytes.len();
        // The tree counts nodes and separator on top; its own check comes at the end.
        let offset = u32::try_from(offset)
            .map_err(|_| refuse(format!("{offset} bytes of data"), "4 GiB"))?;
        self.bytes.extend_from_slice(&encoded);
        self.offsets.insert(encoded.into_boxed_slice(), offset);
        Ok(offset)
    }

    /// The field's bytes, its longer parts replaced by pointers.
    fn encode(&mut self, value: &Value) -> Result<Vec<u8>, MmdbError> {
        let mut out = Vec::new();
        match value {
            Value::Map(pairs) => {
                write_header(7, pairs.len(), &mut out);
                for (key, value) in pairs {
                    let mut encoded = Vec::with_capacity(key.len() + 4);
                    write_text(key, &mut encoded);
                    self.refer(encoded, &mut out)?;
                    self.encode_part(value, &mut out)?;
                }
            }
            Value::Array(values) => {
                write_header(11, values.len(), &mut out);
                for value in values {
                    self.encode_part(value, &mut out)?;
                }
            }
            _ => write_scalar(value, &mut out),
        }
        Ok(out)
    }

    fn encode_part(&mut self, value: &Value, out: &mut Vec<u8>) -> Result<(), MmdbError> {
        match value {
            Value::Map(_) | Value::Array(_) | Value::String(_) | Value::Bytes(_) => {
                let encoded = self.encode(value)?;
                self.refer(encoded, out)
            }
            _ => {
                write_scalar(value, out);
                Ok(())
            }
        }
    }

    /// Writes a field in place if it is short, else a pointer to its one copy.
    fn refer(&mut self, encoded: Vec<u8>, out: &mut Vec<u8>) -> Result<(), MmdbError> {
        if encoded.len() <= MAX_INLINE_BYTES {
            out.extend(encoded);
            return Ok(());
        }
        let offset = self.intern(encoded)?;
        write_pointer(offset, out);
        Ok(())
    }
}

/// Writes a value without any pointer.
pub(super) fn write_inline(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Map(pairs) => {
            write_header(7, pairs.len(), out);
            for (key, value) in pairs {
                write_text(key, out);
                write_inline(value, out);
            }
        }
        Value::Array(values) => {
            write_header(11, values.len(), out);
            for value in values {
                write_inline(value, out);
            }
        }
        _ => write_scalar(value, out),
    }
}

fn write_scalar(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_text(text, out),
        Value::Bytes(bytes) => {
            write_header(4, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Value::Double(number) => {
            write_header(3, 8, out);
            out.extend(number.to_be_bytes());
        }
        Value::Float(number) => {
            write_header(15, 4, out);
            out.extend(number.to_be_bytes());
        }
        Value::Uint16(number) => write_number(5, u128::from(*number), out),
        Value::Uint32(number) => write_number(6, u128::from(*number), out),
        Value::Uint64(number) => write_number(9, u128::from(*number), out),
        Value::Uint128(number) => write_number(10, *number, out),
        // The shorter forms have no sign, so that a negative number takes all four bytes.
        Value::Int32(number) => write_number(8, u128::from(*number as u32), out),
        Value::Boolean(truth) => write_header(14, usize::from(*truth), out),
        Value::Map(_) | Value::Array(_) => panic!("maps and arrays are written by the callers"),
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_header(2, text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Writes an integer in as few bytes as it needs; zero needs none.
fn write_number(kind: u8, number: u128, out: &mut Vec<u8>) {
    let skip = (number.leading_zeros() / 8) as usize;
    write_header(kind, 16 - skip, out);
    out.extend(number.to_be_bytes().into_iter().skip(skip));
}

/// Writes the control byte, the extended type and the size bytes.
fn write_header(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (code, extra) = match size {
        0..29 => (size as u8, 0),
        29..285 => (29, 1),
        285..65_821 => (30, 2),
        _ => (31, 3),
    };
    let base = [0, 29, 285, 65_821][extra];
    if kind < 8 {
        out.push(kind << 5 | code);
    } else {
        out.extend([code, kind - 7]);
    }
    if extra > 0 {
        out.extend(&((size - base) as u32).to_be_bytes()[4 - extra..]);
    }
}

fn write_pointer(target: u32, out: &mut Vec<u8>) {
    let (code, rest, width) = match target {
        0..2_048 => (0, target, 1),
        2_048..526_336 => (1, target - 2_048, 2),
        526_336..134_744_064 => (2, target - 526_336, 3),
        _ => (3, target, 4),
    };
    let bytes = rest.to_be_bytes();
    let high = if width == 4 { 0 } else { bytes[3 - width] };
    out.push(1 << 5 | code << 3 | high);
    out.extend(&bytes[4 - width..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Section, Token};

    #[test]
    fn pointers_of_every_width_read_back() {
        let edges = [0, 1, 255, 2_047, 2_048, 526_335, 526_336, 1 << 20, 134_744_063, 134_744_064];
        let mut bytes = vec![0; 134_744_065];
        for target in edges {
            let mut pointer = Vec::new();
            write_pointer(target, &mut pointer);
            let next = pointer.len();
            bytes[..next].copy_from_slice(&pointer);
            let token = Section::new(&bytes, 0).token(0).unwrap();
            let Token::Pointer { target: read, next: after } = token else { panic!("{token:?}") };
            assert_eq!((read, after), (target as usize, next));
        }
    }

    #[test]
    fn sizes_of_every_width_read_back() {
        for size in [0, 28, 29, 284, 285, 65_820, 65_821, 70_000, MAX_FIELD_SIZE] {
            let mut bytes = Vec::new();
            write_header(4, size, &mut bytes);
            bytes.resize(bytes.len() + size, 7);
            let Token::Field(field) = Section::new(&bytes, 0).token(0).unwrap() else { panic!() };
            assert_eq!((field.size, field.end()), (size, bytes.len()));
        }
    }

    #[test]
    fn equal_parts_are_stored_once() {
        let text = |text: &str| Value::String(text.to_string());
        let map = |name: &str| Value::Map(vec![("a long key".to_string(), text(name))]);
        let mut data = DataSection::new();
        let first = data.store(&map("a long value")).unwrap();
        let size = data.bytes.len();
        assert_eq!(data.store(&map("a long value")).unwrap(), first);
        assert_eq!(data.bytes.len(), size);
        data.store(&map("another value")).unwrap();
        let copies = data.bytes.windows(10).filter(|bytes| bytes == b"a long key").count();
        assert_eq!(copies, 1);
        // A record that is a bare string shares the copy too.
        let size = data.bytes.len();
        data.store(&text("another value")).unwrap();
        assert_eq!(data.bytes.len(), size);
    }
}
