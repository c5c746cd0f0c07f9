//! The result as text, Markdown and JSON.
//!
//! Not for: what is measured (`mod.rs`), or the bars against rivals, which `bench/versus` adds.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Options;
use crate::measure::{Machine, Section};

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
        let sections: Vec<_> = self.sections.iter().map(|section| &section.figures).collect();
        json!({
            "machine": self.machine.to_json(),
            "settings": self.settings,
            "sections": sections,
        })
    }
}
