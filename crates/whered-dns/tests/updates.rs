//! UPDATE (RFC 2136): the form of messages, prerequisites, what is changed, and what lies over a
//! zone's file then.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod harness;

use harness::{name, zone};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use whered_dns::update::{Update, ZoneOverlay};
use whered_dns::{Name, Rcode, RecordType, Zone, record_data};

const FILE: &str = "@ 60 SOA ns hm 7 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n\
                    www 60 A 192.0.2.2\nwww 60 A 192.0.2.3\nwww 60 TXT \"t\"\nalias 60 CNAME www\n";

/// Lines as `nsupdate` has them, but with whole names: `prereq yxdomain www.example.com.`,
/// `update add www.example.com. 60 A 192.0.2.1`.
fn message(lines: &[&str]) -> Vec<u8> {
    let mut sections: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let kind = |text: &str| -> u16 {
            match text {
                "ANY" => 255,
                "OPT" => 41,
                "RRSIG" => 46,
                text => types().find(|of| of.to_string() == text).unwrap().0,
            }
        };
        let data =
            |of: &str, words: &[&str]| record_data(RecordType(kind(of)), &words.join(" ")).unwrap();
        let record = |owner: &str, of: u16, class: u16, ttl: u32, data: &[u8]| {
            let mut bytes = name(owner).as_wire().to_vec();
            bytes.extend_from_slice(&of.to_be_bytes());
            bytes.extend_from_slice(&class.to_be_bytes());
            bytes.extend_from_slice(&ttl.to_be_bytes());
            bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
            bytes.extend_from_slice(data);
            bytes
        };
        match words[..] {
            ["prereq", "yxdomain", owner] => sections[0].push(record(owner, 255, 255, 0, &[])),
            ["prereq", "nxdomain", owner] => sections[0].push(record(owner, 255, 254, 0, &[])),
            ["prereq", "yxrrset", owner, of] => {
                sections[0].push(record(owner, kind(of), 255, 0, &[]));
            }
            ["prereq", "nxrrset", owner, of] => {
                sections[0].push(record(owner, kind(of), 254, 0, &[]));
            }
            ["prereq", "yxrrset", owner, of, ref rest @ ..] => {
                sections[0].push(record(owner, kind(of), 1, 0, &data(of, rest)));
            }
            ["update", "add", owner, ttl, of, ref rest @ ..] => {
                sections[1].push(record(owner, kind(of), 1, ttl.parse().unwrap(), &data(of, rest)));
            }
            ["update", "delete", owner] => sections[1].push(record(owner, 255, 255, 0, &[])),
            ["update", "delete", owner, of] => {
                sections[1].push(record(owner, kind(of), 255, 0, &[]));
            }
            ["update", "delete", owner, of, ref rest @ ..] => {
                sections[1].push(record(owner, kind(of), 254, 0, &data(of, rest)));
            }
            _ => panic!("{line}"),
        }
    }
    let mut bytes = vec![0x12, 0x34, 0x28, 0, 0, 1];
    bytes.extend(sections.iter().flat_map(|section| (section.len() as u16).to_be_bytes()));
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(name("example.com").as_wire());
    bytes.extend_from_slice(&[0, 6, 0, 1]);
    bytes.extend(sections.concat().concat());
    bytes
}

fn types() -> impl Iterator<Item = RecordType> {
    (1..=65).map(RecordType)
}

/// The records of a zone but the SOA, as lines.
fn lines(zone: &Zone) -> Vec<String> {
    let records = zone.records().filter(|record| record.record_type != RecordType::SOA);
    let mut lines: Vec<String> = records
        .map(|record| {
            let data = record.data.escape_ascii();
            let (owner, ttl_seconds) = (record.owner, record.ttl_seconds);
            format!("{owner} {ttl_seconds} {} {data}", record.record_type)
        })
        .collect();
    lines.sort();
    lines
}

