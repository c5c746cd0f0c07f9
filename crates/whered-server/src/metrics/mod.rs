//! What the server tells Prometheus, in the two text formats that it reads.
//!
//! Every scrape reads the counters where they are kept and writes them through a registry of its
//! own: nothing is counted twice, and nothing in a hot path knows of this module.
//!
//! Cost of a scrape: O(metrics) and one shared lock for each prefix set.

mod aliases;
mod exposition;
mod families;
mod feed_memory;
mod feeds;
mod process;
mod replicas;
mod transfers;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use whered_engine::{
    DATABASE_COUNT, Engine, HealthOverride, NamedDatabase, NamedRuleset, Pool, Probed,
};

use families::{Counters, FloatGauge, Gauges, Histograms, Labels, owned};

use crate::dns::{Aliases, DURATION_UNITS, DnsCounters, Totals, Transfers};
use crate::health::{HealthBoard, RESULTS};
use crate::http::{HttpCounters, MetricsFormat};
use crate::replica::ReplicaBoard;
use crate::resp::{Latencies, RespCounters};

type FloatCounter = Counter<f64, AtomicU64>;

/// Where the numbers are.
pub(crate) struct Metrics {
    pub(crate) engine: Arc<Engine>,
    pub(crate) started: Instant,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) resp: Option<Arc<RespCounters>>,
    pub(crate) latencies: Option<Latencies>,
    pub(crate) dns: Option<Arc<DnsCounters>>,
    pub(crate) http: Arc<HttpCounters>,
    pub(crate) health: Arc<HealthBoard>,
    pub(crate) replicas: Arc<ReplicaBoard>,
    pub(crate) transfers: Arc<Transfers>,
    pub(crate) aliases: Option<Arc<Aliases>>,
}

impl Metrics {
    /// Every metric as text.
    ///
    /// # Errors
    /// A metric cannot be written, which no value leads to.
    pub(crate) fn render(&self, format: MetricsFormat) -> Result<String, fmt::Error> {
        let mut all = Registry::default();
        process::add(&mut all, self.started.elapsed());
        let registry = all.sub_registry_with_prefix("whered");
        self.add_server(registry);
        self.add_listeners(registry);
        self.add_resp(registry);
        self.add_data(registry);
        feeds::add(registry, &self.engine);
        add_rulesets(registry, self.engine.generation().rulesets());
        replicas::add(registry, &self.replicas);
        add_health(registry, self.engine.generation().pools(), &self.health);
        self.add_journal(registry);
        self.add_snapshots(registry);
        self.add_memory(registry);
        if let Some(directory) = &self.data_dir {
            process::add_disk(registry, directory);
        }
        let mut out = String::new();
        text::encode(&mut out, &all)?;
        Ok(match format {
            MetricsFormat::OpenMetrics => out,
            MetricsFormat::Version004 => exposition::to_version_0_0_4(&out),
        })
    }

    fn add_server(&self, registry: &mut Registry) {
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program's version", build);
        let uptime = FloatGauge::default();
        uptime.set(self.started.elapsed().as_secs_f64());
        registry.register("uptime_seconds", "Time since the server has started", uptime);
    }

