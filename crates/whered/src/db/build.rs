//! `whered db build` and `whered db convert`: rows or a legacy file become a .mmdb file.
//!
//! Not for: what rows look like (`whered_mmdb::rows`). Rows are read as a stream, with a progress
//! bar when standard error is a terminal; the database is kept in memory until it is whole.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use whered_engine::ip::HostBitsFinder;
use whered_engine::read_database_file;
use whered_mmdb::rows::{Header, RowsLoader, RowsMetadata, RowsOptions, RowsSummary};
use whered_mmdb::{Format, Writer, WriterOptions, rows};

use super::flags::{OverlapChoice, ReadingArguments, RowsChoice, StatedArguments, TypesChoice};
use super::replace_file;
use crate::cli::{BuildArguments, ConvertArguments, Encoding, HeaderChoice};
use crate::enrich::encoding::{self, DecodingReader};
use crate::old_spellings::output_of;
use crate::outcome::{Failure, Outcome, complain, say};
use crate::terminal;
use crate::unpack::{Stream, unpacked};

/// How much of a file says whether it has Locations.
const START_BYTES: u64 = 4096;

/// `whered db build ROWS... -o OUTPUT`.
pub(crate) fn build(arguments: &BuildArguments) -> Result<Outcome, Failure> {
    let (output, files) =
        output_and_inputs("db build", arguments.output.as_ref(), &arguments.paths)?;
    let (output, files) = (output.as_path(), &files[..]);
    let ip_version = arguments.ip_version.unwrap_or(6);
    let options = WriterOptions { ip_version, ..writer_options() };
    let mut writer = Writer::new(options).map_err(Failure::new)?;
    writer.set_ipv4_aliases(!arguments.no_ipv4_aliases);
    let summary = load(files, &arguments.reading, &mut writer)?;
    let stated = summary.metadata.unwrap_or_default();
    let ip_version = arguments.ip_version.or(stated.ip_version).unwrap_or(6);
    let options = arguments.stated.options(&stated, ip_version);
    let input = files.first().map_or(Path::new("-"), PathBuf::as_path);
    writer.set_options(options).map_err(|error| Failure::file(input, error))?;
    finish(writer, summary.rows, input, output, arguments.json)
}

impl StatedArguments {
    /// The metadata of a new file: as the flags say, else as `stated`, else as ever.
    pub(super) fn options(&self, stated: &RowsMetadata, ip_version: u16) -> WriterOptions {
        let mut options = writer_options();
        options.ip_version = ip_version;
        options.record_size_bits = self.record_size_bits;
        if let Some(name) = self.database_type.as_ref().or(stated.database_type.as_ref()) {
            options.database_type.clone_from(name);
        }
        let is_stated = stated.database_type.is_some() || !stated.description.is_empty();
        options.description.clone_from(&stated.description);
        let description = match &self.description {
            Some(text) => Some(text.as_str()),
            None if is_stated => None,
            None => Some("built by whered"),
        };
        if let Some(text) = description {
            options.description.retain(|(language, _)| language != "en");
            options.description.push(("en".to_owned(), text.to_owned()));
        }
        if !self.language.is_empty() {
            options.languages.clone_from(&self.language);
        } else if is_stated || !stated.languages.is_empty() {
            options.languages.clone_from(&stated.languages);
        }
        if let Some(seconds) = self.build_epoch_seconds {
            options.build_epoch_seconds = seconds;
        }
        options
    }
}

/// Reads files with rows, Locations first; says what was passed over.
pub(super) fn load(
    files: &[PathBuf],
    reading: &ReadingArguments,
    writer: &mut Writer,
) -> Result<RowsSummary, Failure> {
    writer.set_last_wins(reading.overlaps == OverlapChoice::Last);
    let is_text = reading.types == TypesChoice::Text;
    let mut options = RowsOptions {
        delimiter: reading.delimiter,
        columns: reading.columns.clone(),
        guesses_types: !is_text,
        skips_bad: reading.skip_bad,
        header: match reading.header {
            HeaderChoice::Auto => Header::Auto,
            HeaderChoice::Yes => Header::Yes,
            HeaderChoice::No => Header::No,
        },
        ..RowsOptions::default()
    };
    match &reading.input_format {
        None => {}
        Some(RowsChoice::Csv) => options.format = Some(rows::RowsFormat::Csv),
        Some(RowsChoice::Ndjson) => options.format = Some(rows::RowsFormat::Ndjson),
        Some(RowsChoice::Tsv) => {
            options.format = Some(rows::RowsFormat::Csv);
            options.delimiter = Some(reading.delimiter.unwrap_or(b'\t'));
        }
        Some(RowsChoice::Layout(layout)) => {
            options.format = Some(rows::RowsFormat::Csv);
            options.layout = Some(layout.clone());
        }
    }
    let mut loader = RowsLoader::new(options, writer);
    for path in in_order(files, reading)? {
        load_file(path, reading, &mut loader)?;
    }
    let summary = loader.finish().map_err(Failure::new)?;
    if summary.rows == 0 && !reading.allow_empty {
        let input = files.first().map_or(Path::new("-"), PathBuf::as_path);
        let what = "gives Locations and no network; allowed: the files of Blocks as well";
        return Err(Failure::file(input, what));
    }
    for remark in &summary.remarks {
        complain(remark);
    }
    if let Some((name, first)) = &summary.first_skipped {
        let count = summary.skipped;
        let rows = if count == 1 { "row was" } else { "rows were" };
        complain(&format!("{count} wrong {rows} passed over; the first: {name}: {first}"));
    }
    Ok(summary)
}

