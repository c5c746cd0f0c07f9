//! What a connection's commands know of each other, and what all connections share.
//!
//! ```text
//! SharedState (one for the listener) ── engine, options, settings, counters, clients, users, ...
//!    └── Session (one for a connection) ── database, user, reply mode, transaction, channels
//! ```
//!
//! At the same time: a session belongs to its worker's thread. What is shared is made of atomics
//! or has its own short lock; each part says so itself.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use whered_engine::{Durability, Engine, Ticket, Value};

use super::background::BackgroundCommand;
use super::clients::{Client, Clients};
use super::commands::{CommandTable, MemberLookups};
use super::counters::RespCounters;
use super::cross_protocol;
use super::gate::WriteGate;
use super::memory::MemoryAccount;
use super::options::{RespContext, RespOptions};
use super::pause::Pause;
use super::pending::Finish;
use super::protocol::Args;
use super::pubsub::{PubSub, SubscriptionKind};
use super::rates::SampledRates;
use super::refused_commands::RefusedCommands;
use super::reply::{AwaitedWrite, Protocol};
use super::serving::ServingGeneration;
use super::settings::{OutputLimit, Settings};
use super::slowlog::{self, SlowLog};
use super::statistics::{Meter, Statistics};
use super::transaction::Transaction;
use super::users::{User, Users};
use super::waiting::{ReadyKeys, WaitEnd, WaitingClients};
use super::watch::Watches;
use crate::upstream::{FollowerStart, Source};

/// Below this threshold of the slow log every command is timed alone.
const EXACT_MICROS: i64 = 1000;

/// What all connections of the listener share.
pub(crate) struct SharedState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: RespOptions,
    pub(crate) context: RespContext,
    pub(crate) commands: &'static CommandTable,
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<RespCounters>,
    pub(crate) rates: SampledRates,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) refused_commands: Arc<RefusedCommands>,
    pub(crate) clients: Clients,
    pub(crate) users: Users,
    pub(crate) pubsub: PubSub,
    pub(crate) watches: Watches,
    pub(crate) waiting: WaitingClients,
    pub(crate) gate: WriteGate,
    pub(crate) pause: Pause,
    pub(crate) slowlog: SlowLog,
    pub(crate) memory: MemoryAccount,
    pub(crate) http_warnings: cross_protocol::Warnings,
    pub(crate) started: Instant,
    pub(crate) port: u16,
}

impl SharedState {
    pub(crate) fn new(
        engine: Arc<Engine>,
        options: RespOptions,
        context: RespContext,
        port: u16,
        commands: &'static CommandTable,
        users: Users,
    ) -> SharedState {
        let workers = options.thread_count();
        let counters = Arc::default();
        SharedState {
            settings: Settings::new(&options),
            memory: MemoryAccount::new(&engine, &counters),
            counters,
            rates: SampledRates::default(),
            statistics: Arc::new(Statistics::new(workers, commands.entries().len())),
            refused_commands: Arc::default(),
            clients: Clients::default(),
            commands,
            users,
            pubsub: PubSub::default(),
            watches: Watches::default(),
            waiting: WaitingClients::default(),
            gate: WriteGate::new(workers),
            pause: Pause::default(),
            slowlog: SlowLog::default(),
            http_warnings: cross_protocol::Warnings::default(),
            started: Instant::now(),
            engine,
            options,
            context,
            port,
        }
    }

    /// Whether there is a `maxmemory`.
    pub(crate) fn has_memory_limit(&self) -> bool {
        self.settings.max_memory_bytes.load(Ordering::Relaxed) > 0
    }

    /// Whether writes are refused because the memory is used up.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let limit = self.settings.max_memory_bytes.load(Ordering::Relaxed);
        limit > 0 && self.memory.used_bytes() > limit
    }
}

/// Which replies a client wants (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplyMode {
    /// All of them.
    On,
    /// None.
    Off,
    /// All but the next one.
    SkipNext,
}

/// What a server wants that follows this one.
pub(crate) struct FollowerRequest {
    /// What it follows.
    pub(crate) source: Arc<Source>,
    /// Where from, once it has asked (`PSYNC`): the connection is no client's any more then.
    pub(crate) wanted: Option<FollowerStart>,
}

/// One connection's state between its commands.
pub(crate) struct Session {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) client: Arc<Client>,
    /// The numbered database that the keys are in.
    pub(crate) number: usize,
    pub(crate) authenticated: bool,
    pub(crate) user: Arc<User>,
    pub(crate) replies: ReplyMode,
    /// It reads a replica of a cluster, whose other keys are elsewhere (`READONLY`).
    pub(crate) reads_replica: bool,
    /// No further command is read; the connection is closed when its replies are sent.
    pub(crate) closing: bool,
    /// A command whose reply is still to come; nothing behind it is executed before.
    pub(crate) background: Option<BackgroundCommand>,
    /// It is another server, which follows this one.
    pub(crate) follower: Option<FollowerRequest>,
    /// A follower's thread has the connection, and forgets the client.
    pub(crate) is_follower: bool,
    /// Its replies have become too many within one command; it is closed without them.
    pub(crate) overflowed: bool,
    /// It has sent HTTP; it is closed without the replies that were not sent yet.
    pub(crate) is_aborted: bool,
    /// The command that ran last.
    pub(crate) command: &'static str,
    pub(crate) transaction: Transaction,
    /// The commands of a transaction are running.
    pub(crate) in_exec: bool,
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    pub(crate) patterns: BTreeSet<Box<[u8]>>,
    /// Keys that a transaction has changed while somebody waits for keys.
    pub(crate) ready: ReadyKeys,
    /// How often a key was read, and how often there was none, since the counters know.
    lookups: Cell<[u64; 2]>,
    pub(crate) meter: Meter,
    pub(crate) looked_up: MemberLookups,
}

