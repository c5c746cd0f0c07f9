//! Zones as records, the changes between two of them, and zones with changes made: each compared
//! with a zone that is built whole of the same records.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod harness;

use std::cell::Cell;

use harness::{lines, name, query, zone};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use whered_dns::message::Message;
use whered_dns::{
    Choice, Context, Difference, Dnssec, Name, RecordType, Transport, Zone, ZoneRecord, Zones,
    answer,
};

const ORIGIN: &str = "example.com";
const APEX: &str =
    "@ 60 SOA ns hm SERIAL 2 3 4 5\n@ 60 NS ns\n@ 60 NS ns.elsewhere.net.\nns 60 A 192.0.2.1\n";

/// Records of owners that stand above, below and beside each other, with what moves them: zone
/// cuts, addresses of servers, wildcards, aliases.
const LINES: &[&str] = &[
    "a 60 A 192.0.2.2",
    "a 60 A 192.0.2.3",
    "a 60 TXT \"one\"",
    "b.a 60 AAAA 2001:db8::1",
    "c.b.a 60 A 192.0.2.4",
    "d.c.b.a 60 MX 10 a",
    "*.a 60 TXT \"star\"",
    "* 60 A 192.0.2.5",
    "*.x.y 60 A 192.0.2.6",
    "z.x.y 60 A 192.0.2.7",
    "sub 60 NS ns.sub",
    "sub 60 NS ns.other",
    "sub 60 DS 1 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "ns.sub 60 A 192.0.2.8",
    "ns.sub 60 AAAA 2001:db8::8",
    "ns.other 60 A 192.0.2.9",
    "deep.sub 60 NS ns.deep.sub",
    "ns.deep.sub 60 A 192.0.2.10",
    "other 60 NS ns.other",
    "other 60 NS ns.sub",
    "third 60 NS b.a",
    "third 60 NS ns.elsewhere.net.",
    "alias 60 CNAME a",
    "far.alias 60 CNAME alias",
    "ns 60 AAAA 2001:db8::53",
    "www.c.b.a 60 SRV 1 2 3 ns.sub",
    "@ 60 MX 10 a",
    "@ 60 MX 20 sub",
    "h.g.f.e 60 A 192.0.2.11",
    "f.e 60 TXT \"f\"",
    "i.g.f.e 60 NS ns.i.g.f.e",
    "ns.i.g.f.e 60 A 192.0.2.12",
];

