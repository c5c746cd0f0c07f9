//! The links by their names, and how far each is in its primary's stream of commands.
//!
//! For: positions in memory, in the journal and in snapshots, and what they say about the hidden
//! databases. Not for: which keys are followed (`followed`), the links' work (the server).
//!
//! ```text
//! name ─> link 0 ... 63 ─> position: replication id, offset, database        none: no data yet
//! ```
//!
//! Invariants: a position changes together with the data that it is of, alone inside the gate, and
//! both are in one entry of the journal. A served number without a position, and a load number,
//! are empty after a start.
//! Cost: O(links).

use std::sync::{Mutex, MutexGuard};

use super::followed::Route;
use super::keys::Keys;
use super::{Keyspace, LINKS_MAX, load_number, number_byte, served_number};
use crate::error::WriteError;
use crate::journal::log::{EntryReservation, JournalLag, Written};
use crate::journal::numbers::link_of;
use crate::journal::operation::Operation;
use crate::journal::stream::{ReplicationId, StreamPosition};
use crate::sync;

/// How far a link is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The link's number.
    pub link: usize,
    /// The link's name.
    pub name: String,
    /// What its data is of.
    pub stream: StreamPosition,
}

impl Position {
    /// The operation that restores it.
    pub(crate) fn operation(&self) -> Operation<'_> {
        set_position(self.link, &self.name, self.stream)
    }
}

/// All links.
#[derive(Debug)]
pub(super) struct Positions(Mutex<[Option<Link>; LINKS_MAX]>);

impl Default for Positions {
    fn default() -> Positions {
        Positions(Mutex::new([const { None }; LINKS_MAX]))
    }
}

#[derive(Clone, Debug)]
struct Link {
    name: String,
    stream: Option<StreamPosition>,
    lag: JournalLag,
}

impl Link {
    fn new(name: &str, stream: Option<StreamPosition>) -> Link {
        Link { name: name.to_owned(), stream, lag: JournalLag::default() }
    }
}

impl Positions {
    fn links(&self) -> MutexGuard<'_, [Option<Link>; LINKS_MAX]> {
        sync::lock(&self.0)
    }
}

