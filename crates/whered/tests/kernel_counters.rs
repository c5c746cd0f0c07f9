//! The kernel as a judge: the same rules loaded into nf_tables, iptables and ipset by `whered rules
//! convert`, thousands of real packets sent, and each rule's counter compared with ours.
//!
//! ```text
//! rules ─ convert ─► nft, iptables-restore, ipset ─► input hook of lo ─┐
//! packets ─ raw socket ─► lo ─────────────────────────────────────────┴► counters, by the rule's comment
//!    └────► Matcher: rule, met, passed ─────────────────────────────────► ours
//! ```
//!
//! Not for: what formats mean. Packets carry a time to live of their own, by which a guard keeps
//! the kernel's answers (resets, unreachables) out of the rules.

mod kernel;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use whered_rules::classify::plan::Budget;
use whered_rules::compile::Matcher;
use whered_rules::naive::{NoSets, evaluate};
use whered_rules::normal::NoPlaces;
use whered_rules::{Packet, Ruleset, State, text};

const PACKETS: usize = 3000;
const OWN_TTL: u8 = 77;

const GUARD: &str = "table inet guard {\n chain out {\n  type filter hook output priority -300;\n  \
    ip ttl != 77 drop\n  ip6 hoplimit >= 0 drop\n }\n}\n";

/// Hand-written rules with chains, sets, ranges, negation, logs and a state.
const STAFF: &str = r#"
set office {
    10.1.0.0/16
    10.9.0.3-10.9.0.9
}
chain input policy drop {
    state {established related} accept
    proto tcp continue
    src @office jump staff
    proto tcp dport {80 443 1000-2000} accept
    not src 10.0.0.0/8 proto udp dport 53 accept
    proto icmp icmp echo-request accept
    in lo src 192.0.2.0/24 reject
    proto {tcp udp} dport 3000-5000 continue
    in eth+ accept
    dscp ef accept
    not proto tcp dst 10.9.0.0/24 goto rest
    state new src 10.0.0.0/8 return
    src 8.0.0.0-9.255.255.255 accept
}
chain staff {
    proto tcp dport 22 accept
    not dport 53 return
    accept
}
chain rest {
    proto udp accept
}
"#;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Prefixes that packets meet, and some that hold each other.
const NETS: [&str; 10] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.9.0.3-10.9.0.9",
    "8.8.8.0/24",
    "192.0.2.0/24",
    "10.9.0.0/24",
    "0.0.0.0/1",
    "9.9.9.9",
    "8.0.0.0/7",
];
const PORTS: [&str; 6] = ["22", "53", "{80 443}", "1000-2000", "{53 3000-5000}", "1-1023"];

/// Random rules of a small world.
fn generated(seed: u64) -> String {
    let mut random = Random(seed | 1);
    let mut rules = String::from("set office {\n    10.1.0.0/16\n    10.9.0.3-10.9.0.9\n}\n");
    for chain in ["input policy drop", "first", "later"] {
        let _ = writeln!(rules, "chain {chain} {{");
        for _ in 0..8 + random.below(20) {
            let mut line = String::from("   ");
            for _ in 0..random.below(3) + usize::from(random.below(4) == 0) {
                let not = if random.below(4) == 0 { "not " } else { "" };
                let condition = match random.below(6) {
                    0 => format!("src {}", random.pick(&NETS)),
                    1 => format!("dst {}", random.pick(&NETS)),
                    2 => format!("proto {}", random.pick(&["tcp", "udp", "{tcp udp}", "icmp"])),
                    3 => format!(
                        "proto {} dport {}",
                        random.pick(&["tcp", "udp"]),
                        random.pick(&PORTS)
                    ),
                    4 => "src @office".to_owned(),
                    _ => "dscp ef".to_owned(),
                };
                // iptables has no rule for all but two protocols.
                let negatable = !condition.contains("dport") && !condition.contains("{tcp udp}");
                let not = if negatable { not } else { "" };
                // One condition of a kind a rule.
                let kind = condition.split([' ', '@']).next().unwrap_or_default().to_owned();
                if !line.contains(&format!(" {kind} ")) {
                    let _ = write!(line, " {not}{condition}");
                }
            }
            let calls: &[&str] = match chain {
                "first" => &["jump later", "goto later"],
                "later" => &["return", "accept"],
                _ => &["jump first", "jump later", "goto later"],
            };
            let action = match random.below(6) {
                0 => random.pick(calls),
                1 => "drop",
                2 | 3 => "continue",
                4 => "accept",
                _ => "return",
            };
            let _ = writeln!(rules, "{line} {action}");
        }
        rules.push_str("}\n");
    }
    rules
}

