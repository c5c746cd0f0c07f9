//! Snapshots against the simplest twin there is: the same data in memory.
//!
//! Operations of all kinds are drawn between any two blocks of a snapshot with tiny blocks, so that
//! every value is caught half written, renamed, copied, emptied, exchanged and replaced. What is
//! read back must be what memory holds, and after a crash too.

use std::sync::Arc;

use whered_geo::Cell;
use whered_ip::{Block, MemberList, Prefix};
use whered_store::{Journal, JournalOptions, SimulatedDisk, Storage};

use super::open::{Parts, open};
use super::save::Sizes;
use super::snapshot::{SnapshotParts, make};
use crate::clock::Clock;
use crate::error::EngineError;
use crate::feeds::state::States;
use crate::generation::changes::Changes;
use crate::journal::log::{Log, Ticket};
use crate::keyspace::value::Data;
use crate::keyspace::{AddCondition, Keyspace, ScoreRules, SetText, TextExpiry};
use crate::prefix_sets::PrefixSets;

const TINY: Sizes = Sizes { block_bytes: 300, large_len: 12, keys_at_once: 2 };
/// The databases that are used.
const NUMBERS: u64 = 3;
/// After any time that a test runs at.
const FAR_MILLIS: u64 = 4_000_000_000_000;

/// The state, and how many members there are: with few, keys lose their last one all the time.
pub(super) struct Random(pub(super) u64, pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn number(&mut self) -> usize {
        self.below(NUMBERS) as usize
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{}", self.below(9)).into_bytes()
    }

    fn member(&mut self) -> Vec<u8> {
        let long = if self.below(40) == 0 { "x".repeat(1100) } else { String::new() };
        format!("m{}{long}", self.below(self.1)).into_bytes()
    }

    /// Mostly cells, so that collections stay collections for a while.
    fn score(&mut self) -> f64 {
        let cell = (self.below(1 << 26) << 26 | self.below(1 << 26)) as f64;
        if self.below(300) == 0 { cell + 0.5 } else { cell }
    }
}

/// A disk, and what lies on it as memory has it.
pub(super) struct World {
    pub(super) disk: SimulatedDisk,
    storage: Arc<dyn Storage>,
    pub(super) keyspace: Keyspace,
    prefix_sets: PrefixSets,
    changes: Changes,
    log: Arc<Log>,
}

pub(super) type Dump = Vec<(usize, Vec<u8>, Option<u64>, Vec<(Vec<u8>, u64)>, Vec<u8>)>;

impl World {
    pub(super) fn open(disk: SimulatedDisk) -> World {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let unlogged = Arc::new(Log::new(None, 0));
        let keyspace = Keyspace::new(Arc::clone(&unlogged), Clock::default());
        let prefix_sets = PrefixSets::new(unlogged);
        let mut changes = Changes::default();
        let feeds = States::default();
        let parts = Parts {
            keyspace: &keyspace,
            prefix_sets: &prefix_sets,
            changes: &mut changes,
            feeds: &feeds,
        };
        let options = JournalOptions { segment_size_bytes: 1 << 14, ..JournalOptions::default() };
        let silent: super::ShowProgress = Box::new(|_| {});
        let (journal, report) = open(&storage, options, parts, &silent).expect("it opens");
        let last_sequence = report.recovery.map_or(0, |recovery| recovery.last_sequence);
        let log = Arc::new(Log::new(Some(journal), last_sequence));
        let (keyspace, prefix_sets) = (keyspace.with_log(&log), prefix_sets.with_log(&log));
        World { disk, storage, keyspace, prefix_sets, changes, log }
    }

    fn journal(&self) -> &Journal {
        self.log.journal().expect("it has one")
    }

