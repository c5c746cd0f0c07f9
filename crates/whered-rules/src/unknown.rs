//! Packets of which a source tells only some fields: one answer for all packets that they may be.
//!
//! For: logs, which often name a client's address alone. A condition on an unknown field holds,
//! fails or is open ([`Answer`]), and what an open answer leaves is remembered on each way: after
//! an open `proto tcp` that was met, `proto udp` fails. Not for: details, whose absence says that
//! they are unknown (`truth`).
//!
//! ```text
//! condition        atoms, all of which must hold          possible values so far
//! dport 22         protocol in {6 17 33 132 136}           protocol {6}, destination port 0-65535
//!                  destination port in {22}
//! not dst @live    (opaque: always open)
//! ```
//!
//! Invariants: an answer other than open is right for every packet that the known fields allow.
//! Concurrency: plain data. Cost: linear in the lists of the conditions that are asked.

use crate::model::{
    Condition, Detail, IcmpMatch, InterfacePattern, Ruleset, Side, Test, ranges_of_addresses,
};
use crate::packet::{Family, PORT_PROTOCOLS, Packet, address_number};
use crate::ranges::Ranges;
use crate::truth::Answer;

/// A field of a packet that may be unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PacketField {
    /// Where it goes.
    Destination,
    /// The IP protocol number. If a port is known, it is one of those with ports.
    Protocol,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// ICMP's type and code.
    Icmp,
    /// The TCP flags.
    TcpFlags,
    /// The state in connection tracking.
    State,
    /// The interface it came in by.
    Input,
    /// The interface it leaves by.
    Output,
    /// The DSCP field.
    Dscp,
    /// The mark.
    Mark,
}

impl PacketField {
    /// All of them, in the order in which they are named.
    pub const ALL: [PacketField; 11] = [
        PacketField::Destination,
        PacketField::Protocol,
        PacketField::SourcePort,
        PacketField::DestinationPort,
        PacketField::Icmp,
        PacketField::TcpFlags,
        PacketField::State,
        PacketField::Input,
        PacketField::Output,
        PacketField::Dscp,
        PacketField::Mark,
    ];

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            PacketField::Destination => "destination",
            PacketField::Protocol => "protocol",
            PacketField::SourcePort => "source port",
            PacketField::DestinationPort => "destination port",
            PacketField::Icmp => "ICMP type",
            PacketField::TcpFlags => "TCP flags",
            PacketField::State => "state",
            PacketField::Input => "input interface",
            PacketField::Output => "output interface",
            PacketField::Dscp => "DSCP",
            PacketField::Mark => "mark",
        }
    }
}

/// A set of fields: those of a packet that are not known, or those that rules ask for.
///
/// ```
/// use whered_rules::unknown::{Fields, PacketField};
/// let unknown = Fields::ALL.without(PacketField::Protocol);
/// assert!(unknown.has(PacketField::State) && !unknown.has(PacketField::Protocol));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fields(u16);

impl Fields {
    /// None.
    pub const NONE: Fields = Fields(0);
    /// All but the source, which every packet has.
    pub const ALL: Fields = Fields((1 << PacketField::ALL.len()) - 1);

    /// Those of the header of a packet's protocol.
    const OF_TRANSPORT: Fields = Fields::NONE
        .with(PacketField::SourcePort)
        .with(PacketField::DestinationPort)
        .with(PacketField::Icmp)
        .with(PacketField::TcpFlags);

    /// These and what a later fragment cannot tell, if the packet is one.
    ///
    /// A later fragment has no header of its protocol. What the kernel does with a test of ports
    /// differs: a match of xtables fails, a payload of nft reads the fragment's data.
    #[must_use]
    pub fn with_those_of_fragment(self, packet: &Packet<'_>) -> Fields {
        let more = if packet.is_later_fragment() { Fields::OF_TRANSPORT } else { Fields::NONE };
        Fields(self.0 | more.0)
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, field: PacketField) -> Fields {
        Fields(self.0 | 1 << field as u8)
    }

    /// These without one.
    #[must_use]
    pub fn without(self, field: PacketField) -> Fields {
        Fields(self.0 & !(1 << field as u8))
    }

