//! Zones that come from other servers, and zones that are given to them.
//!
//! For: primary and secondary. Not for: messages (`whered_dns::transfer`), ordinary questions
//! (`answerer`).
//!
//! ```text
//! UDP, TCP ─ deferred message ─> answer: TSIG, ACL ─┬─ NOTIFY ─> secondary: a task for each zone
//!                                                   ├─ AXFR, IXFR ─> primary: a thread a transfer
//!                                                   └─ UPDATE ─> updating: a queue, threads
//!                                                          └─> the engine: zones, challenges
//! secondary ─ SOA, IXFR, AXFR ─> client ─ records, changes ─> arrivals ─> Engine::serve_zones
//!     └─ copy on the disk                                     several zones at once
//! generation changes ─> primary: difference into the history, NOTIFY to others
//! a catalog ─> catalogs: its members come and go as secondary zones
//! ```
//!
//! At the same time: one thread, `whered-transfer`, with a task for each zone; two more for what
//! takes long: building zones and writing copies. Updates have threads of their own while there
//! are some. A query never waits for any of them.

mod answer;
mod arrivals;
mod catalogs;
mod client;
mod copies;
mod incoming;
mod members;
mod options;
mod policies;
mod pools;
mod primary;
mod secondary;
mod times;
mod update;
mod updating;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use whered_dns::{Name, Zone};
use whered_engine::{Engine, ZoneSource, sync};

pub(super) use answer::{DeferredMessage, Reply};
use arrivals::Arrivals;
use catalogs::CatalogState;
pub(crate) use copies::zone_copy;
use incoming::IncomingLimits;
pub use options::{
    CatalogContent, CatalogOptions, FollowedCatalog, MemberSettings, PoolsInTransfer, Recipient,
    Remote, TransferOptions, ZoneTransfers,
};
pub(crate) use options::{MEMBERS_MAX, TRANSFER_SIZE_MAX};
pub use policies::{NamePattern, UpdatePolicy};
use primary::GivenZone;
pub(crate) use secondary::SecondaryStatus;
use secondary::{Order, SecondaryZone};
use updating::UpdateQueue;

use crate::runtime::RuntimeThread;

/// How long transfers may take to end at a stop.
const FINISH_TIME: Duration = Duration::from_secs(2);
/// How many primaries are asked for a serial at a time.
const ASKING_MAX: usize = 128;
/// How many servers are told of changes at a time: each has a socket meanwhile.
const TELLING_MAX: usize = 128;
/// How many go out at a time.
const OUTGOING_MAX: usize = 16;

/// What became of transfers, since the start.
#[derive(Debug, Default)]
pub(crate) struct TransferCounts {
    pub(crate) incoming_whole: AtomicU64,
    pub(crate) incoming_changes: AtomicU64,
    pub(crate) incoming_failed: AtomicU64,
    pub(crate) outgoing_whole: AtomicU64,
    pub(crate) outgoing_changes: AtomicU64,
    pub(crate) outgoing_refused: AtomicU64,
    pub(crate) outgoing_failed: AtomicU64,
    pub(crate) notifies_in: AtomicU64,
    pub(crate) notifies_in_refused: AtomicU64,
    pub(crate) notifies_out: AtomicU64,
    pub(crate) notifies_out_failed: AtomicU64,
    pub(crate) signature_failures: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) updates_refused: AtomicU64,
    pub(crate) updates_busy: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// What listeners, commands and the thread share.
pub(crate) struct Transfers {
    engine: Arc<Engine>,
    /// Where copies of zones are; none: nowhere.
    data_dir: Option<PathBuf>,
    /// What the file of the configuration says.
    file_options: Mutex<Arc<TransferOptions>>,
    catalogs: Mutex<CatalogState>,
    /// Held while the members of catalogs change, and while a reload takes them over.
    changing_members: Mutex<()>,
    /// That, with the members of catalogs.
    configured: Mutex<Arc<Configuration>>,
    changed: Notify,
    /// Another generation serves, or another configuration is there.
    published: Arc<Notify>,
    asking: Semaphore,
    telling: Semaphore,
    arrivals: Arrivals,
    incoming: IncomingLimits,
    outgoing: Arc<AtomicUsize>,
    updates: UpdateQueue,
    pub(crate) counts: TransferCounts,
}

impl std::fmt::Debug for Transfers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfers").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The zones of one configuration, by origin.
#[derive(Default)]
struct Configuration {
    options: Arc<TransferOptions>,
    zones: HashMap<Name, ZoneTransfers>,
    /// Secondary zones as the engine knows them.
    sources: HashMap<Name, ZoneSource>,
    secondaries: HashMap<Name, Arc<SecondaryZone>>,
    given: HashMap<Name, Arc<GivenZone>>,
}

