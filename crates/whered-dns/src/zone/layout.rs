//! How a compiled zone lies in memory: one piece of bytes, a block for each owner.
//!
//! Not for: how blocks are found (`index.rs`), how they are made (`build.rs`, `compile.rs`).
//!
//! ```text
//! block (at a multiple of 8; a NodeRef is its place divided by 8)
//!   flags u8 | owner length u8 | 0 u16 | cut u32 | owner, in lower case, without the origin
//!   then each rrset, by type:
//!   type u16 | count u16 | wire length u16 | point count u16 | points u16 ... | wire
//!   then, type 0:   of servers (NS), the blocks with their addresses: count entries of [target u16 | node u32]
//!   then, 0xffff u16: the end
//!
//! wire  [C0 0C | type | class | TTL | length | data] [C0 0C | ...]     as a reply has it when the
//!       owner stands at 12 and the rrset follows the question: one copy, nothing to change
//! point where in the wire a pointer stands inside data. Its value tells its kind:
//!       12: the owner · below the end of the owner: the origin · above: a name of this very rrset
//! ```
//!
//! Numbers are in the processor's order, those inside `wire` in the network's. `cut` is the topmost
//! delegation at or above the owner. Invariants: every block ends inside the bytes; every NodeRef
//! in it is one of a block. Cost: finding a type steps over the rrsets before it.
#![deny(clippy::indexing_slicing)]

use whered_ip::image::{Image, Section};

use crate::code::RecordType;

/// The bytes of a record before its data: owner pointer, type, class, TTL, length.
pub(crate) const RECORD_HEAD_SIZE: usize = 12;
/// Where the TTL stands in a record whose owner is a pointer.
pub(crate) const TTL_AT: usize = 6;
/// The bytes of a block before its owner.
const BLOCK_HEAD_SIZE: usize = 8;
const RRSET_HEAD_SIZE: usize = 8;
const GLUE_SIZE: usize = 6;
const GLUE_TYPE: u16 = 0;
const END_TYPE: u16 = 0xffff;
const ALIGNMENT: usize = 8;
const NONE: u32 = u32::MAX;

/// There are owners below this one.
pub(crate) const HAS_CHILDREN: u8 = 1;
/// `*` is an owner below this one.
pub(crate) const HAS_WILDCARD: u8 = 2;
/// It has a CNAME.
pub(crate) const HAS_ALIAS: u8 = 4;
/// It has a DNAME.
pub(crate) const HAS_DNAME: u8 = 8;
/// It has records.
pub(crate) const HAS_DATA: u8 = 16;
/// Nobody finds this block: its owner is gone or has a newer one.
const IS_DEAD: u8 = 32;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeRef(pub(crate) u32);

/// The blocks of one zone, immutable.
#[derive(Debug)]
pub(crate) struct Arena {
    bytes: Section<u8>,
}

impl Arena {
    /// The block at a place of one.
    #[inline]
    pub(crate) fn node(&self, place: NodeRef) -> Node<'_> {
        Node { bytes: self.bytes.get(place.0 as usize * ALIGNMENT..).unwrap_or_default(), place }
    }

    /// Asks for a block before it is read; most have no more than two cache lines.
    #[inline]
    pub(crate) fn prefetch(&self, place: NodeRef) {
        let at = place.0 as usize * ALIGNMENT;
        self.bytes.prefetch(at);
        self.bytes.prefetch(at + 64);
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All owners' blocks, in the order in which they lie.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let mut at = 0;
        let blocks = std::iter::from_fn(move || {
            let place = NodeRef(u32::try_from(at / ALIGNMENT).ok()?);
            let node = Some(self.node(place)).filter(|node| !node.bytes.is_empty())?;
            at = (at + node.size_bytes()).next_multiple_of(ALIGNMENT);
            Some(node)
        });
        blocks.filter(|node| !node.has(IS_DEAD))
    }

    /// Where a block that is written behind the others begins.
    pub(crate) fn end(&self) -> Option<NodeRef> {
        u32::try_from(self.bytes.len().div_ceil(ALIGNMENT)).ok().map(NodeRef)
    }

    /// A copy with more blocks, written from [`Arena::end`] on, and with changes in its own.
    pub(crate) fn with_blocks(&self, writer: &ArenaWriter, changes: &BlockChanges) -> Arena {
        let gap = [0; ALIGNMENT];
        let gap = gap.get(..self.bytes.len().next_multiple_of(ALIGNMENT) - self.bytes.len());
        let parts = [&self.bytes[..], gap.unwrap_or_default(), &writer.bytes];
        let image = Image::edited(&parts, |bytes| {
            for NodeRef(place) in &changes.dead {
                if let Some(flags) = bytes.get_mut(*place as usize * ALIGNMENT) {
                    *flags |= IS_DEAD;
                }
            }
            for (at, node) in &changes.references {
                if let Some(place) = bytes.get_mut(*at..*at + 4) {
                    place.copy_from_slice(&node.to_le_bytes());
                }
            }
        });
        Arena { bytes: image.section(0..image.as_bytes().len()).expect("bytes stand everywhere") }
    }
}

