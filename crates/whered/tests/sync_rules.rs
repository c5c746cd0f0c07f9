//! `whered sync --ruleset` on the live kernel, in a network namespace of its own: real packets, and
//! the kernel's listing compared with that of a fresh load.
//!
//! ```text
//! server ─ RULES.SET, file, database, set ─► whered sync ─► table ─► packets over lo
//! random edits ─► difference ─► nft -f ─► listing ─┐
//!            └──► fresh load ─► listing ───────────┴─ equal
//! ```
//!
//! Not for: what programs decide (`compiled_rules`).

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod kernel;
mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use served::Served;
use whered_rules::flat::{Options, compile, difference};
use whered_rules::normal::NoPlaces;
use whered_rules::text;

const WHERED: &str = env!("CARGO_BIN_EXE_whered");

#[test]
fn a_served_ruleset_is_kept_in_step_in_the_kernel() {
    in_a_namespace("inside_of_a_namespace_with_a_server");
}

#[test]
fn differences_of_random_edits_make_the_table_that_a_fresh_load_makes() {
    in_a_namespace("inside_of_a_namespace_with_edits");
}

fn in_a_namespace(test: &str) {
    if !kernel::is_possible(&["nft", "ip"]) {
        return;
    }
    let own = std::env::current_exe().expect("this test's own file");
    let output = Command::new("unshare")
        .arg("-n")
        .arg(own)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("unshare was there before");
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{wrong}");
}

fn refuse_the_hosts_namespace() {
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    assert_ne!(own, fs::read_link(parent).expect("a namespace"), "run this by unshare -n only");
    kernel::run("ip", &["link", "set", "lo", "up"], "").expect("the loopback link");
}

fn nft(text: &str) {
    kernel::run("nft", &["-f", "-"], text).unwrap_or_else(|error| panic!("{error}\n{text}"));
}

