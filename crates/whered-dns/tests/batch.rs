//! Batches: the same answers as one by one, in any mix, from zones that fit a cache and that do
//! not.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use std::net::IpAddr;

use harness::{query, zone};
use whered_dns::message::Message;
use whered_dns::{
    Answers, Choice, Context, CookieSecrets, Outcome, Query, RateLimit, Rcode, RecordType,
    Synthesise, Synthesised, Transport, Workspace, Zones, answer, answer_batch,
};

#[derive(Default)]
struct Told {
    room: Vec<u8>,
    replies: Vec<(usize, Vec<u8>, Outcome)>,
}

impl Answers for Told {
    fn room(&mut self, _: usize) -> &mut [u8] {
        self.room.resize(4096, 0xaa);
        &mut self.room
    }

    fn answered(&mut self, index: usize, size_bytes: usize, outcome: Outcome) {
        let reply = self.room.get(..size_bytes).unwrap_or_default().to_vec();
        self.replies.push((index, reply, outcome));
    }
}

fn choose(_: usize, _: &whered_dns::Client) -> Choice {
    Choice::of(Some(1), 20)
}

/// The small zones of the tests, and one of 20,000 names of all kinds.
fn zones() -> Zones {
    let mut text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n*.wild TXT w\n".to_owned();
    text += "$GENERATE 1-9000 host$ A 192.0.2.1\n$GENERATE 1-9000 cut$ NS ns.cut$\n";
    text += "$GENERATE 1-9000 ns.cut$ AAAA 2001:db8::$\n$GENERATE 1-99 alias$ CNAME host$\n";
    let net = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.80\n";
    let com = include_str!("data/example.com.zone");
    let zones = Zones::builder().add_zone(zone("large.example", &text));
    let zones = zones.add_zone(zone("example.com", com)).add_zone(zone("example.net", net));
    let list = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n99.0.0.127 A 127.0.0.9\n\
                *.stars A 192.0.2.7\ncut.0 NS ns\n";
    let zones = zones.add_reversed_zone(zone("list.example", list), 7);
    zones.add_pool(harness::pool("www", &["pool.example.com"])).build().unwrap()
}

/// Lists addresses by their last part: nothing at most, data of several sizes, and failures.
#[derive(Debug)]
struct List;

