//! The text of a program: sets, maps, chains.
//!
//! For: the last step. Not for: the order of lookups (`layers`).
//!
//! A map of which some rules ask for ports and others do not has a second one, for packets whose
//! ports cannot be read, such as later fragments: a load that fails ends the rule of the first map,
//! so that the second is tried. Both are in a chain of their own, where packets with ports turn
//! back between them.
//!
//! Invariants: names that are made here begin with `whered_`. A line of the text is a comment, or
//! one of nft's. Concurrency: pure.

use std::fmt::Write as _;

use super::Options;
use super::Program;
use super::candidate::{Candidate, KeyFields, LookupKind, Maker, barrier};
use super::elements::{Element, elements, elements_without_ports};
use super::later;
use super::layers::{Layer, Layers, arrange, merge_neighbours};
use super::plan::{ChainPlan, Plan, Segment, SegmentKind, linear_cost, lookup_cost};
use super::sets::PREFIX;
use crate::error::{Problems, RulesError, shortened};
use crate::hooks::Hook;
use crate::iptables::to_address;
use crate::model::{Action, Chain, RuleId, Ruleset, Verdict};
use crate::nft::{
    Cannot, asked_sets, families, identifier, refused_reject, reject, rejects_some, rule_lines,
    set_name, write_set,
};
use crate::normal::Field;
use crate::packet::Family;
use crate::text::rule_text;

/// Up to this number, rules are not worth a lookup of this kind.
const FEW_OF_ONE_FIELD: usize = 3;
const FEW_OF_SEVERAL_FIELDS: usize = 8;

/// How long the comment of an element may be. The kernel takes 128 octets.
const COMMENT_OCTETS: usize = 60;

/// Why a lookup is not worth it.
const TOO_FEW: &str = "too few that can share a lookup there";

/// Writes a prepared ruleset; `original` is what it was before.
pub(super) fn program(
    prepared: &Ruleset,
    original: &Ruleset,
    options: Options<'_>,
) -> Result<Program, RulesError> {
    let file = &prepared.chain(prepared.entry()).origin.file;
    let mut problems = Problems::new(file);
    let later = later::rules(prepared);
    let mut writer = Writer {
        ruleset: prepared,
        original,
        options,
        maker: Maker::new(prepared, options.counters)?,
        maps: String::new(),
        helpers: String::new(),
        count: 0,
        rejects: Vec::new(),
        has_later: later.is_some(),
        is_later: false,
    };
    let sets = sets_text(prepared, &mut problems);
    let mut plan = Plan::default();
    let mut chains = writer.chains(&mut plan, &mut problems);
    let mut names: Vec<&str> = callable_chains(prepared);
    if let (Some(later), true) = (&later, problems.is_empty()) {
        let maker = Maker::new(later, options.counters)?;
        writer = Writer { ruleset: later, maker, has_later: false, is_later: true, ..writer };
        // Their rules are in the plan already.
        chains += &writer.chains(&mut Plan::default(), &mut problems);
        names.extend(callable_chains(later));
    }
    problems.finish()?;
    let kind = match prepared.family {
        None => "inet",
        Some(Family::Ipv4) => "ip",
        Some(Family::Ipv6) => "ip6",
    };
    let Writer { maps, helpers, .. } = writer;
    let table = format!("table {kind} {}", options.table);
    let file = one_line(file);
    let mut text =
        format!("# Compiled by whered from {file}.\n{table}\ndelete {table}\n{table} {{\n");
    for name in names {
        // Maps lead to chains, which must be there.
        let _in_a_string = writeln!(text, "\tchain {name} {{\n\t}}");
    }
    text.extend([sets, maps, helpers, chains]);
    text += "}\n";
    Ok(Program { text, plan })
}

/// The sets that rules ask for.
fn sets_text(ruleset: &Ruleset, problems: &mut Problems) -> String {
    let mut sets = String::new();
    for set in asked_sets(ruleset) {
        let is_live = ruleset.set_named(&set).is_none_or(|set| set.elements.is_none());
        // Members of live sets may end.
        let flags = if is_live { "interval, timeout" } else { "interval" };
        for &family in families(ruleset) {
            match set_name(ruleset, &set, family) {
                Ok(name) => write_set(ruleset, &set, &name, family, flags, &mut sets),
                Err(message) => problems.push(1, 0, message),
            }
        }
    }
    sets
}

/// The chains that rules jump to.
fn callable_chains(ruleset: &Ruleset) -> Vec<&str> {
    let callable = ruleset.chains.iter().filter(|chain| chain.policy.is_none());
    callable.map(|chain| chain.name.as_str()).collect()
}

