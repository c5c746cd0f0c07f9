//! What changes cost in batches: a journal replayed, a collection loaded.
//!
//! For: the figures in `docs/design/points.md`. Not for: changes alone (`points.rs`). Usage:
//! `bulk [COUNT [SIZE...]]`: points, ten million if not said, and sizes of batches, a million and
//! five million if not said. With `--features mimalloc` it has the program's allocator.
//!
//! ```text
//! load from nothing, five million a batch ─► for each size: 1 and 2 threads, moves of 200 m and
//!                                            anywhere; beside them the same changes one by one
//! ```
//!
//! Names and cells are made beforehand and lie one after the other, as in a journal. Every batch is
//! checked by looking up some of its members. Times are of the wall clock, and of the processor for
//! all threads (which Linux counts in hundredths of a second).

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
mod clusters;

use std::fs;
use std::time::Instant;

use clusters::{beside, place, random};
use whered_geo::{Cell, Change, ChangeBatch, Place, Points};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Changes of a batch while loading.
const LOAD: usize = 5_000_000;
/// More are not applied one by one: it takes too long.
const MOST_SINGLE: usize = 1_000_000;

/// Names and cells.
struct Batch {
    text: Vec<u8>,
    ends: Vec<usize>,
    cells: Vec<Cell>,
}

impl Batch {
    fn new(count: usize, change: impl Fn(u64) -> (u64, Place)) -> Batch {
        let mut batch = Batch { text: Vec::new(), ends: Vec::new(), cells: Vec::new() };
        for index in 0..count as u64 {
            let (number, place) = change(index);
            batch.text.extend_from_slice(number.to_string().as_bytes());
            batch.ends.push(batch.text.len());
            batch.cells.push(Cell::from_place(place));
        }
        batch
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let mut start = 0;
        let change = |(&end, &cell): (&usize, &Cell)| {
            let member = &self.text[start..end];
            start = end;
            Change { member, cell: Some(cell) }
        };
        self.ends.iter().zip(&self.cells).map(change).collect()
    }
}

/// Applies a batch and says what it took.
fn apply(points: &mut Points, kept: &mut ChangeBatch, batch: &Batch, threads: usize, name: &str) {
    let changes = batch.changes();
    let count = changes.len();
    let each = |seconds: f64| seconds * 1e9 / count as f64;
    let (wall, processor) = (Instant::now(), processor_seconds());
    let mut how = "one by one, warmed".to_owned();
    if threads == 0 {
        // So few that they are applied one by one.
        changes.chunks(256).for_each(|few| points.apply_bulk(few, 1));
    } else {
        changes.iter().for_each(|change| kept.push(change.member, change.cell));
        let collected = wall.elapsed().as_secs_f64();
        points.apply_batch(kept, threads);
        how = format!("{threads} threads, {:.0} ns to collect", each(collected));
    }
    let seconds = wall.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    println!(
        "{name}, {count} changes, {how}: {:.2} M/s, {:.0} ns wall, {:.0} ns processor each",
        count as f64 / seconds / 1e6,
        each(seconds),
        each(processor),
    );
    check(points, &changes);
}

/// The last changes of a batch that was not too large must be found.
fn check(points: &Points, changes: &[Change<'_>]) {
    let mut later = std::collections::HashSet::new();
    for change in changes.iter().rev().take(1000) {
        if later.insert(change.member) {
            assert_eq!(points.cell(change.member), change.cell, "{:?}", change.member);
        }
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|argument| {
        argument.parse::<usize>().expect("the arguments are numbers of points and of changes")
    });
    let count = numbers.next().unwrap_or(10_000_000);
    let mut sizes: Vec<usize> = numbers.collect();
    if sizes.is_empty() {
        sizes = vec![1_000_000, 5_000_000];
    }
    let mut points = Points::new();
    let (mut seconds, mut processor) = (0.0, 0.0);
    for first in (0..count).step_by(LOAD) {
        let batch = Batch::new(LOAD.min(count - first), |index| {
            let number = first as u64 + index + 1;
            (number, place(number))
        });
        let changes = batch.changes();
        let (wall, before) = (Instant::now(), processor_seconds());
        points.apply_bulk(&changes, 2);
        seconds += wall.elapsed().as_secs_f64();
        processor += processor_seconds() - before;
        check(&points, &changes);
    }
    assert_eq!(points.len(), count);
    let each = |seconds: f64| seconds * 1e9 / count as f64;
    println!(
        "load {count}: {seconds:.2} s, {:.0} ns wall, {:.0} ns processor, {:.2} bytes each",
        each(seconds),
        each(processor),
        points.memory_bytes() as f64 / count as f64,
    );
    let anyone = move |salt: u64, index: u64| random(salt, index) % count as u64 + 1;
    let mut kept = points.change_batch();
    for (step, &size) in (1..).zip(&sizes) {
        for (threads, salt) in [(1, 10), (2, 20), (0, 30)] {
            if threads == 0 && size > MOST_SINGLE {
                continue;
            }
            let salt = step * 100 + salt;
            let near = Batch::new(size, |index| {
                let number = anyone(salt, index);
                (number, beside(place(number), random(salt + 1, index)))
            });
            let anywhere = Batch::new(size, |index| {
                (anyone(salt + 2, index), place(random(salt + 3, index) % count as u64 + (1 << 40)))
            });
            apply(&mut points, &mut kept, &anywhere, threads, "move anywhere");
            // Some were anywhere; from now on all are at home.
            points.apply_bulk(&near.changes(), 2);
            let near = Batch::new(size, |index| {
                let number = anyone(salt, index);
                (number, beside(place(number), random(salt + 4, index)))
            });
            apply(&mut points, &mut kept, &near, threads, "move by 200 m");
        }
    }
    println!("after all: {:.2} bytes each", points.memory_bytes() as f64 / count as f64);
}

/// Processor time of all threads.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    let ticks = |number: usize| -> Option<f64> { after_name.split(' ').nth(number)?.parse().ok() };
    // User and system time are the fields 14 and 15, the name is the second.
    let both = ticks(11).zip(ticks(12)).expect("Linux counts processor time");
    (both.0 + both.1) / 100.0
}
