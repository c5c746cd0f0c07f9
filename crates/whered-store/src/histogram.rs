//! Counts of values by powers of two: times in microseconds, sizes of groups.
//!
//! ```text
//! bucket   0    1    2    3   ...  30         31
//! values   0-1  2    3-4  5-8      to 2^30    all above
//! ```
//! For: whatever is measured while serving and shown in metrics. Not for values that matter to less
//! than a factor of two: a quantile between two bounds is an estimate.
//! At the same time: plain values; who shares one locks it or sums several.
//! Cost: noting one is some instructions; 272 bytes.

/// See the file's header.
///
/// ```
/// use whered_store::Histogram;
/// let mut histogram = Histogram::default();
/// (1..=100).for_each(|value| histogram.note(value));
/// assert_eq!((histogram.count(), histogram.sum), (100, 5050));
/// assert!((45.0..=55.0).contains(&histogram.quantile(0.5)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many values are in each bucket.
    pub buckets: [u64; Histogram::BUCKETS],
    /// All values together.
    pub sum: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [0; Histogram::BUCKETS], sum: 0 }
    }
}

impl Histogram {
    /// Upper bounds are 1, 2, 4, ...; the last bucket has none.
    pub const BUCKETS: usize = 32;

    /// The bucket of a value.
    #[must_use]
    pub fn bucket_of(value: u64) -> usize {
        ((u64::BITS - (value.max(1) - 1).leading_zeros()) as usize).min(Histogram::BUCKETS - 1)
    }

    /// The upper bound of a bucket, except for the last one, which has none.
    #[must_use]
    pub fn bound(bucket: usize) -> u64 {
        1 << bucket.min(Histogram::BUCKETS - 1)
    }

    /// Adds a value.
    pub fn note(&mut self, value: u64) {
        self.buckets[Histogram::bucket_of(value)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds another one's values.
    pub fn add(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// A bound below which so large a part of all values lies.
    #[must_use]
    pub fn bound_of(&self, part: f64) -> u64 {
        Histogram::bound(self.place_of(part).map_or(Histogram::BUCKETS - 1, |(bucket, _)| bucket))
    }

    /// The value below which so large a part of all lies, as if those of a bucket were spread
    /// evenly; 0 without values.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let Some((bucket, share)) = self.place_of(part) else { return 0.0 };
        let below = if bucket == 0 { 0 } else { Histogram::bound(bucket - 1) };
        let width = Histogram::bound(bucket) - below;
        below as f64 + width as f64 * share
    }

    /// The bucket in which a quantile is, and how far in it.
    fn place_of(&self, part: f64) -> Option<(usize, f64)> {
        let wanted = ((part * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            if count > 0 && below + count >= wanted {
                return Some((bucket, (wanted - below) as f64 / count as f64));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_bucket_whose_bounds_hold_it() {
        for value in (0..5000).chain([u64::from(u32::MAX), u64::MAX]) {
            let bucket = Histogram::bucket_of(value);
            let is_last = bucket == Histogram::BUCKETS - 1;
            assert!(is_last || value <= Histogram::bound(bucket), "{value}");
            assert!(bucket == 0 || value > Histogram::bound(bucket - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_lie_within_a_factor_of_two_of_the_true_ones() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0.0);
        let mut values: Vec<u64> = (0..1000_u64).map(|n| n * n % 7919 + 1).collect();
        values.iter().for_each(|value| histogram.note(*value));
        values.sort_unstable();
        for part in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let place = ((part * values.len() as f64).ceil() as usize).max(1) - 1;
            let (wanted, got) = (values[place] as f64, histogram.quantile(part));
            assert!(got >= wanted / 2.0 && got <= wanted * 2.0, "{part}: {wanted} {got}");
            assert!(histogram.bound_of(part) as f64 >= wanted);
        }
        let mut both = histogram.clone();
        both.add(&histogram);
        assert_eq!((both.count(), both.sum), (2000, histogram.sum * 2));
    }
}
