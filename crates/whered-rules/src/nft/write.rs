//! Writes a ruleset as text for `nft -f`.
//!
//! For: handing the same rules to the kernel.
//! Not for: places and sites, which the kernel does not know: they are problems.
//!
//! Addresses and DSCP are fields of one family in nft, so a rule that has them becomes one for
//! each family it can meet; "either port" becomes two rules that exclude each other, and ICMP
//! codes one for each type.
//!
//! Invariants: what is written decides every packet as the ruleset does.
//! Concurrency: pure. Cost: linear.

use std::fmt::Write as _;

use crate::error::{Problems, RulesError};
use crate::iptables::to_address;
use crate::model::{
    Action, Chain, Condition, IcmpMatch, InterfacePattern, Rule, Ruleset, Side, Test, Verdict,
    ranges_of_addresses,
};
use crate::packet::{Family, PORT_PROTOCOLS, State};
use crate::ranges::Ranges;

/// Why something cannot be written.
type Cannot = String;

/// The ruleset as one table.
///
/// # Errors
///
/// Every rule, chain and set that nft cannot express, by its line.
pub fn write(ruleset: &Ruleset) -> Result<String, RulesError> {
    let file = &ruleset.chain(ruleset.entry()).origin.file;
    let mut problems = Problems::new(file);
    let kind = match ruleset.family {
        None => "inet",
        Some(Family::Ipv4) => "ip",
        Some(Family::Ipv6) => "ip6",
    };
    let name = if identifier(&ruleset.name).is_ok() { ruleset.name.as_str() } else { "whered" };
    let mut out = format!("table {kind} {name} {{\n");
    for set in asked_sets(ruleset) {
        for &family in families(ruleset) {
            match set_name(ruleset, &set, family) {
                Ok(name) => write_set(ruleset, &set, &name, family, &mut out),
                Err(message) => problems.push(1, 0, message),
            }
        }
    }
    // Chains that are jumped to must come before.
    let (bases, others): (Vec<&Chain>, Vec<&Chain>) =
        ruleset.chains.iter().partition(|chain| chain.policy.is_some());
    for chain in &others {
        match identifier(&chain.name) {
            Ok(name) => {
                let _in_a_string = writeln!(out, "\tchain {name} {{\n\t}}");
            }
            Err(message) => problems.push(chain.origin.line, 0, message),
        }
    }
    for chain in others.into_iter().chain(bases) {
        if let Err(message) = write_chain(ruleset, chain, &mut out, &mut problems) {
            problems.push(chain.origin.line, 0, message);
        }
    }
    problems.finish()?;
    Ok(out + "}\n")
}

fn families(ruleset: &Ruleset) -> &'static [Family] {
    match ruleset.family {
        None => &Family::BOTH,
        Some(Family::Ipv4) => &[Family::Ipv4],
        Some(Family::Ipv6) => &[Family::Ipv6],
    }
}

/// Words of nft's language that somebody might name a chain, a set or a table by; nft takes none
/// of its words as a name.
const KEYWORDS: &[&str] = &[
    "accept",
    "add",
    "address",
    "ah",
    "all",
    "and",
    "arp",
    "bridge",
    "burst",
    "bypass",
    "chain",
    "chains",
    "classid",
    "code",
    "comment",
    "constant",
    "continue",
    "count",
    "counter",
    "counters",
    "create",
    "ct",
    "daddr",
    "dccp",
    "delete",
    "describe",
    "destination",
    "device",
    "dnat",
    "dport",
    "drop",
    "dscp",
    "dst",
    "dup",
    "dynamic",
    "ecn",
    "element",
    "elements",
    "eq",
    "esp",
    "ether",
    "exists",
    "expires",
    "export",
    "fib",
    "flags",
    "flow",
    "flush",
    "frag",
    "fwd",
    "ge",
    "get",
    "goto",
    "group",
    "gt",
    "handle",
    "hash",
    "hook",
    "hour",
    "icmp",
    "icmpv6",
    "id",
    "igmp",
    "iif",
    "iifname",
    "import",
    "in",
    "include",
    "inet",
    "insert",
    "interval",
    "ip",
    "ip6",
    "ipsec",
    "jhash",
    "jump",
    "last",
    "le",
    "length",
    "level",
    "limit",
    "list",
    "log",
    "lt",
    "map",
    "maps",
    "mark",
    "masquerade",
    "meta",
    "meter",
    "missing",
    "monitor",
    "ne",
    "netdev",
    "nexthdr",
    "notrack",
    "numgen",
    "offset",
    "oif",
    "oifname",
    "options",
    "or",
    "over",
    "performance",
    "policy",
    "prefix",
    "priority",
    "protocol",
    "queue",
    "quota",
    "random",
    "rate",
    "redirect",
    "reject",
    "rename",
    "replace",
    "reset",
    "return",
    "rt",
    "ruleset",
    "saddr",
    "sctp",
    "second",
    "secmark",
    "seconds",
    "set",
    "sets",
    "size",
    "skuid",
    "snat",
    "socket",
    "sport",
    "state",
    "synproxy",
    "table",
    "tables",
    "tcp",
    "th",
    "time",
    "timeout",
    "total",
    "tproxy",
    "type",
    "typeof",
    "udp",
    "udplite",
    "until",
    "update",
    "version",
    "vlan",
    "vmap",
    "week",
    "with",
    "xor",
    "xt",
];

