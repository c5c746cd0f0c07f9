//! `whered zone convert-gdnsd`: a configuration of gdnsd as one of ours.
//!
//! For: pools, maps and checks out of `plugins` and `service_types`, zones without what is dynamic.
//! Not for: serving it (`whered check` and `whered serve` take what is written here).
//!
//! ```text
//! config   ──vscf──> options, service_types ──services──> checks ┐
//!                    plugins ──maps, resources──────────────────> pools ─┐
//! zones/*  ──master──> records (written line by line)                    ├─> whered.toml
//!                  └─> owners: DYNA, DYNC, with their TTLs ──────────────┘
//! ```
//! What we have no counterpart for is an error with file, line and column; all of them are told,
//! and then nothing is written. What differs only a little is a note, told and written into the
//! file. The folder gets its name when it is whole and `whered check` would pass it.

mod glob;
mod maps;
mod master;
mod meta;
mod options;
mod resources;
mod services;
mod text;
mod vscf;
mod weighted;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use whered_server::{Occasion, Server};

use self::maps::Map;
use self::master::{Master, Owner};
use self::options::Options;
use self::resources::{PoolBuilder, Resources, SiteBuilder};
use self::text::{quoted, quoted_list};
use self::vscf::{Fault, Hash, ReadBudget, Value};
use super::flags::ConvertGdnsdArguments;
use crate::new_file::NewFolder;
use crate::old_spellings::output_of;
use crate::outcome::{Failure, Outcome, complain, say};
use crate::serve::read_config;

/// How many mistakes are told.
const MISTAKES_MAX: usize = 100;
/// The file of the root zone.
const ROOT_ZONE: &str = "ROOT_ZONE";
const FILE: &str = "whered.toml";

/// Everything that is written.
struct Conversion {
    toml: String,
    zones: Vec<Master>,
    notes: Vec<Fault>,
    /// Whether every database exists.
    has_databases: bool,
}

/// Converts; mistakes and notes go to standard error.
pub(crate) fn run(arguments: &ConvertGdnsdArguments) -> Result<Outcome, Failure> {
    let mut paths = arguments.paths.clone();
    let directory = output_of("zone convert-gdnsd", arguments.output.as_ref(), &mut paths)?;
    let [config] = &paths[..] else {
        return Err(Failure::new(format!("{} configurations; allowed: one", paths.len())));
    };
    let folder = NewFolder::new(&directory).map_err(|error| Failure::file(&directory, error))?;
    let config = if config.is_dir() { config.join("config") } else { config.clone() };
    let converted = match convert(&config) {
        Ok(converted) => converted,
        Err(faults) => {
            let told = faults.iter().take(MISTAKES_MAX);
            told.for_each(|fault| complain(&fault.to_string()));
            if let Some(more) = faults.len().checked_sub(MISTAKES_MAX).filter(|more| *more > 0) {
                complain(&format!("{more} more mistakes"));
            }
            let mistakes = if faults.len() == 1 { "mistake" } else { "mistakes" };
            complain(&format!("{} {mistakes}; nothing was written", faults.len()));
            return Ok(Outcome::NotFound);
        }
    };
    converted.notes.iter().for_each(|note| complain(&format!("note: {note}")));
    write_all(&converted, &folder, &directory)?;
    folder.finish().map_err(|error| Failure::file(&directory, error))?;
    let (file, zones) = (directory.join(FILE).display().to_string(), converted.zones.len());
    let notes: Vec<String> = converted.notes.iter().map(ToString::to_string).collect();
    let object = json!({ "file": file, "zones": zones, "notes": notes });
    say(arguments.json, &object, &format!("{file}: {zones} zones, {} notes", notes.len()))?;
    Ok(Outcome::Found)
}

