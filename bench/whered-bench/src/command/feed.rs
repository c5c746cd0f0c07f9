//! `whered-bench feed`: flags into options, a report onto the terminal.
//!
//! For: the crowd's uploads, sent or written. Not for: making or measuring them
//! (`whered_bench::feed`).

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use whered_bench::feed::{
    self, FeedOptions, FeedReport, Packing, UploadFormat, UploadOptions, World, Written,
};
use whered_bench::measure::DayRecord;

use super::flags::{BenchFeedArguments, PackingChoice, UploadFormatChoice};
use super::{Failure, Outcome, Programs, complain};

/// How many times as many uploads as those of a phase tell what is written.
const WRITTEN_TIMES: usize = 3;

/// `whered-bench feed`.
pub(super) fn feed(
    arguments: &BenchFeedArguments,
    programs: &Programs,
) -> Result<Outcome, Failure> {
    if let Some(file) = &arguments.bare_receiver {
        feed::bare::serve(arguments.listen, file, &mut io::stdout())
            .map_err(|error| Failure::Message(error.to_string()))?;
        return Ok(Outcome::Found);
    }
    if arguments.uploads == 0 || arguments.clients == 0 || arguments.objects == 0 {
        let text = "--uploads, --clients and --objects from 1 on";
        return Err(Failure::Message(text.to_owned()));
    }
    let upload = upload_options(arguments);
    if let Some(folder) = &arguments.write {
        let world = World::new(arguments.seed, arguments.objects);
        let packing = match arguments.packing {
            PackingChoice::None => Packing::None,
            PackingChoice::Gzip => Packing::Gzip,
            PackingChoice::Zstd => Packing::Zstd,
        };
        let count = arguments.uploads as u64;
        let sightings = feed::write_uploads(folder, &world, count, &upload, packing)
            .map_err(|error| Failure::file(folder, error))?;
        writeln!(io::stdout(), "{count} uploads with {sightings} sightings")?;
        return Ok(Outcome::Found);
    }
    if let Some(folder) = &arguments.record {
        return record(arguments, programs, folder);
    }
    let report = measure(arguments, programs, upload)?;
    write!(io::stdout(), "{}", report.to_markdown())?;
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", report.to_json());
        fs::write(path, text).map_err(|error| Failure::file(path, error))?;
    }
    Ok(Outcome::Found)
}

fn measure(
    arguments: &BenchFeedArguments,
    programs: &Programs,
    upload: UploadOptions,
) -> Result<FeedReport, Failure> {
    in_folder(arguments, programs, upload, |options| feed::run(options, &|line| complain(line)))
}

/// Does something with the options and a folder, which is removed if nobody has named it.
fn in_folder<T>(
    arguments: &BenchFeedArguments,
    programs: &Programs,
    upload: UploadOptions,
    work: impl FnOnce(&FeedOptions) -> Result<T, String>,
) -> Result<T, Failure> {
    let scratch = std::env::temp_dir().join(format!("whered-bench-feed-{}", std::process::id()));
    let folder = arguments.folder.clone().unwrap_or_else(|| scratch.clone());
    // A server looks for relative paths beside its configuration.
    let folder = std::path::absolute(&folder).map_err(|error| Failure::file(&folder, error))?;
    let options = FeedOptions {
        binary: programs.server.clone(),
        bench_binary: programs.bench.clone(),
        folder,
        clients: arguments.clients,
        uploads: arguments.uploads,
        upload,
        objects: arguments.objects,
        seed: arguments.seed,
        server: arguments.server.zip(arguments.pid),
    };
    let done = work(&options);
    // What is left there is nobody's data, and it may never have been made.
    let _ = fs::remove_dir_all(&scratch);
    done.map_err(Failure::Message)
}

/// Runs without and with loot, and what they write, into the record of the day; says its page.
fn record(
    arguments: &BenchFeedArguments,
    programs: &Programs,
    folder: &Path,
) -> Result<Outcome, Failure> {
    let mut record = DayRecord::new(feed::RECORD, arguments.date.as_deref().unwrap_or_default());
    let mut written = Vec::new();
    for has_loot in [false, true] {
        let upload = UploadOptions { has_loot, ..upload_options(arguments) };
        record.put(measure(arguments, programs, upload)?.section());
        // A run of its own, long enough for snapshots.
        let uploads = arguments.uploads * WRITTEN_TIMES;
        let run = in_folder(arguments, programs, upload, |options| {
            // A disk of its own takes root: what cannot be measured is told of and left out.
            Written::measure(options, uploads).map_or_else(
                |reason| {
                    complain(&format!("bytes written are not measured: {reason}"));
                    Ok(None)
                },
                |written| Ok(Some(written)),
            )
        })?;
        written.extend(run);
    }
    if !written.is_empty() {
        record.put(Written::section(&written));
    }
    record.write_into(folder).map_err(Failure::Message)?;
    write!(io::stdout(), "{}", record.to_markdown())?;
    Ok(Outcome::Found)
}

fn upload_options(arguments: &BenchFeedArguments) -> UploadOptions {
    let format = match arguments.format {
        UploadFormatChoice::Xml => UploadFormat::Xml,
        UploadFormatChoice::Ndjson => UploadFormat::Ndjson,
        UploadFormatChoice::Csv => UploadFormat::Csv,
    };
    let has_loot = !arguments.no_loot && format != UploadFormat::Csv;
    UploadOptions { format, has_loot, size_bytes: arguments.size }
}
