//! `[[replica]]` against Debian's redis-server: what is written there is read here, no more.
//!
//! Without redis-server the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod replica {
    pub(crate) mod primary;
}
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use replica::primary::{Directory, Follower, Primary};
use support::client::{Client, Value, request};

/// Waits until a replica of the primary has all that was written there.
fn settle(primary: &mut Client) {
    primary.ask(&["SELECT", "0"]);
    primary.ask(&["INCR", "written"]);
    let replicas = primary.ask(&["WAIT", "1", "15000"]);
    assert_eq!(replicas, ":1\r\n", "no replica has come so far in time");
}

fn words(client: &mut Client, request: &[&str]) -> Vec<String> {
    client.send(&support::client::request(
        &request.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(),
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
    keys.sort();
    let mut found = Vec::new();
    for key in keys {
        if client.ask(&["TYPE", &key]) != "+zset\r\n" {
            continue;
        }
        let mut members = words(client, &["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
        // Redis 8 and Valkey write the digits of a score otherwise than Redis 7.
        for score in members.iter_mut().skip(1).step_by(2) {
            *score = format!("{:?}", score.parse::<f64>().expect("a number"));
        }
        let expiry = client.ask(&["PEXPIRETIME", &key]);
        found.push(format!("{key} {members:?} {}", expiry.trim()));
    }
    found
}

/// Waits until both have the same, and gives it.
fn same(primary: &mut Client, follower: &mut Client) -> Vec<String> {
    settle(primary);
    let (theirs, ours) = (fleet(primary), fleet(follower));
    assert_eq!(ours, theirs);
    ours
}

fn run(client: &mut Client, commands: &[impl AsRef<str>]) {
    for command in commands {
        let command = command.as_ref();
        let words: Vec<&str> = command.split(' ').collect();
        let reply = client.ask(&words);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

/// A counter of `INFO stats` of a primary.
fn stat(client: &mut Client, name: &str) -> i64 {
    let info = words(client, &["INFO", "stats"]).concat();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).expect("a counter")
}

/// How many keys were read anew by themselves.
fn read_anew(client: &mut Client) -> u64 {
    let info = replication(client);
    let count = info.split(',').find_map(|field| field.strip_prefix("keys_read_anew="));
    count.and_then(|count| count.parse().ok()).expect("a count")
}

fn replication(client: &mut Client) -> String {
    words(client, &["INFO", "replication"]).concat()
}

#[test]
fn a_full_sync_brings_the_sorted_sets_that_match_and_nothing_else() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(
        &mut theirs,
        &[
            "GEOADD fleet:geo 13.4 52.5 ann 8.68 50.11 bob",
            "ZADD fleet:scores -1.5 a 0 b 3.25 c inf d -inf e",
            "ZADD other:key 1 a",
            "SET fleet:text value",
            "SADD fleet:set a",
            "ZADD fleet:expires 1 a",
            "PEXPIREAT fleet:expires 4102444800000",
            "SELECT 1",
            "ZADD fleet:elsewhere 1 a",
            "SELECT 0",
        ],
    );
    let large: Vec<Vec<u8>> = (0..1000)
        .map(|n| {
            request(&[
                b"ZADD",
                b"fleet:large",
                n.to_string().as_bytes(),
                format!("m{n}").as_bytes(),
            ])
        })
        .collect();
    theirs.send(&large.concat());
    (0..1000).for_each(|_| drop(theirs.reply()));
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    let found = same(&mut theirs, &mut ours);
    assert_eq!(found.len(), 4, "{found:?}");
    for key in ["other:key", "fleet:text", "fleet:set", "fleet:elsewhere"] {
        assert_eq!(ours.ask(&["EXISTS", key]), ":0\r\n", "{key}");
    }
    let near = ["GEOSEARCH", "fleet:geo", "FROMLONLAT", "13", "52", "BYRADIUS", "100", "km"];
    assert_eq!(words(&mut ours, &near), ["ann"]);
    let info = replication(&mut ours);
    for expected in [
        "role:slave",
        "master_link_status:up",
        &format!("master_port:{}", primary.address.port()),
        "slave_priority:0",
        "full_syncs=1",
    ] {
        assert!(info.contains(expected), "{expected}: {info}");
    }
    let slave = replication(&mut theirs);
    let port = follower.client().stream.peer_addr().expect("it is open").port();
    assert!(slave.contains(&format!("port={port},state=online")), "{slave}");
}

#[test]
fn followed_keys_are_read_only_and_own_keys_are_not() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 m"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    for command in [
        "ZADD fleet:a 2 n",
        "ZADD fleet:new 1 m",
        "DEL fleet:a",
        "SET fleet:a x",
        "PEXPIRE fleet:a 100000",
        "RENAME fleet:a own",
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
    ] {
        let reply = ours.ask(&command.split(' ').collect::<Vec<_>>());
        assert!(reply.starts_with("-READONLY"), "{command}: {reply}");
    }
    run(&mut ours, &["ZADD own 1 m", "SET text x", "DEL own"]);
    same(&mut theirs, &mut ours);
}

#[test]
fn every_command_that_a_primary_sends_has_its_effect() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    run(
        &mut theirs,
        &[
            "GEOADD fleet:geo 13.4 52.5 ann 8.68 50.11 bob 2.35 48.85 eve",
            "ZADD fleet:a 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h",
            "ZADD fleet:a GT CH 9 a",
            "ZADD fleet:a INCR 2.5 b",
            "ZINCRBY fleet:a 0.25 c",
            "ZREM fleet:a d",
            "ZREMRANGEBYRANK fleet:a 0 0",
            "ZREMRANGEBYSCORE fleet:a 5 5",
            "ZADD fleet:lex 0 a 0 b 0 c 0 d",
            "ZREMRANGEBYLEX fleet:lex [b [c",
            "ZPOPMIN fleet:lex",
            "ZADD fleet:pop 1 a 2 b 3 c 4 d",
            "ZPOPMAX fleet:pop",
            "ZMPOP 1 fleet:pop MIN COUNT 1",
            "BZPOPMIN fleet:pop 1",
            "ZUNIONSTORE fleet:union 2 fleet:a fleet:pop WEIGHTS 2 3",
            "ZINTERSTORE fleet:inter 2 fleet:a fleet:union",
            "ZDIFFSTORE fleet:diff 2 fleet:union fleet:inter",
            "ZRANGESTORE fleet:range fleet:a 0 2",
            "GEOSEARCHSTORE fleet:near fleet:geo FROMLONLAT 13 52 BYRADIUS 600 km",
            "GEORADIUS fleet:geo 13 52 600 km STORE fleet:radius",
            "GEORADIUSBYMEMBER fleet:geo ann 900 km STOREDIST fleet:distances",
            "COPY fleet:a fleet:copy",
            "COPY fleet:a fleet:here DB 1 DB 0",
            "COPY fleet:a fleet:there DB 0 DB 1",
            "PFADD visitors a",
            "PFCOUNT visitors",
            "RENAME fleet:copy fleet:renamed",
            "RENAMENX fleet:renamed fleet:again",
            "PEXPIREAT fleet:again 4102444800000",
            "EXPIRE fleet:range 100000",
            "PERSIST fleet:range",
            "ZADD fleet:gone 1 a",
            "EXPIRE fleet:gone -1",
            "ZADD fleet:deleted 1 a",
            "UNLINK fleet:deleted",
            "EVAL return{redis.call('zadd',KEYS[1],1,'x'),redis.call('zincrby',KEYS[1],5,'x')} 1 fleet:lua",
            "MULTI",
            "ZADD fleet:multi 1 a 2 b",
            "DEL fleet:pop",
            "SELECT 2",
            "ZADD fleet:multi 9 a",
            "SELECT 0",
            "EXEC",
            "PUBLISH channel message",
            "SET fleet:string x",
            "ZADD fleet:late 3 c",
        ],
    );
    let found = same(&mut theirs, &mut ours);
    assert!(found.len() >= 14, "{found:?}");
    assert_eq!(stat(&mut theirs, "sync_full"), 1, "no command needs a dump");
}

#[test]
fn long_values_of_other_types_are_passed_over_and_long_names_are_not() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "ZADD fleet:b 2 b", "RPUSH list 2 1", "SET w1 1"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    let value = "x".repeat(100_000);
    for command in [
        &["SET", "", &value][..],
        &["SET", "fleet:a", &value],
        &["MSET", "fleet:b", &value, "", "y"],
        &["SORT", "list", "BY", "w*", "STORE", "fleet:sorted"],
        &["ZADD", "fleet:a1", "1", &value],
    ] {
        assert!(!theirs.ask(command).starts_with('-'), "{}", command[0]);
    }
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
    let name = format!("fleet:{value}");
    theirs.ask(&["ZADD", &name, "1", "a"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 2);
    theirs.ask(&["SET", &name, "text"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
}

#[test]
fn restored_values_are_followed_and_values_of_other_types_remove_the_key() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a 2.5 b", "SADD plain x", "RPUSH list b a"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    let payload = |client: &mut Client, key: &[u8]| {
        client.send(&request(&[b"DUMP", key]));
        match client.reply().value {
            Value::Bulk(payload) => payload,
            other => panic!("DUMP gives {other:?}"),
        }
    };
    let (sorted_set, set) = (payload(&mut theirs, b"fleet:a"), payload(&mut theirs, b"plain"));
    theirs.send(&request(&[b"RESTORE", b"fleet:b", b"0", &sorted_set]));
    theirs.reply();
    theirs.send(&request(&[b"RESTORE", b"fleet:c", b"9000000", &sorted_set]));
    theirs.reply();
    assert_eq!(same(&mut theirs, &mut ours).len(), 3);
    theirs.send(&request(&[b"RESTORE", b"fleet:b", b"0", &set, b"REPLACE"]));
    theirs.reply();
    run(
        &mut theirs,
        &[
            "SET fleet:c x",
            "SORT list ALPHA STORE fleet:a",
            "ZADD fleet:d 1 a",
            "SDIFFSTORE fleet:d plain",
        ],
    );
    assert_eq!(same(&mut theirs, &mut ours), [""; 0]);
    run(&mut theirs, &["DEL fleet:a fleet:b fleet:c fleet:d", "ZADD fleet:a 7 z"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
    run(&mut theirs, &["ZADD fleet:e 1 x", "RENAME list fleet:e"]);
    assert_eq!(theirs.ask(&["TYPE", "fleet:e"]), "+list\r\n");
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
}

#[test]
fn a_plain_set_as_a_source_is_not_taken_for_nothing() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "ZUNIONSTORE fleet:b 2 fleet:a fleet:none"]);
    same(&mut theirs, &mut ours);
    assert_eq!(stat(&mut theirs, "sync_full"), 1, "an absent source is nothing");
    run(&mut theirs, &["SADD fleet:set x y", "ZUNIONSTORE fleet:c 2 fleet:a fleet:set"]);
    let found = same(&mut theirs, &mut ours);
    assert!(found.iter().any(|key| key.contains("\"x\"")), "{found:?}");
    assert_eq!((stat(&mut theirs, "sync_full"), read_anew(&mut ours)), (1, 1));
}

