//! Two feeds that do not fit into the budget together, in a process that is killed again and again.
//!
//! The process applies uploads of both in turn, so that one is written and the other read all the
//! time, makes snapshots, and says which uploads were acknowledged. After each `kill -9` the
//! directory is opened here: every acknowledged upload is applied, once, and the tables are those
//! of an engine in memory that got the same uploads. `WHERED_KILLS` says how often (6 times else).

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Folder, positions_feed};
use whered_engine::feeds::formats::Format;
use whered_engine::feeds::{Feed, FeedSource, HotOptions, Upload};
use whered_engine::tables::Row;
use whered_engine::{Engine, EngineOptions, Setup};

const NAMES: [&str; 2] = ["east", "west"];
const DIRECTORY: &str = "WHERED_BUDGET_VICTIM";

fn source(name: &str) -> FeedSource {
    let columns = [("seen", "count"), ("x", "mean(longitude)"), ("last", "max(time)")];
    positions_feed(name, Format::Ndjson, &columns)
}

fn open(directory: Option<&Path>, budget: u64) -> Arc<Engine> {
    let hot = HotOptions { memory_budget_bytes: budget, turn: Duration::ZERO };
    let feeds = NAMES.map(source).to_vec();
    let setup = Setup { feeds, hot, ..Setup::default() };
    let data_dir = directory.map(Path::to_owned);
    Engine::open(EngineOptions { data_dir, setup, ..EngineOptions::default() }).expect("it opens").0
}

fn feed(engine: &Engine, number: usize) -> Arc<Feed> {
    Arc::clone(engine.feeds().get(NAMES[number]).expect("it is there"))
}

/// An upload is told by its feed and number; the first ones are large, so that a change takes a
/// while.
fn upload(number: usize, id: u64) -> Vec<u8> {
    let lines = if id <= 4 { 20_000 } else { 50 };
    let mut state = id << 8 | number as u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % bound
    };
    let line = |_| {
        let (who, x, y) = (below(3000), below(40), below(40));
        let at = 1_700_000_000 + below(1_000_000);
        format!("{{\"who\":\"m{who}\",\"x\":{x}.5,\"y\":{y}.25,\"at\":{at}}}\n")
    };
    (0..lines).map(line).collect::<String>().into_bytes()
}

/// What the killed process does; does nothing unless it is told a directory.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let engine = open(Some(Path::new(&directory)), 1);
    let mut next = [0, 1].map(|number| {
        let its = feed(&engine, number);
        step_all(&engine, number);
        let known = std::env::var(format!("{DIRECTORY}_{number}"));
        applied(&its, known.ok().and_then(|text| text.parse().ok()).unwrap_or(0)) + 1
    });
    // Lives are short: the rounds go on from those before, so that snapshots are made, and broken
    // off.
    let mut round = next[0];
    loop {
        for (number, next) in next.iter_mut().enumerate() {
            let its = feed(&engine, number);
            let id = *next;
            *next += 1;
            let bytes = upload(number, id);
            let pushed = its.push(Upload { bytes: &bytes, ..Upload::default() });
            let pushed = pushed.expect("there is room");
            assert_eq!(pushed.id, id, "numbers have no gaps");
            its.wait(pushed.ticket).expect("it is durable");
            println!("ack {number} {id}");
            if !(id + round).is_multiple_of(3) {
                engine.step_feed(&its).expect("nothing is wrong");
            }
        }
        round += 1;
        if round.is_multiple_of(40) {
            engine.snapshot().expect("there is room");
        }
        let stats = engine.feeds().hot_stats();
        println!("loads {}", stats.loads);
    }
}

/// Up to which upload all are applied; the first that is not known or waits comes after it.
fn applied(feed: &Feed, from: u64) -> u64 {
    use whered_engine::feeds::UploadStatus;
    let waits = |id: u64| matches!(feed.status(id), UploadStatus::Spooled | UploadStatus::Unknown);
    (from + 1..).take_while(|id| !waits(*id)).last().unwrap_or(from)
}

fn rows(engine: &Engine, number: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let table = Arc::clone(&feed(engine, number).tables()[0]);
    table.scan(0, usize::MAX, &mut |row| rows.push(row.to_row())).expect("it can be read");
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

fn step_all(engine: &Engine, number: usize) {
    let its = feed(engine, number);
    while engine.step_feed(&its).expect("nothing is wrong").batch > 0 {}
}

#[test]
fn nothing_is_lost_when_a_process_is_killed_while_feeds_change_places() {
    if std::env::var_os(DIRECTORY).is_some() {
        return;
    }
    let kills: usize =
        std::env::var("WHERED_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let folder = Folder::new();
    let directory = folder.path().join("data");
    let twin = open(None, 0);
    let mut known = [0_u64; 2];
    let mut loads = 0;
    let begun = Instant::now();
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().expect("it has a name"))
            .args(["victim", "--exact", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, &directory)
            .env(format!("{DIRECTORY}_0"), known[0].to_string())
            .env(format!("{DIRECTORY}_1"), known[1].to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let acknowledged = [AtomicUsize::new(0), AtomicUsize::new(0)];
        // The first upload of a life, then a moment more that is another one each time.
        let wait = Duration::from_millis(150 + (kill as u64 * 7919) % 400);
        let (mut deadline, mut life_loads) = (None, 0);
        for line in lines.map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<usize>().expect("it is a number");
            match words[0] {
                "ack" => acknowledged[number(1)].store(number(2), Ordering::Relaxed),
                "loads" => life_loads = number(1),
                _ => continue,
            }
            let end = *deadline.get_or_insert_with(|| Instant::now() + wait);
            if Instant::now() >= end {
                let _ = child.kill();
            }
        }
        child.wait().expect("it was killed");
        loads += life_loads;
        let engine = open(Some(&directory), [1, 0][kill % 2]);
        for number in 0..2 {
            step_all(&engine, number);
            let last = applied(&feed(&engine, number), known[number]);
            let acknowledged = acknowledged[number].load(Ordering::Relaxed) as u64;
            assert!(last >= acknowledged, "kill {kill}: {last} of {acknowledged}");
            for id in known[number] + 1..=last {
                let bytes = upload(number, id);
                let pushed =
                    feed(&twin, number).push(Upload { bytes: &bytes, ..Upload::default() });
                pushed.expect("there is room");
            }
            known[number] = last;
            step_all(&twin, number);
            assert!(rows(&engine, number) == rows(&twin, number), "kill {kill}: rows");
            assert!(members(&engine, number) == members(&twin, number), "kill {kill}: members");
        }
        // What is replayed does not grow with the kills.
        if kill % 8 == 7 {
            engine.snapshot().expect("there is room");
        }
        println!("kill {kill}: uploads {known:?}, {loads} loads, {:.1?}", begun.elapsed());
        engine.close().expect("nothing is wrong");
    }
    println!("{kills} kills, uploads {known:?}, feeds came in {loads} times or more");
    assert!(known.iter().all(|last| *last > 4), "{known:?}");
}
