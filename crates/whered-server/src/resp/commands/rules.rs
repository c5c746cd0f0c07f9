//! Rulesets: `RULES.MATCH RULES.MMATCH RULES.EXPLAIN RULES.INFO RULES.LIST`.
//!
//! Not for: reading rulesets, which the configuration names. A packet is given by words:
//!
//! ```text
//! SRC a DST a PROTO p [SPORT n] [DPORT n] [ICMP type/code] [FLAGS syn,ack] [STATE s]
//!     [IN interface] [OUT interface] [DSCP n] [MARK n]
//! ```
//!
//! In `RULES.MMATCH` each `SRC` begins the next packet.

use std::str::FromStr;
use std::sync::Arc;

use whered_engine::NamedRuleset;
use whered_engine::rules::naive::Outcome as Fate;
use whered_engine::rules::{Family, Packet, State, names};

use super::{
    Action, Command, Failure, Flag, Members, Outcome, SYNTAX_ERROR, address, name, no_such,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const RULES: Command = Command {
    name: "",
    arity: -8,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "rules",
    keys: (0, 0, 0),
    members: Members::None,
    syntax: "ruleset SRC address DST address PROTO protocol [SPORT n] [DPORT n] [ICMP type/code] \
             [FLAGS names] [STATE state] [IN interface] [OUT interface] [DSCP n] [MARK n]",
    summary: "",
    cost: "O(1), nearly whatever the number of rules",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "rules.explain",
        summary: "Tells why a packet meets the rule that decides about it",
        cost: "O(N) with N rules",
        action: Action::Run(explain),
        ..RULES
    },
    Command {
        name: "rules.info",
        arity: 2,
        syntax: "ruleset",
        summary: "Tells where a ruleset is from and how it is compiled",
        cost: "O(1)",
        action: Action::Run(info),
        ..RULES
    },
    Command {
        name: "rules.list",
        arity: 1,
        syntax: "",
        summary: "Gives the names of all rulesets",
        cost: "O(N) with N rulesets",
        action: Action::Run(|session, _, reply| {
            let generation = session.engine().generation();
            reply.array(generation.rulesets().len());
            generation.rulesets().iter().for_each(|named| reply.bulk(named.name.as_bytes()));
            Ok(())
        }),
        ..RULES
    },
    Command {
        name: "rules.match",
        summary: "Gives a packet's verdict, and the rule's number and line that decided",
        action: Action::Run(find),
        ..RULES
    },
    Command {
        name: "rules.mmatch",
        syntax: "ruleset SRC address DST address PROTO protocol [...] [SRC ...]",
        summary: "Gives the verdicts of several packets",
        cost: "O(N) with N packets",
        action: Action::Run(find_many),
        ..RULES
    },
];

fn find(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ruleset = named(session, args)?;
    let (packet, rest) = read_packet(args.skip(2))?;
    if rest.len() > 0 {
        return Err(SYNTAX_ERROR);
    }
    let fate = ruleset.find(&packet, session.engine().prefix_sets());
    write_fate(&ruleset, &fate, reply);
    Ok(())
}

fn find_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ruleset = named(session, args)?;
    let mut packets = Vec::new();
    let mut rest = args.skip(2);
    while rest.len() > 0 {
        let (packet, later) = read_packet(rest)?;
        packets.push(packet);
        rest = later;
    }
    let fates = ruleset.find_batch(&packets, session.engine().prefix_sets());
    reply.array(fates.len());
    fates.iter().for_each(|fate| write_fate(&ruleset, fate, reply));
    Ok(())
}

/// Verdict, rule number from 1 and `file:line`; nulls where the policy decided.
fn write_fate(named: &NamedRuleset, fate: &Fate, reply: &mut Reply) {
    reply.array(3);
    reply.bulk(fate.verdict.to_string().as_bytes());
    match fate.rule {
        Some(rule) => {
            let origin = &named.ruleset.rule(rule).origin;
            reply.count(rule.index() + 1);
            reply.bulk(format!("{}:{}", origin.file, origin.line).as_bytes());
        }
        None => {
            reply.null();
            reply.null();
        }
    }
}