#[test]
fn what_needs_keys_that_are_not_here_is_read_anew_by_itself() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "ZADD temporary 2 b"]);
    same(&mut theirs, &mut ours);
    for (index, commands) in [
        &["RENAME temporary fleet:b"][..],
        &["ZADD temporary 2 b", "ZUNIONSTORE fleet:c 2 fleet:a temporary"],
        &["MULTI", "ZINCRBY fleet:a 1 a", "ZUNIONSTORE fleet:f 2 fleet:a temporary", "EXEC"],
        &["SELECT 1", "ZADD fleet:d 1 a", "MOVE fleet:d 0", "SELECT 0"],
        &["SELECT 1", "ZADD fleet:e 1 a", "COPY fleet:e fleet:e DB 0", "SELECT 0"],
        &["COPY temporary fleet:g", "PEXPIREAT temporary 4102444800000", "COPY temporary fleet:h"],
        &["SADD plain x", "RENAME plain fleet:b", "ZUNIONSTORE fleet:i 1 fleet:b"],
        &["SET text x", "RENAME text fleet:c"],
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut theirs, commands);
        same(&mut theirs, &mut ours);
        assert_eq!(stat(&mut theirs, "sync_full"), 1, "{commands:?}");
        assert!(read_anew(&mut ours) > index as u64, "{commands:?}");
    }
    run(&mut theirs, &["SELECT 0", "SWAPDB 0 1"]);
    same(&mut theirs, &mut ours);
    assert_eq!(stat(&mut theirs, "sync_full"), 2);
}

