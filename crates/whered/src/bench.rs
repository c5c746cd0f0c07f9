//! `whered bench`: made-up databases, and measuring with them.
//!
//! Not for: what is made and how it is measured (`whered-bench`).

use std::fs;
use std::io::{self, Write};

use whered_bench::data::{self, Made, Scale};
use whered_bench::lookup;

use crate::cli::{BenchDataArguments, BenchLookupArguments, DataScale, ReportFormat};
use crate::db::replace_file;
use crate::outcome::{Failure, Outcome};

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
