//! A column's rows as IP addresses.
//!
//! Not for looking them up. Strings are read as everywhere in whered ([`whered_ip::text::read`]):
//! blanks, brackets, a port or a zone around an address are taken off, and an IPv4-mapped address
//! is the IPv4 address that it stands for.
//!
//! Cost: nothing is copied; a row takes one parse, those of a dictionary one for each entry.

use std::net::{IpAddr, Ipv6Addr};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, GenericStringArray, Int64Array, OffsetSizeTrait,
    StringViewArray, UInt32Array, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whered_ip::text;

use super::{Invalid, Piece};
use crate::arrow::input::{Column, wrong_type};
use crate::pieces::{ROWS, check_signals};

/// The types of columns that hold addresses, for messages.
const ALLOWED: &str = "strings (Utf8, LargeUtf8, Utf8View, also in dictionaries), IPv4 addresses as \
                       UInt32, UInt64 or Int64, and FixedSizeBinary(16)";

/// How many rows are read at once: their answers stay near.
pub(crate) const BATCH_ROWS: usize = 1024;

/// A column of addresses.
pub(crate) struct Addresses {
    chunks: Vec<Chunk>,
    lengths: Vec<usize>,
}

/// The kind of value in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing.
    Null,
    /// Something that is no address.
    Invalid,
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
}

/// The addresses of some rows.
#[derive(Default)]
pub(crate) struct Batch {
    /// The kind of value in each row.
    pub(crate) kinds: Vec<Kind>,
    /// The IPv4 address of each row; 0 where there is none.
    pub(crate) v4: Vec<u32>,
    /// The rows with IPv6 addresses, in order.
    pub(crate) v6_rows: Vec<u32>,
    /// Their addresses.
    pub(crate) v6: Vec<u128>,
}

enum Chunk {
    Strings(GenericStringArray<i32>),
    LargeStrings(GenericStringArray<i64>),
    Views(StringViewArray),
    /// The parsed entries, and the entry of each row.
    Dictionary {
        entries: Vec<Option<IpAddr>>,
        keys: Vec<Option<u32>>,
        strings: ArrayRef,
    },
    Numbers32(UInt32Array),
    Numbers64(UInt64Array),
    Signed64(Int64Array),
    Bytes(FixedSizeBinaryArray),
    Nulls,
}

impl Addresses {
    /// The addresses of a column that a caller passed; `what` names the argument in messages.
    ///
    /// # Errors
    ///
    /// `TypeError` for a column of another type, and the errors of [`Column::of_object`].
    pub(crate) fn of_object(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Addresses> {
        let column = Column::of_object(object, what)?;
        let mut arrays = column.chunks;
        if arrays.is_empty() {
            // A column without rows has a type all the same.
            arrays.push(arrow_array::new_empty_array(&column.data_type));
        }
        let refused = || wrong_type(what, &column.data_type, ALLOWED);
        let chunk = |array| Chunk::of(array)?.ok_or_else(refused);
        let chunks: Vec<Chunk> =
            object.py().detach(|| arrays.iter().map(chunk).collect::<PyResult<_>>())?;
        let lengths = arrays.iter().map(Array::len).collect();
        Ok(Addresses { chunks, lengths })
    }

    /// The number of rows of each chunk: answers are chunked in the same way.
    pub(crate) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Reads rows of a chunk, at most [`BATCH_ROWS`]; `batch` is what they hold.
    ///
    /// # Errors
    ///
    /// `ValueError` that names the row, for a row that is no address, if that is asked for.
    pub(crate) fn read(&self, piece: &Piece, batch: &mut Batch, invalid: Invalid) -> PyResult<()> {
        batch.clear();
        if let Some(chunk) = self.chunks.get(piece.chunk) {
            chunk.read(piece, batch);
        }
        if invalid == Invalid::Raise
            && let Some(at) = batch.kinds.iter().position(|kind| *kind == Kind::Invalid)
        {
            let row = piece.rows.start + at;
            let what = self.no_address(piece.chunk, row);
            return Err(PyValueError::new_err(format!("row {}: {what}", piece.before + row)));
        }
        Ok(())
    }
}

impl Addresses {
    /// The error message for a row of a chunk that is no address.
    #[cold]
    pub(crate) fn no_address(&self, chunk: usize, row: usize) -> String {
        let shown = self.chunks.get(chunk).map_or_else(String::new, |chunk| chunk.shown(row));
        format!("{shown} is no IP address")
    }
}

impl Batch {
    fn clear(&mut self) {
        self.kinds.clear();
        self.v4.clear();
        self.v6_rows.clear();
        self.v6.clear();
    }

