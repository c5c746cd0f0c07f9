//! Medians and quantiles of measured values.
//!
//! Not for distributions: what a benchmark states is a median and how far the quarters lie from
//! it. Cost: one sort.

/// The value below which a share of all lies, between two neighbours in proportion; NaN for none.
///
/// ```
/// use whered_bench::measure::quantile;
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0, 5.0], 0.25), 2.0);
/// ```
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => low + (high - low) * place.fract(),
        _ => f64::NAN,
    }
}

/// The value in the middle.
///
/// ```
/// use whered_bench::measure::median;
/// assert_eq!(median(&[9.0, 1.0, 2.0, 3.0]), 2.5);
/// ```
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// How many times as long the other takes: the median over rounds of `theirs / ours`, each round's
/// two halves having run one after the other. Rounds that only one of them has are left out.
///
/// ```
/// use whered_bench::measure::median_of_ratios;
/// assert_eq!(median_of_ratios(&[1.0, 2.0, 4.0], &[3.0, 6.0, 40.0]), 3.0);
/// ```
#[must_use]
pub fn median_of_ratios(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| theirs / ours).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_smallest_and_the_largest() {
        let values = [10.0, 40.0, 20.0, 30.0];
        assert_eq!(quantile(&values, 0.0), 10.0);
        assert_eq!(quantile(&values, 0.5), 25.0);
        assert_eq!(quantile(&values, 1.0), 40.0);
        assert_eq!(quantile(&values, 7.0), 40.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn one_disturbed_round_does_not_move_the_ratio() {
        let ours = [1.0, 1.0, 50.0, 1.0, 1.0];
        let theirs = [10.0, 10.0, 10.0, 900.0, 10.0];
        assert_eq!(median_of_ratios(&ours, &theirs), 10.0);
        assert_eq!(median_of_ratios(&ours[..2], &theirs), 10.0);
    }
}