    fn dump(&self) -> (Dump, Vec<String>) {
        let dump = (0..NUMBERS as usize).flat_map(|number| self.keys_of(number)).collect();
        let mut prefixes = Vec::new();
        for name in self.prefix_sets.names() {
            prefixes.push(name.clone());
            self.prefix_sets.read(&name, |set| {
                prefixes.extend(set.iter(0).map(|member| format!("{name} {member:?}")));
            });
        }
        (dump, prefixes)
    }

    /// All keys of one database.
    pub(super) fn keys_of(&self, number: usize) -> Dump {
        let mut dump = Vec::new();
        let mut keys = self.keyspace.keys(number);
        keys.sort();
        for key in keys {
            let expires = self.keyspace.expires_at_millis(number, &key).flatten();
            let (rows, text) = self
                .keyspace
                .inspect(number, &key, |value| {
                    let rows = value.ordered().map(|ordered| {
                        ordered.iter().map(|(m, s)| (m.to_vec(), s.to_bits())).collect()
                    });
                    let is_points = matches!(value.data(), Data::Collection(_));
                    if let Some(points) = value.points() {
                        assert_eq!(points.iter().count(), points.len());
                    }
                    let text = value.text().map_or(vec![u8::from(is_points)], <[u8]>::to_vec);
                    (rows.unwrap_or_default(), text)
                })
                .expect("the key is there");
            // Which kind of sorted set it is does not show; all but that must be equal.
            let text = if text.len() == 1 { Vec::new() } else { text };
            dump.push((number, key, expires, rows, text));
        }
        dump
    }

    /// One operation of any kind; refusals are fine.
    pub(super) fn act(&self, random: &mut Random) {
        let (keyspace, number, key) = (&self.keyspace, random.number(), random.key());
        let always = AddCondition::Always;
        let _: Option<Ticket> = match random.below(40) {
            0..10 => {
                let members: Vec<Vec<u8>> =
                    (0..=random.below(6)).map(|_| random.member()).collect();
                let cell = |random: &mut Random| {
                    let bits = random.below(1 << 26) << 26 | random.below(1 << 26);
                    Cell::from_bits(bits).expect("52 bits")
                };
                let points: Vec<(&[u8], Cell)> =
                    members.iter().map(|member| (&member[..], cell(random))).collect();
                keyspace.add_points(number, &key, &points, always).ok().map(|w| w.ticket)
            }
            10..16 => {
                let rows: Vec<(Vec<u8>, f64)> =
                    (0..=random.below(6)).map(|_| (random.member(), random.score())).collect();
                let rows: Vec<(&[u8], f64)> = rows.iter().map(|(m, s)| (&m[..], *s)).collect();
                let rules = ScoreRules::default();
                keyspace.add_scores(number, &key, &rows, rules).ok().map(|w| w.ticket)
            }
            16..20 => {
                let members: Vec<Vec<u8>> =
                    (0..=random.below(9)).map(|_| random.member()).collect();
                let members: Vec<&[u8]> = members.iter().map(|member| &member[..]).collect();
                keyspace.remove_members(number, &key, &members).ok().map(|w| w.ticket)
            }
            20..23 => {
                let first = random.below(20) as usize;
                let end = first + random.below(20) as usize;
                let written = keyspace.remove_ranks(number, &key, |ordered| {
                    first.min(ordered.len())..end.min(ordered.len())
                });
                written.ok().map(|w| w.ticket)
            }
            23..39 => self.act_on_whole(random, number, &key),
            39 => {
                let count = random.below(4);
                let written =
                    keyspace.isolated(|| (0..count).for_each(|_| self.act_in_batch(random)));
                Some(written.ticket)
            }
            _ => None,
        };
    }

