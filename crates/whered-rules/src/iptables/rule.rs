//! Reads one rule: `[5:420] -A INPUT -s 10.0.0.0/8 ! -i eth+ -j ACCEPT`.
//!
//! For: matches, targets and their options.
//! Not for: what comes before the rules of a table (`read`).
//!
//! Invariants: an option that is not known here is a problem with its column, so nothing is lost.
//! Concurrency: pure. Cost: linear.

use std::net::IpAddr;
use std::sync::Arc;

use whered_ip::Prefix;

use crate::error::found_message;
use crate::model::{
    Action, AddressItem, Condition, Counters, IcmpMatch, InterfacePattern, RulesetBuilder, Side,
    Test,
};
use crate::names;
use crate::packet::{Family, State};
use crate::text::{read_address, read_counters};

/// Column and message of a problem.
type Wrong = (u32, String);

/// A word with its column.
#[derive(Clone)]
struct Word {
    text: String,
    column: u32,
}

/// Reads the rule into the builder.
pub(super) fn read(
    line: &str,
    family: Family,
    is_chain: &dyn Fn(&str) -> bool,
    builder: &mut RulesetBuilder,
    number: u32,
) -> Result<(), Wrong> {
    let mut reader = RuleReader {
        words: split(line)?,
        at: 0,
        family,
        conditions: Vec::new(),
        counters: None,
        comment: None,
        module: String::new(),
    };
    reader.leading_counters()?;
    let command = reader.next("-A and a chain")?;
    if command.text != "-A" && command.text != "--append" {
        return Err(wrong(&command, "a rule, as -A INPUT -j ACCEPT"));
    }
    let chain = reader.next("a chain's name")?;
    if !is_chain(&chain.text) {
        return Err(wrong(&chain, "a chain that was declared, as :INPUT DROP [0:0]"));
    }
    let mut target = None;
    while let Some(word) = reader.words.get(reader.at).cloned() {
        reader.at += 1;
        match word.text.as_str() {
            "-j" | "--jump" | "-g" | "--goto" => {
                let name = reader.next("a target")?;
                let goto = word.text.starts_with("-g") || word.text == "--goto";
                target = Some((name, goto));
                break;
            }
            _ => reader.option(&word)?,
        }
    }
    let action = match target {
        None => Action::Continue,
        Some((name, goto)) => reader.target(&name, goto, is_chain, builder, number)?,
    };
    if let Some(extra) = reader.words.get(reader.at) {
        return Err(wrong(extra, "end of line"));
    }
    let RuleReader { conditions, counters, comment, .. } = reader;
    let chain = builder.chain_id(&chain.text, number);
    builder.add_rule(chain, number, conditions, action, counters, comment);
    Ok(())
}

fn wrong(word: &Word, allowed: &str) -> Wrong {
    (word.column, found_message(&word.text, allowed))
}

/// Splits at spaces; double or single quotes keep them, a backslash keeps the next character.
fn split(line: &str) -> Result<Vec<Word>, Wrong> {
    let mut words = Vec::new();
    let mut open: Option<Word> = None;
    let mut quote = None;
    let mut letters = line.chars().zip(1u32..);
    while let Some((c, column)) = letters.next() {
        if c.is_whitespace() && quote.is_none() {
            words.extend(open.take());
            continue;
        }
        let word = open.get_or_insert_with(|| Word { text: String::new(), column });
        match (c, quote) {
            ('\\', _) => match letters.next() {
                Some((escaped, _)) => word.text.push(escaped),
                None => return Err((column, found_message("\\", "a character after it"))),
            },
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(of)) if c == of => quote = None,
            (c, _) if c.is_control() => {
                return Err((column, found_message(&c.to_string(), "printable characters")));
            }
            (c, _) => word.text.push(c),
        }
    }
    if quote.is_some() {
        let column = open.map_or(1, |word| word.column);
        return Err((column, found_message("an open quote", "a closing one on the same line")));
    }
    words.extend(open);
    Ok(words)
}

struct RuleReader {
    words: Vec<Word>,
    at: usize,
    family: Family,
    conditions: Vec<Condition>,
    counters: Option<Counters>,
    comment: Option<String>,
    /// The match module that was named last.
    module: String,
}

