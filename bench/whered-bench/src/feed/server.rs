//! Processes that take uploads: a `whered serve`, or a bare receiver.
//!
//! For: starting them, waiting until all is applied, what they have used so far.
//! Not for: sending (`sending.rs`), judging.
//!
//! A process that was started here ends with its value. One that ran before stays.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::sending::HttpConnection;
use crate::measure::{process_cpu_nanoseconds, wait_until};

/// How long until it is asked again whether all are applied. Asking every 2 ms took 2.7 % of two
/// processors.
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How long all uploads may take to be applied.
const APPLY_LIMIT: Duration = Duration::from_secs(300);
/// How long a server may take to open its door.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Where uploads of this workload go.
pub const FEED_PATH: &str = "/v1/feeds/sightings";

/// See the head of this file.
#[derive(Debug)]
pub struct FeedServer {
    /// Its HTTP door.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    child: Option<Child>,
}

impl Drop for FeedServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Nothing of a benchmark's server is to be kept.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl FeedServer {
    /// A server that runs already.
    #[must_use]
    pub fn running(address: SocketAddr, pid: u32) -> FeedServer {
        FeedServer { address, pid, child: None }
    }

    /// A bare receiver (`whered-bench feed --bare-receiver`) with its file in a folder.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start_bare(bench_binary: &Path, folder: &Path) -> Result<FeedServer, String> {
        let mut command = Command::new(bench_binary);
        command.args(["feed", "--bare-receiver"]).arg(folder.join("bare.bin"));
        start("the bare receiver", &mut command)
    }

    /// A server with this configuration, which names an empty data directory; its file is written
    /// into a folder.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or it does not start.
    pub fn start(
        binary: &Path,
        folder: &Path,
        data: &Path,
        config: &str,
    ) -> Result<FeedServer, String> {
        // A run starts empty; what an earlier one left is ours.
        let _ = std::fs::remove_dir_all(data);
        let path = folder.join("bench.toml");
        std::fs::write(&path, config).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&path);
        start("whered serve", &mut command)
    }

    /// The processor time of all of its threads so far.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn cpu_nanoseconds(&self) -> Result<u64, String> {
        let fault = |error| format!("process {}: {error}", self.pid);
        process_cpu_nanoseconds(self.pid).map_err(fault)
    }

    /// Bytes of the spool's groups and how many syncs they took so far.
    ///
    /// # Errors
    ///
    /// An answer is odd.
    pub fn groups(&self) -> Result<(u64, u64), String> {
        let feed = self.feed(&mut HttpConnection::connect(self.address)?)?;
        let of = |name: &str| feed["spool"][name].as_u64();
        let both = of("bytes").zip(of("syncs"));
        both.ok_or_else(|| format!("GET {FEED_PATH}: no spool in {feed}"))
    }

    /// What the server says of the feed.
    fn feed(&self, connection: &mut HttpConnection) -> Result<Json, String> {
        let answer = connection.ask("GET", FEED_PATH, b"")?;
        let feed: Json = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("GET {FEED_PATH}: {} {error}", answer.status))?;
        // The answer is the feed's, or holds it.
        Ok(feed.get("feed").cloned().unwrap_or(feed))
    }

    /// Waits until nothing of the feed is left to be applied.
    ///
    /// # Errors
    ///
    /// It takes minutes, or an answer is odd.
    pub fn wait_until_applied(&self) -> Result<(), String> {
        let mut connection = HttpConnection::connect(self.address)?;
        let until = Instant::now() + APPLY_LIMIT;
        loop {
            let feed = self.feed(&mut connection)?;
            match feed["backlog"]["uploads"].as_u64() {
                Some(0) => return Ok(()),
                Some(_) if Instant::now() < until => {
                    wait_until(Instant::now() + ASK_AGAIN);
                }
                Some(left) => return Err(format!("{left} uploads are not applied after minutes")),
                None => {
                    return Err(format!("GET {FEED_PATH}: no backlog in {feed}"));
                }
            }
        }
    }
}

/// Starts a program and reads where it listens from its standard output.
fn start(name: &str, command: &mut Command) -> Result<FeedServer, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("{name}: {error}"))?;
    let output = child.stdout.take().ok_or_else(|| format!("{name}: no standard output"))?;
    let (pid, unknown) = (child.id(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut started = FeedServer { address: unknown, pid, child: Some(child) };
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens any more once it is ready; it must be read all the same.
            let _ = sender.send(line);
        }
    });
    loop {
        let line = lines.recv_timeout(START_LIMIT);
        let line = line.map_err(|_| format!("{name}: ended or did not get ready"))?;
        if let Some(address) = line.strip_prefix("http ") {
            started.address = address.parse().unwrap_or(unknown);
        }
        if line.trim() == "ready" {
            break;
        }
    }
    if started.address == unknown { Err(format!("{name}: no HTTP door")) } else { Ok(started) }
}
