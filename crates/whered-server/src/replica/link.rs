//! One link's thread: connects, takes what it lacks, applies what comes, and tries again.
//!
//! Not for: what a command does (`Applier`), reading a dump (`full_sync`).
//!
//! ```text
//!        ┌──────────── pause, growing <── fault ───────────────────┐
//! run ─> connect ─> PSYNC id offset ─> [full sync] ─> ACK ─> batch ┴─> apply ─> ACK every second
//! ```
//!
//! Invariant: the engine's position is behind what was applied, at the end of a command or of a
//! transaction, and both are in one entry of the journal. Where only a part of a transaction could
//! be applied, and while keys are read anew, a position is kept that no primary goes on from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_engine::{Engine, StreamPosition};
use whered_replication::{
    Address, CommandStream, Connection, Introduction, LinkError, Patience, ReplicationId, Resync,
};

use super::board::{Count, LinkState, LinkStatus};
use super::pauses::Pauses;
use super::stop::LinkStop;
use super::{Applier, LinkContext, Obstacle, Progress, ReplicaOptions, Resolve};
use crate::upstream::Source;

/// Others wait while up to this number of commands, and for up to this time, are applied.
const BATCH_COMMANDS: usize = 256;
const BATCH_TIME: Duration = Duration::from_micros(200);
/// What a command takes in the journal beside its own bytes, more or less.
const JOURNAL_OVERHEAD_BYTES: usize = 64;
/// How often the primary is told how far we are.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
/// A primary that says nothing for so long is gone: it says PING every ten seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// Behind a connection that has lasted so long, a new reason for a dump is not one of many.
const QUIET: Duration = Duration::from_secs(60);

pub(super) struct Link {
    pub(super) engine: Arc<Engine>,
    pub(super) options: ReplicaOptions,
    pub(super) status: Arc<LinkStatus>,
    pub(super) applier: Box<dyn Applier>,
    /// What is handed on to other whereds.
    pub(super) source: Arc<Source>,
    listening_port: Option<u16>,
    pub(super) stop: Arc<LinkStop>,
    resolve: Resolve,
    /// The kept position is of no use: only a dump helps.
    must_resync: bool,
    pauses: Pauses,
    /// Up to where everything is here; behind the position while keys are read anew.
    whole_offset: i64,
    /// When that was so last.
    pub(super) whole: Instant,
    /// By which single keys are copied, once one was.
    pub(super) copying: Option<Connection>,
    /// Between synchronizations that a command has made necessary.
    resync_pauses: Pauses,
    /// The last fault, until it works again.
    told: String,
}

/// Why a connection is over.
pub(super) enum Fault {
    /// Something that a new connection may heal.
    Broken(String),
    /// Something that only a dump heals.
    Resync(String),
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Fault {
        match error.needs_dump() {
            true => Fault::Resync(error.to_string()),
            false => Fault::Broken(error.to_string()),
        }
    }
}

impl Link {
    pub(super) fn new(
        context: &LinkContext,
        options: &ReplicaOptions,
        (status, source, stop): (&Arc<LinkStatus>, &Arc<Source>, &Arc<LinkStop>),
        resolve: Resolve,
        applier: Box<dyn Applier>,
    ) -> Link {
        let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
        Link {
            engine: Arc::clone(&context.engine),
            options: options.clone(),
            status: Arc::clone(status),
            source: Arc::clone(source),
            applier,
            listening_port: context.listening_port,
            stop: Arc::clone(stop),
            resolve,
            must_resync: false,
            whole_offset: -1,
            whole: Instant::now(),
            copying: None,
            pauses: Pauses::new(millis(50), seconds(10)),
            resync_pauses: Pauses::new(millis(100), seconds(60)),
            told: String::new(),
        }
    }

