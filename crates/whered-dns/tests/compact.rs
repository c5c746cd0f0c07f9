//! Compact denial (RFC 9824): what a question gets, and how many signatures are made for it.
//! That validators accept the answers is shown in `signing.rs`.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{name, query};
use whered_dns::message::{Message, Query, Record};
use whered_dns::{
    Answer, Choice, Context, DenialMethod, KeyAlgorithm, KeyStates, Name, Outcome, Pool, Rcode,
    RecordType, SignatureLimit, SignatureLimiter, SigningContext, SigningKey, Transport, Zone,
    Zones, answer,
};

const TEXT: &str = "$TTL 60
@ SOA ns hm 1 2 3 4 30
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
to-www CNAME www
to-none CNAME nobody
x.empty TXT \"below an empty name\"
*.wild TXT \"wild\"
*.wild MX 10 ns
sub NS ns.other.example.
";
const NXNAME: RecordType = RecordType(128);

/// A zone with compact denial and two pools, of which one gives several answers.
fn zones() -> Zones {
    let origin = name("compact.test");
    let key = SigningKey::generate(&origin, KeyAlgorithm::EcdsaP256Sha256).unwrap().key;
    let mut signing = SigningContext::new(vec![key], &KeyStates::default(), 1_764_230_400).unwrap();
    signing.set_denial(DenialMethod::Compact);
    let owners = ["pool.compact.test", "*.geo.compact.test"].map(name);
    owners.iter().for_each(|owner| signing.add_pool_owner(owner, []));
    let none = &mut |_: &str| Err("none".to_owned());
    let zone = Zone::sign_master_file(&origin, TEXT.as_bytes(), &signing, none).unwrap();
    let site = |address: &str| Answer { ipv4: vec![address.parse().unwrap()], ..Answer::default() };
    let answers = (1..=9).map(|site_number| site(&format!("198.51.100.{site_number}"))).collect();
    let pool = Pool { name: "pool".to_owned(), owners: owners.into(), ttl_seconds: 20, answers };
    Zones::builder().add_zone(zone).add_pool(pool).build().unwrap()
}

/// Counts what it is asked, and permits a number of signatures.
#[derive(Debug)]
struct Count {
    asked: AtomicUsize,
    permitted: usize,
}

impl Count {
    fn of(permitted: usize) -> Count {
        Count { asked: AtomicUsize::new(0), permitted }
    }
}

impl SignatureLimit for Count {
    fn permits(&self, _: IpAddr, _: bool) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) < self.permitted
    }
}

