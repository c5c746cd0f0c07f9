//! Lazy fields: computed for a packet only when every other condition of a rule holds.
//!
//! For: places of addresses and other fields that take longer to compute than to compare. Not for:
//! computing them; the caller does, by the packet's index.
//!
//! ```text
//! rule 7: destination port 80, lazy field 0 in [3, 3]
//! box 7:  lane 3 [80, 80], inexact ─► found by its lanes ─► question 7: [3, 3] ─► lazy(packet)[0]
//! ```
//!
//! No graph is cut by lazy fields. Where many rules differ in nothing else, all of them would ask
//! for a packet's field: [`asked`] measures that, and the caller then puts the numbers into words.
//!
//! Concurrency: plain data. Cost: four comparisons a question, and what the caller takes to answer.

use super::boxes::{Boxes, LANES};
use super::rule::{Condition, Field, LAZY_FIELDS, Rules, Values};
use super::samples::Samples;

/// A packet's lazy fields.
pub type LazyValues = [u32; LAZY_FIELDS];

/// Computes the lazy fields of a packet, given its index in the batch.
pub trait LazyFields: Fn(usize) -> LazyValues + Copy {}

impl<F: Fn(usize) -> LazyValues + Copy> LazyFields for F {}

/// The lazy fields of packets without any, or whose rules ask for none.
pub(crate) fn none(_place: usize) -> LazyValues {
    [0; LAZY_FIELDS]
}

/// The conditions of a box beyond its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    low: LazyValues,
    high: LazyValues,
    /// The lanes are inexact: the rule itself must be checked.
    pub(crate) of_rule: bool,
}

impl Question {
    /// The questions of all boxes; empty where no rule asks for a lazy field.
    pub(crate) fn of(boxes: &Boxes) -> Vec<Question> {
        if !boxes.has_lazy {
            return Vec::new();
        }
        let of_box = |(extent, of_rule): (&super::boxes::Extent, &bool)| {
            let part =
                |ends: &[u32; LANES + LAZY_FIELDS]| std::array::from_fn(|one| ends[LANES + one]);
            Question { low: part(&extent.low), high: part(&extent.high), of_rule: *of_rule }
        };
        boxes.ends.iter().zip(&boxes.of_rule).map(of_box).collect()
    }

    /// Whether these values are in its ranges.
    #[inline(always)]
    pub(crate) fn holds(&self, numbers: LazyValues) -> bool {
        let ends = self.low.iter().zip(&self.high);
        let inside =
            |((low, high), number): ((&u32, &u32), u32)| (*low <= number) & (number <= *high);
        ends.zip(numbers).fold(true, |all, one| all & inside(one))
    }

    /// Whether no lazy field is asked for.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.low == [0; LAZY_FIELDS] && self.high == [u32::MAX; LAZY_FIELDS]
    }
}

/// A packet and its lazy fields.
pub(crate) struct Whole<'a, V, L> {
    pub(crate) packet: &'a V,
    pub(crate) lazy: L,
    pub(crate) place: usize,
}

impl<V: Values, L: LazyFields> Values for Whole<'_, V, L> {
    fn value(&self, field: Field) -> u128 {
        match field {
            Field::Lazy(number) => {
                (self.lazy)(self.place)[usize::from(number) % LAZY_FIELDS].into()
            }
            _ => self.packet.value(field),
        }
    }
}

/// How often packets that rules are about are asked for their lazy fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LazyCost {
    /// The part of the packets that are asked at all.
    pub share: f64,
    /// Questions a packet.
    pub questions: f64,
}

/// Counts questions over `packets` packets drawn from the rules, rule by rule. Costs that many
/// scans.
pub fn asked(rules: &Rules, packets: usize) -> LazyCost {
    let mut samples = Samples::new(rules, 12);
    let (mut asked, mut questions) = (0, 0);
    for _ in 0..packets {
        let (packet, lazy) = samples.with_lazy();
        let whole = Whole { packet: &packet, lazy: |_| lazy, place: 0 };
        let before = questions;
        for rule in rules.list() {
            let is_lazy = |one: &Condition| matches!(one.field, Field::Lazy(_));
            let holds = |one: &Condition| one.holds(whole.value(one.field));
            // Lazy conditions are a rule's last ones.
            let first = rule.conditions.partition_point(|one| !is_lazy(one));
            let (others, lazy) = rule.conditions.split_at(first);
            if !others.iter().all(holds) {
                continue;
            }
            questions += usize::from(!lazy.is_empty());
            if rule.terminal && lazy.iter().all(holds) {
                break;
            }
        }
        asked += usize::from(questions > before);
    }
    let each = |count: usize| count as f64 / packets.max(1) as f64;
    LazyCost { share: each(asked), questions: each(questions) }
}
