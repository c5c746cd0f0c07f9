//! The RESP door over TCP: pieces, pipelines, rubbish, slow readers, passwords, stopping.

mod support;

use std::io::{Read, Write};
use std::net::Shutdown;

use support::Door;
use support::client::{Client, Value, request};
use whered_engine::EngineOptions;
use whered_engine::geo::{Cell, Place};

const RUBBISH: [(&[u8], &str); 6] = [
    (b"*x\r\n", "invalid multibulk length"),
    (b"*1\r\n:5\r\n", "expected '$', got ':'"),
    (b"*1\r\n$-5\r\n", "invalid bulk length"),
    (b"*1\r\n$999999999999\r\n", "invalid bulk length"),
    (b"\"unbalanced\r\n", "unbalanced quotes in request"),
    (b"*2147483648\r\n", "invalid multibulk length"),
];

/// A collection whose search gives some megabytes.
fn add_many(door: &Door, count: usize) {
    let cell = |index: usize| {
        let place = Place::new(index as f64 / count as f64, 10.0).expect("on the globe");
        Cell::from_place(place)
    };
    let names: Vec<String> = (0..count).map(|index| format!("member-number-{index}")).collect();
    let points: Vec<(&[u8], Cell)> =
        names.iter().enumerate().map(|(index, name)| (name.as_bytes(), cell(index))).collect();
    let always = whered_engine::AddCondition::Always;
    door.engine.keyspace().add_points(0, b"many", &points, always).expect("memory takes it");
}

const SEARCH_MANY: &[u8] = b"GEOSEARCH many FROMLONLAT 0 10 BYRADIUS 9000 km WITHCOORD\r\n";

#[test]
fn a_request_may_come_byte_by_byte() {
    let door = Door::in_memory();
    let mut client = door.client();
    let bytes = request(&[b"GEOADD", b"Sicily", b"13.361389", b"38.115556", b"Palermo"]);
    for byte in &bytes {
        client.send(&[*byte]);
    }
    assert_eq!(client.reply().bytes, b":1\r\n");
    for byte in b"GEOHASH Sicily \"Palermo\"\r\n" {
        client.send(&[*byte]);
    }
    assert_eq!(client.reply().bytes, b"*1\r\n$11\r\nsqc8b49rny0\r\n");
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let door = Door::in_memory();
    let mut client = door.client();
    let count = 20_000;
    let bytes: Vec<u8> =
        (0..count).flat_map(|index| request(&[b"ECHO", index.to_string().as_bytes()])).collect();
    client.send(&bytes);
    for index in 0..count {
        assert_eq!(client.reply().value, Value::Bulk(index.to_string().into_bytes()));
    }
    assert_eq!(door.door.addresses().len(), 1);
}

#[test]
fn whole_commands_sent_ahead_never_count_as_an_unfinished_one() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.query_buffer_limit_bytes = 64 * 1024;
    });
    let count = 300_000;
    let mut client = door.client();
    let mut writer = client.stream.try_clone().expect("the socket has a second handle");
    let sender = std::thread::spawn(move || writer.write_all(&b"PING\r\n".repeat(count)));
    for _ in 0..count {
        assert_eq!(client.reply().value, Value::Simple(b"PONG".to_vec()));
    }
    sender.join().expect("the sender ends").expect("the server reads everything");
    let closed = &door.door.counters().query_limit_closed;
    assert_eq!(closed.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn rubbish_gets_the_error_of_redis_and_the_end() {
    let door = Door::in_memory();
    for (bytes, text) in RUBBISH {
        let mut client = door.client();
        client.send(b"PING\r\n");
        client.send(bytes);
        assert_eq!(client.reply().bytes, b"+PONG\r\n");
        let rest = String::from_utf8(client.rest()).expect("an error is text");
        assert_eq!(rest, format!("-ERR Protocol error: {text}\r\n"));
    }
    // The door serves on.
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn an_announced_size_does_not_stop_others_nor_take_memory() {
    let door = Door::in_memory();
    let mut clients: Vec<Client> = (0..50).map(|_| door.client()).collect();
    for client in &mut clients {
        client.send(b"*2147483647\r\n$536870912\r\nabc");
    }
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn a_slow_reader_does_not_stop_others_and_gets_every_byte() {
    let door = Door::in_memory();
    add_many(&door, 30_000);
    let mut slow = door.client();
    let searches = 8;
    for _ in 0..searches {
        slow.send(SEARCH_MANY);
    }
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
    assert_eq!(door.client().ask(&["ZCARD", "many"]), ":30000\r\n");
    let first = slow.reply().bytes;
    assert!(first.len() > 1_000_000);
    for _ in 1..searches {
        assert!(slow.reply().bytes == first, "the same search gives the same bytes");
    }
}

#[test]
fn a_reader_that_stops_is_closed_at_the_output_limit() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.output_buffer_limit_bytes = 1024 * 1024;
    });
    add_many(&door, 30_000);
    let mut client = door.client();
    client.send(b"ZRANGE many 0 -1 WITHSCORES\r\n");
    let rest = client.rest();
    assert!(rest.len() < 1_500_000, "{} bytes came", rest.len());
    let closed = &door.door.counters().output_limit_closed;
    assert_eq!(closed.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn a_search_longer_than_the_output_limit_is_served_in_parts() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.output_buffer_limit_bytes = 1024 * 1024;
    });
    add_many(&door, 30_000);
    let mut client = door.client();
    client.send(SEARCH_MANY);
    assert!(client.reply().bytes.len() > 1_500_000);
    let closed = &door.door.counters().output_limit_closed;
    assert_eq!(closed.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn an_endless_request_is_closed_at_the_query_limit() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.query_buffer_limit_bytes = 100_000;
    });
    let mut client = door.client();
    client.send(b"*2\r\n$4\r\nECHO\r\n$400000000\r\n");
    let piece = [b'x'; 10_000];
    // At some time the server has closed, and writing fails.
    let refused = (0..10_000).any(|_| client.stream.write_all(&piece).is_err());
    assert!(refused);
}

