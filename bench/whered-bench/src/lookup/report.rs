//! The results of a run, as a table for people and as JSON.
//!
//! Not for the bars and ratios of a comparison: `bench/versus` has them.

use super::addresses::AddressList;
use super::engine::{Engine, Task};
use super::histogram::Histogram;
use super::rounds::{Contender, Measured};
use crate::measure::{Machine, median, quantile};
use serde_json::{Value, json};
use std::fmt::Write;

/// One engine's result for one task and list.
#[derive(Debug, Clone)]
pub struct Row {
    /// The list of addresses.
    pub list: &'static str,
    /// What was done with it.
    pub task: Task,
    /// The engine's name.
    pub engine: String,
    /// The times and sums.
    pub measured: Measured,
    /// Addresses a second of all threads together, if there was more than one.
    pub per_second: Option<f64>,
}

impl Row {
    /// What one contender did with a list.
    #[must_use]
    pub fn new(list: &AddressList, contender: &Contender<'_>, measured: Measured) -> Row {
        Row {
            list: list.name,
            task: contender.task,
            engine: contender.engine.name(),
            measured,
            per_second: None,
        }
    }

    /// The row as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let nanoseconds = &self.measured.nanoseconds;
        json!({
            "addresses": self.list,
            "task": self.task.to_string(),
            "engine": self.engine,
            "count": self.measured.addresses,
            "cpu_nanoseconds": median(nanoseconds),
            "cpu_nanoseconds_quartiles": [quantile(nanoseconds, 0.25), quantile(nanoseconds, 0.75)],
            "addresses_per_second_of_all_threads": self.per_second,
            "checksum": format!("{:016x}", self.measured.checksum()),
        })
    }

    /// The row as a line of the table.
    #[must_use]
    pub fn to_line(&self) -> String {
        let nanoseconds = &self.measured.nanoseconds;
        let middle = median(nanoseconds);
        let rate = self.per_second.unwrap_or(1e9 / middle) / 1e6;
        format!(
            "{:<10} {:<22} {:<22} {:>9.1} {:>9.1} {:>9.1} {:>9.2} {:>8}  {:016x}",
            self.list,
            self.task.to_string(),
            self.engine,
            middle,
            quantile(nanoseconds, 0.25),
            quantile(nanoseconds, 0.75),
            rate,
            self.measured.addresses,
            self.measured.checksum()
        )
    }
}

/// How an engine was set up.
#[derive(Debug, Clone)]
pub struct EngineNote {
    name: String,
    settings: String,
    memory: Vec<(&'static str, usize)>,
}

impl EngineNote {
    /// Notes an engine.
    #[must_use]
    pub fn of(engine: &dyn Engine) -> EngineNote {
        EngineNote { name: engine.name(), settings: engine.settings(), memory: engine.memory() }
    }

    /// A note with the file's name in front of the engine's, where several files are measured.
    #[must_use]
    pub fn about(self, file: &str) -> EngineNote {
        EngineNote { name: format!("{file}: {}", self.name), ..self }
    }

    /// The bytes that an engine of this name needs for one thing, if it says.
    #[must_use]
    pub fn bytes(&self, engine: &str, what: &str) -> Option<usize> {
        let is_it = self.name == engine;
        let mut parts = self.memory.iter().filter(|(name, _)| is_it && *name == what);
        parts.next().map(|(_, bytes)| *bytes)
    }

    /// A row of a Markdown table: name, bytes, settings.
    #[must_use]
    pub fn to_table_row(&self) -> String {
        format!("| {} | {} | {} |", self.name, self.memory_text(), self.settings)
    }

    fn memory_text(&self) -> String {
        let parts = self.memory.iter().map(|(what, bytes)| format!("{what} {bytes}"));
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
    }
}

/// Everything that a run found.
#[derive(Debug)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// How it ran: file, number of addresses, core and so on, by name.
    pub settings: Vec<(&'static str, Value)>,
    /// What ran.
    pub engines: Vec<EngineNote>,
    /// How long it took.
    pub rows: Vec<Row>,
    /// What it read.
    pub histograms: Vec<Histogram>,
}

impl Report {
    /// The whole report as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let engines = self.engines.iter().map(|note| {
            let memory = note.memory.iter().map(|(what, bytes)| ((*what).to_owned(), json!(bytes)));
            json!({
                "name": note.name,
                "settings": note.settings,
                "bytes_over_the_file": memory.collect::<serde_json::Map<_, _>>(),
            })
        });
        let settings =
            self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        json!({
            "machine": self.machine.to_json(),
            "settings": Value::Object(settings.collect()),
            "engines": engines.collect::<Vec<_>>(),
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "memory_accesses": self.histograms.iter().map(Histogram::to_json).collect::<Vec<_>>(),
        })
    }

    /// The whole report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}", self.machine.to_line());
        for (name, value) in &self.settings {
            let _ = writeln!(out, "{name}: {value}");
        }
        let _ = writeln!(out, "\nengine                 bytes over the file");
        for note in &self.engines {
            let _ = writeln!(out, "{:<22} {}", note.name, note.memory_text());
        }
        let _ = writeln!(
            out,
            "\n{:<10} {:<22} {:<22} {:>9} {:>9} {:>9} {:>9} {:>8}  checksum",
            "addresses", "task", "engine", "ns (cpu)", "quarter", "3/4", "M/s", "count"
        );
        for row in &self.rows {
            let _ = writeln!(out, "{}", row.to_line());
        }
        if !self.histograms.is_empty() {
            let _ = writeln!(out, "\nmemory accesses of a lookup, one after the other");
        }
        for histogram in &self.histograms {
            let _ = writeln!(out, "{}", histogram.to_line());
        }
        out
    }
}
