//! Moves through the engine while the other core searches, and while a frozen view is held.
//!
//! For: what readers cost a writer where each has a core of its own, which no driver on the same
//! two cores can show. Not for: the protocol or rivals (`whered-versus-geo`). Usage:
//! `engine_points [COUNT [SECONDS [ANYWHERE]]]`, ten million points and two seconds a part if not
//! said, and 1 for moves to anywhere; built with `--features mimalloc` it has the program's
//! allocator.
//!
//! ```text
//! load ─► moves alone ─► moves, another thread searches ─► moves, another thread holds views
//! ```
//!
//! A move is up to 200 m, or to anywhere if that is said; sixteen of them are made together as the
//! door does it. A search finds a million members (or a third of all), holds their leaves, and has
//! all reply bytes copied. A held view is a new one every 300 ms, from which another span of
//! members is copied each millisecond. Rates are by the clock on the wall. Checked: the last moves
//! of each part have arrived, every search finds what the first one did but for a hundredth that
//! may have crossed its rim, and its reply has as many members as it says.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
mod clusters;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clusters::{beside, place, random};
use whered_bench::measure::median;
use whered_engine::geo::{
    Cell, Found, FoundCursor, Inserted, Order, Place, Points, Search, Shape, Tree,
};
use whered_engine::{AddCondition, Engine, EngineOptions, Keyspace, Value};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY: &[u8] = b"points";
const COMMAND: usize = 100;
const SEARCHED: usize = 1_000_000;
const ROUNDS: usize = 5;
/// Whether moves go anywhere.
static ANYWHERE: AtomicBool = AtomicBool::new(false);
const VIEW_TIME: Duration = Duration::from_millis(300);

/// What the other thread does.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Searches,
    HoldsViews,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<f64>());
    let mut number = |default: f64| match arguments.next() {
        None => default,
        Some(number) => number.expect("the arguments are numbers"),
    };
    let (count, seconds) = (number(1e7) as u64, number(2.0));
    ANYWHERE.store(number(0.0) > 0.0, Ordering::Relaxed);
    let (engine, _) = Engine::open(EngineOptions::default()).expect("it opens");
    let keyspace = engine.keyspace();
    load(keyspace, count);
    let search = search_for(keyspace, SEARCHED.min(count as usize / 3));
    println!("{count} points, {ROUNDS} rounds of {seconds} s; medians");
    println!("| the other thread | moves a second | of those alone | searches a second |");
    println!("| --- | ---: | ---: | ---: |");
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut searches = Vec::new();
    let mut moved = 0;
    for _ in 0..ROUNDS {
        let kinds = [Beside::Nothing, Beside::Searches, Beside::HoldsViews];
        for (rates, kind) in rates.iter_mut().zip(kinds) {
            let (done, searched) = part(keyspace, count, &search, kind, seconds, moved);
            moved += done;
            rates.push(done as f64 / seconds);
            searches.extend(matches!(kind, Beside::Searches).then_some(searched as f64 / seconds));
        }
    }
    let alone = median(&rates[0]);
    let names = ["does nothing", "searches", "holds views and copies from them"];
    let found = ["-".to_owned(), format!("{:.1}", median(&searches)), "-".to_owned()];
    for ((name, rates), searches) in names.iter().zip(&rates).zip(found) {
        let rate = median(rates);
        println!("| {name} | {rate:.0} | {:.2} | {searches} |", rate / alone);
    }
}

fn cell(place: Place) -> Cell {
    Cell::from_place(place)
}

fn load(keyspace: &Keyspace, count: u64) {
    let mut names = vec![String::new(); COMMAND];
    for start in (0..count).step_by(COMMAND) {
        let numbers = start..count.min(start + COMMAND as u64);
        for (name, number) in names.iter_mut().zip(numbers.clone()) {
            *name = number.to_string();
        }
        let points: Vec<(&[u8], Cell)> =
            numbers.zip(&names).map(|(n, name)| (name.as_bytes(), cell(place(n)))).collect();
        let added = keyspace.add_points(0, KEY, &points, AddCondition::Always);
        assert_eq!(added.expect("there is no journal").value.added, points.len());
    }
}

fn with_points<T>(keyspace: &Keyspace, read: impl FnOnce(&Points) -> T) -> T {
    keyspace.read(0, KEY, |value| read(value.and_then(Value::points).expect("it is loaded")))
}

