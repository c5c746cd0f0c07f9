//! What `whered match` prints: a line a packet, or how many each rule decided and noted.
//!
//! Not for: matching.
//!
//! ```text
//! text   10.1.2.3 192.0.2.1 tcp 40000 22: accept by edge.rules:4 (input 3), met edge.rules:2 (input 1)
//! csv    number,source,...,verdict,chain,rule,file,line,met
//! json   {"number":1,"source":...,"verdict":"accept","chain":"input","rule":3,"at":"edge.rules:4","met":[]}
//! ```
//!
//! A packet that no rule decides has the chain of the policy and no rule; one of the other family
//! than the rules', no chain either.
//! Cost: a summary is as large as the ruleset.

use std::io::{self, Write};

use serde_json::json;
use whered_rules::naive::Outcome;
use whered_rules::unknown::{Fields, PacketField};
use whered_rules::{Packet, RuleId, names};

use super::flags::MatchFormat;
use super::packets::Record;
use super::place::Places;

/// Prints one packet's fate, or counts it.
pub(super) struct Report<'a> {
    pub(super) places: &'a Places<'a>,
    pub(super) format: MatchFormat,
    /// What is counted instead of printed.
    pub(super) counts: Option<Counts>,
}

/// How many packets each rule decided and noted.
pub(super) struct Counts {
    decided: Vec<u64>,
    noted: Vec<u64>,
    policy: u64,
    foreign: u64,
    /// Packets whose verdict is open.
    open: u64,
    packets: u64,
    /// The bytes of the packets that each rule decided, with the policy's and the other family's.
    bytes: Bytes,
}

#[derive(Default)]
struct Bytes {
    decided: Vec<u64>,
    policy: u64,
    foreign: u64,
    open: u64,
    /// Whether any packet told its bytes.
    are_told: bool,
}

impl Counts {
    pub(super) fn new(rules: usize) -> Counts {
        let bytes = Bytes { decided: vec![0; rules], ..Bytes::default() };
        let (decided, noted) = (vec![0; rules], vec![0; rules]);
        Counts { decided, noted, policy: 0, foreign: 0, open: 0, packets: 0, bytes }
    }

    fn count(&mut self, outcome: &Outcome, is_foreign: bool, told: Option<u64>) {
        self.packets += 1;
        let bytes = told.unwrap_or(0);
        self.bytes.are_told |= told.is_some();
        let (packets, sum) = match outcome.rule {
            _ if !outcome.possible.is_empty() => (&mut self.open, &mut self.bytes.open),
            Some(id) => (&mut self.decided[id.index()], &mut self.bytes.decided[id.index()]),
            None if is_foreign => (&mut self.foreign, &mut self.bytes.foreign),
            None => (&mut self.policy, &mut self.bytes.policy),
        };
        *packets += 1;
        *sum = sum.saturating_add(bytes);
        outcome.matched.iter().for_each(|id| self.noted[id.index()] += 1);
    }
}

