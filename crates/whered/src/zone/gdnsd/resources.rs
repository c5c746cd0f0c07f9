//! Resources of gdnsd's plugins as pools of ours.
//!
//! ```text
//! multifo   one site for each address (one for all, when none is watched), all that are up
//! weighted  one site for each entry, by weight
//! simplefo  two sites, the first that is up
//! metafo    a group for each datacenter, the first that is up enough
//! geoip     the same in the order that a map gives, or the nearest
//! static    one site
//! ```
//! What cannot be said so is a fault with its place.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::maps::Map;
use super::services::Services;
use super::vscf::{Data, Fault, Hash, Value};

/// The most sites that are answered together.
const ANSWERS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 64;
const PARAMETERS: [&str; 4] = ["service_types", "up_thresh", "ignore_health", "multi"];

/// A pool that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) policy: Vec<String>,
    pub(super) answers: usize,
    pub(super) sites: Vec<SiteDraft>,
    /// The map that the policy names.
    pub(super) map: Option<String>,
    /// How long an answer stays as it is at least; `None`: for ever.
    pub(super) steady_seconds: Option<u64>,
    pub(super) notes: Vec<Fault>,
}

/// A site that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct SiteDraft {
    pub(super) name: String,
    pub(super) group: Option<String>,
    /// Latitude and longitude.
    pub(super) at: Option<(f64, f64)>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) alias: Option<String>,
    pub(super) weight: Option<u32>,
    pub(super) checks: Vec<String>,
}

impl SiteDraft {
    fn new(name: impl Into<String>, addresses: Vec<IpAddr>) -> SiteDraft {
        SiteDraft {
            name: name.into(),
            group: None,
            at: None,
            addresses,
            alias: None,
            weight: None,
            checks: Vec::new(),
        }
    }
}

/// What a resource, or a datacenter of one, comes to.
#[derive(Clone, Debug)]
struct Content {
    sites: Vec<SiteDraft>,
    /// All that are up, the first that is, or one by weight.
    choice: Choice,
    up_thresh: f64,
    ignore_health: bool,
    steady_seconds: Option<u64>,
    notes: Vec<Fault>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    All,
    First,
    Weighted,
}

/// Everything that resources refer to.
pub(super) struct Resources<'a> {
    pub(super) plugins: BTreeMap<&'a str, &'a Value>,
    pub(super) services: &'a Services,
    pub(super) maps: &'a BTreeMap<String, Map>,
}

/// What is inherited downwards.
#[derive(Clone)]
struct Parameters {
    services: Vec<String>,
    up_thresh: f64,
    ignore_health: bool,
    multi: bool,
}

impl Parameters {
    fn new() -> Parameters {
        let services = vec!["up".to_owned()];
        Parameters { services, up_thresh: 0.5, ignore_health: false, multi: false }
    }

    fn inherit(&self, hash: &Hash) -> Result<Parameters, Fault> {
        let mut own = self.clone();
        if let Some(value) = hash.get("service_types") {
            own.services = value.texts("service_types")?;
        }
        if let Some(value) = hash.get("up_thresh") {
            own.up_thresh = value.number("up_thresh")?;
            if !(own.up_thresh > 0.0 && own.up_thresh <= 1.0) {
                return Err(value.fault("'up_thresh' is above 0 and up to 1"));
            }
        }
        if let Some(value) = hash.get("ignore_health") {
            own.ignore_health = value.flag("ignore_health")?;
        }
        if let Some(value) = hash.get("multi") {
            own.multi = value.flag("multi")?;
        }
        Ok(own)
    }
}

