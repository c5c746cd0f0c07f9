//! `whered zone refresh` and `whered zone retransfer`: a running server is told to ask primaries.
//!
//! Not for: what comes of it, which the log, the metrics and `/v1/zones` of the server say.

use std::io::{self, Write};

use serde_json::json;

use super::flags::ZoneTransferArguments;
use crate::outcome::{Failure, Outcome};

/// Asks for what is newer.
pub(crate) fn refresh(arguments: &ZoneTransferArguments) -> Result<Outcome, Failure> {
    command(arguments, "ZONE.REFRESH")
}

/// Asks for the whole zone.
pub(crate) fn retransfer(arguments: &ZoneTransferArguments) -> Result<Outcome, Failure> {
    command(arguments, "ZONE.RETRANSFER")
}

fn command(arguments: &ZoneTransferArguments, command: &str) -> Result<Outcome, Failure> {
    let zone = &arguments.zone;
    let mut server = arguments.server.open()?;
    server.command(&[command, zone]).map_err(Failure::new)?;
    match arguments.json {
        true => writeln!(io::stdout(), "{}", json!({ "zone": zone, "asked": true }))?,
        false => writeln!(io::stdout(), "{zone}: its primaries are asked")?,
    }
    Ok(Outcome::Found)
}
