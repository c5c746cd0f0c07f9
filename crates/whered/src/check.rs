//! `whered check`: reads a configuration and everything that it names, and serves nothing.
//!
//! Not for: opening the data directory; the journal is neither read nor locked.

use std::io::{self, Write};
use std::path::Path;

use whered_engine::{Engine, EngineOptions};

use crate::links::Links;
use crate::outcome::{Failure, Outcome};
use crate::serve::read_config;

/// Checks the file and prints what it would serve.
pub(crate) fn run(file: &Path) -> Result<Outcome, Failure> {
    let config = read_config(file)?;
    whered_server::health::verify(&config.checks).map_err(|error| Failure::file(file, error))?;
    Links::check(&config).map_err(|failure| match failure {
        Failure::Message(why) => Failure::file(file, why),
        other => other,
    })?;
    for remark in config.remarks() {
        writeln!(io::stdout(), "{}: remark: {remark}", file.display())?;
    }
    let setup = config.to_setup();
    let (databases, zones, pools) = (setup.databases.len(), setup.zones.len(), setup.pools.len());
    // An engine without a data directory loads and verifies everything and keeps nothing.
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let opened = Engine::open(options).map_err(|error| Failure::file(file, error))?;
    for remark in opened.0.zone_remarks() {
        writeln!(io::stdout(), "{}: {remark}", file.display())?;
    }
    writeln!(
        io::stdout(),
        "{}: ok ({databases} databases, {zones} zones, {pools} pools)",
        file.display()
    )?;
    Ok(Outcome::Found)
}
