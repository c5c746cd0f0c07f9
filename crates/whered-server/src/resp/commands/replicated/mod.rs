//! Commands of a primary's stream, applied to the hidden database of the link that brings them.
//!
//! For: what a replica does with each command (`class` has the table). Not for: the connection
//! (`crate::replica`), and not for clients: nothing here asks for permissions or memory.
//!
//! ```text
//! command ─ another database, or no key of `match`? ──> passed over
//!         ─ changes sorted sets of `match` ──> `call`, with the hidden number for a database
//!         ─ replaces one by another type ──> the key is deleted here
//!         ─ needs what is not here (a source outside of `match`, another database)
//!                  └─> the keys that it writes are read anew (`rereads`)
//!         ─ is not known, or fails here ──> Resync
//! ```
//!
//! Invariants: nothing is skipped that could change a followed key: what is not known, and what
//! fails here, asks for a synchronization as a whole. A plain set can be a source of `ZUNIONSTORE`
//! and is not here: names of keys that may hold one are kept, and while they are not known (behind
//! a restart) a source that is absent here may be one, too.
//!
//! Consecutive `ZADD key cell member` of one key are made as one operation, as moves come.

mod class;
mod rereads;
mod slot_imports;
mod stored_search;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use mio::{Poll, Token, Waker};
use whered_engine::geo::Cell;
use whered_engine::{AddCondition, Engine, ExpiryCondition};
use whered_replication::rdb::{Event, Kind, Limits, Reader};
use whered_replication::{Batch, KeyContent, KeyCopy, LONG_BYTES, PassesOver, StreamCommand};

use super::{Entry, KeySpec, call, number};
use crate::replica::{Applier, Obstacle, Progress, ReplicaOptions};
use crate::resp::clients::{Origin, Transport};
use crate::resp::notifier::Notifier;
use crate::resp::options::{RespContext, RespOptions};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::{Session, SharedState};
use crate::resp::users::{User, Users};
use class::{CommandClass, class_of};
use rereads::Rereads;

/// Names of keys with plain sets are kept up to this size.
const SETS_BYTES_MAX: usize = 16 << 20;
/// Points that are added together at the most.
const POINTS_MAX: usize = 64;
/// The clock is asked after this number of commands.
const COMMANDS_BETWEEN_LOOKS: usize = 16;

/// Applies what one link brings.
pub(crate) struct Executor {
    session: Session,
    reply: Reply,
    options: ReplicaOptions,
    /// The database that the stream has selected.
    database: u32,
    /// A transaction has begun, and whether something of it was applied.
    is_in_transaction: bool,
    wants_position: bool,
    /// Keys that may hold plain sets; `None`: not known.
    sets: Option<KeyNames>,
    rereads: Rereads,
    /// The RESP listener, whose clients may watch followed keys.
    listener: Option<Arc<SharedState>>,
}

/// Names of keys, of bounded size.
#[derive(Default)]
struct KeyNames {
    names: HashSet<Box<[u8]>>,
    bytes: usize,
}

