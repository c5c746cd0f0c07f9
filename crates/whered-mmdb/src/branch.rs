//! The search tree as it stands in the file: branches with their depth, and records as numbers.
//!
//! For callers that must give exactly what libmaxminddb gives, and for their address in the form
//! that a walk takes. Not for networks ([`Database::lookup`] makes a prefix of a branch). Nothing
//! here reads a record. A walk costs one dependent read for each bit, and allocates nothing.
#![deny(clippy::indexing_slicing)]

use crate::database::Database;
use crate::error::MmdbError;
use crate::tree::{RecordId, TreeNode};
use std::ops::Range;

/// Where the walk for an address ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The record, if there is one.
    pub record: Option<RecordId>,
    /// How many bits of the address the walk took.
    pub depth_bits: u8,
}

impl Database {
    /// Walks an address, whose first bit is the highest of the 128.
    ///
    /// `is_ipv4`: the address has 32 bits, and the walk begins at
    /// [`ipv4_root`](Database::ipv4_root), from where its depth counts. In a file of IP version 4
    /// all 128 bits of another address would be taken for one of 32: ask for the version first.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let mut writer = Writer::new(WriterOptions::default())?;
    /// writer.insert("128.0.0.0/1".parse()?, Value::Uint16(7))?;
    /// let database = Database::from_bytes(writer.finish()?)?;
    /// let branch = database.walk(u128::from(0xc000_0201_u32) << 96, true)?;
    /// assert_eq!((branch.record.map(|id| id.to_u32()), branch.depth_bits), (Some(0), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A fault of the tree on the way.
    #[inline]
    pub fn walk(&self, address: u128, is_ipv4: bool) -> Result<Branch, MmdbError> {
        let answer = self.tree.walk(&self.bytes, address, is_ipv4)?;
        let record = match answer.node {
            TreeNode::Record(id) => Some(id),
            TreeNode::Empty | TreeNode::Node(_) => None,
        };
        Ok(Branch { record, depth_bits: answer.depth })
    }

    /// What stands at `::/96` of a tree of IP version 6, and how many bits lead there (96, or fewer
    /// where the branch ends above); the tree's root and 0 in a tree of version 4.
    #[must_use]
    pub fn ipv4_root(&self) -> (TreeNode, u8) {
        let root = self.tree.ipv4_root_answer();
        (root.node, root.depth)
    }

    /// The left or right record of a node as the number that stands in the file; `None` if the
    /// bytes in memory end before it.
    #[must_use]
    pub fn record_number(&self, node: u32, right: bool) -> Option<u32> {
        self.tree.read(&self.bytes, node, right)
    }

    /// Where the data section lies in the file; records' numbers count from its start. Empty for a
    /// legacy file.
    #[must_use]
    pub fn data_range(&self) -> Range<usize> {
        self.data.clone()
    }
}
