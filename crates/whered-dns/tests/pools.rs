//! Pools and the client subnet option.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use harness::{ask, ask_choosing, lines, name, pool, query, zone, zones};
use whered_dns::message::Query;
use whered_dns::{
    Answer, Choice, Client, Outcome, Pool, PoolOwnerReason, Rcode, RecordType, Reflect, Transport,
    Zones, ZonesBuilder, ZonesError,
};

const POOL: &str = "pool.example.com";

#[test]
fn a_pool_replaces_the_addresses_of_its_owner_and_nothing_else() {
    let zones = zones();
    let asked = ask(&zones, &query(POOL, RecordType::A).build(), Transport::Udp);
    assert_eq!(
        lines(&asked.message.answers),
        ["pool.example.com. 30 A 198.51.100.2", "pool.example.com. 30 A 198.51.100.3"]
    );
    assert!(asked.message.is_authoritative());
    assert!(matches!(asked.outcome, Outcome::Answered { pool: Some(0), .. }));
    let text = ask(&zones, &query(POOL, RecordType::TXT).build(), Transport::Udp);
    assert_eq!(lines(&text.message.answers), ["pool.example.com. 3600 TXT \\x05stays"]);
    assert_eq!((text.client, text.message.answers.len()), (None, 1));
}

#[test]
fn an_empty_family_and_no_choice_are_nodata() {
    let choices = [Some(0), None, Some(99)];
    for answer in choices {
        let choice = Choice::of(answer, 9);
        let query = query(POOL, RecordType::AAAA).client_subnet("192.0.2.0".parse().unwrap(), 24);
        let asked = ask_choosing(&zones(), &query.build(), Transport::Udp, choice).message;
        assert_eq!((asked.rcode(), asked.answers.len()), (Rcode::NOERROR, 0));
        assert_eq!(lines(&asked.authorities), ["example.com. 30 SOA ..."]);
        assert_eq!(asked.client_subnet().unwrap().scope_length_bits, 9);
    }
}

#[test]
fn what_a_pool_has_not_is_remembered_no_longer_than_what_it_has() {
    let soa_ttl = |zone_ttl: u32, pool_ttl: u32, owner: &str, of: RecordType, transport| {
        let text = format!(
            "$TTL 1d\n@ SOA ns hm 1 2 3 4 {zone_ttl}\n@ NS ns.example.net.\n\
             alias CNAME pool\nhost A 192.0.2.1\n"
        );
        let mut pool = pool("p", &["pool.example.com", "*.w.example.com"]);
        pool.ttl_seconds = pool_ttl;
        let zones = Zones::builder().add_zone(zone("example.com", &text)).add_pool(pool).build();
        let asked = ask_choosing(
            &zones.unwrap(),
            &query(owner, of).build(),
            transport,
            Choice::of(None, 0),
        );
        let [soa] = &asked.message.authorities[..] else { panic!("{owner} {of}") };
        assert_eq!(soa.record_type, RecordType::SOA);
        soa.ttl_seconds
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        for owner in ["pool.example.com", "x.w.example.com", "alias.example.com"] {
            for of in [RecordType::A, RecordType::AAAA] {
                assert_eq!(soa_ttl(86_400, 5, owner, of, transport), 5, "{owner} {of}");
                assert_eq!(soa_ttl(86_400, 0, owner, of, transport), 0, "{owner} {of}");
                assert_eq!(soa_ttl(3, 5, owner, of, transport), 3, "the zone's if it is shorter");
            }
        }
        // These do not depend on what a pool chooses.
        assert_eq!(soa_ttl(86_400, 5, "pool.example.com", RecordType::MX, transport), 86_400);
        assert_eq!(soa_ttl(86_400, 5, "x.pool.example.com", RecordType::A, transport), 86_400);
        assert_eq!(soa_ttl(86_400, 5, "host.example.com", RecordType::AAAA, transport), 86_400);
    }
}

fn pool_of(pool_name: &str, owner: &str, answers: Vec<Answer>) -> Pool {
    Pool { name: pool_name.into(), owners: vec![name(owner)], ttl_seconds: 30, answers }
}

