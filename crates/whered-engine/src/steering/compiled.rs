//! A pool's policy over one generation, with every name in it resolved.
//!
//! Not for: what moves between generations (`snapshot.rs`).
//!
//! Invariants: lists hold indexes of the pool's sites, each once, in the order of preference.

use std::collections::HashMap;
use std::sync::Arc;

use whered_geo::Place;
use whered_ip::{CompiledSet, Prefix};
use whered_mmdb::{FieldPath, RecordId};

use super::outcome::text_hash;
use super::region::Inputs;
use crate::databases::NamedDatabase;
use crate::rulesets::NamedRuleset;
use crate::steering::pool::{MapSource, PolicyStep, Pool};

/// What a generation gives to its pools.
pub(crate) struct PolicyContext<'a> {
    pub(crate) databases: &'a [Arc<NamedDatabase>],
    /// The database that clients' places come from.
    pub(crate) default: Option<&'a Arc<NamedDatabase>>,
    pub(crate) rulesets: &'a [Arc<NamedRuleset>],
}

/// One step, resolved.
pub(super) enum Step {
    /// A ruleset by its place in [`CompiledPolicy::rulesets`].
    Rules(usize),
    Map(Box<CompiledMap>),
    Healthy,
    Nearest,
    Failover(f64),
}

/// See the head of this file.
pub(super) struct CompiledPolicy {
    pub(super) pool: Arc<Pool>,
    pub(super) steps: Vec<Step>,
    pub(super) rulesets: Vec<Arc<NamedRuleset>>,
    pub(super) is_weighted: bool,
    /// What tells the draws of this pool from those of others, where clients keep their sites.
    pub(super) sticky_seed: Option<u64>,
    pub(super) asks_for_health: bool,
    /// The databases that steps but rules ask.
    pub(super) inputs: Inputs,
    /// Where the networks of maps begin and end, IPv4 and IPv6.
    pub(super) bounds: [Vec<u128>; 2],
    /// Which of the databases has places, if they are asked for.
    pub(super) places: Option<usize>,
    /// There are more databases than inputs.
    is_short_of_inputs: bool,
    /// The names of sites and groups.
    pub(super) named: HashMap<String, Box<[u16]>>,
    pub(super) paths: Paths,
}

/// The fields that are asked for.
pub(super) struct Paths {
    latitude: FieldPath,
    longitude: FieldPath,
    continent: FieldPath,
    country: FieldPath,
    subdivision: FieldPath,
    asn: FieldPath,
}

impl Paths {
    /// The place in a database's record.
    pub(super) fn location(&self, database: &NamedDatabase, record: RecordId) -> Option<Place> {
        let database = database.database();
        let latitude_degrees = database.number(record, &self.latitude).ok()??;
        let longitude_degrees = database.number(record, &self.longitude).ok()??;
        Place::new_geographic(longitude_degrees, latitude_degrees).ok()
    }
}

/// A map with the pool's sites in its lists.
pub(super) struct CompiledMap {
    source: Arc<MapSource>,
    lists: HashMap<String, Box<[u16]>>,
    /// Answers one more than the index of the prefix in `network_lists`.
    networks: CompiledSet,
    network_lists: Vec<(Prefix, Box<[u16]>)>,
    /// For each of them the index of the first that has an equal list.
    equal_lists: Vec<u32>,
    asns: HashMap<u32, Box<[u16]>>,
    default: Option<Box<[u16]>>,
    database: Option<usize>,
    asn_database: Option<usize>,
}

impl CompiledPolicy {
    pub(super) fn new(pool: Arc<Pool>, context: &PolicyContext<'_>) -> CompiledPolicy {
        let path = |text: &str| text.parse().expect("a constant path");
        let has_weights = |wanted: fn(bool) -> bool| {
            let mut steps = pool.policy.iter();
            steps.any(
                |step| matches!(step, PolicyStep::Weighted { is_sticky } if wanted(*is_sticky)),
            )
        };
        let mut policy = CompiledPolicy {
            steps: Vec::new(),
            rulesets: Vec::new(),
            is_weighted: has_weights(|_| true),
            sticky_seed: has_weights(|is_sticky| is_sticky).then(|| text_hash(&pool.name)),
            asks_for_health: pool.policy.contains(&PolicyStep::Healthy),
            inputs: Inputs::default(),
            bounds: Default::default(),
            places: None,
            is_short_of_inputs: false,
            named: names(&pool),
            paths: Paths {
                latitude: path("location.latitude"),
                longitude: path("location.longitude"),
                continent: path("continent.code"),
                country: path("country.iso_code"),
                subdivision: path("subdivisions.0.iso_code"),
                asn: path("autonomous_system_number"),
            },
            pool,
        };
        for step in &Arc::clone(&policy.pool).policy {
            policy.add(step, context);
        }
        policy.bounds.iter_mut().for_each(|bounds| {
            bounds.sort_unstable();
            bounds.dedup();
        });
        policy
    }

