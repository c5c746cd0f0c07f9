//! A cluster that is followed: a link for each shard, through failovers and moves of slots.
//!
//! For: finding the shards' primaries, giving each a link, and telling the engine whose a slot is.
//! Not for: a link's work (`link`), what nodes say (`whered_replication::cluster`).
//!
//! ```text
//! nodes ─ every 2 s, and after a fault ─> topology ─> for each shard
//!    a link follows its primary ─> nothing to do
//!    a link has data of its history (INFO: master_replid, master_replid2)
//!                                     ─> that link moves there, and goes on by PSYNC
//!    no link has ─> a new link, which takes a dump
//! ```
//!
//! A link's identity is the history that its data are of, not a node: a promoted replica goes on
//! with the history of its primary, also where this server was stopped meanwhile.
//!
//! While a slot moves, its keys are at two primaries, and the engine looks at both. A link that is
//! down does not know what has moved away: it counts for its own slots alone. Redis 7.0 removes the
//! keys of a slot that was taken from it by force without a word to its replicas: where keys stay
//! behind in a lost slot, the link takes a dump anew. Slots may have been lost while this server
//! was stopped: when the topology is found, links are checked for keys of slots that others own.
//!
//! A link without a shard serves on until every shard has data; then it is forgotten.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use whered_engine::{Keyspace, SLOTS, SlotOwners, key_slot, served_number, sync};
use whered_replication::cluster::{ClusterNode, Shard, Topology, is_cluster_well};
use whered_replication::{Address, Connection, Endpoint, LinkError, Patience, Reply};

use super::board::LinkState;
use super::options::{Cluster, ReplicaOptions};
use super::stop::LinkStop;
use super::{LinkContext, RunningLink, SHARD_SUFFIX};

/// How often a node is asked for the topology.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often after a change.
const LOOK_OFTEN: Duration = Duration::from_millis(300);
/// For this long after a change, others may follow.
const CHANGING: Duration = Duration::from_secs(20);
/// A primary's last word on a slot that it has lost has come by then.
const SETTLED: Duration = Duration::from_secs(5);
/// A link that is further behind has not heard yet what its primary has removed.
const LAG_MAX: Duration = Duration::from_secs(1);
/// Keys that are looked at together.
const KEYS_AT_ONCE: usize = 1024;
/// Nodes that are asked for one topology.
const NODES_MAX: usize = 16;

const PATIENCE: Patience = Patience {
    opening: Duration::from_secs(2),
    silence: Duration::from_secs(3),
    preparing: Duration::from_secs(3),
};

/// The thread that looks after a cluster's links.
pub(super) struct RunningCluster {
    stop: Arc<LinkStop>,
    thread: JoinHandle<()>,
}

impl RunningCluster {
    /// Follows the shards of a cluster. Its route must be there already.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        context: &LinkContext,
        options: &ReplicaOptions,
        cluster: &Cluster,
    ) -> io::Result<RunningCluster> {
        let routes = context.engine.keyspace().routes();
        let is_own = |database: usize, patterns: &[Vec<u8>]| {
            database == options.database && patterns == options.patterns
        };
        let route = routes.iter().find(|route| is_own(route.database, &route.patterns));
        let slots = route.and_then(|route| route.slots.clone()).unwrap_or_default();
        // Clients see that there is a cluster before it is found.
        context.board.set_topology(Some(Topology::default()));
        let stop = Arc::<LinkStop>::default();
        let follower = ClusterFollower {
            context: context.clone(),
            options: options.clone(),
            cluster: cluster.clone(),
            slots,
            links: Vec::new(),
            topology: Topology::default(),
            lost: BTreeMap::new(),
            changed: None,
            stop: Arc::clone(&stop),
        };
        let thread = Builder::new().name("replica-cluster".to_owned());
        let thread = thread.spawn(move || follower.run())?;
        Ok(RunningCluster { stop, thread })
    }

    /// Ends the links; nothing is written for them any more when this is over.
    pub(super) fn end(self) {
        self.stop.stop();
        if self.thread.join().is_err() {
            tracing::error!("the thread of a cluster's replica has failed");
        }
    }
}

