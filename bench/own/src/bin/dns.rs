//! What DNS costs without the network: from query bytes to answer bytes.
//!
//! For: the figures in `docs/design/dns.md`. Not for: sockets, which `whered-bench dns` measures.
//! Usage: `dns [ROUNDS]`, five if not said.
//!
//! ```text
//! load    a master file of 1,000 names, and one of a million (half delegations) ──► Zone
//! single  answer, one query after another          ┐ 1,000,000 distinct queries of each kind
//! batch   answer_batch, 32 together                ┘ (1,000 for hits of the small zone)
//! ```
//!
//! Kinds: `hit` (A of a host), `nxdomain`, `referral` (A below a delegation) and `mix` of a half, a
//! quarter and a quarter. Every answer is read once and must be of its kind; both ways must give
//! equal bytes. Time is the thread's processor time, the best of the rounds; the queries lie in
//! random order.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use whered_bench::Random;
use whered_bench::measure::thread_cpu_nanoseconds;
use whered_dns::message::Message;
use whered_dns::{
    Answers, Choice, Client, Context, Name, Outcome, Query, Rcode, RecordType, Transport,
    Workspace, Zone, Zones, answer, answer_batch, message,
};

const BATCH: usize = 32;
const ROOM: usize = 1232;
const QUERIES: u64 = 1_000_000;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(5, |rounds| rounds.parse().expect("the first argument is a number of rounds"));
    measure("small", 1_000, rounds);
    measure("large", 1_000_000, rounds);
}

/// Half of the names are hosts, half are delegations; a hundredth of these have glue.
fn zone_text(names: u64) -> String {
    let mut text = String::from(
        "$TTL 86400\n@ IN SOA ns1 host 1 7200 900 1209600 300\n@ IN NS ns1\n@ IN NS ns2\n\
         ns1 IN A 192.0.2.1\nns2 IN A 192.0.2.2\n",
    );
    for n in 0..names / 2 {
        let [a, b, c, d] = Ipv4Addr::from(0x0a00_0000 + n as u32).octets();
        text.push_str(&format!("host{n} IN A {a}.{b}.{c}.{d}\n"));
        if n % 100 == 0 {
            text.push_str(&format!("child{n} IN NS ns1.child{n}\n\tIN NS ns2.child{n}\n"));
            text.push_str(&format!("ns1.child{n} IN A 192.0.2.3\nns2.child{n} IN A 192.0.2.4\n"));
        } else {
            let (hoster, other) = (n / 100 * 100, n % 977);
            text.push_str(&format!("child{n} IN NS ns1.child{hoster}\n"));
            text.push_str(&format!("\tIN NS ns2.hoster{other}.example.net.\n"));
        }
    }
    text
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hit,
    Nxdomain,
    Referral,
}

/// Queries one after another in one piece of memory.
struct Queries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<Kind>,
}

impl Queries {
    fn new(names: u64, kind: Option<Kind>) -> Queries {
        let half = names / 2;
        let count = if kind == Some(Kind::Hit) { QUERIES.min(half) } else { QUERIES };
        let mut numbers: Vec<u64> = (0..count).collect();
        let mut random = Random::new(7);
        for place in (1..numbers.len()).rev() {
            numbers.swap(place, random.below(place as u64 + 1) as usize);
        }
        let mut queries =
            Queries { bytes: Vec::new(), ends: vec![0], kinds: Vec::with_capacity(numbers.len()) };
        for (place, number) in numbers.into_iter().enumerate() {
            let kind = kind.unwrap_or(match place % 4 {
                0 | 1 => Kind::Hit,
                2 => Kind::Nxdomain,
                _ => Kind::Referral,
            });
            let (existing, round) = (number % half, number / half);
            let name = match kind {
                Kind::Hit => format!("host{existing}.example"),
                Kind::Nxdomain => format!("nothing{number}.example"),
                Kind::Referral => format!("w{round}.child{existing}.example"),
            };
            let name: Name = name.parse().expect("a name");
            let query = message::Query::new(&name, RecordType::A).edns(1232);
            queries.bytes.extend(query.build());
            queries.ends.push(queries.bytes.len());
            queries.kinds.push(kind);
        }
        queries
    }

    fn len(&self) -> usize {
        self.kinds.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.ends[index]..self.ends[index + 1]]
    }
}

struct Rooms {
    rooms: Vec<[u8; ROOM]>,
    sizes: [usize; BATCH],
}

impl Answers for Rooms {
    fn room(&mut self, index: usize) -> &mut [u8] {
        &mut self.rooms[index]
    }

    fn answered(&mut self, index: usize, size_bytes: usize, _: Outcome) {
        self.sizes[index] = size_bytes;
    }
}

fn choose(_: usize, _: &Client) -> Choice {
    Choice::of(None, 0)
}

