//! A table of questions with the sections that answer them, and the claims beside the table.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use harness::{ask, lines, query, zones};
use std::net::IpAddr;
use whered_dns::message::{Message, Query};
use whered_dns::transfer::{TsigAlgorithm, TsigKey};
use whered_dns::{
    Answer, Choice, Context, Name, Outcome, Pool, Rcode, RecordType, Transport, Zone, Zones, answer,
};

struct Case {
    claim: &'static str,
    owner: &'static str,
    record_type: RecordType,
    rcode: Rcode,
    authoritative: bool,
    answer: &'static [&'static str],
    authority: &'static [&'static str],
    additional: &'static [&'static str],
}

const SOA: &[&str] = &["example.com. 300 SOA ..."];
const WWW: [&str; 2] = ["www.example.com. 3600 A 192.0.2.10", "www.example.com. 3600 A 192.0.2.11"];
const NS1: [&str; 2] =
    ["ns1.example.com. 3600 A 192.0.2.1", "ns1.example.com. 3600 AAAA 2001:db8::1"];
const GLUE: &[&str] = &[
    "ns.sub.example.com. 3600 A 192.0.2.53",
    "ns.sub.example.com. 3600 AAAA 2001:db8::53",
    NS1[0],
    NS1[1],
];
const SUB: &[&str] =
    &["sub.example.com. 3600 NS ns.sub.example.com.", "sub.example.com. 3600 NS ns1.example.com."];

const fn found(
    claim: &'static str,
    owner: &'static str,
    record_type: RecordType,
    answer: &'static [&'static str],
) -> Case {
    Case {
        claim,
        owner,
        record_type,
        rcode: Rcode::NOERROR,
        authoritative: true,
        answer,
        authority: &[],
        additional: &[],
    }
}

const fn no_data(claim: &'static str, owner: &'static str, record_type: RecordType) -> Case {
    Case { authority: SOA, ..found(claim, owner, record_type, &[]) }
}

const fn no_name(claim: &'static str, owner: &'static str, record_type: RecordType) -> Case {
    Case { rcode: Rcode::NXDOMAIN, ..no_data(claim, owner, record_type) }
}

const fn referral(claim: &'static str, owner: &'static str, record_type: RecordType) -> Case {
    Case {
        authoritative: false,
        authority: SUB,
        additional: GLUE,
        ..found(claim, owner, record_type, &[])
    }
}

use RecordType as T;

const DATA: &[Case] = &[
    found("A", "www.example.com", T::A, &WWW),
    found("AAAA", "www.example.com", T::AAAA, &["www.example.com. 3600 AAAA 2001:db8::10"]),
    found("an own TTL", "mail.example.com", T::A, &["mail.example.com. 300 A 192.0.2.25"]),
    Case {
        additional: &NS1,
        ..found(
            "NS at the apex",
            "example.com",
            T::NS,
            &["example.com. 3600 NS ns.other.example.", "example.com. 3600 NS ns1.example.com."],
        )
    },
    found("SOA at the apex", "example.com", T::SOA, &["example.com. 3600 SOA ..."]),
    found("MX", "example.com", T::MX, &["example.com. 3600 MX mail.example.com."]),
    found(
        "TXT",
        "example.com",
        T::TXT,
        &["example.com. 3600 TXT \\x0bv=spf1 -all\\rsecond string"],
    ),
    found("CAA", "example.com", T::CAA, &["example.com. 3600 CAA \\x00\\x05issueca.example"]),
    found(
        "SRV",
        "_sip._udp.example.com",
        T::SRV,
        &["_sip._udp.example.com. 3600 SRV mail.example.com."],
    ),
    found(
        "PTR",
        "10.2.0.192.rev.example.com",
        T::PTR,
        &["10.2.0.192.rev.example.com. 3600 PTR www.example.com."],
    ),
    found(
        "an unknown type as data (RFC 3597)",
        "generic.example.com",
        RecordType(65280),
        &["generic.example.com. 3600 TYPE65280 \\n\\x00\\x00\\x01"],
    ),
    found(
        "HTTPS",
        "svc.example.com",
        RecordType(65),
        &["svc.example.com. 3600 HTTPS \\x00\\x01\\x00\\x00\\x01\\x00\\x03\\x02h2"],
    ),
    no_data("NODATA", "mail.example.com", T::AAAA),
    no_data("an empty non-terminal exists", "_udp.example.com", T::A),
    no_data("a deep empty non-terminal exists", "0.192.rev.example.com", T::PTR),
    no_name("NXDOMAIN", "nothing.example.com", T::A),
    no_name("NXDOMAIN below a name that exists", "x.y.www.example.com", T::A),
    found(
        "ANY is answered by HINFO",
        "www.example.com",
        T::ANY,
        &["www.example.com. 3600 HINFO \\x07RFC8482\\x00"],
    ),
    found(
        "ANY at an alias is the alias",
        "alias.example.com",
        T::ANY,
        &["alias.example.com. 3600 CNAME www.example.com."],
    ),
    no_data("ANY at an empty non-terminal is NODATA", "_udp.example.com", T::ANY),
    no_name("ANY at no name is NXDOMAIN", "nothing.example.com", T::ANY),
    Case {
        rcode: Rcode::REFUSED,
        authoritative: false,
        ..found("REFUSED outside", "www.example.org", T::A, &[])
    },
    Case {
        rcode: Rcode::REFUSED,
        authoritative: false,
        ..found("REFUSED above", "com", T::A, &[])
    },
    Case {
        rcode: Rcode::REFUSED,
        authoritative: false,
        ..found("transfers are REFUSED", "example.com", T::IXFR, &[])
    },
];

