//! Names in canonical order, and the one at or before a name.
//!
//! Not for: which names (`build/signing.rs`), what proves something of them (`resolve/proofs.rs`).
//!
//! ```text
//! keys     bytes that compare as names do (`canonical.rs`), one key after another
//! levels   groups of 16 keys; above them, groups of the groups' first keys; the last has one group
//! group    [shared: how many bytes all of its keys have in common | 16 heads: the 8 bytes behind]
//! ```
//!
//! A search goes from the top down: it compares the shared bytes, counts the heads that are not
//! above its own, and reads whole keys only where heads are equal. Names such as `host000123`
//! differ behind long equal beginnings, which a group passes over at once.
//! Invariants: keys are in order, each once. Concurrency: immutable. Cost: one group a level, which
//! is three for 4,096 names and five for a million; ten bytes a name beside its key.
#![deny(clippy::indexing_slicing)]

use std::cmp::Ordering;

use super::NodeRef;
use super::canonical::order_key;

/// How many keys a group has.
const GROUP_SIZE: usize = 16;
const HEAD_SIZE: usize = size_of::<u64>();

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct OrderedNames {
    keys: Box<[u8]>,
    /// Where each key ends.
    ends: Box<[u32]>,
    /// The blocks of the names.
    nodes: Box<[NodeRef]>,
    /// The lowest first.
    levels: Vec<Box<[Group]>>,
}

#[derive(Debug)]
struct Group {
    shared: u16,
    count: u8,
    /// The largest value where there is no key.
    heads: [u64; GROUP_SIZE],
}

impl Group {
    /// How many heads are below one: a search by halves without branches.
    #[inline]
    fn count_below(&self, head: u64) -> usize {
        let mut count = 0;
        for step in [8, 4, 2, 1] {
            let is_below = self.heads.get(count + step - 1).is_some_and(|own| *own < head);
            count += step * usize::from(is_below);
        }
        count + usize::from(self.heads.get(count).is_some_and(|own| *own < head))
    }
}

impl OrderedNames {
    /// Puts names without their origin into order, each with its block. None when their keys have
    /// more than 4 GiB.
    pub(super) fn build(names: Vec<(Box<[u8]>, NodeRef)>) -> Option<OrderedNames> {
        let mut keyed: Vec<(Vec<u8>, NodeRef)> =
            names.into_iter().map(|(name, node)| (order_key(&name), node)).collect();
        keyed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        keyed.dedup_by(|(one, _), (other, _)| one == other);
        let nodes = keyed.iter().map(|(_, node)| *node).collect();
        let mut ends = Vec::with_capacity(keyed.len());
        let mut keys = Vec::new();
        for (key, _) in keyed {
            keys.extend_from_slice(&key);
            ends.push(u32::try_from(keys.len()).ok()?);
        }
        let (keys, ends) = (keys.into_boxed_slice(), ends.into_boxed_slice());
        let mut names = OrderedNames { keys, ends, nodes, levels: Vec::new() };
        let mut stride = 1;
        loop {
            let level: Box<[Group]> = (0..names.ends.len())
                .step_by(stride * GROUP_SIZE)
                .map(|first| names.group(first, stride))
                .collect();
            let is_top = level.len() <= 1;
            names.levels.push(level);
            if is_top {
                return Some(names);
            }
            stride *= GROUP_SIZE;
        }
    }

    /// The group of the keys `first`, `first + stride` and so on. All keys from the first one to
    /// the one before the next group have its shared bytes.
    fn group(&self, first: usize, stride: usize) -> Group {
        let behind = (first + stride * GROUP_SIZE).min(self.ends.len());
        let (low, high) = (self.key(first), self.key(behind - 1));
        let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        let mut heads = [u64::MAX; GROUP_SIZE];
        let mut count = 0;
        for (slot, index) in heads.iter_mut().zip((first..behind).step_by(stride)) {
            *slot = head(self.key(index), shared);
            count += 1;
        }
        Group { shared: shared as u16, count, heads }
    }

