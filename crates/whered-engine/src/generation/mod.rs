//! One generation: everything that was loaded, as one immutable whole.
//!
//! ```text
//! Engine.current ──(swapped by pointer)──> Generation { databases, zones, pools, steering }
//! ```
//!
//! A query takes the generation once and answers from it to the end, so that a reload is seen
//! wholly or not at all. Collections and prefix sets are live and stand beside it.
//! A change of one site makes a new generation that shares all else with the old one.

pub(crate) mod changes;
pub(crate) mod setup;
pub(crate) mod signing;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use whered_dns::update::ZoneOverlay;
use whered_dns::{Answer, Choice, Chooser, Client, Name, Zone, Zones};
use whered_geo::Place;

use crate::databases::NamedDatabase;
use crate::error::{EngineError, Subject};
use crate::generation::changes::{Changes, Overlays};
use crate::generation::setup::{LoadedFiles, Setup};
use crate::generation::signing::{Signer, keep_serial, served_secondary};
use crate::rulesets::{CompileContext, NamedRuleset, NumberedRuleset, ReadFile, RulesOptions};
use crate::steering::pool::{Pool, Site};
use crate::steering::{Live, PolicyContext, Steering};
use crate::zones::aliases::ServedAlias;
use crate::zones::reversed::ReversedSource;

/// Databases, zones and pools of one moment.
pub struct Generation {
    number: u64,
    databases: Vec<Arc<NamedDatabase>>,
    place_database: Option<usize>,
    /// The zones as their files or primaries have them.
    zone_list: Vec<Arc<Zone>>,
    /// What updates have made of some of them.
    overlays: Overlays,
    /// Both together, as they are served.
    served_zones: Vec<Arc<Zone>>,
    /// Of zones whose updates did not fit the file at the start, why.
    unfit_overlays: Vec<String>,
    /// For each zone what answers at the addresses below its apex.
    reversed: Arc<[Option<ReversedSource>]>,
    zones: Arc<Zones>,
    pools: Vec<Arc<Pool>>,
    steering: Vec<Arc<Steering>>,
    /// Their pools are behind those of the configuration.
    aliases: Vec<ServedAlias>,
    rulesets: Vec<Arc<NamedRuleset>>,
    /// Rulesets set by command that do not serve, and why.
    resting: Vec<(String, String)>,
}

impl Generation {
    /// Puts a generation together.
    ///
    /// # Errors
    /// A place database that is not loaded; pool owners outside every zone or with a CNAME.
    pub(crate) fn build(
        number: u64,
        setup: &Setup,
        changes: &Changes,
        loaded: LoadedFiles,
        old: Option<&Generation>,
    ) -> Result<Generation, EngineError> {
        let in_generation = |mut named: NamedDatabase| {
            named.generation = number;
            Arc::new(named)
        };
        let databases = loaded.databases.into_iter().map(in_generation).collect();
        let (zones, rulesets) = (loaded.zones, loaded.rulesets);
        let loaded = BuiltFrom {
            databases,
            zones,
            rulesets,
            known: old.map_or(&[], |old| &old.rulesets),
            before: old.map(|old| Arc::clone(&old.zones)),
            now_seconds: loaded.now_seconds,
            is_start: old.is_none(),
        };
        Generation::build_from(number, setup, changes, loaded)
    }

