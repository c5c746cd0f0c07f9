//! Any bytes as a master file: a zone or an error with its place, never a panic; and whatever is
//! taken for a zone can be served: every name that the text mentions gets a reply that can be read.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use whered_dns::message::{Message, Query};
use whered_dns::{
    Answer, Choice, Context, Dnssec, Name, Outcome, Pool, RecordType, Transport, Zone, Zones,
    answer,
};

const INCLUDED: &[u8] = b"inc IN A 192.0.2.9\n";
const ASKED_NAMES_MAX: usize = 24;

fuzz_target!(|text: &[u8]| {
    for dnssec in [Dnssec::Refuse, Dnssec::Strip] {
        check(text, dnssec);
    }
});

fn check(text: &[u8], dnssec: Dnssec) {
    let origin: Name = "example.com".parse().expect("a name");
    let mut includes = 0;
    let mut include = |path: &str| {
        includes += 1;
        match path {
            _ if includes > 3 => Err("too many".to_owned()),
            "self" => Ok(text.to_vec()),
            _ => Ok(INCLUDED.to_vec()),
        }
    };
    match Zone::from_any_master_file(&origin, text, dnssec, &mut include) {
        Ok(zone) => serve(&origin, text, zone),
        Err(error) => {
            check_place(text, &error);
            assert!(!error.found().is_empty() && !error.allowed().is_empty(), "{error}");
            assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
        }
    }
}

/// The place of a mistake is in the text, or at its end.
fn check_place(text: &[u8], error: &whered_dns::ZoneError) {
    let text = match error.file() {
        None | Some("self") => text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
        Some(_) => INCLUDED,
    };
    let line = text.split(|&byte| byte == b'\n').nth(error.line() - 1);
    let line = line.unwrap_or_else(|| panic!("no such line: {error}"));
    assert!((1..=line.len() + 1).contains(&error.column()), "no such column: {error}");
}

fn serve(origin: &Name, text: &[u8], zone: Zone) {
    assert!(zone.record_count() >= 2, "a zone has its SOA and NS at least");
    assert_eq!(zone.origin(), origin);
    for warning in zone.warnings() {
        check_place(text, warning);
    }
    let pool = Pool {
        name: "p".to_owned(),
        owners: vec!["pool.example.com".parse().expect("a name")],
        ttl_seconds: 30,
        answers: vec![Answer { ipv4: vec![Ipv4Addr::LOCALHOST], ..Answer::default() }],
    };
    let zone = std::sync::Arc::new(zone);
    let with_pool = Zones::builder().add_zone(std::sync::Arc::clone(&zone)).add_pool(pool).build();
    // The text may have an alias or a delegation where the pool wants to answer.
    let zones = match with_pool {
        Ok(zones) => zones,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Zones::builder().add_zone(zone).build().expect("one zone alone")
        }
    };
    let tokens = text.split(|byte| b" \t\r\n;()\"".contains(byte));
    let mentioned = tokens.filter(|token| !token.is_empty());
    let mut names: Vec<Name> =
        mentioned.filter_map(|token| Name::from_text(token, Some(origin)).ok()).collect();
    names.sort();
    names.dedup();
    names.truncate(ASKED_NAMES_MAX);
    names.push(origin.clone());
    let types = [RecordType::A, RecordType::NS, RecordType::TXT, RecordType::MX, RecordType::ANY];
    for name in &names {
        for record_type in types {
            ask(&zones, name, record_type);
        }
    }
}

fn ask(zones: &Zones, name: &Name, record_type: RecordType) {
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut choose = |_: usize, _: &_| Choice::of(Some(0), 0);
    let mut reply = Vec::new();
    let query = Query::new(name, record_type).build();
    for (transport, limit) in [(Transport::Udp, 512), (Transport::Tcp, 65_535)] {
        let context = Context::new(transport, source);
        let outcome = answer(zones, &query, &context, &mut choose, &mut reply);
        assert!(outcome != Outcome::Silent, "a query gets a reply");
        assert!(reply.len() <= limit, "a reply of {} bytes", reply.len());
        Message::read(&reply).expect("a reply that can be read");
    }
}
