//! `SORT` of sorted sets, compared with Debian's redis-server: the same bytes back.
//!
//! Without redis-server the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod support;

#[path = "differential/peer.rs"]
mod peer;

use peer::Peer;
use support::Door;
use support::client::{Client, request};

/// A connection to each server, ours first; `None` without redis-server.
fn servers() -> Option<(Door, Peer, [Client; 2])> {
    let Some(peer) = Peer::start() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
        return None;
    };
    let door = Door::in_memory();
    let clients = [door.client(), Client::connect(peer.address)];
    Some((door, peer, clients))
}

/// Sends a request to both, and gives what they say, which shall be equal.
fn both(clients: &mut [Client; 2], words: &[&[u8]]) -> String {
    let [ours, theirs] = clients.each_mut().map(|client| {
        client.send(&request(words));
        client.reply()
    });
    let shown: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
    assert_eq!(ours.bytes, theirs.bytes, "{shown:?}\n  whered: {ours:?}\n  redis:  {theirs:?}");
    ours.bytes.escape_ascii().to_string()
}

fn line(clients: &mut [Client; 2], text: &str) -> String {
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    both(clients, &words)
}

const BEFORE: &[&str] = &[
    "ZADD numbers 3 10 1 9 2 -4 7 0.5",
    "ZADD names 1 b 2 a 3 C 4 c",
    "ZADD same 1 x",
    "SET text 5",
    "SET weight_a 2",
    "SET weight_b 1.5",
    "SET weight_c zz",
    "SET pre_a->post 7",
    "SET data_a first",
    "SET data_c 12",
    "ZADD weight_10 1 x",
];

const REQUESTS: &[&str] = &[
    "SORT",
    "SORT missing",
    "SORT missing BY w_* GET #",
    "SORT text",
    "SORT_RO text",
    "SORT numbers",
    "SORT_RO numbers",
    "SORT numbers DESC",
    "SORT numbers ASC DESC ASC",
    "SORT numbers ALPHA",
    "SORT numbers alpha desc",
    "SORT numbers LIMIT 1 2",
    "SORT numbers LIMIT -5 2",
    "SORT numbers LIMIT 1 -7",
    "SORT numbers LIMIT 1 0",
    "SORT numbers LIMIT 9 9",
    "SORT numbers LIMIT 4 1",
    "SORT numbers LIMIT 0 9223372036854775807",
    "SORT numbers LIMIT 1",
    "SORT numbers LIMIT x 1",
    "SORT numbers LIMIT 1 x",
    "SORT numbers BY",
    "SORT numbers GET",
    "SORT numbers NOSUCH",
    "SORT_RO numbers STORE out",
    "SORT numbers BY nosort",
    "SORT numbers BY nosort DESC",
    "SORT numbers BY nosort LIMIT 1 2",
    "SORT numbers BY nosort DESC LIMIT 1 2",
    "SORT numbers BY nosort DESC LIMIT 3 9",
    "SORT numbers BY nosort LIMIT 4 9",
    "SORT numbers BY nosort LIMIT 9 9",
    "SORT names",
    "SORT names ALPHA",
    "SORT names ALPHA DESC GET #",
    "SORT names BY weight_*",
    "SORT names BY weight_* ALPHA",
    "SORT names BY weight_* ALPHA DESC",
    "SORT names BY nosort GET # GET data_* GET weight_* GET nothing GET text",
    "SORT names BY nosort GET pre_*->post GET pre_*-> GET *",
    "SORT names BY absent_*",
    "SORT numbers BY weight_*",
    "SORT numbers BY weight_* GET weight_*",
    "SORT same GET # GET #",
    "SORT same BY nosort LIMIT 0 1",
];

#[test]
fn sorted_members_are_those_of_redis() {
    let Some((_door, _peer, mut clients)) = servers() else { return };
    BEFORE.iter().for_each(|words| drop(line(&mut clients, words)));
    REQUESTS.iter().for_each(|words| drop(line(&mut clients, words)));
    for number in
        ["", " 7", "7 ", "0x1p3", "1e999", "1e-999", "nan", "inf", "-inf", "+.5e1", "1\x002"]
    {
        both(&mut clients, &[b"DEL", b"one"]);
        both(&mut clients, &[b"ZADD", b"one", b"1", number.as_bytes(), b"2", b"3"]);
        both(&mut clients, &[b"SORT", b"one"]);
        both(&mut clients, &[b"SET", b"w_3", number.as_bytes()]);
        both(&mut clients, &[b"SORT", b"one", b"BY", b"w_*"]);
    }
}

#[test]
fn random_requests_are_answered_as_by_redis() {
    let Some((_door, _peer, mut clients)) = servers() else { return };
    // A linear congruential generator (Knuth, MMIX): the same requests on every machine.
    let mut state = 49_u64;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..40 {
        both(&mut clients, &[b"FLUSHALL"]);
        for number in 0..below(200) {
            let member = match below(3) {
                0 => format!("{}", below(1000)),
                1 => format!("-{}.25", below(1000)),
                _ => format!("{number}e1"),
            };
            let score = below(50).to_string();
            both(&mut clients, &[b"ZADD", b"k", score.as_bytes(), member.as_bytes()]);
            // Redis orders keys with equal strings in any way, so that each has its own.
            let weight = (below(1000) * 1000 + number).to_string();
            both(&mut clients, &[b"SET", format!("w_{member}").as_bytes(), weight.as_bytes()]);
        }
        for _ in 0..20 {
            let mut words = vec!["SORT".to_owned(), "k".to_owned()];
            let options: [&[&str]; 6] = [
                &["DESC"],
                &["ALPHA"],
                &["BY", "w_*"],
                &["BY", "nosort"],
                &["GET", "w_*", "GET", "#"],
                &["GET", "#"],
            ];
            for option in options {
                if below(3) == 0 {
                    words.extend(option.iter().map(|word| (*word).to_owned()));
                }
            }
            if below(2) == 0 {
                let [offset, count] = [250, 60].map(|most| below(most) as i64 - 5);
                words.extend(["LIMIT".to_owned(), offset.to_string(), count.to_string()]);
            }
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            both(&mut clients, &words);
        }
    }
}

#[test]
fn what_would_make_a_list_is_refused() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.ask(&["ZADD", "k", "1", "a"]);
    let reply = client.ask(&["SORT", "k", "ALPHA", "STORE", "out"]);
    assert!(reply.starts_with("-ERR SORT with STORE is not supported"), "{reply}");
    assert_eq!(client.ask(&["EXISTS", "out"]), ":0\r\n");
}
