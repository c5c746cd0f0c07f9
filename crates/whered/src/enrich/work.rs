//! A worker: one block of whole records in, the same records with their fields out.
//!
//! Not for threads and order, which `pipeline` has, nor for files. A block is gone through in
//! batches of [`BATCH`] records, so that what a batch needs stays in the nearest caches: split them
//! all, parse all addresses, look all of them up in each database, then write.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use whered_ip::text::{self, ListChoice};

use super::additions::Additions;
use super::addresses::Addresses;
use super::cells::{Cells, Entry};
use super::find::{DatabaseSnapshot, Finder};
use super::split::{Fault, Scratch, Shape, json, read_part, record_end, split};
use super::write::{Body, Record, Style, line_end};
use whered_capture::logs::SkippedLine;

/// How many records are worked on together.
const BATCH: usize = 256;

/// What every worker does, decided once.
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) body: Body,
    pub(crate) style: Style,
    pub(crate) additions: Arc<Additions>,
}

/// What became of records.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) found: u64,
    pub(crate) not_found: u64,
    /// IPv4 and IPv6 addresses that no database covers.
    pub(crate) uncovered: [u64; 2],
    pub(crate) bad: u64,
    /// Comments and empty lines, which are no records.
    pub(crate) comments: u64,
    pub(crate) empty_lines: u64,
    /// First lines that a rotation has cut.
    pub(crate) cut_lines: u64,
    /// The first bad one, counted from 0.
    pub(crate) first_bad: Option<(u64, Fault)>,
}

impl Counts {
    pub(crate) fn total(&self) -> u64 {
        self.found + self.not_found + self.uncovered.iter().sum::<u64>() + self.bad
    }

    /// Adds what became of the records that follow.
    pub(crate) fn add(&mut self, next: &Counts) {
        let before = self.total();
        self.first_bad = self.first_bad.or(next.first_bad.map(|(at, fault)| (before + at, fault)));
        self.found += next.found;
        self.not_found += next.not_found;
        for (sum, more) in self.uncovered.iter_mut().zip(next.uncovered) {
            *sum += more;
        }
        self.bad += next.bad;
        self.comments += next.comments;
        self.empty_lines += next.empty_lines;
    }

    /// Counts one more record.
    pub(crate) fn count(&mut self, fault: Option<Fault>, has_value: bool) {
        match fault {
            Some(Fault::UncoveredIpv4) => self.uncovered[0] += 1,
            Some(Fault::UncoveredIpv6) => self.uncovered[1] += 1,
            Some(fault) => {
                self.first_bad = self.first_bad.or(Some((self.total(), fault)));
                self.bad += 1;
            }
            None if has_value => self.found += 1,
            None => self.not_found += 1,
        }
    }
}

/// One record of a batch.
pub(crate) struct Line {
    content: Range<usize>,
    next: usize,
    /// Its parts' places in the batch's list.
    parts: Range<usize>,
    pub(crate) fault: Option<Fault>,
}

/// The state of one worker.
pub(crate) struct Worker {
    plan: Arc<Plan>,
    segments: Vec<Cells>,
    entries: Vec<Vec<Entry>>,
    batch: Batch,
}

/// A batch's records and addresses; the vectors are used again for the next one.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<Line>,
    parts: Vec<Range<usize>>,
    places: Vec<Range<usize>>,
    scratch: Scratch,
    parsed: Vec<Option<u32>>,
    addresses: Addresses,
    comments: u64,
    empty_lines: u64,
    /// For each finder, the keys of all lines.
    pub(crate) keys: Vec<Vec<u32>>,
}

impl Worker {
    pub(crate) fn new(plan: Arc<Plan>) -> Worker {
        let segments = Cells::segments(&plan.additions.columns, &plan.additions.finders);
        let entries = segments.iter().map(|_| Vec::new()).collect();
        Worker { plan, segments, entries, batch: Batch::default() }
    }

