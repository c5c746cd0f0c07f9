//! What a run found, as tables and as JSON.
//!
//! Not for measuring.

use super::bars::bars;
use super::rounds::Table;
use crate::measure::{Machine, median, quantile, write_result};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// All tables of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was measured.
    pub tables: Vec<Table>,
    /// What was not, and why.
    pub left_out: Vec<(String, String)>,
}

/// A setting and its value.
pub type Setting = (&'static str, String);

impl Report {
    /// The table of a section.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Bars and tables for a terminal.
    #[must_use]
    pub fn to_markdown(&self, title: &str, settings: &[Setting]) -> String {
        let mut out = format!("# {title}\n\n{}\n\n", Machine::this().to_line());
        for (name, value) in settings {
            let _ = writeln!(out, "- {name}: {value}");
        }
        out.push_str("\n## Bars\n\n");
        out.push_str("| measure | measured | owed | reach for | | |\n");
        out.push_str("| --- | ---: | ---: | ---: | --- | --- |\n");
        for bar in bars(self) {
            let sign = if bar.at_most { "at most " } else { "" };
            let reach_for = bar.reach_for.map_or(String::new(), |value| value.to_string());
            let (measure, unit, owed) = (&bar.measure, bar.unit, bar.owed);
            let _ = writeln!(
                out,
                "| {measure} | {:.2} {unit} | {sign}{owed} | {reach_for} | {} | {} |",
                bar.measured,
                bar.verdict(),
                bar.beside
            );
        }
        for table in &self.tables {
            let _ = write!(out, "\n{}", table_to_markdown(table));
        }
        if !self.left_out.is_empty() {
            out.push_str("\n## Left out\n\n");
            for (name, reason) in &self.left_out {
                let _ = writeln!(out, "- {name}: {reason}");
            }
        }
        out
    }

    /// Settings, bars and tables as JSON.
    #[must_use]
    pub fn to_json(&self, settings: &[Setting]) -> Value {
        let settings: serde_json::Map<_, _> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let bar = |bar: super::Bar| {
            json!({
                "measure": bar.measure,
                "measured": bar.measured,
                "unit": bar.unit,
                "owed": bar.owed,
                "reach_for": bar.reach_for,
                "at_most": bar.at_most,
                "verdict": bar.verdict(),
            })
        };
        json!({
            "machine": Machine::this().to_json(),
            "settings": settings,
            "bars": bars(self).into_iter().map(bar).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(Table::to_json).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        })
    }

    /// Writes the JSON into a folder of results and returns its file.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(
        &self,
        folder: &Path,
        date: &str,
        settings: &[Setting],
    ) -> Result<PathBuf, String> {
        write_result(folder, "rules", date, &self.to_json(settings))
    }
}

/// One table with its rows.
#[must_use]
pub(super) fn table_to_markdown(table: &Table) -> String {
    let mut out = format!("## {}\n\n{} entries. {}\n", table.name, table.entries, table.note);
    for (name, value) in &table.facts {
        let _ = write!(out, "\n{name}: {value:.2}\n");
    }
    out.push_str(
        "\n| engine | M/s | ns | quarters | bytes |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in &table.rows {
        let cost = median(&row.nanoseconds);
        let (low, high) = (quantile(&row.nanoseconds, 0.25), quantile(&row.nanoseconds, 0.75));
        let bytes = if row.bytes == 0 { "-".to_owned() } else { row.bytes.to_string() };
        let _ = writeln!(
            out,
            "| {} | {:.2} | {cost:.1} | {low:.1}-{high:.1} | {bytes} |",
            row.name,
            1e3 / cost
        );
    }
    out
}
