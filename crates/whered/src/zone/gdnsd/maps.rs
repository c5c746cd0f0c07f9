//! Maps of gdnsd's `geoip` as maps of ours.
//!
//! ```text
//! map = { default => [..], EU => { default => [..], DE => [..], US => { CA => [..] } } }
//!                    continents.EU ┘                │           └─ subdivisions.US-CA
//!                                     countries.DE ─┘        nets -> networks
//! ```
//! With `auto_dc_coords` the nearest datacenter is taken of those that a list leaves: then lists
//! may have one datacenter, or all that have coordinates (`auto`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::text::{quoted, quoted_list};
use super::vscf::{self, Data, Fault, Hash, Place, ReadBudget, Value};

const CONTINENTS: [&str; 7] = ["AF", "AN", "AS", "EU", "NA", "OC", "SA"];
const KEYS: [&str; 7] =
    ["geoip2_db", "datacenters", "ignore_ecs", "nets", "map", "auto_dc_coords", "auto_dc_limit"];

/// One map.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Map {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) datacenters: Vec<String>,
    /// Latitude and longitude of each datacenter, when the nearest is taken.
    pub(super) coordinates: Option<BTreeMap<String, (f64, f64)>>,
    pub(super) database: Option<PathBuf>,
    default: Option<Vec<String>>,
    continents: BTreeMap<String, Vec<String>>,
    countries: BTreeMap<String, Vec<String>>,
    subdivisions: BTreeMap<String, Vec<String>>,
    networks: Vec<(String, Vec<String>)>,
    /// What is odd.
    pub(super) notes: Vec<Fault>,
}

impl Map {
    /// Reads one; files are beside `folder`. What is wrong with single lists is added to `faults`.
    pub(super) fn read(
        name: &str,
        value: &Value,
        folder: &Path,
        budget: &mut ReadBudget,
        faults: &mut Vec<Fault>,
    ) -> Result<Map, Fault> {
        let hash = value.hash("a map")?;
        for entry in hash.entries.iter().filter(|entry| !KEYS.contains(&&*entry.key)) {
            let allowed = KEYS.join(", ");
            faults.push(
                entry.value.fault(format!("the key '{}' of a map; allowed: {allowed}", entry.key)),
            );
        }
        let datacenters = hash.get("datacenters");
        let datacenters = datacenters
            .ok_or_else(|| value.fault("a map without 'datacenters'"))?
            .texts("datacenters")?;
        if let Some(ignored) = hash.get("ignore_ecs")
            && ignored.flag("ignore_ecs")?
        {
            faults.push(ignored.fault("'ignore_ecs' has no counterpart: client subnets count"));
        }
        let database = match hash.get("geoip2_db") {
            Some(file) => Some(folder.join(file.text("geoip2_db")?)),
            None => None,
        };
        let mut map = Map {
            name: name.to_owned(),
            place: value.place.clone(),
            coordinates: read_coordinates(hash.get("auto_dc_coords"), &datacenters, faults)?,
            datacenters,
            database,
            default: None,
            continents: BTreeMap::new(),
            countries: BTreeMap::new(),
            subdivisions: BTreeMap::new(),
            networks: Vec::new(),
            notes: Vec::new(),
        };
        if let (Some(coordinates), None) = (hash.get("auto_dc_coords"), &map.database) {
            faults.push(coordinates.fault("'auto_dc_coords' without 'geoip2_db'"));
        }
        if let (Some(path), Some(value)) = (&map.database, hash.get("geoip2_db"))
            && !path.exists()
        {
            map.notes.push(value.fault(format!(
                "there is no {}; it must be there for `whered check` and `whered serve`",
                path.display()
            )));
        }
        map.note_limit(value, hash.get("auto_dc_limit"))?;
        if map.coordinates.is_none() {
            map.default = Some(map.datacenters.clone());
        }
        if let Some(tree) = hash.get("map") {
            if map.database.is_none() {
                faults.push(tree.fault("'map' without 'geoip2_db'"));
            }
            map.read_world(tree, faults)?;
        }
        if let Some(nets) = hash.get("nets") {
            map.read_nets(nets, folder, budget, faults)?;
        }
        Ok(map)
    }

