//! The report of a run: its bars for a terminal, and its JSON file.
//!
//! Not for measuring. Ratios are medians over rounds, the two halves of each having run one after
//! the other on the same addresses.

use crate::bars::{BARS, Bar, File, MEMORY_BARS, MemoryBar};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use whered_bench::lookup::{Calls, Report, Row, Task, Wants};
use whered_bench::measure::{median_of_ratios, write_result};

/// A row about one of the files.
pub(crate) struct FileRow {
    /// The file.
    pub(crate) file: File,
    /// The result.
    pub(crate) row: Row,
}

/// Everything.
pub(crate) struct Record {
    /// Machine, settings, engines, histograms.
    pub(crate) report: Report,
    /// The results of all files.
    pub(crate) results: Vec<FileRow>,
}

/// A bar with what was measured.
struct Judged {
    bar: &'static Bar,
    ours: &'static str,
    ratio: Option<f64>,
}

impl Judged {
    fn verdict(&self) -> &'static str {
        match (self.ratio, self.bar.reach_for) {
            (None, _) => "not measured",
            (Some(ratio), _) if ratio < self.bar.at_least => "below the bar",
            (Some(ratio), Some(reach_for)) if ratio >= reach_for => "reached",
            _ => "met",
        }
    }
}

/// A rival's handle to a record is the record's offset.
fn rivals_wants(task: Task) -> Wants {
    if task.wants == Wants::Row { Wants::Record } else { task.wants }
}

impl Record {
    fn row(&self, (file, list): (File, &str), engine: &str, task: Task) -> Option<&Row> {
        let rows = self.results.iter().filter(|result| result.file == file);
        let mut rows = rows.map(|result| &result.row);
        rows.find(|row| row.list == list && row.engine == engine && row.task == task)
    }

    fn judged(&self) -> Vec<Judged> {
        let each = BARS.iter().flat_map(|bar| bar.ours.iter().map(move |&ours| (bar, ours)));
        each.map(|(bar, ours)| {
            let single = Task { calls: Calls::Single, wants: rivals_wants(bar.task), ..bar.task };
            let ratio = self.row(bar.place, ours, bar.task).and_then(|own| {
                let theirs = self.row(bar.place, bar.rival, single)?;
                Some(median_of_ratios(&own.measured.nanoseconds, &theirs.measured.nanoseconds))
            });
            Judged { bar, ours, ratio }
        })
        .collect()
    }

    /// The bars, one a line.
    pub(crate) fn bars(&self) -> String {
        let mut out = String::new();
        for judged in self.judged() {
            let Bar { measure, rival, at_least, .. } = judged.bar;
            let ratio = judged.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}"));
            let (ours, verdict) = (judged.ours, judged.verdict());
            let _ = writeln!(
                out,
                "{measure}: {rival} takes {ratio} times {ours}, wanted {at_least}: {verdict}"
            );
        }
        out
    }

    /// What an engine needs for one thing, in millions of bytes.
    fn megabytes(&self, bar: &MemoryBar) -> Option<f64> {
        let mut notes = self.report.engines.iter();
        notes.find_map(|note| note.bytes(bar.engine, bar.what)).map(|bytes| bytes as f64 / 1e6)
    }

    fn to_json(&self) -> Value {
        let bars = self.judged().into_iter().map(|judged| {
            json!({
                "measure": judged.bar.measure,
                "rival": judged.bar.rival,
                "ours": judged.ours,
                "ratio": judged.ratio,
                "at_least": judged.bar.at_least,
                "reach_for": judged.bar.reach_for,
                "verdict": judged.verdict(),
            })
        });
        let rows = self.results.iter().map(|result| {
            let mut row = result.row.to_json();
            row["file"] = json!(format!("{:?}", result.file));
            row["rounds_cpu_nanoseconds"] = json!(result.row.measured.nanoseconds);
            row
        });
        let memory = MEMORY_BARS.iter().map(|bar| {
            json!({
                "engine": bar.engine,
                "what": bar.what,
                "megabytes": self.megabytes(bar),
                "at_most": bar.at_most,
                "reach_for": bar.reach_for,
            })
        });
        let mut value = self.report.to_json();
        value["memory_bars"] = memory.collect();
        value["bars"] = bars.collect();
        value["rows"] = rows.collect();
        value
    }

    /// Writes the file of the day.
    pub(crate) fn write(&self, folder: &Path, date: &str) -> Result<(), String> {
        let path = write_result(folder, "lookup", date, &self.to_json())?;
        eprintln!("compare: wrote {}", path.display());
        Ok(())
    }
}
