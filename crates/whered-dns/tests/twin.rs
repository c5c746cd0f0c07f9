//! The naive twin: a linear scan over a list of records that follows RFC 1034, 4.3.2 and RFC 4592
//! step by step, compared with the answers on random small zones and random names.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use std::collections::BTreeSet;

use harness::{ask, name};
use proptest::prelude::*;
use whered_dns::message::{Query, Record};
use whered_dns::{CHAIN_LENGTH_MAX, Name, Rcode, RecordType, Transport, Zone, Zones};

/// One zone as a list of owner, type, data in text.
#[derive(Debug, Clone)]
struct Plain {
    origin: Name,
    records: Vec<(Name, RecordType, Vec<u8>)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Reply {
    rcode: Rcode,
    authoritative: bool,
    answer: BTreeSet<(String, RecordType, Vec<u8>)>,
    authority: BTreeSet<(String, RecordType, Vec<u8>)>,
    additional: BTreeSet<(String, RecordType, Vec<u8>)>,
}

type Key = (String, RecordType, Vec<u8>);

fn key(owner: &Name, record_type: RecordType, data: &[u8]) -> Key {
    (owner.to_string().to_lowercase(), record_type, data.to_ascii_lowercase())
}

fn ancestors_and_self(name: &Name) -> Vec<Name> {
    std::iter::successors(Some(name.clone()), Name::parent).collect()
}

fn child(label: &str, parent: &Name) -> Name {
    Name::from_text(label.as_bytes(), Some(parent)).unwrap()
}

impl Plain {
    fn at(&self, owner: &Name, record_type: RecordType) -> Vec<&[u8]> {
        let here = self.records.iter().filter(|(o, t, _)| o == owner && *t == record_type);
        here.map(|(_, _, data)| data.as_slice()).collect()
    }

    fn exists(&self, owner: &Name) -> bool {
        self.records.iter().any(|(other, _, _)| other.is_within(owner))
    }

    fn has_data(&self, owner: &Name) -> bool {
        self.records.iter().any(|(other, _, _)| other == owner)
    }

    /// The topmost delegation at or above a name.
    fn cut(&self, name: &Name) -> Option<Name> {
        let line = ancestors_and_self(name);
        let inside = line.into_iter().filter(|a| a.is_within(&self.origin) && *a != self.origin);
        inside.rev().find(|a| !self.at(a, RecordType::NS).is_empty())
    }
}

/// The deepest zone around a name; for DS at its apex the one above, when that delegates it.
fn zone_for<'a>(zones: &'a [Plain], name: &Name, question_type: RecordType) -> Option<&'a Plain> {
    let mut around: Vec<&Plain> =
        zones.iter().filter(|zone| name.is_within(&zone.origin)).collect();
    around.sort_by_key(|zone| zone.origin.label_count());
    let deepest = around.pop()?;
    if question_type == RecordType::DS
        && deepest.origin == *name
        && let Some(upper) = around.pop()
        && upper.cut(name).as_ref() == Some(name)
    {
        return Some(upper);
    }
    Some(deepest)
}