    /// Whether something beside the generation has a part in the choice.
    pub(super) fn is_live(&self) -> bool {
        let pool = &self.pool;
        !self.rulesets.is_empty() || pool.overrides.is_some() || pool.sites_from.is_some()
    }

    /// Whether all databases that are asked are among the inputs.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_short_of_inputs
    }

    fn add(&mut self, step: &PolicyStep, context: &PolicyContext<'_>) {
        match step {
            PolicyStep::Rules(name) => {
                let found = context.rulesets.iter().find(|named| named.name == *name);
                // One that a command has taken away says nothing.
                if let Some(named) = found {
                    self.steps.push(Step::Rules(self.rulesets.len()));
                    self.rulesets.push(Arc::clone(named));
                }
            }
            PolicyStep::Map(source) => {
                let map = self.compile_map(source, context);
                self.steps.push(Step::Map(Box::new(map)));
            }
            PolicyStep::Healthy => self.steps.push(Step::Healthy),
            PolicyStep::Nearest => {
                if let Some(named) = context.default {
                    self.places = self.inputs.add_database(named);
                    self.is_short_of_inputs |= self.places.is_none();
                }
                self.steps.push(Step::Nearest);
            }
            PolicyStep::Failover { threshold } => self.steps.push(Step::Failover(*threshold)),
            PolicyStep::Weighted { .. } => {}
        }
    }

    fn compile_map(&mut self, source: &Arc<MapSource>, context: &PolicyContext<'_>) -> CompiledMap {
        let by_name = |name: &String| context.databases.iter().find(|named| named.name == *name);
        let database = source.database.as_ref().and_then(by_name).or(context.default);
        let has_numbers = |named: &&Arc<NamedDatabase>| {
            let kind = &named.metadata().database_type;
            kind.contains("ASN") || kind.contains("ISP")
        };
        let asn_database = source.asn_database.as_ref().and_then(by_name);
        let asn_database =
            asn_database.or_else(|| context.databases.iter().find(has_numbers)).or(database);
        let resolve = |names: &Vec<String>| self.resolve(names);
        let texts = [&source.subdivisions, &source.countries, &source.continents];
        let texts = texts.into_iter().zip(["subdivision", "country", "continent"]);
        let lists: HashMap<_, _> = texts
            .flat_map(|(lists, what)| {
                lists.iter().map(move |(key, names)| (format!("{what} {key}"), names))
            })
            .map(|(key, names)| (key, resolve(names)))
            .collect();
        let asns = source.asns.iter().map(|(number, names)| (*number, resolve(names))).collect();
        let default = source.default.as_ref().map(resolve);
        let mut network_lists = Vec::with_capacity(source.networks.len());
        for (prefix, names) in &source.networks {
            network_lists.push((*prefix, self.resolve(names)));
            let first = super::region::bits_of(prefix.address());
            let hosts = u128::MAX.checked_shr(prefix.length_bits().into()).unwrap_or(0);
            add_bounds(
                &mut self.bounds[usize::from(!prefix.is_ipv4())],
                first,
                first | hosts,
                prefix.is_ipv4(),
            );
        }
        let mut first_of = HashMap::new();
        let lists_by_index = network_lists.iter().zip(0_u32..);
        let equal_lists = lists_by_index
            .map(|((_, list), index)| *first_of.entry(list.clone()).or_insert(index))
            .collect();
        let mut ask = |named: Option<&Arc<NamedDatabase>>, is_asked: bool| {
            named.filter(|_| is_asked).and_then(|named| self.inputs.add_database(named))
        };
        CompiledMap {
            database: ask(database, !lists.is_empty()),
            asn_database: ask(asn_database, !source.asns.is_empty()),
            source: Arc::clone(source),
            lists,
            networks: CompiledSet::build(
                network_lists.iter().map(|(prefix, _)| (*prefix).into()).zip(1..),
            ),
            network_lists,
            equal_lists,
            asns,
            default,
        }
    }

    /// The sites that names of sites and groups mean.
    fn resolve(&self, names: &[String]) -> Box<[u16]> {
        let mut list: Vec<u16> = Vec::new();
        for site in
            names.iter().filter_map(|name| self.named.get(name)).flat_map(|list| list.iter())
        {
            if !list.contains(site) {
                list.push(*site);
            }
        }
        list.into()
    }
}

