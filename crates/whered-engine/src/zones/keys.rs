//! The directory of a zone's keys: BIND's two files for each key, and the states of the keys.
//!
//! Not for: what keys do (`whered-dns`), when a rollover goes on (`engine/signing.rs`).
//!
//! ```text
//! Kexample.com.+013+12345.key        the DNSKEY
//! Kexample.com.+013+12345.private    0600
//! example.com.keystates              0600, written here: a rollover, retired keys
//! ```
//!
//! Several zones may share a directory. It and the private files must be closed to all but their
//! owner. Concurrency: the states are replaced as a whole; one process at a time writes them.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use whered_dns::{KeyAlgorithm, KeyId, KeyStates, Name, SigningKey, zone_in_file_names};

use crate::error::EngineError;

/// The most bytes of a file that are read.
const FILE_SIZE_MAX: u64 = 64 * 1024;
/// The most keys of one zone.
const KEY_COUNT_MAX: usize = 64;
/// What others may do with a file.
const OTHERS: u32 = 0o077;

/// The keys of one zone.
#[derive(Debug)]
pub struct ZoneKeys {
    /// All of them, by the names of their files, with those of the `.key` files.
    pub keys: Vec<(PathBuf, SigningKey)>,
    /// What is known of them.
    pub states: KeyStates,
}

/// A directory of keys, and the zone whose keys are meant.
#[derive(Clone, Debug)]
pub struct KeyDirectory {
    path: PathBuf,
    zone: Name,
}

impl KeyDirectory {
    /// The keys of a zone in a directory, which need not exist.
    pub fn new(path: impl Into<PathBuf>, zone: Name) -> KeyDirectory {
        KeyDirectory { path: path.into(), zone }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something of its name.
    pub fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// The file of the states.
    pub fn states_path(&self) -> PathBuf {
        self.path.join(format!("{}keystates", zone_in_file_names(&self.zone)))
    }

    /// Reads all keys of the zone. Of a zone without keys, none.
    ///
    /// # Errors
    /// One line with the place: a directory or file that is missing, unreadable or open to others;
    /// what is no key, or one of another zone; wrong states.
    pub fn read(&self) -> Result<ZoneKeys, EngineError> {
        let wrong = |path: &Path, what: &dyn Display| {
            EngineError::new(format!("{}: {what}", path.display()))
        };
        let directory = fs::metadata(&self.path).map_err(|error| wrong(&self.path, &error))?;
        check_mode(&self.path, directory.permissions().mode(), "700")?;
        let paths = self.key_paths().map_err(|error| wrong(&self.path, &error))?;
        if paths.len() > KEY_COUNT_MAX {
            let what = format!("{} keys of {}; allowed: {KEY_COUNT_MAX}", paths.len(), self.zone);
            return Err(wrong(&self.path, &what));
        }
        let mut keys = Vec::new();
        for path in paths {
            let public = read_text(&path, false)?;
            let private = read_text(&path.with_extension("private"), true)?;
            let key = SigningKey::read(&self.zone, &public, &private);
            let key = key.map_err(|error| wrong(&path, &error))?;
            let stem = key.file_stem(&self.zone);
            if path.file_stem().is_none_or(|own| own != stem.as_str()) {
                return Err(wrong(&path, &format!("a key whose file is named {stem}.key")));
            }
            keys.push((path, key));
        }
        Ok(ZoneKeys { keys, states: self.read_states()? })
    }

    /// Reads the states; without a file there are none.
    ///
    /// # Errors
    /// As [`KeyDirectory::read`].
    pub fn read_states(&self) -> Result<KeyStates, EngineError> {
        let path = self.states_path();
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeyStates::default()),
            _ => {
                let text = read_text(&path, true)?;
                let read = KeyStates::read(&text);
                read.map_err(|error| EngineError::new(format!("{}:{error}", path.display())))
            }
        }
    }

    /// Makes a key, with its directory if there is none; in the place of `old`, which it then
    /// replaces step by step.
    ///
    /// # Errors
    /// A directory that is open to others, a file that cannot be written.
    pub fn create(
        &self,
        algorithm: KeyAlgorithm,
        old: Option<KeyId>,
    ) -> Result<SigningKey, EngineError> {
        let wrong = |path: &Path, error: &dyn Display| {
            EngineError::new(format!("{}: {error}", path.display()))
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| wrong(&self.path, &error))?;
        let known = self.read()?;
        let is_known = |key: &SigningKey| {
            known.keys.iter().any(|(_, other)| KeyId::of(other) == KeyId::of(key))
        };
        // A tag of two keys is possible, and of no use.
        let made = loop {
            let made = SigningKey::generate(&self.zone, algorithm);
            let made = made.map_err(|error| wrong(&self.path, &error))?;
            if !is_known(&made.key) {
                break made;
            }
        };
        let stem = made.key.file_stem(&self.zone);
        let write = |extension: &str, text: &str, mode: u32| {
            let path = self.path.join(format!("{stem}.{extension}"));
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            let written = file.and_then(|file| write_durably(file, text));
            written.map_err(|error| wrong(&path, &error))
        };
        write("private", &made.private_text, 0o600)?;
        if let Some(old) = old {
            let mut states = known.states;
            let begun = states.begin(old, KeyId::of(&made.key));
            begun.map_err(|error| wrong(&self.states_path(), &error))?;
            self.write_states(&states)?;
        }
        // The public file last: without it the private one is no key.
        write("key", &made.public_text, 0o644)?;
        self.sync()?;
        Ok(made.key)
    }

    /// Replaces the file of the states.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_states(&self, states: &KeyStates) -> Result<(), EngineError> {
        let path = self.states_path();
        let new = path.with_extension("keystates.new");
        let open =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let written = open.and_then(|file| write_durably(file, &states.to_string()));
        let written = written.and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| EngineError::new(format!("{}: {error}", path.display())))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), EngineError> {
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| EngineError::new(format!("{}: {error}", self.path.display())))
    }

    /// The `.key` files of the zone, in the order of their names.
    fn key_paths(&self) -> io::Result<Vec<PathBuf>> {
        let start = format!("K{}+", zone_in_file_names(&self.zone));
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let is_key = |name: &str| name.starts_with(&start) && name.ends_with(".key");
            if name.to_str().is_some_and(is_key) {
                paths.push(self.path.join(name));
            }
        }
        paths.sort();
        Ok(paths)
    }
}

fn write_durably(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The text of a file; one that is secret must be closed to others.
fn read_text(path: &Path, is_secret: bool) -> Result<String, EngineError> {
    let wrong = |what: &dyn Display| EngineError::new(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let metadata = file.metadata().map_err(|error| wrong(&error))?;
    if is_secret {
        check_mode(path, metadata.permissions().mode(), "600")?;
    }
    let mut text = String::new();
    let read = file.take(FILE_SIZE_MAX).read_to_string(&mut text);
    read.map_err(|error| wrong(&error))?;
    if text.len() as u64 == FILE_SIZE_MAX {
        return Err(wrong(&format!("found {FILE_SIZE_MAX} bytes or more; allowed: less")));
    }
    Ok(text)
}

/// Nobody but the owner may read keys.
fn check_mode(path: &Path, mode: u32, allowed: &str) -> Result<(), EngineError> {
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let (path, mode) = (path.display(), mode & 0o7777);
    Err(EngineError::new(format!(
        "{path}: found the mode {mode:o}, which lets others at keys; allowed: {allowed} (chmod {allowed} {path})"
    )))
}
