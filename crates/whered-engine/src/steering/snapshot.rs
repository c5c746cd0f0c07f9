//! A pool at one moment: its policy with the sets, rules and places of sites that hold now.
//!
//! ```text
//! address ─ tiles ─(not known yet)─> judge: overrides ─> rules, map, healthy, nearest, failover
//!                                                                   └─> outcome ─> tiles
//! ```
//!
//! Invariants: a view never changes; when a set, a ruleset or the place of a site does, the next
//! question makes a new one. What is judged depends on nothing but the inputs of its tiles and,
//! where members of sets expire, on the time.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use whered_geo::Place;
use whered_ip::LayeredSet;
use whered_mmdb::RecordId;
use whered_rules::Verdict;

use super::Live;
use super::compiled::{CompiledPolicy, Step, add_bounds};
use super::direct_mapped::DirectMappedCache;
use super::outcome::{KnownOutcome, Outcome, Outcomes};
use super::region::{Inputs, Region, bits_of};
use super::scope_cache::{CacheRules, ScopeCache};
use crate::clock;
use crate::keyspace::value::Value;
use crate::rulesets::{Edition, SourceInputs};
use crate::steering::pool::{Site, WhenAllDown};

const RECORD_SLOTS: usize = 1 << 14;

/// See the head of this file.
pub(super) struct PolicySnapshot {
    pub(super) policy: Arc<CompiledPolicy>,
    rules: Vec<Rules>,
    /// The sets that were looked at, by name; the overrides come first.
    sets: Vec<(String, Option<Arc<LayeredSet>>)>,
    sites: Vec<SiteState>,
    /// When the collection was looked at, in milliseconds since 1970.
    looked_at: AtomicU64,
    pub(super) outcomes: Outcomes,
    tiles: ScopeCache,
    /// Outcomes by record, where a record alone decides.
    records: Option<DirectMappedCache>,
}

#[derive(Clone)]
struct Rules {
    edition: Arc<Edition>,
    asked: Arc<SourceInputs>,
}

/// Whether a site may be chosen at all, and where it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct SiteState {
    pub(super) is_there: bool,
    pub(super) place: Option<Place>,
}

/// Whom a policy is evaluated for.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    /// `None` for somebody who is only known to be at a place: what looks at addresses is left out.
    pub(super) address: Option<IpAddr>,
    /// The record of each of the policy's databases.
    pub(super) records: &'a dyn Fn(usize) -> Option<RecordId>,
    /// Where it is, if that is known; the records say it otherwise.
    pub(super) place: Option<Place>,
}

impl Subject<'_> {
    /// Somebody of whom only the place is known.
    pub(super) fn at(place: Place) -> Subject<'static> {
        Subject { address: None, records: &|_| None, place: Some(place) }
    }
}

/// What a judgement met on its way, for the explanation.
#[derive(Default)]
pub(crate) struct Trace {
    /// The set, the member and its value.
    pub(crate) set_entry: Option<(String, String, String)>,
    /// Rulesets that were asked, in order.
    pub(crate) rules: Vec<RuleAnswer>,
    /// The map and the list.
    pub(crate) maps: Vec<(String, String)>,
}

/// What a ruleset said.
pub(crate) struct RuleAnswer {
    pub(crate) ruleset: String,
    pub(crate) verdict: String,
    /// The rule's number; `None` for the policy.
    pub(crate) number: Option<u32>,
    /// Its file and line.
    pub(crate) origin: Option<String>,
}

impl PolicySnapshot {
    /// The pool as it is now; of an older view what has not changed is taken over.
    pub(super) fn new(
        policy: &Arc<CompiledPolicy>,
        live: &Live<'_>,
        old: Option<&PolicySnapshot>,
    ) -> PolicySnapshot {
        let rules = policy.rulesets.iter().enumerate().map(|(index, named)| {
            let known = old.and_then(|old| old.rules.get(index));
            let known = known.filter(|known| named.is_at(&known.edition));
            known.cloned().unwrap_or_else(|| {
                let edition = named.edition();
                Rules { asked: Arc::new(edition.source_inputs()), edition }
            })
        });
        let rules: Vec<Rules> = rules.collect();
        let mut names: Vec<&String> = policy.pool.overrides.iter().collect();
        names.extend(rules.iter().flat_map(|rules| &rules.asked.sets));
        let sets: Vec<_> =
            names.iter().map(|name| ((*name).clone(), live.prefix_sets.version(name))).collect();
        let now_millis = if policy.pool.sites_from.is_some() { clock::now_millis() } else { 0 };
        let sites = site_states(policy, live);
        let (inputs, is_whole) = inputs(policy, &rules, &sets, &sites, old);
        let expires = |(_, set): &(String, Option<Arc<LayeredSet>>)| {
            set.as_ref().is_some_and(|set| set.has_expiries())
        };
        let is_volatile = sets.iter().any(expires);
        let is_steady = !policy.is_live();
        let record_decides = rules.is_empty()
            && sets.is_empty()
            && policy.bounds.iter().all(Vec::is_empty)
            && inputs.databases.len() <= 2;
        PolicySnapshot {
            policy: Arc::clone(policy),
            rules,
            sets,
            sites,
            looked_at: now_millis.into(),
            outcomes: Outcomes::new(),
            records: record_decides.then(|| DirectMappedCache::new(RECORD_SLOTS)),
            tiles: ScopeCache::new(inputs, CacheRules { is_steady, is_volatile, is_whole }),
        }
    }

