//! Feeds by their wires: HTTP, RESP and the drop folder against a server in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "HTTP tells nobody that something is applied")]

mod support;
mod world;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::{self, Client};
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
name = "sightings"
format = "xml"
record = "upload/sighting"
member = "@object"
longitude = "@x"
latitude = "@y"
time = "@t"
fields = { level = { path = "@level", type = "integer" }, name = "@name" }
items = { each = "loot", key = "@item", count = "@n" }
into = { collection = "sightings", table = "loot" }
upload_size_max = "100kb"
[[feed.table]]
name = "objects"
key = ["member"]
columns = { seen = "count", level = "max(level)", name = "last(name)", last_seen = "max(time)" }
[[feed]]
name = "blocked"
format = "netset"
into = { set = "blocked" }
[[feed]]
name = "closed"
format = "ndjson"
member = "id"
token = "s3cret"
drop_folder = "incoming"
into = { table = "ids" }
"#;

const UPLOAD: &str = r#"<upload>
<sighting object="7" x="8.5" y="50.0" t="1700000000" level="3" name="iron"><loot item="ore" n="2"/></sighting>
<sighting object="7" x="8.6" y="50.1" t="1700000100" level="4" name="vein"><loot item="ore" n="3"/><loot item="gem"/></sighting>
<sighting object="8" x="200" y="50.1" t="1700000100"/>
</upload>"#;

fn start_in(folder: &Path) -> Server {
    let config = Config::from_toml(FEEDS, &folder.join("edge.toml")).unwrap();
    Server::start(config).unwrap()
}

fn start(name: &str) -> (Server, PathBuf) {
    let folder = world::folder(name);
    (start_in(&folder), folder)
}

fn post(server: &Server, path: &str, headers: &[&str], body: &[u8]) -> Reply {
    let mut text = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    headers.iter().for_each(|header| text.push_str(&format!("{header}\r\n")));
    text.push_str("\r\n");
    send_bytes(server.http_addresses()[0], &[text.as_bytes(), body].concat())
}

/// Asks until an upload is no longer spooled.
fn settled(server: &Server, feed: &str, id: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let reply = get(server, &format!("/v1/feeds/{feed}/uploads/{id}"));
        assert_eq!(reply.status, 200, "{}", reply.body);
        if reply.json()["status"] != "spooled" {
            return reply.json();
        }
        assert!(Instant::now() < until, "the upload is applied");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn resp(server: &Server) -> Client {
    Client::connect(server.resp_addresses()[0])
}

#[test]
fn an_upload_is_acknowledged_applied_and_found_in_tables_and_the_collection() {
    let (server, _) = start("feeds_upload");
    let reply = post(&server, "/v1/feeds/sightings", &[], UPLOAD.as_bytes());
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert!(reply.headers.contains(&format!("location: /v1/feeds/sightings/uploads/{id}")));
    let settled = settled(&server, "sightings", &id);
    let expected = json!({ "id": id, "status": "applied", "records": 2, "rejected_records": 1 });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&settled[key], value, "{settled}");
    }
    let row = get(&server, "/v1/tables/objects/rows/7").json();
    let expected = json!({
        "member": "7", "seen": 2, "level": 4, "name": "vein", "last_seen": 1_700_000_100_000_i64,
    });
    assert_eq!(row["row"], expected);
    let row = get(&server, "/v1/tables/loot/rows/7/ore").json();
    assert_eq!((&row["row"]["count"], &row["row"]["seen"]), (&json!(5), &json!(2)));
    let mut client = resp(&server);
    assert_eq!(client.ask(&["ZCARD", "sightings"]), ":1\r\n");
    server.stop().unwrap();
}