impl RuleReader {
    fn next(&mut self, allowed: &str) -> Result<Word, Wrong> {
        let Some(word) = self.words.get(self.at) else {
            let column =
                self.words.last().map_or(1, |word| word.column + word.text.chars().count() as u32);
            return Err((column, found_message("end of line", allowed)));
        };
        self.at += 1;
        Ok(word.clone())
    }

    fn leading_counters(&mut self) -> Result<(), Wrong> {
        let Some(first) = self.words.first().filter(|word| word.text.starts_with('[')) else {
            return Ok(());
        };
        self.at = 1;
        self.counters = Some(
            read_counters(&first.text)
                .ok_or_else(|| wrong(first, "counters as [packets:bytes]"))?,
        );
        Ok(())
    }

    /// One option with its values; `word` is it, or the `!` before it.
    fn option(&mut self, word: &Word) -> Result<(), Wrong> {
        let negated = word.text == "!";
        let option = if negated { self.next("an option after !")? } else { word.clone() };
        let test = match option.text.as_str() {
            "-m" | "--match" if !negated => return self.begin_module(),
            "--comment" if !negated && self.module == "comment" => {
                self.comment = Some(self.next("a comment")?.text);
                return Ok(());
            }
            "-c" | "--set-counters" if !negated => {
                let (packets, bytes) = (self.next("packets")?, self.next("bytes")?);
                let count =
                    |word: &Word| word.text.parse::<u64>().map_err(|_| wrong(word, "a number"));
                self.counters = Some(Counters { packets: count(&packets)?, bytes: count(&bytes)? });
                return Ok(());
            }
            "-s" | "--source" | "--src" => self.addresses(Side::Source)?,
            "-d" | "--destination" | "--dst" => self.addresses(Side::Destination)?,
            "-p" | "--protocol" => match self.protocol()? {
                Some(test) => test,
                None if !negated => return Ok(()),
                None => return Err(wrong(&option, "a protocol after ! -p other than all")),
            },
            "-i" | "--in-interface" => Test::Input(vec![self.interface()?]),
            "-o" | "--out-interface" => Test::Output(vec![self.interface()?]),
            _ => match self.module_option(&option)? {
                Some(test) => test,
                None if !negated => return Ok(()),
                None => return Err(wrong(&option, "a value after ! that is not any")),
            },
        };
        self.conditions.push(Condition::new(test, negated));
        Ok(())
    }

    fn begin_module(&mut self) -> Result<(), Wrong> {
        const KNOWN: &[&str] = &[
            "tcp",
            "udp",
            "udplite",
            "sctp",
            "dccp",
            "icmp",
            "icmp6",
            "icmpv6",
            "multiport",
            "iprange",
            "set",
            "conntrack",
            "state",
            "comment",
            "mark",
            "dscp",
        ];
        let name = self.next("a match")?;
        if !KNOWN.contains(&name.text.as_str()) {
            let allowed = format!("a match that can be expressed ({})", KNOWN.join(", "));
            return Err(wrong(&name, &allowed));
        }
        self.module = name.text;
        Ok(())
    }

    /// An option of the last module; `None` where it means anything.
    fn module_option(&mut self, option: &Word) -> Result<Option<Test>, Wrong> {
        let has_ports = ["tcp", "udp", "udplite", "sctp", "dccp"].contains(&self.module.as_str());
        let test = match (self.module.as_str(), option.text.as_str()) {
            (_, "--sport" | "--source-port") if has_ports => {
                Test::Port(Side::Source, self.ports(false)?)
            }
            (_, "--dport" | "--destination-port") if has_ports => {
                Test::Port(Side::Destination, self.ports(false)?)
            }
            ("multiport", "--sports" | "--source-ports") => {
                Test::Port(Side::Source, self.ports(true)?)
            }
            ("multiport", "--dports" | "--destination-ports") => {
                Test::Port(Side::Destination, self.ports(true)?)
            }
            ("multiport", "--ports") => Test::EitherPort(self.ports(true)?),
            ("tcp", "--syn") => Test::TcpFlags { mask: 0x17, compare: 0x02 },
            ("tcp", "--tcp-flags") => self.tcp_flags()?,
            ("icmp", "--icmp-type") if self.family == Family::Ipv4 => return self.icmp(false),
            ("icmp6" | "icmpv6", "--icmpv6-type") if self.family == Family::Ipv6 => {
                return self.icmp(true);
            }
            // The programs of the other family have no such match either.
            ("icmp", "--icmp-type") => return Err(wrong(option, "icmp6 in rules of ip6tables")),
            ("icmp6" | "icmpv6", "--icmpv6-type") => {
                return Err(wrong(option, "icmp in rules of iptables"));
            }
            ("iprange", "--src-range") => self.range(Side::Source)?,
            ("iprange", "--dst-range") => self.range(Side::Destination)?,
            ("set", "--match-set") => self.set()?,
            ("conntrack", "--ctstate") | ("state", "--state") => self.states()?,
            ("mark", "--mark") => {
                let (value, mask) = self.value_and_mask()?;
                Test::Mark { value, mask }
            }
            ("dscp", "--dscp" | "--dscp-class") => {
                const ALLOWED: &str = "a DSCP value or class";
                let word = self.next(ALLOWED)?;
                let number = names::dscp_number(&word.text).ok_or_else(|| wrong(&word, ALLOWED))?;
                Test::Dscp(vec![(number, number)])
            }
            _ => {
                return Err(wrong(option, "an option that can be expressed (docs/guide/rules.md)"));
            }
        };
        Ok(Some(test))
    }

