//! The bytes of members, and the overflow store of those that are too long for a leaf.
//!
//! For: the form of members in leaves (drawn in `leaf/mod.rs`), and members of more than a
//! kilobyte. Not for: which entry a member belongs to.
//!
//! ```text
//! shelves ─┬ Shelf │ - │ bulk │ bulk │ ... 256 │      number = 256 * shelf + place
//!          └ Shelf │ ...                              each bulk counted by reference
//! ```
//!
//! Concurrency: shelves and bulks are shared with frozen views; a writer copies a shelf that
//! somebody else holds, 256 references, never a text.
//! Cost: two indirections to read; to put in or take out, what is copied for frozen views.

use std::sync::Arc;

use super::memory;

/// A longer member is kept in the overflow store.
pub(super) const LONGEST_INSIDE_BYTES: usize = 1024;

const OVERFLOW_MARK: u8 = b'!';
const SHELF_PLACES: usize = 256;

/// The form of a member in a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    /// The member, not longer than [`LONGEST_INSIDE_BYTES`].
    Inside(&'a [u8]),
    /// The number of a long member.
    Overflow(u32),
}

impl Text<'_> {
    pub(super) fn is_overflow(self) -> bool {
        matches!(self, Text::Overflow(_))
    }

    /// Bytes in the leaf.
    pub(super) fn size(self) -> usize {
        match self {
            Text::Inside(member) => bulk_size(member.len()),
            Text::Overflow(_) => 5,
        }
    }

    /// Writes the text into a place of its size.
    pub(super) fn write(self, to: &mut [u8]) {
        match self {
            Text::Inside(member) => write_bulk(member, to),
            Text::Overflow(number) => {
                to[0] = OVERFLOW_MARK;
                to[1..].copy_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// The number of a long member, if this is a text that stands for one.
pub(super) fn number_of(text: &[u8]) -> Option<u32> {
    if text[0] != OVERFLOW_MARK {
        return None;
    }
    Some(u32::from_le_bytes(text[1..].try_into().expect("a number overflow has four bytes")))
}

/// The member within its RESP bulk string.
pub(super) fn member_of(bulk: &[u8]) -> &[u8] {
    let digits = bulk.iter().take_while(|&&byte| byte != b'\r').count();
    &bulk[digits + 2..bulk.len() - 2]
}

/// Whether this is a bulk string as [`Text::Inside`] writes it, to the byte.
pub(super) fn is_inside_bulk(text: &[u8]) -> bool {
    let size = text.len();
    // The size of the whole tells that of the member, and so every byte before it.
    let is_headed = match size {
        6..=15 => text[..4] == [b'$', b'0' + (size - 6) as u8, b'\r', b'\n'],
        17..=106 => is_headed(text, size - 7, 2),
        108..=1007 => is_headed(text, size - 8, 3),
        1009.. => size - 9 <= LONGEST_INSIDE_BYTES && is_headed(text, size - 9, 4),
        _ => false,
    };
    is_headed && text.ends_with(b"\r\n")
}

/// Whether a member begins with this length in this many digits.
fn is_headed(text: &[u8], length: usize, digits: usize) -> bool {
    let mut rest = length;
    let is_length = text[1..=digits].iter().rev().all(|&byte| {
        let digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        byte == digit
    });
    text[0] == b'$' && is_length && text[digits + 1..digits + 3] == *b"\r\n"
}

/// Whether this is a long member's bulk string, to the byte.
pub(super) fn is_long_bulk(text: &[u8]) -> bool {
    let digits = text.iter().take(20).take_while(|&&byte| byte != b'\r').count().saturating_sub(1);
    let Some(length) = text.len().checked_sub(digits + 5) else { return false };
    length > LONGEST_INSIDE_BYTES
        && bulk_size(length) == text.len()
        && is_headed(text, length, digits)
        && text.ends_with(b"\r\n")
}

/// Whether this is what stands for a long member.
pub(super) fn is_long_mark(text: &[u8]) -> bool {
    text.len() == 5 && text[0] == OVERFLOW_MARK
}

/// The member within a bulk string that lies inside a leaf: the size of the whole tells how many
/// digits its length has.
#[inline]
pub(super) fn inside_member_of(bulk: &[u8]) -> &[u8] {
    let size = bulk.len();
    let digits = 1 + usize::from(size > 15) + usize::from(size > 106) + usize::from(size > 1007);
    &bulk[digits + 3..size - 2]
}

fn bulk_size(member_size: usize) -> usize {
    member_size.checked_ilog10().unwrap_or(0) as usize + 6 + member_size
}

fn write_bulk(member: &[u8], to: &mut [u8]) {
    let text_at = to.len() - member.len() - 2;
    to[0] = b'$';
    let mut rest = member.len();
    for digit in to[1..text_at - 2].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    to[text_at - 2..text_at].copy_from_slice(b"\r\n");
    to[text_at..text_at + member.len()].copy_from_slice(member);
    to[text_at + member.len()..].copy_from_slice(b"\r\n");
}

/// Long members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overflow {
    shelves: Vec<Arc<Shelf>>,
    free: Vec<u32>,
    bytes: usize,
}

type Shelf = Vec<Option<Arc<[u8]>>>;

impl Overflow {
    pub(super) const EMPTY: Overflow = Overflow { shelves: Vec::new(), free: Vec::new(), bytes: 0 };

    pub(super) fn member(&self, number: u32) -> &[u8] {
        member_of(self.bulk(number))
    }

    /// A long member as a RESP bulk string.
    pub(super) fn bulk(&self, number: u32) -> &[u8] {
        self.shared(number)
    }

    /// The long member itself, to be kept.
    pub(super) fn shared(&self, number: u32) -> &Arc<[u8]> {
        let place = &self.shelves[number as usize / SHELF_PLACES][number as usize % SHELF_PLACES];
        place.as_ref().expect("a leaf has only numbers of members that exist")
    }

    pub(super) fn insert(&mut self, member: &[u8]) -> u32 {
        let mut bulk: Arc<[u8]> = std::iter::repeat_n(0, bulk_size(member.len())).collect();
        write_bulk(member, Arc::get_mut(&mut bulk).expect("nobody else has it yet"));
        self.bytes += memory::allocated_shared(bulk.len());
        if let Some(number) = self.free.pop() {
            let shelf = Arc::make_mut(&mut self.shelves[number as usize / SHELF_PLACES]);
            shelf[number as usize % SHELF_PLACES] = Some(bulk);
            return number;
        }
        if self.shelves.last().is_none_or(|shelf| shelf.len() == SHELF_PLACES) {
            self.shelves.push(Arc::default());
        }
        let shelves_before = self.shelves.len() - 1;
        let shelf = Arc::make_mut(&mut self.shelves[shelves_before]);
        shelf.push(Some(bulk));
        u32::try_from(shelves_before * SHELF_PLACES + shelf.len() - 1)
            .expect("four billion long members exceed any memory")
    }

    pub(super) fn remove(&mut self, number: u32) {
        let shelf = Arc::make_mut(&mut self.shelves[number as usize / SHELF_PLACES]);
        let bulk = shelf[number as usize % SHELF_PLACES].take();
        let size = bulk.expect("a long member is removed once").len();
        self.bytes -= memory::allocated_shared(size);
        self.free.push(number);
    }

    /// The bytes that the allocator takes for the members, added up anew.
    #[cfg(test)]
    pub(super) fn recounted_text_bytes(&self) -> usize {
        let bulks = self.shelves.iter().flat_map(|shelf| shelf.iter().flatten());
        bulks.map(|bulk| memory::allocated_shared(bulk.len())).sum()
    }

    /// The bytes that the allocator takes for the members, counted at each change.
    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes that the allocator takes for the long members and their table, which is shared
    /// itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let places = memory::allocated_room::<Option<Arc<[u8]>>>;
        let last = self.shelves.last().map_or(0, |shelf| places(shelf.capacity()));
        let full = self.shelves.len().saturating_sub(1) * places(SHELF_PLACES);
        let shelves = self.shelves.len() * memory::allocated_shared(size_of::<Shelf>());
        let own = memory::allocated_shared(size_of::<Overflow>())
            + memory::allocated_room::<Arc<Shelf>>(self.shelves.capacity())
            + memory::allocated_room::<u32>(self.free.capacity());
        self.bytes + last + full + shelves + own
    }
}
