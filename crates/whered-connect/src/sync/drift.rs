//! What a kernel's set holds compared with what was written.
//!
//! For: finding elements that are missing, foreign, or end at another time, and when to look.
//! Not for: reading a set back (`elements`, `ipset`), repairing it, which is a replacement.
//!
//! ```text
//! held then ──┐
//! content ────┼─ judge ──► missing: wanted then and now, not there
//! held now ───┘            foreign: there, wanted neither then nor now
//! ```
//!
//! A comparison runs on a thread of its own and may take seconds; changes go on meanwhile, so it is
//! judged by what was held when it began and when it ended.
//!
//! Invariant: comparing takes at most a twentieth of the time, or a fiftieth of it where it is done
//! more often than asked.

use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Difference, Piece};
use crate::error::ConnectError;

/// Elements that end as near as this to what was written are as they were written: writing half a
/// million takes seconds.
const SAME_MILLIS: u64 = 10_000;
/// The shortest pause between two comparisons.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// How long a comparison is waited for that usually takes no longer.
const PATIENCE: Duration = Duration::from_millis(50);

/// A set as it was read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// Its elements.
    pub pieces: Vec<Piece>,
    /// Elements of kinds that we never write.
    pub foreign: usize,
    /// The longest time that it counts for an element; an element that shall last longer has no
    /// end there. `None` if it has no ends at all.
    pub longest_millis: Option<u64>,
}

/// A job that reads a set back; nothing if it was changed meanwhile.
pub type ReadBack = Box<dyn FnOnce() -> Result<Option<Content>, ConnectError> + Send>;

/// How a set differs from what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drift {
    /// It is another set, or somebody has changed it.
    Touched,
    /// A whole comparison found differences.
    Elements {
        /// Elements that are not there.
        missing: usize,
        /// Elements that somebody else has added.
        foreign: usize,
        /// Elements that end at another time.
        other_ends: usize,
    },
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Drift::Touched => f.write_str("somebody else has changed or replaced it"),
            Drift::Elements { missing, foreign, other_ends } => write!(
                f,
                "somebody else has changed it: {missing} elements missing, {foreign} foreign, \
                 {other_ends} with another end"
            ),
        }
    }
}

/// The differences that count, or nothing.
pub(super) fn judge(
    content: &Content,
    then: &[Piece],
    now: &[Piece],
    now_millis: u64,
) -> Option<Drift> {
    let mut found = content.pieces.clone();
    found.sort_unstable_by_key(|piece| (piece.first, piece.last));
    let mut then: Vec<Piece> = then.to_vec();
    let counts_so_far = |piece: &Piece| {
        let longest = content.longest_millis?;
        piece.until_millis.filter(|until| until.saturating_sub(now_millis) <= longest)
    };
    then.iter_mut().for_each(|piece| piece.until_millis = counts_so_far(piece));
    let difference = Difference::between(&found, &mut then);
    let is_near = |until: Option<u64>| {
        until.is_some_and(|until| until <= now_millis.saturating_add(SAME_MILLIS))
    };
    let held = |piece: &Piece| {
        let key = (piece.first, piece.last);
        let place = now.binary_search_by_key(&key, |it| (it.first, it.last)).ok()?;
        now.get(place)
    };
    // A member that ends about now may be there or not, with and without ends of the set.
    let missing = difference
        .add
        .iter()
        .filter(|piece| held(piece).is_some_and(|held| !is_near(held.until_millis)));
    let foreign = difference
        .remove
        .iter()
        .filter(|piece| held(piece).is_none() && !is_near(piece.until_millis));
    let other_ends = difference.renew.iter().filter(|wanted| {
        let place =
            found.binary_search_by_key(&(wanted.first, wanted.last), |it| (it.first, it.last));
        let end = place.ok().and_then(|place| found.get(place)).and_then(|it| it.until_millis);
        let is_same = match (end, wanted.until_millis) {
            (Some(end), Some(wanted)) => end.abs_diff(wanted) <= SAME_MILLIS,
            (end, wanted) => end == wanted,
        };
        // One that was renewed meanwhile is as it shall be, then or now.
        !is_same && held(wanted).map(counts_so_far) == Some(wanted.until_millis)
    });
    let (missing, foreign, other_ends) = (missing.count(), foreign.count(), other_ends.count());
    let foreign = foreign + content.foreign;
    (missing + foreign + other_ends > 0).then_some(Drift::Elements { missing, foreign, other_ends })
}

/// A comparison that goes on, and how long the last one took.
pub(super) struct Comparison {
    going_on: Option<GoingOn>,
    last_ended: Instant,
    last_cost: Duration,
}

struct GoingOn {
    then: Vec<Piece>,
    answer: Receiver<(Result<Option<Content>, ConnectError>, Duration)>,
}