    /// One operation on a whole key, or on a prefix set.
    fn act_on_whole(&self, random: &mut Random, number: usize, key: &[u8]) -> Option<Ticket> {
        let (keyspace, always) = (&self.keyspace, AddCondition::Always);
        match 23 + random.below(16) {
            23 => keyspace
                .pop(number, key, 1 + random.below(80) as usize, true)
                .ok()
                .map(|w| w.ticket),
            24..26 => keyspace.delete_keys(number, &[key]).ok().map(|w| w.ticket),
            26..28 => {
                let text = format!("text {}", random.below(1000));
                let expiry = match random.below(3) {
                    0 => TextExpiry::Keep,
                    1 => TextExpiry::At(FAR_MILLIS + random.below(100)),
                    _ => TextExpiry::Never,
                };
                let set =
                    SetText { text: text.as_bytes(), condition: always, expiry, wants_old: false };
                keyspace.set_text(number, key, &set).ok().map(|w| w.ticket)
            }
            28 => {
                let rows: Vec<(Vec<u8>, f64)> = (0..random.below(40))
                    .map(|n| (format!("s{n}").into_bytes(), random.score()))
                    .collect();
                let rows: Vec<(&[u8], f64)> = rows.iter().map(|(m, s)| (&m[..], *s)).collect();
                keyspace.store_scores(number, key, &rows).ok().map(|w| w.ticket)
            }
            29..31 => {
                let at = (FAR_MILLIS + random.below(1000)) as i64;
                let condition = crate::keyspace::ExpiryCondition::default();
                keyspace.set_expiry(number, key, at, condition).ok().map(|w| w.ticket)
            }
            31 => keyspace.persist(number, key).ok().map(|w| w.ticket),
            32..34 => {
                let to = random.key();
                keyspace.rename(number, key, &to, false).ok().map(|w| w.ticket)
            }
            34..36 => {
                let (to_number, to) = (random.number(), random.key());
                keyspace.copy((number, key), (to_number, &to), true).ok().map(|w| w.ticket)
            }
            36 => keyspace.move_key(number, key, random.number()).ok().map(|w| w.ticket),
            37 if random.below(4) == 0 => {
                keyspace.swap_numbers(number, random.number()).ok().map(|w| w.ticket)
            }
            38 if random.below(12) == 0 => keyspace.flush(Some(number)).ok().map(|w| w.ticket),
            38 => self.act_on_sets(random),
            _ => None,
        }
    }

    /// One operation on a prefix set, with prefixes and ranges.
    fn act_on_sets(&self, random: &mut Random) -> Option<Ticket> {
        let block = |random: &mut Random| -> Block {
            let n = random.below(30);
            let text = match random.below(4) {
                0 => format!("10.{n}.0.3-10.{n}.1.9"),
                1 => format!("2001:db8:{n}::1-2001:db8:{n}::9"),
                _ => format!("10.{n}.0.0/16"),
            };
            text.parse().expect("a block")
        };
        let set = format!("set{}", random.below(2));
        let at = (random.below(2) == 0).then_some(FAR_MILLIS);
        let sets = &self.prefix_sets;
        let one = block(random);
        let ticket = match random.below(6) {
            0 | 1 => sets.remove(&set, &[one]).ok()?.ticket,
            2 | 3 => sets.add(&set, &[one], Some(b"v"), at).ok()?.ticket,
            4 => {
                let mut list = MemberList::new();
                for n in 0..random.below(20) {
                    list.push(block(random), (n % 3 == 0).then_some(b"w"), at);
                }
                sets.load(&set, list, random.below(2) == 0).ok()?.ticket
            }
            _ => {
                sets.compact_all();
                return None;
            }
        };
        Some(ticket)
    }

    /// Operations that transactions are made of.
    fn act_in_batch(&self, random: &mut Random) {
        let (keyspace, number, key, to) =
            (&self.keyspace, random.number(), random.key(), random.key());
        match random.below(5) {
            4 => drop(self.act_on_sets(random)),
            0 => drop(keyspace.copy((number, &key), (number, &to), true)),
            1 => drop(keyspace.rename(number, &key, &to, false)),
            2 => drop(keyspace.remove_ranks(number, &key, |ordered| 0..ordered.len().min(3))),
            _ => {
                let rows = [(&b"batched"[..], random.score())];
                drop(keyspace.add_scores(number, &key, &rows, ScoreRules::default()));
            }
        }
    }