impl Resources<'_> {
    /// The pool for `plugin!resource` or `plugin!resource/datacenter`; `at` is where it is named.
    pub(super) fn draft(&self, plugin: &str, resource: &str, at: &Value) -> Result<Draft, Fault> {
        if let "geoip" | "metafo" = plugin {
            let (name, datacenter) = match resource.split_once('/') {
                Some((name, datacenter)) => (name, Some(datacenter)),
                None => (resource, None),
            };
            return self.meta(plugin, name, datacenter, at);
        }
        let content = self.plain(plugin, resource, at)?;
        let mut policy = Vec::new();
        let mut sites = content.sites;
        if content.choice == Choice::All && sites.len() > 1 && !content.ignore_health {
            sites.iter_mut().for_each(|site| site.group = Some(resource.to_owned()));
            policy.push(format!("failover:{}", content.up_thresh));
        }
        if !content.ignore_health {
            policy.push("healthy".to_owned());
        }
        if content.choice == Choice::Weighted {
            policy.push("weighted".to_owned());
        }
        let answers = if content.choice == Choice::All { sites.len() } else { 1 };
        let (steady_seconds, notes) = (content.steady_seconds, content.notes);
        Ok(Draft { policy, answers, sites, map: None, steady_seconds, notes })
    }

    fn plugin(&self, plugin: &str, at: &Value) -> Result<&Hash, Fault> {
        let found = self.plugins.get(plugin);
        let found = found.ok_or_else(|| at.fault(format!("no plugin '{plugin}' is configured")))?;
        found.hash("a plugin")
    }

    /// A resource of a plugin that asks no other.
    fn plain(&self, plugin: &str, resource: &str, at: &Value) -> Result<Content, Fault> {
        let all = match plugin {
            "multifo" | "weighted" | "simplefo" | "static" => self.plugin(plugin, at)?,
            other => {
                return Err(at.fault(format!(
                    "the plugin '{other}' has no counterpart; allowed: geoip, metafo, multifo, \
                     weighted, simplefo, static"
                )));
            }
        };
        let found = all.get(resource).filter(|_| !PARAMETERS.contains(&resource));
        let value =
            found.ok_or_else(|| at.fault(format!("no such resource {plugin}!{resource}")))?;
        if plugin == "static" {
            return self.single(resource, value);
        }
        self.of_plugin(plugin, resource, value, &Parameters::new().inherit(all)?)
    }

    fn of_plugin(
        &self,
        plugin: &str,
        name: &str,
        value: &Value,
        parameters: &Parameters,
    ) -> Result<Content, Fault> {
        match plugin {
            "multifo" => self.multifo(name, value, parameters),
            "weighted" => self.weighted(name, value, parameters),
            "simplefo" => self.simplefo(value, parameters),
            other => Err(value.fault(format!("the plugin '{other}' cannot be asked here"))),
        }
    }

    /// One address or name, as `static` and datacenters have them.
    fn single(&self, name: &str, value: &Value) -> Result<Content, Fault> {
        let text = value.text("a target")?;
        let mut site = SiteDraft::new(name, Vec::new());
        match text.parse() {
            Ok(address) => site.addresses.push(address),
            Err(_) => site.alias = Some(alias_of(text, value)?),
        }
        Ok(Content {
            sites: vec![site],
            choice: Choice::All,
            up_thresh: 0.5,
            ignore_health: false,
            steady_seconds: None,
            notes: Vec::new(),
        })
    }

    fn multifo(
        &self,
        name: &str,
        value: &Value,
        parameters: &Parameters,
    ) -> Result<Content, Fault> {
        let mut families = Vec::new();
        match &value.data {
            Data::Hash(hash) => {
                let own = parameters.inherit(hash)?;
                let mut direct = false;
                for key in ["addrs_v4", "addrs_v6"] {
                    if let Some(family) = hash.get(key) {
                        families.push((family, own.clone()));
                    }
                }
                if families.is_empty() {
                    families.push((value, own));
                    direct = true;
                }
                let known =
                    |key: &str| direct || PARAMETERS.contains(&key) || key.starts_with("addrs_v");
                if let Some(entry) = hash.entries.iter().find(|entry| !known(&entry.key)) {
                    return Err(entry
                        .value
                        .fault(format!("'{}' beside addrs_v4, addrs_v6", entry.key)));
                }
            }
            _ => families.push((value, parameters.clone())),
        }
        let mut listed = Vec::new();
        let mut settings: Option<Parameters> = None;
        for (family, parameters) in families {
            let own = match &family.data {
                Data::Hash(hash) => parameters.inherit(hash)?,
                _ => parameters,
            };
            if let Some(first) = &settings
                && (first.up_thresh, first.ignore_health) != (own.up_thresh, own.ignore_health)
            {
                return Err(family.fault("other 'up_thresh' or 'ignore_health' than its sibling's"));
            }
            for (label, address) in addresses_of(family)? {
                listed.push((label, address, own.services.clone(), family));
            }
            settings = Some(own);
        }
        let settings = settings.unwrap_or_else(|| parameters.clone());
        self.of_addresses(name, value, listed, &settings)
    }

    /// One site for all addresses when nothing ever changes, else one for each.
    fn of_addresses(
        &self,
        name: &str,
        value: &Value,
        listed: Vec<(String, IpAddr, Vec<String>, &Value)>,
        settings: &Parameters,
    ) -> Result<Content, Fault> {
        let mut content = Content {
            sites: Vec::new(),
            choice: Choice::All,
            up_thresh: settings.up_thresh,
            ignore_health: settings.ignore_health,
            steady_seconds: None,
            notes: Vec::new(),
        };
        if listed.is_empty() {
            return Err(value.fault("no address"));
        }
        let both = listed.iter().any(|(_, a, ..)| a.is_ipv4() != listed[0].1.is_ipv4());
        let mut all = Vec::new();
        for (label, address, services, place) in listed {
            let family = if address.is_ipv4() { "v4" } else { "v6" };
            let label =
                if both { format!("{name}-{label}-{family}") } else { format!("{name}-{label}") };
            let mut site = SiteDraft::new(label, vec![address]);
            let steady = self.watch(&mut site, &address.to_string(), &services, place)?;
            content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
            all.push(site);
        }
        if all.iter().all(|site| site.checks.is_empty()) {
            let addresses: Vec<_> = all.iter().flat_map(|site| site.addresses.clone()).collect();
            if addresses.len() > ADDRESSES_MAX {
                return Err(value.fault(format!("more than {ADDRESSES_MAX} addresses")));
            }
            content.sites = vec![SiteDraft::new(name, addresses)];
            return Ok(content);
        }
        if all.len() > ANSWERS_MAX {
            return Err(value.fault(format!(
                "more than {ANSWERS_MAX} addresses that are watched: so many sites are answered together"
            )));
        }
        if !settings.ignore_health {
            content.notes.push(value.fault(
                "with fewer addresses up than 'up_thresh' asks for, those that are up are answered; \
                 gdnsd answers all",
            ));
            if both {
                content.notes.push(value.fault("'up_thresh' counts both families together"));
            }
        }
        content.sites = all;
        Ok(content)
    }

    /// Adds the checks of a target; gives how long it stays as it is at least.
    fn watch(
        &self,
        site: &mut SiteDraft,
        target: &str,
        services: &[String],
        place: &Value,
    ) -> Result<Option<u64>, Fault> {
        let mut steady = None;
        for name in services {
            let service = self.services.get(name);
            let service =
                service.ok_or_else(|| place.fault(format!("no service type '{name}'")))?;
            if service.is_down() {
                return Err(place.fault(format!(
                    "the service type '{name}' is always down; a site is taken down by SITE.DOWN"
                )));
            }
            site.checks.extend(service.check(target));
            let here = service.is_watched().then(|| service.steady_seconds());
            steady = steady.into_iter().chain(here).min();
        }
        Ok(steady)
    }

    fn simplefo(&self, value: &Value, parameters: &Parameters) -> Result<Content, Fault> {
        let hash = value.hash("a resource of simplefo")?;
        let own = parameters.inherit(hash)?;
        let families: Vec<&Value> =
            ["addrs_v4", "addrs_v6"].iter().filter_map(|key| hash.get(key)).collect();
        let families = if families.is_empty() { vec![value] } else { families };
        let mut content = Content {
            sites: Vec::new(),
            choice: Choice::First,
            up_thresh: 1.0,
            ignore_health: false,
            steady_seconds: None,
            notes: Vec::new(),
        };
        for name in ["primary", "secondary"] {
            let mut site = SiteDraft::new(name, Vec::new());
            for family in &families {
                let hash = family.hash("a family")?;
                let own = own.inherit(hash)?;
                let found = hash.get(name).ok_or_else(|| family.fault(format!("no '{name}'")))?;
                let address = address_of(found)?;
                let steady = self.watch(&mut site, &address.to_string(), &own.services, found)?;
                content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
                site.addresses.push(address);
            }
            content.sites.push(site);
        }
        if families.len() > 1 && content.steady_seconds.is_some() {
            content.notes.push(value.fault("both families of a site go down together"));
        }
        Ok(content)
    }

    fn weighted(
        &self,
        name: &str,
        value: &Value,
        parameters: &Parameters,
    ) -> Result<Content, Fault> {
        let hash = value.hash("a resource of weighted")?;
        let mut own = parameters.inherit(hash)?;
        let mut entries = hash;
        match (hash.get("addrs_v4"), hash.get("addrs_v6")) {
            (Some(_), Some(second)) => {
                return Err(second.fault("weights for both families at once have no counterpart"));
            }
            (Some(family), None) | (None, Some(family)) => {
                entries = family.hash("a family")?;
                own = own.inherit(entries)?;
            }
            (None, None) => {}
        }
        let mut content = Content {
            sites: Vec::new(),
            choice: Choice::Weighted,
            up_thresh: own.up_thresh,
            ignore_health: false,
            steady_seconds: None,
            notes: Vec::new(),
        };
        for entry in entries.entries.iter().filter(|entry| !PARAMETERS.contains(&&*entry.key)) {
            let site = self.weighted_entry(&entry.key, &entry.value, &own, &mut content)?;
            content.sites.push(site);
        }
        if content.sites.is_empty() {
            return Err(value.fault("no entry"));
        }
        if own.multi {
            let mut weights = content.sites.iter().map(|site| site.weight);
            let first = weights.next();
            if weights.any(|weight| Some(weight) != first) || content.sites.len() > ANSWERS_MAX {
                return Err(value.fault("'multi' with weights that differ has no counterpart"));
            }
            // With equal weights all are answered always.
            content.choice = Choice::All;
            if content.sites.iter().all(|site| site.checks.is_empty()) {
                let addresses = content.sites.iter().flat_map(|site| site.addresses.clone());
                content.sites = vec![SiteDraft::new(name, addresses.collect())];
            }
        }
        if content.steady_seconds.is_some() {
            content.notes.push(value.fault(
                "with less weight up than 'up_thresh' asks for, what is up is chosen from; gdnsd \
                 chooses from all",
            ));
        }
        Ok(content)
    }

    fn weighted_entry(
        &self,
        label: &str,
        value: &Value,
        own: &Parameters,
        content: &mut Content,
    ) -> Result<SiteDraft, Fault> {
        if let Data::Hash(_) = value.data {
            return Err(value.fault("groups of weighted addresses have no counterpart"));
        }
        let [target, weight] = value.elements() else {
            return Err(value.fault("an entry is [address or name, weight]"));
        };
        let text = target.text("a target")?;
        let mut site = SiteDraft::new(label, Vec::new());
        site.weight = Some(weight.number("a weight")?);
        match text.parse::<IpAddr>() {
            Ok(address) => site.addresses.push(address),
            Err(_) => site.alias = Some(alias_of(text, target)?),
        }
        let watched = text.trim_end_matches('.');
        let steady = self.watch(&mut site, watched, &own.services, value)?;
        content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
        Ok(site)
    }

    /// `metafo` and `geoip`: a group for each datacenter.
    fn meta(
        &self,
        plugin: &str,
        name: &str,
        only: Option<&str>,
        at: &Value,
    ) -> Result<Draft, Fault> {
        let top = self.plugin(plugin, at)?;
        let all = top.get("resources").map_or(Ok(None), |all| all.hash("resources").map(Some))?;
        let value = all.and_then(|all| all.get(name));
        let value = value.ok_or_else(|| at.fault(format!("no such resource {plugin}!{name}")))?;
        let hash = value.hash("a resource")?;
        if let Some(skip) = hash.get("skip_first")
            && skip.flag("skip_first")?
        {
            return Err(skip.fault("'skip_first' has no counterpart"));
        }
        let map = match (plugin, hash.get("map")) {
            ("geoip", Some(named)) => {
                let name = named.text("map")?;
                let map = self.maps.get(name);
                Some(map.ok_or_else(|| named.fault(format!("no such map '{name}'")))?)
            }
            ("geoip", None) => return Err(value.fault("a resource of geoip without 'map'")),
            _ => None,
        };
        let datacenters = match (map, hash.get("datacenters")) {
            (Some(map), _) => map.datacenters.clone(),
            (None, Some(list)) => list.texts("datacenters")?,
            (None, None) => return Err(value.fault("a resource of metafo without 'datacenters'")),
        };
        let targets = hash.get("dcmap").ok_or_else(|| value.fault("a resource without 'dcmap'"))?;
        let targets_hash = targets.hash("dcmap")?;
        if let Some(odd) = targets_hash.entries.iter().find(|e| !datacenters.contains(&e.key)) {
            return Err(odd.value.fault(format!("no such datacenter '{}'", odd.key)));
        }
        let mut contents = Vec::new();
        for datacenter in &datacenters {
            let target = targets_hash.get(datacenter).ok_or_else(|| {
                targets.fault(format!("no '{datacenter}', which lists name: all must be there"))
            })?;
            if only.is_none_or(|only| only == datacenter) {
                let content = self.datacenter(datacenter, target, &[hash, top])?;
                contents.push((datacenter.clone(), content, target));
            }
        }
        if contents.is_empty() {
            return Err(at.fault(format!("no such datacenter in {plugin}!{name}")));
        }
        groups(contents, map.filter(|_| only.is_none()))
    }

    /// What one datacenter answers; `outer` gives defaults, the nearest first.
    fn datacenter(&self, name: &str, target: &Value, outer: &[&Hash]) -> Result<Content, Fault> {
        let named = |key: &str| outer.iter().find_map(|hash| hash.get(key));
        let usual = named("plugin").map_or(Ok("multifo"), |plugin| plugin.text("plugin"))?;
        let mut parameters = Parameters::new();
        for hash in outer.iter().rev() {
            parameters = parameters.inherit(hash)?;
        }
        match &target.data {
            Data::Text(text) => match text
                .strip_prefix('%')
                .or(text.strip_prefix('!').map(|_| &**text))
            {
                Some(reference) => {
                    let (plugin, resource) = reference.split_once('!').ok_or_else(|| {
                        target.fault("a reference is %plugin!resource or !resource")
                    })?;
                    let plugin = if plugin.is_empty() { usual } else { plugin };
                    if let "geoip" | "metafo" = plugin {
                        return Err(target.fault(
                            "a datacenter that is a resource of geoip or metafo has no counterpart",
                        ));
                    }
                    self.plain(plugin, resource, target)
                }
                None if text.parse::<IpAddr>().is_ok() => self.multifo(name, target, &parameters),
                None => self.single(name, target),
            },
            Data::Array(_) => self.multifo(name, target, &parameters),
            Data::Hash(hash) => {
                let plugin =
                    hash.get("plugin").map_or(Ok(usual), |plugin| plugin.text("plugin"))?;
                let mut own = target.clone();
                if let Data::Hash(hash) = &mut own.data {
                    hash.entries.retain(|entry| entry.key != "plugin");
                }
                self.of_plugin(plugin, name, &own, &parameters)
            }
        }
    }
}

