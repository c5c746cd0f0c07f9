//! Snapshots from outside: real folders, engines that are opened again, writers beside them.
//!
//! Not for: what happens between two blocks of a snapshot, and crashes there (`durability_tests`
//! draws those at random).

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::Folder;
use whered_engine::geo::{Cell, Place};
use whered_engine::ip::Prefix;
use whered_engine::{
    AddCondition, DATABASE_COUNT, Engine, EngineOptions, ExpiryCondition, HealthOverride,
    OpenReport, PolicyStep, PoolSource, ScoreRules, SetText, Setup, Site, SnapshotOptions,
    TextExpiry,
};

/// After any time that a test runs at.
const FAR_MILLIS: u64 = 4_000_000_000_000;
const SEGMENT_BYTES: u64 = 1 << 18;
/// More than a block of a snapshot holds of either kind.
const LARGE: u64 = 5000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn cell(&mut self) -> Cell {
        let bits = self.below(1 << 26) << 26 | self.below(1 << 26);
        Cell::from_bits(bits).expect("52 bits")
    }
}

fn site(name: &str, longitude: f64, last: u8) -> Site {
    let place = Place::new(longitude, 50.0).expect("a place");
    Site::new(name, Some(place), vec![Ipv4Addr::new(192, 0, 2, last).into()])
}

fn setup() -> Setup {
    let sites = vec![site("fra", 8.7, 10), site("nyc", -74.0, 20), site("tyo", 139.7, 30)];
    let policy = vec![PolicyStep::Healthy];
    let pool = PoolSource { policy, ..PoolSource::new("www", vec![], sites) };
    Setup { pools: vec![pool], ..Setup::default() }
}

fn options(path: &Path) -> EngineOptions {
    let mut options = EngineOptions {
        data_dir: Some(path.to_owned()),
        setup: setup(),
        ..EngineOptions::default()
    };
    options.journal.segment_size_bytes = SEGMENT_BYTES;
    options
}

fn open(path: &Path) -> (Arc<Engine>, OpenReport) {
    Engine::open(options(path)).expect("the engine opens")
}

/// Closes an engine and opens another on the same folder.
fn reopen(engine: Arc<Engine>, path: &Path) -> (Arc<Engine>, OpenReport) {
    engine.close().expect("the disk works");
    drop(engine);
    open(path)
}

/// All that is in an engine, in a form that can be compared; each line begins with what it is
/// about.
fn dump(engine: &Engine) -> BTreeMap<String, Vec<String>> {
    let keyspace = engine.keyspace();
    let mut all = BTreeMap::new();
    for number in 0..DATABASE_COUNT {
        for key in keyspace.keys(number) {
            let expires = keyspace.expires_at_millis(number, &key).flatten();
            let lines = keyspace.inspect(number, &key, |value| {
                let mut lines = vec![format!("{:?}, ends {expires:?}", value.kind())];
                lines.extend(value.text().map(|text| text.escape_ascii().to_string()));
                if let Some(ordered) = value.ordered() {
                    lines.extend(ordered.iter().map(|(member, score)| {
                        format!("{} {:016x}", member.escape_ascii(), score.to_bits())
                    }));
                }
                lines
            });
            let name = format!("key {number} {}", key.escape_ascii());
            all.insert(name, lines.expect("nobody writes"));
        }
    }
    for name in engine.prefix_sets().names() {
        let lines = engine.prefix_sets().read(&name, |set| {
            set.iter(0).map(|member| format!("{member:?}")).collect::<Vec<String>>()
        });
        all.insert(format!("set {name}"), lines.expect("nobody removes sets"));
    }
    let generation = engine.generation();
    let sites = &generation.pools()[0].sites;
    all.insert("sites".to_owned(), sites.iter().map(|site| format!("{site:?}")).collect());
    all
}

/// Compares line by line, since a whole dump says nothing to a reader.
fn assert_same(expected: &BTreeMap<String, Vec<String>>, engine: &Engine, what: &str) {
    let found = dump(engine);
    let names = |dump: &BTreeMap<String, Vec<String>>| dump.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(expected), names(&found), "{what}");
    for (name, lines) in expected {
        let found = &found[name];
        assert_eq!(lines.len(), found.len(), "{what}: lines of {name}");
        for (line, found) in lines.iter().zip(found) {
            assert_eq!(line, found, "{what}: {name}");
        }
    }
}

