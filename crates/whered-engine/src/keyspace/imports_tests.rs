//! Keys of slots that a link's primary imports: who sees them, and from when on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Clock;
use crate::journal::log::Log;
use crate::keyspace::{
    Aggregate, Combination, CombineOperation, ExpiryCondition, KeyRole, Route, ScoreRules,
    SlotOwners, StreamPosition,
};

fn keyspace() -> Keyspace {
    Keyspace::new(Arc::new(Log::new(None, 0)), Clock::from_fn(|| 1_000_000))
}

fn stream(offset: i64) -> StreamPosition {
    let replication_id = "a".repeat(40).parse().expect("40 digits");
    StreamPosition { replication_id, offset, database: 0 }
}

fn route(links: &[usize], slots: Option<Arc<SlotOwners>>) -> Route {
    Route { database: 0, patterns: vec![b"f*".to_vec()], links: links.to_vec(), slots }
}

fn add(keyspace: &Keyspace, number: usize, key: &[u8], score: f64) {
    let scores = [(&b"m"[..], score)];
    keyspace.add_scores(number, key, &scores, ScoreRules::default()).expect("there is room");
}

fn score(keyspace: &Keyspace, key: &[u8]) -> Option<f64> {
    keyspace.inspect(0, key, |value| value.ordered()?.score(b"m"))?
}

/// An import of the slots of these keys.
fn import(keys: &[&[u8]]) -> SlotImport {
    let ranges = keys.iter().map(|key| (key_slot(key), key_slot(key))).collect();
    SlotImport { name: b"job".to_vec(), ranges }
}

/// Imports the slots of these keys, or of none, as a link's stream says it.
fn set(keyspace: &Keyspace, link: usize, keys: &[&[u8]]) {
    let imports = if keys.is_empty() { Vec::new() } else { vec![import(keys)] };
    let act = || (keyspace.set_imports(served_number(link), &imports), stream(1));
    keyspace.follow(link, 0, act).expect("there is room").value.expect("there is room");
}

/// One link that has `f1` and `f2`, and an own key.
fn one_link() -> Keyspace {
    let keyspace = keyspace();
    assert_eq!(keyspace.link("b"), Some(0));
    keyspace.set_routes(vec![route(&[0], None)]);
    let always = ExpiryCondition::default();
    for key in [&b"f1"[..], b"f2"] {
        add(&keyspace, served_number(0), key, 1.0);
        keyspace.set_expiry(served_number(0), key, 2_000_000, always).expect("there is room");
    }
    add(&keyspace, 0, b"own", 1.0);
    keyspace
}

#[test]
fn keys_of_slots_that_are_imported_are_not_there_in_any_way_until_the_end() {
    let keyspace = one_link();
    let everything = || {
        let mut keys = keyspace.keys(0);
        keys.sort();
        let (_, mut scanned) = keyspace.scan(0, 0, 100);
        scanned.sort_by(|one, other| one.0.cmp(&other.0));
        let scanned: Vec<Vec<u8>> = scanned.into_iter().map(|(key, _)| key).collect();
        assert_eq!(scanned, keys);
        let mut random = (0..64).filter_map(|n| keyspace.random_key(0, n << 58));
        assert!(random.all(|key| keys.contains(&key)));
        let read = keyspace.read_all(0, &[b"f1", b"f2"], |values| values.iter().flatten().count());
        assert_eq!(read + 1, keys.len());
        assert_eq!(keyspace.len(0), keys.len());
        assert_eq!(keyspace.expiring_len(0), keys.len() - 1);
        let mean_millis = if keys.len() > 1 { 1_000_000 } else { 0 };
        assert_eq!(keyspace.mean_life_millis(0), mean_millis);
        keys.len()
    };
    assert_eq!(everything(), 3);
    let cases: [(&[&[u8]], usize); 3] = [(&[b"f1"], 2), (&[b"f1", b"f2"], 1), (&[], 3)];
    for (imported, left) in cases {
        set(&keyspace, 0, imported);
        assert_eq!(everything(), left, "{imported:?}");
    }
    set(&keyspace, 0, &[b"f1"]);
    assert_eq!(score(&keyspace, b"f1"), None);
    assert!(keyspace.read(0, b"f1", |value| value.is_none()));
    assert_eq!((keyspace.kind(0, b"f1"), keyspace.exists(0, b"f1")), (None, false));
    assert_eq!((keyspace.stored_number(0, b"f1"), keyspace.touch(0, b"f1")), (None, false));
    assert_eq!(keyspace.expires_at_millis(0, b"f1"), None);
    assert_eq!(keyspace.idle_seconds(0, b"f1"), None);
    assert_eq!(keyspace.copy((0, b"f1"), (0, b"own"), true).map(|it| it.value), Ok(false));
    let union = Combination {
        operation: CombineOperation::Union,
        keys: vec![b"f1", b"own"],
        weights: Vec::new(),
        aggregate: Aggregate::Sum,
    };
    let stored = keyspace.store_combination(0, b"sum", &union).expect("there is room");
    assert_eq!((stored.value.0, score(&keyspace, b"sum")), (1, Some(1.0)));
    assert!(keyspace.role_of(0, b"f1") == KeyRole::Followed, "it is not there, and is not awaited");
    // Its link has it all the time.
    assert!(keyspace.exists(served_number(0), b"f1"));
    assert_eq!((keyspace.len(served_number(0)), keyspace.keys(served_number(0)).len()), (2, 2));
    set(&keyspace, 0, &[]);
    assert_eq!(score(&keyspace, b"f1"), Some(1.0));
}

