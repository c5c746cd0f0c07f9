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

use super::choices::{address_list, condition_choices, number_choices, numbers};
use super::names::{identifier, set_name};
use crate::error::{Problems, RulesError};
use crate::model::{Action, Chain, Condition, Rule, Ruleset, Test, Verdict, ranges_of_addresses};
use crate::packet::{Family, PORT_PROTOCOLS};
use crate::ranges::Ranges;

/// Why something cannot be written.
pub(crate) type Cannot = String;

/// The octets of a comment, and of what is put in front of a logged packet, that nft takes.
const COMMENT_OCTETS: usize = 128;
const PREFIX_OCTETS: usize = 127;

/// How many lines one rule may become for a family.
const LINES_LIMIT: usize = 4096;

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
                Ok(name) => write_set(ruleset, &set, &name, family, "interval", &mut out),
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

pub(crate) fn families(ruleset: &Ruleset) -> &'static [Family] {
    match ruleset.family {
        None => &Family::BOTH,
        Some(Family::Ipv4) => &[Family::Ipv4],
        Some(Family::Ipv6) => &[Family::Ipv6],
    }
}

/// Declared sets, and live ones that are only asked for.
pub(crate) fn asked_sets(ruleset: &Ruleset) -> Vec<String> {
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

pub(crate) fn write_set(
    ruleset: &Ruleset,
    set: &str,
    name: &str,
    family: Family,
    flags: &str,
    out: &mut String,
) {
    let kind = if family == Family::Ipv4 { "ipv4_addr" } else { "ipv6_addr" };
    let items = ruleset.set_named(set).and_then(|set| set.elements.as_deref()).unwrap_or(&[]);
    let ranges = ranges_of_addresses(items, family);
    let _in_a_string = writeln!(out, "\tset {name} {{\n\t\ttype {kind}\n\t\tflags {flags}");
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
    let name = identifier(&chain.name)?;
    let mut head = String::new();
    let mut body = String::new();
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
            Verdict::Reject { with: Some(with) } if rejects_some(ruleset, &[], with) => {
                return Err(refused_reject(with));
            }
            Verdict::Reject { with } => {
                last = Some(reject(with.as_deref())?);
                "drop"
            }
            other => return Err(format!("found policy {other}: nft has accept and drop")),
        };
        let _in_a_string = writeln!(head, "\t\ttype filter hook {hook} priority 0; policy {word};");
    }
    for &id in &chain.rules {
        let rule = ruleset.rule(id);
        match rule_lines(ruleset, rule) {
            Ok(lines) => {
                for line in lines {
                    body.extend(["\t\t", line.trim(), "\n"]);
                }
            }
            Err(message) => problems.push(rule.origin.line, 0, message),
        }
    }
    if let Some(last) = last {
        let leaves = |action: &Action| matches!(action, Action::Return | Action::Goto(_));
        if chain.rules.iter().any(|&id| leaves(&ruleset.rule(id).action)) {
            // Who returns from the chain meets the policy, too.
            let mut inner = format!("{name}_rules");
            while ruleset.chains.iter().any(|other| other.name == inner) {
                inner.push('_');
            }
            let _in_a_string = writeln!(out, "\tchain {inner} {{\n{body}\t}}");
            body = format!("\t\tjump {inner}\n");
        }
        let _in_a_string = writeln!(body, "\t\t{last}");
    }
    let _in_a_string = writeln!(out, "\tchain {name} {{\n{head}{body}\t}}");
    Ok(())
}

