//! Zones whose names are addresses, against a list that is searched by hand.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use std::cell::RefCell;
use std::net::IpAddr;

use harness::{lines, query, zone};
use whered_dns::message::Message;
use whered_dns::{
    Answers, Choice, Context, Outcome, Query, Rcode, RecordType, Synthesise, Synthesised,
    Transport, Workspace, Zones, answer, answer_batch,
};

const APEX: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.example.net.\n\
                    2.0.0.127 A 127.0.0.9\nwww A 192.0.2.1\n*.wild TXT \"any\"\n\
                    alias CNAME 5.113.0.203\n";

/// Lists some addresses; 10.0.0.1 cannot be read. Keeps what it was told before.
#[derive(Debug)]
struct Listed(Vec<IpAddr>, RefCell<Vec<(usize, IpAddr)>>);

impl Synthesise for Listed {
    fn synthesise(
        &self,
        zone: usize,
        address: IpAddr,
        record_type: RecordType,
        data: &mut Vec<u8>,
    ) -> Synthesised {
        assert_eq!(zone, 1);
        if address == IpAddr::from([10, 0, 0, 1]) {
            return Synthesised::Failed;
        }
        if !self.0.contains(&address) {
            return Synthesised::Absent;
        }
        if record_type != RecordType::A {
            return Synthesised::NoData;
        }
        data.extend_from_slice(&[127, 0, 0, 2]);
        Synthesised::Record { ttl_seconds: 7 }
    }

    fn prefetch(&self, asked: &[(usize, IpAddr)]) {
        self.1.borrow_mut().extend_from_slice(asked);
    }
}

