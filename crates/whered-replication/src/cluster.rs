//! The topology of a Redis or Valkey cluster: its shards, their primaries and their slots.
//!
//! For: finding out whom to follow. Not for: following, and not for slots of keys.
//!
//! ```text
//! CLUSTER SHARDS (Redis 7, Valkey) ─┬─> Topology ─> Shard ─> slots, primary, replicas
//! CLUSTER NODES  (before)          ─┘
//! ```
//!
//! A node may say anything: what is no address, no slot or no id is an error of one line, and a
//! slot has one shard. A node without an address, or one that is only being met, is left out.
//!
//! Source: the commands' pages in Redis's documentation, `cluster.c` of Redis 7.0.15.

use std::ops::RangeInclusive;

use crate::address::Endpoint;
use crate::connection::Connection;
use crate::error::{LinkError, one_line};
use crate::reply::Reply;

/// How many slots a cluster has.
const SLOTS: u16 = 16384;

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterNode {
    /// Its id, 40 hexadecimal digits.
    pub id: String,
    /// The host that it announces: a name or an address.
    pub host: String,
    /// Its port, that of TLS if it was asked over TLS.
    pub port: u16,
    /// Whether the cluster thinks that it is alive.
    pub is_online: bool,
}

impl ClusterNode {
    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Tcp(self.host.clone(), self.port)
    }
}

/// A primary with its slots and its replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// The slots, ascending.
    pub slots: Vec<RangeInclusive<u16>>,
    /// The primary.
    pub primary: ClusterNode,
    /// Its replicas.
    pub replicas: Vec<ClusterNode>,
}

/// All shards of a cluster: those that have slots, and those whose primary is alive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Topology {
    /// The shards, by their primaries' ids.
    pub shards: Vec<Shard>,
}

/// How the node was reached that tells the topology: what it leaves out is that.
#[derive(Clone, Copy, Debug)]
struct Informant<'a> {
    host: &'a str,
    over_tls: bool,
}

impl Topology {
    /// Asks a node of the cluster, which was reached at this host.
    ///
    /// # Errors
    /// The node has gone, is none of a cluster, does not answer to this user, or says something
    /// that no cluster is.
    pub fn ask(
        connection: &mut Connection,
        host: &str,
        over_tls: bool,
    ) -> Result<Topology, LinkError> {
        let informant = Informant { host, over_tls };
        let shards = connection.request(&["CLUSTER", "SHARDS"])?;
        let topology = match &shards {
            // A server of before Redis 7, or a user without this right.
            Reply::Error(_) => match connection.request(&["CLUSTER", "NODES"])? {
                Reply::Error(error) => return Err(refused(connection.name(), &error)),
                nodes => Topology::of_nodes(&nodes, informant),
            },
            shards => Topology::of_shards(shards, informant),
        };
        topology.map_err(|why| LinkError::new(connection.name(), why))
    }

