//! Writes a ruleset for `iptables-restore` or `ip6tables-restore`.
//!
//! For: handing the same rules to the kernel.
//! Not for: places and sites, which the kernel does not know: they are problems.
//!
//! What iptables takes one of in a rule (addresses, interfaces, ICMP types) and we have a list of
//! becomes several lines. The parts exclude each other, so a packet still meets the rule once.
//!
//! ```text
//! src {10.0.0.0/8 192.0.2.1-192.0.2.9} log    ->  -s 10.0.0.0/8 -j LOG
//!                                                 -m iprange --src-range 192.0.2.1-192.0.2.9 -j LOG
//! ```
//!
//! Invariants: what is written decides every packet of the family as the ruleset does, and its
//! first line says of which family it is. Concurrency: pure. Cost: linear in the lines written, at
//! most 4,096 a rule.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::error::{Problems, RulesError};
use crate::model::{
    Action, Condition, IcmpMatch, InterfacePattern, Rule, Ruleset, Side, Test, Verdict,
    ranges_of_addresses,
};
use crate::names;
use crate::packet::{Family, PORT_PROTOCOLS, State};
use crate::ranges::Ranges;
use crate::text::{CounterText, QuotedText};

/// How many lines one rule may become.
const LINES_LIMIT: usize = 4096;

/// Why a rule cannot be written.
type Cannot = String;

/// The ruleset as `iptables-save` (or `ip6tables-save`) would print it.
///
/// # Errors
///
/// Every rule and chain that iptables cannot express, by its line.
pub fn write(ruleset: &Ruleset, family: Family) -> Result<String, RulesError> {
    let file = &ruleset.chain(ruleset.entry()).origin.file;
    let mut problems = Problems::new(file);
    // Nothing but the remark says whose packets rules without an address are about.
    let program = if family == Family::Ipv4 { "iptables-save" } else { "ip6tables-save" };
    let mut head = format!("# {program} by whered\n*filter\n");
    let mut body = String::new();
    for chain in &ruleset.chains {
        let name = match chain_name(ruleset, &chain.name, chain.policy.is_some()) {
            Ok(name) => name,
            Err(message) => {
                problems.push(chain.origin.line, 0, message);
                continue;
            }
        };
        let policy = match &chain.policy {
            None => "-",
            Some(Verdict::Accept) => "ACCEPT",
            Some(Verdict::Drop | Verdict::Reject { .. }) => "DROP",
            Some(other) => {
                let message = format!("found policy {other}: iptables has accept, drop and reject");
                problems.push(chain.origin.line, 0, message);
                continue;
            }
        };
        let counters = CounterText(chain.counters.unwrap_or_default());
        let _in_a_string = writeln!(head, ":{name} {policy} {counters}");
        for &id in &chain.rules {
            let rule = ruleset.rule(id);
            match rule_lines(ruleset, rule, family, &name) {
                Ok(lines) => lines.iter().for_each(|line| body.extend([line.as_str(), "\n"])),
                Err(message) => problems.push(rule.origin.line, 0, message),
            }
        }
        if let Some(Verdict::Reject { with }) = &chain.policy {
            let with = with.as_ref().map(|with| format!(" --reject-with {with}"));
            let _in_a_string = writeln!(body, "-A {name} -j REJECT{}", with.unwrap_or_default());
        }
    }
    problems.finish()?;
    Ok(head + &body + "COMMIT\n")
}

/// The sets with elements, as `ipset restore` takes them; live sets are only created.
pub fn write_sets(ruleset: &Ruleset, family: Family) -> String {
    let kind = if family == Family::Ipv4 { "inet" } else { "inet6" };
    let mut out = String::new();
    for set in &ruleset.sets {
        let name = set_name(ruleset, &set.name, family);
        let _in_a_string = writeln!(out, "create {name} hash:net family {kind} maxelem 4294967295");
        let ranges = ranges_of_addresses(set.elements.as_deref().unwrap_or(&[]), family);
        for &(first, last) in ranges.as_slice() {
            for (address, length) in prefixes_of(first, last, family) {
                // ipset's hash:net takes no /0: two halves are the same.
                if length == 0 {
                    let half = family.largest() / 2 + 1;
                    let (low, high) = (to_address(0, family), to_address(half, family));
                    let _in_a_string = writeln!(out, "add {name} {low}/1\nadd {name} {high}/1");
                    continue;
                }
                let address = to_address(address, family);
                let _in_a_string = writeln!(out, "add {name} {address}/{length}");
            }
        }
    }
    out
}

