//! Zones that are given to other servers: whole, as changes, and the word that they have changed.
//!
//! Not for: who may have them (`answer`), messages (`whered_dns::transfer`).
//!
//! ```text
//! another generation serves ─> zone changed? ─> difference ─> History
//!                                            └> NOTIFY to each server, five times at most
//! AXFR, IXFR ─> a thread: records ─> messages ─> channel of 4 ─> connection
//! ```
//!
//! Invariants: a transfer goes on with the zone that it began with. Changes are given only if they
//! lead to the zone that serves.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use whered_dns::transfer::{AnswerSigner, History, Operation, Sender, is_newer, reply_to};
use whered_dns::{Difference, Name, Rcode, Transport, Zone};
use whered_engine::{Generation, Priority, sync};

use super::answer::{Reply, ServerMessage};
use super::options::{PoolsInTransfer, Remote, ZoneTransfers};
use super::pools::{self, GivenCopy};
use super::times::now_seconds;
use super::{OUTGOING_MAX, Transfers, add, client, stop};

/// The shortest time between two looks at generations: sites' health makes many.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How many messages of a transfer wait for a connection.
const WAITING_MESSAGES: usize = 4;
/// How often a server is told of a change, and how long the first answer is waited for (RFC 1996,
/// 3.6); each later one twice as long.
const NOTIFY_TRIES: u32 = 5;
const NOTIFY_PAUSE: Duration = Duration::from_secs(1);

/// What is known of a zone that is given.
#[derive(Default)]
pub(super) struct GivenZone {
    history: Mutex<History>,
    /// The zone that the history leads to.
    last: Mutex<Option<Arc<Zone>>>,
    /// Of a zone with pools, what others get.
    copy: Mutex<GivenCopy>,
}

impl GivenZone {
    /// The zone as others get it, made if need be, which takes long for a large zone with pools.
    fn make(&self, generation: &Generation, options: &ZoneTransfers) -> Option<Arc<Zone>> {
        let zone = generation.zones().zone(&options.origin)?;
        if zone.is_unavailable() {
            return None;
        }
        let pools = pools::pools_in(generation, zone.origin());
        if pools.is_empty() {
            return Some(Arc::clone(zone));
        }
        let known = sync::lock(&self.copy).clone();
        if known.is_of(zone, &pools, &options.pools) {
            return known.zone().ok();
        }
        // Others may ask meanwhile.
        let made = GivenCopy::make(zone, pools, &options.pools);
        *sync::lock(&self.copy) = made.clone();
        made.zone().ok()
    }

    /// The zone as others get it, as far as it has been made.
    fn ready(
        &self,
        generation: &Generation,
        options: &ZoneTransfers,
    ) -> Option<Result<Arc<Zone>, String>> {
        let zone = generation.zones().zone(&options.origin)?;
        if zone.is_unavailable() {
            return None;
        }
        let pools = pools::pools_in(generation, zone.origin());
        if pools.is_empty() {
            return Some(Ok(Arc::clone(zone)));
        }
        if options.pools == PoolsInTransfer::Refuse {
            return Some(GivenCopy::make(zone, pools, &options.pools).zone());
        }
        let known = sync::lock(&self.copy).clone();
        // A copy that is being made again is not far; others are told when it is there.
        known.is_for(&options.pools).then(|| known.zone())
    }
}

/// Something that is under way, of which there may be so many.
pub(super) struct Slot(Arc<AtomicUsize>);

