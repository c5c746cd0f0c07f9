//! Followed keys after crashes, on full disks, and in snapshots: data and position are always
//! of one moment.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use whered_geo::Cell;
use whered_store::SimulatedDisk;

use super::tests::{Dump, Random, World};
use crate::error::{EngineError, WriteError};
use crate::keyspace::{
    AddCondition, ExpiryCondition, KeyRole, Load, Route, ScoreRules, SlotImport, StreamPosition,
    load_number, served_number,
};

/// After any time that a test runs at.
const FAR_MILLIS: u64 = 4_000_000_000_000;

fn stream(offset: i64) -> StreamPosition {
    let replication_id = "0123456789abcdef0123456789abcdef01234567".parse().expect("40 digits");
    StreamPosition { replication_id, offset, database: 3 }
}

fn route(pattern: &str, links: &[usize]) -> Route {
    let patterns = vec![pattern.as_bytes().to_vec()];
    Route { database: 0, patterns, links: links.to_vec(), slots: None }
}

/// One command of a stream, as a link applies it.
fn apply(world: &World, number: usize, random: &mut Random) -> Result<(), WriteError> {
    let keyspace = &world.keyspace;
    let key = |random: &mut Random| format!("key{}", random.below(6)).into_bytes();
    let member = |random: &mut Random| format!("m{}", random.below(9)).into_bytes();
    let (key, other, member) = (key(random), key(random), member(random));
    let score = random.below(1 << 40) as f64;
    let rules = ScoreRules::default();
    match random.below(13) {
        0..4 => {
            let points = [(&member[..], Cell::from_bits(score as u64).expect("40 bits"))];
            keyspace.add_points(number, &key, &points, AddCondition::Always).map(drop)
        }
        4 => keyspace.add_scores(number, &key, &[(&member[..], score / 2.0)], rules).map(drop),
        5 => keyspace.increment(number, &key, &member, 1.5, rules).map(drop),
        6 => keyspace.remove_members(number, &key, &[&member[..]]).map(drop),
        7 => keyspace.pop(number, &key, 1 + random.below(3) as usize, true).map(drop),
        8 => keyspace.rename(number, &key, &other, false).map(drop),
        9 => keyspace.copy((number, &key), (number, &other), true).map(drop),
        10 => keyspace.delete_keys(number, &[&key[..]]).map(drop),
        11 => keyspace.set_imports(number, &imports(random)).map(drop),
        _ => {
            let at = (FAR_MILLIS + random.below(9)) as i64;
            keyspace.set_expiry(number, &key, at, ExpiryCondition::default()).map(drop)
        }
    }
}

/// Migrations of slots that go on, as a primary may tell of them.
fn imports(random: &mut Random) -> Vec<SlotImport> {
    let import = |n: u64, random: &mut Random| {
        let range = |from: u64| (from as u16, (from + 5) as u16);
        let ranges = (0..=random.below(3)).map(|k| range(1000 * n + 10 * k)).collect();
        SlotImport { name: format!("job{n}").into_bytes(), ranges }
    };
    (0..random.below(3)).map(|n| import(n, random)).collect()
}

/// The keys that a link serves, and the slots whose keys are hidden.
type Served = (Dump, Vec<SlotImport>);

fn served(world: &World) -> Served {
    (world.keys_of(served_number(0)), world.keyspace.imports(served_number(0)))
}

/// A link at work, and what it has served at each position.
struct Follower<'a> {
    world: &'a World,
    load: Option<Load<'a>>,
    offset: i64,
    served: BTreeMap<i64, Served>,
}

