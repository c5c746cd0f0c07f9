//! Requests: bytes of a connection → arguments.
//!
//! For: RESP2 multibulk requests and inline requests with quotes, with the limits and the error
//! texts of Redis 7.0.15.
//! Not for: replies (`reply`), what a command means (`commands`).
//!
//! ```text
//! input:  *2\r\n$4\r\nPING\r\n$5\r\nhello\r\n*1\r\n...
//!                    ╰──╯         ╰───╯
//! spans:            (8,12)      (18,23)          offsets from the request's first byte
//! ```
//!
//! The arguments of a multibulk request are never copied: a span points into the input. Those of
//! an inline request are copied once, because quotes and escapes must go.
//!
//! Of a pipeline, whole requests of the most common form are found ahead of time ([`Lookahead`]),
//! so that what they will read can be fetched for all of them together, and moves be made together.
//!
//! Invariants:
//! - what was parsed is not parsed again: when the input ends within a request, the state keeps
//!   the place, so a request that arrives byte by byte costs no more than one that comes whole;
//! - nothing is allocated for an announced size, only for arguments that have arrived.
//!
//! Like Redis, the parser looks for `\r` and takes the byte after it as `\n` without looking, and
//! a zero byte hides the rest of a line.

use super::{cross_protocol, number};

/// The longest line: an inline request or a count.
const LINE_LIMIT_BYTES: usize = 64 * 1024;
/// The longest argument.
const BULK_LIMIT_BYTES: i64 = 512 * 1024 * 1024;
/// The most arguments of one request.
const COUNT_LIMIT: i64 = i32::MAX as i64;
/// The most arguments and the longest one before a client has given its password.
const UNAUTHENTICATED_COUNT_LIMIT: i64 = 10;
const UNAUTHENTICATED_BULK_LIMIT_BYTES: i64 = 16_384;

/// The most requests that are found ahead of time: as many as there are cache misses under way at
/// once, some times over.
const AHEAD_REQUESTS: usize = 32;

/// Where an argument begins and ends.
pub(crate) type Span = (usize, usize);

/// The arguments of one request; the first is the command's name.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Arguments that were kept elsewhere.
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { bytes, spans }
    }

    /// Whether both are one request, byte for byte, of those found ahead of time, whose bytes alone
    /// say where their arguments are.
    pub(crate) fn is_same(&self, other: Args<'_>) -> bool {
        self.bytes == other.bytes
    }

    /// How many there are, the command's name included.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument of that index.
    ///
    /// # Panics
    /// When there is none: the command table has checked the count.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.spans[index];
        &self.bytes[start..end]
    }

    /// The argument of that index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Whether an argument is this word, in any case.
    #[inline]
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        // Nearly all words differ in their lengths, which is told without a call.
        let argument = self.at(index);
        argument.len() == word.len() && argument.eq_ignore_ascii_case(word.as_bytes())
    }

    /// The arguments from an index on.
    pub(crate) fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans[index.min(self.spans.len())..]
            .iter()
            .map(move |(start, end)| &bytes[*start..*end])
    }

    /// The arguments without the first `count`.
    pub(crate) fn skip(&self, count: usize) -> Args<'a> {
        Args { bytes: self.bytes, spans: &self.spans[count..] }
    }

    /// The first `count` arguments, or all if there are fewer.
    pub(crate) fn first(&self, count: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans[..count.min(self.spans.len())]
            .iter()
            .map(move |(start, end)| &bytes[*start..*end])
    }

    /// The arguments without the last one.
    pub(crate) fn without_last(&self) -> Args<'a> {
        Args { bytes: self.bytes, spans: &self.spans[..self.spans.len() - 1] }
    }
}

/// What the input held.
pub(crate) enum ParseOutcome<'a> {
    /// The request goes on beyond the input.
    Incomplete,
    /// A request without arguments, which has no reply; this many bytes are used up.
    Nothing(usize),
    /// A line of HTTP: nothing behind it may run.
    Http,
    /// A whole request, and how many bytes of the input it used.
    Request(Args<'a>, usize),
}

/// Input that is no request. The connection is closed after the text was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

fn wrong<T>(reason: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError(format!("Protocol error: {reason}")))
}

