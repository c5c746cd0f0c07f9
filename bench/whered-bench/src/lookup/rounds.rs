//! Engines side by side: short rounds of one list, each engine in turn.
//!
//! Not for what an engine does. The list is cut into rounds; in each round every engine looks the
//! same addresses up, one engine after the other, and a different one begins each time. So
//! whatever disturbs the machine for longer than a round disturbs all of them.
//!
//! ```text
//! round 0: A B C    round 1: B C A    round 2: C A B   ...
//! A:       lead-in (not timed) | timed
//! ```
//!
//! Before its part an engine looks other addresses of the list up, untimed, so that the caches hold
//! what they hold when it runs alone: rivals that read one mapped file warm it for each other, and
//! an index would begin each round cold.
//!
//! Time is that of the thread's own processor clock. All engines' checksums of a round must be
//! equal, or the run fails. In the first tenth of the rounds, engines that were asked for fields
//! are asked once more, without the clock, and every octet of the texts counts.

use super::addresses::AddressList;
use super::engine::{Engine, Task, Wants};
use crate::measure::thread_cpu_nanoseconds;
use std::ops::Range;

/// How a list is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// The most addresses of a round.
    pub round_size: usize,
    /// How many other addresses an engine looks up before each round; slow engines do not.
    pub lead_in: usize,
    /// The round that a slow engine stops before: one tenth of all, but not none.
    pub slow_rounds: usize,
    count: usize,
}

impl Rounds {
    /// For a list of addresses; the lead-in is as long as a round.
    #[must_use]
    pub fn new(address_count: usize, round_size: usize) -> Rounds {
        let round_size = round_size.clamp(1, address_count.max(1));
        let count = address_count.div_ceil(round_size);
        Rounds { round_size, lead_in: round_size, slow_rounds: count.div_ceil(10), count }
    }

    /// The addresses before a part; before the first ones, the last ones.
    fn before(self, part: &Range<usize>, address_count: usize) -> Range<usize> {
        let end = if part.start == 0 { address_count } else { part.start };
        end.saturating_sub(self.lead_in)..end
    }

    /// Each round's part of the list.
    pub fn parts(self, address_count: usize) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |round| {
            let start = round * self.round_size;
            start..(start + self.round_size).min(address_count)
        })
    }
}

/// What one engine did with one task and list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Nanoseconds of processor time for an address, a value for each round.
    pub nanoseconds: Vec<f64>,
    /// The checksum of each round.
    pub checksums: Vec<u64>,
    /// How many addresses were looked up.
    pub addresses: usize,
}

impl Measured {
    /// The sum over all rounds.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.checksums.iter().fold(0, |sum, part| sum.wrapping_add(*part))
    }
}

/// An engine and what it is asked to do: a rival without batches does single calls beside batches.
#[derive(Clone, Copy)]
pub struct Contender<'a> {
    /// Who.
    pub engine: &'a dyn Engine,
    /// What.
    pub task: Task,
}

/// Runs all contenders over one list; a result for each, in their order.
///
/// # Errors
///
/// An engine fails, or two engines' answers differ; one line that names them.
pub fn interleaved(
    contenders: &[Contender<'_>],
    list: &AddressList,
    rounds: Rounds,
) -> Result<Vec<Measured>, String> {
    let mut measured = vec![Measured::default(); contenders.len()];
    for (round, part) in rounds.parts(list.len()).enumerate() {
        let mut expected = Expected::new(list, part.clone());
        let mut expected_octets = Expected::new(list, part.clone());
        for turn in 0..contenders.len() {
            let place = (round + turn) % contenders.len();
            let contender = &contenders[place];
            if contender.engine.is_slow() && round >= rounds.slow_rounds {
                continue;
            }
            let Contender { engine, task } = *contender;
            if !engine.is_slow() {
                contender.run(list, rounds.before(&part, list.len()))?;
            }
            let (nanoseconds, checksum) = contender.timed(list, part.clone())?;
            let results = &mut measured[place];
            results.nanoseconds.push(nanoseconds / part.len() as f64);
            results.checksums.push(checksum);
            results.addresses += part.len();
            expected.compare(checksum, contender)?;
            let octets = Contender { engine, task: Task { wants: Wants::Octets, ..task } };
            if round < rounds.slow_rounds && task.has_fields() && engine.can(octets.task) {
                expected_octets.compare(octets.run(list, part.clone())?, &octets)?;
            }
        }
    }
    Ok(measured)
}

/// What the first contender of a round says, and all others have to.
struct Expected<'a> {
    list: &'a AddressList,
    part: Range<usize>,
    first: Option<(u64, String)>,
}

impl<'a> Expected<'a> {
    fn new(list: &'a AddressList, part: Range<usize>) -> Expected<'a> {
        Expected { list, part, first: None }
    }

    fn compare(&mut self, sum: u64, contender: &Contender<'_>) -> Result<(), String> {
        let name = || format!("{} ({})", contender.engine.name(), contender.task);
        let (first, first_name) = self.first.get_or_insert_with(|| (sum, name()));
        if *first == sum {
            return Ok(());
        }
        Err(format!(
            "{}, addresses {:?}: {} says {sum:016x}, {first_name} says {first:016x}",
            self.list.name,
            self.part,
            name(),
        ))
    }
}

impl Contender<'_> {
    /// The sum over part of a list; an error names list and contender.
    fn run(&self, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        self.engine.run(self.task, list, part).map_err(|error| self.named(list, &error))
    }

    /// An error with whose it is.
    fn named(&self, list: &AddressList, error: &str) -> String {
        format!("{} {}, {}: {error}", list.name, self.task, self.engine.name())
    }

    /// Nanoseconds of processor time for the whole part, and its sum.
    fn timed(&self, list: &AddressList, part: Range<usize>) -> Result<(f64, u64), String> {
        let clock =
            || thread_cpu_nanoseconds().map_err(|error| format!("processor clock: {error}"));
        let before = clock()?;
        let sum = self.run(list, part.clone())?;
        let nanoseconds = (clock()? - before) as f64;
        let settled = self.engine.settle(self.task, list, part, sum);
        Ok((nanoseconds, settled.map_err(|error| self.named(list, &error))?))
    }
}

/// Runs one engine in several threads at once, each with rounds of its own.
///
/// Gives what they did together, and how many addresses a second of wall time all of them looked
/// up.
///
/// # Errors
///
/// The engine fails.
pub fn threaded(
    contender: &Contender<'_>,
    list: &AddressList,
    rounds: Rounds,
    threads: usize,
) -> Result<(Measured, f64), String> {
    let engine = contender.engine;
    let began = std::time::Instant::now();
    let one_thread = |thread: usize| -> Result<Measured, String> {
        let mut own = Measured::default();
        let upto = if engine.is_slow() { rounds.slow_rounds } else { usize::MAX };
        for part in rounds.parts(list.len()).take(upto).skip(thread).step_by(threads) {
            let (nanoseconds, checksum) = contender.timed(list, part.clone())?;
            own.nanoseconds.push(nanoseconds / part.len() as f64);
            own.checksums.push(checksum);
            own.addresses += part.len();
        }
        Ok(own)
    };
    let results: Vec<Result<Measured, String>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || one_thread(thread))).collect();
        let ended = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(format!("{} panicked", engine.name())))
        });
        ended.collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut together = Measured::default();
    for result in results {
        let own = result?;
        together.nanoseconds.extend(own.nanoseconds);
        together.checksums.extend(own.checksums);
        together.addresses += own.addresses;
    }
    let per_second = together.addresses as f64 / seconds;
    Ok((together, per_second))
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
