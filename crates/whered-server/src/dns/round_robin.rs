//! Round robin over several sockets on one thread: each has one bounded batch before the next.
//!
//! Not for: receiving and sending (`mmsg`), when to stop (`udp`).
//!
//! ```text
//! system ──edge──> [ready, ready, quiet]  ──next()──> socket 0, socket 1, socket 0, ...
//!                         ^ cleared by went_quiet() when a call found less than it had room for
//! ```
//!
//! Invariants: every socket that is known to have datagrams has a batch before any other one has
//! its second; the system is asked once a round, and without waiting while anybody is ready. A
//! round begins behind the socket that had the last batch, so that what came meanwhile on a quiet
//! one waits for no other batch than the one that was under way. A socket is taken for quiet only
//! when a call has found it empty, since the system tells of each arrival once.
//!
//! Cost: one `epoll_wait` a round, which is shared by the datagrams of all its batches.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// The sockets of one thread and what is known of them.
pub(super) struct RoundRobin {
    poll: Poll,
    events: Events,
    ready: Vec<bool>,
    /// Where this round goes on, and how many sockets of it are left.
    next: usize,
    left: usize,
    /// The socket of the last batch, and how many batches ago it was another one.
    last: usize,
    alone_for: usize,
}

/// After this many batches of one socket in a row no other one counts as in use.
const ALONE_AFTER: usize = 1024;

impl RoundRobin {
    /// Asks the system to tell of datagrams on these sockets.
    ///
    /// # Errors
    /// The system's, such as that it has no descriptor left.
    pub(super) fn new(sockets: &[UdpSocket]) -> io::Result<RoundRobin> {
        let poll = Poll::new()?;
        for (index, socket) in sockets.iter().enumerate() {
            let descriptor = socket.as_raw_fd();
            poll.registry().register(
                &mut SourceFd(&descriptor),
                Token(index),
                Interest::READABLE,
            )?;
        }
        let events = Events::with_capacity(sockets.len().max(1));
        // What came before the registration is told too; to look once more costs nothing.
        Ok(RoundRobin {
            poll,
            events,
            ready: vec![true; sockets.len()],
            next: 0,
            left: sockets.len(),
            last: 0,
            alone_for: ALONE_AFTER,
        })
    }

    /// The socket of the next batch; `None` when nothing came within `patience`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn next(&mut self, patience: Duration) -> io::Result<Option<usize>> {
        if let Some(found) = self.next_ready() {
            return Ok(Some(found));
        }
        self.left = self.ready.len();
        let is_any_ready = self.ready.contains(&true);
        let patience = if is_any_ready { Duration::ZERO } else { patience };
        self.poll.poll(&mut self.events, Some(patience))?;
        for event in &self.events {
            if let Some(ready) = self.ready.get_mut(event.token().0) {
                *ready = true;
            }
        }
        Ok(self.next_ready())
    }

    /// A call has found nothing on the socket, or less than it had room for.
    pub(super) fn went_quiet(&mut self, index: usize) {
        self.ready[index] = false;
    }

    /// The next one of this round.
    fn next_ready(&mut self) -> Option<usize> {
        let count = self.ready.len();
        let steps = (0..self.left).find(|step| self.ready[(self.next + step) % count])?;
        let found = (self.next + steps) % count;
        self.next = (found + 1) % count;
        self.left -= steps + 1;
        self.alone_for = if found == self.last { self.alone_for.saturating_add(1) } else { 0 };
        self.last = found;
        Some(found)
    }

    /// Whether another socket than the one whose turn it is has had one not long ago: it may be
    /// waiting for the end of this one.
    pub(super) fn is_shared(&self) -> bool {
        self.alone_for < ALONE_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn sockets(count: usize) -> Vec<UdpSocket> {
        (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()
    }

    #[test]
    fn busy_sockets_alternate_and_a_quiet_one_is_left_out_until_something_comes() {
        let sockets = sockets(3);
        let mut round_robin = RoundRobin::new(&sockets).unwrap();
        round_robin.next(SHORT).unwrap();
        round_robin.went_quiet(0);
        for expected in [1, 2, 1, 2] {
            assert_eq!(round_robin.next(SHORT).unwrap(), Some(expected));
        }
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"here", sockets[0].local_addr().unwrap()).unwrap();
        // The round that is under way may go on without it; the next one may not.
        let round: Vec<_> = (0..3).map(|_| round_robin.next(SHORT).unwrap()).collect();
        assert!(round.contains(&Some(0)), "{round:?}");
    }

    #[test]
    fn what_comes_on_a_quiet_socket_waits_for_one_turn_of_a_busy_one() {
        for (busy, quiet) in [(0, 1), (1, 0)] {
            let sockets = sockets(2);
            let mut round_robin = RoundRobin::new(&sockets).unwrap();
            for _ in 0..2 {
                round_robin.next(SHORT).unwrap();
            }
            round_robin.went_quiet(quiet);
            assert_eq!(round_robin.next(SHORT).unwrap(), Some(busy));
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(b"here", sockets[quiet].local_addr().unwrap()).unwrap();
            assert_eq!(round_robin.next(SHORT).unwrap(), Some(quiet));
        }
    }

    #[test]
    fn a_thread_is_shared_from_the_second_sockets_turn_on_until_one_was_alone_for_long() {
        let sockets = sockets(2);
        let mut round_robin = RoundRobin::new(&sockets).unwrap();
        assert_eq!(round_robin.next(SHORT).unwrap(), Some(0));
        assert!(!round_robin.is_shared());
        assert_eq!(round_robin.next(SHORT).unwrap(), Some(1));
        assert!(round_robin.is_shared());
        round_robin.went_quiet(1);
        for _ in 0..ALONE_AFTER {
            assert!(round_robin.is_shared());
            assert_eq!(round_robin.next(SHORT).unwrap(), Some(0));
        }
        for _ in 0..2 {
            assert_eq!(round_robin.next(SHORT).unwrap(), Some(0));
        }
        assert!(!round_robin.is_shared());
    }

    #[test]
    fn nothing_on_any_socket_is_told_after_the_patience() {
        let sockets = sockets(2);
        let mut round_robin = RoundRobin::new(&sockets).unwrap();
        round_robin.went_quiet(0);
        round_robin.went_quiet(1);
        assert_eq!(round_robin.next(SHORT).unwrap(), None);
    }
}
