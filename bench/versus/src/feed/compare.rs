//! The run: whered and the rivals of a group start with the same rows, take sightings in turn, and
//! are compared with the naive consolidation at the end.
//!
//! ```text
//! fill  ─► round: whered, each rival ─► round ... ─► every table compared ─► section of the record
//! ```
//!
//! Not for what a rival does in its turn. The clock of a turn runs from its first sighting until
//! all that it took is in the tables, as durable as its name says; whered's turn begins with XML,
//! the others' with sightings that are read and told apart already.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value as Json, json};
use whered_bench::feed::{self, Consolidated, Upload, UploadFormat, UploadOptions, World};
use whered_bench::measure::{DayRecord, Section, median, median_of_ratios};

use crate::contestant::Contestant;
use crate::options::{Options, Workload};
use crate::ours::Ours;
use crate::{mariadb, postgres, redis, seed, sink, sqlite};

const SEED: u64 = 1;
const OBJECTS: u32 = 20_000;
const UPLOAD_BYTES: usize = 100_000;
/// Uploads that are made for each round; nobody takes more.
const ROUND_UPLOADS: u64 = 8_000;

/// One contestant over all rounds.
struct Measured {
    name: String,
    note: String,
    events: u64,
    /// Events a second, by round.
    rates: Vec<f64>,
    /// Nanoseconds of the server's processor time for an event, by round.
    cpu: Vec<f64>,
    rows: usize,
}

/// Measures, prints, and keeps a record where that is asked for.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut record = DayRecord::new(feed::RECORD, &options.date);
    let clear = || {
        for folder in [&options.disk, &options.ram] {
            // What is left there is nobody's data.
            let _ = fs::remove_dir_all(folder);
        }
    };
    for &workload in &options.workloads {
        for group in options.groups.iter().filter(|group| *group != "sink") {
            eprintln!("{group}, {}", workload.name());
            let measured = measure(options, group, workload);
            clear();
            record.put(section(options, group, workload, &measured?));
        }
    }
    if options.groups.iter().any(|group| group == "sink") {
        eprintln!("sink");
        let measured = sink::measure(options);
        clear();
        record.put(measured?);
    }
    println!("{}", record.to_markdown());
    match &options.record {
        Some(folder) => record.write_into(folder),
        None => Ok(()),
    }
}

fn measure(options: &Options, group: &str, workload: Workload) -> Result<Vec<Measured>, String> {
    let (disk, ram) = (options.disk.as_path(), options.ram.as_path());
    for folder in [disk, ram] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let world = World::new(SEED, OBJECTS);
    let made = UploadOptions {
        format: UploadFormat::Xml,
        has_loot: workload.has_loot(),
        size_bytes: UPLOAD_BYTES,
    };
    let make = |from: u64, count: u64| -> Vec<Upload> {
        (from..from + count).map(|number| Upload::new(&world, number, &made)).collect()
    };
    let before = make(0, options.uploads);
    let mut all = Consolidated::default();
    before.iter().flat_map(|upload| &upload.sightings).for_each(|sighting| all.add(sighting));
    let mut ours = Ours::start(&options.binary, disk, workload)?;
    ours.fill_with(&before)?;
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(ours)];
    contestants.extend(rivals(options, group, workload, (disk, ram))?);
    let mut expected = Vec::new();
    let mut measured = Vec::new();
    for contestant in &mut contestants {
        contestant.fill(&all)?;
        expected.push(all.clone());
        let (name, note) = (contestant.name(), String::new());
        let (rates, cpu) = (Vec::new(), Vec::new());
        measured.push(Measured { name, note, events: 0, rates, cpu, rows: 0 });
    }
    for round in 0..options.rounds {
        let uploads = make(options.uploads + round as u64 * ROUND_UPLOADS, ROUND_UPLOADS);
        for turn in 0..contestants.len() {
            // Another one first each time.
            let number = (turn + round) % contestants.len();
            let contestant = contestants[number].as_mut();
            turn_of(contestant, &uploads, options, &mut measured[number], &mut expected[number])?;
        }
    }
    for ((contestant, measured), expected) in
        contestants.iter_mut().zip(&mut measured).zip(&expected)
    {
        measured.rows =
            contestant.check(expected).map_err(|error| format!("{}: {error}", measured.name))?;
        measured.note = contestant.note();
    }
    Ok(measured)
}

