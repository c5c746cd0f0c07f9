//! Columns of packets, and the answers for their rows.
//!
//! Not for: single fields (`fields.rs`), tables (`mod.rs`).

use std::net::IpAddr;
use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use whered_rules::Packet;
use whered_rules::naive::Outcome;

use super::Rules;
use super::fields::{Field, Given, RowFault, VALUES};
use crate::columns::addresses::{Addresses, BATCH_ROWS, Batch, Kind};
use crate::columns::{Invalid, Piece};
use crate::strings::NO_TEXT;

/// The columns of packets.
pub(super) struct Packets {
    source: Addresses,
    pub(super) destination: Option<Addresses>,
    pub(super) values: Vec<(Field, Given)>,
    pub(super) rows: usize,
}

/// The answers to a piece of rows.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) verdicts: Vec<u32>,
    pub(super) rules: Vec<u32>,
    pub(super) lines: Vec<Option<i32>>,
}

impl Packets {
    /// The packets of some rows.
    fn read<'a>(
        &'a self,
        rows: &Range<usize>,
        names: &'a mut [Vec<String>],
    ) -> PyResult<Vec<Result<Packet<'a>, RowFault>>> {
        let sources = addresses_of(&self.source, rows.clone())?;
        let destinations = match &self.destination {
            Some(destination) => addresses_of(destination, rows.clone())?,
            None => sources.iter().map(|source| Ok(nowhere(source))).collect(),
        };
        let pairs = sources.into_iter().zip(destinations);
        let mut packets: Vec<Result<Packet<'a>, RowFault>> = pairs.map(packet_of).collect();
        for ((field, given), names) in self.values.iter().zip(names) {
            given.fill(*field, rows.clone(), &mut packets, names);
        }
        Ok(packets)
    }
}

/// The unspecified address of the family of another one.
pub(super) fn nowhere(source: &Result<IpAddr, RowFault>) -> IpAddr {
    match source {
        Ok(IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
    }
}

pub(super) fn packet_of<'a>(
    (source, destination): (Result<IpAddr, RowFault>, Result<IpAddr, RowFault>),
) -> Result<Packet<'a>, RowFault> {
    let (source, destination) = (source?, destination?);
    if source.is_ipv4() != destination.is_ipv4() {
        let what = format!("source {source} and destination {destination}: allowed is one family");
        return Err(RowFault::Invalid(what));
    }
    Ok(Packet { source, destination, ..Packet::default() })
}

/// The addresses of some rows, however the column is chunked.
fn addresses_of(
    addresses: &Addresses,
    rows: Range<usize>,
) -> PyResult<Vec<Result<IpAddr, RowFault>>> {
    let mut found = Vec::with_capacity(rows.len());
    let mut batch = Batch::default();
    let mut before = 0;
    for (chunk, length) in addresses.lengths().iter().enumerate() {
        let (start, end) = (rows.start.max(before), rows.end.min(before + length));
        if start < end {
            let piece = Piece { chunk, rows: start - before..end - before, before };
            addresses.read(&piece, &mut batch, Invalid::Null)?;
            let mut v6 = batch.v6.iter();
            let rows = batch.kinds.iter().zip(&batch.v4).enumerate();
            found.extend(rows.map(|(at, (kind, v4))| match kind {
                Kind::V4 => Ok(IpAddr::V4((*v4).into())),
                Kind::V6 => Ok(IpAddr::V6(v6.next().copied().unwrap_or_default().into())),
                Kind::Null => Err(RowFault::Null),
                Kind::Invalid => {
                    let row = piece.rows.start + at;
                    Err(RowFault::Invalid(addresses.no_address(chunk, row)))
                }
            }));
        }
        before += length;
    }
    Ok(found)
}

impl Rules {
    /// The answers to some rows.
    pub(super) fn answer(
        &self,
        packets: &Packets,
        rows: &Range<usize>,
        invalid: Invalid,
    ) -> PyResult<Answer> {
        let mut answer = Answer::default();
        for start in rows.clone().step_by(BATCH_ROWS) {
            let batch = start..(start + BATCH_ROWS).min(rows.end);
            let mut names: Vec<Vec<String>> = packets.values.iter().map(|_| Vec::new()).collect();
            let read = packets.read(&batch, &mut names)?;
            for (row, packet) in batch.zip(&read) {
                if invalid == Invalid::Raise
                    && let Err(RowFault::Invalid(what)) = packet
                {
                    return Err(PyValueError::new_err(format!("row {row}: {what}")));
                }
            }
            let known: Vec<Packet<'_>> = read.iter().flatten().copied().collect();
            let mut outcomes = self.matcher.find_batch(&known, &self.sets).into_iter();
            for packet in &read {
                let outcome = packet.is_ok().then(|| outcomes.next()).flatten();
                answer.push(self, outcome.as_ref());
            }
        }
        Ok(answer)
    }
}

impl Answer {
    fn push(&mut self, rules: &Rules, outcome: Option<&Outcome>) {
        let verdict = outcome.and_then(|outcome| rules.verdict_numbers.get(&outcome.verdict));
        self.verdicts.push(verdict.copied().unwrap_or(NO_TEXT));
        let rule = outcome.and_then(|outcome| outcome.rule);
        self.rules.push(rule.map_or(NO_TEXT, |id| id.0));
        self.lines.push(outcome.and_then(|outcome| rules.line(outcome)));
    }
}

/// # Errors
///
/// `TypeError` for other names than those of fields, and the errors of `given`.
pub(super) fn values_of(
    fields: Option<&Bound<'_, PyDict>>,
    given: fn(Field, &Bound<'_, PyAny>) -> PyResult<Given>,
) -> PyResult<Vec<(Field, Given)>> {
    let mut values = Vec::new();
    for (name, value) in fields.into_iter().flatten() {
        let name = name.to_string();
        let field = VALUES.into_iter().find(|field| field.name() == name).ok_or_else(|| {
            let names = VALUES.map(Field::name).join(", ");
            PyTypeError::new_err(format!("no field {name:?}: allowed are {names}"))
        })?;
        if !value.is_none() {
            values.push((field, given(field, &value)?));
        }
    }
    Ok(values)
}

/// # Errors
///
/// Those of the columns, and `ValueError` for columns of different lengths.
pub(super) fn packets_of(
    source: &Bound<'_, PyAny>,
    destination: Option<&Bound<'_, PyAny>>,
    fields: Option<&Bound<'_, PyDict>>,
) -> PyResult<Packets> {
    let source = Addresses::of_object(source, "source")?;
    let destination = destination.map(|column| Addresses::of_object(column, "destination"));
    let destination = destination.transpose()?;
    let values = values_of(fields, Given::of_object)?;
    let length = |addresses: &Addresses| addresses.lengths().iter().sum::<usize>();
    let rows = length(&source);
    let others = values.iter().filter_map(|(field, given)| Some((field.name(), given.len()?)));
    let destinations = destination.iter().map(|column| ("destination", length(column)));
    if let Some((name, other)) = destinations.chain(others).find(|(_, other)| *other != rows) {
        return Err(PyValueError::new_err(format!(
            "source has {rows} rows and {name} has {other}; pass columns of one length"
        )));
    }
    Ok(Packets { source, destination, values, rows })
}
