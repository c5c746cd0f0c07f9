//! `whered ingest FEED FILES...` and `whered feeds`: files to a running server's feeds, and how
//! these are.
//!
//! Not for: the protocol, which is `whered-connect`'s. An upload's key is made of its content, so
//! that a call that is repeated, after an error or by mistake, sends nothing twice; `--again` makes
//! a key that is new for each call.
//!
//! At once: `--parallel` threads take the next file from one list; the server puts their uploads
//! into one group.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ring::digest;
use serde_json::Value;
use whered_connect::uploads::{NotTaken, OutgoingUpload, Uploads, encoding_of};
use whered_ip::Packing;

use crate::outcome::{Failure, Outcome, complain, say};
use crate::server::HttpServer;
use crate::terminal;

/// A larger file is no upload of any feed.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// How often it is asked whether an upload is applied.
const ASK_PAUSE: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct IngestArguments {
    /// The feed
    pub(crate) feed: String,
    /// Files to upload, plain or compressed with gzip or zstd; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) server: HttpServer,
    /// Concurrent uploads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,
    /// A header that the feed takes a value from; the file's name is always sent
    #[arg(long, value_name = "NAME:TEXT", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// A query parameter that the feed takes a value from
    #[arg(long, value_name = "NAME=TEXT", value_parser = parameter)]
    pub(crate) query: Vec<(String, String)>,
    /// Send files even if they were sent before
    #[arg(long)]
    pub(crate) again: bool,
    /// Wait until all uploads are applied, and count their records
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FeedsArguments {
    #[command(flatten)]
    pub(crate) server: HttpServer,
    /// Print the server's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What all threads of a call share.
struct Job<'a> {
    arguments: &'a IngestArguments,
    uploads: Uploads,
    /// What tells the keys of this call from those of others.
    call: String,
    next: AtomicUsize,
    taken: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    records: AtomicU64,
    rejected_records: AtomicU64,
    bar: ProgressBar,
    /// The server is gone: nobody tries any further.
    lost: Mutex<Option<String>>,
}

/// `whered ingest`: found if every file was taken; some that were not make it fail.
pub(crate) fn run(arguments: &IngestArguments) -> Result<Outcome, Failure> {
    let uploads = arguments.server.open()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let call =
        if arguments.again { format!("-{now:x}-{:x}", std::process::id()) } else { String::new() };
    let job = Job {
        arguments,
        uploads,
        call,
        next: AtomicUsize::new(0),
        taken: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        records: AtomicU64::new(0),
        rejected_records: AtomicU64::new(0),
        bar: bar(arguments.files.len() as u64),
        lost: Mutex::new(None),
    };
    let threads = usize::from(arguments.parallel).min(arguments.files.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| job.work());
        }
    });
    job.bar.finish_and_clear();
    let lost = job.lost.lock().ok().and_then(|mut lost| lost.take());
    if let Some(lost) = lost {
        return Err(Failure::new(lost));
    }
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (taken, refused) = (read(&job.taken), read(&job.refused));
    let mut line = format!(
        "{}: {taken} uploads taken, {} of them known before, {refused} refused; {} bytes",
        arguments.feed,
        read(&job.repeated),
        read(&job.bytes)
    );
    if arguments.wait {
        let (records, rejected) = (read(&job.records), read(&job.rejected_records));
        line.push_str(&format!("; {records} records applied, {rejected} rejected"));
    }
    let mut object = serde_json::json!({
        "feed": arguments.feed,
        "uploads": taken,
        "repeated": read(&job.repeated),
        "refused": refused,
        "bytes": read(&job.bytes),
    });
    if arguments.wait {
        object["records"] = read(&job.records).into();
        object["rejected_records"] = read(&job.rejected_records).into();
    }
    say(arguments.json, &object, &line)?;
    Ok(if refused == 0 { Outcome::Found } else { Outcome::Failed })
}

fn header(text: &str) -> Result<(String, String), String> {
    pair(text, ':')
}

fn parameter(text: &str) -> Result<(String, String), String> {
    pair(text, '=')
}