#[test]
fn a_key_that_cannot_be_read_alone_is_synchronized_with_all_others() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ACL SETUSER whered on >geheim +psync +replconf +ping", "ZADD fleet:a 1 a"]);
    let follower = Follower::of(&primary, "user = \"whered\"\npassword = \"geheim\"");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    run(&mut theirs, &["ZADD temporary 2 b", "RENAME temporary fleet:b"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 2);
    assert_eq!((stat(&mut theirs, "sync_full"), read_anew(&mut ours)), (2, 0));
    let rights = "+multi +exec +select +config|get +type +zcard +dump +pexpiretime +info ~*";
    run(&mut theirs, &[&format!("ACL SETUSER whered {rights}"), "COPY fleet:a temporary"]);
    run(&mut theirs, &["RENAME temporary fleet:c"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 3);
    assert_eq!((stat(&mut theirs, "sync_full"), read_anew(&mut ours)), (2, 1));
    for start in (0..60_000).step_by(1000) {
        let members = (start..start + 1000).map(|member| format!("{member} m{member}"));
        let members: Vec<String> = members.collect();
        run(&mut theirs, &[&format!("ZADD temporary {}", members.join(" "))]);
    }
    run(&mut theirs, &["RENAME temporary fleet:c"]);
    same(&mut theirs, &mut ours);
    assert_eq!((stat(&mut theirs, "sync_full"), read_anew(&mut ours)), (3, 1));
}

#[test]
fn nothing_is_promoted_and_no_offset_is_told_while_a_key_is_being_read_anew() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    run(&mut theirs, &["ZADD fleet:b 1 old", "ZADD temporary 2 new"]);
    same(&mut theirs, &mut ours);
    // The copy has to wait for the primary, which answers nobody.
    let rename = request(&[b"RENAME", b"temporary", b"fleet:b"]);
    theirs.send(&[rename, request(&[b"CLIENT", b"PAUSE", b"1500", b"ALL"])].concat());
    (0..2).for_each(|_| drop(theirs.reply()));
    while replication(&mut ours).contains("lag_bytes=0") {
        std::thread::yield_now();
    }
    let refused = ours.ask(&["REPLICAOF", "NO", "ONE"]);
    assert!(refused.contains("is being read anew"), "{refused}");
    assert_eq!(words(&mut ours, &["ZRANGE", "fleet:b", "0", "-1"]), ["old"]);
    same(&mut theirs, &mut ours);
    assert_eq!(words(&mut ours, &["ZRANGE", "fleet:b", "0", "-1"]), ["new"]);
    assert_eq!(ours.ask(&["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    assert_eq!(
        (stat(&mut theirs, "sync_full"), ours.ask(&["ZADD", "fleet:b", "3", "c"])),
        (1, ":1\r\n".to_owned())
    );
}

#[test]
fn no_key_is_copied_from_a_valkey_in_import_mode_which_hides_some() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    if theirs.ask(&["CONFIG", "SET", "import-mode", "yes"]).starts_with('-') {
        println!("skipped: this primary has no import mode");
        return;
    }
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    run(&mut theirs, &["ZADD temporary 1 a", "RENAME temporary fleet:a"]);
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
    assert_eq!((stat(&mut theirs, "sync_full"), read_anew(&mut ours)), (2, 0));
}

/// Commands of many clients, of which every third needs keys that are not followed.
#[test]
fn keys_that_are_read_anew_under_load_end_as_at_the_primary() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    let mut compared = 0;
    for round in 0..5 {
        let writer = |number: u64| {
            let (mut client, mut state) = (primary.client(), 4 * round + number);
            std::thread::spawn(move || {
                let mut random = |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % below
                };
                for _ in 0..600 {
                    let command = random_command(&mut random);
                    client.ask(&command.split(' ').collect::<Vec<_>>());
                }
                client.ask(&["EXEC"]);
            })
        };
        let writers: Vec<_> = (0..4).map(writer).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("the primary answers"));
        // No key's time is over while they are compared.
        run(&mut theirs, &(0..5).map(|key| format!("PERSIST fleet:{key}")).collect::<Vec<_>>());
        compared += same(&mut theirs, &mut ours).len();
    }
    assert!(compared > 0, "nothing was left to compare");
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
    assert!(read_anew(&mut ours) > 100);
}