fn rivals(
    options: &Options,
    group: &str,
    workload: Workload,
    (disk, ram): (&Path, &Path),
) -> Result<Vec<Box<dyn Contestant>>, String> {
    let batch = options.batch;
    match group {
        "mariadb-disk" => mariadb::ways(disk, "disk", workload, batch),
        "mariadb-ram" => mariadb::ways(ram, "RAM disk", workload, batch),
        "mariadb-seed" => Ok(vec![Box::new(seed::Seed::new(disk, ram, workload)?)]),
        "postgres-disk" => postgres::ways(disk, "disk", workload, batch),
        "postgres-ram" => postgres::ways(ram, "RAM disk", workload, batch),
        "sqlite" => sqlite::ways([(disk, "disk"), (ram, "RAM disk")], workload, batch),
        "redis-disk" => redis::ways(disk, "disk", workload),
        "redis-ram" => redis::ways(ram, "RAM disk", workload),
        other => Err(format!("no group {other}")),
    }
}

fn turn_of(
    contestant: &mut dyn Contestant,
    uploads: &[Upload],
    options: &Options,
    measured: &mut Measured,
    expected: &mut Consolidated,
) -> Result<(), String> {
    contestant.prepare()?;
    let cpu = contestant.cpu_nanoseconds()?;
    let start = Instant::now();
    let applied = contestant.apply(uploads, options.time)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = contestant.cpu_nanoseconds()? - cpu;
    let events: usize = applied.iter().sum();
    for (upload, count) in uploads.iter().zip(&applied) {
        upload.sightings[..*count].iter().for_each(|sighting| expected.add(sighting));
    }
    measured.events += events as u64;
    measured.rates.push(events as f64 / seconds);
    measured.cpu.push(cpu as f64 / events as f64);
    eprintln!("  {}: {:.0} events/s", measured.name, events as f64 / seconds);
    Ok(())
}

fn section(options: &Options, group: &str, workload: Workload, all: &[Measured]) -> Section {
    let head = [
        "",
        "events/s",
        "server CPU us/event",
        "whered by wall time",
        "whered by server CPU",
        "events, rows compared",
        "",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ours = &all[0];
    let mut figures = Vec::new();
    for one in all {
        let (rate, cpu) = (median(&one.rates), median(&one.cpu));
        let faster = median_of_ratios(&one.rates, &ours.rates);
        let cheaper = median_of_ratios(&ours.cpu, &one.cpu);
        rows.push(vec![
            one.name.clone(),
            format!("{rate:.0}"),
            format!("{:.2}", cpu / 1e3),
            format!("{faster:.1}x"),
            format!("{cheaper:.1}x"),
            format!("{}, {}", one.events, one.rows),
            one.note.clone(),
        ]);
        figures.push(json!({
            "name": one.name, "events_per_second": rate, "cpu_nanoseconds_per_event": cpu,
            "times_by_wall": faster, "times_by_cpu": cheaper, "rates": one.rates,
            "cpu_rounds": one.cpu, "events": one.events, "rows": one.rows, "note": one.note,
        }));
    }
    let figures: Json = json!({
        "rivals": figures, "group": group, "workload": workload.name(),
    });
    let settings = format!(
        "{} rounds of {:.1} s each in turn, {} uploads before; batches of {} uploads of 100 KB",
        options.rounds,
        options.time.as_secs_f64(),
        options.uploads,
        options.batch
    );
    let title = format!("Beside {group}: {}", workload.name());
    Section::new(title, rows, figures).measured_with(&settings)
}
