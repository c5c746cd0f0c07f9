//! Sorted sets, texts, expiry times, names and transactions against a plain map, over random
//! operations, restarts and a clock that is turned by hand.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::Folder;
use whered_engine::{
    AddCondition, Aggregate, Clock, Combination, CombineOperation, Engine, EngineOptions,
    ExpiryCondition, Increment, Keyspace, Kind, Renamed, ScoreRules, SetText, TextChange,
    TextExpiry, TextForm, Value, WriteError,
};
use whered_random::Random;

#[derive(Clone, PartialEq, Debug)]
enum Held {
    Scores(BTreeMap<Vec<u8>, f64>),
    Text(Vec<u8>),
}

/// What a key holds and when it ends.
type Twin = BTreeMap<(usize, Vec<u8>), (Held, Option<u64>)>;

/// An engine whose keys take the time from `now`.
fn open(folder: &Folder, now: &Arc<AtomicU64>) -> Arc<Engine> {
    let now = Arc::clone(now);
    let options = EngineOptions {
        data_dir: Some(folder.path().to_owned()),
        clock: Clock::from_fn(move || now.load(Ordering::Relaxed)),
        ..EngineOptions::default()
    };
    Engine::open(options).expect("the engine opens").0
}

/// What the keyspace holds, as the twin keeps it.
fn held(keyspace: &Keyspace) -> Twin {
    let mut all = Twin::new();
    for number in 0..3 {
        for key in keyspace.keys(number) {
            let value = keyspace.inspect(number, &key, |value| match value.kind() {
                Kind::Text => Held::Text(value.text().expect("a text").to_vec()),
                Kind::SortedSet => {
                    let members = value.ordered().expect("a sorted set").iter();
                    Held::Scores(members.map(|(m, score)| (m.to_vec(), score)).collect())
                }
            });
            let ends = keyspace.expires_at_millis(number, &key).expect("the key exists");
            all.insert((number, key), (value.expect("the key exists"), ends));
        }
    }
    all
}

fn drop_over(twin: &mut Twin, now: u64) {
    twin.retain(|_, (_, ends)| ends.is_none_or(|at| now <= at));
}

/// Adds scores to the twin's key and says how many were new; `None` for a text.
fn add(twin: &mut Twin, at: &(usize, Vec<u8>), scores: &[(&[u8], f64)]) -> Option<usize> {
    let (held, _) = twin.entry(at.clone()).or_insert_with(|| (Held::Scores(BTreeMap::new()), None));
    let Held::Scores(members) = held else {
        return None;
    };
    Some(scores.iter().filter(|(m, score)| members.insert(m.to_vec(), *score).is_none()).count())
}

fn sorted(members: &BTreeMap<Vec<u8>, f64>) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = members.iter().collect();
    all.sort_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
    all.into_iter().map(|(member, _)| member.clone()).collect()
}

/// One random operation on both sides, its answers compared.
fn step(random: &mut Random, keyspace: &Keyspace, twin: &mut Twin, now: u64) {
    drop_over(twin, now);
    let at = (random.below(3) as usize, format!("key{}", random.below(5)).into_bytes());
    match random.below(29) {
        24 | 25 => change_text(random, keyspace, twin, &at, now),
        26 => set_several(random, keyspace, twin, at.0),
        27 | 28 => combine(random, keyspace, twin, &at),
        0..=10 => change_members(random, keyspace, twin, &at),
        11..=13 => set(random, keyspace, twin, &at, now),
        14..=17 => expire(random, keyspace, twin, &at, now),
        18..=21 => transfer(random, keyspace, twin, &at),
        22 => {
            let answer = keyspace.delete_keys(at.0, &[&at.1]).expect("room").value;
            assert_eq!(answer, usize::from(twin.remove(&at).is_some()));
        }
        _ => {
            let scores: Vec<(&[u8], f64)> = vec![(b"a", 0.25), (b"b", 7.0)];
            keyspace.store_scores(at.0, &at.1, &scores).expect("room");
            twin.remove(&at);
            add(twin, &at, &scores);
        }
    }
}

