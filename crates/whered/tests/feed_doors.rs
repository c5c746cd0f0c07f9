//! Hostile uploads through every way into a feed: HTTP, FEED.PUSH, drop folder, `whered ingest`, a
//! Redis Stream. Each door must come to the same end with the same reason, and the server goes on.
//!
//! Not for what a single door answers to requests that are none (`whered-server`'s wire tests). The
//! stream is left out where there is no Redis, unless `WHERED_REQUIRE` names `peers`.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped part says so")]

mod served;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use served::{Served, WAIT, folder};

const UPLOAD_BYTES_MAX: usize = 100 << 10;

/// What becomes of an upload.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// Nothing of it counts, because.
    Never(String),
    /// So many records count, so many do not, and why the last of those does not.
    Counts(u64, u64, String),
}

/// An upload, and what must become of it; reasons are parts of the whole ones.
struct Case {
    name: &'static str,
    feed: &'static str,
    bytes: Vec<u8>,
    end: End,
}

fn never(name: &'static str, feed: &'static str, bytes: impl Into<Vec<u8>>, why: &str) -> Case {
    Case { name, feed, bytes: bytes.into(), end: End::Never(why.to_owned()) }
}

fn counts(
    name: &'static str,
    feed: &'static str,
    bytes: impl Into<Vec<u8>>,
    (good, bad): (u64, u64),
    why: &str,
) -> Case {
    Case { name, feed, bytes: bytes.into(), end: End::Counts(good, bad, why.to_owned()) }
}

const GOOD: &str = r#"<sighting object="7" x="8.5" y="50.0" t="1700000000"/>"#;
const LINE: &str = "{\"m\":\"a\",\"x\":8.5,\"y\":50.0,\"t\":1700000000}\n";
const ROWS: &str = "m,x,y,t\na,8.5,50.0,1700000000\n";

fn xml(body: &str) -> Vec<u8> {
    format!("<upload>{body}</upload>").into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).expect("memory takes it");
    packer.finish().expect("memory takes it")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("memory takes it")
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

fn bombs() -> Vec<Case> {
    let bomb = xml(&format!("{GOOD}{}", " ".repeat(50 << 20)));
    let larger = "larger than the 102400 bytes allowed";
    let packed = xml(&GOOD.repeat(1000));
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 12].to_vec();
    vec![
        never("gzip bomb", "xml", gzip(&bomb), larger),
        never("zstd bomb", "xml", zstd(&bomb), larger),
        never("bomb in a bomb", "xml", gzip(&gzip(&bomb)), "packed twice, with gzip inside"),
        never("gzip in zstd", "xml", zstd(&gzip(&xml(GOOD))), "packed twice, with gzip inside"),
        never("half a gzip", "xml", cut(gzip(&packed)), "cannot be unpacked as gzip"),
        never("half a zstd", "xml", cut(zstd(&packed)), "cannot be unpacked as zstd"),
        counts("two documents", "xml", gzip(&xml(GOOD)).repeat(2), (1, 1), "a second root"),
    ]
}

fn texts() -> Vec<Case> {
    let endless = format!("{LINE}{{\"m\":\"{}", "a".repeat(90_000));
    let deep = format!("{LINE}{{\"m\":{}1{}}}\n", "[".repeat(40_000), "]".repeat(40_000));
    let quote = format!("{ROWS}b,\"{}", "1".repeat(90_000));
    let wide = format!("{ROWS}{}\n", ",".repeat(50_000));
    let latin = |text: &str| text.chars().map(|letter| letter as u8).collect::<Vec<u8>>();
    let umlaut = format!("{LINE}{{\"m\":\"ä\",\"x\":1,\"y\":2,\"t\":1}}\n{LINE}");
    vec![
        counts("an endless line", "lines", endless, (1, 1), "EOF while parsing a string"),
        counts("deep JSON", "lines", deep, (1, 1), "recursion limit"),
        counts("an endless quote", "rows", quote, (1, 1), "never closed"),
        counts("too many columns", "rows", wide, (1, 1), "50001 columns"),
        counts("Latin-1 in lines", "lines", latin(&umlaut), (2, 1), "not UTF-8"),
        counts("Latin-1 in rows", "rows", latin(&format!("{ROWS}ä,1,2,3\n")), (1, 1), "not UTF-8"),
        counts("UTF-16 lines", "lines", utf16(LINE), (1, 0), ""),
        counts("half a line", "lines", format!("{LINE}{{\"m\":\"b\","), (1, 1), "EOF"),
        counts("half a row", "rows", format!("{ROWS}b,1"), (1, 1), "2 columns"),
        never("white space", "lines", "\n\n  \n", "empty"),
        never("too large", "lines", LINE.repeat(3000), "102400"),
    ]
}