/// What changes in blocks that stay where they are.
#[derive(Default)]
pub(crate) struct BlockChanges {
    /// Blocks that nobody may find any more.
    pub(crate) dead: Vec<NodeRef>,
    /// Where a reference to a block stands, and the block; [`NONE`](super::parsed_zone::NONE) for
    /// no block.
    pub(crate) references: Vec<(usize, u32)>,
}

impl Arena {
    /// Where the reference to its delegation stands in a block.
    pub(crate) fn cut_offset(node: NodeRef) -> usize {
        node.0 as usize * ALIGNMENT + 4
    }
}

/// One owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'z> {
    bytes: &'z [u8],
    pub(crate) place: NodeRef,
}

impl<'z> Node<'z> {
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.bytes.first().is_some_and(|flags| flags & flag != 0)
    }

    /// The owner without the origin, in lower case.
    #[inline]
    pub(crate) fn owner(&self) -> &'z [u8] {
        let length = self.bytes.get(1).copied().unwrap_or(0).into();
        self.bytes.get(BLOCK_HEAD_SIZE..).and_then(|rest| rest.get(..length)).unwrap_or_default()
    }

    /// The topmost delegation at or above this owner.
    #[inline]
    pub(crate) fn cut(&self) -> Option<NodeRef> {
        let cut = self.bytes.get(4..8).and_then(<[u8]>::first_chunk).copied();
        let cut = cut.map_or(NONE, u32::from_le_bytes);
        (cut != NONE).then_some(NodeRef(cut))
    }

    /// The records of a type.
    #[inline]
    pub(crate) fn rrset(&self, record_type: RecordType) -> Option<Rrset<'z>> {
        let mut rest = self.parts();
        loop {
            let part = Part::read(rest)?;
            if part.rrset.record_type.0 == record_type.0 && record_type.0 != GLUE_TYPE {
                return Some(part.rrset);
            }
            rest = part.behind;
        }
    }

    /// All of its rrsets, by type.
    pub(crate) fn rrsets(&self) -> impl Iterator<Item = Rrset<'z>> + use<'z> {
        let mut rest = self.parts();
        let parts = std::iter::from_fn(move || {
            let part = Part::read(rest)?;
            rest = part.behind;
            Some(part.rrset)
        });
        parts.filter(|rrset| rrset.record_type.0 != GLUE_TYPE)
    }

    /// Where the references to the servers' blocks stand in the arena, and those blocks.
    pub(crate) fn glue_references(&self) -> impl Iterator<Item = (usize, NodeRef)> + use<'z> {
        let start = self.place.0 as usize * ALIGNMENT;
        let block = self.bytes.len();
        let mut rest = self.parts();
        let mut list = None;
        while let Some(part) = Part::read(rest) {
            if part.rrset.record_type.0 == GLUE_TYPE {
                let behind = part.behind.len();
                list = Some((start + block - behind - part.rrset.wire.len(), part.rrset.wire));
            }
            rest = part.behind;
        }
        let (first, wire) = list.unwrap_or((0, &[]));
        wire.as_chunks::<GLUE_SIZE>().0.iter().enumerate().map(move |(index, entry)| {
            let &[_, _, c, d, e, f] = entry;
            (first + index * GLUE_SIZE + 2, NodeRef(u32::from_le_bytes([c, d, e, f])))
        })
    }

    /// The servers of this delegation, or of the zone at its apex, whose addresses the zone has:
    /// where the server's name stands in the wire of NS, and its node.
    #[inline]
    pub(crate) fn glue(&self) -> impl Iterator<Item = (usize, NodeRef)> + use<'z> {
        let mut rest = self.parts();
        let mut list: &[u8] = &[];
        while let Some(part) = Part::read(rest) {
            if part.rrset.record_type.0 == GLUE_TYPE {
                list = part.rrset.wire;
            }
            rest = part.behind;
        }
        list.as_chunks::<GLUE_SIZE>().0.iter().map(|&[a, b, c, d, e, f]| {
            (u16::from_le_bytes([a, b]).into(), NodeRef(u32::from_le_bytes([c, d, e, f])))
        })
    }

    /// The bytes of its block, without those that fill up to the next.
    pub(crate) fn size_bytes(&self) -> usize {
        let mut rest = self.parts();
        while let Some(part) = Part::read(rest) {
            rest = part.behind;
        }
        self.bytes.len() - rest.len() + size_of_val(&END_TYPE)
    }

    #[inline]
    fn parts(&self) -> &'z [u8] {
        let length = usize::from(self.bytes.get(1).copied().unwrap_or(0));
        self.bytes.get(BLOCK_HEAD_SIZE + length..).unwrap_or_default()
    }
}

