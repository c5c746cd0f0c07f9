//! `whered check`: reads a configuration and everything that it names, and serves nothing.
//!
//! Not for: opening the data directory; the journal is neither read nor locked.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use whered_engine::ip::HostBitsFinder;
use whered_engine::{Engine, EngineOptions, NamedDatabase};
use whered_mmdb::{FieldPath, IndexOptions};
use whered_server::Config;

use crate::enrich::fields::has_field;
use crate::links::Links;
use crate::outcome::{Failure, Outcome, complain};
use crate::serve::read_config;

/// Checks the file and prints what it would serve.
pub(crate) fn run(file: &Path) -> Result<Outcome, Failure> {
    let config = read_config(file)?;
    whered_server::health::verify(&config.checks).map_err(|error| Failure::file(file, error))?;
    Links::check(&config).map_err(|failure| match failure {
        Failure::Message(why) => Failure::file(file, why),
        other => other,
    })?;
    if let Some(refusal) = config.unkept_feed() {
        return Err(Failure::Message(refusal));
    }
    for remark in config.remarks() {
        writeln!(io::stdout(), "{}: remark: {remark}", file.display())?;
    }
    let setup = config.to_setup();
    let rulesets: Vec<_> = setup.rulesets.iter().map(|source| source.path.clone()).collect();
    let (databases, zones, pools) = (setup.databases.len(), setup.zones.len(), setup.pools.len());
    // An engine without a data directory loads and verifies everything and keeps nothing.
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _report) = Engine::open(options).map_err(|error| Failure::file(file, error))?;
    let generation = engine.generation();
    let fields = generation.databases().iter().flat_map(|named| field_remarks(named));
    for remark in engine.zone_remarks().into_iter().chain(fields) {
        writeln!(io::stdout(), "{}: {remark}", file.display())?;
    }
    check_sets(&config, file)?;
    check_places(&engine, file)?;
    for path in rulesets.iter().map(PathBuf::as_path).chain([file]) {
        let text = fs::read(path).map_err(|error| Failure::file(path, error))?;
        if let Some(remark) = HostBitsFinder::of(&text).remark() {
            writeln!(io::stdout(), "{}: remark: {remark}", path.display())?;
        }
    }
    writeln!(
        io::stdout(),
        "{}: ok ({databases} databases, {zones} zones, {pools} pools)",
        file.display()
    )?;
    Ok(Outcome::Found)
}

/// The directory of set files must be there: without it every `CIDR.LOAD ... FILE` fails.
fn check_sets(config: &Config, file: &Path) -> Result<(), Failure> {
    let Some(directory) = config.sets.directory.as_deref().filter(|path| !path.is_dir()) else {
        return Ok(());
    };
    let what = if directory.exists() { "which is no directory" } else { "which is not there" };
    let directory = directory.display();
    let message = format!("'directory' in [sets] is '{directory}', {what}; allowed: a directory");
    Err(Failure::file(file, message))
}

/// A field that no record of its database has makes a rule that no packet meets.
fn check_places(engine: &Engine, file: &Path) -> Result<(), Failure> {
    let generation = engine.generation();
    let wrong: Vec<String> =
        generation.rulesets().iter().flat_map(|ruleset| ruleset.wrong_places()).collect();
    for line in &wrong {
        complain(line);
    }
    match wrong.len() {
        0 => Ok(()),
        count => {
            let message = format!("{count} conditions of rules ask for what no database has");
            Err(Failure::file(file, message))
        }
    }
}

/// A remark on each configured field that no record of a database has: mostly a typing error.
fn field_remarks(named: &NamedDatabase) -> Vec<String> {
    if named.source.fields == IndexOptions::default().fields {
        return Vec::new();
    }
    let missing = named.source.fields.iter().filter(|field| !has_field(named.database(), field));
    let remark = |field: &FieldPath| {
        format!(
            "remark: 'fields' of the database '{}' has '{field}', which no record of it has",
            named.name
        )
    };
    missing.map(remark).collect()
}
