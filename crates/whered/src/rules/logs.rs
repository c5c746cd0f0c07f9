//! Packets out of logs: the reader of `whered enrich` in front of `whered match`.
//!
//! Not for captures and for lines and tables that name both addresses (`captures`, `packets`), nor
//! for what a log's columns are called (`log_fields`).
//!
//! ```text
//! stream ── blocks of records ──► columns ──► source, and what else the columns say
//!                                             everything else is unknown (`whered_rules::unknown`)
//! ```
//!
//! Invariants: nothing is assumed of a packet but what its record says. A record without an address
//! is no packet and is counted; a line of another form is one wrong item. Cost: one block of the
//! input, and one record of it decoded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whered_capture::logs::{LogFormat, SkippedLine};
use whered_ip::text::{ListChoice, read_list};
use whered_rules::State;
use whered_rules::unknown::{Fields, PacketField};

use super::flags::MatchArguments;
use super::log_fields::{Builder, Roles};
use super::packets::{Item, PacketSource, Record};
use crate::cli::{Encoding, HeaderChoice, InputFormat};
use crate::enrich::detect::{self, Layout, Wishes};
use crate::enrich::input::Input;
use crate::enrich::split::{Fault, RecordEnd, Scratch, Shape, read_part, record_end, split};
use crate::outcome::Failure;

/// How many bytes of input are read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// What the flags say of a log.
#[derive(Clone, Copy)]
pub(super) struct LogOptions<'a> {
    format: Option<InputFormat>,
    pattern: Option<&'a str>,
    anywhere: bool,
    column: Option<&'a str>,
    header: HeaderChoice,
    list: ListChoice,
    pub(super) encoding: Option<Encoding>,
    pub(super) state: Option<State>,
}

impl<'a> LogOptions<'a> {
    pub(super) fn new(arguments: &'a MatchArguments) -> LogOptions<'a> {
        LogOptions {
            format: arguments.input_format,
            pattern: arguments.pattern.as_deref(),
            anywhere: arguments.anywhere,
            column: arguments.column.as_deref(),
            header: arguments.header,
            list: arguments.list.into(),
            encoding: arguments.encoding,
            state: arguments.state,
        }
    }

    /// Whether the user says that it is a log.
    pub(super) fn are_given(&self) -> bool {
        self.format.is_some() || self.pattern.is_some() || self.anywhere || self.column.is_some()
    }

    /// Whether it may be JSON in other forms than one object a line.
    pub(super) fn may_be_json(&self) -> bool {
        matches!(self.format, None | Some(InputFormat::Ndjson))
            && self.pattern.is_none()
            && !self.anywhere
    }
}

/// The packets of a log.
pub(super) struct LogSource {
    name: String,
    input: Input,
    layout: Layout,
    roles: Roles,
    list: ListChoice,
    state: Option<State>,
    block: Vec<u8>,
    /// Where the next record begins in the block.
    at: usize,
    /// The line that it begins in.
    line: u64,
    scratch: Scratch,
    skipped: SkippedCounts,
}

/// What was passed over.
#[derive(Default)]
struct SkippedCounts {
    comments: u64,
    empty_lines: u64,
    /// Records whose address is not there.
    without_address: u64,
    /// Lines of a system log that are about no packet.
    other_messages: u64,
}

impl LogSource {
    /// A log, if its first bytes are those of one or the user says so; otherwise its input.
    ///
    /// # Errors
    /// A log whose layout cannot be found out, although the user says that it is one.
    pub(super) fn open(
        name: String,
        mut input: Input,
        options: LogOptions<'_>,
    ) -> Result<Result<LogSource, Input>, Failure> {
        if options.format == Some(InputFormat::Parquet) {
            let what =
                "--input-format parquet: Parquet is not read here; allowed: a log, CSV or NDJSON";
            return Err(Failure::Message(what.to_owned()));
        }
        let wishes = Wishes {
            format: options.format,
            column: options.column,
            header: options.header,
            pattern: options.pattern,
            anywhere: options.anywhere,
        };
        let (first, is_all) = input.first_bytes().map_err(Failure::Message)?;
        let detected = detect::detect(&wishes, first, is_all);
        let layout = match detected {
            Ok(layout) if options.are_given() || is_log(&layout) => layout,
            Err(what) if options.are_given() => {
                return Err(Failure::Message(format!("{name}: {what}")));
            }
            _ => return Ok(Err(input)),
        };
        let before = layout.cut_bytes + layout.header_bytes;
        let lines = memchr::memchr_iter(b'\n', first.get(..before).unwrap_or_default()).count();
        input.take_header(&layout);
        let roles = Roles::of(&layout, options.pattern);
        Ok(Ok(LogSource {
            name,
            input,
            layout,
            roles,
            list: options.list,
            state: options.state,
            block: Vec::new(),
            at: 0,
            line: lines as u64 + 1,
            scratch: Scratch::default(),
            skipped: SkippedCounts::default(),
        }))
    }

