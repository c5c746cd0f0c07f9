//! `whered rules explain`: what becomes of one packet, and why no earlier rule decided.
//!
//! Not for: deciding (`whered_rules::naive::walk`).

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use whered_rules::naive::{self, RuleAnswer, walk};
use whered_rules::unknown::Fields;
use whered_rules::{Packet, RuleId, text};

use super::load::{self, FileSets, Options};
use super::place::Places;
use crate::cli::RulesExplainArguments;
use crate::outcome::{Failure, Outcome};

/// Prints the verdict and who gave it, then every rule that was asked before, in order.
pub(crate) fn run(arguments: &RulesExplainArguments) -> Result<Outcome, Failure> {
    let packet = packet_of(arguments);
    let packet = Packet { details: &arguments.with, ..packet };
    if packet.source.is_ipv4() != packet.destination.is_ipv4() {
        let found = packet.destination;
        let message =
            format!("found --destination {found}: allowed is an address of the source's family");
        return Err(Failure::Message(message));
    }
    let ruleset =
        match load::file_or_live(arguments.file.as_deref(), Options::from(&arguments.read)) {
            Ok(ruleset) => ruleset,
            Err(wrong) => return wrong.tell(),
        };
    let file_places = load::places(&arguments.db)?;
    if let Err(failed) = load::refuse_places(&ruleset, &file_places) {
        return Ok(failed);
    }
    load::tell_live_sets(&ruleset);
    let places = Places::new(&ruleset);
    let mut asked = Vec::new();
    let outcome =
        walk(&ruleset, &packet, &FileSets(&file_places), &mut |id, how| asked.push((id, how)));
    let mut out = BufWriter::new(io::stdout().lock());
    let rule_text = |id| text::rule_text(&ruleset, ruleset.rule(id));
    if arguments.json {
        let object = object_of(&places, &packet, &outcome, &asked);
        writeln!(out, "{object}")?;
        out.flush()?;
        return Ok(Outcome::Found);
    }
    write!(out, "{}", places.verdict_text(&packet, Fields::NONE, &outcome))?;
    let decided_by = outcome.rule.filter(|_| outcome.possible.is_empty());
    match decided_by {
        Some(id) => writeln!(out, ": {}", rule_text(id))?,
        None => writeln!(out)?,
    }
    for (id, how) in asked {
        let place = places.rule(id);
        let condition = |number: usize| text::condition_text(&ruleset.rule(id).conditions[number]);
        match how {
            RuleAnswer::Unmet(number) => {
                writeln!(out, "  {place}: does not hold: {}", condition(number))?;
            }
            RuleAnswer::Open(number) => {
                writeln!(out, "  {place}: may hold: {}: {}", condition(number), rule_text(id))?;
            }
            RuleAnswer::Met if decided_by == Some(id) => {}
            RuleAnswer::Met => writeln!(out, "  {place}: met on the way: {}", rule_text(id))?,
        }
    }
    out.flush()?;
    Ok(Outcome::Found)
}

/// The verdict and all that was asked before, as JSON.
fn object_of(
    places: &Places<'_>,
    packet: &Packet<'_>,
    outcome: &naive::Outcome,
    asked: &[(RuleId, RuleAnswer)],
) -> Value {
    let ruleset = places.ruleset;
    let entry = |id| {
        let rule = ruleset.rule(id);
        json!({ "origin": places.rule(id).to_string(), "text": text::rule_text(ruleset, rule) })
    };
    let entries = asked.iter().map(|&(id, how)| {
        let condition =
            |number: usize| text::condition_text(&ruleset.rule(id).conditions[number]).to_string();
        let (outcome, condition) = match how {
            RuleAnswer::Unmet(number) => ("unmet", Some(condition(number))),
            RuleAnswer::Open(number) => ("unknown", Some(condition(number))),
            RuleAnswer::Met => ("met", None),
        };
        let mut entry = entry(id);
        entry["outcome"] = outcome.into();
        entry["condition"] = condition.into();
        entry
    });
    let entries: Vec<Value> = entries.collect();
    let rule = outcome.rule.filter(|_| outcome.possible.is_empty()).map(entry);
    json!({
        "source": packet.source.to_string(),
        "destination": packet.destination.to_string(),
        "protocol": packet.protocol,
        "source_port": packet.source_port,
        "destination_port": packet.destination_port,
        "verdict": outcome.verdict.to_string(),
        "rule": rule,
        "text": places.verdict_text(packet, Fields::NONE, outcome),
        "rules": entries,
    })
}

fn packet_of(arguments: &RulesExplainArguments) -> Packet<'_> {
    Packet {
        source: arguments.source,
        destination: arguments.destination,
        protocol: arguments.protocol,
        source_port: arguments.source_port,
        destination_port: arguments.destination_port,
        icmp_type: arguments.icmp.0,
        icmp_code: arguments.icmp.1,
        tcp_flags: arguments.flags,
        state: arguments.state,
        input: &arguments.input_interface,
        output: &arguments.output_interface,
        dscp: arguments.dscp,
        mark: arguments.mark,
        details: &[],
    }
}
