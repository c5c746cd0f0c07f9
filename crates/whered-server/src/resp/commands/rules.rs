//! Rulesets: `RULES.MATCH MMATCH EXPLAIN INFO LIST GET COUNTERS`, and their changes: `RULES.SET UNSET
//! INSERT DELETE REPLACE RELOAD`.
//!
//! Not for: what a change does (the engine does it). A ruleset of the configuration is its file's;
//! commands change those that commands have set. A packet is given by words:
//!
//! ```text
//! SRC a DST a PROTO p [SPORT n] [DPORT n] [ICMP type/code] [FLAGS syn,ack] [STATE s]
//!     [IN interface] [OUT interface] [DSCP n] [MARK n] [LENGTH bytes] [WITH detail=value ...]
//! ```
//!
//! In `RULES.MMATCH` each `SRC` begins the next packet.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use whered_engine::ip::HostBitsFinder;
use whered_engine::rules::live::Decision;
use whered_engine::rules::{At, Detail, Format, Packet, State, names, text};
use whered_engine::{Edition, NamedRuleset, Ticket};

use super::cidr::remark;
use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, SYNTAX_ERROR, WhenFull, address, name, no_such,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::rules;

const RULES: Command = Command {
    name: "",
    arity: -8,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "rules",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Ruleset, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "ruleset SRC address DST address PROTO protocol [SPORT n] [DPORT n] [ICMP type/code] \
             [FLAGS names] [STATE state] [IN interface] [OUT interface] [DSCP n] [MARK n] [LENGTH bytes] \
             [WITH detail=value ...]",
    summary: "",
    cost: "O(1), nearly whatever the number of rules",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

/// What commands name that write one rule, whose text may name more.
const WRITTEN: &[NameSpec] = &[NameSpec::Args(NameKind::Ruleset, 1, 1), NameSpec::Rule];

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "rules.counters",
        arity: -2,
        syntax: "ruleset [RESET]",
        summary: "Returns the packets and bytes that each rule and the policy have counted",
        cost: "O(N) with N rules",
        action: Action::Run(counters),
        ..RULES
    },
    Command {
        name: "rules.delete",
        arity: 3,
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Refused,
        syntax: "ruleset number",
        summary: "Deletes a rule from a ruleset",
        cost: "O(N) with N rules; all are compiled when the rule's chain is one that is called",
        action: Action::Run(|session, args, reply| {
            let number = rule_number(args.at(2))?;
            finish(reply, session.engine().delete_rule(name(args.at(1))?, number)?.ticket)
        }),
        ..RULES
    },
    Command {
        name: "rules.explain",
        summary: "Explains which rule decides a packet, and why no earlier rule does",
        cost: "O(N) with N rules",
        action: Action::Run(explain),
        ..RULES
    },
    Command {
        name: "rules.get",
        arity: -2,
        syntax: "ruleset [PLACES]",
        summary: "Returns the rules as they are now, as text; with PLACES, places as sets",
        cost: "O(N) with N rules; with PLACES, and M networks of the databases that are asked",
        action: Action::Run(get),
        ..RULES
    },
    Command {
        name: "rules.info",
        arity: 2,
        syntax: "ruleset",
        summary: "Describes a ruleset: its source and how it is compiled",
        cost: "O(1)",
        action: Action::Run(info),
        ..RULES
    },
    Command {
        name: "rules.insert",
        arity: -5,
        names: WRITTEN,
        when_full: WhenFull::Refused,
        flags: &[Flag::Write, Flag::Fast],
        syntax: "ruleset BEFORE number|AFTER number|POSITION position [CHAIN chain] rule",
        summary: "Inserts a rule into a ruleset, and returns its number",
        cost: "O(N) with N rules; all are compiled when the chain is one that is called",
        action: Action::Run(insert),
        ..RULES
    },
    Command {
        name: "rules.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Ruleset)],
        syntax: "",
        summary: "Returns the names of all rulesets",
        cost: "O(N) with N rulesets",
        action: Action::Run(|session, _, reply| {
            let generation = session.engine().generation();
            let names = generation.rulesets().iter().map(|named| &*named.name);
            super::named::write_shown(session, NameKind::Ruleset, names, reply);
            Ok(Effect::Unchanged)
        }),
        ..RULES
    },
    Command {
        name: "rules.match",
        summary: "Returns a packet's verdict, and the rule's number and line that decided",
        action: Action::Run(find),
        ..RULES
    },
    Command {
        name: "rules.mmatch",
        syntax: "ruleset SRC address DST address PROTO protocol [...] [SRC ...]",
        summary: "Returns the verdicts of several packets, or an error in a packet's position",
        cost: "O(N) with N packets",
        action: Action::Run(find_many),
        ..RULES
    },
    Command {
        name: "rules.reload",
        arity: 2,
        flags: &[Flag::Admin],
        syntax: "ruleset",
        summary: "Rereads a ruleset's file; a wrong file leaves the old rules",
        cost: "O(N) with N rules, which are compiled",
        action: Action::Run(reload),
        ..RULES
    },
    Command {
        name: "rules.replace",
        arity: 4,
        names: WRITTEN,
        when_full: WhenFull::Refused,
        flags: &[Flag::Write, Flag::Fast],
        syntax: "ruleset number rule",
        summary: "Replaces a rule",
        cost: "O(N) with N rules; all are compiled when the rule's chain is one that is called",
        action: Action::Run(|session, args, reply| {
            let (number, rule) = (rule_number(args.at(2))?, utf8(args.at(3))?);
            let written = session.engine().replace_rule(name(args.at(1))?, number, rule)?;
            remark_on_host_bits("RULES.REPLACE", rule);
            finish(reply, written.ticket)
        }),
        ..RULES
    },
    Command {
        name: "rules.set",
        arity: 4,
        names: &[NameSpec::Args(NameKind::Ruleset, 1, 1), NameSpec::Ruleset(2)],
        when_full: WhenFull::Refused,
        flags: &[Flag::Write],
        syntax: "ruleset OWN|IPTABLES|NFT|CLASSBENCH|AUTO text",
        summary: "Sets a whole ruleset, and returns how many rules it has",
        cost: "O(N) with N rules, which are compiled",
        action: Action::Run(set),
        ..RULES
    },
    Command {
        name: "rules.unset",
        arity: 2,
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Refused,
        syntax: "ruleset",
        summary: "Removes a ruleset set by RULES.SET",
        cost: "O(1)",
        action: Action::Run(|session, args, reply| {
            finish(reply, session.engine().unset_rules(name(args.at(1))?)?.ticket)
        }),
        ..RULES
    },
];

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let edition = named(session, args)?.edition();
    let ruleset = match args.len() {
        2 => edition.to_ruleset().0,
        3 if args.is(2, "places") => edition
            .with_locations_as_sets()
            .map_err(|error| Failure::made(format!("ERR {error}")))?,
        _ => return Err(SYNTAX_ERROR),
    };
    reply.verbatim(text::write(&ruleset).as_bytes());
    Ok(Effect::Unchanged)
}