/// The lines of one rule; a rule that no packet can meet becomes a remark.
pub(crate) fn rule_lines(ruleset: &Ruleset, rule: &Rule) -> Result<Vec<String>, Cannot> {
    let end = statements(ruleset, rule)?;
    let splits = rule.conditions.iter().any(|condition| {
        matches!(
            condition.test,
            Test::Address(..)
                | Test::Set(..)
                | Test::Dscp(_)
                | Test::Family(_)
                | Test::Icmpv6(_)
                | Test::MaskedAddress { .. }
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
        let protocols = protocol_choices(&rule.conditions);
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
            branches = longer.take(LINES_LIMIT + 1).collect();
            if branches.len() > LINES_LIMIT {
                return Err(format!(
                    "found conditions that nft can only say in more than {LINES_LIMIT} lines"
                ));
            }
        }
        lines.extend(branches.into_iter().map(|branch| branch + &end));
    }
    if lines.is_empty() {
        lines.push(format!("# line {}: meets no packet", rule.origin.line));
    }
    Ok(lines)
}

/// The text for the protocols that conditions leave; none if they leave none.
pub(crate) fn protocol_choices(conditions: &[Condition]) -> Vec<String> {
    number_choices("meta l4proto", &protocols(conditions), 255, false)
}

/// The protocols that all conditions of a rule leave, those included that a field implies: nft
/// refuses a rule that asks for two.
fn protocols(conditions: &[Condition]) -> Ranges {
    let mut all = Ranges::single(0, 255);
    for condition in conditions {
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
        Action::Reject { with: Some(with) } if rejects_some(ruleset, &rule.conditions, with) => {
            return Err(refused_reject(with));
        }
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
        Action::Queue => "queue".to_owned(),
        Action::Other { target, .. } => {
            return Err(format!("found {target:?}, which is not written for nft"));
        }
    };
    if let Some(comment) = &rule.comment {
        // A remark for people: what nft cannot quote is written in other letters.
        let text: String = comment
            .chars()
            .map(|c| match c {
                '"' => '\'',
                '\\' => '/',
                c if c.is_control() => ' ',
                c => c,
            })
            .collect();
        let text = &text[..text.floor_char_boundary(COMMENT_OCTETS)];
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
    if text.len() > PREFIX_OCTETS {
        let found = crate::error::shortened(text);
        return Err(format!("found the text {found:?}: nft takes {PREFIX_OCTETS} octets at most"));
    }
    if text.contains('$') {
        return Err(format!("found the text {text:?}: nft reads $ as the name of a variable"));
    }
    if text.contains(['"', '\\']) || text.chars().any(char::is_control) {
        return Err(format!("found the text {text:?}: nft takes no quotes and backslashes in it"));
    }
    Ok(format!("\"{text}\""))
}

/// Whether a way to reject is one of some packets alone: nft asks for their protocol or family by
/// itself, and lets others pass to the next rule.
pub(crate) fn rejects_some(ruleset: &Ruleset, conditions: &[Condition], with: &str) -> bool {
    let needed = match with {
        "tcp-reset" => {
            return protocols(conditions).as_slice().iter().any(|range| *range != (6, 6));
        }
        _ if with.starts_with("icmp-") => Family::Ipv4,
        _ if with.starts_with("icmp6-") => Family::Ipv6,
        _ => return false,
    };
    let other = needed.other();
    let excludes = |condition: &Condition| match (&condition.test, condition.negated) {
        (Test::Family(family), negated) => (*family == other) == negated,
        (Test::Address(_, items), false) => items.iter().all(|item| item.family() == needed),
        (Test::Icmp(_), _) => needed == Family::Ipv4,
        (Test::Icmpv6(_), _) => needed == Family::Ipv6,
        (Test::MaskedAddress { value, .. }, false) => Family::of(*value) == needed,
        _ => false,
    };
    ruleset.family != Some(needed) && !conditions.iter().any(excludes)
}

/// Why such a way to reject is refused.
pub(crate) fn refused_reject(with: &str) -> Cannot {
    let needed = match with {
        "tcp-reset" => "proto tcp",
        _ if with.starts_with("icmp-") => "family ipv4",
        _ => "family ipv6",
    };
    format!("found reject with {with}, which nft sends to some packets alone: allowed: {needed}")
}

/// In nft's words.
pub(crate) fn reject(with: Option<&str>) -> Result<String, Cannot> {
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
