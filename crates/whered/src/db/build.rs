//! `whered db build` and `whered db convert`: rows or a legacy file become a .mmdb file.
//!
//! Not for: what rows look like (`whered_mmdb::rows`). Rows are read as a stream, with a progress
//! bar when standard error is a terminal; the database is kept in memory until it is whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use whered_engine::ip::HostBitsFinder;
use whered_engine::read_database_file;
use whered_mmdb::{Format, Writer, WriterOptions, rows};

use super::replace_file;
use crate::cli::{BuildArguments, ConvertArguments, RowsFormat};
use crate::outcome::{Failure, Outcome, complain};
use crate::unpack::{Stream, unpacked};

/// `whered db build ROWS OUTPUT`.
pub(crate) fn build(arguments: &BuildArguments) -> Result<Outcome, Failure> {
    let path = &arguments.rows;
    let now = writer_options();
    let options = WriterOptions {
        database_type: arguments.database_type.clone(),
        description: vec![("en".to_owned(), arguments.description.clone())],
        languages: arguments.language.clone(),
        ip_version: arguments.ip_version,
        record_size_bits: arguments.record_size_bits,
        build_epoch_seconds: arguments.build_epoch_seconds.unwrap_or(now.build_epoch_seconds),
    };
    let format = match arguments.format.unwrap_or_else(|| format_of(path)) {
        RowsFormat::Csv => rows::RowsFormat::Csv,
        RowsFormat::Ndjson => rows::RowsFormat::Ndjson,
    };
    let mut writer = Writer::new(options).map_err(Failure::new)?;
    writer.set_ipv4_aliases(!arguments.no_ipv4_aliases);
    let mut finder = HostBitsFinder::default();
    let count = if path.as_os_str() == "-" {
        let progress = progress_of(None);
        let fail = |error| Failure::Message(format!("standard input: {error}"));
        let input = unpack(progress.wrap_read(io::stdin())).map_err(fail)?;
        rows::read(format, InspectingReader { input, finder: &mut finder }, &mut writer)
            .map_err(|what| Failure::Message(format!("standard input: {what}")))?
    } else {
        let (input, size) = open(path)?;
        let progress = progress_of(Some(size));
        let input = unpack(progress.wrap_read(input));
        let input = input.map_err(|error| Failure::file(path, error))?;
        rows::read(format, InspectingReader { input, finder: &mut finder }, &mut writer)
            .map_err(|what| Failure::file(path, what))?
    };
    finder.end();
    if let Some(remark) = finder.remark() {
        complain(&format!("{}: {remark}", path.display()));
    }
    finish(writer, count, path, &arguments.output)
}

/// Rows whose networks are looked at on the way.
struct InspectingReader<'a, R> {
    input: R,
    finder: &'a mut HostBitsFinder,
}

impl<R: Read> Read for InspectingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.input.read(buffer)?;
        self.finder.push(buffer.get(..size).unwrap_or_default());
        Ok(size)
    }
}

/// Writes the file and says what is in it.
fn finish(writer: Writer, count: u64, input: &Path, output: &Path) -> Result<Outcome, Failure> {
    let bytes = writer.finish().map_err(|error| Failure::file(input, error))?;
    replace_file(output, &bytes)?;
    writeln!(io::stdout(), "{}: {count} networks, {} bytes", output.display(), bytes.len())?;
    Ok(Outcome::Found)
}

/// The rows as they are, or unpacked.
fn unpack(input: impl Read + Send + 'static) -> io::Result<Stream> {
    unpacked(Box::new(input), Arc::default()).map(|(rows, _)| rows)
}

/// NDJSON if the name says so, that of a packed file without its last part.
fn format_of(path: &Path) -> RowsFormat {
    let is_packed = |extension: &OsStr| extension == "gz" || extension == "zst";
    let path =
        if path.extension().is_some_and(is_packed) { &path.with_extension("") } else { path };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ndjson" | "jsonl" | "json") => RowsFormat::Ndjson,
        _ => RowsFormat::Csv,
    }
}

