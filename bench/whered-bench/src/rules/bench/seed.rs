//! The three-part ruleset of 2007: what answers comes first, N addresses that never match, the
//! port.
//!
//! ```text
//! state {established related} accept
//! src 10.1.2.0/24 accept              N of them, below 64.0.0.0
//! proto tcp dport 80 state new accept
//! ```
//!
//! Packets come from above 128.0.0.0, in four lists: all of the first part, all of the third, all
//! that nothing matches, and the three in turn.

use super::rounds::{Engine, Row, Table, repeated, run};
use super::{Options, shapes};
use crate::Random;
use crate::measure::weighed;
use crate::sets::{Prefix4, cidrs, masked4};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};
use whered_rules::classify::plan::{Budget, Planner};
use whered_rules::classify::{Condition, Family, Field, Packet, Rule, Rules};
use whered_rules::compile::Matcher;
use whered_rules::naive::NoSets;
use whered_rules::normal::NoPlaces;
use whered_rules::{State, text};

const PACKETS: usize = 1 << 15;
/// The connection's state.
const STATE: Field = Field::Word(5);

/// The addresses that never match.
pub(super) fn addresses(count: usize, seed: u64) -> Vec<Prefix4> {
    // Twice as many, since some become the same below.
    let below = |(address, length): Prefix4| (masked4(address & 0x3fff_ffff, length), length);
    let mut list: Vec<Prefix4> = cidrs(count * 2, seed).into_iter().map(below).collect();
    list.sort_unstable();
    list.dedup();
    let mut random = Random::new(seed + 1);
    for place in (1..list.len()).rev() {
        list.swap(place, random.below(place as u64 + 1) as usize);
    }
    list.truncate(count);
    list
}

fn rules(prefixes: &[Prefix4]) -> Rules {
    let one = |field, range: (u128, u128)| Condition { field, ranges: vec![range] };
    let accept = |conditions| Rule { conditions, terminal: true, verdict: 1 };
    let source = |(address, length): &Prefix4| {
        let (low, high) = crate::rules::addresses(*address, *length);
        accept(vec![one(Field::Source, (low.into(), high.into()))])
    };
    let mut list = vec![accept(vec![one(STATE, (2, 3))])];
    list.extend(prefixes.iter().map(source));
    list.push(accept(vec![
        one(Field::Protocol, (6, 6)),
        one(Field::DestinationPort, (80, 80)),
        one(STATE, (1, 1)),
    ]));
    Rules::new(Family::V4, list).expect("ranges of one value, or of a prefix")
}

/// The rules of 2007 in whered's form.
fn text_of(prefixes: &[Prefix4]) -> String {
    let mut out =
        String::from("chain input policy drop {\n    state {established related} accept\n");
    for (address, length) in prefixes {
        out.push_str(&format!("    src {}/{length} accept\n", Ipv4Addr::from_bits(*address)));
    }
    out.push_str("    proto tcp dport 80 state new accept\n}\n");
    out
}

/// The kinds of packets, and those that take turns.
const LISTS: [&str; 4] = ["", ", first part", ", last part", ", nothing matches"];

fn packets(list: usize, seed: u64) -> Vec<Packet> {
    let mut random = Random::of(seed, 71, list as u64);
    let packet = |turn| {
        let kind = if list == 0 { 1 + turn % 3 } else { list };
        let mut packet = Packet::new(random.next_u64() as u32 | 1 << 31, random.next_u64() as u32);
        packet.set(Field::Protocol, 6);
        packet.set(Field::SourcePort, 1024 + random.below(60_000) as u32);
        packet.set(Field::DestinationPort, if kind == 3 { 81 } else { 80 });
        packet.set(STATE, if kind == 1 { 2 } else { 1 });
        packet
    };
    (0..PACKETS).map(packet).collect()
}

/// One size.
pub(super) fn measure(options: &Options, count: usize) -> Result<Table, String> {
    let prefixes = addresses(count, options.seed);
    let epoch = Instant::now();
    let planner = Planner::new(rules(&prefixes), Budget::default(), &|| epoch.elapsed());
    let built = epoch.elapsed().as_secs_f64();
    let ruleset =
        text::read("seed.rules", &text_of(&prefixes)).map_err(|error| error.to_string())?;
    let budget = Budget { time: Duration::from_millis(500), ..Budget::default() };
    let matcher = Matcher::build(&ruleset, &NoPlaces, budget, &|| epoch.elapsed())
        .map_err(|error| error.to_string())?;
    let mut rows: Vec<Row> = Vec::new();
    for (list, suffix) in LISTS.iter().enumerate() {
        let packets = packets(list, options.seed);
        shapes::check_by_scan(planner.compiled(), &packets)?;
        let whole: Vec<_> = packets.iter().map(whole).collect();
        let mut engines = shapes::ours(planner.compiled(), &packets, suffix);
        engines.push(ruleset_engine(&matcher, &whole, suffix));
        let parts = repeated(packets.len(), options.rounds);
        rows.extend(run(&mut engines, &parts)?);
    }
    Ok(Table {
        note: planner.info().to_string(),
        entries: count + 2,
        facts: vec![("built seconds".to_owned(), built)],
        rows,
        ..Table::default()
    })
}

/// A packet as rulesets take it.
fn whole(packet: &Packet) -> whered_rules::Packet<'static> {
    let address = |field| IpAddr::V4(Ipv4Addr::from_bits(packet.get(field)));
    whered_rules::Packet {
        source: address(Field::Source),
        destination: address(Field::Destination),
        protocol: packet.get(Field::Protocol) as u8,
        source_port: packet.get(Field::SourcePort) as u16,
        destination_port: packet.get(Field::DestinationPort) as u16,
        state: if packet.get(STATE) == 2 { State::Established } else { State::New },
        ..whered_rules::Packet::default()
    }
}

/// One at a time through all of a ruleset: names, chains and verdicts too.
fn ruleset_engine<'a>(
    matcher: &'a Matcher,
    packets: &'a [whered_rules::Packet<'a>],
    suffix: &str,
) -> Engine<'a> {
    let name = format!("ruleset single{suffix}");
    Engine::new(name, matcher.memory_bytes(), move |part: Range<usize>| {
        let each = packets[part].iter().enumerate();
        each.fold(0, |sum, (place, packet)| {
            let rule = matcher.find(packet, &NoSets).rule;
            weighed(sum, place, rule.map_or(0, |rule| rule.index() as u32 + 1))
        })
    })
}
