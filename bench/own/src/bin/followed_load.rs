//! A full synchronization of one large key, as a primary's dump brings it.
//!
//! For: how fast [`Load`](whered_engine::Load) is on one core, and what it takes beside the index.
//! Not for: reading the dump, the wire. Usage: `followed_load [COUNT [DIRECTORY]]`, ten million
//! points and no journal if not said; built with `--features mimalloc` it has the program's
//! allocator.
//!
//! A dump has the members of a large sorted set from the highest score to the lowest. Checked: as
//! many members are served, and some of them are where they belong.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
#[allow(dead_code, reason = "this program asks a part of it")]
mod clusters;

use std::path::PathBuf;
use std::time::Instant;

use clusters::place;
use whered_engine::geo::Cell;
use whered_engine::{Engine, EngineOptions, StreamPosition, Value, served_number};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY: &[u8] = b"fleet";
const MIB: u64 = 1 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(10_000_000, |text| text.parse().expect("a number"));
    let data_dir = arguments.next().map(PathBuf::from);
    let options = EngineOptions { data_dir, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("it opens");
    let keyspace = engine.keyspace();
    let link = keyspace.link("primary").expect("one is free");
    let mut members: Vec<(u64, u32)> =
        (0..count).map(|number| (Cell::from_place(place(number.into())).bits(), number)).collect();
    members.sort_unstable_by(|a, b| b.cmp(a));

    let before = status("VmRSS:");
    let start = Instant::now();
    let mut load = keyspace.begin_load(link).expect("there is room");
    load.sorted_set(KEY, None);
    let mut text = [0; 10];
    for (bits, number) in &members {
        let member = write_number(*number, &mut text);
        load.member(member, *bits as f64).expect("there is room");
    }
    load.end_sorted_set().expect("there is room");
    let replication_id = "0".repeat(40).parse().expect("forty digits");
    let stream = StreamPosition { replication_id, offset: 1, database: 0 };
    let ticket = load.finish(stream).expect("there is room");
    let applied = start.elapsed().as_secs_f64();
    engine.wait_durable(ticket).expect("the disk works");
    let durable = start.elapsed().as_secs_f64();

    let index = keyspace.inspect(served_number(link), KEY, |value| {
        let points = value.points().expect("all scores are cells");
        assert_eq!(points.len(), members.len());
        for (bits, number) in members.iter().step_by(members.len() / 1000 + 1) {
            let name = number.to_string();
            assert_eq!(points.cell(name.as_bytes()).map(Cell::bits), Some(*bits));
        }
        Value::memory_bytes(value) as u64
    });
    let index = index.expect("it is served");
    let beside = status("VmHWM:").saturating_sub(before + index);
    println!(
        "{count} points: {applied:.1} s, durable after {durable:.1} s, {:.0} k/s",
        f64::from(count) / applied / 1e3
    );
    println!("index {} MiB, at most {} MiB beside it", index / MIB, beside / MIB);
}

/// Writes a number as text.
fn write_number(mut number: u32, text: &mut [u8; 10]) -> &[u8] {
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &text[at..];
        }
    }
}

/// A line of the process's status, in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it has the line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
    kib * 1024
}
