//! One value of a table: borrowed while the table is locked, or owned; and keys as bytes.
//!
//! Not for: how values lie in a row (`rows.rs`).
//!
//! ```text
//! key  = cell cell ...            one for each key column, in the schema's order
//! cell = 0                        absent
//!        1 | varint(zigzag)       integer, time
//!        2 | f64, little endian   number
//!        3 | varint(length) | bytes
//! ```
//! Invariant: equal keys have equal bytes and the other way round; -0.0 is written as 0.0, and
//! there is no key with a number that is none. Cost: one pass over the bytes.

/// One value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// There is none.
    Absent,
    /// A whole number.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// Text; bytes as they came, which are UTF-8 unless the upload lied.
    Text(&'a [u8]),
    /// Milliseconds since 1970.
    Time(i64),
}

/// One value, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is none.
    Absent,
    /// A whole number.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// Text.
    Text(Vec<u8>),
    /// Milliseconds since 1970.
    Time(i64),
}

/// What kind of values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Numbers with 53 bits.
    Number,
    /// Texts.
    Text,
    /// Milliseconds since 1970.
    Time,
}

impl ColumnKind {
    /// The name in the configuration and in replies.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::Integer => "integer",
            ColumnKind::Number => "number",
            ColumnKind::Text => "text",
            ColumnKind::Time => "time",
        }
    }

    /// Numbers are for ever: the journal has them.
    pub(crate) fn number(self) -> u8 {
        match self {
            ColumnKind::Integer => 0,
            ColumnKind::Number => 1,
            ColumnKind::Text => 2,
            ColumnKind::Time => 3,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<ColumnKind> {
        let all = [ColumnKind::Integer, ColumnKind::Number, ColumnKind::Text, ColumnKind::Time];
        all.get(usize::from(number)).copied()
    }
}

impl Cell<'_> {
    /// A copy that owns its text.
    pub fn to_value(self) -> Value {
        match self {
            Cell::Absent => Value::Absent,
            Cell::Integer(value) => Value::Integer(value),
            Cell::Number(value) => Value::Number(value),
            Cell::Text(text) => Value::Text(text.to_vec()),
            Cell::Time(value) => Value::Time(value),
        }
    }
}

impl Value {
    /// The value with its text borrowed.
    pub fn as_cell(&self) -> Cell<'_> {
        match self {
            Value::Absent => Cell::Absent,
            Value::Integer(value) => Cell::Integer(*value),
            Value::Number(value) => Cell::Number(*value),
            Value::Text(text) => Cell::Text(text),
            Value::Time(value) => Cell::Time(*value),
        }
    }
}

/// Appends a number in as few bytes as it needs, seven bits each.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small numbers of either sign become small ones.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The opposite of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes a varint off the front; `None` when there is none.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        // The tenth byte has one bit.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes this many bytes off the front.
#[inline]
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let length = usize::try_from(length).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Appends one cell of a key.
#[inline]
pub(crate) fn push_key_cell(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Absent => out.push(0),
        Cell::Integer(value) | Cell::Time(value) => {
            out.push(1);
            push_varint(out, zigzag(value));
        }
        Cell::Number(value) if value.is_nan() => out.push(0),
        Cell::Number(value) => {
            out.push(2);
            out.extend_from_slice(&(value + 0.0).to_le_bytes());
        }
        Cell::Text(text) => {
            out.push(3);
            push_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }
}

/// Takes one cell of a key off the front; `None` when the bytes are no key of these kinds.
#[inline]
pub(crate) fn take_key_cell<'a>(bytes: &mut &'a [u8], kind: ColumnKind) -> Option<Cell<'a>> {
    let (&form, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match (form, kind) {
        (0, _) => Cell::Absent,
        (1, ColumnKind::Integer) => Cell::Integer(unzigzag(take_varint(bytes)?)),
        (1, ColumnKind::Time) => Cell::Time(unzigzag(take_varint(bytes)?)),
        (2, ColumnKind::Number) => {
            let number = take_bytes(bytes, 8)?.try_into().ok()?;
            Cell::Number(f64::from_le_bytes(number))
        }
        (3, ColumnKind::Text) => {
            let length = take_varint(bytes)?;
            Cell::Text(take_bytes(bytes, length)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_cut_ones_are_refused() {
        let cells = [
            (Cell::Text(b"herb"), ColumnKind::Text),
            (Cell::Integer(-5), ColumnKind::Integer),
            (Cell::Absent, ColumnKind::Number),
            (Cell::Number(1.5), ColumnKind::Number),
            (Cell::Time(i64::MIN), ColumnKind::Time),
        ];
        let mut key = Vec::new();
        cells.iter().for_each(|(cell, _)| push_key_cell(&mut key, *cell));
        let read = |key: &[u8]| {
            let mut rest = key;
            let read = cells.iter().map(|(_, kind)| take_key_cell(&mut rest, *kind));
            let read: Option<Vec<Value>> = read.map(|cell| Some(cell?.to_value())).collect();
            read.filter(|_| rest.is_empty())
        };
        let expected: Vec<Value> = cells.iter().map(|(cell, _)| cell.to_value()).collect();
        assert_eq!(read(&key), Some(expected));
        for end in 0..key.len() {
            assert_eq!(read(&key[..end]), None);
        }
    }

    #[test]
    fn varints_of_all_lengths_come_back() {
        for value in (0..64).map(|bits| 1_u64 << bits).chain([0, u64::MAX]) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            let mut rest = &bytes[..];
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }
        assert_eq!(take_varint(&mut &[0xff; 11][..]), None);
    }
}
