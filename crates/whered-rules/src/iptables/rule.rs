//! Reads one rule: `[5:420] -A INPUT -s 10.0.0.0/8 ! -i eth+ -j ACCEPT`.
//!
//! For: the order of options, and what iptables itself knows: addresses, interfaces, protocols.
//! Not for: options of matches (`matches`) and targets (`targets`), nor what comes before the rules
//! of a table (`read`).
//!
//! Options of all matches that were named are taken in any order, as iptables takes them, and those
//! of `-p tcp` without `-m tcp`, too.
//!
//! Invariants: an option that is not known here is a problem with its column, so nothing is lost.
//! Concurrency: pure. Cost: linear.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whered_ip::Prefix;

use super::matches::UNCERTAIN;
use super::scan::Effects;
use crate::error::{found_message, shortened};
use crate::model::{
    Action, AddressItem, Condition, Counters, DetailTest, InterfacePattern, RulesetBuilder, Side,
    Test, Uncertain,
};
use crate::names;
use crate::packet::{Family, State, address_number};
use crate::text::read_counters;

/// What is wrong with a rule.
pub(super) struct Wrong {
    pub(super) column: u32,
    pub(super) message: String,
    /// What many rules may have in common, as `-m geoip`: told once, with their number.
    pub(super) unsupported: Option<String>,
}

/// A word with its column.
#[derive(Clone)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) column: u32,
}

/// What a rule is read with.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    pub(super) family: Family,
    pub(super) is_chain: &'c dyn Fn(&str) -> bool,
    /// What rules of this table do that others may see.
    pub(super) effects: &'c Effects,
}

/// Reads the rule into the builder.
pub(super) fn read(
    line: &str,
    context: Context<'_>,
    builder: &mut RulesetBuilder,
    number: u32,
) -> Result<(), Wrong> {
    let mut reader = RuleReader::new(split(line)?, context);
    reader.leading_counters()?;
    let command = reader.next("-A and a chain")?;
    let inserts = match command.text.as_str() {
        "-A" | "--append" => false,
        "-I" | "--insert" => true,
        _ => return Err(wrong(&command, "a rule, as -A INPUT -j ACCEPT")),
    };
    let chain = reader.next("a chain's name")?;
    if !(context.is_chain)(&chain.text) {
        return Err(wrong(&chain, "a chain that was declared, as :INPUT DROP [0:0]"));
    }
    let mut position = inserts.then_some(1);
    if inserts && let Some(word) = reader.peek().filter(|word| !word.text.starts_with(['-', '!'])) {
        let place = names::parse_number(&word.text).filter(|&place| place > 0);
        position = Some(place.ok_or_else(|| wrong(word, "a position from 1"))?);
        reader.at += 1;
    }
    let mut steps = None;
    while let Some(word) = reader.words.get(reader.at).cloned() {
        reader.at += 1;
        match word.text.as_str() {
            "-j" | "--jump" | "-g" | "--goto" if steps.is_none() => {
                let name = reader.next("a target")?;
                let goto = word.text.starts_with("-g") || word.text == "--goto";
                steps = Some(reader.target(&name, goto, builder, number)?);
            }
            _ => reader.option(&word)?,
        }
    }
    let steps = steps.unwrap_or_else(|| vec![(Vec::new(), Action::Continue)]);
    let RuleReader { conditions, state, counters, comment, .. } = reader;
    let chain = builder.chain_id(&chain.text, number);
    let (mut add, mut rules) = (Vec::new(), 0);
    match state {
        None => add.push(conditions),
        // In one of the states; or in none, and translated.
        Some(either) => {
            for way in either.ways() {
                add.push([conditions.as_slice(), &way].concat());
            }
        }
    }
    for conditions in &add {
        for (further, action) in &steps {
            let conditions = [conditions.as_slice(), further].concat();
            let counters = counters.filter(|_| rules == 0);
            builder.add_rule(chain, number, conditions, action.clone(), counters, comment.clone());
            if let Some(position) = position {
                builder.move_last_to(chain, position as usize - 1 + rules).map_err(|count| {
                    let allowed = format!("a position up to {}", count + 1);
                    wrong(&command, &allowed)
                })?;
            }
            rules += 1;
        }
    }
    Ok(())
}

/// A state, or a translated address: iptables tests both with one option.
pub(super) struct StateOrStatus {
    pub(super) states: Vec<State>,
    pub(super) status: DetailTest,
    pub(super) negated: bool,
}

impl StateOrStatus {
    /// The conditions of each rule that it becomes, which exclude each other.
    fn ways(self) -> Vec<Vec<Condition>> {
        let StateOrStatus { states, status, negated } = self;
        let state = |negated| Condition::new(Test::State(states.clone()), negated);
        let status = |negated| Condition::new(Test::Detail(status.clone()), negated);
        if negated {
            return vec![vec![state(true), status(true)]];
        }
        vec![vec![state(false)], vec![state(true), status(false)]]
    }
}