    /// Makes a snapshot; `between` is called before each block.
    pub(super) fn snapshot(
        &self,
        between: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let parts = SnapshotParts {
            keyspace: &self.keyspace,
            prefix_sets: &self.prefix_sets,
            changes: &|| self.changes.clone(),
            feeds: &States::default(),
            log: &self.log,
        };
        let made = make(&self.storage, self.journal(), &parts, TINY, &mut |_| between());
        if made.is_err() {
            self.keyspace.abandon_saving();
        }
        made.map(drop)
    }

    pub(super) fn wait(&self) {
        self.journal().sync().expect("the disk works");
    }
}

fn assert_same(world: &World, other: &World, what: &str) {
    for keyspace in [&world.keyspace, &other.keyspace] {
        assert_eq!(keyspace.memory_bytes(), keyspace.recounted_bytes(), "{what}: the account");
    }
    let ((keys, prefixes), (other_keys, other_prefixes)) = (world.dump(), other.dump());
    for (expected, found) in keys.iter().zip(&other_keys) {
        assert_eq!(expected, found, "{what}");
    }
    assert_eq!(keys.len(), other_keys.len(), "{what}");
    assert_eq!(prefixes, other_prefixes, "{what}");
}

#[test]
fn what_is_read_back_is_what_memory_held_whatever_happened_during_snapshots() {
    for seed in 0..120 {
        let mut random = Random(seed, [60, 3, 12][seed as usize % 3]);
        let mut world = World::open(SimulatedDisk::new(seed));
        for round in 0..3 {
            for _ in 0..random.below(200) {
                world.act(&mut random);
            }
            for _ in 0..=random.below(3) {
                let eager = random.below(6);
                world
                    .snapshot(&mut || {
                        for _ in 0..random.below(eager + 1) {
                            world.act(&mut random);
                        }
                        Ok(())
                    })
                    .expect("nothing is wrong with the disk");
                for _ in 0..random.below(20) {
                    world.act(&mut random);
                }
            }
            world.wait();
            // A crash loses nothing of this, and the next process goes on from it.
            let other = World::open(world.disk.crash(random.below(u64::MAX >> 33)));
            assert_same(&world, &other, &format!("seed {seed}, round {round}"));
            world = other;
        }
    }
}

#[test]
fn a_crash_in_the_middle_of_a_snapshot_loses_nothing() {
    for seed in 0..60 {
        let mut random = Random(seed, [60, 3, 12][seed as usize % 3]);
        let world = World::open(SimulatedDisk::new(seed));
        for _ in 0..300 {
            world.act(&mut random);
        }
        world.snapshot(&mut || Ok(())).expect("nothing is wrong with the disk");
        let crash_at = random.below(60);
        let mut block = 0;
        let _ = world.snapshot(&mut || {
            world.act(&mut random);
            block += 1;
            if block == crash_at {
                world.wait();
                let other = World::open(world.disk.crash(seed));
                assert_same(&world, &other, &format!("seed {seed}"));
                return Err(EngineError::new("that was all"));
            }
            Ok(())
        });
        // One that was given up does not stand in the way of the next.
        world.snapshot(&mut || Ok(())).expect("nothing is wrong with the disk");
        world.wait();
        assert_same(&world, &World::open(world.disk.crash(seed + 1)), &format!("seed {seed}"));
    }
}

/// What a transaction has put into a key, and the members of a set, which shall be the same.
fn pair(world: &World) -> (String, Vec<String>) {
    let text = world.keyspace.inspect(0, b"pair", |value| value.text().map(<[u8]>::to_vec));
    let text = String::from_utf8(text.flatten().unwrap_or_default()).expect("digits");
    let members = world
        .prefix_sets
        .read("pair", |set| set.iter(0).map(|member| member.block.to_string()).collect::<Vec<_>>());
    (text, members.unwrap_or_default())
}

