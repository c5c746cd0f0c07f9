//! What came of the last reload, as a file in the data directory.
//!
//! For: `whered reload --data-dir`, which sends a signal and waits for the outcome.
//!
//! ```text
//! last-reload.json   {"pid":812,"number":3,"reloaded":true,"message":"generation 4 with ..."}
//! ```
//!
//! A server writes it after each reload, by signal or by command. The number tells two outcomes apart.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::new_file::NewFile;

const FILE: &str = "last-reload.json";

/// The outcome of a reload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReloadNote {
    pub(crate) pid: u32,
    /// The reloads of the process are numbered from 1.
    pub(crate) number: u64,
    /// What serves now, or why it was refused.
    pub(crate) outcome: Result<String, String>,
}

impl ReloadNote {
    /// The note in a directory, if there is one that can be read.
    pub(crate) fn read(directory: &Path) -> Option<ReloadNote> {
        let note: Value = serde_json::from_slice(&fs::read(directory.join(FILE)).ok()?).ok()?;
        let message = note["message"].as_str()?.to_owned();
        Some(ReloadNote {
            pid: u32::try_from(note["pid"].as_u64()?).ok()?,
            number: note["number"].as_u64()?,
            outcome: if note["reloaded"].as_bool()? { Ok(message) } else { Err(message) },
        })
    }

    /// Writes it in the place of the one before.
    pub(crate) fn write(&self, directory: &Path) -> std::io::Result<()> {
        let (message, reloaded) = match &self.outcome {
            Ok(message) => (message, true),
            Err(message) => (message, false),
        };
        let note = json!({
            "pid": self.pid, "number": self.number, "reloaded": reloaded, "message": message,
        });
        let mut file = NewFile::new_private(&directory.join(FILE))?;
        writeln!(file, "{note}")?;
        file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_written_and_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("whered-note-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        assert_eq!(ReloadNote::read(&folder), None);
        for (number, outcome) in
            [(1, Ok("done \"x\"".to_owned())), (2, Err("a.toml:1: no".to_owned()))]
        {
            let note = ReloadNote { pid: 7, number, outcome };
            note.write(&folder).expect("it is written");
            assert_eq!(ReloadNote::read(&folder), Some(note));
        }
        let mode = fs::metadata(folder.join(FILE)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(folder.join(FILE), "{\"pid\":").expect("it is written");
        assert_eq!(ReloadNote::read(&folder), None);
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
