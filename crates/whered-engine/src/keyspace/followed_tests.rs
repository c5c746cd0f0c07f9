//! Routing against a naive twin: the keys of each number in a map, and the rules of `followed`
//! applied one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

use whered_random::Random;

use super::*;
use crate::clock::Clock;
use crate::journal::log::Log;
use crate::keyspace::value::{Ordered, Value};
use crate::keyspace::{
    AddCondition, ExpiryCondition, ReplicationId, ScoreRules, SetText, SlotImport, StreamPosition,
    TextExpiry,
};

/// When everything happens that no test lets happen later.
const NOW_MILLIS: u64 = 1_000_000;

type Members = BTreeMap<Vec<u8>, u64>;

type TwinKeys = BTreeMap<Vec<u8>, (Members, Option<u64>)>;

/// The sorted sets of each number, and when their time is over.
#[derive(Default)]
struct Twin {
    numbers: BTreeMap<usize, TwinKeys>,
    /// Slots that the primaries of served numbers import.
    imports: BTreeMap<usize, BTreeSet<u16>>,
    routes: Vec<Route>,
}

impl Twin {
    fn route(&self, number: usize, key: &[u8]) -> Option<&Route> {
        let names = |route: &&Route| {
            route.database == number && route.patterns.iter().any(|p| glob::matches(p, key))
        };
        self.routes.iter().find(names)
    }

    fn has(&self, number: usize, key: &[u8]) -> bool {
        let is_imported = |slots: &BTreeSet<u16>| slots.contains(&key_slot(key));
        let is_hidden = self.imports.get(&number).is_some_and(is_imported);
        !is_hidden && self.numbers.get(&number).is_some_and(|keys| keys.contains_key(key))
    }

    /// How many keys those count who ask for this number, and how many have an expiry time.
    fn figures(&self, number: usize) -> (usize, usize) {
        let routes = self.routes.iter().filter(|route| route.database == number);
        let links = routes.flat_map(|route| route.links.iter().map(|link| served_number(*link)));
        let numbers: BTreeSet<usize> = links.chain([number]).collect();
        let keys = numbers.iter().filter_map(|of| Some((of, self.numbers.get(of)?)));
        let seen = keys.flat_map(|(of, keys)| keys.iter().filter(|(key, _)| self.has(*of, key)));
        seen.fold((0, 0), |(all, expiring), (_, (_, at))| {
            (all + 1, expiring + usize::from(at.is_some()))
        })
    }

    /// The value that a client finds, by the rules of `followed`.
    fn found(&self, number: usize, key: &[u8]) -> Option<&Members> {
        let place = match self.route(number, key) {
            None => number,
            Some(route) => {
                let slot = key_slot(key);
                let owner = route.slots.as_ref().and_then(|slots| slots.link(slot));
                let mut links: Vec<usize> = owner.into_iter().collect();
                links.extend(&route.links);
                links.retain(|link| route.links.contains(link));
                let link = links.into_iter().find(|link| self.has(served_number(*link), key))?;
                served_number(link)
            }
        };
        let (members, expires) = self.numbers.get(&place)?.get(key)?;
        expires.is_none_or(|at| NOW_MILLIS <= at).then_some(members)
    }

    fn all(&self, number: usize) -> BTreeSet<Vec<u8>> {
        let keys = self.numbers.values().flat_map(|keys| keys.keys());
        keys.filter(|key| self.found(number, key).is_some()).cloned().collect()
    }
}

fn keyspace() -> Keyspace {
    Keyspace::new(Arc::new(Log::new(None, 0)), Clock::from_fn(|| NOW_MILLIS))
}

fn route(database: usize, pattern: &str, links: &[usize]) -> Route {
    let patterns = vec![pattern.as_bytes().to_vec()];
    Route { database, patterns, links: links.to_vec(), slots: None }
}

fn stream(offset: i64) -> StreamPosition {
    let replication_id: ReplicationId = "a".repeat(40).parse().expect("40 digits");
    StreamPosition { replication_id, offset, database: 0 }
}

fn add(keyspace: &Keyspace, number: usize, key: &[u8], member: &[u8], score: f64) {
    let scores = [(member, score)];
    keyspace.add_scores(number, key, &scores, ScoreRules::default()).expect("it may be written");
}

