//! Paths of JSON: dotted names, quoted names, indexes, and levels above the record.
//!
//! ```text
//! position.x   places.0   places[0]   'vehicle.id'.'@type'   ../now        a value
//! aircraft     Siri.ServiceDelivery.VehicleMonitoringDelivery[].VehicleActivity     records
//! ```
//! For: finding paths that can match nothing before any upload comes. Not for: matching.
//!
//! Invariants: a name without quotes has no sign of another format's paths; a path has a name.

use crate::error::MappingError;
use crate::mapping::path_help;
use crate::source::Format;

/// More names have no record.
const NAMES_MAX: usize = 64;

/// The path of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonPath {
    /// How many levels above the record it begins.
    pub(super) up: usize,
    /// Names of keys, and indexes as digits.
    pub(super) names: Vec<String>,
}

/// The path of the records in a document.
#[derive(Clone, Debug)]
pub(super) struct RecordPath {
    /// The names that lead to an array, for each array that leads to the records.
    pub(super) levels: Vec<Vec<String>>,
    pub(super) text: String,
    /// A document without it is a record itself.
    pub(super) or_itself: bool,
}

impl JsonPath {
    pub(super) fn parse(key: &str, text: &str, format: Format) -> Result<JsonPath, MappingError> {
        let wrong = || MappingError::new(key, format!("{text:?}"), path_help(format));
        let (mut up, mut rest) = (0, text);
        while format != Format::Ndjson
            && let Some(inner) = rest.strip_prefix("../")
        {
            (up, rest) = (up + 1, inner);
        }
        let steps = split(rest).ok_or_else(wrong)?;
        let names = steps.into_iter().map(|step| match step {
            Step::Name(name) => Some(name),
            Step::Each => None,
        });
        let names = names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty());
        Ok(JsonPath { up, names: names.ok_or_else(wrong)? })
    }

    /// Its names, if it does not lead above.
    pub(super) fn below(self, key: &str) -> Result<Vec<String>, MappingError> {
        if self.up == 0 {
            return Ok(self.names);
        }
        let found = format!("\"{}{}\"", "../".repeat(self.up), self.names.join("."));
        Err(MappingError::new(key, found, "a path within the element, without ../"))
    }
}

impl RecordPath {
    pub(super) fn parse(text: &str, or_itself: bool) -> Result<RecordPath, MappingError> {
        let allowed = "the path of an array of records, such as aircraft or trips[].points";
        let wrong = || MappingError::new("record", format!("{text:?}"), allowed);
        let mut levels = vec![Vec::new()];
        if !text.is_empty() {
            let steps = split(text).ok_or_else(wrong)?;
            let last = steps.len() - 1;
            for (index, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Name(name) => levels.last_mut().ok_or_else(wrong)?.push(name),
                    // The last array is the one of the records, with or without the sign.
                    Step::Each if index < last => levels.push(Vec::new()),
                    Step::Each => {}
                }
            }
        }
        Ok(RecordPath { levels, text: text.to_owned(), or_itself })
    }

    /// How many levels a record has above it.
    pub(super) fn outer_count(&self) -> usize {
        match &self.levels[..] {
            [only] if only.is_empty() => 0,
            levels => levels.len(),
        }
    }
}

enum Step {
    Name(String),
    /// `[]`: each element of an array.
    Each,
}

/// The steps of a path; `None` if it is none.
fn split(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if steps.len() >= NAMES_MAX {
            return None;
        }
        if let Some(quote @ ('\'' | '"')) = rest.chars().next() {
            let (name, behind) = rest[1..].split_once(quote)?;
            steps.push(Step::Name(name.to_owned()));
            rest = behind;
        } else if !(steps.is_empty() && rest.starts_with('[')) {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            if !is_plain(name) {
                return None;
            }
            steps.push(Step::Name(name.to_owned()));
            rest = behind;
        }
        while let Some(inside) = rest.strip_prefix('[') {
            let (index, behind) = inside.split_once(']')?;
            steps.push(match index {
                "" => Step::Each,
                _ if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let number: usize = index.parse().ok()?;
                    Step::Name(number.to_string())
                }
                _ => return None,
            });
            rest = behind;
        }
        if rest.is_empty() {
            return Some(steps);
        }
        rest = rest.strip_prefix('.')?;
    }
}

/// Whether a name needs no quotes: it is none of a path of XML, nor of a column's number.
fn is_plain(name: &str) -> bool {
    let is_odd = |letter: char| letter.is_control() || "/|@'\"]".contains(letter);
    !name.is_empty() && !name.contains(is_odd) && name.trim() == name && !name.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<(usize, Vec<String>)> {
        let path = JsonPath::parse("member", text, Format::Json).ok()?;
        Some((path.up, path.names))
    }

    #[test]
    fn paths_are_names_indexes_and_levels() {
        for (text, up, expected) in [
            ("a", 0, &["a"][..]),
            ("a.b.0", 0, &["a", "b", "0"]),
            ("a[0].b[12]", 0, &["a", "0", "b", "12"]),
            ("0", 0, &["0"]),
            ("[3]", 0, &["3"]),
            ("'a.b'.\"@c\".'x y/z'", 0, &["a.b", "@c", "x y/z"]),
            ("../../now", 2, &["now"]),
            ("speed (km)", 0, &["speed (km)"]),
        ] {
            let expected = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(names(text), Some((up, expected)), "{text}");
        }
    }

    #[test]
    fn paths_that_can_match_nothing_are_refused() {
        for text in [
            "", ".", "a.", ".a", "a..b", "@x", "a/@x", "a/b", "../", "..", "a[x]", "a[", "a[0",
            "#1", "a[]", "'a", "'a'b", "a b.", "a.@b", "a]", "[]",
        ] {
            assert_eq!(names(text), None, "{text}");
        }
        assert!(JsonPath::parse("member", "../a", Format::Ndjson).is_err());
    }

    #[test]
    fn records_lie_in_arrays_of_arrays() {
        let levels = |text: &str| RecordPath::parse(text, false).map(|path| path.levels);
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(levels(""), Ok(vec![vec![]]));
        assert_eq!(levels("a.b"), Ok(vec![names(&["a", "b"])]));
        assert_eq!(levels("a[]"), Ok(vec![names(&["a"])]));
        assert_eq!(levels("a.b[].c.d"), Ok(vec![names(&["a", "b"]), names(&["c", "d"])]));
        assert_eq!(levels("[].c"), Ok(vec![names(&[]), names(&["c"])]));
        for text in ["a/b", ".", "a..b", "../a"] {
            assert!(levels(text).is_err(), "{text}");
        }
    }
}
