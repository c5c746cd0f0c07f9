//! A disk in memory that does what real disks do at the worst moment. For tests, here and above.
//!
//! Not for: speed, or saying how long anything takes.
//!
//! ```text
//!   file:   current bytes (what reads see)
//!           durable bytes (what certainly survives)
//!           dirty: sector -> every content it had since the last sync
//!   names:  current, durable, and the changes between them in order
//!           ("sub/name" where a handle is of a directory beside, as a backup's)
//! ```
//!
//! The file after [`SimulatedDisk::crash`]: each dirty sector independently becomes its durable
//! content or any of its later ones (so writes are lost, torn and reordered); a file whose size was
//! not synced has any size; each change of a name since the last directory sync happened or not,
//! independently, a rename at once or not at all.
//!
//! Faults on request: no room beyond a byte budget, an error on the n-th sync or waited write-back
//! (after which the dirty sectors are forgotten, as Linux does, with some of them written), a power
//! cut before the n-th operation, changed bytes. Everything random comes from the seeds. Handles
//! are clones of one disk; a mutex guards it.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whered_random::Random;

use super::{BLOCK_BYTES, Storage, StorageFile};

const SECTOR_BYTES: usize = 512;

/// A disk in memory; clones are handles of the same disk.
///
/// ```
/// use whered_store::{SimulatedDisk, Storage};
/// let disk = SimulatedDisk::new(7);
/// let file = disk.create("a", 1024)?;
/// file.write_at(0, b"kept")?;
/// file.sync_all()?;
/// disk.sync_directory()?;
/// file.write_at(512, b"perhaps")?;
/// let found = disk.crash(99);
/// assert_eq!(&found.read("a").unwrap()[..4], b"kept");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    /// The prefix of the names in this handle's directory.
    prefix: String,
}

#[derive(Default)]
struct State {
    random: Random,
    files: Vec<FileState>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    capacity_bytes: Option<u64>,
    failing_sync: Option<u64>,
    syncs: u64,
    power_cut_at: Option<u64>,
    operations: u64,
    block_writes: u64,
}

#[derive(Default)]
struct FileState {
    current: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
}

enum NameChange {
    Add(String, usize),
    /// From, to, and the file: a rename moves a file, whatever else a crash makes of its old name.
    Rename(String, String, usize),
    Remove(String),
}

impl SimulatedDisk {
    /// An empty disk without limits.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::of(State { random: Random(seed), ..State::default() })
    }

    fn of(state: State) -> SimulatedDisk {
        SimulatedDisk { state: Arc::new(Mutex::new(state)), prefix: String::new() }
    }

    /// Another directory of the same disk; files can be linked from one to the other.
    #[must_use]
    pub fn directory(&self, name: &str) -> SimulatedDisk {
        SimulatedDisk { state: Arc::clone(&self.state), prefix: format!("{}{name}/", self.prefix) }
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as the next process would find it after a power cut now. This one is unchanged.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimulatedDisk {
        let state = self.lock();
        let mut random = Random(seed);
        let names = state.names_after_crash(&mut random);
        let files = state.files.iter().map(|file| file.after_crash(&mut random)).collect();
        let disk = SimulatedDisk::of(State {
            random,
            files,
            durable_names: names.clone(),
            names,
            capacity_bytes: state.capacity_bytes,
            ..State::default()
        });
        SimulatedDisk { prefix: self.prefix.clone(), ..disk }
    }

    /// The disk as the next process finds it when only the process died: nothing is lost.
    #[must_use]
    pub fn after_process_death(&self) -> SimulatedDisk {
        self.lock().power_cut_at = None;
        self.clone()
    }

    /// Lets all files together have this many bytes; `None` takes the limit away.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.lock().capacity_bytes = capacity_bytes;
    }

    /// Makes the n-th sync of a file from now on fail, counted from 1.
    pub fn fail_sync(&self, n: u64) {
        let mut state = self.lock();
        state.failing_sync = Some(state.syncs + n);
    }

    /// Makes every operation fail once `n` more have been done, as if the machine were gone.
    pub fn cut_power_after(&self, n: u64) {
        let mut state = self.lock();
        state.power_cut_at = Some(state.operations + n);
    }

    /// How many operations (reads not counted) have been done.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// How many syncs of files have been asked for.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// How many of the operations were writes of whole blocks.
    #[must_use]
    pub fn block_writes(&self) -> u64 {
        self.lock().block_writes
    }

    /// All names of this directory, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let state = self.lock();
        let names = state.names.keys().filter_map(|name| own_name(name, &self.prefix));
        names.map(str::to_owned).collect()
    }

    /// A file's bytes as a reader sees them now.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let file = *state.names.get(&self.full_name(name))?;
        Some(state.files[file].current.clone())
    }

    /// Sets a file's bytes behind everybody's back, durably; makes it if it is not there.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.lock();
        let file =
            FileState { current: bytes.to_vec(), durable: bytes.to_vec(), ..FileState::default() };
        state.files.push(file);
        let index = state.files.len() - 1;
        state.names.insert(self.full_name(name), index);
        state.durable_names.insert(self.full_name(name), index);
    }

    /// Changes one bit of a file behind everybody's back, durably. False: there is no such byte.
    pub fn flip_bit(&self, name: &str, offset_bytes: usize, bit: u8) -> bool {
        let Some(mut bytes) = self.read(name) else {
            return false;
        };
        let Some(byte) = bytes.get_mut(offset_bytes) else {
            return false;
        };
        *byte ^= 1 << (bit % 8);
        self.put(name, &bytes);
        true
    }
}

