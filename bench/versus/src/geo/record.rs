//! The report of a run: its bars for a terminal, and its JSON file.
//!
//! Not for measuring. Ratios are medians over rounds, the two halves of each having run one after
//! the other.

use crate::bars::{Judged, judge};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use whered_bench::geo::Report;
use whered_bench::measure::write_result;

const OURS: &str = "whered";
const RIVAL: &str = "redis";

/// Everything.
pub(crate) struct Record {
    /// Machine, settings, loads, rows.
    pub(crate) report: Report,
}

impl Record {
    /// The bars, one a line. They are meant for 60,841,557 points: with fewer a search finds fewer.
    pub(crate) fn bars(&self) -> String {
        let mut out = String::new();
        for judged in judge(&self.report, OURS, RIVAL) {
            let Judged { measure, wanted, verdict, .. } = &judged;
            let measured = judged.measured.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let _ = writeln!(out, "{measure}: {measured}, wanted {wanted}: {verdict}");
        }
        out
    }

    fn to_json(&self) -> Value {
        let bars = judge(&self.report, OURS, RIVAL).into_iter().map(|judged| {
            json!({
                "measure": judged.measure,
                "measured": judged.measured,
                "wanted": judged.wanted,
                "reach_for": judged.reach_for,
                "verdict": judged.verdict,
            })
        });
        let mut value = self.report.to_json();
        value["bars"] = bars.collect();
        value
    }

    /// Writes the file of the day; the suite names the number of points unless it is a million.
    pub(crate) fn write(&self, folder: &Path, date: &str) -> Result<(), String> {
        let suite = match self.report.census.points {
            1_000_000 => "geo".to_owned(),
            points => format!("geo-{points}"),
        };
        let path = write_result(folder, &suite, date, &self.to_json())?;
        eprintln!("compare: wrote {}", path.display());
        Ok(())
    }
}