fn text(text: &[u8], expiry: TextExpiry) -> SetText<'_> {
    SetText { text, condition: AddCondition::Always, expiry, wants_old: false }
}

fn add_points(engine: &Engine, key: &[u8], range: std::ops::Range<u64>, random: &mut Random) {
    let names: Vec<String> = range.map(|n| format!("point-{n}")).collect();
    let points: Vec<(&[u8], Cell)> =
        names.iter().map(|name| (name.as_bytes(), random.cell())).collect();
    let added = engine.keyspace().add_points(0, key, &points, AddCondition::Always);
    engine.wait_durable(added.expect("there is room").ticket).expect("the disk works");
}

fn add_scores(engine: &Engine, key: &[u8], range: std::ops::Range<u64>) {
    let odd = [f64::NEG_INFINITY, -1.5, -0.0, 0.1, 1e-300, 4e15 + 0.5, 1e300, f64::INFINITY];
    let names: Vec<String> = range.map(|n| format!("{n:05}")).collect();
    let score = |n: usize| odd[n % odd.len()] + if n.is_multiple_of(3) { n as f64 } else { 0.0 };
    let rows: Vec<(&[u8], f64)> =
        names.iter().enumerate().map(|(n, name)| (name.as_bytes(), score(n))).collect();
    let added = engine.keyspace().add_scores(0, key, &rows, ScoreRules::default());
    engine.wait_durable(added.expect("there is room").ticket).expect("the disk works");
}

fn prefixes(range: std::ops::Range<u8>) -> Vec<Prefix> {
    range.map(|n| format!("10.{n}.0.0/16").parse().expect("a prefix")).collect()
}

/// One of everything that the doors can change.
fn fill(engine: &Engine, random: &mut Random) {
    let keyspace = engine.keyspace();
    add_points(engine, b"large", 0..LARGE, random);
    add_points(engine, b"small", 0..7, random);
    add_scores(engine, b"scores", 0..LARGE);
    add_scores(engine, b"few scores", 0..9);
    let condition = ExpiryCondition::default();
    for n in 0..300u64 {
        let expiry = if n % 3 == 0 { TextExpiry::At(FAR_MILLIS + n) } else { TextExpiry::Never };
        let key = format!("text {n}");
        let value = vec![n as u8; n as usize];
        keyspace.set_text(n as usize % 5, key.as_bytes(), &text(&value, expiry)).expect("room");
    }
    keyspace.set_expiry(0, b"large", FAR_MILLIS as i64, condition).expect("there is room");
    keyspace.set_expiry(0, b"few scores", FAR_MILLIS as i64 + 1, condition).expect("room");
    let sets = engine.prefix_sets();
    sets.add("plain", &prefixes(0..200), None, None).expect("there is room");
    sets.add("valued", &prefixes(0..50), Some(b"a value"), Some(FAR_MILLIS)).expect("room");
    sets.add("valued", &prefixes(50..90), Some(b""), None).expect("there is room");
    sets.add("emptied", &prefixes(0..1), None, None).expect("there is room");
    sets.remove("emptied", &prefixes(0..1)).expect("there is room");
    sets.add("doomed", &prefixes(0..30), None, None).expect("there is room");
    sets.add("deleted", &prefixes(0..30), None, None).expect("there is room");
    sets.delete(&["deleted"]).expect("there is room");
    engine.put_site("www", site("ber", 13.4, 40)).expect("a new site");
    engine.put_site("www", site("gone", 1.0, 50)).expect("a new site");
    engine.remove_site("www", "gone").expect("a site of ours");
    engine.move_site("www", "fra", Place::new(8.5, 50.5).expect("a place")).expect("a site");
    let last = engine.override_site("www", "nyc", HealthOverride::Down).expect("a site");
    engine.wait_durable(last.ticket).expect("the disk works");
}