struct Writer<'r, 'o> {
    ruleset: &'r Ruleset,
    original: &'r Ruleset,
    options: Options<'o>,
    maker: Maker<'r>,
    maps: String,
    helpers: String,
    /// How many lookups there are.
    count: usize,
    /// Ways to reject, each of which is a chain.
    rejects: Vec<Action>,
    /// Whether later fragments have chains of their own.
    has_later: bool,
    /// Whether these are the chains of later fragments.
    is_later: bool,
}

/// The lines and segments of a chain, as far as they are made.
#[derive(Default)]
struct Parts {
    lines: String,
    segments: Vec<Segment>,
    hidden: Vec<RuleId>,
}

impl<'r> Writer<'r, '_> {
    fn chains(&mut self, plan: &mut Plan, problems: &mut Problems) -> String {
        let mut text = String::new();
        let ruleset: &'r Ruleset = self.ruleset;
        for chain in &ruleset.chains {
            match self.chain(chain, problems) {
                Ok((written, of_chain)) => {
                    text += &written;
                    plan.chains.push(of_chain);
                }
                Err(message) => problems.push(chain.origin.line, 0, message),
            }
        }
        text
    }

    fn chain(
        &mut self,
        chain: &Chain,
        problems: &mut Problems,
    ) -> Result<(String, ChainPlan), Cannot> {
        let name = identifier(&chain.name)?;
        let mut parts = Parts::default();
        let mut run: Vec<RuleId> = Vec::new();
        for &id in &chain.rules {
            let rule = self.ruleset.rule(id);
            // Every rule must be one that nft can say, wherever it goes.
            if let Err(message) = rule_lines(self.ruleset, rule) {
                problems.push(rule.origin.line, 0, message);
                continue;
            }
            match barrier(self.ruleset, &rule.action) {
                None => run.push(id),
                Some(reason) => {
                    self.run(std::mem::take(&mut run), &mut parts)?;
                    self.linear(&[id], reason, &mut parts)?;
                }
            }
        }
        self.run(run, &mut parts)?;
        let text = match &chain.policy {
            Some(policy) => self.base_chain(chain, policy, &parts.lines)?,
            None => format!("\tchain {name} {{\n{}\t}}\n", parts.lines),
        };
        let plan = ChainPlan {
            name: chain.name.clone(),
            origin: chain.origin.clone(),
            is_base: chain.policy.is_some(),
            segments: parts.segments,
            hidden: parts.hidden,
        };
        Ok((text, plan))
    }

    /// A chain that packets enter. Who returns from it meets the policy, so that rules that stand
    /// for the policy are outside of the chain that is returned from.
    fn base_chain(
        &mut self,
        chain: &Chain,
        policy: &Verdict,
        lines: &str,
    ) -> Result<String, Cannot> {
        let (word, last) = policy_text(self.ruleset, policy)?;
        let hook = self.hook(chain)?;
        let (name, priority) = (&chain.name, chain.priority.unwrap_or(0));
        let mut body = match self.has_later {
            true => later::lines(chain, hook, self.ruleset.family),
            false => String::new(),
        };
        body += lines;
        let mut end: String = last.map(|last| format!("\t\t{last}\n")).unwrap_or_default();
        if self.options.counters {
            end += "\t\tcounter comment \"policy\"\n";
        }
        let leaves = |line: &str| line.contains("goto ") || line.contains("return");
        let is_left = body.lines().any(leaves)
            || chain.rules.iter().any(|&id| {
                matches!(self.ruleset.rule(id).action, Action::Return | Action::Goto(_))
            });
        if is_left && !end.is_empty() {
            let _in_a_string = writeln!(self.helpers, "\tchain {PREFIX}body_{name} {{\n{body}\t}}");
            body = format!("\t\tjump {PREFIX}body_{name}\n");
        }
        Ok(format!(
            "\tchain {name} {{\n\t\ttype filter hook {hook} priority {priority}; policy {word};\n\
             {body}{end}\t}}\n"
        ))
    }

    fn hook(&self, chain: &Chain) -> Result<&'static str, Cannot> {
        let by_name = Hook::named(&chain.name);
        let only = (self.ruleset.base_chains().count() == 1).then_some(Hook::Input);
        match chain.hook.or(by_name).or(only) {
            Some(Hook::Ingress | Hook::Egress) => Err(format!(
                "found chain {:?} of one interface: allowed are other hooks",
                chain.name
            )),
            Some(hook) => Ok(hook.name()),
            None => Err(format!(
                "found chain {:?} with a policy: allowed is a hook's name, a hook, or one chain alone",
                chain.name
            )),
        }
    }

    /// Rules one after the other.
    fn linear(
        &self,
        rules: &[RuleId],
        reason: &'static str,
        parts: &mut Parts,
    ) -> Result<(), Cannot> {
        let mut count = 0;
        for &id in rules {
            let rule = self.ruleset.rule(id);
            self.remark(id, "\t\t", &mut parts.lines);
            for line in rule_lines(self.ruleset, rule)? {
                count += usize::from(!line.starts_with('#'));
                parts.lines.extend(["\t\t", line.trim(), "\n"]);
            }
        }
        match parts.segments.last_mut() {
            Some(last) if last.kind == SegmentKind::Linear && last.reason == reason => {
                last.rules.extend(rules);
                last.elements += count;
                last.nanoseconds += linear_cost(count);
            }
            _ => parts.segments.push(Segment {
                kind: SegmentKind::Linear,
                key: String::new(),
                rules: rules.to_vec(),
                elements: count,
                reason,
                nanoseconds: linear_cost(count),
            }),
        }
        Ok(())
    }

    /// The original text of a rule.
    fn remark(&self, id: RuleId, indent: &str, out: &mut String) {
        if self.is_later {
            return;
        }
        let rule = self.original.rule(id);
        let text = rule_text(self.original, rule);
        let text = one_line(&format!("{}: {}", rule.origin, text.trim()));
        let _in_a_string = writeln!(out, "{indent}# {text}");
    }

    /// Rules that only decide.
    fn run(&mut self, rules: Vec<RuleId>, parts: &mut Parts) -> Result<(), Cannot> {
        let mut candidates: Vec<Candidate> =
            rules.into_iter().map(|id| self.maker.candidate(id)).collect();
        if !self.options.counters {
            candidates = merge_neighbours(candidates, self.maker.domains());
        }
        let Layers { list, hidden, .. } = arrange(&mut candidates, self.maker.domains());
        for layer in &list {
            self.layer(layer, &candidates, parts)?;
        }
        parts.hidden.extend(hidden.iter().flat_map(|&at| &candidates[at].rules));
        Ok(())
    }

    fn layer(
        &mut self,
        layer: &Layer,
        candidates: &[Candidate],
        parts: &mut Parts,
    ) -> Result<(), Cannot> {
        let members = layer.members.iter().map(|member| &candidates[member.candidate]);
        let mut rules: Vec<RuleId> = members.flat_map(|one| one.rules.clone()).collect();
        rules.sort_unstable();
        let few = match layer.kind {
            LookupKind::Alone(reason) => return self.linear(&rules, reason, parts),
            LookupKind::Concatenation => FEW_OF_SEVERAL_FIELDS,
            _ => FEW_OF_ONE_FIELD,
        };
        if rules.len() <= few {
            return self.linear(&rules, TOO_FEW, parts);
        }
        self.count += 1;
        let number = self.count;
        for &id in &rules {
            let mut line = String::new();
            self.remark(id, "\t", &mut line);
            self.maps += &line;
        }
        let mut segment = Segment {
            kind: SegmentKind::Exact,
            key: String::new(),
            rules,
            elements: 0,
            reason: "",
            nanoseconds: 0.0,
        };
        for lookup in self.lookups(layer, candidates) {
            self.lookup(&lookup, number, candidates, &mut segment, &mut parts.lines)?;
        }
        parts.segments.push(segment);
        Ok(())
    }

    /// The lookups of a layer: one, or one for each family.
    fn lookups(&self, layer: &Layer, candidates: &[Candidate]) -> Vec<Lookup> {
        let fields = layer.fields(candidates);
        let guards = &self.maker.texts[layer.guard];
        let domains = self.maker.domains();
        let of_family = |at: usize| Lookup {
            family: Some(Family::BOTH[at]),
            guard: guards[at].clone(),
            fields,
            leaves: layer.leaves,
            main: elements(layer, candidates, at, domains[at]),
            without_ports: elements_without_ports(layer, candidates, at, domains[at]),
        };
        let concerned: Vec<usize> =
            families(self.ruleset).iter().map(|&family| family as usize).collect();
        let mut lookups: Vec<Lookup> = concerned.into_iter().map(of_family).collect();
        if let [v4, v6] = lookups.as_slice()
            && !fields.has_addresses()
            && (&v4.guard, &v4.main, &v4.without_ports) == (&v6.guard, &v6.main, &v6.without_ports)
        {
            lookups.truncate(1);
            lookups[0].family = None;
        }
        lookups.retain(|lookup| !lookup.main.is_empty() || !lookup.without_ports.is_empty());
        lookups
    }

    /// Writes the maps and the rules of one lookup.
    fn lookup(
        &mut self,
        lookup: &Lookup,
        number: usize,
        candidates: &[Candidate],
        segment: &mut Segment,
        lines: &mut String,
    ) -> Result<(), Cannot> {
        let Lookup { family, fields, leaves, .. } = lookup;
        let ending = family.map_or("", |family| ["_v4", "_v6"][family as usize]);
        let name = format!("{PREFIX}{number}{ending}");
        let of_family = match (family, self.ruleset.family) {
            (Some(family), None) => format!("meta nfproto {} ", family.name()),
            _ => String::new(),
        };
        let guard = of_family + &lookup.guard;
        let address_family = family.or(self.ruleset.family).unwrap_or(Family::Ipv4);
        let mut rules = Vec::new();
        for (elements, fields, ending) in [
            (&lookup.main, *fields, ""),
            (&lookup.without_ports, fields.without_ports(), "_without_ports"),
        ] {
            if elements.is_empty() {
                continue;
            }
            // All packets: no key is needed, and none would be one.
            if fields.len() == 0 {
                let verdict = self.verdict(&candidates[elements[0].candidate])?;
                rules.push(verdict);
                continue;
            }
            let map = format!("{name}{ending}");
            let kind = self.map(&map, elements, fields, address_family, candidates)?;
            let key = key_text(fields, address_family);
            rules.push(format!("{key} vmap @{map}"));
            segment.elements += elements.len();
            if ending.is_empty() {
                segment.kind = kind;
                segment.key = format!("{guard}{key}");
                let cost = lookup_cost(kind, elements.len(), octets(fields, address_family));
                segment.nanoseconds = segment.nanoseconds.max(cost);
            }
        }
        if let ([main, other], false) = (rules.as_slice(), *leaves) {
            // With ports, the first map has said all.
            let port = if fields.has(Field::DestinationPort) { "dport" } else { "sport" };
            let _in_a_string = writeln!(
                self.helpers,
                "\tchain {name} {{\n\t\t{main}\n\t\tth {port} & 0 == 0 return\n\t\t{other}\n\t}}"
            );
            let _in_a_string = writeln!(lines, "\t\t{guard}jump {name}");
            return Ok(());
        }
        for rule in rules {
            let _in_a_string = writeln!(lines, "\t\t{guard}{rule}");
        }
        Ok(())
    }

    /// Writes a map.
    fn map(
        &mut self,
        name: &str,
        elements: &[Element],
        fields: KeyFields,
        family: Family,
        candidates: &[Candidate],
    ) -> Result<SegmentKind, Cannot> {
        let is_exact = elements.iter().all(|one| one.key.iter().all(|(a, b)| a == b));
        let kind = match (is_exact, fields.len()) {
            (true, _) => SegmentKind::Exact,
            (false, 1) => SegmentKind::Interval,
            (false, _) => SegmentKind::Concatenation,
        };
        let types: Vec<&str> = fields.iter().map(|field| type_of(field, family)).collect();
        let types = types.join(" . ");
        let _in_a_string = writeln!(self.maps, "\tmap {name} {{\n\t\ttype {types} : verdict");
        if !is_exact {
            self.maps += "\t\tflags interval\n";
        }
        if self.options.counters {
            self.maps += "\t\tcounter\n";
        }
        self.maps += "\t\telements = {\n";
        for Element { key, candidate } in elements {
            let candidate = &candidates[*candidate];
            let verdict = self.verdict(candidate)?;
            let counter = match candidate.outcome.counted {
                Some(id) => format!(" counter comment \"{}\"", self.location(id)),
                None => String::new(),
            };
            self.maps += "\t\t\t";
            for (at, (field, range)) in fields.iter().zip(key).enumerate() {
                if at > 0 {
                    self.maps += " . ";
                }
                write_range(*range, field, family, &mut self.maps);
            }
            let _in_a_string = writeln!(self.maps, "{counter} : {verdict},");
        }
        self.maps += "\t\t}\n\t}\n";
        Ok(kind)
    }

    /// Where a rule was written, as a comment that nft takes.
    fn location(&self, id: RuleId) -> String {
        let rule = self.original.rule(id);
        let chain = self.original.chain(rule.chain);
        let number = chain.rules.iter().position(|&other| other == id).map_or(0, |at| at + 1);
        let text = format!("{} ({} {number})", rule.origin, chain.name);
        let plain = |c: char| if c == '"' || c == '\\' || c.is_control() { '_' } else { c };
        let text: String = text.chars().map(plain).collect();
        // What is at the end tells more than folders.
        let start = text.len().saturating_sub(COMMENT_OCTETS);
        text[text.ceil_char_boundary(start)..].to_owned()
    }

    /// The verdict of an element. A way to reject is a chain.
    fn verdict(&mut self, candidate: &Candidate) -> Result<String, Cannot> {
        let action = &candidate.outcome.action;
        let callee = |id| identifier(&self.ruleset.chain(id).name);
        Ok(match action {
            Action::Accept => "accept".to_owned(),
            Action::Drop => "drop".to_owned(),
            Action::Return => "return".to_owned(),
            Action::Jump(id) => format!("jump {}", callee(*id)?),
            Action::Goto(id) => format!("goto {}", callee(*id)?),
            Action::Reject { with } => {
                let at = self.rejects.iter().position(|known| known == action);
                let at = match at {
                    Some(at) => at,
                    None => {
                        let words = reject(with.as_deref())?;
                        self.rejects.push(action.clone());
                        let number = self.rejects.len();
                        let _in_a_string = writeln!(
                            self.helpers,
                            "\tchain {PREFIX}reject_{number} {{\n\t\t{words}\n\t}}"
                        );
                        number - 1
                    }
                };
                format!("goto {PREFIX}reject_{}", at + 1)
            }
            other => return Err(format!("found {}: no verdict", shortened(&format!("{other:?}")))),
        })
    }
}

