//! The DNS door by its wire: real sockets against a server in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use whered_dns::message::{Message, Query};
use whered_dns::{Rcode, RecordType};
use whered_server::Server;

const WAIT: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 3;
const NOERROR: Rcode = Rcode::NOERROR;

fn query(name: &str, record_type: RecordType) -> Query {
    Query::new(&name.parse().unwrap(), record_type)
}

fn client(server: SocketAddr) -> UdpSocket {
    let local = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.connect(server).unwrap();
    socket
}

/// Asks by UDP, and again when a datagram was lost, as DNS clients do.
fn ask(server: SocketAddr, query: &Query) -> Message {
    let socket = client(server);
    let mut bytes = [0; 4096];
    for _ in 0..ATTEMPTS {
        socket.send(&query.build()).unwrap();
        if let Ok(size) = socket.recv(&mut bytes) {
            return Message::read(&bytes[..size]).unwrap();
        }
    }
    panic!("no answer");
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message].concat()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

fn read_framed(stream: &mut TcpStream) -> Message {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    Message::read(&bytes).unwrap()
}

fn addresses(message: &Message) -> Vec<IpAddr> {
    let address = |data: &Vec<u8>| match data.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(&data[..]).unwrap()),
        _ => IpAddr::from(<[u8; 16]>::try_from(&data[..]).unwrap()),
    };
    message.answers.iter().map(|record| address(&record.data)).collect()
}

fn stop(server: Server) {
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_client_subnet_is_answered_with_the_nearest_site_and_an_exact_scope() {
    let server = world::start("dns_subnet");
    let nearest = [
        ("192.0.2.1", 32, "203.0.113.1", 25),
        ("192.0.2.200", 32, "203.0.113.2", 25),
        ("192.0.2.200", 26, "203.0.113.2", 25),
    ];
    for door in server.dns_addresses() {
        for (client, length_bits, site, scope) in nearest {
            let query = query("www.example.com", RecordType::A);
            let reply = ask(*door, &query.client_subnet(client.parse().unwrap(), length_bits));
            assert_eq!(reply.rcode(), NOERROR);
            assert_eq!(addresses(&reply), [site.parse::<IpAddr>().unwrap()], "{client}");
            assert_eq!(reply.answers[0].ttl_seconds, 30);
            let echoed = reply.client_subnet().unwrap();
            assert_eq!(echoed.source_length_bits, length_bits);
            assert_eq!(echoed.scope_length_bits, scope, "{client}/{length_bits}");
        }
    }
    stop(server);
}

#[test]
fn without_a_client_subnet_the_source_address_decides() {
    let server = world::start("dns_source");
    let door = server.dns_addresses()[0];
    let reply = ask(door, &query("www.example.com", RecordType::A));
    assert_eq!(addresses(&reply), ["203.0.113.4".parse::<IpAddr>().unwrap()], "loopback is Tokyo");
    let mut stream = connect(door);
    stream.write_all(&framed(&query("www.example.com", RecordType::A).build())).unwrap();
    assert_eq!(addresses(&read_framed(&mut stream)), addresses(&reply));
    stop(server);
}

#[test]
fn a_moved_site_changes_the_next_answer() {
    let server = world::start("dns_moved");
    let door = server.dns_addresses()[0];
    let question =
        query("www.example.com", RecordType::A).client_subnet("192.0.2.1".parse().unwrap(), 32);
    assert_eq!(addresses(&ask(door, &question)), ["203.0.113.1".parse::<IpAddr>().unwrap()]);
    server.engine().override_site("www", "fra", whered_engine::HealthOverride::Down).unwrap();
    assert_eq!(addresses(&ask(door, &question)), ["203.0.113.2".parse::<IpAddr>().unwrap()]);
    stop(server);
}

#[test]
fn names_and_types_beyond_the_pool_are_answered_from_the_zone() {
    let server = world::start("dns_zone");
    let door = server.dns_addresses()[0];
    let plain = ask(door, &query("plain.example.com", RecordType::A));
    assert_eq!(addresses(&plain), ["203.0.113.80".parse::<IpAddr>().unwrap()]);
    assert!(plain.is_authoritative());
    assert_eq!(ask(door, &query("none.example.com", RecordType::A)).rcode(), Rcode::NXDOMAIN);
    assert_eq!(ask(door, &query("example.org", RecordType::A)).rcode(), Rcode::REFUSED);
    let reply = ask(door, &query("plain.example.com", RecordType::AAAA));
    assert_eq!((reply.rcode(), reply.answers.len()), (NOERROR, 0));
    stop(server);
}

#[test]
fn what_does_not_fit_a_datagram_is_truncated_and_whole_by_tcp() {
    let server = world::start("dns_truncated");
    let door = server.dns_addresses()[0];
    let question = query("many.example.com", RecordType::A).edns(4096);
    let short = ask(door, &question);
    assert!(short.is_truncated());
    let mut stream = connect(door);
    stream.write_all(&framed(&question.build())).unwrap();
    let whole = read_framed(&mut stream);
    assert!(!whole.is_truncated());
    assert_eq!(whole.answers.len(), 120);
    stop(server);
}

#[test]
fn pipelined_queries_on_one_connection_are_answered_in_order() {
    let server = world::start("dns_pipelined");
    let mut stream = connect(server.dns_addresses()[0]);
    let bytes: Vec<u8> = (0..500)
        .flat_map(|id| framed(&query("plain.example.com", RecordType::A).id(id).build()))
        .collect();
    stream.write_all(&bytes).unwrap();
    for id in 0..500 {
        assert_eq!(read_framed(&mut stream).id, id);
    }
    stop(server);
}

#[test]
fn a_query_that_comes_byte_by_byte_is_answered() {
    let server = world::start("dns_bytes");
    let mut stream = connect(server.dns_addresses()[0]);
    stream.set_nodelay(true).unwrap();
    for byte in framed(&query("plain.example.com", RecordType::A).build()) {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(read_framed(&mut stream).answers.len(), 1);
    stop(server);
}

#[test]
fn garbage_is_survived_by_udp_and_tcp() {
    let server = world::start("dns_garbage");
    let door = server.dns_addresses()[0];
    let good = query("plain.example.com", RecordType::A)
        .client_subnet("192.0.2.1".parse().unwrap(), 24)
        .build();
    let socket = client(door);
    let mut seed = 7_u64;
    let mut random = || {
        // Knuth's MMIX constants.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for round in 0..2000 {
        let mut bytes = good.clone();
        match round % 3 {
            0 => bytes.truncate(random() % good.len()),
            1 => bytes[random() % good.len()] = random() as u8,
            _ => bytes = (0..random() % 600).map(|_| random() as u8).collect(),
        }
        socket.send(&bytes).unwrap();
    }
    socket.send(&[0; 5000]).unwrap();
    let mut stream = connect(door);
    stream.write_all(&framed(&[0xff; 700])).unwrap();
    stream.write_all(&framed(&[])).unwrap();
    assert_eq!(ask(door, &query("plain.example.com", RecordType::A)).answers.len(), 1);
    let mut fresh = connect(door);
    fresh.write_all(&framed(&query("plain.example.com", RecordType::A).build())).unwrap();
    assert_eq!(read_framed(&mut fresh).answers.len(), 1);
    stop(server);
}

#[test]
fn a_burst_from_many_clients_is_answered_completely() {
    let server = world::start("dns_burst");
    let door = server.dns_addresses()[0];
    let clients: Vec<_> = (0..8).map(|_| client(door)).collect();
    let mut bytes = [0; 4096];
    // So few at once that the smallest receive buffer of a system holds them.
    for window in (0..100_u16).collect::<Vec<_>>().chunks(10) {
        for id in window {
            for client in &clients {
                let question = query("www.example.com", RecordType::A).id(*id);
                client.send(&question.build()).unwrap();
            }
        }
        for client in &clients {
            let mut seen: Vec<_> = (0..window.len())
                .map(|_| {
                    let size = client.recv(&mut bytes).unwrap();
                    Message::read(&bytes[..size]).unwrap().id
                })
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, window);
        }
    }
    stop(server);
}

#[test]
fn a_stop_frees_the_port_and_a_second_server_on_it_is_refused_before() {
    let server = world::start("dns_stop");
    let door = server.dns_addresses()[0];
    let mut config = world::config(&world::folder("dns_stop_second"), "");
    config.dns.listen = vec![door];
    let refusal = whered_server::Server::start(config.clone()).err().unwrap().to_string();
    assert!(
        refusal.contains(&format!("edge.toml:8:11: DNS cannot listen on {door}: ")),
        "{refusal}"
    );
    let _open = connect(door);
    stop(server);
    let server = Server::start(config).unwrap();
    assert_eq!(server.dns_addresses(), [door]);
    let reply = ask(door, &query("plain.example.com", RecordType::A));
    assert_eq!(addresses(&reply), [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 80))]);
    stop(server);
}

