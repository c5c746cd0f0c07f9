//! UPDATE through the server while questions are answered, and NOTIFY to many at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod transfer_peers;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use transfer_peers::{ORIGIN, Ours, WAIT, bind_both, folder, free_address, key, until};
use whered_dns::message::{Message, Query};
use whered_dns::{Name, Rcode, RecordType};

/// So many names that a change which makes the whole zone anew takes a while.
const NAMES: usize = 30_000;

/// Our server of a large zone that the key may change, and of one that it may not.
fn start(name: &str) -> Ours {
    let at = folder(name);
    let head = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let mut text = head.to_owned();
    for number in 0..NAMES {
        writeln!(text, "h{number} A 192.0.2.7").unwrap();
    }
    fs::write(at.join("large.zone"), text).unwrap();
    fs::write(at.join("other.zone"), head).unwrap();
    let more = format!(
        "[[zone]]\nname = \"{ORIGIN}\"\npath = \"large.zone\"\nreload = \"off\"\n\
         [[zone.update]]\nkey = \"transfer\"\n\
         [[zone]]\nname = \"other.example\"\npath = \"other.zone\"\n"
    );
    Ours::start(at, free_address(), &more)
}

/// An UPDATE that adds a DNAME, which makes the whole zone anew.
fn update(zone: &str, id: u16, is_signed: bool) -> Vec<u8> {
    let name = |text: &str| text.parse::<Name>().unwrap().as_wire().to_vec();
    let mut message = [&id.to_be_bytes()[..], &[0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0]].concat();
    message.extend_from_slice(&[&name(zone)[..], &[0, 6, 0, 1]].concat());
    message.extend_from_slice(&name(&format!("d{id}.{zone}")));
    let target = name("elsewhere.example");
    message.extend_from_slice(&[0, 39, 0, 1, 0, 0, 0, 60, 0, target.len() as u8]);
    message.extend_from_slice(&target);
    if is_signed {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        key().sign_query(&mut message, now.as_secs());
    }
    message
}

fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Message {
    let mut bytes = [0; 2000];
    let size = socket.recv(&mut bytes).unwrap();
    Message::read(&bytes[..size]).unwrap()
}

fn question() -> Vec<u8> {
    Query::new(&"h7.example.com".parse().unwrap(), RecordType::A).build()
}

#[test]
fn questions_by_udp_are_answered_while_updates_are_made() {
    const UPDATES: u16 = 6;
    let ours = start("updates-udp");
    let (updating, asking) = (socket(ours.address), socket(ours.address));
    for id in 0..UPDATES {
        updating.send(&update(ORIGIN, id, true)).unwrap();
    }
    asking.send(&question()).unwrap();
    assert_eq!(receive(&asking).answers.len(), 1);
    updating.set_nonblocking(true).unwrap();
    let mut answered = Vec::new();
    while let Ok(size) = updating.recv(&mut [0; 2000]) {
        answered.push(size);
    }
    assert!(answered.len() < usize::from(UPDATES), "the question waited for all updates");
    updating.set_nonblocking(false).unwrap();
    let mut ids = Vec::new();
    for _ in answered.len()..UPDATES.into() {
        let reply = receive(&updating);
        assert_eq!(reply.rcode(), Rcode::NOERROR);
        let signatures = reply.additionals.iter().filter(|record| record.record_type.0 == 250);
        assert_eq!(signatures.count(), 1, "the answer is signed");
        ids.push(reply.id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), usize::from(UPDATES) - answered.len(), "each has its own answer");
    asking.send(&Query::new(&"x.d5.example.com".parse().unwrap(), RecordType::A).build()).unwrap();
    assert!(!receive(&asking).answers.is_empty(), "the last one is served");
}

#[test]
fn questions_by_tcp_are_answered_while_updates_are_made() {
    let ours = start("updates-tcp");
    let connect = |message: &[u8]| {
        let mut stream = TcpStream::connect(ours.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], message].concat()).unwrap();
        stream
    };
    let read = |mut stream: &TcpStream| {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message).unwrap();
        Message::read(&message).unwrap()
    };
    let updating: Vec<TcpStream> = (0..6).map(|id| connect(&update(ORIGIN, id, true))).collect();
    assert_eq!(read(&connect(&question())).answers.len(), 1);
    let is_answered = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let is_there = stream.peek(&mut [0; 2]).is_ok();
        stream.set_nonblocking(false).unwrap();
        is_there
    };
    let answered = updating.iter().filter(is_answered).count();
    assert!(answered < updating.len(), "the question waited for all updates");
    for (stream, id) in updating.iter().zip(0..) {
        let reply = read(stream);
        assert_eq!((reply.rcode(), reply.id), (Rcode::NOERROR, id));
    }
}

#[test]
fn a_flood_of_updates_is_bounded_and_those_without_a_right_are_refused_at_once() {
    let ours = start("updates-flood");
    let busy = || {
        let metrics = ours.metrics();
        let line = "whered_zone_updates_total{outcome=\"busy\"} ";
        let count = metrics.split_once(line).unwrap().1.split_once('\n').unwrap().0;
        count.parse::<u64>().unwrap()
    };
    assert_eq!(busy(), 0);
    let (updating, asking) = (socket(ours.address), socket(ours.address));
    let mut id = 0;
    until("there is no room for one more", || {
        for _ in 0..100 {
            updating.send(&update(ORIGIN, id, true)).unwrap();
            id += 1;
        }
        busy() > 0
    });
    // While they are made, questions are answered, and nobody else waits behind them.
    asking.send(&question()).unwrap();
    assert_eq!(receive(&asking).answers.len(), 1);
    for (zone, is_signed, expected) in [
        (ORIGIN, false, Rcode::REFUSED),
        ("other.example", true, Rcode::REFUSED),
        ("not.served.example", true, Rcode::NOTAUTH),
    ] {
        asking.send(&update(zone, 7, is_signed)).unwrap();
        assert_eq!(receive(&asking).rcode(), expected, "{zone}");
    }
    until("there is room again", || {
        asking.send(&update(ORIGIN, 60_000, true)).unwrap();
        receive(&asking).rcode() == Rcode::NOERROR
    });
}

/// How many sockets this process has.
fn sockets() -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn thousands_of_zones_tell_others_of_changes_with_a_bounded_number_of_sockets() {
    const ZONES: usize = 1000;
    let (silent, _listener) = bind_both();
    silent.set_read_timeout(Some(WAIT)).unwrap();
    let at = folder("notify-many");
    fs::write(at.join("zone"), "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n").unwrap();
    let before = sockets();
    let remote = silent.local_addr().unwrap();
    let zones: String = (0..ZONES)
        .map(|number| {
            format!(
                "[[zone]]\nname = \"z{number}.example\"\npath = \"zone\"\nreload = \"off\"\n\
                 notify = [\"{remote}\"]\n"
            )
        })
        .collect();
    let _ours = Ours::start(at, free_address(), &zones);
    let mut most = 0;
    // Nobody answers, so that each is told of twice and more.
    for _ in 0..ZONES / 2 {
        silent.recv(&mut [0; 2000]).unwrap();
        most = most.max(sockets());
    }
    // Other tests have a few of their own.
    assert!(most - before < 400, "{most} sockets, {before} before");
}