impl Slot {
    pub(super) fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Slot> {
        let more = |count| (count < most).then_some(count + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Slot(Arc::clone(count)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A transfer by TCP.
struct OutgoingTransfer {
    name: String,
    source: IpAddr,
    id: u16,
    zone: Arc<Zone>,
    /// What is newer; none: the whole zone is given.
    changes: Option<Vec<Arc<Difference>>>,
    is_incremental: bool,
    signer: Option<AnswerSigner>,
}

impl OutgoingTransfer {
    /// Starts the thread that makes the messages; none where there cannot be one more.
    fn begin(self, transfers: &Transfers) -> Option<mpsc::Receiver<Vec<u8>>> {
        let counts = &transfers.counts;
        let (name, source, serial) = (self.name.clone(), self.source, self.zone.serial());
        let count = match self.changes {
            Some(_) => &counts.outgoing_changes,
            None => &counts.outgoing_whole,
        };
        let (sender, receiver) = mpsc::channel(WAITING_MESSAGES);
        let started = match Slot::take(&transfers.outgoing, OUTGOING_MAX) {
            None => Err(format!("{OUTGOING_MAX} transfers are under way")),
            Some(slot) => {
                let work = move || self.send(slot, &sender);
                let thread = Builder::new().name("whered-axfr".to_owned()).spawn(work);
                thread.map_err(|error| error.to_string())
            }
        };
        match started {
            Ok(_) => {
                add(count);
                tracing::info!("zone '{name}' of serial {serial} is given to {source}");
                Some(receiver)
            }
            Err(error) => {
                add(&counts.outgoing_failed);
                tracing::error!("zone '{name}' is not given to {source}: {error}");
                None
            }
        }
    }

    fn send(self, slot: Slot, channel: &mpsc::Sender<Vec<u8>>) {
        // A transfer at the usual priority is better than none.
        let _ = whered_engine::lower_priority(Priority::Behind);
        let OutgoingTransfer { name, source, id, zone, changes, is_incremental, signer } = self;
        let messages = match changes {
            Some(changes) => Sender::changes(zone.origin(), id, changes),
            None => Sender::whole(zone.origin(), id, zone.records()),
        };
        let messages = if is_incremental { messages.of_incremental() } else { messages };
        if let Err(error) = send(messages, signer, channel) {
            tracing::error!("zone '{name}' cannot be given to {source}: {error}");
        }
        drop(slot);
    }
}

impl Transfers {
    /// Gives a zone, or what is newer of it; none to those who may not have it.
    pub(super) fn give(&self, incoming: ServerMessage<'_>, message: &[u8]) -> Option<Reply> {
        let configured = self.configured();
        let ServerMessage { request, source, key, transport, size_max, signer } = incoming;
        let refuse = |rcode| Some(Reply::One(reply_to(message, rcode, false)));
        let options = configured.zones.get(&request.name)?;
        let given = configured.given.get(&request.name)?;
        if !options.allows(source, key) {
            add(&self.counts.outgoing_refused);
            tracing::debug!("zone '{}' is not given to {source}: allow_transfer", options.name);
            return None;
        }
        let generation = self.engine.generation();
        let zone = match given.ready(&generation, options) {
            None => return refuse(Rcode::SERVFAIL),
            Some(Ok(zone)) => zone,
            Some(Err(why)) => {
                add(&self.counts.outgoing_refused);
                tracing::warn!("zone '{}' is not given to {source}: {why}", options.name);
                return refuse(Rcode::REFUSED);
            }
        };
        let soa = zone.soa()?;
        let (origin, id, serial) = (zone.origin().clone(), request.id, zone.serial());
        let changes = match request.operation {
            Operation::Ixfr(None) => return refuse(Rcode::FORMERR),
            Operation::Ixfr(Some(asked)) if !is_newer(serial, asked) => {
                return Some(Reply::One(single(Sender::soa(&origin, id, soa))?));
            }
            Operation::Ixfr(Some(asked)) => sync::lock(&given.history).since(asked, serial),
            _ => None,
        };
        let is_incremental = matches!(request.operation, Operation::Ixfr(_));
        if transport == Transport::Udp {
            if !is_incremental {
                return None;
            }
            // What does not fit is asked for by TCP (RFC 1995, 2), and so is all by those without a
            // key: their addresses may be forged.
            let signature_size = signer.as_ref().map_or(0, AnswerSigner::signature_size);
            let room = size_max.min(request.udp_size.into()).saturating_sub(signature_size);
            let fitting = changes.filter(|_| key.is_some()).and_then(|changes| {
                let mut sender = Sender::changes(&origin, id, changes).size_max(room);
                let message = sender.next_message(None, 0).ok()??;
                sender.is_over().then_some(message)
            });
            let reply = fitting.or_else(|| single(Sender::soa(&origin, id, soa)))?;
            return Some(Reply::One(reply));
        }
        let name = options.name.clone();
        let outgoing = OutgoingTransfer { name, source, id, zone, changes, is_incremental, signer };
        outgoing.begin(self).map(Reply::Many).or_else(|| refuse(Rcode::SERVFAIL))
    }

    /// Notes the changes of zones that are given, and tells others of them, until the stop.
    pub(super) async fn follow_generations(
        self: Arc<Transfers>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut notifying = JoinSet::new();
        loop {
            self.look(&mut notifying).await;
            tokio::select! {
                () = stop(&mut stopped) => return,
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
            loop {
                tokio::select! {
                    () = stop(&mut stopped) => return,
                    Some(_) = notifying.join_next() => {}
                    () = self.published.notified() => break,
                }
            }
        }
    }

    /// Looks which zones have changed, and tells others of them.
    async fn look(self: &Arc<Transfers>, notifying: &mut JoinSet<()>) {
        let (generation, configured) = (self.engine.generation(), self.configured());
        let with_pools = pools::zones_with_pools(&generation);
        for (origin, given) in &configured.given {
            let Some(options) = configured.zones.get(origin) else { continue };
            let zone = match with_pools.contains(origin) {
                true => self.make(given, &generation, options).await,
                false => {
                    generation.zones().zone(origin).filter(|zone| !zone.is_unavailable()).cloned()
                }
            };
            let Some(zone) = zone else { continue };
            if !self.note(given, options, &zone).await {
                continue;
            }
            for remote in &options.notify {
                let (transfers, remote) = (Arc::clone(self), remote.clone());
                let (name, zone) = (options.name.clone(), Arc::clone(&zone));
                notifying.spawn(async move { transfers.tell(&name, &zone, &remote).await });
            }
        }
    }

    /// A zone with pools as others get it.
    async fn make(
        &self,
        given: &Arc<GivenZone>,
        generation: &Arc<Generation>,
        options: &ZoneTransfers,
    ) -> Option<Arc<Zone>> {
        let (given, generation) = (Arc::clone(given), Arc::clone(generation));
        let options = options.clone();
        spawn_blocking(move || given.make(&generation, &options)).await.ok()?
    }

    /// Notes the zone that serves now. Whether it is another.
    async fn note(
        &self,
        given: &Arc<GivenZone>,
        options: &ZoneTransfers,
        zone: &Arc<Zone>,
    ) -> bool {
        let last = sync::lock(&given.last).clone();
        let Some(last) = last else {
            *sync::lock(&given.last) = Some(Arc::clone(zone));
            return true;
        };
        if Arc::ptr_eq(&last, zone) {
            return false;
        }
        let (old, new) = (Arc::clone(&last), Arc::clone(zone));
        let Ok(difference) = spawn_blocking(move || old.difference(&new)).await else {
            return false;
        };
        *sync::lock(&given.last) = Some(Arc::clone(zone));
        let is_same = difference.removed.len() <= 1
            && difference.added.len() <= 1
            && difference.removed == difference.added;
        if is_same {
            return false;
        }
        let mut history = sync::lock(&given.history);
        if is_newer(zone.serial(), last.serial()) {
            history.push(difference);
            return true;
        }
        *history = History::default();
        tracing::warn!(
            "zone '{}' has changed and its serial has not risen ({} before, {} now): other servers do \
             not take the change",
            options.name,
            last.serial(),
            zone.serial()
        );
        false
    }

    /// Tells a server of a change until it answers.
    async fn tell(&self, name: &str, zone: &Zone, remote: &Remote) {
        let Some(soa) = zone.soa() else { return };
        let mut pause = NOTIFY_PAUSE;
        let mut last = None;
        for _ in 0..NOTIFY_TRIES {
            let told = {
                let _permit = self.telling.acquire().await;
                client::tell(remote, zone.origin(), &soa).await
            };
            match told {
                Ok(()) => {
                    add(&self.counts.notifies_out);
                    return;
                }
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            if !self.is_latest(zone.origin(), zone) {
                return;
            }
        }
        add(&self.counts.notifies_out_failed);
        if let Some(error) = last {
            tracing::warn!("zone '{name}': NOTIFY to {}: {error}", remote.address);
        }
    }

    /// Whether a zone is the one that others were told of last.
    fn is_latest(&self, origin: &Name, zone: &Zone) -> bool {
        let configured = self.configured();
        let Some(given) = configured.given.get(origin) else { return false };
        sync::lock(&given.last).as_ref().is_some_and(|last| last.serial() == zone.serial())
    }
}

/// A message that is all.
fn single(mut sender: Sender<'_>) -> Option<Vec<u8>> {
    sender.next_message(None, 0).ok().flatten()
}

/// Makes messages for as long as the connection takes them.
fn send(
    mut messages: Sender<'_>,
    mut signer: Option<AnswerSigner>,
    channel: &mpsc::Sender<Vec<u8>>,
) -> Result<(), String> {
    loop {
        let next = messages.next_message(signer.as_mut(), now_seconds());
        match next.map_err(|error| error.to_string())? {
            None => return Ok(()),
            Some(message) => {
                let gone = |_| "the connection was closed before the end".to_owned();
                channel.blocking_send(message).map_err(gone)?;
            }
        }
    }
}
