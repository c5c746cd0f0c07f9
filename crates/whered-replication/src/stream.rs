//! The commands that a primary sends behind its dump, each with the offset behind it.
//!
//! For: whole units of them: a command, or all from `MULTI` to `EXEC`. Not for: what they mean.
//!
//! ```text
//! waiting:  *3..zadd k 1 m│*1..MULTI│*3..zadd..│*3..zadd..│*1..EXEC│*2..del ...
//!           ╰─── unit ───╯╰────────────── unit ──────────────────╯╰ not whole yet
//! offset ─> counts every byte of the connection, those that were passed over too
//! ```
//!
//! A position may only be kept between two units: a replica that goes on from there would see half
//! of a transaction otherwise. Arguments longer than [`LONG_BYTES`] of commands that have no use
//! for them are passed over as they come, so that a string of 512 MB takes no memory here.
//!
//! Invariants: what was parsed is not parsed again while a unit is incomplete; nothing is allocated
//! for a size that is only claimed; a unit takes at most [`UNIT_BYTES_MAX`], with what is noted of
//! its commands and arguments.

use std::ops::Range;
use std::time::Duration;

use crate::connection::Connection;
use crate::error::LinkError;

/// Longer arguments can be passed over.
pub const LONG_BYTES: usize = 64 << 10;
/// The most that a unit takes in memory: what Redis allows a client's request.
pub const UNIT_BYTES_MAX: usize = 1 << 30;
/// The longest argument, as Redis has it by default.
const ARGUMENT_BYTES_MAX: usize = 512 << 20;
/// The longest line before an argument: a letter, ten digits and its end, with room.
const LINE_BYTES_MAX: usize = 32;

/// Where an argument begins and ends in a batch's bytes.
pub type Span = (usize, usize);

/// Whether the long arguments of a command with this name are passed over.
pub type PassesOver = fn(&[u8]) -> bool;

/// A part of the stream's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'s> {
    /// These bytes.
    Bytes(&'s [u8]),
    /// This number of bytes was passed over.
    PassedOver(u64),
}

/// The commands of a primary.
pub struct CommandStream {
    connection: Connection,
    passes_over: PassesOver,
    /// The offset of the first byte that is waiting, counted as the primary does.
    offset: i64,
    parsed: ParseState,
}

/// What is known of the bytes that are waiting.
#[derive(Default)]
struct ParseState {
    /// How far they are parsed.
    position: usize,
    /// Bytes that came before that place and were passed over.
    passed: u64,
    /// Bytes that are still to come and will be passed over.
    to_pass: u64,
    /// Arguments that are missing of the present command.
    missing: usize,
    /// The length of the argument that is coming in.
    coming: Option<usize>,
    spans: Vec<Span>,
    /// Where long arguments were passed over, and how long they were.
    gaps: Vec<(usize, u64)>,
    commands: Vec<CommandSpan>,
    /// How many of them are in whole units.
    whole: usize,
    is_in_transaction: bool,
    present: Present,
}

/// The command that is coming in.
#[derive(Clone, Copy, Default)]
struct Present {
    first_span: usize,
    is_cut: bool,
}

/// A command among those of a batch.
#[derive(Clone)]
struct CommandSpan {
    spans: Range<usize>,
    end: usize,
    /// Bytes of the connection from the batch's first one to the command's last one.
    sent: u64,
    is_cut: bool,
}

/// Whole units.
#[derive(Clone, Copy)]
pub struct Batch<'s> {
    bytes: &'s [u8],
    spans: &'s [Span],
    gaps: &'s [(usize, u64)],
    commands: &'s [CommandSpan],
    offset: i64,
}

/// A command, or `MULTI` or `EXEC` around some.
#[derive(Clone, Copy)]
pub struct StreamCommand<'s> {
    /// What the spans point into.
    pub bytes: &'s [u8],
    /// The arguments; the first is the command's name.
    pub spans: &'s [Span],
    /// Whether a long argument was passed over, which is empty now.
    pub is_cut: bool,
    /// Where those of the batch were, and how long.
    gaps: &'s [(usize, u64)],
    /// The offset of the command's last byte: the position after it.
    pub offset: i64,
}

