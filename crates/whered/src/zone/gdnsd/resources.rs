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

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::maps::Map;
use super::services::Services;
use super::vscf::{Data, Fault, Hash, Value};

/// The most sites that are answered together.
pub(super) const ANSWERS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 64;
pub(super) const PARAMETERS: [&str; 4] = ["service_types", "up_thresh", "ignore_health", "multi"];

/// A pool that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct PoolBuilder {
    pub(super) policy: Vec<String>,
    pub(super) answers: usize,
    pub(super) sites: Vec<SiteBuilder>,
    /// The map that the policy names.
    pub(super) map: Option<Map>,
    /// The map whose database has the places of clients.
    pub(super) nearest: Option<String>,
    /// How long an answer stays as it is at least; `None`: for ever.
    pub(super) steady_seconds: Option<u64>,
    pub(super) notes: Vec<Fault>,
}

/// A site that is not written yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SiteBuilder {
    pub(super) name: String,
    pub(super) group: Option<String>,
    /// Latitude and longitude.
    pub(super) at: Option<(f64, f64)>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) alias: Option<String>,
    /// Which of the client's addresses is the answer.
    pub(super) reflect: Option<&'static str>,
    pub(super) weight: Option<u32>,
    pub(super) checks: Vec<String>,
    /// A service type of it is down for ever.
    pub(super) is_down: bool,
}

