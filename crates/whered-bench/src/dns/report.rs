//! The result as text, Markdown and JSON.
//!
//! Not for: what is measured (`mod.rs`), or the bars against rivals, which `bench/versus` adds.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Options;
use super::parts::Section;
use crate::measure::Machine;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// How it was measured.
    pub settings: String,
    /// The tables.
    pub sections: Vec<Section>,
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        let settings = format!(
            "{} rounds of {} s each, {} distinct questions a mix, server on core {}, driver on \
             core {}",
            options.rounds,
            options.time.as_secs_f64(),
            options.queries,
            options.server_core,
            options.driver_core
        );
        Report { machine: Machine::this(), settings, sections: Vec::new() }
    }

    /// As Markdown, which reads as text too.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = format!("{}\n\n{}.\n", self.machine.to_line(), self.settings);
        for section in &self.sections {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n## {}\n\n{}", section.title, section.table());
        }
        text
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let sections: Vec<_> = self.sections.iter().map(|section| &section.json).collect();
        json!({
            "machine": self.machine.to_json(),
            "settings": self.settings,
            "sections": sections,
        })
    }
}

impl Section {
    /// Its rows as a table in Markdown.
    #[must_use]
    pub fn table(&self) -> String {
        table(&self.rows)
    }
}

/// Rows with even columns; the first is the head.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "| {cell:<width$} "),
                _ => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width.saturating_sub(1).max(2));
                let _ = match column {
                    0 => write!(text, "| {dashes}- "),
                    _ => write!(text, "| {dashes}: "),
                };
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_even_and_numbers_stand_right() {
        let rows = [["server", "ns"], ["echo", "1"], ["whered", "1000"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let expected =
            "| server |   ns |\n| ------ | ---: |\n| echo   |    1 |\n| whered | 1000 |\n";
        assert_eq!(table(&rows), expected);
    }
}
