//! Maps of gdnsd's `geoip` as maps of ours.
//!
//! ```text
//! map = { default => [..], EU => { default => [..], DE => [..], US => { CA => [..] } } }
//!                    continents.EU ┘                │           └─ subdivisions.US-CA
//!                                     countries.DE ─┘        nets -> networks
//! ```
//! With `auto_dc_coords` the nearest datacenter is taken of those that a list leaves: then lists
//! may have one datacenter, or all that have coordinates (`auto`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::text::{quoted, quoted_list};
use super::vscf::{self, Data, Fault, Hash, Place, Value};

const CONTINENTS: [&str; 7] = ["AF", "AN", "AS", "EU", "NA", "OC", "SA"];
const KEYS: [&str; 7] =
    ["geoip2_db", "datacenters", "ignore_ecs", "nets", "map", "auto_dc_coords", "auto_dc_limit"];

/// One map.
#[derive(Debug)]
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
    /// Reads one; files are beside `folder`.
    pub(super) fn read(name: &str, value: &Value, folder: &Path) -> Result<Map, Fault> {
        let hash = value.hash("a map")?;
        if let Some(entry) = hash.entries.iter().find(|entry| !KEYS.contains(&&*entry.key)) {
            return Err(entry.value.fault(format!("the key '{}' of a map", entry.key)));
        }
        let datacenters = hash.get("datacenters");
        let datacenters = datacenters
            .ok_or_else(|| value.fault("a map without 'datacenters'"))?
            .texts("datacenters")?;
        if let Some(ignored) = hash.get("ignore_ecs")
            && ignored.flag("ignore_ecs")?
        {
            return Err(ignored.fault("'ignore_ecs' has no counterpart: client subnets count"));
        }
        let database = match hash.get("geoip2_db") {
            Some(file) => Some(folder.join(file.text("geoip2_db")?)),
            None => None,
        };
        let mut map = Map {
            name: name.to_owned(),
            place: value.place.clone(),
            coordinates: read_coordinates(hash.get("auto_dc_coords"), &datacenters)?,
            datacenters,
            database,
            default: None,
            continents: BTreeMap::new(),
            countries: BTreeMap::new(),
            subdivisions: BTreeMap::new(),
            networks: Vec::new(),
            notes: Vec::new(),
        };
        map.note_limit(value, hash.get("auto_dc_limit"))?;
        if map.coordinates.is_none() {
            map.default = Some(map.datacenters.clone());
        }
        if let Some(tree) = hash.get("map") {
            if map.database.is_none() {
                return Err(tree.fault("'map' without 'geoip2_db'"));
            }
            map.read_world(tree)?;
        }
        if let Some(nets) = hash.get("nets") {
            map.read_nets(nets, folder)?;
        }
        Ok(map)
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

    fn read_world(&mut self, tree: &Value) -> Result<(), Fault> {
        for entry in &tree.hash("map")?.entries {
            let (code, value) = (&entry.key, &entry.value);
            if code == "default" {
                let list = self.list(value)?;
                // All that have coordinates: the same as no list.
                let is_auto = self.coordinates.is_some() && list.len() > 1;
                self.default = (!is_auto).then_some(list);
            } else if CONTINENTS.contains(&&**code) {
                self.read_continent(code, value)?;
            } else {
                let allowed = format!("default, {}", CONTINENTS.join(", "));
                return Err(value.fault(format!("'{code}' is no continent; allowed: {allowed}")));
            }
        }
        Ok(())
    }

    fn read_continent(&mut self, code: &str, value: &Value) -> Result<(), Fault> {
        let Data::Hash(hash) = &value.data else {
            self.continents.insert(code.to_owned(), self.list(value)?);
            return Ok(());
        };
        for entry in &hash.entries {
            let (code_below, value) = (&entry.key, &entry.value);
            if code_below == "default" {
                self.continents.insert(code.to_owned(), self.list(value)?);
            } else if is_code(code_below, 2..=2) {
                self.read_country(code_below, value)?;
            } else {
                return Err(value.fault(format!(
                    "'{code_below}' in {code} is no country; allowed: default, two letters"
                )));
            }
        }
        Ok(())
    }

    fn read_country(&mut self, code: &str, value: &Value) -> Result<(), Fault> {
        let Data::Hash(hash) = &value.data else {
            self.countries.insert(code.to_owned(), self.list(value)?);
            return Ok(());
        };
        for entry in &hash.entries {
            let (below, value) = (&entry.key, &entry.value);
            if below == "default" {
                self.countries.insert(code.to_owned(), self.list(value)?);
            } else if is_code(below, 1..=3) {
                self.subdivisions.insert(format!("{code}-{below}"), self.list(value)?);
            } else {
                return Err(value.fault(format!(
                    "'{below}' in {code} is a city, which maps have no lists for; allowed: \
                     default, codes of subdivisions"
                )));
            }
        }
        Ok(())
    }

    fn read_nets(&mut self, nets: &Value, folder: &Path) -> Result<(), Fault> {
        let read;
        let hash: &Hash = match &nets.data {
            Data::Text(file) => {
                read = vscf::read(&folder.join(file))?;
                &read
            }
            _ => nets.hash("nets")?,
        };
        for entry in &hash.entries {
            let wrong = || entry.value.fault(format!("'{}' is no network", entry.key));
            let network = network_of(&entry.key).ok_or_else(wrong)?;
            let list = self.list(&entry.value)?;
            self.networks.push((network, list));
        }
        Ok(())
    }

    /// A list of datacenters, which must be the map's own.
    fn list(&self, value: &Value) -> Result<Vec<String>, Fault> {
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
            Some(unknown) => Err(value.fault(format!("no such datacenter '{unknown}'"))),
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
type Coordinates = BTreeMap<String, (f64, f64)>;

fn read_coordinates(
    value: Option<&Value>,
    datacenters: &[String],
) -> Result<Option<Coordinates>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let mut coordinates = BTreeMap::new();
    for entry in &value.hash("auto_dc_coords")?.entries {
        if !datacenters.contains(&entry.key) {
            return Err(entry.value.fault(format!("no such datacenter '{}'", entry.key)));
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
    match datacenters.iter().find(|name| !coordinates.contains_key(*name)) {
        Some(without) => Err(value.fault(format!(
            "the datacenter '{without}' has no coordinates; allowed: all of a map's, or none"
        ))),
        None => Ok(Some(coordinates)),
    }
}

fn is_code(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    length.contains(&text.len()) && text.bytes().all(is_plain)
}

/// A network as we write it: IPv4 in IPv6's lowest 32 bits is IPv4.
fn network_of(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    match address {
        IpAddr::V4(address) => (length <= 32).then(|| format!("{address}/{length}")),
        IpAddr::V6(address) => {
            let low = u32::try_from(u128::from(address)).ok();
            match low.filter(|_| length >= 96 && address != Ipv6Addr::LOCALHOST) {
                Some(low) => Some(format!("{}/{}", std::net::Ipv4Addr::from(low), length - 96)),
                None => (length <= 128).then(|| format!("{address}/{length}")),
            }
        }
    }
}
