//! The document around the records.
//!
//! For: which elements are open, which of their values records want, where records begin and
//! whether a shape reads them. Not for: the inside of a record that has no shape (`element.rs`).
//!
//! ```text
//! <upload client="3">          open, on the way to records: its values are kept for ../@client
//!   <head>...</head>           open, then closed: nothing is taken from it
//!   <sighting .../>            a record: shapes first, else element.rs
//!   <sighting .../>            ... a run of records of known shapes never comes back here
//! </upload>
//! ```
//!
//! Invariants: at most [`DEPTH_MAX`] elements are open; shapes are those of one kind of parent;
//! every step goes forward in the upload.

use quick_xml::events::attributes::Attributes;

use super::namespaces::Resolver;
use super::pull::{Pull, Stop, Tag, Token};
use super::{DEPTH_MAX, XmlPaths, check_root, element, not_xml};
use crate::assemble::{Assembler, Texts, reject};
use crate::error::{UploadError, UploadErrorKind};
use crate::event::{Events, Totals};
use crate::mapping::Scan;
use crate::shape::Shapes;
use crate::upload::{RECORD_SIZE_MAX_BYTES, TEXT_SIZE_MAX_BYTES, shown};

/// An element that is open around records.
struct Open<'u> {
    name: &'u str,
    start: usize,
    /// One bit for each kind of record whose path begins with the open elements.
    leads_to: u32,
    /// Values that records below may ask for, by slot.
    values: Vec<(usize, String)>,
    /// How many records it has had so far.
    record_count: usize,
    /// Slots of the parent that this element's text is for.
    wanted_by: Vec<usize>,
    text: String,
}

struct Walk<'s, 'u, E> {
    scan: &'s Scan<'s>,
    paths: &'s XmlPaths,
    resolver: Resolver<'s, 'u>,
    pull: Pull<'u>,
    open: Vec<Open<'u>>,
    events: &'s mut E,
    totals: Totals,
    quick: bool,
    shapes: Shapes,
    /// The element whose children the templates are: depth and kinds.
    shapes_of: (usize, u32),
    /// A start tag was lost, so that an end tag may be one too many.
    has_lost_tags: bool,
    has_root: bool,
}

/// Reads all records; see [`crate::Mapping::scan`].
pub(crate) fn scan<E: Events>(
    scan: &Scan<'_>,
    paths: &XmlPaths,
    events: &mut E,
) -> Result<Totals, UploadError> {
    let upload = scan.text;
    let text = crate::upload::valid_text(upload, 0);
    let mut walk = Walk {
        scan,
        paths,
        resolver: paths.namespaces.resolver(),
        pull: Pull::new(text, scan.start.min(text.len())),
        open: Vec::new(),
        events,
        totals: Totals::default(),
        // What is another one for each record is no part of a shape.
        quick: scan.quick && !paths.has_parallel,
        shapes: Shapes::new(),
        shapes_of: (0, 0),
        has_lost_tags: false,
        has_root: false,
    };
    let result = walk.document();
    if text.len() < upload.len() {
        // Whatever the walk says of the cut, this is the reason for it.
        let is_of_rest = result.as_ref().err().is_none_or(|error| {
            error.kind() == UploadErrorKind::Truncated || error.offset_bytes() >= text.len() as u64
        });
        if is_of_rest {
            let message = "not UTF-8 from here on; the rest is not read";
            return Err(UploadError::new(UploadErrorKind::Encoding, text.len(), message));
        }
    }
    result.map(|()| walk.totals)
}