/// The link of a shard.
struct ShardLink {
    running: RunningLink,
    primary: ClusterNode,
    /// Where the link connects to.
    target: Arc<Mutex<Address>>,
}

struct ClusterFollower {
    context: LinkContext,
    options: ReplicaOptions,
    cluster: Cluster,
    slots: Arc<SlotOwners>,
    links: Vec<ShardLink>,
    /// The last one that was told.
    topology: Topology,
    /// Slots that a link's primary no longer has, by the link, and since when.
    lost: BTreeMap<(usize, u16), Instant>,
    /// When the topology has changed last.
    changed: Option<Instant>,
    stop: Arc<LinkStop>,
}

impl ClusterFollower {
    fn run(mut self) {
        let mut told = String::new();
        loop {
            match self.learn() {
                Ok(topology) => {
                    self.adopt(topology);
                    told.clear();
                }
                Err(why) if why != told => {
                    tracing::warn!("the replica of {} learns no topology: {why}", self.options.of);
                    told = why;
                }
                Err(_) => {}
            }
            self.note_links();
            if self.stop.wait(self.pause()) {
                break;
            }
        }
        self.links.drain(..).for_each(|link| self.context.end(link.running));
    }

    fn keyspace(&self) -> &Keyspace {
        self.context.engine.keyspace()
    }

    fn pause(&self) -> Duration {
        let has_failed = |link: &ShardLink| {
            let status = &link.running.status;
            status.state() != LinkState::Up && status.since_change() < CHANGING
        };
        let is_changing = self.changed.is_none_or(|changed| changed.elapsed() < CHANGING);
        match is_changing || self.links.iter().any(has_failed) {
            true => LOOK_OFTEN,
            false => LOOK_EVERY,
        }
    }

    fn address_of(&self, endpoint: Endpoint) -> Address {
        let (credentials, tls) = (self.cluster.credentials.clone(), self.cluster.tls.clone());
        Address { endpoint, credentials, tls }
    }

    /// Asks one node after the other. A node that says that the cluster is not well may be cut off
    /// from it: what it knows counts only while nothing else is known.
    fn learn(&self) -> Result<Topology, String> {
        let (mut unwell, mut failed) = (None, "it has no node".to_owned());
        for endpoint in self.informants() {
            if self.stop.is_stopped() {
                break;
            }
            match self.ask(endpoint) {
                Ok((topology, true)) => return Ok(topology),
                Ok((topology, false)) => unwell = unwell.or(Some(topology)),
                Err(error) => failed = error.to_string(),
            }
        }
        match unwell {
            Some(topology) if self.topology.shards.is_empty() => Ok(topology),
            Some(_) => Err("each node says that the cluster is down".to_owned()),
            None => Err(failed),
        }
    }

    fn ask(&self, endpoint: Endpoint) -> Result<(Topology, bool), LinkError> {
        let host = match &endpoint {
            Endpoint::Tcp(host, _) => host.clone(),
            Endpoint::Unix(_) => String::new(),
        };
        let mut connection = Connection::open(&self.address_of(endpoint), PATIENCE)?;
        let is_well = is_cluster_well(&mut connection)?;
        let topology = Topology::ask(&mut connection, &host, self.cluster.tls.is_some())?;
        Ok((topology, is_well))
    }

