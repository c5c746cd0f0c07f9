//! The kernel as a judge of `whered rules compile`: the same packets through rules that are written
//! one by one (`rules convert`) and through the compiled program, each rule's counter compared.
//!
//! ```text
//! rules ─ convert ─► nft ─┐                          ┌─► counters, by the rule's line ─┐
//!       ─ compile ─► nft ─┴─ input hook of lo ◄──────┤                                 ├─ equal
//! packets ─ raw sockets, IPv4 and IPv6, fragments ───┴─► counters, by the rule's line ─┘
//! ```
//!
//! A rule that decides has counted the packet, so equal counters are equal verdicts. Not for: what
//! we say of the packets (`kernel_counters`). Packets carry a time to live of their own, by which a
//! guard keeps the kernel's answers out of the rules.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod kernel;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::process::Command;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

const PACKETS: usize = 2000;
const OWN_TTL: u8 = 77;

const GUARD: &str = "table inet guard {\n chain out {\n  type filter hook output priority -300;\n  \
    ip ttl != 77 drop\n  ip6 hoplimit != 77 drop\n }\n}\n";

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const NETS: [&str; 14] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.9.0.3-10.9.0.9",
    "8.8.8.8",
    "192.0.2.0/24",
    "{10.9.0.0/24 10.1.2.3}",
    "0.0.0.0/1",
    "9.9.9.9",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1::1",
    "{2001:db8:2::1-2001:db8:2::9 10.1.2.5}",
    "2000::/3",
];
const PORTS: [&str; 7] = ["22", "53", "{80 443}", "1000-2000", "{53 3000-5000}", "1-1023", "443"];

/// A list of addresses that some packets have.
fn net(random: &mut Random) -> String {
    match random.below(4) {
        0 => NETS[random.below(NETS.len())].to_owned(),
        1 => format!("2001:db8:{}::{:x}", random.below(3), 1 + random.below(130)),
        _ => format!("10.{}.{}.0/24", [1, 9, 200][random.below(3)], random.below(130)),
    }
}

/// Random rules of a small world, in runs that are long enough for maps.
fn generated(seed: u64) -> String {
    let mut random = Random(seed | 1);
    let mut rules = String::new();
    for chain in ["input policy drop", "first", "later"] {
        let _ = writeln!(rules, "chain {chain} {{");
        for _ in 0..150 {
            let mut line = String::from("   ");
            let not = |random: &mut Random| if random.below(6) == 0 { "not " } else { "" };
            if random.below(3) > 0 {
                let _ = write!(line, " {}src {}", not(&mut random), net(&mut random));
            }
            if random.below(3) == 0 {
                let _ = write!(line, " {}dst {}", not(&mut random), net(&mut random));
            }
            match random.below(8) {
                0 => line += " proto tcp",
                1 => line += " proto {udp icmp}",
                2 => {
                    let _ = write!(line, " proto tcp dport {}", random.pick(&PORTS));
                }
                3 => {
                    let _ = write!(line, " proto udp dport {}", random.pick(&PORTS));
                }
                4 if random.below(2) == 0 => {
                    let side = random.pick(&["port", "not port", "sport", "dport"]);
                    let ports = ["0-65535", "22"][usize::from(side == "not port")];
                    let _ = write!(line, " {side} {ports}");
                }
                4 => {
                    let _ = write!(line, " not sport {}", random.pick(&PORTS));
                }
                5 if random.below(4) == 0 => line += " icmp echo-request",
                6 if random.below(4) == 0 => line += " flags syn of {syn ack}",
                _ => {}
            }
            if line.trim().is_empty() {
                let _ = write!(line, " src {}", net(&mut random));
            }
            let calls: &[&str] = match chain {
                "first" => &["jump later", "goto later"],
                "later" => &["return", "accept"],
                _ => &["jump first", "jump later", "goto later"],
            };
            let action = match random.below(12) {
                0 => random.pick(calls),
                1 => "continue",
                2..5 => "drop",
                5 => "reject",
                6 => "return",
                _ => "accept",
            };
            let _ = writeln!(rules, "{line} {action}");
        }
        rules.push_str("}\n");
    }
    rules
}

/// Long lists of one kind, as blocklists and access lists are, that maps of each kind take.
fn lists() -> String {
    let mut rules = String::from("chain input policy drop {\n");
    for n in 0..120 {
        let _ = writeln!(rules, "    src 10.9.0.{n} drop");
        let _ = writeln!(rules, "    src 10.1.{n}.0/24 proto tcp dport {} accept", 20 + n);
        let _ = writeln!(rules, "    src 2001:db8:1::{n:x} dst 2001:db8::/32 accept");
        let verdict = if n % 2 == 0 { "accept" } else { "drop" };
        let _ = writeln!(rules, "    dst 10.{n}.0.0/16 {verdict}");
        let _ = writeln!(rules, "    proto udp dport {} {verdict}", n * 40);
    }
    rules + "}\n"
}

