//! From a generation to an answer and its values in the caller's memory.
//!
//! Not for pointers: callers of this module hand in slices. Values are written as far as they go:
//! a text's bytes behind its end are left as they were.

use crate::abi::{
    ABSENT, NOT_FOUND, NUMBER, OK, OTHER, TEXT, whered_address, whered_answer, whered_value,
};
use crate::fault::{self, Fault};
use crate::generation::Generation;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use whered_mmdb::{Cell, Database, DatabaseIndex, FieldPath, Found, RecordId, Value};

/// How many addresses the index gets at once.
const BATCH: usize = 64;

impl whered_address {
    fn ip(&self) -> IpAddr {
        if self.is_ipv6 != 0 {
            return IpAddr::V6(Ipv6Addr::from(self.bytes));
        }
        let [a, b, c, d, ..] = self.bytes;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }
}

impl whered_value {
    fn set(&mut self, cell: Cell<'_>) {
        let number = match cell {
            Cell::Absent => return self.kind = ABSENT,
            Cell::InPlace => return self.kind = OTHER,
            Cell::Text(text) => return self.set_text(text),
            Cell::Boolean(truth) => f64::from(u8::from(truth)),
            Cell::Double(number) => number,
            Cell::Float(number) => f64::from(number),
            Cell::Unsigned(number) => number as f64,
            Cell::Signed(number) => f64::from(number),
        };
        self.kind = NUMBER;
        self.number = number;
    }

    fn set_text(&mut self, text: &[u8]) {
        self.kind = TEXT;
        self.text_size_bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.text.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    }

    /// Decodes one field of a record in its file.
    fn read(&mut self, database: &Database, id: RecordId, path: &FieldPath) -> Result<(), Fault> {
        if let Some(text) = database.text(id, path)? {
            self.set_text(text.as_bytes());
        } else if let Some(number) = database.number(id, path)? {
            self.kind = NUMBER;
            self.number = number;
        } else {
            match database.field(id, path)? {
                None => self.kind = ABSENT,
                Some(Value::Boolean(truth)) => self.set(Cell::Boolean(truth)),
                Some(_) => self.kind = OTHER,
            }
        }
        Ok(())
    }
}

impl Generation {
    /// Answers one address; the fault, if any, is in the answer's status and remembered.
    pub(crate) fn answer(
        &self,
        address: &whered_address,
        fields: &[FieldPath],
        answer: &mut whered_answer,
        values: &mut [whered_value],
    ) {
        let done = match &self.index {
            Some(index) if address.is_ipv6 == 0 || index.is_ipv6() => {
                found(index, index.lookup(address.ip()), answer, values);
                Ok(())
            }
            _ => self.walk(address.ip(), fields, answer, values),
        };
        if let Err(fault) = done {
            fault::remember(&fault);
            *answer =
                whered_answer { status: fault.status, prefix_length_bits: 0, reserved: [0; 3] };
            values.iter_mut().for_each(|value| value.kind = ABSENT);
        }
    }

    fn walk(
        &self,
        address: IpAddr,
        fields: &[FieldPath],
        answer: &mut whered_answer,
        values: &mut [whered_value],
    ) -> Result<(), Fault> {
        let lookup = self.database.lookup(address)?;
        let status = if lookup.record.is_some() { OK } else { NOT_FOUND };
        let prefix_length_bits = lookup.prefix.length_bits();
        *answer = whered_answer { status, prefix_length_bits, reserved: [0; 3] };
        for (path, value) in fields.iter().zip(values) {
            match lookup.record {
                Some(id) => value.read(&self.database, id, path)?,
                None => value.kind = ABSENT,
            }
        }
        Ok(())
    }

    /// Answers many addresses; `values` holds `fields.len()` for each.
    pub(crate) fn answer_many(
        &self,
        addresses: &[whered_address],
        fields: &[FieldPath],
        answers: &mut [whered_answer],
        values: &mut [whered_value],
    ) {
        // A batch of one would cost more than its lookup.
        if let ([address], [answer]) = (addresses, &mut *answers) {
            return self.answer(address, fields, answer, values);
        }
        // With no fields there are no values, and a part of them is as long as nothing.
        let mut values = values;
        let batches = addresses.chunks(BATCH).zip(answers.chunks_mut(BATCH));
        for (addresses, answers) in batches {
            let (mine, rest) = values.split_at_mut(addresses.len() * fields.len());
            values = rest;
            let is_ipv4 = addresses.iter().all(|address| address.is_ipv6 == 0);
            match &self.index {
                Some(index) if is_ipv4 => batch(index, addresses, fields.len(), answers, mine),
                _ => {
                    let mut mine = mine;
                    for (address, answer) in addresses.iter().zip(answers) {
                        let (here, rest) = mine.split_at_mut(fields.len());
                        mine = rest;
                        self.answer(address, fields, answer, here);
                    }
                }
            }
        }
    }
}

/// Up to [`BATCH`] IPv4 addresses through the index.
fn batch(
    index: &DatabaseIndex,
    addresses: &[whered_address],
    field_count: usize,
    answers: &mut [whered_answer],
    values: &mut [whered_value],
) {
    let mut numbers = [0_u32; BATCH];
    let mut results = [Found::default(); BATCH];
    for (number, address) in numbers.iter_mut().zip(addresses) {
        let [a, b, c, d, ..] = address.bytes;
        *number = u32::from_be_bytes([a, b, c, d]);
    }
    let count = addresses.len().min(BATCH);
    let (Some(numbers), Some(results)) = (numbers.get(..count), results.get_mut(..count)) else {
        return;
    };
    index.lookup4_batch_with_rows(numbers, results);
    let mut values = values;
    for (result, answer) in results.iter().zip(answers) {
        let (mine, rest) = values.split_at_mut(field_count);
        values = rest;
        found(index, *result, answer, mine);
    }
}

fn found(
    index: &DatabaseIndex,
    found: Found,
    answer: &mut whered_answer,
    values: &mut [whered_value],
) {
    let row = index.row(found);
    let status = if found.is_record() { OK } else { NOT_FOUND };
    *answer = whered_answer { status, prefix_length_bits: found.length_bits, reserved: [0; 3] };
    for (column, value) in values.iter_mut().enumerate() {
        value.set(row.get(column));
    }
}