/// All records of one owner and type, compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rrset<'z> {
    pub(crate) record_type: RecordType,
    pub(crate) count: u16,
    points: &'z [u8],
    pub(crate) wire: &'z [u8],
}

impl<'z> Rrset<'z> {
    /// An address record, in wire form, behind a question for its owner.
    #[inline]
    pub(crate) fn of_address(wire: &'z [u8]) -> Rrset<'z> {
        Rrset { record_type: RecordType::A, count: 1, points: &[], wire }
    }

    /// Where pointers stand inside data.
    #[inline]
    pub(crate) fn points(&self) -> impl Iterator<Item = usize> + use<'z> {
        self.points.as_chunks::<2>().0.iter().map(|point| u16::from_le_bytes(*point).into())
    }

    /// The data of the first record.
    #[inline]
    pub(crate) fn first_data(&self) -> &'z [u8] {
        let length = self.wire.get(10..12).and_then(<[u8]>::first_chunk).copied();
        let length = usize::from(u16::from_be_bytes(length.unwrap_or_default()));
        self.wire.get(RECORD_HEAD_SIZE..RECORD_HEAD_SIZE + length).unwrap_or_default()
    }

    /// The records: TTL and data. For types whose data have no compressed names.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, &'z [u8])> + use<'z> {
        let mut rest = self.wire;
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<RECORD_HEAD_SIZE>()?;
            let &[.., t0, t1, t2, t3, l0, l1] = head;
            let length = u16::from_be_bytes([l0, l1]);
            let (data, behind) = behind.split_at_checked(length.into())?;
            rest = behind;
            Some((u32::from_be_bytes([t0, t1, t2, t3]), data))
        })
    }

    /// The TTL of its records in seconds.
    pub(crate) fn ttl_seconds(&self) -> u32 {
        let ttl = self.wire.get(TTL_AT..).and_then(<[u8]>::first_chunk).copied();
        u32::from_be_bytes(ttl.unwrap_or_default())
    }
}

/// An rrset or a list of glue, and what is behind it.
struct Part<'z> {
    rrset: Rrset<'z>,
    behind: &'z [u8],
}

impl<'z> Part<'z> {
    #[inline]
    fn read(bytes: &'z [u8]) -> Option<Part<'z>> {
        let record_type = u16::from_le_bytes(*bytes.first_chunk()?);
        if record_type == END_TYPE {
            return None;
        }
        let (head, rest) = bytes.split_first_chunk::<RRSET_HEAD_SIZE>()?;
        let [_, _, c0, c1, w0, w1, p0, p1] = *head;
        let (points, rest) =
            rest.split_at_checked(2 * usize::from(u16::from_le_bytes([p0, p1])))?;
        let (wire, behind) = rest.split_at_checked(u16::from_le_bytes([w0, w1]).into())?;
        let count = u16::from_le_bytes([c0, c1]);
        let rrset = Rrset { record_type: RecordType(record_type), count, points, wire };
        Some(Part { rrset, behind })
    }
}

/// An rrset that no zone has: of a pool, or the SOA of negative answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnedRrset {
    record_type: RecordType,
    count: u16,
    points: Box<[u8]>,
    wire: Box<[u8]>,
}

impl OwnedRrset {
    #[inline]
    pub(crate) fn get(&self) -> Rrset<'_> {
        let OwnedRrset { record_type, count, ref points, ref wire } = *self;
        Rrset { record_type, count, points, wire }
    }

    /// A copy with another TTL, if it is one record.
    pub(crate) fn with_ttl(&self, ttl_seconds: u32) -> OwnedRrset {
        let mut rrset = self.clone();
        if let Some(place) = rrset.wire.get_mut(TTL_AT..TTL_AT + 4) {
            place.copy_from_slice(&ttl_seconds.to_be_bytes());
        }
        rrset
    }
}

/// A compiled rrset that is put into a block next.
#[derive(Debug, Default)]
pub(crate) struct NewRrset {
    pub(crate) record_type: RecordType,
    pub(crate) count: u16,
    pub(crate) points: Vec<u16>,
    pub(crate) wire: Vec<u8>,
}