fn finish(reply: &mut Reply, ticket: Ticket) -> Outcome {
    reply.hold(ticket);
    reply.ok();
    Ok(Effect::Changed)
}

fn find(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let edition = named(session, args)?.edition();
    let (given, rest) = read_packet(args.skip(2))?;
    if rest.len() > 0 {
        return Err(SYNTAX_ERROR);
    }
    let decision = edition.find(&given.packet(), given.bytes, session.engine().prefix_sets());
    write_decision(&edition, &decision, reply);
    Ok(Effect::Unchanged)
}

fn find_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let edition = named(session, args)?.edition();
    let (mut given, mut failures) = (Vec::new(), Vec::new());
    let mut rest = args.skip(2);
    while rest.len() > 0 {
        match read_packet(rest) {
            Ok((packet, later)) => {
                given.push(packet);
                failures.push(None);
                rest = later;
            }
            Err(failure) => {
                failures.push(Some(failure));
                rest = next_packet(rest);
            }
        }
    }
    let packets: Vec<Packet<'_>> = given.iter().map(GivenPacket::packet).collect();
    let lengths: Vec<u64> = given.iter().map(|packet| packet.bytes).collect();
    let decisions = edition.find_batch(&packets, &lengths, session.engine().prefix_sets());
    let mut decisions = decisions.iter();
    reply.array(failures.len());
    for failure in &failures {
        match (failure, decisions.as_slice()) {
            (None, [decision, ..]) => {
                write_decision(&edition, decision, reply);
                decisions.next();
            }
            (Some(failure), _) => reply.error(failure),
            (None, []) => reply.null(),
        }
    }
    Ok(Effect::Unchanged)
}

