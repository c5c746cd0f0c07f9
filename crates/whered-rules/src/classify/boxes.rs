//! Rules as boxes: one interval of 32-bit numbers in each of at most sixteen lanes.
//!
//! For: all compiled forms, which know boxes only. Not for: answering.
//!
//! ```text
//! rule 7: protocol {6, 17}, destination port 80   ─►  box 9:  lane 3 [80, 80]  lane 4 [6, 6]
//!                                                     box 10: lane 3 [80, 80]  lane 4 [17, 17]
//! ```
//!
//! A rule whose conditions are lists becomes the product of its ranges, up to [`MOST_BOXES`]; past
//! that, and for fields beyond the sixteenth, a box is larger than the rule and marked *slow*: who
//! finds it asks the rule itself. IPv6 addresses are numbered by the intervals between all ends of
//! ranges in the ruleset ([`Ends`]), so that lanes 0 and 1 are 32-bit numbers there too.
//!
//! Lazy fields are no lanes: their ends stand behind those of the lanes, and a box that asks for
//! one is marked slow, too.
//!
//! Lanes are words of the packet where the rules ask for its first eight words only, or for more
//! than eight fields without sets: then nothing is copied. Otherwise they are gathered into a line
//! of their own, so that up to eight fields are one comparison whichever they are.
//!
//! Invariants: boxes are in the order of their rules; the boxes of one rule that are not slow are
//! disjoint; `high` of a lane that a box does not ask about is the lane's greatest value.

use super::rule::{Family, Field, LAZY_FIELDS, Packet, Rule, Rules};
use super::simd::{Line, Processor, Sources};

/// Lanes of a box, and numbers of a packet that are compared.
pub(crate) const LANES: usize = 16;
/// A rule becomes at most this many boxes.
const MOST_BOXES: usize = 4096;

/// A packet's numbers, one for each lane.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys(pub(crate) [u32; LANES]);

/// The low and high ends of a box, by lane, and those of lazy fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) low: [u32; LANES + LAZY_FIELDS],
    pub(crate) high: [u32; LANES + LAZY_FIELDS],
}

/// All boxes of a ruleset.
#[derive(Clone, Debug)]
pub(crate) struct Boxes {
    pub(crate) lanes: Lanes,
    pub(crate) ends: Vec<Extent>,
    /// Bit N: the box is as wide as lane N.
    pub(crate) wide: Vec<u16>,
    /// The rule of a box.
    pub(crate) rule: Vec<u32>,
    /// The rule ends the search.
    pub(crate) terminal: Vec<bool>,
    /// Its lanes do not say all: who finds it asks for more.
    pub(crate) slow: Vec<bool>,
    /// The rule must be asked itself.
    pub(crate) of_rule: Vec<bool>,
    /// Some box asks for a lazy field.
    pub(crate) has_lazy: bool,
}

/// Where the numbers of a packet come from.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    pub(crate) family: Family,
    /// The fields, by lane; `None` where no rule asks for it.
    pub(crate) fields: [Option<Field>; LANES],
    /// Lanes are the packet's own words.
    pub(crate) in_place: bool,
    /// No lane past the eighth is used.
    pub(crate) narrow: bool,
    /// Where lanes that are gathered come from.
    from: Sources,
    /// IPv6: the intervals of the two addresses.
    pub(crate) sources: Starts,
    pub(crate) destinations: Starts,
}

/// Which bits of which word of a packet each lane is.
fn sources(fields: &[Option<Field>; LANES]) -> Sources {
    let mut from = Sources { words: Line([0; 16]), shifts: Line([0; 16]), masks: Line([0; 16]) };
    for (lane, field) in fields.iter().enumerate() {
        let Some(field) = field else { continue };
        let Some(word) = field.word() else { continue };
        from.words.0[lane] = word as u32;
        (from.shifts.0[lane], from.masks.0[lane]) = match field {
            Field::Set(set) => (u32::from(set % 32), 1),
            _ => (0, u32::MAX),
        };
    }
    from
}

impl Lanes {
    /// Chooses the lanes of a ruleset.
    fn choose(rules: &Rules) -> Lanes {
        let mut used: Vec<Field> = Vec::new();
        for condition in rules.list().iter().flat_map(|rule| &rule.conditions) {
            if condition.field.word().is_some() && !used.contains(&condition.field) {
                used.push(condition.field);
            }
        }
        used.sort_unstable();
        // A set's bit is not a word of its own, and a box of eight lanes is one line instead of
        // two.
        let has_sets = used.iter().any(|field| matches!(field, Field::Set(_)));
        let words = || used.iter().filter_map(|field| field.word());
        let is_near = words().all(|word| word < LANES / 2);
        let in_place = !has_sets && (is_near || used.len() > LANES / 2);
        let mut fields = [None; LANES];
        if in_place {
            used.iter().zip(words()).for_each(|(&field, word)| fields[word] = Some(field));
        } else {
            used.iter()
                .take(LANES)
                .enumerate()
                .for_each(|(lane, &field)| fields[lane] = Some(field));
        }
        let narrow = fields[8..].iter().all(Option::is_none);
        let starts = |field| match rules.family() {
            Family::V4 => Starts::default(),
            Family::V6 => Starts::of(rules, field),
        };
        Lanes {
            family: rules.family(),
            fields,
            in_place,
            narrow,
            from: sources(&fields),
            sources: starts(Field::Source),
            destinations: starts(Field::Destination),
        }
    }