    /// Whether a field is among them.
    pub fn has(self, field: PacketField) -> bool {
        self.0 >> field as u8 & 1 == 1
    }

    /// Whether a field is among both.
    pub fn overlap(self, other: Fields) -> bool {
        self.0 & other.0 != 0
    }

    /// Those of both.
    #[must_use]
    pub fn of_both(self, other: Fields) -> Fields {
        Fields(self.0 & other.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = PacketField> {
        PacketField::ALL.into_iter().filter(move |field| self.has(*field))
    }

    /// The fields that a test asks for.
    pub fn of(test: &Test) -> Fields {
        use PacketField as F;
        let of_side = |side: &Side| match side {
            Side::Source => Fields::NONE,
            Side::Destination => Fields::NONE.with(F::Destination),
        };
        let with_protocol = Fields::NONE.with(F::Protocol);
        match test {
            Test::Family(_) | Test::Uncertain(_) => Fields::NONE,
            Test::Address(side, _) | Test::Set(side, _) | Test::MaskedAddress { side, .. } => {
                of_side(side)
            }
            Test::Place(predicate) => of_side(&predicate.side),
            Test::Protocol(_) => with_protocol,
            Test::Port(Side::Source, _) => with_protocol.with(F::SourcePort),
            Test::Port(Side::Destination, _) => with_protocol.with(F::DestinationPort),
            Test::EitherPort(_) => with_protocol.with(F::SourcePort).with(F::DestinationPort),
            Test::Icmp(_) | Test::Icmpv6(_) => with_protocol.with(F::Icmp),
            Test::TcpFlags { .. } => with_protocol.with(F::TcpFlags),
            Test::Input(_) => Fields::NONE.with(F::Input),
            Test::Output(_) => Fields::NONE.with(F::Output),
            Test::State(_) => Fields::NONE.with(F::State),
            Test::Dscp(_) => Fields::NONE.with(F::Dscp),
            Test::Mark { .. } => Fields::NONE.with(F::Mark),
            Test::Detail(test) if test.detail.name() == Detail::DESTINATION_TYPE => {
                Fields::NONE.with(F::Destination)
            }
            Test::Detail(_) => Fields::NONE,
        }
    }

    /// The fields that any rule asks for.
    pub fn asked_by(ruleset: &Ruleset) -> Fields {
        let conditions = ruleset.rules().iter().flat_map(|rule| &rule.conditions);
        Fields(conditions.fold(0, |all, condition| all | Fields::of(&condition.test).0))
    }
}

/// A part of a condition: all of them must hold.
enum Atom {
    /// The field is in the ranges.
    In(PacketField, Ranges),
    /// No list of values says it.
    Opaque,
}

/// What is known of unknown fields on one way: the values that each may have.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PossibleValues {
    left: Vec<(PacketField, Ranges)>,
}

/// What a packet tells.
#[derive(Clone, Copy)]
pub(crate) struct PartlyKnown<'p> {
    pub(crate) ruleset: &'p Ruleset,
    pub(crate) packet: &'p Packet<'p>,
    pub(crate) unknown: Fields,
}

impl PossibleValues {
    fn possible(&self, field: PacketField, known: PartlyKnown<'_>) -> Ranges {
        if !known.unknown.has(field) {
            let value = known.value(field);
            return Ranges::single(value, value);
        }
        let left = self.left.iter().find(|(name, _)| *name == field);
        left.map_or_else(|| known.possible_at_first(field), |(_, left)| left.clone())
    }

    fn answer(&self, atom: &Atom, known: PartlyKnown<'_>) -> Answer {
        let Atom::In(field, passing) = atom else { return Answer::Open };
        let possible = self.possible(*field, known);
        match () {
            () if passing.covers(&possible) => Answer::Holds,
            () if passing.overlaps(&possible) => Answer::Open,
            () => Answer::Fails,
        }
    }

    /// Goes on with the packets whose field is in the ranges.
    fn assume(&mut self, field: PacketField, allowed: &Ranges, known: PartlyKnown<'_>) {
        let left = self.possible(field, known).intersect(allowed);
        match self.left.iter_mut().find(|(name, _)| *name == field) {
            Some((_, old)) => *old = left,
            None => self.left.push((field, left)),
        }
    }

