//! How long a link waits before it tries again.
//!
//! Not for: waiting. The first fault after a success costs a short pause, and each further one
//! twice as much, up to a limit.

use std::time::Duration;

/// Pauses that grow.
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Pauses {
        Pauses { first, longest, next: first }
    }

    /// The pause after one more fault.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// It has worked.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let seconds = |pauses: &mut Pauses| pauses.next().as_secs();
        let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(5));
        let grown = [(); 5].map(|()| seconds(&mut pauses));
        assert_eq!(grown, [1, 2, 4, 5, 5]);
        pauses.reset();
        assert_eq!(seconds(&mut pauses), 1);
    }
}
