//! Roles: which slots a value of a record may be taken from.
//!
//! For: paths, constants, texts of the upload, joined values. Not for: what texts mean
//! (`assemble.rs`), how paths are found in a format (`xml`, `json`, `rows`).
//!
//! ```text
//! slots   @object   @x   @y  │  "north"   the header X-Device  │  join of @object and "north"
//!            0       1    2  │     3               4           │              5
//!         paths: the scanner │  the same for all records       │  made of others, record by record
//! ```
//!
//! Invariants: a role has at least one slot; a join has parts with smaller numbers only.
//! Cost: a role of one path costs one comparison more than its slot.

use crate::assemble::Texts;
use crate::error::MappingError;
use crate::mapping::path_help;
use crate::source::{Format, Origin, UploadField, ValueSource};
use crate::upload::UploadFields;
use crate::value::trim;

/// Slots that are no path's are numbered from here on until all paths are known.
const LATER: usize = 1 << 32;
/// The most numbers that one text may have.
const NUMBERS_MAX: usize = 4;
/// A join of joins of joins is no deeper.
const JOIN_DEPTH_MAX: usize = 8;

/// Which slots a value may be taken from; the first that is there counts.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) first: usize,
    /// Most have nothing else.
    more: Option<Box<More>>,
}

#[derive(Clone, Debug)]
struct More {
    others: Vec<usize>,
    /// Counts where all of them are absent or empty.
    default: Option<usize>,
    number: Option<usize>,
}

/// A slot with the same text for all records of an upload.
#[derive(Clone, Debug)]
enum SharedText {
    Constant(String),
    Upload(UploadField),
}

/// A slot that is made of others.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) parts: Vec<Role>,
    pub(crate) with: String,
}

/// All slots of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Each with the key of the configuration that has it first.
    pub(crate) paths: Vec<(String, String)>,
    shared: Vec<SharedText>,
    pub(crate) joins: Vec<Join>,
}

/// Collects the slots of a mapping; a path that is known already keeps its own.
pub(crate) struct SlotsBuilder {
    format: Format,
    slots: Slots,
    /// Shared texts and joins, in the order in which they are numbered.
    later: Vec<LateSlot>,
}

enum LateSlot {
    Shared(SharedText),
    Join(Join),
}

impl SlotsBuilder {
    pub(crate) fn new(format: Format) -> SlotsBuilder {
        let slots = Slots { paths: Vec::new(), shared: Vec::new(), joins: Vec::new() };
        SlotsBuilder { format, slots, later: Vec::new() }
    }

    pub(crate) fn optional(
        &mut self,
        key: &str,
        value: Option<&ValueSource>,
    ) -> Result<Option<Role>, MappingError> {
        value.map(|value| self.role(key, value)).transpose()
    }

    pub(crate) fn role(&mut self, key: &str, value: &ValueSource) -> Result<Role, MappingError> {
        self.role_within(key, value, 0)
    }

    fn role_within(
        &mut self,
        key: &str,
        value: &ValueSource,
        depth: usize,
    ) -> Result<Role, MappingError> {
        let mut slots = match &value.origin {
            Origin::Path(path) => self.path_slots(key, path)?,
            Origin::Constant(text) => vec![self.later(LateSlot::shared(text))],
            Origin::Upload(field) => {
                vec![self.later(LateSlot::Shared(SharedText::Upload(field.clone())))]
            }
            Origin::Join(parts, with) => {
                if parts.is_empty() || depth >= JOIN_DEPTH_MAX {
                    let found = format!("{} joined values", parts.len());
                    return Err(MappingError::new(key, found, "at least one, not too deep"));
                }
                let parts = parts.iter().map(|part| self.role_within(key, part, depth + 1));
                let parts = parts.collect::<Result<_, _>>()?;
                vec![self.later(LateSlot::Join(Join { parts, with: with.clone() }))]
            }
        };
        let default = value.default.as_ref().map(|text| self.later(LateSlot::shared(text)));
        let number = value.number;
        if let Some(number) = number.filter(|number| !(1..=NUMBERS_MAX).contains(number)) {
            let allowed = format!("1 to {NUMBERS_MAX}");
            return Err(MappingError::new(key, format!("the number {number}"), allowed));
        }
        let others = slots.split_off(1);
        let is_plain = others.is_empty() && default.is_none() && number.is_none();
        let more = (!is_plain).then(|| Box::new(More { others, default, number }));
        Ok(Role { first: slots[0], more })
    }

