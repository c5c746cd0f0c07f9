//! Which column or field names the members, where the caller does not say: one whose values differ.
//!
//! For: a file of cities by name has several cities of one name, of which a collection would keep
//! the last; a column of numbers next to it tells them apart. Not for: reading records (`csv`,
//! `json`, `parquet`).
//!
//! ```text
//! first records ─ sampled ─> the usual column, if no value comes twice in it
//!                            else the first other one with an identifier's name that fits as well
//!                            else the usual column
//! ```
//!
//! Memory: the sample, [`SAMPLE_RECORDS`] or [`SAMPLE_BYTES`].

use std::collections::HashSet;
use std::hash::Hash;

use super::json::{self, Member};
use super::names::{self, is_identifier};
use super::sink::Sink;
use super::{LoadOptions, Spot};
use crate::error::ConnectError;

/// How many records are sampled.
const SAMPLE_RECORDS: usize = 20_000;
/// Or how many bytes of them.
const SAMPLE_BYTES: usize = 8 << 20;

/// Whether all values are there and no two are the same.
fn are_distinct<T: Hash + Eq>(values: impl Iterator<Item = Option<T>>) -> bool {
    let mut seen = HashSet::new();
    let mut values = values;
    values.all(|value| value.is_some_and(|value| seen.insert(value)))
}

/// The columns that may name the members of a table.
pub(super) struct Candidates {
    /// Their indexes. The first one counts until the sample says otherwise.
    pub(super) columns: Vec<usize>,
    /// Whether the first one is what the caller or its usual name says.
    has_usual: bool,
}

impl Candidates {
    /// The column that the caller asks for.
    pub(super) fn requested(column: usize) -> Candidates {
        Candidates { columns: vec![column], has_usual: true }
    }

    /// Those of usual names; none if no name is that of a member.
    pub(super) fn of_names<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Option<Candidates> {
        let usual = names::member(names.clone());
        let is_other =
            |(column, name): &(usize, &str)| Some(*column) != usual && is_identifier(name);
        let others = names.enumerate().filter(is_other).map(|(column, _)| column);
        let columns: Vec<usize> = usual.into_iter().chain(others).collect();
        (!columns.is_empty()).then_some(Candidates { columns, has_usual: usual.is_some() })
    }
}

/// Longitude and latitude of a record, or why it has none.
pub(super) type Position = Result<(f64, f64), String>;

/// A record whose member is one of several values.
struct SampledRow {
    spot: Spot,
    position: Position,
    values: Vec<Result<Vec<u8>, String>>,
}

/// Rows of a table on their way into the sink: the first ones wait until it is known which column
/// names their members.
pub(super) struct Rows {
    candidates: Candidates,
    /// The columns as a message has them, such as `column 'id'`.
    shown: Vec<String>,
    chosen: usize,
    sample: Option<Vec<SampledRow>>,
    sample_bytes: usize,
}

impl Rows {
    pub(super) fn new(candidates: Candidates, shown: impl Fn(usize) -> String) -> Rows {
        let shown = candidates.columns.iter().map(|column| shown(*column)).collect();
        let needs_sample = candidates.columns.len() > 1 || !candidates.has_usual;
        let sample = needs_sample.then(Vec::new);
        Rows { candidates, shown, chosen: 0, sample, sample_bytes: 0 }
    }

    /// Takes a row; `value` gives the cell of a column.
    pub(super) fn take<'v>(
        &mut self,
        spot: Spot,
        position: Position,
        value: impl Fn(usize) -> Result<std::borrow::Cow<'v, [u8]>, String>,
        sink: &mut Sink<'_>,
    ) -> Result<(), ConnectError> {
        let Some(sample) = &mut self.sample else {
            let column = self.candidates.columns.get(self.chosen).copied().unwrap_or_default();
            sink.note_members(|| self.shown.get(self.chosen).cloned().unwrap_or_default());
            let member = value(column);
            return put(spot, position, member.as_deref().map_err(String::as_str), sink);
        };
        let values: Vec<_> =
            self.candidates.columns.iter().map(|column| value(*column).map(Into::into)).collect();
        let bytes =
            values.iter().map(|value: &Result<Vec<u8>, _>| value.as_ref().map_or(0, Vec::len));
        self.sample_bytes += bytes.sum::<usize>() + size_of::<SampledRow>();
        sample.push(SampledRow { spot, position, values });
        if sample.len() >= SAMPLE_RECORDS || self.sample_bytes >= SAMPLE_BYTES {
            return self.end(sink);
        }
        Ok(())
    }

    /// Chooses, and lets those that have waited go on; at the end of the input, too.
    pub(super) fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let Some(sample) = self.sample.take() else {
            return Ok(());
        };
        // A row without a position says nothing.
        let good = || sample.iter().filter(|row| row.position.is_ok());
        let value = |row: &SampledRow, index: usize| {
            let value = row.values.get(index)?.as_deref().ok()?;
            (!value.is_empty()).then(|| value.to_vec())
        };
        let is_fit = |index: &usize| are_distinct(good().map(|row| value(row, *index)));
        self.chosen = (0..self.shown.len()).find(is_fit).unwrap_or(0);
        let shown = self.shown.get(self.chosen).cloned().unwrap_or_default();
        if self.chosen > 0 || !self.candidates.has_usual {
            sink.note_choice(shown, self.candidates.has_usual);
        } else {
            sink.note_members(|| shown);
        }
        sample.into_iter().try_for_each(|row| {
            let member = row
                .values
                .get(self.chosen)
                .map_or(Ok(&[][..]), |value| value.as_deref().map_err(String::as_str));
            put(row.spot, row.position, member, sink)
        })
    }
}

