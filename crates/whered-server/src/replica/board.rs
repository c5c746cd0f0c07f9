//! What is known of each link: for `INFO`, metrics, readiness and the log.
//!
//! Not for: the data, and the position that is kept (the engine). Figures are for people: each is
//! right by itself, and two that are read one after the other may be of two moments.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use whered_engine::{ReplicationId, WriteError, sync};
use whered_replication::cluster::Topology;

use crate::upstream::Upstream;

/// All links.
#[derive(Default, Debug)]
pub struct ReplicaBoard {
    /// Those who follow the links in turn.
    pub(crate) upstream: Upstream,
    links: RwLock<Vec<Arc<LinkStatus>>>,
    topology: RwLock<Option<Arc<Topology>>>,
    promote: Mutex<Option<PromoteLinks>>,
}

/// Ends all links and makes own keys of what they have followed; gives how many there were.
struct PromoteLinks(Box<dyn FnMut() -> Result<usize, WriteError> + Send>);

impl fmt::Debug for PromoteLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PromoteLinks")
    }
}

/// What a link is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// It connects, or asks for what it lacks.
    Connecting,
    /// It takes a dump.
    Synchronizing,
    /// It has all that its primary has sent.
    Up,
    /// It waits after a fault, which is this line.
    Down(String),
}

/// One link.
#[derive(Debug)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// The primary as the configuration has it.
    pub of: String,
    /// The number that the engine has given it.
    pub number: usize,
    /// Behind by more than this, the server is not ready.
    pub max_lag: Option<Duration>,
    state: Mutex<LinkState>,
    /// Where the primary was found last.
    primary: Mutex<String>,
    /// The history that it was in last.
    history: Mutex<Option<ReplicationId>>,
    began: Instant,
    /// Milliseconds since `began`: when the primary was heard last, when everything that it had
    /// sent was applied last, and when the state changed.
    heard: AtomicU64,
    current: AtomicU64,
    changed: AtomicU64,
    /// Offsets in the primary's stream: applied, and received.
    offset: AtomicI64,
    received: AtomicI64,
    counts: [AtomicU64; Count::LEN],
}

/// What is counted of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Dumps that were loaded.
    FullSyncs,
    /// Times that the stream went on from a position.
    PartialSyncs,
    /// Times that something went wrong.
    Faults,
    /// Commands that were applied.
    Commands,
    /// Keys that were read anew, each by itself.
    KeysReadAnew,
    /// Bytes of the dump that is being taken, or was taken last.
    DumpBytes,
    /// What the primary said that this dump has; 0: it did not say.
    DumpBytesStated,
    /// Keys of the last dump that are followed.
    DumpKeys,
    /// Keys of the last dump that match, and have another type.
    DumpKeysOfOtherTypes,
}

impl Count {
    const LEN: usize = 9;
}

impl ReplicaBoard {
    /// The links in the order in which they were added.
    #[must_use]
    pub fn links(&self) -> Vec<Arc<LinkStatus>> {
        sync::unpoisoned(self.links.read()).clone()
    }

    /// The cluster that is followed, if there is one; of several the one that changed last.
    #[must_use]
    pub fn topology(&self) -> Option<Arc<Topology>> {
        sync::unpoisoned(self.topology.read()).clone()
    }

    pub(crate) fn set_topology(&self, topology: Option<Topology>) {
        let mut known = sync::unpoisoned(self.topology.write());
        if known.as_deref() != topology.as_ref() {
            *known = topology.map(Arc::new);
        }
    }

    /// What [`ReplicaBoard::promote`] is to do.
    pub(crate) fn set_promote(
        &self,
        promote: impl FnMut() -> Result<usize, WriteError> + Send + 'static,
    ) {
        *sync::lock(&self.promote) = Some(PromoteLinks(Box::new(promote)));
    }

    /// Makes own keys of everything that is followed, and gives how many there were.
    ///
    /// # Errors
    /// The journal has no room or has failed.
    pub(crate) fn promote(&self) -> Result<usize, WriteError> {
        sync::lock(&self.promote).as_mut().map_or(Ok(0), |promote| (promote.0)())
    }

