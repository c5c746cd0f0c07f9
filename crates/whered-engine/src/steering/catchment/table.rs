//! A database's networks, added up by everything that a pool's choice can depend on.
//!
//! For: evaluating a policy once for each different answer that it can have, not once for each
//! network; and again after a site has gone down, without a walk.
//!
//! ```text
//! network ── record ─────────────────────────┐
//!    └─ addresses ── context: override, lists ├─> row: addresses, networks
//!                    of maps, members of sets,┘
//!                    ranges of rules, records of other databases
//! ```
//!
//! Contexts are constant over regions (`region.rs`), which are mostly larger than networks: a
//! thread follows them in address order, beside the networks. A network with several contexts is
//! kept apart, since it counts once for each site.
//!
//! Invariants: the policy comes to the same for two addresses of one context and one record.
//! Memory: 48 bytes for each different pair of record and context; 16 for each context of a
//! network with several.
//! Cost: a walk over the database, shared among the processors; a lookup in a map for each network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use whered_geo::Place;
use whered_ip::{LayeredSet, Prefix};
use whered_mmdb::{Networks, RecordId, TreeNode};

use super::counts::FastMap;
use super::parallel::for_each_part;
use super::{IsOver, check};
use crate::databases::NamedDatabase;
use crate::error::ExplainError;
use crate::steering::compiled::Step;
use crate::steering::pool::MapSource;
use crate::steering::region::{DATABASES_MAX, Inputs, Region, bits_of};
use crate::steering::snapshot::PolicySnapshot;
use crate::sync;

/// In how many parts each family's networks are walked.
const PARTS: usize = 256;
/// How many records one part of the work has.
const RECORDS_AT_ONCE: usize = 1024;

/// See the head of this file.
pub(super) struct NetworkTable {
    pub(super) contexts: Vec<Context>,
    /// By context, then by place.
    pub(super) rows: Vec<Row>,
    pub(super) split: Vec<SplitNetwork>,
}

/// A record under a context.
pub(super) struct Row {
    pub(super) context: u32,
    pub(super) record: RecordId,
    pub(super) place: Place,
    pub(super) addresses_v4: u64,
    pub(super) networks: u64,
}

/// A network whose addresses have several contexts.
pub(super) struct SplitNetwork {
    pub(super) record: RecordId,
    pub(super) place: Place,
    /// The contexts with the IPv4 addresses of each.
    pub(super) parts: Box<[(u32, u64)]>,
}

/// What decides beside the record, by one of the addresses for which it does.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) address: IpAddr,
    /// The records of the policy's other databases.
    pub(super) records: [Option<RecordId>; DATABASES_MAX],
}

/// What a table is good for: the same database under the same inputs.
pub(super) struct TableKey {
    database: Weak<NamedDatabase>,
    others: Vec<Weak<NamedDatabase>>,
    sets: Vec<Weak<LayeredSet>>,
    bounds: Arc<[Vec<u128>; 2]>,
    maps: Vec<Weak<MapSource>>,
    /// What members of the overrides and lists of maps can name: sites and their groups.
    names: Vec<[String; 2]>,
}

