//! Feeds that do not fit into the budget together, against the same feeds without one.
//!
//! The twin is an engine in memory that is given the same uploads: rows, their order and the
//! collection's members must be equal, however batches, evictions, questions, snapshots, restarts
//! and power cuts follow each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_store::SimulatedDisk;

use super::tests::{Random, Sighting, in_memory, options, sightings, upload};
use super::{Feed, FeedLimits, FeedSource, HotOptions, Upload};
use crate::engine::StartFiles;
use crate::engine::{Disk, Engine, EngineOptions};
use crate::tables::{Cell, Row, Table, Value};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three feeds of the same kind; the last one keeps the latest places only.
fn feeds() -> Vec<FeedSource> {
    let feed = |name: &&str| {
        let mut source = sightings();
        source.name = (*name).to_owned();
        source.collection = Some(format!("places-{name}"));
        for table in &mut source.tables {
            table.name = format!("{}-{name}", table.name);
        }
        if *name == "c" {
            source.merge_within_meters = None;
            source.tables.remove(0);
        }
        source
    };
    NAMES.iter().map(feed).collect()
}

fn open(
    disk: &SimulatedDisk,
    sources: Vec<FeedSource>,
    budget: u64,
) -> Result<Arc<Engine>, String> {
    let mut options = options(sources);
    options.setup.hot = HotOptions { memory_budget_bytes: budget, turn: Duration::ZERO };
    let loaded = StartFiles::read(&options.setup).expect("there are no files");
    let opened = Engine::open_on(options, loaded, Some(Disk::simulated(disk)));
    Ok(opened.map_err(|error| error.to_string())?.0)
}

fn feed(engine: &Engine, number: usize) -> Arc<Feed> {
    Arc::clone(engine.feeds().get(NAMES[number]).expect("it is there"))
}

fn rows(table: &Table) -> Vec<Row> {
    let mut rows = Vec::new();
    table.scan(0, usize::MAX, &mut |row| rows.push(row.to_row())).expect("it can be read");
    // Batches are divided otherwise by the twin.
    rows.into_iter().map(|row| Row { batch: 0, ..row }).collect()
}

fn members(engine: &Engine, number: usize) -> Vec<(Vec<u8>, u64)> {
    let key = format!("places-{}", NAMES[number]);
    let read = engine.keyspace().inspect(0, key.as_bytes(), |value| {
        let ordered = value.ordered().expect("they are points");
        ordered.iter().map(|(member, score)| (member.to_vec(), score.to_bits())).collect()
    });
    read.unwrap_or_default()
}

/// Lets time go by, also where a thread that has ended has woken this one beforehand.
fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

fn step_all(engine: &Engine, number: usize) {
    while engine.step_feed(&feed(engine, number)).expect("nothing is wrong now").batch > 0 {}
}

/// Compares everything with a twin that gets the same uploads.
fn check(engine: &Engine, uploads: &[Vec<Vec<u8>>; 3], what: &str) {
    let twin = in_memory(feeds());
    for (number, uploads) in uploads.iter().enumerate() {
        let its = feed(&twin, number);
        for bytes in uploads {
            its.push(Upload { bytes, ..Upload::default() }).expect("it is one");
        }
        step_all(&twin, number);
        let tables = feed(engine, number).tables().to_vec();
        for (table, twins) in tables.iter().zip(its.tables()) {
            let (found, expected) = (rows(table), rows(twins));
            assert!(found == expected, "{what}: table {}", table.name());
            assert_eq!(table.len(), expected.len(), "{what}");
            let last = table.schema().columns.last().expect("it has columns").name.clone();
            let top = |table: &Table| -> Vec<Row> {
                let top = table.top(&last, 3, true).expect("it can be read");
                top.into_iter().map(|row| Row { batch: 0, ..row }).collect()
            };
            assert_eq!(top(table), top(twins), "{what}");
            for row in expected.iter().step_by(7) {
                let key: Vec<Cell<'_>> = row.key.iter().map(Value::as_cell).collect();
                let got = table.get(&key).expect("it can be read").expect("it is there");
                assert_eq!(got.columns, row.columns, "{what}: table {}", table.name());
            }
        }
        assert_eq!(members(engine, number), members(&twin, number), "{what}: {}", NAMES[number]);
    }
}

