//! Writes a table or a collection of a running server into a file that other programs read.
//!
//! For: `whered export`: Parquet (GeoParquet 1.1 where there are places), Arrow IPC, CSV. Not for:
//! following changes, which sinks do.
//!
//! ```text
//! server ── TABLE.SCAN or ZSCAN, page by page ──> rows ──> columns of 16 Ki rows ──> file
//! ```
//!
//! Invariants: memory is bounded by a page, some columns, and a row group's encoded columns; rows
//! of a table stand once, each as it was when its page was read; of a collection, a member that is
//! there all the while stands at least once. A file that was broken off is removed by who made it:
//! nothing here knows its name.
//!
//! Cost: a round trip a page; the next page is asked for before the last one is encoded.

mod columns;
mod files;
mod source;

use std::io::Write;

use crate::error::ConnectError;
use crate::{Progress, Server};
use columns::Columns;
use files::File;
use source::Pages;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// Apache Parquet, with GeoParquet's metadata where there are places.
    Parquet,
    /// Arrow IPC in its file form, also known as Feather.
    Arrow,
    /// Comma-separated text with a header.
    Csv,
}

impl FileFormat {
    /// The format of that name, which is also its files' ending.
    pub fn from_name(name: &str) -> Option<FileFormat> {
        match name {
            "parquet" | "geoparquet" => Some(FileFormat::Parquet),
            "arrow" | "feather" => Some(FileFormat::Arrow),
            "csv" => Some(FileFormat::Csv),
            _ => None,
        }
    }
}

/// What is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportKind {
    /// A table of a feed.
    Table,
    /// A collection of points.
    Collection,
    /// A table if there is one of that name, a collection otherwise.
    Either,
}

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The table or collection.
    pub name: String,
    /// Which of the two.
    pub what: ExportKind,
    /// What the file is.
    pub format: FileFormat,
    /// Write texts as bytes, whether they are UTF-8 or not.
    pub binary: bool,
}

/// Writes all rows. Gives how many those were, or nothing if there is no table or collection of
/// that name; nothing is written then.
///
/// # Errors
///
/// A server that refuses, an output that cannot be written, a text that is not UTF-8 without
/// `binary`. What was written until then is no whole file.
pub fn export(
    server: &mut Server,
    options: &ExportOptions,
    out: &mut (dyn Write + Send),
    watch: &mut dyn FnMut(Progress),
) -> Result<Option<u64>, ConnectError> {
    let Some(mut pages) = Pages::open(server, &options.name, options.what)? else {
        return Ok(None);
    };
    let mut columns = Columns::new(pages.schema(), options.binary);
    let mut file = File::begin(options.format, &columns, out)?;
    let (mut done, mut unseen) = (0, 0);
    let total = pages.total();
    while let Some(rows) = pages.next_page(server)? {
        for row in &rows {
            columns.push(row)?;
            unseen += 1;
            if columns.is_full() {
                file.write(&mut columns)?;
                done += std::mem::take(&mut unseen);
            }
        }
        watch(Progress { done: done + unseen, total, records: done + unseen });
    }
    file.write(&mut columns)?;
    file.end(&columns)?;
    Ok(Some(done + unseen))
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
