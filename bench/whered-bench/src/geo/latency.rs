//! Latencies in buckets that are three percent wide, so that millions cost nothing to keep.
//!
//! Not for values over four seconds to more than their bucket: the last one takes all of them.
//!
//! ```text
//! value        1 0110 1011...   the highest bit says the row, the five below it the column
//! bucket       row * 32 + column
//! ```

const COLUMNS: usize = 32;
const ROWS: usize = 64;

/// A histogram of nanoseconds.
///
/// ```
/// let mut latencies = whered_bench::geo::Latencies::default();
/// for microseconds in 1..=100 {
///     latencies.add(microseconds * 1000);
/// }
/// let middle = latencies.quantile_nanoseconds(0.5);
/// assert!((48_000.0..=52_000.0).contains(&middle), "{middle}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: vec![0; COLUMNS * ROWS], total: 0 }
    }
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Latencies) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The value that this share of all does not exceed; NaN for none.
    #[must_use]
    pub fn quantile_nanoseconds(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(place);
            }
        }
        f64::NAN
    }
}

fn bucket(nanoseconds: u64) -> usize {
    let value = nanoseconds.max(COLUMNS as u64);
    let row = value.ilog2() as usize - COLUMNS.ilog2() as usize;
    let column = (value >> row) as usize - COLUMNS;
    (row * COLUMNS + column).min(COLUMNS * ROWS - 1)
}

fn middle(place: usize) -> f64 {
    let (row, column) = (place / COLUMNS, place % COLUMNS);
    (COLUMNS + column) as f64 * 2_f64.powi(row as i32) + 2_f64.powi(row as i32) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_three_percent_wide() {
        for value in [32, 33, 1000, 123_456, 7_000_000_000, u64::MAX / 3] {
            let found = middle(bucket(value));
            assert!((found / value as f64 - 1.0).abs() < 0.032, "{value} {found}");
        }
    }

    #[test]
    fn quantiles_of_two_histograms_are_those_of_all() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        (0..99).for_each(|_| low.add(1000));
        high.add(1_000_000);
        low.merge(&high);
        assert_eq!(low.count(), 100);
        assert!(low.quantile_nanoseconds(0.99) < 1100.0);
        assert!(low.quantile_nanoseconds(1.0) > 900_000.0);
        assert!(Latencies::default().quantile_nanoseconds(0.5).is_nan());
    }
}
