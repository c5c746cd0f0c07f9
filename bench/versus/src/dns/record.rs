//! What one machine has measured on one day, in as many runs as it took.
//!
//! For: keeping sections of earlier runs beside those of this one, which go in their place.
//! Not for: measuring, the bars (`bars.rs`).
//!
//! ```text
//! dns-DATE-MACHINE.json   { date, machine, sections: [{ title, settings, rows, figures }] }
//! dns-DATE-MACHINE.md     bars, then each section as a table: made from the JSON alone
//! ```

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use whered_bench::dns::Section;
use whered_bench::measure::Machine;

use crate::bars;

/// See the head of this file.
pub(crate) struct Record {
    date: String,
    /// A section, and how it was measured.
    sections: Vec<(Section, String)>,
}

impl Record {
    pub(crate) fn new(date: &str) -> Record {
        Record { date: date.to_owned(), sections: Vec::new() }
    }

    /// Puts a section in the place of the one with its title, or behind all.
    pub(crate) fn put(&mut self, section: Section, settings: &str) {
        let (key, new) = (key(&section).to_owned(), (section, settings.to_owned()));
        match self.sections.iter_mut().find(|(old, _)| self::key(old) == key) {
            Some(place) => *place = new,
            None => self.sections.push(new),
        }
    }

    /// Writes both files, with the sections that the JSON has already.
    pub(crate) fn write_into(&mut self, folder: &Path) -> Result<(), String> {
        let name = format!("dns-{}-{}", self.date, Machine::this().short_name());
        let path = folder.join(format!("{name}.json"));
        let fault = |error: io::Error| format!("{}: {error}", path.display());
        let before = match fs::read_to_string(&path) {
            Ok(text) => {
                sections_of(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(fault(error)),
        };
        for (section, settings) in std::mem::replace(&mut self.sections, before) {
            self.put(section, &settings);
        }
        let sections = self.sections.iter().map(|(section, settings)| {
            json!({ "title": section.title, "settings": settings, "rows": section.rows,
                "figures": section.json })
        });
        let all = json!({ "date": self.date, "machine": Machine::this().to_json(),
            "sections": sections.collect::<Vec<_>>() });
        fs::write(&path, format!("{all:#}\n")).map_err(fault)?;
        fs::write(folder.join(format!("{name}.md")), self.to_markdown()).map_err(fault)
    }

    /// Bars and tables.
    pub(crate) fn to_markdown(&self) -> String {
        let figures: Vec<&Value> = self.sections.iter().map(|(section, _)| &section.json).collect();
        let mut text = format!(
            "# DNS over UDP beside rivals, {}\n\n{}\n\n{}",
            self.date,
            Machine::this().to_line(),
            bars::to_markdown(&figures)
        );
        for (section, settings) in &self.sections {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n## {}\n\n{settings}.\n\n{}", section.title, section.table());
        }
        text
    }
}

/// What a section is known by: its title without what is measured.
fn key(section: &Section) -> &str {
    section.title.split(", answers of").next().unwrap_or_default()
}

/// The sections of a record.
fn sections_of(text: &str) -> Result<Vec<(Section, String)>, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|cell| cell.as_str().map(str::to_owned)).collect()
    };
    let read = |section: &Value| {
        let title = section["title"].as_str()?.to_owned();
        let rows = section["rows"].as_array()?.iter().map(words).collect::<Option<_>>()?;
        let settings = section["settings"].as_str()?.to_owned();
        Some((Section { title, rows, json: section["figures"].clone() }, settings))
    };
    let sections = all["sections"].as_array().and_then(|list| list.iter().map(read).collect());
    sections.ok_or_else(|| "no record of this program; allowed: one of its own, or none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(title: &str, figure: u32) -> Section {
        let rows = vec![vec!["server".to_owned()], vec![figure.to_string()]];
        Section { title: title.to_owned(), rows, json: json!({ "figure": figure }) }
    }

    #[test]
    fn runs_add_up_and_the_latest_counts() {
        let folder = std::env::temp_dir().join(format!("whered-dns-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (titles, figure) in
            [(["a, answers of 7 bytes", "b"], 1), (["c", "a, answers of 8 bytes"], 2)]
        {
            let mut record = Record::new("2026-01-02");
            for title in titles {
                record.put(section(title, figure), "quietly");
            }
            record.write_into(&folder).unwrap();
        }
        let name = format!("dns-2026-01-02-{}", Machine::this().short_name());
        let kept = sections_of(&fs::read_to_string(folder.join(format!("{name}.json"))).unwrap());
        let kept = kept.unwrap();
        let titles: Vec<_> = kept.iter().map(|(section, _)| section.title.as_str()).collect();
        assert_eq!(titles, ["a, answers of 8 bytes", "b", "c"]);
        assert_eq!(kept[0].0.json["figure"].as_u64(), Some(2));
        let page = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
        assert!(page.contains("## b\n\nquietly.\n\n| server |"), "{page}");
        assert!(sections_of("{}").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
