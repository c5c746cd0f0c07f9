//! Keys that are followed from another server, as clients meet them: readable like own ones, and
//! refused for writing in every way. The link is played by the test.

mod support;

use std::sync::Arc;

use support::Door;
use support::client::{Client, moves};
use whered_engine::{
    EngineOptions, KeyRole, Keyspace, Route, ScoreRules, SlotOwners, StreamPosition, key_slot,
    served_number,
};

const READONLY: &str = "READONLY You can't write against a read only replica.";

fn stream(offset: i64) -> StreamPosition {
    let replication_id = "0123456789abcdef0123456789abcdef01234567".parse().expect("40 digits");
    StreamPosition { replication_id, offset, database: 0 }
}

fn fleet(slots: Option<Arc<SlotOwners>>) -> Route {
    Route { database: 0, patterns: vec![b"fleet:*".to_vec()], links: vec![0], slots }
}

/// Applies changes as the link does.
fn follow(keyspace: &Keyspace, key: &str, members: &[(&str, f64)]) {
    let scores: Vec<(&[u8], f64)> = members.iter().map(|(m, s)| (m.as_bytes(), *s)).collect();
    let link = keyspace.link("primary").expect("one is free");
    let add = || {
        let (number, rules) = (served_number(link), ScoreRules::default());
        keyspace.add_scores(number, key.as_bytes(), &scores, rules).expect("there is room");
        ((), stream(1))
    };
    keyspace.follow(link, 0, add).expect("there is room");
}

/// The bytes of the reply to a request of words.
fn ask(client: &mut Client, words: &str) -> String {
    client.ask(&words.split(' ').collect::<Vec<_>>())
}

#[test]
fn followed_keys_are_read_like_own_ones() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    follow(keyspace, "fleet:1", &[("a", 1.0), ("b", 2.5)]);
    let mut client = door.client();
    ask(&mut client, "ZADD own 7 x");
    assert!(ask(&mut client, "ZSCORE fleet:1 b").contains("2.5"));
    assert!(ask(&mut client, "ZCARD fleet:1").contains('2'));
    assert!(ask(&mut client, "TYPE fleet:1").contains("zset"));
    assert!(ask(&mut client, "EXISTS fleet:1 own fleet:2").contains('2'));
    assert!(ask(&mut client, "DBSIZE").contains('2'));
    for all in ["KEYS *", "SCAN 0", "ZUNION 2 fleet:1 own"] {
        let found = ask(&mut client, all);
        let own = if all.starts_with('Z') { ["a", "x"] } else { ["fleet:1", "own"] };
        assert!(own.iter().all(|key| found.contains(key)), "{all}: {found}");
    }
    // What is read there may be stored here.
    for store in ["ZUNIONSTORE mine 2 fleet:1 own", "ZRANGESTORE mine fleet:1 0 -1"] {
        assert!(!ask(&mut client, store).contains("READONLY"), "{store}");
    }
    assert!(ask(&mut client, "COPY fleet:1 mine2").contains('1'));
    assert!(ask(&mut client, "ZCARD mine2").contains('2'));
}

#[test]
fn every_write_to_a_followed_key_is_refused_as_a_replica_does() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    follow(keyspace, "fleet:1", &[("a", 1.0)]);
    let mut client = door.client();
    ask(&mut client, "ZADD own 7 x");
    ask(&mut client, "SELECT 1");
    ask(&mut client, "ZADD fleet:9 7 x");
    ask(&mut client, "SELECT 0");
    for write in [
        "ZADD fleet:1 1 a",
        "GEOADD fleet:1 8.7 50.1 a",
        "ZREM fleet:1 a",
        "ZPOPMIN fleet:1",
        "BZPOPMIN own fleet:2 0",
        "DEL own fleet:1",
        "UNLINK fleet:2",
        "SET fleet:1 x",
        "MSET own x fleet:1 y",
        "INCR fleet:3",
        "GETDEL fleet:1",
        "EXPIRE fleet:1 10",
        "PERSIST fleet:1",
        "RENAME fleet:1 other",
        "RENAME own fleet:1",
        "COPY own fleet:1",
        "MOVE fleet:1 1",
        "ZUNIONSTORE fleet:1 1 own",
        "ZRANGESTORE fleet:1 own 0 -1",
        "GEOSEARCHSTORE fleet:1 own FROMLONLAT 8 50 BYRADIUS 1 km",
        "GEORADIUS own 8 50 1 km STORE fleet:1",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 1",
        "SWAPDB 1 0",
    ] {
        let answer = ask(&mut client, write);
        assert!(answer.contains(READONLY), "{write}: {answer}");
    }
    ask(&mut client, "SELECT 1");
    assert!(ask(&mut client, "MOVE fleet:9 0").contains(READONLY));
    assert!(!ask(&mut client, "FLUSHDB").contains("READONLY"), "nothing of it is followed");
    ask(&mut client, "SELECT 0");
    assert!(ask(&mut client, "EXISTS own fleet:1").contains('2'));
    // A transaction with such a write is refused as a whole.
    ask(&mut client, "MULTI");
    ask(&mut client, "ZADD own 1 y");
    assert!(ask(&mut client, "ZADD fleet:1 1 y").contains(READONLY));
    assert!(ask(&mut client, "EXEC").contains("EXECABORT"));
    assert!(ask(&mut client, "ZCARD own").contains('1'));
    // One that was queued before the key was followed, too.
    ask(&mut client, "MULTI");
    ask(&mut client, "ZADD late 1 y");
    keyspace.set_routes(vec![Route { patterns: vec![b"*".to_vec()], ..fleet(None) }]);
    assert!(ask(&mut client, "EXEC").contains(READONLY));
}

