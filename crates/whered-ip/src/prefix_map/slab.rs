//! Things with stable numbers: a vector whose freed places are used again.
//!
//! For: nodes and entries that name each other by a small number instead of a pointer.
//!
//! ```text
//! slots: | thing 0 | thing 1 | free | thing 3 | ...      free: | 2 |
//! ```
//!
//! Invariant: a number is in `free` exactly when its slot is empty. Cost: constant for all,
//! amortised for inserting. A slab never shrinks by itself.

use std::ops::{Index, IndexMut};

/// The slab; numbers stay below 2^31 so that a caller has one bit to spare.
#[derive(Clone)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots have room in memory.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }

    /// Keeps the thing and gives its number.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Some(thing);
            return number;
        }
        let number = u32::try_from(self.slots.len()).ok().filter(|number| number >> 31 == 0);
        self.slots.push(Some(thing));
        number.expect("a map holds fewer than 2^31 prefixes")
    }

    /// Gives the thing back; its number may be given out again.
    pub(super) fn remove(&mut self, number: u32) -> T {
        let thing = self.slots[number as usize].take();
        self.free.push(number);
        thing.expect("a number that is in use has a thing")
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        self.slots[number as usize].as_ref().expect("a number that is in use has a thing")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.slots[number as usize].as_mut().expect("a number that is in use has a thing")
    }
}
