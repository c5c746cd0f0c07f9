//! Debian's NSD and Knot beside us: thousands of questions and broken messages, and each answer
//! equal to that of one of the two, or on the list of exceptions with its reason
//! (`docs/design/dns.md` has the list in words).
//!
//! Not for: our own sockets; our answers are asked of the function, theirs over UDP.
//! It is skipped where `nsd` or `knotd` is missing, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod harness;
#[path = "harness/peers.rs"]
mod peers;

use std::collections::{BTreeMap, BTreeSet};

use harness::{name, query};
use peers::{Case, Peer, Peers, Seen};
use whered_dns::{Context, Name, RecordType, Transport, Zone, Zones, answer};

const ORIGINS: [&str; 8] = [
    "feature.test",
    "other.test",
    "kid.feature.test",
    "gen-a.test",
    "gen-b.test",
    "gen-c.test",
    "gen-d.test",
    "2.0.192.in-addr.arpa",
];

const TYPES: [RecordType; 14] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::NS,
    RecordType::CNAME,
    RecordType::SOA,
    RecordType::MX,
    RecordType::TXT,
    RecordType::SRV,
    RecordType::DNAME,
    RecordType::DS,
    RecordType::PTR,
    RecordType::CAA,
    RecordType(65),
    RecordType(65280),
];

/// Owners of data that only one type has.
const RARE_TYPES: [(&str, u16); 10] = [
    ("hinfo.feature.test", 13),
    ("minfo.feature.test", 14),
    ("rp.feature.test", 17),
    ("afs.feature.test", 18),
    ("naptr.feature.test", 35),
    ("kx.feature.test", 36),
    ("sshfp.feature.test", 44),
    ("tlsa.feature.test", 52),
    ("svc.feature.test", 65),
    ("spf.feature.test", 99),
];

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A zone of random owners out of few labels: they meet in every way.
fn generated(origin: &str, seed: u64) -> String {
    let mut random = Random(seed);
    let mut text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.other.test.\n".to_owned();
    let mut taken: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for _ in 0..220 {
        let labels: Vec<&str> = (0..=random.below(4))
            .map(|_| *random.pick(&["a", "b", "c", "d", "e", "f", "*"]))
            .collect();
        let owner = labels.join(".");
        let target = match random.below(6) {
            0 => "www.other.test.".to_owned(),
            1 => format!("a.b.{origin}."),
            2 => "elsewhere.example.".to_owned(),
            _ => format!("{}.{}", random.pick(&["a", "b", "c"]), random.pick(&["d", "e", "f"])),
        };
        let (kind, data) = match random.below(10) {
            0..3 => ("A", format!("192.0.2.{}", random.below(250))),
            3 => ("AAAA", "2001:db8::1".to_owned()),
            4 => ("TXT", "\"some text\"".to_owned()),
            5 => ("MX", format!("10 {target}")),
            6 | 7 => ("CNAME", target),
            _ => ("NS", target),
        };
        let here = taken.entry(owner.clone()).or_default();
        let clash = here.contains("CNAME") || (kind == "CNAME" && !here.is_empty());
        // NSD takes NS at a wildcard, the other two do not.
        if clash || (kind == "NS" && owner.starts_with('*')) {
            continue;
        }
        here.insert(kind);
        text += &format!("{owner} {kind} {data}\n");
    }
    text
}

fn zone_texts() -> Vec<(&'static str, String)> {
    let features = include_str!("data/feature.test.zone").to_owned();
    let other = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.80\nwww A 192.0.2.81\n\
                 back CNAME www.feature.test.\n*.any TXT \"any\"\n";
    let kid =
        "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.90\nup CNAME www.feature.test.\n";
    let mut reverse =
        "$TTL 1h\n@ SOA ns.other.test. hm 1 2 3 4 5\n@ NS ns.other.test.\n".to_owned();
    for host in 1..120 {
        reverse += &format!("{host} PTR host{host}.feature.test.\n");
    }
    let texts = [
        features,
        other.to_owned(),
        kid.to_owned(),
        generated("gen-a.test", 0x1234_5678_9abc),
        generated("gen-b.test", 0xfeed_beef_cafe),
        generated("gen-c.test", 0xc0de),
        generated("gen-d.test", 0xdead_0001),
        reverse,
    ];
    ORIGINS.into_iter().zip(texts).collect()
}

