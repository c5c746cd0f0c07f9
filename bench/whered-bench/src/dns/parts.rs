//! The measurements of `whered-bench dns`, each giving its lines.
//!
//! Not for: driving (`driver.rs`, `rounds.rs`), and rivals (`bench/versus`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::json;
use whered_dns::{
    Answers, Choice, Context, Outcome, Query, Transport, Workspace, Zone, Zones, answer,
    answer_batch,
};
use whered_server::dns::udp::{Calls, Receiving};

use super::Options;
use super::driver::{Driver, Tally};
use super::geo;
use super::probe::Probe;
use super::rounds::{self, Figures};
use super::signed::{self, check_signed};
use super::target::{Ours, Target, calls_name, free_address};
use super::world::{Mix, Queries, Shape, zone_text};
use crate::measure::{Section, median, quantile, thread_cpu_nanoseconds};

/// The name in tables of a server with the unsigned zone.
pub const UNSIGNED: &str = "whered, unsigned";

/// A table of servers over one mix; the first is the floor, with answers of that mean size.
#[must_use]
pub fn section_of_mix(shape: Shape, mix: Mix, size_bytes: usize, figures: &[Figures]) -> Section {
    let title = format!("{}, {}, answers of {size_bytes} bytes", shape.name(), mix.name());
    let mut section = comparison(&title, figures);
    section.figures["zone"] = json!(shape.name());
    section.figures["mix"] = json!(mix.name());
    section
}

/// Answers beside the echo: every zone and mix.
pub(super) fn answers(options: &Options) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    for &shape in &options.shapes {
        sections.extend(beside_echo(options, shape, &options.mixes)?);
    }
    Ok(sections)
}

/// Addresses of a list of 500,000, and others, as a DNSBL zone.
pub(super) fn blocklist(options: &Options) -> Result<Vec<Section>, String> {
    beside_echo(options, Shape::Blocklist, &[Mix::Hit, Mix::Missing, Mix::Mixed])
}

/// Answers by place: a plain one with the same option, the nearest site, and the site of an area.
pub(super) fn geo(options: &Options) -> Result<Vec<Section>, String> {
    geo::database_file(&options.scratch, options.city.as_deref())?;
    beside_echo(options, Shape::Geo, &Mix::GEO)
}

/// Signed answers beside the echo and unsigned ones: zones and pools.
pub(super) fn signed(options: &Options) -> Result<Vec<Section>, String> {
    geo::database_file(&options.scratch, options.city.as_deref())?;
    let zones = options.shapes.iter().map(|shape| (*shape, &options.mixes[..]));
    let mut sections = Vec::new();
    for (shape, mixes) in zones.chain([(Shape::Geo, &Mix::GEO[..])]) {
        let [plain, signed] = signed::both(shape);
        let mut unsigned = ours(options, Receiving::default(), 1).start(plain)?;
        unsigned.name = UNSIGNED.to_owned();
        let ours = ours(options, Receiving::default(), 1).start(signed)?;
        for &mix in mixes {
            let queries = Queries::new(signed, mix, options.queries, options.seed);
            check_signed(&ours, &queries)?;
            let size = rounds::reply_size(&ours, &queries)?;
            let echo = ours_echo(options, Receiving::default(), signed, size)?;
            let targets = [&echo, &unsigned, &ours];
            let figures = rounds::run(&targets, &queries, options.rounds, options.time)?;
            sections.push(section_of_mix(signed, mix, size, &figures));
        }
    }
    Ok(sections)
}

fn beside_echo(options: &Options, shape: Shape, mixes: &[Mix]) -> Result<Vec<Section>, String> {
    let ours = ours(options, Receiving::default(), 1).start(shape)?;
    let section = |&mix: &Mix| {
        let queries = Queries::new(shape, mix, options.queries, options.seed);
        let size = rounds::reply_size(&ours, &queries)?;
        let echo = ours_echo(options, Receiving::default(), shape, size)?;
        let figures = rounds::run(&[&echo, &ours], &queries, options.rounds, options.time)?;
        Ok(section_of_mix(shape, mix, size, &figures))
    };
    mixes.iter().map(section).collect()
}

