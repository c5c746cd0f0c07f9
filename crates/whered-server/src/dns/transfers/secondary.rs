//! A zone that comes from other servers: asked for, served, kept.
//!
//! Not for: messages, the times (`whered_dns::transfer::Schedule`), sockets (`client`).
//!
//! ```text
//! due, NOTIFY or order ─> SOA ─ newer ─> IXFR ─ else ─> AXFR ─> arrivals ─> copy
//!                          └ the next primary where one has no answer
//! nobody answers until SOA expire ─> Zone::unavailable: SERVFAIL
//! ```
//!
//! Invariants: what is served is a whole zone that a primary gave. NOTIFY that come while primaries
//! are asked lead to one question more, and questions are [`PAUSE`] apart.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use whered_dns::transfer::{Schedule, SoaTimes, Transfer, is_newer};
use whered_dns::{Dnssec, Zone, catalog};
use whered_engine::{ZoneSource, sync};

use super::client::{self, AskError};
use super::options::{Remote, ZoneTransfers};
use super::times::now_millis;
use super::{Transfers, add, copies, stop};

/// The shortest time between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Copies of zones with more records are written once in [`COPY_PAUSE`] at the most.
const SMALL_RECORDS: usize = 100_000;
const COPY_PAUSE: Duration = Duration::from_secs(60);

/// What a zone is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// To ask whether there is something newer.
    Refresh,
    /// To take the whole zone, whatever its serial.
    Whole,
}

/// The state of a secondary zone, for those who ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecondaryStatus {
    /// The serial that is served; none: there is no zone, or it has expired.
    pub(crate) serial: Option<u32>,
    /// When a primary has last said what the zone is, in milliseconds since 1970.
    pub(crate) confirmed_at_millis: Option<u64>,
    /// When primaries are asked next.
    pub(crate) due_at_millis: u64,
    /// When the zone is no longer served.
    pub(crate) expires_at_millis: Option<u64>,
    /// The primary that gave it or confirmed it.
    pub(crate) primary: Option<SocketAddr>,
    /// What was wrong the last time; none: nothing.
    pub(crate) last_error: Option<String>,
    /// How many rounds of questions had an answer, and how many had none.
    pub(crate) refreshes: u64,
    pub(crate) refreshes_failed: u64,
}

/// One secondary zone.
pub(super) struct SecondaryZone {
    pub(super) options: ZoneTransfers,
    ordered: Notify,
    wants_whole: AtomicU8,
    status: Mutex<SecondaryStatus>,
}

/// What the zone's task alone knows.
struct State {
    /// What the primaries gave last, whether or not it may still be served.
    zone: Option<Arc<Zone>>,
    schedule: Schedule,
    is_served: bool,
    /// The zone as the engine knows it, with the place of its copy.
    source: ZoneSource,
    /// The copy is older than the zone.
    is_copy_old: bool,
    /// The last one could not be written.
    has_copy_failed: bool,
    copied_at: Option<Instant>,
    /// The primary that is asked first.
    first: usize,
}

/// What a round of questions brought.
enum RefreshResult {
    Newer(Arc<Zone>),
    UpToDate,
}

impl SecondaryZone {
    pub(super) fn new(options: &ZoneTransfers) -> SecondaryZone {
        SecondaryZone {
            options: options.clone(),
            ordered: Notify::new(),
            wants_whole: AtomicU8::new(0),
            status: Mutex::default(),
        }
    }

    /// Tells the zone's task to ask; many orders before it does are one.
    pub(super) fn order(&self, order: Order) {
        if order == Order::Whole {
            self.wants_whole.store(1, Ordering::Relaxed);
        }
        self.ordered.notify_one();
    }

    pub(super) fn status(&self) -> SecondaryStatus {
        sync::lock(&self.status).clone()
    }