/// A table as nft lists it, without handles and without the chain that says whose it is. Chains,
/// sets, maps and their elements are sorted; rules are in their order.
fn listed(table: &str) -> Vec<String> {
    let listed = kernel::run("nft", &["-j", "list", "table", "inet", table], "");
    let listed = listed.expect("it is loaded").replace(&format!("{table:?}"), "\"TABLE\"");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("nft writes JSON");
    let mut lines = Vec::new();
    for (number, item) in listed["nftables"].as_array().expect("an array").iter().enumerate() {
        let (kind, content) = item.as_object().and_then(|item| item.iter().next()).expect("one");
        let mut content = content.clone();
        let members = content.as_object_mut().expect("an object");
        members.remove("handle");
        if kind == "metainfo" || members.get("name").is_some_and(|it| it == "whered_synced") {
            continue;
        }
        if let Some(elements) = members.get_mut("elem").and_then(serde_json::Value::as_array_mut) {
            elements.sort_by_key(ToString::to_string);
        }
        // Rules are listed chain by chain, in their order.
        let order = if kind == "rule" {
            format!("{} {number:06}", members["chain"])
        } else {
            String::new()
        };
        lines.push((kind.clone(), order, content.to_string()));
    }
    lines.sort();
    lines.into_iter().map(|(kind, _, content)| format!("{kind} {content}")).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// A rule of a small world.
fn rule(random: &mut Random) -> String {
    let [a, b] = [(); 2].map(|()| random.below(60));
    let verdict = ["accept", "drop", "reject", "jump other"][random.below(4)];
    match random.below(8) {
        0..3 => format!("src 10.0.{a}.0/24 {verdict}"),
        3 => format!("src 10.0.{a}.0/25 dst 10.1.{b}.0/24 proto tcp dport {a}-{} {verdict}", a + b),
        4 => format!("src 10.0.{a}.7 proto udp dport {b} {verdict}"),
        5 => format!("src 2001:db8:{a:x}::/48 {verdict}"),
        6 => format!("in eth{} mark {} {verdict}", random.below(3), random.below(9)),
        _ => ["log \"a b\"", "set-mark 7", "proto tcp flags syn of {syn ack} accept"]
            [random.below(3)]
        .to_owned(),
    }
}

fn program(rules: &[String], others: &[String]) -> String {
    let lines =
        |rules: &[String]| -> String { rules.iter().map(|one| format!(" {one}\n")).collect() };
    let others = lines(others).replace("jump other", "return");
    let rules = format!(
        "set office {{ 10.9.0.{} 10.9.1.0/24 }}\nchain input policy drop {{\n src @office accept\n{}}}\n\
         chain other {{\n{others}}}\n",
        rules.len(),
        lines(rules)
    );
    let ruleset = text::read("edited", &rules).unwrap_or_else(|error| panic!("{error}\n{rules}"));
    let options = Options { table: "w", counters: false };
    compile(&ruleset, &NoPlaces, options).expect("nft can say that").text
}

#[test]
#[ignore = "takes over the network namespace that it runs in; the other test makes one"]
fn inside_of_a_namespace_with_edits() {
    refuse_the_hosts_namespace();
    let (mut changed, mut whole) = (0, 0);
    for seed in 1..4 {
        let mut random = Random(seed * 7919);
        let make =
            |random: &mut Random, count| (0..count).map(|_| rule(random)).collect::<Vec<_>>();
        let (mut rules, mut others) = (make(&mut random, 60), make(&mut random, 30));
        let mut before = program(&rules, &others);
        nft(&before);
        for _ in 0..40 {
            let list = if random.below(4) == 0 { &mut others } else { &mut rules };
            for _ in 0..=random.below(3) {
                let at = random.below(list.len());
                match random.below(3) {
                    0 => list[at] = rule(&mut random),
                    1 => list.insert(at, rule(&mut random)),
                    _ => drop(list.remove(at)),
                }
            }
            let after = program(&rules, &others);
            let text = difference(&before, &after).and_then(|difference| {
                let text = difference.text("inet w", |chain| Ok::<_, ()>(handles(chain)));
                text.expect("handles are there")
            });
            match text {
                Some(text) => nft(&text),
                None => nft(&after),
            }
            *(if text_is_small(&before, &after) { &mut changed } else { &mut whole }) += 1;
            let found = listed("w");
            nft(&after.replace("table inet w", "table inet fresh"));
            assert_eq!(found, listed("fresh"), "seed {seed}\n{before}\n{after}");
            before = after;
        }
    }
    assert!(changed > 30 && whole > 3, "{changed} {whole}");
}

fn text_is_small(before: &str, after: &str) -> bool {
    difference(before, after).is_some()
}

fn handles(chain: &str) -> Vec<u64> {
    let words = ["-j", "list", "chain", "inet", "w", chain];
    let listed = kernel::run("nft", &words, "").expect("nft lists");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("nft writes JSON");
    let items = listed["nftables"].as_array().expect("an array");
    items.iter().filter_map(|item| item["rule"]["handle"].as_u64()).collect()
}

/// Asks the server; what it answers.
fn ask(server: SocketAddr, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = [0; 4096];
    let size = stream.read(&mut answer).expect("it answers");
    let answer = String::from_utf8_lossy(&answer[..size]).into_owned();
    assert!(!answer.starts_with('-'), "{words:?}: {answer}");
    answer
}

/// Whether a packet from an address comes through.
fn passes(source: &str) -> bool {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    receiver.set_read_timeout(Some(Duration::from_millis(60))).expect("a socket");
    let sender = UdpSocket::bind((source, 0)).expect("an address of the loopback link");
    let sent = sender.send_to(b"ping", receiver.local_addr().expect("a port"));
    sent.is_ok() && receiver.recv(&mut [0; 8]).is_ok()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        let ruleset = || kernel::run("nft", &["list", "ruleset"], "").unwrap_or_default();
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}\n{}", ruleset());
        sleep(Duration::from_millis(20));
    }
}

/// A `whered sync` that runs.
struct Sync {
    child: Child,
    said: PathBuf,
}

impl Sync {
    fn start(served: &Served, more: &str) -> Sync {
        let said = served.folder.join("said");
        let out = fs::File::create(&said).expect("the folder can be written");
        let path = std::env::var("PATH").expect("a path");
        let child = Command::new(WHERED)
            .args(["sync", "--verbose", "--compare-interval", "1", "--server"])
            .arg(format!("redis://{}", served.resp))
            .args(more.split(' '))
            .env("PATH", format!("{}:{path}", served.folder.join("bin").display()))
            .stdout(Stdio::from(out.try_clone().expect("a file")))
            .stderr(Stdio::from(out))
            .spawn()
            .expect("the program runs");
        Sync { child, said }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("a file")
    }

    /// Ends it as a crash does.
    fn kill(mut self) -> String {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
        self.said()
    }
}