fn members(keyspace: &Keyspace, number: usize, key: &[u8]) -> Option<Members> {
    keyspace.inspect(number, key, |value| {
        let ordered = value.ordered().expect("a sorted set");
        ordered.iter().map(|(member, score)| (member.to_vec(), score as u64)).collect()
    })
}

/// All keys by SCAN, each once.
fn scanned(keyspace: &Keyspace, number: usize, count: usize) -> BTreeSet<Vec<u8>> {
    let (mut cursor, mut all) = (0, BTreeSet::new());
    loop {
        let (next, found) = keyspace.scan(number, cursor, count);
        for (key, kind) in found {
            assert_eq!(kind, crate::Kind::SortedSet);
            assert!(all.insert(key.clone()), "{key:?} was given twice");
        }
        if next == 0 {
            return all;
        }
        cursor = next;
    }
}

fn random_routes(random: &mut Random) -> Vec<Route> {
    let slots = || {
        let owners = SlotOwners::default();
        (0..super::super::SLOTS).for_each(|slot| owners.set(slot, Some(usize::from(slot) % 3)));
        Arc::new(owners)
    };
    match random.below(5) {
        0 => Vec::new(),
        1 => vec![route(0, "a*", &[0])],
        2 => vec![route(0, "a*", &[0]), route(0, "*", &[1]), route(1, "b?", &[2])],
        3 => vec![Route { slots: Some(slots()), ..route(0, "*", &[0, 1, 2]) }],
        _ => {
            vec![Route { slots: Some(slots()), ..route(0, "[ab]*", &[2, 0]) }, route(0, "c1", &[])]
        }
    }
}

/// Changes keyspace and twin alike.
fn change(keyspace: &Keyspace, twin: &mut Twin, random: &mut Random) {
    let numbers = [0, 1, served_number(0), served_number(1), served_number(2)];
    let number = numbers[random.below(5) as usize];
    let key = format!("{}{}", ["a", "b", "c"][random.below(3) as usize], random.below(4));
    let key = key.as_bytes();
    let is_own = twin.route(number, key).is_none();
    let refused = |result: Result<(), WriteError>| {
        assert_eq!(result, Err(WriteError::Followed), "{number} {key:?}");
    };
    match random.below(9) {
        0 => {
            twin.routes = random_routes(random);
            keyspace.set_routes(twin.routes.clone());
        }
        8 => {
            let number = served_number(random.below(3) as usize);
            let name = |random: &mut Random| ["a", "b", "c"][random.below(3) as usize];
            let keys = (0..random.below(4)).map(|n| format!("{}{n}", name(random)));
            let slots: BTreeSet<u16> = keys.map(|key| key_slot(key.as_bytes())).collect();
            let ranges: Vec<(u16, u16)> = slots.iter().map(|slot| (*slot, *slot)).collect();
            let import = SlotImport { name: b"job".to_vec(), ranges };
            let imports = if slots.is_empty() { Vec::new() } else { vec![import] };
            keyspace.set_imports(number, &imports).expect("there is room");
            twin.imports.insert(number, slots);
        }
        1 if is_own => {
            keyspace.delete_keys(number, &[key]).expect("it may be removed");
            twin.numbers.entry(number).or_default().remove(key);
        }
        1 => refused(keyspace.delete_keys(number, &[key]).map(drop)),
        // A client's expiry time that has come removes the key; a link's stays as it is.
        2 if number >= DATABASE_COUNT => {
            let at = NOW_MILLIS - 5 + random.below(10);
            let always = ExpiryCondition::default();
            keyspace.set_expiry(number, key, at as i64, always).expect("it may be set");
            if let Some((_, expires)) = twin.numbers.entry(number).or_default().get_mut(key) {
                *expires = Some(at);
            }
        }
        _ if is_own => {
            let (member, score) = (format!("m{}", random.below(3)), random.below(9));
            add(keyspace, number, key, member.as_bytes(), score as f64);
            let keys = twin.numbers.entry(number).or_default();
            let (members, _) = keys.entry(key.to_vec()).or_default();
            members.insert(member.into_bytes(), score);
        }
        _ => {
            let scores = [(&b"m"[..], 1.0)];
            refused(keyspace.add_scores(number, key, &scores, ScoreRules::default()).map(drop));
        }
    }
}