#[test]
fn a_reload_serves_the_new_zone_and_a_bad_one_leaves_the_old() {
    let folder = world::folder("dns_reload");
    let config = world::config(&folder, "");
    let server = Server::start(config.clone()).unwrap();
    let door = server.dns_addresses()[0];
    let zone = folder.join("example.com.zone");
    let text = std::fs::read_to_string(&zone).unwrap();
    std::fs::write(&zone, text.replace("203.0.113.80", "203.0.113.81")).unwrap();
    let line = server.reload(config.clone()).unwrap();
    assert_eq!(line, "generation 2 with 1 databases, 1 zones, 1 pools");
    let plain = query("plain.example.com", RecordType::A);
    assert_eq!(addresses(&ask(door, &plain)), ["203.0.113.81".parse::<IpAddr>().unwrap()]);
    std::fs::write(&zone, "plain A not-an-address\n").unwrap();
    let refusal = server.reload(config.clone()).unwrap_err().to_string();
    assert!(refusal.contains("example.com.zone") && !refusal.contains('\n'), "{refusal}");
    assert_eq!(addresses(&ask(door, &plain)), ["203.0.113.81".parse::<IpAddr>().unwrap()]);
    std::fs::write(&zone, text).unwrap();
    let mut changed = config;
    changed.dns.listen.clear();
    let line = server.reload(changed).unwrap();
    assert!(line.ends_with("; dns.listen stay as they were until a restart"), "{line}");
    stop(server);
}