fn text_of(serial: u32, chosen: &[bool]) -> String {
    let mut text = APEX.replace("SERIAL", &serial.to_string());
    // So many that changes of the others are few: those are then made in a copy of the memory.
    text.push_str("$GENERATE 1-300 other$.names 60 A 192.0.2.99\n");
    for (line, _) in LINES.iter().zip(chosen).filter(|(_, chosen)| **chosen) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn sorted(zone: &Zone) -> Vec<String> {
    let mut texts: Vec<String> = zone
        .records()
        .map(|record| {
            let ZoneRecord { owner, record_type, ttl_seconds, data } = record;
            format!("{owner} {ttl_seconds} {record_type} {}", data.escape_ascii())
        })
        .collect();
    texts.sort();
    texts
}

/// What a zone answers to questions at, above and below all names that it may have.
fn answers(zone: Zone) -> Vec<String> {
    let zones = Zones::builder().add_zone(zone).build().unwrap();
    let mut owners: Vec<String> = vec![String::new()];
    for line in LINES {
        let (owner, _) = line.split_once(' ').unwrap();
        let owner = if owner == "@" { String::new() } else { format!("{owner}.") };
        owners.push(format!("new.{owner}"));
        let mut owner = owner.as_str();
        while let Some((_, above)) = owner.split_once('.') {
            owners.push(owner.to_owned());
            owner = above;
        }
    }
    owners.sort();
    owners.dedup();
    let mut told = Vec::new();
    let types = [1, 2, 5, 15, 16, 28, 33, 43].map(RecordType);
    for (owner, record_type) in owners.iter().flat_map(|owner| types.map(|of| (owner, of))) {
        let asked = query(&format!("{owner}{ORIGIN}"), record_type).build();
        let context = Context::new(Transport::Tcp, "192.0.2.99".parse().unwrap());
        let mut reply = Vec::new();
        answer(&zones, &asked, &context, &mut |_, _| Choice::of(None, 0), &mut reply);
        let message = Message::read(&reply).unwrap();
        told.push(format!(
            "{owner} {record_type}: {} {:?} {:?} {:?}",
            message.rcode(),
            lines(&message.answers),
            lines(&message.authorities),
            lines(&message.additionals)
        ));
    }
    told
}

/// Whether lines make a zone: an alias stands alone.
fn stands(serial: u32, chosen: &[bool]) -> Option<Zone> {
    let text = text_of(serial, chosen);
    Zone::from_master_file(&name(ORIGIN), text.as_bytes(), &mut |_| Err("none".into())).ok()
}

#[test]
fn a_patched_zone_has_the_records_and_answers_of_one_that_is_built_whole() {
    let versions = prop::collection::vec(prop::collection::vec(any::<bool>(), LINES.len()), 2..6);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 48, failure_persistence: None, ..Config::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let copies = Cell::new(0);
    runner
        .run(&versions, |versions| {
            let mut served = stands(1, &versions[0]).unwrap();
            for (chosen, serial) in versions[1..].iter().zip(2..) {
                let newer = stands(serial, chosen).unwrap();
                let difference = served.difference(&newer);
                served = served.patched("a test", &[difference]).unwrap();
                prop_assert_eq!(served.serial(), serial);
                prop_assert_eq!(served.record_count(), newer.record_count());
                prop_assert_eq!(served.name_count(), newer.name_count());
                prop_assert_eq!(sorted(&served), sorted(&newer));
                // A copy has the blocks from before as well.
                copies.set(copies.get() + u32::from(served.size_bytes() > newer.size_bytes()));
            }
            let newer = stands(versions.len() as u32, versions.last().unwrap()).unwrap();
            for (found, expected) in answers(served).into_iter().zip(answers(newer)) {
                prop_assert_eq!(found, expected);
            }
            Ok(())
        })
        .unwrap();
    assert!(copies.get() > 60, "{} copies", copies.get());
}

#[test]
fn records_make_the_zone_that_they_come_from() {
    for (origin, text) in [
        ("example.com", include_str!("data/example.com.zone")),
        ("feature.test", include_str!("data/feature.test.zone")),
    ] {
        let whole = zone(origin, text);
        let copy =
            Zone::from_records(&name(origin), "here", Dnssec::Serve, whole.records()).unwrap();
        assert_eq!(sorted(&copy), sorted(&whole));
        assert!(whole.difference(&copy).added.len() == 1, "the SOA alone");
    }
}

#[test]
fn changes_that_do_not_fit_are_refused_with_their_number() {
    let whole = stands(1, &[true; 3]).unwrap();
    let newer = stands(2, &[true, true, false]).unwrap();
    let difference = whole.difference(&newer);
    let refused = |differences: &[Difference]| {
        whole.patched("192.0.2.53", differences).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[Difference { from_serial: 7, ..difference.clone() }]),
        "192.0.2.53:1:1: found changes of the serial 7; allowed: changes of the serial 1, which the \
         zone has"
    );
    let again = Difference { from_serial: 2, ..difference.clone() };
    assert_eq!(
        refused(&[difference.clone(), again]),
        "192.0.2.53:4:1: found a removed SOA of example.com. that is not there; allowed: records of \
         the zone"
    );
    let mut doubled = difference.clone();
    doubled.added.push(newer.records().last().unwrap());
    let patched = whole.patched("192.0.2.53", &[doubled]).unwrap();
    assert_eq!(sorted(&patched), sorted(&newer), "what is there already may be added");
    let mut outside = difference.clone();
    outside.added[0].owner = "elsewhere.net".parse::<Name>().unwrap();
    assert!(refused(&[outside]).contains("outside of the zone"));
    let mut bare = difference;
    bare.added.truncate(0);
    assert!(refused(&[bare]).contains("no SOA"));
}

#[test]
fn a_removed_dname_that_hides_names_needs_a_whole_transfer() {
    let text = |serial, line: &str| {
        let apex = APEX.replace("SERIAL", serial);
        zone(ORIGIN, &format!("{apex}{line}a.b 60 A 192.0.2.1\n"))
    };
    let hidden = text("1", "b 60 DNAME c\n");
    assert_eq!(hidden.warnings().len(), 1);
    let difference = hidden.difference(&text("2", ""));
    let error = hidden.patched("192.0.2.53", &[difference]).unwrap_err();
    assert!(error.to_string().contains("a whole transfer"), "{error}");
    // Also when another change came between.
    let changed = text("2", "b 60 DNAME c\nnew 60 A 192.0.2.2\n");
    let between = hidden.patched("192.0.2.53", &[hidden.difference(&changed)]).unwrap();
    let removed = between.difference(&text("3", "new 60 A 192.0.2.2\n"));
    let error = between.patched("192.0.2.53", &[removed]).unwrap_err();
    assert!(error.to_string().contains("a whole transfer"), "{error}");
}
