//! Zones that other servers gave, put into service: many at once, signed where that is asked.
//!
//! Not for: transferring zones (the server), members of catalogs (`zones`).
//!
//! ```text
//! ArrivedZone ─ prepare: signed, without the lock ─┐
//! ArrivedZone ─────────────────────────────────────┴─> serve_zones ─> one generation of all
//!                          a zone that does not go with the pools ─> halves, until it is alone
//! ```
//!
//! Invariants: a zone is signed as the configuration says at the moment when it begins to serve.
//! At the same time: as `reload`. Cost: one index of all zones for each call, and twice the
//! logarithm of the count for each zone that is refused.

use std::sync::Arc;

use whered_dns::Zone;

use super::{Control, Engine, ZoneReport};
use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::ZoneSource;
use crate::generation::signing::{Signer, keep_serial, served_secondary};

/// A zone that other servers gave, or that there is nothing to serve of it.
#[derive(Clone, Debug)]
pub struct ArrivedZone {
    source: ZoneSource,
    given: Arc<Zone>,
    /// What is served of it, and the number of reloads before it was made.
    prepared: Option<(Arc<Zone>, u64)>,
}

/// A zone that is to be served now.
struct ReadyZone {
    /// Its index among the zones that arrived, and in the configuration.
    arrived: usize,
    index: usize,
    given: Arc<Zone>,
    served: Arc<Zone>,
}

impl ArrivedZone {
    /// A zone that has arrived for a secondary zone of this name and catalog.
    pub fn new(source: &ZoneSource, given: &Arc<Zone>) -> ArrivedZone {
        ArrivedZone { source: source.clone(), given: Arc::clone(given), prepared: None }
    }
}

impl Engine {
    /// Signs a zone if that is asked, which takes long for a large one and needs no lock.
    ///
    /// # Errors
    /// No such secondary zone (any more); keys that are missing or wrong; a zone that is signed
    /// already.
    pub fn prepare_zone(&self, arrived: &mut ArrivedZone) -> Result<(), EngineError> {
        let before = self.generation();
        let (source, signer, reloads) = {
            let control = self.control();
            let (_, source) = own_source(&control, &before, arrived)?;
            let signs = source.sign.is_some() && !arrived.given.is_unavailable();
            let now_seconds = self.now_millis() / 1000;
            let signer = signs.then(|| Signer::new(&control.setup, Some(&before), now_seconds));
            (source.clone(), signer, control.reloads)
        };
        let served = match signer {
            None => Arc::clone(&arrived.given),
            Some(signer) => served_secondary(&source, &arrived.given, &signer)?,
        };
        (arrived.source, arrived.prepared) = (source, Some((served, reloads)));
        Ok(())
    }

    /// Serves what other servers gave for a secondary zone, or that there is nothing to serve.
    ///
    /// # Errors
    /// As [`Engine::prepare_zone`]; the zone does not go with the pools.
    pub fn serve_zone(
        &self,
        source: &ZoneSource,
        zone: &Arc<Zone>,
    ) -> Result<ZoneReport, EngineError> {
        let served = self.serve_zones(vec![ArrivedZone::new(source, zone)]).pop();
        served.unwrap_or_else(|| Err(missing(source)))
    }

    /// As [`Engine::serve_zone`], for many zones of different names, which begin to serve together.
    /// Gives the outcome of each.
    pub fn serve_zones(
        &self,
        mut arrived: Vec<ArrivedZone>,
    ) -> Vec<Result<ZoneReport, EngineError>> {
        let mut outcomes: Vec<_> = arrived.iter().map(|_| None).collect();
        loop {
            for (zone, outcome) in arrived.iter_mut().zip(&mut outcomes) {
                if outcome.is_none() && zone.prepared.is_none() {
                    *outcome = self.prepare_zone(zone).err().map(Err);
                }
            }
            let control = self.control();
            // A reload may have changed how zones are signed meanwhile.
            let mut is_stale = false;
            for zone in &mut arrived {
                if zone.prepared.as_ref().is_some_and(|(_, reloads)| *reloads != control.reloads) {
                    (zone.prepared, is_stale) = (None, true);
                }
            }
            if !is_stale {
                self.serve_prepared(&control, &arrived, &mut outcomes);
                break;
            }
        }
        let outcomes = outcomes.into_iter().zip(&arrived);
        outcomes.map(|(found, zone)| found.unwrap_or_else(|| Err(missing(&zone.source)))).collect()
    }

    fn serve_prepared(
        &self,
        control: &Control,
        arrived: &[ArrivedZone],
        outcomes: &mut [Option<Result<ZoneReport, EngineError>>],
    ) {
        let current = self.generation();
        let mut ready = Vec::with_capacity(arrived.len());
        for (number, (zone, outcome)) in arrived.iter().zip(outcomes.iter_mut()).enumerate() {
            let Some((served, _)) = zone.prepared.as_ref().filter(|_| outcome.is_none()) else {
                continue;
            };
            let kept = own_source(control, &current, zone)
                .and_then(|(index, source)| keep_serial(source, served).map(|()| index));
            match kept {
                Ok(index) => {
                    let (given, served) = (Arc::clone(&zone.given), Arc::clone(served));
                    ready.push(ReadyZone { arrived: number, index, given, served });
                }
                Err(error) => *outcome = Some(Err(error)),
            }
        }
        self.serve_ready(&ready, outcomes);
    }

    /// Serves zones together; those that do not go with the pools are found by halves. The caller
    /// holds `control`.
    fn serve_ready(
        &self,
        ready: &[ReadyZone],
        outcomes: &mut [Option<Result<ZoneReport, EngineError>>],
    ) {
        let zones = ready.iter().map(|zone| (zone.index, &zone.given, &zone.served));
        let next = match ready {
            [] => return,
            _ => self.generation().with_secondary_zones(zones),
        };
        match (next, ready) {
            (Ok(next), _) => {
                let number = next.number();
                self.serve(next);
                for zone in ready {
                    let report = ZoneReport::new(&zone.served, number);
                    outcomes[zone.arrived] = Some(Ok(report));
                }
            }
            (Err(error), [zone]) => outcomes[zone.arrived] = Some(Err(error)),
            (Err(_), several) => {
                let (front, back) = several.split_at(several.len() / 2);
                self.serve_ready(front, outcomes);
                self.serve_ready(back, outcomes);
            }
        }
    }
}

/// The secondary zone of a name and catalog, with its index.
fn own_source<'c>(
    control: &'c Control,
    current: &Generation,
    arrived: &ArrivedZone,
) -> Result<(usize, &'c ZoneSource), EngineError> {
    let index = current.base_zone(arrived.given.origin()).map(|(index, _)| index);
    let found = index.and_then(|index| Some((index, control.setup.zones.get(index)?)));
    let own = found.filter(|(_, own)| {
        own.is_secondary && own.name == arrived.source.name && own.member == arrived.source.member
    });
    own.ok_or_else(|| missing(&arrived.source))
}

fn missing(source: &ZoneSource) -> EngineError {
    EngineError::new(format!("no secondary zone '{}'", source.name))
}
