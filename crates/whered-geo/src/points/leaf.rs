//! A leaf: a few hundred neighbouring entries of a collection, and the text kept outside.
//!
//! For: entries in (cell, member) order, with members in the form in which replies carry them.
//! Not for: finding the leaf (`lookup.rs`) or keeping leaves balanced (`update.rs`).
//!
//! ```text
//! cells   u64  │ c0 │ c1 │ c2 │ ...            ascending
//! starts  u16  │ 0  │ 10 │ 15 │ ...            where each entry's text begins
//! text    u8   │ $3\r\nfra\r\n │ !0007 │ ...    one after the other, in the same order
//! ```
//!
//! Storage format of a text, which later replies copy as it stands: the RESP bulk string `$`,
//! length in decimal, CRLF, the member's bytes, CRLF. A member longer than [`LONGEST_INSIDE_BYTES`]
//! lies in [`Outside`] in the same form; its entry is `!` and its number there, 4 bytes little
//! endian. So a leaf's text stays below 64 KiB whatever the members are, and `u16` suffices.
//!
//! Invariants: the three columns have the same entries; (cell, member) ascends strictly; a leaf
//! in the tree is never empty and has at most [`MOST_ENTRIES`] entries and [`MOST_TEXT_BYTES`]
//! bytes of text, except between an insertion and the split that follows it.
//! Cost: finding an entry is a binary search; inserting moves half the leaf, some 3 KB.

use std::ops::Range;

/// The most entries of a leaf.
pub(super) const MOST_ENTRIES: usize = 256;
/// The most bytes of text in a leaf with more than one entry.
pub(super) const MOST_TEXT_BYTES: usize = 32 << 10;
/// A longer member is kept outside its leaf.
pub(super) const LONGEST_INSIDE_BYTES: usize = 1024;

const OUTSIDE_MARK: u8 = b'!';

/// Entries in (cell, member) order.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    cells: Vec<u64>,
    starts: Vec<u16>,
    text: Vec<u8>,
    /// How many of the entries lie outside.
    long: usize,
}

/// The keys of a leaf, ascending.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys<'a> {
    /// Distances from a base, where the cells of the leaf lie close together.
    #[allow(dead_code, reason = "leaves that store such keys are about to come")]
    Narrow {
        /// What is added to each.
        base: u64,
        /// The distances.
        deltas: &'a [u32],
    },
    /// Cell bits.
    Wide(&'a [u64]),
}

impl Leaf {
    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The bits of all cells, ascending.
    pub(super) fn cells(&self) -> &[u64] {
        &self.cells
    }

