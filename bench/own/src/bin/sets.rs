//! What prefix sets cost beside lookups: loading a list, and changes beside a reader.
//!
//! For: the figures in `docs/design/prefix-sets.md`. Not for: lookups alone, which
//! `whered-versus-sets` times beside rivals. Usage: `sets [SECONDS]`, three a part if not said.
//!
//! ```text
//! load     500,000 lines ──► entries ──► compiled set        and the same into a live set
//! live     1,000,000 prefixes; one thread removes and adds, one looks up: alone, then together
//! ```
//!
//! Answers are checked: the loaded set against the lines, the live table against the set. Rates are
//! by the clock on the wall, since two threads take part; the processor time of loading is given.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use whered_bench::measure::thread_cpu_nanoseconds;
use whered_bench::{Random, sets};
use whered_ip::{CompiledSet, LiveIpv4, LiveReader, Prefix, PrefixSet, SetFormat, read_set};

const LINES: usize = 500_000;
const MEMBERS: usize = 1_000_000;
/// How many changes come together, as a pipeline's do.
const COMMAND: usize = 64;

fn main() {
    let seconds: f64 = std::env::args()
        .nth(1)
        .map_or(3.0, |seconds| seconds.parse().expect("the first argument is a number of seconds"));
    load();
    live(seconds);
}

fn prefix((address, length_bits): sets::Prefix4) -> Prefix {
    let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(address)), length_bits);
    prefix.expect("generated lengths are those of the family")
}

/// Milliseconds of this thread.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let now = || thread_cpu_nanoseconds().expect("the thread has a clock");
    let (start, before) = (Instant::now(), now());
    let done = work();
    let (cpu, wall) = ((now() - before) as f64 / 1e6, start.elapsed().as_secs_f64() * 1e3);
    println!("{what}: {cpu:.1} ms of the processor, {wall:.1} ms in all");
    done
}

/// In no order.
fn shuffled<T>(mut things: Vec<T>) -> Vec<T> {
    let mut random = Random::new(2);
    for place in (1..things.len()).rev() {
        things.swap(place, random.below(place as u64 + 1) as usize);
    }
    things
}

fn load() {
    let list = sets::blocklist(LINES, 1);
    let lines = shuffled(list.iter().map(|net| prefix(*net).to_string()).collect());
    let text = format!("# a list\n{}\n", lines.join("\n"));
    let compiled = timed("load/500k-lines-shuffled/compiled", || {
        let mut blocks = Vec::with_capacity(LINES);
        read_set(SetFormat::Plain, text.as_bytes(), |entry| blocks.push(entry.block))
            .expect("the lines are right");
        CompiledSet::members(blocks)
    });
    println!("{}", compiled.explain());
    assert_eq!(compiled.len(), LINES);
    let live = timed("load/500k-lines-shuffled/live", || {
        let mut blocks = Vec::with_capacity(LINES);
        read_set(SetFormat::Plain, text.as_bytes(), |entry| blocks.push(entry.block))
            .expect("the lines are right");
        blocks.sort_unstable();
        let mut set = PrefixSet::new();
        for block in blocks {
            set.insert(block, None, None, 0);
        }
        set
    });
    assert_eq!(live.len(), LINES);
    println!("live set: {} bytes a member", live.memory_bytes() / LINES);
    let compiled = timed("compile/500k-members", || live.compile_members(0));
    for address in sets::members4(&list, 0.5, 200_000, 3) {
        let is_member = live.longest_match(IpAddr::V4(Ipv4Addr::from_bits(address)), 0).is_some();
        assert_eq!(compiled.lookup4(address) == 1, is_member);
    }
}

