//! Reading the generation that serves without an atomic read-modify-write for each query.
//!
//! Cloning and dropping an [`Arc`] are two of those, and a processor lets no later load overlap
//! with them: single lookups that wait for memory would wait one after the other. A
//! [`GenerationReader`] keeps its reference and compares a number instead, with one relaxed load.
//!
//! ```text
//! serve:   generation.swap(next)   number.store(next.number)
//! reader:  number.load == kept.number ? kept : load again
//! ```
//!
//! Invariant: numbers of an engine's generations only grow, so that a number names one generation.
//! A reader may miss a swap that happens at the same time, and sees it with its next query.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use super::Engine;
use crate::databases::NamedDatabase;
use crate::generation::Generation;

/// The generation that serves.
pub(super) struct Current {
    generation: ArcSwap<Generation>,
    number: AtomicU64,
}

impl Current {
    pub(super) fn new(first: Generation) -> Arc<Current> {
        let number = AtomicU64::new(first.number());
        Arc::new(Current { generation: ArcSwap::from_pointee(first), number })
    }

    pub(super) fn load(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    /// Serves another generation; gives back the one before.
    pub(super) fn swap(&self, next: Arc<Generation>) -> Arc<Generation> {
        let number = next.number();
        let old = self.generation.swap(next);
        self.number.store(number, Ordering::Release);
        old
    }
}

/// Reads the generation that serves; each thread has its own.
///
/// It keeps the generation of its last query in memory until it is asked again or dropped: a reader
/// that may rest for long should be dropped meanwhile.
///
/// ```
/// use whered_engine::{Engine, EngineOptions};
/// let (engine, _) = Engine::open(EngineOptions::default())?;
/// let mut reader = engine.reader();
/// assert_eq!(reader.current().number(), engine.generation().number());
/// # Ok::<(), whered_engine::EngineError>(())
/// ```
pub struct GenerationReader {
    current: Arc<Current>,
    kept: Arc<Generation>,
}

impl GenerationReader {
    /// The generation that serves now. Ask once per query or batch. Costs a load and a comparison,
    /// unless another one serves since the last query.
    #[inline]
    pub fn current(&mut self) -> &Arc<Generation> {
        if self.current.number.load(Ordering::Relaxed) != self.kept.number() {
            self.renew();
        }
        &self.kept
    }

    /// The generation of the last query.
    #[inline]
    pub fn kept(&self) -> &Arc<Generation> {
        &self.kept
    }

    /// Whether it reads this engine's generations.
    #[inline]
    pub fn is_of(&self, engine: &Engine) -> bool {
        Arc::ptr_eq(&self.current, &engine.current)
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        // With this, the generation is at least that of the number that was read.
        std::sync::atomic::fence(Ordering::Acquire);
        self.kept = self.current.load();
    }
}

/// Reads one database of the generation that serves, by its name; each thread has its own. As a
/// [`GenerationReader`], and the database is looked for once for each generation.
pub struct DatabaseReader {
    generations: GenerationReader,
    name: String,
    /// The number of the generation that `database` is of.
    number: u64,
    database: Option<Arc<NamedDatabase>>,
}

impl DatabaseReader {
    /// The database as it serves now; `None` if there is none of that name. Costs as
    /// [`GenerationReader::current`].
    #[inline]
    pub fn current(&mut self) -> Option<&NamedDatabase> {
        if self.generations.current.number.load(Ordering::Relaxed) != self.number {
            self.renew();
        }
        self.database.as_deref()
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        let generation = self.generations.current();
        self.number = generation.number();
        self.database = generation.database(&self.name).cloned();
    }
}

impl Engine {
    /// A reader of one database, for many single queries.
    pub fn database_reader(&self, name: &str) -> DatabaseReader {
        let generations = self.reader();
        let number = generations.kept.number();
        let database = generations.kept.database(name).cloned();
        DatabaseReader { generations, name: name.to_owned(), number, database }
    }

    /// A reader of the generation that serves, for many single queries; see
    /// [`generation`](Engine::generation) for one.
    pub fn reader(&self) -> GenerationReader {
        GenerationReader { current: Arc::clone(&self.current), kept: self.generation() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineOptions;
    use crate::generation::setup::Setup;

    #[test]
    fn a_reader_sees_each_reload_with_its_next_query_and_keeps_one_generation_alive() {
        let (engine, _) = Engine::open(EngineOptions::default()).expect("an engine of nothing");
        let (other, _) = Engine::open(EngineOptions::default()).expect("an engine of nothing");
        let mut reader = engine.reader();
        assert!(reader.is_of(&engine) && !reader.is_of(&other));
        for _ in 0..3 {
            let before = Arc::downgrade(reader.current());
            engine.reload(Setup::default()).expect("nothing to read");
            // Another query of the old generation may still be on its way.
            assert_eq!(reader.kept().number() + 1, engine.generation().number());
            assert!(before.upgrade().is_some());
            assert_eq!(reader.current().number(), engine.generation().number());
            assert!(before.upgrade().is_none(), "the old generation is freed");
        }
    }

    #[test]
    fn a_reader_of_a_database_sees_it_replaced_removed_and_back() {
        use crate::databases::DatabaseSource;
        use whered_mmdb::{Value, Writer, WriterOptions};
        let name = format!("whered-reader-{}.mmdb", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut writer = Writer::new(WriterOptions::default()).expect("a writer");
        let network = "192.0.2.0/24".parse().expect("a network");
        writer.insert(network, Value::Uint32(1)).expect("a value");
        std::fs::write(&path, writer.finish().expect("a file")).expect("a place for it");
        let setup =
            || Setup { databases: vec![DatabaseSource::new("city", &path)], ..Setup::default() };
        let options = EngineOptions { setup: setup(), ..EngineOptions::default() };
        let (engine, _) = Engine::open(options).expect("an engine");
        let mut reader = engine.database_reader("city");
        let generation =
            |reader: &mut DatabaseReader| reader.current().map(|database| database.generation);
        assert_eq!(generation(&mut reader), Some(1));
        engine.reload(setup()).expect("the same files");
        assert_eq!(generation(&mut reader), Some(2));
        engine.reload(Setup::default()).expect("nothing to read");
        assert_eq!(generation(&mut reader), None);
        engine.reload(setup()).expect("the same files");
        assert_eq!(generation(&mut reader), Some(4));
        assert!(engine.database_reader("other").current().is_none());
        std::fs::remove_file(&path).expect("it was written");
    }

    #[test]
    fn readers_of_many_threads_see_numbers_that_only_grow_and_the_last_one_at_the_end() {
        let (engine, _) = Engine::open(EngineOptions::default()).expect("an engine of nothing");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut reader = engine.reader();
                    let mut last = 0;
                    while last < 200 {
                        let number = reader.current().number();
                        assert!(number >= last, "{number} after {last}");
                        last = number;
                    }
                });
            }
            while engine.generation().number() < 200 {
                engine.reload(Setup::default()).expect("nothing to read");
            }
        });
    }
}
