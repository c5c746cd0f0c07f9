//! Fetching what a pipeline's next requests will read, all of it together.
//!
//! For: bringing the memory that lookups by name will touch into the caches before the first of
//! them waits for it. A lookup in a large collection is a handful of reads that depend on each
//! other; those of thirty-two requests can be under way at once.
//! Not for: answers. Whatever happens between this and the commands, they look again by themselves.
//!
//! Cost: some of the lookups' own instructions a second time; next to nothing for small
//! collections, which are in the caches anyway.

use whered_engine::Value;
use whered_engine::geo::Cell;

use super::geo::{leading_options, place};
use super::{Command, by_name};
use crate::resp::protocol::Args;
use crate::resp::session::Session;

/// Which arguments of a command are members that are looked up by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Members {
    /// None of them.
    None,
    /// Those from the first index to the last one; `None` is the last argument.
    Named(usize, Option<usize>),
    /// Those behind longitudes and latitudes, as `GEOADD` has them.
    Points,
}

/// The members of requests with the same key.
#[derive(Default)]
struct Wanted<'a> {
    key: &'a [u8],
    named: Vec<&'a [u8]>,
    points: Vec<(&'a [u8], Cell)>,
}

/// Fetches for all of these requests. Neighbours with the same key are fetched together.
pub(crate) fn warm<'a>(session: &Session, requests: impl Iterator<Item = Args<'a>>) {
    let mut wanted = Wanted::default();
    for args in requests {
        let Some(command) = by_name(args.at(0)) else { continue };
        if command.members == Members::None || args.len() < 3 {
            continue;
        }
        if args.at(1) != wanted.key {
            wanted.fetch(session);
            wanted.key = args.at(1);
        }
        wanted.add(command, args);
    }
    wanted.fetch(session);
}

impl<'a> Wanted<'a> {
    fn add(&mut self, command: &Command, args: Args<'a>) {
        match command.members {
            Members::None => {}
            Members::Named(first, last) => {
                let most = last.map_or(usize::MAX, |last| last + 1 - first);
                self.named.extend(args.from(first).take(most));
            }
            Members::Points => {
                let points = args.skip(leading_options(args));
                // A command of many points fetches for itself.
                if points.len() == 3
                    && let Ok(place) = place(points, 0)
                {
                    self.points.push((points.at(2), Cell::from_place(place)));
                }
            }
        }
    }

    fn fetch(&mut self, session: &Session) {
        let (named, points) = (&mut self.named, &mut self.points);
        if named.len() + points.len() > 1 {
            session.engine().keyspace().read(session.number, self.key, |value| {
                if let Some(collection) = value.and_then(Value::points) {
                    collection.warm(named);
                    collection.warm_points(points);
                }
            });
        }
        named.clear();
        points.clear();
    }
}
