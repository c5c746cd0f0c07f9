//! Whole answers of a few paths, by record: what `MMDB_aget_value` said before, said again.
//!
//! For databases that are opened with an index; beside a tree stands the smaller `cache.rs`. Not
//! for values of more than 64 bits, nor for numbers of 64 bits behind a pointer, which are walked.
//!
//! ```text
//! lines   one for each hash of an entry's offset: 64 bytes, 16 for each of paths 0 to 3
//!         | key, value | key, value | key, value | key, value |
//!         and as many lines again for paths 4 to 7
//! key     entry: 30 bits | where the field stands: 30 bits | type: 4 bits      0: free
//! value   a number of 64 bits; or a smaller number, or the size, beside the offset of the next
//! ```
//!
//! Invariants: a pair of words is written once: whoever exchanges the free key for [`BUSY`] writes
//! the value and then the key, so that a reader who sees the key sees its value. Nothing is thrown
//! out; an entry that finds its two lines taken is walked each time. An answer is only kept if it
//! reads back as it was. Memory comes from the kernel and is touched only where entries are asked.
//!
//! Cost: a line of memory for all of a record's first four paths, and no lock.

use crate::abi::{MMDB_entry_data_s, Payload};
use crate::paths::{PATHS, Paths};
use crate::status::Failure;
use std::ffi::c_char;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use whered_mmdb::fields::Kind;

const PLANES: usize = PATHS / SLOTS;
const SLOTS: usize = 4;
const LINE_BYTES: usize = 64;
const MOST_LINES: usize = 1 << 20;

/// A key that leads to nothing yet, of the type that no value has.
const BUSY: u64 = 1;
/// The type that stands for "the path does not match the data".
const NO_MATCH: u32 = 12;
/// Entries and fields from here on are not kept.
const OFFSETS: u32 = 1 << 30;

/// Key and value.
type Slot = [AtomicU64; 2];

/// The answers of one database; see the file's head.
pub(crate) struct Answers {
    paths: Paths,
    lines: NonNull<Slot>,
    /// A power of two.
    line_count: usize,
}

type Answer = Result<MMDB_entry_data_s, Failure>;

impl Answers {
    /// Room for the answers of so many records; `None` if there is no memory.
    pub(crate) fn new(records: usize) -> Option<Answers> {
        let line_count = records.clamp(2, MOST_LINES).next_power_of_two();
        let size_bytes = PLANES * line_count * LINE_BYTES;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice, zero at first.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), size_bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: ours; a request for huge pages that the kernel may ignore.
        unsafe { libc::madvise(memory, size_bytes, libc::MADV_HUGEPAGE) };
        let lines = NonNull::new(memory.cast())?;
        Some(Answers { paths: Paths::default(), lines, line_count })
    }

    /// The two places where the answer of an entry and path may stand.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer.
    #[inline(always)]
    unsafe fn slots(&self, entry: u32, path: *const *const c_char) -> Option<[&Slot; 2]> {
        // SAFETY: the caller's promise.
        let number = unsafe { self.paths.number(path) }?;
        if entry >= OFFSETS {
            return None;
        }
        let hash = (u64::from(entry).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let line = hash & (self.line_count - 1);
        let (plane, slot) = (number / SLOTS * self.line_count, number % SLOTS);
        // SAFETY: planes and lines are below their numbers, and so are the slots in a line (the
        // number of lines is even); atomics may be shared.
        let at = |line| unsafe { self.lines.add((plane + line) * SLOTS + slot).as_ref() };
        Some([at(line), at(line ^ 1)])
    }

    /// What is known of the value of an entry at a path, of a data section that begins at `data`.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer.
    #[inline(always)]
    pub(crate) unsafe fn get(
        &self,
        entry: u32,
        path: *const *const c_char,
        data: *const u8,
    ) -> Option<Answer> {
        // SAFETY: the caller's promise.
        let slots = unsafe { self.slots(entry, path) }?;
        for [key, value] in slots {
            let key = key.load(Acquire);
            if (key >> 34) as u32 == entry && key > BUSY {
                return Some(unpacked(key, value.load(Relaxed), data));
            }
        }
        None
    }

    /// Keeps an answer, if it has room for it.
    ///
    /// # Safety
    ///
    /// As [`get`](Answers::get).
    pub(crate) unsafe fn set(
        &self,
        entry: u32,
        path: *const *const c_char,
        data: *const u8,
        answer: &Answer,
    ) {
        // SAFETY: the caller's promise.
        let Some(slots) = (unsafe { self.slots(entry, path) }) else { return };
        let Some((packed_key, packed_value)) = packed(entry, answer, data) else { return };
        for [key, value] in slots {
            let seen = key.load(Acquire);
            if seen > BUSY && (seen >> 34) as u32 == entry {
                return;
            }
            if seen == 0 && key.compare_exchange(0, BUSY, Acquire, Relaxed).is_ok() {
                value.store(packed_value, Relaxed);
                key.store(packed_key, Release);
                return;
            }
        }
    }
}

