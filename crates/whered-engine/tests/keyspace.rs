//! The keyspace against a plain map of maps, over random operations and restarts.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::{Folder, open};
use whered_engine::geo::Cell;
use whered_engine::{AddCondition, Engine, Increment, ScoreRules, Setup, Value};
use whered_random::Random;

type Twin = BTreeMap<(usize, Vec<u8>), BTreeMap<Vec<u8>, u64>>;

fn cell(bits: u64) -> Cell {
    Cell::from_bits(bits).expect("below 52 bits")
}

/// One random operation on both sides, its answers compared.
fn step(random: &mut Random, engine: &Engine, twin: &mut Twin) {
    let keyspace = engine.keyspace();
    let number = random.below(3) as usize;
    let key = format!("key{}", random.below(4)).into_bytes();
    let members: Vec<Vec<u8>> =
        (0..=random.below(4)).map(|_| format!("m{}", random.below(12)).into_bytes()).collect();
    let borrowed: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
    match random.below(20) {
        0..=10 => {
            let condition = match random.below(3) {
                0 => AddCondition::OnlyNew,
                1 => AddCondition::OnlyExisting,
                _ => AddCondition::Always,
            };
            let points: Vec<(&[u8], Cell)> =
                borrowed.iter().map(|member| (*member, cell(random.below(1 << 20)))).collect();
            let answer = keyspace.add_points(number, &key, &points, condition).expect("room").value;
            let mut expected = (0, 0);
            let mut entry = twin.remove(&(number, key.clone())).unwrap_or_default();
            for (member, cell) in points {
                let before = entry.get(member).copied();
                let refused = match condition {
                    AddCondition::OnlyNew => before.is_some(),
                    AddCondition::OnlyExisting => before.is_none(),
                    AddCondition::Always => false,
                };
                if !refused {
                    entry.insert(member.to_vec(), cell.bits());
                    expected.0 += usize::from(before.is_none());
                    expected.1 += usize::from(before.is_some_and(|before| before != cell.bits()));
                }
            }
            if !entry.is_empty() {
                twin.insert((number, key), entry);
            }
            assert_eq!((answer.added, answer.moved), expected);
        }
        11..=16 => {
            let answer = keyspace.remove_members(number, &key, &borrowed).expect("room").value;
            let mut expected = 0;
            if let Some(entry) = twin.get_mut(&(number, key.clone())) {
                expected = members.iter().filter(|member| entry.remove(*member).is_some()).count();
                if entry.is_empty() {
                    twin.remove(&(number, key));
                }
            }
            assert_eq!(answer, expected);
        }
        17 | 18 => {
            let answer = keyspace.delete_keys(number, &[&key, b"nothing"]).expect("room").value;
            assert_eq!(answer, usize::from(twin.remove(&(number, key)).is_some()));
        }
        _ => {
            let all = random.below(4) == 0;
            keyspace.flush((!all).then_some(number)).expect("room");
            twin.retain(|(other, _), _| !all && *other != number);
        }
    }
}