/// Changes a string by what it was.
fn change_text(
    random: &mut Random,
    keyspace: &Keyspace,
    twin: &mut Twin,
    at: &(usize, Vec<u8>),
    now: u64,
) {
    let ends = now + random.below(60);
    let more = vec![b'x'; random.below(200) as usize];
    let kind = random.below(5);
    let answer = keyspace.change_text(at.0, &at.1, |text, _| {
        let old = text.map(<[u8]>::to_vec);
        let appended = [text.unwrap_or_default(), &more].concat();
        let change = match kind {
            0 | 1 => {
                TextChange::Put { text: appended, expiry: TextExpiry::Keep, form: TextForm::Raw }
            }
            2 => TextChange::Expire(TextExpiry::At(ends)),
            3 => TextChange::Expire(TextExpiry::Never),
            _ => TextChange::Remove,
        };
        (old, change)
    });
    let old = match twin.get(at) {
        Some((Held::Text(text), ends)) => Some((text.clone(), *ends)),
        Some(_) => return assert!(matches!(answer, Err(WriteError::WrongKind))),
        None => None,
    };
    let answer = answer.expect("room").value;
    assert_eq!(answer, old.as_ref().map(|(text, _)| text.clone()));
    let (text, old_ends) = old.clone().unwrap_or_default();
    match kind {
        0 | 1 => drop(twin.insert(at.clone(), (Held::Text([text, more].concat()), old_ends))),
        2 if old.is_some() && ends > now => {
            twin.insert(at.clone(), (Held::Text(text), Some(ends)));
        }
        3 if old.is_some() => drop(twin.insert(at.clone(), (Held::Text(text), None))),
        _ => drop(twin.remove(at)),
    }
    // A time that is over removes the key, kept or not.
    if twin.get(at).is_some_and(|(_, ends)| *ends == Some(now)) && kind < 2 {
        twin.remove(at);
    }
}

/// Sets several strings, all or none.
fn set_several(random: &mut Random, keyspace: &Keyspace, twin: &mut Twin, number: usize) {
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..=random.below(3))
        .map(|_| (format!("key{}", random.below(9)).into_bytes(), vec![b'v'; 3]))
        .collect();
    let given: Vec<(&[u8], &[u8])> =
        pairs.iter().map(|(key, text)| (&key[..], &text[..])).collect();
    let only_new = random.below(2) == 0;
    let done = keyspace.set_strings(number, &given, only_new).expect("room").value;
    let exists = pairs.iter().any(|(key, _)| twin.contains_key(&(number, key.clone())));
    assert_eq!(done, !only_new || !exists);
    if done {
        let held = pairs.into_iter().map(|(key, text)| ((number, key), (Held::Text(text), None)));
        twin.extend(held);
    }
}

/// Stores a union, an intersection or a difference.
fn combine(random: &mut Random, keyspace: &Keyspace, twin: &mut Twin, at: &(usize, Vec<u8>)) {
    let keys: Vec<Vec<u8>> =
        (0..=random.below(3)).map(|_| format!("key{}", random.below(5)).into_bytes()).collect();
    let operation = match random.below(3) {
        0 => CombineOperation::Union,
        1 => CombineOperation::Intersection,
        _ => CombineOperation::Difference,
    };
    let combination = Combination {
        operation,
        keys: keys.iter().map(Vec::as_slice).collect(),
        weights: Vec::new(),
        aggregate: Aggregate::Highest,
    };
    let answer = keyspace.store_combination(at.0, &at.1, &combination);
    let mut sources: Vec<BTreeMap<Vec<u8>, f64>> = Vec::new();
    for key in &keys {
        match twin.get(&(at.0, key.clone())) {
            Some((Held::Text(_), _)) => {
                return assert!(matches!(answer, Err(WriteError::WrongKind)));
            }
            Some((Held::Scores(scores), _)) => sources.push(scores.clone()),
            None => sources.push(BTreeMap::new()),
        }
    }
    let mut result: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for (member, score) in sources.iter().flatten() {
        let count = sources.iter().filter(|source| source.contains_key(member)).count();
        let is_in = match operation {
            CombineOperation::Union => true,
            CombineOperation::Intersection => count == sources.len(),
            CombineOperation::Difference => count == 1 && sources[0].contains_key(member),
        };
        if is_in {
            let highest = result.entry(member.clone()).or_insert(*score);
            *highest = highest.max(*score);
        }
    }
    let existed = twin.contains_key(at);
    let expected = (result.len(), existed || !result.is_empty());
    assert_eq!(answer.expect("room").value, expected);
    twin.remove(at);
    if !result.is_empty() {
        twin.insert(at.clone(), (Held::Scores(result), None));
    }
}

