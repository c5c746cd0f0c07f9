//! Any bytes sent to the RESP listener, over a socket, with an engine in memory behind it: the
//! listener answers with whole replies and closes, and no thread panics or hangs.
//!
//! Not for: the parser alone (`resp`); inputs that are right; the tests have those.
//!
//! Each input meets a new engine and a new listener, so that a finding depends on nothing before
//! it. The client closes its sending side; the listener then answers what is complete, and closes.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use whered_engine::geo::Place;
use whered_engine::mmdb::{Value, Writer, WriterOptions};
use whered_engine::{DatabaseSource, Engine, EngineOptions, PoolSource, Setup, Site};
use whered_server::resp::{RespListener, RespOptions};

/// How long the listener may be silent before it counts as hanging; replies take microseconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// A few keys that commands find at once.
const START: &[u8] = b"GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 0 0 a\r\n\
CIDR.ADD s VALUE v 192.0.2.0/24 2001:db8::/32\r\n";

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("whered-fuzz-{}.mmdb", std::process::id()));
    std::fs::write(&path, database()).expect("a folder for temporary files");
    let site = |name: &str, longitude: f64, addresses: &[&str]| {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
        Site::new(name, Place::new(longitude, 50.0).ok(), addresses.collect())
    };
    let sites = vec![site("fra", 8.0, &["192.0.2.1", "::1"]), site("nyc", -74.0, &["192.0.2.2"])];
    let pool = PoolSource::new("p", Vec::new(), sites);
    Setup { databases: vec![DatabaseSource::new("d", path)], pools: vec![pool], ..Setup::default() }
});

fn database() -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default()).expect("the usual options");
    let map = |pairs: Vec<(&str, Value)>| {
        Value::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let location = map(vec![("latitude", Value::Double(1.5)), ("longitude", Value::Double(2.0))]);
    let record = map(vec![("location", location), ("a", Value::Array(vec![Value::Uint32(7)]))]);
    writer.insert("192.0.2.0/24".parse().expect("a prefix"), record).expect("a small record");
    writer.finish().expect("a small database")
}

fuzz_target!(|input: &[u8]| {
    let options = EngineOptions { setup: SETUP.clone(), ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("the same setup as always");
    // Small limits, so that small inputs reach them.
    let options = RespOptions {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        threads: Some(1),
        output_buffer_limit_bytes: 64 << 10,
        query_buffer_limit_bytes: 64 << 10,
        max_clients: 8,
        ..RespOptions::default()
    };
    let listener = RespListener::start(engine, options).expect("a free port of loopback");
    let mut client = TcpStream::connect(listener.addresses()[0]).expect("the listener is open");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.set_nodelay(true).expect("a socket");
    // The listener may close early, at QUIT or a protocol error.
    let _ = client.write_all(&[START, input].concat());
    let _ = client.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    let was_reset = match client.read_to_end(&mut replies) {
        Ok(_) => false,
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => panic!("the listener hangs"),
            _ => true,
        },
    };
    let mut rest = &replies[..];
    while !rest.is_empty() {
        match reply_length(rest, 0) {
            Some(length) => rest = &rest[length..],
            // A client that takes too little or is cut off has half a reply.
            None => {
                let is_cut = was_reset || replies.len() >= 32 << 10;
                assert!(is_cut, "no whole reply: {}", rest.escape_ascii());
                break;
            }
        }
    }
    listener.stop();
});

/// The length of the reply (RESP2 or RESP3) that begins here; none when it is not whole.
fn reply_length(bytes: &[u8], depth: usize) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let number = || std::str::from_utf8(&bytes[1..line]).ok()?.parse::<i64>().ok();
    let after = line + 2;
    assert!(depth < 16, "replies are flat");
    match bytes[0] {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Some(after),
        b'$' | b'=' | b'!' => match number().expect("a length") {
            -1 => Some(after),
            length => {
                let end = after + usize::try_from(length).expect("a length");
                let tail = bytes.get(end..end + 2)?;
                assert_eq!(tail, b"\r\n", "a bulk string ends where it says");
                Some(end + 2)
            }
        },
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let count = number().expect("a count");
            let count = if kind == b'%' { count * 2 } else { count };
            let mut at = after;
            for _ in 0..count.max(0) {
                at += reply_length(&bytes[at..], depth + 1)?;
            }
            Some(at)
        }
        other => panic!("a reply of kind {:?}", char::from(other)),
    }
}
