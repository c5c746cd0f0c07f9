//! A transaction in the journal: all that it changes or nothing, wherever the disk's bytes end.

mod support;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use support::{Folder, open};
use whered_engine::geo::Place;
use whered_engine::ip::Block;
use whered_engine::rules::Format;
use whered_engine::{
    AddCondition, Engine, PoolSource, SetText, Setup, Site, TextExpiry, ZoneSource,
};

const ZONE: &[u8] =
    b"$TTL 60\n@ IN SOA ns1 host 1 2 3 4 60\n@ IN NS ns1\nns1 IN A 192.0.2.1\nwww IN A 192.0.2.2\n";
const RULES: &str = "chain input policy drop {\n    proto tcp accept\n}\n";
const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

fn site(name: &str, last: u8) -> Site {
    let place = Place::new(8.7, 50.1).expect("a place");
    Site::new(name, Some(place), vec![Ipv4Addr::new(192, 0, 2, last).into()])
}

fn setup(folder: &Folder) -> Setup {
    Setup {
        zones: vec![ZoneSource {
            name: "example.com".to_owned(),
            path: folder.file("zone", ZONE),
            reversed: None,
            sign: None,
            is_secondary: false,
            member: None,
            follows_file: true,
            dnssec: whered_dns::Dnssec::Refuse,
        }],
        pools: vec![PoolSource::new(
            "www",
            vec!["www.example.com".to_owned()],
            vec![site("fra", 10)],
        )],
        ..Setup::default()
    }
}

fn block(text: &str) -> [Block; 1] {
    [text.parse().expect("a block")]
}

fn set_text(engine: &Engine, key: &[u8], text: &str) {
    let set = SetText {
        text: text.as_bytes(),
        condition: AddCondition::Always,
        expiry: TextExpiry::Never,
        wants_old: false,
    };
    engine.keyspace().set_text(0, key, &set).expect("there is room");
}

/// One change of every kind that a transaction can make.
fn change_everything(engine: &Engine) {
    set_text(engine, b"key", "new");
    engine.prefix_sets().add("set", &block("10.0.0.0/8"), Some(b"v"), None).expect("there is room");
    engine.prefix_sets().remove("set", &block("192.0.2.0/24")).expect("there is room");
    engine.put_site("www", site("nyc", 20)).expect("there is room");
    engine.set_rules("edge", Some(Format::Own), RULES).expect("the rules are right");
    let end = engine.now_millis() + 1_000_000;
    engine.set_challenge("www.example.com", TOKEN, end).expect("the zone answers there");
    set_text(engine, b"last", "new");
}

/// Each thing that [`change_everything`] changes, as it is now.
fn state(engine: &Engine) -> Vec<String> {
    let text = |key: &[u8]| {
        let found = engine.keyspace().inspect(0, key, |value| value.text().map(<[u8]>::to_vec));
        format!("{:?}", found.flatten())
    };
    let has = |text: &str| {
        let address = block(text)[0];
        let found = engine
            .prefix_sets()
            .read("set", |set| set.iter(0).any(|member| member.block == address));
        format!("{text} {found:?}")
    };
    let generation = engine.generation();
    let sites = generation.pools()[0].sites.len();
    let rules = generation.ruleset("edge").map(|edge| edge.edition().rules());
    let challenges = engine.challenges().map_or(0, |all| all.len());
    vec![
        text(b"key"),
        has("10.0.0.0/8"),
        has("192.0.2.0/24"),
        format!("{sites} sites"),
        format!("{rules:?} rules"),
        format!("{challenges} challenges"),
        text(b"last"),
    ]
}