    /// The generation of a start once what commands have changed is known: the files are those of
    /// this one, which was built without.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_changes(
        self,
        setup: &Setup,
        changes: &Changes,
        rulesets: Vec<ReadFile>,
        now_seconds: u64,
    ) -> Result<Generation, EngineError> {
        if changes.is_empty() {
            return Ok(self);
        }
        let (databases, zones) = (self.databases, self.zone_list);
        // What was compiled a moment ago is compiled again only where it asks for places.
        let known = &self.rulesets;
        let before = Some(self.zones);
        let loaded =
            BuiltFrom { databases, zones, rulesets, known, before, now_seconds, is_start: true };
        Generation::build_from(self.number, setup, changes, loaded)
    }

    fn build_from(
        number: u64,
        setup: &Setup,
        changes: &Changes,
        loaded: BuiltFrom<'_>,
    ) -> Result<Generation, EngineError> {
        let BuiltFrom {
            databases,
            zones: zone_list,
            rulesets: files,
            known,
            before,
            now_seconds,
            is_start,
        } = loaded;
        let place_database = place_database(setup, &databases)?;
        let pools: Vec<_> = setup.pools.iter().map(|p| Arc::new(changes.sites.apply(p))).collect();
        let reversed = reversed(setup, &databases)?;
        let signer = Signer::after(setup, before.as_deref(), now_seconds);
        let (overlays, served_zones, unfit) =
            overlaid(&zone_list, setup, changes, &signer, is_start)?;
        let aliases: Vec<ServedAlias> = setup.aliases.iter().map(|a| changes.alias(a)).collect();
        let zones = Arc::new(build_zones(&served_zones, &reversed, &pools, &aliases)?);
        let context =
            CompileContext { databases: &databases, default: place_database, options: setup.rules };
        let (rulesets, resting) = rulesets(&files, changes, &context, known, is_start)?;
        let mut generation = Generation {
            number,
            databases,
            place_database,
            zone_list,
            overlays,
            served_zones,
            unfit_overlays: unfit,
            reversed,
            zones,
            pools,
            steering: Vec::new(),
            aliases,
            rulesets,
            resting,
        };
        generation.steering =
            generation.pools.iter().map(|pool| generation.new_steering(pool)).collect();
        Ok(generation)
    }

    /// A field that no record of its database has makes a condition that no packet meets: mostly a
    /// typing error. Rulesets of files are looked at; costs a look at the records until one has the
    /// field.
    ///
    /// # Errors
    /// The first such condition, with its place in its file.
    pub(crate) fn check_places(&self) -> Result<(), EngineError> {
        for named in self.rulesets.iter().filter(|named| named.file.is_some()) {
            let wrong = named.wrong_places();
            if let [first, others @ ..] = &wrong[..] {
                let more = match others.len() {
                    0 => String::new(),
                    more => format!("; {more} more conditions ask for what no database has"),
                };
                let about = Subject::Ruleset(named.name.clone());
                return Err(EngineError::new(format!("{first}{more}")).about(about));
            }
        }
        Ok(())
    }

    /// The next generation after the sites of one pool have changed.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_changed_pool(
        &self,
        index: usize,
        pool: Pool,
    ) -> Result<Generation, EngineError> {
        let answers_differ = answers(&pool) != answers(&self.pools[index]);
        let mut next = self.next();
        next.pools[index] = Arc::new(pool);
        next.steering[index] = next.new_steering(&next.pools[index]);
        if answers_differ {
            next.build_zones()?;
        }
        Ok(next)
    }

    /// The next generation after the health of sites, and nothing else of them, has changed. A
    /// pool whose sites may be chosen as before keeps its steering.
    pub(crate) fn with_site_health(&self, changed: Vec<(usize, Pool)>) -> Generation {
        let mut next = self.next();
        for (index, pool) in changed {
            let old = self.pools[index].sites.iter().map(|site| site.healthy);
            let is_as_before = pool.sites.iter().map(|site| site.healthy).eq(old);
            next.pools[index] = Arc::new(pool);
            if !is_as_before {
                next.steering[index] = next.new_steering(&next.pools[index]);
            }
        }
        next
    }

    /// The next generation with a ruleset in the place of the one of that name, or without it.
    pub(crate) fn with_ruleset(&self, name: &str, named: Option<Arc<NamedRuleset>>) -> Generation {
        let mut rulesets = self.rulesets.clone();
        let mut resting = self.resting.clone();
        resting.retain(|(resting, _)| resting != name);
        match (rulesets.iter().position(|old| old.name == name), named) {
            (Some(index), Some(named)) => rulesets[index] = named,
            (Some(index), None) => drop(rulesets.remove(index)),
            (None, Some(named)) => {
                // Those of files come first, in the configuration's order.
                let before =
                    |old: &Arc<NamedRuleset>| old.file.is_some() || *old.name < *named.name;
                let index = rulesets.partition_point(before);
                rulesets.insert(index, named);
            }
            (None, None) => {}
        }
        let mut next = Generation { rulesets, resting, ..self.next() };
        for index in 0..next.steering.len() {
            if next.steering[index].asks_ruleset(name) {
                next.steering[index] = next.new_steering(&next.pools[index]);
            }
        }
        next
    }

    /// The next generation after one database was loaded again; rulesets that ask for places
    /// are compiled with its, all else is shared.
    ///
    /// # Errors
    /// A ruleset asks for something that the database has no longer.
    pub(crate) fn with_changed_database(
        &self,
        index: usize,
        mut named: NamedDatabase,
    ) -> Result<Generation, EngineError> {
        let mut generation = self.next();
        named.generation = generation.number;
        generation.databases[index] = Arc::new(named);
        let compile = |named: &Arc<NamedRuleset>| {
            if !named.has_places() {
                return Ok(Arc::clone(named));
            }
            named.compile_again(&generation.compile_context(named.options())).map(Arc::new)
        };
        generation.rulesets = self.rulesets.iter().map(compile).collect::<Result<_, _>>()?;
        // A map or a ruleset may ask any database.
        generation.steering =
            generation.pools.iter().map(|pool| generation.new_steering(pool)).collect();
        Ok(generation)
    }

    /// The next generation after one zone was loaded again; all else is shared.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_changed_zone(
        &self,
        index: usize,
        zone: Arc<Zone>,
    ) -> Result<Generation, EngineError> {
        let mut next = self.next();
        let of_zone = format!("zone '{}'", zone.origin());
        next.unfit_overlays.retain(|line| !line.starts_with(&of_zone));
        next.served_zones[index] = match self.overlays.get(zone.origin()) {
            Some(overlay) => with_overlay(&zone, overlay)?,
            None => Arc::clone(&zone),
        };
        next.zone_list[index] = zone;
        next.build_zones()?;
        Ok(next)
    }

    /// The next generation with what other servers gave of zones, and what is served of them, each
    /// with the index of its zone.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_secondary_zones<'z>(
        &self,
        zones: impl Iterator<Item = (usize, &'z Arc<Zone>, &'z Arc<Zone>)>,
    ) -> Result<Generation, EngineError> {
        let mut next = self.next();
        for (index, given, served) in zones {
            if !next.unfit_overlays.is_empty() {
                let of_zone = format!("zone '{}'", given.origin());
                next.unfit_overlays.retain(|line| !line.starts_with(&of_zone));
            }
            next.zone_list[index] = Arc::clone(given);
            next.served_zones[index] = Arc::clone(served);
        }
        next.build_zones()?;
        Ok(next)
    }

    /// The next generation after an update of a zone, which is served so.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_updated_zone(
        &self,
        index: usize,
        overlay: Arc<ZoneOverlay>,
        served: Arc<Zone>,
    ) -> Result<Generation, EngineError> {
        let mut next = self.next();
        let of_zone = format!("zone '{}'", served.origin());
        next.unfit_overlays.retain(|line| !line.starts_with(&of_zone));
        if overlay.is_empty() {
            next.overlays.remove(served.origin());
        } else {
            next.overlays.insert(served.origin().clone(), overlay);
        }
        next.served_zones[index] = served;
        next.build_zones()?;
        Ok(next)
    }

    /// The next generation after the addresses of aliases have changed.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_aliases(&self, changes: &Changes) -> Result<Generation, EngineError> {
        let mut next = self.next();
        for alias in &mut next.aliases {
            *alias = changes.alias(&alias.source);
        }
        next.build_zones()?;
        Ok(next)
    }

    /// Makes the index of zones anew.
    fn build_zones(&mut self) -> Result<(), EngineError> {
        let zones = build_zones(&self.served_zones, &self.reversed, &self.pools, &self.aliases)?;
        self.zones = Arc::new(zones);
        Ok(())
    }

    /// A zone as its file or its primaries have it, with its place in the configuration.
    pub(crate) fn base_zone(&self, origin: &Name) -> Option<(usize, &Arc<Zone>)> {
        let index = self.zones.index_of(origin)?;
        Some((index, self.zone_list.get(index)?))
    }

    /// The next generation with these zones of catalogs behind the `configured` zones of the
    /// configuration, in the place of those that were there.
    ///
    /// # Errors
    /// As [`Generation::build`].
    pub(crate) fn with_members(
        &self,
        configured: usize,
        members: &[Arc<Zone>],
    ) -> Result<Generation, EngineError> {
        let mut next = self.next();
        for zones in [&mut next.zone_list, &mut next.served_zones] {
            zones.truncate(configured);
            zones.extend(members.iter().cloned());
        }
        let own = self.reversed.iter().take(configured).cloned();
        next.reversed = own.chain(members.iter().map(|_| None)).collect();
        // What comes from other servers is as they have it.
        members.iter().for_each(|zone| drop(next.overlays.remove(zone.origin())));
        next.build_zones()?;
        Ok(next)
    }

    /// A zone as its file or its primaries have it: without what updates and signing have made of
    /// it. A zone that is signed here and comes from a file is signed there, too.
    pub fn zone_as_given(&self, origin: &Name) -> Option<&Arc<Zone>> {
        self.base_zone(origin).map(|(_, zone)| zone)
    }

    /// Keeps the serials of zones that are signed here and that other servers get.
    ///
    /// # Errors
    /// One cannot be written.
    pub(crate) fn keep_serials(&self, setup: &Setup) -> Result<(), EngineError> {
        setup.zones.iter().zip(&self.served_zones).try_for_each(|(source, zone)| {
            keep_serial(source, zone)
                .map_err(|error| error.about(Subject::Zone(source.name.clone())))
        })
    }

    /// Of zones whose updates did not fit the file at the start, why; one line each.
    pub fn unfit_overlays(&self) -> &[String] {
        &self.unfit_overlays
    }

    /// The next generation, which shares everything.
    fn next(&self) -> Generation {
        Generation {
            number: self.number + 1,
            databases: self.databases.clone(),
            place_database: self.place_database,
            zone_list: self.zone_list.clone(),
            overlays: self.overlays.clone(),
            served_zones: self.served_zones.clone(),
            unfit_overlays: self.unfit_overlays.clone(),
            reversed: Arc::clone(&self.reversed),
            zones: Arc::clone(&self.zones),
            pools: self.pools.clone(),
            steering: self.steering.clone(),
            aliases: self.aliases.clone(),
            rulesets: self.rulesets.clone(),
            resting: self.resting.clone(),
        }
    }

    /// The generation's number: one more at every change.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The databases, in the configuration's order.
    pub fn databases(&self) -> &[Arc<NamedDatabase>] {
        &self.databases
    }

    /// The database of that name.
    pub fn database(&self, name: &str) -> Option<&Arc<NamedDatabase>> {
        self.databases.iter().find(|named| named.name == name)
    }

    /// The database that clients' places come from: the configured one, else the first.
    pub fn default_database(&self) -> Option<&Arc<NamedDatabase>> {
        self.place_database.and_then(|index| self.databases.get(index))
    }

    /// All zones with the pools attached.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// What answers at the addresses below each zone's apex.
    pub(crate) fn reversed(&self) -> &[Option<ReversedSource>] {
        &self.reversed
    }

    /// The pools; the index is the one that [`whered_dns::answer`] asks with.
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pool_index(name).map(|index| &self.pools[index])
    }

    /// The rulesets, in the configuration's order.
    pub fn rulesets(&self) -> &[Arc<NamedRuleset>] {
        &self.rulesets
    }

    /// The ruleset of that name.
    pub fn ruleset(&self, name: &str) -> Option<&Arc<NamedRuleset>> {
        self.rulesets.iter().find(|named| named.name == name)
    }

    /// Why a ruleset that a command has set does not serve.
    pub fn resting(&self, name: &str) -> Option<&str> {
        let found = self.resting.iter().find(|(resting, _)| resting == name)?;
        Some(&found.1)
    }

    /// What rulesets are compiled with.
    pub(crate) fn compile_context(&self, options: RulesOptions) -> CompileContext<'_> {
        CompileContext { databases: &self.databases, default: self.place_database, options }
    }

    /// The index of the pool of this name, or of the one that answers at this domain name.
    pub fn pool_called(&self, name: &str) -> Option<usize> {
        let folded = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let owns = |pool: &Arc<Pool>| pool.owners.iter().any(|owner| folded(owner) == folded(name));
        self.pool_index(name).or_else(|| self.pools.iter().position(owns))
    }

    pub(crate) fn pool_index(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.name == name)
    }

    /// Chooses the sites for a client and says how many of its leading address bits decided.
    ///
    /// # Panics
    /// When there is no pool and no alias of that index.
    #[inline]
    pub fn steer(&self, pool_index: usize, client: &Client, live: &Live<'_>) -> Choice {
        match self.steering.get(pool_index) {
            Some(steering) => steering.steer(client, live),
            None => self.aliases[pool_index - self.steering.len()].choice(),
        }
    }

    /// Chooses the sites for somebody of whom only the place is known: overrides, rules and maps,
    /// which look at addresses, are left out.
    ///
    /// # Panics
    /// When there is no pool of that index.
    pub fn steer_at(&self, pool_index: usize, place: Place, live: &Live<'_>) -> Choice {
        self.steering[pool_index].steer_at(place, live)
    }

    /// Where each site of a pool is now.
    ///
    /// # Panics
    /// When there is no pool of that index.
    pub fn site_locations(&self, pool_index: usize, live: &Live<'_>) -> Vec<Option<Place>> {
        self.steering[pool_index].site_locations(live)
    }

    pub(crate) fn steering(&self, pool_index: usize) -> &Steering {
        &self.steering[pool_index]
    }

    fn new_steering(&self, pool: &Arc<Pool>) -> Arc<Steering> {
        let context = PolicyContext {
            databases: &self.databases,
            default: self.default_database(),
            rulesets: &self.rulesets,
        };
        Arc::new(Steering::new(Arc::clone(pool), &context))
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Chooser for Generation {
    fn prefetch(&self, asked: &[(usize, IpAddr)]) {
        for asked in asked.chunk_by(|one, other| one.0 == other.0) {
            let steering = asked.first().and_then(|(pool, _)| self.steering.get(*pool));
            if let Some(steering) = steering {
                steering.prefetch(asked.iter().map(|(_, address)| *address));
            }
        }
    }
}

/// What a generation is built from, beside the setup.
struct BuiltFrom<'a> {
    databases: Vec<Arc<NamedDatabase>>,
    zones: Vec<Arc<Zone>>,
    rulesets: Vec<ReadFile>,
    /// Rulesets that are compiled already.
    known: &'a [Arc<NamedRuleset>],
    /// The zones as they were served before.
    before: Option<Arc<Zones>>,
    /// The time at which zones are signed, in seconds since 1970.
    now_seconds: u64,
    /// Whether there is no generation that could serve on.
    is_start: bool,
}

