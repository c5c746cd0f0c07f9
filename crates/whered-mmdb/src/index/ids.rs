//! The record ids of all rows, mostly in half their space.
//!
//! Not for which address has which row, nor for what rows hold.
//!
//! ```text
//! id of a row     starts[row >> shift] + steps[row]
//!
//! starts  | 0 | id of row 2^shift | id of row 2 * 2^shift | ...     32 bits, few and always near
//! steps   | 0 | id of row 1 - its start | ...                       16 bits, one a row
//! ```
//!
//! Who hands a record on by its id, as the library that takes the place of libmaxminddb does, waits
//! for this table in every lookup: half a megabyte stays where a whole one would not. Records come
//! in rising order and are mostly short, so that tens of them follow a start; the shift is the
//! largest for which all do, and 0, where every row has a start, is always one: six bytes a row
//! then, two and a little with the largest.
//!
//! Invariants: the ids are sound as they were built; of a file somebody overwrote they are wrong,
//! but nothing outside is read. Cost: two loads side by side, no branch on data.

use std::ops::Range;
use whered_ip::image::{Image, Section, bytes_of};

/// More rows after one start gain nothing.
const MOST_SHIFT: u32 = 6;

/// How many sections ids have in an image.
pub(super) const SECTIONS: usize = 2;

/// The tables before they lie in an image.
pub(super) struct IdTables {
    pub(super) shift: u32,
    starts: Vec<u32>,
    steps: Vec<u16>,
}

impl IdTables {
    /// The tables of ids in rising order.
    pub(super) fn of(ids: &[u32]) -> IdTables {
        let steps = |shift: u32| {
            let groups = ids.chunks(1 << shift);
            let steps = groups.flat_map(|ids| ids.iter().map(|id| u16::try_from(id - ids[0])));
            steps.collect::<Result<Vec<u16>, _>>()
        };
        let widest = (0..=MOST_SHIFT).rev().find_map(|shift| Some((shift, steps(shift).ok()?)));
        let (shift, steps) = widest.expect("an id is its own start");
        let starts = ids.iter().step_by(1 << shift).copied().collect();
        IdTables { shift, starts, steps }
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        [bytes_of(&self.starts), bytes_of(&self.steps)]
    }
}

/// The ids of all rows.
#[derive(Debug)]
pub(super) struct Ids {
    shift: u32,
    starts: Section<u32>,
    steps: Section<u16>,
}

impl Ids {
    /// The ids whose sections lie in an image at these places; `None` if they cannot be.
    pub(super) fn from_sections(
        image: &Image,
        shift: u64,
        places: &[Range<usize>; SECTIONS],
    ) -> Option<Ids> {
        let [starts, steps] = places.clone();
        let (starts, steps) = (image.section::<u32>(starts)?, image.section::<u16>(steps)?);
        let shift = u32::try_from(shift).ok().filter(|shift| *shift <= MOST_SHIFT)?;
        (starts.len() == steps.len().div_ceil(1 << shift)).then_some(Ids { shift, starts, steps })
    }

    pub(super) fn sections(&self) -> [&[u8]; SECTIONS] {
        [bytes_of(&self.starts), bytes_of(&self.steps)]
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, row: u32) -> Option<u32> {
        let row = row as usize;
        let step = self.steps.get(row)?;
        let start = self.starts.get(row >> self.shift)?;
        Some(start.wrapping_add(u32::from(*step)))
    }

    /// The last row of an id: row 0 has the id 0, which the first record may have as well.
    pub(super) fn row_of(&self, id: u32) -> Option<u32> {
        let group = self.starts.partition_point(|start| *start <= id).checked_sub(1)?;
        let first = group << self.shift;
        let steps = self.steps.get(first..)?;
        let steps = steps.get(..1 << self.shift).unwrap_or(steps);
        let step = u16::try_from(id.checked_sub(*self.starts.get(group)?)?).ok()?;
        let place = steps.partition_point(|known| *known <= step).checked_sub(1)?;
        (steps.get(place) == Some(&step)).then(|| (first + place) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(ids: &[u32]) -> Ids {
        let tables = IdTables::of(ids);
        let (image, places) = Image::with_sections(&tables.sections());
        let places = places.as_chunks().0.first().unwrap().clone();
        Ids::from_sections(&image, u64::from(tables.shift), &places).unwrap()
    }

    #[test]
    fn ids_come_back_whatever_lies_between_them() {
        let far = u32::MAX;
        let lists: [&[u32]; 7] = [
            &[0],
            &[0, 0, 7],
            &(0..500).map(|n| n * 50).collect::<Vec<_>>(),
            &(0..500).map(|n| n * 1_040).collect::<Vec<_>>(),
            &(0..500).map(|n| n * 1_041).collect::<Vec<_>>(),
            &[0, 65_536, 65_537, 131_072, 131_080, far - 65_536, far - 1, far],
            &[0, 65_535, 65_536, far],
        ];
        for list in lists {
            let ids = placed(list);
            assert_eq!(ids.len(), list.len());
            let last_zero = list.iter().rposition(|id| *id == 0).unwrap();
            for (row, id) in list.iter().enumerate() {
                assert_eq!(ids.get(row as u32), Some(*id));
                assert_eq!(ids.row_of(*id), Some(if *id == 0 { last_zero } else { row } as u32));
                let beside = id.wrapping_add(1);
                assert_eq!(ids.row_of(beside).is_some(), list.contains(&beside), "{beside}");
            }
            assert_eq!(ids.get(list.len() as u32), None);
        }
        // Rows of short records share starts, and any records have some.
        assert_eq!(placed(lists[2]).shift, MOST_SHIFT);
        assert_eq!(placed(lists[3]).shift, MOST_SHIFT);
        assert_eq!(placed(lists[4]).shift, MOST_SHIFT - 1);
        assert_eq!(placed(lists[5]).shift, 0);
    }

    #[test]
    fn sections_that_do_not_fit_each_other_are_refused() {
        let tables = IdTables::of(&(0..200).map(|n| n * 50).collect::<Vec<_>>());
        let (image, places) = Image::with_sections(&tables.sections());
        let [starts, steps] = [places[0].clone(), places[1].clone()];
        let of = |shift, places| Ids::from_sections(&image, shift, &places);
        assert!(of(6, [starts.clone(), steps.clone()]).is_some());
        assert!(of(5, [starts.clone(), steps.clone()]).is_none());
        assert!(of(7, [starts.clone(), steps.clone()]).is_none());
        assert!(of(64, [starts.clone(), steps.clone()]).is_none());
        assert!(of(6, [starts.start..starts.end - 4, steps.clone()]).is_none());
        assert!(of(6, [starts, steps.start + 1..steps.end]).is_none());
    }
}