/// Answers by scanning. `zones` do not contain each other's origins except as the test makes them.
fn twin(zones: &[Plain], question: &Name, question_type: RecordType) -> Reply {
    let mut reply = Reply::default();
    let mut met: Vec<Name> = Vec::new();
    let mut name = question.clone();
    loop {
        let first = met.is_empty();
        let zone = zone_for(zones, &name, question_type);
        let Some(zone) = zone else {
            reply.rcode = if first { Rcode::REFUSED } else { Rcode::NOERROR };
            return reply;
        };
        if let Some(cut) = zone.cut(&name)
            && !(cut == name && question_type == RecordType::DS)
        {
            refer(zone, &cut, &mut reply);
            return reply;
        }
        reply.authoritative |= first;
        let mut source = name.clone();
        if !zone.exists(&name) {
            let encloser = ancestors_and_self(&name).into_iter().find(|a| zone.exists(a)).unwrap();
            source = child("*", &encloser);
            if !zone.exists(&source) {
                reply.rcode = Rcode::NXDOMAIN;
                deny(zone, &mut reply);
                return reply;
            }
        }
        let found = zone.at(&source, question_type);
        if !found.is_empty() {
            reply.answer.extend(found.iter().map(|data| key(&name, question_type, data)));
            if question_type == RecordType::NS {
                found.iter().for_each(|server| add_addresses(zone, server, &mut reply));
            }
            return reply;
        }
        let Some(alias) = zone.at(&source, RecordType::CNAME).first().copied() else {
            if question_type == RecordType::ANY && zone.has_data(&source) {
                reply.answer.insert(key(&name, RecordType::HINFO, b"\x07RFC8482\x00"));
            } else {
                deny(zone, &mut reply);
            }
            return reply;
        };
        reply.answer.insert(key(&name, RecordType::CNAME, alias));
        met.push(name);
        name = Name::from_wire(alias).unwrap();
        if question_type == RecordType::ANY || met.contains(&name) || met.len() > CHAIN_LENGTH_MAX {
            return reply;
        }
    }
}

fn deny(zone: &Plain, reply: &mut Reply) {
    let soa = zone.at(&zone.origin, RecordType::SOA);
    reply.authority.extend(soa.iter().map(|data| key(&zone.origin, RecordType::SOA, data)));
}

fn refer(zone: &Plain, cut: &Name, reply: &mut Reply) {
    for server in zone.at(cut, RecordType::NS) {
        reply.authority.insert(key(cut, RecordType::NS, server));
        add_addresses(zone, server, reply);
    }
}

fn add_addresses(zone: &Plain, server: &[u8], reply: &mut Reply) {
    let server = Name::from_wire(server).unwrap();
    if server.is_within(&zone.origin) {
        for address in zone.at(&server, RecordType::A) {
            reply.additional.insert(key(&server, RecordType::A, address));
        }
    }
}

/// Relative names of one to three labels out of few, so that random names meet often.
fn relative() -> impl Strategy<Value = String> {
    let label = prop_oneof![4 => "[abAB]", 1 => Just("c".to_owned()), 2 => Just("*".to_owned())];
    proptest::collection::vec(label, 1..4).prop_map(|labels| labels.join("."))
}

fn line() -> impl Strategy<Value = (String, &'static str, String)> {
    prop_oneof![
        4 => relative().prop_map(|owner| (owner, "A", "192.0.2.1".to_owned())),
        1 => relative().prop_map(|owner| (owner, "TXT", "t".to_owned())),
        1 => (relative(), relative()).prop_map(|(owner, to)| (owner, "MX", format!("1 {to}"))),
        1 => relative().prop_map(|owner| (owner, "DS", "1 13 2 00".to_owned())),
        3 => (relative(), target()).prop_map(|(owner, to)| (owner, "CNAME", to)),
        2 => (relative(), target()).prop_map(|(owner, to)| (owner, "NS", to)),
    ]
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => relative(),
        1 => Just("@".to_owned()),
        1 => Just("b.x.test.".to_owned()),
        1 => Just("a.y.test.".to_owned()),
        1 => Just("a.b.a.x.test.".to_owned()),
        1 => Just("elsewhere.example.".to_owned()),
    ]
}

