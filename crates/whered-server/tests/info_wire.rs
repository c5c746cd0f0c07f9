//! `INFO` next to that of Debian's redis-server: which fields there are, and that the counts of
//! lookups are the same. Without redis-server the tests are skipped, unless `WHERED_REQUIRE`
//! contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod support;

#[path = "differential/peer.rs"]
mod peer;

use std::collections::BTreeSet;

use peer::Peer;
use support::Door;
use support::client::{Client, Value};
use whered_engine::EngineOptions;

/// Fields of Redis that are absent, and why.
const ABSENT: &[(&str, &[&str])] = &[
    (
        "they describe how Redis was built",
        &["redis_git_sha1", "redis_git_dirty", "redis_build_id", "atomicvar_api", "gcc_version"],
    ),
    ("the rate of sweeps cannot be configured", &["configured_hz"]),
    ("the listener does not know the configuration's file", &["config_file"]),
    ("what is used at the start is not told apart", &["used_memory_startup"]),
    (
        "the allocator does not report its own figures",
        &[
            "allocator_allocated",
            "allocator_active",
            "allocator_resident",
            "allocator_frag_ratio",
            "allocator_frag_bytes",
            "allocator_rss_ratio",
            "allocator_rss_bytes",
            "rss_overhead_ratio",
            "rss_overhead_bytes",
        ],
    ),
    (
        "the progress of a snapshot is told in bytes (snapshot_current_bytes)",
        &["current_save_keys_processed", "current_save_keys_total"],
    ),
    (
        "keys are not counted when a snapshot is loaded",
        &["rdb_last_load_keys_expired", "rdb_last_load_keys_loaded"],
    ),
    ("failures in a row are not counted", &["aof_rewrites_consecutive_failures"]),
    (
        "sweeps follow the order of the expiry times, and are not limited by time",
        &["expired_stale_perc", "expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"],
    ),
    (
        "the time above maxmemory is not measured",
        &["total_eviction_exceeded_time", "current_eviction_exceeded_time"],
    ),
    (
        "every thread serves its own connections from reading to writing",
        &["io_threaded_reads_processed", "io_threaded_writes_processed"],
    ),
    ("clients have no buffers of a fixed size", &["reply_buffer_shrinks", "reply_buffer_expands"]),
    ("payloads of DUMP are always checked", &["dump_payload_sanitizations"]),
    ("there is no history that a replica could follow", &["master_replid"]),
];

fn peer() -> Option<Peer> {
    let peer = Peer::start();
    if peer.is_none() {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
    }
    peer
}

