//! `whered bench feed`: flags into options, a report onto the terminal.
//!
//! For: the crowd's uploads, sent or written. Not for: making or measuring them
//! (`whered_bench::feed`).

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use whered_bench::feed::{
    self, FeedOptions, FeedReport, Packing, UploadFormat, UploadOptions, World,
};
use whered_bench::measure::Machine;

use super::flags::{BenchFeedArguments, PackingChoice, UploadFormatChoice};
use super::own_file;
use crate::outcome::{Failure, Outcome, complain};

/// `whered bench feed`.
pub(crate) fn feed(arguments: &BenchFeedArguments) -> Result<Outcome, Failure> {
    if let Some(file) = &arguments.bare_receiver {
        feed::bare::serve(arguments.listen, file, &mut io::stdout()).map_err(Failure::new)?;
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
        let plain = measure(arguments, UploadOptions { has_loot: false, ..upload })?;
        let loot = measure(arguments, upload)?;
        return record(folder, arguments.date.as_deref().unwrap_or_default(), &[plain, loot]);
    }
    let report = measure(arguments, upload)?;
    write!(io::stdout(), "{}", report.to_markdown())?;
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", report.to_json());
        fs::write(path, text).map_err(|error| Failure::file(path, error))?;
    }
    Ok(Outcome::Found)
}

fn measure(arguments: &BenchFeedArguments, upload: UploadOptions) -> Result<FeedReport, Failure> {
    let scratch = std::env::temp_dir().join(format!("whered-bench-feed-{}", std::process::id()));
    let folder = arguments.folder.clone().unwrap_or_else(|| scratch.clone());
    let options = FeedOptions {
        binary: own_file()?,
        folder,
        clients: arguments.clients,
        uploads: arguments.uploads,
        upload,
        objects: arguments.objects,
        seed: arguments.seed,
        server: arguments.server.zip(arguments.pid),
    };
    let report = feed::run(&options, &|line| complain(line));
    // What is left there is nobody's data, and it may never have been made.
    let _ = fs::remove_dir_all(&scratch);
    report.map_err(Failure::Message)
}

/// Writes runs as a page and as JSON, and says the page.
fn record(folder: &Path, date: &str, reports: &[FeedReport]) -> Result<Outcome, Failure> {
    let machine = Machine::this();
    let tables: Vec<String> = reports.iter().map(FeedReport::to_markdown).collect();
    let page = format!(
        "# Feeds: uploads of a crowd's map\n\n{}\n\n- date: {date}\n\n{}",
        machine.to_line(),
        tables.join("\n")
    );
    let runs: Vec<String> = reports.iter().map(|report| report.to_json().to_string()).collect();
    let json = format!("[\n{}\n]\n", runs.join(",\n"));
    let name = format!("feed-{date}-{}", machine.short_name());
    for (suffix, text) in [("md", &page), ("json", &json)] {
        let path = folder.join(format!("{name}.{suffix}"));
        fs::write(&path, text).map_err(|error| Failure::file(&path, error))?;
    }
    write!(io::stdout(), "{page}")?;
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