impl<'a> Follower<'a> {
    fn new(world: &'a World) -> Follower<'a> {
        assert_eq!(world.keyspace.link("fleet"), Some(0));
        let offset = world.keyspace.position(0).map_or(0, |stream| stream.offset);
        let served = BTreeMap::from([(offset, served(world))]);
        Follower { world, load: None, offset, served }
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(20) {
            0 => self.load = Some(self.world.keyspace.begin_load(0).expect("there is room")),
            1..6 => self.load_on(random),
            6 => self.finish(random),
            7 => self.load = None,
            _ => {
                let _ = self.follow(random);
            }
        }
    }

    /// Applies some commands of the stream.
    fn follow(&mut self, random: &mut Random) -> Result<(), WriteError> {
        let (count, offset) = (random.below(4), self.offset);
        let room_bytes = random.below(300) as usize;
        let written = self.world.keyspace.follow(0, room_bytes, || {
            let applied = (0..count).map(|_| apply(self.world, served_number(0), random));
            let done = applied.take_while(Result::is_ok).count();
            ((), stream(offset + done as i64 + 1))
        })?;
        assert!(written.ticket > crate::Ticket::NONE);
        self.offset += count as i64 + 1;
        self.note()
    }

    fn note(&mut self) -> Result<(), WriteError> {
        self.offset = self.world.keyspace.position(0).map_or(0, |stream| stream.offset);
        self.served.insert(self.offset, served(self.world));
        Ok(())
    }

    fn load_on(&mut self, random: &mut Random) {
        let Some(load) = &mut self.load else { return };
        let key = format!("key{}", random.below(6));
        if self.world.keyspace.exists(load_number(0), key.as_bytes()) {
            return;
        }
        load.sorted_set(key.as_bytes(), (random.below(3) == 0).then_some(FAR_MILLIS));
        for _ in 0..=random.below(40) {
            let score =
                random.below(1 << 40) as f64 / [1.0, 1.0, 1.0, 2.0][random.below(4) as usize];
            load.member(format!("m{}", random.below(60)).as_bytes(), score).expect("there is room");
        }
        load.end_sorted_set().expect("there is room");
    }

    fn finish(&mut self, random: &mut Random) {
        let Some(mut load) = self.load.take() else { return };
        for import in imports(random) {
            load.import(import).expect("it is right");
        }
        self.offset += 1000;
        load.finish(stream(self.offset), || ()).expect("there is room");
        self.note().expect("it is a position");
    }

    /// The data after a crash must be those that were served at the position after it.
    fn check_crash(&self, seed: u64, at: &str) -> World {
        let other = World::open(self.world.disk.crash(seed));
        let found = served(&other);
        let offset = other.keyspace.position(0).map_or(0, |stream| stream.offset);
        let expected = self.served.get(&offset);
        assert_eq!(Some(&found), expected, "{at}: position {offset}");
        assert_eq!(other.keys_of(load_number(0)), [], "{at}: an unfinished load is forgotten");
        other
    }
}

#[test]
fn a_crash_at_any_moment_leaves_data_and_position_of_one_moment() {
    for seed in 0..40 {
        let mut random = Random(seed, 12);
        let mut world = World::open(SimulatedDisk::new(seed));
        for round in 0..4 {
            let at = format!("seed {seed}, round {round}");
            let mut follower = Follower::new(&world);
            for step in 0..60 {
                follower.step(&mut random);
                if step % 7 == 0 {
                    world.act(&mut random);
                }
                if step % 20 == 0 {
                    follower.check_crash(random.below(1 << 20), &at);
                }
            }
            let mut blocks = 0;
            let is_given_up = random.below(4) == 0;
            let made = world.snapshot(&mut || {
                follower.step(&mut random);
                world.act(&mut random);
                blocks += 1;
                if blocks % 5 == 0 {
                    follower.check_crash(random.below(1 << 20), &at);
                }
                match is_given_up && blocks > 3 {
                    true => Err(EngineError::new("it is given up")),
                    false => Ok(()),
                }
            });
            assert!(made.is_ok() || is_given_up, "{at}: {made:?}");
            (0..random.below(9)).for_each(|_| follower.step(&mut random));
            world.wait();
            let offset = follower.offset;
            let other = follower.check_crash(random.below(1 << 20), &at);
            let found = other.keyspace.position(0).map_or(0, |stream| stream.offset);
            assert_eq!(found, offset, "{at}: what was durable is there");
            drop(follower);
            world = other;
        }
    }
}

#[test]
fn a_full_disk_leaves_data_and_position_in_memory_as_they_are_on_the_disk() {
    for seed in 0..20 {
        let mut random = Random(seed, 12);
        let world = World::open(SimulatedDisk::new(seed));
        let mut follower = Follower::new(&world);
        follower.follow(&mut random).expect("there is room");
        world.wait();
        let mut load = world.keyspace.begin_load(0).expect("there is room");
        world.disk.set_capacity_bytes(Some(60_000 + 1000 * seed));
        let refused = (0..20_000).find_map(|_| follower.follow(&mut random).err());
        assert!(matches!(refused, Some(WriteError::Full(_))), "{refused:?}");
        // A load is refused as a whole, and what was served is served still.
        load.sorted_set(b"large", None);
        let name = "x".repeat(1000);
        let refused = (0..20_000)
            .find_map(|n| load.member(format!("{name}{n}").as_bytes(), f64::from(n)).err());
        assert!(matches!(refused, Some(WriteError::Full(_))), "{refused:?}");
        drop(load);
        assert_eq!(world.keys_of(load_number(0)), []);
        world.wait();
        follower.check_crash(seed, &format!("seed {seed}"));
        let position = World::open(world.disk.crash(seed)).keyspace.positions();
        assert_eq!(position, world.keyspace.positions());
    }
}

#[test]
fn what_is_applied_when_room_was_reserved_for_it_is_not_refused() {
    let world = World::open(SimulatedDisk::new(1));
    world.keyspace.link("fleet").expect("one is free");
    world.disk.set_capacity_bytes(Some(100_000));
    let never = || -> ((), StreamPosition) { panic!("there is no room for it") };
    let refused = world.keyspace.follow(0, 200_000, never).err();
    assert!(matches!(refused, Some(WriteError::Full(_))), "{refused:?}");
    let written = world.keyspace.follow(0, 40_000, || {
        let member = [b'x'; 50];
        let add = |n: u64| {
            let scores = [(&member[..], n as f64)];
            world.keyspace.add_scores(served_number(0), b"key", &scores, ScoreRules::default())
        };
        ((0..400).all(|n| add(n).is_ok()), stream(1))
    });
    assert_eq!(written.map(|written| written.value), Ok(true));
}

#[test]
fn readers_see_all_of_a_full_synchronization_or_nothing() {
    let world = World::open(SimulatedDisk::new(1));
    let keyspace = &world.keyspace;
    assert_eq!(keyspace.link("fleet"), Some(0));
    keyspace.set_routes(vec![route("*", &[0])]);
    assert_eq!(keyspace.role_of(0, b"a"), KeyRole::Awaited);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                let scores = keyspace.read_all(0, &[b"a", b"b"], |values| {
                    let score = |value: Option<&crate::Value>| value?.ordered()?.score(b"m");
                    [score(values[0]), score(values[1])]
                });
                assert_eq!(scores[0], scores[1], "both are of one synchronization");
                let score = scores[0].map_or(0, |score| score as u32);
                assert!(score >= seen, "{score} after {seen}");
                seen = score;
            }
            seen
        });
        for round in 1..200 {
            let mut load = keyspace.begin_load(0).expect("there is room");
            for key in [b"a", b"b"] {
                load.sorted_set(key, None);
                load.member(b"m", f64::from(round)).expect("there is room");
                load.end_sorted_set().expect("there is room");
            }
            load.finish(stream(round.into()), || ()).expect("there is room");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("it has seen nothing else") < 200);
    });
    assert_eq!(keyspace.role_of(0, b"a"), KeyRole::Followed);
}