/// Writes the files, and has the server's own first steps judge them.
fn write_all(converted: &Conversion, folder: &NewFolder, directory: &Path) -> Result<(), Failure> {
    let write = |name: &Path, text: &str| {
        let written = folder.write(name, text.as_bytes());
        written.map_err(|error| Failure::file(&directory.join(name), error))
    };
    for zone in &converted.zones {
        write(&Path::new("zones").join(file_name(&zone.name)), &zone.text)?;
    }
    write(Path::new(FILE), &converted.toml)?;
    if !converted.has_databases {
        return Ok(());
    }
    let checked = read_config(&folder.path().join(FILE)).and_then(|config| {
        Server::check(&config, Occasion::Reload).map(drop).map_err(Failure::new)
    });
    checked.map_err(|failure| match failure {
        Failure::Message(message) => {
            let (made, named) = (folder.path().display(), directory.display());
            Failure::Message(message.replace(&made.to_string(), &named.to_string()))
        }
        other => other,
    })
}

/// RFC 2317's slashes cannot stand in the name of a file.
fn file_name(zone: &str) -> String {
    let name = if zone == "." { ROOT_ZONE } else { zone };
    format!("{}.zone", name.replace('/', "@"))
}

fn convert(config: &Path) -> Result<Conversion, Vec<Fault>> {
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    let mut budget = ReadBudget::new();
    let folder = config.parent().unwrap_or(Path::new(""));
    // gdnsd takes a folder without a configuration for one with all defaults.
    let top = match config.exists() || !folder.join("zones").is_dir() {
        true => vscf::read(config, &mut budget, &mut faults),
        false => Hash::default(),
    };
    let is_readable = faults.is_empty();
    for entry in &top.entries {
        if !matches!(&*entry.key, "options" | "service_types" | "plugins") {
            faults.push(entry.value.fault(format!(
                "unknown section '{}'; allowed: options, service_types, plugins",
                entry.key
            )));
        }
    }
    let read = options::read(top.get("options"), &mut notes, &mut faults);
    let options = kept(read, &mut faults).unwrap_or_default();
    let read = services::read(top.get("service_types"), &mut notes, &mut faults);
    let services = kept(read, &mut faults).unwrap_or_default();
    let plugins = kept(plugins(top.get("plugins")), &mut faults).unwrap_or_default();
    let maps = match plugins.get("geoip") {
        Some(geoip) => read_maps(geoip, &folder.join("geoip"), &mut budget, &mut faults),
        None => BTreeMap::new(),
    };
    note_plugins(&plugins, &options, &mut notes, &mut faults);
    let zones = read_zones(&folder.join("zones"), &options, &mut budget, &mut notes, &mut faults);
    let resources =
        Resources { plugins, services: &services, maps: &maps, faults: RefCell::default() };
    let mut writer = Writer {
        maps: &maps,
        notes,
        pools: String::new(),
        used: BTreeMap::new(),
        nearest: Vec::new(),
    };
    // What a file that cannot be read would have defined is no mistake of others.
    if is_readable {
        writer.pools(&zones, &resources, &mut faults);
        faults.append(&mut resources.faults.borrow_mut());
        writer.note_unused(&resources);
    }
    let toml = kept(writer.toml(&zones, &options), &mut faults).unwrap_or_default();
    let mut notes = writer.notes;
    for list in [&mut notes, &mut faults] {
        list.sort_by(|a, b| a.place.cmp(&b.place).then_with(|| a.message.cmp(&b.message)));
        list.dedup();
    }
    let has_databases =
        maps.values().filter_map(|map| map.database.as_ref()).all(|path| path.exists());
    if faults.is_empty() {
        Ok(Conversion { toml, zones, notes, has_databases })
    } else {
        Err(faults)
    }
}

/// Goes on without what is wrong, to find more of it.
fn kept<T>(result: Result<T, Fault>, faults: &mut Vec<Fault>) -> Option<T> {
    result.map_err(|fault| faults.push(fault)).ok()
}