    /// The slots of the alternatives of a path, at least one.
    fn path_slots(&mut self, key: &str, text: &str) -> Result<Vec<usize>, MappingError> {
        let parts = match self.format {
            Format::Csv | Format::Tsv => vec![text],
            _ => alternatives(text).into_iter().map(str::trim).collect(),
        };
        let mut slots = Vec::new();
        for part in parts {
            if part.is_empty() {
                return Err(MappingError::new(key, format!("{text:?}"), path_help(self.format)));
            }
            let paths = &mut self.slots.paths;
            let known = paths.iter().position(|(_, path)| path == part);
            slots.push(known.unwrap_or_else(|| {
                paths.push((key.to_owned(), part.to_owned()));
                paths.len() - 1
            }));
        }
        Ok(slots)
    }

    fn later(&mut self, later: LateSlot) -> usize {
        self.later.push(later);
        LATER + self.later.len() - 1
    }

    /// All slots, with `roles` renumbered.
    pub(crate) fn finish<'r>(mut self, roles: impl Iterator<Item = &'r mut Role>) -> Slots {
        let paths = self.slots.paths.len();
        let shared = self.later.iter().filter(|later| matches!(later, LateSlot::Shared(_))).count();
        let (mut next_shared, mut next_join) = (paths, paths + shared);
        let numbers: Vec<usize> = self
            .later
            .iter()
            .map(|later| {
                let next = match later {
                    LateSlot::Shared(_) => &mut next_shared,
                    LateSlot::Join(_) => &mut next_join,
                };
                *next += 1;
                *next - 1
            })
            .collect();
        for later in self.later {
            match later {
                LateSlot::Shared(text) => self.slots.shared.push(text),
                LateSlot::Join(mut join) => {
                    join.parts.iter_mut().for_each(|part| part.renumber(&numbers));
                    self.slots.joins.push(join);
                }
            }
        }
        roles.for_each(|role| role.renumber(&numbers));
        self.slots
    }
}

impl LateSlot {
    fn shared(text: &str) -> LateSlot {
        LateSlot::Shared(SharedText::Constant(text.to_owned()))
    }
}

/// The parts of a path between bars that are not within quotes.
fn alternatives(text: &str) -> Vec<&str> {
    let mut quote = None;
    let is_bar = |letter: char| {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        letter == '|' && quote.is_none()
    };
    text.split(is_bar).collect()
}

impl Slots {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.first_join() + self.joins.len()
    }

    pub(crate) fn first_join(&self) -> usize {
        self.paths.len() + self.shared.len()
    }

    /// The texts of the upload that any role is taken from.
    pub(crate) fn upload_fields(&self) -> impl Iterator<Item = &UploadField> {
        self.shared.iter().filter_map(|shared| match shared {
            SharedText::Upload(field) => Some(field),
            SharedText::Constant(_) => None,
        })
    }

    /// What slots hold before a record is read: the texts that all records share.
    pub(crate) fn base<'a>(&'a self, fields: UploadFields<'a>) -> Vec<Option<&'a [u8]>> {
        let mut base = vec![None; self.count()];
        for (slot, shared) in base[self.paths.len()..].iter_mut().zip(&self.shared) {
            *slot = match shared {
                SharedText::Constant(text) => Some(text.as_bytes()),
                SharedText::Upload(UploadField::FileStem) => {
                    upload_field(fields, &UploadField::FileName).map(stem)
                }
                SharedText::Upload(field) => upload_field(fields, field),
            }
            .filter(|text| !text.is_empty());
        }
        base
    }
}

fn upload_field<'a>(fields: UploadFields<'a>, wanted: &UploadField) -> Option<&'a [u8]> {
    fields.iter().find(|(field, _)| field == wanted).map(|(_, text)| text.as_bytes())
}

/// A file's name without its ending, and without that of what it is packed with.
fn stem(name: &[u8]) -> &[u8] {
    let packed: [&[u8]; 3] = [b".gz", b".zst", b".zstd"];
    let plain = packed.iter().find_map(|ending| name.strip_suffix(*ending)).unwrap_or(name);
    match plain.iter().rposition(|byte| *byte == b'.') {
        // What begins with its only dot is hidden, and has no ending.
        None | Some(0) => plain,
        Some(dot) => &plain[..dot],
    }
}

impl Role {
    fn renumber(&mut self, numbers: &[usize]) {
        let renumber = |slot: &mut usize| {
            if let Some(later) = slot.checked_sub(LATER) {
                *slot = numbers[later];
            }
        };
        renumber(&mut self.first);
        if let Some(more) = &mut self.more {
            more.others.iter_mut().chain(&mut more.default).for_each(renumber);
        }
    }