    #[inline(always)]
    fn push4(&mut self, address: u32) {
        self.kinds.push(Kind::V4);
        self.v4.push(address);
    }

    #[inline(always)]
    fn push_without(&mut self, kind: Kind) {
        self.kinds.push(kind);
        self.v4.push(0);
    }

    fn push6(&mut self, address: u128) {
        self.v6_rows.push(self.kinds.len() as u32);
        self.v6.push(address);
        self.push_without(Kind::V6);
    }

    fn push(&mut self, address: Option<IpAddr>) {
        match address {
            Some(IpAddr::V4(address)) => self.push4(address.to_bits()),
            Some(IpAddr::V6(address)) => self.push6(address.to_bits()),
            None => self.push_without(Kind::Invalid),
        }
    }

    #[inline(always)]
    fn push_text(&mut self, written: &[u8]) {
        match text::parse4(written) {
            Some(address) => self.push4(address),
            None => self.push_other(written),
        }
    }

    #[inline(never)]
    fn push_other(&mut self, written: &[u8]) {
        self.push(text::read(written));
    }
}

impl Chunk {
    /// The addresses of an array; `None` for a type that holds none.
    ///
    /// # Errors
    ///
    /// The exception that a signal handler raised.
    fn of(array: &ArrayRef) -> PyResult<Option<Chunk>> {
        let chunk = match array.data_type() {
            DataType::Utf8 => Chunk::Strings(array.as_string().clone()),
            DataType::LargeUtf8 => Chunk::LargeStrings(array.as_string().clone()),
            DataType::Utf8View => Chunk::Views(array.as_string_view().clone()),
            DataType::UInt32 => Chunk::Numbers32(array.as_primitive::<UInt32Type>().clone()),
            DataType::UInt64 => Chunk::Numbers64(array.as_primitive::<UInt64Type>().clone()),
            DataType::Int64 => Chunk::Signed64(array.as_primitive::<Int64Type>().clone()),
            DataType::FixedSizeBinary(16) => Chunk::Bytes(array.as_fixed_size_binary().clone()),
            DataType::Null => Chunk::Nulls,
            DataType::Dictionary(..) => return Chunk::of_dictionary(array),
            _ => return Ok(None),
        };
        Ok(Some(chunk))
    }

    fn of_dictionary(array: &ArrayRef) -> PyResult<Option<Chunk>> {
        let dictionary = array.as_any_dictionary();
        let strings = match Chunk::of(dictionary.values())? {
            None | Some(Chunk::Dictionary { .. }) => return Ok(None),
            Some(strings) => strings,
        };
        let count = dictionary.values().len();
        let mut entries = Vec::with_capacity(count);
        let mut is_null = Vec::with_capacity(count);
        let mut batch = Batch::default();
        for start in (0..count).step_by(BATCH_ROWS) {
            batch.clear();
            if start % ROWS == 0 {
                check_signals()?;
            }
            let rows = start..(start + BATCH_ROWS).min(count);
            strings.read(&Piece { chunk: 0, rows, before: 0 }, &mut batch);
            let mut v6 = batch.v6.iter();
            for (kind, v4) in batch.kinds.iter().zip(&batch.v4) {
                is_null.push(*kind == Kind::Null);
                entries.push(match kind {
                    Kind::V4 => Some(IpAddr::V4((*v4).into())),
                    Kind::V6 => v6.next().map(|address| IpAddr::V6(Ipv6Addr::from_bits(*address))),
                    Kind::Null | Kind::Invalid => None,
                });
            }
        }
        // Keys of rows that are null mean nothing, and may lie outside.
        let nulls = dictionary.keys().nulls().cloned();
        let keys = if count == 0 {
            vec![None; array.len()]
        } else {
            let keys = dictionary.normalized_keys().into_iter().enumerate();
            let key = |(row, key): (usize, usize)| {
                let is_set = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                (is_set && !is_null.get(key).copied().unwrap_or(true)).then_some(key as u32)
            };
            keys.map(key).collect()
        };
        Ok(Some(Chunk::Dictionary { entries, keys, strings: dictionary.values().clone() }))
    }