/// The rows and their size. A pipe is taken too: it ends when its writer does.
fn open(path: &Path) -> Result<(File, u64), Failure> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| Failure::file(path, error))?;
    if metadata.is_dir() {
        return Err(Failure::file(path, "is a folder; allowed: a file with rows"));
    }
    Ok((file, metadata.len()))
}

/// A bar over the bytes of the input; nothing where standard error is no terminal.
fn progress_of(size_bytes: Option<u64>) -> ProgressBar {
    let style = match size_bytes {
        Some(_) => "{wide_bar} {bytes}/{total_bytes} {eta}",
        None => "{spinner} {bytes} {bytes_per_sec}",
    };
    let progress = size_bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    progress.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
    progress.with_finish(indicatif::ProgressFinish::AndClear)
}

/// `whered db convert INPUT OUTPUT`: every network keeps its record and its borders.
pub(crate) fn convert(arguments: &ConvertArguments) -> Result<Outcome, Failure> {
    let path = &arguments.input;
    let wrong = |error| Failure::file(path, error);
    let database = read_database_file(path).map_err(Failure::new)?;
    if database.format() == Format::Mmdb {
        return Err(Failure::file(path, "is a MaxMind DB file; allowed: legacy GeoIP .dat files"));
    }
    let verified = database.verify().map_err(wrong)?;
    let metadata = database.metadata();
    let database_type = arguments.database_type.as_ref().unwrap_or(&metadata.database_type);
    if database.has_teredo_clients() {
        tell_of_teredo(path, database_type == &metadata.database_type);
    }
    let options = WriterOptions {
        database_type: database_type.clone(),
        description: metadata.description.clone(),
        languages: metadata.languages.clone(),
        ip_version: metadata.ip_version,
        record_size_bits: arguments.record_size_bits,
        build_epoch_seconds: metadata.build_epoch_seconds,
    };
    let mut writer = Writer::new(options).map_err(wrong)?;
    // A legacy file has no aliases; what is to be the same must not get any.
    writer.set_ipv4_aliases(false);
    writer.set_merging(false);
    let progress = ProgressBar::new(verified.networks);
    for item in progress.wrap_iter(database.networks()) {
        let (prefix, id) = item.map_err(wrong)?;
        writer.insert(prefix, database.record(id).map_err(wrong)?).map_err(wrong)?;
    }
    progress.finish_and_clear();
    finish(writer, verified.networks, path, &arguments.output)
}

/// A tree has no place for what the legacy file says of Teredo addresses.
fn tell_of_teredo(path: &Path, keeps_type: bool) {
    let readers = if keeps_type {
        "whered answers so from the .mmdb file too, by its type; other readers find nothing"
    } else {
        "with another --database-type nobody finds anything for them in the .mmdb file"
    };
    complain(&format!(
        "{}: a Teredo address (2001::/32) is answered by its client's IPv4 address; {readers}",
        path.display()
    ));
}

/// CSV rows to the bytes of a database file; gives the number of rows as well.
///
/// # Errors
/// The first wrong row or cell, with line and column.
pub(crate) fn build_from_csv(
    text: &[u8],
    options: WriterOptions,
) -> Result<(Vec<u8>, u64), String> {
    let mut writer = Writer::new(options).map_err(|error| error.to_string())?;
    let count = rows::read_csv(text, &mut writer).map_err(|error| error.to_string())?;
    let bytes = writer.finish().map_err(|error| error.to_string())?;
    Ok((bytes, count))
}

/// An IPv6 tree (which holds IPv4 too), built now.
pub(crate) fn writer_options() -> WriterOptions {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WriterOptions {
        database_type: "whered-City".to_owned(),
        description: Vec::new(),
        languages: vec!["en".to_owned()],
        ip_version: 6,
        record_size_bits: None,
        build_epoch_seconds: now.as_secs(),
    }
}
