//! `[dns.dnstap]`: what a listener gets, as BIND's `dnstap-read` reads it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use whered_dns::RecordType;
use whered_dns::message::Query;
use whered_server::{Config, Server};

const WAIT: Duration = Duration::from_secs(15);
const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dnstap-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.zone"), "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n")
        .unwrap();
    folder
}

fn control(kind: u8) -> Vec<u8> {
    let length = 12 + CONTENT.len() as u8;
    let head = [0, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, kind, 0, 0, 0, 1, 0, 0, 0, length - 12];
    [&head, CONTENT].concat()
}

/// Takes a server's connection to where its frames begin.
fn accept(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    for (expected, answer) in [(4, Some(1)), (2, None)] {
        let mut read = vec![0; control(expected).len()];
        stream.read_exact(&mut read).unwrap();
        assert_eq!(read, control(expected));
        if let Some(kind) = answer {
            stream.write_all(&control(kind)).unwrap();
        }
    }
    stream
}

fn start(folder: &Path, more: &str) -> Server {
    let text = format!(
        "[dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\nserver_id = \"edge-1\"\n\
         [dns.dnstap]\nsocket = \"tap.sock\"\n{more}\
         [[zone]]\nname = \"example.com\"\npath = \"a.zone\"\n"
    );
    Server::start(Config::from_toml(&text, &folder.join("whered.toml")).unwrap()).unwrap()
}

fn query(owner: &str) -> Vec<u8> {
    Query::new(&owner.parse().unwrap(), RecordType::A).id(7).build()
}

fn ask_by_udp(server: SocketAddr, owner: &str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.send_to(&query(owner), server).unwrap();
    socket.recv(&mut [0; 512]).unwrap();
    socket.local_addr().unwrap()
}

fn ask_by_tcp(server: SocketAddr, owner: &str) -> SocketAddr {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let query = query(owner);
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    stream.read_exact(&mut vec![0; u16::from_be_bytes(length).into()]).unwrap();
    stream.local_addr().unwrap()
}

#[test]
fn queries_and_answers_are_read_by_dnstap_read() {
    let folder = folder("read");
    let listener = UnixListener::bind(folder.join("tap.sock")).unwrap();
    let server = start(&folder, "");
    let mut stream = accept(&listener);
    let address = server.dns_addresses()[0];
    let udp = ask_by_udp(address, "ns.example.com");
    let tcp = ask_by_tcp(address, "nobody.example.com");
    let stopping = std::thread::spawn(move || server.stop().unwrap());
    // The rest of the stream ends with STOP, which is answered.
    let mut frames = Vec::new();
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let size = u32::from_be_bytes(length);
        if size == 0 {
            break;
        }
        let mut frame = vec![0; size as usize];
        stream.read_exact(&mut frame).unwrap();
        frames.push([&length[..], &frame].concat());
    }
    stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5]).unwrap();
    stopping.join().unwrap();
    assert_eq!(frames.len(), 4);
    let stop = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3];
    let file = [&control(2)[..], &frames.concat(), &stop].concat();
    fs::write(folder.join("frames"), file).unwrap();
    let Ok(done) = Command::new("dnstap-read").arg("-p").arg(folder.join("frames")).output() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|what| what == "peers"), "dnstap-read is missing");
        eprintln!("skipped: dnstap-read is missing");
        return;
    };
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("/IN/A")).collect();
    assert_eq!(lines.len(), 4, "{said}");
    for ((line, kind), (client, transport, owner)) in
        lines.iter().zip(["AQ", "AR", "AQ", "AR"]).zip([
            (udp, "UDP", "ns.example.com"),
            (udp, "UDP", "ns.example.com"),
            (tcp, "TCP", "nobody.example.com"),
            (tcp, "TCP", "nobody.example.com"),
        ])
    {
        for part in [kind, &client.to_string(), transport, owner] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
    assert!(said.contains("NXDOMAIN") && said.contains("192.0.2.1"), "{said}");
}

#[test]
fn a_server_without_a_listener_answers_and_stops() {
    let folder = folder("nobody");
    let server = start(&folder, "messages = \"queries\"\n");
    let address = server.dns_addresses()[0];
    for _ in 0..100 {
        ask_by_udp(address, "ns.example.com");
    }
    server.stop().unwrap();
}
