//! What a run has shown, as a page and as JSON.
//!
//! For: people and records. Not for: judging; bars are where they are written.

use serde_json::{Value as Json, json};

use super::compare::Checked;
use super::run::FeedOptions;
use super::syncs::Syncs;
use crate::measure::{Machine, Section, quantile};

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
}

/// One pace, below what the server can take.
#[derive(Clone, Debug)]
pub struct Paced {
    /// Which.
    pub name: &'static str,
    /// The server.
    pub ours: Phase,
    /// The bare receiver.
    pub bare: Phase,
    /// The disk alone, with the server's groups of that pace.
    pub synced: Syncs,
}

/// The whole run.
#[derive(Clone, Debug)]
pub struct FeedReport {
    /// What was asked for.
    pub options: FeedOptions,
    /// Events of each phase.
    pub events: Vec<u64>,
    /// The bare receiver at full speed.
    pub bare: Phase,
    /// The server at full speed.
    pub full: Phase,
    /// At the paces that acknowledgements are timed at.
    pub paced: Vec<Paced>,
    /// What was compared.
    pub checked: Checked,
}

impl FeedReport {
    fn phases(&self) -> Vec<(String, &Phase)> {
        let full = [("full", &self.bare, &self.full)];
        let paced = self.paced.iter().map(|paced| (paced.name, &paced.bare, &paced.ours));
        let named = full.into_iter().chain(paced).flat_map(|(name, bare, ours)| {
            [(format!("bare receiver, {name}"), bare), (format!("whered, {name}"), ours)]
        });
        named.collect()
    }

    fn title(&self) -> String {
        let upload = &self.options.upload;
        let loot = if upload.has_loot { " with loot" } else { "" };
        format!("Uploads of {}{loot}", upload.format.name())
    }

    /// A page for people.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let section = self.section();
        format!("{}: {}\n\n{}", section.title, section.settings, section.table())
    }

    /// The run as a section of a record.
    #[must_use]
    pub fn section(&self) -> Section {
        let options = &self.options;
        let share = self.full.uploads_per_second / self.bare.uploads_per_second * 100.0;
        let settings = format!(
            "{} uploads of {} bytes a phase, {} clients; {} events; {} positions and {} loot rows \
             compared; {share:.0} % of the bare receiver's uploads are taken",
            options.uploads,
            options.upload.size_bytes,
            options.clients,
            self.events.iter().sum::<u64>(),
            self.checked.positions,
            self.checked.loot,
        );
        let head = ["", "uploads/s", "events/s", "CPU ns/event", "p50 ms", "p99 ms"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (name, phase) in self.phases() {
            rows.push(vec![
                name,
                format!("{:.0}", phase.uploads_per_second),
                format!("{:.0}", phase.events_per_second),
                format!("{:.0}", phase.cpu_nanoseconds_per_event),
                format!("{:.2}", quantile(&phase.acknowledged_millis, 0.5)),
                format!("{:.2}", quantile(&phase.acknowledged_millis, 0.99)),
            ]);
        }
        for Paced { name, synced: Syncs { group_bytes, sync_millis, .. }, .. } in &self.paced {
            let groups = format!("{name}: fdatasync alone, groups of {} KB", group_bytes / 1_000);
            let mut alone = vec![groups];
            alone.resize(4, "-".to_owned());
            alone.push(format!("{:.2}", quantile(sync_millis, 0.5)));
            alone.push(format!("{:.2}", quantile(sync_millis, 0.99)));
            rows.push(alone);
        }
        Section::new(self.title(), rows, self.to_json()).measured_with(&settings)
    }

    /// All figures.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let options = &self.options;
        let phases = self.phases().into_iter().map(|(name, phase)| {
            json!({
                "name": name,
                "uploads_per_second": phase.uploads_per_second,
                "events_per_second": phase.events_per_second,
                "cpu_nanoseconds_per_event": phase.cpu_nanoseconds_per_event,
                "acknowledged_p50_millis": quantile(&phase.acknowledged_millis, 0.5),
                "acknowledged_p99_millis": quantile(&phase.acknowledged_millis, 0.99),
            })
        });
        let synced = self.paced.iter().map(|paced| {
            let Syncs { group_bytes, sync_millis, write_millis } = &paced.synced;
            json!({
                "name": paced.name,
                "group_bytes": group_bytes,
                "count": sync_millis.len(),
                "p50_millis": quantile(sync_millis, 0.5),
                "p99_millis": quantile(sync_millis, 0.99),
                "with_write_p99_millis": quantile(write_millis, 0.99),
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
            "phases": phases.collect::<Vec<_>>(),
            "fdatasync": synced.collect::<Vec<_>>(),
        })
    }
}
