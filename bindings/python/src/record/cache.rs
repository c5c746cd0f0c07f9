//! Bounded caches of a reader: templates by offset, and strings of map keys by their bytes.
//!
//! ```text
//! templates: 8,192 slots, offset ──hash──► { resident offset, template, candidate offset }
//! keys:        512 slots, bytes  ──hash──► { bytes, str }
//! ```
//!
//! A slot admits a template when the same offset is missed twice in a row, so that parts of a
//! single record (a location, a postal code) pass by and parts of many records (a country) stay.
//! The weights of all templates together stay below [`MAX_WEIGHT_BYTES`].
//!
//! Concurrency: each cache is behind a lock that is only tried. Where another thread holds the
//! first cache (in Pythons without a global lock), the next one is taken, and at last none.

use super::template::Template;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::{Mutex, TryLockError};

const SLOTS: usize = 8_192;
const KEY_SLOTS: usize = 512;
const KEY_BYTES: usize = 31;
const CACHES: usize = 4;

/// What the templates of one cache may weigh.
const MAX_WEIGHT_BYTES: usize = 32 << 20;

/// The caches of one reader.
#[derive(Default)]
pub(crate) struct Caches {
    caches: [Mutex<Option<Box<Cache>>>; CACHES],
}

impl Caches {
    /// Calls `work` with a cache that no other thread uses, or with none.
    pub(super) fn with<T>(&self, work: impl FnOnce(Option<&mut Cache>) -> T) -> T {
        for cache in &self.caches {
            match cache.try_lock() {
                Ok(mut cache) => return work(Some(cache.get_or_insert_default())),
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => {}
            }
        }
        work(None)
    }
}

/// Templates and keys.
pub(super) struct Cache {
    slots: Box<[Slot]>,
    keys: Box<[Key]>,
    weight_bytes: usize,
}

#[derive(Default)]
struct Slot {
    resident: usize,
    candidate: usize,
    template: Option<Box<Template>>,
}

#[derive(Default)]
struct Key {
    bytes: [u8; KEY_BYTES],
    size: u8,
    text: Option<Py<PyString>>,
}

/// What a cache has for an offset.
pub(super) enum Lookup<'c> {
    Template(&'c Template),
    /// Nothing; whether the offset's template is to be admitted.
    Absent(bool),
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            keys: (0..KEY_SLOTS).map(|_| Key::default()).collect(),
            weight_bytes: 0,
        }
    }
}

impl Cache {
    /// The template of the container at an offset.
    pub(super) fn template(&mut self, offset: usize) -> Lookup<'_> {
        // Offset 0 marks a slot that was never used.
        let name = offset + 1;
        let Some(slot) = self.slots.get_mut(slot_of(offset)) else { return Lookup::Absent(false) };
        if slot.resident != name {
            let is_second = slot.candidate == name;
            slot.candidate = name;
            return Lookup::Absent(is_second);
        }
        match &slot.template {
            Some(template) => Lookup::Template(template),
            None => Lookup::Absent(false),
        }
    }

    /// Puts the template of an offset in the place of the one that its slot had. `None` notes that
    /// the container is too large for one.
    pub(super) fn admit(&mut self, offset: usize, template: Option<Template>) {
        let Some(slot) = self.slots.get_mut(slot_of(offset)) else { return };
        let weight = |template: &Option<Box<Template>>| {
            template.as_ref().map_or(0, |template| template.cost.weight_bytes())
        };
        let template = template.map(Box::new);
        let after = self.weight_bytes - weight(&slot.template) + weight(&template);
        if after <= MAX_WEIGHT_BYTES {
            self.weight_bytes = after;
            *slot = Slot { resident: offset + 1, candidate: 0, template };
        }
    }

    /// The string of a map key; the same object for the same bytes, as long as its slot keeps it.
    pub(super) fn key<'py>(
        &mut self,
        py: Python<'py>,
        bytes: &[u8],
        make: impl FnOnce() -> PyResult<Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let slot = self.keys.get_mut(hash(bytes) % KEY_SLOTS);
        let Some(slot) = slot.filter(|_| bytes.len() <= KEY_BYTES) else { return make() };
        if usize::from(slot.size) == bytes.len()
            && slot.bytes.get(..bytes.len()) == Some(bytes)
            && let Some(text) = &slot.text
        {
            return Ok(text.bind(py).clone());
        }
        let text = make()?;
        if let Some(room) = slot.bytes.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            slot.size = bytes.len() as u8;
            slot.text = Some(text.clone().unbind());
        }
        Ok(text)
    }
}

/// Multiplicative hashing; the constant is the golden ratio's.
fn slot_of(offset: usize) -> usize {
    ((offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize % SLOTS
}

fn hash(bytes: &[u8]) -> usize {
    let start = bytes.len() as u64;
    let hash = bytes.chunks(8).fold(start, |hash, chunk| {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(chunk) {
            *to = *from;
        }
        (hash ^ u64::from_le_bytes(eight)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    (hash >> 20) as usize
}