    /// Follows until it is stopped.
    pub(super) fn run(mut self) {
        while !self.stop.is_stopped() {
            let began = Instant::now();
            let fault = match catch_unwind(AssertUnwindSafe(|| self.follow())) {
                Ok(Ok(())) => break,
                Ok(Err(fault)) => fault,
                // A fault of ours; how far it came is not known.
                Err(_) => Fault::Resync("applying has panicked".to_owned()),
            };
            self.copying = None;
            self.stop.end_work();
            if self.stop.is_stopped() {
                break;
            }
            if began.elapsed() > QUIET {
                self.resync_pauses.reset();
            }
            let pause = self.note(fault);
            self.stop.wait(pause);
        }
    }

    /// Tells of a fault, once until it works again, and gives the pause behind it.
    fn note(&mut self, fault: Fault) -> Duration {
        let (why, pause) = match fault {
            Fault::Broken(why) => (why, self.pauses.next()),
            Fault::Resync(why) => {
                self.must_resync = true;
                (format!("{why}: the dump is taken anew"), self.resync_pauses.next())
            }
        };
        self.source.backlog().suspend();
        self.status.add(Count::Faults, 1);
        self.status.set_state(LinkState::Down(why.clone()));
        if self.told != why {
            tracing::warn!("the replica of {} waits: {why}", self.options.of);
            self.told = why;
        }
        pause
    }

    /// One connection, to its end.
    fn follow(&mut self) -> Result<(), Fault> {
        self.status.set_state(LinkState::Connecting);
        let address = (self.resolve)()?;
        let patience = Patience { silence: SILENCE, ..Patience::default() };
        let mut connection = Connection::open(&address, patience)?;
        let closer = connection.closer();
        let closer = closer.map_err(|error| Fault::Broken(error.to_string()))?;
        if !self.stop.begin_work(closer) {
            return Ok(());
        }
        self.status.set_primary(connection.name());
        connection.introduce(&Introduction {
            listening_port: self.listening_port,
            wants_dump_only: false,
            follows: Some(self.options.follows()),
        })?;
        let kept = self.engine.keyspace().position(self.status.number);
        self.must_resync |= self.stop.take_needs_dump();
        let kept = kept.filter(|_| !self.must_resync);
        let resync = connection.synchronize(kept.and_then(|kept| {
            let id = ReplicationId::parse(kept.replication_id.as_str())?;
            Some((id, kept.offset))
        }))?;
        let position = match (resync, kept) {
            (Resync::Continue { id }, Some(kept)) => self.go_on(kept, id)?,
            (Resync::Continue { .. }, None) => {
                return Err(Fault::Broken("continues what was not begun".to_owned()));
            }
            (Resync::Full { id, offset }, _) => self.full_sync(&mut connection, id, offset)?,
        };
        self.status.set_history(position.replication_id);
        self.status.set_offsets(position.offset, position.offset);
        connection.acknowledge(position.offset)?;
        self.status.set_state(LinkState::Up);
        let passes_over = self.applier.passes_over();
        let stream = CommandStream::new(connection, position.offset, passes_over);
        self.apply(&address, stream, position)
    }

    /// The kept position, perhaps in a history with another id: a replica has become the primary.
    fn go_on(
        &mut self,
        kept: StreamPosition,
        id: Option<ReplicationId>,
    ) -> Result<StreamPosition, Fault> {
        let replication_id = match id {
            Some(id) => engine_id(id)?,
            None => kept.replication_id,
        };
        self.status.add(Count::PartialSyncs, 1);
        self.applier.go_on(kept.database);
        self.source.backlog().go_on(replication_id, kept.offset);
        tracing::info!(
            "the replica of {} goes on at offset {} of {replication_id}",
            self.options.of,
            kept.offset
        );
        Ok(StreamPosition { replication_id, ..kept })
    }