/// Looks up until told to stop; counts lookups.
fn read(reader: &LiveReader, addresses: &[u32], is_done: &AtomicBool, count: &AtomicU64) {
    let mut found = [0; 64];
    let mut sum = 0_u64;
    'all: loop {
        for addresses in addresses.chunks_exact(64) {
            reader.answers4(addresses, &mut found);
            sum += u64::from(found[0]);
            // One thread writes it: no need to lock the bus.
            count.store(count.load(Ordering::Relaxed) + 64, Ordering::Relaxed);
            if is_done.load(Ordering::Relaxed) {
                break 'all;
            }
        }
    }
    std::hint::black_box(sum);
}

fn live(seconds: f64) {
    let table: Vec<Prefix> = sets::full_table(MEMBERS, 1).into_iter().map(prefix).collect();
    let mut set = PrefixSet::new();
    let mut live = LiveIpv4::new();
    timed("live/1M-prefixes/fill", || {
        for prefix in &table {
            set.insert(*prefix, None, None, 0);
            live.insert(*prefix, 1);
        }
    });
    println!("live table: {} bytes, set: {} bytes", live.memory_bytes(), set.memory_bytes());
    let table = shuffled(table);
    let addresses = sets::uniform(1 << 20, 5);
    let (is_done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let reader = live.reader();
    std::thread::scope(|scope| {
        scope.spawn(|| read(&reader, &addresses, &is_done, &count));
        // Alone, beside changes, in turn, so that a noisy machine disturbs both alike.
        let (mut alone, mut beside, mut pairs_done) = (Vec::new(), Vec::new(), Vec::new());
        let mut costs = Vec::new();
        let mut random = Random::new(9);
        for _ in 0..5 {
            let part = Duration::from_secs_f64(seconds / 5.0);
            let rate = |from: u64, since: Instant| {
                (count.load(Ordering::Relaxed) - from) as f64 / since.elapsed().as_secs_f64() / 1e6
            };
            let (from, since) = (count.load(Ordering::Relaxed), Instant::now());
            while since.elapsed() < part {
                std::thread::park_timeout(part);
            }
            alone.push(rate(from, since));
            let (from, since, mut pairs) = (count.load(Ordering::Relaxed), Instant::now(), 0_u64);
            let cpu = thread_cpu_nanoseconds().expect("the thread has a clock");
            while since.elapsed() < part {
                change(&mut live, &table, &mut random);
                pairs += COMMAND as u64;
            }
            beside.push(rate(from, since));
            pairs_done.push(pairs as f64 / since.elapsed().as_secs_f64() / 1e6);
            let cpu = thread_cpu_nanoseconds().expect("the thread has a clock") - cpu;
            costs.push(cpu as f64 / pairs as f64);
        }
        is_done.store(true, Ordering::Relaxed);
        let median = whered_bench::measure::median;
        println!(
            "live/1M-prefixes/remove+insert: {:.2} M pairs/s, {:.0} ns of the processor each; reader alone {:.1} M/s, beside {:.1} M/s ({:.0} %)",
            median(&pairs_done),
            median(&costs),
            median(&alone),
            median(&beside),
            100.0 * median(&beside) / median(&alone)
        );
    });
    let reader = live.reader();
    for address in sets::uniform(300_000, 6) {
        let expected = set.longest_match(IpAddr::V4(Ipv4Addr::from_bits(address)), 0);
        let length = expected.and_then(|found| found.block.as_prefix()).map(|p| p.length_bits());
        assert_eq!(reader.lookup4(address).map(|found| found.length_bits), length);
    }
}

/// One command: its prefixes go, and come back; each change is seen at once.
fn change(live: &mut LiveIpv4, table: &[Prefix], random: &mut Random) {
    // Commands bring their prefixes with them, one beside the other.
    let first = random.below((table.len() - COMMAND) as u64) as usize;
    let chosen = &table[first..first + COMMAND];
    live.warm(chosen);
    for gone in chosen {
        assert_eq!(live.remove(gone), Some(1));
        assert_eq!(live.insert(*gone, 1), None);
    }
    if live.retired_words() > 1 << 16 {
        // The one reader has gone on by far more than a lookup since.
        live.reclaim();
    }
}