    fn read(&self, piece: &Piece, batch: &mut Batch) {
        let rows = piece.rows.clone();
        match self {
            Chunk::Strings(strings) => read_strings(strings, piece, batch),
            Chunk::LargeStrings(strings) => read_strings(strings, piece, batch),
            Chunk::Views(strings) => {
                each(strings.nulls(), rows, batch, |row, batch| {
                    batch.push_text(strings.value(row).as_bytes());
                });
            }
            Chunk::Dictionary { entries, keys, .. } => {
                for key in keys.get(rows).unwrap_or_default() {
                    match key {
                        Some(key) => batch.push(entries.get(*key as usize).copied().flatten()),
                        None => batch.push_without(Kind::Null),
                    }
                }
            }
            Chunk::Numbers32(numbers) => {
                each(numbers.nulls(), rows, batch, |row, batch| batch.push4(numbers.value(row)));
            }
            Chunk::Numbers64(numbers) => each(numbers.nulls(), rows, batch, |row, batch| {
                match u32::try_from(numbers.value(row)) {
                    Ok(address) => batch.push4(address),
                    Err(_) => batch.push_without(Kind::Invalid),
                }
            }),
            Chunk::Signed64(numbers) => each(numbers.nulls(), rows, batch, |row, batch| {
                match u32::try_from(numbers.value(row)) {
                    Ok(address) => batch.push4(address),
                    Err(_) => batch.push_without(Kind::Invalid),
                }
            }),
            Chunk::Bytes(bytes) => each(bytes.nulls(), rows, batch, |row, batch| {
                let address = bytes.value(row).first_chunk().copied().map(u128::from_be_bytes);
                let address = address.map(|bits| IpAddr::V6(bits.into()).to_canonical());
                batch.push(address);
            }),
            Chunk::Nulls => rows.for_each(|_| batch.push_without(Kind::Null)),
        }
    }

    /// What a row holds, as messages show it.
    fn shown(&self, row: usize) -> String {
        let quoted = |text: &str| format!("{text:?}");
        match self {
            Chunk::Strings(strings) => quoted(strings.value(row)),
            Chunk::LargeStrings(strings) => quoted(strings.value(row)),
            Chunk::Views(strings) => quoted(strings.value(row)),
            Chunk::Dictionary { keys, strings, .. } => match keys.get(row) {
                Some(Some(key)) => {
                    let strings = Chunk::of(strings).ok().flatten();
                    strings.map_or_else(String::new, |strings| strings.shown(*key as usize))
                }
                _ => "null".to_owned(),
            },
            Chunk::Numbers32(numbers) => numbers.value(row).to_string(),
            Chunk::Numbers64(numbers) => numbers.value(row).to_string(),
            Chunk::Signed64(numbers) => numbers.value(row).to_string(),
            Chunk::Bytes(_) | Chunk::Nulls => "the value".to_owned(),
        }
    }
}

fn read_strings<O: OffsetSizeTrait>(
    strings: &GenericStringArray<O>,
    piece: &Piece,
    batch: &mut Batch,
) {
    each(strings.nulls(), piece.rows.clone(), batch, |row, batch| {
        batch.push_text(strings.value(row).as_bytes());
    });
}

/// Calls `push` for each row that is not null.
#[inline(always)]
fn each(
    nulls: Option<&NullBuffer>,
    rows: std::ops::Range<usize>,
    batch: &mut Batch,
    push: impl Fn(usize, &mut Batch),
) {
    match nulls {
        None => rows.for_each(|row| push(row, batch)),
        Some(nulls) => rows.for_each(|row| match nulls.is_valid(row) {
            true => push(row, batch),
            false => batch.push_without(Kind::Null),
        }),
    }
}