/// The state between two reads of one connection.
#[derive(Default)]
pub(crate) struct Parser {
    /// How far the present request is parsed, from its first byte.
    position: usize,
    /// Arguments still to come; `None` before the first line is complete.
    missing: Option<usize>,
    /// The length of the argument that is being received.
    bulk: Option<usize>,
    spans: Vec<Span>,
    /// The arguments of an inline request.
    unquoted: Vec<u8>,
    ahead: Lookahead,
}

impl Parser {
    /// Parses one request. The input must begin where the last request ended; after
    /// [`ParseOutcome::Incomplete`] it must begin with the same bytes again.
    ///
    /// # Errors
    /// The text of Redis for input that is no request.
    pub(crate) fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        authenticated: bool,
    ) -> Result<ParseOutcome<'a>, ProtocolError> {
        if self.missing.is_none() {
            if !self.ahead.is_used_up() {
                return Ok(self.ahead.next(input));
            }
            match input.first() {
                None => return Ok(ParseOutcome::Incomplete),
                Some(b'*') => {
                    let Some(used) = self.start(input, authenticated)? else {
                        return Ok(ParseOutcome::Incomplete);
                    };
                    if self.missing.is_none() {
                        return Ok(ParseOutcome::Nothing(used));
                    }
                }
                Some(_) => return self.inline(input),
            }
        }
        while self.missing != Some(0) {
            if !self.argument(input, authenticated)? {
                return Ok(ParseOutcome::Incomplete);
            }
        }
        let used = self.position;
        self.position = 0;
        self.missing = None;
        Ok(ParseOutcome::Request(Args { bytes: input, spans: &self.spans }, used))
    }

    /// Finds the next whole requests, which [`Parser::next`] then gives at once, unless some are
    /// left or a request has begun to be parsed. Says whether it looked.
    pub(crate) fn find_ahead(&mut self, input: &[u8]) -> bool {
        let looks = self.missing.is_none() && self.position == 0 && self.ahead.is_used_up();
        if looks {
            self.ahead.find(input);
        }
        looks
    }

    /// What was found ahead and not given yet; the input must begin where the last request ended.
    pub(crate) fn found_ahead<'a>(
        &'a self,
        input: &'a [u8],
    ) -> impl ExactSizeIterator<Item = Args<'a>> {
        self.ahead.left(input)
    }

    /// Skips `count` of the requests found ahead, and gives how many bytes of the input they used.
    pub(crate) fn skip_ahead(&mut self, count: usize) -> usize {
        self.ahead.skip(count)
    }

    /// Forgets what was found ahead: the input will be given again.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Gives memory back that an unusually long request has left.
    pub(crate) fn shrink(&mut self) {
        if self.missing.is_none() && self.spans.capacity() > 4096 {
            self.spans = Vec::new();
        }
        if self.unquoted.capacity() > 16 * 1024 {
            self.unquoted = Vec::new();
        }
    }

    /// The line `*count`. Gives the bytes used, or `None` when it is incomplete.
    fn start(&mut self, input: &[u8], authenticated: bool) -> Result<Option<usize>, ProtocolError> {
        let Some((line, next)) = line(input, 0) else {
            if input.len() > LINE_LIMIT_BYTES {
                return wrong("too big mbulk count string");
            }
            return Ok(None);
        };
        let count = match number::integer(&line[1..]) {
            Some(count) if count <= COUNT_LIMIT => count,
            _ => return wrong("invalid multibulk length"),
        };
        if count > UNAUTHENTICATED_COUNT_LIMIT && !authenticated {
            return wrong("unauthenticated multibulk length");
        }
        if count > 0 {
            self.spans.clear();
            self.missing = Some(count as usize);
            self.position = next;
        }
        Ok(Some(next))
    }

    /// One argument: the line `$length`, then the bytes. Gives whether it was complete.
    fn argument(&mut self, input: &[u8], authenticated: bool) -> Result<bool, ProtocolError> {
        let length = match self.bulk {
            Some(length) => length,
            None => match self.bulk_length(input, authenticated)? {
                Some(length) => length,
                None => return Ok(false),
            },
        };
        if input.len() - self.position < length + 2 {
            self.bulk = Some(length);
            return Ok(false);
        }
        self.bulk = None;
        self.spans.push((self.position, self.position + length));
        self.position += length + 2;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(true)
    }

    fn bulk_length(
        &mut self,
        input: &[u8],
        authenticated: bool,
    ) -> Result<Option<usize>, ProtocolError> {
        let Some((line, next)) = line(input, self.position) else {
            if input.len() - self.position > LINE_LIMIT_BYTES {
                return wrong("too big bulk count string");
            }
            return Ok(None);
        };
        let found = input[self.position];
        if found != b'$' {
            // The text ends at a zero byte and holds no line break.
            let shown = match found {
                0 => String::new(),
                b'\r' | b'\n' => " '".to_owned(),
                byte => format!("{}'", char::from(byte)),
            };
            return wrong(&format!("expected '$', got '{shown}"));
        }
        let length = match number::integer(&line[1..]) {
            Some(length) if (0..=BULK_LIMIT_BYTES).contains(&length) => length,
            _ => return wrong("invalid bulk length"),
        };
        if length > UNAUTHENTICATED_BULK_LIMIT_BYTES && !authenticated {
            return wrong("unauthenticated bulk length");
        }
        self.position = next;
        Ok(Some(length as usize))
    }

    fn inline<'a>(&'a mut self, input: &'a [u8]) -> Result<ParseOutcome<'a>, ProtocolError> {
        let end = input[self.position..].iter().position(|byte| matches!(byte, b'\n' | 0));
        let Some(end) = end.map(|end| end + self.position).filter(|end| input[*end] == b'\n')
        else {
            if input.len() > LINE_LIMIT_BYTES {
                return wrong("too big inline request");
            }
            // What was searched needs no second search, unless a zero byte ended it.
            self.position = end.map_or(input.len(), |end| end + self.position);
            return Ok(ParseOutcome::Incomplete);
        };
        self.position = 0;
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if cross_protocol::is_http_line(line) {
            return Ok(ParseOutcome::Http);
        }
        self.spans.clear();
        self.unquoted.clear();
        if !split_quoted(line, &mut self.unquoted, &mut self.spans) {
            return wrong("unbalanced quotes in request");
        }
        if self.spans.is_empty() {
            return Ok(ParseOutcome::Nothing(end + 1));
        }
        Ok(ParseOutcome::Request(Args { bytes: &self.unquoted, spans: &self.spans }, end + 1))
    }
}

