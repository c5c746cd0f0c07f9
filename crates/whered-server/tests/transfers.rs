//! Zones from other servers and to them: ours with ours, with BIND, NSD and Knot, and with a
//! primary that errs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod transfer_peers;

use std::fs;
use std::time::Duration;

use transfer_peers::{
    Kind, ORIGIN, Ours, Peer, RandomZone, ask, bind_both, folder, free_address, key, lines, origin,
    read_zone, take, until,
};
use whered_dns::transfer::Transfer;

/// How many changes each server is compared after.
const CHANGES: usize = 20;

/// Our primary and our secondary of it.
fn pair(name: &str, zone: &RandomZone, more: &str) -> (Ours, Ours) {
    let [from, to] = [free_address(), free_address()];
    let at = folder(&format!("{name}-primary"));
    fs::write(at.join("a.zone"), zone.text()).unwrap();
    let primary = format!(
        "[[zone]]\nname = \"{ORIGIN}\"\npath = \"a.zone\"\nreload = \"off\"\n\
         allow_transfer = [\"key:transfer\"]\nnotify = [\"{to} key transfer\"]\n"
    );
    let secondary = format!(
        "[[zone]]\nname = \"{ORIGIN}\"\nprimaries = [\"{from} key transfer\"]\n\
         allow_transfer = [\"127.0.0.0/8\"]\n{more}"
    );
    let primary = Ours::start(at, from, &primary);
    let secondary = Ours::start(folder(&format!("{name}-secondary")), to, &secondary);
    (primary, secondary)
}

fn give(primary: &Ours, zone: &RandomZone) {
    fs::write(primary.folder.join("a.zone"), zone.text()).unwrap();
    primary.server().engine().reload_zone(ORIGIN).unwrap();
}

#[track_caller]
fn follows(secondary: &Ours, zone: &RandomZone) {
    let expected = lines(&read_zone(&zone.text()));
    until("the secondary serves the primary's zone", || secondary.served() == expected);
}

#[test]
fn a_secondary_follows_its_primary_change_by_change_and_goes_on_after_a_restart() {
    let mut zone = RandomZone::new(7);
    let (mut primary, mut secondary) = pair("own", &zone, "");
    follows(&secondary, &zone);
    for _ in 0..CHANGES {
        zone.change();
        give(&primary, &zone);
        follows(&secondary, &zone);
    }
    let metrics = secondary.metrics();
    let has = |line: &str| assert!(metrics.contains(line), "{line}: {metrics}");
    has("whered_zone_transfers_total{direction=\"in\",outcome=\"whole\"} 1\n");
    has(&format!("whered_zone_serial{{zone=\"example.com.\"}} {}\n", zone.serial));
    assert!(!metrics.contains("direction=\"in\",outcome=\"changes\"} 0\n"), "{metrics}");
    let shown = secondary.get("/v1/zones/example.com");
    assert!(shown.contains("\"role\":\"secondary\"") && shown.contains("\"serving\""), "{shown}");
    // Without the primary the copy serves at once, and with it changes go on.
    let copy = secondary.folder.join("data/zones/example.com.zone");
    until("the copy is written", || {
        fs::read_to_string(&copy).is_ok_and(|text| read_zone(&text).serial() == zone.serial)
    });
    secondary.close();
    primary.close();
    secondary.open();
    assert_eq!(secondary.served(), lines(&read_zone(&zone.text())));
    secondary.close();
    zone.change();
    fs::write(primary.folder.join("a.zone"), zone.text()).unwrap();
    primary.open();
    secondary.open();
    follows(&secondary, &zone);
    // It gives the zone on to those whom it allows.
    let given = take(secondary.address, None).unwrap();
    assert_eq!(given, lines(&read_zone(&zone.text())));
}