fn explain(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ruleset = named(session, args)?;
    let (packet, rest) = read_packet(args.skip(2))?;
    if rest.len() > 0 {
        return Err(SYNTAX_ERROR);
    }
    let reasons = ruleset.explain(&packet, session.engine().prefix_sets());
    reply.verbatim(reasons.as_bytes());
    Ok(())
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let named = named(session, args)?;
    let matcher = named.matcher();
    let fields = [
        ("file", named.source.path.display().to_string()),
        ("rules", named.ruleset.rules().len().to_string()),
        ("chains", named.ruleset.chains().len().to_string()),
        ("compile_seconds", format!("{:.3}", named.compile_time.as_secs_f64())),
        ("bytes", matcher.memory_bytes().to_string()),
        ("ipv4", matcher.info(Family::Ipv4).to_string()),
        ("ipv6", matcher.info(Family::Ipv6).to_string()),
    ];
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn named(session: &Session, args: Args<'_>) -> Result<Arc<NamedRuleset>, Failure> {
    let ruleset = name(args.at(1))?;
    let generation = session.engine().generation();
    generation.ruleset(ruleset).cloned().ok_or_else(|| no_such("ruleset", ruleset))
}

/// A packet, and the words from the next `SRC` on.
fn read_packet<'a>(words: Args<'a>) -> Result<(Packet<'a>, Args<'a>), Failure> {
    let mut packet = Packet::default();
    let (mut has_source, mut has_destination, mut has_protocol) = (false, false, false);
    let mut at = 0;
    while at < words.len() {
        if words.is(at, "src") && has_source {
            break;
        }
        let value = words.get(at + 1).ok_or(SYNTAX_ERROR)?;
        let (first, second): (u8, u8);
        match words.at(at).to_ascii_lowercase().as_slice() {
            b"src" => (packet.source, has_source) = (address(value)?, true),
            b"dst" => (packet.destination, has_destination) = (address(value)?, true),
            b"proto" => (packet.protocol, has_protocol) = (protocol(value)?, true),
            b"sport" => packet.source_port = number(value, "a port from 0 to 65535")?,
            b"dport" => packet.destination_port = number(value, "a port from 0 to 65535")?,
            b"icmp" => {
                let text = name(value)?;
                let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
                let what = "a type and a code from 0 to 255, such as 8/0";
                (first, second) = (number(kind.as_bytes(), what)?, number(code.as_bytes(), what)?);
                (packet.icmp_type, packet.icmp_code) = (first, second);
            }
            b"flags" => packet.tcp_flags = flags(name(value)?)?,
            b"state" => packet.state = state(name(value)?)?,
            b"in" => packet.input = name(value)?,
            b"out" => packet.output = name(value)?,
            b"dscp" => {
                packet.dscp = number(value, "a number from 0 to 63")?;
                if packet.dscp > 63 {
                    return Err(not(value, "a number from 0 to 63"));
                }
            }
            b"mark" => packet.mark = number(value, "a number from 0 to 4294967295")?,
            _ => return Err(SYNTAX_ERROR),
        }
        at += 2;
    }
    if !(has_source && has_destination && has_protocol) {
        return Err(Failure::text("ERR a packet needs SRC, DST and PROTO"));
    }
    if packet.source.is_ipv4() != packet.destination.is_ipv4() {
        return Err(Failure::text("ERR SRC and DST are of different families"));
    }
    Ok((packet, words.skip(at)))
}

fn not(value: &[u8], allowed: &str) -> Failure {
    Failure::made(format!("ERR '{}' is not {allowed}", value.escape_ascii()))
}

fn number<T: FromStr>(value: &[u8], allowed: &str) -> Result<T, Failure> {
    let parsed = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| not(value, allowed))
}

fn protocol(value: &[u8]) -> Result<u8, Failure> {
    let known = std::str::from_utf8(value).ok().and_then(names::protocol_number);
    match known {
        Some(number) => Ok(number),
        None => number(value, "a protocol such as tcp, or a number from 0 to 255"),
    }
}

fn state(word: &str) -> Result<State, Failure> {
    State::from_name(word)
        .ok_or_else(|| not(word.as_bytes(), "one of invalid, new, established, related, untracked"))
}

fn flags(list: &str) -> Result<u8, Failure> {
    list.split(',').try_fold(0, |all, word| match names::tcp_flag(word) {
        Some(bit) => Ok(all | bit),
        None => Err(not(word.as_bytes(), "a TCP flag: fin, syn, rst, psh, ack, urg, ece, cwr")),
    })
}
