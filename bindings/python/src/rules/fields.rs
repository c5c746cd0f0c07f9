//! The fields of packets: from columns, or one value for all rows.
//!
//! Not for: addresses of rows (`columns/addresses.rs`), matching (`mod.rs`).

use std::ops::Range;

use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use whered_rules::names::{dscp_number, parse_number, protocol_number, tcp_flag};
use whered_rules::{Action, Packet, Ruleset, Side, State, Test};

use crate::arrow::input::Column;
use crate::columns::rows::{Names, Numbers};

/// A field that a caller gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    State,
    IcmpType,
    IcmpCode,
    TcpFlags,
    Input,
    Output,
    Dscp,
    Mark,
}

/// The fields that are values; the destination is an address.
pub(super) const VALUES: [Field; 11] = [
    Field::Protocol,
    Field::SourcePort,
    Field::DestinationPort,
    Field::State,
    Field::IcmpType,
    Field::IcmpCode,
    Field::TcpFlags,
    Field::Input,
    Field::Output,
    Field::Dscp,
    Field::Mark,
];

impl Field {
    /// The argument's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Field::Destination => "destination",
            Field::Protocol => "protocol",
            Field::SourcePort => "source_port",
            Field::DestinationPort => "destination_port",
            Field::State => "state",
            Field::IcmpType => "icmp_type",
            Field::IcmpCode => "icmp_code",
            Field::TcpFlags => "tcp_flags",
            Field::Input => "input",
            Field::Output => "output",
            Field::Dscp => "dscp",
            Field::Mark => "mark",
        }
    }

    fn allowed(self) -> &'static str {
        match self {
            Field::Destination => "an address",
            Field::Protocol => "a protocol's name or number, 0 to 255",
            Field::SourcePort | Field::DestinationPort => "0 to 65535",
            Field::State => "new, established, related, invalid and untracked",
            Field::IcmpType | Field::IcmpCode => "0 to 255",
            Field::TcpFlags => "0 to 255, or names such as \"syn,ack\"",
            Field::Input | Field::Output => "a name",
            Field::Dscp => "a class's name or 0 to 63",
            Field::Mark => "0 to 4294967295",
        }
    }

    fn is_interface(self) -> bool {
        matches!(self, Field::Input | Field::Output)
    }

    fn largest(self) -> u32 {
        match self {
            Field::SourcePort | Field::DestinationPort => u32::from(u16::MAX),
            Field::Mark => u32::MAX,
            Field::Dscp => 63,
            Field::State => State::ALL.len() as u32 - 1,
            _ => u32::from(u8::MAX),
        }
    }

    /// The number that a text means.
    fn number_of_text(self, text: &str) -> Option<u32> {
        let text = text.trim();
        let number = match self {
            Field::Protocol => protocol_number(text).map(u32::from),
            Field::State => State::from_name(text).map(|state| state as u32),
            Field::Dscp => dscp_number(text).map(u32::from),
            Field::TcpFlags => parse_number(text).or_else(|| {
                let names = text.split([',', '|', ' ']).filter(|name| !name.is_empty());
                names
                    .map(|name| tcp_flag(name).map(u32::from))
                    .try_fold(0, |all, flag| Some(all | flag?))
            }),
            _ => parse_number(text),
        };
        number.filter(|number| *number <= self.largest())
    }

    /// The number that a number means.
    fn number_of_float(self, number: f64) -> Option<u32> {
        let fits = number.fract() == 0.0 && (0.0..=f64::from(self.largest())).contains(&number);
        // A state has names only.
        (fits && self != Field::State).then_some(number as u32)
    }

    /// Sets a field of a packet.
    fn set(self, packet: &mut Packet<'_>, number: u32) {
        match self {
            Field::Protocol => packet.protocol = number as u8,
            Field::SourcePort => packet.source_port = number as u16,
            Field::DestinationPort => packet.destination_port = number as u16,
            Field::State => {
                packet.state = State::ALL.get(number as usize).copied().unwrap_or_default();
            }
            Field::IcmpType => packet.icmp_type = number as u8,
            Field::IcmpCode => packet.icmp_code = number as u8,
            Field::TcpFlags => packet.tcp_flags = number as u8,
            Field::Dscp => packet.dscp = number as u8,
            Field::Mark => packet.mark = number,
            Field::Destination | Field::Input | Field::Output => {}
        }
    }
}

