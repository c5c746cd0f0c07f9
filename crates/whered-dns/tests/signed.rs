//! Zones that BIND's `dnssec-signzone` has signed: each answer with DO is equal to that of NSD or
//! Knot, and validated by BIND's `delv`.
//!
//! Not for: our own sockets; our answers are asked of the function, theirs over UDP. It is skipped
//! where a program is missing, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod harness;
#[path = "harness/peers.rs"]
#[allow(dead_code, reason = "exceptions are those of unsigned zones")]
mod peers;
#[path = "harness/served.rs"]
#[allow(dead_code, reason = "the test of signing uses all of it")]
mod served;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use harness::{ask, name, query};
use peers::{Peer, Peers, Seen};
use served::{Folder, now_seconds, run};
use whered_dns::{
    Choice, Context, Dnssec, Name, Pool, RecordType, Transport, Zone, Zones, answer, message,
};

/// How each zone is signed: its origin, and what `dnssec-signzone` is told.
const SIGNED: [(&str, &[&str]); 4] = [
    ("nsec.test", &[]),
    ("nsec3.test", &["-3", "-"]),
    ("salted.test", &["-3", "aabbccdd", "-H", "7"]),
    ("optout.test", &["-3", "-", "-A"]),
];

const TYPES: [RecordType; 14] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::NS,
    RecordType::CNAME,
    RecordType::SOA,
    RecordType::MX,
    RecordType::TXT,
    RecordType::DNAME,
    RecordType::DS,
    RecordType::DNSKEY,
    RecordType::NSEC,
    RecordType::NSEC3,
    RecordType::NSEC3PARAM,
    RecordType::CAA,
];

/// Every kind of answer that a signed zone gives.
const TEXT: &str = "$TTL 60
@ SOA ns hm 1 2 3 4 30
@ NS ns
@ NS ns.other.example.
@ MX 10 mail
@ TXT \"apex\"
ns A 192.0.2.1
ns AAAA 2001:db8::1
mail A 192.0.2.2
www 300 A 192.0.2.3
alias CNAME www
out CNAME www.other.example.
deep.er.still TXT \"below an empty name\"
*.wild TXT \"wild\"
*.wild MX 10 mail
*.walias CNAME www
x.wild A 192.0.2.4
sub NS ns.sub
ns.sub A 192.0.2.5
safe NS ns.other.example.
safe DS 1 13 2 2BB183AF5F22588179A53B0A98631FAD1A2921182BB183AF5F22588179A53B0A
in.empty NS ns.other.example.
moved DNAME www.other.example.
here DNAME wild
a.z A 192.0.2.6
*.z A 192.0.2.7
\\001.ctl TXT \"control\"
*.* TXT \"a star below a star\"
";

/// The zones, signed with fresh keys; each with the text of its anchor.
fn signed_texts(folder: &Path) -> Option<Vec<(&'static str, String, String)>> {
    let mut texts = Vec::new();
    for (origin, options) in SIGNED {
        let key = run(folder, "dnssec-keygen", &["-a", "ECDSAP256SHA256", "-f", "KSK", origin])?;
        let file = format!("{origin}.zone");
        fs::write(folder.join(&file), format!("$ORIGIN {origin}.\n{TEXT}")).unwrap();
        let mut arguments = vec!["-S", "-z", "-x", "-o", origin, "-O", "full", "-f", "signed"];
        arguments.extend(options);
        arguments.push(&file);
        run(folder, "dnssec-signzone", &arguments)?;
        let text = fs::read_to_string(folder.join("signed")).unwrap();
        let key = fs::read_to_string(folder.join(format!("{}.key", key.trim()))).unwrap();
        let record = key.lines().find(|line| !line.starts_with(';')).unwrap();
        let data: Vec<&str> = record.split_whitespace().collect();
        let at = data.iter().position(|word| *word == "DNSKEY").unwrap();
        let [flags, protocol, algorithm, public @ ..] = &data[at + 1..] else { panic!("{record}") };
        let anchor = format!(
            "trust-anchors {{ {origin}. static-key {flags} {protocol} {algorithm} \"{}\"; }};\n",
            public.concat()
        );
        texts.push((origin, text, anchor));
    }
    Some(texts)
}

fn our_zone(origin: &str, text: &str) -> Zone {
    let zone = Zone::from_master_file(&name(origin), text.as_bytes(), &mut |_| Err("none".into()));
    let zone = zone.unwrap_or_else(|error| panic!("{origin}:{error}"));
    assert_eq!(zone.warnings(), [], "{origin}");
    // `dnssec-signzone` signs for thirty days.
    let expires_in = |now: u64| zone.first_expiry_seconds(now).unwrap().checked_sub(now).unwrap();
    let now = now_seconds();
    assert!((29 * 86_400..=30 * 86_400).contains(&expires_in(now)), "{}", expires_in(now));
    zone
}