#[test]
fn a_power_cut_at_any_moment_of_a_snapshot_tears_no_transaction_of_keys_and_sets() {
    let transact = |world: &World, n: u64| {
        let block = |n: u64| format!("10.0.{n}.0/24").parse::<Block>().expect("a block");
        world.keyspace.isolated(|| {
            world.prefix_sets.add("pair", &[block(n)], None, None).expect("there is room");
            let text = block(n).to_string();
            let (condition, expiry) = (AddCondition::Always, TextExpiry::Never);
            let set = SetText { text: text.as_bytes(), condition, expiry, wants_old: false };
            world.keyspace.set_text(0, b"pair", &set).expect("there is room");
            if let Some(last) = n.checked_sub(1) {
                world.prefix_sets.remove("pair", &[block(last)]).expect("it is there");
            }
        });
    };
    let mut found_numbers = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut random = Random(seed, 12);
        let world = World::open(SimulatedDisk::new(seed));
        (0..60).for_each(|_| world.act(&mut random));
        let mut n = 0;
        let mut crash = |world: &World| {
            for seed in 0..3 {
                let (text, members) = pair(&World::open(world.disk.crash(seed)));
                let expected = if text.is_empty() { vec![] } else { vec![text.clone()] };
                assert_eq!(members, expected, "seed {seed}");
                found_numbers.insert(text);
            }
        };
        for _ in 0..2 {
            let between = &mut || {
                transact(&world, n);
                n += 1;
                if random.below(4) == 0 {
                    crash(&world);
                }
                Ok(())
            };
            world.snapshot(between).expect("nothing is wrong with the disk");
            crash(&world);
        }
    }
    assert!(found_numbers.len() > 12, "{found_numbers:?}");
}

/// A world whose first snapshot has `during` happen after its beginning and before anything is
/// read; `saved_before` is what the walk has had already.
fn reopened_after(before: impl Fn(&World), during: impl Fn(&World)) -> (World, World) {
    let world = World::open(SimulatedDisk::new(1));
    // Something that makes a block before the walk begins.
    let prefix: Prefix = "10.0.0.0/8".parse().expect("a prefix");
    world.prefix_sets.add("set", &[prefix], None, None).expect("there is room");
    before(&world);
    let mut is_first = true;
    let between = &mut || {
        if std::mem::take(&mut is_first) {
            during(&world);
        }
        Ok(())
    };
    world.snapshot(between).expect("nothing is wrong with the disk");
    world.wait();
    let other = World::open(world.disk.crash(1));
    (world, other)
}

fn add(world: &World, key: &[u8], members: &[&[u8]]) {
    let rows: Vec<(&[u8], f64)> = members.iter().map(|member| (*member, 7.0)).collect();
    world.keyspace.add_scores(0, key, &rows, ScoreRules::default()).expect("there is room");
}

fn remove(world: &World, key: &[u8], member: &[u8]) {
    world.keyspace.remove_members(0, key, &[member]).expect("there is room");
}

#[test]
fn a_key_that_only_replay_sees_without_members_keeps_its_expiry_time() {
    let before = |world: &World| {
        add(world, b"key", &[b"a", b"m"]);
        let condition = crate::keyspace::ExpiryCondition::default();
        world.keyspace.set_expiry(0, b"key", FAR_MILLIS as i64, condition).expect("there is room");
    };
    // What is saved is m alone, and replay removes that first.
    let during = |world: &World| {
        remove(world, b"key", b"m");
        add(world, b"key", &[b"m"]);
        remove(world, b"key", b"a");
    };
    let (world, other) = reopened_after(before, during);
    assert_same(&world, &other, "the expiry time");
}