    /// Applies what comes, and says how far it is.
    fn apply(
        &mut self,
        address: &Address,
        mut stream: CommandStream,
        mut position: StreamPosition,
    ) -> Result<(), Fault> {
        let (mut heard, mut received) = (Instant::now(), stream.received());
        let mut acknowledged = Instant::now();
        (self.whole_offset, self.whole) = (position.offset, Instant::now());
        while !self.stop.is_stopped() {
            let wait = match self.applier.is_due(position.offset) {
                true => Duration::ZERO,
                false => ACKNOWLEDGE_EVERY.saturating_sub(acknowledged.elapsed()),
            };
            let count = self.apply_batch(&mut stream, &mut position, wait)?;
            stream.accept(count);
            self.copy_pending_keys(address, position)?;
            self.status.set_offsets(self.whole_offset, stream.received());
            // A part of a long command is a sign of life, too.
            if count > 0 || stream.received() != received {
                (heard, received) = (Instant::now(), stream.received());
                self.status.note_heard();
            }
            if count > 0 {
                self.status.add(Count::Commands, count as u64);
                self.pauses.reset();
                self.told.clear();
            } else if heard.elapsed() > SILENCE && !stream.is_waiting() {
                let what = format!("has said nothing for {} s", SILENCE.as_secs());
                return Err(LinkError::new(&self.status.primary(), what).into());
            }
            let is_asked = self.applier.take_position_request();
            if is_asked || acknowledged.elapsed() >= ACKNOWLEDGE_EVERY {
                stream.connection().acknowledge(self.whole_offset)?;
                acknowledged = Instant::now();
            }
        }
        Ok(())
    }

    /// Waits for commands and applies them. Gives how many are done with.
    fn apply_batch(
        &mut self,
        stream: &mut CommandStream,
        position: &mut StreamPosition,
        wait: Duration,
    ) -> Result<usize, Fault> {
        let batch = stream.next_batch(wait, BATCH_COMMANDS)?;
        if batch.is_empty() && !self.applier.is_due(position.offset) {
            return Ok(0);
        }
        let before = Progress {
            commands: 0,
            offset: position.offset,
            database: position.database,
            is_inside_transaction: false,
            is_reading_anew: false,
        };
        let room_bytes = batch.size_bytes() + batch.len() * JOURNAL_OVERHEAD_BYTES;
        let (applier, id) = (&mut self.applier, position.replication_id);
        // No dump for a follower is made between the effects and the offset behind them.
        let Some(step) = self.source.step_soon() else {
            return Ok(0);
        };
        let followed = self.engine.keyspace().follow(self.status.number, room_bytes, || {
            let mut progress = before;
            let deadline = Instant::now() + BATCH_TIME;
            let result = applier.apply(batch, deadline, &mut progress);
            let Progress { offset, database, .. } = progress;
            let is_whole = !progress.is_inside_transaction && !progress.is_reading_anew;
            let replication_id = if is_whole { id } else { whered_engine::ReplicationId::LOST };
            ((result, progress), StreamPosition { replication_id, offset, database })
        });
        let (result, progress) = match followed {
            Ok(written) => written.value,
            Err(error) => return Err(Fault::Broken(error.to_string())),
        };
        self.source.backlog().push(batch.pieces(progress.commands), progress.offset);
        drop(step);
        (position.offset, position.database) = (progress.offset, progress.database);
        if !progress.is_reading_anew {
            (self.whole_offset, self.whole) = (position.offset, Instant::now());
        }
        match result {
            Ok(()) => Ok(progress.commands),
            Err(Obstacle::Resync(why)) => Err(Fault::Resync(why)),
            Err(Obstacle::Refused(why)) if progress.is_inside_transaction => {
                Err(Fault::Resync(why))
            }
            Err(Obstacle::Refused(why)) => Err(Fault::Broken(why)),
        }
    }

    /// A dump was loaded: the position is one of use again.
    pub(super) fn is_synchronized(&mut self) {
        self.must_resync = false;
        self.pauses.reset();
    }
}

/// An id as the engine has it.
pub(super) fn engine_id(id: ReplicationId) -> Result<whered_engine::ReplicationId, Fault> {
    id.as_str().parse().map_err(Fault::Broken)
}
