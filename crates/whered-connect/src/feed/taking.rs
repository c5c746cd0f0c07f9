//! A feed that takes a stream's uploads.
//!
//! Not for: reading the stream. Invariant: an upload's position is in the spool's entry of the
//! upload.

use std::sync::Arc;

use whered_engine::feeds::{Encoding, Feed, PushError, SpoolTicket, Upload};

use crate::streams::{Intake, Refusal};

/// A feed, as its streams see it.
pub struct FeedIntake(Arc<Feed>);

impl FeedIntake {
    /// That feed.
    pub fn new(feed: &Arc<Feed>) -> FeedIntake {
        FeedIntake(Arc::clone(feed))
    }
}

impl Intake for FeedIntake {
    type Ticket = SpoolTicket;

    fn position(&self, source: &str) -> Option<Vec<u8>> {
        self.0.source_position(source)
    }

    fn push(&self, source: &str, position: &[u8], bytes: &[u8]) -> Result<SpoolTicket, Refusal> {
        let encoding = match bytes {
            [0x1f, 0x8b, ..] => Encoding::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Encoding::Zstd,
            _ => Encoding::Identity,
        };
        let source = Some((source, position));
        let pushed = self.0.push(Upload { bytes, encoding, source, ..Upload::default() });
        pushed.map(|pushed| pushed.ticket).map_err(|error| match error {
            PushError::Full { retry_after, .. } => Refusal::Full(retry_after),
            PushError::Failed(why) => Refusal::Failed(why),
            PushError::TooLarge { .. } | PushError::Invalid(_) => Refusal::Never(error.to_string()),
        })
    }

    fn wait(&self, ticket: SpoolTicket) -> Result<(), String> {
        // The position goes on only behind what is on the disk, whatever the spool's policy is.
        self.0.wait_on_disk(ticket).map_err(|error| error.to_string())
    }
}