/// A command that the primary may refuse.
fn random_command(random: &mut impl FnMut(u64) -> u64) -> String {
    let mut name = || {
        let of = ["fleet:", "fleet:", "temporary:"][random(3) as usize];
        format!("{of}{}", random(5))
    };
    let (one, other, third) = (name(), name(), name());
    let (member, score) = (random(20), random(1000));
    match random(24) {
        0..8 => format!("ZADD {one} {score} m{member}"),
        8 => format!("ZREM {one} m{member}"),
        9 => format!("RENAME {one} {other}"),
        10 => format!("COPY {one} {other} REPLACE"),
        11 => format!("ZUNIONSTORE {one} 2 {other} {third}"),
        12 => format!("ZDIFFSTORE {one} 2 {other} {third}"),
        13 => format!("ZRANGESTORE {one} {other} 0 5"),
        14 => format!("GEOSEARCHSTORE {one} {other} FROMLONLAT 0 0 BYRADIUS 9000 km COUNT 3"),
        15 => format!("DEL {one} {other}"),
        16 => format!("PEXPIRE {one} {}", 1 + score * 3),
        17 => format!("SADD {one} m{member}"),
        18 => format!("SET {one} m{member}"),
        19 => "MULTI".to_owned(),
        20 => "EXEC".to_owned(),
        21 => format!("ZPOPMIN {one} 2"),
        22 => format!("ZINCRBY {one} 1.5 m{member}"),
        _ => format!(
            "EVAL redis.call('zadd',KEYS[1],{score},'s');return{{redis.call('rename',KEYS[1],KEYS[2])}} 2 {one} {other}"
        ),
    }
}

