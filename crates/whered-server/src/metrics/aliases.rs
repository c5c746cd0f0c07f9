//! Metrics of `[[zone.alias]]`.
//!
//! Not for: zones of other servers (`transfers.rs`).

use std::sync::atomic::Ordering;

use prometheus_client::registry::Registry;

use super::families::{Counters, Gauges};
use crate::dns::Aliases;

pub(super) fn add(registry: &mut Registry, aliases: &Aliases) {
    let up = Gauges::default();
    for (owner, is_up) in aliases.statuses() {
        up.set([("alias", &*owner.to_string())], u64::from(is_up));
    }
    let help = "Whether the last lookup of the alias found addresses";
    up.register(registry, "zone_alias_up", help);
    let lookups = Counters::default();
    let failed = aliases.lookups_failed.load(Ordering::Relaxed);
    let all = aliases.lookups.load(Ordering::Relaxed);
    for (outcome, count) in [("ok", all.saturating_sub(failed)), ("failed", failed)] {
        lookups.add([("outcome", outcome)], count);
    }
    lookups.register(registry, "zone_alias_lookups", "Lookups of aliases, by outcome");
}
