//! Where members come from: a list in a file, or a set of a running server.
//!
//! Not for: what is done with them.
//!
//! Invariant: a source that cannot be read whole gives an error and no members; half a list is
//! never taken for a list. A file is read when its folder tells of a change and it has been left
//! alone for [`QUIET`]; writers that rename a whole file into place are seen at once and never half
//! done. Cost: a list of 500,000 lines takes some 40 ms; a server sends the whole set at each look.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use redis::Value;
use whered_ip::{HostBitsFinder, SetFormat, SetReading};
use whered_unpack::read_unpacked;

use super::{Member, now_millis};
use crate::error::ConnectError;
use crate::{Server, ServerAddress};

/// How long nobody must have written to a file.
const QUIET: Duration = Duration::from_millis(20);

/// Where members come from.
pub trait Source {
    /// What it is, for messages.
    fn name(&self) -> String;

    /// Waits until something may have changed, but no longer than this; true if something has.
    fn wait(&mut self, at_most: Duration) -> bool;

    /// The members; nothing if they are those of the last reading.
    ///
    /// # Errors
    ///
    /// If they cannot be read whole.
    fn read(&mut self) -> Result<Option<Vec<Member>>, ConnectError>;

    /// What is doubtful about the members that were read last, told once.
    fn remark(&mut self) -> Option<String> {
        None
    }
}

/// A list in a file.
pub struct FileSource {
    path: PathBuf,
    reading: SetReading,
    seen: Option<Stamp>,
    remark: Option<String>,
    notices: Option<(RecommendedWatcher, Receiver<()>)>,
}

/// The largest list, unpacked.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// What tells one state of a file from another.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size_bytes: u64,
    inode: u64,
}

impl Stamp {
    fn of(about: &Metadata) -> Stamp {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(about);
        #[cfg(not(unix))]
        let inode = 0;
        Stamp { modified: about.modified().ok(), size_bytes: about.len(), inode }
    }

    /// Since when the list's times to live count.
    fn millis(&self) -> u64 {
        let since = self.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_else(now_millis)
    }
}

impl FileSource {
    /// A list, or a dump and the set of it: `lists/dump:blocked`, where there is no file of that
    /// whole name. The list may be packed.
    #[must_use]
    pub fn new(path: &Path, reading: SetReading) -> FileSource {
        // Without notices the file is looked at when the waiting is over.
        let (path, set) = file_and_set(path);
        let reading = SetReading { set: set.or(reading.set), ..reading };
        let notices = watched(&path).ok();
        FileSource { path, reading, seen: None, remark: None, notices }
    }
}

/// Takes a set's name off a path.
fn file_and_set(path: &Path) -> (PathBuf, Option<String>) {
    let split = path.to_str().filter(|_| !path.exists()).and_then(|text| text.rsplit_once(':'));
    match split {
        Some((file, set)) if Path::new(file).exists() && !set.is_empty() => {
            (PathBuf::from(file), Some(set.to_owned()))
        }
        _ => (path.to_owned(), None),
    }
}

/// Notices of the file's folder: a file that is replaced by another one has no notices of its own.
fn watched(path: &Path) -> notify::Result<(RecommendedWatcher, Receiver<()>)> {
    let (sender, receiver) = mpsc::channel();
    let name = path.file_name().map(ToOwned::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_ours = event.is_ok_and(|event| {
            !event.kind.is_access()
                && event.paths.iter().any(|path| path.file_name() == name.as_deref())
        });
        if is_ours {
            // Nobody is left to tell when that fails.
            let _sent = sender.send(());
        }
    })?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok((watcher, receiver))
}

impl Source for FileSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn wait(&mut self, at_most: Duration) -> bool {
        let Some((_, receiver)) = &self.notices else {
            std::thread::park_timeout(at_most);
            return false;
        };
        let is_noticed = receiver.recv_timeout(at_most).is_ok();
        while receiver.try_recv().is_ok() {}
        is_noticed
    }

    fn read(&mut self) -> Result<Option<Vec<Member>>, ConnectError> {
        let fail =
            |error: io::Error| ConnectError::new(format!("{}: {error}", self.path.display()));
        let start = Instant::now();
        loop {
            let stamp = Stamp::of(&fs::metadata(&self.path).map_err(fail)?);
            if self.seen.as_ref() == Some(&stamp) {
                return Ok(None);
            }
            let age = stamp.modified.and_then(|time| time.elapsed().ok()).unwrap_or(QUIET);
            // A clock that has been set back must not hold anybody.
            if age < QUIET && start.elapsed() < QUIET {
                std::thread::park_timeout(QUIET);
                continue;
            }
            let file = fs::File::open(&self.path).map_err(fail)?;
            let text = read_unpacked(Box::new(file), LIST_BYTES_MAX).map_err(fail)?;
            let after = Stamp::of(&fs::metadata(&self.path).map_err(fail)?);
            if after != stamp && start.elapsed() < QUIET * 50 {
                continue;
            }
            let members = members(&self.reading, &text, stamp.millis())
                .map_err(|what| ConnectError::new(format!("{}: {what}", self.path.display())))?;
            let remark = HostBitsFinder::of(&text).remark();
            self.remark = remark.map(|remark| format!("{}: {remark}", self.path.display()));
            self.seen = Some(stamp);
            return Ok(Some(members));
        }
    }

    fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }
}