#[test]
fn only_the_database_that_is_named_is_followed() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 zero", "SELECT 3", "ZADD fleet:a 1 three"]);
    let follower = Follower::of(&primary, "database = 3");
    let mut ours = follower.client();
    settle(&mut theirs);
    run(
        &mut theirs,
        &["ZADD fleet:a 2 zero", "SELECT 3", "ZADD fleet:b 1 x", "SELECT 4", "FLUSHDB", "SELECT 0"],
    );
    settle(&mut theirs);
    run(&mut theirs, &["SELECT 3"]);
    run(&mut ours, &["SELECT 3"]);
    assert_eq!(fleet(&mut ours), fleet(&mut theirs));
    assert_eq!(fleet(&mut ours).len(), 2);
    run(&mut ours, &["SELECT 0", "ZADD fleet:a 1 own"]);
    run(&mut theirs, &["MOVE fleet:b 5", "FLUSHALL"]);
    settle(&mut theirs);
    assert_eq!(fleet(&mut ours).len(), 1, "own keys stay");
    run(&mut ours, &["SELECT 3"]);
    assert_eq!(fleet(&mut ours), [""; 0]);
}

#[test]
fn cut_connections_go_on_without_a_dump() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    for score in 0..5 {
        run(&mut theirs, &["CLIENT KILL TYPE replica", &format!("ZADD fleet:a {score} m{score}")]);
        same(&mut theirs, &mut ours);
    }
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
    assert!(stat(&mut theirs, "sync_partial_ok") >= 5);
}

#[test]
fn a_restart_goes_on_from_the_position_that_was_kept() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "SELECT 5", "ZADD fleet:a 1 elsewhere"]);
    let mut follower = Follower::of(&primary, "");
    same(&mut theirs, &mut follower.client());
    follower.stop();
    run(&mut theirs, &["ZADD fleet:a 2 b", "ZADD fleet:b 1 a"]);
    follower.start().expect("it starts again");
    let mut ours = follower.client();
    assert_eq!(same(&mut theirs, &mut ours).len(), 2);
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
    assert_eq!(stat(&mut theirs, "sync_partial_ok"), 1);
    assert!(replication(&mut ours).contains("partial_syncs=1"));
}

#[test]
fn old_data_serve_while_the_primary_is_away_and_another_one_replaces_them() {
    let Some(mut primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:old 1 a"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    primary.replace();
    assert_eq!(ours.ask(&["ZCARD", "fleet:old"]), ":1\r\n");
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:new 1 a"]);
    let found = same(&mut theirs, &mut ours);
    assert!(found.len() == 1 && found[0].starts_with("fleet:new"), "{found:?}");
}

#[test]
fn other_keys_of_the_section_give_up_what_was_followed_before() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "ZADD cars:a 1 a"]);
    let mut follower = Follower::of(&primary, "");
    same(&mut theirs, &mut follower.client());
    follower.stop();
    follower.configure(&format!(
        "[[replica]]\nof = \"redis://{}\"\nmatch = [\"cars:*\"]\n",
        primary.address
    ));
    follower.start().expect("it starts again");
    let mut ours = follower.client();
    settle(&mut theirs);
    assert_eq!(words(&mut ours, &["KEYS", "*"]), ["cars:a"]);
    follower.stop();
    follower.configure("");
    follower.start().expect("it starts again");
    assert_eq!(words(&mut follower.client(), &["KEYS", "*"]), [""; 0]);
}

