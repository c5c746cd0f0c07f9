//! Columns that are asked about: their rows as addresses, in pieces that threads share.
//!
//! Not for taking a column from Python (`arrow::input`).

pub(crate) mod addresses;
pub(crate) mod rows;

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::pieces;

/// What becomes of a row that is no address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// It has no answer.
    Null,
    /// It ends the call with an exception.
    Raise,
}

impl Invalid {
    /// The choice that a caller named.
    ///
    /// # Errors
    ///
    /// `ValueError` for another name.
    pub(crate) fn of_name(name: &str) -> PyResult<Invalid> {
        match name {
            "null" => Ok(Invalid::Null),
            "raise" => Ok(Invalid::Raise),
            other => {
                let what = format!("invalid={other:?}: allowed are \"null\" and \"raise\"");
                Err(PyValueError::new_err(what))
            }
        }
    }
}

/// Some rows of one chunk of a column.
#[derive(Clone)]
pub(crate) struct Piece {
    /// The chunk's number.
    pub(crate) chunk: usize,
    /// The rows of the chunk.
    pub(crate) rows: Range<usize>,
    /// How many rows of the column stand before the chunk.
    pub(crate) before: usize,
}

/// The pieces of a column whose chunks have these lengths, in order.
pub(crate) fn pieces_of(lengths: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut before = 0;
    for (chunk, length) in lengths.iter().enumerate() {
        for start in (0..*length).step_by(pieces::ROWS) {
            let rows = start..(start + pieces::ROWS).min(*length);
            pieces.push(Piece { chunk, rows, before });
        }
        before += length;
    }
    pieces
}
