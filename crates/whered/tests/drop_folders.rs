//! When a file of a drop folder is taken: when it is complete, and not before.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped part says so")]

mod served;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use served::{Served, WAIT, folder};

const CONFIG: &str = "data_dir = \"data\"\n[resp]\nlisten = []\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
                      [dns]\nlisten = []\n[[feed]]\nname = \"lines\"\nformat = \"ndjson\"\n\
                      member = \"m\"\ninto = { table = \"lines\" }\nbatch_delay_millis = 0\n\
                      drop_folder = \"incoming\"\n";

fn place(name: &str) -> (PathBuf, PathBuf) {
    let at = folder(name);
    fs::write(at.join("whered.toml"), CONFIG).expect("writable");
    fs::create_dir_all(at.join("incoming")).expect("writable");
    let incoming = at.join("incoming");
    (at, incoming)
}

fn is_row(served: &Served, member: &str) -> bool {
    let mut stream = TcpStream::connect(served.http).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("it can be set");
    let head = format!(
        "GET /v1/tables/lines/rows/{member} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text.starts_with("HTTP/1.1 200")
}

/// Waits for something; gives how long that took.
fn until(what: &str, longest: Duration, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < longest, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

#[test]
fn a_file_is_not_taken_while_it_is_open_for_writing_however_long_its_writer_rests() {
    let (at, incoming) = place("drop-open");
    // One is written when the server starts, another one has nobody any more.
    let mut early = File::create(incoming.join("early")).expect("writable");
    early.write_all(b"{\"m\":\"early-1\"}\n").expect("writable");
    fs::write(incoming.join("left"), "{\"m\":\"left\"}\n").expect("writable");
    let served = Served::start_keeping(at.clone(), &[]);
    let mut late = File::create(incoming.join("late")).expect("writable");
    late.write_all(b"{\"m\":\"late-1\"}\n").expect("writable");
    let taken = |name: &str| incoming.join("done").join(name).exists();
    until("what was left is taken", Duration::from_secs(20), || taken("left"));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!taken("early"), "its writer has it open since before the server");
    assert!(!taken("late"), "its writer has it open");
    for (file, name) in [(&mut early, "early"), (&mut late, "late")] {
        file.write_all(format!("{{\"m\":\"{name}-2\"}}\n").as_bytes()).expect("writable");
    }
    drop((early, late));
    for name in ["early", "late"] {
        until("it is taken when it is closed", Duration::from_secs(5), || taken(name));
        until("all of it is applied", WAIT, || is_row(&served, &format!("{name}-2")));
        assert!(is_row(&served, &format!("{name}-1")));
    }
    drop(served);
    let _ = fs::remove_dir_all(at);
}

#[test]
fn a_link_into_the_folder_is_taken_and_one_that_is_written_again_waits_for_its_end() {
    let (at, incoming) = place("drop-link");
    let served = Served::start_keeping(at.clone(), &[]);
    fs::write(at.join("elsewhere"), "{\"m\":\"linked\"}\n").expect("writable");
    fs::hard_link(at.join("elsewhere"), incoming.join("linked")).expect("the same file system");
    let taken = |name: &str| incoming.join("done").join(name).exists();
    until("nobody will close it", Duration::from_secs(20), || taken("linked"));
    let mut file =
        OpenOptions::new().create(true).append(true).open(incoming.join("two")).expect("w");
    file.write_all(b"{\"m\":\"two\"}\n").expect("writable");
    drop(file);
    until("it is closed", Duration::from_secs(5), || taken("two"));
    drop(served);
    let _ = fs::remove_dir_all(at);
}

/// A server that was started in its folder by a relative path.
struct Relative(Child);

impl Drop for Relative {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn with_relative_paths_a_file_is_taken_as_soon_as_it_is_closed() {
    let (at, incoming) = place("drop-relative");
    for config in ["whered.toml", "./incoming/../whered.toml"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        command.args(["serve", "--config", config]).current_dir(&at);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut said = String::new();
        let mut stdout = child.stdout.take().expect("it is piped");
        let running = Relative(child);
        let mut bytes = [0; 1024];
        while !said.contains("ready") {
            let length = stdout.read(&mut bytes).expect("readable");
            assert!(length > 0, "{said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        let name = format!("file-{}", config.len());
        fs::write(incoming.join(&name), format!("{{\"m\":\"{name}\"}}\n")).expect("writable");
        let done = incoming.join("done").join(&name);
        until("it is taken at once", Duration::from_secs(5), || done.exists());
        drop(running);
    }
    let _ = fs::remove_dir_all(at);
}

/// A small tmpfs, which needs root; unmounted at the end.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn small(at: &Path) -> Option<Small> {
    fs::create_dir_all(at).expect("writable");
    let mut mount = Command::new("mount");
    let done = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
    let is_done = done.is_ok_and(|done| done.status.success());
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(is_done || !required.contains("root"), "WHERED_REQUIRE names root; no tmpfs");
    is_done.then(|| Small(at.to_owned()))
}

#[test]
fn on_a_full_disk_a_refused_file_stays_until_its_reason_can_be_written() {
    let (at, incoming) = place("drop-full");
    let Some(mounted) = small(&incoming) else {
        eprintln!("skipped: a tmpfs cannot be mounted here");
        let _ = fs::remove_dir_all(at);
        return;
    };
    let served = Served::start_keeping(at.clone(), &[]);
    // Made beforehand, so that the folder has room for names and none for what is in them.
    let mut bad = File::create(incoming.join("bad")).expect("writable");
    bad.write_all(b"<no lines/>").expect("there is room");
    let mut filler = File::create(incoming.join(".filler")).expect("writable");
    while filler.write_all(&[7; 4096]).is_ok() {}
    drop(bad);
    served.wait_for_log("no room to say so", 1);
    assert!(incoming.join("bad").exists(), "it stays");
    let failed = || fs::read_dir(incoming.join("failed")).expect("readable").flatten().count();
    assert_eq!(failed(), 0, "there is no reason without words, and no file without its reason");
    drop(filler);
    fs::remove_file(incoming.join(".filler")).expect("it is there");
    let reason = incoming.join("failed/bad.reason");
    until("there is room again", Duration::from_secs(20), || reason.exists());
    assert!(incoming.join("failed/bad").exists());
    assert!(!fs::read_to_string(reason).expect("readable").trim().is_empty());
    drop(served);
    drop(mounted);
    let _ = fs::remove_dir_all(at);
}
