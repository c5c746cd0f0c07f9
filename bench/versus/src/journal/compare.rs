//! The run: servers in pairs, the same moves, short rounds in turn; then what reaches a device.
//!
//! ```text
//! always     whered | redis     50 connections, 16 moves each on their way
//! everysec   whered | redis
//! policies   whered off | whered everysec
//! written    whered always, redis always, each on a loop device
//! probe      a group's worth of bytes, written and fdatasync'ed in the same folder, between
//! ```

use crate::servers::{redis, told, whered};
use crate::written::{self, Written};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use whered_bench::geo::{
    Class, Order, Points, Rounds, Server, World, class_named, interleaved, load,
};
use whered_bench::measure::{
    Bar, Measure, measures_to_json, median, median_of_ratios, pin_to_core, quantile, write_result,
};

const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
const SERVER_CORE: usize = 0;
const DRIVER_CORE: usize = 1;
const PROBES: usize = 200;
/// A sync of 32 KiB that takes longer than this, in microseconds, is of a slow disk.
const SLOW_SYNC: f64 = 1000.0;

/// What the command line says.
pub(crate) struct Options {
    whered: PathBuf,
    redis: PathBuf,
    points: u64,
    rounds: usize,
    seconds: f64,
    scratch: PathBuf,
    record: Option<PathBuf>,
    date: String,
}

impl Options {
    /// Reads `--name value` pairs.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            whered: PathBuf::from("target/release/whered"),
            redis: PathBuf::from("redis-server"),
            points: 100_000,
            rounds: 5,
            seconds: 2.0,
            scratch: std::env::temp_dir(),
            record: None,
            date: "undated".to_owned(),
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let odd = || format!("\"{name} {value}\"; the head of main.rs says what is allowed");
            match name.as_str() {
                "--whered" => options.whered = value.into(),
                "--redis-server" => options.redis = value.into(),
                "--scratch" => options.scratch = value.into(),
                "--record" => options.record = Some(value.into()),
                "--date" => options.date = value,
                "--points" => options.points = value.parse().map_err(|_| odd())?,
                "--rounds" => options.rounds = value.parse().map_err(|_| odd())?,
                "--seconds" => options.seconds = value.parse().map_err(|_| odd())?,
                _ => return Err(odd()),
            }
        }
        if options.points < 10_000
            || options.rounds == 0
            || !(0.1..600.0).contains(&options.seconds)
        {
            return Err(
                "allowed: 10000 points and more, 1 round and more, 0.1 to 600 seconds".into()
            );
        }
        options.scratch.push(format!("whered-versus-journal-{}", std::process::id()));
        Ok(options)
    }
}

/// Measures everything, prints it, and writes the record if one is asked for.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", options.scratch.display());
    fs::create_dir_all(&options.scratch).map_err(fault)?;
    let result = measure(options);
    // What is left there is nobody's data.
    let _ = fs::remove_dir_all(&options.scratch);
    let measures = result?;
    for measure in &measures {
        println!("{}", measure.to_line());
    }
    let Some(folder) = &options.record else { return Ok(()) };
    let is_slow = |measure: &Measure| measure.name == PROBE && measure.value > SLOW_SYNC;
    let suite = if measures.iter().any(is_slow) { "journal-slow-disk" } else { "journal" };
    let json = measures_to_json(suite, &options.date, &workload(options), &measures);
    write_result(folder, suite, &options.date, &json).map(drop)
}

/// The name of the disk's probe in the result.
const PROBE: &str = "write of 32 KiB and fdatasync in the same folder, median, at always";

fn measure(options: &Options) -> Result<Vec<Measure>, String> {
    pin_to_core(DRIVER_CORE).map_err(|error| format!("core {DRIVER_CORE}: {error}"))?;
    let moves = class_named("moves-200m/8x16").ok_or("no class of moves")?;
    let moves = moves.with_clients(CONNECTIONS, PIPELINE);
    let points = Points::new(1, World::Mapped);
    let start = |ours: bool, sync: &str, folder: &Path| {
        let server = match ours {
            true => whered(&options.whered, folder, sync, SERVER_CORE),
            false => redis(&options.redis, folder, sync, SERVER_CORE),
        }?;
        load(&server, &points, &Order::shuffled(options.points, 1))?;
        Ok::<Server, String>(server)
    };
    let mut measures = Vec::new();
    let pairs = [
        ("always", (true, "always"), (false, "always")),
        ("everysec", (true, "everysec"), (false, "everysec")),
        ("off", (true, "everysec"), (true, "off")),
    ];
    for (what, one, other) in pairs {
        let folder = options.scratch.join(what);
        let servers = [start(one.0, one.1, &folder)?, start(other.0, other.1, &folder)?];
        pair(options, &mut measures, what, &moves, &points, &servers)?;
        drop(servers);
        let _ = fs::remove_dir_all(&folder);
    }
    for ours in [true, false] {
        let start = |folder: &Path| match ours {
            true => whered(&options.whered, folder, "always", SERVER_CORE),
            false => redis(&options.redis, folder, "always", SERVER_CORE),
        };
        let time = Duration::from_secs_f64(options.seconds * 2.0);
        let folder = options.scratch.join("loop");
        match written::measure(&folder, &moves, (&points, options.points), time, &start) {
            Ok(written) => add_written(&mut measures, &written),
            Err(reason) => eprintln!("bytes written are not measured: {reason}"),
        }
    }
    Ok(measures)
}

