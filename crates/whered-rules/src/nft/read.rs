//! Reads tables, sets, chains and rules of nft's JSON.
//!
//! For: everything but the matches, which `fields` beside this file reads.
//!
//! Invariants: one table becomes the ruleset, entered by one chain; another chain that the same
//! packets meet is a problem unless the caller chose one. A statement that cannot be expressed is a
//! problem.
//! Concurrency: pure. Cost: linear, but for the elements of verdict maps times their rules.

use std::collections::HashSet;
use std::sync::Arc;

use super::fields::{Context, Named, Wrong, addresses, conditions, element, wrong};
use super::json::{Node, Value, parse};
use super::listing::{Listing, changes, key_of, references};
use super::open;
use crate::error::{Problems, RulesError, found_message};
use crate::hooks;
use crate::model::{
    Action, ChainId, Changes, Condition, Counters, Hook, Ruleset, RulesetBuilder, Test, Verdict,
};
use crate::packet::Family;

/// How many rules one rule may become.
const BRANCHES_LIMIT: usize = 65_536;

/// What a rule may be made of, for messages.
const STATEMENTS: &str = "match, limit, counter, log, a mark, another statement that is no verdict, a \
    verdict or a verdict map";

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
        context: Context::default(),
        place: String::new(),
        remarks: Vec::new(),
        family: None,
        bases: Vec::new(),
    };
    if let Err(error) = reader.file(options) {
        reader.note(error);
    }
    reader.problems.finish()?;
    let mut ruleset = reader.builder.build()?;
    ruleset.remarks = reader.remarks.iter().map(|remark| format!("{file}: {remark}")).collect();
    if options.chain.is_none() {
        let mut problems = Problems::new(&name);
        other_chains(&ruleset, &reader.bases, &mut problems);
        problems.finish()?;
        ruleset.remarks.extend(hooks::remark_on_entry(file, &ruleset));
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
    context: Context,
    /// Table, chain and handle of the rule that is read.
    place: String,
    remarks: Vec<String>,
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
    handle: Option<u64>,
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
        let message = found_message(&found, allowed) + &self.place;
        // Statements that cannot be expressed are told once.
        if allowed == STATEMENTS {
            return self.problems.push_repeated(line, column, message, found);
        }
        self.problems.push(line, column, message);
    }

    fn file(&mut self, options: Options<'_>) -> Result<(), Wrong> {
        let root = parse(self.text)?;
        let Some(objects) = root.get("nftables").and_then(Node::list) else {
            return wrong(&root, "the output of nft -j list ruleset");
        };
        let listing = Listing { objects };
        let (family, table) = listing.choose(options.table)?;
        self.builder.set_name(&table);
        self.family = match family.as_str() {
            "ip" => Some(Family::Ipv4),
            "ip6" => Some(Family::Ipv6),
            "inet" => None,
            other => return Err((0, other.to_owned(), "a table of family ip, ip6 or inet")),
        };
        self.builder.set_family(self.family);
        if let Some(chain) = options.chain {
            self.builder.set_entry(chain);
        }
        let key = (family, table);
        let ours = |node: &&Node| key_of(node) == key;
        let wanted = listing.chains_to_read(&key, options.chain);
        let is_wanted = |chain: Option<&str>| chain.is_some_and(|name| wanted.contains(name));
        let rules: Vec<&Node> = listing
            .of_kind("rule")
            .filter(ours)
            .filter(|rule| is_wanted(rule.text_at("chain")))
            .collect();
        let mut updated = HashSet::new();
        for rule in &rules {
            changes(rule, &mut self.context.changed, &mut updated);
        }
        let mut asked = HashSet::new();
        rules.iter().for_each(|rule| references(rule, &mut asked));
        for node in ["set", "map"].into_iter().flat_map(|kind| listing.of_kind(kind)).filter(ours) {
            let name = node.text_at("name").unwrap_or_default();
            // Of a chosen chain, sets that others ask for are not left over.
            if options.chain.is_some() && !asked.contains(name) {
                continue;
            }
            if updated.contains(name) {
                self.context.named.insert(name.to_owned(), Named::Unknown);
            } else if let Err(error) = self.set(node) {
                self.note(error);
            }
        }
        for node in listing.of_kind("chain").filter(ours) {
            if !is_wanted(node.text_at("name")) {
                continue;
            }
            if let Err(error) = self.chain(node) {
                self.note(error);
            }
        }
        for node in rules {
            self.place = format!(
                " (table {} {}, chain {}, handle {})",
                key.0,
                key.1,
                node.text_at("chain").unwrap_or_default(),
                node.get("handle").and_then(Node::number).unwrap_or(0)
            );
            if let Err(error) = self.rule(node) {
                self.note(error);
            }
            self.place.clear();
        }
        self.remarks = listing.remarks(&key, options.chain);
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
            let meant = match elements {
                Some(elements) if !elements.is_empty() => Named::Elements(elements.to_vec()),
                _ if node.get("map").is_some() => Named::Elements(Vec::new()),
                _ => Named::Unknown,
            };
            self.context.named.insert(name, meant);
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
        self.context.named.insert(name, Named::Addresses);
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
        let is_filter = |kind: &&Node| !matches!(kind.text(), Some("filter" | "route"));
        if let Some(kind) = node.get("type").filter(is_filter) {
            return wrong(kind, "chains of type filter");
        }
        let declared = self.builder.declare_chain(&name, policy, None, line);
        if let Some(hook) = node.get("hook") {
            let hook = hook.text().unwrap_or_default().to_owned();
            if let (Ok(id), Some(hook)) = (&declared, Hook::named(&hook)) {
                self.builder.set_hook(*id, hook);
            }
            let priority = node.get("prio").and_then(signed);
            if let (Ok(id), Some(priority)) = (&declared, priority) {
                self.builder.set_priority(*id, priority);
            }
            self.bases.push(BaseChain { name, hook });
        }
        if let Err(error) = declared {
            self.problems.extend(error);
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
            handle: node.get("handle").and_then(Node::number),
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
            let (chain, line, action) = (open.chain, open.line, action.clone());
            let rule = self.builder.add_rule(chain, line, conditions, action, counters, comment);
            self.builder.set_handle(rule, open.handle);
        }
        // What the kernel counted once shall not be counted twice.
        open.counters = None;
        open.did = true;
    }

    fn statement(&mut self, statement: &Node, open: &mut Open) -> Result<(), Wrong> {
        let Some((kind, inner)) = statement.only() else {
            return wrong(statement, STATEMENTS);
        };
        match kind {
            "limit" | "quota" | "ct count" | "meter" | "set" | "map" => {
                let test = open::uncertain(kind, statement);
                let condition = [vec![Condition::is(test)]];
                open.branches = product(&open.branches, &condition, statement)?;
            }
            "last" => {}
            "tproxy" => {
                // Without a socket that listens, the rule ends here.
                let protocol = Condition::is(Test::Protocol(vec![(6, 6), (17, 17)]));
                let listens = Condition::is(open::uncertain(kind, statement));
                let condition = [vec![protocol, listens]];
                open.branches = product(&open.branches, &condition, statement)?;
                let target = Arc::from(statement.written());
                let action = Action::Other { target, changes: Changes::Nothing };
                self.emit(open, &action);
            }
            "synproxy" => self.synproxy(statement, open)?,
            "notrack" | "ct helper" | "ct timeout" | "ct expectation" | "flow" | "dup"
            | "reset" | "secmark" | "tunnel" => {
                let target = Arc::from(statement.written());
                let action = Action::Other { target, changes: Changes::Nothing };
                self.emit(open, &action);
            }
            "xt" => self.xt(inner, statement, open)?,
            "queue" => {
                self.emit(open, &Action::Queue);
                open.ended = true;
            }
            "match" => {
                let parts = (inner.get("left"), inner.text_at("op"), inner.get("right"));
                let (Some(left), Some(operator), Some(right)) = parts else {
                    return wrong(inner, "left, op and right");
                };
                let alternatives = conditions(left, operator, right, &self.context)?;
                open.branches = product(&open.branches, &alternatives, statement)?;
                self.refuse_icmp_of_other_family(&open.branches, statement)?;
            }
            "counter" => {
                let count = |key| inner.get(key).and_then(Node::number);
                if let (Some(packets), Some(bytes)) = (count("packets"), count("bytes")) {
                    open.counters = Some(Counters { packets, bytes });
                }
            }
            "log" => {
                let action = log(inner)?;
                self.emit(open, &action);
            }
            "mangle" => {
                let action = set_mark(inner, statement)?;
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

    /// The kernel answers a SYN itself, and an ACK opens the connection or is thrown away. Other
    /// packets go on.
    fn synproxy(&mut self, statement: &Node, open: &mut Open) -> Result<(), Wrong> {
        let target = Arc::from(statement.written());
        self.emit(open, &Action::Other { target, changes: Changes::Nothing });
        let before = open.branches.clone();
        for (mask, compare) in [(0x02, 0x02), (0x12, 0x10)] {
            let flags = [vec![Condition::is(Test::TcpFlags { mask, compare })]];
            open.branches = product(&before, &flags, statement)?;
            self.emit(open, &Action::Drop);
        }
        open.branches = before;
        Ok(())
    }

    /// A match or target of iptables, of which nft prints the name alone.
    fn xt(&mut self, inner: &Node, statement: &Node, open: &mut Open) -> Result<(), Wrong> {
        let (kind, name) = (inner.text_at("type"), inner.text_at("name").unwrap_or_default());
        match (kind, name) {
            (Some("match"), "comment") => {}
            (Some("match"), name) if !name.is_empty() => {
                let test = open::uncertain(name, statement);
                let condition = [vec![Condition::is(test)]];
                open.branches = product(&open.branches, &condition, statement)?;
            }
            (Some("target"), "REJECT") => {
                self.emit(open, &Action::Reject { with: None });
                open.ended = true;
            }
            (Some("target"), "NFQUEUE") => {
                self.emit(open, &Action::Queue);
                open.ended = true;
            }
            (Some("target"), "LOG") => self.emit(open, &Action::Log { prefix: None, level: None }),
            (Some("target"), name) if crate::iptables::passes(name) || name == "MARK" => {
                let changes = if ["MARK", "CONNMARK", "IPMARK", "HMARK"].contains(&name) {
                    Changes::Mark
                } else {
                    Changes::Nothing
                };
                self.emit(open, &Action::Other { target: Arc::from(name), changes });
            }
            (Some("target"), name) => {
                let Some(steps) = crate::iptables::deciding(name, name) else {
                    return Err((statement.at, format!("xt {name}"), STATEMENTS));
                };
                let before = open.branches.clone();
                for (conditions, action) in steps {
                    open.branches = product(&before, &[conditions], statement)?;
                    self.emit(open, &action);
                }
                open.branches = before;
            }
            _ => return Err((statement.at, format!("xt {name}"), STATEMENTS)),
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
        let Some((kind, inner)) = statement.only() else { return wrong(statement, STATEMENTS) };
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
            _ => return wrong(statement, STATEMENTS),
        })
    }

    fn verdict_map(&mut self, map: &Node, open: &mut Open) -> Result<(), Wrong> {
        const ALLOWED: &str = "a verdict map with a key that can be expressed";
        let (Some(key), Some(data)) = (map.get("key"), map.get("data")) else {
            return wrong(map, ALLOWED);
        };
        let elements = match data.text().and_then(|name| name.strip_prefix('@')) {
            Some(name) => match self.context.named.get(name) {
                Some(Named::Elements(elements)) => elements.clone(),
                _ => return wrong(data, "a verdict map of this table"),
            },
            None => match data.get("set").and_then(Node::list) {
                Some(elements) => elements.to_vec(),
                None => return wrong(data, ALLOWED),
            },
        };
        let before = open.branches.clone();
        let (mut others, mut keys) = (None, Vec::new());
        for entry in &elements {
            let Some([value, verdict]) = entry.list() else { return wrong(entry, ALLOWED) };
            if element(value).text() == Some("*") {
                others = Some(verdict);
                continue;
            }
            let alternatives = conditions(key, "==", element(value), &self.context)?;
            open.branches = product(&before, &alternatives, map)?;
            self.refuse_icmp_of_other_family(&open.branches, map)?;
            let action = self.verdict(verdict)?;
            self.emit(open, &action);
            keys.extend(alternatives);
        }
        if let Some(verdict) = others {
            open.branches = product(&before, &[none_of(keys, map)], map)?;
            let action = self.verdict(verdict)?;
            self.emit(open, &action);
        }
        Ok(())
    }
}

/// The conditions of packets that have the key of a map, but none of the values: these differ in
/// their last condition. Where they do not, it is not known who they are.
fn none_of(keys: Vec<Vec<Condition>>, map: &Node) -> Vec<Condition> {
    let common = keys.first().map_or(&[][..], |key| &key[..key.len().saturating_sub(1)]).to_vec();
    let is_alike = |key: &Vec<Condition>| key.len() == common.len() + 1 && key.starts_with(&common);
    let is_exact = |key: &Vec<Condition>| {
        key.last().is_some_and(|last| !matches!(last.test, Test::Uncertain(_)))
    };
    if keys.is_empty() || !keys.iter().all(|key| is_alike(key) && is_exact(key)) {
        return vec![Condition::is(open::uncertain("map", map))];
    }
    let opposite = |mut key: Vec<Condition>| {
        let last = key.pop()?;
        Some(Condition::new(last.test, !last.negated))
    };
    common.into_iter().chain(keys.into_iter().filter_map(opposite)).collect()
}

/// A number that may be below zero, which is text here.
fn signed(node: &Node) -> Option<i32> {
    let positive = node.number().and_then(|number| i32::try_from(number).ok());
    positive.or_else(|| node.text()?.parse().ok())
}

/// A log; flags say what else of the packet is written down.
fn log(inner: &Node) -> Result<Action, Wrong> {
    const ALLOWED: &str = "prefix, level, group or flags of a log";
    const KNOWN: [&str; 6] = ["prefix", "level", "group", "snaplen", "queue-threshold", "flags"];
    if let Value::Map(entries) = &inner.value {
        let is_other = |(key, _): &&(String, Node)| !KNOWN.contains(&key.as_str());
        if let Some((key, value)) = entries.iter().find(is_other) {
            return Err((value.at, key.clone(), ALLOWED));
        }
    }
    let text = |key| inner.text_at(key).map(Arc::from);
    let level = text("level").filter(|level: &Arc<str>| !level.is_empty());
    Ok(Action::Log { prefix: text("prefix"), level })
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
///
/// Another value is not known here, and other fields are nothing that rules ask for afterwards (see
/// `changes`).
fn set_mark(mangle: &Node, statement: &Node) -> Result<Action, Wrong> {
    const ALLOWED: &str = "a field that is set to a value";
    let is_mark =
        |node: &Node| node.get("meta").and_then(|meta| meta.text_at("key")) == Some("mark");
    let number = |node: &Node| node.number().and_then(|number| u32::try_from(number).ok());
    let (Some(key), Some(value)) = (mangle.get("key"), mangle.get("value")) else {
        return wrong(mangle, ALLOWED);
    };
    let other = |changes| {
        let target = Arc::from(statement.written());
        Ok(Action::Other { target, changes })
    };
    if !is_mark(key) {
        return other(Changes::Nothing);
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
        None => other(Changes::Mark),
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
