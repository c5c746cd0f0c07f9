//! The order of lookups: which rules go into which map, so that the first rule still decides.
//!
//! For: a run of rules that a lookup may decide, in. Lookups to be tried in turn, out. Not for:
//! text (`emit`).
//!
//! ```text
//! rules in order   1 2 3 4 5 6 7        layers in turn   [1 3 4] [2 6] [5] [7]
//!                  └ overlaps ┘         2 overlaps 1 and decides otherwise: not before it
//! ```
//!
//! A rule goes into the first layer of its kind that is not before any earlier rule that overlaps
//! with it and decides otherwise. Within a layer, what an earlier rule decides is cut off. Elements
//! that decide alike may overlap, as far as the kernel takes them: it refuses an element of which a
//! corner, the lowest or the highest key, is in another one. A rule whose rest would be too costly
//! goes into a later layer.
//!
//! Invariants: for rules `i` before `j` that can meet one packet and differ in their outcome, the
//! layer of `i` is not behind that of `j`; if a packet comes back from `i`, it is before it. In one
//! layer `i` wins. Concurrency: pure. Cost: linear in the pairs of rules that may overlap.

use std::collections::HashMap;

use super::candidate::{Candidate, KEY_FIELDS, KeyFields, LookupKind, elements_of};
use super::overlaps::OverlapIndex;
use crate::normal::{Conjunction, Domain, Field};
use crate::ranges::Ranges;

/// How many pieces the rest of a rule may be, and how many elements.
const PIECES_LIMIT: usize = 16;
const PIECE_ELEMENTS_LIMIT: usize = 256;
/// How much more the rest of a rule may cost than the rule, and what is cheap enough for any.
const REST_COST: usize = 4;
const CHEAP: usize = 64;
/// How many rules of one kind make a lookup of their own worth it.
const OWN_LOOKUP: usize = 4;

/// What a rule became in its layer.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its number among the candidates.
    pub(super) candidate: usize,
    /// What is left of its boxes, by family.
    pub(super) pieces: [Vec<Conjunction>; 2],
    /// What is left for packets whose ports cannot be read, if it asks for none.
    pub(super) without_ports: [Vec<Conjunction>; 2],
}

/// A lookup, or rules one after the other.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) kind: LookupKind,
    pub(super) guard: usize,
    /// Whether its outcomes leave the chain.
    pub(super) leaves: bool,
    /// Whether its rules for IPv6 ask for a protocol.
    asks_protocol: bool,
    pub(super) members: Vec<Member>,
}

/// The layers of a run.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) list: Vec<Layer>,
    /// Candidates that no packet can meet there, since earlier rules decide all of theirs.
    pub(super) hidden: Vec<usize>,
    /// By candidate: its place among the members of its layer.
    place_in_layer: HashMap<usize, usize>,
}

/// Joins neighbours that ask for the same single field and decide alike.
pub(super) fn merge_neighbours(
    candidates: Vec<Candidate>,
    domains: [&Domain; 2],
) -> Vec<Candidate> {
    let mut merged: Vec<Candidate> = Vec::with_capacity(candidates.len());
    let mut open: Vec<Candidate> = Vec::new();
    for next in candidates {
        if open.first().is_some_and(|first| single_field(first, &next).is_none()) {
            merged.extend(joined(std::mem::take(&mut open), domains));
        }
        open.push(next);
    }
    merged.extend(joined(open, domains));
    merged
}

/// Joins a group two by two, so that the work is not quadratic.
fn joined(mut group: Vec<Candidate>, domains: [&Domain; 2]) -> Option<Candidate> {
    let field = group.first().and_then(|first| first.fields().iter().next());
    while let (Some(field), true) = (field, group.len() > 1) {
        let mut halves = Vec::with_capacity(group.len() / 2 + 1);
        let mut pairs = group.into_iter();
        while let Some(mut first) = pairs.next() {
            if let Some(second) = pairs.next() {
                first.merge(&second, field, domains);
                first.kind = LookupKind::Interval(field);
            }
            halves.push(first);
        }
        group = halves;
    }
    group.pop()
}