/// What is there then and was not, and what was there and is not.
fn changed(update: &[&str]) -> Result<(Vec<String>, Vec<String>), Rcode> {
    let base = zone("example.com", FILE);
    let update = Update::read(&message(update))?;
    let Some(difference) = update.changes(&base)? else { return Ok((Vec::new(), Vec::new())) };
    let after = base.patched("UPDATE", &[difference]).unwrap();
    assert!(after.serial() > 7, "the serial rises");
    let (before, after) = (lines(&base), lines(&after));
    let missing = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    Ok((missing(&after, &before), missing(&before, &after)))
}

fn added(update: &[&str]) -> Vec<String> {
    let (added, removed) = changed(update).unwrap();
    assert_eq!(removed, Vec::<String>::new());
    added
}

fn removed(update: &[&str]) -> Vec<String> {
    let (added, removed) = changed(update).unwrap();
    assert_eq!(added, Vec::<String>::new());
    removed
}

#[test]
fn records_are_added_and_removed_one_by_one_by_type_and_by_name() {
    assert_eq!(
        added(&["update add new.example.com. 30 A 192.0.2.9"]),
        ["new.example.com. 30 A \\xc0\\x00\\x02\\t"]
    );
    assert_eq!(
        removed(&["update delete www.example.com. A 192.0.2.2"]),
        ["www.example.com. 60 A \\xc0\\x00\\x02\\x02"]
    );
    assert_eq!(removed(&["update delete www.example.com. A"]).len(), 2);
    assert_eq!(removed(&["update delete www.example.com."]).len(), 3);
    let none = (Vec::new(), Vec::new());
    assert_eq!(changed(&["update delete none.example.com."]).unwrap(), none);
    assert_eq!(changed(&["update add www.example.com. 60 A 192.0.2.2"]).unwrap(), none);
    let both = ["update delete www.example.com. A", "update add www.example.com. 5 A 192.0.2.9"];
    let (added, removed) = changed(&both).unwrap();
    assert_eq!((added.len(), removed.len()), (1, 2), "changes are made in their order");
}

#[test]
fn an_rrset_takes_the_ttl_of_what_is_added_last() {
    let (added, removed) = changed(&["update add www.example.com. 5 A 192.0.2.9"]).unwrap();
    assert_eq!((added.len(), removed.len()), (3, 2));
    assert!(added.iter().all(|line| line.contains(" 5 A ")), "{added:?}");
}

#[test]
fn soa_the_last_ns_and_aliases_keep_their_rules() {
    let none = (Vec::new(), Vec::new());
    for ignored in [
        "update delete example.com. SOA",
        "update delete example.com. NS",
        "update delete example.com. NS ns.example.com.",
        "update delete example.com. SOA ns.example.com. hm.example.com. 7 2 3 4 5",
        "update add www.example.com. 60 CNAME ns.example.com.",
        "update add alias.example.com. 60 A 192.0.2.9",
        "update add example.com. 60 SOA ns.example.com. hm.example.com. 7 9 9 9 9",
        "update add www.example.com. 60 SOA ns.example.com. hm.example.com. 9 9 9 9 9",
    ] {
        assert_eq!(changed(&[ignored]).unwrap(), none, "{ignored}");
    }
    let (added, removed) =
        changed(&["update add alias.example.com. 60 CNAME ns.example.com."]).unwrap();
    assert_eq!((added.len(), removed.len()), (1, 1), "an alias takes the place of the other");
    let base = zone("example.com", FILE);
    let soa = ["update add example.com. 60 SOA ns.example.com. hm.example.com. 4000 9 9 9 9"];
    let difference = Update::read(&message(&soa)).unwrap().changes(&base).unwrap().unwrap();
    assert_eq!((difference.from_serial, difference.to_serial), (7, 4000));
}