/// Rulesets that serve, and those that rest with the reason.
type Rulesets = (Vec<Arc<NamedRuleset>>, Vec<(String, String)>);

/// The rulesets of files, then those of commands. One that is what it was stays as it is.
fn rulesets(
    files: &[ReadFile],
    changes: &Changes,
    context: &CompileContext<'_>,
    known: &[Arc<NamedRuleset>],
    is_start: bool,
) -> Result<Rulesets, EngineError> {
    let known = |name: &str| known.iter().find(|named| named.name == name);
    let mut rulesets = Vec::new();
    for file in files {
        let same = known(&file.source.name).filter(|named| named.is_of(file, context));
        rulesets.push(match same {
            Some(named) => Arc::clone(named),
            None => {
                let about =
                    |error: EngineError| error.about(Subject::Ruleset(file.source.name.clone()));
                Arc::new(NamedRuleset::compile_file(file, context).map_err(about)?)
            }
        });
    }
    let mut resting = Vec::new();
    for (name, draft) in changes.rules.iter() {
        if files.iter().any(|file| file.source.name == name) {
            let reason = "the configuration defines a ruleset of this name";
            resting.push((name.to_owned(), reason.to_owned()));
            continue;
        }
        let same = known(name).filter(|named| named.file.is_none() && named.is_fit_for(context));
        if let Some(named) = same {
            rulesets.push(Arc::clone(named));
            continue;
        }
        let (ruleset, numbers) = draft.to_ruleset().expect("it was checked when it was changed");
        let numbered = NumberedRuleset { ruleset: Arc::new(ruleset), numbers };
        match NamedRuleset::compile(name, numbered, context) {
            Ok(named) => rulesets.push(Arc::new(named)),
            // At a start there is nothing that could serve on, and one ruleset is no reason to have
            // no server.
            Err(error) if is_start => resting.push((name.to_owned(), error.to_string())),
            Err(error) => {
                return Err(EngineError::new(format!("ruleset '{name}', set by command: {error}")));
            }
        }
    }
    Ok((rulesets, resting))
}

