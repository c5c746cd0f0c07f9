//! Members' names as a batch carries them from stage to stage.
//!
//! For: comparing and writing nearly all names without going to where they came from, which
//! would be a cache miss each time. Not for: what stands in a leaf (`overflow.rs`).
//!
//! ```text
//! Number  │ a decimal number below 2^31 │
//! Name    │ up to 15 bytes, then zeros                │ length │
//!         │ begins at (u64) │ length (u32) │ text │ - │ 255    │      in one of some texts
//! ```
//!
//! What a batch carries is written twice and read twice, mostly in memory that the process touches
//! for the first time: numbers, which most names are, go by themselves in half of the space.
//!
//! Invariant: a batch that carries numbers carries no number as a `Name`.
//! Cost: 4 or 16 bytes; a longer name is looked up in its text.

use std::ops::Range;

use crate::points::number::{MOST_DIGITS, name_of};

/// The form of a name in a batch.
pub(in crate::points) trait BatchName: Copy + Default {
    /// Whether both stand for the same name.
    fn is_same(self, other: Self, texts: Texts<'_>) -> bool;

    /// The name itself.
    fn name(self) -> Name;

    /// The name's length in bytes; of a number what it has at most.
    fn len(self, texts: Texts<'_>) -> usize;
}

/// A name that is a decimal number below 2^31.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::points) struct Number(pub(in crate::points) u32);

impl BatchName for Number {
    #[inline]
    fn is_same(self, other: Number, _: Texts<'_>) -> bool {
        self == other
    }

    #[inline]
    fn name(self) -> Name {
        let (mut bytes, length) = name_of(self.0);
        bytes[15] = length as u8;
        Name(bytes)
    }

    #[inline]
    fn len(self, _: Texts<'_>) -> usize {
        MOST_DIGITS
    }
}

impl BatchName for Name {
    #[inline]
    fn is_same(self, other: Name, texts: Texts<'_>) -> bool {
        self == other
            || self.is_elsewhere() && other.is_elsewhere() && self.text(texts) == other.text(texts)
    }

    #[inline]
    fn name(self) -> Name {
        self
    }

    #[inline]
    fn len(self, texts: Texts<'_>) -> usize {
        self.bytes(texts).len()
    }
}

/// The names that are not in a [`Name`] themselves: one text for each part of a batch.
pub(in crate::points) type Texts<'a> = &'a [&'a [u8]];

/// A longer name is in a text.
const LONGEST: usize = 15;
const ELSEWHERE: u8 = u8::MAX;

/// A name, or where it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::points) struct Name([u8; 16]);

impl Name {
    /// Makes a name; a long one is appended to `text`, which will be the one with this number.
    #[inline]
    pub(in crate::points) fn new(member: &[u8], text: &mut Vec<u8>, text_number: u8) -> Name {
        let mut name = [0; 16];
        if member.len() <= LONGEST {
            name[..member.len()].copy_from_slice(member);
            name[15] = member.len() as u8;
            return Name(name);
        }
        let size = u32::try_from(member.len()).expect("a payload has less than 4 GiB");
        name[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
        name[8..12].copy_from_slice(&size.to_le_bytes());
        name[12] = text_number;
        name[15] = ELSEWHERE;
        text.extend_from_slice(member);
        Name(name)
    }

    /// The name's bytes.
    #[inline]
    pub(in crate::points) fn bytes<'a>(&'a self, texts: Texts<'a>) -> &'a [u8] {
        if self.is_elsewhere() {
            return self.text(texts);
        }
        // The mask says what the compiler cannot know, and saves a comparison.
        &self.0[..usize::from(self.0[15] & 15)]
    }

    /// The name's bytes, if it is in this text or itself.
    pub(in crate::points) fn bytes_of<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        match self.is_elsewhere() {
            true => &text[self.range()],
            false => &self.0[..usize::from(self.0[15] & 15)],
        }
    }

    fn is_elsewhere(&self) -> bool {
        self.0[15] == ELSEWHERE
    }

    #[cold]
    fn text<'a>(&self, texts: Texts<'a>) -> &'a [u8] {
        &texts[usize::from(self.0[12])][self.range()]
    }

    fn range(&self) -> Range<usize> {
        let number = |at: usize| {
            u64::from_le_bytes(self.0[at..at + 8].try_into().expect("the range has eight bytes"))
        };
        let (start, size) = (number(0) as usize, number(8) as u32 as usize);
        start..start + size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_that_it_is() {
        for number in [0, 7, 10, 60_841_557, (1 << 31) - 1] {
            let name = Number(number).name();
            assert_eq!(name, Name::new(number.to_string().as_bytes(), &mut Vec::new(), 0));
        }
    }

    #[test]
    fn names_of_all_lengths_come_back_and_are_told_apart() {
        let members: Vec<Vec<u8>> =
            (0..40).flat_map(|size| [vec![0; size], vec![255; size], vec![b'a'; size]]).collect();
        let (mut first, mut second) = (Vec::new(), b"before".to_vec());
        let names: Vec<[Name; 2]> = members
            .iter()
            .map(|member| [Name::new(member, &mut first, 0), Name::new(member, &mut second, 1)])
            .collect();
        let texts = [&*first, &*second];
        for (member, [one, other]) in members.iter().zip(&names) {
            assert_eq!(one.bytes(&texts), member);
            assert_eq!(other.bytes(&texts), member);
            for (member2, [third, _]) in members.iter().zip(&names) {
                assert_eq!(other.is_same(*third, &texts), member == member2);
            }
        }
    }
}
