//! Zones of the configuration: read anew, checked, and which files they come from.
//!
//! For: one zone at a time, whose mistakes leave the old one serving. Not for: reading zone files
//! (`setup`), answering (`whered-dns`).
//!
//! At the same time: as `reload`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use whered_dns::{Name, Zone};

use super::Engine;
use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::{ZoneSource, read_zone};
use crate::generation::signing::{Signer, key_directory};
use crate::sync::lock;
use crate::zones::reversed::LiveZones;

/// A zone that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// The serial number of its SOA.
    pub serial: u32,
    /// How many records it has.
    pub records: usize,
    /// The number of the generation that serves now.
    pub generation: u64,
}

impl ZoneReport {
    fn new(zone: &Zone, generation: u64) -> ZoneReport {
        ZoneReport { serial: zone.serial(), records: zone.record_count(), generation }
    }
}

impl Engine {
    /// Loads one zone anew and swaps it in; everything else is shared with the generation before.
    ///
    /// # Errors
    /// No such zone; its file cannot be read or is wrong, with the place: the zone serves on as
    /// before, and [`Engine::zone_failures`] says so until a good file is taken.
    pub fn reload_zone(&self, name: &str) -> Result<ZoneReport, EngineError> {
        let (index, source) = self.zone_source(name)?;
        refuse_secondary(&source)?;
        let mut includes = Vec::new();
        let read = self.read_zone(&source, &mut includes);
        // Of a wrong file, too: the mistake may be mended in one that it includes.
        self.zone_includes().insert(source.name.clone(), includes);
        let taken = read.and_then(|zone| {
            // Reading took its time without the lock: the configuration may have been reloaded.
            let control = self.control();
            let current = self.generation();
            if control.setup.zones.get(index) != Some(&source) {
                return Ok(ZoneReport::new(&zone, current.number()));
            }
            let next = current.with_changed_zone(index, Arc::clone(&zone))?;
            let report = ZoneReport::new(&zone, next.number());
            self.serve(next);
            Ok(report)
        });
        let mut failures = lock(&self.zone_failures);
        match &taken {
            Ok(_) => failures.remove(&source.name),
            Err(error) => failures.insert(source.name.clone(), error.to_string()),
        };
        taken
    }

    /// Serves what other servers gave for a secondary zone, or that there is nothing to serve.
    ///
    /// # Errors
    /// No such secondary zone; the zone does not go with the pools.
    pub fn serve_zone(&self, name: &str, zone: &Arc<Zone>) -> Result<ZoneReport, EngineError> {
        let control = self.control();
        let is_it = |source: &ZoneSource| source.is_secondary && source.name == name;
        let index = control.setup.zones.iter().position(is_it);
        let index = index.ok_or_else(|| EngineError::new(format!("no secondary zone '{name}'")))?;
        let next = self.generation().with_changed_zone(index, Arc::clone(zone))?;
        let report = ZoneReport::new(zone, next.number());
        self.serve(next);
        Ok(report)
    }

    /// Reads a zone's file without serving it.
    ///
    /// # Errors
    /// As [`Engine::reload_zone`].
    pub fn check_zone(&self, name: &str) -> Result<ZoneReport, EngineError> {
        let (_, source) = self.zone_source(name)?;
        refuse_secondary(&source)?;
        let zone = self.read_zone(&source, &mut Vec::new())?;
        Ok(ZoneReport::new(&zone, self.generation().number()))
    }

    /// What answers at the addresses of a generation's reversed zones; `None` when it has none.
    pub fn live_zones<'a>(&'a self, generation: &'a Generation) -> Option<LiveZones<'a>> {
        LiveZones::new(generation.reversed(), generation.databases(), &self.prefix_sets)
    }

    /// One line for each zone of which something is left out, whose signatures have ended, or that
    /// updates do not go with.
    pub fn zone_remarks(&self) -> Vec<String> {
        let generation = self.generation();
        let now_seconds = self.now_millis() / 1000;
        let remark = |zone: &Arc<Zone>| {
            let (origin, count) = (zone.origin(), zone.left_out_count());
            let expiry = zone.first_expiry_seconds(now_seconds);
            match expiry.filter(|expiry| *expiry <= now_seconds) {
                Some(expiry) => Some(format!(
                    "zone {origin} has a signature that ended at {expiry} (Unix time): resolvers \
                     that validate refuse what it signs; sign the zone again"
                )),
                None if count > 0 => Some(format!(
                    "zone {origin} is served unsigned: {count} DNSSEC records of its file are left \
                     out"
                )),
                None => None,
            }
        };
        let remarks = generation.zones().zones().filter_map(remark);
        remarks.chain(generation.unfit_overlays().iter().cloned()).collect()
    }

    /// The zones of the configuration, in its order.
    pub fn zone_sources(&self) -> Vec<ZoneSource> {
        self.control().setup.zones.clone()
    }

    /// The files that are read for a zone: its own, what that includes, and the directory of its
    /// keys with the file of their states.
    pub fn zone_files(&self, source: &ZoneSource) -> Vec<PathBuf> {
        let mut own = vec![source.path.clone()];
        if let (Some(sign), Ok(origin)) = (&source.sign, source.name.parse())
            && let Ok(directory) = key_directory(source, origin)
        {
            own.extend([sign.keys.clone(), directory.states_path()]);
        }
        own.into_iter()
            .chain(self.zone_includes().get(&source.name).cloned().unwrap_or_default())
            .collect()
    }

    pub(super) fn zone_includes(&self) -> MutexGuard<'_, BTreeMap<String, Vec<PathBuf>>> {
        lock(&self.zone_includes)
    }

    /// The zones whose newest file was refused, and why.
    pub fn zone_failures(&self) -> BTreeMap<String, String> {
        lock(&self.zone_failures).clone()
    }

    /// Notes that what a secondary zone was offered is not served, or that it is.
    pub fn note_zone_failure(&self, name: &str, failure: Option<String>) {
        let mut failures = lock(&self.zone_failures);
        match failure {
            None => failures.remove(name),
            Some(failure) => failures.insert(name.to_owned(), failure),
        };
    }

    /// Reads a zone's file, and signs the zone if that is asked.
    fn read_zone(
        &self,
        source: &ZoneSource,
        includes: &mut Vec<PathBuf>,
    ) -> Result<Arc<Zone>, EngineError> {
        let generation = self.generation();
        let signer =
            Signer::new(&self.control().setup, Some(&generation), self.now_millis() / 1000);
        read_zone(source, &signer, includes)
    }

    fn zone_source(&self, name: &str) -> Result<(usize, ZoneSource), EngineError> {
        let unknown = || EngineError::new(format!("no such zone '{name}'"));
        let origin: Name = name.parse().map_err(|_| unknown())?;
        let sources = self.zone_sources();
        let is_it =
            |source: &ZoneSource| source.name.parse::<Name>().is_ok_and(|own| own == origin);
        let index = sources.iter().position(is_it).ok_or_else(unknown)?;
        Ok((index, sources[index].clone()))
    }
}

fn refuse_secondary(source: &ZoneSource) -> Result<(), EngineError> {
    match source.is_secondary {
        false => Ok(()),
        true => Err(EngineError::new(format!(
            "the zone '{}' comes from its primaries, not from a file; ZONE.REFRESH asks them",
            source.name
        ))),
    }
}
