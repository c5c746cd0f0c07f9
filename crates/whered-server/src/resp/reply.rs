//! Replies: values → bytes of RESP2 or RESP3, appended to one buffer.
//!
//! For: every form of reply that the commands give.
//! Not for: sending (`connection`), what is in a reply (`commands`), the digits of numbers
//! (`decimal`).
//!
//! ```text
//! RESP2: +OK  -ERR x  :7  $3 abc  $-1       *-1         *2 ..  (map: *2n)  $2 7.5
//! RESP3: +OK  -ERR x  :7  $3 abc  _         _           *2 ..  %n ..       ,7.5     =7 txt:...
//! ```
//!
//! Cost: a copy of the bytes; numbers are printed without allocation.

use std::borrow::Cow;
use std::io::IoSlice;

use whered_engine::feeds::SpoolTicket;
use whered_engine::{Ticket, WriteError};

use super::decimal::{self, Decimal, ten_thousandths};
use super::double;

/// A kind, twenty digits and the line's end.
const MOST_HEADER_BYTES: usize = 23;

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// What every client speaks at first.
    Resp2,
    /// What `HELLO 3` asks for.
    Resp3,
}

/// An error reply: its text begins with a code such as `ERR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, [u8]>);

impl Failure {
    /// A text known beforehand.
    pub(crate) const fn text(text: &'static str) -> Failure {
        Failure(Cow::Borrowed(text.as_bytes()))
    }

    /// A text with a client's words in it.
    pub(crate) fn made(text: impl Into<Vec<u8>>) -> Failure {
        Failure(Cow::Owned(text.into()))
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        Failure::made(match &error {
            WriteError::WrongKind => format!("WRONGTYPE {error}"),
            WriteError::Followed => {
                "READONLY You can't write against a read only replica.".to_owned()
            }
            WriteError::Full(_) | WriteError::Poisoned(_) => {
                format!("MISCONF {error}; writes are refused, reads go on")
            }
            _ => format!("ERR {error}"),
        })
    }
}

/// How much room is made at once for the rest of a reply.
const RESERVED_BYTES: usize = 512 * 1024;

/// The rest of a reply that is too long to be written at once: its connection asks for the next
/// part when the client has taken the last one.
pub(crate) trait Rest: Send {
    /// Appends at least one byte and about `wanted_bytes`, unless nothing is left.
    fn append(&mut self, out: &mut Vec<u8>, wanted_bytes: usize);

    /// Whether the rest lies in memory as it is to be sent.
    fn has_pieces(&self) -> bool;

    /// Adds the next pieces as they lie in memory, about `wanted_bytes` of them and at most
    /// `most_pieces`. Only for a rest that has pieces.
    fn pieces<'a>(&'a self, pieces: &mut Vec<IoSlice<'a>>, wanted_bytes: usize, most_pieces: usize);

    /// Notes that `bytes` of the pieces were sent.
    fn sent(&mut self, bytes: usize);

    /// Whether nothing is left.
    fn is_finished(&self) -> bool;

    /// The memory that it takes until then.
    fn size_bytes(&self) -> usize;
}

impl Failure {
    /// The first word, which programs go by.
    pub(crate) fn code(&self) -> &[u8] {
        self.0.split(|byte| *byte == b' ').next().unwrap_or_default()
    }

    /// What may stand in a log: the text, or its first word where a client's words are in it.
    pub(crate) fn loggable(&self) -> &[u8] {
        match &self.0 {
            Cow::Borrowed(text) => text,
            Cow::Owned(_) => self.code(),
        }
    }

    /// The failure with a text in front; its own error code is left out.
    pub(crate) fn prefixed(&self, words: &str) -> Failure {
        let text = self.0.strip_prefix(b"ERR ").unwrap_or(&self.0);
        Failure::made([words.as_bytes(), text].concat())
    }
}

/// The write that a reply waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AwaitedWrite {
    /// In the engine's journal.
    Journal(Ticket),
    /// In the spool of the feed with this number.
    Spool(usize, SpoolTicket),
}

impl AwaitedWrite {
    /// Nothing.
    pub(crate) const NOTHING: AwaitedWrite = AwaitedWrite::Journal(Ticket::NONE);
}

/// The replies of one connection that have not been sent, and how they are written.
pub(crate) struct Reply {
    /// The bytes.
    pub(crate) out: Vec<u8>,
    /// What follows the bytes. No command is executed before it is finished.
    pub(crate) rest: Option<Box<dyn Rest>>,
    /// How they are written.
    pub(crate) protocol: Protocol,
    awaited: AwaitedWrite,
    is_notice: bool,
}

impl Reply {
    /// No replies yet, in RESP2.
    pub(crate) fn new() -> Reply {
        let (awaited, protocol) = (AwaitedWrite::NOTHING, Protocol::Resp2);
        Reply { out: Vec::new(), rest: None, protocol, awaited, is_notice: false }
    }

    /// A part of this reply that is written before it is known where it stands.
    pub(crate) fn beside(&self) -> Reply {
        Reply { protocol: self.protocol, ..Reply::new() }
    }

    /// Appends parts of the rest until the output has `wanted_len` bytes or nothing is left.
    pub(crate) fn refill(&mut self, wanted_len: usize) {
        if self.rest.is_some() {
            self.out.reserve(wanted_len.saturating_sub(self.out.len()).min(RESERVED_BYTES));
        }
        while self.out.len() < wanted_len
            && let Some(rest) = &mut self.rest
        {
            let wanted_bytes = wanted_len - self.out.len();
            rest.append(&mut self.out, wanted_bytes);
            if rest.is_finished() {
                self.rest = None;
            }
        }
    }