fn alias(target: &str) -> Answer {
    Answer { alias: Some(name(target)), ..Answer::default() }
}

#[test]
fn an_alias_of_a_pool_that_leads_back_to_it_is_refused() {
    let text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.example.net.\nback CNAME a\n\
                net CNAME back.example.net.\nd DNAME e\n";
    let net = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nback CNAME a.example.com.\n@ CNAME x\n";
    let build = |pools: Vec<Pool>| {
        let zones = Zones::builder()
            .add_zone(zone("example.com", text))
            .add_zone(zone("example.net", &net.replace("@ CNAME x\n", "")));
        pools.into_iter().fold(zones, ZonesBuilder::add_pool).build()
    };
    let loops = |pools: Vec<Pool>| build(pools).unwrap_err().to_string();
    let there = || Answer { ipv4: vec!["192.0.2.1".parse().unwrap()], ..Answer::default() };
    let itself = "pool \"p\": its CNAME a.example.com. leads back to the pool; a name is needed that \
                  leads to an end";
    assert_eq!(loops(vec![pool_of("p", "a.example.com", vec![alias("a.example.com")])]), itself);
    // Also for one site of several, in another case, and by the zones' aliases.
    for target in [
        "A.Example.Com",
        "back.example.com",
        "net.example.com",
        "back.example.net",
        "x.d.example.com",
    ] {
        let mut pools = vec![pool_of("p", "a.example.com", vec![there(), alias(target)])];
        pools.push(pool_of("d", "x.e.example.com", vec![alias("a.example.com")]));
        let found = loops(pools);
        assert!(found.contains("leads back to the pool"), "{target}: {found}");
    }
    let three = loops(vec![
        pool_of("into", "i.example.com", vec![alias("a.example.com")]),
        pool_of("one", "a.example.com", vec![alias("b.example.com")]),
        pool_of(
            "two",
            "b.example.com",
            vec![alias("elsewhere.example.org"), alias("x.w.example.com")],
        ),
        pool_of("three", "*.w.example.com", vec![there(), alias("a.example.com")]),
    ]);
    assert!(three.contains("pool \"one\": its CNAME b.example.com. leads back to the pool by the pool \"two\", \"three\""), "{three}");
    // A line of pools has an end.
    let line = build(vec![
        pool_of("one", "a.example.com", vec![alias("b.example.com")]),
        pool_of("two", "b.example.com", vec![alias("c.example.com"), alias("x.example.org")]),
        pool_of("three", "c.example.com", vec![there()]),
    ]);
    assert!(line.is_ok());
}

#[test]
fn a_pool_does_not_hide_records_of_its_owner_other_than_addresses() {
    let text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.example.net.\n@ A 192.0.2.9\n\
                @ TXT \"v=spf1 -all\"\n*.w TXT any\n";
    let with = |owner: &str, others: Vec<(RecordType, Vec<u8>)>| {
        let ipv4 = vec!["192.0.2.1".parse().unwrap()];
        let answers = vec![Answer::default(), Answer { ipv4, others, ..Answer::default() }];
        let pool = pool_of("p", owner, answers);
        Zones::builder().add_zone(zone("example.com", text)).add_pool(pool).build()
    };
    let of_txt = || vec![(RecordType::TXT, b"\x01x".to_vec())];
    let error = with("example.com", of_txt()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool \"p\": the owner example.com. has TXT in its zone, which TXT of a site would hide; one of \
         the two may have it"
    );
    assert!(with("*.w.example.com", of_txt()).is_err());
    assert!(with("example.com", Vec::new()).is_ok(), "addresses are the pool's to give");
    assert!(with("www.example.com", of_txt()).is_ok());
    let https = vec![(RecordType::HTTPS, b"\0\x01\0".to_vec())];
    assert!(with("example.com", https).is_ok());
}