    /// Whether everything is still so.
    #[inline]
    pub(super) fn is_current(&self, live: &Live<'_>) -> bool {
        self.policy
            .rulesets
            .iter()
            .zip(&self.rules)
            .all(|(named, rules)| named.is_at(&rules.edition))
            && self.sets.iter().all(|(name, set)| live.prefix_sets.is_at(name, set.as_ref()))
            && self.policy.pool.sites_from.as_ref().is_none_or(|from| {
                let refresh_millis = from.refresh.as_millis() as u64;
                let now_millis = clock::now_millis();
                let looked_at = self.looked_at.load(Ordering::Relaxed);
                if now_millis.wrapping_sub(looked_at) < refresh_millis.max(1) {
                    return true;
                }
                // The first caller looks for all.
                let order = Ordering::Relaxed;
                let is_first = self.looked_at.compare_exchange(looked_at, now_millis, order, order);
                is_first.is_err() || site_states(&self.policy, live) == self.sites
            })
    }

    /// The number of the outcome for an address, and its scope.
    #[inline]
    pub(super) fn find(&self, address: IpAddr, live: &Live<'_>) -> (u32, u8) {
        let evaluate = |region: &Region| self.evaluate_region(region, live);
        self.tiles.find(bits_of(address), address.is_ipv4(), &evaluate)
    }

    /// Asks for what [`PolicySnapshot::find`] will read.
    pub(super) fn prefetch(&self, addresses: impl Iterator<Item = IpAddr> + Clone) {
        self.tiles.prefetch(addresses);
    }

    pub(super) fn sites(&self) -> &[SiteState] {
        &self.sites
    }

    pub(super) fn inputs(&self) -> &Inputs {
        self.tiles.inputs()
    }

    fn evaluate_region(&self, region: &Region, live: &Live<'_>) -> u32 {
        let record = |at: usize| region.record(at);
        let key = self.records.as_ref().map(|records| {
            let part = |at| record(at).map_or(0, |record| u64::from(record.to_u32()) + 1);
            (records, part(0) | part(1) << 32)
        });
        if let Some(known) = key.and_then(|(records, key)| records.get(key)) {
            return known as u32;
        }
        let address = Some(region.address());
        let subject = Subject { address, records: &record, place: None };
        let outcome = self.evaluate(&subject, live, None);
        let number = self.outcomes.intern(outcome, self.weighted());
        if let Some((records, key)) = key {
            records.put(key, number.into());
        }
        number
    }

    /// What the policy comes to for somebody.
    pub(super) fn evaluate(
        &self,
        subject: &Subject<'_>,
        live: &Live<'_>,
        mut trace: Option<&mut Trace>,
    ) -> Outcome {
        let Subject { address, records, place } = *subject;
        let list = address.and_then(|address| self.overridden(address, trace.as_deref_mut()));
        if let Some(list) = list {
            return self.finish(list);
        }
        let there = |site: &u16| self.sites[usize::from(*site)].is_there;
        let mut list: Vec<u16> = (0..self.sites.len() as u16).filter(there).collect();
        for step in &self.policy.steps {
            match step {
                Step::Rules(index) => {
                    let Some(address) = address else { continue };
                    let verdict = self.ask_rules(*index, address, live, trace.as_deref_mut());
                    match verdict {
                        Verdict::Drop => return Outcome::Drop,
                        Verdict::Reject { .. } => return Outcome::Refuse,
                        Verdict::Site(name) => {
                            if let Some(list) = self.usable(&name) {
                                return self.finish(list);
                            }
                        }
                        // What depends on a limit says nothing of a site.
                        Verdict::Accept | Verdict::Continue | Verdict::Queue | Verdict::Maybe => {}
                    }
                }
                Step::Map(map) => {
                    let Some(address) = address else { continue };
                    let (inputs, paths) = (&self.policy.inputs, &self.policy.paths);
                    map.lists(inputs, paths, address, records, |what, listed| {
                        let left: Vec<u16> =
                            listed.iter().copied().filter(|site| list.contains(site)).collect();
                        if left.is_empty() {
                            return false;
                        }
                        list = left;
                        if let Some(trace) = trace.as_deref_mut() {
                            trace.maps.push((map.name().to_owned(), what()));
                        }
                        true
                    });
                }
                Step::Healthy => {
                    let up: Vec<u16> =
                        list.iter().copied().filter(|site| self.is_up(*site)).collect();
                    if !up.is_empty() || self.policy.pool.when_all_down == WhenAllDown::None {
                        list = up;
                    }
                }
                Step::Nearest => {
                    let place = place.or_else(|| self.place_of(records));
                    self.keep_nearest(&mut list, place);
                }
                Step::Failover(threshold) => self.keep_group(&mut list, *threshold),
            }
        }
        self.finish(list)
    }