fn documents() -> Vec<Case> {
    let laughs = "<!DOCTYPE u [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\
                  <upload><sighting object=\"&b;\" x=\"1\" y=\"2\" t=\"1\"/></upload>";
    let outside = "<!DOCTYPE u [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><upload/>";
    let entity = format!(r#"{GOOD}<sighting object="&x;" x="1" y="2" t="1"/>"#);
    let document = format!("<upload>{GOOD}</upload>");
    let declared = |encoding| format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?>{document}");
    let times = ["-1", "1e300", "NaN", "99999999999999999999999", "9223372036854775807"];
    let more_times = ["-9223372036854775808", "now", "2023-13-45T99:99:99Z", "9999999999999"];
    let clock: String = times
        .iter()
        .chain(&more_times)
        .map(|time| format!(r#"<sighting object="c" x="1" y="2" t="{time}"/>"#))
        .collect();
    let attributes: String = (0..8000).map(|n| format!(" a{n}='1'")).collect();
    let attributes = xml(&format!("<sighting{attributes}/>{GOOD}"));
    vec![
        never("entities of entities", "xml", laughs, "a document type"),
        never("an entity of a file", "xml", outside, "a document type"),
        counts("an entity that is none", "xml", xml(&entity), (1, 1), "unrecognized entity"),
        never("endless elements", "xml", format!("<upload>{}", "<a>".repeat(30_000)), "deeper"),
        counts("endless attributes", "xml", attributes, (1, 1), "member is missing"),
        counts("Latin-1", "xml", declared("ISO-8859-1"), (1, 0), ""),
        never("an encoding that is none", "xml", declared("ISO-8859-99"), "'ISO-8859-99'"),
        counts("UTF-16", "xml", utf16(&document), (1, 0), ""),
        counts("half a tag", "xml", format!("<upload>{GOOD}<sigh"), (1, 1), "within a tag"),
        counts("clock nonsense", "xml", xml(&format!("{GOOD}{clock}")), (1, 9), "time"),
    ]
}

/// The ways in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Http,
    Resp,
    Folder,
    Ingest,
    Stream,
}

/// A Redis of our own.
struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redis(at: &Path) -> Option<Redis> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.port().to_string(), "--save", "", "--bind", "127.0.0.1"]);
    command.arg("--dir").arg(at).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(child) = command.spawn() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.contains("peers"), "WHERED_REQUIRE names peers; there is no Redis");
        eprintln!("the stream is left out: there is no redis-server");
        return None;
    };
    let begun = Instant::now();
    while TcpStream::connect(port).is_err() {
        assert!(begun.elapsed() < WAIT, "Redis does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(Redis { child, address: port })
}

fn configuration(redis: Option<&Redis>) -> String {
    let mut text = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\n[dns]\nlisten = []\n"
        .to_owned();
    let mapping = "member = \"m\"\nlongitude = \"x\"\nlatitude = \"y\"\ntime = \"t\"\n";
    let of_xml = "record = \"upload/sighting\"\nmember = \"@object\"\nlongitude = \"@x\"\n\
         latitude = \"@y\"\ntime = \"@t\"\n";
    for (name, format, mapping) in
        [("xml", "xml", of_xml), ("lines", "ndjson", mapping), ("rows", "csv", mapping)]
    {
        text.push_str(&format!(
            "[[feed]]\nname = \"{name}\"\nformat = \"{format}\"\n{mapping}\
             into = {{ table = \"{name}\" }}\nupload_size_max = {UPLOAD_BYTES_MAX}\n\
             batch_delay_millis = 0\ndrop_folder = \"in-{name}\"\n"
        ));
        if let Some(redis) = redis {
            text.push_str(&format!(
                "[[feed.stream]]\nname = \"queue\"\nurl = \"redis://{}\"\nstream = \"{name}\"\n\
                 field = \"body\"\nfrom = \"start\"\n",
                redis.address
            ));
        }
    }
    text
}

/// A server, and the Redis whose streams it follows.
struct World {
    served: Served,
    redis: Option<Redis>,
    dropped: u32,
}

impl World {
    fn new() -> World {
        let folder = folder("feed-doors");
        let redis = redis(&folder);
        fs::write(folder.join("whered.toml"), configuration(redis.as_ref())).expect("writable");
        World { served: Served::start(folder), redis, dropped: 0 }
    }

    fn http(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.served.http).expect("it listens");
        stream.set_read_timeout(Some(WAIT)).expect("it can be set");
        let length = body.len();
        let head = format!(
            "{head}Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        // A refusal may come before everything is written.
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.into())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.http(&format!("GET {path} HTTP/1.1\r\n"), b"");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Sends an upload; gives why the door has refused it, if it has said so.
    fn send(&mut self, way: Way, case: &Case) -> Option<String> {
        match way {
            Way::Http => {
                let encoding = match case.bytes[..] {
                    [0x1f, 0x8b, ..] => "Content-Encoding: gzip\r\n",
                    [0x28, 0xb5, 0x2f, 0xfd, ..] => "Content-Encoding: zstd\r\n",
                    _ => "",
                };
                let head = format!("POST /v1/feeds/{} HTTP/1.1\r\n{encoding}", case.feed);
                let (status, body) = self.http(&head, &case.bytes);
                (status != 202).then_some(body)
            }
            Way::Resp => {
                let encoding: &[u8] = match case.bytes[..] {
                    [0x1f, 0x8b, ..] => b"gzip",
                    [0x28, 0xb5, 0x2f, 0xfd, ..] => b"zstd",
                    _ => b"identity",
                };
                let feed = case.feed.as_bytes();
                let words = [b"FEED.PUSH", feed, b"ENCODING", encoding, &case.bytes];
                let reply = resp(self.served.resp, &words);
                reply.starts_with('-').then_some(reply)
            }
            Way::Folder => {
                self.dropped += 1;
                let name = format!("drop-{}", self.dropped);
                let incoming = self.served.folder.join(format!("in-{}", case.feed));
                let hidden = incoming.join(format!(".{name}"));
                fs::write(&hidden, &case.bytes).expect("the folder can be written");
                fs::rename(&hidden, incoming.join(&name)).expect("the same folder");
                let reason = incoming.join("failed").join(format!("{name}.reason"));
                let done = incoming.join("done").join(&name);
                until("the file is taken", || {
                    let refused = fs::read_to_string(&reason).ok().filter(|why| !why.is_empty());
                    refused.map(Some).or_else(|| done.exists().then_some(None))
                })
            }
            Way::Ingest => {
                let file = self.served.folder.join("upload");
                fs::write(&file, &case.bytes).expect("the folder can be written");
                let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
                command.args(["ingest", case.feed]).arg(&file);
                command.args(["--server", &format!("http://{}", self.served.http)]);
                let output = command.output().expect("the program runs");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                (!output.status.success()).then_some(said)
            }
            Way::Stream => {
                let redis = self.redis.as_ref().expect("such a door is tried with a Redis only");
                let link = |world: &World| {
                    world.get(&format!("/v1/feeds/{}", case.feed))["links"][0].clone()
                };
                let before = link(self);
                let words: [&[u8]; 5] = [b"XADD", case.feed.as_bytes(), b"*", b"body", &case.bytes];
                assert!(resp(redis.address, &words).starts_with('$'));
                until("the entry is taken", || {
                    let now = link(self);
                    let why = || now["error"].as_str().unwrap_or_default().to_owned();
                    let is_passed_over = now["left_out"] != before["left_out"];
                    let is_taken = now["rows"] != before["rows"];
                    is_passed_over.then(|| Some(why())).or_else(|| is_taken.then_some(None))
                })
            }
        }
    }

    /// What became of an upload that a door has taken, or why it was refused.
    fn end(&mut self, way: Way, case: &Case) -> End {
        let path = format!("/v1/feeds/{}", case.feed);
        let before = self.get(&path)["uploads"].as_u64().expect("a count");
        if let Some(why) = self.send(way, case) {
            let after = self.get(&path);
            assert_eq!(after["uploads"], before, "{}, {way:?}: nothing is kept", case.name);
            return End::Never(why);
        }
        let id = until("the upload is spooled", || {
            let uploads = self.get(&path)["uploads"].as_u64();
            uploads.filter(|uploads| *uploads > before)
        });
        let status = until("the upload is applied", || {
            let status = self.get(&format!("{path}/uploads/{id}"));
            (status["status"] != "spooled").then_some(status)
        });
        if status["status"] == "rejected" {
            let reason = status["reason"].as_str().unwrap_or_default();
            assert!(self.quarantined(case.feed, id).contains(reason), "{}, {way:?}", case.name);
            return End::Never(reason.to_owned());
        }
        let count = |field: &str| status[field].as_u64().expect("a count");
        let why = self.quarantined(case.feed, id);
        End::Counts(count("records"), count("rejected_records"), why)
    }

    /// The last reason that the quarantine file has for an upload.
    fn quarantined(&self, feed: &str, id: u64) -> String {
        let path: PathBuf = self.served.folder.join(format!("data/quarantine/{feed}.ndjson"));
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let last = lines.rfind(|line| line["upload"] == id).unwrap_or_default();
        last["reason"].as_str().unwrap_or_default().to_owned()
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The first line of a reply.
fn resp(address: SocketAddr, words: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("it can be set");
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes().chain(word.iter().copied()));
        request.extend(b"\r\n");
    }
    stream.write_all(&request).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it answers");
    line
}

#[test]
fn hostile_uploads_come_to_the_same_end_by_every_door() {
    let mut world = World::new();
    let mut ways = vec![Way::Http, Way::Resp, Way::Folder, Way::Ingest];
    ways.extend(world.redis.is_some().then_some(Way::Stream));
    for case in bombs().into_iter().chain(texts()).chain(documents()) {
        for way in &ways {
            let end = world.end(*way, &case);
            let is_right = match (&case.end, &end) {
                (End::Never(wanted), End::Never(why)) => why.contains(wanted.as_str()),
                (End::Counts(good, bad, wanted), End::Counts(is_good, is_bad, why)) => {
                    (good, bad) == (is_good, is_bad) && why.contains(wanted.as_str())
                }
                _ => false,
            };
            assert!(is_right, "{}, {way:?}: wanted {:?}, found {end:?}", case.name, case.end);
        }
    }
    // Everything is still there, and what was unpacked is given back.
    let good = counts("a good one", "xml", xml(GOOD), (1, 0), "");
    assert_eq!(world.end(Way::Http, &good), good.end);
    let (_, metrics) = world.http("GET /metrics HTTP/1.1\r\n", b"");
    let line = "whered_memory_bytes{part=\"tables\"} ";
    let used = metrics.lines().find_map(|text| text.strip_prefix(line)).expect("it is told");
    let used: u64 = used.parse().expect("a count");
    assert!(used < 4 << 20, "{used} bytes");
}

/// Whether a disk can be made to fail here.
fn has_strace() -> bool {
    let tried = Command::new("strace").args(["-q", "-o", "/dev/null", "true"]).status();
    let has = tried.is_ok_and(|status| status.success());
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(has || !required.contains("kernel"), "WHERED_REQUIRE names kernel; no strace");
    has
}

#[test]
fn a_failed_disk_is_503_and_what_was_acknowledged_is_there_after_a_restart() {
    if !has_strace() {
        eprintln!("skipped: strace cannot be used here");
        return;
    }
    let at = folder("feed-eio");
    fs::write(at.join("whered.toml"), configuration(None)).expect("writable");
    // The first start makes the files; only fdatasyncs of uploads and batches come then.
    drop(Served::start_keeping(at.clone(), &[]));
    let strace = ["strace", "-D", "-f", "-q", "-o", "/dev/null", "--trace=fdatasync"];
    let words = [&strace[..], &["--inject=fdatasync:error=EIO:when=4+"]].concat();
    let served = Served::start_keeping(at.clone(), &words);
    let mut world = World { served, redis: None, dropped: 0 };
    let mut taken = Vec::new();
    let refusal = (0..100).find_map(|number| {
        let line = format!("{{\"m\":\"u{number}\",\"x\":1,\"y\":2,\"t\":1}}\n");
        let (status, body) = world.http("POST /v1/feeds/lines HTTP/1.1\r\n", line.as_bytes());
        match status {
            202 => taken.push(number),
            503 => return Some(body),
            other => panic!("{other} {body}"),
        }
        None
    });
    let refusal = refusal.expect("the disk fails");
    assert!(refusal.contains("Input/output error"), "{refusal}");
    // It stays so, by every door, and is told of.
    let again = counts("another", "lines", LINE, (1, 0), "");
    assert!(world.send(Way::Http, &again).expect("refused").contains("error"));
    assert!(world.send(Way::Resp, &again).expect("refused").starts_with("-MISCONF"));
    let feed = world.get("/v1/feeds/lines");
    assert!(feed["failed"].as_str().is_some_and(|why| why.contains("error")), "{feed}");
    let (_, metrics) = world.http("GET /metrics HTTP/1.1\r\n", b"");
    assert!(metrics.contains("whered_feed_failed{feed=\"lines\"} 1"));
    drop(world);
    let served = Served::start_keeping(at.clone(), &[]);
    let world = World { served, redis: None, dropped: 0 };
    until("what waited is applied", || {
        (world.get("/v1/feeds/lines")["backlog"]["uploads"] == 0).then_some(())
    });
    for number in taken {
        let row = world.get(&format!("/v1/tables/lines/rows/u{number}"));
        assert_eq!(row["row"]["seen"], 1, "{row}");
    }
    drop(world);
    let _ = fs::remove_dir_all(at);
}

/// A feed of lines that applies at once, or leaves uploads in the spool for a minute.
fn waiting(delay_millis: u32) -> String {
    format!(
        "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\n[dns]\nlisten = []\n\
         [[feed]]\nname = \"lines\"\nformat = \"ndjson\"\nmember = \"m\"\n\
         into = {{ table = \"lines\" }}\nbatch_delay_millis = {delay_millis}\n"
    )
}

/// A folder whose data directory has five uploads that wait.
fn spooled(name: &str) -> PathBuf {
    let at = folder(name);
    fs::write(at.join("whered.toml"), waiting(60_000)).expect("writable");
    let served = Served::start_keeping(at.clone(), &[]);
    let world = World { served, redis: None, dropped: 0 };
    for number in 1..=5 {
        let line = format!("{{\"m\":\"upload-{number}\"}}\n");
        let (status, body) = world.http("POST /v1/feeds/lines HTTP/1.1\r\n", line.as_bytes());
        assert_eq!(status, 202, "{body}");
    }
    at
}

/// Starts a server on a folder and gives how often each of the five uploads was applied.
fn applied(at: &Path) -> Vec<u64> {
    fs::write(at.join("whered.toml"), waiting(0)).expect("writable");
    let served = Served::start_keeping(at.to_owned(), &[]);
    let world = World { served, redis: None, dropped: 0 };
    until("what waited is applied", || {
        (world.get("/v1/feeds/lines")["backlog"]["uploads"] == 0).then_some(())
    });
    let rows = world.get("/v1/tables/lines?count=10");
    let seen = |number: u64| {
        let name = format!("upload-{number}");
        let mut found = rows["rows"].as_array().into_iter().flatten();
        let row = found.find(|row| row["member"] == name.as_str());
        row.map_or(0, |row| row["seen"].as_u64().unwrap_or(0))
    };
    (1..=5).map(seen).collect()
}

fn whered(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    let output = command.args(words).output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_backup_has_the_spools_of_feeds_that_the_configuration_does_not_name() {
    let at = spooled("feed-backup");
    let plain = waiting(0).split("[[feed]]").next().expect("there is a first part").to_owned();
    let copy = folder("feed-backup-copy");
    let plain = format!("{plain}[backup]\ndirectory = '{}'\n", copy.display());
    fs::write(at.join("whered.toml"), plain).expect("writable");
    let served = Served::start_keeping(at.clone(), &[]);
    let from = format!("redis://{}", served.resp);
    let target = copy.join("data").display().to_string();
    let (code, said) = whered(&["backup", &target, "--server", &from]);
    assert_eq!(code, 0, "{said}");
    drop(served);
    assert_eq!(applied(&copy), [1, 1, 1, 1, 1]);
    assert_eq!(applied(&at), [1, 1, 1, 1, 1], "and they are where they were");
    for folder in [at, copy] {
        let _ = fs::remove_dir_all(folder);
    }
}

#[test]
fn a_damaged_spool_is_told_and_repaired_up_to_the_damage() {
    let at = spooled("feed-repair");
    let data = at.join("data");
    let (code, said) = whered(&["repair", &data.display().to_string()]);
    assert_eq!(code, 0, "nothing is wrong yet: {said}");
    let segments = fs::read_dir(data.join("spool/lines")).expect("there is a spool");
    let hit = segments.flatten().find_map(|entry| {
        let bytes = fs::read(entry.path()).expect("readable");
        let place = bytes.windows(8).position(|window| window == b"upload-3")?;
        Some((entry.path(), bytes, place))
    });
    let (path, mut bytes, place) = hit.expect("the third upload is there");
    bytes[place] ^= 0x20;
    fs::write(&path, bytes).expect("writable");
    // The feed alone is out of service (`feeds_kept.rs`); the line says what to do.
    let served = Served::start_keeping(at.clone(), &[]);
    assert!(served.log().contains("spool/lines"), "{}", served.log());
    assert!(served.log().contains("'whered repair' keeps what is left"), "{}", served.log());
    drop(served);
    let (code, said) = whered(&["repair", &data.display().to_string()]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("feed 'lines': kept: uploads 1 to 2, which wait"), "{said}");
    assert_eq!(applied(&at), [1, 1, 0, 0, 0]);
    let _ = fs::remove_dir_all(at);
}
