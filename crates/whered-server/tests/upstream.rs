//! Whereds that follow a whered that follows Debian's redis-server: one dump of the primary serves
//! them all.
//!
//! Without redis-server the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod replica {
    pub(crate) mod primary;
}
mod support;

use std::time::{Duration, Instant};

use replica::primary::{Follower, Primary};
use support::client::{Client, Value};

fn words(client: &mut Client, words: &[&str]) -> Vec<String> {
    client.send(&support::client::request(
        &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(),
    ));
    let text = |value: Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => format!("{other:?}"),
    };
    match client.reply().value {
        Value::Array(values) => values.into_iter().map(text).collect(),
        other => vec![text(other)],
    }
}

/// Every sorted set of `fleet:*` with its members, scores and expiry, as a server has it.
fn fleet(client: &mut Client) -> Vec<String> {
    let mut keys = words(client, &["KEYS", "fleet:*"]);
    keys.retain(|key| client.ask(&["TYPE", key]) == "+zset\r\n");
    keys.sort();
    let found = keys.into_iter().map(|key| {
        let members = words(client, &["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
        format!("{key} {members:?} {}", client.ask(&["PEXPIRETIME", &key]).trim())
    });
    found.collect()
}

/// Waits until a server has these keys.
fn wait_for(server: &Follower, expected: &[String]) {
    let mut client = server.client();
    let until = Instant::now() + Duration::from_secs(20);
    while fleet(&mut client) != expected {
        assert!(Instant::now() < until, "{:?}\n{expected:?}", fleet(&mut client));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn info(client: &mut Client, section: &str, name: &str) -> String {
    let info = words(client, &["INFO", section]).concat();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().to_owned()
}

fn section_of(upstream: &Follower, pattern: &str) -> String {
    let address = upstream.client().stream.peer_addr().expect("it is open");
    format!("[[replica]]\nof = \"redis://{address}\"\nmatch = [\"{pattern}\"]\n")
}

fn run(client: &mut Client, commands: &[&str]) {
    for command in commands {
        let reply = client.ask(&command.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

#[test]
fn ten_whereds_follow_one_and_the_primary_makes_one_dump() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(
        &mut theirs,
        &[
            "GEOADD fleet:geo 13.4 52.5 ann 8.68 50.11 bob",
            "ZADD fleet:scores -1.5 a 0 b 3.25 c inf d -inf e",
            "ZADD fleet:expires 1 a",
            "PEXPIREAT fleet:expires 4102444800000",
            "ZADD other 1 a",
        ],
    );
    let upstream = Follower::of(&primary, "");
    wait_for(&upstream, &fleet(&mut theirs));
    let section = section_of(&upstream, "fleet:*");
    let followers: Vec<Follower> = (0..10).map(|_| Follower::with(&section)).collect();
    for follower in &followers {
        wait_for(follower, &fleet(&mut theirs));
    }
    let long = "x".repeat(200_000);
    theirs.ask(&["SET", "fleet:scores", &long]);
    theirs.ask(&["SET", "unrelated", &long]);
    run(
        &mut theirs,
        &[
            "GEOADD fleet:geo 2.35 48.85 cid",
            "ZREM fleet:geo ann",
            "MULTI",
            "ZADD fleet:new 1 a 2 b",
            "ZINCRBY fleet:new 5 a",
            "EXEC",
            "RENAME fleet:expires fleet:renamed",
        ],
    );
    let expected = fleet(&mut theirs);
    assert_eq!(expected.len(), 3, "{expected:?}");
    for follower in &followers {
        wait_for(follower, &expected);
    }
    assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
    assert_eq!(info(&mut upstream.client(), "replication", "connected_slaves"), "10");
    let refused = followers[3].client().ask(&["ZADD", "fleet:new", "1", "c"]);
    assert!(refused.starts_with("-READONLY"), "{refused}");
}

#[test]
fn who_follows_goes_on_after_a_restart_of_either_without_another_dump() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 m"]);
    let upstream = Follower::of(&primary, "");
    let mut follower = Follower::with(&section_of(&upstream, "fleet:*"));
    wait_for(&follower, &fleet(&mut theirs));
    follower.stop();
    run(&mut theirs, &["ZINCRBY fleet:a 1 m", "ZADD fleet:a 7 n"]);
    wait_for(&upstream, &fleet(&mut theirs));
    follower.start().expect("it starts");
    wait_for(&follower, &fleet(&mut theirs));
    let links = words(&mut follower.client(), &["INFO", "replication"]).concat();
    assert!(links.contains("full_syncs=0"), "{links}");
    // What follows the whered may follow its primary as well: offsets and ids are the same.
    follower.stop();
    run(&mut theirs, &["ZINCRBY fleet:a 1 m"]);
    let ours = info(&mut upstream.client(), "replication", "master_replid");
    assert_eq!(ours, info(&mut theirs, "replication", "master_replid"));
}

#[test]
fn a_stock_replica_and_one_of_other_keys_are_refused_with_the_reason() {
    let Some(primary) = Primary::start() else { return };
    let upstream = Follower::of(&primary, "");
    wait_for(&upstream, &[]);
    let mut client = upstream.client();
    let reply = client.ask(&["PSYNC", "?", "-1"]);
    assert!(reply.starts_with("-ERR whered has no replication stream"), "{reply}");
    let reply = client.ask(&["REPLCONF", "whered-follows", "0", "fleet:*", "other"]);
    let expected = "-ERR 'fleet:*' 'other' of database 0 is not all followed here; followed: \
                    'fleet:*' of database 0\r\n";
    assert_eq!(reply, expected);
    assert!(client.ask(&["PSYNC", "?", "-1"]).starts_with("-ERR"), "it was refused before");
    let reply = client.ask(&["REPLCONF", "whered-follows", "1", "fleet:*"]);
    assert!(reply.starts_with("-ERR"), "{reply}");
    assert!(client.ask(&["REPLCONF", "whered-follows", "0"]).starts_with("-ERR"));
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    // What was granted before does not outlive a refusal.
    assert_eq!(client.ask(&["REPLCONF", "whered-follows", "0", "fleet:*"]), "+OK\r\n");
    assert!(client.ask(&["REPLCONF", "whered-follows", "0", "all:*"]).starts_with("-ERR"));
    let reply = client.ask(&["PSYNC", "?", "-1"]);
    assert!(reply.starts_with("-ERR whered has no replication stream"), "{reply}");
    let stock = Primary::start().expect("it was there before");
    let mut theirs = stock.client();
    let address = client.stream.peer_addr().expect("it is open");
    run(&mut theirs, &[&format!("REPLICAOF 127.0.0.1 {}", address.port())]);
    std::thread::park_timeout(Duration::from_millis(1500));
    assert_eq!(info(&mut theirs, "replication", "master_link_status"), "down");
}

#[test]
fn a_follower_is_seen_as_a_client_and_ends_with_it_and_with_the_primary() {
    let Some(mut primary) = Primary::start() else { return };
    run(&mut primary.client(), &["ZADD fleet:a 1 m"]);
    let upstream = Follower::of(&primary, "");
    let follower = Follower::with(&section_of(&upstream, "fleet:*"));
    wait_for(&follower, &fleet(&mut primary.client()));
    let mut operator = upstream.client();
    let clients = words(&mut operator, &["CLIENT", "LIST"]).concat();
    let of_follower = clients.lines().find(|line| line.contains("cmd=psync"));
    let line = of_follower.unwrap_or_else(|| panic!("{clients}"));
    let id = line.split(' ').find_map(|word| word.strip_prefix("id=")).expect("an id");
    assert_eq!(operator.ask(&["CLIENT", "KILL", "ID", id]), ":1\r\n");
    let partial = |of: &Follower| words(&mut of.client(), &["INFO", "replication"]).concat();
    let until = Instant::now() + Duration::from_secs(20);
    while !partial(&follower).contains("partial_syncs=1") {
        assert!(Instant::now() < until, "{}", partial(&follower));
        std::thread::park_timeout(Duration::from_millis(20));
    }
    // Who follows does not take old data for the present state.
    primary.stop();
    while !partial(&follower).contains("master_link_status:down") {
        assert!(Instant::now() < until, "{}", partial(&follower));
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(follower.client().ask(&["ZSCORE", "fleet:a", "m"]), "$1\r\n1\r\n");
}

#[test]
fn a_dump_says_which_database_the_stream_has_selected_behind_it() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 m"]);
    let upstream = Follower::of(&primary, "");
    wait_for(&upstream, &fleet(&mut theirs));
    let expected = fleet(&mut theirs);
    // From here on the stream is in database 1, and says so once only.
    run(&mut theirs, &["SELECT 1", "ZADD fleet:a 2 other"]);
    assert_eq!(theirs.ask(&["WAIT", "1", "10000"]), ":1\r\n");
    let follower = Follower::with(&section_of(&upstream, "fleet:*"));
    wait_for(&follower, &expected);
    run(&mut theirs, &["ZADD fleet:a 3 another", "SELECT 0", "ZADD fleet:b 1 m"]);
    wait_for(&follower, &fleet(&mut theirs));
}

#[test]
fn a_new_history_of_the_primary_reaches_who_follows() {
    let Some(mut primary) = Primary::start() else { return };
    run(&mut primary.client(), &["ZADD fleet:old 1 m"]);
    let upstream = Follower::of(&primary, "");
    let follower = Follower::with(&section_of(&upstream, "fleet:*"));
    wait_for(&follower, &fleet(&mut primary.client()));
    primary.replace();
    run(&mut primary.client(), &["ZADD fleet:new 2 m"]);
    wait_for(&follower, &fleet(&mut primary.client()));
    run(&mut primary.client(), &["ZADD fleet:new 3 n"]);
    wait_for(&follower, &fleet(&mut primary.client()));
}