impl State {
    /// Counts an operation; fails if the power is gone.
    fn step(&mut self) -> io::Result<()> {
        self.check_power()?;
        self.operations += 1;
        Ok(())
    }

    fn check_power(&self) -> io::Result<()> {
        match self.power_cut_at {
            Some(at) if self.operations >= at => Err(io::Error::other("simulated power cut")),
            _ => Ok(()),
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn used_bytes(&self) -> u64 {
        // A file with two names is there once.
        let files: BTreeSet<usize> = self.names.values().copied().collect();
        files.into_iter().map(|file| self.files[file].current.len() as u64).sum()
    }

    fn names_after_crash(&self, random: &mut Random) -> BTreeMap<String, usize> {
        let mut names = self.durable_names.clone();
        for change in &self.name_changes {
            if random.next_u64().is_multiple_of(2) {
                change.apply(&mut names);
            }
        }
        names
    }

    /// Counts a sync; when it is the one that fails, some sectors were written and none is tried
    /// again.
    fn try_sync(&mut self, file: usize) -> io::Result<()> {
        self.step()?;
        self.syncs += 1;
        if self.failing_sync != Some(self.syncs) {
            return Ok(());
        }
        let file = &mut self.files[file];
        file.durable = file.after_crash(&mut self.random).durable;
        file.dirty.clear();
        Err(io::Error::other("simulated input/output error"))
    }

    fn check_capacity(&self, more_bytes: u64) -> io::Result<()> {
        match self.capacity_bytes {
            Some(most) if self.used_bytes() + more_bytes > most => {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            _ => Ok(()),
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        self.try_sync(file)?;
        let file = &mut self.files[file];
        let FileState { current, durable, dirty } = file;
        durable.resize(current.len(), 0);
        for sector in std::mem::take(dirty).into_keys() {
            let range = sector_range(sector, current.len());
            durable[range.clone()].copy_from_slice(&current[range]);
        }
        Ok(())
    }
}

impl NameChange {
    /// The name in whose directory the change is.
    fn name(&self) -> &str {
        match self {
            NameChange::Add(name, _) | NameChange::Rename(name, ..) | NameChange::Remove(name) => {
                name
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Add(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameChange::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl FileState {
    fn after_crash(&self, random: &mut Random) -> FileState {
        let mut bytes = self.durable.clone();
        let grown = (self.current.len() - bytes.len()) as u64;
        if grown > 0 {
            let kept = if random.next_u64().is_multiple_of(2) {
                grown
            } else {
                random.next_u64() % (grown + 1)
            };
            bytes.resize(bytes.len() + kept as usize, 0);
        }
        for (&sector, contents) in &self.dirty {
            let range = sector_range(sector, bytes.len());
            let choice = random.next_u64() as usize % (contents.len() + 1);
            if let Some(content) = contents.get(choice) {
                let length = range.len().min(content.len());
                bytes[range][..length].copy_from_slice(&content[..length]);
            }
        }
        FileState { current: bytes.clone(), durable: bytes, dirty: BTreeMap::new() }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.current.len() {
            self.current.resize(end, 0);
        }
        self.current[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let content = self.current[sector_range(sector, self.current.len())].to_vec();
            self.dirty.entry(sector).or_default().push(content);
        }
    }
}

/// The name as the directory with this prefix has it, if it is one of its own.
fn own_name<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix).filter(|rest| !rest.contains('/'))
}

fn sector_range(sector: usize, length: usize) -> std::ops::Range<usize> {
    let start = (sector * SECTOR_BYTES).min(length);
    start..(start + SECTOR_BYTES).min(length)
}

impl Storage for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.lock().check_power()?;
        Ok(self.names())
    }

    fn create(&self, name: &str, size_bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.lock();
        state.step()?;
        let name = self.full_name(name);
        if state.names.contains_key(&name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.check_capacity(size_bytes)?;
        let current = vec![0; size_bytes as usize];
        state.files.push(FileState { current, ..FileState::default() });
        let file = state.files.len() - 1;
        state.change_names(NameChange::Add(name, file));
        drop(state);
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn open(&self, name: &str, _may_write: bool) -> io::Result<Box<dyn StorageFile>> {
        let state = self.lock();
        state.check_power()?;
        let file = state.find(&self.full_name(name))?;
        drop(state);
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        let (from, to) = (self.full_name(from), self.full_name(to));
        let file = state.find(&from)?;
        state.change_names(NameChange::Rename(from, to, file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        let name = self.full_name(name);
        state.find(&name)?;
        state.change_names(NameChange::Remove(name));
        Ok(())
    }

    fn link(&self, name: &str, into: &dyn Storage, new_name: &str) -> io::Result<()> {
        let into: &dyn Any = into;
        let into = into
            .downcast_ref::<SimulatedDisk>()
            .filter(|into| Arc::ptr_eq(&self.state, &into.state))
            .ok_or_else(|| io::Error::from(io::ErrorKind::CrossesDevices))?;
        let mut state = self.lock();
        state.step()?;
        let file = state.find(&self.full_name(name))?;
        let new_name = into.full_name(new_name);
        if state.names.contains_key(&new_name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.change_names(NameChange::Add(new_name, file));
        Ok(())
    }

    fn name_count(&self, name: &str) -> io::Result<u64> {
        let state = self.lock();
        state.check_power()?;
        let file = state.find(&self.full_name(name))?;
        Ok(state.names.values().filter(|other| **other == file).count() as u64)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        for change in std::mem::take(&mut state.name_changes) {
            if own_name(change.name(), &self.prefix).is_some() {
                change.apply(&mut state.durable_names);
            } else {
                state.name_changes.push(change);
            }
        }
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        format!("simulated/{}{name}", self.prefix)
    }

    fn random(&self) -> u64 {
        self.lock().random.next_u64()
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl StorageFile for SimulatedFile {
    fn size_bytes(&self) -> io::Result<u64> {
        let state = self.disk.lock();
        state.check_power()?;
        Ok(state.files[self.file].current.len() as u64)
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.disk.lock();
        state.check_power()?;
        let offset = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let bytes = state.files[self.file].current.get(offset..).unwrap_or_default();
        let bytes = bytes
            .get(..buffer.len())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.step()?;
        let offset = usize::try_from(offset_bytes)
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let end = offset.saturating_add(bytes.len());
        let growth = end.saturating_sub(state.files[self.file].current.len());
        if growth > 0 {
            state.check_capacity(growth as u64)?;
        }
        state.files[self.file].write(offset, bytes);
        Ok(())
    }

    fn write_blocks_at(&self, offset_bytes: u64, blocks: &[u8]) -> io::Result<()> {
        let is_whole = offset_bytes.is_multiple_of(BLOCK_BYTES as u64)
            && blocks.len().is_multiple_of(BLOCK_BYTES)
            && blocks.as_ptr().align_offset(BLOCK_BYTES) == 0;
        // What a disk would refuse, although the real storage then does it in another way.
        assert!(is_whole, "{} bytes at {offset_bytes} are no whole blocks", blocks.len());
        {
            let mut state = self.disk.lock();
            let end = offset_bytes as usize + blocks.len();
            assert!(end <= state.files[self.file].current.len(), "blocks go beyond the file");
            state.block_writes += 1;
        }
        self.write_at(offset_bytes, blocks)
    }

    fn write_back(&self, _range: Range<u64>, wait: bool) -> io::Result<()> {
        // Any dirty sector may be written at any time, so a beginning changes nothing here.
        let mut state = self.disk.lock();
        if wait { state.try_sync(self.file) } else { state.step() }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().sync(self.file)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.lock().sync(self.file)
    }
}

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod tests;