fn ask_with(
    zones: &Zones,
    query: &Query,
    transport: Transport,
    limit: &dyn SignatureLimit,
    choice: Choice,
) -> Message {
    let source: IpAddr = "203.0.113.77".parse().unwrap();
    let context = Context { signatures: Some(limit), ..Context::new(transport, source) };
    let mut reply = Vec::new();
    let outcome = answer(zones, &query.build(), &context, &mut |_, _| choice, &mut reply);
    let message = Message::read(&reply).unwrap();
    let Outcome::Answered { rcode, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(rcode, message.rcode());
    message
}

fn ask(zones: &Zones, query: &Query) -> Message {
    ask_with(zones, query, Transport::Udp, &Count::of(usize::MAX), Choice::of(Some(0), 0))
}

fn owner(host: &str) -> String {
    if host.is_empty() { "compact.test".to_owned() } else { format!("{host}.compact.test") }
}

/// The only NSEC of a section: its owner, next name and types.
fn nsec(section: &[Record]) -> (Name, Name, Vec<RecordType>) {
    let all: Vec<&Record> =
        section.iter().filter(|record| record.record_type == RecordType::NSEC).collect();
    let [record] = all[..] else { panic!("{section:?}") };
    let next = (1..=record.data.len()).find_map(|end| Name::from_wire(&record.data[..end]).ok());
    let next = next.unwrap();
    let mut types = Vec::new();
    let mut rest = &record.data[next.as_wire().len()..];
    while let [window, length, behind @ ..] = rest {
        let (bits, behind) = behind.split_at(usize::from(*length));
        for (byte, at) in bits.iter().zip(0_u16..) {
            let of = |bit: u16| RecordType(u16::from(*window) << 8 | (at * 8 + bit));
            types.extend((0..8).filter(|bit| byte & (0x80 >> bit) != 0).map(of));
        }
        rest = behind;
    }
    (record.owner.clone(), next, types)
}

/// The labels that the signatures over a type say their owner to have.
fn signed_labels(section: &[Record], covered: RecordType) -> Vec<u8> {
    let of = |record: &&Record| {
        record.record_type == RecordType::RRSIG && record.data[..2] == covered.0.to_be_bytes()
    };
    section.iter().filter(of).map(|record| record.data[3]).collect()
}

#[test]
fn a_missing_name_is_denied_by_one_nsec_with_nxname_at_the_name() {
    let zones = zones();
    for host in ["nobody", "a.b.nobody", "x.www", "\\000.ns"] {
        let asked = query(&owner(host), RecordType::A).dnssec_ok();
        let message = ask(&zones, &asked);
        assert_eq!((message.rcode(), message.answers.len()), (Rcode::NOERROR, 0), "{host}");
        let types = vec![RecordType::RRSIG, RecordType::NSEC, NXNAME];
        let next = name(&format!("\\000.{}", owner(host)));
        assert_eq!(nsec(&message.authorities), (name(&owner(host)), next, types));
        assert_eq!(message.authorities.len(), 4, "SOA and NSEC, each with its RRSIG");
        assert!(!message.edns.as_ref().unwrap().compact_ok);
        // The flag CO restores the response code, and is acknowledged.
        let restored = ask(&zones, &asked.compact_ok());
        assert_eq!(restored.rcode(), Rcode::NXDOMAIN);
        assert!(restored.edns.as_ref().unwrap().compact_ok);
        assert_eq!(restored.authorities, message.authorities);
        // Without DO nothing changes.
        for plain in
            [query(&owner(host), RecordType::A), query(&owner(host), RecordType::A).compact_ok()]
        {
            let plain = ask(&zones, &plain);
            assert_eq!((plain.rcode(), plain.authorities.len()), (Rcode::NXDOMAIN, 1));
            assert!(plain.edns.is_none_or(|edns| !edns.compact_ok));
        }
    }
    // The code of a chain is that of its end.
    let alias = query(&owner("to-none"), RecordType::A).dnssec_ok();
    let message = ask(&zones, &alias);
    assert_eq!(
        (message.rcode(), nsec(&message.authorities).0),
        (Rcode::NOERROR, name(&owner("nobody")))
    );
    assert_eq!(ask(&zones, &alias.compact_ok()).rcode(), Rcode::NXDOMAIN);
}

#[test]
fn a_missing_type_is_denied_with_the_types_that_are_there() {
    use RecordType as Type;
    let zones = zones();
    for (host, asked, types) in [
        ("www", Type::AAAA, &[Type::A, Type::RRSIG, Type::NSEC][..]),
        ("empty", Type::A, &[Type::RRSIG, Type::NSEC]),
        ("q.wild", Type::A, &[Type::MX, Type::TXT, Type::RRSIG, Type::NSEC]),
        ("*.wild", Type::A, &[Type::MX, Type::TXT, Type::RRSIG, Type::NSEC]),
        ("sub", Type::DS, &[Type::NS, Type::RRSIG, Type::NSEC]),
        ("x.sub", Type::A, &[Type::NS, Type::RRSIG, Type::NSEC]),
        ("pool", Type::MX, &[Type::A, Type::AAAA, Type::RRSIG, Type::NSEC]),
    ] {
        let message = ask(&zones, &query(&owner(host), asked).dnssec_ok().compact_ok());
        assert_eq!((message.rcode(), message.answers.len()), (Rcode::NOERROR, 0), "{host}");
        let mut types = types.to_vec();
        types.sort_unstable();
        let (of, _, told) = nsec(&message.authorities);
        let expected = if host == "x.sub" { owner("sub") } else { owner(host) };
        assert_eq!((of, told), (name(&expected), types), "{host}");
    }
    // The chosen site lacks the type, which the next one may have.
    let message = ask(&zones, &query(&owner("pool"), Type::AAAA).dnssec_ok());
    assert_eq!(nsec(&message.authorities).2, [Type::A, Type::RRSIG, Type::NSEC]);
    assert!(
        message
            .authorities
            .iter()
            .all(|record| record.ttl_seconds == 20 || record.record_type == Type::RRSIG)
    );
}

#[test]
fn a_wildcards_answer_is_signed_as_if_the_zone_had_the_name() {
    let zones = zones();
    for (host, asked) in
        [("q.wild", RecordType::TXT), ("a.b.wild", RecordType::MX), ("q.geo", RecordType::A)]
    {
        let message = ask(&zones, &query(&owner(host), asked).dnssec_ok());
        let labels = name(&owner(host)).label_count() as u8;
        assert_eq!(signed_labels(&message.answers, asked), [labels], "{host}");
        assert_eq!(message.authorities, [], "{host}");
    }
}

#[test]
fn signatures_at_a_wildcard_are_not_signed() {
    let zones = zones();
    let message = ask(&zones, &query(&owner("q.wild"), RecordType::RRSIG).dnssec_ok());
    assert_eq!(signed_labels(&message.answers, RecordType::RRSIG), [0_u8; 0]);
}

#[test]
fn a_question_for_nsec_gets_the_record_that_proves_the_rest() {
    let zones = zones();
    for (host, count) in [("www", 1), ("q.wild", 2), ("empty", 0), ("pool", 2), ("nobody", 1)] {
        let message = ask(&zones, &query(&owner(host), RecordType::NSEC).dnssec_ok());
        let (of, _, types) = nsec(&message.answers);
        assert_eq!((of, types.len()), (name(&owner(host)), 2 + count), "{host}");
        assert_eq!(signed_labels(&message.answers, RecordType::NSEC).len(), 1);
    }
}

#[test]
fn a_question_for_nxname_is_a_format_error_with_its_reason() {
    let zones = zones();
    for host in ["www", "nobody", "pool"] {
        let message = ask(&zones, &query(&owner(host), NXNAME).edns(1232));
        assert_eq!(message.rcode(), Rcode::FORMERR);
        assert_eq!(message.edns.unwrap().options, [(15, vec![0, 30])]);
    }
}

#[test]
fn each_question_is_signed_once_and_above_the_limit_truncated_or_refused() {
    let zones = zones();
    let several = {
        let mut choice = Choice::of(Some(1), 0);
        choice.push(2);
        choice
    };
    for (host, asked, choice) in [
        ("nobody", RecordType::A, Choice::of(None, 0)),
        ("www", RecordType::TXT, Choice::of(None, 0)),
        ("q.wild", RecordType::TXT, Choice::of(None, 0)),
        ("x.sub", RecordType::A, Choice::of(None, 0)),
        ("pool", RecordType::A, several),
        ("pool", RecordType::AAAA, Choice::of(Some(1), 0)),
        ("q.geo", RecordType::A, Choice::of(Some(1), 0)),
    ] {
        let asked = query(&owner(host), asked).dnssec_ok();
        let none = Count::of(0);
        let message = ask_with(&zones, &asked, Transport::Udp, &none, choice);
        assert!(message.is_truncated() && message.rcode() == Rcode::NOERROR, "{host}");
        let message = ask_with(&zones, &asked, Transport::Tcp, &none, choice);
        assert_eq!(message.rcode(), Rcode::REFUSED, "{host}");
        assert_eq!(message.edns.unwrap().options, [(15, vec![0, 18])]);
        for sections in [&message.answers, &message.authorities] {
            assert_eq!(*sections, []);
        }
        let one = Count::of(1);
        let first = ask_with(&zones, &asked, Transport::Udp, &one, choice);
        assert!(!first.is_truncated(), "{host}");
        assert_eq!(first, ask_with(&zones, &asked, Transport::Udp, &one, choice), "{host}");
        assert_eq!(one.asked.load(Ordering::SeqCst), 1, "{host}");
    }
    // What is signed beforehand asks nobody.
    let none = Count::of(0);
    for (host, asked) in [("www", RecordType::A), ("pool", RecordType::A), ("", RecordType::SOA)] {
        let asked = query(&owner(host), asked).dnssec_ok();
        let message = ask_with(&zones, &asked, Transport::Udp, &none, Choice::of(Some(0), 0));
        assert_eq!(message.answers.len(), 2, "{host}");
    }
    assert_eq!(none.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_network_gets_its_signatures_and_forged_networks_share_theirs() {
    let limiter = Mutex::new(SignatureLimiter::new(10));
    let count = |source: &str, is_proven, now_millis| {
        let source = source.parse().unwrap();
        let mut limiter = limiter.lock().unwrap();
        (0..100).filter(|_| limiter.permits(source, is_proven, now_millis)).count()
    };
    assert_eq!(count("192.0.2.1", false, 0), 20, "a burst of two seconds' worth");
    assert_eq!(count("192.0.2.200", false, 0), 0, "the same network");
    assert_eq!(count("192.0.2.200", true, 0), 20, "a client whose address is its own");
    assert_eq!(count("192.0.2.1", false, 1000), 10, "ten more in a second");
    assert_eq!(count("2001:db8::1", true, 1000), 20);
    assert_eq!(count("2001:db8:0:ff::1", true, 1000), 0, "the same /56");
    let forged: usize = (0..=255).map(|net| count(&format!("198.51.{net}.1"), false, 1000)).sum();
    assert!((300..=320).contains(&forged), "{forged}: sixteen networks' worth");
    assert_eq!(count("203.0.113.1", true, 1000), 20, "proven clients do not share it");
}
