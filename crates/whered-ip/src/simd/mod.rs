//! Which code path this processor gets, chosen once at run time; and the code that
//! depends on it.
//!
//! Not for what is computed: [`crate::text`] has the scalar twins of everything in here, and the
//! tests hold them against each other.
//!
//! `WHERED_SIMD=scalar` or `WHERED_SIMD=avx2` in the environment forces a path, for tests and
//! comparisons. A path that the processor lacks is not taken, whatever is asked for; any other
//! value is as none. Only x86-64 has a path beside the scalar one.
//!
//! Invariant: an [`Avx2`] exists only where the processor has what its methods are compiled for,
//! which is what makes calling them sound. Cost of a choice: one load and one predicted branch.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod search;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
pub(crate) use search::{Processor, Scalar, first_not_below, prefetch};
use std::sync::OnceLock;

/// A code path.
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
    static PATH: OnceLock<Path> = OnceLock::new();
    *PATH.get_or_init(|| choose(std::env::var("WHERED_SIMD").ok().as_deref()))
}

/// The best path that the processor has and `asked` allows.
fn choose(asked: Option<&str>) -> Path {
    if asked == Some("scalar") {
        return Path::Scalar;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::new() {
        return Path::Avx2(avx2);
    }
    Path::Scalar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_can_be_asked_for_and_an_unknown_name_changes_nothing() {
        assert!(matches!(choose(Some("scalar")), Path::Scalar));
        let best = |asked| !matches!(choose(asked), Path::Scalar);
        assert_eq!(best(None), best(Some("avx2")));
        assert_eq!(best(None), best(Some("no such path")));
    }
}
