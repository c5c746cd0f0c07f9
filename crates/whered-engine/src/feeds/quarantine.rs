//! What was refused of a feed's uploads, as lines in a file for people.
//!
//! ```text
//! quarantine/FEED.ndjson      {"upload":12,"offset_bytes":340,"line":8,"column":1,"reason":"..."}
//! quarantine/FEED.old.ndjson  the lines before those
//! ```
//! For: reading why records do not count. Not for: the records themselves, which the client has.
//!
//! Invariants: lines are written before their batch is kept; those of uploads that a crash has left
//! unapplied are cut off at the start, so that no line is there twice. Both files together have at
//! most [`FILE_BYTES_MAX`] bytes twice, an upload at most [`LINES_MAX`] lines. A file that cannot
//! be written holds nothing up: the error is told, and the batch counts.
//! Cost: one write a batch that refuses something.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whered_feeds::Location;
use whered_store::private;

/// A file of this size becomes the old one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// How many lines an upload gets.
const LINES_MAX: u64 = 1000;
/// The longest reason.
const REASON_CHARS_MAX: usize = 300;

/// The lines of a batch that is made.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    lines: Vec<u8>,
    /// There is a file for them.
    is_kept: bool,
    upload: u64,
    of_upload: u64,
}

impl Rejections {
    /// None yet; where there is no file, none at all.
    pub(super) fn new(is_kept: bool) -> Rejections {
        Rejections { is_kept, ..Rejections::default() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.capacity()
    }

    /// What comes now is of this upload.
    pub(super) fn begin(&mut self, upload: u64) {
        (self.upload, self.of_upload) = (upload, 0);
    }

    /// Adds a line. The location is computed where it is kept: that reads the upload once more.
    pub(super) fn add(
        &mut self,
        offset_bytes: u64,
        locate: impl FnOnce() -> Option<Location>,
        reason: &str,
    ) {
        self.of_upload += 1;
        if !self.is_kept || self.of_upload > LINES_MAX {
            return;
        }
        let location = match locate() {
            Some(Location { line, column }) => format!(",\"line\":{line},\"column\":{column}"),
            None => String::new(),
        };
        let last = self.of_upload == LINES_MAX;
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let reason = if last { format!("{reason}; more are not told") } else { reason };
        let (upload, reason) = (self.upload, Value::String(reason));
        let line = format!(
            "{{\"upload\":{upload},\"offset_bytes\":{offset_bytes}{location},\"reason\":{reason}}}\n"
        );
        self.lines.extend_from_slice(line.as_bytes());
    }
}

/// A record of an upload that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Where it begins in the upload, unpacked.
    pub offset_bytes: u64,
    /// That place in text.
    pub location: Option<Location>,
    /// Why: one line.
    pub reason: String,
}

/// The files of a feed, to be read while they are written.
#[derive(Clone, Debug)]
pub(super) struct QuarantineFiles {
    path: PathBuf,
    old: PathBuf,
}

impl QuarantineFiles {
    /// The refused records of an upload, at most [`LINES_MAX`] of them.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub(super) fn of_upload(&self, upload: u64) -> io::Result<Vec<RejectedRecord>> {
        // In this order: a file that becomes the old one meanwhile is then met twice, never missed.
        let (new, old) = (open_if_there(&self.path)?, open_if_there(&self.old)?);
        let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino()));
        let is_same = match (&new, &old) {
            (Some(new), Some(old)) => identity(new)? == identity(old)?,
            _ => false,
        };
        let (mut found, start) = (Vec::new(), format!("{{\"upload\":{upload},"));
        for file in old.filter(|_| !is_same).into_iter().chain(new) {
            let mut reader = BufReader::new(file.take(4 * FILE_BYTES_MAX));
            let mut line = Vec::new();
            while found.len() < LINES_MAX as usize && reader.read_until(b'\n', &mut line)? > 0 {
                if line.starts_with(start.as_bytes()) {
                    found.extend(record_of(&line));
                }
                line.clear();
            }
        }
        Ok(found)
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// A line as it was written; one that is half written yet is none.
fn record_of(line: &[u8]) -> Option<RejectedRecord> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let number = |key: &str| line.get(key)?.as_u64();
    let location = number("line").zip(number("column"));
    Some(RejectedRecord {
        offset_bytes: number("offset_bytes")?,
        location: location.map(|(line, column)| Location { line, column }),
        reason: line.get("reason")?.as_str()?.to_owned(),
    })
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Quarantine {
    path: Option<PathBuf>,
    old: PathBuf,
    /// Lines of a batch that is not kept yet are in the file.
    is_written: bool,
}

impl Quarantine {
    /// The file of a feed; without a directory there is none.
    pub(super) fn new(directory: Option<&Path>, feed: &str) -> Quarantine {
        let path = directory.map(|directory| directory.join(format!("{feed}.ndjson")));
        let old = directory.map(|directory| directory.join(format!("{feed}.old.ndjson")));
        let old = old.unwrap_or_default();
        Quarantine { path, old, is_written: false }
    }

    /// Its files, for readers.
    pub(super) fn files(&self) -> Option<QuarantineFiles> {
        let old = self.old.clone();
        self.path.clone().map(|path| QuarantineFiles { path, old })
    }

