//! Inserting, moving and removing points.
//!
//! For: keeping tree and table in step. Not for: how leaves and branches are edited (`leaf/`,
//! `branch.rs`).
//! A move within a leaf is one edit, another move two; in the table a move replaces one number.
//! Cost: one walk to the new place, one to the old, and the edits.

use super::{Inserted, LookupHint, Points};
use crate::cell::Cell;

impl Points {
    /// Puts a member into a cell, whether or not it was somewhere before.
    pub fn insert(&mut self, member: &[u8], cell: Cell) -> Inserted {
        self.insert_with_hint(member, cell, &LookupHint::default())
    }

    /// Like [`insert`](Points::insert), with a hint of [`Points::lookup_hints`] for this point. A
    /// hint that is no longer right has no effect.
    ///
    /// ```
    /// use whered_geo::{Cell, LookupHint, Inserted, Points};
    /// let mut points = Points::new();
    /// points.insert(b"a", Cell::MIN);
    /// let mut hints = [LookupHint::default()];
    /// points.lookup_hints(&[(b"a", Cell::MAX)], &mut hints);
    /// points.remove(b"a");
    /// assert_eq!(points.insert_with_hint(b"a", Cell::MAX, &hints[0]), Inserted::New);
    /// ```
    pub fn insert_with_hint(&mut self, member: &[u8], cell: Cell, hint: &LookupHint) -> Inserted {
        let (bits, hash) = (cell.bits(), self.members.hash(member));
        let known = self.confirmed(hint, hash, member);
        let to = match self.tree.confirmed_place(hint, bits) {
            Some(to) => to,
            None => {
                // The leaf where the member goes is walked to while the table's bucket is on its
                // way.
                if known.is_none() {
                    self.members.prefetch(hash);
                }
                let Err(to) = self.tree.locate(bits, member) else {
                    return Inserted::Unchanged;
                };
                to
            }
        };
        self.lately_changed.note();
        let Some((slot, found)) = known.or_else(|| self.find(hash, member)) else {
            self.tree.insert(to, bits, member);
            self.members.insert(hash, bits);
            self.deal_out_if_due();
            return Inserted::New;
        };
        self.members.replace(slot, bits);
        self.tree.relocate(found.position, to, bits, member);
        Inserted::Moved
    }

    /// Removes a member; says whether there was one.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((slot, found)) = self.find(self.members.hash(member), member) else {
            return false;
        };
        self.lately_changed.note();
        self.members.remove(slot);
        self.tree.remove(found.position);
        true
    }

    /// Divides the table if it has become large.
    pub(super) fn deal_out_if_due(&mut self) {
        if self.members.is_to_be_dealt_out() {
            self.members.deal_out(self.tree.iter().map(|(member, cell)| (member, cell.bits())));
        }
    }
}