/// Requests found ahead of time, in the form that client libraries write: short counts and lengths.
/// The first request of another form ends the search, and is left to the parser.
#[derive(Default)]
struct Lookahead {
    /// Offsets from the first byte of their request.
    spans: Vec<Span>,
    requests: Vec<FoundRequest>,
    /// How many of them were given out.
    used: usize,
}

/// One request found ahead.
struct FoundRequest {
    /// The offset of its first byte in the input that was searched.
    start: usize,
    len: usize,
    first_span: usize,
    end_span: usize,
}

impl Lookahead {
    fn is_used_up(&self) -> bool {
        self.used == self.requests.len()
    }

    fn clear(&mut self) {
        self.spans.clear();
        self.requests.clear();
        self.used = 0;
    }

    fn find(&mut self, input: &[u8]) {
        self.clear();
        let mut start = 0;
        while self.requests.len() < AHEAD_REQUESTS {
            let first_span = self.spans.len();
            let Some(len) = parse_fast_path(&input[start..], &mut self.spans) else {
                self.spans.truncate(first_span);
                return;
            };
            self.requests.push(FoundRequest { start, len, first_span, end_span: self.spans.len() });
            start += len;
        }
    }

    fn left<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = Args<'a>> {
        let left = &self.requests[self.used..];
        let begin = left.first().map_or(0, |found| found.start);
        left.iter().map(move |found| Args {
            bytes: &input[found.start - begin..found.start - begin + found.len],
            spans: &self.spans[found.first_span..found.end_span],
        })
    }

    /// Gives `count` of them out at once, and how long they are together.
    fn skip(&mut self, count: usize) -> usize {
        let skipped = &self.requests[self.used..][..count];
        self.used += count;
        skipped.iter().map(|found| found.len).sum()
    }

    /// The next one; there is one.
    fn next<'a>(&'a mut self, input: &'a [u8]) -> ParseOutcome<'a> {
        let found = &self.requests[self.used];
        self.used += 1;
        let spans = &self.spans[found.first_span..found.end_span];
        ParseOutcome::Request(Args { bytes: input, spans }, found.len)
    }
}

