//! `whered check`: reads a configuration and everything that it names, and serves nothing.
//!
//! Not for: opening the data directory; the journal is neither read nor locked.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_engine::ip::HostBitsFinder;
use whered_engine::{Engine, EngineOptions, MapSource, NamedDatabase, PolicyStep, PoolSource};
use whered_mmdb::{Database, FieldPath, IndexOptions};

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
    let directories = [("sets", &config.sets.directory), ("backup", &config.backup.directory)];
    for (section, directory) in directories {
        check_directory(section, directory.as_deref(), file)?;
    }
    for remark in config.remarks() {
        writeln!(io::stdout(), "{}: remark: {remark}", file.display())?;
    }
    let setup = config.to_setup();
    let rulesets: Vec<_> = setup.rulesets.iter().map(|source| source.path.clone()).collect();
    let maps = maps(&setup.pools);
    let (databases, zones, pools) = (setup.databases.len(), setup.zones.len(), setup.pools.len());
    // An engine without a data directory loads and verifies everything and keeps nothing.
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _report) = Engine::open(options).map_err(|error| Failure::file(file, error))?;
    let generation = engine.generation();
    let fields = generation.databases().iter().flat_map(|named| field_remarks(named));
    let maps = map_remarks(&maps, generation.databases());
    for remark in engine.zone_remarks().into_iter().chain(fields).chain(maps) {
        writeln!(io::stdout(), "{}: {remark}", file.display())?;
    }
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

/// A directory that commands read from or write to must be there: without it each of them fails.
fn check_directory(section: &str, directory: Option<&Path>, file: &Path) -> Result<(), Failure> {
    let Some(directory) = directory.filter(|path| !path.is_dir()) else {
        return Ok(());
    };
    let what = if directory.exists() { "which is no directory" } else { "which is not there" };
    let directory = directory.display();
    let message =
        format!("'directory' in [{section}] is '{directory}', {what}; allowed: a directory");
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

/// The maps that the policies of pools ask, each once.
fn maps(pools: &[PoolSource]) -> Vec<Arc<MapSource>> {
    let mut maps: Vec<Arc<MapSource>> = Vec::new();
    for step in pools.iter().flat_map(|pool| &pool.policy) {
        if let PolicyStep::Map(map) = step
            && !maps.iter().any(|known| Arc::ptr_eq(known, map))
        {
            maps.push(Arc::clone(map));
        }
    }
    maps
}

/// A remark on each country and subdivision of a map that no record of any database has.
fn map_remarks(maps: &[Arc<MapSource>], databases: &[Arc<NamedDatabase>]) -> Vec<String> {
    let keys = |map: &MapSource| {
        let keys = map.countries.keys().chain(map.subdivisions.keys());
        keys.cloned().collect::<Vec<_>>()
    };
    let mut missing: HashSet<String> = maps.iter().flat_map(|map| keys(map)).collect();
    for named in databases {
        if missing.is_empty() {
            break;
        }
        remove_present(&mut missing, named.database());
    }
    let remark = |map: &MapSource, key: String| {
        let name = match &*map.name {
            "" => "[pool.map]".to_owned(),
            name => format!("the map '{name}'"),
        };
        format!("remark: {name} lists {key}, which no record of a database has")
    };
    let of_map = |map: &Arc<MapSource>| {
        let absent = keys(map).into_iter().filter(|key| missing.contains(key));
        absent.map(|key| remark(map, key)).collect::<Vec<_>>()
    };
    maps.iter().flat_map(of_map).collect()
}

/// Removes the countries and subdivisions that records of a database have.
fn remove_present(keys: &mut HashSet<String>, database: &Database) {
    let path = |text: &str| text.parse::<FieldPath>().expect("a constant path");
    let (country, part) = (path("country.iso_code"), path("subdivisions.0.iso_code"));
    let mut seen = HashSet::new();
    for (_, record) in database.networks().map_while(Result::ok) {
        if !seen.insert(record) {
            continue;
        }
        let text = |path| database.text(record, path).ok().flatten();
        let Some(country) = text(&country).map(|code| code.to_ascii_uppercase()) else { continue };
        if let Some(part) = text(&part) {
            keys.remove(&format!("{country}-{}", part.to_ascii_uppercase()));
        }
        keys.remove(&country);
        if keys.is_empty() {
            return;
        }
    }
}