/// Which arguments rules look at that packets meet, and the first rule of each.
pub(super) fn tested(ruleset: &Ruleset) -> Vec<(Field, String)> {
    let mut asked: Vec<(Field, String)> = Vec::new();
    for rule in reachable(ruleset) {
        for condition in &rule.conditions {
            for field in fields_of(&condition.test) {
                if asked.iter().all(|(known, _)| known != field) {
                    asked.push((*field, rule.origin.to_string()));
                }
            }
        }
    }
    asked
}

/// The rules of the chain that packets enter, and of those that it leads to.
pub(super) fn reachable(ruleset: &Ruleset) -> impl Iterator<Item = &whered_rules::Rule> {
    let mut is_seen = vec![false; ruleset.chains().len()];
    let mut pending = vec![ruleset.entry()];
    let mut rules = Vec::new();
    while let Some(chain) = pending.pop() {
        if std::mem::replace(&mut is_seen[chain.index()], true) {
            continue;
        }
        for id in &ruleset.chain(chain).rules {
            let rule = ruleset.rule(*id);
            if let Action::Jump(to) | Action::Goto(to) = rule.action {
                pending.push(to);
            }
            rules.push(*id);
        }
    }
    rules.sort_unstable();
    rules.into_iter().map(|id| ruleset.rule(id))
}

fn fields_of(test: &Test) -> &'static [Field] {
    match test {
        Test::Family(_) => &[],
        Test::Address(side, _) | Test::Set(side, _) => match side {
            Side::Source => &[],
            Side::Destination => &[Field::Destination],
        },
        Test::Place(predicate) => match predicate.side {
            Side::Source => &[],
            Side::Destination => &[Field::Destination],
        },
        Test::Protocol(_) => &[Field::Protocol],
        Test::Port(Side::Source, _) => &[Field::Protocol, Field::SourcePort],
        Test::Port(Side::Destination, _) => &[Field::Protocol, Field::DestinationPort],
        Test::EitherPort(_) => &[Field::Protocol, Field::SourcePort, Field::DestinationPort],
        Test::Icmp(_) | Test::Icmpv6(_) => &[Field::Protocol, Field::IcmpType, Field::IcmpCode],
        Test::TcpFlags { .. } => &[Field::Protocol, Field::TcpFlags],
        Test::Input(_) => &[Field::Input],
        Test::Output(_) => &[Field::Output],
        Test::State(_) => &[Field::State],
        Test::Dscp(_) => &[Field::Dscp],
        Test::Mark { .. } => &[Field::Mark],
        Test::MaskedAddress { side: Side::Source, .. } => &[],
        Test::MaskedAddress { side: Side::Destination, .. } => &[Field::Destination],
        // What is not given leaves a verdict open.
        Test::Detail(_) | Test::Uncertain(_) => &[],
    }
}

/// What a caller gives for a field.
pub(super) enum Given {
    /// One number for all rows.
    Number(u32),
    /// One name for all rows.
    Name(String),
    Names(Names),
    Numbers(Numbers),
}

impl Given {
    /// What an object is: one text or whole number, or a column.
    ///
    /// # Errors
    ///
    /// `ValueError` for one value that is not allowed, `TypeError` for a column of another type.
    pub(super) fn of_object(field: Field, object: &Bound<'_, PyAny>) -> PyResult<Given> {
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyInt>() {
            return Given::of_value(field, object);
        }
        let column = Column::of_object(object, field.name())?;
        let is_text = match &column.data_type {
            DataType::Dictionary(..) => true,
            data_type => matches!(
                data_type,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
            ),
        };
        if is_text || field.is_interface() {
            Ok(Given::Names(Names::of_column(&column, field.name())?))
        } else {
            Ok(Given::Numbers(Numbers::of_column(&column, field.name())?))
        }
    }