/// Pushes, steps, asks and snapshots until the power is gone.
fn work(
    engine: &Engine,
    random: &mut Random,
    uploads: &mut [Vec<Vec<u8>>; 3],
    acknowledged: &mut [usize; 3],
    rounds: u64,
) -> Result<(), String> {
    for _ in 0..rounds {
        let number = random.below(3) as usize;
        let its = feed(engine, number);
        match random.below(12) {
            0..5 => {
                let sightings: Vec<Sighting> =
                    (0..1 + random.below(6)).map(|_| Sighting::random(random)).collect();
                let bytes = upload(&sightings);
                let pushed = its.push(Upload { bytes: &bytes, ..Upload::default() });
                let pushed = pushed.map_err(|error| error.to_string())?;
                uploads[number].truncate(pushed.id as usize - 1);
                uploads[number].push(bytes);
                if random.below(2) == 0 {
                    its.wait(pushed.ticket).map_err(|error| error.to_string())?;
                    acknowledged[number] = uploads[number].len();
                }
            }
            5..10 => {
                engine.step_feed(&its).map_err(|error| error.to_string())?;
            }
            10 => {
                let table = &its.tables()[0];
                let mut seen = 0;
                table.scan(0, 50, &mut |_| seen += 1).map_err(|error| error.to_string())?;
                table.top("seen", 2, true).map_err(|error| error.to_string())?;
            }
            _ => {
                engine.snapshot().map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

#[test]
fn feeds_that_take_turns_in_memory_are_as_those_that_do_not_whenever_the_power_goes() {
    let (mut evictions, mut starts_cold) = (0, 0);
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut disk = SimulatedDisk::new(seed);
        let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
        // Nothing fits beside another; or two of three do.
        for life in 0..4 {
            let what = format!("seed {seed}, life {life}");
            let budget = [1, 700_000, 0][random.below(3) as usize];
            let mut acknowledged = [0; 3];
            let engine = open(&disk, feeds(), budget).unwrap_or_else(|e| panic!("{what}: {e}"));
            disk.cut_power_after(20 + random.below(700));
            let _ = work(&engine, &mut random, &mut uploads, &mut acknowledged, 90);
            evictions += engine.feeds().hot_stats().evictions;
            drop(engine);
            disk = match random.below(3) {
                0 => disk.after_process_death(),
                _ => disk.crash(random.below(1 << 40)),
            };
            let budget = [1, 700_000, 0][random.below(3) as usize];
            let engine = open(&disk, feeds(), budget).unwrap_or_else(|e| panic!("{what}: {e}"));
            starts_cold += (0..3).filter(|n| !feed(&engine, *n).stats().is_resident).count();
            for number in 0..3 {
                step_all(&engine, number);
                let applied = feed(&engine, number).state.header().position as usize;
                assert!(applied >= acknowledged[number], "{what}: an acknowledged one is lost");
                assert!(applied <= uploads[number].len(), "{what}");
                uploads[number].truncate(applied);
            }
            check(&engine, &uploads, &what);
            engine.close().expect("nothing is wrong now");
        }
    }
    assert!(evictions > 200 && starts_cold > 40, "{evictions} evictions, {starts_cold} cold");
}

fn push_some(engine: &Engine, number: usize, random: &mut Random) -> Vec<u8> {
    let sightings: Vec<Sighting> = (0..20).map(|_| Sighting::random(random)).collect();
    let bytes = upload(&sightings);
    let pushed = feed(engine, number).push(Upload { bytes: &bytes, ..Upload::default() });
    feed(engine, number).wait(pushed.expect("it is one").ticket).expect("it is durable");
    bytes
}

#[test]
fn what_is_unchanged_is_evicted_without_writing_and_snapshots_name_its_file() {
    let disk = SimulatedDisk::new(1);
    let mut random = Random(1);
    let engine = open(&disk, feeds(), 1).expect("it opens");
    let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
    for number in [0, 1] {
        uploads[number].push(push_some(&engine, number, &mut random));
        step_all(&engine, number);
    }
    assert!(!feed(&engine, 0).stats().is_resident && feed(&engine, 1).stats().is_resident);
    let cold_files = |disk: &SimulatedDisk| -> Vec<String> {
        disk.names().into_iter().filter(|name| name.starts_with("cold-")).collect()
    };
    assert_eq!(cold_files(&disk).len(), 1);
    engine.snapshot().expect("there is room");
    let of_first = cold_files(&disk);
    uploads[0].push(push_some(&engine, 0, &mut random));
    step_all(&engine, 0);
    // A second one of the second feed; the first feed's file is named by the snapshot.
    assert_eq!(cold_files(&disk).len(), 2);
    uploads[1].push(push_some(&engine, 1, &mut random));
    step_all(&engine, 1);
    assert!(of_first.iter().all(|name| cold_files(&disk).contains(name)));
    check(&engine, &uploads, "in memory");
    // Two snapshots later nothing needs it.
    for _ in 0..2 {
        uploads[1].push(push_some(&engine, 1, &mut random));
        step_all(&engine, 1);
        engine.snapshot().expect("there is room");
    }
    assert!(of_first.iter().all(|name| !cold_files(&disk).contains(name)), "{of_first:?}");
    engine.close().expect("nothing is wrong");
    drop(engine);
    let engine = open(&disk.after_process_death(), feeds(), 1).expect("it opens");
    assert!(!feed(&engine, 0).stats().is_resident);
    check(&engine, &uploads, "after a start");
    // Without a budget all is in memory from the start on.
    drop(engine);
    let engine = open(&disk.after_process_death(), feeds(), 0).expect("it opens");
    assert!((0..3).all(|number| feed(&engine, number).stats().is_resident));
    check(&engine, &uploads, "without a budget");
}

#[test]
fn idle_feeds_go_and_come_back_when_they_are_asked_for() {
    let disk = SimulatedDisk::new(3);
    let mut random = Random(3);
    let mut sources = feeds();
    let idle = Duration::from_millis(1);
    sources[0].limits = FeedLimits { idle, ..sources[0].limits.clone() };
    sources[1].limits = FeedLimits { idle, resident: true, ..sources[1].limits.clone() };
    let engine = open(&disk, sources, 0).expect("it opens");
    let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
    for (number, uploads) in uploads.iter_mut().enumerate() {
        uploads.push(push_some(&engine, number, &mut random));
        step_all(&engine, number);
    }
    pause(Duration::from_millis(5));
    (0..3).for_each(|number| step_all(&engine, number));
    let resident = || [0, 1, 2].map(|number| feed(&engine, number).stats().is_resident);
    assert_eq!(resident(), [false, true, true]);
    check(&engine, &uploads, "idle");
    step_all(&engine, 0);
    assert_eq!(resident(), [true, true, true], "somebody has asked");
    check(&engine, &uploads, "asked");
}

#[test]
fn a_full_disk_leaves_everything_in_memory_and_a_damaged_file_stops_its_feed_only() {
    let disk = SimulatedDisk::new(4);
    let mut random = Random(4);
    let engine = open(&disk, feeds(), 1).expect("it opens");
    let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
    for number in [1, 0] {
        uploads[number].push(push_some(&engine, number, &mut random));
        step_all(&engine, number);
    }
    assert!(!feed(&engine, 1).stats().is_resident);
    uploads[1].push(push_some(&engine, 1, &mut random));
    // Room for nothing more than what is reserved already.
    disk.set_capacity_bytes(Some(1));
    let error = engine.step_feed(&feed(&engine, 1)).expect_err("there is no room").to_string();
    assert!(error.contains("no room in memory"), "{error}");
    assert!(feed(&engine, 0).stats().is_resident);
    disk.set_capacity_bytes(None);
    pause(Duration::from_millis(1100));
    step_all(&engine, 1);
    assert!(!feed(&engine, 0).stats().is_resident);
    check(&engine, &uploads, "there is room again");

    // A snapshot names the file; a block of it is damaged afterwards.
    engine.snapshot().expect("there is room");
    uploads[0].push(push_some(&engine, 0, &mut random));
    engine.close().expect("nothing is wrong");
    drop(engine);
    let disk = disk.after_process_death();
    let storage: Arc<dyn whered_store::Storage> = Arc::new(disk.clone());
    let info = whered_store::Snapshots::find(&*storage).expect("it is there").complete.remove(0);
    let named = whered_store::ColdReference::of_snapshot(&*storage, &info).expect("it is good");
    let name = named.into_iter().find(|file| file.name.starts_with("cold-a")).expect("one").name;
    let size = disk.read(&name).expect("it is there").len();
    for at in (64..size / 2).step_by(64) {
        disk.flip_bit(&name, at, 3);
    }
    let engine = open(&disk, feeds(), 1).expect("it opens");
    let error = engine.step_feed(&feed(&engine, 0)).expect_err("it is damaged").to_string();
    assert!(error.contains(&name) && error.contains("at byte"), "{error}");
    let error = feed(&engine, 0).tables()[0].top("seen", 1, true).expect_err("it is damaged");
    assert!(error.to_string().contains(&name), "{error}");
    uploads[1].push(push_some(&engine, 1, &mut random));
    step_all(&engine, 1);
    engine.close().expect("nothing is wrong");
    drop(engine);
    // The journal is whole: a repair takes it from its begin, and nothing is lost.
    let mut said = Vec::new();
    whered_store::repair(&storage, &mut |line| said.push(line.to_owned())).expect("it can be read");
    assert!(said.iter().any(|line| line.contains(&name)), "{said:?}");
    let engine = open(&disk, feeds(), 1).expect("it opens");
    (0..3).for_each(|number| step_all(&engine, number));
    check(&engine, &uploads, "after a repair");
}

#[test]
fn readers_see_whole_batches_while_tables_come_and_go() {
    let disk = SimulatedDisk::new(5);
    let engine = open(&disk, feeds(), 1).expect("it opens");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (engine, is_over) = (&engine, &is_over);
            scope.spawn(move || {
                let its = feed(engine, number);
                let (mut least, mut random) = (0, Random(number as u64));
                while !is_over.load(order) {
                    let mut seen = 0;
                    let table = &its.tables()[random.below(2) as usize];
                    let column = table.schema().column_index("seen").expect("it has one");
                    table
                        .scan(0, usize::MAX, &mut |row| match row.column(column) {
                            Cell::Integer(count) => seen += count,
                            other => panic!("{other:?}"),
                        })
                        .expect("it can be read");
                    // Each upload has ten sightings, each with one item.
                    assert_eq!(seen % 10, 0);
                    assert!(seen >= least || table.name().starts_with("loot"));
                    least = if table.name().starts_with("loot") { least } else { seen };
                }
            });
        }
        let mut random = Random(9);
        for round in 0..120 {
            let number = round % 2;
            let sightings: Vec<Sighting> =
                (0..10).map(|_| Sighting::random(&mut random).with_one_item()).collect();
            let bytes = upload(&sightings);
            let its = feed(&engine, number);
            let pushed = its.push(Upload { bytes: &bytes, ..Upload::default() }).expect("one");
            its.wait(pushed.ticket).expect("it is durable");
            step_all(&engine, number);
            if round % 10 == 0 {
                engine.snapshot().expect("there is room");
            }
        }
        is_over.store(true, order);
    });
    assert!(engine.feeds().hot_stats().loads > 20);
}