/// Remarks on plugins that answer nothing by themselves, and on subnets that are turned off.
fn note_plugins(
    plugins: &BTreeMap<&str, &Value>,
    options: &Options,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) {
    const ANSWER: [&str; 8] =
        ["geoip", "metafo", "multifo", "weighted", "simplefo", "static", "reflect", "null"];
    const MONITOR: [&str; 4] = ["extmon", "extfile", "http_status", "tcp_connect"];
    for (name, value) in plugins {
        if MONITOR.contains(name) {
            if value.hash("a plugin").is_ok_and(|hash| !hash.entries.is_empty()) {
                notes.push(value.fault(format!(
                    "what '{name}' was set to as a whole (helper_path, helper_failure_action) has \
                     nothing here: checks are run by the server itself"
                )));
            }
        } else if !ANSWER.contains(name) {
            let allowed = [&ANSWER[..], &MONITOR[..]].concat().join(", ");
            notes.push(value.fault(format!(
                "the plugin '{name}' has no counterpart; names that it answers would be mistakes; \
                 allowed: {allowed}"
            )));
        }
    }
    let Some(value) = &options.ignores_subnets else { return };
    let message = "'edns_client_subnet' off has no counterpart: client subnets count";
    if plugins.contains_key("geoip") || plugins.contains_key("reflect") {
        faults.push(value.fault(message));
    } else {
        notes.push(value.fault(format!("{message}; no answer depends on them")));
    }
}

fn plugins(value: Option<&Value>) -> Result<BTreeMap<&str, &Value>, Fault> {
    let Some(value) = value else { return Ok(BTreeMap::new()) };
    let entries = value.hash("plugins")?.entries.iter();
    Ok(entries.map(|entry| (&*entry.key, &entry.value)).collect())
}

fn read_maps(
    geoip: &Value,
    folder: &Path,
    budget: &mut ReadBudget,
    faults: &mut Vec<Fault>,
) -> BTreeMap<String, Map> {
    let maps = geoip.hash("geoip").map(|hash| hash.get("maps"));
    let Some(maps) = kept(maps, faults).flatten() else { return BTreeMap::new() };
    let Some(maps) = kept(maps.hash("maps"), faults) else { return BTreeMap::new() };
    let mut read = BTreeMap::new();
    for entry in &maps.entries {
        let map = Map::read(&entry.key, &entry.value, folder, budget, faults);
        read.extend(kept(map, faults).map(|map| (entry.key.clone(), map)));
    }
    read
}

/// Every file of the folder whose name does not begin with a dot is a zone.
fn read_zones(
    folder: &Path,
    options: &Options,
    budget: &mut ReadBudget,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Vec<Master> {
    let place = |file: &Path| vscf::Place { file: file.into(), line: 1, column: 1 };
    let list = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let list = list.map_err(|error| Fault { place: place(folder), message: error.to_string() });
    let Some(list) = kept(list, faults) else { return Vec::new() };
    let mut paths: Vec<_> = list.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let (mut zones, mut names) = (Vec::new(), HashSet::new());
    for path in paths {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
            let message = format!("{path:?} is no zone's name; allowed: UTF-8");
            faults.push(Fault { place: place(folder), message });
            continue;
        };
        if file.starts_with('.') || path.is_dir() {
            continue;
        }
        let name = match file {
            ROOT_ZONE => ".".to_owned(),
            file => file.replace('@', "/"),
        };
        let name = name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(&name);
        if !names.insert(name.to_ascii_lowercase()) {
            let message = format!("the zone {name} has two files; allowed: one");
            faults.push(Fault { place: place(&path), message });
            continue;
        }
        zones.extend(master::convert(&path, name, options, budget, notes, faults));
    }
    zones
}

struct Writer<'a> {
    maps: &'a BTreeMap<String, Map>,
    notes: Vec<Fault>,
    pools: String,
    /// Maps that pools ask, by name.
    used: BTreeMap<String, Map>,
    /// Maps whose database has the places of clients.
    nearest: Vec<String>,
}

