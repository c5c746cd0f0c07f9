//! Links to a real primary: redis-server, or the program that `WHERED_REPLICA_SERVER` names.
//! Without it the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use whered_replication::rdb::{Event, Limits, Reader};
use whered_replication::{
    Address, CommandStream, Connection, Endpoint, Introduction, Patience, ReplicationId, Resync,
};

const WAIT: Duration = Duration::from_secs(60);

/// A primary on a socket in a folder of its own.
struct Primary {
    process: Child,
    folder: PathBuf,
    client: BufReader<UnixStream>,
}

impl Primary {
    fn start(name: &str, arguments: &[&str]) -> Option<Primary> {
        let folder = env::temp_dir().join(format!("whered-real-{name}-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let program = env::var("WHERED_REPLICA_SERVER").unwrap_or("redis-server".to_owned());
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--unixsocket", "real.sock", "--dir", "."]);
        command.args(["--repl-diskless-sync-delay", "0"]).args(arguments);
        let started = command.current_dir(&folder).stdout(Stdio::null()).spawn();
        let required = env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(started.is_ok() || !required.contains("peers"), "redis-server is missing");
        let Ok(process) = started else {
            eprintln!("redis-server is missing: skipped");
            return None;
        };
        let client = BufReader::new(connect(&folder.join("real.sock")));
        Some(Primary { process, folder, client })
    }

    /// Asks for something, and gives the reply's first line, or its text.
    fn ask(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.client.get_mut().write_all(request.as_bytes()).expect("it is open");
        let mut line = String::new();
        self.client.read_line(&mut line).expect("a reply");
        let line = line.trim_end().to_owned();
        match line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
            Some(length) => {
                let mut text = vec![0; length + 2];
                self.client.read_exact(&mut text).expect("the text comes whole");
                String::from_utf8_lossy(&text[..length]).into_owned()
            }
            None => {
                // A list has small numbers only here.
                let lines = line.strip_prefix('*').and_then(|count| count.parse().ok());
                for _ in 0..lines.unwrap_or(0) {
                    self.client.read_line(&mut String::new()).expect("an item");
                }
                line
            }
        }
    }

    /// The offset behind its last change.
    fn offset(&mut self) -> i64 {
        let text = self.ask(&["INFO", "replication"]);
        let line = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        line.and_then(|offset| offset.trim().parse().ok()).expect("an offset")
    }

    fn open(&self) -> Connection {
        let address = Address::new(Endpoint::Unix(self.folder.join("real.sock")));
        let mut connection = Connection::open(&address, Patience::default()).expect("it listens");
        connection.introduce(&Introduction::default()).expect("it takes us for a replica");
        connection
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn connect(path: &Path) -> UnixStream {
    let until = Instant::now() + WAIT;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "the primary does not start: {error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes the dump, and gives the names of its sorted sets with their members' number.
fn sorted_sets(connection: &mut Connection) -> Vec<(String, usize)> {
    let body = connection.dump().expect("a dump begins");
    let mut reader = Reader::new(body, Limits::default()).expect("its magic is known");
    let mut found: Vec<(String, usize)> = Vec::new();
    while let Some(event) = reader.next_event().expect("the dump is whole") {
        match event {
            Event::SortedSet { key, .. } => {
                found.push((String::from_utf8_lossy(key.name).into_owned(), 0));
            }
            Event::Member { .. } => found.last_mut().expect("a key before its members").1 += 1,
            _ => {}
        }
    }
    let (body, rest) = reader.into_parts();
    body.finish(&rest).expect("it ends where the primary says");
    found.sort();
    found
}

/// The commands up to an offset, as texts, but for the ones that show that a primary lives.
fn commands_until(stream: &mut CommandStream, end: i64) -> Vec<String> {
    let mut found = Vec::new();
    let until = Instant::now() + WAIT;
    while stream.offset() < end {
        // A primary that sent its dump with a mark sends nothing before one of these, and passes
        // over those that come before it has noticed the dump's end.
        let offset = stream.offset();
        stream.connection().acknowledge(offset).expect("it is open");
        assert!(Instant::now() < until, "{found:?} and no more up to {end}");
        let batch = stream.next_batch(Duration::from_millis(50), 100).expect("commands come");
        for command in batch.commands() {
            let words = (0..command.spans.len()).filter_map(|index| command.get(index));
            let words: Vec<String> =
                words.map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
            found.push(words.join(" "));
        }
        let count = batch.len();
        stream.accept(count);
    }
    assert_eq!(stream.offset(), end);
    found.retain(|text| text != "ping" && !text.starts_with("replconf"));
    found
}

fn full(connection: &mut Connection) -> (ReplicationId, i64) {
    match connection.synchronize(None).expect("an answer to PSYNC") {
        Resync::Full { id, offset } => (id, offset),
        Resync::Continue { .. } => panic!("there is nothing to go on from"),
    }
}

/// What is followed from the first dump on, by a new connection too, with the primary's offsets.
fn follow(name: &str, arguments: &[&str]) {
    let Some(mut primary) = Primary::start(name, arguments) else { return };
    primary.ask(&["ZADD", "small", "1", "a", "2", "b"]);
    for number in 0..300 {
        let number = number.to_string();
        primary.ask(&["ZADD", "large", &number, &number]);
    }
    primary.ask(&["HSET", "hash", "f", "v", "g", "w"]);
    // Not every server knows it; one that does writes the hash in another form.
    primary.ask(&["HPEXPIRE", "hash", "1000000", "FIELDS", "1", "f"]);
    let mut connection = primary.open();
    let (id, offset) = full(&mut connection);
    let expected = [("large".to_owned(), 300), ("small".to_owned(), 2)];
    assert_eq!(sorted_sets(&mut connection), expected);

    let mut stream = CommandStream::new(connection, offset, |_| false);
    primary.ask(&["GEOADD", "small", "8.5", "50.5", "c"]);
    primary.ask(&["ZADD", "small", "XX", "1", "absent"]);
    primary.ask(&["DEL", "large"]);
    let end = primary.offset();
    let commands = commands_until(&mut stream, end);
    let [select, add, delete] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(select, "select 0");
    assert!(add.ends_with("small 8.5 50.5 c") || add.starts_with("zadd small 36"), "{add}");
    assert_eq!(delete, "del large");

    drop(stream);
    primary.ask(&["ZREM", "small", "a"]);
    let mut connection = primary.open();
    let resync = connection.synchronize(Some((id, end))).expect("an answer to PSYNC");
    assert!(matches!(resync, Resync::Continue { .. }), "{resync:?}");
    let mut stream = CommandStream::new(connection, end, |_| false);
    let end = primary.offset();
    assert_eq!(commands_until(&mut stream, end), ["zrem small a"]);

    // A position of the future is none.
    let mut connection = primary.open();
    let resync = connection.synchronize(Some((id, end + 1_000_000))).expect("an answer to PSYNC");
    assert!(matches!(resync, Resync::Full { .. }), "{resync:?}");
}

#[test]
fn a_real_primary_is_followed_from_a_dump_with_a_mark_and_from_its_offsets() {
    follow("mark", &["--repl-diskless-sync", "yes"]);
}

#[test]
fn a_real_primary_is_followed_from_a_dump_of_a_known_length() {
    follow("length", &["--repl-diskless-sync", "no"]);
}