/// The owners of the text, names around them, and names of nobody.
fn names(origin: &str) -> BTreeSet<Name> {
    let origin = name(origin);
    let within = |text: &str| Name::from_text(text.as_bytes(), Some(&origin)).ok();
    let mut names = BTreeSet::from([origin.clone()]);
    for line in TEXT.lines().skip(1) {
        let owner = line.split(' ').next().unwrap();
        for text in [
            owner.to_owned(),
            format!("x.{owner}"),
            format!("y.z.{owner}"),
            format!("*.{owner}"),
            format!("{owner}x"),
            format!("0{owner}"),
        ] {
            names.extend(within(&text).filter(|_| !text.contains('@')));
        }
        names.extend(within(owner).and_then(|name| name.parent()));
    }
    names.extend(
        ["nobody", "a.b.c.d.e.nobody", "AbC.NoBody", "zzz", "\\000"].into_iter().filter_map(within),
    );
    names
}

#[test]
fn answers_of_signed_zones_are_those_of_nsd_or_knot() {
    let folder = Folder::new("signed-peers");
    let Some(texts) = signed_texts(&folder.0) else { return };
    let pairs: Vec<(&str, String)> =
        texts.iter().map(|(origin, text, _)| (*origin, text.clone())).collect();
    let Some(peers) = Peers::start(&pairs) else { return };
    let mut zones = Zones::builder();
    for (origin, text, _) in &texts {
        zones = zones.add_zone(our_zone(origin, text));
    }
    let zones = zones.build().unwrap();
    let mut queries = Vec::new();
    for (origin, ..) in SIGNED {
        for owner in names(origin) {
            for record_type in TYPES {
                let plain = query(&owner.to_string(), record_type).edns(1232);
                queries.push(plain.clone().dnssec_ok().build());
                queries.push(plain.build());
            }
        }
    }
    let [knot, nsd] = [Peer::Knot, Peer::Nsd].map(|peer| peers.ask(peer, &queries));
    let mut wrong = Vec::new();
    let mut unlike_knot = 0;
    for ((query, knot), nsd) in queries.iter().zip(knot).zip(nsd) {
        let ours = ours(&zones, query);
        let (knot, nsd) = (Seen::of(knot), Seen::of(nsd));
        unlike_knot += usize::from(ours != knot);
        if ours != knot && ours != nsd && !is_excused(query, &ours, &knot) {
            wrong.push(format!(
                "{}\n  ours {ours}\n  nsd  {nsd}\n  knot {knot}",
                peers::shown(query)
            ));
        }
    }
    eprintln!("{} questions, {unlike_knot} unlike Knot's", queries.len());
    let shown: Vec<&str> = wrong.iter().take(40).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), queries.len(), shown.join("\n"));
}

/// Knot adds the addresses of a mail exchange. With opt-out, names that have unsigned delegations
/// alone below them have no hash: of these Knot says nothing, NSD proves less, `delv` tests them.
fn is_excused(query: &[u8], ours: &Seen, knot: &Seen) -> bool {
    let question = message::Message::read(query).unwrap().questions[0].name.clone();
    let is_opt_out = question.is_within(&name("empty.optout.test"));
    let (Seen::Reply(ours), Seen::Reply(knot)) = (ours, knot) else { return false };
    let is_like = ours.rcode == knot.rcode
        && ours.answers == knot.answers
        && ours.authorities == knot.authorities
        && ours.additionals.is_empty();
    is_opt_out || is_like
}

fn ours(zones: &Zones, query: &[u8]) -> Seen {
    let mut context = Context::new(Transport::Udp, "127.0.0.1".parse().unwrap());
    (context.server_id, context.version) = (peers::SERVER_ID, peers::VERSION);
    let mut reply = Vec::new();
    answer(zones, query, &context, &mut |_, _| Choice::of(None, 0), &mut reply);
    Seen::of((!reply.is_empty()).then_some(reply))
}

/// Serves the zones to other programs.
fn serve(zones: Zones) -> u16 {
    served::serve(Arc::new(move |query, transport, source| {
        let (context, mut reply) = (Context::new(transport, source), Vec::new());
        answer(&zones, query, &context, &mut |_, _| Choice::of(None, 0), &mut reply);
        reply
    }))
}