    /// How a condition stands, and goes on with the packets that meet it; nothing if it asks for no
    /// unknown field. Marks and details are asked elsewhere.
    pub(crate) fn ask(&mut self, condition: &Condition, known: PartlyKnown<'_>) -> Option<Answer> {
        if !known.asks_here(condition) {
            return None;
        }
        let mut answer = Answer::Holds;
        for atom in self.atoms_of(condition, known) {
            match self.answer(&atom, known) {
                Answer::Holds => {}
                Answer::Fails => return Some(Answer::Fails),
                Answer::Open => {
                    answer = Answer::Open;
                    if let Atom::In(field, allowed) = atom {
                        self.assume(field, &allowed, known);
                    }
                }
            }
        }
        Some(answer)
    }

    /// Goes on with the packets that do not meet a condition whose answer is open, if one part of
    /// it alone decides that.
    pub(crate) fn assume_failed(&mut self, condition: &Condition, known: PartlyKnown<'_>) {
        if !known.asks_here(condition) {
            return;
        }
        let atoms = self.atoms_of(condition, known);
        let mut open = atoms.iter().filter(|atom| self.answer(atom, known) == Answer::Open);
        if let (Some(Atom::In(field, passing)), None) = (open.next(), open.next()) {
            let others = passing.complement(known.largest(*field));
            self.assume(*field, &others, known);
        }
    }

    /// The parts of a condition. A later fragment can fail a test of ports and its negation.
    fn atoms_of(&self, condition: &Condition, known: PartlyKnown<'_>) -> Vec<Atom> {
        let mut atoms = self.atoms(condition, known);
        let asked = Fields::of(&condition.test);
        if known.packet.is_later_fragment() && asked.overlap(Fields::OF_TRANSPORT) {
            atoms.retain(|atom| matches!(atom, Atom::In(PacketField::Protocol, _)));
            atoms.push(Atom::Opaque);
        }
        atoms
    }

    fn atoms(&self, condition: &Condition, known: PartlyKnown<'_>) -> Vec<Atom> {
        use PacketField as F;
        let family = known.packet.family();
        let one = |field: F, passing: Ranges| {
            let negated = || passing.complement(known.largest(field));
            Atom::In(field, if condition.negated { negated() } else { passing.clone() })
        };
        let protocols = |numbers: &[u8]| Atom::In(F::Protocol, numbers_of(numbers));
        let never = || vec![Atom::In(F::Protocol, Ranges::empty())];
        match &condition.test {
            Test::Address(_, items) => {
                vec![one(F::Destination, ranges_of_addresses(items, family))]
            }
            Test::Set(_, name) => {
                let set = known.ruleset.set_named(name).and_then(|set| set.elements.as_ref());
                vec![set.map_or(Atom::Opaque, |elements| {
                    one(F::Destination, ranges_of_addresses(elements, family))
                })]
            }
            Test::Protocol(list) => vec![one(F::Protocol, ranges(list))],
            Test::Port(side, list) => {
                let field = match side {
                    Side::Source => F::SourcePort,
                    Side::Destination => F::DestinationPort,
                };
                vec![protocols(&PORT_PROTOCOLS), one(field, ranges(list))]
            }
            Test::EitherPort(list) => {
                let passing = ranges(list);
                let mut atoms = vec![protocols(&PORT_PROTOCOLS)];
                let sides = [F::SourcePort, F::DestinationPort];
                if condition.negated {
                    atoms.extend(sides.map(|field| one(field, passing.clone())));
                    return atoms;
                }
                let possible = sides.map(|field| self.possible(field, known));
                match possible.map(|ports| (passing.covers(&ports), passing.overlaps(&ports))) {
                    [(true, _), _] | [_, (true, _)] => {}
                    [_, (_, false)] => atoms.push(one(F::SourcePort, passing)),
                    [(_, false), _] => atoms.push(one(F::DestinationPort, passing)),
                    _ => atoms.push(Atom::Opaque),
                }
                atoms
            }
            Test::Icmp(_) if family != Family::Ipv4 => never(),
            Test::Icmpv6(_) if family != Family::Ipv6 => never(),
            Test::Icmp(list) => vec![protocols(&[1]), one(F::Icmp, icmp_ranges(list))],
            Test::Icmpv6(list) => vec![protocols(&[58]), one(F::Icmp, icmp_ranges(list))],
            Test::TcpFlags { mask, compare } => {
                let passing = (0..=u8::MAX).filter(|flags| flags & mask == *compare);
                let passing: Vec<u8> = passing.collect();
                vec![protocols(&[6]), one(F::TcpFlags, numbers_of(&passing))]
            }
            Test::State(list) => {
                let numbers: Vec<u8> = list.iter().map(|state| *state as u8).collect();
                vec![one(F::State, numbers_of(&numbers))]
            }
            Test::Dscp(list) => vec![one(F::Dscp, ranges(list))],
            Test::Input(list) | Test::Output(list) if list.iter().any(is_every) => {
                if condition.negated { never() } else { Vec::new() }
            }
            Test::MaskedAddress { value, .. } if value.is_ipv4() != (family == Family::Ipv4) => {
                if condition.negated {
                    Vec::new()
                } else {
                    never()
                }
            }
            _ => vec![Atom::Opaque],
        }
    }
}