#[test]
fn what_is_counted_while_slots_are_imported_follows_each_change() {
    let keyspace = one_link();
    let number = served_number(0);
    set(&keyspace, 0, &[b"f1", b"f3"]);
    let figures = || (keyspace.len(0), keyspace.expiring_len(0));
    assert_eq!(figures(), (2, 1));
    add(&keyspace, number, b"f3", 1.0);
    add(&keyspace, number, b"f4", 1.0);
    assert_eq!(figures(), (3, 1));
    let always = ExpiryCondition::default();
    for (key, at) in [(b"f3", 3_000_000), (b"f3", 4_000_000), (b"f4", 2_000_000)] {
        keyspace.set_expiry(number, key, at, always).expect("there is room");
    }
    keyspace.persist(number, b"f1").expect("there is room");
    assert_eq!((figures(), keyspace.mean_life_millis(0)), ((3, 2), 1_000_000));
    keyspace.delete_keys(number, &[b"f1", b"f4"]).expect("there is room");
    keyspace.rename(number, b"f3", b"f5", false).expect("there is room");
    assert_eq!(figures(), (3, 2));
    // The primary has emptied itself; what it imports is not over with that.
    keyspace.flush(Some(number)).expect("there is room");
    add(&keyspace, number, b"f1", 1.0);
    assert_eq!((figures(), keyspace.exists(0, b"f1")), ((1, 0), false));
}

#[test]
fn all_keys_of_an_import_appear_and_vanish_at_one_moment() {
    let keyspace = one_link();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = [0, 0];
            while !is_over.load(Ordering::Relaxed) {
                let count = |values: &[Option<&crate::Value>]| values.iter().flatten().count();
                let found = keyspace.read_all(0, &[b"f1", b"f2"], count);
                assert!(found == 0 || found == 2, "{found} of 2 keys");
                seen[found / 2] += 1;
            }
            seen
        });
        for _ in 0..2000 {
            set(&keyspace, 0, &[b"f1", b"f2"]);
            set(&keyspace, 0, &[]);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("it has seen nothing else").iter().sum::<u32>() > 0);
    });
}