fn load_file(
    path: &Path,
    reading: &ReadingArguments,
    loader: &mut RowsLoader<'_>,
) -> Result<(), Failure> {
    let mut finder = HostBitsFinder::default();
    let encoding = reading.encoding;
    let count = if path.as_os_str() == "-" {
        let progress = progress_of(None);
        let fail = |error| Failure::Message(format!("standard input: {error}"));
        let input = unpack(progress.wrap_read(io::stdin()), encoding).map_err(fail)?;
        loader
            .read("standard input", InspectingReader { input, finder: &mut finder })
            .map_err(|what| Failure::Message(format!("standard input: {what}")))?
    } else {
        let (input, size) = open(path)?;
        let progress = progress_of(Some(size));
        let input = unpack(progress.wrap_read(input), encoding);
        let input = input.map_err(|error| Failure::file(path, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        loader
            .read(&name, InspectingReader { input, finder: &mut finder })
            .map_err(|what| Failure::file(path, what))?
    };
    if count == 0 && !reading.allow_empty {
        let what = "gives no network; allowed: rows with networks (--allow-empty takes files \
                    without any)";
        return Err(Failure::file(path, what));
    }
    finder.end();
    if let Some(remark) = finder.remark() {
        complain(&format!("{}: {remark}", path.display()));
    }
    Ok(())
}

/// The files, Locations in front of the Blocks that need them.
fn in_order<'f>(
    files: &'f [PathBuf],
    reading: &ReadingArguments,
) -> Result<Vec<&'f Path>, Failure> {
    let mut ordered: Vec<(bool, &Path)> = Vec::new();
    for path in files {
        // One file, a pipe or standard input can only be read once.
        let is_file = || fs::metadata(path).is_ok_and(|found| found.is_file());
        let is_rest = files.len() == 1 || path.as_os_str() == "-" || !is_file() || {
            let mut start = Vec::new();
            let input = unpack(open(path)?.0, reading.encoding)
                .map_err(|error| Failure::file(path, error))?;
            let read = input.take(START_BYTES).read_to_end(&mut start);
            read.map_err(|error| Failure::file(path, error))?;
            !RowsLoader::is_locations(&start)
        };
        ordered.push((is_rest, path));
    }
    ordered.sort_by_key(|(is_rest, _)| *is_rest);
    Ok(ordered.into_iter().map(|(_, path)| path).collect())
}

/// The last of the paths and those before it.
pub(super) fn output_and_inputs(
    command: &str,
    output: Option<&PathBuf>,
    paths: &[PathBuf],
) -> Result<(PathBuf, Vec<PathBuf>), Failure> {
    let mut inputs = paths.to_vec();
    let output = output_of(command, output, &mut inputs)?;
    refuse_output(&output)?;
    Ok((output, inputs))
}

/// As [`output_and_inputs`] for a command with one input.
pub(super) fn output_and_input(
    command: &str,
    output: Option<&PathBuf>,
    paths: &[PathBuf],
) -> Result<(PathBuf, PathBuf), Failure> {
    let (output, inputs) = output_and_inputs(command, output, paths)?;
    match <[PathBuf; 1]>::try_from(inputs) {
        Ok([input]) => Ok((output, input)),
        Err(inputs) => Err(Failure::new(format!("{} files to read; allowed: one", inputs.len()))),
    }
}

/// Refuses to replace what is no database: a file with rows, where the output was forgotten.
pub(super) fn refuse_output(output: &Path) -> Result<(), Failure> {
    let is_other_file = fs::metadata(output).is_ok_and(|found| found.is_file() && found.len() > 0)
        && read_database_file(output).is_err();
    if is_other_file {
        let message = "is there and is no database file; allowed as output: a new name, a database \
                       file that is to be replaced";
        return Err(Failure::file(output, message));
    }
    Ok(())
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
pub(super) fn finish(
    writer: Writer,
    count: u64,
    input: &Path,
    output: &Path,
    is_json: bool,
) -> Result<Outcome, Failure> {
    let bytes = writer.finish().map_err(|error| Failure::file(input, error))?;
    replace_file(output, &bytes)?;
    let file = output.display().to_string();
    let object = json!({ "file": file, "networks": count, "bytes": bytes.len() });
    say(is_json, &object, &format!("{file}: {count} networks, {} bytes", bytes.len()))?;
    Ok(Outcome::Found)
}

/// The rows, unpacked where they are packed, as UTF-8.
fn unpack(input: impl Read + Send + 'static, encoding: Option<Encoding>) -> io::Result<Stream> {
    let (mut rows, _) = unpacked(Box::new(input), Arc::default())?;
    let mut mark = Vec::new();
    rows.by_ref().take(2).read_to_end(&mut mark)?;
    let encoding = encoding.or_else(|| encoding::marked(&mark));
    let rows = Cursor::new(mark).chain(rows);
    Ok(match encoding {
        None | Some(Encoding::Utf8) => Box::new(rows),
        Some(encoding) => Box::new(DecodingReader::new(rows, encoding)),
    })
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
    let progress = ProgressBar::with_draw_target(size_bytes, terminal::bars());
    progress.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
    progress.with_finish(indicatif::ProgressFinish::AndClear)
}

/// `whered db convert FILE -o OUTPUT`: every network keeps its record and its borders.
pub(crate) fn convert(arguments: &ConvertArguments) -> Result<Outcome, Failure> {
    let (output, path) =
        output_and_input("db convert", arguments.output.as_ref(), &arguments.paths)?;
    let path = path.as_path();
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
    let progress = ProgressBar::with_draw_target(Some(verified.networks), terminal::bars());
    for item in progress.wrap_iter(database.networks()) {
        let (prefix, id) = item.map_err(wrong)?;
        writer.insert(prefix, database.record(id).map_err(wrong)?).map_err(wrong)?;
    }
    progress.finish_and_clear();
    finish(writer, verified.networks, path, &output, arguments.json)
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
