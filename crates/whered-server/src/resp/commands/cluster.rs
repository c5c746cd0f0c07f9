//! `CLUSTER ASKING READONLY READWRITE`: the cluster that is followed, as a replica of it tells it.
//!
//! For: clients that find a cluster's nodes by themselves, and read from replicas. They see the
//! primaries that are followed, and this server as a replica of each. Not for: joining a cluster,
//! and finding it (`crate::replica`). Without a cluster all of it but `KEYSLOT` is refused in the
//! words of Redis.
//!
//! ```text
//! client ── GEOSEARCH, READONLY ──> whered, a replica of every primary
//!        └─ writes (MOVED) ───────> the slot's primary
//! ```
//!
//! A node has one id, and one primary. So this server has an id for each shard: its own id, mixed
//! with that of the primary.

use std::fmt::Write as _;
use std::sync::Arc;

use whered_engine::{KeyRole, SLOTS, key_slot};
use whered_replication::cluster::{ClusterNode, Shard, Topology};

use super::{
    Action, Command, Effect, Failure, Flag, NOT_AN_INTEGER, NameKind, NameSpec, OPERATOR, Outcome,
    introspection, number,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");

const LOADING: Failure = Failure::text("LOADING the cluster that is followed is not found yet");

/// The numbered database that clusters have.
const NUMBER: usize = 0;

const CLUSTER_COMMAND: Command =
    Command { flags: &[], group: "cluster", since: "3.0.0", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "cluster",
        arity: -2,
        syntax: "subcommand ...",
        summary: "A container for commands about the cluster that is followed",
        cost: "Depends on the subcommand.",
        action: Action::Subcommands(CLUSTER),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "asking",
        summary: "Changes nothing: no slot is moved to this server",
        action: Action::Run(|session, _, reply| set_reads_replica(session, reply, None)),
        ..CONNECTION_MODE
    },
    Command {
        name: "readonly",
        summary: "Lets a connection to a cluster's replica read followed keys; other keys are MOVED",
        action: Action::Run(|session, _, reply| set_reads_replica(session, reply, Some(true))),
        ..CONNECTION_MODE
    },
    Command {
        name: "readwrite",
        summary: "Ends READONLY",
        action: Action::Run(|session, _, reply| set_reads_replica(session, reply, Some(false))),
        ..CONNECTION_MODE
    },
];

/// How a connection uses a replica of a cluster.
const CONNECTION_MODE: Command = Command { arity: 1, flags: &[Flag::Fast], ..CLUSTER_COMMAND };

const CLUSTER: &[Command] = &[
    Command {
        name: "cluster|countkeysinslot",
        arity: 3,
        syntax: "slot",
        summary: "Returns the number of followed keys of a slot",
        cost: "O(N) with N keys",
        action: Action::Run(|session, args, reply| {
            topology(session)?;
            let slot = integer(args.at(2))?;
            let slot = read_slot(slot).ok_or(Failure::text("ERR Invalid slot"))?;
            reply.count(keys_of_slot(session, slot).count());
            Ok(Effect::Unchanged)
        }),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|getkeysinslot",
        arity: 4,
        names: &[NameSpec::Shown(NameKind::Key)],
        syntax: "slot count",
        summary: "Returns names of followed keys of a slot",
        cost: "O(N) with N keys",
        action: Action::Run(keys_in_slot),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|help",
        summary: "Shows what CLUSTER can do",
        since: "5.0.0",
        action: Action::Run(|session, _, reply| {
            topology(session)?;
            introspection::help("CLUSTER", CLUSTER, reply);
            Ok(Effect::Unchanged)
        }),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|info",
        summary: "Returns figures of the cluster that is followed",
        action: Action::Run(info),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|keyslot",
        arity: 3,
        syntax: "key-name",
        summary: "Returns the slot of a key",
        cost: "O(N) with N bytes",
        action: Action::Run(|_, args, reply| {
            reply.count(usize::from(key_slot(args.at(2))));
            Ok(Effect::Unchanged)
        }),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|myid",
        summary: "Returns this server's id as a replica of the first shard",
        action: Action::Run(|session, _, reply| {
            let topology = topology(session)?;
            let first = topology.shards.first().ok_or(DISABLED)?;
            reply.bulk(OwnNode::of(session).id(&first.primary).as_bytes());
            Ok(Effect::Unchanged)
        }),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|nodes",
        summary: "Returns the followed primaries and this server as a replica of each, in lines",
        cost: "O(N) with N shards",
        action: Action::Run(nodes),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|shards",
        summary: "Returns the shards with their slots, primaries and this server as a replica",
        cost: "O(N) with N shards",
        since: "7.0.0",
        action: Action::Run(shards),
        ..CLUSTER_COMMAND
    },
    Command {
        name: "cluster|slots",
        summary: "Returns the ranges of slots with their primaries and this server as a replica",
        cost: "O(N) with N ranges",
        action: Action::Run(slots),
        ..CLUSTER_COMMAND
    },
];

