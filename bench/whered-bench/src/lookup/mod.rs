//! The lookup benchmark: addresses to records and fields, in every access mode.
//!
//! For: `whered-bench lookup`, and `bench/versus` with rivals beside our engines.
//! Not for: servers and protocols. The ancestor of this program looked four addresses up over and
//! over, and then three million random ones; so does this.
//!
//! ```text
//! file ──► lists of addresses ─┐
//!  └─────► engines ────────────┴─► rounds ──► rows, histograms ──► table, JSON
//! ```

mod addresses;
pub mod checksum;
mod database;
mod engine;
mod histogram;
mod indexed;
mod report;
mod rounds;

pub use addresses::{AddressList, Binary, lists};
pub use database::DatabaseEngine;
pub use engine::{BATCH_SIZE, Calls, Engine, Input, Task, Wants};
pub use histogram::Histogram;
pub use indexed::{ByGeneration, Fixed, IndexEngine, IndexReader, IndexSource, Serving, Taking};
pub use report::{EngineNote, Report, Row};
pub use rounds::{Contender, Measured, Rounds, interleaved, threaded};

use crate::measure::{Machine, pin_to_core};
use serde_json::json;
use std::path::{Path, PathBuf};
use whered_engine::AccessMode;
use whered_mmdb::IndexForm;

/// How many addresses of a list the histogram of memory accesses looks at.
const HISTOGRAM_ADDRESSES: usize = 1_000_000;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The database file.
    pub database: PathBuf,
    /// How many addresses each list has.
    pub addresses: usize,
    /// How many of them are one round.
    pub round_size: usize,
    /// Threads at once.
    pub threads: usize,
    /// The core that one thread is held to.
    pub core: Option<usize>,
    /// What the addresses are drawn with.
    pub seed: u64,
}

/// Measures our own engines on one file.
///
/// # Errors
///
/// The file cannot be read, an engine fails, or two of them differ; one line.
pub fn run(options: &Options) -> Result<Report, String> {
    if options.threads == 0 || options.addresses == 0 || options.round_size == 0 {
        return Err("threads, addresses and round size: allowed: 1 and more".to_owned());
    }
    if let Some(core) = options.core.filter(|_| options.threads == 1) {
        pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
    }
    let memory = DatabaseEngine::open(&options.database, AccessMode::Memory)?;
    let lists = lists(memory.database(), options.addresses, options.seed)
        .map_err(|error| format!("{}: {error}", options.database.display()))?;
    let mut others = file_engines(&options.database)?;
    others.extend(index_engines(&options.database)?);
    let mut engines: Vec<&dyn Engine> = vec![&memory];
    engines.extend(others.iter().map(|engine| &**engine));
    let mut report = Report {
        machine: Machine::this(),
        settings: vec![
            ("database", json!(options.database.display().to_string())),
            ("addresses", json!(options.addresses)),
            ("round", json!(options.round_size)),
            ("threads", json!(options.threads)),
            ("core", json!(options.core.filter(|_| options.threads == 1))),
            ("seed", json!(options.seed)),
        ],
        engines: engines.iter().map(|engine| EngineNote::of(*engine)).collect(),
        rows: Vec::new(),
        histograms: histograms(&engines, &lists),
    };
    warm(&engines, &lists, options.round_size)?;
    for list in &lists {
        for task in Task::all() {
            report.rows.extend(rows(&engines, task, list, options)?);
        }
    }
    Ok(report)
}

/// Our indexes of a file: in each form, and as the server has it, with reloading.
///
/// # Errors
///
/// The file cannot be read or indexed.
pub fn index_engines(path: &Path) -> Result<Vec<Box<dyn Engine>>, String> {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for form in [IndexForm::Compact, IndexForm::Fast] {
        engines.push(Box::new(IndexEngine::open(path, form)?));
    }
    engines.push(Box::new(IndexEngine::new(Taking::open(path)?)));
    engines.push(Box::new(IndexEngine::new(Serving::open(path)?)));
    Ok(engines)
}

/// Our engines that walk a file that is not, or not all, in memory of ours.
///
/// # Errors
///
/// The file cannot be read.
pub fn file_engines(path: &Path) -> Result<Vec<Box<dyn Engine>>, String> {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for mode in [AccessMode::Stream, AccessMode::Tree, AccessMode::Mmap] {
        engines.push(Box::new(DatabaseEngine::open(path, mode)?));
    }
    Ok(engines)
}

/// How many places in memory each engine reads, for those that know.
#[must_use]
pub fn histograms(engines: &[&dyn Engine], lists: &[AddressList]) -> Vec<Histogram> {
    let lists = lists.iter().filter(|list| list.name != "same4");
    let engines = engines.iter().filter(|engine| !engine.is_slow());
    let pairs = lists.flat_map(|list| engines.clone().map(move |engine| (engine, list)));
    pairs.filter_map(|(engine, list)| Histogram::new(*engine, list, HISTOGRAM_ADDRESSES)).collect()
}

/// Has every engine touch what it needs, so that the first measured round is like the others.
///
/// # Errors
///
/// An engine fails.
pub fn warm(
    engines: &[&dyn Engine],
    lists: &[AddressList],
    round_size: usize,
) -> Result<(), String> {
    for list in lists {
        for engine in engines {
            let upto = if engine.is_slow() { round_size } else { usize::MAX };
            for task in Task::all().into_iter().filter(|task| engine.can(*task)) {
                if task.wants != Wants::Copies && task.input == Input::Binary {
                    engine.run(task, list, 0..list.len().min(upto))?;
                }
            }
        }
    }
    Ok(())
}

fn rows(
    engines: &[&dyn Engine],
    task: Task,
    list: &AddressList,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let rounds = Rounds::new(list.len(), options.round_size);
    let able = engines.iter().filter(|engine| engine.can(task));
    let contenders: Vec<Contender<'_>> = able.map(|&engine| Contender { engine, task }).collect();
    if options.threads == 1 {
        let measured = interleaved(&contenders, list, rounds)?;
        let both = contenders.iter().zip(measured);
        return Ok(both.map(|(contender, one)| Row::new(list, contender, one)).collect());
    }
    contenders
        .iter()
        .map(|contender| {
            let (measured, per_second) = threaded(contender, list, rounds, options.threads)?;
            let row = Row::new(list, contender, measured);
            Ok(Row { per_second: Some(per_second), ..row })
        })
        .collect()
}