    /// Goes past the next record; gives its ends and its line.
    fn advance(&mut self) -> Result<Option<(usize, RecordEnd, u64)>, Failure> {
        while self.at >= self.block.len() {
            let read = self.input.next_block(&self.layout, BLOCK_BYTES, &mut self.block);
            if !read.map_err(Failure::Message)? {
                return Ok(None);
            }
            self.at = 0;
        }
        let start = self.at;
        let Some(end) = record_end(&self.layout.shape, &self.block, start, true) else {
            return Ok(None);
        };
        let line = self.line;
        let whole = self.block.get(start..end.next).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', whole).count() as u64;
        self.at = end.next;
        Ok(Some((start, end, line)))
    }

    /// A record's packet; nothing if it is passed over.
    fn item(&mut self, start: usize, end: RecordEnd, line: u64) -> Result<Option<Item>, Failure> {
        let shape = &self.layout.shape;
        let content = start..end.content;
        let text = self.block.get(content.clone()).unwrap_or_default();
        if let Shape::Columns(columns) = shape {
            match columns.passed(text) {
                None => {}
                Some(SkippedLine::Empty) => {
                    self.skipped.empty_lines += 1;
                    return Ok(None);
                }
                Some(SkippedLine::Comment) => {
                    self.skipped.comments += 1;
                    return Ok(None);
                }
                Some(SkippedLine::OtherHeader) => {
                    let what = "the columns change here: allowed is a log of the same columns";
                    return Err(Failure::Message(format!("{}:{line}: {what}", self.name)));
                }
            }
        }
        let mut parts = Vec::new();
        let place = match split(shape, &self.block, content, &mut parts, &mut self.scratch) {
            Ok(place) => place,
            Err(Fault::EmptyLine) => {
                self.skipped.empty_lines += 1;
                return Ok(None);
            }
            Err(Fault::NoAddress | Fault::NoSuchMember) => {
                self.skipped.without_address += 1;
                return Ok(None);
            }
            Err(Fault::NotALogLine) if is_netfilter(shape) => {
                self.skipped.other_messages += 1;
                return Ok(None);
            }
            Err(fault) => {
                let what = fault.text();
                let wrong = format!("{}:{line}: found {what}: allowed is a record", self.name);
                return Ok(Some(Item::Wrong(wrong)));
            }
        };
        let address = self.block.get(place).unwrap_or_default();
        let source = read_list(address, self.list).or_else(|| read_part(shape, address, self.list));
        let Some(source) = source.map(|source| source.to_canonical()) else {
            self.skipped.without_address += 1;
            return Ok(None);
        };
        let mut builder = Builder::new(source);
        builder.set_source_text(&self.roles, address);
        let read = self.roles.read(&self.block, text, &parts, &mut builder);
        if let Err((found, allowed)) = read {
            let found: String = found.chars().take(60).collect();
            let found = found.escape_debug();
            let wrong = format!("{}:{line}: found '{found}': allowed is {allowed}", self.name);
            return Ok(Some(Item::Wrong(wrong)));
        }
        if let Some(state) = self.state {
            builder.packet.state = state;
            builder.unknown = builder.unknown.without(PacketField::State);
        }
        Ok(Some(Item::Packet(builder.record(line))))
    }
}

impl PacketSource for LogSource {
    fn next(&mut self) -> Result<Option<Item>, Failure> {
        while let Some((start, end, line)) = self.advance()? {
            if let Some(item) = self.item(start, end, line)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn may_wait(&self) -> bool {
        self.at >= self.block.len()
    }

    fn remarks(&self) -> Vec<String> {
        let SkippedCounts { comments, empty_lines, without_address, other_messages } = self.skipped;
        let cut_lines = self.input.cut_lines().load(Ordering::Relaxed);
        let counts = [
            (comments, "comments"),
            (empty_lines, "empty lines"),
            (cut_lines, "cut lines"),
            (without_address, "records without an address"),
            (other_messages, "messages about no packet"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        match counts.is_empty() {
            true => Vec::new(),
            false => vec![format!("{}: skipped: {}", self.name, counts.join(", "))],
        }
    }
}

/// Whether a layout is surely that of a log or of objects. Tables are read by their columns, and of
/// other text nobody knows what it is.
fn is_log(layout: &Layout) -> bool {
    match &layout.shape {
        Shape::Log { .. } | Shape::Columns(_) | Shape::Ndjson { .. } => true,
        Shape::Csv { .. } | Shape::Tsv { .. } => false,
    }
}

fn is_netfilter(shape: &Shape) -> bool {
    matches!(shape, Shape::Columns(columns) if columns.format() == Some(LogFormat::Netfilter))
}

impl Builder {
    /// The packet, and the fields that nobody told.
    fn record(self, number: u64) -> Record {
        let Builder { packet, unknown, input, output, details, bytes } = self;
        Record { number, packet, unknown, input, output, details, bytes }
    }
}

/// Nothing is unknown of the packets of other sources.
pub(super) const ALL_KNOWN: Fields = Fields::NONE;

/// The names of interfaces are shared by packets.
pub(super) fn shared(text: &[u8]) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(text).as_ref())
}