/// Sets are of one family in the kernel: where both are written, those of IPv6 end with `-6`.
fn set_name(ruleset: &Ruleset, name: &str, family: Family) -> String {
    let both = ruleset.family.is_none() && family == Family::Ipv6;
    format!("{name}{}", if both { "-6" } else { "" })
}

/// Chains that packets enter have fixed names in iptables.
fn chain_name(ruleset: &Ruleset, name: &str, is_base: bool) -> Result<String, Cannot> {
    if is_base {
        let upper = name.to_ascii_uppercase();
        if ["INPUT", "FORWARD", "OUTPUT"].contains(&upper.as_str()) {
            return Ok(upper);
        }
        if ruleset.base_chains().count() == 1 {
            return Ok("INPUT".to_owned());
        }
        return Err(format!(
            "found chain {name:?} with a policy: allowed is input, forward or output, or one alone"
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let first_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if name.len() > 28 || !first_plain || !name.chars().all(plain) {
        return Err(format!(
            "found chain {name:?}: iptables takes up to 28 letters, digits, dots, - and _"
        ));
    }
    Ok(name.to_owned())
}

/// The lines of one rule; a rule that no packet of the family can meet becomes a remark.
fn rule_lines(
    ruleset: &Ruleset,
    rule: &Rule,
    family: Family,
    chain: &str,
) -> Result<Vec<String>, Cannot> {
    let target = target(ruleset, rule)?;
    let mut parts = Parts::default();
    for condition in &rule.conditions {
        parts.add(ruleset, condition, family)?;
    }
    let (input, output) = (&parts.interfaces[0], &parts.interfaces[1]);
    if (chain == "INPUT" && output.is_some()) || (chain == "OUTPUT" && input.is_some()) {
        return Err(format!(
            "found an interface that packets in {chain} do not have yet or any more"
        ));
    }
    let Some(alternatives) = parts.alternatives(family)? else {
        return Ok(vec![format!("# line {}: meets no packet", rule.origin.line)]);
    };
    let counters = rule.counters.map(|counters| format!("{} ", CounterText(counters)));
    let mut lines = vec![format!("{}-A {chain}", counters.unwrap_or_default())];
    for choices in alternatives {
        if lines.len() * choices.len() > LINES_LIMIT {
            return Err(format!("found a rule that becomes more than {LINES_LIMIT} of iptables"));
        }
        let longer = lines
            .iter()
            .flat_map(|line| choices.iter().map(move |choice| format!("{line} {choice}")));
        lines = longer.collect();
    }
    let comment =
        rule.comment.as_ref().map(|text| format!(" -m comment --comment {}", QuotedText(text)));
    let end = format!("{}{target}", comment.unwrap_or_default());
    Ok(lines.into_iter().map(|line| line + &end).collect())
}

fn target(ruleset: &Ruleset, rule: &Rule) -> Result<String, Cannot> {
    let callee = |id| chain_name(ruleset, &ruleset.chain(id).name, false);
    Ok(match &rule.action {
        Action::Accept => " -j ACCEPT".to_owned(),
        Action::Drop => " -j DROP".to_owned(),
        Action::Return => " -j RETURN".to_owned(),
        Action::Reject { with: None } => " -j REJECT".to_owned(),
        Action::Reject { with: Some(with) } => format!(" -j REJECT --reject-with {with}"),
        Action::Jump(id) => format!(" -j {}", callee(*id)?),
        Action::Goto(id) => format!(" -g {}", callee(*id)?),
        Action::SetMark { value, mask } => format!(" -j MARK --set-xmark {value:#x}/{mask:#x}"),
        Action::Continue => String::new(),
        Action::Log { prefix, level } => {
            if prefix.as_ref().is_some_and(|prefix| prefix.len() > 29) {
                return Err("found a log prefix of more than 29 bytes, iptables' limit".to_owned());
            }
            let prefix = prefix.as_ref().map(|text| format!(" --log-prefix {}", QuotedText(text)));
            let level = level.as_ref().map(|level| format!(" --log-level {level}"));
            format!(" -j LOG{}{}", prefix.unwrap_or_default(), level.unwrap_or_default())
        }
        Action::Site(name) => return Err(format!("found site {name}: iptables knows no sites")),
        Action::Queue => " -j NFQUEUE".to_owned(),
        Action::Other { target, .. } if target.starts_with(char::is_uppercase) => {
            format!(" -j {target}")
        }
        Action::Other { target, .. } => {
            return Err(format!("found {target:?}: iptables has no such target"));
        }
    })
}

/// A field's numbers: what must be, and what must not, apart, since iptables has a short form for
/// the latter.
#[derive(Default)]
struct Numbers {
    positive: Option<Ranges>,
    negative: Option<Ranges>,
}

impl Numbers {
    fn add(&mut self, ranges: Ranges, negated: bool) {
        if negated {
            let sum = self.negative.take().map_or(Vec::new(), |old| old.as_slice().to_vec());
            self.negative = Some(Ranges::new([&sum, ranges.as_slice()].concat()));
        } else {
            self.positive = Some(match self.positive.take() {
                Some(old) => old.intersect(&ranges),
                None => ranges,
            });
        }
    }

    /// The allowed numbers, up to `largest`.
    fn allowed(&self, largest: u128) -> Ranges {
        let all = Ranges::single(0, largest);
        let outside = self.negative.as_ref().map(|ranges| ranges.complement(largest));
        all.intersect(self.positive.as_ref().unwrap_or(&all))
            .intersect(outside.as_ref().unwrap_or(&all))
    }
}

/// A rule's conditions by field.
#[derive(Default)]
struct Parts {
    never: bool,
    addresses: [Numbers; 2],
    ports: [Numbers; 2],
    protocol: Numbers,
    icmp: Option<Numbers>,
    state: Numbers,
    dscp: Numbers,
    interfaces: [Option<(Vec<InterfacePattern>, bool)>; 2],
    /// Matches that may stand in a rule as often as one likes.
    plain: Vec<String>,
}

impl Parts {
    fn add(
        &mut self,
        ruleset: &Ruleset,
        condition: &Condition,
        family: Family,
    ) -> Result<(), Cannot> {
        let negated = condition.negated;
        let not = if negated { "! " } else { "" };
        match &condition.test {
            Test::Family(of) => self.never |= (*of == family) == negated,
            Test::Address(side, items) => {
                self.addresses[index(*side)].add(ranges_of_addresses(items, family), negated);
            }
            Test::Set(side, name) => {
                let (name, side) = (set_name(ruleset, name, family), side.name());
                self.plain.push(format!("-m set {not}--match-set {} {side}", word(&name)));
            }
            Test::Place(predicate) => {
                return Err(format!("found \"{predicate}\": iptables knows no places"));
            }
            Test::Protocol(list) => self.protocol.add(numbers(list), negated),
            Test::Port(side, list) => {
                self.guard(&PORT_PROTOCOLS);
                self.ports[index(*side)].add(numbers(list), negated);
            }
            Test::EitherPort(list) => {
                self.guard(&PORT_PROTOCOLS);
                let groups = port_groups(&numbers(list));
                if groups.len() > 1 && !negated {
                    return Err("found more than 15 ports or ends of ranges: iptables' limit for \
                        either port"
                        .to_owned());
                }
                let matches = groups.into_iter();
                self.plain.extend(matches.map(|g| format!("-m multiport {not}--ports {g}")));
            }
            Test::Icmp(list) => self.icmp(list, false, family, negated),
            Test::Icmpv6(list) => self.icmp(list, true, family, negated),
            Test::TcpFlags { mask, compare } => {
                self.guard(&[6]);
                if mask & 0xc0 != 0 {
                    return Err("found the flags ece or cwr, which iptables cannot ask".to_owned());
                }
                let names = |flags| match flags {
                    0 => "NONE".to_owned(),
                    _ => names::tcp_flag_names(flags).collect::<Vec<_>>().join(",").to_uppercase(),
                };
                let (mask, compare) = (names(*mask), names(*compare));
                self.plain.push(format!("-m tcp {not}--tcp-flags {mask} {compare}"));
            }
            Test::Input(list) => self.interface(0, list, negated)?,
            Test::Output(list) => self.interface(1, list, negated)?,
            Test::State(list) => {
                let ranges = list.iter().map(|&state| (state as u128, state as u128)).collect();
                self.state.add(Ranges::new(ranges), negated);
            }
            Test::Dscp(list) => self.dscp.add(numbers(list), negated),
            Test::Mark { value, mask } => {
                self.plain.push(format!("-m mark {not}--mark {value:#x}/{mask:#x}"));
            }
            test => self.question(test, family, negated)?,
        }
        Ok(())
    }

    fn icmp(&mut self, list: &[IcmpMatch], version_6: bool, family: Family, negated: bool) {
        if version_6 != (family == Family::Ipv6) {
            // Such a condition is about packets of the other family.
            self.never = true;
            return;
        }
        self.guard(&[if version_6 { 58 } else { 1 }]);
        let ranges = list.iter().flat_map(|item| {
            (item.types.0..=item.types.1).map(|kind| {
                let base = u128::from(kind) << 8;
                (base | u128::from(item.codes.0), base | u128::from(item.codes.1))
            })
        });
        let ranges = Ranges::new(ranges.collect());
        self.icmp.get_or_insert_default().add(ranges, negated);
    }

    /// What has no field: masks with gaps, details, and what no packet tells.
    fn question(&mut self, test: &Test, family: Family, negated: bool) -> Result<(), Cannot> {
        let not = if negated { "! " } else { "" };
        match test {
            Test::MaskedAddress { value, .. } if value.is_ipv4() != (family == Family::Ipv4) => {
                self.never |= !negated;
            }
            Test::MaskedAddress { side, value, mask } => {
                let option = if *side == Side::Source { "-s" } else { "-d" };
                self.plain.push(format!("{not}{option} {value}/{mask}"));
            }
            Test::Detail(test) => self.plain.push(super::details::written(test, negated, family)?),
            Test::Uncertain(test) if !negated && test.text.starts_with("-m ") => {
                self.plain.push(test.text.to_string());
            }
            Test::Uncertain(test) => {
                return Err(format!(
                    "found a test of {} that iptables does not know so",
                    test.kind
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// The packet must be of one of these protocols.
    fn guard(&mut self, protocols: &[u8]) {
        let ranges = protocols.iter().map(|&number| (number.into(), number.into())).collect();
        self.protocol.add(Ranges::new(ranges), false);
    }

    fn interface(
        &mut self,
        direction: usize,
        list: &[InterfacePattern],
        negated: bool,
    ) -> Result<(), Cannot> {
        let slot = &mut self.interfaces[direction];
        if slot.is_some() || (negated && list.len() > 1) {
            return Err("found several conditions on one interface: iptables takes one".to_owned());
        }
        *slot = Some((list.to_vec(), negated));
        Ok(())
    }

    /// For each field the texts of which a line has one; `None` if nothing can be met.
    fn alternatives(&self, family: Family) -> Result<Option<Vec<Vec<String>>>, Cannot> {
        let mut all = Vec::new();
        if self.never {
            return Ok(None);
        }
        let protocols = self.protocol.allowed(255);
        all.push(protocol_choices(&protocols)?);
        for (side, addresses) in Side::BOTH.into_iter().zip(&self.addresses) {
            all.push(address_choices(side, addresses, family));
        }
        for (option, ports) in ["--sports", "--dports"].into_iter().zip(&self.ports) {
            if ports.positive.is_some() || ports.negative.is_some() {
                let groups = port_groups(&ports.allowed(65_535));
                all.push(
                    groups.into_iter().map(|g| format!("-m multiport {option} {g}")).collect(),
                );
            }
        }
        if let Some(icmp) = &self.icmp {
            all.push(icmp_choices(icmp, family)?);
        }
        for (option, interface) in ["-i", "-o"].into_iter().zip(&self.interfaces) {
            if let Some((list, negated)) = interface {
                all.push(interface_choices(option, list, *negated));
            }
        }
        let states = self.state.allowed(4);
        if states.as_slice() != [(0, 4)] {
            let fitting = State::ALL.iter().filter(|&&state| states.contains(state as u128));
            let names: Vec<String> = fitting.map(|state| state.name().to_uppercase()).collect();
            let text = format!("-m conntrack --ctstate {}", names.join(","));
            all.push(if names.is_empty() { Vec::new() } else { vec![text] });
        }
        let dscp = self.dscp.allowed(63);
        if dscp.as_slice() != [(0, 63)] {
            let numbers = dscp.as_slice().iter().flat_map(|&(first, last)| first..=last);
            all.push(numbers.map(|number| format!("-m dscp --dscp {number:#04x}")).collect());
        }
        all.extend(self.plain.iter().map(|text| vec![text.clone()]));
        if all.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        // A single empty text is no condition at all.
        all.retain(|choices| choices.iter().any(|choice| !choice.is_empty()));
        Ok(Some(all))
    }
}

fn protocol_choices(protocols: &Ranges) -> Result<Vec<String>, Cannot> {
    let count: u128 = protocols.as_slice().iter().map(|&(first, last)| last - first + 1).sum();
    let missing = protocols.complement(255);
    match (count, missing.as_slice()) {
        (256, _) => return Ok(vec![String::new()]),
        (255, [(only, _)]) if *only != 0 => return Ok(vec![format!("! -p {only}")]),
        (17.., _) => {
            return Err("found more than 16 protocols, neither all nor all but one".to_owned());
        }
        _ => {}
    }
    if protocols.contains(0) {
        return Err("found protocol 0, which means all to iptables".to_owned());
    }
    let numbers = protocols.as_slice().iter().flat_map(|&(first, last)| first..=last);
    Ok(numbers.map(|number| format!("-p {number}")).collect())
}

fn address_choices(side: Side, addresses: &Numbers, family: Family) -> Vec<String> {
    let largest = family.largest();
    let text = |(first, last): (u128, u128), negated: bool, alone: bool| {
        let not = if negated { "! " } else { "" };
        let mut prefixes = prefixes_of(first, last, family);
        if let (Some((address, length)), None, true) = (prefixes.next(), prefixes.next(), alone) {
            let option = if side == Side::Source { "-s" } else { "-d" };
            return format!("{not}{option} {}/{length}", to_address(address, family));
        }
        let (first, last) = (to_address(first, family), to_address(last, family));
        format!("-m iprange {not}--{}-range {first}-{last}", side.name())
    };
    let allowed = addresses.allowed(largest);
    if allowed.as_slice() == [(0, largest)] {
        return vec![String::new()];
    }
    match (&addresses.positive, &addresses.negative) {
        // A rule has one ! -s, but any number of ranges.
        (None, Some(negative)) if !allowed.is_empty() => {
            let parts = negative.as_slice();
            let texts = parts.iter().map(|&range| text(range, true, parts.len() == 1));
            vec![texts.collect::<Vec<_>>().join(" ")]
        }
        _ => allowed.as_slice().iter().map(|&range| text(range, false, true)).collect(),
    }
}

/// Ports in groups of at most 15 ends, as multiport takes them.
fn port_groups(ports: &Ranges) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    let mut used = usize::MAX;
    for &(first, last) in ports.as_slice() {
        let (text, ends) =
            if first == last { (first.to_string(), 1) } else { (format!("{first}:{last}"), 2) };
        match groups.last_mut() {
            Some(group) if used.saturating_add(ends) <= 15 => {
                group.push(',');
                group.push_str(&text);
                used += ends;
            }
            _ => {
                groups.push(text);
                used = ends;
            }
        }
    }
    groups
}

fn icmp_choices(icmp: &Numbers, family: Family) -> Result<Vec<String>, Cannot> {
    let option = match family {
        Family::Ipv4 => ("icmp", "--icmp-type"),
        Family::Ipv6 => ("icmp6", "--icmpv6-type"),
    };
    let kinds = |ranges: &Ranges| -> Result<Vec<String>, Cannot> {
        let mut texts = Vec::new();
        for &(first, last) in ranges.as_slice() {
            let mut next = first;
            while next <= last {
                let (kind, code) = (next >> 8, next & 255);
                if family == Family::Ipv4 && kind == 255 {
                    return Err("found ICMP type 255, which means any to iptables".to_owned());
                }
                if code == 0 && next + 255 <= last {
                    texts.push(kind.to_string());
                    next += 256;
                } else {
                    texts.push(format!("{kind}/{code}"));
                    next += 1;
                }
                if texts.len() > LINES_LIMIT {
                    return Err("found too many ICMP types and codes for iptables".to_owned());
                }
            }
        }
        Ok(texts)
    };
    let (module, name) = option;
    if let (None, Some(negative)) = (&icmp.positive, &icmp.negative) {
        let texts = kinds(negative)?;
        let parts: Vec<String> =
            texts.iter().map(|text| format!("-m {module} ! {name} {text}")).collect();
        return Ok(vec![parts.join(" ")]);
    }
    let texts = kinds(&icmp.allowed(65_535))?;
    Ok(texts.iter().map(|text| format!("-m {module} {name} {text}")).collect())
}

/// Patterns that exclude each other: those that another one includes are left out.
fn interface_choices(option: &str, list: &[InterfacePattern], negated: bool) -> Vec<String> {
    let includes = |wide: &InterfacePattern, narrow: &InterfacePattern| match (wide, narrow) {
        (
            InterfacePattern::Begins(start),
            InterfacePattern::Begins(name) | InterfacePattern::Exact(name),
        ) => name.starts_with(start.as_str()),
        _ => false,
    };
    if list.iter().any(|pattern| *pattern == InterfacePattern::Begins(String::new())) {
        return if negated { Vec::new() } else { vec![String::new()] };
    }
    let mut kept: Vec<&InterfacePattern> = Vec::new();
    for pattern in list {
        let elsewhere = list.iter().any(|other| other != pattern && includes(other, pattern));
        if !elsewhere && !kept.contains(&pattern) {
            kept.push(pattern);
        }
    }
    let not = if negated { "! " } else { "" };
    kept.iter().map(|pattern| format!("{not}{option} {pattern}")).collect()
}

fn numbers<T: Into<u128> + Copy>(list: &[(T, T)]) -> Ranges {
    Ranges::new(list.iter().map(|&(first, last)| (first.into(), last.into())).collect())
}

fn index(side: Side) -> usize {
    usize::from(side == Side::Destination)
}

/// A name as the restore commands read it back.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        QuotedText(text).to_string()
    }
}

/// The number as an address.
pub(crate) fn to_address(number: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4((number as u32).into()),
        Family::Ipv6 => IpAddr::V6(number.into()),
    }
}

/// The fewest prefixes that make up a range, as first address and length.
pub(crate) fn prefixes_of(
    first: u128,
    last: u128,
    family: Family,
) -> impl Iterator<Item = (u128, u32)> {
    let width = if family == Family::Ipv4 { 32 } else { 128 };
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let start = next.filter(|&start| start <= last)?;
        // The largest block that starts here, is aligned and does not pass the end.
        let mut host_bits = start.trailing_zeros().min(width);
        let end = |bits: u32| start | 1u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1);
        while end(host_bits) > last {
            host_bits -= 1;
        }
        next = end(host_bits).checked_add(1);
        Some((start, width - host_bits))
    })
}
