//! Topologies as Redis 7.0.15 tells them, and as nobody should.

use super::*;
use crate::reply::tests::reply_of;

const ID: [&str; 4] = [
    "64a69f68656c2e5f5513e0251b8c025aa886b526",
    "7565845e776b0f24661f9c4d19ecad43feea0e2d",
    "6390afabba640c3ee3e8d60e01d0e3b7fd81254d",
    "ab048b5435ba20f1ba6690f1e45215549f99c41f",
];

const INFORMANT: Informant<'_> = Informant { host: "seed.example", over_tls: false };

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A node of `CLUSTER SHARDS`, of pairs; a value that begins with `:` or `$` is not a text.
fn node(fields: &[(&str, &str)]) -> String {
    let mut node = format!("*{}\r\n", 2 * fields.len());
    for (key, value) in fields {
        node += &bulk(key);
        node += &if value.starts_with([':', '$']) { format!("{value}\r\n") } else { bulk(value) };
    }
    node
}

fn usual(id: &str, port: &str, role: &str, health: &str) -> String {
    let [ip, endpoint] = ["ip", "endpoint"].map(|key| (key, "127.0.0.1"));
    let offset = ("replication-offset", ":14");
    node(&[("id", id), ("port", port), ip, endpoint, ("role", role), offset, ("health", health)])
}

/// A shard of ranges and nodes.
fn shard(slots: &[u16], nodes: &[String]) -> String {
    let slots: String = slots.iter().map(|slot| format!(":{slot}\r\n")).collect();
    let count = slots.lines().count();
    let (name, nodes_name) = (bulk("slots"), bulk("nodes"));
    format!("*4\r\n{name}*{count}\r\n{slots}{nodes_name}*{}\r\n{}", nodes.len(), nodes.concat())
}

fn of_shards(shards: &[String]) -> Result<Topology, String> {
    let bytes = format!("*{}\r\n{}", shards.len(), shards.concat());
    Topology::of_shards(&reply_of(bytes.as_bytes()), INFORMANT)
}

fn of_nodes(lines: &str) -> Result<Topology, String> {
    Topology::of_nodes(&Reply::Text(lines.as_bytes().to_vec()), INFORMANT)
}

fn addresses(topology: &Topology) -> Vec<String> {
    topology.nodes().map(|node| node.endpoint().to_string()).collect()
}

#[test]
fn both_forms_of_one_cluster_give_one_topology() {
    let shards = of_shards(&[
        shard(
            &[10923, 16383, 5, 5],
            &[
                usual(ID[0], ":17103", "master", "online"),
                usual(ID[1], ":17104", "replica", "fail"),
            ],
        ),
        shard(&[6, 10922], &[usual(ID[2], ":17102", "master", "online")]),
        shard(&[], &[usual(ID[3], ":17101", "master", "online")]),
    ]);
    let nodes = of_nodes(&format!(
        "{} 127.0.0.1:17103@27103 master - 0 1795848255055 3 connected 10923-16383 5 [77->-{}]\n\
         {} 127.0.0.1:17102@27102 myself,master - 0 1795848255000 2 connected 6-10922\n\
         {} 127.0.0.1:17104@27104,host.example slave,fail {} 0 1795848254955 3 connected\n\
         {} 127.0.0.1:17101@27101,,tls-port=0,shard-id=x master,fail? - 0 0 1 connected\n",
        ID[0], ID[2], ID[2], ID[1], ID[0], ID[3]
    ));
    let topology = shards.expect("a topology");
    assert_eq!(nodes, Ok(topology.clone()));
    let ids: Vec<_> = topology.shards.iter().map(|shard| &shard.primary.id[..]).collect();
    assert_eq!(ids, [ID[2], ID[0], ID[3]]);
    assert_eq!(topology.shards[1].slots, [5..=5, 10923..=16383]);
    assert!(topology.shards[1].primary.is_online && !topology.shards[1].replicas[0].is_online);
    assert_eq!(topology.shard_of(5).map(|shard| shard.primary.port), Some(17103));
    assert_eq!(topology.shard_of(0), None);
}

#[test]
fn after_a_failover_the_living_primary_counts_and_the_dead_one_without_slots_is_left_out() {
    let dead = usual(ID[0], ":1", "master", "failed");
    let alive = usual(ID[1], ":2", "master", "online");
    // Valkey has both in one shard, Redis 7.0 each in its own.
    let one = of_shards(&[shard(&[0, 16383], &[dead.clone(), alive.clone()])]);
    let two = of_shards(&[shard(&[], &[dead]), shard(&[0, 16383], &[alive])]);
    for topology in [one, two] {
        let topology = topology.expect("a topology");
        assert_eq!(topology.shards.len(), 1);
        assert_eq!(topology.shards[0].primary.id, ID[1]);
    }
    let without_successor =
        of_shards(&[shard(&[0, 16383], &[usual(ID[0], ":1", "master", "failed")])]);
    assert_eq!(without_successor.expect("a topology").shards.len(), 1);
}

