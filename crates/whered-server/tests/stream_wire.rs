//! `/v1/stream` by its wire: what is told, to whom, and what becomes of clients that do not read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use whered_engine::geo::{Cell, Place};
use whered_engine::{AddCondition, HealthOverride};
use whered_server::Server;
use world::http::get;

/// An open stream.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(server: &Server, query: &str) -> Stream {
        let stream = request(server, query);
        let mut stream = Stream(BufReader::new(stream));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.0.read_line(&mut head).unwrap();
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        stream
    }

    /// The next event and its data. Lengths of chunks are lines of their own.
    fn next(&mut self) -> (String, Value) {
        let mut event = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (event, serde_json::from_str(data.trim_end()).unwrap());
            }
        }
    }

    /// The next event of a kind; others are passed over.
    fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let (event, data) = self.next();
            if event == kind {
                return data;
            }
        }
    }
}

fn request(server: &Server, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let text = format!("GET /v1/stream?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn put(server: &Server, key: &[u8], member: &str, x: f64, y: f64) {
    let cell = Cell::from_place(Place::new(x, y).unwrap());
    let points: [(&[u8], Cell); 1] = [(member.as_bytes(), cell)];
    server.engine().keyspace().add_points(0, key, &points, AddCondition::Always).unwrap();
}

#[test]
fn moves_removals_and_deletions_are_told_after_a_resync() {
    let server = world::start("http_stream_moves");
    put(&server, b"vans", "early", 1.0, 1.0);
    let mut stream = Stream::open(&server, "collections=vans,other");
    assert_eq!(stream.next(), ("generation".to_owned(), json!({ "generation": 1 })));
    assert_eq!(stream.next(), ("resync".to_owned(), json!({ "collection": "vans" })));
    assert_eq!(stream.next(), ("resync".to_owned(), json!({ "collection": "other" })));
    put(&server, b"vans", "van-1", 8.0, 50.0);
    put(&server, b"unfollowed", "van-9", 8.0, 50.0);
    let moved = stream.next_of("move");
    assert_eq!(moved["collection"], "vans");
    assert_eq!(moved["changes"][0][0], "van-1");
    assert!((moved["changes"][0][1].as_f64().unwrap() - 8.0).abs() < 1e-5);
    assert_eq!(moved["removed"], json!([]));
    server.engine().keyspace().remove_members(0, b"vans", &[b"early"]).unwrap();
    let moved = stream.next_of("move");
    assert_eq!((&moved["changes"], &moved["removed"]), (&json!([]), &json!(["early"])));
    server.engine().keyspace().delete_keys(0, &[b"vans"]).unwrap();
    assert_eq!(stream.next_of("resync"), json!({ "collection": "vans" }));
    server.engine().keyspace().flush(None).unwrap();
    let resynced = [stream.next_of("resync"), stream.next_of("resync")];
    let names: Vec<&str> =
        resynced.iter().map(|data| data["collection"].as_str().unwrap()).collect();
    assert!(names.contains(&"vans") && names.contains(&"other"), "{names:?}");
    server.stop().unwrap();
}

#[test]
fn sites_that_go_down_are_told_within_a_second() {
    let server = world::start("http_stream_sites");
    let mut stream = Stream::open(&server, "sites=1");
    let first: Vec<String> =
        (0..4).map(|_| stream.next_of("site")["site"].as_str().unwrap().to_owned()).collect();
    assert_eq!(first, ["fra", "gru", "nrt", "nyc"], "the state of all comes first");
    let began = Instant::now();
    server.engine().override_site("www", "fra", HealthOverride::Down).unwrap();
    let site = stream.next_of("site");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let expected = json!({
        "pool": "www", "site": "fra", "healthy": false, "state": "unchecked", "override": "down",
    });
    assert_eq!(site, expected);
    assert_eq!(stream.next_of("generation"), json!({ "generation": 2 }));
    // A second client that comes while nothing happens learns of the state as it is.
    let mut other = Stream::open(&server, "sites=1");
    assert_eq!(other.next(), ("generation".to_owned(), json!({ "generation": 2 })));
    assert_eq!(other.next_of("site"), expected);
    server.stop().unwrap();
}

#[test]
fn a_change_between_two_clients_is_told_to_the_second() {
    let server = world::start("http_stream_gap");
    drop(Stream::open(&server, "sites=1&collections=vans"));
    server.engine().override_site("www", "fra", HealthOverride::Down).unwrap();
    put(&server, b"vans", "van-1", 8.0, 50.0);
    let mut stream = Stream::open(&server, "sites=1&collections=vans");
    let mut states = BTreeMap::new();
    for _ in 0..4 {
        let site = stream.next_of("site");
        states.insert(site["site"].as_str().unwrap().to_owned(), site["healthy"].clone());
    }
    assert_eq!(states["fra"], json!(false));
    put(&server, b"vans", "van-2", 8.0, 50.0);
    let mut seen = Vec::new();
    while !seen.contains(&"van-2".to_owned()) {
        let changes = stream.next_of("move")["changes"].as_array().unwrap().clone();
        seen.extend(changes.iter().map(|change| change[0].as_str().unwrap().to_owned()));
    }
    server.stop().unwrap();
}

#[test]
fn a_collection_whose_name_has_a_comma_is_followed() {
    let server = world::start("http_stream_comma");
    let mut stream = Stream::open(&server, "collection=a%2Cb&collection=c&collections=d,e");
    let resynced: Vec<Value> =
        (0..4).map(|_| stream.next_of("resync")["collection"].clone()).collect();
    assert_eq!(resynced, ["a,b", "c", "d", "e"]);
    for key in ["a,b", "e"] {
        put(&server, key.as_bytes(), "m", 8.0, 50.0);
        assert_eq!(stream.next_of("move")["collection"], key);
    }
    server.stop().unwrap();
}

const FEED: &str = r#"
[[feed]]
name = "sightings"
format = "ndjson"
member = "van"
longitude = "x"
latitude = "y"
into = { collection = "vans" }
"#;

#[test]
fn the_progress_of_a_feed_and_the_moves_that_come_from_it_are_told() {
    let folder = world::folder("http_stream_feeds");
    let mut config = world::config(&folder, FEED);
    config.data_dir = Some(folder.join("data"));
    let server = Server::start(config).unwrap();
    let mut stream = Stream::open(&server, "feeds=1&collection=vans");
    let first = stream.next_of("feed");
    assert_eq!(first["name"], "sightings");
    let body = "{\"van\":\"van-1\",\"x\":8.5,\"y\":50.0}\n{\"van\":\"van-2\",\"x\":9,\"y\":51}\n";
    let length = body.len();
    let text = format!(
        "POST /v1/feeds/sightings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let reply = world::http::send(server.http_addresses()[0], &text);
    assert_eq!(reply.status, 202, "{}", reply.body);
    let (mut moved, mut state) = (Vec::new(), first);
    while moved.len() < 2 || state["records"] != json!(2) {
        match stream.next() {
            (event, data) if event == "move" => {
                assert_eq!(data["collection"], "vans");
                moved.extend(data["changes"].as_array().unwrap().clone());
            }
            (event, data) if event == "feed" => state = data,
            _ => {}
        }
    }
    // Members of one period come in any order.
    moved.sort_by_key(|change| change[0].as_str().unwrap().to_owned());
    let names: Vec<&Value> = moved.iter().map(|change| &change[0]).collect();
    assert_eq!(names, ["van-1", "van-2"]);
    assert!((moved[0][1].as_f64().unwrap() - 8.5).abs() < 1e-5);
    // What the stream said is what the feed's own page says.
    assert_eq!(get(&server, "/v1/feeds/sightings").json()["records"], json!(2));
    server.stop().unwrap();
}

/// What somebody knows who reads a collection at each resync and applies each move.
fn follow(server: &Server, stream: &mut Stream, until: &str) -> BTreeMap<String, (f64, f64)> {
    let mut known = BTreeMap::new();
    loop {
        let (event, data) = stream.next();
        match &*event {
            "resync" => {
                let path = "/v1/collections/fleet/within?box=-180,-90,180,90&count=100000";
                let reply = get(server, path).json();
                let hits = reply["hits"].as_array().cloned().unwrap_or_default();
                let place = |hit: &Value| {
                    (hit["longitude"].as_f64().unwrap(), hit["latitude"].as_f64().unwrap())
                };
                known = hits
                    .iter()
                    .map(|hit| (hit["member"].as_str().unwrap().to_owned(), place(hit)))
                    .collect();
            }
            "move" => {
                for change in data["changes"].as_array().unwrap() {
                    let place = (change[1].as_f64().unwrap(), change[2].as_f64().unwrap());
                    known.insert(change[0].as_str().unwrap().to_owned(), place);
                }
                for member in data["removed"].as_array().unwrap() {
                    known.remove(member.as_str().unwrap());
                }
            }
            _ => {}
        }
        if known.contains_key(until) {
            return known;
        }
    }
}

#[test]
fn a_client_that_reads_late_knows_all_in_the_end() {
    let server = world::start("http_stream_slow");
    put(&server, b"fleet", "first", 0.0, 0.0);
    let mut stream = Stream::open(&server, "collections=fleet");
    // More than the socket's buffers and the channel hold, while nobody reads.
    let filler = "x".repeat(200);
    let names: Vec<String> = (0..4_000).map(|number| format!("{filler}{number}")).collect();
    let began = Instant::now();
    let mut round = 0;
    while began.elapsed() < Duration::from_secs(2) {
        round += 1;
        let x = f64::from(round % 100);
        let cell = Cell::from_place(Place::new(x, 1.0).unwrap());
        let points: Vec<(&[u8], Cell)> = names.iter().map(|name| (name.as_bytes(), cell)).collect();
        server.engine().keyspace().add_points(0, b"fleet", &points, AddCondition::Always).unwrap();
        server.engine().keyspace().remove_members(0, b"fleet", &[b"first"]).unwrap();
    }
    put(&server, b"fleet", "last", 10.0, 10.0);
    let known = follow(&server, &mut stream, "last");
    let here: BTreeMap<String, (f64, f64)> =
        server.engine().keyspace().read(0, b"fleet", |value| {
            let points = value.unwrap().points().unwrap();
            let place =
                |cell: Cell| (cell.place().longitude_degrees, cell.place().latitude_degrees);
            let entry = |(member, cell): (&[u8], Cell)| {
                (String::from_utf8(member.to_vec()).unwrap(), place(cell))
            };
            points.iter().map(entry).collect()
        });
    assert_eq!(known.len(), here.len());
    assert_eq!(known, here);
    server.stop().unwrap();
}

#[test]
fn there_are_as_many_streams_as_may_be_and_places_come_free() {
    let server = world::start("http_stream_many");
    let streams: Vec<Stream> = (0..64)
        .map(|number| Stream::open(&server, &format!("collections=c{}", number % 5)))
        .collect();
    let mut refused = request(&server, "collections=c");
    let mut reply = [0; 256];
    let length = refused.read(&mut reply).unwrap();
    let text = String::from_utf8_lossy(&reply[..length]).into_owned();
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    put(&server, b"c3", "m", 1.0, 1.0);
    for (number, mut stream) in streams.into_iter().enumerate().filter(|(n, _)| n % 5 == 3) {
        assert_eq!(stream.next_of("move")["collection"], "c3", "stream {number}");
    }
    // All are closed now; their places come free when the server has noticed.
    let began = Instant::now();
    loop {
        let mut again = request(&server, "sites=1");
        let mut reply = [0; 16];
        again.read_exact(&mut reply).unwrap();
        if reply.starts_with(b"HTTP/1.1 200") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "no place comes free");
    }
    server.stop().unwrap();
}

#[test]
fn a_stop_ends_streams_at_once_and_wrong_questions_are_refused() {
    let server = world::start("http_stream_stop");
    let many = (0..17).map(|number| format!("c{number}")).collect::<Vec<_>>().join(",");
    for (query, field) in [
        (format!("collections={many}"), "collections"),
        (many.replace(',', "&collection=").replacen('c', "collection=c", 1), "collection"),
        ("sites=x".to_owned(), "sites"),
    ] {
        let reply = get(&server, &format!("/v1/stream?{query}"));
        assert_eq!((reply.status, &reply.json()["error"]["field"]), (400, &json!(field)));
    }
    let mut stream = Stream::open(&server, "collections=a&feeds=1");
    let began = Instant::now();
    server.stop().unwrap();
    assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
    let mut rest = Vec::new();
    stream.0.read_to_end(&mut rest).unwrap();
}
