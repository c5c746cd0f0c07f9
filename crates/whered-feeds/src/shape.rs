//! Shapes: records that a machine wrote have the same bytes between their values.
//!
//! For: reading the next record by comparing those bytes, where the last ones were learned from a
//! record that a library has read. Not for: reading records of any other form; a shape that does
//! not fit says so, and the library's path reads that record.
//!
//! ```text
//! learned from   <sighting object="123" x="12.3456" y="45.6789" t="1700000000"/>
//! steps          [<sighting object="] member  [" x="] longitude  [" y="] latitude  [" t="] time
//! end            ["/>]
//!
//! with items     head steps, end ["><]   item steps, end ["/>]   tail end [</sighting>]
//!                                         └── again behind the separator ──┘
//! ```
//!
//! Invariants:
//! - all markup is compared byte by byte with markup of a whole record, hence a record that fits
//!   is well-formed and has the same elements in the same order;
//! - a value holds nothing that could end or change it: no quote, `<`, `&`, backslash or control
//!   character; a number of JSON follows JSON's grammar;
//! - what ends a text is the first byte of the markup behind it, hence is compared with that;
//! - a shape is kept only if it reads the record that it was learned from as the library did.
//!
//! Concurrency: shapes belong to one scan. Cost: one comparison for each piece of markup and one
//! look at each sixteen bytes of a value; memory for at most [`SHAPE_COUNT_MAX`] shapes.

use std::ops::Range;

use crate::short_prefix::ShortPrefix;
use crate::stop_bytes::StopBytes;

use crate::assemble::{ItemTexts, Texts};
use crate::upload::ITEM_COUNT_MAX;
use crate::value::trim;

/// How many shapes of one upload are remembered.
const SHAPE_COUNT_MAX: usize = 8;
/// How often one upload may make us learn; records without any common shape stop it.
const LEARN_COUNT_MAX: u32 = 64;
/// A record with more pieces is left to the library.
const STEP_COUNT_MAX: usize = 256;

/// The slot of a value that nobody asked for.
pub(crate) const SKIPPED: usize = usize::MAX;
/// The slots of an item's values.
pub(crate) const ITEM_KEY: usize = 0;
pub(crate) const ITEM_COUNT: usize = 1;

/// How a value stands in its markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Up to the quote of an attribute.
    Attribute(u8),
    /// The text of an element, up to the next tag.
    Element,
    /// Up to the quote of a JSON string.
    JsonString,
    /// A number of JSON without an exponent.
    JsonNumber,
    /// `true`, `false`, or `null`, which is as if it were absent.
    JsonWord,
}

/// A value in a record that a library has read.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) range: Range<usize>,
    pub(crate) slot: usize,
    pub(crate) kind: Kind,
}

/// Where the values of a record are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    /// The values outside of items, in order.
    pub(crate) marks: Vec<Mark>,
    /// The items, in order.
    pub(crate) items: Vec<Range<usize>>,
    /// The values of the first item, in order.
    pub(crate) item_marks: Vec<Mark>,
    /// The record holds something that no shape can hold.
    pub(crate) is_unusual: bool,
}

/// How many bytes of markup are compared at once.
const WORD_BYTES: usize = 16;

/// Markup that must be there.
#[derive(Clone, Debug)]
struct Literal {
    bytes: Box<[u8]>,
    /// Its first sixteen bytes, or all of them.
    head: ShortPrefix,
    /// Its last sixteen bytes, if it has more than that.
    tail: ShortPrefix,
}

#[derive(Clone, Debug)]
struct Step {
    before: Literal,
    slot: usize,
    form: Form,
}

/// How the end of a value is found.
#[derive(Clone, Debug)]
enum Form {
    /// By what ends it, which is the first of the stops, or makes it one for the library.
    Text {
        end: u8,
        stops: StopBytes,
        is_trimmed: bool,
    },
    JsonNumber,
    JsonWord,
}

#[derive(Clone, Debug)]
struct Steps {
    steps: Vec<Step>,
    end: Literal,
}

#[derive(Clone, Debug)]
struct ItemSteps {
    item: Steps,
    separator: Literal,
    tail: Steps,
}

#[derive(Clone, Debug)]
struct Shape {
    head: Steps,
    items: Option<ItemSteps>,
    /// Of its own among these shapes.
    number: u32,
    /// Each slot that it has gets a text from each record.
    fills_slots: bool,
}

/// The shapes that an upload has shown.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    last: usize,
    learned_count: u32,
}

