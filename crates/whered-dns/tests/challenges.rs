//! What is answered at names of ACME challenges, beside what the zone has there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use whered_dns::message::{self, Message};
use whered_dns::{
    Answers, Challenges, Choice, Context, Name, Outcome, Query, Rcode, RecordType, Transport,
    Workspace, Zone, Zones, answer, answer_batch,
};

const ZONE: &[u8] = b"$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
    www A 192.0.2.2\n*.wild A 192.0.2.3\n_acme-challenge.own TXT \"the zone's\"\n\
    _acme-challenge.alias CNAME _acme-challenge.www\n\
    child NS ns.child\nns.child A 192.0.2.4\n";
const NOW_MILLIS: u64 = 1_000_000;

fn ask(challenges: &Challenges, name: &str, record_type: RecordType) -> Message {
    let zone = Zone::from_master_file(&"example.com".parse().unwrap(), ZONE, &mut |_| {
        Err("nothing is included".into())
    });
    let zones = Zones::builder().add_zone(zone.unwrap()).build().unwrap();
    let context = Context {
        challenges: Some(challenges),
        now_seconds: (NOW_MILLIS / 1000) as u32,
        ..Context::new(Transport::Tcp, "192.0.2.9".parse().unwrap())
    };
    let query = message::Query::new(&name.parse().unwrap(), record_type).build();
    let mut reply = Vec::new();
    let mut choose = |_, _: &_| Choice::of(None, 0);
    answer(&zones, &query, &context, &mut choose, &mut reply);
    // Batches have ways of their own to the same answer.
    let queries = [Query { bytes: &query, source: context.source }];
    let (mut workspace, mut batch) = (Workspace::new(), Told(Vec::new(), 0));
    answer_batch(&zones, &context, &queries, 0, &mut choose, &mut workspace, &mut batch);
    assert_eq!(batch.0[..batch.1], reply, "{name} {record_type}");
    Message::read(&reply).unwrap()
}

/// The only answer of a batch, and its size.
struct Told(Vec<u8>, usize);

impl Answers for Told {
    fn room(&mut self, _: usize) -> &mut [u8] {
        self.0.resize(65535, 0);
        &mut self.0
    }

    fn answered(&mut self, _: usize, size_bytes: usize, _: Outcome) {
        self.1 = size_bytes;
    }
}

fn texts(message: &Message) -> Vec<String> {
    let texts = message.answers.iter().filter(|record| record.record_type == RecordType::TXT);
    texts.map(|record| String::from_utf8(record.data[1..].to_vec()).unwrap()).collect()
}

fn owner(name: &str) -> Name {
    Challenges::owner(&name.parse().unwrap()).unwrap()
}

fn some() -> Challenges {
    let mut challenges = Challenges::default();
    for name in ["www.example.com", "_ACME-challenge.WWW.Example.Com", "new.sub.example.com"] {
        challenges.set(&owner(name), &format!("token-{}", name.len()), NOW_MILLIS + 1);
    }
    challenges.set(&owner("www.example.com"), "over", NOW_MILLIS);
    challenges.set(&owner("own.example.com"), "ours", NOW_MILLIS + 1);
    challenges.set(&owner("child.example.com"), "hidden", NOW_MILLIS + 1);
    challenges.set(&owner("alias.example.com"), "hidden", NOW_MILLIS + 1);
    challenges.set(&owner("a.wild.example.com"), "wild", NOW_MILLIS + 1);
    challenges
}

#[test]
fn all_tokens_of_a_name_are_answered_until_their_end() {
    let message = ask(&some(), "_acme-challenge.wWw.example.com", RecordType::TXT);
    assert_eq!((message.rcode(), message.is_authoritative()), (Rcode::NOERROR, true));
    assert_eq!(texts(&message), ["token-15", "token-31"]);
    assert!(message.answers.iter().all(|record| record.ttl_seconds == 0));
    assert!(texts(&ask(&some(), "_acme-challenge.example.com", RecordType::TXT)).is_empty());
}

#[test]
fn they_stand_in_the_place_of_the_zones_own_text_and_of_wildcards() {
    let message = ask(&some(), "_acme-challenge.own.example.com", RecordType::TXT);
    assert_eq!(texts(&message), ["ours"]);
    let none = Challenges::default();
    let message = ask(&none, "_acme-challenge.own.example.com", RecordType::TXT);
    assert_eq!(texts(&message), ["the zone's"]);
    let message = ask(&some(), "_acme-challenge.a.wild.example.com", RecordType::TXT);
    assert_eq!(texts(&message), ["wild"]);
    // The name exists now, so that the wildcard does not answer for it.
    let message = ask(&some(), "_acme-challenge.a.wild.example.com", RecordType::A);
    assert_eq!((message.rcode(), message.answers.len()), (Rcode::NOERROR, 0));
}

#[test]
fn aliases_and_delegations_of_the_zone_go_first() {
    let message = ask(&some(), "_acme-challenge.alias.example.com", RecordType::TXT);
    assert_eq!(texts(&message), ["token-15", "token-31"], "those of the alias's target");
    let message = ask(&some(), "_acme-challenge.child.example.com", RecordType::TXT);
    assert_eq!((message.is_authoritative(), texts(&message).len()), (false, 0));
}

#[test]
fn names_with_challenges_exist_and_so_do_those_above() {
    let rcode = |name: &str| ask(&some(), name, RecordType::A).rcode();
    assert_eq!(rcode("_acme-challenge.new.sub.example.com"), Rcode::NOERROR);
    assert_eq!(rcode("new.sub.example.com"), Rcode::NOERROR);
    assert_eq!(rcode("sub.example.com"), Rcode::NOERROR);
    assert_eq!(rcode("ub.example.com"), Rcode::NXDOMAIN);
    assert_eq!(rcode("x._acme-challenge.new.sub.example.com"), Rcode::NXDOMAIN);
    let any = ask(&some(), "_acme-challenge.new.sub.example.com", RecordType::ANY);
    assert_eq!(any.answers[0].record_type, RecordType::HINFO);
}

#[test]
fn tokens_are_removed_one_by_one_or_together_and_forgotten_at_their_end() {
    let mut challenges = some();
    let www = owner("www.example.com");
    assert_eq!(challenges.remove(&www, Some("token-15")), 1);
    assert_eq!(challenges.remove(&www, Some("token-15")), 0);
    assert_eq!(challenges.tokens(&www, NOW_MILLIS), ["token-31"]);
    assert_eq!(challenges.remove(&www, None), 2, "one had ended already");
    let left = challenges.len();
    challenges.set(&www, "over", NOW_MILLIS);
    challenges.forget(NOW_MILLIS);
    assert_eq!((challenges.len(), challenges.iter().count()), (left, left));
    challenges.forget(u64::MAX);
    assert!(challenges.is_empty());
}

#[test]
fn a_token_is_the_base64url_of_a_sha_256() {
    assert!(Challenges::is_token("LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"));
    for wrong in ["", "LoqXcYV8", "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX=", &"x".repeat(44)] {
        assert!(!Challenges::is_token(wrong), "{wrong}");
    }
    assert!(Challenges::owner(&format!("{}a.com", "long.".repeat(48)).parse().unwrap()).is_err());
}
