//! One record by quick-xml: its texts, and the sketch that a shape is learned from.
//!
//! For: records of no known shape. Not for: what is around them (`walk.rs`).
//!
//! Invariants: of attributes and children of one path the first that is there counts; an element's
//! text is what stands directly in it, without white space around it; the first fault is the one
//! that is told, and the record is read to its end all the same.
//! Cost: some allocations for a record.

use std::ops::Range;

use quick_xml::XmlVersion;
use quick_xml::events::attributes::Attributes;

use super::namespaces::{ResolvedTag, Resolver};
use super::path::are;
use super::pull::{Pull, Stop, Tag, Token};
use super::{DEPTH_MAX, XmlPaths};
use crate::assemble::Texts;
use crate::error::{UploadError, UploadErrorKind};
use crate::shape::{ITEM_COUNT, ITEM_KEY, Kind, Mark, SKIPPED, Sketch};
use crate::upload::{ITEM_COUNT_MAX, shown};

/// Where a text is: in the upload, or decoded.
#[derive(Clone, Debug)]
enum Span {
    Upload(Range<usize>),
    Decoded(Range<usize>),
}

/// A record that was read.
#[derive(Debug)]
pub(super) struct Found {
    slots: Vec<Option<Span>>,
    items: Vec<(Option<Span>, Option<Span>)>,
    decoded: String,
    pub(super) sketch: Sketch,
    /// Why it is to be rejected.
    pub(super) fault: Option<String>,
    /// Where what follows it begins.
    pub(super) end: usize,
}

impl Found {
    /// The record's texts; `base` is what slots hold that are not part of it.
    pub(super) fn texts<'a>(&'a self, bytes: &'a [u8], base: &[Option<&'a [u8]>]) -> Texts<'a> {
        let text = |span: &Span| match span {
            Span::Upload(range) => &bytes[range.clone()],
            Span::Decoded(range) => &self.decoded.as_bytes()[range.clone()],
        };
        // Behind the slots of paths, records share all.
        let own = |slot: usize| self.slots.get(slot)?.as_ref().map(text);
        let slots = base.iter().enumerate().map(|(slot, base)| own(slot).or(*base)).collect();
        let items = self.items.iter();
        let items = items.map(|(key, count)| (key.as_ref().map(text), count.as_ref().map(text)));
        Texts { slots, items: items.collect(), shape: None }
    }
}

/// The text of an open element so far.
#[derive(Debug)]
enum Content {
    Nothing,
    /// One piece of the upload.
    One(Range<usize>),
    /// Several pieces, or decoded ones.
    Several(String),
}

struct Open {
    content: Content,
    has_children: bool,
}

impl Open {
    fn new() -> Open {
        Open { content: Content::Nothing, has_children: false }
    }
}

struct ElementReader<'p, 'n, 'u> {
    paths: &'p XmlPaths,
    resolver: &'p mut Resolver<'n, 'u>,
    /// How many elements are open around the record.
    depth: usize,
    bytes: &'u [u8],
    /// The open elements below the record, and their texts behind the record's own.
    names: Vec<ResolvedTag<'u>>,
    opens: Vec<Open>,
    /// How many names lead to the open item, and where it begins.
    item: Option<(usize, usize)>,
    item_texts: (Option<Span>, Option<Span>),
    found: Found,
}

/// Reads the record whose start tag this is, to its end.
pub(super) fn read<'u>(
    pull: &mut Pull<'u>,
    paths: &XmlPaths,
    resolver: &mut Resolver<'_, 'u>,
    depth: usize,
    record: Tag<'u>,
    is_empty: bool,
) -> Result<Found, Stop> {
    let found = Found {
        slots: vec![None; paths.slots.len()],
        items: Vec::new(),
        decoded: String::new(),
        sketch: Sketch::default(),
        fault: None,
        end: record.end,
    };
    let mut reader = ElementReader {
        paths,
        resolver,
        depth,
        bytes: pull.bytes(),
        names: Vec::new(),
        opens: vec![Open::new()],
        item: None,
        item_texts: (None, None),
        found,
    };
    reader.attributes(record);
    if is_empty {
        reader.close(record.end);
    } else {
        reader.content(pull, record)?;
    }
    Ok(reader.found)
}

