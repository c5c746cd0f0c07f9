//! A disk that stalls: `strace` holds every fdatasync of the journal's thread back for two seconds.
//!
//! For: that reads on other connections do not notice. A measurement, so its figures go into the
//! record and no limit is asserted; what is asserted is that the writes come through at last.
//!
//! ```text
//! writers  one unit at a time each, with a pause between; they wait for the disk, all of them
//! readers  a search every millisecond each; latency from sending to the whole reply
//! windows  in turn: the disk as it is, the disk stalled (for the one thread alone)
//! ```

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::disk::command;
use super::load::Load;
use super::value::Client;
use super::victim::Victim;
use super::{Ground, Tally, pause};
use crate::geo::Latencies;
use crate::measure::median;

const LANES: usize = 16;
const READERS: usize = 3;
const POINTS: usize = 20_000;
const STALL_MICROSECONDS: u64 = 2_000_000;
const WINDOW: Duration = Duration::from_secs(6);
/// Between two searches of a reader.
const READ_PAUSE: Duration = Duration::from_millis(1);

/// Stalls and measures, window after window.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    if let Err(reason) = command("strace", &["-q", "-o", "/dev/null", "true"]) {
        return ground.skip(tally, "kernel", reason);
    }
    let mut random = ground.random(0);
    let setup = ground.setup("stalled", LANES)?;
    let mut victim = setup.start()?;
    fill(&victim)?;
    let mut load = Load::new(&victim, LANES, &mut random)?;
    load.set_pause(Duration::from_millis(10));
    let (mut calm, mut stalled, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let (without, _) = window(&mut load, &mut victim, false)?;
        let (with, writes) = window(&mut load, &mut victim, true)?;
        let micros = [without, with].map(|it| it.quantile_nanoseconds(0.99) / 1000.0);
        calm.push(micros[0]);
        stalled.push(micros[1]);
        ratios.push(micros[1] / micros[0]);
        tally.faults += 1;
        tally.notes.push(format!(
            "p99 of a search: {:.0} us as it is, {:.0} us while stalled ({writes} writes then)",
            micros[0], micros[1]
        ));
        if ground.is_over(tally) {
            break;
        }
    }
    load.settle(&victim, true)?;
    tally.take(&mut load);
    tally.notes.push(format!(
        "median p99: {:.0} us as it is, {:.0} us while stalled; median ratio {:.2}",
        median(&calm),
        median(&stalled),
        median(&ratios)
    ));
    drop(victim);
    ground.clear(&setup);
    Ok(())
}

fn fill(victim: &Victim) -> Result<(), String> {
    let mut client = victim.client()?;
    for number in 0..POINTS {
        let longitude = format!("{:.4}", (number % 3571) as f64 * 0.1 - 178.0);
        let latitude = format!("{:.4}", (number % 1601) as f64 * 0.1 - 80.0);
        let request = ["GEOADD", "read", &longitude, &latitude, &number.to_string()];
        let sent = client.send(&[request.map(str::to_owned).to_vec()]);
        sent.map_err(|broken| format!("GEOADD: {broken}"))?;
        if number % 64 == 63 || number + 1 == POINTS {
            for _ in 0..=number % 64 {
                client.reply().map_err(|broken| format!("GEOADD: {broken}"))?;
            }
        }
    }
    Ok(())
}

/// Reads for a while beside the writers; gives the latencies and how many units were acknowledged.
fn window(
    load: &mut Load,
    victim: &mut Victim,
    is_stalled: bool,
) -> Result<(Latencies, u64), String> {
    let mut latencies = Latencies::default();
    let before = load.acknowledged;
    load.run(victim, 1, |victim, _| {
        let tracer = if is_stalled { Some(Tracer::attach(victim)?) } else { None };
        let (is_over, address) = (AtomicBool::new(false), victim.resp);
        std::thread::scope(|scope| {
            let is_over = &is_over;
            let start = |number| scope.spawn(move || read(address, number, is_over));
            let readers: Vec<_> = (0..READERS).map(start).collect();
            pause(WINDOW);
            is_over.store(true, Ordering::Relaxed);
            for reader in readers {
                latencies.merge(&reader.join().map_err(|_| "a reader panicked".to_owned())??);
            }
            Ok::<(), String>(())
        })?;
        drop(tracer);
        Ok(())
    })?;
    Ok((latencies, load.acknowledged - before))
}

fn read(address: SocketAddr, number: usize, is_over: &AtomicBool) -> Result<Latencies, String> {
    let mut client = Client::connect(address)?;
    let mut latencies = Latencies::default();
    let mut step = number;
    while !is_over.load(Ordering::Relaxed) {
        let longitude = ((step * 7 % 350) as i64 - 175).to_string();
        let began = Instant::now();
        let reply = client.ask(&[
            "GEOSEARCH",
            "read",
            "FROMLONLAT",
            &longitude,
            "20",
            "BYRADIUS",
            "300",
            "km",
            "COUNT",
            "10",
            "ASC",
        ])?;
        latencies.add(began.elapsed().as_nanos() as u64);
        if reply.elements().is_none_or(|found| found.len() > 10) {
            return Err(format!("GEOSEARCH gives {reply:?}"));
        }
        step += READERS;
        pause(READ_PAUSE);
    }
    Ok(latencies)
}

/// A tracer of the journal's thread; ends with its value, and the thread goes on.
struct Tracer(Child);

impl Tracer {
    fn attach(victim: &Victim) -> Result<Tracer, String> {
        let thread = victim.journal_thread()?.to_string();
        let inject = format!("--inject=fdatasync:delay_enter={STALL_MICROSECONDS}");
        let child = Command::new("strace")
            .args(["-q", "-o", "/dev/null", "--trace=fdatasync", &inject, "-p", &thread])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let tracer = Tracer(child.map_err(|error| format!("strace: {error}"))?);
        let status = format!("/proc/{}/task/{thread}/status", victim.process.pid());
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let by = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
            if by.is_some_and(|by| by.trim() != "0") {
                return Ok(tracer);
            }
            if began.elapsed() > Duration::from_secs(5) {
                return Err("strace does not come to trace the journal's thread".to_owned());
            }
            pause(Duration::from_millis(1));
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The kernel lets the thread go when its tracer ends, however that happens.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
