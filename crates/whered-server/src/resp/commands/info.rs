//! `INFO`: what the server is and does, in the sections and fields of Redis where they are true
//! here, with fields of our own (`whered_...`, `journal_...`) next to them.
//!
//! A field of Redis is measured, or 0 because there can be none of what it counts (replicas, forks,
//! evictions, scripts), or absent. `tests/info_wire.rs` has the list of those that are absent, with
//! the reasons.

mod replication;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use whered_engine::{DATABASE_COUNT, HealthOverride, Probed, Site};

use super::introspection::REDIS_VERSION;
use super::{
    Action, Channels, Command, Effect, Entry, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, WhenFull,
};
use crate::resp::clients::Client;
use crate::resp::memory::{resident_bytes, system_bytes};
use crate::resp::protocol::Args;
use crate::resp::rates::Rates;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::resp::statistics::Totals;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "info",
    arity: -1,
    flags: &[Flag::Dangerous],
    group: "server",
    keys: &[],
    names: &[NameSpec::Shown(NameKind::Pool), NameSpec::Shown(NameKind::Feed)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "[section [section ...]]",
    summary: "Describes the server and its state",
    cost: "O(1)",
    since: "1.0.0",
    action: Action::Run(info),
}];

type Section = fn(&Session, &mut String);

/// The sections in order; each writes its own lines. The last value says whether it is among those
/// that are given when nobody asks for certain ones.
const SECTIONS: [(&str, Section, bool); 15] = [
    ("Server", server, true),
    ("Clients", clients, true),
    ("Memory", memory, true),
    ("Persistence", persistence, true),
    ("Stats", stats, true),
    ("Replication", replication::section, true),
    ("CPU", processor, true),
    ("Modules", |_, _| {}, true),
    ("Commandstats", command_stats, false),
    ("Errorstats", error_stats, true),
    ("Latencystats", latency_stats, false),
    ("Cluster", cluster, true),
    ("Keyspace", keyspace, true),
    ("Feeds", feeds, true),
    ("Sites", sites, true),
];

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let asked = |word: &str| (1..args.len()).any(|at| args.is(at, word));
    let default = args.len() == 1 || asked("default");
    let everything = asked("all") || asked("everything");
    let mut text = String::new();
    for (name, write, usual) in SECTIONS {
        if everything || (default && usual) || asked(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str("# ");
            text.push_str(name);
            text.push_str("\r\n");
            write(session, &mut text);
        }
    }
    reply.verbatim(text.as_bytes());
    Ok(Effect::Unchanged)
}

/// A line for each pool: its sites, and what they are.
fn sites(session: &Session, text: &mut String) {
    for pool in session.engine().generation().pools() {
        if !session.user.may_name(NameKind::Pool, pool.name.as_bytes()) {
            continue;
        }
        let count = |is: fn(&Site) -> bool| pool.sites.iter().filter(|site| is(site)).count();
        let up = count(|site| site.healthy);
        let unknown = count(|site| site.health.probed == Probed::Unknown);
        let overridden = count(|site| site.health.manual != HealthOverride::Auto);
        let sites = pool.sites.len();
        let value = format!(
            "sites={sites},up={up},down={},unknown={unknown},overridden={overridden}",
            sites - up
        );
        line(text, &format!("pool_{}", pool.name), value);
    }
}

/// Appends one line `field:value`.
fn line(text: &mut String, field: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{field}:{value}\r\n");
}

/// Fields that are 0 whatever happens: there is none of what they count.
fn zeros(text: &mut String, fields: &[&str]) {
    fields.iter().for_each(|field| line(text, field, 0));
}

/// How many clock ticks Redis counts uses of keys by: seconds, in 24 bits.
const LRU_CLOCK_MAX: u64 = (1 << 24) - 1;
/// How often a second expired keys are swept.
const SWEEPS_PER_SECOND: u32 = 10;