impl<'u, E: Events> Walk<'_, 'u, E> {
    fn document(&mut self) -> Result<(), UploadError> {
        loop {
            if self.quick && !self.shapes.is_empty() {
                self.run_of_shapes();
            }
            let token = match self.pull.next() {
                Ok(token) => token,
                Err(Stop::End(error)) => return Err(error),
                Err(Stop::Broken { start, resume }) => {
                    self.broken_tag(start, resume)?;
                    continue;
                }
            };
            match token {
                Token::Start { tag, is_empty } => self.start(tag, is_empty)?,
                Token::End { name, start } => self.end(name, start)?,
                Token::Text { text, start } | Token::CData { text, start } => {
                    self.text(text, start)?;
                }
                Token::Reference { character: Some(character), start, .. } => {
                    self.text(character.encode_utf8(&mut [0; 4]), start)?;
                }
                Token::Reference { name, start, .. } => {
                    let message = format!("the entity {} is not known", shown(name.as_bytes()));
                    return Err(UploadError::new(UploadErrorKind::Malformed, start, message));
                }
                Token::Declaration | Token::Other => {}
                Token::Eof => return self.eof(),
            }
        }
    }

    /// Reads records as long as they have known shapes.
    fn run_of_shapes(&mut self) {
        let Some(parent) = self.open.last() else { return };
        if self.shapes_of != (self.open.len(), parent.leads_to) {
            return;
        }
        let bytes = self.pull.bytes();
        let base = base(&self.open, self.paths, self.scan.base);
        let mut texts = Texts::new(base.len());
        let mut assembler = Assembler::new(self.scan.mapping);
        let first = self.pull.at();
        let mut at = first;
        loop {
            let mut rest = &bytes[at..];
            while let [b' ' | b'\n' | b'\t' | b'\r', behind @ ..] = rest {
                rest = behind;
            }
            match self.shapes.read(rest, &base, &mut texts) {
                Some(length) if length <= RECORD_SIZE_MAX_BYTES => {
                    let start = bytes.len() - rest.len();
                    assembler.hand_out(start, &texts, &mut self.totals, self.events);
                    at = start + length;
                }
                _ => break,
            }
        }
        if at > first {
            self.pull.jump(at);
        }
    }

    fn start(&mut self, tag: Tag<'u>, is_empty: bool) -> Result<(), UploadError> {
        if self.open.is_empty() {
            if self.has_root {
                let message = "a second root; an upload is one document";
                return Err(UploadError::new(UploadErrorKind::Malformed, tag.start, message));
            }
            self.has_root = true;
        }
        let depth = self.open.len();
        let tagged = self.resolver.name(depth, tag);
        if depth == 0 {
            check_root(self.paths, tag.start, tag.name, &tagged.name)?;
        }
        let around = self.open.last().map_or(u32::MAX, |open| open.leads_to);
        let kinds = self.paths.records.iter().enumerate();
        let named = kinds.filter(|(kind, names)| {
            around >> kind & 1 == 1 && names.get(depth).is_some_and(|name| *name == tagged.name)
        });
        let (mut leads_to, mut is_record) = (0, false);
        for (kind, names) in named {
            is_record |= names.len() == depth + 1;
            leads_to |= 1 << kind;
        }
        if is_record {
            return self.record(tag, is_empty);
        }
        if depth >= DEPTH_MAX {
            let message = format!("elements deeper than {DEPTH_MAX}");
            return Err(UploadError::new(UploadErrorKind::Limit, tag.start, message));
        }
        if leads_to != 0 && !self.paths.namespaces.is_empty() {
            // Below it the same prefix may be another namespace's.
            self.shapes = Shapes::new();
        }
        let wanted_by = self.take_outer_values(tag, &tagged.name);
        let values = if self.paths.has_outer && leads_to != 0 {
            outer_attributes(self.paths, &self.resolver, tag, &[])
        } else {
            Vec::new()
        };
        let (name, start, text) = (tag.name, tag.start, String::new());
        let record_count = 0;
        self.open.push(Open { name, start, leads_to, values, record_count, wanted_by, text });
        if is_empty {
            self.close();
        }
        Ok(())
    }

    /// What records want of a child of an element around them: its attributes are kept, and the
    /// slots that want its text are told.
    fn take_outer_values(&mut self, tag: Tag<'u>, name: &str) -> Vec<usize> {
        let Some(parent) = self.open.last_mut().filter(|open| open.leads_to != 0) else {
            return Vec::new();
        };
        if !self.paths.has_outer {
            return Vec::new();
        }
        let values = outer_attributes(self.paths, &self.resolver, tag, &[name]);
        for (slot, value) in values {
            let is_parallel = self.paths.slots[slot].is_parallel;
            if is_parallel || parent.values.iter().all(|(known, _)| *known != slot) {
                parent.values.push((slot, value));
            }
        }
        let slots = self.paths.slots.iter().enumerate();
        let wanted = slots.filter(|(slot, path)| {
            path.is_outer(&[name], None)
                && (path.is_parallel || parent.values.iter().all(|(known, _)| known != slot))
        });
        wanted.map(|(slot, _)| slot).collect()
    }

    fn record(&mut self, tag: Tag<'u>, is_empty: bool) -> Result<(), UploadError> {
        let found = match element::read(
            &mut self.pull,
            self.paths,
            &mut self.resolver,
            self.open.len(),
            tag,
            is_empty,
        ) {
            Ok(found) => found,
            Err(Stop::End(error)) => return Err(error),
            Err(Stop::Broken { start, resume }) => return self.broken_tag(start, resume),
        };
        if found.end != self.pull.at() {
            self.resume(found.end);
        }
        let size = found.end - tag.start;
        let too_long = || format!("a record of more than {RECORD_SIZE_MAX_BYTES} bytes");
        let fault = found.fault.clone().or_else(|| (size > RECORD_SIZE_MAX_BYTES).then(too_long));
        if let Some(reason) = fault {
            self.open.iter_mut().for_each(|open| open.record_count += 1);
            self.has_lost_tags = true;
            reject(tag.start, &reason, &mut self.totals, self.events);
            return Ok(());
        }
        let bytes = self.pull.bytes();
        let base = base(&self.open, self.paths, self.scan.base);
        if let Some(reason) = missing_parallel(&self.open, self.paths, &base) {
            reject(tag.start, &reason, &mut self.totals, self.events);
            self.open.iter_mut().for_each(|open| open.record_count += 1);
            return Ok(());
        }
        let texts = found.texts(bytes, &base);
        let mut assembler = Assembler::new(self.scan.mapping);
        assembler.hand_out(tag.start, &texts, &mut self.totals, self.events);
        if self.paths.has_parallel {
            drop(texts);
            self.open.iter_mut().for_each(|open| open.record_count += 1);
            return Ok(());
        }
        if self.quick
            && let Some(parent) = self.open.last()
        {
            let parent = (self.open.len(), parent.leads_to);
            if self.shapes_of != parent {
                (self.shapes, self.shapes_of) = (Shapes::new(), parent);
            }
            let items = &found.sketch.items;
            let first = items.first().map_or(tag.start, |item| item.start);
            let gap =
                bytes[tag.start..first].iter().rev().take_while(|byte| byte.is_ascii_whitespace());
            let separator = &bytes[first - gap.count()..first];
            self.shapes.learn(bytes, tag.start..found.end, &found.sketch, separator, &base, &texts);
        }
        Ok(())
    }

    /// A tag among the records that does not end is one bad record; one above them ends the scan.
    fn broken_tag(&mut self, start: usize, resume: usize) -> Result<(), UploadError> {
        if self.record_names().next().is_none() {
            let message = "a tag that does not end";
            return Err(UploadError::new(UploadErrorKind::Malformed, start, message));
        }
        self.has_lost_tags = true;
        reject(start, "a tag that does not end", &mut self.totals, self.events);
        self.resume(resume);
        Ok(())
    }

    /// The names of the records that the innermost open element may hold.
    fn record_names(&self) -> impl Iterator<Item = &str> {
        let depth = self.open.len();
        let leads_to = self.open.last().map_or(0, |open| open.leads_to);
        let kinds = self.paths.records.iter().enumerate();
        kinds
            .filter(move |(kind, names)| leads_to >> kind & 1 == 1 && names.len() == depth + 1)
            .filter_map(|(_, names)| names.last().map(String::as_str))
    }

    /// Goes on behind broken markup: at the next record, or where the element around them ends.
    fn resume(&mut self, from: usize) {
        let bytes = self.pull.bytes();
        let ends = |rest: &[u8]| {
            matches!(rest.first(), None | Some(b' '..=b'/' | b'>' | b'\t' | b'\n' | b'\r'))
        };
        let around = self.open.last().map_or("", |open| open.name).as_bytes();
        let is_sound = |at: &usize| {
            let rest = &bytes[at + 1..];
            let closing = rest.strip_prefix(b"/").and_then(|rest| rest.strip_prefix(around));
            closing.is_some_and(ends)
                || self.record_names().any(|name| match self.paths.namespaces.is_empty() {
                    true => rest.strip_prefix(name.as_bytes()).is_some_and(ends),
                    // Its prefix may be any.
                    false => has_local_name(rest, name),
                })
        };
        let tags = memchr::memchr_iter(b'<', &bytes[from..]).map(|place| from + place);
        let at = tags.into_iter().find(is_sound).unwrap_or(bytes.len());
        self.pull.jump(at);
    }

    fn end(&mut self, name: &str, start: usize) -> Result<(), UploadError> {
        match self.open.last() {
            Some(open) if open.name == name => {
                self.close();
                Ok(())
            }
            // The end of a record whose start was rejected.
            Some(_) if self.has_lost_tags && self.open.iter().all(|open| open.name != name) => {
                Ok(())
            }
            open => {
                let open = open.map_or("nothing", |open| open.name);
                let (found, open) = (shown(name.as_bytes()), shown(open.as_bytes()));
                let message = format!("{found} closes {open}");
                Err(UploadError::new(UploadErrorKind::Malformed, start, message))
            }
        }
    }

    fn close(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        let Some(parent) = self.open.last_mut() else { return };
        for slot in closed.wanted_by {
            parent.values.push((slot, closed.text.trim_ascii().to_owned()));
        }
    }

    fn text(&mut self, text: &str, start: usize) -> Result<(), UploadError> {
        match self.open.last_mut() {
            None if text.trim_ascii().is_empty() => Ok(()),
            None if self.has_root => {
                let message = "text behind the root";
                Err(UploadError::new(UploadErrorKind::Malformed, start, message))
            }
            None => Err(not_xml(text.as_bytes(), start)),
            Some(open) => {
                // More than any text may have is enough to be refused with every record below.
                if !open.wanted_by.is_empty() && open.text.len() <= TEXT_SIZE_MAX_BYTES {
                    open.text.push_str(text);
                }
                Ok(())
            }
        }
    }

    fn eof(&self) -> Result<(), UploadError> {
        match self.open.last() {
            None if self.has_root => Ok(()),
            None => Err(UploadError::new(UploadErrorKind::Empty, 0, "no element")),
            Some(open) => {
                let found = shown(open.name.as_bytes());
                let message =
                    format!("the upload ends within {found}, which begins at byte {}", open.start);
                Err(UploadError::new(UploadErrorKind::Truncated, self.pull.at(), message))
            }
        }
    }
}

