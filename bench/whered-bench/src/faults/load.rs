//! All lanes of one server: load while something is done to it, and a look at it afterwards.
//!
//! Not for what is done. Lanes are threads that end when their connection does.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::lane::{Lane, Progress};
use super::model::{BRIEF_MILLISECONDS, Maker};
use super::value::{Client, Value};
use super::victim::Victim;
use super::{pause, state};
use crate::Random;

/// How long nothing may be acknowledged before a server counts as hanging.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// The lanes, and what they have done so far.
pub(super) struct Load {
    lanes: Vec<Lane>,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
}

/// What became of the lanes of one round.
pub(super) struct Watch<'a> {
    pub(super) progress: &'a Progress,
    began: Instant,
}

impl Watch<'_> {
    /// Waits until that number of units is acknowledged, or something else is true.
    pub(super) fn until(&self, units: u64, or: impl Fn(&Progress) -> bool) -> Result<(), String> {
        let count = || self.progress.acknowledged.load(Ordering::Relaxed);
        while count() < units && !or(self.progress) {
            pause(Duration::from_micros(200));
            if self.began.elapsed() > SILENCE_LIMIT && count() < units {
                return Err(format!("{} of {units} units in {SILENCE_LIMIT:?}", count()));
            }
        }
        Ok(())
    }
}

impl Load {
    /// Lanes over a server that may have something already.
    pub(super) fn new(victim: &Victim, lanes: usize, random: &mut Random) -> Result<Load, String> {
        let mut client = victim.client()?;
        let spots = state::spots(&mut client)?;
        let mut load = Load { lanes: Vec::new(), acknowledged: 0, lost: 0, refused: 0 };
        for number in 0..lanes {
            let maker = Maker::new(Random::new(random.next_u64()), number, spots.clone());
            let mut lane = Lane::new(maker);
            lane.begin(state::read(&mut client, number)?);
            load.lanes.push(lane);
        }
        Ok(load)
    }

    /// Runs all lanes while `meanwhile` does something; lanes end with their connections, or when
    /// `meanwhile` has ended.
    pub(super) fn run(
        &mut self,
        victim: &mut Victim,
        depth: usize,
        meanwhile: impl FnOnce(&mut Victim, &Watch<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let progress = Progress::default();
        let address = victim.resp;
        let result = std::thread::scope(|scope| {
            let drive = |lane| scope.spawn(|| Lane::drive(lane, address, depth, &progress));
            let lanes: Vec<_> = self.lanes.iter_mut().map(drive).collect();
            let watch = Watch { progress: &progress, began: Instant::now() };
            let done = meanwhile(victim, &watch);
            progress.stop.store(true, Ordering::Relaxed);
            let joined = lanes.into_iter().map(|lane| match lane.join() {
                Ok(result) => result,
                Err(_) => Err("a lane panicked".to_owned()),
            });
            let ends: Result<Vec<()>, String> = joined.collect();
            // A lane that ended early says more than who waited for it.
            ends.and(done)
        });
        self.acknowledged += progress.acknowledged.into_inner();
        self.lost += progress.lost.into_inner();
        self.refused += progress.refused.into_inner();
        result
    }

    /// Looks at what the server has, lane by lane.
    pub(super) fn settle(&mut self, victim: &Victim, must_keep: bool) -> Result<(), String> {
        // Texts with short lives are over by then.
        pause(Duration::from_millis(BRIEF_MILLISECONDS + 20));
        let mut client = victim.client()?;
        for lane in &mut self.lanes {
            let found = state::read(&mut client, lane.number())?;
            lane.settle(found, must_keep)?;
        }
        Ok(())
    }

    /// Lets each lane wait between two sendings.
    pub(super) fn set_pause(&mut self, time: Duration) {
        self.lanes.iter_mut().for_each(|lane| lane.pause = Some(time));
    }

    /// Goes on after refusals.
    pub(super) fn go_on(&mut self) {
        self.lanes.iter_mut().for_each(Lane::go_on);
    }
}

/// Asks for a snapshot; a server that knows of none goes on without.
pub(super) fn ask_for_snapshot(client: &mut Client) -> bool {
    let reply = client.ask(&["BGSAVE"]);
    matches!(reply, Ok(Value::Simple(_)))
}