fn server(session: &Session, text: &mut String) {
    let shared = &session.shared;
    let uptime_seconds = shared.started.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "whered_version", shared.context.version);
    line(text, "redis_mode", "standalone");
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "monotonic_clock", "POSIX clock_gettime");
    line(text, "multiplexing_api", "epoll");
    line(text, "process_id", std::process::id());
    let is_supervised = std::env::var_os("NOTIFY_SOCKET").is_some();
    line(text, "process_supervised", if is_supervised { "systemd" } else { "no" });
    line(text, "run_id", &shared.context.run_id);
    line(text, "tcp_port", shared.port);
    line(text, "server_time_usec", session.engine().now_millis() * 1000);
    line(text, "uptime_in_seconds", uptime_seconds);
    line(text, "uptime_in_days", uptime_seconds / 86_400);
    line(text, "hz", SWEEPS_PER_SECOND);
    line(text, "lru_clock", (session.engine().now_millis() / 1000) & LRU_CLOCK_MAX);
    if let Ok(executable) = std::env::current_exe() {
        line(text, "executable", executable.to_string_lossy().replace(['\r', '\n'], " "));
    }
    line(text, "io_threads_active", shared.options.thread_count());
}

fn clients(session: &Session, text: &mut String) {
    let shared = &session.shared;
    let open = shared.clients.open();
    let listening = open.iter().filter(|client| client.is_subscriber()).count();
    line(text, "connected_clients", shared.counters.connections_open.load(Ordering::Relaxed));
    line(text, "cluster_connections", 0);
    line(text, "maxclients", shared.settings.max_clients.load(Ordering::Relaxed));
    line(text, "client_buffers_bytes", shared.counters.buffer_bytes.load(Ordering::Relaxed));
    line(text, "blocked_clients", shared.waiting.len());
    zeros(text, &["tracking_clients"]);
    line(text, "clients_in_timeout_table", shared.waiting.timed());
    let most = |of: fn(&Client) -> &AtomicUsize| {
        open.iter().map(|client| of(client).load(Ordering::Relaxed)).max().unwrap_or(0)
    };
    line(text, "client_recent_max_input_buffer", most(|client| &client.input_size));
    line(text, "client_recent_max_output_buffer", most(|client| &client.output_bytes));
    line(text, "pubsub_clients", listening);
}

fn memory(session: &Session, text: &mut String) {
    let account = &session.shared.memory;
    let used = account.used_bytes();
    line(text, "used_memory", used);
    line(text, "used_memory_human", human(used));
    let resident = resident_bytes().unwrap_or(used);
    line(text, "used_memory_rss", resident);
    line(text, "used_memory_rss_human", human(resident));
    let peak = account.peak_bytes();
    line(text, "used_memory_peak", peak);
    line(text, "used_memory_peak_human", human(peak));
    let percent =
        |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    line(text, "used_memory_peak_perc", percent(used, peak));
    let engine = session.engine().memory();
    let buffers = session.shared.counters.buffer_bytes.load(Ordering::Relaxed);
    // What is no data: buffers of clients and what waits for the disk.
    let overhead = (buffers + engine.journal_bytes).min(used);
    line(text, "used_memory_overhead", overhead);
    line(text, "used_memory_dataset", used - overhead);
    line(text, "used_memory_dataset_perc", percent(used - overhead, used));
    if let Some(system) = system_bytes() {
        line(text, "total_system_memory", system);
        line(text, "total_system_memory_human", human(system));
    }
    scripts_memory(text);
    let limit = session.shared.settings.max_memory_bytes.load(Ordering::Relaxed);
    line(text, "maxmemory", limit);
    line(text, "maxmemory_human", human(limit));
    line(text, "maxmemory_policy", "noeviction");
    line(
        text,
        "mem_fragmentation_ratio",
        format_args!("{:.2}", resident as f64 / used.max(1) as f64),
    );
    line(text, "mem_fragmentation_bytes", resident as i64 - used as i64);
    line(text, "mem_clients_normal", buffers);
    line(text, "mem_aof_buffer", engine.journal_bytes);
    let replicas = ["mem_replication_backlog", "mem_total_replication_buffers"];
    zeros(text, &replicas);
    zeros(text, &["mem_not_counted_for_evict", "mem_clients_slaves", "mem_cluster_links"]);
    // What is removed is freed by who removes it.
    zeros(text, &["active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects"]);
    line(text, "mem_allocator", "mimalloc");
    line(text, "used_memory_keys", engine.keys_bytes);
    line(text, "used_memory_prefix_sets", engine.prefix_sets_bytes);
    line(text, "used_memory_tables", engine.tables_bytes);
    let hot = session.engine().feeds().hot_stats();
    line(text, "feeds_memory_budget", hot.budget_bytes);
    line(text, "feeds_memory_resident", hot.resident_bytes);
    line(text, "feeds_evictions", hot.evictions);
    line(text, "feeds_loads", hot.loads);
    line(text, "used_memory_databases", engine.databases_bytes);
    line(text, "used_memory_rulesets", engine.rulesets_bytes);
    line(text, "used_memory_zones", engine.zones_bytes);
    line(text, "used_memory_journal", engine.journal_bytes);
}

