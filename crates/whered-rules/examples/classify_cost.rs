//! Costs of compiled forms on a file of ClassBench rules, for the choice of forms.
//!
//! `cargo run --release -p whered-rules --example classify_cost -- FILE...`
use std::sync::Arc;
use std::time::Instant;
use whered_rules::classify::plan::{Split, experiment};
use whered_rules::classify::{Condition, Family, Field, Met, Packet, Rule, Rules};

fn prefix(text: &str) -> (u128, u128) {
    let (address, length) = text.split_once('/').expect("prefix");
    let address =
        address.split('.').fold(0u32, |sum, part| sum << 8 | part.parse::<u32>().expect("octet"));
    let length: u32 = length.parse().expect("length");
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (u128::from(address & mask), u128::from(address | !mask))
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).expect("hex")
}

fn rule(line: &str) -> Rule {
    let parts: Vec<&str> = line.trim_start_matches('@').split('\t').collect();
    let port = |text: &str| {
        let (low, high) = text.split_once(':').expect("range");
        (low.trim().parse().expect("port"), high.trim().parse().expect("port"))
    };
    let mut conditions = vec![];
    let mut add = |field: Field, ranges: Vec<(u128, u128)>| {
        if ranges != [(0, field.max(Family::V4))] {
            conditions.push(Condition { field, ranges });
        }
    };
    add(Field::Source, vec![prefix(parts[0])]);
    add(Field::Destination, vec![prefix(parts[1])]);
    add(Field::SourcePort, vec![port(parts[2])]);
    add(Field::DestinationPort, vec![port(parts[3])]);
    let masked = |text: &str, shift: u32| {
        let (value, mask) = text.split_once('/').expect("mask");
        let (value, mask) = (hex(value) >> shift, hex(mask) >> shift);
        let mut ranges: Vec<(u128, u128)> = vec![];
        for n in (0..256u32).filter(|n| n & mask == value & mask) {
            match ranges.last_mut() {
                Some(last) if last.1 + 1 == u128::from(n) => last.1 = u128::from(n),
                _ => ranges.push((n.into(), n.into())),
            }
        }
        ranges
    };
    add(Field::Protocol, masked(parts[4], 0));
    add(Field::TcpFlags, masked(parts[5], 8));
    Rule { conditions, terminal: true, verdict: 0 }
}

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn trace(rules: &Rules, count: usize) -> Vec<Packet> {
    let mut random = Random(7);
    let fields = [
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
        Field::Protocol,
        Field::TcpFlags,
    ];
    (0..count)
        .map(|_| {
            let mut packet = Packet::new(0, 0);
            let rule = &rules.list()[random.next() as usize % rules.list().len()];
            let any = random.next() % 10 == 0;
            for field in fields {
                let max = field.max(Family::V4);
                let mut range = (0, max);
                if let Some(c) = rule.conditions.iter().find(|c| c.field == field && !any) {
                    range = c.ranges[random.next() as usize % c.ranges.len()];
                }
                let span = (range.1 - range.0 + 1) as u64;
                let value = match random.next() % 4 {
                    0 if span < 1 << 32 => range.0,
                    1 if span < 1 << 32 => range.1,
                    _ => range.0 + u128::from(random.next() % span),
                };
                packet.set(field, value as u32);
            }
            packet
        })
        .collect()
}

fn main() {
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).expect("file");
        let rules =
            Arc::new(Rules::new(Family::V4, text.lines().map(rule).collect()).expect("rules"));
        let packets = trace(&rules, 1 << 15);
        println!("{file}: {} rules", rules.list().len());
        for split in [Split::One(1), Split::Narrower, Split::Wide(24), Split::Wide(31)] {
            for leaf in [2, 4, 8] {
                let start = Instant::now();
                let Some(compiled) = experiment(&rules, split, leaf, 16, 512 << 20) else {
                    println!("  {split:?} leaf {leaf}: too large, {:?}", start.elapsed());
                    continue;
                };
                let built = start.elapsed();
                let mut answers = vec![0; packets.len()];
                let mut met = Met::default();
                let mut best = f64::MAX;
                let mut single = f64::MAX;
                for _ in 0..12 {
                    let start = Instant::now();
                    for (p, a) in packets.chunks(64).zip(answers.chunks_mut(64)) {
                        compiled.find_batch(p, a, &mut met);
                    }
                    best = best.min(start.elapsed().as_secs_f64() / packets.len() as f64 * 1e9);
                    let start = Instant::now();
                    let mut sum = 0u64;
                    let mut met = vec![];
                    for p in &packets {
                        sum += u64::from(compiled.find(p, &mut met).unwrap_or(0));
                    }
                    std::hint::black_box(sum);
                    single = single.min(start.elapsed().as_secs_f64() / packets.len() as f64 * 1e9);
                }
                println!(
                    "  {split:?} leaf {leaf}: batch {best:.1} ns ({:.1} M/s), single {single:.1} ns ({:.1} M/s), {:.1} MB, built {built:?}",
                    1e3 / best,
                    1e3 / single,
                    compiled.memory_bytes() as f64 / 1e6
                );
            }
        }
    }
}