    /// Follows the primaries until the stop.
    pub(super) async fn follow(
        self: &Arc<SecondaryZone>,
        transfers: &Arc<Transfers>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let Some(mut state) = self.begin(transfers) else { return };
        loop {
            self.expire(transfers, &mut state).await;
            self.tell(&state);
            let due = state.schedule.due_at_millis().saturating_sub(now_millis());
            let copy = state.copy_due().unwrap_or(COPY_PAUSE);
            tokio::select! {
                biased;
                () = stop(&mut stopped) => break,
                () = self.ordered.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(due)) => {}
                () = tokio::time::sleep(copy), if state.is_copy_old => {
                    self.write_copy(&mut state).await;
                    continue;
                }
            }
            if state.schedule.is_expired(now_millis()) && state.is_served {
                continue;
            }
            // A round that lasts beyond the end of the zone is given up: it is late to expire.
            let expiry = state.schedule.expires_at_millis().filter(|_| state.is_served);
            let left = expiry.map(|at| at.saturating_sub(now_millis()));
            tokio::select! {
                () = stop(&mut stopped) => break,
                () = self.refresh(transfers, &mut state) => {}
                () = tokio::time::sleep(Duration::from_millis(left.unwrap_or_default())),
                    if left.is_some() => continue,
            }
            self.tell(&state);
            if state.copy_due().is_some_and(|pause| pause.is_zero()) {
                self.write_copy(&mut state).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if state.is_copy_old {
            self.write_copy(&mut state).await;
        }
    }

    fn begin(&self, transfers: &Transfers) -> Option<State> {
        let source = self.source(transfers)?;
        let generation = transfers.engine.generation();
        let zone = generation.zone_as_given(&self.options.origin);
        let zone = zone.filter(|zone| !zone.is_unavailable()).cloned();
        // A copy that could not be signed is there and not served.
        let served = generation.zones().zone(&self.options.origin);
        let is_served = served.is_some_and(|served| !served.is_unavailable());
        let now = now_millis();
        let schedule = match zone.as_ref().and_then(|zone| zone.soa()) {
            None => Schedule::new(now),
            Some(soa) => {
                let confirmed = copies::confirmed_at_millis(&source.path).unwrap_or(now);
                Schedule::with_copy(now, confirmed, SoaTimes::of(&soa))
            }
        };
        Some(State {
            is_served: zone.is_some() && is_served,
            zone,
            schedule,
            source,
            is_copy_old: false,
            has_copy_failed: false,
            copied_at: None,
            first: 0,
        })
    }

    /// The zone as the engine knows it; none when it is not of that catalog any more.
    fn source(&self, transfers: &Transfers) -> Option<ZoneSource> {
        let configured = transfers.configured();
        let source = configured.sources.get(&self.options.origin)?;
        (source.member == self.options.member).then(|| source.clone())
    }

    /// Ends serving a zone that nobody has confirmed for too long.
    async fn expire(&self, transfers: &Arc<Transfers>, state: &mut State) {
        if !state.is_served || !state.schedule.is_expired(now_millis()) {
            return;
        }
        let gone = Arc::new(Zone::unavailable(&self.options.origin));
        let name = &self.options.name;
        match transfers.serve(&state.source, &gone).await {
            Ok(_) => tracing::error!(
                "zone '{name}' has expired: no primary has confirmed it within the time of its SOA; \
                 it answers SERVFAIL until one does"
            ),
            Err(error) => tracing::error!("zone '{name}' has expired and serves on: {error}"),
        }
        state.is_served = false;
    }

    /// Asks one primary after another.
    async fn refresh(&self, transfers: &Arc<Transfers>, state: &mut State) {
        let whole = self.wants_whole.swap(0, Ordering::Relaxed) == 1;
        // A reload may have changed how the zone is served.
        if let Some(source) = self.source(transfers) {
            state.source = source;
        }
        let count = self.options.primaries.len();
        let mut errors = Vec::new();
        for index in (0..count).map(|step| (state.first + step) % count) {
            let primary = &self.options.primaries[index];
            match self.ask(transfers, state, primary, whole).await {
                Ok(found) => {
                    state.first = index;
                    return self.take(transfers, state, primary, found).await;
                }
                Err(error) => {
                    let name = &self.options.name;
                    tracing::warn!("zone '{name}' from {}: {error}", primary.address);
                    errors.push(format!("{}: {error}", primary.address));
                }
            }
        }
        self.fail(transfers, state, errors.join("; "));
    }

    fn fail(&self, transfers: &Transfers, state: &mut State, error: String) {
        state.schedule.failed(now_millis(), jitter());
        state.first = (state.first + 1) % self.options.primaries.len();
        transfers.engine.note_zone_failure(&self.options.name, Some(error.clone()));
        let mut status = sync::lock(&self.status);
        status.refreshes_failed += 1;
        status.last_error = Some(error);
    }

    /// Asks one primary for what is newer.
    async fn ask(
        &self,
        transfers: &Transfers,
        state: &State,
        primary: &Remote,
        whole: bool,
    ) -> Result<RefreshResult, AskError> {
        let origin = &self.options.origin;
        let old = state.zone.as_ref().filter(|_| !whole);
        if let Some(zone) = old {
            let serial = {
                let _permit = transfers.asking.acquire().await;
                client::ask_serial(primary, origin).await?
            };
            if serial == zone.serial() {
                return Ok(RefreshResult::UpToDate);
            }
            if !is_newer(serial, zone.serial()) {
                let found = format!("the serial {serial}, older than {} here", zone.serial());
                return Err(AskError::new(format!("{found}; ZONE.RETRANSFER takes it")));
            }
        }
        let _slot = transfers.incoming.take(primary.address.ip()).await;
        let found = self.transfer(transfers, state, primary, old).await;
        if found.is_err() {
            add(&transfers.counts.incoming_failed);
        }
        found
    }

    async fn transfer(
        &self,
        transfers: &Transfers,
        state: &State,
        primary: &Remote,
        old: Option<&Arc<Zone>>,
    ) -> Result<RefreshResult, AskError> {
        let origin = &self.options.origin;
        // Records that are left out here could not be found when changes remove them, and those
        // that are refused are looked for in whole zones.
        if let Some(zone) = old.filter(|_| state.source.dnssec == Dnssec::Serve) {
            match self.changes(transfers, primary, zone).await {
                Ok(found) => return Ok(found),
                Err(error) => tracing::info!(
                    "zone '{}' from {}: no changes: {error}; the whole zone is asked for",
                    self.options.name,
                    primary.address
                ),
            }
        }
        let size_max = self.options.size_max_bytes;
        match client::transfer(primary, origin, None, size_max).await? {
            Transfer::Whole(records) => {
                let (origin, dnssec) = (origin.clone(), state.source.dnssec);
                let source = primary.address.to_string();
                let built = blocking(move || Zone::from_records(&origin, &source, dnssec, records));
                let zone = built.await?.map_err(AskError::new)?;
                if let Some(old) = old.filter(|old| !is_newer(zone.serial(), old.serial())) {
                    let found = format!("a zone of the serial {}", zone.serial());
                    let allowed = format!("newer than {}", old.serial());
                    return Err(AskError::new(format!("{found}; allowed: {allowed}")));
                }
                add(&transfers.counts.incoming_whole);
                Ok(RefreshResult::Newer(Arc::new(zone)))
            }
            _ => Err(AskError::new("changes where the whole zone was asked for")),
        }
    }

    /// Takes what IXFR brings.
    async fn changes(
        &self,
        transfers: &Transfers,
        primary: &Remote,
        zone: &Arc<Zone>,
    ) -> Result<RefreshResult, AskError> {
        let (origin, size_max) = (&self.options.origin, self.options.size_max_bytes);
        let soa = zone.soa().ok_or_else(|| AskError::new("no SOA"))?;
        let source = primary.address.to_string();
        match client::transfer(primary, origin, Some(&soa), size_max).await? {
            Transfer::UpToDate { .. } => Ok(RefreshResult::UpToDate),
            Transfer::Changes(changes) => {
                let old = Arc::clone(zone);
                let patched = blocking(move || old.patched(&source, &changes));
                let zone = patched.await?.map_err(AskError::new)?;
                add(&transfers.counts.incoming_changes);
                Ok(RefreshResult::Newer(Arc::new(zone)))
            }
            Transfer::Whole(records) => {
                let (origin, old) = (origin.clone(), zone.serial());
                let build = move || Zone::from_records(&origin, &source, Dnssec::Serve, records);
                let zone = blocking(build).await?.map_err(AskError::new)?;
                if !is_newer(zone.serial(), old) {
                    return Err(AskError::new(format!("a zone of the serial {}", zone.serial())));
                }
                add(&transfers.counts.incoming_whole);
                Ok(RefreshResult::Newer(Arc::new(zone)))
            }
        }
    }

    /// Serves what a primary gave.
    async fn take(
        &self,
        transfers: &Arc<Transfers>,
        state: &mut State,
        primary: &Remote,
        found: RefreshResult,
    ) {
        let name = &self.options.name;
        let newer = match (found, &state.zone) {
            (RefreshResult::Newer(zone), _) => Some(zone),
            // It was confirmed after it had expired.
            (RefreshResult::UpToDate, Some(zone)) if !state.is_served => Some(Arc::clone(zone)),
            (RefreshResult::UpToDate, _) => None,
        };
        let is_newer = newer.is_some();
        if let Some(zone) = newer {
            if let Some(most) = self.options.members_max
                && let Err(error) = catalog::members(&zone, most)
            {
                tracing::error!("zone '{name}' serves on as before: {error}");
                return self.fail(transfers, state, error.to_string());
            }
            match transfers.serve(&state.source, &zone).await {
                Ok(report) => tracing::info!(
                    "zone '{name}' from {} as generation {}: serial {}, {} records",
                    primary.address,
                    report.generation,
                    report.serial,
                    report.records
                ),
                Err(error) => {
                    tracing::error!("zone '{name}' serves on as before: {error}");
                    return self.fail(transfers, state, error);
                }
            }
            state.zone = Some(zone);
            (state.is_served, state.is_copy_old) = (true, true);
            if self.options.members_max.is_some() {
                let transfers = Arc::clone(transfers);
                // It fails only with a fault inside, which has been told.
                let _ = blocking(move || transfers.apply_catalogs()).await;
            }
        }
        let soa = state.zone.as_ref().and_then(|zone| zone.soa());
        if let Some(soa) = soa {
            state.schedule.succeeded(now_millis(), SoaTimes::of(&soa), jitter());
        }
        transfers.engine.note_zone_failure(name, None);
        let copy = &state.source.path;
        if !is_newer && !state.is_copy_old && !copy.as_os_str().is_empty() {
            // The copy may be gone, which the next one puts right.
            let _ = copies::confirm(copy, now_millis());
        }
        let mut status = sync::lock(&self.status);
        status.refreshes += 1;
        status.primary = Some(primary.address);
        status.last_error = None;
    }

    async fn write_copy(&self, state: &mut State) {
        state.is_copy_old = false;
        state.copied_at = Some(Instant::now());
        let copy = &state.source.path;
        let (Some(zone), false) = (&state.zone, copy.as_os_str().is_empty()) else { return };
        let (path, zone) = (copy.clone(), Arc::clone(zone));
        let confirmed = state.schedule.confirmed_at_millis().unwrap_or_else(now_millis);
        let written = blocking(move || copies::write(&path, &zone, confirmed)).await;
        let written = written.and_then(|written| written.map_err(AskError::new));
        if let Err(error) = written {
            let (name, path) = (&self.options.name, state.source.path.display());
            tracing::error!("zone '{name}': its copy {path} cannot be written: {error}");
            (state.is_copy_old, state.has_copy_failed) = (true, true);
            return;
        }
        state.has_copy_failed = false;
    }

    fn tell(&self, state: &State) {
        let mut status = sync::lock(&self.status);
        let zone = state.zone.as_ref().filter(|_| state.is_served);
        status.serial = zone.map(|zone| zone.serial());
        status.confirmed_at_millis = state.schedule.confirmed_at_millis();
        status.due_at_millis = state.schedule.due_at_millis();
        status.expires_at_millis = state.schedule.expires_at_millis();
    }
}

impl State {
    /// How long until the copy is to be written; none while it is as new as the zone.
    fn copy_due(&self) -> Option<Duration> {
        let zone = self.zone.as_ref().filter(|_| self.is_copy_old)?;
        let waits = zone.record_count() > SMALL_RECORDS || self.has_copy_failed;
        let since = self.copied_at.filter(|_| waits);
        Some(since.map_or(Duration::ZERO, |at| COPY_PAUSE.saturating_sub(at.elapsed())))
    }
}

/// Does what takes long on another thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AskError> {
    spawn_blocking(work).await.map_err(|_| AskError::new("a fault inside the server"))
}

/// Spreads questions of many zones.
fn jitter() -> u8 {
    client::random_u16().map_or(128, |number| number as u8)
}
