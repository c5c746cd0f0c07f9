//! What a run has shown, as a page and as JSON.
//!
//! For: people and records. Not for: judging; bars are where they are written.

use serde_json::{Value as Json, json};

use super::compare::Checked;
use super::run::FeedOptions;
use crate::measure::{Machine, quantile};

/// One phase of one server.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Acknowledged, while uploads were sent.
    pub uploads_per_second: f64,
    /// From the first byte until all were applied.
    pub events_per_second: f64,
    /// Of the server's process, over the same time.
    pub cpu_nanoseconds_per_event: f64,
    /// Until each upload was acknowledged.
    pub acknowledged_millis: Vec<f64>,
    /// Bytes that the process had written for each byte of uploads.
    pub written_per_byte: Option<f64>,
}

/// The whole run.
#[derive(Clone, Debug)]
pub struct FeedReport {
    /// What was asked for.
    pub options: FeedOptions,
    /// Events of the full and of the half phase.
    pub events: [u64; 2],
    /// The bare receiver at full speed.
    pub bare: Phase,
    /// The server at full speed.
    pub full: Phase,
    /// The server at half of that.
    pub half: Phase,
    /// What was compared.
    pub checked: Checked,
}

impl FeedReport {
    fn phases(&self) -> [(&'static str, &Phase); 3] {
        [
            ("bare receiver, full", &self.bare),
            ("whered, full", &self.full),
            ("whered, half", &self.half),
        ]
    }

    /// A page for people.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let options = &self.options;
        let mut text = format!(
            "{} uploads of {} bytes ({}{}), {} clients; {} and {} events; {} positions and {} loot rows compared\n\n",
            options.uploads,
            options.upload.size_bytes,
            options.upload.format.name(),
            if options.upload.has_loot { " with loot" } else { "" },
            options.clients,
            self.events[0],
            self.events[1],
            self.checked.positions,
            self.checked.loot,
        );
        text += "| | uploads/s | events/s | CPU ns/event | p50 ms | p99 ms | written/byte |\n";
        text += "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
        for (name, phase) in self.phases() {
            let written =
                phase.written_per_byte.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            text += &format!(
                "| {name} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {written} |\n",
                phase.uploads_per_second,
                phase.events_per_second,
                phase.cpu_nanoseconds_per_event,
                quantile(&phase.acknowledged_millis, 0.5),
                quantile(&phase.acknowledged_millis, 0.99),
            );
        }
        let share = self.full.uploads_per_second / self.bare.uploads_per_second * 100.0;
        text + &format!("\nThe server takes {share:.0} % of the bare receiver's uploads.\n")
    }

    /// All figures.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let options = &self.options;
        let phases = self.phases().map(|(name, phase)| {
            json!({
                "name": name,
                "uploads_per_second": phase.uploads_per_second,
                "events_per_second": phase.events_per_second,
                "cpu_nanoseconds_per_event": phase.cpu_nanoseconds_per_event,
                "acknowledged_p50_millis": quantile(&phase.acknowledged_millis, 0.5),
                "acknowledged_p99_millis": quantile(&phase.acknowledged_millis, 0.99),
                "written_per_byte": phase.written_per_byte,
            })
        });
        json!({
            "machine": Machine::this().to_json(),
            "clients": options.clients,
            "uploads": options.uploads,
            "size_bytes": options.upload.size_bytes,
            "format": options.upload.format.name(),
            "has_loot": options.upload.has_loot,
            "objects": options.objects,
            "seed": options.seed,
            "events": self.events,
            "positions": self.checked.positions,
            "loot": self.checked.loot,
            "phases": phases,
        })
    }
}
