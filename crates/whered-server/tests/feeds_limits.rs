//! What a feed refuses for lack of room, time or trust, by HTTP and RESP, and what it takes once.
//!
//! Not for what is in uploads; that a failed disk is a 503 needs a process of its own
//! (`crates/whered/tests/feed_doors.rs`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "HTTP tells nobody that something is applied")]

mod support;
mod world;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::Client;
use whered_server::{Config, Server};
use world::http::{Reply, get, send_bytes};

const FEEDS: &str = r#"
data_dir = "data"
[resp]
listen = ["127.0.0.1:0"]
threads = 1
[http]
listen = ["127.0.0.1:0"]
[dns]
listen = []
[[feed]]
name = "tight"
format = "ndjson"
member = "id"
longitude = "x"
latitude = "y"
into = { collection = "taken", table = "rows" }
spool_size_max = "1mb"
upload_size_max = "100kb"
batch_delay_millis = 0
[[feed]]
name = "hashed"
format = "ndjson"
member = "id"
content_hash = true
into = { table = "hashes" }
batch_delay_millis = 0
"#;

fn start(name: &str) -> Server {
    let folder = world::folder(name);
    Server::start(Config::from_toml(FEEDS, &folder.join("edge.toml")).unwrap()).unwrap()
}

fn post(server: &Server, feed: &str, headers: &[&str], body: &[u8]) -> Reply {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!(
        "POST /v1/feeds/{feed} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    send_bytes(server.http_addresses()[0], &[head.as_bytes(), body].concat())
}

fn line(id: &str) -> Vec<u8> {
    format!("{{\"id\":\"{id}\",\"x\":8.5,\"y\":50.0}}\n").into_bytes()
}

/// A line of some size.
fn long_line(id: &str, bytes: usize) -> Vec<u8> {
    let fill = "-".repeat(bytes);
    format!("{{\"id\":\"{id}\",\"x\":8.5,\"y\":50.0,\"fill\":\"{fill}\"}}\n").into_bytes()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn feed(server: &Server, name: &str) -> Value {
    get(server, &format!("/v1/feeds/{name}")).json()
}

fn seen(server: &Server, table: &str, row: &str) -> Value {
    let reply = get(server, &format!("/v1/tables/{table}/rows/{row}"));
    if reply.status == 200 { reply.json()["row"]["seen"].clone() } else { Value::Null }
}

fn until_applied(server: &Server, name: &str) {
    until("all uploads are applied", || feed(server, name)["backlog"]["uploads"] == json!(0));
}

#[test]
fn a_full_spool_says_when_to_come_back_and_takes_uploads_again_afterwards() {
    let server = start("limits_spool");
    let mut client = Client::connect(server.resp_addresses()[0]);
    // A text where the collection should be: no batch can be kept, and uploads pile up.
    assert_eq!(client.ask(&["SET", "taken", "text"]), "+OK\r\n");
    let mut taken = 0;
    let refused = (0..100).find_map(|number| {
        let reply = post(&server, "tight", &[], &long_line(&format!("l{number}"), 50_000));
        if reply.status == 202 {
            taken += 1;
            return None;
        }
        Some(reply)
    });
    let refused = refused.expect("a megabyte is full after twenty of them");
    assert!((15..=21).contains(&taken), "{taken}");
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.headers.contains("retry-after: 1"), "{}", refused.headers);
    assert!(refused.error().1.contains("wait in the spool; allowed: 1048576"), "{}", refused.body);
    let fill = "-".repeat(60_000);
    let text = format!("{{\"id\":\"a\",\"x\":1,\"y\":2,\"fill\":\"{fill}\"}}");
    let reply = client.ask(&["FEED.PUSH", "tight", &text]);
    assert!(reply.starts_with("-TRYAGAIN "), "{reply}");
    assert_eq!(feed(&server, "tight")["backlog"]["uploads"], json!(taken));
    // The uploads may all have come before the feed's first try at a batch.
    until("the feed tells why nothing is applied", || {
        let told = feed(&server, "tight");
        told["last_error"].as_str().is_some_and(|why| why.contains("wrong kind"))
    });
    assert_eq!(feed(&server, "tight")["backlog"]["uploads"], json!(taken));
    // Reads go on, and with room again so do uploads; each that was acknowledged is there once.
    assert_eq!(client.ask(&["DEL", "taken"]), ":1\r\n");
    until_applied(&server, "tight");
    assert_eq!(post(&server, "tight", &[], &line("after")).status, 202);
    until_applied(&server, "tight");
    for number in 0..taken {
        assert_eq!(seen(&server, "rows", &format!("l{number}")), json!(1), "{number}");
    }
    assert_eq!(client.ask(&["ZCARD", "taken"]), format!(":{}\r\n", taken + 1));
    server.stop().unwrap();
}

#[test]
fn uploads_past_the_memory_limit_are_refused_and_what_is_spooled_is_applied() {
    let server = start("limits_memory");
    let mut client = Client::connect(server.resp_addresses()[0]);
    assert_eq!(post(&server, "tight", &[], &line("before")).status, 202);
    assert_eq!(client.ask(&["CONFIG", "SET", "maxmemory", "1"]), "+OK\r\n");
    // The worker looks at the account now and then.
    let refused = || post(&server, "tight", &[], &line("more"));
    until("uploads are refused", || refused().status == 429);
    let reply = refused();
    assert!(reply.headers.contains("retry-after: 1"), "{}", reply.headers);
    assert!(reply.error().1.contains("memory"), "{}", reply.body);
    let denied = client.ask(&["FEED.PUSH", "tight", "{\"id\":\"more\",\"x\":1,\"y\":2}"]);
    assert!(denied.starts_with("-OOM "), "{denied}");
    until_applied(&server, "tight");
    assert_eq!(seen(&server, "rows", "before"), json!(1));
    assert_eq!(client.ask(&["CONFIG", "SET", "maxmemory", "0"]), "+OK\r\n");
    until("uploads are taken again", || {
        post(&server, "tight", &["Idempotency-Key: k"], &line("later")).status == 202
    });
    until_applied(&server, "tight");
    assert_eq!(seen(&server, "rows", "later"), json!(1));
    server.stop().unwrap();
}

#[test]
fn equal_uploads_count_twice_unless_their_key_or_the_feed_says_otherwise() {
    let server = start("limits_equal");
    let twice = |feed: &str, headers: &[&str], id: &str| {
        let replies = [0, 1].map(|_| post(&server, feed, headers, &line(id)).json());
        until_applied(&server, feed);
        replies.map(|reply| reply["repeated"].clone())
    };
    assert_eq!(twice("tight", &[], "meant"), [json!(false), json!(false)]);
    assert_eq!(seen(&server, "rows", "meant"), json!(2));
    assert_eq!(twice("tight", &["Idempotency-Key: a"], "keyed"), [json!(false), json!(true)]);
    assert_eq!(seen(&server, "rows", "keyed"), json!(1));
    // The key decides, not the bytes.
    let other = post(&server, "tight", &["Idempotency-Key: a"], &line("other")).json();
    assert_eq!(other["repeated"], json!(true));
    assert_eq!(seen(&server, "rows", "other"), Value::Null);
    // The feed looks at the content; a client's own key goes before it.
    assert_eq!(twice("hashed", &[], "content"), [json!(false), json!(true)]);
    assert_eq!(seen(&server, "hashes", "content"), json!(1));
    for key in ["Idempotency-Key: b", "Idempotency-Key: c"] {
        assert_eq!(
            post(&server, "hashed", &[key], &line("content")).json()["repeated"],
            json!(false)
        );
    }
    until_applied(&server, "hashed");
    assert_eq!(seen(&server, "hashes", "content"), json!(3));
    server.stop().unwrap();
}

#[test]
fn half_requests_leave_nothing_behind() {
    let server = start("limits_half");
    let head = "POST /v1/feeds/tight HTTP/1.1\r\nHost: localhost\r\n";
    let good = String::from_utf8(line("half")).unwrap();
    let requests = [
        // Cut off within the body, within a chunk, between chunks, and before the last one.
        format!("{head}Content-Length: {}\r\n\r\n{good}", good.len() + 1),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n64\r\n{good}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{good}\r\n", good.len()),
        // Lengths that are none, or two.
        format!("{head}Content-Length: -1\r\n\r\n{good}"),
        format!("{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{good}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{good}\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n-5\r\n{good}\r\n0\r\n\r\n"),
    ];
    for request in requests {
        let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
        let shown = answer.escape_ascii().to_string();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{request}: {shown}");
    }
    // Without a length there is no body, and nothing is no upload.
    let reply = send_bytes(
        server.http_addresses()[0],
        format!("{head}Connection: close\r\n\r\n").as_bytes(),
    );
    assert_eq!(reply.status, 422, "{}", reply.body);
    assert_eq!(feed(&server, "tight")["uploads"], json!(0));
    server.stop().unwrap();
}

#[test]
fn clients_that_go_before_their_answer_and_come_again_are_counted_once() {
    let server = start("limits_gone");
    let mut names = Vec::new();
    for number in 0..20 {
        let name = format!("gone{number}");
        let body = line(&name);
        let head = format!(
            "POST /v1/feeds/tight HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {name}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        for _ in 0..3 {
            let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
            stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        }
        let key = format!("Idempotency-Key: {name}");
        assert_eq!(post(&server, "tight", &[&key], &body).status, 202);
        names.push(name);
    }
    until_applied(&server, "tight");
    for name in names {
        assert_eq!(seen(&server, "rows", &name), json!(1), "{name}");
    }
    assert_eq!(feed(&server, "tight")["uploads"], json!(20));
    server.stop().unwrap();
}

#[test]
fn an_upload_that_is_under_way_when_the_server_ends_is_acknowledged_only_if_it_is_kept() {
    let folder = world::folder("limits_end");
    let config = || Config::from_toml(FEEDS, &folder.join("edge.toml")).unwrap();
    let server = Server::start(config()).unwrap();
    let address = server.http_addresses()[0];
    let clients: Vec<_> = (0..8)
        .map(|client| {
            std::thread::spawn(move || {
                let mut kept = Vec::new();
                for number in 0..10_000 {
                    let name = format!("c{client}n{number}");
                    let body = line(&name);
                    let head = format!(
                        "POST /v1/feeds/tight HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                         Content-Length: {}\r\n\r\n",
                        body.len()
                    );
                    let Ok(mut stream) = TcpStream::connect(address) else { break };
                    if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                        break;
                    }
                    let mut answer = Vec::new();
                    let _ = stream.read_to_end(&mut answer);
                    match &answer[..answer.len().min(13)] {
                        b"HTTP/1.1 202 " => kept.push(name),
                        b"HTTP/1.1 429 " => {}
                        b"HTTP/1.1 503 " | b"" => break,
                        other => panic!("{}", other.escape_ascii()),
                    }
                }
                kept
            })
        })
        .collect();
    until("there is something to do", || feed(&server, "tight")["uploads"].as_u64() > Some(50));
    server.stop().unwrap();
    let kept: Vec<String> = clients.into_iter().flat_map(|it| it.join().unwrap()).collect();
    assert!(!kept.is_empty());
    let server = Server::start(config()).unwrap();
    until_applied(&server, "tight");
    for name in kept {
        assert_eq!(seen(&server, "rows", &name), json!(1), "{name}");
    }
    server.stop().unwrap();
}