    fn add_listeners(&self, registry: &mut Registry) {
        let http = Counters::default();
        for (route, status, count) in self.http.read() {
            http.add([("route", route), ("status", &status.to_string())], count);
        }
        http.register(registry, "http_requests", "HTTP requests by route and status");
        let all = self.http.durations().into_iter().map(|(route, micros)| {
            let sum = micros.sum as f64 / 1e6;
            (route.to_owned(), micros, sum)
        });
        let durations = Histograms { label: "route", units: 1e6, all: all.collect() };
        let help = "How long HTTP requests took until their answer began, by route";
        registry.register("http_request_duration_seconds", help, durations);
        let Some(dns) = &self.dns else { return };
        let all = dns.durations().into_iter().map(|(transport, durations)| {
            let sum = durations.sum as f64 / DURATION_UNITS;
            (transport.to_owned(), durations, sum)
        });
        let durations =
            Histograms { label: "transport", units: DURATION_UNITS, all: all.collect() };
        let help = "How long DNS messages waited for their answers, of a sample of batches";
        registry.register("dns_answer_duration_seconds", help, durations);
        let (queries, silent, refused) = <(Counters, Counters, Counters)>::default();
        let (by_zone, by_site) = <(Counters, Counters)>::default();
        for (transport, totals) in [("udp", dns.udp()), ("tcp", dns.tcp())] {
            let Totals { answered, silent: unanswered, refused: lost, zones, sites } = totals;
            for (rcode, count) in answered {
                let rcode = whered_dns::Rcode(rcode).to_string();
                queries.add([("transport", transport), ("rcode", &rcode)], count);
            }
            for ((zone, rcode), count) in zones {
                let rcode = whered_dns::Rcode(rcode).to_string();
                let labels = [("transport", transport), ("zone", &*zone), ("rcode", &*rcode)];
                by_zone.add(labels, count);
            }
            for ((pool, site), count) in sites {
                by_site.add([("pool", &*pool), ("site", &*site)], count);
            }
            silent.add([("transport", transport)], unanswered);
            refused.add([("transport", transport)], lost);
        }
        queries.register(registry, "dns_queries", "DNS queries answered, by response code");
        by_zone.register(registry, "dns_zone_queries", "DNS queries answered, by zone");
        let help = "Answers of pools, by site; without a name: no site";
        by_site.register(registry, "dns_pool_answers", help);
        silent.register(registry, "dns_silent", "DNS messages that got no answer");
        refused.register(registry, "dns_unsent", "DNS answers that the system did not take");
        let help = "DNS queries that the query log had no room for";
        register_count(registry, "dns_unlogged", help, dns.unlogged());
        let help = "DNS messages that the system dropped, as the receive buffers were full";
        register_count(registry, "dns_dropped", help, dns.dropped());
        let (sent, dropped) = (&dns.dnstap.sent, &dns.dnstap.dropped);
        let help = "Messages of dnstap that were written to the listener";
        register_count(registry, "dns_dnstap_sent", help, sent.load(Ordering::Relaxed));
        let help = "Messages of dnstap for which there was no listener or no room";
        register_count(registry, "dns_dnstap_dropped", help, dropped.load(Ordering::Relaxed));
        let help = "Signatures made for DNS queries";
        register_count(registry, "dns_signatures", help, dns.signatures().made());
        let help = "Signatures not made for DNS queries, as the client's network had its share";
        register_count(registry, "dns_signatures_refused", help, dns.signatures().refused());
    }

    fn add_resp(&self, registry: &mut Registry) {
        let Some(resp) = &self.resp else { return };
        let open = Gauge::<u64, AtomicU64>::default();
        open.set(resp.connections_open.load(Ordering::Relaxed));
        registry.register("resp_connections_open", "RESP connections open now", open);
        let counters = [
            ("resp_connections", "RESP connections accepted", &resp.connections_accepted),
            ("resp_rejected", "RESP connections beyond the limit", &resp.connections_rejected),
            ("resp_commands", "RESP commands executed", &resp.commands),
            ("resp_errors", "RESP error replies", &resp.errors),
            ("resp_input_bytes", "Bytes received from RESP clients", &resp.input_bytes),
            ("resp_output_bytes", "Bytes sent to RESP clients", &resp.output_bytes),
            (
                "resp_output_limit_closed",
                "RESP connections closed for not reading their replies",
                &resp.output_limit_closed,
            ),
            (
                "resp_query_limit_closed",
                "RESP connections closed for too long a request",
                &resp.query_limit_closed,
            ),
            (
                "resp_buffers_limit_closed",
                "RESP connections closed for what all buffers take together",
                &resp.buffers_limit_closed,
            ),
            ("resp_idle_closed", "RESP connections closed for being idle", &resp.idle_closed),
            ("resp_http_closed", "RESP connections closed for sending HTTP", &resp.http_closed),
            ("resp_tls_failed", "TLS handshakes that failed", &resp.tls_failed),
            ("resp_published", "Messages published to channels", &resp.published),
        ];
        for (name, help, count) in counters {
            register_count(registry, name, help, count.load(Ordering::Relaxed));
        }
        let buffers = Gauge::<u64, AtomicU64>::default();
        buffers.set(resp.buffer_bytes.load(Ordering::Relaxed));
        registry.register("resp_buffer_bytes", "Bytes in the buffers of RESP clients", buffers);
        if let Some(latencies) = &self.latencies {
            let help = "How long RESP commands took, by family";
            let all = latencies.by_family().into_iter();
            let all = all.map(|(family, totals)| {
                (family.to_owned(), totals.micros, totals.nanoseconds as f64 / 1e9)
            });
            let durations = Histograms { label: "family", units: 1e6, all: all.collect() };
            registry.register("resp_command_duration_seconds", help, durations);
            let refused = Counters::default();
            for (command, count) in latencies.refused() {
                refused.add([("command", command)], count);
            }
            let help = "RESP commands answered with an error; without a name: no command";
            refused.register(registry, "resp_refused_commands", help);
        }
    }

