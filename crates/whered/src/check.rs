//! `whered check`: what `whered serve` would be refused for, and remarks on what is hardly meant.
//!
//! Not for: finding the faults; the server's own first steps do ([`Server::check`]). Nothing is
//! made or changed. A process that serves the very file holds its addresses and its data directory
//! rightly: the file is then checked as for a reload.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use whered_engine::ip::HostBitsFinder;
use whered_engine::{
    Engine, MapSource, NamedDatabase, PolicyStep, ReversedSource, TxtField, ZoneSource,
};
use whered_mmdb::{Database, FieldPath, IndexOptions};
use whered_server::{Config, Occasion, Server};

use crate::cli::CheckArguments;
use crate::enrich::fields::has_field;
use crate::links::Links;
use crate::logging;
use crate::outcome::{Failure, Outcome, say};
use crate::serve::read_config;

/// Checks the file and prints what it would serve.
pub(crate) fn run(arguments: &CheckArguments) -> Result<Outcome, Failure> {
    logging::check()?;
    let found = match find(arguments) {
        Ok(found) => found,
        Err(Failure::Message(error)) if arguments.json => {
            let file = arguments.file.display().to_string();
            let object = json!({ "file": file, "ok": false, "error": error, "remarks": [] });
            say(true, &object, "")?;
            return Err(Failure::Message(error));
        }
        Err(other) => return Err(other),
    };
    let file = arguments.file.display();
    let [databases, zones, pools] = found.counts;
    let counts = format!("{databases} databases, {zones} zones, {pools} pools");
    let mut lines = found.remarks.clone();
    lines.push(format!("{file}: ok ({counts})"));
    let object = json!({
        "file": file.to_string(),
        "ok": true,
        "databases": databases,
        "zones": zones,
        "pools": pools,
        "remarks": found.remarks.iter().map(|line| remark_json(line)).collect::<Vec<_>>(),
    });
    say(arguments.json, &object, &lines.join("\n"))?;
    Ok(Outcome::Found)
}

/// What a sound configuration has.
struct CheckReport {
    remarks: Vec<String>,
    /// Databases, zones and pools.
    counts: [usize; 3],
}

fn find(arguments: &CheckArguments) -> Result<CheckReport, Failure> {
    let file = arguments.file.as_path();
    let config = read_config(file)?;
    Links::check(&config)?;
    let server = serving_process(file);
    let occasion = match (arguments.take_over, server) {
        (true, _) => Occasion::TakeOver,
        (false, Some(_)) => Occasion::Reload,
        (false, None) => Occasion::Start,
    };
    let engine = Server::check(&config, occasion).map_err(Failure::new)?;
    let mut remarks = remarks(&config, &engine)?;
    if let (Occasion::Reload, Some(pid)) = (occasion, server) {
        let what = "serves this file: its addresses and data directory were not tried";
        remarks.push(format!("{}: remark: process {pid} {what}", file.display()));
    }
    let counts = [config.databases.len(), config.zones.len(), config.pools.len()];
    Ok(CheckReport { remarks, counts })
}

/// A remark's place, as far as it has one, and its text.
fn remark_json(line: &str) -> Value {
    match line.split_once(": remark: ") {
        Some((location, text)) => json!({ "location": location, "text": text }),
        None => json!({ "location": null, "text": line }),
    }
}

/// Everything that is allowed and hardly meant, a line each.
fn remarks(config: &Config, engine: &Engine) -> Result<Vec<String>, Failure> {
    let mut remarks = config.remarks();
    let generation = engine.generation();
    let databases = generation.databases();
    remarks.extend(engine.zone_remarks());
    remarks.extend(databases.iter().flat_map(|named| field_remarks(config, named)));
    for zone in &config.zones {
        remarks.extend(text_remarks(config, zone, databases));
    }
    remarks.extend(map_remarks(config, databases));
    remarks.extend(set_remarks(config, engine));
    let file = config.location_of("").map(PathBuf::from);
    for path in config.rulesets.iter().map(|source| &source.path).chain(&file) {
        let text = fs::read(path).map_err(|error| Failure::file(path, error))?;
        if let Some(remark) = HostBitsFinder::of(&text).remark() {
            remarks.push(format!("{}: remark: {remark}", path.display()));
        }
    }
    Ok(remarks)
}

/// A remark on each configured field that no record of a database has: mostly a typing error.
fn field_remarks(config: &Config, named: &NamedDatabase) -> Vec<String> {
    if named.source.fields == IndexOptions::default().fields {
        return Vec::new();
    }
    let missing = named.source.fields.iter().filter(|field| !has_field(named.database(), field));
    let (name, path) = (&named.name, format!("database.{}.fields", named.name));
    let remark = |field: &FieldPath| {
        let text =
            format!("'fields' of the database '{name}' has '{field}', which no record of it has");
        config.remark(&path, &text)
    };
    missing.map(remark).collect()
}

