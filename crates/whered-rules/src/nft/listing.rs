//! What a listing of nft consists of: tables, chains, which rules lead to which.
//!
//! For: choosing the table and the chains that are read, and saying what is passed over. Not for:
//! what rules say.
//!
//! Invariants: chains of type nat cannot drop by themselves; one with a verdict that drops, a
//! second table that may drop at the same hook, and all that is not known are never passed over in
//! silence. Concurrency: pure. Cost: linear in the listing for each table.

use std::collections::{HashMap, HashSet};

use super::fields::Wrong;
use super::json::{Node, Value};
use super::open::ChangedFields;
use crate::hooks;

/// The objects of a listing.
pub(super) struct Listing<'n> {
    pub(super) objects: &'n [Node],
}

/// Family and table of an object.
pub(super) fn key_of(node: &Node) -> (String, String) {
    let part = |name| node.text_at(name).unwrap_or_default().to_owned();
    (part("family"), part("table"))
}

impl<'n> Listing<'n> {
    pub(super) fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &'n Node> {
        self.objects.iter().filter_map(move |object| object.get(kind))
    }

    /// The table of this name, or family and name; without one, the only table with chains, or the
    /// only one that filters packets.
    pub(super) fn choose(&self, wanted: Option<&str>) -> Result<(String, String), Wrong> {
        let mut tables: Vec<(String, String)> =
            ["rule", "chain"].into_iter().flat_map(|kind| self.of_kind(kind)).map(key_of).collect();
        tables.sort();
        tables.dedup();
        let is_wanted = |family: &str, table: &str, wanted: &str| {
            wanted == table || wanted.strip_prefix(family).map(str::trim_start) == Some(table)
        };
        tables
            .retain(|(family, table)| wanted.is_none_or(|wanted| is_wanted(family, table, wanted)));
        if tables.len() > 1 {
            let filters: Vec<&(String, String)> =
                tables.iter().filter(|key| self.filters(key)).collect();
            if let [only] = filters.as_slice() {
                return Ok((*only).clone());
            }
        }
        let [only] = tables.as_slice() else {
            let names: Vec<String> =
                tables.iter().map(|(family, table)| format!("{family} {table}")).collect();
            let found = match names.as_slice() {
                [] => "no table".to_owned(),
                names => format!("several tables: {}", names.join(", ")),
            };
            return Err((0, found, "one table with chains; its name can be given (--table)"));
        };
        Ok(only.clone())
    }

    fn chains(&self, key: &(String, String)) -> impl Iterator<Item = &'n Node> {
        self.of_kind("chain").filter(move |chain| key_of(chain) == *key)
    }

    fn rules(&self, key: &(String, String)) -> impl Iterator<Item = &'n Node> {
        self.of_kind("rule").filter(move |rule| key_of(rule) == *key)
    }

    /// Whether a table has a chain of type filter that is no idle one.
    fn filters(&self, key: &(String, String)) -> bool {
        self.chains(key).any(|chain| {
            let name = chain.text_at("name");
            let has_rules = || self.rules(key).any(|rule| rule.text_at("chain") == name);
            chain.text_at("type") == Some("filter")
                && (chain.text_at("policy") == Some("drop") || has_rules())
        })
    }

    /// The chains that are read: what the asked chain reaches, or all but those that only packets
    /// of nat get to.
    pub(super) fn chains_to_read(
        &self,
        key: &(String, String),
        chain: Option<&str>,
    ) -> HashSet<String> {
        let names = |keep: &dyn Fn(&Node) -> bool| -> Vec<String> {
            let kept = self.chains(key).filter(|chain| keep(chain));
            kept.filter_map(|chain| chain.text_at("name")).map(str::to_owned).collect()
        };
        let is_nat = |chain: &Node| chain.text_at("type") == Some("nat");
        if let Some(chain) = chain {
            return self.reached(key, vec![chain.to_owned()]);
        }
        let by_nat = self.reached(key, names(&is_nat));
        let bases = names(&|chain| chain.get("hook").is_some() && !is_nat(chain));
        let mut wanted = self.reached(key, bases);
        wanted.extend(names(&|_| true).into_iter().filter(|name| !by_nat.contains(name)));
        // A rule of a chain that is not listed is wrong, and told.
        let listed: HashSet<String> = names(&|_| true).into_iter().collect();
        let rules = self.rules(key).filter_map(|rule| rule.text_at("chain"));
        wanted.extend(rules.filter(|name| !listed.contains(*name)).map(str::to_owned));
        wanted
    }

    /// The chains that rules lead to from these, themselves included.
    fn reached(&self, key: &(String, String), from: Vec<String>) -> HashSet<String> {
        let mut of_maps: HashMap<&str, Vec<&str>> = HashMap::new();
        for map in self.of_kind("map").filter(|map| key_of(map) == *key) {
            let targets = of_maps.entry(map.text_at("name").unwrap_or_default()).or_default();
            calls(map, targets);
        }
        let mut of_chains: HashMap<&str, Vec<&str>> = HashMap::new();
        for rule in self.rules(key) {
            let targets = of_chains.entry(rule.text_at("chain").unwrap_or_default()).or_default();
            calls(rule, targets);
        }
        let mut open = from;
        let mut reached = HashSet::new();
        while let Some(chain) = open.pop() {
            if !reached.insert(chain.clone()) {
                continue;
            }
            for target in of_chains.get(chain.as_str()).into_iter().flatten() {
                match target.strip_prefix('@') {
                    Some(map) => open.extend(
                        of_maps.get(map).into_iter().flatten().map(|name| (*name).to_owned()),
                    ),
                    None => open.push((*target).to_owned()),
                }
            }
        }
        reached
    }

    /// What is passed over and may change or drop packets that the read chains see.
    pub(super) fn remarks(&self, chosen: &(String, String), chain: Option<&str>) -> Vec<String> {
        let hooks_of = |node: &Node| node.text_at("hook").unwrap_or_default().to_owned();
        let entry_hooks: Vec<String> = self
            .chains(chosen)
            .filter(|node| node.get("hook").is_some() && node.text_at("type") != Some("nat"))
            .filter(|node| chain.is_none_or(|chain| node.text_at("name") == Some(chain)))
            .map(hooks_of)
            .collect();
        let families_meet = |family: &str| {
            family == chosen.0 || family == "inet" || chosen.0 == "inet" || family == "netdev"
        };
        let mut remarks = Vec::new();
        for base in self.of_kind("chain").filter(|chain| chain.get("hook").is_some()) {
            let key = key_of(base);
            let name = base.text_at("name").unwrap_or_default();
            let is_nat = base.text_at("type") == Some("nat");
            let meets = entry_hooks.iter().any(|hook| hooks::meet(hook, &hooks_of(base)));
            let is_ours = key == *chosen && !is_nat;
            if is_ours || !meets || !families_meet(&key.0) || hooks_of(base) == "postrouting" {
                continue;
            }
            let reached = self.reached(&key, vec![name.to_owned()]);
            let rules: Vec<&Node> = self
                .rules(&key)
                .filter(|rule| rule.text_at("chain").is_some_and(|chain| reached.contains(chain)))
                .collect();
            let has = |words: &[&str]| rules.iter().any(|rule| mentions(rule, words));
            let what = if base.text_at("policy") == Some("drop")
                || has(&["drop", "reject", "queue"])
            {
                "may drop packets that these rules accept, or that they never see"
            } else if has(&["dnat", "redirect"]) {
                "changes destinations before these rules see them: give packets the translated ones"
            } else {
                continue;
            };
            remarks.push(format!("chain {name:?} of table {} {} {what}", key.0, key.1));
        }
        remarks
    }
}

