//! Snapshots, backups and the account of memory as clients see them.
//!
//! Not for: what is in a snapshot (`crates/whered-engine/tests/snapshots.rs`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::Door;
use support::client::{Client, moves};
use whered_engine::AddCondition;
use whered_engine::geo::Cell;
use whered_server::{Config, Server};

/// A folder of its own that goes with the test, and servers over a directory in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A server on a data directory of the folder, with a part of a configuration.
    fn serve(&self, data: &str, more: &str) -> (Server, Client) {
        let text = format!(
            "data_dir = \"{}\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 2\n\
             [http]\nlisten = []\n[dns]\nlisten = []\n[journal]\nsegment_size_bytes = 1048576\n{more}",
            self.text(data)
        );
        let server =
            Server::start(Config::from_toml(&text, &self.0.join("toml")).unwrap()).unwrap();
        let client = Client::connect(server.resp_addresses()[0]);
        (server, client)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A field of `INFO`.
fn info(client: &mut Client, section: &str, name: &str) -> Option<String> {
    let text = client.ask(&["INFO", section]);
    let of_field = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    text.lines().find_map(|line| of_field(line.trim_end()))
}

fn number(client: &mut Client, section: &str, name: &str) -> u64 {
    info(client, section, name).unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Asks again until the answer fits: what another thread does shows a moment later.
fn eventually(what: &str, mut fits: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !fits() {
        assert!(Instant::now() < end, "{what} did not come to pass");
        std::thread::yield_now();
    }
}

fn add_many(server: &Server, first: u64, count: u64) {
    let names: Vec<String> = (first..first + count).map(|n| n.to_string()).collect();
    let cell = |n: usize| {
        Cell::from_bits((n as u64).wrapping_mul(0x9e37_79b9_7f4a) & ((1 << 52) - 1)).unwrap()
    };
    let points: Vec<(&[u8], Cell)> =
        names.iter().enumerate().map(|(n, name)| (name.as_bytes(), cell(n))).collect();
    for points in points.chunks(10_000) {
        server.engine().keyspace().add_points(0, b"many", points, AddCondition::Always).unwrap();
    }
}

#[test]
fn snapshots_are_made_on_request_and_told_by_info() {
    let folder = Folder::new("wire_snapshots");
    let (server, mut client) = folder.serve("data", "");
    assert_eq!(client.ask(&["LASTSAVE"]), ":0\r\n");
    assert_eq!(info(&mut client, "persistence", "rdb_last_bgsave_time_sec").unwrap(), "-1");
    assert_eq!(client.ask(&["GEOADD", "points", "8.5", "50", "m"]), ":1\r\n");

    assert_eq!(client.ask(&["SAVE"]), "+OK\r\n");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let told: u64 = client.ask(&["LASTSAVE"])[1..].trim_end().parse().unwrap();
    assert!(told.abs_diff(now) < 100, "{told} and {now}");
    assert_eq!(number(&mut client, "persistence", "rdb_last_save_time"), told);
    assert_eq!(number(&mut client, "persistence", "rdb_saves"), 1);
    assert_eq!(number(&mut client, "persistence", "rdb_bgsave_in_progress"), 0);
    assert_eq!(info(&mut client, "persistence", "rdb_last_bgsave_status").unwrap(), "ok");
    assert!(number(&mut client, "persistence", "snapshot_last_bytes") > 0);
    assert_eq!(info(&mut client, "persistence", "snapshot_error"), None);

    for (count, command) in (2..).zip([
        (&["BGSAVE"][..], "+Background saving started\r\n"),
        (&["BGSAVE", "SCHEDULE"], "+Background saving started\r\n"),
        (&["BGREWRITEAOF"], "+Background append only file rewriting started\r\n"),
    ]) {
        assert_eq!(client.ask(&["SET", "text", &count.to_string()]), "+OK\r\n");
        assert_eq!(client.ask(command.0), command.1);
        eventually("the snapshot", || number(&mut client, "persistence", "rdb_saves") == count);
    }
    assert_eq!(client.ask(&["BGSAVE", "NOW"]), "-ERR syntax error\r\n");
    assert_eq!(client.ask(&["BGSAVE", "SCHEDULE", "x"]), "-ERR syntax error\r\n");
    assert!(client.ask(&["SAVE", "x"]).starts_with("-ERR wrong number of arguments"));

    server.stop().unwrap();
    let (server, mut client) = folder.serve("data", "");
    assert_eq!(client.ask(&["GET", "text"]), "$1\r\n4\r\n");
    assert_eq!(client.ask(&["ZCARD", "points"]), ":1\r\n");
    assert!(number(&mut client, "persistence", "snapshot_last_bytes") > 0);
    server.stop().unwrap();
}

#[test]
fn a_second_snapshot_is_refused_while_one_is_made() {
    let folder = Folder::new("wire_bgsave_twice");
    let (server, mut client) = folder.serve("data", "[snapshot]\njournal_size_bytes = 0\n");
    add_many(&server, 0, 300_000);
    let (mut round, mut refused) = (0u64, (false, false));
    // Whether one is under way when the request arrives is the scheduler's: it is tried again.
    eventually("a refusal", || {
        round += 1;
        client.ask(&["SET", "round", &round.to_string()]);
        client.ask(&["BGSAVE"]);
        let saves = number(&mut client, "persistence", "rdb_saves");
        while number(&mut client, "persistence", "rdb_saves") == saves {
            let again = client.ask(&["BGSAVE"]);
            refused.0 |= again == "-ERR Background save already in progress\r\n";
            if number(&mut client, "persistence", "rdb_bgsave_in_progress") == 1 {
                // Reads and writes go on.
                assert_eq!(client.ask(&["ZCARD", "many"]), ":300000\r\n");
                assert_eq!(client.ask(&["SET", "beside", "1"]), "+OK\r\n");
                refused.1 |= client.ask(&["SAVE"]) == "-ERR a snapshot is being made already\r\n";
            }
        }
        refused == (true, true)
    });
    server.stop().unwrap();
}

#[test]
fn a_snapshot_is_made_without_being_asked_for_when_the_journal_is_long() {
    let folder = Folder::new("wire_due");
    let (server, mut client) = folder.serve("data", "[snapshot]\njournal_size_bytes = 100000\n");
    add_many(&server, 0, 20_000);
    eventually("a snapshot", || number(&mut client, "persistence", "rdb_saves") == 1);
    let first = fs::read_dir(folder.0.join("data")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().ends_with(".manifest")
    });
    assert_eq!(first.count(), 1);
    server.stop().unwrap();
}

#[test]
fn a_backup_is_a_directory_that_a_server_starts_on() {
    let folder = Folder::new("wire_backup");
    let below = format!("[backup]\ndirectory = '{}'\n", folder.0.display());
    let (server, mut client) = folder.serve("data", &below);
    let target = folder.text("backup");
    assert_eq!(client.ask(&["GEOADD", "points", "8.5", "50", "m"]), ":1\r\n");
    assert_eq!(client.ask(&["BACKUP", &target]), "+backed up to entry 1\r\n");
    assert_eq!(client.ask(&["SET", "later", "1"]), "+OK\r\n");
    assert!(client.ask(&["BACKUP", &target]).contains("is not empty"));
    let relative = client.ask(&["BACKUP", "backup"]);
    assert!(relative.contains("is not empty"), "{relative}");
    let own = client.ask(&["BACKUP", &folder.text("data")]);
    assert!(own.starts_with("-ERR the data directory") && own.contains("in use"), "{own}");
    fs::write(folder.0.join("file"), b"").unwrap();
    let file = client.ask(&["BACKUP", &folder.text("file")]);
    assert!(file.contains("Not a directory") && file.ends_with("\r\n"), "{file}");
    let (second, mut copy) = folder.serve("backup", "");
    assert_eq!(copy.ask(&["ZCARD", "points"]), ":1\r\n");
    assert_eq!(copy.ask(&["EXISTS", "later"]), ":0\r\n");
    assert_eq!(copy.ask(&["SET", "own", "1"]), "+OK\r\n");
    assert_eq!(client.ask(&["EXISTS", "own", "later"]), ":1\r\n");
    second.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_backup_lies_below_its_directory_and_nowhere_else() {
    let folder = Folder::new("wire_backup_below");
    let elsewhere = folder.text("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let (server, mut client) = folder.serve("data", "");
    assert_eq!(client.ask(&["GEOADD", "points", "8.5", "50", "m"]), ":1\r\n");
    assert_eq!(client.ask(&["BACKUP", "monday"]), "+backed up to entry 1\r\n");
    let inside = folder.text("data/backups/a/b");
    assert_eq!(client.ask(&["BACKUP", &inside]), "+backed up to entry 1\r\n");
    std::os::unix::fs::symlink(&elsewhere, folder.text("data/backups/link")).unwrap();
    let outside = [
        format!("{elsewhere}/x"),
        folder.text("data"),
        folder.text("data/other"),
        folder.text("data/backups"),
        folder.text("data/backups/../../elsewhere/x"),
        "../x".to_owned(),
        "../../elsewhere/x".to_owned(),
        "link/x".to_owned(),
        "no/../../x".to_owned(),
        String::new(),
    ];
    for target in &outside {
        let reply = client.ask(&["BACKUP", target]);
        assert!(reply.starts_with("-ERR '"), "{target}: {reply}");
        assert!(reply.contains("'directory' of [backup] in the configuration"), "{reply}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert!(!folder.0.join("data/other").exists() && !folder.0.join("data/x").exists());
    let (second, mut copy) = folder.serve("data/backups/monday", "");
    assert_eq!(copy.ask(&["ZCARD", "points"]), ":1\r\n");
    second.stop().unwrap();
    server.stop().unwrap();
    // The configured directory takes the other one's place.
    let below = format!("[backup]\ndirectory = '{elsewhere}'\n");
    let (server, mut client) = folder.serve("data", &below);
    assert_eq!(client.ask(&["BACKUP", &format!("{elsewhere}/x")]), "+backed up to entry 1\r\n");
    let reply = client.ask(&["BACKUP", &folder.text("data/backups/tuesday")]);
    assert!(reply.contains(&format!("is not below {elsewhere}")), "{reply}");
    server.stop().unwrap();
}

#[test]
fn in_a_transaction_they_are_refused_and_without_a_directory_too() {
    let folder = Folder::new("wire_refused");
    let (server, mut client) = folder.serve("data", "");
    let target = folder.text("backup");
    for command in [&["SAVE"][..], &["BACKUP", &target]] {
        assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
        assert_eq!(client.ask(&["SET", "k", "v"]), "+QUEUED\r\n");
        assert_eq!(client.ask(command), "-ERR Command not allowed inside a transaction\r\n");
        assert!(client.ask(&["EXEC"]).starts_with("-EXECABORT"));
        assert_eq!(client.ask(&["EXISTS", "k"]), ":0\r\n");
    }
    client.ask(&["MULTI"]);
    client.ask(&["SET", "k", "v"]);
    assert_eq!(client.ask(&["BGSAVE"]), "+QUEUED\r\n");
    let done = client.ask(&["EXEC"]);
    assert_eq!(done, "*2\r\n+OK\r\n+Background saving started\r\n");
    eventually("the snapshot", || number(&mut client, "persistence", "rdb_saves") == 1);
    server.stop().unwrap();

    let door = Door::in_memory();
    let mut client = door.client();
    let none = "-ERR there is no data directory to keep a snapshot in\r\n";
    for command in [&["SAVE"][..], &["BGSAVE"], &["BGREWRITEAOF"], &["BACKUP", &target]] {
        assert_eq!(client.ask(command), none, "{command:?}");
    }
    assert!(!folder.0.join("backup").exists());
    assert_eq!(client.ask(&["LASTSAVE"]), ":0\r\n");
}

#[test]
fn the_limit_of_memory_is_held_by_what_is_kept() {
    let door = Door::in_memory();
    let mut client = door.client();
    let text = "x".repeat(10_000);
    let used = number(&mut client, "memory", "used_memory");
    let limit = used + 1_000_000;
    assert_eq!(client.ask(&["CONFIG", "SET", "maxmemory", &limit.to_string()]), "+OK\r\n");
    let mut kept = 0;
    let refusal = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    loop {
        match client.ask(&["SET", &format!("k{kept}"), &text]).as_str() {
            "+OK\r\n" => kept += 1,
            other => {
                assert_eq!(other, refusal);
                break;
            }
        }
        assert!(kept < 1000, "nothing is refused");
        // The figure may be two milliseconds old.
        // Buffers of clients, which count too, may have shrunk a little.
        let least = used + kept * 10_000 - 5000;
        eventually("the figure", || number(&mut client, "memory", "used_memory") >= least);
    }
    assert!((80..=101).contains(&kept), "{kept} texts of 10,000 bytes in 1,000,000");
    let keys = number(&mut client, "memory", "used_memory_keys");
    assert!(keys.abs_diff(kept * 10_000) < 100_000, "{keys} bytes for {kept} texts");

    // Reads and what frees memory go on.
    assert!(client.ask(&["GET", "k0"]).starts_with("$10000\r\n"));
    for number in 0..kept / 2 {
        assert_eq!(client.ask(&["DEL", &format!("k{number}")]), ":1\r\n");
    }
    eventually("room", || client.ask(&["SET", "again", &text]) == "+OK\r\n");
    assert_eq!(client.ask(&["FLUSHALL"]), "+OK\r\n");
    assert_eq!(number(&mut client, "memory", "used_memory_keys"), 0);
    assert!(number(&mut client, "memory", "used_memory_peak") >= limit);
}

#[test]
fn memory_usage_grows_with_what_a_key_holds() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["MEMORY", "USAGE", "none"]), "$-1\r\n");
    let mut usage = |command: &[&str], key: &str| -> u64 {
        client.ask(command);
        client.ask(&["MEMORY", "USAGE", key])[1..].trim_end().parse().unwrap()
    };
    let small = usage(&["SET", "text", "x"], "text");
    let large = usage(&["SET", "text", &"x".repeat(5000)], "text");
    assert!(large >= small + 4999 && large < small + 6000, "{small} {large}");
    let one = usage(&["GEOADD", "points", "8", "50", "m"], "points");
    let mut words = vec!["GEOADD".to_owned(), "points".to_owned()];
    for number in 0..1000 {
        words.extend([format!("{}", number % 170), "50".to_owned(), format!("m{number}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let many = usage(&words, "points");
    assert!((20_000..100_000).contains(&(many - one)), "{one} {many}");
}

#[test]
fn moves_of_a_pipeline_are_one_entry_of_the_journal() {
    let folder = Folder::new("wire_moves");
    let (server, mut client) = folder.serve("data", "");
    let mut frames_of = |bytes: &[u8], reply: &[u8]| {
        let before = number(&mut client, "persistence", "journal_frames");
        client.send(bytes);
        (0..20).for_each(|_| assert_eq!(client.reply().bytes, reply));
        number(&mut client, "persistence", "journal_frames") - before
    };
    assert_eq!(frames_of(&moves("points", "1", 20), b":1\r\n"), 1);
    assert_eq!(frames_of(&moves("points", "1", 20), b":0\r\n"), 0, "nothing has changed");
    assert_eq!(frames_of(&moves("points", "2", 20), b":0\r\n"), 1);
    drop(client);
    server.stop().unwrap();
    let (_server, mut client) = folder.serve("data", "");
    assert_eq!(client.ask(&["ZCARD", "points"]), ":20\r\n");
    let score = client.ask(&["ZSCORE", "points", "m7"]);
    assert_eq!(client.ask(&["GEOADD", "other", "7", "2", "m7"]), ":1\r\n");
    assert_eq!(client.ask(&["ZSCORE", "other", "m7"]), score);
}