const ALIASES: &[Case] = &[
    found(
        "an alias is followed",
        "alias.example.com",
        T::A,
        &["alias.example.com. 3600 CNAME www.example.com.", WWW[0], WWW[1]],
    ),
    found(
        "a chain is followed",
        "alias2.example.com",
        T::AAAA,
        &[
            "alias.example.com. 3600 CNAME www.example.com.",
            "alias2.example.com. 3600 CNAME alias.example.com.",
            "www.example.com. 3600 AAAA 2001:db8::10",
        ],
    ),
    found(
        "the alias itself can be asked for",
        "alias.example.com",
        T::CNAME,
        &["alias.example.com. 3600 CNAME www.example.com."],
    ),
    found(
        "a chain ends outside",
        "away.example.com",
        T::A,
        &["away.example.com. 3600 CNAME www.other.example."],
    ),
    found(
        "a chain goes on in another served zone",
        "cross.example.com",
        T::A,
        &["cross.example.com. 3600 CNAME www.example.net.", "www.example.net. 60 A 192.0.2.80"],
    ),
    found(
        "and comes back",
        "back.example.net",
        T::A,
        &["back.example.net. 60 CNAME www.example.com.", WWW[0], WWW[1]],
    ),
    Case {
        authority: &["example.net. 5 SOA ..."],
        ..found(
            "NODATA of the zone where the chain ends",
            "cross.example.com",
            T::AAAA,
            &["cross.example.com. 3600 CNAME www.example.net."],
        )
    },
    Case {
        rcode: Rcode::NXDOMAIN,
        authority: SOA,
        ..found(
            "the code is that of the chain's end",
            "dangling.example.com",
            T::A,
            &["dangling.example.com. 3600 CNAME nothing.example.com."],
        )
    },
    Case {
        authority: SOA,
        ..found(
            "NODATA behind an alias",
            "alias.example.com",
            T::MX,
            &["alias.example.com. 3600 CNAME www.example.com."],
        )
    },
    found(
        "a loop ends",
        "loop-a.example.com",
        T::A,
        &[
            "loop-a.example.com. 3600 CNAME loop-b.example.com.",
            "loop-b.example.com. 3600 CNAME loop-a.example.com.",
        ],
    ),
    found(
        "an alias to the apex",
        "apexalias.example.com",
        T::MX,
        &[
            "apexalias.example.com. 3600 CNAME example.com.",
            "example.com. 3600 MX mail.example.com.",
        ],
    ),
    Case {
        authority: SUB,
        additional: GLUE,
        ..found(
            "an alias into a delegation refers with AA",
            "down.example.com",
            T::A,
            &["down.example.com. 3600 CNAME host.sub.example.com."],
        )
    },
];

