//! The elements of one map, each with its winner.
//!
//! For: what the members of a layer become. Not for: text (`emit`).
//!
//! ```text
//! ranges of one field    1 [----]   [--]        1 wins where both are:
//!                        2    [-------]         [-1--][2-][1-]
//! ```
//!
//! Invariant: elements that one packet's key is in decide alike. Concurrency: pure. Cost: n log n
//! in the ranges.

use std::collections::{BTreeSet, HashMap};

use super::candidate::{Candidate, KeyFields, LookupKind};
use super::layers::Layer;
use crate::normal::{Conjunction, Domain, Field};

/// One element: a range for each field of the key, and the candidate that wins there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub(super) key: Vec<(u128, u128)>,
    pub(super) candidate: usize,
}

/// The elements of a layer for packets of one family.
pub(super) fn elements(
    layer: &Layer,
    candidates: &[Candidate],
    family: usize,
    domain: &Domain,
) -> Vec<Element> {
    let fields = layer.fields(candidates);
    match layer.kind {
        LookupKind::Interval(field) => intervals(layer, candidates, family, field, domain),
        LookupKind::Exact(_) => {
            let mut winners: HashMap<Vec<(u128, u128)>, ()> = HashMap::new();
            let all = layer.members.iter().flat_map(|member| {
                products(&member.pieces[family], fields, domain, member.candidate)
            });
            all.filter(|element| winners.insert(element.key.clone(), ()).is_none()).collect()
        }
        _ => {
            let of = |member: &super::layers::Member| {
                products(&member.pieces[family], fields, domain, member.candidate)
            };
            layer.members.iter().flat_map(of).collect()
        }
    }
}

/// The elements for packets whose ports cannot be read: those of rules that ask for none.
pub(super) fn elements_without_ports(
    layer: &Layer,
    candidates: &[Candidate],
    family: usize,
    domain: &Domain,
) -> Vec<Element> {
    let fields = layer.fields(candidates);
    if layer.kind != LookupKind::Concatenation || !fields.has_ports() {
        return Vec::new();
    }
    let of = |member: &super::layers::Member| {
        let boxes = &member.without_ports[family];
        products(boxes, fields.without_ports(), domain, member.candidate)
    };
    layer.members.iter().flat_map(of).collect()
}

/// Every combination of the boxes' ranges.
fn products(
    boxes: &[Conjunction],
    fields: KeyFields,
    domain: &Domain,
    candidate: usize,
) -> Vec<Element> {
    let mut elements = Vec::new();
    for one in boxes {
        let mut keys: Vec<Vec<(u128, u128)>> = vec![Vec::new()];
        for field in fields.iter() {
            let whole = [(0, domain.largest(field))];
            let ranges = one.get(field).map_or(&whole[..], |ranges| ranges.as_slice());
            let longer = keys.iter().flat_map(|key| {
                ranges.iter().map(move |range| [key.as_slice(), &[*range]].concat())
            });
            keys = longer.collect();
        }
        elements.extend(keys.into_iter().map(|key| Element { key, candidate }));
    }
    elements
}

/// Ranges of one field: the first candidate wins; neighbours that decide alike become one.
fn intervals(
    layer: &Layer,
    candidates: &[Candidate],
    family: usize,
    field: Field,
    domain: &Domain,
) -> Vec<Element> {
    // Where a range begins, and where the number after it is.
    let mut events: Vec<(u128, bool, usize)> = Vec::new();
    for member in &layer.members {
        for one in &member.pieces[family] {
            let whole = [(0, domain.largest(field))];
            let ranges = one.get(field).map_or(&whole[..], |ranges| ranges.as_slice());
            for &(first, last) in ranges {
                events.push((first, true, member.candidate));
                if let Some(end) = last.checked_add(1) {
                    events.push((end, false, member.candidate));
                }
            }
        }
    }
    events.sort_unstable();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut found: Vec<Element> = Vec::new();
    let mut events = events.into_iter().peekable();
    while let Some(&(at, ..)) = events.peek() {
        while let Some((_, begins, candidate)) = events.next_if(|event| event.0 == at) {
            if begins {
                open.insert(candidate);
            } else {
                open.remove(&candidate);
            }
        }
        let last = events.peek().map_or(domain.largest(field), |next| next.0 - 1);
        let Some(&winner) = open.first() else { continue };
        if at > last {
            continue;
        }
        match found.last_mut() {
            Some(Element { key, candidate })
                if key[0].1 + 1 == at
                    && candidates[*candidate].outcome == candidates[winner].outcome =>
            {
                key[0].1 = last;
            }
            _ => found.push(Element { key: vec![(at, last)], candidate: winner }),
        }
    }
    found
}