fn change_members(
    random: &mut Random,
    keyspace: &Keyspace,
    twin: &mut Twin,
    at: &(usize, Vec<u8>),
) {
    let members: Vec<Vec<u8>> =
        (0..=random.below(3)).map(|_| format!("m{}", random.below(9)).into_bytes()).collect();
    let kind = random.below(11);
    if kind < 8 {
        let scores: Vec<(&[u8], f64)> =
            members.iter().map(|m| (&m[..], random.below(90) as f64 / 2.0)).collect();
        let answer = keyspace.add_scores(at.0, &at.1, &scores, ScoreRules::default());
        match add(twin, at, &scores) {
            Some(new) => assert_eq!(answer.expect("room").value.added, new),
            None => assert!(matches!(answer, Err(WriteError::WrongKind))),
        }
        return;
    }
    let answer = if kind == 10 {
        let popped = keyspace.pop(at.0, &at.1, 2, true);
        popped.map(|written| written.value.into_iter().map(|(member, _)| member).collect())
    } else {
        let names: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
        let removed = keyspace.remove_members(at.0, &at.1, &names);
        removed.map(|written| vec![Vec::new(); written.value])
    };
    let Some((Held::Scores(held), _)) = twin.get_mut(at) else {
        assert_eq!(answer.is_err(), twin.contains_key(at));
        assert!(answer.is_err() || answer.is_ok_and(|gone: Vec<Vec<u8>>| gone.is_empty()));
        return;
    };
    let answer = answer.expect("room");
    if kind == 10 {
        let gone: Vec<_> = sorted(held).into_iter().rev().take(2).collect();
        assert_eq!(answer, gone);
        held.retain(|member, _| !gone.contains(member));
    } else {
        let gone = members.iter().filter(|member| held.remove(*member).is_some()).count();
        assert_eq!(answer.len(), gone);
    }
    if held.is_empty() {
        twin.remove(at);
    }
}

fn transfer(random: &mut Random, keyspace: &Keyspace, twin: &mut Twin, at: &(usize, Vec<u8>)) {
    let (number, key) = (at.0, &at.1);
    let other = (random.below(3) as usize, format!("key{}", random.below(5)).into_bytes());
    match random.below(4) {
        0 => {
            let answer = keyspace.rename(number, key, &other.1, false).expect("room").value;
            let known = twin.contains_key(at);
            assert_eq!(answer, if known { Renamed::Done } else { Renamed::NoSuchKey });
            if let Some(held) = twin.remove(at) {
                twin.insert((number, other.1), held);
            }
        }
        1 => {
            let answer = keyspace.copy((number, key), (other.0, &other.1), true).expect("room");
            let held = twin.get(at).cloned();
            assert_eq!(answer.value, held.is_some());
            held.map(|held| twin.insert(other, held));
        }
        2 => {
            let answer = keyspace.move_key(number, key, other.0).expect("room").value;
            let to = (other.0, key.clone());
            let moves = twin.contains_key(at) && !twin.contains_key(&to);
            assert_eq!(answer, moves);
            if moves && let Some(held) = twin.remove(at) {
                twin.insert(to, held);
            }
        }
        _ => {
            keyspace.swap_numbers(number, other.0).expect("room");
            let swapped = |n: usize| match n {
                n if n == number => other.0,
                n if n == other.0 => number,
                n => n,
            };
            let all = std::mem::take(twin).into_iter();
            *twin = all.map(|((n, key), held)| ((swapped(n), key), held)).collect();
        }
    }
}