/// The one field that both ask for, if they may be joined.
fn single_field(a: &Candidate, b: &Candidate) -> Option<Field> {
    let field = |one: &Candidate| {
        let fields = one.fields();
        (fields.len() == 1).then(|| fields.iter().next()).flatten()
    };
    let is_lookup = |one: &Candidate| !matches!(one.kind, LookupKind::Alone(_));
    let fits = a.guard == b.guard
        && a.outcome == b.outcome
        && !a.outcome.comes_back()
        && is_lookup(a)
        && is_lookup(b);
    // A negated list of addresses is everything in the other family.
    let is_list = |one: &Candidate| one.boxes.iter().flatten().all(|one| one.len() == 1);
    (fits && is_list(a) && is_list(b) && field(a) == field(b)).then(|| field(a)).flatten()
}

/// Puts the candidates into layers.
pub(super) fn arrange(candidates: &mut [Candidate], domains: [&Domain; 2]) -> Layers {
    choose_kinds(candidates);
    let mut layers = Layers::default();
    let mut layer_of: Vec<usize> = Vec::with_capacity(candidates.len());
    let mut index = OverlapIndex::new(candidates);
    for at in 0..candidates.len() {
        let candidate = &candidates[at];
        let (mut least, mut overlapping) = (0, Vec::new());
        for before in index.near(candidate) {
            let earlier = &candidates[before];
            if !earlier.overlaps(candidate) {
                continue;
            }
            overlapping.push(before);
            let comes_back = earlier.outcome.comes_back();
            if comes_back || candidate.outcome.comes_back() || earlier.outcome != candidate.outcome
            {
                let from = layer_of[before];
                least = least.max(from + usize::from(comes_back));
            }
        }
        let place = if candidate.meets_nothing() {
            layers.hidden.push(at);
            0
        } else {
            layers.insert(candidates, at, least, &overlapping, &layer_of, domains)
        };
        layer_of.push(place);
        index.insert(at, candidate);
    }
    layers
}

impl Layers {
    /// Puts one candidate into a layer that is not before `least`; gives its number.
    fn insert(
        &mut self,
        candidates: &[Candidate],
        at: usize,
        least: usize,
        overlapping: &[usize],
        layer_of: &[usize],
        domains: [&Domain; 2],
    ) -> usize {
        let candidate = &candidates[at];
        let is_alone = matches!(candidate.kind, LookupKind::Alone(_));
        let leaves = candidate.outcome.leaves();
        let asks_protocol = candidate.asks_protocol();
        for number in least..self.list.len() {
            let layer = &self.list[number];
            let fits = (layer.kind, layer.guard, layer.leaves, layer.asks_protocol)
                == (candidate.kind, candidate.guard, leaves, asks_protocol);
            if !fits || is_alone {
                continue;
            }
            // Those that are hidden there are covered by others that overlap, too.
            let before: Vec<&Member> = overlapping
                .iter()
                .filter(|&&before| layer_of[before] == number)
                .filter_map(|before| layer.members.get(*self.place_in_layer.get(before)?))
                .collect();
            let Some(member) = member(candidates, at, &before, domains) else { continue };
            let is_hidden = member.pieces.iter().chain(&member.without_ports).all(Vec::is_empty);
            if is_hidden {
                self.hidden.push(at);
            } else {
                self.place_in_layer.insert(at, layer.members.len());
                self.list[number].members.push(member);
            }
            return number;
        }
        let without_ports = match candidate.fields().has_ports() {
            true => Default::default(),
            false => candidate.boxes.clone(),
        };
        let member = Member { candidate: at, pieces: candidate.boxes.clone(), without_ports };
        self.place_in_layer.insert(at, 0);
        self.list.push(Layer {
            kind: candidate.kind,
            guard: candidate.guard,
            leaves,
            asks_protocol,
            members: vec![member],
        });
        self.list.len() - 1
    }
}

