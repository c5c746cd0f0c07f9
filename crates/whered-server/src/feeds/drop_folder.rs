//! The drop folder of a feed: whatever file is put there is an upload.
//!
//! ```text
//! FOLDER/report.xml ─ closed or renamed in ─> spool ─ durable ─> FOLDER/done/report.xml
//!                                               └ refused ─────> FOLDER/failed/report.xml, .reason
//! FOLDER/.report.xml, report.xml.tmp, report.xml.part            left alone: still being written
//! ```
//!
//! Not for: folders below; anything that is no plain file. What a file is packed with is told by
//! its first bytes.
//!
//! Invariant: a file is applied once, over crashes between the spool and the move: its upload
//! carries a key made of its name, size, time and content, and the key is remembered
//! (`remember_keys_seconds`). A file is taken when it was closed after writing, or renamed into the
//! folder. What nobody has called complete is taken only when it was there before the server, when
//! notices were lost, or where the system gives none (another machine's writes to a shared folder):
//! then it must be the same at two looks [`QUIET_TIME`] apart, and no process may have it open for
//! writing, as far as `/proc` shows.
//!
//! At the same time: one thread for each folder; a file is moved by it alone. The system's notices
//! come on a thread of their own and change only [`Notices`].
//! Cost: a look at the folder every [`LOOK_TIME`]; one at all processes for a file that nobody has
//! called complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use whered_engine::sync;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use whered_engine::feeds::formats::UploadField;
use whered_engine::feeds::{Encoding, Feed, PushError, Upload};

use super::open_files;

/// How often the folder is looked at without a notice.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// How long a file that nobody has called complete must be the same.
const QUIET_TIME: Duration = Duration::from_secs(10);
/// How long to wait after the spool has refused for a reason of its own.
const FAILED_TIME: Duration = Duration::from_secs(5);
const DONE: &str = "done";
const FAILED: &str = "failed";
const UNFINISHED: [&str; 3] = [".tmp", ".part", ".crdownload"];

/// The running thread.
pub(crate) struct DropFolder {
    messages: Sender<Message>,
    thread: JoinHandle<()>,
}

enum Message {
    /// A file is complete.
    Complete(PathBuf),
    /// Something else has changed, or notices were lost.
    Look,
    Stop,
}

impl DropFolder {
    /// Makes the folder if it is not there, and starts the thread.
    ///
    /// # Errors
    /// The folder cannot be made, or the system gives no thread; the text names the folder.
    pub(crate) fn start(feed: &Arc<Feed>, folder: &Path) -> io::Result<DropFolder> {
        for needed in [folder.to_path_buf(), folder.join(DONE), folder.join(FAILED)] {
            fs::create_dir_all(&needed).map_err(|error| {
                let message = format!(
                    "the drop folder of the feed '{}': {}: {error}",
                    feed.name(),
                    needed.display()
                );
                io::Error::new(error.kind(), message)
            })?;
        }
        // Notices name files by the path that is watched: it must not depend on the working folder.
        let folder = folder.canonicalize()?;
        let (messages, received) = channel();
        let notices = Arc::new(Mutex::new(Notices::default()));
        let system = watcher(&folder, messages.clone(), Arc::clone(&notices));
        let work = Work {
            feed: Arc::clone(feed),
            folder,
            notices,
            complete: BTreeSet::new(),
            seen: BTreeMap::new(),
            said: String::new(),
            _system: system,
        };
        let thread = std::thread::Builder::new()
            .name(format!("drop-{}", feed.name()))
            .spawn(move || work.run(&received))?;
        Ok(DropFolder { messages, thread })
    }

    /// Ends the thread, after the file that it is at.
    pub(crate) fn stop(self) {
        // A thread that has ended by itself does not listen any more.
        let _ = self.messages.send(Message::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread of a drop folder has failed");
        }
    }
}

