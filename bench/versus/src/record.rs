//! What a run found, as the page and the JSON file that are kept.
//!
//! Not for measuring. Ratios are medians over rounds, the two halves of each having run one after
//! the other on the same addresses.

use crate::bars::{BARS, Bar, File, MEMORY_BARS, MemoryBar};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use whered_bench::lookup::{Calls, Report, Row, Task, Wants};
use whered_bench::measure::{median, median_of_ratios};

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

    /// The page.
    pub(crate) fn to_markdown(&self) -> String {
        let mut out = String::from("# Lookups beside rivals\n\n");
        let _ = writeln!(out, "{}\n", self.report.machine.to_line());
        for (name, value) in &self.report.settings {
            let _ = writeln!(out, "- {name}: {value}");
        }
        out.push_str("\n## Bars\n\nHow many times as long the rival takes.\n\n");
        out.push_str("| measure | rival | ours | measured | at least | reach for | |\n");
        out.push_str("| --- | --- | --- | ---: | ---: | ---: | --- |\n");
        for judged in self.judged() {
            let Bar { measure, rival, at_least, reach_for, .. } = judged.bar;
            let ratio = judged.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}"));
            let reach_for = reach_for.map_or("-".to_owned(), |ratio| format!("{ratio}"));
            let (ours, verdict) = (judged.ours, judged.verdict());
            let _ = writeln!(
                out,
                "| {measure} | {rival} | {ours} | {ratio} | {at_least} | {reach_for} | {verdict} |"
            );
        }
        self.write_memory(&mut out);
        out.push_str("\n## Engines\n\n| engine | bytes over the file | settings |\n");
        out.push_str("| --- | ---: | --- |\n");
        for note in &self.report.engines {
            let _ = writeln!(out, "{}", note.to_table_row());
        }
        self.write_times(&mut out);
        out.push_str("\n## Memory accesses of a lookup, one after the other\n\n```text\n");
        for histogram in &self.report.histograms {
            let _ = writeln!(out, "{}", histogram.to_line());
        }
        out.push_str("```\n");
        out
    }

    /// What an engine needs for one thing, in millions of bytes.
    fn megabytes(&self, bar: &MemoryBar) -> Option<f64> {
        let mut notes = self.report.engines.iter();
        notes.find_map(|note| note.bytes(bar.engine, bar.what)).map(|bytes| bytes as f64 / 1e6)
    }

    fn write_memory(&self, out: &mut String) {
        out.push_str("\n## Memory over the file itself\n\nMillions of bytes.\n\n");
        out.push_str("| engine | what for | measured | at most | reach for |\n");
        out.push_str("| --- | --- | ---: | ---: | ---: |\n");
        for bar in MEMORY_BARS {
            let MemoryBar { engine, what, at_most, reach_for } = bar;
            let measured = self.megabytes(bar).map_or("-".to_owned(), |size| format!("{size:.1}"));
            let reach_for = reach_for.map_or("-".to_owned(), |size| size.to_string());
            let _ = writeln!(out, "| {engine} | {what} | {measured} | {at_most} | {reach_for} |");
        }
    }

    fn write_times(&self, out: &mut String) {
        out.push_str(
            "\n## Times\n\nNanoseconds of processor time for an address: the median of \
                      all rounds.\nSlow engines had a tenth of the addresses.\n\n",
        );
        out.push_str("| file | addresses | task | engine | ns | million/s | count | checksum |\n");
        out.push_str("| --- | --- | --- | --- | ---: | ---: | ---: | --- |\n");
        for FileRow { file, row } in &self.results {
            let nanoseconds = median(&row.measured.nanoseconds);
            let _ = writeln!(
                out,
                "| {file:?} | {} | {} | {} | {nanoseconds:.1} | {:.2} | {} | {:016x} |",
                row.list,
                row.task,
                row.engine,
                1000.0 / nanoseconds,
                row.measured.addresses,
                row.measured.checksum()
            );
        }
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

    /// Writes `lookup-DATE-MACHINE.json` and `.md`.
    pub(crate) fn write(&self, folder: &Path, date: &str) -> Result<(), String> {
        let name = format!("lookup-{date}-{}", self.report.machine.short_name());
        let files = [("json", format!("{}\n", self.to_json())), ("md", self.to_markdown())];
        for (ending, text) in files {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            eprintln!("compare: wrote {}", path.display());
        }
        Ok(())
    }
}
