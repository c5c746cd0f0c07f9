//! Turns the conditions of one rule into conjunctions of ranges.
//!
//! For: everything about conditions that needs no chains: negation, families, names.
//! Not for: jumps and returns (`flatten`).
//!
//! Invariants: the conjunctions of one rule exclude each other; together they hold for exactly
//! the packets of the family that meet the rule's conditions. All but "either port" become one.
//!
//! Concurrency: plain data. Cost: linear in the conditions' ranges.

use std::borrow::Cow;
use std::collections::HashMap;

use super::conjunction::{Conjunction, Domain, Field};
use super::interfaces::InterfaceTable;
use super::places::{self, PlaceTable, Places};
use super::{Bit, NormalForm};
use crate::error::{Problems, RulesError};
use crate::model::{Condition, IcmpMatch, Origin, Rule, Ruleset, Side, Test, ranges_of_addresses};
use crate::packet::{Family, PORT_PROTOCOLS};
use crate::ranges::Ranges;
use crate::resolve::Questions;

/// How many ranges one test of a mark may become; above that it is a bit.
const MARK_RANGES_LIMIT: u64 = 16;

/// The state of the whole ruleset that the lowering of each rule reads.
pub(super) struct RuleLowering<'r> {
    pub(super) ruleset: &'r Ruleset,
    pub(super) domain: Domain,
    pub(super) interfaces: Cow<'r, InterfaceTable>,
    pub(super) bits: Vec<Bit>,
    set_numbers: HashMap<(Side, &'r str), u16>,
    mark_numbers: HashMap<(u32, u32), u16>,
    pub(super) places: Cow<'r, [PlaceTable; 2]>,
    /// What is answered behind the classifier.
    pub(super) questions: Option<Cow<'r, Questions>>,
    port_protocols: Ranges,
}