/// What the system has said of files.
#[derive(Default)]
struct Notices {
    /// Files that somebody writes: they are complete when they are closed.
    writing: BTreeSet<PathBuf>,
}

fn lock(notices: &Mutex<Notices>) -> MutexGuard<'_, Notices> {
    sync::lock(notices)
}

/// The system's notices of files that are complete, and of those that are not.
fn watcher(
    folder: &Path,
    messages: Sender<Message>,
    notices: Arc<Mutex<Notices>>,
) -> Option<RecommendedWatcher> {
    let handler = move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else {
            lock(&notices).writing.clear();
            // The receiver is gone when the server stops, here and below.
            let _ = messages.send(Message::Look);
            return;
        };
        if event.need_rescan() {
            // What is being written now may have been closed without a notice.
            lock(&notices).writing.clear();
            let _ = messages.send(Message::Look);
            return;
        }
        let Some(path) = event.paths.last() else { return };
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => {
                lock(&notices).writing.remove(path);
                let _ = messages.send(Message::Complete(path.clone()));
            }
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) => {
                let mut notices = lock(&notices);
                if !notices.writing.contains(path) {
                    notices.writing.insert(path.clone());
                }
            }
            _ => {}
        }
    };
    let watched = notify::recommended_watcher(handler).and_then(|mut system| {
        system.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(system)
    });
    let shown = folder.display();
    watched.inspect_err(|error| tracing::warn!("{shown} is looked at every second: {error}")).ok()
}

/// What is known of a file that nobody has called complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    size_bytes: u64,
    modified: (i64, i64),
    inode: u64,
}

impl Look {
    fn of(found: &Metadata) -> Look {
        Look {
            size_bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            inode: found.ino(),
        }
    }
}

/// What is to be done with a file.
enum FileOutcome {
    Done,
    Failed(String),
    /// Nothing is wrong with the file: later.
    Later(Duration),
    /// It is not there any more, or it is being written again.
    Gone,
}

/// The thread's state.
struct Work {
    feed: Arc<Feed>,
    /// Without links and relative parts in its name, as notices have it.
    folder: PathBuf,
    notices: Arc<Mutex<Notices>>,
    /// Files that were called complete and could not be taken yet.
    complete: BTreeSet<PathBuf>,
    /// Files that nobody has called complete, and since when they are the same.
    seen: BTreeMap<PathBuf, (Look, Instant)>,
    /// The last trouble that the log has.
    said: String,
    /// Gives notices while it is there.
    _system: Option<RecommendedWatcher>,
}

