//! Places as bytes: what a batch changes of them in the journal, members and rows in snapshots.
//!
//! ```text
//! changes  members before, new | { name }* | changed | { rows on | values }* | rows before, new | { member | values }*
//! name     length | bytes                    values   merged: count more | x f64 | y f64     latest: cell 7 bytes | time more
//! members  { name }*                         rows     { member | batch | values }*
//! ```
//! Numbers are varints; "more" counts from the row as it was, of a new row from zero. For: writing
//! them, and reading what may be anything. Not for: cold files, which have places as they lie in
//! memory.
//!
//! Invariant: changes applied to rows that have them already change nothing.

use whered_geo::Cell;

use super::{Checkpoint, Member, PlaceRule, Places, Values};
use crate::tables::cell::{push_varint, take_bytes, take_varint, unzigzag, zigzag};
use crate::tables::index::hash_of;
use crate::tables::order;
use crate::tables::texts::KEY_BYTES_MAX;

impl Places {
    /// Appends what the batch has changed, and gives `each` the rows that are changed or new.
    pub(crate) fn push_changes(&self, out: &mut Vec<u8>, mut each: impl FnMut(u32)) {
        let rows = self.changed.iter().map(|(row, _)| *row);
        let mut changed: Vec<u64> =
            rows.zip(0..).map(|(row, number)| order::pair(row, number)).collect();
        order::sort(&mut changed);
        let Checkpoint { len, members, .. } = self.checkpoint;
        push_varint(out, members as u64);
        push_varint(out, (self.members.len() - members) as u64);
        for Member { name, .. } in &self.members[members..] {
            push_text(out, self.names.get(*name));
        }
        push_varint(out, changed.len() as u64);
        let mut before = 0;
        for (row, number) in changed.into_iter().map(order::parts) {
            push_varint(out, u64::from(row - before));
            before = row;
            let (_, old) = &self.changed[number as usize];
            push_values(out, self.rule, &self.row(row).values, old);
            each(row);
        }
        push_varint(out, u64::from(len));
        push_varint(out, u64::from(self.len - len));
        for row in len..self.len {
            let new = self.row(row);
            push_varint(out, u64::from(new.member));
            push_values(out, self.rule, &new.values, &Values::default());
            each(row);
        }
    }

    /// Applies the changes of a batch to rows that are older than it, takes them off the input, and
    /// gives `each` every row that is named.
    ///
    /// # Errors
    /// They are not changes of these places.
    pub(crate) fn apply_changes(
        &mut self,
        batch: u64,
        input: &mut &[u8],
        each: &mut dyn FnMut(&Places, u32),
    ) -> Result<(), String> {
        self.has_near = false;
        self.begin(batch);
        self.apply(batch, input, each).map_err(|fault| format!("places of batch {batch}: {fault}"))
    }

