//! Rulesets compiled by whered for nf_tables beside the same rules one by one: what a packet costs.
//!
//! For: the seed's three parts and rulesets of ClassBench's shapes, as `whered rules compile` makes
//! them. Not for: other ways to state the seed's addresses (`kernel`, which has the namespace).
//!
//! ```text
//! rules, the last drops ─► linear nft │ iptables │ compiled ─► sends that all are refused
//! ```
//!
//! No rule but the last one is about the packet that is sent, so every rule is met. In a mixed
//! ruleset every third rule drops instead of accepting, so that their order matters. The row `last
//! rule only` has none of the N rules.

use super::Options;
use super::kernel::{Sender, command, in_own_namespace, now, send};
use super::rounds::{Row, Table};
use super::seed;
use crate::rules::{FiveTuple, Shape, addresses, generate};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Instant;
use whered_rules::normal::NoPlaces;
use whered_rules::{Family, Ruleset, flat, iptables, nft, text};

/// Which rules are compiled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules {
    /// The three parts of 2007.
    Seed,
    /// Of a shape; all accept.
    Accepting(Shape),
    /// Of a shape; every third drops.
    Mixed(Shape),
}

impl Rules {
    /// For names of sections.
    pub(super) fn name(self) -> String {
        match self {
            Rules::Seed => "seed".to_owned(),
            Rules::Accepting(shape) => shape.name().to_owned(),
            Rules::Mixed(shape) => format!("mixed-{}", shape.name()),
        }
    }
}

const WAYS: [&str; 4] = ["last rule only", "iptables rules", "nft rules", "compiled"];
/// Past this number of rules, only the compiled form is loaded: the others take minutes.
const RIVAL_RULES: usize = 20_000;

/// Measures one ruleset, or says why not.
pub(super) fn measure(options: &Options, rules: Rules, count: usize) -> Result<Table, String> {
    let text = text_of(rules, count, options.seed);
    let read = |text: &str| text::read("bench.rules", text).map_err(|error| error.to_string());
    let ruleset = read(&text)?;
    let empty = read(&text_of(rules, 0, options.seed))?;
    let start = Instant::now();
    let program = flat::compile(&ruleset, &NoPlaces, flat::Options::default());
    let program = program.map_err(|error| error.to_string())?;
    let compiling = start.elapsed().as_secs_f64();
    let chain = &program.plan.chains[0];
    let mut facts = vec![
        ("seconds to compile".to_owned(), compiling),
        ("lookups".to_owned(), chain.lookups() as f64),
        ("rules left".to_owned(), chain.linear_rules() as f64),
    ];
    let forms = Forms { ruleset: &ruleset, empty: &empty, program: &program.text };
    let (rows, loading) = in_own_namespace(|sender| in_namespace(sender, options, count, &forms))?;
    facts.push(("seconds to load by nft".to_owned(), loading));
    let note = "One refused `sendto` that meets every rule, nanoseconds of processor time.";
    Ok(Table { note: note.to_owned(), entries: count, rows, facts, ..Table::default() })
}

/// The rules in each form.
struct Forms<'a> {
    ruleset: &'a Ruleset,
    empty: &'a Ruleset,
    program: &'a str,
}

fn in_namespace(
    sender: &Sender,
    options: &Options,
    count: usize,
    forms: &Forms<'_>,
) -> Result<(Vec<Row>, f64), String> {
    let row = |name: &&str| Row { name: (*name).to_owned(), bytes: 0, nanoseconds: Vec::new() };
    let ways: Vec<&str> = WAYS
        .into_iter()
        .filter(|way| count <= RIVAL_RULES || matches!(*way, "last rule only" | "compiled"))
        .collect();
    let mut rows: Vec<Row> = ways.iter().map(row).collect();
    let mut loading = f64::INFINITY;
    for round in 0..options.rounds.min(5) {
        for turn in 0..ways.len() {
            let at = (turn + round) % ways.len();
            let seconds = load(ways[at], forms)?;
            let is_linear = matches!(ways[at], "iptables rules" | "nft rules");
            if ways[at] == "compiled" {
                loading = loading.min(seconds);
            }
            let sends = if is_linear { (30_000_000 / (count * 8 + 4000)).max(300) } else { 20_000 };
            send(&sender.socket, sends / 2)?;
            let before = now()?;
            send(&sender.socket, sends)?;
            rows[at].nanoseconds.push((now()? - before) as f64 / sends as f64);
            command("nft", &["flush", "ruleset"], "")?;
            command("iptables-legacy-restore", &[], "*filter\nCOMMIT\n")?;
        }
    }
    Ok((rows, loading))
}

