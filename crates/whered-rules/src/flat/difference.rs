//! What has to be done to one program's table to make it another's.
//!
//! For: keeping a loaded table in step by small transactions. Not for: loading, which the text of a
//! program does.
//!
//! ```text
//! before ─┐  the same sets, maps and chains?   no ─► None: load the whole
//! after ──┴─ yes ─► per map: elements removed and added
//!                   per chain: the rules between its first and its last change
//! ```
//!
//! Invariant: what is compared are texts of [`compile`](super::compile): a line is a comment, opens
//! or closes a part, or is one element or one rule. Concurrency: pure. Cost: linear in both texts.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;

/// The difference of two tables that have the same sets, maps and chains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDifference {
    /// Sets and maps whose elements differ.
    pub elements: Vec<ElementChange>,
    /// Chains whose rules differ.
    pub chains: Vec<ChainChange>,
}

/// Elements of one set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementChange {
    /// Its name.
    pub name: String,
    /// What its elements are, as `ipv4_addr . inet_service : verdict`.
    pub kind: String,
    /// Whether its elements are ranges.
    pub has_ranges: bool,
    /// The keys of elements that go.
    pub removed: Vec<String>,
    /// Elements that come, each as nft writes it.
    pub added: Vec<String>,
}

/// Rules of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainChange {
    /// Its name.
    pub name: String,
    /// How many rules it has before.
    pub count: usize,
    /// Which of these go.
    pub removed: Range<usize>,
    /// The rules that come in their place.
    pub added: Vec<String>,
}

/// One set, map or chain of a program's text.
#[derive(Debug)]
struct Part<'t> {
    /// `set`, `map` or `chain` and the name.
    title: &'t str,
    /// Lines that say what it is.
    head: Vec<&'t str>,
    /// Elements or rules.
    body: Vec<&'t str>,
}

/// The changes that turn one program's table into another's; `None` where sets, maps or chains
/// differ in more than elements and rules, so that the whole has to be loaded.
///
/// ```
/// use whered_rules::{flat, normal::NoPlaces, text};
///
/// let program = |last: &str| {
///     let rules: String = (1..9).map(|n| format!("  src 10.0.{n}.0/25 accept\n")).collect();
///     let rules = format!("chain input policy drop {{\n{rules}  src {last} accept\n}}\n");
///     let ruleset = text::read("edge.rules", &rules).expect("good rules");
///     flat::compile(&ruleset, &NoPlaces, flat::Options::default()).expect("nft can say that").text
/// };
/// let difference = flat::difference(&program("10.9.0.1"), &program("10.9.0.2")).expect("one map");
/// assert_eq!(difference.elements[0].removed, ["10.9.0.1"]);
/// assert_eq!(difference.elements[0].added, ["10.9.0.2 : accept"]);
/// ```
#[must_use]
pub fn difference(before: &str, after: &str) -> Option<TableDifference> {
    let (head, before) = parts(before);
    let (other_head, after) = parts(after);
    if head != other_head || before.len() != after.len() {
        return None;
    }
    let mut difference = TableDifference::default();
    for (old, new) in before.iter().zip(&after) {
        if old.title != new.title || old.head != new.head {
            return None;
        }
        if old.body == new.body {
            continue;
        }
        match new.title.split_once(' ')? {
            ("chain", name) => difference.chains.push(chain_change(name, &old.body, &new.body)),
            (_, name) => difference.elements.extend(element_change(name, old, new)),
        }
    }
    Some(difference)
}

/// The table's first line, and its parts.
fn parts(text: &str) -> (Option<&str>, Vec<Part<'_>>) {
    let mut head = None;
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut is_in_elements = false;
    for line in text.lines() {
        let content = line.trim_start_matches('\t');
        let depth = line.len() - content.len();
        if content.starts_with('#') {
            continue;
        }
        let Some(part) = parts.last_mut() else {
            if let (1, Some(title)) = (depth, content.strip_suffix(" {")) {
                parts.push(Part { title, head: Vec::new(), body: Vec::new() });
            } else {
                head = Some(line);
            }
            continue;
        };
        match (depth, content) {
            (1, content) => {
                if let Some(title) = content.strip_suffix(" {") {
                    parts.push(Part { title, head: Vec::new(), body: Vec::new() });
                }
            }
            (2, "elements = {") => is_in_elements = true,
            (2, "}") if is_in_elements => is_in_elements = false,
            (3, element) if is_in_elements => part.body.push(element.trim_end_matches(',')),
            (2, content) => match content.strip_prefix("elements = { ") {
                Some(list) => part.body.extend(list.trim_end_matches(" }").split(", ")),
                None if part.title.starts_with("chain ") && !content.starts_with("type ") => {
                    part.body.push(content);
                }
                None => part.head.push(content),
            },
            _ => {}
        }
    }
    (head, parts)
}

/// The key of an element, by which it is deleted.
fn key_of(element: &str) -> &str {
    let end = element.find(" counter").or_else(|| element.find(" : ")).unwrap_or(element.len());
    &element[..end]
}

fn element_change(name: &str, before: &Part<'_>, after: &Part<'_>) -> Option<ElementChange> {
    let kind = after.head.iter().find_map(|line| line.strip_prefix("type ")).unwrap_or_default();
    let has_ranges = after.head.iter().any(|line| line.starts_with("flags interval"));
    let (before, after) = (&before.body, &after.body);
    let (old, new): (HashSet<&str>, HashSet<&str>) =
        (before.iter().copied().collect(), after.iter().copied().collect());
    let removed = before.iter().filter(|element| !new.contains(**element));
    let added = after.iter().filter(|element| !old.contains(**element));
    let change = ElementChange {
        name: name.to_owned(),
        kind: kind.to_owned(),
        has_ranges,
        removed: removed.map(|element| key_of(element).to_owned()).collect(),
        added: added.map(|element| (*element).to_owned()).collect(),
    };
    // The order of elements says nothing.
    (!change.removed.is_empty() || !change.added.is_empty()).then_some(change)
}