impl Work {
    fn run(mut self, received: &Receiver<Message>) {
        let mut pause = Duration::ZERO;
        loop {
            let waited = received.recv_timeout(pause);
            pause = match waited {
                Ok(Message::Complete(path)) => {
                    self.complete.insert(path.clone());
                    self.take(&path)
                }
                Ok(Message::Look) | Err(RecvTimeoutError::Timeout) => self.look(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            };
        }
    }

    /// Takes every file that is complete; gives when to look again.
    fn look(&mut self) -> Duration {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.say(&format!("{}: {error}", self.folder.display()));
                return FAILED_TIME;
            }
        };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_meant(path))
            .collect();
        // The order of names is the order in which most writers number their files.
        paths.sort();
        let mut known = std::mem::take(&mut self.seen);
        for path in paths {
            let Some(found) = plain_file(&path) else { continue };
            if !self.complete.contains(&path) && !self.is_quiet(&path, &found, &mut known) {
                continue;
            }
            let pause = self.take(&path);
            if pause > LOOK_TIME {
                return pause;
            }
        }
        self.complete.retain(|path| path.exists());
        lock(&self.notices).writing.retain(|path| path.exists());
        LOOK_TIME
    }

    /// Whether a file that nobody has called complete may be taken.
    fn is_quiet(
        &mut self,
        path: &Path,
        found: &Metadata,
        known: &mut BTreeMap<PathBuf, (Look, Instant)>,
    ) -> bool {
        // Who links a file into the folder never closes it.
        if found.nlink() == 1 && lock(&self.notices).writing.contains(path) {
            return false;
        }
        let look = Look::of(found);
        let since = match known.remove(path) {
            Some((before, since)) if before == look => since,
            _ => Instant::now(),
        };
        if since.elapsed() >= QUIET_TIME && !open_files::is_written(found) {
            return true;
        }
        self.seen.insert(path.to_path_buf(), (look, since));
        false
    }

    /// Takes one file; gives when to look again.
    fn take(&mut self, path: &Path) -> Duration {
        if !is_meant(path) || path.parent() != Some(&self.folder) {
            self.complete.remove(path);
            return LOOK_TIME;
        }
        // It was opened for writing again since: the next close calls it complete.
        if lock(&self.notices).writing.contains(path)
            && plain_file(path).is_some_and(|found| found.nlink() == 1)
        {
            self.complete.remove(path);
            return LOOK_TIME;
        }
        let moved = match self.push(path) {
            Ok(FileOutcome::Done) => {
                self.said.clear();
                self.put(path, DONE).map(drop)
            }
            Ok(FileOutcome::Failed(reason)) => self.put_failed(path, &reason),
            Ok(FileOutcome::Gone) => Ok(()),
            Ok(FileOutcome::Later(pause)) => return pause,
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            self.say(&format!("{}: {error}", path.display()));
            return FAILED_TIME;
        }
        self.complete.remove(path);
        LOOK_TIME
    }

    /// Moves a file that is no upload away, with a file beside it that says why. Where there is no
    /// room for that one, it stays, and is tried again.
    fn put_failed(&mut self, path: &Path, reason: &str) -> io::Result<()> {
        let told = write_reason(&self.folder, path, reason);
        let told = told.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("no upload ({reason}), and no room to say so: {error}"),
            )
        })?;
        let moved = self.put(path, FAILED)?;
        let mut name = moved.into_os_string();
        name.push(".reason");
        fs::rename(&told, name)?;
        tracing::warn!(
            "{} is no upload of the feed '{}': {reason}",
            path.display(),
            self.feed.name()
        );
        self.said.clear();
        Ok(())
    }

    fn push(&mut self, path: &Path) -> io::Result<FileOutcome> {
        let Some(found) = plain_file(path) else { return Ok(FileOutcome::Gone) };
        let limit = self.feed.source().limits.upload_size_bytes_max;
        if found.len() > limit {
            return Ok(FileOutcome::Failed(format!("{} bytes; allowed: {limit}", found.len())));
        }
        let mut bytes = Vec::with_capacity(found.len() as usize);
        let file = File::open(path)?;
        let look = Look::of(&file.metadata()?);
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if plain_file(path).map(|found| Look::of(&found)) != Some(look)
            || bytes.len() as u64 != look.size_bytes
        {
            return Ok(FileOutcome::Gone);
        }
        let key = key_of(path, look, &bytes);
        let fields = fields_of(&self.feed, path);
        let upload = Upload {
            bytes: &bytes,
            encoding: encoding_of(&bytes),
            idempotency_key: Some(&key),
            fields: &fields,
            ..Upload::default()
        };
        let pushed = match self.feed.push(upload) {
            Ok(pushed) => pushed,
            Err(PushError::Full { retry_after, .. }) => {
                return Ok(FileOutcome::Later(retry_after.max(LOOK_TIME)));
            }
            Err(PushError::Failed(reason)) => {
                self.say(&reason);
                return Ok(FileOutcome::Later(FAILED_TIME));
            }
            Err(error @ (PushError::TooLarge { .. } | PushError::Invalid(_))) => {
                return Ok(FileOutcome::Failed(error.to_string()));
            }
        };
        // The file is given up then, whatever the spool's policy is.
        match self.feed.wait_on_disk(pushed.ticket) {
            Ok(()) => Ok(FileOutcome::Done),
            Err(error) => {
                self.say(&error.to_string());
                Ok(FileOutcome::Later(FAILED_TIME))
            }
        }
    }

    /// Moves a file to one of the folders below, beside what has its name there.
    fn put(&self, path: &Path, below: &str) -> io::Result<PathBuf> {
        let name = path.file_name().unwrap_or_default();
        let folder = self.folder.join(below);
        fs::create_dir_all(&folder)?;
        let mut target = folder.join(name);
        let mut number = 1;
        while target.symlink_metadata().is_ok() {
            number += 1;
            let mut other = name.to_os_string();
            other.push(format!(".{number}"));
            target = folder.join(other);
        }
        fs::rename(path, &target)?;
        Ok(target)
    }

    /// Tells the log of a trouble, once while it lasts.
    fn say(&mut self, trouble: &str) {
        if self.said != trouble {
            tracing::error!("the drop folder of the feed '{}' waits: {trouble}", self.feed.name());
            trouble.clone_into(&mut self.said);
        }
    }
}

