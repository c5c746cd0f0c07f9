//! The log of `whered serve`: levels, forms, journald, a start and a stop; and no secret in it.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod served;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use served::{WAIT, folder};

/// A server whose log can be read.
struct Logged {
    folder: PathBuf,
    process: Child,
}

impl Logged {
    /// Starts a server with this configuration and waits until it is ready.
    fn start(name: &str, config: &str, change: impl FnOnce(&mut Command, &File)) -> Logged {
        let folder = folder(name);
        fs::write(folder.join("edge.toml"), config).expect("the folder is ours");
        Logged::start_in(folder, change)
    }

    fn start_in(folder: PathBuf, change: impl FnOnce(&mut Command, &File)) -> Logged {
        let log = File::create(folder.join("log")).expect("the folder is ours");
        let out = File::create(folder.join("out")).expect("the folder is ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        command.args(["serve", "--config", "edge.toml"]).current_dir(&folder).stdout(out);
        command.stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("JOURNAL_STREAM");
        change(&mut command, &log);
        let process = command.stderr(log).spawn().expect("the program runs");
        let logged = Logged { folder, process };
        logged.wait(|logged| logged.read("out").contains("\nready\n"));
        logged
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    fn wait(&self, is_over: impl Fn(&Logged) -> bool) {
        let begun = Instant::now();
        while !is_over(self) {
            assert!(begun.elapsed() < WAIT, "{}{}", self.read("out"), self.read("log"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let out = self.read("out");
        let line = out.lines().find_map(|line| line.strip_prefix(&format!("{listener} ")));
        line.expect("it listens").parse().expect("an address")
    }

    fn signal(&self, name: &str) {
        served::signal(self.process.id(), name);
    }

    /// Stops it and gives its log.
    fn stop(mut self) -> String {
        self.signal("TERM");
        assert!(self.process.wait().expect("it is ours").success(), "{}", self.read("log"));
        let log = self.read("log");
        fs::remove_dir_all(&self.folder).expect("the folder is ours");
        log
    }
}

const CONFIG: &str = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n";

#[test]
fn a_start_and_a_stop_have_a_line_with_version_file_addresses_and_reason() {
    let server = Logged::start("log-lines", CONFIG, |_, _| {});
    let (pid, resp) = (server.process.id(), server.address("resp"));
    let log = server.stop();
    let first = log.lines().next().expect("a line");
    assert!(first.contains(" INFO whered 0."), "{first}");
    assert!(
        first.ends_with(&format!("starts as process {pid}: configuration edge.toml")),
        "{first}"
    );
    assert!(log.contains(&format!("serving: resp {resp}\n")), "{log}");
    let end: Vec<&str> = log.lines().rev().take(2).collect();
    assert!(end[1].ends_with("stopping: SIGTERM"), "{log}");
    assert!(end[0].contains("stopped after 0."), "{log}");
}

#[test]
fn the_level_is_that_of_the_configuration_or_of_rust_log_and_a_reload_changes_it() {
    let with = |level: &str| format!("{CONFIG}[log]\nlevel = \"{level}\"\n");
    let server = Logged::start("log-level", &with("error"), |_, _| {});
    assert_eq!(server.read("log"), "");
    fs::write(server.folder.join("edge.toml"), with("info")).expect("the folder is ours");
    server.signal("HUP");
    server.wait(|server| server.read("log").contains("reloaded: generation 2"));
    let log = server.stop();
    assert!(!log.contains("restart") && log.contains("stopping: SIGTERM"), "{log}");
    let noisy = |command: &mut Command, _: &File| {
        command.env("RUST_LOG", "whered_server=debug,info");
    };
    let log = Logged::start("log-variable", &with("off"), noisy).stop();
    assert!(log.contains("stopping: SIGTERM"), "{log}");
    let folder = folder("log-wrong");
    fs::write(folder.join("edge.toml"), CONFIG).expect("the folder is ours");
    for words in [&["serve", "--config", "edge.toml"][..], &["check", "edge.toml"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        let done = command.args(words).current_dir(&folder).env("RUST_LOG", "loud").output();
        let done = done.expect("the program runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with("whered: RUST_LOG is 'loud'") && said.contains("allowed"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn json_has_one_object_a_line_with_time_level_and_message() {
    let config = format!("{CONFIG}[log]\nformat = \"json\"\n");
    let log = Logged::start("log-json", &config, |_, _| {}).stop();
    assert!(log.lines().count() > 3, "{log}");
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect(line);
        for key in ["timestamp", "level", "message", "target"] {
            assert!(object[key].is_string(), "{key} in {line}");
        }
    }
    assert!(log.contains("\"message\":\"stopping: SIGTERM\""), "{log}");
}

/// As the service manager does for a stream of its journal.
fn for_journal(command: &mut Command, log: &File) {
    let found = log.metadata().expect("it is open");
    command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
}

#[test]
fn under_journald_lines_begin_with_their_priority_and_have_no_time() {
    let config = format!("{CONFIG}[[resp.user]]\nname = \"ann\"\npassword = \"x\"\n");
    let log = Logged::start("log-journal", &config, for_journal).stop();
    for line in log.lines() {
        let (priority, text) = line.split_at(3);
        assert!(["<3>", "<4>", "<6>", "<7>"].contains(&priority), "{line}");
        assert!(!text.contains("INFO") && !text.contains("WARN") && !text.contains("Z "), "{line}");
    }
    assert!(log.contains("<6>stopping: SIGTERM\n"), "{log}");
    assert!(log.contains("<4>the password of the user 'ann' stands"), "{log}");
    // Another stream than the one that is named is no journal.
    let other = |command: &mut Command, _: &File| {
        command.env("JOURNAL_STREAM", "1:1");
    };
    let log = Logged::start("log-no-journal", CONFIG, other).stop();
    assert!(log.lines().all(|line| line.contains("Z  INFO ")), "{log}");
    let config = format!("{CONFIG}[log]\nformat = \"json\"\n");
    let log = Logged::start("log-journal-json", &config, for_journal).stop();
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(&line[3..]).expect(line);
        assert!(line.starts_with('<') && object["message"].is_string(), "{line}");
        assert!(object["timestamp"].is_null(), "{line}");
    }
}

fn write_secret(folder: &Path, name: &str, secret: &str) {
    fs::write(folder.join(name), format!("{secret}\n")).expect("the folder is ours");
    let mode = Permissions::from_mode(0o600);
    fs::set_permissions(folder.join(name), mode).expect("the folder is ours");
}

/// What a listener says to a request, up to a time without a byte.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it is open");
    let (mut reply, mut bytes) = (Vec::new(), [0; 65536]);
    while let Ok(size @ 1..) = stream.read(&mut bytes) {
        reply.extend_from_slice(&bytes[..size]);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn secrets_come_from_files_and_credentials_and_are_nowhere_to_be_read() {
    const SECRET: &str = "hunter2secret";
    let folder = folder("log-secrets");
    let credentials = folder.join("credentials");
    fs::create_dir(&credentials).expect("the folder is ours");
    write_secret(&credentials, "resp", SECRET);
    write_secret(&folder, "ann", SECRET);
    write_secret(&folder, "http", SECRET);
    write_secret(&folder, "feed", SECRET);
    write_secret(&folder, "sink", &format!("mysql://u:{SECRET}@127.0.0.1:1/d"));
    write_secret(&folder, "stream", &format!("redis://:{SECRET}@127.0.0.1:1"));
    let config = "data_dir = \"data\"\n[log]\nlevel = \"trace\"\n\
        [resp]\nlisten = [\"127.0.0.1:0\"]\npassword_file = \"credential:resp\"\n\
        [[resp.user]]\nname = \"ann\"\npassword_file = \"ann\"\ncommands = [\"+@all\"]\n\
        keys = [\"*\"]\n\
        [http]\nlisten = [\"127.0.0.1:0\"]\ntoken_file = \"http\"\n\
        [[feed]]\nname = \"f\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = { table = \"t\" }\n\
        token_file = \"feed\"\n[[feed.sink]]\nname = \"s\"\nurl_file = \"sink\"\n\
        [[feed.stream]]\nname = \"q\"\nstream = \"s\"\nfield = \"f\"\nurl_file = \"stream\"\n";
    fs::write(folder.join("edge.toml"), config).expect("the folder is ours");
    let with_credentials = |command: &mut Command| {
        command.env("CREDENTIALS_DIRECTORY", &credentials);
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(["check", "edge.toml"]).current_dir(&folder);
    with_credentials(&mut command);
    let checked = command.output().expect("the program runs");
    let mut said = String::from_utf8_lossy(&checked.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&checked.stderr));
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let server = Logged::start_in(folder.clone(), |command, _| with_credentials(command));
    let (resp, http) = (server.address("resp"), server.address("http"));
    // The secrets work.
    let login = format!("AUTH ann {SECRET}\r\nAUTH {SECRET}\r\nPING\r\n");
    assert_eq!(ask(resp, &login), "+OK\r\n+OK\r\n+PONG\r\n");
    let request = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n\r\n")
    };
    let feeds = ask(http, &request("/v1/feeds"));
    assert!(feeds.starts_with("HTTP/1.1 200"), "{feeds}");
    server.wait(|server| server.read("log").matches("feed 'f', ").count() >= 2);
    said.push_str(&feeds);
    said.push_str(&ask(http, &request("/metrics")));
    said.push_str(&ask(http, &request("/v1/none")));
    let login = format!("AUTH {SECRET}\r\n");
    for command in [
        "CONFIG GET *",
        "INFO everything",
        "ACL LIST",
        "ACL WHOAMI",
        "CLIENT LIST",
        "SLOWLOG GET",
        "FEED.INFO f",
        "FEED.LIST",
        "COMMAND DOCS auth",
    ] {
        said.push_str(&ask(resp, &format!("{login}{command}\r\n")));
    }
    // A mistake in them is told without them.
    write_secret(&folder, "http", &format!("{SECRET} with a space"));
    server.signal("HUP");
    server.wait(|server| server.read("log").contains("not reloaded"));
    said.push_str(&server.stop());
    assert!(said.len() > 5000 && said.contains("requirepass"), "{said}");
    let at = said.find(SECRET).map(|at| &said[at.saturating_sub(200)..at + SECRET.len()]);
    assert_eq!(at, None);
}

#[test]
fn the_log_of_a_reload_names_the_keys_that_need_a_restart_and_only_those() {
    let server = Logged::start("log-reload", CONFIG, |_, _| {});
    let config = format!(
        "{}[dns]\nlisten = []\nudp_size = 600\n",
        CONFIG.replace("threads = 1", "threads = 2\npassword = \"x\"")
    );
    fs::write(server.folder.join("edge.toml"), config).expect("the folder is ours");
    server.signal("HUP");
    server.wait(|server| server.read("log").contains("reloaded: "));
    let log = server.stop();
    let line = log.lines().find(|line| line.contains("reloaded: ")).expect("it was waited for");
    let expected = "0 pools; resp.threads, dns.udp_size stay as they were until a restart";
    assert!(line.ends_with(expected), "{line}");
}