    /// The greatest number of a lane.
    pub(crate) fn max(&self, lane: usize) -> u32 {
        match (self.fields[lane], self.family) {
            (Some(Field::Source), Family::V6) => self.sources.last(),
            (Some(Field::Destination), Family::V6) => self.destinations.last(),
            (Some(field), family) => field.max(family) as u32,
            (None, _) => u32::MAX,
        }
    }

    /// The lane of a field.
    pub(crate) fn lane(&self, field: Field) -> Option<usize> {
        self.fields.iter().position(|one| *one == Some(field))
    }

    /// The range of a condition as numbers of its lane.
    fn numbers(&self, field: Field, range: (u128, u128)) -> (u32, u32) {
        match (field, self.family) {
            (Field::Source, Family::V6) => self.sources.range(range),
            (Field::Destination, Family::V6) => self.destinations.range(range),
            _ => (range.0 as u32, range.1 as u32),
        }
    }

    /// The numbers of a packet whose lanes are not its words; words 0 and 1 of an IPv6 packet are
    /// given apart.
    #[inline(always)]
    pub(crate) fn gather<P: Processor>(
        &self,
        processor: P,
        packet: &Packet,
        addresses: Option<(u128, u128)>,
    ) -> Keys {
        let mut keys = if self.in_place {
            Keys(packet.words)
        } else {
            processor.gather(&packet.words, &self.from, self.narrow)
        };
        if let Some((source, destination)) = addresses {
            for (key, field) in keys.0.iter_mut().zip(self.fields) {
                match field {
                    Some(Field::Source) => *key = self.sources.number(source),
                    Some(Field::Destination) => *key = self.destinations.number(destination),
                    _ => {}
                }
            }
        }
        keys
    }
}

/// The starts of the intervals between all ends of one field's ranges, for 128-bit values.
///
/// ```text
/// top 16 bits ─► first[n] .. first[n + 1]: the part of `starts` that begins so ─► binary search
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts {
    starts: Vec<u128>,
    first: Vec<u32>,
}