impl Executor {
    /// For a link with this hidden database.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        options: ReplicaOptions,
        served: usize,
        listener: Option<Arc<SharedState>>,
    ) -> io::Result<Executor> {
        let resp = RespOptions { threads: Some(1), ..RespOptions::default() };
        let users = Users::new(User::default_user(None), std::iter::empty());
        let context = RespContext::default();
        let table = super::table();
        let shared = Arc::new(SharedState::new(Arc::clone(engine), resp, context, 0, table, users));
        // Nobody sends this session anything; the register of clients wants to know how one could.
        let poll = Poll::new()?;
        let notifier = Arc::new(Notifier::new(Waker::new(poll.registry(), Token(0))?));
        let client = shared.clients.enter(Origin {
            transport: Transport::Tcp,
            address: options.of.clone(),
            local: String::new(),
            worker: 0,
            index: 0,
            notifier,
        });
        let mut session = Session::new(&shared, client);
        session.number = served;
        Ok(Executor {
            session,
            reply: Reply::new(),
            options,
            database: 0,
            is_in_transaction: false,
            wants_position: false,
            sets: None,
            rereads: Rereads::default(),
            listener,
        })
    }

    /// Applies a command.
    fn apply_one(&mut self, command: &StreamCommand<'_>) -> Result<(), Obstacle> {
        let args = Args::new(command.bytes, command.spans);
        let Some(name) = args.get(0) else {
            return Ok(());
        };
        let Some(class) = class_of(name) else {
            return Err(resync(format!("'{}' is not known", name.escape_ascii())));
        };
        if !self.rereads.is_empty() && self.reads_what_is_read_anew(class, args)? {
            return Ok(());
        }
        match class {
            CommandClass::Nothing => Ok(()),
            CommandClass::Cluster => self.cluster(args),
            CommandClass::Select => self.select(args),
            CommandClass::Multi | CommandClass::Exec => {
                self.is_in_transaction = matches!(class, CommandClass::Multi);
                Ok(())
            }
            CommandClass::Replconf => {
                self.wants_position |= args.len() > 1 && args.is(1, "getack");
                Ok(())
            }
            CommandClass::FlushAll => self.flush(),
            CommandClass::Swap => self.swap(args),
            CommandClass::Move => self.move_key(args),
            CommandClass::Copy => self.copy(args),
            _ if u64::from(self.database) != self.options.database as u64 => Ok(()),
            CommandClass::FlushDatabase => self.flush(),
            CommandClass::SortedSet | CommandClass::Key => self.run(args),
            CommandClass::Combination => self.combine(args),
            CommandClass::Rename => self.rename(args),
            CommandClass::Restore => self.restore(args),
            CommandClass::Replacement(keys)
            | CommandClass::ReplacementBySet(keys)
            | CommandClass::FillsSet(keys) => {
                if command.is_cut && keys.indexes(args).any(|at| command.is_passed_over(at)) {
                    let why = format!("{} has a name longer than {LONG_BYTES} bytes", shown(args));
                    return Err(resync(why));
                }
                self.replace(class, keys, args)
            }
        }
    }

    fn select(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let database = args.get(1).and_then(number::integer);
        self.database = database
            .and_then(|database| u32::try_from(database).ok())
            .ok_or_else(|| resync("SELECT of no database".to_owned()))?;
        Ok(())
    }

    /// Whether a key of the selected database is followed.
    fn is_followed(&self, key: &[u8]) -> bool {
        self.options.has(u64::from(self.database), key)
    }

    fn served(&self) -> usize {
        self.session.number
    }

    fn exists(&self, key: &[u8]) -> bool {
        self.session.engine().keyspace().exists(self.served(), key)
    }

    /// Runs a command whose keys are followed, or that removes some.
    fn run(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let entry = self.entry(args)?;
        let (mut reads, mut writes) = (None, false);
        for (key, access) in entry.command.keys_of(args) {
            match (access.writes(), self.is_followed(key)) {
                (true, is_followed) => writes |= is_followed,
                (false, false) => reads = Some(key),
                (false, true) => {}
            }
        }
        match reads {
            _ if !writes => Ok(()),
            Some(key) => self.reread_written(entry, args, &not_followed(args, key)),
            None if stored_search::may_differ(&self.session, args) => {
                let why = "stores members of which Redis finds or takes others";
                self.reread_written(entry, args, &format!("{} {why}", shown(args)))
            }
            None => self.call(entry, args),
        }
    }

    /// Whether a command has a key that is being read anew. The keys that it writes are read anew
    /// as well, and it is not to be carried out.
    fn reads_what_is_read_anew(
        &mut self,
        class: CommandClass,
        args: Args<'_>,
    ) -> Result<bool, Obstacle> {
        let is_here = u64::from(self.database) == self.options.database as u64;
        let may_read = match class {
            CommandClass::SortedSet | CommandClass::Combination | CommandClass::Rename => is_here,
            CommandClass::Copy | CommandClass::Move => is_here,
            _ => false,
        };
        if !may_read {
            return Ok(false);
        }
        let entry = self.entry(args)?;
        if !entry.command.keys_of(args).any(|(key, _)| self.rereads.has(key)) {
            return Ok(false);
        }
        let why = format!("{} needs a key that is read anew itself", shown(args));
        self.reread_written(entry, args, &why)?;
        Ok(true)
    }

    /// Reads the followed keys anew that a command writes.
    fn reread_written(&mut self, entry: &Entry, args: Args<'_>, why: &str) -> Result<(), Obstacle> {
        let written = entry.command.keys_of(args).filter(|(_, access)| access.writes());
        written.map(|(key, _)| key).try_for_each(|key| self.reread(key, why))
    }

    /// Reads a key anew, if it is followed.
    fn reread(&mut self, key: &[u8], why: &str) -> Result<(), Obstacle> {
        let is_possible =
            !self.options.has(self.options.database as u64, key) || self.rereads.request(key, why);
        match is_possible {
            true => Ok(()),
            false => Err(resync(format!("{why}, as many others do"))),
        }
    }

    fn combine(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let target = args.get(1).unwrap_or_default();
        if self.is_followed(target) {
            let entry = self.entry(args)?;
            let sources = entry.command.keys_of(args).filter(|(_, access)| !access.writes());
            for (source, _) in sources {
                let may_be_set = self.sets.as_ref().is_none_or(|sets| sets.names.contains(source));
                if self.is_followed(source) && !self.exists(source) && may_be_set {
                    let source = source.escape_ascii();
                    let why = format!("{} reads '{source}', which may be a plain set", shown(args));
                    return self.reread(target, &why);
                }
            }
        }
        self.run(args)
    }

    /// Keys that hold another type now, or plain sets.
    fn replace(
        &mut self,
        class: CommandClass,
        keys: KeySpec,
        args: Args<'_>,
    ) -> Result<(), Obstacle> {
        for (key, _) in keys.keys_of(args) {
            if !matches!(class, CommandClass::FillsSet(_)) {
                self.delete(key)?;
            }
            if !matches!(class, CommandClass::Replacement(_)) {
                self.note_set(key);
            }
        }
        Ok(())
    }

    fn rename(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let (Some(from), Some(to)) = (args.get(1), args.get(2)) else {
            return Err(resync(format!("{} lacks keys", shown(args))));
        };
        self.note_set_like(from, to);
        match (self.is_followed(from), self.is_followed(to)) {
            (false, true) => self.reread(to, &not_followed(args, from)),
            (true, true) if self.exists(from) => {
                let entry = self.entry(args)?;
                self.call(entry, args)
            }
            // What is renamed is no sorted set, and replaces one that was there.
            (true, true) => self.delete(to),
            (true, false) => self.delete(from),
            (false, false) => Ok(()),
        }
    }

    /// `COPY from to [DB n] [REPLACE]`.
    fn copy(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let (Some(from), Some(to)) = (args.get(1), args.get(2)) else {
            return Err(resync(format!("{} lacks keys", shown(args))));
        };
        // The last `DB` counts.
        let (mut options, mut target) = (3..args.len(), None);
        while let Some(at) = options.next() {
            if args.is(at, "db") {
                target = options.next().and_then(|at| number::integer(args.at(at)));
            }
        }
        let ours = self.options.database as i64;
        let (here, target) = (i64::from(self.database), target.unwrap_or(i64::from(self.database)));
        if target != ours || !self.options.has(ours as u64, to) {
            return Ok(());
        }
        self.note_set_like(from, to);
        if here != ours || !self.is_followed(from) {
            return self.reread(to, &not_followed(args, from));
        }
        if !self.exists(from) {
            return self.delete(to);
        }
        // Not by the command, whose `DB` is a database of clients.
        let served = self.served();
        let copied = self.session.engine().keyspace().copy((served, from), (served, to), true);
        copied.map_err(|error| refused(&error))?;
        self.notify_watchers(to);
        Ok(())
    }

    /// `MOVE key database`.
    fn move_key(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let (Some(key), Some(to)) = (args.get(1), args.get(2).and_then(number::integer)) else {
            return Err(resync(format!("{} lacks a key and a database", shown(args))));
        };
        let ours = self.options.database as i64;
        match i64::from(self.database) == ours {
            true => self.delete(key),
            false if to == ours && self.options.has(ours as u64, key) => {
                self.reread(key, &format!("{} moves a key from another database", shown(args)))
            }
            false => Ok(()),
        }
    }

    fn swap(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let ours = self.options.database as i64;
        let numbers = [args.get(1), args.get(2)].map(|it| it.and_then(number::integer));
        match numbers.iter().any(|number| number.is_none_or(|number| number == ours)) {
            true => Err(resync(format!("{} exchanges the database that is followed", shown(args)))),
            false => Ok(()),
        }
    }

    fn restore(&mut self, args: Args<'_>) -> Result<(), Obstacle> {
        let (Some(key), Some(ttl), Some(payload)) = (args.get(1), args.get(2), args.get(3)) else {
            return Err(resync(format!("{} lacks a value", shown(args))));
        };
        if !self.is_followed(key) {
            return Ok(());
        }
        let ttl = number::integer(ttl);
        let ttl = ttl.ok_or_else(|| resync(format!("{}: no time to live", shown(args))))?;
        let is_absolute = (4..args.len()).any(|at| args.is(at, "absttl"));
        let now =
            if is_absolute { 0 } else { self.session.engine().keyspace().now_millis() as i64 };
        let expires_at_millis = (ttl > 0).then(|| ttl.saturating_add(now));
        self.restore_payload(key, payload, expires_at_millis).map_err(|error| match error {
            Obstacle::Resync(why) => resync(format!("{}: {why}", shown(args))),
            refused @ Obstacle::Refused(_) => refused,
        })
    }

    /// Puts what `DUMP` gives in the place of what a followed key holds.
    fn restore_payload(
        &mut self,
        key: &[u8],
        payload: &[u8],
        expires_at_millis: Option<i64>,
    ) -> Result<(), Obstacle> {
        let wrong = |error: &dyn std::fmt::Display| resync(error.to_string());
        let mut reader =
            Reader::of_payload(payload, Limits::default()).map_err(|error| wrong(&error))?;
        let mut members: Vec<(Vec<u8>, f64)> = Vec::new();
        while let Some(event) = reader.next_event().map_err(|error| wrong(&error))? {
            match event {
                Event::Member { member, score } => members.push((member.to_vec(), score)),
                Event::Skipped { kind, .. } => {
                    if kind == Kind::Set {
                        self.note_set(key);
                    }
                    return self.delete(key);
                }
                Event::Text { .. } => return self.delete(key),
                Event::Note { .. }
                | Event::SlotImport { .. }
                | Event::SortedSet { .. }
                | Event::SortedSetEnd => {}
            }
        }
        let keyspace = self.session.engine().keyspace();
        let scores: Vec<(&[u8], f64)> =
            members.iter().map(|(member, score)| (&member[..], *score)).collect();
        let served = self.session.number;
        keyspace.store_scores(served, key, &scores).map_err(|error| refused(&error))?;
        if let Some(at) = expires_at_millis {
            let set = keyspace.set_expiry(served, key, at, ExpiryCondition::default());
            set.map_err(|error| refused(&error))?;
        }
        self.notify_watchers(key);
        Ok(())
    }

    /// Empties what is followed, if the selected database is it or all are.
    fn flush(&mut self) -> Result<(), Obstacle> {
        let flushed = self.session.engine().keyspace().flush(Some(self.served()));
        flushed.map_err(|error| refused(&error))?;
        self.sets = Some(KeyNames::default());
        self.notify_all_watchers();
        Ok(())
    }

    /// Tells clients that watch any followed key.
    fn notify_all_watchers(&self) {
        if let Some(listener) = self.listener.as_ref().filter(|it| !it.watches.is_empty()) {
            let ours = self.options.database;
            listener
                .watches
                .mark_swapped([ours, ours], |_, key| self.options.has(ours as u64, key));
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Obstacle> {
        let deleted = self.session.engine().keyspace().delete_keys(self.served(), &[key]);
        let is_changed = deleted.map_err(|error| refused(&error))?.value > 0;
        if is_changed {
            self.notify_watchers(key);
        }
        Ok(())
    }

    /// Tells clients that watch a followed key.
    fn notify_watchers(&self, key: &[u8]) {
        if let Some(listener) = self.listener.as_ref().filter(|it| !it.watches.is_empty()) {
            listener.watches.mark(self.options.database, key);
        }
    }

    fn entry(&self, args: Args<'_>) -> Result<&'static Entry, Obstacle> {
        let entry = args.get(0).and_then(|name| self.session.shared.commands.find(name));
        let entry = entry.filter(|entry| entry.command.takes(args.len()));
        entry.ok_or_else(|| resync(format!("{} is not known in this form", shown(args))))
    }

    /// Runs a command of our table on the hidden database.
    fn call(&mut self, entry: &'static Entry, args: Args<'_>) -> Result<(), Obstacle> {
        self.reply.out.clear();
        call(&mut self.session, entry, args, &mut self.reply);
        self.reply.rest = None;
        let failure = self.reply.out.strip_prefix(b"-").map(|text| {
            let line = text.split(|byte| *byte == b'\r').next().unwrap_or_default();
            line.escape_ascii().to_string()
        });
        match failure {
            Some(why) if why.starts_with("MISCONF") => Err(Obstacle::Refused(why)),
            Some(why) => Err(resync(format!("{} fails here: {why}", shown(args)))),
            None => {
                if self.listener.as_ref().is_some_and(|listener| !listener.watches.is_empty()) {
                    let written = entry.command.keys_of(args).filter(|(_, access)| access.writes());
                    written.for_each(|(key, _)| self.notify_watchers(key));
                }
                Ok(())
            }
        }
    }

    /// A key of the database that is followed may hold a plain set from now on.
    fn note_set(&mut self, key: &[u8]) {
        let is_followed = self.options.has(self.options.database as u64, key);
        if let Some(sets) = self.sets.as_mut().filter(|_| is_followed)
            && sets.names.insert(key.into())
        {
            sets.bytes += key.len() + 64;
            if sets.bytes > SETS_BYTES_MAX {
                self.sets = None;
            }
        }
    }

    fn note_set_like(&mut self, from: &[u8], to: &[u8]) {
        let is_set = self.sets.as_ref().is_some_and(|sets| sets.names.contains(from));
        // Outside of `match` nobody has looked.
        if is_set || !self.is_followed(from) {
            self.note_set(to);
        }
    }

    /// Adds the points of the next commands, if they are `ZADD key cell member` of one followed
    /// key. Gives how many those were.
    fn add_points<'a>(
        &mut self,
        mut commands: impl Iterator<Item = StreamCommand<'a>>,
        points: &mut Vec<Point<'a>>,
    ) -> Result<usize, Obstacle> {
        points.clear();
        if !self.rereads.is_empty() {
            return Ok(0);
        }
        let Some((key, first)) = commands.next().as_ref().and_then(point_of) else {
            return Ok(0);
        };
        if !self.is_followed(key) {
            return Ok(0);
        }
        points.push(first);
        let of_key = commands.map_while(|command| point_of(&command).filter(|(it, _)| *it == key));
        points.extend(of_key.take(POINTS_MAX - 1).map(|(_, point)| point));
        let keyspace = self.session.engine().keyspace();
        let always = AddCondition::Always;
        let added = keyspace.add_each_point(self.session.number, key, points, always, |_| ());
        added.map_err(|error| refused(&error))?;
        self.notify_watchers(key);
        Ok(points.len())
    }
}

impl Executor {
    /// Places copies that are of this offset.
    fn apply_due_copies(&mut self, offset: i64) -> Result<(), Obstacle> {
        if self.rereads.next_due().is_some_and(|due| due < offset) {
            return Err(resync("a copy of a key is of the middle of a transaction".to_owned()));
        }
        while let Some((key, content)) = self.rereads.take_due(offset) {
            match content {
                KeyContent::SortedSet { payload, expires_at_millis } => {
                    self.restore_payload(&key, &payload, expires_at_millis)?;
                }
                KeyContent::Set => {
                    self.note_set(&key);
                    self.delete(&key)?;
                }
                KeyContent::Absent | KeyContent::Other => self.delete(&key)?,
            }
        }
        Ok(())
    }
}

impl Applier for Executor {
    fn go_on(&mut self, database: u32) {
        self.database = database;
        self.is_in_transaction = false;
        self.rereads.clear();
    }

    fn begin(&mut self, database: u32, sets: Option<Vec<Vec<u8>>>) {
        self.sets = sets.as_ref().map(|_| KeyNames::default());
        sets.iter().flatten().for_each(|key| self.note_set(key));
        self.go_on(database);
    }

    fn data_exchanged(&self) {
        self.notify_all_watchers();
    }

    fn passes_over(&self) -> PassesOver {
        class::passes_over
    }

    fn apply(
        &mut self,
        batch: Batch<'_>,
        deadline: Instant,
        progress: &mut Progress,
    ) -> Result<(), Obstacle> {
        let mut points = Vec::with_capacity(POINTS_MAX);
        let mut done = 0;
        let mut look = COMMANDS_BETWEEN_LOOKS;
        progress.is_reading_anew = !self.rereads.is_empty();
        self.apply_due_copies(progress.offset)?;
        progress.is_reading_anew = !self.rereads.is_empty();
        while let Some(command) = batch.get(done) {
            let next = (done..batch.len()).filter_map(|index| batch.get(index));
            let added = self.add_points(next, &mut points)?;
            if added == 0 {
                self.apply_one(&command)?;
            }
            done += added.max(1);
            if self.is_in_transaction {
                progress.is_inside_transaction = true;
                continue;
            }
            progress.is_inside_transaction = false;
            progress.commands = done;
            progress.database = self.database;
            progress.offset = batch.get(done - 1).map_or(progress.offset, |last| last.offset);
            progress.is_reading_anew = !self.rereads.is_empty();
            if progress.is_reading_anew {
                self.apply_due_copies(progress.offset)?;
                progress.is_reading_anew = !self.rereads.is_empty();
                if self.rereads.next_pending().is_some() {
                    break;
                }
            }
            if done >= look {
                look = done + COMMANDS_BETWEEN_LOOKS;
                if Instant::now() >= deadline {
                    break;
                }
            }
        }
        Ok(())
    }

    fn take_position_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_position)
    }

    fn pending_reread(&self) -> Option<(Vec<u8>, String)> {
        self.rereads.next_pending().map(|(key, why)| (key.to_vec(), why.to_owned()))
    }

    fn provide(&mut self, key: &[u8], copy: KeyCopy) {
        self.rereads.provide(key, copy);
    }

    fn is_due(&self, offset: i64) -> bool {
        self.rereads.next_due().is_some_and(|due| due <= offset)
    }
}