/// The cluster that is followed.
fn topology(session: &Session) -> Result<Arc<Topology>, Failure> {
    let topology = session.shared.context.replicas.topology().ok_or(DISABLED)?;
    Some(topology).filter(|topology| !topology.shards.is_empty()).ok_or(LOADING)
}

fn set_reads_replica(session: &mut Session, reply: &mut Reply, mode: Option<bool>) -> Outcome {
    topology(session)?;
    session.reads_replica = mode.unwrap_or(session.reads_replica);
    reply.ok();
    Ok(Effect::Unchanged)
}

/// Where a connection that reads a cluster's replica finds a key that is not here: the primary of
/// its slot.
pub(super) fn moved(session: &Session, key: &[u8]) -> Option<Failure> {
    let topology = session.shared.context.replicas.topology().filter(|_| session.reads_replica)?;
    let slot = key_slot(key);
    let primary = &topology.shard_of(slot)?.primary;
    Some(Failure::made(format!("MOVED {slot} {}", primary.endpoint())))
}

/// This server as clients of a connection reach it.
struct OwnNode {
    run_id: String,
    host: String,
    port: u16,
}

impl OwnNode {
    fn of(session: &Session) -> OwnNode {
        let local = &session.client.origin.local;
        let (host, port) = local.rsplit_once(':').unwrap_or((local, ""));
        let host = host.trim_matches(['[', ']']).to_owned();
        let run_id = session.shared.context.run_id.clone();
        OwnNode { run_id, host, port: port.parse().unwrap_or(0) }
    }

    /// Its id as a replica of a primary.
    fn id(&self, primary: &ClusterNode) -> String {
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
        let mixed = self.run_id.bytes().zip(primary.id.bytes());
        // 5: a run id of zeros does not give the id of the primary.
        mixed
            .filter_map(|(one, other)| char::from_digit(digit(one) ^ digit(other) ^ 5, 16))
            .collect()
    }
}

fn integer(text: &[u8]) -> Result<i64, Failure> {
    number::integer(text).ok_or(NOT_AN_INTEGER)
}

fn read_slot(slot: i64) -> Option<u16> {
    u16::try_from(slot).ok().filter(|slot| *slot < SLOTS)
}

fn keys_of_slot(session: &Session, slot: u16) -> impl Iterator<Item = Vec<u8>> {
    let keyspace = session.engine().keyspace();
    let keys = keyspace.keys(NUMBER).into_iter();
    keys.filter(move |key| {
        key_slot(key) == slot && keyspace.role_of(NUMBER, key) == KeyRole::Followed
    })
}

fn keys_in_slot(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    topology(session)?;
    let (slot, count) = (integer(args.at(2))?, integer(args.at(3))?);
    let (Some(slot), Ok(count)) = (read_slot(slot), usize::try_from(count)) else {
        return Err(Failure::text("ERR Invalid slot or number of keys"));
    };
    let shown = keys_of_slot(session, slot).filter(|key| session.user.may_touch(key));
    let keys: Vec<Vec<u8>> = shown.take(count).collect();
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(Effect::Unchanged)
}

