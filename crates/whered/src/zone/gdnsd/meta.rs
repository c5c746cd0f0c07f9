//! `metafo` and `geoip`: pools whose datacenters are groups.
//!
//! ```text
//! geoip   us ── addresses                     groups us, eu-a, eu-b
//!         eu ── metafo  a ── addresses        [us, eu] of a map becomes [us, eu-a, eu-b]
//!                       b ── a name
//! ```
//! A datacenter that is a resource itself is replaced by its own datacenters, in their order; the
//! pool then has lists of its own. Not for: what a datacenter answers (`resources`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::maps::{Coordinates, Map};
use super::resources::{Choice, Content, Parameters, PoolBuilder, Resources, needed, only_known};
use super::vscf::{Data, Fault, Hash, Value};

/// How many resources may refer to each other.
const DEPTH_MAX: usize = 16;

/// What a datacenter of a resource leads to.
enum Node {
    Group {
        name: String,
        is_down: bool,
    },
    /// All of them, in their order.
    List(Vec<Node>),
    /// Those that a list of the map names, in the list's order.
    Map(BTreeMap<String, Node>),
}

/// A resource with everything below it.
struct Tree<'a> {
    map: Option<&'a Map>,
    skip_first: Option<Value>,
    groups: Vec<Group>,
}

struct Group {
    name: String,
    /// The datacenter of the map that it belongs to.
    datacenter: Option<String>,
    content: Content,
    place: Value,
}

/// Where a resource is in its tree.
#[derive(Clone, Copy)]
struct Position<'a> {
    plugin: &'a str,
    /// The group's name so far.
    prefix: &'a str,
    datacenter: Option<&'a str>,
    depth: usize,
    /// Its datacenters are those of the map.
    is_map: bool,
    /// It may lack datacenters of the map.
    may_lack: bool,
}

impl<'a> Resources<'a> {
    /// `metafo` and `geoip`: a group for each datacenter.
    pub(super) fn meta(
        &self,
        plugin: &str,
        name: &str,
        only: Option<&str>,
        at: &Value,
    ) -> Result<PoolBuilder, Fault> {
        let mut tree = Tree { map: None, skip_first: None, groups: Vec::new() };
        let position = Position {
            plugin,
            prefix: "",
            datacenter: None,
            depth: 0,
            is_map: false,
            may_lack: false,
        };
        let node = self.resource(name, only, at, position, &mut tree)?;
        tree.pool(&format!("{plugin}-{name}"), &node)
    }

    /// A resource by its name; of one datacenter alone where `only` names it.
    fn resource(
        &self,
        name: &str,
        only: Option<&str>,
        at: &Value,
        position: Position<'_>,
        tree: &mut Tree<'a>,
    ) -> Result<Node, Fault> {
        let plugin = position.plugin;
        let top = self.plugin(plugin, at)?;
        let all = top.get("resources").map_or(Ok(None), |all| all.hash("resources").map(Some))?;
        let value = all.and_then(|all| all.get(name));
        let value = value.ok_or_else(|| at.fault(format!("no such resource {plugin}!{name}")))?;
        only_known(top, &["maps", "resources", "undefined_datacenters_ok", "plugin"])?;
        self.node(value, &[top], only, at, position, tree)
    }