    /// The slot's shard.
    #[must_use]
    pub fn shard_of(&self, slot: u16) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.slots.iter().any(|slots| slots.contains(&slot)))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &ClusterNode> {
        self.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas))
    }

    fn of_shards(reply: &Reply, informant: Informant<'_>) -> Result<Topology, String> {
        let shards = reply.array().ok_or("CLUSTER SHARDS gives no list of shards")?;
        let mut topology = Topology::default();
        for shard in shards {
            let slots = shard.field("slots").and_then(Reply::array);
            let nodes = shard.field("nodes").and_then(Reply::array);
            let (Some(slots), Some(nodes)) = (slots, nodes) else {
                return Err("a shard of CLUSTER SHARDS has no slots or nodes".to_owned());
            };
            let slots = slots_of_pairs(slots)?;
            let (mut primaries, mut replicas) = (Vec::new(), Vec::new());
            for node in nodes {
                let Some((node, is_primary)) = node_of_shard(node, informant)? else { continue };
                if is_primary { primaries.push(node) } else { replicas.push(node) }
            }
            // One that has failed may still stand next to its successor.
            primaries.sort_by_key(|node| !node.is_online);
            if let Some(primary) = primaries.into_iter().next() {
                topology.shards.push(Shard { slots, primary, replicas });
            }
        }
        topology.checked()
    }

    fn of_nodes(reply: &Reply, informant: Informant<'_>) -> Result<Topology, String> {
        let text = reply.text().ok_or("CLUSTER NODES gives no text")?;
        let mut topology = Topology::default();
        let mut replicas = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match NodeLine::read(line, informant)? {
                None => {}
                Some(NodeLine { node, primary: None, slots }) => {
                    topology.shards.push(Shard { slots, primary: node, replicas: Vec::new() });
                }
                Some(NodeLine { node, primary: Some(id), .. }) => replicas.push((id, node)),
            }
        }
        for (id, node) in replicas {
            let shard = topology.shards.iter_mut().find(|shard| shard.primary.id == id);
            shard.into_iter().for_each(|shard| shard.replicas.push(node.clone()));
        }
        topology.checked()
    }

    /// Leaves out what is dead and has nothing, and makes sure that a slot has one shard.
    fn checked(mut self) -> Result<Topology, String> {
        self.shards.retain(|shard| !shard.slots.is_empty() || shard.primary.is_online);
        self.shards.sort_by(|one, other| one.primary.id.cmp(&other.primary.id));
        let mut owned = vec![false; usize::from(SLOTS)];
        for shard in &mut self.shards {
            shard.slots.sort_by_key(|slots| *slots.start());
            for slot in shard.slots.iter().cloned().flatten() {
                if std::mem::replace(&mut owned[usize::from(slot)], true) {
                    return Err(format!("two shards have slot {slot}"));
                }
            }
        }
        let ids = self.shards.windows(2).find(|pair| pair[0].primary.id == pair[1].primary.id);
        match ids {
            Some(pair) => Err(format!("two shards have the primary {}", pair[0].primary.id)),
            None => Ok(self),
        }
    }
}

/// Whether the cluster is well as far as this node knows: one that was cut off from the others says
/// that it is not, and what it knows may be old.
///
/// # Errors
/// As [`Topology::ask`].
pub fn is_cluster_well(connection: &mut Connection) -> Result<bool, LinkError> {
    Ok(match connection.request(&["CLUSTER", "INFO"])? {
        // A user without this right: the topology is taken as it is.
        Reply::Error(error) if error.starts_with("NOPERM") => true,
        Reply::Error(error) => return Err(refused(connection.name(), &error)),
        info => info.text().is_some_and(|info| info.lines().any(|line| line == "cluster_state:ok")),
    })
}

fn refused(name: &str, error: &str) -> LinkError {
    let allowed = match error.starts_with("NOPERM") {
        true => "; allowed: a user with +cluster|shards +cluster|nodes +cluster|info",
        false => "",
    };
    LinkError::refusal(name, format!("tells no topology ({error}){allowed}"))
}

fn read_id(text: &str) -> Result<String, String> {
    match text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_owned()),
        false => Err(format!("'{}' is no id of a node", one_line(text, 60))),
    }
}

fn read_port(port: i64) -> Result<u16, String> {
    u16::try_from(port).map_err(|_| format!("{port} is no port of a node"))
}

/// A host as an address of a link has it.
fn read_host(text: &str) -> Result<String, String> {
    let is_host = text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte));
    match is_host {
        true => Ok(text.to_owned()),
        false => Err(format!("'{}' is no host of a node", one_line(text, 60))),
    }
}

/// First and last slots in turn.
fn slots_of_pairs(slots: &[Reply]) -> Result<Vec<RangeInclusive<u16>>, String> {
    let pairs = slots.chunks(2).map(|pair| match pair {
        [first, last] => range_of(first.integer(), last.integer()),
        _ => Err("a range of slots has no end".to_owned()),
    });
    pairs.collect()
}

