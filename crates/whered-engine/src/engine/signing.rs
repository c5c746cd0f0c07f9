//! Zones that are signed here, as time goes on: signed again before signatures end, rollovers of
//! their keys led from step to step.
//!
//! For: a thread that calls now and then. Not for: signatures (`whered-dns`), the operator's part
//! of a rollover, which `whered zone key` writes into the file of the states.
//!
//! At the same time: one thread calls; a zone is swapped in as at every reload. Cost: a small file
//! for each such zone and call.

use std::collections::HashMap;
use std::sync::Arc;

use whered_dns::{KeyStates, Name, RESIGN_BEFORE_SECONDS, Rollover, Zone};

use super::Engine;
use crate::error::EngineError;
use crate::generation::setup::ZoneSource;
use crate::generation::signing::key_directory;

/// What is due for a zone that is signed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningTask {
    /// Its first signatures end in a few days, or its keys are used in another way: it is to be
    /// loaded anew.
    Sign {
        /// The zone's name.
        zone: String,
    },
    /// A rollover of its keys has gone on.
    Rollover {
        /// The zone's name.
        zone: String,
        /// The step that it is at; none when it has ended.
        step: Option<&'static str>,
    },
    /// Its keys cannot be looked after.
    Failed {
        /// The zone's name.
        zone: String,
        /// One line.
        error: String,
    },
}

impl Engine {
    /// Leads rollovers on and says which zones are to be signed again.
    pub fn signing_tasks(&self) -> Vec<SigningTask> {
        self.signing_tasks_at(self.now_millis() / 1000)
    }

    /// As [`Engine::signing_tasks`], at a time in seconds since 1970.
    pub fn signing_tasks_at(&self, now_seconds: u64) -> Vec<SigningTask> {
        let mut tasks = Vec::new();
        let signed: Vec<ZoneSource> = {
            let control = self.control();
            control.setup.zones.iter().filter(|zone| zone.sign.is_some()).cloned().collect()
        };
        if signed.is_empty() {
            return tasks;
        }
        let generation = self.generation();
        let zones: HashMap<&Name, &Arc<Zone>> =
            generation.zones().zones().map(|zone| (zone.origin(), zone)).collect();
        for source in signed {
            let name = source.name.clone();
            let origin = source.name.parse::<Name>().ok();
            let Some(zone) = origin.and_then(|origin| zones.get(&origin)) else { continue };
            // Nothing of it is served, so that nothing of it can end or go on.
            if zone.is_unavailable() {
                continue;
            }
            match self.look_after(&source, zone, now_seconds, &mut tasks) {
                Ok(()) => {}
                Err(error) => {
                    tasks.push(SigningTask::Failed { zone: name, error: error.to_string() });
                }
            }
        }
        tasks
    }

    fn look_after(
        &self,
        source: &ZoneSource,
        zone: &Arc<Zone>,
        now_seconds: u64,
        tasks: &mut Vec<SigningTask>,
    ) -> Result<(), EngineError> {
        let directory = key_directory(source, zone.origin().clone())?;
        let mut states = directory.read_states()?;
        let is_served = is_served(zone, &states);
        let ttl_seconds = match states.rollover {
            Some(Rollover { times: None, .. }) => self.ttl_seconds_max(zone),
            _ => 0,
        };
        if states.advance(now_seconds, is_served, ttl_seconds) {
            directory.write_states(&states)?;
            let step = states.rollover.map(|rollover| rollover.step.word());
            tasks.push(SigningTask::Rollover { zone: source.name.clone(), step });
        }
        let ends_soon = zone
            .first_expiry_seconds(now_seconds)
            .is_none_or(|end| end < now_seconds + RESIGN_BEFORE_SECONDS);
        if ends_soon || !is_served_as(zone, &states) {
            tasks.push(SigningTask::Sign { zone: source.name.clone() });
        }
        Ok(())
    }

    /// For how long caches may have something of a zone: the longest TTL of its records and of all
    /// pools.
    fn ttl_seconds_max(&self, zone: &Arc<Zone>) -> u32 {
        let of_records = zone.records().map(|record| record.ttl_seconds).max().unwrap_or_default();
        let control = self.control();
        let of_pools = control.setup.pools.iter().map(|pool| pool.ttl_seconds).max();
        let of_aliases = control.setup.aliases.iter().map(|alias| alias.ttl_seconds).max();
        of_records.max(of_pools.unwrap_or_default()).max(of_aliases.unwrap_or_default())
    }
}

/// Whether a zone is served as the step of a rollover wants it; without one there is nothing that
/// waits for it.
fn is_served(zone: &Zone, states: &KeyStates) -> bool {
    states.rollover.is_some() && is_served_as(zone, states)
}

/// Whether a zone was signed with its keys in these states.
fn is_served_as(zone: &Zone, states: &KeyStates) -> bool {
    let what = |states: &KeyStates| {
        let rollover = states.rollover.map(|rollover| {
            // Of the last two steps the zone is the same.
            (rollover.old, rollover.new, rollover.step == whered_dns::RolloverStep::Publish)
        });
        (rollover, states.retired.clone())
    };
    zone.key_states().is_some_and(|own| what(own) == what(states))
}