    /// Appends the records of a block to `out`; gives what became of them.
    ///
    /// # Errors
    /// A fault of a database.
    pub(crate) fn run(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<Counts, String> {
        let plan = self.plan.clone();
        let views: Vec<DatabaseSnapshot<'_>> =
            plan.additions.finders.iter().map(Finder::view).collect();
        let mut counts = Counts::default();
        let mut start = 0;
        while start < block.len() {
            start = self.batch.take(&plan.shape, &plan.additions, &views, block, start)?;
            for (segment, entries) in self.segments.iter_mut().zip(&mut self.entries) {
                let view = views.get(segment.finder);
                if let (Some(view), Some(keys)) = (view, self.batch.keys.get(segment.finder)) {
                    segment.resolve(view, plan.style, keys, entries)?;
                }
            }
            counts.add(&self.write(block, out));
            counts.add(&self.batch.take_passed());
        }
        Ok(counts)
    }

    fn write(&self, block: &[u8], out: &mut Vec<u8>) -> Counts {
        let Plan { body, style, additions, .. } = &*self.plan;
        let mut counts = Counts::default();
        for (slot, line) in self.batch.lines.iter().enumerate() {
            let record = self.batch.record(line, block);
            body.write(&record, *style, out);
            let fields = out.len();
            let mut has_value = false;
            for (segment, entries) in self.segments.iter().zip(&self.entries) {
                if let Some(entry) = entries.get(slot) {
                    has_value |= entry.has_value();
                    out.extend_from_slice(segment.text(*entry));
                }
            }
            let fault = line.fault.filter(|_| !self.has_fault_member(line, block));
            style.write_fault(&additions.fault_name, fault.map(Fault::text), out);
            if *style == Style::Json && fields > 0 && out.get(fields - 1) == Some(&b'{') {
                // An empty object has no member that the first field's comma could follow.
                out.remove(fields);
            }
            body.write_end(line_end(block, line.content.end, line.next), out);
            counts.count(line.fault, has_value);
        }
        counts
    }
}

impl Worker {
    /// Whether an object has the fault of an earlier run, which stays.
    fn has_fault_member(&self, line: &Line, block: &[u8]) -> bool {
        let Plan { body: Body::Object, additions, .. } = &*self.plan else { return false };
        let name = additions.fault_name.as_bytes();
        json::has_member(block, line.content.clone(), name)
    }
}

impl Batch {
    /// Takes the next records of a block and looks their addresses up; gives where the record
    /// behind them begins.
    ///
    /// # Errors
    /// A fault of a database.
    pub(crate) fn take(
        &mut self,
        shape: &Shape,
        additions: &Additions,
        views: &[DatabaseSnapshot<'_>],
        block: &[u8],
        start: usize,
    ) -> Result<usize, String> {
        let next = self.split(shape, block, start)?;
        self.parse(shape, block, additions.list);
        self.note_uncovered(additions.covered);
        if additions.is_without_lookups {
            self.addresses.clear();
        }
        self.addresses.find(views, self.lines.len(), &mut self.keys)?;
        Ok(next)
    }

    /// A record of the batch that was taken out of `block`.
    pub(crate) fn record<'a>(&'a self, line: &Line, block: &'a [u8]) -> Record<'a> {
        Record {
            bytes: block,
            content: line.content.clone(),
            parts: self.parts.get(line.parts.clone()).unwrap_or_default(),
            fault: line.fault,
        }
    }

    /// Takes the next records; gives where the one behind them begins.
    fn split(&mut self, shape: &Shape, block: &[u8], mut start: usize) -> Result<usize, String> {
        self.lines.clear();
        self.parts.clear();
        self.places.clear();
        while self.lines.len() < BATCH && start < block.len() {
            let Some(end) = record_end(shape, block, start, true) else { break };
            let content = start..end.content;
            if self.passes_over(shape, block.get(content.clone()).unwrap_or_default())? {
                start = end.next;
                continue;
            }
            let first = self.parts.len();
            let address = split(shape, block, content.clone(), &mut self.parts, &mut self.scratch);
            let fault = address.as_ref().err().copied();
            self.places.push(address.unwrap_or(0..0));
            let parts = first..self.parts.len();
            self.lines.push(Line { content, next: end.next, parts, fault });
            start = end.next;
        }
        Ok(start)
    }

    /// Counts a line of a log that is no record.
    ///
    /// # Errors
    /// A header that names other columns than the first one.
    fn passes_over(&mut self, shape: &Shape, line: &[u8]) -> Result<bool, String> {
        let Shape::Columns(columns) = shape else { return Ok(false) };
        match columns.passed(line) {
            None => return Ok(false),
            Some(SkippedLine::Empty) => self.empty_lines += 1,
            Some(SkippedLine::Comment) => self.comments += 1,
            Some(SkippedLine::OtherHeader) => {
                let line = String::from_utf8_lossy(line);
                let shown: String = line.chars().take(80).collect();
                return Err(format!(
                    "the columns change at the line {}; allowed: files of the same columns",
                    shown.escape_debug()
                ));
            }
        }
        Ok(true)
    }

    /// How many comments and empty lines were passed over since the last call.
    pub(crate) fn take_passed(&mut self) -> Counts {
        let comments = std::mem::take(&mut self.comments);
        let empty_lines = std::mem::take(&mut self.empty_lines);
        Counts { comments, empty_lines, ..Counts::default() }
    }

    /// Reads all addresses, and sorts them by family.
    fn parse(&mut self, shape: &Shape, block: &[u8], list: ListChoice) {
        self.parsed.clear();
        self.parsed.resize(self.places.len(), None);
        text::parse4_batch_within(block, &self.places, &mut self.parsed);
        self.addresses.clear();
        for (slot, parsed) in self.parsed.iter().enumerate() {
            let (Some(line), Some(place)) = (self.lines.get_mut(slot), self.places.get(slot))
            else {
                continue;
            };
            if let Some(address) = parsed {
                self.addresses.push4(slot, *address);
                continue;
            }
            if line.fault.is_some() {
                continue;
            }
            match other_address(shape, block, place, list) {
                Some(address) => self.addresses.push(slot, address),
                None => line.fault = Some(Fault::NoAddress),
            }
        }
    }

    /// Notes the records whose addresses no database covers.
    fn note_uncovered(&mut self, covered: [bool; 2]) {
        let lines = &mut self.lines;
        self.addresses.each_uncovered(covered, |slot, fault| {
            if let Some(line) = lines.get_mut(slot) {
                line.fault = Some(fault);
            }
        });
    }
}

/// Reads what is no plain dotted decimal: IPv6, an address in quotes or with something around it,
/// or a list of them. An IPv4-mapped address is the IPv4 address.
fn other_address(
    shape: &Shape,
    block: &[u8],
    place: &Range<usize>,
    list: ListChoice,
) -> Option<IpAddr> {
    if let Some(address) = text::parse6_within(block, place) {
        return Some(IpAddr::V6(address.into()).to_canonical());
    }
    read_part(shape, block.get(place.clone())?, list)
}