impl<'s> StreamCommand<'s> {
    /// An argument, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'s [u8]> {
        let (start, end) = *self.spans.get(index)?;
        Some(&self.bytes[start..end])
    }

    /// Whether this argument was passed over. One that was empty from the beginning was not.
    #[must_use]
    pub fn is_passed_over(&self, index: usize) -> bool {
        let is_gap = |start| self.gaps.binary_search_by_key(&start, |(place, _)| *place).is_ok();
        self.spans.get(index).is_some_and(|(start, _)| is_gap(*start))
    }
}

impl<'s> Batch<'s> {
    /// How many commands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command of an index, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<StreamCommand<'s>> {
        let place = self.commands.get(index)?;
        Some(StreamCommand {
            bytes: self.bytes,
            spans: &self.spans[place.spans.clone()],
            is_cut: place.is_cut,
            gaps: self.gaps,
            offset: self.offset + place.sent as i64,
        })
    }

    /// The commands in order.
    pub fn commands(&self) -> impl Iterator<Item = StreamCommand<'s>> + use<'s> {
        let batch = *self;
        (0..batch.len()).filter_map(move |index| batch.get(index))
    }

    /// How many bytes they take here.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.commands.last().map_or(0, |last| last.end)
    }

    /// The bytes of the first `count` commands, as they came.
    pub fn pieces(&self, count: usize) -> impl Iterator<Item = Piece<'s>> + use<'s> {
        let Batch { bytes, gaps, .. } = *self;
        let last = count.checked_sub(1).and_then(|last| self.commands.get(last));
        let end = last.map_or(0, |last| last.end);
        let gaps = &gaps[..gaps.partition_point(|(place, _)| *place < end)];
        let starts = std::iter::once(0).chain(gaps.iter().map(|(place, _)| *place));
        let ends = gaps.iter().copied().chain([(end, 0)]);
        starts.zip(ends).flat_map(move |(start, (end, passed))| {
            [Piece::Bytes(&bytes[start..end]), Piece::PassedOver(passed)]
        })
    }

    /// The position behind all of them.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.offset + self.commands.last().map_or(0, |place| place.sent as i64)
    }
}

impl CommandStream {
    /// The commands behind an offset: that of a dump, or of the position that is gone on from.
    #[must_use]
    pub fn new(connection: Connection, offset: i64, passes_over: PassesOver) -> CommandStream {
        CommandStream { connection, passes_over, offset, parsed: ParseState::default() }
    }

