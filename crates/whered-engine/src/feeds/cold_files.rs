//! The files that feeds' places and tables are put into: which of them stay.
//!
//! For: removing a file as soon as nothing needs it, and never before. Not for: what is in it, nor
//! when one is written.
//!
//! A file is needed by the feed whose it is, by the complete snapshots that name it, and by the one
//! that is being made. Invariants: a feed is held while a snapshot takes its file, so that the file
//! is noted before the feed could have another one; a sweep waits for files that are being written,
//! which nothing names yet.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, RwLock};

use whered_store::{ColdReference, Snapshots, Storage, StoreError, remove_cold};

use super::state::FeedState;
use crate::sync;

/// Files that must not be removed.
#[derive(Default)]
struct FileReferences {
    /// Named by complete snapshots.
    referenced: HashSet<String>,
    /// Named by the one that is made.
    saving: HashSet<String>,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct ColdFiles {
    storage: Option<Arc<dyn Storage>>,
    kept: Mutex<FileReferences>,
    /// Held shared while a file is written that nothing names yet.
    writing: RwLock<()>,
}

impl ColdFiles {
    pub(super) fn new(storage: Option<Arc<dyn Storage>>) -> ColdFiles {
        ColdFiles { storage, ..ColdFiles::default() }
    }

    pub(crate) fn storage(&self) -> Option<&Arc<dyn Storage>> {
        self.storage.as_ref()
    }

    /// Evicts a feed, if there is a disk; gives how many bytes were written.
    ///
    /// # Errors
    /// The disk's; everything is where it was then.
    pub(super) fn evict(&self, state: &FeedState) -> Result<u64, StoreError> {
        let Some(storage) = &self.storage else { return Ok(0) };
        let _writing = sync::read(&self.writing);
        let (old, written_bytes) = state.evict(storage)?;
        if let Some(old) = old {
            let kept = sync::lock(&self.kept);
            if !kept.referenced.contains(old.name()) && !kept.saving.contains(old.name()) {
                // One that stays is removed by the next sweep.
                let _ = storage.remove(old.name());
            }
        }
        Ok(written_bytes)
    }

    /// The snapshot that is loaded names the file: the first sweep comes only after the replay,
    /// which may put another one into its place.
    pub(crate) fn note_referenced(&self, name: &str) {
        sync::lock(&self.kept).referenced.insert(name.to_owned());
    }

    /// A snapshot that is made names the file.
    pub(crate) fn note_saving(&self, name: &str) {
        sync::lock(&self.kept).saving.insert(name.to_owned());
    }

    /// No snapshot is made any more.
    pub(crate) fn end_saving(&self) {
        sync::lock(&self.kept).saving.clear();
    }

    /// Looks which files the snapshots name, and removes those that nothing needs. No snapshot is
    /// being made.
    ///
    /// # Errors
    /// A snapshot cannot be read; nothing is removed then.
    pub(super) fn sweep(&self, feeds: &dyn Fn() -> Vec<Arc<FeedState>>) -> Result<(), StoreError> {
        let Some(storage) = &self.storage else { return Ok(()) };
        let _writing = sync::write(&self.writing);
        let found = Snapshots::find(&**storage)?;
        let mut referenced = HashSet::new();
        for info in &found.complete {
            let files = ColdReference::of_snapshot(&**storage, info)?;
            referenced.extend(files.into_iter().map(|file| file.name));
        }
        let feeds = feeds();
        let files = feeds.iter().filter_map(|state| state.storage.file());
        let current: HashSet<String> = files.map(|file| file.file.name().to_owned()).collect();
        let mut kept = sync::lock(&self.kept);
        kept.referenced = referenced;
        // What a bad snapshot names is not known.
        if found.bad.is_empty() {
            remove_cold(&**storage, &|name| {
                kept.referenced.contains(name)
                    || kept.saving.contains(name)
                    || current.contains(name)
            })?;
        }
        Ok(())
    }
}
