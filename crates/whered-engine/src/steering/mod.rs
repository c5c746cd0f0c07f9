//! Which sites a client is sent to, and how many leading bits of its address decided that.
//!
//! One `Steering` belongs to one pool of one generation: it is thrown away when a site, its health,
//! a zone's database or a ruleset is replaced. What moves in between (prefix sets, rules that are
//! changed one by one, a live collection) makes a new snapshot within it.
//!
//! ```text
//! Steering ── CompiledPolicy: the policy, names resolved
//!     └── PolicySnapshot: sets, rules and places of this moment
//!             └── ScopeCache: address -> outcome, exact scope
//!                     └── Outcomes: number -> sites, weights
//! ```
//!
//! For: the choice for one client, and its reasons. Not for: health (`pool.rs` has what is known),
//! what DNS answers for a site.
//! At the same time: any number of threads; when a view is out of date, several may make the next
//! one, and one of them stays.
//! Cost: `docs/design/steering.md`.

pub(crate) mod catchment;
mod compiled;
mod direct_mapped;
mod narrow;
mod outcome;
pub(crate) mod pool;
mod region;
mod scope_cache;
pub(crate) mod site_changes;
pub(crate) mod site_health;
mod snapshot;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use whered_dns::{Choice, Client};
use whered_geo::Place;

use crate::databases::NamedDatabase;
use crate::keyspace::Keyspace;
use crate::prefix_sets::PrefixSets;
use crate::steering::pool::{PolicyStep, Pool, Site};
use compiled::CompiledPolicy;
pub(crate) use compiled::PolicyContext;
pub(crate) use outcome::Outcome;
use outcome::mixed;
pub(crate) use snapshot::Trace;
use snapshot::{PolicySnapshot, SiteState, Subject};

/// The networks whose clients keep their site together where the policy says so.
const STICKY_LENGTH_BITS_V4: u8 = 24;
const STICKY_LENGTH_BITS_V6: u8 = 56;

/// What is live beside a generation and has a part in choices.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
}

/// Choices of one pool of one generation.
pub(crate) struct Steering {
    policy: Arc<CompiledPolicy>,
    snapshot: ArcSwapOption<PolicySnapshot>,
    is_live: bool,
}

/// One site as the explanation shows it.
pub(crate) struct Candidate {
    pub(crate) site: usize,
    /// Where it is now.
    pub(crate) place: Option<Place>,
    /// Whether it may be chosen.
    pub(crate) eligible: bool,
    pub(crate) distance_meters: Option<f64>,
}

/// Why a client is sent where it is.
pub(crate) struct Reason {
    pub(crate) trace: Trace,
    pub(crate) outcome: Outcome,
    pub(crate) is_weighted: bool,
    /// For a weighted outcome how often each of its sites comes first, adding up to 1.
    pub(crate) shares: Vec<f64>,
    pub(crate) scope_length_bits: u8,
    pub(crate) candidates: Vec<Candidate>,
}

impl Steering {
    pub(crate) fn new(pool: Arc<Pool>, context: &PolicyContext<'_>) -> Steering {
        let policy = Arc::new(CompiledPolicy::new(pool, context));
        Steering { is_live: policy.is_live(), policy, snapshot: ArcSwapOption::empty() }
    }

    /// Chooses for a client.
    #[inline]
    pub(crate) fn steer(&self, client: &Client, live: &Live<'_>) -> Choice {
        let guard = self.snapshot.load();
        if let Some(snapshot) = guard.as_deref()
            && (!self.is_live || snapshot.is_current(live))
        {
            return self.choose(snapshot, client, live);
        }
        let snapshot = self.renew(guard.as_deref(), live);
        self.choose(&snapshot, client, live)
    }

    /// Asks for what choices for these clients will read. The view may be out of date by then.
    pub(crate) fn prefetch(&self, addresses: impl Iterator<Item = IpAddr> + Clone) {
        if let Some(snapshot) = self.snapshot.load().as_deref() {
            snapshot.prefetch(addresses);
        }
    }

    #[inline]
    fn choose(&self, snapshot: &PolicySnapshot, client: &Client, live: &Live<'_>) -> Choice {
        let (outcome, scope_length_bits) = snapshot.find(client.address, live);
        if let Some(seed) = self.policy.sticky_seed {
            return self.keep(snapshot, outcome, client, scope_length_bits, seed);
        }
        snapshot.outcomes.choose(outcome, self.policy.pool.answers, scope_length_bits)
    }

    /// Chooses for the client's network, which keeps its choice.
    #[cold]
    fn keep(
        &self,
        snapshot: &PolicySnapshot,
        outcome: u32,
        client: &Client,
        scope_length_bits: u8,
        seed: u64,
    ) -> Choice {
        let (network, length_bits) = match client.address {
            IpAddr::V4(v4) => {
                let length_bits = client.prefix_length_bits.min(STICKY_LENGTH_BITS_V4);
                let behind = 32 - u32::from(length_bits);
                let bits = u32::from(v4).checked_shr(behind).unwrap_or(0);
                (u64::from(bits), length_bits)
            }
            IpAddr::V6(v6) => {
                let length_bits = client.prefix_length_bits.min(STICKY_LENGTH_BITS_V6);
                let behind = 128 - u32::from(length_bits);
                let bits = u128::from(v6).checked_shr(behind).unwrap_or(0);
                // At most 56 bits are left; the mark tells them from IPv4.
                (bits as u64 | 1 << 63, length_bits)
            }
        };
        let seed = mixed(seed ^ mixed(network));
        let (answers, scope) = (self.policy.pool.answers, scope_length_bits.max(length_bits));
        snapshot.outcomes.keep(outcome, answers, scope, seed)
    }

