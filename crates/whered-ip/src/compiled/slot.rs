//! Slots: the 32-bit words that a compiled index is made of.
//!
//! For: packing answers and the places of nodes. Not for: what a node looks like (see `node`).
//!
//! ```text
//! bit  31 | 30 ........ 23 | 22 ................................ 0
//!       0 | length 0-128   | value                                   an answer
//!       0 | 129            | place in the table of wide answers      value of 2^23 and more
//!       0 | 130            | length of the alias in bits             go on as IPv4
//!       0 | 255            | all ones                                nothing matches
//! bit  31 | 30 | 29 . 28 | 27 ................................... 0
//!       1 | n  | e       | where a node begins, in words
//! ```
//!
//! A slot that leads to a node says how to read it, so that nothing has to be read to know that:
//! `e` + 1 is the number of words with ends, and `n` whether the node divides the next octet of
//! the address or goes on dividing the one that its parent divided.

/// Slots below this bit are answers.
const CHILD: u32 = 1 << 31;
const NEXT_OCTET: u32 = 1 << 30;
const LENGTH_SHIFT: u32 = 23;
/// Values below this stand in the slot itself.
pub(super) const NARROW_VALUES: u32 = 1 << LENGTH_SHIFT;
const CODE_WIDE: u32 = 129;
const CODE_ALIAS: u32 = 130;
const END_WORDS_SHIFT: u32 = 28;
/// One past the last word where a node may begin.
pub(super) const PLACES: usize = 1 << END_WORDS_SHIFT;

/// One word: an answer, or where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Slot(pub(super) u32);

/// The meaning of a slot that is no child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// No prefix holds the address.
    Nothing,
    /// The value and the length of the prefix.
    Narrow(u32, u8),
    /// An index in the table of wide answers, which has value and length.
    Wide(usize),
    /// The 32 bits behind this many are an IPv4 address, and its answer counts.
    Alias(u8),
}

impl Slot {
    /// No prefix holds the address.
    pub(super) const NOTHING: Slot = Slot(CHILD - 1);

    /// The slot for a value, or `None` if the value is too wide for one.
    pub(super) fn narrow(value: u32, length_bits: u8) -> Option<Slot> {
        (value < NARROW_VALUES).then_some(Slot(u32::from(length_bits) << LENGTH_SHIFT | value))
    }

    /// The slot for a place in the table of wide answers, or `None` if there are too many.
    pub(super) fn wide(place: usize) -> Option<Slot> {
        let place = u32::try_from(place).ok().filter(|place| *place < NARROW_VALUES)?;
        Some(Slot(CODE_WIDE << LENGTH_SHIFT | place))
    }

    /// The slot of a prefix of this length under which IPv4 addresses stand.
    pub(super) fn alias(length_bits: u8) -> Slot {
        Slot(CODE_ALIAS << LENGTH_SHIFT | u32::from(length_bits))
    }

    /// The slot that leads to a node with 1 to 4 words of ends, which divides the next octet.
    pub(super) fn child(place: usize, end_words: usize) -> Option<Slot> {
        debug_assert!((1..=4).contains(&end_words), "a node has 1 to 4 words of ends");
        let place = u32::try_from(place).ok().filter(|place| (*place as usize) < PLACES)?;
        Some(Slot(CHILD | NEXT_OCTET | (end_words as u32 - 1) << END_WORDS_SHIFT | place))
    }

    /// A child that divides the octet of its parent further.
    pub(super) fn of_same_octet(self) -> Slot {
        Slot(self.0 & !NEXT_OCTET)
    }

    /// Whether the way goes on to a node.
    #[inline(always)]
    pub(super) fn is_child(self) -> bool {
        self.0 >= CHILD
    }

    /// 1 if the node divides the next octet, 0 if that of its parent.
    #[inline(always)]
    pub(super) fn octets_on(self) -> u32 {
        self.0 >> 30 & 1
    }

    /// Where the node begins that a child slot leads to.
    #[inline(always)]
    pub(super) fn place(self) -> usize {
        (self.0 & (PLACES as u32 - 1)) as usize
    }

    /// How many words of ends that node has.
    #[inline(always)]
    pub(super) fn end_words(self) -> usize {
        (self.0 >> END_WORDS_SHIFT & 3) as usize + 1
    }

    /// The value of a slot that has one in itself.
    #[inline(always)]
    pub(super) fn narrow_value(self) -> u32 {
        self.0 & (NARROW_VALUES - 1)
    }

    /// What the slot says. A child says nothing: only an index whose memory somebody overwrote
    /// leads here with one.
    #[inline(always)]
    pub(super) fn answer(self) -> Answer {
        let low = self.narrow_value();
        match self.0 >> LENGTH_SHIFT {
            length @ 0..=128 => Answer::Narrow(low, length as u8),
            CODE_WIDE => Answer::Wide(low as usize),
            CODE_ALIAS => Answer::Alias(low.min(96) as u8),
            _ => Answer::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_from_their_slots() {
        for length in [0, 1, 32, 64, 128] {
            for value in [0, 1, NARROW_VALUES - 1] {
                let slot = Slot::narrow(value, length).expect("narrow");
                assert_eq!(slot.answer(), Answer::Narrow(value, length));
                assert!(!slot.is_child());
            }
        }
        assert_eq!(Slot::narrow(NARROW_VALUES, 8), None);
        assert_eq!(Slot::NOTHING.answer(), Answer::Nothing);
        assert_eq!(Slot::wide(5).map(Slot::answer), Some(Answer::Wide(5)));
        assert_eq!(Slot::wide(NARROW_VALUES as usize), None);
        assert_eq!(Slot::alias(96).answer(), Answer::Alias(96));
    }

    #[test]
    fn children_come_back_from_their_slots() {
        for (place, end_words) in [(0, 1), (7, 4), (PLACES - 1, 2)] {
            let slot = Slot::child(place, end_words).expect("it fits");
            assert!(slot.is_child());
            assert_eq!((slot.place(), slot.end_words(), slot.octets_on()), (place, end_words, 1));
            assert_eq!(slot.of_same_octet().octets_on(), 0);
            assert_eq!(slot.of_same_octet().place(), place);
        }
        assert_eq!(Slot::child(PLACES, 1), None);
    }
}
