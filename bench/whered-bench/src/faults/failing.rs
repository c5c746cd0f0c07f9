//! A disk that fails: `strace` lets a fdatasync or a write of the journal's thread give EIO.
//!
//! The journal must be poisoned: held replies become errors, later writes are refused, INFO, the
//! metrics and `/healthz` say so, reads go on. After a restart everything acknowledged is there.

use std::sync::atomic::Ordering;

use super::disk::command;
use super::load::{Load, ask_for_snapshot};
use super::value::Value;
use super::victim::Victim;
use super::{Ground, Tally, state};

const LANES: usize = 4;
const ROUNDS_OF_A_DIRECTORY: u64 = 8;

/// Lets calls fail and looks, until the ground says that it is enough.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    if let Err(reason) = command("strace", &["-q", "-o", "/dev/null", "true"]) {
        return ground.skip(tally, "kernel", reason);
    }
    let mut number = 0;
    while !ground.is_over(tally) {
        let mut random = ground.random(number);
        let mut setup = ground.setup(&format!("failing-{number}"), LANES)?;
        setup.segment_size_bytes = 1 << (14 + random.below(6));
        let mut load: Option<Load> = None;
        for round in 0..ROUNDS_OF_A_DIRECTORY {
            let call = *random.pick(&["fdatasync", "fdatasync", "pwrite64"]);
            let when = 1 + random.below(60);
            let depth = 1 + random.below(12) as usize;
            let fault =
                |what: String| format!("directory {number}, round {round}, {call} {when}: {what}");
            // A plain server first, to see what is there; each count is of one thread's calls.
            setup.under.clear();
            let plain = setup.start().map_err(fault)?;
            match &mut load {
                None => load = Some(Load::new(&plain, LANES, &mut random).map_err(fault)?),
                Some(load) => load.settle(&plain, true).map_err(fault)?,
            }
            drop(plain);
            let Some(load) = &mut load else { continue };
            if round > 0 {
                tally.faults += 1;
                tally.take(load);
            }
            if ground.is_over(tally) {
                break;
            }
            let inject = format!("--inject={call}:error=EIO:when={when}+");
            let trace = format!("--trace={call}");
            // -D: the tracer is a grandchild, so that the process that is ended is the server.
            let words = ["strace", "-D", "-f", "-q", "-o", "/dev/null", &trace, &inject];
            setup.under = words.map(str::to_owned).to_vec();
            let mut victim = match setup.start() {
                Ok(victim) => victim,
                // The start itself writes: it may be what fails, and must not harm.
                Err(_) if call == "pwrite64" => continue,
                Err(what) => return Err(fault(what)),
            };
            let is_saved = random.chance(0.2);
            let ran = load.run(&mut victim, depth, |victim, watch| {
                if is_saved {
                    tally.snapshots += u64::from(ask_for_snapshot(&mut victim.client()?));
                }
                watch.until(u64::MAX, |progress| {
                    let count = progress.lost.load(Ordering::Relaxed);
                    count + progress.refused.load(Ordering::Relaxed) > 0
                })
            });
            ran.map_err(fault)?;
            check_poisoned(&victim).map_err(fault)?;
            victim.process.kill();
        }
        ground.clear(&setup);
        number += 1;
    }
    Ok(())
}

/// Everything that must be said of a poisoned journal, and that reads go on.
fn check_poisoned(victim: &Victim) -> Result<(), String> {
    let mut client = victim.client()?;
    match client.ask(&["SET", "refused", "text"])? {
        Value::Error(text) if text.starts_with("MISCONF ") => {}
        other => return Err(format!("SET on a poisoned journal gives {other:?}")),
    }
    let info = client.ask(&["INFO", "persistence"])?;
    let says = |text: &str| info.text().is_some_and(|info| info.contains(text));
    if !says("journal_poisoned:1") {
        return Err(format!("INFO does not say that the journal is poisoned: {info:?}"));
    }
    let health = victim.page("/healthz")?;
    if !health.starts_with("HTTP/1.1 503") || !health.contains("failed") {
        return Err(format!("/healthz says {health:?}"));
    }
    let metrics = victim.page("/metrics")?;
    if !metrics.lines().any(|line| line == "whered_journal_poisoned 1") {
        return Err("/metrics does not say that the journal is poisoned".to_owned());
    }
    for lane in 0..LANES {
        state::read(&mut client, lane)?;
    }
    Ok(())
}