    /// The connection, to acknowledge.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The position behind everything that was accepted.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The next whole units of about `commands_max` commands: those that are here, or those
    /// that come within a time. They come again until they are accepted. Empty: none is whole.
    ///
    /// # Errors
    /// The connection ends, or what comes is no command.
    pub fn next_batch(
        &mut self,
        longest: Duration,
        commands_max: usize,
    ) -> Result<Batch<'_>, LinkError> {
        self.parse(commands_max)?;
        if self.parsed.whole == 0 && self.connection.fill(longest)? {
            self.parse(commands_max)?;
        }
        let ParseState { spans, gaps, commands, whole, .. } = &self.parsed;
        let bytes = self.connection.waiting();
        Ok(Batch { bytes, spans, gaps, commands: &commands[..*whole], offset: self.offset })
    }

    /// Whether the last batch comes again, since it was not accepted yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.parsed.whole > 0
    }

    /// The offset behind everything that has come.
    #[must_use]
    pub fn received(&self) -> i64 {
        let ParseState { position, passed, .. } = self.parsed;
        let unparsed = self.connection.waiting().len() - position;
        self.offset + position as i64 + passed as i64 + unparsed as i64
    }

    /// The first `count` commands of the last batch are done with; they end a unit.
    ///
    /// # Panics
    /// When the batch has fewer.
    pub fn accept(&mut self, count: usize) {
        assert!(count <= self.parsed.whole, "more is accepted than was given");
        let Some(last) = count.checked_sub(1).map(|last| self.parsed.commands[last].clone()) else {
            return;
        };
        self.offset += last.sent as i64;
        self.connection.take(last.end);
        self.parsed.rebase(count, &last);
    }

    fn parse(&mut self, commands_max: usize) -> Result<(), LinkError> {
        loop {
            let is_enough = self.parsed.whole >= commands_max.max(1);
            if is_enough || !self.step()? {
                return Ok(());
            }
        }
    }

    /// Parses a line or an argument; `false` if it has not come yet.
    fn step(&mut self) -> Result<bool, LinkError> {
        self.pass_over();
        let parsed = &mut self.parsed;
        if parsed.to_pass > 0 {
            return Ok(false);
        }
        let waiting = self.connection.waiting();
        if parsed.size_bytes() > UNIT_BYTES_MAX {
            let what = format!(
                "sends a command or transaction that takes more than {UNIT_BYTES_MAX} bytes"
            );
            return Err(LinkError::in_the_way(self.connection.name(), what));
        }
        let name = self.connection.name();
        if parsed.missing == 0 {
            return parsed.begin(waiting).map_err(|what| LinkError::new(name, what));
        }
        let Some(length) = parsed.coming else {
            return parsed
                .measure(waiting, self.passes_over)
                .map_err(|what| LinkError::new(name, what));
        };
        if waiting.len() - parsed.position < length + 2 {
            return Ok(false);
        }
        if &waiting[parsed.position + length..][..2] != b"\r\n" {
            return Err(LinkError::new(name, "sends an argument of another length than it says"));
        }
        parsed.spans.push((parsed.position, parsed.position + length));
        parsed.position += length + 2;
        parsed.end_argument(waiting);
        Ok(true)
    }

    /// Passes over what has come of a long argument.
    fn pass_over(&mut self) {
        let parsed = &mut self.parsed;
        if parsed.to_pass == 0 {
            return;
        }
        let here = self.connection.waiting().len() - parsed.position;
        let here = here.min(usize::try_from(parsed.to_pass).unwrap_or(usize::MAX));
        self.connection.cut(parsed.position, here);
        parsed.to_pass -= here as u64;
        parsed.passed += here as u64;
        if parsed.to_pass == 0 {
            // Its end follows, as that of an argument without bytes.
            parsed.coming = Some(0);
        }
    }
}

impl ParseState {
    /// What the parsed bytes take, and what is noted of them.
    fn size_bytes(&self) -> usize {
        let spans = self.spans.len() * size_of::<Span>();
        let gaps = self.gaps.len() * size_of::<(usize, u64)>();
        let commands = self.commands.len() * size_of::<CommandSpan>();
        self.position + spans + gaps + commands
    }

    /// The line `*count`, or an empty line, which some primaries send to show that they live. In a
    /// transaction such a line belongs to the next command.
    fn begin(&mut self, waiting: &[u8]) -> Result<bool, String> {
        let Some((line, next)) = line(waiting, self.position)? else {
            return Ok(false);
        };
        self.present = Present { first_span: self.spans.len(), is_cut: false };
        if line.is_empty() {
            self.position = next;
            if !self.is_in_transaction {
                self.end_command(waiting);
            }
            return Ok(true);
        }
        let count = line.strip_prefix(b"*").and_then(number);
        let Some(count) = count.filter(|count| (1..=i32::MAX as usize).contains(count)) else {
            return Err(format!("sends '{}' where a command begins", line.escape_ascii()));
        };
        self.position = next;
        self.missing = count;
        Ok(true)
    }