pub(super) fn wrong(word: &Word, allowed: &str) -> Wrong {
    Wrong { column: word.column, message: found_message(&word.text, allowed), unsupported: None }
}

/// As [`wrong`], for what may stand in many rules.
pub(super) fn unsupported(word: &Word, option: &str, allowed: &str) -> Wrong {
    let what = format!("{option} {}", shortened(&word.text));
    Wrong { unsupported: Some(what), ..wrong(word, allowed) }
}

/// Splits at spaces; double or single quotes keep them, a backslash keeps the next character.
pub(super) fn split(line: &str) -> Result<Vec<Word>, Wrong> {
    let mut words = Vec::new();
    let mut open: Option<Word> = None;
    let mut quote = None;
    let mut letters = line.chars().zip(1u32..);
    let fail = |column, found: &str, allowed: &str| {
        Err(Wrong { column, message: found_message(found, allowed), unsupported: None })
    };
    while let Some((c, column)) = letters.next() {
        if c.is_whitespace() && quote.is_none() {
            words.extend(open.take());
            continue;
        }
        let word = open.get_or_insert_with(|| Word { text: String::new(), column });
        match (c, quote) {
            ('\\', _) => match letters.next() {
                Some((escaped, _)) => word.text.push(escaped),
                None => return fail(column, "\\", "a character after it"),
            },
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(of)) if c == of => quote = None,
            (c, _) if c.is_control() => {
                return fail(column, &c.to_string(), "printable characters");
            }
            (c, _) => word.text.push(c),
        }
    }
    if quote.is_some() {
        let column = open.map_or(1, |word| word.column);
        return fail(column, "an open quote", "a closing one on the same line");
    }
    words.extend(open);
    Ok(words)
}

/// Words as a text that is split into the same ones.
pub(super) fn joined<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let quoted = |word: &str| {
        let plain = |c: char| !c.is_whitespace() && !"\"'\\".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            return word.to_owned();
        }
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

pub(super) struct RuleReader<'c> {
    pub(super) words: Vec<Word>,
    pub(super) at: usize,
    pub(super) context: Context<'c>,
    pub(super) conditions: Vec<Condition>,
    pub(super) state: Option<StateOrStatus>,
    counters: Option<Counters>,
    pub(super) comment: Option<String>,
    /// The matches that were named.
    pub(super) modules: Vec<String>,
    /// The protocol's own match, which needs no name.
    pub(super) protocol: Option<u8>,
}

