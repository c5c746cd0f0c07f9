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
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use whered_bench::geo::{
    Class, Order, Points, Rounds, Row, Server, World, class_named, interleaved, load,
};
use whered_bench::measure::{Machine, median, median_of_ratios, pin_to_core, quantile};

const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;
const SERVER_CORE: usize = 0;
const DRIVER_CORE: usize = 1;
const PROBES: usize = 200;

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
    let page = result?;
    print!("{page}");
    if let Some(folder) = &options.record {
        let name = format!("journal-{}-{}.md", options.date, Machine::this().short_name());
        let path = folder.join(name);
        fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn measure(options: &Options) -> Result<String, String> {
    pin_to_core(DRIVER_CORE).map_err(|error| format!("core {DRIVER_CORE}: {error}"))?;
    let moves = class_named("moves-200m/8x16").ok_or("no class of moves")?;
    let moves = moves.with_clients(CONNECTIONS, PIPELINE);
    let points = Points::new(1, World::Mapped);
    let start = |ours: bool, sync: &str, folder: &std::path::Path| {
        let server = match ours {
            true => whered(&options.whered, folder, sync, SERVER_CORE),
            false => redis(&options.redis, folder, sync, SERVER_CORE),
        }?;
        load(&server, &points, &Order::shuffled(options.points, 1))?;
        Ok::<Server, String>(server)
    };
    let mut page = head(options);
    let mut ratios = Vec::new();
    let pairs = [
        ("always", (true, "always"), (false, "always")),
        ("everysec", (true, "everysec"), (false, "everysec")),
        ("everysec against off", (true, "everysec"), (true, "off")),
    ];
    for (what, one, other) in pairs {
        let folder = options.scratch.join(what.replace(' ', "-"));
        let servers = [start(one.0, one.1, &folder)?, start(other.0, other.1, &folder)?];
        ratios.push(pair(options, &mut page, what, &moves, &points, &servers)?);
        drop(servers);
        let _ = fs::remove_dir_all(&folder);
    }
    page.push_str("\n## Bytes written\n\nBy a block device's own count, for the same moves on ext4 on a loop device.\n\n| server | moves | bytes of requests | bytes of frames | bytes to the device | per byte of requests | per byte of frames |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for ours in [true, false] {
        let start = |folder: &std::path::Path| match ours {
            true => whered(&options.whered, folder, "always", SERVER_CORE),
            false => redis(&options.redis, folder, "always", SERVER_CORE),
        };
        let time = Duration::from_secs_f64(options.seconds * 2.0);
        let folder = options.scratch.join("loop");
        match written::measure(&folder, &moves, (&points, options.points), time, &start) {
            Ok(written) => {
                page.push_str(&written_row(&written));
                if let Some(bytes) = written.journal_bytes {
                    ratios.push(written.device_bytes as f64 / bytes as f64);
                }
            }
            Err(reason) => {
                let _ = writeln!(page, "\nnot measured: {reason}");
            }
        }
    }
    page.push_str(&bars(&ratios));
    Ok(page)
}

/// What is wanted of each ratio, in the order in which they are found.
fn bars(ratios: &[f64]) -> String {
    const BARS: [(&str, usize, f64, f64); 3] = [
        ("durable moves at `always`: times Redis's", 0, 10.0, 30.0),
        ("moves at `everysec`: of the rate at `off`", 2, 0.90, 0.97),
        ("bytes to the device per byte of frames", 3, 3.0, 2.0),
    ];
    let mut out = String::from(
        "\n## Bars\n\n| measure | measured | wanted | reach for | |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for (what, place, wanted, reach_for) in BARS {
        let Some(ratio) = ratios.get(place) else { continue };
        // The last one is better the smaller it is.
        let meets = |bar: f64| if wanted > reach_for { *ratio <= bar } else { *ratio >= bar };
        let verdict = match (meets(reach_for), meets(wanted)) {
            (true, _) => "reached",
            (_, true) => "met",
            _ => "missed",
        };
        let _ = writeln!(out, "| {what} | {ratio:.2} | {wanted} | {reach_for} | {verdict} |");
    }
    out
}

fn head(options: &Options) -> String {
    let mut page = String::from("# Durable moves beside Redis\n\n");
    let _ = writeln!(page, "{}\n", Machine::this().to_line());
    let _ = writeln!(page, "- date: {}", options.date);
    let _ = writeln!(
        page,
        "- {} points, GEOADD of a member up to 200 m away, {CONNECTIONS} connections with {PIPELINE} \
         on their way each",
        options.points
    );
    let _ = writeln!(
        page,
        "- {} rounds of {} seconds, in turn; servers on core {SERVER_CORE}, clients on core \
         {DRIVER_CORE}",
        options.rounds, options.seconds
    );
    page.push_str("- whered: one thread that answers, and the journal's; Redis: appendonly yes, no rewrite, no saving\n");
    page
}

fn pair(
    options: &Options,
    page: &mut String,
    what: &str,
    moves: &Class,
    points: &Points,
    servers: &[Server; 2],
) -> Result<f64, String> {
    let _ = writeln!(page, "\n## {what}\n");
    let probe = probe(options)?;
    let rounds = Rounds { count: options.rounds, time: Duration::from_secs_f64(options.seconds) };
    let names = ["journal_groups", "journal_frames", "journal_syncs", "journal_sync_microseconds"];
    let read = || names.map(|name| told(&servers[0], name).unwrap_or_default());
    let before = read();
    let both = [&servers[0], &servers[1]];
    let rows = interleaved(moves, &both, (points, options.points), rounds)?;
    let after = read();
    page.push_str("| server | moves a second | us (cpu) a move | batch p50 us | batch p99 us |\n");
    page.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    for row in &rows {
        page.push_str(&row_line(row));
    }
    // The function gives theirs by ours: rates the other way round.
    let ratio = median_of_ratios(&rows[1].per_second, &rows[0].per_second);
    let cpu = median_of_ratios(&rows[0].cpu_nanoseconds, &rows[1].cpu_nanoseconds);
    let _ = writeln!(
        page,
        "\n- {} / {}: {ratio:.2} times the moves a second; {cpu:.2} times less processor time a move",
        rows[0].server, rows[1].server
    );
    let [groups, frames, syncs, micros] =
        [0, 1, 2, 3].map(|place| (after[place] - before[place]) as f64);
    let _ = writeln!(
        page,
        "- {}: {:.0} entries in a group; {syncs:.0} syncs, {:.0} us each",
        rows[0].server,
        frames / groups.max(1.0),
        micros / syncs.max(1.0)
    );
    let _ = writeln!(
        page,
        "- a write of 32 KiB into allocated space and its fdatasync, in the same folder: median \
         {:.0} us, p90 {:.0} us",
        median(&probe),
        quantile(&probe, 0.9)
    );
    eprintln!("{what}: ratio {ratio:.2}, cpu {cpu:.2}");
    Ok(ratio)
}

fn row_line(row: &Row) -> String {
    let micros = |share: f64| row.latencies.quantile_nanoseconds(share) / 1000.0;
    format!(
        "| {} | {:.0} | {:.2} | {:.0} | {:.0} |\n",
        row.server,
        median(&row.per_second),
        median(&row.cpu_nanoseconds) / 1000.0,
        micros(0.5),
        micros(0.99)
    )
}

fn written_row(written: &Written) -> String {
    let Written { server, operations, requested_bytes, journal_bytes, device_bytes } = written;
    let per = |bytes: u64| format!("{:.2}", *device_bytes as f64 / bytes as f64);
    let frames = journal_bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
    let per_frames = journal_bytes.map_or("-".to_owned(), per);
    format!(
        "| {server} | {operations} | {requested_bytes} | {frames} | {device_bytes} | {} | \
         {per_frames} |\n",
        per(*requested_bytes)
    )
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