/// The same rules, each with a counter and its line as a comment.
fn marked(rules: &str) -> String {
    let mut depth = "";
    let lines = rules.lines().zip(1..).map(|(line, number)| {
        if line.starts_with("chain") {
            depth = "chain";
        } else if line.starts_with("set") || line.starts_with('}') {
            depth = "";
        }
        if depth == "chain" && line.starts_with(' ') {
            format!("    [0:0] {} comment \"{number}\"\n", line.trim())
        } else {
            format!("{line}\n")
        }
    });
    lines.collect()
}

fn packets(seed: u64) -> Vec<Packet<'static>> {
    const SOURCES: [[u8; 4]; 8] = [
        [10, 1, 2, 3],
        [10, 9, 0, 5],
        [10, 200, 1, 1],
        [8, 8, 8, 8],
        [9, 9, 9, 9],
        [192, 0, 2, 77],
        [203, 0, 113, 1],
        [10, 9, 0, 10],
    ];
    const DESTINATIONS: [u16; 9] = [22, 53, 80, 443, 1500, 4000, 9, 1023, 31_000];
    let mut random = Random(seed | 1);
    let mut address = || {
        let mut octets = SOURCES[random.below(SOURCES.len())];
        if random.below(3) == 0 {
            octets[3] = 1 + random.below(254) as u8;
        }
        (IpAddr::V4(Ipv4Addr::from(octets)), random.below(1 << 30))
    };
    let packet = |_| {
        let ((source, a), (destination, b)) = (address(), address());
        let protocol = [6, 17, 17, 6, 1][a % 5];
        let has_ports = protocol != 1;
        Packet {
            source,
            destination,
            protocol,
            source_port: if has_ports { 32_768 + (b % 32_000) as u16 } else { 0 },
            destination_port: if has_ports { DESTINATIONS[a / 5 % 9] } else { 0 },
            icmp_type: if has_ports { 0 } else { 8 },
            tcp_flags: if protocol == 6 { 2 } else { 0 },
            state: State::New,
            input: "lo",
            dscp: if b % 7 == 0 { 46 } else { 0 },
            ..Packet::default()
        }
    };
    (0..PACKETS).map(packet).collect()
}

