//! `WATCH`, compared with Debian's redis-server: each write command, with and without effect,
//! aborts the same transactions.
//!
//! A case is a request of one connection while others watch one key each. The test fails if a write
//! command that both servers have lacks a case with effect or one without. Without redis-server the
//! tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod support;

#[path = "differential/peer.rs"]
mod peer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use peer::Peer;
use support::Door;
use support::client::{Client, Reply, Value, request};

/// What there is before each case. `missing` and `absent` are watched too.
const BEFORE: &[&str] = &[
    "FLUSHALL",
    "SELECT 1",
    "SET text other",
    "SELECT 0",
    "SET text v",
    "SET timed v PXAT 33000000000000",
    "GEOADD points 8 50 a 9 51 b",
    "ZADD scores 1.5 a 2.5 b 3.5 c",
    "ZADD single 1.5 a",
    "GEOADD result 1 1 x",
];

const WATCHED: [&str; 8] =
    ["text", "timed", "points", "scores", "single", "result", "missing", "absent"];

/// The numbered databases whose keys are watched.
const NUMBERS: [&str; 2] = ["0", "1"];

/// Requests by command. Of requests separated by `;` only the last one runs under `WATCH`.
const CASES: &[(&str, &[&str])] = &[
    ("append", &["APPEND points x", "APPEND text x", "APPEND missing x"]),
    (
        "bzmpop",
        &[
            "BZMPOP 0.01 1 missing MIN",
            "BZMPOP 0.01 2 missing text MIN",
            "BZMPOP 0 2 missing scores MAX COUNT 2",
            "BZMPOP 0 2 single scores MAX",
        ],
    ),
    ("bzpopmax", &["BZPOPMAX missing 0.01", "BZPOPMAX text 0", "BZPOPMAX missing scores single 0"]),
    ("bzpopmin", &["BZPOPMIN missing 0.01", "BZPOPMIN text 0", "BZPOPMIN missing scores single 0"]),
    ("decr", &["DECR text", "DECR points", "DECR missing"]),
    ("decrby", &["DECRBY text 2", "DECRBY missing x", "DECRBY missing 0", "DECRBY missing 2"]),
    ("getdel", &["GETDEL missing", "GETDEL points", "GETDEL text"]),
    (
        "getex",
        &[
            "GETEX missing EX 100",
            "GETEX points EX 100",
            "GETEX text",
            "GETEX text PERSIST",
            "GETEX timed PERSIST",
            "GETEX text EX 100",
            "GETEX text EXAT 1",
            "GETEX text EX 0",
        ],
    ),
    ("getset", &["GETSET points x", "GETSET text v", "GETSET missing v", "GETSET timed v"]),
    ("incr", &["INCR text", "INCR points", "INCR missing"]),
    ("incrby", &["INCRBY text 2", "INCRBY missing x", "INCRBY missing 0", "INCRBY missing 2"]),
    (
        "incrbyfloat",
        &[
            "INCRBYFLOAT text 2",
            "INCRBYFLOAT missing x",
            "INCRBYFLOAT missing 0",
            "INCRBYFLOAT missing 2.5",
        ],
    ),
    ("mset", &["MSET text", "MSET text v missing w", "MSET points v absent w"]),
    ("msetnx", &["MSETNX text v missing w", "MSETNX text", "MSETNX missing v absent w"]),
    ("psetex", &["PSETEX text 0 v", "PSETEX text 100000 v", "PSETEX points 100000 v"]),
    ("setex", &["SETEX text 0 v", "SETEX text 100 v", "SETEX points 100 v"]),
    (
        "restore",
        &[
            "RESTORE text 0 bad",
            "RESTORE missing 0 bad",
            "RESTORE missing 0 \0\x0500146\n\0*\"b\t\x0e4q\r",
            "RESTORE points 0 \0\x0500146\n\0*\"b\t\x0e4q\r REPLACE",
            "RESTORE missing 1 \0\x0500146\n\0*\"b\t\x0e4q\r ABSTTL REPLACE",
            "RESTORE scores 1 \0\x0500146\n\0*\"b\t\x0e4q\r ABSTTL REPLACE",
        ],
    ),
    (
        "restore-asking",
        &["RESTORE-ASKING text 0 bad", "RESTORE-ASKING missing 0 \0\x0500146\n\0*\"b\t\x0e4q\r"],
    ),
    ("setnx", &["SETNX text w", "SETNX points w", "SETNX missing w"]),
    (
        "zdiffstore",
        &[
            "ZDIFFSTORE missing 1 absent",
            "ZDIFFSTORE result 1 text",
            "ZDIFFSTORE result 1 missing",
            "ZDIFFSTORE result 2 scores single",
            "ZDIFFSTORE scores 1 scores",
            "ZDIFFSTORE text 1 scores",
        ],
    ),
    (
        "zinterstore",
        &[
            "ZINTERSTORE missing 2 scores absent",
            "ZINTERSTORE result 2 scores text",
            "ZINTERSTORE result 2 scores missing",
            "ZINTERSTORE result 2 scores single",
        ],
    ),
    (
        "zunionstore",
        &[
            "ZUNIONSTORE missing 2 missing absent",
            "ZUNIONSTORE result 1 text",
            "ZUNIONSTORE result 1 missing",
            "ZUNIONSTORE result 2 scores single",
            "ZUNIONSTORE result 1 scores AGGREGATE",
            "ZUNIONSTORE missing 2 points scores",
        ],
    ),
    (
        "zmpop",
        &[
            "ZMPOP 1 missing MIN",
            "ZMPOP 2 missing text MIN",
            "ZMPOP 2 missing scores MAX COUNT 2",
            "ZMPOP 2 single scores MAX",
        ],
    ),
    (
        "zremrangebylex",
        &[
            "ZREMRANGEBYLEX missing - +",
            "ZREMRANGEBYLEX text - +",
            "ZREMRANGEBYLEX scores [x +",
            "ZREMRANGEBYLEX scores - +",
            "ZREMRANGEBYLEX scores [a [a",
        ],
    ),
    (
        "copy",
        &[
            "COPY text result",
            "COPY missing result",
            "COPY missing result REPLACE",
            "COPY text text",
            "COPY text result REPLACE",
            "COPY text missing",
            "COPY text text DB 1",
            "COPY text text DB 1 REPLACE",
            "COPY text missing DB 1",
        ],
    ),
    (
        "del",
        &[
            "DEL missing",
            "DEL missing absent",
            "DEL text",
            "DEL missing text",
            "DEL text scores text",
        ],
    ),
    (
        "expire",
        &[
            "EXPIRE missing 100",
            "EXPIRE text 100 XX",
            "EXPIRE timed 100 NX",
            "EXPIRE timed 100 GT",
            "EXPIRE text x",
            "EXPIRE text 100",
            "EXPIRE timed 100",
            "EXPIRE text -1",
        ],
    ),
    (
        "expireat",
        &[
            "EXPIREAT missing 33000000000",
            "EXPIREAT text 33000000000 XX",
            "EXPIREAT timed 33000000000",
            "EXPIREAT timed 33000000000 GT",
            "EXPIREAT text 33000000000",
            "EXPIREAT text 1",
        ],
    ),
    ("flushall", &["FLUSHALL ; FLUSHALL", "FLUSHALL x", "FLUSHALL"]),
    ("flushdb", &["SELECT 2 ; FLUSHDB", "SELECT 1 ; FLUSHDB", "FLUSHDB"]),
    ("function|flush", &["FUNCTION FLUSH"]),
    (
        "geoadd",
        &[
            "GEOADD points 8 50 a",
            "GEOADD points CH 8 50 a 9 51 b",
            "GEOADD points NX 1 1 a",
            "GEOADD points XX 1 1 new",
            "GEOADD missing XX 1 1 a",
            "GEOADD text 1 1 a",
            "GEOADD points 1 100 a",
            "GEOADD points 1 1 a",
            "GEOADD points 1 1 new",
            "GEOADD points NX 1 1 a 2 2 new",
            "GEOADD points XX CH 1 1 a",
            "GEOADD missing 1 1 a",
            "GEOADD scores 1 1 a",
        ],
    ),
    (
        "georadius",
        &[
            "GEORADIUS points 8 50 10 km",
            "GEORADIUS missing 8 50 10 km",
            "GEORADIUS missing 8 50 10 km STORE absent",
            "GEORADIUS points 100 50 10 km STORE missing",
            "GEORADIUS text 8 50 10 km STORE result",
            "GEORADIUS missing 8 50 10 km STORE result",
            "GEORADIUS points 100 50 10 km STORE result",
            "GEORADIUS points 8 50 10 km STORE result",
            "GEORADIUS points 8 50 10 km STORE missing",
            "GEORADIUS points 8 50 10 km STOREDIST missing",
            "GEORADIUS points 8 50 10 km STORE missing STOREDIST absent",
            "GEORADIUS points 8 50 10 km STORE points",
        ],
    ),
    (
        "georadiusbymember",
        &[
            "GEORADIUSBYMEMBER points a 10 km",
            "GEORADIUSBYMEMBER missing a 10 km STORE absent",
            "GEORADIUSBYMEMBER points nobody 10 km STORE result",
            "GEORADIUSBYMEMBER missing a 10 km STORE result",
            "GEORADIUSBYMEMBER points a 10 km STORE result",
            "GEORADIUSBYMEMBER points a 10 km STORE missing",
            "GEORADIUSBYMEMBER points a 10 km STOREDIST missing",
        ],
    ),
    (
        "geosearchstore",
        &[
            "GEOSEARCHSTORE missing points FROMLONLAT 100 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE missing absent FROMLONLAT 8 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE result text FROMLONLAT 8 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE result points FROMLONLAT 100 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE text points FROMLONLAT 100 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE result missing FROMLONLAT 8 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE missing points FROMLONLAT 8 50 BYRADIUS 10 km",
            "GEOSEARCHSTORE points points FROMLONLAT 8 50 BYRADIUS 1000 km",
            "GEOSEARCHSTORE result scores FROMLONLAT 8 50 BYRADIUS 10 km",
        ],
    ),
    ("move", &["MOVE text 1", "MOVE missing 1", "MOVE text 0", "MOVE scores 1"]),
    ("persist", &["PERSIST missing", "PERSIST text", "PERSIST timed"]),
    (
        "pexpire",
        &[
            "PEXPIRE missing 100000",
            "PEXPIRE text 100000 GT",
            "PEXPIRE text 100000 LT",
            "PEXPIRE text 100000",
            "PEXPIRE text 0",
        ],
    ),
    (
        "pexpireat",
        &[
            "PEXPIREAT missing 33000000000000",
            "PEXPIREAT timed 33000000000000 LT",
            "PEXPIREAT timed 33000000000000",
            "PEXPIREAT text 33000000000000",
            "PEXPIREAT text 1",
        ],
    ),
    (
        "rename",
        &[
            "RENAME text text",
            "RENAME missing text",
            "RENAME text missing",
            "RENAME text result",
            "RENAME timed scores",
        ],
    ),
    (
        "renamenx",
        &[
            "RENAMENX text result",
            "RENAMENX text text",
            "RENAMENX missing text",
            "RENAMENX text missing",
        ],
    ),
    (
        "set",
        &[
            "SET text v NX",
            "SET missing v XX",
            "SET missing v XX GET",
            "SET text v NX GET",
            "SET scores v GET",
            "SET text v EX 0",
            "SET text v",
            "SET text w GET",
            "SET text v KEEPTTL",
            "SET timed v",
            "SET missing v",
            "SET missing v NX",
            "SET text v XX",
            "SET scores v",
            "SET text v EX 100",
            "SET text v PXAT 1",
            "SET missing v PXAT 1",
        ],
    ),
    (
        "swapdb",
        &["SWAPDB 0 0", "SWAPDB 3 4", "SWAPDB 0 99", "SWAPDB 0 1", "SWAPDB 1 2", "SWAPDB 2 0"],
    ),
    ("unlink", &["UNLINK missing", "UNLINK missing absent", "UNLINK absent timed", "UNLINK text"]),
    (
        "zadd",
        &[
            "ZADD scores 1.5 a",
            "ZADD scores CH 1.5 a 2.5 b",
            "ZADD scores NX 9 a",
            "ZADD scores XX 9 new",
            "ZADD missing XX 9 new",
            "ZADD scores GT 1 a",
            "ZADD scores LT 9 a",
            "ZADD scores GT CH 1.5 a",
            "ZADD scores NX INCR 1 a",
            "ZADD scores XX INCR 1 new",
            "ZADD missing XX INCR 1 new",
            "ZADD scores INCR 0 a",
            "ZADD scores GT INCR -1 a",
            "ZADD scores 9 a x b",
            "ZADD text 1 a",
            "ZADD scores 9 a",
            "ZADD scores GT 9 a",
            "ZADD scores 9 new",
            "ZADD scores 9 a 1.5 a",
            "ZADD scores NX 9 a 9 new",
            "ZADD scores XX 9 a 9 new",
            "ZADD scores INCR 1 a",
            "ZADD missing INCR 0 a",
            "ZADD missing NX 1 a",
            "ZADD points 1.5 a",
        ],
    ),
    (
        "zincrby",
        &[
            "ZINCRBY scores 0 a",
            "ZINCRBY scores nan a",
            "ZINCRBY text 1 a",
            "ZADD single inf a ; ZINCRBY single inf a",
            "ZADD single inf a ; ZINCRBY single -inf a",
            "ZINCRBY missing 0 a",
            "ZINCRBY scores 1 a",
            "ZINCRBY scores 1 new",
        ],
    ),
    (
        "zpopmax",
        &[
            "ZPOPMAX missing",
            "ZPOPMAX scores 0",
            "ZPOPMAX text",
            "ZPOPMAX scores",
            "ZPOPMAX scores 9",
            "ZPOPMAX single",
        ],
    ),
    (
        "zpopmin",
        &[
            "ZPOPMIN missing",
            "ZPOPMIN missing 3",
            "ZPOPMIN scores 0",
            "ZPOPMIN scores -1",
            "ZPOPMIN points",
            "ZPOPMIN scores 9",
            "ZPOPMIN single",
        ],
    ),
    (
        "zrangestore",
        &[
            "ZRANGESTORE missing scores 7 9",
            "ZRANGESTORE missing absent 0 -1",
            "ZRANGESTORE result text 0 -1",
            "ZRANGESTORE result scores 7 9",
            "ZRANGESTORE text missing 0 -1",
            "ZRANGESTORE missing scores 0 -1",
            "ZRANGESTORE result scores (1.5 9 BYSCORE",
            "ZRANGESTORE scores scores 0 -1",
        ],
    ),
    (
        "zrem",
        &[
            "ZREM missing a",
            "ZREM scores nobody",
            "ZREM scores nobody nothing",
            "ZREM text a",
            "ZREM scores a",
            "ZREM scores nobody b",
            "ZREM single a",
            "ZREM points a b",
        ],
    ),
    (
        "zremrangebyrank",
        &[
            "ZREMRANGEBYRANK missing 0 -1",
            "ZREMRANGEBYRANK scores 7 9",
            "ZREMRANGEBYRANK scores 0 0",
            "ZREMRANGEBYRANK single 0 -1",
        ],
    ),
    (
        "zremrangebyscore",
        &[
            "ZREMRANGEBYSCORE missing 0 9",
            "ZREMRANGEBYSCORE scores 7 9",
            "ZREMRANGEBYSCORE scores x 9",
            "ZREMRANGEBYSCORE scores 0 2",
            "ZREMRANGEBYSCORE single -inf +inf",
        ],
    ),
];

