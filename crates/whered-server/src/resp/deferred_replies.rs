//! Deferred replies: which bytes of an output wait for which writes.
//!
//! For: the rule that a write's reply leaves when the write is durable, that all later replies
//! wait behind it, and that a lost write's reply becomes an error.
//! Not for: sockets (`connection`), nor for when writes are durable (the engine).
//!
//! ```text
//! output   :1\r\n  $3\r\nabc\r\n  :1\r\n  +PONG\r\n
//!          ╰hold A╯               ╰hold B╯
//!          ^ sendable end while A is pending
//! ```
//!
//! Invariants: deferred replies are in the output in order and do not overlap. Offsets count from
//! the connection's first byte, so that they stay true when sent bytes are dropped.
//!
//! Cost: adding and releasing are O(1) a reply. When writes are lost the output is rewritten once.

use std::collections::VecDeque;

use whered_engine::Durability;

use super::reply::AwaitedWrite;

/// The deferred replies of one connection; `T` is what tells writes apart.
pub(crate) struct DeferredReplies<T> {
    replies: VecDeque<DeferredReply<T>>,
    /// The offset of the output's first byte from the connection's first byte.
    base: u64,
}

struct DeferredReply<T> {
    start: u64,
    end: u64,
    ticket: T,
}

/// What tells writes apart.
pub(crate) trait Write: Copy {
    /// Whether this write, which came later, is durable no earlier than another one.
    fn follows(self, earlier: Self) -> bool;
}

impl Write for AwaitedWrite {
    fn follows(self, earlier: AwaitedWrite) -> bool {
        match (self, earlier) {
            (AwaitedWrite::Journal(_), AwaitedWrite::Journal(_)) => true,
            (AwaitedWrite::Spool(one, _), AwaitedWrite::Spool(other, _)) => one == other,
            (AwaitedWrite::Journal(_), AwaitedWrite::Spool(..))
            | (AwaitedWrite::Spool(..), AwaitedWrite::Journal(_)) => false,
        }
    }
}

