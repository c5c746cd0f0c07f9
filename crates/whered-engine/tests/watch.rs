//! Who follows a collection knows it: whatever changes it, by whatever way.

use std::collections::BTreeMap;
use std::sync::Arc;

use whered_engine::geo::{Cell, Place};
use whered_engine::{
    AddCondition, Clock, Engine, EngineOptions, ExpiryCondition, ScoreRules, SetText, TextExpiry,
};
use whered_random::Random;

/// The places of a collection as somebody knows them who reads it once and then follows it.
#[derive(Default)]
struct Follower {
    known: BTreeMap<Vec<u8>, Cell>,
    resyncs: usize,
    changes: usize,
}

/// The members of a collection that has places.
fn read(engine: &Engine, key: &[u8]) -> BTreeMap<Vec<u8>, Cell> {
    engine.keyspace().read(0, key, |value| {
        let points = value.and_then(|value| value.points());
        let entries = points.into_iter().flat_map(|points| points.iter());
        entries.map(|(member, cell)| (member.to_vec(), cell)).collect()
    })
}

impl Follower {
    fn take(&mut self, engine: &Engine, key: &[u8]) {
        for changes in engine.watch().take() {
            assert_eq!(*changes.key, *key);
            match changes.members {
                None => {
                    self.resyncs += 1;
                    self.known = read(engine, key);
                }
                Some(members) => {
                    self.changes += members.len();
                    for (member, cell) in members {
                        match cell {
                            Some(cell) => drop(self.known.insert(member.into(), cell)),
                            None => drop(self.known.remove(&*member)),
                        }
                    }
                }
            }
        }
    }
}

fn engine() -> Arc<Engine> {
    Engine::open(EngineOptions::default()).expect("an engine of nothing").0
}

fn cell(random: &mut Random) -> Cell {
    let (x, y) =
        (random.below(3_600) as f64 / 10.0 - 180.0, random.below(1_700) as f64 / 10.0 - 85.0);
    Cell::from_place(Place::new(x, y).expect("a place"))
}

/// One random change, of any kind.
fn change(engine: &Engine, random: &mut Random) {
    let keyspace = engine.keyspace();
    let names: Vec<String> =
        (0..1 + random.below(4)).map(|_| format!("m{}", random.below(30))).collect();
    let members: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let points: Vec<(&[u8], Cell)> = members.iter().map(|member| (*member, cell(random))).collect();
    let conditions = [AddCondition::Always, AddCondition::OnlyNew, AddCondition::OnlyExisting];
    let condition = conditions[random.below(3) as usize];
    let text = SetText { text: b"t", condition, expiry: TextExpiry::Never, wants_old: false };
    // A key that holds a text refuses members, which is no change.
    match random.below(40) {
        0 => drop(keyspace.delete_keys(0, &[b"k"])),
        1 => drop(keyspace.rename(0, b"k", b"other", false)),
        2 => drop(keyspace.rename(0, b"other", b"k", true)),
        3 => drop(keyspace.copy((0, b"k"), (0, b"other"), true)),
        4 => drop(keyspace.copy((0, b"other"), (0, b"k"), true)),
        5 => drop(keyspace.swap_numbers(0, 1)),
        6 => drop(keyspace.flush(Some(0))),
        7 => drop(keyspace.flush(None)),
        8 => drop(keyspace.set_text(0, b"k", &text)),
        9 => drop(keyspace.move_key(0, b"k", 1)),
        10 => drop(keyspace.move_key(1, b"k", 0)),
        11 => drop(keyspace.set_expiry(0, b"k", 1, ExpiryCondition::default())),
        12 => {
            let scores: Vec<(&[u8], f64)> =
                points.iter().map(|(member, cell)| (*member, cell.bits() as f64)).collect();
            drop(keyspace.store_scores(0, b"k", &scores));
        }
        13 => drop(keyspace.add_scores(0, b"k", &[(b"half", 0.5)], ScoreRules::default())),
        14 => drop(keyspace.pop(0, b"k", 2, random.below(2) == 0)),
        15 => drop(keyspace.remove_ranks(0, b"k", |members| 0..members.len().min(1))),
        16..20 => drop(keyspace.remove_members(0, b"k", &members)),
        20 => drop(keyspace.increment(0, b"k", b"m1", 16.0, ScoreRules::default())),
        21..24 => {
            let scores: Vec<(&[u8], f64)> =
                points.iter().map(|(member, cell)| (*member, cell.bits() as f64)).collect();
            drop(keyspace.add_scores(0, b"k", &scores, ScoreRules::default()));
        }
        24 => {
            keyspace.isolated(|| {
                drop(keyspace.add_points(0, b"k", &points, condition));
                drop(keyspace.remove_members(0, b"k", &members[..1]));
            });
        }
        25 => drop(keyspace.add_points(1, b"k", &points, condition)),
        _ => drop(keyspace.add_points(0, b"k", &points, condition)),
    }
}

#[test]
fn a_follower_knows_the_collection_after_any_changes() {
    let mut resyncs = 0;
    let mut changes = 0;
    for seed in 0..20 {
        let (engine, mut random) = (engine(), Random::new(seed));
        let mut follower = Follower::default();
        for _ in 0..random.below(20) {
            change(&engine, &mut random);
        }
        assert!(engine.watch().follow(b"k"));
        follower.known = read(&engine, b"k");
        for step in 0..400 {
            for _ in 0..random.below(4) {
                change(&engine, &mut random);
            }
            follower.take(&engine, b"k");
            let here = read(&engine, b"k");
            // A set with other scores has no places to show, and only a new key has some again.
            if here.is_empty() {
                follower.known.retain(|_, _| engine.keyspace().kind(0, b"k").is_none());
            }
            assert_eq!(follower.known, here, "seed {seed}, step {step}");
        }
        engine.watch().unfollow(b"k");
        change(&engine, &mut random);
        assert_eq!(engine.watch().take(), []);
        resyncs += follower.resyncs;
        changes += follower.changes;
    }
    assert!(resyncs > 100 && changes > 1_000, "{resyncs} {changes}");
}

#[test]
fn a_key_whose_time_is_over_is_told_when_it_is_swept() {
    let (engine, _) =
        Engine::open(EngineOptions { clock: Clock::default(), ..EngineOptions::default() })
            .expect("an engine of nothing");
    let points: [(&[u8], Cell); 1] = [(b"m", Cell::MIN)];
    engine.keyspace().add_points(0, b"k", &points, AddCondition::Always).expect("it is added");
    assert!(engine.watch().follow(b"k"));
    let until = engine.now_millis() + 20;
    let condition = ExpiryCondition::default();
    engine.keyspace().set_expiry(0, b"k", until as i64, condition).expect("it is set");
    assert_eq!(engine.watch().take(), [], "nothing has moved yet");
    while engine.keyspace().sweep(10).expect("a sweep") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(engine.watch().take()[0].members, None);
}
