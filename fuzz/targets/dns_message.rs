//! Any bytes as a DNS query: no panic, no reply over the limit, every reply can be read, and what
//! UDP truncates TCP tells whole.
//!
//! Not for: inputs that are right; the tests have those.
//!
//! ```text
//! input: | switches | scope length | server's UDP limit, u16 | the query ... |
//! ```
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use whered_dns::message::Message;
use whered_dns::{
    Answer, Choice, Client, Context, CookieSecrets, Name, Outcome, Pool, Transport, Zone, Zones,
    answer,
};

const COM: &[u8] = include_bytes!("../../crates/whered-dns/tests/data/example.com.zone");
const NET: &[u8] = b"$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.80\n\
back CNAME www.example.com.\n";
const KID: &[u8] = b"$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.81\n\
up CNAME www.example.com.\n";
const LARGE_TEXTS: usize = 40;

static ZONES: LazyLock<Zones> = LazyLock::new(|| {
    let mut com = COM.to_vec();
    for text in 0..LARGE_TEXTS {
        com.extend_from_slice(format!("large TXT \"{text:0200}\"\n").as_bytes());
    }
    let answers = vec![
        Answer { ipv4: vec![Ipv4Addr::LOCALHOST], ..Answer::default() },
        Answer {
            ipv4: (0..60).map(|host| Ipv4Addr::new(192, 0, 2, host)).collect(),
            ipv6: vec![Ipv6Addr::LOCALHOST],
            ..Answer::default()
        },
    ];
    let owners = ["pool.example.com", "new.ent2.example.com", "*.wpool.example.com"];
    let owners = owners.iter().map(|owner| name(owner)).collect();
    Zones::builder()
        .add_zone(zone("example.com", &com))
        .add_zone(zone("example.net", NET))
        .add_zone(zone("sub.example.com", KID))
        .add_pool(Pool { name: "www".to_owned(), owners, ttl_seconds: 30, answers })
        .build()
        .expect("zones that fit together")
});

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn zone(origin: &str, text: &[u8]) -> Zone {
    Zone::from_master_file(&name(origin), text, &mut |_| Err("none".into())).expect("a zone")
}

static COOKIES: LazyLock<CookieSecrets> = LazyLock::new(|| CookieSecrets::new([7; 16]));

fuzz_target!(|input: &[u8]| {
    let Some((&[switches, scope_length_bits, high, low], query)) = input.split_first_chunk() else {
        return;
    };
    let source: IpAddr = if switches & 1 == 0 {
        Ipv4Addr::new(203, 0, 113, 77).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()
    };
    let server_id: &[u8] = if switches & 2 == 0 { b"" } else { b"fuzz" };
    let answer_index = usize::from(switches >> 2 & 3);
    let choice = Choice::of((answer_index < 3).then_some(answer_index), scope_length_bits);
    let udp_size_max = u16::from_be_bytes([high, low]);

    let ask = |transport: Transport, limit: usize| {
        let context = Context {
            udp_size_max,
            server_id,
            version: b"fuzzed",
            cookies: Some(&COOKIES),
            now_seconds: 1_800_000_000,
            ..Context::new(transport, source)
        };
        let mut calls = 0;
        let mut choose = |_: usize, client: &Client| {
            calls += 1;
            assert!(client.prefix_length_bits <= if client.address.is_ipv4() { 32 } else { 128 });
            choice
        };
        let mut reply = vec![0xff; 7];
        let outcome = answer(&ZONES, query, &context, &mut choose, &mut reply);
        assert!(calls <= 1, "the pool was asked {calls} times");
        if outcome == Outcome::Silent {
            assert!(reply.is_empty(), "silence of {} bytes", reply.len());
            return None;
        }
        assert!(reply.len() <= limit, "a reply of {} bytes", reply.len());
        let message = Message::read(&reply).expect("a reply that can be read");
        assert_eq!(message.id.to_be_bytes(), query[..2], "the query's id");
        assert!(message.flags & 0x8000 != 0, "a reply says that it is one");
        let Outcome::Answered { rcode, .. } = outcome else { return None };
        assert_eq!(message.rcode(), rcode, "the outcome says what the reply says");
        Some(message)
    };
    let udp = ask(Transport::Udp, usize::from(udp_size_max).max(512));
    let tcp = ask(Transport::Tcp, usize::from(u16::MAX));
    match (udp, tcp) {
        (None, None) => {}
        (Some(udp), Some(tcp)) => {
            assert!(!tcp.is_truncated(), "these zones fit into a reply over TCP");
            assert!(udp.is_truncated() || udp == tcp, "both transports tell the same");
        }
        _ => panic!("one transport is silent, the other is not"),
    }
    let _ = Message::read(query);
});
