//! Where the enriched records go: standard output or a file, as they are or packed.
//!
//! Not for making them. A file appears under its name when it is whole: it is written beside it and
//! renamed at the end, and a run that fails leaves nothing behind. Devices and pipes are written
//! to directly.
//!
//! Workers pack their own blocks: a gzip file may be a row of members, a Zstandard file a row of
//! frames, and every reader takes both as one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::new_file::NewFile;
use crate::outcome::Failure;

/// How an output is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstandard,
}

impl Packing {
    /// By the name's end, and the name without it.
    pub(crate) fn of(path: &Path) -> (Packing, PathBuf) {
        let packing = match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstandard,
            _ => return (Packing::Plain, path.to_owned()),
        };
        (packing, path.with_extension(""))
    }

    /// Packs a block as a member or frame of its own, in place.
    pub(crate) fn pack(self, block: &mut Vec<u8>) -> Result<(), String> {
        if block.is_empty() {
            return Ok(());
        }
        let fail = |error: io::Error| format!("packing the output: {error}");
        let packed = match self {
            Packing::Plain => return Ok(()),
            Packing::Gzip => {
                let room = Vec::with_capacity(block.len() / 4);
                let mut encoder = GzEncoder::new(room, Compression::fast());
                encoder.write_all(block).and_then(|()| encoder.finish()).map_err(fail)?
            }
            Packing::Zstandard => zstd::bulk::compress(block, 1).map_err(fail)?,
        };
        *block = packed;
        Ok(())
    }
}

/// An output that is being written.
pub(crate) enum Output {
    Standard(io::Stdout),
    /// A device or pipe that has the name already.
    Direct(PathBuf, File),
    /// A file that will have the name.
    New(PathBuf, NewFile),
}

impl Output {
    /// Standard output for nothing and for `-`.
    pub(crate) fn open(target: Option<&Path>) -> Result<Output, Failure> {
        let Some(target) = target.filter(|target| *target != Path::new("-")) else {
            return Ok(Output::Standard(io::stdout()));
        };
        let fail = |error: io::Error| Failure::file(target, error);
        match fs::metadata(target) {
            Ok(found) if found.is_dir() => {
                Err(Failure::file(target, "is a folder; allowed: a file or a new name"))
            }
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(target).map_err(fail)?;
                Ok(Output::Direct(target.to_owned(), file))
            }
            _ => Ok(Output::New(target.to_owned(), NewFile::new(target).map_err(fail)?)),
        }
    }

    /// Writes all of the bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Output::Standard(out) => Ok(out.write_all(bytes).and_then(|()| out.flush())?),
            Output::Direct(path, file) => {
                file.write_all(bytes).map_err(|error| pipe_or_file(path, error))
            }
            Output::New(target, file) => {
                file.write_all(bytes).map_err(|error| Failure::file(target, error))
            }
        }
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Output::New(target, file) => {
                file.finish().map_err(|error| Failure::file(&target, error))
            }
            Output::Standard(_) | Output::Direct(..) => Ok(()),
        }
    }
}

/// Writes all of a command's output to a file, or to standard output.
pub(crate) fn write_whole(target: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    let mut output = Output::open(target)?;
    output.write(bytes)?;
    output.finish()
}

fn pipe_or_file(path: &Path, error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::ClosedPipe
    } else {
        Failure::file(path, error)
    }
}
