//! `whered bench`: made-up databases, and measuring with them.
//!
//! Not for: what is made and how it is measured (`whered-bench`).

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use whered_bench::data::{self, Made, Scale};
use whered_bench::{geo, lookup};

use crate::cli::{
    BenchDataArguments, BenchGeoArguments, BenchLookupArguments, DataScale, ReportFormat,
    WorldChoice,
};
use crate::db::replace_file;
use crate::outcome::{Failure, Outcome, complain};

/// `whered bench data --out DIR`.
pub(crate) fn data(arguments: &BenchDataArguments) -> Result<Outcome, Failure> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
    let scale = match arguments.scale {
        DataScale::Full => Scale::Full,
        DataScale::Small => Scale::Small,
    };
    for (name, make) in [("city.mmdb", data::city as Maker), ("asn.mmdb", data::asn)] {
        let path = folder.join(name);
        let made = make(arguments.seed, scale).map_err(|error| Failure::file(&path, error))?;
        replace_file(&path, made.database.as_bytes())?;
        writeln!(
            io::stdout(),
            "{}: {} IPv4 and {} IPv6 networks, {} records, {} bytes",
            path.display(),
            made.networks4,
            made.networks6,
            made.records,
            made.database.size_bytes()
        )?;
    }
    Ok(Outcome::Found)
}

/// Makes one of the databases.
type Maker = fn(u64, Scale) -> Result<Made, whered_mmdb::MmdbError>;

/// `whered bench lookup --db FILE`.
pub(crate) fn lookup(arguments: BenchLookupArguments) -> Result<Outcome, Failure> {
    let report = lookup::run(&lookup::Options {
        database: arguments.db,
        addresses: arguments.addresses,
        round_size: arguments.round,
        threads: arguments.threads,
        core: arguments.core,
        seed: arguments.seed,
    })
    .map_err(Failure::Message)?;
    match arguments.format {
        ReportFormat::Table => write!(io::stdout(), "{}", report.to_text())?,
        ReportFormat::Json => writeln!(io::stdout(), "{}", report.to_json())?,
    }
    Ok(Outcome::Found)
}

/// `whered bench geo --points N`.
pub(crate) fn geo(arguments: &BenchGeoArguments) -> Result<Outcome, Failure> {
    if arguments.list {
        return list_geo();
    }
    let scratch = std::env::temp_dir().join(format!("whered-bench-{}", std::process::id()));
    let report = geo::run(&geo_options(arguments, scratch.clone())?, &|line| complain(line));
    // What is left there is nobody's data, and it may never have been made.
    let _ = fs::remove_dir_all(&scratch);
    let report = report.map_err(Failure::Message)?;
    write!(io::stdout(), "{}", report.to_text())?;
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", report.to_json());
        fs::write(path, text).map_err(|error| Failure::file(path, error))?;
    }
    Ok(Outcome::Found)
}

fn geo_options(arguments: &BenchGeoArguments, scratch: PathBuf) -> Result<geo::Options, Failure> {
    Ok(geo::Options {
        points: arguments.points,
        seed: arguments.seed,
        world: match arguments.world {
            WorldChoice::Mapped => geo::World::Mapped,
            WorldChoice::Clustered => geo::World::Clustered,
        },
        is_in_order: arguments.in_order,
        classes: arguments.classes.clone(),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        server_core: arguments.server_core,
        driver_core: arguments.driver_core,
        server: arguments.server.zip(arguments.pid),
        binary: std::env::current_exe()
            .map_err(|error| Failure::Message(format!("this program's own file: {error}")))?,
        scratch,
    })
}

fn list_geo() -> Result<Outcome, Failure> {
    let classes = geo::CLASSES.iter().map(|class| (class.name, class.about));
    for (name, about) in classes.chain(geo::SCENARIOS) {
        writeln!(io::stdout(), "{name:<24} {about}")?;
    }
    Ok(Outcome::Found)
}
