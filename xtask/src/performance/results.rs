//! The figures and the bars of `bench/results/SUITE/MACHINE/DATE.json`.
//!
//! Each suite's program writes its own form; what they have in common is read by its key:
//!
//! | key | figures |
//! | --- | --- |
//! | `bars` | `measure`: its ratio or figure; the greatest where several engines have it |
//! | `rows` of points | `class server what`: rates, processor time, p50 in milliseconds |
//! | `loads` | `what server bytes` a point |
//! | `tables` | `set engine`: nanoseconds of each round |
//! | `sections` | `title: row: column`; `title: server`: nanoseconds of each round |
//! | `measures` | `name`: its values |

use std::collections::BTreeMap;

use serde_json::Value;

use crate::failure::ChoreError;
use crate::repository::Repository;

const FOLDER: &str = "bench/results/";

/// The newest result of one suite on one machine.
#[derive(Debug)]
pub(super) struct SuiteResult {
    pub(super) suite: String,
    pub(super) machine: String,
    pub(super) path: String,
    /// Figures by name: alternatives, or one a round.
    figures: BTreeMap<String, Vec<f64>>,
    pub(super) bars: Vec<Bar>,
    /// Processor, cores, memory, kernel in words.
    pub(super) hardware: String,
}

/// A bar that a figure was held against.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) measure: String,
    pub(super) wanted: String,
    pub(super) is_missed: bool,
}

impl SuiteResult {
    /// The least and the greatest of a figure's values.
    pub(super) fn range(&self, name: &str) -> Option<(f64, f64)> {
        let values = self.figures.get(name)?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
    }