#[test]
fn reads_find_what_a_naive_twin_finds_through_any_routes() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (keyspace, mut twin) = (keyspace(), Twin::default());
        for step in 0..120 {
            change(&keyspace, &mut twin, &mut random);
            if step % 10 != 9 {
                continue;
            }
            let at = format!("seed {seed}, step {step}");
            for number in [0, 1] {
                let all = twin.all(number);
                let mut keys = keyspace.keys(number);
                keys.sort();
                assert!(keys.iter().eq(&all), "{at}: {keys:?}, {all:?}");
                assert_eq!(scanned(&keyspace, number, 1 + step % 3), all, "{at}");
                let figures = (keyspace.len(number), keyspace.expiring_len(number));
                assert_eq!(figures, twin.figures(number), "{at}");
                match keyspace.random_key(number, random.next_u64()) {
                    Some(key) => assert!(all.contains(&key), "{at}"),
                    None => assert!(all.is_empty(), "{at}"),
                }
                let names: Vec<Vec<u8>> = ["a", "b", "c"]
                    .iter()
                    .flat_map(|k| (0..4).map(move |n| format!("{k}{n}").into_bytes()))
                    .collect();
                let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                for key in &names {
                    let found = twin.found(number, key);
                    assert_eq!(members(&keyspace, number, key).as_ref(), found, "{at}: {key:?}");
                    assert_eq!(keyspace.exists(number, key), found.is_some(), "{at}: {key:?}");
                    assert_eq!(keyspace.touch(number, key), found.is_some(), "{at}: {key:?}");
                }
                keyspace.read_all(number, &names, |values| {
                    for (key, value) in names.iter().zip(values) {
                        let len = value.and_then(Value::ordered).map(Ordered::len);
                        assert_eq!(len, twin.found(number, key).map(BTreeMap::len), "{at}");
                    }
                });
            }
        }
    }
}

#[test]
fn no_client_writes_to_a_followed_key_in_any_way() {
    let keyspace = keyspace();
    add(&keyspace, served_number(0), b"fleet", b"m", 1.0);
    add(&keyspace, 0, b"own", b"m", 1.0);
    keyspace.set_routes(vec![route(0, "fleet*", &[0])]);
    let before = (keyspace.keys(0), members(&keyspace, 0, b"fleet"));
    let (fleet, own): (&[u8], &[u8]) = (b"fleet", b"own");
    let set = SetText {
        text: b"t",
        condition: crate::AddCondition::Always,
        expiry: TextExpiry::Never,
        wants_old: false,
    };
    let always = ExpiryCondition::default();
    let cell = whered_geo::Cell::MIN;
    let combination = crate::Combination {
        operation: crate::CombineOperation::Union,
        keys: vec![own],
        weights: Vec::new(),
        aggregate: crate::Aggregate::Sum,
    };
    let refused: Vec<Result<(), WriteError>> = vec![
        keyspace.add_points(0, fleet, &[(b"m", cell)], set.condition).map(drop),
        keyspace.add_scores(0, fleet, &[(b"m", 1.0)], ScoreRules::default()).map(drop),
        keyspace.increment(0, fleet, b"m", 1.0, ScoreRules::default()).map(drop),
        keyspace.remove_members(0, fleet, &[b"m"]).map(drop),
        keyspace.remove_ranks(0, fleet, |set| 0..set.len()).map(drop),
        keyspace.pop(0, fleet, 1, true).map(drop),
        keyspace.delete_keys(0, &[own, fleet]).map(drop),
        keyspace.flush(Some(0)).map(drop),
        keyspace.flush(None).map(drop),
        keyspace.set_text(0, fleet, &set).map(drop),
        keyspace.change_text(0, fleet, |_, _| ((), crate::TextChange::Remove)).map(drop),
        keyspace.set_strings(0, &[(own, b""), (fleet, b"")], false).map(drop),
        keyspace.store_scores(0, fleet, &[(b"m", 1.0)]).map(drop),
        keyspace.store_scores(0, fleet, &[]).map(drop),
        keyspace.store_combination(0, fleet, &combination).map(drop),
        keyspace.set_expiry(0, fleet, i64::MAX, always).map(drop),
        keyspace.persist(0, fleet).map(drop),
        keyspace.rename(0, fleet, b"other", false).map(drop),
        keyspace.rename(0, own, fleet, false).map(drop),
        keyspace.move_key(0, fleet, 1).map(drop),
        keyspace.move_key(1, fleet, 0).map(drop),
        keyspace.copy((0, own), (0, fleet), true).map(drop),
        keyspace.swap_numbers(0, 1).map(drop),
        keyspace.swap_numbers(1, 0).map(drop),
    ];
    for (place, result) in refused.into_iter().enumerate() {
        assert_eq!(result, Err(WriteError::Followed), "{place}");
    }
    assert_eq!((keyspace.keys(0), members(&keyspace, 0, b"fleet")), before);
    // A copy changes its target alone.
    let copied = keyspace.copy((0, fleet), (0, b"copy"), false).map(|it| it.value);
    assert_eq!((copied, members(&keyspace, 0, b"copy")), (Ok(true), before.1));
    // Other databases and other keys are as they were.
    keyspace.flush(Some(1)).expect("no key of it is followed");
    keyspace.delete_keys(0, &[own]).expect("it is an own key");
}