    /// One value for all rows.
    ///
    /// # Errors
    ///
    /// `ValueError` for a value that is not allowed, `TypeError` for another object.
    pub(super) fn of_value(field: Field, object: &Bound<'_, PyAny>) -> PyResult<Given> {
        let text = if object.is_instance_of::<PyString>() || object.is_instance_of::<PyInt>() {
            object.str()?.to_str()?.to_owned()
        } else {
            let (name, allowed) = (field.name(), field.allowed());
            let what = object.get_type().name()?.to_string();
            return Err(PyTypeError::new_err(format!("{name} is {what}: allowed is {allowed}")));
        };
        if field.is_interface() {
            return Ok(Given::Name(text));
        }
        let number = field.number_of_text(&text).map(Given::Number);
        number.ok_or_else(|| PyValueError::new_err(not_allowed(field, &format!("{text:?}"))))
    }

    /// The number of rows, if it is a column.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Given::Number(_) | Given::Name(_) => None,
            Given::Names(names) => Some(names.len()),
            Given::Numbers(numbers) => Some(numbers.len()),
        }
    }

    /// Puts the values of rows into packets, one for each row. `names` keeps those that packets
    /// borrow. Null leaves a field as it is: 0, untracked, no interface; the protocol's null makes
    /// the row null.
    pub(super) fn fill<'a>(
        &'a self,
        field: Field,
        rows: Range<usize>,
        packets: &mut [Result<Packet<'a>, RowFault>],
        names: &'a mut Vec<String>,
    ) {
        match self {
            Given::Number(number) => {
                packets.iter_mut().flatten().for_each(|packet| field.set(packet, *number));
            }
            Given::Name(name) => {
                packets.iter_mut().flatten().for_each(|packet| set_name(field, packet, name));
            }
            Given::Names(column) if field.is_interface() => {
                names.clear();
                column.for_each(rows, |name| names.push(name.unwrap_or_default().to_owned()));
                let named = packets.iter_mut().zip(names.iter());
                named.for_each(|(packet, name)| {
                    if let Ok(packet) = packet {
                        set_name(field, packet, name);
                    }
                });
            }
            Given::Names(column) => {
                let mut packets = packets.iter_mut();
                column.for_each(rows, |text| {
                    let Some(packet) = packets.next() else { return };
                    let number = text
                        .map(|text| field.number_of_text(text).ok_or_else(|| format!("{text:?}")));
                    put(field, packet, number);
                });
            }
            Given::Numbers(column) => {
                let mut numbers = Vec::with_capacity(rows.len());
                column.read(rows, &mut numbers);
                for (packet, number) in packets.iter_mut().zip(numbers) {
                    // pandas writes NaN for what is missing.
                    let number = number.filter(|number| !number.is_nan()).map(|number| {
                        field.number_of_float(number).ok_or_else(|| number.to_string())
                    });
                    put(field, packet, number);
                }
            }
        }
    }
}

/// Why a row is no packet.
#[derive(Clone, Debug)]
pub(super) enum RowFault {
    /// An address or the protocol is null.
    Null,
    /// What is wrong.
    Invalid(String),
}

fn put(
    field: Field,
    packet: &mut Result<Packet<'_>, RowFault>,
    number: Option<Result<u32, String>>,
) {
    let Ok(known) = packet else { return };
    match number {
        Some(Ok(number)) => field.set(known, number),
        Some(Err(found)) => *packet = Err(RowFault::Invalid(not_allowed(field, &found))),
        None if field == Field::Protocol => *packet = Err(RowFault::Null),
        None => {}
    }
}

fn set_name<'a>(field: Field, packet: &mut Packet<'a>, name: &'a str) {
    match field {
        Field::Input => packet.input = name,
        _ => packet.output = name,
    }
}

fn not_allowed(field: Field, found: &str) -> String {
    format!("{}={found}: allowed are {}", field.name(), field.allowed())
}