fn in_batches(zones: &Zones, queries: &Queries, mut told: impl FnMut(usize, &[u8])) {
    let context = Context::new(Transport::Udp, SOURCE);
    let mut workspace = Workspace::new();
    let mut rooms = Rooms { rooms: vec![[0; ROOM]; BATCH], sizes: [0; BATCH] };
    for first in (0..queries.len()).step_by(BATCH) {
        let mut batch = [Query { bytes: &[], source: SOURCE }; BATCH];
        let count = BATCH.min(queries.len() - first);
        for (index, query) in batch.iter_mut().enumerate().take(count) {
            query.bytes = queries.get(first + index);
        }
        let batch = &batch[..count];
        answer_batch(zones, &context, batch, 0, &mut choose, &mut workspace, &mut rooms);
        for index in 0..count {
            told(first + index, &rooms.rooms[index][..rooms.sizes[index]]);
        }
    }
}

fn singly(zones: &Zones, queries: &Queries, mut told: impl FnMut(usize, &[u8])) {
    let context = Context::new(Transport::Udp, SOURCE);
    let mut reply = Vec::with_capacity(ROOM);
    for index in 0..queries.len() {
        answer(zones, queries.get(index), &context, &mut choose, &mut reply);
        told(index, &reply);
    }
}

/// Both ways once with every answer looked at.
fn check(zones: &Zones, queries: &Queries) -> f64 {
    let mut replies: Vec<Vec<u8>> = vec![Vec::new(); queries.len()];
    let mut size = 0;
    in_batches(zones, queries, |index, reply| replies[index] = reply.to_vec());
    singly(zones, queries, |index, reply| {
        assert_eq!(reply, replies[index], "a batch answers as a single query");
        size += reply.len();
        let message = Message::read(reply).expect("a reply that can be read");
        let counts = (message.answers.len(), message.authorities.len());
        let expected = match queries.kinds[index] {
            Kind::Hit => (Rcode::NOERROR, true, (1, 0)),
            Kind::Nxdomain => (Rcode::NXDOMAIN, true, (0, 1)),
            Kind::Referral => (Rcode::NOERROR, false, (0, 2)),
        };
        assert_eq!((message.rcode(), message.is_authoritative(), counts), expected);
        assert!(queries.kinds[index] != Kind::Referral || !message.additionals.is_empty());
    });
    size as f64 / queries.len() as f64
}

fn measure(what: &str, names: u64, rounds: usize) {
    let zones = load(what, names);
    let kinds = [
        ("hit", Some(Kind::Hit)),
        ("nxdomain", Some(Kind::Nxdomain)),
        ("referral", Some(Kind::Referral)),
        ("mix", None),
    ];
    for (name, kind) in kinds {
        let queries = Queries::new(names, kind);
        let mean_size = check(&zones, &queries);
        let mut best = [f64::MAX; 2];
        for _ in 0..rounds {
            let mut sum = 0;
            let time = |work: &mut dyn FnMut()| {
                // Small sets are gone through again, so that every measurement takes long enough.
                let times = (QUERIES as usize / queries.len()).max(1);
                let before = thread_cpu_nanoseconds().expect("the thread has a clock");
                for _ in 0..times {
                    work();
                }
                let after = thread_cpu_nanoseconds().expect("the thread has a clock");
                (after - before) as f64 / (times * queries.len()) as f64
            };
            let single = time(&mut || singly(&zones, &queries, |_, reply| sum += reply.len()));
            let batch = time(&mut || in_batches(&zones, &queries, |_, reply| sum += reply.len()));
            assert!(sum > 0);
            best = [best[0].min(single), best[1].min(batch)];
        }
        let [single, batch] = best;
        println!(
            "{what}/{name}: single {single:.0} ns ({:.1} M/s), batch {batch:.0} ns ({:.1} M/s), \
             {} queries, {mean_size:.0} bytes an answer",
            1e3 / single,
            1e3 / batch,
            queries.len()
        );
    }
}

fn load(what: &str, names: u64) -> Zones {
    let text = zone_text(names);
    let origin: Name = "example".parse().expect("a name");
    let before = resident_bytes();
    let (start, cpu) = (Instant::now(), thread_cpu_nanoseconds().expect("the thread has a clock"));
    let zone = Zone::from_master_file(&origin, text.as_bytes(), &mut |_| Err("none".into()))
        .unwrap_or_else(|error| panic!("{error}"));
    let cpu = thread_cpu_nanoseconds().expect("the thread has a clock") - cpu;
    let wall = start.elapsed().as_secs_f64();
    let held = resident_bytes().saturating_sub(before);
    let records = zone.record_count();
    println!(
        "load/{what}: {records} records, {} names in {:.2} s of the processor ({wall:.2} s), \
         {:.1} bytes a record ({:.1} resident)",
        zone.name_count(),
        cpu as f64 / 1e9,
        zone.size_bytes() as f64 / records as f64,
        held as f64 / records as f64,
    );
    Zones::builder().add_zone(zone).build().expect("one zone")
}

/// What the process has in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}