fn put(
    spot: Spot,
    position: Position,
    member: Result<&[u8], &str>,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    match (position, member) {
        (Ok((longitude, latitude)), Ok(member)) => sink.point(longitude, latitude, member, spot),
        (Err(what), _) => sink.bad(spot, &what),
        (_, Err(what)) => sink.bad(spot, what),
    }
}

/// Objects on their way into the sink: the first ones wait until it is known what names their
/// members.
pub(super) struct Objects<'a> {
    options: &'a LoadOptions,
    sample: Option<Vec<(Spot, Vec<u8>)>>,
    sample_bytes: usize,
    /// What names the members, in the place of the usual fields.
    chosen: Option<String>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(options: &'a LoadOptions) -> Objects<'a> {
        let sample = options.member.is_none().then(Vec::new);
        Objects { options, sample, sample_bytes: 0, chosen: None }
    }

    /// Takes one object's text.
    pub(super) fn take(
        &mut self,
        spot: Spot,
        text: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), ConnectError> {
        let Some(sample) = &mut self.sample else {
            return self.put(spot, text, sink);
        };
        sample.push((spot, text.to_vec()));
        self.sample_bytes += text.len();
        if sample.len() >= SAMPLE_RECORDS || self.sample_bytes >= SAMPLE_BYTES {
            return self.end(sink);
        }
        Ok(())
    }

    /// Chooses, and lets those that have waited go on; at the end of the input, too.
    pub(super) fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let Some(sample) = self.sample.take() else {
            return Ok(());
        };
        let chosen = self.choose(sample.iter().map(|(_, text)| text.as_slice()));
        if let Some((chosen, has_usual)) = chosen {
            sink.note_choice(format!("field '{}'", chosen.escape_debug()), has_usual);
            self.chosen = Some(chosen);
        }
        sample.into_iter().try_for_each(|(spot, text)| self.put(spot, &text, sink))
    }

    fn put(&self, spot: Spot, text: &[u8], sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        match json::point(text, self.options, self.chosen.as_deref()) {
            Ok(json::Point { longitude, latitude, member: Member { text, field } }) => {
                sink.note_members(|| format!("field '{}'", field.escape_debug()));
                sink.point(longitude, latitude, &text, spot)
            }
            Err(what) => sink.bad(spot, &what),
        }
    }

    /// The field that names the members in the place of the usual one, whose values repeat; and
    /// whether there is a usual one.
    fn choose<'t>(&self, texts: impl Iterator<Item = &'t [u8]> + Clone) -> Option<(String, bool)> {
        let member = |text: &[u8], chosen: Option<&str>| {
            json::point(text, self.options, chosen).ok().map(|point| point.member.text)
        };
        let has_usual = texts.clone().any(|text| member(text, None).is_some());
        // What is bad by any name says nothing.
        let good = texts.filter(|text| match has_usual {
            true => member(text, None).is_some(),
            false => json::has_position(text, self.options),
        });
        if has_usual && are_distinct(good.clone().map(|text| member(text, None))) {
            return None;
        }
        let names = good.clone().next().map(json::names).unwrap_or_default();
        let mut names = names.into_iter().filter(|name| is_identifier(name));
        let found =
            names.find(|name| are_distinct(good.clone().map(|text| member(text, Some(name)))));
        found.map(|name| (name, has_usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_distinct_if_all_are_there_once() {
        assert!(are_distinct([Some(1), Some(2)].into_iter()));
        assert!(!are_distinct([Some(1), Some(1)].into_iter()));
        assert!(!are_distinct([Some(1), None].into_iter()));
    }
}
