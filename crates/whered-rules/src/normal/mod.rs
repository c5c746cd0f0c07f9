//! The normal form: a ruleset without chains, names and negation.
//!
//! For: the classifier's input, and everything that reasons about rules (the analysis). One
//! normal form is of one address family.
//! Not for: fast matching; [`NormalForm::evaluate`] is a plain scan, for tests and rare use.
//!
//! ```text
//! chains, jumps, returns, not, names        one ordered list of conjunctions
//! ─────────────────────────────────         ────────────────────────────────────────────
//! input: state new  jump office             protocol 6..6, state 1..1, source ...  Decide
//! office: not src 10/8  return         ->   source ..., place of source 3..7       Note
//!         tcp dport {22 80-89} accept       (nothing: always)                      Policy
//! ```
//!
//! Each condition is a sorted list of disjoint inclusive ranges over one field's numbers. Sets are
//! one field of one bit each, asked before; places are two fields a side, numbers that stand for
//! classes of addresses (see [`PlaceTable`]), unless a rule's own prefix leaves few addresses of
//! the place: then it asks for those alone; interfaces are numbers of [`InterfaceTable`].
//!
//! What has no field is a question (`resolve`): the entry has guards, and never ends the search.
//!
//! Invariants: the first `Decide` or `Policy` rule whose conditions hold gives the verdict, and the
//! `Note` and `Pass` rules before it are those that match: exactly as [`crate::naive::evaluate`]
//! finds them. A packet meets at most one of the entries that one call of one rule became. No
//! condition is empty, and none allows everything.
//!
//! Concurrency: plain immutable data. Cost: flattening is linear in its result, which is bounded
//! by [`Options`].

mod axes;
mod conjunction;
mod flatten;
mod interfaces;
mod lower;
#[cfg(test)]
mod normal_tests;
mod places;

use std::net::IpAddr;
use std::sync::Arc;

pub use conjunction::{Conjunction, Domain, Field};
pub use interfaces::InterfaceTable;
use lower::RuleLowering;
pub use places::{AXES, NoPlaces, Place, PlaceTable, Places};

use crate::error::RulesError;
use crate::layout::Layout;
use crate::model::{Rule, RuleId, Ruleset, Side, Verdict};
use crate::naive::{Outcome, Sets};
use crate::packet::{Family, Packet, address_number};
use crate::packets::BATCH;
use crate::ranges::Ranges;
pub use crate::resolve::Guard;
use crate::resolve::{Questions, Resolver};

/// How a ruleset is flattened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether jumps, gotos and returns get entries of their own ([`Effect::Pass`]), so that they
    /// can be counted as the kernel counts them.
    pub count_passes: bool,
    /// Whether a place is taken for the addresses that it has now, where a rule's own prefix holds
    /// few of them. The entries are then of this state of the databases only.
    pub fold_places: bool,
    /// How many entries there may be. A ruleset that would become more is refused.
    pub entries_limit: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { count_passes: false, fold_places: true, entries_limit: 1 << 20 }
    }
}

/// The effect of an entry of the normal form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// Ends the evaluation.
    Decide(Verdict),
    /// Ends it with the policy: a `return` from the chain that packets enter.
    Policy,
    /// A log, mark or continue rule: noted, and on.
    Note,
    /// A jump, goto or return, only to be counted.
    Pass,
}

/// An entry of the normal form.
#[derive(Clone, PartialEq, Debug)]
pub struct NormalRule {
    /// The conditions; without any, it always applies.
    pub conditions: Conjunction,
    /// The rules on the way whose questions must be answered, too.
    pub guards: Option<Arc<[Guard]>>,
    /// The effect.
    pub effect: Effect,
    /// The rule it comes from.
    pub rule: RuleId,
}