#[test]
fn a_pipeline_longer_than_the_query_limit_is_no_endless_request() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.query_buffer_limit_bytes = 100_000;
    });
    let mut client = door.client();
    let count = 300_000;
    let mut writer = client.stream.try_clone().expect("a descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&b"PING\r\n".repeat(count)));
    for _ in 0..count {
        assert_eq!(client.reply().bytes, b"+PONG\r\n");
    }
    writing.join().expect("no panic").expect("the server reads");
}

#[test]
fn every_whole_request_before_a_half_close_is_answered_however_many_they_are() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.output_buffer_limit_bytes = 200_000;
    });
    let mut client = door.client();
    let count = 20_000;
    client.send(&b"PING\r\n".repeat(count));
    client.stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(client.rest().len(), count * b"+PONG\r\n".len());
}

#[test]
fn more_clients_than_allowed_are_turned_away() {
    let door = Door::with(EngineOptions::default(), |options| options.max_clients = 2);
    let mut first = door.client();
    let mut second = door.client();
    assert_eq!(first.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(second.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(door.client().rest(), b"-ERR max number of clients reached\r\n");
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_replies() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(b"PING\r\nECHO x\r\nECHO unfinish");
    client.stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(client.rest(), b"+PONG\r\n$1\r\nx\r\n");
}

/// The door once spun for ever when a client closed its side and the replies to what it had sent
/// came to more than a quarter of the output limit.
#[test]
fn a_client_that_closes_its_side_gets_replies_beyond_every_buffer() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.threads = Some(1);
        options.output_buffer_limit_bytes = 4 << 20;
    });
    add_many(&door, 5_000);
    let mut client = door.client();
    client.send(SEARCH_MANY);
    let one = client.reply().bytes.len();
    let count = 100;
    assert!(count * one > 20 << 20, "more than all buffers between the two hold");
    client.send(&SEARCH_MANY.repeat(count));
    client.stream.shutdown(Shutdown::Write).expect("one side can be closed");
    assert_eq!(client.rest().len(), count * one);
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n", "the thread serves on");
}

#[test]
fn quit_answers_and_closes() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(b"PING\r\nQUIT now\r\nPING\r\n");
    assert_eq!(client.rest(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn a_password_is_asked_for_before_anything_else() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.password = Some("secret".to_owned());
    });
    let mut client = door.client();
    assert_eq!(client.ask(&["PING"]), "-NOAUTH Authentication required.\r\n");
    assert_eq!(
        client.ask(&["HELLO", "3"]),
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
         AUTH <user> <pass> option can be used to authenticate the client and select the \
         RESP protocol version at the same time\r\n"
    );
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(client.ask(&["AUTH", "secre"]), wrong);
    assert_eq!(client.ask(&["AUTH", "other", "secret"]), wrong);
    assert_eq!(client.ask(&["AUTH", "secret"]), "+OK\r\n");
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    assert_eq!(client.ask(&["RESET"]), "+RESET\r\n");
    assert_eq!(client.ask(&["PING"]), "-NOAUTH Authentication required.\r\n");
    let mut stranger = door.client();
    stranger.send(b"*11\r\n");
    let text = b"-ERR Protocol error: unauthenticated multibulk length\r\n";
    assert_eq!(stranger.rest(), text);
}

#[test]
fn replies_can_be_switched_off() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(b"CLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n");
    client.send(b"CLIENT REPLY OFF\r\nPING c\r\nCLIENT REPLY ON\r\nPING d\r\nQUIT\r\n");
    assert_eq!(client.rest(), b"$1\r\nb\r\n+OK\r\n$1\r\nd\r\n+OK\r\n");
}

