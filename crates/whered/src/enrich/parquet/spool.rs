//! Parquet on standard input: a file without a name, since Parquet is read from its end.
//!
//! Not for text, which is read as it comes. The file is in the folder for temporary files
//! (`TMPDIR`) and disappears with the process, however that ends.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};

use crate::outcome::Failure;

/// The longest file that is kept.
const SPOOL_BYTES_MAX: u64 = 16 << 30;
/// How many names are tried.
const NAMES_MAX: u32 = 100;

/// Whether standard input begins as Parquet does. Nothing is taken from it.
pub(crate) fn is_parquet_on_standard_input() -> bool {
    let mut input = io::stdin().lock();
    let Ok(head) = input.fill_buf() else { return false };
    // Behind the mark is a page's header in Thrift's compact protocol.
    let is_page = head.get(4).is_none_or(|byte| [0x15, 0x1c].contains(byte));
    (head.starts_with(b"PAR1") || head.starts_with(b"PARE")) && is_page
}

/// All of standard input as a file.
pub(crate) fn standard_input() -> Result<File, Failure> {
    let folder = std::env::temp_dir();
    let fail = |error: io::Error| {
        let shown = folder.display();
        Failure::Message(format!("standard input: keeping Parquet in {shown}: {error}"))
    };
    let mut file = nameless(&folder).map_err(fail)?;
    let mut input = io::stdin().lock().take(SPOOL_BYTES_MAX + 1);
    if io::copy(&mut input, &mut file).map_err(fail)? > SPOOL_BYTES_MAX {
        let most = SPOOL_BYTES_MAX >> 30;
        return Err(Failure::Message(format!(
            "standard input: more than {most} GiB of Parquet; allowed: less, or a file"
        )));
    }
    Ok(file)
}

/// A new file that has no name any more.
fn nameless(folder: &std::path::Path) -> io::Result<File> {
    for number in 0..NAMES_MAX {
        let path = folder.join(format!("whered-{}-{number}.parquet", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free"))
}
