//! What an upload costs from the spool to the tables, without a server around it.
//!
//! For: measuring changes of feeds: `cargo run --release -p whered-own-bench --bin feed_cost --
//! [uploads [plain|loot [directory]]]`. Not for: comparisons with other programs, nor for tests.
//!
//! Sightings of 2,000 objects at 200,000 spots, 1,000 in an upload, with the member's spot chosen
//! at random and some metres of noise, as XML; with `loot` each has up to three kinds. It prints
//! events a second of processor time (of the thread that steps; of the whole process), and bytes
//! written by kind for each byte of payload. The directory is a new one in the system's temporary
//! directory by default, and is removed at the end.
#![allow(clippy::print_stdout, reason = "the program's output")]

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whered_bench::Random;
use whered_engine::feeds::formats::{Format, ItemsSource, MappingSource};
use whered_engine::feeds::{FeedInput, FeedLimits, FeedSource, Upload};
use whered_engine::tables::{ColumnSource, RowsOf, Rule, TableSource};
use whered_engine::{Engine, EngineOptions, Setup};

const SIGHTINGS: u64 = 1000;
const OBJECTS: u64 = 2000;
const SPOTS: u64 = 200_000;

fn upload(random: &mut Random, number: u64, has_loot: bool) -> String {
    let mut text = String::from("<upload client=\"1.4\">\n");
    for _ in 0..SIGHTINGS {
        let spot = random.below(SPOTS);
        let mut of_spot = Random::new(spot);
        let (object, x, y) =
            (of_spot.below(OBJECTS), of_spot.below(3_600_000), of_spot.below(1_600_000));
        let noise = |random: &mut Random| random.below(10) as f64 * 1e-5;
        let x = x as f64 * 1e-4 - 180.0 + noise(random);
        let y = y as f64 * 1e-4 - 80.0 + noise(random);
        let time = 1_700_000_000_000 + number * 1000 + random.below(1000);
        let _ =
            write!(text, "<sighting object=\"{object}\" x=\"{x:.5}\" y=\"{y:.5}\" t=\"{time}\"");
        let kinds = if has_loot { random.below(4) } else { 0 };
        if kinds == 0 {
            text.push_str("/>\n");
            continue;
        }
        text.push('>');
        for _ in 0..kinds {
            let item = 20_000 + (object * 7 + random.below(12)) % 5000;
            let _ = write!(text, "<loot item=\"{item}\" n=\"{}\"/>", 1 + random.below(3));
        }
        text.push_str("</sighting>\n");
    }
    text.push_str("</upload>\n");
    text
}

fn table(name: &str, of: RowsOf, key: &[&str], columns: &[(&str, &str)]) -> TableSource {
    let column = |(name, rule): &(&str, &str)| ColumnSource {
        name: (*name).to_owned(),
        rule: Rule::parse(rule).expect("it is a rule"),
    };
    let key = key.iter().map(|name| (*name).to_owned()).collect();
    TableSource { name: name.to_owned(), of, key, columns: columns.iter().map(column).collect() }
}

fn source(has_loot: bool) -> Result<FeedSource, Box<dyn Error>> {
    let mut mapping = MappingSource::new(Format::Xml);
    mapping.record = "upload/sighting".to_owned();
    mapping.member = "@object".into();
    mapping.longitude = Some("@x".into());
    mapping.latitude = Some("@y".into());
    mapping.time = Some("@t".into());
    let (each, key) = ("loot".to_owned(), "@item".to_owned());
    mapping.items = has_loot.then(|| ItemsSource { each, key, count: Some("@n".to_owned()) });
    let positions = [
        ("longitude", "mean(longitude)"),
        ("latitude", "mean(latitude)"),
        ("seen", "count"),
        ("first_seen", "min(time)"),
        ("last_seen", "max(time)"),
    ];
    let mut tables =
        vec![table("positions", RowsOf::Positions, &["member", "position"], &positions)];
    if has_loot {
        let columns = [("count", "sum(count)"), ("seen", "count"), ("last_seen", "max(time)")];
        tables.push(table("loot", RowsOf::Items, &["member", "item"], &columns));
    }
    Ok(FeedSource {
        name: "sightings".to_owned(),
        input: FeedInput::Records(mapping.compile()?),
        collection: Some("sightings".to_owned()),
        tables,
        set: None,
        merge_within_meters: Some(25.0),
        limits: FeedLimits { batch_delay: Duration::ZERO, ..FeedLimits::default() },
    })
}

