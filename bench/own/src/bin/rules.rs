//! The classifier alone: what a packet costs as rules grow, and while they change.
//!
//! For:
//! `cargo run --release -p whered-own-bench --bin rules -- NAME`, where NAME is `seed`,
//! `growth`, `graphs`, `changes`, `large` or `hits N`.
//! Not for rivals (`bench/versus`). Times are wall time of one thread; every answer is checked by
//! the scan for a part of the packets.
#![allow(clippy::print_stdout, reason = "a table on standard output is what this is for")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whered_bench::rules::{Shape, generate, lower, packets};
use whered_rules::classify::plan::{Budget, Candidate, Planner, Split, experiment};
use whered_rules::classify::{
    Condition, Family, Field, Hits, Live, Matched, NO_RULE, Packet, Rule, RuleId, Rules, scan,
};

/// The connection's state.
const STATE: Field = Field::Word(5);

fn main() {
    let wanted = std::env::args().nth(1);
    let is = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if is("seed") {
        seed();
    }
    if is("growth") {
        growth();
    }
    if is("graphs") {
        graphs();
    }
    if is("changes") {
        changes();
    }
    if is("large") {
        large();
    }
    // For valgrind: what counting adds is the difference between 1 and 2, what lookups take between
    // 0 and 1.
    if wanted.as_deref() == Some("hits") {
        let part = std::env::args().nth(2).and_then(|text| text.parse().ok());
        hits(part.unwrap_or(2));
    }
}

/// Ten passes over some packets: none of it (0), lookups (1), lookups and counters (2).
fn hits(part: u32) {
    let rules = Arc::new(lower(&generate(Shape::Acl, 4096, 1)).expect("valid"));
    let packets = packets(&rules, 1 << 12, 3);
    let graph = Candidate::Graph { split: Split::Source, leaf: 4, root_bits: 16 };
    let compiled = experiment(&rules, graph, 64 << 20).expect("it fits");
    let mut hits = Hits::new(rules.list().len());
    let mut answers = [0; 64];
    let mut met = Matched::default();
    for _ in 0..if part == 0 { 0 } else { 10 } {
        for packets in packets.chunks(64) {
            compiled.find_batch(packets, &mut answers[..packets.len()], &mut met);
            if part == 2 {
                hits.add(&answers[..packets.len()]);
            }
        }
    }
    black_box(hits.undecided());
}

/// Compiles within a budget.
fn compile(rules: Rules, seconds: u64) -> Planner {
    let epoch = Instant::now();
    let budget = Budget { time: Duration::from_secs(seconds), ..Budget::default() };
    Planner::new(rules, budget, &|| epoch.elapsed())
}

/// Nanoseconds a packet of a pass, the best of some.
fn best(passes: usize, packets: &[Packet], mut pass: impl FnMut(&[Packet])) -> f64 {
    let time = |_| {
        let start = Instant::now();
        pass(packets);
        start.elapsed().as_secs_f64() * 1e9 / packets.len() as f64
    };
    (0..passes).map(time).fold(f64::MAX, f64::min)
}

/// Batches and single calls on a planned ruleset.
fn costs(planner: &Planner, packets: &[Packet]) -> (f64, f64) {
    let compiled = planner.compiled();
    for packet in &packets[..300] {
        let mut met = Vec::new();
        let expected = scan(compiled.rules().list(), packet);
        assert_eq!(compiled.find(packet, &mut met), expected.rule, "as the scan says");
    }
    let mut answers = [0; 64];
    let mut met = Matched::default();
    let batch = best(9, packets, |packets| {
        for part in packets.chunks(64) {
            compiled.find_batch(part, &mut answers[..part.len()], &mut met);
        }
    });
    let mut none = Vec::new();
    let single = best(9, packets, |packets| {
        for packet in packets {
            black_box(compiled.find(packet, &mut none));
        }
    });
    (batch, single)
}

/// ESTABLISHED,RELATED accept; N addresses that never match; port 80 NEW accept.
fn seed() {
    for power in 4..=14 {
        let count = 1usize << power;
        let one = |field, range: (u128, u128)| Condition { field, ranges: vec![range] };
        let accept = |conditions| Rule { conditions, terminal: true, verdict: 1 };
        let mut rules = vec![accept(vec![one(STATE, (2, 4))])];
        let mut state = 7u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for _ in 0..count {
            // Sources below 128.0.0.0 never come.
            let address = u128::from(random() & 0x7fff_ffff);
            rules.push(accept(vec![one(Field::Source, (address & !0xff, address | 0xff))]));
        }
        rules.push(accept(vec![
            one(Field::Protocol, (6, 6)),
            one(Field::DestinationPort, (80, 80)),
            one(STATE, (1, 1)),
        ]));
        let planner = compile(Rules::new(Family::V4, rules).expect("valid"), 2);
        let packets: Vec<Packet> = (0..1 << 15)
            .map(|turn| {
                let mut packet = Packet::new(random() | 0x8000_0000, random());
                packet.set(Field::Protocol, 6);
                packet.set(Field::DestinationPort, if turn % 3 == 0 { 81 } else { 80 });
                packet.set(STATE, if turn % 3 == 1 { 2 } else { 1 });
                packet
            })
            .collect();
        let (batch, single) = costs(&planner, &packets);
        println!("seed/{count}: batch {batch:.1} ns, single {single:.1} ns; {}", planner.info());
    }
}