#[test]
fn followed_keys_become_own_ones_in_one_step_whichever_side_has_more() {
    for own_keys in [0, 1, 9] {
        let world = World::open(SimulatedDisk::new(1));
        let keyspace = &world.keyspace;
        assert_eq!([keyspace.link("a"), keyspace.link("b")], [Some(0), Some(1)]);
        let add = |number: usize, key: &str, score: f64| {
            let scores = [(&b"m"[..], score)];
            keyspace.add_scores(number, key.as_bytes(), &scores, ScoreRules::default())
        };
        for n in 0..own_keys {
            add(0, &format!("own{n}"), 1.0).expect("there is room");
        }
        if own_keys > 0 {
            add(0, "both", 1.0).expect("there is room");
        }
        for (link, keys) in [(0, ["x", "both", "moved"]), (1, ["y", "z", "moved"])] {
            let write = || {
                let score = 2.0 + link as f64;
                keys.iter().for_each(|key| assert!(add(served_number(link), key, score).is_ok()));
                ((), stream(5))
            };
            keyspace.follow(link, 0, write).expect("there is room");
        }
        keyspace.set_routes(vec![route("[xyzbm]*", &[0, 1])]);
        let mut expected = world.keys_of(0);
        assert_eq!(expected.len(), 5 + own_keys, "each key once");
        let between = &mut || Ok(());
        world.snapshot(between).expect("nothing is wrong with the disk");
        let promoted = keyspace.promote(&[1]).expect("there is room");
        assert_eq!(promoted.value, 5);
        assert_eq!(keyspace.positions(), []);
        assert!(keyspace.routes().is_empty());
        world.wait();
        let reopened = World::open(world.disk.crash(1));
        expected.sort();
        for world in [&world, &reopened] {
            assert_eq!(world.keys_of(0), expected, "with {own_keys} own keys");
            assert_eq!(world.keys_of(served_number(0)), []);
            assert_eq!(world.keyspace.role_of(0, b"x"), KeyRole::Own);
        }
        add(0, "x", 9.0).expect("it is an own key now");
    }
}

