//! A cluster of real redis-servers that is followed: through failovers, moves of slots and restarts
//! nothing is missing, doubled or stale after it has settled.
//!
//! Without redis-server the tests are skipped, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod cluster;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cluster::{PRIMARIES, TestCluster, answers, eventually, free_port, keys, members, spawn, text};
use support::client::{Client, Value, request};
use whered_engine::key_slot;
use whered_server::{Config, Server};

/// A server that follows, with its data in a directory of its own.
struct Follower {
    server: Option<Server>,
    directory: PathBuf,
    replica: String,
}

impl Follower {
    fn start(name: &str, of: &str) -> Follower {
        let name = format!("whered-{name}-follower-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let replica = format!("[[replica]]\nof = \"{of}\"\nmatch = [\"fleet:*\"]\n");
        let mut follower = Follower { server: None, directory, replica };
        follower.restart();
        follower
    }

    fn restart(&mut self) {
        self.stop();
        fs::create_dir_all(&self.directory).expect("a directory can be made");
        let text = format!(
            "data_dir = \"{}\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n{}",
            self.directory.join("data").display(),
            self.replica
        );
        let config = Config::from_toml(&text, &self.directory.join("whered.toml"));
        let server = Server::start(config.expect("it is right")).expect("it starts");
        self.server = Some(server);
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().expect("it stops");
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.server.as_ref().expect("it runs").resp_addresses()[0])
    }

    /// What is followed, as `TestCluster::sorted_sets` has it.
    fn sorted_sets(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let mut client = self.client();
        let mut sets = BTreeMap::new();
        for key in keys(&mut client, "fleet:*") {
            let members = members(&mut client, &key);
            if sets.insert(key.clone(), members).is_some() {
                return Err(format!("{} comes twice", key.escape_ascii()));
            }
        }
        Ok(sets)
    }

    /// The sum of a figure over all links.
    fn sum(&self, figure: &str) -> u64 {
        let info = text(self.client(), &["INFO", "replication"]);
        let links = info.lines().filter(|line| line.starts_with("whered_replica"));
        let value = |line: &str| {
            let fields = line.split_once(':')?.1.split(',');
            fields
                .filter_map(|field| field.split_once('='))
                .find(|(name, _)| *name == figure)
                .and_then(|(_, value)| value.parse::<u64>().ok())
        };
        links.filter_map(value).sum()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Writes to a cluster until it is ended.
struct Load {
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Load {
    fn start(nodes: Vec<SocketAddr>) -> Load {
        let (is_over, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ends, counts) = (Arc::clone(&is_over), Arc::clone(&written));
        let thread = std::thread::spawn(move || {
            let mut state = 49_u64;
            while !ends.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let random = state >> 33;
                let (key, member) =
                    (format!("fleet:{}", random % 200), (random / 200 % 50).to_string());
                let score = (random % 997).to_string();
                let words: Vec<&str> = match random % 16 {
                    0 => vec!["DEL", &key],
                    1 => vec!["ZREM", &key, &member],
                    2 => vec!["GEOADD", &key, "8.68", "50.11", &member],
                    _ => vec!["ZADD", &key, &score, &member],
                };
                if write(&nodes, &words) {
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Load { is_over, written, thread }
    }

    /// Waits until so many more writes were taken.
    fn wait_for(&self, more: u64) {
        let goal = self.written.load(Ordering::Relaxed) + more;
        eventually("more writes", || self.written.load(Ordering::Relaxed) >= goal);
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the writer has not failed");
    }
}

/// Sends a write to the node that takes it; false when none does at the moment.
fn write(nodes: &[SocketAddr], words: &[&str]) -> bool {
    let parts: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut address = nodes[usize::from(key_slot(parts[1])) % nodes.len()];
    let mut is_asking = false;
    for _ in 0..4 {
        let line = exchange(address, &parts, is_asking)
            .or_else(|_| nodes.iter().find_map(|it| exchange(*it, &parts, false).ok()).ok_or(()));
        let Ok(line) = line else { return false };
        let mut moved = line.trim_end().split(' ');
        is_asking = match moved.next() {
            Some("-ASK") => true,
            Some("-MOVED") => false,
            first => return first.is_some_and(|first| first.starts_with(':')),
        };
        address = moved.nth(1).and_then(|text| text.parse().ok()).expect("an address");
    }
    false
}

/// Sends a write, and gives the line that answers; the node may be killed meanwhile.
fn exchange(address: SocketAddr, words: &[&[u8]], is_asking: bool) -> Result<String, ()> {
    let exchange = || -> io::Result<String> {
        let mut stream = BufReader::new(TcpStream::connect(address)?);
        stream.get_mut().set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut bytes = if is_asking { request(&[b"ASKING"]) } else { Vec::new() };
        bytes.extend(request(words));
        stream.get_mut().write_all(&bytes)?;
        let mut line = String::new();
        for _ in 0..=usize::from(is_asking) {
            line.clear();
            stream.read_line(&mut line)?;
        }
        Ok(line)
    };
    exchange().ok().filter(|line| line.ends_with('\n')).ok_or(())
}

/// Waits until the follower has what the cluster has.
fn equal(what: &str, follower: &Follower, cluster: &TestCluster) {
    let mut difference = String::new();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let theirs = cluster.sorted_sets("fleet:*");
        match follower.sorted_sets() {
            Ok(ours) if ours == theirs => return,
            Ok(ours) => {
                let missing = theirs.keys().filter(|key| !ours.contains_key(*key));
                let stale = ours.keys().filter(|key| !theirs.contains_key(*key));
                let other = ours
                    .iter()
                    .filter(|(key, value)| theirs.get(*key).is_some_and(|theirs| theirs != *value));
                let shown = |key: &Vec<u8>| key.escape_ascii().to_string();
                difference = format!(
                    "missing {:?}, stale {:?}, different {:?}",
                    missing.map(shown).collect::<Vec<_>>(),
                    stale.map(shown).collect::<Vec<_>>(),
                    other.map(|(key, _)| shown(key)).collect::<Vec<_>>()
                );
            }
            Err(why) => difference = why,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what}: {difference}\n{}", text(follower.client(), &["INFO", "replication"]));
}

fn skip() {
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    let text = "redis-server is not installed (package redis-server)";
    assert!(!required.split(',').any(|word| word == "peers"), "{text}");
    println!("skipped: {text}");
}

#[test]
fn a_cluster_that_is_not_found_yet_is_loading_and_there_is_one() {
    let nobody = free_port();
    let follower = Follower::start("nobody", &format!("cluster://127.0.0.1:{nobody}"));
    let mut client = follower.client();
    assert!(client.ask(&["CLUSTER", "SLOTS"]).starts_with("-LOADING "));
    assert!(client.ask(&["ZCARD", "fleet:1"]).starts_with("-LOADING "));
    assert!(client.ask(&["ZADD", "fleet:1", "1", "a"]).starts_with("-READONLY "));
    assert!(text(follower.client(), &["INFO", "cluster"]).contains("cluster_enabled:1"));
    assert_eq!(client.ask(&["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    assert_eq!(client.ask(&["ZADD", "fleet:1", "1", "a"]), ":1\r\n");
}

/// The slots of keys that a node has.
fn slots_with_keys(node: &cluster::Node) -> Vec<u16> {
    let mut slots: Vec<u16> =
        keys(&mut node.client(), "fleet:*").iter().map(|key| key_slot(key)).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

#[test]
fn a_cluster_is_followed_through_failovers_moved_slots_and_restarts() {
    let Some(mut cluster) = TestCluster::start("cluster") else { return skip() };
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.address).collect();
    let load = Load::start(addresses.clone());
    load.wait_for(500);
    let seeds: Vec<String> = addresses[..2].iter().map(SocketAddr::to_string).collect();
    let mut follower = Follower::start("cluster", &format!("cluster://{}", seeds.join(",")));
    eventually("three dumps", || follower.sum("full_syncs") == 3);

    // A primary is killed while it is written to.
    cluster.nodes[0].kill();
    let promoted = cluster.nodes[PRIMARIES].id.clone();
    eventually("a failover", || cluster.primaries().iter().any(|node| node.id == promoted));
    load.wait_for(500);
    eventually("the link moved", || follower.sum("partial_syncs") >= 1);

    // Slots are moved while they are written to, and some of them back.
    for round in 0..2 {
        let primaries = cluster.primaries();
        let (from, to) = if round == 0 { (0, 1) } else { (1, 0) };
        let (from, to) = (primaries[from], primaries[to]);
        for slot in slots_with_keys(from).into_iter().take(20 / (round + 1)) {
            cluster.move_slot(slot, from, to);
        }
        load.wait_for(200);
    }
    load.end();
    equal("after a failover and moved slots", &follower, &cluster);
    assert_eq!(follower.sum("full_syncs"), 3, "the promoted replica went on with the history");

    // Another failover while nobody follows.
    follower.stop();
    assert_eq!(cluster.nodes[1 + PRIMARIES].client().ask(&["CLUSTER", "FAILOVER"]), "+OK\r\n");
    let promoted = cluster.nodes[1 + PRIMARIES].id.clone();
    eventually("a failover", || cluster.primaries().iter().any(|node| node.id == promoted));
    let load = Load::start(addresses);
    load.wait_for(300);
    follower.restart();
    load.wait_for(300);
    load.end();
    equal("after a restart", &follower, &cluster);
    eventually("each link goes on", || follower.sum("partial_syncs") >= 3);
    assert_eq!(follower.sum("full_syncs"), 0, "positions are kept over a restart");
}

#[test]
fn keys_of_a_slot_that_was_taken_by_force_are_not_served() {
    let Some(cluster) = TestCluster::start("forced") else { return skip() };
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.address).collect();
    for number in 0..100 {
        assert!(write(&addresses, &["ZADD", &format!("fleet:{number}"), "1", "a"]));
    }
    let follower = Follower::start("forced", &format!("cluster://{}", addresses[0]));
    equal("at first", &follower, &cluster);
    let (from, to) = (&cluster.nodes[0], &cluster.nodes[1]);
    for slot in slots_with_keys(from).into_iter().take(3) {
        take_by_force(slot, from, to);
    }
    eventually("lost keys", || cluster.sorted_sets("fleet:*").len() == 97);
    equal("after slots were taken by force", &follower, &cluster);
}

#[test]
fn keys_of_a_slot_that_was_taken_by_force_while_nobody_followed_are_not_served_after_a_start() {
    let Some(cluster) = TestCluster::start("forced-before") else { return skip() };
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.address).collect();
    for number in 0..100 {
        assert!(write(&addresses, &["ZADD", &format!("fleet:{number}"), "1", "a"]));
    }
    let of = format!("cluster://{}", addresses[0]);
    let mut follower = Follower::start("forced-before", &of);
    equal("at first", &follower, &cluster);
    follower.stop();
    let (from, to) = (&cluster.nodes[0], &cluster.nodes[1]);
    for slot in slots_with_keys(from).into_iter().take(3) {
        take_by_force(slot, from, to);
    }
    eventually("lost keys", || cluster.sorted_sets("fleet:*").len() == 97);
    follower.restart();
    // While a link is down, keys of others' slots are not looked for in its data.
    eventually("each link goes on", || follower.sum("partial_syncs") == 3);
    if text(from.client(), &["INFO", "server"]).contains("redis_version:7.0.") {
        // This version tells its replicas of none of the keys.
        eventually("a dump", || follower.sum("full_syncs") == 1);
    }
    equal("after a start", &follower, &cluster);
    assert!(follower.sum("full_syncs") <= 1, "one link has lost slots");
}

/// Gives a slot to a node that does not have its keys.
fn take_by_force(slot: u16, from: &cluster::Node, to: &cluster::Node) {
    let slot = slot.to_string();
    for words in [["IMPORTING", &from.id], ["NODE", &to.id]] {
        let words = ["CLUSTER", "SETSLOT", &slot, words[0], words[1]];
        assert_eq!(to.client().ask(&words), "+OK\r\n");
    }
}

/// Slots of the first node that are migrated.
const MIGRATED: RangeInclusive<u16> = 0..=2729;

fn is_migrated(key: &[u8]) -> bool {
    MIGRATED.contains(&key_slot(key))
}

/// Begins to migrate slots as `CLUSTER MIGRATESLOTS` of Valkey 9 does; gives the reply.
fn migrate(source: &cluster::Node, target: &cluster::Node) -> String {
    let [first, last] = [MIGRATED.start(), MIGRATED.end()].map(u16::to_string);
    let words =
        ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", target.id.as_str()];
    source.client().ask(&words)
}

/// Lets migrations of a node wait before their end, or go on.
fn hold(source: &cluster::Node, is_held: bool) {
    let held = if is_held { "1" } else { "0" };
    let reply = source.client().ask(&["DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", held]);
    assert_eq!(reply, "+OK\r\n");
}

/// The state of the last migration that a node has begun.
fn migration_state(source: &cluster::Node) -> String {
    let reply = source.client().ask(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    let mut lines = reply.lines().skip_while(|line| *line != "state");
    lines.nth(2).unwrap_or_default().to_owned()
}

/// Waits until the keys have been sent, and changes are sent as they come.
fn wait_for_changes(source: &cluster::Node) {
    eventually("a migration that sends changes", || {
        ["replicating", "waiting-to-pause"].contains(&migration_state(source).as_str())
    });
}

/// Keys of migrated slots, which are at the first node.
fn fill(node: &cluster::Node) -> Vec<String> {
    let names = (0..).map(|number| format!("fleet:m{number}"));
    let keys: Vec<String> = names.filter(|key| is_migrated(key.as_bytes())).take(2000).collect();
    let members: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let mut client = node.client();
    for keys in keys.chunks(50) {
        let add = |key: &String| {
            let pairs = members.iter().flat_map(|member| [member.as_bytes(), member.as_bytes()]);
            request(&[&b"ZADD"[..], key.as_bytes()].into_iter().chain(pairs).collect::<Vec<_>>())
        };
        client.send(&keys.iter().flat_map(add).collect::<Vec<u8>>());
        keys.iter().for_each(|_| assert_eq!(client.reply().bytes, b":40\r\n"));
    }
    keys
}

/// A migration that goes on: what must not be seen meanwhile.
struct MigrationWatch<'a> {
    source: &'a cluster::Node,
    /// Follows the whole cluster.
    whole: &'a Follower,
    /// Keys of migrated slots, and those that were removed.
    left: Vec<String>,
    gone: Vec<String>,
}

impl MigrationWatch<'_> {
    /// Removes keys at the source, one after the other. One that was gone at the follower of the
    /// cluster does not come back, and these followers of the target see no key of the slots.
    fn remove(&mut self, count: usize, of_target: &[&Follower]) {
        let (mut client, mut ours) = (self.source.client(), self.whole.client());
        for _ in 0..count {
            let key = self.left.pop().expect("there are keys left");
            assert_eq!(client.ask(&["DEL", &key]), ":1\r\n");
            let end = Instant::now() + Duration::from_secs(60);
            while ours.ask(&["EXISTS", &key]) != ":0\r\n" {
                assert!(Instant::now() < end, "{key} was removed");
            }
            self.gone.push(key);
            let words = std::iter::once("EXISTS").chain(self.gone.iter().map(String::as_str));
            assert_eq!(ours.ask(&words.collect::<Vec<_>>()), ":0\r\n", "removed keys are back");
            of_target.iter().for_each(|follower| assert_none_migrated(follower));
        }
    }
}

fn assert_none_migrated(follower: &Follower) {
    let mut seen = keys(&mut follower.client(), "fleet:*");
    seen.retain(|key| is_migrated(key));
    assert!(seen.is_empty(), "{} keys of slots that are imported are seen", seen.len());
}

/// Waits until a follower of one node has what that has.
fn equal_to_node(what: &str, follower: &Follower, node: &cluster::Node) {
    eventually(what, || {
        let mut client = node.client();
        let names = keys(&mut client, "fleet:*");
        let theirs: BTreeMap<Vec<u8>, Vec<u8>> =
            names.into_iter().map(|key| (key.clone(), members(&mut client, &key))).collect();
        follower.sorted_sets() == Ok(theirs)
    });
}

#[test]
fn migrated_slots_are_seen_when_the_migration_ends_and_removed_keys_do_not_come_back() {
    let Some(cluster) = TestCluster::start("migration") else { return skip() };
    let (source, target) = (&cluster.nodes[0], &cluster.nodes[1]);
    let help = source.client().ask(&["CLUSTER", "HELP"]);
    if !help.contains("MIGRATESLOTS") {
        return println!("skipped: the server does not know CLUSTER MIGRATESLOTS");
    }
    let left = fill(source);
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.address).collect();
    let load = Load::start(addresses.clone());
    let whole = Follower::start("migration", &format!("cluster://{}", addresses[0]));
    let of_target = format!("redis://{}", target.address);
    let mut single = Follower::start("migration-target", &of_target);
    eventually("dumps", || whole.sum("full_syncs") == 3 && single.sum("full_syncs") == 1);
    eventually("all keys", || whole.client().ask(&["EXISTS", &left[0]]) == ":1\r\n");
    let mut watched = MigrationWatch { source, whole: &whole, left, gone: Vec::new() };

    // One that is given up.
    hold(source, true);
    assert_eq!(migrate(source, target), "+OK\r\n");
    watched.remove(40, &[&single]);
    wait_for_changes(source);
    watched.remove(5, &[&single]);
    assert_eq!(source.client().ask(&["CLUSTER", "CANCELSLOTMIGRATIONS"]), "+OK\r\n");
    watched.remove(5, &[&single]);
    eventually("dumps", || whole.sum("full_syncs") == 4 && single.sum("full_syncs") == 2);
    watched.remove(5, &[&single]);

    // One that ends, with connections that are cut, a start, and a dump in the middle of it.
    assert_eq!(migrate(source, target), "+OK\r\n");
    watched.remove(40, &[&single]);
    wait_for_changes(source);
    // The target still has these, and does not learn of it.
    target.pause(true);
    watched.remove(3, &[]);
    target.pause(false);
    watched.remove(5, &[&single]);
    target.client().ask(&["CLIENT", "KILL", "TYPE", "replica"]);
    watched.remove(5, &[&single]);
    single.restart();
    let late = Follower::start("migration-late", &of_target);
    eventually("a dump", || late.sum("full_syncs") == 1);
    eventually("the link goes on", || single.sum("partial_syncs") == 1);
    watched.remove(20, &[&single, &late]);
    hold(source, false);
    eventually("the end of the migration", || migration_state(source) == "success");
    watched.remove(0, &[]);
    load.wait_for(200);
    load.end();
    equal("after migrations", &whole, &cluster);
    equal_to_node("the same as at the target", &single, target);
    equal_to_node("the same as at the target", &late, target);
    assert!(whole.sorted_sets().is_ok_and(|sets| sets.len() >= watched.left.len()));
    // A migration that has failed asks for a dump, and nothing else does.
    assert_eq!([&whole, &single, &late].map(|it| it.sum("full_syncs")), [4, 0, 1]);
}

#[test]
fn a_client_of_the_cluster_finds_whered_as_a_replica_and_is_sent_to_the_primaries() {
    let Some(cluster) = TestCluster::start("clients") else { return skip() };
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.address).collect();
    assert!(write(&addresses, &["GEOADD", "fleet:1", "8.68", "50.11", "a"]));
    let follower = Follower::start("clients", &format!("cluster://{}", addresses[4]));
    equal("at first", &follower, &cluster);
    let mut client = follower.client();
    let slot = key_slot(b"fleet:1");
    assert_eq!(client.ask(&["CLUSTER", "KEYSLOT", "fleet:1"]), format!(":{slot}\r\n"));
    let owner = cluster.primaries().into_iter().nth(usize::from(slot) * PRIMARIES / 16384);
    let moved = format!("-MOVED {slot} {}\r\n", owner.expect("an owner").address);
    assert_eq!(client.ask(&["ZADD", "fleet:1", "1", "b"]), moved);
    // Without READONLY other keys are this server's own; with it they are the cluster's.
    assert_eq!(client.ask(&["SET", "own", "1"]), "+OK\r\n");
    assert_eq!(client.ask(&["READONLY"]), "+OK\r\n");
    assert_eq!(client.ask(&["ZCARD", "fleet:1"]), ":1\r\n");
    assert!(client.ask(&["GET", "own"]).starts_with("-MOVED "));
    assert!(client.ask(&["GET", "fleet:1"]).starts_with("-MOVED "));
    assert_eq!(client.ask(&["READWRITE"]), "+OK\r\n");
    assert_eq!(client.ask(&["GET", "own"]), "$1\r\n1\r\n");
    let nodes = text(follower.client(), &["CLUSTER", "NODES"]);
    assert_eq!(nodes.lines().count(), 2 * PRIMARIES);
    for node in cluster.primaries() {
        assert!(nodes.contains(&format!("{} {}@", node.id, node.address)), "{nodes}");
    }
    client.send(&request(&[b"CLUSTER", b"SLOTS"]));
    let Value::Array(ranges) = client.reply().value else { panic!("no ranges") };
    assert_eq!(ranges.len(), PRIMARIES);
    client.send(&request(&[b"CLUSTER", b"SHARDS"]));
    let Value::Array(shards) = client.reply().value else { panic!("no shards") };
    assert_eq!(shards.len(), PRIMARIES);
    let slot = slot.to_string();
    assert_eq!(client.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), ":1\r\n");
    let found = client.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "9"]);
    assert_eq!(found, "*1\r\n$7\r\nfleet:1\r\n");
    assert!(text(follower.client(), &["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    // Promoted, its keys are its own, and there is no cluster any more.
    assert_eq!(client.ask(&["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    assert_eq!(client.ask(&["ZADD", "fleet:1", "1", "b"]), ":1\r\n");
    assert!(client.ask(&["CLUSTER", "SLOTS"]).starts_with("-ERR This instance has cluster"));
    assert!(text(follower.client(), &["INFO", "replication"]).contains("role:master"));
}

#[test]
fn the_primary_that_sentinels_name_is_followed_through_a_failover() {
    let directory = std::env::temp_dir().join(format!("whered-sentinel-{}", std::process::id()));
    let ports: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
    let address = |port: &String| SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")));
    let common = ["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0"];
    let folder = |name: &str| directory.join(name);
    let [primary, replica, sentinel] = &ports[..] else { panic!("three ports") };
    let first = spawn(&folder("0"), &[&["--port", primary][..], &common].concat());
    let Some(first) = first else { return skip() };
    let mut servers = Ended(vec![first], directory.clone());
    let options = ["--port", replica, "--replicaof", &format!("127.0.0.1 {primary}")];
    servers.0.extend(spawn(&folder("1"), &[&options[..], &common].concat()));
    let file = folder("2").join("sentinel.conf");
    fs::create_dir_all(folder("2")).expect("a directory can be made");
    let text = format!(
        "port {sentinel}\nsentinel monitor main 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
    );
    fs::write(&file, text).expect("a file can be written");
    ports[..2].iter().for_each(|port| answers(address(port)));
    servers.0.extend(spawn(&folder("2"), &[file.to_str().expect("a name"), "--sentinel"]));
    answers(address(sentinel));

    let mut client = Client::connect(address(primary));
    client.ask(&["ZADD", "fleet:1", "1", "a"]);
    let follower = Follower::start("sentinel", &format!("sentinel://127.0.0.1:{sentinel}/main"));
    let count = |expected: &str| follower.client().ask(&["ZCARD", "fleet:1"]) == expected;
    eventually("a dump", || count(":1\r\n"));
    eventually("a Sentinel that knows the replica", || {
        Client::connect(address(sentinel)).ask(&["SENTINEL", "replicas", "main"]).contains(replica)
    });
    // One that is promoted before it has the data would have them no more.
    eventually("a replica with the data", || {
        Client::connect(address(replica)).ask(&["ZCARD", "fleet:1"]) == ":1\r\n"
    });
    let _ = servers.0[0].kill();
    let _ = servers.0[0].wait();
    // Sentinels cut the connections of a replica that they promote.
    eventually("a failover", || {
        let reply = exchange(address(replica), &[b"ZADD", b"fleet:1", b"2", b"b"], false);
        reply.is_ok_and(|line| line.starts_with(':'))
    });
    eventually("the new primary's write", || count(":2\r\n"));
    assert_eq!(follower.sum("full_syncs"), 1, "the new primary went on with the history");
}

/// Processes that end with the test, and their directory.
struct Ended(Vec<std::process::Child>, PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.1);
    }
}
