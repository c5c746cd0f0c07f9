//! What reaches the block device for a byte of accepted operations: ext4 on a loop device.
//!
//! Not for times: a loop device is a file of the file system below. `/proc/PID/io` would count
//! pages that are written twice before they reach the device, and miss the file system's own
//! journal.

use crate::servers::told;
use std::path::Path;
use std::time::Duration;
use whered_bench::faults::LoopDisk;
use whered_bench::geo::{Class, Driver, Group, Points, Replies, Server};
use whered_bench::geo::{Order, Until, load};

const DISK_BYTES: u64 = 3 << 30;

/// What one server wrote.
pub(crate) struct Written {
    pub(crate) server: String,
    pub(crate) operations: u64,
    /// Bytes of the requests, as clients sent them.
    pub(crate) requested_bytes: u64,
    /// Bytes of frames and marks, where the server tells them.
    pub(crate) journal_bytes: Option<u64>,
    pub(crate) device_bytes: u64,
}

/// Moves points for a while on a disk of its own and reads the device's statistics around it.
pub(crate) fn measure(
    folder: &Path,
    class: &Class,
    (points, count): (&Points, u64),
    time: Duration,
    start: &dyn Fn(&Path) -> Result<Server, String>,
) -> Result<Written, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let disk = LoopDisk::new(folder, DISK_BYTES)?;
    let server = start(&disk.mount)?;
    load(&server, points, &Order::shuffled(count, 1))?;
    let workload = class.workload(points, count);
    let reply = workload.constant.ok_or("moves have one reply")?;
    let replies: Vec<Replies> =
        workload.scripts.iter().map(|script| Replies::constant(reply, script.len())).collect();
    let (connections, pipeline) = (class.connections, class.pipeline);
    let group = Group { connections, pipeline, scripts: &workload.scripts, replies: &replies };
    let mut driver = Driver::connect(server.address, &[group])?;
    // Steady state: what loading left to be written is on the disk.
    driver.run(Until::Time(time / 4))?;
    disk.sync()?;
    let journal_before = told(&server, "journal_bytes").ok();
    let before = disk.written_bytes()?;
    let done = driver.run(Until::Time(time))?;
    // The kernel writes by itself what nobody forced out: it counts too.
    disk.sync()?;
    let device_bytes = disk.written_bytes()? - before;
    let journal_after = told(&server, "journal_bytes").ok();
    let operations: u64 = done.iter().map(|done| done.operations).sum();
    let commands: usize = workload.scripts.iter().map(|script| script.len()).sum();
    let bytes: usize = workload.scripts.iter().map(|script| script.size_bytes()).sum();
    let written = Written {
        server: server.name.clone(),
        operations,
        requested_bytes: operations * bytes as u64 / commands as u64,
        journal_bytes: journal_after.zip(journal_before).map(|(after, before)| after - before),
        device_bytes,
    };
    drop(driver);
    drop(server);
    drop(disk);
    // What is left there is nobody's data.
    let _ = std::fs::remove_dir_all(folder);
    Ok(written)
}
