//! One run: a server, a bare receiver, and clients that send a crowd's uploads to each.
//!
//! For: uploads and events a second with durable acknowledgements, times of acknowledgements,
//! processor time and written bytes; whether the tables are what they should be.
//! Not for: rivals (`bench/versus`).
//!
//! ```text
//! bare receiver ◄─ all uploads, as fast as it goes ─► the ceiling
//! server        ◄─ all uploads, as fast as it goes ─► uploads/s; until all are applied: events/s
//!               ◄─ as many others, at half that pace ─► p50, p99
//!               ─► tables ─► compared with our own
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::compare::compare;
use super::consolidated::Consolidated;
use super::sending::{HttpConnection, Sent, send};
use super::upload::{Upload, UploadFormat, UploadOptions};
use super::world::World;
use super::{FeedReport, Phase};
use crate::measure::process_cpu_nanoseconds;

/// How long all uploads may take to be applied.
const APPLY_LIMIT: Duration = Duration::from_secs(300);
/// How long a server may take to open its door.
const START_LIMIT: Duration = Duration::from_secs(60);
const PATH: &str = "/v1/feeds/sightings";

/// What is run.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The `whered` program.
    pub binary: PathBuf,
    /// A folder for everybody's files, on the disk that is meant.
    pub folder: PathBuf,
    /// Clients at once.
    pub clients: usize,
    /// Uploads of each phase.
    pub uploads: usize,
    /// What they are like.
    pub upload: UploadOptions,
    /// Objects of the world.
    pub objects: u32,
    /// What everything is made with.
    pub seed: u64,
    /// A server that runs already instead, and its process.
    pub server: Option<(SocketAddr, u32)>,
}

