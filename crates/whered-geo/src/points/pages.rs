//! Pages: a collection's leaves, some at a time, as they lie in memory, for a snapshot.
//!
//! For: writing a collection to a disk in small steps between which it goes on changing.
//! Not for: reading pages back (`loader/`), files, checksums.
//!
//! A walk gives every entry that stays where it is from the walk's start to its end, whatever
//! becomes of the others: one that moves meanwhile may come twice or not at all, and one that is
//! removed may come. Applying the changes made since the start, in order, to what the pages
//! hold, has the collection as it is.
//!
//! ```text
//! page     frame, frame, ...       8-byte words, little endian, version [`PAGES_VERSION`]
//! leaf   │ u16 count │ u16 wide? │ u16 long │ u16 words │ ...     `words` words, leaf/mod.rs
//! long   │ u48 size of the bulk string          │ u16 0 │ u64 cell │ $1025\r\n...\r\n │ 0...
//! ```
//!
//! A long member's frame has the cell itself, and the bulk string is filled up to whole words with
//! zeros. The number that stands for it in its leaf means nothing outside this process.
//!
//! Invariants: a page has whole frames; a position is the first entry of what is still to come,
//! not an index, so that leaves may be split, joined and copied between two steps.
//! Concurrency: a page shares its leaves with the collection: a writer that meets one while the
//! page is kept copies it, as for a frozen view.
//! Cost: three binary searches, and a counted reference for each leaf.

use std::sync::Arc;

use super::leaf::Leaf;
use super::overflow;
use super::tree::{Position, Tree};

/// The version of the form in which pages are written; a reader knows no other.
pub const PAGES_VERSION: u16 = 1;

const _: () = assert!(cfg!(target_endian = "little"), "pages are written as they lie in memory");

/// Where a walk over the pages of a collection goes on; the default is the beginning.
#[derive(Clone, Debug, Default)]
pub struct PagePosition {
    bits: u64,
    member: Fence,
}

/// A member that outlives the collection.
#[derive(Clone, Debug)]
enum Fence {
    Copied(Box<[u8]>),
    /// The bulk string of a long member, which is not copied.
    Shared(Arc<[u8]>),
}

impl Default for Fence {
    fn default() -> Fence {
        Fence::Copied(Box::default())
    }
}

impl PagePosition {
    fn member(&self) -> &[u8] {
        match &self.member {
            Fence::Copied(member) => member,
            Fence::Shared(bulk) => overflow::member_of(bulk),
        }
    }
}

/// Some neighbouring leaves of a collection as they were at one moment; see [`Tree::pages`].
#[derive(Clone, Debug, Default)]
pub struct Pages {
    frames: Vec<Frame>,
    bytes: usize,
    next: Option<PagePosition>,
}

#[derive(Clone, Debug)]
enum Frame {
    Leaf(Leaf),
    Long { header: [u64; 2], bulk: Arc<[u8]> },
}

impl Frame {
    fn size(&self) -> usize {
        match self {
            Frame::Leaf(leaf) => size_of_val(leaf.words()),
            Frame::Long { bulk, .. } => 16 + bulk.len().next_multiple_of(8),
        }
    }
}

impl Tree {
    /// The next leaves of a walk, about `bytes_max` bytes of them: at least one while there are
    /// any, so that every walk ends, and no more than one leaf or one long member beyond.
    ///
    /// ```
    /// use whered_geo::{Cell, PagePosition, Points, PointsLoader};
    /// let mut points = Points::new();
    /// points.insert(b"fra", Cell::MIN);
    /// let (mut loader, mut number) = (PointsLoader::new(), 0);
    /// let mut position = Some(PagePosition::default());
    /// while let Some(from) = position {
    ///     let pages = points.pages(&from, 1 << 20);
    ///     let words: Vec<u64> = pages
    ///         .pieces()
    ///         .concat()
    ///         .chunks_exact(8)
    ///         .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
    ///         .collect();
    ///     loader.load(number, &words)?;
    ///     number += 1;
    ///     position = pages.into_next();
    /// }
    /// assert_eq!(loader.finish(1).cell(b"fra"), Some(Cell::MIN));
    /// # Ok::<(), whered_geo::PageError>(())
    /// ```
    pub fn pages(&self, from: &PagePosition, bytes_max: usize) -> Pages {
        let mut pages = Pages::default();
        let (Ok(at) | Err(at)) = self.locate(from.bits, from.member());
        // A leaf that ends before the position has been given already.
        let mut at = if at == self.end() { at } else { self.normalised(at) };
        while at != self.end() {
            self.prefetch_ahead(at);
            let leaf = self.leaf(at);
            if !pages.frames.is_empty() && pages.bytes + size_of_val(leaf.words()) > bytes_max {
                pages.next = Some(self.page_position(at));
                break;
            }
            if !leaf.is_all_long() {
                pages.push(Frame::Leaf(leaf.clone()));
            }
            pages.next = self.add_long(&mut pages, at, bytes_max);
            if pages.next.is_some() {
                break;
            }
            at = self.next_leaf(at);
        }
        pages
    }

    /// Adds the long members of a leaf from an entry on; if they become too many, returns where to
    /// go on. One is always added, or a small limit would be met at the same entry for ever.
    fn add_long(&self, pages: &mut Pages, at: Position, bytes_max: usize) -> Option<PagePosition> {
        let leaf = self.leaf(at);
        let mut has_one = false;
        for slot in at.slot()..leaf.len() {
            let Some(number) = leaf.overflow_number(slot) else { continue };
            let bulk = Arc::clone(self.overflow.shared(number));
            let header = [bulk.len() as u64, leaf.cell_bits(slot)];
            let frame = Frame::Long { header, bulk };
            if has_one && pages.bytes + frame.size() > bytes_max {
                return Some(self.page_position(at.with_slot(slot)));
            }
            pages.push(frame);
            has_one = true;
        }
        None
    }

    fn page_position(&self, at: Position) -> PagePosition {
        let leaf = self.leaf(at);
        let member = match leaf.overflow_number(at.slot()) {
            Some(number) => Fence::Shared(Arc::clone(self.overflow.shared(number))),
            None => Fence::Copied(leaf.member(at.slot(), &self.overflow).into()),
        };
        PagePosition { bits: leaf.cell_bits(at.slot()), member }
    }
}

impl Pages {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.size();
        self.frames.push(frame);
    }

    /// The page as one row of bytes, in pieces that need not be copied. There are some hundreds of
    /// them for a megabyte, each of whole words but for those of long members.
    pub fn pieces(&self) -> Vec<&[u8]> {
        let mut pieces = Vec::with_capacity(self.frames.len());
        for frame in &self.frames {
            match frame {
                Frame::Leaf(leaf) => pieces.push(bytemuck::cast_slice(leaf.words())),
                Frame::Long { header, bulk } => {
                    let fill = bulk.len().next_multiple_of(8) - bulk.len();
                    pieces.extend([bytemuck::cast_slice(header), bulk, &[0; 8][..fill]]);
                }
            }
        }
        pieces
    }

    /// The sum of the pieces' sizes.
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there was nothing left to give.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the walk ends with these.
    pub fn is_last(&self) -> bool {
        self.next.is_none()
    }

    /// Where the walk goes on; `None` at its end.
    pub fn into_next(self) -> Option<PagePosition> {
        self.next
    }
}