impl<'u> ElementReader<'_, '_, 'u> {
    fn content(&mut self, pull: &mut Pull<'u>, record: Tag<'u>) -> Result<(), Stop> {
        loop {
            let token = match pull.next() {
                // Its siblings are right, as far as one knows.
                Err(Stop::Broken { start, resume }) => {
                    let reason = format!("a tag at byte {start} that does not end");
                    self.fault(reason);
                    self.found.end = resume;
                    return Ok(());
                }
                token => token?,
            };
            match token {
                Token::Start { tag, .. } if tag.name == record.name => {
                    self.fault(format!(
                        "not closed before the next {}",
                        shown(tag.name.as_bytes())
                    ));
                    self.found.end = tag.start;
                    return Ok(());
                }
                Token::Start { tag, is_empty } => self.start(tag, is_empty)?,
                Token::End { name, start } => {
                    if self.end(name, start, pull.at(), record.name) {
                        self.found.end = pull.at();
                        return Ok(());
                    }
                }
                Token::Text { text, start } => self.text(text, start),
                Token::CData { text, .. } => self.append(text),
                Token::Reference { character: Some(character), .. } => {
                    self.append(character.encode_utf8(&mut [0; 4]));
                }
                Token::Reference { name, .. } => {
                    self.fault(format!("the entity {} is not known", shown(name.as_bytes())));
                }
                Token::Declaration | Token::Other => {}
                Token::Eof => {
                    let message =
                        format!("the upload ends within {}", shown(record.name.as_bytes()));
                    let kind = UploadErrorKind::Truncated;
                    return Err(UploadError::new(kind, record.start, message).into());
                }
            }
        }
    }

    fn fault(&mut self, reason: String) {
        self.found.fault.get_or_insert(reason);
    }

    fn start(&mut self, tag: Tag<'u>, is_empty: bool) -> Result<(), Stop> {
        if self.names.len() >= DEPTH_MAX {
            let message = format!("elements deeper than {DEPTH_MAX}");
            return Err(UploadError::new(UploadErrorKind::Limit, tag.start, message).into());
        }
        if let Some(open) = self.opens.last_mut() {
            open.has_children = true;
        }
        let depth = self.depth + 1 + self.names.len();
        self.names.push(self.resolver.name(depth, tag));
        self.opens.push(Open::new());
        let begins_item =
            self.paths.items.as_ref().is_some_and(|items| are(&items.each, &self.names));
        if self.item.is_none() && begins_item {
            self.item = Some((self.names.len(), tag.start));
        }
        self.attributes(tag);
        if is_empty {
            self.close(tag.end);
        }
        Ok(())
    }

    /// An end tag; true if it is the record's.
    fn end(&mut self, name: &str, start: usize, end: usize, record: &str) -> bool {
        let open = self.names.last().map_or(record, |open| open.written);
        if open == name {
            self.close(end);
            return self.opens.is_empty();
        }
        self.fault(format!(
            "{} at byte {start} closes {}",
            shown(name.as_bytes()),
            shown(open.as_bytes())
        ));
        let is_open = self.names.iter().any(|open| open.written == name);
        while is_open && self.names.last().is_some_and(|open| open.written != name) {
            self.close(end);
        }
        if self.names.last().is_some_and(|open| open.written == name) {
            self.close(end);
            return false;
        }
        name == record
    }

    fn attributes(&mut self, tag: Tag<'u>) {
        for attribute in Attributes::new(tag.inside, tag.name.len()) {
            let attribute = match attribute {
                Ok(attribute) => attribute,
                Err(error) => {
                    return self.fault(format!("an attribute that cannot be read: {error}"));
                }
            };
            // The value is a part of the tag, hence of the upload.
            let start = attribute.value.as_ptr() as usize - self.bytes.as_ptr() as usize;
            let range = start..start + attribute.value.len();
            let quote = self.bytes[start - 1];
            let written = attribute.key.into_inner();
            let name = &*self.resolver.attribute(written);
            let is_plain = !attribute.value.bytes().any(|byte| byte == b'&' || byte < b' ');
            if is_plain || !self.is_wanted(Some(name)) {
                let span = Span::Upload(range.clone());
                // What decides about paths is markup: it is the same in each record of a shape.
                let is_markup = self.decides(written);
                let mark = (!is_markup).then_some((range, Kind::Attribute(quote)));
                self.assign(Some(name), &span, mark);
                continue;
            }
            self.found.sketch.is_unusual = true;
            match attribute.normalized_value(XmlVersion::Implicit1_0) {
                Ok(value) => {
                    let span = self.keep(&value);
                    self.assign(Some(name), &span, None);
                }
                Err(error) => self.fault(format!("attribute {}: {error}", shown(name.as_bytes()))),
            }
        }
    }

    /// A piece of text that is a part of the upload.
    fn text(&mut self, text: &str, start: usize) {
        if text.contains('&') {
            self.fault("an '&' that begins no entity".to_owned());
        }
        if text.contains('\r') {
            return self.append(&text.replace("\r\n", "\n").replace('\r', "\n"));
        }
        let Some(open) = self.opens.last_mut() else { return };
        match open.content {
            Content::Nothing => open.content = Content::One(start..start + text.len()),
            _ => self.append(text),
        }
    }

