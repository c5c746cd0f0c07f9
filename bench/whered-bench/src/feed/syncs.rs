//! What an `fdatasync` alone takes at a group size: the floor of every durable acknowledgement.
//!
//! For: the same file system, size and pace as a server's groups had. Not for servers.
//!
//! ```text
//! | group | group | ...   in space that was reserved, each written and synced when it is due
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measure::wait_until;

/// Space is reserved in pieces of this size, as segments of a spool have it.
const PIECE_BYTES: u64 = 16 << 20;

/// Times of syncs.
#[derive(Clone, Debug)]
pub struct Syncs {
    /// What was written before each.
    pub group_bytes: usize,
    /// The milliseconds of each fdatasync.
    pub sync_millis: Vec<f64>,
    /// The milliseconds of each write and its fdatasync.
    pub write_millis: Vec<f64>,
}

impl Syncs {
    /// Writes and syncs `count` groups, one every `pause` where the disk keeps up.
    ///
    /// # Errors
    ///
    /// Whatever the system reports.
    pub fn time(
        path: &Path,
        group_bytes: usize,
        count: usize,
        pause: Duration,
    ) -> io::Result<Syncs> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let group = vec![b'x'; group_bytes];
        let mut syncs = Syncs { group_bytes, sync_millis: Vec::new(), write_millis: Vec::new() };
        let (start, mut at, mut reserved) = (Instant::now(), 0_u64, 0_u64);
        for number in 0..count {
            if at + group_bytes as u64 > reserved {
                reserve(&file, reserved, PIECE_BYTES.max(group_bytes as u64))?;
                reserved += PIECE_BYTES.max(group_bytes as u64);
                file.sync_all()?;
            }
            let due = start + pause * u32::try_from(number).unwrap_or(u32::MAX);
            wait_until(due);
            let begin = Instant::now();
            file.write_all_at(&group, at)?;
            let written = Instant::now();
            file.sync_data()?;
            syncs.sync_millis.push(written.elapsed().as_secs_f64() * 1e3);
            syncs.write_millis.push(begin.elapsed().as_secs_f64() * 1e3);
            at += group_bytes as u64;
        }
        Ok(syncs)
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library does not reserve space")]
fn reserve(file: &File, at: u64, size: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open during the call, which takes no pointer.
    let code =
        unsafe { libc::fallocate(file.as_raw_fd(), 0, at as libc::off_t, size as libc::off_t) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &File, at: u64, size: u64) -> io::Result<()> {
    file.set_len(at + size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_written_and_timed() {
        let name = format!("whered-bench-syncs-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let syncs = Syncs::time(&path, 5_000, 7, Duration::ZERO).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == b'x').count(), 35_000);
        assert_eq!((syncs.sync_millis.len(), syncs.write_millis.len()), (7, 7));
        assert!(syncs.sync_millis.iter().zip(&syncs.write_millis).all(|(sync, all)| sync <= all));
    }
}
