//! From a database's tree to the tables of an index.
//!
//! Not for the tables themselves (`whered_ip`), nor for the fields (see `rows`).
//!
//! Two passes: the first reads the nodes one after the other and collects the records they lead
//! to, so that a record's row is its rank among them; the second walks the tree, left before
//! right, and hands every leaf on, empty ones as row 0. Both are linear in the file's nodes; the
//! walk is bounded against trees whose nodes are reached in too many ways.
#![deny(clippy::indexing_slicing)]

use crate::database::Database;
use crate::error::{ErrorKind, MmdbError};
use crate::index::rows::Rows;
use crate::index::{DatabaseIndex, IndexOptions};
use crate::networks::{Place, Visits};
use crate::record_set::RecordSet;
use crate::tree::{RecordId, SearchTree, TreeNode};
use whered_ip::{Prefix, PrefixIndex, Target};

pub(super) fn build(
    database: &Database,
    options: &IndexOptions,
) -> Result<DatabaseIndex, MmdbError> {
    let (tree, bytes) = (&database.tree, database.as_bytes());
    let mut numbers = records(tree, bytes)?;
    let records = numbers.number();
    // How many networks have each row.
    let mut uses = vec![0_u32; records.len() + 1];
    let mut fault = None;
    let leaves = Leaves::new(tree, bytes).map_while(|leaf| match leaf {
        Ok((prefix, leaf)) => Some((
            prefix,
            match leaf {
                Leaf::Ipv4 => Target::Ipv4,
                Leaf::Empty => Target::Value(0),
                Leaf::Record(id) => {
                    let row = numbers.rank(id) + 1;
                    if let Some(uses) = uses.get_mut(row as usize) {
                        *uses = uses.saturating_add(1);
                    }
                    Target::Value(row)
                }
            },
        )),
        Err(error) => {
            fault = Some(error);
            None
        }
    });
    let networks = PrefixIndex::build(options.form, leaves);
    if let Some(error) = fault {
        return Err(error);
    }
    let networks = networks.map_err(|error| {
        MmdbError::new(ErrorKind::Limit, error.to_string(), "databases that an index can hold")
    })?;
    let rows = Rows::build(database, &records, &uses, options)?;
    let is_ipv6 = tree.is_ipv6();
    Ok(DatabaseIndex { networks, rows, fields: options.fields.clone(), is_ipv6 })
}

/// The records that nodes lead to: the row of the first one is 1.
fn records(tree: &SearchTree, bytes: &[u8]) -> Result<RecordSet, MmdbError> {
    let mut records = RecordSet::default();
    for node in 0..tree.node_count() {
        for bit in [false, true] {
            if let TreeNode::Record(id) = tree.child(bytes, node, bit)? {
                records.insert(id);
            }
        }
    }
    Ok(records)
}

/// The tree's leaf for a network.
#[derive(Clone, Copy)]
enum Leaf {
    Empty,
    Record(RecordId),
    /// The IPv4 addresses, again.
    Ipv4,
}

/// All leaves of a tree: those of IPv4 addresses as IPv4 networks first, then, in an IPv6 tree,
/// those of IPv6 with `::/96` and its aliases as one leaf each.
struct Leaves<'a> {
    tree: &'a SearchTree,
    bytes: &'a [u8],
    open: Vec<Open>,
    visits: Visits,
}

/// A place that was not looked at yet, and whether it is asked for as one of IPv4.
struct Open {
    place: Place,
    is_ipv4: bool,
}

impl<'a> Leaves<'a> {
    fn new(tree: &'a SearchTree, bytes: &'a [u8]) -> Leaves<'a> {
        let ipv4_root = Place { node: tree.ipv4_root(), bits: 0, depth: 0 };
        let mut open = Vec::with_capacity(130);
        if tree.is_ipv6() {
            open.push(Open { place: Place::ROOT, is_ipv4: false });
        }
        open.push(Open { place: ipv4_root, is_ipv4: true });
        Leaves { tree, bytes, open, visits: Visits::of(tree) }
    }

    fn descend(&mut self, open: &Open, node: u32) -> Result<(), MmdbError> {
        let most = if open.is_ipv4 { 32 } else { 128 };
        if open.place.depth == most {
            return Err(self.tree.too_deep(node));
        }
        self.visits.take(self.tree, node)?;
        for bit in [true, false] {
            let child = self.tree.child(self.bytes, node, bit)?;
            self.open.push(Open { place: open.place.below(child, bit), is_ipv4: open.is_ipv4 });
        }
        Ok(())
    }
}

impl Iterator for Leaves<'_> {
    type Item = Result<(Prefix, Leaf), MmdbError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(open) = self.open.pop() {
            let Place { node, bits, depth } = open.place;
            let leaf = match node {
                TreeNode::Empty => Leaf::Empty,
                TreeNode::Record(id) => Leaf::Record(id),
                TreeNode::Node(node) if !open.is_ipv4 && self.tree.ipv4_subtree() == Some(node) => {
                    Leaf::Ipv4
                }
                TreeNode::Node(node) => match self.descend(&open, node) {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                },
            };
            return Some(Ok((crate::database::prefix(bits, depth, open.is_ipv4), leaf)));
        }
        None
    }
}
