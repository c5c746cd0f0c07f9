//! One connection under load: sends units of its model, and takes down what became of each.
//!
//! For: keeping a server busy while something is done to it, and judging what it holds afterwards.
//! Not for what a unit is (`model.rs`), nor for what is done to the server.
//!
//! ```text
//! units   | acknowledged | lost? | lost? | in flight |      (of refused ones only what was done)
//!         0        certain                           end
//! ```
//!
//! Replies come in order, so what is certain is a count. A unit whose reply says `may be lost` is
//! possible, and so is all behind it; one that is refused is not there. A wrong reply is a
//! violation at once, unless a refusal came before it: units are made for the state that all before
//! them give.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::model::{Maker, State, Unit};
use super::value::{Broken, Client, Value};
use super::{now_milliseconds, pause};

/// What all lanes of a run tell.
#[derive(Default)]
pub(super) struct Progress {
    /// Units acknowledged.
    pub(super) acknowledged: AtomicU64,
    /// Units answered by `may be lost`.
    pub(super) lost: AtomicU64,
    /// Units refused.
    pub(super) refused: AtomicU64,
    /// The power is about to be cut: what is acknowledged from here on is not promised, since a
    /// machine without power tells nobody anything.
    pub(super) is_dark: AtomicBool,
    /// Lanes are to stop.
    pub(super) stop: AtomicBool,
}

/// A connection's model and what was sent since it was last known to be true.
pub(super) struct Lane {
    maker: Maker,
    /// What the server had when it was looked at last.
    base: State,
    /// What it has when everything that was sent was done.
    ahead: State,
    units: Vec<Unit>,
    certain: usize,
    /// No unit was refused, so that each reply is known beforehand.
    is_as_planned: bool,
    /// How long it waits before it sends more.
    pub(super) pause: Option<Duration>,
}

/// What a reply says about its unit.
#[derive(PartialEq, Eq)]
enum Fate {
    Done,
    Lost,
    /// All or some of it: the unit is now what was done of it.
    Refused,
}

impl Lane {
    pub(super) fn new(maker: Maker) -> Lane {
        let (base, ahead) = (State::default(), State::default());
        Lane { maker, base, ahead, units: Vec::new(), certain: 0, is_as_planned: true, pause: None }
    }

    pub(super) fn number(&self) -> usize {
        self.maker.lane
    }

    /// Takes down what was already there before the first unit.
    pub(super) fn begin(&mut self, found: State) {
        self.base = found.clone();
        self.ahead = found;
    }

    /// Sends units, up to `depth` on their way at once, until the server goes, refuses, or the
    /// lanes are to stop.
    pub(super) fn drive(
        &mut self,
        address: SocketAddr,
        depth: usize,
        progress: &Progress,
    ) -> Result<(), String> {
        // The server may have been ended before this lane came to connect.
        let Ok(mut client) = Client::connect(address) else { return Ok(()) };
        match self.drive_on(&mut client, depth, progress) {
            Err(Stop::Broken(Broken::Closed)) | Ok(()) => Ok(()),
            Err(Stop::Broken(broken)) => Err(format!("lane {}: {broken}", self.number())),
            Err(Stop::Wrong(what)) => Err(format!("lane {}: {what}", self.number())),
        }
    }