/// There are no functions here that it could remove, and in Redis they are no keys.
const NEVER_CHANGES_A_KEY: [&str; 1] = ["function|flush"];

/// One server: a connection that writes, and one for each key that is watched.
struct Side {
    writer: Client,
    watchers: BTreeMap<(&'static str, &'static str), Client>,
}

/// Which watched keys made `EXEC` give up.
type Aborted = BTreeSet<(&'static str, &'static str)>;

impl Side {
    fn connect(address: SocketAddr) -> Side {
        let keys = NUMBERS.iter().flat_map(|number| WATCHED.iter().map(move |key| (*number, *key)));
        let watcher = |(number, key)| {
            let mut client = Client::connect(address);
            assert_eq!(client.ask(&["SELECT", number]), "+OK\r\n");
            ((number, key), client)
        };
        Side { writer: Client::connect(address), watchers: keys.map(watcher).collect() }
    }

    fn write(&mut self, words: &str) -> Reply {
        self.send(words);
        self.writer.reply()
    }

    fn send(&mut self, words: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.writer.send(&request(&words));
    }

    fn prepare(&mut self) {
        for words in BEFORE {
            let reply = self.write(words);
            assert!(!matches!(reply.value, Value::Error(_)), "{words}: {reply:?}");
        }
    }