/// The same rules, each with a counter and its line as a comment.
fn marked(rules: &str) -> String {
    let lines = rules.lines().zip(1..).map(|(line, number)| {
        if line.starts_with(' ') {
            format!("    [0:0] {} comment \"{number}\"\n", line.trim())
        } else {
            format!("{line}\n")
        }
    });
    lines.collect()
}

/// The header of a protocol: what rules look at, and no right sums.
fn body(random: &mut Random, version: usize) -> (u8, Vec<u8>) {
    const PORTS: [u16; 11] = [22, 53, 80, 443, 1500, 4000, 9, 1023, 31_000, 40, 120];
    let sport = [PORTS[random.below(11)], 40_000][random.below(2)].to_be_bytes();
    let dport = PORTS[random.below(11)].to_be_bytes();
    match random.below(6) {
        0..2 => {
            let flags = [2, 16, 18, 4][random.below(4)];
            let rest = [0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 32, 0, 0, 0, 0, 0];
            (6, [&sport[..], &dport, &rest].concat())
        }
        2..4 => (17, [&sport[..], &dport, &[0, 12, 0, 0], b"ping"].concat()),
        4 if version == 4 => (1, vec![[8, 3, 13][random.below(3)], 0, 0, 0, 0, 1, 0, 1]),
        4 => (58, vec![[128, 1][random.below(2)], 0, 0, 0, 0, 1, 0, 1]),
        // So short that no ports can be read.
        _ => ([17, 47][random.below(2)], vec![0; random.below(3)]),
    }
}

/// A packet and where it goes. A later fragment has data where others have their header.
enum Whole {
    V4(Vec<u8>, Ipv4Addr),
    V6(Vec<u8>, Ipv6Addr),
}

fn packet(random: &mut Random, is_fragment: bool) -> Whole {
    if random.below(5) < 3 {
        let mut address = || {
            let known = [[10, 1, 2, 3], [10, 9, 0, 5], [10, 200, 1, 1], [8, 8, 8, 8], [9, 9, 9, 9]];
            let mut octets = known[random.below(5)];
            match random.below(3) {
                0 => octets[3] = 1 + random.below(254) as u8,
                1 => octets[2] = random.below(130) as u8,
                _ => {}
            }
            Ipv4Addr::from(octets)
        };
        let (source, destination) = (address(), address());
        let (protocol, body) = body(random, 4);
        let length = (20 + body.len() as u16).to_be_bytes();
        let offset = if is_fragment { [0, 7] } else { [0, 0] };
        let head = [0x45, 0, length[0], length[1], 0, 1, offset[0], offset[1], OWN_TTL, protocol];
        let mut whole = [&head[..], &[0, 0]].concat();
        whole.extend(source.octets());
        whole.extend(destination.octets());
        whole.extend(body);
        return Whole::V4(whole, destination);
    }
    let mut address = || {
        let low = 1 + random.below(130) as u16;
        Ipv6Addr::new(0x2001, 0xdb8, random.below(3) as u16, 0, 0, 0, 0, low)
    };
    let (source, destination) = (address(), address());
    let (mut protocol, mut body) = body(random, 6);
    if is_fragment {
        body = [&[protocol, 0, 0, 56, 0, 0, 0, 1], body.as_slice()].concat();
        protocol = 44;
    }
    let length = (body.len() as u16).to_be_bytes();
    let mut whole = vec![0x60, 0, 0, 0, length[0], length[1], protocol, OWN_TTL];
    whole.extend(source.octets());
    whole.extend(destination.octets());
    whole.extend(body);
    Whole::V6(whole, destination)
}