impl Session {
    pub(crate) fn new(shared: &Arc<SharedState>, client: Arc<Client>) -> Session {
        let user = shared.users.default_user();
        shared.counters.connections_open.fetch_add(1, Ordering::Relaxed);
        Session {
            shared: Arc::clone(shared),
            number: 0,
            authenticated: user.password.is_none(),
            user,
            replies: ReplyMode::On,
            reads_replica: false,
            closing: false,
            background: None,
            follower: None,
            is_follower: false,
            overflowed: false,
            is_aborted: false,
            command: "NULL",
            transaction: Transaction::default(),
            in_exec: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            ready: ReadyKeys::default(),
            lookups: Cell::default(),
            meter: Meter::new(shared.statistics.of_worker(client.origin.worker)),
            looked_up: MemberLookups::default(),
            client,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Reads a key's value under its lock, and counts that.
    pub(crate) fn read_key<R>(&self, key: &[u8], read: impl FnOnce(Option<&Value>) -> R) -> R {
        self.engine().keyspace().read(self.number, key, |value| {
            self.count_lookup(value.is_some());
            read(value)
        })
    }

    /// Counts that a command has looked for a key to read it.
    #[inline]
    pub(crate) fn count_lookup(&self, is_found: bool) {
        self.count_lookups(1, is_found);
    }

    /// As [`Session::count_lookup`], for several requests.
    pub(crate) fn count_lookups(&self, count: usize, is_found: bool) {
        let [mut hits, mut misses] = self.lookups.get();
        *(if is_found { &mut hits } else { &mut misses }) += count as u64;
        self.lookups.set([hits, misses]);
    }

    /// Tells the listener's counters; once a time slice.
    pub(crate) fn flush_lookups(&self) {
        let [hits, misses] = self.lookups.take();
        let counters = &self.shared.counters;
        if hits > 0 {
            counters.keyspace_hits.fetch_add(hits, Ordering::Relaxed);
        }
        if misses > 0 {
            counters.keyspace_misses.fetch_add(misses, Ordering::Relaxed);
        }
    }

    /// Serves clients that wait for a key which a command has filled.
    pub(crate) fn serve_waiting(&self, number: usize, key: &[u8]) {
        let shared = &self.shared;
        shared.waiting.serve((shared.engine.keyspace(), &shared.watches), number, key);
    }

    /// When the wait for a key's members ends, if it waits and not for ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.background.as_ref()?.wait.as_ref()?.deadline
    }

    /// Whether it waits for a key's members.
    pub(crate) fn is_waiting(&self) -> bool {
        self.background.as_ref().is_some_and(|command| command.wait.is_some())
    }

    /// What is left to do of a command whose work is done, or whose wait is over.
    pub(crate) fn take_finished(&self) -> Option<(Finish, ReplyMode)> {
        let command = self.background.as_ref()?;
        if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            // It may have been served before this.
            self.shared.waiting.end(self.client.id, WaitEnd::TimedOut);
        }
        command.take()
    }

    /// Ends a wait without a reply. False if it has one by now, or does not wait.
    pub(crate) fn forget_wait(&mut self) -> bool {
        let wait = self.background.as_ref().and_then(|command| command.wait.as_ref());
        let is_forgotten = wait.is_some_and(|wait| self.shared.waiting.forget(wait));
        if is_forgotten {
            self.background = None;
        }
        is_forgotten
    }

    /// The generation that serves, for one command.
    #[inline]
    pub(crate) fn generation(&self) -> ServingGeneration {
        ServingGeneration::of(&self.shared.engine)
    }

    /// Closes the connection at once, for it has sent HTTP: nothing more of it runs.
    pub(crate) fn abort_http(&mut self) {
        self.shared.counters.http_closed.fetch_add(1, Ordering::Relaxed);
        self.shared.http_warnings.warn(&self.client.origin.address);
        self.unsubscribe_all();
        self.closing = true;
        self.is_aborted = true;
    }

    /// What has become of a write.
    pub(crate) fn write_status(&self, awaited: AwaitedWrite) -> Durability {
        match awaited {
            AwaitedWrite::Journal(Ticket::NONE) => Durability::Durable,
            AwaitedWrite::Journal(ticket) => self.engine().durability(ticket),
            AwaitedWrite::Spool(number, ticket) => {
                // The feeds of an engine stay as they are.
                let feed = self.engine().feeds().iter().nth(number);
                feed.map_or(Durability::Lost, |feed| feed.durability(ticket))
            }
        }
    }