#[test]
fn a_transaction_is_given_up_when_a_watched_key_lies_elsewhere_now() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    let mut client = door.client();
    ask(&mut client, "ZADD fleet:1 1 a");
    ask(&mut client, "WATCH fleet:1");
    keyspace.set_routes(vec![fleet(None)]);
    follow(keyspace, "fleet:1", &[("a", 1.0)]);
    ask(&mut client, "MULTI");
    ask(&mut client, "ZSCORE fleet:1 a");
    assert_eq!(ask(&mut client, "EXEC"), "*-1\r\n");
    ask(&mut client, "WATCH fleet:1");
    ask(&mut client, "MULTI");
    ask(&mut client, "ZSCORE fleet:1 a");
    assert!(ask(&mut client, "EXEC").starts_with("*1\r\n"));
}

#[test]
fn moves_of_a_pipeline_to_a_followed_key_are_refused_one_by_one() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    let mut client = door.client();
    client.send(&moves("fleet:1", "50.1", 40));
    for _ in 0..40 {
        let answer = String::from_utf8_lossy(&client.reply().bytes).into_owned();
        assert!(answer.contains(READONLY), "{answer}");
    }
    assert!(ask(&mut client, "PING").contains("PONG"));
    assert_eq!(keyspace.len(served_number(0)), 0);
}

#[test]
fn keys_whose_link_has_no_data_yet_are_being_loaded_and_never_absent() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    let mut client = door.client();
    ask(&mut client, "ZADD own 7 x");
    let reads = [
        "ZSCORE fleet:1 a",
        "ZUNION 2 own fleet:1",
        "EXISTS fleet:1",
        "TYPE fleet:1",
        "TTL fleet:1",
    ];
    let lists = ["SCAN 0", "KEYS *", "DBSIZE", "RANDOMKEY"];
    for read in reads.iter().chain(&lists) {
        let answer = ask(&mut client, read);
        assert!(answer.contains("LOADING this key is followed"), "{read}: {answer}");
    }
    assert!(ask(&mut client, "ZADD fleet:1 1 a").contains(READONLY));
    assert!(ask(&mut client, "ZSCORE own x").contains('7'), "own keys are there");
    follow(keyspace, "fleet:1", &[("a", 1.0)]);
    assert_eq!(keyspace.role_of(0, b"fleet:1"), KeyRole::Followed);
    for read in reads.iter().chain(&lists) {
        let answer = ask(&mut client, read);
        assert!(!answer.contains("LOADING"), "{read}: {answer}");
    }
}

#[test]
fn strings_of_a_followed_name_are_an_error_and_never_nil() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    follow(keyspace, "fleet:1", &[("a", 1.0)]);
    let mut client = door.client();
    for read in ["GET fleet:1", "GET fleet:2", "MGET own fleet:2", "STRLEN fleet:2"] {
        let answer = ask(&mut client, read);
        assert!(answer.contains("only its sorted sets are here"), "{read}: {answer}");
    }
}

#[test]
fn writes_to_a_followed_cluster_are_sent_to_the_owner_of_the_slot() {
    let door = Door::in_memory();
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    let slots = Arc::new(SlotOwners::default());
    let slot = key_slot(b"fleet:1");
    slots.set(slot, Some(0));
    keyspace.set_routes(vec![fleet(Some(Arc::clone(&slots)))]);
    let mut client = door.client();
    assert!(ask(&mut client, "ZADD fleet:1 1 a").contains(READONLY), "nobody knows the owner");
    slots.set_address(0, Some("192.0.2.7:6379".to_owned()));
    let moved = format!("MOVED {slot} 192.0.2.7:6379");
    assert!(ask(&mut client, "ZADD fleet:1 1 a").contains(&moved));
    assert!(ask(&mut client, "ZADD fleet:2 1 a").contains(READONLY), "that slot has no owner");
}

#[test]
fn promoted_keys_are_own_keys_of_clients() {
    let door = Door::with(EngineOptions::default(), |_| {});
    let keyspace = door.engine.keyspace();
    keyspace.link("primary").expect("one is free");
    keyspace.set_routes(vec![fleet(None)]);
    follow(keyspace, "fleet:1", &[("a", 1.0)]);
    let mut client = door.client();
    assert!(ask(&mut client, "ZADD fleet:1 2 b").contains(READONLY));
    assert_eq!(keyspace.promote(&[0]).map(|it| it.value), Ok(1));
    assert!(ask(&mut client, "ZADD fleet:1 2 b").contains('1'));
    assert!(ask(&mut client, "ZCARD fleet:1").contains('2'));
}