/// Whether a tag that begins so has the local name of this one.
fn has_local_name(tag: &[u8], name: &str) -> bool {
    let is_end = |byte: &u8| matches!(byte, b' '..=b'/' | b'>' | b'\t' | b'\n' | b'\r');
    let end = tag.iter().take(TEXT_SIZE_MAX_BYTES).position(is_end).unwrap_or(0);
    let written = tag[..end].rsplit(|byte| *byte == b':').next().unwrap_or_default();
    written == name.rsplit(':').next().unwrap_or(name).as_bytes()
}

/// The slots' values from elements around a record, and those that all records share.
fn base<'a>(
    open: &'a [Open<'_>],
    paths: &XmlPaths,
    shared: &[Option<&'a [u8]>],
) -> Vec<Option<&'a [u8]>> {
    let mut base = shared.to_vec();
    if !paths.has_outer {
        return base;
    }
    for (slot, path) in paths.slots.iter().enumerate().filter(|(_, path)| path.up > 0) {
        let element = open.len().checked_sub(path.up).map(|index| &open[index]);
        let values = element.iter().flat_map(|open| &open.values);
        let index = element.filter(|_| path.is_parallel).map_or(0, |open| open.record_count);
        let value = values.filter(|(known, _)| *known == slot).nth(index);
        base[slot] = value.map(|(_, value)| value.as_bytes());
    }
    base
}

