//! Zones of the configuration: read anew, checked, and which files they come from.
//!
//! For: one zone at a time, whose mistakes leave the old one serving. Not for: reading zone files
//! (`setup`), answering (`whered-dns`).
//!
//! At the same time: as `reload`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use whered_dns::{Name, Zone};

use super::Engine;
use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::{Setup, ZoneSource, read_zone, secondary_zone};
use crate::generation::signing::{Signer, keep_serial, key_directory};
use crate::sync::lock;
use crate::zones::reversed::LiveZones;

/// A zone that a catalog names.
#[derive(Clone, Debug)]
pub struct MemberZone {
    /// Its name and the place of its copy.
    pub source: ZoneSource,
    /// It goes on with what is served of it now.
    pub keeps_zone: bool,
}

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
    pub(super) fn new(zone: &Zone, generation: u64) -> ZoneReport {
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
        if source.is_secondary && source.sign.is_some() {
            return self.sign_secondary(&source);
        }
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
            keep_serial(&source, &zone)?;
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

    /// Signs anew what other servers gave.
    fn sign_secondary(&self, source: &ZoneSource) -> Result<ZoneReport, EngineError> {
        let name = &source.name;
        let generation = self.generation();
        let zone = name.parse().ok().and_then(|origin| generation.zone_as_given(&origin));
        let zone = zone.filter(|zone| !zone.is_unavailable());
        let missing =
            || EngineError::new(format!("zone '{name}': its primaries have not given it"));
        self.serve_zone(source, zone.ok_or_else(missing)?)
    }

    /// Serves these members of catalogs in the place of those that are served so far. One that is
    /// new begins with its copy, if there is one.
    ///
    /// # Errors
    /// A name that is twice there or in the configuration; zones that do not go with the pools. The
    /// members stay as they were.
    pub fn serve_members(&self, members: Vec<MemberZone>) -> Result<(), EngineError> {
        let signer = Signer::new(&Setup::default(), None, 0);
        let begin = |member: &MemberZone| match member.keeps_zone {
            true => Ok(None),
            false => secondary_zone(&member.source, &signer, None).map(Some),
        };
        let new = members.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        let mut control = self.control();
        let current = self.generation();
        let configured = control.setup.zones.iter().take_while(|zone| zone.member.is_none());
        let configured = configured.count();
        let mut seen = HashSet::new();
        let mut zones = Vec::with_capacity(members.len());
        for (member, new) in members.iter().zip(new) {
            let name = &member.source.name;
            let wrong =
                |found: &str| Err(EngineError::new(format!("zone '{name}': found {found}")));
            let Ok(origin) = name.parse::<Name>() else { return wrong("a name that is none") };
            let known = current.base_zone(&origin);
            if known.is_some_and(|(index, _)| index < configured) {
                return wrong("a member of a catalog that the configuration has, too");
            }
            let kept = known.map(|(_, zone)| Arc::clone(zone));
            zones.push(new.or(kept).unwrap_or_else(|| Arc::new(Zone::unavailable(&origin))));
            if !seen.insert(origin) {
                return wrong("a member of two catalogs");
            }
        }
        let next = current.with_members(configured, &zones)?;
        control.setup.zones.truncate(configured);
        control.setup.zones.extend(members.into_iter().map(|member| member.source));
        self.serve(next);
        let names: HashSet<&str> = control.setup.zones.iter().map(|zone| &*zone.name).collect();
        lock(&self.zone_failures).retain(|name, _| names.contains(&**name));
        Ok(())
    }

    /// The zone of this origin as the configuration or a catalog names it.
    pub fn zone_source_of(&self, origin: &Name) -> Option<ZoneSource> {
        let control = self.control();
        let index = self.generation().base_zone(origin)?.0;
        control.setup.zones.get(index).cloned()
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
