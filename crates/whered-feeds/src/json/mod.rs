//! JSON: one object on each line, or documents with arrays of records (`document.rs`).
//!
//! For: objects of any depth that serde_json reads, by dotted paths. Not for: a line's object over
//! several lines, or an array around the lines; these are documents.
//!
//! ```text
//! {"object":123,"at":{"x":12.3,"y":45.6},"loot":[{"item":9,"n":2}]}     object, at.x, loot each
//! a line of a known shape: shape.rs     any other: serde_json, then its shape is learned
//! ```
//!
//! Invariants: one line is one record; a line that is no object is rejected alone, as is one that
//! is not UTF-8 or too long. A key that comes twice counts where it comes last.
//! Cost: a line of a known shape allocates nothing.

mod document;
mod outline;
mod path;

use std::ops::Range;

use memchr::memchr;
use serde_json::Value as Json;

use crate::assemble::{Assembler, Texts, reject};
use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::Scan;
use crate::shape::Shapes;
use crate::source::{Format, MappingSource};
use crate::upload::{ITEM_COUNT_MAX, RECORD_SIZE_MAX_BYTES, valid_text};
use path::{JsonPath, RecordPath};

/// Where the slots are.
#[derive(Clone, Debug)]
pub(crate) struct JsonPaths {
    slots: Vec<JsonPath>,
    items: Option<JsonItems>,
    /// Of documents; lines have none.
    record: Option<RecordPath>,
}

#[derive(Clone, Debug)]
struct JsonItems {
    each: Vec<String>,
    /// Empty: the element itself.
    key: Vec<String>,
    count: Option<Vec<String>>,
}

impl JsonPaths {
    pub(crate) fn compile(
        source: &MappingSource,
        paths: &[(String, String)],
    ) -> Result<JsonPaths, MappingError> {
        let format = source.format;
        let record = if format == Format::Ndjson {
            if !source.record.is_empty() {
                let found = format!("{:?}", source.record);
                let allowed = "nothing: each line is a record; format = \"json\" has arrays";
                return Err(MappingError::new("record", found, allowed));
            }
            None
        } else {
            Some(RecordPath::parse(&source.record, format == Format::GeoJson)?)
        };
        let slots = paths.iter().map(|(key, path)| {
            let slot = JsonPath::parse(key, path, format)?;
            let outer = record.as_ref().map_or(0, RecordPath::outer_count);
            if slot.up > outer {
                let found = format!("{path:?}, where records have {outer} outer levels");
                return Err(MappingError::new(key, found, "a path with fewer ../"));
            }
            Ok(slot)
        });
        let slots = slots.collect::<Result<_, _>>()?;
        let items = match &source.items {
            None => None,
            Some(items) => {
                let key = within("items.key", &items.key, format)?;
                let count = items.count.as_deref();
                let count = count.map(|path| within("items.count", path, format)).transpose()?;
                if count.as_ref() == Some(&key) {
                    let found = format!("{:?}, as items.key", items.key);
                    return Err(MappingError::new("items.count", found, "a path of its own"));
                }
                let each =
                    JsonPath::parse("items.each", &items.each, format)?.below("items.each")?;
                Some(JsonItems { each, key, count })
            }
        };
        Ok(JsonPaths { slots, items, record })
    }
}

/// A path within an element, which may be the element itself.
fn within(key: &str, path: &str, format: Format) -> Result<Vec<String>, MappingError> {
    if path == "." { Ok(Vec::new()) } else { JsonPath::parse(key, path, format)?.below(key) }
}

/// Whether the first line begins as an object does, or the document as one.
pub(crate) fn check(paths: &JsonPaths, upload: &[u8], start: usize) -> Result<(), UploadError> {
    let blank = upload[start..].iter().take_while(|byte| is_blank(**byte)).count();
    let at = start + blank;
    let wrong = |message: String| Err(UploadError::new(UploadErrorKind::WrongFormat, at, message));
    let what = if paths.record.is_some() {
        "a JSON document begins"
    } else {
        "each line is a JSON object"
    };
    match upload.get(at) {
        Some(b'{') => Ok(()),
        Some(b'[') if paths.record.is_some() => Ok(()),
        Some(b'<') => wrong(format!("'<' where {what}; is it XML?")),
        Some(b'[') => wrong(format!("'[' where {what}; an array is read with format = \"json\"")),
        Some(byte) => wrong(format!("'{}' where {what}", byte.escape_ascii())),
        None => wrong("no JSON".to_owned()),
    }
}

/// White space, and the mark between the documents of a sequence (RFC 7464).
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x1e
}

/// Reads all records; see [`crate::Mapping::scan`].
pub(crate) fn scan<E: Events>(
    scan: &Scan<'_>,
    paths: &JsonPaths,
    events: &mut E,
) -> Result<Totals, UploadError> {
    match &paths.record {
        None => Ok(scan_lines(scan, paths, events)),
        Some(record) => document::scan(scan, paths, record, events),
    }
}

