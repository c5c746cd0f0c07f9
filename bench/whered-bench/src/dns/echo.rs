//! The ceiling: the server's own loop, which sends every datagram back, as long as answers are.
//!
//! For: what the kernel takes of a core for one question and one answer, with the same system
//! calls, batches and buffers as the server.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use whered_server::dns::mmsg::{Batch, Datagram};
use whered_server::dns::udp::{self, Receiving};

/// Answers every datagram with itself and as many other bytes as are missing.
pub fn pad(datagrams: &[Datagram<'_>], batch: &mut Batch, size_bytes: usize) {
    for (index, datagram) in datagrams.iter().enumerate() {
        let payload = datagram.payload;
        if let Some(room) = batch.room(index).get_mut(..payload.len()) {
            room.copy_from_slice(payload);
        }
        batch.set_size(index, if payload.is_empty() { 0 } else { payload.len().max(size_bytes) });
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