    fn watch(&mut self) {
        for ((_, key), client) in &mut self.watchers {
            assert_eq!(client.ask(&["WATCH", key]), "+OK\r\n");
        }
    }

    fn exec(&mut self) -> Aborted {
        let aborted = |((number, key), client): (&(&'static str, &'static str), &mut Client)| {
            assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
            client.send(&request(&[b"EXEC"]));
            let reply = client.reply();
            assert!(matches!(reply.value, Value::Null | Value::Array(_)), "{reply:?}");
            (reply.value == Value::Null).then_some((*number, *key))
        };
        self.watchers.iter_mut().filter_map(aborted).collect()
    }

    /// What a request answers, and which transactions it aborts.
    fn run(&mut self, case: &str) -> (Reply, Aborted) {
        self.prepare();
        let mut requests: Vec<&str> = case.split(" ; ").collect();
        let last = requests.pop().expect("a case has a request");
        for words in requests {
            self.write(words);
        }
        self.watch();
        let reply = self.write(last);
        (reply, self.exec())
    }
}

/// Both servers, ours first; `None` without redis-server.
fn both() -> Option<(Door, Peer)> {
    let Some(peer) = Peer::start() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
        return None;
    };
    Some((Door::in_memory(), peer))
}

/// The write commands of a server, subcommands included.
fn write_commands(client: &mut Client) -> BTreeSet<String> {
    client.send(&request(&[b"COMMAND"]));
    let Value::Array(commands) = client.reply().value else { panic!("COMMAND gives an array") };
    let mut found = BTreeSet::new();
    let mut left = commands;
    while let Some(Value::Array(fields)) = left.pop() {
        let [Value::Bulk(name), _, Value::Array(flags), .., Value::Array(subcommands)] =
            &fields[..]
        else {
            panic!("a command is described by ten fields: {fields:?}");
        };
        if flags.contains(&Value::Simple(b"write".to_vec())) {
            found.insert(String::from_utf8(name.clone()).expect("a name is text"));
        }
        left.extend(subcommands.iter().cloned());
    }
    found
}