impl Drop for Sync {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

const CONFIGURATION: &str = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n\
    [[database]]\nname = \"city\"\npath = \"city.mmdb\"\n\
    [[ruleset]]\nname = \"file\"\npath = \"file.rules\"\n";

/// Writes a file as somebody does who renames it into place.
fn put(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("the folder can be written");
    fs::rename(&new, path).expect("the folder can be written");
}

/// A database in which one network is of a country, and another one is not.
fn database(folder: &Path, german: &str, other: &str) {
    let row = |net: &str, country: &str| {
        format!("{{\"network\":\"{net}\",\"country.iso_code\":\"{country}\"}}\n")
    };
    let rows = folder.join("rows.ndjson");
    fs::write(&rows, row(german, "DE") + &row(other, "FR")).expect("the folder can be written");
    let new = folder.join("new.mmdb");
    let (rows, new) = (rows.display().to_string(), new.display().to_string());
    kernel::run(WHERED, &["db", "build", &rows, "-o", &new], "").expect("good rows");
    fs::rename(new, folder.join("city.mmdb")).expect("the folder can be written");
}

/// A list of rules that is long enough for a map.
fn many(first: &str) -> String {
    let list: String = (0..40).map(|n| format!("  src 10.7.{n}.0/25 drop\n")).collect();
    format!("chain input policy accept {{\n  {first}\n{list}}}\n")
}

#[test]
#[ignore = "takes over the network namespace that it runs in; the other test makes one"]
fn inside_of_a_namespace_with_a_server() {
    refuse_the_hosts_namespace();
    let folder = served::folder("sync-rules");
    fs::write(folder.join("whered.toml"), CONFIGURATION).expect("the folder can be written");
    fs::write(folder.join("file.rules"), many("src 127.0.0.9 drop")).expect("writable");
    database(&folder, "127.0.0.16/32", "127.0.0.17/32");
    make_nft_that_can_fail(&folder);
    let served = Served::start(folder);
    a_file_and_commands_are_followed(&served);
    strangers_are_reported_and_undone(&served);
    sets_and_places_are_followed(&served);
    a_transaction_that_fails_leaves_the_old_rules(&served);
    tables_of_others_are_refused(&served);
}

fn a_file_and_commands_are_followed(served: &Served) {
    let sync = Sync::start(served, "--ruleset file");
    wait_until("the file's rules", || !passes("127.0.0.9"));
    assert!(passes("127.0.0.8"));
    put(&served.folder.join("file.rules"), &many("src 127.0.0.8 drop"));
    wait_until("the new rules", || !passes("127.0.0.8"));
    assert!(passes("127.0.0.9"));
    wait_until("what it says", || sync.said().contains("1 added, 1 removed"));
    // A wrong file leaves the old rules, here and there.
    put(&served.folder.join("file.rules"), "chain input policy {\n");
    served.wait_for_log("file.rules", 1);
    assert!(!passes("127.0.0.8"));
    let said = sync.kill();
    assert_eq!(said.matches("41 rules in ").count(), 1, "loaded once as a whole: {said}");
    ask(served.resp, &["RULES.SET", "command", "own", &many("src 127.0.0.9 drop")]);
    let sync = Sync::start(served, "--ruleset command");
    wait_until("the rules of a command", || !passes("127.0.0.9") && passes("127.0.0.8"));
    ask(served.resp, &["RULES.REPLACE", "command", "1", "src 127.0.0.7 drop"]);
    wait_until("the replaced rule", || !passes("127.0.0.7") && passes("127.0.0.9"));
    // Killed in the middle of changes, it begins with what is served.
    for n in 0..20 {
        ask(
            served.resp,
            &["RULES.REPLACE", "command", "1", &format!("src 127.0.0.{} drop", 100 + n)],
        );
    }
    drop(sync.kill());
    ask(served.resp, &["RULES.REPLACE", "command", "1", "src 127.0.0.9 drop"]);
    let sync = Sync::start(served, "--ruleset command --once");
    wait_until("the rules after a crash", || !passes("127.0.0.9") && passes("127.0.0.119"));
    drop(sync);
    let fresh = Command::new(WHERED)
        .args(["rules", "compile", "-", "--name", "fresh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            let rules = many("src 127.0.0.9 drop");
            child.stdin.take().expect("piped").write_all(rules.as_bytes())?;
            child.wait_with_output()
        });
    nft(&String::from_utf8_lossy(&fresh.expect("it runs").stdout));
    assert_eq!(listed("whered"), listed("fresh"));
    nft("delete table inet fresh\n");
}

fn strangers_are_reported_and_undone(served: &Served) {
    // However seldom the server is asked.
    let sync = Sync::start(served, "--ruleset command --interval 60");
    wait_until("the whole", || sync.said().contains("41 rules in"));
    let before = listed("whered");
    let reported = "nft table inet whered: somebody else has changed or replaced it; written anew";
    nft("insert rule inet whered input ip saddr 127.0.0.55 drop\n");
    wait_until("no rule of strangers", || listed("whered") == before && passes("127.0.0.55"));
    assert!(sync.said().contains(reported), "{}", sync.said());
    nft("flush ruleset\n");
    wait_until("the table", || !passes("127.0.0.9"));
    nft("flush map inet whered whered_1_v4\n");
    wait_until("the elements", || listed("whered") == before);
    // Tables of others are nobody's business.
    sleep(Duration::from_millis(700));
    let count = sync.said().matches("41 rules in").count();
    nft("add table inet other\nadd chain inet other c\n");
    sleep(Duration::from_millis(2500));
    assert_eq!(sync.said().matches("41 rules in").count(), count, "{}", sync.said());
}

fn sets_and_places_are_followed(served: &Served) {
    let rules = "chain input policy accept {\n  src @bad drop\n  src.country = DE drop\n}\n";
    ask(served.resp, &["CIDR.ADD", "bad", "127.0.0.20/32"]);
    ask(served.resp, &["RULES.SET", "placed", "own", rules]);
    let sync = Sync::start(served, "--ruleset placed --name placed");
    wait_until("the member", || !passes("127.0.0.20"));
    assert!(!passes("127.0.0.16") && passes("127.0.0.17"));
    ask(served.resp, &["CIDR.ADD", "bad", "EX", "3", "127.0.0.21/32"]);
    wait_until("the member that ends", || !passes("127.0.0.21"));
    let listed =
        kernel::run("nft", &["list", "set", "inet", "placed", "bad_v4"], "").expect("it is");
    assert!(listed.contains("127.0.0.21 timeout"), "{listed}");
    // The kernel alone ends it, whether somebody follows or not.
    wait_until("its end", || passes("127.0.0.21"));
    database(&served.folder, "127.0.0.17/32", "127.0.0.16/32");
    wait_until("the new database", || !passes("127.0.0.17") && passes("127.0.0.16"));
    assert!(!passes("127.0.0.20"));
    let said = sync.kill();
    assert_eq!(said.matches("2 rules in ").count(), 1, "only differences follow: {said}");
    assert!(said.contains("1 added, 1 removed"), "{said}");
    nft("delete table inet placed\n");
}

/// A program in front of nft that fails while a file is there.
fn make_nft_that_can_fail(folder: &Path) {
    let nft = kernel::run("sh", &["-c", "command -v nft"], "").expect("nft is there");
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let fail = folder.join("fail");
    let script = format!(
        "#!/bin/sh\nif [ -e {} ] && [ \"$*\" = '-f -' ]; then cat > /dev/null; \
         echo 'Error: Could not process rule: Cannot allocate memory' >&2; exit 1; fi\nexec {} \"$@\"\n",
        fail.display(),
        nft.trim()
    );
    let file = bin.join("nft");
    fs::write(&file, script).expect("a file");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("ours");
}

fn a_transaction_that_fails_leaves_the_old_rules(served: &Served) {
    let sync = Sync::start(served, "--ruleset command");
    wait_until("the whole", || sync.said().contains("41 rules in"));
    let before = listed("whered");
    fs::write(served.folder.join("fail"), "").expect("the folder can be written");
    ask(served.resp, &["RULES.REPLACE", "command", "1", "in lo src 127.0.0.30 drop"]);
    let line = "Cannot allocate memory; the rules stay as they are, trying again";
    wait_until("what is wrong", || sync.said().contains(line));
    sleep(Duration::from_millis(1500));
    assert_eq!(sync.said().matches(line).count(), 1, "{}", sync.said());
    assert_eq!(listed("whered"), before);
    fs::remove_file(served.folder.join("fail")).expect("it is there");
    wait_until("the new rule", || !passes("127.0.0.30") && passes("127.0.0.9"));
    wait_until("what it says", || sync.said().contains("in step again"));
    // What nft cannot say leaves the old rules, too.
    ask(served.resp, &["RULES.REPLACE", "command", "1", "with ttl 1 drop"]);
    wait_until("the reason", || sync.said().contains("found \"with ttl 1\""));
    assert!(!passes("127.0.0.30"));
    ask(served.resp, &["RULES.REPLACE", "command", "1", "src 127.0.0.31 drop"]);
    wait_until("the next version", || !passes("127.0.0.31") && passes("127.0.0.30"));
}

fn tables_of_others_are_refused(served: &Served) {
    nft("add table inet theirs\n");
    let run = |more: &str| {
        let server = format!("redis://{}", served.resp);
        let mut words = vec!["sync", "--server", &server, "--ruleset", "command", "--once"];
        words.extend(more.split(' '));
        kernel::run(WHERED, &words, "")
    };
    let error = run("--name theirs").expect_err("it is refused");
    assert!(error.contains("found table inet theirs, which another program has loaded"), "{error}");
    run("--name theirs --replace").expect("it is asked for");
    run("--name theirs").expect("it is ours now");
    let error = run("--name a/b").expect_err("no name");
    assert!(error.contains("found the name \"a/b\""), "{error}");
}