/// A text in a comment, which ends where the line ends.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// One lookup of a layer.
struct Lookup {
    /// Of which packets; `None` for both families.
    family: Option<Family>,
    guard: String,
    fields: KeyFields,
    leaves: bool,
    main: Vec<Element>,
    /// For packets whose ports cannot be read.
    without_ports: Vec<Element>,
}

/// The word for a policy, and the rule that stands for one that nft has no word for.
fn policy_text(
    ruleset: &Ruleset,
    policy: &Verdict,
) -> Result<(&'static str, Option<String>), Cannot> {
    match policy {
        Verdict::Reject { with: Some(with) } if rejects_some(ruleset, &[], with) => {
            Err(refused_reject(with))
        }
        Verdict::Accept => Ok(("accept", None)),
        Verdict::Drop => Ok(("drop", None)),
        Verdict::Reject { with } => Ok(("drop", Some(reject(with.as_deref())?))),
        other => Err(format!("found policy {other}: nft has accept and drop")),
    }
}

fn key_text(fields: KeyFields, family: Family) -> String {
    let ip = if family == Family::Ipv4 { "ip" } else { "ip6" };
    let text = |field| match field {
        Field::Source => format!("{ip} saddr"),
        Field::Destination => format!("{ip} daddr"),
        Field::Protocol => "meta l4proto".to_owned(),
        Field::SourcePort => "th sport".to_owned(),
        _ => "th dport".to_owned(),
    };
    fields.iter().map(text).collect::<Vec<_>>().join(" . ")
}