    /// One or several prefixes with a comma between them; a mask may be written as an address.
    fn addresses(&mut self, side: Side) -> Result<Test, Wrong> {
        const ALLOWED: &str = "an address or prefix of this family, as 10.0.0.0/8";
        let word = self.next(ALLOWED)?;
        let mut items = Vec::new();
        for part in word.text.split(',') {
            let item = prefix(part).filter(|item| item.family() == self.family);
            items.push(item.ok_or_else(|| wrong(&word, ALLOWED))?);
        }
        Ok(Test::Address(side, items))
    }

    fn range(&mut self, side: Side) -> Result<Test, Wrong> {
        const ALLOWED: &str = "a range of addresses of this family, as 10.0.0.1-10.0.0.9";
        let word = self.next(ALLOWED)?;
        let item = read_address(&word.text).ok().filter(|item| item.family() == self.family);
        Ok(Test::Address(side, vec![item.ok_or_else(|| wrong(&word, ALLOWED))?]))
    }

    /// `None` for all protocols.
    fn protocol(&mut self) -> Result<Option<Test>, Wrong> {
        const ALLOWED: &str = "a protocol's name or number";
        let word = self.next(ALLOWED)?;
        if word.text == "all" {
            return Ok(None);
        }
        let number = names::protocol_number(&word.text).ok_or_else(|| wrong(&word, ALLOWED))?;
        // iptables takes 0 for all.
        Ok((number != 0).then(|| Test::Protocol(vec![(number, number)])))
    }

    fn interface(&mut self) -> Result<InterfacePattern, Wrong> {
        const ALLOWED: &str = "an interface, as eth0 or eth+";
        let word = self.next(ALLOWED)?;
        let plain = |c: char| c.is_ascii_graphic() && !"{}(),#\"=<>!".contains(c);
        if word.text.is_empty() || !word.text.chars().all(plain) {
            return Err(wrong(&word, ALLOWED));
        }
        Ok(match word.text.strip_suffix('+') {
            Some(start) => InterfacePattern::Begins(start.to_owned()),
            None => InterfacePattern::Exact(word.text),
        })
    }