fn chain_change(name: &str, before: &[&str], after: &[&str]) -> ChainChange {
    let shorter = before.len().min(after.len());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let first = before.iter().zip(after).take_while(same).count();
    let last = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
    let last = last.min(shorter - first);
    ChainChange {
        name: name.to_owned(),
        count: before.len(),
        removed: first..before.len() - last,
        added: after[first..after.len() - last].iter().map(|rule| (*rule).to_owned()).collect(),
    }
}

impl TableDifference {
    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.chains.is_empty()
    }

    /// How many elements and rules come and go.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let elements = self.elements.iter().map(|one| (one.added.len(), one.removed.len()));
        let rules = self.chains.iter().map(|one| (one.added.len(), one.removed.len()));
        elements.chain(rules).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Text for `nft -f`, one transaction. `table` is family and name; `handles` gives the handles
    /// of a chain's rules in their order. `None` if a chain does not have the rules that it should.
    ///
    /// # Errors
    ///
    /// Those of `handles`.
    pub fn text<E>(
        &self,
        table: &str,
        mut handles: impl FnMut(&str) -> Result<Vec<u64>, E>,
    ) -> Result<Option<String>, E> {
        let mut text = String::new();
        let mut list = |verb: &str, name: &str, elements: &[String]| {
            if !elements.is_empty() {
                let list = elements.join(",\n");
                let _in_a_string = writeln!(text, "{verb} element {table} {name} {{\n{list}\n}}");
            }
        };
        for change in &self.elements {
            list("delete", &change.name, &change.removed);
            list("add", &change.name, &change.added);
        }
        for ChainChange { name, count, removed, added } in &self.chains {
            let handles = handles(name)?;
            if handles.len() != *count {
                return Ok(None);
            }
            // Behind the same rule each time, so the last one first.
            for rule in added.iter().rev() {
                let _in_a_string = match removed.start.checked_sub(1).map(|at| handles[at]) {
                    Some(before) => {
                        writeln!(text, "add rule {table} {name} position {before} {rule}")
                    }
                    None => writeln!(text, "insert rule {table} {name} {rule}"),
                };
            }
            for handle in &handles[removed.clone()] {
                let _in_a_string = writeln!(text, "delete rule {table} {name} handle {handle}");
            }
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Compiled by whered from a.\ntable inet w\ndelete table inet w\ntable inet w {\n\tchain c {\n\t}\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.0.0.1, 10.0.0.3-10.0.0.5 }\n\t}\n\t# a:1: src 10.0.0.1\n\tmap m {\n\t\ttype ipv4_addr : verdict\n\t\tcounter\n\t\telements = {\n\t\t\t10.0.0.1 counter comment \"a:1 (c 1)\" : drop,\n\t\t\t10.0.0.2 counter comment \"a:2 (c 2)\" : jump c,\n\t\t}\n\t}\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tip saddr vmap @m\n\t\t# a:4: log\n\t\tlog\n\t\taccept\n\t}\n}\n";

    fn changed(from: &str, to: &str) -> Option<TableDifference> {
        assert!(TABLE.contains(from), "{from}");
        difference(TABLE, &TABLE.replace(from, to))
    }

    #[test]
    fn only_what_differs_is_changed_and_another_layout_is_no_difference() {
        assert_eq!(difference(TABLE, TABLE), Some(TableDifference::default()));
        assert_eq!(changed("# a:4: log", "# b:9: log"), Some(TableDifference::default()));
        let text = |difference: Option<TableDifference>, handles: &[u64]| {
            let difference = difference.expect("the same layout");
            difference.text("inet w", |_| Ok::<_, ()>(handles.to_vec())).expect("no error")
        };
        assert_eq!(
            text(changed("10.0.0.2 counter", "10.0.0.7 counter"), &[]).as_deref(),
            Some(
                "delete element inet w m {\n10.0.0.2\n}\nadd element inet w m {\n\
                 10.0.0.7 counter comment \"a:2 (c 2)\" : jump c\n}\n"
            )
        );
        assert_eq!(
            text(changed("10.0.0.3-10.0.0.5", "10.0.0.3"), &[]).as_deref(),
            Some(
                "delete element inet w s {\n10.0.0.3-10.0.0.5\n}\nadd element inet w s {\n10.0.0.3\n}\n"
            )
        );
        let difference = changed("\t\tlog\n", "\t\tmeta mark set 1\n\t\tlog level warn\n");
        assert_eq!(
            text(difference.clone(), &[4, 6, 9]).as_deref(),
            Some(
                "add rule inet w input position 4 log level warn\n\
                 add rule inet w input position 4 meta mark set 1\n\
                 delete rule inet w input handle 6\n"
            )
        );
        assert_eq!(text(difference, &[4, 6]), None, "somebody else has taken a rule out");
        let difference = changed("\t\tip saddr vmap @m\n", "");
        let expected = "delete rule inet w input handle 4\n";
        assert_eq!(text(difference, &[4, 6, 9]).as_deref(), Some(expected));
        for (from, to) in [
            ("map m", "map m2"),
            ("policy drop", "policy accept"),
            ("table inet w", "table inet v"),
            ("\tchain c {\n\t}\n", ""),
            ("type ipv4_addr : verdict", "type ipv6_addr : verdict"),
        ] {
            assert_eq!(changed(from, to), None, "{to}");
        }
    }
}