/// What is left of a candidate behind those of its layer; `None` if that costs too much.
fn member(
    candidates: &[Candidate],
    at: usize,
    before: &[&Member],
    domains: [&Domain; 2],
) -> Option<Member> {
    let candidate = &candidates[at];
    let boxes = candidate.boxes.clone();
    // Maps of single values and of one field are resolved when all members are known.
    if candidate.kind != LookupKind::Concatenation {
        return Some(Member { candidate: at, pieces: boxes, without_ports: Default::default() });
    }
    let mut pieces = boxes.clone();
    let mut without_ports = [Vec::new(), Vec::new()];
    for (family, domain) in domains.into_iter().enumerate() {
        let other = |member: &&Member| {
            let other = &candidates[member.candidate];
            (&other.boxes[family], other.outcome == candidate.outcome)
        };
        let all = before.iter().map(|member| {
            let (boxes, is_alike) = other(member);
            Other { boxes, pieces: &member.pieces[family], is_alike }
        });
        pieces[family] = rest_of(&boxes[family], &all.collect::<Vec<_>>(), domain)?;
        if !candidate.fields().has_ports() {
            let has_none = |member: &&&Member| !candidates[member.candidate].fields().has_ports();
            let all = before.iter().filter(has_none).map(|member| {
                let (boxes, is_alike) = other(member);
                Other { boxes, pieces: &member.without_ports[family], is_alike }
            });
            without_ports[family] = rest_of(&boxes[family], &all.collect::<Vec<_>>(), domain)?;
        }
    }
    Some(Member { candidate: at, pieces, without_ports })
}

/// An earlier rule of a layer.
struct Other<'c> {
    /// All that it asks.
    boxes: &'c [Conjunction],
    /// What is left of that.
    pieces: &'c [Conjunction],
    /// Whether it decides alike.
    is_alike: bool,
}

/// What is left of boxes behind others.
fn rest_of(
    boxes: &[Conjunction],
    others: &[Other<'_>],
    domain: &Domain,
) -> Option<Vec<Conjunction>> {
    let allowed = boxes.iter().map(|one| cost_of(one, domain)).sum::<usize>() * REST_COST;
    let mut rest = boxes.to_vec();
    for other in others.iter().filter(|other| !other.is_alike) {
        rest = cut(rest, other.boxes, allowed.max(CHEAP), domain)?;
    }
    // To cut one off makes new corners, which may be in another one.
    let mut alike: Vec<&Other<'_>> = others.iter().filter(|other| other.is_alike).collect();
    loop {
        let stands_beside = |other: &&Other<'_>| {
            let pairs = rest.iter().flat_map(|one| other.pieces.iter().map(move |two| (one, two)));
            let mut overlapping = pairs.filter(|(one, two)| one.overlaps(two));
            !overlapping.any(|(one, two)| has_corner_of_other(one, two, domain))
        };
        let (stay, wrong): (Vec<&Other<'_>>, Vec<&Other<'_>>) =
            alike.into_iter().partition(stands_beside);
        if wrong.is_empty() {
            return Some(rest);
        }
        for other in wrong {
            rest = cut(rest, other.boxes, allowed.max(CHEAP), domain)?;
        }
        alike = stay;
    }
}

/// Cuts boxes off others.
fn cut(
    mut rest: Vec<Conjunction>,
    boxes: &[Conjunction],
    allowed: usize,
    domain: &Domain,
) -> Option<Vec<Conjunction>> {
    for other in boxes {
        let mut next = Vec::with_capacity(rest.len());
        for one in rest {
            match one.overlaps(other) {
                true => next.extend(one.subtract(other, domain)),
                false => next.push(one),
            }
        }
        rest = next;
        let elements: usize = rest.iter().map(elements_of).sum();
        let cost: usize = rest.iter().map(|one| cost_of(one, domain)).sum();
        if rest.len() > PIECES_LIMIT || elements > PIECE_ELEMENTS_LIMIT || cost > allowed {
            return None;
        }
    }
    Some(rest)
}

