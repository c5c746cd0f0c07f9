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
//! - a shape is kept only if it reads the record that it was learned from as the library did.
//!
//! Concurrency: shapes belong to one scan. Cost: one comparison for each piece of markup and one
//! look at each sixteen bytes of a value; memory for at most [`SHAPE_COUNT_MAX`] shapes.

use std::ops::Range;

use whered_cpu::{Start, Stops};

use crate::assemble::Texts;
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
    head: Start,
    /// Its last sixteen bytes, if it has more than that.
    tail: Start,
}

#[derive(Clone, Debug)]
struct Step {
    before: Literal,
    kind: Kind,
    /// What ends a value of this kind, and what none of them has.
    stops: Option<Stops>,
    slot: usize,
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

    /// Reads the record at a place, if it has a known shape: its texts, and where it ends.
    /// `base` is what slots hold that are not part of the record.
    #[inline]
    pub(crate) fn read<'a>(
        &mut self,
        bytes: &'a [u8],
        at: usize,
        base: &[Option<&'a [u8]>],
        texts: &mut Texts<'a>,
    ) -> Option<usize> {
        let count = self.shapes.len();
        for turn in 0..count {
            let place =
                if self.last + turn < count { self.last + turn } else { self.last + turn - count };
            if let Some(end) = self.shapes[place].read(bytes, at, base, texts) {
                self.last = place;
                return Some(end);
            }
        }
        None
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
        let Some(shape) = Shape::learn(bytes, record.clone(), sketch, default_separator) else {
            return;
        };
        let mut texts = Texts::new(base.len());
        let end = shape.read(bytes, record.start, base, &mut texts);
        if end != Some(record.end) || texts.slots != expected.slots || texts.items != expected.items
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
    ) -> Option<Shape> {
        let (Some(first), Some(last)) = (sketch.items.first(), sketch.items.last()) else {
            return Some(Shape { head: Steps::learn(bytes, record, &sketch.marks)?, items: None });
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
        })
    }

    #[inline]
    fn read<'a>(
        &self,
        bytes: &'a [u8],
        at: usize,
        base: &[Option<&'a [u8]>],
        texts: &mut Texts<'a>,
    ) -> Option<usize> {
        // Most records of another shape differ in their first bytes.
        if !self.head.first().may_begin(bytes, at) {
            return None;
        }
        texts.slots.copy_from_slice(base);
        texts.items.clear();
        let slots = &mut texts.slots;
        let mut at = self.head.read(bytes, at, |slot, text| {
            if let Some(place) = slots.get_mut(slot) {
                *place = Some(text);
            }
        })?;
        let Some(items) = &self.items else { return Some(at) };
        let mut next = at;
        while items.item.first().skip(bytes, next).is_some() {
            let mut item = (None, None);
            at = items.item.read(bytes, next, |slot, text| match slot {
                ITEM_KEY => item.0 = Some(text),
                ITEM_COUNT => item.1 = Some(text),
                _ => {}
            })?;
            if texts.items.len() >= ITEM_COUNT_MAX {
                return None;
            }
            texts.items.push(item);
            match items.separator.skip(bytes, at) {
                Some(behind) => next = behind,
                None => break,
            }
        }
        items.tail.read(bytes, at, |slot, text| {
            if let Some(place) = slots.get_mut(slot) {
                *place = Some(text);
            }
        })
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
            let stops = mark.kind.stops();
            steps.push(Step { before, kind: mark.kind, stops, slot: mark.slot });
            at = mark.range.end;
        }
        Some(Steps { steps, end: Literal::new(bytes.get(at..range.end)?) })
    }

    /// The first piece of markup.
    #[inline]
    fn first(&self) -> &Literal {
        self.steps.first().map_or(&self.end, |step| &step.before)
    }

    #[inline]
    fn read<'a>(
        &self,
        bytes: &'a [u8],
        mut at: usize,
        mut found: impl FnMut(usize, &'a [u8]),
    ) -> Option<usize> {
        for step in &self.steps {
            at = step.before.skip(bytes, at)?;
            let end = step.value_end(bytes, at)?;
            let text = &bytes[at..end];
            match step.kind {
                Kind::Element => found(step.slot, trim(text)),
                Kind::JsonWord if text == b"null" => {}
                _ => found(step.slot, text),
            }
            at = end;
        }
        self.end.skip(bytes, at)
    }
}