fn listed() -> Listed {
    let listed = vec!["203.0.113.5".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    Listed(listed, RefCell::default())
}

fn zones() -> Zones {
    zones_of(APEX)
}

fn zones_of(apex: &str) -> Zones {
    let other = zone("example.com", "@ 60 SOA ns hm 1 2 3 4 5\n@ 60 NS ns.example.net.\n");
    Zones::builder()
        .add_zone(other)
        .add_reversed_zone(zone("bl.example.com", apex), 7)
        .build()
        .unwrap()
}

const NO_CHOICE: Choice = Choice::of(None, 0);

/// Asks alone and in a batch, which must be the same.
fn ask(text: &str, record_type: RecordType) -> Message {
    ask_in(&zones(), text, record_type)
}

fn ask_in(zones: &Zones, text: &str, record_type: RecordType) -> Message {
    let listed = listed();
    let source = "198.51.100.7".parse().unwrap();
    let context = Context { synthesise: Some(&listed), ..Context::new(Transport::Udp, source) };
    let bytes = query(text, record_type).build();
    let mut choose = |_, _: &_| NO_CHOICE;
    let mut alone = Vec::new();
    answer(zones, &bytes, &context, &mut choose, &mut alone);
    let queries = [Query { bytes: &bytes, source }];
    let mut room = Room([0; 1232], 0);
    let mut workspace = Workspace::new();
    answer_batch(zones, &context, &queries, 0, &mut choose, &mut workspace, &mut room);
    assert_eq!(room.0[..room.1], alone[..]);
    Message::read(&alone).unwrap()
}

struct Room([u8; 1232], usize);

impl Answers for Room {
    fn room(&mut self, _: usize) -> &mut [u8] {
        &mut self.0
    }

    fn answered(&mut self, _: usize, size_bytes: usize, _: Outcome) {
        self.1 = size_bytes;
    }
}

const SOA: [&str; 1] = ["bl.example.com. 5 SOA ..."];
const ALIAS: &str = "alias.bl.example.com. 60 CNAME 5.113.0.203.bl.example.com.";
const LISTED: &str = "5.113.0.203.bl.example.com";

fn nibbles(address: &str) -> String {
    let address: std::net::Ipv6Addr = address.parse().unwrap();
    let digits = format!("{:032X}", address.to_bits());
    let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
    format!("{}.bl.example.com", labels.join("."))
}

#[test]
fn a_batch_tells_its_addresses_before_it_asks() {
    let (zones, listed) = (zones(), listed());
    let source = "198.51.100.7".parse().unwrap();
    let context = Context { synthesise: Some(&listed), ..Context::new(Transport::Udp, source) };
    let names =
        [LISTED, "5.113.0.203.example.com", "www.bl.example.com", "3.2.1.bl.example.com", "com"];
    let names = names.map(str::to_owned).into_iter().chain([nibbles("2001:db8::9")]);
    let bytes: Vec<_> = names.map(|name| query(&name, RecordType::A).build()).collect();
    let queries: Vec<_> = bytes.iter().map(|bytes| Query { bytes, source }).collect();
    let (mut choose, mut room) = (|_, _: &_| NO_CHOICE, Room([0; 1232], 0));
    let mut workspace = Workspace::new();
    answer_batch(&zones, &context, &queries, 0, &mut choose, &mut workspace, &mut room);
    let told = ["203.0.113.5", "2001:db8::9"].map(|address| (1, address.parse().unwrap()));
    assert_eq!(*listed.1.borrow(), told);
}

#[test]
fn a_listed_address_is_answered_with_authority_at_the_name_that_was_asked() {
    let found = ask(LISTED, RecordType::A);
    assert_eq!(lines(&found.answers), ["5.113.0.203.bl.example.com. 7 A 127.0.0.2"]);
    assert!(found.is_authoritative() && found.authorities.is_empty());
    assert_eq!(ask(&nibbles("2001:db8::1"), RecordType::A).answers[0].data, [127, 0, 0, 2]);
    let any = ask(LISTED, RecordType::ANY);
    assert_eq!(any.answers[0].record_type, RecordType::HINFO);
}

#[test]
fn an_address_without_a_record_of_the_type_is_nodata_and_one_that_is_not_listed_nxdomain() {
    let cases = [
        (LISTED.to_owned(), RecordType::MX, Rcode::NOERROR),
        ("6.113.0.203.bl.example.com".to_owned(), RecordType::A, Rcode::NXDOMAIN),
        ("6.113.0.203.bl.example.com".to_owned(), RecordType::ANY, Rcode::NXDOMAIN),
        (nibbles("2001:db8::2"), RecordType::A, Rcode::NXDOMAIN),
        ("x.5.113.0.203.bl.example.com".to_owned(), RecordType::A, Rcode::NXDOMAIN),
        ("5.113.0.0203.bl.example.com".to_owned(), RecordType::A, Rcode::NXDOMAIN),
        ("other.bl.example.com".to_owned(), RecordType::A, Rcode::NXDOMAIN),
    ];
    for (name, record_type, rcode) in cases {
        let found = ask(&name, record_type);
        assert_eq!((found.rcode(), found.answers.len()), (rcode, 0), "{name}");
        assert_eq!(lines(&found.authorities), SOA, "{name}");
    }
}

#[test]
fn an_address_that_is_not_listed_is_remembered_no_longer_than_one_that_is() {
    let zones = zones_of(&APEX.replace("4 5\n", "4 86400\n").replace("$TTL 60", "$TTL 86400"));
    let names = [
        (LISTED.to_owned(), RecordType::MX),
        ("6.113.0.203.bl.example.com".to_owned(), RecordType::A),
        ("6.113.0.203.bl.example.com".to_owned(), RecordType::TXT),
        (nibbles("2001:db8::2"), RecordType::A),
        ("113.0.203.bl.example.com".to_owned(), RecordType::A),
    ];
    for (name, record_type) in names {
        let found = ask_in(&zones, &name, record_type);
        assert_eq!(lines(&found.authorities), ["bl.example.com. 7 SOA ..."], "{name}");
    }
    let soa = ask_in(&zones, "bl.example.com", RecordType::SOA);
    assert_eq!(lines(&soa.answers), ["bl.example.com. 86400 SOA ..."]);
}

#[test]
fn a_part_of_an_address_exists_since_addresses_may_be_below_it() {
    for part in ["203", "113.0.203", "8.b.d.0.1.0.0.2", "9.8.7.6", "127"] {
        for record_type in [RecordType::A, RecordType::ANY] {
            let found = ask(&format!("{part}.bl.example.com"), record_type);
            assert_eq!((found.rcode(), found.answers.len()), (Rcode::NOERROR, 0), "{part}");
            assert_eq!(lines(&found.authorities), SOA, "{part}");
        }
    }
}

#[test]
fn records_of_the_zone_go_before_and_other_zones_are_not_asked() {
    let test_entry = ask("2.0.0.127.bl.example.com", RecordType::A);
    assert_eq!(test_entry.answers[0].data, [127, 0, 0, 9]);
    assert_eq!(ask("bl.example.com", RecordType::SOA).answers.len(), 1);
    assert_eq!(ask("www.bl.example.com", RecordType::A).answers.len(), 1);
    assert_eq!(ask("1.2.3.4.wild.bl.example.com", RecordType::TXT).answers.len(), 1);
    assert_eq!(ask("5.113.0.203.example.com", RecordType::A).rcode(), Rcode::NXDOMAIN);
    let alias = ask("alias.bl.example.com", RecordType::A);
    let listed = format!("{LISTED}. 7 A 127.0.0.2");
    assert_eq!(lines(&alias.answers), [&listed, ALIAS]);
}

#[test]
fn a_source_that_cannot_be_read_is_a_failure_of_the_server() {
    let found = ask("1.0.0.10.bl.example.com", RecordType::A);
    assert_eq!((found.rcode(), found.answers.len()), (Rcode::SERVFAIL, 0));
}
