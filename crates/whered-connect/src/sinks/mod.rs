//! Hands the tables of a feed on into a SQL database, each row at least as new as the batch that
//! the database says it has.
//!
//! For: a thread that keeps tables of MariaDB, MySQL or PostgreSQL equal to a feed's, whichever
//! side crashes. Not for: rows that are removed, which tables of feeds do not do; other writers of
//! the same rows; and not for knowing how the feed keeps its rows (`handover`).
//!
//! ```text
//!  wait for a durable batch D > B
//!  BEGIN; SELECT batch ... FOR UPDATE             -- is it still B?
//!     rows changed since B, page by page: multi-row upserts
//!  whered_positions(feed, sink, life, batch) := D; COMMIT
//! ```
//!
//! Invariants:
//!
//! - **Exactly once.** Rows are absolute values, and D is written in their transaction. A crash
//!   before the commit leaves B, one after it leaves D; either is read back. Rows younger than D
//!   that a pass met come again, which changes nothing.
//! - Only batches that no crash takes back are counted: the number of one that a crash took could
//!   come again with other rows.
//! - `life` is a random name that lies in the data directory: numbers of another directory's
//!   batches mean nothing, and all rows are sent.
//! - **Bounded.** A page is held, never a backlog: the feed's rows are the backlog. A sink that was
//!   down sends each row once, as it is then.
//! - A row that the SQL table cannot hold is left out, counted and named; it stops no other.
//! - **Whole.** Rows go out since B only into a table that has had all before, which is remembered
//!   on our side with what the server says of the table (`memory`): one that was made anew, by us
//!   or anybody, or has other columns than then, gets all rows. That is looked at when connecting,
//!   in every transaction, and every few seconds without one.
//!
//! At once: one thread and one connection a sink. Cost: measured in `docs/guide/sinks.md`.

#[cfg(feature = "postgres")]
mod copy_rows;
mod handover;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
mod plan;
#[cfg(feature = "postgres")]
mod postgres;
mod status;
mod target;

use std::time::{Duration, Instant};

use crate::error::ConnectError;
use crate::rows::{Cell, Column, Kind, OwnedCell, Schema};
use crate::stop::Stop;
use plan::TablePlan;

pub use handover::Handover;
pub use memory::SinkMemory;
pub use status::{SinkState, SinkStatus};
pub use target::Target;

/// Rows that are looked at and sent in one go.
const PAGE_ROWS: usize = 4_000;
/// Rows that are taken over in one batch of the feed.
const ADOPTED_AT_ONCE: usize = 20_000;
/// How often a sink without work looks for some.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a sink without work looks whether its tables are still those that it has filled.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The waits after faults: the first, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// The row of `whered_positions` that is ours.
#[derive(Clone, Debug)]
pub(crate) struct PositionKey {
    pub(crate) feed: String,
    pub(crate) sink: String,
    pub(crate) life: String,
}

/// A connection to a SQL server. After an error it is dropped, which takes the transaction back.
pub(crate) trait Database {
    /// Makes the tables that are not there and checks the others.
    fn prepare(&mut self, schemas: &[Schema]) -> Result<Vec<TablePlan>, ConnectError>;
    /// The batch of our row, if there is one of this life; locks it in a transaction.
    fn position(&mut self, key: &PositionKey, lock: bool) -> Result<Option<u64>, ConnectError>;
    /// What the server says of a table now: [`TablePlan::identity`], while it is the same.
    fn identity(&mut self, plan: &TablePlan) -> Result<String, ConnectError>;
    /// Begins a transaction.
    fn begin(&mut self) -> Result<(), ConnectError>;
    /// Writes a fitting row as [`Database::write`] wants it.
    fn encode(&self, plan: &TablePlan, cells: &[Cell<'_>], into: &mut Vec<u8>);
    /// What an encoded row may take.
    fn row_bytes_max(&self) -> usize;
    /// Upserts encoded rows, all of different keys.
    fn write(&mut self, plan: &TablePlan, page: &Page) -> Result<(), ConnectError>;
    /// Ends the rows of a table.
    fn finish(&mut self, _plan: &TablePlan) -> Result<(), ConnectError> {
        Ok(())
    }
    /// Writes our row and commits.
    fn commit(&mut self, key: &PositionKey, batch: u64) -> Result<(), ConnectError>;
    /// Shows all rows of a table.
    fn read(
        &mut self,
        plan: &TablePlan,
        each: &mut dyn FnMut(Vec<OwnedCell>) -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError>;
}

/// Encoded rows, one behind the other.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    /// Where each row ends.
    pub(crate) ends: Vec<usize>,
}

impl Page {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Splits the rows into pieces of about `bytes`, never inside a row.
    pub(crate) fn pieces(&self, bytes: usize) -> impl Iterator<Item = (&[u8], usize)> {
        let (mut begin, mut row) = (0, 0);
        std::iter::from_fn(move || {
            let first = row;
            let mut end = *self.ends.get(row)?;
            row += 1;
            while let Some(next) = self.ends.get(row).filter(|next| **next - begin <= bytes) {
                end = *next;
                row += 1;
            }
            let piece = &self.bytes[begin..end];
            begin = end;
            Some((piece, row - first))
        })
    }
}

/// What a sink is told.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// The sink's name in `whered_positions` and in messages.
    pub name: String,
    /// Which server.
    pub target: Target,
    /// Take rows over on the first run that the SQL tables hold and the feed does not.
    pub adopt: bool,
}

/// A sink of a feed.
pub struct Sink<'a> {
    options: SinkOptions,
    handover: &'a dyn Handover,
    memory: SinkMemory,
    stop: &'a Stop,
    report: &'a mut dyn FnMut(&SinkStatus),
    status: SinkStatus,
    page: Page,
}

