//! The three steps of a batch, one after the other or on threads of their own.
//!
//! ```text
//! small batch     read ─ block ─> place ─> note ─> read ...                        one thread
//! large batch     read ─ blocks ─> place ─ blocks ─> note ─ empty blocks ─> read   a thread each
//! ```
//! For: steps that do not wait for each other: reading knows no table, positions are found without
//! rows, rows are changed without positions. Not for: what the steps are (`read.rs`, `consolidate.rs`).
//!
//! Invariants: every step gets every block, in the order in which it was read; all have ended when
//! [`run`] returns. A step that panics ends the others, and the panic goes on in the caller.
//! At the same time: the threads of a large batch make way for others, since somebody waits for the
//! acknowledgement of each upload, and nobody for these; the caller's thread waits, and stays as it is
//! for what comes after, which is done under locks that others want.
//! Cost: three threads a large batch, beside it one that removes or reads ahead; two wake-ups a block at most.

use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Builder, ScopedJoinHandle};

use whered_cpu::{Priority, lower_priority};

use super::block::Block;

/// How many blocks wait before a step: enough that a step which waits for a processor, some milliseconds
/// where there are two, does not stop the others.
const BLOCKS_WAITING: usize = 32;

/// How many places a batch changes at most, about: who asks for points waits while those are put into
/// the collection.
const PLACES_MAX: usize = 200_000;
/// How many rows it changes at most, about.
const ROWS_MAX: usize = 400_000;

/// How much a batch has changed up to now. What a changed place or row costs in the end it costs once,
/// however many events there were.
#[derive(Debug, Default)]
pub(super) struct Changed {
    places: AtomicUsize,
    rows: AtomicUsize,
}

impl Changed {
    pub(super) fn note_places(&self, count: usize) {
        self.places.store(count, Ordering::Relaxed);
    }

    pub(super) fn note_rows(&self, count: usize) {
        self.rows.store(count, Ordering::Relaxed);
    }

    /// Whether the batch is to end; the steps may be some blocks behind the one that asks.
    pub(super) fn is_enough(&self) -> bool {
        let [places, rows] = [&self.places, &self.rows].map(|count| count.load(Ordering::Relaxed));
        places >= PLACES_MAX || rows >= ROWS_MAX
    }
}

/// Takes a full block and leaves an empty one.
pub(super) type HandOn<'a> = dyn FnMut(&mut Block) + 'a;

/// What is done with one block after the other, and what comes of all of them.
pub(super) trait Step: Send {
    type Made: Send;

    fn take(&mut self, block: &mut Block);

    fn end(self) -> Self::Made;
}

