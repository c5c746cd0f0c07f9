//! Zones that have arrived, put into service together: each new generation makes the index of all
//! zones anew, so that thousands of first transfers are to share it.
//!
//! Not for: transferring zones (`secondary`), what is served of them (the engine).
//!
//! ```text
//! task of a zone ─ signs it, if asked ─> [ waiting ] ─ all that wait ─> Engine::serve_zones
//!                                            ^             one at a time, while some wait
//!                                            └── those that arrive meanwhile
//! ```
//!
//! Cost: one generation for all zones that have arrived while the last one was made.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use whered_dns::Zone;
use whered_engine::{ArrivedZone, ZoneReport, ZoneSource, sync};

use super::Transfers;
use super::secondary::blocking;

/// Zones that wait, and whether somebody serves them.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<ArrivalQueue>);

#[derive(Default)]
struct ArrivalQueue {
    zones: Vec<(ArrivedZone, Outcome)>,
    is_served: bool,
}

type Outcome = oneshot::Sender<Result<ZoneReport, String>>;

impl Arrivals {
    /// Adds a zone. Whether the caller is to see that zones are served.
    fn add(&self, zone: ArrivedZone, outcome: Outcome) -> bool {
        let mut waiting = sync::lock(&self.0);
        waiting.zones.push((zone, outcome));
        !std::mem::replace(&mut waiting.is_served, true)
    }

    /// All that wait; when there is nothing, the next one that comes is to see to it.
    fn take(&self) -> Option<Vec<(ArrivedZone, Outcome)>> {
        let mut waiting = sync::lock(&self.0);
        let zones = std::mem::take(&mut waiting.zones);
        waiting.is_served = !zones.is_empty();
        waiting.is_served.then_some(zones)
    }
}

impl Transfers {
    /// Serves a zone with the others that arrive at the moment. One that is signed here is signed
    /// first, on another thread.
    ///
    /// # Errors
    /// One line: as [`whered_engine::Engine::serve_zone`].
    pub(super) async fn serve(
        self: &Arc<Transfers>,
        source: &ZoneSource,
        zone: &Arc<Zone>,
    ) -> Result<ZoneReport, String> {
        let mut arrived = ArrivedZone::new(source, zone);
        if source.sign.is_some() && !zone.is_unavailable() {
            let engine = Arc::clone(&self.engine);
            let prepared = blocking(move || engine.prepare_zone(&mut arrived).map(|()| arrived));
            let prepared = prepared.await.map_err(|error| error.to_string())?;
            arrived = prepared.map_err(|error| error.to_string())?;
        }
        let (outcome, served) = oneshot::channel();
        if self.arrivals.add(arrived, outcome) {
            let transfers = Arc::clone(self);
            tokio::task::spawn_blocking(move || ArrivalsInService(&transfers).serve());
        }
        served.await.unwrap_or_else(|_| Err("a fault inside the server".to_owned()))
    }
}

/// Serves what waits. After a panic those that wait are told, and the next one begins anew.
struct ArrivalsInService<'t>(&'t Transfers);

impl ArrivalsInService<'_> {
    fn serve(self) {
        while let Some(waiting) = self.0.arrivals.take() {
            let (zones, outcomes): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            let served = self.0.engine.serve_zones(zones);
            for (served, outcome) in served.into_iter().zip(outcomes) {
                // A task that has ended does not ask any more.
                let _ = outcome.send(served.map_err(|error| error.to_string()));
            }
        }
    }
}

impl Drop for ArrivalsInService<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *sync::lock(&self.0.arrivals.0) = ArrivalQueue::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_arrive_while_others_are_served_are_served_together() {
        let arrivals = Arrivals::default();
        let zone = |name: &str| {
            let origin = name.parse().expect("a name");
            ArrivedZone::new(&ZoneSource::new(name, ""), &Arc::new(Zone::unavailable(&origin)))
        };
        let add = |name: &str| arrivals.add(zone(name), oneshot::channel().0);
        assert!(add("a"), "the first one begins");
        assert_eq!(arrivals.take().map(|zones| zones.len()), Some(1));
        assert!(!add("b") && !add("c"), "somebody serves");
        assert_eq!(arrivals.take().map(|zones| zones.len()), Some(2));
        assert!(arrivals.take().is_none());
        assert!(add("d"), "the next one begins");
    }
}