    /// The error in the place of a lost write's reply.
    pub(crate) fn loss(&self, awaited: AwaitedWrite) -> String {
        let (what, reason) = match awaited {
            AwaitedWrite::Journal(_) => ("journal", self.engine().journal_poisoned()),
            AwaitedWrite::Spool(number, _) => {
                ("spool", self.engine().feeds().iter().nth(number).and_then(|feed| feed.reason()))
            }
        };
        let reason = reason.unwrap_or_else(|| "it is closed".to_owned());
        format!("MISCONF the {what} has failed: {reason}; this write may be lost, reads go on")
    }

    /// Whether the connection is to be handed to a follower's thread.
    pub(crate) fn is_handed_on(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| follower.wanted.is_some())
    }

    /// How many channels and patterns it listens to.
    pub(crate) fn subscription_count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// How many bytes of replies may wait for this client.
    pub(crate) fn output_limit(&self) -> &OutputLimit {
        let settings = &self.shared.settings;
        let listens = self.subscription_count() > 0;
        if listens { &settings.pubsub_output } else { &settings.normal_output }
    }

    /// The names that it listens to.
    pub(crate) fn names_mut(&mut self, by: SubscriptionKind) -> &mut BTreeSet<Box<[u8]>> {
        match by {
            SubscriptionKind::Channel => &mut self.channels,
            SubscriptionKind::Pattern => &mut self.patterns,
        }
    }

    /// Tells other connections how many names it listens to.
    pub(crate) fn note_subscriptions(&self) {
        self.client.channels.store(self.channels.len(), Ordering::Relaxed);
        self.client.patterns.store(self.patterns.len(), Ordering::Relaxed);
    }

    /// Ends all its subscriptions.
    pub(crate) fn unsubscribe_all(&mut self) {
        for (by, names) in [
            (SubscriptionKind::Channel, &mut self.channels),
            (SubscriptionKind::Pattern, &mut self.patterns),
        ] {
            for name in std::mem::take(names) {
                self.shared.pubsub.unsubscribe(by, &name, &self.client);
            }
        }
        self.note_subscriptions();
        // What has come meanwhile is not wanted any more.
        self.client.take_messages(usize::MAX, |_| {});
    }

    /// Changes the user, as `AUTH` and `RESET` do.
    pub(crate) fn become_user(&mut self, user: Arc<User>, authenticated: bool) {
        self.client.set_info(|info| info.user = Arc::clone(&user.name));
        self.user = user;
        self.authenticated = authenticated;
    }

    /// Whether a command of this length belongs into the slow log.
    pub(crate) fn is_slow(&self, duration: Duration) -> bool {
        match u64::try_from(self.shared.settings.slow_micros.load(Ordering::Relaxed)) {
            Ok(threshold) => duration.as_micros() as u64 >= threshold,
            Err(_) => false,
        }
    }

    /// Enters a command into the slow log.
    pub(crate) fn log_slow(&self, duration: Duration, arguments: Vec<Vec<u8>>) {
        let capacity = self.shared.settings.slowlog_len.load(Ordering::Relaxed);
        let entry = slowlog::Entry {
            id: 0,
            unix_seconds: self.engine().now_millis() / 1000,
            duration,
            arguments,
            address: self.client.origin.address.clone(),
            client_name: self.client.info().name,
        };
        self.shared.slowlog.add(entry, capacity);
    }

    /// Enters a request into the slow log if it took long enough.
    pub(crate) fn log_if_slow(&self, duration: Duration, args: Args<'_>) {
        if self.is_slow(duration) {
            self.log_slow(duration, slowlog::shown(args));
        }
    }

    /// Whether so little counts as slow that commands must be timed one by one.
    pub(crate) fn wants_exact_times(&self) -> bool {
        (0..EXACT_MICROS).contains(&self.shared.settings.slow_micros.load(Ordering::Relaxed))
    }

    /// The version of the protocol that the client has chosen.
    pub(crate) fn client_protocol(&self) -> Protocol {
        match self.client.protocol.load(Ordering::Relaxed) {
            3 => Protocol::Resp3,
            _ => Protocol::Resp2,
        }
    }

    /// Ends the timing of commands that were timed together.
    pub(crate) fn end_run(&mut self) {
        if let Some((number, duration)) = self.meter.end_run() {
            self.log_run(number, duration);
        }
    }

    /// Of commands timed together the arguments are gone; the name is what the slow log gets.
    pub(crate) fn log_run(&self, number: usize, duration: Duration) {
        if self.is_slow(duration) {
            let command = self.shared.commands.entries()[number].command;
            let name = command.name.replace('|', " ");
            self.log_slow(duration, vec![name.into_bytes()]);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget_wait();
        self.flush_lookups();
        self.unsubscribe_all();
        let shared = Arc::clone(&self.shared);
        self.transaction.unwatch(&shared.watches);
        shared.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
        if !self.is_follower {
            shared.clients.forget(&self.client);
        }
    }
}
