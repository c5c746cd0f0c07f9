//! Taking new files of the configuration: all of them, one database, one ruleset.
//!
//! For: reading without the lock, then swapping a generation in. Not for: zones (`zones`), and who
//! watches files (the server).
//!
//! At the same time: reloads and changes of sites exclude each other by `control`; readers never
//! wait. What took its time without the lock is compared with the configuration of now before it
//! serves.

use std::collections::HashSet;
use std::sync::Arc;

use super::Engine;
use crate::databases::{NamedDatabase, ReloadFailure};
use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::{self, CatalogMembership, LoadedFiles, Setup};
use crate::rulesets::NamedRuleset;
use crate::sync::lock;

/// What a reload did.
#[derive(Debug)]
pub struct ReloadReport {
    /// The number of the generation that serves now.
    pub generation: u64,
    /// How many databases it has.
    pub databases: usize,
    /// How many zones.
    pub zones: usize,
    /// How many pools.
    pub pools: usize,
}

impl Engine {
    /// Reads everything the setup names anew and swaps it in as a whole.
    ///
    /// # Errors
    /// The first fault, with its place; the old generation serves on.
    pub fn reload(&self, setup: Setup) -> Result<ReloadReport, EngineError> {
        let mut loaded =
            LoadedFiles::read(&setup, Some(&*self.generation()), self.now_millis() / 1000)?;
        let zone_includes = loaded.zone_includes.clone();
        let mut control = self.control();
        let current = self.generation();
        // A transfer may have come while files were read; and what has expired stays so.
        let was_secondary: HashSet<(&str, Option<&CatalogMembership>)> = {
            let secondaries = control.setup.zones.iter().filter(|zone| zone.is_secondary);
            secondaries.map(|zone| (&*zone.name, zone.member.as_ref())).collect()
        };
        for (source, zone) in setup.zones.iter().zip(&mut loaded.zones) {
            if source.is_secondary
                && was_secondary.contains(&(&*source.name, source.member.as_ref()))
                && let Some((_, served)) = current.base_zone(zone.origin())
            {
                *zone = Arc::clone(served);
            }
        }
        let number = current.number() + 1;
        let old = Some(&*current);
        let generation = Generation::build(number, &setup, &control.changes, loaded, old)?;
        generation.check_places()?;
        let report = ReloadReport {
            generation: number,
            databases: setup.databases.len(),
            zones: setup.zones.len(),
            pools: setup.pools.len(),
        };
        generation.databases().iter().for_each(|named| named.status.note_success());
        for file in generation.rulesets().iter().filter_map(|named| named.file.as_ref()) {
            file.status.note_success();
        }
        drop(was_secondary);
        generation.keep_serials(&setup)?;
        control.setup = setup;
        control.reloads += 1;
        self.serve(generation);
        *self.zone_includes() = zone_includes;
        lock(&self.zone_failures).clear();
        Ok(report)
    }

    /// Loads one database anew and swaps it in; everything else is shared with the generation
    /// before. Gives the number of the generation that serves now; a database that is not in it
    /// (any more) is left alone.
    ///
    /// # Errors
    /// The file cannot be read or is wrong; the old generation serves on, and the database's
    /// status says so unless the file was just being changed.
    pub fn reload_database(&self, name: &str) -> Result<u64, ReloadFailure> {
        let current = self.generation();
        let Some(old) = current.database(name) else {
            return Ok(current.number());
        };
        let loaded = NamedDatabase::load(&old.source, Arc::clone(&old.status));
        let loaded = loaded.inspect_err(|failure| {
            if !failure.is_changing {
                old.status.note_failure(failure);
            }
        })?;
        // Reading took its time without the lock: the configuration may have been reloaded.
        let _control = self.control();
        let current = self.generation();
        let same = |named: &Arc<NamedDatabase>| named.source == loaded.source;
        let Some(index) = current.databases().iter().position(same) else {
            return Ok(current.number());
        };
        let status = Arc::clone(&loaded.status);
        let next = current.with_changed_database(index, loaded).map_err(|error| {
            let failure = ReloadFailure::of_content(error.to_string());
            status.note_failure(&failure);
            failure
        })?;
        status.note_success();
        let number = next.number();
        self.serve(next);
        Ok(number)
    }

    /// Reads the file of one ruleset anew and swaps it in, as [`Engine::reload_database`] does.
    ///
    /// # Errors
    /// The file cannot be read or is wrong; the old ruleset serves on, and its status says so.
    pub fn reload_ruleset(&self, name: &str) -> Result<u64, ReloadFailure> {
        let current = self.generation();
        let Some(file) = current.ruleset(name).and_then(|named| named.file.as_ref()) else {
            return Ok(current.number());
        };
        let status = Arc::clone(&file.status);
        let refused = |error: EngineError| {
            let failure = ReloadFailure::of_content(error.to_string());
            status.note_failure(&failure);
            failure
        };
        let read = setup::read_ruleset(&file.source, Arc::clone(&status)).map_err(refused)?;
        let state = read.state;
        let refused = |error: EngineError| {
            let failure = ReloadFailure::of_content(error.to_string());
            let failure = ReloadFailure { file: Some(state), ..failure };
            status.note_failure(&failure);
            failure
        };
        let options = self.control().rules_options();
        // Compiling takes its time without the lock: databases may have been reloaded.
        let compile = |generation: &Generation| {
            NamedRuleset::compile_file(&read, &generation.compile_context(options)).map_err(refused)
        };
        let mut compiled = compile(&current)?;
        let control = self.control();
        if !control.setup.rulesets.contains(&read.source) {
            return Ok(self.generation().number());
        }
        let latest = self.generation();
        if compiled.has_places() && !Arc::ptr_eq(&latest, &current) {
            compiled = compile(&latest)?;
        }
        status.note_success();
        let next = latest.with_ruleset(name, Some(Arc::new(compiled)));
        let number = next.number();
        self.serve(next);
        Ok(number)
    }
}