/// Whether the lowest or the highest key of one box is in the other one.
fn has_corner_of_other(one: &Conjunction, other: &Conjunction, domain: &Domain) -> bool {
    let mut corners = [true; 4];
    for field in KEY_FIELDS {
        let range = |of: &Conjunction| match of.get(field).map(Ranges::as_slice) {
            None => Some((0, domain.largest(field))),
            Some([only]) => Some(*only),
            // The corners of lists are many; it is not asked which.
            Some(_) => None,
        };
        let (Some(a), Some(b)) = (range(one), range(other)) else { return true };
        let is_in = |number: u128, range: (u128, u128)| range.0 <= number && number <= range.1;
        let here = [is_in(a.0, b), is_in(a.1, b), is_in(b.0, a), is_in(b.1, a)];
        for (corner, here) in corners.iter_mut().zip(here) {
            *corner &= here;
        }
    }
    corners.contains(&true)
}

/// How many bits a box takes in the kernel's lists, roughly: one for each prefix of a range and
/// each octet of the field.
fn cost_of(one: &Conjunction, domain: &Domain) -> usize {
    let elements = elements_of(one);
    let of_field = |(field, ranges): &(Field, Ranges)| {
        let octets = (128 - domain.largest(*field).leading_zeros()).div_ceil(8) as usize;
        let prefixes: usize = ranges.as_slice().iter().map(|&range| prefixes_of(range)).sum();
        octets * prefixes * (elements / ranges.as_slice().len().max(1)).max(1)
    };
    one.iter().map(of_field).sum::<usize>() + elements
}

/// How many prefixes a range is.
fn prefixes_of((mut first, last): (u128, u128)) -> usize {
    let mut count = 0;
    while first <= last {
        let aligned = first.trailing_zeros();
        let room = (last - first).checked_add(1).map_or(128, |size| 127 - size.leading_zeros());
        let bits = aligned.min(room);
        count += 1;
        match 1u128.checked_shl(bits).and_then(|size| first.checked_add(size)) {
            Some(next) => first = next,
            None => break,
        }
    }
    count
}

/// Gives rules of seldom kinds the kind that most others of their guard can share.
fn choose_kinds(candidates: &mut [Candidate]) {
    let mut counts: HashMap<(usize, bool, LookupKind), usize> = HashMap::new();
    for candidate in candidates.iter() {
        let key = (candidate.guard, candidate.outcome.leaves(), candidate.kind);
        let elements: usize = candidate.boxes.iter().flatten().map(elements_of).sum();
        // A list of one rule is as good as several rules.
        *counts.entry(key).or_default() += match candidate.kind {
            LookupKind::Interval(_) => elements.max(candidate.rules.len()),
            _ => 1,
        };
    }
    for candidate in candidates.iter_mut() {
        let (guard, leaves) = (candidate.guard, candidate.outcome.leaves());
        let count = |kind| counts.get(&(guard, leaves, kind)).copied().unwrap_or(0);
        let kind = candidate.kind;
        candidate.kind = match kind {
            LookupKind::Exact(fields) if count(kind) < OWN_LOOKUP || fields.len() == 1 => {
                match fields.iter().next().filter(|_| fields.len() == 1) {
                    Some(field) if count(LookupKind::Interval(field)) >= OWN_LOOKUP => {
                        LookupKind::Interval(field)
                    }
                    Some(_) if count(kind) >= OWN_LOOKUP => kind,
                    _ => LookupKind::Concatenation,
                }
            }
            LookupKind::Interval(_) if count(kind) < OWN_LOOKUP => LookupKind::Concatenation,
            other => other,
        };
    }
}

impl Layer {
    /// The fields of its key.
    pub(super) fn fields(&self, candidates: &[Candidate]) -> KeyFields {
        let each = self.members.iter().map(|member| candidates[member.candidate].fields());
        each.fold(KeyFields::default(), KeyFields::and)
    }
}
