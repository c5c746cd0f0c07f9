//! The results of a run, as a table for people and as JSON.
//!
//! Not for the bars and ratios of a comparison: `bench/versus` has them.

use super::load::Loaded;
use super::points::Census;
use super::rounds::Row;
use super::script::Likeness;
use crate::measure::{Machine, median, quantile};
use serde_json::{Value, json};
use std::fmt::Write;

/// How a server was set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNote {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: String,
}

/// What filling a server, or moving all of its points, cost.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadNote {
    /// What was done.
    pub what: String,
    /// The server.
    pub server: String,
    /// Time and memory.
    pub loaded: Loaded,
    /// What is to be known about it, such as that it was done in an earlier run.
    pub remark: String,
}

impl LoadNote {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Loaded { points, seconds, cpu_nanoseconds_per_point, .. } = self.loaded;
        json!({
            "what": self.what,
            "server": self.server,
            "points": points,
            "seconds": seconds,
            "cpu_nanoseconds_per_point": cpu_nanoseconds_per_point,
            "resident_bytes_before": self.loaded.resident_bytes_before,
            "resident_bytes": self.loaded.resident_bytes,
            "bytes_per_point": self.bytes_per_point(),
            "remark": self.remark,
        })
    }

    /// All of the process's memory, for a point.
    #[must_use]
    pub fn bytes_per_point(&self) -> f64 {
        self.loaded.resident_bytes as f64 / self.loaded.points.max(1) as f64
    }
}

/// Everything that a run found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// What was asked for.
    pub settings: Vec<(&'static str, Value)>,
    /// How alike the points are to the public data set.
    pub census: Census,
    /// The servers.
    pub servers: Vec<ServerNote>,
    /// What loading cost.
    pub loads: Vec<LoadNote>,
    /// The results.
    pub rows: Vec<Row>,
}

impl Report {
    /// The row of a class and server.
    #[must_use]
    pub fn row(&self, class: &str, server: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.class == class && row.server == server)
    }

    /// The note of something done to a server.
    #[must_use]
    pub fn load(&self, what: &str, server: &str) -> Option<&LoadNote> {
        self.loads.iter().find(|note| note.what == what && note.server == server)
    }

    /// Classes in which a server's replies had other elements than the first one's.
    pub fn differences(&self) -> impl Iterator<Item = &Row> {
        let differs = |row: &&Row| row.likeness.is_some_and(|found| found > Likeness::Elements);
        self.rows.iter().filter(differs)
    }

    /// The whole report as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let settings =
            self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let servers = self.servers.iter();
        let servers = servers.map(|note| json!({"name": note.name, "settings": note.settings}));
        json!({
            "machine": self.machine.to_json(),
            "settings": Value::Object(settings.collect()),
            "census": {
                "points": self.census.points,
                "in_circle_of_200_km": self.census.in_circle,
                "in_box_of_200_km": self.census.in_box,
            },
            "servers": servers.collect::<Vec<_>>(),
            "loads": self.loads.iter().map(LoadNote::to_json).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
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
        let _ = writeln!(out, "{}", self.census);
        for note in &self.servers {
            let _ = writeln!(out, "{}: {}", note.name, note.settings);
        }
        let _ = writeln!(out, "\n{}", load_heading());
        for note in &self.loads {
            let _ = writeln!(out, "{}", load_line(note));
        }
        let _ = writeln!(out, "\n{}", row_heading());
        for row in &self.rows {
            let _ = writeln!(out, "{}", row_line(row));
        }
        out
    }
}

fn load_heading() -> String {
    format!(
        "{:<30} {:<8} {:>10} {:>8} {:>11} {:>10} {:>8}",
        "all points", "server", "points", "seconds", "ns/pt (cpu)", "MiB", "bytes/pt"
    )
}

pub(super) fn load_line(note: &LoadNote) -> String {
    let loaded = note.loaded;
    format!(
        "{:<30} {:<8} {:>10} {:>8.2} {:>11.1} {:>10.1} {:>8.1}  {}",
        note.what,
        note.server,
        loaded.points,
        loaded.seconds,
        loaded.cpu_nanoseconds_per_point,
        loaded.resident_bytes as f64 / f64::from(1 << 20),
        note.bytes_per_point(),
        note.remark
    )
}

fn row_heading() -> String {
    format!(
        "{:<40} {:<8} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11} {:>9}  replies",
        "class",
        "server",
        "ns (cpu)",
        "quarter",
        "3/4",
        "per second",
        "p50 us",
        "p99 us",
        "elements"
    )
}

pub(super) fn row_line(row: &Row) -> String {
    let cpu = &row.cpu_nanoseconds;
    let micros = |share: f64| row.latencies.quantile_nanoseconds(share) / 1000.0;
    format!(
        "{:<40} {:<8} {:>12.0} {:>12.0} {:>12.0} {:>11.0} {:>11.1} {:>11.1} {:>9.1}  {}",
        row.class,
        row.server,
        median(cpu),
        quantile(cpu, 0.25),
        quantile(cpu, 0.75),
        median(&row.per_second),
        micros(0.5),
        micros(0.99),
        row.elements_per_reply().unwrap_or(1.0),
        row.likeness.map_or("", Likeness::name)
    )
}
