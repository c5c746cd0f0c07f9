//! Tests of details in the words of iptables.
//!
//! For: writing (`write`). Not for: reading, which stands with the other options (`rule`).
//!
//! Concurrency: pure. Cost: linear.

use crate::model::DetailTest;
use crate::packet::Family;

/// The match of a test, with its module; an error where iptables has none.
pub(super) fn written(test: &DetailTest, negated: bool, family: Family) -> Result<String, String> {
    let not = if negated { "! " } else { "" };
    let cannot = || format!("found \"with {test}\": iptables has no such match");
    let [(first, last)] = test.ranges.as_slice() else { return Err(cannot()) };
    let (first, last) = (*first as u64, *last as u64);
    let shown = test.detail.shown(first);
    let range = if first == last { first.to_string() } else { format!("{first}:{last}") };
    let masked = match test.mask {
        u64::MAX => format!("{first:#x}"),
        mask => format!("{first:#x}/{mask:#x}"),
    };
    let text = match (test.detail.name(), first == last, test.mask == u64::MAX) {
        ("ttl", _, true) => {
            let ttl = if family == Family::Ipv4 { "ttl" } else { "hl" };
            match (first, last) {
                _ if first == last => format!("-m {ttl} {not}--{ttl}-eq {first}"),
                // These two have no opposite of their own in iptables.
                (1.., 255) if !negated => format!("-m {ttl} --{ttl}-gt {}", first - 1),
                (0, ..255) if !negated => format!("-m {ttl} --{ttl}-lt {}", last + 1),
                _ => return Err(cannot()),
            }
        }
        ("length", _, true) => format!("-m length {not}--length {range}"),
        ("source-mac", true, true) => format!("-m mac {not}--mac-source {shown}"),
        ("packet-type", true, true) if first < 3 => format!("-m pkttype {not}--pkt-type {shown}"),
        ("source-type", true, true) => {
            format!("-m addrtype {not}--src-type {}", shown.to_uppercase())
        }
        ("destination-type", true, true) => {
            format!("-m addrtype {not}--dst-type {}", shown.to_uppercase())
        }
        ("user", _, true) => format!("-m owner {not}--uid-owner {}", range.replace(':', "-")),
        ("group", _, true) => format!("-m owner {not}--gid-owner {}", range.replace(':', "-")),
        ("connection-mark", true, _) => format!("-m connmark {not}--mark {masked}"),
        _ => return Err(cannot()),
    };
    Ok(text)
}
