//! A full disk: a small tmpfs on which another file takes the room, and gives it back.
//!
//! Refused writes must not be applied, not even in memory; reads go on; with room, writes go on.
//! One unit at a time on each connection: what comes behind a refused one would depend on it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::disk::SmallDisk;
use super::load::{Load, ask_for_snapshot};
use super::victim::Victim;
use super::{Ground, Tally, pause};

const LANES: usize = 4;
const DISK_BYTES: u64 = 16 << 20;
const ROUNDS_OF_A_DISK: u64 = 6;
/// How long writes may be refused when there is room again.
const ROOM_LIMIT: Duration = Duration::from_secs(20);

/// Fills the disk and looks, until the ground says that it is enough.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    let mut number = 0;
    while !ground.is_over(tally) {
        let mut random = ground.random(number);
        let mut setup = ground.setup(&format!("full-{number}"), LANES)?;
        let disk = match SmallDisk::new(&setup.folder, DISK_BYTES) {
            Ok(disk) => disk,
            Err(reason) => return ground.skip(tally, "root", reason),
        };
        setup.data = disk.mount.join("data");
        setup.segment_size_bytes = 1 << (14 + random.below(5));
        let mut victim = setup.start()?;
        let mut load = Load::new(&victim, LANES, &mut random)?;
        for round in 0..ROUNDS_OF_A_DISK {
            let fault = |what: String| format!("disk {number}, round {round}: {what}");
            let left_bytes = random.below(512 << 10);
            until_full(&mut load, &mut victim, &disk, left_bytes).map_err(fault)?;
            // Reads go on, and nothing of what was refused is there.
            load.settle(&victim, true).map_err(fault)?;
            if random.chance(0.5) {
                victim.process.kill();
                victim = setup.start().map_err(fault)?;
                load.settle(&victim, true).map_err(fault)?;
            }
            disk.free().map_err(fault)?;
            if random.chance(0.3) {
                tally.snapshots += u64::from(ask_for_snapshot(&mut victim.client()?));
            }
            until_written(&mut load, &mut victim).map_err(fault)?;
            load.settle(&victim, true).map_err(fault)?;
            tally.faults += 1;
            tally.take(&mut load);
            if ground.is_over(tally) {
                break;
            }
        }
        drop(victim);
        drop(disk);
        ground.clear(&setup);
        number += 1;
    }
    Ok(())
}

/// Writes until every lane was refused.
fn until_full(
    load: &mut Load,
    victim: &mut Victim,
    disk: &SmallDisk,
    left_bytes: u64,
) -> Result<(), String> {
    let ran = load.run(victim, 1, |_, watch| {
        watch.until(40, |progress| progress.refused.load(Ordering::Relaxed) > 0)?;
        disk.fill(left_bytes)?;
        let all_refused = |refused: u64| refused >= LANES as u64;
        watch.until(u64::MAX, |progress| all_refused(progress.refused.load(Ordering::Relaxed)))
    });
    load.go_on();
    ran
}

/// Writes until there were enough acknowledgements; the journal may need a moment to see the room.
fn until_written(load: &mut Load, victim: &mut Victim) -> Result<(), String> {
    let began = Instant::now();
    let before = load.acknowledged;
    while load.acknowledged < before + 100 {
        if began.elapsed() > ROOM_LIMIT {
            return Err("writes are still refused though there is room".to_owned());
        }
        let ran = load.run(victim, 1, |_, watch| {
            watch.until(100, |progress| progress.refused.load(Ordering::Relaxed) > 0)
        });
        load.go_on();
        ran?;
        pause(Duration::from_millis(20));
    }
    Ok(())
}
