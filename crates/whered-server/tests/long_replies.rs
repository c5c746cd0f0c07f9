//! Replies that are longer than what is sent at once: whole, in order, and held up by nobody.

mod support;

use support::Door;
use support::client::{Client, Value, request as request_of};

/// More than is written in one part.
const POINTS: usize = 60_000;

fn door_with_points() -> (Door, Client) {
    let door = Door::in_memory();
    let mut client = door.client();
    for first in (0..POINTS).step_by(1000) {
        let mut words = vec!["GEOADD".to_owned(), "k".to_owned()];
        for number in first..first + 1000 {
            let (east, north) = (number % 300, number / 300);
            words.extend([format!("{}", east as f64 / 100.0), format!("{}", north as f64 / 100.0)]);
            words.push(format!("point:{number}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(client.ask(&words), ":1000\r\n");
    }
    (door, client)
}

fn request(words: &[&str]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    request_of(&words)
}

const ALL: [&str; 8] = ["GEOSEARCH", "k", "FROMLONLAT", "1.5", "1", "BYRADIUS", "1000", "km"];

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("an array was expected, not {other:?}"),
    }
}

#[test]
fn a_pipeline_behind_a_long_reply_is_answered_in_order() {
    let (_door, mut client) = door_with_points();
    let with_all = [&ALL[..], &["WITHDIST", "WITHCOORD", "WITHHASH", "ASC"]].concat();
    let mut bytes = request(&ALL);
    bytes.extend(request(&["PING"]));
    bytes.extend(request(&with_all));
    bytes.extend(request(&["ZCARD", "k"]));
    client.send(&bytes);
    assert_eq!(array(client.reply().value).len(), POINTS);
    assert_eq!(client.reply().bytes, b"+PONG\r\n");
    let hits = array(client.reply().value);
    assert_eq!(hits.len(), POINTS);
    assert!(hits.into_iter().all(|hit| array(hit).len() == 4));
    assert_eq!(client.reply().bytes, format!(":{POINTS}\r\n").as_bytes());
}

#[test]
fn a_long_reply_in_a_transaction_has_its_place() {
    let (_door, mut client) = door_with_points();
    assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
    assert_eq!(client.ask(&ALL), "+QUEUED\r\n");
    assert_eq!(client.ask(&["ZCARD", "k"]), "+QUEUED\r\n");
    client.send(&request(&["EXEC"]));
    let replies = array(client.reply().value);
    assert_eq!(replies.len(), 2);
    assert_eq!(array(replies[0].clone()).len(), POINTS);
    assert_eq!(replies[1], Value::Integer(POINTS as i64));
}

#[test]
fn a_long_reply_that_nobody_wants_is_not_sent() {
    let (_door, mut client) = door_with_points();
    client.send(&request(&["CLIENT", "REPLY", "SKIP"]));
    client.send(&request(&ALL));
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn a_long_reply_is_the_same_beside_clients_with_brief_ones() {
    let (door, mut client) = door_with_points();
    for words in [&ALL[..], &[&ALL[..], &["WITHHASH"]].concat()] {
        client.send(&request(words));
        let alone = client.reply().bytes;
        let mut other = door.client();
        for _ in 0..5 {
            assert_eq!(other.ask(&["PING"]), "+PONG\r\n");
            client.send(&request(words));
            for _ in 0..20 {
                assert_eq!(other.ask(&["ZCARD", "k"]), format!(":{POINTS}\r\n"));
            }
            assert!(client.reply().bytes == alone, "{words:?}");
        }
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_neither_readers_nor_writers() {
    let (door, mut writer) = door_with_points();
    let mut idle = door.client();
    // Some 40 MB, none of which is taken.
    for _ in 0..50 {
        idle.send(&request(&ALL));
    }
    // The first reply has begun, and the client takes nothing of it.
    idle.stream.peek(&mut [0]).expect("the server answers");
    // Whoever waited for the idle client would run into the time limit of its own connection.
    for _ in 0..100 {
        assert_eq!(writer.ask(&["GEOADD", "k", "CH", "1", "1", "point:7"]).len(), 4);
        assert_eq!(writer.ask(&["PING"]), "+PONG\r\n");
        assert_eq!(writer.ask(&["GEOADD", "k", "CH", "2", "1", "point:7"]).len(), 4);
    }
    // What was found then is what it gets now, however the points have moved since.
    let first = array(idle.reply().value);
    assert_eq!(first.len(), POINTS);
}
