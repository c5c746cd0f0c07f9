//! Keys of slots that a link's primary takes over from another server: nobody sees them yet.
//!
//! For: which slots those are, and how many keys are hidden because of them. Not for: what a
//! primary says of its imports (the server).
//!
//! ```text
//! source A   ── keys of a slot, then their changes ──> importing B ── the same bytes ──> link of B
//! B: nobody sees the slot's keys ················ until all have come, then all at once
//! ```
//!
//! The keys are not exact before the end: one that is removed at the source while B still receives
//! the first part is there in B's part of the stream until the removal comes.
//!
//! Source: `cluster_migrateslots.c` and `kvstore.c` of Valkey 9.1, which hide such keys at the
//! importing server and at its replicas.
//! Invariants: imports are those of a number and not of its map: an exchange of numbers leaves
//! them. They change while nobody else is inside the gate. Clients' numbers have none.
//! Memory: 2 KiB while there are any. Cost: a bit for each lookup; how many keys are hidden is
//! counted once, when it is first asked for, and kept up to date from then on.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::keys::Keys;
use super::slots::key_slot;
use super::{Keyspace, number_byte, served_number};
use crate::error::WriteError;
use crate::journal::imports::{SLOTS, SlotImport};
use crate::journal::log::Written;
use crate::journal::operation::Operation;

const WORD_BITS: u16 = 64;

/// The imports of one number.
pub(super) struct ImportingSlots {
    imports: Vec<SlotImport>,
    /// A bit for each slot.
    slots: [u64; (SLOTS / WORD_BITS) as usize],
    hidden: OnceLock<HiddenKeys>,
}

/// Figures of the keys of a map that clients do not see.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct HiddenKeys {
    pub(super) keys: usize,
    /// How many of them have an expiry time, and the sum of those times.
    pub(super) expiring: usize,
    pub(super) expiry_sum_millis: u128,
}

impl HiddenKeys {
    pub(super) fn add_expiry(&mut self, at_millis: Option<u64>) {
        if let Some(at) = at_millis {
            self.expiring += 1;
            self.expiry_sum_millis += u128::from(at);
        }
    }

    pub(super) fn remove_expiry(&mut self, at_millis: Option<u64>) {
        if let Some(at) = at_millis {
            self.expiring -= 1;
            self.expiry_sum_millis -= u128::from(at);
        }
    }
}

impl ImportingSlots {
    /// `None` without any.
    pub(super) fn new(imports: &[SlotImport]) -> Option<Box<ImportingSlots>> {
        if imports.is_empty() {
            return None;
        }
        let mut slots = [0; (SLOTS / WORD_BITS) as usize];
        for (first, last) in imports.iter().flat_map(|import| &import.ranges) {
            (*first..=*last).for_each(|slot| slots[word_of(slot)] |= 1 << (slot % WORD_BITS));
        }
        let hidden = OnceLock::new();
        Some(Box::new(ImportingSlots { imports: imports.to_vec(), slots, hidden }))
    }

    pub(super) fn imports(&self) -> &[SlotImport] {
        &self.imports
    }

    /// Whether a key is of one of these slots.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        let slot = key_slot(key);
        self.slots[word_of(slot)] >> (slot % WORD_BITS) & 1 == 1
    }

    /// The figures of those of these keys that are hidden. Each key comes with its expiry time.
    pub(super) fn hidden<'k>(
        &self,
        keys: impl Iterator<Item = (&'k [u8], Option<u64>)>,
    ) -> HiddenKeys {
        *self.hidden.get_or_init(|| {
            let mut hidden = HiddenKeys::default();
            for (_, at_millis) in keys.filter(|(key, _)| self.has(key)) {
                hidden.keys += 1;
                hidden.add_expiry(at_millis);
            }
            hidden
        })
    }

    /// Brings the count up to date with a change of one key, if there is one and the key counts.
    pub(super) fn note(&mut self, key: &[u8], change: impl FnOnce(&mut HiddenKeys)) {
        if self.hidden.get().is_some()
            && self.has(key)
            && let Some(hidden) = self.hidden.get_mut()
        {
            change(hidden);
        }
    }

    /// The map has other keys now.
    pub(super) fn forget_count(&mut self) {
        self.hidden.take();
    }
}

