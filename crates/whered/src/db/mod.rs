//! `whered db`: what a database file says of itself, verifying one, and replacing one; the other
//! commands have files of their own.
//!
//! Not for: the formats (`whered-mmdb`). Database files are read whole and replaced by renaming.

mod build;
mod diff;
mod dump;
mod edit;
mod fields;
pub(crate) mod flags;
mod index;
mod merge;

pub(crate) use build::{build, build_from_csv, convert, writer_options};
pub(crate) use diff::diff;
pub(crate) use dump::dump;
use dump::field_paths;
pub(crate) use edit::edit;
pub(crate) use fields::fields;
pub(crate) use index::{index, index_path};
pub(crate) use merge::merge;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use whered_engine::read_database_file;
use whered_mmdb::Format;

use crate::cli::FileArguments;
use crate::new_file::NewFile;
use crate::outcome::{Failure, Outcome, say};

/// `whered db info FILE`.
pub(crate) fn info(arguments: &FileArguments) -> Result<Outcome, Failure> {
    let file = &arguments.file;
    let database = read_database_file(file).map_err(Failure::new)?;
    let metadata = database.metadata();
    if arguments.json {
        let pair =
            |(language, text): &(String, String)| (language.clone(), Value::from(text.as_str()));
        let description: serde_json::Map<_, _> = metadata.description.iter().map(pair).collect();
        let object = json!({
            "file": file.display().to_string(),
            "format": match database.format() {
                Format::Mmdb => "mmdb",
                Format::Legacy(_) => "legacy",
            },
            "type": metadata.database_type,
            "description": description,
            "languages": metadata.languages,
            "ip_version": metadata.ip_version,
            "build_epoch_seconds": metadata.build_epoch_seconds,
            "record_size_bits": metadata.record_size_bits,
            "nodes": metadata.node_count,
            "bytes": database.size_bytes(),
        });
        say(true, &object, "")?;
        return Ok(Outcome::Found);
    }
    let mut out = io::stdout().lock();
    let mut line = |name: &str, value: &dyn std::fmt::Display| writeln!(out, "{name:<16}{value}");
    line("file", &file.display())?;
    match database.format() {
        Format::Mmdb => {
            let (major, minor) = (metadata.format_major, metadata.format_minor);
            line("format", &format_args!("MaxMind DB {major}.{minor}"))?;
        }
        Format::Legacy(edition) => {
            line("format", &format_args!("legacy GeoIP, edition {}", edition.number()))?;
        }
    }
    line("type", &metadata.database_type)?;
    for (language, text) in &metadata.description {
        line("description", &format_args!("{text} ({language})"))?;
    }
    line("languages", &metadata.languages.join(", "))?;
    line("ip version", &metadata.ip_version)?;
    match metadata.build_epoch_seconds {
        0 => line("built", &"unknown")?,
        seconds => line("built", &utc(seconds))?,
    }
    line("record size", &format_args!("{} bits", metadata.record_size_bits))?;
    line("nodes", &metadata.node_count)?;
    line("size", &format_args!("{} bytes", database.size_bytes()))?;
    Ok(Outcome::Found)
}

/// `whered db verify FILE`.
pub(crate) fn verify(arguments: &FileArguments) -> Result<Outcome, Failure> {
    let file = &arguments.file;
    let database = read_database_file(file).map_err(Failure::new)?;
    let verified = database.verify().map_err(|error| Failure::file(file, error))?;
    let (file, networks, records) = (file.display(), verified.networks, verified.records);
    let object = json!({ "file": file.to_string(), "networks": networks, "records": records });
    say(arguments.json, &object, &format!("{file}: ok ({networks} networks, {records} records)"))?;
    Ok(Outcome::Found)
}

/// Writes beside the target and renames, so that a reader never sees half a file. Leaves nothing
/// behind when it fails.
pub(crate) fn replace_file(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // Renaming over a device such as /dev/stdout would remove it from the system.
    if fs::metadata(target).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::file(target, "is no regular file; allowed: a file or a new name"));
    }
    let write = || {
        let mut file = NewFile::new(target)?;
        file.write_all(bytes)?;
        // A name must not be seen after a crash before the bytes are.
        file.sync()?;
        file.finish()
    };
    write().map_err(|error| Failure::file(target, error))
}

/// Seconds since 1970 as `2026-11-20T12:00:00Z`, by Howard Hinnant's count of days in years of
/// 365.2425 days that begin in March.
fn utc(epoch_seconds: u64) -> String {
    let (days, seconds) = (epoch_seconds / 86_400 + 719_468, epoch_seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn seconds_become_the_date_that_people_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