#[test]
fn a_pool_owner_may_be_new_to_its_zone_and_makes_the_names_above_exist() {
    let zones = zones();
    let new = ask(&zones, &query("new.ent2.example.com", RecordType::AAAA).build(), Transport::Udp);
    assert_eq!(lines(&new.message.answers), ["new.ent2.example.com. 30 AAAA 2001:db8:2::1"]);
    let above = ask(&zones, &query("ent2.example.com", RecordType::A).build(), Transport::Udp);
    assert_eq!(above.message.rcode(), Rcode::NOERROR);
    let other = ask(&zones, &query("new.ent2.example.com", RecordType::MX).build(), Transport::Udp);
    assert_eq!((other.message.rcode(), other.message.authorities.len()), (Rcode::NOERROR, 1));
    let below =
        ask(&zones, &query("x.new.ent2.example.com", RecordType::A).build(), Transport::Udp);
    assert_eq!(below.message.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn an_alias_leads_to_a_pool_and_a_wildcard_owner_answers_where_it_is_expanded() {
    let zones = zones();
    let query_alias = query("poolalias.example.com", RecordType::A);
    let query_alias = query_alias.client_subnet("192.0.2.0".parse().unwrap(), 24);
    let alias = ask(&zones, &query_alias.build(), Transport::Udp).message;
    assert_eq!(alias.answers.len(), 3);
    assert_eq!(alias.client_subnet().unwrap().scope_length_bits, 20);
    let wildcard = query("q.wpool.example.com", RecordType::A).build();
    let wildcard = ask(&zones, &wildcard, Transport::Udp).message;
    assert_eq!(lines(&wildcard.answers)[0], "q.wpool.example.com. 30 A 198.51.100.2");
}

#[test]
fn the_client_is_the_subnet_or_else_the_source() {
    let zones = zones();
    let subnet = |text: &str, length| {
        let query = query(POOL, RecordType::A).client_subnet(text.parse().unwrap(), length);
        let asked = ask(&zones, &query.build(), Transport::Udp);
        (asked.client.unwrap(), asked.message.client_subnet().unwrap())
    };
    let (client, echoed) = subnet("192.0.2.255", 20);
    let expected =
        Client { address: "192.0.0.0".parse().unwrap(), prefix_length_bits: 20, from_ecs: true };
    assert_eq!(client, expected);
    assert_eq!((echoed.family, echoed.source_length_bits), (1, 20));
    assert_eq!((echoed.scope_length_bits, echoed.address), (20, vec![192, 0, 0]));
    let (client, echoed) = subnet("2001:db8:ffff:ffff::", 47);
    assert_eq!((client.address, echoed.family), ("2001:db8:fffe::".parse().unwrap(), 2));
    let source = Client {
        address: "203.0.113.77".parse().unwrap(),
        prefix_length_bits: 32,
        from_ecs: false,
    };
    // A source length of 0 forbids the client's place: the resolver's own is taken, scope 0.
    let (client, echoed) = subnet("0.0.0.0", 0);
    assert_eq!((client, echoed.scope_length_bits), (source, 0));
    let plain = ask(&zones, &query(POOL, RecordType::A).edns(1232).build(), Transport::Udp);
    assert_eq!((plain.client, plain.message.client_subnet()), (Some(source), None));
}

#[test]
fn what_does_not_depend_on_the_client_has_scope_0() {
    for owner in ["www.example.com", "nothing.example.com", "x.sub.example.com", "example.org"] {
        let query = query(owner, RecordType::A).client_subnet("192.0.2.0".parse().unwrap(), 24);
        let subnet = ask(&zones(), &query.build(), Transport::Udp).message.client_subnet().unwrap();
        assert_eq!((subnet.source_length_bits, subnet.scope_length_bits), (24, 0), "{owner}");
    }
}

#[test]
fn a_site_that_reflects_answers_with_the_address_of_the_client() {
    let of = |reflect| Answer { reflect: Some(reflect), ..Answer::default() };
    let answers =
        vec![of(Reflect::Source), of(Reflect::Subnet), of(Reflect::Both), of(Reflect::Best)];
    let owners = vec![name("me.example.net")];
    let pool = Pool { name: "me".into(), owners, ttl_seconds: 5, answers };
    let text = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns.example.org.\n";
    let zones =
        Zones::builder().add_zone(zone("example.net", text)).add_pool(pool).build().unwrap();
    let plain = query("me.example.net", RecordType::A);
    let told = plain.clone().client_subnet("198.51.100.0".parse().unwrap(), 24);
    let asked = |query: &Query, answer: usize| {
        let asked =
            ask_choosing(&zones, &query.build(), Transport::Udp, Choice::of(Some(answer), 0));
        let scope = asked.message.client_subnet().map(|subnet| subnet.scope_length_bits);
        let lines = lines(&asked.message.answers);
        let addresses: Vec<String> =
            lines.iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        (addresses, scope)
    };
    // The sender is 203.0.113.77.
    for (answer, without, with, scope) in [
        (0, vec!["203.0.113.77"], vec!["203.0.113.77"], 0),
        (1, vec![], vec!["198.51.100.0"], 24),
        (2, vec!["203.0.113.77"], vec!["198.51.100.0", "203.0.113.77"], 24),
        (3, vec!["203.0.113.77"], vec!["198.51.100.0"], 24),
    ] {
        let texts = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(asked(&plain, answer), (texts(without), None), "{answer}");
        assert_eq!(asked(&told, answer), (texts(with), Some(scope)), "{answer}");
    }
    let other_family = query("me.example.net", RecordType::AAAA);
    assert_eq!(asked(&other_family, 3), (Vec::new(), None), "NODATA");
}

#[test]
fn a_scope_is_longer_than_the_prefix_where_a_longer_prefix_decides() {
    let told = query("pool.example.com", RecordType::A);
    let told = told.client_subnet("198.51.100.0".parse().unwrap(), 24);
    let choice = Choice::of(Some(1), 28);
    let asked = ask_choosing(&zones(), &told.build(), Transport::Udp, choice);
    let subnet = asked.message.client_subnet().unwrap();
    assert_eq!((subnet.source_length_bits, subnet.scope_length_bits), (24, 28));
}

#[test]
fn a_broken_subnet_is_a_format_error_without_an_echo() {
    for data in [&[0, 1, 24, 0, 192, 0][..], &[0, 1, 23, 0, 192, 0, 1], &[0, 1, 24, 1, 192, 0, 2]] {
        let query = query(POOL, RecordType::A).option(8, data).build();
        let message = ask(&zones(), &query, Transport::Udp).message;
        assert_eq!(message.rcode(), Rcode::FORMERR);
        assert_eq!(message.edns.unwrap().options, []);
    }
    let twice = query(POOL, RecordType::A).option(8, &[0, 1, 0, 0]).option(8, &[0, 1, 0, 0]);
    assert_eq!(ask(&zones(), &twice.build(), Transport::Udp).message.rcode(), Rcode::FORMERR);
}

#[test]
fn the_scope_is_not_longer_than_an_address() {
    let query = query(POOL, RecordType::A).client_subnet("192.0.2.0".parse().unwrap(), 24).build();
    let choice = Choice::of(Some(0), 200);
    let message = ask_choosing(&zones(), &query, Transport::Udp, choice).message;
    assert_eq!(message.client_subnet().unwrap().scope_length_bits, 32);
}

#[test]
fn a_pool_that_cannot_answer_is_an_error_that_names_the_owner() {
    let build = |owners: &[&str]| {
        let text = include_str!("data/example.com.zone");
        let zones = Zones::builder().add_zone(zone("example.com", text));
        zones.add_pool(pool("p", owners)).build().unwrap_err()
    };
    let cases = [
        ("www.example.org", PoolOwnerReason::OutsideEveryZone),
        ("alias.example.com", PoolOwnerReason::HasAlias),
        ("sub.example.com", PoolOwnerReason::Delegated(name("sub.example.com"))),
        ("new.x.sub.example.com", PoolOwnerReason::Delegated(name("sub.example.com"))),
    ];
    for (owner, reason) in cases {
        let error = build(&[owner]);
        assert!(error.to_string().contains(owner), "{error}");
        assert_eq!(error, ZonesError::PoolOwner { pool: "p".into(), owner: name(owner), reason });
    }
    let twice = build(&[POOL, "POOL.example.com"]).to_string();
    assert_eq!(
        twice,
        "pool \"p\": the owner POOL.example.com. already has the pool \"p\"; one pool is allowed"
    );
}

/// A pool whose answers are of many kinds, at a name that the zone does not have and at one it has.
fn kinds(owners: &[&str]) -> Result<Zones, ZonesError> {
    let text = include_str!("data/example.com.zone");
    let kinds = whered_dns::Pool {
        name: "kinds".into(),
        owners: owners.iter().map(|owner| name(owner)).collect(),
        ttl_seconds: 30,
        answers: vec![
            whered_dns::Answer {
                ipv4: vec!["198.51.100.1".parse().unwrap()],
                others: vec![
                    (RecordType::TXT, b"\x03one".to_vec()),
                    (RecordType::HTTPS, vec![0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2']),
                ],
                ..Default::default()
            },
            whered_dns::Answer { alias: Some(name("www.example.com")), ..Default::default() },
            whered_dns::Answer {
                ipv4: vec!["198.51.100.9".parse().unwrap()],
                ..Default::default()
            },
        ],
    };
    Zones::builder().add_zone(zone("example.com", text)).add_pool(kinds).build()
}

#[test]
fn a_pool_answers_texts_services_and_aliases() {
    let zones = kinds(&["kinds.example.com"]).unwrap();
    let ask = |record_type, choice| {
        let query = query("kinds.example.com", record_type).build();
        ask_choosing(&zones, &query, Transport::Udp, choice).message
    };
    let (first, alias, last) =
        (Choice::of(Some(0), 0), Choice::of(Some(1), 0), Choice::of(Some(2), 0));
    let text = ask(RecordType::TXT, first);
    assert_eq!(lines(&text.answers), ["kinds.example.com. 30 TXT \\x03one"]);
    assert_eq!(ask(RecordType::HTTPS, first).answers[0].data.len(), 10);
    let none = ask(RecordType::TXT, last);
    assert_eq!((none.answers.len(), none.authorities.len()), (0, 1), "this answer has no text");
    let followed = ask(RecordType::A, alias);
    assert!(followed.answers.len() > 1 && followed.is_authoritative(), "{:?}", followed.answers);
    assert_eq!(followed.answers[0].record_type, RecordType::CNAME);
    for record_type in [RecordType::CNAME, RecordType::MX] {
        let message = ask(record_type, alias);
        assert_eq!(message.answers[0].record_type, RecordType::CNAME);
        assert_eq!(ask(record_type, first).answers.len(), 0);
    }
    assert_eq!(ask(RecordType::CNAME, alias).answers.len(), 1, "who asks for the alias has it");
}

#[test]
fn several_answers_are_given_together_in_their_order() {
    let zones = kinds(&["kinds.example.com"]).unwrap();
    let mut choice = Choice::of(Some(2), 0);
    choice.push(0);
    choice.push(1);
    let query = query("kinds.example.com", RecordType::A).build();
    let message = ask_choosing(&zones, &query, Transport::Udp, choice).message;
    let last_octets: Vec<u8> = message.answers.iter().map(|record| record.data[3]).collect();
    assert_eq!(last_octets, [9, 1], "an alias beside others is left out");
}

#[test]
fn a_pool_may_refuse_or_keep_silent() {
    let ask = |verdict| {
        let choice = Choice::verdict(verdict, 0);
        let context = whered_dns::Context::new(Transport::Udp, "192.0.2.1".parse().unwrap());
        let mut reply = Vec::new();
        let query = query(POOL, RecordType::A).build();
        let mut choose = |_: usize, _: &Client| choice;
        whered_dns::answer(&zones(), &query, &context, &mut choose, &mut reply);
        reply.get(3).map(|flags| flags & 15)
    };
    assert_eq!(ask(whered_dns::ChoiceVerdict::Refuse), Some(5));
    assert_eq!(ask(whered_dns::ChoiceVerdict::Drop), None);
}

#[test]
fn an_alias_is_alone_at_its_owner() {
    for owner in ["example.com", "www.example.com"] {
        let error = kinds(&[owner]).unwrap_err();
        assert!(matches!(
            error,
            ZonesError::PoolOwner { reason: PoolOwnerReason::AliasBesideData, .. }
        ));
    }
}