/// A process that was started here ends with its value.
struct Started {
    address: SocketAddr,
    pid: u32,
    child: Option<std::process::Child>,
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Nothing of a benchmark's server is to be kept.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The uploads of a phase and what they become.
struct Made {
    uploads: Vec<Vec<u8>>,
    events: u64,
    bytes: u64,
}

/// Runs it all.
///
/// # Errors
///
/// A server does not start, refuses an upload, or ends with other tables than it should.
pub fn run(options: &FeedOptions, say: &dyn Fn(&str)) -> Result<FeedReport, String> {
    std::fs::create_dir_all(&options.folder)
        .map_err(|error| format!("{}: {error}", options.folder.display()))?;
    // A server takes a relative data directory from its configuration's folder, and not from ours.
    let folder = std::fs::canonicalize(&options.folder)
        .map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let options = &FeedOptions { folder, ..options.clone() };
    let world = World::new(options.seed, options.objects);
    let mut expected = Consolidated::default();
    let first = make(&world, options, 0, &mut expected);
    let second = make(&world, options, options.uploads as u64, &mut expected);
    say(&format!(
        "{} uploads of {} events",
        options.uploads,
        first.events / options.uploads as u64
    ));

    let bare = {
        let receiver = start_bare(options)?;
        let before = (cpu(&receiver)?, written(receiver.pid));
        let sent = send(receiver.address, PATH, &first.uploads, options.clients, None)?;
        phase(&receiver, before, &first, &sent, sent.seconds)?
    };
    say("the bare receiver has answered");

    let server = start_server(options)?;
    let before = (cpu(&server)?, written(server.pid));
    let start = Instant::now();
    let sent = send(server.address, PATH, &first.uploads, options.clients, None)?;
    wait_until_applied(&server)?;
    let full = phase(&server, before, &first, &sent, start.elapsed().as_secs_f64())?;
    say("the server has applied them");

    let pace = full.uploads_per_second / 2.0;
    let before = (cpu(&server)?, written(server.pid));
    let start = Instant::now();
    let sent = send(server.address, PATH, &second.uploads, options.clients, Some(pace))?;
    wait_until_applied(&server)?;
    let half = phase(&server, before, &second, &sent, start.elapsed().as_secs_f64())?;

    let mut connection = HttpConnection::connect(server.address)?;
    let checked = compare(&mut connection, &expected, options.upload.has_loot)?;
    let events = [first.events, second.events];
    Ok(FeedReport { options: options.clone(), events, bare, full, half, checked })
}

fn make(world: &World, options: &FeedOptions, from: u64, expected: &mut Consolidated) -> Made {
    let mut made = Made { uploads: Vec::new(), events: 0, bytes: 0 };
    for number in from..from + options.uploads as u64 {
        let upload = Upload::new(world, number, &options.upload);
        upload.sightings.iter().for_each(|sighting| expected.add(sighting));
        made.events += upload.sightings.len() as u64;
        made.bytes += upload.bytes.len() as u64;
        made.uploads.push(upload.bytes);
    }
    made
}

fn phase(
    server: &Started,
    (cpu_before, written_before): (u64, Option<u64>),
    made: &Made,
    sent: &Sent,
    applied_seconds: f64,
) -> Result<Phase, String> {
    let written = written(server.pid).zip(written_before).map(|(after, before)| after - before);
    Ok(Phase {
        uploads_per_second: made.uploads.len() as f64 / sent.seconds,
        events_per_second: made.events as f64 / applied_seconds,
        cpu_nanoseconds_per_event: (cpu(server)? - cpu_before) as f64 / made.events as f64,
        acknowledged_millis: sent.acknowledged_millis.clone(),
        written_per_byte: written.map(|written| written as f64 / made.bytes as f64),
    })
}

fn cpu(server: &Started) -> Result<u64, String> {
    process_cpu_nanoseconds(server.pid).map_err(|error| format!("process {}: {error}", server.pid))
}

/// What a process has had written to disks so far, if the system tells.
fn written(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

fn start_bare(options: &FeedOptions) -> Result<Started, String> {
    let file = options.folder.join("bare.bin");
    let mut command = Command::new(&options.binary);
    command.args(["bench", "feed", "--bare-receiver"]).arg(file);
    start("the bare receiver", &mut command)
}

fn start_server(options: &FeedOptions) -> Result<Started, String> {
    if let Some((address, pid)) = options.server {
        return Ok(Started { address, pid, child: None });
    }
    let data = options.folder.join("data");
    // A run starts empty; what an earlier one left is ours.
    let _ = std::fs::remove_dir_all(&data);
    let path = options.folder.join("bench.toml");
    let text = config(&data, options.upload.format, options.upload.has_loot);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut command = Command::new(&options.binary);
    command.arg("serve").arg("--config").arg(&path);
    start("whered serve", &mut command)
}

/// Starts a program and reads where it listens from its standard output.
fn start(name: &str, command: &mut Command) -> Result<Started, String> {
    use std::io::BufRead;
    let child = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("{name}: {error}"))?;
    let output = child.stdout.take().ok_or_else(|| format!("{name}: no standard output"))?;
    let (pid, unknown) = (child.id(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut started = Started { address: unknown, pid, child: Some(child) };
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

/// A server's configuration for the uploads.
#[must_use]
pub fn config(data: &Path, format: UploadFormat, has_loot: bool) -> String {
    let prefix = if format == UploadFormat::Xml { "@" } else { "" };
    let record = if prefix.is_empty() { "" } else { "record = \"upload/sighting\"\n" };
    let (items, loot) = if has_loot && format != UploadFormat::Csv {
        let items = format!(
            "items = {{ each = \"loot\", key = \"{prefix}item\", count = \"{prefix}n\" }}\n"
        );
        (items, ", table = \"loot\"")
    } else {
        (String::new(), "")
    };
    format!(
        "data_dir = {data:?}\n[resp]\nlisten = []\n[dns]\nlisten = []\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\n\
         [[feed]]\nname = \"sightings\"\nformat = \"{}\"\n{record}\
         member = \"{prefix}object\"\nlongitude = \"{prefix}x\"\nlatitude = \"{prefix}y\"\n\
         time = \"{prefix}t\"\n{items}into = {{ collection = \"sightings\"{loot} }}\n\
         consolidate = {{ merge_within_meters = 25.0 }}\nspool_size_max = \"4gb\"\n\
         [[feed.table]]\nname = \"positions\"\nof = \"positions\"\nkey = [\"member\", \"position\"]\n\
         columns = {{ longitude = \"mean(longitude)\", latitude = \"mean(latitude)\", \
         seen = \"count\", first_seen = \"min(time)\", last_seen = \"max(time)\" }}\n",
        format.name(),
        data = data.to_string_lossy(),
    )
}

fn wait_until_applied(server: &Started) -> Result<(), String> {
    let mut connection = HttpConnection::connect(server.address)?;
    let until = Instant::now() + APPLY_LIMIT;
    loop {
        let answer = connection.ask("GET", PATH, b"")?;
        let feed: Json = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("GET {PATH}: {} {error}", answer.status))?;
        // The answer is the feed's, or holds it.
        let feed = feed.get("feed").unwrap_or(&feed);
        match feed["backlog"]["uploads"].as_u64() {
            Some(0) => return Ok(()),
            Some(_) if Instant::now() < until => {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            Some(left) => return Err(format!("{left} uploads are not applied after minutes")),
            None => return Err(format!("GET {PATH}: {} without a backlog", answer.status)),
        }
    }
}
