//! `DUMP` and `RESTORE` next to those of Debian's redis-server: each takes what the other gives,
//! and refuses the same payloads in the same words.
//!
//! Without redis-server the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod support;

#[path = "differential/peer.rs"]
mod peer;

use peer::Peer;
use support::Door;
use support::client::{Client, Reply, Value, request};

struct Servers {
    _door: Door,
    _peer: Peer,
    ours: Client,
    theirs: Client,
}

impl Servers {
    /// Both servers; `None` without redis-server.
    fn start() -> Option<Servers> {
        let Some(peer) = Peer::start() else {
            let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
            let text = "redis-server is not installed (package redis-server)";
            assert!(!required.split(',').any(|word| word == "peers"), "{text}");
            println!("skipped: {text}");
            return None;
        };
        let door = Door::in_memory();
        let (ours, theirs) = (door.client(), Client::connect(peer.address));
        Some(Servers { _door: door, _peer: peer, ours, theirs })
    }

    /// Sends a request to both, whose replies shall be equal.
    fn both(&mut self, words: &[&[u8]]) -> Reply {
        let (ours, theirs) = (ask(&mut self.ours, words), ask(&mut self.theirs, words));
        let shown: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert_eq!(ours.bytes, theirs.bytes, "{shown:?}\n  whered: {ours:?}\n  redis:  {theirs:?}");
        ours
    }
}

fn ask(client: &mut Client, words: &[&[u8]]) -> Reply {
    client.send(&request(words));
    client.reply()
}

fn dumped(client: &mut Client, key: &[u8]) -> Vec<u8> {
    match ask(client, &[b"DUMP", key]).value {
        Value::Bulk(payload) => payload,
        other => panic!("DUMP gives {other:?}"),
    }
}

/// Requests that make a key `k` of every form that Redis has for sorted sets and strings.
fn makers() -> Vec<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let mut makers: Vec<Vec<Vec<u8>>> = vec![
        words("SET k 12"),
        words("SET k -12345"),
        words("SET k 2147483648"),
        words("SET k text"),
        vec![b"SET".to_vec(), b"k".to_vec(), Vec::new()],
        vec![b"SET".to_vec(), b"k".to_vec(), vec![b'x'; 100_000]],
        vec![b"SET".to_vec(), b"k".to_vec(), (0..=255).cycle().take(70_000).collect()],
        words("ZADD k 1 a"),
        words("ZADD k -inf a 0.1 b 5e-324 c 1e300 d inf e -3 17 2 -9 3 70000"),
        words("GEOADD k 8.68 50.11 frankfurt 13.4 52.5 berlin -180 -85 corner"),
    ];
    for (count, long) in [(128, 60), (129, 1), (20, 65), (5000, 3)] {
        let mut zadd = words("ZADD k");
        for number in 0..count {
            zadd.push((f64::from(number) * 0.75 - 9.0).to_string().into_bytes());
            zadd.push(format!("{number:0long$}").into_bytes());
        }
        makers.push(zadd);
    }
    makers
}

/// All of a key, whatever it holds.
const READS: [&[&[u8]]; 4] = [
    &[b"TYPE", b"copy"],
    &[b"GET", b"copy"],
    &[b"ZRANGE", b"copy", b"0", b"-1", b"WITHSCORES"],
    &[b"PEXPIRETIME", b"copy"],
];

#[test]
fn each_server_restores_what_the_other_dumps() {
    let Some(mut servers) = Servers::start() else { return };
    for maker in makers() {
        let maker: Vec<&[u8]> = maker.iter().map(Vec::as_slice).collect();
        servers.both(&[b"FLUSHALL"]);
        servers.both(&maker);
        let ours = dumped(&mut servers.ours, b"k");
        let theirs = dumped(&mut servers.theirs, b"k");
        for payload in [&ours, &theirs] {
            let words: [&[u8]; 6] =
                [b"RESTORE", b"copy", b"33000000000000", payload, b"ABSTTL", b"REPLACE"];
            let reply = servers.both(&words);
            assert_eq!(reply.bytes, b"+OK\r\n");
            READS.iter().for_each(|words| drop(servers.both(words)));
        }
    }
}