/// What updates have made of zones, the zones with it, and why some of it does not fit.
type OverlaidZones = (Overlays, Vec<Arc<Zone>>, Vec<String>);

/// Puts what updates have made of zones over them, and signs those of other servers that are signed
/// here.
fn overlaid(
    zones: &[Arc<Zone>],
    setup: &Setup,
    changes: &Changes,
    signer: &Signer<'_>,
    is_start: bool,
) -> Result<OverlaidZones, EngineError> {
    let mut overlays = changes.overlays.clone();
    // What comes from other servers is as they have it.
    for (source, zone) in setup.zones.iter().zip(zones) {
        if source.is_secondary {
            overlays.remove(zone.origin());
        }
    }
    let mut unfit = Vec::new();
    let mut sources = setup.zones.iter();
    let served = zones.iter().map(|zone| {
        let signed = sources.next().filter(|source| source.is_secondary && source.sign.is_some());
        let served = match (overlays.get(zone.origin()), signed) {
            (_, Some(source)) => {
                // Keys that are missing are a mistake of the configuration.
                signer.context(source, zone.origin())?;
                served_secondary(source, zone, signer)
            }
            (None, None) => Ok(Arc::clone(zone)),
            (Some(overlay), None) => with_overlay(zone, overlay),
        };
        match served {
            // At a start there is nothing that could serve on.
            Err(error) if is_start => {
                unfit.push(error.to_string());
                Ok(Arc::new(Zone::unavailable(zone.origin())))
            }
            other => other,
        }
    });
    let served = served.collect::<Result<_, EngineError>>()?;
    Ok((overlays, served, unfit))
}