impl Starts {
    /// The intervals of a field.
    fn of(rules: &Rules, field: Field) -> Starts {
        let mut starts = vec![0u128];
        let conditions = rules.list().iter().flat_map(|rule| &rule.conditions);
        for condition in conditions.filter(|condition| condition.field == field) {
            for &(low, high) in &condition.ranges {
                starts.push(low);
                starts.extend(high.checked_add(1));
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let first = (0..=1u128 << 16)
            .map(|top| starts.partition_point(|start| start >> 112 < top) as u32)
            .collect();
        Starts { starts, first }
    }

    /// The number of the interval that holds a value.
    #[inline]
    pub(crate) fn number(&self, value: u128) -> u32 {
        let top = (value >> 112) as usize;
        let (from, to) = (self.first[top] as usize, self.first[top + 1] as usize);
        let below = self.starts[from..to].partition_point(|&start| start <= value);
        (from + below) as u32 - 1
    }

    /// The greatest number.
    fn last(&self) -> u32 {
        self.starts.len().max(1) as u32 - 1
    }

    /// The intervals of a range whose ends are among them.
    fn range(&self, range: (u128, u128)) -> (u32, u32) {
        (self.number(range.0), self.number(range.1))
    }

    /// Bytes that are held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.starts.len() * 16 + self.first.len() * 4
    }
}

impl Boxes {
    /// The boxes of all rules.
    pub(crate) fn of(rules: &Rules) -> Boxes {
        let mut boxes = Boxes {
            lanes: Lanes::choose(rules),
            ends: Vec::with_capacity(rules.list().len()),
            wide: Vec::new(),
            rule: Vec::new(),
            terminal: Vec::new(),
            slow: Vec::new(),
            of_rule: Vec::new(),
            has_lazy: false,
        };
        for (place, rule) in rules.list().iter().enumerate() {
            boxes.add(place as u32, rule);
        }
        boxes
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The lanes that some rule asks about, one bit each.
    pub(crate) fn used(&self) -> u16 {
        let fields = self.lanes.fields.iter().enumerate();
        fields.filter(|(_, field)| field.is_some()).fold(0, |bits, (lane, _)| bits | 1 << lane)
    }

    /// The ends of all boxes for the primitives: a line each (low ends, high ends), or two.
    pub(crate) fn records(&self) -> Vec<Line> {
        let mut lines = Vec::with_capacity(self.len() * if self.lanes.narrow { 1 } else { 2 });
        for extent in &self.ends {
            if self.lanes.narrow {
                let mut line = Line([0; 16]);
                line.0[..8].copy_from_slice(&extent.low[..8]);
                line.0[8..].copy_from_slice(&extent.high[..8]);
                lines.push(line);
            } else {
                let part =
                    |ends: &[u32; LANES + LAZY_FIELDS]| std::array::from_fn(|lane| ends[lane]);
                lines.push(Line(part(&extent.low)));
                lines.push(Line(part(&extent.high)));
            }
        }
        lines
    }

    /// Adds the boxes of one rule.
    fn add(&mut self, place: u32, rule: &Rule) {
        let mut parts: Vec<(usize, Vec<(u32, u32)>)> = Vec::new();
        let (mut of_rule, mut has_lazy) = (false, false);
        for condition in &rule.conditions {
            if condition.ranges.is_empty() {
                return;
            }
            let lane = match condition.field {
                Field::Lazy(number) => {
                    has_lazy = true;
                    Some(LANES + usize::from(number))
                }
                field => self.lanes.lane(field),
            };
            match lane {
                Some(lane) => {
                    let numbers = |&range| self.lanes.numbers(condition.field, range);
                    parts.push((lane, condition.ranges.iter().map(numbers).collect()));
                }
                None => of_rule = true,
            }
        }
        while parts.iter().map(|part| part.1.len()).product::<usize>() > MOST_BOXES {
            let longest = parts.iter_mut().max_by_key(|part| part.1.len());
            let ranges = &mut longest.expect("a product above one has a factor").1;
            let whole = (ranges[0].0, ranges.last().map_or(0, |range| range.1));
            *ranges = vec![whole];
            of_rule = true;
        }
        self.has_lazy |= has_lazy;
        let mut ends =
            Extent { low: [0; LANES + LAZY_FIELDS], high: [u32::MAX; LANES + LAZY_FIELDS] };
        for lane in 0..LANES {
            ends.high[lane] = self.lanes.max(lane);
        }
        self.product(place, rule.terminal, &parts, ends);
        self.slow.resize(self.len(), of_rule || has_lazy);
        self.of_rule.resize(self.len(), of_rule);
    }

    /// Adds one box for each choice of a range from every part.
    fn product(
        &mut self,
        place: u32,
        terminal: bool,
        parts: &[(usize, Vec<(u32, u32)>)],
        ends: Extent,
    ) {
        let Some(((lane, ranges), rest)) = parts.split_first() else {
            let wide = (0..LANES)
                .filter(|&lane| ends.low[lane] == 0 && ends.high[lane] == self.lanes.max(lane))
                .fold(0, |bits, lane| bits | 1 << lane);
            self.ends.push(ends);
            self.wide.push(wide);
            self.rule.push(place);
            self.terminal.push(terminal);
            return;
        };
        for &(low, high) in ranges {
            let mut narrowed = ends;
            (narrowed.low[*lane], narrowed.high[*lane]) = (low, high);
            self.product(place, terminal, rest, narrowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Condition;
    use super::*;

    fn rule(conditions: &[(Field, &[(u128, u128)])]) -> Rule {
        let conditions = conditions
            .iter()
            .map(|&(field, ranges)| Condition { field, ranges: ranges.to_vec() })
            .collect();
        Rule { conditions, terminal: true, verdict: 0 }
    }

    #[test]
    fn lists_become_products_and_impossible_rules_nothing() {
        let rules = vec![
            rule(&[(Field::Protocol, &[(6, 6), (17, 17)]), (Field::SourcePort, &[(1, 2), (9, 9)])]),
            rule(&[(Field::Protocol, &[])]),
            rule(&[]),
        ];
        let rules = Rules::new(Family::V4, rules).expect("valid");
        let boxes = Boxes::of(&rules);
        assert_eq!(boxes.rule, [0, 0, 0, 0, 2]);
        assert!(boxes.lanes.in_place && boxes.lanes.narrow);
        assert_eq!(boxes.used(), 1 << 2 | 1 << 4);
        assert_eq!(boxes.wide[4], u16::MAX);
    }

    #[test]
    fn a_long_product_is_one_wide_box_that_must_be_asked() {
        let many: Vec<(u128, u128)> = (0..5000).map(|n| (n * 2, n * 2)).collect();
        let rules = vec![rule(&[(Field::SourcePort, &many), (Field::Protocol, &[(6, 6)])])];
        let boxes = Boxes::of(&Rules::new(Family::V4, rules).expect("valid"));
        assert_eq!(boxes.len(), 1);
        assert!(boxes.slow[0]);
        assert_eq!(boxes.ends[0].high[2], 9998);
    }

    #[test]
    fn intervals_of_long_addresses_are_numbered() {
        let rules = vec![rule(&[(Field::Source, &[(5, 9), (1 << 120, u128::MAX)])])];
        let boxes = Boxes::of(&Rules::new(Family::V6, rules).expect("valid"));
        let number = |value| boxes.lanes.sources.number(value);
        assert_eq!([number(4), number(5), number(10), number(u128::MAX)], [0, 1, 2, 3]);
        assert_eq!((boxes.ends[1].low[0], boxes.ends[1].high[0]), (3, 3));
    }
}
