//! `whered import rdb`: the dump of a real redis-server, and dumps that are damaged. Without
//! redis-server the first is skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod served;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use served::{Served, WAIT, folder};

const CONFIG: &str = "[resp]\nlisten = [\"127.0.0.1:0\"]\n";

/// A redis-server on a socket in a folder.
struct Redis {
    process: Child,
    folder: PathBuf,
}

impl Redis {
    fn start(folder: &Path) -> Option<Redis> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket", "redis.sock", "--dir", "."]);
        command.args(["--zset-max-listpack-entries", "50"]).current_dir(folder);
        let started = command.stdout(Stdio::null()).spawn();
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(started.is_ok() || !required.contains("peers"), "redis-server is missing");
        let redis = Redis { process: started.ok()?, folder: folder.to_owned() };
        let until = Instant::now() + WAIT;
        while UnixStream::connect(folder.join("redis.sock")).is_err() {
            assert!(Instant::now() < until, "redis-server does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn client(&self) -> Client {
        let stream = UnixStream::connect(self.folder.join("redis.sock")).expect("it listens");
        let reader = BufReader::new(Box::new(stream.try_clone().expect("a socket")) as _);
        Client { reader, writer: Box::new(stream) }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks one server after the other.
struct Client {
    reader: BufReader<Box<dyn Read>>,
    writer: Box<dyn Write>,
}

impl Client {
    fn of(served: &Served) -> Client {
        let stream = TcpStream::connect(served.resp).expect("it listens");
        let reader = BufReader::new(Box::new(stream.try_clone().expect("a socket")) as _);
        Client { reader, writer: Box::new(stream) }
    }

    /// The reply as words, one after the other.
    fn ask(&mut self, words: &[&str]) -> Vec<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.writer.write_all(request.as_bytes()).expect("it is open");
        let mut reply = Vec::new();
        self.read(&mut reply);
        reply
    }

    fn read(&mut self, reply: &mut Vec<String>) {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a reply");
        let (kind, rest) = line.trim_end().split_at(1);
        match (kind, rest.parse::<i64>()) {
            ("*", Ok(count)) => (0..count).for_each(|_| self.read(reply)),
            ("$", Ok(length @ 0..)) => {
                let mut bytes = vec![0; length as usize + 2];
                self.reader.read_exact(&mut bytes).expect("it is whole");
                bytes.truncate(length as usize);
                reply.push(String::from_utf8_lossy(&bytes).into_owned());
            }
            _ => reply.push(line.trim_end().to_owned()),
        }
    }
}

fn import(folder: &Path, served: &Served, arguments: &[&str]) -> Output {
    let server = format!("redis://{}", served.resp);
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(["import", "rdb"]).args(arguments).args(["--server", &server]);
    command.current_dir(folder).output().expect("it runs")
}

fn fill(client: &mut Client) {
    for number in 0..3000 {
        let (longitude, latitude) = (f64::from(number) / 10.0 - 150.0, f64::from(number % 80));
        let place = [longitude.to_string(), latitude.to_string(), format!("van {number}")];
        client.ask(&["GEOADD", "vans", &place[0], &place[1], &place[2]]);
    }
    client.ask(&["ZADD", "small", "inf", "a", "-inf", "b", "0.1", "c", "-0", "d", "1e300", "e"]);
    client.ask(&["PEXPIREAT", "small", "4102444800123"]);
    client.ask(&["SET", "text", "words", "PXAT", "4102444800456"]);
    client.ask(&["SET", "number", "12"]);
    client.ask(&["RPUSH", "list", "a"]);
    client.ask(&["HSET", "hash", "a", "b"]);
    client.ask(&["SET", "over", "x", "PX", "300"]);
    client.ask(&["SELECT", "3"]);
    client.ask(&["ZADD", "elsewhere", "1", "m"]);
    client.ask(&["SELECT", "0"]);
    assert_eq!(client.ask(&["SAVE"]), ["+OK"]);
    let until = Instant::now() + WAIT;
    while client.ask(&["EXISTS", "over"]) != [":0"] {
        assert!(Instant::now() < until, "a key stays beyond its time");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_dump_comes_over_with_members_scores_order_and_expiries() {
    let folder = folder("import-rdb");
    fs::write(folder.join("whered.toml"), CONFIG).expect("writable");
    let Some(redis) = Redis::start(&folder) else {
        eprintln!("skipped: redis-server is not installed");
        return;
    };
    let mut source = redis.client();
    fill(&mut source);
    let served = Served::start(folder.clone());
    let mut target = Client::of(&served);

    let done = import(&folder, &served, &["dump.rdb"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(
        text,
        "3 sorted sets with 3006 members and 2 strings written, 1 expired\n\
         keys of other types left: list 1, hash 1\n"
    );
    for (number, keys) in [("0", &["vans", "small"][..]), ("3", &["elsewhere"])] {
        for client in [&mut source, &mut target] {
            client.ask(&["SELECT", number]);
        }
        for key in keys {
            let all = ["ZRANGE", key, "0", "-1"];
            assert_eq!(target.ask(&all), source.ask(&all), "{key}");
            for member in source.ask(&all).iter().step_by(7) {
                let score = |client: &mut Client| {
                    let score = client.ask(&["ZSCORE", key, member]).concat();
                    score.parse::<f64>().expect("a number")
                };
                assert_eq!(score(&mut target), score(&mut source), "{key} {member}");
            }
            let expiry = ["PEXPIRETIME", key];
            assert_eq!(target.ask(&expiry), source.ask(&expiry), "{key}");
        }
    }
    target.ask(&["SELECT", "0"]);
    assert_eq!(target.ask(&["GET", "text"]), ["words"]);
    assert_eq!(target.ask(&["PEXPIRETIME", "text"]), [":4102444800456"]);
    assert_eq!(target.ask(&["GET", "number"]), ["12"]);
    assert_eq!(target.ask(&["DBSIZE"]), [":4"]);

    let again = import(&folder, &served, &["dump.rdb", "--json"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let json = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(json.contains("\"refused\":5") && json.contains("--replace"), "{json}");
    target.ask(&["ZADD", "small", "5", "own"]);
    let part = ["dump.rdb", "--replace", "--match", "sm*", "--match", "text", "--db", "0"];
    let replaced = import(&folder, &served, &part);
    assert_eq!(replaced.status.code(), Some(0), "{replaced:?}");
    let text = String::from_utf8_lossy(&replaced.stdout).into_owned();
    assert!(text.starts_with("1 sorted sets with 5 members and 1 strings written, "), "{text}");
    assert_eq!(target.ask(&["ZSCORE", "small", "own"]), ["$-1"]);
}

#[test]
fn a_running_server_gives_a_dump_as_to_a_replica() {
    let folder = folder("import-live");
    fs::write(folder.join("whered.toml"), CONFIG).expect("writable");
    let Some(redis) = Redis::start(&folder) else {
        eprintln!("skipped: redis-server is not installed");
        return;
    };
    let mut source = redis.client();
    fill(&mut source);
    source.ask(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let mut user = vec!["ACL", "SETUSER", "importer", "on", ">secret", "+psync", "+replconf"];
    source.ask(&user);
    fs::write(folder.join("secret"), "secret\n").expect("writable");
    fs::write(folder.join("wrong"), "wrong\n").expect("writable");
    let served = Served::start(folder.clone());
    let mut target = Client::of(&served);
    let url = format!("unix://{}/redis.sock?user=importer", folder.display());
    for diskless in ["yes", "no"] {
        source.ask(&["CONFIG", "SET", "repl-diskless-sync", diskless]);
        let arguments = [&url, "--source-password-file", "secret", "--replace"];
        let done = import(&folder, &served, &arguments);
        assert_eq!(done.status.code(), Some(0), "{diskless} {done:?}");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            text.starts_with("3 sorted sets with 3006 members and 2 strings written"),
            "{text}"
        );
        for client in [&mut source, &mut target] {
            client.ask(&["SELECT", "0"]);
        }
        let all = ["ZRANGE", "vans", "0", "-1", "WITHSCORES"];
        assert_eq!(target.ask(&all), source.ask(&all));
        assert_eq!(target.ask(&["PEXPIRETIME", "small"]), [":4102444800123"]);
    }
    let wrong = import(&folder, &served, &[&url, "--source-password-file", "wrong"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("refuses the user name or password"));
    user.pop();
    user.extend(["-replconf", "-psync"]);
    source.ask(&user);
    let denied = import(&folder, &served, &[&url, "--source-password-file", "secret"]);
    assert_eq!(denied.status.code(), Some(2), "{denied:?}");
    let line = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(line.contains("allowed: a user with +psync +replconf"), "{line}");
    // A whered gives no dump, and says so.
    let none = import(&folder, &served, &[&format!("redis://{}/", served.resp), "--replace"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let nobody = import(&folder, &served, &["redis://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
}

/// Two whole keys and one that is larger than what is sent at once.
fn hand_made(members: u16) -> Vec<u8> {
    let mut dump = b"REDIS0003\xfe\x00\x00\x01t\x04text\x03\x01z\x01\x01m\x011\x05\x03big".to_vec();
    dump.extend([0x40 | (members >> 8) as u8, members as u8]);
    for member in 0..members {
        dump.push(100);
        dump.splice(dump.len() - 1.., [0x40, 100]);
        dump.extend(format!("{member:0100}").bytes());
        dump.extend(f64::from(member).to_le_bytes());
    }
    dump.push(0xff);
    dump
}

#[test]
fn a_dump_that_breaks_off_leaves_whole_keys_and_says_which_byte() {
    let folder = folder("import-cut");
    fs::write(folder.join("whered.toml"), CONFIG).expect("writable");
    let dump = hand_made(6000);
    fs::write(folder.join("cut.rdb"), &dump[..dump.len() - 500]).expect("writable");
    fs::write(folder.join("more.rdb"), [&dump[..], b"x"].concat()).expect("writable");
    fs::write(folder.join("none.rdb"), b"no dump of anything").expect("writable");
    let slots = [&b"VALKEY080"[..], &[243, 3], b"job", &[1, 0, 9, 255], &[0; 8]].concat();
    fs::write(folder.join("slots.rdb"), slots).expect("writable");
    let served = Served::start(folder.clone());
    let mut target = Client::of(&served);

    let cut = import(&folder, &served, &["cut.rdb"]);
    assert_eq!(cut.status.code(), Some(2), "{cut:?}");
    let line = String::from_utf8_lossy(&cut.stderr).into_owned();
    let expected = format!(
        "whered: cut.rdb: byte {}: the dump ends too early; 1 sorted sets with 1 members and 1 \
         strings written\n",
        dump.len() - 500
    );
    assert_eq!(line, expected);
    assert_eq!(target.ask(&["GET", "t"]), ["text"]);
    assert_eq!(target.ask(&["EXISTS", "big"]), [":0"]);

    for (file, why) in [
        ("more.rdb", "bytes follow the dump's end"),
        ("none.rdb", "begins no dump that is known"),
        ("slots.rdb", "taking over slots"),
        ("absent.rdb", "No such file"),
        (".", "directory"),
    ] {
        let done = import(&folder, &served, &[file, "--replace"]);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let line = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(line.contains(why) && line.lines().count() == 1, "{line}");
    }
    assert_eq!(target.ask(&["ZCARD", "big"]), [":6000"]);
}

#[test]
fn a_member_that_comes_twice_makes_the_key_refused_and_the_others_go_on() {
    let folder = folder("import-twice");
    fs::write(folder.join("whered.toml"), CONFIG).expect("writable");
    let dump = b"REDIS0003\x03\x01z\x02\x01m\x011\x01m\x012\x00\x01t\x04text\xff";
    fs::write(folder.join("twice.rdb"), dump).expect("writable");
    let served = Served::start(folder.clone());
    let done = import(&folder, &served, &["twice.rdb"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("database 0, z: 1 members come twice"), "{text}");
    let mut target = Client::of(&served);
    assert_eq!(target.ask(&["EXISTS", "z"]), [":0"]);
    assert_eq!(target.ask(&["GET", "t"]), ["text"]);
}