    fn add_data(&self, registry: &mut Registry) {
        let generation = self.engine.generation();
        let number = <Gauge>::default();
        number.set(generation.number() as i64);
        registry.register("generation", "The number of the generation that serves", number);
        add_databases(registry, generation.databases());
        let (records, refused, signatures) = <(Gauges, Gauges, Gauges)>::default();
        let now_seconds = self.engine.now_millis() / 1000;
        let failures = self.engine.zone_failures();
        for zone in generation.zones().zones() {
            let name = zone.origin().to_string();
            records.set([("zone", &*name)], zone.record_count() as u64);
            if let Some(expiry) = zone.first_expiry_seconds(now_seconds) {
                signatures.set([("zone", &*name)], expiry);
            }
            let is_it =
                |failed: &String| failed.trim_end_matches('.') == name.trim_end_matches('.');
            refused.set([("zone", &*name)], u64::from(failures.keys().any(is_it)));
        }
        transfers::add_serials(registry, generation.zones().zones().map(|zone| &**zone));
        transfers::add(registry, &self.transfers, self.engine.now_millis());
        if let Some(aliases) = &self.aliases {
            aliases::add(registry, aliases);
        }
        records.register(registry, "zone_records", "Records in each zone");
        let help = "Unix time at which the first signature of the signed zone ends";
        signatures.register(registry, "zone_first_signature_end_seconds", help);
        let help = "1 when the newest file of the zone was refused and an older one serves";
        refused.register(registry, "zone_refused", help);
        let keys = Gauges::default();
        for number in 0..DATABASE_COUNT {
            keys.set([("number", &*number.to_string())], self.engine.keyspace().len(number) as u64);
        }
        keys.register(registry, "keys", "Collections in each numbered database");
        let prefixes = Gauges::default();
        let (sets, now) = (self.engine.prefix_sets(), self.engine.now_millis());
        for name in sets.names() {
            if let Some(count) = sets.read(&name, |set| set.live_len(now)) {
                prefixes.set([("set", &*name)], count as u64);
            }
        }
        prefixes.register(registry, "prefix_set_entries", "Prefixes in each prefix set");
    }

    fn add_journal(&self, registry: &mut Registry) {
        let refused = Counters::default();
        let memory = self.latencies.as_ref().map_or(0, Latencies::out_of_memory);
        for (reason, count) in self.engine.refused_writes().into_iter().chain([("memory", memory)])
        {
            refused.add([("reason", reason)], count);
        }
        refused.register(registry, "refused_writes", "Writes that were refused, by reason");
        let poisoned = <Gauge>::default();
        poisoned.set(i64::from(self.engine.journal_poisoned().is_some()));
        let help = "1 when the journal has failed: memory may hold writes that were not \
                    acknowledged";
        registry.register("journal_poisoned", help, poisoned);
        let full = <Gauge>::default();
        full.set(i64::from(self.engine.journal_full().is_some()));
        let help = "1 while the disk has no room for the journal and writes are refused";
        registry.register("journal_full", help, full);
        let Some(stats) = self.engine.journal_stats() else {
            return;
        };
        let counters = [
            ("journal_groups", "Groups made durable", stats.groups),
            ("journal_frames", "Operations written", stats.frames),
            ("journal_bytes", "Bytes written", stats.bytes),
        ];
        for (name, help, count) in counters {
            register_count(registry, name, help, count);
        }
        let durations = [
            ("journal_last_sync_seconds", "The last fdatasync", stats.last_sync_nanoseconds),
            ("journal_max_sync_seconds", "The longest fdatasync", stats.maximum_sync_nanoseconds),
        ];
        for (name, help, nanoseconds) in durations {
            let gauge = FloatGauge::default();
            gauge.set(Duration::from_nanos(nanoseconds).as_secs_f64());
            registry.register(name, help, gauge);
        }
        let sum = Duration::from_nanos(stats.sync_nanoseconds).as_secs_f64();
        let all = vec![(String::new(), stats.sync_micros, sum)];
        let syncs = Histograms { label: "", units: 1e6, all };
        registry.register("journal_sync_duration_seconds", "How long fdatasyncs took", syncs);
        let sum = stats.group_frames.sum as f64;
        let all = vec![(String::new(), stats.group_frames, sum)];
        let groups = Histograms { label: "", units: 1.0, all };
        registry.register("journal_group_frames", "How many operations a group had", groups);
    }
}