    fn drive_on(
        &mut self,
        client: &mut Client,
        depth: usize,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let mut waiting: VecDeque<usize> = VecDeque::new();
        let (mut is_over, mut is_whole) = (false, true);
        self.is_as_planned = true;
        while !is_over || !waiting.is_empty() {
            let mut requests = Vec::new();
            while !is_over && waiting.len() < depth {
                let unit = self.maker.unit(&mut self.ahead, now_milliseconds());
                requests.extend(unit.requests());
                waiting.push_back(self.units.len());
                self.units.push(unit);
            }
            client.send(&requests)?;
            // Half of them first, so that the server always has something to do.
            let take = if is_over { waiting.len() } else { waiting.len().div_ceil(2) };
            for number in waiting.drain(..take).collect::<Vec<_>>() {
                let fate = self.take_reply(client, number)?;
                is_whole &= !progress.is_dark.load(Ordering::SeqCst);
                match fate {
                    Fate::Done if is_whole => {
                        self.certain = number + 1;
                        progress.acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    // It changed nothing, or it will be found out when the states are compared.
                    Fate::Done => {}
                    Fate::Lost => {
                        (is_whole, is_over) = (false, true);
                        progress.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    Fate::Refused => {
                        is_over = true;
                        progress.refused.fetch_add(1, Ordering::Relaxed);
                        if is_whole {
                            self.certain = number + 1;
                        }
                    }
                }
            }
            is_over |= progress.stop.load(Ordering::Relaxed);
            self.pause.into_iter().for_each(pause);
        }
        Ok(())
    }

    fn take_reply(&mut self, client: &mut Client, number: usize) -> Result<Fate, Stop> {
        let unit = &self.units[number];
        let replies = if unit.is_transaction() {
            for step in 0..=unit.ops.len() {
                let wanted = Value::Simple(if step == 0 { "OK" } else { "QUEUED" }.to_owned());
                let got = client.reply()?;
                if got != wanted {
                    return Err(Stop::Wrong(format!("wanted {wanted:?}, got {got:?}")));
                }
            }
            match client.reply()? {
                Value::Array(replies) => replies,
                other => vec![other],
            }
        } else {
            vec![client.reply()?]
        };
        if replies == unit.replies {
            return Ok(Fate::Done);
        }
        if replies.len() != unit.ops.len() && !matches!(replies[..], [Value::Error(_)]) {
            return Err(Stop::Wrong(format!("{} replies to {:?}", replies.len(), unit.ops)));
        }
        let says = |text: &str| {
            let is_it = |it: &Value| matches!(it, Value::Error(it) if it.contains(text));
            replies.iter().any(is_it)
        };
        if says("may be lost") {
            return Ok(Fate::Lost);
        }
        if says("writes are refused") {
            self.keep_done(number, &replies);
            return Ok(Fate::Refused);
        }
        if !self.is_as_planned {
            // It was made for a state that a refusal has kept from coming.
            return Ok(Fate::Done);
        }
        let (ops, wanted) = (&unit.ops, &unit.replies);
        Err(Stop::Wrong(format!("unit {number}: {ops:?}: wanted {wanted:?}, got {replies:?}")))
    }

    /// Leaves in a unit what was not refused of it.
    fn keep_done(&mut self, number: usize, replies: &[Value]) {
        self.is_as_planned = false;
        let ops = std::mem::take(&mut self.units[number].ops).into_iter();
        if replies.len() == ops.len() {
            let done = ops.zip(replies).filter(|(_, reply)| !matches!(reply, Value::Error(_)));
            self.units[number].ops = done.map(|(op, _)| op).collect();
        }
    }

    /// Goes on after a refusal: what was refused is forgotten.
    pub(super) fn go_on(&mut self) {
        self.ahead = self.base.clone();
        for op in self.units.iter().flat_map(|unit| &unit.ops) {
            self.ahead.apply(op);
        }
    }

    /// Looks whether what the server has is what it may have; `must_keep` says whether what was
    /// acknowledged must be there. What was found is the truth from here on.
    ///
    /// # Errors
    ///
    /// A violation: the difference from what was acknowledged.
    pub(super) fn settle(&mut self, found: State, must_keep: bool) -> Result<(), String> {
        let now = now_milliseconds();
        let mut state = self.base.clone();
        let floor = if must_keep { self.certain } else { 0 };
        let (mut acknowledged, mut nearest) = (None, None);
        for number in 0..=self.units.len() {
            if number > 0 {
                self.units[number - 1].ops.iter().for_each(|op| drop(state.apply(op)));
            }
            let mut visible = state.clone();
            visible.expire(now);
            if number == self.certain {
                acknowledged = Some(visible.clone());
            }
            if visible == found {
                if number < floor {
                    nearest = Some(number);
                    continue;
                }
                self.begin(found);
                self.units.clear();
                self.certain = 0;
                return Ok(());
            }
        }
        let what = match nearest {
            Some(number) => format!("the state behind unit {number}"),
            None => "the state behind no unit".to_owned(),
        };
        let difference = acknowledged.map(|it| it.difference(&found)).unwrap_or_default();
        Err(format!(
            "lane {}: the server has {what}: {} units acknowledged, {} possible; against what was \
             acknowledged: {difference}",
            self.number(),
            self.certain,
            self.units.len()
        ))
    }
}

/// Why a lane stops.
enum Stop {
    Broken(Broken),
    Wrong(String),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Spot;
    use super::*;
    use crate::Random;

    /// A moment that does not come while this program is used.
    const FAR_MILLISECONDS: u64 = 4_000_000_000_000;

    /// A lane that has sent some units of which some are certain, and the state behind each.
    fn lane(sent: usize, certain: usize) -> (Lane, Vec<State>) {
        let (longitude, latitude) = ("1".to_owned(), "2".to_owned());
        let spot = Spot { longitude, latitude, cell: 3_377_962_690_118_613 };
        let mut lane = Lane::new(Maker::new(Random::new(11), 0, vec![spot]));
        let mut states = vec![State::default()];
        for _ in 0..sent {
            let unit = lane.maker.unit(&mut lane.ahead, FAR_MILLISECONDS);
            lane.units.push(unit);
            states.push(lane.ahead.clone());
        }
        lane.certain = certain;
        (lane, states)
    }

    #[test]
    fn only_a_state_behind_whole_units_from_the_acknowledged_ones_on_is_accepted() {
        let (certain, sent) = (40, 60);
        let (_, states) = lane(sent, certain);
        let allowed = &states[certain..];
        for (number, state) in states.iter().enumerate() {
            let (mut lane, _) = lane(sent, certain);
            let result = lane.settle(state.clone(), true);
            assert_eq!(result.is_ok(), allowed.contains(state), "{number}: {result:?}");
            assert_eq!(lane.units.is_empty(), result.is_ok());
        }
        let (mut lane, _) = lane(sent, certain);
        assert_eq!(lane.settle(states[3].clone(), false), Ok(()));
    }

    #[test]
    fn half_a_transaction_and_a_write_done_twice_are_found_out() {
        let mut found_out = 0;
        for sent in 1..200 {
            let (_, states) = lane(sent, sent);
            let (mut lane, _) = lane(sent, sent - 1);
            let unit = lane.units[sent - 1].clone();
            let mut half = states[sent - 1].clone();
            half.apply(&unit.ops[0]);
            let mut twice = states[sent].clone();
            unit.ops.iter().for_each(|op| drop(twice.apply(op)));
            for wrong in [half, twice] {
                if !states[sent - 1..].contains(&wrong) {
                    let error = lane.settle(wrong, true).unwrap_err();
                    assert!(error.contains("expected"), "{error}");
                    found_out += 1;
                }
            }
        }
        assert!(found_out > 50, "{found_out}");
    }

    #[test]
    fn after_a_refusal_a_lane_goes_on_from_what_was_done() {
        let (mut lane, states) = lane(9, 9);
        let refused = [Value::Error("MISCONF full; writes are refused".to_owned())];
        (5..9).for_each(|number| lane.keep_done(number, &refused));
        lane.go_on();
        assert_eq!(lane.ahead, states[5]);
        assert_eq!(lane.settle(states[5].clone(), true), Ok(()));
    }
}
