//! What `src.country` and `src.asn` cost: a ruleset with them beside the same without, both through
//! the engine, whose databases say where an address is.
//!
//! ```text
//! src 1.2.3.0/24 dst ... proto tcp dport 80 accept
//! src 5.6.7.8/32 dst ... proto tcp dport 22 src.country = DE accept      every fourth, in turn
//! src 9.9.9.9/32 dst ... proto udp dport 53 src.asn = 3320 accept        with a country, a number
//! ```
//!
//! Values are those of addresses that are asked, so that conditions hold now and then. Packets are
//! the same for both rulesets. Every answer of a sample is held against the walk through the
//! chains, which asks the database itself.

use super::Options;
use super::rounds::{Engine, Table, repeated, run};
use crate::measure::weighed;
use crate::rules::{FiveTuple, Shape, generate, lower, packets};
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use whered_engine::rules::Packet;
use whered_engine::rules::classify::{self, Field};
use whered_engine::{
    DatabaseSource, Edition, Engine as Data, EngineOptions, Generation, RulesetSource, Setup,
};

/// Packets of a batch.
const BATCH: usize = 64;
/// How many packets are held against the walk.
const WALKED: usize = 100;
/// One of how many rules asks for a place.
const ONE_OF: usize = 4;

/// One shape and size; `folder` has city.mmdb and asn.mmdb.
pub(super) fn measure(
    options: &Options,
    folder: &Path,
    shape: Shape,
    count: usize,
) -> Result<Table, String> {
    let rules = generate(shape, count, options.seed);
    let lowered = lower(&rules).map_err(|error| error.to_string())?;
    let packets = packets(&lowered, options.packets, options.seed);
    let packets: Vec<Packet<'_>> = packets.iter().map(whole).collect();
    let scratch = std::env::temp_dir().join(format!("whered-rules-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let made = compiled(options, folder, &scratch, &rules, &packets);
    // What is left there is nobody's data.
    let _ = fs::remove_dir_all(&scratch);
    let (data, generation) = made?;
    let mut engines = Vec::new();
    let mut note = String::new();
    let mut facts = Vec::new();
    for name in ["without", "with"] {
        let ruleset = generation.ruleset(name).ok_or("the ruleset is not there")?;
        let edition = ruleset.edition();
        check_by_walk(&data, &edition, &packets)?;
        engines.extend(ours(&data, name, &edition, &packets));
        let info = edition.plan(whered_engine::rules::Family::Ipv4);
        let _ = write!(note, "{name}: {info}\n\n");
        facts.push((format!("{name}: seconds"), ruleset.compile_time.as_secs_f64()));
    }
    let rows = run_apart(&mut engines, options, packets.len())?;
    Ok(Table { note, entries: count, facts, rows, ..Table::default() })
}

/// The engines of each ruleset agree with each other; those of the two do not. Rounds go in turn.
fn run_apart(
    engines: &mut Vec<Engine<'_>>,
    options: &Options,
    count: usize,
) -> Result<Vec<super::rounds::Row>, String> {
    let mut with = engines.split_off(engines.len() / 2);
    let mut rows: Vec<super::rounds::Row> = Vec::new();
    for _ in 0..options.rounds {
        let mut round = run(engines, &repeated(count, 1))?;
        round.extend(run(&mut with, &repeated(count, 1))?);
        if rows.is_empty() {
            rows = round;
            continue;
        }
        for (row, new) in rows.iter_mut().zip(round) {
            row.nanoseconds.extend(new.nanoseconds);
        }
    }
    Ok(rows)
}

fn compiled(
    options: &Options,
    folder: &Path,
    scratch: &Path,
    rules: &[FiveTuple],
    packets: &[Packet<'_>],
) -> Result<(Arc<Data>, Arc<Generation>), String> {
    let open = |rulesets| {
        let names = ["city", "asn"];
        let databases =
            names.map(|name| DatabaseSource::new(name, folder.join(format!("{name}.mmdb"))));
        let setup = Setup { databases: databases.to_vec(), rulesets, ..Setup::default() };
        let options = EngineOptions { setup, ..EngineOptions::default() };
        Data::open(options).map(|(data, _)| data).map_err(|error| error.to_string())
    };
    let conditions = conditions(&open(Vec::new())?.generation(), packets, options.seed)?;
    let file = |name: &str, conditions: &[String]| {
        let path = scratch.join(format!("{name}.rules"));
        fs::write(&path, text_of(rules, conditions)).map_err(|error| error.to_string())?;
        Ok::<_, String>(RulesetSource::new(name, path))
    };
    let data = open(vec![file("without", &[])?, file("with", &conditions)?])?;
    let generation = data.generation();
    Ok((data, generation))
}

/// Twenty countries and twenty numbers of networks, as conditions in turn.
fn conditions(
    generation: &Generation,
    packets: &[Packet<'_>],
    seed: u64,
) -> Result<Vec<String>, String> {
    let mut random = crate::Random::of(seed, 72, 0);
    let asked =
        [("city", "country.iso_code", "country"), ("asn", "autonomous_system_number", "asn")];
    let mut found: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for (list, (database, path, word)) in found.iter_mut().zip(asked) {
        let named = generation.database(database).ok_or("the database is not there")?;
        let path = path.parse().expect("constant paths of words and dots");
        for _ in 0..100_000 {
            if list.len() == 20 {
                break;
            }
            let address = random.pick(packets).source;
            let record = named.lookup(address).map_err(|error| error.to_string())?.record;
            let Some(record) = record else { continue };
            let value = named.field(record, &path).map_err(|error| error.to_string())?;
            let Some(value) = value else { continue };
            let mut text = format!("src.{word} = ").into_bytes();
            value.write_json(&mut text);
            let text = String::from_utf8_lossy(&text).replace('"', "");
            if !list.contains(&text) {
                list.push(text);
            }
        }
    }
    let [countries, numbers] = found;
    Ok(countries.into_iter().zip(numbers).flat_map(|(one, other)| [one, other]).collect())
}

/// The rules in our own words; every fourth with one of the conditions.
fn text_of(rules: &[FiveTuple], conditions: &[String]) -> String {
    let mut out = String::from("chain input policy drop {\n");
    for (place, rule) in rules.iter().enumerate() {
        out.push_str("   ");
        for (word, address, length) in [
            ("src", rule.source, rule.source_length),
            ("dst", rule.destination, rule.destination_length),
        ] {
            if length > 0 {
                let _ = write!(out, " {word} {}/{length}", Ipv4Addr::from_bits(address));
            }
        }
        if let Some(protocol) = rule.protocol {
            let _ = write!(out, " proto {protocol}");
        }
        for (word, ports) in [("sport", rule.source_ports), ("dport", rule.destination_ports)] {
            if ports != (0, u16::MAX) && matches!(rule.protocol, Some(6 | 17)) {
                let _ = write!(out, " {word} {}-{}", ports.0, ports.1);
            }
        }
        if let Some(condition) = conditions.get(place / ONE_OF % conditions.len().max(1))
            && place % ONE_OF == 0
        {
            let _ = write!(out, " {condition}");
        }
        out.push_str(" accept\n");
    }
    out.push_str("}\n");
    out
}

fn whole(packet: &classify::Packet) -> Packet<'static> {
    let address = |field| IpAddr::V4(Ipv4Addr::from_bits(packet.get(field)));
    Packet {
        source: address(Field::Source),
        destination: address(Field::Destination),
        protocol: packet.get(Field::Protocol) as u8,
        source_port: packet.get(Field::SourcePort) as u16,
        destination_port: packet.get(Field::DestinationPort) as u16,
        ..Packet::default()
    }
}

fn check_by_walk(data: &Data, edition: &Edition, packets: &[Packet<'_>]) -> Result<(), String> {
    for packet in &packets[..WALKED.min(packets.len())] {
        let outcome = edition.find(packet, 0, data.prefix_sets());
        let why = edition.explain(packet, data.prefix_sets());
        let rule = outcome.rule.and_then(|number| edition.rule(number));
        let expected = rule.map_or("the policy".to_owned(), |rule| rule.origin.to_string());
        let first = why.lines().next().unwrap_or_default();
        if !first.ends_with(&expected) {
            return Err(format!("{packet:?}: the matcher says {expected}, the walk {first}"));
        }
    }
    Ok(())
}

/// Batches and single calls through the engine.
fn ours<'a>(
    data: &'a Data,
    name: &str,
    edition: &Arc<Edition>,
    packets: &'a [Packet<'a>],
) -> Vec<Engine<'a>> {
    let bytes = edition.memory_bytes();
    let (in_batches, singly) = (Arc::clone(edition), Arc::clone(edition));
    // Rules are numbered from one on.
    let number = |rule: Option<u32>| rule.unwrap_or(0);
    let batch = Engine::new(format!("{name} places, batch"), bytes, move |part: Range<usize>| {
        let mut sum = 0;
        for (group, packets) in packets[part].chunks(BATCH).enumerate() {
            let outcomes = in_batches.find_batch(packets, &[0; BATCH], data.prefix_sets());
            for (place, outcome) in outcomes.iter().enumerate() {
                sum = weighed(sum, group * BATCH + place, number(outcome.rule));
            }
        }
        sum
    });
    let single = Engine::new(format!("{name} places, single"), bytes, move |part: Range<usize>| {
        let each = packets[part].iter().enumerate();
        each.fold(0, |sum, (place, packet)| {
            weighed(sum, place, number(singly.find(packet, 0, data.prefix_sets()).rule))
        })
    });
    vec![batch, single]
}