/// A question that is answered by one bit before the classifier: number n is [`Field::Bit`]`(n)`.
#[derive(Clone, PartialEq, Debug)]
pub enum Bit {
    /// Whether a set holds an address.
    Set {
        /// Which address is looked up.
        side: Side,
        /// In which set.
        name: String,
        /// Its elements, if the file has them; `None` for a live set.
        elements: Option<Ranges>,
    },
    /// Whether `mark & mask == value`, where that would be too many ranges of [`Field::Mark`].
    Mark {
        /// The new bits.
        value: u32,
        /// The bits looked at.
        mask: u32,
    },
}

/// A ruleset for one family, without chains.
#[derive(Clone, Debug)]
pub struct NormalForm {
    /// Of which family.
    pub family: Family,
    /// The entries in order.
    pub rules: Vec<NormalRule>,
    /// Where the entries of each rule of the chain that packets enter begin, and the end: what a
    /// rule of that chain became, calls of other chains included, stands together, and does not
    /// depend on its neighbours.
    pub starts: Vec<u32>,
    /// The verdict on packets that no entry decides.
    pub policy: Verdict,
    /// How large the numbers of each field can get.
    pub domain: Domain,
    /// The numbers of interfaces.
    pub interfaces: InterfaceTable,
    /// The questions to be answered by a bit, by the number of their field.
    pub bits: Vec<Bit>,
    /// The places of source and destination addresses.
    pub places: [PlaceTable; 2],
    /// What is answered behind the classifier; `None` where everything is in fields.
    pub(crate) questions: Option<Box<Questions>>,
    /// Which word of a packet has what.
    pub(crate) layout: Layout,
}

/// What rules ask by themselves, whatever chains lead to them: conjunctions of one family.
pub(crate) struct RuleConditions<'r>(RuleLowering<'r>);

impl<'r> RuleConditions<'r> {
    /// Of a ruleset without places.
    pub(crate) fn of(ruleset: &'r Ruleset, family: Family) -> Result<Self, RulesError> {
        RuleLowering::new(ruleset, family, &NoPlaces).map(RuleConditions)
    }

    /// Conjunctions that exclude each other. Questions are left out: a packet that meets the rule
    /// meets one of them, but not the other way round.
    pub(crate) fn rule(&self, rule: &Rule) -> Vec<Conjunction> {
        self.0.rule(rule)
    }

    /// How large the numbers of each field can get.
    pub(crate) fn domain(&self) -> &Domain {
        &self.0.domain
    }
}

impl NormalForm {
    /// Flattens a ruleset for packets of one family.
    ///
    /// # Errors
    ///
    /// When a place cannot be resolved, more live sets and marks with gaps are asked for than a
    /// packet has room for, or the result would exceed the limit; each names its line or chain.
    pub fn build(
        ruleset: &Ruleset,
        family: Family,
        places: &dyn Places,
        options: Options,
    ) -> Result<NormalForm, RulesError> {
        flatten::flatten(ruleset, family, places, options)
    }

    /// What a rule of the chain that packets enter becomes when it is put in later: conjunctions
    /// that exclude each other. `None` when it asks for an interface, a set, a mark or a place that
    /// no rule of this form asks for, since what is numbered then is another thing.
    pub fn lower(&self, ruleset: &Ruleset, rule: &Rule) -> Option<Vec<Conjunction>> {
        let lowering = RuleLowering::again(ruleset, self);
        lowering.knows(rule).then(|| lowering.rule(rule))
    }

    /// The numbers of a packet in every field of this normal form.
    #[inline]
    pub fn key(&self, packet: &Packet<'_>, sets: &dyn Sets) -> Key {
        self.key_at(packet, sets, self.places_of_one(packet))
    }

    /// Whether some address is at a place that rules ask for.
    pub fn has_places(&self) -> bool {
        !self.places.iter().all(PlaceTable::is_empty)
    }

    /// The places of source and destination.
    #[inline]
    pub(crate) fn places_of_one(&self, packet: &Packet<'_>) -> [Place; 2] {
        let place = |side: usize, address| self.places[side].place(address_number(address));
        [place(0, packet.source), place(1, packet.destination)]
    }