#[test]
fn a_link_that_is_forgotten_takes_its_data_along_and_its_number_is_free() {
    let world = World::open(SimulatedDisk::new(1));
    let keyspace = &world.keyspace;
    let mut random = Random(1, 9);
    for name in ["a", "b"] {
        let link = keyspace.link(name).expect("one is free");
        let write = || {
            (0..30).for_each(|_| apply(&world, served_number(link), &mut random).expect("room"));
            ((), stream(7))
        };
        keyspace.follow(link, 0, write).expect("there is room");
    }
    let kept = world.keys_of(served_number(1));
    keyspace.forget_links(|name| name == "a").expect("there is room");
    assert_eq!(keyspace.follow(0, 0, || ((), stream(8))).map(|it| it.value), Err(no_link()));
    world.wait();
    let reopened = World::open(world.disk.crash(1));
    for world in [&world, &reopened] {
        assert_eq!(world.keys_of(served_number(0)), []);
        assert_eq!(world.keys_of(served_number(1)), kept);
        let names: Vec<String> = world.keyspace.positions().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["b"]);
        assert_eq!([world.keyspace.link("b"), world.keyspace.link("c")], [Some(1), Some(0)]);
    }
}

fn no_link() -> WriteError {
    WriteError::Refused("there is no link 0".to_owned())
}

#[test]
fn a_panic_while_a_stream_is_applied_leaves_no_position_that_is_wrong() {
    let world = World::open(SimulatedDisk::new(1));
    let keyspace = &world.keyspace;
    let link = keyspace.link("fleet").expect("one is free");
    let mut random = Random(1, 9);
    let mut write = || (0..30).for_each(|_| drop(apply(&world, served_number(link), &mut random)));
    keyspace.follow(link, 0, || (write(), stream(7))).expect("there is room");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = keyspace.follow(link, 0, || -> ((), StreamPosition) {
            write();
            panic!("in the middle of it")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(keyspace.position(link), None);
    assert!(!world.keys_of(served_number(link)).is_empty(), "what is there is served");
    world.wait();
    let reopened = World::open(world.disk.crash(1));
    assert_eq!(reopened.keyspace.positions(), []);
    assert_eq!(reopened.keys_of(served_number(link)), []);
}

#[test]
fn a_load_takes_any_scores_and_refuses_what_is_no_number() {
    let world = World::open(SimulatedDisk::new(1));
    let keyspace = &world.keyspace;
    keyspace.link("fleet").expect("one is free");
    let mut load = keyspace.begin_load(0).expect("there is room");
    let scores = [1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, -0.0, -3.0, 4_503_599_627_370_495.0];
    load.sorted_set(b"k", Some(FAR_MILLIS));
    for (n, score) in scores.into_iter().enumerate() {
        load.member(format!("m{n}").as_bytes(), score).expect("it is a number");
    }
    load.end_sorted_set().expect("there is room");
    load.sorted_set(b"empty", Some(FAR_MILLIS));
    load.end_sorted_set().expect("there is room");
    load.finish(stream(1), || ()).expect("there is room");
    let dump = world.keys_of(served_number(0));
    assert_eq!(dump.len(), 1, "a set without members is no key");
    let (_, _, expires, rows, _) = &dump[0];
    assert_eq!((*expires, rows.len()), (Some(FAR_MILLIS), scores.len()));
    let mut load = keyspace.begin_load(0).expect("there is room");
    load.sorted_set(b"k", None);
    let refused = load.member(b"m", f64::NAN);
    assert!(matches!(refused, Err(WriteError::Refused(_))), "{refused:?}");
    for _ in 0..2 {
        load.sorted_set(b"twice", None);
        load.member(b"m", 1.0).expect("it is a number");
    }
    load.end_sorted_set().expect("the first one was never ended");
    load.sorted_set(b"twice", None);
    load.member(b"n", 1.0).expect("it is a number");
    let refused = load.end_sorted_set();
    assert_eq!(refused, Err(WriteError::Refused("the key 'twice' comes twice".to_owned())));
    drop(load);
    assert_eq!(world.keys_of(served_number(0)), dump, "what was served is served still");
}