    /// The line `$length`.
    fn measure(&mut self, waiting: &[u8], passes_over: PassesOver) -> Result<bool, String> {
        let Some((line, next)) = line(waiting, self.position)? else {
            return Ok(false);
        };
        let length = line.strip_prefix(b"$").and_then(number);
        let Some(length) = length.filter(|length| *length <= ARGUMENT_BYTES_MAX) else {
            return Err(format!("sends '{}' where an argument begins", line.escape_ascii()));
        };
        self.position = next;
        let name = self.spans.get(self.present.first_span);
        let can_pass = |(start, end): &Span| passes_over(&waiting[*start..*end]);
        if length > LONG_BYTES && name.is_some_and(can_pass) {
            self.present.is_cut = true;
            self.gaps.push((self.position, length as u64));
            self.to_pass = length as u64;
        } else {
            self.coming = Some(length);
        }
        Ok(true)
    }

    fn end_argument(&mut self, waiting: &[u8]) {
        self.coming = None;
        self.missing -= 1;
        if self.missing == 0 {
            self.end_command(waiting);
        }
    }

    fn end_command(&mut self, waiting: &[u8]) {
        let spans = self.present.first_span..self.spans.len();
        let is = |word: &[u8]| {
            let name = self.spans.get(spans.start).map(|(start, end)| &waiting[*start..*end]);
            spans.len() == 1 && name.is_some_and(|name| name.eq_ignore_ascii_case(word))
        };
        let is_in_transaction = match self.is_in_transaction {
            true => !is(b"exec"),
            false => is(b"multi"),
        };
        self.is_in_transaction = is_in_transaction;
        let sent = self.position as u64 + self.passed;
        let is_cut = self.present.is_cut;
        self.commands.push(CommandSpan { spans, end: self.position, sent, is_cut });
        if !is_in_transaction {
            self.whole = self.commands.len();
        }
    }

    /// Forgets the first commands, which ended with `last`, and counts from there.
    fn rebase(&mut self, count: usize, last: &CommandSpan) {
        let spans_gone = last.spans.end;
        self.commands.drain(..count);
        self.spans.drain(..spans_gone);
        self.gaps.retain(|(place, _)| *place >= last.end);
        self.gaps.iter_mut().for_each(|(place, _)| *place -= last.end);
        for (start, end) in &mut self.spans {
            *start -= last.end;
            *end -= last.end;
        }
        for place in &mut self.commands {
            place.spans = place.spans.start - spans_gone..place.spans.end - spans_gone;
            place.end -= last.end;
            place.sent -= last.sent;
        }
        let passed_before = last.sent - last.end as u64;
        self.passed -= passed_before;
        self.position -= last.end;
        self.present.first_span = self.present.first_span.saturating_sub(spans_gone);
        self.whole -= count;
    }
}

/// The line at a place and where the next one begins; `None` if it has not ended yet.
fn line(waiting: &[u8], place: usize) -> Result<Option<(&[u8], usize)>, String> {
    let rest = &waiting[place..];
    let window = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &window[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), place + end + 1)))
        }
        None if window.len() == LINE_BYTES_MAX => {
            Err(format!("sends '{}' where a line is expected", window.escape_ascii()))
        }
        None => Ok(None),
    }
}

/// Digits as a number.
fn number(digits: &[u8]) -> Option<usize> {
    let all = !digits.is_empty() && digits.len() <= 10 && digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_unit_takes_counts_its_arguments_and_commands_too() {
        let said = b"*1\r\n$5\r\nMULTI\r\n*2\r\n$0\r\n\r\n$0\r\n\r\n";
        let mut parsed = ParseState::default();
        while parsed.position < said.len() {
            match (parsed.missing, parsed.coming) {
                (0, _) => assert_eq!(parsed.begin(said), Ok(true)),
                (_, None) => assert_eq!(parsed.measure(said, |_| false), Ok(true)),
                (_, Some(length)) => {
                    parsed.spans.push((parsed.position, parsed.position + length));
                    parsed.position += length + 2;
                    parsed.end_argument(said);
                }
            }
        }
        assert_eq!((parsed.commands.len(), parsed.spans.len(), parsed.whole), (2, 3, 0));
        let noted = 3 * size_of::<Span>() + 2 * size_of::<CommandSpan>();
        assert_eq!(parsed.size_bytes(), said.len() + noted);
    }
}