/// Changes some of everything.
fn change(engine: &Engine, random: &mut Random) {
    let keyspace = engine.keyspace();
    add_points(engine, b"large", LARGE / 2..LARGE + LARGE / 2, random);
    add_scores(engine, b"scores", LARGE - 100..LARGE + 100);
    keyspace.remove_ranks(0, b"scores", |_| 10..700).expect("there is room");
    keyspace.pop(0, b"large", 33, true).expect("there is room");
    keyspace.rename(0, b"few scores", b"renamed", false).expect("it is there");
    keyspace.copy((0, b"large"), (3, b"copied"), true).expect("there is room");
    keyspace.persist(0, b"large").expect("there is room");
    keyspace.move_key(1, b"text 1", 0).expect("there is room");
    keyspace.swap_numbers(2, 4).expect("there is room");
    keyspace.delete_keys(0, &[b"text 0", b"small"]).expect("there is room");
    engine.prefix_sets().remove("plain", &prefixes(20..60)).expect("there is room");
    assert_eq!(engine.prefix_sets().delete(&["doomed", "none"]).expect("there is room").value, 1);
    engine.remove_site("www", "ber").expect("a site of ours");
    let last = engine.override_site("www", "nyc", HealthOverride::Up).expect("a site");
    engine.wait_durable(last.ticket).expect("the disk works");
}

fn files(path: &Path, prefix: &str, suffix: &str) -> Vec<String> {
    let entries = fs::read_dir(path).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    names.retain(|name| name.starts_with(prefix) && name.ends_with(suffix));
    names.sort();
    names
}

/// The number in a file's name.
fn number_of(name: &str) -> u64 {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("the name has a number")
}

#[test]
fn everything_comes_back_from_a_snapshot_and_what_was_written_after_it() {
    let folder = Folder::new();
    let mut random = Random(1);
    let (engine, _) = open(folder.path());
    fill(&engine, &mut random);
    let made = engine.snapshot().expect("the disk works");
    // 4 sorted sets and 300 texts.
    assert_eq!(made.keys, 304);
    let status = engine.snapshot_status();
    assert_eq!((status.completed, status.last_bytes), (1, made.bytes));
    assert!(status.running.is_none() && status.last_error.is_none() && status.last_millis > 0);

    // The snapshot alone.
    let expected = dump(&engine);
    let (engine, report) = reopen(engine, folder.path());
    assert_same(&expected, &engine, "the snapshot");
    let loaded = report.snapshot.expect("it was loaded");
    assert_eq!(loaded.start_sequence, made.start_sequence);
    assert_eq!(report.recovery.expect("there is a journal").entries, 0);

    // And the journal after it, twice, since replaying must not change what it replays.
    change(&engine, &mut random);
    let expected = dump(&engine);
    let (engine, report) = reopen(engine, folder.path());
    assert_same(&expected, &engine, "snapshot and journal");
    assert!(report.recovery.expect("there is a journal").entries > 0);
    let (engine, _) = reopen(engine, folder.path());
    assert_same(&expected, &engine, "snapshot and journal again");

    // A snapshot of what was loaded.
    engine.snapshot().expect("the disk works");
    let (engine, report) = reopen(engine, folder.path());
    assert_same(&expected, &engine, "the second snapshot");
    assert_eq!(report.recovery.expect("there is a journal").entries, 0);
    drop(engine);
}

#[test]
fn two_snapshots_are_kept_and_the_journal_that_the_older_one_needs() {
    let folder = Folder::new();
    let mut random = Random(2);
    let (engine, _) = open(folder.path());
    let mut starts = Vec::new();
    for round in 0..5 {
        // Some segments each time.
        (0..10).for_each(|_| add_points(&engine, b"points", 0..3000, &mut random));
        let before = files(folder.path(), "journal-", "").len();
        assert!(before > 2, "{before} segments");
        starts.push(engine.snapshot().expect("the disk works").start_sequence);
        let kept: Vec<u64> = starts.iter().rev().take(2).rev().copied().collect();
        let manifests = files(folder.path(), "snapshot-", ".manifest");
        assert_eq!(manifests.iter().map(|name| number_of(name)).collect::<Vec<_>>(), kept);
        assert_eq!(files(folder.path(), "snapshot-", ".data").len(), kept.len());
        let firsts: Vec<u64> = files(folder.path(), "journal-", "")
            .iter()
            .filter(|name| name.chars().any(|c| c.is_ascii_digit()))
            .map(|name| number_of(name))
            .collect();
        // The entry after the older snapshot's start is there; no segment ends before it.
        let needed = if kept.len() == 2 { kept[0] + 1 } else { 1 };
        assert!(firsts[0] <= needed, "round {round}: {firsts:?} for {needed}");
        assert!(firsts.get(1).is_none_or(|first| *first > needed), "{firsts:?} for {needed}");
    }
    let expected = dump(&engine);
    let (engine, _) = reopen(engine, folder.path());
    assert_same(&expected, &engine, "the newest");
    // Without the newest one the older one and its journal give the same.
    engine.close().expect("the disk works");
    drop(engine);
    let newest = files(folder.path(), "snapshot-", ".manifest").pop().expect("two are kept");
    fs::remove_file(folder.path().join(newest)).expect("it can be removed");
    let (engine, report) = open(folder.path());
    assert_eq!(report.snapshot.expect("the older one").start_sequence, starts[3]);
    assert_same(&expected, &engine, "the older one");
}

