//! What one class alone does not show: small commands beside a huge search, a journal, two threads,
//! fewer points, and memory after everything has moved.
//!
//! Not for the classes themselves. Rows are named `SCENARIO/what`; those that repeat a class under
//! other conditions are named `SCENARIO/CLASS`.

use super::classes::class_named;
use super::driver::{Driver, Group, Until};
use super::load::{KEY, move_all};
use super::points::{Point, Points};
use super::rounds::{Row, ask_all, interleaved};
use super::run::{Bench, Setup, Starter};
use super::script::{Replies, Script};
use super::server::Server;
use super::{Workload, points::Order};
use std::time::Instant;

/// Scenarios and what they are.
pub const SCENARIOS: [(&str, &str); 5] = [
    (BESIDE_SEARCH, "PING, GEODIST and moves alone, and while a search returns a million members"),
    (ALL_MOVED, "memory after every point has moved once, up to 200 m"),
    (EVERYSEC, "moves with a journal or append-only file that is synced every second"),
    (TWO_THREADS, "two server threads instead of one"),
    (FEWER_POINTS, "the nearest ten among a million points, or a tenth of them"),
];
/// The scenario with a huge search.
pub const BESIDE_SEARCH: &str = "beside-search";
/// The scenario in which everything moves.
pub const ALL_MOVED: &str = "all-moved";
/// The scenario with a journal.
pub const EVERYSEC: &str = "everysec";
/// The scenario with two threads.
pub const TWO_THREADS: &str = "two-threads";
/// The scenario with fewer points.
pub const FEWER_POINTS: &str = "fewer-points";

/// The most points of the scenario with a journal.
const JOURNALED_POINTS: u64 = 10_000_000;
const FEWER_COUNT: u64 = 1_000_000;
/// Members that the huge search returns.
const SEARCHED: u64 = 1_000_000;
const PARIS: (f64, f64) = (2.3522, 48.8566);
const NEAREST: &str = "nearest-5km-dense/8x16";
const MOVES: &str = "moves-200m/8x16";
const DISTANCES: &str = "geodist-random/200x10";

/// Those that are about servers which have all points.
///
/// # Errors
///
/// A server fails.
pub fn on_running(bench: &mut Bench<'_>, servers: &[&Server]) -> Result<(), String> {
    for server in servers {
        if bench.wants(BESIDE_SEARCH) {
            beside_search(bench, server, BESIDE_SEARCH)?;
        }
    }
    // Last: what comes behind would find the points elsewhere. Only ours: a rival's memory does
    // not depend on it, and its moves are measured already.
    if bench.wants(ALL_MOVED)
        && let Some(server) = servers.first()
    {
        let order = Order::shuffled(bench.options.points, 4);
        let loaded = move_all(server, &bench.points, &order)?;
        bench.note_load(ALL_MOVED, server, loaded, "");
    }
    Ok(())
}

/// Those that need servers of their own. The first starter is that of the server under test.
///
/// # Errors
///
/// A server fails.
pub fn on_fresh(bench: &mut Bench<'_>, starters: &[&Starter<'_>]) -> Result<(), String> {
    if bench.wants(EVERYSEC) {
        everysec(bench, starters)?;
    }
    let Some(start) = starters.first() else { return Ok(()) };
    if bench.wants(TWO_THREADS) {
        two_threads(bench, start)?;
    }
    if bench.wants(FEWER_POINTS) {
        let count = FEWER_COUNT.min(bench.options.points / 10).max(1000);
        let server = start(&bench.setup())?;
        bench.load(FEWER_POINTS, &server, count)?;
        repeat(bench, FEWER_POINTS, NEAREST, &[&server], count)?;
    }
    Ok(())
}

fn everysec(bench: &mut Bench<'_>, starters: &[&Starter<'_>]) -> Result<(), String> {
    let count = bench.options.points.min(JOURNALED_POINTS);
    let setup = Setup { is_journaled: true, ..bench.setup() };
    let started: Result<Vec<Server>, String> = starters.iter().map(|start| start(&setup)).collect();
    let servers = started?;
    for server in &servers {
        bench.load(EVERYSEC, server, count)?;
    }
    let servers: Vec<&Server> = servers.iter().collect();
    repeat(bench, EVERYSEC, MOVES, &servers, count)
}

/// The driver has no core of its own then: rates say little, processor time does.
fn two_threads(bench: &mut Bench<'_>, start: &Starter<'_>) -> Result<(), String> {
    let cores = vec![bench.options.server_core, bench.options.driver_core];
    let server = start(&Setup { threads: 2, cores, is_journaled: false })?;
    let count = bench.options.points;
    bench.load(TWO_THREADS, &server, count)?;
    for class in [NEAREST, DISTANCES, MOVES] {
        repeat(bench, TWO_THREADS, class, &[&server], count)?;
    }
    beside_search(bench, &server, &format!("{TWO_THREADS}/{BESIDE_SEARCH}"))
}