#[test]
fn resp3_has_its_own_forms() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert!(client.ask(&["HELLO", "3"]).starts_with("%7\r\n$6\r\nserver\r\n"));
    assert_eq!(client.ask(&["GEOADD", "k", "0.5", "0", "m"]), ":1\r\n");
    assert_eq!(client.ask(&["GEOPOS", "k", "nosuch"]), "*1\r\n_\r\n");
    assert_eq!(
        client.ask(&["GEOPOS", "k", "m"]),
        "*1\r\n*2\r\n,0.49999862909317017\r\n,0.00000126736058093\r\n"
    );
    assert_eq!(client.ask(&["ZSCORE", "k", "m"]), format!(",{}\r\n", score(&door)));
    assert!(client.ask(&["INFO", "server"]).contains("txt:# Server\r\nredis_version:7.0.15\r\n"));
}

fn score(door: &Door) -> String {
    let cell =
        door.engine.keyspace().read(0, b"k", |value| value.and_then(|v| v.points()?.cell(b"m")));
    cell.expect("it was added").bits().to_string()
}

#[test]
fn own_commands_answer_and_tell_what_is_wrong() {
    let door = Door::in_memory();
    let mut client = door.client();
    let mut case = |line: &str, expected: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(client.ask(&words), expected, "{line}");
    };
    case("CIDR.MATCH nosuch 10.0.0.1", "-ERR no such prefix set 'nosuch'\r\n");
    case("CIDR.ADD net VALUE office 10.0.0.0/8 10.1.0.0/16", ":2\r\n");
    case("CIDR.ADD net 10.1.0.0/16 2001:db8::/32", ":1\r\n");
    case("CIDR.MATCH net 10.1.2.3", "$11\r\n10.1.0.0/16\r\n");
    case("CIDR.MATCH net 10.2.2.3 WITHVALUE", "*2\r\n$10\r\n10.0.0.0/8\r\n$6\r\noffice\r\n");
    case("CIDR.MATCH net 10.1.2.3 ALL", "*2\r\n$11\r\n10.1.0.0/16\r\n$10\r\n10.0.0.0/8\r\n");
    case("CIDR.MATCH net 11.1.2.3", "$-1\r\n");
    case("CIDR.MMATCH net 11.1.2.3 10.9.9.9", "*2\r\n$-1\r\n$10\r\n10.0.0.0/8\r\n");
    case("CIDR.COUNT net", ":3\r\n");
    case("CIDR.REM net 10.1.0.0/16 1.0.0.0/8", ":1\r\n");
    case("CIDR.LIST", "*1\r\n$3\r\nnet\r\n");
    case("CIDR.MATCH net ten", "-ERR 'ten' is not an IP address\r\n");
    case("IP.LIST", "*0\r\n");
    case("IP.GET city 10.0.0.1", "-ERR no such database 'city'\r\n");
    case("STEER www 10.0.0.1", "-ERR no such pool 'www'\r\n");
    case("SITE.DOWN www fra", "-ERR no such pool 'www'\r\n");
    for address in ["192.0.2.9:8080", "[2001:db8::1]:53", "fe80::1%eth0"] {
        // What is more than an address would be dropped.
        case(
            &format!("SITE.ADD www fra 8 50 {address}"),
            &format!(
                "-ERR '{address}' has more than an IP address; allowed: an address alone, such as \
                 192.0.2.1 or 2001:db8::1\r\n"
            ),
        );
    }
    case("TYPE net", "+none\r\n");
    case("GEOADD k 13 38 a", ":1\r\n");
    let explained = client
        .ask(&"GEOSEARCH k FROMLONLAT 13 38 BYRADIUS 1 km EXPLAIN".split(' ').collect::<Vec<_>>());
    assert!(explained.starts_with('$') && explained.contains("distance_meters"), "{explained}");
}

#[test]
fn stopping_answers_what_was_read_and_closes() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    let address = door.door.addresses()[0];
    door.door.stop();
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).expect("an orderly end");
    assert_eq!(rest, b"");
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Writes on a journal are answered when they are durable, in order with the reads between them.
#[test]
fn held_replies_keep_their_order() {
    let name = format!("whered-resp-held-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let options = EngineOptions { data_dir: Some(directory.clone()), ..EngineOptions::default() };
    let door = Door::with(options, |_| {});
    let mut client = door.client();
    let count = 2_000;
    let mut bytes = Vec::new();
    for index in 0..count {
        let member = index.to_string();
        bytes.extend(request(&[b"GEOADD", b"k", b"1", b"2", member.as_bytes()]));
        bytes.extend(request(&[b"ECHO", member.as_bytes()]));
    }
    client.send(&bytes);
    // Other connections go on meanwhile.
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
    for index in 0..count {
        assert_eq!(client.reply().value, Value::Integer(1));
        assert_eq!(client.reply().value, Value::Bulk(index.to_string().into_bytes()));
    }
    let stats = door.engine.journal_stats().expect("there is a journal");
    assert_eq!(stats.frames, count as u64);
    // One write alone is answered as well: the journal wakes the sleeping worker.
    assert_eq!(client.ask(&["ZREM", "k", "7"]), ":1\r\n");
    drop(client);
    door.door.stop();
    door.engine.close().expect("the journal closes");
    std::fs::remove_dir_all(directory).expect("it was made");
}
