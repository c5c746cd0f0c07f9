//! Engines over the same addresses in short rounds, one after the other, with one sum for all.
//!
//! Not for making engines. Each engine looks a quarter of its part up untimed before the clock
//! starts, so that it finds the caches as it would leave them itself; who comes first changes from
//! round to round; a sum that differs ends the run.

use whered_bench::measure::{median, median_of_ratios, thread_cpu_nanoseconds};

/// Something that answers addresses of one kind.
pub(crate) struct Engine<A> {
    /// What it is called in tables.
    pub(crate) name: String,
    /// How many bytes its tables take.
    pub(crate) bytes: usize,
    run: Box<dyn Fn(&[A]) -> u64>,
}

impl<A> Engine<A> {
    pub(crate) fn new(name: &str, bytes: usize, run: impl Fn(&[A]) -> u64 + 'static) -> Engine<A> {
        Engine { name: name.to_owned(), bytes, run: Box::new(run) }
    }
}

/// What one engine took.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// Nanoseconds a lookup, one a round.
    pub(crate) nanoseconds: Vec<f64>,
}

impl Row {
    /// Millions of lookups a second.
    pub(crate) fn millions(&self) -> f64 {
        1000.0 / median(&self.nanoseconds)
    }
}

/// All engines over one set and one list of addresses.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) entries: usize,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// How many times as long the fastest engine whose name begins so takes as ours.
    pub(crate) fn ratio(&self, ours: &str, rival: &str) -> Option<(f64, String)> {
        let ours = self.row(ours)?;
        let rivals = self.rows.iter().filter(|row| row.name.starts_with(rival));
        rivals
            .map(|row| (median_of_ratios(&ours.nanoseconds, &row.nanoseconds), row.name.clone()))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Runs all engines over the addresses in `rounds` parts.
pub(crate) fn run<A>(
    engines: &[Engine<A>],
    addresses: &[A],
    rounds: usize,
) -> Result<Vec<Row>, String> {
    let part = addresses.len() / rounds;
    let mut rows: Vec<Row> = engines
        .iter()
        .map(|engine| Row {
            name: engine.name.clone(),
            bytes: engine.bytes,
            nanoseconds: Vec::new(),
        })
        .collect();
    for (round, part) in addresses.chunks_exact(part).enumerate() {
        let mut sums = vec![0; engines.len()];
        for turn in 0..engines.len() {
            let place = (turn + round) % engines.len();
            let engine = &engines[place];
            std::hint::black_box((engine.run)(&part[..part.len() / 4]));
            let before = thread_cpu_nanoseconds().map_err(|error| error.to_string())?;
            sums[place] = (engine.run)(part);
            let after = thread_cpu_nanoseconds().map_err(|error| error.to_string())?;
            rows[place].nanoseconds.push((after - before) as f64 / part.len() as f64);
        }
        if let Some(place) = sums.iter().position(|sum| *sum != sums[0]) {
            let (first, other) = (&engines[0].name, &engines[place].name);
            return Err(format!("{other} answers otherwise than {first} in round {round}"));
        }
    }
    Ok(rows)
}