impl Writer<'_> {
    /// One pool for each resource and TTL, with all names that are answered from it.
    fn pools(&mut self, zones: &[Master], resources: &Resources<'_>, faults: &mut Vec<Fault>) {
        let mut drafts: BTreeMap<(String, u64), (PoolBuilder, Vec<&Owner>)> = BTreeMap::new();
        let mut owners: HashSet<String> = HashSet::new();
        for owner in zones.iter().flat_map(|zone| &zone.owners) {
            let draft = resources.draft(&owner.plugin, &owner.resource, &owner.value);
            let Some(draft) = kept(draft, faults) else { continue };
            if !owners.insert(owner.name.to_ascii_lowercase()) {
                let message = format!("{} is answered twice; allowed: once", owner.name);
                faults.push(owner.value.fault(message));
                continue;
            }
            if !owner.is_alias && draft.sites.iter().any(|site| site.alias.is_some()) {
                let message = "found DYNA with names as answers; allowed: DYNC";
                faults.push(owner.value.fault(message));
                continue;
            }
            let ttl_seconds = self.ttl(owner, &draft);
            let resource = if owner.resource.is_empty() { "best" } else { &owner.resource };
            let name = match &*owner.plugin {
                "null" => "null".to_owned(),
                plugin => format!("{plugin}-{resource}"),
            };
            let known = drafts.entry((name, ttl_seconds)).or_insert_with(|| (draft, Vec::new()));
            known.1.push(owner);
        }
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for ((name, ttl_seconds), (draft, owners)) in &drafts {
            let count = names.entry(name).or_default();
            *count += 1;
            let name = if *count == 1 { name.clone() } else { format!("{name}-{count}") };
            self.pool(&name, *ttl_seconds, draft, owners);
            self.notes.extend(draft.notes.iter().cloned());
            self.nearest.extend(draft.nearest.clone());
            let Some(map) = &draft.map else { continue };
            let known = self.used.entry(map.name.clone()).or_insert_with(|| map.clone());
            if known != map {
                let message =
                    format!("two maps would be named {}; allowed: another name", map.name);
                faults.push(Fault { place: map.place.clone(), message });
            }
        }
    }

    /// Resources that no zone asks are left out; what is wrong with them is told all the same.
    fn note_unused(&mut self, resources: &Resources<'_>) {
        let told = |plugin: &str, hash: &Hash, notes: &mut Vec<Fault>| {
            for entry in &hash.entries {
                if resources::PARAMETERS.contains(&&*entry.key) {
                    continue;
                }
                let read = resources.draft(plugin, &entry.key, &entry.value);
                let mut more = resources.faults.take();
                more.extend(read.err());
                notes.extend(more.into_iter().map(|fault| Fault {
                    message: format!(
                        "{plugin}!{}, which no zone asks: {}",
                        entry.key, fault.message
                    ),
                    ..fault
                }));
            }
        };
        for (plugin, value) in &resources.plugins {
            let Ok(hash) = value.hash("a plugin") else { continue };
            match *plugin {
                "multifo" | "weighted" | "simplefo" | "static" => {
                    told(plugin, hash, &mut self.notes);
                }
                "geoip" | "metafo" => {
                    let below = hash.get("resources").and_then(|all| all.hash("resources").ok());
                    below.into_iter().for_each(|hash| told(plugin, hash, &mut self.notes));
                }
                _ => {}
            }
        }
    }

    /// What gdnsd answers while all is as it was for a while.
    fn ttl(&mut self, owner: &Owner, draft: &PoolBuilder) -> u64 {
        let (least, most) = (owner.ttl_min_seconds, owner.ttl_max_seconds);
        let Some(steady) = draft.steady_seconds else { return most };
        if least < most {
            self.notes.push(
                owner.value.fault(
                    "gdnsd lowers the TTL while a change may be near; here it stays the same",
                ),
            );
        }
        steady.clamp(least.min(most), most)
    }

    fn pool(&mut self, name: &str, ttl_seconds: u64, draft: &PoolBuilder, owners: &[&Owner]) {
        let owners: Vec<_> = owners.iter().map(|owner| &owner.name).collect();
        let text = &mut self.pools;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[pool]]\nname = {}\nowners = {}\npolicy = {}\nanswers = {}\nttl_seconds = \
             {ttl_seconds}\n",
            quoted(name),
            quoted_list(&owners),
            quoted_list(&draft.policy),
            draft.answers
        );
        draft.sites.iter().for_each(|site| write_site(text, site));
    }

    fn toml(&mut self, zones: &[Master], options: &Options) -> Result<String, Fault> {
        let mut text = "# Made by whered zone convert-gdnsd.\n".to_owned();
        let used: Vec<&Map> = self.used.values().collect();
        let nearest = self.maps.values().filter(|map| self.nearest.contains(&map.name));
        let first = nearest.clone().next().map(|map| &map.database);
        if let Some(other) = nearest.clone().find(|map| Some(&map.database) != first) {
            let message = "maps with 'auto_dc_coords' over several databases have no counterpart";
            return Err(Fault { place: other.place.clone(), message: message.to_owned() });
        }
        let mut databases: Vec<&PathBuf> =
            nearest.filter_map(|map| map.database.as_ref()).collect();
        databases.extend(used.iter().filter_map(|map| map.database.as_ref()));
        let mut seen = Vec::new();
        databases.retain(|path| {
            let is_new = !seen.contains(path);
            seen.push(*path);
            is_new
        });
        self.maps.values().for_each(|map| self.notes.extend(map.notes.iter().cloned()));
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "# note: {note}");
        });
        // The listener opens by it, on loopback as long as it says nothing more.
        text.push_str("\n[dns]\n");
        text.push_str(&options.dns);
        let named = |path: &PathBuf| {
            databases.iter().position(|known| *known == path).map(|at| match at {
                0 => "place".to_owned(),
                more => format!("place-{}", more + 1),
            })
        };
        for path in &databases {
            let shown = fs::canonicalize(path).unwrap_or_else(|_| (*path).clone());
            let name = named(path).unwrap_or_default();
            let path = quoted(&shown.display().to_string());
            let _ = write!(text, "\n[[database]]\nname = {}\npath = {path}\n", quoted(&name));
        }
        for map in used {
            text.push('\n');
            text.push_str(&map.toml(map.database.as_ref().and_then(named).as_deref()));
        }
        for zone in zones {
            let path = format!("zones/{}", file_name(&zone.name));
            let (name, path) = (quoted(&zone.name), quoted(&path));
            let _ = write!(text, "\n[[zone]]\nname = {name}\npath = {path}\n");
        }
        text.push_str(&self.pools);
        Ok(text)
    }
}

fn write_site(text: &mut String, site: &SiteBuilder) {
    let _ = write!(text, "[[pool.site]]\nname = {}\n", quoted(&site.name));
    if let Some(group) = &site.group {
        let _ = writeln!(text, "group = {}", quoted(group));
    }
    if let Some((latitude, longitude)) = site.at {
        let _ = writeln!(text, "at = {{ longitude = {longitude:?}, latitude = {latitude:?} }}");
    }
    if let Some(alias) = &site.alias {
        let _ = writeln!(text, "cname = {}", quoted(alias));
    } else if let Some(which) = site.reflect {
        let _ = writeln!(text, "reflect = {}", quoted(which));
    } else {
        let addresses: Vec<_> = site.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "addresses = {}", quoted_list(&addresses));
    }
    if let Some(weight) = site.weight {
        let _ = writeln!(text, "weight = {weight}");
    }
    match &site.checks[..] {
        [] => {}
        [check] => {
            let _ = writeln!(text, "check = {check}");
        }
        checks => {
            let _ = writeln!(text, "check = [{}]", checks.join(", "));
        }
    }
}

#[cfg(test)]
#[path = "gdnsd_tests.rs"]
mod tests;
