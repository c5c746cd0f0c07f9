//! ClassBench filter sets: ordered 5-tuple rules for benchmarks.
//!
//! For: reading what ClassBench's generator writes, one rule a line:
//!
//! ```text
//! @247.221.182.196/32  102.208.197.225/32  0 : 65535  1521 : 1521  0x06/0xFF  0x1000/0x1000
//!  source              destination         sports     dports       protocol   flags
//! ```
//!
//! The last field is the first two octets of what follows the ports: for TCP its upper octet is
//! the flags (0x1000 is ACK, 0x0200 SYN), for ICMP the type. Most comparisons read five fields
//! and leave it out, so the caller says which is meant. Rules have no verdicts: each accepts, and
//! the policy drops; what counts is which rule it was.
//!
//! Invariants: a rule a line, in order; problems name line and column.
//! Concurrency: pure. Cost: linear.

use std::sync::Arc;

use crate::error::{Problems, RulesError};
use crate::model::{
    Action, AddressItem, Condition, IcmpMatch, Ruleset, RulesetBuilder, Side, Test, Verdict,
};

/// The use of the last field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flags {
    /// It is a condition on TCP flags or the ICMP type.
    Read,
    /// It is left out: rules over five fields.
    LeaveOut,
}

/// Reads a filter set.
///
/// # Errors
///
/// Every line that is no rule, with the column of what was found.
pub fn read(file: &str, text: &str, flags: Flags) -> Result<Ruleset, RulesError> {
    let mut problems = Problems::new(&Arc::from(file));
    let mut builder = RulesetBuilder::new(file);
    let chain = builder.declare_chain("input", Some(Verdict::Drop), None, 1)?;
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        match rule(line, flags) {
            Ok(conditions) => {
                builder.add_rule(chain, number, conditions, Action::Accept, None, None);
            }
            Err((column, found, allowed)) => problems.found(number, column, found, allowed),
        }
    }
    problems.finish()?;
    builder.build()
}

/// Column, what was found, what is allowed.
type Wrong<'t> = (u32, &'t str, &'static str);

/// The words of a line, one after the other, with their columns.
struct Words<'t> {
    line: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn next(&mut self, allowed: &'static str) -> Result<(u32, &'t str), Wrong<'t>> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let column = self.line[..start].chars().count() as u32 + 1;
        let word = self.line[start..].split_whitespace().next();
        let word = word.ok_or((column, "end of line", allowed))?;
        self.at = start + word.len();
        Ok((column, word))
    }
}

fn rule(line: &str, flags: Flags) -> Result<Vec<Condition>, Wrong<'_>> {
    let mut words = Words { line, at: 0 };
    let mut conditions = Vec::new();
    const SOURCE: &str = "@ and a source prefix, as @10.0.0.0/8";
    let (column, source) = words.next(SOURCE)?;
    let source_prefix = source.strip_prefix('@').ok_or((column, source, SOURCE))?;
    prefix(Side::Source, source_prefix, &mut conditions).ok_or((column, source, SOURCE))?;
    const DESTINATION: &str = "a destination prefix, as 10.0.0.0/8";
    let (column, destination) = words.next(DESTINATION)?;
    prefix(Side::Destination, destination, &mut conditions).ok_or((
        column,
        destination,
        DESTINATION,
    ))?;
    let mut ports = Vec::new();
    for side in Side::BOTH {
        let range = port_range(&mut words)?;
        if range != (0, 65_535) {
            ports.push(Condition::is(Test::Port(side, vec![range])));
        }
    }
    const PROTOCOL: &str = "a protocol and its mask, as 0x06/0xFF or 0x00/0x00";
    let (column, protocol) = words.next(PROTOCOL)?;
    let protocol = match pair(protocol) {
        Some((number, 0xff)) if number < 256 => {
            conditions.push(Condition::is(Test::Protocol(vec![(number as u8, number as u8)])));
            Some(number)
        }
        Some((0, 0)) => None,
        _ => return Err((column, protocol, PROTOCOL)),
    };
    conditions.append(&mut ports);
    // Older files end here.
    let Ok((column, last)) = words.next("") else { return Ok(conditions) };
    const LAST: &str = "flags and their mask, as 0x1000/0x1000";
    let (value, mask) =
        pair(last).filter(|both| both.0 < 65_536 && both.1 < 65_536).ok_or((column, last, LAST))?;
    if let Ok((column, more)) = words.next("") {
        return Err((column, more, "end of line"));
    }
    if flags == Flags::Read && mask != 0 {
        match (protocol, mask & 0xff, value & !mask) {
            (Some(6), 0, 0) => {
                let (mask, compare) = ((mask >> 8) as u8, (value >> 8) as u8);
                conditions.push(Condition::is(Test::TcpFlags { mask, compare }));
            }
            (Some(1), 0, 0) if mask == 0xff00 => {
                let list = vec![IcmpMatch::of_type((value >> 8) as u8)];
                conditions.push(Condition::is(Test::Icmp(list)));
            }
            _ => {
                let allowed = "TCP flags in the upper octet, an ICMP type, or 0x0000/0x0000";
                return Err((column, last, allowed));
            }
        }
    }
    Ok(conditions)
}