#[test]
fn a_snapshot_of_nothing_new_leaves_the_last_one_alone() {
    let folder = Folder::new();
    let (engine, _) = open(folder.path());
    add_scores(&engine, b"scores", 0..10);
    let first = engine.snapshot().expect("the disk works");
    let before = files(folder.path(), "", "");
    let second = engine.snapshot().expect("the disk works");
    assert_eq!(before, files(folder.path(), "", ""));
    assert_eq!((first.start_sequence, first.bytes), (second.start_sequence, second.bytes));
    assert_eq!(engine.snapshot_status().last_bytes, first.bytes);
    let (engine, _) = reopen(engine, folder.path());
    engine.snapshot().expect("the disk works");
    assert_eq!(files(folder.path(), "snapshot-", "").len(), 2);
    assert_eq!(engine.snapshot_status().last_bytes, first.bytes);
}

#[test]
fn an_empty_engine_can_be_saved_and_opened() {
    let folder = Folder::new();
    let (engine, _) = open(folder.path());
    engine.snapshot().expect("the disk works");
    let empty = dump(&engine);
    let (engine, _) = reopen(engine, folder.path());
    assert_same(&empty, &engine, "empty");
    add_scores(&engine, b"scores", 0..10);
    engine.keyspace().flush(None).expect("there is room");
    engine.snapshot().expect("the disk works");
    let (engine, _) = reopen(engine, folder.path());
    assert_same(&empty, &engine, "emptied");
}

/// Lets an age be reached.
fn wait(age: Duration) {
    let start = Instant::now();
    while start.elapsed() <= age {
        std::thread::yield_now();
    }
}

#[test]
fn a_snapshot_is_due_by_the_journals_size_and_by_age() {
    let folder = Folder::new();
    let never = SnapshotOptions { journal_size_bytes: 0, interval: Duration::ZERO };
    let opened = |name: &str, snapshots: SnapshotOptions| {
        let options = EngineOptions { snapshots, ..options(&folder.path().join(name)) };
        Engine::open(options).expect("the engine opens").0
    };
    let mut random = Random(3);

    let engine = opened("never", never.clone());
    add_points(&engine, b"points", 0..LARGE, &mut random);
    assert!(!engine.snapshot_due());

    let engine = opened("size", SnapshotOptions { journal_size_bytes: 10_000, ..never.clone() });
    add_points(&engine, b"points", 0..10, &mut random);
    assert!(!engine.snapshot_due());
    add_points(&engine, b"points", 0..LARGE, &mut random);
    assert!(engine.snapshot_due());
    let made = engine.snapshot().expect("the disk works");
    assert!(!engine.snapshot_due());
    // It must grow by as much as the last one is large.
    assert!(made.bytes > 20_000, "{} bytes", made.bytes);
    add_points(&engine, b"points", 0..500, &mut random);
    assert!(!engine.snapshot_due());
    (0..3).for_each(|_| add_points(&engine, b"points", 0..LARGE, &mut random));
    assert!(engine.snapshot_due());

    // What has to be replayed counts: a server that is often started would never make one else.
    (0..9).for_each(|_| add_points(&engine, b"points", 0..LARGE, &mut random));
    engine.close().expect("the disk works");
    drop(engine);
    let engine = opened("size", SnapshotOptions { journal_size_bytes: 10_000, ..never.clone() });
    assert!(engine.snapshot_due());
    engine.snapshot().expect("the disk works");
    assert!(!engine.snapshot_due());

    let interval = Duration::from_millis(1);
    let engine = opened("age", SnapshotOptions { interval, ..never });
    wait(interval);
    assert!(!engine.snapshot_due(), "nothing was written");
    add_scores(&engine, b"scores", 0..10);
    wait(interval);
    assert!(engine.snapshot_due());
    engine.snapshot().expect("the disk works");
    wait(interval);
    assert!(!engine.snapshot_due(), "nothing was written since");

    let in_memory = Engine::open(EngineOptions::default()).expect("the engine opens").0;
    assert!(!in_memory.snapshot_due());
    let error = in_memory.snapshot().expect_err("there is no directory");
    assert!(error.to_string().contains("no data directory"), "{error}");
    let error = in_memory.backup(&folder.path().join("b")).expect_err("there is no directory");
    assert!(error.to_string().contains("no data directory"), "{error}");
    in_memory.request_snapshot().expect_err("there is no directory");
}