/// Processor time of all threads of the process, ended ones included, in hundredths of a second.
fn processor_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split(' ').collect();
    // User and system time are the 14th and 15th field; the name, in parentheses, is the second.
    [12, 13].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// Nanoseconds on a processor, by a file of the thread.
fn processor_nanoseconds(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let uploads: u64 = arguments.next().map_or(Ok(2000), |text| text.parse())?;
    let has_loot = arguments.next().is_some_and(|word| word == "loot");
    let directory = arguments.next().map(PathBuf::from).unwrap_or_else(|| {
        std::env::temp_dir().join(format!("whered-feed-cost-{}", std::process::id()))
    });
    let setup = Setup { feeds: vec![source(has_loot)?], ..Setup::default() };
    let options =
        EngineOptions { data_dir: Some(directory.clone()), setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options)?;
    let feed = engine.feeds().get("sightings").ok_or("there is no feed")?;
    let mut random = Random::new(1);
    let (mut payload_bytes, mut step_nanoseconds, mut process_ticks, mut events) = (0, 0, 0, 0);
    let mut stepping = Duration::ZERO;
    let (mut snapshots, mut snapshot_bytes) = (0, 0);
    let begun = Instant::now();
    for number in 0..uploads {
        let text = upload(&mut random, number, has_loot);
        payload_bytes += text.len() as u64;
        let pushed = feed.push(Upload { bytes: text.as_bytes(), ..Upload::default() })?;
        if number % 50 == 49 || number + 1 == uploads {
            feed.wait(pushed.ticket)?;
            let before = processor_nanoseconds("/proc/thread-self/schedstat");
            let (ticks_before, start) = (processor_ticks(), Instant::now());
            loop {
                let report = engine.step_feed(feed)?;
                if report.batch == 0 {
                    break;
                }
                events += report.records;
            }
            step_nanoseconds += processor_nanoseconds("/proc/thread-self/schedstat") - before;
            process_ticks += processor_ticks() - ticks_before;
            stepping += start.elapsed();
            if engine.snapshot_due() {
                snapshot_bytes += engine.snapshot()?.bytes;
                snapshots += 1;
            }
        }
    }
    let elapsed = begun.elapsed();
    let stats = feed.stats();
    let spool_bytes = stats.spool.as_ref().map_or(0, |spool| spool.bytes);
    let journal_bytes = engine.journal_stats().map_or(0, |journal| journal.bytes);
    let per_byte = |bytes: u64| bytes as f64 / payload_bytes as f64;
    println!("{events} events, {payload_bytes} bytes, {:.2} s in all", elapsed.as_secs_f64());
    println!(
        "processor ns an event: {:.0} on the stepping thread, {:.0} in the process: {:.0} k events/s a \
         core; {:.0} k events/s by the clock",
        step_nanoseconds as f64 / events as f64,
        process_ticks as f64 * 1e7 / events as f64,
        events as f64 / (process_ticks as f64 * 10.0),
        events as f64 / 1e3 / stepping.as_secs_f64()
    );
    for table in engine.feeds().tables() {
        println!("table {}: {} rows, {} bytes", table.name(), table.len(), table.memory_bytes());
    }
    println!(
        "bytes for each byte of payload: spool {:.2}, journal {:.2}, {snapshots} snapshots {:.2}",
        per_byte(spool_bytes),
        per_byte(journal_bytes),
        per_byte(snapshot_bytes)
    );
    engine.close()?;
    drop(engine);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