    /// Notes that `bytes` of the rest's pieces were sent.
    pub(crate) fn rest_sent(&mut self, bytes: usize) {
        if let Some(rest) = &mut self.rest {
            rest.sent(bytes);
            if rest.is_finished() {
                self.rest = None;
            }
        }
    }

    /// The memory that the replies and what is left of them take.
    pub(crate) fn size_bytes(&self) -> usize {
        self.out.capacity() + self.rest.as_ref().map_or(0, |rest| rest.size_bytes())
    }

    /// The reply of the present command must wait for this write.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        if let AwaitedWrite::Journal(other) = &mut self.awaited {
            *other = ticket.max(*other);
        }
    }

    /// The reply of the present command must wait for a feed's spool, and for nothing else: such a
    /// command is no part of a transaction.
    pub(crate) fn hold_spool(&mut self, feed: usize, ticket: SpoolTicket) {
        self.awaited = AwaitedWrite::Spool(feed, ticket);
    }

    /// What the present command's reply has to wait for; asked once a command.
    pub(crate) fn take_awaited(&mut self) -> AwaitedWrite {
        std::mem::replace(&mut self.awaited, AwaitedWrite::NOTHING)
    }

    /// What the present command writes is a notice about channels: a client that wants no replies
    /// gets it all the same.
    pub(crate) fn set_notice(&mut self) {
        self.is_notice = true;
    }

    /// Whether the present command's reply is such a notice; asked once a command.
    pub(crate) fn take_notice(&mut self) -> bool {
        std::mem::take(&mut self.is_notice)
    }

    /// `+OK`.
    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A word of our own.
    pub(crate) fn simple(&mut self, word: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(word.as_bytes());
        self.end_line();
    }

    /// An error; line breaks and what follows a zero byte cannot be part of it.
    pub(crate) fn error(&mut self, failure: &Failure) {
        append_error(&mut self.out, &failure.0);
    }

    /// An integer.
    pub(crate) fn integer(&mut self, value: i64) {
        self.out.push(b':');
        if value < 0 {
            self.out.push(b'-');
        }
        append_digits(&mut self.out, value.unsigned_abs());
        self.end_line();
    }

    /// A count of things.
    pub(crate) fn count(&mut self, value: usize) {
        self.header(b':', value);
    }

    /// A string of bytes.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + MOST_HEADER_BYTES + 2);
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end_line();
    }

    /// No string.
    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array.
    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The beginning of an array; its elements follow.
    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The beginning of a set.
    pub(crate) fn set(&mut self, len: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len);
    }

    /// The beginning of a map; as many keys with their values follow.
    pub(crate) fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * len),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// The beginning of a message that answers no request, or answers it out of turn.
    pub(crate) fn push(&mut self, len: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, len);
    }

    /// A message that was encoded beforehand, without its first byte.
    pub(crate) fn pushed(&mut self, message: &[u8]) {
        self.out.push(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' });
        self.out.extend_from_slice(message);
    }

    /// A text for people.
    pub(crate) fn verbatim(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    /// A sorted set's score; the scores of points are whole numbers below 2^54.
    pub(crate) fn score(&mut self, value: u64) {
        self.number(Decimal::integer(value).as_bytes());
    }

    /// Any score of a sorted set.
    pub(crate) fn double(&mut self, value: f64) {
        // Cells, and most other scores, need no text to be made.
        if (0.0..1e17).contains(&value) && value.trunc() == value && value.is_sign_positive() {
            return self.score(value as u64);
        }
        self.number(double::print(value).as_bytes());
    }

    /// A longitude or latitude: up to 17 decimals without trailing zeros.
    pub(crate) fn coordinate(&mut self, degrees: f64) {
        let decimal = Decimal::coordinate(degrees);
        match self.protocol {
            Protocol::Resp2 => decimal.append_bulk(&mut self.out),
            Protocol::Resp3 => self.number(decimal.as_bytes()),
        }
    }

    /// A distance: a string with four decimals in both protocols.
    pub(crate) fn distance(&mut self, value: f64) {
        Decimal::distance(value).append_bulk(&mut self.out);
    }

    /// A distance that is known to be at least and at most so much; `exact` is asked where these
    /// are not printed alike.
    pub(crate) fn distance_within(&mut self, least: f64, most: f64, exact: impl FnOnce() -> f64) {
        let scaled = ten_thousandths(least);
        if scaled == ten_thousandths(most) {
            Decimal::ten_thousandths(scaled).append_bulk(&mut self.out);
        } else {
            self.distance(exact());
        }
    }

    fn number(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    fn header(&mut self, kind: u8, len: usize) {
        // Nearly all are short, and one copy is quicker than three.
        if len < 10 {
            return self.out.extend_from_slice(&[kind, b'0' + len as u8, b'\r', b'\n']);
        }
        self.out.push(kind);
        append_digits(&mut self.out, len as u64);
        self.end_line();
    }

    fn end_line(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends an error line.
pub(crate) fn append_error(out: &mut Vec<u8>, text: &[u8]) {
    let text = super::number::until_zero(text);
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text.iter().rposition(|byte| !is_break(byte)).map_or(0, |last| last + 1);
    let start = text[..end].iter().take_while(|byte| is_break(byte)).count();
    out.push(b'-');
    out.extend(text[start..end].iter().map(|byte| if is_break(byte) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// Appends the decimal digits of a number.
fn append_digits(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
    } else if value < 100 {
        out.extend_from_slice(decimal::pair(value));
    } else {
        out.extend_from_slice(Decimal::integer(value).as_bytes());
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