/// Why a record that has fewer parallel values before it than records is refused.
fn missing_parallel(open: &[Open<'_>], paths: &XmlPaths, base: &[Option<&[u8]>]) -> Option<String> {
    if !paths.has_parallel {
        return None;
    }
    let mut slots = paths.slots.iter().enumerate().filter(|(_, path)| path.is_parallel);
    let (_, path) = slots.find(|(slot, path)| {
        let element = open.len().checked_sub(path.up).map(|index| &open[index]);
        base[*slot].is_none()
            && element.is_some_and(|open| open.values.iter().any(|(known, _)| known == slot))
    })?;
    Some(format!("there are fewer {} before it than records", shown(path.children[0].as_bytes())))
}

/// The attributes of an element around records, or of a child of one, that records want.
fn outer_attributes<'u>(
    paths: &XmlPaths,
    resolver: &Resolver<'_, 'u>,
    tag: Tag<'u>,
    children: &[&str],
) -> Vec<(usize, String)> {
    let mut values = Vec::new();
    for attribute in Attributes::new(tag.inside, tag.name.len()).flatten() {
        let name = resolver.attribute(attribute.key.into_inner());
        for (slot, path) in paths.slots.iter().enumerate() {
            if path.is_outer(children, Some(&name))
                && let Ok(value) = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0)
            {
                values.push((slot, value.into_owned()));
            }
        }
    }
    values
}
