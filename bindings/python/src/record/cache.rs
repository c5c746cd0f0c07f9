//! Bounded caches of a reader: templates by offset, and strings of map keys.
//!
//! A reader's caches belong to one data section: offsets of another one mean other things.
//!
//! ```text
//! parts:  8,192 sets of 4, offset ──hash──► { resident offsets, templates, candidate offsets }
//! roots:    256 sets of 4, the same for whole records
//! keys:     256 slots by offset, 512 slots by bytes ──► str
//! ```
//!
//! A set admits a template when an offset is missed while it still is a candidate, so that parts
//! of a single record (a location) pass by and parts of many records (a country) stay. In a full
//! set the template that was not used lately makes room. The weights of all templates together
//! stay below [`MAX_PARTS_BYTES`] and [`MAX_ROOTS_BYTES`].
//!
//! Concurrency: each cache is behind a lock that is only tried. Where another thread holds the
//! first cache (in Pythons without a global lock), the next one is taken, and at last none.

use super::template::Template;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::{Mutex, TryLockError};

const CACHES: usize = 4;
const WAYS: usize = 4;
const CANDIDATES: usize = 2;
const PARTS_SETS: usize = 8_192;
const ROOTS_SETS: usize = 256;
const KEYS_BY_OFFSET: usize = 256;
const KEYS_BY_BYTES: usize = 512;
const KEY_BYTES: usize = 31;

/// The largest weights of all templates of one cache.
const MAX_PARTS_BYTES: usize = 24 << 20;
const MAX_ROOTS_BYTES: usize = 8 << 20;

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
    pub(super) parts: Table,
    pub(super) roots: Table,
    keys_by_offset: Box<[KeyAt]>,
    keys_by_bytes: Box<[KeyOf]>,
}

/// Offsets are kept plus one: zero is none.
#[derive(Default)]
struct KeyAt {
    offset: u32,
    size: u32,
    text: Option<Py<PyString>>,
}

#[derive(Default)]
struct KeyOf {
    bytes: [u8; KEY_BYTES],
    size: u8,
    text: Option<Py<PyString>>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            parts: Table::new(PARTS_SETS, MAX_PARTS_BYTES),
            roots: Table::new(ROOTS_SETS, MAX_ROOTS_BYTES),
            keys_by_offset: (0..KEYS_BY_OFFSET).map(|_| KeyAt::default()).collect(),
            keys_by_bytes: (0..KEYS_BY_BYTES).map(|_| KeyOf::default()).collect(),
        }
    }
}

