//! Commands made beforehand, that a connection sends over and over.
//!
//! Not for making them (`classes.rs`) or sending them (`driver.rs`). What replies must look like is
//! found out once from each server, and kept as lengths: while measuring, a driver that only counts
//! bytes costs next to nothing.
//!
//! ```text
//! bytes    | command 0 | command 1 | ...      ends     [end of 0, end of 1, ...]
//! Replies  lengths [bytes of 0, of 1, ...]    marks    [first byte of 0, of 1, ...]
//! ```

use super::resp::{push_command, read_reply};
use super::server::Wire;

/// How many commands are asked at once while replies are read in full.
const CHUNK: usize = 64;

/// A ring of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Script {
    /// Adds a command.
    pub fn push(&mut self, words: &[&[u8]]) {
        push_command(&mut self.bytes, words);
        self.ends.push(self.bytes.len());
    }

    /// How many commands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all commands.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The place in [`bytes`](Script::bytes) where a command begins.
    pub(super) fn start(&self, command: usize) -> usize {
        if command == 0 { 0 } else { self.ends[command - 1] }
    }

    /// All commands, one behind the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Lets the commands come again until their number can be cut into batches of this size.
    #[must_use]
    pub fn in_batches(self, pipeline: usize) -> Script {
        let mut longer = Script::default();
        let rest = self.len() % pipeline.max(1);
        let times = if rest == 0 { 1 } else { pipeline / greatest_divisor(self.len(), pipeline) };
        for _ in 0..times {
            let offset = longer.bytes.len();
            longer.bytes.extend_from_slice(&self.bytes);
            longer.ends.extend(self.ends.iter().map(|end| end + offset));
        }
        longer
    }

    /// Asks a server everything once and reads the replies in full.
    ///
    /// # Errors
    ///
    /// The connection fails, or a reply is an error; one line.
    pub fn ask(&self, wire: &mut Wire) -> Result<Replies, String> {
        let mut replies = Replies::default();
        for from in (0..self.len()).step_by(CHUNK) {
            let upto = (from + CHUNK).min(self.len());
            wire.send(&self.bytes[self.start(from)..self.start(upto)])?;
            for command in from..upto {
                let reply = wire.receive(|bytes| {
                    let Some(reply) = read_reply(bytes)? else { return Ok(None) };
                    if reply.mark == b'-' {
                        let text = String::from_utf8_lossy(&bytes[1..reply.size_bytes]);
                        return Err(format!("command {command}: {}", text.trim_end()));
                    }
                    Ok(Some((reply, reply.size_bytes)))
                })?;
                replies.lengths.push(reply.size_bytes as u32);
                replies.marks.push(reply.mark);
                replies.elements += reply.elements;
                replies.digest = replies.digest.rotate_left(1) ^ reply.digest;
                replies.set_digest = replies.set_digest.rotate_left(1) ^ reply.set_digest;
            }
        }
        Ok(replies)
    }
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// What a server answers to a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replies {
    /// Bytes of each reply.
    pub lengths: Vec<u32>,
    /// First byte of each reply.
    pub marks: Vec<u8>,
    /// Elements of all replies.
    pub elements: u64,
    /// A number made of all replies' bytes.
    pub digest: u64,
    /// A number made of all replies' elements, in whatever order each reply has them.
    pub set_digest: u64,
}

impl Replies {
    /// One simple reply, repeated.
    #[must_use]
    pub fn constant(reply: &[u8], count: usize) -> Replies {
        Replies {
            lengths: vec![reply.len() as u32; count],
            marks: vec![reply.first().copied().unwrap_or_default(); count],
            elements: count as u64,
            digest: 0,
            set_digest: 0,
        }
    }
}

/// How alike two servers' replies are, the most alike first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Every byte.
    Bytes,
    /// Equal elements, some in another order.
    Elements,
    /// As many elements, but others.
    Counts,
    /// Another number of elements.
    Nothing,
}

impl Likeness {
    /// Compares what two servers answered to the same script.
    #[must_use]
    pub fn of(one: &Replies, other: &Replies) -> Likeness {
        if one.digest == other.digest && one.lengths == other.lengths {
            Likeness::Bytes
        } else if one.set_digest == other.set_digest {
            Likeness::Elements
        } else if one.elements == other.elements {
            Likeness::Counts
        } else {
            Likeness::Nothing
        }
    }

    /// As a record states it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Likeness::Bytes => "same bytes",
            Likeness::Elements => "same elements",
            Likeness::Counts => "same counts only",
            Likeness::Nothing => "DIFFERS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(count: usize) -> Script {
        let mut script = Script::default();
        (0..count).for_each(|number| script.push(&[b"ECHO", number.to_string().as_bytes()]));
        script
    }

    #[test]
    fn a_script_is_cut_into_whole_batches() {
        for (count, pipeline, expected) in
            [(3, 16, 48), (6, 4, 12), (8, 4, 8), (1, 1, 1), (5, 1, 5)]
        {
            let longer = script(count).in_batches(pipeline);
            assert_eq!(longer.len(), expected, "{count} in batches of {pipeline}");
            let start = longer.start(longer.len() - 1);
            let last = format!("ECHO\r\n$1\r\n{}\r\n", count - 1);
            assert!(longer.bytes()[start..].ends_with(last.as_bytes()));
        }
    }

    #[test]
    fn likeness_is_as_close_as_it_can_be() {
        let one = Replies { elements: 2, digest: 1, set_digest: 5, ..Replies::default() };
        let like = |other: Replies| Likeness::of(&one, &other);
        assert_eq!(like(one.clone()), Likeness::Bytes);
        assert_eq!(like(Replies { digest: 2, ..one.clone() }), Likeness::Elements);
        assert_eq!(like(Replies { digest: 2, set_digest: 6, ..one.clone() }), Likeness::Counts);
        let fewer = Replies { digest: 2, set_digest: 6, elements: 1, ..Replies::default() };
        assert_eq!(like(fewer), Likeness::Nothing);
    }
}
