//! Where a consumer began, until its feed has an upload that says where it is.
//!
//! ```text
//! streams/FEED.STREAM:   POSITION        as the source writes it
//! ```
//!
//! Without it a consumer that is started again before its first upload would begin anew: at an end
//! that is another one now, or at a beginning that was trimmed meanwhile, and nobody would know of
//! what is missing. Not for: positions after the first upload, which lie in the feed's spool.
//!
//! Invariant: it is written once, as a whole, and durable before anything is read.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::ConnectError;

/// The memory of one consumer.
#[derive(Clone, Debug, Default)]
pub struct StreamMemory {
    path: Option<PathBuf>,
    first: Option<Vec<u8>>,
}

impl StreamMemory {
    /// Of a stream of a feed, in the folder of a data directory.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or the file cannot be read.
    pub fn open(data_dir: &Path, feed: &str, stream: &str) -> Result<StreamMemory, ConnectError> {
        let folder = data_dir.join("streams");
        let path = folder.join(format!("{}.{}", file_name(feed), file_name(stream)));
        let fault = |path: &Path, error: &std::io::Error| {
            ConnectError::new(format!("{}: {error}", path.display()))
        };
        let first = match fs::read(&path) {
            Ok(position) => Some(position),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(fault(&path, &error)),
        };
        // As all of a data directory, it is for its owner alone.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| fault(&folder, &error))?;
        Ok(StreamMemory { path: Some(path), first })
    }

    /// Where the consumer began, if it has.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.first.as_deref()
    }

    /// Remembers where it begins.
    pub(crate) fn note(&mut self, position: Vec<u8>) -> Result<(), ConnectError> {
        if let Some(path) = &self.path {
            let beside = path.with_extension("new");
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let written = options.open(&beside).and_then(|mut file| {
                file.write_all(&position)?;
                file.sync_all()?;
                fs::rename(&beside, path)
            });
            written.map_err(|error| {
                ConnectError::new(format!("{}: cannot be written: {error}", path.display()))
            })?;
        }
        self.first = Some(position);
        Ok(())
    }
}

/// A name as a part of a file's name: other bytes than letters, digits, - and _ as %XX.
fn file_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
