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
pub(super) struct PoolBuilder {
    pub(super) policy: Vec<String>,
    pub(super) answers: usize,
    pub(super) sites: Vec<SiteBuilder>,
    /// The map that the policy names.
    pub(super) map: Option<String>,
    /// How long an answer stays as it is at least; `None`: for ever.
    pub(super) steady_seconds: Option<u64>,
    pub(super) notes: Vec<Fault>,
}

/// A site that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct SiteBuilder {
    pub(super) name: String,
    pub(super) group: Option<String>,
    /// Latitude and longitude.
    pub(super) at: Option<(f64, f64)>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) alias: Option<String>,
    pub(super) weight: Option<u32>,
    pub(super) checks: Vec<String>,
}

impl SiteBuilder {
    fn new(name: impl Into<String>, addresses: Vec<IpAddr>) -> SiteBuilder {
        SiteBuilder {
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
pub(super) struct Content {
    pub(super) sites: Vec<SiteBuilder>,
    /// All that are up, the first that is, or one by weight.
    pub(super) choice: Choice,
    pub(super) up_thresh: f64,
    pub(super) ignore_health: bool,
    pub(super) steady_seconds: Option<u64>,
    pub(super) notes: Vec<Fault>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
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
pub(super) struct Parameters {
    services: Vec<String>,
    up_thresh: f64,
    ignore_health: bool,
    multi: bool,
}

impl Parameters {
    pub(super) fn new() -> Parameters {
        let services = vec!["up".to_owned()];
        Parameters { services, up_thresh: 0.5, ignore_health: false, multi: false }
    }

    pub(super) fn inherit(&self, hash: &Hash) -> Result<Parameters, Fault> {
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
    pub(super) fn draft(
        &self,
        plugin: &str,
        resource: &str,
        at: &Value,
    ) -> Result<PoolBuilder, Fault> {
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
        Ok(PoolBuilder { policy, answers, sites, map: None, steady_seconds, notes })
    }

    pub(super) fn plugin(&self, plugin: &str, at: &Value) -> Result<&Hash, Fault> {
        let found = self.plugins.get(plugin);
        let found = found.ok_or_else(|| at.fault(format!("no plugin '{plugin}' is configured")))?;
        found.hash("a plugin")
    }

    /// A resource of a plugin that asks no other.
    pub(super) fn plain(&self, plugin: &str, resource: &str, at: &Value) -> Result<Content, Fault> {
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

    pub(super) fn of_plugin(
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
    pub(super) fn single(&self, name: &str, value: &Value) -> Result<Content, Fault> {
        let text = value.text("a target")?;
        let mut site = SiteBuilder::new(name, Vec::new());
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

    pub(super) fn multifo(
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
            let mut site = SiteBuilder::new(label, vec![address]);
            let steady = self.watch(&mut site, &address.to_string(), &services, place)?;
            content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
            all.push(site);
        }
        if all.iter().all(|site| site.checks.is_empty()) {
            let addresses: Vec<_> = all.iter().flat_map(|site| site.addresses.clone()).collect();
            if addresses.len() > ADDRESSES_MAX {
                return Err(value.fault(format!("more than {ADDRESSES_MAX} addresses")));
            }
            content.sites = vec![SiteBuilder::new(name, addresses)];
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
        site: &mut SiteBuilder,
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
        only_known(hash, &["primary", "secondary", "addrs_v4", "addrs_v6"])?;
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
            let mut site = SiteBuilder::new(name, Vec::new());
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
                only_known(hash, &["addrs_v4", "addrs_v6"])?;
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
                content.sites = vec![SiteBuilder::new(name, addresses.collect())];
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
    ) -> Result<SiteBuilder, Fault> {
        if let Data::Hash(_) = value.data {
            return Err(value.fault("groups of weighted addresses have no counterpart"));
        }
        let [target, weight] = value.elements() else {
            return Err(value.fault("an entry is [address or name, weight]"));
        };
        let text = target.text("a target")?;
        let mut site = SiteBuilder::new(label, Vec::new());
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
}

/// Refuses keys that are neither parameters nor these.
pub(super) fn only_known(hash: &Hash, known: &[&str]) -> Result<(), Fault> {
    let is_known = |key: &str| known.contains(&key) || PARAMETERS.contains(&key);
    match hash.entries.iter().find(|entry| !is_known(&entry.key)) {
        Some(odd) => Err(odd.value.fault(format!("the key '{}' has no counterpart here", odd.key))),
        None => Ok(()),
    }
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