/// There are neither scripts nor functions.
fn scripts_memory(text: &mut String) {
    zeros(text, &["used_memory_lua", "used_memory_vm_eval"]);
    line(text, "used_memory_lua_human", human(0));
    zeros(text, &["used_memory_scripts_eval", "number_of_cached_scripts", "number_of_functions"]);
    zeros(text, &["number_of_libraries", "used_memory_vm_functions", "used_memory_vm_total"]);
    line(text, "used_memory_vm_total_human", human(0));
    zeros(text, &["used_memory_functions", "used_memory_scripts"]);
    line(text, "used_memory_scripts_human", human(0));
}

/// Bytes for people: `1.50M`.
fn human(bytes: u64) -> String {
    let units = [("T", 1u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

fn persistence(session: &Session, text: &mut String) {
    zeros(text, &["loading", "async_loading"]);
    // A snapshot needs no fork, so that no page is copied for one.
    zeros(text, &["current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    line(text, "current_fork_perc", "0.00");
    zeros(text, &["rdb_last_cow_size", "aof_last_cow_size"]);
    zeros(text, &["module_fork_in_progress", "module_fork_last_cow_size"]);
    let Some(stats) = session.engine().journal_stats() else {
        return line(text, "aof_enabled", 0);
    };
    let poisoned = session.engine().journal_poisoned();
    let full = session.engine().journal_full();
    let snapshot = session.engine().snapshot_status();
    let elapsed_seconds = |elapsed: Option<Duration>| elapsed.map_or(-1, |e| e.as_secs() as i64);
    let status = if snapshot.last_error.is_none() { "ok" } else { "err" };
    line(text, "rdb_changes_since_last_save", session.engine().changes_since_snapshot());
    line(text, "rdb_bgsave_in_progress", u8::from(snapshot.running.is_some()));
    line(text, "rdb_last_save_time", snapshot.last_millis / 1000);
    line(text, "rdb_last_bgsave_status", status);
    line(text, "rdb_last_bgsave_time_sec", elapsed_seconds(snapshot.last_elapsed));
    line(
        text,
        "rdb_current_bgsave_time_sec",
        elapsed_seconds(snapshot.running.map(|running| running.elapsed)),
    );
    line(text, "rdb_saves", snapshot.completed);
    // A rewrite of the journal is a snapshot: the journal before it goes.
    let running = snapshot.running.map(|running| running.elapsed);
    line(text, "aof_rewrite_in_progress", u8::from(running.is_some()));
    zeros(text, &["aof_rewrite_scheduled"]);
    line(text, "aof_last_rewrite_time_sec", elapsed_seconds(snapshot.last_elapsed));
    line(text, "aof_current_rewrite_time_sec", elapsed_seconds(running));
    line(text, "aof_last_bgrewrite_status", status);
    line(text, "aof_rewrites", snapshot.completed);
    line(text, "snapshot_last_bytes", snapshot.last_bytes);
    if let Some(running) = snapshot.running {
        line(text, "snapshot_current_bytes", running.bytes);
    }
    if let Some(reason) = snapshot.last_error {
        line(text, "snapshot_error", reason.replace(['\r', '\n'], " "));
    }
    line(text, "aof_enabled", 1);
    let takes_writes = poisoned.is_none() && full.is_none();
    line(text, "aof_last_write_status", if takes_writes { "ok" } else { "err" });
    line(text, "journal_groups", stats.groups);
    line(text, "journal_frames", stats.frames);
    line(text, "journal_bytes", stats.bytes);
    line(text, "journal_syncs", stats.syncs);
    line(text, "journal_sync_microseconds", stats.sync_nanoseconds / 1000);
    line(text, "journal_full", u8::from(full.is_some()));
    if let Some(reason) = full {
        line(text, "journal_full_error", reason.replace(['\r', '\n'], " "));
    }
    line(text, "journal_poisoned", u8::from(poisoned.is_some()));
    if let Some(reason) = poisoned {
        let reason = reason.replace(['\r', '\n'], " ");
        line(text, "journal_error", reason);
        line(text, "journal_note", "memory may hold writes that were not acknowledged");
    }
}

fn stats(session: &Session, text: &mut String) {
    let counters = &session.shared.counters;
    let fields = [
        ("total_connections_received", &counters.connections_accepted),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.input_bytes),
        ("total_net_output_bytes", &counters.output_bytes),
        ("rejected_connections", &counters.connections_rejected),
        ("total_error_replies", &counters.errors),
        ("client_query_buffer_limit_disconnections", &counters.query_limit_closed),
        ("client_output_buffer_limit_disconnections", &counters.output_limit_closed),
        ("client_buffers_limit_disconnections", &counters.buffers_limit_closed),
        ("client_idle_disconnections", &counters.idle_closed),
        ("tls_handshake_failures", &counters.tls_failed),
        ("published_messages", &counters.published),
        ("keyspace_hits", &counters.keyspace_hits),
        ("keyspace_misses", &counters.keyspace_misses),
        ("total_reads_processed", &counters.reads),
        ("total_writes_processed", &counters.writes),
    ];
    for (field, counter) in fields {
        line(text, field, counter.load(Ordering::Relaxed));
    }
    let Rates { commands, input_kib, output_kib } = session.shared.rates.now();
    line(text, "instantaneous_ops_per_sec", commands);
    line(text, "instantaneous_input_kbps", format_args!("{input_kib:.2}"));
    line(text, "instantaneous_output_kbps", format_args!("{output_kib:.2}"));
    line(text, "expired_keys", session.engine().keyspace().expired_total());
    never_counted(text);
    line(text, "pubsub_channels", session.shared.pubsub.channel_count());
    line(text, "pubsub_patterns", session.shared.pubsub.pattern_count());
    line(text, "slowlog_len", session.shared.slowlog.len());
}

/// Counts of Redis of what does not happen here: nothing is evicted, moved by a defragmentation,
/// tracked or forked, and no data is sent to replicas.
fn never_counted(text: &mut String) {
    zeros(text, &["evicted_keys", "evicted_clients", "latest_fork_usec", "total_forks"]);
    zeros(text, &["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    line(text, "instantaneous_input_repl_kbps", "0.00");
    line(text, "instantaneous_output_repl_kbps", "0.00");
    zeros(text, &["sync_full", "sync_partial_ok", "sync_partial_err"]);
    zeros(text, &["pubsubshard_channels", "migrate_cached_sockets", "slave_expires_tracked_keys"]);
    zeros(text, &["active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits"]);
    zeros(text, &["active_defrag_key_misses", "total_active_defrag_time"]);
    zeros(text, &["current_active_defrag_time", "unexpected_error_replies"]);
    zeros(text, &["tracking_total_keys", "tracking_total_items", "tracking_total_prefixes"]);
}

/// User and system time of this process, of its children that have ended, and of its main thread.
fn processor(_: &Session, text: &mut String) {
    let process = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let [user, system, children_user, children_system] = processor_seconds(&process);
    // The main thread has the number of the process.
    let path = format!("/proc/self/task/{}/stat", std::process::id());
    let main = std::fs::read_to_string(path).unwrap_or_default();
    let [main_user, main_system, ..] = processor_seconds(&main);
    for (field, seconds) in [
        ("used_cpu_user", user),
        ("used_cpu_sys", system),
        ("used_cpu_sys_children", children_system),
        ("used_cpu_user_children", children_user),
        ("used_cpu_sys_main_thread", main_system),
        ("used_cpu_user_main_thread", main_user),
    ] {
        line(text, field, format_args!("{seconds:.6}"));
    }
}

/// The fields 14 to 17 of a file `stat`, which are in ticks of a hundredth of a second (proc(5));
/// the name before them may hold anything but ends with `)`.
fn processor_seconds(stat: &str) -> [f64; 4] {
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    std::array::from_fn(|_| {
        let ticks = fields.next().and_then(|ticks| ticks.parse::<f64>().ok());
        ticks.unwrap_or(0.0) / 100.0
    })
}

/// The commands that were called or refused, with their figures.
fn used_commands(session: &Session) -> Vec<(&'static Entry, Totals)> {
    let entries = session.shared.commands.entries();
    entries
        .iter()
        .map(|entry| (entry, session.shared.statistics.total(entry.number)))
        .filter(|(_, totals)| totals.calls + totals.rejected > 0)
        .collect()
}

fn command_stats(session: &Session, text: &mut String) {
    for (entry, totals) in used_commands(session) {
        let Totals { calls, nanoseconds, failed, rejected, .. } = totals;
        let micros = nanoseconds as f64 / 1000.0;
        let each = if calls > 0 { micros / calls as f64 } else { 0.0 };
        let field = format!("cmdstat_{}", entry.command.name);
        let value = format_args!(
            "calls={calls},usec={micros:.0},usec_per_call={each:.2},rejected_calls={rejected},\
             failed_calls={failed}"
        );
        line(text, &field, value);
    }
}

fn error_stats(session: &Session, text: &mut String) {
    for (code, count) in session.shared.statistics.errors() {
        line(text, &format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latency_stats(session: &Session, text: &mut String) {
    for (entry, totals) in used_commands(session) {
        if totals.calls > 0 {
            let field = format!("latency_percentiles_usec_{}", entry.command.name);
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| totals.micros.bound_of(part));
            line(text, &field, format_args!("p50={p50}.000,p99={p99}.000,p99.9={p999}.000"));
        }
    }
}

fn cluster(session: &Session, text: &mut String) {
    let is_followed = session.shared.context.replicas.topology().is_some();
    line(text, "cluster_enabled", u8::from(is_followed));
}

fn keyspace(session: &Session, text: &mut String) {
    for number in 0..DATABASE_COUNT {
        let keys = session.engine().keyspace().len(number);
        if keys > 0 {
            let expires = session.engine().keyspace().expiring_len(number);
            let mean = session.engine().keyspace().mean_life_millis(number);
            let fields = format_args!("keys={keys},expires={expires},avg_ttl={mean}");
            line(text, &format!("db{number}"), fields);
        }
    }
}

fn feeds(session: &Session, text: &mut String) {
    for feed in session.engine().feeds().iter() {
        if !session.user.may_name(NameKind::Feed, feed.name().as_bytes()) {
            continue;
        }
        let stats = feed.stats();
        let fields = format_args!(
            "backlog_uploads={},backlog_bytes={},lag_seconds={:.3},uploads={},rejected_uploads={},\
             records={},rejected_records={},batches={},failed={},full={}",
            stats.backlog_uploads,
            stats.backlog_bytes,
            stats.lag.as_secs_f64(),
            stats.uploads,
            stats.rejected_uploads,
            stats.records,
            stats.rejected_records,
            stats.batches,
            u8::from(feed.reason().is_some()),
            u8::from(feed.spool_full().is_some())
        );
        line(text, &format!("feed_{}", feed.name()), fields);
    }
}
