//! Numbers in an order that looks random and needs no table.
//!
//! Not for secrets. Four rounds of a balanced Feistel network over the smallest even number of bits
//! that holds all numbers; a result that is too large goes through again, at most about four times.

use crate::Random;

const ROUNDS: u64 = 4;

/// A bijection on `0..count`.
///
/// ```
/// use whered_bench::geo::Order;
/// let order = Order::shuffled(5, 1);
/// let mut all: Vec<u64> = (0..5).map(|place| order.at(place)).collect();
/// all.sort_unstable();
/// assert_eq!(all, [0, 1, 2, 3, 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    count: u64,
    /// Half of the network's bits; `None` keeps every number in its place.
    half_bits: Option<u32>,
    keys: [u64; ROUNDS as usize],
}

impl Order {
    /// Every number in its place.
    #[must_use]
    pub fn straight(count: u64) -> Order {
        Order { count, half_bits: None, keys: [0; ROUNDS as usize] }
    }

    /// An order that a seed gives.
    #[must_use]
    pub fn shuffled(count: u64, seed: u64) -> Order {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut random = Random::of(seed, 104, count);
        let keys = std::array::from_fn(|_| random.next_u64());
        Order { count, half_bits: Some(bits.div_ceil(2).max(1)), keys }
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number at a place.
    ///
    /// # Panics
    ///
    /// If the place is not below the count.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        assert!(place < self.count, "place {place} of {}", self.count);
        let Some(half_bits) = self.half_bits else { return place };
        let mut number = self.through(place, half_bits);
        // A permutation's cycle comes back to where it began, which is below the count.
        while number >= self.count {
            number = self.through(number, half_bits);
        }
        number
    }

    fn through(&self, number: u64, half_bits: u32) -> u64 {
        let mask = (1 << half_bits) - 1;
        let (mut left, mut right) = (number >> half_bits, number & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ ((mixed ^ mixed >> 29) >> 17 & mask));
        }
        left << half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_exactly_once() {
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097] {
            let order = Order::shuffled(count, 7);
            let mut seen = vec![false; count as usize];
            for place in 0..count {
                let number = order.at(place) as usize;
                assert!(!std::mem::replace(&mut seen[number], true), "{count}: {number} twice");
            }
        }
    }

    #[test]
    fn a_shuffled_order_has_few_numbers_beside_their_neighbours() {
        let order = Order::shuffled(100_000, 1);
        let beside = |place: &u64| order.at(*place).abs_diff(order.at(place + 1)) < 100;
        assert!((0..99_999).filter(beside).count() < 400);
        assert_ne!(order.at(5), Order::shuffled(100_000, 2).at(5));
        assert_eq!(Order::straight(9).at(5), 5);
    }
}
