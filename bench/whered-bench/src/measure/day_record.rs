//! What one machine has measured of one thing on one day, in as many runs as it took.
//!
//! For: keeping sections of earlier runs beside those of this one, which go in their place.
//! Not for: measuring; the bars, which the kind of record brings along.
//!
//! ```text
//! FOLDER/SUITE/MACHINE/DATE.json
//!     { date, machine, sections: [{ title, settings, rows, figures }] }
//! ```

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::{Machine, result_path, write_result};

/// One table of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What was measured; may end in `, answers of ...` or another figure after a comma.
    pub title: String,
    /// How it was measured.
    pub settings: String,
    /// Rows of cells; the first is the head.
    pub rows: Vec<Vec<String>>,
    /// The figures.
    pub figures: Json,
}

impl Section {
    /// A section whose settings the caller adds.
    #[must_use]
    pub fn new(title: impl Into<String>, rows: Vec<Vec<String>>, figures: Json) -> Section {
        Section { title: title.into(), settings: String::new(), rows, figures }
    }

    /// The section with the settings that it was measured with.
    #[must_use]
    pub fn measured_with(self, settings: &str) -> Section {
        Section { settings: settings.to_owned(), ..self }
    }

    /// Its rows as a table in Markdown, with even columns.
    #[must_use]
    pub fn table(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width.saturating_sub(1).max(2));
                    let end = if column == 0 { "-" } else { ":" };
                    let _ = write!(text, "| {dashes}{end} ");
                }
                text.push_str("|\n");
            }
        }
        text
    }

    /// What it is known by: its title without what is measured.
    fn key(&self) -> &str {
        self.title.split(", answers of").next().unwrap_or_default()
    }
}

/// What a record is of.
#[derive(Clone, Copy, Debug)]
pub struct RecordKind {
    /// The folder of its files.
    pub suite: &'static str,
    /// The bars as a table, from the figures of all sections.
    pub bars: fn(&[&Json]) -> String,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct DayRecord {
    kind: RecordKind,
    date: String,
    sections: Vec<Section>,
}

impl DayRecord {
    /// An empty one of a day.
    #[must_use]
    pub fn new(kind: RecordKind, date: &str) -> DayRecord {
        DayRecord { kind, date: date.to_owned(), sections: Vec::new() }
    }

    /// Puts a section in the place of the one that is known by the same, or behind all.
    pub fn put(&mut self, section: Section) {
        match self.sections.iter_mut().find(|old| old.key() == section.key()) {
            Some(place) => *place = section,
            None => self.sections.push(section),
        }
    }

    /// Writes the file, with the sections that it has already.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or is not such a record.
    pub fn write_into(&mut self, folder: &Path) -> Result<(), String> {
        let path = result_path(folder, self.kind.suite, &self.date);
        let fault = |error: io::Error| format!("{}: {error}", path.display());
        let before = match fs::read_to_string(&path) {
            Ok(text) => {
                sections_of(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(fault(error)),
        };
        for section in std::mem::replace(&mut self.sections, before) {
            self.put(section);
        }
        let sections = self.sections.iter().map(|section| {
            json!({ "title": section.title, "settings": section.settings, "rows": section.rows,
                "figures": section.figures })
        });
        let all = json!({ "date": self.date, "machine": Machine::this().to_json(),
            "sections": sections.collect::<Vec<_>>() });
        write_result(folder, self.kind.suite, &self.date, &all).map(drop)
    }

    /// Bars and tables for a terminal.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let figures: Vec<&Json> = self.sections.iter().map(|section| &section.figures).collect();
        let mut text = format!("{}\n\n{}", Machine::this().to_line(), (self.kind.bars)(&figures));
        for section in &self.sections {
            let Section { title, settings, .. } = section;
            // Writing to a string cannot fail.
            let _ = write!(text, "\n## {title}\n\n{settings}.\n\n{}", section.table());
        }
        text
    }
}

/// The sections of a record.
fn sections_of(text: &str) -> Result<Vec<Section>, String> {
    let all: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let words = |value: &Json| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|cell| cell.as_str().map(str::to_owned)).collect()
    };
    let read = |section: &Json| {
        let word = |name: &str| Some(section[name].as_str()?.to_owned());
        let rows = section["rows"].as_array()?.iter().map(words).collect::<Option<_>>()?;
        let figures = section["figures"].clone();
        Some(Section { title: word("title")?, settings: word("settings")?, rows, figures })
    };
    let sections = all["sections"].as_array().and_then(|list| list.iter().map(read).collect());
    sections.ok_or_else(|| "no record of this program; allowed: one of its own, or none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: RecordKind =
        RecordKind { suite: "kind", bars: |figures| format!("{}\n", figures.len()) };

    fn section(title: &str, figure: u32) -> Section {
        let rows = vec![vec!["server".to_owned()], vec![figure.to_string()]];
        Section::new(title, rows, json!({ "figure": figure })).measured_with("quietly")
    }

    #[test]
    fn runs_of_a_day_add_up_and_the_latest_counts() {
        let folder = std::env::temp_dir().join(format!("whered-day-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let runs = [(["a, answers of 7 bytes", "b"], 1), (["c", "a, answers of 8 bytes"], 2)];
        for (titles, figure) in runs {
            let mut record = DayRecord::new(KIND, "2026-01-02");
            titles.iter().for_each(|title| record.put(section(title, figure)));
            record.write_into(&folder).unwrap();
        }
        let path = result_path(&folder, "kind", "2026-01-02");
        let kept = sections_of(&fs::read_to_string(path).unwrap());
        let kept = kept.unwrap();
        let titles: Vec<_> = kept.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["a, answers of 8 bytes", "b", "c"]);
        assert_eq!(kept[0].figures["figure"].as_u64(), Some(2));
        let mut all = DayRecord::new(KIND, "2026-01-02");
        kept.into_iter().for_each(|section| all.put(section));
        let page = all.to_markdown();
        assert!(page.contains("\n3\n"), "the bars are missing: {page}");
        assert!(page.contains("## b\n\nquietly.\n\n| server |"), "{page}");
        assert!(sections_of("{}").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn columns_are_even_and_numbers_stand_right() {
        let rows = [["server", "ns"], ["echo", "1"], ["whered", "1000"]];
        let rows = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let expected =
            "| server |   ns |\n| ------ | ---: |\n| echo   |    1 |\n| whered | 1000 |\n";
        assert_eq!(Section::new("even", rows, Json::Null).table(), expected);
    }
}
