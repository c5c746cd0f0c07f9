//! An opened database: bytes, tree and metadata, and every question one can ask of them.
//!
//! Not for files (it takes bytes, or a [`ReadAt`]), not for opening ([`crate::open`]), not for
//! reloading, not for indexes that are faster than the file's own tree.
//!
//! ```text
//! MaxMind DB: | search tree | 16 zero bytes | data section | marker | metadata map |
//! legacy:     | search tree | records | zero bytes, copyright text, structure marker |
//!
//! address ──walk──► RecordId ──decode in place──► Value, number, JSON
//! ```
//!
//! Invariants: opening has checked the metadata, the sizes of the sections and the zero bytes
//! between them; nothing else is trusted later: all reads are checked, and hostile bytes give
//! errors. Immutable after opening: any number of threads may ask at once.
//!
//! Cost: a lookup takes one dependent read per address bit up to the answer (up to 32 or 128);
//! fields and records as [`crate::walk`] says. Opening reads the metadata and 96 nodes; a
//! legacy file without a structure marker is walked whole.
#![deny(clippy::indexing_slicing)]

use crate::decode::{Scalar, Section};
use crate::diff::Differences;
use crate::error::{ErrorKind, MmdbError};
use crate::json::JsonSink;
use crate::legacy::{self, LegacyEdition};
use crate::metadata::Metadata;
use crate::networks::Networks;
use crate::open;
use crate::path::FieldPath;
use crate::read_at::{Pages, ReadAt};
use crate::tree::{RecordId, SearchTree, TreeNode};
use crate::value::{Value, ValueSink};
use crate::verify::{self, Verified};
use crate::walk::{Budget, Sink};
use bytes::Bytes;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;
use whered_ip::Prefix;

/// An IP → record database in a MaxMind DB or legacy GeoIP file's bytes.
///
/// ```
/// use whered_mmdb::{Database, Value, Writer, WriterOptions};
/// let mut writer = Writer::new(WriterOptions::default())?;
/// let record = Value::Map(vec![("name".to_string(), Value::String("here".to_string()))]);
/// writer.insert("192.0.2.0/24".parse()?, record)?;
///
/// let database = Database::from_bytes(writer.finish()?)?;
/// let answer = database.lookup("192.0.2.7".parse()?)?;
/// assert_eq!(answer.prefix.to_string(), "192.0.2.0/24");
/// let id = answer.record.expect("it was inserted");
/// let name = database.field(id, &"name".parse()?)?;
/// assert_eq!(name, Some(Value::String("here".to_string())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Database {
    /// The file's first bytes: all of them, those of the tree, or none.
    pub(crate) bytes: Bytes,
    /// Where the rest is asked for; `None` if `bytes` is the whole file.
    pub(crate) reader: Option<Arc<dyn ReadAt>>,
    pub(crate) tree: SearchTree,
    pub(crate) metadata: Metadata,
    pub(crate) format: Format,
    /// Where the data section begins and ends; empty for a legacy file whose
    /// records are numbers.
    pub(crate) data: Range<usize>,
}

/// Which format a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// MaxMind DB, binary format version 2.
    Mmdb,
    /// A legacy GeoIP file.
    Legacy(LegacyEdition),
}

/// The answer for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// The widest network around the address for which the file's tree gives this answer at this
    /// place, also when the answer is "no record". For an IPv4 address it is an IPv4 network; if
    /// the answer stands above `::/96` of an IPv6 tree, `0.0.0.0/0`.
    pub prefix: Prefix,
    /// The record, if the database has one for the address.
    pub record: Option<RecordId>,
}