/// The chains that a rule or map leads to, and the maps of verdicts that it asks, with their `@`.
fn calls<'n>(node: &'n Node, targets: &mut Vec<&'n str>) {
    match &node.value {
        Value::Map(entries) => {
            for (name, inner) in entries {
                match name.as_str() {
                    "jump" | "goto" => targets.extend(inner.text_at("target")),
                    "vmap" => {
                        let named = inner.text_at("data").filter(|data| data.starts_with('@'));
                        targets.extend(named);
                        calls(inner, targets);
                    }
                    _ => calls(inner, targets),
                }
            }
        }
        Value::List(list) => list.iter().for_each(|node| calls(node, targets)),
        _ => {}
    }
}

/// Whether a statement of one of these words is somewhere in a rule, or a target of iptables that
/// is not known to let packets go on.
fn mentions(node: &Node, words: &[&str]) -> bool {
    match &node.value {
        Value::Map(entries) => entries.iter().any(|(name, inner)| {
            let is_target = name == "xt" && inner.text_at("type") == Some("target");
            let target = inner.text_at("name").unwrap_or_default();
            let known = ["MASQUERADE", "SNAT", "MARK", "LOG"].contains(&target);
            let wanted = words.contains(&target.to_ascii_lowercase().as_str());
            let may_drop = words.contains(&"drop") && !known && !crate::iptables::passes(target);
            let is_redirect = ["DNAT", "REDIRECT", "NETMAP"].contains(&target);
            words.contains(&name.as_str())
                || is_target && (wanted || may_drop && !is_redirect)
                || mentions(inner, words)
        }),
        Value::List(list) => list.iter().any(|node| mentions(node, words)),
        _ => false,
    }
}

/// What a rule changes that others may ask for: fields by nft's words, and sets by their names.
pub(super) fn changes(node: &Node, changed: &mut ChangedFields, sets: &mut HashSet<String>) {
    match &node.value {
        Value::Map(entries) => {
            for (name, inner) in entries {
                match name.as_str() {
                    "mangle" => {
                        let key = inner.get("key").and_then(Node::only);
                        if let Some((kind, key)) = key {
                            let parts = ["protocol", "key", "field"];
                            let parts = parts.iter().filter_map(|part| key.text_at(part));
                            let of_packet = kind == "payload";
                            let head = (!of_packet).then_some(kind);
                            let words: Vec<&str> = head.into_iter().chain(parts).collect();
                            changed.insert(words.join("-"));
                        }
                    }
                    "xt" => {
                        let changes: &[&str] = match inner.text_at("name") {
                            Some("CONNMARK") => &["ct-mark"],
                            Some("TTL" | "HL") => &["ip-ttl", "ip6-hoplimit"],
                            Some("DSCP" | "TOS") => &["ip-dscp", "ip6-dscp"],
                            _ => &[],
                        };
                        changed.extend(changes.iter().map(|word| (*word).to_owned()));
                    }
                    "set" | "map" if inner.get("op").is_some() => {
                        let name = inner.text_at("set").or_else(|| inner.text_at("map"));
                        sets.extend(name.map(|name| name.trim_start_matches('@').to_owned()));
                    }
                    _ => changes(inner, changed, sets),
                }
            }
        }
        Value::List(list) => list.iter().for_each(|node| changes(node, changed, sets)),
        _ => {}
    }
}

/// The names of sets and maps that a rule asks for.
pub(super) fn references<'n>(node: &'n Node, names: &mut HashSet<&'n str>) {
    match &node.value {
        Value::Text(text) => names.extend(text.strip_prefix('@')),
        Value::Map(entries) => entries.iter().for_each(|(_, inner)| references(inner, names)),
        Value::List(list) => list.iter().for_each(|node| references(node, names)),
        _ => {}
    }
}
