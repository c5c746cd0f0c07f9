//! A feed's places and tables as one thing that is in memory, or in a file.
//!
//! ```text
//! resident   places, rows of each table            file: none, or one that has the same, or an older one
//!    │ evict: write unless the file has the same        ^ load: read, check, swap in
//!    v                                                  │
//! cold       rule and shapes only                  file: has all of it, up to a batch
//! ```
//! For: the two changes. Not for: when they happen, who waits (`budget.rs`); bytes (`tables/cold`,
//! `places_cold.rs`); what a snapshot says of it (`durability/saved_feeds.rs`).
//!
//! Invariants: what the file has is what memory had between two batches; a change that fails leaves
//! everything as it was; a reader of a table sees the same rows before, while and after.
//! At the same time: `budget.rs` lets no batch of the feed, and no snapshot of it, run beside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use whered_store::{ColdFile, ColdReference, ColdWriter, Storage, StoreError};

use super::Feed;
use super::places::Places;
use super::state::FeedState;
use crate::sync;
use crate::tables::cold::{self, ColdRows};
use crate::tables::rows::Store;

/// The file of a unit.
#[derive(Clone)]
pub(crate) struct StorageFile {
    pub(crate) file: Arc<ColdFile>,
    /// Everything up to this batch is in it.
    pub(crate) batch: u64,
}

/// What a feed's state knows of where it is.
#[derive(Default)]
pub(crate) struct FeedStorage {
    backing: Mutex<Option<StorageFile>>,
    is_cold: AtomicBool,
    /// Memory has what the file does not have.
    is_changed: AtomicBool,
    /// What it took in memory before it was evicted.
    resident_bytes: AtomicU64,
    /// The feed that makes its batches, and has memory of its own for that.
    feed: Mutex<Weak<Feed>>,
}

impl FeedStorage {
    pub(crate) fn is_cold(&self) -> bool {
        self.is_cold.load(Ordering::Acquire)
    }

    /// Notes that memory has what the file does not have.
    pub(crate) fn note_change(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    /// The file, when it has what memory would have.
    pub(crate) fn current_file(&self) -> Option<StorageFile> {
        let is_behind = !self.is_cold() && self.is_changed.load(Ordering::Acquire);
        self.file().filter(|backing| !is_behind && !backing.file.is_doubtful())
    }

    pub(crate) fn file(&self) -> Option<StorageFile> {
        sync::lock(&self.backing).clone()
    }

    /// Memory is all that there is, and it has changed.
    pub(super) fn forget_file(&self) {
        *sync::lock(&self.backing) = None;
        self.is_cold.store(false, Ordering::Release);
        self.note_change();
    }

    /// What it takes in memory, or would.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_feed(&self, feed: &Arc<Feed>) {
        *sync::lock(&self.feed) = Arc::downgrade(feed);
    }

    fn feed(&self) -> Option<Arc<Feed>> {
        sync::lock(&self.feed).upgrade()
    }

    /// What makes its batches takes.
    pub(super) fn working_bytes(&self) -> u64 {
        self.feed().map_or(0, |feed| feed.working_bytes())
    }
}

impl FeedState {
    /// Puts places and tables into a file, unless one has them already, and out of memory; gives
    /// the file that is of no use to the unit any more, and how many bytes were written.
    ///
    /// # Errors
    /// The disk's; everything is where it was then.
    pub(crate) fn evict(
        &self,
        storage: &Arc<dyn Storage>,
    ) -> Result<(Option<Arc<ColdFile>>, u64), StoreError> {
        if let Some(feed) = self.storage.feed() {
            feed.release_memory();
        }
        let mut places = self.places();
        let known = self.storage.current_file();
        let is_new = known.is_none();
        let backing = match known {
            Some(backing) => backing,
            None => StorageFile {
                batch: self.header().batch,
                file: Arc::new(self.write(storage, &places)?),
            },
        };
        let written = if is_new { backing.file.size_bytes() } else { 0 };
        let old = self.storage.file().filter(|_| is_new).map(|old| old.file);
        self.storage.resident_bytes.store(self.body_bytes(&places), Ordering::Relaxed);
        self.put_cold(backing, &mut places)?;
        self.note_memory(&places);
        Ok((old, written))
    }

