//! Sums of answers, each weighed by its place: what all engines of a comparison must come to.
//!
//! For: engines that are timed, so that answers are used and checked without being kept. Not for:
//! timing.

/// The sum with one more answer, weighed by its place among those asked.
#[inline(always)]
#[must_use]
pub fn weighed(sum: u64, place: usize, answer: u32) -> u64 {
    sum.wrapping_add(u64::from(answer).wrapping_mul(2 * place as u64 + 1))
}

/// What [`weighed`] comes to over a group of answers of which the first one stands at `first`, with
/// one multiplication by the group's place: compiled for any x86-64 the plain loop takes as long as
/// our fastest lookups, while the rivals' loops are compiled for this machine.
#[inline(always)]
#[must_use]
pub fn weighed_group(sum: u64, first: usize, answers: &[u32]) -> u64 {
    let each = answers.iter().enumerate();
    let (all, inside) = each.fold((0_u64, 0_u64), |(all, inside), (place, answer)| {
        let answer = u64::from(*answer);
        (all + answer, inside + answer * u64::from(2 * place as u32 + 1))
    });
    sum.wrapping_add(inside).wrapping_add(all.wrapping_mul(2 * first as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_weighs_as_its_answers_do() {
        let answers = [7, 0, u32::MAX, 3, u32::MAX];
        let one_by_one = answers
            .iter()
            .enumerate()
            .fold(5, |sum, (place, &answer)| weighed(sum, 64 + place, answer));
        assert_eq!(weighed_group(5, 64, &answers), one_by_one);
    }
}