impl TableKey {
    pub(super) fn new(snapshot: &PolicySnapshot, database: &Arc<NamedDatabase>) -> TableKey {
        let (policy, inputs) = (&snapshot.policy, snapshot.inputs());
        let others = inputs.databases.iter().filter(|named| !Arc::ptr_eq(named, database));
        let maps = policy.steps.iter().filter_map(|step| match step {
            Step::Map(map) if map.has_networks() => Some(Arc::downgrade(map.source())),
            _ => None,
        });
        let maps: Vec<_> = maps.collect();
        let mut names = Vec::new();
        if policy.pool.overrides.is_some() || !maps.is_empty() {
            let sites = policy.pool.sites.iter();
            names.extend(sites.map(|site| [site.name.clone(), site.group().to_owned()]));
        }
        TableKey {
            database: Arc::downgrade(database),
            others: others.map(Arc::downgrade).collect(),
            sets: inputs.sets.iter().map(Arc::downgrade).collect(),
            bounds: Arc::clone(&inputs.bounds),
            maps,
            names,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        fn alive<T>(all: &[Weak<T>]) -> bool {
            all.iter().all(|one| one.strong_count() > 0)
        }
        self.database.strong_count() > 0
            && alive(&self.others)
            && alive(&self.sets)
            && alive(&self.maps)
    }

    pub(super) fn is_same(&self, other: &TableKey) -> bool {
        self.database.ptr_eq(&other.database)
            && same(&self.others, &other.others)
            && same(&self.sets, &other.sets)
            && same(&self.maps, &other.maps)
            && self.names == other.names
            && self.bounds == other.bounds
    }
}

fn same<T>(a: &[Weak<T>], b: &[Weak<T>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ptr_eq(b))
}

impl NetworkTable {
    pub(super) fn new(
        snapshot: &PolicySnapshot,
        database: &Arc<NamedDatabase>,
        is_over: IsOver<'_>,
    ) -> Result<NetworkTable, ExplainError> {
        let parts =
            database.database().networks_in_parts(PARTS).map_err(|error| unreadable(&error))?;
        let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
        let follower = Follower::new(snapshot, database);
        let walked = for_each_part(parts.len(), |walk: &mut Walk, part| {
            let networks = sync::lock(&parts[part]).take();
            networks.map_or(Ok(()), |networks| walk.follow(&follower, networks, is_over))
        })?;
        let (contexts, rows, split) = merge(walked);
        let rows: Vec<_> = rows.into_iter().collect();
        let locate = |record| snapshot.policy.paths.location(database, record);
        let located =
            for_each_part(rows.len().div_ceil(RECORDS_AT_ONCE), |found: &mut _, part| {
                if is_over() {
                    return Err(ExplainError::TooLong);
                }
                let from = part * RECORDS_AT_ONCE;
                let some = &rows[from..rows.len().min(from + RECORDS_AT_ONCE)];
                let row = |((context, record), (addresses_v4, networks)): &RowCount| {
                    let (context, addresses_v4, networks) = (*context, *addresses_v4, *networks);
                    let place = locate(*record)?;
                    Some(Row { context, record: *record, place, addresses_v4, networks })
                };
                Vec::extend(found, some.iter().filter_map(row));
                Ok(())
            })?;
        let mut rows: Vec<Row> = located.into_iter().flatten().collect();
        rows.sort_unstable_by(|a, b| {
            let key = |row: &Row| (row.place.latitude_degrees, row.place.longitude_degrees);
            let ((a0, a1), (b0, b1)) = (key(a), key(b));
            a.context.cmp(&b.context).then(a0.total_cmp(&b0)).then(a1.total_cmp(&b1))
        });
        let split = split.into_iter().filter_map(|(record, parts)| {
            Some(SplitNetwork { record, place: locate(record)?, parts })
        });
        let split = split.collect();
        Ok(NetworkTable { contexts, rows, split })
    }
}

/// A record, and the parts of a network that has it.
type SplitParts = (RecordId, Box<[(u32, u64)]>);
type RowCount = ((u32, RecordId), (u64, u64));
type RowCounts = FastMap<(u32, RecordId), (u64, u64)>;

/// Everything that the policy's choice can depend on but the record, as far as it decides.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ContextKey {
    is_ipv4: bool,
    /// The name of the site or group that a member of the overrides has.
    overridden: Option<String>,
    /// What each map lists for the network, as the number of its first equal list.
    lists: Vec<Option<u32>>,
    /// Whether it is in the sets of rules.
    is_in: Vec<bool>,
    /// Between which bounds of rules it is.
    range: usize,
    records: [Option<RecordId>; DATABASES_MAX],
}

/// What threads that follow networks share.
struct Follower<'a> {
    snapshot: &'a PolicySnapshot,
    inputs: &'a Inputs,
    /// Which of the policy's databases the networks are from.
    drawn: Option<usize>,
}

/// What one thread has counted.
#[derive(Default)]
struct Walk {
    numbers: HashMap<ContextKey, u32>,
    contexts: Vec<(ContextKey, Context)>,
    rows: RowCounts,
    split: Vec<SplitParts>,
    /// The regions on the way to the present one, from the root on.
    way: Vec<Region>,
    visits: u64,
}

impl Walk {
    fn follow(
        &mut self,
        follower: &Follower<'_>,
        networks: Networks<'_>,
        is_over: IsOver<'_>,
    ) -> Result<(), ExplainError> {
        // The present region, all of one context.
        let mut uniform: Option<(Region, u32)> = None;
        let mut last: Option<(u32, RecordId)> = None;
        let (mut addresses, mut count) = (0, 0);
        for found in networks {
            self.visit(is_over)?;
            let (network, record) = found.map_err(|error| unreadable(&error))?;
            let context = match &uniform {
                Some((region, context)) if region.holds(network) => *context,
                _ => {
                    self.lead(follower, network);
                    let region = *self.way.last().expect("the root is always there");
                    if !follower.inputs.is_uniform(&region) {
                        uniform = None;
                        self.split(follower, &region, record, is_over)?;
                        continue;
                    }
                    let context = self.context(follower, &region);
                    uniform = Some((region, context));
                    context
                }
            };
            // Neighbours often have the same record.
            if last != Some((context, record)) {
                self.count(last, addresses, count);
                (last, addresses, count) = (Some((context, record)), 0, 0);
            }
            addresses += addresses_v4(network.is_ipv4(), network.length_bits());
            count += 1;
        }
        self.count(last, addresses, count);
        Ok(())
    }

    fn count(&mut self, key: Option<(u32, RecordId)>, addresses_v4: u64, networks: u64) {
        if let Some(key) = key {
            let row = self.rows.entry(key).or_default();
            row.0 += addresses_v4;
            row.1 += networks;
        }
    }

    fn visit(&mut self, is_over: IsOver<'_>) -> Result<(), ExplainError> {
        self.visits += 1;
        check(self.visits, is_over)
    }

