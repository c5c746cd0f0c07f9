//! XML and GPX: an element for each record, with values in attributes, children and ancestors.
//!
//! For: documents of one root, of any depth up to [`DEPTH_MAX`]. Not for: namespaces (prefixes are
//! compared as they are written), document types (refused), encodings other than UTF-8.
//!
//! ```text
//! walk.rs     the document around the records: which elements are open, where records begin
//!   ├─ shape.rs    a record of a known shape
//!   └─ element.rs  any other record; its shape is learned
//!        └─ pull.rs   quick-xml's events with places, and tags that do not end
//! ```
//!
//! Invariants: an element is a record by its path from the root; a record whose markup is broken is
//! rejected alone wherever one can tell where the next begins (a tag that never ends, an end tag
//! that is missing); else the scan ends there.

mod element;
mod pull;
mod walk;

use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::mapping::path_help;
use crate::source::{Format, MappingSource};
use pull::{Pull, Stop, Token};
pub(crate) use walk::scan;

/// Elements may lie so deep.
const DEPTH_MAX: usize = 64;
/// How many kinds of records a mapping may name.
const RECORD_PATH_MAX: usize = 16;

/// Where records, slots and items are.
#[derive(Clone, Debug)]
pub(crate) struct XmlPaths {
    /// The names from the root to each kind of record.
    records: Vec<Vec<String>>,
    slots: Vec<XmlPath>,
    items: Option<XmlItems>,
    /// Whether any slot is a value of an element around the record.
    has_outer: bool,
}

/// One value, seen from the record or from the item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct XmlPath {
    /// How many elements up; then at most one child.
    up: usize,
    children: Vec<String>,
    /// Without one, the element's text.
    attribute: Option<String>,
}

#[derive(Clone, Debug)]
struct XmlItems {
    each: Vec<String>,
    key: XmlPath,
    count: Option<XmlPath>,
}

impl XmlPaths {
    pub(crate) fn compile(
        source: &MappingSource,
        paths: &[String],
    ) -> Result<XmlPaths, MappingError> {
        let records = source.record.split('|').map(record_path).collect::<Result<Vec<_>, _>>()?;
        if records.len() > RECORD_PATH_MAX {
            let found = format!("{} paths", records.len());
            return Err(MappingError::new("record", found, format!("at most {RECORD_PATH_MAX}")));
        }
        let slots = paths.iter().map(|path| XmlPath::parse("path", path));
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let items = match &source.items {
            None => None,
            Some(items) => {
                let each = record_path(&items.each).map_err(|error| {
                    MappingError::new("items.each", error.found(), "loot or loots/loot")
                })?;
                let key = within("items.key", &items.key)?;
                let count = items.count.as_deref();
                let count = count.map(|path| within("items.count", path)).transpose()?;
                if count.as_ref() == Some(&key) {
                    let found = format!("{:?}, as items.key", items.key);
                    return Err(MappingError::new("items.count", found, "a path of its own"));
                }
                Some(XmlItems { each, key, count })
            }
        };
        let has_outer = slots.iter().any(|slot| slot.up > 0);
        Ok(XmlPaths { records, slots, items, has_outer })
    }
}

/// Names from an element downwards, as `upload/sighting`.
fn record_path(text: &str) -> Result<Vec<String>, MappingError> {
    let text = text.trim();
    let names: Vec<String> =
        text.strip_prefix('/').unwrap_or(text).split('/').map(str::to_owned).collect();
    if names.iter().all(|name| is_name(name)) && names.len() < DEPTH_MAX {
        return Ok(names);
    }
    let allowed = "names from the root to a record's element, such as upload/sighting";
    Err(MappingError::new("record", format!("{text:?}"), allowed))
}

/// A path within an item.
fn within(key: &str, text: &str) -> Result<XmlPath, MappingError> {
    let path = XmlPath::parse(key, text)?;
    if path.up > 0 {
        return Err(MappingError::new(
            key,
            format!("{text:?}"),
            "a path within the element, without ..",
        ));
    }
    Ok(path)
}