/// A prefix; all addresses are no condition.
fn prefix(side: Side, text: &str, conditions: &mut Vec<Condition>) -> Option<()> {
    let prefix: whered_ip::Prefix = text.parse().ok()?;
    if prefix.length_bits() > 0 {
        let items = vec![AddressItem::Prefix(prefix)];
        conditions.push(Condition::is(Test::Address(side, items)));
    }
    Some(())
}

/// `first : last`.
fn port_range<'t>(words: &mut Words<'t>) -> Result<(u16, u16), Wrong<'t>> {
    const ALLOWED: &str = "ports as 1024 : 65535";
    let (first_column, first) = words.next(ALLOWED)?;
    let (colon_column, colon) = words.next(ALLOWED)?;
    let (last_column, last) = words.next(ALLOWED)?;
    let first_port: u16 = first.parse().map_err(|_| (first_column, first, ALLOWED))?;
    if colon != ":" {
        return Err((colon_column, colon, ALLOWED));
    }
    let last_port: u16 = last.parse().map_err(|_| (last_column, last, ALLOWED))?;
    if first_port > last_port {
        return Err((last_column, last, "a last port that is not below the first"));
    }
    Ok((first_port, last_port))
}

/// `0x06/0xFF`.
fn pair(text: &str) -> Option<(u32, u32)> {
    let (value, mask) = text.split_once('/')?;
    Some((crate::names::parse_number(value)?, crate::names::parse_number(mask)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::condition_text;

    const TEXT: &str = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 89\t0x06/0xFF\t0x0200/0x1200\t\n\
        @0.0.0.0/0\t192.0.2.1/32\t0 : 65535\t0 : 65535\t0x01/0xFF\t0x0800/0xff00\t\n\
        @0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n";

    #[test]
    fn rules_are_read_with_and_without_their_flags() {
        let all = read("acl", TEXT, Flags::Read).expect("a good file");
        let shown: Vec<String> = all
            .rules()
            .iter()
            .map(|rule| rule.conditions.iter().map(condition_text).collect::<Vec<_>>().join(", "))
            .collect();
        assert_eq!(
            shown,
            [
                "src 10.0.0.0/8, proto tcp, dport 80-89, flags syn of {syn ack}",
                "dst 192.0.2.1, proto icmp, icmp 8",
                ""
            ]
        );
        let five = read("acl", TEXT, Flags::LeaveOut).expect("a good file");
        assert_eq!(five.rules()[0].conditions.len(), 3);
        assert_eq!(five.rules()[2].origin.line, 3);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("10.0.0.0/8 0.0.0.0/0", "f:1:1: found \"10.0.0.0/8\": allowed is @ and a source"),
            ("@10.0.0.0/8", "f:1:12: found \"end of line\": allowed is a destination"),
            ("@10.0.0.0/8 1/8 0 : 1", "f:1:13: found \"1/8\": allowed is a destination"),
            ("@::/0 ::/0 9 : 8 0 : 1 0x06/0xFF", "f:1:16: found \"8\": allowed is a last port"),
            ("@::/0 ::/0 9 - 8 0 : 1 0x06/0xFF", "f:1:14: found \"-\": allowed is ports"),
            ("@::/0 ::/0 0 : 1 0 : 1 0x06/0x0F", "f:1:24: found \"0x06/0x0F\": allowed is a pro"),
            ("@::/0 ::/0 0 : 1 0 : 1 0x06/0xFF 1", "f:1:34: found \"1\": allowed is flags"),
            ("@::/0 ::/0 0 : 1 0 : 1 0x11/0xFF 0x100/0x100", "f:1:34: found \"0x100/0x100\": all"),
        ] {
            let error = read("f", text, Flags::Read).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