    /// The map of one resource, whose lists name its groups. It keeps its name where no list is
    /// another one.
    pub(super) fn changed(
        &self,
        resource: &str,
        change: impl Fn(&[String]) -> Vec<String>,
    ) -> Result<Map, Fault> {
        let one = |list: &Vec<String>| {
            let new = change(list);
            if new.is_empty() {
                let message = format!(
                    "found a list ({}) of which {resource} has no datacenter, so that gdnsd answers \
                     nothing; allowed: lists with an answer",
                    list.join(", ")
                );
                return Err(Fault { place: self.place.clone(), message });
            }
            Ok(new)
        };
        let all = |lists: &BTreeMap<String, Vec<String>>| -> Result<BTreeMap<_, _>, Fault> {
            lists.iter().map(|(key, list)| Ok((key.clone(), one(list)?))).collect()
        };
        let networks = self.networks.iter().map(|(key, list)| Ok((key.clone(), one(list)?)));
        let mut own = Map {
            default: self.default.as_ref().map(one).transpose()?,
            continents: all(&self.continents)?,
            countries: all(&self.countries)?,
            subdivisions: all(&self.subdivisions)?,
            networks: networks.collect::<Result<_, Fault>>()?,
            ..self.clone()
        };
        if own != *self {
            own.name = format!("{}-{resource}", self.name);
        }
        Ok(own)
    }

    pub(super) fn needs_default(&self) -> bool {
        self.default.is_none()
    }

    /// The map of one resource with a list for clients that no other list is for.
    pub(super) fn with_default(self, resource: &str, list: Vec<String>) -> Map {
        let name = format!("{}-{resource}", self.name.trim_end_matches(&format!("-{resource}")));
        Map { name, default: Some(list), ..self }
    }