#[test]
fn options_and_wrong_payloads_are_answered_as_by_redis() {
    let Some(mut servers) = Servers::start() else { return };
    servers.both(&[b"ZADD", b"k", b"1", b"a", b"2", b"b"]);
    let good = dumped(&mut servers.theirs, b"k");
    let restore = |servers: &mut Servers, key: &str, ttl: &str, payload: &[u8], options: &str| {
        let mut words = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
        words.extend(options.split_whitespace().map(str::as_bytes));
        servers.both(&words);
        servers.both(&[b"ZRANGE", key.as_bytes(), b"0", b"-1"]);
        servers.both(&[b"DBSIZE"]);
    };
    for options in [
        "",
        "REPLACE",
        "ABSTTL",
        "replace absttl",
        "IDLETIME 7",
        "FREQ 7",
        "FREQ 255",
        "FREQ 256",
        "FREQ -1",
        "IDLETIME -1",
        "IDLETIME x",
        "IDLETIME",
        "FREQ",
        "IDLETIME 1 FREQ 1",
        "FREQ 1 IDLETIME 1",
        "IDLETIME 1 IDLETIME 2 REPLACE",
        "NOSUCH",
        "FREQ x",
    ] {
        for (key, ttl) in [("k", "0"), ("new", "0"), ("k", "x"), ("new", "-1"), ("new", "x")] {
            restore(&mut servers, key, ttl, &good, options);
        }
        servers.both(&[b"DEL", b"new"]);
    }
    // A time that is over: the key is not made, and one that is to be replaced is removed.
    restore(&mut servers, "new", "1", &good, "ABSTTL");
    restore(&mut servers, "k", "1", &good, "ABSTTL");
    restore(&mut servers, "k", "1", &good, "ABSTTL REPLACE");
    servers.both(&[b"SET", b"text", b"v"]);
    restore(&mut servers, "text", "100000", &good, "REPLACE");
    for words in [&[&b"DUMP"[..]][..], &[b"DUMP", b"missing"], &[b"RESTORE", b"k", b"0"]] {
        servers.both(words);
    }
    // A payload that is cut, longer, damaged, or of a later version.
    for end in 0..good.len() {
        restore(&mut servers, "cut", "0", &good[..end], "");
        let mut damaged = good.clone();
        damaged[end] ^= 0x41;
        restore(&mut servers, "damaged", "0", &damaged, "");
    }
    restore(&mut servers, "long", "0", &[&good[..], b"x"].concat(), "");
    let mut unsummed = good.clone();
    let sum = unsummed.len() - 8;
    unsummed[sum..].fill(0);
    restore(&mut servers, "unsummed", "0", &unsummed, "");
}

/// A payload of bytes before its version, with a right checksum.
fn summed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    // CRC-64/REDIS, a bit at a time.
    let sum = payload.iter().fold(0_u64, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    });
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

#[test]
fn payloads_with_a_right_checksum_and_wrong_values_are_refused_as_by_redis() {
    let Some(mut servers) = Servers::start() else { return };
    let nan = f64::NAN.to_le_bytes();
    let bodies: [&[u8]; 8] = [
        b"",
        b"\x05",
        b"\x05\x00",
        b"\x05\x02\x01a\0\0\0\0\0\0\xf0\x3f",
        // One member twice.
        b"\x05\x02\x01a\0\0\0\0\0\0\xf0\x3f\x01a\0\0\0\0\0\0\xf0\x3f",
        &[&b"\x05\x01\x01a"[..], &nan].concat(),
        // A type that nobody knows, and a length that is only claimed.
        b"\x63\x01a",
        b"\x05\x80\xff\xff\xff\xff\x01a",
    ];
    for body in bodies {
        let reply = servers.both(&[b"RESTORE", b"k", b"0", &summed(body, 10)]);
        assert_eq!(reply.bytes, b"-ERR Bad data format\r\n", "{}", body.escape_ascii());
    }
    let reply = servers.both(&[b"RESTORE", b"k", b"0", &summed(b"\x00\x01a", 999)]);
    assert!(reply.bytes.starts_with(b"-ERR DUMP payload version"), "{reply:?}");
    assert_eq!(servers.both(&[b"DBSIZE"]).value, Value::Integer(0));
}

#[test]
fn other_types_are_refused_by_their_name() {
    let Some(mut servers) = Servers::start() else { return };
    for (maker, name) in [
        ("RPUSH k a", "list"),
        ("SADD k a", "set"),
        ("HSET k f v", "hash"),
        ("XADD k * f v", "stream"),
    ] {
        ask(&mut servers.theirs, &[b"DEL", b"k"]);
        let words: Vec<&[u8]> = maker.split(' ').map(str::as_bytes).collect();
        ask(&mut servers.theirs, &words);
        let payload = dumped(&mut servers.theirs, b"k");
        let reply = ask(&mut servers.ours, &[b"RESTORE", b"k", b"0", &payload]);
        let expected = format!("-ERR RESTORE of a {name} is not supported");
        assert!(reply.bytes.starts_with(expected.as_bytes()), "{reply:?}");
    }
}

#[test]
fn a_value_beyond_the_output_limit_closes_the_connection_and_takes_no_memory() {
    let door = Door::in_memory();
    let mut client = door.client();
    let long = vec![b'x'; 40_000];
    ask(&mut client, &[b"ZADD", b"k", b"1", &long]);
    ask(&mut client, &[b"CONFIG", b"SET", b"client-output-buffer-limit", b"normal 20000 0 0"]);
    client.send(&request(&[b"DUMP", b"k"]));
    assert!(client.rest().is_empty());
    assert_eq!(ask(&mut door.client(), &[b"EXISTS", b"k"]).value, Value::Integer(1));
}
