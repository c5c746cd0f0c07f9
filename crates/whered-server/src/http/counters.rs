//! How many requests there were, by route and status; read by the metrics.
//!
//! Not for: anything by address or by client. One short lock a request.

use std::collections::BTreeMap;
use std::sync::Mutex;
use whered_engine::sync;

use axum::http::StatusCode;

/// Requests by route and status.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl HttpCounters {
    /// Every route and status that was seen, with its count.
    pub(crate) fn read(&self) -> Vec<(&'static str, u16, u64)> {
        let requests = sync::lock(&self.requests);
        requests.iter().map(|((route, status), count)| (*route, *status, *count)).collect()
    }

    /// Counts one answered request.
    pub(crate) fn add(&self, route: &'static str, status: StatusCode) {
        let mut requests = sync::lock(&self.requests);
        *requests.entry((route, status.as_u16())).or_default() += 1;
    }
}
