//! A `whered serve` process for tests, whichever process serves by now.
//!
//! Not for: what is asked and expected (the tests themselves).
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const WAIT: Duration = Duration::from_secs(30);

/// A server in a folder of its own, and those that come after it: they write to the same pipe.
pub(crate) struct Served {
    pub(crate) folder: PathBuf,
    first: Child,
    lines: Receiver<String>,
    pub(crate) dns: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) http: SocketAddr,
    keeps_folder: bool,
}

/// A folder that is not there yet.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the system's folder for such can be written");
    folder
}

impl Served {
    /// Starts a server on free ports; `folder` has `whered.toml`.
    pub(crate) fn start(folder: PathBuf) -> Served {
        let mut served = Served::start_keeping(folder, &[]);
        served.keeps_folder = false;
        served
    }

    /// As [`Served::start`], under other words such as a tracer's; the folder stays.
    pub(crate) fn start_keeping(folder: PathBuf, under: &[&str]) -> Served {
        let words = [under, &[env!("CARGO_BIN_EXE_whered")]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["serve", "--config"]).arg(folder.join("whered.toml"));
        command.stdout(Stdio::piped());
        let log = fs::File::create(folder.join("log")).expect("the folder can be written");
        let mut first = command.stderr(log).spawn().expect("the program runs");
        let (sender, lines) = channel();
        let stdout = BufReader::new(first.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let (dns, resp, http) = (nowhere, nowhere, nowhere);
        let mut served = Served { folder, first, lines, dns, resp, http, keeps_folder: true };
        served.wait_until_ready();
        served
    }

    /// Reads what a process says of itself, up to `ready`.
    pub(crate) fn wait_until_ready(&mut self) {
        loop {
            let line = self.lines.recv_timeout(WAIT).unwrap_or_else(|_| panic!("{}", self.log()));
            match line.split_once(' ') {
                None if line == "ready" => return,
                Some(("dns", address)) => self.dns = address.parse().expect("an address"),
                Some(("resp", address)) => self.resp = address.parse().expect("an address"),
                Some(("http", address)) => self.http = address.parse().expect("an address"),
                _ => {}
            }
        }
    }

    /// The process that holds the data directory.
    pub(crate) fn pid(&self) -> u32 {
        let begun = Instant::now();
        loop {
            let lock = fs::read_to_string(self.folder.join("data/LOCK")).expect("it is held");
            match lock.trim().parse() {
                Ok(pid) => return pid,
                // Its holder has opened it and not yet written its number.
                Err(_) => assert!(begun.elapsed() < WAIT, "a process number in {lock:?}"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to the process that serves.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// What all processes have logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the log says something.
    pub(crate) fn wait_for_log(&self, text: &str, count: usize) {
        let begun = Instant::now();
        while self.log().matches(text).count() < count {
            assert!(begun.elapsed() < WAIT, "no '{text}' in: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let lock = fs::read_to_string(self.folder.join("data/LOCK")).unwrap_or_default();
        if let Ok(pid) = lock.trim().parse::<u32>()
            && is_running(pid)
        {
            signal(pid, "KILL");
        }
        let _ = self.first.kill();
        let _ = self.first.wait();
        if !self.keeps_folder {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Waits until a server that tells nobody of itself listens.
pub(crate) fn wait_until_it_listens(child: &Child) {
    let begun = Instant::now();
    let path = format!("/proc/{}/net/tcp", child.id());
    let inodes = || sockets_of(child.id());
    let listens = || {
        let table = fs::read_to_string(&path).unwrap_or_default();
        let own = inodes();
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(3) == Some(&"0A")
                && words.get(9).is_some_and(|it| own.iter().any(|own| own == it))
        })
    };
    while !listens() {
        assert!(begun.elapsed() < WAIT, "process {} does not listen", child.id());
        thread::sleep(Duration::from_millis(10));
    }
}

/// The inodes of the sockets of a process.
fn sockets_of(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inodes = links.filter_map(|link| {
        Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    inodes.collect()
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, name: &str) {
    let killed = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(killed.expect("there is a kill program").success());
}

/// Whether a process does anything: one that has ended may still have a number.
pub(crate) fn is_running(pid: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    status.is_ok_and(|text| !text.contains("\nState:\tZ"))
}

/// Waits for the end of a process.
pub(crate) fn wait_for_end(pid: u32) {
    let begun = Instant::now();
    while is_running(pid) {
        assert!(begun.elapsed() < WAIT, "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