#[test]
fn a_renamed_key_replaces_another_although_it_has_lost_its_members_since() {
    for is_emptied in [false, true] {
        let before = |world: &World| {
            add(world, b"from", &[b"a", b"m"]);
            add(world, b"other", &[b"z"]);
            world.keyspace.copy((0, b"other"), (0, b"to"), true).expect("there is room");
        };
        let during = |world: &World| {
            // It is saved first under its old name, with what it has when that is over.
            world.keyspace.rename(0, b"to", b"saved", false).expect("there is room");
            world.keyspace.rename(0, b"saved", b"to", false).expect("there is room");
            remove(world, b"from", b"m");
            world.keyspace.rename(0, b"from", b"to", false).expect("there is room");
            add(world, b"to", &[b"m"]);
            remove(world, b"to", b"a");
            if is_emptied {
                remove(world, b"to", b"m");
            }
        };
        let (world, other) = reopened_after(before, during);
        assert_same(&world, &other, &format!("emptied: {is_emptied}"));
    }
}

#[test]
fn a_queue_that_is_popped_while_a_snapshot_is_made_is_saved_about_once() {
    const MEMBERS: u32 = 2000;
    let world = World::open(SimulatedDisk::new(1));
    let names: Vec<String> = (0..MEMBERS).map(|n| format!("member{n}")).collect();
    let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    add(&world, b"queue", &names);
    let mut blocks = 0;
    let between = &mut || {
        blocks += 1;
        if world.keyspace.members_len(0, b"queue") > 1000 {
            world.keyspace.pop(0, b"queue", 1, false).expect("there is room");
        }
        Ok(())
    };
    world.snapshot(between).expect("nothing is wrong with the disk");
    // The rows have about 21 bytes each.
    assert!(blocks < 2 * MEMBERS * 21 / TINY.block_bytes as u32, "{blocks} blocks");
    world.wait();
    assert_same(&world, &World::open(world.disk.crash(1)), "popped");
}

#[test]
fn a_snapshot_is_due_for_what_a_start_replayed_and_again_after_one_that_failed() {
    let options =
        super::SnapshotOptions { journal_size_bytes: 1000, ..super::SnapshotOptions::default() };
    let recovery = whered_store::RecoveryReport { bytes: 900, ..Default::default() };
    let opened = super::OpenReport { recovery: Some(recovery), ..Default::default() };
    let snapshots = super::Snapshots::new(options, &opened);
    assert!(!snapshots.is_due(99, 99));
    assert!(snapshots.is_due(100, 100), "the process before has written most of it");
    snapshots.begin(100, 100);
    assert!(!snapshots.is_due(100, 100), "one is being made");
    snapshots.end(Err("the disk is full".to_owned()));
    assert!(!snapshots.is_due(100, 100), "not at once");
    snapshots.status().last_end -= super::RETRY_AFTER;
    assert!(snapshots.is_due(100, 100), "the journal is as long as it was");
    snapshots.begin(200, 200);
    snapshots.end(Ok(10));
    assert!(!snapshots.is_due(1199, 1199) && snapshots.is_due(1200, 1200));
}

#[test]
fn threads_that_write_while_snapshots_are_made_lose_nothing() {
    for seed in 0..12 {
        let world = World::open(SimulatedDisk::new(seed));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let ordering = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (world, is_over) = (&world, &is_over);
                scope.spawn(move || {
                    let mut random = Random(1000 * seed + thread, [60, 3][seed as usize % 2]);
                    while !is_over.load(ordering) {
                        world.act(&mut random);
                    }
                });
            }
            for round in 0..6 {
                let mut blocks = 0;
                let made = world.snapshot(&mut || {
                    blocks += 1;
                    match round == 3 && blocks > 5 {
                        true => Err(EngineError::new("it is given up")),
                        false => Ok(()),
                    }
                });
                assert!(made.is_ok() || round == 3, "{made:?}");
            }
            is_over.store(true, ordering);
        });
        world.wait();
        assert_same(&world, &World::open(world.disk.crash(seed)), &format!("seed {seed}"));
    }
}
