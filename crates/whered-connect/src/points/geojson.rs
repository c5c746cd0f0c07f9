//! GeoJSON as a stream: the Features of a FeatureCollection, or Features one after the other; and
//! other objects in the same two forms, whose list has a name of its own (`detect`).
//!
//! For: finding where each Feature begins and ends without holding the file. Not for what a
//! Feature means (`json`).
//!
//! ```text
//! {"type":"FeatureCollection", "features": [ {...}, {...} ], ... }
//! depth 1            the key ──────┘       │   └ one record: depth 3 and back to 2
//!                                          └ depth 2
//! {...} {...}      without such a key: one record each: depth 1 and back to 0
//! ```
//!
//! Only strings, braces and brackets are looked at; whether a record is JSON is decided when it is
//! parsed, so that a bad one spoils itself only. Unbalanced brackets end the file with an error.
//!
//! Cost: a few operations a byte; memory: one record. What stands in a collection beside its
//! features is passed over, up to the length of one record.

use super::detect;
use super::input::Input;
use super::sample::Objects;
use super::sink::Sink;
use super::{LoadOptions, RECORD_BYTES_MAX, Spot};
use crate::error::ConnectError;

/// Where a collection's features stand: inside its object, inside the array.
const ARRAY_DEPTH: usize = 2;

/// Reads all Features into the sink.
pub(super) fn read(
    input: &mut Input,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut objects = Objects::new(options);
    let key = detect::list_key(input.peek()?, options);
    let key = key.map_or_else(|| b"features".to_vec(), String::into_bytes);
    let read = read_features(input, key, &mut objects, sink);
    objects.end(sink)?;
    read
}

fn read_features(
    input: &mut Input,
    list_key: Vec<u8>,
    objects: &mut Objects<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut splitter = Splitter { line: 1, list_key, ..Splitter::default() };
    let mut count = 0_u64;
    loop {
        let start = input.byte();
        let bytes = input.peek()?;
        if bytes.is_empty() {
            break;
        }
        let mut taken = 0;
        for &byte in bytes {
            taken += 1;
            match splitter.step(byte, start + taken as u64 - 1) {
                Step::More => {}
                Step::Record => break,
                Step::Unbalanced => {
                    let at = start + taken as u64 - 1;
                    let what = format!("byte {at}: a bracket that closes nothing");
                    return Err(input.fault(&what));
                }
            }
        }
        std::io::BufRead::consume(input, taken);
        if splitter.record.len() > RECORD_BYTES_MAX {
            return Err(input.too_long());
        }
        if splitter.is_whole {
            count += 1;
            let spot = Spot::Line { line: splitter.record_line, byte: splitter.record_byte };
            objects.take(spot, &splitter.record, sink)?;
            splitter.next();
        }
    }
    let byte = input.byte();
    if splitter.depth > 0 || splitter.in_string {
        return Err(input.fault(&format!("byte {byte}: ends inside its JSON")));
    }
    if count == 0 && !splitter.has_features {
        return Err(input.fault("has no Features; allowed: a FeatureCollection, or Features"));
    }
    Ok(())
}

/// What a byte came to.
enum Step {
    More,
    Record,
    Unbalanced,
}

/// Where the stream is.
#[derive(Default)]
struct Splitter {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the stream is inside a collection's array of features.
    in_features: bool,
    /// Whether the object that the stream is in had such an array, and whether any had.
    is_collection: bool,
    has_features: bool,
    /// The key of a collection's array.
    list_key: Vec<u8>,
    /// The last string at depth 1, and whether a colon came after it.
    key: Vec<u8>,
    is_key: bool,
    line: u64,
    record: Vec<u8>,
    record_line: u64,
    record_byte: u64,
    is_whole: bool,
}

impl Splitter {
    /// Takes one byte of the stream.
    fn step(&mut self, byte: u8, at: u64) -> Step {
        let outside = if self.in_features { ARRAY_DEPTH } else { 0 };
        if byte == b'\n' {
            self.line += 1;
        }
        if byte == b'{' && !self.in_string && self.depth == outside {
            self.record_line = self.line;
            self.record_byte = at;
        }
        let was_outside = self.depth <= outside;
        let change = self.bracket(byte);
        if outside == 0 && self.in_features {
            // What stood in the collection until here is no record.
            self.record.clear();
            return Step::More;
        }
        if !was_outside || (self.depth > outside && byte == b'{') {
            self.record.push(byte);
        }
        match change {
            None => return Step::Unbalanced,
            Some(_) if self.in_features && self.depth < ARRAY_DEPTH => {
                // The array has ended; what follows in the object is passed over.
                self.in_features = false;
                self.record.clear();
            }
            Some(-1) if self.depth == outside && !was_outside => {
                // The collection's own end is no record.
                if outside == 0 && std::mem::take(&mut self.is_collection) {
                    self.record.clear();
                    return Step::More;
                }
                self.is_whole = true;
                return Step::Record;
            }
            Some(_) => {}
        }
        Step::More
    }

    /// Follows strings and brackets; gives the change of depth, or nothing below the ground.
    fn bracket(&mut self, byte: u8) -> Option<i8> {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ if self.depth == 1 && self.key.len() <= self.list_key.len() => {
                    self.key.push(byte);
                }
                _ => {}
            }
            return Some(0);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.is_key = false;
                self.key.clear();
            }
            b':' => self.is_key = self.depth == 1 && self.key == self.list_key,
            b'{' | b'[' => {
                self.depth += 1;
                if byte == b'[' && self.is_key && self.depth == ARRAY_DEPTH {
                    self.in_features = true;
                    self.is_collection = true;
                    self.has_features = true;
                }
                self.is_key = false;
                return Some(1);
            }
            b'}' | b']' => {
                self.depth = self.depth.checked_sub(1)?;
                return Some(-1);
            }
            b',' => self.is_key = false,
            _ => {}
        }
        Some(0)
    }

    /// Makes room for the next record.
    fn next(&mut self) {
        self.record.clear();
        self.is_whole = false;
    }
}

#[cfg(test)]
#[path = "geojson_tests.rs"]
mod tests;