impl Literal {
    fn new(bytes: &[u8]) -> Literal {
        let tail = Start::new(&bytes[bytes.len().saturating_sub(WORD_BYTES)..]);
        Literal { bytes: bytes.into(), head: Start::new(bytes), tail }
    }

    /// Whether it may be there: it is not if its first bytes are not.
    #[inline]
    fn may_begin(&self, bytes: &[u8], at: usize) -> bool {
        let head = bytes.get(at..).and_then(|rest| rest.first_chunk());
        head.is_none_or(|head| self.head.fits(head))
    }

    /// Where it ends, if it is there.
    #[inline]
    fn skip(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let (rest, length) = (bytes.get(at..)?, self.bytes.len());
        let end = at + length;
        if let Some(head) = rest.first_chunk::<WORD_BYTES>() {
            if !self.head.fits(head) {
                return None;
            }
            if length <= WORD_BYTES {
                return Some(end);
            }
            if length <= 2 * WORD_BYTES {
                let tail = rest.get(..length)?.last_chunk()?;
                return self.tail.fits(tail).then_some(end);
            }
        }
        (rest.get(..length)? == &self.bytes[..]).then_some(end)
    }
}

impl Kind {
    /// What ends such a value comes first, then what a library must look at; numbers and words end otherwise.
    fn stops(self) -> Option<Stops> {
        match self {
            Kind::Attribute(quote) => Some(Stops::new([quote, b'<', b'&'])),
            Kind::Element => Some(Stops::new([b'<', b'&', b'&'])),
            Kind::JsonString => Some(Stops::new([b'"', b'\\', b'\\'])),
            Kind::JsonNumber | Kind::JsonWord => None,
        }
    }
}

impl Step {
    /// Where a value ends; `None` if it is one that a library must look at.
    #[inline(always)]
    fn value_end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        match &self.stops {
            Some(stops) => stops.end(bytes, at),
            None if self.kind == Kind::JsonNumber => json_number_end(bytes, at),
            None => json_word_end(bytes, at),
        }
    }
}

/// Where a number of JSON's grammar ends.
#[inline]
fn json_number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = digits(start);
    let whole_fits = match bytes.get(start)? {
        b'0' => end == start + 1,
        _ => end > start,
    };
    if !whole_fits {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = digits(fraction);
        if end == fraction {
            return None;
        }
    }
    // An exponent is rare; the library reads it.
    (!matches!(bytes.get(end), Some(b'e' | b'E'))).then_some(end)
}

fn json_word_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let words: [&[u8]; 3] = [b"true", b"false", b"null"];
    words.iter().find(|word| rest.starts_with(word)).map(|word| at + word.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_json_are_those_of_the_library(text in "-?[0-9]{0,4}(\\.[0-9]{0,3})?[,e]?") {
            let with_more = format!("{text} ");
            if let Some(end) = json_number_end(with_more.as_bytes(), 0) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text[..end]).is_ok());
            } else {
                let whole = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                prop_assert!(!whole || text.contains('e'));
            }
        }

        #[test]
        fn a_literal_is_compared_whole(
            bytes in "a{0,40}[ab]{0,30}", literal in "a{0,30}[ab]{0,12}", at in 0_usize..40,
        ) {
            let slow = bytes.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(literal.as_bytes()));
            let found = Literal::new(literal.as_bytes()).skip(bytes.as_bytes(), at);
            prop_assert_eq!(found, slow.then_some(at + literal.len()));
        }
    }
}
