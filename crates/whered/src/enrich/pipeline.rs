//! The threads: one reads blocks, several work on them, the caller's writes them in their order.
//!
//! Not for what is done to a block. Memory is bounded: the number of blocks is
//! fixed, and each is used over and over.
//!
//! ```text
//!        ┌────────────────────── free ◄──────────────────────┐
//!        ▼                                                   │
//!   reader ── block n ──► workers (any order) ── done ──► writer: block n after block n - 1
//! ```
//!
//! A failure is a block as well: it reaches the writer in its place, so that everything before it
//! is written. When the writer stops, its channels close, and every thread ends at its next block.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::additions::Additions;
use super::detect::Layout;
use super::input::Input;
use super::output::{Output, Packing};
use super::progress::Progress;
use super::work::{Counts, Plan, Worker};
use crate::outcome::Failure;

/// How many bytes of input a block has, unless one record is longer.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// From how many bytes of input on an index of each database is worth its building: a second of
/// one core. What is known to be this long gets it at once, everything else when it has shown to.
pub(crate) const INDEX_INPUT_BYTES: u64 = 128 << 20;

/// A piece of input and what became of it.
struct Block {
    number: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    outcome: Result<Counts, String>,
}

impl Block {
    fn new() -> Block {
        let outcome = Ok(Counts::default());
        Block { number: 0, input: Vec::new(), output: Vec::new(), outcome }
    }
}

/// Everything that a run needs beside its input and output.
pub(crate) struct Job<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) packing: Packing,
    pub(crate) threads: usize,
    /// The size of all inputs, where they are files.
    pub(crate) total_bytes: Option<u64>,
}

impl Job<'_> {
    /// Runs everything to its end; gives what became of all records.
    ///
    /// # Errors
    /// The first failure in the order of the input.
    pub(crate) fn run(&self, mut input: Input, output: &mut Output) -> Result<Counts, Failure> {
        let read_bytes = input.progress();
        let (free_sender, free) = channel::<Block>();
        let (work_sender, work) = channel::<Block>();
        let (done_sender, done) = channel::<Block>();
        for _ in 0..2 * self.threads + 2 {
            // The receiver is alive, in this very function.
            let _ = free_sender.send(Block::new());
        }
        let work = Arc::new(Mutex::new(work));
        thread::scope(|scope| {
            let failed = done_sender.clone();
            let (index_sender, index_wanted) = channel::<()>();
            if self.total_bytes.is_some_and(|total_bytes| total_bytes >= INDEX_INPUT_BYTES) {
                // The receiver is alive, on the next lines.
                let _ = index_sender.send(());
            }
            // Not one of the scope's: nobody waits for an index that comes too late.
            let additions = self.plan.additions.clone();
            thread::spawn(move || {
                if index_wanted.recv().is_ok() {
                    Additions::build_indexes(&additions);
                }
            });
            let work_queue = Queue { work: work_sender, failed, index_wanted: index_sender };
            scope.spawn(move || read(&mut input, self.layout, &free, &work_queue));
            for _ in 0..self.threads {
                let (work, done) = (work.clone(), done_sender.clone());
                let worker = Worker::new(self.plan.clone());
                scope.spawn(move || work_on(worker, self.packing, &work, &done));
            }
            drop(done_sender);
            let progress = Progress::new(self.total_bytes);
            // Both ends are dropped when the writer is done, so that the others end too.
            let (done, free) = (done, free_sender);
            write(&done, &free, output, &progress, &read_bytes)
        })
    }
}

/// Where the reader sends what it has.
struct Queue {
    work: Sender<Block>,
    failed: Sender<Block>,
    index_wanted: Sender<()>,
}

fn read(input: &mut Input, layout: &Layout, free: &Receiver<Block>, queue: &Queue) {
    let mut total_bytes = 0;
    for number in 0.. {
        let Ok(mut block) = free.recv() else { return };
        block.number = number;
        let sent = match input.next_block(layout, BLOCK_BYTES, &mut block.input) {
            Ok(true) => {
                let is_long = |total_bytes| total_bytes >= INDEX_INPUT_BYTES;
                let before = total_bytes;
                total_bytes += block.input.len() as u64;
                if is_long(total_bytes) && !is_long(before) {
                    // Who builds has begun already, or has ended.
                    let _ = queue.index_wanted.send(());
                }
                queue.work.send(block)
            }
            Ok(false) => return,
            Err(message) => {
                block.outcome = Err(message);
                // This is the last one either way.
                let _ = queue.failed.send(block);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn work_on(
    mut worker: Worker,
    packing: Packing,
    work: &Mutex<Receiver<Block>>,
    done: &Sender<Block>,
) {
    loop {
        let received = match work.lock() {
            Ok(work) => work.recv(),
            Err(_) => return,
        };
        let Ok(mut block) = received else { return };
        block.output.clear();
        block.outcome = worker.run(&block.input, &mut block.output);
        if let Err(message) = packing.pack(&mut block.output) {
            block.outcome = Err(message);
        }
        if done.send(block).is_err() {
            return;
        }
    }
}

fn write(
    done: &Receiver<Block>,
    free: &Sender<Block>,
    output: &mut Output,
    progress: &Progress,
    read_bytes: &AtomicU64,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    while let Ok(block) = done.recv() {
        waiting.insert(block.number, block);
        while let Some(mut block) = waiting.remove(&next) {
            match std::mem::replace(&mut block.outcome, Ok(Counts::default())) {
                Ok(of_block) => counts.add(&of_block),
                Err(message) => return Err(Failure::Message(message)),
            }
            output.write(&block.output)?;
            progress.set(read_bytes.load(Ordering::Relaxed), counts.total());
            next += 1;
            // The reader may have ended.
            let _ = free.send(block);
        }
    }
    Ok(counts)
}
