//! Work on items by several threads, written by the caller's thread in the order of reading.
//!
//! Not for what items are. One thread reads, `threads` work, the caller writes. Memory is bounded:
//! at most `2 * threads + 2` items have been read and not written yet. The first failure in the
//! order of the input ends the run after everything before it is written.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use crate::outcome::Failure;

/// Runs everything to its end. `read` gives nothing at the end of the input; `worker` makes what
/// each thread works with.
///
/// # Errors
/// The first failure in the order of the input.
pub(crate) fn run<Item, Piece, Work>(
    threads: usize,
    mut read: impl FnMut() -> Result<Option<Item>, String> + Send,
    worker: impl Fn() -> Work,
    mut write: impl FnMut(Piece) -> Result<(), Failure>,
) -> Result<(), Failure>
where
    Item: Send,
    Piece: Send,
    Work: FnMut(Item) -> Result<Piece, String> + Send,
{
    let (free_sender, free) = channel::<()>();
    let (work_sender, work) = channel::<(u64, Item)>();
    let (done_sender, done) = channel::<(u64, Result<Piece, String>)>();
    for _ in 0..2 * threads + 2 {
        // The receiver is alive, in this very function.
        let _ = free_sender.send(());
    }
    let work = Mutex::new(work);
    thread::scope(|scope| {
        let failed = done_sender.clone();
        scope.spawn(move || {
            for number in 0.. {
                if free.recv().is_err() {
                    return;
                }
                match read() {
                    Ok(Some(item)) => {
                        if work_sender.send((number, item)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(message) => {
                        // This is the last one either way.
                        let _ = failed.send((number, Err(message)));
                        return;
                    }
                }
            }
        });
        for _ in 0..threads {
            let (work, done, mut work_on) = (&work, done_sender.clone(), worker());
            scope.spawn(move || {
                loop {
                    let received = match work.lock() {
                        Ok(work) => work.recv(),
                        Err(_) => return,
                    };
                    let Ok((number, item)) = received else { return };
                    if done.send((number, work_on(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done_sender);
        // Both ends are dropped when the writer is done, so that the others end too.
        let (done, free_sender) = (done, free_sender);
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        while let Ok((number, outcome)) = done.recv() {
            waiting.insert(number, outcome);
            while let Some(outcome) = waiting.remove(&next) {
                write(outcome.map_err(Failure::Message)?)?;
                next += 1;
                // The reader may have ended.
                let _ = free_sender.send(());
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(count: u64, failing: Option<u64>) -> (Vec<u64>, Result<(), Failure>) {
        let (mut next, mut written) = (0, Vec::new());
        let read = || {
            next += 1;
            Ok(Some(next - 1).filter(|number| *number < count))
        };
        let worker = || {
            move |number: u64| {
                if Some(number) == failing {
                    Err("it fails".to_owned())
                } else {
                    Ok(number * number)
                }
            }
        };
        let outcome = run(3, read, worker, |square| {
            written.push(square);
            Ok(())
        });
        (written, outcome)
    }

    #[test]
    fn items_are_written_in_the_order_of_reading_up_to_the_first_failure() {
        let (written, outcome) = squares(1000, None);
        assert!(outcome.is_ok());
        assert_eq!(written, (0..1000).map(|number| number * number).collect::<Vec<u64>>());
        let (written, outcome) = squares(1000, Some(500));
        assert!(matches!(outcome, Err(Failure::Message(message)) if message == "it fails"));
        assert_eq!(written.len(), 500);
    }
}
