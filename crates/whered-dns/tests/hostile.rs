//! Random and mutated queries: no panic, no reply above the limit, every reply can be read.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use std::net::IpAddr;
use std::sync::LazyLock;

use proptest::prelude::*;
use whered_dns::message::Message;
use whered_dns::{Choice, Context, Outcome, RecordType, Transport, Zones, answer};

static ZONES: LazyLock<Zones> = LazyLock::new(harness::zones);

fn check(query: &[u8], udp_size_max: u16, transport: Transport) {
    let source: IpAddr = "2001:db8::1".parse().unwrap();
    let context = Context { udp_size_max, server_id: b"id", ..Context::new(transport, source) };
    let mut choose = |_: usize, _: &_| Choice::of(Some(1), 255);
    let mut reply = Vec::new();
    let outcome = answer(&ZONES, query, &context, &mut choose, &mut reply);
    if outcome == Outcome::Silent {
        assert!(reply.is_empty());
        return;
    }
    let limit = match transport {
        Transport::Udp => usize::from(udp_size_max.max(512)),
        Transport::Tcp => 65535,
    };
    assert!(reply.len() <= limit, "{} bytes", reply.len());
    let message = Message::read(&reply).unwrap_or_else(|error| panic!("{error}: {reply:?}"));
    assert_eq!(message.id.to_be_bytes(), query[..2]);
    assert_eq!(message.flags & 0x8000, 0x8000);
}

fn transports() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Udp), Just(Transport::Tcp)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn random_bytes_are_survived(
        query in proptest::collection::vec(any::<u8>(), 0..600),
        size: u16,
        transport in transports(),
    ) {
        check(&query, size, transport);
    }

    #[test]
    fn mutated_queries_are_survived(
        owner in "([a-z]{1,9}\\.)?(www|alias2|loop-a|pool|x\\.sub|q\\.wild|_udp|cross|down)",
        number in prop_oneof![Just(1_u16), Just(28), Just(5), Just(43), Just(255), any::<u16>()],
        subnet in proptest::collection::vec(any::<u8>(), 0..24),
        length in 0_u8..=32,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        size: u16,
        transport in transports(),
    ) {
        let query = harness::query(&format!("{owner}.example.com"), RecordType(number)).edns(size);
        let query = query.client_subnet("198.51.100.255".parse().unwrap(), length);
        let mut bytes = query.option(11, &subnet).build();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes, size, transport);
    }

    #[test]
    fn random_messages_never_break_the_reader(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = Message::read(&bytes);
    }
}

#[test]
fn every_byte_of_a_query_may_be_anything() {
    let query = harness::query("pool.example.com", RecordType::A);
    let query = query.client_subnet("192.0.2.0".parse().unwrap(), 24).build();
    for at in 0..query.len() {
        for byte in 0..=255 {
            let mut bytes = query.clone();
            bytes[at] = byte;
            check(&bytes, 1232, Transport::Udp);
        }
    }
}
