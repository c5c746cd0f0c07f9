//! What is acknowledged is on the disk, whatever the journal's policy is; one feed's damage is its
//! own; and what is kept is for its owner alone. Tried with kill -9 and with files that are
//! changed.
//!
//! Not for power cuts, which a simulated disk has (`whered-store`, `whered-engine`).

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped part says so")]

mod served;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use served::{Served, WAIT, folder, signal, wait_for_end};

/// Two feeds that leave uploads in their spools for a while, and what else is wanted.
fn config(more: &str) -> String {
    let feed = |name: &str| {
        format!(
            "[[feed]]\nname = \"{name}\"\nformat = \"ndjson\"\nmember = \"m\"\n\
             into = {{ table = \"{name}\" }}\nbatch_delay_millis = 300\n\
             drop_folder = \"incoming-{name}\"\n"
        )
    };
    format!(
        "data_dir = \"data\"\n{more}\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\n[dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
         [[zone]]\nname = \"example.com\"\npath = \"zone\"\n{}{}",
        feed("one"),
        feed("other")
    )
}

const ZONE: &str = "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";

fn place(name: &str, more: &str) -> PathBuf {
    let at = folder(name);
    fs::write(at.join("whered.toml"), config(more)).expect("writable");
    fs::write(at.join("zone"), ZONE).expect("writable");
    at
}

fn http(served: &Served, head: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(served.http).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("it can be set");
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
}