/// Every owner of the texts, names around them, and names of nobody.
fn names(texts: &[(&str, String)]) -> Vec<Name> {
    let mut names = BTreeSet::new();
    for (origin, text) in texts {
        let origin = name(origin);
        let within = |text: &str| Name::from_text(text.as_bytes(), Some(&origin)).ok();
        names.insert(origin.clone());
        for line in text.lines() {
            let Some(owner) =
                line.split_whitespace().next().filter(|_| !line.starts_with([' ', '$', ';']))
            else {
                continue;
            };
            for text in [
                owner.to_owned(),
                format!("x.{owner}"),
                format!("y.z.{owner}"),
                format!("*.{owner}"),
            ] {
                if text.contains('@') {
                    continue;
                }
                names.extend(within(&text));
            }
            names.extend(within(owner).and_then(|name| name.parent()));
        }
        names.extend(["nobody", "a.b.c.d.e.nobody", "AbC.NoBody"].into_iter().filter_map(within));
    }
    names.extend(["example.org", "test", "com"].map(name));
    names.insert(Name::root());
    names.into_iter().collect()
}

fn our_zones(texts: &[(&str, String)]) -> Zones {
    let zones = texts.iter().fold(Zones::builder(), |zones, (origin, text)| {
        let zone =
            Zone::from_master_file(&name(origin), text.as_bytes(), &mut |_| Err("none".into()));
        zones.add_zone(zone.unwrap_or_else(|error| panic!("{origin}:{error}")))
    });
    zones.build().unwrap()
}

fn ours(zones: &Zones, query: &[u8]) -> Option<Vec<u8>> {
    let mut context = Context::new(Transport::Udp, "127.0.0.1".parse().unwrap());
    (context.server_id, context.version) = (peers::SERVER_ID, peers::VERSION);
    let mut choose = |_: usize, _: &_| whered_dns::Choice::of(None, 0);
    let mut reply = Vec::new();
    answer(zones, query, &context, &mut choose, &mut reply);
    (!reply.is_empty()).then_some(reply)
}

/// Asks Knot all, and NSD what we answer otherwise; gives the cases in which we are like neither.
fn compare(
    peers: &Peers,
    zones: &Zones,
    queries: &[Vec<u8>],
    excuses: &mut Excuses,
) -> Vec<String> {
    let knot = peers.ask(Peer::Knot, queries);
    let mut wrong = Vec::new();
    for (query, knot) in queries.iter().zip(&knot) {
        let explained = |reply: Option<&[u8]>| reply.and_then(peers::extended_error);
        let ours = explained(ours(zones, query).as_deref());
        let theirs = explained(knot.as_deref());
        if ours.is_some() && theirs.is_some() && ours != theirs {
            wrong.push(format!("{}: {ours:?}, not {theirs:?}", peers::shown(query)));
        }
    }
    let knot = knot.into_iter().map(Seen::of);
    let answers =
        queries.iter().zip(knot).map(|(query, knot)| (Seen::of(ours(zones, query)), knot));
    let (differing, answers): (Vec<Vec<u8>>, Vec<_>) =
        queries.iter().cloned().zip(answers).filter(|(_, (ours, knot))| ours != knot).unzip();
    let nsd = peers.ask(Peer::Nsd, &differing).into_iter().map(Seen::of);
    for ((query, (ours, knot)), nsd) in differing.iter().zip(answers).zip(nsd) {
        let (ours, nsd, knot) = (&ours, &nsd, &knot);
        if ours != nsd && !excuses.excuse(&Case { query, ours, nsd, knot }) {
            let query = peers::shown(query);
            wrong.push(format!("{query}\n  ours {ours}\n  nsd  {nsd}\n  knot {knot}"));
        }
    }
    eprintln!("{} of {} unlike Knot's", differing.len(), queries.len());
    wrong
}

/// The list of exceptions; each says when it holds, and each must be needed.
#[derive(Default)]
struct Excuses {
    used: BTreeMap<&'static str, usize>,
}

impl Excuses {
    fn excuse(&mut self, case: &Case<'_>) -> bool {
        let holds = peers::EXCEPTIONS.iter().find(|(_, holds)| holds(case));
        if let Some((name, _)) = holds {
            *self.used.entry(name).or_default() += 1;
        }
        holds.is_some()
    }
}