fn word_of(slot: u16) -> usize {
    usize::from(slot / WORD_BITS)
}

impl Keyspace {
    /// The slots that the primary of a link imports, by the link's [`served_number`].
    pub fn imports(&self, number: usize) -> Vec<SlotImport> {
        let _guard = self.log.gate().shared();
        self.shared(number).imports().to_vec()
    }

    /// Says which slots the primary of a link imports, by the link's [`served_number`]. Nobody sees
    /// their keys in a client's database; those of slots that are imported no more are there at
    /// once.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    ///
    /// # Panics
    /// When a slot is not below [`SLOTS`].
    pub fn set_imports(
        &self,
        number: usize,
        imports: &[SlotImport],
    ) -> Result<Written<()>, WriteError> {
        let operation = set_imports(number, imports);
        self.try_isolated(|| {
            let room = self.log.reserve_batched(operation.size_bytes())?;
            self.replay(&operation);
            room.append(&operation);
            Ok(())
        })
    }

    /// The operation that restores what a link's primary imports, if it imports anything.
    pub(crate) fn imports_operation<'a>(&self, link: usize) -> Option<Operation<'a>> {
        let number = served_number(link);
        let imports = self.imports(number);
        let number = number_byte(number);
        (!imports.is_empty())
            .then_some(Operation::SetImports { number, imports: Cow::Owned(imports) })
    }

    /// Applies [`Operation::SetImports`].
    pub(super) fn replay_imports(&self, number: u8, imports: &[SlotImport]) {
        self.exclusive(usize::from(number)).set_imports(imports);
        self.log.watch().set_importing(number, !imports.is_empty());
    }
}

/// Keeps which slots the primary of a served number imports.
pub(super) fn set_imports(number: usize, imports: &[SlotImport]) -> Operation<'_> {
    Operation::SetImports { number: number_byte(number), imports: Cow::Borrowed(imports) }
}

impl Keys {
    /// Whether a key is there, and of no slot that is imported.
    pub(super) fn shows(&self, key: &[u8]) -> bool {
        self.get(key).is_some() && !self.hides(key)
    }

    /// Whether a key is of a slot that is imported.
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.importing.as_ref().is_some_and(|importing| importing.has(key))
    }

    /// The migrations that are going on.
    pub(super) fn imports(&self) -> &[SlotImport] {
        self.importing.as_ref().map_or(&[], |importing| importing.imports())
    }

    pub(super) fn set_imports(&mut self, imports: &[SlotImport]) {
        self.importing = ImportingSlots::new(imports);
    }

    /// The figures of keys in imported slots. O(keys) once for each change of imports.
    pub(super) fn hidden(&self) -> HiddenKeys {
        let keys = self.entries.iter().map(|(key, entry)| (&key[..], entry.expires_at_millis()));
        self.importing.as_ref().map_or(HiddenKeys::default(), |importing| importing.hidden(keys))
    }

    pub(super) fn note_hidden(&mut self, key: &[u8], change: impl FnOnce(&mut HiddenKeys)) {
        if let Some(importing) = &mut self.importing {
            importing.note(key, change);
        }
    }

    /// Gives this map the imports of another, and that one those of this.
    pub(super) fn exchange_imports(&mut self, other: &mut Keys) {
        std::mem::swap(&mut self.importing, &mut other.importing);
        for keys in [self, other] {
            keys.importing.iter_mut().for_each(|importing| importing.forget_count());
        }
    }
}

#[cfg(test)]
#[path = "imports_tests.rs"]
mod tests;