    /// `80`, `80:89`, `:1023`, and with `several` a list of them.
    fn ports(&mut self, several: bool) -> Result<Vec<(u16, u16)>, Wrong> {
        const ALLOWED: &str = "ports by number, as 80 or 80:89";
        let word = self.next(ALLOWED)?;
        let parts: Vec<&str> =
            if several { word.text.split(',').collect() } else { vec![word.text.as_str()] };
        let end = |text: &str, open: u16| {
            if text.is_empty() {
                return Some(open);
            }
            names::parse_number(text)?.try_into().ok()
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

    fn set(&mut self) -> Result<Test, Wrong> {
        let name = self.next("a set's name")?;
        let directions = self.next("src or dst")?;
        match directions.text.as_str() {
            "src" => Ok(Test::Set(Side::Source, name.text)),
            "dst" => Ok(Test::Set(Side::Destination, name.text)),
            _ => Err(wrong(&directions, "src or dst (sets of addresses alone can be expressed)")),
        }
    }

    fn states(&mut self) -> Result<Test, Wrong> {
        const ALLOWED: &str = "INVALID, NEW, ESTABLISHED, RELATED or UNTRACKED";
        let word = self.next(ALLOWED)?;
        let states: Option<Vec<State>> = word.text.split(',').map(State::from_name).collect();
        Ok(Test::State(states.ok_or_else(|| wrong(&word, ALLOWED))?))
    }

    fn value_and_mask(&mut self) -> Result<(u32, u32), Wrong> {
        const ALLOWED: &str = "a mark, as 0x1 or 0x1/0xff";
        let word = self.next(ALLOWED)?;
        let found = match word.text.split_once('/') {
            Some((value, mask)) => names::parse_number(value).zip(names::parse_number(mask)),
            None => names::parse_number(&word.text).map(|value| (value, u32::MAX)),
        };
        found.ok_or_else(|| wrong(&word, ALLOWED))
    }

    fn target(
        &mut self,
        name: &Word,
        goto: bool,
        is_chain: &dyn Fn(&str) -> bool,
        builder: &mut RulesetBuilder,
        number: u32,
    ) -> Result<Action, Wrong> {
        if is_chain(&name.text) {
            let chain = builder.chain_id(&name.text, number);
            return Ok(if goto { Action::Goto(chain) } else { Action::Jump(chain) });
        }
        if goto {
            return Err(wrong(name, "a chain of this table"));
        }
        match name.text.as_str() {
            "ACCEPT" => Ok(Action::Accept),
            "DROP" => Ok(Action::Drop),
            "RETURN" => Ok(Action::Return),
            "REJECT" => {
                let with = self.text_option("--reject-with")?;
                Ok(Action::Reject { with })
            }
            "LOG" => {
                let (mut prefix, mut level) = (None, None);
                while self.at < self.words.len() {
                    match self.text_option("--log-prefix")? {
                        Some(text) => prefix = Some(text),
                        None => match self.text_option("--log-level")? {
                            Some(text) => level = Some(text),
                            None => break,
                        },
                    }
                }
                Ok(Action::Log { prefix, level })
            }
            "MARK" => self.mark_target(),
            _ => {
                Err(wrong(name, "ACCEPT, DROP, REJECT, RETURN, LOG, MARK or a chain of this table"))
            }
        }
    }

    /// The value of an option, if that is next.
    fn text_option(&mut self, option: &str) -> Result<Option<Arc<str>>, Wrong> {
        if self.words.get(self.at).is_none_or(|word| word.text != option) {
            return Ok(None);
        }
        self.at += 1;
        let value = self.next("a value")?;
        if value.text.is_empty() && option != "--log-prefix" {
            return Err(wrong(&value, "a value that is not empty"));
        }
        Ok(Some(Arc::from(value.text)))
    }

    fn mark_target(&mut self) -> Result<Action, Wrong> {
        let option = self.next("--set-xmark and a mark")?;
        let (value, mask) = match option.text.as_str() {
            "--set-xmark" => self.value_and_mask()?,
            // Sets the bits of the value and clears the other masked ones.
            "--set-mark" => {
                let (value, mask) = self.value_and_mask()?;
                (value, mask | value)
            }
            "--and-mark" => (0, !self.value_and_mask()?.0),
            "--or-mark" => {
                let bits = self.value_and_mask()?.0;
                (bits, bits)
            }
            "--xor-mark" => (self.value_and_mask()?.0, 0),
            _ => {
                return Err(wrong(
                    &option,
                    "--set-mark, --set-xmark, --and-mark, --or-mark or --xor-mark",
                ));
            }
        };
        Ok(Action::SetMark { value, mask })
    }
}

/// `10.0.0.0/8`, `10.0.0.0/255.0.0.0` or an address.
fn prefix(text: &str) -> Option<AddressItem> {
    if let Some((address, mask)) = text.split_once('/')
        && let Ok(mask) = mask.parse::<IpAddr>()
    {
        let (bits, width) = match mask {
            IpAddr::V4(mask) => (u128::from(mask.to_bits()) << 96, 32),
            IpAddr::V6(mask) => (mask.to_bits(), 128),
        };
        let length = bits.leading_ones();
        let contiguous = length == bits.count_ones() && length <= width;
        let address: IpAddr = address.parse().ok()?;
        if !contiguous || (width == 32) != address.is_ipv4() {
            return None;
        }
        return Some(AddressItem::Prefix(Prefix::new(address, length as u8).ok()?));
    }
    Some(AddressItem::Prefix(text.parse().ok()?))
}