#[test]
fn a_zone_is_given_to_those_who_are_allowed_and_changes_to_those_who_have_the_rest() {
    let mut zone = RandomZone::new(9);
    let (primary, secondary) = pair("allowed", &zone, "");
    follows(&secondary, &zone);
    let old = read_zone(&zone.text());
    assert_eq!(take(primary.address, None).unwrap_err(), "the answer REFUSED");
    let own = key();
    assert_eq!(take(primary.address, Some(&own)).unwrap(), lines(&old));
    zone.change();
    give(&primary, &zone);
    follows(&secondary, &zone);
    let new = read_zone(&zone.text());
    match ask(primary.address, Some(&own), Some(&old)).unwrap() {
        Transfer::Changes(changes) => {
            assert_eq!(lines(&old.patched("there", &changes).unwrap()), lines(&new));
        }
        other => panic!("{other:?}"),
    }
    let same = ask(primary.address, Some(&own), Some(&new)).unwrap();
    assert_eq!(same, Transfer::UpToDate { serial: new.serial() });
    // A serial that the history does not have gets the whole zone.
    let unknown = read_zone("@ 60 SOA ns h 0 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n");
    assert!(matches!(ask(primary.address, Some(&own), Some(&unknown)), Ok(Transfer::Whole(_))));
    let other = whered_dns::transfer::TsigKey::new(
        "transfer".parse().unwrap(),
        whered_dns::transfer::TsigAlgorithm::HmacSha256,
        &[0; 32],
    );
    let found = take(primary.address, Some(&other.unwrap())).unwrap_err();
    assert!(found.contains("BADSIG"), "{found}");
}

