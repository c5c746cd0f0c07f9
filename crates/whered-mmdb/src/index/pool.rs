//! The texts of a column while rows are built: each one once, the most used first.
//!
//! Not for reading texts (see `rows`).
//!
//! ```text
//! entries   | 0 | 2 D E | 2 F R | 6 B e r l i n | unused to the end of a line | 255 length u16 text |
//!            └─ absent: place 0
//! ```
//!
//! A place is counted in units of one, two or four bytes, so that a reference takes a byte less
//! where that is enough: the codes of all countries have one of a byte. An entry lies inside one
//! cache line unless it is longer than one.
//!
//! Cost: one look into a hash table for each text of each row.

use super::column::LONG;
use std::collections::HashMap;

pub(super) const LINE_BYTES: usize = 64;
/// The units of offsets.
pub(super) const UNITS_BYTES: [usize; 3] = [1, 2, 4];

/// The distinct texts of a column.
#[derive(Default)]
pub(super) struct TextPool<'a> {
    numbers: HashMap<&'a [u8], u32>,
    /// By the numbers that texts got, and how often each is asked for.
    texts: Vec<(&'a [u8], u64)>,
}

/// Where the texts of a pool stand.
#[derive(Default)]
pub(super) struct Places {
    /// By the texts' numbers, in units.
    pub(super) references: Vec<u64>,
    pub(super) unit_bytes: u32,
    /// The entries, with the one of absent texts.
    pub(super) bytes: Vec<u8>,
}

impl<'a> TextPool<'a> {
    /// The number of a string that `count` more records have.
    pub(super) fn add(&mut self, text: &'a [u8], uses: u64) -> u32 {
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.texts.push((text, 0));
        }
        if let Some((_, known)) = self.texts.get_mut(number as usize) {
            *known += uses;
        }
        number
    }

    /// Lays the texts out, in those of the units that make references short: the first such one.
    pub(super) fn place(&self, units_bytes: &[usize]) -> Places {
        let order = self.order();
        let all = units_bytes.iter().map(|unit_bytes| self.place_in(&order, *unit_bytes));
        all.min_by_key(Places::reference_bytes).expect("there is a unit")
    }

    /// The texts' numbers, the most used first.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.texts.len() as u32).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.texts[*number as usize].1));
        order
    }

    fn place_in(&self, order: &[u32], unit_bytes: usize) -> Places {
        let mut references = vec![0; self.texts.len()];
        let mut bytes = vec![0];
        for number in order {
            let text = self.texts[*number as usize].0;
            let head = if text.len() < usize::from(LONG) { 1 } else { 3 };
            let mut place = bytes.len().next_multiple_of(unit_bytes);
            let before = place % LINE_BYTES;
            if before > 0 && head + text.len() > LINE_BYTES - before {
                place += LINE_BYTES - before;
            }
            bytes.resize(place, 0);
            if head == 1 {
                bytes.push(text.len() as u8);
            } else {
                bytes.push(LONG);
                bytes.extend((text.len() as u16).to_le_bytes());
            }
            bytes.extend(text);
            references[*number as usize] = (place / unit_bytes) as u64;
        }
        Places { references, unit_bytes: unit_bytes as u32, bytes }
    }
}

impl Places {
    /// The text of a reference.
    pub(super) fn text(&self, reference: u64) -> &[u8] {
        let entry = &self.bytes[reference as usize * self.unit_bytes as usize..];
        match *entry {
            [LONG, low, high, ..] => &entry[3..][..usize::from(u16::from_le_bytes([low, high]))],
            [length, ..] => &entry[1..][..usize::from(length)],
            [] => &[],
        }
    }

    /// How many bytes a reference takes.
    pub(super) fn reference_bytes(&self) -> u8 {
        bytes_for(self.references.iter().max().copied().unwrap_or(0))
    }
}

/// How many bytes numbers up to this one take.
pub(super) fn bytes_for(most: u64) -> u8 {
    (8 - most.leading_zeros() / 8).max(1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_once_the_most_used_first_and_inside_lines() {
        let texts: Vec<String> = (0..700_usize).map(|n| format!("{n}").repeat(n % 90)).collect();
        let mut pool = TextPool::default();
        let mut numbers: Vec<u32> =
            texts.iter().map(|text| pool.add(text.as_bytes(), text.len() as u64)).collect();
        numbers.dedup();
        assert_eq!(pool.add(b"", 5), numbers[0]);
        for places in [pool.place(&UNITS_BYTES), pool.place(&[1])] {
            assert!(places.references.iter().all(|reference| *reference > 0));
            for (number, (text, uses)) in (0_u32..).zip(&pool.texts) {
                assert_eq!(places.text(places.references[number as usize]), *text);
                let place =
                    places.references[number as usize] as usize * places.unit_bytes as usize;
                let (first, end) = (place / LINE_BYTES, place + text.len());
                assert!(first == end / LINE_BYTES || text.len() >= LINE_BYTES - 1, "{place}");
                let before = (0_u32..).zip(&pool.texts).filter(|(other, _)| {
                    places.references[*other as usize] < places.references[number as usize]
                });
                assert!(before.map(|(_, (_, uses))| uses).all(|more| more >= uses));
            }
        }
    }

    #[test]
    fn some_three_hundred_codes_have_references_of_one_byte() {
        let codes: Vec<String> = (b'A'..=b'J')
            .flat_map(|a| (b'A'..=b'Y').map(move |b| String::from_utf8(vec![a, b]).expect("ASCII")))
            .collect();
        let mut pool = TextPool::default();
        for code in &codes {
            pool.add(code.as_bytes(), 1);
        }
        let places = pool.place(&UNITS_BYTES);
        assert_eq!((codes.len(), places.unit_bytes, places.reference_bytes()), (250, 4, 1));
        assert_eq!(
            [bytes_for(0), bytes_for(255), bytes_for(256), bytes_for(u64::MAX)],
            [1, 1, 2, 8]
        );
    }
}
