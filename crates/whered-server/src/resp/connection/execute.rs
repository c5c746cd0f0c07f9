//! Executing the requests of a connection's time slice.
//!
//! For: one request after the other, what is done ahead for those of a pipeline, and holding the
//! replies of writes. Not for: what a command does (`commands`), when replies are sent (`send`).
//!
//! ```text
//! input ─> found ahead ─┬─ moves come next: made together ───────────> replies, holds
//!                       └─ their data fetched ─> each is executed ───> reply, hold
//! ```
//!
//! Invariants: requests are executed in their order, and none while a command of the connection is
//! at work elsewhere; a time slice ends between two requests, or between moves made together and
//! the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use whered_engine::Durability;

use super::{Connection, Progress};
use crate::resp::commands::{self, MovesResult};
use crate::resp::protocol::{ParseOutcome, ProtocolError};
use crate::resp::reply::Failure;
use crate::resp::session::ReplyMode;

/// After this many commands of one connection a time slice ends; those made together are not
/// parted.
const COMMANDS_PER_SLICE: usize = 1024;
/// After this many bytes of new replies a time slice ends.
pub(super) const OUTPUT_PER_SLICE_BYTES: usize = 256 * 1024;

impl Connection {
    /// Executes the requests that have arrived, up to the limits of one time slice.
    pub(super) fn execute(&mut self) -> Progress {
        let start = self.reply.out.len();
        let mut count = 0;
        let mut progress = Progress::Starved;
        if !self.finish_background() {
            return Progress::InBackground;
        }
        while !self.session.closing {
            let turn_is_over = count >= COMMANDS_PER_SLICE
                || self.reply.out.len() - start > OUTPUT_PER_SLICE_BYTES;
            if turn_is_over || self.is_full() || self.reply.rest.is_some() {
                progress = Progress::More;
                break;
            }
            let together = self.take_ahead(count == 0);
            count += together;
            if together > 0 {
                continue;
            }
            let used = match self.parser.next(self.input.filled(), self.session.authenticated) {
                Ok(ParseOutcome::Incomplete) => break,
                Ok(ParseOutcome::Nothing(used)) => used,
                Ok(ParseOutcome::Http) => {
                    self.session.abort_http();
                    break;
                }
                Ok(ParseOutcome::Request(args, used)) => {
                    if !self.draining && commands::must_wait(&self.session, args) {
                        progress = Progress::Paused;
                        break;
                    }
                    if count == 0 {
                        self.session.meter.begin_slice();
                    }
                    let from = self.reply.out.len();
                    let mode = self.session.replies;
                    commands::execute(&mut self.session, args, &mut self.reply);
                    if self.session.background.is_some() {
                        self.input.used(used);
                        count += 1;
                        progress = Progress::InBackground;
                        break;
                    }
                    self.finish_command(from, mode);
                    used
                }
                Err(error) => {
                    self.refuse(&error);
                    break;
                }
            };
            self.input.used(used);
            count += 1;
        }
        self.parser.forget_ahead();
        self.session.looked_up.forget();
        if count > 0 {
            let shared = &self.session.shared;
            shared.counters.commands.fetch_add(count as u64, Ordering::Relaxed);
            self.session.end_run();
            self.session.flush_lookups();
            self.active = self.session.meter.now();
            self.session.client.note(self.session.command, self.active);
        }
        self.input.tidy();
        if self.input.len() == 0 {
            self.parser.shrink();
        }
        progress
    }

    /// Writes the reply of a command whose work was done elsewhere; false while it is not done.
    fn finish_background(&mut self) -> bool {
        if self.session.background.is_none() {
            return true;
        }
        let Some((finish, mode)) = self.session.take_finished() else {
            return false;
        };
        self.session.background = None;
        let from = self.reply.out.len();
        // What is left to do may be a write: no transaction of another worker may be under way.
        let shared = Arc::clone(&self.session.shared);
        let passage = shared.gate.pass(self.session.client.origin.worker);
        if let Err(failure) = finish(&mut self.reply) {
            let name = self.session.command.as_bytes();
            commands::count_error(&self.session, name, &failure);
            self.reply.error(&failure);
        }
        drop(passage);
        self.finish_command(from, mode);
        // It has not been idle: it has waited for this reply.
        self.active = Instant::now();
        self.session.client.note(self.session.command, self.active);
        true
    }

    /// Finds the next requests of a pipeline. Moves among them that come next are made together,
    /// and their number is given; the data of others are fetched together.
    fn take_ahead(&mut self, is_first: bool) -> usize {
        let input = self.input.filled();
        // Strangers have smaller limits, which the parser checks.
        if self.session.authenticated && self.parser.find_ahead(input) {
            self.is_fetched = false;
        }
        if self.parser.found_ahead(input).len() < 2 {
            return 0;
        }
        if let Some(moves) = commands::next_moves(&self.session, self.parser.found_ahead(input)) {
            let count = moves.len();
            if is_first {
                self.session.meter.begin_slice();
            }
            let moved = moves.run(&mut self.session);
            self.answer_moves(count, &moved);
            return count;
        }
        if !self.is_fetched {
            self.is_fetched = true;
            commands::look_ahead(&mut self.session, self.parser.found_ahead(input));
        }
        0
    }

    fn answer_moves(&mut self, count: usize, moved: &MovesResult) {
        let used = self.parser.skip_ahead(count);
        self.input.used(used);
        for index in 0..count {
            let from = self.reply.out.len();
            match moved {
                Ok((ticket, is_new)) => {
                    self.reply.hold(*ticket);
                    self.reply.count(usize::from(is_new[index]));
                }
                Err(failure) => self.reply.error(failure),
            }
            self.finish_command(from, ReplyMode::On);
        }
    }

    /// Drops the reply of a command whose reply is not wanted, and holds the reply of a write, or
    /// its place, so that nothing behind it leaves earlier than the write is durable.
    fn finish_command(&mut self, from: usize, mode_before: ReplyMode) {
        let awaited = self.reply.take_awaited();
        let is_notice = self.reply.take_notice();
        let mode = self.session.replies;
        let skipped = mode_before == ReplyMode::SkipNext && mode == ReplyMode::SkipNext;
        if skipped {
            self.session.replies = ReplyMode::On;
        }
        if (skipped || mode == ReplyMode::Off) && !is_notice {
            self.reply.out.truncate(from);
            self.reply.rest = None;
        }
        if self.session.write_status(awaited) == Durability::Durable {
            return;
        }
        self.deferred_replies.hold(from, self.reply.out.len(), awaited);
    }

    /// Answers input that is no request, and closes.
    fn refuse(&mut self, error: &ProtocolError) {
        self.reply.error(&Failure::made(format!("ERR {}", error.0)));
        self.session.closing = true;
    }
}
