//! Reads the options of matches: `--dport 22`, `--ctstate NEW`, `--ttl-lt 5`.
//!
//! For: what a match asks: a field, a detail, or what no packet tells. Not for: iptables' own
//! options and the order of all (`rule`).
//!
//! Invariants: a match of [`UNCERTAIN`] may hold or not, and keeps its text; all others are exact.
//! Concurrency: pure. Cost: linear.

use std::sync::Arc;

use super::rule::{RuleReader, StateOrStatus, Word, Wrong, joined, wrong};
use crate::model::{AddressItem, Condition, Detail, DetailTest, IcmpMatch, Side, Test, Uncertain};
use crate::names;
use crate::packet::{Family, State};
use crate::ranges::Ranges;
use crate::text::read_address;

/// Matches whose answer is not in the packet's headers, or that need tables of the kernel.
pub(super) const UNCERTAIN: &[&str] = &[
    "account",
    "ah",
    "asn",
    "bpf",
    "cgroup",
    "cluster",
    "condition",
    "connbytes",
    "connlabel",
    "connlimit",
    "connrate",
    "cpu",
    "devgroup",
    "dhcpmac",
    "dpi32",
    "dst",
    "dstlimit",
    "ecn",
    "esp",
    "eui64",
    "frag",
    "fuzzy",
    "geoip",
    "gradm",
    "hashlimit",
    "hbh",
    "helper",
    "icmp6ext",
    "iface",
    "ipcomp",
    "ipp2p",
    "ipv4options",
    "ipv6header",
    "ipvs",
    "l2tp",
    "layer7",
    "length2",
    "limit",
    "lscan",
    "mh",
    "ndpi",
    "nfacct",
    "nth",
    "osf",
    "physdev",
    "pknock",
    "policy",
    "psd",
    "qtaguid",
    "quota",
    "quota2",
    "random",
    "rateest",
    "realm",
    "recent",
    "rpfilter",
    "rt",
    "set-multi",
    "socket",
    "srh",
    "statistic",
    "string",
    "time",
    "tls",
    "u32",
    "unclean",
    "weburl",
    "webstr",
];

