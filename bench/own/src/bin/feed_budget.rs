//! Two feeds that each take 60 % of the memory budget, uploads coming to both, with the budget and
//! without: how much of the rate is left.
//!
//! For: `taskset -c 0 cargo run --release -p whered-own-bench --bin feed_budget -- [uploads [spots
//! [rounds]]]`. On one processor both ways have the same means: with more, two feeds that are in
//! memory are worked on at the same time, and two that take turns are not. Not for: tests.
//!
//! Both engines get the same uploads of 1,000 sightings, alternately for the two feeds. They are
//! timed alternately, round by round, from the first upload to the last batch. Two threads step, as
//! in the server. At the end the rows must be equal.
#![allow(clippy::print_stdout, reason = "the program's output")]

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use whered_bench::Random;
use whered_engine::feeds::formats::{Format, MappingSource};
use whered_engine::feeds::{Feed, FeedInput, FeedLimits, FeedSource, HotOptions, Upload};
use whered_engine::tables::{ColumnSource, RowsOf, Rule, TableSource};
use whered_engine::{Engine, EngineOptions, Setup};

const NAMES: [&str; 2] = ["a", "b"];
const SIGHTINGS: u64 = 1000;
const OBJECTS: u64 = 2000;

/// Sightings at spots that `spot` gives.
fn upload(random: &mut Random, number: u64, mut spot: impl FnMut(&mut Random) -> u64) -> Vec<u8> {
    let mut text = String::from("<upload>\n");
    for _ in 0..SIGHTINGS {
        let mut of_spot = Random::new(spot(random));
        let (object, x, y) =
            (of_spot.below(OBJECTS), of_spot.below(3_600_000), of_spot.below(1_600_000));
        let noise = |random: &mut Random| random.below(10) as f64 * 1e-5;
        let (x, y) = (x as f64 * 1e-4 - 180.0 + noise(random), y as f64 * 1e-4 - 80.0);
        let time = 1_700_000_000_000 + number * 1000 + random.below(1000);
        let _ = writeln!(
            text,
            "<sighting object=\"{object}\" x=\"{x:.5}\" y=\"{y:.5}\" t=\"{time}\"/>"
        );
    }
    text.push_str("</upload>\n");
    text.into_bytes()
}

fn source(name: &str) -> Result<FeedSource, Box<dyn Error>> {
    let mut mapping = MappingSource::new(Format::Xml);
    mapping.record = "upload/sighting".to_owned();
    mapping.member = "@object".into();
    mapping.longitude = Some("@x".into());
    mapping.latitude = Some("@y".into());
    mapping.time = Some("@t".into());
    let columns = [
        ("longitude", "mean(longitude)"),
        ("latitude", "mean(latitude)"),
        ("seen", "count"),
        ("first_seen", "min(time)"),
        ("last_seen", "max(time)"),
    ];
    let column = |(name, rule): (&str, &str)| ColumnSource {
        name: name.to_owned(),
        rule: Rule::parse(rule).expect("it is a rule"),
    };
    Ok(FeedSource {
        name: name.to_owned(),
        input: FeedInput::Records(mapping.compile()?),
        collection: None,
        tables: vec![TableSource {
            name: format!("positions-{name}"),
            of: RowsOf::Positions,
            key: vec!["member".to_owned(), "position".to_owned()],
            columns: columns.map(column).to_vec(),
        }],
        set: None,
        merge_within_meters: Some(25.0),
        limits: FeedLimits { spool_size_bytes_max: 8 << 30, ..FeedLimits::default() },
    })
}

fn open(directory: &Path, budget: u64) -> Result<Arc<Engine>, Box<dyn Error>> {
    let feeds = NAMES.iter().map(|name| source(name)).collect::<Result<Vec<_>, _>>()?;
    let hot = HotOptions { memory_budget_bytes: budget, ..HotOptions::default() };
    let setup = Setup { feeds, hot, ..Setup::default() };
    let data_dir = Some(directory.to_path_buf());
    Ok(Engine::open(EngineOptions { data_dir, setup, ..EngineOptions::default() })?.0)
}

