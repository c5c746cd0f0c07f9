//! What a run found, as the page and the JSON file that are kept.
//!
//! Not for measuring. Ratios are medians over rounds, the two halves of each having run one after
//! the other.

use crate::bars::{Judged, judge};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use whered_bench::geo::{Likeness, Report, Row};
use whered_bench::measure::{median, median_of_ratios};

const OURS: &str = "whered";
const RIVAL: &str = "redis";

/// Everything.
pub(crate) struct Record {
    /// Machine, settings, loads, rows.
    pub(crate) report: Report,
}

impl Record {
    /// The page.
    pub(crate) fn to_markdown(&self) -> String {
        let report = &self.report;
        let mut out = String::from("# Points beside Redis\n\n");
        let _ = writeln!(out, "{}\n", report.machine.to_line());
        for (name, value) in &report.settings {
            let _ = writeln!(out, "- {name}: {value}");
        }
        for note in &report.servers {
            let _ = writeln!(out, "- {}: {}", note.name, note.settings);
        }
        let _ = writeln!(out, "- data: {}", report.census);
        out.push_str("\n## Bars\n\nHow many times as much Redis takes, unless the measure says otherwise. The bars are meant for 60,841,557\npoints; with fewer a search finds fewer, and there is less to save.\n\n");
        out.push_str("| measure | measured | wanted | reach for | |\n");
        out.push_str("| --- | ---: | ---: | ---: | --- |\n");
        for judged in judge(report, OURS, RIVAL) {
            let Judged { measure, wanted, reach_for, verdict, .. } = &judged;
            let measured = judged.measured.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let _ =
                writeln!(out, "| {measure} | {measured} | {wanted} | {reach_for} | {verdict} |");
        }
        self.write_loads(&mut out);
        self.write_rows(&mut out);
        out
    }

    fn write_loads(&self, out: &mut String) {
        out.push_str(
            "\n## All points\n\nProcessor time of the server for a point; all of its memory afterwards.\n\n",
        );
        out.push_str("| what | server | points | seconds | ns (cpu) | bytes a point | |\n");
        out.push_str("| --- | --- | ---: | ---: | ---: | ---: | --- |\n");
        for note in &self.report.loads {
            let loaded = note.loaded;
            let known =
                |value: f64, text: String| if value.is_finite() { text } else { "-".to_owned() };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {:.1} | {} |",
                note.what,
                note.server,
                loaded.points,
                known(loaded.seconds, format!("{:.1}", loaded.seconds)),
                known(loaded.seconds, format!("{:.0}", loaded.cpu_nanoseconds_per_point)),
                note.bytes_per_point(),
                note.remark
            );
        }
    }

    fn write_rows(&self, out: &mut String) {
        out.push_str(
            "\n## Classes\n\nA class is named CONNECTIONSxPIPELINE behind its slash. Microseconds of the server's \
             processor time for a command, the\nmedian of all rounds; commands a second; microseconds from \
             sending a batch to its last reply. The ratio is\nthe median over rounds of Redis's processor \
             time divided by ours.\n\n",
        );
        out.push_str("| class | server | us (cpu) | ratio | per second | p50 us | p99 us | elements | replies |\n");
        out.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
        for row in &self.report.rows {
            let micros = |share: f64| row.latencies.quantile_nanoseconds(share) / 1000.0;
            let cpu = median(&row.cpu_nanoseconds) / 1000.0;
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {:.0} | {:.1} | {:.1} | {} | {} |",
                row.class,
                row.server,
                if cpu.is_finite() { format!("{cpu:.2}") } else { "-".to_owned() },
                self.ratio(row).map_or(String::new(), |ratio| format!("{ratio:.2}")),
                median(&row.per_second),
                micros(0.5),
                micros(0.99),
                row.elements_per_reply().map_or("-".to_owned(), |mean| format!("{mean:.1}")),
                row.likeness.map_or("", Likeness::name)
            );
        }
    }

    /// How many times as much processor time the rival takes; stated in our rows.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let theirs = self.report.row(&row.class, RIVAL).filter(|_| row.server == OURS)?;
        let ratio = median_of_ratios(&row.cpu_nanoseconds, &theirs.cpu_nanoseconds);
        ratio.is_finite().then_some(ratio)
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

    /// Writes `geo-DATE-MACHINE.json` and `.md`; with another size than a million, it is named.
    pub(crate) fn write(&self, folder: &Path, date: &str) -> Result<(), String> {
        let machine = self.report.machine.short_name();
        let size = match self.report.census.points {
            1_000_000 => String::new(),
            points => format!("-{points}"),
        };
        let name = format!("geo-{date}-{machine}{size}");
        let files = [("json", format!("{}\n", self.to_json())), ("md", self.to_markdown())];
        for (ending, text) in files {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            eprintln!("compare: wrote {}", path.display());
        }
        Ok(())
    }
}