#[test]
fn own_keys_that_would_be_hidden_refuse_the_start() {
    let Some(primary) = Primary::start() else { return };
    let mut follower = Follower::with("");
    run(&mut follower.client(), &["ZADD fleet:mine 1 a"]);
    follower.stop();
    follower.configure(&format!(
        "[[replica]]\nof = \"redis://{}\"\nmatch = [\"fleet:*\"]\n",
        primary.address
    ));
    let error = follower.start().expect_err("a key would be hidden").to_string();
    assert!(error.contains("'fleet:mine'") && error.contains("allowed:"), "{error}");
    follower.configure("");
    follower.start().expect("without it, it starts");
    assert_eq!(follower.client().ask(&["ZCARD", "fleet:mine"]), ":1\r\n");
}

#[test]
fn keys_go_when_the_primary_says_so() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    run(&mut theirs, &["ZADD fleet:a 1 a", "PEXPIRE fleet:a 30", "ZADD fleet:b 1 a"]);
    // The primary removes the key when somebody asks for it after that time.
    run(&mut theirs, &["BLPOP none 0.05", "EXISTS fleet:a"]);
    let found = same(&mut theirs, &mut ours);
    assert!(found.len() == 1 && found[0].starts_with("fleet:b"), "{found:?}");
}

#[test]
fn a_primary_with_users_lets_one_in_that_may_replicate() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ACL SETUSER whered on >geheim +psync +replconf +ping", "ZADD fleet:a 1 a"]);
    let follower = Follower::of(&primary, "user = \"whered\"\npassword = \"geheim\"");
    let mut ours = follower.client();
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
}

#[test]
fn watched_followed_keys_fail_a_transaction_when_they_change() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    run(&mut ours, &["WATCH fleet:a"]);
    run(&mut theirs, &["ZADD fleet:a 2 a"]);
    settle(&mut theirs);
    run(&mut ours, &["MULTI", "ZSCORE fleet:a a"]);
    assert_eq!(ours.ask(&["EXEC"]), "*-1\r\n");
    run(&mut ours, &["WATCH fleet:a", "MULTI", "ZSCORE fleet:a a"]);
    assert_eq!(ours.ask(&["EXEC"]), "*1\r\n$1\r\n2\r\n");
}

/// The primary changes the key all the time, each time behind something that takes long: so there
/// is always a transaction that asks to be let in meanwhile.
#[test]
fn a_transaction_sees_what_was_read_since_watch_or_is_given_up() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let large: Vec<String> = (0..3000).map(|member| format!("{member}.5 m{member}")).collect();
    run(&mut theirs, &["ZADD fleet:a 0 m", &format!("ZADD fleet:large {}", large.join(" "))]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    let changes = std::thread::spawn(move || {
        let change = [
            request(&[b"MULTI"]),
            request(&[b"ZUNIONSTORE", b"fleet:copy", b"1", b"fleet:large"]),
            request(&[b"ZINCRBY", b"fleet:a", b"1", b"m"]),
            request(&[b"EXEC"]),
        ];
        for _ in 0..1500 {
            theirs.send(&change.concat());
            (0..change.len()).for_each(|_| drop(theirs.reply()));
        }
        // A dump in the place of what was read is a change, too.
        for _ in 0..5 {
            run(&mut theirs, &["SWAPDB 0 0", "ZINCRBY fleet:a 1 m"]);
            settle(&mut theirs);
        }
    });
    let (mut done, mut given_up) = (0, 0);
    while !changes.is_finished() {
        run(&mut ours, &["WATCH fleet:a"]);
        let read = ours.ask(&["ZSCORE", "fleet:a", "m"]);
        let ask = [&[&b"MULTI"[..]][..], &[b"ZSCORE", b"fleet:a", b"m"], &[b"EXEC"]];
        ours.send(&ask.map(request).concat());
        (0..2).for_each(|_| drop(ours.reply()));
        match ours.reply().value {
            Value::Array(replies) => {
                let [Value::Bulk(seen)] = &replies[..] else { panic!("{replies:?}") };
                let seen = String::from_utf8_lossy(seen);
                assert_eq!(format!("${}\r\n{seen}\r\n", seen.len()), read);
                done += 1;
            }
            _ => given_up += 1,
        }
    }
    changes.join().expect("the primary takes all changes");
    assert!(done > 0 && given_up > 0, "{done} done, {given_up} given up");
}

