//! The run: options, engines, lists, and every comparison.
//!
//! Not for what is wanted of the results (`bars`) and how they are written down (`record`).
//!
//! Engines that do the same (input, and what is asked) run over a list together, ours in batches
//! beside single calls; rivals have single calls only.

use crate::bars::File;
use crate::crates::{CrateEngine, Decoding};
use crate::geoip::{FLAGS, GeoipEngine};
use crate::maxmind::{CallsUsed, MaxmindEngine};
use crate::record::{FileRow, Record};
use serde_json::json;
use std::path::{Path, PathBuf};
use whered_bench::lookup::{
    AddressList, Calls, Contender, DatabaseEngine, Engine, EngineNote, Input, Report, Rounds, Row,
    Task, Wants, file_engines, histograms, index_engines, interleaved, lists, warm,
};
use whered_bench::measure::{Machine, pin_to_core};
use whered_engine::AccessMode;

const ORIGINAL: &str = "libmaxminddb.so.0";

/// What the command line says.
pub(crate) struct Options {
    db: Option<PathBuf>,
    legacy: PathBuf,
    drop_in: Option<PathBuf>,
    core: usize,
    addresses: usize,
    round: usize,
    seed: u64,
    record: Option<PathBuf>,
    date: String,
    /// What is compared: comparisons whose names have one of these in them; all if there are none.
    only: Vec<String>,
    unknown: Option<String>,
}

impl Options {
    /// Reads `--name value` pairs; what is wrong is told by [`run`].
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Options {
        let mut options = Options {
            db: None,
            legacy: PathBuf::from("/usr/share/GeoIP/GeoIP.dat"),
            drop_in: None,
            core: 0,
            addresses: 3_000_000,
            round: 200_000,
            seed: 1,
            record: None,
            date: "undated".to_owned(),
            only: Vec::new(),
            unknown: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let number = value.parse::<usize>().ok().filter(|number| *number > 0);
            match (name.as_str(), number) {
                ("--db", _) => options.db = Some(value.into()),
                ("--legacy", _) => options.legacy = value.into(),
                ("--drop-in", _) => options.drop_in = Some(value.into()),
                ("--record", _) => options.record = Some(value.into()),
                ("--date", _) => options.date = value,
                ("--only", _) => options.only = value.split(',').map(str::to_owned).collect(),
                ("--core", _) if value == "0" => options.core = 0,
                ("--core", Some(core)) => options.core = core,
                ("--addresses", Some(count)) => options.addresses = count,
                ("--round", Some(count)) => options.round = count,
                ("--seed", Some(seed)) => options.seed = seed as u64,
                _ => options.unknown = Some(format!("{name} {value}")),
            }
        }
        options
    }
}

/// Measures everything, prints it, and writes the record if one is asked for.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(unknown) = &options.unknown {
        return Err(format!(
            "{unknown:?}; allowed: --db FILE, --legacy FILE, --drop-in FILE, --record DIR, --date \
             DATE, --only PARTS of names such as uniform4/binary/fields with commas between, and \
             numbers for --core, --addresses, --round, --seed"
        ));
    }
    let Some(db) = &options.db else {
        return Err("no --db FILE; `whered-bench data` makes one".to_owned());
    };
    pin_to_core(options.core).map_err(|error| format!("core {}: {error}", options.core))?;
    let mut record = Record { report: report(options), results: Vec::new() };
    city(options, db, &mut record)?;
    if options.legacy.exists() {
        legacy(options, &mut record)?;
    } else {
        eprintln!("compare: {} is not there: libGeoIP is left out", options.legacy.display());
    }
    if record.results.is_empty() {
        return Err(format!(
            "--only {}: no comparison has that in its name; allowed: parts of LIST/INPUT/WANTS, such \
             as networks4/text/fields",
            options.only.join(",")
        ));
    }
    print!("{}", record.bars());
    match &options.record {
        None => Ok(()),
        Some(folder) => record.write(folder, &options.date),
    }
}

fn report(options: &Options) -> Report {
    let setting = |path: &Option<PathBuf>| {
        json!(path.as_ref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())))
    };
    Report {
        machine: Machine::this(),
        settings: vec![
            ("date", json!(options.date)),
            ("database", setting(&options.db)),
            ("drop-in", setting(&options.drop_in)),
            ("addresses", json!(options.addresses)),
            ("round", json!(options.round)),
            ("threads", json!(1)),
            ("core", json!(options.core)),
            ("seed", json!(options.seed)),
            ("our compiler flags", json!("cargo --release: opt-level 3, lto thin, any x86-64")),
            ("the rivals' loops", json!("cc -O2 -std=gnu11; libraries as Debian builds them")),
        ],
        engines: Vec::new(),
        rows: Vec::new(),
        histograms: Vec::new(),
    }
}