    fn apply(
        &mut self,
        batch: u64,
        input: &mut &[u8],
        each: &mut dyn FnMut(&Places, u32),
    ) -> Result<(), &'static str> {
        let before = take_varint(input).ok_or("no number of members")?;
        let new = take_varint(input).ok_or("no number of new members")?;
        for number in before..before.saturating_add(new) {
            let name = take_text(input).ok_or("a name cannot be read")?;
            self.take_member(number, name)?;
        }
        let changed = take_varint(input).ok_or("no number of changed rows")?;
        let mut row = 0_u64;
        for _ in 0..changed {
            row = take_varint(input).and_then(|more| row.checked_add(more)).ok_or("no row")?;
            let number = u32::try_from(row).ok().filter(|number| *number < self.len);
            let number = number.ok_or("it changes a row that is not there")?;
            let old = self.row(number).values;
            let new = take_values(input, self.rule, &old).ok_or("a row cannot be read")?;
            if old.batch < batch {
                self.row_mut(number).set(Values { batch, ..new });
            }
            each(self, number);
        }
        let before = take_varint(input).ok_or("no number of rows")?;
        let new = take_varint(input).ok_or("no number of new rows")?;
        for number in before..before.saturating_add(new) {
            let member = take_varint(input).filter(|member| *member < self.members.len() as u64);
            let member = member.ok_or("a row is of a member that is not there")? as u32;
            let none = Values::default();
            let new = take_values(input, self.rule, &none).ok_or("a new row cannot be read")?;
            if number == u64::from(self.len) {
                self.add_row(member, new);
            } else if number > u64::from(self.len) || self.row(number as u32).member != member {
                return Err("a new row is not the next one");
            }
            each(self, number as u32);
        }
        Ok(())
    }

    fn take_member(&mut self, number: u64, name: &[u8]) -> Result<(), &'static str> {
        if number == self.members.len() as u64 && number < u64::from(u32::MAX) {
            self.add_member(hash_of(name), name);
            return Ok(());
        }
        let known = self.members.get(usize::try_from(number).unwrap_or(usize::MAX));
        match known {
            Some(known) if self.names.get(known.name) == name => Ok(()),
            _ => Err("a new member is not the next one"),
        }
    }

    /// Appends whole members from `first` on until the bytes are enough; gives where to go on.
    pub(crate) fn push_members(&self, out: &mut Vec<u8>, first: u32, enough_bytes: usize) -> u32 {
        let mut member = first as usize;
        while member < self.members.len() && out.len() < enough_bytes {
            push_text(out, self.names.get(self.members[member].name));
            member += 1;
        }
        member as u32
    }

    /// Adds members, to the end of the input.
    pub(crate) fn add_members(&mut self, mut input: &[u8]) -> Result<(), String> {
        while !input.is_empty() {
            let name = take_text(&mut input);
            let name =
                name.ok_or_else(|| format!("member {} cannot be read", self.members.len()))?;
            self.add_member(hash_of(name), name);
        }
        Ok(())
    }

    /// Appends whole rows from `first` on, up to `end` or until the bytes are enough; gives where
    /// to go on.
    pub(crate) fn push_rows(
        &self,
        out: &mut Vec<u8>,
        first: u32,
        end: u32,
        enough_bytes: usize,
    ) -> u32 {
        let mut row = first;
        while row < self.len.min(end) && out.len() < enough_bytes {
            let whole = self.row(row);
            push_varint(out, u64::from(whole.member));
            push_varint(out, whole.values.batch);
            push_values(out, self.rule, &whole.values, &Values::default());
            row += 1;
        }
        row
    }

    /// Adds rows, to the end of the input.
    pub(crate) fn add_rows(&mut self, mut input: &[u8]) -> Result<(), String> {
        self.has_near = false;
        while !input.is_empty() {
            let wrong = || format!("position {} cannot be read", self.len);
            let member = take_varint(&mut input).filter(|m| *m < self.members.len() as u64);
            let batch = take_varint(&mut input);
            let row = take_values(&mut input, self.rule, &Values::default());
            let (Some(member), Some(batch), Some(row)) = (member, batch, row) else {
                return Err(wrong());
            };
            if self.len == u32::MAX {
                return Err(wrong());
            }
            self.checkpoint.batch = batch;
            self.add_row(member as u32, row);
        }
        Ok(())
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn take_text<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_varint(input)?;
    take_bytes(input, length).filter(|text| text.len() <= KEY_BYTES_MAX)
}

fn push_values(out: &mut Vec<u8>, rule: PlaceRule, row: &Values, old: &Values) {
    if rule.is_merged() {
        push_varint(out, row.count.wrapping_sub(old.count));
        out.extend_from_slice(&row.x.to_le_bytes());
        out.extend_from_slice(&row.y.to_le_bytes());
    } else {
        // A cell has 52 bits.
        out.extend_from_slice(&row.x.to_le_bytes()[..7]);
        push_varint(out, zigzag(row.time.wrapping_sub(old.time)));
    }
}

fn take_values(input: &mut &[u8], rule: PlaceRule, old: &Values) -> Option<Values> {
    let mut row = *old;
    if rule.is_merged() {
        row.count = old.count.wrapping_add(take_varint(input)?);
        row.x = u64::from_le_bytes(take_bytes(input, 8)?.try_into().ok()?);
        row.y = u64::from_le_bytes(take_bytes(input, 8)?.try_into().ok()?);
        let (x, y) = (f64::from_bits(row.x), f64::from_bits(row.y));
        let count = row.count as f64;
        let is_place = x.is_finite() && y.abs() <= 90.0 * count && count > 0.0;
        return is_place.then_some(row);
    }
    let mut cell = [0; 8];
    cell[..7].copy_from_slice(take_bytes(input, 7)?);
    row.x = Cell::from_bits(u64::from_le_bytes(cell))?.bits();
    row.time = old.time.wrapping_add(unzigzag(take_varint(input)?));
    Some(row)
}
