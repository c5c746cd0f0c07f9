//! UDP sockets and the loop from batches of datagrams to batches of answers.
//!
//! Not for: what is answered: the loop runs over any function, an echo as well as DNS, so that
//! the ceiling of this machine can be measured with the same batches, buffers and threads.
//!
//! ```text
//! one socket, many a call:   recvmmsg (waits) ─> handler ─> sendmmsg ─> again
//! otherwise:   round robin (epoll) ─> one bounded batch of one socket ─> round robin
//! ```
//!
//! At the same time: one thread for each set of sockets; the sockets of one address in all sets
//! share its port (`SO_REUSEPORT`), and the kernel spreads clients over them.
//! Cost: with one socket two system calls a batch and nothing else.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::control;
pub use super::mmsg::Calls;
use super::mmsg::{BATCH_SIZE, Batch, Datagram, Receiver, WhenEmpty};
use super::round_robin::RoundRobin;
use crate::listen::STOP_LATENCY;
pub use crate::listen::bind_udp as bind;

/// The batch while several sockets of a thread are in use: a question on one of them waits for that
/// many on another one.
const SHARED_BATCH: usize = 8;

/// After this many failures in a row a socket is given up.
const FAILURES_MAX: usize = 1000;

/// How datagrams are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// How many datagrams of one socket are taken before another socket is served.
    pub batch: usize,
    /// Whether with one system call or with one for each.
    pub calls: Calls,
}

impl Default for Receiving {
    fn default() -> Self {
        Receiving { batch: BATCH_SIZE, calls: Calls::Many }
    }
}

/// How many datagrams the kernel has dropped so far because the socket's buffer was full; `None`
/// where the system does not tell.
///
/// The counter is asked for when somebody wants to know it. As a control message with each datagram
/// (`SO_RXQ_OVFL`) it would cost the loop something and the asker a datagram.
pub fn dropped(socket: &UdpSocket) -> Option<u64> {
    control::dropped(socket.as_raw_fd())
}

/// Receives, answers and sends until `stop` is set; returns within a tenth of a second then.
///
/// `refused` is told how many answers of a batch the system did not take.
///
/// # Errors
/// A socket fails again and again, or there is nothing to wait with.
pub fn serve(
    sockets: &[UdpSocket],
    receiving: Receiving,
    stop: &AtomicBool,
    mut answer: impl FnMut(&[Datagram<'_>], &mut Batch),
    mut refused: impl FnMut(usize),
) -> io::Result<()> {
    let receiver = Receiver::new(receiving.batch, receiving.calls);
    let batch = Batch::new(receiver.size());
    let mut worker = Worker { receiver, batch, failures: 0 };
    match (sockets, receiving.calls) {
        ([socket], Calls::Many) => {
            let most = worker.receiver.size();
            while !stop.load(Ordering::Relaxed) {
                worker.serve_once(most, socket, WhenEmpty::Wait, &mut answer, &mut refused)?;
            }
            Ok(())
        }
        _ => serve_round_robin(&mut worker, sockets, receiving, stop, answer, refused),
    }
}

fn serve_round_robin(
    worker: &mut Worker,
    sockets: &[UdpSocket],
    receiving: Receiving,
    stop: &AtomicBool,
    mut answer: impl FnMut(&[Datagram<'_>], &mut Batch),
    mut refused: impl FnMut(usize),
) -> io::Result<()> {
    let mut round_robin = RoundRobin::new(sockets)?;
    let size = worker.receiver.size();
    while !stop.load(Ordering::Relaxed) {
        let index = match round_robin.next(STOP_LATENCY) {
            Ok(Some(index)) => index,
            Ok(None) => continue,
            Err(error) if is_pause(&error) => continue,
            Err(error) => return Err(error),
        };
        let shared_max = if round_robin.is_shared() { SHARED_BATCH } else { usize::MAX };
        let batch = receiving.batch.clamp(1, shared_max);
        let most = size.min(batch);
        // A batch is one call, or as many calls as it has datagrams.
        for _ in 0..batch.div_ceil(size) {
            let socket = &sockets[index];
            let received =
                worker.serve_once(most, socket, WhenEmpty::Return, &mut answer, &mut refused)?;
            match received {
                Reception::Datagrams(count) if count == most => {}
                Reception::Failed => break,
                Reception::Datagrams(_) | Reception::Empty => {
                    round_robin.went_quiet(index);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The buffers of one thread.
struct Worker {
    receiver: Receiver,
    batch: Batch,
    failures: usize,
}

/// What a call has found.
enum Reception {
    Datagrams(usize),
    Empty,
    /// The system had an error to tell, such as an answer that nobody took; there may be more.
    Failed,
}

impl Worker {
    /// Receives once, at most `most` datagrams, and answers them.
    fn serve_once(
        &mut self,
        most: usize,
        socket: &UdpSocket,
        when_empty: WhenEmpty,
        answer: &mut impl FnMut(&[Datagram<'_>], &mut Batch),
        refused: &mut impl FnMut(usize),
    ) -> io::Result<Reception> {
        let count = match self.receiver.receive_at_most(most, socket, when_empty) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Reception::Failed);
            }
            Err(error) if is_pause(&error) => return Ok(Reception::Empty),
            Err(error) if self.failures < FAILURES_MAX => {
                self.failures += 1;
                tracing::debug!("a DNS socket failed to receive: {error}");
                return Ok(Reception::Failed);
            }
            Err(error) => return Err(error),
        };
        self.failures = 0;
        self.batch.clear();
        self.receiver.with_datagrams(|datagrams| answer(datagrams, &mut self.batch));
        let lost = self.receiver.send(socket, &mut self.batch);
        if lost > 0 {
            refused(lost);
        }
        Ok(Reception::Datagrams(count))
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
#[path = "udp_tests.rs"]
mod tests;