/// nft takes letters, digits and a few others, a letter first.
fn identifier(name: &str) -> Result<&str, Cannot> {
    if KEYWORDS.contains(&name) {
        return Err(format!("found the name {name:?}, which is a word of nft's language"));
    }
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
        return Ok(name);
    }
    Err(format!(
        "found the name {name:?}: nft takes letters, digits, dots, - and _, a letter first"
    ))
}

/// Declared sets, and live ones that are only asked for.
fn asked_sets(ruleset: &Ruleset) -> Vec<String> {
    let mut names: Vec<String> = ruleset.sets.iter().map(|set| set.name.clone()).collect();
    for condition in ruleset.rules.iter().flat_map(|rule| &rule.conditions) {
        if let Test::Set(_, name) = &condition.test
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Sets are of one family in nft: where both are written, their names end with it.
fn set_name(ruleset: &Ruleset, name: &str, family: Family) -> Result<String, Cannot> {
    let name = identifier(name)?;
    Ok(match (ruleset.family, family) {
        (Some(_), _) => name.to_owned(),
        (None, Family::Ipv4) => format!("{name}_v4"),
        (None, Family::Ipv6) => format!("{name}_v6"),
    })
}

fn write_set(ruleset: &Ruleset, set: &str, name: &str, family: Family, out: &mut String) {
    let kind = if family == Family::Ipv4 { "ipv4_addr" } else { "ipv6_addr" };
    let items = ruleset.set_named(set).and_then(|set| set.elements.as_deref()).unwrap_or(&[]);
    let ranges = ranges_of_addresses(items, family);
    let _in_a_string = writeln!(out, "\tset {name} {{\n\t\ttype {kind}\n\t\tflags interval");
    if !ranges.is_empty() {
        let _in_a_string = writeln!(out, "\t\telements = {}", address_list(&ranges, family));
    }
    out.push_str("\t}\n");
}

fn write_chain(
    ruleset: &Ruleset,
    chain: &Chain,
    out: &mut String,
    problems: &mut Problems,
) -> Result<(), Cannot> {
    let _in_a_string = writeln!(out, "\tchain {} {{", identifier(&chain.name)?);
    let mut last = None;
    if let Some(policy) = &chain.policy {
        let lower = chain.name.to_ascii_lowercase();
        let hook = match lower.as_str() {
            "input" | "forward" | "output" => lower.as_str(),
            _ if ruleset.base_chains().count() == 1 => "input",
            _ => {
                return Err(format!(
                    "found chain {:?} with a policy: allowed is input, forward or output, or one \
                     alone",
                    chain.name
                ));
            }
        };
        let word = match policy {
            Verdict::Accept => "accept",
            Verdict::Drop => "drop",
            Verdict::Reject { with } => {
                last = Some(reject(with.as_deref())?);
                "drop"
            }
            other => return Err(format!("found policy {other}: nft has accept and drop")),
        };
        let _in_a_string = writeln!(out, "\t\ttype filter hook {hook} priority 0; policy {word};");
    }
    for &id in &chain.rules {
        let rule = ruleset.rule(id);
        match rule_lines(ruleset, rule) {
            Ok(lines) => {
                for line in lines {
                    out.extend(["\t\t", line.trim(), "\n"]);
                }
            }
            Err(message) => problems.push(rule.origin.line, 0, message),
        }
    }
    if let Some(last) = last {
        let _in_a_string = writeln!(out, "\t\t{last}");
    }
    out.push_str("\t}\n");
    Ok(())
}

/// The lines of one rule; a rule that no packet can meet becomes a remark.
fn rule_lines(ruleset: &Ruleset, rule: &Rule) -> Result<Vec<String>, Cannot> {
    let end = statements(ruleset, rule)?;
    let splits = rule.conditions.iter().any(|condition| {
        matches!(
            condition.test,
            Test::Address(..) | Test::Set(..) | Test::Dscp(_) | Test::Family(_)
        )
    });
    let mut lines = Vec::new();
    let choices: Vec<Option<Family>> = match (splits, ruleset.family) {
        (false, _) => vec![None],
        (true, _) => families(ruleset).iter().copied().map(Some).collect(),
    };
    for family in choices {
        let mut branches = vec![String::new()];
        if let (Some(family), None) = (family, ruleset.family) {
            branches = vec![format!("meta nfproto {} ", family.name())];
        }
        let protocols = number_choices("meta l4proto", &protocols(rule), 255, false);
        branches = match protocols.as_slice() {
            [] => Vec::new(),
            [text] if text.is_empty() => branches,
            [text, ..] => branches.iter().map(|branch| format!("{branch}{text} ")).collect(),
        };
        for condition in &rule.conditions {
            let choices = condition_choices(ruleset, condition, family)?;
            let longer = branches.iter().flat_map(|branch| {
                choices.iter().map(move |choice| match choice.as_str() {
                    "" => branch.clone(),
                    choice => format!("{branch}{choice} "),
                })
            });
            branches = longer.collect();
        }
        lines.extend(branches.into_iter().map(|branch| branch + &end));
    }
    if lines.is_empty() {
        lines.push(format!("# line {}: meets no packet", rule.origin.line));
    }
    Ok(lines)
}

/// The protocols that all conditions of a rule leave, those included that a field implies: nft
/// refuses a rule that asks for two.
fn protocols(rule: &Rule) -> Ranges {
    let mut all = Ranges::single(0, 255);
    for condition in &rule.conditions {
        let ranges = match &condition.test {
            Test::Protocol(list) if condition.negated => numbers(list).complement(255),
            Test::Protocol(list) => numbers(list),
            Test::Port(..) | Test::EitherPort(_) => {
                let list = PORT_PROTOCOLS.iter().map(|&number| (number.into(), number.into()));
                Ranges::new(list.collect())
            }
            Test::Icmp(_) => Ranges::single(1, 1),
            Test::Icmpv6(_) => Ranges::single(58, 58),
            Test::TcpFlags { .. } => Ranges::single(6, 6),
            _ => continue,
        };
        all = all.intersect(&ranges);
    }
    all
}

fn statements(ruleset: &Ruleset, rule: &Rule) -> Result<String, Cannot> {
    let mut out = String::new();
    if let Some(counters) = rule.counters {
        out = format!("counter packets {} bytes {} ", counters.packets, counters.bytes);
    }
    let callee = |id| identifier(&ruleset.chain(id).name);
    out += &match &rule.action {
        Action::Accept => "accept".to_owned(),
        Action::Drop => "drop".to_owned(),
        Action::Return => "return".to_owned(),
        Action::Continue => "continue".to_owned(),
        Action::Reject { with } => reject(with.as_deref())?,
        Action::Jump(id) => format!("jump {}", callee(*id)?),
        Action::Goto(id) => format!("goto {}", callee(*id)?),
        Action::SetMark { value, mask: u32::MAX } => format!("meta mark set {value:#x}"),
        Action::SetMark { value, mask } => {
            format!("meta mark set meta mark & {:#x} ^ {value:#x}", !mask)
        }
        Action::Log { prefix, level } => {
            let prefix =
                prefix.as_ref().map(|text| quoted(text).map(|text| format!(" prefix {text}")));
            let level = level.as_ref().map(|level| format!(" level {}", level_name(level)));
            format!("log{}{}", prefix.transpose()?.unwrap_or_default(), level.unwrap_or_default())
        }
        Action::Site(name) => return Err(format!("found site {name}: nft knows no sites")),
    };
    if let Some(comment) = &rule.comment {
        // A remark for people: what nft cannot quote is written in other letters.
        let text: String = comment.replace('"', "'").replace('\\', "/").chars().take(120).collect();
        let _in_a_string = write!(out, " comment \"{text}\"");
    }
    Ok(out)
}

/// Level numbers are iptables' way.
fn level_name(level: &str) -> &str {
    const NAMES: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    match level.parse::<usize>() {
        Ok(number) => NAMES.get(number).copied().unwrap_or(level),
        Err(_) if level == "warning" => "warn",
        Err(_) => level,
    }
}

fn quoted(text: &str) -> Result<String, Cannot> {
    if text.contains(['"', '\\']) || text.chars().any(char::is_control) {
        return Err(format!("found the text {text:?}: nft takes no quotes and backslashes in it"));
    }
    Ok(format!("\"{text}\""))
}

/// In nft's words.
fn reject(with: Option<&str>) -> Result<String, Cannot> {
    let Some(with) = with else { return Ok("reject".to_owned()) };
    let words = match with {
        "tcp-reset" => "tcp reset".to_owned(),
        "icmp-proto-unreachable" => "icmp prot-unreachable".to_owned(),
        "icmp6-adm-prohibited" => "icmpv6 admin-prohibited".to_owned(),
        other => {
            let kinds = [("icmp6-", "icmpv6"), ("icmpx-", "icmpx"), ("icmp-", "icmp")];
            let found = kinds.iter().find_map(|(start, kind)| {
                other.strip_prefix(start).map(|rest| format!("{kind} {rest}"))
            });
            found.ok_or_else(|| format!("found reject with {other}: nft has no such way"))?
        }
    };
    Ok(format!("reject with {words}"))
}

/// The texts of a condition, of which a line has one; none if nothing meets it. The family is
/// given where the rule has a field of one family.
fn condition_choices(
    ruleset: &Ruleset,
    condition: &Condition,
    family: Option<Family>,
) -> Result<Vec<String>, Cannot> {
    let negated = condition.negated;
    let not = if negated { "!= " } else { "" };
    let always = || vec![String::new()];
    let of_family = family.or(ruleset.family).unwrap_or(Family::Ipv4);
    let ip = if of_family == Family::Ipv4 { "ip" } else { "ip6" };
    Ok(match &condition.test {
        Test::Family(of) if (*of == of_family) == negated => Vec::new(),
        Test::Family(_) => always(),
        Test::Address(side, items) => {
            address_choices(*side, &ranges_of_addresses(items, of_family), of_family, negated)
        }
        Test::Set(side, name) => {
            let name = set_name(ruleset, name, of_family)?;
            vec![format!("{ip} {} {not}@{name}", address_field(*side))]
        }
        Test::Place(predicate) => {
            return Err(format!("found \"{predicate}\": nft knows no places"));
        }
        Test::Protocol(_) => always(),
        Test::Port(side, list) => port_choices(*side, list, negated),
        Test::EitherPort(list) => {
            let source = |negated| port_choices(Side::Source, list, negated);
            let destination = port_choices(Side::Destination, list, negated);
            let both: Vec<String> = source(true)
                .iter()
                .flat_map(|a| destination.iter().map(move |b| format!("{a} {b}")))
                .collect();
            if negated { both } else { [source(false), both].concat() }
        }
        Test::Icmp(_) if of_family == Family::Ipv6 => Vec::new(),
        Test::Icmpv6(_) if of_family == Family::Ipv4 => Vec::new(),
        Test::Icmp(list) => icmp_choices("icmp", list, negated),
        Test::Icmpv6(list) => icmp_choices("icmpv6", list, negated),
        Test::TcpFlags { mask: 0, .. } if negated => Vec::new(),
        Test::TcpFlags { mask: 0, .. } => always(),
        Test::TcpFlags { mask, compare } => {
            let operator = if negated { "!=" } else { "==" };
            vec![format!("tcp flags & {mask:#x} {operator} {compare:#x}")]
        }
        Test::Input(list) => interface_choices("iifname", list, negated),
        Test::Output(list) => interface_choices("oifname", list, negated),
        Test::State(list) => {
            let fitting = State::ALL.iter().filter(|state| list.contains(state) != negated);
            let names: Vec<&str> = fitting.map(|state| state.name()).collect();
            match names.len() {
                0 => Vec::new(),
                5 => always(),
                _ => vec![format!("ct state {}", names.join(","))],
            }
        }
        Test::Dscp(list) => number_choices(&format!("{ip} dscp"), &numbers(list), 63, negated),
        Test::Mark { mask: 0, .. } => {
            if negated {
                Vec::new()
            } else {
                always()
            }
        }
        Test::Mark { value, mask } => {
            let operator = if negated { "!=" } else { "==" };
            vec![format!("meta mark & {mask:#x} {operator} {value:#x}")]
        }
    })
}

fn address_choices(side: Side, ranges: &Ranges, family: Family, negated: bool) -> Vec<String> {
    let all = ranges.complement(family.largest()).is_empty();
    if (ranges.is_empty() && negated) || (all && !negated) {
        return vec![String::new()];
    }
    if ranges.is_empty() || all {
        return Vec::new();
    }
    let ip = if family == Family::Ipv4 { "ip" } else { "ip6" };
    let not = if negated { "!= " } else { "" };
    vec![format!("{ip} {} {not}{}", address_field(side), address_list(ranges, family))]
}

fn address_field(side: Side) -> &'static str {
    if side == Side::Source { "saddr" } else { "daddr" }
}

fn address_list(ranges: &Ranges, family: Family) -> String {
    let shown = ranges.as_slice().iter().map(|&(first, last)| {
        let (from, to) = (to_address(first, family), to_address(last, family));
        if first == last { from.to_string() } else { format!("{from}-{to}") }
    });
    format!("{{ {} }}", shown.collect::<Vec<_>>().join(", "))
}

/// A field of numbers; negation is folded in.
fn number_choices(field: &str, ranges: &Ranges, largest: u128, negated: bool) -> Vec<String> {
    let ranges = if negated { ranges.complement(largest) } else { ranges.clone() };
    if ranges.as_slice() == [(0, largest)] {
        return vec![String::new()];
    }
    if ranges.is_empty() {
        return Vec::new();
    }
    let shown = ranges.as_slice().iter().map(|&(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    vec![format!("{field} {{ {} }}", shown.collect::<Vec<_>>().join(", "))]
}

/// Ports, of whatever protocol.
fn port_choices(side: Side, list: &[(u16, u16)], negated: bool) -> Vec<String> {
    let field = if side == Side::Source { "th sport" } else { "th dport" };
    number_choices(field, &numbers(list), 65_535, negated)
}

/// Types that any code goes with in one text, each other type with its codes in one of its own.
fn icmp_choices(field: &str, list: &[IcmpMatch], negated: bool) -> Vec<String> {
    let matches = |kind: u8, code: u8| list.iter().any(|item| item.matches(kind, code)) != negated;
    let mut whole = Vec::new();
    let mut choices = Vec::new();
    for kind in 0..=255u8 {
        let codes = (0..=255u8).filter(|&code| matches(kind, code));
        let codes = Ranges::new(codes.map(|code| (code.into(), code.into())).collect());
        if codes.as_slice() == [(0, 255)] {
            whole.push((u128::from(kind), u128::from(kind)));
        } else if !codes.is_empty() {
            let codes = number_choices(&format!("{field} code"), &codes, 255, false);
            choices.extend(codes.iter().map(|codes| format!("{field} type {kind} {codes}")));
        }
    }
    let whole = number_choices(&format!("{field} type"), &Ranges::new(whole), 255, false);
    choices.extend(whole);
    choices
}

fn interface_choices(field: &str, list: &[InterfacePattern], negated: bool) -> Vec<String> {
    if list.contains(&InterfacePattern::Begins(String::new())) {
        return if negated { Vec::new() } else { vec![String::new()] };
    }
    let shown = |pattern: &InterfacePattern| match pattern {
        InterfacePattern::Exact(name) => format!("\"{name}\""),
        InterfacePattern::Begins(start) => format!("\"{start}*\""),
    };
    let inside = |pattern: &InterfacePattern| {
        list.iter().any(|other| match (other, pattern) {
            (InterfacePattern::Begins(wide), InterfacePattern::Exact(name)) => {
                name.starts_with(wide.as_str())
            }
            (InterfacePattern::Begins(wide), InterfacePattern::Begins(name)) => {
                name != wide && name.starts_with(wide.as_str())
            }
            _ => false,
        })
    };
    let mut kept: Vec<String> = list.iter().filter(|pattern| !inside(pattern)).map(shown).collect();
    kept.sort();
    kept.dedup();
    if negated {
        // All must differ, which several matches in a row say.
        let parts: Vec<String> = kept.iter().map(|name| format!("{field} != {name}")).collect();
        return vec![parts.join(" ")];
    }
    // Wildcards in a set need a newer nft than most have; patterns that exclude each other may as
    // well be rules of their own.
    let (wild, exact): (Vec<String>, Vec<String>) =
        kept.into_iter().partition(|n| n.ends_with("*\""));
    let mut choices: Vec<String> = wild.iter().map(|name| format!("{field} {name}")).collect();
    if !exact.is_empty() {
        choices.push(format!("{field} {{ {} }}", exact.join(", ")));
    }
    choices
}

fn numbers<T: Into<u128> + Copy>(list: &[(T, T)]) -> Ranges {
    Ranges::new(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
}
