//! A JSON array of objects, or an object of objects whose keys are the members, as a stream.
//!
//! For: finding where each object begins and ends without holding the file, on one line or on many.
//! Not for what an object means (`json`), nor for objects one after the other (`geojson`).
//!
//! ```text
//! [ {...}, {...} ]                 a record each
//! { "a": {...}, "b": {...} }       a record each, whose member is "a", "b"
//! ```
//!
//! The text between records must be JSON; otherwise the load ends with the byte's offset. Records
//! are only split here: one that is not JSON, or not an object, is bad by itself.
//!
//! Cost: a few operations a byte; memory: one record.

use std::io::BufRead as _;

use super::input::Input;
use super::json;
use super::sample::Objects;
use super::sink::Sink;
use super::{LoadOptions, RECORD_BYTES_MAX, Spot};
use crate::error::ConnectError;

/// Reads all records into the sink.
pub(super) fn read(
    input: &mut Input,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut objects = Objects::new(options);
    let read = read_records(input, options, &mut objects, sink);
    objects.end(sink)?;
    read
}

fn read_records(
    input: &mut Input,
    options: &LoadOptions,
    objects: &mut Objects<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut splitter = Splitter { line: 1, ..Splitter::default() };
    loop {
        let bytes = input.peek()?;
        if bytes.is_empty() {
            break;
        }
        let mut taken = 0;
        let mut step = Ok(false);
        for &byte in bytes {
            step = splitter.step(byte);
            if !matches!(step, Ok(false)) {
                break;
            }
            taken += 1;
        }
        input.consume(taken);
        if splitter.record.len().max(splitter.key.len()) > RECORD_BYTES_MAX {
            return Err(input.too_long());
        }
        match step {
            Ok(false) => {}
            Ok(true) => {
                let spot = Spot::Line { line: splitter.record_line, byte: splitter.record_byte };
                take(&splitter, spot, options, objects, sink)?;
                splitter.record.clear();
            }
            Err(allowed) => return Err(fault(input, splitter.line, allowed)),
        }
    }
    if splitter.state != State::End {
        return Err(input.fault(&format!("byte {}: ends inside its JSON", input.byte())));
    }
    Ok(())
}

/// Gives one record on.
fn take(
    splitter: &Splitter,
    spot: Spot,
    options: &LoadOptions,
    objects: &mut Objects<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    if !splitter.is_object || options.member.is_some() {
        return objects.take(spot, &splitter.record, sink);
    }
    sink.note_members(|| "the key of each object".to_owned());
    let key = serde_json::from_slice::<String>(&splitter.key);
    let key = key.map_err(|error| format!("its key is no JSON: {error}"));
    match key.and_then(|key| Ok((key, json::keyed_position(&splitter.record, options)?))) {
        Ok((key, (longitude, latitude))) => sink.point(longitude, latitude, key.as_bytes(), spot),
        Err(what) => sink.bad(spot, &what),
    }
}

fn fault(input: &mut Input, line: u64, allowed: &str) -> ConnectError {
    let byte = input.byte();
    let found = input.peek().ok().and_then(|bytes| bytes.first().copied());
    let found = found.map_or_else(String::new, |byte| [byte].escape_ascii().to_string());
    input.fault(&format!("line {line} (byte {byte}): found '{found}'; allowed: {allowed}"))
}

/// The next token that is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// The bracket that opens the list.
    #[default]
    Start,
    /// A record or a key, or the end of an empty list.
    First,
    /// A record or a key, behind a comma.
    Next,
    InKey,
    /// The colon behind a key.
    Colon,
    /// A record behind its key.
    Value,
    InRecord,
    /// A comma or the end.
    Comma,
    End,
}

/// Where the stream is.
#[derive(Default)]
struct Splitter {
    state: State,
    /// Whether the list is an object.
    is_object: bool,
    /// Brackets that are open in the record.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    at: u64,
    line: u64,
    /// The text of the record's key, with its quotes.
    key: Vec<u8>,
    record: Vec<u8>,
    record_line: u64,
    record_byte: u64,
}

impl Splitter {
    /// Takes one byte. `true`: the record is whole, and the byte is not taken. On failure says what
    /// is allowed in its place.
    fn step(&mut self, byte: u8) -> Result<bool, &'static str> {
        let is_blank = byte.is_ascii_whitespace();
        match self.state {
            State::InRecord => {
                if self.ends_record(byte) {
                    self.state = State::Comma;
                    return Ok(true);
                }
                self.record.push(byte);
            }
            State::InKey => {
                self.key.push(byte);
                self.string(byte);
                if !self.in_string {
                    self.state = State::Colon;
                }
            }
            _ if is_blank => {}
            State::Start => {
                // RFC 8142 puts this before each text.
                if byte != 0x1e {
                    self.is_object = byte == b'{';
                    if !matches!(byte, b'{' | b'[') {
                        return Err("[ or {");
                    }
                    self.state = State::First;
                }
            }
            State::First if self.closes(byte) => self.state = State::End,
            State::First | State::Next if self.is_object => {
                if byte != b'"' {
                    return Err("a key in quotes");
                }
                self.key.clear();
                self.key.push(byte);
                self.in_string = true;
                self.state = State::InKey;
            }
            State::First | State::Next | State::Value => {
                if matches!(byte, b',' | b':' | b']' | b'}') {
                    return Err("an object");
                }
                (self.record_line, self.record_byte) = (self.line, self.at);
                self.depth = usize::from(matches!(byte, b'{' | b'['));
                self.in_string = byte == b'"';
                self.record.push(byte);
                self.state = State::InRecord;
            }
            State::Colon if byte == b':' => self.state = State::Value,
            State::Colon => return Err("a colon behind the key"),
            State::Comma if byte == b',' => self.state = State::Next,
            State::Comma if self.closes(byte) => self.state = State::End,
            State::Comma => return Err("a comma, or the end of the list"),
            State::End => return Err("nothing behind the list"),
        }
        self.at += 1;
        self.line += u64::from(byte == b'\n');
        Ok(false)
    }

    fn closes(&self, byte: u8) -> bool {
        byte == if self.is_object { b'}' } else { b']' }
    }

    /// Follows a string.
    fn string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    /// Follows the brackets of the record; whether it ended in front of this byte.
    fn ends_record(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.string(byte);
            return false;
        }
        let is_bare = matches!(self.record.first(), Some(first) if !b"{[\"".contains(first));
        let is_over = match is_bare {
            true => matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace(),
            false => self.depth == 0,
        };
        if is_over {
            return true;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        false
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
