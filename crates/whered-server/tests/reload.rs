//! Databases follow their files, and nobody who asks meanwhile notices more than a new answer.
//!
//! Every network's record carries the version of its file, so that an answer of two files would
//! show. `WHERED_SWAPS` says how often files are swapped under load (20 times without it), and
//! `WHERED_SWAP_NETWORKS` how many networks they have; the long forms are
//! `WHERED_SWAPS=1000` and `WHERED_SWAPS=20 WHERED_SWAP_NETWORKS=3700000`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the long forms tell what they did")]

mod support;
mod world;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::client::{self, Client};
use whered_engine::mmdb::{self, Writer, WriterOptions};
use whered_server::{Config, Server};
use world::http::get;

/// How many records the networks share.
const GROUPS: u32 = 270_000;

/// A file of `/24`s and smaller networks from 16.0.0.0 on; each record has the version and its
/// group.
fn versions(version: u32, networks: u32) -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    for number in 0..networks {
        let record = mmdb::Value::Map(vec![
            ("version".to_owned(), mmdb::Value::Uint32(version)),
            ("group".to_owned(), mmdb::Value::Uint32(number % GROUPS)),
        ]);
        let prefix = format!("{}/26", address(number)).parse().unwrap();
        writer.insert(prefix, record).unwrap();
    }
    writer.finish().unwrap()
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from((16 << 24) + (number << 6))
}

fn small(version: u32) -> Vec<u8> {
    versions(version, 300)
}

/// A server over one database, whose file is at `path`.
fn serve(path: &Path, keys: &str) -> Server {
    Server::start(config(path, keys)).unwrap()
}

fn config(path: &Path, keys: &str) -> Config {
    let text = format!(
        "[resp]\nlisten = ['127.0.0.1:0']\nthreads = 2\n[http]\nlisten = ['127.0.0.1:0']\n\
         [dns]\nlisten = []\n[[database]]\nname = 'v'\npath = '{}'\n{keys}\n",
        path.display()
    );
    Config::from_toml(&text, Path::new("reload.toml")).unwrap()
}

fn version(server: &Server) -> u64 {
    let reply = get(server, &format!("/v1/ip/{}?database=v", address(7))).json();
    reply["record"]["version"].as_u64().unwrap()
}

fn info(server: &Server, key: &str) -> Value {
    get(server, "/v1/databases/v").json()[key].clone()
}

/// Waits until something is so; a minute is far more than it takes, and less than for ever.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, Duration::from_secs(60), &mut is_so);
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
fn wait_for(what: &str, limit: Duration, is_so: &mut dyn FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "{what}: not within {} seconds", limit.as_secs());
        thread::sleep(Duration::from_millis(5));
    }
}

fn put(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("v.mmdb");
    fs::write(&path, bytes).unwrap();
    path
}

/// Replaces a file by renaming another one over it.
fn rename_over(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    fs::rename(beside, path).unwrap();
}

#[test]
fn a_file_is_followed_when_it_is_renamed_over_or_written_in_place() {
    let path = put(&world::folder("reload_notify"), &small(1));
    let server = serve(&path, "");
    assert_eq!(version(&server), 1);
    rename_over(&path, &small(2));
    wait_until("a renamed file serves", || version(&server) == 2);
    fs::write(&path, small(3)).unwrap();
    wait_until("a file written in place serves", || version(&server) == 3);
    assert_eq!(info(&server, "reloads"), 2);
    assert_eq!(info(&server, "generation"), 3);
    server.stop().unwrap();
}

