//! From runs over the upper 64 bits to the tables of IPv6.
//!
//! For: which /32 are split, and laying out what is true of each. Not for: runs (`flatten`) nor
//! the inside of a /32 (`split`).

use super::split::{Builder, Head, Words};
use crate::compiled::flatten::{FirstTable, Flat};
use crate::compiled::node::NodePool;
use crate::compiled::slot::Slot;
use crate::image::bytes_of;
use crate::tables::{KaryTree, PerfectHash};

/// The runs over the upper 64 bits while they are found.
#[derive(Default)]
pub(in crate::compiled) struct Runs {
    ends: Vec<u64>,
    slots: Vec<Slot>,
    cells: u128,
}

impl FirstTable for Runs {
    const BITS: u32 = 64;

    fn append(&mut self, _: &mut NodePool, cells: u128, slot: Slot) -> Option<()> {
        self.cells += cells;
        let end = (self.cells - 1) as u64;
        match (self.ends.last_mut(), self.slots.last()) {
            (Some(last), Some(before)) if *before == slot => *last = end,
            _ => {
                self.ends.push(end);
                self.slots.push(slot);
            }
        }
        Some(())
    }
}

/// The tables, before they are laid out in memory.
pub(in crate::compiled) struct Tables {
    uppers: KaryTree<Words>,
    upper_slots: Vec<u32>,
    places: PerfectHash,
    heads: Vec<Head>,
    parts: Vec<Head>,
    lines: Vec<Words>,
    leaves: Vec<Words>,
    nodes: Vec<u32>,
}

/// How many sections they are.
pub(in crate::compiled) const SECTIONS: usize = 8;

impl Tables {
    /// The bytes of the sections.
    pub(in crate::compiled) fn sections(&self) -> [&[u8]; SECTIONS] {
        [
            self.uppers.as_bytes(),
            bytes_of(&self.upper_slots),
            self.places.as_bytes(),
            bytes_of(&self.heads),
            bytes_of(&self.parts),
            bytes_of(&self.lines),
            bytes_of(&self.leaves),
            bytes_of(&self.nodes),
        ]
    }
}

/// Runs over the upper 32 bits, where each split /32 is one.
#[derive(Default)]
struct Uppers {
    /// Where all runs but the first begin.
    starts: Vec<u32>,
    slots: Vec<Slot>,
}

impl Uppers {
    fn push(&mut self, start: u32, slot: Slot) {
        if self.slots.last() == Some(&slot) {
            return;
        }
        if !self.slots.is_empty() {
            self.starts.push(start);
        }
        self.slots.push(slot);
    }
}

impl Flat<Runs> {
    /// The sections' items; `None` when they are too many.
    pub(in crate::compiled) fn into_tables(self) -> Option<Tables> {
        let (mut uppers, mut builder) = (Uppers::default(), Builder::new());
        // The /32 that is open and what is known of it: nothing where a run begins with it.
        let (mut open, mut runs) = (0, Vec::new());
        for (end, slot) in self.first.ends.into_iter().zip(self.first.slots) {
            let lower = end as u32;
            // The first /32 that the run does not fill to its end.
            let beyond = (end >> 32) + u64::from(lower == u32::MAX);
            if !runs.is_empty() && beyond > open {
                runs.push((u32::MAX, slot));
                let head = builder.push(open as u32, &runs)?;
                uppers.push(open as u32, Slot::child(head, 1)?);
                runs.clear();
                open += 1;
            }
            if runs.is_empty() && beyond > open {
                uppers.push(open as u32, slot);
                open = beyond;
            }
            if lower != u32::MAX {
                runs.push((lower, slot));
            }
        }
        Tables::of(uppers, builder, self.nodes)
    }
}

impl Tables {
    fn of(mut uppers: Uppers, builder: Builder, nodes: Vec<u32>) -> Option<Tables> {
        let Builder { mut heads, parts, lines, leaves } = builder;
        let keys: Vec<u32> = heads.iter().map(|head| head[0]).collect();
        let places = match PerfectHash::build(&keys) {
            Some(places) if !keys.is_empty() => {
                let mut placed = vec![heads[0]; places.len()];
                for head in &heads {
                    placed[places.place(head[0])] = *head;
                }
                for slot in uppers.slots.iter_mut().filter(|slot| slot.is_child()) {
                    *slot = Slot::child(places.place(keys[slot.place()]), 1)?;
                }
                heads = placed;
                places
            }
            // Some are found by the tree only.
            _ => PerfectHash::any(heads.len())?,
        };
        Some(Tables {
            uppers: KaryTree::build(uppers.starts.iter().copied()),
            upper_slots: uppers.slots.iter().map(|slot| slot.0).collect(),
            places,
            heads,
            parts,
            lines,
            leaves,
            nodes,
        })
    }
}