fn scan_lines<E: Events>(scan: &Scan<'_>, paths: &JsonPaths, events: &mut E) -> Totals {
    let (mapping, upload, base) = (scan.mapping, scan.text, scan.base);
    let valid_end = scan.start + valid_text(upload, scan.start).len();
    let mut totals = Totals::default();
    let mut shapes = Shapes::new();
    let mut texts = Texts::new(base.len());
    let mut assembler = Assembler::new(mapping);
    let mut at = scan.start;
    while at < upload.len() {
        if scan.quick
            && let Some(length) = shapes.read(&upload[at..], base, &mut texts)
            && let Some(next) = line_end(upload, at + length)
            && at + length <= valid_end
            && length <= RECORD_SIZE_MAX_BYTES
        {
            assembler.hand_out(at, &texts, &mut totals, events);
            at = next;
            continue;
        }
        let length = memchr(b'\n', &upload[at..]).unwrap_or(upload.len() - at);
        let line = &upload[at..at + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.trim_ascii().is_empty() {
            let record = at..at + line.len();
            by_library(scan, paths, record, "the line", base, &mut shapes, (&mut totals, events));
        }
        at += length + 1;
    }
    totals
}

/// Reads a record of no known shape, hands it out, and learns its shape.
fn by_library<E: Events>(
    scan: &Scan<'_>,
    paths: &JsonPaths,
    record: Range<usize>,
    what: &str,
    base: &[Option<&[u8]>],
    shapes: &mut Shapes,
    (totals, events): (&mut Totals, &mut E),
) {
    let (mapping, upload, at) = (scan.mapping, scan.text, record.start);
    let is_document = paths.record.is_some();
    let json = match read(&upload[record.clone()], what, is_document) {
        Ok(json) => json,
        Err(reason) => return reject(at, &reason, totals, events),
    };
    let mut texts = Texts { slots: base.to_vec(), ..Texts::default() };
    if let Err(reason) = fill(paths, &json, &mut texts) {
        return reject(at, &reason, totals, events);
    }
    let found = &texts;
    Assembler::new(mapping).hand_out(at, found, totals, events);
    if scan.quick
        && let Some(sketch) = outline::sketch(paths, upload, &record)
    {
        shapes.learn(upload, record, &sketch, b",", base, found);
    }
}

/// Where the next line begins, if the record ends its own.
#[inline]
fn line_end(upload: &[u8], at: usize) -> Option<usize> {
    match upload.get(at) {
        None => Some(at),
        Some(b'\n') => Some(at + 1),
        Some(b'\r') if upload.get(at + 1) == Some(&b'\n') => Some(at + 2),
        Some(_) => None,
    }
}

/// The record's object; in documents it may be an array.
fn read(record: &[u8], what: &str, may_be_array: bool) -> Result<Json, String> {
    if record.len() > RECORD_SIZE_MAX_BYTES {
        let kind = what.trim_start_matches("the ");
        return Err(format!("a {kind} of more than {RECORD_SIZE_MAX_BYTES} bytes"));
    }
    let Ok(text) = std::str::from_utf8(record) else {
        return Err(format!("{what} is not UTF-8"));
    };
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(Json::Object(object)),
        Ok(Json::Array(array)) if may_be_array => Ok(Json::Array(array)),
        Ok(_) => Err(format!("{what} is no JSON object")),
        Err(error) => Err(format!("{what} is no JSON: {error}")),
    }
}

/// The texts of an object by its paths.
fn fill<'a>(paths: &JsonPaths, object: &'a Json, texts: &mut Texts<'a>) -> Result<(), String> {
    for (path, slot) in paths.slots.iter().zip(&mut texts.slots) {
        if path.up == 0 {
            *slot = text_at(object, &path.names)?;
        }
    }
    let Some(items) = &paths.items else { return Ok(()) };
    match walk(object, &items.each) {
        None | Some(Json::Null) => Ok(()),
        Some(Json::Array(elements)) if elements.len() > ITEM_COUNT_MAX => {
            Err(format!("{} items; allowed: {ITEM_COUNT_MAX}", elements.len()))
        }
        Some(Json::Array(elements)) => {
            for element in elements {
                let count = items.count.as_ref().map(|path| text_at(element, path));
                texts.items.push((text_at(element, &items.key)?, count.transpose()?.flatten()));
            }
            Ok(())
        }
        Some(_) => Err(format!("{} is no array", items.each.join("."))),
    }
}

fn walk<'a>(json: &'a Json, path: &[String]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, name| match json {
        Json::Object(object) => object.get(name),
        Json::Array(elements) => elements.get(index(name)?),
        _ => None,
    })
}

/// An element's number as paths write it: digits without leading zeros.
fn index(name: &str) -> Option<usize> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = name.len() > 1 && name.starts_with('0');
    if is_plain && !has_zeros { name.parse().ok() } else { None }
}

fn text_at<'a>(json: &'a Json, path: &[String]) -> Result<Option<&'a [u8]>, String> {
    let kind = match walk(json, path) {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::String(text)) => return Ok(Some(text.as_bytes())),
        Some(Json::Number(number)) => return Ok(Some(number.as_str().as_bytes())),
        Some(Json::Bool(true)) => return Ok(Some(b"true")),
        Some(Json::Bool(false)) => return Ok(Some(b"false")),
        Some(Json::Array(_)) => "an array",
        Some(Json::Object(_)) => "an object",
    };
    Err(format!(
        "{} is {kind}",
        if path.is_empty() { "an item".to_owned() } else { path.join(".") }
    ))
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