/// Datacenters as groups of one pool.
fn groups(contents: Vec<(String, Content, &Value)>, map: Option<&Map>) -> Result<Draft, Fault> {
    let mut draft = Draft {
        policy: Vec::new(),
        answers: 1,
        sites: Vec::new(),
        map: None,
        steady_seconds: None,
        notes: Vec::new(),
    };
    let coordinates = map.and_then(|map| map.coordinates.as_ref());
    let mut settings: Option<(Choice, f64)> = None;
    for (datacenter, content, place) in contents {
        if content.choice == Choice::First {
            return Err(place.fault("a datacenter of 'simplefo' has no counterpart"));
        }
        if content.ignore_health {
            return Err(place.fault("'ignore_health' within datacenters has no counterpart"));
        }
        if coordinates.is_some() && content.sites.len() > 1 {
            return Err(place.fault(
                "a datacenter of several sites in a map with 'auto_dc_coords', where one is \
                 taken, has no counterpart; allowed: one address, or several that are not watched",
            ));
        }
        // One site that nobody watches is what any choice comes to.
        let is_plain = content.sites.len() == 1;
        let own = (content.choice, content.up_thresh);
        match settings {
            Some(first) if !is_plain && first != own => {
                return Err(place.fault("another plugin or 'up_thresh' than other datacenters'"));
            }
            None if !is_plain => settings = Some(own),
            _ => {}
        }
        if content.choice == Choice::All {
            draft.answers = draft.answers.max(content.sites.len());
        }
        for mut site in content.sites {
            site.group = (site.name != datacenter).then(|| datacenter.clone());
            site.name = match &site.group {
                Some(group) if !site.name.starts_with(group.as_str()) => {
                    format!("{group}-{}", site.name)
                }
                _ => site.name,
            };
            site.at = coordinates.and_then(|all| all.get(&datacenter)).copied();
            draft.sites.push(site);
        }
        let steady = content.steady_seconds;
        draft.steady_seconds = draft.steady_seconds.into_iter().chain(steady).min();
        draft.notes.extend(content.notes);
    }
    if let Some(map) = map.filter(|map| map.coordinates.is_none() || map.has_lists()) {
        draft.policy.push(format!("map:{}", map.name));
        draft.map = Some(map.name.clone());
    }
    let (choice, up_thresh) = settings.unwrap_or((Choice::All, 0.5));
    if coordinates.is_some() {
        draft.policy.extend(["healthy", "nearest"].map(str::to_owned));
    } else {
        draft.policy.extend([format!("failover:{up_thresh}"), "healthy".to_owned()]);
    }
    if choice == Choice::Weighted {
        draft.policy.push("weighted".to_owned());
        draft.answers = 1;
    }
    Ok(draft)
}

/// Labels and addresses of a hash, an array, or a single one.
fn addresses_of(value: &Value) -> Result<Vec<(String, IpAddr)>, Fault> {
    match &value.data {
        Data::Hash(hash) => {
            let entries = hash.entries.iter().filter(|entry| !PARAMETERS.contains(&&*entry.key));
            entries.map(|entry| Ok((entry.key.clone(), address_of(&entry.value)?))).collect()
        }
        _ => {
            let elements = value.elements().iter().enumerate();
            elements.map(|(at, element)| Ok(((at + 1).to_string(), address_of(element)?))).collect()
        }
    }
}

fn address_of(value: &Value) -> Result<IpAddr, Fault> {
    let text = value.text("an address")?;
    text.parse().map_err(|_| value.fault(format!("'{text}' is no address")))
}

/// The name that something is an alias of, without the dot at its end.
fn alias_of(text: &str, value: &Value) -> Result<String, Fault> {
    let name = text.trim_end_matches('.');
    match name.parse::<whered_dns::Name>() {
        Ok(_) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(value.fault(format!("'{text}' is neither an address nor a name"))),
    }
}