/// The directory's files at one level, with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_file() {
            found.push((path.clone(), fs::read(&path).expect("it can be read")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_journal_that_ends_at_any_byte_has_all_that_a_transaction_changed_or_nothing() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let engine = open(&data, setup(&folder));
    set_text(&engine, b"key", "old");
    engine.prefix_sets().add("set", &block("192.0.2.0/24"), None, None).expect("there is room");
    set_text(&engine, b"last", "old");
    let set = engine.prefix_sets().add("set", &block("203.0.113.0/24"), None, None);
    engine.wait_durable(set.expect("there is room").ticket).expect("the disk works");
    let (before, old) = (files(&data), state(&engine));
    let written = engine.keyspace().isolated(|| change_everything(&engine));
    engine.wait_durable(written.ticket).expect("the disk works");
    let (after, new) = (files(&data), state(&engine));
    assert!(old.iter().zip(&new).all(|(old, new)| old != new), "{old:?} {new:?}");
    drop(engine);
    // The only file that has changed is the journal's segment.
    let changed: Vec<_> = before.iter().zip(&after).filter(|(old, new)| old != new).collect();
    let [((path, before), (_, after))] = changed[..] else { panic!("{} files", changed.len()) };
    let differs = |at: &usize| before[*at] != after[*at];
    let first = (0..before.len()).find(differs).expect("it was written to");
    let last = (0..before.len()).rev().find(differs).expect("it was written to");
    let mut seen = [0, 0];
    for end in first..=last + 1 {
        let name = path.file_name().expect("it has one");
        let cut_folder = folder.path().join("cut");
        fs::create_dir_all(&cut_folder).expect("there is room");
        for (other, bytes) in files(&data) {
            let name = other.file_name().expect("it has one");
            fs::write(cut_folder.join(name), bytes).expect("there is room");
        }
        let bytes = [&after[..end], &before[end..]].concat();
        fs::write(cut_folder.join(name), bytes).expect("there is room");
        let engine = open(&cut_folder, setup(&folder));
        let found = state(&engine);
        assert!(found == old || found == new, "cut at byte {end}: {found:?}");
        seen[usize::from(found == new)] += 1;
        drop(engine);
        fs::remove_dir_all(&cut_folder).expect("it is there");
    }
    assert!(seen[0] > 100 && seen[1] > 0, "{seen:?}");
}

#[test]
fn no_other_thread_changes_a_set_between_what_a_transaction_does_and_its_entry() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let engine = open(&data, setup(&folder));
    let other = Arc::clone(&engine);
    let (done, is_done) = channel();
    let written = engine.keyspace().isolated(|| {
        engine.prefix_sets().add("set", &block("10.0.0.0/8"), None, None).expect("there is room");
        engine.put_site("www", site("nyc", 20)).expect("there is room");
        engine.set_rules("edge", None, RULES).expect("the rules are right");
        let thread = std::thread::spawn(move || {
            let sets = other.prefix_sets();
            sets.remove("set", &block("10.0.0.0/8")).expect("there is room");
            other.remove_site("www", "nyc").expect("it is there");
            other.unset_rules("edge").expect("it is there");
            done.send(()).expect("somebody waits");
        });
        let waited = is_done.recv_timeout(Duration::from_millis(100));
        assert_eq!(waited, Err(RecvTimeoutError::Timeout), "the transaction keeps it out");
        thread
    });
    written.value.join().expect("it does not panic");
    let last = state(&engine);
    engine.close().expect("the disk works");
    drop(engine);
    assert_eq!(state(&open(&data, setup(&folder))), last, "the journal's order is that of effects");
}

#[test]
fn a_journal_with_a_transaction_of_keys_is_written_as_before() {
    // So that an older program reads it: only what it would not understand has a kind of its own.
    let folder = Folder::new();
    let data = folder.path().join("data");
    let engine = open(&data, setup(&folder));
    engine.keyspace().isolated(|| {
        set_text(&engine, b"key", "1");
        set_text(&engine, b"last", "2");
    });
    engine.close().expect("the disk works");
    drop(engine);
    // The kind of the entry, the version of its payload, the kind of the first operation.
    let head = [19, 0, 1, 13, 0];
    let frame =
        files(&data).iter().any(|(_, bytes)| bytes.windows(head.len()).any(|found| found == head));
    assert!(frame, "no entry of kind 19");
    let engine = open(&data, setup(&folder));
    assert!(state(&engine)[0].contains("49"), "{:?}", state(&engine));
}