    fn node(
        &self,
        value: &Value,
        outer: &[&Hash],
        only: Option<&str>,
        at: &Value,
        position: Position<'_>,
        tree: &mut Tree<'a>,
    ) -> Result<Node, Fault> {
        if position.depth == DEPTH_MAX {
            return Err(at.fault(format!("more than {DEPTH_MAX} resources refer to each other")));
        }
        let hash = value.hash("a resource")?;
        only_known(hash, &["map", "datacenters", "dcmap", "skip_first", "plugin"])?;
        let skip_first = match hash.get("skip_first") {
            Some(skip) if skip.flag("skip_first")? => Some(skip),
            _ => None,
        };
        let map = match (position.plugin, hash.get("map")) {
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
        let may_lack = outer.iter().find_map(|hash| hash.get("undefined_datacenters_ok"));
        let may_lack = may_lack.map_or(Ok(false), |flag| flag.flag("undefined_datacenters_ok"))?;
        let targets = hash.get("dcmap").ok_or_else(|| value.fault("a resource without 'dcmap'"))?;
        let targets_hash = targets.hash("dcmap")?;
        let is_unknown = |key: &str| !datacenters.iter().any(|datacenter| datacenter == key);
        for odd in targets_hash.entries.iter().filter(|entry| is_unknown(&entry.key)) {
            let allowed = datacenters.join(", ");
            self.tell(
                odd.value.fault(format!("no such datacenter '{}'; allowed: {allowed}", odd.key)),
            );
        }
        if let Some(only) = only.filter(|only| is_unknown(only)) {
            let allowed = datacenters.join(", ");
            return Err(at.fault(format!("no such datacenter '{only}'; allowed: {allowed}")));
        }
        let whole = map.filter(|_| only.is_none());
        if let Some(map) = whole {
            if tree.map.is_some() {
                return Err(at.fault("a resource of geoip below another one has no counterpart"));
            }
            tree.map = Some(map);
        }
        let inner: Vec<&Hash> = std::iter::once(hash).chain(outer.iter().copied()).collect();
        let wanted = datacenters.iter().filter(|name| only.is_none_or(|only| only == *name));
        let may_lack = may_lack && map.is_some();
        let position = Position { is_map: whole.is_some(), may_lack, ..position };
        let nodes = self.nodes(wanted, targets, &inner, position, tree)?;
        if nodes.is_empty() {
            let nothing = "no datacenter with an answer; allowed: at least one";
            return Err(self.last_fault(targets, nothing));
        }
        if whole.is_some() {
            tree.skip_first = skip_first.cloned();
            return Ok(Node::Map(nodes.into_iter().collect()));
        }
        let skipped = usize::from(skip_first.is_some() && nodes.len() > 1 && only.is_none());
        Ok(Node::List(nodes.into_iter().skip(skipped).map(|(_, node)| node).collect()))
    }

    /// The datacenters of a resource, each with what it leads to.
    fn nodes<'n>(
        &self,
        wanted: impl Iterator<Item = &'n String>,
        targets: &Value,
        inner: &[&Hash],
        position: Position<'_>,
        tree: &mut Tree<'a>,
    ) -> Result<Vec<(String, Node)>, Fault> {
        let targets_hash = targets.hash("dcmap")?;
        let mut nodes = Vec::new();
        for datacenter in wanted {
            let Some(target) = targets_hash.get(datacenter) else {
                if !position.may_lack {
                    self.tell(targets.fault(format!(
                        "no '{datacenter}', which lists name; allowed: all of them"
                    )));
                }
                continue;
            };
            let prefix = match position.prefix {
                "" => datacenter.clone(),
                prefix => format!("{prefix}-{datacenter}"),
            };
            let below = Position {
                prefix: &prefix,
                datacenter: if position.is_map { Some(datacenter) } else { position.datacenter },
                depth: position.depth + 1,
                ..position
            };
            match self.datacenter(target, inner, below, tree) {
                Ok(node) => nodes.push((datacenter.clone(), node)),
                Err(fault) => self.tell(fault),
            }
        }
        Ok(nodes)
    }

    /// What one datacenter answers; `outer` gives defaults, the nearest first.
    fn datacenter(
        &self,
        target: &Value,
        outer: &[&Hash],
        position: Position<'_>,
        tree: &mut Tree<'a>,
    ) -> Result<Node, Fault> {
        let name = position.prefix;
        let named = |key: &str| outer.iter().find_map(|hash| hash.get(key));
        let usual = named("plugin").map_or(Ok("multifo"), |plugin| plugin.text("plugin"))?;
        let mut parameters = Parameters::new();
        for hash in outer.iter().rev() {
            parameters = parameters.inherit(hash)?;
        }
        let content = match &target.data {
            Data::Text(text) => {
                match text.strip_prefix('%').or(text.strip_prefix('!').map(|_| &**text)) {
                    Some(reference) => {
                        let (plugin, resource) = reference.split_once('!').ok_or_else(|| {
                            target.fault("a reference is %plugin!resource or !resource")
                        })?;
                        let plugin = if plugin.is_empty() { usual } else { plugin };
                        if let "geoip" | "metafo" = plugin {
                            let (resource, only) = match resource.split_once('/') {
                                Some((resource, only)) => (resource, Some(only)),
                                None => (resource, None),
                            };
                            let below = Position { plugin, ..position };
                            return self.resource(resource, only, target, below, tree);
                        }
                        self.plain(plugin, resource, target)?
                    }
                    None if text.parse::<IpAddr>().is_ok() => {
                        self.multifo(name, target, &parameters)?
                    }
                    None => self.single(name, target)?,
                }
            }
            Data::Array(_) => self.multifo(name, target, &parameters)?,
            Data::Hash(hash) => {
                let plugin =
                    hash.get("plugin").map_or(Ok(usual), |plugin| plugin.text("plugin"))?;
                let mut own = target.clone();
                if let Data::Hash(hash) = &mut own.data {
                    hash.remove("plugin");
                }
                if plugin == "metafo" {
                    let below = Position { plugin, ..position };
                    return self.node(&own, outer, None, target, below, tree);
                }
                self.of_plugin(plugin, name, &own, &parameters)?
            }
        };
        Ok(tree.add(content, target, position))
    }
}