impl Metrics {
    fn add_memory(&self, registry: &mut Registry) {
        let memory = self.engine.memory();
        let parts = Gauges::default();
        for (part, bytes) in [
            ("keys", memory.keys_bytes),
            ("prefix_sets", memory.prefix_sets_bytes),
            ("tables", memory.tables_bytes),
            ("databases", memory.databases_bytes),
            ("rulesets", memory.rulesets_bytes),
            ("zones", memory.zones_bytes),
            ("journal", memory.journal_bytes),
        ] {
            parts.set([("part", part)], bytes);
        }
        parts.register(registry, "memory_bytes", "What the data's account has, by part");
    }

    fn add_snapshots(&self, registry: &mut Registry) {
        if self.engine.journal_stats().is_none() {
            return;
        }
        let status = self.engine.snapshot_status();
        let help = "Snapshots completed since the start";
        register_count(registry, "snapshots", help, status.completed);
        let running = status.running;
        let gauges = [
            ("snapshot_running", "1 while a snapshot is being made", u64::from(running.is_some())),
            (
                "snapshot_failed",
                "1 when the last one failed",
                u64::from(status.last_error.is_some()),
            ),
            (
                "snapshot_running_bytes",
                "What the one that is being made holds so far",
                running.map_or(0, |running| running.bytes),
            ),
            ("snapshot_last_bytes", "What the last one holds", status.last_bytes),
            (
                "snapshot_last_timestamp_seconds",
                "When the last one was complete, since 1970",
                status.last_millis / 1000,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = <Gauge>::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
        let seconds = FloatGauge::default();
        seconds.set(status.last_elapsed.unwrap_or_default().as_secs_f64());
        registry.register("snapshot_last_seconds", "How long the last one took", seconds);
    }
}

fn add_databases(registry: &mut Registry, databases: &[Arc<NamedDatabase>]) {
    let (built, loaded, memory, refused) = <(Gauges, Gauges, Gauges, Gauges)>::default();
    let (reloads, failures, uncovered) = <(Counters, Counters, Counters)>::default();
    for named in databases {
        let labels = [("database", &*named.name)];
        built.set(labels, named.metadata().build_epoch_seconds);
        loaded.set(labels, named.loaded_at_millis / 1000);
        let bytes = named.memory_use();
        for (part, bytes) in [
            ("file", bytes.file_bytes),
            ("index", bytes.index_bytes),
            ("columns", bytes.columns_bytes),
        ] {
            memory.set([("database", &*named.name), ("part", part)], bytes);
        }
        refused.set(labels, u64::from(named.status.last_failure().is_some()));
        reloads.add(labels, named.status.reloads());
        failures.add(labels, named.status.failures());
        uncovered.add(labels, named.status.uncovered());
    }
    let help = "When the database was built, in seconds since 1970";
    built.register(registry, "database_build_timestamp_seconds", help);
    let help = "When the database was loaded, in seconds since 1970";
    loaded.register(registry, "database_loaded_timestamp_seconds", help);
    let help = "Memory of the database; a mapping counts as none";
    memory.register(registry, "database_memory_bytes", help);
    let help = "1 when the newest file of the database was refused and an older one serves";
    refused.register(registry, "database_refused", help);
    reloads.register(registry, "database_reloads", "New files of the database that were taken");
    let help = "New files of the database that were refused";
    failures.register(registry, "database_reload_failures", help);
    let help = "Questions about an address of a family that the database has no network of";
    uncovered.register(registry, "database_uncovered_family", help);
}

fn add_rulesets(registry: &mut Registry, rulesets: &[Arc<NamedRuleset>]) {
    let (packets, bytes, folds) = <(Counters, Counters, Counters)>::default();
    let (rules, waiting, folding, memory) = <(Gauges, Gauges, Gauges, Gauges)>::default();
    let (planned, refused) = <(Gauges, Gauges)>::default();
    for named in rulesets {
        let labels = [("ruleset", &*named.name)];
        for (verdict, count) in named.verdicts() {
            let labels = [("ruleset", &*named.name), ("verdict", verdict)];
            packets.add(labels, count.packets);
            bytes.add(labels, count.bytes);
        }
        let (edition, background) = (named.edition(), named.background());
        rules.set(labels, edition.rules() as u64);
        waiting.set(labels, edition.changes() as u64);
        memory.set(labels, edition.memory_bytes() as u64);
        folds.add(labels, background.folds);
        folding.set(labels, u64::from(background.is_folding));
        planned.set(labels, background.planned.as_secs());
        let failure = named.file.as_ref().and_then(|file| file.status.last_failure());
        refused.set(labels, u64::from(failure.is_some()));
    }
    packets.register(registry, "rules_packets", "Packets matched, by ruleset and verdict");
    bytes.register(registry, "rules_bytes", "Their bytes, where they were told");
    rules.register(registry, "rules", "Rules of each ruleset");
    waiting.register(registry, "rules_changes_waiting", "Changes not yet compiled into the rest");
    memory.register(registry, "rules_memory_bytes", "Compiled forms and counters");
    folds.register(registry, "rules_folds", "How often changes were compiled into the rest");
    folding.register(registry, "rules_folding", "1 while that is being done");
    let help = "How long a faster form was looked for since the last compilation";
    planned.register(registry, "rules_planned_seconds", help);
    let help = "1 when the newest file of the ruleset was refused and an older one serves";
    refused.register(registry, "rules_refused", help);
}

fn add_health(registry: &mut Registry, pools: &[Arc<Pool>], board: &HealthBoard) {
    let (up, overridden) = <(Gauges, Gauges)>::default();
    for (pool, site) in pools.iter().flat_map(|pool| pool.sites.iter().map(move |s| (pool, s))) {
        let labels = [("pool", &*pool.name), ("site", &*site.name)];
        up.set(labels, u64::from(site.healthy));
        overridden.set(labels, u64::from(site.health.manual != HealthOverride::Auto));
    }
    up.register(registry, "site_up", "1 while the site may be chosen");
    overridden.register(registry, "site_overridden", "1 while a person has said whether it may");
    let (probed, checks) = <(Gauges, Counters)>::default();
    let (last, all) = <(Family<Labels, FloatGauge>, Family<Labels, FloatCounter>)>::default();
    for ((pool, site), report) in board.all() {
        let labels = [("pool", &*pool), ("site", &*site)];
        probed.set(labels, u64::from(report.probed != Probed::Down));
        for (result, name) in RESULTS.into_iter().enumerate() {
            let count = report.checks.iter().map(|check| check.counts[result]).sum();
            checks.add([("pool", &*pool), ("site", &*site), ("result", name)], count);
        }
        let longest = report.checks.iter().map(|check| check.took).max().unwrap_or_default();
        last.get_or_create(&owned(labels)).set(longest.as_secs_f64());
        let in_all: Duration = report.checks.iter().map(|check| check.took_in_all).sum();
        all.get_or_create(&owned(labels)).inc_by(in_all.as_secs_f64());
    }
    probed.register(registry, "site_probed_up", "0 while the site's checks say that it is down");
    checks.register(registry, "site_checks", "Probes of the site, by result");
    let help = "How long the last probe of the site took; of several checks the longest";
    registry.register("site_check_duration_seconds", help, last);
    registry.register("site_check_seconds", "How long all probes of the site took", all);
}

fn register_count(registry: &mut Registry, name: &str, help: &str, count: u64) {
    let counter = <Counter>::default();
    counter.inc_by(count);
    registry.register(name, help, counter);
}

fn register_gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<u64, AtomicU64>::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}