#[test]
fn the_case_of_names_in_data_makes_no_other_record() {
    let base = zone("example.com", &format!("{FILE}@ 60 MX 10 mail\n"));
    let changes = |line: &str| {
        let update = Update::read(&message(&[line])).unwrap();
        update.changes(&base).map(|difference| difference.map(|changes| changes.removed.len()))
    };
    assert_eq!(changes("update add example.com. 60 MX 10 MAIL.Example.com."), Ok(None));
    assert_eq!(changes("update delete example.com. MX 10 MAIL.Example.com."), Ok(Some(2)));
    let twice =
        zone("example.com", &format!("{FILE}@ 60 MX 10 mail\n@ 60 MX 10 MAIL.EXAMPLE.com.\n"));
    assert_eq!(twice.record_count(), base.record_count());
}

#[test]
fn what_nobody_would_see_below_a_dname_is_refused() {
    let base = zone("example.com", &format!("{FILE}d 60 DNAME www\n"));
    let update = Update::read(&message(&["update add a.b.d.example.com. 60 A 192.0.2.9"])).unwrap();
    assert_eq!(update.changes(&base).unwrap_err(), Rcode::REFUSED);
}

#[test]
fn prerequisites_that_do_not_hold_change_nothing_and_say_which() {
    let with = |prerequisite: &str| {
        changed(&[prerequisite, "update add new.example.com. 60 A 192.0.2.9"])
            .map(|both| both.0.len())
    };
    for (prerequisite, result) in [
        ("prereq yxdomain www.example.com.", Ok(1)),
        ("prereq yxdomain none.example.com.", Err(Rcode::NXDOMAIN)),
        ("prereq nxdomain none.example.com.", Ok(1)),
        ("prereq nxdomain www.example.com.", Err(Rcode::YXDOMAIN)),
        ("prereq yxrrset www.example.com. TXT", Ok(1)),
        ("prereq yxrrset www.example.com. MX", Err(Rcode::NXRRSET)),
        ("prereq nxrrset www.example.com. MX", Ok(1)),
        ("prereq nxrrset www.example.com. TXT", Err(Rcode::YXRRSET)),
        ("prereq yxrrset www.example.com. TXT \"t\"", Ok(1)),
        ("prereq yxrrset www.example.com. TXT \"u\"", Err(Rcode::NXRRSET)),
        ("prereq yxrrset www.example.com. A 192.0.2.2", Err(Rcode::NXRRSET)),
        ("prereq yxdomain www.example.net.", Err(Rcode::NOTZONE)),
    ] {
        assert_eq!(with(prerequisite), result, "{prerequisite}");
    }
    let whole = [
        "prereq yxrrset www.example.com. A 192.0.2.3",
        "prereq yxrrset www.example.com. A 192.0.2.2",
        "update delete www.example.com. A",
    ];
    assert_eq!(changed(&whole).map(|both| both.1.len()), Ok(2));
}

#[test]
fn messages_of_another_form_are_refused_by_their_code() {
    for (line, rcode) in [
        ("update add www.example.net. 60 A 192.0.2.9", Rcode::NOTZONE),
        ("update delete www.example.com. OPT", Rcode::FORMERR),
        ("update delete www.example.com. RRSIG", Rcode::REFUSED),
    ] {
        assert_eq!(Update::read(&message(&[line])).unwrap_err(), rcode, "{line}");
    }
    let good = message(&["prereq yxdomain www.example.com.", "update delete www.example.com. A"]);
    assert!(Update::read(&good).is_ok());
    for cut in 0..good.len() {
        assert_eq!(Update::read(&good[..cut]).unwrap_err(), Rcode::FORMERR, "{cut} bytes");
    }
    // Data that are no address, a TTL in a prerequisite, another class, two zones.
    let added = message(&["update add www.example.com. 60 A 192.0.2.9"]);
    let edits: [fn(&mut Vec<u8>); 4] = [
        |bytes| {
            bytes.pop();
            let length = bytes.len();
            bytes[length - 4] = 3;
        },
        |bytes| bytes[5] = 0,
        |bytes| {
            let length = bytes.len();
            bytes[length - 12] = 9;
        },
        |bytes| bytes[12 + name("example.com").as_wire().len() + 1] = 1,
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut bytes = added.clone();
        edit(&mut bytes);
        assert_eq!(Update::read(&bytes).unwrap_err(), Rcode::FORMERR, "edit {number}");
    }
}