impl<T: Write> DeferredReplies<T> {
    /// Nothing is held.
    pub(crate) fn new() -> DeferredReplies<T> {
        DeferredReplies { replies: VecDeque::new(), base: 0 }
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// The write that the oldest held reply waits for.
    pub(crate) fn oldest(&self) -> Option<T> {
        self.replies.front().map(|hold| hold.ticket)
    }

    /// The reply in `out[start..end]` waits for a write. A write whose reply is not wanted holds
    /// an empty place: what comes behind it waits all the same.
    pub(crate) fn hold(&mut self, start: usize, end: usize, ticket: T) {
        let (start, end) = (self.base + start as u64, self.base + end as u64);
        match self.replies.back_mut() {
            // Of unwanted replies in a row only the last write counts: it is durable last.
            Some(last) if last.start == end && last.end == end && ticket.follows(last.ticket) => {
                last.ticket = ticket;
            }
            _ => self.replies.push_back(DeferredReply { start, end, ticket }),
        }
    }

    /// Where the sendable part of an output of this length ends.
    pub(crate) fn sendable_end(&self, len: usize) -> usize {
        self.replies.front().map_or(len, |hold| (hold.start - self.base) as usize)
    }

    /// The output's first `count` bytes are gone.
    pub(crate) fn dropped(&mut self, count: usize) {
        self.base += count as u64;
    }

    /// Lets replies go whose writes are durable, and puts errors in the place of lost ones.
    pub(crate) fn release(
        &mut self,
        out: &mut Vec<u8>,
        status: impl Fn(T) -> Durability,
        write_error: impl Fn(T, &mut Vec<u8>),
    ) {
        while let Some(oldest) = self.oldest() {
            match status(oldest) {
                Durability::Durable => drop(self.replies.pop_front()),
                Durability::Pending => return,
                Durability::Lost => return self.replace_lost(out, status, write_error),
            }
        }
    }

    fn replace_lost(
        &mut self,
        out: &mut Vec<u8>,
        status: impl Fn(T) -> Durability,
        write_error: impl Fn(T, &mut Vec<u8>),
    ) {
        let old = std::mem::take(out);
        let mut copied = 0;
        for hold in std::mem::take(&mut self.replies) {
            let (start, end) = ((hold.start - self.base) as usize, (hold.end - self.base) as usize);
            out.extend_from_slice(&old[copied..start]);
            copied = end;
            let new_start = out.len();
            let status = status(hold.ticket);
            match status {
                // A client that wanted no reply gets no error either.
                Durability::Lost if start == end => {}
                Durability::Lost => write_error(hold.ticket, out),
                Durability::Durable | Durability::Pending => {
                    out.extend_from_slice(&old[start..end]);
                }
            }
            // Behind a pending one a durable one needs no hold of its own.
            if status == Durability::Pending {
                self.hold(new_start, out.len(), hold.ticket);
            }
        }
        out.extend_from_slice(&old[copied..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Write for usize {
        fn follows(self, _: usize) -> bool {
            true
        }
    }

    /// Replies and the writes they wait for; the empty one is not wanted.
    const REPLIES: [(&[u8], Option<usize>); 7] = [
        (b"a", None),
        (b"bb", Some(0)),
        (b"ccc", None),
        (b"", Some(3)),
        (b"f", None),
        (b"dddd", Some(1)),
        (b"e", Some(2)),
    ];

    /// All replies, those with a ticket held; the first two bytes are sent already.
    fn output() -> (Vec<u8>, DeferredReplies<usize>) {
        let mut out = b"--".to_vec();
        let mut replies = DeferredReplies::new();
        for (reply, ticket) in REPLIES {
            let start = out.len();
            out.extend_from_slice(reply);
            if let Some(ticket) = ticket {
                replies.hold(start, out.len(), ticket);
            }
        }
        out.drain(..2);
        replies.dropped(2);
        (out, replies)
    }

    #[test]
    fn every_combination_of_fates_sends_the_right_bytes() {
        use Durability::{Durable, Lost, Pending};
        let fates = [Durable, Pending, Lost];
        for combination in 0..81 {
            let status = |ticket: usize| fates[combination / 3usize.pow(ticket as u32) % 3];
            let (mut out, mut replies) = output();
            replies.release(&mut out, status, |_, out| out.extend_from_slice(b"-E"));
            let sendable = &out[..replies.sendable_end(out.len())];
            // The naive twin: reply after reply until one is pending.
            let mut expected = Vec::new();
            for (reply, ticket) in REPLIES {
                match ticket.map_or(Durable, status) {
                    Durable => expected.extend_from_slice(reply),
                    Lost if reply.is_empty() => {}
                    Lost => expected.extend_from_slice(b"-E"),
                    Pending => break,
                }
            }
            assert_eq!(sendable, expected, "combination {combination}");
            // What was pending becomes durable: all the rest may go.
            let after = |ticket| if status(ticket) == Pending { Durable } else { status(ticket) };
            replies.release(&mut out, after, |_, out| out.extend_from_slice(b"-E"));
            assert_eq!(replies.sendable_end(out.len()), out.len());
            assert!(replies.is_empty());
        }
    }

    #[test]
    fn unwanted_replies_in_a_row_take_one_place_and_wait_for_the_last_write() {
        let mut out = b"+OK".to_vec();
        let mut replies = DeferredReplies::new();
        for ticket in 0..1000 {
            replies.hold(0, 0, ticket);
        }
        assert_eq!(replies.replies.len(), 1);
        let status = |ticket| if ticket < 999 { Durability::Durable } else { Durability::Pending };
        replies.release(&mut out, status, |_, _| ());
        assert_eq!(replies.sendable_end(out.len()), 0);
        replies.release(&mut out, |_| Durability::Durable, |_, _| ());
        assert_eq!(replies.sendable_end(out.len()), 3);
    }
}