#[test]
fn a_swap_of_links_as_kubernetes_does_it_is_followed() {
    let folder = world::folder("reload_links");
    let publish = |number: u32| {
        let name = format!("..2026_{number}");
        fs::create_dir(folder.join(&name)).unwrap();
        fs::write(folder.join(&name).join("v.mmdb"), small(number)).unwrap();
        symlink(&name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        if number > 1 {
            fs::remove_dir_all(folder.join(format!("..2026_{}", number - 1))).unwrap();
        }
    };
    publish(1);
    symlink("..data/v.mmdb", folder.join("v.mmdb")).unwrap();
    let server = serve(&folder.join("v.mmdb"), "");
    for number in 2..5 {
        publish(number);
        wait_until("the new folder's file serves", || version(&server) == u64::from(number));
    }
    // The file below the links may change as well.
    fs::write(folder.join("..data/v.mmdb"), small(9)).unwrap();
    wait_until("a file behind links serves", || version(&server) == 9);
    assert_eq!(info(&server, "last_reload_error"), Value::Null);
    server.stop().unwrap();
}

#[test]
fn a_half_written_file_is_told_and_taken_when_it_is_whole() {
    let path = put(&world::folder("reload_half"), &small(1));
    let server = serve(&path, "");
    let bytes = small(2);
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    wait_until("half a file is refused", || info(&server, "reload_failures") == 1);
    assert_eq!(version(&server), 1);
    let error = info(&server, "last_reload_error");
    assert!(error.as_str().unwrap().contains("v.mmdb"), "{error}");
    let file = info(&server, "last_reload_error_file");
    assert!(file.as_str().unwrap().contains(&format!("{} bytes", bytes.len() / 2)), "{file}");
    assert!(info(&server, "last_reload_error_at_milliseconds").is_u64());
    let metrics = get(&server, "/metrics").body;
    for line in [
        "whered_database_reload_failures_total{database=\"v\"} 1",
        "whered_database_refused{database=\"v\"} 1",
        "whered_database_reloads_total{database=\"v\"} 0",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, &bytes[bytes.len() / 2..]).unwrap();
    wait_until("the whole file serves", || version(&server) == 2);
    assert_eq!(info(&server, "last_reload_error"), Value::Null);
    server.stop().unwrap();
}

#[test]
fn a_removed_file_is_told_and_its_successor_taken() {
    let folder = world::folder("reload_removed");
    let path = put(&folder, &small(1));
    let server = serve(&path, "mode = 'stream'");
    fs::remove_file(&path).unwrap();
    wait_until("a missing file is told", || info(&server, "reload_failures") == 1);
    // The old file is still open, and so it answers in this mode too.
    assert_eq!(version(&server), 1);
    put(&folder, &small(2));
    wait_until("the next file serves", || version(&server) == 2);
    server.stop().unwrap();
}

#[test]
fn polling_follows_a_file_too() {
    let path = put(&world::folder("reload_poll"), &small(1));
    let server = serve(&path, "reload = 'poll'\nmode = 'tree'");
    rename_over(&path, &small(2));
    wait_until("a polled file serves", || version(&server) == 2);
    server.stop().unwrap();
}

#[test]
fn without_reloading_a_file_is_taken_when_the_configuration_is_reloaded() {
    let folder = world::folder("reload_off");
    let path = put(&folder, &small(1));
    // Another database in the same folder is followed: its new file shows when to look.
    let other = folder.join("other.mmdb");
    fs::write(&other, small(1)).unwrap();
    let followed = format!("[[database]]\nname = 'w'\npath = '{}'", other.display());
    let server = serve(&path, &format!("reload = 'off'\n{followed}"));
    rename_over(&path, &small(2));
    rename_over(&other, &small(2));
    let generation = || get(&server, "/v1/databases/w").json()["generation"].clone();
    wait_until("the other database is followed", || generation() == 2);
    assert_eq!(version(&server), 1);
    server.reload(config(&path, "reload = 'notify'")).unwrap();
    assert_eq!(version(&server), 2);
    // The new configuration's way of reloading holds from now on.
    rename_over(&path, &small(3));
    wait_until("a watched file serves", || version(&server) == 3);
    server.stop().unwrap();
}

fn from_environment(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What the load has seen.
#[derive(Default)]
struct Seen {
    replies: AtomicU64,
    lookups: AtomicU64,
    stop: AtomicBool,
}

#[test]
fn swaps_under_load_never_fail_a_lookup_or_mix_two_files() {
    let swaps = from_environment("WHERED_SWAPS", 20);
    let networks = from_environment("WHERED_SWAP_NETWORKS", 300);
    let folder = world::folder("reload_load");
    let stored: Vec<PathBuf> = [1, 2].map(|n| folder.join(format!("version-{n}"))).to_vec();
    for (version, path) in (1..).zip(&stored) {
        fs::write(path, versions(version, networks)).unwrap();
    }
    let path = folder.join("v.mmdb");
    fs::hard_link(&stored[0], &path).unwrap();
    let server = serve(&path, "");
    let (seen, start) = (Seen::default(), Instant::now());
    thread::scope(|scope| {
        let mut loads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| ask_by_resp(&server, networks, &seen))).collect();
        loads.push(scope.spawn(|| ask_by_http(&server, networks, &seen)));
        let mut client = Client::connect(server.resp_addresses()[0]);
        let mut slowest = Duration::ZERO;
        for swap in 1..=swaps {
            let beside = folder.join("next");
            fs::hard_link(&stored[swap as usize % 2], &beside).unwrap();
            let swapped_at = Instant::now();
            fs::rename(&beside, &path).unwrap();
            let wanted = format!("$1\r\n{}\r\n", 1 + swap % 2);
            let mut is_new = || {
                let reply = client.ask(&["IP.GET", "v", "16.0.0.1", "version"]);
                assert!(
                    !loads.iter().any(thread::ScopedJoinHandle::is_finished),
                    "a client has failed"
                );
                reply.ends_with(&wanted)
            };
            wait_for("a swapped file serves", Duration::from_secs(600), &mut is_new);
            slowest = slowest.max(swapped_at.elapsed());
        }
        seen.stop.store(true, Ordering::Relaxed);
        println!(
            "{swaps} swaps of {networks} networks in {:.1} s, the slowest {:.2} s; {} replies with \
             {} lookups, none failed, wrong or mixed",
            start.elapsed().as_secs_f64(),
            slowest.as_secs_f64(),
            seen.replies.load(Ordering::Relaxed),
            seen.lookups.load(Ordering::Relaxed),
        );
    });
    assert_eq!(info(&server, "reloads"), swaps);
    assert_eq!(info(&server, "reload_failures"), 0);
    server.stop().unwrap();
}