    /// All names of all lists, in the order of the default.
    pub(super) fn names(&self) -> Vec<String> {
        let maps = [&self.continents, &self.countries, &self.subdivisions];
        let lists = maps.into_iter().flat_map(BTreeMap::values);
        let lists = self.default.iter().chain(lists);
        let lists = lists.chain(self.networks.iter().map(|(_, list)| list));
        let mut names = Vec::new();
        let mut seen = HashSet::new();
        for name in lists.flatten() {
            if seen.insert(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// gdnsd gives up after this many sites; we go on to the next nearest.
    fn note_limit(&mut self, value: &Value, limit: Option<&Value>) -> Result<(), Fault> {
        let limit = limit.map_or(Ok(3), |limit| limit.number::<usize>("auto_dc_limit"))?;
        if self.coordinates.is_some() && limit != 0 && limit < self.datacenters.len() {
            self.notes.push(value.fault(format!(
                "with the {limit} nearest datacenters down the next one is taken; gdnsd takes the \
                 nearest all the same"
            )));
        }
        Ok(())
    }

    fn read_world(&mut self, tree: &Value, faults: &mut Vec<Fault>) -> Result<(), Fault> {
        for entry in &tree.hash("map")?.entries {
            let (code, value) = (&entry.key, &entry.value);
            if code == "default" {
                let Some(list) = self.list(value, faults) else { continue };
                // All that have coordinates: the same as no list.
                let is_auto = self.coordinates.is_some() && list.len() > 1;
                self.default = (!is_auto).then_some(list);
            } else if CONTINENTS.contains(&&**code) {
                self.read_continent(code, value, faults);
            } else {
                let allowed = format!("default, {}", CONTINENTS.join(", "));
                faults.push(value.fault(format!("'{code}' is no continent; allowed: {allowed}")));
            }
        }
        Ok(())
    }

    fn read_continent(&mut self, code: &str, value: &Value, faults: &mut Vec<Fault>) {
        let Data::Hash(hash) = &value.data else {
            let list = self.list(value, faults);
            self.continents.extend(list.map(|list| (code.to_owned(), list)));
            return;
        };
        for entry in &hash.entries {
            let (code_below, value) = (&entry.key, &entry.value);
            if code_below == "default" {
                let list = self.list(value, faults);
                self.continents.extend(list.map(|list| (code.to_owned(), list)));
            } else if is_code(code_below, 2..=2) {
                self.read_country(code_below, value, faults);
            } else {
                faults.push(value.fault(format!(
                    "'{code_below}' in {code} is no country; allowed: default, two letters"
                )));
            }
        }
    }

    fn read_country(&mut self, code: &str, value: &Value, faults: &mut Vec<Fault>) {
        let Data::Hash(hash) = &value.data else {
            let list = self.list(value, faults);
            self.countries.extend(list.map(|list| (code.to_owned(), list)));
            return;
        };
        for entry in &hash.entries {
            let (below, value) = (&entry.key, &entry.value);
            if below == "default" {
                let list = self.list(value, faults);
                self.countries.extend(list.map(|list| (code.to_owned(), list)));
            } else if is_code(below, 1..=3) {
                let list = self.list(value, faults);
                self.subdivisions.extend(list.map(|list| (format!("{code}-{below}"), list)));
            } else {
                faults.push(value.fault(format!(
                    "'{below}' in {code} is a city, which maps have no lists for; allowed: \
                     default, codes of subdivisions"
                )));
            }
        }
    }

    fn read_nets(
        &mut self,
        nets: &Value,
        folder: &Path,
        budget: &mut ReadBudget,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let read;
        let hash: &Hash = match &nets.data {
            Data::Text(file) => {
                read = vscf::read(&folder.join(file), budget, faults);
                &read
            }
            _ => nets.hash("nets")?,
        };
        let mut known: HashMap<String, usize> = HashMap::new();
        for entry in &hash.entries {
            let (network, has_host_bits) = match network_of(&entry.key) {
                Ok(found) => found,
                Err(why) => {
                    faults.push(Fault { place: entry.place.clone(), message: why });
                    continue;
                }
            };
            if has_host_bits {
                self.notes.push(Fault {
                    place: entry.place.clone(),
                    message: format!(
                        "'{}' has bits behind its prefix; taken as {network}",
                        entry.key
                    ),
                });
            }
            let Some(list) = self.list(&entry.value, faults) else { continue };
            match known.get(&network).map(|at| &self.networks[*at].1) {
                Some(other) if *other != list => faults.push(Fault {
                    place: entry.place.clone(),
                    message: format!(
                        "{network} is there twice with different lists; allowed: once"
                    ),
                }),
                Some(_) => {}
                None => {
                    known.insert(network.clone(), self.networks.len());
                    self.networks.push((network, list));
                }
            }
        }
        Ok(())
    }

    /// A list of datacenters; a wrong one is added to `faults`.
    fn list(&self, value: &Value, faults: &mut Vec<Fault>) -> Option<Vec<String>> {
        self.read_list(value).map_err(|fault| faults.push(fault)).ok()
    }

    /// A list of datacenters, which must be the map's own.
    fn read_list(&self, value: &Value) -> Result<Vec<String>, Fault> {
        let list = match &value.data {
            Data::Hash(_) => {
                return Err(value.fault("lists below subdivisions have no counterpart"));
            }
            _ => value.texts("a list of datacenters")?,
        };
        match &self.coordinates {
            Some(coordinates) if list == ["auto"] => {
                let with_place = |name: &&String| coordinates.contains_key(*name);
                return Ok(self.datacenters.iter().filter(with_place).cloned().collect());
            }
            Some(_) if list.len() > 1 => {
                return Err(value.fault(
                    "a list of several datacenters in a map with 'auto_dc_coords', where the \
                     nearest is taken; allowed: one, auto",
                ));
            }
            _ => {}
        }
        match list.iter().find(|name| !self.datacenters.contains(name)) {
            Some(unknown) => {
                let allowed = self.datacenters.join(", ");
                Err(value.fault(format!("no such datacenter '{unknown}'; allowed: {allowed}")))
            }
            None if list.is_empty() => {
                Err(value.fault("an empty list, for which gdnsd answers nothing"))
            }
            None => Ok(list),
        }
    }

    /// Whether any list says more than that the nearest is taken.
    pub(super) fn has_lists(&self) -> bool {
        let maps = [&self.continents, &self.countries, &self.subdivisions];
        self.default.is_some()
            || !self.networks.is_empty()
            || maps.iter().any(|map| !map.is_empty())
    }

    /// `[[map]]` of ours.
    pub(super) fn toml(&self, database: Option<&str>) -> String {
        let mut text = format!("[[map]]\nname = {}\n", quoted(&self.name));
        if let Some(database) = database {
            let _ = writeln!(text, "database = {}", quoted(database));
        }
        if let Some(default) = &self.default {
            let _ = writeln!(text, "default = {}", quoted_list(default));
        }
        let tables = [
            ("continents", &self.continents),
            ("countries", &self.countries),
            ("subdivisions", &self.subdivisions),
        ];
        for (name, lists) in tables {
            write_lists(&mut text, name, lists.iter());
        }
        write_lists(&mut text, "networks", self.networks.iter().map(|(key, list)| (key, list)));
        text
    }
}

fn write_lists<'a>(
    text: &mut String,
    name: &str,
    lists: impl Iterator<Item = (&'a String, &'a Vec<String>)>,
) {
    let mut lists = lists.peekable();
    if lists.peek().is_some() {
        let _ = writeln!(text, "[map.{name}]");
    }
    for (key, list) in lists {
        let _ = writeln!(text, "{} = {}", quoted(key), quoted_list(list));
    }
}

/// Latitude and longitude by datacenter.
pub(super) type Coordinates = BTreeMap<String, (f64, f64)>;

fn read_coordinates(
    value: Option<&Value>,
    datacenters: &[String],
    faults: &mut Vec<Fault>,
) -> Result<Option<Coordinates>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let mut coordinates = BTreeMap::new();
    for entry in &value.hash("auto_dc_coords")?.entries {
        if !datacenters.contains(&entry.key) {
            faults.push(entry.value.fault(format!("no such datacenter '{}'", entry.key)));
            continue;
        }
        let [latitude, longitude] = entry.value.elements() else {
            return Err(entry.value.fault("coordinates are [latitude, longitude]"));
        };
        let degrees = |value: &Value, limit: f64| {
            let degrees: f64 = value.number("a coordinate")?;
            let is_within = (-limit..=limit).contains(&degrees);
            is_within.then_some(degrees).ok_or_else(|| value.fault("a coordinate out of range"))
        };
        let place = (degrees(latitude, 90.0)?, degrees(longitude, 180.0)?);
        coordinates.insert(entry.key.clone(), place);
    }
    if coordinates.is_empty() {
        return Err(value.fault("no datacenter has coordinates; allowed: at least one"));
    }
    Ok(Some(coordinates))
}

fn is_code(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    length.contains(&text.len()) && text.bytes().all(is_plain)
}

/// A network as we write it, and whether bits behind its prefix were set. IPv4 in IPv6's lowest 32
/// bits is IPv4.
fn network_of(text: &str) -> Result<(String, bool), String> {
    let wrong = || format!("'{text}' is no network; allowed: ADDRESS/LENGTH");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let bits = match address {
        IpAddr::V4(address) if length <= 32 => u128::from(u32::from(address)),
        IpAddr::V6(address) if length <= 128 => u128::from(address),
        _ => return Err(wrong()),
    };
    let length = if address.is_ipv4() { length + 96 } else { length };
    let masked = bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    let spaces = ["::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "2001::", "2002::"];
    for (space, own_length) in spaces.into_iter().zip([96_u8, 96, 96, 32, 16]) {
        let base = space.parse::<Ipv6Addr>().map_or(0, u128::from);
        let shift = 128 - u32::from(own_length);
        if address.is_ipv6() && length >= own_length && masked >> shift == base >> shift {
            return Err(format!(
                "'{text}' is in {space}/{own_length}; allowed: the IPv4 network itself"
            ));
        }
    }
    let shown = match u32::try_from(masked) {
        Ok(low) if length >= 96 => format!("{}/{}", Ipv4Addr::from(low), length - 96),
        _ => format!("{}/{length}", Ipv6Addr::from(masked)),
    };
    Ok((shown, masked != bits))
}