    /// The text of a record.
    #[inline]
    pub(crate) fn text<'a>(&self, texts: &Texts<'a>) -> Option<&'a [u8]> {
        match &self.more {
            None => texts.slots[self.first],
            Some(more) => more.text(self.first, texts),
        }
    }
}

impl More {
    fn text<'a>(&self, first: usize, texts: &Texts<'a>) -> Option<&'a [u8]> {
        let all = [first].into_iter().chain(self.others.iter().copied());
        let mut found = all.filter_map(|slot| texts.slots[slot]);
        let found = match self.default {
            None => found.next(),
            Some(slot) => found.find(|text| !trim(text).is_empty()).or(texts.slots[slot]),
        };
        match (found, self.number) {
            (Some(text), Some(number)) => number_of(text, number),
            _ => found,
        }
    }
}

/// The number with this index, from 1, of a text of two to four numbers: `8.5,50.1,230`,
/// `8.5 50.1`, `POINT (8.5 50.1)`. A text of another form is given as it is: it is no number.
fn number_of(text: &[u8], index: usize) -> Option<&[u8]> {
    let mut inside = trim(text);
    if let (Some(open), Some(b')' | b']')) =
        (inside.iter().position(|byte| matches!(byte, b'(' | b'[')), inside.last())
    {
        let name = inside[..open].trim_ascii();
        if !name.is_empty() && !name.to_ascii_uppercase().starts_with(b"POINT") {
            return Some(text);
        }
        inside = &inside[open + 1..inside.len() - 1];
    }
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';');
    let mut numbers = [&b""[..]; NUMBERS_MAX];
    let mut count = 0;
    for number in inside.split(is_between).filter(|number| !number.is_empty()) {
        if count == NUMBERS_MAX {
            return Some(text);
        }
        numbers[count] = number;
        count += 1;
    }
    match count {
        0 => None,
        1 => Some(text),
        _ => numbers[..count].get(index - 1).copied(),
    }
}

impl Join {
    /// Appends its text to `memory`; false if one of its parts is absent or empty.
    pub(crate) fn append(&self, texts: &Texts<'_>, memory: &mut Vec<u8>) -> bool {
        for (index, part) in self.parts.iter().enumerate() {
            let Some(text) = part.text(texts).map(trim).filter(|text| !text.is_empty()) else {
                return false;
            };
            if index > 0 {
                memory.extend_from_slice(self.with.as_bytes());
            }
            memory.extend_from_slice(text);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_numbers_is_found_in_the_forms_of_the_world() {
        for text in [
            "8.5,50.1,230",
            "8.5 50.1 230",
            " 8.5,50.1,230\n",
            "POINT Z (8.5 50.1 230)",
            "[8.5, 50.1, 230]",
            "8.5;50.1;230",
            "POINT(8.5 50.1 230)",
            "(8.5, 50.1, 230)",
        ] {
            let number = |index| number_of(text.as_bytes(), index);
            assert_eq!(number(1), Some(&b"8.5"[..]), "{text}");
            assert_eq!(number(2), Some(&b"50.1"[..]), "{text}");
            assert_eq!(number(3), Some(&b"230"[..]), "{text}");
            assert_eq!(number(4), None, "{text}");
        }
        for text in ["8.5,50.1 8.6,50.2 8.7,50.3", "LINESTRING (8 50)", "8.5", "8.5 50 (7"] {
            let found = number_of(text.as_bytes(), 1);
            assert!(
                found.is_none_or(|found| found == text.as_bytes() || found == b"8.5"),
                "{text}"
            );
        }
        assert_eq!(number_of(b"8.5,50.1 8.6,50.2 8", 2), Some(&b"8.5,50.1 8.6,50.2 8"[..]));
    }

    #[test]
    fn the_stem_of_a_file_is_its_name_without_endings() {
        for (name, expected) in [
            ("van-7.csv", "van-7"),
            ("van-7.csv.gz", "van-7"),
            ("a.b.xml", "a.b"),
            ("van", "van"),
            (".hidden", ".hidden"),
            ("x.zst", "x"),
            ("", ""),
        ] {
            assert_eq!(stem(name.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn a_bar_within_quotes_divides_nothing() {
        assert_eq!(alternatives("a|'b|c'|d"), ["a", "'b|c'", "d"]);
    }
}