/// Matches that can be expressed.
const KNOWN: &[&str] = &[
    "tcp",
    "udp",
    "udplite",
    "sctp",
    "dccp",
    "icmp",
    "icmp6",
    "icmpv6",
    "ipv6-icmp",
    "multiport",
    "mport",
    "iprange",
    "set",
    "conntrack",
    "state",
    "comment",
    "mark",
    "connmark",
    "dscp",
    "tos",
    "mac",
    "addrtype",
    "owner",
    "pkttype",
    "ttl",
    "hl",
    "length",
    "tcpmss",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

const PORT_MODULES: [(&str, u8); 5] =
    [("tcp", 6), ("udp", 17), ("udplite", 136), ("sctp", 132), ("dccp", 33)];

/// Noted beside the matches: `-m owner` looks at all groups of the sender.
const SUPPLEMENTARY: &str = "suppl-groups";

const CANNOT: &str = "an option that can be expressed (docs/guide/rules.md)";

/// What an option was to a group of them.
enum OptionMeaning {
    /// None of theirs.
    Nothing,
    /// One that is no test by itself, or means anything.
    Noted,
    Test(Test),
}

impl RuleReader<'_> {
    fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|name| name == module)
    }

    /// Whether a match was named, or is the protocol's own.
    fn has_of(&self, modules: &[(&str, u8)]) -> bool {
        modules.iter().any(|(name, number)| self.has(name) || self.protocol == Some(*number))
    }

    /// Adds a test that may hold or not.
    pub(super) fn uncertain(&mut self, kind: &str, text: &str) {
        let test = Test::Uncertain(Uncertain { kind: Arc::from(kind), text: Arc::from(text) });
        self.conditions.push(Condition::is(test));
    }

    /// An option of a match; `None` where it means anything, or was noted otherwise.
    pub(super) fn module_option(
        &mut self,
        option: &Word,
        negated: bool,
    ) -> Result<Option<Test>, Wrong> {
        let groups = [
            RuleReader::port_option,
            RuleReader::header_option,
            RuleReader::set_option,
            RuleReader::connection_option,
            RuleReader::fwmark_option,
            RuleReader::packet_option,
            RuleReader::owner_option,
        ];
        for group in groups {
            match group(self, option, negated)? {
                OptionMeaning::Nothing => {}
                OptionMeaning::Noted => return Ok(None),
                OptionMeaning::Test(test) => return Ok(Some(test)),
            }
        }
        let name = option.text.as_str();
        let last = self.modules.iter().rev().find(|name| UNCERTAIN.contains(&name.as_str()));
        match (last.cloned(), name) {
            (_, "--espspi" | "--ahspi" | "--chunk-types" | "--dccp-types" | "--dccp-option") => {
                self.rest_of("header", option).map(Some)
            }
            (Some(kind), _) if name.starts_with("--") => self.rest_of(&kind, option).map(Some),
            _ => Err(wrong(option, CANNOT)),
        }
    }

    fn port_option(&mut self, option: &Word, _negated: bool) -> Result<OptionMeaning, Wrong> {
        let several = self.has("multiport") || self.has("mport");
        let one = self.has_of(&PORT_MODULES);
        Ok(OptionMeaning::Test(match option.text.as_str() {
            "--sport" | "--source-port" if one => Test::Port(Side::Source, self.ports(false)?),
            "--dport" | "--destination-port" if one => {
                Test::Port(Side::Destination, self.ports(false)?)
            }
            "--sports" | "--source-ports" | "--sport" | "--source-port" if several => {
                Test::Port(Side::Source, self.ports(true)?)
            }
            "--dports" | "--destination-ports" | "--dport" | "--destination-port" if several => {
                Test::Port(Side::Destination, self.ports(true)?)
            }
            "--ports" | "--port" if several => Test::EitherPort(self.ports(true)?),
            _ => return Ok(OptionMeaning::Nothing),
        }))
    }

    /// Options of TCP and of ICMP.
    fn header_option(&mut self, option: &Word, negated: bool) -> Result<OptionMeaning, Wrong> {
        let version_6 = self.context.family == Family::Ipv6;
        let (is_tcp, name) = (self.has_of(&[("tcp", 6)]), option.text.as_str());
        let is_icmp = !version_6 && self.has_of(&[("icmp", 1)]);
        let is_icmpv6 =
            version_6 && self.has_of(&[("icmp6", 58), ("icmpv6", 58), ("ipv6-icmp", 58)]);
        let icmp = match name {
            "--icmp-type" if is_icmp => self.icmp(false)?,
            "--icmpv6-type" if is_icmpv6 => self.icmp(true)?,
            "--icmp-type" if is_icmpv6 && !self.has("icmp") => self.icmp(true)?,
            // The programs of the other family have no such match either.
            "--icmp-type" => return Err(wrong(option, "icmp6 in rules of ip6tables")),
            "--icmpv6-type" => return Err(wrong(option, "icmp in rules of iptables")),
            "--syn" if is_tcp => Some(Test::TcpFlags { mask: 0x17, compare: 0x02 }),
            "--tcp-flags" if is_tcp => Some(self.tcp_flags()?),
            "--tcp-option" if is_tcp => {
                let word = self.next("the number of an option")?;
                let number = names::parse_number(&word.text).filter(|&number| number < 256);
                let number = number.ok_or_else(|| wrong(&word, "the number of an option"))?;
                Some(detail(&format!("tcp-option-{number}"), vec![(1, 1)]))
            }
            "--mss" if self.has("tcpmss") => Some(detail("tcp-mss", self.numbers(':', 65_535)?)),
            _ => return Ok(OptionMeaning::Nothing),
        };
        match icmp {
            Some(test) => Ok(OptionMeaning::Test(test)),
            None if negated => Err(wrong(option, "a value after ! that is not any")),
            None => Ok(OptionMeaning::Noted),
        }
    }

    fn set_option(&mut self, option: &Word, _negated: bool) -> Result<OptionMeaning, Wrong> {
        if !self.has("set") {
            return Ok(OptionMeaning::Nothing);
        }
        Ok(OptionMeaning::Test(match option.text.as_str() {
            "--match-set" | "--set" => self.set()?,
            "--return-nomatch"
            | "--packets-eq"
            | "--packets-lt"
            | "--packets-gt"
            | "--bytes-eq"
            | "--bytes-lt"
            | "--bytes-gt"
            | "--update-counters"
            | "--update-subcounters" => self.rest_of("set", option)?,
            _ => return Ok(OptionMeaning::Nothing),
        }))
    }

    fn connection_option(&mut self, option: &Word, negated: bool) -> Result<OptionMeaning, Wrong> {
        let (has_conntrack, name) = (self.has("conntrack"), option.text.as_str());
        Ok(OptionMeaning::Test(match name {
            "--ctstate" if has_conntrack => return self.connection_state(negated),
            "--state" if self.has("state") => return self.connection_state(negated),
            "--ctstatus" if has_conntrack => self.connection_status()?,
            "--ctdir" if has_conntrack => {
                self.named_value("connection-direction", "ORIGINAL or REPLY")?
            }
            _ if name.starts_with("--ct") && has_conntrack => self.rest_of("conntrack", option)?,
            _ => return Ok(OptionMeaning::Nothing),
        }))
    }

    fn fwmark_option(&mut self, option: &Word, _negated: bool) -> Result<OptionMeaning, Wrong> {
        if option.text != "--mark" {
            return Ok(OptionMeaning::Nothing);
        }
        let (value, mask) = self.value_and_mask()?;
        let last = self.modules.iter().rev().find(|name| name.ends_with("mark"));
        Ok(OptionMeaning::Test(match last.map(String::as_str) {
            Some("mark") => Test::Mark { value, mask },
            Some("connmark") if !self.context.effects.connection_mark => {
                masked("connection-mark", value.into(), mask.into())
            }
            // Rules of this table change it.
            Some("connmark") => changed("connmark", value, mask),
            _ => return Err(wrong(option, CANNOT)),
        }))
    }

    /// What is in few headers, or beside them.
    fn packet_option(&mut self, option: &Word, _negated: bool) -> Result<OptionMeaning, Wrong> {
        let name = option.text.as_str();
        Ok(OptionMeaning::Test(match name {
            "--comment" if self.has("comment") => {
                self.comment = Some(self.next("a comment")?.text);
                return Ok(OptionMeaning::Noted);
            }
            "--src-range" if self.has("iprange") => self.range(Side::Source)?,
            "--dst-range" if self.has("iprange") => self.range(Side::Destination)?,
            "--dscp" | "--dscp-class" if self.has("dscp") => {
                const ALLOWED: &str = "a DSCP value or class";
                let word = self.next(ALLOWED)?;
                let number = names::dscp_number(&word.text).ok_or_else(|| wrong(&word, ALLOWED))?;
                match self.context.effects.dscp {
                    false => Test::Dscp(vec![(number, number)]),
                    true => changed("dscp", number.into(), 0x3f),
                }
            }
            "--tos" if self.has("tos") => self.tos()?,
            "--mac-source" if self.has("mac") => self.named_value("source-mac", "a MAC address")?,
            "--pkt-type" if self.has("pkttype") => {
                self.named_value("packet-type", "unicast, broadcast or multicast")?
            }
            "--src-type" if self.has("addrtype") => self.address_type(Side::Source)?,
            "--dst-type" if self.has("addrtype") => self.address_type(Side::Destination)?,
            "--limit-iface-in" | "--limit-iface-out" if self.has("addrtype") => {
                uncertain_test("addrtype", format!("-m addrtype {name}"))
            }
            "--ttl" | "--ttl-eq" | "--ttl-lt" | "--ttl-gt" if self.has("ttl") => self.ttl(name)?,
            "--hl" | "--hl-eq" | "--hl-lt" | "--hl-gt" if self.has("hl") => self.ttl(name)?,
            "--length" if self.has("length") => detail("length", self.numbers(':', 65_535)?),
            _ => return Ok(OptionMeaning::Nothing),
        }))
    }

    /// The program that sent the packet.
    fn owner_option(&mut self, option: &Word, _negated: bool) -> Result<OptionMeaning, Wrong> {
        let name = option.text.as_str();
        if !self.has("owner") {
            return Ok(OptionMeaning::Nothing);
        }
        let is_digit = |c: char| c.is_ascii_digit();
        let is_number = self.peek().is_some_and(|word| word.text.starts_with(is_digit));
        Ok(OptionMeaning::Test(match name {
            "--uid-owner" if is_number => detail("user", self.numbers('-', u32::MAX.into())?),
            "--gid-owner" if is_number && !self.has(SUPPLEMENTARY) => {
                detail("group", self.numbers('-', u32::MAX.into())?)
            }
            "--suppl-groups" => {
                self.supplementary_groups();
                return Ok(OptionMeaning::Noted);
            }
            "--socket-exists" => detail("socket-exists", vec![(1, 1)]),
            _ if name.ends_with("-owner") => self.rest_of("owner", option)?,
            _ => return Ok(OptionMeaning::Nothing),
        }))
    }

    /// Groups may be any of the sender's, of which a packet's detail is only the first.
    fn supplementary_groups(&mut self) {
        self.modules.push(SUPPLEMENTARY.to_owned());
        for condition in &mut self.conditions {
            let text = match &condition.test {
                Test::Detail(test) if test.detail.name() == "group" => test.to_string(),
                _ => continue,
            };
            condition.test = uncertain_test("owner", text);
        }
    }

    /// An option whose answer no packet tells, with its values.
    fn rest_of(&mut self, kind: &str, option: &Word) -> Result<Test, Wrong> {
        let mut values = Vec::new();
        while let Some(word) =
            self.peek().filter(|word| !word.text.starts_with("--") && word.text != "!")
        {
            if self.at_end_of_options() {
                break;
            }
            values.push(word.text.clone());
            self.at += 1;
        }
        let head = if kind == "header" { Vec::new() } else { vec!["-m", kind] };
        let words = head.into_iter().chain([option.text.as_str()]);
        let text = joined(words.chain(values.iter().map(String::as_str)));
        Ok(uncertain_test(kind, text))
    }

    fn range(&mut self, side: Side) -> Result<Test, Wrong> {
        const ALLOWED: &str = "a range of addresses of this family, as 10.0.0.1-10.0.0.9";
        let word = self.next(ALLOWED)?;
        let of_family = |item: &AddressItem| item.family() == self.context.family;
        let item = read_address(&word.text).ok().filter(of_family);
        Ok(Test::Address(side, vec![item.ok_or_else(|| wrong(&word, ALLOWED))?]))
    }

    /// `80`, `80:89`, `:1023`, `ssh`, and with `several` a list of them.
    fn ports(&mut self, several: bool) -> Result<Vec<(u16, u16)>, Wrong> {
        const ALLOWED: &str = "ports by number or by the name of a service, as 80, 80:89 or ssh";
        let word = self.next(ALLOWED)?;
        let parts: Vec<&str> =
            if several { word.text.split(',').collect() } else { vec![word.text.as_str()] };
        let end = |text: &str, open: u16| {
            if text.is_empty() {
                return Some(open);
            }
            names::port_number(text)
        };
        let range = |part: &str| {
            let (first, last) = match part.split_once(':') {
                Some((first, last)) => (end(first, 0)?, end(last, u16::MAX)?),
                None if part.is_empty() => return None,
                None => (end(part, 0)?, end(part, 0)?),
            };
            (first <= last).then_some((first, last))
        };
        let ranges: Option<Vec<_>> = parts.into_iter().map(range).collect();
        ranges.ok_or_else(|| wrong(&word, ALLOWED))
    }

    /// One number, or two with this between them.
    fn numbers(&mut self, between: char, largest: u64) -> Result<Vec<(u64, u64)>, Wrong> {
        const ALLOWED: &str = "a number, or a range of numbers";
        let word = self.next(ALLOWED)?;
        let end = |text: &str, open: u64| match text {
            "" => Some(open),
            text => names::parse_number(text).map(u64::from),
        };
        let range = match word.text.split_once(between) {
            Some((first, last)) => end(first, 0).zip(end(last, largest)),
            None => names::parse_number(&word.text).map(|number| (number.into(), number.into())),
        };
        let range = range.filter(|&(first, last)| first <= last && last <= largest);
        Ok(vec![range.ok_or_else(|| wrong(&word, ALLOWED))?])
    }

    fn tcp_flags(&mut self) -> Result<Test, Wrong> {
        let mut sums = [0u8; 2];
        let mut last = None;
        for sum in &mut sums {
            const ALLOWED: &str = "flags, as SYN,ACK, ALL or NONE";
            let word = self.next(ALLOWED)?;
            for part in word.text.split(',') {
                *sum |= match part {
                    "ALL" => 0x3f,
                    "NONE" => 0,
                    name => names::tcp_flag(name).ok_or_else(|| wrong(&word, ALLOWED))?,
                };
            }
            last = Some(word);
        }
        let [mask, compare] = sums;
        match last {
            Some(word) if compare & !mask != 0 => Err(wrong(&word, "flags that are in the mask")),
            _ => Ok(Test::TcpFlags { mask, compare }),
        }
    }

    fn icmp(&mut self, version_6: bool) -> Result<Option<Test>, Wrong> {
        const ALLOWED: &str = "an ICMP type, as 8, 3/1 or echo-request";
        let word = self.next(ALLOWED)?;
        if word.text == "any" || (!version_6 && word.text == "255") {
            return Ok(None);
        }
        let number = |text: &str| u8::try_from(names::parse_number(text)?).ok();
        let found =
            names::icmp_type(&word.text, version_6).or_else(|| match word.text.split_once('/') {
                Some((kind, code)) => Some((number(kind)?, Some(number(code)?))),
                None => Some((number(&word.text)?, None)),
            });
        let (kind, code) = found.ok_or_else(|| wrong(&word, ALLOWED))?;
        let codes = code.map_or((0, 255), |code| (code, code));
        let list = vec![IcmpMatch { types: (kind, kind), codes }];
        Ok(Some(if version_6 { Test::Icmpv6(list) } else { Test::Icmp(list) }))
    }

    /// A set of addresses is asked by its name; who is in another one is not known.
    fn set(&mut self) -> Result<Test, Wrong> {
        const ALLOWED: &str = "src, dst, or several of them with commas";
        let name = self.next("a set's name")?;
        let directions = self.next(ALLOWED)?;
        let are_right = directions.text.split(',').all(|part| matches!(part, "src" | "dst"));
        match directions.text.as_str() {
            _ if self.context.effects.sets.contains(&name.text) => {}
            "src" => return Ok(Test::Set(Side::Source, name.text)),
            "dst" => return Ok(Test::Set(Side::Destination, name.text)),
            _ if are_right => {}
            _ => return Err(wrong(&directions, ALLOWED)),
        }
        let words = ["-m", "set", "--match-set", &name.text, &directions.text];
        Ok(uncertain_test("set", joined(words)))
    }

    fn connection_state(&mut self, negated: bool) -> Result<OptionMeaning, Wrong> {
        const ALLOWED: &str = "INVALID, NEW, ESTABLISHED, RELATED, UNTRACKED, SNAT or DNAT";
        let word = self.next(ALLOWED)?;
        let (mut states, mut status) = (Vec::new(), 0);
        for part in word.text.split(',') {
            match part.to_ascii_uppercase().as_str() {
                "SNAT" => status |= 16,
                "DNAT" => status |= 32,
                name => {
                    states.push(State::from_name(name).ok_or_else(|| wrong(&word, ALLOWED))?);
                }
            }
        }
        if status == 0 {
            return Ok(OptionMeaning::Test(Test::State(states)));
        }
        let status = any_bit("connection-status", status);
        match (states.is_empty(), self.state.is_some()) {
            (true, _) => Ok(OptionMeaning::Test(Test::Detail(status))),
            (false, true) => Err(wrong(&word, "states and SNAT or DNAT in one option of a rule")),
            (false, false) => {
                self.state = Some(StateOrStatus { states, status, negated });
                Ok(OptionMeaning::Noted)
            }
        }
    }

    fn connection_status(&mut self) -> Result<Test, Wrong> {
        const ALLOWED: &str = "NONE, EXPECTED, SEEN_REPLY, ASSURED or CONFIRMED";
        let word = self.next(ALLOWED)?;
        if word.text.eq_ignore_ascii_case("none") {
            return Ok(detail("connection-status", vec![(0, 0)]));
        }
        let mut bits = 0;
        for part in word.text.split(',') {
            let known = Detail::named("connection-status")
                .and_then(|detail| detail.parse(&part.replace('_', "-")));
            bits |= known.ok_or_else(|| wrong(&word, ALLOWED))?;
        }
        Ok(Test::Detail(any_bit("connection-status", bits)))
    }

    /// A value that the detail knows, of which there is one.
    fn named_value(&mut self, name: &str, allowed: &str) -> Result<Test, Wrong> {
        let word = self.next(allowed)?;
        let value = Detail::named(name).and_then(|detail| detail.parse(&word.text));
        let value = value.ok_or_else(|| wrong(&word, allowed))?;
        Ok(detail(name, vec![(value, value)]))
    }

    fn address_type(&mut self, side: Side) -> Result<Test, Wrong> {
        const ALLOWED: &str = "types of addresses, as LOCAL, BROADCAST or MULTICAST";
        let name =
            if side == Side::Source { Detail::SOURCE_TYPE } else { Detail::DESTINATION_TYPE };
        let word = self.next(ALLOWED)?;
        let mut values = Vec::new();
        for part in word.text.split(',') {
            let value = Detail::named(name).and_then(|detail| detail.parse(part));
            let value = value.ok_or_else(|| wrong(&word, ALLOWED))?;
            values.push((value, value));
        }
        // In IPv6 an address of this machine is a unicast address, too, and all types must fit.
        if self.context.family == Family::Ipv6 && (values.len() > 1 || values[0].0 == 1) {
            let option = if side == Side::Source { "--src-type" } else { "--dst-type" };
            let text = joined(["-m", "addrtype", option, &word.text]);
            return Ok(uncertain_test("addrtype", text));
        }
        Ok(detail(name, values))
    }

    fn ttl(&mut self, option: &str) -> Result<Test, Wrong> {
        const ALLOWED: &str = "a number from 0 to 255";
        let word = self.next(ALLOWED)?;
        let number = names::parse_number(&word.text).filter(|&number| number < 256);
        let number = u64::from(number.ok_or_else(|| wrong(&word, ALLOWED))?);
        let range = match option.rsplit('-').next() {
            Some("lt") => number.checked_sub(1).map(|last| (0, last)),
            Some("gt") => (number < 255).then_some((number + 1, 255)),
            _ => Some((number, number)),
        };
        if self.context.effects.ttl {
            return Ok(changed("ttl", number as u32, 0xff));
        }
        Ok(range.map_or(NEVER, |range| detail("ttl", vec![range])))
    }

    /// The octet with DSCP and ECN, of which a mask is looked at.
    fn tos(&mut self) -> Result<Test, Wrong> {
        const ALLOWED: &str = "a type of service, as 0x10/0x3f or Minimize-Delay";
        const NAMES: [(&str, u32); 5] = [
            ("minimize-delay", 0x10),
            ("maximize-throughput", 0x08),
            ("maximize-reliability", 0x04),
            ("minimize-cost", 0x02),
            ("normal-service", 0x00),
        ];
        let name = self.peek().map(|word| word.text.to_ascii_lowercase());
        let named = NAMES.iter().find(|(known, _)| Some(*known) == name.as_deref());
        let (value, mask) = match named {
            Some(&(_, value)) => {
                self.at += 1;
                (value, 0x3f)
            }
            None => {
                let has_mask = name.is_some_and(|text| text.contains('/'));
                let (value, mask) = self.value_and_mask()?;
                (value, if has_mask { mask } else { 0xff })
            }
        };
        if value > 255 || mask > 255 {
            let word = self.words.get(self.at - 1).cloned();
            return Err(word.map_or_else(
                || wrong(&Word { text: String::new(), column: 1 }, ALLOWED),
                |word| wrong(&word, ALLOWED),
            ));
        }
        if self.context.effects.dscp {
            return Ok(changed("tos", value, mask));
        }
        if mask & 3 != 0 {
            return Ok(masked("tos", value.into(), mask.into()));
        }
        let fitting = (0u8..64).filter(|dscp| u32::from(dscp << 2) & mask == value);
        let list: Vec<(u8, u8)> = fitting.map(|dscp| (dscp, dscp)).collect();
        Ok(if list.is_empty() { NEVER } else { Test::Dscp(list) })
    }

    pub(super) fn value_and_mask(&mut self) -> Result<(u32, u32), Wrong> {
        const ALLOWED: &str = "a mark, as 0x1 or 0x1/0xff";
        let word = self.next(ALLOWED)?;
        let found = match word.text.split_once('/') {
            Some((value, mask)) => names::parse_number(value).zip(names::parse_number(mask)),
            None => names::parse_number(&word.text).map(|value| (value, u32::MAX)),
        };
        found.ok_or_else(|| wrong(&word, ALLOWED))
    }
}

