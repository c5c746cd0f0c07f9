//! What every contestant can do, and the order in which many clients take sightings.
//!
//! Not for any one of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use whered_bench::feed::{Consolidated, Sighting, Upload};

use crate::tables::Tables;

/// How many sightings of each upload were applied, in the order of the uploads.
pub(crate) type Applied = Vec<usize>;

/// A server or library in one way of use.
pub(crate) trait Contestant {
    /// What the table calls it.
    fn name(&self) -> String;

    /// Gives it empty tables and then these rows. Not timed.
    fn fill(&mut self, all: &Consolidated) -> Result<(), String>;

    /// What is to be done before the clock starts.
    fn prepare(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Applies sightings until the time is over; a batch that was begun is finished. When this
    /// returns, everything is as durable as the way promises.
    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String>;

    /// The processor time of its process so far.
    fn cpu_nanoseconds(&self) -> Result<u64, String>;

    /// Everything that it holds.
    fn check(&mut self, expected: &Consolidated) -> Result<usize, String>;

    /// Something that the table should say, such as what a part of it took.
    fn note(&self) -> String {
        String::new()
    }
}

/// Compares tables; how many rows.
pub(crate) fn compared(
    found: &Tables,
    all: &Consolidated,
    has_loot: bool,
) -> Result<usize, String> {
    found.compare(&Tables::of(all, has_loot))?;
    Ok(found.rows())
}

/// Sends whole batches of uploads until the time is over.
pub(crate) fn batches(
    uploads: &[Upload],
    batch: usize,
    time: Duration,
    mut apply: impl FnMut(&[&Sighting]) -> Result<(), String>,
) -> Result<Applied, String> {
    let start = Instant::now();
    let mut applied = Applied::new();
    for uploads in uploads.chunks(batch) {
        let sightings: Vec<&Sighting> =
            uploads.iter().flat_map(|upload| &upload.sightings).collect();
        apply(&sightings)?;
        applied.extend(uploads.iter().map(|upload| upload.sightings.len()));
        if start.elapsed() >= time {
            break;
        }
    }
    Ok(applied)
}

/// One sighting after the other by several clients, each with uploads of its own, until the time
/// is over.
pub(crate) fn one_by_one<C: Send>(
    clients: &mut [C],
    uploads: &[Upload],
    time: Duration,
    apply: impl Fn(&mut C, &Sighting) -> Result<(), String> + Sync,
) -> Result<Applied, String> {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let work = |client: &mut C| -> Result<Vec<(usize, usize)>, String> {
        let mut done = Vec::new();
        while start.elapsed() < time {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(upload) = uploads.get(number) else { break };
            let mut count = 0;
            for sighting in &upload.sightings {
                apply(client, sighting)?;
                count += 1;
                if start.elapsed() >= time {
                    break;
                }
            }
            done.push((number, count));
        }
        Ok(done)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| work(client))).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a client has panicked".to_owned()))
        });
        joined.collect()
    });
    let mut applied = vec![0; uploads.len()];
    for result in results {
        for (number, count) in result? {
            applied[number] = count;
        }
    }
    Ok(applied)
}