/// Writes why a file is no upload, whole or not at all, under a name that is no upload's.
fn write_reason(folder: &Path, path: &Path, reason: &str) -> io::Result<PathBuf> {
    let failed = folder.join(FAILED);
    fs::create_dir_all(&failed)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".reason.tmp");
    let target = failed.join(name);
    let write = || {
        let mut file = File::create(&target)?;
        writeln!(file, "{reason}")?;
        file.sync_all()
    };
    write().inspect_err(|_| {
        // An empty one would say nothing.
        let _ = fs::remove_file(&target);
    })?;
    Ok(target)
}

/// Whether a name is that of a finished upload.
fn is_meant(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = name.as_encoded_bytes();
    !name.starts_with(b".") && !UNFINISHED.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// What is known of a path that is a plain file itself and no link.
fn plain_file(path: &Path) -> Option<Metadata> {
    path.symlink_metadata().ok().filter(Metadata::is_file)
}

/// What tells this file, as it is now, from every other one.
fn key_of(path: &Path, look: Look, bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    path.file_name().hash(&mut hasher);
    bytes.hash(&mut hasher);
    let (seconds, nanoseconds) = look.modified;
    format!("drop-{:016x}-{}-{seconds}.{nanoseconds:09}", hasher.finish(), look.size_bytes)
}

/// The file's name, if records want it.
fn fields_of(feed: &Feed, path: &Path) -> Vec<(UploadField, String)> {
    let mut wanted = feed.upload_fields();
    if !wanted.any(|field| matches!(field, UploadField::FileName | UploadField::FileStem)) {
        return Vec::new();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    vec![(UploadField::FileName, name)]
}

fn encoding_of(bytes: &[u8]) -> Encoding {
    match bytes {
        [0x1f, 0x8b, ..] => Encoding::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Encoding::Zstd,
        _ => Encoding::Identity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finished_files_of_the_folder_are_meant() {
        for name in ["a.xml", "b", "c.xml.gz"] {
            assert!(is_meant(&Path::new("/in").join(name)), "{name}");
        }
        for name in [".a.xml", "a.xml.tmp", "a.part"] {
            assert!(!is_meant(&Path::new("/in").join(name)), "{name}");
        }
    }

    #[test]
    fn a_file_has_another_key_when_its_name_time_or_content_is_another() {
        let look = Look { size_bytes: 3, modified: (1, 2), inode: 5 };
        let key = key_of(Path::new("/in/a"), look, b"abc");
        assert_eq!(key, key_of(Path::new("/elsewhere/a"), Look { inode: 6, ..look }, b"abc"));
        assert_ne!(key, key_of(Path::new("/in/b"), look, b"abc"));
        assert_ne!(key, key_of(Path::new("/in/a"), look, b"abd"));
        assert_ne!(key, key_of(Path::new("/in/a"), Look { modified: (1, 3), ..look }, b"abc"));
    }
}
