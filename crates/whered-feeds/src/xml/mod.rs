//! XML and GPX: an element for each record, with values in attributes, children and ancestors.
//!
//! For: documents of one root, of any depth up to [`DEPTH_MAX`]. Not for: document types (refused).
//! Prefixes are compared as they are written, unless the mapping has namespaces.
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
mod namespaces;
mod path;
mod pull;
mod walk;

use crate::error::{MappingError, UploadError, UploadErrorKind};
use crate::source::MappingSource;
use namespaces::Namespaces;
use path::{Names, XmlPath, record_path, within};
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
    /// Whether any slot is one for each record.
    has_parallel: bool,
    namespaces: Namespaces,
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
        paths: &[(String, String)],
    ) -> Result<XmlPaths, MappingError> {
        let namespaces = Namespaces::compile(&source.namespaces)?;
        let names = Names { namespaces: &namespaces };
        let records = source.record.split('|').map(|path| record_path("record", path, names));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        if records.len() > RECORD_PATH_MAX {
            let found = format!("{} paths", records.len());
            return Err(MappingError::new("record", found, format!("at most {RECORD_PATH_MAX}")));
        }
        let slots = paths.iter().map(|(key, path)| XmlPath::parse(key, path, names));
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let items = match &source.items {
            None => None,
            Some(items) => {
                let each = record_path("items.each", &items.each, names).map_err(|error| {
                    MappingError::new("items.each", error.found(), "loot or loots/loot")
                })?;
                let key = within("items.key", &items.key, names)?;
                let count = items.count.as_deref();
                let count = count.map(|path| within("items.count", path, names)).transpose()?;
                if count.as_ref() == Some(&key) {
                    let found = format!("{:?}, as items.key", items.key);
                    return Err(MappingError::new("items.count", found, "a path of its own"));
                }
                Some(XmlItems { each, key, count })
            }
        };
        let has_outer = slots.iter().any(|slot| slot.up > 0);
        let has_parallel = slots.iter().any(|slot| slot.is_parallel);
        Ok(XmlPaths { records, slots, items, has_outer, has_parallel, namespaces })
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
            Ok(Token::Start { tag, .. }) => {
                let name = paths.namespaces.resolver().name(0, tag).name;
                return check_root(paths, tag.start, tag.name, &name);
            }
            Ok(Token::Declaration) => {}
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

fn check_root(paths: &XmlPaths, at: usize, written: &str, name: &str) -> Result<(), UploadError> {
    if paths.records.iter().any(|record| record[0] == name) {
        return Ok(());
    }
    let found = crate::upload::shown(written.as_bytes());
    let of = if written == name { "" } else { " of another namespace" };
    let message =
        format!("the root is {found}{of}; records are in '{}'", paths.records[0].join("/"));
    Err(UploadError::new(UploadErrorKind::WrongFormat, at, message))
}

#[cfg(test)]
#[path = "xml_tests.rs"]
mod tests;
