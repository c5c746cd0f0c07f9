//! What a large collection costs: memory for each point, and processor time for each change.
//!
//! For: the figures in `docs/design/points.md`. Not for: searches, or a comparison with rivals.
//! Usage: `points [COUNT]`, ten million if not said, or `points pages [COUNT]` (`pages.rs`); built
//! with `--features mimalloc` it has the program's allocator, otherwise the system's.
//!
//! ```text
//! insert in random order ─► look up ─► move 200 m ─► move anywhere ─► the same under a frozen view
//! ```
//!
//! Points are clustered as people are: metropolitan areas, towns, regions, and some anywhere; each
//! is a function of its number. Times are of the processor, as the kernel counts them; names and
//! cells are made beforehand.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
mod clusters;
#[path = "../pages.rs"]
mod pages;

use std::fs;

use clusters::{beside, place, random};
use whered_geo::{Cell, Inserted, Place, Points};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As many as a command of a bulk load has.
const COMMAND: usize = 100;
/// As many as a pipeline has.
const PIPELINE: usize = 16;

/// As many as are made at a time where the memory is to be measured.
const CHUNK: usize = 20_000;

/// Names and cells, one after the other.
struct Changes {
    names: Vec<String>,
    cells: Vec<Cell>,
}

impl Changes {
    fn new(count: usize, change: impl Fn(u64) -> (u64, Place)) -> Changes {
        let (numbers, cells): (Vec<u64>, Vec<Cell>) = (0..count as u64)
            .map(|index| {
                let (number, place) = change(index);
                (number, Cell::from_place(place))
            })
            .unzip();
        Changes { names: numbers.into_iter().map(|number| number.to_string()).collect(), cells }
    }

    /// Applies all, in warmed batches of this size or one by one (1); returns nanoseconds each.
    fn apply(&self, points: &mut Points, batch: usize, expected: &[Inserted]) -> u64 {
        let start = Clock::start();
        for (names, cells) in self.names.chunks(batch).zip(self.cells.chunks(batch)) {
            if batch > 1 {
                let mut pairs = [(&[][..], Cell::MIN); COMMAND];
                for (pair, (name, &cell)) in pairs.iter_mut().zip(names.iter().zip(cells)) {
                    *pair = (name.as_bytes(), cell);
                }
                points.prefetch_points(&pairs[..names.len()]);
            }
            for (name, &cell) in names.iter().zip(cells) {
                let inserted = points.insert(name.as_bytes(), cell);
                assert!(expected.contains(&inserted), "{name}: {inserted:?}");
            }
        }
        start.nanoseconds_each(self.names.len())
    }
}

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let is_pages = words.next_if(|word| word == "pages").is_some();
    let count: usize = words.next().map_or(10_000_000, |count| {
        count.parse().expect("the last argument is the number of points")
    });
    if is_pages {
        let empty_bytes = resident_bytes();
        let mut points = Points::new();
        load(&mut points, count);
        pages::measure(points, empty_bytes);
    } else {
        measure_changes(count);
    }
}

fn measure_changes(count: usize) {
    let some = (count / 10).min(1_000_000);
    let empty_bytes = resident_bytes();
    let mut points = Points::new();
    let many = count - 2 * some;
    load(&mut points, many);
    let report = |points: &Points, when: &str| report_bytes(points, when, empty_bytes);
    report(&points, "after random inserts");
    load_last(&mut points, many, some);
    look_up(&points, count, some);
    let anyone = move |salt: u64| move |index: u64| random(salt, index) % count as u64 + 1;
    let near = move |salt: u64| {
        Changes::new(some, move |index| {
            let number = anyone(salt)(index);
            (number, beside(place(number), random(salt + 1, index)))
        })
    };
    let anywhere = move |salt: u64| {
        Changes::new(some, move |index| {
            (anyone(salt)(index), place(random(salt + 1, index) % count as u64 + (1 << 40)))
        })
    };
    let moved = [Inserted::Moved, Inserted::Unchanged];
    let ways = [(1, "alone"), (PIPELINE, "in warmed batches of 16")];
    for (batch, name) in ways {
        let salt = 100 * batch as u64;
        let took = near(salt).apply(&mut points, batch, &moved);
        println!("move by 200 m, {name}: {took} ns");
        let took = anywhere(salt + 10).apply(&mut points, batch, &moved);
        println!("move anywhere, {name}: {took} ns");
    }
    for first in (0..count).step_by(CHUNK) {
        let all = Changes::new(CHUNK.min(count - first), |index| {
            let number = first as u64 + index + 1;
            (number, place(number + (1 << 41)))
        });
        all.apply(&mut points, COMMAND, &moved);
    }
    report(&points, "after every point has moved");
    for (batch, name) in ways {
        let salt = 100 * batch as u64 + 20;
        let view = points.freeze();
        let took = near(salt).apply(&mut points, batch, &moved);
        println!("move by 200 m, {name}, under a frozen view: {took} ns");
        drop(view);
        let view = points.freeze();
        let took = anywhere(salt + 10).apply(&mut points, batch, &moved);
        println!("move anywhere, {name}, under a frozen view: {took} ns");
        drop(view);
    }
    report(&points, "after moves under frozen views");
}

