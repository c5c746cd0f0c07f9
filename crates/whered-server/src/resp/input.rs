//! What a connection has received and not used up.
//!
//! ```text
//! bytes:  ░░░░░░░│*3..$6..GEOADD..│.......room.......│      ░ used up
//!              start             end
//! ```
//!
//! Invariant: it grows with what has arrived, never with what was announced. What lies behind
//! `end` is initialised room.

/// What one time slice reads at least, when there is so much.
const READ_BYTES: usize = 16 * 1024;
/// The most that one time slice reads.
const READ_LIMIT_BYTES: usize = 1024 * 1024;

/// Bytes received and not used up: `bytes[start..end]`.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// What is there.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How much that is.
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Notes that `count` bytes of the buffer were filled.
    pub(super) fn received(&mut self, count: usize) {
        self.end += count;
    }

    /// Notes that `count` bytes were used up.
    pub(super) fn used(&mut self, count: usize) {
        self.start += count;
    }

    /// Gives its memory back, when it holds nothing.
    pub(super) fn shrink(&mut self) {
        if self.len() == 0 {
            *self = Input::default();
        }
    }

    /// Room for one read. It grows with what has arrived, never with what was announced.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        let wanted = self.len().clamp(READ_BYTES, READ_LIMIT_BYTES);
        if self.bytes.len() - self.end < READ_BYTES {
            self.bytes.resize(self.end + wanted, 0);
        }
        let end = self.bytes.len().min(self.end + READ_LIMIT_BYTES);
        &mut self.bytes[self.end..end]
    }

    /// Drops what is used up, once it is more than what is left.
    pub(super) fn tidy(&mut self) {
        let left = self.len();
        if left == 0 {
            if self.bytes.len() > super::connection::KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.start > left {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            return;
        }
        self.start = 0;
        self.end = left;
    }
}