fn city(options: &Options, db: &Path, record: &mut Record) -> Result<(), String> {
    let memory = DatabaseEngine::open(db, AccessMode::Memory)?;
    let lists = lists(memory.database(), options.addresses, options.seed)
        .map_err(|error| format!("{}: {error}", db.display()))?;
    let mut owned: Vec<Box<dyn Engine>> = vec![Box::new(memory)];
    owned.extend(file_engines(db)?);
    owned.extend(index_engines(db)?);
    let (usual, fastest) = (CallsUsed::Usual, CallsUsed::Fastest);
    let maxmind = |name: &str, library: &str, mode: Option<&str>, used: CallsUsed| {
        MaxmindEngine::open(name, library, mode, db, used)
            .map(|engine| Box::new(engine) as Box<dyn Engine>)
    };
    owned.push(maxmind("libmaxminddb", ORIGINAL, None, usual)?);
    owned.push(maxmind("libmaxminddb-fastest", ORIGINAL, None, fastest)?);
    if let Some(path) = &options.drop_in {
        let path = path.to_string_lossy();
        owned.push(maxmind("drop-in-tree", &path, None, usual)?);
        owned.push(maxmind("drop-in-index", &path, Some("index"), usual)?);
        owned.push(maxmind("drop-in-index-fast", &path, Some("index-fast"), usual)?);
    }
    owned.push(Box::new(CrateEngine::open(db, Decoding::Paths)?));
    owned.push(Box::new(CrateEngine::open(db, Decoding::Struct)?));
    let engines: Vec<&dyn Engine> = owned.iter().map(|engine| &**engine).collect();
    warm(&engines, &lists, options.round)?;
    record.report.histograms.extend(histograms(&engines, &lists));
    record.report.engines.extend(engines.iter().map(|engine| EngineNote::of(*engine)));
    for wants in [Wants::Record, Wants::Fields, Wants::Copies] {
        for input in [Input::Binary, Input::Text] {
            // Texts are about reading them, and copies about copying: a list of a kind says it.
            let is_plain = input == Input::Binary && wants != Wants::Copies;
            let is_wanted = |list: &&AddressList| {
                is_plain || matches!(list.name, "uniform4" | "networks4" | "networks6")
            };
            for list in lists.iter().filter(is_wanted) {
                compare(File::City, &engines, list, (input, wants), options, record)?;
            }
        }
    }
    Ok(())
}

fn legacy(options: &Options, record: &mut Record) -> Result<(), String> {
    let file = &options.legacy;
    let memory = DatabaseEngine::open(file, AccessMode::Memory)?;
    let lists = lists(memory.database(), options.addresses, options.seed)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let lists: Vec<AddressList> = lists.into_iter().filter(AddressList::is_ipv4).collect();
    let mut owned: Vec<Box<dyn Engine>> = vec![Box::new(memory)];
    owned.extend(file_engines(file)?);
    owned.extend(index_engines(file)?);
    for flags in FLAGS {
        owned.push(Box::new(GeoipEngine::open(file, flags)?));
    }
    let engines: Vec<&dyn Engine> = owned.iter().map(|engine| &**engine).collect();
    let notes = engines.iter().map(|engine| EngineNote::of(*engine).about("legacy"));
    record.report.engines.extend(notes);
    for list in &lists {
        for input in [Input::Text, Input::Binary] {
            compare(File::Legacy, &engines, list, (input, Wants::Record), options, record)?;
        }
    }
    Ok(())
}

/// All engines that can do it, in single calls and in batches, over one list.
fn compare(
    file: File,
    engines: &[&dyn Engine],
    list: &AddressList,
    (input, wants): (Input, Wants),
    options: &Options,
    record: &mut Record,
) -> Result<(), String> {
    let name = format!("{}/{input}/{wants}", list.name);
    if !options.only.is_empty() && !options.only.iter().any(|part| name.contains(part)) {
        return Ok(());
    }
    // A handle to a record stands beside a record.
    let same = if wants == Wants::Record { vec![Wants::Row, wants] } else { vec![wants] };
    let tasks = same
        .into_iter()
        .flat_map(|wants| [Calls::Single, Calls::Batch].map(|calls| Task { input, calls, wants }));
    let pairs = tasks
        .flat_map(|task| engines.iter().map(move |engine| Contender { engine: *engine, task }));
    let contenders: Vec<Contender<'_>> =
        pairs.filter(|contender| contender.engine.can(contender.task)).collect();
    let rounds = Rounds::new(list.len(), options.round);
    let measured = interleaved(&contenders, list, rounds)?;
    for (contender, measured) in contenders.iter().zip(measured) {
        let row = Row::new(list, contender, measured);
        eprintln!("{file:?} {}", row.to_line());
        record.results.push(FileRow { file, row });
    }
    Ok(())
}
