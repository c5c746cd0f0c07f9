//! The memory of an entry data list: blocks from `calloc`, each twice as large as the one before.
//!
//! Not for what the elements say. A list is filled in order and then linked, so that it begins at
//! the first block's first element, whose `pool` leads back here:
//!
//! ```text
//! Pool ──► block 0: 64 elements ──► block 1: 128 elements ──► ...
//!   ▲         │ .pool
//!   └─────────┘                     (linked by .next across the blocks)
//! ```
//!
//! Invariants: elements never move; `blocks[..block_count]` are live; only the last block has free
//! elements. A list belongs to one thread until it is freed.

use crate::abi::MMDB_entry_data_list_s;
use crate::status::Failure;
use std::ptr::{NonNull, null_mut};

/// The elements of the first block: 4 KiB.
const FIRST_BLOCK: usize = 64;

/// More blocks than there can be elements in memory.
const MAX_BLOCKS: usize = 32;

pub(crate) struct Pool {
    blocks: [*mut MMDB_entry_data_list_s; MAX_BLOCKS],
    block_count: usize,
    /// How many elements of the last block are in use.
    used: usize,
}

impl Pool {
    /// A pool with one block; [`Pool::free`] gives it back.
    pub(crate) fn new() -> Result<NonNull<Pool>, Failure> {
        // SAFETY: all zero is a pool without blocks.
        let pool = unsafe { libc::calloc(1, size_of::<Pool>()) }.cast::<Pool>();
        let Some(mut pool) = NonNull::new(pool) else {
            return Err(Failure::OutOfMemory);
        };
        // SAFETY: just made, and known to nobody else.
        let is_ready = unsafe { pool.as_mut() }.add_block();
        if is_ready.is_err() {
            // SAFETY: as above; it has no blocks.
            unsafe { libc::free(pool.as_ptr().cast()) };
        }
        is_ready.map(|()| pool)
    }

    /// Frees the pool and all of its elements.
    ///
    /// # Safety
    ///
    /// `pool` came from [`Pool::new`], and neither it nor an element is used any more.
    pub(crate) unsafe fn free(pool: *mut Pool) {
        // SAFETY: the caller's promise; unused places of `blocks` are null, which free takes.
        unsafe {
            for block in (*pool).blocks {
                libc::free(block.cast());
            }
            libc::free(pool.cast());
        }
    }

    fn add_block(&mut self) -> Result<(), Failure> {
        let elements = FIRST_BLOCK << self.block_count;
        let own: *mut Pool = self;
        let place = self.blocks.get_mut(self.block_count).ok_or(Failure::OutOfMemory)?;
        // SAFETY: all zero is an element that says nothing; calloc refuses a size that overflows.
        let block = unsafe { libc::calloc(elements, size_of::<MMDB_entry_data_list_s>()) };
        if block.is_null() {
            return Err(Failure::OutOfMemory);
        }
        *place = block.cast();
        // SAFETY: the block has at least one element.
        unsafe { (**place).pool = own.cast() };
        self.block_count += 1;
        self.used = 0;
        Ok(())
    }

    fn last_block(&self) -> *mut MMDB_entry_data_list_s {
        self.blocks.get(self.block_count - 1).copied().unwrap_or(null_mut())
    }

    /// The next element of the list.
    pub(crate) fn take(&mut self) -> Result<NonNull<MMDB_entry_data_list_s>, Failure> {
        if self.used == FIRST_BLOCK << (self.block_count - 1) {
            self.add_block()?;
        }
        let block = NonNull::new(self.last_block()).ok_or(Failure::OutOfMemory)?;
        self.used += 1;
        // SAFETY: `used` was below the block's length.
        Ok(unsafe { block.add(self.used - 1) })
    }

    /// Links the elements that were taken; gives the first one.
    pub(crate) fn link(&mut self) -> *mut MMDB_entry_data_list_s {
        let mut previous: *mut MMDB_entry_data_list_s = null_mut();
        let blocks = self.blocks.iter().take(self.block_count).enumerate();
        for (number, &block) in blocks {
            let is_last = number + 1 == self.block_count;
            let length = if is_last { self.used } else { FIRST_BLOCK << number };
            for position in 0..length {
                // SAFETY: each block has `length` elements; `previous` is one of them.
                unsafe {
                    let element = block.add(position);
                    if !previous.is_null() {
                        (*previous).next = element;
                    }
                    previous = element;
                }
            }
        }
        self.blocks.first().copied().unwrap_or(null_mut())
    }
}