impl NewRrset {
    pub(crate) fn to_owned(&self) -> OwnedRrset {
        OwnedRrset {
            record_type: self.record_type,
            count: self.count,
            points: self.points.iter().flat_map(|point| point.to_le_bytes()).collect(),
            wire: self.wire.as_slice().into(),
        }
    }
}

impl NewRrset {
    /// Gives each record its own TTL, in order.
    pub(crate) fn set_ttls(&mut self, ttls_seconds: impl Iterator<Item = u32>) {
        let mut at = 0;
        for ttl_seconds in ttls_seconds {
            let Some(head) = self.wire.get_mut(at..at + RECORD_HEAD_SIZE) else { return };
            if let Some(place) = head.get_mut(TTL_AT..TTL_AT + 4) {
                place.copy_from_slice(&ttl_seconds.to_be_bytes());
            }
            let length = head.last_chunk().map_or(0, |length| u16::from_be_bytes(*length));
            at += RECORD_HEAD_SIZE + usize::from(length);
        }
    }
}

/// Writes blocks one after another.
#[derive(Debug, Default)]
pub(crate) struct ArenaWriter {
    bytes: Vec<u8>,
    /// The place of the first block.
    first: u32,
}

impl ArenaWriter {
    pub(crate) fn with_capacity(size_bytes: usize) -> ArenaWriter {
        ArenaWriter { bytes: Vec::with_capacity(size_bytes), first: 0 }
    }

    /// Writes blocks that come to stand behind others.
    pub(crate) fn behind(NodeRef(first): NodeRef) -> ArenaWriter {
        ArenaWriter { bytes: Vec::new(), first }
    }

    /// Begins a block; none when the zone is larger than places can tell (32 GiB).
    pub(crate) fn begin(&mut self, flags: u8, owner: &[u8]) -> Option<NodeRef> {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let place = u32::try_from(self.bytes.len() / ALIGNMENT).ok()?;
        let place = place.checked_add(self.first).filter(|&at| at != NONE)?;
        self.bytes.extend_from_slice(&[flags, owner.len() as u8, 0, 0]);
        self.bytes.extend_from_slice(&NONE.to_le_bytes());
        self.bytes.extend_from_slice(owner);
        Some(NodeRef(place))
    }

    /// Tells the delegation of a block that has been begun.
    pub(crate) fn set_cut(&mut self, node: NodeRef, cut: NodeRef) {
        let at = (node.0 - self.first) as usize * ALIGNMENT + 4;
        self.set_reference(at, cut);
    }

    fn set_reference(&mut self, at: usize, node: NodeRef) {
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&node.0.to_le_bytes());
        }
    }

    /// Adds an rrset to the block; its wire has at most 65535 bytes.
    pub(crate) fn rrset(&mut self, rrset: &NewRrset) {
        let head = [rrset.record_type.0, rrset.count, rrset.wire.len() as u16];
        self.head(head, rrset.points.len());
        for point in &rrset.points {
            self.bytes.extend_from_slice(&point.to_le_bytes());
        }
        self.bytes.extend_from_slice(&rrset.wire);
    }

    fn head(&mut self, [record_type, count, wire_length]: [u16; 3], point_count: usize) {
        for number in [record_type, count, wire_length, point_count as u16] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Adds a delegation's glue by the places of the servers' names, and gives where the nodes are
    /// to be told with [`ArenaWriter::set_glue`].
    pub(crate) fn glue(&mut self, targets: &[u16]) -> usize {
        self.head([GLUE_TYPE, targets.len() as u16, (targets.len() * GLUE_SIZE) as u16], 0);
        let at = self.bytes.len();
        for target in targets {
            self.bytes.extend_from_slice(&target.to_le_bytes());
            self.bytes.extend_from_slice(&NONE.to_le_bytes());
        }
        at
    }

    /// Tells the node of entry `index` of a list of glue.
    pub(crate) fn set_glue(&mut self, list: usize, index: usize, node: NodeRef) {
        self.set_reference(list + index * GLUE_SIZE + 2, node);
    }

    /// Ends the block.
    pub(crate) fn end(&mut self) {
        self.bytes.extend_from_slice(&END_TYPE.to_le_bytes());
    }

    /// Moves the blocks to where they stay: in huge pages, if they are many.
    pub(crate) fn finish(self) -> Arena {
        let (image, places) = Image::with_sections(&[&self.bytes]);
        let place = places.into_iter().next().expect("one section, one place");
        Arena { bytes: image.section(place).expect("bytes stand everywhere") }
    }
}