    /// Where the client is, by the database of places.
    pub(super) fn place_of(&self, records: &dyn Fn(usize) -> Option<RecordId>) -> Option<Place> {
        let at = self.policy.places?;
        self.policy.paths.location(&self.policy.inputs.databases[at], records(at)?)
    }

    /// Whether what it comes to may change by time alone.
    pub(super) fn is_volatile(&self) -> bool {
        self.tiles.is_volatile()
    }

    /// Whether all that decides is among its inputs.
    pub(super) fn is_whole(&self) -> bool {
        self.tiles.is_whole()
    }

    /// An outcome that is not kept here, ready to be chosen from.
    pub(super) fn known(&self, outcome: Outcome) -> KnownOutcome {
        KnownOutcome::new(outcome, self.weighted())
    }

    fn weighted(&self) -> Option<&[Site]> {
        self.policy.is_weighted.then_some(&self.policy.pool.sites[..])
    }

    /// The site or group that the overrides name for an address.
    pub(super) fn override_name(&self, address: IpAddr) -> Option<&str> {
        self.policy.pool.overrides.as_ref()?;
        let (_, set) = self.sets.first()?;
        let found = set.as_ref()?.longest_match(address, clock::now_millis())?;
        let name = std::str::from_utf8(found.value?).ok()?;
        self.policy.named.contains_key(name).then_some(name)
    }

    /// Whether an address is in each of the sets that rules ask.
    pub(super) fn memberships(&self, address: IpAddr) -> Vec<bool> {
        let now_millis = clock::now_millis();
        let of_rules = self.sets.iter().skip(usize::from(self.policy.pool.overrides.is_some()));
        let is_in = |(_, set): &(String, Option<Arc<LayeredSet>>)| {
            set.as_ref().is_some_and(|set| set.contains(address, now_millis))
        };
        of_rules.map(is_in).collect()
    }

    fn overridden(&self, address: IpAddr, trace: Option<&mut Trace>) -> Option<Vec<u16>> {
        self.policy.pool.overrides.as_ref()?;
        let (name, set) = self.sets.first()?;
        let found = set.as_ref()?.longest_match(address, clock::now_millis())?;
        let value = std::str::from_utf8(found.value?).ok()?;
        let list = self.usable(value)?;
        if let Some(trace) = trace {
            trace.set_entry = Some((name.clone(), found.block.to_string(), value.to_owned()));
        }
        Some(list)
    }

    fn ask_rules(
        &self,
        index: usize,
        address: IpAddr,
        live: &Live<'_>,
        trace: Option<&mut Trace>,
    ) -> Verdict {
        let edition = &self.rules[index].edition;
        let decision = edition.evaluate(address, live.prefix_sets);
        if let Some(trace) = trace {
            let line = decision.rule.and_then(|number| edition.rule(number));
            trace.rules.push(RuleAnswer {
                ruleset: self.policy.rulesets[index].name.clone(),
                verdict: decision.verdict.to_string(),
                number: decision.rule,
                origin: line.map(|rule| rule.origin.to_string()),
            });
        }
        decision.verdict
    }

    /// The sites of a name that may be chosen; none is as if it had not been named.
    fn usable(&self, name: &str) -> Option<Vec<u16>> {
        let list = self.policy.named.get(name)?.iter().copied();
        let may_be = |site: &u16| {
            self.sites[usize::from(*site)].is_there
                && (!self.policy.asks_for_health || self.is_up(*site))
        };
        let list: Vec<u16> = list.filter(may_be).collect();
        (!list.is_empty()).then_some(list)
    }

    fn is_up(&self, site: u16) -> bool {
        self.policy.pool.sites[usize::from(site)].is_up()
    }

