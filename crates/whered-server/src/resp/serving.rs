//! The generation that a command answers from, kept by the worker's thread between its commands.
//!
//! For single lookups, whose waits for memory would not overlap if each took and gave back a
//! reference (see [`GenerationReader`]). Not for commands that change what serves.
//!
//! At the same time: each thread has its own. While a command has it, the thread has none, so that
//! a command within another one would take one of its own.
//!
//! Cost in memory: an idle worker would keep an old generation alive, so it calls [`forget`] once a
//! second.

use std::cell::Cell;
use std::ops::Deref;

use whered_engine::{Engine, Generation, GenerationReader};

thread_local! {
    static KEPT: Cell<Option<GenerationReader>> = const { Cell::new(None) };
}

/// The generation that serves, for one command.
pub(crate) struct ServingGeneration(Option<GenerationReader>);

impl ServingGeneration {
    /// The engine's generation, by this thread's reader if it has one of this engine.
    #[inline]
    pub(crate) fn of(engine: &Engine) -> ServingGeneration {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut reader = match kept {
            Some(reader) if reader.is_of(engine) => reader,
            _ => engine.reader(),
        };
        reader.current();
        ServingGeneration(Some(reader))
    }
}

impl Deref for ServingGeneration {
    type Target = Generation;

    #[inline]
    fn deref(&self) -> &Generation {
        self.0.as_ref().expect("the reader is taken when this is dropped").kept()
    }
}

impl Drop for ServingGeneration {
    #[inline]
    fn drop(&mut self) {
        let reader = self.0.take();
        // A thread that ends keeps nothing.
        let _ = KEPT.try_with(|kept| kept.set(reader));
    }
}

/// Gives up what this thread keeps.
pub(super) fn forget() {
    drop(KEPT.take());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use whered_engine::{EngineOptions, Setup};

    #[test]
    fn a_command_sees_each_reload_and_an_idle_worker_keeps_no_old_generation() {
        let (engine, _) = Engine::open(EngineOptions::default()).expect("an engine of nothing");
        let (other, _) = Engine::open(EngineOptions::default()).expect("an engine of nothing");
        assert_eq!(ServingGeneration::of(&engine).number(), engine.generation().number());
        let old = Arc::downgrade(&engine.generation());
        engine.reload(Setup::default()).expect("nothing to read");
        assert!(old.upgrade().is_some(), "the thread keeps it for its next command");
        let serving = ServingGeneration::of(&engine);
        assert_eq!(serving.number(), engine.generation().number());
        assert!(old.upgrade().is_none());

        // A command inside another one, and another engine.
        assert_eq!(ServingGeneration::of(&engine).number(), serving.number());
        assert_eq!(ServingGeneration::of(&other).number(), other.generation().number());
        drop(serving);
        let old = Arc::downgrade(&engine.generation());
        engine.reload(Setup::default()).expect("nothing to read");
        forget();
        assert!(old.upgrade().is_none());
    }
}
