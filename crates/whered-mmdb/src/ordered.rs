//! A quick check of a search tree whose nodes are in order, as writers put them.
//!
//! Not for naming faults and not for every sound tree ([`crate::verify`] walks those that this
//! check gives up on). One pass over the nodes in their order in the file; a node passes its depth
//! on to its children:
//!
//! ```text
//! node    0    1    2    3   ...          0 = not reached yet
//! depth   1    2    3    3   ...          129 and more: below ::/96
//! ```
//!
//! What it accepts is sound: every child comes behind its parent and has no other one, so that
//! there is no loop; the only branches that lead elsewhere are aliases of the IPv4 subtree, which
//! begin outside of it and not below its own depth.
//!
//! Cost: one read of two records and one byte of memory for each node.
#![deny(clippy::indexing_slicing)]

use crate::record_set::RecordSet;
use crate::tree::{SearchTree, TreeNode};
use crate::verify::TreeReport;

const UNREACHED: u8 = 0;
const ROOT: u8 = 1;
/// The node at `::/96`; those below it go on from there, up to the last bit of an address.
const IPV4_ROOT: u8 = 129;
const IPV4_LAST: u8 = IPV4_ROOT + 31;
/// The deepest parent of an alias, which is no deeper than the subtree that it leads to.
const ALIAS_PARENT_MAX: u8 = ROOT + 95;

/// The contents of the tree; `None` for a tree that is not in order, or not sound.
pub(crate) fn check(tree: &SearchTree, bytes: &[u8]) -> Option<TreeReport> {
    let subtree = tree.ipv4_subtree();
    let subtree_parent = subtree.and_then(|_| ipv4_parent(tree, bytes));
    // The depth of nodes whose children are no nodes.
    let last = tree.address_bits();
    let mut depths = vec![UNREACHED; tree.node_count() as usize];
    *depths.first_mut()? = ROOT;
    let mut reached_nodes = 0;
    let mut networks = 0;
    let mut records = RecordSet::default();
    for node in 0..tree.node_count() {
        let depth = depths.get(node as usize).copied()?;
        if depth == UNREACHED {
            continue;
        }
        reached_nodes += 1;
        for bit in [false, true] {
            let child = match tree.child(bytes, node, bit).ok()? {
                TreeNode::Empty => continue,
                TreeNode::Record(id) => {
                    networks += 1;
                    records.insert(id);
                    continue;
                }
                TreeNode::Node(child) => child,
            };
            let is_subtree = subtree == Some(child);
            if is_subtree && (bit || subtree_parent != Some(node)) {
                if depth > ALIAS_PARENT_MAX {
                    return None;
                }
                continue;
            }
            let known = depths.get_mut(child as usize)?;
            let is_in_order = child > node && *known == UNREACHED;
            if !is_in_order || depth == last || depth == IPV4_LAST {
                return None;
            }
            *known = if is_subtree { IPV4_ROOT } else { depth + 1 };
        }
    }
    Some(TreeReport { networks, reached_nodes, records: records.number() })
}

/// The node whose left child is that at `::/96`.
fn ipv4_parent(tree: &SearchTree, bytes: &[u8]) -> Option<u32> {
    let mut node = 0;
    for _ in 0..95 {
        let TreeNode::Node(child) = tree.child(bytes, node, false).ok()? else { return None };
        node = child;
    }
    Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;
    use crate::{Database, Value, Writer, WriterOptions};

    fn database(networks: &[&str], ip_version: u16) -> Vec<u8> {
        let options = WriterOptions { ip_version, ..WriterOptions::default() };
        let mut writer = Writer::new(options).unwrap();
        writer.set_teredo_alias(ip_version == 6);
        for (number, network) in (0..).zip(networks) {
            writer.insert(network.parse().unwrap(), Value::Uint32(number)).unwrap();
        }
        writer.finish().unwrap()
    }

    /// The result of both checks, if the quick one does not give up.
    fn both(bytes: Vec<u8>) -> Option<TreeReport> {
        let database = Database::from_bytes(bytes).unwrap();
        let quick = check(&database.tree, &database.bytes);
        let walked = verify::walked(&database.tree, &database.bytes).ok();
        if quick.is_some() {
            assert_eq!(quick, walked);
        }
        quick
    }

    #[test]
    fn the_writer_s_trees_are_in_order_and_both_checks_say_the_same() {
        let mixed = ["1.0.0.0/8", "1.2.3.4/32", "200.0.0.0/7", "2001:db8::/32", "2a00::1/128"];
        let report = both(database(&mixed, 6)).expect("a tree in order");
        assert_eq!((report.networks > 5, report.records.len()), (true, 5));
        let ipv4 = ["1.0.0.0/8", "1.2.3.4/32", "200.0.0.0/7"];
        assert!(both(database(&ipv4, 4)).is_some());
        assert!(both(database(&[], 6)).is_some());
        assert!(both(database(&["2a00::/12"], 6)).is_some(), "no IPv4 networks");
    }

    #[test]
    fn whatever_one_byte_of_a_tree_becomes_the_quick_check_accepts_nothing_that_is_broken() {
        let mixed = ["1.0.0.0/8", "1.2.3.4/32", "2001:db8::/32", "2a00::1/128"];
        let bytes = database(&mixed, 6);
        let shape = Database::from_bytes(bytes.clone()).unwrap();
        let tree_bytes = shape.data.start - 16;
        let mut accepted = 0;
        for at in 0..tree_bytes {
            for value in [0, 1, 97, 255] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if Database::from_bytes(changed.clone()).is_ok() {
                    accepted += usize::from(both(changed).is_some());
                }
            }
        }
        assert!(accepted > 100, "{accepted}");
    }
}
