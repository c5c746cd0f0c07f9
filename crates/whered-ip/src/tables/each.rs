//! A number for each lane of a batch.
//!
//! For: what a batch works out step by step. Not for: what lasts longer.
//!
//! Invariants: it begins at a cache line, so that what is done for several lanes at once never
//! reads or writes two lines for one: where the stack begins is another place in each process.

use std::ops::{Deref, DerefMut};

/// How many addresses go side by side in a batch.
pub(crate) const LANES: usize = 64;

/// The numbers.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Each<T>([T; LANES]);

impl<T: Copy + Default> Each<T> {
    #[inline(always)]
    pub(crate) fn new() -> Each<T> {
        Each([T::default(); LANES])
    }

    /// The results of a function for each.
    #[inline(always)]
    pub(crate) fn map<U: Copy + Default>(&self, of: impl Fn(T) -> U) -> Each<U> {
        let mut each = Each::new();
        for (to, from) in each.iter_mut().zip(&self.0) {
            *to = of(*from);
        }
        each
    }
}

impl<T> Deref for Each<T> {
    type Target = [T; LANES];

    #[inline(always)]
    fn deref(&self) -> &[T; LANES] {
        &self.0
    }
}

impl<T> DerefMut for Each<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T; LANES] {
        &mut self.0
    }
}

impl<T> From<[T; LANES]> for Each<T> {
    #[inline(always)]
    fn from(each: [T; LANES]) -> Each<T> {
        Each(each)
    }
}
