//! Where a run's figures are kept: `FOLDER/SUITE/MACHINE/DATE.json`, and figures with bars.
//!
//! Not for measuring, and not for tables of text. `cargo xtask performance` reads these files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::Machine;

/// The file of this machine's result of a suite.
#[must_use]
pub fn result_path(folder: &Path, suite: &str, date: &str) -> PathBuf {
    folder.join(suite).join(Machine::this().folder_name()).join(format!("{date}.json"))
}

/// Writes this machine's result of a suite and returns its file.
///
/// # Errors
///
/// The folder or the file cannot be written.
pub fn write_result(
    folder: &Path,
    suite: &str,
    date: &str,
    result: &Json,
) -> Result<PathBuf, String> {
    let path = result_path(folder, suite, date);
    let fault = |error: io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(fault)?;
    fs::write(&path, format!("{result:#}\n")).map_err(fault)?;
    Ok(path)
}

/// One figure of a suite that has no rows of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// What was measured.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What is wanted of it.
    pub bar: Option<Bar>,
}

/// A limit that a figure is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// The figure is at least this.
    AtLeast(f64),
    /// The figure is at most this.
    AtMost(f64),
}

impl Measure {
    /// A figure without a bar.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Measure {
        Measure { name: name.into(), value, unit, bar: None }
    }

    /// The figure with a bar.
    #[must_use]
    pub fn held_against(self, bar: Bar) -> Measure {
        Measure { bar: Some(bar), ..self }
    }

    /// One line for a terminal.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Measure { name, value, unit, .. } = self;
        let bar = self.verdict().map(|(wanted, verdict)| format!(", wanted {wanted}: {verdict}"));
        format!("{name}: {value:.2} {unit}{}", bar.unwrap_or_default())
    }

    fn verdict(&self) -> Option<(String, &'static str)> {
        Some(match self.bar? {
            Bar::AtLeast(least) => {
                (format!(">= {least}"), if self.value < least { "below the bar" } else { "met" })
            }
            Bar::AtMost(most) => {
                (format!("<= {most}"), if self.value > most { "above the bar" } else { "met" })
            }
        })
    }

    fn to_json(&self) -> Json {
        let mut json = json!({ "name": self.name, "values": [self.value], "unit": self.unit });
        if let Some((wanted, verdict)) = self.verdict() {
            json["wanted"] = json!(wanted);
            json["verdict"] = json!(verdict);
        }
        json
    }
}

/// The result of a suite that consists of such figures.
#[must_use]
pub fn measures_to_json(suite: &str, date: &str, workload: &str, measures: &[Measure]) -> Json {
    json!({
        "suite": suite,
        "date": date,
        "machine": Machine::this().to_json(),
        "workload": workload,
        "measures": measures.iter().map(Measure::to_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_a_folder_for_suite_and_machine() {
        let folder = std::env::temp_dir().join(format!("whered-result-{}", std::process::id()));
        let path = write_result(&folder, "kind", "2026-01-02", &json!({ "a": 1 })).unwrap();
        assert_eq!(path, result_path(&folder, "kind", "2026-01-02"));
        let machine = Machine::this().folder_name();
        assert!(path.ends_with(format!("kind/{machine}/2026-01-02.json")));
        let read: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read, json!({ "a": 1 }));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_measure_says_whether_its_bar_is_met() {
        let rate = Measure::new("rate", 2.0, "times");
        assert_eq!(rate.to_line(), "rate: 2.00 times");
        let missed = rate.clone().held_against(Bar::AtLeast(3.0));
        assert_eq!(missed.to_line(), "rate: 2.00 times, wanted >= 3: below the bar");
        let met = rate.held_against(Bar::AtMost(2.0));
        let json = measures_to_json("s", "2026-01-02", "w", &[met]);
        assert_eq!(json["measures"][0]["verdict"], "met");
        assert_eq!(json["measures"][0]["wanted"], "<= 2");
        assert_eq!(json["measures"][0]["values"], json!([2.0]));
    }
}
