//! What a sink remembers on our side: whose batch numbers it counts, and whether it took rows over.
//!
//! ```text
//! sinks/FEED.SINK:   LIFE\n[adopted\n]         LIFE: 32 hexadecimal digits
//! ```
//!
//! Not for: the position, which lies on the SQL side, in the transaction of its rows.
//!
//! Invariants: a file that cannot be read gives a new life, which costs sending all rows once. It is
//! replaced as a whole. It is no part of backups, so that a restored directory gets a new life.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::ConnectError;

/// The memory of one sink.
#[derive(Debug)]
pub struct SinkMemory {
    path: Option<PathBuf>,
    life: String,
    is_adopted: bool,
}

impl SinkMemory {
    /// Of a server that keeps nothing: a new life each time.
    pub fn none() -> SinkMemory {
        SinkMemory { path: None, life: new_life(), is_adopted: false }
    }

    /// Of a feed's sink, in the folder of a data directory; made if it is not there.
    ///
    /// # Errors
    ///
    /// The folder or file cannot be written.
    pub fn open(data_dir: &Path, feed: &str, sink: &str) -> Result<SinkMemory, ConnectError> {
        let folder = data_dir.join("sinks");
        let path = folder.join(format!("{}.{}", file_name(feed), file_name(sink)));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines = text.lines();
        let is_life = |life: &&str| life.len() == 32 && life.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(life) = lines.next().filter(is_life) {
            let is_adopted = lines.next() == Some("adopted");
            return Ok(SinkMemory { path: Some(path), life: life.to_owned(), is_adopted });
        }
        // As all of a data directory, it is for its owner alone.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| cannot_write(&folder, &error))?;
        let memory = SinkMemory { path: Some(path), life: new_life(), is_adopted: false };
        memory.save()?;
        Ok(memory)
    }

    /// The name of this data directory's batch numbers.
    pub fn life(&self) -> &str {
        &self.life
    }

    /// Whether a run before this one got past taking rows over.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Remembers that there is nothing to be taken over any more.
    pub(crate) fn note_adopted(&mut self) -> Result<(), ConnectError> {
        if self.is_adopted {
            return Ok(());
        }
        self.is_adopted = true;
        self.save().inspect_err(|_| self.is_adopted = false)
    }

    fn save(&self) -> Result<(), ConnectError> {
        let Some(path) = &self.path else { return Ok(()) };
        let adopted = if self.is_adopted { "adopted\n" } else { "" };
        let text = format!("{}\n{adopted}", self.life);
        let beside = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        });
        written.map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> ConnectError {
    ConnectError::new(format!("{}: cannot be written: {error}", path.display()))
}

/// A name as a part of a file's name: other bytes than letters, digits, - and _ as %XX.
fn file_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A random name; the standard library's hasher keys come from the system.
fn new_life() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_stays_until_its_file_is_lost() {
        let folder = std::env::temp_dir().join(format!("whered-memory-{}", std::process::id()));
        let open = || SinkMemory::open(&folder, "a/b", "sink1").expect("is writable");
        let mut first = open();
        assert!(!first.is_adopted());
        first.note_adopted().expect("is writable");
        let again = open();
        assert_eq!((again.life(), again.is_adopted()), (first.life(), true));
        fs::write(folder.join("sinks/a%2Fb.sink1"), "nonsense").expect("is writable");
        let new = open();
        assert_ne!(new.life(), first.life());
        assert!(!new.is_adopted());
        assert_ne!(SinkMemory::none().life(), SinkMemory::none().life());
        fs::remove_dir_all(&folder).expect("is ours");
    }
}
