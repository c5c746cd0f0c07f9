//! What is ours in the commands of keys and searches: places of addresses, keys that end by
//! themselves, and words that are refused. What they share with Redis is in `differential`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
mod world;

use std::time::{Duration, Instant};

use support::Door;
use support::client::Client;

#[test]
fn a_search_begins_where_a_database_says_that_an_address_is() {
    let server = world::start("keys_from_ip");
    let mut client = Client::connect(server.resp_addresses()[0]);
    let mut case = |line: &str, expected: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(client.ask(&words), expected, "{line}");
    };
    case("GEOADD sites 8.5 50.0 near 139.7 35.7 far", ":2\r\n");
    case("GEOSEARCH sites FROMIP city 192.0.2.7 BYRADIUS 50 km", "*1\r\n$4\r\nnear\r\n");
    case("GEOSEARCH sites byradius 50 km fromip city 127.0.0.1", "*1\r\n$3\r\nfar\r\n");
    case("GEOSEARCH sites FROMIP city 2001:db8::1 BYBOX 50 50 km", "*1\r\n$4\r\nnear\r\n");
    case("GEOSEARCHSTORE to sites FROMIP city 192.0.2.7 BYRADIUS 50 km", ":1\r\n");
    case("ZRANGE to 0 -1", "*1\r\n$4\r\nnear\r\n");
    let area = "BYRADIUS 50 km";
    let mut refused = |from: &str, expected: &str| {
        case(&format!("GEOSEARCH sites {from} {area}"), &format!("-ERR {expected}\r\n"));
    };
    refused("FROMIP town 192.0.2.7", "no such database 'town'");
    refused("FROMIP city 192.0.2", "'192.0.2' is not an IP address");
    refused("FROMIP city 203.0.113.9", "database 'city' has no place for 203.0.113.9");
    refused("FROMMEMBER near FROMIP city 192.0.2.7", "syntax error");
    refused("FROMIP city", "'BYRADIUS' is not an IP address");
    server.stop().unwrap();
}

#[test]
fn a_key_that_ends_is_swept_without_being_asked_for() {
    let server = world::start("keys_swept");
    let mut client = Client::connect(server.resp_addresses()[0]);
    assert_eq!(client.ask(&["SET", "text", "x", "PX", "1"]), "+OK\r\n");
    assert_eq!(client.ask(&["GEOADD", "points", "1", "2", "m"]), ":1\r\n");
    assert_eq!(client.ask(&["PEXPIRE", "points", "1"]), ":1\r\n");
    let patience = Instant::now() + Duration::from_secs(60);
    while server.engine().keyspace().len(0) > 0 {
        assert!(Instant::now() < patience, "nobody sweeps");
        std::thread::yield_now();
    }
    server.stop().unwrap();
}

#[test]
fn a_polygon_finds_what_lies_inside_and_is_refused_with_the_texts_of_valkey() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["GEOADD", "k", "1", "1", "in", "3", "3", "out"]), ":2\r\n");
    let triangle = ["GEOSEARCH", "k", "BYPOLYGON", "3", "0", "0", "4", "0", "0", "4"];
    assert_eq!(client.ask(&triangle), "*1\r\n$2\r\nin\r\n");
    let mut case = |line: &str, expected: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(client.ask(&words), format!("-ERR {expected}\r\n"), "{line}");
    };
    let too_few = "GEOSEARCH BYPOLYGON must have at least 3 vertices";
    case("GEOSEARCH k BYPOLYGON 3 0 0 1 0 0", too_few);
    case("GEOSEARCH k BYPOLYGON 2 0 0 1 0 0 1", too_few);
    case("GEOSEARCH k BYPOLYGON -1 0 0 1 0 0 1", too_few);
    case("GEOSEARCH k BYPOLYGON x 0 0 1 0 0 1", "invalid number of vertices");
    case("GEOSEARCH k BYPOLYGON 3 0 0 1 0 0 1 2", "syntax error");
    case("GEOSEARCH k BYPOLYGON 3 0 0 1 0 0 1 BYRADIUS 1 km", "syntax error");
    case(
        "GEOSEARCH k BYPOLYGON 3 0 0 181 0 0 1",
        "invalid longitude,latitude pair 181.000000,0.000000",
    );
    case("GEOSEARCH k FROMLONLAT 0 0 BYPOLYGON 3 0 0 1 0 0 1", "syntax error");
    case("GEOSEARCH k BYPOLYGON 3 0 0 1 0 0 1 FROMMEMBER m", "syntax error");
}

#[test]
fn a_long_walk_through_a_large_set_gives_every_member_once() {
    let door = Door::in_memory();
    let mut client = door.client();
    for number in -200..200 {
        let (score, member) = (format!("{}", f64::from(number / 3) / 4.0), format!("m{number}"));
        assert_eq!(client.ask(&["ZADD", "k", &score, &member]), ":1\r\n");
    }
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.ask(&["ZSCAN", "k", &cursor, "COUNT", "7"]);
        let words: Vec<&str> = reply.split("\r\n").collect();
        cursor = words[2].to_owned();
        let members = words.iter().copied().filter(|word| word.starts_with('m'));
        found.extend(members.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 400);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 400, "none is given twice");
}

#[test]
fn of_several_polygons_the_last_one_counts() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["GEOADD", "k", "1", "1", "first", "11", "11", "last"]), ":2\r\n");
    let line = "GEOSEARCH k BYPOLYGON 3 0 0 4 0 0 4 BYPOLYGON 3 10 10 14 10 10 14";
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(client.ask(&words), "*1\r\n$4\r\nlast\r\n");
}

#[test]
fn the_key_that_a_search_stores_into_is_the_last_one_named() {
    let door = Door::in_memory();
    let mut client = door.client();
    let mut case = |line: &str, expected: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(client.ask(&words), expected, "{line}");
    };
    case("GEOADD k 1 1 m", ":1\r\n");
    case("GEORADIUS k 1 1 1 km STORE first STOREDIST last", ":1\r\n");
    case("EXISTS first last", ":1\r\n");
    case("EXISTS last", ":1\r\n");
    let keys = "*2\r\n$1\r\nk\r\n$4\r\nlast\r\n";
    case("COMMAND GETKEYS GEORADIUS k 1 1 1 km STORE first STOREDIST last", keys);
    case("COMMAND GETKEYS GEORADIUS k 1 1 1 km STORE first ASC STORE last", keys);
    case("COMMAND GETKEYS GEORADIUSBYMEMBER k m 1 km STOREDIST first STORE last", keys);
    case("COMMAND GETKEYS GEORADIUS k 1 1 1 km STORE STORE", "*2\r\n$1\r\nk\r\n$5\r\nSTORE\r\n");
    case("COMMAND GETKEYS GEORADIUS k 1 1 1 km ASC STORE", "*1\r\n$1\r\nk\r\n");
}