    #[cold]
    fn renew(&self, old: Option<&PolicySnapshot>, live: &Live<'_>) -> Arc<PolicySnapshot> {
        let snapshot = Arc::new(PolicySnapshot::new(&self.policy, live, old));
        self.snapshot.store(Some(Arc::clone(&snapshot)));
        snapshot
    }

    /// Chooses for somebody of whom only the place is known. What looks at addresses is left out:
    /// overrides, rules and maps.
    pub(crate) fn steer_at(&self, place: Place, live: &Live<'_>) -> Choice {
        let snapshot = self.current(live);
        let outcome = snapshot.evaluate(&Subject::at(place), live, None);
        snapshot.known(outcome).choose(self.policy.pool.answers, 0)
    }

    /// Where each site is now.
    pub(crate) fn site_locations(&self, live: &Live<'_>) -> Vec<Option<Place>> {
        self.current(live).sites().iter().map(|site| site.place).collect()
    }

    /// What [`Steering::steer_at`] leaves out.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        let steps = &self.policy.pool.policy;
        let has = |kind: fn(&PolicyStep) -> bool| steps.iter().any(kind);
        let overrides = self.policy.pool.overrides.as_ref().map(|_| "overrides");
        let rules = has(|step| matches!(step, PolicyStep::Rules(_))).then_some("rules");
        let map = has(|step| matches!(step, PolicyStep::Map(_))).then_some("map");
        overrides.into_iter().chain(rules).chain(map).collect()
    }

    /// The pool as it is now.
    fn current(&self, live: &Live<'_>) -> Arc<PolicySnapshot> {
        let guard = self.snapshot.load();
        match guard.as_ref() {
            Some(snapshot) if !self.is_live || snapshot.is_current(live) => Arc::clone(snapshot),
            old => self.renew(old.map(|old| &**old), live),
        }
    }

    /// Why a client is sent where it is, by the functions that choose.
    pub(crate) fn explain(&self, address: IpAddr, live: &Live<'_>) -> Reason {
        let snapshot = PolicySnapshot::new(&self.policy, live, None);
        let (number, scope_length_bits) = snapshot.find(address, live);
        let record = |at: usize| {
            let named = self.policy.inputs.databases.get(at)?;
            // An address of a family that the database does not have is at no known place.
            named.database().root(address.is_ipv4())?;
            named.lookup(address).ok()?.record
        };
        let mut trace = Trace::default();
        let subject = Subject { address: Some(address), records: &record, place: None };
        let outcome = snapshot.evaluate(&subject, live, Some(&mut trace));
        debug_assert_eq!(outcome, *snapshot.outcomes.outcome(number), "tiles say what is judged");
        let place = snapshot.place_of(&record);
        let shares = snapshot.outcomes.shares(number);
        let candidates = self.candidates(&snapshot, place);
        let is_weighted = self.policy.is_weighted;
        Reason { trace, outcome, is_weighted, shares, scope_length_bits, candidates }
    }

    /// Why somebody at a place is sent where it is; see [`Steering::steer_at`].
    pub(crate) fn explain_at(&self, place: Place, live: &Live<'_>) -> Reason {
        let snapshot = PolicySnapshot::new(&self.policy, live, None);
        let mut trace = Trace::default();
        let outcome = snapshot.evaluate(&Subject::at(place), live, Some(&mut trace));
        let shares = snapshot.known(outcome.clone()).shares();
        let candidates = self.candidates(&snapshot, Some(place));
        let is_weighted = self.policy.is_weighted;
        Reason { trace, outcome, is_weighted, shares, scope_length_bits: 0, candidates }
    }

    fn candidates(&self, snapshot: &PolicySnapshot, place: Option<Place>) -> Vec<Candidate> {
        let sites = self.policy.pool.sites.iter().zip(snapshot.sites()).enumerate();
        let candidate = |(site, (described, site_state)): (usize, (&Site, &SiteState))| Candidate {
            site,
            place: site_state.place,
            eligible: site_state.is_there && (described.is_up() || !self.policy.asks_for_health),
            distance_meters: place.zip(site_state.place).map(|(a, b)| a.distance_meters(b)),
        };
        sites.map(candidate).collect()
    }

    /// The database that places come from, if they are asked for.
    pub(crate) fn source(&self) -> Option<&Arc<NamedDatabase>> {
        self.policy.inputs.databases.get(self.policy.places.unwrap_or(0))
    }

    /// Whether a ruleset of this name has a part in the choice.
    pub(crate) fn asks_ruleset(&self, name: &str) -> bool {
        let steps = self.policy.pool.policy.iter();
        steps.into_iter().any(|step| matches!(step, PolicyStep::Rules(asked) if asked == name))
    }
}
