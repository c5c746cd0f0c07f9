//! Feature tokens for SIMD code paths, the choice between them, and prefetch.
//!
//! A value of type [`Avx2`] or [`Avx512`] exists only where the processor has those instructions. A
//! safe function can therefore take one and call code that was compiled for them. [`path`] chooses
//! a code path once for the process; [`dispatch!`] compiles a body for each path and runs the one
//! for a path. Not for: the code that depends on the processor; it stays with the structure that it
//! reads.
//!
//! `WHERED_SIMD=scalar`, `avx2` or `avx512` in the environment forces a path, for tests and
//! comparisons. Where the processor lacks that path, the next simpler one is taken. Any other value
//! has no effect. Only x86-64 has paths other than the scalar one.
//!
//! Invariant: the only public constructors of the tokens check the processor.
//! Cost of a choice: one load and one predicted branch.

use std::sync::OnceLock;

/// A code path.
#[derive(Clone, Copy, Debug)]
pub enum Path {
    /// Plain Rust, on every processor.
    Scalar,
    /// AVX2 and the bit instructions that came with it.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 as servers have it since 2017.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// The path of this process.
///
/// ```
/// // The choice depends on the machine and never changes.
/// assert_eq!(format!("{:?}", whered_simd::path()), format!("{:?}", whered_simd::path()));
/// ```
#[inline]
pub fn path() -> Path {
    static PATH: OnceLock<Path> = OnceLock::new();
    *PATH.get_or_init(|| choose(std::env::var("WHERED_SIMD").ok().as_deref()))
}

/// The best path that the processor has and `forced` allows.
fn choose(forced: Option<&str>) -> Path {
    if forced == Some("scalar") {
        return Path::Scalar;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if forced != Some("avx2")
            && let Some(avx512) = Avx512::new()
        {
            return Path::Avx512(avx512);
        }
        if let Some(avx2) = Avx2::new() {
            return Path::Avx2(avx2);
        }
    }
    Path::Scalar
}

/// Token of the scalar path: every processor has it.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// Token: the processor has AVX2, FMA, BMI1, BMI2, LZCNT and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The token, if this processor has the instructions.
    pub fn new() -> Option<Avx2> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        has_all.then_some(Avx2(()))
    }
}

/// Token: the processor has AVX-512 F, BW, CD, DQ and VL, and everything that [`Avx2`] states.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx512(Avx2);

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The token, if this processor has the instructions.
    pub fn new() -> Option<Avx512> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        if has_all { Avx2::new().map(Avx512) } else { None }
    }

    /// The AVX2 token, which this one implies.
    pub fn avx2(self) -> Avx2 {
        self.0
    }
}

/// Prefetches the cache line of an item. An index out of bounds does no harm: that line is
/// prefetched as well.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_at(items.as_ptr().wrapping_add(index).cast());
}

/// Prefetches the cache line of an address, which may be any.
#[allow(unsafe_code, reason = "a prefetch takes a pointer")]
#[inline(always)]
pub fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint and never faults; the address is not read through.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Compiles an expression once for each path and runs the one for the given path.
///
/// The bracket lists generic parameters. Each argument has a name, its type and its value; the
/// expression may use these names and the token only.
///
/// ```
/// fn sum(numbers: &[u32]) -> u32 {
///     whered_simd::dispatch!(
///         whered_simd::path(),
///         [](numbers: &[u32] = numbers) -> u32,
///         |_token| numbers.iter().sum()
///     )
/// }
/// assert_eq!(sum(&[1, 2, 3]), 6);
/// ```
#[macro_export]
macro_rules! dispatch {
    (
        $path:expr,
        [$($generics:tt)*]($($name:ident: $type:ty = $value:expr),* $(,)?) -> $output:ty,
        |$token:ident| $body:expr
    ) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn with_avx2<$($generics)*>($token: $crate::Avx2, $($name: $type),*) -> $output {
            $body
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(
            enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn with_avx512<$($generics)*>($token: $crate::Avx512, $($name: $type),*) -> $output {
            $body
        }
        #[inline(always)]
        fn with_scalar<$($generics)*>($token: $crate::Scalar, $($name: $type),*) -> $output {
            $body
        }
        match $path {
            $crate::Path::Scalar => with_scalar($crate::Scalar, $($value),*),
            // SAFETY: a token exists only where the processor has all instructions of its path.
            #[cfg(target_arch = "x86_64")]
            $crate::Path::Avx2(token) => unsafe { with_avx2(token, $($value),*) },
            // SAFETY: a token exists only where the processor has all instructions of its path.
            #[cfg(target_arch = "x86_64")]
            $crate::Path::Avx512(token) => unsafe { with_avx512(token, $($value),*) },
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simpler_paths_can_be_forced_and_an_unknown_name_changes_nothing() {
        assert!(matches!(choose(Some("scalar")), Path::Scalar));
        let named = |forced| format!("{:?}", choose(forced));
        assert_eq!(named(None), named(Some("avx512")));
        assert_eq!(named(None), named(Some("no such path")));
        assert!(!named(Some("avx2")).contains("Avx512"));
    }

    #[test]
    fn a_prefetch_out_of_bounds_does_nothing() {
        prefetch(&[1, 2, 3], 0);
        prefetch::<u64>(&[], usize::MAX);
    }
}
