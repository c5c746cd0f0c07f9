//! Ordered rules: whered's classifier beside DPDK's rte_acl, one run, the same packets, equal answers.
//!
//! ```text
//! whered-versus-rules [--huge] [--rounds N] [--seed N] [--more SECONDS] FILE|acl:16384|fw:16384|ipc:16384 ...
//! ```
//!
//! Not for prefix sets. A file is one of ClassBench's; a name with a number comes from our own
//! generator. The README says what favours which side.

mod acl;

use acl::{Acl, AclPacket};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use whered_bench::measure::{median, median_of_ratios, thread_cpu_nanoseconds};
use whered_bench::rules::{
    FiveTuple, Proportions, Shape, generate, lower, packets, read_classbench,
};
use whered_rules::classify::plan::{Budget, Planner};
use whered_rules::classify::{Compiled, Field, Met, NO_RULE, Packet};

/// Packets of a batch, both sides.
const BATCH: usize = 64;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("whered-versus-rules: {message}");
            ExitCode::from(2)
        }
    }
}

/// Measures every ruleset that is named.
fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut huge, mut rounds, mut seed, mut more) = (false, 15, 1, 0);
    let mut names = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut number = |what: &str| {
            let text = arguments.next().ok_or_else(|| format!("{what} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{what} {text}: not a number"))
        };
        match argument.as_str() {
            "--huge" => huge = true,
            "--rounds" => rounds = number("--rounds")?,
            "--more" => more = number("--more")?,
            "--seed" => seed = number("--seed")?,
            _ => names.push(argument),
        }
    }
    acl::start(huge)?;
    for name in names {
        let rules = ruleset(&name, seed)?;
        println!("{name}: {}", Proportions::of(&rules));
        measure(&rules, rounds, seed, more)?;
    }
    Ok(())
}

/// The rules behind a name.
fn ruleset(name: &str, seed: u64) -> Result<Vec<FiveTuple>, String> {
    if let Some((shape, count)) = name.split_once(':') {
        let shapes = [Shape::Acl, Shape::Fw, Shape::Ipc];
        let shape = shapes.into_iter().find(|one| one.name() == shape);
        let shape = shape.ok_or_else(|| format!("{name}: allowed are acl, fw and ipc"))?;
        let count = count.parse().map_err(|_| format!("{name}: not a number of rules"))?;
        return Ok(generate(shape, count, seed));
    }
    let text = std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    read_classbench(&text).map_err(|line| format!("{name}:{line}: not a ClassBench rule"))
}

/// The fastest of rte_acl's ways here.
fn fastest(acl: &mut Acl, pointers: &[*const u8], results: &mut [u32]) -> Result<i32, String> {
    let mut best = (u64::MAX, 0);
    for algorithm in [2, 3, 6, 7] {
        if !acl.choose(algorithm) {
            continue;
        }
        for _ in 0..3 {
            let start = now()?;
            acl.classify(pointers, results, BATCH);
            best = best.min((now()? - start, algorithm));
        }
    }
    acl.choose(best.1);
    Ok(best.1)
}

fn now() -> Result<u64, String> {
    thread_cpu_nanoseconds().map_err(|error| error.to_string())
}

/// Both sides on one ruleset.
fn measure(rules: &[FiveTuple], rounds: u64, seed: u64, more: u64) -> Result<(), String> {
    let lowered = lower(rules).map_err(|error| error.to_string())?;
    let packets = packets(&lowered, 1 << 16, seed);
    let theirs: Vec<AclPacket> = packets.iter().map(their_packet).collect();
    let pointers: Vec<*const u8> =
        theirs.iter().map(|one| std::ptr::from_ref(one).cast()).collect();
    let mut results = vec![0; packets.len()];
    let start = Instant::now();
    let mut acl = Acl::build(rules, 0).ok_or("rte_acl does not build")?;
    let algorithm = fastest(&mut acl, &pointers, &mut results)?;
    println!("  rte_acl built in {:.2} s, way {algorithm}", start.elapsed().as_secs_f64());
    let epoch = Instant::now();
    let clock = || epoch.elapsed();
    let start = Instant::now();
    let mut planner = Planner::new(lowered, Budget::default(), &clock);
    println!("  built in {:.2} s: {}", start.elapsed().as_secs_f64(), planner.info());
    compare(planner.compiled(), &acl, &packets, &pointers, rounds)?;
    if more > 0 {
        let start = Instant::now();
        planner.plan_more(Duration::from_secs(more), &clock);
        println!("  after {:.2} s more: {}", start.elapsed().as_secs_f64(), planner.info());
        for (candidate, trial) in &planner.info().tried {
            println!("    {candidate}: {trial:?}");
        }
        compare(planner.compiled(), &acl, &packets, &pointers, rounds)?;
    }
    Ok(())
}

/// The same packet for rte_acl.
fn their_packet(packet: &Packet) -> AclPacket {
    let fields = [
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
        Field::Protocol,
    ];
    AclPacket::new(fields.map(|field| packet.get(field)))
}

/// Rounds in turn; equal answers.
fn compare(
    ours: &Compiled,
    acl: &Acl,
    packets: &[Packet],
    pointers: &[*const u8],
    rounds: u64,
) -> Result<(), String> {
    let mut answers = vec![0; packets.len()];
    let mut results = vec![0; packets.len()];
    let mut met = Met::default();
    let (mut batch, mut single, mut rival) = (Vec::new(), Vec::new(), Vec::new());
    // Each side's part of a round begins with an untimed pass over a half of the packets, so that
    // it finds the caches as it would leave them itself.
    let half = packets.len() / 2;
    for _ in 0..rounds {
        for (packets, answers) in packets[half..].chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            ours.find_batch(packets, answers, &mut met);
        }
        let start = now()?;
        for (packets, answers) in packets.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            ours.find_batch(packets, answers, &mut met);
        }
        batch.push((now()? - start) as f64 / packets.len() as f64);
        acl.classify(&pointers[half..], &mut results[half..], BATCH);
        let start = now()?;
        acl.classify(pointers, &mut results, BATCH);
        rival.push((now()? - start) as f64 / packets.len() as f64);
        let mut none = Vec::new();
        for packet in &packets[half..] {
            std::hint::black_box(ours.find(packet, &mut none));
        }
        let start = now()?;
        let sum = packets.iter().fold(0u64, |sum, packet| {
            sum.wrapping_add(u64::from(ours.find(packet, &mut none).unwrap_or(NO_RULE)))
        });
        single.push((now()? - start) as f64 / packets.len() as f64);
        if sum != answers.iter().fold(0, |sum, &answer| sum + u64::from(answer)) {
            return Err("single calls and batches differ".to_owned());
        }
        if answers.iter().zip(&results).any(|(&ours, &theirs)| ours.wrapping_add(1) != theirs) {
            return Err("rte_acl and whered differ".to_owned());
        }
    }
    println!(
        "    batch {:.1} ns ({:.1} M/s), single {:.1} ns ({:.1} M/s), rte_acl {:.1} ns ({:.1} M/s): {:.2}x",
        median(&batch),
        1e3 / median(&batch),
        median(&single),
        1e3 / median(&single),
        median(&rival),
        1e3 / median(&rival),
        median_of_ratios(&batch, &rival)
    );
    Ok(())
}
