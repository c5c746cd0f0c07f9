//! One seeded generator of random numbers (splitmix64, Steele, Lea and Flood 2014), the same on
//! every machine.
//!
//! For: tests, benchmarks, simulated faults and synthetic samples. Not for: unpredictable numbers.
//! Cost: the state is 8 bytes; a number costs three multiplications.

/// A generator of reproducible numbers; the field is its state, which may be any seed.
///
/// ```
/// use whered_random::Random;
/// assert_eq!(Random(7).next_u64(), Random::new(7).next_u64());
/// assert!(Random(7).below(10) < 10);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Random(pub u64);

impl Random {
    /// A generator with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A generator for one numbered item of a kind, so that the item can be made again without
    /// those before it.
    #[must_use]
    pub fn of(seed: u64, kind: u64, number: u64) -> Random {
        let mut random = Random(seed ^ kind.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random(random.next_u64() ^ number.wrapping_mul(0xa076_1d64_78bd_642f))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number below the bound.
    ///
    /// # Panics
    ///
    /// If the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A fraction from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, chance: f64) -> bool {
        self.fraction() < chance
    }

    /// One of several items.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// True once in `n` times.
    ///
    /// # Panics
    ///
    /// If `n` is zero.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number from a range, both ends included.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn within(&mut self, (first, last): (u128, u128)) -> u128 {
        let (span, number) = (last - first, self.next_u128());
        first + span.checked_add(1).map_or(number, |count| number % count)
    }
}
