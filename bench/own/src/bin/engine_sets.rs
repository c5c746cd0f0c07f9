//! The cost of prefix sets through the engine: loading, lookups, and reads during changes and
//! compactions.
//!
//! For: the figures "through the engine" in `docs/design/prefix-sets.md`. Not for: the forms alone
//! (`whered-versus-sets`) nor the protocol. Usage: `engine_sets [SECONDS]`, two a part.
//!
//! ```text
//! load     500,000 shuffled lines ──► set that answers, journal written and synced
//! lookups  full table, blocklist: one address a call, 64 and 1,024 a call; the compiled form alone
//! changes  1,000,000 prefixes: a writer removes and adds, a thread folds, a reader looks up
//! ```
//!
//! Answers are checked: each loaded member is found, lookups agree with the compiled form, and each
//! change is seen at once. Times of one thread are the processor's; rates beside changes are by the
//! clock on the wall, since three threads take part.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use whered_bench::measure::{median, thread_cpu_nanoseconds};
use whered_bench::{Random, sets};
use whered_engine::ip::{Block, CompiledSet, MemberList, Prefix};
use whered_engine::{Engine, EngineOptions, LoadOptions, PrefixSets};

const LINES: usize = 500_000;
const MEMBERS: usize = 1_000_000;
const ROUNDS: usize = 5;

fn main() {
    let seconds: f64 = std::env::args()
        .nth(1)
        .map_or(2.0, |seconds| seconds.parse().expect("the first argument is a number of seconds"));
    load();
    lookups(seconds);
    changes(seconds);
}

fn block((address, length_bits): sets::Prefix4) -> Block {
    let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(address)), length_bits);
    prefix.expect("generated lengths are those of the family").into()
}

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(number))
}

fn engine(directory: Option<&Path>) -> Arc<Engine> {
    let data_dir = directory.map(Path::to_path_buf);
    Engine::open(EngineOptions { data_dir, ..EngineOptions::default() }).expect("it opens").0
}

fn cpu() -> u64 {
    thread_cpu_nanoseconds().expect("the thread has a clock")
}

fn load() {
    let list = sets::blocklist(LINES, 1);
    let mut lines: Vec<String> = list.iter().map(|net| block(*net).to_string()).collect();
    let mut random = Random::new(2);
    for place in (1..lines.len()).rev() {
        lines.swap(place, random.below(place as u64 + 1) as usize);
    }
    let text = lines.join("\n");
    let directory = std::env::temp_dir().join(format!("whered-engine-sets-{}", std::process::id()));
    let engine = engine(Some(&directory));
    let how = LoadOptions { replaces: true, ..LoadOptions::default() };
    let (mut answering, mut durable, mut processor) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (start, before) = (Instant::now(), cpu());
        let written = engine.prefix_sets().load_text("s", text.as_bytes(), &how).expect("room");
        answering.push(start.elapsed().as_secs_f64() * 1e3);
        processor.push((cpu() - before) as f64 / 1e6);
        engine.wait_durable(written.ticket).expect("the disk works");
        durable.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(written.value, LINES);
    }
    println!(
        "load/500k-lines-shuffled/replace: {:.0} ms of the processor, answers after {:.0} ms, \
         durable after {:.0} ms",
        median(&processor),
        median(&answering),
        median(&durable)
    );
    let found = engine.prefix_sets().read("s", |set| {
        println!("  {} bytes a member in all", set.memory_bytes() / LINES);
        list.iter().filter(|net| set.get(block(**net), 0).is_some()).count()
    });
    assert_eq!(found, Some(LINES));
    engine.close().expect("the disk works");
    std::fs::remove_dir_all(&directory).expect("it is ours");
}

/// Millions a second of `work`, which does `count` at once; the median of some rounds.
fn rate(seconds: f64, count: usize, mut work: impl FnMut()) -> f64 {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let (since, before, mut done) = (Instant::now(), cpu(), 0_u64);
        while since.elapsed().as_secs_f64() < seconds / ROUNDS as f64 {
            work();
            done += count as u64;
        }
        rates.push(done as f64 * 1e3 / (cpu() - before) as f64);
    }
    median(&rates)
}

