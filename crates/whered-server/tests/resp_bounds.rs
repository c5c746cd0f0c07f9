//! What one client asks for costs bounded memory, and no more time of others than it must.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use support::Door;
use support::client::{Client, request as request_of};
use whered_engine::EngineOptions;

fn request(words: &[&str]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    request_of(&words)
}

fn load(client: &mut Client, points: usize) {
    for first in (0..points).step_by(1000) {
        let mut words = vec!["GEOADD".to_owned(), "k".to_owned()];
        for number in first..first + 1000 {
            let (east, north) = (number % 300, number / 300);
            words.extend([format!("{}", east as f64 / 100.0), format!("{}", north as f64 / 100.0)]);
            words.push(format!("point:{number}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(client.ask(&words), ":1000\r\n");
    }
}

/// Whether the server ends the connection.
fn is_closed(client: &mut Client) -> bool {
    client.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
    let mut bytes = [0; 4096];
    loop {
        match client.stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
            Err(_) => return false,
        }
    }
}

const SORTED: [&str; 9] =
    ["GEOSEARCH", "k", "FROMLONLAT", "1.5", "1", "BYRADIUS", "1000", "km", "ASC"];

#[test]
fn hits_that_wait_to_be_told_count_among_the_buffers() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.client_buffers_limit_bytes = 1 << 20;
    });
    let mut client = door.client();
    load(&mut client, 60_000);
    // 60,000 places and distances are 1.4 MB; a tenth of them are not a megabyte.
    let few = [&SORTED[..], &["COUNT", "6000"]].concat();
    assert!(client.ask(&few).starts_with("*6000\r\n"));
    let mut greedy = door.client();
    greedy.send(&request(&SORTED));
    assert!(is_closed(&mut greedy));
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn the_queue_of_a_transaction_counts_among_the_buffers() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.client_buffers_limit_bytes = 2 << 20;
    });
    let mut greedy = door.client();
    assert_eq!(greedy.ask(&["MULTI"]), "+OK\r\n");
    let text = "x".repeat(100_000);
    for _ in 0..30 {
        // It may be closed already.
        let _ = greedy.stream.write_all(&request(&["SET", "k", &text]));
    }
    assert!(is_closed(&mut greedy));
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn a_long_reply_in_a_transaction_is_not_made_beyond_the_limit() {
    let door =
        Door::with(EngineOptions::default(), |options| options.output_buffer_limit_bytes = 100_000);
    let mut client = door.client();
    load(&mut client, 20_000);
    let mut greedy = door.client();
    assert_eq!(greedy.ask(&["MULTI"]), "+OK\r\n");
    assert_eq!(greedy.ask(&SORTED), "+QUEUED\r\n");
    assert_eq!(greedy.ask(&["SET", "done", "1"]), "+QUEUED\r\n");
    greedy.send(&request(&["EXEC"]));
    assert!(is_closed(&mut greedy));
    // All of the transaction has run.
    assert_eq!(client.ask(&["GET", "done"]), "$1\r\n1\r\n");
}

#[test]
fn a_watched_key_that_another_database_gives_is_changed() {
    let door = Door::in_memory();
    let (mut client, mut other) = (door.client(), door.client());
    let mut is_given_up = |change: &[&[&str]]| {
        assert_eq!(client.ask(&["WATCH", "k"]), "+OK\r\n");
        for words in change {
            let answer = other.ask(words);
            assert!(answer.starts_with('+') || answer.starts_with(':'), "{words:?}: {answer}");
        }
        assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
        assert_eq!(client.ask(&["PING"]), "+QUEUED\r\n");
        client.ask(&["EXEC"]) == "*-1\r\n"
    };
    let one = [&["SELECT", "1"][..], &["SET", "k", "of one"], &["SELECT", "0"]];
    assert!(!is_given_up(&one), "another database's key of that name is another key");
    let moved = [&["SELECT", "1"][..], &["MOVE", "k", "0"], &["SELECT", "0"]];
    assert!(is_given_up(&moved), "MOVE has made the key");
    assert!(!is_given_up(&one));
    assert!(is_given_up(&[&["SWAPDB", "0", "1"]]), "SWAPDB has put another one in its place");
    assert!(!is_given_up(&[&["SWAPDB", "2", "3"]]));
    assert!(!is_given_up(&[&["SET", "other", "1"]]));
    assert!(is_given_up(&[&["SET", "k", "1"]]));
}

#[test]
fn watching_many_keys_takes_no_time_for_each_pair_of_them() {
    let door = Door::in_memory();
    let mut client = door.client();
    let names: Vec<String> = (0..200_000).map(|number| format!("key:{number}")).collect();
    let words: Vec<&str> = ["WATCH"].into_iter().chain(names.iter().map(String::as_str)).collect();
    // Pairs would be 20,000 million: the client would give up before.
    assert_eq!(client.ask(&words), "+OK\r\n");
    assert_eq!(client.ask(&["UNWATCH"]), "+OK\r\n");
}

#[test]
fn a_polygon_of_too_many_vertices_is_refused() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["GEOADD", "k", "1", "1", "m"]), ":1\r\n");
    let mut ask = |count: usize| {
        let places: Vec<String> = (0..count)
            .map(|number| number as f64 / count as f64 * std::f64::consts::TAU)
            .flat_map(|turn| [turn.cos() * 2.0, turn.sin() * 2.0])
            .map(|degrees| format!("{degrees:.6}"))
            .collect();
        let count = count.to_string();
        let mut words = vec!["GEOSEARCH", "k", "BYPOLYGON", &count];
        words.extend(places.iter().map(String::as_str));
        client.ask(&words)
    };
    assert_eq!(ask(10_000), "*1\r\n$1\r\nm\r\n");
    let refused = "-ERR a polygon of more than 10000 vertices is not searched\r\n";
    assert_eq!(ask(10_001), refused);
}