#[test]
fn each_write_aborts_the_transactions_that_it_aborts_in_redis() {
    let Some((door, peer)) = both() else { return };
    let mut ours = Side::connect(door.door.addresses()[0]);
    let mut theirs = Side::connect(peer.address);
    let in_redis = write_commands(&mut theirs.writer);
    let in_both: BTreeSet<String> =
        write_commands(&mut ours.writer).intersection(&in_redis).cloned().collect();
    let with_cases: BTreeSet<String> = CASES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(in_both, with_cases, "the write commands of both servers, and those with cases");
    let mut faults = Vec::new();
    for (name, cases) in CASES {
        let (mut without_effect, mut with_effect) = (0, 0);
        for case in *cases {
            let (our_reply, our_aborted) = ours.run(case);
            let (their_reply, their_aborted) = theirs.run(case);
            if our_reply != their_reply {
                faults.push(format!("{case}: {our_reply:?}, Redis: {their_reply:?}"));
            }
            if our_aborted != their_aborted {
                faults.push(format!("{case}: aborts {our_aborted:?}, in Redis {their_aborted:?}"));
            }
            match their_aborted.is_empty() {
                true => without_effect += 1,
                false => with_effect += 1,
            }
        }
        assert!(without_effect > 0, "{name} has no case without effect");
        assert!(
            with_effect > 0 || NEVER_CHANGES_A_KEY.contains(name),
            "{name} never has an effect"
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn additions_made_together_abort_only_when_one_of_them_has_an_effect() {
    let Some((door, peer)) = both() else { return };
    let run = |address, requests: &[&str]| {
        let mut side = Side::connect(address);
        side.prepare();
        side.watch();
        let bytes = requests.iter().flat_map(|words| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            request(&words)
        });
        let bytes: Vec<u8> = bytes.collect();
        side.writer.send(&bytes);
        let replies: Vec<Reply> = requests.iter().map(|_| side.writer.reply()).collect();
        (replies, side.exec())
    };
    for (requests, has_effect) in [
        (&["GEOADD points 8 50 a", "GEOADD points 9 51 b", "GEOADD points 8 50 a"][..], false),
        (&["GEOADD points 8 50 a", "GEOADD points 9 52 b", "GEOADD points 8 50 a"], true),
        (&["GEOADD points 8 50 a", "GEOADD points 9 52 new"], true),
        (&["GEOADD missing 8 50 a", "GEOADD missing 8 50 a"], true),
    ] {
        let ours = run(door.door.addresses()[0], requests);
        assert_eq!(ours, run(peer.address, requests), "{requests:?}");
        assert_eq!(!ours.1.is_empty(), has_effect, "{requests:?}");
    }
}

#[test]
fn writes_of_another_transaction_abort_as_those_outside_do() {
    let Some((door, peer)) = both() else { return };
    for requests in [
        &["SET text v NX", "ZADD scores NX 9 a", "RENAME text text"][..],
        &["SET text v NX", "ZADD scores 9 a", "DEL missing"],
        &["COPY text missing DB 1", "DEL missing timed"],
    ] {
        let run = |address| {
            let mut side = Side::connect(address);
            side.prepare();
            side.watch();
            side.write("MULTI");
            requests.iter().for_each(|words| assert_eq!(side.write(words).bytes, b"+QUEUED\r\n"));
            let reply = side.write("EXEC");
            (reply, side.exec())
        };
        assert_eq!(run(door.door.addresses()[0]), run(peer.address), "{requests:?}");
    }
}

#[test]
fn a_watched_key_whose_time_is_over_aborts_unless_it_was_over_before() {
    let Some((door, peer)) = both() else { return };
    // Each case begins with SET k v PX so many; what happens before and after the key is watched.
    type Act = fn(&mut Client);
    let nothing: Act = |_| {};
    let wait: Act = |client| wait_until_over(client, "20");
    let wait_longer: Act = |client| wait_until_over(client, "1100");
    let delete: Act = |client| drop(client.ask(&["DEL", "k"]));
    let read: Act = |client| assert_eq!(client.ask(&["GET", "k"]), "$-1\r\n");
    let write: Act = |client| drop(client.ask(&["SET", "k", "w"]));
    let refused: Act = |client| assert_eq!(client.ask(&["SET", "k", "w", "XX"]), "$-1\r\n");
    let brief: Act = |client| {
        client.ask(&["SET", "other", "w", "PX", "1000"]);
        client.ask(&["RENAME", "other", "k"]);
        wait_until_over(client, "1100");
    };
    for (name, millis, before, after, aborts) in [
        ("over while it is watched", "1000", nothing, wait_longer, true),
        ("over before, and nothing happens", "10", wait, nothing, false),
        ("over before, and removed", "10", wait, delete, false),
        ("over before, and read", "10", wait, read, false),
        ("over before, and not written", "10", wait, refused, false),
        ("over before, and written", "10", wait, write, true),
        ("over before, and there for a moment", "10", wait, brief, true),
    ] {
        for address in [door.door.addresses()[0], peer.address] {
            let (mut writer, mut watcher) = (Client::connect(address), Client::connect(address));
            assert_eq!(writer.ask(&["SET", "k", "v", "PX", millis]), "+OK\r\n");
            before(&mut writer);
            assert_eq!(watcher.ask(&["WATCH", "k"]), "+OK\r\n");
            after(&mut writer);
            assert_eq!(watcher.ask(&["MULTI"]), "+OK\r\n");
            let expected = if aborts { "*-1\r\n" } else { "*0\r\n" };
            assert_eq!(watcher.ask(&["EXEC"]), expected, "{name}: {address}");
        }
    }
}

/// Waits until a key that is set now is over, and so are all that had less time. Only that key is
/// looked at: a look at another one would remove it.
fn wait_until_over(client: &mut Client, millis: &str) {
    assert_eq!(client.ask(&["SET", "clock", "w", "PX", millis]), "+OK\r\n");
    while client.ask(&["EXISTS", "clock"]) != ":0\r\n" {}
}
