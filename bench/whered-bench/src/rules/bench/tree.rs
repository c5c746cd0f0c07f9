//! The binary tree of prefixes of 2007 in Rust: the twin of the C one in `bench/versus`.
//!
//! One node a bit, walked from the highest bit on until a member ends or the way does. The child is
//! chosen in one of three ways, as its author tried them. Not for use: what it is compared with is
//! a hundred times as fast.
//!
//! ```text
//! node: left u32 | right u32 | member bool      0 is the root, and no child
//! ```

use crate::sets::Prefix4;

/// How a node's child is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A branch on the bit under a mask that moves down.
    Mask,
    /// The highest bit as the index of the child, the address moving up.
    Index,
    /// A branch on the sign, the address moving up.
    Sign,
}

impl Expression {
    /// All three.
    pub const ALL: [Expression; 3] = [Expression::Mask, Expression::Index, Expression::Sign];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Expression::Mask => "mask",
            Expression::Index => "index",
            Expression::Sign => "sign",
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Node {
    children: [u32; 2],
    is_member: bool,
}

/// A set of prefixes as a binary tree.
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree of these prefixes, added in their order.
    #[must_use]
    pub fn of(prefixes: &[Prefix4]) -> Tree {
        let mut nodes = vec![Node::default()];
        for (address, length_bits) in prefixes {
            let mut at = 0;
            for bit in 0..*length_bits {
                let side = (address >> (31 - bit) & 1) as usize;
                if nodes[at].children[side] == 0 {
                    nodes[at].children[side] = nodes.len() as u32;
                    nodes.push(Node::default());
                }
                at = nodes[at].children[side] as usize;
            }
            nodes[at].is_member = true;
        }
        Tree { nodes }
    }

    /// What the nodes take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
    }

    /// Whether a prefix holds the address.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, expression: Expression, address: u32) -> bool {
        match expression {
            Expression::Mask => self.by_mask(address),
            Expression::Index => self.by_index(address),
            Expression::Sign => self.by_sign(address),
        }
    }

    #[inline(always)]
    fn by_mask(&self, address: u32) -> bool {
        let (mut at, mut mask) = (0, 1 << 31);
        loop {
            let node = &self.nodes[at];
            if node.is_member {
                return true;
            }
            let [left, right] = node.children;
            at = if address & mask != 0 { right } else { left } as usize;
            if at == 0 {
                return false;
            }
            mask >>= 1;
        }
    }

    #[inline(always)]
    fn by_index(&self, mut address: u32) -> bool {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            if node.is_member {
                return true;
            }
            at = node.children[(address >> 31) as usize] as usize;
            if at == 0 {
                return false;
            }
            address <<= 1;
        }
    }

    #[inline(always)]
    fn by_sign(&self, mut address: u32) -> bool {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            if node.is_member {
                return true;
            }
            let [left, right] = node.children;
            at = if (address as i32) < 0 { right } else { left } as usize;
            if at == 0 {
                return false;
            }
            address <<= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{cidrs, masked4, members4};

    #[test]
    fn all_three_expressions_say_what_a_scan_says() {
        let prefixes = cidrs(300, 5);
        let tree = Tree::of(&prefixes);
        assert!(tree.memory_bytes() > 300 * 12);
        let mut members = 0;
        for address in members4(&prefixes, 0.5, 4000, 6) {
            let holds = prefixes.iter().any(|(net, length)| masked4(address, *length) == *net);
            members += u32::from(holds);
            for expression in Expression::ALL {
                assert_eq!(tree.contains(expression, address), holds, "{expression:?} {address:x}");
            }
        }
        assert!((1000..3500).contains(&members), "{members}");
    }

    #[test]
    fn an_empty_tree_holds_nothing_and_a_whole_one_everything() {
        for expression in Expression::ALL {
            assert!(!Tree::of(&[]).contains(expression, 7));
            assert!(Tree::of(&[(0, 0)]).contains(expression, 7));
        }
    }
}
