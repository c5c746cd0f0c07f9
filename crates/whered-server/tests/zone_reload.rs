//! Zones that change under a running server: by their files and by command.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use whered_dns::message::{Message, Query};
use whered_dns::{Rcode, RecordType};
use whered_server::{Config, Server};

const WAIT: Duration = Duration::from_secs(10);

fn zone(serial: u32, address: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns hostmaster {serial} 1 1 1 1\n@ NS ns\nns A 127.0.0.1\nhost A {address}\n"
    )
}

struct Running {
    server: Server,
    path: std::path::PathBuf,
}

fn start(name: &str) -> Running {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("example.zone");
    std::fs::write(&path, zone(1, "192.0.2.1")).unwrap();
    let text = "[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n[http]\nlisten = []\n\
                [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
                [[zone]]\nname = \"example.com\"\npath = \"example.zone\"\n";
    let config = Config::from_toml(text, &folder.join("whered.toml")).unwrap();
    Running { server: Server::start(config).unwrap(), path }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path.parent().unwrap());
    }
}

fn host(server: SocketAddr) -> Vec<u8> {
    let query = Query::new(&"host.example.com".parse().unwrap(), RecordType::A).build();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.send_to(&query, server).unwrap();
    let mut bytes = [0; 1500];
    let size = socket.recv(&mut bytes).unwrap();
    let message = Message::read(&bytes[..size]).unwrap();
    assert_eq!(message.rcode(), Rcode::NOERROR);
    message.answers[0].data.clone()
}

fn ask(server: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut bytes = [0; 1000];
    let size = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

#[test]
fn a_zone_is_read_anew_on_command_and_a_wrong_file_leaves_the_last_good_one() {
    let running = start("zone_command");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    assert_eq!(ask(resp, "ZONE.LIST"), "*1\r\n$11\r\nexample.com\r\n");
    std::fs::write(&running.path, zone(2, "192.0.2.2")).unwrap();
    assert_eq!(ask(resp, "ZONE.CHECK example.com"), "*2\r\n:2\r\n:4\r\n");
    assert_eq!(ask(resp, "ZONE.RELOAD Example.COM."), "*2\r\n:2\r\n:4\r\n");
    assert_eq!(host(dns), [192, 0, 2, 2]);
    std::fs::write(&running.path, "host A 1.2.3\n").unwrap();
    let refused = ask(resp, "ZONE.RELOAD example.com");
    assert!(refused.starts_with("-ERR ") && refused.contains("example.zone:1"), "{refused}");
    assert_eq!(host(dns), [192, 0, 2, 2]);
    assert_eq!(running.server.engine().zone_failures().len(), 1);
    assert_eq!(ask(resp, "ZONE.RELOAD other.example"), "-ERR no such zone 'other.example'\r\n");
}

#[test]
fn a_zone_follows_its_file() {
    let running = start("zone_file");
    let dns = running.server.dns_addresses()[0];
    assert_eq!(host(dns), [192, 0, 2, 1]);
    let begun = Instant::now();
    // Written again until it is seen, since the first look may come after the first writing.
    let mut serial = 2;
    while host(dns) != [192, 0, 2, 3] {
        if begun.elapsed() > Duration::from_secs(3) * (serial - 1) {
            std::fs::write(&running.path, zone(serial, "192.0.2.3")).unwrap();
            serial += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

/// The answer to A of one name: the rcode, and the data if there are any.
fn listed(message: &[u8]) -> (Rcode, Option<Vec<u8>>) {
    let message = Message::read(message).unwrap();
    (message.rcode(), message.answers.first().map(|record| record.data.clone()))
}

#[test]
fn a_blocklist_follows_its_set_by_udp_and_tcp() {
    let folder = std::env::temp_dir().join(format!("whered-blocklist-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("bl.zone");
    std::fs::write(&path, zone(1, "192.0.2.1")).unwrap();
    let text = "[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n[http]\nlisten = []\n\
                [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
                [[zone]]\nname = \"bl.example.com\"\npath = \"bl.zone\"\n\
                blocklist = { set = \"bad\" }\n";
    let config = Config::from_toml(text, &folder.join("whered.toml")).unwrap();
    let running = Running { server: Server::start(config).unwrap(), path };
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    let name = "77.2.0.192.bl.example.com".parse().unwrap();
    let query = Query::new(&name, RecordType::A).build();
    let by_udp = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.send_to(&query, dns).unwrap();
        let mut bytes = [0; 1500];
        let size = socket.recv(&mut bytes).unwrap();
        listed(&bytes[..size])
    };
    let by_tcp = || {
        let mut stream = TcpStream::connect(dns).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        stream.write_all(&framed).unwrap();
        let mut size = [0; 2];
        stream.read_exact(&mut size).unwrap();
        let mut bytes = vec![0; u16::from_be_bytes(size).into()];
        stream.read_exact(&mut bytes).unwrap();
        listed(&bytes)
    };
    assert_eq!((by_udp(), by_tcp()), ((Rcode::NXDOMAIN, None), (Rcode::NXDOMAIN, None)));
    assert_eq!(ask(resp, "CIDR.ADD bad 192.0.2.0/24"), ":1\r\n");
    let expected = (Rcode::NOERROR, Some(vec![127, 0, 0, 2]));
    assert_eq!((by_udp(), by_tcp()), (expected.clone(), expected));
}
