//! One run: a server, a bare receiver, and clients that send a crowd's uploads to each.
//!
//! For: uploads and events a second with durable acknowledgements, times of acknowledgements,
//! processor time; whether the tables are what they should be.
//! Not for: rivals (`bench/versus`).
//!
//! ```text
//! bare receiver ◄─ all uploads, as fast as it goes ─► the ceiling
//! server        ◄─ all uploads, as fast as it goes ─► uploads/s; until all are applied: events/s
//!               ◄─ as many others, at half that pace, and at half of what is owed ─► p50, p99
//! fdatasync     groups of the size that the server had at each pace
//! bare receiver ◄─ those others, at each pace
//! server        ─► tables ─► compared with our own
//! ```

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::compare::compare;
use super::consolidated::Consolidated;
use super::sending::{HttpConnection, Sent, send};
use super::server::{FEED_PATH, FeedServer};
use super::syncs::Syncs;
use super::upload::{Upload, UploadFormat, UploadOptions};
use super::world::World;
use super::{FeedReport, Paced, Phase};
use crate::measure::wait_until;

/// Uploads a second that are owed, and the part of a bare receiver's that is when that is less.
const OWED_PER_SECOND: f64 = 1_500.0;
const OWED_PART: f64 = 0.6;
/// How long the disk is left alone with the space of a file that was removed.
const GIVEN_BACK: Duration = Duration::from_millis(500);

/// What is run.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The program `whered`, which has the server.
    pub binary: PathBuf,
    /// The program `whered-bench`, which has the bare receiver.
    pub bench_binary: PathBuf,
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

/// The uploads of a phase and what they become.
struct Made {
    uploads: Vec<Vec<u8>>,
    events: u64,
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
    let mut made = |part| make(&world, options, part * options.uploads as u64, &mut expected);
    let (first, rest) = (made(0), [made(1), made(2)]);
    say(&format!(
        "{} uploads of {} events",
        options.uploads,
        first.events / options.uploads as u64
    ));

    let bare = bare_phase(options, &first, None)?;
    say("the bare receiver has answered");

    let server = start(options)?;
    let before = server.cpu_nanoseconds()?;
    let start = Instant::now();
    let sent = send(server.address, FEED_PATH, &first.uploads, options.clients, None)?;
    server.wait_until_applied()?;
    let full = phase(&server, before, &first, &sent, start.elapsed().as_secs_f64())?;
    say("the server has applied them");

    let owed = OWED_PER_SECOND.min(OWED_PART * bare.uploads_per_second);
    let halves = [("half of it", full.uploads_per_second), ("half of what is owed", owed)];
    let mut paced = Vec::new();
    for ((name, load), made) in halves.into_iter().zip(&rest) {
        paced.push(at_pace(options, &server, name, made, load / 2.0)?);
        say(&format!("{name}: the server, the disk and the bare receiver have answered"));
    }

    let mut connection = HttpConnection::connect(server.address)?;
    let checked = compare(&mut connection, &expected, options.upload.has_loot)?;
    let events = std::iter::once(&first).chain(&rest).map(|made| made.events).collect();
    let options = options.clone();
    Ok(FeedReport { options, events, bare, full, paced, checked })
}

/// Uploads at a pace: to the server; to the disk alone, as that had grouped them; to the bare
/// receiver.
fn at_pace(
    options: &FeedOptions,
    server: &FeedServer,
    name: &'static str,
    made: &Made,
    pace: f64,
) -> Result<Paced, String> {
    let groups = server.groups()?;
    let before = server.cpu_nanoseconds()?;
    let start = Instant::now();
    let sent = send(server.address, FEED_PATH, &made.uploads, options.clients, Some(pace))?;
    server.wait_until_applied()?;
    let ours = phase(server, before, made, &sent, start.elapsed().as_secs_f64())?;
    let synced = time_syncs(options, groups, server.groups()?, sent.seconds)?;
    let bare = bare_phase(options, made, Some(pace))?;
    Ok(Paced { name, ours, bare, synced })
}

fn bare_phase(options: &FeedOptions, made: &Made, pace: Option<f64>) -> Result<Phase, String> {
    let receiver = FeedServer::start_bare(&options.bench_binary, &options.folder)?;
    let before = receiver.cpu_nanoseconds()?;
    let sent = send(receiver.address, FEED_PATH, &made.uploads, options.clients, pace)?;
    let phase = phase(&receiver, before, made, &sent, sent.seconds);
    // Its space is free when it has ended.
    drop(receiver);
    let given_back = give_back(&options.folder.join("bare.bin"));
    let phase = phase?;
    given_back.map(|()| phase)
}

/// Removes a file, which is nobody's data, and sees to it that its space is given back before
/// anything else is measured: a file system that tells the disk of free space has the syncs after
/// that wait for some hundred MB.
fn give_back(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let removed = std::fs::remove_file(path).and_then(|()| File::open(folder)?.sync_all());
    removed.map_err(|error| format!("{}: {error}", path.display()))?;
    wait_until(Instant::now() + GIVEN_BACK);
    Ok(())
}

/// The disk alone, with groups of the size and at the pace that the server had between two looks.
fn time_syncs(
    options: &FeedOptions,
    before: (u64, u64),
    after: (u64, u64),
    seconds: f64,
) -> Result<Syncs, String> {
    let (bytes, syncs) = (after.0 - before.0, (after.1 - before.1).max(1));
    let pause = Duration::from_secs_f64(seconds / syncs as f64);
    let file = options.folder.join("syncs.bin");
    let syncs = Syncs::time(&file, (bytes / syncs) as usize, syncs as usize, pause);
    let given_back = give_back(&file);
    let syncs = syncs.map_err(|error| format!("{}: {error}", file.display()))?;
    given_back.map(|()| syncs)
}

fn make(world: &World, options: &FeedOptions, from: u64, expected: &mut Consolidated) -> Made {
    let mut made = Made { uploads: Vec::new(), events: 0 };
    for number in from..from + options.uploads as u64 {
        let upload = Upload::new(world, number, &options.upload);
        upload.sightings.iter().for_each(|sighting| expected.add(sighting));
        made.events += upload.sightings.len() as u64;
        made.uploads.push(upload.bytes);
    }
    made
}

fn phase(
    server: &FeedServer,
    cpu_before: u64,
    made: &Made,
    sent: &Sent,
    applied_seconds: f64,
) -> Result<Phase, String> {
    Ok(Phase {
        uploads_per_second: made.uploads.len() as f64 / sent.seconds,
        events_per_second: made.events as f64 / applied_seconds,
        cpu_nanoseconds_per_event: (server.cpu_nanoseconds()? - cpu_before) as f64
            / made.events as f64,
        acknowledged_millis: sent.acknowledged_millis.clone(),
    })
}

fn start(options: &FeedOptions) -> Result<FeedServer, String> {
    if let Some((address, pid)) = options.server {
        return Ok(FeedServer::running(address, pid));
    }
    let data = options.folder.join("data");
    let text = config(&data, options.upload.format, options.upload.has_loot);
    FeedServer::start(&options.binary, &options.folder, &data, &text)
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
