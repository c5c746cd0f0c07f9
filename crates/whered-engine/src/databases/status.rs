//! What becomes of the loads of a database: how new files are noticed, and how often that failed.
//!
//! Not for: noticing (the server's watcher does). A [`DatabaseStatus`] belongs to a name and is
//! shared by all that is loaded under it; anybody may read it while a load goes on.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::file::FileState;

use crate::clock;
use crate::sync;

/// How a database's new file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReloadMode {
    /// The system tells of changes.
    Notify,
    /// The file's state is asked once a second.
    Poll,
    /// Only when somebody asks for a reload.
    Off,
}

impl ReloadMode {
    /// Every mode.
    pub const ALL: [ReloadMode; 3] = [ReloadMode::Notify, ReloadMode::Poll, ReloadMode::Off];

    /// The name in the configuration and in answers.
    pub fn name(self) -> &'static str {
        match self {
            ReloadMode::Notify => "notify",
            ReloadMode::Poll => "poll",
            ReloadMode::Off => "off",
        }
    }
}

impl fmt::Display for ReloadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReloadMode {
    type Err = String;

    /// # Errors
    /// What is allowed.
    fn from_str(text: &str) -> Result<ReloadMode, String> {
        let found = ReloadMode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| ReloadMode::ALL.map(ReloadMode::name).join(", "))
    }
}

/// Why a file was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadFailure {
    /// One line: the file, what was found, what is allowed.
    pub message: String,
    /// When, in milliseconds since 1970.
    pub at_millis: u64,
    /// The file that was tried; `None` if it could not even be opened.
    pub file: Option<FileState>,
    /// Whether the file was changed while it was read: it will be tried again.
    pub is_changing: bool,
}

impl ReloadFailure {
    /// A file that can be read, and that what rests on it cannot use.
    pub(crate) fn of_content(message: String) -> ReloadFailure {
        ReloadFailure { message, at_millis: clock::now_millis(), file: None, is_changing: false }
    }
}

impl fmt::Display for ReloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReloadFailure {}

/// The history of a database's loads.
#[derive(Debug, Default)]
pub struct DatabaseStatus {
    reloads: AtomicU64,
    failures: AtomicU64,
    uncovered: AtomicU64,
    last_failure: Mutex<Option<ReloadFailure>>,
}

impl DatabaseStatus {
    /// How many times a new file was taken since the start.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// How many times a new file was refused since the start.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How many questions were about an address of a family that the database does not cover.
    pub fn uncovered(&self) -> u64 {
        self.uncovered.load(Ordering::Relaxed)
    }

    /// The last refusal; `None` once a file was taken after it.
    pub fn last_failure(&self) -> Option<ReloadFailure> {
        self.failure().clone()
    }

    pub(crate) fn note_uncovered(&self) {
        self.uncovered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_success(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
        *self.failure() = None;
    }

    pub(crate) fn note_failure(&self, failure: &ReloadFailure) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.failure() = Some(failure.clone());
    }

    fn failure(&self) -> MutexGuard<'_, Option<ReloadFailure>> {
        sync::lock(&self.last_failure)
    }
}
