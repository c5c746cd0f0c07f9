//! `kill -9` at random moments under load: a process that ends between any two instructions.
//!
//! Not for power cuts (`power.rs`): what the process has handed to the system stays.
//!
//! A data directory serves some rounds, then there is a new one with another size of segments and
//! another policy. With `everysec` and `off` the last acknowledged writes may be gone; order and
//! wholeness hold all the same. Some starts are killed before they are ready.

use std::time::Duration;

use super::load::{Load, ask_for_snapshot};
use super::{Ground, Tally, pause};
use crate::Random;

const LANES: usize = 6;
const ROUNDS_OF_A_DIRECTORY: u64 = 12;

/// Kills and looks, until the ground says that it is enough.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    let mut directory = 0;
    while !ground.is_over(tally) {
        let mut random = ground.random(directory);
        let mut setup = ground.setup(&format!("kill-{directory}"), LANES)?;
        setup.sync = *random.pick(&["always", "always", "always", "everysec", "off"]);
        setup.segment_size_bytes = 1 << (15 + random.below(8));
        let result = rounds(ground, &setup, &mut random, tally);
        result.map_err(|what| format!("directory {directory}, {}: {what}", setup.sync))?;
        ground.clear(&setup);
        directory += 1;
    }
    Ok(())
}

fn rounds(
    ground: &Ground<'_>,
    setup: &super::victim::Setup,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut victim = setup.start()?;
    let mut load = Load::new(&victim, LANES, random)?;
    let must_keep = setup.sync == "always";
    for round in 0..ROUNDS_OF_A_DIRECTORY {
        let depth = 1 + random.below(24) as usize;
        let units = 50 + random.below(2000);
        let wait = Duration::from_micros(random.below(5000));
        let snapshots = random.below(3);
        let fault = |what: String| format!("round {round}: {what}");
        let killed = load.run(&mut victim, depth, |victim, watch| {
            let mut client = victim.client()?;
            for step in 1..=snapshots {
                watch.until(units * step / (snapshots + 1), |_| false)?;
                tally.snapshots += u64::from(ask_for_snapshot(&mut client));
            }
            watch.until(units, |_| false)?;
            pause(wait);
            victim.process.kill();
            Ok(())
        });
        killed.map_err(fault)?;
        while random.chance(0.25) {
            let mut early = setup.begin()?;
            pause(Duration::from_micros(random.below(30_000)));
            early.kill();
            tally.early_kills += 1;
        }
        victim = setup.start().map_err(fault)?;
        load.settle(&victim, must_keep).map_err(fault)?;
        tally.faults += 1;
        tally.take(&mut load);
        if ground.is_over(tally) {
            break;
        }
    }
    Ok(())
}
