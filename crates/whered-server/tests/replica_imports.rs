//! `[[replica]]` of a primary that takes over slots, played by the test in the words of Valkey 9.1:
//! keys of those slots are not seen before all of them are there.
//!
//! Source: `cluster_migrateslots.c` of Valkey 9.1.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod replica {
    pub(crate) mod primary;
}
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use replica::primary::Follower;
use support::client::{Client, request};
use whered_engine::key_slot;
use whered_replication::rdb::{NamedSlots, Writer};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A primary whose every word is the test's.
struct Script {
    listener: TcpListener,
    /// The offset of the last byte that was sent.
    offset: usize,
}

/// The connection to a replica.
struct Link<'a> {
    script: &'a mut Script,
    stream: TcpStream,
}

impl Script {
    fn new() -> Script {
        Script { listener: TcpListener::bind("127.0.0.1:0").expect("a free port"), offset: 100 }
    }

    fn section(&self) -> String {
        let address = self.listener.local_addr().expect("it listens");
        format!("[[replica]]\nof = \"redis://{address}\"\nmatch = [\"fleet:*\"]\n")
    }

    /// Takes connections until one comes to `PSYNC`, whose words it gives.
    fn accept(&mut self) -> (Link<'_>, Vec<String>) {
        loop {
            let (mut stream, _) = self.listener.accept().expect("a replica comes");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it may be set");
            let mut input = BufReader::new(stream.try_clone().expect("there are descriptors"));
            // A replica that was stopped meanwhile says nothing more.
            while let Some(words) = command(&mut input) {
                if words[0].eq_ignore_ascii_case("psync") {
                    // Acknowledgements are of no interest.
                    std::thread::spawn(move || std::io::copy(&mut input, &mut std::io::sink()));
                    return (Link { script: self, stream }, words);
                }
                let is_ping = words[0].eq_ignore_ascii_case("ping");
                let reply = if is_ping { "+PONG\r\n" } else { "+OK\r\n" };
                if stream.write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        }
    }

    /// A connection whose replica goes on where it was.
    fn accept_again(&mut self) -> Link<'_> {
        let next = self.offset + 1;
        let (mut link, words) = self.accept();
        assert_eq!(words, ["PSYNC", ID, &next.to_string()], "it goes on where it was");
        link.write(b"+CONTINUE\r\n");
        link
    }
}

impl Link<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it reads");
    }

    fn send_dump(&mut self, dump: &[u8]) {
        let head = format!("+FULLRESYNC {ID} {}\r\n${}\r\n", self.script.offset, dump.len());
        self.write(&[head.as_bytes(), dump].concat());
    }

    fn send(&mut self, commands: &[&str]) {
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let bytes = request(&words);
            self.script.offset += bytes.len();
            self.write(&bytes);
        }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        // All that was written arrives.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