/// A member and its cell.
type Point<'a> = (&'a [u8], Cell);

/// The key, member and cell of `ZADD key cell member`.
fn point_of<'a>(command: &StreamCommand<'a>) -> Option<(&'a [u8], Point<'a>)> {
    let &[name, key, score, member] = command.spans else {
        return None;
    };
    let bytes = |(start, end): (usize, usize)| &command.bytes[start..end];
    if !bytes(name).eq_ignore_ascii_case(b"zadd") {
        return None;
    }
    let cell = number::integer(bytes(score)).and_then(|bits| u64::try_from(bits).ok());
    Some((bytes(key), (bytes(member), cell.and_then(Cell::from_bits)?)))
}

fn resync(why: String) -> Obstacle {
    Obstacle::Resync(why)
}

fn refused(error: &whered_engine::WriteError) -> Obstacle {
    Obstacle::Refused(error.to_string())
}

fn not_followed(args: Args<'_>, key: &[u8]) -> String {
    let key = key.escape_ascii();
    format!("{} reads '{key}', which 'match' and 'database' do not name", shown(args))
}

/// A command's name and first key.
fn shown(args: Args<'_>) -> String {
    let cut = |word: &[u8]| word[..word.len().min(100)].escape_ascii().to_string();
    let name = args.get(0).map(|name| cut(name).to_uppercase()).unwrap_or_default();
    match args.get(1) {
        Some(key) => format!("{name} {}", cut(key)),
        None => name,
    }
}