impl Report<'_> {
    /// The line that names the columns, where there is one.
    pub(super) fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        if self.format != MatchFormat::Csv {
            return Ok(());
        }
        out.write_all(match self.counts {
            Some(_) => b"decided,noted,bytes,chain,rule,file,line,action\n",
            None => {
                b"number,source,destination,protocol,source_port,destination_port,verdict,chain,rule,file,line,met\n"
            }
        })
    }

    pub(super) fn packet(
        &mut self,
        record: &Record,
        packet: &Packet<'_>,
        outcome: &Outcome,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if let Some(counts) = &mut self.counts {
            counts.count(outcome, self.places.is_foreign(packet), record.bytes);
            return Ok(());
        }
        match self.format {
            MatchFormat::Text => self.text(record.unknown, packet, outcome, out),
            MatchFormat::Csv => self.csv(record, packet, outcome, out),
            MatchFormat::Json => self.json(record, packet, outcome, out),
        }
    }

    fn text(
        &self,
        unknown: Fields,
        packet: &Packet<'_>,
        outcome: &Outcome,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let PacketColumns { destination, protocol, source_port, destination_port } =
            PacketColumns::new(packet, unknown);
        let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        write!(out, "{} {} {}", packet.source, shown(destination), shown(protocol))?;
        let has_port = source_port.is_some() || destination_port.is_some();
        if unknown.has(PacketField::Protocol) && has_port || packet.has_ports() {
            write!(out, " {} {}", shown(source_port), shown(destination_port))?;
        } else if matches!(packet.protocol, 1 | 58) && !unknown.has(PacketField::Icmp) {
            write!(out, " {}/{}", packet.icmp_type, packet.icmp_code)?;
        }
        write!(out, ": {}", self.places.verdict_text(packet, unknown, outcome))?;
        for id in &outcome.matched {
            write!(out, ", met {}", self.places.rule(*id))?;
        }
        writeln!(out)
    }

    fn csv(
        &self,
        record: &Record,
        packet: &Packet<'_>,
        outcome: &Outcome,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let PacketColumns { destination, protocol, source_port, destination_port } =
            PacketColumns::new(packet, record.unknown);
        write!(out, "{},{},", record.number, packet.source)?;
        for value in [destination, protocol, source_port, destination_port] {
            write!(out, "{},", value.unwrap_or_default())?;
        }
        write!(
            out,
            "{},{},",
            cell(&outcome.verdict.to_string()),
            self.place_cells(packet, outcome)
        )?;
        let met: Vec<String> = outcome.matched.iter().map(|id| self.places.line(*id)).collect();
        writeln!(out, "{}", cell(&met.join(" ")))
    }

    /// `chain,rule,file,line`.
    fn place_cells(&self, packet: &Packet<'_>, outcome: &Outcome) -> String {
        let chain = self.places.policy_chain(packet);
        self.rule_cells(outcome.rule, chain.unwrap_or_default())
    }

    /// The cells of a rule, or of the policy of a chain.
    fn rule_cells(&self, rule: Option<RuleId>, policy_chain: &str) -> String {
        let Some(id) = rule else {
            return format!("{},,,", cell(policy_chain));
        };
        let origin = &self.places.ruleset.rule(id).origin;
        let (chain, number) = (cell(self.places.chain(id)), self.places.number(id));
        format!("{chain},{number},{},{}", cell(&origin.file), origin.line)
    }

    fn json(
        &self,
        record: &Record,
        packet: &Packet<'_>,
        outcome: &Outcome,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let is_told = |field: PacketField| !record.unknown.has(field);
        let met: Vec<String> = outcome.matched.iter().map(|id| self.places.line(*id)).collect();
        let mut object = json!({
            "number": record.number,
            "source": packet.source,
            "destination": is_told(PacketField::Destination).then_some(packet.destination),
            "protocol": is_told(PacketField::Protocol).then_some(packet.protocol),
            "source_port": is_told(PacketField::SourcePort).then_some(packet.source_port),
            "destination_port":
                is_told(PacketField::DestinationPort).then_some(packet.destination_port),
            "verdict": outcome.verdict.to_string(),
            "chain": match outcome.rule {
                Some(id) => Some(self.places.chain(id)),
                None => self.places.policy_chain(packet),
            },
            "rule": outcome.rule.map(|id| self.places.number(id)),
            "at": outcome.rule.map(|id| self.places.line(id)),
            "met": met,
        });
        if !outcome.possible.is_empty() {
            let possible = outcome.possible.iter().map(|one| {
                let depends: Vec<String> =
                    one.depends.iter().map(|id| self.places.line(*id)).collect();
                json!({
                    "verdict": one.verdict.to_string(),
                    "at": one.rule.map(|id| self.places.line(id)),
                    "depends": depends,
                })
            });
            object["possible"] = possible.collect();
        }
        writeln!(out, "{object}")
    }

    /// The counts, if that is what was asked for.
    pub(super) fn end(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(counts) = &self.counts else { return Ok(()) };
        let ruleset = self.places.ruleset;
        let mut idle = 0;
        for (index, rule) in ruleset.rules().iter().enumerate() {
            let id = RuleId(index as u32);
            let (decided, noted) = (counts.decided[index], counts.noted[index]);
            let action = rule.action.verdict().map_or("noted".to_owned(), |it| it.to_string());
            if decided + noted == 0 {
                idle += u64::from(rule.action.verdict().is_some() || rule.action.is_noted());
                continue;
            }
            let bytes = counts.bytes.decided[index];
            self.count(&Line { decided, noted, bytes, rule: Some(id), action: &action }, out)?;
        }
        let policy = &ruleset.chain(ruleset.entry()).policy;
        let policy = policy.as_ref().map_or("continue".to_owned(), ToString::to_string);
        let (decided, bytes) = (counts.policy, counts.bytes.policy);
        self.count(&Line { decided, noted: 0, bytes, rule: None, action: &policy }, out)?;
        let Counts { packets, foreign, open, .. } = counts;
        let bytes = counts.bytes.open;
        match self.format {
            MatchFormat::Csv if *open > 0 => writeln!(out, "{open},0,{bytes},,,,,maybe")?,
            MatchFormat::Json if *open > 0 => {
                writeln!(
                    out,
                    "{}",
                    json!({"decided": open, "noted": 0, "bytes": bytes, "chain": null,
                    "rule": null, "at": null, "action": "maybe"})
                )?;
            }
            _ => {}
        }
        let bytes = counts.bytes.foreign;
        match self.format {
            MatchFormat::Csv if *foreign > 0 => writeln!(out, "{foreign},0,{bytes},,,,,continue")?,
            MatchFormat::Json if *foreign > 0 => {
                writeln!(
                    out,
                    "{}",
                    json!({"decided": foreign, "noted": 0, "bytes": bytes, "chain": null,
                    "rule": null, "at": null, "action": "continue"})
                )?;
            }
            _ => {}
        }
        if self.format == MatchFormat::Text {
            write!(out, "{packets} packets; {idle} rules met no packet")?;
            if *foreign > 0 {
                write!(out, "; {foreign} packets of the other family")?;
            }
            if *open > 0 {
                write!(out, "; {open} packets whose verdict is open")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn count(&self, line: &Line<'_>, out: &mut impl Write) -> io::Result<()> {
        let Line { decided, noted, bytes, rule, action } = *line;
        match self.format {
            MatchFormat::Csv => {
                let place = self.rule_cells(rule, self.places.entry());
                writeln!(out, "{decided},{noted},{bytes},{place},{}", cell(action))
            }
            MatchFormat::Json => {
                let object = json!({
                    "decided": decided,
                    "noted": noted,
                    "bytes": bytes,
                    "chain": rule.map_or(self.places.entry(), |id| self.places.chain(id)),
                    "rule": rule.map(|id| self.places.number(id)),
                    "at": rule.map(|id| self.places.line(id)),
                    "action": action,
                });
                writeln!(out, "{object}")
            }
            MatchFormat::Text => {
                let policy = || format!("policy of {}", self.places.entry());
                let place = rule.map_or_else(policy, |id| self.places.rule(id));
                write!(out, "{:>12} ", decided + noted)?;
                if self.counts.as_ref().is_some_and(|counts| counts.bytes.are_told) {
                    write!(out, "{bytes:>15} ")?;
                }
                writeln!(out, "{action} {place}")
            }
        }
    }
}

/// What a summary says of a rule or a policy.
struct Line<'a> {
    decided: u64,
    noted: u64,
    bytes: u64,
    rule: Option<RuleId>,
    action: &'a str,
}

/// The fields of a packet as texts; nothing for those that its source does not tell.
struct PacketColumns {
    destination: Option<String>,
    protocol: Option<String>,
    source_port: Option<String>,
    destination_port: Option<String>,
}

impl PacketColumns {
    fn new(packet: &Packet<'_>, unknown: Fields) -> PacketColumns {
        let known = |field, text: &dyn Fn() -> String| (!unknown.has(field)).then(text);
        PacketColumns {
            destination: known(PacketField::Destination, &|| packet.destination.to_string()),
            protocol: known(PacketField::Protocol, &|| protocol(packet.protocol)),
            source_port: known(PacketField::SourcePort, &|| packet.source_port.to_string()),
            destination_port: known(PacketField::DestinationPort, &|| {
                packet.destination_port.to_string()
            }),
        }
    }
}

fn protocol(number: u8) -> String {
    names::protocol_name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// A cell of CSV, in quotes where it needs them.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