    /// The block of the name at or before a key. Before the first name comes the last.
    #[inline]
    pub(crate) fn at_or_before(&self, key: &[u8]) -> Option<NodeRef> {
        let found = self.search(key).or(self.nodes.len().checked_sub(1));
        self.nodes.get(found?).copied()
    }

    #[inline]
    fn search(&self, key: &[u8]) -> Option<usize> {
        let mut stride = GROUP_SIZE.pow(self.levels.len() as u32);
        // The first key of the group.
        let mut first = 0;
        for level in self.levels.iter().rev() {
            let group = level.get(first / stride)?;
            let shared = usize::from(group.shared);
            if shared > 0 {
                let own = self.key(first).get(..shared)?;
                match key.get(..shared.min(key.len()))?.cmp(own) {
                    Ordering::Less => return first.checked_sub(1),
                    Ordering::Equal => {}
                    Ordering::Greater => return Some((first + stride).min(self.ends.len()) - 1),
                }
            }
            stride /= GROUP_SIZE;
            let head = head(key, shared);
            let mut index = group.count_below(head);
            // Among equal heads whole keys decide.
            while index < usize::from(group.count)
                && group.heads.get(index) == Some(&head)
                && self.key(first + index * stride) <= key
            {
                index += 1;
            }
            first = (first + index * stride).checked_sub(stride)?;
            if index == 0 {
                return Some(first + stride - 1);
            }
        }
        Some(first)
    }

    #[inline]
    fn key(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        let end = self.ends.get(index).copied().unwrap_or_default();
        self.keys.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Eight bytes of a key behind those that are shared, zeros where it has fewer.
#[inline]
fn head(key: &[u8], shared: usize) -> u64 {
    let rest = key.get(shared..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<HEAD_SIZE>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; HEAD_SIZE];
    for (to, from) in bytes.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn wire(text: &str) -> Box<[u8]> {
        let name: Name = text.parse().expect(text);
        name.as_wire().to_ascii_lowercase().into()
    }

    #[test]
    fn the_name_at_or_before_each_name_is_that_of_a_sorted_list() {
        let mut random = whered_random::Random::new(7);
        for count in [1, 2, 15, 16, 17, 255, 256, 257, 4097] {
            let mut names: Vec<Box<[u8]>> = vec![[].into()];
            let mut text = |limit: u64| match random.below(4) {
                0 => format!("host{:06}", random.below(limit)),
                1 => format!("a-long-beginning-that-is-equal-{}", random.below(limit)),
                2 => format!("{}.b.sub{}", random.below(limit), random.below(9)),
                _ => format!("\\{:03}\\{:03}x.c", random.below(3), random.below(256)),
            };
            while names.len() < count {
                names.push(wire(&text(1_000_000)));
            }
            names.sort_by_key(|name| order_key(name));
            names.dedup();
            let list: Vec<_> = names.iter().cloned().zip((0..).map(NodeRef)).collect();
            let mut shuffled = list.clone();
            shuffled.reverse();
            let ordered = OrderedNames::build(shuffled).expect("they are few");
            let others: Vec<Box<[u8]>> = (0..3000).map(|_| wire(&text(1_000_000))).collect();
            for asked in names.iter().chain(&others) {
                let key = order_key(asked);
                let expected = list.iter().rev().find(|(name, _)| order_key(name) <= key);
                let found = ordered.at_or_before(&key);
                assert_eq!(found, expected.map(|(_, node)| *node), "{count}: {asked:?}");
            }
        }
    }

    #[test]
    fn before_the_first_name_comes_the_last() {
        let names = ["b", "d"].map(wire).into_iter().zip((0..).map(NodeRef)).collect();
        let ordered = OrderedNames::build(names).expect("they are few");
        let asked = [("a", 1), ("b", 0), ("c", 0), ("d", 1), ("e", 1)];
        for (name, expected) in asked {
            assert_eq!(ordered.at_or_before(&order_key(&wire(name))), Some(NodeRef(expected)));
        }
        let none = OrderedNames::build(Vec::new()).expect("they are few");
        assert_eq!(none.at_or_before(b"a"), None);
    }
}