impl Database {
    /// Which format the bytes have.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The database's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The size of the file.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.reader.as_ref().map_or(self.bytes.len() as u64, |reader| reader.size_bytes())
    }

    /// The file's bytes as far as they are in memory, from its first one: all of them unless the
    /// database sits on a reader.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The record of an address and the network for which it is the answer.
    ///
    /// An IPv6 address is walked as it is: `::ffff:192.0.2.1` finds the IPv4 record if the file
    /// has the usual alias. Cost: up to one read per address bit; nothing is allocated.
    ///
    /// # Errors
    ///
    /// An IPv6 address in a file of IP version 4, or a fault of the tree on the way.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> Result<Lookup, MmdbError> {
        let (bits, is_ipv4) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) if self.tree.is_ipv6() => (address.to_bits(), false),
            IpAddr::V6(address) => return Err(ipv6_in_ipv4(address)),
        };
        let answer = self.tree.walk(&self.bytes, bits, is_ipv4)?;
        let record = match answer.node {
            TreeNode::Record(id) => Some(id),
            TreeNode::Empty | TreeNode::Node(_) => None,
        };
        Ok(Lookup { prefix: prefix(bits, answer.depth, is_ipv4), record })
    }

    /// The data section in memory; an empty one if it is not there.
    fn section(&self) -> Section<'_> {
        let bytes = self.bytes.get(self.data.clone()).unwrap_or_default();
        Section::new(bytes, self.data.start)
    }

    /// Asks the data section; what is not in memory is read for this question.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Section<'_>) -> Result<T, MmdbError>,
    ) -> Result<T, MmdbError> {
        match &self.reader {
            None => question(&self.section()),
            Some(reader) => {
                let Range { start, end } = self.data;
                let pages = Pages::new(&**reader, start, end - start);
                question(&Section::on_demand(&pages, start, end - start))
            }
        }
    }

    fn emit(&self, id: RecordId, sink: &mut impl Sink) -> Result<(), MmdbError> {
        match self.format {
            Format::Mmdb => {
                let at = id.to_u32() as usize;
                self.ask(|section| section.walk(at, &mut Budget::new(), sink).map(|_| ()))
            }
            Format::Legacy(edition) => legacy::emit(edition, id, &self.section(), sink),
        }
    }

    /// A whole record, decoded.
    ///
    /// # Errors
    ///
    /// A fault of the data section, or a record beyond the limits ([`crate::MAX_DEPTH`],
    /// [`crate::MAX_VALUES_PER_RECORD`], [`crate::MAX_PAYLOAD_BYTES_PER_RECORD`]).
    pub fn record(&self, id: RecordId) -> Result<Value, MmdbError> {
        let mut sink = ValueSink::default();
        self.emit(id, &mut sink)?;
        Ok(sink.finish())
    }

    /// One field of a record, or `None` if the record has no such field. The record is walked in
    /// place; only the field is decoded.
    ///
    /// # Errors
    ///
    /// As [`record`](Database::record), for the parts that are walked.
    pub fn field(&self, id: RecordId, path: &FieldPath) -> Result<Option<Value>, MmdbError> {
        if self.format != Format::Mmdb {
            return Ok(self.record(id)?.get(path).cloned());
        }
        self.ask(|section| {
            let Some(at) = section.locate(id.to_u32() as usize, path)? else {
                return Ok(None);
            };
            let mut sink = ValueSink::default();
            section
                .walk(at, &mut Budget::new(), &mut sink)
                .map_err(|error| error.within(&path.to_string()))?;
            Ok(Some(sink.finish()))
        })
    }

    /// One numeric field of a record, of any numeric type, rounded beyond 53 bits; `None` if there
    /// is no such field or it is no number. Nothing is allocated.
    ///
    /// # Errors
    ///
    /// As [`field`](Database::field).
    pub fn number(&self, id: RecordId, path: &FieldPath) -> Result<Option<f64>, MmdbError> {
        if let Format::Legacy(edition) = self.format {
            let leaf = legacy::leaf(edition, id, &self.section(), path)?;
            return Ok(leaf.and_then(|leaf| leaf.as_f64()));
        }
        self.ask(|section| Ok(scalar(section, id, path)?.and_then(|scalar| scalar.as_f64())))
    }

    /// One string field of a record, borrowed from the file's bytes where they are in memory;
    /// `None` if there is no such field or it is no string. Nothing is allocated unless the
    /// database sits on a reader, or is a legacy file and the text is not ASCII.
    ///
    /// # Errors
    ///
    /// As [`field`](Database::field).
    pub fn text(&self, id: RecordId, path: &FieldPath) -> Result<Option<Cow<'_, str>>, MmdbError> {
        if let Format::Legacy(edition) = self.format {
            return Ok(match legacy::leaf(edition, id, &self.section(), path)? {
                Some(legacy::Leaf::Text(text)) => Some(text),
                _ => None,
            });
        }
        if self.reader.is_none() {
            return Ok(scalar(&self.section(), id, path)?.and_then(as_text).map(Cow::Borrowed));
        }
        self.ask(|section| {
            let text = scalar(section, id, path)?.and_then(as_text);
            Ok(text.map(|text| Cow::Owned(text.to_owned())))
        })
    }

    /// The fields of a record at several paths, each told with its position; `None` for a map, an
    /// array or what is no scalar. A field that is absent is not told.
    pub(crate) fn scalars(
        &self,
        id: RecordId,
        paths: &[FieldPath],
        mut tell: impl FnMut(usize, Option<Scalar<'_>>),
    ) -> Result<(), MmdbError> {
        if self.format != Format::Mmdb {
            let record = self.record(id)?;
            for (position, path) in paths.iter().enumerate() {
                if let Some(value) = record.get(path) {
                    tell(position, value.as_scalar());
                }
            }
            return Ok(());
        }
        self.ask(|section| {
            for (position, path) in paths.iter().enumerate() {
                let Some(at) = section.locate(id.to_u32() as usize, path)? else { continue };
                let scalar = section.resolve(at).and_then(|(field, _)| section.scalar(&field));
                tell(position, scalar.map_err(|error| error.within(&path.to_string()))?);
            }
            Ok(())
        })
    }

    /// A checksum of the file's bytes in memory: the same file has the same.
    pub(crate) fn checksum(&self) -> u32 {
        crc_fast::crc32_iscsi(&self.bytes)
    }

    /// Appends a record as compact JSON, straight from the file's bytes; the form is that of
    /// [`Value::write_json`].
    ///
    /// # Errors
    ///
    /// As [`record`](Database::record); `out` is then as it was before.
    pub fn write_record_json(&self, id: RecordId, out: &mut Vec<u8>) -> Result<(), MmdbError> {
        let before = out.len();
        let written = self.emit(id, &mut JsonSink::new(out));
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    /// As [`write_record_json`](Database::write_record_json), with types: the form is that of
    /// [`Value::write_typed_json`].
    ///
    /// # Errors
    ///
    /// As [`write_record_json`](Database::write_record_json).
    pub fn write_typed_record_json(
        &self,
        id: RecordId,
        out: &mut Vec<u8>,
    ) -> Result<(), MmdbError> {
        let before = out.len();
        let written = self.emit(id, &mut JsonSink::typed(out));
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    /// Every network that has a record, in address order.
    ///
    /// The networks under `::/96` of an IPv6 tree are given as IPv4 networks; the aliases that
    /// lead back there (`::ffff:0:0/96`, `2002::/16` ...) are skipped. After an error the iterator
    /// ends. A hostile tree can describe 2^128 networks with few shared nodes: the iterator ends
    /// with an error of kind `Limit` after 64 steps for each node of the file.
    #[must_use]
    pub fn networks(&self) -> Networks<'_> {
        Networks::new(&self.tree, &self.bytes)
    }

    /// Where `newer` gives other answers than this database, in address order; constant memory.
    ///
    /// ```
    /// use whered_mmdb::{Database, Value, Writer, WriterOptions};
    /// let database = |networks: &[(&str, u32)]| {
    ///     let mut writer = Writer::new(WriterOptions::default())?;
    ///     for (network, number) in networks {
    ///         writer.insert(network.parse().expect("a network"), Value::Uint32(*number))?;
    ///     }
    ///     Database::from_bytes(writer.finish()?)
    /// };
    /// let old = database(&[("192.0.2.0/24", 1)])?;
    /// let new = database(&[("192.0.2.0/24", 1), ("192.0.2.128/25", 2), ("2001:db8::/32", 6)])?;
    /// let found = old.differences(&new).collect::<Result<Vec<_>, _>>()?;
    /// let networks: Vec<String> = found.iter().map(|found| found.prefix.to_string()).collect();
    /// assert_eq!(networks, ["192.0.2.128/25", "2001:db8::/32"]);
    /// assert!(found[1].old.is_none(), "it was added");
    /// # Ok::<(), whered_mmdb::MmdbError>(())
    /// ```
    #[must_use]
    pub fn differences<'a>(&'a self, newer: &'a Database) -> Differences<'a> {
        Differences::new(self, newer)
    }

    /// Every network that this database or `other` has, with both records, equal ones too: as
    /// [`differences`](Database::differences), for those who lay one over the other.
    #[must_use]
    pub fn side_by_side<'a>(&'a self, other: &'a Database) -> Differences<'a> {
        Differences::with_equal(self, other)
    }

    /// Checks everything: metadata, the whole tree, the whole data section with pointers, text and
    /// nesting, and that every record can be decoded within the limits.
    ///
    /// Cost: linear in the file's size, in time and in memory (about one byte of memory for eight
    /// of the data section, 9 for each node, some 40 for each record and pointer target). A
    /// database on a reader is read into memory for as long as this takes.
    ///
    /// # Errors
    ///
    /// The first fault, with its byte offset and the network or field path where it was met.
    pub fn verify(&self) -> Result<Verified, MmdbError> {
        if let Some(reader) = &self.reader {
            return Database::from_bytes(open::read_whole(&**reader)?)?.verify();
        }
        match self.format {
            Format::Mmdb => verify::mmdb(&self.tree, &self.bytes, &self.section()),
            Format::Legacy(edition) => verify::legacy(&self.tree, &self.bytes, |id| {
                legacy::check(edition, id, &self.section())
            }),
        }
    }

    /// Where walks begin: for IPv4 addresses the root of their subtree (which may be a record or
    /// empty), for IPv6 addresses the tree's root; `None` for IPv6 in a file of IP version 4.
    #[must_use]
    pub fn root(&self, is_ipv4: bool) -> Option<TreeNode> {
        match (is_ipv4, self.tree.is_ipv6()) {
            (true, _) => Some(self.tree.ipv4_root()),
            (false, true) => Some(TreeNode::Node(0)),
            (false, false) => None,
        }
    }

    /// One child of a node: the right one if `bit` is set. What is below a record or an empty
    /// place is that same record or empty place. The walker must stop after the address's last
    /// bit; a tree that goes on there is broken.
    ///
    /// # Errors
    ///
    /// A number that is no node of this tree, or a record that breaks the specification.
    pub fn child(&self, node: TreeNode, bit: bool) -> Result<TreeNode, MmdbError> {
        match node {
            TreeNode::Node(number) => self.tree.child(&self.bytes, number, bit),
            TreeNode::Empty | TreeNode::Record(_) => Ok(node),
        }
    }
}

/// The plain value at `path` in a record.
fn scalar<'a>(
    section: &Section<'a>,
    id: RecordId,
    path: &FieldPath,
) -> Result<Option<Scalar<'a>>, MmdbError> {
    let Some(at) = section.locate(id.to_u32() as usize, path)? else {
        return Ok(None);
    };
    let scalar = section.resolve(at).and_then(|(field, _)| section.scalar(&field));
    scalar.map_err(|error| error.within(&path.to_string()))
}

fn as_text(scalar: Scalar<'_>) -> Option<&str> {
    match scalar {
        Scalar::String(text) => Some(text),
        _ => None,
    }
}

/// The network of an address's first bits; the address's first bit is the highest of the 128.
#[inline]
pub(crate) fn prefix(bits: u128, length_bits: u8, is_ipv4: bool) -> Prefix {
    let address = if is_ipv4 {
        IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    };
    Prefix::new(address, length_bits).expect("a walk never takes more bits than the address has")
}

#[cold]
fn ipv6_in_ipv4(address: Ipv6Addr) -> MmdbError {
    MmdbError::new(
        ErrorKind::AddressFamily,
        format!("the IPv6 address {address}"),
        "IPv4 addresses: the database is of IP version 4",
    )
}