/// Measures a class under the name of a scenario.
fn repeat(
    bench: &mut Bench<'_>,
    scenario: &str,
    class: &str,
    servers: &[&Server],
    count: u64,
) -> Result<(), String> {
    let class = class_named(class).ok_or_else(|| format!("no class {class}"))?;
    for row in interleaved(class, servers, (&bench.points, count), bench.rounds())? {
        bench.note(Row { class: format!("{scenario}/{}", row.class), ..row });
    }
    Ok(())
}

/// Small commands of one client each, alone and beside a client that searches all the time.
fn beside_search(bench: &mut Bench<'_>, server: &Server, name: &str) -> Result<(), String> {
    let count = bench.options.points;
    let wanted = SEARCHED.min(count / 3);
    let radius_meters = radius_around_paris(&bench.points, count, wanted);
    let search = search_around_paris(radius_meters);
    let paris = Point::from_degrees(PARIS.0, PARIS.1);
    // No move may cross the rim, so that the search has the same members all the time.
    let far_from_rim = |point: Point| (meters(paris, point) - radius_meters).abs() > 2_000.0;
    let clients = [("ping/1x1", (1, 1)), ("geodist-random/1x1", (1, 1)), (MOVES, (1, 16))];
    let mut workloads = vec![search];
    let mut labels = vec!["search/1x1".to_owned()];
    let mut pipelines = vec![1];
    for (class, (connections, pipeline)) in clients {
        let class = class_named(class).ok_or_else(|| format!("no class {class}"))?;
        let class = class.with_clients(connections, pipeline);
        workloads.push(class.workload_where(&bench.points, count, far_from_rim));
        let what = class.name.split('/').next().unwrap_or_default();
        labels.push(format!("{what}/{connections}x{pipeline}"));
        pipelines.push(pipeline);
    }
    let replies: Result<Vec<Vec<Replies>>, String> =
        workloads.iter().map(|workload| replies_of(workload, server)).collect();
    let replies = replies.map_err(|error| format!("{name}: {error}"))?;
    let group = |place: usize| Group {
        connections: 1,
        pipeline: pipelines[place],
        scripts: &workloads[place].scripts,
        replies: &replies[place],
    };
    for (kind, groups) in [("alone", 1..4), ("with-search", 0..4)] {
        let list: Vec<Group<'_>> = groups.clone().map(group).collect();
        let mut driver = Driver::connect(server.address, &list)?;
        let mut rows: Vec<Row> = groups
            .clone()
            .map(|place| Row::new(&format!("{name}/{kind}/{}", labels[place]), server))
            .collect();
        for _ in 0..bench.options.rounds {
            let began = Instant::now();
            let done = driver.run(Until::Time(bench.rounds().time))?;
            let elapsed = began.elapsed();
            rows.iter_mut().zip(&done).for_each(|(row, done)| row.add(done, None, elapsed));
        }
        driver.run(Until::ScriptEnd)?;
        for (mut row, place) in rows.into_iter().zip(groups) {
            let known = &replies[place];
            let elements = known.iter().map(|one| one.elements).sum();
            row.elements = Some((elements, known.iter().map(|one| one.lengths.len()).sum()));
            bench.note(row);
        }
    }
    Ok(())
}

fn replies_of(workload: &Workload, server: &Server) -> Result<Vec<Replies>, String> {
    let Some(reply) = workload.constant else { return ask_all(workload, server) };
    let scripts = workload.scripts.iter();
    Ok(scripts.map(|script| Replies::constant(reply, script.len())).collect())
}

fn search_around_paris(radius_meters: f64) -> Workload {
    let mut script = Script::default();
    let [longitude, latitude] = Point::from_degrees(PARIS.0, PARIS.1).texts();
    let radius = format!("{radius_meters:.0}");
    let (from, by): (&[u8], &[u8]) = (b"FROMLONLAT", b"BYRADIUS");
    script.push(&[b"GEOSEARCH", KEY, from, &longitude, &latitude, by, radius.as_bytes(), b"m"]);
    Workload { scripts: vec![script], constant: None, is_round_trip: false }
}

/// The radius within which about so many members lie, by a sample of them.
fn radius_around_paris(points: &Points, count: u64, wanted: u64) -> f64 {
    let sample = count.min(200_000);
    let paris = Point::from_degrees(PARIS.0, PARIS.1);
    let mut distances: Vec<f64> =
        (0..sample).map(|number| meters(paris, points.get(number))).collect();
    distances.sort_by(f64::total_cmp);
    distances[(wanted * sample / count).min(sample - 1) as usize].round()
}

/// By haversine, on the sphere that `METERS_PER_DEGREE` belongs to.
fn meters(from: Point, to: Point) -> f64 {
    let radians = |point: Point| {
        (point.longitude_degrees().to_radians(), point.latitude_degrees().to_radians())
    };
    let ((here_x, here_y), (there_x, there_y)) = (radians(from), radians(to));
    let (up, across) = (((there_y - here_y) / 2.0).sin(), ((there_x - here_x) / 2.0).sin());
    let root = (up * up + here_y.cos() * there_y.cos() * across * across).sqrt();
    2.0 * 6_371_000.0 * root.min(1.0).asin()
}
