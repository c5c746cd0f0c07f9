//! Reads tables, sets, chains and rules of nft's JSON.
//!
//! For: everything but the matches, which `fields` beside this file reads.
//!
//! Invariants: one table becomes the ruleset, entered by one chain; another chain that the same
//! packets meet is a problem unless the caller chose one. A statement that cannot be expressed is a
//! problem.
//! Concurrency: pure. Cost: linear, but for the elements of verdict maps times their rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::fields::{Named, Wrong, addresses, conditions, element, wrong};
use super::json::{Node, Value, parse};
use crate::error::{Problems, RulesError, found_message};
use crate::hooks;
use crate::model::{Action, ChainId, Condition, Counters, Ruleset, RulesetBuilder, Test, Verdict};
use crate::packet::Family;

/// How many rules one rule may become.
const BRANCHES_LIMIT: usize = 65_536;

/// Which part of the output is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options<'a> {
    /// The table's name, or its family and name (`ip6 filter`), needed where there are several.
    pub table: Option<&'a str>,
    /// The chain that packets enter, whatever others they meet; `None`: see [`Ruleset::entry`].
    pub chain: Option<&'a str>,
}

/// Reads one table of the output of `nft -j list ruleset`.
///
/// # Errors
///
/// All problems (up to a hundred), among them every match and statement that cannot be expressed,
/// and without a chosen chain every other one that packets of the entry's hook meet: what it does
/// to them would be left out.
pub fn read(file: &str, text: &str, options: Options<'_>) -> Result<Ruleset, RulesError> {
    let name: Arc<str> = file.into();
    let mut reader = Reader {
        text,
        problems: Problems::new(&name),
        builder: RulesetBuilder::new(file),
        named: HashMap::new(),
        family: None,
        bases: Vec::new(),
    };
    if let Err(error) = reader.file(options) {
        reader.note(error);
    }
    reader.problems.finish()?;
    let ruleset = reader.builder.build()?;
    if options.chain.is_none() {
        let mut problems = Problems::new(&name);
        other_chains(&ruleset, &reader.bases, &mut problems);
        problems.finish()?;
    }
    Ok(ruleset)
}

/// Notes the chains that packets of the entry's hook meet too, unless they let all pass.
fn other_chains(ruleset: &Ruleset, bases: &[BaseChain], problems: &mut Problems) {
    let entry = &ruleset.chain(ruleset.entry()).name;
    let hook_of = |base: &&BaseChain| base.name == *entry;
    let Some(hook) = bases.iter().find(hook_of).map(|base| base.hook.as_str()) else { return };
    for base in bases.iter().filter(|base| base.name != *entry && hooks::meet(hook, &base.hook)) {
        let Some(id) = ruleset.chain_named(&base.name) else { continue };
        let chain = ruleset.chain(id);
        if chain.rules.is_empty() && chain.policy == Some(Verdict::Accept) {
            continue;
        }
        let message = format!(
            "found chain {:?} of hook {}, which packets of {entry:?} (hook {hook}) meet too: allowed \
             is one such chain, or the name of the one to read (--chain)",
            base.name, base.hook
        );
        problems.push(chain.origin.line, 0, message);
    }
}

struct Reader<'t> {
    text: &'t str,
    problems: Problems,
    builder: RulesetBuilder,
    named: HashMap<String, Named>,
    /// The only family that the table sees.
    family: Option<Family>,
    /// The chains that packets enter.
    bases: Vec<BaseChain>,
}

/// A chain that packets enter at a hook.
struct BaseChain {
    name: String,
    hook: String,
}

/// A rule while its statements are read.
struct Open {
    chain: ChainId,
    line: u32,
    /// Conditions so far: alternatives that exclude each other.
    branches: Vec<Vec<Condition>>,
    counters: Option<Counters>,
    comment: Option<String>,
    /// Whether a rule was made of it already.
    did: bool,
    /// Whether nothing more may follow.
    ended: bool,
}