    /// Known nodes that live, and those of the configuration.
    fn informants(&self) -> Vec<Endpoint> {
        let primaries = self.topology.shards.iter().map(|shard| &shard.primary);
        let replicas = self.topology.shards.iter().flat_map(|shard| &shard.replicas);
        let known = primaries.chain(replicas).filter(|node| node.is_online);
        let mut endpoints: Vec<Endpoint> = Vec::new();
        let known = known.map(ClusterNode::endpoint).take(NODES_MAX - 1);
        for endpoint in known.chain(self.cluster.seeds.iter().cloned()) {
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        endpoints.truncate(NODES_MAX);
        endpoints
    }

    /// Gives each shard of a topology its link.
    fn adopt(&mut self, topology: Topology) {
        if topology != self.topology {
            self.changed = Some(Instant::now());
        }
        self.topology = topology;
        for shard in self.topology.shards.clone() {
            let address = self.address_of(shard.primary.endpoint());
            match self.links.iter().position(|link| link.primary.id == shard.primary.id) {
                Some(index) => self.links[index].move_to(&shard.primary, address),
                None if self.is_to_follow(&shard) => self.attach(&shard, address),
                None => {}
            }
        }
        self.set_owners();
        self.check_lost_slots();
        self.set_route(&self.orphans(|_| true));
        self.retire_orphans();
        self.context.board.set_topology(Some(self.topology.clone()));
    }

    /// Whether a shard without a link shall have one. One that has no slots may get some; but right
    /// after a failover it may be the former primary, which does not know yet that it is none.
    fn is_to_follow(&self, shard: &Shard) -> bool {
        let is_settled = self.changed.is_some_and(|changed| changed.elapsed() >= SETTLED);
        shard.primary.is_online && (is_settled || !shard.slots.is_empty())
    }

    /// Gives a shard the link that has data of its history, or a new one.
    fn attach(&mut self, shard: &Shard, address: Address) {
        let of = &self.options.of;
        // A primary that does not answer is asked again soon.
        let Ok(histories) = histories_of(&address) else { return };
        let orphans = self.orphans(|shard| !shard.slots.is_empty());
        let known = self.keyspace().positions().into_iter().find(|position| {
            let id = position.stream.replication_id.as_str();
            orphans.contains(&position.link) && histories.iter().any(|history| history == id)
        });
        let running = known.as_ref().and_then(|known| {
            self.links.iter_mut().find(|link| link.running.status.number == known.link)
        });
        if let Some(link) = running {
            let former = link.primary.endpoint();
            tracing::info!("the replica of {of} goes on at {} after {former}", address.endpoint);
            return link.move_to(&shard.primary, address);
        }
        let name = known.map_or_else(|| self.free_name(), |known| known.name);
        let target = Arc::new(Mutex::new(address));
        let shown = Arc::clone(&target);
        let resolve = Box::new(move || Ok(sync::lock(&shown).clone()));
        match self.context.start(&self.options, name, resolve) {
            Ok(running) => {
                self.links.push(ShardLink { running, primary: shard.primary.clone(), target });
            }
            Err(error) => tracing::error!("the replica of {of} lacks a shard: {error}"),
        }
    }

    /// A name that no link of this cluster has.
    fn free_name(&self) -> String {
        let cluster = self.options.link_name();
        let positions = self.keyspace().positions();
        let is_taken = |name: &String| {
            positions.iter().any(|position| &position.name == name)
                || self.links.iter().any(|link| &link.running.name == name)
        };
        let mut names = (0..).map(|number| format!("{cluster}{SHARD_SUFFIX}{number}"));
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// The numbers of this cluster's links that follow the primary of no shard that counts. Some
    /// have data of before a start and do not run.
    fn orphans(&self, counts: impl Fn(&Shard) -> bool) -> Vec<usize> {
        let is_shard = |link: &&ShardLink| {
            let mut shards = self.topology.shards.iter().filter(|shard| counts(shard));
            shards.any(|shard| shard.primary.id == link.primary.id)
        };
        let followed: Vec<usize> =
            self.links.iter().filter(is_shard).map(|link| link.running.status.number).collect();
        let mut orphans = self.numbers();
        orphans.retain(|link| !followed.contains(link));
        orphans
    }

    /// The numbers of this cluster's links: of those that run, and of those that have data of
    /// before a start.
    fn numbers(&self) -> Vec<usize> {
        let prefix = self.options.link_name() + SHARD_SUFFIX;
        let positions = self.keyspace().positions().into_iter();
        let with_data = positions.filter(|position| position.name.starts_with(&prefix));
        let running = self.links.iter().map(|link| link.running.status.number);
        let mut numbers: Vec<usize> =
            with_data.map(|position| position.link).chain(running).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Says whose each slot is, and notes which links have lost some.
    fn set_owners(&mut self) {
        let mut is_found = vec![false; usize::from(SLOTS)];
        for link in &self.links {
            let Some(shard) =
                self.topology.shards.iter().find(|shard| shard.primary.id == link.primary.id)
            else {
                continue;
            };
            let number = link.running.status.number;
            self.slots.set_address(number, Some(shard.primary.endpoint().to_string()));
            for slot in shard.slots.iter().cloned().flatten() {
                match self.slots.link(slot) {
                    Some(owner) if owner != number => {
                        self.lost.insert((owner, slot), Instant::now());
                    }
                    Some(_) => {}
                    None => is_found[usize::from(slot)] = true,
                }
                self.lost.remove(&(number, slot));
                self.slots.set(slot, Some(number));
            }
        }
        if is_found.contains(&true) {
            self.note_lost_before(&is_found);
        }
    }

    /// Notes which links have keys of slots whose owner was not known up to now and is another one:
    /// they may have lost them while this server was stopped.
    fn note_lost_before(&mut self, is_found: &[bool]) {
        for number in self.numbers() {
            for slot in self.held_slots(number) {
                let is_anothers = self.slots.link(slot).is_some_and(|owner| owner != number);
                if is_anothers && is_found[usize::from(slot)] {
                    self.lost.entry((number, slot)).or_insert_with(Instant::now);
                }
            }
        }
    }

    /// The slots that a link has keys of, but for those that its primary imports.
    fn held_slots(&self, link: usize) -> Vec<u16> {
        let number = served_number(link);
        let mut is_held = vec![false; usize::from(SLOTS)];
        let mut cursor = 0;
        loop {
            let (next, keys) = self.keyspace().scan(number, cursor, KEYS_AT_ONCE);
            keys.iter().for_each(|(key, _)| is_held[usize::from(key_slot(key))] = true);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let imports = self.keyspace().imports(number);
        for (first, last) in imports.iter().flat_map(|import| &import.ranges) {
            is_held[usize::from(*first)..=usize::from(*last)].fill(false);
        }
        (0..SLOTS).filter(|slot| is_held[usize::from(*slot)]).collect()
    }

    /// Lets links take a dump anew that have kept keys of slots that their primaries have lost.
    fn check_lost_slots(&mut self) {
        for link in &self.links {
            let status = &link.running.status;
            let number = status.number;
            let of_link = self.lost.range_mut((number, 0)..(number, SLOTS));
            let due: Vec<(&(usize, u16), &mut Instant)> =
                of_link.filter(|(_, since)| since.elapsed() >= SETTLED).collect();
            if due.is_empty() {
                continue;
            }
            if status.state() != LinkState::Up || status.lag() > LAG_MAX {
                due.into_iter().for_each(|(_, since)| *since = Instant::now());
                continue;
            }
            let lost: Vec<u16> = due.into_iter().map(|((_, slot), _)| *slot).collect();
            let mut left = self.held_slots(number);
            left.retain(|slot| lost.binary_search(slot).is_ok());
            let address = self.address_of(link.primary.endpoint());
            // A primary that does not answer is asked again.
            let Ok(has_lost) = has_lost(&address, &left) else { continue };
            for slot in &lost {
                self.lost.remove(&(number, *slot));
            }
            if has_lost {
                link.running.resync("its primary has lost slots whose keys were left behind");
            }
        }
    }

    /// Tells the engine whose keys may be found where. A link without a shard has what its
    /// successor lacks.
    fn note_links(&self) {
        let orphans = self.orphans(|_| true);
        for link in &self.links {
            let status = &link.running.status;
            let is_down = status.state() != LinkState::Up && !orphans.contains(&status.number);
            self.slots.set_only_own(status.number, is_down);
        }
    }

    /// Puts the links of this cluster into its route.
    fn set_route(&self, orphans: &[usize]) {
        let running = self.links.iter().map(|link| link.running.status.number);
        let mut links: Vec<usize> = running.chain(orphans.iter().copied()).collect();
        links.sort_unstable();
        links.dedup();
        // Other clusters change their routes as well.
        let _alone = self.context.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut routes = self.keyspace().routes().to_vec();
        let is_own = |slots: &Arc<SlotOwners>| Arc::ptr_eq(slots, &self.slots);
        let own = routes.iter_mut().find(|route| route.slots.as_ref().is_some_and(is_own));
        if let Some(route) = own.filter(|route| route.links != links) {
            route.links = links;
            self.keyspace().set_routes(routes);
        }
    }

    /// Forgets links without a shard once every shard has data of its own.
    fn retire_orphans(&mut self) {
        let orphans = self.orphans(|_| true);
        let has_data = |shard: &Shard| {
            let link = self.links.iter().find(|link| link.primary.id == shard.primary.id);
            link.is_some_and(|link| self.keyspace().position(link.running.status.number).is_some())
        };
        let shards = &self.topology.shards;
        if orphans.is_empty() || shards.is_empty() || !shards.iter().all(has_data) {
            return;
        }
        let covered: usize =
            shards.iter().flat_map(|shard| &shard.slots).map(ExactSizeIterator::len).sum();
        if covered != usize::from(SLOTS) {
            return;
        }
        let is_orphan = |link: &ShardLink| orphans.contains(&link.running.status.number);
        let (ended, links) =
            std::mem::take(&mut self.links).into_iter().partition::<Vec<ShardLink>, _>(is_orphan);
        self.links = links;
        self.set_route(&[]);
        for number in &orphans {
            self.slots.set_address(*number, None);
            self.slots.set_only_own(*number, false);
        }
        self.lost.retain(|(link, _), _| !orphans.contains(link));
        let positions = self.keyspace().positions();
        let mut names: Vec<String> = ended.iter().map(|link| link.running.name.clone()).collect();
        names.extend(
            positions.into_iter().filter(|it| orphans.contains(&it.link)).map(|it| it.name),
        );
        ended.into_iter().for_each(|link| self.context.end(link.running));
        let of = &self.options.of;
        match self.keyspace().forget_links(|name| names.iter().any(|own| own == name)) {
            Ok(_) => tracing::info!(
                "the replica of {of} forgets {} links without a shard",
                orphans.len()
            ),
            Err(error) => {
                tracing::warn!("the replica of {of} keeps links without a shard: {error}");
            }
        }
    }
}

impl ShardLink {
    /// Follows a node from now on.
    fn move_to(&mut self, primary: &ClusterNode, address: Address) {
        self.primary = primary.clone();
        let mut target = sync::lock(&self.target);
        if *target != address {
            *target = address;
            drop(target);
            self.running.reconnect();
        }
    }
}

/// The ids of the histories that a primary can go on with: its own, and that from which it was
/// promoted. None where the user may not know.
fn histories_of(address: &Address) -> Result<Vec<String>, LinkError> {
    let reply = Connection::open(address, PATIENCE)?.request(&["INFO", "replication"])?;
    let lines = reply.text().unwrap_or_default().lines();
    let id = |line: &str| {
        let (field, id) = line.split_once(':')?;
        ["master_replid", "master_replid2"].contains(&field).then(|| id.trim().to_owned())
    };
    Ok(lines.filter_map(id).collect())
}

/// Whether a primary has no keys of some of these slots. One that does not let this user ask counts
/// as one that has.
fn has_lost(address: &Address, slots: &[u16]) -> Result<bool, LinkError> {
    if slots.is_empty() {
        return Ok(false);
    }
    let mut connection = Connection::open(address, PATIENCE)?;
    for slot in slots {
        let count = connection.request(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()])?;
        if matches!(count, Reply::Integer(0)) {
            return Ok(true);
        }
    }
    Ok(false)
}
