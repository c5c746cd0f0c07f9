//! A fixed stream of numbers (splitmix64, Steele, Lea and Flood 2014): the same on every machine.
//! For: synthetic packets that forms are measured with. Not for: anything unpredictable.

/// The generator's state.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from a range, both ends included.
    pub(crate) fn within(&mut self, range: (u128, u128)) -> u128 {
        let span = range.1 - range.0;
        let number = u128::from(self.next()) << 64 | u128::from(self.next());
        range.0 + span.checked_add(1).map_or(number, |count| number % count)
    }
}