#[test]
fn neither_is_made_inside_of_a_transaction() {
    let folder = Folder::new();
    let (engine, _) = open(&folder.path().join("data"));
    add_scores(&engine, b"scores", 0..10);
    let target = folder.path().join("backup");
    let (snapshot, backup) =
        engine.keyspace().isolated(|| (engine.snapshot(), engine.backup(&target))).value;
    let error = snapshot.expect_err("it would wait for ever").to_string();
    assert_eq!(error, "a snapshot cannot be made inside of a transaction");
    let error = backup.expect_err("it would wait for ever").to_string();
    assert_eq!(error, "a backup cannot be made inside of a transaction");
    assert!(!target.exists());
    engine.snapshot().expect("the disk works");
}

/// What one thread does beside snapshots: all kinds of operations on keys that others use too.
fn write_anything(engine: &Engine, seed: u64) {
    let (keyspace, mut random) = (engine.keyspace(), Random(seed));
    let (key, to) = (format!("k{}", random.below(12)), format!("k{}", random.below(12)));
    let (key, to) = (key.as_bytes(), to.as_bytes());
    let (number, other) = (random.below(3) as usize, random.below(3) as usize);
    let member = format!("m{}", random.below(4000));
    // Commands that are refused because a key holds something else are part of the game.
    match random.below(24) {
        0..8 => {
            let names: Vec<String> = (0..40).map(|_| format!("m{}", random.below(4000))).collect();
            let points: Vec<(&[u8], Cell)> =
                names.iter().map(|name| (name.as_bytes(), random.cell())).collect();
            drop(keyspace.add_points(number, key, &points, AddCondition::Always));
        }
        8..11 => {
            let score = random.below(1 << 30) as f64 / 7.0;
            let rows = [(member.as_bytes(), score), (b"another", -score)];
            drop(keyspace.add_scores(number, key, &rows, ScoreRules::default()));
        }
        11 => drop(keyspace.increment(number, key, member.as_bytes(), 1.25, ScoreRules::default())),
        12 => drop(keyspace.remove_members(number, key, &[member.as_bytes()])),
        13 => drop(keyspace.remove_ranks(number, key, |all| 0..all.len().min(30))),
        14 => drop(keyspace.pop(number, key, 5, true)),
        15 => drop(keyspace.rename(number, key, to, false)),
        16 => drop(keyspace.copy((number, key), (other, to), true)),
        17 => drop(keyspace.move_key(number, key, other)),
        18 if random.below(8) == 0 => drop(keyspace.swap_numbers(number, other)),
        18 if random.below(30) == 0 => drop(keyspace.flush(Some(number))),
        18 => {
            let at = FAR_MILLIS as i64 + random.below(99) as i64;
            drop(keyspace.set_expiry(number, key, at, ExpiryCondition::default()));
        }
        19 => {
            let value = format!("text {}", random.below(1000));
            drop(keyspace.set_text(number, key, &text(value.as_bytes(), TextExpiry::Keep)));
        }
        20 => drop(keyspace.isolated(|| {
            drop(keyspace.copy((number, key), (other, to), true));
            drop(keyspace.remove_ranks(other, to, |all| 0..all.len().min(3)));
        })),
        21 => {
            let some = prefixes(0..random.below(200) as u8);
            drop(engine.prefix_sets().add("set", &some, Some(member.as_bytes()), None));
        }
        22 => {
            let first = random.below(200) as u8;
            drop(engine.prefix_sets().remove("set", &prefixes(first..first.saturating_add(20))));
        }
        _ => {
            let place = Place::new(random.below(180) as f64, 1.0).expect("a place");
            match random.below(4) {
                0 => drop(engine.put_site("www", site("extra", 1.0, random.below(99) as u8))),
                1 => drop(engine.remove_site("www", "extra")),
                2 => {
                    let all = [HealthOverride::Auto, HealthOverride::Down, HealthOverride::Up];
                    drop(engine.override_site("www", "nyc", all[random.below(3) as usize]));
                }
                _ => drop(engine.move_site("www", "tyo", place)),
            }
        }
    }
}