impl Shapes {
    pub(crate) fn new() -> Shapes {
        Shapes { shapes: Vec::new(), last: 0, learned_count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Reads the record at the beginning of `rest`, if it has a known shape: its texts, and how
    /// long it is. `base` is what slots hold that are not part of the record. `texts` are new ones,
    /// or those of the last call with the same base.
    #[inline]
    pub(crate) fn read<'a>(
        &mut self,
        rest: &'a [u8],
        base: &[Option<&'a [u8]>],
        texts: &mut Texts<'a>,
    ) -> Option<usize> {
        let last = self.shapes.get(self.last)?;
        let found = last.read(rest, base, texts);
        if found.is_some() { found } else { self.read_by_others(rest, base, texts) }
    }

    #[inline(never)]
    fn read_by_others<'a>(
        &mut self,
        rest: &'a [u8],
        base: &[Option<&'a [u8]>],
        texts: &mut Texts<'a>,
    ) -> Option<usize> {
        let (count, last) = (self.shapes.len(), self.last);
        (1..count).map(|turn| (last + turn) % count).find_map(|place| {
            // Most records of another shape differ in their first bytes.
            let shape =
                self.shapes.get(place).filter(|shape| shape.head.first().may_begin(rest))?;
            let length = shape.read(rest, base, texts)?;
            self.last = place;
            Some(length)
        })
    }

    /// Remembers the shape of a record that a library has read to these texts.
    pub(crate) fn learn<'a>(
        &mut self,
        bytes: &'a [u8],
        record: Range<usize>,
        sketch: &Sketch,
        default_separator: &[u8],
        base: &[Option<&'a [u8]>],
        expected: &Texts<'_>,
    ) {
        if self.learned_count >= LEARN_COUNT_MAX || sketch.is_unusual {
            return;
        }
        self.learned_count += 1;
        let (number, range) = (self.learned_count, record.clone());
        let Some(shape) = Shape::learn(bytes, range, sketch, default_separator, number) else {
            return;
        };
        let mut texts = Texts::new(base.len());
        let length = shape.read(&bytes[record.start..], base, &mut texts);
        if length != Some(record.len())
            || texts.slots != expected.slots
            || texts.items != expected.items
        {
            return;
        }
        if self.shapes.len() < SHAPE_COUNT_MAX {
            self.last = self.shapes.len();
            self.shapes.push(shape);
        } else {
            self.last = (self.last + 1) % SHAPE_COUNT_MAX;
            self.shapes[self.last] = shape;
        }
    }
}

impl Shape {
    fn learn(
        bytes: &[u8],
        record: Range<usize>,
        sketch: &Sketch,
        default_separator: &[u8],
        number: u32,
    ) -> Option<Shape> {
        let fills_slots = sketch.marks.iter().all(|mark| mark.kind != Kind::JsonWord);
        let (Some(first), Some(last)) = (sketch.items.first(), sketch.items.last()) else {
            let head = Steps::learn(bytes, record, &sketch.marks)?;
            return Some(Shape { head, items: None, number, fills_slots });
        };
        let split = sketch.marks.iter().take_while(|mark| mark.range.end <= first.start).count();
        let (head, tail) = sketch.marks.split_at(split);
        let separator = match sketch.items.get(1) {
            Some(second) => bytes.get(first.end..second.start)?,
            None => default_separator,
        };
        Some(Shape {
            head: Steps::learn(bytes, record.start..first.start, head)?,
            items: Some(ItemSteps {
                item: Steps::learn(bytes, first.clone(), &sketch.item_marks)?,
                separator: Literal::new(separator),
                tail: Steps::learn(bytes, last.end..record.end, tail)?,
            }),
            number,
            fills_slots,
        })
    }

    /// As [`Shapes::read`].
    #[inline]
    fn read<'a>(
        &self,
        rest: &'a [u8],
        base: &[Option<&'a [u8]>],
        texts: &mut Texts<'a>,
    ) -> Option<usize> {
        // What the last record has left is written over by each that fits.
        if !self.fills_slots || texts.shape != Some(self.number) {
            texts.slots.copy_from_slice(base);
            texts.shape = Some(self.number);
        }
        texts.items.clear();
        let slots = &mut texts.slots[..];
        let mut found = |slot: usize, text| {
            if let Some(place) = slots.get_mut(slot) {
                *place = Some(text);
            }
        };
        let behind = self.head.read(rest, &mut found)?;
        let behind = match &self.items {
            Some(items) => items.tail.read(items.read(behind, &mut texts.items)?, &mut found)?,
            None => behind,
        };
        Some(rest.len() - behind.len())
    }
}

impl ItemSteps {
    /// Reads all items; gives what comes behind them.
    #[inline]
    fn read<'a>(&self, mut rest: &'a [u8], found: &mut Vec<ItemTexts<'a>>) -> Option<&'a [u8]> {
        let mut next = rest;
        while self.item.first().strip(next).is_some() {
            let mut item = (None, None);
            rest = self.item.read(next, |slot, text| match slot {
                ITEM_KEY => item.0 = Some(text),
                ITEM_COUNT => item.1 = Some(text),
                _ => {}
            })?;
            if found.len() >= ITEM_COUNT_MAX {
                return None;
            }
            found.push(item);
            match self.separator.strip(rest) {
                Some(behind) => next = behind,
                None => break,
            }
        }
        Some(rest)
    }
}

impl Steps {
    fn learn(bytes: &[u8], range: Range<usize>, marks: &[Mark]) -> Option<Steps> {
        if marks.len() > STEP_COUNT_MAX {
            return None;
        }
        let mut at = range.start;
        let mut steps = Vec::with_capacity(marks.len());
        for mark in marks {
            let before = Literal::new(bytes.get(at..mark.range.start)?);
            steps.push(Step { before, slot: mark.slot, form: mark.kind.form() });
            at = mark.range.end;
        }
        let steps = Steps { steps, end: Literal::new(bytes.get(at..range.end)?) };
        steps.are_sure().then_some(steps)
    }

    /// Whether what ends a value is the first byte of the markup behind it: then a value that
    /// something else has ended does not fit.
    fn are_sure(&self) -> bool {
        let behind = self.steps.iter().skip(1).map(|step| &step.before).chain([&self.end]);
        self.steps.iter().zip(behind).all(|(step, behind)| match step.form {
            Form::Text { end, .. } => behind.bytes.first() == Some(&end),
            Form::JsonNumber | Form::JsonWord => true,
        })
    }

    /// The first piece of markup.
    #[inline]
    fn first(&self) -> &Literal {
        self.steps.first().map_or(&self.end, |step| &step.before)
    }

    /// Reads the values, and gives what comes behind all.
    #[inline]
    fn read<'a>(
        &self,
        mut rest: &'a [u8],
        mut found: impl FnMut(usize, &'a [u8]),
    ) -> Option<&'a [u8]> {
        for step in &self.steps {
            rest = step.before.strip(rest)?;
            let length = match &step.form {
                Form::Text { stops, .. } => stops.find(rest)?,
                Form::JsonNumber => json_number_length(rest)?,
                Form::JsonWord => json_word_length(rest)?,
            };
            let (text, behind) = rest.split_at_checked(length)?;
            rest = behind;
            match step.form {
                Form::Text { is_trimmed: true, .. } => found(step.slot, trim(text)),
                Form::JsonWord if text == b"null" => {}
                _ => found(step.slot, text),
            }
        }
        self.end.strip(rest)
    }
}

impl Literal {
    fn new(bytes: &[u8]) -> Literal {
        let tail = ShortPrefix::new(&bytes[bytes.len().saturating_sub(WORD_BYTES)..]);
        Literal { bytes: bytes.into(), head: ShortPrefix::new(bytes), tail }
    }

