//! The ceiling: the server's own loop, which sends every datagram back, as long as answers are.
//!
//! For: what the kernel takes of a core for one question and one answer, with the same system calls,
//! batches and buffers as the server.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use whered_server::dns::mmsg::{Batch, Datagram};
use whered_server::dns::udp::{self, Receiving};

/// Answers every datagram with itself and as many zero bytes as are missing.
pub fn pad(datagrams: &[Datagram<'_>], batch: &mut Batch, size_bytes: usize) {
    for (answer, datagram) in batch.answers_mut().iter_mut().zip(datagrams) {
        answer.extend_from_slice(datagram.payload);
        if !answer.is_empty() && answer.len() < size_bytes {
            answer.resize(size_bytes, 0);
        }
    }
}

/// Echoes on an address until the process ends.
///
/// # Errors
///
/// The address cannot be bound, or the socket fails.
pub fn serve(address: SocketAddr, receiving: Receiving, size_bytes: usize) -> io::Result<()> {
    let sockets = [udp::bind(address)?];
    let stop = AtomicBool::new(false);
    let answer = |datagrams: &[Datagram<'_>], batch: &mut Batch| {
        pad(datagrams, batch, size_bytes);
    };
    udp::serve(&sockets, receiving, &stop, answer, |_| {})
}
