//! JSON documents with arrays of records: `[{...},{...}]`, `{"aircraft":[{...}]}`, and single ones.
//!
//! For: one document or several one after the other, pretty-printed or not. Not for: a tree of the
//! whole document; only one record at a time is made into one.
//!
//! ```text
//! {"now":1700000000,"aircraft":[{"hex":"3c6444",...},{...}]}
//!  └ ../now: found first         └ a record: shapes first, else where it ends, then serde_json
//! ```
//! Invariants:
//! - what is not part of a record is read for its brackets and strings only, and must have these;
//! - a record whose brackets are right and whose inside is not is rejected alone; where brackets or
//!   strings are broken the scan ends, because nobody knows where the next record begins;
//! - a key of the records' path that comes twice ends the scan.
//!
//! Cost: one pass over all bytes; one more over the outer levels where records want their values.

use std::ops::Range;

use super::path::RecordPath;
use super::{JsonPaths, by_library, is_blank, text_at};
use crate::assemble::{Assembler, Texts};
use crate::error::{UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::Scan;
use crate::shape::Shapes;
use crate::upload::{RECORD_SIZE_MAX_BYTES, TEXT_SIZE_MAX_BYTES, shown, valid_text};

/// Brackets may be so deep.
const DEPTH_MAX: usize = 128;

struct Walk<'s, 'm, E> {
    scan: &'s Scan<'m>,
    paths: &'s JsonPaths,
    record: &'s RecordPath,
    bytes: &'s [u8],
    valid_end: usize,
    at: usize,
    /// The outer values of the open levels, outermost first.
    outer: Vec<Vec<(usize, Vec<u8>)>>,
    shapes: Shapes,
    totals: Totals,
    events: &'s mut E,
}

/// Reads all records of all documents; see [`crate::Mapping::scan`].
pub(super) fn scan<E: Events>(
    scan: &Scan<'_>,
    paths: &JsonPaths,
    record: &RecordPath,
    events: &mut E,
) -> Result<Totals, UploadError> {
    let mut walk = Walk {
        scan,
        paths,
        record,
        bytes: scan.text,
        valid_end: scan.start + valid_text(scan.text, scan.start).len(),
        at: scan.start,
        outer: Vec::new(),
        shapes: Shapes::new(),
        totals: Totals::default(),
        events,
    };
    loop {
        while walk.bytes.get(walk.at).is_some_and(|byte| is_blank(*byte)) {
            walk.at += 1;
        }
        if walk.at == walk.bytes.len() {
            return Ok(walk.totals);
        }
        walk.document()?;
    }
}

impl<E: Events> Walk<'_, '_, E> {
    fn document(&mut self) -> Result<(), UploadError> {
        match (self.bytes[self.at], &self.record.levels[0][..]) {
            // A document that is a record itself.
            (b'{', []) if self.record.levels.len() == 1 => {
                let range = self.value()?;
                let base = self.scan.base;
                self.record(range, base);
                Ok(())
            }
            (b'{', _) if self.record.or_itself && !self.has_records()? => {
                let range = self.value()?;
                let base = self.scan.base;
                self.record(range, base);
                Ok(())
            }
            (b'{' | b'[', _) => self.level(0),
            (byte, _) => {
                let message = format!("'{}' where a JSON document begins", byte.escape_ascii());
                Err(self.error(self.at, &message))
            }
        }
    }

    /// Whether the document has the path of the records, and is none itself.
    fn has_records(&mut self) -> Result<bool, UploadError> {
        let start = self.at;
        let found = self.find(&self.record.levels[0])?;
        self.at = start;
        Ok(found.is_some())
    }

    /// Reads the object or array that holds an array of a level.
    fn level(&mut self, level: usize) -> Result<(), UploadError> {
        let start = self.at;
        let is_outermost = level == 0 && self.record.outer_count() == 0;
        if !is_outermost && self.paths.slots.iter().any(|slot| slot.up > 0) {
            let values = self.outer_values(level)?;
            self.at = start;
            self.outer.push(values);
        }
        let result = self.names(level, 0);
        if !is_outermost {
            self.outer.truncate(level);
        }
        result
    }

    /// Goes down the names of a level from one of them on, and reads the array behind the last.
    fn names(&mut self, level: usize, index: usize) -> Result<(), UploadError> {
        let names = &self.record.levels[level];
        let Some(name) = names.get(index) else { return self.array(level) };
        let start = self.at;
        if self.peek() == Some(b'n') && level + index > 0 {
            return self.value().map(drop);
        }
        if self.peek() != Some(b'{') {
            let path = names[..=index].join(".");
            return Err(self.error(start, &format!("no object that has '{path}'")));
        }
        let mut is_found = false;
        self.at += 1;
        while let Some(key) = self.next_key()? {
            if is(&self.bytes[key.clone()], name) {
                if std::mem::replace(&mut is_found, true) {
                    return Err(self.error(key.start, &format!("the key '{name}' comes twice")));
                }
                self.names(level, index + 1)?;
            } else {
                self.value()?;
            }
        }
        // An inner level may have none, as an empty one has; the outermost one is the upload's.
        if !is_found && level == 0 {
            let message = format!("the document has no '{}'", names[..=index].join("."));
            return Err(self.error(start, &message));
        }
        Ok(())
    }

    /// Reads the elements of a level's array: records, or what holds the next level.
    fn array(&mut self, level: usize) -> Result<(), UploadError> {
        let start = self.at;
        if self.peek() == Some(b'n') {
            return self.value().map(drop);
        }
        if self.peek() != Some(b'[') {
            let message = format!("'{}' is no array", self.record.text);
            return Err(self.error(start, &message));
        }
        self.at += 1;
        let is_last = level + 1 == self.record.levels.len();
        let outer = if is_last { self.outer.concat() } else { Vec::new() };
        let mut base = self.scan.base.to_vec();
        for (slot, text) in &outer {
            base[*slot] = Some(text);
        }
        let mut texts = Texts::new(base.len());
        let mut assembler = Assembler::new(self.scan.mapping);
        let mut is_first = true;
        loop {
            self.blanks();
            match self.bytes.get(self.at) {
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b',') if !is_first => {
                    self.at += 1;
                    self.blanks();
                }
                Some(_) if is_first => {}
                _ => return Err(self.unexpected("',' or ']'")),
            }
            is_first = false;
            if !is_last {
                self.level(level + 1)?;
                continue;
            }
            if self.scan.quick
                && let Some(length) = self.shapes.read(&self.bytes[self.at..], &base, &mut texts)
                && self.at + length <= self.valid_end
                && length <= RECORD_SIZE_MAX_BYTES
            {
                assembler.hand_out(self.at, &texts, &mut self.totals, self.events);
                self.at += length;
                continue;
            }
            let range = self.value()?;
            self.record(range, &base);
        }
    }

    fn record(&mut self, range: Range<usize>, base: &[Option<&[u8]>]) {
        let to = (&mut self.totals, &mut *self.events);
        by_library(self.scan, self.paths, range, "the record", base, &mut self.shapes, to);
    }

    /// The values that records want of this object, by slot.
    fn outer_values(&mut self, level: usize) -> Result<Vec<(usize, Vec<u8>)>, UploadError> {
        let start = self.at;
        let up = self.record.outer_count() - level;
        let mut values = Vec::new();
        for (slot, path) in self.paths.slots.iter().enumerate().filter(|(_, path)| path.up == up) {
            self.at = start;
            let Some(range) = self.find(&path.names)? else { continue };
            if range.len() > TEXT_SIZE_MAX_BYTES {
                let name = path.names.join(".");
                return Err(self.error(range.start, &format!("'{name}' is too long")));
            }
            let at = range.start;
            let json = serde_json::from_slice(&self.bytes[range])
                .map_err(|error| self.error(at, &format!("no JSON: {error}")))?;
            let text = text_at(&json, &[]).map_err(|_| {
                self.error(at, &format!("'{}' is no single value", path.names.join(".")))
            })?;
            values.extend(text.map(|text| (slot, text.to_owned())));
        }
        Ok(values)
    }

    /// Where the value of a path is, from an object or an array on; the last of equal keys counts.
    fn find(&mut self, names: &[String]) -> Result<Option<Range<usize>>, UploadError> {
        let Some((name, rest)) = names.split_first() else { return self.value().map(Some) };
        let mut found = None;
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                while let Some(key) = self.next_key()? {
                    let is_it = is(&self.bytes[key], name);
                    let start = self.at;
                    self.value()?;
                    if is_it {
                        found = Some(start);
                    }
                }
            }
            Some(b'[') => {
                let index: Option<usize> = name.parse().ok();
                self.at += 1;
                let mut count = 0;
                loop {
                    self.blanks();
                    match self.peek() {
                        Some(b']') | None => break,
                        Some(b',') => self.at += 1,
                        _ => {
                            let value = self.value()?;
                            if index == Some(count) {
                                found = Some(value.start);
                            }
                            count += 1;
                        }
                    }
                }
            }
            _ => {}
        }
        let Some(found) = found else { return Ok(None) };
        self.at = found;
        self.find(rest)
    }

    /// The next key of an object that is open, with its value next; `None` behind its end.
    fn next_key(&mut self) -> Result<Option<Range<usize>>, UploadError> {
        self.blanks();
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return Ok(None);
            }
            Some(b',') => {
                self.at += 1;
                self.blanks();
            }
            _ => {}
        }
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key"));
        }
        let key = self.string()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("':'"));
        }
        self.at += 1;
        self.blanks();
        Ok(Some(key))
    }

    /// A string, with its quotes.
    fn string(&mut self) -> Result<Range<usize>, UploadError> {
        let start = self.at;
        let mut at = start + 1;
        loop {
            match memchr::memchr2(b'"', b'\\', self.bytes.get(at..).unwrap_or_default()) {
                Some(length) if self.bytes[at + length] == b'"' => {
                    self.at = at + length + 1;
                    return Ok(start..self.at);
                }
                Some(length) => at += length + 2,
                None => return Err(self.cut(start)),
            }
        }
    }

    /// The value that comes next, by its brackets and strings.
    fn value(&mut self) -> Result<Range<usize>, UploadError> {
        self.blanks();
        let start = self.at;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => _ = self.string()?,
                Some(byte @ (b'{' | b'[')) => {
                    if open.len() >= DEPTH_MAX {
                        let message = format!("brackets deeper than {DEPTH_MAX}");
                        let kind = UploadErrorKind::Limit;
                        return Err(UploadError::new(kind, self.at, message));
                    }
                    open.push(byte);
                    self.at += 1;
                    continue;
                }
                Some(byte @ (b'}' | b']')) => {
                    let fits = open.pop().is_some_and(|open| open + 2 == byte);
                    if !fits {
                        return Err(self.unexpected("a value"));
                    }
                    self.at += 1;
                }
                Some(b',' | b':' | b' ' | b'\n' | b'\r' | b'\t') if !open.is_empty() => {
                    self.at += 1;
                    continue;
                }
                Some(b',' | b':') => return Err(self.unexpected("a value")),
                Some(_) => {
                    let rest = &self.bytes[self.at..];
                    let ends = |byte: &u8| b",:{}[]\" \n\r\t".contains(byte);
                    self.at += rest.iter().position(ends).unwrap_or(rest.len());
                }
                None => return Err(self.cut(start)),
            }
            if open.is_empty() {
                return Ok(start..self.at);
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn unexpected(&self, allowed: &str) -> UploadError {
        match self.bytes.get(self.at) {
            None => self.cut(self.at),
            Some(_) => {
                let rest = &self.bytes[self.at..];
                let found = shown(&rest[..rest.len().min(8)]);
                self.error(self.at, &format!("{found} where {allowed} is allowed"))
            }
        }
    }

    fn cut(&self, start: usize) -> UploadError {
        let message = format!("the upload ends within a value that begins at byte {start}");
        UploadError::new(UploadErrorKind::Truncated, self.bytes.len(), message)
    }

    fn error(&self, at: usize, message: &str) -> UploadError {
        UploadError::new(UploadErrorKind::Malformed, at, message)
    }
}

/// Whether a string of JSON is this text.
fn is(string: &[u8], text: &str) -> bool {
    let inside = &string[1..string.len() - 1];
    if !inside.contains(&b'\\') {
        return inside == text.as_bytes();
    }
    serde_json::from_slice::<String>(string).is_ok_and(|string| string == text)
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