/// The members of a text whose times to live begin at a time.
fn members(reading: &SetReading, text: &[u8], since: u64) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let read = reading.read(text, |entry| {
        let millis = entry.ttl_seconds.map(|seconds| seconds.saturating_mul(1000));
        let until_millis = millis.map(|millis| millis.saturating_add(since));
        members.push(Member { block: entry.block, until_millis });
    });
    read.map(|()| members).map_err(|error| error.to_string())
}

/// A set of a running server, asked for whole at each look.
pub struct ServerSource {
    address: ServerAddress,
    set: String,
    server: Option<Server>,
    seen: Option<Vec<u8>>,
    is_new: bool,
}

impl ServerSource {
    /// A set of the server at this address; it is connected to when it is read.
    #[must_use]
    pub fn new(address: ServerAddress, set: &str) -> ServerSource {
        let set = set.to_owned();
        ServerSource { address, set, server: None, seen: None, is_new: true }
    }

    fn text(&mut self) -> Result<Vec<u8>, ConnectError> {
        let server = match &mut self.server {
            Some(server) => server,
            None => self.server.insert(Server::connect(&self.address)?),
        };
        let mut command = redis::cmd("CIDR.EXPORT");
        command.arg(&self.set).arg("FORMAT").arg("json");
        let value = server.query::<Value>(&command);
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                self.server = None;
                return Err(error);
            }
        };
        let mut text = Vec::new();
        gather(value, &mut text);
        Ok(text)
    }
}

/// A reply in one piece or in many.
pub(super) fn gather(value: Value, text: &mut Vec<u8>) {
    match value {
        Value::BulkString(bytes) => text.extend(bytes),
        Value::VerbatimString { text: words, .. } => text.extend(words.into_bytes()),
        Value::SimpleString(words) => text.extend(words.into_bytes()),
        Value::Array(parts) => parts.into_iter().for_each(|part| gather(part, text)),
        _ => {}
    }
}

impl Source for ServerSource {
    fn name(&self) -> String {
        format!("{} of {}", self.set, self.address.shown())
    }

    fn wait(&mut self, at_most: Duration) -> bool {
        std::thread::park_timeout(at_most);
        false
    }

    fn read(&mut self) -> Result<Option<Vec<Member>>, ConnectError> {
        let text = self.text()?;
        if !std::mem::take(&mut self.is_new) && self.seen.as_ref() == Some(&text) {
            return Ok(None);
        }
        let found = members(&SetReading::of(SetFormat::Json), &text, now_millis())
            .map_err(|what| ConnectError::new(format!("{}: {what}", self.name())))?;
        self.seen = Some(text);
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_for_each_change_and_a_bad_one_gives_nothing() {
        let path = std::env::temp_dir().join(format!("whered-sync-{}", std::process::id()));
        fs::write(&path, "10.0.0.1\n10.0.0.0/8\n").expect("the temporary folder can be written");
        let mut source = FileSource::new(&path, SetReading::default());
        assert_eq!(source.read().expect("a list").map(|members| members.len()), Some(2));
        assert_eq!(source.read().expect("a list"), None);
        fs::write(&path, "add s 10.0.0.1 timeout 60\n").expect("written");
        source.wait(Duration::from_secs(5));
        let members = source.read().expect("a list").expect("a change");
        let left = members[0].until_millis.expect("an end") - now_millis();
        assert!((50_000..=60_000).contains(&left), "{left}");
        fs::write(&path, "10.0.0.1\nten\n").expect("written");
        let error = source.read().expect_err("no list").to_string();
        assert!(error.contains("line 2, column 1: found \"ten\""), "{error}");
        fs::remove_file(&path).expect("it is there");
        assert!(source.read().is_err());
    }
}
