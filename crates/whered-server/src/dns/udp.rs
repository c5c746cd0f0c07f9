//! UDP sockets and the loop from batches of datagrams to batches of answers.
//!
//! Not for: what is answered: the loop runs over any function, an echo as well as DNS, so that
//! the ceiling of this machine can be measured with the same batches, buffers and threads.
//!
//! At the same time: one thread for each socket; all sockets of one address share its port
//! (`SO_REUSEPORT`), and the kernel spreads clients over them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::control;
use super::mmsg::{Batch, Datagram, Receiver};

/// What is asked of the kernel for unread datagrams: with the default, bursts are lost.
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// How long a quiet socket waits before it looks whether to stop.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// After so many failures in a row a socket is given up.
const FAILURES_MAX: usize = 1000;

/// Opens one socket of an address that several may share.
///
/// # Errors
/// The system's, such as an address that is not ours.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let ipv6 = address.is_ipv6();
    let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if ipv6 {
        // `0.0.0.0` and `::` are two addresses here, as in every name server.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    // The kernel grants less when its limit (net.core.rmem_max) is lower.
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(STOP_LATENCY))?;
    if address.ip().is_unspecified() {
        control::ask_for_destinations(&socket, ipv6)?;
    }
    Ok(socket)
}

/// Receives, answers and sends until `stop` is set; returns within a tenth of a second then.
///
/// `refused` is told how many answers of a batch the system did not take.
///
/// # Errors
/// The socket fails again and again.
pub fn serve(
    socket: &UdpSocket,
    stop: &AtomicBool,
    mut answer: impl FnMut(&[Datagram<'_>], &mut Batch),
    mut refused: impl FnMut(usize),
) -> io::Result<()> {
    let mut receiver = Receiver::new();
    let mut batch = Batch::new();
    let mut failures = 0;
    while !stop.load(Ordering::Relaxed) {
        match receiver.receive(socket) {
            Ok(_) => failures = 0,
            Err(error) if is_pause(&error) => continue,
            Err(error) if failures < FAILURES_MAX => {
                failures += 1;
                tracing::debug!("a DNS socket failed to receive: {error}");
                continue;
            }
            Err(error) => return Err(error),
        }
        batch.clear();
        receiver.with_datagrams(|datagrams| answer(datagrams, &mut batch));
        let lost = receiver.send(socket, &mut batch);
        if lost > 0 {
            refused(lost);
        }
    }
    Ok(())
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