/// Asks for 40 addresses at a time, several requests on their way.
fn ask_by_resp(server: &Server, networks: u32, seen: &Seen) {
    const PIPELINE: usize = 8;
    let mut client = Client::connect(server.resp_addresses()[0]);
    let mut number = 0_u32;
    while !seen.stop.load(Ordering::Relaxed) {
        let mut asked = Vec::new();
        for _ in 0..PIPELINE {
            let numbers: Vec<u32> = (0..40)
                .map(|_| {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (number >> 8) % networks
                })
                .collect();
            let addresses: Vec<String> = numbers.iter().map(|n| address(*n).to_string()).collect();
            let mut words = vec!["IP.MGET", "v", "FIELDS", "2", "version", "group"];
            words.extend(addresses.iter().map(String::as_str));
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            client.send(&client::request(&words));
            asked.push(numbers);
        }
        for numbers in asked {
            let client::Value::Array(answers) = client.reply().value else { panic!("an array") };
            let bulk = |text: u32| client::Value::Bulk(text.to_string().into_bytes());
            let first = answers.first().expect("forty").clone();
            let is_first = |version| {
                first == client::Value::Array(vec![bulk(version), bulk(numbers[0] % GROUPS)])
            };
            let version = [1, 2].into_iter().find(|version| is_first(*version)).expect("a version");
            for (number, answer) in numbers.iter().zip(&answers) {
                let expected = client::Value::Array(vec![bulk(version), bulk(number % GROUPS)]);
                assert_eq!(*answer, expected, "{}", address(*number));
            }
            seen.replies.fetch_add(1, Ordering::Relaxed);
            seen.lookups.fetch_add(numbers.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Asks for pages of networks, which must be of one version as well.
fn ask_by_http(server: &Server, networks: u32, seen: &Seen) {
    let mut number = 0;
    while !seen.stop.load(Ordering::Relaxed) {
        number = (number + 40) % (networks - 40);
        let path = format!(
            "/v1/databases/v/networks?within=16.0.0.0/4&count=40&cursor={}",
            address(number)
        );
        let page = get(server, &path).json();
        let found = page["networks"].as_array().unwrap();
        assert_eq!(found.len(), 40);
        let version = &found[0]["record"]["version"];
        assert!(*version == 1 || *version == 2, "{page}");
        for (index, network) in (number..).zip(found) {
            assert_eq!(network["record"]["version"], *version, "{page}");
            assert_eq!(network["record"]["group"], index % GROUPS, "{page}");
        }
        seen.replies.fetch_add(1, Ordering::Relaxed);
        seen.lookups.fetch_add(40, Ordering::Relaxed);
    }
}

#[test]
fn a_ruleset_follows_its_file_and_keeps_the_old_rules_when_it_is_wrong() {
    let folder = world::folder("reload_rules");
    let path = folder.join("edge.rules");
    let rules =
        |verdict: &str| format!("chain input policy drop {{\n    proto tcp {verdict}\n}}\n");
    fs::write(&path, rules("accept")).unwrap();
    let text = format!(
        "[resp]\nlisten = []\n[http]\nlisten = ['127.0.0.1:0']\n[dns]\nlisten = []\n\
         [rules]\nmemory_bytes = 1048576\n\
         [[ruleset]]\nname = 'edge'\npath = '{}'\nreload = 'notify'\n",
        path.display()
    );
    let config = Config::from_toml(&text, Path::new("reload.toml")).unwrap();
    let server = Server::start(config).unwrap();
    let info = |key: &str| get(&server, "/v1/rules/edge").json()[key].clone();
    assert_eq!(info("bytes_limit"), 1_048_576);
    let shown = || server.engine().generation().ruleset("edge").unwrap().edition().to_ruleset().0;
    let has = |word: &str| whered_engine::rules::text::write(&shown()).contains(word);
    assert!(has("accept"));
    rename_over(&path, rules("reject").as_bytes());
    wait_until("the new rules serve", || has("reject"));
    fs::write(&path, rules("nonsense")).unwrap();
    wait_until("the wrong file is told", || info("reload_failures") == 1);
    let refused = info("refused");
    assert!(refused.as_str().unwrap().contains("edge.rules:2:15: "), "{refused}");
    assert!(has("reject"), "the old rules serve on");
    fs::write(&path, rules("drop")).unwrap();
    wait_until("the right file serves", || !has("reject"));
    assert!(info("refused").is_null() && info("reloads").as_u64() >= Some(2));
    server.stop().unwrap();
}

#[test]
fn both_files_of_a_database_are_followed() {
    let folder = world::folder("reload_two_files");
    let file = |name: &str, ip_version: u16, network: &str, number: u32| {
        let mut writer =
            Writer::new(WriterOptions { ip_version, ..WriterOptions::default() }).unwrap();
        let record = mmdb::Value::Map(vec![("version".to_owned(), mmdb::Value::Uint32(number))]);
        writer.insert(network.parse().unwrap(), record).unwrap();
        let path = folder.join(name);
        rename_over(&path, &writer.finish().unwrap());
    };
    let four = |number| file("v4.mmdb", 4, "192.0.2.0/24", number);
    let six = |number| file("v6.mmdb", 6, "2001:db8::/32", number);
    four(1);
    six(1);
    let text = "[resp]\nlisten = []\n[http]\nlisten = ['127.0.0.1:0']\n[dns]\nlisten = []\n\
                [[database]]\nname = 'v'\npaths = ['v4.mmdb', 'v6.mmdb']\n";
    let config = Config::from_toml(text, &folder.join("reload.toml")).unwrap();
    let server = Server::start(config).unwrap();
    let versions = || {
        ["192.0.2.1", "2001:db8::1"].map(|address| {
            let reply = get(&server, &format!("/v1/ip/{address}?database=v")).json();
            reply["record"]["version"].as_u64().unwrap()
        })
    };
    assert_eq!(versions(), [1, 1]);
    six(2);
    wait_until("the second file serves", || versions() == [1, 2]);
    four(3);
    wait_until("the first file serves", || versions() == [3, 2]);
    rename_over(&folder.join("v6.mmdb"), b"broken");
    wait_until("a broken file is told", || info(&server, "reload_failures") == 1);
    assert_eq!(versions(), [3, 2]);
    assert!(info(&server, "last_reload_error").as_str().unwrap().contains("v6.mmdb"));
    six(4);
    wait_until("the whole file serves", || versions() == [3, 4]);
    assert_eq!(info(&server, "reload_failures"), 1);
    server.stop().unwrap();
}