const WILDCARDS: &[Case] = &[
    found(
        "the wildcard's owner becomes the question's name",
        "q.wild.example.com",
        T::A,
        &["q.wild.example.com. 3600 A 192.0.2.99"],
    ),
    found(
        "a wildcard covers many labels",
        "a.b.wild.example.com",
        T::TXT,
        &["a.b.wild.example.com. 3600 TXT \\x03any"],
    ),
    no_data("NODATA at a wildcard", "q.wild.example.com", T::AAAA),
    no_data("a name that exists is no wildcard's", "host.wild.example.com", T::A),
    no_name("nothing below a name that exists", "x.host.wild.example.com", T::A),
    no_data("an empty non-terminal stops the wildcard", "ent.wild.example.com", T::TXT),
    no_name("nor below it: it is the closest encloser", "x.ent.wild.example.com", T::TXT),
    no_data("the wildcard's parent is empty", "wild.example.com", T::TXT),
    found(
        "the wildcard by its own name",
        "*.wild.example.com",
        T::A,
        &["*.wild.example.com. 3600 A 192.0.2.99"],
    ),
    found(
        "an asterisk below is synthesized too",
        "*.x.wild.example.com",
        T::A,
        &["*.x.wild.example.com. 3600 A 192.0.2.99"],
    ),
    found(
        "a wildcard alias is followed",
        "q.walias.example.com",
        T::AAAA,
        &[
            "q.walias.example.com. 3600 CNAME www.example.com.",
            "www.example.com. 3600 AAAA 2001:db8::10",
        ],
    ),
];

const DELEGATIONS: &[Case] = &[
    referral("below a delegation", "a.b.sub.example.com", T::A),
    referral("at a delegation", "sub.example.com", T::A),
    referral("its NS are not ours to answer", "sub.example.com", T::NS),
    referral("glue is not answered with authority", "ns.sub.example.com", T::A),
    referral("no wildcard below a delegation", "*.sub.example.com", T::A),
    referral("DS below a delegation", "x.sub.example.com", T::DS),
    no_data("DS at a delegation is ours", "sub.example.com", T::DS),
    Case {
        authoritative: false,
        authority: &["ds.example.com. 3600 NS ns.other.example."],
        ..found("no glue for a server elsewhere", "x.ds.example.com", T::A, &[])
    },
];

#[test]
fn the_table_of_answers_holds() {
    let zones = zones();
    for case in [DATA, ALIASES, WILDCARDS, DELEGATIONS].into_iter().flatten() {
        for transport in [Transport::Udp, Transport::Tcp] {
            let asked = ask(&zones, &query(case.owner, case.record_type).build(), transport);
            let (claim, message) = (case.claim, &asked.message);
            assert_eq!(message.rcode(), case.rcode, "{claim}");
            assert_eq!(message.is_authoritative(), case.authoritative, "{claim}: AA");
            let mut expected = case.answer.to_vec();
            expected.sort_unstable();
            assert_eq!(lines(&message.answers), expected, "{claim}: answer");
            assert_eq!(lines(&message.authorities), case.authority, "{claim}: authority");
            assert_eq!(lines(&message.additionals), case.additional, "{claim}: additional");
            assert!(!message.is_truncated() && message.edns.is_none(), "{claim}");
            let question_type = Some(case.record_type);
            let Outcome::Answered { rcode, question_type: told, pool: None, .. } = asked.outcome
            else {
                panic!("{claim}: {:?}", asked.outcome);
            };
            assert_eq!((rcode, told), (case.rcode, question_type), "{claim}");
        }
    }
}