impl SiteBuilder {
    pub(super) fn new(name: impl Into<String>, addresses: Vec<IpAddr>) -> SiteBuilder {
        SiteBuilder {
            name: name.into(),
            group: None,
            at: None,
            addresses,
            alias: None,
            reflect: None,
            weight: None,
            checks: Vec::new(),
            is_down: false,
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
    /// How many of the sites must be up.
    pub(super) needed: usize,
    pub(super) ignore_health: bool,
    /// It counts as failed for ever.
    pub(super) is_down: bool,
    pub(super) steady_seconds: Option<u64>,
    pub(super) notes: Vec<Fault>,
}

impl Content {
    pub(super) fn new(choice: Choice, up_thresh: f64) -> Content {
        Content {
            sites: Vec::new(),
            choice,
            up_thresh,
            needed: 1,
            ignore_health: false,
            is_down: false,
            steady_seconds: None,
            notes: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    All,
    First,
    Weighted,
}

/// How many of a number must be up: as gdnsd rounds.
pub(super) fn needed(up_thresh: f64, count: u64) -> u64 {
    (up_thresh * count as f64).ceil() as u64
}

/// Adds what is not in the list yet.
pub(super) fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// Everything that resources refer to.
pub(super) struct Resources<'a> {
    pub(super) plugins: BTreeMap<&'a str, &'a Value>,
    pub(super) services: &'a Services,
    pub(super) maps: &'a BTreeMap<String, Map>,
    /// Mistakes after which the reading went on.
    pub(super) faults: RefCell<Vec<Fault>>,
}

/// What is inherited downwards.
#[derive(Clone)]
pub(super) struct Parameters {
    pub(super) services: Vec<String>,
    pub(super) up_thresh: f64,
    ignore_health: bool,
    pub(super) multi: bool,
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
        let share = super::meta::share([&content]).unwrap_or(content.up_thresh);
        let mut policy = Vec::new();
        let mut sites = content.sites;
        if content.choice == Choice::All && sites.len() > 1 && !content.ignore_health {
            sites.iter_mut().for_each(|site| site.group = Some(resource.to_owned()));
            policy.push(format!("failover:{share}"));
        }
        if !content.ignore_health {
            policy.push("healthy".to_owned());
        }
        if content.choice == Choice::Weighted && sites.len() > 1 {
            policy.push("weighted".to_owned());
        }
        let answers = if content.choice == Choice::All { sites.len() } else { 1 };
        let (steady_seconds, notes) = (content.steady_seconds, content.notes);
        Ok(PoolBuilder { policy, answers, sites, map: None, nearest: None, steady_seconds, notes })
    }

    /// Keeps a mistake that does not hinder the reading.
    pub(super) fn tell(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    /// The last mistake that was told within a value, or else that nothing is there.
    pub(super) fn last_fault(&self, value: &Value, nothing: &str) -> Fault {
        let within =
            |fault: &Fault| fault.place.file == value.place.file && fault.place >= value.place;
        let last = self.faults.borrow().last().filter(|fault| within(fault)).cloned();
        last.unwrap_or_else(|| value.fault(nothing))
    }

    pub(super) fn plugin(&self, plugin: &str, at: &Value) -> Result<&Hash, Fault> {
        let found = self.plugins.get(plugin);
        let found = found.ok_or_else(|| at.fault(format!("no plugin '{plugin}' is configured")))?;
        found.hash("a plugin")
    }

    /// A resource of a plugin that asks no other.
    pub(super) fn plain(&self, plugin: &str, resource: &str, at: &Value) -> Result<Content, Fault> {
        if let Some(content) = builtin(plugin, resource, at)? {
            return Ok(content);
        }
        let all = match plugin {
            "multifo" | "weighted" | "simplefo" | "static" => self.plugin(plugin, at)?,
            other => {
                return Err(at.fault(format!(
                    "the plugin '{other}' has no counterpart; allowed: geoip, metafo, multifo, \
                     weighted, simplefo, static, reflect, null"
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
        Ok(Content { sites: vec![site], ..Content::new(Choice::All, 0.5) })
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
            for (label, target) in targets_of(family) {
                match address_of(target) {
                    Ok(address) => listed.push((label, address, own.services.clone(), target)),
                    Err(fault) => self.tell(fault),
                }
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
        let mut content = Content::new(Choice::All, settings.up_thresh);
        content.ignore_health = settings.ignore_health;
        if listed.is_empty() {
            return Err(self.last_fault(value, "no address; allowed: at least one"));
        }
        let both = listed.iter().any(|(_, a, ..)| a.is_ipv4() != listed[0].1.is_ipv4());
        let mut all = Vec::new();
        for (label, address, services, place) in listed {
            let family = if address.is_ipv4() { "v4" } else { "v6" };
            let label =
                if both { format!("{name}-{label}-{family}") } else { format!("{name}-{label}") };
            let mut site = SiteBuilder::new(label, vec![address]);
            let target = place.text("an address")?;
            let steady = self.watch(&mut site, target, &services, place)?;
            content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
            all.push(site);
        }
        let down = all.iter().filter(|site| site.is_down).count();
        let must_be_up = needed(settings.up_thresh, all.len() as u64) as usize;
        let is_watched = all.iter().any(|site| !site.checks.is_empty());
        if !is_watched || must_be_up > all.len() - down {
            content.sites = vec![one_site(name, &all, settings, &mut content.is_down)];
            if content.sites[0].addresses.len() > ADDRESSES_MAX {
                return Err(value.fault(format!("more than {ADDRESSES_MAX} addresses")));
            }
            return Ok(content);
        }
        content.needed = must_be_up;
        if settings.ignore_health {
            // What is down for ever is answered, and counts as up here.
            content.needed += down;
        } else {
            all.retain(|site| !site.is_down);
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
    pub(super) fn watch(
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
            site.is_down |= service.is_down();
            if let Some(check) = service.check(target) {
                push_new(&mut site.checks, check);
            }
            steady = steady.into_iter().chain(service.steady_seconds()).min();
        }
        if site.is_down {
            site.checks.clear();
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
        let mut content = Content::new(Choice::First, 1.0);
        let mut sites =
            [SiteBuilder::new("primary", Vec::new()), SiteBuilder::new("secondary", Vec::new())];
        let mut are_watched = 0;
        for family in &families {
            let hash = family.hash("a family")?;
            let own = own.inherit(hash)?;
            let mut read = Vec::new();
            for name in ["primary", "secondary"] {
                let found = hash.get(name).ok_or_else(|| family.fault(format!("no '{name}'")))?;
                let mut site = SiteBuilder::new(name, vec![address_of(found)?]);
                let target = found.text("an address")?;
                let steady = self.watch(&mut site, target, &own.services, found)?;
                content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
                read.push(site);
            }
            content.is_down |= read.iter().all(|site| site.is_down);
            are_watched += usize::from(read.iter().any(|site| !site.checks.is_empty()));
            // With one of both down for ever the other one is answered alone.
            let only = match (read[0].is_down, read[1].is_down) {
                (_, true) => Some(read[0].clone()),
                (true, false) => Some(read[1].clone()),
                (false, false) => None,
            };
            for (site, own) in sites.iter_mut().zip(read) {
                let own = only.clone().unwrap_or(own);
                site.addresses.extend(own.addresses);
                own.checks.into_iter().for_each(|check| push_new(&mut site.checks, check));
            }
        }
        let is_one = sites[0].addresses == sites[1].addresses;
        content.sites.extend(sites.into_iter().take(if is_one { 1 } else { 2 }));
        if families.len() > 1 && are_watched > 0 {
            content.notes.push(value.fault("both families of a site go down together"));
        }
        Ok(content)
    }
}

/// The plugins that need no configuration: `null` answers zeros, `reflect` the client's address.
fn builtin(plugin: &str, resource: &str, at: &Value) -> Result<Option<Content>, Fault> {
    let mut site = SiteBuilder::new(plugin, Vec::new());
    match plugin {
        "null" => {
            site.addresses = vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        }
        "reflect" => {
            site.reflect = Some(match resource {
                "" | "best" => "best",
                "dns" => "source",
                "edns" => "subnet",
                "both" => "both",
                other => {
                    return Err(at.fault(format!(
                        "reflect has no '{other}'; allowed: dns, edns, both, best"
                    )));
                }
            });
        }
        _ => return Ok(None),
    }
    Ok(Some(Content { sites: vec![site], ..Content::new(Choice::All, 0.5) }))
}

/// One site of addresses whose states never change; a family of which too few are up is answered
/// whole.
fn one_site(
    name: &str,
    all: &[SiteBuilder],
    settings: &Parameters,
    is_down: &mut bool,
) -> SiteBuilder {
    let mut whole = SiteBuilder::new(name, Vec::new());
    let is_v4 = |site: &SiteBuilder| site.addresses.iter().all(IpAddr::is_ipv4);
    let mut fails = [false; 2];
    for (failed, family) in fails.iter_mut().zip([true, false]) {
        let listed: Vec<_> = all.iter().filter(|site| is_v4(site) == family).collect();
        let up = listed.iter().filter(|site| !site.is_down).count() as u64;
        *failed = up < needed(settings.up_thresh, listed.len() as u64);
        *is_down |= *failed;
    }
    for site in all {
        if settings.ignore_health || !site.is_down || fails[usize::from(!is_v4(site))] {
            site.addresses.iter().for_each(|address| push_new(&mut whole.addresses, *address));
        }
    }
    whole
}

/// Refuses keys that are neither parameters nor these.
pub(super) fn only_known(hash: &Hash, known: &[&str]) -> Result<(), Fault> {
    let is_known = |key: &str| known.contains(&key) || PARAMETERS.contains(&key);
    match hash.entries.iter().find(|entry| !is_known(&entry.key)) {
        Some(odd) => Err(odd.value.fault(format!("the key '{}' has no counterpart here", odd.key))),
        None => Ok(()),
    }
}

/// Labels and values of a hash, an array, or a single one.
fn targets_of(value: &Value) -> Vec<(String, &Value)> {
    match &value.data {
        Data::Hash(hash) => {
            let entries = hash.entries.iter().filter(|entry| !PARAMETERS.contains(&&*entry.key));
            entries.map(|entry| (entry.key.clone(), &entry.value)).collect()
        }
        _ => {
            let elements = value.elements().iter().enumerate();
            elements.map(|(at, element)| ((at + 1).to_string(), element)).collect()
        }
    }
}

fn address_of(value: &Value) -> Result<IpAddr, Fault> {
    let text = value.text("an address")?;
    text.parse().map_err(|_| value.fault(format!("'{text}' is no address")))
}

/// The name that something is an alias of, without the dot at its end.
pub(super) fn alias_of(text: &str, value: &Value) -> Result<String, Fault> {
    let name = text.trim_end_matches('.');
    match name.parse::<whered_dns::Name>() {
        Ok(_) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(value.fault(format!("'{text}' is neither an address nor a name"))),
    }
}
