//! The search tree exactly as the file stores it: branches with their depth, records as numbers.
//!
//! For callers that must answer as libmaxminddb does, which opens files that [`Database`] refuses
//! and reports a fault only to the lookup that meets it. Such a caller reads the metadata itself
//! and passes the tree's shape. Not for networks ([`Database::lookup`] returns a prefix) and not
//! for records. Bytes between the tree and the data section are not looked at. The data section
//! reaches to the end of the file, metadata included. The bytes are in memory, or are read when a
//! walk needs them ([`ReadAt`]).
//!
//! A walk costs one dependent read for each bit, allocates nothing, and checks every read.
//!
//! [`Database`]: crate::Database
//! [`Database::lookup`]: crate::Database::lookup
#![deny(clippy::indexing_slicing)]

use crate::decode::Section;
use crate::error::{ErrorKind, MmdbError};
use crate::read_at::{Pages, ReadAt};
use crate::tree::{Layout, RecordId, SEPARATOR_BYTES, SearchTree, TreeNode};
use bytes::Bytes;
use std::sync::Arc;

/// The numbers of the metadata that say where the nodes of a tree are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeShape {
    /// Nodes of the tree.
    pub node_count: u32,
    /// Bits of one of the two records of a node: 24, 28 or 32.
    pub record_size_bits: u16,
    /// Whether addresses have 128 bits.
    pub is_ipv6: bool,
}

/// Where the walk for an address ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The record, if there is one.
    pub record: Option<RecordId>,
    /// How many bits of the address the walk took.
    pub depth_bits: u8,
}

/// A search tree and the bytes of its file.
///
/// ```
/// use whered_mmdb::{Database, FileTree, TreeShape, Value, Writer, WriterOptions};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// writer.insert("128.0.0.0/1".parse()?, Value::Uint16(7))?;
/// let bytes = writer.finish()?;
/// let node_count = Database::from_bytes(bytes.clone())?.metadata().node_count;
/// let shape = TreeShape { node_count, record_size_bits: 24, is_ipv6: true };
///
/// let tree = FileTree::new(bytes, shape)?;
/// let (start, depth_bits) = tree.ipv4_start();
/// assert_eq!(depth_bits, 96);
/// let branch = tree.walk(start, u128::from(0xc000_0201_u32) << 96, 32)?;
/// assert_eq!((branch.record.map(|id| id.to_u32()), branch.depth_bits), (Some(0), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileTree {
    /// Empty if the file stays with the reader.
    bytes: Bytes,
    reader: Option<Arc<dyn ReadAt>>,
    tree: SearchTree,
    data_start: usize,
    data_bytes: usize,
}

impl FileTree {
    /// A tree of this shape at the start of these bytes.
    ///
    /// # Errors
    ///
    /// Records of another size, or bytes that end before the data section.
    pub fn new(bytes: impl Into<Bytes>, shape: TreeShape) -> Result<FileTree, MmdbError> {
        let bytes = bytes.into();
        let size = bytes.len();
        FileTree::assemble(bytes, None, size, shape)
    }

    /// Like [`new`](FileTree::new), for a file whose bytes are read when a walk needs them.
    ///
    /// # Errors
    ///
    /// As `new`.
    pub fn from_reader(
        reader: impl ReadAt + 'static,
        shape: TreeShape,
    ) -> Result<FileTree, MmdbError> {
        let size = usize::try_from(reader.size_bytes()).unwrap_or(usize::MAX);
        FileTree::assemble(Bytes::new(), Some(Arc::new(reader)), size, shape)
    }

    fn assemble(
        bytes: Bytes,
        reader: Option<Arc<dyn ReadAt>>,
        size: usize,
        shape: TreeShape,
    ) -> Result<FileTree, MmdbError> {
        let TreeShape { node_count, record_size_bits, is_ipv6 } = shape;
        let layout = Layout::from_record_size(u64::from(record_size_bits)).ok_or_else(|| {
            let found = format!("records of {record_size_bits} bits");
            MmdbError::new(ErrorKind::Unsupported, found, "24, 28 or 32 bits")
        })?;
        let tree_bytes = u64::from(node_count) * layout.node_bytes() as u64;
        let data_start = usize::try_from(tree_bytes + SEPARATOR_BYTES as u64).ok();
        let data = data_start.and_then(|start| Some((start, size.checked_sub(start)?)));
        let (data_start, data_bytes) = data.ok_or_else(|| {
            let found = format!("a tree of {tree_bytes} bytes");
            let allowed = format!("trees that fit into {size} bytes");
            MmdbError::new(ErrorKind::Metadata, found, allowed).within("node_count")
        })?;
        let tree =
            SearchTree::without_ipv4_root(layout, reader.clone(), node_count, data_bytes, is_ipv6);
        Ok(FileTree { bytes, reader, tree, data_start, data_bytes })
    }

    /// The number in the file where walks for IPv4 addresses start, and how many bits lead there:
    /// in an IPv6 tree what `::/96` has, 96 bits down or fewer where the branch ends above; in an
    /// IPv4 tree the root. The number may be an invalid one; a walk from it reports that.
    #[must_use]
    pub fn ipv4_start(&self) -> (u32, u8) {
        let (mut number, mut depth_bits) = (0, 0);
        while self.tree.is_ipv6() && depth_bits < 96 {
            let Some(left) = self.record_number(number, false) else { break };
            number = left;
            depth_bits += 1;
        }
        (number, depth_bits)
    }

    /// Walks up to `bits` bits of an address, whose first bit is the highest of the 128, from the
    /// number `start`, which is 0 for the root.
    ///
    /// # Errors
    ///
    /// A fault of the tree on the way: an invalid number, or a branch longer than the address.
    #[inline]
    pub fn walk(&self, start: u32, address: u128, bits: u8) -> Result<Branch, MmdbError> {
        let answer = self.tree.walk_from(&self.bytes, start, address, bits)?;
        let record = match answer.node {
            TreeNode::Record(id) => Some(id),
            TreeNode::Empty | TreeNode::Node(_) => None,
        };
        Ok(Branch { record, depth_bits: answer.depth })
    }

    /// The left or right record of a node as the number in the file; `None` if there is no such
    /// node.
    #[must_use]
    pub fn record_number(&self, node: u32, right: bool) -> Option<u32> {
        self.try_record_number(node, right).ok()
    }

    /// Like [`record_number`](FileTree::record_number), with the reason.
    ///
    /// # Errors
    ///
    /// No such node, or bytes that cannot be read.
    pub fn try_record_number(&self, node: u32, right: bool) -> Result<u32, MmdbError> {
        self.tree.number_of(&self.bytes, node, right)
    }

    /// Calls `question` with the data section, whose bytes a reader fetches for this call alone.
    pub fn with_data<T>(&self, question: impl FnOnce(&Section<'_>) -> T) -> T {
        match &self.reader {
            None => {
                let bytes = self.bytes.get(self.data_start..).unwrap_or_default();
                question(&Section::new(bytes, self.data_start))
            }
            Some(reader) => {
                let pages = Pages::new(&**reader, self.data_start, self.data_bytes);
                question(&Section::on_demand(&pages, self.data_start, self.data_bytes))
            }
        }
    }
}