/// A zone with what updates have made of it.
fn with_overlay(zone: &Arc<Zone>, overlay: &ZoneOverlay) -> Result<Arc<Zone>, EngineError> {
    let is_bare = overlay.is_empty() || (zone.is_signed() && !overlay.has_records());
    if is_bare || zone.is_unavailable() {
        return Ok(Arc::clone(zone));
    }
    let origin = zone.origin();
    let unfit = |reason: String| {
        EngineError::new(format!(
            "zone '{origin}': what updates have changed does not fit its file: {reason}; 'whered zone \
             discard {origin}' drops what they changed"
        ))
        .about(Subject::Zone(origin.to_string()))
    };
    if zone.is_signed() {
        return Err(unfit("the file has signatures now".to_owned()));
    }
    let patched = zone.patched("UPDATE", &[overlay.over(zone)]);
    patched.map(Arc::new).map_err(|error| unfit(error.to_string()))
}

fn place_database(
    setup: &Setup,
    databases: &[Arc<NamedDatabase>],
) -> Result<Option<usize>, EngineError> {
    let Some(name) = &setup.place_database else {
        return Ok((!databases.is_empty()).then_some(0));
    };
    match databases.iter().position(|database| database.name == *name) {
        Some(index) => Ok(Some(index)),
        None => {
            let message = format!("no such database '{name}' for the places of clients");
            Err(EngineError::new(message).about(Subject::PlaceDatabase))
        }
    }
}

