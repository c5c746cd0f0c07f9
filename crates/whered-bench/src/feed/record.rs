//! What one machine has measured of feeds on one day, in as many runs as it took.
//!
//! For: keeping sections of earlier runs beside those of this one, which go in their place.
//! Not for: measuring, the bars (`bars.rs`).
//!
//! ```text
//! feed-DATE-MACHINE.json   { date, machine, sections: [{ title, settings, rows, figures }] }
//! feed-DATE-MACHINE.md     bars, then each section as a table: made from the JSON alone
//! ```

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::bars;
use crate::measure::Machine;

/// One table of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What was measured; a section with the same title goes in its place.
    pub title: String,
    /// How it was measured.
    pub settings: String,
    /// Rows of cells; the first is the head.
    pub rows: Vec<Vec<String>>,
    /// The figures.
    pub figures: Json,
}

impl Section {
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if number == 0 {
                text += &format!("| --- |{}\n", " ---: |".repeat(row.len() - 1));
            }
        }
        text
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Record {
    date: String,
    sections: Vec<Section>,
}

impl Record {
    /// An empty one of a day.
    #[must_use]
    pub fn new(date: &str) -> Record {
        Record { date: date.to_owned(), sections: Vec::new() }
    }

    /// Puts a section in the place of the one with its title, or behind all.
    pub fn put(&mut self, section: Section) {
        match self.sections.iter_mut().find(|old| old.title == section.title) {
            Some(place) => *place = section,
            None => self.sections.push(section),
        }
    }

    /// Writes both files, with the sections that the JSON has already.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or is not such a record.
    pub fn write_into(&mut self, folder: &Path) -> Result<(), String> {
        let name = format!("feed-{}-{}", self.date, Machine::this().short_name());
        let path = folder.join(format!("{name}.json"));
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
        fs::write(&path, format!("{all:#}\n")).map_err(fault)?;
        fs::write(folder.join(format!("{name}.md")), self.to_markdown()).map_err(fault)
    }

    /// Bars and tables.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let figures: Vec<&Json> = self.sections.iter().map(|section| &section.figures).collect();
        let mut text = format!(
            "# Feeds: a crowd's uploads into tables, {}\n\n{}\n\n{}",
            self.date,
            Machine::this().to_line(),
            bars::to_markdown(&figures)
        );
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

    fn section(title: &str, figure: u32) -> Section {
        let rows = vec![vec!["server".to_owned()], vec![figure.to_string()]];
        let (title, settings) = (title.to_owned(), "quietly".to_owned());
        Section { title, settings, rows, figures: json!({ "figure": figure }) }
    }

    #[test]
    fn runs_of_a_day_add_up_and_the_latest_counts() {
        let folder =
            std::env::temp_dir().join(format!("whered-feed-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (titles, figure) in [(["a", "b"], 1), (["c", "a"], 2)] {
            let mut record = Record::new("2026-01-02");
            titles.iter().for_each(|title| record.put(section(title, figure)));
            record.write_into(&folder).unwrap();
        }
        let name = format!("feed-2026-01-02-{}", Machine::this().short_name());
        let kept = sections_of(&fs::read_to_string(folder.join(format!("{name}.json"))).unwrap());
        let kept = kept.unwrap();
        let titles: Vec<_> = kept.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["a", "b", "c"]);
        assert_eq!(kept[0].figures["figure"].as_u64(), Some(2));
        let page = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
        assert!(page.contains("## b\n\nquietly.\n\n| server |"), "{page}");
        assert!(sections_of("{}").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
