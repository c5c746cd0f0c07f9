//! All networks of a search tree as several iterators, one for each thread that walks.
//!
//! Not for a walk by one thread ([`crate::Database::networks`]). The tree is cut below its upper
//! nodes, apart for IPv4, whose networks are far below the root of an IPv6 tree:
//!
//! ```text
//! root ─┬─ ... ─┬─ ::/96 ── 2^n subtrees of IPv4   first, in address order
//!       └ 2^n   └ 2^n subtrees of the other        then these
//! ```
//!
//! Cost: a step for each node above the cuts.
#![deny(clippy::indexing_slicing)]

use crate::database::Database;
use crate::error::MmdbError;
use crate::networks::{Networks, Place, Visits};
use crate::tree::TreeNode;

impl Database {
    /// The networks of [`networks`](Database::networks) in the same order, as at least `count`
    /// iterators where the tree has as many subtrees, and at most 97 more than four times as
    /// many. Each network is in one of them. They share the bound on the steps of a walk.
    ///
    /// # Errors
    ///
    /// A fault of the tree in its upper nodes.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// for network in ["192.0.2.0/25", "198.51.100.0/24", "2001:db8::/32"] {
    ///     writer.insert(network.parse()?, Value::String(network.to_string()))?;
    /// }
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// let parts = database.networks_in_parts(2)?;
    /// let networks: Vec<_> = parts.into_iter().flatten().collect::<Result<_, _>>()?;
    /// let all: Vec<_> = database.networks().collect::<Result<_, _>>()?;
    /// assert_eq!(networks, all);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn networks_in_parts(&self, count: usize) -> Result<Vec<Networks<'_>>, MmdbError> {
        let tree = &self.tree;
        let mut place = Place::ROOT;
        // What is right of the way to the IPv4 subtree, the deepest first: in address order.
        let mut others = Vec::new();
        if tree.is_ipv6() {
            while let TreeNode::Node(node) = place.node
                && place.depth < 96
            {
                others.push(place.below(tree.child(&self.bytes, node, true)?, true));
                place = place.below(tree.child(&self.bytes, node, false)?, false);
            }
            others.reverse();
        }
        let mut places = self.cut(vec![place], count)?;
        places.extend(self.cut(others, count)?);
        let visits = Visits::shared(tree, places.len());
        let part = |place| Networks::of_part(tree, &self.bytes, place, visits.clone());
        Ok(places.into_iter().map(part).collect())
    }

    /// Replaces places by those below them, level by level, until there are enough.
    fn cut(&self, mut places: Vec<Place>, count: usize) -> Result<Vec<Place>, MmdbError> {
        let tree = &self.tree;
        loop {
            places.retain(|place| place.node != TreeNode::Empty && !place.is_alias(tree));
            let is_node = |place: &Place| matches!(place.node, TreeNode::Node(_));
            if places.len() >= count || !places.iter().any(is_node) {
                return Ok(places);
            }
            let mut below = Vec::with_capacity(2 * places.len());
            for place in places {
                let TreeNode::Node(node) = place.node else {
                    below.push(place);
                    continue;
                };
                if place.depth == tree.address_bits() {
                    return Err(tree.too_deep(node));
                }
                for bit in [false, true] {
                    below.push(place.below(tree.child(&self.bytes, node, bit)?, bit));
                }
            }
            places = below;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Value, Writer, WriterOptions};

    fn database(ip_version: u16, networks: impl Iterator<Item = String>) -> Database {
        let options = WriterOptions { ip_version, ..WriterOptions::default() };
        let mut writer = Writer::new(options).expect("sound options");
        for (network, number) in networks.zip(0..) {
            let network = network.parse().expect("a network");
            writer.insert(network, Value::Uint32(number)).expect("room");
        }
        Database::from_bytes(writer.finish().expect("room")).expect("what was just written")
    }

    fn many() -> impl Iterator<Item = String> {
        (0..3000_u32).map(|number| {
            let mixed = number.wrapping_mul(0x9e37_79b1);
            match number % 3 {
                0 => format!("2a0{:x}:{:x}::/48", mixed >> 28, mixed >> 12 & 0xffff),
                _ => format!("{}.{}.{}.0/24", mixed >> 24, mixed >> 16 & 255, mixed >> 8 & 255),
            }
        })
    }

    #[test]
    fn parts_together_have_each_network_once_and_in_order() {
        let one = ["0.0.0.0/0", "::/0", "10.0.0.0/8"].map(str::to_owned);
        let databases = [
            database(6, many()),
            database(4, many().filter(|network| network.contains('.'))),
            database(6, many().filter(|network| network.contains(':'))),
            database(6, one.into_iter()),
            database(6, std::iter::empty()),
        ];
        for database in &databases {
            let all: Vec<_> = database.networks().map(|found| found.expect("sound")).collect();
            for count in [0, 1, 2, 7, 64, 100_000] {
                let parts = database.networks_in_parts(count).expect("a sound tree");
                assert!(parts.len() <= 4 * count + 97, "{} of {count}", parts.len());
                let joined = parts.into_iter().flatten();
                let joined: Vec<_> = joined.map(|found| found.expect("sound")).collect();
                assert_eq!(joined, all, "{count} parts");
            }
        }
        let parts = databases[0].networks_in_parts(64).expect("a sound tree");
        assert!(parts.len() >= 128, "64 of each family, {}", parts.len());
    }

    #[test]
    fn parts_share_the_bound_on_steps() {
        let database = database(6, many());
        let visits = Visits::shared(&database.tree, 10);
        let (mut one, mut two) = (visits.clone(), visits);
        let mut taken = 0_u64;
        while one.take(&database.tree, 0).is_ok() {
            taken += 1;
        }
        let error = two.take(&database.tree, 0).expect_err("one has taken all");
        assert_eq!(error.kind(), ErrorKind::Limit);
        let mut alone = Visits::of(&database.tree);
        let mut bound = 0_u64;
        while alone.take(&database.tree, 0).is_ok() {
            bound += 1;
        }
        assert_eq!(taken, bound);
    }
}