fn info(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let topology = topology(session)?;
    let with_slots = || topology.shards.iter().filter(|shard| !shard.slots.is_empty());
    let covered: usize =
        with_slots().flat_map(|shard| &shard.slots).map(ExactSizeIterator::len).sum();
    let failed = with_slots().filter(|shard| !shard.primary.is_online);
    let failed: usize = failed.flat_map(|shard| &shard.slots).map(ExactSizeIterator::len).sum();
    let is_well = covered == usize::from(SLOTS) && failed == 0;
    let state = if is_well { "ok" } else { "fail" };
    let text = format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{covered}\r\ncluster_slots_ok:{}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:{failed}\r\ncluster_known_nodes:{}\r\n\
         cluster_size:{}\r\ncluster_current_epoch:0\r\ncluster_my_epoch:0\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n",
        covered - failed,
        2 * topology.shards.len(),
        with_slots().count()
    );
    reply.verbatim(text.as_bytes());
    Ok(Effect::Unchanged)
}

fn nodes(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let (topology, own) = (topology(session)?, OwnNode::of(session));
    let mut text = String::new();
    // The port of the cluster's bus, by convention.
    let bus = |port: u16| u32::from(port) + 10_000;
    for (index, shard) in topology.shards.iter().enumerate() {
        let ClusterNode { id, host, port, is_online } = &shard.primary;
        let flags = if *is_online { "master" } else { "master,fail" };
        let _ = write!(text, "{id} {host}:{port}@{} {flags} - 0 0 0 connected", bus(*port));
        for slots in &shard.slots {
            let _ = match slots.len() {
                1 => write!(text, " {}", slots.start()),
                _ => write!(text, " {}-{}", slots.start(), slots.end()),
            };
        }
        let flags = if index == 0 { "myself,slave" } else { "slave" };
        let OwnNode { host, port, .. } = &own;
        let (own_id, bus) = (own.id(&shard.primary), bus(*port));
        let _ = write!(text, "\n{own_id} {host}:{port}@{bus} {flags} {id} 0 0 0 connected\n");
    }
    reply.verbatim(text.as_bytes());
    Ok(Effect::Unchanged)
}

fn slots(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let (topology, own) = (topology(session)?, OwnNode::of(session));
    let shards = topology.shards.iter();
    let mut ranges: Vec<_> =
        shards.flat_map(|shard| shard.slots.iter().map(move |slots| (slots, shard))).collect();
    ranges.sort_by_key(|(slots, _)| *slots.start());
    reply.array(ranges.len());
    for (slots, Shard { primary, .. }) in ranges {
        reply.array(4);
        reply.count(usize::from(*slots.start()));
        reply.count(usize::from(*slots.end()));
        let own_id = own.id(primary);
        for (host, port, id) in
            [(&primary.host, primary.port, &primary.id), (&own.host, own.port, &own_id)]
        {
            reply.array(4);
            reply.bulk(host.as_bytes());
            reply.count(usize::from(port));
            reply.bulk(id.as_bytes());
            reply.array(0);
        }
    }
    Ok(Effect::Unchanged)
}

fn shards(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let (topology, own) = (topology(session)?, OwnNode::of(session));
    let links = session.shared.context.replicas.links();
    reply.array(topology.shards.len());
    for Shard { slots, primary, .. } in &topology.shards {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * slots.len());
        for slot in slots.iter().flat_map(|slots| [slots.start(), slots.end()]) {
            reply.count(usize::from(*slot));
        }
        reply.bulk(b"nodes");
        reply.array(2);
        let place = primary.endpoint().to_string();
        let link = links.iter().find(|link| link.primary() == place);
        let offset = link.map_or(-1, |link| link.offset());
        let health = if primary.is_online { "online" } else { "failed" };
        write_node(reply, [&primary.id, &primary.host, "master", health], primary.port, offset);
        let health = if offset >= 0 { "online" } else { "loading" };
        write_node(reply, [&own.id(primary), &own.host, "replica", health], own.port, offset);
    }
    Ok(Effect::Unchanged)
}

fn write_node(reply: &mut Reply, [id, host, role, health]: [&str; 4], port: u16, offset: i64) {
    reply.map(7);
    for (field, value) in
        [("id", id), ("ip", host), ("endpoint", host), ("role", role), ("health", health)]
    {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("port", i64::from(port)), ("replication-offset", offset.max(0))] {
        reply.bulk(field.as_bytes());
        reply.integer(value);
    }
}
