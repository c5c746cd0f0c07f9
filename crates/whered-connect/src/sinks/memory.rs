//! What a sink remembers on our side: whose batch numbers it counts, whether it took rows over, and
//! which SQL tables it has filled.
//!
//! ```text
//! sinks/FEED.SINK:   LIFE\n[adopted\n]{table NAME IDENTITY\n}*      LIFE: 32 hexadecimal digits
//! ```
//! A table's name and identity have no blanks and line breaks: these and `%` are `%XX`. A table
//! that is not there, or with another identity, was made or changed since it was filled: it gets
//! all rows.
//!
//! Not for: the position, which lies on the SQL side, in the transaction of its rows.
//!
//! Invariants: a file that cannot be read gives a new life, which costs sending all rows once. It
//! is replaced as a whole. It is no part of backups, so that a restored directory gets a new life.

use std::collections::BTreeMap;
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
    /// The tables that have had all rows, and what the server said of each.
    filled: BTreeMap<String, String>,
}

impl SinkMemory {
    /// Of a server that keeps nothing: a new life each time.
    pub fn none() -> SinkMemory {
        SinkMemory { path: None, life: new_life(), is_adopted: false, filled: BTreeMap::new() }
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
            let is_adopted = text.lines().nth(1) == Some("adopted");
            let filled = text.lines().filter_map(|line| {
                let (name, identity) = line.strip_prefix("table ")?.split_once(' ')?;
                Some((name.to_owned(), identity.to_owned()))
            });
            let (path, life, filled) = (Some(path), life.to_owned(), filled.collect());
            return Ok(SinkMemory { path, life, is_adopted, filled });
        }
        // As all of a data directory, it is for its owner alone.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| cannot_write(&folder, &error))?;
        let memory = SinkMemory { path: Some(path), ..SinkMemory::none() };
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

    /// Whether a table of this identity has had all rows up to the position on the SQL side.
    pub(crate) fn is_filled(&self, table: &str, identity: &str) -> bool {
        self.filled.get(&word(table)).is_some_and(|known| *known == word(identity))
    }

    /// Remembers tables that have had all rows. Costs nothing where all of that is known.
    pub(crate) fn note_filled<'a>(
        &mut self,
        tables: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<(), ConnectError> {
        if tables.clone().all(|(table, identity)| self.is_filled(table, identity)) {
            return Ok(());
        }
        self.filled.extend(tables.map(|(table, identity)| (word(table), word(identity))));
        self.save()
    }

    fn save(&self) -> Result<(), ConnectError> {
        let Some(path) = &self.path else { return Ok(()) };
        let adopted = if self.is_adopted { "adopted\n" } else { "" };
        let filled = self.filled.iter();
        let filled: String = filled.map(|(name, of)| format!("table {name} {of}\n")).collect();
        let text = format!("{}\n{adopted}{filled}", self.life);
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

/// A text without blanks and line breaks.
fn word(text: &str) -> String {
    let is_plain = |letter: char| !(letter == '%' || letter.is_whitespace() || letter.is_control());
    let mut word = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_plain(letter) {
            word.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                word.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    word
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
        first.note_filled([("a b", "1, 2\nx%"), ("c", "d")].into_iter()).expect("is writable");
        let again = open();
        assert!(again.is_adopted() && again.life() == first.life());
        assert!(again.is_filled("a b", "1, 2\nx%") && again.is_filled("c", "d"));
        assert!(!again.is_filled("a b", "1, 2") && !again.is_filled("other", "d"));
        fs::write(folder.join("sinks/a%2Fb.sink1"), "nonsense").expect("is writable");
        let new = open();
        assert_ne!(new.life(), first.life());
        assert!(!new.is_adopted());
        assert_ne!(SinkMemory::none().life(), SinkMemory::none().life());
        fs::remove_dir_all(&folder).expect("is ours");
    }
}