#[test]
fn ds_at_a_delegation_is_answered_by_the_upper_zone_even_when_the_lower_is_served() {
    let lower =
        harness::zone("ds.example.com", "@ 60 SOA a a 1 2 3 4 5\n@ 60 NS a\na 60 A 1.2.3.4\n");
    let upper = harness::zone("example.com", include_str!("data/example.com.zone"));
    let zones = whered_dns::Zones::builder().add_zone(lower).add_zone(upper).build().unwrap();
    let ds = ask(&zones, &query("ds.example.com", T::DS).build(), Transport::Udp).message;
    assert_eq!((ds.answers.len(), ds.is_authoritative()), (1, true));
    let ns = ask(&zones, &query("ds.example.com", T::NS).build(), Transport::Udp).message;
    assert_eq!(lines(&ns.answers), ["ds.example.com. 60 NS a.ds.example.com."]);
    let below = ask(&zones, &query("x.ds.example.com", T::A).build(), Transport::Udp).message;
    assert_eq!(lines(&below.authorities), ["ds.example.com. 5 SOA ..."]);
    assert_eq!(below.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn the_case_of_the_question_comes_back_and_owners_point_at_it() {
    let asked = ask(&zones(), &query("wWw.eXAMPLE.cOm", T::A).build(), Transport::Udp);
    assert_eq!(asked.message.questions[0].name.to_string(), "wWw.eXAMPLE.cOm.");
    assert_eq!(asked.message.answers[0].owner.to_string(), "wWw.eXAMPLE.cOm.");
    assert_eq!(&asked.bytes[33..35], [0xc0, 12]);
    assert_eq!(asked.bytes.len(), 12 + 21 + 2 * 16);
}

#[test]
fn names_in_data_end_in_a_pointer_to_the_origin() {
    let asked = ask(&zones(), &query("example.com", T::MX).build(), Transport::Udp);
    assert!(asked.bytes.ends_with(&[0, 9, 0, 10, 4, b'm', b'a', b'i', b'l', 0xc0, 12]));
    let asked = ask(&zones(), &query("_sip._udp.example.com", T::SRV).build(), Transport::Udp);
    assert!(asked.bytes.ends_with(b"\x04mail\x07example\x03com\x00"), "SRV is not compressed");
}

#[test]
fn id_and_rd_are_copied_and_cd_and_ra_are_clear() {
    let query = query("www.example.com", T::A).id(0xbeef).flags(0x0110).build();
    let message = ask(&zones(), &query, Transport::Udp).message;
    assert_eq!((message.id, message.flags), (0xbeef, 0x8500));
}

#[test]
fn other_opcodes_are_not_implemented() {
    let query = query("www.example.com", T::A).id(5).flags(0x2900).build();
    let message = ask(&zones(), &query, Transport::Udp).message;
    assert_eq!((message.id, message.flags), (5, 0xa904));
    assert!(message.answers.is_empty());
}

#[test]
fn classes_other_than_in_and_any_are_refused() {
    for class in [2, 3, 4, 254] {
        let query = query("www.example.com", T::A).class(class).build();
        assert_eq!(ask(&zones(), &query, Transport::Udp).message.rcode(), Rcode::REFUSED);
    }
    let query = query("www.example.com", T::A).class(255).build();
    assert!(!ask(&zones(), &query, Transport::Udp).message.answers.is_empty());
}

#[test]
fn full_transfers_are_refused_and_are_nothing_for_datagrams() {
    let query = query("example.com", T::AXFR).build();
    assert_eq!(ask(&zones(), &query, Transport::Udp).message.rcode(), Rcode::NOTIMP);
    assert_eq!(ask(&zones(), &query, Transport::Tcp).message.rcode(), Rcode::REFUSED);
}

#[test]
fn what_cannot_be_read_is_a_format_error() {
    let good = query("www.example.com", T::A).id(9).flags(0x0100).edns(1232).build();
    let mut cases: Vec<(&str, Vec<u8>)> = vec![("no body", good[..12].to_vec())];
    let mut change = |claim, at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        cases.push((claim, bytes));
    };
    change("no question", 5, 0);
    change("two questions", 5, 2);
    change("an answer in a query", 7, 1);
    change("an authority in a query", 9, 1);
    change("fewer records than told", 11, 2);
    change("a pointer as the question's name", 12, 0xc0);
    change("a label of a reserved kind", 12, 0x40);
    change("an owner at OPT", 33, 1);
    change("OPT data cut short", 43, 4);
    change("bytes behind the last record", 11, 0);
    for length in 13..good.len() {
        cases.push(("cut short", good[..length].to_vec()));
    }
    for (claim, bytes) in cases {
        let message = ask(&zones(), &bytes, Transport::Udp).message;
        assert_eq!(message.rcode(), Rcode::FORMERR, "{claim}: {bytes:?}");
        assert_eq!((message.id, message.flags), (9, 0x8101), "{claim}");
    }
}

#[test]
fn two_opts_are_a_format_error() {
    let mut bytes = query("www.example.com", T::A).edns(1232).build();
    let opt = bytes[bytes.len() - 11..].to_vec();
    bytes.extend(opt);
    bytes[11] = 2;
    let message = ask(&zones(), &bytes, Transport::Udp).message;
    assert_eq!(message.rcode(), Rcode::FORMERR);
    assert!(message.edns.is_none());
}

#[test]
fn silence_for_what_is_no_query() {
    let context = whered_dns::Context::new(Transport::Udp, "192.0.2.1".parse().unwrap());
    let response = query("www.example.com", T::A).flags(0x8000).build();
    let mut update = query("www.example.com", T::A).flags(0x2800).build();
    update.pop();
    for bytes in [&[][..], &[0; 11], &response, &update] {
        let mut reply = vec![1];
        let mut choose = |_: usize, _: &whered_dns::Client| whered_dns::Choice::of(None, 0);
        let outcome = whered_dns::answer(&zones(), bytes, &context, &mut choose, &mut reply);
        assert_eq!((outcome, reply.len()), (Outcome::Silent, 0));
    }
}

#[test]
fn opt_is_answered_by_opt_and_do_is_copied() {
    let plain = ask(&zones(), &query("www.example.com", T::A).build(), Transport::Udp).message;
    assert_eq!(plain.edns, None);
    let query = query("www.example.com", T::A).dnssec_ok().option(65001, b"unknown").build();
    let edns = ask(&zones(), &query, Transport::Udp).message.edns.unwrap();
    assert!(edns.dnssec_ok && edns.options.is_empty());
    assert_eq!((edns.version, edns.extended_rcode, edns.udp_size), (0, 0, 1232));
}

#[test]
fn a_version_above_0_is_badvers() {
    let query = query("www.example.com", T::A).edns_version(1).build();
    let message = ask(&zones(), &query, Transport::Udp).message;
    assert_eq!((message.rcode(), message.edns.unwrap().version), (Rcode::BADVERS, 0));
    assert!(message.answers.is_empty());
}

#[test]
fn the_server_id_is_told_to_who_asks() {
    let mut context = whered_dns::Context::new(Transport::Udp, "192.0.2.1".parse().unwrap());
    context.server_id = b"fra1";
    let mut choose = |_: usize, _: &whered_dns::Client| whered_dns::Choice::of(None, 0);
    let mut reply = Vec::new();
    let query = query("www.example.com", T::A).option(3, b"").build();
    whered_dns::answer(&zones(), &query, &context, &mut choose, &mut reply);
    let edns = whered_dns::message::Message::read(&reply).unwrap().edns.unwrap();
    assert_eq!(edns.options, [(3, b"fra1".to_vec())]);
}

#[test]
fn replies_keep_to_the_smaller_size_and_tc_tells_of_the_rest() {
    let mut text = "$TTL 60\n@ SOA a a 1 2 3 4 5\n@ NS a\n".to_owned();
    for host in 0..100 {
        text += &format!("many A 192.0.2.{host}\n");
    }
    text += "alias CNAME many\n";
    let zones = whered_dns::Zones::builder().add_zone(harness::zone("a.example", &text));
    let zones = zones.build().unwrap();
    let sizes = |query: Query, transport| {
        let asked = ask(&zones, &query.build(), transport);
        (asked.bytes.len(), asked.message.answers.len(), asked.message.is_truncated())
    };
    let many = || query("many.a.example", T::A);
    let question = 12 + 20;
    assert_eq!(sizes(many(), Transport::Udp), (question, 0, true));
    assert_eq!(sizes(many().edns(4096), Transport::Udp), (question + 11, 0, true));
    assert_eq!(sizes(many(), Transport::Tcp), (question + 1600, 100, false));
    // Whole rrsets before the one that is too large stay.
    let alias = ask(&zones, &query("alias.a.example", T::A).edns(100).build(), Transport::Udp);
    assert_eq!((alias.message.answers.len(), alias.message.is_truncated()), (1, true));
    assert!(alias.message.edns.is_some());
}

#[test]
fn a_refusal_says_why_and_a_stream_how_long_it_is_kept_to_who_has_edns() {
    const EXTENDED_ERROR: u16 = 15;
    const KEEPALIVE: u16 = 11;
    let zones = zones();
    let option = |query: &[u8], transport, option| {
        let context = Context {
            keepalive: Some(100),
            ..Context::new(transport, "192.0.2.1".parse().unwrap())
        };
        let mut reply = Vec::new();
        whered_dns::answer(&zones, query, &context, &mut |_, _| Choice::of(None, 0), &mut reply);
        let edns = Message::read(&reply).unwrap().edns?;
        let found = edns.options.into_iter().find(|(code, _)| *code == option);
        found.map(|(_, data)| u16::from_be_bytes(data.try_into().unwrap()))
    };
    let foreign = query("www.example.org", RecordType::A);
    let transfer = query("example.com", RecordType::AXFR);
    for (query, transport, number) in [
        (foreign.clone().edns(1232), Transport::Udp, Some(20)),
        (foreign, Transport::Udp, None),
        (transfer.clone().edns(1232), Transport::Tcp, Some(18)),
        (transfer.edns(1232), Transport::Udp, Some(21)),
        (query("example.com", RecordType::SOA).class(4).edns(1232), Transport::Udp, Some(21)),
        (query("example.com", RecordType::SOA).flags(2 << 11).edns(1232), Transport::Udp, Some(21)),
        (query("example.com", RecordType::SOA).edns(1232), Transport::Udp, None),
    ] {
        assert_eq!(option(&query.build(), transport, EXTENDED_ERROR), number);
    }
    let asking = query("example.com", RecordType::SOA).option(KEEPALIVE, b"").build();
    assert_eq!(option(&asking, Transport::Tcp, KEEPALIVE), Some(100));
    assert_eq!(option(&asking, Transport::Udp, KEEPALIVE), None);
    let silent = query("example.com", RecordType::SOA).edns(1232).build();
    assert_eq!(option(&silent, Transport::Tcp, KEEPALIVE), None);
}

#[test]
fn a_zone_that_is_unavailable_answers_servfail_without_authority() {
    let origin: Name = "gone.example".parse().unwrap();
    let pool = Pool {
        name: "www".into(),
        owners: vec!["www.gone.example".parse().unwrap()],
        ttl_seconds: 30,
        answers: vec![Answer { ipv4: vec!["192.0.2.1".parse().unwrap()], ..Answer::default() }],
    };
    let zones = Zones::builder().add_zone(Zone::unavailable(&origin)).add_pool(pool).build();
    let zones = zones.unwrap();
    for (name, record_type) in [
        ("gone.example", RecordType::SOA),
        ("www.gone.example", RecordType::A),
        ("other.gone.example", RecordType::TXT),
    ] {
        let query = Query::new(&name.parse().unwrap(), record_type).build();
        let context = Context::new(Transport::Udp, IpAddr::from([192, 0, 2, 1]));
        let (mut reply, mut choose) = (Vec::new(), |_, _: &_| Choice::of(Some(0), 0));
        answer(&zones, &query, &context, &mut choose, &mut reply);
        let reply = Message::read(&reply).unwrap();
        assert_eq!((reply.rcode(), reply.is_authoritative()), (Rcode::SERVFAIL, false), "{name}");
        assert!(reply.answers.is_empty() && reply.authorities.is_empty());
    }
}

#[test]
fn messages_between_servers_are_deferred_when_that_is_asked_for() {
    let name: Name = "example.com".parse().unwrap();
    let key = TsigKey::new(name.clone(), TsigAlgorithm::HmacSha256, &[1; 32]).unwrap();
    let mut signed = Query::new(&name, RecordType::A).build();
    key.sign_query(&mut signed, 0);
    let with_opcode = |opcode: u16| Query::new(&name, RecordType::SOA).flags(opcode << 11).build();
    let plain = |record_type| Query::new(&name, record_type).build();
    let cases = [
        (signed, true),
        (with_opcode(4), true),
        (with_opcode(5), true),
        (with_opcode(2), false),
        (plain(RecordType::AXFR), true),
        (plain(RecordType::IXFR), true),
        (plain(RecordType::SOA), false),
    ];
    for (query, is_deferred) in cases {
        for defers in [false, true] {
            let context =
                Context { defers, ..Context::new(Transport::Tcp, IpAddr::from([192, 0, 2, 1])) };
            let (mut reply, mut choose) = (Vec::new(), |_, _: &_| Choice::of(None, 0));
            let outcome = answer(&Zones::default(), &query, &context, &mut choose, &mut reply);
            assert_eq!(outcome == Outcome::Deferred, defers && is_deferred, "{query:?}");
            assert_eq!(reply.is_empty(), outcome == Outcome::Deferred);
        }
    }
}