fn type_of(field: Field, family: Family) -> &'static str {
    match (field, family) {
        (Field::Source | Field::Destination, Family::Ipv4) => "ipv4_addr",
        (Field::Source | Field::Destination, Family::Ipv6) => "ipv6_addr",
        (Field::Protocol, _) => "inet_proto",
        _ => "inet_service",
    }
}

/// The octets of a key that the kernel looks at.
fn octets(fields: KeyFields, family: Family) -> usize {
    let of_field = |field| match (field, family) {
        (Field::Source | Field::Destination, Family::Ipv4) => 4,
        (Field::Source | Field::Destination, Family::Ipv6) => 16,
        (Field::Protocol, _) => 1,
        _ => 2,
    };
    fields.iter().map(of_field).sum()
}

fn write_range((first, last): (u128, u128), field: Field, family: Family, out: &mut String) {
    let is_address = matches!(field, Field::Source | Field::Destination);
    let _in_a_string = match (is_address, first == last) {
        (true, true) => write!(out, "{}", to_address(first, family)),
        (true, false) if (first, last) == (0, family.largest()) => {
            write!(out, "{}/0", to_address(0, family))
        }
        (true, false) => {
            write!(out, "{}-{}", to_address(first, family), to_address(last, family))
        }
        (false, true) => write!(out, "{first}"),
        (false, false) => write!(out, "{first}-{last}"),
    };
}
