//! Which data the lookups under way read, so that a reload frees none of it.
//!
//! For: handles with `CHECK_CACHE`. Not for when data is replaced (`reload.rs`). A lookup announces
//! what it reads in a slot, which costs it three plain stores:
//!
//! ```text
//! lookup:  slot = LOADING, load the handle's data, slot = data, answer, slot = null
//! reload:  swap the handle's data; a minute later free the old data,
//!          unless a slot is LOADING or has it
//! ```
//!
//! Invariants: a slot of the table has one thread for ever, which alone writes it; the threads of a
//! handle whose slot another one has, and calls inside a signal handler, take a slot of the list,
//! which has as many as ever were in use at a time. A store may be seen later than the load behind
//! it: data is looked for in slots long after it was replaced (`reload::GRACE`), when all stores of
//! before are seen. A thread that is stopped for hours inside a lookup keeps its data.

use crate::data::Data;
use std::ops::Deref;
use std::ptr::{dangling_mut, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicUsize, compiler_fence, fence};

const SLOTS: usize = 64;
const SLOTS_PER_BLOCK: usize = 32;

/// In a slot whose lookup may be about to read any data. No data is at that address.
fn loading() -> *mut Data {
    dangling_mut()
}

/// The slots of a handle.
pub(crate) struct Readers {
    slots: [Slot; SLOTS],
    more: AtomicPtr<Block>,
}

/// A slot of the table, in a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// The thread that has it; 0: none.
    owner: AtomicUsize,
    data: AtomicPtr<Data>,
}

/// Slots of the list.
struct Block {
    slots: [AtomicPtr<Data>; SLOTS_PER_BLOCK],
    next: *mut Block,
}

impl Default for Readers {
    fn default() -> Readers {
        let slots = std::array::from_fn(|_| Slot::default());
        Readers { slots, more: AtomicPtr::new(null_mut()) }
    }
}

/// Data that is read. It is not freed while this lives.
pub(crate) struct DataGuard<'a> {
    data: &'a Data,
    slot: Option<&'a AtomicPtr<Data>>,
}

impl<'a> DataGuard<'a> {
    /// Data that no reload replaces.
    #[inline(always)]
    pub(crate) fn unannounced(data: &'a Data) -> DataGuard<'a> {
        DataGuard { data, slot: None }
    }
}

impl Deref for DataGuard<'_> {
    type Target = Data;

    #[inline(always)]
    fn deref(&self) -> &Data {
        self.data
    }
}

impl Drop for DataGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(null_mut(), Release);
        }
    }
}

impl Readers {
    /// Reads the present data.
    ///
    /// # Safety
    ///
    /// `present` is not null, and what it has led to is freed only when [`Self::uses`] says that
    /// nobody reads it, some time after it was replaced.
    #[inline(always)]
    pub(crate) unsafe fn read<'a>(&'a self, present: &AtomicPtr<Data>) -> DataGuard<'a> {
        let slot = self.slot();
        // The load comes behind the store; see the head of the file.
        compiler_fence(SeqCst);
        let data = present.load(Acquire);
        slot.store(data, Release);
        // SAFETY: the caller's promise; the slot says what is read.
        DataGuard { data: unsafe { &*data }, slot: Some(slot) }
    }

    /// A slot for this call, which is LOADING.
    #[inline(always)]
    fn slot(&self) -> &AtomicPtr<Data> {
        // SAFETY: no preconditions. No two threads that live have the same.
        let thread = unsafe { libc::pthread_self() } as usize;
        // The structures of threads are some pages apart.
        let number = (thread as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        if let Some(slot) = self.slots.get(number as usize) {
            let is_own = slot.owner.load(Relaxed) == thread;
            // A slot that is in use belongs to a call that this one interrupts.
            if is_own && slot.data.load(Relaxed).is_null() {
                slot.data.store(loading(), Relaxed);
                return &slot.data;
            }
            if slot.owner.compare_exchange(0, thread, Relaxed, Relaxed).is_ok() {
                slot.data.store(loading(), Relaxed);
                return &slot.data;
            }
        }
        self.slot_of_list()
    }

    #[cold]
    #[inline(never)]
    fn slot_of_list(&self) -> &AtomicPtr<Data> {
        let mut block = self.more.load(Acquire);
        // SAFETY: blocks are freed with the handle only.
        while let Some(found) = unsafe { block.as_ref() } {
            let take = |slot: &&AtomicPtr<Data>| {
                slot.compare_exchange(null_mut(), loading(), AcqRel, Relaxed).is_ok()
            };
            if let Some(slot) = found.slots.iter().find(take) {
                return slot;
            }
            block = found.next;
        }
        let slots = std::array::from_fn(|number| {
            AtomicPtr::new(if number == 0 { loading() } else { null_mut() })
        });
        let mut made = Box::new(Block { slots, next: self.more.load(Acquire) });
        loop {
            let next = made.next;
            let block = Box::into_raw(made);
            match self.more.compare_exchange(next, block, AcqRel, Acquire) {
                // SAFETY: a block of ours, freed with the handle only.
                Ok(_) => return unsafe { &*(&raw const (*block).slots).cast() },
                Err(other) => {
                    // SAFETY: it is in no list.
                    made = unsafe { Box::from_raw(block) };
                    made.next = other;
                }
            }
        }
    }

    /// Whether a lookup under way may read data that was replaced some time ago.
    pub(crate) fn uses(&self, data: *const Data) -> bool {
        fence(SeqCst);
        let has = |slot: &AtomicPtr<Data>| {
            let read = slot.load(Acquire);
            read == loading() || read.cast_const() == data
        };
        if self.slots.iter().any(|slot| has(&slot.data)) {
            return true;
        }
        let mut block = self.more.load(Acquire);
        // SAFETY: blocks are freed with the handle only.
        while let Some(found) = unsafe { block.as_ref() } {
            if found.slots.iter().any(has) {
                return true;
            }
            block = found.next;
        }
        false
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut block = *self.more.get_mut();
        while !block.is_null() {
            // SAFETY: a block of the list, which nobody uses any more.
            block = unsafe { Box::from_raw(block) }.next;
        }
    }
}