/// Makes a zone of the lines that may stand together.
fn make(origin: &str, lines: &[(String, &'static str, String)]) -> (Plain, Zone) {
    let mut text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.example.\n".to_owned();
    let mut taken: Vec<(Name, &str)> = vec![(name(origin), "SOA")];
    let origin_name = name(origin);
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (owner, record_type, data) in lines {
        let owner_name = child(owner, &origin_name);
        let here = || taken.iter().filter(|(other, _)| *other == owner_name);
        let alone = *record_type == "CNAME" && here().next().is_some();
        let beside = here().any(|(_, other)| *other == "CNAME");
        let wild_cut = *record_type == "NS" && owner_name.is_wildcard();
        if alone || beside || wild_cut {
            continue;
        }
        let line = format!("{owner} {record_type} {data}\n");
        if kept.insert(line.to_lowercase()) {
            text += &line;
        }
        taken.push((owner_name, record_type));
    }
    let zone = harness::zone(origin, &text);
    (Plain { origin: origin_name, records: records_of(origin, &text) }, zone)
}

/// The records of a text of plain lines, read one by one without the zone's own reader.
fn records_of(origin: &str, text: &str) -> Vec<(Name, RecordType, Vec<u8>)> {
    let origin = name(origin);
    let full = |text: &str| match text {
        "@" => origin.clone(),
        text => Name::from_text(text.as_bytes(), Some(&origin)).unwrap(),
    };
    let record = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let owner = full(fields[0]);
        let (record_type, data) = match fields[1] {
            "A" => (RecordType::A, vec![192, 0, 2, 1]),
            "TXT" => (RecordType::TXT, b"\x01t".to_vec()),
            "DS" => (RecordType::DS, vec![0, 1, 13, 2, 0]),
            "NS" => (RecordType::NS, full(fields[2]).as_wire().to_vec()),
            "CNAME" => (RecordType::CNAME, full(fields[2]).as_wire().to_vec()),
            "MX" => (RecordType::MX, [&[0, 1], full(fields[3]).as_wire()].concat()),
            "SOA" => {
                let mut data = [full("ns").as_wire(), full("hm").as_wire()].concat();
                data.extend((1..=5_u32).flat_map(u32::to_be_bytes));
                (RecordType::SOA, data)
            }
            other => panic!("{other}"),
        };
        (owner, record_type, data)
    };
    text.lines().filter(|line| !line.starts_with('$')).map(record).collect()
}

fn keys(section: &[Record]) -> BTreeSet<Key> {
    let set: BTreeSet<Key> =
        section.iter().map(|record| key(&record.owner, record.record_type, &record.data)).collect();
    assert_eq!(set.len(), section.len(), "no record twice: {section:?}");
    set
}

fn compare(plain: &[Plain], zones: &Zones, question: &Name, question_type: RecordType) {
    let query = Query::new(question, question_type).build();
    let message = ask(zones, &query, Transport::Tcp).message;
    let found = Reply {
        rcode: message.rcode(),
        authoritative: message.is_authoritative(),
        answer: keys(&message.answers),
        authority: keys(&message.authorities),
        additional: message
            .additionals
            .iter()
            .map(|r| key(&r.owner, r.record_type, &r.data))
            .collect(),
    };
    assert_eq!(
        found,
        twin(plain, question, question_type),
        "{question} {question_type}\n{plain:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn answers_are_those_of_the_naive_twin(
        first in proptest::collection::vec(line(), 0..14),
        second in proptest::collection::vec(line(), 0..6),
        inner in proptest::option::of(proptest::collection::vec(line(), 0..6)),
        questions in proptest::collection::vec(relative(), 12),
    ) {
        let mut made = vec![make("x.test", &first), make("y.test", &second)];
        if let Some(inner) = inner {
            made.push(make("a.x.test", &inner));
        }
        let (plain, zones): (Vec<Plain>, Vec<Zone>) = made.into_iter().unzip();
        let zones = zones.into_iter().fold(Zones::builder(), whered_dns::ZonesBuilder::add_zone);
        let zones = zones.build().unwrap();
        let types = [
            RecordType::A, RecordType::TXT, RecordType::MX, RecordType::NS, RecordType::CNAME,
            RecordType::DS, RecordType::SOA, RecordType::ANY, RecordType(999),
        ];
        let mut names: Vec<Name> = ["x.test", "a.x.test", "y.test", "test"].map(name).to_vec();
        for question in &questions {
            names.extend(["x.test", "y.test", "a.x.test"].map(|z| child(question, &name(z))));
        }
        for question in &names {
            for question_type in types {
                compare(&plain, &zones, question, question_type);
            }
        }
    }
}
