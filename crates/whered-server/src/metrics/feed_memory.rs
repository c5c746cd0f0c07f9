//! What Prometheus is told of feeds in memory and out of it.
//!
//! Not for: counting, which the engine does.

use prometheus_client::registry::Registry;
use whered_engine::Engine;
use whered_engine::feeds::{Feed, FeedStats};

use super::families::{Counters, FloatCounters, Gauges};

/// Adds the metrics.
pub(super) fn add(registry: &mut Registry, engine: &Engine, feeds: &[(&Feed, FeedStats)]) {
    let (resident, memory, files) = <(Gauges, Gauges, Gauges)>::default();
    for (feed, stats) in feeds {
        let labels = [("feed", feed.name())];
        resident.set(labels, u64::from(stats.is_resident));
        memory.set(labels, stats.resident_bytes);
        files.set(labels, stats.cold_bytes);
    }
    resident.register(registry, "feed_resident", "1 while its places and tables are in memory");
    memory.register(registry, "feed_memory_bytes", "Memory of the feed");
    files.register(registry, "feed_cold_bytes", "Size of the file of its places and tables");
    let stats = engine.feeds().hot_stats();
    let gauges: [(&str, &str, u64); 2] = [
        ("feeds_memory_budget_bytes", "What feeds may take; 0 for no limit", stats.budget_bytes),
        ("feeds_memory_resident_bytes", "What they take", stats.resident_bytes),
    ];
    for (name, help, value) in gauges {
        let gauge = Gauges::default();
        gauge.set([], value);
        gauge.register(registry, name, help);
    }
    let counters: [(&str, &str, u64); 4] = [
        ("feeds_evictions", "Feeds put out of memory", stats.evictions),
        ("feeds_loads", "Feeds read back into memory", stats.loads),
        ("feeds_cold_written_bytes", "Bytes written by evictions", stats.written_bytes),
        ("feeds_cold_read_bytes", "Bytes read back", stats.read_bytes),
    ];
    for (name, help, value) in counters {
        let counter = Counters::default();
        counter.add([], value);
        counter.register(registry, name, help);
    }
    let seconds = FloatCounters::default();
    seconds.add([("what", "evict")], stats.evicting.as_secs_f64());
    seconds.add([("what", "load")], stats.loading.as_secs_f64());
    seconds.register(registry, "feeds_change_seconds", "Time that evictions and loads took");
}