/// What follows a packet's words: each packet begins with its `SRC`.
fn next_packet(words: Args<'_>) -> Args<'_> {
    let next = (1..words.len()).find(|&at| words.is(at, "src") && at % 2 == 0);
    words.skip(next.unwrap_or(words.len()))
}

/// Verdict, rule number and `file:line`; nulls where the policy decided.
fn write_decision(edition: &Edition, decision: &Decision, reply: &mut Reply) {
    reply.array(3);
    reply.bulk(decision.verdict.to_string().as_bytes());
    match decision.rule.and_then(|number| Some((number, edition.rule(number)?))) {
        Some((number, rule)) => {
            reply.count(number as usize);
            reply.bulk(rule.origin.to_string().as_bytes());
        }
        None => {
            reply.null();
            reply.null();
        }
    }
}

fn explain(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ruleset = named(session, args)?;
    let (given, rest) = read_packet(args.skip(2))?;
    if rest.len() > 0 {
        return Err(SYNTAX_ERROR);
    }
    let reasons = ruleset.edition().explain(&given.packet(), session.engine().prefix_sets());
    reply.verbatim(reasons.as_bytes());
    Ok(Effect::Unchanged)
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let ruleset = named(session, args)?;
    let pairs = rules::describe(&ruleset);
    reply.map(pairs.len());
    for (field, value) in pairs {
        reply.bulk(field.as_bytes());
        match value {
            Value::Null => reply.null(),
            Value::String(text) => reply.bulk(text.as_bytes()),
            other => reply.bulk(other.to_string().as_bytes()),
        }
    }
    Ok(Effect::Unchanged)
}

/// `policy` with packets and bytes, and `rules` with number, packets and bytes of each in order.
fn counters(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_reset = match args.len() {
        2 => false,
        3 if args.is(2, "reset") => true,
        _ => return Err(SYNTAX_ERROR),
    };
    let (rules, policy) = named(session, args)?.counts(is_reset);
    reply.map(2);
    reply.bulk(b"policy");
    reply.array(2);
    let write = |reply: &mut Reply, count: u64| {
        reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    };
    write(reply, policy.packets);
    write(reply, policy.bytes);
    reply.bulk(b"rules");
    reply.array(rules.len());
    for (number, count) in rules {
        reply.array(3);
        reply.count(number as usize);
        write(reply, count.packets);
        write(reply, count.bytes);
    }
    Ok(Effect::Unchanged)
}

/// The format of a text; `None`: its first line tells it.
pub(super) fn format(word: &[u8]) -> Result<Option<Format>, Failure> {
    if word.eq_ignore_ascii_case(b"auto") {
        return Ok(None);
    }
    let known = std::str::from_utf8(word).ok().and_then(Format::named);
    known.filter(|format| format.code().is_some()).map(Some).ok_or_else(|| {
        let names: Vec<&str> = Format::readable().map(Format::name).collect();
        not(word, &format!("a format: {}, auto", names.join(", ")))
    })
}

fn set(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let format = format(args.at(2))?;
    let text = utf8(args.at(3))?;
    let written = session.engine().set_rules(name(args.at(1))?, format, text)?;
    remark_on_host_bits("RULES.SET", text);
    reply.hold(written.ticket);
    reply.count(written.value.rules);
    Ok(Effect::Changed)
}

/// Logs that a prefix such as `10.0.0.1/8` is taken as `10.0.0.0/8`.
fn remark_on_host_bits(command: &str, text: &str) {
    if let Some(found) = HostBitsFinder::of(text.as_bytes()).remark() {
        remark(&format!("{command}: {found}"));
    }
}

fn insert(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (at, rule) = if args.is(2, "before") {
        (At::Before(rule_number(args.at(3))?), 4)
    } else if args.is(2, "after") {
        (At::After(rule_number(args.at(3))?), 4)
    } else if args.is(2, "position") {
        let position = number(args.at(3), "a position from 1 on")?;
        match args.len() > 5 && args.is(4, "chain") {
            true => (At::Position(Some(name(args.at(5))?), position), 6),
            false => (At::Position(None, position), 4),
        }
    } else {
        return Err(SYNTAX_ERROR);
    };
    if args.len() != rule + 1 {
        return Err(SYNTAX_ERROR);
    }
    let rule = utf8(args.at(rule))?;
    let written = session.engine().insert_rule(name(args.at(1))?, at, rule)?;
    remark_on_host_bits("RULES.INSERT", rule);
    reply.hold(written.ticket);
    reply.count(written.value as usize);
    Ok(Effect::Changed)
}

fn reload(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let named = named(session, args)?;
    if named.file.is_none() {
        let name = &named.name;
        return Err(Failure::made(format!(
            "ERR ruleset '{name}' was set by command, it has no file"
        )));
    }
    session
        .engine()
        .reload_ruleset(&named.name)
        .map_err(|failure| Failure::made(format!("ERR {failure}; the old rules serve on")))?;
    reply.ok();
    Ok(Effect::Unchanged)
}

fn named(session: &Session, args: Args<'_>) -> Result<Arc<NamedRuleset>, Failure> {
    let ruleset = name(args.at(1))?;
    let generation = session.generation();
    generation.ruleset(ruleset).cloned().ok_or_else(|| match generation.resting(ruleset) {
        Some(reason) => Failure::made(format!("ERR ruleset '{ruleset}' rests: {reason}")),
        None => no_such("ruleset", ruleset),
    })
}

fn rule_number(text: &[u8]) -> Result<u32, Failure> {
    number(text, "a rule's number")
}

fn utf8(text: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(text).map_err(|_| Failure::text("ERR the rules are no text in UTF-8"))
}

/// A packet as the words of a command give it.
struct GivenPacket<'a> {
    /// Without its details.
    fields: Packet<'a>,
    details: Vec<(Detail, u64)>,
    /// What counters add.
    bytes: u64,
}

impl GivenPacket<'_> {
    fn packet(&self) -> Packet<'_> {
        Packet { details: &self.details, ..self.fields }
    }
}

/// A packet, and the words from the next `SRC` on.
fn read_packet<'a>(words: Args<'a>) -> Result<(GivenPacket<'a>, Args<'a>), Failure> {
    let (mut packet, mut bytes, mut details) = (Packet::default(), 0, Vec::new());
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
            b"length" => bytes = u64::from(number::<u32>(value, "a number of bytes")?),
            b"with" => {
                let pair = Detail::of_pair(name(value)?);
                details.push(pair.ok_or_else(|| not(value, "a detail and its value, as ttl=64"))?);
            }
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
    Ok((GivenPacket { fields: packet, details, bytes }, words.skip(at)))
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
