//! Choosing the form of a ruleset.
use super::boxes::Boxes;
use super::compiled::{Compiled, Form};
use super::dag::{Dag, Group, Limits, Stopped};
use super::rule::Rules;
use std::sync::Arc;

/// How rules are put into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// All in one, this lane first.
    One(usize),
    /// By the narrower of the two addresses.
    Narrower,
    /// The same, with rules that are wide in both apart; widths in bits.
    Wide(u32),
}

pub(crate) fn groups(boxes: &Boxes, split: Split) -> Vec<Group> {
    let all: Vec<u32> = (0..boxes.len() as u32).collect();
    let bits = |number: u32, lane: usize| {
        let extent = &boxes.ends[number as usize];
        32 - (extent.high[lane] - extent.low[lane]).leading_zeros()
    };
    let groups = match split {
        Split::One(first) => return vec![Group { boxes: all, first }],
        Split::Narrower => {
            let (a, b) = all.iter().partition(|&&n| bits(n, 0) <= bits(n, 1));
            vec![Group { boxes: a, first: 0 }, Group { boxes: b, first: 1 }]
        }
        Split::Wide(limit) => {
            let (wide, rest): (Vec<u32>, Vec<u32>) =
                all.iter().partition(|&&n| bits(n, 0) >= limit && bits(n, 1) >= limit);
            let (a, b) = rest.iter().partition(|&&n| bits(n, 0) <= bits(n, 1));
            vec![
                Group { boxes: a, first: 0 },
                Group { boxes: b, first: 1 },
                Group { boxes: wide, first: 3 },
            ]
        }
    };
    groups.into_iter().filter(|group| !group.boxes.is_empty()).collect()
}

/// Builds a graph, for experiments.
pub fn experiment(
    rules: &Arc<Rules>,
    split: Split,
    leaf: usize,
    root_bits: u32,
    bytes: usize,
) -> Option<Compiled> {
    let boxes = Boxes::of(rules);
    let limits = Limits { bytes, building_bytes: bytes * 4, leaf, root_bits, stop: &|| false };
    match Dag::build(&boxes, &groups(&boxes, split), &limits) {
        Ok(dag) => Some(Compiled::new(rules.clone(), &boxes, Form::Dag(dag))),
        Err(Stopped::Memory | Stopped::Time) => None,
    }
}