fn assert_equal(engine: &Engine, twin: &Twin) {
    let keyspace = engine.keyspace();
    for number in 0..3 {
        let expected: BTreeSet<Vec<u8>> =
            twin.keys().filter(|(n, _)| *n == number).map(|(_, key)| key.clone()).collect();
        assert_eq!(keyspace.len(number), expected.len());
        assert_eq!(keyspace.keys(number).into_iter().collect::<BTreeSet<_>>(), expected);
        let mut scanned = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let (next, keys) = keyspace.scan(number, cursor, 1);
            for (key, _) in keys {
                assert!(scanned.insert(key), "a key is given once");
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(scanned, expected);
    }
    for ((number, key), members) in twin {
        keyspace.read(*number, key, |value| {
            let points = value.and_then(Value::points).expect("the key exists");
            let found: BTreeMap<Vec<u8>, u64> =
                points.iter().map(|(member, cell)| (member.to_vec(), cell.bits())).collect();
            assert_eq!(&found, members);
        });
    }
}

#[test]
fn random_operations_answer_like_a_map_of_maps_and_survive_restarts() {
    for seed in [1, 2, 3] {
        let folder = Folder::new();
        let mut random = Random(seed);
        let mut twin = Twin::new();
        for _ in 0..4 {
            let engine = open(folder.path(), Setup::default());
            assert_equal(&engine, &twin);
            for _ in 0..300 {
                step(&mut random, &engine, &mut twin);
            }
            assert_equal(&engine, &twin);
            engine.close().expect("the journal closes");
        }
    }
}

#[test]
fn members_of_any_form_come_back_from_an_entry_each() {
    let folder = Folder::new();
    let engine = open(folder.path(), Setup::default());
    let mut twin = Twin::new();
    // More than are kept as a list while the journal is read; each is moved once.
    for round in 0..2 {
        for number in 0..1500u64 {
            let member = match number % 4 {
                0 => format!("m{number}"),
                1 => format!("0{number}"),
                _ => number.to_string(),
            };
            let cell = cell(number * 1000 + round);
            let points = [(member.as_bytes(), cell)];
            engine.keyspace().add_points(0, b"key", &points, AddCondition::Always).expect("room");
            let entry = twin.entry((0, b"key".to_vec())).or_default();
            entry.insert(member.into_bytes(), cell.bits());
        }
    }
    engine.close().expect("the journal closes");
    drop(engine);
    assert_equal(&open(folder.path(), Setup::default()), &twin);
}

#[test]
fn an_addition_that_adds_nothing_makes_no_key_and_is_not_kept() {
    let folder = Folder::new();
    let engine = open(folder.path(), Setup::default());
    let nothing = engine.keyspace().add_points(0, b"key", &[], AddCondition::Always);
    assert_eq!(nothing.expect("room").value, whered_engine::Added::default());
    assert!(!engine.keyspace().exists(0, b"key"));
    engine.close().expect("the journal closes");
    assert_eq!(engine.journal_stats().map(|stats| stats.frames), Some(0));
    drop(engine);
    assert!(!open(folder.path(), Setup::default()).keyspace().exists(0, b"key"));
}

#[test]
fn writes_return_what_they_changed() {
    let folder = Folder::new();
    let engine = open(folder.path(), Setup::default());
    let (keyspace, rules) = (engine.keyspace(), ScoreRules::default());
    let increment = |by| keyspace.increment(0, b"key", b"m", by, rules).expect("room").value;
    assert_eq!(increment(0.0), Increment::Score(0.0), "the member is new");
    assert_eq!(increment(0.0), Increment::Unchanged(0.0));
    assert_eq!(increment(1.5), Increment::Score(1.5));
    let store = |scores: &[(&[u8], f64)]| keyspace.store_scores(0, b"other", scores);
    assert!(!store(&[]).expect("room").value, "there is nothing to remove");
    assert!(store(&[(b"m", 1.5)]).expect("room").value);
    assert!(store(&[(b"m", 1.5)]).expect("room").value, "a stored result replaces an equal one");
    let mut removed = Vec::new();
    let names: [&[u8]; 4] = [b"nothing", b"other", b"key", b"other"];
    let count = keyspace.delete_each_key(0, &names, |key| removed.push(key)).expect("room").value;
    assert_eq!((count, removed), (2, vec![&b"other"[..], b"key"]));
    assert!(!store(&[]).expect("room").value);
}

#[test]
fn a_data_directory_is_held_by_one_engine_at_a_time() {
    let folder = Folder::new();
    let first = open(folder.path(), Setup::default());
    let options = whered_engine::EngineOptions {
        data_dir: Some(folder.path().to_owned()),
        ..whered_engine::EngineOptions::default()
    };
    let Err(error) = Engine::open(options) else { panic!("the second engine opened") };
    assert_eq!(error.holder_pid(), Some(std::process::id()));
    drop(first);
}