    fn append(&mut self, text: &str) {
        let Some(open) = self.opens.last_mut() else { return };
        match &mut open.content {
            Content::Nothing => open.content = Content::Several(text.to_owned()),
            Content::One(range) => {
                let first = String::from_utf8_lossy(&self.bytes[range.clone()]);
                open.content = Content::Several(first.into_owned() + text);
            }
            Content::Several(whole) => whole.push_str(text),
        }
    }

    /// The innermost element ends, the record itself at last.
    fn close(&mut self, end: usize) {
        let Some(open) = self.opens.pop() else { return };
        let is_wanted = self.is_wanted(None);
        match open.content {
            Content::Nothing if is_wanted => self.assign(None, &Span::Upload(end..end), None),
            Content::Nothing => {}
            Content::One(range) => {
                let text = &self.bytes[range.clone()];
                let trimmed = text.trim_ascii();
                let start = range.start + (text.len() - text.trim_ascii_start().len());
                let span = Span::Upload(start..start + trimmed.len());
                // White space among children is markup; a leaf's text changes from one to the next.
                let is_value = !open.has_children && (is_wanted || !trimmed.is_empty());
                self.found.sketch.is_unusual |= open.has_children && !trimmed.is_empty();
                self.assign(None, &span, is_value.then_some((range, Kind::Element)));
            }
            Content::Several(text) => {
                self.found.sketch.is_unusual = true;
                if is_wanted {
                    let span = self.keep(text.trim_ascii());
                    self.assign(None, &span, None);
                }
            }
        }
        if let Some((depth, start)) = self.item
            && depth == self.names.len()
        {
            self.item = None;
            let texts = std::mem::take(&mut self.item_texts);
            if self.found.items.len() < ITEM_COUNT_MAX {
                self.found.items.push(texts);
                self.found.sketch.items.push(start..end);
            } else {
                self.fault(format!("more than {ITEM_COUNT_MAX} items"));
            }
        }
        self.names.pop();
    }

    fn keep(&mut self, text: &str) -> Span {
        let start = self.found.decoded.len();
        self.found.decoded.push_str(text);
        Span::Decoded(start..self.found.decoded.len())
    }

    /// Whether anything is mapped to this attribute, or the text, of the innermost element.
    fn is_wanted(&self, attribute: Option<&str>) -> bool {
        let is_slot = self.paths.slots.iter().any(|path| path.is(&self.names, attribute));
        is_slot || self.item_slot(attribute) != SKIPPED
    }

    /// Whether other values depend on this attribute of the innermost element.
    fn decides(&self, attribute: &str) -> bool {
        if !self.paths.namespaces.is_empty() && attribute.starts_with("xmlns") {
            return true;
        }
        let mut slots = self.paths.slots.iter();
        let of_items = self.paths.items.as_ref().zip(self.item);
        slots.any(|path| path.depends_on(&self.names, attribute))
            || of_items.is_some_and(|(items, (depth, _))| {
                let names = self.names.get(depth..).unwrap_or_default();
                let of_item = |path: &super::path::XmlPath| path.depends_on(names, attribute);
                of_item(&items.key) || items.count.as_ref().is_some_and(of_item)
            })
    }

    fn item_slot(&self, attribute: Option<&str>) -> usize {
        let (Some(items), Some((depth, _))) = (&self.paths.items, self.item) else {
            return SKIPPED;
        };
        let names = self.names.get(depth..).unwrap_or_default();
        if items.key.is(names, attribute) {
            return ITEM_KEY;
        }
        let is_count = items.count.as_ref().is_some_and(|path| path.is(names, attribute));
        if is_count { ITEM_COUNT } else { SKIPPED }
    }

    /// Gives a value to whatever is mapped to it, and marks it for a shape.
    fn assign(&mut self, attribute: Option<&str>, span: &Span, mark: Option<(Range<usize>, Kind)>) {
        let mut slot = SKIPPED;
        let slots = self.paths.slots.iter().zip(&mut self.found.slots).enumerate();
        for (place, (path, value)) in slots {
            if value.is_none() && path.is(&self.names, attribute) {
                *value = Some(span.clone());
                slot = place;
            }
        }
        let item_slot = self.item_slot(attribute);
        match item_slot {
            ITEM_KEY => _ = self.item_texts.0.get_or_insert_with(|| span.clone()),
            ITEM_COUNT => _ = self.item_texts.1.get_or_insert_with(|| span.clone()),
            _ => {}
        }
        let sketch = &mut self.found.sketch;
        // A value of an item that is a value of the record as well is not what items are like.
        sketch.is_unusual |= self.item.is_some() && slot != SKIPPED;
        let Some((range, kind)) = mark else { return };
        if self.item.is_none() {
            sketch.marks.push(Mark { range, slot, kind });
        } else if sketch.items.is_empty() {
            let taken = sketch.item_marks.iter().any(|mark| mark.slot == item_slot);
            let slot = if taken { SKIPPED } else { item_slot };
            sketch.item_marks.push(Mark { range, slot, kind });
        }
    }
}