    /// Whether it may be there: it is not if its first bytes are not.
    #[inline]
    fn may_begin(&self, rest: &[u8]) -> bool {
        rest.first_chunk().is_none_or(|head| self.head.matches(head))
    }

    /// What comes behind it, if it is there.
    #[inline]
    fn strip<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let length = self.bytes.len();
        match rest.first_chunk::<WORD_BYTES>() {
            Some(head) if !self.head.matches(head) => None,
            Some(_) if length <= WORD_BYTES => rest.get(length..),
            Some(_) if length <= 2 * WORD_BYTES => {
                let (bytes, behind) = rest.split_at_checked(length)?;
                self.tail.matches(bytes.last_chunk()?).then_some(behind)
            }
            _ => rest.strip_prefix(&self.bytes[..]),
        }
    }
}

impl Kind {
    /// What ends such a text comes first, then what a library must look at; numbers and words end
    /// otherwise.
    fn form(self) -> Form {
        let is_trimmed = self == Kind::Element;
        let text =
            |ends: [u8; 3]| Form::Text { end: ends[0], stops: StopBytes::new(ends), is_trimmed };
        match self {
            Kind::Attribute(quote) => text([quote, b'<', b'&']),
            Kind::Element => text([b'<', b'&', b'&']),
            Kind::JsonString => text([b'"', b'\\', b'\\']),
            Kind::JsonNumber => Form::JsonNumber,
            Kind::JsonWord => Form::JsonWord,
        }
    }
}

/// How long a number of JSON's grammar is.
#[inline]
fn json_number_length(rest: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = rest.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let start = usize::from(rest.first() == Some(&b'-'));
    let mut end = digits(start);
    let whole_fits = match rest.get(start)? {
        b'0' => end == start + 1,
        _ => end > start,
    };
    if !whole_fits {
        return None;
    }
    if rest.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = digits(fraction);
        if end == fraction {
            return None;
        }
    }
    // An exponent is rare; the library reads it.
    (!matches!(rest.get(end), Some(b'e' | b'E'))).then_some(end)
}

fn json_word_length(rest: &[u8]) -> Option<usize> {
    let words: [&[u8]; 3] = [b"true", b"false", b"null"];
    words.iter().find(|word| rest.starts_with(word)).map(|word| word.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_json_are_those_of_the_library(text in "-?[0-9]{0,4}(\\.[0-9]{0,3})?[,e]?") {
            let with_more = format!("{text} ");
            if let Some(end) = json_number_length(with_more.as_bytes()) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text[..end]).is_ok());
            } else {
                let whole = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                prop_assert!(!whole || text.contains('e'));
            }
        }

        #[test]
        fn a_literal_is_compared_whole(
            bytes in "a{0,40}[ab]{0,30}", literal in "a{0,30}[ab]{0,12}",
        ) {
            let found = Literal::new(literal.as_bytes()).strip(bytes.as_bytes());
            prop_assert_eq!(found, bytes.as_bytes().strip_prefix(literal.as_bytes()));
        }
    }
}