    /// The bits of all cells in the form in which they are stored.
    pub(super) fn keys(&self) -> Keys<'_> {
        Keys::Wide(&self.cells)
    }

    /// The bits of one entry's cell.
    pub(super) fn cell_bits(&self, slot: usize) -> u64 {
        self.cells[slot]
    }

    /// The RESP bulk strings of neighbouring entries, one after the other; `None` if one of them
    /// lies outside.
    pub(super) fn bulks(&self, slots: Range<usize>) -> Option<&[u8]> {
        let start = self.text_range(slots.start).start;
        let end = self.text_range(slots.end).start;
        let is_here = |slot: usize| self.text[self.text_range(slot).start] != OUTSIDE_MARK;
        (self.long == 0 || slots.into_iter().all(is_here)).then(|| &self.text[start..end])
    }

    /// The RESP bulk string of an entry.
    pub(super) fn bulk<'a>(&'a self, slot: usize, outside: &'a Outside) -> &'a [u8] {
        let text = &self.text[self.text_range(slot)];
        if text[0] == OUTSIDE_MARK { outside.bulk(number_of(text)) } else { text }
    }

    /// The member of an entry.
    pub(super) fn member<'a>(&'a self, slot: usize, outside: &'a Outside) -> &'a [u8] {
        let text = &self.text[self.text_range(slot)];
        if text[0] == OUTSIDE_MARK { outside.member(number_of(text)) } else { member_of(text) }
    }

    /// Where the entry is (`Ok`) or would be inserted (`Err`).
    pub(super) fn find(&self, bits: u64, member: &[u8], outside: &Outside) -> Result<usize, usize> {
        let first = self.cells.partition_point(|&cell| cell < bits);
        let mut ties = self.cells[first..].iter().take_while(|&&cell| cell == bits).count();
        let mut slot = first;
        while ties > 0 {
            let half = ties / 2;
            match self.member(slot + half, outside).cmp(member) {
                std::cmp::Ordering::Equal => return Ok(slot + half),
                std::cmp::Ordering::Less => {
                    slot += half + 1;
                    ties -= half + 1;
                }
                std::cmp::Ordering::Greater => ties = half,
            }
        }
        Err(slot)
    }

    /// Inserts an entry before `slot`; a long member goes outside.
    pub(super) fn insert(&mut self, slot: usize, bits: u64, member: &[u8], outside: &mut Outside) {
        let mut bulk = Vec::new();
        if member.len() > LONGEST_INSIDE_BYTES {
            self.long += 1;
            bulk.push(OUTSIDE_MARK);
            bulk.extend_from_slice(&outside.insert(member).to_le_bytes());
        } else {
            write_bulk(member, &mut bulk);
        }
        let at = self.text_range(slot).start;
        make_room(&mut self.cells, 1);
        make_room(&mut self.starts, 1);
        make_room(&mut self.text, bulk.len());
        self.cells.insert(slot, bits);
        self.starts.insert(slot, short(at));
        for start in &mut self.starts[slot + 1..] {
            *start += short(bulk.len());
        }
        self.text.splice(at..at, bulk);
    }

    /// Removes an entry and its text, outside too.
    pub(super) fn remove(&mut self, slot: usize, outside: &mut Outside) {
        let range = self.text_range(slot);
        if self.text[range.start] == OUTSIDE_MARK {
            self.long -= 1;
            outside.remove(number_of(&self.text[range.clone()]));
        }
        self.cells.remove(slot);
        self.starts.remove(slot);
        for start in &mut self.starts[slot..] {
            *start -= short(range.len());
        }
        self.text.drain(range);
    }

    /// Whether the leaf must be split.
    pub(super) fn is_too_large(&self) -> bool {
        self.len() > MOST_ENTRIES || (self.len() > 1 && self.text.len() > MOST_TEXT_BYTES)
    }

    /// Whether this leaf and the next one would make a leaf that is no more than three quarters
    /// full, so that one insertion does not split it again.
    pub(super) fn can_take(&self, next: &Leaf) -> bool {
        self.len() + next.len() <= MOST_ENTRIES / 4 * 3
            && self.text.len() + next.text.len() <= MOST_TEXT_BYTES / 4 * 3
    }

    /// Cuts off the upper half, of the text if that is what is too large. Entries that arrive in
    /// order leave full leaves behind: a last insertion cuts off little.
    pub(super) fn split(&mut self, inserted_slot: usize) -> Leaf {
        let last = self.len() - 1;
        let slot = if inserted_slot == last && last > 0 {
            (last - last / 16).max(1)
        } else if self.text.len() > MOST_TEXT_BYTES {
            let half = self.text.len() / 2;
            self.starts.partition_point(|&start| usize::from(start) < half).clamp(1, last)
        } else {
            self.len() / 2
        };
        let at = self.text_range(slot).start;
        let mut upper = Leaf {
            long: 0,
            cells: self.cells[slot..].to_vec(),
            starts: self.starts[slot..].iter().map(|&start| start - short(at)).collect(),
            text: self.text[at..].to_vec(),
        };
        let is_long = |&slot: &usize| upper.text[upper.text_range(slot).start] == OUTSIDE_MARK;
        upper.long = (0..upper.len()).filter(is_long).count();
        self.long -= upper.long;
        self.cells.truncate(slot);
        self.starts.truncate(slot);
        self.text.truncate(at);
        self.shrink();
        upper
    }

    /// Appends all entries of the leaf that follows this one.
    pub(super) fn append(&mut self, next: &Leaf) {
        let shift = short(self.text.len());
        self.cells.extend_from_slice(&next.cells);
        self.starts.extend(next.starts.iter().map(|&start| start + shift));
        self.text.extend_from_slice(&next.text);
        self.long += next.long;
        self.shrink();
    }

    /// Heap bytes of the columns.
    pub(super) fn memory_bytes(&self) -> usize {
        self.cells.capacity() * 8 + self.starts.capacity() * 2 + self.text.capacity()
    }

    fn shrink(&mut self) {
        self.cells.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.text.shrink_to_fit();
    }

    /// The text of an entry; for the slot after the last one, the empty end.
    fn text_range(&self, slot: usize) -> Range<usize> {
        let edge = |slot: usize| self.starts.get(slot).map_or(self.text.len(), |&s| s.into());
        edge(slot)..edge(slot + 1)
    }
}

