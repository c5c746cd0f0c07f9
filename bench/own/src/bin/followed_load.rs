//! A full synchronization of one large key, as a primary's dump brings it, and moves after it.
//!
//! For: how fast [`Load`](whered_engine::Load) is on one core, and what it takes beside the index;
//! what moves cost that are applied with their position. Not for: reading the dump, the wire.
//! Usage: `followed_load [COUNT [DIRECTORY [KEYS]]]`, ten million points, no journal and one key if
//! not said; built with `--features mimalloc` it has the program's allocator.
//!
//! A dump has the members of a large sorted set from the highest score to the lowest. Checked: as
//! many members are served, and some of them are where they belong; the last moves have arrived.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
#[allow(dead_code, reason = "this program asks a part of it")]
mod clusters;

use std::path::PathBuf;
use std::time::Instant;

use clusters::{beside, place, random};
use whered_engine::geo::Cell;
use whered_engine::{
    AddCondition, Engine, EngineOptions, Keyspace, StreamPosition, Value, served_number,
};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY: &[u8] = b"fleet";
const MIB: u64 = 1 << 20;
/// How many moves are applied with one position.
const TOGETHER: usize = 256;
const MOVES: usize = 4_000 * TOGETHER;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(10_000_000, |text| text.parse().expect("a number"));
    let data_dir = arguments.next().filter(|path| !path.is_empty()).map(PathBuf::from);
    let keys: u32 = arguments.next().map_or(1, |text| text.parse().expect("a number"));
    let options = EngineOptions { data_dir, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("it opens");
    let keyspace = engine.keyspace();
    let link = keyspace.link("primary").expect("one is free");
    let mut members: Vec<(u64, u32)> =
        (0..count).map(|number| (Cell::from_place(place(number.into())).bits(), number)).collect();
    members.sort_unstable_by(|a, b| b.cmp(a));

    let before = status("VmRSS:");
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut load = keyspace.begin_load(link).expect("there is room");
    let mut text = [0; 10];
    for (key, members) in members.chunks(members.len().div_ceil(keys as usize)).enumerate() {
        let name = if keys == 1 { KEY.to_vec() } else { format!("fleet:{key}").into_bytes() };
        load.sorted_set(&name, None);
        for (bits, number) in members {
            let member = write_number(*number, &mut text);
            load.member(member, *bits as f64).expect("there is room");
        }
        load.end_sorted_set().expect("there is room");
    }
    let ticket = load.finish(stream(1), || ()).expect("there is room");
    let (applied, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    engine.wait_durable(ticket).expect("the disk works");
    let durable = start.elapsed().as_secs_f64();

    if keys > 1 {
        println!("{keys} keys, {count} members: {applied:.1} s, {cpu:.1} s of it on a core");
        return;
    }
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
        "{count} points: {applied:.1} s, durable after {durable:.1} s, {cpu:.1} s on a core: {:.0} \
         k/s",
        f64::from(count) / cpu / 1e3
    );
    println!("index {} MiB, at most {} MiB beside it", index / MIB, beside / MIB);
    for in_command in [1, 16, TOGETHER] {
        let rate = moves(keyspace, link, count, in_command);
        println!("{in_command} moves a command, {TOGETHER} a position: {:.0} k/s", rate / 1e3);
    }
}

fn stream(offset: i64) -> StreamPosition {
    let replication_id = "0".repeat(40).parse().expect("forty digits");
    StreamPosition { replication_id, offset, database: 0 }
}

/// Applies moves of up to 200 m; how many a second of this thread's time on a core.
fn moves(keyspace: &Keyspace, link: usize, count: u32, in_command: usize) -> f64 {
    let moves: Vec<(String, Cell)> = (0..MOVES as u64)
        .map(|n| {
            let number = random(in_command as u64, n) % u64::from(count);
            let to = beside(place(number), random(7, n));
            (number.to_string(), Cell::from_place(to))
        })
        .collect();
    let points: Vec<(&[u8], Cell)> =
        moves.iter().map(|(name, cell)| (name.as_bytes(), *cell)).collect();
    let (number, always) = (served_number(link), AddCondition::Always);
    let start = cpu_seconds();
    for (step, together) in points.chunks(TOGETHER).enumerate() {
        let apply = || {
            for command in together.chunks(in_command) {
                keyspace.add_points(number, KEY, command, always).expect("there is room");
            }
            ((), stream(step as i64))
        };
        keyspace.follow(link, TOGETHER * 64, apply).expect("there is room");
    }
    let rate = MOVES as f64 / (cpu_seconds() - start);
    let (name, cell) = points[points.len() - 1];
    let found = keyspace.inspect(number, KEY, |value| value.points().and_then(|it| it.cell(name)));
    assert_eq!(found.flatten(), Some(cell), "the last move has arrived");
    rate
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

/// How long this thread has been on a core.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = text.split(' ').next().expect("it has three numbers");
    nanoseconds.parse::<f64>().expect("it is a number") / 1e9
}

/// A line of the process's status, in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it has the line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
    kib * 1024
}
