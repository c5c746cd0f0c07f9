//! Whole answers of a few paths, by record: what `MMDB_aget_value` said before, said again.
//!
//! For databases that are opened with an index; beside a tree stands the smaller `cache.rs`. Not
//! for values of more than 64 bits, nor for numbers of 64 bits behind a pointer, which are walked,
//! but for doubles that are a whole number of ten-thousandths, as coordinates are.
//!
//! ```text
//! lines   one for each record, by the number of its row in the index: 64 bytes, 16 a path
//!         | key, value | key, value | key, value | key, value |              paths 0 to 3
//!         and as many lines again for paths 4 to 7, and for paths 8 to 11
//! key     entry: 30 bits | where the field stands: 30 bits | type: 4 bits      0: free
//! value   a number of 64 bits; or a smaller number, or the size, or the ten-thousandths of a
//!         double, beside the offset of the next
//! ```
//!
//! A caller names an entry by its offset. A lookup leaves the row in the unused octets beside it;
//! if they come back with the entry, nothing has to be searched. The key says whether they did.
//!
//! Invariants: a pair of words is written once: the thread that exchanges the free key for [`BUSY`]
//! writes the value and then the key, so that a reader that sees the key sees its value. Nothing is
//! thrown out. An answer is only kept if it reads back as it was. Memory comes from the kernel and
//! is touched only where entries are asked.
//!
//! Cost: a line of memory for all of a record's first four paths, and no lock. An answer is stored
//! in words of 64 bits straight where the caller wants it: in smaller pieces, or copied, it would
//! be read in larger pieces than it was written in, and the processor waits for each such read
//! until everything before it is done.

use crate::abi::{Int, MMDB_entry_data_s};
use crate::paths::{PATHS, Paths};
use crate::status::Failure;
use std::ffi::c_char;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use whered_mmdb::fields::Kind;

const PLANES: usize = PATHS / SLOTS;
const SLOTS: usize = 4;
const LINE_BYTES: usize = 64;

/// A key that leads to nothing yet, of the type that no value has.
const BUSY: u64 = 1;
/// The type that stands for "the path does not match the data", which differs from that of a text
/// in one bit; it is that of numbers of 128 bits, which are not kept.
const NO_MATCH: u32 = 10;
const NO_MATCH_BIT: u32 = NO_MATCH ^ STRING;
/// The type that stands for a double by its ten-thousandths, which no value has.
const DECIMAL: u32 = 13;
const DECIMAL_PARTS: f64 = 10_000.0;
/// Entries and fields from here on are not kept.
const OFFSETS: u32 = 1 << 30;

/// Key and value.
type Slot = [AtomicU64; 2];

/// The answers of one database; see the file's head.
pub(crate) struct Answers {
    paths: Paths,
    lines: NonNull<Slot>,
    line_count: usize,
}

type Answer = Result<MMDB_entry_data_s, Failure>;