impl Synthesise for List {
    fn synthesise(
        &self,
        _: usize,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised {
        let IpAddr::V4(address) = address else { return Synthesised::Absent };
        match (address.octets()[3], record_type) {
            (0..=99, RecordType::A) => data.extend([127, 0, 0, address.octets()[2]]),
            (0..=99, RecordType::TXT) => data.extend(b"\x04text"),
            (0..=99, _) | (110..=119, _) => return Synthesised::NoData,
            (100..=109, _) => data.extend([1, 2, 3]),
            (120..=129, _) => return Synthesised::Failed,
            _ => return Synthesised::Absent,
        }
        Synthesised::Record { ttl_seconds: 77 }
    }
}

fn queries() -> Vec<Vec<u8>> {
    let mut queries = vec![vec![], vec![0; 12], b"rubbish, longer than a header".to_vec()];
    for n in (0..9100).step_by(37) {
        for name in [
            format!("host{n}.large.example"),
            format!("x.CUT{n}.large.example"),
            format!("no{n}.large.example"),
            format!("alias{n}.large.example"),
            format!("a{n}.wild.large.example"),
        ] {
            queries.push(query(&name, RecordType::A).edns(1232).build());
        }
        for name in ["pool", "www", "alias2", "q.wild", "x.sub", "cross"] {
            queries.push(query(&format!("{name}.example.com"), RecordType::A).build());
        }
        queries.push(query("example.org", RecordType::A).build());
        for labels in ["7.0", "1.2", "a", "x", "77.stars", "7.cut"] {
            let name = format!("{}.{}.{labels}.list.example", n % 256, n / 256 % 256);
            queries.push(query(&name, RecordType::A).edns(1232).build());
            queries.push(query(&name, [RecordType::TXT, RecordType::AAAA][n % 2]).build());
        }
    }
    queries.push(query("99.0.0.127.list.example", RecordType::A).build());
    queries
}

#[test]
fn a_batch_answers_as_each_query_alone() {
    let zones = zones();
    let source: IpAddr = "192.0.2.1".parse().unwrap();
    let context = Context { synthesise: Some(&List), ..Context::new(Transport::Udp, source) };
    let queries = queries();
    let batch: Vec<Query<'_>> = queries.iter().map(|bytes| Query { bytes, source }).collect();
    let mut workspace = Workspace::new();
    for size in [1, 7, 64, 1000] {
        for batch in batch.chunks(size) {
            let mut told = Told::default();
            answer_batch(&zones, &context, batch, 0, &mut choose, &mut workspace, &mut told);
            assert_eq!(told.replies.len(), batch.len());
            for (place, (index, reply, outcome)) in told.replies.iter().enumerate() {
                let mut alone = Vec::new();
                let bytes = batch[place].bytes;
                let expected = answer(&zones, bytes, &context, &mut choose, &mut alone);
                assert_eq!((*index, outcome, reply), (place, &expected, &alone));
            }
        }
    }
}

/// A batch takes the usual query in a straight line of its own, one query alone never does.
#[test]
fn the_straight_line_answers_as_the_long_way() {
    let zones = zones();
    let source: IpAddr = "192.0.2.1".parse().unwrap();
    let mut originals = queries();
    for name in ["example.com", "ns.example.com", "www.example.com", "deep.under.www.example.com"] {
        for record_type in (0..=65).chain(248..=257).chain([u16::MAX]).map(RecordType) {
            originals.push(query(name, record_type).edns(700).dnssec_ok().build());
            originals.push(query(name, record_type).flags(0x0110).build());
        }
    }
    let mut random = 7_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let (mut workspace, mut alone) = (Workspace::new(), Vec::new());
    let mut rcodes = std::collections::BTreeMap::<u16, usize>::new();
    for round in 0..60_000 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..(round / originals.len()).min(3) {
            match below(4) {
                _ if bytes.is_empty() => {}
                0 => bytes.truncate(below(bytes.len()) + 1),
                1 => bytes.push(below(256) as u8),
                _ => {
                    let place = below(bytes.len());
                    bytes[place] = [0, 1, 41, 0xc0, 0x80, 0x20, below(256) as u8][below(7)];
                }
            }
        }
        let transport = if round % 7 == 0 { Transport::Tcp } else { Transport::Udp };
        let mut context = Context::new(transport, source);
        context.server_id = b"id";
        context.synthesise = Some(&List).filter(|_| round % 11 > 0).map(|list| list as _);
        context.udp_size_max = [512, 600, 1232][below(3)];
        let mut told = Told::default();
        let batch = [Query { bytes: &bytes, source }];
        answer_batch(&zones, &context, &batch, 0, &mut choose, &mut workspace, &mut told);
        let expected = answer(&zones, &bytes, &context, &mut choose, &mut alone);
        let (_, reply, outcome) = &told.replies[0];
        assert_eq!((outcome, reply), (&expected, &alone), "{bytes:02x?}");
        if let Outcome::Answered { rcode, .. } = expected {
            *rcodes.entry(rcode.0).or_default() += 1;
        }
    }
    for rcode in [Rcode::NOERROR, Rcode::NXDOMAIN, Rcode::FORMERR, Rcode::REFUSED] {
        assert!(rcodes.get(&rcode.0).is_some_and(|count| *count > 1000), "{rcodes:?}");
    }
}

#[test]
fn generated_names_are_there() {
    let zones = zones();
    let ask = |name: &str, record_type| {
        harness::ask(&zones, &query(name, record_type).build(), Transport::Udp).message
    };
    let first = ask("host9000.large.example", RecordType::A);
    assert_eq!((first.rcode(), first.answers.len()), (Rcode::NOERROR, 1));
    assert_eq!(ask("host9001.large.example", RecordType::A).rcode(), Rcode::NXDOMAIN);
    let cut = ask("a.b.cut77.large.example", RecordType::A);
    assert_eq!(
        harness::lines(&cut.authorities),
        ["cut77.large.example. 60 NS ns.cut77.large.example."]
    );
    assert_eq!(harness::lines(&cut.additionals), ["ns.cut77.large.example. 60 AAAA 2001:db8::77"]);
}

#[test]
fn a_small_room_truncates() {
    struct Small([u8; 600], usize);
    impl Answers for Small {
        fn room(&mut self, _: usize) -> &mut [u8] {
            &mut self.0
        }
        fn answered(&mut self, _: usize, size_bytes: usize, _: Outcome) {
            self.1 = size_bytes;
        }
    }
    let mut text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n".to_owned();
    text += "$GENERATE 1-50 many A 192.0.2.$\n";
    let zones = Zones::builder().add_zone(zone("example", &text)).build().unwrap();
    let source = "192.0.2.1".parse().unwrap();
    let bytes = query("many.example", RecordType::A).edns(1232).build();
    let mut small = Small([0; 600], 0);
    let context = Context::new(Transport::Udp, source);
    let batch = [Query { bytes: &bytes, source }];
    answer_batch(&zones, &context, &batch, 0, &mut choose, &mut Workspace::new(), &mut small);
    let message = Message::read(&small.0[..small.1]).unwrap();
    assert!(message.is_truncated() && message.answers.is_empty() && message.edns.is_some());
}

