//! `whered export`: a table or a collection of a running server as a file.
//!
//! Not for: reading pages and writing columns, which is `whered-connect`'s.
//!
//! The file takes its name when it is whole.
//! Exit code 1: there is no table and no collection of that name.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use whered_connect::Server;
use whered_connect::export::{self, ExportKind, ExportOptions, FileFormat};

use crate::new_file::NewFile;
use crate::outcome::{Failure, Outcome, complain};
use crate::server::RespServer;
use crate::terminal;

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// A feed's table or a collection
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Output file; - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Output format: parquet, arrow or csv; without it, taken from the file's name
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    pub(crate) format: Option<FileFormat>,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Export a table, never a collection
    #[arg(long, conflicts_with = "collection")]
    pub(crate) table: bool,
    /// Export a collection, never a table
    #[arg(long)]
    pub(crate) collection: bool,
    /// Write text columns as bytes, so that they need not be UTF-8
    #[arg(long)]
    pub(crate) binary: bool,
}

fn parse_format(name: &str) -> Result<FileFormat, String> {
    FileFormat::from_name(name).ok_or_else(|| "allowed: parquet, arrow, csv".to_owned())
}

/// Writes the file.
pub(crate) fn run(arguments: &ExportArguments) -> Result<Outcome, Failure> {
    let by_name = || arguments.output.extension()?.to_str().and_then(FileFormat::from_name);
    let Some(format) = arguments.format.or_else(by_name) else {
        return Err(Failure::file(
            &arguments.output,
            "its name does not say what it is; allowed: .parquet, .arrow, .csv, or --format",
        ));
    };
    let what = match (arguments.table, arguments.collection) {
        (true, _) => ExportKind::Table,
        (_, true) => ExportKind::Collection,
        _ => ExportKind::Either,
    };
    let options =
        ExportOptions { name: arguments.name.clone(), what, format, binary: arguments.binary };
    let mut server = arguments.server.open()?;
    if arguments.output == Path::new("-") {
        let mut out = Pipe { is_closed: false };
        let written = export(&mut server, &options, &mut out);
        return if out.is_closed { Err(Failure::ClosedPipe) } else { written };
    }
    let to = &arguments.output;
    let fail = |error: io::Error| Failure::file(to, error);
    let mut out = BufWriter::with_capacity(1 << 20, NewFile::new(to).map_err(fail)?);
    let outcome = export(&mut server, &options, &mut out)?;
    let file = out.into_inner().map_err(|error| Failure::file(to, error.error()))?;
    if let Outcome::Found = outcome {
        file.sync().map_err(fail)?;
        file.finish().map_err(fail)?;
    }
    Ok(outcome)
}

fn export(
    server: &mut Server,
    options: &ExportOptions,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    let bar = ProgressBar::with_draw_target(None, terminal::bars());
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} rows, {per_sec}") {
        bar.set_style(style);
    }
    let exported = export::export(server, options, out, &mut |progress| {
        if !bar.is_hidden() {
            if let Some(total) = progress.total {
                bar.set_length(total.max(progress.done));
            }
            bar.set_position(progress.done);
        }
    });
    bar.finish_and_clear();
    match exported.map_err(Failure::new)? {
        Some(_) => Ok(Outcome::Found),
        None => {
            complain(&format!(
                "{}: there is no table and no collection '{}'",
                server.name(),
                options.name
            ));
            Ok(Outcome::NotFound)
        }
    }
}

/// Standard output, which remembers that its reader has gone.
struct Pipe {
    is_closed: bool,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().lock().write(bytes);
        self.is_closed |=
            matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}
