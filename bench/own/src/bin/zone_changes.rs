//! The cost of changing and signing zones, without the network.
//!
//! For: transfers, updates and signing of large zones. Not for: answers of unsigned zones (`dns`).
//! Usage: `zone_changes [ROUNDS]`, five if not said.
//!
//! ```text
//! records   a zone of a million names ──► its records ──► Zone      what an AXFR costs here
//! changes   the same zone and 1,000 changes ──► Zone                an IXFR
//! sign      50,000 names with 100,000 records ──► signed Zone       by all processors
//! answers   queries with DO, of a small zone and of a pool          signed against unsigned
//! ```
//!
//! Every result is compared or verified once. Times are the best of the rounds: by the clock for
//! zones, of the thread's processor time for answers, signed and unsigned in turn.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use whered_bench::measure::thread_cpu_nanoseconds;
use whered_dns::message::{self, Message};
use whered_dns::{
    Answer, Choice, Context, Dnssec, KeyAlgorithm, KeyStates, Name, Pool, Rcode, RecordType,
    SigningContext, SigningKey, Transport, Zone, Zones, answer,
};

const NAMES: u32 = 1_000_000;
const CHANGES: u32 = 1_000;
const SIGNED_NAMES: u32 = 50_000;
const SMALL_NAMES: u32 = 1_000;
const QUESTIONS: u32 = 200_000;
const NOW_SECONDS: u64 = 1_800_000_000;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(5, |rounds| rounds.parse().expect("the first argument is a number of rounds"));
    changes(rounds);
    signing(rounds);
    answers(rounds);
}

fn origin() -> Name {
    "example".parse().expect("a name")
}

/// Hosts and delegations in turn; those that `changed` names have another address or server.
fn text(names: u32, serial: u32, changed: impl Fn(u32) -> bool) -> String {
    let mut text = format!(
        "$TTL 3600\n@ IN SOA ns1 host {serial} 7200 900 1209600 300\n@ IN NS ns1\nns1 IN A 192.0.2.1\n"
    );
    for n in 0..names {
        let other = u32::from(changed(n));
        if n % 2 == 0 {
            let address = Ipv4Addr::from(0x0a00_0000 + n + (other << 23));
            text.push_str(&format!("host{n} IN A {address}\n"));
        } else {
            let server = n % 977 + other;
            text.push_str(&format!("child{n} IN NS ns1.hoster{server}.net.\n"));
        }
    }
    text
}

fn zone(text: &str) -> Zone {
    Zone::from_master_file(&origin(), text.as_bytes(), &mut |_| Err("none".into()))
        .expect("a zone that is right")
}

fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let begin = Instant::now();
        work();
        begin.elapsed()
    };
    (0..rounds).map(once).min().unwrap_or_default()
}

fn changes(rounds: usize) {
    let old = zone(&text(NAMES, 1, |_| false));
    let step = NAMES / CHANGES;
    let new = zone(&text(NAMES, 2, |n| n % step == 3 || n % step == 4));
    let source = "a server";
    let records: Vec<_> = old.records().collect();
    let build = best(rounds, || {
        let records = records.iter().cloned();
        let built = Zone::from_records(&origin(), source, Dnssec::Serve, records);
        assert_eq!(built.expect("a zone").record_count(), old.record_count());
    });
    let difference = old.difference(&new);
    let count = difference.added.len() + difference.removed.len();
    let change = best(rounds, || {
        let changed = old.patched(source, std::slice::from_ref(&difference)).expect("a zone");
        assert_eq!((changed.serial(), changed.record_count()), (2, new.record_count()));
    });
    let changed = old.patched(source, &[difference]).expect("a zone");
    let rest = changed.difference(&new);
    assert_eq!((rest.added.len(), rest.removed.len()), (1, 1), "the SOAs alone");
    let (build, change) = (build.as_secs_f64(), change.as_secs_f64());
    println!("records   {:>9} records   {build:.3} s", records.len());
    println!("changes   {count:>9} records   {change:.3} s");
}

fn context(pools: &[(&Name, RecordType)]) -> SigningContext {
    let key = SigningKey::generate(&origin(), KeyAlgorithm::EcdsaP256Sha256).expect("a key").key;
    let mut context =
        SigningContext::new(vec![key], &KeyStates::default(), NOW_SECONDS).expect("a context");
    for (owner, record_type) in pools {
        context.add_pool_owner(owner, [*record_type]);
    }
    context
}

