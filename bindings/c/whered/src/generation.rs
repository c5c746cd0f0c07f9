//! A file as it was read once: the database and, if wanted, its index.
//!
//! Not for choosing when to read. A generation is complete before anybody asks it, and never
//! changes.
//!
//! Each thread keeps a reference to the generation that it asked last, and compares a number with
//! one relaxed load: taking and giving back a reference for each call are two atomic
//! read-modify-writes, with which the waits for memory of two lookups cannot overlap.
//!
//! ```text
//! whered_database.slot ──► KEPT[slot] of this thread ── number == that one's? ─ yes: ask it
//!                                                                             └ no: load
//! ```
//!
//! Invariants: a number names one generation of one database in the process. An old generation
//! lives until each thread that asked it asks the database in its slot again, reloads or closes it
//! itself, or ends.

use crate::fault::{BAD_ARGUMENT, CANNOT_READ, Fault};
use arc_swap::ArcSwap;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use whered_mmdb::{Database, DatabaseIndex, FieldPath, IndexForm, IndexOptions};

/// An open database, which C knows by its address only.
pub(crate) struct whered_database {
    path: PathBuf,
    is_indexed: bool,
    pub(crate) fields: Vec<FieldPath>,
    current: ArcSwap<Generation>,
    /// The number of the generation in `current`.
    number: AtomicU64,
    slot: usize,
}

/// How many databases a thread can ask in turn without taking a reference again.
const SLOTS: usize = 8;

thread_local! {
    static KEPT: [Cell<Option<Arc<Generation>>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

pub(crate) struct Generation {
    number: u64,
    pub(crate) database: Database,
    pub(crate) index: Option<DatabaseIndex>,
}

impl whered_database {
    pub(crate) fn open(
        path: PathBuf,
        is_indexed: bool,
        fields: Vec<FieldPath>,
    ) -> Result<whered_database, Fault> {
        if fields.len() > 255 {
            let text = format!("{} fields; allowed: at most 255", fields.len());
            return Err(Fault::new(BAD_ARGUMENT, text));
        }
        static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);
        let first = Generation::read(&path, is_indexed, &fields)?;
        let number = AtomicU64::new(first.number);
        let current = ArcSwap::from_pointee(first);
        let slot = NEXT_SLOT.fetch_add(1, Ordering::Relaxed) % SLOTS;
        Ok(whered_database { path, is_indexed, fields, current, number, slot })
    }

    pub(crate) fn reload(&self) -> Result<(), Fault> {
        let next = Generation::read(&self.path, self.is_indexed, &self.fields)?;
        let number = next.number;
        self.current.store(Arc::new(next));
        self.number.store(number, Ordering::Release);
        self.forget();
        Ok(())
    }

    /// Asks the generation that serves.
    #[inline]
    pub(crate) fn ask(&self, question: impl FnOnce(&Generation)) {
        // A thread that ends keeps nothing; a call within `question` would find the slot empty.
        let kept = KEPT.try_with(|kept| kept.get(self.slot)?.take()).ok().flatten();
        let generation = match kept {
            Some(kept) if kept.number == self.number.load(Ordering::Relaxed) => kept,
            _ => self.load(),
        };
        question(&generation);
        // As above.
        let _ = KEPT.try_with(|kept| kept.get(self.slot)?.replace(Some(generation)));
    }

    #[cold]
    #[inline(never)]
    fn load(&self) -> Arc<Generation> {
        // With this, the generation is at least that of the number that was read.
        fence(Ordering::Acquire);
        self.current.load_full()
    }

    /// Gives up what this thread keeps in the database's slot.
    pub(crate) fn forget(&self) {
        // As in `ask`.
        let _ = KEPT.try_with(|kept| kept.get(self.slot)?.take());
    }
}

impl Generation {
    fn read(path: &PathBuf, is_indexed: bool, fields: &[FieldPath]) -> Result<Generation, Fault> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let bytes = std::fs::read(path)
            .map_err(|error| Fault::new(CANNOT_READ, format!("{}: {error}", path.display())))?;
        let database = Database::from_bytes(bytes)?;
        let options = IndexOptions { form: IndexForm::Compact, fields: fields.to_vec() };
        let index = is_indexed.then(|| DatabaseIndex::build(&database, &options)).transpose()?;
        Ok(Generation { number: NEXT.fetch_add(1, Ordering::Relaxed), database, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_mmdb::{Value, Writer, WriterOptions};

    fn write(path: &PathBuf, value: u32) {
        let mut writer = Writer::new(WriterOptions::default()).expect("a writer");
        writer
            .insert("192.0.2.0/24".parse().expect("a network"), Value::Uint32(value))
            .expect("ok");
        std::fs::write(path, writer.finish().expect("a file")).expect("a folder to write to");
    }

    fn number_of(database: &whered_database) -> u64 {
        let mut number = 0;
        database.ask(|generation| number = generation.number);
        number
    }

    #[test]
    fn each_thread_sees_a_reload_with_its_next_call_and_reload_and_close_free_the_old_file() {
        let path = std::env::temp_dir().join(format!("whered-c-kept-{}.mmdb", std::process::id()));
        write(&path, 1);
        let open = || {
            let opened = whered_database::open(path.clone(), false, Vec::new());
            opened.unwrap_or_else(|fault| panic!("status {}", fault.status))
        };
        // More databases than slots, one after the other.
        let databases: Vec<_> = (0..2 * SLOTS).map(|_| open()).collect();
        let mut numbers: Vec<_> = databases.iter().map(number_of).collect();
        assert_eq!(numbers, databases.iter().map(number_of).collect::<Vec<_>>());
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), databases.len(), "a number names one generation");

        let database = open();
        let first = number_of(&database);
        let old = Arc::downgrade(&database.current.load_full());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let before = number_of(&database);
                while number_of(&database) == before {
                    std::thread::yield_now();
                }
                number_of(&database)
            });
            // The other thread has asked once the generation has one more reference.
            while old.strong_count() < 3 {
                std::thread::yield_now();
            }
            assert!(database.reload().is_ok());
            let second = number_of(&database);
            assert!(second > first);
            assert_eq!(other.join().expect("no panic"), second);
        });
        assert!(old.upgrade().is_none(), "nobody keeps the old file");
        let last = Arc::downgrade(&database.current.load_full());
        database.forget();
        drop(database);
        assert!(last.upgrade().is_none(), "a thread that closes keeps nothing");
        std::fs::remove_file(&path).expect("it was written");
    }
}