fn range_of(first: Option<i64>, last: Option<i64>) -> Result<RangeInclusive<u16>, String> {
    let slot = |slot: Option<i64>| u16::try_from(slot?).ok().filter(|slot| *slot < SLOTS);
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("a range of slots is wrong; allowed: from 0 to {}", SLOTS - 1)),
    }
}

/// A node of `CLUSTER SHARDS`, and whether it is a primary; `None` for one that has no address.
fn node_of_shard(
    reply: &Reply,
    informant: Informant<'_>,
) -> Result<Option<(ClusterNode, bool)>, String> {
    let text = |key: &str| reply.field(key).and_then(Reply::text);
    let id = read_id(text("id").ok_or("a node of CLUSTER SHARDS has no id")?)?;
    let ports = ["tls-port", "port"].map(|key| reply.field(key).and_then(Reply::integer));
    let [tls_port, plain_port] = ports.map(|port| port.filter(|port| *port != 0));
    let port = if informant.over_tls { tls_port.or(plain_port) } else { plain_port.or(tls_port) };
    let Some(port) = port else { return Ok(None) };
    // Without an endpoint it is where it was asked; `?` says that it does not know its own name.
    let host = match reply.field("endpoint") {
        Some(Reply::Null) => informant.host,
        _ => {
            let named = |key: &str| text(key).filter(|host| !host.is_empty() && *host != "?");
            match named("endpoint").or_else(|| named("ip")) {
                Some(host) => host,
                None => return Ok(None),
            }
        }
    };
    let node = ClusterNode {
        id,
        host: read_host(host)?,
        port: read_port(port)?,
        is_online: !text("health").unwrap_or_default().starts_with("fail"),
    };
    Ok(Some((node, text("role") == Some("master"))))
}

/// A line of `CLUSTER NODES`.
struct NodeLine {
    node: ClusterNode,
    /// The id of its primary, if it is a replica.
    primary: Option<String>,
    slots: Vec<RangeInclusive<u16>>,
}

impl NodeLine {
    /// Reads `id host:port@bus,hostname,... flags primary ping pong epoch state slot ...`; `None`
    /// for a node that cannot be reached or does not belong to the cluster yet.
    fn read(line: &str, informant: Informant<'_>) -> Result<Option<NodeLine>, String> {
        let mut words = line.split_whitespace();
        let (Some(id), Some(address), Some(flags), Some(primary)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("'{}' is no line of CLUSTER NODES", one_line(line, 60)));
        };
        let has = |flag: &str| flags.split(',').any(|word| word == flag);
        if has("noaddr") || has("handshake") {
            return Ok(None);
        }
        let (address, names) = address.split_once(',').unwrap_or((address, ""));
        let address = address.split_once('@').map_or(address, |(address, _)| address);
        let wrong = || format!("'{}' is no address of a node", one_line(address, 60));
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse::<i64>().map_err(|_| wrong())?;
        if port == 0 {
            return Ok(None);
        }
        let name = names.split(',').next().unwrap_or_default();
        let host = [host.trim_matches(['[', ']']), name].into_iter().find(|host| !host.is_empty());
        let node = ClusterNode {
            id: read_id(id)?,
            host: read_host(host.unwrap_or(informant.host))?,
            port: read_port(port)?,
            is_online: !has("fail"),
        };
        if !has("master") {
            let primary = Some(primary.to_owned()).filter(|primary| primary != "-");
            return Ok(primary.map(|primary| NodeLine {
                node,
                primary: Some(primary),
                slots: Vec::new(),
            }));
        }
        // Behind ping, pong, epoch and state; a slot in brackets is being moved.
        let slots = words.skip(4).filter(|slots| !slots.starts_with('['));
        let slots = slots.map(|slots| {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            range_of(first.parse().ok(), last.parse().ok())
        });
        let slots = slots.collect::<Result<Vec<_>, String>>()?;
        Ok(Some(NodeLine { node, primary: None, slots }))
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
