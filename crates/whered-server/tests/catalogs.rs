//! Catalog zones (RFC 9432): members of a catalog come and go as secondary zones, and BIND and Knot
//! give catalogs and follow ours.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod transfer_peers;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use transfer_peers::{
    Kind, Ours, Peer, WAIT, bind_head, folder, free_address, knot_head, take, until,
};
use whered_dns::Name;

const ALL: &str = "allow_transfer = [\"key:transfer\"]\n";

/// A catalog of this serial with these lines.
fn catalog_text(serial: u32, lines: &str) -> String {
    format!(
        "$TTL 0\n@ SOA invalid. invalid. {serial} 1 1 9999 0\n@ NS invalid.\nversion TXT 2\n{lines}\n"
    )
}

/// A zone that says its own name.
fn zone_text(zone: &str, serial: u32) -> String {
    format!(
        "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns.{zone}. h.{zone}. {serial} 1 1 9999 5\n@ NS ns.{zone}.\n\
         ns A 192.0.2.1\nwho TXT \"{zone}\"\n"
    )
}

fn write_zones(at: &Path, zones: &[&str]) {
    for zone in zones {
        fs::write(at.join(format!("{zone}.zone")), zone_text(zone, 1)).unwrap();
    }
}

/// Our primary of catalogs, which are files here, and of zones.
fn primary(name: &str, catalogs: &[&str], zones: &[&str], tell: SocketAddr) -> Ours {
    let at = folder(&format!("{name}-primary"));
    write_zones(&at, zones);
    let mut text = String::new();
    for catalog in catalogs {
        fs::write(at.join(format!("{catalog}.zone")), catalog_text(1, "")).unwrap();
    }
    for zone in zones.iter().chain(catalogs) {
        text.push_str(&format!(
            "[[zone]]\nname = \"{zone}\"\npath = \"{zone}.zone\"\nreload = \"off\"\n{ALL}\
             notify = [\"{tell} key transfer\"]\n"
        ));
    }
    Ours::start(at, free_address(), &text)
}

fn set_catalog(primary: &Ours, catalog: &str, text: &str) {
    fs::write(primary.folder.join(format!("{catalog}.zone")), text).unwrap();
    primary.server().engine().reload_zone(catalog).unwrap();
}

/// The members that a server serves with a zone in place, with their serials, sorted.
fn served(ours: &Ours) -> Vec<String> {
    let engine = ours.server().engine();
    let generation = engine.generation();
    let sources = engine.zone_sources().into_iter().filter(|source| source.member.is_some());
    let mut found: Vec<String> = sources
        .filter_map(|source| {
            let zone = generation.zones().zone(&source.name.parse().ok()?)?;
            (!zone.is_unavailable()).then(|| format!("{} {}", source.name, zone.serial()))
        })
        .collect();
    found.sort();
    found
}

