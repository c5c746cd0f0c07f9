//! Any bytes as a Parquet file: rows or one line that says what is wrong, never a panic that is not
//! caught, nor more rows than the file says.
//!
//! Not for what columns mean, nor for the program around the reader, which is no library: it is
//! compiled in here by its path.
//!
//! ```text
//! input: | bytes of a file ... |
//! ```
#![no_main]

#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../crates/whered-connect/src/parquet_files/mod.rs"]
mod files;

use std::fs::{self, File};
use std::io::Write;
use std::panic::{set_hook, take_hook};
use std::path::PathBuf;
use std::sync::Once;

use files::ParquetFiles;
use libfuzzer_sys::fuzz_target;

/// How many rows are read at most.
const ROWS_MAX: usize = 100_000;

/// A panic of the library is caught by the reader, so that it must not end the process.
static HOOK: Once = Once::new();

fuzz_target!(|input: &[u8]| {
    HOOK.call_once(|| {
        drop(take_hook());
        set_hook(Box::new(|_| {}));
    });
    let file = nameless(input);
    if let Err(line) = read(file) {
        assert!(!line.contains('\n') && line.starts_with("standard input: "), "{line}");
    }
});

fn read(file: File) -> Result<(), String> {
    let mut files = ParquetFiles::open(&[PathBuf::from("-")], Some(file))?;
    files.sample()?;
    let mut rows = 0;
    while let Some(batch) = files.next_batch()?
        && rows < ROWS_MAX
    {
        rows += batch.num_rows();
    }
    Ok(())
}

/// A file of these bytes that has no name.
fn nameless(bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("whered-fuzz-{}.parquet", std::process::id()));
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.as_mut().expect("a temporary file is made");
    file.write_all(bytes).expect("a temporary file is written");
    fs::remove_file(&path).expect("a temporary file is removed");
    file.try_clone().expect("a file is open twice")
}