    /// Asks the memory for what looking up a packet's places reads first.
    #[inline]
    pub(crate) fn prefetch_places(&self, packet: &Packet<'_>) {
        self.places[0].prefetch(address_number(packet.source));
        self.places[1].prefetch(address_number(packet.destination));
    }

    /// The places of source and destination of at most [`BATCH`] packets, looked up together.
    pub(crate) fn places_of(&self, packets: &[&Packet<'_>], found: &mut [[Place; 2]]) {
        let sides: [fn(&Packet<'_>) -> IpAddr; 2] =
            [|packet| packet.source, |packet| packet.destination];
        for (side, (table, address)) in self.places.iter().zip(sides).enumerate() {
            if table.is_empty() {
                continue;
            }
            let (mut addresses, mut places) = ([0; BATCH], [Place::default(); BATCH]);
            for (number, packet) in addresses.iter_mut().zip(packets) {
                *number = address_number(address(packet));
            }
            let count = packets.len().min(BATCH);
            table.places(&addresses[..count], &mut places[..count]);
            for (found, place) in found.iter_mut().zip(&places) {
                found[side] = *place;
            }
        }
    }

    /// The numbers of a packet whose addresses are at these places, which are looked at where they
    /// are words.
    #[inline]
    pub(crate) fn key_at(&self, packet: &Packet<'_>, sets: &dyn Sets, places: [Place; 2]) -> Key {
        Key {
            source: address_number(packet.source),
            destination: address_number(packet.destination),
            protocol: packet.protocol,
            source_port: packet.source_port,
            destination_port: packet.destination_port,
            icmp: u16::from(packet.icmp_type) << 8 | u16::from(packet.icmp_code),
            tcp_flags: packet.tcp_flags,
            input: self.interfaces.number(packet.input),
            output: self.interfaces.number(packet.output),
            state: packet.state as u8,
            dscp: packet.dscp,
            mark: packet.mark,
            bits: if self.bits.is_empty() { 0 } else { self.bits_of(packet, sets) },
            places,
        }
    }

    /// The answers to the questions of [`bits`](NormalForm::bits).
    fn bits_of(&self, packet: &Packet<'_>, sets: &dyn Sets) -> u32 {
        let is_so = |bit: &Bit| match bit {
            Bit::Set { side, elements: Some(elements), .. } => {
                elements.contains(address_number(side.address(packet)))
            }
            Bit::Set { side, name, elements: None } => sets.contains(name, side.address(packet)),
            Bit::Mark { value, mask } => packet.mark & mask == *value,
        };
        let each = self.bits.iter().enumerate();
        each.fold(0, |bits, (number, bit)| bits | u32::from(is_so(bit)) << number)
    }

    /// Scans the entries in order.
    pub fn evaluate(&self, packet: &Packet<'_>, sets: &dyn Sets) -> Outcome {
        self.evaluate_key(&self.key(packet, sets), packet)
    }

    /// Scans the entries in order for a packet of these numbers, of which only the questions of
    /// rules are asked.
    pub(crate) fn evaluate_key(&self, key: &Key, packet: &Packet<'_>) -> Outcome {
        let matched = self.rules.iter().filter(|entry| key.meets(&entry.conditions));
        self.outcome(matched, packet)
    }

    /// The outcome of a packet that matched these entries, and no other one before the first that
    /// decides.
    pub(crate) fn outcome<'f>(
        &'f self,
        matched: impl Iterator<Item = &'f NormalRule>,
        packet: &Packet<'_>,
    ) -> Outcome {
        if let Some(questions) = &self.questions {
            let mut resolver = Resolver::new(questions, packet);
            for entry in matched {
                if resolver.entry(entry.rule, &entry.effect, &entry.guards) {
                    break;
                }
            }
            return resolver.finish(&self.policy);
        }
        let mut outcome = Outcome {
            verdict: self.policy.clone(),
            rule: None,
            matched: Vec::new(),
            passed: Vec::new(),
            possible: Vec::new(),
        };
        for entry in matched {
            match &entry.effect {
                Effect::Decide(verdict) => {
                    (outcome.verdict, outcome.rule) = (verdict.clone(), Some(entry.rule));
                    return outcome;
                }
                Effect::Policy => return outcome,
                Effect::Note => outcome.matched.push(entry.rule),
                Effect::Pass => outcome.passed.push(entry.rule),
            }
        }
        outcome
    }
}

/// A packet as numbers, one for each field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The source address.
    pub source: u128,
    /// The destination address.
    pub destination: u128,
    /// The protocol.
    pub protocol: u8,
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The ICMP type times 256, plus the code.
    pub icmp: u16,
    /// The TCP flags.
    pub tcp_flags: u8,
    /// The number of the interface it came in by.
    pub input: u16,
    /// The number of the interface it leaves by.
    pub output: u16,
    /// The state, as [`crate::State`] numbers it.
    pub state: u8,
    /// The DSCP field.
    pub dscp: u8,
    /// The mark.
    pub mark: u32,
    /// The answer to each question of [`NormalForm::bits`], the first one lowest.
    pub bits: u32,
    /// The places of source and destination.
    pub places: [Place; 2],
}

impl NormalForm {
    /// A key of which every number is 0, to be filled by [`Key::set`].
    pub fn empty_key(&self) -> Key {
        Key {
            source: 0,
            destination: 0,
            protocol: 0,
            source_port: 0,
            destination_port: 0,
            icmp: 0,
            tcp_flags: 0,
            input: 0,
            output: 0,
            state: 0,
            dscp: 0,
            mark: 0,
            bits: 0,
            places: [Place::default(); 2],
        }
    }
}

impl Key {
    /// Sets the number in one field, which must not be larger than the field allows.
    pub fn set(&mut self, field: Field, number: u128) {
        match field {
            Field::Source => self.source = number,
            Field::Destination => self.destination = number,
            Field::Protocol => self.protocol = number as u8,
            Field::SourcePort => self.source_port = number as u16,
            Field::DestinationPort => self.destination_port = number as u16,
            Field::Icmp => self.icmp = number as u16,
            Field::TcpFlags => self.tcp_flags = number as u8,
            Field::Input => self.input = number as u16,
            Field::Output => self.output = number as u16,
            Field::State => self.state = number as u8,
            Field::Dscp => self.dscp = number as u8,
            Field::Mark => self.mark = number as u32,
            Field::Bit(bit) => {
                let place = u32::from(bit) % u32::BITS;
                self.bits = self.bits & !(1 << place) | u32::from(number != 0) << place;
            }
            Field::Place(side, axis) => {
                self.places[side.index()][usize::from(axis) % AXES] = number as u32;
            }
        }
    }

    /// The number in one field.
    pub fn value(&self, field: Field) -> u128 {
        match field {
            Field::Source => self.source,
            Field::Destination => self.destination,
            Field::Protocol => self.protocol.into(),
            Field::SourcePort => self.source_port.into(),
            Field::DestinationPort => self.destination_port.into(),
            Field::Icmp => self.icmp.into(),
            Field::TcpFlags => self.tcp_flags.into(),
            Field::Input => self.input.into(),
            Field::Output => self.output.into(),
            Field::State => self.state.into(),
            Field::Dscp => self.dscp.into(),
            Field::Mark => self.mark.into(),
            Field::Bit(bit) => u128::from(self.bits >> (u32::from(bit) % u32::BITS) & 1),
            Field::Place(side, axis) => self.places[side.index()][usize::from(axis) % AXES].into(),
        }
    }

    /// Whether all conditions hold.
    pub fn meets(&self, conditions: &Conjunction) -> bool {
        conditions.iter().all(|(field, ranges)| ranges.contains(self.value(*field)))
    }
}
