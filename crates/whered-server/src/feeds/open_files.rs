//! Whether any process has a file open for writing, as far as `/proc` shows.
//!
//! For: files that nobody has called complete. Not for: certainty: processes of other users are not
//! shown to everybody, and neither are those of other machines. Where there is no `/proc`, none is
//! found.
//! Cost: a `stat` for each open file of each process that may be looked at.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bits of a file's flags that say what it is open for; zero: only for reading.
const ACCESS_BITS: u32 = 0o3;

/// Whether a process is seen that has the file open for writing.
pub(super) fn is_written(file: &Metadata) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let numbers = processes
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    numbers.map(|entry| entry.path()).any(|process| is_written_by(&process, file))
}

fn is_written_by(process: &Path, file: &Metadata) -> bool {
    // A process that has ended, or is not ours to look at.
    let Ok(open) = fs::read_dir(process.join("fd")) else { return false };
    open.flatten().any(|entry| {
        let is_same = fs::metadata(entry.path())
            .is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()));
        is_same && is_for_writing(&process.join("fdinfo").join(entry.file_name()))
    })
}

/// What `fdinfo` says: a line `flags:` with an octal number.
fn is_for_writing(info: &Path) -> bool {
    let Ok(text) = fs::read_to_string(info) else { return false };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS_BITS != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use super::*;

    #[test]
    fn a_file_counts_as_written_while_somebody_has_it_open_for_writing() {
        let path = std::env::temp_dir().join(format!("whered-open-{}", std::process::id()));
        fs::write(&path, b"some").unwrap();
        let found = fs::metadata(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(!is_written(&found), "it is only read");
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        assert!(is_written(&found));
        drop(writer);
        assert!(!is_written(&found));
        drop(reader);
        fs::remove_file(&path).unwrap();
    }
}