/// Queries with odd headers, odd EDNS, and with bytes changed, cut off or added.
fn broken(names: &[Name]) -> Vec<Vec<u8>> {
    let mut random = Random(0x5eed);
    let mut queries = Vec::new();
    for opcode in 0..16_u16 {
        queries.push(query("www.feature.test", RecordType::A).flags(opcode << 11).build());
    }
    for class in [0, 2, 3, 4, 254, 255, 256] {
        queries.push(query("www.feature.test", RecordType::A).class(class).build());
    }
    for kind in [0, 41, 249, 250, 251, 252, 253, 254, 255, 65535] {
        queries.push(query("www.feature.test", RecordType(kind)).build());
        queries.push(query("feature.test", RecordType(kind)).build());
    }
    for flag in 0..16 {
        queries.push(query("www.feature.test", RecordType::A).flags(1 << flag).build());
    }
    for text in ["version.bind", "version.server", "id.server", "hostname.bind", "authors.bind"] {
        queries.push(query(text, RecordType::TXT).class(3).build());
        queries.push(query(text, RecordType::A).class(3).build());
    }
    for size in [0, 100, 511, 512, 513, 1232, 4096, 65535] {
        queries.push(query("big.feature.test", RecordType::TXT).edns(size).build());
        queries.push(query("sub.feature.test", RecordType::A).edns(size).build());
    }
    let plain = query("www.feature.test", RecordType::A);
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    let address = b"\x01a\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x01\x02\x03\x04";
    let unknown = b"\x01a\x00\xff\x00\x00\x01\x00\x00\x00\x00\x00\x01x";
    for tail in [&[][..], &[0], &[0; 40], &opt, address, unknown] {
        for section in [None, Some(7), Some(9), Some(11)] {
            for mut bytes in [plain.build(), plain.clone().edns(1232).build()] {
                bytes.extend_from_slice(tail);
                if let Some(count) = section {
                    bytes[count] += 1;
                }
                queries.push(bytes);
            }
        }
    }
    for version in [0, 1, 255] {
        queries.push(query("www.feature.test", RecordType::A).edns_version(version).build());
    }
    for (code, data) in
        [(3, &b""[..]), (65001, b"unknown"), (8, &[0, 1, 24, 0, 192, 0, 2]), (12, &[0; 9])]
    {
        queries.push(query("www.feature.test", RecordType::A).option(code, data).build());
    }
    let whole = query("www.feature.test", RecordType::A).edns(1232).option(65001, b"x").build();
    queries.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
    for at in 2..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            queries.push(changed);
        }
    }
    for _ in 0..4000 {
        let owner = random.pick(names);
        let mut bytes = harness::query(&owner.to_string(), *random.pick(&TYPES)).edns(1232).build();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => drop(bytes.splice(at..at, [random.below(256) as u8])),
                1 if bytes.len() > 14 => drop(bytes.remove(at)),
                _ => bytes[at] = random.below(256) as u8,
            }
        }
        queries.push(bytes);
    }
    queries
}

#[test]
fn answers_are_those_of_nsd_or_knot() {
    let texts = zone_texts();
    let Some(peers) = Peers::start(&texts) else {
        return;
    };
    let zones = our_zones(&texts);
    let names = names(&texts);
    let mut queries = Vec::new();
    for owner in &names {
        for record_type in TYPES {
            queries.push(harness::query(&owner.to_string(), record_type).edns(1232).build());
        }
        queries.push(harness::query(&owner.to_string(), RecordType::ANY).build());
    }
    for (owner, kind) in RARE_TYPES {
        queries.push(harness::query(owner, RecordType(kind)).edns(1232).build());
        queries.push(harness::query(owner, RecordType(kind)).dnssec_ok().build());
    }
    let named = queries.len();
    queries.extend(broken(&names));
    let mut excuses = Excuses::default();
    let wrong = compare(&peers, &zones, &queries, &mut excuses);
    let used: Vec<_> = excuses.used.iter().collect();
    eprintln!("{named} questions, {} odd messages; exceptions: {used:?}", queries.len() - named);
    let shown: Vec<&str> = wrong.iter().take(60).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), queries.len(), shown.join("\n"));
    for (name, _) in peers::EXCEPTIONS {
        assert!(excuses.used.contains_key(name), "the exception '{name}' is not needed");
    }
}