#[test]
fn a_followed_key_whose_time_is_over_is_hidden_and_goes_when_its_link_removes_it() {
    let now_millis = Arc::new(AtomicU64::new(NOW_MILLIS));
    let clock = Arc::clone(&now_millis);
    let clock = Clock::from_fn(move || clock.load(Ordering::Relaxed));
    let keyspace = Keyspace::new(Arc::new(Log::new(None, 0)), clock);
    let number = served_number(0);
    add(&keyspace, number, b"fleet", b"m", 1.0);
    let always = ExpiryCondition::default();
    keyspace.set_expiry(number, b"fleet", NOW_MILLIS as i64 + 10, always).expect("there is room");
    keyspace.set_routes(vec![route(0, "*", &[0])]);
    assert!(keyspace.exists(0, b"fleet"));
    now_millis.store(NOW_MILLIS + 11, Ordering::Relaxed);
    assert!(!keyspace.exists(0, b"fleet") && keyspace.keys(0).is_empty());
    assert_eq!(keyspace.scan(0, 0, 10), (0, vec![]));
    assert_eq!(keyspace.sweep(10), Ok(0), "its primary removes it");
    assert_eq!(
        (keyspace.len(0), keyspace.expiring_len(0), keyspace.mean_life_millis(0)),
        (1, 1, 0)
    );
    assert!(keyspace.exists(number, b"fleet"), "its link finds it");
    add(&keyspace, number, b"fleet", b"n", 2.0);
    keyspace.persist(number, b"fleet").expect("there is room");
    assert_eq!(members(&keyspace, 0, b"fleet").map(|all| all.len()), Some(2), "it was not removed");
    assert_eq!(keyspace.set_expiry(number, b"fleet", -5, always).map(|it| it.value), Ok(true));
    assert!(keyspace.exists(number, b"fleet"), "a time that is over does not remove it");
    assert_eq!(keyspace.delete_keys(number, &[b"fleet"]).map(|it| it.value), Ok(1));
    assert_eq!(keyspace.expired_total(), 0);
}

#[test]
fn a_key_is_awaited_until_the_link_that_has_it_has_data() {
    let keyspace = keyspace();
    assert_eq!([keyspace.link("a"), keyspace.link("b")], [Some(0), Some(1)]);
    let owners = Arc::new(SlotOwners::default());
    owners.set(key_slot(b"f0"), Some(1));
    let role = |key: &[u8]| keyspace.role_of(0, key);
    assert_eq!(role(b"f0"), KeyRole::Own);
    keyspace.set_routes(vec![route(0, "f*", &[])]);
    assert_eq!([role(b"f0"), role(b"own")], [KeyRole::Awaited, KeyRole::Own]);
    assert_eq!(members(&keyspace, 0, b"f0"), None);
    keyspace.set_routes(vec![Route { slots: Some(owners), ..route(0, "f*", &[0, 1]) }]);
    assert_eq!([role(b"f0"), role(b"f1")], [KeyRole::Awaited, KeyRole::Awaited]);
    keyspace.follow(1, 0, || ((), stream(1))).expect("there is room");
    assert_eq!([role(b"f0"), role(b"f1")], [KeyRole::Followed, KeyRole::Awaited]);
    keyspace.follow(0, 0, || ((), stream(1))).expect("there is room");
    assert_eq!([role(b"f0"), role(b"f1")], [KeyRole::Followed, KeyRole::Followed]);
    assert_eq!(keyspace.role_of(1, b"f0"), KeyRole::Own, "another database");
    assert!(!keyspace.is_awaited(0) && !keyspace.is_awaited(1));
    keyspace.set_routes(vec![route(0, "f*", &[0, 1, 2])]);
    assert!(keyspace.is_awaited(0) && !keyspace.is_awaited(1));
    assert_eq!(keyspace.shown_in(served_number(2)), Some(0));
    assert_eq!([keyspace.shown_in(served_number(3)), keyspace.shown_in(9)], [None, Some(9)]);
}