#[test]
fn messages_between_servers_are_limited_by_name_and_network() {
    let limit = RateLimit { answers_per_second: 5, slip: 0, ..RateLimit::default() };
    let mut workspace = Workspace::new().with_rate_limit(limit);
    let (rcode, question_type) = (whered_dns::Rcode::NOERROR, None);
    let outcome =
        Outcome::Answered { rcode, question_type, pool: None, zone: None, has_cookie: false };
    let mut passed = |name: &str, source: &str, now_millis: u64| {
        let bytes = query(name, RecordType::SOA).build();
        let query = Query { bytes: &bytes, source: source.parse().unwrap() };
        (0..30).filter(|_| workspace.allows_deferred(&query, &outcome, now_millis)).count()
    };
    assert_eq!(passed("example.com", "192.0.2.1", 0), 10, "a burst");
    assert_eq!(passed("EXAMPLE.com", "192.0.2.9", 0), 0, "the same network and name");
    assert_eq!(passed("example.net", "192.0.2.1", 0), 10, "another name");
    assert_eq!(passed("example.com", "198.51.100.1", 0), 10, "another network");
    assert_eq!(passed("example.com", "192.0.2.1", 1000), 5, "a second later");
}

#[test]
fn a_flood_from_one_network_is_cut_down_and_cookies_pass() {
    let zones = zones();
    let secrets = CookieSecrets::new([3; 16]);
    let source: IpAddr = "192.0.2.1".parse().unwrap();
    let mut context = Context::new(Transport::Udp, source);
    (context.cookies, context.now_seconds) = (Some(&secrets), 1_800_000_000);
    let limit = RateLimit { answers_per_second: 5, slip: 2, ..RateLimit::default() };
    let mut workspace = Workspace::new().with_rate_limit(limit);
    let plain = query("www.example.com", RecordType::A).build();
    let mut ask = |bytes: &[u8]| {
        let batch = [Query { bytes, source }; 30];
        let mut told = Told::default();
        answer_batch(&zones, &context, &batch, 0, &mut choose, &mut workspace, &mut told);
        told.replies.into_iter().map(|(_, reply, _)| reply).collect::<Vec<_>>()
    };
    let replies = ask(&plain);
    let whole = replies.iter().filter(|reply| reply.len() > plain.len()).count();
    let silent = replies.iter().filter(|reply| reply.is_empty()).count();
    assert_eq!((whole, silent), (10, 10), "a burst, then every other one is dropped");
    for slipped in &replies[10..] {
        if !slipped.is_empty() {
            let message = Message::read(slipped).unwrap();
            assert!(message.is_truncated() && message.answers.is_empty());
        }
    }
    // A client cookie gets a server cookie, which shows the address to be real.
    let first = query("host1.large.example", RecordType::A).option(10, &[9; 8]).build();
    let edns = Message::read(&ask(&first)[0]).unwrap().edns.unwrap();
    let (10, cookie) = &edns.options[0] else { panic!("{edns:?}") };
    let known = query("www.example.com", RecordType::A).option(10, cookie).build();
    let replies = ask(&known);
    assert!(replies.iter().all(|reply| !reply.is_empty()), "no limit with a cookie");
    // Who has none yet learns it from a truncated answer as well.
    let replies = ask(&query("www.example.com", RecordType::A).option(10, &[9; 8]).build());
    for slipped in replies.iter().filter(|reply| !reply.is_empty()) {
        let message = Message::read(slipped).unwrap();
        assert!(message.is_truncated() && message.answers.is_empty());
        let options = message.edns.unwrap().options;
        assert_eq!((options.len(), options[0].0, options[0].1.len()), (1, 10, 24));
    }
    assert!(replies.iter().any(|reply| !reply.is_empty()), "some slip");
    let broken = query("www.example.com", RecordType::A).option(10, &[9; 7]).build();
    let mut reply = Vec::new();
    answer(&zones, &broken, &context, &mut choose, &mut reply);
    assert_eq!(Message::read(&reply).unwrap().rcode(), Rcode::FORMERR);
}