fn set(random: &mut Random, keyspace: &Keyspace, twin: &mut Twin, at: &(usize, Vec<u8>), now: u64) {
    let text = random.below(1000).to_string().into_bytes();
    let expiry = match random.below(3) {
        0 => TextExpiry::Keep,
        1 => TextExpiry::At(now + random.below(60)),
        _ => TextExpiry::Never,
    };
    let condition = match random.below(3) {
        0 => AddCondition::OnlyNew,
        1 => AddCondition::OnlyExisting,
        _ => AddCondition::Always,
    };
    let set = SetText { text: &text, condition, expiry, wants_old: false };
    let answer = keyspace.set_text(at.0, &at.1, &set).expect("room").value;
    let known = twin.contains_key(at);
    let done = match condition {
        AddCondition::OnlyNew => !known,
        AddCondition::OnlyExisting => known,
        AddCondition::Always => true,
    };
    assert_eq!(answer.done, done);
    if !done {
        return;
    }
    let ends = match expiry {
        TextExpiry::Keep => twin.get(at).and_then(|(_, ends)| *ends),
        TextExpiry::At(ends) => Some(ends),
        TextExpiry::Never => None,
    };
    twin.insert(at.clone(), (Held::Text(text), ends));
    // A time that is over removes the key, kept or not.
    if ends == Some(now) {
        twin.remove(at);
    }
}

fn expire(
    random: &mut Random,
    keyspace: &Keyspace,
    twin: &mut Twin,
    at: &(usize, Vec<u8>),
    now: u64,
) {
    if random.below(5) == 0 {
        let answer = keyspace.persist(at.0, &at.1).expect("room").value;
        let ends = twin.get_mut(at).map(|(_, ends)| ends);
        assert_eq!(answer, ends.is_some_and(|ends| ends.take().is_some()));
        return;
    }
    let ends = now as i64 + random.below(80) as i64 - 5;
    let only_later = random.below(3) == 0;
    let condition = ExpiryCondition { only_later, ..ExpiryCondition::default() };
    let answer = keyspace.set_expiry(at.0, &at.1, ends, condition).expect("room").value;
    let old = twin.get(at).map(|(_, ends)| *ends);
    let allowed = match old {
        None => false,
        Some(old) => !only_later || old.is_some_and(|old| ends > old as i64),
    };
    assert_eq!(answer, allowed);
    if allowed && ends <= now as i64 {
        twin.remove(at);
    } else if allowed && let Some((_, slot)) = twin.get_mut(at) {
        *slot = Some(ends as u64);
    }
}

#[test]
fn several_keys_are_read_as_they_are_at_one_moment() {
    let folder = Folder::new();
    let engine = open(&folder, &Arc::new(AtomicU64::new(1)));
    let keyspace = engine.keyspace();
    keyspace.set_strings(0, &[(b"a", b"0"), (b"b", b"0")], false).expect("room");
    std::thread::scope(|scope| {
        let writers = [1_u32, 2].map(|writer| {
            scope.spawn(move || {
                for n in 0..2000 {
                    let text = format!("{writer}-{n}").into_bytes();
                    keyspace.set_strings(0, &[(b"a", &text), (b"b", &text)], false).expect("room");
                }
            })
        });
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let texts = keyspace.read_all(0, &[b"b", b"a", b"b", b"none"], |values| {
                values.iter().map(|it| it.and_then(Value::text).map(<[u8]>::to_vec)).collect()
            });
            let texts: Vec<Option<Vec<u8>>> = texts;
            assert!(texts[0] == texts[1] && texts[1] == texts[2], "{texts:?}");
            assert_eq!(texts[3], None);
        }
    });
    // Readers of two keys in either order, and writers of both, get along.
    let rules = ScoreRules::default();
    std::thread::scope(|scope| {
        for keys in [[&b"x"[..], b"y"], [b"y", b"x"]] {
            scope.spawn(move || {
                for _ in 0..3000 {
                    keyspace.read_sorted_sets(0, &keys, |sets| sets.len()).expect("sorted sets");
                }
            });
        }
        for key in [&b"x"[..], b"y"] {
            scope.spawn(move || {
                for n in 0..3000 {
                    let score = f64::from(n);
                    keyspace.add_scores(0, key, &[(b"m", score)], rules).expect("room");
                    if n % 7 == 0 {
                        keyspace.remove_members(0, key, &[b"m"]).expect("room");
                    }
                }
            });
        }
    });
}