fn feeds(engine: &Engine) -> Vec<Arc<Feed>> {
    engine.feeds().iter().map(Arc::clone).collect()
}

/// Pushes the uploads to both feeds and waits until all are applied; gives how long that took.
fn run(engine: &Engine, uploads: &[Vec<u8>], count: usize) -> Duration {
    let feeds = feeds(engine);
    for number in 0..count {
        for feed in &feeds {
            let bytes = &uploads[number % uploads.len()];
            let pushed = feed.push(Upload { bytes, ..Upload::default() }).expect("there is room");
            if number + 1 == count {
                feed.wait(pushed.ticket).expect("it is durable");
            }
        }
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        for feed in &feeds {
            scope.spawn(move || {
                while feed.stats().backlog_uploads > 0 {
                    engine.step_feed(feed).expect("nothing is wrong");
                }
            });
        }
    });
    start.elapsed()
}

/// The number of rows and a sum over all cells of them, in the rows' order.
fn fingerprint(engine: &Engine) -> Vec<(usize, u64)> {
    use std::hash::{DefaultHasher, Hasher};
    let of = |feed: &Arc<Feed>| {
        let (mut hasher, table) = (DefaultHasher::new(), &feed.tables()[0]);
        let scanned = table.scan(0, usize::MAX, &mut |row| {
            let row = row.to_row();
            hasher.write(format!("{:?}{:?}", row.key, row.columns).as_bytes());
        });
        scanned.expect("it can be read");
        (table.len(), hasher.finish())
    };
    feeds(engine).iter().map(of).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let uploads = arguments.next().transpose()?.unwrap_or(3000) as usize;
    let spots = arguments.next().transpose()?.unwrap_or(400_000);
    let rounds = arguments.next().transpose()?.unwrap_or(3);
    let base = std::env::temp_dir().join(format!("whered-feed-budget-{}", std::process::id()));
    let mut random = Random::new(1);
    let mut next = 0;
    let filling: Vec<Vec<u8>> = (0..spots / SIGHTINGS)
        .map(|number| {
            upload(&mut random, number, |_| {
                next += 1;
                next
            })
        })
        .collect();
    let timed: Vec<Vec<u8>> = (0..500)
        .map(|number| upload(&mut random, number, |random| 1 + random.below(spots)))
        .collect();
    let free = open(&base.join("free"), 0)?;
    run(&free, &filling, filling.len());
    let bytes = feeds(&free).iter().map(|feed| feed.stats().resident_bytes).max().unwrap_or(0);
    let budget = bytes * 10 / 6;
    println!("a feed takes {bytes} bytes, the budget is {budget}");
    let tight = open(&base.join("tight"), budget)?;
    run(&tight, &filling, filling.len());
    let (mut times, events) = ([Duration::ZERO; 2], 2 * uploads as u64 * SIGHTINGS);
    for round in 0..rounds {
        let both = [run(&free, &timed, uploads), run(&tight, &timed, uploads)];
        let rates = both.map(|time| events as f64 / time.as_secs_f64() / 1e3);
        println!(
            "round {round}: both fit {:.0} k/s, with the budget {:.0} k/s, ratio {:.3}",
            rates[0],
            rates[1],
            rates[1] / rates[0]
        );
        times[0] += both[0];
        times[1] += both[1];
    }
    println!("ratio of all rounds {:.3}", times[0].as_secs_f64() / times[1].as_secs_f64());
    println!("{:?}", tight.feeds().hot_stats());
    let is_equal = fingerprint(&free) == fingerprint(&tight);
    println!("tables are {}", if is_equal { "equal" } else { "NOT equal" });
    drop((free, tight));
    std::fs::remove_dir_all(&base)?;
    if is_equal { Ok(()) } else { Err("the tables differ".into()) }
}