#[test]
fn what_writers_do_during_snapshots_comes_back_as_memory_has_it() {
    let folder = Folder::new();
    let (mut engine, _) = open(folder.path());
    for round in 0..4u64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let mut seeds = Random(1000 * round + thread);
                    while !stop.load(Ordering::Relaxed) {
                        write_anything(engine, seeds.below(1 << 31));
                    }
                });
            }
            for _ in 0..8 {
                engine.snapshot().expect("the disk works");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let expected = dump(&engine);
        engine = reopen(engine, folder.path()).0;
        assert_same(&expected, &engine, &format!("round {round}"));
    }
}

#[test]
fn a_backup_has_what_was_acknowledged_before_it_was_asked_for() {
    let folder = Folder::new();
    let (engine, _) = open(&folder.path().join("data"));
    fill(&engine, &mut Random(4));
    let (stop, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let key = format!("writer {writer}");
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let name = number.to_string();
                    let rows = [(name.as_bytes(), number as f64)];
                    let rules = ScoreRules::default();
                    let added = engine.keyspace().add_scores(0, key.as_bytes(), &rows, rules);
                    engine.wait_durable(added.expect("room").ticket).expect("the disk works");
                    acknowledged.store(number, Ordering::Release);
                }
            });
        }
        for round in 0..6 {
            if round % 3 == 1 {
                engine.snapshot().expect("the disk works");
            }
            let before: Vec<u64> =
                acknowledged.iter().map(|number| number.load(Ordering::Acquire)).collect();
            let target = folder.path().join(format!("backup{round}"));
            engine.backup(&target).expect("the disk works");
            let (copy, report) = open(&target);
            assert_eq!(report.snapshot.is_some(), round > 0);
            for (writer, before) in before.into_iter().enumerate() {
                let key = format!("writer {writer}");
                let found = copy.keyspace().inspect(0, key.as_bytes(), |value| {
                    let members = value.ordered().expect("a sorted set");
                    let scores: Vec<f64> = members.iter().map(|(_, score)| score).collect();
                    // Without a gap, as the writer made it.
                    let wanted: Vec<f64> = (1..=scores.len()).map(|n| n as f64).collect();
                    assert_eq!(scores, wanted);
                    scores.len() as u64
                });
                let found = found.unwrap_or(0);
                assert!(found >= before, "round {round}: {found} of {before}");
            }
            // The copy is a directory of its own.
            let changed = copy.keyspace().delete_keys(0, &[b"large", b"scores"]);
            assert_eq!(changed.expect("there is room").value, 2);
            copy.snapshot().expect("the disk works");
            copy.close().expect("the disk works");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let expected = dump(&engine);
    assert!(expected.contains_key("key 0 large"));
    let (engine, _) = reopen(engine, &folder.path().join("data"));
    assert_same(&expected, &engine, "the source");
    // Nothing that is in the way is touched.
    let error = engine.backup(&folder.path().join("backup0")).expect_err("it is not empty");
    assert!(error.to_string().contains("not empty"), "{error}");
}

#[test]
fn the_account_after_a_start_is_what_it_was_before() {
    let folder = Folder::new();
    let (engine, _) = open(folder.path());
    fill(&engine, &mut Random(5));
    engine.snapshot().expect("the disk works");
    change(&engine, &mut Random(6));
    // As the background does, and a start.
    engine.prefix_sets().compact_all();
    let before = engine.memory();
    let (engine, _) = reopen(engine, folder.path());
    let after = engine.memory();
    assert!(before.keys_bytes > LARGE * 30, "{before:?}");
    assert!(before.prefix_sets_bytes > 0, "{before:?}");
    // Tables and leaves that grew one change at a time are fuller or emptier than those made at
    // once.
    let near = |before: u64, after: u64| after.abs_diff(before) * 5 <= before;
    assert!(near(before.keys_bytes, after.keys_bytes), "{before:?} {after:?}");
    assert!(near(before.prefix_sets_bytes, after.prefix_sets_bytes), "{before:?} {after:?}");
    // What is deleted is taken off, to the last byte.
    engine.keyspace().flush(None).expect("there is room");
    let empty = Engine::open(EngineOptions::default()).expect("the engine opens").0;
    assert_eq!(engine.memory().keys_bytes, empty.memory().keys_bytes);
}