    /// One figure divided by another: the median over rounds that both have.
    pub(super) fn quotient(&self, of: &str, by: &str) -> Option<f64> {
        let (of, by) = (self.figures.get(of)?, self.figures.get(by)?);
        if of.len() == by.len() {
            return median(of.iter().zip(by).map(|(of, by)| of / by).collect());
        }
        Some(median(of.clone())? / median(by.clone())?)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Reads the newest result of each suite and machine.
pub(super) fn read(repository: &Repository) -> Result<Vec<SuiteResult>, ChoreError> {
    let mut newest: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for path in repository.paths() {
        let parts = path.strip_prefix(FOLDER).map(|rest| rest.split('/').collect::<Vec<_>>());
        if let Some([suite, machine, file]) = parts.as_deref()
            && file.ends_with(".json")
        {
            // Paths are sorted, and so are the dates in them.
            newest.insert((suite, machine), path);
        }
    }
    let mut results = Vec::new();
    for ((suite, machine), path) in newest {
        let json: Value = serde_json::from_str(&repository.read(path)?)
            .map_err(|error| ChoreError::new(format!("{path}: {error}")))?;
        results.push(parse(suite, machine, path, &json));
    }
    Ok(results)
}

fn parse(suite: &str, machine: &str, path: &str, json: &Value) -> SuiteResult {
    let mut result = SuiteResult {
        suite: suite.to_owned(),
        machine: machine.to_owned(),
        path: path.to_owned(),
        figures: BTreeMap::new(),
        bars: Vec::new(),
        hardware: hardware(&json["machine"]),
    };
    result.read_bars(json);
    result.read_points(json);
    result.read_tables(json);
    result.read_sections(json);
    result.read_measures(json);
    result
}

fn hardware(machine: &Value) -> String {
    let cache = |level: &str| {
        let caches = list(&machine["caches"]).filter_map(Value::as_str);
        caches.filter_map(|cache| cache.strip_prefix(level)).next().unwrap_or("?").to_owned()
    };
    format!(
        "{} cores, {} a core of second-level cache, {} MiB of memory",
        machine["processors"],
        cache("L2 Unified "),
        machine["memory_mib"]
    )
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl SuiteResult {
    fn add(&mut self, name: String, value: Option<f64>) {
        if let Some(value) = value {
            self.figures.insert(name, vec![value]);
        }
    }

    fn add_bar(&mut self, measure: &str, wanted: String, verdict: &str) {
        let is_missed = matches!(verdict, "below the bar" | "above the bar" | "missed");
        // Of two engines with the same bar the better one counts.
        match self.bars.iter_mut().find(|bar| bar.measure == measure) {
            Some(bar) => bar.is_missed &= is_missed,
            None => self.bars.push(Bar { measure: measure.to_owned(), wanted, is_missed }),
        }
    }

    fn read_bars(&mut self, json: &Value) {
        for bar in list(&json["bars"]) {
            let measure = text(&bar["measure"]);
            let Some(value) = bar["ratio"].as_f64().or_else(|| bar["measured"].as_f64()) else {
                continue;
            };
            let best = self.range(measure).map_or(value, |(_, before)| value.max(before));
            self.add(measure.to_owned(), Some(best));
            let sign = if bar["at_most"] == true { "<=" } else { ">=" };
            let wanted = match (&bar["wanted"], &bar["at_least"], &bar["owed"]) {
                (Value::String(wanted), _, _) => wanted.clone(),
                (_, Value::Number(wanted), _) | (_, _, Value::Number(wanted)) => {
                    format!("{sign} {wanted}")
                }
                _ => continue,
            };
            self.add_bar(measure, wanted, text(&bar["verdict"]));
        }
    }

    fn read_points(&mut self, json: &Value) {
        for row in list(&json["rows"]) {
            let name = format!("{} {}", text(&row["class"]), text(&row["server"]));
            self.add(format!("{name} a second"), row["per_second"].as_f64());
            self.add(format!("{name} ns"), row["cpu_nanoseconds"].as_f64());
            let p50 = row["batch_p50_nanoseconds"].as_f64().map(|value| value / 1e6);
            self.add(format!("{name} p50"), p50);
            let way = format!("{} {}", text(&row["addresses"]), text(&row["way"]));
            self.add(way, row["cpu_nanoseconds"].as_f64());
        }
        for load in list(&json["loads"]) {
            let name = format!("{} {} bytes", text(&load["what"]), text(&load["server"]));
            self.add(name, load["bytes_per_point"].as_f64());
        }
    }

    fn read_tables(&mut self, json: &Value) {
        for table in list(&json["tables"]) {
            for row in list(&table["rows"]) {
                let name = format!("{} {}", text(&table["set"]), text(&row["engine"]));
                let rounds = list(&row["ns"]).filter_map(Value::as_f64).collect();
                self.figures.insert(name, rounds);
            }
        }
    }

    fn read_sections(&mut self, json: &Value) {
        for section in list(&json["sections"]) {
            let title = text(&section["title"]);
            let columns: Vec<&str> = list(&section["rows"][0]).map(text).collect();
            for row in list(&section["rows"]).skip(1) {
                for (column, cell) in columns.iter().zip(list(row)) {
                    let value = text(cell).trim_end_matches('x').parse().ok();
                    self.add(format!("{title}: {}: {column}", text(&row[0])), value);
                }
            }
            for server in list(&section["figures"]["servers"]) {
                let rounds: Vec<f64> =
                    list(&server["cpu_rounds"]).filter_map(Value::as_f64).collect();
                if !rounds.is_empty() {
                    self.figures.insert(format!("{title}: {}", text(&server["server"])), rounds);
                }
            }
        }
    }

    fn read_measures(&mut self, json: &Value) {
        for measure in list(&json["measures"]) {
            let name = text(&measure["name"]);
            let values = list(&measure["values"]).filter_map(Value::as_f64).collect();
            self.figures.insert(name.to_owned(), values);
            if let Some(wanted) = measure["wanted"].as_str() {
                self.add_bar(name, wanted.to_owned(), text(&measure["verdict"]));
            }
        }
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
pub(super) mod tests;