impl<'r> RuleLowering<'r> {
    /// Collects interfaces, sets and places of all rules.
    pub(super) fn new(
        ruleset: &'r Ruleset,
        family: Family,
        places: &dyn Places,
    ) -> Result<RuleLowering<'r>, RulesError> {
        let first = &ruleset.chain(ruleset.entry()).origin;
        let Some(interfaces) = InterfaceTable::of(ruleset) else {
            let message = "found more than 65000 different interfaces".to_owned();
            return Err(RulesError::one(&first.file, first.line, 0, message));
        };
        let places = resolve(ruleset, family, places)?;
        let domain = Domain {
            family,
            largest_interface: interfaces.largest(),
            largest_place: [places[0].largest(), places[1].largest()],
        };
        let mut lowering = RuleLowering {
            ruleset,
            domain,
            interfaces: Cow::Owned(interfaces),
            bits: Vec::new(),
            set_numbers: HashMap::new(),
            mark_numbers: HashMap::new(),
            places: Cow::Owned(places),
            questions: Questions::of(ruleset).map(Cow::Owned),
            port_protocols: port_protocols(),
        };
        for rule in ruleset.rules() {
            for condition in &rule.conditions {
                match &condition.test {
                    Test::Set(side, name) => lowering.number_set(*side, name, &rule.origin)?,
                    test @ Test::Mark { value, mask }
                        if !lowering.is_question(test) && mark_ranges(*value, *mask).is_none() =>
                    {
                        lowering.number_mark(*value, *mask, &rule.origin)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(lowering)
    }

    /// A lowering of rules that are inserted later, with the tables that a form has.
    pub(super) fn again(ruleset: &'r Ruleset, form: &'r NormalForm) -> RuleLowering<'r> {
        let (mut set_numbers, mut mark_numbers) = (HashMap::new(), HashMap::new());
        for (bit, number) in form.bits.iter().zip(0..) {
            match bit {
                Bit::Set { side, name, .. } => {
                    set_numbers.insert((*side, name.as_str()), number);
                }
                Bit::Mark { value, mask } => {
                    mark_numbers.insert((*value, *mask), number);
                }
            }
        }
        RuleLowering {
            ruleset,
            domain: form.domain,
            interfaces: Cow::Borrowed(&form.interfaces),
            bits: Vec::new(),
            set_numbers,
            mark_numbers,
            places: Cow::Borrowed(&form.places),
            questions: form.questions.as_deref().map(Cow::Borrowed),
            port_protocols: port_protocols(),
        }
    }

    /// Whether everything that a rule asks for has a number.
    pub(super) fn knows(&self, rule: &Rule) -> bool {
        rule.conditions.iter().all(|condition| match &condition.test {
            Test::Set(side, name) => self.set_numbers.contains_key(&(*side, name.as_str())),
            Test::Place(predicate) => {
                self.places[predicate.side.index()].knows(&predicate.to_string())
            }
            test if self.is_question(test) => false,
            Test::Mark { value, mask } => {
                mark_ranges(*value, *mask).is_some()
                    || self.mark_numbers.contains_key(&(*value, *mask))
            }
            Test::Input(list) | Test::Output(list) => {
                list.iter().all(|pattern| self.interfaces.knows(pattern))
            }
            _ => true,
        })
    }

    fn is_question(&self, test: &Test) -> bool {
        self.questions.as_ref().map_or(test.is_question(), |questions| questions.has(test))
    }

    fn number_set(&mut self, side: Side, name: &'r str, at: &Origin) -> Result<(), RulesError> {
        if self.set_numbers.contains_key(&(side, name)) {
            return Ok(());
        }
        let declared = self.ruleset.set_named(name).and_then(|set| set.elements.as_ref());
        let elements = declared.map(|items| ranges_of_addresses(items, self.domain.family));
        let number = self.number_bit(Bit::Set { side, name: name.to_owned(), elements }, at)?;
        self.set_numbers.insert((side, name), number);
        Ok(())
    }

    fn number_mark(&mut self, value: u32, mask: u32, at: &Origin) -> Result<(), RulesError> {
        if !self.mark_numbers.contains_key(&(value, mask)) {
            let number = self.number_bit(Bit::Mark { value, mask }, at)?;
            self.mark_numbers.insert((value, mask), number);
        }
        Ok(())
    }

    fn number_bit(&mut self, bit: Bit, at: &Origin) -> Result<u16, RulesError> {
        let Ok(number) = u16::try_from(self.bits.len()) else {
            let message = "found more than 65536 different sets and marks".to_owned();
            return Err(RulesError::one(&at.file, at.line, 0, message));
        };
        self.bits.push(bit);
        Ok(number)
    }

    /// The conditions by addresses alone where the places that are asked for have few of
    /// them; `None` if there are none.
    pub(super) fn folded(&self, mut conditions: Conjunction) -> Option<Conjunction> {
        for (table, side) in self.places.iter().zip(Side::BOTH) {
            let field = Field::address(side);
            let asked = places::fields(side).map(|field| conditions.get(field));
            let within = conditions.get(field).filter(|_| asked.iter().any(Option::is_some));
            let addresses = within.and_then(|within| table.addresses(within, asked));
            if let Some(addresses) = addresses {
                let others =
                    places::fields(side).into_iter().fold(conditions, Conjunction::without);
                conditions = others.and(field, &addresses, &self.domain)?;
            }
        }
        Some(conditions)
    }

    /// The conjunctions of a rule's conditions, without its questions.
    pub(super) fn rule(&self, rule: &Rule) -> Vec<Conjunction> {
        let mut boxes = vec![Conjunction::always()];
        let is_field = |condition: &&Condition| !self.is_question(&condition.test);
        for condition in rule.conditions.iter().filter(is_field) {
            let either = self.condition(condition);
            let mut next = Vec::with_capacity(boxes.len() * either.len());
            for one in &boxes {
                next.extend(either.iter().filter_map(|other| one.intersect(other)));
            }
            boxes = next;
        }
        boxes
    }

    /// The conjunctions of one condition, which exclude each other.
    fn condition(&self, condition: &Condition) -> Vec<Conjunction> {
        let negated = condition.negated;
        let icmp_family = match &condition.test {
            Test::Icmp(_) => Family::Ipv4,
            Test::Icmpv6(_) => Family::Ipv6,
            _ => self.domain.family,
        };
        if icmp_family != self.domain.family {
            return Vec::new();
        }
        let guard = match &condition.test {
            Test::Port(..) | Test::EitherPort(_) => self.port_protocols.clone(),
            Test::Icmp(_) => Ranges::single(1, 1),
            Test::Icmpv6(_) => Ranges::single(58, 58),
            Test::TcpFlags { .. } => Ranges::single(6, 6),
            _ => Ranges::single(0, 255),
        };
        let Some(guarded) = self.and(Conjunction::always(), Field::Protocol, &guard, false) else {
            return Vec::new();
        };
        if let Test::EitherPort(list) = &condition.test {
            return self.either_port(&guarded, &numbers(list), negated);
        }
        let (field, ranges) = match &condition.test {
            Test::Family(family) => {
                let meets = (*family == self.domain.family) != negated;
                return if meets { vec![Conjunction::always()] } else { Vec::new() };
            }
            Test::Address(side, items) => {
                (Field::address(*side), ranges_of_addresses(items, self.domain.family))
            }
            Test::Set(side, name) => {
                (Field::Bit(self.set_numbers[&(*side, name.as_str())]), Ranges::single(1, 1))
            }
            Test::Place(predicate) => {
                let table = &self.places[predicate.side.index()];
                let (axis, numbers) = table.numbers_of(&predicate.to_string());
                (Field::Place(predicate.side, axis), numbers)
            }
            Test::Protocol(list) => (Field::Protocol, numbers(list)),
            Test::Port(Side::Source, list) => (Field::SourcePort, numbers(list)),
            Test::Port(Side::Destination, list) => (Field::DestinationPort, numbers(list)),
            Test::Icmp(list) | Test::Icmpv6(list) => (Field::Icmp, icmp_numbers(list)),
            Test::TcpFlags { mask, compare } => {
                let fitting = (0u8..=255).filter(|flags| flags & mask == *compare);
                (Field::TcpFlags, Ranges::new(fitting.map(|n| (n.into(), n.into())).collect()))
            }
            Test::Input(list) => (Field::Input, self.interfaces.numbers_of(list)),
            Test::Output(list) => (Field::Output, self.interfaces.numbers_of(list)),
            Test::State(list) => {
                let states = list.iter().map(|&state| (state as u128, state as u128));
                (Field::State, Ranges::new(states.collect()))
            }
            Test::Dscp(list) => (Field::Dscp, numbers(list)),
            Test::Mark { value, mask } => match mark_ranges(*value, *mask) {
                Some(ranges) => (Field::Mark, ranges),
                None => (Field::Bit(self.mark_numbers[&(*value, *mask)]), Ranges::single(1, 1)),
            },
            // Answered elsewhere.
            Test::EitherPort(_)
            | Test::MaskedAddress { .. }
            | Test::Detail(_)
            | Test::Uncertain(_) => return Vec::new(),
        };
        self.and(guarded, field, &ranges, negated).into_iter().collect()
    }

    fn and(
        &self,
        all: Conjunction,
        field: Field,
        ranges: &Ranges,
        negated: bool,
    ) -> Option<Conjunction> {
        if negated {
            let largest = self.domain.largest(field);
            return all.and(field, &ranges.complement(largest), &self.domain);
        }
        all.and(field, ranges, &self.domain)
    }

    /// Source port in the list; or not, and then destination port in it.
    fn either_port(
        &self,
        guarded: &Conjunction,
        ports: &Ranges,
        negated: bool,
    ) -> Vec<Conjunction> {
        let source = |out| self.and(guarded.clone(), Field::SourcePort, ports, out);
        let outside = source(true);
        let then = outside.and_then(|all| self.and(all, Field::DestinationPort, ports, negated));
        let first = if negated { None } else { source(false) };
        first.into_iter().chain(then).collect()
    }
}

/// Asks for every place once and makes the classes of both sides.
fn resolve(
    ruleset: &Ruleset,
    family: Family,
    places: &dyn Places,
) -> Result<[PlaceTable; 2], RulesError> {
    let mut problems = Problems::new(&ruleset.chain(ruleset.entry()).origin.file);
    let mut seen = std::collections::HashSet::new();
    let mut asked = Vec::new();
    for rule in ruleset.rules() {
        for condition in &rule.conditions {
            let Test::Place(predicate) = &condition.test else { continue };
            let text = predicate.to_string();
            if seen.insert(text.clone()) {
                asked.push((predicate, text, rule.origin.line));
            }
        }
    }
    let predicates: Vec<_> = asked.iter().map(|(predicate, ..)| *predicate).collect();
    let mut lists: [Vec<(String, Ranges)>; 2] = [Vec::new(), Vec::new()];
    for (answer, (predicate, text, line)) in
        places.resolve_all(&predicates, family).into_iter().zip(asked)
    {
        match answer {
            Ok(ranges) => {
                let inside = ranges.intersect(&Ranges::single(0, family.largest()));
                lists[predicate.side.index()].push((text, inside));
            }
            Err(message) => problems.push(line, 0, message),
        }
    }
    problems.finish()?;
    Ok(lists.map(|list| PlaceTable::build(list, family)))
}

/// The protocols that have ports.
fn port_protocols() -> Ranges {
    Ranges::new(PORT_PROTOCOLS.iter().map(|&number| (number.into(), number.into())).collect())
}

fn numbers<T: Into<u128> + Copy>(list: &[(T, T)]) -> Ranges {
    Ranges::new(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
}

fn icmp_numbers(list: &[IcmpMatch]) -> Ranges {
    let mut ranges = Vec::new();
    for item in list {
        for icmp_type in item.types.0..=item.types.1 {
            let base = u128::from(icmp_type) << 8;
            ranges.push((base | u128::from(item.codes.0), base | u128::from(item.codes.1)));
        }
    }
    Ranges::new(ranges)
}

/// The marks of which the masked bits are the value: a range for each setting of the free bits
/// above the lowest masked one; `None` if those are too many.
fn mark_ranges(value: u32, mask: u32) -> Option<Ranges> {
    if value & !mask != 0 {
        return Some(Ranges::empty());
    }
    if mask == 0 {
        return Some(Ranges::single(0, u32::MAX.into()));
    }
    let low = (1u32 << mask.trailing_zeros()) - 1;
    let free = !mask & !low;
    if 1u64 << free.count_ones() > MARK_RANGES_LIMIT {
        return None;
    }
    let mut ranges = Vec::new();
    let mut setting = 0u32;
    loop {
        let first = value | setting;
        ranges.push((first.into(), (first | low).into()));
        // Counts through the free bits only.
        setting = setting.wrapping_sub(free) & free;
        if setting == 0 {
            return Some(Ranges::new(ranges));
        }
    }
}