const STRING: u32 = Kind::String as u32;
const BYTES: u32 = Kind::Bytes as u32;
const DOUBLE: u32 = Kind::Double as u32;
const UINT64: u32 = Kind::Uint64 as u32;

/// The words of an answer; `None` if they would not say it exactly.
fn packed(entry: u32, answer: &Answer, data: *const u8) -> Option<(u64, u64)> {
    let key = |at: u32, kind: u32| u64::from(entry) << 34 | u64::from(at) << 4 | u64::from(kind);
    let told = match answer {
        Ok(told) => told,
        Err(Failure::LookupPathDoesNotMatchData) => return Some((key(0, NO_MATCH), 0)),
        Err(_) => return None,
    };
    if told.offset >= OFFSETS || told.r#type > 15 || told.r#type == NO_MATCH {
        return None;
    }
    let payload = bits(told)?;
    let low = match told.r#type {
        DOUBLE | UINT64 => None,
        _ if told.data_size != 0 => Some(told.data_size),
        STRING | BYTES => Some(0),
        _ => Some(u32::try_from(payload).ok()?),
    };
    let value = low.map_or(payload, |low| u64::from(told.offset_to_next) << 32 | u64::from(low));
    let words = (key(told.offset, told.r#type), value);
    let back = unpacked(words.0, words.1, data).ok()?;
    let places = |it: &MMDB_entry_data_s| (it.offset, it.offset_to_next, it.data_size, it.r#type);
    (places(&back) == places(told) && bits(&back) == Some(payload)).then_some(words)
}

/// The payload as the number that its bytes are; `None` for 128 bits.
fn bits(told: &MMDB_entry_data_s) -> Option<u64> {
    // SAFETY: the type says which member was written.
    unsafe {
        Some(match told.r#type {
            STRING => told.payload.utf8_string.addr() as u64,
            BYTES => told.payload.bytes.addr() as u64,
            DOUBLE => told.payload.double_value.to_bits(),
            UINT64 => told.payload.uint64,
            kind if kind == Kind::Uint16 as u32 => u64::from(told.payload.uint16),
            kind if kind == Kind::Uint32 as u32 => u64::from(told.payload.uint32),
            kind if kind == Kind::Int32 as u32 => u64::from(told.payload.int32.cast_unsigned()),
            kind if kind == Kind::Boolean as u32 => u64::from(told.payload.boolean),
            kind if kind == Kind::Float as u32 => u64::from(told.payload.float_value.to_bits()),
            kind if kind == Kind::Map as u32 || kind == Kind::Array as u32 => 0,
            _ => return None,
        })
    }
}

/// The answer that two words say.
#[inline(always)]
fn unpacked(key: u64, value: u64, data: *const u8) -> Answer {
    let (at, kind) = ((key >> 4) as u32 & (OFFSETS - 1), key as u32 & 15);
    let (low, next) = (value as u32, (value >> 32) as u32);
    let mut payload = Payload { uint128: 0 };
    let (mut next, mut data_size) = (next, 0);
    match kind {
        NO_MATCH => return Err(Failure::LookupPathDoesNotMatchData),
        STRING | BYTES => {
            data_size = low;
            // A string of no bytes leads to a text of ours, whose address no key holds.
            payload.bytes = data.wrapping_add(at as usize + head_bytes(low));
        }
        DOUBLE => {
            payload.uint64 = value;
            next = at + 9;
        }
        UINT64 => {
            payload.uint64 = value;
            next = at + 2 + (8 - value.leading_zeros() / 8);
        }
        kind if kind == Kind::Map as u32 || kind == Kind::Array as u32 => data_size = low,
        kind if kind == Kind::Uint16 as u32 => payload.uint16 = low as u16,
        kind if kind == Kind::Boolean as u32 => payload.boolean = low != 0,
        _ => payload.uint32 = low,
    }
    let (offset, offset_to_next) = (at, next);
    Ok(MMDB_entry_data_s {
        has_data: true,
        payload,
        offset,
        offset_to_next,
        data_size,
        r#type: kind,
    })
}

/// How many bytes stand before the text of a string of this size.
#[inline(always)]
fn head_bytes(size: u32) -> usize {
    1 + usize::from(size >= 29) + usize::from(size >= 285) + usize::from(size >= 65_821)
}

impl Drop for Answers {
    fn drop(&mut self) {
        let size_bytes = PLANES * self.line_count * LINE_BYTES;
        // SAFETY: our own memory, of which no slot is left.
        unsafe { libc::munmap(self.lines.as_ptr().cast(), size_bytes) };
    }
}
