//! What can be done for a pipeline's next requests before the first of them runs.
//!
//! For: the lookups of all of them together. A lookup in a large collection is a handful of reads of
//! memory that depend on each other; those of thirty-two requests can be under way at once. The
//! first requests, as long as they ask only where members are, get their answers (`look_up`); for
//! the others the memory that they will read or change is brought near, and they look by themselves.
//! Not for: anything that must happen. A request that is left out runs alone.
//!
//! Cost: no lookup is made twice, but those of moves.

use whered_engine::Value;
use whered_engine::geo::Cell;

use super::geo::{leading_options, place};
use super::look_up::MemberLookup;
use super::{Command, Members};
use crate::resp::protocol::Args;
use crate::resp::session::Session;

/// The members of requests with the same key.
struct KeyRequests<'a> {
    key: &'a [u8],
    /// Requests that ask only where members are.
    asking: Vec<MemberLookup<'a>>,
    /// Their members.
    asked: Vec<&'a [u8]>,
    named: Vec<&'a [u8]>,
    points: Vec<(&'a [u8], Cell)>,
    /// Only requests that were looked up ahead came before.
    may_answer: bool,
}

/// Does what can be done for these requests. Neighbours with the same key are taken together.
pub(crate) fn look_ahead<'a>(
    session: &mut Session,
    requests: impl ExactSizeIterator<Item = Args<'a>>,
) {
    let mut wanted = KeyRequests {
        key: &[],
        asking: Vec::with_capacity(requests.len()),
        asked: Vec::with_capacity(2 * requests.len()),
        named: Vec::new(),
        points: Vec::new(),
        // What a transaction queues runs later, and a restricted user may not be answered.
        may_answer: !session.transaction.is_open() && session.user.may_all(),
    };
    let mut last: Option<(&[u8], &Command)> = None;
    for args in requests {
        let command = match last {
            Some((name, command)) if name == args.at(0) => command,
            _ => match session.shared.commands.by_name(args.at(0)) {
                Some(command) => command,
                None => {
                    wanted.fetch(session);
                    wanted.may_answer = false;
                    continue;
                }
            },
        };
        last = Some((args.at(0), command));
        if args.len() > 1 && args.at(1) != wanted.key {
            wanted.fetch(session);
            wanted.key = args.at(1);
        }
        wanted.add(session, command, args);
    }
    wanted.fetch(session);
}

impl<'a> KeyRequests<'a> {
    fn add(&mut self, session: &mut Session, command: &Command, args: Args<'a>) {
        let members = match command.members {
            Members::Asked(_) if !command.takes(args.len()) => Members::None,
            members => members,
        };
        let count = |most: Option<usize>| most.unwrap_or(usize::MAX).min(args.len() - 2);
        if let (Members::Asked(most), true) = (members, self.may_answer) {
            let count = count(most);
            let repeats = self.asking.last().is_some_and(|last| last.args.is_same(args));
            if !repeats {
                self.asked.extend(args.skip(2).first(count));
            }
            self.asking.push(MemberLookup { args, count, repeats });
            return;
        }
        if self.may_answer {
            self.fetch(session);
            self.may_answer = false;
        }
        match members {
            Members::None => {}
            Members::Asked(most) | Members::Named(most) if args.len() > 2 => {
                self.named.extend(args.skip(2).first(count(most)));
            }
            Members::Asked(_) | Members::Named(_) => {}
            Members::Points if args.len() < 3 => {}
            Members::Points => {
                let points = args.skip(leading_options(args));
                // A command of many points brings near for itself what it needs.
                if points.len() == 3
                    && let Ok(place) = place(points, 0)
                {
                    self.points.push((points.at(2), Cell::from_place(place)));
                }
            }
        }
    }

    fn fetch(&mut self, session: &mut Session) {
        let keyspace = session.shared.engine.keyspace();
        if self.may_answer && !self.asking.is_empty() {
            let requests = self.asking.drain(..);
            let key = (session.number, self.key);
            self.may_answer = session.looked_up.look_ahead(keyspace, key, &self.asked, requests);
            self.asked.clear();
        }
        let (named, points) = (&mut self.named, &mut self.points);
        if named.len() + points.len() > 1 {
            keyspace.read(session.number, self.key, |value| {
                if let Some(collection) = value.and_then(Value::points) {
                    collection.prefetch_members(named);
                    collection.prefetch_points(points);
                }
            });
        }
        named.clear();
        points.clear();
    }
}