    /// Keeps as many as are answered, and those that are as near as the last of them. Where a place
    /// is not known, the order stays.
    fn keep_nearest(&self, list: &mut Vec<u16>, place: Option<Place>) {
        let answers = self.policy.pool.answers;
        let Some(place) = place else {
            list.truncate(answers);
            return;
        };
        let distance = |site: u16| {
            let at = self.sites[usize::from(site)].place;
            at.map_or(f64::INFINITY, |at| place.distance_meters(at))
        };
        let mut by_distance: Vec<(f64, u16)> =
            list.iter().map(|site| (distance(*site), *site)).collect();
        // The sort is stable: the order before breaks ties.
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((last, _)) = by_distance.get(answers.saturating_sub(1)) {
            let last = *last;
            let nearer = by_distance.iter().take_while(|(distance, _)| *distance <= last).count();
            by_distance.truncate(nearer.max(answers));
        }
        list.clear();
        list.extend(by_distance.iter().map(|(_, site)| *site));
    }

    /// Keeps the first group of which enough is up, or the first of all.
    fn keep_group(&self, list: &mut Vec<u16>, threshold: f64) {
        let sites = &self.policy.pool.sites;
        let group = |site: u16| sites[usize::from(site)].group();
        let mut groups: Vec<&str> = Vec::new();
        for site in &*list {
            if !groups.contains(&group(*site)) {
                groups.push(group(*site));
            }
        }
        let is_enough = |name: &&&str| {
            let count = |up_only: bool| -> usize {
                let of_it = sites.iter().filter(|site| site.group() == **name);
                let of_it = of_it.filter(|site| !up_only || site.is_up());
                of_it.map(|site| site.addresses.len().max(1)).sum()
            };
            let up = count(true);
            up > 0 && up as f64 >= threshold * count(false) as f64
        };
        if let Some(kept) = groups.iter().find(is_enough).or(groups.first()).copied() {
            list.retain(|site| group(*site) == kept);
        }
    }

    fn finish(&self, mut list: Vec<u16>) -> Outcome {
        if !self.policy.is_weighted {
            list.truncate(self.policy.pool.answers);
        }
        Outcome::Sites(list.into())
    }
}

/// Where sites are: in the collection, if there is one.
fn site_states(policy: &CompiledPolicy, live: &Live<'_>) -> Vec<SiteState> {
    let sites = &policy.pool.sites;
    let Some(from) = &policy.pool.sites_from else {
        return sites.iter().map(|site| SiteState { is_there: true, place: site.place }).collect();
    };
    live.keyspace.read(0, from.collection.as_bytes(), |value| {
        let members = value.and_then(Value::ordered);
        let site_state = |name: &str| {
            let place = members.and_then(|members| members.place(name.as_bytes()));
            SiteState { is_there: place.is_some(), place }
        };
        sites.iter().map(|site| site_state(&site.name)).collect()
    })
}

/// What the choice can depend on, and whether that is all of it.
fn inputs(
    policy: &CompiledPolicy,
    rules: &[Rules],
    sets: &[(String, Option<Arc<LayeredSet>>)],
    sites: &[SiteState],
    old: Option<&PolicySnapshot>,
) -> (Inputs, bool) {
    let mut inputs = policy.inputs.clone();
    let mut is_whole = policy.is_whole();
    let databases = rules.iter().flat_map(|rules| &rules.asked.databases);
    for named in databases {
        is_whole &= inputs.add_database(named).is_some();
    }
    let same = |old: &&PolicySnapshot| {
        old.rules.len() == rules.len()
            && old.rules.iter().zip(rules).all(|(a, b)| Arc::ptr_eq(&a.asked, &b.asked))
    };
    inputs.bounds = match old.filter(same) {
        Some(old) => Arc::clone(&old.inputs().bounds),
        None => Arc::new(bounds(policy, rules)),
    };
    inputs.sets = sets.iter().filter_map(|(_, set)| set.clone()).collect();
    let is_up = |at: usize| !policy.asks_for_health || policy.pool.sites[at].is_up();
    let candidates = (0..sites.len()).filter(|at| sites[*at].is_there && is_up(*at)).count();
    let only_nearest = |step: &Step| matches!(step, Step::Nearest | Step::Healthy);
    let all_the_same = candidates <= 1 && policy.steps.iter().all(only_nearest);
    let is_none = candidates == 0 && policy.pool.when_all_down == WhenAllDown::All;
    if all_the_same && !is_none && policy.pool.overrides.is_none() {
        // Wherever a client is, there is nothing to choose from.
        inputs = Inputs::default();
    }
    (inputs, is_whole)
}

fn bounds(policy: &CompiledPolicy, rules: &[Rules]) -> [Vec<u128>; 2] {
    let mut bounds = policy.bounds.clone();
    for (family, bounds) in bounds.iter_mut().enumerate() {
        let is_ipv4 = family == 0;
        let shift = if is_ipv4 { 96 } else { 0 };
        for (first, last) in rules.iter().flat_map(|rules| &rules.asked.ranges[family]) {
            add_bounds(bounds, first << shift, last << shift, is_ipv4);
        }
        bounds.sort_unstable();
        bounds.dedup();
    }
    bounds
}
