//! Late numbers: those that a packet is asked for only when all else of a rule holds.
//!
//! For: places of addresses and whatever else takes longer to know than to compare. Not for: knowing
//! them; the caller does, by the packet's place.
//!
//! ```text
//! rule 7: destination port 80, late number 0 in [3, 3]
//! box 7:  lane 3 [80, 80], slow   ─► found by its lanes ─► question 7: [3, 3] ─► late(packet)[0]
//! ```
//!
//! No graph is cut by late numbers, so where many rules differ in nothing else a packet would be asked
//! by all of them: [`asked`] tells, and the caller puts the numbers into words then.
//!
//! Concurrency: plain data. Cost: four comparisons a question, and what the caller takes to answer.

use super::boxes::{Boxes, LANES};
use super::rule::{Condition, Field, LATE, Rules, Values};
use super::samples::Samples;

/// A packet's late numbers.
pub type LateNumbers = [u32; LATE];

/// Knows the late numbers of packets, by their places among those that are asked about.
pub trait Late: Fn(usize) -> LateNumbers + Copy {}

impl<F: Fn(usize) -> LateNumbers + Copy> Late for F {}

/// Of packets without late numbers, or whose rules ask for none.
pub(crate) fn none(_place: usize) -> LateNumbers {
    [0; LATE]
}

/// What a box asks for beside its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    low: LateNumbers,
    high: LateNumbers,
    /// The lanes do not say all else: the rule must be asked.
    pub(crate) of_rule: bool,
}

impl Question {
    /// The questions of all boxes; empty where no rule asks for a late number.
    pub(crate) fn of(boxes: &Boxes) -> Vec<Question> {
        if !boxes.has_late {
            return Vec::new();
        }
        let of_box = |(extent, of_rule): (&super::boxes::Extent, &bool)| {
            let part = |ends: &[u32; LANES + LATE]| std::array::from_fn(|one| ends[LANES + one]);
            Question { low: part(&extent.low), high: part(&extent.high), of_rule: *of_rule }
        };
        boxes.ends.iter().zip(&boxes.of_rule).map(of_box).collect()
    }

    /// Whether these numbers are meant.
    #[inline(always)]
    pub(crate) fn holds(&self, numbers: LateNumbers) -> bool {
        let ends = self.low.iter().zip(&self.high);
        let inside =
            |((low, high), number): ((&u32, &u32), u32)| (*low <= number) & (number <= *high);
        ends.zip(numbers).fold(true, |all, one| all & inside(one))
    }

    /// Whether no late number is asked for.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.low == [0; LATE] && self.high == [u32::MAX; LATE]
    }
}

/// A packet and its late numbers.
pub(crate) struct Whole<'a, V, L> {
    pub(crate) packet: &'a V,
    pub(crate) late: L,
    pub(crate) place: usize,
}

impl<V: Values, L: Late> Values for Whole<'_, V, L> {
    fn value(&self, field: Field) -> u128 {
        match field {
            Field::Late(number) => (self.late)(self.place)[usize::from(number) % LATE].into(),
            _ => self.packet.value(field),
        }
    }
}

/// How often packets that rules are about are asked for their late numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// The part of the packets that are asked at all.
    pub share: f64,
    /// Questions a packet.
    pub questions: f64,
}

/// Counts questions over so many packets drawn from the rules, rule by rule. Costs that many scans.
pub fn asked(rules: &Rules, packets: usize) -> Asked {
    let mut samples = Samples::new(rules, 12);
    let (mut asked, mut questions) = (0, 0);
    for _ in 0..packets {
        let (packet, late) = samples.with_late();
        let whole = Whole { packet: &packet, late: |_| late, place: 0 };
        let before = questions;
        for rule in rules.list() {
            let is_late = |one: &Condition| matches!(one.field, Field::Late(_));
            let holds = |one: &Condition| one.holds(whole.value(one.field));
            // Late conditions are a rule's last ones.
            let first = rule.conditions.partition_point(|one| !is_late(one));
            let (others, late) = rule.conditions.split_at(first);
            if !others.iter().all(holds) {
                continue;
            }
            questions += usize::from(!late.is_empty());
            if rule.terminal && late.iter().all(holds) {
                break;
            }
        }
        asked += usize::from(questions > before);
    }
    let each = |count: usize| count as f64 / packets.max(1) as f64;
    Asked { share: each(asked), questions: each(questions) }
}
