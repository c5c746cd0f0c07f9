//! The data section that is being written.
//!
//! Not for the tree. The first time that a part of a value comes it stands where it is needed;
//! later it is a pointer to the first one, where the pointer is shorter. A record that is a part
//! of an earlier one has no copy of its own.
//!
//! ```text
//! {1: "continent", "Asia"}   {1: ->"continent", "Africa"}   {1: ->"continent", ->"Asia"} ...
//! ```
//!
//! Equal parts have one number ([`super::parts`]), so that a table of numbers finds the first
//! copy. Cost: linear in the bytes written.

use super::parts::{Item, Part, Parts};
use super::refuse;
use crate::error::MmdbError;
use crate::value::Value;

/// The largest size that a field can announce.
pub(super) const MAX_FIELD_SIZE: usize = 65_821 + 0xff_ffff;

/// Growing bytes and where each part stands first.
#[derive(Debug)]
pub(super) struct DataSection<'a> {
    parts: &'a Parts,
    bytes: Vec<u8>,
    written: Vec<WrittenPart>,
}

/// Where a part was written, and how many bytes that took; no bytes if it was not yet.
#[derive(Debug, Clone, Copy, Default)]
struct WrittenPart {
    offset: u32,
    size_bytes: u32,
}

impl<'a> DataSection<'a> {
    pub(super) fn new(parts: &'a Parts) -> DataSection<'a> {
        let written = vec![WrittenPart::default(); parts.len()];
        DataSection { parts, bytes: Vec::new(), written }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a part stands; it was written before.
    pub(super) fn offset(&self, part: u32) -> u32 {
        self.written[part as usize].offset
    }

    /// Writes a record, unless it stands somewhere already.
    pub(super) fn add_record(&mut self, part: u32) -> Result<(), MmdbError> {
        if self.written[part as usize].size_bytes == 0 {
            self.write(part)?;
        }
        Ok(())
    }

    fn write(&mut self, part: u32) -> Result<(), MmdbError> {
        let start = self.bytes.len();
        match self.parts.get(part) {
            Part::Scalar(field) => self.bytes.extend_from_slice(field),
            Part::Container { header, items } => {
                self.bytes.extend_from_slice(header);
                for item in items {
                    match item {
                        Item::Field(field) => self.bytes.extend_from_slice(field),
                        Item::Part(part) => self.refer(part)?,
                    }
                }
            }
        }
        // The tree counts nodes and separator on top; its own check comes at the end.
        let fits = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| refuse(format!("{bytes} bytes of data"), "4 GiB"))
        };
        let (offset, size_bytes) = (fits(start)?, fits(self.bytes.len() - start)?);
        let written = &mut self.written[part as usize];
        // What is written again, since it is short, stays known by its first and lowest offset.
        if written.size_bytes == 0 {
            *written = WrittenPart { offset, size_bytes };
        }
        Ok(())
    }

    /// Writes a part, or the pointer to the one that stands already if that is shorter.
    fn refer(&mut self, part: u32) -> Result<(), MmdbError> {
        let WrittenPart { offset, size_bytes } = self.written[part as usize];
        if size_bytes <= pointer_bytes(offset) {
            return self.write(part);
        }
        write_pointer(offset, &mut self.bytes);
        Ok(())
    }
}

/// How many bytes a pointer to this offset takes.
fn pointer_bytes(target: u32) -> u32 {
    match target {
        0..2_048 => 2,
        2_048..526_336 => 3,
        526_336..134_744_064 => 4,
        _ => 5,
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

pub(super) fn write_scalar(value: &Value, out: &mut Vec<u8>) {
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

pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
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
pub(super) fn write_header(kind: u8, size: usize, out: &mut Vec<u8>) {
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
    fn equal_parts_are_written_once() {
        let text = |text: &str| Value::String(text.to_string());
        let map = |name: &str| Value::Map(vec![("a long key".to_string(), text(name))]);
        let mut parts = Parts::default();
        let records = ["a long value", "another value", "a long value"];
        let numbers = records.map(|name| parts.store(&map(name)).unwrap());
        let bare = parts.store(&text("another value")).unwrap();
        assert_eq!(numbers[0], numbers[2]);
        let mut data = DataSection::new(&parts);
        for number in numbers.into_iter().chain([bare]) {
            data.add_record(number).unwrap();
        }
        for wanted in ["a long key", "a long value", "another value"] {
            let copies = data.bytes().windows(wanted.len());
            assert_eq!(copies.filter(|bytes| *bytes == wanted.as_bytes()).count(), 1, "{wanted}");
        }
        // A record that is a part of another one stands inside of it.
        assert!(data.offset(bare) > data.offset(numbers[1]));
    }

    #[test]
    fn what_is_shorter_than_a_pointer_is_written_again() {
        let mut parts = Parts::default();
        let list = Value::Array(vec![Value::Uint16(1), Value::Uint16(1), Value::Uint32(70_000)]);
        let number = parts.store(&list).unwrap();
        let mut data = DataSection::new(&parts);
        data.add_record(number).unwrap();
        assert_eq!(data.bytes(), [3, 4, 0xa1, 1, 0xa1, 1, 0xc3, 1, 0x11, 0x70]);
    }
}