impl Tree<'_> {
    fn add(&mut self, content: Content, place: &Value, position: Position<'_>) -> Node {
        if content.choice == Choice::First {
            return self.add_each(content, place, position);
        }
        let (name, is_down) = (self.free_name(position.prefix), content.is_down);
        let datacenter = position.datacenter.map(str::to_owned);
        self.groups.push(Group { name: name.clone(), datacenter, content, place: place.clone() });
        Node::Group { name, is_down }
    }

    /// A group for each site, the first that is up.
    fn add_each(&mut self, content: Content, place: &Value, position: Position<'_>) -> Node {
        let (is_down, steady_seconds) = (content.is_down, content.steady_seconds);
        let mut nodes = Vec::new();
        for (at, site) in content.sites.into_iter().enumerate() {
            let prefix = format!("{}-{}", position.prefix, site.name);
            let mut own = Content::new(Choice::All, 0.5);
            (own.is_down, own.steady_seconds) = (is_down, steady_seconds);
            own.sites.push(site);
            if at == 0 {
                own.notes.clone_from(&content.notes);
            }
            nodes.push(self.add(own, place, Position { prefix: &prefix, ..position }));
        }
        Node::List(nodes)
    }

    fn free_name(&self, wanted: &str) -> String {
        let is_free = |name: &str| self.groups.iter().all(|group| group.name != name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| is_free(name)).unwrap_or_default()
    }

    /// The groups of a node in the order in which they are asked, for one list of the map.
    fn order(&self, node: &Node, list: &[String]) -> Vec<(String, bool)> {
        match node {
            Node::Group { name, is_down } => vec![(name.clone(), *is_down)],
            Node::List(nodes) => nodes.iter().flat_map(|node| self.order(node, list)).collect(),
            Node::Map(nodes) => {
                let skipped = usize::from(self.skip_first.is_some() && list.len() > 1);
                let named = list.iter().skip(skipped).filter_map(|name| nodes.get(name));
                named.flat_map(|node| self.order(node, list)).collect()
            }
        }
    }

    /// Those of [`Tree::order`] that are not down for ever, or else the first one.
    fn groups_of(&self, node: &Node, list: &[String]) -> Vec<String> {
        let all = self.order(node, list);
        let up: Vec<String> =
            all.iter().filter(|(_, is_down)| !is_down).map(|(name, _)| name.clone()).collect();
        if up.is_empty() { all.into_iter().take(1).map(|(name, _)| name).collect() } else { up }
    }

    /// Groups as one pool.
    fn pool(mut self, name: &str, node: &Node) -> Result<PoolBuilder, Fault> {
        let coordinates = self.map.and_then(|map| map.coordinates.as_ref());
        if let Some(skip) = self.skip_first.as_ref().filter(|_| coordinates.is_some()) {
            return Err(skip.fault(
                "'skip_first' with 'auto_dc_coords' has no counterpart; allowed: lists by place",
            ));
        }
        let mut pool = PoolBuilder {
            policy: Vec::new(),
            answers: 1,
            sites: Vec::new(),
            map: None,
            nearest: self.map.filter(|_| coordinates.is_some()).map(|map| map.name.clone()),
            steady_seconds: None,
            notes: Vec::new(),
        };
        let steady = self.groups.iter().filter_map(|group| group.content.steady_seconds);
        pool.steady_seconds = steady.min();
        let used = self.write_lists(name, node, &mut pool)?;
        self.groups.retain(|group| used.contains(&group.name));
        // Lists of metafo are in the order of the sites.
        self.groups.sort_by_key(|group| used.iter().position(|name| *name == group.name));
        let settings = self.settings(coordinates)?;
        let Tree { groups, .. } = self;
        for group in groups {
            add_sites(&mut pool, group, coordinates);
        }
        if coordinates.is_some() {
            pool.policy.extend(["healthy", "nearest"].map(str::to_owned));
        } else {
            pool.policy.push(format!("failover:{}", settings.share));
            if !settings.ignore_health {
                pool.policy.push("healthy".to_owned());
            }
        }
        if settings.choice == Choice::Weighted {
            pool.policy.push("weighted".to_owned());
            pool.answers = 1;
        }
        Ok(pool)
    }

    /// Sets the map of a pool; gives all groups that it can answer.
    fn write_lists(
        &self,
        name: &str,
        node: &Node,
        pool: &mut PoolBuilder,
    ) -> Result<Vec<String>, Fault> {
        let Some(map) = self.map else { return Ok(self.groups_of(node, &[])) };
        if let Some(coordinates) = &map.coordinates {
            let is_flat = matches!(node, Node::Map(nodes)
                if nodes.values().all(|node| matches!(node, Node::Group { .. })));
            if !is_flat {
                return Err(self.groups[0].place.fault(
                    "datacenters that are resources themselves, next to 'auto_dc_coords', have no \
                     counterpart; allowed: addresses and names",
                ));
            }
            return self.write_nearest(name, node, map, coordinates, pool);
        }
        let own = map.changed(name, |list| self.groups_of(node, list))?;
        let used = own.names();
        pool.policy.push(format!("map:{}", own.name));
        pool.map = Some(own);
        Ok(used)
    }

    fn write_nearest(
        &self,
        name: &str,
        node: &Node,
        map: &Map,
        coordinates: &Coordinates,
        pool: &mut PoolBuilder,
    ) -> Result<Vec<String>, Fault> {
        let placed: Vec<String> = map
            .datacenters
            .iter()
            .filter(|name| coordinates.contains_key(*name))
            .cloned()
            .collect();
        let mut own = map.changed(name, |list| self.groups_of(node, list))?;
        let nearest = self.groups_of(node, &placed);
        let everything = self.groups_of(node, &map.datacenters);
        let mut used = own.names();
        nearest.iter().for_each(|name| super::resources::push_new(&mut used, name.clone()));
        if own.has_lists() || used != everything {
            // The nearest of all that have coordinates.
            if own.needs_default() && used.len() > nearest.len() {
                own = own.with_default(name, nearest);
            }
            if own.has_lists() {
                pool.policy.push(format!("map:{}", own.name));
                pool.map = Some(own);
            }
        }
        let order = |name: &String| map.datacenters.iter().position(|known| known == name);
        used.sort_by_key(order);
        Ok(used)
    }

    fn settings(&self, coordinates: Option<&Coordinates>) -> Result<Settings, Fault> {
        let mut settings = Settings { choice: Choice::All, share: 0.5, ignore_health: false };
        let mut first = true;
        // One site that nobody watches is what any choice comes to.
        let several = || self.groups.iter().filter(|group| group.content.sites.len() > 1);
        for Group { content, place, .. } in several() {
            if coordinates.is_some() {
                return Err(place.fault(
                    "a datacenter of several sites in a map with 'auto_dc_coords', where one is \
                     taken, has no counterpart; allowed: one address, or several that are not watched",
                ));
            }
            let own = (content.choice, content.ignore_health);
            if !first && own != (settings.choice, settings.ignore_health) {
                return Err(
                    place.fault("another plugin or 'ignore_health' than other datacenters'")
                );
            }
            (settings.choice, settings.ignore_health) = own;
            first = false;
        }
        settings.share = match share(several().map(|group| &group.content)) {
            Some(share) => share,
            None => {
                let place = several().next_back().map(|group| group.place.clone());
                return Err(place.map_or_else(
                    || self.groups[0].place.fault("no datacenter"),
                    |place| place.fault("another 'up_thresh' than other datacenters'"),
                ));
            }
        };
        Ok(settings)
    }
}

