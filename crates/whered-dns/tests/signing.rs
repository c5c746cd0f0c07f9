//! Zones that are signed here: BIND's `dnssec-verify` accepts them whole, and `delv` validates each
//! kind of answer, those of pools and of challenges included.
//!
//! It is skipped where a program is missing, unless `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod harness;
#[path = "harness/served.rs"]
mod served;

use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harness::{ask_choosing, name, query};
use served::{Folder, now_seconds, run, try_run};
use whered_dns::{
    Answer, Challenges, Choice, Context, DenialMethod, KeyAlgorithm, KeyId, KeyStates, Name, Pool,
    Rcode, RecordType, SigningContext, SigningKey, Transport, Zone, Zones, answer,
};

const ORIGIN: &str = "signed.test";
const TEXT: &str = "$TTL 60
@ SOA ns hm 1 2 3 4 30
@ NS ns
@ NS ns.other.example.
@ MX 10 Mail
@ TXT \"apex\"
ns A 192.0.2.1
ns AAAA 2001:db8::1
mail A 192.0.2.2
www 300 A 192.0.2.3
www 300 A 192.0.2.33
alias CNAME www
out CNAME www.other.example.
to-pool CNAME pool
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
Srv SRV 1 2 3 Host
num NAPTR 1 2 \"S\" \"Sip\" \"\" Host.Example.
\\001.ctl TXT \"control\"
\\000.ctl TXT \"zero\"
pool TXT \"of the zone\"
big TYPE65280 \\# 2 0102
";

fn none(_: &str) -> Result<Vec<u8>, String> {
    Err("none".to_owned())
}

fn new_key(algorithm: KeyAlgorithm) -> SigningKey {
    SigningKey::generate(&name(ORIGIN), algorithm).unwrap().key
}

fn pools() -> Vec<Pool> {
    let site = |v4: &[&str], v6: &[&str]| Answer {
        ipv4: v4.iter().map(|text| text.parse().unwrap()).collect(),
        ipv6: v6.iter().map(|text| text.parse().unwrap()).collect(),
        ..Answer::default()
    };
    let alias = Answer { alias: Some(name("www.signed.test")), ..Answer::default() };
    let mut with_text = site(&["198.51.100.9"], &[]);
    with_text.others.push((RecordType::HTTPS, vec![0, 1, 0]));
    let pool = |pool: &str, owners: &[&str], answers| Pool {
        name: pool.to_owned(),
        owners: owners.iter().map(|owner| name(&format!("{owner}.{ORIGIN}"))).collect(),
        ttl_seconds: 20,
        answers,
    };
    vec![
        pool(
            "plain",
            &["pool", "*.geo", "new.ent.place"],
            vec![
                site(&["198.51.100.1"], &[]),
                site(&["198.51.100.2", "198.51.100.3"], &["2001:db8::2"]),
                site(&["198.51.100.1"], &["2001:db8::3"]),
                with_text,
            ],
        ),
        pool("aliased", &["steered", "*.steered"], vec![alias, site(&["198.51.100.7"], &[])]),
    ]
}

fn signing(keys: Vec<SigningKey>, states: &KeyStates, now: u64) -> SigningContext {
    let mut signing = SigningContext::new(keys, states, now).unwrap();
    for pool in pools() {
        for owner in &pool.owners {
            let types = pool.answers.iter().flat_map(|answer| {
                let alias = answer.alias.iter().map(|_| RecordType::CNAME);
                alias.chain(answer.others.iter().map(|(of, _)| *of))
            });
            signing.add_pool_owner(owner, types);
        }
    }
    signing
}

fn sign(signing: &SigningContext) -> Zone {
    Zone::sign_master_file(&name(ORIGIN), TEXT.as_bytes(), signing, &mut none).unwrap()
}

