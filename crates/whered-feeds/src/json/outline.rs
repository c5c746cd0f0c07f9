//! Where the values of a line are that serde_json has read already: what a shape is learned from.
//!
//! For: lines that are known to be JSON. Not for: judging them; what this reader takes wrongly is
//! found by `Shapes::learn`, which reads the line by the new shape and compares.
//!
//! Cost: one pass, some allocations; done for a handful of lines of an upload.

use std::ops::Range;

use super::JsonPaths;
use crate::shape::{ITEM_COUNT, ITEM_KEY, Kind, Mark, SKIPPED, Sketch};

/// Deeper lines are left to serde_json.
const DEPTH_MAX: usize = 32;
/// So are those with more keys in an object: each key is compared with those before it.
const KEY_COUNT_MAX: usize = 256;

/// The values of the record; `None` if it is too odd for a shape.
pub(super) fn sketch(paths: &JsonPaths, upload: &[u8], record: &Range<usize>) -> Option<Sketch> {
    let mut outline = Outline {
        paths,
        bytes: upload.get(..record.end)?,
        at: record.start,
        sketch: Sketch::default(),
    };
    outline.value(&mut Vec::new(), None)?;
    Some(outline.sketch)
}

struct Outline<'a> {
    paths: &'a JsonPaths,
    bytes: &'a [u8],
    at: usize,
    sketch: Sketch,
}

impl Outline<'_> {
    /// One value of any kind. `item` is how long the path of the item is that it belongs to.
    fn value(&mut self, path: &mut Vec<String>, item: Option<usize>) -> Option<()> {
        if path.len() > DEPTH_MAX {
            return None;
        }
        self.blanks();
        match self.bytes.get(self.at)? {
            b'{' => self.object(path, item),
            b'[' => self.array(path, item),
            b'"' => {
                let range = self.string()?;
                self.mark(path, item, range, Kind::JsonString);
                Some(())
            }
            b't' | b'f' | b'n' => self.scalar(path, item, Kind::JsonWord),
            _ => self.scalar(path, item, Kind::JsonNumber),
        }
    }

    fn object(&mut self, path: &mut Vec<String>, item: Option<usize>) -> Option<()> {
        let bytes = self.bytes;
        let mut keys = Vec::new();
        self.at += 1;
        loop {
            self.blanks();
            match self.bytes.get(self.at)? {
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                b',' => self.at += 1,
                b'"' => {
                    let key = self.string()?;
                    let key = std::str::from_utf8(&bytes[key]).ok()?;
                    // What an escape in a key means, serde_json knows, and which one of two counts.
                    let is_odd = key.contains('\\') || keys.contains(&key);
                    if is_odd || keys.len() == KEY_COUNT_MAX {
                        return None;
                    }
                    keys.push(key);
                    path.push(key.to_owned());
                    self.blanks();
                    if self.bytes.get(self.at) != Some(&b':') {
                        return None;
                    }
                    self.at += 1;
                    self.value(path, item)?;
                    path.pop();
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, path: &mut Vec<String>, item: Option<usize>) -> Option<()> {
        let is_items =
            item.is_none() && self.paths.items.as_ref().is_some_and(|items| items.each == path[..]);
        self.at += 1;
        let mut count = 0_usize;
        loop {
            self.blanks();
            match self.bytes.get(self.at)? {
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                b',' => self.at += 1,
                _ => {
                    path.push(count.to_string());
                    let start = self.at;
                    self.value(path, if is_items { Some(path.len()) } else { item })?;
                    if is_items {
                        self.sketch.items.push(start..self.at);
                    }
                    path.pop();
                    count += 1;
                }
            }
        }
    }

    /// A number or a word.
    fn scalar(&mut self, path: &[String], item: Option<usize>, kind: Kind) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        if length == 0 {
            return None;
        }
        let range = self.at..self.at + length;
        self.at = range.end;
        self.mark(path, item, range, kind);
        Some(())
    }

    /// The inside of the string at this place.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            match self.bytes.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(start..at);
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    fn blanks(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn mark(&mut self, path: &[String], item: Option<usize>, range: Range<usize>, kind: Kind) {
        let Some(depth) = item else {
            let mut slots = self.paths.slots.iter();
            let slot = slots.position(|slot| slot.up == 0 && slot.names[..] == *path);
            self.sketch.marks.push(Mark { range, slot: slot.unwrap_or(SKIPPED), kind });
            return;
        };
        // The first item stands for all of them; others are only skipped over.
        let Some(items) = self.paths.items.as_ref().filter(|_| self.sketch.items.is_empty()) else {
            return;
        };
        let inner = &path[depth..];
        let slot = if items.key == *inner {
            ITEM_KEY
        } else if items.count.as_deref() == Some(inner) {
            ITEM_COUNT
        } else {
            SKIPPED
        };
        self.sketch.item_marks.push(Mark { range, slot, kind });
    }
}