fn info(client: &mut Client, section: &str) -> String {
    client.send(&support::client::request(&[b"INFO", section.as_bytes()]));
    match client.reply().value {
        Value::Bulk(text) | Value::Verbatim(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// The fields, without those that are named after a command, an error or a database.
fn fields(client: &mut Client) -> BTreeSet<String> {
    let names = ["cmdstat_", "errorstat_", "latency_percentiles_usec_", "db0"];
    let text = info(client, "everything");
    let fields = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let own = fields.filter(|field| !names.iter().any(|name| field.starts_with(name)));
    own.map(str::to_owned).collect()
}

fn value(client: &mut Client, section: &str, field: &str) -> i64 {
    let text = info(client, section);
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.expect("a field").trim().parse().expect("a number")
}

#[test]
fn every_field_of_redis_is_there_or_absent_for_a_stated_reason() {
    let Some(peer) = peer() else { return };
    let folder = std::env::temp_dir().join(format!("whered-info-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let options = EngineOptions { data_dir: Some(folder.clone()), ..EngineOptions::default() };
    let door = Door::with(options, |_| {});
    let mut ours = door.client();
    let ours = fields(&mut ours);
    let theirs = fields(&mut Client::connect(peer.address));
    let absent: BTreeSet<String> =
        ABSENT.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect();
    let missing: BTreeSet<String> = theirs.difference(&ours).cloned().collect();
    assert_eq!(missing, absent, "fields of Redis that are missing, and those with a reason");
    let stated = ABSENT.iter().map(|(_, names)| names.len()).sum::<usize>();
    assert_eq!(stated, absent.len(), "a field is absent for two reasons");
    println!("{} of {} fields", theirs.len() - missing.len(), theirs.len());
    drop(door);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Requests, each of which counts lookups that found a key or did not, or none.
const LOOKUPS: &[&str] = &[
    "SET t 1",
    "ZADD z 1 a 2 b",
    "GEOADD g 8 50 m 9 51 n",
    "GET t",
    "GET none",
    "GET z",
    "MGET t none z t",
    "STRLEN t",
    "STRLEN none",
    "GETEX t",
    "GETEX none",
    "GETSET t 2",
    "GETSET new 2",
    "GETDEL new",
    "GETDEL new",
    "SET t 3 GET",
    "SET t2 3 GET",
    "SETNX t 1",
    "INCR t",
    "APPEND t 1",
    "EXISTS t none z",
    "TOUCH t none",
    "TYPE t",
    "TYPE none",
    "TTL t",
    "PTTL none",
    "EXPIRETIME t",
    "EXPIRE t 100",
    "PERSIST t",
    "OBJECT ENCODING t",
    "OBJECT REFCOUNT none",
    "OBJECT IDLETIME t",
    "ZSCORE z a",
    "ZSCORE none a",
    "ZMSCORE z a x",
    "ZCARD z",
    "ZCARD none",
    "ZCOUNT z 0 1",
    "ZLEXCOUNT z - +",
    "ZRANK z a",
    "ZRANGE z 0 -1",
    "ZRANGE none 0 -1",
    "ZRANGEBYSCORE z 0 1",
    "ZRANGEBYLEX z - +",
    "ZREVRANGEBYLEX none + -",
    "ZRANDMEMBER z",
    "ZRANDMEMBER none 3",
    "ZSCAN z 0",
    "ZUNION 3 z none g",
    "ZINTER 2 z z",
    "ZDIFF 2 none z",
    "ZINTERCARD 2 z none",
    "ZUNIONSTORE u 2 z none",
    "ZINTERSTORE u 2 z z",
    "ZDIFFSTORE u 2 z none",
    "ZRANGESTORE u z 0 -1",
    "ZRANGESTORE u none 0 -1",
    "ZPOPMIN z",
    "ZPOPMAX none",
    "ZMPOP 2 none z MIN",
    "GEOPOS g m",
    "GEOPOS none m",
    "GEODIST g m n",
    "GEOHASH g m",
    "GEOSEARCH g FROMLONLAT 8 50 BYRADIUS 1 km",
    "GEOSEARCH none FROMLONLAT 8 50 BYRADIUS 1 km",
    "GEORADIUS g 8 50 1 km",
    "GEORADIUS_RO none 8 50 1 km",
    "GEORADIUSBYMEMBER g m 1 km",
    "GEOSEARCHSTORE r g FROMLONLAT 8 50 BYRADIUS 1 km",
    "GEORADIUS g 8 50 1 km STORE r",
    "DEL t none",
    "KEYS *",
    "DBSIZE",
    "PING",
];

#[test]
fn lookups_that_find_a_key_and_those_that_do_not_are_counted_as_in_redis() {
    let Some(peer) = peer() else { return };
    let door = Door::in_memory();
    let mut sides = [door.client(), Client::connect(peer.address)];
    sides[1].ask(&["FLUSHALL"]);
    let mut faults = Vec::new();
    for request in LOOKUPS {
        let words: Vec<&str> = request.split(' ').collect();
        let counted = sides.each_mut().map(|side| {
            side.ask(&["CONFIG", "RESETSTAT"]);
            side.ask(&words);
            ["keyspace_hits", "keyspace_misses"].map(|field| value(side, "stats", field))
        });
        if counted[0] != counted[1] {
            faults.push(format!("{request}: {:?}, Redis: {:?}", counted[0], counted[1]));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn requests_of_a_pipeline_are_counted_one_by_one() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.ask(&["GEOADD", "g", "8", "50", "m"]);
    client.ask(&["CONFIG", "RESETSTAT"]);
    let one = |key: &[u8]| support::client::request(&[b"ZSCORE", key, b"m"]);
    let found = (0..20).flat_map(|_| one(b"g"));
    let pipeline: Vec<u8> = found.chain((0..5).flat_map(|_| one(b"none"))).collect();
    client.send(&pipeline);
    (0..25).for_each(|_| drop(client.reply()));
    assert_eq!(value(&mut client, "stats", "keyspace_hits"), 20);
    assert_eq!(value(&mut client, "stats", "keyspace_misses"), 5);
}

#[test]
fn expired_keys_and_the_mean_of_lives_are_counted() {
    let door = Door::in_memory();
    let mut client = door.client();
    for n in 0..10 {
        client.ask(&["SET", &format!("brief{n}"), "x", "PX", "20"]);
    }
    client.ask(&["SET", "long", "x", "EX", "100"]);
    client.ask(&["SET", "longer", "x", "EX", "300"]);
    while client.ask(&["EXISTS", "brief9"]) != ":0\r\n" {}
    // A writer of a key whose time is over removes it.
    client.ask(&["SET", "brief0", "y"]);
    client.ask(&["APPEND", "brief1", "y"]);
    client.ask(&["DEL", "brief2"]);
    door.engine.keyspace().sweep(100).expect("it is in memory");
    assert_eq!(value(&mut client, "stats", "expired_keys"), 10);
    let text = info(&mut client, "keyspace");
    let mean = text.split("avg_ttl=").nth(1).and_then(|rest| rest.trim().parse::<u64>().ok());
    assert!(mean.is_some_and(|mean| (190_000..=200_000).contains(&mean)), "{text}");
}