impl Keyspace {
    /// The number of the link of this name: the one that it has, or else a free one. `None` when
    /// [`LINKS_MAX`] others have one.
    pub fn link(&self, name: &str) -> Option<usize> {
        let mut links = self.followed.positions.links();
        let is_named = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.name == name);
        let known = links.iter().position(is_named);
        known.or_else(|| {
            let free = links.iter().position(Option::is_none)?;
            links[free] = Some(Link::new(name, None));
            Some(free)
        })
    }

    /// How far all links are that have data.
    pub fn positions(&self) -> Vec<Position> {
        let links = self.followed.positions.links();
        let position = |(link, known): (usize, &Option<Link>)| {
            let Link { name, stream, .. } = known.as_ref()?;
            Some(Position { link, name: name.clone(), stream: (*stream)? })
        };
        links.iter().enumerate().filter_map(position).collect()
    }

    /// How far one link is; `None` without data.
    ///
    /// # Panics
    /// When the link is not below [`LINKS_MAX`].
    pub fn position(&self, link: usize) -> Option<StreamPosition> {
        self.followed.positions.links()[link].as_ref()?.stream
    }

    /// Applies a part of a link's stream: `act` runs as [`Keyspace::isolated`] has it, and the
    /// position that it gives is kept in the same entry of the journal. Room in the journal for
    /// `room_bytes`, about what the changes take, is there before `act` begins.
    ///
    /// Waits for the journal when that is far behind, before anybody is kept out.
    ///
    /// When a change is refused in `act`, it must give the position before that. It cannot where
    /// a part of a transaction is applied: then the link has to be synchronized as a whole.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed, or nobody has asked for the link
    /// by [`Keyspace::link`]; then `act` has not run.
    pub fn follow<R>(
        &self,
        link: usize,
        room_bytes: usize,
        act: impl FnOnce() -> (R, StreamPosition),
    ) -> Result<Written<R>, WriteError> {
        let due = self.followed.positions.links().get_mut(link).and_then(|known| {
            let known = known.as_mut()?;
            known.lag.note(room_bytes, self.log.latest())
        });
        due.map_or(Ok(()), |ticket| self.log.wait(ticket))?;
        self.try_isolated(|| {
            let name = self.link_name(link)?;
            self.log.reserve_ahead(room_bytes)?;
            let room = self.log.reserve_batched(set_position_bytes(&name))?;
            let mut guard = FollowGuard { keyspace: self, link, name: &name, room: Some(room) };
            let (value, stream) = act();
            let operation = set_position(link, &name, stream);
            self.replay_position(&operation);
            if let Some(room) = guard.room.take() {
                room.append(&operation);
            }
            Ok(value)
        })
    }

    /// Forgets links with their positions and their data; their numbers are free then. No route may
    /// name them any more, and nobody may be at work for them.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then some may be forgotten.
    pub fn forget_links(
        &self,
        is_forgotten: impl Fn(&str) -> bool,
    ) -> Result<Written<()>, WriteError> {
        self.try_isolated(|| {
            for link in 0..LINKS_MAX {
                let Ok(name) = self.link_name(link) else { continue };
                if !is_forgotten(&name) {
                    continue;
                }
                let operation = forget_position(link, &name);
                let room = self.log.reserve_batched(operation.size_bytes())?;
                self.free(self.forget(link));
                room.append(&operation);
            }
            Ok(())
        })
    }

    /// Makes own keys of everything that these links, and those of the same routes, follow; the
    /// routes and the links are gone then. In the place of an own key of the same name comes the
    /// followed one. Gives how many keys there were. Nobody may be at work for the links.
    ///
    /// # Errors
    /// [`WriteError`] when the journal has no room or has failed; then nothing was applied.
    ///
    /// # Cost
    /// O(1) for a database without own keys, else O(the keys of the smaller side).
    pub fn promote(&self, links: &[usize]) -> Result<Written<usize>, WriteError> {
        self.try_isolated(|| {
            let is_promoted = |route: &Route| route.links.iter().any(|link| links.contains(link));
            let (promoted, rest): (Vec<Route>, Vec<Route>) =
                self.routes().iter().cloned().partition(is_promoted);
            let mut steps: Vec<Promotion> = Vec::new();
            for Route { database, links, .. } in &promoted {
                for link in links {
                    if steps.iter().all(|step| step.link != *link) {
                        steps.push(self.promotion(*database, *link)?);
                    }
                }
            }
            let operations: Vec<Operation<'_>> =
                steps.iter().flat_map(Promotion::operations).collect();
            let rooms: Vec<EntryReservation<'_>> = operations
                .iter()
                .map(|operation| self.log.reserve_batched(operation.size_bytes()))
                .collect::<Result<_, _>>()?;
            for (operation, room) in operations.iter().zip(rooms) {
                self.replay(operation);
                room.append(operation);
            }
            self.put_routes(rest);
            Ok(steps.iter().map(|step| step.count).sum())
        })
    }

    fn promotion(&self, database: usize, link: usize) -> Result<Promotion, WriteError> {
        let (name, number) = (self.link_name(link)?, served_number(link));
        let keys = self.shared(number);
        // Of a key that two links have, one is served; one of a slot that is imported is not.
        let others = keys.entries.keys().filter(|key| {
            let is_hidden = keys.hides(key);
            let has = |of: usize| match of == number {
                true => !is_hidden,
                false => self.shared(of).shows(key),
            };
            is_hidden || self.followed.number_of(database, key, has) != Some(number)
        });
        let others: Vec<Vec<u8>> = others.map(|key| key.to_vec()).collect();
        Ok(Promotion { database, link, name, count: keys.entries.len() - others.len(), others })
    }

    /// Empties what is of no worth after a start: see the file's head.
    pub(crate) fn empty_unfinished(&self) {
        for link in 0..LINKS_MAX {
            drop(self.exclusive(load_number(link)).take());
            if self.position(link).is_none() {
                let mut served = self.exclusive(served_number(link));
                served.set_imports(&[]);
                drop(served.take());
            }
        }
    }

    /// Applies an operation on positions and imports; gives `false` when it is none.
    pub(crate) fn replay_position(&self, operation: &Operation<'_>) -> bool {
        match operation {
            Operation::SetPosition { link, number, stream } => {
                if let Some(place) = link_of(*number) {
                    match &mut self.followed.positions.links()[place] {
                        Some(known) if known.name == *link => known.stream = Some(*stream),
                        other => *other = Some(Link::new(link, Some(*stream))),
                    }
                    self.followed.set_has_data(place, true);
                }
            }
            Operation::ForgetPosition { number, .. } => {
                link_of(*number).into_iter().for_each(|link| drop(self.forget(link)));
            }
            Operation::SetImports { number, imports } => self.replay_imports(*number, imports),
            _ => return false,
        }
        true
    }

    /// Forgets a link, and gives what its databases had.
    fn forget(&self, link: usize) -> [Keys; 2] {
        self.followed.positions.links()[link] = None;
        self.followed.set_has_data(link, false);
        self.replay_imports(number_byte(served_number(link)), &[]);
        [served_number(link), load_number(link)].map(|number| self.exclusive(number).take())
    }

    pub(super) fn link_name(&self, link: usize) -> Result<String, WriteError> {
        let links = self.followed.positions.links();
        let known = links.get(link).and_then(Option::as_ref);
        let name = known.map(|known| known.name.clone());
        name.ok_or_else(|| WriteError::Refused(format!("there is no link {link}")))
    }
}

/// A link whose keys become own ones.
struct Promotion {
    database: usize,
    link: usize,
    name: String,
    /// Keys that are not served from this link.
    others: Vec<Vec<u8>>,
    count: usize,
}

impl Promotion {
    fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let number = number_byte(served_number(self.link));
        let others: Vec<&[u8]> = self.others.iter().map(|key| &key[..]).collect();
        let delete = Operation::DeleteKeys { number, keys: others.into() };
        let delete = (!self.others.is_empty()).then_some(delete);
        let promote = Operation::Promote { number, database: number_byte(self.database) };
        delete.into_iter().chain([promote, forget_position(self.link, &self.name)])
    }
}

/// Lets a link be without a position when the applying of its stream panics: nobody knows how far
/// it came. Its data is served until it is synchronized again, or until a restart.
struct FollowGuard<'a> {
    keyspace: &'a Keyspace,
    link: usize,
    name: &'a str,
    /// Room in the journal, until the position is kept.
    room: Option<EntryReservation<'a>>,
}

impl Drop for FollowGuard<'_> {
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        if let Some(link) = &mut self.keyspace.followed.positions.links()[self.link] {
            link.stream = None;
        }
        room.append(&forget_position(self.link, self.name));
    }
}

/// Keeps a link's position.
pub(super) fn set_position(link: usize, name: &str, stream: StreamPosition) -> Operation<'_> {
    Operation::SetPosition { link: name, number: number_byte(served_number(link)), stream }
}

/// The room that [`set_position`] takes in the journal.
pub(super) fn set_position_bytes(name: &str) -> usize {
    let stream = StreamPosition { replication_id: ReplicationId::NONE, offset: 0, database: 0 };
    set_position(0, name, stream).size_bytes()
}

fn forget_position(link: usize, name: &str) -> Operation<'_> {
    Operation::ForgetPosition { link: name, number: number_byte(served_number(link)) }
}