#[test]
fn what_updates_made_lies_over_the_file_through_its_changes_and_restarts() {
    const CHANGES: &[&str] = &[
        "update add www.example.com. 60 A 192.0.2.9",
        "update add new.example.com. 60 TXT \"n\"",
        "update add a.b.example.com. 60 A 192.0.2.9",
        "update delete www.example.com. A",
        "update delete www.example.com. A 192.0.2.2",
        "update delete www.example.com.",
        "update delete new.example.com.",
        "update delete alias.example.com.",
        "update add alias.example.com. 60 CNAME ns.example.com.",
        "update add example.com. 60 MX 10 www.example.com.",
        "update add www.example.com. 30 A 192.0.2.2",
        "update add example.com. 60 SOA ns.example.com. new.example.com. 100 9 9 9 9",
    ];
    let updates = prop::collection::vec(prop::sample::subsequence(CHANGES, 1..4), 1..8);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 64, failure_persistence: None, ..Config::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    runner
        .run(&updates, |updates| {
            let base = zone("example.com", FILE);
            let mut served = zone("example.com", FILE);
            let (mut overlay, mut replayed) = (ZoneOverlay::default(), ZoneOverlay::default());
            for lines in &updates {
                let update = Update::read(&message(lines)).unwrap();
                let Some(difference) = update.changes(&served).unwrap() else { continue };
                for part in overlay.take(&base, &served, &difference) {
                    replayed.take_parts(&part).unwrap();
                }
                served = served.patched("UPDATE", &[difference]).unwrap();
            }
            prop_assert_eq!(&replayed, &overlay);
            let mut whole = ZoneOverlay::default();
            for part in overlay.parts() {
                whole.take_parts(&part).unwrap();
            }
            prop_assert_eq!(whole.parts().collect::<Vec<_>>(), overlay.parts().collect::<Vec<_>>());
            let over = |file: &Zone| file.patched("overlay", &[overlay.over(file)]).unwrap();
            let again = over(&base);
            prop_assert_eq!(lines(&again), lines(&served));
            prop_assert_eq!(again.serial(), served.serial());
            // A newer file below it: what was added is there, what was removed is not.
            let newer = zone(
                "example.com",
                &format!("{}extra 60 A 192.0.2.8\n", FILE.replace("hm 7", "hm 8")),
            );
            let again = over(&newer);
            let mut expected = lines(&served);
            expected.push("extra.example.com. 60 A \\xc0\\x00\\x02\\x08".to_owned());
            expected.sort();
            prop_assert_eq!(lines(&again), expected);
            prop_assert!(again.serial() > 7);
            prop_assert!(
                overlay.is_empty() || again.serial() > served.serial() || served.serial() < 8
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn bytes_that_are_no_part_are_refused() {
    let (base, mut overlay) = (zone("example.com", FILE), ZoneOverlay::default());
    let update =
        message(&["update add new.example.com. 60 TXT \"n\"", "update delete www.example.com. A"]);
    let difference = Update::read(&update).unwrap().changes(&base).unwrap().unwrap();
    for part in overlay.take(&base, &base, &difference) {
        for cut in 1..part.len() {
            let error = ZoneOverlay::default().take_parts(&part[..cut]).unwrap_err();
            assert!(error.to_string().contains("a zone's changes"), "{error}");
        }
        assert!(ZoneOverlay::default().take_parts(&[&part[..], &[0]].concat()).is_err());
    }
    assert_eq!(overlay.counts(), (1, 2));
    let owner: Name = "new.example.com".parse().unwrap();
    assert!(Update::read(&update).unwrap().steps().iter().any(|step| *step.owner() == owner));
}
