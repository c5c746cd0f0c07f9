//! The three steps of a batch, one after the other or on threads of their own.
//!
//! ```text
//! small batch     read ─ block ─> place ─> note ─> read ...                        one thread
//! large batch     read ─ blocks ─> place ─ blocks ─> note ─ empty blocks ─> read   a thread each
//! ```
//! For: steps that do not wait for each other: reading knows no table, positions are found without
//! rows, rows are changed without positions. Not for: what the steps are (`read.rs`,
//! `consolidate.rs`).
//!
//! Invariants: every step gets every block, in the order in which it was read; all have ended when
//! [`run`] returns. A step that panics ends the others, and the panic goes on in the caller.
//! At the same time: the threads of a large batch make way for others, since somebody waits for the
//! acknowledgement of each upload, and nobody for these; the caller's thread waits, and stays as it
//! is for what comes after, which is done under locks that others want.
//! Cost: three threads a large batch, beside it one that removes or reads ahead; two wake-ups a
//! block at most.

use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Builder, ScopedJoinHandle};

use whered_store::{Priority, lower_priority};

use super::block::{BLOCK_RECORDS, Block};

/// How many blocks are under way at most: enough that a step which waits for a processor, some
/// milliseconds where there are two, does not stop the others, and that reading goes on while what
/// was read ahead is placed.
const BLOCKS_MAX: usize = 256;
/// With unusually long texts and lists fewer are, as many as have about these bytes.
const BLOCKS_BYTES_MAX: usize = 32 << 20;
/// But this many in any case.
const BLOCKS_MIN: usize = 16;

/// Nor are more, but for these, than will take the batch to what it may change.
const BLOCKS_BEYOND: usize = 32;

/// How many places a batch changes at most, about: who asks for points waits while those are put
/// into the collection.
const PLACES_MAX: usize = 200_000;
/// How many rows it changes at most, about.
const ROWS_MAX: usize = 400_000;

/// How much a batch has changed up to now. What a changed place or row costs in the end it costs
/// once, however many events there were.
#[derive(Debug, Default)]
pub(super) struct Changed {
    places: Progress,
    rows: Progress,
}

/// How much a step has changed, and by the last block alone; one thread notes it.
#[derive(Debug)]
struct Progress {
    changed: AtomicUsize,
    by_last_block: AtomicUsize,
}

impl Default for Progress {
    /// As if the block before had been full of new records.
    fn default() -> Progress {
        let by_last_block = AtomicUsize::new(BLOCK_RECORDS);
        Progress { changed: AtomicUsize::new(0), by_last_block }
    }
}

impl Progress {
    fn note(&self, changed: usize) {
        let before = self.changed.swap(changed, Ordering::Relaxed);
        self.by_last_block.store(changed.saturating_sub(before), Ordering::Relaxed);
    }

    /// What is left of so much that it may change, and how many blocks like the last one will
    /// change that.
    fn left(&self, most: usize) -> (usize, usize) {
        let left = most.saturating_sub(self.changed.load(Ordering::Relaxed));
        (left, left / self.by_last_block.load(Ordering::Relaxed).max(1))
    }
}

impl Changed {
    pub(super) fn note_places(&self, count: usize) {
        self.places.note(count);
    }

    pub(super) fn note_rows(&self, count: usize) {
        self.rows.note(count);
    }

    fn left(&self) -> [(usize, usize); 2] {
        [self.places.left(PLACES_MAX), self.rows.left(ROWS_MAX)]
    }

    /// Whether the batch is to end; the steps may be some blocks behind the one that asks.
    pub(super) fn is_enough(&self) -> bool {
        self.left().iter().any(|(left, _)| *left == 0)
    }

    /// How many blocks may be under way until that, as far as one can tell.
    fn blocks_left(&self) -> usize {
        let [(_, places), (_, rows)] = self.left();
        places.min(rows)
    }
}

/// Takes a full block and leaves an empty one.
pub(super) type HandOn<'a> = dyn FnMut(&mut Block) + 'a;

/// What is done with one block after the other, and what comes of all of them.
pub(super) trait Step: Send {
    type Output: Send;

    fn take(&mut self, block: &mut Block);