#[test]
fn a_secondary_follows_bind_nsd_and_knot_record_by_record() {
    for kind in Kind::ALL {
        let at = folder(&format!("from-{kind:?}"));
        let address = free_address();
        let mut zone = RandomZone::new(11);
        let Some(peer) = Peer::primary(kind, &at, address, &zone.text()) else { continue };
        let ours = Ours::start(
            at.clone(),
            address,
            &format!(
                "[[zone]]\nname = \"{ORIGIN}\"\nprimaries = [\"{} key transfer\"]\n",
                peer.address
            ),
        );
        let expect = |zone: &RandomZone, ours: &Ours| {
            let expected = lines(&read_zone(&zone.text()));
            let deadline = std::time::Instant::now() + transfer_peers::WAIT;
            while ours.served() != expected {
                let failure = ours.failure();
                assert!(
                    std::time::Instant::now() < deadline,
                    "{kind:?}: {failure}\n{}",
                    peer.log()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        expect(&zone, &ours);
        for _ in 0..CHANGES {
            zone.change();
            peer.reload(&zone.text());
            expect(&zone, &ours);
        }
        // NSD 4.6 adds records that are there, so that each of its zones was taken whole.
        if kind == Kind::Nsd {
            continue;
        }
        let metrics = ours.metrics();
        let changes = "whered_zone_transfers_total{direction=\"in\",outcome=\"changes\"} 0\n";
        assert!(!metrics.contains(changes), "{kind:?} gave no changes");
    }
}

#[test]
fn bind_nsd_and_knot_follow_us_record_by_record() {
    for kind in Kind::ALL {
        let at = folder(&format!("to-{kind:?}"));
        let [address, theirs] = [free_address(), free_address()];
        let mut zone = RandomZone::new(13);
        fs::write(at.join("a.zone"), zone.text()).unwrap();
        let ours = Ours::start(
            at.clone(),
            address,
            &format!(
                "[[zone]]\nname = \"{ORIGIN}\"\npath = \"a.zone\"\nreload = \"off\"\n\
                 allow_transfer = [\"key:transfer\"]\nnotify = [\"{theirs} key transfer\"]\n"
            ),
        );
        let Some(peer) = Peer::secondary(kind, &at, theirs, address) else { continue };
        let expect = |zone: &RandomZone| {
            let expected = lines(&read_zone(&zone.text()));
            let deadline = std::time::Instant::now() + transfer_peers::WAIT;
            while take(theirs, None).as_ref() != Ok(&expected) {
                assert!(std::time::Instant::now() < deadline, "{kind:?}\n{}", peer.log());
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        expect(&zone);
        for _ in 0..CHANGES {
            zone.change();
            give(&ours, &zone);
            expect(&zone);
        }
        let metrics = ours.metrics();
        let changes = "whered_zone_transfers_total{direction=\"out\",outcome=\"changes\"} 0\n";
        assert!(!metrics.contains(changes), "{kind:?} asked for no changes");
    }
}

#[test]
fn the_zone_of_another_name_is_not_ours_to_give() {
    let zone = RandomZone::new(3);
    let (primary, _secondary) = pair("name", &zone, "");
    let generation = primary.server().engine().generation();
    assert!(generation.zones().zone(&origin()).is_some());
    let mut stream = std::net::TcpStream::connect(primary.address).unwrap();
    let query = whered_dns::transfer::query(
        &"example.net".parse().unwrap(),
        7,
        whered_dns::RecordType::AXFR,
        None,
    );
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    std::io::Write::write_all(&mut stream, &[&length[..], &query].concat()).unwrap();
    let mut head = [0; 6];
    std::io::Read::read_exact(&mut stream, &mut head).unwrap();
    assert_eq!(head[5] & 15, 5, "REFUSED");
}

/// A primary that answers each question for the SOA with the serial 9, and transfers with what is
/// given: messages, and whether the connection stays open then.
fn hostile(messages: Vec<Vec<u8>>) -> std::net::SocketAddr {
    let (socket, listener) = bind_both();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 4096];
        while let Ok((size, from)) = socket.recv_from(&mut room) {
            let mut answer = table(9, &[], Some(whered_dns::RecordType::SOA));
            answer[..2].copy_from_slice(&room[..2.min(size)]);
            let _ = socket.send_to(&answer, from);
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, messages) = (stream.unwrap(), messages.clone());
            std::thread::spawn(move || {
                let mut length = [0; 2];
                if std::io::Read::read_exact(&mut stream, &mut length).is_err() {
                    return;
                }
                let mut head = vec![0; u16::from_be_bytes(length).into()];
                std::io::Read::read_exact(&mut stream, &mut head).unwrap();
                for mut message in messages {
                    message[..2].copy_from_slice(&head[..2]);
                    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
                    let framed = [&length[..], &message].concat();
                    if std::io::Write::write_all(&mut stream, &framed).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A message with a SOA of this serial and then these records; the question is left out for
/// transfers.
fn table(serial: u32, records: &[String], question: Option<whered_dns::RecordType>) -> Vec<u8> {
    let zone = read_zone(&format!(
        "$TTL 60\n@ SOA ns h {serial} 1 1 60 1\n@ NS ns\nns A 192.0.2.1\n{}\n",
        records.join("\n")
    ));
    let mut sender = whered_dns::transfer::Sender::whole(&origin(), 0, zone.records());
    let whole = sender.next_message(None, 0).unwrap().unwrap();
    match question {
        None => whole,
        Some(_) => {
            let soa = zone.soa().unwrap();
            let mut message = whered_dns::transfer::Sender::soa(&origin(), 0, soa)
                .next_message(None, 0)
                .unwrap()
                .unwrap();
            message[26] = 6;
            message
        }
    }
}

#[test]
fn a_primary_that_errs_or_lies_has_its_line_and_the_last_good_zone_serves_on() {
    let good = table(9, &["a A 192.0.2.9".to_owned()], None);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        vec![bytes]
    };
    let count = usize::from(u16::from_be_bytes([good[6], good[7]]));
    let cut = with(&|bytes| bytes.truncate(bytes.len() - 9));
    let without_end = with(&|bytes| bytes[7] -= 1);
    assert!(count > 3);
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("the connection ended before the transfer did", vec![]),
        ("bytes that are no whole DNS message", cut),
        ("bytes that are no whole DNS message", without_end),
        ("the answer SERVFAIL", with(&|bytes| bytes[3] = 2)),
        ("the question of another zone", with(&|bytes| bytes[13] = b'f')),
        ("a message cut short (TC)", with(&|bytes| bytes[2] |= 2)),
        ("a message without records", with(&|bytes| bytes[7] = 0)),
        ("a zone of the serial 3; allowed: newer than 4", vec![table(3, &[], None)]),
        (
            "more than 2000 bytes of records",
            vec![table(
                9,
                &(0..99).map(|n| format!("h{n} A 192.0.2.{n}")).collect::<Vec<_>>(),
                None,
            )],
        ),
    ];
    for (number, (line, messages)) in cases.into_iter().enumerate() {
        let at = folder(&format!("hostile-{number}"));
        let copy = "@ 60 SOA ns h 4 1 1 60 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
        fs::create_dir_all(at.join("data/zones")).unwrap();
        fs::write(at.join("data/zones/example.com.zone"), copy).unwrap();
        let primary = hostile(messages);
        let ours = Ours::start(
            at,
            free_address(),
            &format!(
                "[[zone]]\nname = \"{ORIGIN}\"\nprimaries = [\"{primary}\"]\n\
                 transfer_size_max = 2000\n"
            ),
        );
        until(line, || ours.failure().contains(line));
        assert_eq!(ours.served(), lines(&read_zone(copy)), "{line}");
        let failure = ours.failure();
        assert!(!failure.contains('\n'), "{failure}");
        let metrics = ours.metrics();
        assert!(!metrics.contains("{direction=\"in\",outcome=\"failed\"} 0\n"), "{line}");
        assert!(metrics.contains("whered_zone_refused{zone=\"example.com.\"} 1\n"), "{line}");
    }
}

#[test]
fn a_zone_that_nobody_confirms_expires_and_comes_back_with_its_primary() {
    let at = folder("expiry");
    fs::create_dir_all(at.join("data/zones")).unwrap();
    let copy = "@ 60 SOA ns h 9 1 1 2 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    fs::write(at.join("data/zones/example.com.zone"), copy).unwrap();
    let gone = free_address();
    let zone = format!("[[zone]]\nname = \"{ORIGIN}\"\nprimaries = [\"{gone}\"]\n");
    let mut ours = Ours::start(at, free_address(), &zone);
    assert_eq!(ours.served(), lines(&read_zone(copy)));
    until("the zone expires", || ours.served().is_empty());
    let query = whered_dns::transfer::query(&origin(), 5, whered_dns::RecordType::SOA, None);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(transfer_peers::WAIT)).unwrap();
    socket.send_to(&query, ours.address).unwrap();
    let mut answer = [0; 512];
    socket.recv(&mut answer).unwrap();
    assert_eq!(answer[3] & 15, 2, "SERVFAIL");
    assert!(ours.get("/v1/zones/example.com").contains("\"expired\""));
    // An older copy than its expire time does not serve after a restart either.
    ours.close();
    ours.open();
    until("the copy has expired, too", || ours.served().is_empty());
    let back = hostile(vec![table(9, &[], None)]);
    ours.text = ours.text.replace(&gone.to_string(), &back.to_string());
    let config = ours.config();
    ours.server().reload(config).unwrap();
    until("the zone is back", || !ours.served().is_empty());
}

#[test]
fn notify_of_others_is_refused_and_a_flood_leads_to_few_questions() {
    let zone = RandomZone::new(5);
    let (_primary, secondary) = pair("flood", &zone, "");
    follows(&secondary, &zone);
    let soa = read_zone(&zone.text()).soa().unwrap();
    let notify = whered_dns::transfer::notify(&origin(), 3, &soa);
    let ask = |from: &str| {
        let socket = std::net::UdpSocket::bind(from).unwrap();
        socket.set_read_timeout(Some(transfer_peers::WAIT)).unwrap();
        socket.send_to(&notify, secondary.address).unwrap();
        let mut answer = [0; 512];
        socket.recv(&mut answer).unwrap();
        answer[3] & 15
    };
    assert_eq!(ask("127.0.0.2:0"), 5, "REFUSED");
    let began = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(ask("127.0.0.1:0"), 0);
    }
    let most = began.elapsed().as_millis() / 100 + 5;
    let metrics = secondary.metrics();
    let line = "whered_zone_refreshes_total{zone=\"example.com.\",outcome=\"ok\"} ";
    let count = metrics.split_once(line).unwrap().1.split_once('\n').unwrap().0;
    assert!(count.parse::<u128>().unwrap() <= most, "{count} of {most}");
}

/// Waits until the zone is served with signatures of ours.
#[track_caller]
fn serves_signed_records(secondary: &Ours, zone: &RandomZone) {
    let is_made = |line: &String| {
        let record_type = line.split(' ').nth(2).unwrap_or_default();
        ["RRSIG", "NSEC", "DNSKEY", "CDS", "CDNSKEY"].contains(&record_type)
    };
    let expected = lines(&read_zone(&zone.text()));
    until("the secondary serves the zone, signed", || {
        let (made, given): (Vec<_>, Vec<_>) = secondary.served().into_iter().partition(is_made);
        given == expected && !made.is_empty()
    });
}

/// As [`serves_signed_records`], and verifies the signatures.
#[track_caller]
fn serves_signed(secondary: &Ours, zone: &RandomZone) {
    serves_signed_records(secondary, zone);
    let generation = secondary.server().engine().generation();
    let served = generation.zones().zone(&origin()).unwrap();
    assert!(served.is_signed_here() && served.serial() == zone.serial);
    let mut text = Vec::new();
    served.write_master_file(&mut text).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut include = |_: &str| Err("none".to_owned());
    let faults = whered_dns::Zone::signature_faults(&origin(), &text, now.as_secs(), &mut include);
    assert_eq!(faults.unwrap(), []);
}

#[test]
fn a_secondary_signs_what_it_takes_and_refuses_what_is_signed_already() {
    let mut zone = RandomZone::new(17);
    let [from, to] = [free_address(), free_address()];
    let at = folder("signing-primary");
    fs::write(at.join("a.zone"), zone.text()).unwrap();
    let primary = format!(
        "[[zone]]\nname = \"{ORIGIN}\"\npath = \"a.zone\"\nreload = \"off\"\n\
         allow_transfer = [\"key:transfer\"]\nnotify = [\"{to} key transfer\"]\n"
    );
    let primary = Ours::start(at, from, &primary);
    let at = folder("signing-secondary");
    let keys = whered_engine::KeyDirectory::new(at.join("data/keys/example.com"), origin());
    keys.create(whered_dns::KeyAlgorithm::Ed25519, None).unwrap();
    let secondary = format!(
        "[[zone]]\nname = \"{ORIGIN}\"\nprimaries = [\"{from} key transfer\"]\nsign = true\n"
    );
    let mut secondary = Ours::start(at, to, &secondary);
    serves_signed(&secondary, &zone);
    for _ in 0..5 {
        zone.change();
        give(&primary, &zone);
        serves_signed(&secondary, &zone);
    }
    let changes = "whered_zone_transfers_total{direction=\"in\",outcome=\"changes\"} 0\n";
    assert!(!secondary.metrics().contains(changes), "changes are made of the unsigned zone");
    secondary.server().reload(secondary.config()).unwrap();
    serves_signed(&secondary, &zone);
    secondary.server().engine().reload_zone(ORIGIN).unwrap();
    serves_signed(&secondary, &zone);
    until("the copy is written, unsigned", || {
        let copy = fs::read_to_string(secondary.folder.join("data/zones/example.com.zone"));
        copy.is_ok_and(|text| {
            read_zone(&text).serial() == zone.serial
                && lines(&read_zone(&text)) == lines(&read_zone(&zone.text()))
        })
    });
    secondary.close();
    secondary.open();
    serves_signed(&secondary, &zone);
    let signed = format!(
        "{}@ DNSKEY 257 3 15 AAAA\n",
        zone.text()
            .replace(&format!(" {} 3600", zone.serial), &format!(" {} 3600", zone.serial + 1),)
    );
    fs::write(primary.folder.join("a.zone"), signed).unwrap();
    primary.server().engine().reload_zone(ORIGIN).unwrap();
    until("it is refused in a line", || {
        secondary.failure().contains("found DNSKEY in a zone that is to be signed here")
    });
    assert!(!secondary.failure().contains('\n'));
    serves_signed(&secondary, &zone);
}

#[test]
fn a_secondary_that_is_to_sign_from_a_reload_on_signs_the_next_transfers() {
    let mut zone = RandomZone::new(23);
    let (primary, mut secondary) = pair("signing-later", &zone, "");
    follows(&secondary, &zone);
    let keys = secondary.folder.join("data/keys/example.com");
    let keys = whered_engine::KeyDirectory::new(keys, origin());
    keys.create(whered_dns::KeyAlgorithm::Ed25519, None).unwrap();
    let unsigned = secondary.text.clone();
    secondary.text.push_str("sign = true\n");
    secondary.server().reload(secondary.config()).unwrap();
    let is_signed = || {
        let generation = secondary.server().engine().generation();
        generation.zones().zone(&origin()).unwrap().is_signed_here()
    };
    assert!(is_signed());
    let signed = secondary.config();
    for _ in 0..3 {
        zone.change();
        give(&primary, &zone);
        until("the change is served", || {
            let generation = secondary.server().engine().generation();
            generation.zones().zone(&origin()).unwrap().serial() >= zone.serial
        });
        assert!(is_signed(), "whatever the zone was before the reload");
    }
    let config = whered_server::Config::from_toml(&unsigned, &secondary.folder.join("whered.toml"));
    secondary.server().reload(config.unwrap()).unwrap();
    zone.change();
    give(&primary, &zone);
    follows(&secondary, &zone);
    secondary.server().reload(signed).unwrap();
    assert!(is_signed());
}

#[test]
fn a_copy_is_signed_at_a_start_without_its_primary_and_one_that_cannot_be_says_why() {
    let mut zone = RandomZone::new(29);
    let (mut primary, mut secondary) = pair("signing-copy", &zone, "");
    follows(&secondary, &zone);
    let copy = secondary.folder.join("data/zones/example.com.zone");
    until("the copy is written", || copy.exists());
    let keys = secondary.folder.join("data/keys/example.com");
    let keys = whered_engine::KeyDirectory::new(keys, origin());
    keys.create(whered_dns::KeyAlgorithm::Ed25519, None).unwrap();
    let unsigned = std::mem::take(&mut secondary.text);
    secondary.text = format!("{unsigned}sign = true\n");
    secondary.close();
    primary.close();
    secondary.open();
    assert!(!secondary.served().is_empty(), "the copy serves at once");
    let generation = secondary.server().engine().generation();
    let served = generation.zones().zone(&origin()).unwrap();
    assert!(served.is_signed_here());
    drop(generation);
    // The primary signs, and a copy of that is not signed again.
    secondary.close();
    secondary.text = unsigned.clone();
    zone.change();
    let text = format!("{}@ DNSKEY 257 3 15 AAAA\n", zone.text());
    fs::write(primary.folder.join("a.zone"), text).unwrap();
    primary.open();
    secondary.open();
    until("the copy of the signed zone is written", || {
        let is_key = |line: &String| line.contains(" DNSKEY ");
        fs::read_to_string(&copy).is_ok_and(|text| lines(&read_zone(&text)).iter().any(is_key))
    });
    secondary.close();
    secondary.text = format!("{unsigned}sign = true\n");
    secondary.open();
    assert_eq!(secondary.served(), Vec::<String>::new());
    until("the reason is told while the primary has nothing newer", || {
        secondary.failure().contains("found DNSKEY in a zone that is to be signed here")
    });
    let shown = secondary.get("/v1/zones/example.com");
    assert!(!shown.contains("\"serving\""), "{shown}");
    zone.change();
    give(&primary, &zone);
    serves_signed_records(&secondary, &zone);
}

#[test]
fn bind_nsd_and_knot_follow_a_zone_that_is_signed_here_and_signed_again() {
    for kind in Kind::ALL {
        let at = folder(&format!("signed-to-{kind:?}"));
        let [address, theirs] = [free_address(), free_address()];
        let mut zone = RandomZone::new(19);
        fs::write(at.join("a.zone"), zone.text()).unwrap();
        let keys = whered_engine::KeyDirectory::new(at.join("data/keys/example.com"), origin());
        keys.create(whered_dns::KeyAlgorithm::EcdsaP256Sha256, None).unwrap();
        let ours = Ours::start(
            at.clone(),
            address,
            &format!(
                "[[zone]]\nname = \"{ORIGIN}\"\npath = \"a.zone\"\nreload = \"off\"\nsign = true\n\
                 allow_transfer = [\"key:transfer\"]\nnotify = [\"{theirs} key transfer\"]\n"
            ),
        );
        let Some(peer) = Peer::secondary(kind, &at, theirs, address) else { continue };
        let expect = || {
            let expected = ours.served();
            assert!(expected.iter().any(|line| line.contains(" RRSIG ")));
            let deadline = std::time::Instant::now() + transfer_peers::WAIT;
            while take(theirs, None).as_ref() != Ok(&expected) {
                assert!(std::time::Instant::now() < deadline, "{kind:?}\n{}", peer.log());
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        expect();
        for round in 0..6 {
            if round % 2 == 0 {
                zone.change();
                fs::write(ours.folder.join("a.zone"), zone.text()).unwrap();
            }
            ours.server().engine().reload_zone(ORIGIN).unwrap();
            expect();
        }
        let metrics = ours.metrics();
        let changes = "whered_zone_transfers_total{direction=\"out\",outcome=\"changes\"} 0\n";
        assert!(!metrics.contains(changes), "{kind:?} asked for no changes");
    }
}
