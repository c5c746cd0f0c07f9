//! The code that depends on the processor, and which of it this processor gets.
//!
//! Not for what is computed: [`crate::text`] has the scalar twins of everything in here, and the
//! tests hold them against each other. Not for asking the processor: `whered-simd` does that, and
//! its proofs make calling the code in here sound.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
mod search;
mod wide;

pub(crate) use search::{Processor, first_not_below};
#[cfg(target_arch = "x86_64")]
pub(crate) use whered_simd::Avx2;
pub(crate) use whered_simd::{Scalar, prefetch, prefetch_at};
pub(crate) use wide::Compare;

/// A code path of this crate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// Plain Rust, on every processor.
    Scalar,
    /// AVX2 and the bit instructions that came with it.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// The path of this process.
#[inline]
pub(crate) fn path() -> Path {
    match whered_simd::path() {
        whered_simd::Path::Scalar => Path::Scalar,
        #[cfg(target_arch = "x86_64")]
        whered_simd::Path::Avx2(avx2) => Path::Avx2(avx2),
        #[cfg(target_arch = "x86_64")]
        whered_simd::Path::Avx512(avx512) => Path::Avx2(avx512.avx2()),
    }
}