/// Grows a column by an eighth rather than by double, which would leave half of a leaf empty.
fn make_room<T>(column: &mut Vec<T>, more: usize) {
    if column.capacity() - column.len() < more {
        column.reserve_exact(more + column.len() / 8);
    }
}

/// A text position; leaves are split long before it could overflow.
fn short(position: usize) -> u16 {
    u16::try_from(position).expect("a leaf has less than 64 KiB of text")
}

fn write_bulk(member: &[u8], bulk: &mut Vec<u8>) {
    let length = member.len().to_string();
    bulk.reserve_exact(1 + length.len() + 2 + member.len() + 2);
    bulk.push(b'$');
    bulk.extend_from_slice(length.as_bytes());
    bulk.extend_from_slice(b"\r\n");
    bulk.extend_from_slice(member);
    bulk.extend_from_slice(b"\r\n");
}

/// The member within its RESP bulk string.
fn member_of(bulk: &[u8]) -> &[u8] {
    let digits = bulk.iter().take_while(|&&byte| byte != b'\r').count();
    &bulk[digits + 2..bulk.len() - 2]
}

fn number_of(text: &[u8]) -> u32 {
    let bytes = text[1..].try_into().expect("an entry kept outside has a number of 4 bytes");
    u32::from_le_bytes(bytes)
}

/// The long members of a collection, each in its own allocation, numbered.
#[derive(Clone, Debug, Default)]
pub(super) struct Outside {
    bulks: Vec<Option<Box<[u8]>>>,
    free: Vec<u32>,
    bytes: usize,
}

impl Outside {
    fn member(&self, number: u32) -> &[u8] {
        member_of(self.bulk(number))
    }

    fn bulk(&self, number: u32) -> &[u8] {
        let bulk = self.bulks[number as usize].as_deref();
        bulk.expect("a number in a leaf belongs to a long member")
    }

    fn insert(&mut self, member: &[u8]) -> u32 {
        let mut bulk = Vec::new();
        write_bulk(member, &mut bulk);
        self.bytes += bulk.len();
        let bulk = Some(bulk.into_boxed_slice());
        if let Some(number) = self.free.pop() {
            self.bulks[number as usize] = bulk;
            return number;
        }
        self.bulks.push(bulk);
        u32::try_from(self.bulks.len() - 1).expect("four billion long members exceed any memory")
    }

    fn remove(&mut self, number: u32) {
        let bulk = self.bulks[number as usize].take();
        self.bytes -= bulk.expect("a long member is removed once").len();
        self.free.push(number);
    }

    /// Heap bytes of the long members and their table.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.bulks.capacity() * 16 + self.free.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_as_reply_bulk_strings() {
        let (mut leaf, mut outside) = (Leaf::default(), Outside::default());
        leaf.insert(0, 9, b"fra", &mut outside);
        leaf.insert(0, 5, b"", &mut outside);
        leaf.insert(2, 9, &[b'x'; 1025], &mut outside);
        assert_eq!(leaf.text, b"$0\r\n\r\n$3\r\nfra\r\n!\0\0\0\0");
        assert_eq!(leaf.member(0, &outside), b"");
        assert_eq!(leaf.member(1, &outside), b"fra");
        assert_eq!(leaf.member(2, &outside), [b'x'; 1025]);
        assert_eq!(leaf.find(9, b"fra", &outside), Ok(1));
        assert_eq!(leaf.find(9, b"fraa", &outside), Err(2));
        leaf.remove(2, &mut outside);
        leaf.remove(0, &mut outside);
        assert_eq!(leaf.text, b"$3\r\nfra\r\n");
        assert_eq!(outside.bytes, 0);
    }

    #[test]
    fn members_of_every_length_come_back() {
        for length in [0, 1, 9, 10, 99, 100, 999, 1000, 1024, 1025, 9999, 10_000, 1 << 20] {
            let (mut leaf, mut outside) = (Leaf::default(), Outside::default());
            let member = vec![b'\r'; length];
            leaf.insert(0, 1, &member, &mut outside);
            assert_eq!(leaf.member(0, &outside), member);
        }
    }

    #[test]
    fn a_leaf_of_long_texts_is_split_by_its_bytes() {
        let (mut leaf, mut outside) = (Leaf::default(), Outside::default());
        while !leaf.is_too_large() {
            leaf.insert(0, 100 - leaf.len() as u64, &[b'm'; 1024], &mut outside);
        }
        let upper = leaf.split(0);
        assert!(!leaf.is_too_large() && !upper.is_too_large());
        assert!(leaf.len().abs_diff(upper.len()) <= 1);
    }
}