/// Runs the steps: `read` hands blocks on and gives its result, `place` and `note` get each of them.
/// `is_parallel` asks for threads, which a system may refuse.
pub(super) fn run<R: Send, P: Step, N: Step>(
    is_parallel: bool,
    read: impl FnOnce(&mut HandOn<'_>) -> R + Send,
    place: P,
    note: N,
) -> (R, P::Made, N::Made) {
    if !is_parallel {
        return one_after_the_other(read, place, note);
    }
    let mut steps = Some((read, place, note));
    thread::scope(|scope| {
        let placing = named("feed-place").spawn_scoped(scope, || {
            // At full priority the steps are the same, and uploads are acknowledged later.
            let _ = lower_priority(Priority::Behind);
            steps.take().map(|(read, place, note)| on_threads(read, place, note))
        });
        placing.ok().and_then(joined)
    })
    .unwrap_or_else(|| {
        let (read, place, note) = steps.take().expect("no thread has taken them");
        one_after_the_other(read, place, note)
    })
}

/// Does one thing, and meanwhile another one on a thread of that name and priority; after it where the
/// system has no thread to give.
pub(super) fn beside<T>(
    (name, priority): (&str, Option<Priority>),
    other: impl FnOnce() + Send,
    this: impl FnOnce() -> T,
) -> T {
    let mut other = Some(other);
    let made = thread::scope(|scope| {
        let started = named(name).spawn_scoped(scope, || {
            // At full priority it is the same, and others wait for it.
            let _ = priority.map(lower_priority);
            other.take().into_iter().for_each(|other| other());
        });
        let made = this();
        started.map(joined).ok();
        made
    });
    other.into_iter().for_each(|other| other());
    made
}

fn one_after_the_other<R, P: Step, N: Step>(
    read: impl FnOnce(&mut HandOn<'_>) -> R,
    mut place: P,
    mut note: N,
) -> (R, P::Made, N::Made) {
    let made = read(&mut |block| {
        place.take(block);
        note.take(block);
        block.clear();
    });
    (made, place.end(), note.end())
}

fn named(name: &str) -> Builder {
    Builder::new().name(name.to_owned())
}

/// The calling thread finds the positions.
fn on_threads<R, T: Send, P: Step, N: Step>(read: R, mut place: P, note: N) -> (T, P::Made, N::Made)
where
    R: FnOnce(&mut HandOn<'_>) -> T + Send,
{
    thread::scope(|scope| {
        // Threads get their steps when both have started: until then those are still here.
        let (reader, reads) = mpsc::sync_channel::<R>(1);
        let (noter, notes) = mpsc::sync_channel::<N>(1);
        let (to_place, read_blocks) = mpsc::sync_channel(BLOCKS_WAITING);
        let (to_note, placed_blocks) = mpsc::sync_channel(BLOCKS_WAITING);
        let (give_back, empty_blocks) = mpsc::channel();
        let reading = named("feed-read").spawn_scoped(scope, move || {
            reads.recv().ok().map(|read| read_all(read, &to_place, &empty_blocks))
        });
        let noting = named("feed-note").spawn_scoped(scope, move || {
            notes.recv().ok().map(|note| note_all(note, placed_blocks, &give_back))
        });
        let (Ok(reading), Ok(noting)) = (reading, noting) else {
            drop((reader, noter));
            return one_after_the_other(read, place, note);
        };
        // Nobody takes a step whose thread has ended, and none has.
        let _ = (reader.send(read), noter.send(note));
        for mut block in read_blocks {
            place.take(&mut block);
            // The next step has panicked, which its thread tells.
            if to_note.send(block).is_err() {
                break;
            }
        }
        drop(to_note);
        let placed = place.end();
        let noted = joined(noting).expect("the thread had got its step");
        let read = joined(reading).expect("the thread had got its step");
        (read, placed, noted)
    })
}

fn read_all<T>(
    read: impl FnOnce(&mut HandOn<'_>) -> T,
    to_place: &SyncSender<Block>,
    empty_blocks: &Receiver<Block>,
) -> T {
    read(&mut |block| {
        let empty = empty_blocks.try_recv().unwrap_or_default();
        // Nobody takes it any more where the next step has panicked.
        let _ = to_place.send(mem::replace(block, empty));
    })
}

fn note_all<N: Step>(
    mut note: N,
    placed_blocks: Receiver<Block>,
    give_back: &Sender<Block>,
) -> N::Made {
    for mut block in placed_blocks {
        note.take(&mut block);
        block.clear();
        // Nobody wants it any more when all is read.
        let _ = give_back.send(block);
    }
    note.end()
}

/// A thread's result, or its panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use whered_feeds::Record;

    use super::*;
    use crate::feeds::places::Sighted;

    fn record(member: &[u8]) -> Record<'_> {
        Record { offset_bytes: 0, member, place: None, time_millis: None, fields: &[], items: &[] }
    }

    /// Hands on blocks of one record each.
    fn read(count: i64) -> impl FnOnce(&mut HandOn<'_>) -> i64 {
        move |hand_on| {
            let mut block = Block::default();
            for number in 0..count {
                assert!(block.is_empty(), "a block comes back empty");
                block.push(&record(b"m"), number);
                hand_on(&mut block);
            }
            count
        }
    }

    /// Takes blocks with a function and gives it back.
    struct By<F>(F);

    impl<F: FnMut(&mut Block) + Send> Step for By<F> {
        type Made = F;

        fn take(&mut self, block: &mut Block) {
            (self.0)(block);
        }

        fn end(self) -> F {
            self.0
        }
    }

    #[test]
    fn every_step_gets_every_block_in_order() {
        for (is_parallel, count) in [(false, 0), (false, 100), (true, 0), (true, 1), (true, 1000)] {
            let mut placed = Vec::new();
            let mut noted = Vec::new();
            let place = By(|block: &mut Block| {
                placed.push(block.time_millis(0));
                block.sighted.push(Some(Sighted { row: placed.len() as u32, ordinal: 1 }));
            });
            let note = By(|block: &mut Block| {
                let row = block.sighted[0].map(|sighted| sighted.row);
                noted.push((block.time_millis(0), row));
            });
            assert_eq!(run(is_parallel, read(count), place, note).0, count);
            assert_eq!(placed, (0..count).collect::<Vec<_>>());
            let numbers = (0..count).map(|number| (number, Some(number as u32 + 1)));
            assert_eq!(noted, numbers.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_of_any_step_comes_out() {
        for step in 0..3 {
            let fails = move |now: i32| assert!(now != step, "step {step}");
            let reads = move |hand_on: &mut HandOn<'_>| {
                let count = read(50)(hand_on);
                fails(0);
                count
            };
            let place = By(move |_: &mut Block| fails(1));
            let note = By(move |_: &mut Block| fails(2));
            catch_unwind(AssertUnwindSafe(|| run(true, reads, place, note).0)).unwrap_err();
        }
    }
}