struct Settings {
    choice: Choice,
    share: f64,
    ignore_health: bool,
}

/// The share of sites that must be up, the same for all; `None` if there is none.
pub(super) fn share<'a>(contents: impl IntoIterator<Item = &'a Content>) -> Option<f64> {
    let (mut low, mut high, mut first) = (0.0_f64, 1.0_f64, None);
    let mut counts = Vec::new();
    for content in contents {
        let count = content.sites.len();
        first.get_or_insert(content.up_thresh);
        if content.choice != Choice::All {
            // By weight in gdnsd, by number here.
            if first != Some(content.up_thresh) {
                return None;
            }
            continue;
        }
        low = low.max((content.needed.max(1) - 1) as f64 / count as f64);
        high = high.min(content.needed as f64 / count as f64);
        counts.push((content.needed as u64, count as u64));
    }
    let fits = |share: f64| counts.iter().all(|(need, count)| needed(share, *count) == *need);
    let middle = ((low + high) * 500.0).ceil() / 1000.0;
    [first.unwrap_or(0.5), middle].into_iter().find(|share| fits(*share))
}

/// The sites of a group; one that is the whole group has its name.
fn add_sites(pool: &mut PoolBuilder, group: Group, coordinates: Option<&Coordinates>) {
    let Group { name, datacenter, content, .. } = group;
    if content.choice == Choice::All {
        pool.answers = pool.answers.max(content.sites.len());
    }
    let place = datacenter.and_then(|datacenter| coordinates?.get(&datacenter)).copied();
    // A datacenter without coordinates is only named by lists.
    let place = place.or_else(|| coordinates?.values().next().copied());
    let is_whole = content.sites.len() == 1;
    for mut site in content.sites {
        if is_whole && (site.name == name || name.ends_with(&format!("-{}", site.name))) {
            site.name.clone_from(&name);
        } else {
            site.group = Some(name.clone());
            if !site.name.starts_with(name.as_str()) {
                site.name = format!("{name}-{}", site.name);
            }
        }
        site.at = place;
        pool.sites.push(site);
    }
    pool.notes.extend(content.notes);
}