/// Loads a form; gives the seconds that it took.
fn load(way: &str, forms: &Forms<'_>) -> Result<f64, String> {
    let wrong = |error: whered_rules::RulesError| error.to_string();
    let start = Instant::now();
    match way {
        "iptables rules" => {
            let text = iptables::write(forms.ruleset, Family::Ipv4).map_err(wrong)?;
            command("iptables-legacy-restore", &[], &text)?;
        }
        "nft rules" => command("nft", &["-f", "-"], &nft::write(forms.ruleset).map_err(wrong)?)?,
        "compiled" => command("nft", &["-f", "-"], forms.program)?,
        _ => command("nft", &["-f", "-"], &nft::write(forms.empty).map_err(wrong)?)?,
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The rule that refuses the packet.
const LAST: &str = "  proto udp dport 80 drop\n";

fn text_of(rules: Rules, count: usize, seed: u64) -> String {
    let mut out = "family ipv4\nchain output policy accept {\n".to_owned();
    match rules {
        Rules::Seed => {
            out += "  state {established related} accept\n";
            for (address, length) in seed::addresses(count, seed) {
                let _ = writeln!(out, "  src {}/{length} accept", Ipv4Addr::from_bits(address));
            }
            out += "  proto udp dport 80 state new drop\n}\n";
            return out;
        }
        Rules::Accepting(shape) | Rules::Mixed(shape) => {
            // Some are about our packet, and are left out.
            let more = generate(shape, count + count / 8 + 64, seed);
            let others = more.into_iter().filter(|rule| !is_about_ours(rule)).take(count);
            for (number, rule) in others.enumerate() {
                let drops = matches!(rules, Rules::Mixed(_)) && number % 3 == 2;
                let verdict = if drops { "drop" } else { "accept" };
                let _ = writeln!(out, "  {}{verdict}", conditions(&rule));
            }
        }
    }
    out + LAST + "}\n"
}

/// Whether a rule would be about UDP from 127.0.0.1 to its port 80.
fn is_about_ours(rule: &FiveTuple) -> bool {
    let ours = Ipv4Addr::LOCALHOST.to_bits();
    let holds = |network, length| {
        let (first, last) = addresses(network, length);
        first <= ours && ours <= last
    };
    holds(rule.source, rule.source_length)
        && holds(rule.destination, rule.destination_length)
        && (rule.destination_ports.0..=rule.destination_ports.1).contains(&80)
        && rule.protocol.is_none_or(|protocol| protocol == 17)
}

fn conditions(rule: &FiveTuple) -> String {
    let mut out = String::new();
    let sides = [
        ("src", rule.source, rule.source_length),
        ("dst", rule.destination, rule.destination_length),
    ];
    for (side, network, length) in sides.into_iter().filter(|(.., length)| *length > 0) {
        let (first, _) = addresses(network, length);
        let _ = write!(out, "{side} {}/{length} ", Ipv4Addr::from_bits(first));
    }
    if let Some(protocol) = rule.protocol {
        let _ = write!(out, "proto {protocol} ");
    }
    // Rules of other protocols have no ports, whatever the shape drew.
    let has_ports = rule.protocol.is_none_or(|protocol| [6, 17].contains(&protocol));
    for (side, (first, last)) in [("sport", rule.source_ports), ("dport", rule.destination_ports)] {
        if has_ports && (first, last) != (0, 65_535) {
            let _ = write!(out, "{side} {first}-{last} ");
        }
    }
    out
}
