//! Expected answers for packets: `whered rules test FILE cases.csv`.
//!
//! For: reading the cases and comparing them with what the rules decide.
//! Not for: files, live sets and places (the caller hands over what they hold).
//!
//! ```text
//! source,destination,protocol,destination_port,state,verdict,line
//! 10.0.0.1,192.0.2.1,tcp,22,new,accept,14
//! 203.0.113.9,192.0.2.1,tcp,22,,drop,policy
//! ```
//!
//! The first line names the columns, in any order: `source`, `destination`, `protocol`,
//! `source_port`, `destination_port`, `icmp` (type or type/code), `flags` (names with spaces
//! between them), `state`, `in`, `out`, `dscp`, `mark`, details of packets by their names
//! (`ttl`, `length`, `destination_type`), and what is expected: `verdict`, `line`
//! (of the rule that decides, or `policy`). Only `source` and one expectation must be there; an
//! empty cell is as if the column were not. Lines that begin with `#` are remarks.
//!
//! Invariants: every case has at least one expectation.
//! Concurrency: pure. Cost: linear in cases times rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::error::{Problems, RulesError};
use crate::model::{Detail, Ruleset, Verdict};
use crate::naive::{self, Outcome, Sets};
use crate::names;
use crate::packet::{Packet, State};

/// The columns that there are.
const COLUMNS: [&str; 14] = [
    "source",
    "destination",
    "protocol",
    "source_port",
    "destination_port",
    "icmp",
    "flags",
    "state",
    "in",
    "out",
    "dscp",
    "mark",
    "verdict",
    "line",
];

/// A packet and what shall become of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The line it stands in.
    pub line: u32,
    packet: Packet<'static>,
    details: Vec<(Detail, u64)>,
    input: String,
    output: String,
    verdict: Option<String>,
    rule_line: Option<ExpectedOutcome>,
}

/// Which rule shall decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExpectedOutcome {
    Line(u32),
    Policy,
}

/// The result of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The line of the case.
    pub line: u32,
    /// The result of the rules.
    pub outcome: Outcome,
    /// The difference from the expected result, in words; `None` if there is none.
    pub difference: Option<String>,
}

impl Case {
    /// The packet.
    pub fn packet(&self) -> Packet<'_> {
        Packet { input: &self.input, output: &self.output, details: &self.details, ..self.packet }
    }

    /// The line of the rule that shall decide, where the case says one.
    pub fn expected_line(&self) -> Option<u32> {
        match self.rule_line? {
            ExpectedOutcome::Line(line) => Some(line),
            ExpectedOutcome::Policy => None,
        }
    }

    /// Asks the rules and compares.
    pub fn ask(&self, ruleset: &Ruleset, sets: &dyn Sets) -> Answer {
        let outcome = naive::evaluate(ruleset, &self.packet(), sets);
        let verdict = word_of(&outcome.verdict);
        let line = outcome.rule.map(|id| ruleset.rule(id).origin.line);
        let mut parts = Vec::new();
        if let Some(expected) = self.verdict.as_ref().filter(|expected| **expected != verdict) {
            parts.push(format!("expected {expected}, found {verdict}"));
        }
        let found = line.map_or(ExpectedOutcome::Policy, ExpectedOutcome::Line);
        if let Some(expected) = self.rule_line.filter(|expected| *expected != found) {
            let shown = |rule| match rule {
                ExpectedOutcome::Line(line) => format!("line {line}"),
                ExpectedOutcome::Policy => "the policy".to_owned(),
            };
            parts.push(format!("expected {}, found {}", shown(expected), shown(found)));
        } else if !parts.is_empty() {
            let by = line.map_or("the policy".to_owned(), |line| format!("line {line}"));
            parts.push(format!("by {by}"));
        }
        let difference = (!parts.is_empty()).then(|| parts.join(", "));
        Answer { line: self.line, outcome, difference }
    }
}

/// A verdict as cases write it: without how a sender is told.
fn word_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Reject { .. } => "reject".to_owned(),
        other => other.to_string(),
    }
}

