//! One sender of uploads: what it has sent, what it was told, and what must be there afterwards.
//!
//! Not for the ways in (`doors.rs`).
//!
//! ```text
//! new ─> sent ─┬─ acknowledged ───────────> must be applied, once
//!              ├─ no answer, with a key ──> sent again until it is acknowledged, applied once
//!              └─ no answer, no key ──────> applied once or not at all
//! ```

use super::twin::{Rows, Twin, Upload};
use crate::Random;

/// An upload that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) upload: Upload,
    pub(super) has_key: bool,
    pub(super) acknowledged: bool,
    /// The twin has it.
    is_applied: bool,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Lane {
    name: String,
    pub(super) random: Random,
    next: u64,
    pub(super) sent: Vec<Sent>,
    /// Places in `sent` of those that are to be sent again.
    pub(super) again: Vec<usize>,
}

impl Lane {
    pub(super) fn new(name: String, random: Random) -> Lane {
        Lane { name, random, next: 0, sent: Vec::new(), again: Vec::new() }
    }

    /// An upload to send: one that has no answer yet, or a new one. Gives its place.
    pub(super) fn next(&mut self) -> usize {
        if let Some(place) = self.again.pop() {
            return place;
        }
        let upload = Upload::new(&self.name, self.next, &mut self.random);
        self.next += 1;
        let has_key = self.random.chance(0.8);
        self.sent.push(Sent { upload, has_key, acknowledged: false, is_applied: false });
        self.sent.len() - 1
    }

    /// Has the uploads without an answer sent again that may be.
    pub(super) fn retry(&mut self) {
        let open = self.sent.iter().enumerate();
        let open = open.filter(|(_, sent)| sent.has_key && !sent.acknowledged);
        self.again = open.map(|(place, _)| place).rev().collect();
    }

    /// Looks whether what was acknowledged is there, and has the twin apply what is.
    ///
    /// # Errors
    ///
    /// An acknowledged upload is missing.
    pub(super) fn settle(
        &mut self,
        found: &Rows,
        twin: &mut Twin,
        must_keep: bool,
    ) -> Result<(), String> {
        for sent in &mut self.sent {
            if sent.is_applied {
                continue;
            }
            let is_there = found.contains_key(&sent.upload.mark);
            if is_there {
                twin.apply(&sent.upload);
                sent.is_applied = true;
            } else if sent.acknowledged && must_keep {
                return Err(format!(
                    "the upload {} was acknowledged and is lost",
                    sent.upload.mark
                ));
            }
        }
        // What is left may still be sent again; the rest is history.
        self.sent.retain(|sent| sent.has_key && !sent.acknowledged);
        self.retry();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(count: usize) -> Lane {
        let mut lane = Lane::new("l".to_owned(), Random::new(5));
        for _ in 0..count {
            lane.next();
        }
        lane
    }

    #[test]
    fn a_lost_acknowledged_upload_is_found_out() {
        let mut lane = lane(3);
        lane.sent[1].acknowledged = true;
        let mut twin = Twin::default();
        lane.settle(&Rows::new(), &mut twin, false).expect("nothing is promised");
        let mut lane = self::lane(3);
        lane.sent[1].acknowledged = true;
        let error = lane.settle(&Rows::new(), &mut twin, true).expect_err("it was promised");
        assert!(error.contains("l-1"), "{error}");
    }

    #[test]
    fn an_upload_with_a_key_is_sent_again_and_counted_once() {
        let mut lane = lane(1);
        lane.sent[0].has_key = true;
        let mut twin = Twin::default();
        let found = Rows::from([("l-0".to_owned(), (1, 1, 1))]);
        lane.settle(&found, &mut twin, true).expect("it is there");
        let rows = twin.rows.clone();
        let place = lane.next();
        assert_eq!(lane.sent[place].upload.mark, "l-0");
        lane.sent[place].acknowledged = true;
        lane.settle(&found, &mut twin, true).expect("it is there");
        assert_eq!(twin.rows, rows);
        assert!(lane.sent.is_empty());
    }
}