    /// Leads the way to the uniform region around a network, or to the network's own.
    fn lead(&mut self, follower: &Follower<'_>, network: Prefix) {
        let (bits, length) = (bits_of(network.address()), network.length_bits());
        match self.way.last() {
            Some(last) if last.is_ipv4 == network.is_ipv4() => {
                let common = (last.bits ^ bits).leading_zeros() as u8;
                self.way.truncate(usize::from(common.min(last.length).min(length)) + 1);
            }
            _ => {
                self.way.clear();
                self.way.push(follower.root(network.is_ipv4()));
            }
        }
        while let Some(last) = self.way.last()
            && last.length < length
            && !follower.inputs.is_uniform(last)
        {
            let bit = bits >> (127 - u32::from(last.length)) & 1 == 1;
            let next = follower.inputs.half(last, bit);
            self.way.push(next);
        }
    }

    /// Keeps a network of several contexts apart.
    fn split(
        &mut self,
        follower: &Follower<'_>,
        region: &Region,
        record: RecordId,
        is_over: IsOver<'_>,
    ) -> Result<(), ExplainError> {
        let mut parts = FastMap::default();
        self.divide(follower, region, &mut parts, is_over)?;
        let mut parts: Box<[(u32, u64)]> = parts.into_iter().collect();
        parts.sort_unstable();
        self.split.push((record, parts));
        Ok(())
    }

    fn divide(
        &mut self,
        follower: &Follower<'_>,
        region: &Region,
        parts: &mut FastMap<u32, u64>,
        is_over: IsOver<'_>,
    ) -> Result<(), ExplainError> {
        self.visit(is_over)?;
        if follower.inputs.is_uniform(region) {
            let context = self.context(follower, region);
            *parts.entry(context).or_default() += addresses_v4(region.is_ipv4, region.length);
            return Ok(());
        }
        for bit in [false, true] {
            let half = follower.inputs.half(region, bit);
            self.divide(follower, &half, parts, is_over)?;
        }
        Ok(())
    }

    /// The number of a uniform region's context.
    fn context(&mut self, follower: &Follower<'_>, region: &Region) -> u32 {
        let (key, context) = follower.context(region);
        self.number(key, || context)
    }

    fn number(&mut self, key: ContextKey, context: impl FnOnce() -> Context) -> u32 {
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let number = self.contexts.len() as u32;
        self.contexts.push((key.clone(), context()));
        self.numbers.insert(key, number);
        number
    }
}

/// Puts together what threads have counted.
fn merge(walked: Vec<Walk>) -> (Vec<Context>, RowCounts, Vec<SplitParts>) {
    let mut walked = walked.into_iter();
    let mut all = walked.next().unwrap_or_default();
    for walk in walked {
        let contexts = walk.contexts.into_iter();
        let numbers: Vec<u32> =
            contexts.map(|(key, context)| all.number(key, || context)).collect();
        let number = |context: u32| numbers[context as usize];
        for ((context, record), (addresses_v4, networks)) in walk.rows {
            all.count(Some((number(context), record)), addresses_v4, networks);
        }
        all.split.extend(walk.split.into_iter().map(|(record, mut parts)| {
            parts.iter_mut().for_each(|(context, _)| *context = number(*context));
            (record, parts)
        }));
    }
    let contexts = all.contexts.into_iter().map(|(_, context)| context).collect();
    (contexts, all.rows, all.split)
}

impl<'a> Follower<'a> {
    fn new(snapshot: &'a PolicySnapshot, database: &Arc<NamedDatabase>) -> Follower<'a> {
        let inputs = snapshot.inputs();
        let drawn = inputs.databases.iter().position(|named| Arc::ptr_eq(named, database));
        Follower { snapshot, inputs, drawn }
    }

    /// All addresses of a family, without the drawn database's tree.
    fn root(&self, is_ipv4: bool) -> Region {
        let mut root = self.inputs.root(is_ipv4);
        if let Some(drawn) = self.drawn {
            root.nodes[drawn] = TreeNode::Empty;
        }
        root
    }

    fn context(&self, region: &Region) -> (ContextKey, Context) {
        let address = region.address();
        let policy = &self.snapshot.policy;
        let lists = policy.steps.iter().filter_map(|step| match step {
            Step::Map(map) => Some(map.list_number(address)),
            _ => None,
        });
        let range = if policy.rulesets.is_empty() {
            0
        } else {
            let bounds = &self.inputs.bounds[usize::from(!region.is_ipv4)];
            bounds.partition_point(|bound| *bound <= region.bits)
        };
        let records = std::array::from_fn(|at| region.record(at));
        let key = ContextKey {
            is_ipv4: region.is_ipv4,
            overridden: self.snapshot.override_name(address).map(str::to_owned),
            lists: lists.collect(),
            is_in: self.snapshot.memberships(address),
            range,
            records,
        };
        (key, Context { address, records })
    }
}

fn unreadable(error: &whered_mmdb::MmdbError) -> ExplainError {
    ExplainError::Unreadable(error.to_string())
}

fn addresses_v4(is_ipv4: bool, length_bits: u8) -> u64 {
    if is_ipv4 { 1 << (32 - u32::from(length_bits)) } else { 0 }
}
