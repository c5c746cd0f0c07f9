//! What reaches the block device for a byte of uploads: spool, journal, snapshots and the file
//! system's own, on ext4 on a loop device. Needs root.
//!
//! For: the device's own count while snapshots are made. Not for times: a loop device is a file of
//! the file system below.

use serde_json::{Value as Json, json};

use super::run::{FeedOptions, config};
use super::sending::{HttpConnection, send};
use super::server::{FEED_PATH, FeedServer};
use super::upload::Upload;
use super::world::World;
use crate::faults::LoopDisk;
use crate::measure::Section;

const DISK_BYTES: u64 = 4 << 30;
/// A snapshot is due when the journal has grown by this much: a sixteenth of the default, so that a
/// run of seconds makes some, and each byte of them counts as often as it would in a longer life.
const SNAPSHOT_JOURNAL_BYTES: u64 = 16 << 20;

/// What one run wrote.
#[derive(Clone, Debug)]
pub struct Written {
    /// How many uploads.
    pub uploads: usize,
    /// Their bytes, not packed.
    pub payload_bytes: u64,
    /// By the device's own count.
    pub device_bytes: u64,
    /// How many snapshots were made meanwhile.
    pub snapshots: u64,
    /// Whether there was loot.
    pub has_loot: bool,
}

impl Written {
    /// Sends `uploads` uploads to a server whose files are on a disk of their own.
    ///
    /// # Errors
    ///
    /// There is no such disk here, or the server does not take them.
    pub fn measure(options: &FeedOptions, uploads: usize) -> Result<Written, String> {
        let disk = LoopDisk::new(&options.folder.join("written"), DISK_BYTES)?;
        let data = disk.mount.join("data");
        let has_loot = options.upload.has_loot;
        let text = config(&data, options.upload.format, has_loot)
            + &format!("[snapshot]\njournal_size_bytes = {SNAPSHOT_JOURNAL_BYTES}\n");
        let server = FeedServer::start(&options.binary, &options.folder, &data, &text)?;
        let world = World::new(options.seed, options.objects);
        disk.sync()?;
        let before = disk.written_bytes()?;
        let mut payload_bytes = 0;
        // In pieces, so that they need not be in memory together.
        for from in (0..uploads).step_by(500) {
            let numbers = from..uploads.min(from + 500);
            let made = numbers.map(|number| Upload::new(&world, number as u64, &options.upload));
            let bytes: Vec<Vec<u8>> = made.map(|upload| upload.bytes).collect();
            payload_bytes += bytes.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            send(server.address, FEED_PATH, &bytes, options.clients, None)?;
            server.wait_until_applied()?;
        }
        // The kernel writes by itself what nobody forced out: it counts too.
        disk.sync()?;
        let device_bytes = disk.written_bytes()? - before;
        let snapshots = snapshots(&server)?;
        drop(server);
        drop(disk);
        // What is left there is nobody's data.
        let _ = std::fs::remove_dir_all(options.folder.join("written"));
        Ok(Written { uploads, payload_bytes, device_bytes, snapshots, has_loot })
    }

    /// Bytes that the device was given for each byte of uploads.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.device_bytes as f64 / self.payload_bytes as f64
    }

    /// Several runs as a table.
    #[must_use]
    pub fn section(runs: &[Written]) -> Section {
        let head = ["uploads", "payload MB", "snapshots", "device/byte"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for run in runs {
            let loot = if run.has_loot { " with loot" } else { "" };
            rows.push(vec![
                format!("{}{loot}", run.uploads),
                format!("{:.0}", run.payload_bytes as f64 / 1e6),
                run.snapshots.to_string(),
                format!("{:.2}", run.ratio()),
            ]);
        }
        let figures = runs.iter().map(|run| {
            json!({ "has_loot": run.has_loot, "uploads": run.uploads,
                "payload_bytes": run.payload_bytes, "device_bytes": run.device_bytes,
                "snapshots": run.snapshots })
        });
        let figures: Json = json!({ "written": figures.collect::<Vec<_>>() });
        let settings = format!(
            "ext4 on a loop device, its own count before and after, everything forced out; a \
             snapshot whenever the journal has grown by {} MiB",
            SNAPSHOT_JOURNAL_BYTES >> 20
        );
        Section::new("Bytes written", rows, figures).measured_with(&settings)
    }
}

fn snapshots(server: &FeedServer) -> Result<u64, String> {
    let mut connection = HttpConnection::connect(server.address)?;
    let answer = connection.ask("GET", "/metrics", b"")?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("whered_snapshots_total "));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| "/metrics has no whered_snapshots_total".to_owned())
}
