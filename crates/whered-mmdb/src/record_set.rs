//! The distinct records of a tree, numbered in rising order.
//!
//! Not for what records hold. One bit for each possible record id, in words of 64 with the number
//! of records before each word, so that adding costs nothing that grows and a record's number is
//! one count of bits. Memory: a quarter of the data section's size at most.

use crate::tree::RecordId;

/// A set of record ids.
#[derive(Debug, Default)]
pub(crate) struct RecordSet {
    /// Which ids there are, and, once [`RecordSet::number`] has run, how many before each word.
    words: Vec<(u64, u32)>,
}

impl RecordSet {
    /// Adds a record; it may be there already.
    pub(crate) fn insert(&mut self, id: RecordId) {
        let place = id.to_u32() as usize / 64;
        if self.words.len() <= place {
            self.words.resize(place + 1, (0, 0));
        }
        if let Some((word, _)) = self.words.get_mut(place) {
            *word |= 1 << (id.to_u32() % 64);
        }
    }

    /// Numbers the records and gives them in rising order.
    pub(crate) fn number(&mut self) -> Vec<RecordId> {
        let mut records = Vec::new();
        for (place, (word, before)) in (0_u32..).zip(&mut self.words) {
            *before = records.len() as u32;
            let mut left = *word;
            while left != 0 {
                records.push(RecordId::from_u32(place * 64 + left.trailing_zeros()));
                left &= left - 1;
            }
        }
        records
    }

    /// How many numbered records are below this one.
    pub(crate) fn rank(&self, id: RecordId) -> u32 {
        let id = id.to_u32();
        let (word, before) = self.words.get(id as usize / 64).copied().unwrap_or_default();
        before + (word & ((1 << (id % 64)) - 1)).count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_numbered_in_rising_order_each_once() {
        let mut set = RecordSet::default();
        let ids = [700, 3, 63, 64, 3, 1_000_000, 0, 64].map(RecordId::from_u32);
        for id in ids {
            set.insert(id);
        }
        let sorted: Vec<u32> = set.number().iter().map(|id| id.to_u32()).collect();
        assert_eq!(sorted, [0, 3, 63, 64, 700, 1_000_000]);
        for (number, id) in (0..).zip(sorted) {
            assert_eq!(set.rank(RecordId::from_u32(id)), number);
        }
    }
}