impl<'c> RuleReader<'c> {
    fn new(words: Vec<Word>, context: Context<'c>) -> RuleReader<'c> {
        RuleReader {
            words,
            at: 0,
            context,
            conditions: Vec::new(),
            state: None,
            counters: None,
            comment: None,
            modules: Vec::new(),
            protocol: None,
        }
    }

    pub(super) fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    pub(super) fn next(&mut self, allowed: &str) -> Result<Word, Wrong> {
        let Some(word) = self.words.get(self.at) else {
            let column =
                self.words.last().map_or(1, |word| word.column + word.text.chars().count() as u32);
            let message = found_message("end of line", allowed);
            return Err(Wrong { column, message, unsupported: None });
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

    /// Whether the next word begins something that iptables itself knows, so that the options of a
    /// match or target end here.
    pub(super) fn at_end_of_options(&self) -> bool {
        const ENDS: [&str; 27] = [
            "-m",
            "--match",
            "-j",
            "--jump",
            "-g",
            "--goto",
            "-s",
            "--source",
            "--src",
            "-d",
            "--destination",
            "--dst",
            "-i",
            "--in-interface",
            "-o",
            "--out-interface",
            "-p",
            "--protocol",
            "--proto",
            "-c",
            "--set-counters",
            "-f",
            "--fragment",
            "-4",
            "--ipv4",
            "-6",
            "--ipv6",
        ];
        let is_end = |word: &Word| ENDS.contains(&word.text.as_str());
        match self.peek() {
            None => true,
            Some(word) if word.text == "!" => self.words.get(self.at + 1).is_none_or(is_end),
            Some(word) => is_end(word),
        }
    }

    /// The words up to the end of the options.
    pub(super) fn options(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while !self.at_end_of_options() {
            words.extend(self.words.get(self.at).map(|word| word.text.clone()));
            self.at += 1;
        }
        words
    }

    /// One option with its values; `word` is it, or the `!` before it.
    fn option(&mut self, word: &Word) -> Result<(), Wrong> {
        let mut negated = word.text == "!";
        let option = if negated { self.next("an option after !")? } else { word.clone() };
        // Older programs wrote the ! behind the option.
        if !negated && self.peek().is_some_and(|word| word.text == "!") {
            let is_switch = ["-f", "--fragment", "--syn"].contains(&option.text.as_str());
            if option.text.starts_with('-') && !is_switch {
                negated = true;
                self.at += 1;
            }
        }
        let test = match option.text.as_str() {
            "-m" | "--match" if !negated => return self.begin_module(),
            "-c" | "--set-counters" if !negated => {
                let (packets, bytes) = (self.next("packets")?, self.next("bytes")?);
                let count =
                    |word: &Word| word.text.parse::<u64>().map_err(|_| wrong(word, "a number"));
                self.counters = Some(Counters { packets: count(&packets)?, bytes: count(&bytes)? });
                return Ok(());
            }
            "-4" | "--ipv4" | "-6" | "--ipv6" if !negated => {
                Test::Family(if option.text.ends_with('4') { Family::Ipv4 } else { Family::Ipv6 })
            }
            "-f" | "--fragment" => {
                Test::Detail(DetailTest::of("fragment", vec![(1, 1)]).expect("a name"))
            }
            "-s" | "--source" | "--src" => self.addresses(Side::Source)?,
            "-d" | "--destination" | "--dst" => self.addresses(Side::Destination)?,
            "-p" | "--protocol" | "--proto" => match self.protocol(negated)? {
                Some(test) => test,
                None if !negated => return Ok(()),
                None => return Err(wrong(&option, "a protocol after ! -p other than all")),
            },
            "-i" | "--in-interface" => Test::Input(vec![self.interface()?]),
            "-o" | "--out-interface" => Test::Output(vec![self.interface()?]),
            _ => match self.module_option(&option, negated)? {
                Some(test) => test,
                None => return Ok(()),
            },
        };
        self.conditions.push(Condition::new(test, negated));
        Ok(())
    }

    fn begin_module(&mut self) -> Result<(), Wrong> {
        let name = self.next("a match")?;
        if let Some(kind) = UNCERTAIN.iter().find(|kind| **kind == name.text) {
            let options = self.options();
            let words = ["-m", *kind].into_iter().chain(options.iter().map(String::as_str));
            let text = joined(words);
            self.modules.push(name.text);
            self.uncertain(kind, &text);
            return Ok(());
        }
        if !super::matches::is_known(&name.text) {
            let allowed = "a match of iptables (docs/guide/rules.md)";
            return Err(unsupported(&name, "-m", allowed));
        }
        self.modules.push(name.text);
        Ok(())
    }

    /// One or several prefixes with a comma between them; a mask may be written as an address.
    fn addresses(&mut self, side: Side) -> Result<Test, Wrong> {
        const ALLOWED: &str = "an address or prefix of this family, as 10.0.0.0/8";
        let word = self.next(ALLOWED)?;
        if let Some((value, mask)) = masked_address(&word.text)
            && Family::of(value) == self.context.family
        {
            return Ok(Test::MaskedAddress { side, value, mask });
        }
        if word.text.split(',').any(is_host_name) {
            return Ok(self.host(side, &word.text));
        }
        let mut items = Vec::new();
        for part in word.text.split(',') {
            let item = prefix(part).filter(|item| item.family() == self.context.family);
            items.push(item.ok_or_else(|| wrong(&word, ALLOWED))?);
        }
        Ok(Test::Address(side, items))
    }

    /// A name, which iptables looks up when it loads the rules. What it finds is not known here.
    fn host(&self, side: Side, name: &str) -> Test {
        if name == "localhost" {
            let address = match self.context.family {
                Family::Ipv4 => IpAddr::from(Ipv4Addr::LOCALHOST),
                Family::Ipv6 => IpAddr::from(Ipv6Addr::LOCALHOST),
            };
            return Test::Address(side, vec![AddressItem::Prefix(Prefix::host(address))]);
        }
        let option = if side == Side::Source { "-s" } else { "-d" };
        let text = joined([option, name]);
        Test::Uncertain(Uncertain { kind: "host".into(), text: text.into() })
    }

    /// `None` for all protocols.
    fn protocol(&mut self, negated: bool) -> Result<Option<Test>, Wrong> {
        const ALLOWED: &str = "a protocol's name or number";
        let word = self.next(ALLOWED)?;
        if word.text == "all" {
            return Ok(None);
        }
        let number = names::protocol_number(&word.text).ok_or_else(|| wrong(&word, ALLOWED))?;
        if !negated {
            self.protocol = Some(number);
        }
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
}

/// A name of a host: labels of letters, digits and `-`, with a letter in the last one. A mask may
/// stand behind it.
fn is_host_name(text: &str) -> bool {
    let name = text.split_once('/').map_or(text, |(name, _)| name);
    let is_label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && !label.starts_with('-') && label.chars().all(plain)
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.split('.').all(is_label) && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// An address and a mask with gaps.
fn masked_address(text: &str) -> Option<(IpAddr, IpAddr)> {
    let (address, mask) = text.split_once('/')?;
    let (address, mask): (IpAddr, IpAddr) = (address.parse().ok()?, mask.parse().ok()?);
    if address.is_ipv4() != mask.is_ipv4() || prefix(text).is_some() {
        return None;
    }
    // Bits outside of the mask are not looked at.
    let value = address_number(address) & address_number(mask);
    Some((super::to_address(value, Family::of(address)), mask))
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