const QUESTIONS: [(&str, &str); 33] = [
    ("", "SOA"),
    ("", "DNSKEY"),
    ("", "MX"),
    ("", "CAA"),
    ("www", "A"),
    ("www", "TXT"),
    ("alias", "A"),
    ("alias", "TXT"),
    ("nobody", "A"),
    ("a.b.nobody", "A"),
    ("er.still", "A"),
    ("still", "A"),
    ("q.wild", "TXT"),
    ("q.wild", "A"),
    ("a.b.wild", "TXT"),
    ("x.wild", "A"),
    ("x.wild", "TXT"),
    ("y.x.wild", "TXT"),
    ("q.walias", "A"),
    ("q.walias", "TXT"),
    ("safe", "DS"),
    ("sub", "DS"),
    ("in.empty", "DS"),
    ("0in.empty", "A"),
    ("empty", "A"),
    ("q.z", "A"),
    ("q.z", "AAAA"),
    ("a.z", "AAAA"),
    ("q.here", "TXT"),
    ("q.here", "MX"),
    ("*.wild", "TXT"),
    ("zzz", "A"),
    ("\\000", "A"),
];

#[test]
fn delv_validates_every_kind_of_answer() {
    let folder = Folder::new("signed-delv");
    let Some(texts) = signed_texts(&folder.0) else { return };
    let mut zones = Zones::builder();
    for (origin, text, _) in &texts {
        zones = zones.add_zone(our_zone(origin, text));
    }
    let zones = zones.build().unwrap();
    let port = serve(zones).to_string();
    for (origin, _, anchor) in &texts {
        fs::write(folder.0.join("anchor"), anchor).unwrap();
        for (host, kind) in QUESTIONS {
            let owner =
                if host.is_empty() { format!("{origin}.") } else { format!("{host}.{origin}.") };
            let root = format!("+root={origin}");
            let said = run(
                &folder.0,
                "delv",
                &["@127.0.0.1", "-p", &port, "-a", "anchor", &root, "+nottl", &owner, kind],
            );
            let Some(said) = said else { return };
            // With opt-out, that a name is not there is proven of signed ones alone.
            let is_good = said.contains("fully validated")
                || *origin == "optout.test" && said.contains("unsigned answer");
            assert!(is_good, "{owner} {kind}: {said}");
        }
    }
}

#[test]
fn without_do_a_signed_zone_answers_as_an_unsigned_one() {
    let folder = Folder::new("signed-plain");
    let Some(texts) = signed_texts(&folder.0) else { return };
    let (origin, text, _) = &texts[0];
    let signed = Zones::builder().add_zone(our_zone(origin, text)).build().unwrap();
    let strip = |text: &str| {
        let none = &mut |_: &str| Err("none".to_owned());
        Zone::from_any_master_file(&name(origin), text.as_bytes(), Dnssec::Strip, none).unwrap()
    };
    let unsigned = Zones::builder().add_zone(strip(text)).build().unwrap();
    for owner in names(origin) {
        for record_type in [RecordType::A, RecordType::TXT, RecordType::MX, RecordType::CNAME] {
            let query = query(&owner.to_string(), record_type).edns(1232).build();
            let [one, other] =
                [&signed, &unsigned].map(|zones| ask(zones, &query, Transport::Udp).bytes);
            assert_eq!(one, other, "{owner} {record_type}");
        }
    }
}

#[test]
fn what_would_be_bogus_is_refused() {
    let folder = Folder::new("signed-refused");
    let Some(texts) = signed_texts(&folder.0) else { return };
    let (origin, text, _) = &texts[1];
    let read = |text: &str| {
        Zone::from_master_file(&name(origin), text.as_bytes(), &mut |_| Err("none".into()))
    };
    // Each line is `owner TTL IN type data`.
    let without = |what: &str| -> String {
        let is_other = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().skip(3).collect();
            !words.join(" ").starts_with(what)
        };
        text.lines().filter(is_other).map(|line| format!("{line}\n")).collect()
    };
    for (left_out, missing) in [
        ("DNSKEY", "without DNSKEY"),
        ("RRSIG SOA", "without an RRSIG of its SOA"),
        ("NSEC3PARAM", "without NSEC or NSEC3PARAM"),
        ("RRSIG NSEC3", "without RRSIG"),
    ] {
        let error = read(&without(left_out)).expect_err(left_out).to_string();
        assert!(error.contains(missing), "{error}");
    }
    let many = text.replace("NSEC3\t1 0 0 -", "NSEC3\t1 0 151 -");
    let many = many.replace("NSEC3 1 0 0 -", "NSEC3 1 0 151 -");
    let error = read(&many).unwrap_err().to_string();
    assert!(error.contains("at most 150 iterations"), "{error}");
    // Nobody has signed a pool's answers.
    let pool = Pool {
        name: "www".into(),
        owners: vec![name(&format!("www.{origin}"))],
        ttl_seconds: 30,
        answers: Vec::new(),
    };
    let zone = Arc::new(our_zone(origin, text));
    let error = Zones::builder().add_zone(Arc::clone(&zone)).add_pool(pool).build().unwrap_err();
    assert!(error.to_string().contains("is in the signed zone nsec3.test."), "{error}");
    let error = Zones::builder().add_reversed_zone(zone, 30).build().unwrap_err();
    assert!(error.to_string().contains("has signatures"), "{error}");
}