/// A server that is connected to, its tables checked.
struct Link {
    database: Box<dyn Database>,
    plans: Vec<TablePlan>,
    key: PositionKey,
    /// What our row says.
    position: Option<u64>,
    /// Of each table the rows since this batch are wanted.
    since: Vec<u64>,
}

impl Link {
    /// Whether there is a batch to be handed on.
    fn is_behind(&self, target: u64) -> bool {
        target > 0 && (self.position.is_none() || self.since.iter().any(|since| *since < target))
    }

    /// Looks whether a table is still the one that was found when connecting.
    fn check(&mut self, table: usize) -> Result<(), ConnectError> {
        let plan = &self.plans[table];
        if self.database.identity(plan)? == plan.identity {
            return Ok(());
        }
        Err(ConnectError::new(format!(
            "table {} was made anew or altered: it gets all rows, as it is now",
            plan.name
        )))
    }
}

impl<'a> Sink<'a> {
    /// A sink that has not begun.
    pub fn new(
        options: SinkOptions,
        handover: &'a dyn Handover,
        memory: SinkMemory,
        stop: &'a Stop,
        report: &'a mut dyn FnMut(&SinkStatus),
    ) -> Sink<'a> {
        let (status, page) = (SinkStatus::default(), Page::default());
        Sink { options, handover, memory, stop, report, status, page }
    }

    /// Hands on until it is told to stop. Whatever goes wrong is reported and tried again, after a
    /// longer and longer wait.
    pub fn run(&mut self) {
        let mut wait = BACK_OFF.0;
        while !self.stop.is_stopped() {
            let transactions = self.status.transactions;
            let Err(error) = self.follow() else { break };
            if self.status.transactions > transactions {
                wait = BACK_OFF.0;
            }
            self.status.state = SinkState::Waiting;
            self.status.error = Some(error.to_string());
            self.status.retry_in = wait;
            self.tell();
            self.stop.wait(wait);
            wait = BACK_OFF.1.min(wait * 2);
        }
        self.status.state = SinkState::Stopped;
        self.tell();
    }

    /// Hands on what there is and ends.
    ///
    /// # Errors
    ///
    /// One line: what is wrong with the server or its tables. What was committed stays.
    pub fn run_once(&mut self) -> Result<(), ConnectError> {
        let mut link = self.connect()?;
        self.hand_on(&mut link, self.handover.durable_batch()).map(|_| ())
    }

    /// What there is to be told now.
    pub fn status(&self) -> &SinkStatus {
        &self.status
    }

    fn tell(&mut self) {
        (self.report)(&self.status);
    }

    /// One connection, from its first moment to its end.
    fn follow(&mut self) -> Result<(), ConnectError> {
        let mut link = self.connect()?;
        self.status.state = SinkState::Connected;
        self.status.error = None;
        self.status.retry_in = Duration::ZERO;
        self.tell();
        let mut checked = Instant::now();
        while !self.stop.is_stopped() {
            let target = self.handover.durable_batch();
            if link.is_behind(target) {
                self.hand_on(&mut link, target)?;
                self.tell();
                continue;
            }
            self.stop.wait(LOOK_EVERY);
            if checked.elapsed() >= CHECK_EVERY {
                (0..link.plans.len()).try_for_each(|table| link.check(table))?;
                checked = Instant::now();
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<Link, ConnectError> {
        let mut database = self.options.target.connect()?;
        let plans = database.prepare(self.handover.schemas())?;
        let key = PositionKey {
            feed: self.handover.feed().to_owned(),
            sink: self.options.name.clone(),
            life: self.memory.life().to_owned(),
        };
        let position = database.position(&key, false)?;
        if self.options.adopt && position.is_none() && !self.memory.is_adopted() {
            self.status.state = SinkState::Adopting;
            self.tell();
            self.adopt(database.as_mut(), &plans)?;
        }
        self.memory.note_adopted()?;
        // A number that we have not reached yet is from before a backup was put back.
        let since = position.filter(|batch| *batch <= self.handover.durable_batch()).unwrap_or(0);
        self.status.batch = since;
        let filled = |plan: &TablePlan| self.memory.is_filled(&plan.name, &plan.identity);
        let of_table = |plan: &TablePlan| if filled(plan) { since } else { 0 };
        let since: Vec<u64> = plans.iter().map(of_table).collect();
        if since.contains(&0) {
            // What did not fit is looked at again.
            self.status.left_out_why = None;
        }
        Ok(Link { database, plans, key, position, since })
    }

    /// Takes over what the SQL tables hold. A crash on the way begins it again; rows that were
    /// taken are not taken twice, since the feed has them then.
    fn adopt(
        &mut self,
        database: &mut dyn Database,
        plans: &[TablePlan],
    ) -> Result<(), ConnectError> {
        let (handover, stop) = (self.handover, self.stop);
        let refused = |plan: &TablePlan, why| {
            ConnectError::new(format!("rows of {} cannot be taken over: {why}", plan.name))
        };
        for (table, plan) in plans.iter().enumerate() {
            let mut rows = Vec::new();
            let mut adopted = 0;
            database.read(plan, &mut |row| {
                rows.push(row);
                if rows.len() == ADOPTED_AT_ONCE {
                    let taken = handover.adopt(table, std::mem::take(&mut rows));
                    adopted += taken.map_err(|why| refused(plan, why))?;
                }
                if stop.is_stopped() { Err(stopped()) } else { Ok(()) }
            })?;
            if !rows.is_empty() {
                adopted += handover.adopt(table, rows).map_err(|why| refused(plan, why))?;
            }
            self.status.adopted += adopted;
        }
        Ok(())
    }

    /// One transaction: all rows changed since the last one, and the batch.
    fn hand_on(&mut self, link: &mut Link, target: u64) -> Result<(), ConnectError> {
        link.database.begin()?;
        if link.database.position(&link.key, true)? != link.position {
            return Err(ConnectError::new(format!(
                "{}: somebody else wrote the place of feed {} and sink {} in whered_positions",
                self.options.target.name(),
                link.key.feed,
                link.key.sink
            )));
        }
        let mut rows = 0;
        for table in 0..link.plans.len() {
            let (mut from, before) = (Some(0), rows);
            while let Some(place) = from {
                if self.stop.is_stopped() {
                    return Err(stopped());
                }
                from = self.fill_page(link, table, place)?;
                rows += self.page.ends.len() as u64;
                if !self.page.ends.is_empty() {
                    link.database.write(&link.plans[table], &self.page)?;
                }
            }
            if rows > before {
                link.database.finish(&link.plans[table])?;
                // From here on to the commit nobody can alter it.
                link.check(table)?;
            }
        }
        link.database.commit(&link.key, target)?;
        link.position = Some(target);
        link.since.fill(target);
        let filled = link.plans.iter().map(|plan| (&*plan.name, &*plan.identity));
        self.memory.note_filled(filled)?;
        self.status.batch = target;
        self.status.rows += rows;
        self.status.transactions += 1;
        Ok(())
    }

    /// The next rows of a table that are wanted, encoded; gives where to go on.
    fn fill_page(
        &mut self,
        link: &Link,
        table: usize,
        from: u64,
    ) -> Result<Option<u64>, ConnectError> {
        self.page.clear();
        let (page, status) = (&mut self.page, &mut self.status);
        let (plan, database) = (&link.plans[table], link.database.as_ref());
        let row_bytes_max = database.row_bytes_max();
        let next =
            self.handover.changed_since(table, link.since[table], from, PAGE_ROWS, &mut |cells| {
                if let Some(why) = plan.misfit(cells) {
                    return status.leave_out(why);
                }
                let begin = page.bytes.len();
                database.encode(plan, cells, &mut page.bytes);
                let size_bytes = page.bytes.len() - begin;
                if size_bytes > row_bytes_max {
                    page.bytes.truncate(begin);
                    let name = &plan.name;
                    return status.leave_out(format!(
                        "{name}: a row of {size_bytes} bytes; allowed: {row_bytes_max}"
                    ));
                }
                page.ends.push(page.bytes.len());
            });
        next.map_err(ConnectError::new)
    }
}

/// What ends a transaction when the sink is told to stop; nobody is told.
fn stopped() -> ConnectError {
    ConnectError::new("stopped")
}
