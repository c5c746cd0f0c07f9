//! Packets that try to slip through.
//!
//! Not for: the rule that stops them (`system`).
//!
//! A packet that the output hook drops gives its sender "not permitted"; that is how a sender knows
//! at once what became of it. The kernel's counters are asked too, at the end.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::system::{ADDRESS, ASKED_PORT, PROBED_PORT};
use crate::Random;

/// Probes between two short rests: the program under test needs a core too.
const BURST: usize = 256;

/// A thread that sends to listed members.
pub(super) struct Probes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(u64, u64), String>>,
}

impl Probes {
    pub(super) fn start(members: Vec<Ipv4Addr>) -> Result<Probes, String> {
        let mut door = Door::open()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            let mut random = Random::new(1);
            let (mut sent, mut slipped) = (0, 0);
            while !told.load(Ordering::Relaxed) {
                for _ in 0..BURST {
                    let is_shut = door.is_refused(*random.pick(&members), PROBED_PORT)?;
                    sent += 1;
                    slipped += u64::from(!is_shut);
                }
                thread::park_timeout(Duration::from_micros(500));
            }
            Ok((sent, slipped))
        });
        Ok(Probes { stop, thread })
    }

    /// Whether probes still go.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.thread.is_finished() { Err("the probes have ended".to_owned()) } else { Ok(()) }
    }

    /// How many were sent, and how many slipped through.
    pub(super) fn stop(self) -> Result<(u64, u64), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the probes' thread failed".to_owned())?
    }
}

/// A socket that asks whether an address is in the set.
pub(super) struct Door(UdpSocket);

impl Door {
    pub(super) fn open() -> Result<Door, String> {
        let socket = UdpSocket::bind((ADDRESS, 0));
        socket.map(Door).map_err(|error| format!("a UDP socket: {error}"))
    }

    /// Whether packets to this address are dropped, asked beside the probes.
    pub(super) fn is_shut(&mut self, address: Ipv4Addr) -> Result<bool, String> {
        self.is_refused(address, ASKED_PORT)
    }

    fn is_refused(&mut self, address: Ipv4Addr, port: u16) -> Result<bool, String> {
        match self.0.send_to(b"?", (address, port)) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(true),
            Err(error) => Err(format!("a packet to {address}: {error}")),
        }
    }
}