#[test]
fn an_own_key_that_a_route_would_hide_is_told() {
    let keyspace = keyspace();
    add(&keyspace, 3, b"fleet1", b"m", 1.0);
    keyspace.set_routes(vec![route(0, "*", &[0])]);
    assert_eq!(keyspace.hidden_key(), None);
    keyspace.set_routes(vec![route(0, "*", &[0]), route(3, "fleet?", &[1])]);
    assert_eq!(keyspace.hidden_key(), Some((3, b"fleet1".to_vec())));
}

#[test]
fn what_a_link_or_a_transaction_removes_is_freed_when_others_are_let_in() {
    let keyspace = keyspace();
    keyspace.link("a").expect("one is free");
    let long = vec![b'x'; 1 << 20];
    let text = SetText {
        text: &long,
        condition: AddCondition::Always,
        expiry: TextExpiry::Never,
        wants_old: false,
    };
    let removals: [fn(&Keyspace, usize); 5] = [
        |keyspace, number| {
            keyspace.flush(Some(number)).expect("there is room");
        },
        |keyspace, number| {
            keyspace.delete_keys(number, &[b"k"]).expect("there is room");
        },
        |keyspace, number| {
            let short = [(&b"m"[..], 1.0)];
            keyspace.store_scores(number, b"k", &short).expect("there is room");
        },
        |keyspace, number| {
            add(keyspace, number, b"other", b"m", 1.0);
            keyspace.rename(number, b"other", b"k", false).expect("there is room");
        },
        |keyspace, number| {
            let now = ExpiryCondition::default();
            keyspace.set_expiry(number, b"k", 0, now).expect("there is room");
            keyspace.delete_keys(number, &[b"k"]).expect("there is room");
        },
    ];
    for (index, remove) in removals.iter().enumerate() {
        for number in [0, served_number(0)] {
            keyspace.set_text(number, b"k", &text).expect("there is room");
            let inside = keyspace.isolated(|| {
                remove(&keyspace, number);
                keyspace.memory_bytes()
            });
            assert!(inside.value >= 1 << 20, "removal {index} in {number}: kept while alone");
            assert!(keyspace.memory_bytes() < 1 << 20, "removal {index} in {number}: freed behind");
        }
    }
}

#[test]
fn a_key_lies_where_its_link_has_it() {
    let keyspace = keyspace();
    add(&keyspace, 0, b"own", b"m", 1.0);
    add(&keyspace, served_number(1), b"fleet", b"m", 1.0);
    assert_eq!(keyspace.stored_number(0, b"own"), Some(0));
    assert_eq!(keyspace.stored_number(0, b"fleet"), None);
    keyspace.set_routes(vec![route(0, "fleet", &[1])]);
    assert_eq!(keyspace.stored_number(0, b"fleet"), Some(served_number(1)));
}

#[test]
fn who_follows_a_collection_sees_what_its_link_changes() {
    let keyspace = keyspace();
    keyspace.link("a").expect("one is free");
    keyspace.set_routes(vec![route(0, "fleet", &[0])]);
    let watch = keyspace.log.watch();
    assert!(watch.follow(b"fleet"));
    add(&keyspace, served_number(0), b"fleet", b"m", 7.0);
    let changes = watch.take();
    assert_eq!(changes[0].members.as_ref().map(Vec::len), Some(1));
    add(&keyspace, served_number(1), b"fleet", b"m", 7.0);
    assert_eq!(watch.take(), [], "no route shows that link");
    let load = keyspace.begin_load(0).expect("there is room");
    load.finish(stream(1), || ()).expect("there is room");
    assert_eq!(watch.take()[0].members, None, "all of it is another one");
}