fn get(served: &Served, path: &str) -> Value {
    let (status, body) = http(served, &format!("GET {path}"), b"");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn push(served: &Served, feed: &str, member: &str) -> (u16, Value) {
    let line = format!("{{\"m\":\"{member}\"}}\n");
    http(served, &format!("POST /v1/feeds/{feed}"), line.as_bytes())
}

fn resp(address: SocketAddr, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("it can be set");
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut reply = [0; 4096];
    let length = stream.read(&mut reply).expect("a reply");
    String::from_utf8_lossy(&reply[..length]).into_owned()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How often each member was applied, once nothing waits.
fn seen(served: &Served, feed: &str, members: &[String]) -> Vec<u64> {
    until("what waits is applied", || {
        (get(served, &format!("/v1/feeds/{feed}"))["backlog"]["uploads"] == 0).then_some(())
    });
    let of = |member: &String| {
        let (_, row) = http(served, &format!("GET /v1/tables/{feed}/rows/{member}"), b"");
        row["row"]["seen"].as_u64().unwrap_or(0)
    };
    members.iter().map(of).collect()
}

fn kill(served: Served) {
    let pid = served.pid();
    signal(pid, "KILL");
    wait_for_end(pid);
    drop(served);
}

fn whered(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    let output = command.args(words).output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn with_everysec_and_off_nothing_acknowledged_is_lost_by_kill_9_right_after_the_answer() {
    for sync in ["everysec", "off"] {
        let at = place(&format!("kept-{sync}"), &format!("[journal]\nsync = \"{sync}\""));
        let mut members = Vec::new();
        let mut ids = BTreeSet::new();
        for round in 0..4 {
            let served = Served::start_keeping(at.clone(), &[]);
            let by_http = format!("http-{round}");
            let (status, answer) = push(&served, "one", &by_http);
            assert_eq!((status, &answer["durable"]), (202, &Value::Bool(true)), "{answer}");
            assert!(ids.insert(answer["id"].as_str().expect("an id").to_owned()), "{answer}");
            let by_resp = format!("resp-{round}");
            let reply =
                resp(served.resp, &["FEED.PUSH", "one", &format!("{{\"m\":\"{by_resp}\"}}")]);
            assert!(reply.starts_with(':'), "{reply}");
            assert!(ids.insert(reply.trim()[1..].to_owned()), "{reply}");
            let by_file = format!("file-{round}");
            fs::write(at.join("incoming-one").join(&by_file), format!("{{\"m\":\"{by_file}\"}}\n"))
                .expect("writable");
            let done = at.join("incoming-one/done").join(&by_file);
            until("the file is taken", || done.exists().then_some(()));
            members.extend([by_http, by_resp, by_file]);
            kill(served);
        }
        let served = Served::start_keeping(at.clone(), &[]);
        let counts = seen(&served, "one", &members);
        assert_eq!(counts, vec![1; members.len()], "{sync}: {members:?}");
        drop(served);
        let _ = fs::remove_dir_all(at);
    }
}

#[test]
fn a_loosened_feed_says_that_an_upload_is_not_durable_and_gives_no_number_twice() {
    let at = place("kept-loose", "[feeds]\nsync = \"off\"");
    let mut ids = BTreeSet::new();
    let mut has_said = false;
    for round in 0..3 {
        let served = Served::start_keeping(at.clone(), &[]);
        assert_eq!(get(&served, "/v1/feeds/one")["durable"], false);
        for number in 0..5 {
            let (status, answer) = push(&served, "one", &format!("m{round}-{number}"));
            assert_eq!(status, 202, "{answer}");
            has_said |= answer["durable"] == false;
            let id: u64 = answer["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
            assert!(ids.insert(id), "{id} was given twice");
        }
        let reply = resp(served.resp, &["FEED.PUSH", "one", "{\"m\":\"resp\"}"]);
        let words: Vec<&str> = reply.split("\r\n").collect();
        assert_eq!((words[0], words[2], words[5]), ("*4", "id", "durable"), "{reply}");
        let id = words[3][1..].parse().expect("a number");
        assert!(ids.insert(id), "{id} was given twice");
        has_said |= words[6] == ":0";
        kill(served);
    }
    assert!(has_said, "at least one was not on the disk when it was acknowledged");
    // What was lost is told of as lost, never as somebody else's.
    let served = Served::start_keeping(at.clone(), &[]);
    let first = ids.first().expect("there are some");
    let (status, upload) = http(&served, &format!("GET /v1/feeds/one/uploads/{first}"), b"");
    assert_eq!(status, 200, "{upload}");
    drop(served);
    let _ = fs::remove_dir_all(at);
}

#[test]
fn a_feed_without_a_data_directory_is_refused_with_its_line() {
    let at = place("kept-nowhere", "");
    let path = at.join("whered.toml");
    let text = fs::read_to_string(&path).expect("readable").replace("data_dir = \"data\"\n", "");
    let line = 1 + text.lines().position(|line| line == "[[feed]]").expect("there is a feed");
    fs::write(&path, text).expect("writable");
    let config = path.display().to_string();
    for words in [&["check", &config][..], &["serve", "--config", &config]] {
        let (code, said) = whered(words);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(&format!("whered.toml:{line}:")), "{said}");
        assert!(said.contains("'one'") && said.contains("data_dir"), "{said}");
    }
    let _ = fs::remove_dir_all(at);
}

/// Changes a byte of what the third upload of a feed says, in its spool.
fn damage_spool(at: &Path, feed: &str, text: &[u8]) {
    let segments = fs::read_dir(at.join("data/spool").join(feed)).expect("there is a spool");
    let hit = segments.flatten().find_map(|entry| {
        let bytes = fs::read(entry.path()).expect("readable");
        let place = bytes.windows(text.len()).position(|window| window == text)?;
        Some((entry.path(), bytes, place))
    });
    let (path, mut bytes, place) = hit.expect("the upload is there");
    bytes[place] ^= 0x20;
    fs::write(path, bytes).expect("writable");
}

/// Whether the zone's name server is answered for.
fn answers_dns(served: &Served) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("it can be set");
    let query = b"\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02ns\x07example\x03com\x00\x00\x01\x00\x01";
    socket.send_to(query, served.dns).expect("it is sent");
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).unwrap_or(0);
    length > query.len() && answer[3] & 0x0f == 0 && answer[7] == 1
}

#[test]
fn a_damaged_spool_takes_its_feed_only_out_of_service_until_it_is_repaired() {
    let at = place("kept-damaged", "");
    let served = Served::start_keeping(at.clone(), &[]);
    assert_eq!(push(&served, "one", "applied").0, 202);
    assert_eq!(seen(&served, "one", &["applied".to_owned()]), [1]);
    // What readers see is on the disk a moment later, or when somebody asks for that.
    assert_eq!(resp(served.resp, &["SAVE"]), "+OK\r\n");
    let mut last = 0;
    for number in 1..=4 {
        let (status, answer) = push(&served, "one", &format!("upload-{number}"));
        assert_eq!(status, 202, "{answer}");
        last = answer["id"].as_str().and_then(|id| id.parse::<u64>().ok()).expect("an id");
    }
    kill(served);
    damage_spool(&at, "one", b"upload-3");

    let served = Served::start_keeping(at.clone(), &[]);
    assert!(answers_dns(&served), "DNS is served all the same");
    assert_eq!(http(&served, "GET /healthz", b"").0, 200);
    assert_eq!(push(&served, "other", "fine").0, 202);
    assert_eq!(seen(&served, "other", &["fine".to_owned()]), [1]);
    let (status, refusal) = push(&served, "one", "more");
    assert_eq!(status, 503, "{refusal}");
    for said in [refusal.to_string(), served.log()] {
        assert!(said.contains("spool/one") && said.contains("whered repair"), "{said}");
    }
    let reply = resp(served.resp, &["FEED.PUSH", "one", "{\"m\":\"more\"}"]);
    assert!(reply.starts_with("-MISCONF ") && reply.contains("whered repair"), "{reply}");
    let (status, upload) = http(&served, &format!("GET /v1/feeds/one/uploads/{last}"), b"");
    assert_eq!(status, 503, "it was acknowledged, and nobody can say more: {upload}");
    let (_, metrics) = http(&served, "GET /metrics", b"");
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.contains("whered_feed_out_of_service{feed=\"one\"} 1"), "{metrics}");
    assert!(metrics.contains("whered_feed_out_of_service{feed=\"other\"} 0"), "{metrics}");
    let (_, row) = http(&served, "GET /v1/tables/one/rows/applied", b"");
    assert_eq!(row["row"]["seen"], 1, "what was applied is there");
    // A file of its folder stays where it is.
    fs::write(at.join("incoming-one/file"), "{\"m\":\"file\"}\n").expect("writable");
    let reply = resp(served.resp, &["BACKUP", "copy"]);
    assert!(reply.starts_with('-') && reply.contains("out of service"), "{reply}");
    assert!(at.join("incoming-one/file").exists());
    kill(served);

    let data = at.join("data").display().to_string();
    let (code, said) = whered(&["repair", &data]);
    assert_eq!(code, 1, "{said}");
    let served = Served::start_keeping(at.clone(), &[]);
    let members: Vec<String> = ["applied", "upload-1", "upload-2", "upload-3", "upload-4", "file"]
        .map(str::to_owned)
        .into();
    let done = at.join("incoming-one/done/file");
    until("the file that waited is taken", || done.exists().then_some(()));
    let counts = seen(&served, "one", &members);
    assert_eq!((counts[..3].to_vec(), counts[5]), (vec![1, 1, 1], 1), "{counts:?}");
    let (status, answer) = push(&served, "one", "after");
    assert_eq!(status, 202, "{answer}");
    let id: u64 = answer["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    assert!(id > last, "{id}: up to {last} they were given away before the damage");
    assert_eq!(seen(&served, "other", &["fine".to_owned()]), [1]);
    drop(served);
    let _ = fs::remove_dir_all(at);
}

/// All files and folders below, with their modes.
fn modes(folder: &Path, out: &mut Vec<(PathBuf, bool, u32)>) {
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let found = entry.metadata().expect("it is there");
        out.push((entry.path(), found.is_dir(), found.mode() & 0o777));
        if found.is_dir() {
            modes(&entry.path(), out);
        }
    }
}

