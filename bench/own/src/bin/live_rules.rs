//! Rules in the engine: what a packet costs, and what changes of single rules cost meanwhile.
//!
//! For: the figures "through the engine" in `docs/design/classifier.md`. Not for: the classifier
//! alone (`rules`) nor rivals (`bench/versus`). Usage: `live_rules [costs|changes|find PACKETS]`.
//!
//! Lookups are timed by the CPU time of their thread, changes by the clock, from the call to its
//! answer, after which every reader sees them. Some answers are checked by the walk through the
//! rules.
#![allow(clippy::print_stdout, reason = "a table on standard output is what this is for")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use whered_bench::Random;
use whered_bench::rules::{FiveTuple, Shape, addresses, generate};
use whered_engine::rules::naive::{self, NoSets};
use whered_engine::rules::{At, Packet};
use whered_engine::{Engine, EngineOptions};

const SHAPES: [Shape; 3] = [Shape::Acl, Shape::Fw, Shape::Ipc];
const NAME: &str = "edge";

fn main() {
    let wanted = std::env::args().nth(1);
    let is = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if is("costs") {
        costs();
    }
    if is("changes") {
        changes();
    }
    if wanted.as_deref() == Some("find") {
        let count = std::env::args().nth(2).and_then(|text| text.parse().ok());
        find(count.unwrap_or(1 << 16));
    }
}

/// One rule in the own format.
fn rule_text(rule: &FiveTuple, turn: usize) -> String {
    let mut out = String::new();
    let mut push = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a string takes all");
    for (word, address, length) in [
        ("src", rule.source, rule.source_length),
        ("dst", rule.destination, rule.destination_length),
    ] {
        if length > 0 {
            let first = std::net::Ipv4Addr::from(addresses(address, length).0);
            push(format_args!("{word} {first}/{length} "));
        }
    }
    if let Some(protocol) = rule.protocol {
        push(format_args!("proto {protocol} "));
    }
    let has_ports = rule.protocol.is_none_or(|protocol| [6, 17].contains(&protocol));
    for (word, (first, last)) in [("sport", rule.source_ports), ("dport", rule.destination_ports)] {
        if has_ports && (first, last) != (0, 65_535) {
            push(format_args!("{word} {first}-{last} "));
        }
    }
    push(format_args!("{}", if turn.is_multiple_of(2) { "accept" } else { "drop" }));
    out
}

fn ruleset(rules: &[FiveTuple]) -> String {
    let line = |(turn, rule)| format!("    {}\n", rule_text(rule, turn));
    let lines: String = rules.iter().enumerate().map(line).collect();
    format!("chain input policy drop {{\n{lines}}}\n")
}

/// Packets of the rules.
fn packets(rules: &[FiveTuple], count: usize, seed: u64) -> Vec<Packet<'static>> {
    let mut random = Random::of(seed, 91, count as u64);
    let mut within = |(first, last): (u32, u32)| {
        let span = u64::from(last - first) + 1;
        first + (random.below(span)) as u32
    };
    (0..count)
        .map(|_| {
            let rule = &rules[within((0, rules.len() as u32 - 1)) as usize];
            let port = |(first, last): (u16, u16)| (first.into(), last.into());
            Packet {
                source: std::net::Ipv4Addr::from(within(addresses(
                    rule.source,
                    rule.source_length,
                )))
                .into(),
                destination: std::net::Ipv4Addr::from(within(addresses(
                    rule.destination,
                    rule.destination_length,
                )))
                .into(),
                protocol: rule.protocol.unwrap_or(6),
                source_port: within(port(rule.source_ports)) as u16,
                destination_port: within(port(rule.destination_ports)) as u16,
                ..Packet::default()
            }
        })
        .collect()
}

/// Nanoseconds that this thread has had of a processor.
fn cpu_nanoseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn engine_of(shape: Shape, count: usize) -> (Arc<Engine>, Vec<FiveTuple>, Duration) {
    let rules = generate(shape, count, 1);
    let (engine, _) = Engine::open(EngineOptions::default()).expect("nothing is needed");
    let (text, start) = (ruleset(&rules), Instant::now());
    engine.set_rules(NAME, None, &text).expect("right rules");
    (engine, rules, start.elapsed())
}

