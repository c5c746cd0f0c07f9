//! The bytes that an allocator takes for a piece of memory.
//!
//! For: the account of a collection's memory, which every change keeps up (`memory_bytes` of the
//! tree, the branches, the long members and the table). Not for: what the allocator keeps when a
//! collection has become small again.
//!
//! ```text
//! words    2 4 6 8 │ 10 12 14 16 │ 20 24 28 32 │ ...     four sizes in each octave, up to 512 KiB
//! ```
//!
//! These are mimalloc's classes, which the program has; other allocators differ by little. Beyond
//! a kilobyte it adds what an alignment may cost. Pieces that often change their class leave holes
//! among others of the old one, on average an eighth of what is in use ([`with_holes`]).
//! Cost: a few instructions.

/// Above this there are no classes, but whole pages.
const LARGEST_CLASS_BYTES: usize = 512 << 10;
const PAGE_BYTES: usize = 4096;
/// Up to this, a piece that happens to be aligned is taken as it is.
const LUCKY_BYTES: usize = 1024;
/// The reference counts in front of what is shared.
const COUNTS_BYTES: usize = 16;

/// Bytes taken for a piece of this size and alignment.
pub(super) const fn allocated(bytes: usize, alignment: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let bytes = if bytes > LUCKY_BYTES { bytes + alignment - 1 } else { bytes };
    if bytes > LARGEST_CLASS_BYTES {
        return bytes.next_multiple_of(PAGE_BYTES);
    }
    let words = bytes.div_ceil(8);
    // Steps are powers of two, which a compiler that does not know them would divide by.
    let step = if words <= 8 { 2 } else { 1 << ((words - 1).ilog2() - 2) };
    ((words + step - 1) & !(step - 1)) * 8
}

/// Bytes taken for a vector's room.
pub(super) const fn allocated_room<T>(capacity: usize) -> usize {
    allocated(capacity * size_of::<T>(), align_of::<T>())
}

/// Bytes that this many bytes behind reference counts take.
pub(super) const fn allocated_shared(bytes: usize) -> usize {
    allocated(COUNTS_BYTES + bytes, 8)
}

/// Bytes taken for leaves and branches, which change their sizes all the time. The share is
/// measured: 9 to 23 hundredths of the leaves at ten million points, next to nothing where they
/// have just been loaded.
pub(super) const fn with_holes(bytes: usize) -> usize {
    bytes + bytes / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_classes() {
        let pairs =
            [(0, 0), (1, 16), (17, 32), (64, 64), (65, 80), (80, 80), (130, 160), (1024, 1024)];
        for (bytes, class) in pairs {
            assert_eq!(allocated(bytes, 8), class, "{bytes}");
        }
        assert_eq!(allocated(2048 - 7, 8), 2048);
        assert_eq!(allocated(2048 - 6, 8), 2560);
        assert_eq!(allocated(128 << 10, 64), 160 << 10);
        assert_eq!(allocated(1 << 20, 1), 1 << 20);
    }
}
