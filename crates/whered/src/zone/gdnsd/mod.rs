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
//! file.

mod maps;
mod master;
mod meta;
mod resources;
mod services;
mod text;
mod vscf;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use self::maps::Map;
use self::master::{Master, Owner};
use self::resources::{PoolBuilder, Resources, SiteBuilder};
use self::text::{quoted, quoted_list};
use self::vscf::{Fault, Value};
use super::flags::ConvertGdnsdArguments;
use crate::old_spellings::output_of;
use crate::outcome::{Failure, Outcome, complain, say};

const TTL_SECONDS: u64 = 86_400;

/// Options of gdnsd that say how it runs, not what it answers.
const OPTIONS_OF_RUNNING: [&str; 26] = [
    "acme_challenge_dns_ttl",
    "acme_challenge_ttl",
    "chaos_response",
    "cookie_key_file",
    "dns_port",
    "experimental_no_chain",
    "listen",
    "lock_mem",
    "max_edns_response",
    "max_edns_response_v6",
    "max_ncache_ttl",
    "max_nocookie_response",
    "max_ttl",
    "min_ttl",
    "nsid",
    "nsid_ascii",
    "realtime_stats",
    "run_dir",
    "state_dir",
    "tcp_backlog",
    "tcp_clients_per_thread",
    "tcp_threads",
    "tcp_timeout",
    "udp_rcvbuf",
    "udp_sndbuf",
    "udp_threads",
];

/// Everything that is written.
struct Conversion {
    toml: String,
    zones: Vec<Master>,
    notes: Vec<Fault>,
}

/// Converts; mistakes and notes go to standard error.
pub(crate) fn run(arguments: &ConvertGdnsdArguments) -> Result<Outcome, Failure> {
    let mut paths = arguments.paths.clone();
    let directory = output_of("zone convert-gdnsd", arguments.output.as_ref(), &mut paths)?;
    let [config] = &paths[..] else {
        return Err(Failure::new(format!("{} configurations; allowed: one", paths.len())));
    };
    let config = if config.is_dir() { config.join("config") } else { config.clone() };
    let converted = match convert(&config) {
        Ok(converted) => converted,
        Err(faults) => {
            faults.iter().for_each(|fault| complain(&fault.to_string()));
            let mistakes = if faults.len() == 1 { "mistake" } else { "mistakes" };
            complain(&format!("{} {mistakes}; nothing was written", faults.len()));
            return Ok(Outcome::Failed);
        }
    };
    converted.notes.iter().for_each(|note| complain(&format!("note: {note}")));
    let zones = directory.join("zones");
    fs::create_dir_all(&zones).map_err(|error| Failure::file(&zones, error))?;
    let write = |path: PathBuf, text: &str| {
        let mut file = fs::File::create_new(&path).map_err(|error| Failure::file(&path, error))?;
        file.write_all(text.as_bytes()).map_err(|error| Failure::file(&path, error))
    };
    for zone in &converted.zones {
        write(zones.join(file_name(&zone.name)), &zone.text)?;
    }
    let toml = directory.join("whered.toml");
    write(toml.clone(), &converted.toml)?;
    let (file, zones) = (toml.display().to_string(), converted.zones.len());
    let notes: Vec<String> = converted.notes.iter().map(ToString::to_string).collect();
    let object = json!({ "file": file, "zones": zones, "notes": notes });
    say(arguments.json, &object, &format!("{file}: {zones} zones, {} notes", notes.len()))?;
    Ok(Outcome::Found)
}

/// RFC 2317's slashes cannot stand in the name of a file.
fn file_name(zone: &str) -> String {
    format!("{}.zone", zone.replace('/', "@"))
}

fn convert(config: &Path) -> Result<Conversion, Vec<Fault>> {
    let top = vscf::read(config).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    for entry in &top.entries {
        if !matches!(&*entry.key, "options" | "service_types" | "plugins") {
            faults.push(entry.value.fault(format!("unknown section '{}'", entry.key)));
        }
    }
    let folder = config.parent().unwrap_or(Path::new(""));
    let ttl_seconds = kept(read_options(top.get("options"), &mut notes, &mut faults), &mut faults);
    let services = kept(services::read(top.get("service_types"), &mut faults), &mut faults);
    let services = services.unwrap_or_default();
    let plugins = kept(plugins(top.get("plugins")), &mut faults).unwrap_or_default();
    let maps = match plugins.get("geoip") {
        Some(geoip) => read_maps(geoip, &folder.join("geoip"), &mut faults),
        None => BTreeMap::new(),
    };
    let zones = read_zones(&folder.join("zones"), ttl_seconds.unwrap_or(TTL_SECONDS), &mut faults);
    let mut writer = Writer { maps: &maps, notes, pools: String::new(), used: Vec::new() };
    let resources = Resources { plugins, services: &services, maps: &maps };
    writer.pools(&zones, &resources, &mut faults);
    let toml = kept(writer.toml(&zones), &mut faults).unwrap_or_default();
    let mut notes = writer.notes;
    notes.sort_by(|a, b| a.place.cmp(&b.place));
    notes.dedup();
    faults.sort_by(|a, b| a.place.cmp(&b.place));
    faults.dedup();
    if faults.is_empty() { Ok(Conversion { toml, zones, notes }) } else { Err(faults) }
}