/// Reads cases.
///
/// # Errors
///
/// All problems of the text (up to a hundred), each with its line and, as the column, the number
/// of the cell.
pub fn read(file: &str, text: &str) -> Result<Vec<Case>, RulesError> {
    let mut problems = Problems::new(&Arc::from(file));
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .trim(csv::Trim::All)
        .has_headers(false)
        .from_reader(text.as_bytes());
    let mut header: Option<Vec<String>> = None;
    let mut cases = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(1, |place| place.line() as u32);
                problems.push(line, 0, "found a line that is no CSV".to_owned());
                break;
            }
        };
        let line = record.position().map_or(1, |place| place.line() as u32);
        let Some(names) = &header else {
            let names: Vec<String> = record.iter().map(str::to_owned).collect();
            if !check_header(&names, line, &mut problems) {
                break;
            }
            header = Some(names);
            continue;
        };
        if record.len() > names.len() {
            let found = record.get(names.len()).unwrap_or_default();
            problems.found(line, names.len() as u32 + 1, found, "as many cells as columns");
            continue;
        }
        match case(names, &record, line) {
            Ok(case) => cases.push(case),
            Err((cell, found, allowed)) => problems.found(line, cell, &found, allowed),
        }
    }
    if header.is_none() && problems.is_empty() {
        problems.found(
            1,
            0,
            "",
            &format!("a first line that names columns ({})", COLUMNS.join(", ")),
        );
    }
    problems.finish()?;
    Ok(cases)
}

fn check_header(names: &[String], line: u32, problems: &mut Problems) -> bool {
    for (name, cell) in names.iter().zip(1..) {
        let before = names.iter().take(cell as usize - 1);
        let is_known = COLUMNS.contains(&name.as_str()) || Detail::of_column(name).is_some();
        if !is_known || before.into_iter().any(|other| other == name) {
            problems.found(line, cell, name, &format!("each of {} once", COLUMNS.join(", ")));
        }
    }
    for wanted in [&["source"][..], &["verdict", "line"]] {
        if !names.iter().any(|name| wanted.contains(&name.as_str())) {
            problems.push(line, 0, format!("found no column {}", wanted.join(" or ")));
        }
    }
    problems.is_empty()
}