impl Cache {
    /// The map key at an offset that pointers lead to, and its bytes.
    #[inline]
    pub(super) fn key_at<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
    ) -> Option<(Bound<'py, PyString>, usize)> {
        let slot = self.keys_by_offset.get(offset % KEYS_BY_OFFSET)?;
        let text = slot.text.as_ref().filter(|_| slot.offset as usize == offset + 1)?;
        Some((text.bind(py).clone(), slot.size as usize))
    }

    /// Notes the map key at an offset.
    pub(super) fn note_key(&mut self, offset: usize, key: &Bound<'_, PyString>, size: usize) {
        let slot = self.keys_by_offset.get_mut(offset % KEYS_BY_OFFSET);
        let offset = u32::try_from(offset + 1);
        if let (Some(slot), Ok(offset)) = (slot.filter(|_| size <= KEY_BYTES), offset) {
            *slot = KeyAt { offset, size: size as u32, text: Some(key.clone().unbind()) };
        }
    }

    /// The string of a map key; the same object for the same bytes, as long as its slot keeps it.
    pub(super) fn key<'py>(
        &mut self,
        py: Python<'py>,
        bytes: &[u8],
        make: impl FnOnce() -> PyResult<Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyString>> {
        let slot = self.keys_by_bytes.get_mut(hash(bytes) % KEYS_BY_BYTES);
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

/// Templates by offset.
pub(super) struct Table {
    sets: Box<[Set]>,
    weight_bytes: usize,
    max_bytes: usize,
}

/// One cache line: offsets plus one, where zero is none, and their templates.
#[derive(Default)]
#[repr(align(64))]
struct Set {
    residents: [u32; WAYS],
    candidates: [u32; CANDIDATES],
    templates: [Option<Box<Template>>; WAYS],
    /// A bit for each way that was used since the last time that one was looked for to replace.
    used: u8,
}

/// What a table has for an offset.
pub(super) enum Lookup<'c> {
    Template(&'c Template),
    /// Nothing; whether the offset's template is to be admitted.
    Absent(bool),
}

impl Table {
    fn new(sets: usize, max_bytes: usize) -> Table {
        let sets = (0..sets).map(|_| Set::default()).collect();
        Table { sets, weight_bytes: 0, max_bytes }
    }

    fn index(&self, offset: usize) -> usize {
        // Multiplicative hashing; the constant is the golden ratio's.
        let hash = (offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        hash as usize % self.sets.len().max(1)
    }

    /// The template of the container at an offset.
    #[inline]
    pub(super) fn get(&mut self, offset: usize) -> Lookup<'_> {
        let index = self.index(offset);
        let (Some(set), Ok(name)) = (self.sets.get_mut(index), u32::try_from(offset + 1)) else {
            return Lookup::Absent(false);
        };
        let Some(way) = set.residents.iter().position(|&resident| resident == name) else {
            let is_candidate = set.candidates.contains(&name);
            if !is_candidate {
                set.candidates = [name, set.candidates[0]];
            }
            return Lookup::Absent(is_candidate);
        };
        set.used |= 1 << way;
        match set.templates.get(way) {
            Some(Some(template)) => Lookup::Template(template),
            // It is too large for one.
            _ => Lookup::Absent(false),
        }
    }

    /// Puts the template of an offset in its set. `None` notes that the container is too large for
    /// one.
    pub(super) fn admit(&mut self, offset: usize, template: Option<Template>) {
        let index = self.index(offset);
        let (Some(set), Ok(name)) = (self.sets.get_mut(index), u32::try_from(offset + 1)) else {
            return;
        };
        let way = (0..WAYS).find(|way| set.used & 1 << way == 0).unwrap_or_else(|| {
            set.used = 0;
            0
        });
        let weight = |template: &Option<Box<Template>>| {
            template.as_ref().map_or(0, |template| template.cost.weight_bytes())
        };
        let (Some(resident), Some(place)) =
            (set.residents.get_mut(way), set.templates.get_mut(way))
        else {
            return;
        };
        self.weight_bytes -= weight(place);
        let template = template.map(Box::new);
        // What does not fit leaves the room that it found: the next one may.
        let fits = self.weight_bytes + weight(&template) <= self.max_bytes;
        (*resident, *place) = if fits { (name, template) } else { (0, None) };
        self.weight_bytes += weight(place);
        set.used |= u8::from(fits) << way;
    }

    /// Prefetches the templates of some offsets, step by step for all of them, so that the memory
    /// answers many requests at once. Each template alone is a chain of five reads.
    pub(super) fn prefetch(&self, offsets: &[usize]) {
        for &offset in offsets {
            whered_simd::prefetch(&self.sets, self.index(offset));
        }
        self.each_template(offsets, |template| {
            let first = std::ptr::from_ref(template).cast::<u8>();
            whered_simd::prefetch_at(first);
            whered_simd::prefetch_at(first.wrapping_add(64));
        });
        self.each_template(offsets, Template::prefetch_dicts);
        self.each_template(offsets, Template::prefetch_values);
    }

    #[inline]
    fn each_template(&self, offsets: &[usize], work: impl Fn(&Template)) {
        for &offset in offsets {
            let Some(set) = self.sets.get(self.index(offset)) else { continue };
            let is_it = |&resident: &u32| resident as usize == offset + 1;
            let way = set.residents.iter().position(is_it);
            if let Some(Some(template)) = way.and_then(|way| set.templates.get(way)) {
                work(template);
            }
        }
    }
}

/// A hash of a key's bytes. Offset and bytes of most keys are few: it need not be a good one.
fn hash(bytes: &[u8]) -> usize {
    let start = bytes.len() as u64;
    let hash = bytes
        .iter()
        .fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 17) as usize
}