fn command(input: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |input: &mut dyn BufRead| {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let count = number(input)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(input)? + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

/// A dump with these keys, each with one member, of a primary that imports these slots.
fn dump(keys: &[&str], imports: &[NamedSlots<'_>]) -> Vec<u8> {
    let mut writer = Writer::with_imports(Vec::new(), 0, 0, imports).expect("it takes all");
    for key in keys {
        writer.sorted_set(key.as_bytes(), 1, None).expect("it takes all");
        writer.member(b"m", 1.0).expect("it takes all");
    }
    writer.end().expect("it takes all")
}

fn establish(name: &str, keys: &[&str]) -> String {
    let slots = keys.iter().map(|key| key_slot(key.as_bytes()));
    let ranges: Vec<String> = slots.map(|slot| format!("{slot} {slot}")).collect();
    let source = "f".repeat(40);
    let ranges = ranges.join(" ");
    format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {source} NAME {name} SLOTSRANGE {ranges}")
}

fn ask(client: &mut Client, words: &str) -> String {
    client.ask(&words.split(' ').collect::<Vec<_>>())
}

/// Waits until a request has this reply.
fn wait_for(follower: &Follower, words: &str, expected: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    let mut client = follower.client();
    loop {
        let reply = ask(&mut client, words);
        if reply == expected {
            return;
        }
        assert!(Instant::now() < until, "{words}: {reply}, not {expected}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Waits until a write of the stream has come, and all before it.
fn mark(link: &mut Link<'_>, follower: &Follower, mark: &str) {
    link.send(&[&format!("ZADD fleet:own 1 {mark}")]);
    wait_for(follower, &format!("ZSCORE fleet:own {mark}"), "$1\r\n1\r\n");
}

/// Asserts that `fleet:in` is not there and `fleet:own` is, by each command.
fn assert_hidden(follower: &Follower) {
    let mut client = follower.client();
    for (words, expected) in [
        ("EXISTS fleet:in fleet:own", ":1\r\n"),
        ("TYPE fleet:in", "+none\r\n"),
        ("ZCARD fleet:in", ":0\r\n"),
        ("ZRANGE fleet:in 0 -1", "*0\r\n"),
        ("TTL fleet:in", ":-2\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("KEYS *", "*1\r\n$9\r\nfleet:own\r\n"),
        ("RANDOMKEY", "$9\r\nfleet:own\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n$9\r\nfleet:own\r\n"),
        ("GEOSEARCH fleet:in FROMLONLAT 13 52 BYRADIUS 20000 km", "*0\r\n"),
        ("ZINTERCARD 2 fleet:in fleet:in", ":0\r\n"),
        ("ZUNION 2 fleet:in fleet:none", "*0\r\n"),
    ] {
        assert_eq!(ask(&mut client, words), expected, "{words}");
    }
}

/// A follower that has `fleet:own`.
fn follow(script: &mut Script) -> (Follower, Link<'_>) {
    let follower = Follower::with(&script.section());
    let (mut link, words) = script.accept();
    assert_eq!(words, ["PSYNC", "?", "-1"]);
    link.send_dump(&dump(&["fleet:own"], &[]));
    wait_for(&follower, "ZCARD fleet:own", ":1\r\n");
    (follower, link)
}

#[test]
fn keys_of_slots_that_a_primary_imports_are_seen_all_at_once_when_the_import_has_ended() {
    let mut script = Script::new();
    let (mut follower, mut link) = follow(&mut script);
    link.send(&[
        &establish("job", &["fleet:in", "fleet:more"]),
        "CLUSTER SYNCSLOTS ACK",
        "ZADD fleet:in 1 a",
        "ZADD fleet:more 1 a",
        "CLUSTER SYNCSLOTS SNAPSHOT-EOF",
        "ZADD fleet:in 2 b",
        "PEXPIREAT fleet:in 4102444800000",
        "CLUSTER SYNCSLOTS PAUSED",
    ]);
    mark(&mut link, &follower, "one");
    assert_hidden(&follower);

    // A connection that is cut, and a start, go on in the middle of it.
    drop(link);
    let mut link = script.accept_again();
    mark(&mut link, &follower, "two");
    assert_hidden(&follower);
    drop(link);
    follower.stop();
    let mut link = script.accept_late(&mut follower);
    mark(&mut link, &follower, "three");
    assert_hidden(&follower);

    let mut watching = follower.client();
    assert_eq!(ask(&mut watching, "WATCH fleet:in"), "+OK\r\n");
    assert_eq!(ask(&mut watching, "MULTI"), "+OK\r\n");
    assert_eq!(ask(&mut watching, "ZCARD fleet:in"), "+QUEUED\r\n");
    link.send(&[
        "CLUSTER SYNCSLOTS FAILOVER-GRANTED",
        "CLUSTER SYNCSLOTS FINISH STATE success NAME job",
    ]);
    wait_for(&follower, "EXISTS fleet:in fleet:more", ":2\r\n");
    assert_eq!(ask(&mut watching, "EXEC"), "*-1\r\n", "a key that was watched has appeared");
    wait_for(&follower, "ZCARD fleet:in", ":2\r\n");
    wait_for(&follower, "DBSIZE", ":3\r\n");
    mark(&mut link, &follower, "four");
}

impl Script {
    /// Starts a follower that was stopped, and takes its connection. What it serves before that is
    /// what it has kept.
    fn accept_late(&mut self, follower: &mut Follower) -> Link<'_> {
        follower.start().expect("it starts");
        assert_hidden(follower);
        self.accept_again()
    }
}

#[test]
fn keys_of_an_import_that_has_failed_are_never_seen_and_the_dump_is_taken_anew() {
    let mut script = Script::new();
    let (follower, mut link) = follow(&mut script);
    link.send(&[&establish("job", &["fleet:in"]), "ZADD fleet:in 1 a"]);
    mark(&mut link, &follower, "one");
    link.send(&["CLUSTER SYNCSLOTS FINISH STATE failed NAME job MESSAGE cancelled"]);
    drop(link);
    let (mut link, words) = script.accept();
    assert_eq!(words, ["PSYNC", "?", "-1"]);
    assert_hidden(&follower);
    link.send_dump(&dump(&["fleet:own", "fleet:other"], &[]));
    wait_for(&follower, "DBSIZE", ":2\r\n");
    assert_eq!(ask(&mut follower.client(), "EXISTS fleet:in fleet:other"), ":1\r\n");
    // The slots are those of any import again.
    link.send(&[
        &establish("again", &["fleet:in"]),
        "ZADD fleet:in 1 a",
        "CLUSTER SYNCSLOTS FINISH STATE success NAME again",
    ]);
    wait_for(&follower, "ZCARD fleet:in", ":1\r\n");
}

#[test]
fn a_dump_says_which_slots_are_imported_and_each_import_ends_by_its_name() {
    let mut script = Script::new();
    let follower = Follower::with(&script.section());
    let (mut link, _) = script.accept();
    let slot = |key: &str| [(key_slot(key.as_bytes()), key_slot(key.as_bytes()))];
    let (one, two) = (slot("fleet:in"), slot("fleet:too"));
    let imports = [(&b"one"[..], &one[..]), (b"two", &two)];
    link.send_dump(&dump(&["fleet:own", "fleet:in", "fleet:too"], &imports));
    mark(&mut link, &follower, "first");
    assert_hidden(&follower);
    link.send(&["CLUSTER SYNCSLOTS FINISH STATE success NAME three"]);
    mark(&mut link, &follower, "second");
    assert_hidden(&follower);
    link.send(&["CLUSTER SYNCSLOTS FINISH NAME two STATE success"]);
    wait_for(&follower, "DBSIZE", ":2\r\n");
    assert_eq!(ask(&mut follower.client(), "EXISTS fleet:in"), ":0\r\n");
    link.send(&["CLUSTER SYNCSLOTS FINISH STATE success NAME one"]);
    wait_for(&follower, "DBSIZE", ":3\r\n");
}

#[test]
fn promotion_takes_no_key_of_an_import() {
    let mut script = Script::new();
    let (follower, mut link) = follow(&mut script);
    link.send(&[&establish("job", &["fleet:in"]), "ZADD fleet:in 1 a"]);
    mark(&mut link, &follower, "one");
    assert_eq!(ask(&mut follower.client(), "REPLICAOF NO ONE"), "+OK\r\n");
    assert_hidden(&follower);
    assert_eq!(ask(&mut follower.client(), "ZADD fleet:in 1 b"), ":1\r\n");
    assert_eq!(ask(&mut follower.client(), "ZCARD fleet:in"), ":1\r\n");
}

#[test]
fn a_whered_that_follows_this_one_hides_what_this_one_hides() {
    let mut script = Script::new();
    let (follower, mut link) = follow(&mut script);
    link.send(&[&establish("job", &["fleet:in"]), "ZADD fleet:in 1 a"]);
    mark(&mut link, &follower, "one");
    let address = follower.client().stream.peer_addr().expect("it is open");
    let second = format!("[[replica]]\nof = \"redis://{address}\"\nmatch = [\"fleet:*\"]\n");
    let second = Follower::with(&second);
    wait_for(&second, "ZCARD fleet:own", ":2\r\n");
    link.send(&["ZADD fleet:in 1 b"]);
    mark(&mut link, &second, "two");
    assert_hidden(&second);
    link.send(&["CLUSTER SYNCSLOTS FINISH STATE success NAME job"]);
    wait_for(&second, "ZCARD fleet:in", ":2\r\n");
}

#[test]
fn a_range_of_slots_that_no_cluster_has_asks_for_a_dump_and_hides_nothing() {
    let mut script = Script::new();
    let (follower, mut link) = follow(&mut script);
    link.send(&["CLUSTER SYNCSLOTS ESTABLISH SOURCE a NAME b SLOTSRANGE 0 16384"]);
    drop(link);
    let (mut link, words) = script.accept();
    assert_eq!(words, ["PSYNC", "?", "-1"]);
    link.send_dump(&dump(&["fleet:own", "fleet:in"], &[]));
    wait_for(&follower, "DBSIZE", ":2\r\n");
}