/// The three shapes from 256 to 16,384 rules.
fn growth() {
    for shape in [Shape::Acl, Shape::Fw, Shape::Ipc] {
        let mut first = None;
        for count in [256, 1024, 4096, 16_384] {
            let rules = lower(&generate(shape, count, 1)).expect("valid");
            let packets = packets(&rules, 1 << 16, 3);
            let planner = compile(rules, 2);
            let (batch, single) = costs(&planner, &packets);
            let (batch0, single0) = *first.get_or_insert((batch, single));
            println!(
                "growth/{}/{count}: batch {batch:.1} ns ({:.1}x), single {single:.1} ns ({:.1}x); {}",
                shape.name(),
                batch / batch0,
                single / single0,
                planner.info()
            );
        }
    }
}

/// Graphs of 16,384 rules: what leaves and first tables of other sizes cost, and why.
fn graphs() {
    for (shape, split) in
        [(Shape::Acl, Split::Source), (Shape::Fw, Split::Wide(24)), (Shape::Ipc, Split::Wide(24))]
    {
        let rules = Arc::new(lower(&generate(shape, 16_384, 1)).expect("valid"));
        let packets = packets(&rules, 1 << 16, 3);
        for (leaf, root_bits) in [(2, 16), (4, 16), (8, 16), (4, 20)] {
            let graph = Candidate::Graph { split, leaf, root_bits };
            let Some(compiled) = experiment(&rules, graph, 64 << 20) else {
                println!("graphs/{}: {graph}: larger than 64 MiB", shape.name());
                continue;
            };
            let (mut nodes, mut boxes) = (0, 0);
            for packet in &packets {
                let (passed, compared) = compiled.accesses(packet);
                (nodes, boxes) = (nodes + passed, boxes + compared);
            }
            let each = |count: usize| count as f64 / packets.len() as f64;
            let mut answers = [0; 64];
            let mut met = Matched::default();
            let batch = best(25, &packets, |packets| {
                for part in packets.chunks(64) {
                    compiled.find_batch(part, &mut answers[..part.len()], &mut met);
                }
            });
            println!(
                "graphs/{}: {graph}: batch {batch:.1} ns, {:.2} nodes and at most {:.2} boxes a packet, {} bytes",
                shape.name(),
                each(nodes),
                each(boxes),
                compiled.memory_bytes()
            );
        }
    }
}

/// Insertions and deletions at 16,384 rules, and lookups meanwhile.
fn changes() {
    for shape in [Shape::Acl, Shape::Fw, Shape::Ipc] {
        let rules = lower(&generate(shape, 16_384, 1)).expect("valid");
        let more = lower(&generate(shape, 1024, 9)).expect("valid");
        let packets = packets(&rules, 1 << 16, 3);
        let planner = compile(rules, 2);
        let ids = (0..16_384).map(RuleId).collect();
        let mut live = Live::new(Arc::clone(planner.compiled()), ids);
        let mut answers = [0; 64];
        let mut met = Matched::default();
        let mut speed = |live: &Live| {
            best(7, &packets, |packets| {
                for part in packets.chunks(64) {
                    live.find_batch(part, &mut answers[..part.len()], &mut met);
                }
            })
        };
        let before = speed(&live);
        for (turn, rule) in more.list().iter().enumerate() {
            let turn = turn as u64;
            let start = Instant::now();
            live = live
                .insert(RuleId(20_000 + turn), rule.clone(), Some(RuleId(turn * 16 + 1)))
                .expect("a valid rule");
            let insertion = start.elapsed();
            let start = Instant::now();
            live = live.delete(RuleId(turn * 16)).expect("it is there");
            let deletion = start.elapsed();
            if (turn + 1).is_power_of_two() {
                let during = speed(&live);
                println!(
                    "changes/{}/{}: insert {insertion:?}, delete {deletion:?}, lookups {during:.1} ns, \
                     {:.0} % of their speed",
                    shape.name(),
                    turn + 1,
                    before / during * 100.0
                );
            }
        }
        let mut hits = Hits::new(live.slots());
        let compiled = planner.compiled();
        let mut counted = |count: bool| {
            best(7, &packets, |packets| {
                for part in packets.chunks(64) {
                    compiled.find_batch(part, &mut answers[..part.len()], &mut met);
                    if count {
                        hits.add(&answers[..part.len()]);
                    }
                }
            })
        };
        let (without, with) = (counted(false), counted(true));
        println!("counters/{}: {without:.1} ns without, {with:.1} ns with", shape.name());
        assert!(answers.iter().any(|&answer| answer != NO_RULE), "some packets meet rules");
    }
}

/// A hundred thousand rules.
fn large() {
    for shape in [Shape::Acl, Shape::Fw, Shape::Ipc] {
        let rules = lower(&generate(shape, 100_000, 1)).expect("valid");
        let packets = packets(&rules, 1 << 18, 3);
        let start = Instant::now();
        let planner = compile(rules, 10);
        let took = start.elapsed().as_secs_f64();
        let (batch, single) = costs(&planner, &packets);
        println!(
            "large/{}: {took:.1} s, batch {batch:.1} ns ({:.2} M/s), single {single:.1} ns; {}",
            shape.name(),
            1e3 / batch,
            planner.info()
        );
    }
}