/// How many packets each line has counted, in rules and in elements.
fn counters() -> BTreeMap<u32, u64> {
    let listed = kernel::run("nft", &["-j", "list", "ruleset"], "").expect("nft lists");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("nft writes JSON");
    let mut counts = BTreeMap::new();
    let mut add = |comment: &serde_json::Value, packets: Option<u64>| {
        // A rule's own comment is its line; an element's is `standard input:7 (input 3)`.
        let text = comment.as_str().unwrap_or_default();
        let text = text.split(' ').find_map(|word| word.strip_prefix("input:")).unwrap_or(text);
        if let (Ok(line), Some(packets)) = (text.parse::<u32>(), packets) {
            *counts.entry(line).or_default() += packets;
        }
    };
    for item in listed["nftables"].as_array().expect("an array") {
        let statements = item["rule"]["expr"].as_array().map_or(&[][..], Vec::as_slice);
        let packets = statements.iter().find_map(|it| it["counter"]["packets"].as_u64());
        add(&item["rule"]["comment"], packets);
        for element in item["map"]["elem"].as_array().map_or(&[][..], Vec::as_slice) {
            let element = &element[0]["elem"];
            add(&element["comment"], element["counter"]["packets"].as_u64());
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// Sends the packets through a program; the counters afterwards.
fn counted(program: &str, seed: u64, are_fragments: bool) -> BTreeMap<u32, u64> {
    let text = format!("flush ruleset\n{GUARD}{program}");
    kernel::run("nft", &["-f", "-"], &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    send(seed, are_fragments);
    // The last ones may still be on their way.
    let mut last = BTreeMap::new();
    loop {
        let now = counters();
        if now == last {
            return now;
        }
        last = now;
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

/// Sends packets of random kinds, or later fragments of them alone.
fn send(seed: u64, are_fragments: bool) {
    let v4 = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("root");
    let v6 = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(255))).expect("root");
    let mut random = Random(seed * 31 + 1);
    for _ in 0..PACKETS {
        let sent = match packet(&mut random, are_fragments) {
            Whole::V4(octets, to) => v4.send_to(&octets, &SockAddr::from(SocketAddrV4::new(to, 0))),
            Whole::V6(octets, to) => {
                v6.send_to(&octets, &SockAddr::from(SocketAddrV6::new(to, 0, 0, 0)))
            }
        };
        if let Err(error) = sent {
            // The hook of packets that leave has dropped it.
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
        }
    }
}

/// How many lookups the program has, and how many lines have counted.
fn judge(rules: &str, seed: u64) -> [usize; 2] {
    let rules = marked(rules);
    let whered = |arguments: &[&str]| {
        kernel::run(env!("CARGO_BIN_EXE_whered"), arguments, &rules)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{rules}"))
    };
    let written = whered(&["rules", "convert", "-", "--format", "nft"]);
    let compiled = whered(&["rules", "compile", "-", "--to", "nft", "--counters"]);
    let (expected, found) = (counted(&written, seed, false), counted(&compiled, seed, false));
    assert_eq!(found, expected, "seed {seed}\n{rules}\n{compiled}");
    [compiled.matches(" vmap @").count(), expected.len()]
}

/// The same rules without those that ask for what a later fragment does not have.
fn without_headers(rules: &str) -> String {
    let asks = |line: &str| ["port ", " icmp ", " flags "].iter().any(|word| line.contains(word));
    rules.lines().map(|line| if asks(line) { "\n" } else { line }.to_owned() + "\n").collect()
}

/// Later fragments through rules that ask for ports, ICMP types and TCP flags, at a hook where they
/// are not reassembled: as if those rules were not there. How many lines have counted.
fn judge_fragments(seed: u64) -> usize {
    let rules = marked(&generated(seed)).replace("chain input", "chain output");
    let whered = |arguments: &[&str], rules: &str| {
        kernel::run(env!("CARGO_BIN_EXE_whered"), arguments, rules)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{rules}"))
    };
    let written = whered(&["rules", "convert", "-", "--format", "nft"], &without_headers(&rules));
    let compiled = whered(&["rules", "compile", "-", "--to", "nft", "--counters"], &rules);
    let (expected, found) = (counted(&written, seed, true), counted(&compiled, seed, true));
    assert_eq!(found, expected, "seed {seed}\n{rules}\n{compiled}");
    expected.len()
}

/// Rules of iptables that ask for ports in each way.
const SAVED: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:late - [0:0]
[0:0] -A OUTPUT -p udp -m udp --dport 0:65535 -m comment --comment 6 -j late
[0:0] -A OUTPUT -s 10.1.0.0/16 -p tcp -m tcp --sport 0:65535 -m comment --comment 7 -j DROP
[0:0] -A OUTPUT -p tcp -m tcp ! --dport 22 -m comment --comment 8 -j DROP
[0:0] -A OUTPUT -p tcp -m multiport --ports 0:65535 -m comment --comment 9 -j DROP
[0:0] -A OUTPUT -p udp -m multiport ! --ports 1:20 -m comment --comment 10 -j DROP
[0:0] -A OUTPUT -p icmp -m icmp --icmp-type 8 -m comment --comment 11 -j DROP
[0:0] -A OUTPUT -d 10.9.0.0/16 -m comment --comment 12 -j DROP
[0:0] -A OUTPUT -p udp -m comment --comment 13 -j DROP
[0:0] -A OUTPUT -p tcp -m comment --comment 14 -j DROP
[0:0] -A late -d 10.1.0.0/16 -p udp -m udp --dport 53 -m comment --comment 15 -j DROP
[0:0] -A late -s 10.9.0.0/16 -m comment --comment 16 -j RETURN
[0:0] -A late -p udp -m udp --sport 1:60000 -m comment --comment 17 -j DROP
COMMIT
";

/// Later fragments through iptables and through its rules compiled.
fn iptables_counts_the_same() {
    if kernel::run("sh", &["-c", "command -v iptables-legacy-save"], "").is_err() {
        return;
    }
    let compiled = kernel::run(
        env!("CARGO_BIN_EXE_whered"),
        &["rules", "compile", "-", "--counters", "--chain", "OUTPUT"],
        SAVED,
    );
    let compiled = compiled.expect("nft can say these rules");
    for seed in [5, 6, 7] {
        kernel::run("nft", &["-f", "-"], &format!("flush ruleset\n{GUARD}")).expect("loaded");
        kernel::run("iptables-legacy-restore", &["-c"], SAVED).expect("iptables takes it");
        send(seed, true);
        let saved = kernel::run("iptables-legacy-save", &["-c"], "").expect("it is saved");
        kernel::run("iptables-legacy", &["-F"], "").expect("flushed");
        let rules = saved.lines().filter(|line| line.starts_with('['));
        let expected: BTreeMap<u32, u64> = rules
            .zip(6..)
            .filter_map(|(line, number)| {
                let packets = line.strip_prefix('[')?.split(':').next()?.parse().ok()?;
                (packets > 0).then_some((number, packets))
            })
            .collect();
        let found = counted(&compiled, seed, true);
        assert_eq!(found, expected, "{saved}\n{compiled}");
        assert_eq!(expected.len(), 3, "{saved}");
    }
}

#[test]
fn the_kernel_counts_the_same_in_rules_and_in_their_compiled_program() {
    if !kernel::is_possible(&["nft", "ip"]) {
        return;
    }
    let own = std::env::current_exe().expect("this test's own file");
    let output = Command::new("unshare")
        .arg("-n")
        .arg(own)
        .args(["--exact", "inside_of_a_namespace", "--ignored", "--nocapture"])
        .output()
        .expect("unshare was there before");
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{wrong}");
}

#[test]
#[ignore = "takes over the network namespace that it runs in; the other test makes one"]
fn inside_of_a_namespace() {
    let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    let outer = std::fs::read_link(parent).expect("a namespace");
    assert_ne!(own, outer, "run this by unshare -n only");
    let link = "ip link set lo up && ip route add local default dev lo && \
        ip -6 route add local default dev lo";
    kernel::run("sh", &["-c", link], "").expect("the loopback link");
    let [mut lookups, mut lines] = judge(&lists(), 1);
    for seed in 2..14 {
        let [more_lookups, more_lines] = judge(&generated(seed * 7919), seed);
        (lookups, lines) = (lookups + more_lookups, lines + more_lines);
    }
    assert!(lookups > 20 && lines > 200, "{lookups} {lines}");
    let lines: usize = (20..32).map(|seed| judge_fragments(seed * 7919)).sum();
    assert!(lines > 30, "{lines}");
    iptables_counts_the_same();
    the_loaded_rules_are_read();
}

fn the_loaded_rules_are_read() {
    let rules = "flush ruleset\ntable inet host {\n chain input {\n  type filter hook input priority 0; \
        policy drop;\n  ip saddr 10.0.0.1 tcp dport 22 accept\n  ip saddr 10.0.0.1 tcp dport 22 drop\n }\n}\n";
    kernel::run("nft", &["-f", "-"], rules).expect("nft takes it");
    let whered = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        kernel::run(env!("CARGO_BIN_EXE_whered"), &words, "")
    };
    let packet = "--source 10.0.0.1 --destination 192.0.2.1 --protocol tcp --destination-port 22";
    let explained = whered(&format!("rules explain --live {packet}")).expect("it is read");
    assert!(explained.starts_with("accept by nft -j list ruleset:1 (input 1)"), "{explained}");
    let found = whered("rules check --live").expect_err("exit code 1: one rule is shadowed");
    assert!(found.contains("handle"), "{found}");
    let plan = whered("rules compile --live --explain").expect("it is compiled");
    assert!(plan.starts_with("chain input (nft -j list ruleset:1): 2 rules become"), "{plan}");
    let wrong = whered("rules check --live --input-format own").expect_err("no such listing");
    assert!(wrong.contains("allowed is nft or iptables"), "{wrong}");
}
