//! `metafo` and `geoip`: pools whose datacenters are groups.
//!
//! Not for: what a datacenter answers (`resources`), which one is asked first (`maps`).

use std::net::IpAddr;

use super::maps::Map;
use super::resources::{Choice, Content, Parameters, PoolBuilder, Resources, only_known};
use super::vscf::{Data, Fault, Hash, Value};

impl Resources<'_> {
    /// `metafo` and `geoip`: a group for each datacenter.
    pub(super) fn meta(
        &self,
        plugin: &str,
        name: &str,
        only: Option<&str>,
        at: &Value,
    ) -> Result<PoolBuilder, Fault> {
        let top = self.plugin(plugin, at)?;
        let all = top.get("resources").map_or(Ok(None), |all| all.hash("resources").map(Some))?;
        let value = all.and_then(|all| all.get(name));
        let value = value.ok_or_else(|| at.fault(format!("no such resource {plugin}!{name}")))?;
        let hash = value.hash("a resource")?;
        only_known(top, &["maps", "resources", "undefined_datacenters_ok", "plugin"])?;
        only_known(hash, &["map", "datacenters", "dcmap", "skip_first", "plugin"])?;
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
                    hash.remove("plugin");
                }
                self.of_plugin(plugin, name, &own, &parameters)
            }
        }
    }
}

/// Datacenters as groups of one pool.
fn groups(
    contents: Vec<(String, Content, &Value)>,
    map: Option<&Map>,
) -> Result<PoolBuilder, Fault> {
    let mut draft = PoolBuilder {
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
