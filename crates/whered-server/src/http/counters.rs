//! How many requests there were and how long they took, by route; read by the metrics.
//!
//! Not for: anything by address or by client. Two short locks a request.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use whered_engine::store::Histogram;
use whered_engine::sync;

use axum::http::StatusCode;

/// Requests by route and status.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// In microseconds, until the answer's head is there.
    durations: Mutex<BTreeMap<&'static str, Histogram>>,
}

impl HttpCounters {
    /// Every route and status that was seen, with its count.
    pub(crate) fn read(&self) -> Vec<(&'static str, u16, u64)> {
        let requests = sync::lock(&self.requests);
        requests.iter().map(|((route, status), count)| (*route, *status, *count)).collect()
    }

    /// How long requests took in microseconds, for every route that was seen.
    pub(crate) fn durations(&self) -> Vec<(&'static str, Histogram)> {
        let durations = sync::lock(&self.durations);
        durations.iter().map(|(route, histogram)| (*route, histogram.clone())).collect()
    }

    /// Counts one answered request.
    pub(crate) fn add(&self, route: &'static str, status: StatusCode, duration: Duration) {
        *sync::lock(&self.requests).entry((route, status.as_u16())).or_default() += 1;
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        sync::lock(&self.durations).entry(route).or_default().note(micros);
    }
}