impl PartlyKnown<'_> {
    fn asks_here(self, condition: &Condition) -> bool {
        let is_elsewhere = matches!(condition.test, Test::Mark { .. } | Test::Detail(_));
        !is_elsewhere && Fields::of(&condition.test).overlap(self.unknown)
    }

    fn value(self, field: PacketField) -> u128 {
        let packet = self.packet;
        match field {
            PacketField::Destination => address_number(packet.destination),
            PacketField::Protocol => packet.protocol.into(),
            PacketField::SourcePort => packet.source_port.into(),
            PacketField::DestinationPort => packet.destination_port.into(),
            PacketField::Icmp => icmp_number(packet.icmp_type, packet.icmp_code),
            PacketField::TcpFlags => packet.tcp_flags.into(),
            PacketField::State => (packet.state as u8).into(),
            PacketField::Dscp => packet.dscp.into(),
            PacketField::Mark => packet.mark.into(),
            PacketField::Input | PacketField::Output => 0,
        }
    }

    fn largest(self, field: PacketField) -> u128 {
        match field {
            PacketField::Destination => self.packet.family().largest(),
            PacketField::Protocol | PacketField::TcpFlags => u8::MAX.into(),
            PacketField::SourcePort | PacketField::DestinationPort | PacketField::Icmp => {
                u16::MAX.into()
            }
            PacketField::State => 4,
            PacketField::Dscp => 63,
            PacketField::Mark => u32::MAX.into(),
            PacketField::Input | PacketField::Output => 0,
        }
    }

    fn possible_at_first(self, field: PacketField) -> Ranges {
        let has_ports = !self.unknown.has(PacketField::SourcePort)
            || !self.unknown.has(PacketField::DestinationPort);
        match field {
            PacketField::Protocol if has_ports => numbers_of(&PORT_PROTOCOLS),
            field => Ranges::single(0, self.largest(field)),
        }
    }
}

fn is_every(pattern: &InterfacePattern) -> bool {
    matches!(pattern, InterfacePattern::Begins(start) if start.is_empty())
}

fn ranges<N: Copy + Into<u128>>(list: &[(N, N)]) -> Ranges {
    Ranges::new(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
}

fn numbers_of(numbers: &[u8]) -> Ranges {
    Ranges::new(numbers.iter().map(|&number| (number.into(), number.into())).collect())
}

fn icmp_number(kind: u8, code: u8) -> u128 {
    u128::from(kind) << 8 | u128::from(code)
}

fn icmp_ranges(list: &[IcmpMatch]) -> Ranges {
    let of_item = |item: &IcmpMatch| {
        let (first, last) = item.codes;
        let types = item.types.0..=item.types.1;
        types
            .map(|kind| (icmp_number(kind, first), icmp_number(kind, last)))
            .collect::<Vec<(u128, u128)>>()
    };
    Ranges::new(list.iter().flat_map(of_item).collect())
}

#[cfg(test)]
#[path = "unknown_tests.rs"]
mod tests;