impl Reader<'_> {
    /// Line and column of a byte.
    fn place(&self, at: usize) -> (u32, u32) {
        let before = &self.text[..at.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1;
        (line, before[line_start..].chars().count() as u32 + 1)
    }

    fn note(&mut self, (at, found, allowed): Wrong) {
        let (line, column) = self.place(at);
        self.problems.push(line, column, found_message(&found, allowed));
    }

    fn file(&mut self, options: Options<'_>) -> Result<(), Wrong> {
        let root = parse(self.text)?;
        let Some(objects) = root.get("nftables").and_then(Node::list) else {
            return wrong(&root, "the output of nft -j list ruleset");
        };
        let of_kind =
            |kind: &'static str| objects.iter().filter_map(move |object| object.get(kind));
        let key = |node: &Node| {
            let part = |name| node.text_at(name).unwrap_or_default().to_owned();
            (part("family"), part("table"))
        };
        let mut tables: Vec<(String, String)> = of_kind("rule").map(key).collect();
        tables.extend(of_kind("chain").map(key));
        tables.sort();
        tables.dedup();
        let is_wanted = |family: &str, table: &str, wanted: &str| {
            wanted == table || wanted.strip_prefix(family).map(str::trim_start) == Some(table)
        };
        tables.retain(|(family, table)| {
            options.table.is_none_or(|wanted| is_wanted(family, table, wanted))
        });
        let [(family, table)] = tables.as_slice() else {
            let names: Vec<String> =
                tables.iter().map(|(family, table)| format!("{family} {table}")).collect();
            let found = match names.as_slice() {
                [] => "no table".to_owned(),
                names => format!("several tables: {}", names.join(", ")),
            };
            return Err((0, found, "one table with chains; its name can be given"));
        };
        self.builder.set_name(table);
        let family = match family.as_str() {
            "ip" => Some(Family::Ipv4),
            "ip6" => Some(Family::Ipv6),
            "inet" => None,
            other => return Err((0, other.to_owned(), "a table of family ip, ip6 or inet")),
        };
        self.builder.set_family(family);
        self.family = family;
        if let Some(chain) = options.chain {
            self.builder.set_entry(chain);
        }
        let ours = |node: &&Node| key(node) == tables[0];
        for (kind, read) in [
            ("set", Reader::set as fn(&mut Self, &Node) -> Result<(), Wrong>),
            ("map", Reader::set),
            ("chain", Reader::chain),
            ("rule", Reader::rule),
        ] {
            for node in of_kind(kind).filter(ours) {
                if let Err(error) = read(self, node) {
                    self.note(error);
                }
            }
        }
        Ok(())
    }

    fn name(&self, node: &Node, key: &str) -> Result<String, Wrong> {
        match node.text_at(key).filter(|name| !name.is_empty()) {
            Some(name) => Ok(name.to_owned()),
            None => wrong(node, "a name"),
        }
    }

    fn set(&mut self, node: &Node) -> Result<(), Wrong> {
        let name = self.name(node, "name")?;
        let line = self.place(node.at).0;
        let elements = node.get("elem").and_then(Node::list);
        let family = match (node.text_at("type"), node.get("map")) {
            (Some("ipv4_addr"), None) => Some(Family::Ipv4),
            (Some("ipv6_addr"), None) => Some(Family::Ipv6),
            _ => None,
        };
        let Some(family) = family else {
            self.named.insert(name, Named::Elements(elements.unwrap_or_default().to_vec()));
            return Ok(());
        };
        // An empty set waits for members, so it is asked live.
        let items = match node.get("elem") {
            Some(list) if elements.is_some_and(|list| !list.is_empty()) => {
                Some(addresses(list, family)?)
            }
            _ => None,
        };
        if let Err(error) = self.builder.declare_set(&name, items, line) {
            self.problems.extend(error);
        }
        self.named.insert(name, Named::Addresses);
        Ok(())
    }

    fn chain(&mut self, node: &Node) -> Result<(), Wrong> {
        let name = self.name(node, "name")?;
        let line = self.place(node.at).0;
        let policy = match (node.get("hook"), node.text_at("policy")) {
            (None, _) => None,
            (Some(_), None | Some("accept")) => Some(Verdict::Accept),
            (Some(_), Some("drop")) => Some(Verdict::Drop),
            (Some(_), Some(_)) => return wrong(node, "policy accept or drop"),
        };
        if let Some(kind) = node.get("type").filter(|kind| kind.text() != Some("filter")) {
            return wrong(kind, "chains of type filter");
        }
        if let Err(error) = self.builder.declare_chain(&name, policy, None, line) {
            self.problems.extend(error);
        }
        if let Some(hook) = node.get("hook") {
            let hook = hook.text().unwrap_or_default().to_owned();
            self.bases.push(BaseChain { name, hook });
        }
        Ok(())
    }

    fn rule(&mut self, node: &Node) -> Result<(), Wrong> {
        let chain = self.name(node, "chain")?;
        let line = self.place(node.at).0;
        let mut open = Open {
            chain: self.builder.chain_id(&chain, line),
            line,
            branches: vec![Vec::new()],
            counters: None,
            comment: node.text_at("comment").map(str::to_owned),
            did: false,
            ended: false,
        };
        let statements = node.get("expr").and_then(Node::list).unwrap_or_default();
        for statement in statements {
            if open.ended {
                return wrong(statement, "nothing after a verdict");
            }
            self.statement(statement, &mut open)?;
        }
        if !open.did {
            self.emit(&mut open, &Action::Continue);
        }
        Ok(())
    }

    /// Makes rules of what was read so far.
    fn emit(&mut self, open: &mut Open, action: &Action) {
        for conditions in open.branches.clone() {
            let (counters, comment) = (open.counters, open.comment.clone());
            self.builder.add_rule(
                open.chain,
                open.line,
                conditions,
                action.clone(),
                counters,
                comment,
            );
        }
        // What the kernel counted once shall not be counted twice.
        open.counters = None;
        open.did = true;
    }

    fn statement(&mut self, statement: &Node, open: &mut Open) -> Result<(), Wrong> {
        const ALLOWED: &str = "match, counter, log, a mark, a verdict or a verdict map";
        let Some((kind, inner)) = statement.only() else {
            return wrong(statement, ALLOWED);
        };
        match kind {
            "match" => {
                let parts = (inner.get("left"), inner.text_at("op"), inner.get("right"));
                let (Some(left), Some(operator), Some(right)) = parts else {
                    return wrong(inner, "left, op and right");
                };
                let alternatives = conditions(left, operator, right, &self.named)?;
                open.branches = product(&open.branches, &alternatives, statement)?;
                self.refuse_icmp_of_other_family(&open.branches, statement)?;
            }
            "counter" => {
                let count = |key| inner.get(key).and_then(Node::number);
                if let (Some(packets), Some(bytes)) = (count("packets"), count("bytes")) {
                    open.counters = Some(Counters { packets, bytes });
                } else if inner.text().is_some() {
                    return wrong(inner, "a counter of the rule's own");
                }
            }
            "log" => {
                if let Value::Map(entries) = &inner.value {
                    let known = |key: &str| key == "prefix" || key == "level";
                    if let Some((key, value)) = entries.iter().find(|(key, _)| !known(key)) {
                        return Err((value.at, key.clone(), "prefix and level of a log"));
                    }
                }
                let text = |key| inner.text_at(key).map(Arc::from);
                let level = text("level").filter(|level: &Arc<str>| !level.is_empty());
                let action = Action::Log { prefix: text("prefix"), level };
                self.emit(open, &action);
            }
            "mangle" => {
                let action = set_mark(inner)?;
                self.emit(open, &action);
            }
            "vmap" => {
                self.verdict_map(inner, open)?;
                // What is in no element goes on with the rest of the rule.
                open.did = true;
                open.ended = true;
            }
            _ => {
                let action = self.verdict(statement)?;
                // nft leaves out matches that the way of rejecting implies.
                if let Some(test) = implied_by_reject(inner) {
                    let implied = [vec![Condition::is(test)]];
                    open.branches = product(&open.branches, &implied, statement)?;
                }
                self.emit(open, &action);
                open.ended = true;
            }
        }
        Ok(())
    }

    /// The kernel asks for the protocol's number and looks at the octets there, so that a test of
    /// ICMPv6 where only IPv4 packets come meets those of protocol 58. Our test never would.
    fn refuse_icmp_of_other_family(
        &self,
        branches: &[Vec<Condition>],
        at: &Node,
    ) -> Result<(), Wrong> {
        for conditions in branches {
            let families = conditions.iter().filter_map(|condition| match &condition.test {
                Test::Family(family) if condition.negated => Some(family.other()),
                Test::Family(family) => Some(*family),
                _ => None,
            });
            let families: Vec<Family> = self.family.into_iter().chain(families).collect();
            let is_of = |family| families.contains(&family);
            let found = conditions.iter().find_map(|condition| match condition.test {
                Test::Icmp(_) if is_of(Family::Ipv6) => Some("icmp"),
                Test::Icmpv6(_) if is_of(Family::Ipv4) => Some("icmpv6"),
                _ => None,
            });
            if let Some(found) = found {
                let allowed = "icmp where IPv4 packets come, icmpv6 where IPv6 packets come";
                return Err((at.at, found.to_owned(), allowed));
            }
        }
        Ok(())
    }

    fn verdict(&mut self, statement: &Node) -> Result<Action, Wrong> {
        const ALLOWED: &str = "match, counter, log, a mark, a verdict or a verdict map";
        let Some((kind, inner)) = statement.only() else { return wrong(statement, ALLOWED) };
        let line = self.place(statement.at).0;
        Ok(match kind {
            "accept" => Action::Accept,
            "drop" => Action::Drop,
            "return" => Action::Return,
            "continue" => Action::Continue,
            "jump" | "goto" => {
                let target = self.name(inner, "target")?;
                let target = self.builder.chain_id(&target, line);
                if kind == "jump" { Action::Jump(target) } else { Action::Goto(target) }
            }
            "reject" => Action::Reject { with: reject_with(inner) },
            _ => return wrong(statement, ALLOWED),
        })
    }

    fn verdict_map(&mut self, map: &Node, open: &mut Open) -> Result<(), Wrong> {
        const ALLOWED: &str = "a verdict map with a key that can be expressed";
        let (Some(key), Some(data)) = (map.get("key"), map.get("data")) else {
            return wrong(map, ALLOWED);
        };
        let elements = match data.text().and_then(|name| name.strip_prefix('@')) {
            Some(name) => match self.named.get(name) {
                Some(Named::Elements(elements)) => elements.clone(),
                _ => return wrong(data, "a verdict map of this table"),
            },
            None => match data.get("set").and_then(Node::list) {
                Some(elements) => elements.to_vec(),
                None => return wrong(data, ALLOWED),
            },
        };
        let before = open.branches.clone();
        for entry in &elements {
            let Some([value, verdict]) = entry.list() else { return wrong(entry, ALLOWED) };
            let alternatives = conditions(key, "==", element(value), &self.named)?;
            open.branches = product(&before, &alternatives, map)?;
            self.refuse_icmp_of_other_family(&open.branches, map)?;
            let action = self.verdict(verdict)?;
            self.emit(open, &action);
        }
        Ok(())
    }
}

