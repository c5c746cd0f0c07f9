//! When a file's new state is tried: once it has been the same for a while.
//!
//! Not for: asking the system (the watcher does and tells what it saw). No clock and no files here:
//! times and states are arguments.
//!
//! ```text
//! look: serving or refused ──> nothing to do
//!       another state      ──> wait until it has stayed the same for QUIET
//!                              (or keeps changing for PATIENCE: then it is tried as it is)
//! ```

use std::time::{Duration, Instant};

use whered_engine::FileState;

/// How long a file must stay as it is.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// How long it may keep changing before it is tried all the same.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What is at a path: a file's state, or `None` where there is no file to be seen.
pub(super) type ObservedState = Option<FileState>;

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Look again then.
    LookAt(Instant),
    Load,
}

/// One database's file, between looks.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    /// The state that was seen last, since when it is so, and since when it is not what serves.
    pending: Option<(ObservedState, Instant, Instant)>,
    /// The state that was tried last and refused.
    refused: Option<ObservedState>,
}

impl Candidate {
    /// Takes what was seen; `serving` is the state of the file that serves.
    pub(super) fn look(&mut self, seen: ObservedState, serving: FileState, now: Instant) -> Step {
        if seen == Some(serving) {
            *self = Candidate::default();
            return Step::Nothing;
        }
        if self.refused == Some(seen) {
            self.pending = None;
            return Step::Nothing;
        }
        let (since, first) = match self.pending {
            Some((last, since, first)) if last == seen => (since, first),
            Some((_, _, first)) => (now, first),
            None => (now, now),
        };
        self.pending = Some((seen, since, first));
        if now >= since + QUIET || now >= first + PATIENCE {
            Step::Load
        } else {
            Step::LookAt(since + QUIET)
        }
    }

    /// What was tried last was refused; it is not tried again until it changes.
    pub(super) fn refuse(&mut self, tried: ObservedState) {
        self.pending = None;
        self.refused = Some(tried);
    }

    /// The file was changed while it was read: the wait begins anew.
    pub(super) fn wait_again(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64) -> FileState {
        FileState { device: 1, inode: number, size_bytes: 9, modified: (1, 2), changed: (1, 2) }
    }

    #[test]
    fn a_new_state_is_tried_when_it_has_been_quiet() {
        let (mut file, start) = (Candidate::default(), Instant::now());
        assert_eq!(file.look(Some(state(1)), state(1), start), Step::Nothing);
        assert_eq!(file.look(Some(state(2)), state(1), start), Step::LookAt(start + QUIET));
        let later = start + QUIET / 2;
        assert_eq!(file.look(Some(state(3)), state(1), later), Step::LookAt(later + QUIET));
        assert_eq!(file.look(Some(state(3)), state(1), start + QUIET), Step::LookAt(later + QUIET));
        assert_eq!(file.look(Some(state(3)), state(1), later + QUIET), Step::Load);
    }

    #[test]
    fn what_was_refused_waits_for_a_change_and_what_serves_forgets_it() {
        let (mut file, now) = (Candidate::default(), Instant::now());
        for seen in [Some(state(2)), None] {
            file.look(seen, state(1), now);
            file.refuse(seen);
            assert_eq!(file.look(seen, state(1), now + PATIENCE), Step::Nothing);
            assert_eq!(file.look(Some(state(3)), state(1), now), Step::LookAt(now + QUIET));
        }
        assert_eq!(file.look(Some(state(1)), state(1), now), Step::Nothing);
        assert_eq!(file.look(None, state(1), now), Step::LookAt(now + QUIET));
    }

    #[test]
    fn a_file_that_never_rests_is_tried_at_last() {
        let (mut file, start) = (Candidate::default(), Instant::now());
        let mut now = start;
        for number in 2.. {
            match file.look(Some(state(number)), state(1), now) {
                Step::Load => break,
                step => assert_eq!(step, Step::LookAt(now + QUIET)),
            }
            now += QUIET / 2;
        }
        assert_eq!(now, start + PATIENCE);
        file.wait_again();
        assert_eq!(file.look(Some(state(9)), state(1), now), Step::LookAt(now + QUIET));
    }
}