impl Transfers {
    /// For an engine whose zones are those of the configuration; `data_dir` keeps copies.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        options: &TransferOptions,
        data_dir: Option<&Path>,
    ) -> Arc<Transfers> {
        let transfers = Transfers {
            engine: Arc::clone(engine),
            data_dir: data_dir.map(Path::to_owned),
            file_options: Mutex::default(),
            catalogs: Mutex::default(),
            changing_members: Mutex::default(),
            configured: Mutex::default(),
            changed: Notify::new(),
            published: Arc::default(),
            asking: Semaphore::new(ASKING_MAX),
            telling: Semaphore::new(TELLING_MAX),
            arrivals: Arrivals::default(),
            incoming: IncomingLimits::default(),
            outgoing: Arc::default(),
            updates: UpdateQueue::default(),
            counts: TransferCounts::default(),
        };
        let published = Arc::clone(&transfers.published);
        engine.on_generation(Box::new(move || published.notify_one()));
        transfers.configure(options);
        Arc::new(transfers)
    }

    /// Takes another configuration, and the members that its catalogs have.
    pub(crate) fn configure(&self, options: &TransferOptions) {
        *sync::lock(&self.file_options) = Arc::new(options.clone());
        self.apply_catalogs();
    }

    /// Takes these zones; those that are still there keep what they know.
    fn configure_zones(&self, options: &Arc<TransferOptions>, zones: &[ZoneTransfers]) {
        let old = self.configured();
        let options = Arc::clone(options);
        let mut next = Configuration { options, ..Configuration::default() };
        for source in self.engine.zone_sources().into_iter().filter(|source| source.is_secondary) {
            if let Ok(origin) = source.name.parse() {
                next.sources.insert(origin, source);
            }
        }
        for zone in zones {
            let origin = &zone.origin;
            next.zones.insert(origin.clone(), zone.clone());
            if !zone.primaries.is_empty() {
                let same = old.secondaries.get(origin).filter(|old| old.options == *zone);
                let zone = same.map_or_else(|| Arc::new(SecondaryZone::new(zone)), Arc::clone);
                next.secondaries.insert(origin.clone(), zone);
            }
            if zone.is_given() {
                let same = old.given.get(origin).map(Arc::clone);
                next.given.insert(origin.clone(), same.unwrap_or_default());
            }
        }
        *sync::lock(&self.configured) = Arc::new(next);
        self.changed.notify_one();
        self.published.notify_one();
    }

    fn configured(&self) -> Arc<Configuration> {
        Arc::clone(&sync::lock(&self.configured))
    }

    /// Asks a zone's primaries now; `whole`: for the whole zone, whatever its serial.
    ///
    /// # Errors
    /// The zone is no secondary.
    pub(crate) fn refresh(&self, zone: &str, whole: bool) -> Result<(), String> {
        let configured = self.configured();
        let found = zone.parse::<Name>().ok();
        let found = found.and_then(|origin| configured.secondaries.get(&origin));
        let zone = found.ok_or_else(|| format!("no zone '{zone}' with primaries"))?;
        zone.order(if whole { Order::Whole } else { Order::Refresh });
        Ok(())
    }

    /// The secondary zones with their states.
    pub(crate) fn secondaries(&self) -> Vec<(Name, SecondaryStatus)> {
        let configured = self.configured();
        let zones = configured.secondaries.iter();
        zones.map(|(origin, zone)| (origin.clone(), zone.status())).collect()
    }

    /// What a zone is to other servers, and the state of a secondary.
    pub(crate) fn role(&self, zone: &Zone) -> (&'static str, Option<Value>) {
        let configured = self.configured();
        match configured.secondaries.get(zone.origin()) {
            Some(secondary) => {
                ("secondary", Some(describe_secondary(&secondary.status(), zone.is_unavailable())))
            }
            None if configured.given.contains_key(zone.origin()) => ("primary", None),
            None => ("file", None),
        }
    }

    async fn run(self: Arc<Transfers>, mut stopped: watch::Receiver<bool>) {
        let mut tasks: HashMap<Name, (Arc<SecondaryZone>, tokio::task::AbortHandle)> =
            HashMap::new();
        let mut running = JoinSet::new();
        let (primary, of_primary) = (Arc::clone(&self), stopped.clone());
        running.spawn(async move { primary.follow_generations(of_primary).await });
        loop {
            let configured = self.configured();
            tasks.retain(|origin, (zone, task)| {
                let is_same =
                    configured.secondaries.get(origin).is_some_and(|own| Arc::ptr_eq(own, zone));
                if !is_same {
                    task.abort();
                }
                is_same
            });
            for (origin, zone) in &configured.secondaries {
                if !tasks.contains_key(origin) {
                    let (transfers, own) = (Arc::clone(&self), Arc::clone(zone));
                    let stopped = stopped.clone();
                    let task = running.spawn(async move { own.follow(&transfers, stopped).await });
                    tasks.insert(origin.clone(), (Arc::clone(zone), task));
                }
            }
            drop(configured);
            tokio::select! {
                () = stop(&mut stopped) => break,
                () = self.changed.notified() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }
}

/// What a secondary zone knows of its primaries; times are in milliseconds since 1970.
fn describe_secondary(status: &SecondaryStatus, is_unavailable: bool) -> Value {
    json!({
        "state": match (is_unavailable, status.confirmed_at_millis) {
            (false, _) => "serving",
            (true, None) => "waiting",
            (true, Some(_)) => "expired",
        },
        "primary": status.primary.map(|address| address.to_string()),
        "confirmed_at_millis": status.confirmed_at_millis,
        "refresh_at_millis": status.due_at_millis,
        "expires_at_millis": status.expires_at_millis,
        "refreshes": status.refreshes,
        "refreshes_failed": status.refreshes_failed,
        "last_error": status.last_error,
    })
}

/// The running thread.
pub(crate) struct TransferThread(RuntimeThread);

impl TransferThread {
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn start(transfers: &Arc<Transfers>) -> io::Result<TransferThread> {
        let transfers = Arc::clone(transfers);
        let work = move |stopped| transfers.run(stopped);
        RuntimeThread::start("whered-transfer", 2, FINISH_TIME, work).map(TransferThread)
    }

    pub(crate) fn stop(self) {
        self.0.stop();
    }
}

/// Waits for the stop.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that the owner is gone, which is a stop, too.
    let _ = stopped.wait_for(|stop| *stop).await;
}
