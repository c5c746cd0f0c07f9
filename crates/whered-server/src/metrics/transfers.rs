//! Metrics of zones that come from other servers or are given to them.
//!
//! Not for: questions and answers (`mod.rs`).

use std::sync::atomic::Ordering;

use prometheus_client::registry::Registry;

use super::families::{Counters, FloatGauges, Gauges};
use crate::dns::Transfers;

pub(super) fn add(registry: &mut Registry, transfers: &Transfers, now_millis: u64) {
    let (refreshes, due) = (Counters::default(), FloatGauges::default());
    let (confirmed, expires) = (FloatGauges::default(), FloatGauges::default());
    for (origin, status) in transfers.secondaries() {
        let zone = origin.to_string();
        let outcomes = [("ok", status.refreshes), ("failed", status.refreshes_failed)];
        for (outcome, count) in outcomes {
            refreshes.add([("zone", &*zone), ("outcome", outcome)], count);
        }
        let seconds = |millis: u64| (millis as f64 - now_millis as f64) / 1000.0;
        due.set([("zone", &*zone)], seconds(status.due_at_millis));
        if let Some(at) = status.confirmed_at_millis {
            confirmed.set([("zone", &*zone)], at as f64 / 1000.0);
        }
        if let Some(at) = status.expires_at_millis {
            expires.set([("zone", &*zone)], seconds(at));
        }
    }
    let help = "Questions to the primaries of the secondary zone, by outcome";
    refreshes.register(registry, "zone_refreshes", help);
    let help = "Time until the primaries of the secondary zone are asked";
    due.register(registry, "zone_refresh_due_seconds", help);
    let help = "Unix time at which a primary has last confirmed the secondary zone";
    confirmed.register(registry, "zone_refresh_time_seconds", help);
    let help = "Time until the secondary zone expires; below 0: it has";
    expires.register(registry, "zone_expires_seconds", help);
    let members = Gauges::default();
    for (catalog, count) in transfers.catalog_members() {
        members.set([("catalog", &catalog.to_string())], count as u64);
    }
    members.register(registry, "catalog_members", "Zones that the catalog has");
    let counts = &transfers.counts;
    let moved = Counters::default();
    for (direction, outcome, count) in [
        ("in", "whole", &counts.incoming_whole),
        ("in", "changes", &counts.incoming_changes),
        ("in", "failed", &counts.incoming_failed),
        ("out", "whole", &counts.outgoing_whole),
        ("out", "changes", &counts.outgoing_changes),
        ("out", "refused", &counts.outgoing_refused),
        ("out", "failed", &counts.outgoing_failed),
    ] {
        let labels = [("direction", direction), ("outcome", outcome)];
        moved.add(labels, count.load(Ordering::Relaxed));
    }
    moved.register(registry, "zone_transfers", "Transfers of zones, by direction and outcome");
    let notifies = Counters::default();
    for (direction, outcome, count) in [
        ("in", "taken", &counts.notifies_in),
        ("in", "refused", &counts.notifies_in_refused),
        ("out", "answered", &counts.notifies_out),
        ("out", "failed", &counts.notifies_out_failed),
    ] {
        let labels = [("direction", direction), ("outcome", outcome)];
        notifies.add(labels, count.load(Ordering::Relaxed));
    }
    notifies.register(registry, "zone_notifies", "NOTIFY messages, by direction and outcome");
    let updates = Counters::default();
    for (outcome, count) in [
        ("made", &counts.updates),
        ("refused", &counts.updates_refused),
        ("busy", &counts.updates_busy),
    ] {
        updates.add([("outcome", outcome)], count.load(Ordering::Relaxed));
    }
    updates.register(registry, "zone_updates", "UPDATE messages (RFC 2136), by outcome");
    let failures = Counters::default();
    failures.add([], counts.signature_failures.load(Ordering::Relaxed));
    let help = "DNS messages whose TSIG signature does not hold";
    failures.register(registry, "dns_signature_failures", help);
}

/// The serials of zones.
pub(super) fn add_serials<'a>(
    registry: &mut Registry,
    zones: impl Iterator<Item = &'a whered_dns::Zone>,
) {
    let serials = Gauges::default();
    for zone in zones.filter(|zone| !zone.is_unavailable()) {
        serials.set([("zone", &zone.origin().to_string())], zone.serial().into());
    }
    serials.register(registry, "zone_serial", "The serial number of each zone that is served");
}
