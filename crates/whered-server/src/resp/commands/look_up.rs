//! Members looked up by name, for one request or for a run of requests at once.
//!
//! For: `GEODIST GEOPOS GEOHASH ZSCORE ZMSCORE`, which ask nothing but where members are. Those of a
//! pipeline that follow each other are looked up together before the first of them runs, so that
//! key and locks are taken once and all of them wait for memory at the same time. Each request then
//! runs as any other does and finds its answers here.
//! Not for: finding the requests (`ahead`), replies.
//!
//! ```text
//! input   *4 GEODIST ..│*4 GEODIST ..│*3 GEOPOS ..│*5 GEOADD ..│ ...
//! ahead     at, 0..2      at, 2..4      at, 4..5               the run ends here
//! found    │ s │ s │     │ s │ - │     │ s │                   by member, in order
//! ```
//!
//! Invariants: a request that was looked up ahead is known by its address in the input, which does
//! not move before all is forgotten at the turn's end; requests looked up ahead follow each other,
//! so that nothing of the same connection comes between the looking and the answers. What other
//! connections write meanwhile happens after all of them, which had arrived before.
//! Cost: that of the lookups; nothing is allocated once the lists have grown.

use std::ops::Range;

use whered_engine::geo::score::{geohash_of_score, place_of_score};
use whered_engine::geo::{Cell, Place};
use whered_engine::{Keyspace, Ordered, Value};

use super::arguments::WRONG_KIND;
use crate::resp::protocol::Args;
use crate::resp::reply::Failure;
use crate::resp::session::Session;

/// Lists that have grown beyond this are given back at the end of a turn.
const KEPT_MEMBERS: usize = 4096;

/// What a member has: a cell in a collection of points, any score in another sorted set.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberScore {
    Cell(Cell),
    Score(f64),
}

impl MemberScore {
    pub(super) fn place(self) -> Place {
        match self {
            MemberScore::Cell(cell) => cell.place(),
            MemberScore::Score(score) => place_of_score(score),
        }
    }

    pub(super) fn geohash(self) -> [u8; 11] {
        match self {
            MemberScore::Cell(cell) => cell.geohash(),
            MemberScore::Score(score) => geohash_of_score(score),
        }
    }

    pub(super) fn score(self) -> f64 {
        match self {
            MemberScore::Cell(cell) => cell.bits() as f64,
            MemberScore::Score(score) => score,
        }
    }
}

/// A request that asks only where members are.
#[derive(Clone, Copy)]
pub(super) struct MemberLookup<'a> {
    pub(super) args: Args<'a>,
    /// How many members it names.
    pub(super) count: usize,
    /// The request before it asks the same, byte for byte: members are found once for both.
    pub(super) repeats: bool,
}

/// What was found for the present request and for those looked up ahead.
#[derive(Default)]
pub(crate) struct MemberLookups {
    cells: Vec<Option<Cell>>,
    found: Vec<Option<MemberScore>>,
    ahead: Vec<PreparedLookup>,
    /// How many of them have run.
    used: usize,
}

/// A request looked up ahead.
struct PreparedLookup {
    /// Where its name stands in the input.
    address: usize,
    /// What was found for its members.
    found: Range<usize>,
}

impl MemberLookups {
    /// Forgets what was found.
    pub(crate) fn forget(&mut self) {
        if self.found.capacity() > KEPT_MEMBERS {
            *self = MemberLookups::default();
        }
        self.found.clear();
        self.ahead.clear();
        self.used = 0;
    }

    /// Looks members up for requests that will run next, unless the key holds something else than
    /// points. Says whether it did.
    pub(super) fn look_ahead<'a>(
        &mut self,
        keyspace: &Keyspace,
        (number, key): (usize, &[u8]),
        members: &[&[u8]],
        requests: impl Iterator<Item = MemberLookup<'a>>,
    ) -> bool {
        let cells = &mut self.cells;
        cells.clear();
        let is_collection = keyspace.read(number, key, |value| {
            let points = value.and_then(Value::points);
            points.inspect(|points| points.cells_batch(members, cells)).is_some()
        });
        if !is_collection {
            return false;
        }
        let mut range = self.found.len()..self.found.len();
        self.found.extend(cells.iter().map(|cell| cell.map(MemberScore::Cell)));
        self.ahead.extend(requests.map(|MemberLookup { args, count, repeats }| {
            if !repeats {
                range = range.end..range.end + count;
            }
            PreparedLookup { address: address(args), found: range.clone() }
        }));
        true
    }

    /// What was found ahead for this request.
    fn take(&mut self, args: Args<'_>, count: usize) -> Option<Range<usize>> {
        let ahead = self.ahead.get(self.used)?;
        if ahead.address != address(args) || ahead.found.len() != count {
            self.forget();
            return None;
        }
        self.used += 1;
        Some(ahead.found.clone())
    }

    fn look_up<'a>(
        &mut self,
        members: Option<Ordered<'_>>,
        names: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        match members {
            None => self.found.extend(names.map(|_| None)),
            Some(Ordered::Scores(set)) => {
                self.found.extend(names.map(|name| set.score(name).map(MemberScore::Score)));
            }
            Some(Ordered::Points(points)) if names.len() <= 2 => {
                self.found.extend(names.map(|name| points.cell(name).map(MemberScore::Cell)));
            }
            Some(Ordered::Points(points)) => {
                let names: Vec<&[u8]> = names.collect();
                self.cells.clear();
                points.cells_batch(&names, &mut self.cells);
                self.found.extend(self.cells.iter().map(|cell| cell.map(MemberScore::Cell)));
            }
        }
    }
}

/// What a request's arguments from the second on, `count` of them, have in the key that its first
/// one names.
///
/// # Errors
/// The key holds no sorted set.
pub(super) fn look_up<'s>(
    session: &'s mut Session,
    args: Args<'_>,
    count: usize,
) -> Result<&'s [Option<MemberScore>], Failure> {
    if let Some(range) = session.looked_up.take(args, count) {
        session.count_lookup(true);
        return Ok(&session.looked_up.found[range]);
    }
    let (shared, looked_up) = (&session.shared, &mut session.looked_up);
    looked_up.forget();
    let is_found = shared.engine.keyspace().read(session.number, args.at(1), |value| {
        let ordered = value.map(|value| value.ordered().ok_or(WRONG_KIND)).transpose();
        ordered.map(|ordered| looked_up.look_up(ordered, args.skip(2).first(count)))?;
        Ok::<bool, Failure>(value.is_some())
    })?;
    session.count_lookup(is_found);
    Ok(&session.looked_up.found)
}

/// Reads a sorted set of either kind; `None` without the key.
///
/// # Errors
/// The key holds something else, or what `read` gives.
pub(super) fn read_ordered<R>(
    session: &Session,
    key: &[u8],
    read: impl FnOnce(Option<Ordered<'_>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    session.read_key(key, |value| {
        let ordered = value.map(|value| value.ordered().ok_or(WRONG_KIND)).transpose()?;
        read(ordered)
    })
}

fn address(args: Args<'_>) -> usize {
    args.at(0).as_ptr().addr()
}