    fn end(self) -> Self::Output;
}

/// Runs the steps: `read` hands blocks on and gives its result, `place` and `note` get each of
/// them. With empty blocks to be filled, of which there may be none yet, each step gets a thread,
/// if the system has any; they are given back, and those that were made. The steps tell how much
/// has changed.
pub(super) fn run<R: Send, P: Step, N: Step>(
    blocks: Option<(&mut Vec<Block>, &Changed)>,
    read: impl FnOnce(&mut HandOn<'_>) -> R + Send,
    place: P,
    note: N,
) -> (R, P::Output, N::Output) {
    let Some(blocks) = blocks else {
        return one_after_the_other(read, place, note);
    };
    let mut steps = Some((read, place, note));
    thread::scope(|scope| {
        let placing = named("feed-place").spawn_scoped(scope, || {
            // At full priority the steps are the same, and uploads are acknowledged later.
            let _ = lower_priority(Priority::Behind);
            steps.take().map(|(read, place, note)| on_threads(blocks, read, place, note))
        });
        placing.ok().and_then(joined)
    })
    .unwrap_or_else(|| {
        let (read, place, note) = steps.take().expect("no thread has taken them");
        one_after_the_other(read, place, note)
    })
}

/// Does one thing, and meanwhile another one on a thread of that name and priority; after it where
/// the system has no thread to give.
pub(super) fn run_alongside<T>(
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
) -> (R, P::Output, N::Output) {
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
fn on_threads<R, T: Send, P: Step, N: Step>(
    (spare, changed): (&mut Vec<Block>, &Changed),
    read: R,
    mut place: P,
    note: N,
) -> (T, P::Output, N::Output)
where
    R: FnOnce(&mut HandOn<'_>) -> T + Send,
{
    thread::scope(|scope| {
        // Threads get their steps when both have started: until then those are still here.
        let (reader, reads) = mpsc::sync_channel::<R>(1);
        let (noter, notes) = mpsc::sync_channel::<N>(1);
        // How many wait in them is what the reader has filled and not got back.
        let (to_place, read_blocks) = mpsc::channel();
        let (to_note, placed_blocks) = mpsc::channel();
        let (give_back, given_back) = mpsc::channel();
        let mut empty = Empty { spare, changed, given_back, under_way: 0 };
        let reading = named("feed-read").spawn_scoped(scope, move || {
            reads.recv().ok().map(|read| (read_all(read, &to_place, &mut empty), empty))
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
        let (read, empty) = joined(reading).expect("the thread had got its step");
        empty.end();
        (read, placed, noted)
    })
}

fn read_all<T>(
    read: impl FnOnce(&mut HandOn<'_>) -> T,
    to_place: &Sender<Block>,
    empty: &mut Empty<'_>,
) -> T {
    read(&mut |block| {
        let size_bytes = block.memory_bytes();
        // Nobody takes it any more where the next step has panicked.
        let _ = to_place.send(mem::take(block));
        *block = empty.next(size_bytes);
    })
}

/// The blocks that the reader may fill.
struct Empty<'a> {
    spare: &'a mut Vec<Block>,
    changed: &'a Changed,
    /// By the last step.
    given_back: Receiver<Block>,
    under_way: usize,
}

impl Empty<'_> {
    /// One in place of one of this size that was handed on; waits while enough such are under way.
    fn next(&mut self, size_bytes: usize) -> Block {
        self.under_way += 1;
        let most = (BLOCKS_BYTES_MAX / size_bytes.max(1)).clamp(BLOCKS_MIN, BLOCKS_MAX);
        while let Ok(block) = self.given_back.try_recv() {
            self.keep(block, most);
        }
        while self.under_way >= most.min(self.changed.blocks_left() + BLOCKS_BEYOND) {
            // Nobody gives any back where a step has panicked.
            let Ok(block) = self.given_back.recv() else { break };
            self.keep(block, most);
        }
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, block: Block, most: usize) {
        self.under_way -= 1;
        if self.under_way + self.spare.len() < most {
            self.spare.push(block);
        }
    }

    fn end(self) {
        self.spare.extend(self.given_back.try_iter());
    }
}

fn note_all<N: Step>(
    mut note: N,
    placed_blocks: Receiver<Block>,
    give_back: &Sender<Block>,
) -> N::Output {
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
    use std::time::Duration;

    use whered_feeds::Record;

    use super::*;
    use crate::feeds::places::SightingSlot;

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
        type Output = F;

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
                block.sighted.push(Some(SightingSlot { row: placed.len() as u32, ordinal: 1 }));
            });
            let note = By(|block: &mut Block| {
                let row = block.sighted[0].map(|sighted| sighted.row);
                noted.push((block.time_millis(0), row));
            });
            let mut blocks = Vec::new();
            let changed = Changed::default();
            let with = is_parallel.then_some((&mut blocks, &changed));
            assert_eq!(run(with, read(count), place, note).0, count);
            assert!(is_parallel && count > 0 || blocks.is_empty());
            assert!(blocks.len() <= BLOCKS_MAX && blocks.iter().all(Block::is_empty));
            assert_eq!(placed, (0..count).collect::<Vec<_>>());
            let numbers = (0..count).map(|number| (number, Some(number as u32 + 1)));
            assert_eq!(noted, numbers.collect::<Vec<_>>());
        }
    }

    /// How many blocks the reader hands on before it waits for the last step.
    fn most_under_way(changed: &Changed, expected: usize) -> usize {
        let handed_on = AtomicUsize::new(0);
        let (go_on, may_go_on) = mpsc::channel();
        let reads = |hand_on: &mut HandOn<'_>| {
            read(2 * BLOCKS_MAX as i64)(&mut |block| {
                handed_on.fetch_add(1, Ordering::Relaxed);
                hand_on(block);
            })
        };
        let note = By(move |_: &mut Block| may_go_on.recv().expect("it is told"));
        thread::scope(|scope| {
            let run = scope.spawn(move || {
                let mut blocks = Vec::new();
                let place = By(|_: &mut Block| {});
                let (read, ..) = run(Some((&mut blocks, changed)), reads, place, note);
                assert!(!blocks.is_empty(), "blocks are given back");
                read
            });
            while handed_on.load(Ordering::Relaxed) < expected {
                thread::yield_now();
            }
            thread::park_timeout(Duration::from_millis(20));
            let most = handed_on.load(Ordering::Relaxed);
            (0..2 * BLOCKS_MAX).for_each(|_| go_on.send(()).expect("it waits"));
            assert_eq!(run.join().expect("it ends"), 2 * BLOCKS_MAX as i64);
            most
        })
    }

    #[test]
    fn reading_waits_while_enough_blocks_are_under_way() {
        let by_blocks = |places: &[usize], rows: &[usize]| {
            let changed = Changed::default();
            places.iter().for_each(|count| changed.note_places(*count));
            rows.iter().for_each(|count| changed.note_rows(*count));
            changed
        };
        let cases = [
            // Known places and rows only.
            (by_blocks(&[900, 900], &[900, 900]), BLOCKS_MAX),
            // Half of what may be changed, by new ones only.
            (by_blocks(&[99_000, 100_000], &[900, 900]), 100 + BLOCKS_BEYOND),
            (by_blocks(&[900, 900], &[396_000, 398_000]), 1 + BLOCKS_BEYOND),
            (by_blocks(&[PLACES_MAX], &[]), BLOCKS_BEYOND),
        ];
        for (changed, most) in cases {
            assert_eq!(most_under_way(&changed, most), most, "{changed:?}");
        }
    }

    #[test]
    fn a_panic_of_any_step_comes_out() {
        for step in 0..3 {
            let fails = move |now: i32| assert!(now != step, "step {step}");
            // More than can be under way: the reader waits for blocks when a step has panicked.
            let reads = move |hand_on: &mut HandOn<'_>| {
                let count = read(3 * BLOCKS_MAX as i64)(hand_on);
                fails(0);
                count
            };
            let place = By(move |_: &mut Block| fails(1));
            let note = By(move |_: &mut Block| fails(2));
            catch_unwind(AssertUnwindSafe(|| {
                run(Some((&mut Vec::new(), &Changed::default())), reads, place, note).0
            }))
            .unwrap_err();
        }
    }
}