impl Answers {
    /// Allocates the answers of `line_count` rows; `None` if there is no memory.
    pub(crate) fn new(line_count: usize) -> Option<Answers> {
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

    /// The place where the answer of a row stands to the path of a number.
    #[inline(always)]
    fn slot(&self, row: u32, number: usize) -> Option<&Slot> {
        let line = row as usize;
        if line >= self.line_count || number >= PATHS {
            return None;
        }
        let (plane, slot) = (number / SLOTS * self.line_count, number % SLOTS);
        // SAFETY: planes and lines are below their numbers, and so are the slots in a line; atomics
        // may be shared.
        Some(unsafe { self.lines.add((plane + line) * SLOTS + slot).as_ref() })
    }

    /// The key and value of an entry's answer to a path, by the number that the path has; `None` if
    /// it is not kept or `row` is not that of the entry.
    #[inline(always)]
    fn words(&self, (row, entry): (u32, u32), number: usize) -> Option<[u64; 2]> {
        let [key, value] = self.slot(row, number)?;
        let key = key.load(Acquire);
        let is_kept = key >> 34 == u64::from(entry) && key > BUSY;
        is_kept.then(|| [key, value.load(Relaxed)])
    }

    /// Tells what is known of the value of an entry at a path, of a data section that begins at
    /// `data`, with the status that goes with it; `None`, and nothing told, if it is not kept or
    /// `row` is not that of the entry.
    ///
    /// # Safety
    ///
    /// `path` is an array of C strings that ends with a null pointer, `told` a place for the
    /// answer.
    #[inline]
    pub(crate) unsafe fn tell(
        &self,
        entry: (u32, u32),
        path: *const *const c_char,
        data: *const u8,
        told: *mut MMDB_entry_data_s,
    ) -> Option<Int> {
        // SAFETY: the caller's promise.
        unsafe {
            let [key, value] = self.words(entry, self.paths.number(path)?)?;
            Some(Words::unpacked(key, value, data).tell(told))
        }
    }

    /// Fast path for frequent paths and values, inlined into the caller.
    ///
    /// # Safety
    ///
    /// As [`tell`](Answers::tell).
    #[inline(always)]
    pub(crate) unsafe fn tell_at_once(
        &self,
        entry: (u32, u32),
        path: *const *const c_char,
        data: *const u8,
        told: *mut MMDB_entry_data_s,
    ) -> Option<Int> {
        // SAFETY: the caller's promise.
        unsafe {
            let [key, value] = self.words(entry, self.paths.number_at_once(path)?)?;
            Some(Words::unpacked_usual(key, value, data)?.tell(told))
        }
    }

    /// Who asks for a path from now on is a caller of the library.
    pub(crate) fn wait_for_callers(&self) {
        self.paths.forget_asked();
    }

    /// Asks for the memory of a row's answers, if any path was asked for.
    #[inline(always)]
    pub(crate) fn prefetch(&self, row: u32) {
        #[cfg(target_arch = "x86_64")]
        if self.paths.is_asked() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = self.lines.as_ptr().wrapping_add(row as usize * SLOTS);
            // SAFETY: a prefetch is a hint and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = row;
    }

    /// Keeps an answer, if it has room for it.
    ///
    /// # Safety
    ///
    /// As [`tell`](Answers::tell).
    pub(crate) unsafe fn set(
        &self,
        (row, entry): (u32, u32),
        path: *const *const c_char,
        data: *const u8,
        answer: &Answer,
    ) {
        // SAFETY: the caller's promise.
        let Some(number) = (unsafe { self.paths.number(path) }) else { return };
        let Some([key, value]) = self.slot(row, number) else { return };
        if entry >= OFFSETS {
            return;
        }
        let Some((packed_key, packed_value)) = packed(entry, answer, data) else { return };
        if key.compare_exchange(0, BUSY, Acquire, Relaxed).is_ok() {
            value.store(packed_value, Relaxed);
            key.store(packed_key, Release);
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
    let wanted = Words {
        has_data: 1,
        payload,
        places: u64::from(told.offset_to_next) << 32 | u64::from(told.offset),
        kind: u64::from(told.r#type) << 32 | u64::from(told.data_size),
    };
    let beside_next = |low: u32| u64::from(told.offset_to_next) << 32 | u64::from(low);
    let (kind, value) = match told.r#type {
        DOUBLE => match decimal(f64::from_bits(payload)) {
            Some(parts) => (DECIMAL, beside_next(parts.cast_unsigned())),
            None => (DOUBLE, payload),
        },
        UINT64 => (UINT64, payload),
        kind if told.data_size != 0 => (kind, beside_next(told.data_size)),
        kind @ (STRING | BYTES) => (kind, beside_next(0)),
        kind => (kind, beside_next(u32::try_from(payload).ok()?)),
    };
    let words = (key(told.offset, kind), value);
    (Words::unpacked(words.0, words.1, data) == wanted).then_some(words)
}

/// A double as ten-thousandths, if that says it.
fn decimal(number: f64) -> Option<i32> {
    let parts = (number * DECIMAL_PARTS).round();
    // What is too large or no number comes back as another one.
    let parts = parts as i32;
    ((f64::from(parts) / DECIMAL_PARTS).to_bits() == number.to_bits()).then_some(parts)
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

/// An answer in words as they lie in [`MMDB_entry_data_s`]; all zero if the path does not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Words {
    has_data: u64,
    payload: u64,
    /// The offset, and the next one's above it.
    places: u64,
    /// The size, and the type above it.
    kind: u64,
}

// How `Words::tell` sees the structure, whose other bytes are unused or the payload's upper half.
const _: () = {
    use std::mem::offset_of;
    assert!(cfg!(target_endian = "little"));
    assert!(offset_of!(MMDB_entry_data_s, has_data) == 0);
    assert!(offset_of!(MMDB_entry_data_s, payload) == 16);
    assert!(offset_of!(MMDB_entry_data_s, offset) == 32);
    assert!(offset_of!(MMDB_entry_data_s, offset_to_next) == 36);
    assert!(offset_of!(MMDB_entry_data_s, data_size) == 40);
    assert!(offset_of!(MMDB_entry_data_s, r#type) == 44);
};

impl Words {
    /// The answer that a key and its value say.
    #[inline]
    fn unpacked(key: u64, value: u64, data: *const u8) -> Words {
        match Words::unpacked_usual(key, value, data) {
            Some(words) => words,
            None => Words::unpacked_other(place_and_kind(key), value, data),
        }
    }

    /// Fast path for strings, decimals, and paths that do not match.
    #[inline(always)]
    fn unpacked_usual(key: u64, value: u64, data: *const u8) -> Option<Words> {
        let (at, kind) = place_and_kind(key);
        let low = value as u32;
        // Whether a record has a text is not to be predicted: no branch is taken on it here.
        if kind & !NO_MATCH_BIT == STRING && low < SHORT_END {
            let is_there = u64::from(kind == STRING);
            let mask = is_there.wrapping_neg();
            // A string of no bytes leads to a text of ours, whose address no key holds.
            let head_bytes = 1 + usize::from(low >= LONG_MIN);
            let text = data.wrapping_add(at as usize + head_bytes).addr() as u64;
            return Some(Words {
                has_data: is_there,
                payload: text & mask,
                places: (value >> 32 << 32 | u64::from(at)) & mask,
                kind: (u64::from(STRING) << 32 | u64::from(low)) & mask,
            });
        }
        if kind == DECIMAL {
            let number = f64::from(low.cast_signed()) / DECIMAL_PARTS;
            return Some(Words {
                has_data: 1,
                payload: number.to_bits(),
                places: value >> 32 << 32 | u64::from(at),
                kind: u64::from(DOUBLE) << 32,
            });
        }
        None
    }

    fn unpacked_other((at, kind): (u32, u32), value: u64, data: *const u8) -> Words {
        let (low, mut next) = (value as u32, (value >> 32) as u32);
        let (mut payload, mut data_size) = (u64::from(low), 0);
        if kind == BYTES || kind == STRING {
            data_size = low;
            payload = data.wrapping_add(at as usize + head_bytes(low)).addr() as u64;
        } else if kind == DOUBLE {
            payload = value;
            next = at + 9;
        } else if kind == UINT64 {
            payload = value;
            next = at + 2 + (8 - value.leading_zeros() / 8);
        } else if kind == Kind::Map as u32 || kind == Kind::Array as u32 {
            (data_size, payload) = (low, 0);
        }
        Words {
            has_data: 1,
            payload,
            places: u64::from(next) << 32 | u64::from(at),
            kind: u64::from(kind) << 32 | u64::from(data_size),
        }
    }

    #[inline(always)]
    fn status(self) -> Int {
        let no_match = Failure::LookupPathDoesNotMatchData as Int;
        no_match & (self.has_data as Int).wrapping_sub(1)
    }

    /// Tells a caller, with the status that goes with it.
    ///
    /// # Safety
    ///
    /// `told` is a place for the structure.
    #[inline(always)]
    unsafe fn tell(self, told: *mut MMDB_entry_data_s) -> Int {
        let words = told.cast::<u64>();
        // SAFETY: the caller's promise; the assertions above say where which member is.
        unsafe {
            words.write_unaligned(self.has_data);
            words.add(2).write_unaligned(self.payload);
            words.add(3).write_unaligned(0);
            words.add(4).write_unaligned(self.places);
            words.add(5).write_unaligned(self.kind);
        }
        self.status()
    }
}

/// Where the field stands that a key tells of, and its type.
#[inline(always)]
fn place_and_kind(key: u64) -> (u32, u32) {
    ((key >> 4) as u32 & (OFFSETS - 1), key as u32 & 15)
}

/// From this size on, a string's size has a second byte, and from the next one a third.
const LONG_MIN: u32 = 29;
const SHORT_END: u32 = 285;

/// How many bytes stand before the text of a string of this size.
fn head_bytes(size: u32) -> usize {
    1 + usize::from(size >= LONG_MIN) + usize::from(size >= SHORT_END) + usize::from(size >= 65_821)
}

impl Drop for Answers {
    fn drop(&mut self) {
        let size_bytes = PLANES * self.line_count * LINE_BYTES;
        // SAFETY: our own memory, of which no slot is left.
        unsafe { libc::munmap(self.lines.as_ptr().cast(), size_bytes) };
    }
}