    /// Whether there is a file.
    pub(super) fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// Cuts off lines of uploads after this one.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub(super) fn cut_after(&self, upload: u64) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        for path in [path, &self.old] {
            let mut bytes = Vec::new();
            match File::open(path) {
                Ok(file) => file.take(4 * FILE_BYTES_MAX).read_to_end(&mut bytes)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mut end = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if !line.ends_with(b"\n") || upload_of(line).is_none_or(|of| of > upload) {
                    break;
                }
                end += line.len();
            }
            if end < bytes.len() {
                OpenOptions::new().write(true).open(path)?.set_len(end as u64)?;
            }
        }
        Ok(())
    }

    /// Takes the lines of a batch back that was not kept; those up to this upload stay.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub(super) fn take_back(&mut self, upload: u64) -> io::Result<()> {
        if std::mem::take(&mut self.is_written) { self.cut_after(upload) } else { Ok(()) }
    }

    /// The batch was kept.
    pub(super) fn keep(&mut self) {
        self.is_written = false;
    }

    /// Writes the lines of a batch.
    ///
    /// # Errors
    /// Whatever the system reports.
    pub(super) fn write(&mut self, refused: &Rejections) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if refused.lines.is_empty() {
            return Ok(());
        }
        self.is_written = true;
        append(path, &self.old, &refused.lines)
    }
}

fn append(path: &Path, old: &Path, lines: &[u8]) -> io::Result<()> {
    let mut open = OpenOptions::new();
    open.create(true).append(true);
    let mut file = match private::open_file(&mut open, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), private::create_folders)?;
            private::open_file(&mut open, path)?
        }
        other => other?,
    };
    if file.metadata()?.len() >= FILE_BYTES_MAX {
        fs::rename(path, old)?;
        file = private::open_file(&mut open, path)?;
    }
    file.write_all(lines)
}

fn upload_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(line).ok()?.get("upload")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_unapplied_uploads_and_half_lines_are_cut_off() {
        let directory =
            std::env::temp_dir().join(format!("whered-quarantine-{}", std::process::id()));
        let mut quarantine = Quarantine::new(Some(&directory), "feed");
        for upload in 1..=3 {
            let mut refused = Rejections::new(true);
            refused.begin(upload);
            let location = Location { line: 2, column: 3 };
            refused.add(7, || Some(location), "a \"reason\"");
            quarantine.write(&refused).unwrap();
        }
        let path = directory.join("feed.ndjson");
        quarantine.cut_after(2).unwrap();
        let kept = fs::read_to_string(&path).unwrap();
        assert_eq!(kept.lines().count(), 2);
        assert!(
            kept.contains(
                r#"{"upload":2,"offset_bytes":7,"line":2,"column":3,"reason":"a \"reason\""}"#
            ),
            "{kept}"
        );
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"upload\":1,\"off").unwrap();
        quarantine.cut_after(2).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_records_of_an_upload_are_read_from_both_files() {
        let directory =
            std::env::temp_dir().join(format!("whered-quarantine-read-{}", std::process::id()));
        let mut quarantine = Quarantine::new(Some(&directory), "feed");
        let files = quarantine.files().unwrap();
        assert_eq!(files.of_upload(1).unwrap(), []);
        let mut write = |upload, offset_bytes, location| {
            let mut refused = Rejections::new(true);
            refused.begin(upload);
            refused.add(offset_bytes, || location, "a \"reason\"");
            quarantine.write(&refused).unwrap();
        };
        write(1, 7, Some(Location { line: 2, column: 3 }));
        write(12, 8, None);
        let [path, old] = ["feed.ndjson", "feed.old.ndjson"].map(|name| directory.join(name));
        fs::rename(&path, &old).unwrap();
        write(12, 9, None);
        let record = |offset_bytes, location| RejectedRecord {
            offset_bytes,
            location,
            reason: "a \"reason\"".to_owned(),
        };
        let of_first = [record(7, Some(Location { line: 2, column: 3 }))];
        assert_eq!(files.of_upload(1).unwrap(), of_first);
        assert_eq!(files.of_upload(12).unwrap(), [record(8, None), record(9, None)]);
        assert_eq!(files.of_upload(2).unwrap(), []);
        // A renaming between the two openings shows the same file twice.
        fs::remove_file(&old).unwrap();
        fs::hard_link(&path, &old).unwrap();
        assert_eq!(files.of_upload(12).unwrap(), [record(9, None)]);
        // Cut or changed anywhere, the file has fewer records or the same.
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&old).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(files.of_upload(12).unwrap().len() <= 1);
            let mut changed = whole.clone();
            changed[end] ^= 0x80;
            fs::write(&path, &changed).unwrap();
            assert!(files.of_upload(12).unwrap().len() <= 1);
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_upload_has_no_more_lines_than_allowed() {
        let mut refused = Rejections::new(true);
        refused.begin(1);
        (0..3000).for_each(|offset| refused.add(offset, || None, "wrong"));
        let lines = refused.lines.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines as u64, LINES_MAX);
        assert!(refused.lines.ends_with(b"\n"));
    }
}
