//! What Prometheus is told of feeds and tables.
//!
//! Not for: counting, which the engine does. Cost of a scrape: some short locks for each feed.

use std::time::Duration;

use prometheus_client::registry::Registry;
use whered_engine::Engine;
use whered_engine::feeds::{Feed, FeedStats, PushError};

use super::families::{Counters, FloatCounters, FloatGauges, Gauges, Histograms};

/// Adds the metrics of all feeds and tables.
pub(super) fn add(registry: &mut Registry, engine: &Engine) {
    let feeds: Vec<(&Feed, FeedStats)> =
        engine.feeds().iter().map(|feed| (&**feed, feed.stats())).collect();
    if feeds.is_empty() {
        return;
    }
    add_counts(registry, &feeds);
    add_backlog(registry, &feeds);
    add_spools(registry, &feeds);
    add_links(registry, &feeds);
    super::feed_memory::add(registry, engine, &feeds);
    let (rows, memory) = <(Gauges, Gauges)>::default();
    for table in engine.feeds().tables() {
        let labels = [("feed", table.feed()), ("table", table.name())];
        rows.set(labels, table.len() as u64);
        memory.set(labels, table.memory_bytes() as u64);
    }
    rows.register(registry, "table_rows", "Rows of each table");
    memory.register(registry, "table_memory_bytes", "Memory of each table");
}

type Read = fn(&FeedStats) -> u64;
type ReadRate = fn(&FeedStats) -> f64;

/// What happens in a second, as the last ten have it.
const RATES: [(&str, &str, ReadRate); 2] = [
    ("feed_uploads_per_second", "Uploads taken a second, of the last ten", |stats| {
        stats.uploads_per_second
    }),
    ("feed_records_per_second", "Records applied a second, of the last ten", |stats| {
        stats.records_per_second
    }),
];

fn add_counts(registry: &mut Registry, feeds: &[(&Feed, FeedStats)]) {
    let counters: [(&str, &str, Read); 8] = [
        ("feed_uploads", "Uploads taken", |stats| stats.uploads),
        ("feed_upload_bytes", "Their bytes as received", |stats| stats.upload_bytes),
        ("feed_rejected_uploads", "Uploads of which nothing counts", |stats| {
            stats.rejected_uploads
        }),
        ("feed_records", "Records applied", |stats| stats.records),
        ("feed_rejected_records", "Records that were not right", |stats| stats.rejected_records),
        ("feed_batches", "Batches applied", |stats| stats.batches),
        ("feed_journal_bytes", "Bytes of batches in the journal", |stats| stats.journal_bytes),
        ("feed_spool_bytes", "Bytes written to the spool", |stats| {
            stats.spool.as_ref().map_or(0, |spool| spool.bytes)
        }),
    ];
    for (name, help, read) in counters {
        let counts = Counters::default();
        feeds.iter().for_each(|(feed, stats)| counts.add([("feed", feed.name())], read(stats)));
        counts.register(registry, name, help);
    }
    let refused = Counters::default();
    for (feed, stats) in feeds {
        for (reason, count) in PushError::REASONS.into_iter().zip(stats.refused_uploads) {
            refused.add([("feed", feed.name()), ("reason", reason)], count);
        }
    }
    refused.register(registry, "feed_refused_uploads", "Uploads that were not taken, by reason");
}