#[test]
fn announced_names_ports_of_tls_and_missing_endpoints_count() {
    let fields = |endpoint| {
        [
            ("id", ID[0]),
            ("port", ":6379"),
            ("tls-port", ":6380"),
            ("ip", "10.0.0.1"),
            ("endpoint", endpoint),
            ("role", "master"),
            ("health", "online"),
        ]
    };
    let found = |endpoint, over_tls| {
        let bytes = format!("*1\r\n{}", shard(&[0, 1], &[node(&fields(endpoint))]));
        let informant = Informant { over_tls, ..INFORMANT };
        let topology = Topology::of_shards(&reply_of(bytes.as_bytes()), informant);
        addresses(&topology.expect("a topology"))
    };
    assert_eq!(found("node1.example", false), ["node1.example:6379"]);
    assert_eq!(found("node1.example", true), ["node1.example:6380"]);
    assert_eq!(found("$-1", false), ["seed.example:6379"]);
    assert_eq!(found("?", false), ["10.0.0.1:6379"]);
    assert_eq!(found("", true), ["10.0.0.1:6380"]);
    let line = |address: &str| {
        let lines = format!("{} {address} master - 0 0 1 connected 0-1", ID[0]);
        addresses(&of_nodes(&lines).expect("a topology"))
    };
    assert_eq!(line("10.0.0.1:7000@17000"), ["10.0.0.1:7000"]);
    assert_eq!(line("10.0.0.1:7000"), ["10.0.0.1:7000"]);
    assert_eq!(line("fd00::1:7000@17000"), ["[fd00::1]:7000"]);
    assert_eq!(line(":7000@17000,named.example"), ["named.example:7000"]);
    assert_eq!(line(":7000@17000"), ["seed.example:7000"]);
    let met = format!("{} :0@0 master,noaddr - 0 0 1 disconnected\n", ID[0])
        + &format!("{} 10.0.0.1:7000@17000 handshake - 0 0 0 connected\n", ID[1]);
    assert_eq!(of_nodes(&met), Ok(Topology::default()));
}

#[test]
fn what_no_cluster_says_is_one_line_and_no_topology() {
    let one = |slots: &[u16], fields: &[(&str, &str)]| of_shards(&[shard(slots, &[node(fields)])]);
    let named =
        |id| [("id", id), ("port", ":1"), ("ip", "a"), ("role", "master"), ("endpoint", "a")];
    let alive = |id: &str| usual(id, ":1", "master", "online");
    let wrong = [
        Topology::of_shards(&Reply::Null, INFORMANT),
        of_shards(&["+OK\r\n".to_owned()]),
        one(&[0], &named(ID[0])),
        one(&[2, 1], &named(ID[0])),
        one(&[0, 16384], &named(ID[0])),
        one(&[0, 1], &named("64a6")),
        one(&[0, 1], &named(&ID[0].replace('6', "x"))),
        one(&[0, 1], &[("id", ID[0]), ("port", ":65536"), ("ip", "a"), ("role", "master")]),
        one(&[0, 1], &[("id", ID[0]), ("port", ":1"), ("ip", "a b\x01"), ("role", "master")]),
        of_shards(&[shard(&[0, 9], &[alive(ID[0])]), shard(&[9, 10], &[alive(ID[1])])]),
        of_shards(&[shard(&[0, 9], &[alive(ID[0])]), shard(&[10, 11], &[alive(ID[0])])]),
        Topology::of_nodes(&Reply::Integer(1), INFORMANT),
        of_nodes("x"),
        of_nodes(&format!("{} 10.0.0.1 master - 0 0 1 connected", ID[0])),
        of_nodes(&format!("{} 10.0.0.1:x@1 master - 0 0 1 connected", ID[0])),
        of_nodes(&format!("{} 10.0.0.1:1@1 master - 0 0 1 connected x", ID[0])),
        of_nodes(&format!("{} 10.0.0.1:1@1 master - 0 0 1 connected 7-99999", ID[0])),
        of_nodes(&format!("{} 10.0.0.1:70000@1 master - 0 0 1 connected", ID[0])),
    ];
    for (index, topology) in wrong.into_iter().enumerate() {
        let why = topology.expect_err(&format!("case {index}"));
        assert!(!why.contains(char::is_control) && why.len() < 200, "{why}");
    }
}