/// Number of the cell, what was found, what is allowed.
type Wrong = (u32, String, &'static str);

fn case(names: &[String], record: &csv::StringRecord, line: u32) -> Result<Case, Wrong> {
    let mut case = Case {
        line,
        packet: Packet::default(),
        details: Vec::new(),
        input: String::new(),
        output: String::new(),
        verdict: None,
        rule_line: None,
    };
    let mut destination = None;
    for ((name, text), cell) in names.iter().zip(record).zip(1..) {
        if text.is_empty() && name != "source" {
            continue;
        }
        let wrong = |allowed| (cell, text.to_owned(), allowed);
        match name.as_str() {
            "destination" => {
                let address = text.parse::<IpAddr>().map_err(|_| wrong("an address"))?;
                destination = Some((address, cell));
            }
            "in" => text.clone_into(&mut case.input),
            "out" => text.clone_into(&mut case.output),
            "verdict" => {
                let site = text.strip_prefix("site ").is_some_and(|name| !name.trim().is_empty());
                const WORDS: [&str; 6] = ["accept", "drop", "reject", "continue", "queue", "maybe"];
                if !site && !WORDS.contains(&text) {
                    return Err(wrong(
                        "accept, drop, reject, continue, queue, maybe or site and its name",
                    ));
                }
                case.verdict = Some(text.to_owned());
            }
            "line" if text == "policy" => case.rule_line = Some(ExpectedOutcome::Policy),
            "line" => {
                let line = names::parse_number(text).filter(|&line| line > 0);
                let line = line.ok_or_else(|| wrong("a line's number or policy"))?;
                case.rule_line = Some(ExpectedOutcome::Line(line));
            }
            field => match Detail::of_column(field) {
                Some(detail) => {
                    let value = detail.parse(text).ok_or_else(|| wrong("a number or a name"))?;
                    case.details.push((detail, value));
                }
                None => set_field(&mut case.packet, field, text).map_err(wrong)?,
            },
        }
    }
    case.packet.destination = match destination {
        Some((address, cell)) if address.is_ipv4() != case.packet.source.is_ipv4() => {
            return Err((cell, address.to_string(), "an address of the source's family"));
        }
        Some((address, _)) => address,
        None if case.packet.source.is_ipv4() => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if case.verdict.is_none() && case.rule_line.is_none() {
        return Err((0, String::new(), "a verdict or a line to expect"));
    }
    Ok(case)
}

/// Sets the field of a packet that a column is about, but for the interfaces, which a packet
/// borrows. The two addresses are not compared with each other.
///
/// # Errors
///
/// The text that is allowed there.
pub fn set_field(packet: &mut Packet<'_>, field: &str, text: &str) -> Result<(), &'static str> {
    const ADDRESS: &str = "an IPv4 or IPv6 address";
    const ICMP: &str = "an ICMP type, as 8 or 3/1";
    const PORT: &str = "a port from 0 to 65535";
    let octet = |text| names::parse_number(text).and_then(|number| u8::try_from(number).ok());
    let port = || names::parse_number(text).and_then(|number| u16::try_from(number).ok());
    match field {
        "source" => packet.source = text.parse().map_err(|_| ADDRESS)?,
        "destination" => packet.destination = text.parse().map_err(|_| ADDRESS)?,
        "protocol" => {
            packet.protocol = names::protocol_number(text).ok_or("a protocol's name or number")?;
        }
        "source_port" => packet.source_port = port().ok_or(PORT)?,
        "destination_port" => packet.destination_port = port().ok_or(PORT)?,
        "icmp" => {
            let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
            packet.icmp_type = octet(kind).ok_or(ICMP)?;
            packet.icmp_code = octet(code).ok_or(ICMP)?;
        }
        "flags" => {
            for flag in text.split_whitespace() {
                packet.tcp_flags |= names::tcp_flag(flag).ok_or("TCP flags, as syn ack")?;
            }
        }
        "state" => {
            const ALLOWED: &str = "invalid, new, established, related or untracked";
            packet.state = State::from_name(text).ok_or(ALLOWED)?;
        }
        "dscp" => {
            packet.dscp =
                names::dscp_number(text).ok_or("a DSCP class or a number from 0 to 63")?;
        }
        "mark" => packet.mark = names::parse_number(text).ok_or("a mark, as 1 or 0x10")?,
        _ => return Err("a field of packets"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::NoSets;

    const RULES: &str = "chain input policy drop {\n src 10.0.0.0/8 proto tcp dport 22 accept\n \
        in eth+ icmp 8 reject\n proto tcp flags syn of {syn ack} dscp ef mark 1 site fra\n}\n";

    #[test]
    fn cases_are_asked_and_compared() {
        let ruleset = crate::text::read("f", RULES).expect("good rules");
        let text = "# who may what\n\
            source,destination,protocol,destination_port,icmp,in,flags,dscp,mark,verdict,line\n\
            10.0.0.1,192.0.2.1,tcp,22,,,,,,accept,2\n\
            10.0.0.1,,tcp,23,,,,,,drop,policy\n\
            2001:db8::1,,tcp,22,,,,,,accept,\n\
            1.1.1.1,,icmp,,8/0,eth0,,,,reject,4\n\
            1.1.1.1,,tcp,,,,syn fin,ef,0x1,site fra,\n";
        let cases = read("c", text).expect("good cases");
        let found: Vec<(u32, Option<String>)> = cases
            .iter()
            .map(|case| case.ask(&ruleset, &NoSets))
            .map(|answer| (answer.line, answer.difference))
            .collect();
        let differences = [
            None,
            None,
            Some("expected accept, found drop, by the policy".to_owned()),
            Some("expected line 4, found line 3".to_owned()),
            None,
        ];
        let expected: Vec<_> = (3..).zip(differences).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn mistakes_are_named_with_line_and_cell() {
        for (text, expected) in [
            ("", "f:1: found nothing: allowed is a first line"),
            ("source,verdict,colour\n", "f:1:3: found \"colour\": allowed is each of"),
            ("source,source,verdict\n", "f:1:2: found \"source\": allowed is each of"),
            ("source\n", "f:1: found no column verdict or line"),
            ("verdict\n", "f:1: found no column source"),
            ("source,verdict\n10.0.0,drop\n", "f:2:1: found \"10.0.0\": allowed is an IPv4"),
            ("source,verdict\n10.0.0.1,perhaps\n", "f:2:2: found \"perhaps\": allowed is accept"),
            ("source,verdict\n10.0.0.1,drop,1\n", "f:2:3: found \"1\": allowed is as many"),
            ("source,verdict\n10.0.0.1\n", "f:2: found nothing: allowed is a verdict or"),
            ("source,line\n10.0.0.1,0\n", "f:2:2: found \"0\": allowed is a line's"),
            ("source,destination,line\n10.0.0.1,::1,1\n", "f:2:2: found \"::1\": allowed is an a"),
            ("source,protocol,line\n::1,tpc,1\n", "f:2:2: found \"tpc\": allowed is a protocol"),
            ("source,flags,line\n::1,syn up,1\n", "f:2:2: found \"syn up\": allowed is TCP"),
        ] {
            let error = read("f", text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text:?}\n{error}");
        }
    }
}