/// Every branch with every alternative.
fn product(
    branches: &[Vec<Condition>],
    alternatives: &[Vec<Condition>],
    at: &Node,
) -> Result<Vec<Vec<Condition>>, Wrong> {
    if branches.len() * alternatives.len() > BRANCHES_LIMIT {
        return Err((at.at, "too many alternatives".to_owned(), "65536 in a rule"));
    }
    let pairs = branches.iter().flat_map(|a| alternatives.iter().map(move |b| (a, b)));
    Ok(pairs.map(|(a, b)| [a.as_slice(), b.as_slice()].concat()).collect())
}

/// `meta mark set VALUE`, or `(mark & A) | B`, or `(mark & A) ^ B`.
fn set_mark(mangle: &Node) -> Result<Action, Wrong> {
    const ALLOWED: &str = "meta mark set to a number, or to the mark with & and then | or ^";
    let is_mark =
        |node: &Node| node.get("meta").and_then(|meta| meta.text_at("key")) == Some("mark");
    let number = |node: &Node| node.number().and_then(|number| u32::try_from(number).ok());
    let (Some(key), Some(value)) = (mangle.get("key"), mangle.get("value")) else {
        return wrong(mangle, ALLOWED);
    };
    if !is_mark(key) {
        return wrong(key, ALLOWED);
    }
    if let Some(value) = number(value) {
        return Ok(Action::SetMark { value, mask: u32::MAX });
    }
    // The bits that are kept of an expression: the mark itself keeps all.
    let kept = |node: &Node| match node.get("&").and_then(Node::list) {
        Some([mark, bits]) if is_mark(mark) => number(bits),
        _ if is_mark(node) => Some(u32::MAX),
        _ => None,
    };
    let operand = |name: &str| match value.get(name).and_then(Node::list) {
        Some([left, right]) => kept(left).zip(number(right)),
        _ => None,
    };
    if let Some((kept, bits)) = operand("|") {
        return Ok(Action::SetMark { value: bits, mask: !kept | bits });
    }
    if let Some((kept, bits)) = operand("^") {
        return Ok(Action::SetMark { value: bits, mask: !kept });
    }
    match kept(value) {
        Some(kept) => Ok(Action::SetMark { value: 0, mask: !kept }),
        None => wrong(value, ALLOWED),
    }
}

/// A TCP reset is for TCP, a message of ICMP for one family.
fn implied_by_reject(inner: &Node) -> Option<Test> {
    match inner.text_at("type")? {
        "tcp reset" => Some(Test::Protocol(vec![(6, 6)])),
        "icmp" => Some(Test::Family(Family::Ipv4)),
        "icmpv6" => Some(Test::Family(Family::Ipv6)),
        _ => None,
    }
}

/// In iptables' words where it has one.
fn reject_with(inner: &Node) -> Option<Arc<str>> {
    let kind = inner.text_at("type").filter(|kind| !kind.is_empty())?;
    let Some(what) = inner.text_at("expr") else { return Some(kind.replace(' ', "-").into()) };
    let text = match kind {
        "icmp" if what == "prot-unreachable" => "icmp-proto-unreachable".to_owned(),
        "icmpv6" if what == "admin-prohibited" => "icmp6-adm-prohibited".to_owned(),
        "icmpv6" => format!("icmp6-{what}"),
        kind => format!("{kind}-{what}"),
    };
    Some(text.into())
}