#[test]
fn tables_are_scanned_page_by_page_and_as_lines() {
    let (server, _) = start("feeds_tables");
    let sightings: String = (0..700)
        .map(|n| format!("<sighting object=\"o{n}\" x=\"1\" y=\"2\" level=\"{n}\"/>"))
        .collect();
    let upload = format!("<upload>{sightings}</upload>");
    let reply = post(&server, "/v1/feeds/sightings", &[], upload.as_bytes());
    settled(&server, "sightings", reply.json()["id"].as_str().unwrap());
    let mut members = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let page = get(&server, &format!("/v1/tables/objects?cursor={cursor}&count=300")).json();
        let rows = page["rows"].as_array().unwrap();
        members.extend(rows.iter().map(|row| row["member"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    members.sort();
    members.dedup();
    assert_eq!(members.len(), 700, "every row once");
    let csv = get(&server, "/v1/tables/objects?format=csv");
    assert!(csv.headers.contains("content-type: text/csv"));
    assert_eq!(world::http::unchunked(&csv.body).lines().count(), 701);
    let lines = get(&server, "/v1/tables/objects?format=ndjson&count=5");
    assert_eq!(world::http::unchunked(&lines.body).lines().count(), 5);
    let top = get(&server, "/v1/tables/objects/top?column=level&count=2").json();
    let levels: Vec<_> = top["rows"].as_array().unwrap().iter().map(|row| &row["level"]).collect();
    assert_eq!(levels, [&json!(699), &json!(698)]);
    let top = get(&server, "/v1/tables/objects/top?column=level&count=1&order=asc").json();
    assert_eq!(top["rows"][0]["level"], json!(0));
    server.stop().unwrap();
}

#[test]
fn every_refusal_has_its_status_and_says_what_is_allowed() {
    let (server, _) = start("feeds_refusals");
    let refused = |path: &str, headers: &[&str], body: &[u8]| {
        let reply = post(&server, path, headers, body);
        let (status, message, _) = reply.error();
        (status, message, reply.headers)
    };
    let (status, message, _) = refused("/v1/feeds/nowhere", &[], b"x");
    assert_eq!(status, 404);
    assert!(message.contains("sightings"), "{message}");
    let (status, _, headers) = refused("/v1/feeds/sightings", &["Content-Encoding: br"], b"x");
    assert_eq!(status, 415);
    assert!(headers.contains("accept-encoding: identity, gzip, zstd"), "{headers}");
    let twice = ["Content-Encoding: gzip, zstd"];
    assert_eq!(refused("/v1/feeds/sightings", &twice, b"x").0, 415);
    let (status, message, _) = refused("/v1/feeds/sightings", &[], &vec![b' '; 100 * 1024 + 1]);
    assert_eq!(status, 413);
    assert!(message.contains("102400"), "{message}");
    assert_eq!(refused("/v1/feeds/sightings", &[], b"").0, 422, "nothing at all");
    assert_eq!(refused("/v1/feeds/sightings", &[], b"{\"a\":1}").0, 422, "no XML");
    assert_eq!(refused("/v1/feeds/sightings?a=b", &[], UPLOAD.as_bytes()).0, 400);
    let long = format!("Idempotency-Key: {}", "k".repeat(300));
    assert_eq!(refused("/v1/feeds/sightings", &[&long], UPLOAD.as_bytes()).0, 400);
    // The token of a feed: none, a wrong one, the right one.
    let (status, _, headers) = refused("/v1/feeds/closed", &[], b"{\"id\":1}");
    assert_eq!(status, 401);
    assert!(headers.contains("www-authenticate: bearer"), "{headers}");
    let wrong = ["Authorization: Bearer other"];
    assert_eq!(refused("/v1/feeds/closed", &wrong, b"{\"id\":1}").0, 403);
    assert_eq!(refused("/v1/feeds/clos%65d", &[], b"{\"id\":1}").0, 401, "another way to write it");
    let right = ["Authorization: Bearer s3cret"];
    assert_eq!(post(&server, "/v1/feeds/closed", &right, b"{\"id\":1}").status, 202);
    for (path, status) in [
        ("/v1/feeds/sightings/uploads/99", 404),
        ("/v1/feeds/sightings/uploads/x", 400),
        ("/v1/feeds/none", 404),
        ("/v1/tables/none", 404),
        ("/v1/tables/objects?cursor=x", 400),
        ("/v1/tables/objects?format=arrows", 400),
        ("/v1/tables/objects/top", 400),
        ("/v1/tables/objects/top?column=name", 400),
        ("/v1/tables/objects/rows/a/b", 400),
        ("/v1/tables/objects/rows/unknown", 404),
    ] {
        let (found, message, _) = get(&server, path).error();
        assert_eq!(found, status, "{path}: {message}");
    }
    server.stop().unwrap();
}

#[test]
fn a_chunked_upload_is_cut_at_its_limit_while_it_is_read() {
    let (server, _) = start("feeds_chunked");
    let head = "POST /v1/feeds/sightings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let chunked = |body: &[u8], piece: usize| {
        let mut bytes = head.as_bytes().to_vec();
        for piece in body.chunks(piece) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        send_bytes(server.http_addresses()[0], &bytes)
    };
    let reply = chunked(UPLOAD.as_bytes(), 7);
    assert_eq!(reply.status, 202, "{}", reply.body);
    settled(&server, "sightings", reply.json()["id"].as_str().unwrap());
    assert_eq!(chunked(&vec![b' '; 1 << 20], 10_000).status, 413);
    server.stop().unwrap();
}

#[test]
fn packed_uploads_are_applied_and_those_too_large_unpacked_are_413_before_any_202() {
    let (server, _) = start("feeds_packed");
    let packed = zstd_bytes(UPLOAD.as_bytes());
    let reply = post(&server, "/v1/feeds/sightings", &["Content-Encoding: zstd"], &packed);
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(settled(&server, "sightings", &id)["records"], json!(2));
    // Small as it comes, too large as it is.
    let mut text = UPLOAD.as_bytes().to_vec();
    text.extend(std::iter::repeat_n(b' ', 50 << 20));
    let bomb = zstd_bytes(&text);
    assert!(bomb.len() < 100 * 1024);
    let uploads = || get(&server, "/v1/feeds/sightings").json()["uploads"].clone();
    let before = uploads();
    let header = ["Content-Encoding: zstd"];
    let (status, message, _) = post(&server, "/v1/feeds/sightings", &header, &bomb).error();
    assert_eq!(status, 413, "{message}");
    assert!(message.contains("unpacked") && message.contains("102400"), "{message}");
    let cut = post(&server, "/v1/feeds/sightings", &header, &packed[..packed.len() / 2]);
    assert_eq!(cut.status, 422, "{}", cut.body);
    assert_eq!(uploads(), before, "nothing of them was acknowledged");
    server.stop().unwrap();
}

fn zstd_bytes(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn an_upload_that_breaks_off_is_not_kept_and_one_whose_answer_was_lost_is_applied_once() {
    let (server, _) = start("feeds_cut");
    let address = server.http_addresses()[0];
    let head = |length: usize| {
        format!(
            "POST /v1/feeds/sightings HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k1\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    // Half of it, and the client is gone.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(head(UPLOAD.len()).as_bytes()).unwrap();
    stream.write_all(&UPLOAD.as_bytes()[..UPLOAD.len() / 2]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", answer.escape_ascii());
    drop(stream);
    assert_eq!(get(&server, "/v1/feeds/sightings").json()["uploads"], json!(0));
    // All of it, and the client does not wait for the answer.
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head(UPLOAD.len()).as_bytes()).unwrap();
        stream.write_all(UPLOAD.as_bytes()).unwrap();
        drop(stream);
    }
    // The same once more, and this time it listens.
    let key = ["Idempotency-Key: k1"];
    let reply = post(&server, "/v1/feeds/sightings", &key, UPLOAD.as_bytes());
    assert_eq!(reply.status, 202);
    settled(&server, "sightings", reply.json()["id"].as_str().unwrap());
    let again = post(&server, "/v1/feeds/sightings", &key, UPLOAD.as_bytes());
    assert_eq!((again.status, &again.json()["repeated"]), (202, &json!(true)));
    assert_eq!(again.json()["id"], reply.json()["id"]);
    assert_eq!(again.json()["status"], json!("applied"));
    // Without a key it is meant once more.
    let meant = post(&server, "/v1/feeds/sightings", &[], UPLOAD.as_bytes());
    settled(&server, "sightings", meant.json()["id"].as_str().unwrap());
    let row = get(&server, "/v1/tables/objects/rows/7").json();
    assert_eq!(row["row"]["seen"], json!(4), "two sightings, twice");
    server.stop().unwrap();
}

#[test]
fn what_was_acknowledged_survives_a_restart_once() {
    let folder = world::folder("feeds_restart");
    let server = start_in(&folder);
    let key = ["Idempotency-Key: first"];
    for _ in 0..2 {
        assert_eq!(post(&server, "/v1/feeds/sightings", &key, UPLOAD.as_bytes()).status, 202);
    }
    server.stop().unwrap();
    let server = start_in(&folder);
    let reply = post(&server, "/v1/feeds/sightings", &key, UPLOAD.as_bytes());
    assert_eq!((reply.status, &reply.json()["repeated"]), (202, &json!(true)));
    settled(&server, "sightings", reply.json()["id"].as_str().unwrap());
    let row = get(&server, "/v1/tables/objects/rows/7").json();
    assert_eq!(row["row"]["seen"], json!(2));
    server.stop().unwrap();
}

#[test]
fn a_blocklist_decides_soon_after_its_upload() {
    let (server, _) = start("feeds_blocked");
    let mut client = resp(&server);
    for (list, member, other) in [
        ("203.0.113.0/24\n", "203.0.113.9", "198.51.100.1"),
        ("# new\n198.51.100.0/24\n", "198.51.100.1", "203.0.113.9"),
    ] {
        let reply = post(&server, "/v1/feeds/blocked", &[], list.as_bytes());
        assert_eq!(reply.status, 202, "{}", reply.body);
        settled(&server, "blocked", reply.json()["id"].as_str().unwrap());
        assert_ne!(client.ask(&["CIDR.MATCH", "blocked", member]), "$-1\r\n");
        assert_eq!(client.ask(&["CIDR.MATCH", "blocked", other]), "$-1\r\n");
    }
    server.stop().unwrap();
}

#[test]
fn resp_pushes_and_reads_tables() {
    let (server, _) = start("feeds_resp");
    let mut client = resp(&server);
    assert_eq!(
        client.ask(&["FEED.LIST"]),
        "*3\r\n$9\r\nsightings\r\n$7\r\nblocked\r\n$6\r\nclosed\r\n"
    );
    // The replies of a pipeline come in order, the pushes when they are durable.
    let mut requests =
        client::request(&[b"FEED.PUSH", b"sightings", b"KEY", b"a", UPLOAD.as_bytes()]);
    requests.extend(client::request(&[b"PING"]));
    requests.extend(client::request(&[
        b"FEED.PUSH",
        b"sightings",
        b"KEY",
        b"a",
        UPLOAD.as_bytes(),
    ]));
    requests.extend(client::request(&[b"SET", b"a", b"b"]));
    client.send(&requests);
    let first = client.reply().bytes;
    assert!(first.starts_with(b":"), "{}", first.escape_ascii());
    assert_eq!(client.reply().bytes, b"+PONG\r\n");
    assert_eq!(client.reply().bytes, first, "the same key is the same upload");
    assert_eq!(client.reply().bytes, b"+OK\r\n");
    let id = String::from_utf8_lossy(&first[1..]).trim().to_owned();
    settled(&server, "sightings", &id);
    let status = client.ask(&["FEED.STATUS", "sightings", &id]);
    assert!(status.starts_with("*6\r\n$6\r\nstatus\r\n$7\r\napplied\r\n"), "{status}");
    let row = "*5\r\n$1\r\n7\r\n:2\r\n:4\r\n$4\r\nvein\r\n:1700000100000\r\n";
    assert_eq!(client.ask(&["TABLE.GET", "objects", "7"]), row);
    assert_eq!(client.ask(&["TABLE.GET", "objects", "none"]), "*-1\r\n");
    assert_eq!(
        client.ask(&["TABLE.SCAN", "objects", "0"]),
        format!("*2\r\n$1\r\n0\r\n*1\r\n{row}")
    );
    assert_eq!(client.ask(&["TABLE.TOP", "objects", "level", "5"]), format!("*1\r\n{row}"));
    let info = client.ask(&["TABLE.INFO", "objects"]);
    assert!(info.contains("*3\r\n$6\r\nmember\r\n$4\r\ntext\r\n$3\r\nkey\r\n"), "{info}");
    assert!(client.ask(&["FEED.INFO", "sightings"]).contains("backlog"));
    // The counters come a moment after the status.
    let until = Instant::now() + Duration::from_secs(20);
    while !client.ask(&["INFO", "feeds"]).contains("feed_sightings:backlog_uploads=0") {
        assert!(Instant::now() < until, "the backlog is empty");
        std::thread::sleep(Duration::from_millis(10));
    }
    for (words, error) in [
        (&["FEED.PUSH", "none", "x"][..], "-ERR no such feed 'none'\r\n"),
        (&["FEED.PUSH", "sightings", "KEY", "x"], "-ERR syntax error\r\n"),
        (&["FEED.PUSH", "sightings", "NOPE", "x", "y"], "-ERR syntax error\r\n"),
        (&["TABLE.GET", "none", "x"], "-ERR no such table 'none'\r\n"),
        (&["TABLE.GET", "objects", "x", "y"], "-ERR 2 parts of a key; allowed: 1 (member)\r\n"),
        (&["TABLE.SCAN", "objects", "-1"], "-ERR syntax error\r\n"),
    ] {
        assert_eq!(client.ask(words), error);
    }
    assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
    let refused = client.ask(&["FEED.PUSH", "sightings", "x"]);
    assert_eq!(refused, "-ERR Command not allowed inside a transaction\r\n");
    server.stop().unwrap();
}

#[test]
fn files_of_the_drop_folder_are_taken_once() {
    let folder = world::folder("feeds_drop");
    let incoming = folder.join("incoming");
    let server = start_in(&folder);
    fs::write(incoming.join("part.tmp"), "{\"id\":\"half\"}\n").unwrap();
    fs::write(incoming.join("one.ndjson"), "{\"id\":\"a\"}\n{\"id\":\"b\"}\n").unwrap();
    fs::write(folder.join("elsewhere"), "{\"id\":\"a\"}\n").unwrap();
    fs::rename(folder.join("elsewhere"), incoming.join("two.ndjson")).unwrap();
    fs::write(incoming.join("bad"), "<xml/>").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let failed = incoming.join("failed/bad.reason");
    while !(incoming.join("done/one.ndjson").exists()
        && incoming.join("done/two.ndjson").exists()
        && failed.exists())
    {
        assert!(Instant::now() < until, "the files are taken");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(incoming.join("part.tmp").exists());
    assert!(!fs::read_to_string(failed).unwrap().is_empty());
    // As after a crash between the spool and the move: the same file is there again.
    fs::rename(incoming.join("done/one.ndjson"), incoming.join("one.ndjson")).unwrap();
    while !incoming.join("done/one.ndjson").exists() {
        assert!(Instant::now() < until, "the file is taken again");
        std::thread::sleep(Duration::from_millis(10));
    }
    let rows = || {
        let page = get(&server, "/v1/tables/ids").json();
        let rows = page["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["seen"].as_u64().unwrap()).sum::<u64>()
    };
    while rows() < 3 {
        assert!(Instant::now() < until, "the uploads are applied");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(rows(), 3);
    server.stop().unwrap();
}

#[test]
fn an_upload_says_where_and_why_its_records_were_rejected() {
    let (server, _) = start("feeds_rejections");
    let status = |body: &str| {
        let reply = post(&server, "/v1/feeds/sightings", &[], body.as_bytes());
        settled(&server, "sightings", reply.json()["id"].as_str().unwrap())
    };
    let partly = status(UPLOAD);
    assert_eq!((&partly["records"], &partly["rejected_records"]), (&json!(2), &json!(1)));
    let rejections = partly["rejections"].as_array().unwrap();
    let offset = UPLOAD.find("<sighting object=\"8\"").unwrap();
    assert_eq!(rejections.len(), 1, "{partly}");
    assert_eq!(rejections[0]["offset_bytes"], json!(offset));
    assert_eq!((&rejections[0]["line"], &rejections[0]["column"]), (&json!(4), &json!(1)));
    assert!(rejections[0]["reason"].as_str().unwrap().contains("longitude"), "{partly}");
    let none = status("<upload>\n<sighting\n</upload>");
    assert_eq!((&none["records"], &none["rejections"][0]["line"]), (&json!(0), &json!(2)));
    let right = UPLOAD.replace("x=\"200\"", "x=\"20\"");
    assert_eq!(status(&right).get("rejections"), None);
    server.stop().unwrap();
}

#[test]
fn feeds_are_told_in_lists_and_metrics() {
    let (server, _) = start("feeds_told");
    let reply = post(&server, "/v1/feeds/sightings", &[], UPLOAD.as_bytes());
    settled(&server, "sightings", reply.json()["id"].as_str().unwrap());
    let feeds = get(&server, "/v1/feeds").json();
    let names: Vec<_> = feeds["feeds"].as_array().unwrap().iter().map(|f| &f["name"]).collect();
    assert_eq!(names.len(), 3);
    // The counters come a moment after the status.
    let until = Instant::now() + Duration::from_secs(20);
    let one = loop {
        let one = get(&server, "/v1/feeds/sightings").json();
        if one["records"] == 2 && one["rejected_records"] == 1 && one["backlog"]["uploads"] == 0 {
            break one;
        }
        assert!(Instant::now() < until, "the records are counted: {one}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&one["uploads"], &one["records"]), (&json!(1), &json!(2)));
    assert_eq!(one["rejected_records"], json!(1));
    let metrics = get(&server, "/metrics").body;
    for line in [
        "whered_feed_uploads_total{feed=\"sightings\"} 1",
        "whered_feed_records_total{feed=\"sightings\"} 2",
        "whered_feed_rejected_records_total{feed=\"sightings\"} 1",
        "whered_feed_backlog_uploads{feed=\"sightings\"} 0",
        "whered_table_rows{feed=\"sightings\",table=\"objects\"} 1",
        "whered_feed_spool_syncs_total{feed=\"sightings\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let tables = get(&server, "/v1/tables").json();
    assert_eq!(tables["tables"].as_array().unwrap().len(), 3);
    server.stop().unwrap();
}

#[test]
fn a_foreign_web_page_cannot_upload_to_a_feed() {
    let (server, _folder) = start("feeds_foreign");
    let path = "/v1/feeds/sightings";
    for foreign in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        let reply = post(&server, path, &[foreign, "Content-Type: text/plain"], UPLOAD.as_bytes());
        assert_eq!(reply.error().0, 403, "{foreign}");
    }
    let told = get(&server, path).json();
    assert_eq!(post(&server, path, &[], UPLOAD.as_bytes()).status, 202);
    assert_eq!(told["uploads"], json!(0), "{told}");
    // The token of the feed opens it from everywhere, and nothing else does.
    let foreign = "Origin: http://evil.example";
    let token = "Authorization: Bearer s3cret";
    let closed = "/v1/feeds/closed";
    assert_eq!(post(&server, closed, &[foreign, token], b"{\"id\":1}\n").status, 202);
    assert_eq!(post(&server, closed, &[foreign], b"{\"id\":1}\n").error().0, 403);
    assert_eq!(post(&server, closed, &[], b"{\"id\":1}\n").error().0, 401);
    server.stop().unwrap();
}