#[test]
fn a_signed_answer_that_does_not_fit_sets_tc_and_fits_a_stream() {
    let folder = Folder::new("signed-large");
    let Some(texts) = signed_texts(&folder.0) else { return };
    let (origin, text, _) = &texts[0];
    let zones = Zones::builder().add_zone(our_zone(origin, text)).build().unwrap();
    for owner in names(origin) {
        let query = query(&owner.to_string(), RecordType::A).edns(512).dnssec_ok().build();
        let small = ask(&zones, &query, Transport::Udp);
        let whole = ask(&zones, &query, Transport::Tcp);
        assert!(small.bytes.len() <= 512 && whole.message.flags & 0x0200 == 0);
        let is_cut = small.message.flags & 0x0200 != 0;
        assert_eq!(is_cut, whole.bytes.len() > 512 && small.bytes != whole.bytes, "{owner}");
        message::Message::read(&small.bytes).unwrap();
    }
}

#[test]
fn signatures_of_each_algorithm_are_verified_and_wrong_ones_are_told_with_their_line() {
    let folder = Folder::new("signed-verified");
    let algorithms = [
        ("rsa1.test", "NSEC3RSASHA1"),
        ("rsa256.test", "RSASHA256"),
        ("rsa512.test", "RSASHA512"),
        ("p256.test", "ECDSAP256SHA256"),
        ("p384.test", "ECDSAP384SHA384"),
        ("ed25519.test", "ED25519"),
    ];
    let none = &mut |_: &str| Err("none".to_owned());
    for (origin, algorithm) in algorithms {
        for flag in ["KSK", ""] {
            let mut arguments = vec!["-a", algorithm, "-b", "2048", origin];
            if !algorithm.contains("RSA") {
                arguments.drain(2..4);
            }
            if !flag.is_empty() {
                arguments.splice(0..0, ["-f", flag]);
            }
            let Some(_) = run(&folder.0, "dnssec-keygen", &arguments) else { return };
        }
        // Names in data are in any case, and so are owners.
        let text = format!(
            "$ORIGIN {origin}.\n{TEXT}Naptr NAPTR 1 2 \"S\" \"Sip\" \"\" Host.Example.\nSrv SRV 1 2 3 Host\n"
        );
        fs::write(folder.0.join("zone"), text.replace("mail A", "MaiL A")).unwrap();
        let arguments = ["-S", "-o", origin, "-O", "full", "-f", "signed", "zone"];
        run(&folder.0, "dnssec-signzone", &arguments).unwrap();
        let text = fs::read_to_string(folder.0.join("signed")).unwrap();
        let mut faults = |text: &str, now: u64| -> Vec<String> {
            let faults = Zone::signature_faults(&name(origin), text.as_bytes(), now, none);
            faults.unwrap().iter().map(ToString::to_string).collect()
        };
        let now = now_seconds();
        assert_eq!(faults(&text, now), [""; 0], "{algorithm}");
        let of = |place: &str| text.lines().position(|line| line.contains(place)).unwrap() + 1;
        let changed = text.replace("192.0.2.3", "192.0.2.33");
        let told = faults(&changed, now);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with(&format!("{}:1: found A of www.{origin}.", of("192.0.2.3"))),
            "{told:?}"
        );
        assert!(told[0].contains("is not over these records"), "{told:?}");
        let added = format!("{text}new.{origin}. 60 IN A 192.0.2.9\n");
        assert!(faults(&added, now)[0].contains("no RRSIG"), "{:?}", faults(&added, now));
        let later = faults(&text, now + 31 * 86_400);
        assert!(later.len() > 20 && later.iter().all(|fault| fault.contains("has ended")));
        let before = faults(&text, now - 2 * 86_400);
        assert!(before.iter().all(|fault| fault.contains("has not begun")));
    }
    let plain = Zone::signature_faults(&name("a.test"), TEXT.as_bytes(), 0, none);
    assert_eq!(plain.unwrap(), []);
}