/// The packet as octets; the kernel puts the header's sum in.
fn octets(packet: &Packet<'_>) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source, packet.destination) else {
        panic!("packets of this test are of IPv4");
    };
    let [sport, dport] = [packet.source_port, packet.destination_port].map(u16::to_be_bytes);
    let mut body = match packet.protocol {
        6 => {
            let head = [&sport[..], &dport, &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, packet.tcp_flags]];
            [&head.concat()[..], &[32, 0, 0, 0, 0, 0]].concat()
        }
        17 => [&sport[..], &dport, &[0, 12, 0, 0], b"ping"].concat(),
        _ => vec![8, 0, 0, 0, 0, 1, 0, 1],
    };
    if packet.protocol != 17 {
        let mut pseudo = Vec::new();
        if packet.protocol == 6 {
            pseudo = [&source.octets()[..], &destination.octets(), &[0, 6, 0, body.len() as u8]]
                .concat();
        }
        let sum = [pseudo, body.clone()].concat().chunks(2).fold(0_u32, |sum, pair| {
            sum + (u32::from(pair[0]) << 8) + u32::from(*pair.get(1).unwrap_or(&0))
        });
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let place = if packet.protocol == 6 { 16 } else { 2 };
        body[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let length = (20 + body.len() as u16).to_be_bytes();
    let mut whole = vec![0x45, packet.dscp << 2, length[0], length[1], 0, 1, 0, 0, OWN_TTL];
    whole.extend([packet.protocol, 0, 0]);
    whole.extend(source.octets());
    whole.extend(destination.octets());
    whole.extend(body);
    whole
}

/// How many packets each line met, by us.
fn ours(ruleset: &Ruleset, packets: &[Packet<'_>]) -> BTreeMap<u32, u64> {
    let start = Instant::now();
    let budget = Budget { time: Duration::from_millis(50), ..Budget::default() };
    let matcher = Matcher::build(ruleset, &NoPlaces, budget, &|| start.elapsed())
        .expect("good rules are compiled");
    let mut counts = BTreeMap::new();
    for packet in packets {
        let outcome = matcher.find(packet, &NoSets);
        let walked = evaluate(ruleset, packet, &NoSets);
        assert_eq!((&outcome.verdict, outcome.rule), (&walked.verdict, walked.rule));
        for id in outcome.rule.iter().chain(&outcome.matched).chain(&walked.passed) {
            *counts.entry(ruleset.rule(*id).origin.line).or_default() += 1;
        }
        // A return from the first chain is a decision of its policy, by a rule that is met.
    }
    counts
}

fn of_nft() -> BTreeMap<u32, u64> {
    let listed = kernel::run("nft", &["-j", "list", "ruleset"], "").expect("nft lists");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("nft writes JSON");
    let mut counts = BTreeMap::new();
    for item in listed["nftables"].as_array().expect("an array") {
        let Some(line) = item["rule"]["comment"].as_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        let statements = item["rule"]["expr"].as_array().expect("statements");
        let packets = statements.iter().find_map(|it| it["counter"]["packets"].as_u64());
        *counts.entry(line).or_default() += packets.expect("a counter");
    }
    counts
}

fn of_iptables(save: &str) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    let saved = kernel::run(save, &["-c"], "").expect("iptables saves");
    for line in saved.lines().filter(|line| line.contains("--comment")) {
        let number = |text: &str| {
            let digits = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
            let end = digits.find(|letter: char| !letter.is_ascii_digit());
            digits[..end.unwrap_or(digits.len())].parse::<u64>().expect("a number")
        };
        let comment = line.split("--comment").nth(1).expect("a comment");
        *counts.entry(number(comment) as u32).or_default() += number(line);
    }
    counts
}

fn convert(rules: &str, to: &str) -> String {
    kernel::run(env!("CARGO_BIN_EXE_whered"), &["rules", "convert", "-", "--format", to], rules)
        .unwrap_or_else(|error| panic!("{error}\n{rules}"))
}

/// Loads, sends, and compares.
#[allow(clippy::print_stdout, reason = "a skipped backend says so")]
fn judge(rules: &str, seed: u64) {
    let rules = marked(rules);
    let ruleset = text::read("standard input", &rules).unwrap_or_else(|e| panic!("{e}\n{rules}"));
    let packets = packets(seed);
    let mut expected = ours(&ruleset, &packets);
    expected.retain(|_, count| *count > 0);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("root");
    let compare = |backend: &str, count: &dyn Fn() -> BTreeMap<u32, u64>| {
        for packet in &packets {
            let IpAddr::V4(to) = packet.destination else { continue };
            let to = SockAddr::from(SocketAddrV4::new(to, 0));
            socket.send_to(&octets(packet), &to).expect("the packet leaves");
        }
        let start = Instant::now();
        loop {
            let mut found = count();
            found.retain(|_, count| *count > 0);
            if found == expected || start.elapsed() > Duration::from_secs(3) {
                assert_eq!(found, expected, "{backend}, seed {seed}\n{rules}");
                break;
            }
        }
    };
    let nft = format!("flush ruleset\n{GUARD}{}", convert(&rules, "nft"));
    kernel::run("nft", &["-f", "-"], &nft).unwrap_or_else(|error| panic!("{error}\n{nft}"));
    compare("nft", &of_nft);
    kernel::run("nft", &["-f", "-"], &format!("flush ruleset\n{GUARD}")).expect("nft flushes");
    kernel::run("ipset", &["restore"], &convert(&rules, "ipset")).expect("ipset restores");
    let tables = convert(&rules, "iptables");
    for kind in ["iptables-legacy", "iptables-nft"] {
        let restore = format!("{kind}-restore");
        if kernel::run("sh", &["-c", &format!("command -v {restore}")], "").is_err() {
            println!("skipped: no {kind} here");
            continue;
        }
        kernel::run(&restore, &["-c"], &tables).unwrap_or_else(|e| panic!("{e}\n{tables}"));
        compare(kind, &|| of_iptables(&format!("{kind}-save")));
        let empty = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n";
        kernel::run(&restore, &[], empty).expect("iptables is emptied");
    }
    kernel::run("ipset", &["destroy"], "").expect("no rule asks the sets any more");
}

#[test]
fn the_kernel_counts_what_we_count() {
    if !kernel::is_possible(&["nft", "ipset", "iptables-save", "ip"]) {
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
    let link = "ip link set lo up && ip route add local default dev lo";
    kernel::run("sh", &["-c", link], "").expect("the loopback link");
    judge(STAFF, 1);
    for seed in 2..8 {
        judge(&generated(seed * 7919), seed);
    }
}
