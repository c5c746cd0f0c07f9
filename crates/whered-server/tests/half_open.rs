//! Clients that open connections and send no whole request keep nobody out of HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "nobody tells when a connection was accepted")]

mod world;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use whered_server::{Config, Server};
use world::http::get;

/// As many connections as may be.
const LIMIT: usize = 48;

fn start(name: &str) -> Server {
    let folder = world::folder(name);
    let text = format!(
        "data_dir = \"data\"\n[resp]\nlisten = []\n[dns]\nlisten = []\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\nmax_connections = {LIMIT}\n\
         [[feed]]\nname = \"lines\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = {{ table = \"lines\" }}\n"
    );
    Server::start(Config::from_toml(&text, &folder.join("edge.toml")).unwrap()).unwrap()
}

fn open(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

fn answers(server: &Server) {
    let begun = Instant::now();
    assert_eq!(get(server, "/healthz").status, 200);
    assert_eq!(get(server, "/metrics").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn half_open_requests_as_many_as_may_be_leave_health_answered() {
    let server = start("half_open");
    let upload = b"POST /v1/feeds/lines HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{";
    for half in [&b""[..], b"GET /hea", b"GET /healthz HTTP/1.1\r\nHost: loc", upload] {
        let held: Vec<TcpStream> = (0..2 * LIMIT).map(|_| open(&server, half)).collect();
        std::thread::sleep(Duration::from_millis(100));
        (0..3).for_each(|_| answers(&server));
        drop(held);
    }
    server.stop().unwrap();
}

#[test]
fn idle_clients_give_way_the_longest_idle_first() {
    let server = start("half_open_idle");
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut idle: Vec<TcpStream> = (0..LIMIT).map(|_| open(&server, request)).collect();
    let mut bytes = [0; 1024];
    for stream in &mut idle {
        assert!(stream.read(&mut bytes).unwrap() > 0);
        std::thread::sleep(Duration::from_millis(2));
    }
    answers(&server);
    let mut last = idle.pop().unwrap();
    last.write_all(request).unwrap();
    assert!(last.read(&mut bytes).unwrap() > 0, "the latest one is served on");
    assert_eq!(idle[0].read(&mut bytes).unwrap_or(0), 0, "the first one has given way");
    server.stop().unwrap();
}
