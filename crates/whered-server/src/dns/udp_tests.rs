//! The loop over real sockets of loopback, in every way of receiving.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Batch, Calls, Datagram, Receiving, bind, dropped, serve};

const WAIT: Duration = Duration::from_secs(5);

fn capitals(datagrams: &[Datagram<'_>], batch: &mut Batch) {
    for (index, datagram) in datagrams.iter().enumerate() {
        let size = datagram.payload.len();
        batch.room(index)[..size].copy_from_slice(&datagram.payload.to_ascii_uppercase());
        batch.set_size(index, size);
    }
}

/// Runs the loop beside `ask`.
fn beside<T>(sockets: &[UdpSocket], receiving: Receiving, ask: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(sockets, receiving, &stop, capitals, |_| {}).unwrap());
        let result = ask();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    client
}

#[test]
fn every_way_of_receiving_answers_everything_on_every_socket() {
    for calls in [Calls::Many, Calls::Single] {
        for (batch, count) in [(1, 1), (1, 2), (5, 3), (32, 1), (64, 2)] {
            let sockets: Vec<_> =
                (0..count).map(|_| bind("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
            beside(&sockets, Receiving { batch, calls }, || {
                let client = client();
                for number in 0..100 {
                    let server = sockets[number % count].local_addr().unwrap();
                    client.send_to(format!("q{number}").as_bytes(), server).unwrap();
                }
                let mut seen: Vec<String> = (0..100)
                    .map(|_| {
                        let mut bytes = [0; 16];
                        let size = client.recv(&mut bytes).unwrap();
                        String::from_utf8_lossy(&bytes[..size]).into_owned()
                    })
                    .collect();
                seen.sort();
                let mut expected: Vec<_> = (0..100).map(|number| format!("Q{number}")).collect();
                expected.sort();
                assert_eq!(seen, expected, "{calls:?} {batch} {count}");
            });
        }
    }
}

#[test]
fn a_socket_with_a_long_queue_keeps_the_other_waiting_for_one_batch_only() {
    let sockets: Vec<_> = (0..2).map(|_| bind("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
    let busy = sockets[0].local_addr().unwrap();
    let (flood, other) = (client(), client());
    for _ in 0..500 {
        flood.send_to(b"a", busy).unwrap();
    }
    other.send_to(b"b", sockets[1].local_addr().unwrap()).unwrap();
    // All of it is there before the loop begins, so that the order is the loop's own.
    let (sender, received) = std::sync::mpsc::channel();
    let stop = AtomicBool::new(false);
    let record = |datagrams: &[Datagram<'_>], batch: &mut Batch| {
        datagrams.iter().for_each(|datagram| sender.send(datagram.payload[0]).unwrap());
        capitals(datagrams, batch);
    };
    let order: Vec<u8> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let receiving = Receiving { batch: 8, calls: Calls::Many };
            serve(&sockets, receiving, &stop, record, |_| {}).unwrap();
        });
        let order = (0..501).map(|_| received.recv_timeout(WAIT).unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        order
    });
    let before = order.iter().position(|byte| *byte == b'b').unwrap();
    assert!(before <= 8, "{before} came before it");
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let socket = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    assert_eq!(dropped(&socket), Some(0));
    let client = client();
    // Each small datagram takes at least half a KiB of the kernel's account of 8 MiB.
    let mut sent = 0;
    while dropped(&socket) == Some(0) && sent < 1_000_000 {
        for _ in 0..1000 {
            client.send_to(b"x", address).unwrap();
        }
        sent += 1000;
    }
    assert!(dropped(&socket) > Some(0), "{sent} sent");
}