#[track_caller]
fn serves(ours: &Ours, members: &[&str]) {
    let deadline = std::time::Instant::now() + WAIT;
    while served(ours) != members {
        assert!(
            std::time::Instant::now() < deadline,
            "{:?} in place of {members:?}; {:?}",
            served(ours),
            ours.server().engine().zone_failures()
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The copies of members of a catalog.
fn copies(ours: &Ours, catalog: &str) -> Vec<PathBuf> {
    let folder = ours.folder.join(format!("data/zones/{catalog}.members"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn follower(
    name: &str,
    address: SocketAddr,
    from: SocketAddr,
    catalogs: &[&str],
    more: &str,
) -> Ours {
    let catalogs: String = catalogs
        .iter()
        .map(|catalog| {
            format!("[[catalog]]\nname = \"{catalog}\"\nprimaries = [\"{from} key transfer\"]\n")
        })
        .collect();
    Ours::start(folder(&format!("{name}-secondary")), address, &format!("{catalogs}{more}"))
}

const ONE: &str = "1.zones PTR one.example.\n";
const TWO: &str = "2.zones PTR two.example.\n";

#[test]
fn members_appear_and_vanish_with_their_copies_and_serve_at_once_after_a_restart() {
    let to = free_address();
    let mut from = primary("own", &["catalog.example"], &["one.example", "two.example"], to);
    let mut ours = follower("own", to, from.address, &["catalog.example"], "");
    set_catalog(&from, "catalog.example", &catalog_text(2, ONE));
    serves(&ours, &["one.example 1"]);
    set_catalog(&from, "catalog.example", &catalog_text(3, &format!("{ONE}{TWO}")));
    serves(&ours, &["one.example 1", "two.example 1"]);
    until("copies are there", || copies(&ours, "catalog.example").len() == 2);
    // A reload keeps them; a later change of a member comes by NOTIFY.
    ours.server().reload(ours.config()).unwrap();
    assert_eq!(served(&ours), ["one.example 1", "two.example 1"]);
    fs::write(from.folder.join("two.example.zone"), zone_text("two.example", 2)).unwrap();
    from.server().engine().reload_zone("two.example").unwrap();
    serves(&ours, &["one.example 1", "two.example 2"]);
    let metrics = ours.metrics();
    assert!(
        metrics.contains("whered_catalog_members{catalog=\"catalog.example.\"} 2\n"),
        "{metrics}"
    );
    until("the copies are written", || {
        let copy = ours.folder.join("data/zones/catalog.example.zone");
        let two = copies(&ours, "catalog.example").pop();
        fs::read_to_string(copy).is_ok_and(|text| text.contains("PTR") || text.contains("TYPE12"))
            && two.is_some_and(|two| fs::read_to_string(two).unwrap().contains("00000002"))
    });
    ours.close();
    from.close();
    let stray = ours.folder.join("data/zones/catalog.example.members/old.example-00.zone");
    fs::write(&stray, "left behind").unwrap();
    ours.open();
    assert_eq!(served(&ours), ["one.example 1", "two.example 2"], "without the primary");
    assert!(!stray.exists());
    from.open();
    set_catalog(&from, "catalog.example", &catalog_text(4, TWO));
    ours.server().reload(ours.config()).unwrap();
    serves(&ours, &["two.example 2"]);
    let one: Name = "one.example".parse().unwrap();
    assert!(ours.server().engine().generation().zones().zone(&one).is_none(), "it is no zone here");
    until("its copy is gone", || copies(&ours, "catalog.example").len() == 1);
}

#[test]
fn a_catalog_that_is_none_leaves_the_last_members_and_says_why() {
    let to = free_address();
    let from = primary("broken", &["catalog.example"], &["one.example", "two.example"], to);
    let ours = follower("broken", to, from.address, &["catalog.example"], "members_max = 2\n");
    set_catalog(&from, "catalog.example", &catalog_text(2, ONE));
    serves(&ours, &["one.example 1"]);
    let head = "$TTL 0\n@ SOA invalid. invalid. 9 1 1 9999 0\n@ NS invalid.\n";
    let many: String = (0..3).map(|n| format!("{n}.zones PTR m{n}.example.\n")).collect();
    let cases = [
        (format!("{head}{TWO}"), "found no version"),
        (format!("{head}version TXT 3\n{TWO}"), "found the version '3'"),
        (format!("{head}version TXT 2\n{TWO}2.zones PTR one.example.\n"), "found 2 PTR records"),
        (format!("{head}version TXT 2\n{many}"), "found more than 2 members"),
    ];
    for (number, (text, says)) in cases.into_iter().enumerate() {
        set_catalog(
            &from,
            "catalog.example",
            &text.replace(" 9 1 1", &format!(" {} 1 1", 3 + number)),
        );
        let failure = || {
            let failures = ours.server().engine().zone_failures();
            failures.get("catalog.example").cloned().unwrap_or_default()
        };
        until(says, || failure().contains(says));
        assert!(!failure().contains('\n'));
        assert_eq!(served(&ours), ["one.example 1"], "{says}");
    }
    set_catalog(&from, "catalog.example", &catalog_text(20, &format!("{ONE}{TWO}")));
    serves(&ours, &["one.example 1", "two.example 1"]);
}

#[test]
fn a_member_with_another_id_begins_anew_even_with_an_older_serial() {
    let to = free_address();
    let from = primary("reset", &["catalog.example"], &["one.example"], to);
    let ours = follower("reset", to, from.address, &["catalog.example"], "");
    set_catalog(&from, "catalog.example", &catalog_text(2, ONE));
    fs::write(from.folder.join("one.example.zone"), zone_text("one.example", 7)).unwrap();
    from.server().engine().reload_zone("one.example").unwrap();
    serves(&ours, &["one.example 7"]);
    until("the copy is there", || copies(&ours, "catalog.example").len() == 1);
    let before = copies(&ours, "catalog.example");
    fs::write(from.folder.join("one.example.zone"), zone_text("one.example", 3)).unwrap();
    from.server().engine().reload_zone("one.example").unwrap();
    set_catalog(&from, "catalog.example", &catalog_text(3, "again.zones PTR one.example.\n"));
    serves(&ours, &["one.example 3"]);
    until("another copy is there", || {
        let now = copies(&ours, "catalog.example");
        now.len() == 1 && now != before
    });
}

#[test]
fn zones_of_the_configuration_and_names_of_pools_stay_what_they_are() {
    let to = free_address();
    let zones = ["own.example", "www.own.example", "free.example"];
    let from = primary("own-zones", &["catalog.example"], &zones, to);
    let at = folder("own-zones-secondary");
    fs::write(at.join("own.zone"), zone_text("own.example", 99)).unwrap();
    let address = from.address;
    let ours = Ours::start(
        at,
        to,
        &format!(
            "[[zone]]\nname = \"own.example\"\npath = \"own.zone\"\n\
             [[pool]]\nname = \"www\"\nowners = [\"www.own.example\"]\npolicy = [\"healthy\", \
             \"nearest\"]\nttl_seconds = 5\nanswers = 1\nwhen_all_down = \"all\"\n\
             [[pool.site]]\nname = \"a\"\naddresses = [\"192.0.2.7\"]\nat = {{ longitude = 0, latitude = 0 }}\n\
             [[catalog]]\nname = \"catalog.example\"\nprimaries = [\"{address} key transfer\"]\n"
        ),
    );
    let lines = "1.zones PTR own.example.\n2.zones PTR www.own.example.\n3.zones PTR free.example.\n\
                 4.zones PTR catalog.example.\n";
    set_catalog(&from, "catalog.example", &catalog_text(2, lines));
    serves(&ours, &["free.example 1"]);
    let generation = ours.server().engine().generation();
    let own = generation.zones().zone(&"own.example".parse().unwrap()).unwrap();
    assert_eq!(own.serial(), 99);
    assert!(generation.zones().zone(&"www.own.example".parse().unwrap()).is_none());
}

#[test]
fn a_member_moves_to_the_catalog_that_its_own_names_and_keeps_its_zone() {
    let to = free_address();
    let catalogs = ["a.catalog", "b.catalog"];
    let from = primary("moving", &catalogs, &["one.example"], to);
    let mut ours = follower("moving", to, from.address, &catalogs, "");
    set_catalog(&from, "a.catalog", &catalog_text(2, ONE));
    serves(&ours, &["one.example 1"]);
    until("the copy is there", || copies(&ours, "a.catalog").len() == 1);
    // Without a word of the first catalog the second one's entry counts for nothing.
    set_catalog(&from, "b.catalog", &catalog_text(2, ONE));
    until("the second catalog is there", || {
        let generation = ours.server().engine().generation();
        generation
            .zones()
            .zone(&"b.catalog".parse().unwrap())
            .is_some_and(|zone| zone.serial() == 2)
    });
    let owner = |ours: &Ours| {
        let sources = ours.server().engine().zone_sources();
        let member = sources.into_iter().find(|source| source.name == "one.example");
        member.and_then(|source| source.member).unwrap().catalog.to_string()
    };
    assert_eq!(owner(&ours), "a.catalog.");
    set_catalog(
        &from,
        "a.catalog",
        &catalog_text(3, &format!("{ONE}coo.1.zones PTR b.catalog.\n")),
    );
    until("it has moved", || owner(&ours) == "b.catalog.");
    assert_eq!(served(&ours), ["one.example 1"], "it has kept its zone");
    until("its copy, too", || copies(&ours, "b.catalog").len() == 1);
    assert!(copies(&ours, "a.catalog").is_empty());
    set_catalog(&from, "a.catalog", &catalog_text(4, ""));
    until("the first catalog is empty", || {
        let generation = ours.server().engine().generation();
        generation
            .zones()
            .zone(&"a.catalog".parse().unwrap())
            .is_some_and(|zone| zone.serial() == 4)
    });
    assert_eq!(owner(&ours), "b.catalog.");
    until("the copies are written", || {
        fs::read_to_string(ours.folder.join("data/zones/a.catalog.zone"))
            .is_ok_and(|text| text.contains("0000000400000001"))
    });
    ours.close();
    ours.open();
    assert_eq!(
        (owner(&ours), served(&ours)),
        ("b.catalog.".to_owned(), vec!["one.example 1".to_owned()])
    );
}

#[test]
fn a_group_has_its_own_settings() {
    let to = free_address();
    let from = primary("group", &["catalog.example"], &["one.example", "example.com"], to);
    let more = "[catalog.members]\nallow_transfer = []\n[[catalog.group]]\nname = \"open\"\n\
                allow_transfer = [\"127.0.0.0/8\"]\n";
    let ours = follower("group", to, from.address, &["catalog.example"], more);
    let entry = "e.zones PTR example.com.\n";
    set_catalog(&from, "catalog.example", &catalog_text(2, entry));
    serves(&ours, &["example.com 1"]);
    assert_eq!(take(to, None).unwrap_err(), "the answer REFUSED");
    let grouped = format!("{entry}group.e.zones TXT other\ngroup.e.zones TXT open\n");
    set_catalog(&from, "catalog.example", &catalog_text(3, &grouped));
    until("the group's settings hold", || take(to, None).is_ok());
    assert_eq!(served(&ours), ["example.com 1"]);
}

/// Our server with a catalog of two zones that it tells `theirs` of.
fn producer(name: &str, theirs: SocketAddr) -> Ours {
    let at = folder(&format!("{name}-producer"));
    write_zones(&at, &["example.com", "two.example"]);
    let common = format!("{ALL}notify = [\"{theirs} key transfer\"]\n");
    Ours::start(
        at,
        free_address(),
        &format!(
            "[[catalog]]\nname = \"catalog.example\"\n{common}\
             [[zone]]\nname = \"example.com\"\npath = \"example.com.zone\"\n\
             catalog = \"catalog.example\"\ncatalog_group = \"g\"\n{common}\
             [[zone]]\nname = \"two.example\"\npath = \"two.example.zone\"\n\
             catalog = \"Catalog.Example.\"\n{common}"
        ),
    )
}

/// Takes a zone out of its catalog.
fn leave(ours: &mut Ours) {
    let entry = "catalog = \"catalog.example\"\ncatalog_group = \"g\"\n";
    assert!(ours.text.contains(entry));
    ours.text = ours.text.replace(entry, "");
    ours.server().reload(ours.config()).unwrap();
}

fn catalog_serial(ours: &Ours) -> u32 {
    let generation = ours.server().engine().generation();
    generation.zones().zone(&"catalog.example".parse().unwrap()).unwrap().serial()
}

#[test]
fn a_catalog_is_made_of_our_zones_and_its_serial_rises_with_each_change_alone() {
    let to = free_address();
    let mut from = producer("made", to);
    let ours = follower("made", to, from.address, &["catalog.example"], "");
    serves(&ours, &["example.com 1", "two.example 1"]);
    let first = catalog_serial(&from);
    from.server().reload(from.config()).unwrap();
    from.close();
    from.open();
    assert_eq!(catalog_serial(&from), first, "nothing has changed");
    leave(&mut from);
    let second = catalog_serial(&from);
    assert!(second > first);
    serves(&ours, &["two.example 1"]);
}

#[test]
fn bind_and_knot_follow_our_catalog() {
    for kind in [Kind::Bind, Kind::Knot] {
        let theirs = free_address();
        let mut ours = producer(&format!("to-{kind:?}"), theirs);
        let at = folder(&format!("catalog-to-{kind:?}"));
        let port = ours.address.port();
        let text = match kind {
            Kind::Bind => {
                let primaries = format!("{{ 127.0.0.1 port {port} key transfer; }}");
                let more = format!(
                    "allow-transfer {{ any; }}; allow-notify {{ key transfer; }}; catalog-zones {{ \
                     zone \"catalog.example\" default-primaries {primaries} in-memory yes \
                     min-update-interval 1; }};"
                );
                let head = bind_head(&at, theirs, &more);
                format!(
                    "{head}zone \"catalog.example\" {{ type secondary; primaries {primaries}; \
                     file \"catalog.zone\"; }};\n"
                )
            }
            _ => {
                let (head, at) = (knot_head(&at, theirs, port), at.display());
                format!(
                    "{head}template:\n  - id: member\n    storage: \"{at}\"\n    master: ours\n    \
                     acl: [theirs, anybody]\nzone:\n  - domain: catalog.example\n    \
                     storage: \"{at}\"\n    master: ours\n    acl: theirs\n    \
                     catalog-role: interpret\n    catalog-template: member\n"
                )
            }
        };
        let Some(peer) = Peer::start_with(kind, &at, theirs, text) else { continue };
        let expect = |what: &str, holds: &dyn Fn() -> bool| {
            let deadline = std::time::Instant::now() + WAIT;
            while !holds() {
                assert!(std::time::Instant::now() < deadline, "{kind:?}: {what}\n{}", peer.log());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        };
        expect("the member appears", &|| take(theirs, None).is_ok_and(|lines| lines.len() == 4));
        leave(&mut ours);
        expect("the member vanishes", &|| take(theirs, None).is_err());
    }
}

#[test]
fn we_follow_the_catalogs_of_bind_and_knot() {
    for kind in [Kind::Bind, Kind::Knot] {
        let (to, theirs) = (free_address(), free_address());
        let at = folder(&format!("catalog-from-{kind:?}"));
        let zones = ["one.example", "two.example"];
        write_zones(&at, &zones);
        let text = |members: &[&str], serial: u32| match kind {
            Kind::Bind => {
                let mut text = bind_head(&at, theirs, "");
                let lines: String = members
                    .iter()
                    .map(|zone| format!("id-{}.zones PTR {zone}.\n", zone.replace('.', "-")))
                    .collect();
                let catalog = format!("$ORIGIN catalog.example.\n{}", catalog_text(serial, &lines));
                fs::write(at.join("catalog.example.zone"), catalog).unwrap();
                for zone in zones.iter().chain(&["catalog.example"]) {
                    let port = to.port();
                    text.push_str(&format!(
                        "zone \"{zone}\" {{ type primary; file \"{zone}.zone\"; notify explicit; \
                         also-notify {{ 127.0.0.1 port {port} key transfer; }}; \
                         allow-transfer {{ key transfer; }}; }};\n"
                    ));
                }
                text
            }
            _ => {
                let (mut text, at) = (knot_head(&at, theirs, to.port()), at.display());
                text.push_str(&format!(
                    "zone:\n  - domain: catalog.example\n    storage: \"{at}\"\n    notify: ours\n    \
                     acl: theirs\n    catalog-role: generate\n"
                ));
                // A member that becomes an ordinary zone, or the reverse, is left in the catalog as
                // it was: Knot looks at zones that come and go.
                for zone in zones.into_iter().filter(|zone| members.contains(zone)) {
                    text.push_str(&format!(
                        "  - domain: {zone}\n    storage: \"{at}\"\n    file: {zone}.zone\n    \
                         notify: ours\n    acl: theirs\n    semantic-checks: off\n    \
                         catalog-role: member\n    catalog-zone: catalog.example\n"
                    ));
                }
                text
            }
        };
        let Some(peer) = Peer::start_with(kind, &at, theirs, text(&zones[..1], 1)) else {
            continue;
        };
        let ours = follower(&format!("from-{kind:?}"), to, theirs, &["catalog.example"], "");
        let expect = |members: &[&str]| {
            let deadline = std::time::Instant::now() + WAIT;
            while served(&ours) != members {
                let found = served(&ours);
                let failures = ours.server().engine().zone_failures();
                assert!(
                    std::time::Instant::now() < deadline,
                    "{kind:?}: {found:?} {failures:?}\n{}",
                    peer.log()
                );
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        };
        expect(&["one.example 1"]);
        peer.reconfigure(&text(&zones, 2));
        expect(&["one.example 1", "two.example 1"]);
        peer.reconfigure(&text(&zones[1..], 3));
        expect(&["two.example 1"]);
    }
}
