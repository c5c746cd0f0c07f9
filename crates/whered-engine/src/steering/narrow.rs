//! The tiles of a /16 of IPv4, so that a search waits for memory once or twice.
//!
//! ```text
//! pages  [ starts: 32 x u16 | values: 32 x u32 ] [ ... ]      value = outcome << 8 | scope
//!          one cache line     the next two
//! ```
//!
//! Not for: IPv6, whose starts are longer (`tiles.rs`).
//! Invariants: starts ascend over all pages, and the first one is 0; the last page is filled up
//! with tiles that begin at the last address and have the last tile's value.
//! At the same time: never changed once made.
//! Cost: the page is found among the pages' first starts (two pages or three for a city database),
//! the tile by counting without a branch; 6 bytes a tile.

use whered_simd::prefetch;

use super::scope_cache::Tile;

const PAGE_TILES: usize = 32;
/// How many pages are prefetched at once.
const PAGES_FEW: usize = 3;
/// Outcomes have lower numbers, to have room beside a scope.
const OUTCOMES_MAX: u32 = 1 << 24;

/// See the head of this file.
pub(super) struct Narrow(Box<[Page]>);

#[derive(Clone)]
#[repr(C, align(64))]
struct Page {
    starts: [u16; PAGE_TILES],
    values: [u32; PAGE_TILES],
}

impl Narrow {
    /// Of tiles in order, the first of which begins with the block; `None` for outcomes without
    /// room.
    pub(super) fn new(tiles: &[Tile]) -> Option<Narrow> {
        if tiles.iter().any(|tile| tile.outcome >= OUTCOMES_MAX) {
            return None;
        }
        let value = |tile: &Tile| tile.outcome << 8 | u32::from(tile.scope);
        let last = tiles.last()?;
        let empty = Page { starts: [u16::MAX; PAGE_TILES], values: [value(last); PAGE_TILES] };
        let pages = tiles.chunks(PAGE_TILES).map(|tiles| {
            let mut page = empty.clone();
            for (at, tile) in tiles.iter().enumerate() {
                // The 16 bits behind those of the block are all there are.
                page.starts[at] = (tile.start >> 48) as u16;
                page.values[at] = value(tile);
            }
            page
        });
        Some(Narrow(pages.collect()))
    }

    /// The outcome and the scope of the address with these lower bits.
    #[inline]
    pub(super) fn find(&self, lower: u16) -> (u32, u8) {
        let (page, at) = self.place(lower);
        let value = self.0[page].values[at];
        (value >> 8, value as u8)
    }

    #[inline]
    fn place(&self, lower: u16) -> (usize, usize) {
        let next = self.0.partition_point(|page| page.starts[0] <= lower);
        // The first page begins with 0, so that there is one before.
        let page = next.max(1) - 1;
        let starts = &self.0[page].starts;
        let before: u16 = starts.iter().map(|start| u16::from(*start <= lower)).sum();
        (page, usize::from(before.max(1)) - 1)
    }

    /// Asks for the starts that [`Narrow::find`] is likely to read.
    #[inline]
    pub(super) fn prefetch_starts(&self, lower: u16) {
        // Of many pages those around the middle, where the search among them begins, are in the
        // cache sooner; of the others the one that would be it if starts were even.
        let guess = (self.0.len() * usize::from(lower)) >> 16;
        let first = if self.0.len() <= PAGES_FEW { 0 } else { guess.saturating_sub(1) };
        (first..first + PAGES_FEW).for_each(|page| prefetch(&self.0, page));
    }

    /// Asks for the value, when the starts have come.
    #[inline]
    pub(super) fn prefetch_value(&self, lower: u16) {
        let (page, at) = self.place(lower);
        prefetch(&self.0[page].values, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(start: u16, outcome: u32, scope: u8) -> Tile {
        Tile { start: u64::from(start) << 48, outcome, scope }
    }

    #[test]
    fn every_address_has_the_tile_it_is_in() {
        let mut state = 1_u32;
        for count in [1, 2, 31, 32, 33, 64, 65, 1000] {
            let mut tiles = vec![tile(0, 7, 16)];
            while tiles.len() < count {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let start = (state >> 16) as u16;
                if tiles.iter().all(|tile| tile.start >> 48 != u64::from(start)) {
                    tiles.push(tile(start, state % OUTCOMES_MAX, (state % 33) as u8));
                }
            }
            tiles.sort_unstable_by_key(|tile| tile.start);
            let narrow = Narrow::new(&tiles).expect("small outcomes");
            for lower in 0..=u16::MAX {
                let mut naive = tiles.iter().rev();
                let own = naive.find(|tile| tile.start >> 48 <= u64::from(lower)).expect("from 0");
                assert_eq!(narrow.find(lower), (own.outcome, own.scope), "{lower} of {count}");
            }
        }
    }

    #[test]
    fn the_last_address_may_be_a_tile_of_its_own() {
        let narrow = Narrow::new(&[tile(0, 1, 17), tile(u16::MAX, 2, 32)]).expect("small outcomes");
        assert_eq!(narrow.find(u16::MAX - 1), (1, 17));
        assert_eq!(narrow.find(u16::MAX), (2, 32));
    }

    #[test]
    fn an_outcome_without_room_is_refused() {
        assert!(Narrow::new(&[tile(0, OUTCOMES_MAX, 16)]).is_none());
        assert!(Narrow::new(&[tile(0, OUTCOMES_MAX - 1, 16)]).is_some());
    }
}
