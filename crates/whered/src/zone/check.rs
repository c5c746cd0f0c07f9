//! `whered zone check`: what is wrong or odd in master files, with file, line and column.
//!
//! Not for: the reading itself (`whered-dns`).

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::json;
use whered_dns::{Dnssec, Name, Zone, ZoneError};

use super::flags::ZoneCheckArguments;
use crate::outcome::{Failure, Outcome, complain};
use crate::unpack::read_plain;

/// Checks every file; mistakes go to standard error, oddities and sums to standard output.
pub(crate) fn run(arguments: &ZoneCheckArguments) -> Result<Outcome, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut odd, mut failed) = (false, false);
    for path in &arguments.files {
        match one(path, arguments.origin.as_deref(), arguments.unsigned.into()) {
            Ok((zone, faults)) => {
                odd |= !zone.warnings().is_empty() || !faults.is_empty();
                let (origin, serial) = (zone.origin(), zone.serial());
                let (records, names) = (zone.record_count(), zone.name_count());
                let (ends, has_ended) = signatures_end(&zone);
                odd |= has_ended;
                let remarks = zone.warnings().iter().chain(&faults);
                let remarks = remarks.map(|remark| placed(path, remark));
                let remarks: Vec<String> = remarks.collect();
                if arguments.json {
                    let object = json!({
                        "file": shown(path),
                        "zone": origin.to_string(),
                        "serial": serial,
                        "records": records,
                        "names": names,
                        "dnssec_records_left_out": zone.left_out_count(),
                        "signatures_ended": has_ended,
                        "remarks": remarks,
                    });
                    writeln!(out, "{object}")?;
                    continue;
                }
                for remark in remarks {
                    writeln!(out, "{remark}")?;
                }
                let left_out = match zone.left_out_count() {
                    0 => String::new(),
                    count => format!(", {count} DNSSEC records left out"),
                };
                writeln!(
                    out,
                    "{}: ok: {origin} serial {serial}, {records} records, {names} names{left_out}{ends}",
                    shown(path)
                )?;
            }
            Err(message) => {
                complain(&message);
                failed = true;
            }
        }
    }
    out.flush()?;
    Ok(match (failed, odd) {
        (true, _) => Outcome::Failed,
        (false, true) => Outcome::NotFound,
        (false, false) => Outcome::Found,
    })
}

/// The zone of a file, and the faults of its signatures.
fn one(
    path: &Path,
    origin: Option<&str>,
    dnssec: Dnssec,
) -> Result<(Zone, Vec<ZoneError>), String> {
    let name = origin.or_else(|| name_of(path)).ok_or_else(|| {
        format!("{}: --origin is needed: the file's name is none of a zone", shown(path))
    })?;
    let origin: Name =
        name.parse().map_err(|error| format!("{}: origin '{name}': {error}", shown(path)))?;
    let text = read_plain(path).map_err(|error| format!("{}: {error}", shown(path)))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut include = |included: &str| {
        let path = folder.join(included);
        read_plain(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let wrong = |error: ZoneError| placed(path, &error);
    let zone = Zone::from_any_master_file(&origin, &text, dnssec, &mut include).map_err(wrong)?;
    let is_signed = zone.first_expiry_seconds(0).is_some();
    let faults = match is_signed {
        true => Zone::signature_faults(&origin, &text, now_seconds(), &mut include),
        false => Ok(Vec::new()),
    };
    Ok((zone, faults.map_err(wrong)?))
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// When the signatures of a signed zone end, in words, and whether one has ended.
fn signatures_end(zone: &Zone) -> (String, bool) {
    let now = now_seconds();
    let Some(expiry) = zone.first_expiry_seconds(now) else { return (String::new(), false) };
    let time = Timestamp::from_second(expiry.try_into().unwrap_or(i64::MAX));
    let time = time.map_or_else(|_| expiry.to_string(), |time| time.to_string());
    let has_ended = expiry <= now;
    let verb = if has_ended { "ended" } else { "ends" };
    (format!(", signed: its first signature {verb} at {time}"), has_ended)
}

/// `example.com` of `example.com.zone`.
fn name_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".zone").or_else(|| name.strip_suffix(".db")).unwrap_or(name);
    (name != "-" && !name.is_empty()).then_some(name)
}

/// `file:line:column: found ...`; an included file is named in the place of the zone's own.
fn placed(path: &Path, error: &ZoneError) -> String {
    match error.file() {
        Some(_) => error.to_string(),
        None => format!("{}:{error}", shown(path)),
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
