//! Writes a ruleset in the own format.
//!
//! For: conversion, and for showing single rules and conditions to people.
//! Not for: keeping the layout and the comments of a file.
//!
//! Invariants: reading the text back gives the same ruleset but for the lines.
//! Concurrency: pure. Cost: linear.

use std::fmt::{self, Display, Write};

use super::lex::is_word;
use crate::model::{
    Action, Changes, Condition, Counters, Detail, IcmpMatch, InterfacePattern, Rule, Ruleset, Side,
    Test, Uncertain,
};
use crate::names;

/// The ruleset as text.
pub fn write(ruleset: &Ruleset) -> String {
    let mut out = String::new();
    write_all(ruleset, &mut out).expect("writing to a string cannot fail");
    out
}

/// One condition as the format writes it, for explanations.
pub fn condition_text(condition: &Condition) -> String {
    let mut out = String::new();
    write_condition(condition, &mut out).expect("writing to a string cannot fail");
    out
}

/// One rule as the format writes it, without counters and comment, for explanations.
pub fn rule_text(ruleset: &Ruleset, rule: &Rule) -> String {
    let mut out = String::new();
    let plain = Rule { counters: None, comment: None, ..rule.clone() };
    write_rule(ruleset, &plain, &mut out).expect("writing to a string cannot fail");
    out
}

fn write_all(ruleset: &Ruleset, out: &mut String) -> fmt::Result {
    if !ruleset.name.is_empty() {
        writeln!(out, "ruleset {}", Name(&ruleset.name))?;
    }
    if let Some(family) = ruleset.family {
        writeln!(out, "family {}", family.name())?;
    }
    if ruleset.base_chains().count() > 1 {
        writeln!(out, "entry {}", Name(&ruleset.chain(ruleset.entry).name))?;
    }
    for set in &ruleset.sets {
        write!(out, "set {} ", Name(&set.name))?;
        match &set.elements {
            None => out.push_str("live\n"),
            Some(elements) => {
                out.push_str("{\n");
                for element in elements {
                    writeln!(out, "    {element}")?;
                }
                out.push_str("}\n");
            }
        }
    }
    let asks_address_types = ruleset.rules.iter().flat_map(|rule| &rule.conditions).any(|one| {
        matches!(&one.test, Test::Detail(test)
            if [Detail::SOURCE_TYPE, Detail::DESTINATION_TYPE].contains(&test.detail.name()))
    });
    for chain in &ruleset.chains {
        write!(out, "chain {}", Name(&chain.name))?;
        if let Some(policy) = &chain.policy {
            write!(out, " policy {policy}")?;
        }
        // Nothing else depends on it.
        if let Some(hook) = chain.hook.filter(|_| asks_address_types) {
            write!(out, " hook {hook}")?;
        }
        if let Some(counters) = chain.counters {
            write!(out, " {}", CounterText(counters))?;
        }
        out.push_str(" {\n");
        for &id in &chain.rules {
            out.push_str("    ");
            write_rule(ruleset, ruleset.rule(id), out)?;
            out.push('\n');
        }
        out.push_str("}\n");
    }
    Ok(())
}

fn write_rule(ruleset: &Ruleset, rule: &Rule, out: &mut String) -> fmt::Result {
    if let Some(counters) = rule.counters {
        write!(out, "{} ", CounterText(counters))?;
    }
    for condition in &rule.conditions {
        write_condition(condition, out)?;
        out.push(' ');
    }
    match &rule.action {
        Action::Accept => out.push_str("accept"),
        Action::Drop => out.push_str("drop"),
        Action::Reject { with: None } => out.push_str("reject"),
        Action::Reject { with: Some(with) } => write!(out, "reject with {}", Name(with))?,
        Action::Site(name) => write!(out, "site {}", Name(name))?,
        Action::Jump(chain) => write!(out, "jump {}", Name(&ruleset.chain(*chain).name))?,
        Action::Goto(chain) => write!(out, "goto {}", Name(&ruleset.chain(*chain).name))?,
        Action::Return => out.push_str("return"),
        Action::Log { prefix, level } => {
            out.push_str("log");
            if let Some(prefix) = prefix {
                write!(out, " {}", QuotedText(prefix))?;
            }
            if let Some(level) = level {
                write!(out, " level {}", Name(level))?;
            }
        }
        Action::SetMark { value, mask } => write!(out, "set-mark {value:#x}/{mask:#x}")?,
        Action::Continue => out.push_str("continue"),
        Action::Queue => out.push_str("queue"),
        Action::Other { target, changes } => {
            let changes = if *changes == Changes::Mark { "changes mark " } else { "" };
            write!(out, "also {changes}{}", QuotedText(target))?;
        }
    }
    if let Some(comment) = &rule.comment {
        write!(out, " comment {}", QuotedText(comment))?;
    }
    Ok(())
}