/// The spans of a request with at most 99 arguments of at most 9,999 bytes, and its length; `None`
/// when it is not whole or not of this form.
fn parse_fast_path(input: &[u8], spans: &mut Vec<Span>) -> Option<usize> {
    let (count, mut at) = short_number(input, 0, b'*', 2)?;
    spans.reserve(count);
    for _ in 0..count {
        let (length, start) = short_number(input, at, b'$', 4)?;
        let end = start + length;
        if input.get(end..end + 2)? != b"\r\n" {
            return None;
        }
        spans.push((start, end));
        at = end + 2;
    }
    (count > 0).then_some(at)
}

/// The number of a line such as `$12`, of at most `most_digits`, and where the next line begins.
#[inline(always)]
fn short_number(input: &[u8], at: usize, kind: u8, most_digits: usize) -> Option<(usize, usize)> {
    // Nearly all lines are of one digit or two.
    if let Some(&[first, tens, ones, third, fourth]) = input.get(at..at + 5) {
        let digit = tens.wrapping_sub(b'0');
        if first == kind && digit < 10 && [ones, third] == *b"\r\n" {
            return Some((usize::from(digit), at + 4));
        }
        let unit = ones.wrapping_sub(b'0');
        if first == kind && digit.wrapping_sub(1) < 9 && unit < 10 && [third, fourth] == *b"\r\n" {
            return Some((usize::from(digit) * 10 + usize::from(unit), at + 5));
        }
    }
    longer_number(input, at, kind, most_digits)
}

/// As [`short_number`], digit by digit.
#[cold]
fn longer_number(input: &[u8], at: usize, kind: u8, most_digits: usize) -> Option<(usize, usize)> {
    let line = input.get(at..)?;
    if *line.first()? != kind {
        return None;
    }
    let mut value = 0;
    for (index, byte) in line[1..].iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_end = *byte == b'\r' && line.get(index + 2) == Some(&b'\n');
            let is_number = index == 1 || (index > 1 && line[1] != b'0');
            return (is_end && is_number).then_some((value, at + index + 3));
        }
        if index == most_digits {
            return None;
        }
        value = value * 10 + usize::from(digit);
    }
    None
}

/// The line that begins at `from`, and where the next one begins.
fn line(input: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let end = from + input[from..].iter().position(|byte| matches!(byte, b'\r' | 0))?;
    (input[end] == b'\r' && end + 1 < input.len()).then(|| (&input[from..end], end + 2))
}

/// Splits an inline request. Gives `false` when a quote is not closed, or is followed by
/// something other than a blank.
fn split_quoted(line: &[u8], unquoted: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return true;
        }
        let start = unquoted.len();
        let used = match word(rest, unquoted) {
            Some(used) => used,
            None => return false,
        };
        spans.push((start, unquoted.len()));
        rest = &rest[used..];
    }
}

/// Copies one word without its quotes and gives how many bytes it took.
fn word(text: &[u8], unquoted: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            byte if is_blank(byte) => break,
            b'"' | b'\'' => {
                at = quoted(text, at + 1, byte, unquoted)?;
                // The closing quote ends the word.
                return text.get(at).is_none_or(|next| is_blank(*next)).then_some(at);
            }
            byte => unquoted.push(byte),
        }
        at += 1;
    }
    Some(at)
}

/// Copies what stands between quotes and gives the place behind the closing one.
fn quoted(text: &[u8], mut at: usize, quote: u8, unquoted: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (text.get(at)?, text.get(at + 1)) {
            (b'\\', Some(b'\'')) if quote == b'\'' => {
                unquoted.push(b'\'');
                at += 2;
            }
            (b'\\', Some(b'x')) if quote == b'"' && hexadecimal(text, at + 2).is_some() => {
                unquoted.extend(hexadecimal(text, at + 2));
                at += 4;
            }
            (b'\\', Some(escaped)) if quote == b'"' => {
                unquoted.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            (byte, _) if *byte == quote => return Some(at + 1),
            (byte, _) => {
                unquoted.push(*byte);
                at += 1;
            }
        }
    }
}

fn hexadecimal(text: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    Some((digit(at)? * 16 + digit(at + 1)?) as u8)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