/// A table of servers; the first is the floor.
fn comparison(title: &str, figures: &[Figures]) -> Section {
    let head = ["server", "queries/s", "CPU ns/query", "above echo", "rate to echo", "lost"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut lines = Vec::new();
    let floor = &figures[0];
    for own in figures {
        let (rate, cpu, above) = (own.rate(), own.cpu_nanoseconds(), own.above(floor));
        let ratio = own.rate_ratio(floor);
        rows.push(vec![
            own.name.clone(),
            format!("{rate:.0}"),
            format!("{cpu:.0}"),
            format!("{above:.0}"),
            format!("{ratio:.3}"),
            own.lost.to_string(),
        ]);
        lines.push(json!({
            "server": own.name, "rate": rate, "cpu_nanoseconds": cpu, "above_echo": above,
            "rate_to_echo": ratio, "lost": own.lost, "reply_bytes": own.reply_bytes,
            "cpu_rounds": own.cpu, "rate_rounds": own.per_second,
        }));
    }
    Section::new(title, rows, json!({ "title": title, "servers": lines }))
}

/// The seed's table: how many are received after one event, and with how many calls.
pub(super) fn loops(options: &Options) -> Result<Vec<Section>, String> {
    let shape = Shape::Small;
    let queries = Queries::new(shape, Mix::Mixed, options.queries, options.seed);
    let ways: Vec<Receiving> = [1, 2, 5, 10, 20]
        .map(|batch| Receiving { batch, calls: Calls::Single })
        .into_iter()
        .chain([8, 16, 32, 64].map(|batch| Receiving { batch, calls: Calls::Many }))
        .collect();
    let mut sections = Vec::new();
    for is_echo in [true, false] {
        let mut targets = Vec::new();
        for way in &ways {
            let mut target = match is_echo {
                true => ours_echo(options, *way, shape, 90)?,
                false => ours(options, *way, 1).start(shape)?,
            };
            target.name = format!("{} {}", calls_name(way.calls), way.batch);
            targets.push(target);
        }
        let targets: Vec<&Target> = targets.iter().collect();
        let figures = rounds::run(&targets, &queries, options.rounds, options.time)?;
        let what = if is_echo { "the echo" } else { "whered, 1,000 names, mix" };
        let title = format!("Receives after one event: {what}");
        let head = ["calls, at the most", "queries/s", "CPU ns/query", "CPU to one an event"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let mut lines = Vec::new();
        for own in &figures {
            let (rate, cpu) = (own.rate(), own.cpu_nanoseconds());
            let ratio = 1.0 / own.cpu_ratio(&figures[0]);
            rows.push(vec![
                own.name.clone(),
                format!("{rate:.0}"),
                format!("{cpu:.0}"),
                format!("{ratio:.3}"),
            ]);
            lines.push(json!({ "way": own.name, "rate": rate, "cpu_nanoseconds": cpu,
                "cpu_to_one": ratio }));
        }
        let figures = json!({ "title": title, "ways": lines });
        sections.push(Section::new(title, rows, figures));
    }
    Ok(sections)
}

/// How long a query on the second socket takes: alone, at half load on the first, and while that is
/// flooded.
pub(super) fn turns(options: &Options) -> Result<Vec<Section>, String> {
    let shape = Shape::Small;
    let queries = Queries::new(shape, Mix::Mixed, options.queries.min(200_000), options.seed);
    let title = "Delay of a query on the second socket, us: median and p99".to_owned();
    let head =
        ["calls, at the most", "alone", "p99", "half load", "p99", "flooded", "p99", "queries/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut lines = Vec::new();
    let single = [1, 5, 20].map(|batch| Receiving { batch, calls: Calls::Single });
    let many = [1, 2, 4, 8, 16, 32, 64].map(|batch| Receiving { batch, calls: Calls::Many });
    for way in single.into_iter().chain(many) {
        let second = free_address()?;
        let more = [second];
        let target = Ours { more: &more, ..ours(options, way, 1) }.start(shape)?;
        let delays = |load| {
            delays(&target, second, &queries, options.time, load)
                .map_err(|error| format!("{}: {error}", target.name))
        };
        let (_, alone) = delays(Load::None)?;
        let (flood, flooded) = delays(Load::Full)?;
        let rate = flood.answered as f64 / flood.seconds;
        let (_, half) = delays(Load::Rate(rate / 2.0))?;
        let name = format!("{} {}", calls_name(way.calls), way.batch);
        let figures = [&alone, &half, &flooded].map(|list| [median(list), quantile(list, 0.99)]);
        let cells = figures.iter().flatten().map(|figure| format!("{figure:.0}"));
        rows.push(
            std::iter::once(name.clone()).chain(cells).chain([format!("{rate:.0}")]).collect(),
        );
        let [alone, half, flooded] = figures;
        lines.push(json!({ "way": name, "alone_micros": alone, "half_load_micros": half,
            "flooded_micros": flooded, "rate": rate }));
    }
    let figures = json!({ "title": title, "turns": lines });
    Ok(vec![Section::new(title, rows, figures)])
}

/// What the first socket gets meanwhile.
#[derive(Clone, Copy)]
enum Load {
    None,
    /// Queries a second.
    Rate(f64),
    /// As many as are answered.
    Full,
}

/// Asks a second address one question after the other; gives their delays in microseconds, and what
/// became of the load on the first.
fn delays(
    target: &Target,
    second: SocketAddr,
    queries: &Queries,
    time: Duration,
    load: Load,
) -> io::Result<(Tally, Vec<f64>)> {
    let mut probe = Probe::new(second)?;
    let lanes = if matches!(load, Load::None) { 0 } else { 16 };
    let mut driver = Driver::new(queries, target.address, lanes, false)?;
    let beside = || probe.look(|answered| queries.get(answered % queries.len()));
    let tally = match load {
        Load::Rate(per_second) => driver.open_loop(per_second, time, beside)?,
        Load::None | Load::Full => driver.closed_loop(time, beside)?,
    };
    Ok((tally, probe.into_delays()))
}

/// One thread beside two, with all cores for the server.
pub(super) fn threads(options: &Options) -> Result<Vec<Section>, String> {
    let shape = Shape::Small;
    let queries = Queries::new(shape, Mix::Mixed, options.queries, options.seed);
    let cores = [options.server_core, options.driver_core];
    let mut targets = Vec::new();
    for threads in [1, 2] {
        let own = Ours { cores: &cores, ..ours(options, Receiving::default(), threads) };
        let mut target = own.start(shape)?;
        target.name = format!("{threads} threads");
        targets.push(target);
    }
    let targets: Vec<&Target> = targets.iter().collect();
    let figures = rounds::run(&targets, &queries, options.rounds, options.time)?;
    let mut section = comparison(
        "Threads, on both cores beside the driver; the first line is the floor",
        &figures,
    );
    section.rows[0][3] = "above one".to_owned();
    section.rows[0][4] = "rate to one".to_owned();
    Ok(vec![section])
}

/// Questions lost while the zone is read anew again and again, at 30 percent of the full rate.
pub(super) fn reloads(options: &Options) -> Result<Vec<Section>, String> {
    let title = "Questions lost during reloads (SIGHUP), open loop at 30 % load".to_owned();
    let head = ["zone", "reloads", "asked", "lost", "dropped", "wrong", "queries/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut lines = Vec::new();
    for &shape in &options.shapes {
        let (count, pause) = match shape {
            Shape::Small => (100, Duration::from_millis(50)),
            _ => (5, Duration::from_secs(8)),
        };
        let queries = Queries::new(shape, Mix::Mixed, options.queries, options.seed);
        let target = ours(options, Receiving::default(), 1).start(shape)?;
        let fault = |error: io::Error| format!("{}: {error}", target.name);
        let mut driver = Driver::new(&queries, target.address, 128, false).map_err(fault)?;
        let full = driver.closed_loop(Duration::from_millis(500), || Ok(())).map_err(fault)?;
        let rate = full.answered as f64 / full.seconds * 0.3;
        // At full speed some may be dropped: those are not counted.
        let before = target.dropped().map_err(fault)?;
        let (mut done, mut last) = (0, Instant::now());
        let tally = driver.open_loop(rate, pause * (count + 1), || {
            if done < count && last.elapsed() >= pause {
                (done, last) = (done + 1, Instant::now());
                target.hang_up()?;
            }
            Ok(())
        });
        let tally = tally.map_err(fault)?;
        let dropped = target.dropped().map_err(fault)? - before;
        let asked = tally.answered + tally.lost + tally.wrong;
        rows.push(vec![
            shape.name().to_owned(),
            done.to_string(),
            asked.to_string(),
            tally.lost.to_string(),
            dropped.to_string(),
            tally.wrong.to_string(),
            format!("{rate:.0}"),
        ]);
        lines.push(json!({ "zone": shape.name(), "reloads": done, "asked": asked,
            "lost": tally.lost, "dropped": dropped, "wrong": tally.wrong, "rate": rate }));
    }
    let figures = json!({ "title": title, "zones": lines });
    Ok(vec![Section::new(title, rows, figures)])
}

/// Question bytes to answer bytes alone, on the calling thread.
pub(super) fn no_net(options: &Options) -> Result<Vec<Section>, String> {
    let title = "Without the network, one core".to_owned();
    let head = ["zone", "mix", "queries/s", "CPU ns/query"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut lines = Vec::new();
    for &shape in &options.shapes {
        let zones = zones(shape)?;
        for &mix in &options.mixes {
            let queries = Queries::new(shape, mix, options.queries, options.seed);
            let rounds = (0..options.rounds).map(|_| answer_all(&zones, &queries));
            let rounds = rounds.collect::<Result<Vec<f64>, String>>()?;
            let cpu = median(&rounds);
            rows.push(vec![
                shape.name().to_owned(),
                mix.name().to_owned(),
                format!("{:.0}", 1e9 / cpu),
                format!("{cpu:.0}"),
            ]);
            lines.push(json!({ "zone": shape.name(), "mix": mix.name(),
                "cpu_nanoseconds": cpu }));
        }
    }
    let figures = json!({ "title": title, "lines": lines });
    Ok(vec![Section::new(title, rows, figures)])
}

fn zones(shape: Shape) -> Result<Zones, String> {
    let fault = |error: &dyn std::fmt::Display| format!("the zone {}: {error}", shape.origin());
    let origin = shape.origin().parse().map_err(|error: whered_dns::NameError| fault(&error))?;
    let text = zone_text(shape);
    let mut include = |_: &str| Err("no file is included".into());
    let zone = Zone::from_master_file(&origin, text.as_bytes(), &mut include);
    let zone = zone.map_err(|error| fault(&error))?;
    Zones::builder().add_zone(zone).build().map_err(|error| fault(&error))
}

/// Nanoseconds a question.
fn answer_all(zones: &Zones, queries: &Queries) -> Result<f64, String> {
    let context = Context::new(Transport::Udp, Ipv4Addr::LOCALHOST.into());
    let mut choose = |_, _: &_| Choice::of(None, 0);
    let (mut reply, mut workspace) = (Vec::with_capacity(1500), Workspace::new());
    let mut out = Discarded { rooms: vec![[0; 1280]; ROUND], reply_bytes: 0 };
    let source = context.source;
    let clock = || thread_cpu_nanoseconds().map_err(|error| error.to_string());
    let before = clock()?;
    for first in (0..queries.len() - ROUND).step_by(ROUND) {
        let batch: [Query<'_>; ROUND] =
            std::array::from_fn(|place| Query { bytes: queries.get(first + place), source });
        answer_batch(zones, &context, &batch, 0, &mut choose, &mut workspace, &mut out);
    }
    let used = clock()? - before;
    // Beside the clock, one in a thousand: the whole answer is looked at.
    for index in (0..queries.len()).step_by(1000) {
        answer(zones, queries.get(index), &context, &mut choose, &mut reply);
        if !queries.is_answer(index, &reply, false) {
            return Err(format!("question {index} got a wrong answer"));
        }
    }
    let answered = (queries.len() - ROUND).next_multiple_of(ROUND);
    if out.reply_bytes < answered * queries.size_bytes() {
        return Err("the answers are too short".to_owned());
    }
    Ok(used as f64 / answered as f64)
}

/// As many as the server takes at a time.
const ROUND: usize = 32;

/// Where answers go that nobody waits for.
struct Discarded {
    rooms: Vec<[u8; 1280]>,
    reply_bytes: usize,
}

impl Answers for Discarded {
    fn room(&mut self, index: usize) -> &mut [u8] {
        &mut self.rooms[index]
    }

    fn answered(&mut self, _: usize, size_bytes: usize, _: Outcome) {
        self.reply_bytes += size_bytes;
    }
}

fn ours(options: &Options, receiving: Receiving, threads: usize) -> Ours<'_> {
    Ours {
        binary: &options.binary,
        bench_binary: &options.bench_binary,
        folder: &options.scratch,
        threads,
        receiving,
        cores: std::slice::from_ref(&options.server_core),
        more: &[],
    }
}

fn ours_echo(
    options: &Options,
    receiving: Receiving,
    shape: Shape,
    size_bytes: usize,
) -> Result<Target, String> {
    ours(options, receiving, 1).start_echo(shape, size_bytes)
}