fn add_backlog(registry: &mut Registry, feeds: &[(&Feed, FeedStats)]) {
    let out_of_service = Gauges::default();
    let (uploads, bytes, failed, full) = <(Gauges, Gauges, Gauges, Gauges)>::default();
    let lag = FloatGauges::default();
    for (feed, stats) in feeds {
        let labels = [("feed", feed.name())];
        uploads.set(labels, stats.backlog_uploads);
        bytes.set(labels, stats.backlog_bytes);
        lag.set(labels, stats.lag.as_secs_f64());
        out_of_service.set(labels, u64::from(feed.out_of_service().is_some()));
        failed.set(labels, u64::from(feed.reason().is_some() || stats.last_error.is_some()));
        full.set(labels, u64::from(feed.spool_full().is_some()));
    }
    uploads.register(registry, "feed_backlog_uploads", "Uploads that wait to be applied");
    bytes.register(registry, "feed_backlog_bytes", "Their bytes");
    for (name, help, read) in RATES {
        let rates = FloatGauges::default();
        feeds.iter().for_each(|(feed, stats)| rates.set([("feed", feed.name())], read(stats)));
        rates.register(registry, name, help);
    }
    lag.register(registry, "feed_lag_seconds", "How long the oldest of them has waited");
    failed.register(registry, "feed_failed", "1 when the spool or the last batch has failed");
    let help =
        "1 while a damaged spool or cold file keeps the feed from taking and applying uploads";
    out_of_service.register(registry, "feed_out_of_service", help);
    full.register(registry, "feed_spool_full", "1 while the disk has no room for the spool");
}

fn add_spools(registry: &mut Registry, feeds: &[(&Feed, FeedStats)]) {
    let (groups, grouped, syncs) = <(Counters, Counters, Counters)>::default();
    let seconds = FloatCounters::default();
    let (last, longest) = <(FloatGauges, FloatGauges)>::default();
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for (feed, stats) in feeds {
        let Some(spool) = &stats.spool else { continue };
        let labels = [("feed", feed.name())];
        groups.add(labels, spool.groups);
        grouped.add(labels, spool.frames);
        syncs.add(labels, spool.syncs);
        let in_all = Duration::from_nanos(spool.sync_nanoseconds).as_secs_f64();
        seconds.add(labels, in_all);
        let name = || feed.name().to_owned();
        times.push((name(), spool.sync_micros.clone(), in_all));
        sizes.push((name(), spool.group_frames.clone(), spool.group_frames.sum as f64));
        last.set(labels, Duration::from_nanos(spool.last_sync_nanoseconds).as_secs_f64());
        longest.set(labels, Duration::from_nanos(spool.maximum_sync_nanoseconds).as_secs_f64());
    }
    groups.register(registry, "feed_spool_groups", "Groups of uploads written");
    grouped.register(registry, "feed_spool_entries", "Uploads in these groups");
    syncs.register(registry, "feed_spool_syncs", "Groups made durable");
    seconds.register(registry, "feed_spool_sync_seconds", "How long all fdatasyncs took");
    last.register(registry, "feed_spool_last_sync_seconds", "The last fdatasync");
    longest.register(registry, "feed_spool_max_sync_seconds", "The longest fdatasync");
    let times = Histograms { label: "feed", units: 1e6, all: times };
    registry.register("feed_spool_sync_duration_seconds", "How long fdatasyncs took", times);
    let sizes = Histograms { label: "feed", units: 1.0, all: sizes };
    registry.register("feed_spool_group_uploads", "How many uploads a group had", sizes);
}

fn add_links(registry: &mut Registry, feeds: &[(&Feed, FeedStats)]) {
    let (batch, rows, left_out, waits) = <(Gauges, Counters, Counters, Gauges)>::default();
    let missing = Counters::default();
    for (feed, _) in feeds {
        for link in feed.links() {
            let labels = [("feed", feed.name()), ("kind", &*link.kind), ("link", &*link.name)];
            batch.set(labels, link.batch);
            rows.add(labels, link.rows);
            left_out.add(labels, link.left_out);
            missing.add(labels, link.missing);
            waits.set(labels, u64::from(link.error.is_some()));
        }
    }
    batch.register(registry, "feed_link_batch", "The batch that a sink or stream has reached");
    rows.register(registry, "feed_link_rows", "Rows or entries handed over");
    left_out.register(registry, "feed_link_left_out", "Rows that the other side refused");
    let help = "Entries of a stream that were gone before they were read, at most";
    missing.register(registry, "feed_link_missing", help);
    waits.register(registry, "feed_link_failed", "1 while a sink or stream waits after an error");
}
