//! Points of a pipeline that are added together.
//!
//! For: requests `GEOADD key longitude latitude member` that follow each other and name one key, as moves
//! come. They take key, locks and room in the journal once and stand there as one operation.
//! Not for: options, several points of one request, and whatever else needs a look of its own; such
//! requests run alone. `admission` is asked about the first, which stands for all.
//!
//! ```text
//! input   GEOADD a ..│GEOADD a ..│GEOADD a ..│GEOADD b ..│GEOPOS a ..│ ...
//!         ╰──────────── together ───────────╯ alone
//! output  :0\r\n      :1\r\n      :0\r\n                     a reply, and a hold, for each
//! ```
//!
//! Invariants: each request is answered, counted and held by itself, as if it had run alone; nothing of
//! the same connection comes between, and nobody sees a part of them. What holds for all of them is asked
//! once: whether they may run, and whether there is memory and room in the journal for all.
//! Cost: two allocations for all; of each request of a pipeline, and the one behind it, a look at length, name
//! and key.

use std::sync::Arc;

use whered_engine::geo::{Cell, Inserted};
use whered_engine::{AddCondition, Ticket};

use super::geo::place;
use super::{Entry, Failure, admission, count_error};
use crate::resp::protocol::Args;
use crate::resp::session::{ReplyMode, Session};

/// Additions that follow each other.
pub(crate) struct Moves<'a> {
    entry: &'static Entry,
    key: &'a [u8],
    points: Vec<(&'a [u8], Cell)>,
}

/// What became of them: what their replies wait for, and which members are new.
pub(crate) type MovesResult = Result<(Ticket, Vec<bool>), Failure>;

/// The next requests, as far as they are additions that may run together; `None` for fewer than two.
pub(crate) fn next_moves<'a>(
    session: &Session,
    mut requests: impl ExactSizeIterator<Item = Args<'a>>,
) -> Option<Moves<'a>> {
    let is_addition = |args: &Args<'_>| args.len() == 5 && args.is(0, "geoadd");
    let count = requests.len();
    let first = requests.next().filter(is_addition)?;
    let key = first.at(1);
    let second = requests.next().filter(|args| is_addition(args) && args.at(1) == key)?;
    let entry = session.shared.commands.find(first.at(0))?;
    if !may_run_together(session) || admission::admit(session, entry, first).is_err() {
        return None;
    }
    let point = |args: Args<'a>| Some((args.at(4), Cell::from_place(place(args, 2).ok()?)));
    let mut points = Vec::with_capacity(count);
    let rest = requests.take_while(is_addition);
    let of_key = [first, second].into_iter().chain(rest).take_while(|args| args.at(1) == key);
    points.extend(of_key.map_while(point));
    (points.len() > 1).then_some(Moves { entry, key, points })
}

/// Whether admitted requests run now, are all answered, and may share their time.
fn may_run_together(session: &Session) -> bool {
    !session.transaction.is_open()
        && session.replies == ReplyMode::On
        && !session.wants_exact_times()
        && !session.shared.pause.stops(true)
}

impl Moves<'_> {
    /// How many requests they are.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// Makes them, counts and times them, and marks the key if one of them has changed it.
    pub(crate) fn run(&self, session: &mut Session) -> MovesResult {
        let entry = self.entry;
        session.command = entry.command.name;
        if let Some((number, duration)) = session.meter.begin(entry.number, true) {
            session.log_run(number, duration);
        }
        let moved = self.add(session);
        if let Err(failure) = &moved {
            for _ in &self.points {
                count_error(session, entry.command.name.as_bytes(), failure);
                session.meter.note_failed(entry.number);
            }
        }
        let count = self.points.len() as u32;
        if let Some((number, duration)) = session.meter.end_short(entry.number, count) {
            session.log_run(number, duration);
        }
        moved
    }

    fn add(&self, session: &Session) -> MovesResult {
        let shared = Arc::clone(&session.shared);
        let _passage = shared.gate.pass(session.client.origin.worker);
        let keyspace = shared.engine.keyspace();
        let mut is_new = Vec::with_capacity(self.points.len());
        let (number, always) = (session.number, AddCondition::Always);
        let mut is_changed = false;
        let note = |inserted| {
            is_new.push(inserted == Inserted::New);
            is_changed |= inserted != Inserted::Unchanged;
        };
        let ticket = keyspace.add_each_point(number, self.key, &self.points, always, note)?;
        if is_changed {
            session.shared.watches.mark(number, self.key);
            if !session.shared.waiting.is_empty() {
                session.serve_waiting(number, self.key);
            }
        }
        Ok((ticket, is_new))
    }
}