fn lookups(seconds: f64) {
    let engine = engine(None);
    let table = sets::full_table(MEMBERS, 1);
    let list = sets::blocklist(LINES, 1);
    let members = sets::members4(&list, 0.5, 1 << 16, 3);
    let shapes = [("full-table", table, sets::uniform(1 << 16, 5)), ("blocklist", list, members)];
    for (shape, nets, numbers) in shapes {
        let mut all = MemberList::new();
        nets.iter().for_each(|net| all.push(block(*net), None, None));
        engine.prefix_sets().load(shape, all, true).expect("there is room");
        let compiled = CompiledSet::build(nets.iter().map(|net| block(*net)).zip(1..));
        let addresses: Vec<IpAddr> = numbers.iter().map(|number| address(*number)).collect();
        let (sets, now) = (engine.prefix_sets(), engine.now_millis());
        for (address, number) in addresses.iter().zip(&numbers) {
            let found = sets.read(shape, |set| set.longest_match(*address, now).map(|m| m.block));
            let place = compiled.lookup4(*number).checked_sub(1);
            let expected = place.map(|place| block(nets[place as usize]));
            assert_eq!(found, Some(expected));
        }
        let alone = rate(seconds, numbers.len(), || {
            for number in &numbers {
                black_box(compiled.lookup4(*number));
            }
        });
        let single = rate(seconds, numbers.len(), || {
            for address in &addresses {
                black_box(sets.read(shape, |set| set.contains(*address, now)));
            }
        });
        let batches = [64, 1024].map(|size| {
            rate(seconds, numbers.len(), || {
                for addresses in addresses.chunks(size) {
                    sets.read(shape, |set| {
                        let mut found = Vec::new();
                        set.longest_match_batch(addresses, now, &mut found);
                        black_box(found.len());
                    });
                }
            })
        });
        println!(
            "lookup/{shape}: {single:.1} M/s one a call, {:.1} M/s in batches of 64, {:.1} of 1,024; \
             compiled form alone, singly {alone:.1}",
            batches[0], batches[1]
        );
    }
}

fn changes(seconds: f64) {
    let engine = engine(None);
    let nets: Vec<Block> = sets::full_table(MEMBERS, 1).into_iter().map(block).collect();
    let mut all = MemberList::new();
    nets.iter().for_each(|block| all.push(*block, None, None));
    let sets = engine.prefix_sets();
    sets.load("s", all, true).expect("there is room");
    let numbers = sets::uniform(1 << 18, 5);
    let (is_done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| read(sets, &numbers, &is_done, &count));
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                sets.compact_due();
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        for command in [1, 64] {
            let mut random = Random::new(9);
            let (mut alone, mut beside, mut pairs_a_second) = (Vec::new(), Vec::new(), Vec::new());
            let part = Duration::from_secs_f64(seconds / 2.0);
            for _ in 0..ROUNDS {
                sets.compact_all();
                let (from, since) = (count.load(Ordering::Relaxed), Instant::now());
                while since.elapsed() < part {
                    std::thread::park_timeout(part);
                }
                let rate = |from, since: Instant| {
                    (count.load(Ordering::Relaxed) - from) as f64 / since.elapsed().as_secs_f64()
                };
                alone.push(rate(from, since) / 1e6);
                let (from, since, mut pairs) = (count.load(Ordering::Relaxed), Instant::now(), 0);
                while since.elapsed() < part {
                    pairs += change(sets, &nets, command, &mut random);
                }
                beside.push(rate(from, since) / 1e6);
                pairs_a_second.push(pairs as f64 / since.elapsed().as_secs_f64() / 1e6);
            }
            let info = sets.info("s").expect("the set is there");
            println!(
                "changes/1M-prefixes/{command}-a-command: {:.3} M pairs/s; reader alone {:.1} M/s, \
                 beside {:.1} M/s ({:.0} %); {} folds, the last took {:.0} ms",
                median(&pairs_a_second),
                median(&alone),
                median(&beside),
                100.0 * median(&beside) / median(&alone),
                info.folds,
                info.last_compaction.map_or(0.0, |(_, took)| took.as_secs_f64() * 1e3),
            );
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(sets.read("s", whered_engine::ip::LayeredSet::len), Some(MEMBERS));
}

/// One command of removals and one of additions; each is seen at once.
fn change(sets: &PrefixSets, nets: &[Block], command: usize, random: &mut Random) -> usize {
    let first = random.below((nets.len() - command) as u64) as usize;
    let chosen = &nets[first..first + command];
    assert_eq!(sets.remove("s", chosen).expect("there is room").value, command);
    assert_eq!(sets.read("s", |set| set.get(chosen[0], 0).is_some()), Some(false));
    assert_eq!(sets.add("s", chosen, None, None).expect("there is room").value, command);
    command
}

/// Looks up until told to stop; counts lookups.
fn read(sets: &PrefixSets, numbers: &[u32], is_done: &AtomicBool, count: &AtomicU64) {
    let addresses: Vec<IpAddr> = numbers.iter().map(|number| address(*number)).collect();
    let mut found = 0_u64;
    while !is_done.load(Ordering::Relaxed) {
        for addresses in addresses.chunks(64) {
            for address in addresses {
                let held = sets.read("s", |set| set.contains(*address, 0));
                found += u64::from(held == Some(true));
            }
            count.fetch_add(64, Ordering::Relaxed);
            if is_done.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    black_box(found);
}
