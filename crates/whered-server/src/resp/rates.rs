//! How much the listener does a second: commands, bytes in, bytes out.
//!
//! For: the `instantaneous_` fields of `INFO`. A worker takes a sample once a second; a rate is
//! that between the last two samples.
//! At the same time: any thread may ask.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use whered_engine::sync;

use super::counters::RespCounters;

/// What was done a second.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rates {
    pub(crate) commands: u64,
    pub(crate) input_kib: f64,
    pub(crate) output_kib: f64,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    commands: u64,
    input_bytes: u64,
    output_bytes: u64,
}

/// The last sample, and the rates before it.
#[derive(Default, Debug)]
pub(crate) struct SampledRates(Mutex<(Option<Sample>, Rates)>);

impl SampledRates {
    /// Takes a sample.
    pub(crate) fn sample(&self, counters: &RespCounters) {
        let sample = Sample {
            at: Instant::now(),
            commands: counters.commands.load(Ordering::Relaxed),
            input_bytes: counters.input_bytes.load(Ordering::Relaxed),
            output_bytes: counters.output_bytes.load(Ordering::Relaxed),
        };
        let mut state = sync::lock(&self.0);
        if let Some(last) = state.0 {
            let seconds = sample.at.duration_since(last.at).as_secs_f64().max(1e-3);
            // `CONFIG RESETSTAT` may have set the counters back.
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            state.1 = Rates {
                commands: rate(sample.commands, last.commands) as u64,
                input_kib: rate(sample.input_bytes, last.input_bytes) / 1024.0,
                output_kib: rate(sample.output_bytes, last.output_bytes) / 1024.0,
            };
        }
        state.0 = Some(sample);
    }

    /// The rates of the last second or so.
    pub(crate) fn now(&self) -> Rates {
        sync::lock(&self.0).1
    }
}