fn workload(options: &Options) -> String {
    format!(
        "{} points; GEOADD of one member up to 200 m away; {CONNECTIONS} connections with {PIPELINE} \
         commands under way each; {} rounds of {} s, alternating; servers on one core, clients on \
         the other; Redis: appendonly yes, no rewrite, no saving",
        options.points, options.rounds, options.seconds
    )
}

/// Runs one pair of servers and adds what it found.
fn pair(
    options: &Options,
    measures: &mut Vec<Measure>,
    what: &str,
    moves: &Class,
    points: &Points,
    servers: &[Server; 2],
) -> Result<(), String> {
    let probe = probe(options)?;
    let rounds = Rounds { count: options.rounds, time: Duration::from_secs_f64(options.seconds) };
    let names = ["journal_groups", "journal_frames", "journal_syncs", "journal_sync_microseconds"];
    let read = || names.map(|name| told(&servers[0], name).unwrap_or_default());
    let before = read();
    let both = [&servers[0], &servers[1]];
    let rows = interleaved(moves, &both, (points, options.points), rounds)?;
    let after = read();
    // The function gives theirs by ours: rates the other way round.
    let ratio = median_of_ratios(&rows[1].per_second, &rows[0].per_second);
    if what == "off" {
        let name = "everysec: moves a second, of the rate without syncs";
        measures.push(Measure::new(name, ratio, "times").held_against(Bar::AtLeast(0.9)));
        return Ok(());
    }
    for (row, server) in rows.iter().zip(["whered", "Redis"]) {
        let micros = |share: f64| row.latencies.quantile_nanoseconds(share) / 1000.0;
        let mut add = |name: &str, value: f64, unit| {
            measures.push(Measure::new(format!("{what}: {name}, {server}"), value, unit));
        };
        add("moves a second", median(&row.per_second), "moves/s");
        add("processor time a move", median(&row.cpu_nanoseconds) / 1000.0, "us");
        add("batch p50", micros(0.5), "us");
        add("batch p99", micros(0.99), "us");
    }
    let cpu = median_of_ratios(&rows[0].cpu_nanoseconds, &rows[1].cpu_nanoseconds);
    let [groups, frames, syncs, micros] =
        [0, 1, 2, 3].map(|index| (after[index] - before[index]) as f64);
    let mut add = |name: &str, value: f64, unit| {
        measures.push(Measure::new(format!("{what}: {name}"), value, unit));
    };
    add("processor time, Redis by whered", cpu, "times");
    add("entries in a group, whered", frames / groups.max(1.0), "entries");
    add("time of a sync, whered", micros / syncs.max(1.0), "us");
    let rate = Measure::new(format!("{what}: moves a second, of Redis"), ratio, "times");
    if what == "always" {
        measures.push(rate.held_against(Bar::AtLeast(10.0)));
        measures.push(Measure::new(PROBE, median(&probe), "us"));
        measures.push(Measure::new(PROBE.replace("median", "p90"), quantile(&probe, 0.9), "us"));
    } else {
        measures.push(rate);
    }
    Ok(())
}

/// Bytes written to the device for each byte of requests and of the journal.
fn add_written(measures: &mut Vec<Measure>, written: &Written) {
    let Written { server, requested_bytes, journal_bytes, device_bytes, .. } = written;
    let per = |bytes: u64| *device_bytes as f64 / bytes as f64;
    let name = format!("bytes to the device for a byte of requests, {server}");
    measures.push(Measure::new(name, per(*requested_bytes), "times"));
    if let Some(bytes) = journal_bytes {
        let name = "bytes to the device for a byte of journal";
        measures.push(Measure::new(name, per(*bytes), "times").held_against(Bar::AtMost(3.0)));
    }
}

/// Microseconds of a write and its fdatasync, one after the other, into a file that has its space
/// and was written before.
fn probe(options: &Options) -> Result<Vec<f64>, String> {
    let path = options.scratch.join("probe");
    let measure = || {
        let mut file = File::create(&path)?;
        let bytes = vec![7_u8; 32 << 10];
        for _ in 0..PROBES {
            file.write_all(&bytes)?;
        }
        file.sync_all()?;
        let mut file = File::options().write(true).open(&path)?;
        let mut micros = Vec::new();
        for _ in 0..PROBES {
            let began = Instant::now();
            file.write_all(&bytes)?;
            file.sync_data()?;
            micros.push(began.elapsed().as_secs_f64() * 1e6);
        }
        fs::remove_file(&path)?;
        Ok(micros)
    };
    measure().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}
