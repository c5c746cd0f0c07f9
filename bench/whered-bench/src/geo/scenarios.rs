//! What one class alone does not show: small commands beside a huge search, a journal, two threads,
//! fewer points, and memory after everything has moved.
//!
//! Not for the classes themselves. Rows are named `SCENARIO/what`; those that repeat a class under
//! other conditions are named `SCENARIO/CLASS`.

use super::beside::{beside_search, held_view};
use super::classes::class_named;
use super::load::move_all;
use super::points::Order;
use super::rounds::{Row, interleaved};
use super::run::{Bench, Setup, Starter};
use super::server::Server;

/// Scenarios and what they are.
pub const SCENARIOS: [(&str, &str); 6] = [
    (BESIDE_SEARCH, "PING, GEODIST and moves alone, and while a search returns a million members"),
    (HELD_VIEW, "moves while a client takes a long reply slowly"),
    (ALL_MOVED, "memory after every point has moved once, up to 200 m"),
    (EVERYSEC, "moves with a journal or append-only file that is synced every second"),
    (TWO_THREADS, "two server threads instead of one"),
    (FEWER_POINTS, "the nearest ten among a million points, or a tenth of them"),
];
/// The scenario with a huge search.
pub const BESIDE_SEARCH: &str = "beside-search";
/// The scenario with a client that is slow to take its reply.
pub const HELD_VIEW: &str = "held-view";
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
/// Clients beside the search: class and pipeline.
const SMALL: [(&str, usize); 3] = [(MOVES, 16), ("ping/1x1", 1), ("geodist-random/1x1", 1)];
const NEAREST: &str = "nearest-5km-dense/8x16";
pub(super) const MOVES: &str = "moves-200m/8x16";
const DISTANCES: &str = "geodist-random/200x10";

/// Those that are about servers which have all points.
///
/// # Errors
///
/// A server fails.
pub fn on_running(bench: &mut Bench<'_>, servers: &[&Server]) -> Result<(), String> {
    for server in servers {
        if bench.wants(BESIDE_SEARCH) {
            beside_search(bench, server, BESIDE_SEARCH, &SMALL)?;
        }
    }
    // Behind all that would find the points elsewhere. Only ours: a rival's memory does not depend
    // on it, and its moves are measured already.
    if bench.wants(ALL_MOVED)
        && let Some(server) = servers.first()
    {
        let order = Order::shuffled(bench.options.points, 4);
        let loaded = move_all(server, &bench.points, &order)?;
        bench.note_load(ALL_MOVED, server, loaded, "");
    }
    // Last: views leave memory behind. Only ours: a rival that writes its whole reply at once holds
    // none.
    if bench.wants(HELD_VIEW)
        && let Some(server) = servers.first()
    {
        held_view(bench, server, HELD_VIEW)?;
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
    beside_search(bench, &server, &format!("{TWO_THREADS}/{BESIDE_SEARCH}"), &SMALL[..1])
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