impl Comparison {
    /// None goes on; the first is due after a pause.
    pub(super) fn new() -> Comparison {
        Comparison { going_on: None, last_ended: Instant::now(), last_cost: Duration::ZERO }
    }

    /// The pause between two comparisons: as asked, shorter where changes are not announced and
    /// comparing costs little, longer where it costs much.
    pub(super) fn pause(&self, asked: Duration, is_announced: bool) -> Duration {
        let cost = self.last_cost;
        let often = if is_announced { asked } else { asked.min((cost * 50).max(PAUSE_MIN)) };
        often.max(cost * 20)
    }

    /// Whether the last one ended this long ago, and none goes on.
    pub(super) fn is_due(&self, pause: Duration) -> bool {
        self.going_on.is_none() && self.last_ended.elapsed() >= pause
    }

    /// Begins one, of a set that holds these pieces.
    pub(super) fn begin(&mut self, read_back: ReadBack, held: &[Piece]) {
        let (sender, answer) = mpsc::channel();
        let started = thread::Builder::new().name("compare".to_owned()).spawn(move || {
            let start = Instant::now();
            let content = read_back();
            // Nobody is left to tell when that fails.
            let _sent = sender.send((content, start.elapsed()));
        });
        match started {
            Ok(_) => self.going_on = Some(GoingOn { then: held.to_vec(), answer }),
            // Without a thread it is tried again after the pause.
            Err(_) => self.last_ended = Instant::now(),
        }
    }

    /// What was held and what was found, if one has ended.
    pub(super) fn ended(&mut self) -> Result<Option<(Vec<Piece>, Content)>, ConnectError> {
        let Some(going_on) = &self.going_on else { return Ok(None) };
        let patience = if self.last_cost <= PATIENCE { PATIENCE } else { Duration::ZERO };
        let (content, cost) = match going_on.answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => (Ok(None), Duration::ZERO),
        };
        (self.last_ended, self.last_cost) = (Instant::now(), cost);
        let then = self.going_on.take().map(|it| it.then).unwrap_or_default();
        Ok(content?.map(|content| (then, content)))
    }

    /// Drops one that goes on: the set was written anew meanwhile.
    pub(super) fn forget(&mut self) {
        self.going_on = None;
        self.last_ended = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: u128, until_millis: Option<u64>) -> Piece {
        Piece { first: number, last: number, until_millis }
    }

    #[test]
    fn a_change_during_a_comparison_is_no_drift_and_a_strangers_is() {
        let [one, two, three] = [1, 2, 3].map(|number| piece(number, None));
        let content = |pieces: &[Piece]| Content {
            pieces: pieces.to_vec(),
            foreign: 0,
            longest_millis: Some(u64::MAX),
        };
        let elements =
            |missing, foreign, other_ends| Some(Drift::Elements { missing, foreign, other_ends });
        assert_eq!(judge(&content(&[two, one]), &[one, two], &[one, two], 0), None);
        // Two went and three came while the set was read.
        assert_eq!(judge(&content(&[one, three]), &[one, two], &[one, three], 0), None);
        assert_eq!(judge(&content(&[one]), &[one, two], &[one, two], 0), elements(1, 0, 0));
        assert_eq!(judge(&content(&[one, three]), &[one], &[one], 0), elements(0, 1, 0));
    }

    #[test]
    fn ends_count_where_the_set_has_them() {
        let content = |until_millis, longest_millis| Content {
            pieces: vec![piece(1, until_millis)],
            foreign: 0,
            longest_millis,
        };
        let held = [piece(1, Some(100_000))];
        let judged = |content: &Content| judge(content, &held, &held, 0);
        assert_eq!(judged(&content(Some(105_000), Some(u64::MAX))), None);
        let other_end = Some(Drift::Elements { missing: 0, foreign: 0, other_ends: 1 });
        assert_eq!(judged(&content(Some(20_000), Some(u64::MAX))), other_end);
        assert_eq!(judged(&content(None, Some(u64::MAX))), other_end);
        // A set without ends, and one that cannot count so far.
        assert_eq!(judged(&content(None, None)), None);
        assert_eq!(judged(&content(None, Some(50_000))), None);
        // What ends about now may have gone.
        let empty = Content { pieces: Vec::new(), ..content(None, Some(u64::MAX)) };
        assert_eq!(judge(&empty, &held, &held, 95_000), None);
    }

    #[test]
    fn comparing_takes_a_small_part_of_the_time() {
        let second = Duration::from_secs(1);
        let comparison = |last_cost| Comparison { last_cost, ..Comparison::new() };
        let cheap = comparison(Duration::from_millis(1));
        assert_eq!(cheap.pause(second * 60, true), second * 60);
        assert_eq!(cheap.pause(second * 60, false), second / 2);
        assert_eq!(comparison(second / 2).pause(second * 60, false), second * 25);
        assert_eq!(comparison(second * 18).pause(second * 60, true), second * 360);
    }
}