/// Goes on without what is wrong, to find more of it.
fn kept<T>(result: Result<T, Fault>, faults: &mut Vec<Fault>) -> Option<T> {
    result.map_err(|fault| faults.push(fault)).ok()
}

/// Gives the TTL of records without one.
fn read_options(
    options: Option<&Value>,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Result<u64, Fault> {
    let mut ttl_seconds = TTL_SECONDS;
    let Some(options) = options else { return Ok(ttl_seconds) };
    for entry in &options.hash("options")?.entries {
        let (key, value) = (&*entry.key, &entry.value);
        match key {
            "zones_default_ttl" => ttl_seconds = value.number(key)?,
            "edns_client_subnet" if !value.flag(key)? => faults.push(
                value.fault("'edns_client_subnet' off has no counterpart: client subnets count"),
            ),
            "edns_client_subnet" => {}
            "disable_text_autosplit"
            | "zones_rfc1035_auto"
            | "zones_strict_data"
            | "zones_strict_startup"
            | "zones_rfc1035_threads"
            | "zones_rfc1035_auto_interval"
            | "include_optional_ns"
            | "any_mitigation"
            | "weaker_security"
            | "username"
            | "priority"
            | "http_listen"
            | "http_port"
            | "plugin_search_path"
            | "disable_cookies" => notes.push(of_running(key, value)),
            key if OPTIONS_OF_RUNNING.contains(&key) => notes.push(of_running(key, value)),
            key => faults.push(value.fault(format!("the option '{key}' is not known"))),
        }
    }
    Ok(ttl_seconds)
}

fn of_running(key: &str, value: &Value) -> Fault {
    value.fault(format!("the option '{key}' is about how gdnsd runs: see [dns] for ours"))
}

fn plugins(value: Option<&Value>) -> Result<BTreeMap<&str, &Value>, Fault> {
    let Some(value) = value else { return Ok(BTreeMap::new()) };
    let entries = value.hash("plugins")?.entries.iter();
    Ok(entries.map(|entry| (&*entry.key, &entry.value)).collect())
}

fn read_maps(geoip: &Value, folder: &Path, faults: &mut Vec<Fault>) -> BTreeMap<String, Map> {
    let maps = geoip.hash("geoip").map(|hash| hash.get("maps"));
    let Some(maps) = kept(maps, faults).flatten() else { return BTreeMap::new() };
    let Some(maps) = kept(maps.hash("maps"), faults) else { return BTreeMap::new() };
    let read = |entry: &vscf::Entry| {
        let map = kept(Map::read(&entry.key, &entry.value, folder), faults)?;
        Some((entry.key.clone(), map))
    };
    maps.entries.iter().filter_map(read).collect()
}

/// Every file of the folder whose name does not begin with a dot is a zone.
fn read_zones(folder: &Path, ttl_seconds: u64, faults: &mut Vec<Fault>) -> Vec<Master> {
    let place = || vscf::Place { file: folder.into(), line: 1, column: 1 };
    let list = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let list = list.map_err(|error| Fault { place: place(), message: error.to_string() });
    let Some(list) = kept(list, faults) else { return Vec::new() };
    let mut paths: Vec<_> = list.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let mut zones = Vec::new();
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            faults.push(Fault { place: place(), message: format!("{path:?} is no zone's name") });
            continue;
        };
        if name.starts_with('.') || path.is_dir() {
            continue;
        }
        match master::convert(&path, &name.replace('@', "/"), ttl_seconds) {
            Ok(zone) => zones.push(zone),
            Err(more) => faults.extend(more),
        }
    }
    zones
}

struct Writer<'a> {
    maps: &'a BTreeMap<String, Map>,
    notes: Vec<Fault>,
    pools: String,
    /// Maps that a pool asks.
    used: Vec<String>,
}

impl Writer<'_> {
    /// One pool for each resource and TTL, with all names that are answered from it.
    fn pools(&mut self, zones: &[Master], resources: &Resources<'_>, faults: &mut Vec<Fault>) {
        let mut drafts: BTreeMap<(String, u64), (PoolBuilder, Vec<&Owner>)> = BTreeMap::new();
        for owner in zones.iter().flat_map(|zone| &zone.owners) {
            let draft = resources.draft(&owner.plugin, &owner.resource, &owner.value);
            let Some(draft) = kept(draft, faults) else { continue };
            let ttl_seconds = self.ttl(owner, &draft);
            let name = format!("{}-{}", owner.plugin, owner.resource);
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
            self.used.extend(draft.map.clone());
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

    fn toml(&mut self, zones: &[Master]) -> Result<String, Fault> {
        let mut text = "# Made by whered zone convert-gdnsd.\n".to_owned();
        let used: Vec<&Map> =
            self.maps.values().filter(|map| self.used.contains(&map.name)).collect();
        let nearest = self.maps.values().filter(|map| map.coordinates.is_some());
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