/// The status and the body of an answer of HTTP.
fn http(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_link_that_is_too_far_behind_makes_the_server_not_ready() {
    let Some(mut primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a"]);
    let more = "max_lag_seconds = 0.1\n[http]\nlisten = [\"127.0.0.1:0\"]";
    let follower = Follower::of(&primary, more);
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    assert!(http(follower.http(), "/readyz").starts_with("HTTP/1.1 200"));
    let metrics = http(follower.http(), "/metrics");
    let labels = format!("{{replica=\"redis://{0}\",primary=\"{0}\"}}", primary.address);
    for expected in
        [format!("whered_replica_up{labels} 1"), format!("whered_replica_lag_bytes{labels} 0")]
    {
        assert!(metrics.contains(&expected), "{expected}: {metrics}");
    }
    primary.end();
    let behind = |answer: &String| answer.starts_with("HTTP/1.1 503");
    let answer = (0..10_000).map(|_| http(follower.http(), "/readyz")).find(behind);
    let answer = answer.expect("it is behind soon");
    assert!(answer.contains("\"behind\"") && answer.contains("allowed: 0.1 s"), "{answer}");
    assert_eq!(ours.ask(&["ZCARD", "fleet:a"]), ":1\r\n", "the old data serve");
}

#[test]
fn a_primary_is_followed_over_tls_if_its_certificate_is_right() {
    let folder = Directory::new();
    certificates(&folder.0);
    let Some((primary, port)) = Primary::start_with_tls(&folder.0) else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["ZADD fleet:a 1 a"]);
    let section = |more: &str| {
        format!("[[replica]]\nof = \"rediss://localhost:{port}\"\nmatch = [\"fleet:*\"]\n{more}")
    };
    let ca = format!("ca = \"{}\"\n", folder.0.join("ca.pem").display());
    let mut follower = Follower::with(&section(&ca));
    let mut ours = follower.client();
    assert_eq!(same(&mut theirs, &mut ours).len(), 1);
    follower.stop();
    // The authorities of this system know nothing of that one.
    follower.configure(&section(""));
    follower.start().expect("it starts");
    let mut ours = follower.client();
    let fault =
        (0..10_000).map(|_| replication(&mut ours)).find(|text| text.contains("state=down"));
    let fault = fault.expect("it fails soon");
    assert!(fault.contains("ertificate"), "{fault}");
    assert_eq!(ours.ask(&["ZCARD", "fleet:a"]), ":1\r\n", "the old data serve");
}

/// An authority, and a server's certificate and key that are of it.
fn certificates(folder: &std::path::Path) {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).expect("a certificate");
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned()];
    let parameters = rcgen::CertificateParams::new(names).expect("parameters");
    let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).expect("it can be written");
    }
}

#[test]
fn an_explanation_says_which_primary_and_offset_it_is_of() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    run(&mut theirs, &["GEOADD fleet:a 13 52 ann"]);
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    same(&mut theirs, &mut ours);
    let asked = "GEOSEARCH fleet:a FROMLONLAT 13 52 BYRADIUS 1 km EXPLAIN";
    let reply = ours.ask(&asked.split(' ').collect::<Vec<_>>());
    let followed = format!(r#""followed":{{"name":"\"redis://{}\" "#, primary.address);
    assert!(reply.contains(&followed) && reply.contains("\"offset\":"), "{reply}");
}

#[test]
fn many_moves_of_one_key_end_as_at_the_primary() {
    let Some(primary) = Primary::start() else { return };
    let mut theirs = primary.client();
    let follower = Follower::of(&primary, "");
    let mut ours = follower.client();
    settle(&mut theirs);
    let moves = |round: usize| {
        let one = |n: usize| {
            let (member, score) = (format!("m{}", n % 500), n * 7_919 * (round + 1));
            let key: &[u8] = if n.is_multiple_of(100) { b"fleet:b" } else { b"fleet:a" };
            request(&[b"ZADD", key, score.to_string().as_bytes(), member.as_bytes()])
        };
        (0..5_000).flat_map(one).collect::<Vec<u8>>()
    };
    for round in 0..4 {
        theirs.send(&moves(round));
        (0..5_000).for_each(|_| drop(theirs.reply()));
    }
    assert_eq!(same(&mut theirs, &mut ours).len(), 2);
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
}
