//! A data directory with feeds that a former version wrote still opens: journal, snapshot, spools
//! and cold files. `tests/data/feeds-v1` was written by the ignored test below; a new version of
//! one of these formats gets a folder of its own, and the old one stays.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use support::{Folder, positions_feed};
use whered_engine::feeds::formats::Format;
use whered_engine::feeds::{FeedSource, HotOptions, Upload};
use whered_engine::store::{JournalOptions, SyncPolicy};
use whered_engine::tables::{Cell, Value};
use whered_engine::{Engine, EngineOptions, Setup};

fn source(name: &str) -> FeedSource {
    let columns = [
        ("seen", "count"),
        ("x", "mean(longitude)"),
        ("last", "max(time)"),
        ("by", "last(member)"),
    ];
    positions_feed(name, Format::Csv, &columns)
}

fn open(directory: &Path, memory_budget_bytes: u64) -> Arc<Engine> {
    let feeds = ["a", "b"].map(source).to_vec();
    let hot = HotOptions { memory_budget_bytes, turn: Duration::ZERO };
    let setup = Setup { feeds, hot, ..Setup::default() };
    let journal = JournalOptions {
        segment_size_bytes: whered_engine::store::SEGMENT_SIZE_BYTES_MIN,
        sync: SyncPolicy::Always,
        ..JournalOptions::default()
    };
    let data_dir = Some(directory.to_owned());
    let options = EngineOptions { data_dir, setup, journal, ..EngineOptions::default() };
    Engine::open(options).expect("it opens").0
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/feeds-v1")
}

fn push(engine: &Engine, feed: &str, count: u32) {
    let feed = engine.feeds().get(feed).expect("it is there");
    let lines: String =
        (0..count).map(|n| format!("m{},{}.5,50.25,1700000000\n", n % 3, n % 4)).collect();
    let bytes = format!("who,x,y,at\n{lines}").into_bytes();
    let pushed = feed.push(Upload { bytes: &bytes, ..Upload::default() }).expect("it is one");
    feed.wait(pushed.ticket).expect("it is durable");
}

fn step(engine: &Engine, feed: &str) {
    let feed = engine.feeds().get(feed).expect("it is there");
    while engine.step_feed(feed).expect("nothing is wrong").batch > 0 {}
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it is a folder") {
        let (path, name) =
            entry.map(|entry| (entry.path(), entry.file_name())).expect("it is there");
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).expect("there is room");
        }
    }
}

/// The snapshot names the cold file of the first feed and has the second one's rows; the journal
/// has a batch of each after it, and an upload waits.
#[test]
#[ignore = "writes tests/data/feeds-v1 anew; only for formats that were never released"]
fn write_the_files() {
    let _ = fs::remove_dir_all(data());
    let engine = open(&data(), 1);
    for feed in ["a", "b"] {
        push(&engine, feed, 60);
        step(&engine, feed);
    }
    engine.snapshot().expect("there is room");
    for feed in ["b", "a"] {
        push(&engine, feed, 24);
        step(&engine, feed);
    }
    push(&engine, "b", 12);
    engine.close().expect("nothing is wrong");
    drop(engine);
    let _ = fs::remove_dir_all(data().join("quarantine"));
    for spare in fs::read_dir(data()).expect("it is a folder").flatten() {
        let name = spare.file_name().to_string_lossy().into_owned();
        if name == "LOCK" || name.contains("spare") {
            fs::remove_file(spare.path()).expect("it is there");
        }
    }
}

#[test]
fn version_1_opens_with_a_budget_and_without() {
    for budget in [0, 1] {
        let folder = Folder::new();
        let directory = folder.path().join("data");
        copy(&data(), &directory);
        let engine = open(&directory, budget);
        for (feed, seen) in [("a", 84), ("b", 96)] {
            step(&engine, feed);
            let table = engine.feeds().table(&format!("positions-{feed}")).expect("it is there");
            assert_eq!(table.len(), 12);
            let mut sum = 0;
            let mut add = |cell: Cell<'_>| match cell {
                Cell::Integer(count) => sum += count,
                other => panic!("{other:?}"),
            };
            table.scan(0, 100, &mut |row| add(row.column(0))).expect("it can be read");
            assert_eq!(sum, seen, "feed {feed}, budget {budget}");
            let row = table.get(&[Cell::Text(b"m1"), Cell::Integer(2)]).expect("it can be read");
            let row = row.expect("it is there");
            assert_eq!(row.columns[0], Value::Integer(seen / 12));
            assert_eq!(
                row.columns[2..],
                [Value::Time(1_700_000_000_000), Value::Text(b"m1".to_vec())]
            );
            let key = format!("places-{feed}");
            let points = engine.keyspace().inspect(0, key.as_bytes(), |value| {
                value.ordered().map_or(0, |ordered| ordered.iter().count())
            });
            assert_eq!(points, Some(12));
        }
        engine.close().expect("nothing is wrong");
    }
}
