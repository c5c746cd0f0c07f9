//! How many questions came and what became of them, by transport and response code.
//!
//! ```text
//! DnsCounters ─> udp: one Counters for each thread (its own cache lines, no sharing)
//!            └─> tcp: one Counters for the one thread
//! ```
//!
//! A thread only ever adds to its own; whoever asks adds them up. Cost: one relaxed addition on
//! a line that nobody else writes.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::udp;

/// Response codes 0 to 23 (RFC 6895 section 2.3 with BADVERS to BADCOOKIE); others count as
/// the last, which is assigned but never answered here.
const RCODES: usize = 24;

/// The counts of one thread.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    answered: [AtomicU64; RCODES],
    silent: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    /// A question was answered with that code.
    pub(crate) fn answered(&self, rcode: u16) {
        let index = usize::from(rcode).min(RCODES - 1);
        self.answered[index].fetch_add(1, Ordering::Relaxed);
    }

    /// A message was no question and got no answer.
    pub(crate) fn silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    /// The system did not take that many answers.
    pub(crate) fn refused(&self, count: usize) {
        self.refused.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// The counts of the whole door.
#[derive(Debug, Default)]
pub(crate) struct DnsCounters {
    udp: Vec<Arc<Counters>>,
    tcp: Arc<Counters>,
    /// The threads' sockets once more, to ask the kernel what it has dropped.
    sockets: Vec<UdpSocket>,
}

/// Sums over threads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Response codes that were given, with their counts.
    pub(crate) answered: Vec<(u16, u64)>,
    /// Messages that got no answer.
    pub(crate) silent: u64,
    /// Answers that the system did not take.
    pub(crate) refused: u64,
}

impl DnsCounters {
    /// Counters for UDP threads with these sockets.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new(threads: &[Vec<UdpSocket>]) -> io::Result<DnsCounters> {
        let udp = threads.iter().map(|_| Arc::default()).collect();
        let sockets = threads.iter().flatten().map(UdpSocket::try_clone);
        Ok(DnsCounters { udp, tcp: Arc::default(), sockets: sockets.collect::<Result<_, _>>()? })
    }

    /// How many datagrams the kernel has dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.sockets.iter().filter_map(udp::dropped).sum()
    }

    /// Those of one UDP thread.
    pub(crate) fn udp_thread(&self, index: usize) -> Arc<Counters> {
        Arc::clone(&self.udp[index])
    }

    /// Those of the TCP thread.
    pub(crate) fn tcp_thread(&self) -> Arc<Counters> {
        Arc::clone(&self.tcp)
    }

    /// All of UDP.
    pub(crate) fn udp(&self) -> Totals {
        total(&self.udp)
    }

    /// All of TCP.
    pub(crate) fn tcp(&self) -> Totals {
        total(std::slice::from_ref(&self.tcp))
    }
}

fn total(threads: &[Arc<Counters>]) -> Totals {
    let sum = |read: &dyn Fn(&Counters) -> &AtomicU64| -> u64 {
        threads.iter().map(|thread| read(thread).load(Ordering::Relaxed)).sum()
    };
    let answered = (0..RCODES as u16)
        .map(|rcode| (rcode, sum(&|thread| &thread.answered[usize::from(rcode)])))
        .filter(|(_, count)| *count > 0)
        .collect();
    Totals {
        answered,
        silent: sum(&|thread| &thread.silent),
        refused: sum(&|thread| &thread.refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up_and_unknown_codes_share_the_last_place() {
        let counters = DnsCounters::new(&[Vec::new(), Vec::new()]).unwrap();
        counters.udp_thread(0).answered(0);
        counters.udp_thread(1).answered(0);
        counters.udp_thread(1).answered(4000);
        counters.udp_thread(1).silent();
        counters.tcp_thread().answered(3);
        counters.tcp_thread().refused(2);
        let udp = Totals { answered: vec![(0, 2), (23, 1)], silent: 1, refused: 0 };
        assert_eq!(counters.udp(), udp);
        assert_eq!(counters.tcp(), Totals { answered: vec![(3, 1)], silent: 0, refused: 2 });
    }
}