/// Moves for so long, with another thread beside; how many, and how many searches that one made.
fn part(
    keyspace: &Keyspace,
    count: u64,
    (search, expected): &(Search, usize),
    kind: Beside,
    seconds: f64,
    moved: u64,
) -> (u64, usize) {
    let (stop, searched) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                match kind {
                    Beside::Nothing => pause(),
                    Beside::Searches => {
                        let found = find_all(keyspace, search);
                        assert!(found.abs_diff(*expected) <= expected / 100, "{found} are found");
                        searched.fetch_add(1, Ordering::Relaxed);
                    }
                    Beside::HoldsViews => {
                        hold(&with_points(keyspace, Points::freeze), search, &stop);
                    }
                }
            }
        });
        let began = Instant::now();
        let mut done = 0;
        while began.elapsed().as_secs_f64() < seconds {
            move_sixteen(keyspace, count, moved + done);
            done += 16;
        }
        stop.store(true, Ordering::Relaxed);
        let last = moves_from(moved + done - 16, count);
        with_points(keyspace, |points| {
            for (index, (name, cell)) in last.iter().enumerate() {
                let is_moved_again = last[index + 1..].iter().any(|(later, _)| later == name);
                assert!(is_moved_again || points.cell(name.as_bytes()) == Some(*cell), "{name}");
            }
        });
        (done, searched.load(Ordering::Relaxed))
    })
}

/// The moves with these numbers: names, and where to.
fn moves_from(first: u64, count: u64) -> [(String, Cell); 16] {
    std::array::from_fn(|index| {
        let number = random(11, first + index as u64) % count;
        let other = random(12, first + index as u64);
        let to = match ANYWHERE.load(Ordering::Relaxed) {
            true => place(other % count),
            false => place(number),
        };
        (number.to_string(), cell(beside(to, other)))
    })
}

fn move_sixteen(keyspace: &Keyspace, count: u64, first: u64) {
    let moves = moves_from(first, count);
    let points = moves.each_ref().map(|(name, cell)| (name.as_bytes(), *cell));
    let note = |inserted| assert!(inserted != Inserted::New, "all are there");
    let added = keyspace.add_each_point(0, KEY, &points, AddCondition::Always, note);
    added.expect("there is no journal");
}

/// Finds everything and copies the reply's bytes; how many members there are.
fn find_all(keyspace: &Keyspace, search: &Search) -> usize {
    let mut found = Found::new();
    let held = with_points(keyspace, |points| {
        points.find(search, &mut found);
        points.hold(&mut found)
    });
    let mut reply = Vec::with_capacity(found.bulk_bytes(&held));
    let mut cursor = FoundCursor::default();
    while let Some(bulks) = found.next_bulks(&held, &mut cursor) {
        reply.extend_from_slice(bulks);
    }
    // Names are numbers, so that a dollar sign begins each member and stands nowhere else.
    assert_eq!(reply.iter().filter(|byte| **byte == b'$').count(), found.len());
    found.len()
}

/// Holds a view for a while, and copies what was found in it, little by little.
fn hold(view: &Tree, search: &Search, stop: &AtomicBool) {
    let mut found = Found::new();
    view.find(search, &mut found);
    let (began, mut cursor, mut reply) = (Instant::now(), FoundCursor::default(), Vec::new());
    while began.elapsed() < VIEW_TIME && !stop.load(Ordering::Relaxed) {
        if let Some(bulks) = found.next_bulks(view, &mut cursor) {
            reply.extend_from_slice(bulks);
        }
        pause();
    }
    assert!(!reply.is_empty(), "something was copied");
}

/// A millisecond of nothing.
fn pause() {
    std::thread::park_timeout(Duration::from_millis(1));
}

/// A circle around the first point of a metropolitan area that finds about `wanted` points.
fn search_for(keyspace: &Keyspace, wanted: usize) -> (Search, usize) {
    let view = with_points(keyspace, Points::freeze);
    let of_radius = |radius_meters: f64| Search {
        center: place(1),
        shape: Shape::Circle { radius_meters },
        order: Order::Unsorted,
        count: None,
        any: false,
    };
    let (mut low, mut high) = (0.0, 2e7);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        let mut found = Found::new();
        view.find(&of_radius(middle), &mut found);
        if found.len() < wanted { low = middle } else { high = middle }
    }
    let search = of_radius(high);
    let count = find_all(keyspace, &search);
    assert!(count.abs_diff(wanted) <= wanted / 100, "{count} in place of {wanted}");
    println!("a search finds {count} members within {:.0} km", high / 1e3);
    (search, count)
}