/// A remark on each field that a zone answers with and no record has.
fn text_remarks(
    config: &Config,
    zone: &ZoneSource,
    databases: &[Arc<NamedDatabase>],
) -> Vec<String> {
    let Some(ReversedSource::DatabaseTxt(source)) = &zone.reversed else { return Vec::new() };
    let Some(named) = databases.iter().find(|named| named.name == source.database) else {
        return Vec::new();
    };
    let path = format!("zone.{}.database_txt.fields", zone.name);
    let fields = source.fields.iter().filter_map(|field| match field {
        TxtField::Network => None,
        TxtField::Path(field) => Some(field),
    });
    let missing = fields.filter(|field| !has_field(named.database(), field));
    let remark = |field: &FieldPath| {
        let (zone, database) = (&zone.name, &named.name);
        let text = format!(
            "'fields' of the zone '{zone}' has '{field}', which no record of the database \
             '{database}' has"
        );
        config.remark(&path, &text)
    };
    missing.map(remark).collect()
}

/// The maps that the policies of pools ask, each once, with the place of its key.
fn maps(config: &Config) -> Vec<(Arc<MapSource>, String)> {
    let mut maps: Vec<(Arc<MapSource>, String)> = Vec::new();
    for pool in &config.pools {
        for step in &pool.policy {
            if let PolicyStep::Map(map) = step
                && !maps.iter().any(|(known, _)| Arc::ptr_eq(known, map))
            {
                let path = match &*map.name {
                    "" => format!("pool.{}.map", pool.name),
                    name => format!("map.{name}"),
                };
                maps.push((Arc::clone(map), path));
            }
        }
    }
    maps
}

/// A remark on each country and subdivision of a map that no record of any database has.
fn map_remarks(config: &Config, databases: &[Arc<NamedDatabase>]) -> Vec<String> {
    let keys = |map: &MapSource| {
        let countries = map.countries.keys().map(|key| ("countries", key.clone()));
        let parts = map.subdivisions.keys().map(|key| ("subdivisions", key.clone()));
        countries.chain(parts).collect::<Vec<_>>()
    };
    let maps = maps(config);
    let mut missing: HashSet<String> =
        maps.iter().flat_map(|(map, _)| keys(map)).map(|(_, key)| key).collect();
    for named in databases {
        if missing.is_empty() {
            break;
        }
        remove_present(&mut missing, named.database());
    }
    let of_map = |(map, path): &(Arc<MapSource>, String)| {
        let absent = keys(map).into_iter().filter(|(_, key)| missing.contains(key));
        let remark = |(list, key): (&str, String)| {
            let name = match &*map.name {
                "" => "[pool.map]".to_owned(),
                name => format!("the map '{name}'"),
            };
            let text = format!("{name} lists {key}, which no record of a database has");
            config.remark(&format!("{path}.{list}.{key}"), &text)
        };
        absent.map(remark).collect::<Vec<_>>()
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

/// A remark on each set that something asks and no feed fills: until commands fill it, it is empty.
fn set_remarks(config: &Config, engine: &Engine) -> Vec<String> {
    let mut asked: Vec<(String, String, String)> = Vec::new();
    for pool in &config.pools {
        if let Some(set) = &pool.overrides {
            let what = format!("the pool '{}' has '{set}' for its overrides", pool.name);
            asked.push((set.clone(), format!("pool.{}.overrides", pool.name), what));
        }
    }
    for zone in &config.zones {
        if let Some(ReversedSource::Blocklist(source)) = &zone.reversed {
            let what = format!("the zone '{}' lists '{}'", zone.name, source.set);
            asked.push((source.set.clone(), format!("zone.{}.blocklist.set", zone.name), what));
        }
    }
    for named in engine.generation().rulesets() {
        for set in named.sets() {
            let what = format!("the ruleset '{}' asks '{set}'", named.name);
            asked.push((set, format!("ruleset.{}", named.name), what));
        }
    }
    let is_filled = |set: &str| {
        let targets = config.feeds.iter().filter_map(|feed| feed.source.set.as_ref());
        targets.into_iter().any(|target| target.name == set)
    };
    let unfilled = asked.into_iter().filter(|(set, ..)| !is_filled(set));
    let remark = |(_, path, what): (String, String, String)| {
        config.remark(&path, &format!("{what}, a set that no feed fills: it has what commands add"))
    };
    unfilled.map(remark).collect()
}

/// The process that serves this file, as far as the system shows it to us.
fn serving_process(file: &Path) -> Option<u32> {
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let own = identity(file)?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|pid| {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let Ok(line) = fs::read(folder.join("cmdline")) else { return false };
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if words.get(1).is_none_or(|word| word != "serve") {
            return false;
        }
        let named = words.iter().enumerate().find_map(|(index, word)| match word.as_ref() {
            "--config" => words.get(index + 1).map(ToString::to_string),
            word => word.strip_prefix("--config=").map(str::to_owned),
        });
        let Some(named) = named else { return false };
        // Relative to where that process is.
        fs::read_link(folder.join("cwd")).is_ok_and(|cwd| identity(&cwd.join(named)) == Some(own))
    })
}
