//! NDJSON: one object on each line, whose values are found by dotted paths.
//!
//! For: lines of any JSON object, nested as deep as serde_json allows. Not for: one object over
//! several lines, or an array around all of them.
//!
//! ```text
//! {"object":123,"at":{"x":12.3,"y":45.6},"loot":[{"item":9,"n":2}]}     object, at.x, loot each
//! a line of a known shape: shape.rs     any other: serde_json, then its shape is learned
//! ```
//!
//! Invariants: one line is one record; a line that is no object is rejected alone, as is one that
//! is not UTF-8 or too long. A key that comes twice counts where it comes last.
//! Cost: a line of a known shape allocates nothing.

mod outline;

use memchr::memchr;
use serde_json::Value as Json;

use crate::assemble::{Assembler, Texts, reject};
use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::{Mapping, path_help};
use crate::shape::Shapes;
use crate::source::{Format, MappingSource};
use crate::upload::{ITEM_COUNT_MAX, RECORD_SIZE_MAX_BYTES, valid_text};

/// Where the slots are.
#[derive(Clone, Debug)]
pub(crate) struct JsonPaths {
    slots: Vec<Vec<String>>,
    items: Option<JsonItems>,
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
        paths: &[String],
    ) -> Result<JsonPaths, MappingError> {
        if !source.record.is_empty() {
            let found = format!("{:?}", source.record);
            return Err(MappingError::new("record", found, "nothing: each line is a record"));
        }
        let slots = paths.iter().map(|path| split("path", path)).collect::<Result<_, _>>()?;
        let items = match &source.items {
            None => None,
            Some(items) => {
                let key = within("items.key", &items.key)?;
                let count = items.count.as_deref();
                let count = count.map(|path| within("items.count", path)).transpose()?;
                if count.as_ref() == Some(&key) {
                    let found = format!("{:?}, as items.key", items.key);
                    return Err(MappingError::new("items.count", found, "a path of its own"));
                }
                Some(JsonItems { each: split("items.each", &items.each)?, key, count })
            }
        };
        Ok(JsonPaths { slots, items })
    }
}

fn split(key: &str, path: &str) -> Result<Vec<String>, MappingError> {
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(MappingError::new(key, format!("{path:?}"), path_help(Format::Ndjson)));
    }
    Ok(names)
}

/// A path within an element, which may be the element itself.
fn within(key: &str, path: &str) -> Result<Vec<String>, MappingError> {
    if path == "." { Ok(Vec::new()) } else { split(key, path) }
}

/// Whether the first line begins as an object does.
pub(crate) fn check(upload: &[u8], start: usize) -> Result<(), UploadError> {
    let blank = upload[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let at = start + blank;
    let wrong = |message: String| Err(UploadError::new(UploadErrorKind::WrongFormat, at, message));
    match upload[at] {
        b'{' => Ok(()),
        b'<' => wrong("'<' where each line is a JSON object; is it XML?".to_owned()),
        b'[' => wrong("'[' where each line is a JSON object; an array is not read".to_owned()),
        byte => wrong(format!("'{}' where each line is a JSON object", byte.escape_ascii())),
    }
}

/// Reads all lines; see [`Mapping::scan`].
pub(crate) fn scan<E: Events>(
    mapping: &Mapping,
    paths: &JsonPaths,
    upload: &[u8],
    start: usize,
    events: &mut E,
    quick: bool,
) -> Result<Totals, UploadError> {
    let valid_end = start + valid_text(upload, start).len();
    let mut totals = Totals::default();
    let mut shapes = Shapes::new();
    let base = vec![None; mapping.roles.slot_count];
    let mut texts = Texts::new(base.len());
    let mut assembler = Assembler::new(mapping);
    let mut at = start;
    while at < upload.len() {
        if quick
            && let Some(length) = shapes.read(&upload[at..], &base, &mut texts)
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
            match read(line) {
                Ok(json) => {
                    let mut texts = Texts::new(base.len());
                    match fill(paths, &json, &mut texts) {
                        Ok(()) => {
                            let found = &texts;
                            Assembler::new(mapping).hand_out(at, found, &mut totals, events);
                            let record = at..at + line.len();
                            if quick && let Some(sketch) = outline::sketch(paths, upload, &record) {
                                shapes.learn(upload, record, &sketch, b",", &base, found);
                            }
                        }
                        Err(reason) => reject(at, &reason, &mut totals, events),
                    }
                }
                Err(reason) => reject(at, &reason, &mut totals, events),
            }
        }
        at += length + 1;
    }
    Ok(totals)
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

/// The line's object.
fn read(line: &[u8]) -> Result<Json, String> {
    if line.len() > RECORD_SIZE_MAX_BYTES {
        return Err(format!("a line of more than {RECORD_SIZE_MAX_BYTES} bytes"));
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Err("the line is not UTF-8".to_owned());
    };
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(Json::Object(object)),
        Ok(_) => Err("the line is no JSON object".to_owned()),
        Err(error) => Err(format!("the line is no JSON: {error}")),
    }
}

/// The texts of an object by its paths.
fn fill<'a>(paths: &JsonPaths, object: &'a Json, texts: &mut Texts<'a>) -> Result<(), String> {
    for (path, slot) in paths.slots.iter().zip(&mut texts.slots) {
        *slot = text_at(object, path)?;
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
