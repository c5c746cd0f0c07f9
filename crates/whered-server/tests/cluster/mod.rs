//! A cluster of six redis-servers for tests: three primaries with a replica each, on loopback.
//!
//! Not for: what is asked of it (the tests). Processes end with the test, by their own ids.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::client::{Client, Value, request};

/// How many primaries there are; the replica of `n` is `n + 3`.
pub(crate) const PRIMARIES: usize = 3;

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A running redis-server.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) id: String,
    bus: u16,
    child: Child,
    is_running: bool,
}

impl Node {
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// Stops the process, or lets it go on. Others take it for dead after 1.5 s.
    pub(crate) fn pause(&self, is_paused: bool) {
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process takes a signal");
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_running = false;
    }
}

/// The cluster. Dropping it ends its processes and removes their directory.
pub(crate) struct TestCluster {
    pub(crate) nodes: Vec<Node>,
    directory: PathBuf,
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("it has an address").port()
}

/// Starts redis-server with options; `None` when it is not installed.
pub(crate) fn spawn(directory: &PathBuf, arguments: &[&str]) -> Option<Child> {
    fs::create_dir_all(directory).expect("a directory can be made");
    let mut command = Command::new("redis-server");
    command.args(arguments).arg("--dir").arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

/// Waits until a server answers.
pub(crate) fn answers(address: SocketAddr) {
    eventually("a server's start", || {
        std::net::TcpStream::connect(address).is_ok()
            && Client::connect(address).ask(&["PING"]) == "+PONG\r\n"
    });
}

impl TestCluster {
    /// Starts six servers and makes a cluster of them; `None` without redis-server.
    pub(crate) fn start(name: &str) -> Option<TestCluster> {
        let directory = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        let mut cluster = TestCluster { nodes: Vec::new(), directory };
        for number in 0..2 * PRIMARIES {
            let (port, bus) = (free_port(), free_port());
            let folder = cluster.directory.join(number.to_string());
            let child = spawn(
                &folder,
                &[
                    "--port",
                    &port.to_string(),
                    "--cluster-port",
                    &bus.to_string(),
                    "--bind",
                    "127.0.0.1",
                    "--cluster-enabled",
                    "yes",
                    "--cluster-node-timeout",
                    "1500",
                    "--save",
                    "",
                    "--repl-diskless-sync-delay",
                    "0",
                    "--cluster-allow-replica-migration",
                    "no",
                    "--enable-debug-command",
                    "local",
                ],
            )?;
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            cluster.nodes.push(Node { address, id: String::new(), bus, child, is_running: true });
            answers(address);
        }
        cluster.join();
        Some(cluster)
    }

    fn join(&mut self) {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let mut client = node.client();
            let id = client.ask(&["CLUSTER", "MYID"]);
            node.id = id.lines().nth(1).expect("an id").to_owned();
            let epoch = (number + 1).to_string();
            assert_eq!(client.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]), "+OK\r\n");
        }
        let mut first = self.nodes[0].client();
        for node in &self.nodes[1..] {
            let words = ["CLUSTER", "MEET", "127.0.0.1", &node.port(), &node.bus.to_string()];
            assert_eq!(first.ask(&words), "+OK\r\n");
        }
        eventually("a cluster of six", || {
            self.nodes.iter().all(|node| info(node, "cluster_known_nodes") == "6")
        });
        for (number, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let [first, end] = [number, number + 1].map(|part| part * 16384 / PRIMARIES);
            let words = ["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()];
            assert_eq!(node.client().ask(&words), "+OK\r\n");
        }
        for number in 0..PRIMARIES {
            let (id, replica) = (self.nodes[number].id.clone(), &self.nodes[number + PRIMARIES]);
            eventually("a replica of a primary", || {
                replica.client().ask(&["CLUSTER", "REPLICATE", &id]) == "+OK\r\n"
            });
        }
        eventually("a cluster that is well", || {
            let is_well = |node: &Node| info(node, "cluster_state") == "ok";
            let is_linked = |node: &Node| {
                node.client().ask(&["INFO", "replication"]).contains("master_link_status:up")
            };
            self.nodes.iter().all(is_well) && self.nodes[PRIMARIES..].iter().all(is_linked)
        });
    }

    /// The nodes that are primaries now, as the first one that runs sees it, by their ports.
    pub(crate) fn primaries(&self) -> Vec<&Node> {
        let running = self.nodes.iter().find(|node| node.is_running).expect("a node runs");
        let lines = text(running.client(), &["CLUSTER", "NODES"]);
        let is_primary = |node: &&Node| {
            let line = lines.lines().find(|line| line.starts_with(&node.id));
            let flags = line.and_then(|line| line.split(' ').nth(2)).unwrap_or_default();
            flags.contains("master") && !flags.split(',').any(|flag| flag == "fail")
        };
        self.nodes.iter().filter(|node| node.is_running).filter(is_primary).collect()
    }

    /// Every key of all primaries that begins so, with its members and scores.
    pub(crate) fn sorted_sets(&self, pattern: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut sets = BTreeMap::new();
        for node in self.primaries() {
            let mut client = node.client();
            for key in keys(&mut client, pattern) {
                let members = members(&mut client, &key);
                // In the middle of a move a key may be at two nodes or gone.
                if !members.is_empty() {
                    sets.insert(key, members);
                }
            }
        }
        sets
    }

    /// Moves a slot with its keys, as `redis-cli --cluster reshard` does.
    pub(crate) fn move_slot(&self, slot: u16, from: &Node, to: &Node) {
        let slot = slot.to_string();
        let (mut source, mut target) = (from.client(), to.client());
        let importing = target.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id]);
        let migrating = source.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id]);
        assert_eq!([importing, migrating], ["+OK\r\n", "+OK\r\n"]);
        loop {
            source.send(&request(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"10"]));
            let keys = bulks(source.reply().value);
            if keys.is_empty() {
                break;
            }
            let port = to.port();
            let mut words: Vec<&[u8]> =
                vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
            words.extend(keys.iter().map(Vec::as_slice));
            source.send(&request(&words));
            let reply = source.reply();
            assert!(matches!(reply.value, Value::Simple(_)), "{reply:?}");
        }
        let primaries = self.primaries();
        for node in [to, from].into_iter().chain(primaries) {
            let done = node.client().ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to.id]);
            assert_eq!(done, "+OK\r\n");
        }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A text that answers a request.
pub(crate) fn text(mut client: Client, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.send(&request(&words));
    match client.reply().value {
        Value::Bulk(text) | Value::Verbatim(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

fn info(node: &Node, field: &str) -> String {
    let info = text(node.client(), &["CLUSTER", "INFO"]);
    let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value).unwrap_or_default()
}

fn bulks(value: Value) -> Vec<Vec<u8>> {
    let Value::Array(elements) = value else { return Vec::new() };
    let bulk = |element| match element {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    };
    elements.into_iter().filter_map(bulk).collect()
}

/// The keys that match a pattern; one that is told twice comes twice.
pub(crate) fn keys(client: &mut Client, pattern: &str) -> Vec<Vec<u8>> {
    client.send(&request(&[b"KEYS", pattern.as_bytes()]));
    bulks(client.reply().value)
}

/// Members and scores as one text; empty without the key.
pub(crate) fn members(client: &mut Client, key: &[u8]) -> Vec<u8> {
    client.send(&request(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
    bulks(client.reply().value).join(&b' ')
}
