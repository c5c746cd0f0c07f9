//! Engines over the same questions in short rounds, one after the other, with one sum for all.
//!
//! Not for making engines. Each engine answers the second half of its part untimed before the clock
//! starts, so that it finds the caches as it would leave them itself; who comes first changes from
//! round to round; a sum that differs ends the run.
//!
//! The clock is the thread's processor time: what else runs on the machine is not counted, though
//! it takes its part of the caches.

use crate::measure::{median, median_of_ratios, thread_cpu_nanoseconds};
use serde_json::{Value, json};
use std::hint::black_box;
use std::ops::Range;

/// Something that answers questions known by their places: the sum of its answers, each weighed.
pub type Run<'a> = Box<dyn FnMut(Range<usize>) -> u64 + 'a>;

/// Something that answers.
pub struct Engine<'a> {
    /// What it is called in tables.
    pub name: String,
    /// How many bytes its tables take; zero where nobody knows.
    pub bytes: usize,
    run: Run<'a>,
}

impl<'a> Engine<'a> {
    /// An engine; `run` must weigh the answers of a part as [`weighed`](crate::measure::weighed)
    /// does.
    pub fn new(
        name: impl Into<String>,
        bytes: usize,
        run: impl FnMut(Range<usize>) -> u64 + 'a,
    ) -> Engine<'a> {
        Engine { name: name.into(), bytes, run: Box::new(run) }
    }
}

/// What one engine took.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The engine.
    pub name: String,
    /// The bytes of its tables; zero where nobody knows.
    pub bytes: usize,
    /// Nanoseconds a question, one a round.
    pub nanoseconds: Vec<f64>,
}

/// Several engines over one set and one list of questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What was asked, such as `acl-256`.
    pub name: String,
    /// About the set and how it was compiled.
    pub note: String,
    /// Rules or prefixes.
    pub entries: usize,
    /// What was found on the way, such as seconds of building.
    pub facts: Vec<(String, f64)>,
    /// The engines.
    pub rows: Vec<Row>,
}

impl Table {
    /// The row of an engine.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The median cost of an engine, in nanoseconds.
    #[must_use]
    pub fn cost(&self, name: &str) -> Option<f64> {
        self.row(name).map(|row| median(&row.nanoseconds))
    }

    /// The median cost of the engine of that name, or else of the fastest whose name begins so.
    #[must_use]
    pub fn cost_of(&self, name: &str) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.name.starts_with(name));
        let fastest = || rows.map(|row| median(&row.nanoseconds)).min_by(f64::total_cmp);
        self.cost(name).or_else(fastest)
    }

    /// A fact.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<f64> {
        self.facts.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// How many times as long the fastest engine whose name begins so takes as ours, and its name.
    #[must_use]
    pub fn ratio(&self, ours: &str, rival: &str) -> Option<(f64, String)> {
        let ours = self.row(ours)?;
        let rivals = self.rows.iter().filter(|row| row.name.starts_with(rival));
        rivals
            .map(|row| (median_of_ratios(&ours.nanoseconds, &row.nanoseconds), row.name.clone()))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// For files.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row =
            |row: &Row| json!({"engine": row.name, "bytes": row.bytes, "ns": row.nanoseconds});
        let facts: serde_json::Map<_, _> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "set": self.name,
            "note": self.note,
            "entries": self.entries,
            "facts": facts,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// A table that [`to_json`](Table::to_json) wrote; `None` for anything else.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Table> {
        let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let count = |value: &Value, key: &str| Some(value.get(key)?.as_u64()? as usize);
        let row = |value: &Value| {
            let each = value.get("ns")?.as_array()?.iter();
            Some(Row {
                name: text(value, "engine")?,
                bytes: count(value, "bytes")?,
                nanoseconds: each.map(Value::as_f64).collect::<Option<_>>()?,
            })
        };
        let facts = value.get("facts")?.as_object()?.iter();
        Some(Table {
            name: text(value, "set")?,
            note: text(value, "note")?,
            entries: count(value, "entries")?,
            facts: facts
                .map(|(name, value)| Some((name.clone(), value.as_f64()?)))
                .collect::<Option<_>>()?,
            rows: value.get("rows")?.as_array()?.iter().map(row).collect::<Option<_>>()?,
        })
    }
}

/// Runs all engines over the parts, a round each.
///
/// # Errors
///
/// Two engines whose sums differ, or a clock that cannot be read.
pub(super) fn run(engines: &mut [Engine<'_>], parts: &[Range<usize>]) -> Result<Vec<Row>, String> {
    let row = |engine: &Engine<'_>| Row {
        name: engine.name.clone(),
        bytes: engine.bytes,
        nanoseconds: Vec::new(),
    };
    let mut rows: Vec<Row> = engines.iter().map(row).collect();
    for (round, part) in parts.iter().enumerate() {
        let mut sums = vec![0; engines.len()];
        for turn in 0..engines.len() {
            let place = (turn + round) % engines.len();
            let engine = &mut engines[place];
            black_box((engine.run)(part.start + part.len() / 2..part.end));
            let before = now()?;
            sums[place] = (engine.run)(part.clone());
            let took = now()? - before;
            rows[place].nanoseconds.push(took as f64 / part.len().max(1) as f64);
        }
        if let Some(place) = sums.iter().position(|sum| *sum != sums[0]) {
            let (first, other) = (&engines[0].name, &engines[place].name);
            return Err(format!("{other} answers otherwise than {first} in round {round}"));
        }
    }
    Ok(rows)
}

/// The whole list, repeated.
pub(super) fn repeated(count: usize, rounds: usize) -> Vec<Range<usize>> {
    vec![0..count; rounds]
}

/// The list in parts of one length.
pub(super) fn divided(count: usize, rounds: usize) -> Vec<Range<usize>> {
    let part = (count / rounds.max(1)).max(1);
    (0..count / part).map(|round| round * part..(round + 1) * part).collect()
}

fn now() -> Result<u64, String> {
    thread_cpu_nanoseconds().map_err(|error| format!("the thread's clock: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::weighed;

    fn summing(factor: u32) -> Engine<'static> {
        Engine::new(format!("times {factor}"), 8, move |part: Range<usize>| {
            part.clone()
                .fold(0, |sum, place| weighed(sum, place - part.start, place as u32 * factor))
        })
    }

    #[test]
    fn engines_that_agree_are_timed_and_others_are_named() {
        let rows = run(&mut [summing(3), summing(3)], &divided(1000, 4)).expect("equal");
        assert_eq!((rows.len(), rows[0].nanoseconds.len()), (2, 4));
        let message = run(&mut [summing(3), summing(2)], &repeated(10, 2)).expect_err("different");
        assert!(message.contains("times 2 answers otherwise than times 3"), "{message}");
    }

    #[test]
    fn tables_survive_their_json() {
        let rows = vec![Row { name: "a".to_owned(), bytes: 3, nanoseconds: vec![1.5, 2.5] }];
        let table = Table {
            name: "t".to_owned(),
            note: "n".to_owned(),
            entries: 7,
            facts: vec![("seconds".to_owned(), 0.5)],
            rows,
        };
        assert_eq!(Table::from_json(&table.to_json()), Some(table.clone()));
        assert_eq!((table.cost("a"), table.fact("seconds")), (Some(2.0), Some(0.5)));
        assert_eq!(Table::from_json(&json!({"set": "t"})), None);
    }
}
