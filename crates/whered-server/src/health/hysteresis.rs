//! When a row of good and bad answers makes a check up or down.
//!
//! Invariant: the first answer decides at once, so that a start is not blind for longer than one
//! probe; from then on a change takes `up_after` or `down_after` equal answers in a row.

use whered_engine::Probed;

use super::check::Check;

/// The state of one check.
#[derive(Clone, Debug)]
pub(super) struct Hysteresis {
    up_after: u32,
    down_after: u32,
    state: Probed,
    /// How many answers in a row have spoken against the state.
    against: u32,
}

impl Hysteresis {
    pub(super) fn new(check: &Check) -> Hysteresis {
        let Check { up_after, down_after, .. } = *check;
        Hysteresis { up_after, down_after, state: Probed::Unknown, against: 0 }
    }

    /// Takes an answer and gives the state after it.
    pub(super) fn note(&mut self, is_good: bool) -> Probed {
        let (seen, needed) = match is_good {
            true => (Probed::Up, self.up_after),
            false => (Probed::Down, self.down_after),
        };
        self.against = if seen == self.state { 0 } else { self.against + 1 };
        if self.state == Probed::Unknown || self.against >= needed {
            (self.state, self.against) = (seen, 0);
        }
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::check::Target;

    fn states(up_after: u32, down_after: u32, answers: &str) -> String {
        let target = Target::parse("tcp://127.0.0.1:1").expect("a target");
        let mut state = Hysteresis::new(&Check { up_after, down_after, ..Check::new(target) });
        let note = |answer| match state.note(answer == '+') {
            Probed::Up => 'U',
            Probed::Down => 'D',
            Probed::Unknown | Probed::Unchecked => '?',
        };
        answers.chars().map(note).collect()
    }

    #[test]
    fn the_first_answer_decides_at_once() {
        assert_eq!(states(5, 5, "+"), "U");
        assert_eq!(states(5, 5, "-"), "D");
    }

    #[test]
    fn a_change_takes_answers_in_a_row() {
        assert_eq!(states(2, 3, "+--+---+++"), "UUUUUUDDUU");
        assert_eq!(states(1, 1, "+-+-"), "UDUD");
    }

    #[test]
    fn a_check_that_flaps_stays_what_it_was() {
        assert_eq!(states(2, 2, "+-+-+-+-"), "UUUUUUUU");
        assert_eq!(states(2, 2, "-+-+-+-+"), "DDDDDDDD");
    }
}