fn check_modes(folder: &Path) {
    let mut found = Vec::new();
    modes(folder, &mut found);
    assert!(found.len() > 5, "{found:?}");
    for (path, is_folder, mode) in found {
        let expected = if is_folder { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
}

#[test]
fn what_is_kept_is_for_its_owner_alone_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let at = place(&format!("kept-modes-{umask}"), "");
        let served = under_umask(&at, umask);
        assert_eq!(push(&served, "one", "m").0, 202);
        assert_eq!(http(&served, "POST /v1/feeds/one", b"{\"m\":\"m2\"}\n{\"m\":3,\n").0, 202);
        let _ = seen(&served, "one", &["m".to_owned()]);
        assert_eq!(resp(served.resp, &["SET", "k", "v"]), "+OK\r\n");
        assert_eq!(resp(served.resp, &["SAVE"]), "+OK\r\n");
        let sockets = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
        };
        let mut found = Vec::new();
        modes(&at.join("data"), &mut found);
        for (path, _, mode) in found.iter().filter(|(path, ..)| sockets(path)) {
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        kill(served);
        assert_eq!(fs::metadata(at.join("data")).expect("it is there").mode() & 0o777, 0o700);
        for (path, ..) in found.iter().filter(|(path, ..)| sockets(path)) {
            let _ = fs::remove_file(path);
        }
        check_modes(&at.join("data"));
        let (data, copy) = (at.join("data"), at.join("copy"));
        let (code, said) = whered(&[
            "backup",
            "--data-dir",
            &data.display().to_string(),
            &copy.display().to_string(),
        ]);
        assert_eq!(code, 0, "{said}");
        check_modes(&copy);
        // Files of an earlier version are made narrower.
        let mut found = Vec::new();
        modes(&data, &mut found);
        for (path, is_folder, _) in &found {
            let wide = std::os::unix::fs::PermissionsExt::from_mode(if *is_folder {
                0o755
            } else {
                0o644
            });
            fs::set_permissions(path, wide).expect("they are ours");
        }
        let served = under_umask(&at, umask);
        kill(served);
        for (path, ..) in found.iter().filter(|(path, ..)| sockets(path)) {
            let _ = fs::remove_file(path);
        }
        let mut found = Vec::new();
        modes(&data, &mut found);
        for (path, _, mode) in found {
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        let _ = fs::remove_dir_all(at);
    }
}

fn under_umask(at: &Path, umask: &str) -> Served {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    Served::start_keeping(at.to_owned(), &["sh", "-c", &script])
}
