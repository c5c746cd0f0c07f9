//! A cheap UDP driver: many questions with one system call, many answers with another, all checked.
//!
//! For: keeping one server busier than it can be, from one core (closed loop), and asking at a
//! given rate (open loop). Not for: what is asked (`world.rs`).
//!
//! ```text
//! lane 0: socket, burst of 32 questions, bits of those that were answered
//! lane 1: ...
//! closed loop: a lane whose burst is answered sends its next one
//! open loop:   the next lane sends at its time, whatever became of its last burst
//! ```
//!
//! A burst goes out as one datagram that the kernel cuts up (`UDP_SEGMENT`), which costs the driver
//! a fraction of 32 sends, while the server finds 32 datagrams as from anybody else.
//! Invariants: every question is counted once: answered, wrong or lost. A second answer to one
//! question, or one to a question that was given up, counts as nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use whered_server::dns::mmsg::{Calls, Receiver, WhenEmpty};

use super::world::Queries;

/// Questions of one burst: the bits of a `u32`.
pub const BURST: usize = 32;

/// A burst that is not answered by then is given up.
const PATIENCE: Duration = Duration::from_millis(100);

/// What became of the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Right answers.
    pub answered: u64,
    /// Answers that were not right.
    pub wrong: u64,
    /// Questions that got no answer in time.
    pub lost: u64,
    /// The size of all answers.
    pub reply_bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Sockets and what they wait for.
pub struct Driver<'q> {
    queries: &'q Queries,
    lanes: Vec<Lane>,
    receiver: Receiver,
    next: usize,
    is_mirror: bool,
    tally: Tally,
}

struct Lane {
    socket: UdpSocket,
    first: usize,
    /// A bit for each question that waits for its answer.
    open: u32,
    sent: Instant,
}