#[test]
fn a_key_that_was_removed_at_the_source_does_not_come_back_from_the_importing_link() {
    let keyspace = keyspace();
    assert_eq!([keyspace.link("a"), keyspace.link("b")], [Some(0), Some(1)]);
    let owners = Arc::new(SlotOwners::default());
    owners.set(key_slot(b"f1"), Some(0));
    keyspace.set_routes(vec![route(&[0, 1], Some(Arc::clone(&owners)))]);
    let [source, target] = [0, 1].map(served_number);
    add(&keyspace, source, b"f1", 2.0);
    set(&keyspace, 1, &[b"f1"]);
    add(&keyspace, target, b"f1", 1.0);
    assert_eq!((score(&keyspace, b"f1"), keyspace.len(0)), (Some(2.0), 1));
    keyspace.delete_keys(source, &[b"f1"]).expect("there is room");
    assert_eq!((score(&keyspace, b"f1"), keyspace.keys(0).len()), (None, 0));
    // The source's changes have come to the target in the end.
    add(&keyspace, source, b"f1", 3.0);
    add(&keyspace, target, b"f1", 3.0);
    set(&keyspace, 1, &[]);
    owners.set(key_slot(b"f1"), Some(1));
    keyspace.delete_keys(source, &[b"f1"]).expect("there is room");
    assert_eq!((score(&keyspace, b"f1"), keyspace.len(0)), (Some(3.0), 1));
}

#[test]
fn promotion_leaves_keys_of_slots_that_are_imported_behind() {
    for own_keys in [0, 9] {
        let keyspace = one_link();
        (0..own_keys).for_each(|n| add(&keyspace, 0, format!("own{n}").as_bytes(), 1.0));
        set(&keyspace, 0, &[b"f1"]);
        assert_eq!(keyspace.promote(&[0]).map(|it| it.value), Ok(1));
        assert_eq!((score(&keyspace, b"f1"), score(&keyspace, b"f2")), (None, Some(1.0)));
        assert_eq!((keyspace.len(0), keyspace.imports(served_number(0))), (2 + own_keys, vec![]));
        add(&keyspace, 0, b"f1", 7.0);
        assert_eq!(score(&keyspace, b"f1"), Some(7.0), "it is a name like others now");
    }
}

#[test]
fn a_full_synchronization_brings_the_imports_of_its_dump_and_no_others() {
    let keyspace = one_link();
    set(&keyspace, 0, &[b"f2"]);
    let load = |imports: &[SlotImport]| {
        let mut load = keyspace.begin_load(0).expect("there is room");
        imports.iter().for_each(|it| load.import(it.clone()).expect("it is right"));
        for key in [&b"f1"[..], b"f2"] {
            load.sorted_set(key, None);
            load.member(b"m", 5.0).expect("there is room");
            load.end_sorted_set().expect("there is room");
        }
        assert_eq!(score(&keyspace, b"f2"), None, "what was served before is served until the end");
        load.finish(stream(2), || ()).expect("there is room");
        [b"f1", b"f2"].map(|key| score(&keyspace, key))
    };
    assert_eq!(load(&[import(&[b"f2"])]), [Some(5.0), None]);
    let other = SlotImport { name: b"other".to_vec(), ..import(&[b"f2"]) };
    assert_eq!(load(&[import(&[b"f1"]), other]), [None, None]);
    assert_eq!(keyspace.imports(served_number(0)).len(), 2);
    assert_eq!(load(&[]), [Some(5.0), Some(5.0)]);
    let mut load = keyspace.begin_load(0).expect("there is room");
    for ranges in [vec![(3, 2)], vec![(0, SLOTS)], vec![(0, 0); usize::from(SLOTS) + 1]] {
        assert!(load.import(SlotImport { name: Vec::new(), ranges }).is_err());
    }
}

#[test]
fn who_follows_a_collection_of_an_importing_link_is_to_read_it_anew() {
    let keyspace = one_link();
    let watch = keyspace.log.watch();
    assert!(watch.follow(b"f1"));
    set(&keyspace, 0, &[b"f1"]);
    assert_eq!(watch.take()[0].members, None, "it has vanished");
    add(&keyspace, served_number(0), b"f1", 7.0);
    assert_eq!(watch.take()[0].members, None, "the change may not be shown");
    set(&keyspace, 0, &[]);
    assert_eq!(watch.take()[0].members, None, "it is there again");
    add(&keyspace, served_number(0), b"f1", 8.0);
    assert_eq!(watch.take()[0].members.as_ref().map(Vec::len), Some(1));
}

#[test]
fn a_link_that_is_forgotten_imports_nothing() {
    let keyspace = one_link();
    set(&keyspace, 0, &[b"f1"]);
    keyspace.set_routes(Vec::new());
    keyspace.forget_links(|_| true).expect("there is room");
    assert_eq!(keyspace.imports(served_number(0)), []);
}
