//! Single lookups in a database that may be reloaded, beside the index alone; and how long opening
//! takes.
//!
//! `reloading FILE [RESULT.json]`: the city database in FILE, which is made there if it is missing.
//! Four ways to come to the same index take turns on the same addresses: the index itself, a
//! [`DatabaseReader`](whered_engine::DatabaseReader) or a
//! [`GenerationReader`](whered_engine::GenerationReader) asked for each lookup, and a reference to
//! the generation taken and given back for each. Each has an index of its own in memory, so that
//! none finds in the cache what another has read. Their answers must be equal. Time is processor
//! time of one thread.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use whered_bench::data::{Scale, city};
use whered_bench::lookup::{
    ByGeneration, Calls, Contender, Engine, IndexEngine, Input, Rounds, Serving, Taking, Task,
    Wants, interleaved, lists,
};
use whered_bench::measure::Machine;
use whered_mmdb::{Database, IndexForm};

const SEED: u64 = 1;
const ADDRESSES: usize = 2_000_000;
const ROUND_SIZE: usize = 50_000;
const OPENINGS: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("reloading: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: reloading FILE [RESULT.json]")?;
    let path = Path::new(&file);
    if !path.exists() {
        let made = city(SEED, Scale::Full).map_err(|error| error.to_string())?;
        println!("{} IPv4 and {} IPv6 networks", made.networks4, made.networks6);
        std::fs::write(path, made.database.as_bytes()).map_err(|error| error.to_string())?;
    }
    let opening = opening(path)?;
    println!("{opening}");
    let rows = lookups(path)?;
    let result = json!({
        "machine": Machine::this().to_json(),
        "addresses": ADDRESSES,
        "round": ROUND_SIZE,
        "seed": SEED,
        "opening": opening,
        "rows": rows,
    });
    if let Some(to) = arguments.next() {
        std::fs::write(&to, format!("{result:#}\n")).map_err(|error| format!("{to}: {error}"))?;
    }
    Ok(())
}

/// Seconds for reading the file, opening it, and verifying it: the median of a few times.
fn opening(path: &Path) -> Result<Value, String> {
    let mut seconds = [const { Vec::new() }; 3];
    let mut verified = None;
    for _ in 0..OPENINGS {
        let began = Instant::now();
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let read = began.elapsed();
        let database = Database::from_bytes(bytes).map_err(|error| error.to_string())?;
        let opened = began.elapsed() - read;
        verified = Some(database.verify().map_err(|error| error.to_string())?);
        let all = [read, opened, began.elapsed() - read - opened];
        seconds.iter_mut().zip(all).for_each(|(to, time)| to.push(time.as_secs_f64()));
    }
    let [read, opened, checked] = seconds.map(median);
    let verified = verified.unwrap_or_default();
    Ok(json!({
        "networks": verified.networks,
        "nodes": verified.nodes,
        "fields": verified.fields,
        "read_seconds": read,
        "open_seconds": opened,
        "verify_seconds": checked,
    }))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn lookups(path: &Path) -> Result<Vec<Value>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let database = Database::from_bytes(bytes).map_err(|error| error.to_string())?;
    let lists = lists(&database, ADDRESSES, SEED).map_err(|error| error.to_string())?;
    drop(database);
    let alone = IndexEngine::open(path, IndexForm::Compact)?;
    let began = Instant::now();
    let serving = Serving::open(path)?;
    println!("the server's opening, index included: {:.2} s", began.elapsed().as_secs_f64());
    let by_generation = IndexEngine::new(ByGeneration::open(path)?);
    let taking = IndexEngine::new(Taking::open(path)?);
    let reading = IndexEngine::new(serving);
    let engines: [(&str, &dyn Engine); 4] = [
        ("index alone", &alone),
        ("reader", &reading),
        ("by generation", &by_generation),
        ("taken for each", &taking),
    ];
    let task = Task { input: Input::Binary, calls: Calls::Single, wants: Wants::Row };
    let mut rows = Vec::new();
    for list in lists {
        let contenders = engines.map(|(_, engine)| Contender { engine, task });
        let measured = interleaved(&contenders, &list, Rounds::new(list.len(), ROUND_SIZE))?;
        let nanoseconds: Vec<f64> =
            measured.into_iter().map(|measured| median(measured.nanoseconds)).collect();
        let alone = nanoseconds.first().copied().unwrap_or_default();
        for ((name, _), nanoseconds) in engines.iter().zip(nanoseconds) {
            let ratio = nanoseconds / alone;
            println!("{:10} {name:15} {nanoseconds:7.2} ns {ratio:6.3}", list.name);
            rows.push(json!({
                "addresses": list.name,
                "way": name,
                "cpu_nanoseconds": nanoseconds,
                "to_the_index_alone": ratio,
            }));
        }
    }
    Ok(rows)
}
