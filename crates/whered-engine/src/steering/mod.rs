//! Which sites a client is sent to, and how many leading bits of its address decided that.
//!
//! One `Steering` belongs to one pool of one generation: it is thrown away when a site, its health,
//! a zone's database or a ruleset is replaced. What moves in between (prefix sets, rules that are
//! changed one by one, a live collection) makes a new view within it.
//!
//! ```text
//! Steering ── Fixed: the policy, names resolved
//!     └── View: sets, rules and places of this moment ── Tiles: address -> outcome, exact scope
//!                                                         └─ Outcomes: number -> sites, weights
//! ```
//!
//! For: the choice for one client, and its reasons. Not for: health (`pool.rs` has what is known),
//! what DNS answers for a site.
//! At the same time: any number of threads; when a view is out of date, several may make the next
//! one, and one of them stays.
//! Cost: `docs/design/steering.md`.

mod fixed;
mod lossy;
mod narrow;
mod outcome;
pub(crate) mod pool;
mod region;
pub(crate) mod site_changes;
pub(crate) mod site_health;
mod tiles;
mod view;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use whered_dns::{Choice, Client};
use whered_geo::Place;

use crate::databases::NamedDatabase;
use crate::keyspace::Keyspace;
use crate::prefix_sets::PrefixSets;
use crate::steering::pool::Pool;
pub(crate) use fixed::Around;
use fixed::Fixed;
pub(crate) use outcome::Outcome;
pub(crate) use view::Trace;
use view::View;

/// What is live beside a generation and has a part in choices.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) prefix_sets: &'a PrefixSets,
}

/// Choices of one pool of one generation.
pub(crate) struct Steering {
    fixed: Arc<Fixed>,
    view: ArcSwapOption<View>,
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
    pub(crate) fn new(pool: Arc<Pool>, around: &Around<'_>) -> Steering {
        let fixed = Arc::new(Fixed::new(pool, around));
        Steering { is_live: fixed.is_live(), fixed, view: ArcSwapOption::empty() }
    }

    /// Chooses for a client.
    #[inline]
    pub(crate) fn steer(&self, client: &Client, live: &Live<'_>) -> Choice {
        let guard = self.view.load();
        if let Some(view) = guard.as_deref()
            && (!self.is_live || view.is_current(live))
        {
            return self.choose(view, client, live);
        }
        let view = self.renew(guard.as_deref(), live);
        self.choose(&view, client, live)
    }

    /// Asks for what choices for these clients will read. The view may be out of date by then.
    pub(crate) fn prefetch(&self, addresses: impl Iterator<Item = IpAddr> + Clone) {
        if let Some(view) = self.view.load().as_deref() {
            view.prefetch(addresses);
        }
    }

    #[inline]
    fn choose(&self, view: &View, client: &Client, live: &Live<'_>) -> Choice {
        let (outcome, scope_length_bits) = view.find(client.address, live);
        view.outcomes.choose(outcome, self.fixed.pool.answers, scope_length_bits)
    }

    #[cold]
    fn renew(&self, old: Option<&View>, live: &Live<'_>) -> Arc<View> {
        let view = Arc::new(View::new(&self.fixed, live, old));
        self.view.store(Some(Arc::clone(&view)));
        view
    }

    /// Why a client is sent where it is, by the functions that choose.
    pub(crate) fn explain(&self, address: IpAddr, live: &Live<'_>) -> Reason {
        let view = View::new(&self.fixed, live, None);
        let (number, scope_length_bits) = view.find(address, live);
        let record = |at: usize| {
            let named = self.fixed.inputs.databases.get(at)?;
            // An address of a family that the database does not have is at no known place.
            named.database().root(address.is_ipv4())?;
            named.lookup(address).ok()?.record
        };
        let mut trace = Trace::default();
        let outcome = view.judge(address, &record, live, Some(&mut trace));
        debug_assert_eq!(outcome, *view.outcomes.outcome(number), "tiles say what is judged");
        let place = view.place_of(&record);
        let sites = self.fixed.pool.sites.iter().zip(view.sites()).enumerate();
        let candidates = sites.map(|(site, (described, standing))| Candidate {
            site,
            place: standing.place,
            eligible: standing.is_there && (described.is_up() || !self.fixed.asks_for_health),
            distance_meters: place.zip(standing.place).map(|(a, b)| a.distance_meters(b)),
        });
        Reason {
            candidates: candidates.collect(),
            is_weighted: self.fixed.is_weighted,
            shares: view.outcomes.shares(number),
            trace,
            outcome,
            scope_length_bits,
        }
    }

    /// The database that places come from, if they are asked for.
    pub(crate) fn source(&self) -> Option<&Arc<NamedDatabase>> {
        self.fixed.inputs.databases.get(self.fixed.places.unwrap_or(0))
    }

    /// Whether a ruleset of this name has a part in the choice.
    pub(crate) fn asks_ruleset(&self, name: &str) -> bool {
        let steps = self.fixed.pool.policy.iter();
        steps.into_iter().any(
            |step| matches!(step, crate::steering::pool::PolicyStep::Rules(asked) if asked == name),
        )
    }
}