fn write_condition(condition: &Condition, out: &mut String) -> fmt::Result {
    if condition.negated {
        out.push_str("not ");
    }
    match &condition.test {
        Test::Family(family) => write!(out, "family {}", family.name()),
        Test::Address(side, items) => write!(out, "{} {}", side.name(), List(items)),
        Test::Set(side, name) if name.chars().all(is_word) => {
            write!(out, "{} @{name}", side.name())
        }
        Test::Set(side, name) => write!(out, "{} @{}", side.name(), QuotedText(name)),
        Test::Place(predicate) => write!(out, "{predicate}"),
        Test::Protocol(list) => {
            let shown: Vec<String> = list
                .iter()
                .map(|&(first, last)| match names::protocol_name(first) {
                    Some(name) if first == last => name.to_owned(),
                    _ => Span(first, last).to_string(),
                })
                .collect();
            write!(out, "proto {}", List(&shown))
        }
        Test::Port(side, list) => {
            let name = if *side == Side::Source { "sport" } else { "dport" };
            write!(out, "{name} {}", List(&spans(list)))
        }
        Test::EitherPort(list) => write!(out, "port {}", List(&spans(list))),
        Test::Icmp(list) => write!(out, "icmp {}", List(list)),
        Test::Icmpv6(list) => write!(out, "icmpv6 {}", List(list)),
        Test::TcpFlags { mask, compare } => {
            write!(out, "flags {} of {}", Flags(*compare), Flags(*mask))
        }
        Test::Input(list) => write!(out, "in {}", List(&interfaces(list))),
        Test::Output(list) => write!(out, "out {}", List(&interfaces(list))),
        Test::State(list) => {
            let shown: Vec<&str> = list.iter().map(|state| state.name()).collect();
            write!(out, "state {}", List(&shown))
        }
        Test::Dscp(list) => write!(out, "dscp {}", List(&spans(list))),
        Test::Mark { value, mask } => write!(out, "mark {value:#x}/{mask:#x}"),
        Test::MaskedAddress { side, value, mask } => {
            write!(out, "masked {} {value} {mask}", side.name())
        }
        Test::Detail(test) => write!(out, "with {test}"),
        Test::Uncertain(Uncertain { kind, text }) => {
            write!(out, "maybe {} {}", Name(kind), QuotedText(text))
        }
    }
}

fn spans<T: Copy>(list: &[(T, T)]) -> Vec<Span<T>> {
    list.iter().map(|&(first, last)| Span(first, last)).collect()
}

/// Interfaces as the parser takes them; an exact name that ends with a plus needs quotes.
fn interfaces(list: &[InterfacePattern]) -> Vec<String> {
    let shown = |pattern: &InterfacePattern| match pattern {
        InterfacePattern::Exact(name) if name.ends_with('+') => QuotedText(name).to_string(),
        InterfacePattern::Exact(name) => Name(name).to_string(),
        InterfacePattern::Begins(start) => format!("{start}+"),
    };
    list.iter().map(shown).collect()
}

/// `n` or `n-m`.
struct Span<T>(T, T);

impl<T: Display + PartialEq> Display for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 { write!(f, "{}", self.0) } else { write!(f, "{}-{}", self.0, self.1) }
    }
}

impl Display for IcmpMatch {
    /// `type` or `type/code`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Span(self.types.0, self.types.1))?;
        if self.codes == (0, 255) {
            return Ok(());
        }
        write!(f, "/{}", Span(self.codes.0, self.codes.1))
    }
}

/// One item, or all in braces.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return write!(f, "{only}");
        }
        f.write_char('{')?;
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { " " })?;
        }
        f.write_char('}')
    }
}

/// Flags by name, `all` or `none`.
struct Flags(u8);

impl Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            0xff => f.write_str("all"),
            flags => {
                let names: Vec<&str> = names::tcp_flag_names(flags).collect();
                write!(f, "{}", List(&names))
            }
        }
    }
}

/// `[packets:bytes]`.
pub(crate) struct CounterText(pub(crate) Counters);

impl Display for CounterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}:{}]", self.0.packets, self.0.bytes)
    }
}

/// A name, in quotes where it is no plain word.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.0.is_empty() && self.0.chars().all(is_word);
        if plain { f.write_str(self.0) } else { write!(f, "{}", QuotedText(self.0)) }
    }
}

/// A text in double quotes.
pub(crate) struct QuotedText<'a>(pub(crate) &'a str);

impl Display for QuotedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            if c == '"' || c == '\\' {
                f.write_char('\\')?;
            }
            f.write_char(if c.is_control() { ' ' } else { c })?;
        }
        f.write_char('"')
    }
}
