//! A JSON array of rows, as a stream: each element is what a line of NDJSON is.
//!
//! For: finding where each object begins and ends, on one line or on many. Not for what a row means
//! (`ndjson`). What is between the rows must be JSON, or the reading ends there.
//!
//! Cost: linear in the bytes; memory: one row.
#![deny(clippy::indexing_slicing)]

use super::RowsError;
use super::ndjson::{Line, LineReader, MAX_LINE_BYTES};
use crate::error::shown;
use std::io::{BufRead, BufReader, Read};

/// The next token that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The bracket that opens the array.
    Start,
    /// A row, or the end of an empty array.
    First,
    /// A row behind a comma.
    Next,
    InRow,
    /// A comma or the end.
    Comma,
    End,
}

/// Where the stream is.
struct Splitter {
    state: State,
    /// Brackets that are open in the row.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    line: u64,
    /// The column of the next byte, from 1.
    column: usize,
    row: Vec<u8>,
    row_line: u64,
    row_column: usize,
}

/// Reads every row and gives it, or its fault, to `take`, which says whether to go on.
pub(super) fn read(
    input: impl Read,
    mut take: impl FnMut(Result<Line, RowsError>) -> Result<(), RowsError>,
) -> Result<(), RowsError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut lines = LineReader::default();
    let mut splitter = Splitter {
        state: State::Start,
        depth: 0,
        in_string: false,
        is_escaped: false,
        line: 1,
        column: 1,
        row: Vec::new(),
        row_line: 1,
        row_column: 1,
    };
    loop {
        let line = splitter.line;
        let bytes = input.fill_buf().map_err(|error| {
            RowsError::new(line, "", error.to_string(), "input that can be read")
        })?;
        if bytes.is_empty() {
            break;
        }
        let count = bytes.len();
        for &byte in bytes {
            if splitter.step(byte)? {
                take(lines.read(&splitter.row, splitter.row_line, splitter.row_column))?;
                splitter.row.clear();
            }
            if splitter.row.len() as u64 > MAX_LINE_BYTES {
                let allowed = format!("rows of less than {MAX_LINE_BYTES} bytes");
                return Err(RowsError::new(splitter.row_line, "", "a longer row", allowed));
            }
        }
        input.consume(count);
    }
    if splitter.state != State::End {
        return Err(RowsError::new(splitter.line, "", "the end of the text", "a whole JSON array"));
    }
    Ok(())
}

impl Splitter {
    /// Takes a byte; whether a row ended with it.
    fn step(&mut self, byte: u8) -> Result<bool, RowsError> {
        let is_blank = byte.is_ascii_whitespace();
        let mut is_whole = false;
        let allowed = match self.state {
            State::InRow => {
                self.row.push(byte);
                is_whole = self.ends_row(byte);
                if is_whole {
                    self.state = State::Comma;
                }
                None
            }
            _ if is_blank => None,
            State::Start => self.go(byte == b'[', State::First, "a JSON array"),
            State::First if byte == b']' => self.go(true, State::End, ""),
            State::First | State::Next => {
                self.depth = 1;
                (self.row_line, self.row_column) = (self.line, self.column);
                self.row.push(byte);
                self.go(byte == b'{', State::InRow, "rows that are JSON objects")
            }
            State::Comma if byte == b',' => self.go(true, State::Next, ""),
            State::Comma => self.go(byte == b']', State::End, "a comma, or the end of the array"),
            State::End => self.go(false, State::End, "nothing behind the array"),
        };
        if let Some(allowed) = allowed {
            let found = format!("\"{}\"", shown(&String::from_utf8_lossy(&[byte])));
            return Err(RowsError::new(self.line, "", found, allowed));
        }
        self.line += u64::from(byte == b'\n');
        self.column = if byte == b'\n' { 1 } else { self.column + 1 };
        Ok(is_whole)
    }

    /// Goes on to a state, or says what is allowed.
    fn go(&mut self, is_right: bool, next: State, allowed: &'static str) -> Option<&'static str> {
        if is_right {
            self.state = next;
            return None;
        }
        Some(allowed)
    }

    /// Follows strings and brackets; whether the row ends with this byte.
    fn ends_row(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }
}
