//! Power cuts: ext4 on a loop device is shut down under load, and mounted again.
//!
//! Not for disks that lie about their caches: what was written to the loop device stays. What is
//! lost is what a fdatasync had not forced out, in whatever pieces the file system had begun.
//!
//! What is acknowledged after the cut is not promised: a machine without power tells nobody. Here
//! the process lives on for a moment, and ext4 (Linux 6.18) can tell it that a fdatasync succeeded
//! whose blocks stay "unwritten", when the shutdown comes between the data and that change.
//!
//! With `always` everything acknowledged before must be there. With the other policies the end may
//! be gone; the server starts all the same, and what is there is whole.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::disk::{Cut, LoopDisk};
use super::load::{Load, ask_for_snapshot};
use super::{Ground, Tally, pause};

const LANES: usize = 6;
const DISK_BYTES: u64 = 192 << 20;
const ROUNDS_OF_A_DISK: u64 = 10;

/// Cuts the power and looks, until the ground says that it is enough.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    let mut number = 0;
    while !ground.is_over(tally) {
        let mut random = ground.random(number);
        let mut setup = ground.setup(&format!("power-{number}"), LANES)?;
        let mut disk = match LoopDisk::new(&setup.folder, DISK_BYTES) {
            Ok(disk) => disk,
            Err(reason) => return ground.skip(tally, "root", reason),
        };
        setup.data = disk.mount.join("data");
        setup.sync = *random.pick(&["always", "always", "always", "everysec", "off"]);
        setup.segment_size_bytes = 1 << (15 + random.below(7));
        let must_keep = setup.sync == "always";
        let mut victim = setup.start()?;
        let mut load = Load::new(&victim, LANES, &mut random)?;
        for round in 0..ROUNDS_OF_A_DISK {
            let depth = 1 + random.below(16) as usize;
            let units = 20 + random.below(800);
            let cut = *random.pick(&[Cut::KeepsMetadata, Cut::KeepsNothing]);
            let waits = [random.below(4000), random.below(8000)].map(Duration::from_micros);
            let is_saved = random.chance(0.3);
            let fault = |what: String| {
                format!("disk {number}, {}, {cut:?}, round {round}: {what}", setup.sync)
            };
            let done = load.run(&mut victim, depth, |victim, watch| {
                if is_saved {
                    watch.until(units / 2, |_| false)?;
                    tally.snapshots += u64::from(ask_for_snapshot(&mut victim.client()?));
                }
                watch.until(units, |_| false)?;
                pause(waits[0]);
                watch.progress.is_dark.store(true, Ordering::SeqCst);
                disk.cut_power(cut)?;
                // Some clients hear of the failed sync, others only that the server has gone.
                pause(waits[1]);
                victim.process.kill();
                Ok(())
            });
            done.map_err(fault)?;
            disk.mount_again().map_err(fault)?;
            victim = setup.start().map_err(fault)?;
            load.settle(&victim, must_keep).map_err(fault)?;
            tally.faults += 1;
            tally.take(&mut load);
            if ground.is_over(tally) {
                break;
            }
        }
        // The server has files on the disk.
        drop(victim);
        drop(disk);
        ground.clear(&setup);
        number += 1;
    }
    Ok(())
}
