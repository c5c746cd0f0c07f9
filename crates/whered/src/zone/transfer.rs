//! `whered zone refresh`, `whered zone retransfer` and `whered zone discard`: a zone of a running
//! server is asked for anew, or loses what updates have changed.
//!
//! Not for: what comes of it, which the log, the metrics and `/v1/zones` of the server say.

use std::io::{self, Write};

use serde_json::json;

use super::flags::ZoneTransferArguments;
use crate::outcome::{Failure, Outcome, complain, say};

/// Asks for what is newer.
pub(crate) fn refresh(arguments: &ZoneTransferArguments) -> Result<Outcome, Failure> {
    command(arguments, "ZONE.REFRESH")
}

/// Asks for the whole zone.
pub(crate) fn retransfer(arguments: &ZoneTransferArguments) -> Result<Outcome, Failure> {
    command(arguments, "ZONE.RETRANSFER")
}

/// Drops what updates have changed.
pub(crate) fn discard(arguments: &ZoneTransferArguments) -> Result<Outcome, Failure> {
    let zone = &arguments.zone;
    let mut server = arguments.server.open()?;
    let counts = match server.numbers(&["ZONE.DISCARD", zone]) {
        Ok(counts) => counts,
        Err(error) if error.to_string().contains("no update has changed") => {
            complain(&error.to_string());
            return Ok(Outcome::NotFound);
        }
        Err(error) => return Err(Failure::new(error)),
    };
    let (added, removed) = match counts[..] {
        [added, removed] => (added, removed),
        _ => return Err(Failure::new("the server's answer has no two numbers")),
    };
    let object = json!({ "zone": zone, "added": added, "removed": removed });
    let text = format!(
        "{zone}: dropped what updates have changed: {added} records added, {removed} removed"
    );
    say(arguments.json, &object, &text)?;
    Ok(Outcome::Found)
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