/// What answers below each zone's apex; databases must be there.
fn reversed(
    setup: &Setup,
    databases: &[Arc<NamedDatabase>],
) -> Result<Arc<[Option<ReversedSource>]>, EngineError> {
    let checked = setup.zones.iter().map(|zone| {
        if let Some(ReversedSource::DatabaseTxt(source)) = &zone.reversed
            && !databases.iter().any(|database| database.name == source.database)
        {
            let (zone, database) = (&zone.name, &source.database);
            let message = format!("zone '{zone}': no such database '{database}'");
            return Err(EngineError::new(message).about(Subject::Zone(zone.clone())));
        }
        Ok(zone.reversed.clone())
    });
    checked.collect()
}

fn build_zones(
    zones: &[Arc<Zone>],
    reversed: &[Option<ReversedSource>],
    pools: &[Arc<Pool>],
    aliases: &[ServedAlias],
) -> Result<Zones, EngineError> {
    let mut builder = Zones::builder();
    for (index, zone) in zones.iter().enumerate() {
        builder = match reversed.get(index) {
            Some(Some(source)) => builder.add_reversed_zone(Arc::clone(zone), source.ttl_seconds()),
            _ => builder.add_zone(Arc::clone(zone)),
        };
    }
    for pool in pools {
        let owners = pool.owners.iter().map(|owner| {
            let parsed: Result<Name, _> = owner.parse();
            parsed.map_err(|error| {
                let message = format!("pool '{}': owner '{owner}': {error}", pool.name);
                EngineError::new(message).about(Subject::Pool(pool.name.clone()))
            })
        });
        builder = builder.add_pool(whered_dns::Pool {
            name: pool.name.clone(),
            owners: owners.collect::<Result<_, _>>()?,
            ttl_seconds: pool.ttl_seconds,
            answers: answers(pool),
        });
    }
    if !aliases.is_empty() {
        let origins = zones.iter().map(|zone| (zone.origin(), zone)).collect();
        for alias in aliases {
            builder = builder.add_pool(alias.to_pool(&origins)?);
        }
    }
    builder.build().map_err(|error| {
        let message = EngineError::new(error.to_string());
        let Some(pool) = error.pool() else { return message };
        let is_pool = pools.iter().any(|own| own.name == pool);
        let alias = aliases.iter().find(|own| own.pool_name() == pool);
        match alias.filter(|_| !is_pool) {
            Some(alias) => message.about(Subject::Zone(alias.source.zone.clone())),
            None => message.about(Subject::Pool(pool.to_owned())),
        }
    })
}

/// What DNS says for each site of a pool.
fn answers(pool: &Pool) -> Vec<Answer> {
    let of_site = |site: &Site| {
        let mut answer = Answer {
            alias: site.details.alias.clone(),
            others: site.details.records.clone(),
            reflect: site.details.reflect,
            ..Answer::default()
        };
        for address in &site.addresses {
            match address {
                std::net::IpAddr::V4(v4) => answer.ipv4.push(*v4),
                std::net::IpAddr::V6(v6) => answer.ipv6.push(*v6),
            }
        }
        answer
    };
    pool.sites.iter().map(of_site).collect()
}
