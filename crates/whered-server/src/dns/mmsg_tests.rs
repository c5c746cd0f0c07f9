//! Batches over real sockets of loopback: nothing lost, nothing sent to or from the wrong address.

use std::net::UdpSocket;
use std::time::Duration;

use super::{BATCH_SIZE, Batch, Calls, DATAGRAM_SIZE_MAX, Receiver, WhenEmpty};
use crate::dns::udp;

const WAIT: Duration = Duration::from_secs(5);

fn client_of(address: &str) -> UdpSocket {
    let client = UdpSocket::bind(address).unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    client
}

/// Receives until `count` datagrams have been answered by an echo in capitals.
fn echo(socket: &UdpSocket, count: usize) {
    socket.set_read_timeout(Some(WAIT)).unwrap();
    let (mut receiver, mut batch) =
        (Receiver::new(BATCH_SIZE, Calls::Many), Batch::new(BATCH_SIZE));
    let mut seen = 0;
    while seen < count {
        seen += receiver.receive(socket, WhenEmpty::Wait).unwrap();
        batch.clear();
        receiver.with_datagrams(|datagrams| {
            for (index, datagram) in datagrams.iter().enumerate() {
                let size = datagram.payload.len();
                batch.room(index)[..size].copy_from_slice(&datagram.payload.to_ascii_uppercase());
                batch.set_size(index, size);
            }
        });
        assert_eq!(receiver.send(socket, &mut batch), 0);
    }
}

#[test]
fn every_datagram_of_several_batches_is_answered_to_its_sender() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let server = udp::bind(host.parse().unwrap()).unwrap();
        let address = server.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| client_of(host)).collect();
        let count = BATCH_SIZE + 5;
        for number in 0..count {
            for (index, client) in clients.iter().enumerate() {
                client.send_to(format!("q{number} of {index}").as_bytes(), address).unwrap();
            }
        }
        echo(&server, count * clients.len());
        let mut bytes = [0; 64];
        for (index, client) in clients.iter().enumerate() {
            for number in 0..count {
                let (size, from) = client.recv_from(&mut bytes).unwrap();
                assert_eq!(from, address);
                assert_eq!(&bytes[..size], format!("Q{number} OF {index}").as_bytes());
            }
        }
    }
}

#[test]
fn a_datagram_beyond_the_buffer_arrives_empty_and_gets_no_answer() {
    let server = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.local_addr().unwrap();
    let client = client_of("127.0.0.1:0");
    client.send_to(&[b'a'; DATAGRAM_SIZE_MAX + 1], address).unwrap();
    client.send_to(&[b'b'; DATAGRAM_SIZE_MAX], address).unwrap();
    echo(&server, 2);
    let mut bytes = [0; DATAGRAM_SIZE_MAX + 1];
    let (size, _) = client.recv_from(&mut bytes).unwrap();
    assert_eq!(bytes[..size], [b'B'; DATAGRAM_SIZE_MAX]);
}

#[test]
fn on_the_wildcard_address_the_answer_leaves_from_the_address_that_was_asked() {
    let server = udp::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = server.local_addr().unwrap().port();
    for asked in ["127.0.0.2", "127.0.0.1", "127.1.2.3"] {
        let client = client_of("127.0.0.1:0");
        client.send_to(b"who", format!("{asked}:{port}")).unwrap();
        echo(&server, 1);
        let mut bytes = [0; 16];
        let (size, from) = client.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..size], from.to_string()), (&b"WHO"[..], format!("{asked}:{port}")));
    }
}

#[test]
fn a_late_answer_goes_to_its_sender_from_the_address_that_was_asked() {
    let server = udp::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    server.set_read_timeout(Some(WAIT)).unwrap();
    let port = server.local_addr().unwrap().port();
    let (mut receiver, mut batch) = (Receiver::new(4, Calls::Many), Batch::new(4));
    let (senders, received) = std::sync::mpsc::channel();
    let hosts = ["127.0.0.2", "127.0.0.1"];
    let clients = hosts.map(|asked| {
        let client = client_of("127.0.0.1:0");
        client.send_to(b"who", format!("{asked}:{port}")).unwrap();
        assert_eq!(receiver.receive(&server, WhenEmpty::Wait).unwrap(), 1);
        batch.clear();
        let senders = senders.clone();
        batch.answer_later(0, Box::new(move |sender| senders.send(sender).unwrap()));
        assert_eq!(receiver.send(&server, &mut batch), 0);
        client
    });
    drop(server);
    // Another order, and when the batches are long gone.
    let late: Vec<_> = hosts.iter().map(|_| received.recv().unwrap()).collect();
    for (sender, host) in late.into_iter().zip(hosts).rev() {
        assert!(sender.send(&mut host.as_bytes().to_vec()));
    }
    for (client, host) in clients.iter().zip(hosts) {
        let mut bytes = [0; 16];
        let (size, from) = client.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..size], from.to_string()), (host.as_bytes(), format!("{host}:{port}")));
    }
}

#[test]
fn the_ipv6_wildcard_answers_too() {
    let server = udp::bind("[::]:0".parse().unwrap()).unwrap();
    let port = server.local_addr().unwrap().port();
    let client = client_of("[::1]:0");
    client.send_to(b"who", format!("[::1]:{port}")).unwrap();
    echo(&server, 1);
    let mut bytes = [0; 16];
    let (size, from) = client.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..size], from.port()), (&b"WHO"[..], port));
}

#[test]
fn a_quiet_socket_reports_that_it_would_block() {
    let server = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = Receiver::new(4, Calls::Many).receive(&server, WhenEmpty::Wait).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}