/// A name and a text with a sign between them.
fn pair(text: &str, between: char) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(between)
        .ok_or_else(|| format!("no '{between}' in it; allowed: NAME{between}TEXT"))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(char::is_control) {
        let allowed = "letters, digits, '-', '_' and '.', and a text in one line";
        return Err(format!("the name '{name}' or its text is wrong; allowed: {allowed}"));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn bar(files: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(files), terminal::bars());
    if let Ok(style) =
        ProgressStyle::with_template("{wide_bar} {pos} of {len} uploads, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

impl Job<'_> {
    fn work(&self) {
        while let Some(file) = self.arguments.files.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.lost.lock().is_ok_and(|lost| lost.is_some()) {
                return;
            }
            if let Err(refusal) = self.send(file) {
                self.refused.fetch_add(1, Ordering::Relaxed);
                self.bar.suspend(|| complain(&format!("{}: {refusal}", file.display())));
            }
            self.bar.inc(1);
        }
    }

    fn send(&self, file: &Path) -> Result<(), String> {
        let bytes = read(file).map_err(|error| error.to_string())?;
        let hash = digest::digest(&digest::SHA256, &bytes);
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("ingest-{hash}{}", self.call);
        let name = file.file_name().filter(|_| file != Path::new("-"));
        let name = name.map(|name| name.to_string_lossy());
        let upload = OutgoingUpload {
            bytes: &bytes,
            encoding: encoding_of(&bytes),
            key: &key,
            file_name: name.as_deref(),
            headers: &self.arguments.header,
            query: &self.arguments.query,
        };
        let sent = self.uploads.send(&self.arguments.feed, &upload);
        let taken = match sent {
            Ok(taken) => taken,
            Err(NotTaken::Refused(error)) => return Err(error.to_string()),
            Err(NotTaken::Unreachable(error)) => {
                self.lose(error.to_string());
                return Err(error.to_string());
            }
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.repeated.fetch_add(u64::from(taken.repeated), Ordering::Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if self.arguments.wait { self.wait(&taken.id) } else { Ok(()) }
    }

    fn lose(&self, why: String) {
        if let Ok(mut lost) = self.lost.lock() {
            lost.get_or_insert(why);
        }
    }

    fn wait(&self, id: &str) -> Result<(), String> {
        let path = format!("/v1/feeds/{}/uploads/{id}", self.arguments.feed);
        loop {
            let status = self.uploads.get(&path).map_err(|error| error.to_string())?;
            let number = |key: &str| status[key].as_u64().unwrap_or(0);
            match status["status"].as_str() {
                Some("applied") => {
                    self.records.fetch_add(number("records"), Ordering::Relaxed);
                    self.rejected_records.fetch_add(number("rejected_records"), Ordering::Relaxed);
                    return Ok(());
                }
                Some("rejected") => {
                    return Err(status["reason"].as_str().unwrap_or("rejected").to_owned());
                }
                _ => rest(),
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server tells nobody when it has applied something"
)]
fn rest() {
    std::thread::sleep(ASK_PAUSE);
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("too large; allowed: {FILE_BYTES_MAX} bytes")));
    }
    Packing::refuse_others(&bytes)?;
    Ok(bytes)
}

/// `whered feeds`: a line for each feed.
pub(crate) fn list(arguments: &FeedsArguments) -> Result<Outcome, Failure> {
    let uploads = arguments.server.open()?;
    let answer = uploads.get("/v1/feeds").map_err(Failure::new)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{answer}")?;
        return Ok(Outcome::Found);
    }
    let feeds = answer["feeds"].as_array().map(Vec::as_slice).unwrap_or_default();
    write!(out, "{}", table(feeds))?;
    Ok(if feeds.is_empty() { Outcome::NotFound } else { Outcome::Found })
}

/// The columns of the table: their heads, and how each is made of a feed's description.
type CellFormat = fn(&Value) -> String;
const COLUMNS: [(&str, CellFormat); 15] = [
    ("feed", |feed| feed["name"].as_str().unwrap_or("?").to_owned()),
    ("backlog", |feed| count(&feed["backlog"]["uploads"])),
    ("bytes", |feed| count(&feed["backlog"]["bytes"])),
    ("lag s", |feed| number(&feed["lag_seconds"], 1)),
    ("uploads", |feed| count(&feed["uploads"])),
    ("per s", |feed| number(&feed["uploads_per_second"], 1)),
    ("records", |feed| count(&feed["records"])),
    ("per s", |feed| number(&feed["records_per_second"], 0)),
    ("rejected", |feed| count(&feed["rejected_records"])),
    ("batches", |feed| count(&feed["batches"])),
    ("group", |feed| number(&feed["spool"]["uploads_per_sync"], 1)),
    ("p99", |feed| number(&feed["spool"]["p99_group_uploads"], 0)),
    ("fsync ms p50", |feed| number(&feed["spool"]["p50_sync_millis"], 2)),
    ("p99", |feed| number(&feed["spool"]["p99_sync_millis"], 2)),
    ("memory", |feed| match feed["memory"]["resident"].as_bool() {
        Some(true) => count(&feed["memory"]["bytes"]),
        Some(false) => "on disk".to_owned(),
        None => "-".to_owned(),
    }),
];

fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn number(value: &Value, digits: usize) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
}

fn table(feeds: &[Value]) -> String {
    let mut rows = vec![COLUMNS.map(|(head, _)| head.to_owned())];
    rows.extend(feeds.iter().map(|feed| COLUMNS.map(|(_, shown)| shown(feed))));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..COLUMNS.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let cell =
                if at == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            text.push_str(&cell);
        }
        text.push('\n');
    }
    for feed in feeds {
        for link in feed["links"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let word = |key: &str| link[key].as_str().unwrap_or_default().to_owned();
            let error = word("error");
            let error = if error.is_empty() { error } else { format!(": {error}") };
            let feed = feed["name"].as_str().unwrap_or("?");
            text.push_str(&format!(
                "{feed}: {} {} is {}{error}\n",
                word("kind"),
                word("name"),
                word("state")
            ));
        }
    }
    text
}