/// Nanoseconds of CPU time a packet: single calls, batches of 64; the better of some passes.
fn speed(engine: &Engine, packets: &[Packet<'_>], passes: usize) -> (f64, f64) {
    let generation = engine.generation();
    let named = generation.ruleset(NAME).expect("it was set");
    let (sets, lengths) = (engine.prefix_sets(), [60; 64]);
    let (mut single, mut batch) = (f64::MAX, f64::MAX);
    for _ in 0..passes {
        let start = cpu_nanoseconds();
        for packet in packets {
            black_box(named.find(packet, 60, sets));
        }
        single = single.min((cpu_nanoseconds() - start) as f64 / packets.len() as f64);
        let (edition, start) = (named.edition(), cpu_nanoseconds());
        for packets in packets.chunks(64) {
            black_box(edition.find_batch(packets, &lengths, sets));
        }
        batch = batch.min((cpu_nanoseconds() - start) as f64 / packets.len() as f64);
    }
    (single, batch)
}

fn check(engine: &Engine, packets: &[Packet<'_>]) {
    let edition = engine.generation().ruleset(NAME).expect("it was set").edition();
    let (ruleset, numbers) = edition.to_ruleset();
    for packet in packets {
        let walked = naive::evaluate(&ruleset, packet, &NoSets);
        let found = edition.find(packet, 0, engine.prefix_sets()).rule;
        assert_eq!(found, walked.rule.map(|id| numbers[id.index()]), "as the walk says");
    }
}

/// Packets as rules grow, through the engine.
fn costs() {
    for shape in SHAPES {
        let mut first = None;
        for count in [256, 1024, 4096, 16_384] {
            let (engine, rules, took) = engine_of(shape, count);
            let packets = packets(&rules, 1 << 16, 3);
            check(&engine, &packets[..300]);
            let (single, batch) = speed(&engine, &packets, 7);
            while engine.maintain_rules() {}
            let (planned, planned_batch) = speed(&engine, &packets, 7);
            let (single0, batch0) = *first.get_or_insert((single, batch));
            let background = engine.generation().ruleset(NAME).expect("it was set").background();
            println!(
                "costs/{}/{count}: set in {took:.2?}, single {single:.0} ns ({:.1} M/s, {:.1}x), batch \
                 {batch:.0} ns ({:.1}x); after {:.1} s of planning {planned:.0} and {planned_batch:.0}",
                shape.name(),
                1e3 / single,
                single / single0,
                batch / batch0,
                background.planned.as_secs_f64(),
            );
        }
    }
}

/// Changes at 16,384 rules, beside one thread that looks up and one that folds.
fn changes() {
    for shape in SHAPES {
        for pause_micros in [10_000, 1_000] {
            changes_of(shape, Duration::from_micros(pause_micros));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "changes come at a pace")]
fn changes_of(shape: Shape, pause: Duration) {
    let (engine, rules, _) = engine_of(shape, 16_384);
    let packets = packets(&rules, 1 << 14, 3);
    let more = generate(shape, 4096, 9);
    // What one batch costs without changes, and while they come.
    let (stop, busy) = (AtomicBool::new(false), AtomicBool::new(false));
    let counted: [AtomicU64; 4] = Default::default();
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| look_up(&engine, &packets[..2048], &stop, &busy, &counted));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if !(busy.load(Ordering::Relaxed) && engine.maintain_rules()) {
                    engine.wait_for_rules(Duration::from_millis(20));
                }
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        busy.store(true, Ordering::Relaxed);
        let mut random = Random::of(5, 92, 1);
        let start = Instant::now();
        let mut turn = 0;
        while start.elapsed() < Duration::from_secs(4) {
            let old = random.below(16_384) as u32 + 1;
            let rule = rule_text(&more[turn % more.len()], turn);
            let before = Instant::now();
            let inserted = engine.insert_rule(NAME, At::Position(None, old as usize), &rule);
            let inserted = inserted.expect("a right rule").value;
            times.push(before.elapsed());
            std::thread::sleep(pause);
            // Half of what goes is old; what was taken out already is passed over.
            let gone = if turn.is_multiple_of(2) { inserted } else { old };
            let before = Instant::now();
            if engine.delete_rule(NAME, gone).is_ok() {
                times.push(before.elapsed());
            }
            std::thread::sleep(pause);
            turn += 1;
        }
        stop.store(true, Ordering::Relaxed);
        engine.wake_rules();
    });
    check(&engine, &packets[..300]);
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)];
    let each = |part: usize| {
        let [time, count] = [part, part + 1].map(|place| counted[place].load(Ordering::Relaxed));
        time as f64 / count as f64
    };
    let background = engine.generation().ruleset(NAME).expect("it was set").background();
    println!(
        "changes/{}: {} changes, {:.0} a second: median {:?}, p99 {:?}, max {:?}; {} folds; lookups {:.0} \
         ns before, {:.0} ns meanwhile: {:.0} %",
        shape.name(),
        times.len(),
        times.len() as f64 / 4.0,
        at(500),
        at(990),
        times[times.len() - 1],
        background.folds,
        each(0),
        each(2),
        each(0) / each(2) * 100.0
    );
}

/// Single calls until `stop`: time and packets, before and since `busy`.
fn look_up(
    engine: &Engine,
    packets: &[Packet<'_>],
    stop: &AtomicBool,
    busy: &AtomicBool,
    counted: &[AtomicU64; 4],
) {
    while !stop.load(Ordering::Relaxed) {
        let part = if busy.load(Ordering::Relaxed) { 2 } else { 0 };
        let start = cpu_nanoseconds();
        let generation = engine.generation();
        let named = generation.ruleset(NAME).expect("it was set");
        for packet in packets {
            black_box(named.find(packet, 60, engine.prefix_sets()));
        }
        counted[part].fetch_add(cpu_nanoseconds() - start, Ordering::Relaxed);
        counted[part + 1].fetch_add(packets.len() as u64, Ordering::Relaxed);
    }
}

/// Single calls through the engine, for counting instructions by line: what lies in `counters.rs`
/// and `lane.rs` is what counting costs.
fn find(count: usize) {
    let (engine, rules, _) = engine_of(Shape::Acl, 4096);
    let packets = packets(&rules, count, 3);
    let edition = engine.generation().ruleset(NAME).expect("it was set").edition();
    for packet in &packets {
        black_box(edition.find(packet, 60, engine.prefix_sets()));
    }
}
