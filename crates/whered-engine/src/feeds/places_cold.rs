//! Places in a cold file: as they lie in memory, the index too.
//!
//! ```text
//! kind 16  meta     rule | no grid | rows | members | seed | no grid                   words
//! kind 17  rows     4096 of them: member, ordinal | count | x | y | time | batch       words
//! kind 18  members  name's place | positions, counted again ...   kind 19  names  a block of the arena
//! kind 20  index    slots
//! ```
//! For: writing and loading all of it. Not for: places that are read where they are: only batches
//! need them, and those load them. Nothing that is read is trusted.
//! What finds positions near a place is made of the rows.
//! Cost: a copy and a checksum; a look at each row.

use whered_store::{ColdFile, ColdWriter, StoreError};

use super::{CHUNK_ROWS, LocationRow, Member, PlaceRule, Places, Values};
use crate::tables::cold::{
    blocks_of, push_words, read_arena, read_index, words_of, write_arena, write_slots,
};
use crate::tables::index::{hash_of, seed};

const META_KIND: u16 = 16;
const ROWS_KIND: u16 = 17;
const MEMBERS_KIND: u16 = 18;
const NAMES_KIND: u16 = 19;
/// The kinds from 21 to 28 are not free: files of before have grids there, which nobody reads any
/// more.
const INDEX_KIND: u16 = 20;
const META_WORDS: usize = 6;
/// In the words for a grid, which files of before had: there is none.
const NO_GRID: [u64; 2] = [u64::MAX, 0];
const ROW_WORDS: usize = 6;
const MEMBERS_A_BLOCK: usize = 1 << 15;

impl Places {
    /// Writes all of it.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn write_cold(&self, writer: &mut ColdWriter) -> Result<(), StoreError> {
        for (number, chunk) in self.rows.iter().enumerate() {
            let rows = (self.len as usize - number * CHUNK_ROWS).min(CHUNK_ROWS);
            writer.write_block_with(ROWS_KIND, 0, |out| {
                out.reserve(rows * ROW_WORDS * 8);
                for row in &chunk[..rows] {
                    let LocationRow { member, ordinal, values, .. } = *row;
                    let Values { count, x, y, time, batch } = values;
                    let named = u64::from(ordinal) << 32 | u64::from(member);
                    push_words(out, &[named, count, x, y, time as u64, batch]);
                }
            })?;
        }
        for members in self.members.chunks(MEMBERS_A_BLOCK) {
            writer.write_block_with(MEMBERS_KIND, 0, |out| {
                for Member { name, positions, .. } in members {
                    push_words(out, &[*name, u64::from(*positions)]);
                }
            })?;
        }
        write_arena(writer, NAMES_KIND, 0, &self.names)?;
        write_slots(writer, INDEX_KIND, 0, self.index.slots())?;
        let meta = [
            u64::from(self.rule.number()),
            NO_GRID[0],
            u64::from(self.len),
            self.members.len() as u64,
            seed(),
            NO_GRID[1],
        ];
        writer.write_block_with(META_KIND, 0, |out| push_words(out, &meta))
    }

    /// Loads places of a rule; what finds rows near a place is still to be made of them.
    ///
    /// # Errors
    /// The file is damaged or not what it should be; the system's.
    pub(crate) fn load_cold(file: &ColdFile, rule: PlaceRule) -> Result<Places, StoreError> {
        let mut places = Places::new(rule);
        let Some(&meta_block) = blocks_of(file, META_KIND, 0).first() else {
            return Err(file.refuse(0, "there are no places in the file"));
        };
        let mut words = Vec::new();
        file.read_block(meta_block, &mut words)?;
        let meta: Vec<u64> = words_of(&words).collect();
        let wrong = |what: &str| file.refuse(meta_block, what);
        if meta.len() != META_WORDS || meta[0] != u64::from(rule.number()) {
            return Err(wrong("they are places of another rule"));
        }
        places.names = read_arena(file, NAMES_KIND, 0, &mut words)?;
        places.load_members(file, &mut words)?;
        places.load_rows(file, &mut words)?;
        if meta[2] != u64::from(places.len) || meta[3] != places.members.len() as u64 {
            return Err(wrong("there is another number of positions or members"));
        }
        let hash = |member: u32| hash_of(places.names.get(places.members[member as usize].name));
        places.index = read_index(file, INDEX_KIND, 0, meta[4], places.members.len(), hash)?;
        places.has_near = false;
        Ok(places)
    }

    fn load_members(&mut self, file: &ColdFile, words: &mut Vec<u64>) -> Result<(), StoreError> {
        for index in blocks_of(file, MEMBERS_KIND, 0) {
            file.read_block(index, words)?;
            self.members.reserve(words.len() / 2);
            for &[name, _] in words.as_chunks::<2>().0 {
                let name = u64::from_le(name);
                if !self.names.has(name) {
                    return Err(file.refuse(index, "a member's name is not there"));
                }
                self.members.push(Member { name, ..Member::default() });
            }
        }
        Ok(())
    }

    fn load_rows(&mut self, file: &ColdFile, words: &mut Vec<u64>) -> Result<(), StoreError> {
        let mut positions = vec![0; self.members.len()];
        for index in blocks_of(file, ROWS_KIND, 0) {
            file.read_block(index, words)?;
            let rows = words.len() / ROW_WORDS;
            let is_after_a_whole_one = (self.len as usize).is_multiple_of(CHUNK_ROWS);
            if rows == 0 || rows > CHUNK_ROWS || !is_after_a_whole_one {
                return Err(file.refuse(index, "it has another number of rows"));
            }
            let mut chunk = vec![LocationRow::default(); CHUNK_ROWS].into_boxed_slice();
            for (row, from) in chunk.iter_mut().zip(words.as_chunks::<ROW_WORDS>().0) {
                let [named, count, x, y, time, batch] = from.map(u64::from_le);
                let (member, ordinal) = (named as u32, (named >> 32) as u32);
                (row.member, row.ordinal) = (member, ordinal);
                row.set(Values { count, x, y, time: time as i64, batch });
                let Some(positions) = positions.get_mut(member as usize) else {
                    return Err(file.refuse(index, "a position's member is not there"));
                };
                *positions += 1;
                if ordinal != *positions {
                    return Err(file.refuse(index, "a position is not its member's next one"));
                }
            }
            self.rows.push(chunk);
            self.len += rows as u32;
        }
        for (member, positions) in self.members.iter_mut().zip(positions) {
            member.positions = positions;
        }
        Ok(())
    }
}