/// Whether it could be the name of an element or attribute: nothing that is markup or a path.
fn is_name(text: &str) -> bool {
    let is_markup = |byte: u8| byte <= b' ' || b"<>/\"'=@&|".contains(&byte);
    !text.is_empty() && !text.bytes().any(is_markup) && text.bytes().any(|byte| byte != b'.')
}

impl XmlPath {
    fn parse(key: &str, text: &str) -> Result<XmlPath, MappingError> {
        let wrong = || Err(MappingError::new(key, format!("{text:?}"), path_help(Format::Xml)));
        let mut path = XmlPath { up: 0, children: Vec::new(), attribute: None };
        if text == "." {
            return Ok(path);
        }
        for step in text.split('/') {
            if path.attribute.is_some() {
                return wrong();
            }
            match step.strip_prefix('@') {
                Some(name) if is_name(name) => path.attribute = Some(name.to_owned()),
                None if step == ".." && path.children.is_empty() => path.up += 1,
                None if is_name(step) => path.children.push(step.to_owned()),
                _ => return wrong(),
            }
        }
        let is_own = path.attribute.is_none() && path.children.is_empty();
        if path.up > 0 && (path.children.len() > 1 || is_own) {
            return wrong();
        }
        Ok(path)
    }

    /// Whether it is this attribute, or the text, of the element that these names lead to.
    fn is(&self, names: &[&str], attribute: Option<&str>) -> bool {
        self.up == 0 && self.attribute.as_deref() == attribute && self.children == *names
    }
}

/// Whether the beginning is that of a document whose root can hold records.
pub(crate) fn check(paths: &XmlPaths, upload: &[u8], start: usize) -> Result<(), UploadError> {
    /// Where a root has begun nearly always, and where it must have.
    const HEAD_SIZES_BYTES: [usize; 2] = [1 << 10, 1 << 16];
    let head = |size_bytes: usize| &upload[..upload.len().min(start + size_bytes)];
    let [near, far] = HEAD_SIZES_BYTES.map(head);
    check_head(paths, near, start).or_else(|_| check_head(paths, far, start))
}

fn check_head(paths: &XmlPaths, upload: &[u8], start: usize) -> Result<(), UploadError> {
    let text = crate::upload::valid_text(upload, 0);
    let mut pull = Pull::new(text, start);
    loop {
        match pull.next() {
            Ok(Token::Start { tag, .. }) => return check_root(paths, tag.start, tag.name),
            Ok(Token::Declaration { encoding }) => check_encoding(encoding.as_deref())?,
            Ok(Token::Text { text, start }) if text.trim_ascii().is_empty() => _ = start,
            Ok(Token::Other) => {}
            Ok(Token::Eof) => {
                let message = "no element in its beginning";
                return Err(UploadError::new(UploadErrorKind::WrongFormat, start, message));
            }
            Ok(_) => return Err(not_xml(&upload[start..], start)),
            Err(Stop::Broken { start, .. }) => {
                let message = "the root's tag does not end";
                return Err(UploadError::new(UploadErrorKind::Malformed, start, message));
            }
            Err(Stop::End(error)) => return Err(error),
        }
    }
}

fn not_xml(rest: &[u8], start: usize) -> UploadError {
    let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let found = rest.get(blank).copied().unwrap_or(b' ').escape_ascii();
    let message = format!("'{found}' where XML begins with '<'");
    UploadError::new(UploadErrorKind::WrongFormat, start + blank, message)
}

fn check_root(paths: &XmlPaths, at: usize, name: &str) -> Result<(), UploadError> {
    if paths.records.iter().any(|record| record[0] == name) {
        return Ok(());
    }
    let found = crate::upload::shown(name.as_bytes());
    let message = format!("the root is {found}; records are in '{}'", paths.records[0].join("/"));
    Err(UploadError::new(UploadErrorKind::WrongFormat, at, message))
}

fn check_encoding(encoding: Option<&str>) -> Result<(), UploadError> {
    match encoding {
        Some(name) if !["utf-8", "utf8", "us-ascii"].contains(&&*name.to_ascii_lowercase()) => {
            let found = crate::upload::shown(name.as_bytes());
            let message = format!("encoding {found} is declared; only UTF-8 is read");
            Err(UploadError::new(UploadErrorKind::Encoding, 0, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "xml_tests.rs"]
mod tests;