#[test]
fn chaos_tells_what_it_is_given() {
    let zones = zones();
    let mut context = Context::new(Transport::Udp, "192.0.2.1".parse().unwrap());
    (context.server_id, context.version) = (b"fra1", b"whered");
    let ask = |context: &Context<'_>, name: &str| {
        let mut reply = Vec::new();
        let query = query(name, RecordType::TXT).class(3).build();
        answer(&zones, &query, context, &mut choose, &mut reply);
        let message = Message::read(&reply).unwrap();
        (message.rcode(), message.answers.first().map(|record| record.data.clone()))
    };
    assert_eq!(ask(&context, "ID.server"), (Rcode::NOERROR, Some(b"\x04fra1".to_vec())));
    assert_eq!(ask(&context, "hostname.bind"), (Rcode::NOERROR, Some(b"\x04fra1".to_vec())));
    assert_eq!(ask(&context, "version.bind"), (Rcode::NOERROR, Some(b"\x06whered".to_vec())));
    assert_eq!(ask(&context, "version.server"), (Rcode::NOERROR, Some(b"\x06whered".to_vec())));
    assert_eq!(ask(&context, "other.bind"), (Rcode::REFUSED, None));
    let silent = Context::new(Transport::Udp, "192.0.2.1".parse().unwrap());
    assert_eq!(ask(&silent, "version.bind"), (Rcode::REFUSED, None));
}

#[test]
fn a_dname_moves_a_subtree() {
    let text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nold 30 DNAME new\nx.new A 192.0.2.9\n\
                old TXT here\n*.w CNAME x.old\naway DNAME far.other.\nlong DNAME ";
    let label = "l".repeat(60);
    let text = format!("{text}{label}.{label}.{label}.{label}.\n");
    let zones = Zones::builder().add_zone(zone("example", &text)).build().unwrap();
    let ask = |name: &str, record_type| {
        let asked = harness::ask(&zones, &query(name, record_type).build(), Transport::Udp);
        (asked.message.rcode(), harness::lines(&asked.message.answers))
    };
    let (rcode, answers) = ask("X.old.example", RecordType::A);
    assert_eq!(rcode, Rcode::NOERROR);
    let moved = ["X.old.example. 30 CNAME x.new.example.", "x.new.example. 60 A 192.0.2.9"];
    assert_eq!((answers.len(), &answers[0][..], &answers[2][..]), (3, moved[0], moved[1]));
    assert!(answers[1].starts_with("old.example. 30 DNAME"), "{answers:?}");
    assert_eq!(ask("y.old.example", RecordType::A).0, Rcode::NXDOMAIN);
    assert_eq!(ask("old.example", RecordType::TXT).1.len(), 1, "the owner itself stays");
    assert_eq!(ask("old.example", RecordType::A).1.len(), 0);
    assert_eq!(ask("a.b.away.example", RecordType::A).1.len(), 2);
    let (rcode, answers) = ask("y.old.example", RecordType::CNAME);
    assert_eq!((rcode, answers.len()), (Rcode::NOERROR, 2), "the CNAME that was asked for");
    assert_eq!(ask("q.w.example", RecordType::A).1.len(), 4, "by way of an alias");
    let (rcode, answers) = ask("a.long-enough-to-be-too-much.long.example", RecordType::A);
    assert_eq!((rcode, answers.len()), (Rcode::YXDOMAIN, 1));
}

#[test]
fn who_chooses_is_told_before_which_clients_ask_for_which_pools() {
    #[derive(Debug, Default)]
    struct Noted(std::cell::RefCell<Vec<(usize, IpAddr)>>);
    impl whered_dns::Chooser for Noted {
        fn prefetch(&self, asked: &[(usize, IpAddr)]) {
            self.0.borrow_mut().extend_from_slice(asked);
        }
    }
    let zones = zones();
    let source: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
    let subnet: IpAddr = "198.51.100.0".parse().unwrap();
    let bytes = [
        query("www.example.com", RecordType::A).build(),
        query("Pool.example.com", RecordType::A).build(),
        query("pool.example.com", RecordType::AAAA).client_subnet(subnet, 24).build(),
        query("below.pool.example.com", RecordType::A).build(),
        b"rubbish".to_vec(),
    ];
    let batch: Vec<_> = bytes.iter().map(|bytes| Query { bytes, source }).collect();
    let noted = Noted::default();
    let context = Context { chooser: Some(&noted), ..Context::new(Transport::Udp, source) };
    let (mut with, mut without) = (Told::default(), Told::default());
    let mut workspace = Workspace::new();
    answer_batch(&zones, &context, &batch, 0, &mut choose, &mut workspace, &mut with);
    assert_eq!(noted.0.take(), [(0, source.to_canonical()), (0, subnet)]);
    let context = Context { chooser: None, ..context };
    answer_batch(&zones, &context, &batch, 0, &mut choose, &mut workspace, &mut without);
    assert_eq!(with.replies, without.replies, "being told changes nothing");
}