/// All records, as any master file may have them.
fn text_of(zone: &Zone) -> String {
    let mut text = String::new();
    for record in zone.records() {
        let (owner, ttl, of) = (record.owner, record.ttl_seconds, record.record_type.0);
        write!(text, "{owner} {ttl} IN TYPE{of} \\# {} ", record.data.len()).unwrap();
        for byte in &record.data {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

/// The keys of the zone as a resolver is told to trust them.
fn anchor(key: &SigningKey) -> String {
    let mut digest = String::new();
    for byte in &key.ds(&name(ORIGIN))[4..] {
        write!(digest, "{byte:02X}").unwrap();
    }
    let (tag, number) = (key.tag(), key.algorithm().number());
    format!("trust-anchors {{ {ORIGIN}. static-ds {tag} {number} 2 \"{digest}\"; }};\n")
}

fn zones(zone: Zone) -> Zones {
    let mut zones = Zones::builder().add_zone(zone);
    for pool in pools() {
        zones = zones.add_pool(pool);
    }
    zones.build().unwrap()
}

#[test]
fn a_signed_zone_is_accepted_by_dnssec_verify_and_by_ourselves() {
    let folder = Folder::new("signing-verify");
    for algorithm in [KeyAlgorithm::EcdsaP256Sha256, KeyAlgorithm::Ed25519] {
        // The names of pools say of types what only answers have.
        let keys = vec![new_key(algorithm)];
        let signing = SigningContext::new(keys, &KeyStates::default(), now_seconds()).unwrap();
        let zone = sign(&signing);
        let text = text_of(&zone);
        let faults =
            Zone::signature_faults(&name(ORIGIN), text.as_bytes(), now_seconds(), &mut none);
        assert_eq!(faults.unwrap(), []);
        fs::write(folder.0.join("zone"), &text).unwrap();
        let Some(said) = run(&folder.0, "dnssec-verify", &["-z", "-o", ORIGIN, "zone"]) else {
            return;
        };
        assert!(said.contains("Zone fully signed"), "{said}");
        // One changed byte is a changed zone.
        let changed = text.replace("c0000203", "c0000204");
        assert_ne!(changed, text);
        fs::write(folder.0.join("zone"), changed).unwrap();
        let (is_good, said) =
            try_run(&folder.0, "dnssec-verify", &["-z", "-o", ORIGIN, "zone"]).unwrap();
        assert!(!is_good, "{said}");
    }
}

const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

/// Questions, and whether each is for every choice of a pool.
const QUESTIONS: [(&str, &str); 58] = [
    ("", "SOA"),
    ("", "DNSKEY"),
    ("", "CDS"),
    ("", "CDNSKEY"),
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
    ("x.wild", "TXT"),
    ("y.x.wild", "TXT"),
    ("q.walias", "A"),
    ("safe", "DS"),
    ("sub", "DS"),
    ("in.empty", "DS"),
    ("empty", "A"),
    ("q.here", "TXT"),
    ("srv", "SRV"),
    ("num", "NAPTR"),
    ("\\000.ctl", "TXT"),
    ("zzz", "A"),
    ("\\000", "A"),
    ("big", "TYPE65280"),
    ("pool", "A"),
    ("pool", "AAAA"),
    ("pool", "HTTPS"),
    ("pool", "TXT"),
    ("pool", "MX"),
    ("pool", "NSEC"),
    ("x.pool", "A"),
    ("to-pool", "A"),
    ("to-pool", "AAAA"),
    ("to-pool", "MX"),
    ("q.geo", "A"),
    ("q.geo", "AAAA"),
    ("q.geo", "TXT"),
    ("a.b.geo", "AAAA"),
    ("geo", "A"),
    ("*.geo", "AAAA"),
    ("new.ent.place", "A"),
    ("new.ent.place", "AAAA"),
    ("ent.place", "A"),
    ("steered", "A"),
    ("steered", "AAAA"),
    ("steered", "MX"),
    ("steered", "NSEC"),
    ("q.steered", "A"),
    ("q.steered", "AAAA"),
    ("_acme-challenge.www", "TXT"),
    ("_acme-challenge.unset", "TXT"),
];

#[test]
fn delv_validates_every_kind_of_answer_of_zone_pools_and_challenges() {
    for denial in [DenialMethod::Nsec, DenialMethod::Compact] {
        validate_every_answer(denial);
    }
}

fn validate_every_answer(denial: DenialMethod) {
    let folder = Folder::new("signing-delv");
    let key = new_key(KeyAlgorithm::EcdsaP256Sha256);
    fs::write(folder.0.join("anchor"), anchor(&key)).unwrap();
    let mut signing = signing(vec![key], &KeyStates::default(), now_seconds());
    signing.set_denial(denial);
    let zones = zones(sign(&signing));
    let choices: Vec<Choice> = [&[0][..], &[1], &[3], &[], &[0, 1], &[2, 0, 1]]
        .iter()
        .map(|answers| {
            let mut choice = Choice::of(None, 0);
            answers.iter().for_each(|answer| choice.push(*answer));
            choice
        })
        .collect();
    let count = choices.len();
    let chosen = Arc::new(AtomicUsize::new(0));
    let at = Arc::clone(&chosen);
    let mut challenges = Challenges::default();
    for owner in ["www.signed.test", "a.b.challenged.signed.test"] {
        challenges.set(&Challenges::owner(&name(owner)).unwrap(), TOKEN, u64::MAX);
    }
    let port = served::serve(Arc::new(move |query, transport, source| {
        let context = Context { challenges: Some(&challenges), ..Context::new(transport, source) };
        let mut choose = |_, _: &_| choices[at.load(Ordering::SeqCst)];
        let mut reply = Vec::new();
        answer(&zones, query, &context, &mut choose, &mut reply);
        reply
    }));
    let port = port.to_string();
    let extra = [
        ("_acme-challenge.www", "A"),
        ("_acme-challenge.a.b.challenged", "TXT"),
        ("b.challenged", "A"),
    ];
    for choice in 0..count {
        chosen.store(choice, Ordering::SeqCst);
        for (host, kind) in QUESTIONS.iter().chain(&extra) {
            let is_of_pool = ["pool", "geo", "place", "steered"].iter().any(|of| host.contains(of));
            if choice > 0 && !is_of_pool {
                continue;
            }
            let owner =
                if host.is_empty() { format!("{ORIGIN}.") } else { format!("{host}.{ORIGIN}.") };
            let root = format!("+root={ORIGIN}");
            let arguments =
                ["@127.0.0.1", "-p", &port, "-a", "anchor", &root, "+nottl", &owner, kind];
            let Some(said) = run(&folder.0, "delv", &arguments) else { return };
            let is_valid = said.contains("fully validated");
            assert!(is_valid, "{denial:?} {owner} {kind}, choice {choice}: {said}");
        }
    }
}

#[test]
fn a_changed_answer_is_not_validated() {
    let folder = Folder::new("signing-changed");
    let key = new_key(KeyAlgorithm::Ed25519);
    fs::write(folder.0.join("anchor"), anchor(&key)).unwrap();
    let zones = zones(sign(&signing(vec![key], &KeyStates::default(), now_seconds())));
    let port = served::serve(Arc::new(move |query, transport, source| {
        let mut reply = Vec::new();
        let context = Context::new(transport, source);
        answer(&zones, query, &context, &mut |_, _| Choice::of(Some(0), 0), &mut reply);
        // The address of the pool's answer, wherever it stands.
        if let Some(at) = reply.windows(4).position(|bytes| bytes == [198, 51, 100, 1]) {
            reply[at + 3] = 66;
        }
        reply
    }));
    let (port, root) = (port.to_string(), format!("+root={ORIGIN}"));
    let owner = format!("pool.{ORIGIN}.");
    let arguments = ["@127.0.0.1", "-p", &port, "-a", "anchor", &root, &owner, "A"];
    let Some((_, said)) = try_run(&folder.0, "delv", &arguments) else { return };
    assert!(!said.contains("fully validated") && said.contains("resolution failed"), "{said}");
}

#[test]
fn signatures_are_used_again_until_they_grow_old() {
    const DAY: u64 = 86_400;
    let now = 1_764_230_400;
    let made = SigningKey::generate(&name(ORIGIN), KeyAlgorithm::EcdsaP256Sha256).unwrap();
    let key = || SigningKey::read(&name(ORIGIN), &made.public_text, &made.private_text).unwrap();
    let signatures = |zone: &Zone| -> Vec<_> {
        let mut all: Vec<_> =
            zone.records().filter(|r| r.record_type == RecordType::RRSIG).collect();
        all.sort_by(|a, b| (&a.owner.as_wire(), &a.data).cmp(&(&b.owner.as_wire(), &b.data)));
        all
    };
    let first = Arc::new(sign(&signing(vec![key()], &KeyStates::default(), now)));
    let again = |now: u64, text: &str| {
        let mut signing = signing(vec![key()], &KeyStates::default(), now);
        signing.reuse(Arc::clone(&first));
        Zone::sign_master_file(&name(ORIGIN), text.as_bytes(), &signing, &mut none).unwrap()
    };
    assert_eq!(signatures(&first), signatures(&again(now + DAY, TEXT)));
    // One changed rrset has a new signature; the names are those of before.
    let changed = TEXT.replace("192.0.2.33", "192.0.2.34");
    let changed = signatures(&again(now + DAY, &changed));
    let before = signatures(&first);
    let new = changed.iter().filter(|one| !before.contains(one)).count();
    assert_eq!((changed.len(), new), (before.len(), 1));
    let old = signatures(&again(now + 9 * DAY, TEXT));
    assert!(old.iter().all(|one| !before.contains(one)) || old.len() == before.len());
    let end = again(now + 9 * DAY, TEXT).first_expiry_seconds(now + 9 * DAY).unwrap();
    assert!(end >= now + 9 * DAY + 5 * DAY, "{end}");
}

#[test]
fn a_rollover_is_valid_at_each_step_with_the_anchor_of_that_step() {
    let folder = Folder::new("signing-rollover");
    let made = [(); 2]
        .map(|()| SigningKey::generate(&name(ORIGIN), KeyAlgorithm::EcdsaP256Sha256).unwrap());
    let keys = || -> Vec<SigningKey> {
        let read = |made: &whered_dns::NewKey| {
            SigningKey::read(&name(ORIGIN), &made.public_text, &made.private_text).unwrap()
        };
        made.iter().map(read).collect()
    };
    let [old, new] = [0, 1].map(|at| KeyId::of(&made[at].key));
    let mut states = KeyStates::default();
    states.begin(old, new).unwrap();
    let mut now = now_seconds();
    let mut validated = 0;
    // The step, and whose DS the parent has.
    for (step, anchors) in
        [("publish", &[0][..]), ("sign", &[0, 1]), ("parent", &[0, 1]), ("end", &[1])]
    {
        assert_eq!(states.rollover.map_or("end", |at| at.step.word()), step);
        let served = Arc::new(Mutex::new(zones(sign(&signing(keys(), &states, now_seconds())))));
        let port = served::serve(Arc::new(move |query, transport, source| {
            let (context, mut reply) = (Context::new(transport, source), Vec::new());
            let zones = served.lock().unwrap();
            answer(&zones, query, &context, &mut |_, _| Choice::of(Some(1), 0), &mut reply);
            reply
        }));
        let (port, root) = (port.to_string(), format!("+root={ORIGIN}"));
        for at in anchors {
            fs::write(folder.0.join("anchor"), anchor(&made[*at].key)).unwrap();
            for (host, kind) in [("www", "A"), ("nobody", "A"), ("pool", "AAAA"), ("q.wild", "TXT")]
            {
                let owner = format!("{host}.{ORIGIN}.");
                let arguments = ["@127.0.0.1", "-p", &port, "-a", "anchor", &root, &owner, kind];
                let Some(said) = run(&folder.0, "delv", &arguments) else { return };
                assert!(said.contains("fully validated"), "{step} {owner} {kind}: {said}");
                validated += 1;
            }
        }
        states.advance(now, true, 3600);
        now += 7200;
        if step == "sign" {
            states.parent_has_new(now, 3600).unwrap();
            continue;
        }
        now += 7200;
        states.advance(now, true, 3600);
    }
    assert_eq!(validated, 24);
}

#[test]
fn queries_without_do_are_answered_as_by_an_unsigned_zone() {
    for denial in [DenialMethod::Nsec, DenialMethod::Compact] {
        compare_with_unsigned(denial);
    }
}

fn compare_with_unsigned(denial: DenialMethod) {
    let keys = vec![new_key(KeyAlgorithm::Ed25519)];
    let mut signing = signing(keys, &KeyStates::default(), now_seconds());
    signing.set_denial(denial);
    let signed = zones(sign(&signing));
    let unsigned =
        zones(Zone::from_master_file(&name(ORIGIN), TEXT.as_bytes(), &mut none).unwrap());
    for (host, _) in QUESTIONS {
        let owner = if host.is_empty() { ORIGIN.to_owned() } else { format!("{host}.{ORIGIN}") };
        for of in
            [RecordType::A, RecordType::AAAA, RecordType::TXT, RecordType::MX, RecordType::HTTPS]
        {
            for choice in [Choice::of(Some(0), 0), Choice::of(Some(1), 0), Choice::of(None, 0)] {
                let query = query(&owner, of).edns(1232).build();
                let ask = |zones| ask_choosing(zones, &query, Transport::Udp, choice).bytes;
                assert_eq!(ask(&signed), ask(&unsigned), "{owner} {of}");
            }
        }
    }
}

#[test]
fn what_cannot_be_signed_is_refused_with_its_place() {
    let keys = || vec![new_key(KeyAlgorithm::Ed25519)];
    let refused = |line: &str| {
        let text = format!("{TEXT}{line}\n");
        let signing = SigningContext::new(keys(), &KeyStates::default(), 1).unwrap();
        let zone = Zone::sign_master_file(&name(ORIGIN), text.as_bytes(), &signing, &mut none);
        zone.unwrap_err().to_string()
    };
    for line in [
        "@ DNSKEY 257 3 13 AAAA",
        "www NSEC x A",
        "@ NSEC3PARAM 1 0 0 -",
        "@ CDS 0 0 0 00",
        "www RRSIG A 13 3 60 20300101000000 20200101000000 1 signed.test. AAAA",
    ] {
        let line_number = TEXT.lines().count() + 1;
        let error = refused(line);
        assert!(error.starts_with(&format!("{line_number}:")), "{error}");
        assert!(error.contains("in a zone that is to be signed here"), "{error}");
    }
    let error = SigningContext::new(Vec::new(), &KeyStates::default(), 1).unwrap_err();
    assert!(error.contains("no key"), "{error}");
    let key = new_key(KeyAlgorithm::Ed25519);
    let states = KeyStates { retired: vec![KeyId::of(&key)], ..KeyStates::default() };
    assert!(
        SigningContext::new(vec![key], &states, 1).unwrap_err().contains("no key that is in use")
    );
    // A pool that the chain of names does not know.
    let signing = SigningContext::new(keys(), &KeyStates::default(), now_seconds()).unwrap();
    let error = Zones::builder().add_zone(sign(&signing)).add_pool(pools().remove(0)).build();
    assert!(error.unwrap_err().to_string().contains("signed zone signed.test."));
    let zone = sign(&signing);
    let error = Zones::builder().add_reversed_zone(zone, 30).build().unwrap_err();
    assert!(error.to_string().contains("has signatures"), "{error}");
}

#[test]
fn a_digest_of_the_file_is_left_out_with_a_remark_and_the_zone_is_signed_again_as_records() {
    let text = format!("{TEXT}@ ZONEMD 1 1 1 {}\n", "00".repeat(48));
    let keys = || vec![new_key(KeyAlgorithm::Ed25519)];
    let signing = SigningContext::new(keys(), &KeyStates::default(), now_seconds()).unwrap();
    let zone = Zone::sign_master_file(&name(ORIGIN), text.as_bytes(), &signing, &mut none).unwrap();
    assert_eq!(zone.left_out_count(), 1);
    assert!(zone.warnings().iter().any(|remark| remark.to_string().contains("ZONEMD")));
    let unsigned = Zone::from_master_file(&name(ORIGIN), TEXT.as_bytes(), &mut none).unwrap();
    let zone = unsigned.sign("192.0.2.53", &signing).unwrap();
    let text = text_of(&zone);
    let faults = Zone::signature_faults(&name(ORIGIN), text.as_bytes(), now_seconds(), &mut none);
    assert_eq!(faults.unwrap(), []);
    let missing: Name = name("nobody.signed.test");
    let zones = Zones::builder().add_zone(zone).build().unwrap();
    let asked = ask_choosing(
        &zones,
        &query(&missing.to_string(), RecordType::A).edns(1232).dnssec_ok().build(),
        Transport::Udp,
        Choice::of(None, 0),
    );
    assert_eq!(asked.message.rcode(), Rcode::NXDOMAIN);
}

#[test]
fn a_text_cut_at_every_byte_is_signed_or_refused_and_what_is_signed_holds() {
    let made = SigningKey::generate(&name(ORIGIN), KeyAlgorithm::Ed25519).unwrap();
    let key = SigningKey::read(&name(ORIGIN), &made.public_text, &made.private_text).unwrap();
    let signing = signing(vec![key], &KeyStates::default(), now_seconds());
    let mut signed = 0;
    for end in 0..TEXT.len() {
        let text = &TEXT.as_bytes()[..end];
        let Ok(zone) = Zone::sign_master_file(&name(ORIGIN), text, &signing, &mut none) else {
            continue;
        };
        signed += 1;
        if end % 50 == 0 {
            let text = text_of(&zone);
            let faults =
                Zone::signature_faults(&name(ORIGIN), text.as_bytes(), now_seconds(), &mut none);
            assert_eq!(faults.unwrap(), [], "cut at {end}");
        }
    }
    assert!(signed > 150, "{signed}");
}

#[test]
fn changes_are_made_to_a_zone_before_it_is_signed() {
    let signing =
        SigningContext::new(vec![new_key(KeyAlgorithm::Ed25519)], &KeyStates::default(), 1)
            .unwrap();
    let error = sign(&signing).patched("192.0.2.53", &[]).unwrap_err().to_string();
    assert!(error.contains("signed.test., which is signed here"), "{error}");
    let none_made = sign(&signing).sign("192.0.2.53", &signing).unwrap_err().to_string();
    assert!(none_made.contains("in a zone that is to be signed here"), "{none_made}");
}

#[test]
fn a_pool_below_a_dname_is_refused_and_the_zone_without_it_holds() {
    let keys = vec![new_key(KeyAlgorithm::Ed25519)];
    let mut signing = SigningContext::new(keys, &KeyStates::default(), now_seconds()).unwrap();
    let mut pool = pools().remove(0);
    pool.owners = vec![name("a.b.here.signed.test")];
    signing.add_pool_owner(&pool.owners[0], [RecordType::HTTPS]);
    let zone = Arc::new(sign(&signing));
    let text = text_of(&zone);
    let faults = Zone::signature_faults(&name(ORIGIN), text.as_bytes(), now_seconds(), &mut none);
    assert_eq!(faults.unwrap(), []);
    assert!(!text.contains("a.b.here"), "{text}");
    let error = Zones::builder().add_zone(zone).add_pool(pool).build().unwrap_err();
    assert!(error.to_string().contains("is below a DNAME of the signed zone"), "{error}");
}
