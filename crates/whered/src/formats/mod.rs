//! `whered formats`: every format that files are read in, by job, each with an example.
//!
//! Not for reading a file: the list says what the readers take. `docs/guide/formats.md` is written
//! from it, its names are compared with the readers' own lists, and a test runs every example.

mod databases;
mod feeds;
mod logs;
mod packets;
mod points;
mod rules;
mod sets;

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::{Args, ValueEnum};

use crate::outcome::{Failure, Outcome};

#[derive(Args)]
pub(crate) struct FormatsArguments {
    /// What the files are for; without it, the names of all formats
    #[arg(value_parser = parse_job)]
    job: Option<&'static Job>,
    /// Output format
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
    /// Print JSON: --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PageFormat {
    /// Readable lines
    Text,
    /// One JSON object per format
    Json,
    /// The tables of the documentation
    #[value(hide = true)]
    Markdown,
}

/// What files of some formats are read for.
struct Job {
    name: &'static str,
    title: &'static str,
    /// A file of a format is read by this command; NAME is the format's name and FILE the file.
    command: &'static str,
    /// What holds for all of its formats, one sentence or two.
    about: &'static str,
    entries: &'static [Entry],
}

/// A format that a job's files are read in.
struct Entry {
    /// As an option takes it; in brackets where it has no name.
    name: &'static str,
    what: &'static str,
    /// A file of this format, line by line; without a line for a binary format.
    example: &'static [&'static str],
    /// What is refused, or read in another way than one may think; may be empty.
    refused: &'static str,
}

const JOBS: [&Job; 7] = [
    &logs::JOB,
    &packets::JOB,
    &rules::JOB,
    &sets::JOB,
    &databases::JOB,
    &points::JOB,
    &feeds::JOB,
];

fn parse_job(text: &str) -> Result<&'static Job, String> {
    let found = JOBS.into_iter().find(|job| job.name == text);
    found.ok_or_else(|| format!("allowed: {}", JOBS.map(|job| job.name).join(", ")))
}

/// Prints the formats of one job, or of all.
pub(crate) fn run(arguments: &FormatsArguments) -> Result<Outcome, Failure> {
    let jobs = arguments.job.map_or(JOBS.to_vec(), |job| vec![job]);
    let format = if arguments.json { PageFormat::Json } else { arguments.format };
    let page = match format {
        PageFormat::Text if arguments.job.is_some() => {
            jobs.iter().map(|job| details(job)).collect()
        }
        PageFormat::Text => names(&jobs),
        PageFormat::Json => jobs.iter().map(|job| objects(job)).collect(),
        PageFormat::Markdown => jobs.iter().map(|job| tables(job)).collect::<Vec<_>>().join("\n"),
    };
    io::stdout().lock().write_all(page.as_bytes())?;
    Ok(Outcome::Found)
}

/// A line for each job with its formats' names.
fn names(jobs: &[&Job]) -> String {
    let mut page = String::new();
    for job in jobs {
        let names = job.entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "{:<10} {}\n{:<10}   {names}", job.name, job.title, "");
    }
    page.push_str("\nwhered formats JOB shows an example of each.\n");
    page
}

fn details(job: &Job) -> String {
    let mut page = format!("{}: {}\n", job.title, job.command);
    if !job.about.is_empty() {
        let _ = writeln!(page, "{}", job.about.replace('`', ""));
    }
    for entry in job.entries {
        let _ = writeln!(page, "\n{}: {}", entry.name, entry.what.replace('`', ""));
        for line in entry.example {
            let _ = writeln!(page, "    {line}");
        }
        if !entry.refused.is_empty() {
            let _ = writeln!(page, "  not taken: {}", entry.refused.replace('`', ""));
        }
    }
    page
}

fn objects(job: &Job) -> String {
    let mut page = String::new();
    for entry in job.entries {
        let object = serde_json::json!({
            "job": job.name,
            "name": entry.name,
            "what": entry.what,
            "example": entry.example,
            "command": job.command,
            "not_taken": entry.refused,
        });
        let _ = writeln!(page, "{object}");
    }
    page
}

fn tables(job: &Job) -> String {
    let mut page = format!("## {}\n\n`{}`\n", job.title, job.command);
    if !job.about.is_empty() {
        let _ = write!(page, "\n{}\n", job.about);
    }
    page.push_str("\n| format | what | example | not taken |\n| --- | --- | --- | --- |\n");
    for entry in job.entries {
        let lines = entry.example.iter().map(|line| code(line)).collect::<Vec<_>>();
        let example = if lines.is_empty() { "binary".to_owned() } else { lines.join("<br>") };
        let name = match entry.name.strip_prefix('(') {
            Some(name) => name.trim_end_matches(')').to_owned(),
            None => code(entry.name),
        };
        let refused = entry.refused.replace('|', "\\|");
        let _ = writeln!(page, "| {name} | {} | {example} | {refused} |", entry.what);
    }
    page
}

/// Text as code in a cell of a table.
fn code(text: &str) -> String {
    let text = text.replace('\t', "\\t").replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

#[cfg(test)]
mod formats_tests;