impl<'q> Driver<'q> {
    /// Opens `lanes` sockets to a server. `is_mirror`: it sends the questions back.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(
        queries: &'q Queries,
        server: SocketAddr,
        lanes: usize,
        is_mirror: bool,
    ) -> io::Result<Driver<'q>> {
        let lanes = (0..lanes).map(|_| Lane::new(server, queries.size_bytes()));
        Ok(Driver {
            queries,
            lanes: lanes.collect::<Result<_, _>>()?,
            receiver: Receiver::new(BURST, Calls::Many),
            next: 0,
            is_mirror,
            tally: Tally::default(),
        })
    }

    /// Asks as fast as the server answers. `beside` is called after every look at a socket, and
    /// again and again where there is none.
    ///
    /// # Errors
    ///
    /// A socket fails, such as when nobody listens.
    pub fn closed_loop(
        &mut self,
        time: Duration,
        mut beside: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Tally> {
        self.tally = Tally::default();
        let begun = Instant::now();
        while begun.elapsed() < time {
            for index in 0..self.lanes.len() {
                self.receive(index)?;
                let lane = &self.lanes[index];
                if lane.open == 0 || lane.sent.elapsed() > PATIENCE {
                    self.send(index)?;
                }
                beside()?;
            }
            if self.lanes.is_empty() {
                beside()?;
            }
        }
        self.tally.seconds = begun.elapsed().as_secs_f64();
        self.finish()?;
        Ok(self.tally)
    }

    /// Asks questions at a rate a second. `beside` is called between bursts.
    ///
    /// # Errors
    ///
    /// A socket fails, such as when nobody listens.
    pub fn open_loop(
        &mut self,
        per_second: f64,
        time: Duration,
        mut beside: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Tally> {
        self.tally = Tally::default();
        let begun = Instant::now();
        let (mut bursts, mut lane) = (0_u64, 0);
        while begun.elapsed() < time {
            let due = begun.elapsed().as_secs_f64() * per_second / BURST as f64;
            if (bursts as f64) < due {
                self.receive(lane)?;
                self.send(lane)?;
                lane = (lane + 1) % self.lanes.len();
                bursts += 1;
            } else {
                for index in 0..self.lanes.len() {
                    self.receive(index)?;
                    beside()?;
                }
            }
        }
        self.tally.seconds = begun.elapsed().as_secs_f64();
        self.finish()?;
        Ok(self.tally)
    }

    /// Waits for what was asked already; what does not come is lost.
    fn finish(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE * 3 && self.lanes.iter().any(|lane| lane.open != 0) {
            for index in 0..self.lanes.len() {
                self.receive(index)?;
            }
        }
        for lane in &mut self.lanes {
            self.tally.lost += u64::from(lane.open.count_ones());
            lane.open = 0;
        }
        Ok(())
    }

    fn send(&mut self, index: usize) -> io::Result<()> {
        let lane = &mut self.lanes[index];
        self.tally.lost += u64::from(lane.open.count_ones());
        if self.next + BURST > self.queries.len() {
            self.next = 0;
        }
        lane.first = self.next;
        self.next += BURST;
        lane.sent = Instant::now();
        lane.open = u32::MAX;
        match lane.socket.send(self.queries.run(lane.first, BURST)) {
            Ok(_) => Ok(()),
            // The server's queue is full, or it is gone for a moment: lost like any other.
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, index: usize) -> io::Result<()> {
        let lane = &mut self.lanes[index];
        if lane.open == 0 {
            return Ok(());
        }
        match self.receiver.receive(&lane.socket, WhenEmpty::Return) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (queries, is_mirror, tally) = (self.queries, self.is_mirror, &mut self.tally);
        self.receiver.with_datagrams(|datagrams| {
            for datagram in datagrams {
                let reply = datagram.payload;
                let Some(id) = reply.first_chunk::<2>() else { continue };
                let place = usize::from(u16::from_be_bytes(*id).wrapping_sub(lane.first as u16));
                if place >= BURST || lane.open >> place & 1 == 0 {
                    continue;
                }
                lane.open &= !(1 << place);
                tally.reply_bytes += reply.len() as u64;
                match queries.is_answer(lane.first + place, reply, is_mirror) {
                    true => tally.answered += 1,
                    false => tally.wrong += 1,
                }
            }
        });
        Ok(())
    }
}

impl Lane {
    fn new(server: SocketAddr, query_size: usize) -> io::Result<Lane> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        set_segment_size(&socket, query_size)?;
        Ok(Lane { socket, first: 0, open: 0, sent: Instant::now() })
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Makes the kernel cut what is sent into datagrams of this size.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library does not have this option")]
fn set_segment_size(socket: &UdpSocket, size_bytes: usize) -> io::Result<()> {
    let size = size_bytes as libc::c_int;
    // SAFETY: the descriptor is open as long as `socket` is borrowed; the value is one c_int that
    // lives across the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            size_of_val(&size) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn set_segment_size(_socket: &UdpSocket, _size_bytes: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::dns::echo;
    use crate::dns::world::{Mix, Shape};
    use std::sync::atomic::{AtomicBool, Ordering};
    use whered_server::dns::udp::{self, Receiving};

    #[test]
    fn what_is_dropped_or_changed_on_the_way_is_counted() {
        let queries = Queries::new(Shape::Small, Mix::Mixed, 6400, 1);
        let socket = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = AtomicBool::new(false);
        let (sockets, stopped) = ([socket], &stop);
        std::thread::scope(|scope| {
            let handle = |datagrams: &[whered_server::dns::mmsg::Datagram<'_>],
                          batch: &mut whered_server::dns::mmsg::Batch| {
                echo::pad(datagrams, batch, 90);
                for (index, datagram) in datagrams.iter().enumerate() {
                    match datagram.payload[1] % 32 {
                        3 => batch.set_size(index, 0),
                        4 | 5 => batch.room(index)[12] ^= 1,
                        _ => {}
                    }
                }
            };
            scope.spawn(move || {
                udp::serve(&sockets, Receiving::default(), stopped, handle, |_| {}).unwrap();
            });
            let mut driver = Driver::new(&queries, address, 2, true).unwrap();
            let tally = driver.closed_loop(Duration::from_millis(300), || Ok(())).unwrap();
            assert!(tally.answered > 0);
            assert_eq!(tally.answered, tally.lost * 29, "{tally:?}");
            assert_eq!(tally.wrong, tally.lost * 2, "{tally:?}");
            assert_eq!(tally.reply_bytes, (tally.answered + tally.wrong) * 90);
            stop.store(true, Ordering::Relaxed);
        });
    }
}