/// Adds where a piece begins, and where what follows it does, as leading bits.
pub(super) fn add_bounds(bounds: &mut Vec<u128>, first: u128, last: u128, is_ipv4: bool) {
    bounds.push(first);
    // Leading bits of IPv4 are followed by 96 that count for nothing.
    let last = if is_ipv4 { last | (u128::MAX >> 32) } else { last };
    bounds.extend(last.checked_add(1));
}

/// Names of sites and groups with the sites that they mean; a site goes before a group.
fn names(pool: &Pool) -> HashMap<String, Box<[u16]>> {
    let mut groups: HashMap<String, Vec<u16>> = HashMap::new();
    for (site, index) in pool.sites.iter().zip(0..) {
        groups.entry(site.group().to_owned()).or_default().push(index);
    }
    let mut named: HashMap<String, Box<[u16]>> =
        groups.into_iter().map(|(name, list)| (name, list.into())).collect();
    for (site, index) in pool.sites.iter().zip(0..) {
        if site.group() != site.name {
            named.insert(site.name.clone(), [index].into());
        }
    }
    named
}

impl CompiledMap {
    pub(super) fn name(&self) -> &str {
        &self.source.name
    }

    pub(super) fn source(&self) -> &Arc<MapSource> {
        &self.source
    }

    pub(super) fn has_networks(&self) -> bool {
        !self.network_lists.is_empty()
    }

    /// A number of the list for the network that an address is in: equal lists have the same.
    pub(super) fn list_number(&self, address: std::net::IpAddr) -> Option<u32> {
        let answer = self.networks.lookup(address)?;
        self.equal_lists.get(answer as usize - 1).copied()
    }

    /// The lists for a client, the smallest part first, each with what it is for.
    pub(super) fn lists(
        &self,
        inputs: &Inputs,
        paths: &Paths,
        address: std::net::IpAddr,
        records: &dyn Fn(usize) -> Option<RecordId>,
        mut each: impl FnMut(&dyn Fn() -> String, &[u16]) -> bool,
    ) {
        if let Some(answer) = self.networks.lookup(address)
            && let Some((prefix, list)) = self.network_lists.get(answer as usize - 1)
            && each(&|| prefix.to_string(), list)
        {
            return;
        }
        let number = self.asn_database.and_then(|database| {
            let number =
                inputs.databases[database].database().number(records(database)?, &paths.asn);
            Some(number.ok()?? as u32)
        });
        if let Some((number, list)) = number.and_then(|n| Some((n, self.asns.get(&n)?)))
            && each(&|| format!("AS{number}"), list)
        {
            return;
        }
        for key in self.keys(inputs, paths, records) {
            if let Some(list) = self.lists.get(&key)
                && each(&|| key.clone(), list)
            {
                return;
            }
        }
        if let Some(list) = &self.default {
            each(&|| "the default".to_owned(), list);
        }
    }

    /// What a record says of its place: subdivision, country, continent.
    fn keys(
        &self,
        inputs: &Inputs,
        paths: &Paths,
        records: &dyn Fn(usize) -> Option<RecordId>,
    ) -> Vec<String> {
        let Some(found) = self.database.and_then(|at| Some((at, records(at)?))) else {
            return Vec::new();
        };
        let database = inputs.databases[found.0].database();
        let text = |path: &FieldPath| {
            let text = database.text(found.1, path).ok()??;
            Some(text.to_ascii_uppercase())
        };
        let mut keys = Vec::with_capacity(3);
        if let Some(country) = text(&paths.country) {
            if !self.source.subdivisions.is_empty()
                && let Some(part) = text(&paths.subdivision)
            {
                keys.push(format!("subdivision {country}-{part}"));
            }
            keys.push(format!("country {country}"));
        }
        keys.extend(text(&paths.continent).map(|continent| format!("continent {continent}")));
        keys
    }
}