#[test]
fn random_operations_answer_like_a_map_and_survive_restarts_and_time() {
    for seed in 1..=6 {
        let folder = Folder::new();
        let now = Arc::new(AtomicU64::new(1_000_000));
        let mut random = Random(seed);
        let mut twin = Twin::new();
        for _ in 0..5 {
            let engine = open(&folder, &now);
            let keyspace = engine.keyspace();
            drop_over(&mut twin, now.load(Ordering::Relaxed));
            assert_eq!(held(keyspace), twin, "seed {seed}, after a restart");
            for _ in 0..300 {
                let time = now.fetch_add(random.below(4), Ordering::Relaxed);
                let time = time.max(now.load(Ordering::Relaxed));
                if random.below(8) == 0 {
                    // A transaction is a few operations in one entry of the journal.
                    keyspace.isolated(|| {
                        for _ in 0..4 {
                            step(&mut random, keyspace, &mut twin, time);
                        }
                    });
                } else {
                    step(&mut random, keyspace, &mut twin, time);
                }
                if random.below(10) == 0 {
                    keyspace.sweep(3).expect("room");
                }
            }
            drop_over(&mut twin, now.load(Ordering::Relaxed));
            assert_eq!(held(keyspace), twin, "seed {seed}");
            engine.close().expect("the journal closes");
            // Keys end while nobody runs, too.
            now.fetch_add(20, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_key_whose_time_is_over_is_invisible_at_once_and_swept_in_steps() {
    let folder = Folder::new();
    let now = Arc::new(AtomicU64::new(5_000));
    let engine = open(&folder, &now);
    let keyspace = engine.keyspace();
    let always = ExpiryCondition::default();
    for number in 0..10_u8 {
        keyspace.add_scores(0, &[number], &[(b"m", 1.0)], ScoreRules::default()).expect("room");
        assert!(keyspace.set_expiry(0, &[number], 6_000, always).expect("room").value);
    }
    now.store(6_000, Ordering::Relaxed);
    assert!(keyspace.exists(0, &[0]), "in its last millisecond it is still there");
    now.store(6_001, Ordering::Relaxed);
    assert!(!keyspace.exists(0, &[0]));
    assert!(keyspace.keys(0).is_empty() && keyspace.scan(0, 0, 100).1.is_empty());
    assert_eq!(keyspace.random_key(0, 7), None);
    assert!(keyspace.read(0, &[0], |value| value.is_none()));
    assert_eq!(keyspace.delete_keys(0, &[&[9]]).expect("room").value, 0);
    assert_eq!((keyspace.len(0), keyspace.expiring_len(0)), (9, 9), "memory is not freed yet");
    // What is written to it is a new key, also after a restart.
    keyspace.add_scores(0, &[1], &[(b"new", 2.0)], ScoreRules::default()).expect("room");
    assert_eq!(keyspace.expires_at_millis(0, &[1]), Some(None));
    assert_eq!(keyspace.sweep(5), Ok(5));
    assert_eq!(keyspace.sweep(5), Ok(3));
    assert_eq!(keyspace.sweep(5), Ok(0));
    assert_eq!(keyspace.len(0), 1);
    engine.close().expect("the journal closes");
    drop(engine);
    let engine = open(&folder, &now);
    let found = engine.keyspace().read(0, &[1], |value| {
        value.and_then(Value::ordered).map(|members| (members.len(), members.score(b"new")))
    });
    assert_eq!(found, Some((1, Some(2.0))));
    assert_eq!(engine.keyspace().len(0), 1);
}

#[test]
fn a_transaction_is_one_entry_and_nobody_comes_between() {
    let folder = Folder::new();
    let now = Arc::new(AtomicU64::new(1));
    let engine = open(&folder, &now);
    let keyspace = engine.keyspace();
    let rules = ScoreRules::default();
    let transfers = 2_000;
    keyspace.add_scores(0, b"a", &[(b"m", 0.0)], rules).expect("room");
    keyspace.add_scores(1, b"b", &[(b"m", 0.0)], rules).expect("room");
    let score = |number, key: &[u8]| {
        keyspace.read(number, key, |value| value?.ordered()?.score(b"m")).expect("it is there")
    };
    std::thread::scope(|scope| {
        for by in [1.0, -3.0] {
            scope.spawn(move || {
                for _ in 0..transfers {
                    keyspace.isolated(|| {
                        let first = keyspace.increment(0, b"a", b"m", by, rules).expect("room");
                        let second = keyspace.increment(1, b"b", b"m", -by, rules).expect("room");
                        let (Increment::Score(a), Increment::Score(b)) =
                            (first.value, second.value)
                        else {
                            panic!("the numbers are finite");
                        };
                        assert_eq!(a + b, 0.0);
                    });
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..transfers {
                let sum = keyspace.isolated(|| score(0, b"a") + score(1, b"b"));
                assert_eq!(sum.value, 0.0, "half of a transaction was seen");
            }
        });
        scope.spawn(|| {
            for number in 0..transfers {
                let key = format!("other{number}").into_bytes();
                keyspace.add_scores(2, &key, &[(b"m", 0.5)], rules).expect("room");
            }
        });
    });
    let ticket = keyspace.isolated(|| drop(keyspace.delete_keys(2, &[b"nothing"]))).ticket;
    engine.wait_durable(ticket).expect("it is durable");
    let frames = engine.journal_stats().expect("there is a journal").frames;
    assert_eq!(frames, 2 + 3 * transfers as u64, "each transaction of two writes is one entry");
    engine.close().expect("the journal closes");
    drop(engine);
    let engine = open(&folder, &now);
    let keyspace = engine.keyspace();
    let score = |number, key: &[u8]| keyspace.read(number, key, |v| v?.ordered()?.score(b"m"));
    assert_eq!((score(0, b"a"), score(1, b"b")), (Some(-4_000.0), Some(4_000.0)));
    assert_eq!(keyspace.len(2), transfers);
}

#[test]
fn a_long_read_keeps_neither_other_keys_nor_the_removal_of_its_own_waiting() {
    let (engine, _) = Engine::open(EngineOptions::default()).expect("memory only");
    let keyspace = engine.keyspace();
    let rules = ScoreRules::default();
    keyspace.add_scores(0, b"read", &[(b"m", 1.0)], rules).expect("room");
    let writer = keyspace.read(0, b"read", |value| {
        let members = value.and_then(Value::ordered).expect("it is there");
        std::thread::scope(|scope| {
            // All of this ends while the read goes on, or the test would hang here.
            let done = scope.spawn(|| {
                keyspace.add_scores(0, b"new", &[(b"m", 1.0)], rules).expect("room");
                keyspace.rename(0, b"read", b"renamed", false).expect("room");
                keyspace.delete_keys(0, &[b"renamed"]).expect("room");
                keyspace.add_scores(0, b"read", &[(b"other", 2.0)], rules).expect("room");
                keyspace.len(0)
            });
            assert_eq!(done.join().expect("no panic"), 2);
        });
        members.score(b"m")
    });
    assert_eq!(writer, Some(1.0), "what is read stays as it was");
    let now = keyspace.read(0, b"read", |value| value?.ordered()?.score(b"m"));
    assert_eq!(now, None);
}
