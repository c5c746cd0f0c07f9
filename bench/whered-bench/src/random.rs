//! A fixed stream of numbers (splitmix64, Steele, Lea and Flood 2014): the same on every machine.
//!
//! Not for anything that needs unpredictable numbers. A state is 8 bytes; a number costs three
//! multiplications.

/// A generator of reproducible numbers.
///
/// ```
/// use whered_bench::Random;
/// assert_eq!(Random::new(7).next_u64(), Random::new(7).next_u64());
/// assert!(Random::new(7).below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A stream of its own for one numbered thing of a kind, so that the thing can be made again
    /// without those before it.
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

    /// Whether something of this chance happens now.
    pub fn chance(&mut self, chance: f64) -> bool {
        self.fraction() < chance
    }

    /// One of several things.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }
}
