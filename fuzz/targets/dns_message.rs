//! Any bytes as a DNS query: no panic, no reply over the limit, every reply parses.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use whered_dns::message::Message;
use whered_dns::{Answer, Choice, Context, Pool, Transport, Zone, Zones, answer};

const ZONE: &[u8] = b"$TTL 300\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\n\
www IN A 192.0.2.2\nalias IN CNAME www\nloop IN CNAME loop2\nloop2 IN CNAME loop\n\
*.wild IN A 192.0.2.3\nsub IN NS ns.sub\nns.sub IN A 192.0.2.4\ntext IN TXT \"x\" \"y\"\n";

fn zones() -> &'static Zones {
    static ZONES: OnceLock<Zones> = OnceLock::new();
    ZONES.get_or_init(|| {
        let origin = "example.com".parse().expect("a name");
        let zone = Zone::from_master_file(&origin, ZONE, &mut |_| Err("none".into())).expect("a zone");
        let pool = Pool {
            name: "www".to_owned(),
            owners: vec!["www.example.com".parse().expect("a name")],
            ttl_seconds: 30,
            answers: vec![Answer { ipv4: vec![Ipv4Addr::LOCALHOST], ipv6: Vec::new() }],
        };
        Zones::builder().add_zone(zone).add_pool(pool).build().expect("zones")
    })
}

fuzz_target!(|query: &[u8]| {
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut reply = Vec::new();
    for (transport, limit) in [(Transport::Udp, 1232), (Transport::Tcp, 65_535)] {
        let context = Context::new(transport, source);
        let mut choose = |_: usize, _: &whered_dns::Client| Choice { answer: Some(0), scope_length_bits: 24 };
        answer(zones(), query, &context, &mut choose, &mut reply);
        assert!(reply.len() <= limit, "a reply of {} bytes", reply.len());
        assert!(reply.is_empty() || Message::read(&reply).is_ok(), "a reply that does not parse");
    }
});
