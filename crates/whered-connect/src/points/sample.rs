//! Which column or field names the members, where the caller does not say: one whose values differ.
//!
//! For: a file of cities by name has several cities of one name, of which a collection would keep
//! the last; a column of numbers beside it tells them apart. Not for: reading records (`csv`,
//! `json`).
//!
//! ```text
//! first records ─ kept ─> the usual column, if no value comes twice in it
//!                         else the first other one whose name is an identifier's and for which that holds
//!                         else the usual column
//! ```
//!
//! Memory: the sample, [`SAMPLE_RECORDS`] or [`SAMPLE_BYTES`].

use std::collections::HashSet;
use std::hash::Hash;

use super::json::{self, MEMBERS, Member};
use super::sink::Sink;
use super::{LoadOptions, Spot};
use crate::error::ConnectError;

/// How many records are looked at.
pub(super) const SAMPLE_RECORDS: usize = 20_000;
/// Or how many bytes of them.
pub(super) const SAMPLE_BYTES: usize = 8 << 20;

/// Whether a name is that of an identifier: `id`, `city_id`, `placeId`, `uuid`.
pub(super) fn is_identifier(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_usual = MEMBERS.contains(&lower.as_str()) && !matches!(&*lower, "name" | "key");
    let stem = lower.strip_suffix("id").unwrap_or("x");
    let is_apart = stem.is_empty() || stem.ends_with(['_', '-', ' ', '.', '@', ':']);
    let is_camel = name.strip_suffix("Id").or(name.strip_suffix("ID")).is_some_and(|stem| {
        stem.ends_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    });
    is_usual || is_apart || is_camel || matches!(&*lower, "uuid" | "guid")
}

/// Whether all values are there and no two are the same.
pub(super) fn are_distinct<T: Hash + Eq>(values: impl Iterator<Item = Option<T>>) -> bool {
    let mut seen = HashSet::new();
    let mut values = values;
    values.all(|value| value.is_some_and(|value| seen.insert(value)))
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
        self.chosen = self.choose(sample.iter().map(|(_, text)| text.as_slice()));
        if let Some(chosen) = &self.chosen {
            sink.note_choice(format!("field '{}'", chosen.escape_debug()));
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

    /// The field to be taken in the place of the usual one, whose values repeat.
    fn choose<'t>(&self, texts: impl Iterator<Item = &'t [u8]> + Clone) -> Option<String> {
        let member = |text: &[u8], chosen: Option<&str>| {
            json::point(text, self.options, chosen).ok().map(|point| point.member)
        };
        // What is bad by any name says nothing.
        let good = texts.filter(|text| member(text, None).is_some());
        let usual = good.clone().map(|text| member(text, None).map(|member| member.text));
        if are_distinct(usual) {
            return None;
        }
        let names = good.clone().next().map(json::names).unwrap_or_default();
        names.into_iter().filter(|name| is_identifier(name)).find(|name| {
            are_distinct(good.clone().map(|text| member(text, Some(name)).map(|found| found.text)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_told_by_their_names() {
        for name in
            ["id", "ID", "@id", "city_id", "placeId", "wikiDataId", "UUID", "geonameid", "osm id"]
        {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["name", "key", "humid", "valid", "ANDROID", "country", "identity", ""] {
            assert!(!is_identifier(name), "{name}");
        }
    }

    #[test]
    fn values_are_distinct_if_all_are_there_once() {
        assert!(are_distinct([Some(1), Some(2)].into_iter()));
        assert!(!are_distinct([Some(1), Some(1)].into_iter()));
        assert!(!are_distinct([Some(1), None].into_iter()));
    }
}