fn signing(rounds: usize) {
    let mut lines = text(0, 1, |_| false);
    for n in 0..SIGNED_NAMES {
        lines.push_str(&format!("host{n} IN A 192.0.2.1\nhost{n} IN AAAA 2001:db8::{n:x}\n"));
    }
    let unsigned = zone(&lines);
    let signing = context(&[]);
    let sign = best(rounds, || {
        let signed = unsigned.sign("a file", &signing).expect("a signed zone");
        assert!(signed.record_count() > 2 * unsigned.record_count());
    });
    println!("sign      {:>9} records   {:.3} s", unsigned.record_count(), sign.as_secs_f64());
}

fn answers(rounds: usize) {
    let owner: Name = "pool.example".parse().expect("a name");
    let text = text(SMALL_NAMES, 1, |_| false);
    let signed =
        zone(&text).sign("a file", &context(&[(&owner, RecordType::A)])).expect("a signed zone");
    let zones = |zone: Zone| {
        let answers = vec![
            Answer { ipv4: vec![[192, 0, 2, 1].into()], ..Answer::default() },
            Answer { ipv4: vec![[192, 0, 2, 2].into()], ..Answer::default() },
        ];
        let owners = vec![owner.clone()];
        let pool = Pool { name: "pool".to_owned(), owners, ttl_seconds: 30, answers };
        Zones::builder().add_zone(zone).add_pool(pool).build().expect("zones that fit")
    };
    let both = [zones(zone(&text)), zones(signed)];
    for (what, name) in [
        ("host", (|n| format!("host{}.example", n % SMALL_NAMES / 2 * 2)) as fn(u32) -> String),
        ("pool", |_| "pool.example".to_owned()),
        ("missing", |n| format!("missing{n}.example")),
    ] {
        let queries: Vec<Vec<u8>> = (0..QUESTIONS)
            .map(|n| {
                let name: Name = name(n).parse().expect("a name");
                message::Query::new(&name, RecordType::A).edns(1232).dnssec_ok().build()
            })
            .collect();
        let mut costs = [f64::MAX; 2];
        let mut sizes = [0; 2];
        for _ in 0..rounds {
            for ((zones, cost), size) in both.iter().zip(&mut costs).zip(&mut sizes) {
                let (nanoseconds, bytes) = ask(zones, &queries);
                *cost = cost.min(nanoseconds);
                *size = bytes;
            }
        }
        for (zones, is_signed) in both.iter().zip([false, true]) {
            check(zones, &queries[0], what == "missing", is_signed);
        }
        println!(
            "answers   {what:<8} unsigned {:.0} ns, {} bytes; signed {:.0} ns, {} bytes: {:.2}",
            costs[0],
            sizes[0],
            costs[1],
            sizes[1],
            costs[1] / costs[0]
        );
    }
}

/// The processor time for each query, and the size of the last reply.
fn ask(zones: &Zones, queries: &[Vec<u8>]) -> (f64, usize) {
    let context = Context::new(Transport::Udp, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut choose = |_, _: &_| Choice::of(Some(1), 0);
    let mut reply = Vec::new();
    let time = || thread_cpu_nanoseconds().expect("the system tells a thread's time");
    let begin = time();
    for query in queries {
        answer(zones, query, &context, &mut choose, &mut reply);
    }
    let spent = time() - begin;
    (spent as f64 / queries.len() as f64, reply.len())
}

fn check(zones: &Zones, query: &[u8], is_missing: bool, is_signed: bool) {
    let context = Context::new(Transport::Udp, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut choose = |_, _: &_| Choice::of(Some(1), 0);
    let mut reply = Vec::new();
    answer(zones, query, &context, &mut choose, &mut reply);
    let message = Message::read(&reply).expect("a reply that can be read");
    let expected = if is_missing { Rcode::NXDOMAIN } else { Rcode::NOERROR };
    assert_eq!(message.rcode(), expected);
    let records = message.answers.iter().chain(&message.authorities);
    let has_signatures = records.clone().any(|record| record.record_type == RecordType::RRSIG);
    assert_eq!(has_signatures, is_signed, "{message:?}");
}