/// No packet passes.
const NEVER: Test = Test::Mark { value: 1, mask: 0 };

fn uncertain_test(kind: &str, text: String) -> Test {
    Test::Uncertain(Uncertain { kind: Arc::from(kind), text: Arc::from(text) })
}

/// A test of what other rules change.
fn changed(kind: &str, value: u32, mask: u32) -> Test {
    let option = if kind == "connmark" { "--mark" } else { "--value" };
    uncertain_test(kind, format!("-m {kind} {option} {value:#x}/{mask:#x}"))
}

fn detail(name: &str, ranges: Vec<(u64, u64)>) -> Test {
    Test::Detail(DetailTest::of(name, ranges).expect("details here have good names"))
}

fn masked(name: &str, value: u64, mask: u64) -> Test {
    let ranges = Ranges::single(value.into(), value.into());
    let detail = Detail::named(name).expect("details here have good names");
    // All bits of a mark are a whole value.
    let mask = if mask == u32::MAX.into() { u64::MAX } else { mask };
    Test::Detail(DetailTest { detail, mask, ranges })
}

/// One of these bits at least.
fn any_bit(name: &str, bits: u64) -> DetailTest {
    let detail = Detail::named(name).expect("details here have good names");
    DetailTest { detail, mask: bits, ranges: Ranges::single(1, bits.into()) }
}