    pub(crate) fn add(&self, status: &Arc<LinkStatus>) {
        sync::unpoisoned(self.links.write()).push(Arc::clone(status));
    }

    pub(crate) fn remove(&self, name: &str) {
        sync::unpoisoned(self.links.write()).retain(|link| link.name != name);
    }

    /// Why the server is not ready, as far as a link makes it so.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        self.links().iter().find_map(|link| {
            let (lag, max_lag) = (link.lag(), link.max_lag?);
            (lag > max_lag).then(|| {
                format!(
                    "the replica of {} is {:.1} s behind; allowed: {:.1} s",
                    link.of,
                    lag.as_secs_f64(),
                    max_lag.as_secs_f64()
                )
            })
        })
    }
}

impl LinkStatus {
    pub(crate) fn new(
        name: String,
        of: String,
        number: usize,
        max_lag: Option<Duration>,
    ) -> LinkStatus {
        LinkStatus {
            name,
            of,
            number,
            max_lag,
            state: Mutex::new(LinkState::Connecting),
            primary: Mutex::default(),
            history: Mutex::default(),
            began: Instant::now(),
            heard: AtomicU64::new(0),
            current: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            offset: AtomicI64::new(-1),
            received: AtomicI64::new(-1),
            counts: Default::default(),
        }
    }

    /// What it is doing.
    #[must_use]
    pub fn state(&self) -> LinkState {
        sync::lock(&self.state).clone()
    }

    /// Where the primary was found last: host and port, or a path.
    #[must_use]
    pub fn primary(&self) -> String {
        sync::lock(&self.primary).clone()
    }

    /// The history of the primary that the offsets are of; `None` before the first connection.
    #[must_use]
    pub fn history(&self) -> Option<ReplicationId> {
        *sync::lock(&self.history)
    }

    /// The offset up to which everything is applied; -1: there are no data.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Bytes that have come and are not applied yet.
    #[must_use]
    pub fn lag_bytes(&self) -> u64 {
        let received = self.received.load(Ordering::Relaxed);
        u64::try_from(received.saturating_sub(self.offset())).unwrap_or(0)
    }

    /// How long ago everything was here that the primary had sent; 0 while that is so.
    #[must_use]
    pub fn lag(&self) -> Duration {
        match self.state() {
            LinkState::Up if self.lag_bytes() == 0 => Duration::ZERO,
            _ => self.since(&self.current),
        }
    }

    /// How long ago the primary was heard.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.since(&self.heard)
    }

    /// How long it has been in its present state.
    #[must_use]
    pub fn since_change(&self) -> Duration {
        self.since(&self.changed)
    }

    /// What was counted.
    #[must_use]
    pub fn count(&self, of: Count) -> u64 {
        self.counts[of as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, to: Count, more: u64) {
        self.counts[to as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: Count, value: u64) {
        self.counts[count as usize].store(value, Ordering::Relaxed);
    }

    pub(crate) fn set_state(&self, state: LinkState) {
        *sync::lock(&self.state) = state;
        self.note(&self.changed);
    }

    pub(crate) fn set_primary(&self, name: &str) {
        name.clone_into(&mut sync::lock(&self.primary));
        self.note(&self.heard);
    }

    pub(crate) fn set_history(&self, id: ReplicationId) {
        *sync::lock(&self.history) = Some(id);
    }

    /// The primary was heard.
    pub(crate) fn note_heard(&self) {
        self.note(&self.heard);
    }

    /// So much is applied, and so much has come.
    pub(crate) fn set_offsets(&self, applied: i64, received: i64) {
        self.offset.store(applied, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
        if applied == received {
            self.note(&self.current);
        }
    }

    fn note(&self, moment: &AtomicU64) {
        moment.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn since(&self, moment: &AtomicU64) -> Duration {
        let then = Duration::from_millis(moment.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(then)
    }
}