/// A disk on which feed `a` is in a file that a snapshot names, and that file's name; `uploads` has
/// what was applied, all of it before the older snapshot that is kept, but for one batch of `a` if
/// it is so asked.
fn evicted(uploads: &mut [Vec<Vec<u8>>; 3], has_later_batch: bool) -> (SimulatedDisk, String) {
    let disk = SimulatedDisk::new(6);
    let mut random = Random(6);
    let engine = open(&disk, feeds(), 1).expect("it opens");
    for round in 0..3 {
        for number in [0, 1] {
            uploads[number].push(push_some(&engine, number, &mut random));
            step_all(&engine, number);
        }
        engine.snapshot().unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    if has_later_batch {
        uploads[0].push(push_some(&engine, 0, &mut random));
        step_all(&engine, 0);
    }
    engine.close().expect("nothing is wrong");
    drop(engine);
    let disk = disk.after_process_death();
    let storage: Arc<dyn whered_store::Storage> = Arc::new(disk.clone());
    let info = whered_store::Snapshots::find(&*storage).expect("it is there").complete.remove(0);
    let named = whered_store::ColdReference::of_snapshot(&*storage, &info).expect("it is good");
    let name = named.into_iter().find(|file| file.name.starts_with("cold-a")).expect("one").name;
    (disk, name)
}

/// The feed is out of service, and says so whoever asks; the others go on.
fn check_out_of_service(engine: &Engine, name: &str) {
    let damaged = feed(engine, 0);
    let reason = damaged.out_of_service().expect("it is out of service");
    assert!(reason.contains(name) && reason.contains("'whered repair'"), "{reason}");
    let refused = damaged.push(Upload { bytes: b"<upload/>", ..Upload::default() });
    assert!(refused.expect_err("it takes nothing").to_string().contains(name));
    assert_eq!(engine.step_feed(&damaged).expect("it rests").batch, 0);
    for table in damaged.tables() {
        let error = table.scan(0, 10, &mut |_| ()).expect_err("its rows are not known");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(feed(engine, 1).out_of_service(), None);
}

#[test]
fn a_missing_cold_file_takes_its_feed_out_of_service_and_comes_back_with_all_of_it() {
    for has_later_batch in [false, true] {
        let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
        let (disk, name) = evicted(&mut uploads, has_later_batch);
        let storage: Arc<dyn whered_store::Storage> = Arc::new(disk.clone());
        storage.rename(&name, "kept-aside").expect("it is there");
        for round in 0..3 {
            let engine = open(&disk, feeds(), 1).expect("the others start");
            check_out_of_service(&engine, &name);
            let mut random = Random(100 + round);
            uploads[1].push(push_some(&engine, 1, &mut random));
            step_all(&engine, 1);
            // A batch that is in the journal only is kept there.
            let made = engine.snapshot().map_err(|error| error.to_string());
            assert_eq!(made.is_err(), has_later_batch, "{made:?}");
            engine.close().expect("nothing is wrong");
        }
        storage.rename("kept-aside", &name).expect("it is there");
        let engine = open(&disk, feeds(), 1).expect("it opens");
        (0..3).for_each(|number| step_all(&engine, number));
        check(&engine, &uploads, "the file is back");
        engine.snapshot().expect("nothing is wrong");
        engine.close().expect("nothing is wrong");
    }
}

#[test]
fn a_repair_lets_a_feed_go_on_whose_cold_file_is_gone_and_changes_no_other() {
    for has_later_batch in [false, true] {
        let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
        let (disk, name) = evicted(&mut uploads, has_later_batch);
        let storage: Arc<dyn whered_store::Storage> = Arc::new(disk.clone());
        // Neither snapshot has its own any more.
        for name in disk.names().iter().filter(|name| name.starts_with("cold-a")) {
            storage.remove(name).expect("it is there");
        }
        let engine = open(&disk, feeds(), 1).expect("the others start");
        check_out_of_service(&engine, &name);
        engine.close().expect("nothing is wrong");
        drop(engine);
        whered_store::repair(&storage, &mut |_| ()).expect("it can be read");
        let repairing = EngineOptions { repairs_feeds: true, ..options(Vec::new()) };
        let loaded = StartFiles::read(&repairing.setup).expect("there are no files");
        let (engine, _) = Engine::open_on(repairing, loaded, Some(Disk::simulated(&disk)))
            .unwrap_or_else(|error| panic!("{has_later_batch}: {error}"));
        let reset = engine.feeds().reset();
        // Without a batch in the journal there is nothing that could not be applied.
        assert!(reset.len() <= 1 && reset.len() >= usize::from(has_later_batch), "{reset:?}");
        if !reset.is_empty() {
            engine.snapshot().expect("nothing is wrong");
        }
        engine.close().expect("nothing is wrong");
        drop(engine);
        let mut random = Random(8);
        for round in 0..2 {
            let engine = open(&disk, feeds(), 1).expect("it opens");
            assert_eq!(feed(&engine, 0).out_of_service(), None);
            let before = feed(&engine, 0).stats().last_batch;
            push_some(&engine, 0, &mut random);
            step_all(&engine, 0);
            assert!(feed(&engine, 0).stats().last_batch > before, "{round}");
            assert!(!rows(&feed(&engine, 0).tables()[0]).is_empty());
            engine.snapshot().expect("nothing is wrong");
            // Nothing of the other has changed.
            let mut others = uploads.clone();
            others[0].clear();
            let twin = in_memory(feeds());
            for bytes in &others[1] {
                feed(&twin, 1).push(Upload { bytes, ..Upload::default() }).expect("taken");
                step_all(&twin, 1);
            }
            assert_eq!(rows(&feed(&engine, 1).tables()[0]), rows(&feed(&twin, 1).tables()[0]));
            assert_eq!(members(&engine, 1), members(&twin, 1));
            engine.close().expect("nothing is wrong");
        }
    }
}

#[test]
fn whatever_byte_of_whatever_file_is_changed_the_refusal_names_the_repair() {
    let mut uploads: [Vec<Vec<u8>>; 3] = Default::default();
    let (disk, _) = evicted(&mut uploads, true);
    let (mut refused, mut rested) = (0, 0);
    let folders =
        ["spool/a", "spool/b"].map(|folder| (format!("{folder}/"), disk.directory(folder)));
    let folders = folders.into_iter().chain([(String::new(), disk.clone())]);
    let files = folders.flat_map(|(path, folder)| {
        folder.names().into_iter().map(move |name| format!("{path}{name}"))
    });
    for name in files.collect::<Vec<_>>() {
        let size = disk.read(&name).expect("it is there").len();
        let all = [0, 5, 8, 9, 11, 12, 16, 24, 33, 40, 44, 50, 64, 70, 200, size / 2, size - 1];
        for at in all.into_iter().filter(|at| *at < size) {
            let damaged = disk.crash(1);
            damaged.flip_bit(&name, at, 4);
            match open(&damaged, feeds(), 1) {
                Ok(engine) => {
                    for feed in engine.feeds().iter() {
                        let Some(reason) = feed.out_of_service() else { continue };
                        assert!(reason.contains("'whered repair'"), "{name} at {at}: {reason}");
                        rested += 1;
                    }
                }
                Err(error) => {
                    assert!(error.contains("'whered repair'"), "{name} at {at}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 10 && rested > 10, "{refused} starts refused, {rested} feeds at rest");
}