    fn write(&self, storage: &Arc<dyn Storage>, places: &Places) -> Result<ColdFile, StoreError> {
        let mut writer = ColdWriter::create(Arc::clone(storage), &self.name)?;
        places.write_cold(&mut writer)?;
        for (tag, table) in (0..).zip(self.tables()) {
            cold::write(&mut writer, tag, &table.shared())?;
        }
        writer.finish()
    }

    /// Has the file in the place of memory.
    fn put_cold(&self, backing: StorageFile, places: &mut Places) -> Result<(), StoreError> {
        let tables = self.tables();
        let mut stores = Vec::new();
        for (tag, table) in (0..).zip(&tables) {
            let shape = table.shared().shape().clone();
            stores.push(match cold::has_table(&backing.file, tag) {
                true => Store::of_cold(&Arc::new(ColdRows::open(&backing.file, tag, &shape)?)),
                // It is defined and had no row when the file was written.
                false => Store::new(shape),
            });
        }
        for (table, store) in tables.iter().zip(stores) {
            let rows = std::mem::replace(&mut *table.exclusive(), store);
            // Freeing takes its time: nobody waits for it.
            drop(rows);
        }
        *places = Places::new(places.rule());
        *sync::lock(&self.storage.backing) = Some(backing);
        self.storage.is_changed.store(false, Ordering::Release);
        self.storage.is_cold.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the file that a snapshot names for what the unit is.
    ///
    /// # Errors
    /// It is missing, or not what it should be.
    pub(crate) fn restore_cold(
        &self,
        storage: &dyn Storage,
        reference: &ColdReference,
        batch: u64,
        resident_bytes: u64,
    ) -> Result<(), StoreError> {
        let file = Arc::new(ColdFile::open(storage, reference)?);
        let mut places = self.places();
        self.storage.resident_bytes.store(resident_bytes, Ordering::Relaxed);
        self.put_cold(StorageFile { file, batch }, &mut places)?;
        self.note_memory(&places);
        Ok(())
    }

    /// Reads places and tables back into memory; gives how many bytes were read.
    ///
    /// # Errors
    /// The file is damaged, or the system's: everything is where it was then.
    pub(crate) fn load(&self) -> Result<u64, StoreError> {
        let Some(backing) = self.storage.file().filter(|_| self.storage.is_cold()) else {
            return Ok(0);
        };
        let mut places = self.places();
        let mut loaded = Places::load_cold(&backing.file, places.rule())?;
        // Here, so that the budget knows what it takes, in memory and in time.
        loaded.ensure_near();
        let tables = self.tables();
        let mut stores = Vec::new();
        for table in &tables {
            let rows = table.shared().cold.clone();
            stores.push(rows.map(|rows| cold::load(&rows)).transpose()?);
        }
        for (table, store) in tables.iter().zip(stores) {
            if let Some(store) = store {
                *table.exclusive() = store;
            }
        }
        *places = loaded;
        self.storage.is_cold.store(false, Ordering::Release);
        self.note_memory(&places);
        Ok(backing.file.size_bytes())
    }

    /// What places and tables take in memory.
    fn body_bytes(&self, places: &Places) -> u64 {
        let tables: usize = self.tables().iter().map(|table| table.memory_bytes()).sum();
        (tables + places.memory_bytes()) as u64
    }

    /// What the unit takes in memory; when it is cold, what it would.
    pub(crate) fn stored_bytes(&self) -> u64 {
        if self.storage.is_cold() {
            return self.storage.resident_bytes();
        }
        self.noted_bytes() + self.storage.working_bytes()
    }
}
