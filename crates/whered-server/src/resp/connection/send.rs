//! Sending a connection's replies, as far as their writes are durable.
//!
//! For: one write a time slice, of the output or of the pieces of a long reply. Not for: what is
//! held back until when (`deferred_replies`), nor how large the output may get (`limits`).
//!
//! Invariants: nothing is sent from the first held reply on. Cost: one system call at most, and one
//! move of what is left when more than half has gone.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;

use super::{Connection, ConnectionClosed};
use crate::resp::reply::append_error;

/// The most pieces of a long reply that one time slice sends as they lie in memory.
const MOST_PIECES: usize = 512;
/// Buffers that have grown beyond this are given back when they are empty.
pub(in crate::resp) const KEPT_BYTES: usize = 64 * 1024;

impl Connection {
    /// Lets held replies go whose writes are durable; those whose writes are lost become errors.
    pub(super) fn release(&mut self) {
        let session = &self.session;
        self.deferred_replies.release(
            &mut self.reply.out,
            |awaited| session.write_status(awaited),
            |awaited, out| append_error(out, session.loss(awaited).as_bytes()),
        );
    }

    /// Where the sendable part of the output ends.
    pub(super) fn sendable_end(&self) -> usize {
        self.deferred_replies.sendable_end(self.reply.out.len())
    }

    /// Writes once, as much as may be sent, and of a long reply about `part_bytes`.
    pub(super) fn write(&mut self, part_bytes: usize) -> Result<(), ConnectionClosed> {
        if self.writable && self.stream.has_unsent() {
            match self.stream.flush() {
                Ok(()) => self.standing_since = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(ConnectionClosed),
            }
        }
        let end = self.sendable_end();
        let with_pieces = self.sends_pieces();
        if !self.writable || (self.sent == end && !with_pieces) {
            return Ok(());
        }
        let written = if with_pieces {
            self.write_pieces(part_bytes)
        } else {
            let asked = end - self.sent;
            self.stream.write(&self.reply.out[self.sent..end]).map(|count| (count, asked))
        };
        match written {
            Ok((0, _)) => return Err(ConnectionClosed),
            Ok((count, asked)) => {
                let counters = &self.session.shared.counters;
                counters.output_bytes.fetch_add(count as u64, Ordering::Relaxed);
                counters.writes.fetch_add(1, Ordering::Relaxed);
                self.writable = !self.stream.is_blocked_after(count, asked);
                self.standing_since = None;
                let own = count.min(end - self.sent);
                self.sent += own;
                if with_pieces {
                    self.reply.rest_sent(count - own);
                }
                self.drop_sent();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(ConnectionClosed),
        }
        Ok(())
    }

    /// Whether the rest of a long reply is sent as it lies, behind what is in the output.
    pub(super) fn sends_pieces(&self) -> bool {
        let has_pieces = self.reply.rest.as_ref().is_some_and(|rest| rest.has_pieces());
        has_pieces && self.deferred_replies.is_empty() && self.stream.takes_pieces()
    }

    /// Writes the output and the next pieces of a long reply; gives how many bytes were taken of
    /// how many.
    fn write_pieces(&mut self, part_bytes: usize) -> io::Result<(usize, usize)> {
        let mut pieces = Vec::with_capacity(MOST_PIECES);
        if self.unsent() > 0 {
            pieces.push(IoSlice::new(&self.reply.out[self.sent..]));
        }
        if let Some(rest) = &self.reply.rest {
            rest.pieces(&mut pieces, part_bytes, MOST_PIECES);
        }
        let asked = pieces.iter().map(|piece| piece.len()).sum();
        Ok((self.stream.write_pieces(&pieces)?, asked))
    }

    pub(super) fn drop_sent(&mut self) {
        let out = &mut self.reply.out;
        if self.sent == out.len() {
            out.clear();
            if out.capacity() > KEPT_BYTES {
                *out = Vec::new();
            }
        } else if self.sent > out.len() / 2 {
            out.drain(..self.sent);
        } else {
            return;
        }
        self.deferred_replies.dropped(self.sent);
        self.sent = 0;
    }
}