fn report_bytes(points: &Points, when: &str, empty_bytes: usize) {
    let each = |bytes: usize| bytes as f64 / points.len() as f64;
    let (held, resident) = (points.memory_bytes(), resident_bytes() - empty_bytes);
    println!("{when}: {:.2} bytes a point held, {:.2} resident", each(held), each(resident));
}

/// Inserts points in commands.
fn load(points: &mut Points, many: usize) {
    let mut nanoseconds = 0;
    for first in (0..many).step_by(CHUNK) {
        let length = CHUNK.min(many - first);
        let changes = Changes::new(length, numbered(first));
        nanoseconds += changes.apply(points, COMMAND, &[Inserted::New]) as usize * length;
    }
    println!("insert {many} points, 100 a command: {} ns on average", nanoseconds / many);
}

/// Inserts the last points, some of them alone and some in commands.
fn load_last(points: &mut Points, many: usize, some: usize) {
    let took = Changes::new(some, numbered(many)).apply(points, 1, &[Inserted::New]);
    println!("insert at this size, alone: {took} ns");
    let last = Changes::new(some, numbered(many + some));
    let took = last.apply(points, COMMAND, &[Inserted::New]);
    println!("insert at this size, 100 a command: {took} ns");
}

fn numbered(first: usize) -> impl Fn(u64) -> (u64, Place) {
    move |index| (first as u64 + index + 1, place(first as u64 + index + 1))
}

fn look_up(points: &Points, count: usize, some: usize) {
    let numbers = (0..some as u64).map(|index| random(7, index) % count as u64 + 1);
    let expected =
        numbers.clone().fold(0u64, |sum, n| sum.wrapping_add(Cell::from_place(place(n)).bits()));
    let names: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let start = Clock::start();
    let cell = |name: &String| points.cell(name.as_bytes()).map_or(0, Cell::bits);
    let sum = names.iter().map(cell).fold(0, u64::wrapping_add);
    println!("look up, alone: {} ns", start.nanoseconds_each(some));
    assert_eq!(sum, expected);

    let start = Clock::start();
    let (mut sum, mut found) = (0u64, Vec::new());
    for batch in names.chunks(PIPELINE) {
        let mut members = [&[][..]; PIPELINE];
        members.iter_mut().zip(batch).for_each(|(member, name)| *member = name.as_bytes());
        found.clear();
        points.cells_batch(&members[..batch.len()], &mut found);
        sum = found.iter().flatten().fold(sum, |sum, cell| sum.wrapping_add(cell.bits()));
    }
    println!("look up, in batches of 16: {} ns", start.nanoseconds_each(some));
    assert_eq!(sum, expected);
}

/// Processor time of this thread.
struct Clock(u64);

impl Clock {
    fn start() -> Clock {
        Clock(Clock::now())
    }

    fn nanoseconds_each(&self, count: usize) -> u64 {
        (Clock::now() - self.0) / count as u64
    }

    fn now() -> u64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let first = text.split(' ').next();
        first.and_then(|number| number.parse().ok()).expect("Linux counts processor time")
    }
}

/// Processor time of all threads, those that have ended too, in steps of 10 ms.
fn process_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split(' ');
    let ticks: u64 = fields.skip(12).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|number| number.parse::<usize>().ok());
    pages.expect("Linux counts resident pages") * 4096
}
