//! A disk that is full and has room again, as those who operate a server see it. Needs a small
//! tmpfs, which needs root; skipped otherwise unless `WHERED_REQUIRE` contains `root`.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod served;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use served::{Served, WAIT};

/// Unmounted at the end.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn small(at: &Path) -> Option<Small> {
    fs::create_dir_all(at).expect("writable");
    let mut mount = Command::new("mount");
    let done = mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).output();
    let is_done = done.is_ok_and(|done| done.status.success());
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(is_done || !required.contains("root"), "WHERED_REQUIRE names root; no tmpfs");
    is_done.then(|| Small(at.to_owned()))
}

/// What is said up to the end of the connection.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(WAIT)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it is open");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("text");
    reply
}

fn resp(served: &Served, command: &str) -> String {
    ask(served.resp, &format!("{command}\r\nQUIT\r\n"))
}

fn get(served: &Served, path: &str) -> String {
    ask(
        served.http,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    )
}

/// The value of a metric.
fn metric(served: &Served, name: &str) -> f64 {
    let metrics = get(served, "/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name}: {metrics}")).trim().parse().expect("a number")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_disk_is_told_once_when_it_begins_and_once_when_it_ends() {
    let folder = served::folder("full-disk");
    let Some(mounted) = small(&folder.join("data")) else {
        eprintln!("skipped: a tmpfs cannot be mounted here");
        let _ = fs::remove_dir_all(folder);
        return;
    };
    let config = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n\
                  [http]\nlisten = [\"127.0.0.1:0\"]\n[journal]\nsegment_size_bytes = 65536\n";
    fs::write(folder.join("whered.toml"), config).expect("the folder is ours");
    let served = Served::start_keeping(folder.clone(), &[]);
    assert_eq!(resp(&served, "GEOADD k 1 2 before"), ":1\r\n+OK\r\n");
    assert!(get(&served, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(resp(&served, "INFO persistence").contains("aof_last_write_status:ok"));
    assert_eq!(metric(&served, "whered_refused_writes_total{reason=\"disk_full\"}"), 0.0);
    let mut filler = File::create(folder.join("data/.filler")).expect("there is room");
    while filler.write_all(&[7; 4096]).is_ok() {}
    let long = "x".repeat(30_000);
    until("writes are refused", || resp(&served, &format!("SET k{long} 1")).contains("-MISCONF "));
    // Many more are refused, which the log does not repeat.
    for _ in 0..20 {
        resp(&served, &format!("SET k{long} 1"));
    }
    let begins = "the disk has no room for the journal, writes are refused";
    served.wait_for_log(begins, 1);
    let info = resp(&served, "INFO persistence");
    assert!(info.contains("aof_last_write_status:err"), "{info}");
    let ready = get(&served, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("\"status\":\"full\""), "{ready}");
    assert!(get(&served, "/healthz").starts_with("HTTP/1.1 200"), "a restart would not help");
    assert_eq!(metric(&served, "whered_journal_full"), 1.0);
    assert!(metric(&served, "whered_refused_writes_total{reason=\"disk_full\"}") >= 1.0);
    assert!(resp(&served, "ZCARD k").starts_with(":1\r\n"), "reads go on");
    drop(filler);
    fs::remove_file(folder.join("data/.filler")).expect("it is there");
    until("writes are taken again", || get(&served, "/readyz").starts_with("HTTP/1.1 200"));
    let ends = "the disk has room for the journal again; writes are taken";
    served.wait_for_log(ends, 1);
    assert!(resp(&served, &format!("SET k{long} 1")).starts_with("+OK"));
    assert!(resp(&served, "INFO persistence").contains("aof_last_write_status:ok"));
    assert_eq!(metric(&served, "whered_journal_full"), 0.0);
    let log = served.log();
    assert_eq!((log.matches(begins).count(), log.matches(ends).count()), (1, 1), "{log}");
    drop(served);
    drop(mounted);
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn a_conversion_that_does_not_fit_leaves_nothing() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("full-disk-gdnsd");
    let Some(disk) = small(&folder.join("disk")) else {
        eprintln!("skipped: a tmpfs needs root");
        return;
    };
    fs::create_dir_all(folder.join("from/zones")).expect("a folder");
    let padding = "x".repeat(200);
    let mut zone = "@ SOA ns hm 1 7200 900 1209600 900\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    (0..25_000).for_each(|number| zone.push_str(&format!("n{number} A 192.0.2.1 ; {padding}\n")));
    fs::write(folder.join("from/zones/example.test"), zone).expect("a file");
    let made = Command::new(env!("CARGO_BIN_EXE_whered"))
        .args(["zone", "convert-gdnsd"])
        .arg(folder.join("from"))
        .arg("-o")
        .arg(disk.0.join("to"))
        .output()
        .expect("the program runs");
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(2), "{told}");
    assert!(told.contains("No space left"), "{told}");
    let left: Vec<_> = fs::read_dir(&disk.0).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
    drop(disk);
    let _removed = fs::remove_dir_all(folder.join("from"));
}
